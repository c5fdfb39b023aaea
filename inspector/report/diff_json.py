"""JSON of ``diff``: of two variants, of all variants of a kernel, of two recordings."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from inspector.analyse.hints.subject import Finding
from inspector.base.model import Kernel, Stage, Variant
from inspector.diff.beside import loud
from inspector.diff.compare import Compared, Files
from inspector.diff.explanation import FigureChange
from inspector.diff.listings import ListingDiff
from inspector.diff.recordings import Fate, RecordedVariant
from inspector.diff.variants import VariantRow
from inspector.report.jsons import SCHEMA, members, ordered, plain

Paired = tuple[RecordedVariant | None, RecordedVariant | None, Fate, tuple[FigureChange, ...]]


def variants(one: Compared, paths: tuple[str, str]) -> dict[str, object]:
    """Return two variants at one stage; ``paths`` are what they were opened from."""
    summary = one.summary
    return {
        "schema": SCHEMA,
        "a": _side(one.a.kernel, one.a.variant, paths[0]),
        "b": _side(one.b.kernel, one.b.variant, paths[1]),
        **text(one.stage, one.diff),
        "resources": changes(summary.resources),
        "opcodes": [{"opcode": c.name, "a": c.a, "b": c.b} for c in summary.opcodes],
        "costs": [{"cost": c.name, "a": c.a, "b": c.b} for c in summary.costs],
        "accesses": plain(summary.accesses),
        "hints": {
            "gained": [hint(f) for f in summary.gained],
            "lost": [hint(f) for f in summary.lost],
        },
        "config": changes(summary.config),
        "versions": changes(summary.versions),
        "arguments": changes(summary.arguments),
        "source": summary.source and dict(zip(("only_a", "only_b"), summary.source, strict=True)),
        "first_difference": summary.first,
        "explanation": list(one.explanation),
    }


def files(one: Files, paths: tuple[str, str]) -> dict[str, object]:
    """Return two files of several kernels, with the changes of each function."""
    return {
        "schema": SCHEMA,
        "a": {"path": paths[0]},
        "b": {"path": paths[1]},
        **text(one.stage, one.diff),
        "resources": [],
        "opcodes": [],
        "explanation": [],
        "functions": [
            function | {"resources": changes(changed)}
            for function, changed in zip(_functions(one.diff), one.figures, strict=True)
        ],
    }


def text(stage: Stage, diff: ListingDiff) -> dict[str, object]:
    """Return the comparison of two texts."""
    return {
        "stage": stage.value,
        "identical": diff.identical,
        "functions": _functions(diff),
        "hunks": hunks(diff),
    }


def hunks(diff: ListingDiff) -> list[dict[str, object]]:
    """Return the hunks, without differences that say nothing of the code."""
    return [members(hunk, "op a b") for hunk in loud(diff.hunks)]


def _functions(diff: ListingDiff) -> list[dict[str, object]]:
    return [
        {
            "a": None if pair.a is None else pair.a.name,
            "b": None if pair.b is None else pair.b.name,
            "identical": pair.identical,
        }
        for pair in diff.functions
    ]


def _side(kernel: Kernel, variant: Variant, path: str) -> dict[str, object]:
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
    """Return two recordings; equal pairs have no figures."""
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


def _row(row: VariantRow) -> dict[str, object]:
    variant = row.variant
    return {
        "kernel": row.kernel.name,
        "variant": None if variant is None else variant.id,
        "compiled": row.compiled,
        "target": None if variant is None else variant.target,
        "config": {k: v for k, v in row.config.items() if k != "flags"},
        **members(row, "winner time_us time_by reason"),
        "resources": None if variant is None else plain(row.resources),
        "occupancy_percent": row.occupancy,
        "instructions": row.instructions,
    }
