"""Distinct calls of kernels and graphs: arguments, counts, differences, operations."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from math import prod
from sys import maxsize

from rich.text import Text

from inspector.analysis.graph_text import CALL_HEAD, MAX_COLUMN_CHARS, call_cells, heading
from inspector.analysis.graph_view import GraphView
from inspector.base.escapes import shown
from inspector.base.model import Argument, Call, Graph, Recording, Share
from inspector.base.names import short_name
from inspector.base.units import kibibytes, microseconds, plural, word_for
from inspector.render.tables import UNKNOWN, grid

_TIMES = "×"
MAX_TYPE_CHARS = 48
"""Characters of a type that is shown whole."""


def lines(rec: Recording) -> Iterator[Text]:
    """All calls: a line for each kernel, graph and function, below it one for each distinct call.

    The first call is shown in full, later ones by their differences from it.
    """
    for kernel in rec.kernels:
        variant_calls = [(v.id, c) for v in kernel.variants for c in v.calls]
        variant_calls.sort(key=lambda pair: (pair[1].first is None, pair[1].first or 0))
        launch_counts = [v.launches for v in kernel.variants if v.launches is not None]
        yield from _call_lines(kernel.display_name, variant_calls, sum(launch_counts))
    for kind, name in dict.fromkeys((c.kind, c.name) for c in rec.calls):
        calls = [("", c) for c in rec.calls if (c.kind, c.name) == (kind, name)]
        yield from _call_lines(f"{kind} {name}".rstrip(), calls, sum(c.count for _, c in calls))


def _call_lines(name: str, calls: Sequence[tuple[str, Call]], total: int) -> Iterator[Text]:
    if not calls:
        return
    ways = f", {len(calls)} distinct" if len(calls) > 1 else ""
    yield Text.assemble((shown(name), "bold"), f"  {plural(total, 'call')}{ways}")
    first_id, first = calls[0]
    count_width = max(len(f"{c.count:,}") for _, c in calls)
    for n, (variant, call) in enumerate(calls):
        head = f"  {call.count:>{count_width},}{_TIMES} "
        if n:
            words = [f"variant {variant}"] if variant != first_id else []
            words += differences(first, call)
            description = f"as the first but {', '.join(words)}" if words else "as the first"
        else:
            description = " ".join(filter(None, (variant, ", ".join(call_parts(call)))))
        duration = "" if call.gpu_time is None else f", {microseconds(call.gpu_time.median_us)} µs"
        yield Text(shown(head + description + duration))
        for line in (call.failed or "").splitlines():
            yield Text.assemble(" " * (count_width + 4), (shown(f"failed: {line}"), "bold"))


def call_parts(call: Call) -> list[str]:
    """A call in words: its grid and block, then its arguments."""
    out, block = [], call.block
    if call.grid is not None:
        text = f"{size_text(call.grid)} {word_for(prod(call.grid or (0,)), 'block')}"
        if block is not None:
            text += f" of {size_text(block)} {word_for(prod(block or (0,)), 'thread')}"
        out.append(text + (f", {kibibytes(call.shared_bytes)} shared" if call.shared_bytes else ""))
    out += [argument_text(a) for a in call.arguments if a.type != "constexpr"]
    out += map(sharing_text, call.shares)
    return out + ([f"first in {' → '.join(call.operators)}"] if call.operators else [])


def argument_text(argument: Argument) -> str:
    """``x float32 64×1024 strided 2048×1 at 16 B 0…781``, ``n 781``."""
    if argument.shape is None:
        kind = argument.type or UNKNOWN
        # Of a long template, the name alone.
        kind = kind if len(kind) <= MAX_TYPE_CHARS else short_name(kind)
        return f"{argument.name} {kind if argument.value is None else argument.value}"
    parts = [argument.name, argument.dtype or UNKNOWN, _shape(argument.shape)]
    if argument.strides is not None and argument.strides != _dense(argument.shape):
        parts.append(f"strided {_shape(argument.strides)}")
    if argument.alignment is not None and argument.alignment < 16:
        parts.append(f"at {argument.alignment} B")
    if argument.low is not None and argument.high is not None:
        parts.append(f"{_bound(argument.low)}…{_bound(argument.high)}")
    if argument.nans:
        parts.append(f"{argument.nans:,} NaN")
    return " ".join(parts)


def _bound(value: int | float) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _integer_range(argument: Argument) -> str | None:
    """The range of integers, which decide where a kernel reads; None of other values."""
    return f"{argument.low}…{argument.high}" if isinstance(argument.low, int) else None


def sharing_text(pair: Share) -> str:
    """``src and dst share memory``, and how many bytes apart they begin."""
    apart = f", {abs(pair.offset_bytes):,} B apart" if pair.offset_bytes else ""
    return f"{pair.first} and {pair.second} share memory{apart}"


def differences(first: Call, other: Call) -> list[str]:
    """What a call has other than the first: ``n 2048 (1024)``, with the first's in parentheses."""
    out = []
    for name in ("grid", "block"):
        a, b = getattr(first, name), getattr(other, name)
        if a != b:
            out.append(f"{name} {size_text(b)} ({size_text(a)})")
    if first.shared_bytes != other.shared_bytes:
        out.append(f"shared {other.shared_bytes} B ({first.shared_bytes})")
    for old_argument, new_argument in zip_longest(first.arguments, other.arguments):
        if old_argument is None:
            out.append(f"{argument_text(new_argument)} (not there)")
        elif new_argument is None:
            out.append(f"without {old_argument.name}")
        elif old_argument != new_argument:
            out += _argument_differences(old_argument, new_argument)
    out += [sharing_text(pair) for pair in other.shares if pair not in first.shares]
    gone = [pair for pair in first.shares if pair not in other.shares]
    return out + [f"{pair.first} and {pair.second} share no memory" for pair in gone]


def _argument_differences(old_argument: Argument, new_argument: Argument) -> Iterator[str]:
    if (old_argument.shape is None) != (new_argument.shape is None) or (
        old_argument.shape is None and old_argument.value != new_argument.value
    ):
        yield f"{argument_text(new_argument)} ({argument_text(old_argument).partition(' ')[2]})"
        return
    fields = (
        ("", old_argument.dtype, new_argument.dtype),
        ("", _shape(old_argument.shape), _shape(new_argument.shape)),
        ("strides ", _shape(old_argument.strides), _shape(new_argument.strides)),
        ("alignment ", old_argument.alignment, new_argument.alignment),
        ("range ", _integer_range(old_argument), _integer_range(new_argument)),
        ("NaN ", old_argument.nans or None, new_argument.nans or None),
        ("on ", old_argument.device, new_argument.device),
    )
    # Other strides of another shape are no news where both are dense.
    are_dense = all(a.strides == _dense(a.shape) for a in (old_argument, new_argument))
    for label, old, new in fields:
        if old != new and not (label == "strides " and are_dense):
            old_text = UNKNOWN if old is None else old
            new_text = UNKNOWN if new is None else new
            yield f"{new_argument.name} {label}{new_text} ({old_text})"


def _dense(shape: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if shape is None else tuple(prod(shape[n + 1 :]) for n in range(len(shape)))


def _shape(shape: Sequence[int] | None) -> str:
    return UNKNOWN if shape is None else _TIMES.join(map(str, shape)) or "scalar"


def size_text(triple: Sequence[int] | None) -> str:
    """Return a grid or a block without trailing ones: ``1823×4``."""
    if triple is None:
        return UNKNOWN
    last = max((n for n, size in enumerate(triple) if size != 1), default=0)
    return _TIMES.join(map(str, triple[: last + 1]))


def why_empty(rec: Recording) -> str | None:
    """Why there is nothing to list, where there is nothing."""
    if any(v.calls for _, v in rec.variants()) or rec.calls:
        return None
    kernels = plural(len(rec.kernels), "kernel")
    return f"no call was recorded: {kernels}, and nothing is known of what they were called with"


def table(graphs: Iterable[tuple[Graph, GraphView]]) -> Iterable[str]:
    """The calls of graphs, a line each, wide names cut in the middle."""
    for index, (graph, view) in enumerate(graphs):
        yield from [""] if index else []
        yield shown(f"graph {graph.id}: {heading(view)}")
        rows = [[_short(shown(cell)) for cell in call_cells(call)] for call in view.calls]
        yield from (line.plain for line in grid(CALL_HEAD, rows, maxsize))


def _short(text: str) -> str:
    """A text for a column: what is cut is the middle, where names differ least."""
    tail = MAX_COLUMN_CHARS // 2
    cut = f"{text[: MAX_COLUMN_CHARS - tail - 1]}…{text[-tail:]}"
    return text if len(text) <= MAX_COLUMN_CHARS else cut
