"""What tells kernels and variants of one name apart: numbers of kernels, traits of TTGIR."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from inspector.base.errors import PtxviewError
from inspector.base.grouping import by_key
from inspector.base.model import Kernel, Origin, Stage, Variant
from inspector.parsers.ttgir_traits import distinguishing, dot_shapes, traits
from inspector.recording.variants import Key

MAX_TTGIR_BYTES = 1 << 20
"""Bytes of a TTGIR that is read for its traits."""


class KernelNumbers:
    """Numbers of Inductor's kernels, each once in a recording.

    A kernel has the number that Inductor gave it in its graph, or, where a kernel of an earlier
    graph has that, the next above all others. A number stays while a recording grows.
    """

    def __init__(self) -> None:
        self._taken: set[int] = set()
        self._highest = -1

    def number_of(self, origin: Origin, name: str) -> int | None:
        """Return the number of the next kernel; None of one that Inductor did not number."""
        _, mark, digits = name.rpartition("_")
        if origin is not Origin.INDUCTOR or not mark or not digits.isdecimal() or len(digits) > 9:
            return None
        number = int(digits)
        if number in self._taken:
            number = self._highest + 1
        self._taken.add(number)
        self._highest = max(self._highest, number)
        return number


def with_traits(kernels: Mapping[Key, Kernel]) -> dict[Key, Kernel]:
    """Return kernels with what their TTGIR tells.

    A variant has traits where its settings are those of another, and a tile where no signature
    was recorded with it.
    """
    by_name: dict[tuple[Origin, str], list[Variant]] = {}
    for kernel in kernels.values():
        variants = [v for v in kernel.variants if Stage.TTGIR in v.stages]
        by_name.setdefault((kernel.origin, kernel.name), []).extend(variants)
    described: dict[Place, Variant] = {}
    for variants in by_name.values():
        described |= _described(variants)
    finished = {}
    for key, kernel in kernels.items():
        variants = [described.get(_place(variant), variant) for variant in kernel.variants]
        finished[key] = replace(kernel, variants=tuple(variants))
    return finished


Place = tuple[str, str]
"""A variant's hash and symbol: kernels of one cubin share its hash."""


def _place(variant: Variant) -> Place:
    return variant.hash, variant.symbol


def _described(variants: Iterable[Variant]) -> dict[Place, Variant]:
    """Variants of one name with tiles, and with the traits in which those of equal settings differ.

    Each TTGIR is read once.
    """
    alike = by_key((_settings(variant), variant) for variant in variants)
    described: dict[Place, Variant] = {}
    siblings = []
    rows = []
    for group in alike.values():
        for variant in group:
            needs_tile = not variant.signature and variant.tile is None
            text = _ttgir_of(variant) if needs_tile or len(group) > 1 else ""
            if needs_tile:
                described[_place(variant)] = replace(variant, tile=_only_tile(text))
            if len(group) > 1:
                siblings.append(described.get(_place(variant), variant))
                rows.append(traits(text))
    keys = distinguishing(rows, list(map(_settings, siblings)))
    for variant, row in zip(siblings, rows, strict=True):
        texts = {key: row[key] for key in keys if row.get(key)}
        if texts.get("dot") == f"dot {variant.tile}":
            del texts["dot"]
        described[_place(variant)] = replace(variant, traits=texts)
    return described


def _settings(variant: Variant) -> object:
    """The traits of a variant that need no code."""
    return (
        variant.target,
        repr(variant.config),
        repr(variant.signature),
        repr(variant.specialization),
    )


def _only_tile(text: str) -> str | None:
    """The tile of products in a TTGIR; None unless there is exactly one."""
    tiles = dot_shapes(text)
    return tiles[0] if len(tiles) == 1 else None


def _ttgir_of(variant: Variant) -> str:
    """The TTGIR of a variant; "" where it cannot be read, or is too large to be read for this."""
    file = variant.stages[Stage.TTGIR]
    if file.costly:
        return ""
    try:
        content = file.content.read()
    except PtxviewError:
        return ""
    return content.decode("utf-8", "replace") if len(content) <= MAX_TTGIR_BYTES else ""
