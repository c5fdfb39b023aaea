"""What variants take: registers, memory and spills, read of many cubins side by side."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import cached_property
from itertools import islice
from pathlib import Path

from inspector.capture import spills
from inspector.capture.disassembly import usage_text
from inspector.errors import PtxviewError
from inspector.model import Content, Resources, Stage, Variant
from inspector.reader.listings import decode
from inspector.recording.layout import DerivedCache
from inspector.recording.resources import from_res_usage, max_threads, merge
from inspector.system.process import cores, stop_tools

RECENT = 64
"""Cubins whose figures are kept by function: several kernels of one are asked for in a row."""
GLANCE = 0.3
"""Seconds after which one who waits for figures is told how far they are."""
WAVE = 256
"""Cubins that are given to threads at once: a cache has tens of thousands."""


class VariantFigures:
    """Asks the tools what a variant takes. Safe to use from several threads."""

    def __init__(self, cache: DerivedCache) -> None:
        self._cache = cache
        self._lock = threading.Lock()
        self._resources: dict[tuple[str, str], Resources] = {}
        self._usage: dict[str, dict[str, Resources]] = {}
        self._spills: dict[str, dict[str, Resources]] = {}
        self._bounds: dict[str, dict[str, Resources]] = {}

    def resources(self, variant: Variant) -> Resources:
        """What a variant takes: cuobjdump's figures, then what was recorded, then PTX's bounds."""
        key = (variant.hash, variant.symbol)
        known = self._resources.get(key)
        if known is None:
            known = self._resources[key] = self._measure(variant)
        return known

    def known_by_now(self, variant: Variant) -> Resources:
        """What is known of a variant without asking anything."""
        return self._resources.get((variant.hash, variant.symbol), variant.known)

    def read(self, variants: Sequence[Variant]) -> Iterator[tuple[int, int]]:
        """Reads the figures of many variants, the tools side by side; how many cubins are done, of
        how many, some times a second. ``resources`` then has them all at once."""
        todo: dict[str, list[Variant]] = {}
        for variant in variants:
            if (variant.hash, variant.symbol) not in self._resources:
                todo.setdefault(variant.hash, []).append(variant)
        waiting, done = iter(todo.values()), 0
        left: set[Future[None]] = set()
        pool = ThreadPoolExecutor(max_workers=cores())
        try:
            while wave := list(islice(waiting, WAVE)):
                left = {pool.submit(self._of_one_cubin, cubin) for cubin in wave}
                while left:
                    ready, left = wait(left, GLANCE, FIRST_COMPLETED)
                    for one in ready:
                        one.result()
                    done += len(ready)
                    yield done, len(todo)
        except KeyboardInterrupt:  # nobody waits for what runs, nor for what follows it
            pool.shutdown(wait=False, cancel_futures=True)
            running = [one for one in left if not one.cancelled()]
            while wait(running, GLANCE / 10).not_done:
                stop_tools()
            raise
        finally:  # nor, where they are not read to the end, for what has not begun
            pool.shutdown(wait=True, cancel_futures=True)

    def _of_one_cubin(self, variants: Sequence[Variant]) -> None:
        for variant in variants:
            self.resources(variant)

    def _measure(self, variant: Variant) -> Resources:
        usage = Resources()
        sass = variant.stages.get(Stage.SASS)
        if sass is not None:
            try:
                usage = self.in_cubin(variant, sass.content)
            except PtxviewError:
                usage = _on_record(variant, sass.content)
        known = merge(variant.known, usage, self._bounds_of(variant))
        if known.spill_store_bytes is not None and known.barriers is not None:
            return known
        return merge(known, self._assembled(variant))

    def _bounds_of(self, variant: Variant) -> Resources:
        """The threads a block that PTX allows."""
        by_name = self._bounds.get(variant.hash)
        if by_name is None:
            ptx = variant.stages.get(Stage.PTX)
            text = ""
            if ptx is not None and not ptx.costly:
                with contextlib.suppress(PtxviewError):
                    text = decode(ptx.content.read())
            by_name = {n: Resources(max_threads=most) for n, most in max_threads(text).items()}
            self._keep(self._bounds, variant.hash, by_name)
        return by_name.get(variant.symbol, Resources())

    def _assembled(self, variant: Variant) -> Resources:
        """Spills and barriers where the assembler that made the cubin is at hand."""
        said = self._spills.get(variant.hash)
        if said is None:  # it is told of all kernels of a cubin at once
            said = spills.assembled(variant, self._assemblers, self._cache)
            self._keep(self._spills, variant.hash, said)
        return said.get(variant.symbol, Resources())

    @cached_property
    def _assemblers(self) -> list[Path]:
        """Every assembler of this machine: looking through PATH for each variant is half of all."""
        return spills.assemblers(())

    def in_cubin(self, variant: Variant, content: Content) -> Resources:
        """What cuobjdump says of a variant, and what its cubin has on record of spills."""
        by_name = self._usage.get(variant.hash)
        if by_name is None:
            cubin = content.read()
            printed = usage_text(cubin, self._cache)
            told, recorded = from_res_usage(printed), spills.on_record(cubin, printed)
            nothing = Resources()
            by_name = {
                name: merge(told.get(name, nothing), recorded.get(name, nothing))
                for name in {**told, **recorded}
            }
            self._keep(self._usage, variant.hash, by_name)
        return by_name.get(variant.symbol, Resources())

    def _keep(
        self, kept: dict[str, dict[str, Resources]], key: str, figures: dict[str, Resources]
    ) -> None:
        with self._lock:
            kept[key] = figures
            while len(kept) > RECENT:
                del kept[next(iter(kept))]


def _on_record(variant: Variant, content: Content) -> Resources:
    """What a cubin says without any tool: its barriers."""
    try:
        return spills.on_record(content.read(), "").get(variant.symbol, Resources())
    except PtxviewError:
        return Resources()
