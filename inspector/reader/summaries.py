"""Figures of many variants for one table: read by several processes, and kept by content.

What costs is Python's analysis and the start of the disassembler. So cubins are disassembled many
at once (``capture/disassembly.py``), and where there are more than a few variants, children of ours
read them side by side: each opens the recording, and keeps what it derived in the user's own cache,
where it is looked for. An entry is named by the digest of all that it depends on, so that none is
believed of another content, of other rules, or of another version.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import chain, repeat
from pathlib import Path
from typing import TypeVar

from inspector.errors import PtxviewError
from inspector.model import Recording, Resources, Stage, Variant
from inspector.reader.facts import HintCounts, Memo, VariantFacts, code_of
from inspector.reader.figures import VariantFigures
from inspector.reader.listings import Listings
from inspector.recording.layout import DerivedCache
from inspector.system.process import cores, run_tool

T = TypeVar("T")

FEW = 16
"""Variants that are read here: a child of ours takes half a second to start."""
MOST_CHILDREN = 4
LOOK = 0.25
"""Seconds between two looks at what children have kept."""
PARTS = (16, 64, 128)
"""Variants that are disassembled at once, and kept one after the other: few at first."""
LIMIT = 1800.0
"""Seconds after which a child is ended."""


@dataclass(frozen=True, slots=True)
class VariantSummary:
    """What a table says of a variant; None is not known.

    ``instructions`` are those of the kernel's SASS, ``ptx_instructions`` of its PTX, ``live`` the
    most general registers that are live at once in its SASS, ``hints`` how many there are,
    ``occupancy`` the theoretical one in percent. ``lacking`` says why figures of the machine code
    are not known.
    """

    resources: Resources = field(default_factory=Resources)
    instructions: int | None = None
    ptx_instructions: int | None = None
    live: int | None = None
    hints: int | None = None
    occupancy: float | None = None
    lacking: str | None = None


Key = tuple[str, str]
"""A variant's hash and its symbol."""


class Summaries:
    """Reads the figures of variants. Safe to use from several threads."""

    def __init__(
        self,
        recording: Recording,
        cache: DerivedCache,
        device: str | None,
        make: Callable[[Listings, VariantFigures, Memo], VariantFacts],
    ) -> None:
        """``device`` is what figures are told for; ``make`` gives an analysis on other listings,
        which are not shown."""
        self._recording = recording
        self._cache = cache
        self._device = device
        self._make = make
        self._known: dict[Key, VariantSummary] = {}
        self._lock = threading.Lock()

    def of(self, variant: Variant) -> VariantSummary | None:
        """What was read of a variant, None if nothing was yet."""
        return self._known.get((variant.hash, variant.symbol))

    def know(self, variant: Variant, summary: VariantSummary) -> None:
        """That was read of a variant, when the recording held less."""
        self._known.setdefault((variant.hash, variant.symbol), summary)

    def forget(self, variant: Variant) -> None:
        """What its figures depend on has changed."""
        self._known.pop((variant.hash, variant.symbol), None)

    def read(
        self, variants: Sequence[Variant], go_on: Callable[[], bool] = lambda: True
    ) -> Iterator[tuple[int, int]]:
        """Read the figures of variants; how many are known, of how many, whenever some more are.

        ``go_on`` is asked some times a second; once it says no, nothing more is read.
        """
        wanted = list({(v.hash, v.symbol): v for v in variants}.values())
        reading = _Reading(self._cache, self._make)
        left: dict[str, Variant] = {}
        for variant in wanted:
            if not go_on():
                return
            if self.of(variant) is None:
                left[reading.key(variant)] = variant
        self._take(left)
        yield len(wanted) - len(left), len(wanted)
        if len(left) > FEW and Path(self._recording.path).exists():
            for _ in self._beside(left, go_on):
                yield len(wanted) - len(left), len(wanted)
        for part in _parts(list(left)):
            for key, summary in reading.summaries({key: left[key] for key in part}):
                variant = left.pop(key)
                self._known[variant.hash, variant.symbol] = summary
                yield len(wanted) - len(left), len(wanted)
                if not go_on():
                    return

    def keep(self, variants: Sequence[Variant]) -> None:
        """Read the figures of variants here, and keep them where others find them."""
        reading = _Reading(self._cache, self._make)
        for part in _parts(variants):
            for _ in reading.summaries({reading.key(variant): variant for variant in part}):
                pass

    def _take(self, left: dict[str, Variant]) -> int:
        """Take what is kept of these, by their keys; how many were."""
        before = len(left)
        for key, variant in list(left.items()):
            summary = _kept(self._cache, key)
            if summary is not None:
                self._known[variant.hash, variant.symbol] = summary
                del left[key]
        return before - len(left)

    def _beside(self, left: dict[str, Variant], go_on: Callable[[], bool]) -> Iterator[None]:
        """Have children of ours read what is left, and take it as it is kept."""
        many = min(cores(), MOST_CHILDREN)
        over = threading.Event()

        def child(number: int) -> None:
            names = [f"{v.hash}{v.symbol}" for v in list(left.values())[number::many]]
            _run_child(
                self._recording.path, self._device, names, lambda: go_on() and not over.is_set()
            )

        with ThreadPoolExecutor(many) as pool:
            running: list[Future[None]] = [pool.submit(child, number) for number in range(many)]
            try:
                while left and go_on():
                    ended = all(one.done() for one in running)
                    if self._take(left):
                        yield
                    if ended:
                        return
                    over.wait(LOOK)
            finally:
                over.set()


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Some after the other, of the sizes of ``PARTS``."""
    begin = 0
    for size in chain(PARTS, repeat(PARTS[-1])):
        if begin >= len(items):
            return
        yield items[begin : begin + size]
        begin += size


class _Reading:
    """An analysis of its own, whose listings nobody sees."""

    def __init__(
        self,
        cache: DerivedCache,
        make: Callable[[Listings, VariantFigures, Memo], VariantFacts],
    ) -> None:
        self._cache = cache
        self._listings = Listings(cache)
        self._figures = VariantFigures(cache)
        self._facts = make(self._listings, self._figures, Memo())
        self._counts = HintCounts(self._facts, cache)

    def key(self, variant: Variant) -> str:
        """What a variant's figures are kept by."""
        return self._counts.key("summary", variant)

    def summaries(self, variants: dict[str, Variant]) -> Iterator[tuple[str, VariantSummary]]:
        """Read some, by their keys, and keep them."""
        self._listings.count_together(list(variants.values()))
        for key, variant in variants.items():
            summary = self._summary(variant)
            if summary.lacking is None:
                self._cache.put(key, json.dumps(asdict(summary)).encode())
                self._cache.put(self._counts.key("hints", variant), str(summary.hints).encode())
            yield key, summary
        self._facts.forget(list(variants.values()))

    def _summary(self, variant: Variant) -> VariantSummary:
        try:
            return self._read(variant)
        except Exception as error:  # a fault of ours in one variant is no reason to read no other
            return VariantSummary(
                variant.known, lacking=f"This could not be read: {type(error).__name__}: {error}"
            )

    def _read(self, variant: Variant) -> VariantSummary:
        resources = self._figures.resources(variant)
        try:
            counts = {stage: self._count(variant, stage) for stage in (Stage.SASS, Stage.PTX)}
            hints = len(self._facts.hints(variant))
            lacking = " ".join(self._facts.lacking(variant)) or None
        except PtxviewError as error:
            return VariantSummary(resources, lacking=error.message)
        return VariantSummary(
            resources, counts[Stage.SASS], counts[Stage.PTX], self._live(variant),
            hints if lacking is None else None, self._facts.occupancy(variant), lacking,
        )  # fmt: skip

    def _count(self, variant: Variant, stage: Stage) -> int | None:
        facts = code_of(self._facts, variant, stage)
        return None if facts is None else sum(map(len, facts.code.without_padding().values()))

    def _live(self, variant: Variant) -> int | None:
        facts = code_of(self._facts, variant, Stage.SASS)
        peak = None if facts is None else facts.live.peak.get("gpr")
        return None if peak is None else peak[0]


def _kept(cache: DerivedCache, key: str) -> VariantSummary | None:
    """What is kept by a key; None where nothing is, or it is damaged."""
    data = cache.get(key)
    if data is None:
        return None
    try:
        value = json.loads(data)
        return VariantSummary(**{**value, "resources": Resources(**value["resources"])})
    except (ValueError, TypeError, KeyError):
        return None


# -- the children ---------------------------------------------------------------------------------

_CODE = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from inspector.reader.summary_child import child
child(sys.argv[1], sys.argv[2])
"""


def _run_child(
    path: str, device: str | None, names: Sequence[str], go_on: Callable[[], bool]
) -> None:
    """Have another process of ours read these; what it cannot, it leaves."""
    import tempfile

    root = Path(__file__).resolve().parents[2]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([device, names], file)
        file.flush()
        try:
            # -P: the folder that one stands in is no part of the interpreter.
            whole = str(Path(path).absolute())
            words = [sys.executable, "-P", "-c", _CODE, str(root), whole, file.name]
            run_tool(words, seconds=LIMIT, go_on=go_on)
        except PtxviewError:
            return
