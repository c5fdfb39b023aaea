"""Which lines of a kernel give what a GPU's may differ from, and by how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inspector.execute.program import Program
from inspector.listing.ptx_code import PtxInstruction


@dataclass(frozen=True, slots=True)
class Approximation:
    """A line whose result is not exact on a GPU. ``bound`` says how far it may be, in words."""

    line: int
    opcode: str
    bound: str
    section: str
    """Where the PTX ISA says so."""


def approximations(program: Program, table: Mapping[str, Any]) -> tuple[Approximation, ...]:
    """The approximate instructions of a kernel, each line once.

    ``table`` is ``approximate`` of the reference tables.
    """
    out: dict[int, Approximation] = {}
    for row in program.code.instructions:
        entry = table.get(key_of(row))
        if entry is not None and not _of_integers(row):
            out.setdefault(
                row.line, Approximation(row.line, row.opcode, bound(entry), entry["section"])
            )
    return tuple(out[line] for line in sorted(out))


def key_of(row: PtxInstruction) -> str:
    """The name by which the table knows an instruction."""
    if row.base in ("mma", "wgmma"):
        return row.base if row.base == "mma" or row.parts[1] == "mma_async" else ""
    return ".".join(p for p in row.parts if p != "ftz")


def _of_integers(row: PtxInstruction) -> bool:
    return row.base in ("mma", "wgmma") and "s32" in row.parts


def bound(entry: Mapping[str, Any]) -> str:
    """How far a result may be from the exact one, as a phrase."""
    said = []
    if "ulps" in entry:
        count = entry["ulps"]
        said.append(f"within {count} {'unit' if count == 1 else 'units'} in the last place")
    if "relative" in entry:
        said.append(f"within 2^{entry['relative']:g} of the result")
    if "absolute" in entry:
        said.append(f"within 2^{entry['absolute']:g}")
    if "range" in entry:
        said.append(f"of {entry['range']}")
    return ", ".join(said) or str(entry.get("note", "no bound is given"))
