"""JSON, schema 1: what other programs read. An unknown value is null, never 0."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice

from inspector.analyse.telling import NO_WORDS, NOTHING_TOLD, Rolled, Samples, Told, Words
from inspector.errors import PtxviewError
from inspector.listing.line import Function, Line
from inspector.model import (
    Call,
    Compilation,
    CompilerMessage,
    Content,
    Failure,
    Kernel,
    Location,
    MadeFrom,
    Note,
    Recording,
    Resources,
    Stage,
    Tuning,
    Variant,
)

SCHEMA = 1
Figures = Callable[[Variant], Resources]
Profiled = Callable[[Variant], object]


def _as_text(value: object) -> str:
    """What JSON has no form for, as its text; members that are made while they are written would
    be lost so."""
    if isinstance(value, Rows):
        raise TypeError("Rows stand in a dictionary of the document, not in one of its lists")
    return str(value)


_ENCODE = json.JSONEncoder(ensure_ascii=True, allow_nan=False, default=_as_text).encode


def dumps(value: object) -> str:
    """JSON on one line, in ASCII: surrogate escapes stay what they are.

    Nothing in it is a control character: json leaves DEL alone, which is ASCII too.
    """
    try:
        text = _ENCODE(value)
    except ValueError:
        text = _ENCODE(_finite(value))
    return text.replace("\x7f", "\\u007f")


class Rows:
    """A list of JSON whose members are made while they are written, and are kept by nobody.

    Members are plain: there are no ``Rows`` in them.
    """

    def __init__(self, members: Iterable[object]) -> None:
        self.members = members


TOGETHER = 16
"""Members of ``Rows`` that are made into text at once."""


def pieces(value: object) -> Iterator[str]:
    """JSON as ``dumps`` writes it, a piece at a time; lists may be ``Rows`` in it."""
    if isinstance(value, Rows):
        before, members = "[", iter(value.members)
        while some := list(islice(members, TOGETHER)):
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
    """Whether a value has ``Rows`` in it."""
    return isinstance(value, Rows) or (
        isinstance(value, dict) and any(_streamed(v) for v in value.values())
    )


def _finite(value: object) -> object:
    """JSON has no infinity and no "not a number": a constexpr that is one becomes its name."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value


def recording(
    rec: Recording,
    figures: Figures,
    profiled: Profiled = lambda _: None,
    rows: Callable[[Iterable[object]], object] = list,
    hints: Callable[[Variant], int | None] = lambda _: None,
    made_by: Callable[[Variant], Mapping[str, str] | None] = lambda _: None,
) -> dict[str, object]:
    """``list``: the recording, its graphs, kernels and variants; ``profiled`` is ncu's.

    ``rows`` makes the list of kernels: ``Rows`` has them made while they are written. ``hints``
    counts those on a variant; ``made_by`` tells the programs that made one.
    """
    return {
        "schema": SCHEMA,
        "recording": {
            "path": rec.path,
            "command": list(rec.command) if rec.command is not None else None,
            "started": rec.started,
            "exit_status": rec.exit_status,
            "complete": rec.complete,
            "tools": dict(rec.tools),
            "device": dict(rec.device) if rec.device is not None else None,
            "mode": rec.mode,
            "target": rec.target,
            "removed": list(rec.removed),
            "environment": dict(rec.environment),
            "problems": list(rec.problems),
            "uncaptured": [{"name": one.name, "by": one.by} for one in rec.uncaptured],
            "unwatched": [{"command": one.command, "why": one.why} for one in rec.unwatched],
            "unmade": [
                {"what": one.what, "name": one.name, "place": one.place, "count": one.count}
                for one in rec.unmade
            ],
        },
        "graphs": [
            {
                "id": g.id,
                "origin": g.origin.value,
                "kernels": list(g.kernels),
                "stages": [s.value for s in ordered(g.stages) if s is Stage.OUTPUT_CODE],
                "stages_above": [s.value for s in ordered(g.stages) if s is not Stage.OUTPUT_CODE],
                "calls": {k: list(lines) for k, lines in g.calls.items()},
                "error": failure(g.error),
            }
            for g in rec.graphs
        ],
        "kernels": rows(kernel(k, figures, profiled, hints, made_by) for k in rec.kernels),
        "calls": [call(c) for c in rec.calls],
        "compilations": [compilation(one) for one in rec.compilations],
    }


def compilation(one: Compilation) -> dict[str, object]:
    """One attempt, with what the compiler said."""
    return {
        "file": one.file,
        "language": one.language,
        "target": one.target,
        "options": one.options,
        "kernel": one.kernel,
        "config": dict(one.config),
        "signature": one.signature or None,
        "hash": one.hash,
        "symbols": list(one.symbols),
        "seconds": one.seconds,
        "tool": one.tool,
        "failed": one.failed,
        "messages": [message(m) for m in one.messages],
    }


def message(one: CompilerMessage) -> dict[str, object]:
    """What a compiler said, and of which line."""
    return {name: getattr(one, name) for name in CompilerMessage.__dataclass_fields__}


def failure(one: Failure | None) -> dict[str, object] | None:
    """Why something came to nothing; its place is that of the first error that names one."""
    if one is None:
        return None
    first = one.first
    return {
        "stage": one.stage,
        "tool": one.tool,
        "kind": one.kind,
        "message": one.message,
        "file": None if first is None else first.file,
        "line": None if first is None else first.line,
        "column": None if first is None else first.column,
        "text": None if first is None else first.text,
        "messages": [message(m) for m in one.messages],
        "command": one.command,
        "required": one.required,
        "limit": one.limit,
        "resource": one.resource,
        "log": None if one.log is None else _log(one.log),
    }


def _log(log: Content) -> str | None:
    try:
        return log.read().decode("utf-8", "replace")
    except PtxviewError:
        return None


def ordered(stages: Mapping[Stage, object]) -> list[Stage]:
    """Stages in the order of lowering."""
    return sorted(stages, key=lambda s: s.rank)


def kernel(
    k: Kernel,
    figures: Figures,
    profiled: Profiled,
    hints: Callable[[Variant], int | None] = lambda _: None,
    made_by: Callable[[Variant], Mapping[str, str] | None] = lambda _: None,
) -> dict[str, object]:
    """One kernel with its variants."""
    return {
        "id": k.id,
        "name": k.name,
        "demangled": k.demangled,
        "origin": k.origin.value,
        "ops": None if k.fusion is None else list(k.fusion.ops),
        "made_from": None if k.fusion is None else [made_from(m) for m in k.fusion.made_from],
        "variants": [variant(v, figures(v), profiled(v), hints(v), made_by(v)) for v in k.variants],
        "autotune": [tuning(t) for t in k.autotune],
        "tried_for": k.tried_for,
    }


def tuning(t: Tuning) -> dict[str, object]:
    """One time that a kernel was tuned; ``winner`` is a variant, ``best_config`` what it is of."""
    return {
        "key": dict(t.key) if isinstance(t.key, Mapping) else t.key,
        "by": t.by,
        "winner": None if t.winner is None else t.winner.variant,
        "best_config": None if t.winner is None else dict(t.winner.config),
        "stopwatch": t.stopwatch,
        "method": t.method,
        "from_cache": t.from_cache,
        "seconds": t.seconds,
        "operation": t.operation,
        "uses": [
            {
                "graph": use.graph,
                "node": use.node,
                "configuration": use.configuration,
                "kernel": use.kernel,
            }
            for use in t.uses
        ],
        "configurations": [
            {
                "config": dict(c.config),
                "variant": c.variant,
                "time_us": c.time_us,
                "quantiles_us": c.quantiles_us,
                "reason": c.reason,
                "maker": c.maker,
            }
            for c in t.configurations
        ],
    }


def made_from(made: MadeFrom) -> dict[str, object]:
    """One of the user's lines that a generated kernel was made from."""
    return {
        "file": made.file,
        "line": made.line,
        "code": made.code,
        "targets": list(made.targets),
    }


def variant(
    v: Variant,
    resources: Resources,
    ncu: object = None,
    hints: int | None = None,
    made_by: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """One variant; ``missing`` gives the reason for each stage that it lacks."""
    return {
        "id": v.id,
        "hash": v.hash,
        "cache_key": v.cache_key,
        "target": v.target,
        "config": dict(v.config),
        "made_by": None if made_by is None else dict(made_by),
        "stages": [s.value for s in ordered(v.stages)],
        "missing": {s.value: v.missing[s] for s in ordered(v.missing) if s not in v.stages},
        "signature": dict(v.signature) or None,
        "specialization": dict(v.specialization) or None,
        "cache_hit": v.cache_hit,
        "resources": asdict(resources),
        "autotune": dict(v.autotune) if v.autotune is not None else None,
        "ranks": list(v.ranks),
        "launches": v.launches,
        "launches_exact": v.launches_exact,
        "failed": v.failed,
        "error": failure(v.error),
        "maker": v.maker,
        "library": v.library,
        "benchmarks": v.benchmarks,
        "calls": [launch(c) for c in v.calls],
        "ncu": ncu,
        "hints": hints,
    }


def launch(c: Call) -> dict[str, object]:
    """One distinct launch of a variant."""
    return {
        "grid": c.grid,
        "block": c.block,
        "shared_bytes": c.shared_bytes,
        "count": c.count,
        "first": c.first,
        "arguments": [asdict(a) for a in c.arguments],
        "operators": list(c.operators),
    }


def call(c: Call) -> dict[str, object]:
    """One distinct call of a graph or of an extension's function."""
    return {"kind": c.kind, "name": c.name, **launch(c)}


def location(source: Location | None) -> dict[str, object] | None:
    """A location with the chain of its call sites."""
    if source is None:
        return None
    return {
        "file": source.file,
        "line": source.line,
        "column": source.column,
        "inlined_at": location(source.inlined_at),
    }


def line(
    one: Line,
    links: Mapping[Stage, Mapping[int, tuple[int, ...]]],
    figures: Told = NOTHING_TOLD,
    words: Words = NO_WORDS,
) -> dict[str, object]:
    """One line of a listing, with the lines of other stages that it is tied to and what is told."""
    control = one.control
    return {
        "n": one.n,
        "text": one.text,
        "kind": one.kind.value,
        "base": one.base,
        "opcode": one.opcode,
        "defs": list(one.defs),
        "uses": list(one.uses),
        "source": location(one.source),
        "links": {s.value: list(linked[one.n]) for s, linked in links.items() if one.n in linked},
        "live": None if figures.live is None else dict(figures.live),
        "rolled_up": rolled_up(figures.rolled),
        "samples": samples(figures.samples),
        "control": None
        if control is None
        else {
            "stall": control.stall,
            "yield": control.yield_,
            "write_barrier": control.write_barrier,
            "read_barrier": control.read_barrier,
            "wait": control.wait,
            "reuse": control.reuse,
        },
        "sentence": words.sentence,
        "waits": list(words.waits),
        "waits_for": [asdict(w) for w in words.waits_for],
        "consumer": None if words.consumer is None else asdict(words.consumer),
        "definitions": {name: list(lines) for name, lines in words.definitions.items()},
        "notes": [note(n) for n in figures.notes],
    }


def samples(samples: Samples | None) -> dict[str, object] | None:
    """A profiler's samples, with what warps waited for."""
    if samples is None:
        return None
    return {"all": samples.all, "not_issued": samples.not_issued, "stalls": dict(samples.stalls)}


def rolled_up(rolled: Rolled | None) -> dict[str, object] | None:
    """What the SASS of a line comes to."""
    if rolled is None:
        return None
    return {
        "live": dict(rolled.live),
        "stall": rolled.stall,
        "instructions": rolled.instructions,
        "peak": rolled.peak,
    }


def note(one: Note) -> dict[str, object]:
    """One remark of the analysis."""
    blocks = None if one.blocks is None else {"run": one.blocks[0], "of": one.blocks[1]}
    return {"rule": one.rule, "severity": one.severity, "text": one.text,
            "estimated": one.estimated, "blocks": blocks}  # fmt: skip


def function(
    name: str,
    v: str | None,
    res: Resources | None,
    at: Function,
    notes: Sequence[Note] = (),
    card: Mapping[str, object] | None = None,
    ncu: object = None,
) -> dict[str, object]:
    """Where a function stands in a listing, which variant it is, and its card and hints."""
    return {
        "kernel": name,
        "variant": v,
        "resources": asdict(res) if res is not None else None,
        "notes": [note(n) for n in notes],
        "card": card,
        "ncu": ncu,
        "first": at.first,
        "last": at.last,
    }
