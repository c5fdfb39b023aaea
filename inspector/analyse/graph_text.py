"""A graph told as text, a line a call; and which lines of a graph's stages belong together.

Lines of two stages belong together where they are of the same operation of the scheduler, of the
same call, of the same node of the last graph, or of the same line of the user's, whichever of these
both stages know first.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from inspector.analyse.graph_view import (
    GraphCall,
    GraphView,
    Place,
    RefusedFusion,
    buffer_bytes,
)
from inspector.base.text import base_name, by_key, counted, kibibytes, microseconds, plural

MAX_COLUMN_CHARS = 48
"""Letters of a column of the table; a longer text is written out and moves the rest of its row."""
UNKNOWN = "–"

_HOW = {"inductor": "by Inductor", "tensors": "from the tensors of recorded launches"}

Links = Mapping[int, tuple[int, ...]]
Keys = dict[int, set[str]]
Known = dict[str, Keys]
"""Of each line what it is of, by kind: operations, calls, nodes, places."""

KINDS = ("operations", "calls", "nodes", "places")

_NEWLINES = re.compile(r"[\r\n]")
_FILE = re.compile(r"^\s*+# (?:Annotation: .{0,4096}? )?File: (.{1,4096}?):(\d{1,9}) in ")
_NODE = re.compile(r"^\s{4,}(\w{1,400})(?:: ?\"[^\"\n]*\")? = ")
_SCHEDULED = re.compile(r"^(\w{1,400}): \w{0,40}SchedulerNode\b")


class GraphRow(Struct, frozen=True):
    """A line of a graph's text, with the numbers of the calls that it is about."""

    text: str
    calls: tuple[int, ...] = ()


def short_file(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


CALL_HEAD = ("call", "kernel", "operators", "modules", "from", "bytes", "line")


def call_cells(call: GraphCall) -> tuple[str, ...]:
    """A row of ``CALL_HEAD``; the user's lines are by file: ``model.py:9, 12``."""
    name = call.name
    if call.kernel is not None and base_name(call.kernel) != name:
        name = f"{call.kernel} (there {name})"  # a copy of a kernel that the user wrote
    by_file: dict[str, dict[str, None]] = {}
    for file, line, _ in call.places:
        by_file.setdefault(short_file(file), {})[str(line)] = None
    return (
        str(call.number),
        name,
        ", ".join(operator.removeprefix("aten.") for operator in call.operators) or UNKNOWN,
        ", ".join(path or "(the model)" for path in call.modules) or UNKNOWN,
        "; ".join(f"{file}:{', '.join(lines)}" for file, lines in by_file.items()) or UNKNOWN,
        UNKNOWN if call.bytes is None else f"~{kibibytes(call.bytes)}",
        str(call.n),
    )


def heading(view: GraphView) -> str:
    extern = sum(call.extern for call in view.calls)
    launches = len(view.calls) - extern
    bytes_moved = [call.bytes for call in view.calls if call.bytes is not None]
    parts = [
        f"{plural(len(view.calls), 'call')}: {plural(launches, 'launch')}, {extern} of libraries"
    ]
    if bytes_moved:
        sources = dict.fromkeys(call.bytes_from for call in view.calls if call.bytes is not None)
        how = " and ".join(_HOW[name] for name in sources if name in _HOW)
        parts.append(f"~{kibibytes(sum(bytes_moved))} moved, estimated {how}")
    return "; ".join(parts)


def graph_rows(name: str, view: GraphView) -> list[GraphRow]:
    """The whole text: calls, the user's lines, what was fused and what was not, memory."""
    out = [GraphRow(f"graph {name}: {heading(view)}"), GraphRow("")]
    cells = [call_cells(call) for call in view.calls]
    out += _table(CALL_HEAD, cells, [(call.number,) for call in view.calls])
    calls_by_place = by_key((place, call.number) for call in view.calls for place in call.places)
    files = list(dict.fromkeys(file for file, _, _ in calls_by_place))
    # Lines in the order of their files.
    by_line = sorted(
        calls_by_place.items(), key=lambda entry: (files.index(entry[0][0]), entry[0][1])
    )
    lines = [
        (f"{short_file(file)}:{line}", ", ".join(map(str, calls)), code)
        for (file, line, code), calls in by_line
    ]
    refused = [
        GraphRow(
            refusal(refused_fusion),
            tuple(n for n in (refused_fusion.a, refused_fusion.b) if n is not None),
        )
        for refused_fusion in view.refused
    ]
    if view.refused_left_out:
        left_out = counted(view.refused_left_out, "more reason")
        refused.append(GraphRow(f"{left_out} were not kept"))
    for title, section in (
        (
            "the model's lines, and the calls that they came to",
            [*_table(("line", "calls", "code"), lines, [tuple(calls) for _, calls in by_line])]
            if lines
            else [],
        ),
        (
            "chosen by max-autotune (calls by their numbers)",
            [
                GraphRow(f"{UNKNOWN}  {choice.text}")
                if choice.call is None
                else GraphRow(f"{choice.call}  {choice.text}", (choice.call,))
                for choice in view.choices
            ],
        ),
        (
            "fused: the scheduler's operations that became one call",
            [
                GraphRow(f"{c.number}  {c.name}: {', '.join(c.operations)}", (c.number,))
                for c in view.calls
                if len(c.operations) > 1
            ],
        ),
        ("compiled by Inductor to see whether a fusion is faster", [*_tried(view)]),
        ("not fused, in Inductor's own words (calls by their numbers)", refused),
        (
            f"memory: {memory(view)}",
            [
                GraphRow(f"{c.number}  {new} takes the memory of {old}", (c.number,))
                for c in view.calls
                for new, old in c.reuses
            ],
        ),
    ):
        if section or (title.startswith("memory") and view.buffers):
            out += [GraphRow(""), GraphRow(title), *section]
    # A recorded text may have several lines; a row is one.
    return [GraphRow(_NEWLINES.sub("␤", row.text), row.calls) for row in out]


def _table(
    head: Sequence[str], cells: Sequence[Sequence[str]], numbers: Sequence[tuple[int, ...]]
) -> Iterator[GraphRow]:
    widths = [
        max(
            [
                len(title),
                *(len(row[column]) for row in cells if len(row[column]) <= MAX_COLUMN_CHARS),
            ]
        )
        for column, title in enumerate(head)
    ]
    for row, calls in zip((head, *cells), ((), *numbers), strict=True):
        yield GraphRow(
            "  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip(), calls
        )


def _tried(view: GraphView) -> Iterator[GraphRow]:
    for fusion in view.tried:
        how = "as one kernel" if len(fusion.nodes) > 1 else "alone"
        took = "not measured" if fusion.time_us is None else f"{microseconds(fusion.time_us)} µs"
        numbers = tuple(
            call.number
            for call in view.calls
            if any(node.name in fusion.nodes for node in call.results or call.nodes)
        )
        yield GraphRow(f"{', '.join(fusion.nodes)} {how}: {took}", numbers)


def refusal(fusion: RefusedFusion) -> str:
    """``3 with 7: no shared data``; what became no call is named as Inductor names it."""
    a, b = (
        str(name) if number is None else str(number)
        for number, name in zip((fusion.a, fusion.b), fusion.names, strict=True)
    )
    times = "" if fusion.count == 1 else f" ({fusion.count} times)"
    return f"{a} with {b}: {fusion.reason}{times}"


def memory(view: GraphView) -> str:
    """What the wrapper allocates and what it gives to a second buffer; "" if it does neither."""
    if not view.buffers:
        return ""
    allocated, reused = (
        _sum([buffer_bytes(buffer) for buffer in view.buffers if (buffer.reuses is None) is new])
        for new in (True, False)
    )
    return f"{allocated} allocated; {reused} in memory of earlier ones"


def _sum(sizes: Sequence[int | None]) -> str:
    known_sizes = [size for size in sizes if size is not None]
    unknown = len(sizes) - len(known_sizes)
    also = f", and {unknown} of unknown size" if unknown else ""
    return plural(len(sizes), "buffer") + (
        f" ({kibibytes(sum(known_sizes))}{also})" if known_sizes else ""
    )


def of_output_code(
    kernels: Mapping[str, Sequence[int]], spans: Mapping[int, tuple[int, int]], view: GraphView
) -> Known:
    """The lines of ``output_code``: a call's own, and the text of the kernel that it launches.

    ``kernels`` are the lines that define and launch each; ``spans`` the first and last line of the
    text of one that is defined on a line.
    """
    numbers = {call.n: call.number for call in view.calls}
    lines: dict[int, tuple[int, ...]] = {n: (number,) for n, number in numbers.items()}
    for kernel_lines in kernels.values():
        calls = tuple(numbers[n] for n in kernel_lines if n in numbers)
        for n in kernel_lines:
            if calls and n not in numbers:
                first, last = spans.get(n, (n, n))
                lines.update(dict.fromkeys((n, *range(first, last + 1)), calls))
    return of_calls(lines, view)


def of_calls(lines: Mapping[int, tuple[int, ...]], view: GraphView) -> Known:
    keys_by_kind: Known = {kind: {} for kind in KINDS if view.recorded or kind != "operations"}
    for n, numbers in lines.items():
        line_calls = [view.calls[number - 1] for number in numbers if 0 < number <= len(view.calls)]
        nodes = {node.name for call in line_calls for node in call.nodes}
        keys_here = {
            "operations": {name for call in line_calls for name in call.operations},
            "calls": {str(call.number) for call in line_calls},
            "nodes": nodes & view.nodes.keys(),
            "places": {_location(place) for call in line_calls for place in call.places},
        }
        for kind, keys in keys_by_kind.items():
            keys[n] = keys_here[kind]
    return keys_by_kind


def of_ir(texts: Sequence[str], view: GraphView) -> Known:
    """The lines of Inductor's IR: blocks, each of one or several of the scheduler's operations."""
    operations: Keys = {}
    names: set[str] = set()
    for n, text in enumerate(texts, 1):
        if match := _SCHEDULED.match(text):
            names = _named(match[1], view.origins)
        if text.strip():
            operations[n] = names
    calls = {
        n: {str(view.launched[name]) for name in operation_names if name in view.launched}
        for n, operation_names in operations.items()
    }
    nodes = {
        n: {node for name in operation_names for node in view.origins.get(name, ())}
        for n, operation_names in operations.items()
    }
    return {"operations": operations, "calls": calls, "nodes": nodes}


def _named(name: str, operations: Mapping[str, object]) -> set[str]:
    """The operations in ``op0_op1``, whose own names may have underscores."""
    out: set[str] = set()
    word = ""
    for part in name.split("_") if name not in operations else [name]:
        word = f"{word}_{part}" if word else part
        if word in operations:
            out.add(word)
            word = ""
    return out


def of_fx(texts: Sequence[str], view: GraphView, dynamo: bool) -> Known:
    by_source: dict[str, set[str]] = defaultdict(set)
    by_module: dict[tuple[str | None, str], set[str]] = defaultdict(set)
    for node in view.nodes.values():
        if node.source is not None:
            by_source[node.source].add(node.name)
        elif node.place is not None:
            by_module[node.module, _location(node.place)].add(node.name)
    nodes: Keys = {}
    places: Keys = {}
    place: str | None = None
    for n, text in enumerate(texts, 1):
        if match := _FILE.match(text):
            place = f"{match[1]}:{int(match[2])}"
            places[n] = {place}
        elif text.lstrip().startswith("# No stacktrace"):
            place = None
        elif match := _NODE.match(text):
            if place is not None:
                places[n] = {place}
            nodes[n] = {match[1]} & view.nodes.keys()
            if dynamo:
                nodes[n] = set(by_source[match[1]])
                source_node = view.dynamo.get(match[1])
                if source_node is not None and source_node.place is not None:
                    # Nodes of the backward pass, which name no node of Dynamo's.
                    nodes[n] |= by_module[source_node.module, _location(source_node.place)]
    return {"nodes": nodes, "places": places} if view.nodes else {"places": places}


def of_source(path: str, view: GraphView) -> Known:
    nodes: Keys = defaultdict(set)
    places: Keys = {}
    for node in (*view.nodes.values(), *view.dynamo.values()):
        if node.place is not None and node.place[0] == path:
            if node.name in view.nodes:
                nodes[node.place[1]].add(node.name)
            places[node.place[1]] = {_location(node.place)}
    return {"nodes": dict(nodes), "places": places} if view.nodes else {"places": places}


def _location(place: Place) -> str:
    return f"{place[0]}:{place[1]}"


def linked(a: Known, b: Known) -> dict[int, tuple[int, ...]]:
    """Lines of one stage to the lines of the other that they belong to."""
    kind = next((k for k in KINDS if a.get(k) and b.get(k)), None)
    if kind is None:
        return {}
    lines = by_key((key, n) for n, keys in b[kind].items() for key in keys)
    out = {n: {x for key in keys for x in lines.get(key, ())} for n, keys in a[kind].items()}
    return {n: tuple(sorted(targets)) for n, targets in out.items() if targets}
