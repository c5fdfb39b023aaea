"""The tree as rows: origin, graph, kernel, operators, variant. Drawn by one, made by a filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from inspector.model import Graph, Kernel, Origin, Recording, Variant
from inspector.names import base_name
from inspector.tui.widgets.figures import configuration, differing
from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.widgets.visible import label

Key = tuple[str, ...]


class TreeKind(Enum):
    """What a row stands for."""

    ORIGIN = "origin"
    GRAPH = "graph"
    KERNEL = "kernel"
    VARIANT = "variant"
    OPERATORS = "operators"


@dataclass(frozen=True, slots=True)
class TreeRow:
    """One row. ``key`` is its path in the tree and outlives a filter; ``depth`` counts from 0.

    ``count`` is how many rows stand beneath it, folded or not; ``text`` is safe to draw.
    """

    key: Key
    depth: int
    kind: TreeKind
    text: str
    subject: TreeSubject
    count: int = 0
    open: bool = True


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A row of the whole tree with the rows beneath it and the text that a filter looks in."""

    row: TreeRow
    words: str
    beneath: tuple[TreeEntry, ...] = ()


def _words(*parts: object) -> str:
    return " ".join(str(part) for part in parts if part).casefold()


def _variant_text(variant: Variant, keys: tuple[str, ...]) -> str:
    """What tells a variant from its siblings: what differs, else its id.

    The warps have a column of their own.
    """
    told = configuration(variant.config, tuple(k for k in keys if k != "num_warps"))
    return label(told or variant.id)


def _told_apart(variants: tuple[Variant, ...], texts: list[str]) -> list[str]:
    """Texts that differ: equal ones get their warps at the end, then the head of their id.

    A row that is too long is cut in its middle, so that what tells it apart stays to be seen.
    """
    many = Counter(texts)
    warps = [
        f"{t} w{v.config['num_warps']}" if many[t] > 1 and v.config.get("num_warps") else t
        for v, t in zip(variants, texts, strict=True)
    ]
    many = Counter(warps)
    return [
        t if many[t] == 1 else f"{t} {label(v.id)[:4]}"
        for v, t in zip(variants, warps, strict=True)
    ]


def _short(kernel: Kernel, many: Mapping[str, int]) -> str:
    """A CUDA kernel's name without its parameters, unless another kernel has the same one."""
    name = base_name(kernel.name)
    return name if many[name] == 1 else kernel.demangled or kernel.name


def _operators(
    kernel: Kernel, above: Key, depth: int, subject: TreeSubject
) -> tuple[TreeEntry, ...]:
    """One row with the operators that were fused into a kernel, where they are known."""
    names = () if kernel.fusion is None else kernel.fusion.ops
    if not names:
        return ()
    text = label(", ".join(name.removeprefix("aten.") for name in names))
    return (
        TreeEntry(TreeRow((*above, "operators"), depth, TreeKind.OPERATORS, text, subject), ""),
    )


def _kernel(kernel: Kernel, name: str, above: Key, depth: int, graph: Graph | None) -> TreeEntry:
    """A kernel; with one variant only it stands for that variant, which saves a row."""
    key = (*above, kernel.id)
    first = kernel.variants[0] if kernel.variants else None
    row = TreeRow(key, depth, TreeKind.KERNEL, label(name), TreeSubject(kernel, first, graph))
    fused = () if kernel.fusion is None else kernel.fusion.ops
    words = _words(*above, kernel.name, kernel.demangled, kernel.origin, *fused)
    under = _operators(kernel, key, depth + 1, row.subject)
    if len(kernel.variants) == 1 and first is not None:
        own = _words(first.id, first.hash, first.target, *first.config.items())
        return TreeEntry(row, f"{words} {own}", under)
    keys = differing(kernel.variants) if kernel.variants else ()
    texts = _told_apart(kernel.variants, [_variant_text(v, keys) for v in kernel.variants])
    beneath = tuple(
        TreeEntry(
            TreeRow(
                (*key, variant.id),
                depth + 1,
                TreeKind.VARIANT,
                text,
                TreeSubject(kernel, variant, graph),
            ),
            f"{words} " + _words(variant.id, variant.hash, variant.target, *variant.config.items()),
        )
        for variant, text in zip(kernel.variants, texts, strict=True)
    )
    return TreeEntry(replace(row, count=len(beneath)), words, (*under, *beneath))


def _graph(
    graph: Graph, kernels: dict[str, tuple[Kernel, str]], above: Key, depth: int
) -> TreeEntry:
    """A graph, with its kernels in the order of the wrapper's calls."""
    key = (*above, graph.id)
    beneath = tuple(
        _kernel(*kernels[ident], key, depth + 1, graph)
        for ident in graph.kernels
        if ident in kernels
    )
    read = (e.row.subject for e in beneath if e.row.subject.variant is not None)
    first = next(read, TreeSubject())
    text = f"graph {graph.id}" if not graph.id.startswith("graph") else graph.id
    row = TreeRow(
        key, depth, TreeKind.GRAPH, label(text), TreeSubject(first.kernel, first.variant, graph),
        len(beneath),
    )  # fmt: skip
    return TreeEntry(row, _words(*above, text), beneath)


def whole_tree(recording: Recording) -> tuple[TreeEntry, ...]:
    """Every row there is, origins in the order of the enumeration."""
    many = Counter(base_name(kernel.name) for kernel in recording.kernels)
    kernels = {k.id: (k, _short(k, many)) for k in recording.kernels}
    in_graphs = {name for graph in recording.graphs for name in graph.kernels}
    entries = []
    for origin in Origin:
        key = (origin.value,)
        beneath = [_graph(g, kernels, key, 1) for g in recording.graphs if g.origin is origin]
        beneath += [
            _kernel(*kernels[kernel.id], key, 1, None)
            for kernel in recording.kernels
            if kernel.origin is origin and kernel.id not in in_graphs
        ]
        if beneath:
            count = sum(e.row.count if e.row.kind is TreeKind.GRAPH else 1 for e in beneath)
            row = TreeRow(key, 0, TreeKind.ORIGIN, origin.value, TreeSubject(), count)
            entries.append(TreeEntry(row, origin.value, tuple(beneath)))
    return tuple(entries)


def _matching(entry: TreeEntry, wanted: tuple[str, ...]) -> TreeEntry | None:
    """``entry`` with only what fits; a row that fits itself keeps all that is beneath it."""
    if all(word in entry.words for word in wanted):
        return entry
    kept = tuple(e for e in (_matching(b, wanted) for b in entry.beneath) if e is not None)
    return replace(entry, beneath=kept) if kept else None


def _flat(entry: TreeEntry, closed: frozenset[Key]) -> Iterator[TreeRow]:
    is_open = entry.row.key not in closed
    yield replace(entry.row, open=is_open) if not is_open else entry.row
    if is_open:
        for beneath in entry.beneath:
            yield from _flat(beneath, closed)


def rows(tree: tuple[TreeEntry, ...], query: str, closed: frozenset[Key]) -> tuple[TreeRow, ...]:
    """The rows to draw: those that hold every word of ``query``, less what is folded.

    While a filter is set nothing is folded: a match that cannot be seen is no help.
    """
    wanted = tuple(query.casefold().split())
    if wanted:
        tree = tuple(e for e in (_matching(entry, wanted) for entry in tree) if e is not None)
        closed = frozenset()
    return tuple(row for entry in tree for row in _flat(entry, closed))
