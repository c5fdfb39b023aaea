"""The tree as rows: origin, graph, kernel, operators, variant; filtered, folded and in an order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from inspector.analysis.representative import representative
from inspector.base.model import Graph, Kernel, Origin, Recording, Resources, Variant
from inspector.diff.variants import winner
from inspector.reader.query import folded, has_word, kernel_words
from inspector.render.kernel_names import titles
from inspector.render.labels import labels
from inspector.render.tables import heading_of
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

    ``count`` is how many rows are beneath it; ``text`` is safe to draw, ``short`` for little room,
    ``telling`` for less: only what tells a variant from its siblings.
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
    telling: str = ""
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
        return has_word(self.words, word) or (bool(self.digest) and self.digest.startswith(word))


def _words(*parts: object) -> str:
    return " ".join(str(part) for part in parts if part).casefold()


def _operators(
    kernel: Kernel, parent_key: Key, depth: int, subject: TreeSubject
) -> tuple[TreeEntry, ...]:
    names = _operator_names(kernel)
    if not names:
        return ()
    text = label(", ".join(name.removeprefix("aten.") for name in names))
    row = TreeRow((*parent_key, "operators"), depth, TreeKind.OPERATORS, text, subject)
    return (TreeEntry(row, ""),)


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
        text = entry.row.text
        (kernel_id, variant_id, _) = entry.row.subject.key
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
    row = TreeRow(
        key,
        depth,
        TreeKind.KERNEL,
        label(name),
        TreeSubject(kernel, variant, graph),
        failed=_failed(both),
    )
    words = _kernel_words(kernels, parent_key)
    operators: tuple[TreeEntry, ...] = ()
    if len(set(map(_operator_names, kernels))) == 1:
        operators = _operators(first, key, depth + 1, row.subject)
    if len(both) == 1 and variant is not None and len(kernels) == 1:
        row = replace(row, winner=bool(winner(variant)))
        return TreeEntry(row, f"{words} {_own_words(variant)}", operators, variant.hash)
    beneath = _variant_entries(both, words, key, depth + 1, graph)
    # A kernel without variants has no row beneath.
    folded = len(kernels) > 1 or len(beneath) > MAX_OPEN_VARIANTS
    row = replace(row, count=len(beneath), open=not folded)
    return TreeEntry(row, words, (*operators, *beneath))


def _operator_names(kernel: Kernel) -> tuple[str, ...]:
    return () if kernel.fusion is None else kernel.fusion.ops


def _kernel_words(kernels: Sequence[Kernel], parent_key: Key) -> str:
    """What a filter looks in: names, origin, operators and places of the program."""
    return " ".join((_words(*parent_key), *map(kernel_words, kernels)))


def _variant_entries(
    both: Sequence[tuple[Kernel, Variant]],
    words: str,
    parent_key: Key,
    depth: int,
    graph: Graph | None,
) -> list[TreeEntry]:
    variant_labels = labels([variant for _, variant in both])
    entries = []
    for (kernel, variant), variant_label in zip(both, variant_labels, strict=True):
        row = TreeRow(
            (*parent_key, f"{kernel.id} {variant.hash} {variant.symbol}"),
            depth,
            TreeKind.VARIANT,
            label(str(variant_label)),
            TreeSubject(kernel, variant, graph),
            winner=bool(winner(variant)),
            short=label(variant_label.short),
            telling=label(f"{variant_label.short_telling} {variant_label.ident}".strip()),
            failed=_failed([(kernel, variant)]),
        )
        variant_words = f"{words} {_own_words(variant)}"
        entries.append(TreeEntry(row, variant_words, digest=variant.hash))
    return entries


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


TitledKernel = tuple[Kernel, str]
"""A kernel and the name of its row."""


def _titled_kernels(recording: Recording) -> dict[str, TitledKernel]:
    """Kernels by id; a CUDA kernel has parameters after its name if another has the same name."""
    name_counts = Counter(
        {kernel.name: kernel.display_name for kernel in recording.kernels}.values()
    )
    distinguishing = titles(recording)
    titled = {}
    for kernel in recording.kernels:
        title = distinguishing.get(kernel.id)
        if not title:
            unique = name_counts[kernel.display_name] == 1
            title = kernel.display_name if unique else kernel.demangled or kernel.name
        titled[kernel.id] = (kernel, title)
    return titled


def _headings(recording: Recording) -> list[tuple[str, Origin]]:
    """The headings of the tree and their origins, in the order of origins."""
    headings = dict.fromkeys((graph.origin.value, graph.origin) for graph in recording.graphs)
    headings |= dict.fromkeys((heading_of(kernel), kernel.origin) for kernel in recording.kernels)
    order = [*Origin]
    return sorted(headings, key=lambda heading: order.index(heading[1]))


def recording_tree(recording: Recording) -> tuple[TreeEntry, ...]:
    kernels = _titled_kernels(recording)
    in_graphs = {name for graph in recording.graphs for name in graph.kernels}
    tried: dict[str, list[TitledKernel]] = {}
    loose: dict[tuple[str, Origin], list[TitledKernel]] = {}
    for kernel in recording.kernels:
        if kernel.id in in_graphs:
            continue
        if kernel.tried_for is not None:
            tried.setdefault(kernel.tried_for, []).append(kernels[kernel.id])
        else:
            loose.setdefault((heading_of(kernel), kernel.origin), []).append(kernels[kernel.id])
    entries = []
    for heading, origin in _headings(recording):
        key = (heading,)
        graphs = recording.graphs if heading == origin.value else ()
        graph_entries = [
            _graph(graph, kernels, tried.get(graph.id, ()), key, 1)
            for graph in graphs
            if graph.origin is origin
        ]
        loose_kernels = loose.get((heading, origin), [])
        beneath = (*graph_entries, *_named(loose_kernels, key, 1, None))
        if beneath:
            row = TreeRow(
                key,
                0,
                TreeKind.ORIGIN,
                heading,
                TreeSubject(),
                sum(entry.row.count for entry in graph_entries) + len(loose_kernels),
                failed=sum(entry.row.failed for entry in beneath),
            )
            entries.append(TreeEntry(row, _words(heading, origin.value), beneath))
    return tuple(entries)


def _matching(entry: TreeEntry, terms: tuple[str, ...]) -> TreeEntry | None:
    if all(map(entry.has, terms)):
        return entry
    matching = _present(_matching(child, terms) for child in entry.beneath)
    return replace(entry, beneath=matching) if matching else None


def _present(entries: Iterable[TreeEntry | None]) -> tuple[TreeEntry, ...]:
    return tuple(entry for entry in entries if entry is not None)


def _having(entry: TreeEntry, matching_ids: Set[tuple[str, str]]) -> TreeEntry | None:
    """A row whose variant is chosen, or one with what is chosen beneath; it opens one of those."""
    if entry.row.leaf:
        return entry if entry.row.subject.key[:2] in matching_ids else None
    operators = tuple(child for child in entry.beneath if child.row.kind is TreeKind.OPERATORS)
    matching = _present(_having(child, matching_ids) for child in entry.beneath)
    if not matching:
        return None
    row = replace(entry.row, count=len(matching))
    if row.kind is TreeKind.KERNEL:
        row = replace(row, subject=_representative_subject(row, matching))
    return replace(entry, row=row, beneath=(*operators, *matching))


def _representative_subject(row: TreeRow, matching: Iterable[TreeEntry]) -> TreeSubject:
    """The subject of a kernel's row of which only some variants are shown."""
    subjects = [child.row.subject for child in matching]
    variants = [subject.variant for subject in subjects if subject.variant is not None]
    best = representative(variants)
    subject = next(subject for subject in subjects if subject.variant is best)
    return replace(subject, graph=row.subject.graph)


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
    terms = tuple(folded(query).split())
    if matching_ids is not None:
        tree = _present(_having(entry, matching_ids) for entry in tree)
    if terms:
        tree = _present(_matching(entry, terms) for entry in tree)
    if matching_ids is not None or terms:
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
    kernel = row.subject.kernel
    variant = row.subject.variant
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
        (below, value) = pair
        kind = pair[0].row.kind
        sort_value = (
            below.row.text.casefold() if order is Order.NAME else (value is None, -(value or 0))
        )
        return kind is not TreeKind.OPERATORS, sort_value

    below = sorted((_ordered(pair, order, figure) for pair in entry.beneath), key=place)
    leaf = all(pair.row.kind is TreeKind.OPERATORS for pair, _ in below)
    values = [figure(entry.row.subject)] if leaf else [value for _, value in below]
    maximum = max((value for value in values if value is not None), default=None)
    return replace(entry, beneath=tuple(pair for pair, _ in below)), maximum
