"""Tools, compilers and devices of this machine, and the cost of each missing one."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from inspector.base.errors import Exit, UsageError
from inspector.recording.layout import recordings_folder, user_cache
from inspector.report.jsons import SCHEMA, dumps
from inspector.system import printing, toolchain
from inspector.system.toolchain import PURPOSE, Tool, every


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``doctor``."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--python", metavar="PATH", help="interpreter of your programs")


def examine(asked: str | None) -> dict[str, Any]:
    """Everything that ptxview may need, found or not."""
    python = toolchain.interpreter(asked)
    if asked is not None and shutil.which(python) is None:
        raise UsageError(f"{python} cannot be started", "Give the path of a Python interpreter.")
    tools: list[dict[str, object]] = []
    for name, (purpose, remedy) in PURPOSE.items():
        found: list[Tool] = list(every(name))
        tools.append(
            {
                "name": name,
                "found": [{**asdict(t), "path": str(t.path)} for t in found],
                "for": purpose,
                "get": remedy,
            }
        )
    library = toolchain.driver_library()
    return {
        "schema": SCHEMA,
        "tools": tools,
        "python": {"path": python, **toolchain.versions(python)},
        "compilers": {n: shutil.which(n) for n in ("cc", "g++", "ninja")},
        "driver_library": None if library is None else str(library),
        "gpu": toolchain.nvidia_smi() if toolchain.gpu_present() else None,
        "gpu_present": toolchain.gpu_present(),
        "folders": {"recordings": str(recordings_folder()), "cache": str(user_cache())},
        "terminal": {"TERM": os.environ.get("TERM"), "COLORTERM": os.environ.get("COLORTERM")},
    }


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Print tools, compilers and devices."""
    args = parser.parse_args(argv)
    report = examine(args.python)
    if args.json:
        printing.json_line(dumps(report))
        return Exit.OK
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for tool in report["tools"]:
        places = tool["found"]
        if places:
            first = places[0]
            more = f", and {len(places) - 1} more" if len(places) > 1 else ""
            table.add_row(
                str(tool["name"]),
                Text("found", style="green"),
                Text(f"{first['version'] or ''} {first['path']} ({first['found_in']}{more})"),
            )
        else:
            table.add_row(
                str(tool["name"]),
                Text("missing", style="red"),
                Text(f"without it: no {tool['for']}. {tool['get']}"),
            )
    _rest(table, report)
    printing.out().print(table)
    return Exit.OK


_MODULES = {
    "torch": "no PyTorch program runs. pip install 'ptxview[run]'",
    "triton": "no Triton kernels, no torch.compile for GPUs. pip install 'ptxview[run]'",
}
_DRIVER = {
    "driver library": "launches at the CUDA driver are not recorded (kernels of libraries, grids "
    "of CUDA C++). apt install gcc, then pip install --force-reinstall --no-deps ptxview"
}
_COMPILERS = {
    "cc": "an installation from source has no driver library. apt install gcc",
    "g++": "load_inline cannot build, nor the emulated device. apt install g++",
    "ninja": "load_inline cannot build. pip install ninja",
}


def _found_or_missing(
    table: Table, places: Mapping[str, object], losses: Mapping[str, str]
) -> None:
    """A row for each name: its version or path, or what cannot be done without it."""
    for name, loss in losses.items():
        place = places.get(name)
        state = Text("found", style="green") if place else Text("missing", style="red")
        table.add_row(name, state, Text(str(place) if place else f"without it: {loss}"))


def _rest(table: Table, report: dict[str, Any]) -> None:
    python = report["python"]
    table.add_row("python", "", Text(f"{python.get('python') or 'unknown'} {python['path']}"))
    _found_or_missing(table, python, _MODULES)
    _found_or_missing(table, report["compilers"], _COMPILERS)
    _found_or_missing(table, {"driver library": report["driver_library"]}, _DRIVER)
    gpu = report["gpu"]
    if isinstance(gpu, dict):
        said = f"{gpu['name']}, compute capability {gpu['compute_cap']}"
        said += f", driver {gpu['driver_version']}"
        table.add_row("GPU", Text("found", style="green"), Text(said))
    elif report["gpu_present"]:
        table.add_row("GPU", Text("found", style="green"), Text("nvidia-smi does not say which"))
    else:
        table.add_row(
            "GPU",
            Text("none", style="yellow"),
            Text(
                "programs run on an emulated device; kernels are compiled for --target, not timed"
            ),
        )
    folders = report["folders"]
    table.add_row("recordings", "", Text(str(folders["recordings"])))
    table.add_row("cache", "", Text(str(folders["cache"])))
