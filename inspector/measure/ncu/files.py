"""Finds and reads reports of ncu: named ones, one beside a recording, or those kept with it."""

from __future__ import annotations

import datetime
import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from inspector.base.errors import PtxviewError, ToolMissing, Unreadable
from inspector.base.model import (
    KERNEL_STAGES,
    Call,
    Kernel,
    Origin,
    Recording,
    Resources,
    Stage,
    StageFile,
    Variant,
)
from inspector.base.names import shortest_ids
from inspector.measure.ncu import export
from inspector.measure.ncu.attach import text_of
from inspector.measure.ncu.export import tables
from inspector.measure.ncu.model import NcuLaunch, Report, joined
from inspector.recording.layout import REPORTS, BytesContent, is_recording, keep, kept
from inspector.system import files
from inspector.system.process import run_tool
from inspector.system.toolchain import find

# -- the program itself ---------------------------------------------------------------------------
# Finds ncu, has it export reports, and knows what it needs to run a program.

PAGES = ("details", "raw", "source")
EXPORT_SECONDS = 600.0
COUNTERS = "ERR_NVGPUCTRPERM"
"""ncu's error if the driver reserves the GPU's counters for administrators."""

_RETURNED = re.compile(r"==ERROR== The application returned an error code \((\d+)\)")
_SAID = re.compile(r"==(ERROR|WARNING)== *(.*)")


def is_report(path: Path) -> bool:
    """Whether a path is, by its name, a report of ncu or an export of one."""
    return path.suffix.lower() in (".csv", ".ncu-rep") and path.is_file()


def texts(path: Path) -> str:
    """The CSV pages of a report, one after another.

    Raises ``Unreadable`` where it cannot be read or is too large, ``ToolMissing`` where it takes
    an ncu that is missing.
    """
    if path.suffix.lower() == ".ncu-rep":
        return "\n".join(_exported(path))
    return files.text(path)


def need() -> Path:
    """The path of ncu. Raises ``ToolMissing``."""
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
            f"LC_ALL=C ncu --import {path.name} --csv --page details > report.csv  "
            "(and --page raw, source)",
        )
    out: list[str] = []
    for page in PAGES:
        done = run_tool(
            [tool.path, "--import", path, "--csv", "--print-units", "base", "--page", page],
            seconds=EXPORT_SECONDS,
            env={**os.environ, "LC_ALL": "C"},
        )
        # A report without SASS has no source page; the other two every report has.
        if done.status == 0:
            out.append(done.text)
        elif page != "source":
            messages = complaints(done.text + "\n" + done.complaint) or [f"status {done.status}"]
            raise Unreadable(f"ncu cannot export {path}: {messages[0]}")
    return out


def complaints(log: str) -> list[str]:
    """ncu's errors and then its warnings in a log, each once."""
    messages = [(m[1], m[2].strip()) for m in map(_SAID.match, log.splitlines()) if m]
    return list(
        dict.fromkeys(
            text
            for kind in ("ERROR", "WARNING")
            for severity, text in messages
            if severity == kind and text
        )
    )


def status_of(log: str, status: int) -> int:
    """The program's exit status from ncu's ``log``, given ncu's own ``status``."""
    if match := _RETURNED.search(log):
        return int(match[1])
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
        "--clock-control",
        "none",
        "--target-processes",
        "all" if children else "application-only",
        "--set",
        sections,
        "--import-source",
        "yes",
        "--launch-count",
        str(count),
        "--force-overwrite",
        "--export",
        str(report),
        "--log-file",
        str(log),
    ]
    if skip:
        out += ["--launch-skip", str(skip)]
    return out + (["--kernel-name", kernel] if kernel is not None else [])


ENVIRONMENT = (("TORCHINDUCTOR_COMPILE_THREADS", "1"),)
"""ncu hangs with Inductor's compile workers."""


def command(ncu: Path, options: Sequence[str], argv: Sequence[str]) -> list[str]:
    """The command that runs ``argv`` under ncu."""
    return [str(ncu), *options, *argv]


BESIDE = "ncu.csv"
SCHEMA = 1


def load(paths: Sequence[Path]) -> Report:
    """The launches of reports; pages of one run in several files complete each other.

    Raises ``Unreadable`` with a sentence on what is wrong, ``ToolMissing`` for an ``.ncu-rep``
    without ncu.
    """
    all_tables = []
    for path in paths:
        if not path.exists():
            raise Unreadable(f"{path} does not exist", "Give a CSV export of ncu, or an .ncu-rep.")
        all_tables += tables(texts(path), str(path))
    return export.together(all_tables, " and ".join(map(str, paths)))


def of_recording(path: Path, named: Sequence[Path] = ()) -> Report:
    """The reports that belong to a recording: those named, else those beside it and kept with it.

    A damaged report that was not named is noted as a problem instead of raised as an error.
    """
    if named:
        return load(named)
    reports: list[Report] = []
    beside = (path / BESIDE) if path.is_dir() else path.with_name(f"{path.name}.{BESIDE}")
    if is_recording(path):
        try:
            # A link in a recording's folder leads out of the recording.
            if beside.is_file() and not (path.is_dir() and beside.is_symlink()):
                reports.append(load([beside]))
            left_out: list[str] = []
            reports += map(_kept, kept(path, REPORTS, left_out.append))
            if left_out:
                reports.append(Report((), (), tuple(left_out)))
        except PtxviewError as error:
            reports.append(Report((), (), (error.message,)))
    return joined(reports)


def _kept(record: dict[str, object]) -> Report:
    text, schema = record.get("csv"), record.get("schema")
    if not isinstance(text, str) or schema != SCHEMA:
        return Report((), (), ("a report of ncu that is kept here is of a newer ptxview",))
    return export.read(text, f"the report of {record.get('taken')}")


def store(path: Path, csv: str, command: Iterable[str]) -> None:
    """Store a report with its recording. Raises ``OSError`` if that is not allowed."""
    taken = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    keep(path, {"schema": SCHEMA, "taken": taken, "command": list(command), "csv": csv}, REPORTS)


# -- alone ----------------------------------------------------------------------------------------


def alone(path: Path, report: Report) -> Recording:
    """A report as a recording: the launched kernels, with machine code if it has any.

    Launches of one name with the same machine code (without any: registers and block) are one
    variant.
    """
    kernels: dict[str, dict[str, list[NcuLaunch]]] = {}
    for launch in report.launches:
        kernels.setdefault(launch.demangled, {}).setdefault(_digest(launch), []).append(launch)
    ids = shortest_ids(digest for by_digest in kernels.values() for digest in by_digest)
    out = []
    for number, (demangled, variants) in enumerate(kernels.items()):
        function = next(iter(variants.values()))[0].function
        out.append(
            Kernel(
                f"k{number}",
                function,
                demangled,
                Origin.FILE,
                tuple(_variant(ids[d], d, launches) for d, launches in variants.items()),
            )
        )
    device = next((launch.device for launch in report.launches if launch.device), None)
    return Recording(
        str(path), tuple(out), device={"name": device} if device else None, problems=report.problems
    )


def _digest(launch: NcuLaunch) -> str:
    content = text_of(launch, "") if launch.code else f"{launch.registers} {launch.block}"
    data = f"{launch.demangled}\0{content}".encode("utf-8", "surrogateescape")
    return hashlib.sha256(data).hexdigest()


def _variant(short: str, digest: str, launches: Sequence[NcuLaunch]) -> Variant:
    first = launches[0]
    symbol = " ".join(first.function.split()) or "kernel"
    stages = {}
    if first.code:
        text = text_of(first, symbol).encode("utf-8", "surrogateescape")
        origin = "the report of ncu: its source page, with offsets in place of addresses"
        stages[Stage.SASS] = StageFile(BytesContent(text), None, origin)
    shapes = dict.fromkeys((launch.grid, launch.block) for launch in launches)
    calls = tuple(
        Call(
            "cuda",
            symbol,
            digest,
            grid,
            block,
            count=sum((launch.grid, launch.block) == (grid, block) for launch in launches),
        )
        for grid, block in shapes
        if grid is not None
    )
    why = "a report of ncu has machine code alone"
    return Variant(
        short,
        digest,
        symbol,
        target=_target(first),
        config=_settings(launches),
        stages=stages,
        known=Resources(registers=first.registers),
        launches=len(launches),
        missing={s: why for s in KERNEL_STAGES if s not in stages},
        calls=calls,
    )


MAX_LAUNCHES = 3
"""Launches of one variant that its line in the interface shows."""


def _settings(launches: Sequence[NcuLaunch]) -> dict[str, object]:
    """What distinguishes launches, in place of the configuration, which a report does not have."""
    first_launches = launches[:MAX_LAUNCHES]
    rest = ["…"] if len(launches) > MAX_LAUNCHES else []
    times = [
        f"{launch.duration_us:.2f}" for launch in first_launches if launch.duration_us is not None
    ]
    out = {
        "launch": [*(str(launch.number) for launch in first_launches), *rest],
        "µs": [*times, *rest],
    }
    settings: dict[str, object] = {k: " ".join(v) for k, v in out.items() if v and v != rest}
    for name, dim in (("grid", first_launches[0].grid), ("block", first_launches[0].block)):
        if dim is not None:
            settings[name] = "×".join(map(str, dim))
    return settings


def _target(launch: NcuLaunch) -> str | None:
    digits = (launch.capability or "").replace(".", "")
    return f"sm_{digits}" if digits.isdecimal() else None
