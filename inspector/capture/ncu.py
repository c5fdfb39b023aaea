"""Finds ncu, has it export reports, and knows what it needs to run a program."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from inspector import files
from inspector.errors import ToolMissing, Unreadable
from inspector.process import run_tool
from inspector.toolchain import find

PAGES = ("details", "raw", "source")
EXPORT_SECONDS = 600.0
COUNTERS = "ERR_NVGPUCTRPERM"
"""What ncu says where the driver gives the GPU's counters to administrators alone."""

_RETURNED = re.compile(r"==ERROR== The application returned an error code \((\d+)\)")
_SAID = re.compile(r"==(ERROR|WARNING)== *(.*)")


def is_report(path: Path) -> bool:
    """Whether a path is, by its name, a report of ncu or an export of one."""
    return path.suffix.lower() in (".csv", ".ncu-rep") and path.is_file()


def texts(path: Path) -> str:
    """The CSV pages of a report, one after another.

    Raises ``Unreadable`` where it cannot be read or is too large, ``ToolMissing`` where it takes
    ncu and there is none.
    """
    if path.suffix.lower() == ".ncu-rep":
        return "\n".join(_exported(path))
    return files.text(path)


def need() -> Path:
    """Where ncu is. Raises ``ToolMissing``."""
    tool = find("ncu")
    if tool is None:
        raise ToolMissing(
            "ncu (Nsight Compute) was not found on this machine",
            "It is part of the CUDA toolkit; set CUDA_HOME or PATH where it is installed.",
        )
    return tool.path


def _exported(path: Path) -> list[str]:
    if not path.is_file():
        raise Unreadable(f"{path} does not exist")
    tool = find("ncu")
    if tool is None:
        raise ToolMissing(
            f"{path} can only be read by ncu, which was not found on this machine: export it as "
            "CSV on one that has it",
            f"ncu --import {path.name} --csv --page details > report.csv  (and --page raw, source)",
        )
    out: list[str] = []
    for page in PAGES:
        done = run_tool(
            [tool.path, "--import", path, "--csv", "--page", page],
            seconds=EXPORT_SECONDS,
            env={**os.environ, "LC_ALL": "C"},  # numbers in English
        )
        # A report without SASS has no source page; the other two every report has.
        if done.status == 0:
            out.append(done.text)
        elif page != "source":
            said = complaints(done.text + "\n" + done.complaint) or [f"status {done.status}"]
            raise Unreadable(f"ncu cannot export {path}: {said[0]}")
    return out


def complaints(log: str) -> list[str]:
    """What ncu complained of, its errors first, each once."""
    found = [(m[1], m[2].strip()) for m in map(_SAID.match, log.splitlines()) if m]
    return list(dict.fromkeys(text for kind in ("ERROR", "WARNING")
                              for said, text in found if said == kind and text))  # fmt: skip


def status_of(log: str, status: int) -> int:
    """The program's own status, where ``status`` is that of ncu: its log tells of any but 0."""
    if found := _RETURNED.search(log):
        return int(found[1])
    return 0 if "==PROF== Disconnected" in log and status < 128 else status


def arguments(
    report: Path,
    log: Path,
    sections: str,
    kernel: str | None,
    count: int,
    skip: int,
    children: bool = False,
) -> list[str]:
    """The options of ncu that work for programs of torch.

    Clocks stay as they are (locking them takes privileges on rented machines, and times would be
    of other clocks than ``ptxview time``'s); compile workers and other children are left alone,
    unless ``children`` are wanted.
    ``log`` takes what ncu says, so that the program keeps its own output. ``kernel`` is a name or
    ``regex:…``.
    """
    out = [
        "--clock-control", "none",
        "--target-processes", "all" if children else "application-only",
        "--set", sections, "--import-source", "yes", "--launch-count", str(count),
        "--force-overwrite", "--export", str(report), "--log-file", str(log),
    ]  # fmt: skip
    if skip:
        out += ["--launch-skip", str(skip)]
    return out + (["--kernel-name", kernel] if kernel is not None else [])


ENVIRONMENT = (("TORCHINDUCTOR_COMPILE_THREADS", "1"),)
"""With Inductor's compile workers ncu hangs."""


def command(ncu: Path, options: Sequence[str], argv: Sequence[str]) -> list[str]:
    """The command that runs ``argv`` under ncu."""
    return [str(ncu), *options, *argv]
