"""Failed assertions of torch.compile's kernels: the model's lines, and the index out of bounds.

Inductor asserts that an index is within its tensor, in a kernel of its own cache: what a reader
needs is the line of the model, and the index. The line is that of the graph's nodes which the
launch is of, as the comment above it in the graph's code names them. The index is found by running
the failed block once more and watching the register that was assigned it.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import private_names
from ..compiles import inductor_graphs
from . import executor


class ModelLine(NamedTuple):
    """``model.py:4: return table[index]``, and whether it indexes."""

    text: str
    indexes: bool


Lines = dict[str, ModelLine]
"""Lines by the node's name in the model."""

# Topologically Sorted Source Nodes: [scaled, getitem], Original ATen: [aten.mul, aten.index]
_NODES = re.compile(r"# (?:Topologically Sorted )?Source Nodes: \[([^\[\]]{0,10000})\]")
# 'index out of bounds: 0 <= tmp4 < 10'
_BOUNDS = re.compile(r"index out of bounds: (?:[^<]{1,80}<=? )?(tmp\d{1,9})\b")
_INDEXING = re.compile(r"index|gather|scatter|embedding|select|take|put|bucketize|searchsorted")
MAX_COMMENT_LINES = 12
"""Lines above a launch in a graph's code that are searched for its comment."""
MAX_MODEL_LINES = 3
MAX_GRAPHS = 1024

_graphs: dict[str, Lines] = {}
"""Nodes of each graph, by the path of the graph's code."""


def note_graph(graph: Any, compiled: Any) -> None:
    """Keep the model's lines of a graph that was compiled, or taken from Inductor's cache."""
    key = getattr(compiled, "cache_key", None)
    path_of = private_names.get("torch._inductor.codecache:get_path")
    if not key or path_of is None or len(_graphs) >= MAX_GRAPHS:
        return
    _graphs[str(path_of(key, "py")[2])] = lines_of(graph)


def lines_of(graph: Any) -> Lines:
    """The model's line of each node of an FX graph."""
    lines: Lines = {}
    for node in graph.nodes:
        place = inductor_graphs._line(node.meta.get("stack_trace"))
        if place is None:
            continue
        file, number, code = place
        first = next(iter(node.meta.get("from_node") or ()), None)
        text = f"{os.path.basename(file)}:{number}: {code}"[:120]
        indexes = _INDEXING.search(str(node.target)) is not None
        for name in {str(getattr(first, "name", node.name)), str(node.name)}:
            earlier = lines.get(name)
            lines[name] = ModelLine(text, indexes or (earlier is not None and earlier.indexes))
    return lines


def model_lines() -> list[str]:
    """The model's lines of the launch that is under way in this thread; empty if unknown."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename not in _graphs:
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return []
    path = frame.f_code.co_filename
    for number in range(frame.f_lineno, max(0, frame.f_lineno - MAX_COMMENT_LINES), -1):
        match = _NODES.search(linecache.getline(path, number))
        if match is not None:
            nodes = [_graphs[path].get(name.strip()) for name in match[1].split(",")]
            model_nodes = [node for node in nodes if node is not None]
            indexing = [node.text for node in model_nodes if node.indexes]
            return list(dict.fromkeys(indexing or [node.text for node in model_nodes]))
    return []


def sentence(fault: Any, listing: Any, kernel: Any, rerun: Callable[[Any], Any]) -> str:
    """What failed, in a kernel of Inductor's: the assertion, and the index that it is about."""
    text = f"{_message(fault).rpartition(' of ')[0]} failed"  # without the cache's file and line
    match = _BOUNDS.search(text)
    index = None if match is None else _value(match[1], fault, listing, kernel, rerun)
    return text if match is None or index is None else f"{text}: {match[1]} is {index}"


def _message(fault: Any) -> str:
    return (
        str(fault.message).removeprefix(f"{fault.place.kernel}: ").removesuffix(f" ({fault.place})")
    )


def _value(
    name: str, fault: Any, listing: Any, kernel: Any, rerun: Callable[[Any], Any]
) -> int | None:
    """The value of a variable of the kernel in the thread that failed; None if unknown."""
    target = _assignment(name, fault.place.line, listing, kernel)
    if target is None or fault.place.thread is None:
        return None
    x, y, z = fault.place.thread
    values: list[int] = []

    class LastValue(executor.load("execute.memory").Observer):  # type: ignore[misc]
        def wrote(self, lanes: Any, instruction: int, register: int, value: Any, mask: Any) -> None:
            if (instruction, register) == target:
                width, height, _ = lanes.block
                number = lanes.full(value)[0, x + width * (y + height * z)]
                values.append(int(number.view(f"i{number.dtype.itemsize}")))

    try:
        rerun(LastValue())
    except executor.load("execute").Fault:
        pass  # the same one
    return values[-1] if values else None


def _assignment(name: str, line: int, listing: Any, kernel: Any) -> tuple[int, int] | None:
    """The last instruction that computes what a variable is assigned, and its register."""
    place = listing.lines[line - 1].source if 0 < line <= len(listing.lines) else None
    if place is None:
        return None
    assigns = re.compile(rf"\s*{name} = ")
    rows = range(place.line, 0, -1)
    assigned = next((n for n in rows if assigns.match(linecache.getline(place.file, n))), None)
    target = None
    for number, row in enumerate(kernel.code.instructions):
        source = listing.lines[row.line - 1].source
        written, _ = row.registers()
        if source is not None and (source.file, source.line) == (place.file, assigned) and written:
            target = number, written[-1]
    return target
