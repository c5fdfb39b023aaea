"""Single figures of a variant by name, for those who want a few of them and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from inspector.analyse.card import Card
from inspector.analyse.hints.subject import Finding
from inspector.errors import UsageError
from inspector.model import Kernel, Resources, Stage, Variant
from inspector.names import base_name
from inspector.report.jsons import ordered
from inspector.report.tables import UNKNOWN
from inspector.text import meant, shown


@dataclass(frozen=True, slots=True)
class FieldSubject:
    """A variant as fields see it; what is dear is a function, and asked for once it is wanted.

    ``hint_count`` is None where hints are not counted yet, ``time_us`` where nothing was measured.
    """

    kernel: Kernel
    variant: Variant
    resources: Resources
    card: Callable[[], Card]
    findings: Callable[[], Sequence[Finding]]
    hint_count: Callable[[], int | None]
    time_us: float | None = None


FieldValue = Callable[[FieldSubject], object]


def _spills(one: FieldSubject) -> int | None:
    return _sum(one.resources.spill_store_bytes, one.resources.spill_load_bytes)


def _shared(one: FieldSubject) -> int | None:
    return _sum(one.resources.static_shared_bytes, one.resources.dynamic_shared_bytes)


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _occupancy(one: FieldSubject) -> float | None:
    full = one.card().occupancy
    return None if full is None else full.percent


def _limiters(one: FieldSubject) -> list[str] | None:
    full = one.card().occupancy
    return None if full is None else list(full.limiters)


def _instructions(one: FieldSubject) -> int | None:
    made = one.card().of(Stage.SASS)
    return None if made is None or made.mix is None else made.mix.total


FIELDS: Mapping[str, FieldValue] = {
    "target": lambda one: one.variant.target,
    "config": lambda one: {k: v for k, v in one.variant.config.items() if k != "flags"},
    "stages": lambda one: [s.value for s in ordered(one.variant.stages)],
    "launches": lambda one: one.variant.launches,
    "registers": lambda one: one.resources.registers,
    "spills": _spills,
    "stack": lambda one: one.resources.stack_bytes,
    "shared": _shared,
    "barriers": lambda one: one.resources.barriers,
    "threads": lambda one: one.card().threads,
    "occupancy": _occupancy,
    "limiters": _limiters,
    "instructions": _instructions,
    "hints": lambda one: one.hint_count(),
    "rules": lambda one: [finding.rule for finding in one.findings()],
    "time": lambda one: one.time_us,
    "failed": lambda one: one.variant.failed,
}
"""What is known of a variant, by the name that one asks with; docs/json.md says what each is."""

GLANCE = ("target", "registers", "spills", "shared", "hints", "time")
"""What a list in short says of a variant: nothing of it needs an analysis of its own."""

LINE_FIELDS = (
    "text", "kind", "base", "opcode", "defs", "uses", "source", "links", "live", "rolled_up",
    "samples", "control", "sentence", "waits", "waits_for", "consumer", "definitions", "notes",
)  # fmt: skip
"""What ``show`` knows of a line."""


def chosen(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """The fields that ``a,b,c`` names, each once. Raises ``UsageError`` for one that is not."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    there = ", ".join(known)
    for name in names:
        if name not in known:
            hint = meant(name, known)
            raise UsageError(f"there is no field {shown(name)}; the fields are {there}", hint)
    if not names:
        raise UsageError(f"no field is named; the fields are {there}")
    return names


def values(one: FieldSubject, names: Sequence[str]) -> dict[str, object]:
    """Which variant it is, and these fields of it."""
    out: dict[str, object] = {"kernel": one.kernel.name, "variant": one.variant.id}
    return out | {name: FIELDS[name](one) for name in names}


def word(value: object) -> str:
    """A field's value as one reads it; a dash is what is not known."""
    if value is None:
        return UNKNOWN
    if isinstance(value, Mapping):
        return " ".join(f"{name}={word(each)}" for name, each in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ",".join(map(word, value)) or "none"
    if isinstance(value, float):
        return f"{value:.4g}"
    return shown(str(value))


def table(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Rows of the same fields in columns, as wide as they are: none is folded or cut."""
    if not rows:
        return []
    cells = [list(rows[0])]
    for row in rows:
        short = {name: base_name(str(row[name])) for name in ("kernel",) if name in row}
        cells.append([word(value) for value in {**row, **short}.values()])
    wide = [max(len(row[n]) for row in cells) for n in range(len(cells[0]))]
    return [
        "  ".join(f"{cell:<{size}}" for cell, size in zip(row, wide, strict=True)).rstrip()
        for row in cells
    ]
