"""Reports of ncu from where they lie: named, put beside a recording, or kept with it."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from inspector.bench import ncu_csv
from inspector.bench.ncu import Launch, Report, joined
from inspector.bench.ncu_code import text_of
from inspector.bench.ncu_rows import tables
from inspector.capture import ncu
from inspector.errors import PtxviewError, Unreadable
from inspector.model import Call, Kernel, Origin, Recording, Resources, Stage, StageFile, Variant
from inspector.naming import shortest_ids
from inspector.recording import BytesContent, is_recording
from inspector.recording_timings import REPORTS, keep, kept

BESIDE = "ncu.csv"
SCHEMA = 1


def load(paths: Sequence[Path]) -> Report:
    """The launches of reports; pages of one run that lie in several files complete each other.

    Raises ``Unreadable`` with a sentence on what is wrong, ``ToolMissing`` for an ``.ncu-rep``
    without ncu.
    """
    found = []
    for path in paths:
        if not path.exists():
            raise Unreadable(f"{path} does not exist", "Give a CSV export of ncu, or an .ncu-rep.")
        found += tables(ncu.texts(path), str(path))
    return ncu_csv.together(found, " and ".join(map(str, paths)))


def of_recording(path: Path, named: Sequence[Path] = ()) -> Report:
    """The reports that belong to a recording: those named, else those beside it and kept with it.

    A damaged one that nobody named is a problem of the report, and no error.
    """
    if named:
        return load(named)
    reports: list[Report] = []
    beside = (path / BESIDE) if path.is_dir() else path.with_name(f"{path.name}.{BESIDE}")
    if is_recording(path):
        try:
            # A link in a recording's folder leads to what is no part of it.
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
    return ncu_csv.read(text, f"the report of {record.get('taken')}")


def store(path: Path, csv: str, command: Iterable[str]) -> None:
    """Keep a report with its recording. Raises ``OSError`` where that is not allowed."""
    taken = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    keep(
        path, {"schema": SCHEMA, "taken": taken, "command": list(command), "csv": csv}, REPORTS
    )  # fmt: skip


# -- alone ----------------------------------------------------------------------------------------


def alone(path: Path, report: Report) -> Recording:
    """A report as a recording of its own: what was launched, with its machine code, if it has it.

    Launches of one name with the same machine code (without any: registers and block) are one
    variant.
    """
    kernels: dict[str, dict[str, list[Launch]]] = {}
    for launch in report.launches:
        kernels.setdefault(launch.demangled, {}).setdefault(_digest(launch), []).append(launch)
    ids = shortest_ids(digest for each in kernels.values() for digest in each)
    out = []
    for number, (demangled, variants) in enumerate(kernels.items()):
        function = next(iter(variants.values()))[0].function
        out.append(
            Kernel(
                f"k{number}", function, demangled, Origin.FILE,
                tuple(_variant(ids[d], d, each) for d, each in variants.items()),
            )
        )  # fmt: skip
    device = next((one.device for one in report.launches if one.device), None)
    return Recording(
        str(path), tuple(out), device={"name": device} if device else None, problems=report.problems
    )


def _digest(launch: Launch) -> str:
    said = text_of(launch, "") if launch.code else f"{launch.registers} {launch.block}"
    data = f"{launch.demangled}\0{said}".encode("utf-8", "surrogateescape")
    return hashlib.sha256(data).hexdigest()


def _variant(short: str, digest: str, launches: Sequence[Launch]) -> Variant:
    first = launches[0]
    symbol = " ".join(first.function.split()) or "kernel"
    stages = {}
    if first.code:
        text = text_of(first, symbol).encode("utf-8", "surrogateescape")
        said = "the report of ncu: its source page, with offsets in place of addresses"
        stages[Stage.SASS] = StageFile(BytesContent(text), None, said)
    shapes = dict.fromkeys((one.grid, one.block) for one in launches)
    calls = tuple(
        Call(
            "cuda", symbol, digest, grid, block,
            count=sum((one.grid, one.block) == (grid, block) for one in launches),
        )
        for grid, block in shapes
        if grid is not None
    )  # fmt: skip
    why = "a report of ncu has machine code alone"
    return Variant(
        short,
        digest,
        symbol,
        target=_target(first),
        config=_told(launches),
        stages=stages,
        known=Resources(registers=first.registers),
        launches=len(launches),
        missing={s: why for s in Stage if s not in stages},
        calls=calls,
    )


MOST = 3
"""Launches of one variant that its line in the interface tells of."""


def _told(launches: Sequence[Launch]) -> dict[str, object]:
    """What tells launches apart, in place of a configuration, which a report does not have."""
    some = launches[:MOST]
    rest = ["…"] if len(launches) > MOST else []
    times = [f"{one.duration_us:.2f}" for one in some if one.duration_us is not None]
    out = {"launch": [*(str(one.number) for one in some), *rest], "µs": [*times, *rest]}
    told: dict[str, object] = {k: " ".join(v) for k, v in out.items() if v and v != rest}
    for name, dim in (("grid", some[0].grid), ("block", some[0].block)):
        if dim is not None:
            told[name] = "×".join(map(str, dim))
    return told


def _target(launch: Launch) -> str | None:
    said = (launch.capability or "").replace(".", "")
    return f"sm_{said}" if said.isdecimal() else None
