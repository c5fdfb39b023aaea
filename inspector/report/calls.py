"""Distinct calls of kernels and graphs: arguments, counts, differences, operations."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from math import prod
from sys import maxsize

from rich.text import Text

from inspector.analyse.graph_text import CALL_HEAD, MAX_COLUMN_CHARS, call_cells, heading
from inspector.analyse.graph_view import GraphView, Place, buffer_bytes
from inspector.base.model import Argument, Call, Graph, Recording, Share, Stage
from inspector.base.text import (
    counted,
    kibibytes,
    microseconds,
    plural,
    short_name,
    shown,
    word_for,
)
from inspector.report.jsons import members, plain
from inspector.report.tables import UNKNOWN, grid

_TIMES = "×"
LONGEST = 48
"""Characters of a type that is shown whole."""


def lines(rec: Recording) -> Iterator[Text]:
    """All calls: a line for each kernel, graph and function, below it one for each distinct call.

    The first call is shown in full, later ones by their differences from it.
    """
    for kernel in rec.kernels:
        held = [(v.id, c) for v in kernel.variants for c in v.calls]
        held.sort(key=lambda each: (each[1].first is None, each[1].first or 0))
        all_in_all = [v.launches for v in kernel.variants if v.launches is not None]
        yield from _of(kernel.called, held, sum(all_in_all))
    for kind, name in dict.fromkeys((c.kind, c.name) for c in rec.calls):
        calls = [("", c) for c in rec.calls if (c.kind, c.name) == (kind, name)]
        yield from _of(f"{kind} {name}".rstrip(), calls, sum(c.count for _, c in calls))


def _of(name: str, calls: Sequence[tuple[str, Call]], total: int) -> Iterator[Text]:
    if not calls:
        return
    ways = f", {len(calls)} distinct" if len(calls) > 1 else ""
    yield Text.assemble((shown(name), "bold"), f"  {counted(total, 'call')}{ways}")
    first_id, first = calls[0]
    wide = max(len(f"{c.count:,}") for _, c in calls)
    for n, (variant, call) in enumerate(calls):
        head = f"  {call.count:>{wide},}{_TIMES} "
        if n:
            words = [f"variant {variant}"] if variant != first_id else []
            words += differences(first, call)
            said = f"as the first but {', '.join(words)}" if words else "as the first"
        else:
            said = " ".join(filter(None, (variant, ", ".join(described(call)))))
        took = "" if call.gpu_time is None else f", {microseconds(call.gpu_time.median_us)} µs"
        yield Text(shown(head + said + took))
        for line in (call.failed or "").splitlines():
            yield Text.assemble(" " * (wide + 4), (shown(f"failed: {line}"), "bold"))


def described(call: Call) -> list[str]:
    """A call in words: its grid and block, then its arguments."""
    out, block = [], call.block
    if call.grid is not None:
        text = f"{sizes(call.grid)} {word_for(prod(call.grid or (0,)), 'block')}"
        if block is not None:
            text += f" of {sizes(block)} {word_for(prod(block or (0,)), 'thread')}"
        out.append(text + (f", {kibibytes(call.shared_bytes)} shared" if call.shared_bytes else ""))
    out += [argument(a) for a in call.arguments if a.type != "constexpr"]
    out += map(sharing, call.shares)
    return out + ([f"first in {' → '.join(call.operators)}"] if call.operators else [])


def argument(one: Argument) -> str:
    """``x float32 64×1024 strided 2048×1 at 16 B 0…781``, ``n 781``."""
    if one.shape is None:
        kind = one.type or UNKNOWN
        # Of a long template, the name alone.
        kind = kind if len(kind) <= LONGEST else short_name(kind)
        return f"{one.name} {kind if one.value is None else one.value}"
    parts = [one.name, one.dtype or UNKNOWN, _shape(one.shape)]
    if one.strides is not None and one.strides != _dense(one.shape):
        parts.append(f"strided {_shape(one.strides)}")
    if one.alignment is not None and one.alignment < 16:
        parts.append(f"at {one.alignment} B")
    if one.low is not None:
        parts.append(f"{one.low}…{one.high}")
    return " ".join(parts)


def sharing(pair: Share) -> str:
    """``src and dst share memory``, and how many bytes apart they begin."""
    apart = f", {abs(pair.offset_bytes):,} B apart" if pair.offset_bytes else ""
    return f"{pair.first} and {pair.second} share memory{apart}"


def differences(first: Call, other: Call) -> list[str]:
    """What a call has other than the first: ``n 2048 (1024)``, with the first's in parentheses."""
    out = []
    for name in ("grid", "block"):
        a, b = getattr(first, name), getattr(other, name)
        if a != b:
            out.append(f"{name} {sizes(b)} ({sizes(a)})")
    if first.shared_bytes != other.shared_bytes:
        out.append(f"shared {other.shared_bytes} B ({first.shared_bytes})")
    for one, two in zip_longest(first.arguments, other.arguments):
        if one is None:
            out.append(f"{argument(two)} (not there)")
        elif two is None:
            out.append(f"without {one.name}")
        elif one != two:
            out += _changed(one, two)
    out += [sharing(pair) for pair in other.shares if pair not in first.shares]
    gone = [pair for pair in first.shares if pair not in other.shares]
    return out + [f"{pair.first} and {pair.second} share no memory" for pair in gone]


def _changed(one: Argument, two: Argument) -> Iterator[str]:
    if (one.shape is None) != (two.shape is None) or (one.shape is None and one.value != two.value):
        yield f"{argument(two)} ({argument(one).partition(' ')[2]})"
        return
    fields = (
        ("", one.dtype, two.dtype),
        ("", _shape(one.shape), _shape(two.shape)),
        ("strides ", _shape(one.strides), _shape(two.strides)),
        ("alignment ", one.alignment, two.alignment),
        ("range ", *(None if a.low is None else f"{a.low}…{a.high}" for a in (one, two))),
        ("on ", one.device, two.device),
    )
    # Other strides of another shape are no news where both are dense.
    dense = one.strides == _dense(one.shape) and two.strides == _dense(two.shape)
    for label, a, b in fields:
        if a != b and not (label == "strides " and dense):
            yield f"{two.name} {label}{UNKNOWN if b is None else b} ({UNKNOWN if a is None else a})"


def _dense(shape: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if shape is None else tuple(prod(shape[n + 1 :]) for n in range(len(shape)))


def _shape(shape: Sequence[int] | None) -> str:
    return UNKNOWN if shape is None else _TIMES.join(map(str, shape)) or "scalar"


def sizes(triple: Sequence[int] | None) -> str:
    """Return a grid or a block without trailing ones: ``1823×4``."""
    if triple is None:
        return UNKNOWN
    last = max((n for n, size in enumerate(triple) if size != 1), default=0)
    return _TIMES.join(map(str, triple[: last + 1]))


def none_known(rec: Recording) -> str | None:
    """Why there is nothing to list, where there is nothing."""
    if any(v.calls for _, v in rec.variants()) or rec.calls:
        return None
    many = plural(len(rec.kernels), "kernel")
    return f"no call was recorded: {many}, and nothing is known of what they were called with"


def document(graph: Graph, view: GraphView, stages: Sequence[Stage]) -> dict[str, object]:
    return {
        "id": graph.id,
        "stages": list(stages),
        "operations": operations(view),
        "not_fused": [
            members(one, "a b") | {"operations": list(one.names)} | members(one, "reason count")
            for one in view.refused
        ],
        "not_fused_left_out": view.refused_left_out,
        "tried": plain(view.tried),
        "buffers": [
            members(one, "name dtype reuses") | {"line": one.n, "bytes": buffer_bytes(one)}
            for one in view.buffers
        ],
    }


def operations(view: GraphView) -> list[dict[str, object]]:
    return [
        {
            "call": call.number,
            "line": call.n,
            **members(call, "name kernel extern operators modules"),
            "from": [_place(place) for place in call.places],
            "nodes": [
                members(node, "name target aten module module_type")
                | {"from": _place(node.place), "dynamo": node.source}
                for node in call.nodes
            ],
            "fused": list(call.operations),
            **members(call, "backward bytes bytes_read bytes_written bytes_from"),
            "reuses": [{"buffer": new, "of": old} for new, old in call.reuses],
            "tuned": call.tuned,
        }
        for call in view.calls
    ]


def _place(place: Place | None) -> dict[str, object] | None:
    return None if place is None else dict(zip(("file", "line", "code"), place, strict=True))


def table(graphs: Iterable[tuple[Graph, GraphView]]) -> Iterable[str]:
    """The calls of graphs, a line each, wide names cut in the middle."""
    for at, (graph, view) in enumerate(graphs):
        yield from [""] if at else []
        yield shown(f"graph {graph.id}: {heading(view)}")
        rows = [[_short(shown(cell)) for cell in call_cells(call)] for call in view.calls]
        yield from (line.plain for line in grid(CALL_HEAD, rows, maxsize))


def _short(text: str) -> str:
    """A text for a column: what is cut is the middle, where names differ least."""
    tail = MAX_COLUMN_CHARS // 2
    cut = f"{text[: MAX_COLUMN_CHARS - tail - 1]}…{text[-tail:]}"
    return text if len(text) <= MAX_COLUMN_CHARS else cut
