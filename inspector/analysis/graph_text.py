"""A graph as text, a line a call; and which lines of a graph's stages belong together.

Lines of two stages belong together where they are of the same operation of the scheduler, of the
same call, of the same node of the last graph, or of the same line of the user's: by the first of
these that both stages know.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from inspector.analysis.graph_view import (
    GraphCall,
    GraphView,
    Place,
    RefusedFusion,
    buffer_bytes,
)
from inspector.base.grouping import by_key
from inspector.base.names import base_name
from inspector.base.units import kibibytes, microseconds, plural

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
    """A row of ``CALL_HEAD``."""
    name = call.name
    if call.kernel is not None and base_name(call.kernel) != name:
        name = f"{call.kernel} (there {name})"  # a copy of a kernel that the user wrote
    return (
        str(call.number),
        name,
        ", ".join(operator.removeprefix("aten.") for operator in call.operators) or UNKNOWN,
        ", ".join(path or "(the model)" for path in call.modules) or UNKNOWN,
        _lines_by_file(call.places) or UNKNOWN,
        UNKNOWN if call.bytes is None else f"~{kibibytes(call.bytes)}",
        str(call.n),
    )


def _lines_by_file(places: Iterable[Place]) -> str:
    """The user's lines by file: ``model.py:9, 12``."""
    by_file: dict[str, dict[str, None]] = {}
    for file, line, _ in places:
        by_file.setdefault(short_file(file), {})[str(line)] = None
    return "; ".join(f"{file}:{', '.join(lines)}" for file, lines in by_file.items())


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


def graph_rows(
    name: str, view: GraphView, verified: Mapping[str, str] | None = None
) -> list[GraphRow]:
    """The whole text: calls, the user's lines, what was fused and what was not, memory.

    ``verified`` are verdicts on kernels by their ids; with any the calls have a column of them.
    """
    rows = [GraphRow(f"graph {name}: {heading(view)}"), GraphRow("")]
    head: tuple[str, ...] = CALL_HEAD
    cells = [call_cells(call) for call in view.calls]
    if verified:
        head = (head[0], "verified", *head[1:])
        verdicts = [verified.get(call.kernel or "", UNKNOWN) for call in view.calls]
        cells = [(row[0], word, *row[1:]) for row, word in zip(cells, verdicts, strict=True)]
    rows += _table(head, cells, [(call.number,) for call in view.calls])
    for title, section in (
        ("the model's lines, and the calls that they came to", _lines_of_model(view)),
        ("chosen by max-autotune (calls by their numbers)", _choices(view)),
        ("fused: the scheduler's operations that became one call", _fused(view)),
        ("compiled by Inductor to see whether a fusion is faster", [*_tried(view)]),
        ("not fused, in Inductor's own words (calls by their numbers)", _refused(view)),
    ):
        if section:
            rows += [GraphRow(""), GraphRow(title), *section]
    if view.buffers:
        rows += [GraphRow(""), GraphRow(f"memory: {memory(view)}"), *_reuses(view)]
    # A recorded text may have several lines; a row is one.
    return [GraphRow(_NEWLINES.sub("␤", row.text), row.calls) for row in rows]


def _lines_of_model(view: GraphView) -> list[GraphRow]:
    """The user's lines by file, in the order of the calls, with the calls that they came to."""
    calls_by_place = by_key((place, call.number) for call in view.calls for place in call.places)
    if not calls_by_place:
        return []
    files = list(dict.fromkeys(file for file, _, _ in calls_by_place))
    places = sorted(calls_by_place, key=lambda place: (files.index(place[0]), place[1]))
    cells = []
    numbers = []
    for file, line, code in places:
        calls = calls_by_place[file, line, code]
        cells.append((f"{short_file(file)}:{line}", ", ".join(map(str, calls)), code))
        numbers.append(tuple(calls))
    return [*_table(("line", "calls", "code"), cells, numbers)]


def _choices(view: GraphView) -> list[GraphRow]:
    rows = []
    for choice in view.choices:
        number = UNKNOWN if choice.call is None else choice.call
        calls = () if choice.call is None else (choice.call,)
        rows.append(GraphRow(f"{number}  {choice.text}", calls))
    return rows


def _fused(view: GraphView) -> list[GraphRow]:
    return [
        GraphRow(f"{call.number}  {call.name}: {', '.join(call.operations)}", (call.number,))
        for call in view.calls
        if len(call.operations) > 1
    ]


def _refused(view: GraphView) -> list[GraphRow]:
    rows = []
    for fusion in view.refused:
        calls = tuple(number for number in (fusion.a, fusion.b) if number is not None)
        rows.append(GraphRow(refusal(fusion), calls))
    if view.refused_left_out:
        left_out = plural(view.refused_left_out, "more reason")
        rows.append(GraphRow(f"{left_out} were not kept"))
    return rows


def _reuses(view: GraphView) -> list[GraphRow]:
    return [
        GraphRow(f"{call.number}  {new} takes the memory of {old}", (call.number,))
        for call in view.calls
        for new, old in call.reuses
    ]


def _table(
    head: Sequence[str], cells: Sequence[Sequence[str]], numbers: Sequence[tuple[int, ...]]
) -> Iterator[GraphRow]:
    widths = []
    for column, title in enumerate(head):
        lengths = [len(row[column]) for row in cells]
        widths.append(max([len(title), *(n for n in lengths if n <= MAX_COLUMN_CHARS)]))
    for row, calls in zip((head, *cells), ((), *numbers), strict=True):
        columns = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
        yield GraphRow("  ".join(columns).rstrip(), calls)


def _tried(view: GraphView) -> Iterator[GraphRow]:
    for fusion in view.tried:
        how = "as one kernel" if len(fusion.nodes) > 1 else "alone"
        took = "not measured" if fusion.time_us is None else f"{microseconds(fusion.time_us)} µs"
        calls = tuple(call.number for call in view.calls if _computes_any(call, fusion.nodes))
        yield GraphRow(f"{', '.join(fusion.nodes)} {how}: {took}", calls)


def _computes_any(call: GraphCall, names: Sequence[str]) -> bool:
    return any(node.name in names for node in call.results or call.nodes)


def refusal(fusion: RefusedFusion) -> str:
    """``3 with 7: no shared data``; what became no call is named as Inductor names it."""
    a = fusion.names[0] if fusion.a is None else fusion.a
    b = fusion.names[1] if fusion.b is None else fusion.b
    times = "" if fusion.count == 1 else f" ({fusion.count} times)"
    return f"{a} with {b}: {fusion.reason}{times}"


def memory(view: GraphView) -> str:
    """What the wrapper allocates and what it gives to a second buffer; "" if it does neither."""
    if not view.buffers:
        return ""
    allocated = [buffer_bytes(buffer) for buffer in view.buffers if buffer.reuses is None]
    reused = [buffer_bytes(buffer) for buffer in view.buffers if buffer.reuses is not None]
    return f"{_sum(allocated)} allocated; {_sum(reused)} in memory of earlier ones"


def _sum(sizes: Sequence[int | None]) -> str:
    buffers = plural(len(sizes), "buffer")
    known_sizes = [size for size in sizes if size is not None]
    if not known_sizes:
        return buffers
    unknown = len(sizes) - len(known_sizes)
    also = f", and {unknown} of unknown size" if unknown else ""
    return f"{buffers} ({kibibytes(sum(known_sizes))}{also})"


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
    operations: Keys = {}
    calls: Keys = {}
    nodes: Keys = {}
    places: Keys = {}
    for n, numbers in lines.items():
        operations[n] = set()
        calls[n] = set()
        nodes[n] = set()
        places[n] = set()
        for number in numbers:
            if 0 < number <= len(view.calls):
                call = view.calls[number - 1]
                operations[n].update(call.operations)
                calls[n].add(str(call.number))
                nodes[n].update(node.name for node in call.nodes if node.name in view.nodes)
                places[n].update(map(_location, call.places))
    keys = {"calls": calls, "nodes": nodes, "places": places}
    return {"operations": operations, **keys} if view.recorded else keys


def of_ir(texts: Sequence[str], view: GraphView) -> Known:
    """The lines of Inductor's IR: blocks, each of one or several of the scheduler's operations."""
    operations: Keys = {}
    calls: Keys = {}
    nodes: Keys = {}
    names: set[str] = set()
    for n, text in enumerate(texts, 1):
        if match := _SCHEDULED.match(text):
            names = _named(match[1], view.origins)
        if text.strip():
            operations[n] = names
            calls[n] = {str(view.launched[name]) for name in names if name in view.launched}
            nodes[n] = set().union(*(view.origins.get(name, ()) for name in names))
    return {"operations": operations, "calls": calls, "nodes": nodes}


def _named(name: str, operations: Mapping[str, object]) -> set[str]:
    """The operations in ``op0_op1``, whose own names may have underscores."""
    if name in operations:
        return {name}
    names: set[str] = set()
    word = ""
    for part in name.split("_"):
        word = f"{word}_{part}" if word else part
        if word in operations:
            names.add(word)
            word = ""
    return names


def of_fx(texts: Sequence[str], view: GraphView, dynamo: bool) -> Known:
    """The lines of a graph of FX: those of its nodes, after a comment that says where it is from.

    ``dynamo``: the graph is Dynamo's, whose nodes are known by those of the last graph.
    """
    nodes_of_dynamo = _nodes_of_dynamo(view) if dynamo else {}
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
            name = match[1]
            nodes[n] = nodes_of_dynamo.get(name, set()) if dynamo else {name} & view.nodes.keys()
    return {"nodes": nodes, "places": places} if view.nodes else {"places": places}


def _nodes_of_dynamo(view: GraphView) -> Mapping[str, set[str]]:
    """The nodes of the last graph by the nodes of Dynamo's that they came from."""
    by_source: dict[str, set[str]] = defaultdict(set)
    by_module: dict[tuple[str | None, str], set[str]] = defaultdict(set)
    for node in view.nodes.values():
        if node.source is not None:
            by_source[node.source].add(node.name)
        elif node.place is not None:
            by_module[node.module, _location(node.place)].add(node.name)
    for source_node in view.dynamo.values():
        if source_node.place is not None:
            # Nodes of the backward pass, which name no node of Dynamo's.
            by_source[source_node.name] |= by_module[
                source_node.module, _location(source_node.place)
            ]
    return by_source


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
    lines_by_key: dict[str, list[int]] = defaultdict(list)
    for n, keys in b[kind].items():
        for key in keys:
            lines_by_key[key].append(n)
    links = {}
    for n, keys in a[kind].items():
        targets = {line for key in keys for line in lines_by_key.get(key, ())}
        if targets:
            links[n] = tuple(sorted(targets))
    return links
