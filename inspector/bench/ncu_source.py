"""Reads tables of ncu's source page: the machine code of a launch, with its samples."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from inspector.analyse.samples import Samples
from inspector.bench.ncu import Instruction, Launch, function_of
from inspector.bench.ncu_numbers import Notation, notation
from inspector.bench.ncu_rows import REMEDY, SASS_REMEDY, Table
from inspector.errors import Unreadable

ALL = (
    "Warp Stall Sampling (All Samples)",
    "Warp Stall Sampling (All Cycles)",
    "Sampling Data (All)",
    "# Samples",
)
NOT_ISSUED = (
    "Warp Stall Sampling (Not-issued Samples)",
    "Warp Stall Sampling (Not-issued Cycles)",
    "Sampling Data (Not Issued)",
)


def source(table: Table, number: int, name: str) -> Launch:
    """The code of one launch, with its samples; ``number`` is its place on the page.

    Raises ``Unreadable`` where a row is no instruction.
    """
    columns = table.columns
    where, text = columns.index("Address"), columns.index("Source")
    cells = [c for _, row in table.rows for n, c in enumerate(row) if n not in (where, text)]
    numbers = notation(cells)
    samples = _sampling(columns, numbers)
    rows: list[tuple[int, str, Samples | None]] = []
    for line, row in table.rows:
        address = row[where].strip() if len(row) == len(columns) else ""
        if not re.fullmatch(r"(?:0x)?[0-9a-fA-F]+", address):
            raise Unreadable(
                f"{name} is cut short, or is no page of SASS, in line {line}",
                SASS_REMEDY,
            )
        rows.append((int(address, 16), row[text], samples(row)))
    if not rows:
        raise Unreadable(f"{name} has no instruction of {table.title or 'a kernel'}", REMEDY)
    base = min(address for address, _, _ in rows)
    code = tuple(Instruction(a - base, t.strip(), s) for a, t, s in rows)
    title = table.title or "a kernel"
    return Launch(number, function_of(title), title, base=base, code=code)


def _sampling(
    columns: Sequence[str], numbers: Notation
) -> Callable[[Sequence[str]], Samples | None]:
    """What reads the samples of a row."""
    every = next((columns.index(c) for c in ALL if c in columns), None)
    quiet = next((columns.index(c) for c in NOT_ISSUED if c in columns), None)
    stalls = {
        n: c.removeprefix("stall_")
        for n, c in enumerate(columns)
        if c.startswith("stall_") and "(" not in c
    }

    def read(row: Sequence[str]) -> Samples | None:
        if every is None:
            return None
        # Nearly all are 0, in every locale.
        seen = {name: numbers.count(row[n]) or 0 for n, name in stalls.items() if row[n] != "0"}
        return Samples(
            numbers.count(row[every]) or 0,
            0 if quiet is None else numbers.count(row[quiet]) or 0,
            {name: count for name, count in seen.items() if count},
        )

    return read
