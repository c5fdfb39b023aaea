"""Distinct calls of kernels and graphs: arguments, counts, differences, operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from math import prod

from rich.text import Text

from inspector.analyse.graph_text import CALL_HEAD, MAX_COLUMN_CHARS, call_cells, heading
from inspector.analyse.graph_view import FxNode, GraphCall, GraphView, Place, buffer_bytes
from inspector.base.model import Argument, Call, Graph, Recording, Stage
from inspector.base.names import short_name
from inspector.base.text import kibibytes, plural, shown, word_for
from inspector.report.jsons import members, plain
from inspector.report.tables import UNKNOWN

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
    names = dict.fromkeys((c.kind, c.name) for c in rec.calls)
    for kind, name in names:
        calls = [("", c) for c in rec.calls if (c.kind, c.name) == (kind, name)]
        yield from _of(f"{kind} {name}".rstrip(), calls, sum(c.count for _, c in calls))


def _of(name: str, calls: Sequence[tuple[str, Call]], total: int) -> Iterator[Text]:
    if not calls:
        return
    ways = f", {len(calls)} distinct" if len(calls) > 1 else ""
    yield Text.assemble(
        (shown(name), "bold"), f"  {total:,} {'call' if total == 1 else 'calls'}{ways}"
    )
    first_id, first = calls[0]
    wide = max(len(f"{c.count:,}") for _, c in calls)
    for n, (variant, call) in enumerate(calls):
        words = described(call) if n == 0 else differences(first, call)
        if n and variant != first_id:
            words = [f"variant {variant}", *words]
        if n:
            words = ["as the first but " + words[0], *words[1:]] if words else ["as the first"]
        head = f"  {call.count:>{wide},}{_TIMES} " + (f"{variant} " if n == 0 and variant else "")
        yield Text(shown(head + ", ".join(words)))


def described(call: Call) -> list[str]:
    """A call in words: its grid and block, then its arguments."""
    out = []
    if call.grid is not None:
        out.append(_launch(call))
    out += [argument(a) for a in call.arguments if a.type != "constexpr"]
    return out + ([f"first in {' → '.join(call.operators)}"] if call.operators else [])


def _launch(call: Call) -> str:
    text = _counted(call.grid, "block")
    if call.block is not None:
        text += f" of {_counted(call.block, 'thread')}"
    return f"{text}, {kibibytes(call.shared_bytes)} shared" if call.shared_bytes else text


def argument(one: Argument) -> str:
    """``x float32 64×1024 strided 2048×1 at 16 B 0…781``, ``n 781``."""
    if one.shape is None:
        return f"{one.name} {_kind(one.type) if one.value is None else one.value}"
    parts = [one.name, one.dtype or UNKNOWN, _shape(one.shape)]
    if one.strides is not None and one.strides != _dense(one.shape):
        parts.append(f"strided {_shape(one.strides)}")
    if one.alignment is not None and one.alignment < 16:
        parts.append(f"at {one.alignment} B")
    if one.low is not None:
        parts.append(f"{one.low}…{one.high}")
    return " ".join(parts)


def _kind(kind: str | None) -> str:
    """The type of a value that is not known; of a long template, what tells something."""
    if kind is None:
        return UNKNOWN
    return kind if len(kind) <= LONGEST else short_name(kind)


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
    return out


def _changed(one: Argument, two: Argument) -> Iterator[str]:
    if (one.shape is None) != (two.shape is None) or (one.shape is None and one.value != two.value):
        yield f"{argument(two)} ({argument(one).partition(' ')[2]})"
        return
    fields = (
        ("", one.dtype, two.dtype),
        ("", _shape(one.shape), _shape(two.shape)),
        ("strides ", _shape(one.strides), _shape(two.strides)),
        ("alignment ", one.alignment, two.alignment),
        ("range ", _range(one), _range(two)),
        ("on ", one.device, two.device),
    )
    # Other strides of another shape are no news where both are dense.
    dense = one.strides == _dense(one.shape) and two.strides == _dense(two.shape)
    for label, a, b in fields:
        if a != b and not (label == "strides " and dense):
            yield f"{two.name} {label}{UNKNOWN if b is None else b} ({UNKNOWN if a is None else a})"


def _range(one: Argument) -> str | None:
    return None if one.low is None else f"{one.low}…{one.high}"


def _dense(shape: Sequence[int] | None) -> tuple[int, ...] | None:
    if shape is None:
        return None
    out: list[int] = []
    step = 1
    for size in reversed(shape):
        out.insert(0, step)
        step *= size
    return tuple(out)


def _shape(shape: Sequence[int] | None) -> str:
    return UNKNOWN if shape is None else _TIMES.join(map(str, shape)) or "scalar"


def _counted(triple: Sequence[int] | None, word: str) -> str:
    """``1 block``, ``8×4 blocks``."""
    return f"{sizes(triple)} {word_for(prod(triple or (0,)), word)}"


def sizes(triple: Sequence[int] | None) -> str:
    """Return a grid or a block without trailing ones: ``1823×4``."""
    if triple is None:
        return UNKNOWN
    held = list(triple)
    while len(held) > 1 and held[-1] == 1:
        held.pop()
    return _TIMES.join(map(str, held))


def none_known(rec: Recording) -> str | None:
    """Why there is nothing to list, where there is nothing."""
    if any(v.calls for _, v in rec.variants()) or rec.calls:
        return None
    many = plural(len(rec.kernels), "kernel")
    return f"no call was recorded: {many}, and nothing is known of what they were called with"


def document(graph: Graph, view: GraphView, stages: Sequence[Stage]) -> dict[str, object]:
    """Return all that is known of a graph."""
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
            {
                "name": one.name,
                "line": one.n,
                "dtype": one.dtype,
                "bytes": buffer_bytes(one),
                "reuses": one.reuses,
            }
            for one in view.buffers
        ],
    }


def operations(view: GraphView) -> list[dict[str, object]]:
    """Return the calls of a graph in order."""
    return [_call(call) for call in view.calls]


def _call(call: GraphCall) -> dict[str, object]:
    return {
        "call": call.number,
        "line": call.n,
        **members(call, "name kernel extern operators modules"),
        "from": [_place(place) for place in call.places],
        "nodes": [_node(node) for node in call.nodes],
        "fused": list(call.operations),
        **members(call, "backward bytes bytes_read bytes_written bytes_from"),
        "reuses": [{"buffer": new, "of": old} for new, old in call.reuses],
        "tuned": call.tuned,
    }


def _place(place: Place | None) -> dict[str, object] | None:
    return None if place is None else dict(zip(("file", "line", "code"), place, strict=True))


def _node(node: FxNode) -> dict[str, object]:
    own = members(node, "name target aten module module_type")
    return {**own, "from": _place(node.place), "dynamo": node.source}


def table(graphs: Iterable[tuple[Graph, GraphView]]) -> Iterable[str]:
    """The calls of graphs, a line each, wide names cut in the middle."""
    for at, (graph, view) in enumerate(graphs):
        if at:
            yield ""
        yield shown(f"graph {graph.id}: {heading(view)}")
        rows = [[_short(shown(cell)) for cell in call_cells(call)] for call in view.calls]
        widths = [max(map(len, column)) for column in zip(CALL_HEAD, *rows, strict=True)]
        for row in (CALL_HEAD, *rows):
            yield "  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip()


def _short(text: str) -> str:
    """A text for a column: what is cut is the middle, where names differ least."""
    if len(text) <= MAX_COLUMN_CHARS:
        return text
    tail = MAX_COLUMN_CHARS // 2
    return f"{text[: MAX_COLUMN_CHARS - tail - 1]}…{text[-tail:]}"
