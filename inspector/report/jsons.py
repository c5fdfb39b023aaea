"""JSON, schema 1: what other programs read. An unknown value is null, never 0."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any

from msgspec import Struct

from inspector.analyse.line_annotations import NO_WORDS, NOTHING_TOLD, Samples, Told, Words
from inspector.base.model import (
    Call,
    Compilation,
    Failure,
    GpuTime,
    Graph,
    Kernel,
    Note,
    Recording,
    Resources,
    Stage,
    Tuning,
    Variant,
)
from inspector.base.text import PtxviewError
from inspector.listing.line import Function, Line

SCHEMA = 1
ResourcesOf = Callable[[Variant], Resources]
VariantExtras = Callable[[Kernel, Variant], Mapping[str, object]]
"""What a list knows of a variant beside its resources."""
UNKNOWN_EXTRAS = {"made_by": None, "ncu": None, "hints": None, "launch_time": None}

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
        separator, members = "[", iter(value.members)
        while some := list(islice(members, ROWS_AT_ONCE)):
            yield separator + dumps(some)[1:-1]
            separator = ", "
        yield "[]" if separator == "[" else "]"
    elif isinstance(value, dict) and any(_streamed(v) for v in value.values()):
        separator = "{"
        for name, member in value.items():
            yield f"{separator}{dumps(name)}: "
            yield from pieces(member)
            separator = ", "
        yield "}"
    else:
        yield dumps(value)


def _streamed(value: object) -> bool:
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


def pick_fields(value: Any, names: str = "") -> dict[str, object]:
    """Return fields of a record as JSON values: those of ``names``, words, else all."""
    field_names = names.split() or getattr(value, "__struct_fields__", None)
    items = [
        (name, getattr(value, name)) for name in field_names or (f.name for f in fields(value))
    ]
    return {
        name: member if type(member) in SCALARS else to_builtins(member) for name, member in items
    }


def to_builtins(value: object) -> object:
    """Return structs, dataclasses, mappings and sequences as JSON objects and arrays."""
    if isinstance(value, tuple | list):
        return [member if type(member) in SCALARS else to_builtins(member) for member in value]
    if isinstance(value, Struct) or is_dataclass(value):
        return pick_fields(value)
    if isinstance(value, Mapping):
        return {str(name): to_builtins(member) for name, member in value.items()}
    return value


_RECORDING = (
    "path command started exit_status complete tools device mode target removed environment "
    "problems"
)


def recording(
    rec: Recording,
    resources_of: ResourcesOf,
    extras: VariantExtras = lambda kernel, variant: UNKNOWN_EXTRAS,
    rows: Callable[[Iterable[object]], object] = list,
) -> dict[str, object]:
    """Return the document of ``list``: the recording, its graphs, kernels and variants.

    Args:
        resources_of: the resources of a variant.
        extras: ``made_by``, ``ncu``, ``hints``, ``timing`` and ``launch_time`` of a variant.
        rows: makes the list of kernels; ``Rows`` makes each while it is written.
    """
    return {
        "schema": SCHEMA,
        "recording": {
            **pick_fields(rec, _RECORDING),
            "uncaptured": [{"name": k.name, "by": k.compiler} for k in rec.uncaptured],
            **pick_fields(rec, "unwatched"),
            "unmade": [],
        },
        "graphs": [_graph_json(graph) for graph in rec.graphs],
        "kernels": rows(kernel(k, resources_of, extras) for k in rec.kernels),
        "calls": [pick_fields(c, "kind name") | _launch(c) for c in rec.calls],
        "compilations": [compilation(result) for result in rec.compilations],
    }


def _graph_json(graph: Graph) -> dict[str, object]:
    stages = ordered(graph.stages)
    return {
        **pick_fields(graph, "id origin kernels"),
        "stages": [stage for stage in stages if stage is Stage.OUTPUT_CODE],
        "stages_above": [stage for stage in stages if stage is not Stage.OUTPUT_CODE],
        "calls": to_builtins(graph.calls),
        "error": failure(graph.error),
    }


def compilation(compilation: Compilation) -> dict[str, object]:
    return pick_fields(compilation) | {"signature": compilation.signature or None}


def failure(failure: Failure | None) -> dict[str, object] | None:
    """Return an error with the place of the first message that names one."""
    if failure is None:
        return None
    log = None
    with suppress(PtxviewError):
        log = None if failure.log is None else failure.log.read().decode("utf-8", "replace")
    names = ("file", "line", "column", "text")
    return {
        **pick_fields(failure, "stage tool kind message"),
        **{name: getattr(failure.first, name, None) for name in names},
        **pick_fields(failure, "messages command required limit resource"),
        "log": log,
    }


def ordered(stages: Mapping[Stage, object]) -> list[Stage]:
    return sorted(stages, key=lambda s: s.rank)


def kernel(
    kernel: Kernel,
    resources_of: ResourcesOf,
    extras: VariantExtras = lambda kernel, variant: UNKNOWN_EXTRAS,
) -> dict[str, object]:
    fusion = kernel.fusion
    return {
        **pick_fields(kernel, "id name demangled origin"),
        "ops": None if fusion is None else to_builtins(fusion.ops),
        "made_from": None if fusion is None else to_builtins(fusion.made_from),
        "variants": [
            {**_variant_json(variant, resources_of(variant)), **extras(kernel, variant)}
            for variant in kernel.variants
        ],
        "autotune": [_tuning_json(tuning) for tuning in kernel.autotune],
        "tried_for": kernel.tried_for,
    }


def _variant_json(variant: Variant, resources: Resources) -> dict[str, object]:
    stages = variant.stages
    missing = variant.missing
    return {
        **pick_fields(variant, "id hash cache_key target config"),
        "stages": ordered(stages),
        "missing": {stage: missing[stage] for stage in ordered(missing) if stage not in stages},
        "signature": to_builtins(variant.signature) or None,
        "specialization": to_builtins(variant.specialization) or None,
        "resources": to_builtins(resources),
        **pick_fields(variant, _VARIANT),
        "error": failure(variant.error),
        "calls": [_launch(call) for call in variant.calls],
    }


def _tuning_json(tuning: Tuning) -> dict[str, object]:
    winner = tuning.winner
    return {
        **pick_fields(tuning, "key"),
        "by": tuning.tuner,
        "winner": None if winner is None else winner.variant,
        "best_config": None if winner is None else to_builtins(winner.config),
        **pick_fields(tuning, "stopwatch method from_cache seconds operation uses"),
        "configurations": [pick_fields(c, _CONFIGURATION) for c in tuning.configurations],
    }


_CONFIGURATION = "config variant time_us quantiles_us reason maker"
_VARIANT = "tile cache_hit autotune ranks launches launches_exact failed maker library benchmarks"


def gpu_time(time: GpuTime | None) -> dict[str, object] | None:
    """What CUPTI recorded of launches: µs of the median and of the quartiles."""
    if time is None:
        return None
    low, median, high = time.quartiles_us
    return {"timed": time.timed, "median_us": median, "low_us": low, "high_us": high}


def _launch(c: Call) -> dict[str, object]:
    return {
        **pick_fields(c, "grid block shared_bytes count first arguments operators failed"),
        "gpu_time": gpu_time(c.gpu_time),
        "shares": [[share.first, share.second] for share in c.shares],
        "share_offsets": [share.offset_bytes for share in c.shares],
    }


def line(
    line: Line,
    links: Mapping[Stage, Mapping[int, tuple[int, ...]]],
    annotation: Told = NOTHING_TOLD,
    words: Words = NO_WORDS,
    estimated: float | None = None,
) -> dict[str, object]:
    control = line.control
    return {
        **pick_fields(line, "n text kind base opcode defs uses"),
        "source": to_builtins(line.source),
        "links": {s.value: list(linked[line.n]) for s, linked in links.items() if line.n in linked},
        "live": None if annotation.live is None else dict(annotation.live),
        "rolled_up": to_builtins(annotation.rolled),
        "samples": samples(annotation.samples),
        "estimated_percent": estimated,
        "control": None
        if control is None
        else {
            "stall": control.stall,
            "yield": control.yield_,
            **pick_fields(control, "write_barrier read_barrier wait reuse"),
        },
        **pick_fields(words, "sentence waits waits_for"),
        "consumer": to_builtins(words.consumer),
        "definitions": dict(words.definitions),
        "notes": [note(n) for n in annotation.notes],
    }


def samples(samples: Samples | None) -> dict[str, object] | None:
    return None if samples is None else pick_fields(samples, "all not_issued stalls")


def note(note: Note) -> dict[str, object]:
    blocks = None if note.blocks is None else {"run": note.blocks[0], "of": note.blocks[1]}
    return pick_fields(note) | {"blocks": blocks}


def function(
    name: str,
    v: str | None,
    res: Resources | None,
    function: Function,
    notes: Sequence[Note] = (),
    card: Mapping[str, object] | None = None,
    ncu: object = None,
) -> dict[str, object]:
    return {
        "kernel": name,
        "variant": v,
        "resources": to_builtins(res),
        "notes": [note(n) for n in notes],
        "card": card,
        "ncu": ncu,
        "first": function.first,
        "last": function.last,
    }
