"""Resources of variants: registers, memory and spills, read from many cubins side by side."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from inspector.capture import spills
from inspector.capture.disassembly import usage_text
from inspector.errors import PtxviewError
from inspector.model import Content, Resources, Stage, Variant
from inspector.reader.listings import Listings, decode
from inspector.recording.facts import from_res_usage, max_threads, merge
from inspector.system.process import side_by_side

GLANCE = 0.3
"""Seconds after which a user who waits for figures sees their progress."""


class VariantFigures(Listings):
    """Adds what the vendor's tools say of the resources of variants."""

    def resources(self, variant: Variant) -> Resources:
        """Resources by cuobjdump, then as recorded, then by the bounds in the PTX."""
        key = ("resources", variant.hash, variant.symbol)
        return self.memo.once(key, lambda: self._measure(variant))

    def known_by_now(self, variant: Variant) -> Resources:
        """Resources of a variant without asking any tool."""
        measured = self.memo.known(("resources", variant.hash, variant.symbol))
        return self.resources(variant) if measured else variant.known

    def figures(self, variants: Sequence[Variant]) -> Iterator[tuple[int, int]]:
        """Read the resources of many variants, side by side; ``resources`` then has them.

        Yields how many cubins are done, of how many.
        """
        by_cubin: dict[str, list[Variant]] = {}
        for variant in variants:
            by_cubin.setdefault(variant.hash, []).append(variant)

        def of_one_cubin(kernels: list[Variant]) -> None:
            for variant in kernels:
                self.resources(variant)

        cubins = list(by_cubin.values())
        for done, _ in enumerate(side_by_side(of_one_cubin, cubins), 1):
            yield done, len(cubins)

    def _measure(self, variant: Variant) -> Resources:
        usage = Resources()
        sass = variant.stages.get(Stage.SASS)
        if sass is not None:
            try:
                usage = self.in_cubin(variant, sass.content)
            except PtxviewError:
                with contextlib.suppress(PtxviewError):  # without a tool: the cubin's barriers
                    recorded = spills.on_record(sass.content.read(), "")
                    usage = recorded.get(variant.symbol, usage)
        bounds = self.memo.once(("bounds", variant.hash), lambda: _bounds(variant))
        known = merge(variant.known, usage, bounds.get(variant.symbol, Resources()))
        if known.spill_store_bytes is not None and known.barriers is not None:
            return known
        assembled = self.memo.once(
            ("spills", variant.hash),
            lambda: spills.assembled(variant, self._assemblers(), self.cache),
        )
        return merge(known, assembled.get(variant.symbol, Resources()))

    def _assemblers(self) -> list[Path]:
        return self.memo.once(("assemblers",), lambda: spills.assemblers(()))

    def in_cubin(self, variant: Variant, content: Content) -> Resources:
        """Resources by cuobjdump, and by the spill records in the cubin."""

        def read() -> dict[str, Resources]:
            cubin = content.read()
            printed = usage_text(cubin, self.cache)
            told, recorded = from_res_usage(printed), spills.on_record(cubin, printed)
            nothing = Resources()
            return {
                name: merge(told.get(name, nothing), recorded.get(name, nothing))
                for name in {**told, **recorded}
            }

        by_name = self.memo.once(("usage", variant.hash), read)
        return by_name.get(variant.symbol, Resources())


def _bounds(variant: Variant) -> dict[str, Resources]:
    """The threads a block that the PTX of each kernel allows."""
    ptx = variant.stages.get(Stage.PTX)
    text = ""
    if ptx is not None and not ptx.costly:
        with contextlib.suppress(PtxviewError):
            text = decode(ptx.content.read())
    return {name: Resources(max_threads=most) for name, most in max_threads(text).items()}
