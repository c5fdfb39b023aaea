"""Summaries of variants: figures of many of them, cached by content."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain

import msgspec
from msgspec import Struct, field

from inspector import __version__
from inspector.base.errors import PtxviewError
from inspector.base.model import (
    Resources,
    Stage,
    Variant,
)
from inspector.reader import tables
from inspector.reader.memo import Memo, code_key
from inspector.reader.variant_facts import VariantFacts, available_content, by_cubin, is_available
from inspector.recording.layout import DerivedCache, content_digest
from inspector.system.process import side_by_side

COUNTING_SECONDS = 2.0  # time that a list gives to hints that nobody has asked for yet
MAX_COUNTED_VARIANTS = 1000
"""Larger lists count no hints: even looking into the cache reads every stage."""
MAX_COUNTED_LINES = 100_000
"""Lines of PTX of a variant whose hints a list counts: about two seconds of analysis."""
MAX_COUNTED_CUBIN_BYTES = 2 << 20
"""Bytes of a cubin whose hints a list counts: nvdisasm takes a second or two for each MB."""

Key = tuple[str, str]  # A variant's hash and its symbol


class VariantSummary(Struct, frozen=True):
    """Figures of a variant; None is unknown.

    ``instructions`` are SASS's, ``live`` is the peak of live general registers in SASS,
    ``rules`` are those of its hints, ``occupancy`` the theoretical one in percent. ``lacking`` says
    why figures are unknown.
    """

    resources: Resources = field(default_factory=Resources)
    instructions: int | None = None
    ptx_instructions: int | None = None
    live: int | None = None
    rules: tuple[str, ...] | None = None
    occupancy: float | None = None
    lacking: str | None = None

    @property
    def hints(self) -> int | None:
        return None if self.rules is None else len(self.rules)

    @property
    def ranked_rules(self) -> tuple[str, ...] | None:
        """Each rule once, what may gain most first."""
        return None if self.rules is None else tuple(dict.fromkeys(self.rules))


class Summaries:
    """Reads figures of many variants, for tables. Safe to use from several threads."""

    def __init__(self, facts: VariantFacts, memo: Memo, cache: DerivedCache) -> None:
        self._facts = facts
        self._memo = memo
        self._cache = cache
        self._summaries: dict[Key, VariantSummary] = {}

    def summary_of(self, variant: Variant) -> VariantSummary | None:
        return self._summaries.get((variant.hash, variant.symbol))

    def hint_count(self, variant: Variant) -> int | None:
        summary = self.summary_of(variant)
        return None if summary is None else summary.hints

    def adopt(self, variant: Variant, summary: VariantSummary) -> None:
        """Take over a summary that was read while the recording held less."""
        self._summaries.setdefault((variant.hash, variant.symbol), summary)

    def forget(self, variant: Variant) -> None:
        self._summaries.pop((variant.hash, variant.symbol), None)

    def read_now(self, variant: Variant) -> VariantSummary:
        """Return the summary of one variant, read where it is not known."""
        key = (variant.hash, variant.symbol)
        if not self._cached(key, variant):
            self._read_cubin([variant])
        return self._summaries[key]

    def read(
        self, variants: Sequence[Variant], should_continue: Callable[[], bool] = lambda: True
    ) -> Iterator[tuple[int, int]]:
        """Read summaries until ``should_continue`` says no; yields (known, all)."""
        variants_by_key = {(v.hash, v.symbol): v for v in variants}
        missing = [
            variant for key, variant in variants_by_key.items() if not self._cached(key, variant)
        ]
        yield len(variants_by_key) - len(missing), len(variants_by_key)
        for _ in side_by_side(self._read_cubin, by_cubin(missing)):
            yield sum(key in self._summaries for key in variants_by_key), len(variants_by_key)
            if not should_continue():
                return

    def uncounted(self, variants: Sequence[Variant]) -> list[Variant]:
        """Variants of small code whose hints are not counted yet and are not in the cache."""
        compiled = [variant for variant in variants if not variant.uncompiled]
        if len(compiled) > MAX_COUNTED_VARIANTS:
            return compiled
        uncounted = [
            variant
            for variant in compiled
            if not self._cached((variant.hash, variant.symbol), variant)
        ]
        small = [cubin for cubin in by_cubin(uncounted) if _is_small(cubin[0])]
        return list(chain.from_iterable(small))

    def count_hints(
        self,
        variants: Sequence[Variant],
        seconds: float = COUNTING_SECONDS,
        say: Callable[[str], object] = lambda text: None,
    ) -> list[Variant]:
        """Count hints: cached ones, then of small code for ``seconds``; returns the others.

        ``say`` is given the progress.
        """
        missing = self.uncounted(variants)
        if len(missing) > MAX_COUNTED_VARIANTS:
            return missing
        until = time.monotonic() + seconds

        def count(cubin: list[Variant]) -> None:
            if time.monotonic() < until:
                self._read_cubin(cubin, until)

        counted = 0
        cubins = by_cubin(missing)
        for cubin, _ in zip(cubins, side_by_side(count, cubins), strict=True):
            counted += len(cubin)
            say(f"counting hints: {counted} of {len(missing)} variants (Ctrl-C lists without them)")
        return [variant for variant in missing if self.summary_of(variant) is None]

    def _cached(self, key: Key, variant: Variant) -> bool:
        """Whether a summary is known, by now or from the cache."""
        if key not in self._summaries:
            with suppress(msgspec.DecodeError, ValueError):
                data = self._cache.get(self._key(variant)) or b""
                self._summaries[key] = msgspec.json.decode(data, type=VariantSummary)
        return key in self._summaries

    def _read_cubin(self, variants: Sequence[Variant], until: float = math.inf) -> None:
        """Read the kernels of one cubin, the first even after ``until``; nothing else is kept
        of them, there may be thousands."""
        for index, variant in enumerate(variants):
            if index and time.monotonic() >= until:
                break
            try:
                summary = self._summary(variant)
            except Exception as error:  # a fault in one variant is no reason to read no other
                reason = f"This could not be read: {type(error).__name__}: {error}"
                summary = VariantSummary(variant.recorded_resources, lacking=reason)
            self._summaries[variant.hash, variant.symbol] = summary
            if summary.lacking is None:
                self._cache.store(self._key(variant), msgspec.json.encode(summary))
        self._facts.forget(variants)

    def _summary(self, variant: Variant) -> VariantSummary:
        facts = self._facts
        resources = facts.resources(variant)
        try:
            sass, ptx = (
                facts.available_analysis(variant, stage) for stage in (Stage.SASS, Stage.PTX)
            )
            rules = tuple(hint.rule for hint in facts.hints(variant))
            lacking = " ".join(facts.lacking(variant)) or None
            instructions, ptx_instructions = (
                None if code is None else sum(map(len, code.code.without_padding().values()))
                for code in (sass, ptx)
            )
        except PtxviewError as error:
            return VariantSummary(resources, lacking=error.message)
        live, _ = ({} if sass is None else sass.live.peak).get("gpr", (None, 0))
        return VariantSummary(
            resources,
            instructions,
            ptx_instructions,
            live,
            rules if lacking is None else None,
            facts.occupancy(variant),
            lacking,
        )

    def _key(self, variant: Variant) -> str:
        """The digest of all that a summary depends on: stages, launches, device, rules, version."""
        facts = self._facts
        inputs = (
            sorted(tables.table("hints").items()),
            variant.symbol,
            variant.calls,
            dict(variant.config),
            dict(variant.signature),
            facts.device(variant),
            facts.kernel(variant).fusion,
            facts.execution_counts(variant),
        )
        # Names are a stranger's: not every one of them can be encoded.
        parts: list[bytes | str] = ["rules", __version__, ascii(inputs)]
        for stage in sorted(variant.stages, key=lambda s: s.rank):
            parts += [stage.value, self._digest(variant, stage)]
        return self._cache.key(*parts)

    def _digest(self, variant: Variant, stage: Stage) -> str:
        """The digest of a stage's content, read once for all kernels of a cubin; "" without one."""

        content = variant.stages[stage].content

        def read() -> str:
            with suppress(PtxviewError):
                return content_digest(content) if is_available(variant, stage) else ""
            return ""

        return self._memo.memoize(("digest", *code_key(variant, stage)), read)


def _is_small(variant: Variant) -> bool:
    """Whether a list may wait for the hints of a variant's cubin."""
    if len(available_content(variant, Stage.SASS)) > MAX_COUNTED_CUBIN_BYTES:
        return False
    return available_content(variant, Stage.PTX).count(b"\n") <= MAX_COUNTED_LINES
