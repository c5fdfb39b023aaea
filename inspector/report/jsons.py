"""JSON, schema 1: what other programs read. An unknown value is null, never 0."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any

from inspector.analyse.line_annotations import NO_WORDS, NOTHING_TOLD, Samples, Told, Words
from inspector.base.errors import PtxviewError
from inspector.base.model import (
    Call,
    Compilation,
    Content,
    Failure,
    Kernel,
    Location,
    Note,
    Recording,
    Resources,
    Stage,
    Tuning,
    Variant,
)
from inspector.listing.line import Function, Line

SCHEMA = 1
Figures = Callable[[Variant], Resources]
Profiled = Callable[[Variant], object]


_ENCODE = json.JSONEncoder(ensure_ascii=True, allow_nan=False, default=str).encode


def dumps(value: object) -> str:
    """Return JSON on one line, in ASCII, without control characters (json leaves DEL alone)."""
    try:
        text = _ENCODE(value)
    except ValueError:
        text = _ENCODE(_finite(value))
    return text.replace("\x7f", "\\u007f")


class Rows:
    """A JSON array whose members are made while they are written; they hold no ``Rows``."""

    def __init__(self, members: Iterable[object]) -> None:
        self.members = members


ROWS_AT_ONCE = 16
"""Members of ``Rows`` encoded at once."""


def pieces(value: object) -> Iterator[str]:
    """Yield the JSON of ``dumps`` in pieces; the value may hold ``Rows``."""
    if isinstance(value, Rows):
        before, members = "[", iter(value.members)
        while some := list(islice(members, ROWS_AT_ONCE)):
            yield before + dumps(some)[1:-1]
            before = ", "
        yield "[]" if before == "[" else "]"
    elif isinstance(value, dict) and any(_streamed(v) for v in value.values()):
        before = "{"
        for name, member in value.items():
            yield f"{before}{dumps(name)}: "
            yield from pieces(member)
            before = ", "
        yield "}"
    else:
        yield dumps(value)


def _streamed(value: object) -> bool:
    """Return whether a value holds ``Rows``."""
    return isinstance(value, Rows) or (
        isinstance(value, dict) and any(_streamed(v) for v in value.values())
    )


def _finite(value: object) -> object:
    """Replace infinities and NaN, which JSON lacks, by their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value


SCALARS = {str, int, float, bool, type(None)}
"""Types that JSON has: most values, so they are sorted out without a call."""


def members(value: Any, names: str = "") -> dict[str, object]:
    """Return fields of a dataclass as JSON values: those of ``names``, words, else all."""
    chosen = names.split() or [field.name for field in fields(value)]
    found = [(name, getattr(value, name)) for name in chosen]
    return {name: one if type(one) in SCALARS else plain(one) for name, one in found}


def plain(value: object) -> object:
    """Return dataclasses, mappings and sequences as JSON objects and arrays."""
    if isinstance(value, tuple | list):
        return [one if type(one) in SCALARS else plain(one) for one in value]
    if is_dataclass(value):
        return members(value)
    if isinstance(value, Mapping):
        return {str(name): plain(member) for name, member in value.items()}
    return value


_RECORDING = (
    "path command started exit_status complete tools device mode target removed environment "
    "problems uncaptured unwatched"
)


def recording(
    rec: Recording,
    figures: Figures,
    profiled: Profiled = lambda _: None,
    rows: Callable[[Iterable[object]], object] = list,
    hints: Callable[[Variant], int | None] = lambda _: None,
    made_by: Callable[[Variant], Mapping[str, str] | None] = lambda _: None,
) -> dict[str, object]:
    """Return the document of ``list``: the recording, its graphs, kernels and variants.

    Args:
        figures: the resources of a variant.
        profiled: its ncu metrics.
        rows: makes the list of kernels; ``Rows`` makes each while it is written.
        hints: the number of hints on a variant.
        made_by: versions of the programs that made a variant.
    """
    return {
        "schema": SCHEMA,
        "recording": members(rec, _RECORDING) | {"unmade": []},
        "graphs": [
            {
                **members(g, "id origin kernels"),
                "stages": [s for s in ordered(g.stages) if s is Stage.OUTPUT_CODE],
                "stages_above": [s for s in ordered(g.stages) if s is not Stage.OUTPUT_CODE],
                "calls": plain(g.calls),
                "error": failure(g.error),
            }
            for g in rec.graphs
        ],
        "kernels": rows(kernel(k, figures, profiled, hints, made_by) for k in rec.kernels),
        "calls": [call(c) for c in rec.calls],
        "compilations": [compilation(one) for one in rec.compilations],
    }


def compilation(one: Compilation) -> dict[str, object]:
    """Return one compilation with the compiler's messages."""
    return members(one) | {"signature": one.signature or None}


def failure(one: Failure | None) -> dict[str, object] | None:
    """Return an error with the place of the first message that names one."""
    if one is None:
        return None
    first = one.first
    place = {name: getattr(first, name, None) for name in ("file", "line", "column", "text")}
    return members(one, "stage tool kind message") | {
        **place,
        **members(one, "messages command required limit resource"),
        "log": None if one.log is None else _log(one.log),
    }


def _log(log: Content) -> str | None:
    try:
        return log.read().decode("utf-8", "replace")
    except PtxviewError:
        return None


def ordered(stages: Mapping[Stage, object]) -> list[Stage]:
    """Return stages in the order of lowering."""
    return sorted(stages, key=lambda s: s.rank)


def kernel(
    k: Kernel,
    figures: Figures,
    profiled: Profiled,
    hints: Callable[[Variant], int | None] = lambda _: None,
    made_by: Callable[[Variant], Mapping[str, str] | None] = lambda _: None,
) -> dict[str, object]:
    """Return one kernel with its variants."""
    return {
        **members(k, "id name demangled origin"),
        "ops": None if k.fusion is None else plain(k.fusion.ops),
        "made_from": None if k.fusion is None else plain(k.fusion.made_from),
        "variants": [
            _variant(v, figures(v), profiled(v), hints(v), made_by(v)) for v in k.variants
        ],
        "autotune": [_tuning(t) for t in k.autotune],
        "tried_for": k.tried_for,
    }


def _tuning(t: Tuning) -> dict[str, object]:
    """Return one run of a tuner; ``best_config`` is the winner's configuration."""
    return {
        **members(t, "key by"),
        "winner": None if t.winner is None else t.winner.variant,
        "best_config": None if t.winner is None else plain(t.winner.config),
        **members(t, "stopwatch method from_cache seconds operation"),
        **members(t, "uses configurations"),
    }


_VARIANT = "cache_hit autotune ranks launches launches_exact failed maker library benchmarks"


def _variant(
    v: Variant, resources: Resources, ncu: object, hints: int | None, made_by: object
) -> dict[str, object]:
    """Return one variant; ``missing`` has the reason for each absent stage."""
    return {
        **members(v, "id hash cache_key target config"),
        "made_by": plain(made_by),
        "stages": ordered(v.stages),
        "missing": {s: v.missing[s] for s in ordered(v.missing) if s not in v.stages},
        "signature": plain(v.signature) or None,
        "specialization": plain(v.specialization) or None,
        "resources": plain(resources),
        **members(v, _VARIANT),
        "error": failure(v.error),
        "calls": [_launch(c) for c in v.calls],
        "ncu": ncu,
        "hints": hints,
    }


def _launch(c: Call) -> dict[str, object]:
    return members(c, "grid block shared_bytes count first arguments operators")


def call(c: Call) -> dict[str, object]:
    """Return one distinct call of a graph or of an extension's function."""
    return {"kind": c.kind, "name": c.name, **_launch(c)}


def location(source: Location | None) -> dict[str, object] | None:
    """Return a location with its chain of call sites."""
    return None if source is None else members(source)


def line(
    one: Line,
    links: Mapping[Stage, Mapping[int, tuple[int, ...]]],
    figures: Told = NOTHING_TOLD,
    words: Words = NO_WORDS,
) -> dict[str, object]:
    """Return one line of a listing with its linked lines and annotations."""
    control = one.control
    return {
        "n": one.n,
        "text": one.text,
        "kind": one.kind,
        "base": one.base,
        "opcode": one.opcode,
        "defs": one.defs,
        "uses": one.uses,
        "source": location(one.source),
        "links": {s.value: list(linked[one.n]) for s, linked in links.items() if one.n in linked},
        "live": None if figures.live is None else dict(figures.live),
        "rolled_up": None if figures.rolled is None else plain(figures.rolled),
        "samples": samples(figures.samples),
        "control": None
        if control is None
        else {
            "stall": control.stall,
            "yield": control.yield_,
            **members(control, "write_barrier read_barrier wait reuse"),
        },
        "sentence": words.sentence,
        "waits": words.waits,
        "waits_for": plain(words.waits_for),
        "consumer": None if words.consumer is None else members(words.consumer),
        "definitions": dict(words.definitions),
        "notes": [note(n) for n in figures.notes],
    }


def samples(samples: Samples | None) -> dict[str, object] | None:
    """Return a profiler's samples with their stall reasons."""
    return None if samples is None else members(samples, "all not_issued stalls")


def note(one: Note) -> dict[str, object]:
    """Return one remark of the analysis."""
    blocks = None if one.blocks is None else {"run": one.blocks[0], "of": one.blocks[1]}
    return members(one) | {"blocks": blocks}


def function(
    name: str,
    v: str | None,
    res: Resources | None,
    at: Function,
    notes: Sequence[Note] = (),
    card: Mapping[str, object] | None = None,
    ncu: object = None,
) -> dict[str, object]:
    """Return a function's place in a listing with its variant, card and hints."""
    return {
        "kernel": name,
        "variant": v,
        "resources": plain(res),
        "notes": [note(n) for n in notes],
        "card": card,
        "ncu": ncu,
        "first": at.first,
        "last": at.last,
    }
