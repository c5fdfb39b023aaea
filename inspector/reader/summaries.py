"""Figures of many variants for tables, read side by side and cached by content.

An entry of the cache is named by the digest of all that it depends on: stages, launches, device,
rules and version.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

from inspector import __version__
from inspector.base.errors import PtxviewError
from inspector.base.model import Resources, Stage, Variant
from inspector.reader import tables
from inspector.reader.facts import VariantFacts, at_hand
from inspector.system.process import side_by_side

COUNTING_SECONDS = 2.0
"""Time that a list gives to hints that nobody has asked for yet."""
MAX_COUNTED_VARIANTS = 1000
"""Larger lists count no hints: even looking into the cache reads every stage."""
MAX_COUNTED_LINES = 100_000
"""Lines of PTX of a variant whose hints a list counts: about two seconds of analysis."""

Key = tuple[str, str]
"""A variant's hash and its symbol."""


@dataclass(frozen=True, slots=True)
class VariantSummary:
    """Figures of a variant; None is unknown.

    ``instructions`` are those of the kernel's SASS, ``ptx_instructions`` of its PTX, ``live`` is
    the peak of live general registers in its SASS, ``hints`` how many there are, ``occupancy`` the
    theoretical one in percent. ``lacking`` says why figures of the machine code are unknown.
    """

    resources: Resources = field(default_factory=Resources)
    instructions: int | None = None
    ptx_instructions: int | None = None
    live: int | None = None
    hints: int | None = None
    occupancy: float | None = None
    lacking: str | None = None


class Summaries:
    """Reads summaries of a reader's variants. Safe to use from several threads."""

    def __init__(self, reader: VariantFacts) -> None:
        self._reader = reader
        self._known: dict[Key, VariantSummary] = {}

    def of(self, variant: Variant) -> VariantSummary | None:
        """The summary of a variant, if it was read."""
        return self._known.get((variant.hash, variant.symbol))

    def know(self, variant: Variant, summary: VariantSummary) -> None:
        """Take over a summary that was read while the recording held less."""
        self._known.setdefault((variant.hash, variant.symbol), summary)

    def forget(self, variant: Variant) -> None:
        """Drop a summary whose inputs have changed."""
        self._known.pop((variant.hash, variant.symbol), None)

    def read(
        self, variants: Sequence[Variant], go_on: Callable[[], bool] = lambda: True
    ) -> Iterator[tuple[int, int]]:
        """Read summaries; yields how many are known, of how many. Stops once ``go_on`` says no."""
        wanted = {(v.hash, v.symbol): v for v in variants}
        left = [variant for key, variant in wanted.items() if not self._cached(key, variant)]
        done = len(wanted) - len(left)
        yield done, len(wanted)
        for _ in side_by_side(self._of_cubin, _by_cubin(left)):
            done = sum(key in self._known for key in wanted)
            yield done, len(wanted)
            if not go_on():
                return

    def count_hints(
        self, variants: Sequence[Variant], seconds: float, before: Callable[[], None]
    ) -> int:
        """Count hints as ``Reader.count_hints``."""
        variants = [v for v in variants if not v.uncompiled]
        if len(variants) > MAX_COUNTED_VARIANTS:
            return len(variants)
        left = [v for v in variants if not self._cached((v.hash, v.symbol), v)]
        if left and seconds > 0:
            before()
            until = time.monotonic() + seconds

            def count(cubin: list[Variant]) -> None:
                if time.monotonic() < until:
                    self._of_cubin([variant for variant in cubin if not _is_long(variant)])

            list(side_by_side(count, _by_cubin(left)))
        known = (self.of(variant) for variant in left)
        return sum(one is None or one.hints is None for one in known)

    def _cached(self, key: Key, variant: Variant) -> bool:
        """Whether a summary is known, by now or from the cache."""
        if key not in self._known:
            try:
                value = json.loads(self._reader.cache.get(self._key(variant)) or b"")
                resources = Resources(**value["resources"])
                self._known[key] = VariantSummary(**{**value, "resources": resources})
            except (ValueError, TypeError, KeyError):
                return False
        return True

    def _of_cubin(self, variants: Sequence[Variant]) -> None:
        """Read the kernels of one cubin; nothing else is kept of them, there may be thousands."""
        for variant in variants:
            try:
                summary = self._summary(variant)
            except Exception as error:  # a fault in one variant is no reason to read no other
                why = f"This could not be read: {type(error).__name__}: {error}"
                summary = VariantSummary(variant.known, lacking=why)
            self._known[variant.hash, variant.symbol] = summary
            if summary.lacking is None:
                self._reader.cache.put(self._key(variant), json.dumps(asdict(summary)).encode())
        self._reader.forget(variants)

    def _summary(self, variant: Variant) -> VariantSummary:
        reader = self._reader
        resources = reader.resources(variant)
        try:
            sass, ptx = (reader.code(variant, stage) for stage in (Stage.SASS, Stage.PTX))
            hints = len(reader.hints(variant))
            lacking = " ".join(reader.lacking(variant)) or None
            instructions, ptx_instructions = (
                None if code is None else sum(map(len, code.code.without_padding().values()))
                for code in (sass, ptx)
            )
        except PtxviewError as error:
            return VariantSummary(resources, lacking=error.message)
        peak = None if sass is None else sass.live.peak.get("gpr")
        return VariantSummary(
            resources,
            instructions,
            ptx_instructions,
            None if peak is None else peak[0],
            hints if lacking is None else None,
            reader.occupancy(variant),
            lacking,
        )

    def _key(self, variant: Variant) -> str:
        reader = self._reader
        told = (
            sorted(tables.table("hints").items()),
            variant.symbol,
            variant.calls,
            dict(variant.config),
            dict(variant.signature),
            reader.device(variant),
            reader.kernel(variant).fusion,
            reader.executions.of(variant),
        )
        # Names are a stranger's: not every one of them can be encoded.
        parts: list[bytes | str] = ["summary", __version__, ascii(told)]
        for stage in sorted(variant.stages, key=lambda s: s.rank):
            if at_hand(variant, stage):
                try:
                    parts += [stage.value, variant.stages[stage].content.read()]
                except PtxviewError:
                    parts += [stage.value, b"lost"]
        return reader.cache.key(*parts)


def _by_cubin(variants: Sequence[Variant]) -> list[list[Variant]]:
    groups: dict[str, list[Variant]] = {}
    for variant in variants:
        groups.setdefault(variant.hash, []).append(variant)
    return list(groups.values())


def _is_long(variant: Variant) -> bool:
    ptx = variant.stages.get(Stage.PTX)
    try:
        return ptx is not None and ptx.content.read().count(b"\n") > MAX_COUNTED_LINES
    except PtxviewError:
        return False
