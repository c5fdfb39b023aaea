"""Tools, compilers and devices of this machine, and the cost of each missing one."""

import argparse
import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import asdict
from rich.table import Table
from rich.text import Text

from inspector.base.errors import Exit, UsageError
from inspector.commands.common import JSON, option, print_json, takes
from inspector.recording.layout import recordings_folder, user_cache
from inspector.render.jsons import SCHEMA
from inspector.system import printing, toolchain
from inspector.system.toolchain import PURPOSE, installed_copies


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``doctor``."""
    takes(parser, {"--json": JSON, "--python": option("PATH", "interpreter of your programs")})


def examine(python_option: str | None) -> dict[str, Any]:
    """Everything that ptxview may need, found or not."""
    python = toolchain.interpreter(python_option)
    if python_option is not None and shutil.which(python) is None:
        raise UsageError(f"{python} cannot be started", "Give the path of a Python interpreter.")
    tools: list[dict[str, object]] = []
    for name, (purpose, remedy) in PURPOSE.items():
        installed = [{**asdict(tool), "path": str(tool.path)} for tool in installed_copies(name)]
        tools.append({"name": name, "found": installed, "for": purpose, "get": remedy})
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


LACKS = {
    "torch": "no PyTorch program runs. pip install 'ptxview[run]'",
    "triton": "no Triton kernels, no torch.compile for GPUs. pip install 'ptxview[run]'",
    "cc": "an installation from source has no driver library. apt install gcc",
    "g++": "load_inline cannot build, nor the emulated device. apt install g++",
    "ninja": "load_inline cannot build. pip install ninja",
    "driver library": "launches at the CUDA driver are not recorded (kernels of libraries, grids "
    "of CUDA C++). apt install gcc, then pip install --force-reinstall --no-deps ptxview",
}
"""What is lost without each, and how to get it."""
STYLES = {"found": "green", "missing": "red", "none": "yellow"}


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Print tools, compilers and devices."""
    args = parser.parse_args(argv)
    report = examine(args.python)
    if args.json:
        return print_json(report)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, state, text in _rows(report):
        table.add_row(name, Text(state, style=STYLES.get(state, "")), Text(text))
    printing.out().print(table)
    return Exit.OK


def _rows(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What there is: its name, ``found`` or ``missing``, and where, or the cost."""
    for tool in report["tools"]:
        first, *other_tools = tool["found"] or [None]
        text = f"without it: no {tool['for']}. {tool['get']}"
        if first is not None:
            other_count = f", and {len(other_tools)} more" if other_tools else ""
            text = f"{first['version'] or ''} {first['path']} ({first['found_in']}{other_count})"
        yield tool["name"], "missing" if first is None else "found", text
    python = report["python"]
    yield "python", "", f"{python.get('python') or 'unknown'} {python['path']}"
    places = {**python, **report["compilers"], "driver library": report["driver_library"]}
    for name, loss in LACKS.items():
        place = places.get(name)
        yield name, "found" if place else "missing", str(place or f"without it: {loss}")
    gpu = report["gpu"]
    if isinstance(gpu, dict):
        text = f"{gpu['name']}, compute capability {gpu['compute_cap']}"
        yield "GPU", "found", f"{text}, driver {gpu['driver_version']}"
    elif report["gpu_present"]:
        yield "GPU", "found", "nvidia-smi does not say which"
    else:
        text = "programs run on an emulated device; kernels are compiled for --target, not timed"
        yield "GPU", "none", text
    for name, place in report["folders"].items():
        yield name, "", place
