"""JSON of ``diff``: of two variants, of all variants of a kernel, of two recordings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from math import isfinite

from inspector.analyse.hints.subject import Finding
from inspector.diff.beside import loud
from inspector.diff.listings import ListingDiff
from inspector.diff.recordings import Fate, RecordedVariant
from inspector.diff.summary import FigureChange, Summary, VariantSide
from inspector.diff.variants import VariantRow
from inspector.model import Kernel, Stage, Variant
from inspector.report.jsons import SCHEMA, ordered

Paired = tuple[RecordedVariant | None, RecordedVariant | None, Fate, tuple[FigureChange, ...]]


def variants(
    a: VariantSide,
    b: VariantSide,
    stage: Stage,
    diff: ListingDiff,
    summary: Summary,
    explanation: Iterable[str],
    paths: tuple[str, str],
) -> dict[str, object]:
    """Two variants at one stage; ``paths`` are what they were opened from."""
    return {
        "schema": SCHEMA,
        "a": one_side(a.kernel, a.variant, paths[0]),
        "b": one_side(b.kernel, b.variant, paths[1]),
        **text(stage, diff),
        "resources": changes(summary.resources),
        "opcodes": [{"opcode": c.name, "a": c.a, "b": c.b} for c in summary.opcodes],
        "costs": [{"cost": c.name, "a": c.a, "b": c.b} for c in summary.costs],
        "accesses": [asdict(access) for access in summary.accesses],
        "hints": {
            "gained": [hint(f) for f in summary.gained],
            "lost": [hint(f) for f in summary.lost],
        },
        "config": changes(summary.config),
        "versions": changes(summary.versions),
        "arguments": changes(summary.arguments),
        "source": None if summary.source is None
        else {"only_a": summary.source[0], "only_b": summary.source[1]},
        "first_difference": None if summary.first is None else summary.first.value,
        "explanation": list(explanation),
    }  # fmt: skip


def files(
    stage: Stage,
    diff: ListingDiff,
    figures: Iterable[Iterable[FigureChange]],
    paths: tuple[str, str],
) -> dict[str, object]:
    """Two files of several kernels: what differs of each is with its function."""
    out: dict[str, object] = {
        "schema": SCHEMA,
        "a": {"path": paths[0]},
        "b": {"path": paths[1]},
        **text(stage, diff),
        "resources": [],
        "opcodes": [],
        "explanation": [],
    }
    out["functions"] = [
        held | {"resources": changes(changed)}
        for held, changed in zip(functions(diff), figures, strict=True)
    ]
    return out


def text(stage: Stage, diff: ListingDiff) -> dict[str, object]:
    """What is said of the two texts."""
    return {
        "stage": stage.value,
        "identical": diff.identical,
        "functions": functions(diff),
        "hunks": [{"op": h.op.value, "a": list(h.a), "b": list(h.b)} for h in loud(diff.hunks)],
    }


def functions(diff: ListingDiff) -> list[dict[str, object]]:
    """The functions that were compared, in their pairs."""
    return [
        {
            "a": None if pair.a is None else pair.a.name,
            "b": None if pair.b is None else pair.b.name,
            "identical": pair.identical,
        }
        for pair in diff.functions
    ]


def one_side(kernel: Kernel, variant: Variant, path: str) -> dict[str, object]:
    """Which variant it is."""
    return {
        "path": path,
        "kernel": kernel.name,
        "variant": variant.id,
        "target": variant.target,
        "config": {k: v for k, v in variant.config.items() if k != "flags"},
        "stages": [s.value for s in ordered(variant.stages)],
    }


def changes(changes: Iterable[FigureChange]) -> list[dict[str, object]]:
    """Figures by name on both sides; ``by`` where they are the program's own tuner's."""
    return [
        {"name": c.name, "a": _plain(c.a), "b": _plain(c.b)} | ({"by": c.by} if c.by else {})
        for c in changes
    ]


def _plain(value: object) -> object:
    if isinstance(value, float):
        if not isfinite(value):
            return str(value)
        return int(value) if value.is_integer() else value
    return value


def hint(finding: Finding) -> dict[str, object]:
    """A hint without its lines, which are of one of two listings."""
    return {"rule": finding.rule, "severity": finding.severity, "text": finding.text}


def recordings(
    paths: tuple[str, str], pairs: Iterable[Paired], versions: Iterable[FigureChange] = ()
) -> dict[str, object]:
    """Two recordings; of a pair that is the same, no figure is told."""
    held = list(pairs)
    return {
        "schema": SCHEMA,
        "a": {"path": paths[0]},
        "b": {"path": paths[1]},
        "versions": changes(versions),
        "identical": all(state is Fate.SAME for _, _, state, _ in held),
        "counts": {s.value: sum(state is s for _, _, state, _ in held) for s in Fate},
        "pairs": [_pair(*one) for one in held],
    }


def _pair(
    a: RecordedVariant | None,
    b: RecordedVariant | None,
    state: Fate,
    figures: tuple[FigureChange, ...],
) -> dict[str, object]:
    one = a or b
    out: dict[str, object] = {
        "kernel": "" if one is None else one.kernel.name,
        "state": state.value,
        "a": None if a is None else a.variant.id,
        "b": None if b is None else b.variant.id,
        "resources": changes(figures),
    }
    if a is not None and b is not None and a.kernel.name != b.kernel.name:
        out["kernel_b"] = b.kernel.name
    return out


def table(rows: Iterable[VariantRow]) -> dict[str, object]:
    """All variants of a kernel, and a tuner's other configurations."""
    return {"schema": SCHEMA, "variants": [_row(row) for row in rows]}


def _row(row: VariantRow) -> Mapping[str, object]:
    variant = row.variant
    return {
        "kernel": row.kernel.name,
        "variant": None if variant is None else variant.id,
        "compiled": row.compiled,
        "target": None if variant is None else variant.target,
        "config": {k: v for k, v in row.config.items() if k != "flags"},
        "winner": row.winner,
        "time_us": row.time_us,
        "time_by": row.time_by,
        "reason": row.reason,
        "resources": None if variant is None else asdict(row.resources),
        "occupancy_percent": row.occupancy,
        "instructions": row.instructions,
    }
