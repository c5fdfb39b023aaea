"""The tree as rows: origin, graph, kernel, operators, variant; filtered, folded and in an order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from enum import Enum
from itertools import chain
from pathlib import PurePath

from msgspec import Struct
from msgspec.structs import replace

from inspector.base.model import Graph, Kernel, Origin, Recording, Resources, Variant
from inspector.diff.variants import winner
from inspector.report.tables import labels, representative, titles, under
from inspector.tui.widgets.notice import label
from inspector.tui.widgets.selection import MatchingIds
from inspector.tui.widgets.subject import TreeSubject

Key = tuple[str, ...]

MAX_OPEN_VARIANTS = 12
"""Variants from which on those of a kernel begin folded: a page of them says less than one row."""


class TreeKind(Enum):
    """What a row represents."""

    ORIGIN = "origin"
    GRAPH = "graph"
    KERNEL = "kernel"
    VARIANT = "variant"
    OPERATORS = "operators"


class TreeRow(Struct, frozen=True):
    """One row. ``key`` is its path in the tree and stays while ids grow; ``depth`` is from 0.

    ``count`` is how many rows are beneath it; ``text`` is safe to draw, ``short`` for little room.
    ``failed`` counts failures, its own and those beneath.
    """

    key: Key
    depth: int
    kind: TreeKind
    text: str
    subject: TreeSubject
    count: int = 0
    open: bool = True
    winner: bool = False
    short: str = ""
    failed: int = 0

    @property
    def leaf(self) -> bool:
        return self.kind is TreeKind.VARIANT or (self.kind is TreeKind.KERNEL and not self.count)


class TreeEntry(Struct, frozen=True):
    """A row with the rows beneath it, the text that a filter looks in, and the variant's hash."""

    row: TreeRow
    words: str
    beneath: tuple[TreeEntry, ...] = ()
    digest: str = ""

    def has(self, word: str) -> bool:
        return word in self.words or (bool(self.digest) and self.digest.startswith(word))


def _words(*parts: object) -> str:
    return " ".join(str(part) for part in parts if part).casefold()


def _operators(
    kernel: Kernel, parent_key: Key, depth: int, subject: TreeSubject
) -> tuple[TreeEntry, ...]:
    names = () if kernel.fusion is None else kernel.fusion.ops
    text = label(", ".join(name.removeprefix("aten.") for name in names))
    row = TreeRow((*parent_key, "operators"), depth, TreeKind.OPERATORS, text, subject)
    return (TreeEntry(row, ""),) if names else ()


def _own_words(variant: Variant) -> str:
    return _words(variant.id, variant.target, *variant.config.items())


def _failed(both: Iterable[tuple[Kernel, Variant]]) -> int:
    return sum(variant.error is not None for _, variant in both)


def _named(
    kernels: Sequence[tuple[Kernel, str]], parent_key: Key, depth: int, graph: Graph | None
) -> list[TreeEntry]:
    by_name: dict[str, list[tuple[Kernel, str]]] = {}
    for kernel, name in kernels:
        by_name.setdefault(kernel.name, []).append((kernel, name))
    entries = [
        _kernel([kernel for kernel, _ in same_named], same_named[0][1], parent_key, depth, graph)
        for same_named in by_name.values()
    ]
    # Rows that would look the same have the beginning of an id.
    text_counts = Counter(entry.row.text for entry in entries)
    for n, entry in enumerate(entries):
        text, (kernel_id, variant_id, _) = entry.row.text, entry.row.subject.key
        if text_counts[text] > 1:
            text = f"{text} {label((variant_id or kernel_id)[:8])}"
            entries[n] = replace(entry, row=replace(entry.row, text=text))
    return entries


def _kernel(
    kernels: Sequence[Kernel], name: str, parent_key: Key, depth: int, graph: Graph | None
) -> TreeEntry:
    """Kernels of one name; their row is for the variant that was launched most, else for the
    one that a tuner chose, else for the first."""
    first = kernels[0]
    both = [(kernel, variant) for kernel in kernels for variant in kernel.variants]
    variant = representative([candidate for _, candidate in both]) if both else None
    kernel = next((owner for owner, candidate in both if candidate is variant), first)
    key = (*parent_key, first.id)
    row = TreeRow(key, depth, TreeKind.KERNEL, label(name), TreeSubject(kernel, variant, graph))
    fusions = [() if fused.fusion is None else fused.fusion.ops for fused in kernels]
    words = _words(
        *parent_key, first.name, first.demangled, first.origin, *dict.fromkeys(chain(*fusions))
    )
    source_lines = [part for fused in kernels if fused.fusion for part in fused.fusion.made_from]
    words += " " + _words(*(f"{PurePath(part.file).name}:{part.line}" for part in source_lines))
    same_operators = all(ops == fusions[0] for ops in fusions)
    under = _operators(first, key, depth + 1, row.subject) if same_operators else ()
    if len(both) == 1 and variant is not None and len(kernels) == 1:
        row = replace(row, winner=bool(winner(variant)), failed=_failed(both))
        return TreeEntry(row, f"{words} {_own_words(variant)}", under, variant.hash)
    variant_labels = labels([candidate for _, candidate in both])
    beneath = [
        TreeEntry(
            TreeRow(
                (*key, f"{owner.id} {candidate.hash} {candidate.symbol}"),
                depth + 1,
                TreeKind.VARIANT,
                label(str(variant_label)),
                TreeSubject(owner, candidate, graph),
                winner=bool(winner(candidate)),
                short=label(variant_label.short),
                failed=_failed([(owner, candidate)]),
            ),
            f"{words} {_own_words(candidate)}",
            digest=candidate.hash,
        )
        for (owner, candidate), variant_label in zip(both, variant_labels, strict=True)
    ]
    # A kernel without variants has no row beneath.
    folded = len(kernels) > 1 or len(beneath) > MAX_OPEN_VARIANTS
    row = replace(row, count=len(beneath), open=not folded, failed=_failed(both))
    return TreeEntry(row, words, (*under, *beneath))


def _graph(
    graph: Graph,
    kernels: dict[str, tuple[Kernel, str]],
    tried: Sequence[tuple[Kernel, str]],
    parent_key: Key,
    depth: int,
) -> TreeEntry:
    key = (*parent_key, graph.id)
    graph_kernels = [kernels[ident] for ident in graph.kernels if ident in kernels]
    beneath = (*_named(graph_kernels, key, depth + 1, graph), *_named(tried, key, depth + 1, None))
    text = f"graph {graph.id}" if not graph.id.startswith("graph") else graph.id
    failed = sum(entry.row.failed for entry in beneath) + (graph.error is not None)
    row = TreeRow(
        key,
        depth,
        TreeKind.GRAPH,
        label(text),
        TreeSubject(graph=graph),
        len(graph_kernels),
        short=label(graph.id),
        failed=failed,
    )
    return TreeEntry(row, _words(*parent_key, text), tuple(beneath))


def recording_tree(recording: Recording) -> tuple[TreeEntry, ...]:
    # A CUDA kernel has no parameters after its name, unless another kernel has the same one.
    name_counts = Counter({kernel.name: kernel.called for kernel in recording.kernels}.values())
    named = titles(recording)
    kernels = {
        k.id: (
            k,
            named.get(k.id) or (k.called if name_counts[k.called] == 1 else k.demangled or k.name),
        )
        for k in recording.kernels
    }
    in_graphs = {name for graph in recording.graphs for name in graph.kernels}
    tried: dict[str, list[tuple[Kernel, str]]] = {}
    for kernel in recording.kernels:
        if kernel.tried_for is not None and kernel.id not in in_graphs:
            tried.setdefault(kernel.tried_for, []).append(kernels[kernel.id])
    in_graphs |= {kernel.id for several in tried.values() for kernel, _ in several}
    entries = []
    order = {origin.value: number for number, origin in enumerate(Origin)}
    for heading, origin in sorted(
        {
            **{(graph.origin.value, graph.origin): None for graph in recording.graphs},
            **{(under(kernel), kernel.origin): None for kernel in recording.kernels},
        },
        key=lambda group: order[group[1].value],
    ):
        key = (heading,)
        graphs = recording.graphs if heading == origin.value else ()
        beneath = [
            _graph(g, kernels, tried.get(g.id, ()), key, 1) for g in graphs if g.origin is origin
        ]
        loose_kernels = [
            kernels[kernel.id]
            for kernel in recording.kernels
            if kernel.origin is origin and under(kernel) == heading and kernel.id not in in_graphs
        ]
        beneath += _named(loose_kernels, key, 1, None)
        if beneath:
            of_graphs = sum(e.row.count for e in beneath if e.row.kind is TreeKind.GRAPH)
            count = of_graphs + len(loose_kernels)
            row = TreeRow(
                key,
                0,
                TreeKind.ORIGIN,
                heading,
                TreeSubject(),
                count,
                failed=sum(entry.row.failed for entry in beneath),
            )
            words = _words(heading, origin.value)
            entries.append(TreeEntry(row, words, tuple(beneath)))
    return tuple(entries)


def _matching(entry: TreeEntry, terms: tuple[str, ...]) -> TreeEntry | None:
    if all(map(entry.has, terms)):
        return entry
    matching = tuple(e for e in (_matching(b, terms) for b in entry.beneath) if e is not None)
    return replace(entry, beneath=matching) if matching else None


def _having(entry: TreeEntry, matching_ids: Set[tuple[str, str]]) -> TreeEntry | None:
    """A row whose variant is chosen, or one with what is chosen beneath; it opens one of those."""
    if entry.row.leaf:
        return entry if entry.row.subject.key[:2] in matching_ids else None
    operators = tuple(child for child in entry.beneath if child.row.kind is TreeKind.OPERATORS)
    matching = [
        match for below in entry.beneath if (match := _having(below, matching_ids)) is not None
    ]
    if not matching:
        return None
    row = replace(entry.row, count=len(matching))
    if row.kind is TreeKind.KERNEL:
        rows_by_variant = {
            id(v): child.row for child in matching if (v := child.row.subject.variant) is not None
        }
        best = representative(
            [r.subject.variant for r in rows_by_variant.values() if r.subject.variant]
        )
        row = replace(
            row, subject=replace(rows_by_variant[id(best)].subject, graph=row.subject.graph)
        )
    return replace(entry, row=row, beneath=(*operators, *matching))


def _flat(entry: TreeEntry, folds: Mapping[Key, bool] | None) -> Iterator[TreeRow]:
    row = entry.row
    is_open = folds is None or folds.get(row.key, row.open)
    yield row if is_open == row.open else replace(row, open=is_open)
    if is_open:
        for beneath in entry.beneath:
            yield from _flat(beneath, folds)


def rows(
    tree: tuple[TreeEntry, ...],
    query: str = "",
    folds: Mapping[Key, bool] | None = None,
    matching_ids: MatchingIds = None,
) -> tuple[TreeRow, ...]:
    """Rows of what is chosen that hold every word of ``query``, less what ``folds`` closes; a
    filter unfolds all."""
    if matching_ids is not None:
        tree = tuple(e for e in (_having(entry, matching_ids) for entry in tree) if e is not None)
        folds = None
    if terms := tuple(query.casefold().split()):
        tree = tuple(e for e in (_matching(entry, terms) for entry in tree) if e is not None)
        folds = None
    return tuple(row for entry in tree for row in _flat(entry, folds))


def walk_entries(tree: Iterable[TreeEntry]) -> Iterator[TreeEntry]:
    for entry in tree:
        yield entry
        yield from walk_entries(entry.beneath)


def entry_of(tree: Iterable[TreeEntry], key: Key) -> TreeEntry | None:
    return next((entry for entry in walk_entries(tree) if entry.row.key == key), None)


def fitness(row: TreeRow, query: str) -> int:
    """How well a row fits a filter: an exact id or part of a name says more than one within."""
    kernel, variant = row.subject.kernel, row.subject.variant
    if kernel is None or row.kind is TreeKind.OPERATORS:
        return 0
    name = kernel.name.casefold()
    parts = re.split(r"[\W_]+", name)
    digest = variant.hash if variant is not None and row.leaf else ""
    return 1 + sum(
        max(
            8 * (word == name),
            6 * (word in parts),
            5 * digest.startswith(word),
            4 * name.endswith(word),
            2 * (word in name),
        )
        for word in query.casefold().split()
    )


Figures = Mapping[Key, Resources | None]
"""What has been read of a variant's resources, by the ids of its kernel and its own."""


Measured = Callable[[Kernel | None, Variant | None], float | None]


class Order(Enum):
    """The orders; the value is the word for it."""

    COMPILED = "compiled"
    REGISTERS = "registers"
    SPILLS = "spills"
    TIME = "time"
    NAME = "name"


def orders(recording: Recording, measured: bool = False) -> tuple[Order, ...]:
    timed = measured or any(variant.gpu_time is not None for _, variant in recording.variants())
    return tuple(order for order in Order if order is not Order.TIME or timed)


def ordered(
    tree: tuple[TreeEntry, ...], order: Order, figures: Figures, measured: Measured | None = None
) -> tuple[TreeEntry, ...]:
    """Return the tree in an order; origins and operators stay in place.

    A kernel counts as its costliest variant, a graph as its costliest kernel; unknown comes last.
    """
    if order is Order.COMPILED:
        return tree

    def figure(subject: TreeSubject) -> float | None:
        variant = subject.variant
        if variant is None:
            return None
        if order is Order.TIME:
            return None if measured is None else measured(subject.kernel, variant)
        resources = figures.get(subject.key[:2]) or variant.recorded_resources
        if order is Order.REGISTERS:
            return resources.registers
        spilled = (resources.spill_store_bytes, resources.spill_load_bytes)
        return None if spilled == (None, None) else sum(byte_count or 0 for byte_count in spilled)

    return tuple(_ordered(entry, order, figure)[0] for entry in tree)


def _ordered(
    entry: TreeEntry, order: Order, figure: Callable[[TreeSubject], float | None]
) -> tuple[TreeEntry, float | None]:
    def place(pair: tuple[TreeEntry, float | None]) -> tuple[object, ...]:
        (below, value), kind = pair, pair[0].row.kind
        sort_value = (
            below.row.text.casefold() if order is Order.NAME else (value is None, -(value or 0))
        )
        return kind is not TreeKind.OPERATORS, sort_value

    below = sorted((_ordered(pair, order, figure) for pair in entry.beneath), key=place)
    leaf = all(pair.row.kind is TreeKind.OPERATORS for pair, _ in below)
    values = [figure(entry.row.subject)] if leaf else [value for _, value in below]
    maximum = max((value for value in values if value is not None), default=None)
    return replace(entry, beneath=tuple(pair for pair, _ in below)), maximum
