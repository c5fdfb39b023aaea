"""Results that are computed once, by keys that say what they are about."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet
from threading import RLock
from typing import TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from inspector.base.model import Graph, Kernel, Recording, Stage, StageFile, Variant

T = TypeVar("T")


class Memo:
    """Results by key, computed once, for several threads; a tuple holds what it is about."""

    def __init__(self) -> None:
        self._results: dict[Hashable, tuple[RLock, list[object]]] = {}

    def memoize(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of ``make``; threads that ask for the same key wait for it."""
        lock, result = self._results.setdefault(key, (RLock(), []))
        with lock:
            if not result:
                result.append(make())
        return cast(T, result[0])

    def forget(self, owners: AbstractSet[Hashable]) -> None:
        """Drop every result whose key holds one of ``owners``."""
        for key in list(self._results):
            if isinstance(key, tuple) and not owners.isdisjoint(key):
                self._results.pop(key, None)


class VariantKey(Struct, frozen=True):
    """Identifies a variant in its recording.

    ``occurrence`` tells variants with the same hash and symbol apart: the same kernel that was
    compiled from two files.
    """

    hash: str
    symbol: str
    occurrence: int


class RecordingIndex:
    """The variants and graphs of a recording by their keys.

    A lookup raises ``LookupError`` for a variant or a graph of another recording, so that results
    of two recordings are never mixed up.
    """

    def __init__(self, recording: Recording) -> None:
        self._variants: dict[tuple[str, str], list[tuple[Kernel, Variant]]] = {}
        for kernel, variant in recording.variants():
            same_code = self._variants.setdefault((variant.hash, variant.symbol), [])
            same_code.append((kernel, variant))
        self._graphs = {graph.id: graph for graph in recording.graphs}

    def kernel(self, variant: Variant) -> Kernel:
        """The kernel that a variant belongs to."""
        return self._variants[variant.hash, variant.symbol][self.key(variant).occurrence][0]

    def key(self, variant: Variant) -> VariantKey:
        """The key of a variant, also of one that shows another source file."""
        same_code = self._variants.get((variant.hash, variant.symbol), [])
        for occurrence, (_, recorded) in enumerate(same_code):
            if recorded is variant:
                return VariantKey(variant.hash, variant.symbol, occurrence)
        for occurrence, (_, recorded) in enumerate(same_code):
            if replace(variant, stages=recorded.stages) == recorded:
                return VariantKey(variant.hash, variant.symbol, occurrence)
        raise LookupError(f"this recording has no variant {variant.id} of {variant.symbol}")

    def graph_key(self, graph: Graph) -> str:
        """The id of a graph."""
        recorded = self._graphs.get(graph.id)
        if recorded is not graph and recorded != graph:
            raise LookupError(f"this recording has no graph {graph.id}")
        return graph.id


def code_key(variant: Variant, *stages: Stage) -> tuple[str | StageFile | None, ...]:
    """Identify what is read from stages of a variant: by its hash and by their files.

    Kernels of one cubin share them. Two variants with one hash whose texts are of different files
    do not.
    """
    return (variant.hash, *(variant.stages.get(stage) for stage in stages))


def owners(index: RecordingIndex, variants: Sequence[Variant]) -> AbstractSet[Hashable]:
    """What the keys of results about variants hold."""
    return {v.hash for v in variants} | {index.key(v) for v in variants}
