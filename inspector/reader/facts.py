"""What the analysis says of variants and of their functions: lazily, each result kept.

Everything here is computed from listings, recorded launches and tables; nothing is run but the
disassembler that the listings come from.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock, RLock
from typing import TypeVar, cast

from inspector import __version__
from inspector.analyse.card import Card, card
from inspector.analyse.flow.graph import Flow
from inspector.analyse.function_facts import FunctionFacts
from inspector.analyse.hints import hints
from inspector.analyse.hints.counts import ExecutedFacts
from inspector.analyse.hints.executed import with_executed
from inspector.analyse.hints.subject import Finding, HintSubject
from inspector.analyse.occupancy import Device, base_arch
from inspector.analyse.opcodes import OpcodeLines
from inspector.analyse.sentences.context import Context, context_of
from inspector.analyse.telling import Samples
from inspector.errors import PtxviewError, UsageError
from inspector.listing.cubin import kernel_parameters
from inspector.listing.line import Function, Listing
from inspector.model import Kernel, Recording, Stage, Variant
from inspector.reader import tables
from inspector.reader.compiled import CompiledVariants
from inspector.reader.figures import VariantFigures
from inspector.reader.listings import Listings, functions_of
from inspector.recording.layout import DerivedCache
from inspector.system.process import side_by_side

T = TypeVar("T")

MACHINE = (Stage.PTX, Stage.SASS)
"""The stages that have registers."""

_NOT_MADE = object()
MOST_COUNTED = 1000
"""Variants from which on hints are not counted: even asking what is kept reads every stage."""
COUNTING = 2.0
"""Seconds that a list gives to counting hints that nobody has asked for yet."""
COUNTING_AT_ONCE = 4
"""Most of a count is Python's own, and those that begin in time are waited for."""
MAX_COUNTED_LINES = 100_000
"""Lines of PTX of a variant whose hints a list counts: about two seconds of analysis."""
FUNCTIONS = 64
"""Functions of files whose analysis is kept: a file may have thousands."""

WARP = 32
MOST_PARAMETERS = 32_764
"""Bytes of parameters that any kernel takes (PTX ISA, "Kernel Function Parameter Attribute")."""
_COUNTED = (Stage.TTIR, Stage.TTGIR, *MACHINE)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a profiler measured of a variant: a sentence a launch, its own rules as findings, and
    samples by line of SASS, none where they cannot be shown there."""

    told: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    samples: Mapping[int, Samples] = field(default_factory=dict)


Measurements = Callable[[Variant], Measured | None]
"""Says what was measured of a variant, None if nothing was measured."""


def nothing_measured(variant: Variant) -> None:
    """There is no profiler's report."""


class Memo:
    """Results by key, each made once. Safe to use from several threads."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, object] = {}
        self._making: dict[Hashable, RLock] = {}
        self._guard = Lock()
        self._recent: dict[Hashable, None] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` gave the first time; others who ask for the same wait, nobody else does."""
        made = self._kept.get(key, _NOT_MADE)
        if made is _NOT_MADE:
            with self._guard:
                lock = self._making.setdefault(key, RLock())
            with lock:
                made = self._kept.get(key, _NOT_MADE)
                if made is _NOT_MADE:
                    made = self._kept[key] = make()
        return cast(T, made)

    def forget(self, owners: AbstractSet[Hashable]) -> None:
        """Keep nothing any longer whose key has one of ``owners`` in it."""
        with self._guard:
            for kept in (self._kept, self._making, self._recent):
                for key in [k for k in kept if isinstance(k, tuple) and not owners.isdisjoint(k)]:
                    kept.pop(key, None)

    def passing(self, key: Hashable, make: Callable[[], T]) -> T:
        """The same of what is of one function of a file, of which only the newest are kept."""
        made = self.once(key, make)
        with self._guard:
            self._recent.pop(key, None)
            self._recent[key] = None
            while len(self._recent) > FUNCTIONS:
                old = next(iter(self._recent))
                del self._recent[old]
                self._kept.pop(old, None)
                self._making.pop(old, None)
        return made


class VariantFacts:
    """Analyses what is listed of variants. Safe to use from several threads.

    ``device`` and ``measured`` are as for a ``Reader``; ``executed`` says what was counted when
    blocks of a call were run.
    """

    def __init__(
        self,
        recording: Recording,
        listings: Listings,
        figures: VariantFigures,
        memo: Memo,
        device: str | None = None,
        measured: Measurements = nothing_measured,
        executed: Callable[[Variant], ExecutedFacts | None] = lambda _: None,
    ) -> None:
        if device is not None and base_arch(device) not in tables.devices():
            raise UsageError(
                f"no device {device} is known",
                f"Known are: {', '.join(tables.devices())}",
            )
        self.measured = measured
        self.executed = executed
        self._recorded_on = recording.device
        self._listings = listings
        self._figures = figures
        self._memo = memo
        self._chosen = device
        self._kernels = {id(v): k for k, v in recording.variants()}
        self._compiled = CompiledVariants(recording)

    # -- the kernel as a whole ----------------------------------------------------------------

    def device(self, variant: Variant) -> Device | None:
        """The device that figures are told for, None if the architecture is not known."""
        arch = self._chosen or variant.target
        if arch is None:
            return None
        known = tables.devices().get(base_arch(arch))
        if known is None or self._chosen is not None:
            return known
        return known.recorded(self._recorded_on)

    def kernel(self, variant: Variant) -> Kernel:
        """The kernel that a variant is of."""
        return self._kernels[id(variant)]

    def context(self, variant: Variant) -> Context:
        """Parameters, grid and block, as far as PTX, the signature and the launches tell them."""
        return self._memo.once(("context", id(variant)), lambda: self._context(variant))

    def _context(self, variant: Variant) -> Context:
        kernel = self.kernel(variant)
        listing, function = None, None
        if _at_hand(variant, Stage.PTX):
            try:
                listing = self._listings.listing(variant, Stage.PTX)
                function = self._listings.function(variant, Stage.PTX)
            except PtxviewError:
                listing = None
        return context_of(kernel, variant, listing, function)

    def parameter_names(self, variant: Variant, stage: Stage) -> dict[str, str]:
        """What a kernel's parameters are called in its source: by symbols of PTX, for SASS by
        offsets in constant bank 0 as its cubin has them (``0x214``: ``stride+4``, of eight bytes
        the upper half). One without a name is its number there. Empty of other stages."""
        if stage is Stage.PTX:
            of_ptx = self.context(variant).parameters
            return {one.symbol: one.name for one in of_ptx if one.symbol and one.name}
        file = variant.stages.get(Stage.SASS)
        if stage is not Stage.SASS or file is None:
            return {}
        in_cubin = kernel_parameters(file.content.read(), variant.symbol)
        if in_cubin is None or in_cubin.base is None:
            return {}
        if sum(one.size for one in in_cubin.parameters) > MOST_PARAMETERS:
            return {}
        names = {one.index: one.name for one in self.context(variant).parameters}
        return {
            hex(in_cubin.base + one.offset + byte): f"{names.get(one.ordinal) or one.ordinal}"
            + (f"+{byte}" if byte else "")
            for one in in_cubin.parameters
            for byte in range(0, one.size, 4)
        }

    def card(self, variant: Variant) -> Card:
        """What the variant takes, what limits it and what it is made of; what was measured."""
        own = self._memo.once(("card", id(variant)), lambda: self._card(variant))
        measured = self.measured(variant)
        return own if measured is None else replace(own, measured=measured.told)

    def _card(self, variant: Variant) -> Card:
        listings: dict[Stage, tuple[Listing, Function]] = {}
        flows: dict[Stage, Flow] = {}
        codes: dict[Stage, OpcodeLines] = {}
        for stage in _COUNTED:
            if not _at_hand(variant, stage):
                continue
            try:
                own = self._listings.function(variant, stage)
                if own is not None:
                    listings[stage] = (self._listings.listing(variant, stage), own)
                    facts = self.own(variant, stage)
                    if facts is not None:
                        flows[stage], codes[stage] = facts.flow, facts.code
            except PtxviewError:
                continue  # the card says what is known without that stage
        subject = self._subject(variant)
        block = self.context(variant).block  # .reqntid says it without a launch
        threads = None if block is None else block[0] * block[1] * block[2]
        if subject.warps is not None:
            threads = WARP * subject.warps
        return card(
            self._figures.resources(variant), subject.device, listings, tables.isa().cost,
            subject.launch, threads, flows, subject.built_for, codes,
        )  # fmt: skip

    def findings(self, variant: Variant, counted: bool = True) -> tuple[Finding, ...]:
        """The hints on the variant, then what its compiler said and those of the profiler that
        measured it; those of the code alone where what was ``counted`` when it was run is not
        wanted."""
        measured = self.measured(variant)
        own = (*self.hints(variant, counted), *self._said(variant))
        return own if measured is None else (*own, *measured.findings)

    def _said(self, variant: Variant) -> tuple[Finding, ...]:
        """What the compiler said, at the lines that there are."""

        def lines_of(stage: Stage) -> int:
            try:
                return len(self._listings.listing(variant, stage).lines)
            except PtxviewError:
                return 0

        return self._compiled.said(variant, lines_of)

    def failed_at(self, variant: Variant) -> tuple[Stage, int] | None:
        """The stage and the line of the first error of a compiler's that has one here."""
        for finding in self._said(variant) if variant.uncompiled else ():
            if finding.rule.endswith("-error"):
                for stage, lines in finding.lines.items():
                    return stage, lines[0]
        return None

    def hints(self, variant: Variant, counted: bool = True) -> tuple[Finding, ...]:
        """The hints of ours alone."""
        return self._memo.once(
            ("hints", id(variant), counted),
            lambda: hints(self._subject(variant, counted), tables.table("hints")),
        )

    def forget_hints(self, variant: Variant) -> None:
        """What the hints depend on has changed."""
        self._memo.forget({id(variant)})

    def counted(self, variant: Variant, facts: ExecutedFacts) -> tuple[Finding, ...]:
        """The hints that these counts of a launch give, and no others."""
        subject = replace(self._subject(variant), executed=facts)
        return with_executed(subject, (), tables.table("hints"))

    def _subject(self, variant: Variant, counted: bool = True) -> HintSubject:
        return HintSubject(
            kernel=self.kernel(variant),
            variant=variant,
            resources=self._figures.resources(variant),
            listings=StagesAtHand(variant, lambda stage: self._listings.listing(variant, stage)),
            functions=StagesAtHand(variant, lambda stage: self._listings.function(variant, stage)),
            facts=StagesAtHand(variant, lambda stage: self.own(variant, stage)),
            calls=variant.calls,
            device=self.device(variant),
            built_for=tables.devices().get(base_arch(variant.target or "")),
            executed=self.executed(variant) if counted else None,
        )

    def occupancy(self, variant: Variant) -> float | None:
        """The theoretical occupancy in percent."""
        full = self._subject(variant).occupancy
        return None if full is None else full.percent

    def lacking(self, variant: Variant) -> tuple[str, ...]:
        """Why figures and hints are not known, where what they are read from was recorded: a
        missing tool, a damaged cubin, a blob that is gone."""
        reads: list[Callable[[], object]] = [
            partial(self._listings.listing, variant, stage)
            for stage in (Stage.SASS, Stage.PTX, Stage.TTGIR)  # what hints look at
            if _at_hand(variant, stage)
        ]
        if _at_hand(variant, Stage.SASS):
            content = variant.stages[Stage.SASS].content
            reads.insert(1, partial(self._figures.in_cubin, variant, content))
        out: list[str] = []
        for read in reads:
            try:
                read()
            except PtxviewError as error:
                out.append(f"{error.message}. {error.hint}" if error.hint else error.message)
        return tuple(dict.fromkeys(out))

    def forget(self, variants: Sequence[Variant]) -> None:
        """Keep nothing any longer of variants that were looked at in passing."""
        hashes = {variant.hash for variant in variants}
        self._memo.forget(hashes | {id(variant) for variant in variants})
        self._listings.forget(hashes)

    def pass_over(self, variant: Variant) -> None:
        """Keep nothing any longer of one variant; its listings, which others share, stay."""
        self._memo.forget({id(variant)})

    # -- the functions of a listing -------------------------------------------------------------

    def of_function(self, variant: Variant, stage: Stage, n: int) -> FunctionFacts | None:
        """What is known of the function of PTX or SASS that line ``n`` stands in."""
        functions = functions_of(stage, self._listings.listing(variant, stage), variant.symbol)
        at = bisect_right(functions, n, key=lambda f: f.first) - 1
        if at < 0 or functions[at].last < n:
            return None
        key = ("facts", variant.hash, stage, at)
        return self._memo.passing(key, lambda: self._facts(variant, stage, functions[at]))

    def _facts(self, variant: Variant, stage: Stage, function: Function) -> FunctionFacts:
        listing = self._listings.listing(variant, stage)
        return FunctionFacts(listing, function, tables.table("scheduling"))

    def own(self, variant: Variant, stage: Stage) -> FunctionFacts | None:
        """What is known of the kernel in PTX or SASS; None if the stage has none."""
        own = self._listings.function(variant, stage) if stage in MACHINE else None
        return None if own is None else self.of_function(variant, stage, own.first)


def code_of(facts: VariantFacts, variant: Variant, stage: Stage) -> FunctionFacts | None:
    """What is known of the kernel itself in PTX or SASS; None where there is none, or reading it
    would run a compiler. Raises ``PtxviewError`` where it cannot be read."""
    return facts.own(variant, stage) if _at_hand(variant, stage) else None


def _is_long(variant: Variant) -> bool:
    """Whether a variant's PTX is too long to count its hints beside others'."""
    ptx = variant.stages.get(Stage.PTX)
    try:
        return ptx is not None and ptx.content.read().count(b"\n") > MAX_COUNTED_LINES
    except PtxviewError:  # the count says so
        return False


class HintCounts:
    """How many hints of ours there are on variants, kept by content from one run to the next."""

    def __init__(self, facts: VariantFacts, cache: DerivedCache) -> None:
        self._facts = facts
        self._cache = cache
        self._counts: dict[tuple[str, str], int] = {}

    def of(self, variant: Variant) -> int | None:
        """How many hints of ours there are on a variant, where they have been counted."""
        return self._counts.get((variant.hash, variant.symbol))

    def count(
        self,
        variants: Sequence[Variant],
        seconds: float = COUNTING,
        before: Callable[[], None] = lambda: None,
    ) -> int:
        """Count hints: those that were counted before, then others until ``seconds`` are over.

        A count costs a disassembly and an analysis where nobody has asked before, and is kept by
        content. How many variants are left without one. ``before`` is called where there are some
        to count and time to do so.
        """
        variants = [v for v in variants if not v.uncompiled]  # there is no code to count them in
        if len(variants) > MOST_COUNTED:
            return len(variants)
        keys = {(v.hash, v.symbol): self.key("hints", v) for v in variants}
        left: list[Variant] = []
        for variant in variants:
            name = variant.hash, variant.symbol
            kept = self._cache.get(keys[name])
            if kept is not None and kept.isdigit():
                self._counts[name] = int(kept)
            else:
                left.append(variant)
        if not left or seconds <= 0:
            return len(left)
        before()
        until = time.monotonic() + seconds

        def counted(variant: Variant) -> bool:
            if time.monotonic() > until:
                return False
            try:
                if _is_long(variant):
                    return False
                many = len(self._facts.hints(variant))
                whole = not self._facts.lacking(variant)
            except PtxviewError:
                return False
            if whole:  # without one of its stages some hints cannot be seen
                self._counts[variant.hash, variant.symbol] = many
                self._cache.put(keys[variant.hash, variant.symbol], str(many).encode())
            return whole

        # All of one file in a row, and then nothing of it is kept: a list has thousands of files.
        files: dict[str, list[Variant]] = {}
        for variant in left:
            files.setdefault(variant.hash, []).append(variant)

        def of_file(variants: list[Variant]) -> int:
            missing = sum(not counted(variant) for variant in variants)
            self._facts.forget(variants)
            return missing

        return sum(side_by_side(of_file, list(files.values()), COUNTING_AT_ONCE))

    def key(self, what: str, variant: Variant) -> str:
        """What a variant's hints depend on, and ``what`` is kept by it: its stages, its launches,
        the device, the rules."""
        told = (
            sorted(tables.table("hints").items()), variant.symbol, variant.calls,
            dict(variant.config), dict(variant.signature), self._facts.device(variant),
            self._facts.kernel(variant).fusion, self._facts.executed(variant),
        )  # fmt: skip
        # Names are a stranger's: not every one of them can be encoded.
        parts: list[bytes | str] = [what, __version__, ascii(told)]
        for stage in sorted(variant.stages, key=lambda s: s.rank):
            if _at_hand(variant, stage):
                try:
                    parts += [stage.value, variant.stages[stage].content.read()]
                except PtxviewError:
                    parts += [stage.value, b"lost"]
        return self._cache.key(*parts)


class StagesAtHand(Mapping[Stage, T]):
    """What a variant has of each stage, read when it is asked for.

    Costly stages are none: a hint is no reason to run a compiler. Reading may raise
    ``PtxviewError``.
    """

    def __init__(self, variant: Variant, read: Callable[[Stage], T]) -> None:
        self._stages = tuple(s for s in variant.stages if _at_hand(variant, s))
        self._read = read

    def __getitem__(self, stage: Stage) -> T:
        if stage not in self._stages:
            raise KeyError(stage)
        return self._read(stage)

    def __iter__(self) -> Iterator[Stage]:
        return iter(self._stages)

    def __len__(self) -> int:
        return len(self._stages)


def _at_hand(variant: Variant, stage: Stage) -> bool:
    file = variant.stages.get(stage)
    return file is not None and not file.costly
