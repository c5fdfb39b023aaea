"""What tells kernels and variants of one name apart: numbers of kernels, traits of TTGIR."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from inspector.base.errors import PtxviewError
from inspector.base.model import Kernel, Origin, Stage, Variant
from inspector.parsers.ttgir_traits import distinguishing, traits
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
    """Return kernels whose variants have traits where their settings are those of another."""
    by_name: dict[tuple[Origin, str], list[Key]] = {}
    for key, kernel in kernels.items():
        by_name.setdefault((kernel.origin, kernel.name), []).append(key)
    described = dict(kernels)
    for keys in by_name.values():
        variants = [variant for key in keys for variant in kernels[key].variants]
        texts = _distinguishing_traits(variants)
        for key in keys if any(texts.values()) else ():
            kernel = kernels[key]
            traced = [replace(v, traits=texts.get(_place(v), {})) for v in kernel.variants]
            described[key] = replace(kernel, variants=tuple(traced))
    return described


def _place(variant: Variant) -> tuple[str, str]:
    """A variant's key: kernels of one cubin share its hash."""
    return variant.hash, variant.symbol


def _distinguishing_traits(
    variants: Iterable[Variant],
) -> dict[tuple[str, str], dict[str, str]]:
    """The traits by which variants of equal settings differ, by ``_place``."""
    alike: dict[object, list[Variant]] = {}
    for variant in variants:
        alike.setdefault(_settings(variant), []).append(variant)
    groups = [group for group in alike.values() if len(group) > 1]
    siblings = [variant for group in groups for variant in group]
    rows = [_traits_of(variant) for variant in siblings]
    settings = [_settings(variant) for variant in siblings]
    keys = distinguishing(rows, settings)
    return {
        _place(variant): {
            key: row[key] for key in keys if row.get(key) and row[key] != f"dot {variant.tile}"
        }
        for variant, row in zip(siblings, rows, strict=True)
    }


def _settings(variant: Variant) -> object:
    """The traits of a variant that need no code."""
    return (
        variant.target,
        repr(variant.config),
        repr(variant.signature),
        repr(variant.specialization),
    )


def _traits_of(variant: Variant) -> dict[str, str]:
    file = variant.stages.get(Stage.TTGIR)
    if file is None or file.costly:
        return {}
    try:
        content = file.content.read()
    except PtxviewError:
        return {}
    return traits(content.decode("utf-8", "replace")) if len(content) <= MAX_TTGIR_BYTES else {}
