"""Analysis of variants and of their functions, computed from listings, launches and tables."""

from __future__ import annotations

import contextlib
import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TypeVar

from inspector import __version__
from inspector.analyse.card import Card, card
from inspector.analyse.function_facts import FunctionFacts
from inspector.analyse.hints import hints
from inspector.analyse.hints.access import with_executed
from inspector.analyse.hints.subject import (
    ExecutedAccess,
    ExecutedBranch,
    ExecutedFacts,
    Finding,
    HintSubject,
)
from inspector.analyse.line_annotations import Samples
from inspector.analyse.occupancy import Device, base_arch
from inspector.analyse.sentences.context import Context, context_of
from inspector.base.errors import PtxviewError, UsageError
from inspector.base.model import Content, Kernel, Recording, Resources, Stage, Variant
from inspector.listing.cubin import kernel_parameters
from inspector.listing.line import Function, Listing
from inspector.reader import tables
from inspector.reader.compiled import CompiledVariants
from inspector.reader.listings import Listings, Memo, decode, functions_of
from inspector.recording.facts import from_res_usage, max_threads, merge
from inspector.recording.layout import DerivedCache
from inspector.sources import spills
from inspector.sources.disassembly import usage_text
from inspector.system.process import side_by_side

GLANCE_SECONDS = 0.3
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
            lambda: spills.assembled(variant, spills.assemblers(()), self.cache),
        )
        return merge(known, assembled.get(variant.symbol, Resources()))

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


class Executions:
    """The last counts of each variant. They are of its PTX and of its recorded calls: of another
    kernel of the same name, or of the same one launched otherwise, nothing is known."""

    def __init__(self, cache: DerivedCache) -> None:
        self._cache = cache

    def of(self, variant: Variant) -> ExecutedFacts | None:
        """What was counted of a variant; None if nobody has run it."""
        key = self._key(variant)
        kept = None if key is None else self._cache.get(key)
        if kept is None:
            return None
        try:
            return _from_json(json.loads(kept))
        except (ValueError, TypeError, LookupError):
            return None

    def keep(self, variant: Variant, facts: ExecutedFacts) -> None:
        """Keep what was counted of a variant in place of what was before."""
        key = self._key(variant)
        if key is not None:
            self._cache.put(key, json.dumps(asdict(facts)).encode())

    def _key(self, variant: Variant) -> str | None:
        file = variant.stages.get(Stage.PTX)
        if file is None:
            return None
        try:
            text = file.content.read()
        except PtxviewError:
            return None
        # Names are a stranger's: not every one of them can be encoded.
        return self._cache.key(
            "executed", __version__, text, ascii((variant.symbol, variant.calls))
        )


def _from_json(told: Mapping[str, object]) -> ExecutedFacts:
    """Raises TypeError and others where it is no such thing."""
    accesses, branches = told["accesses"], told["branches"]
    if not isinstance(accesses, list) or not isinstance(branches, list):
        raise TypeError("no lists")
    numbers = {n: told[n] for n in ("ran", "of", "instructions", "threads", "active")}
    if not all(isinstance(n, int) for n in numbers.values()):
        raise TypeError("no numbers")
    return ExecutedFacts(
        **{n: int(str(v)) for n, v in numbers.items()},
        accesses=tuple(ExecutedAccess(**one) for one in accesses),
        branches=tuple(ExecutedBranch(**one) for one in branches),
    )


__all__ = ["MACHINE", "WARP", "Measured", "Memo", "VariantFacts"]

T = TypeVar("T")

MACHINE = (Stage.PTX, Stage.SASS)
"""The stages that have registers."""
WARP = 32
MAX_PARAMETER_BYTES = 32_764
"""Parameters of any kernel (PTX ISA, "Kernel Function Parameter Attribute")."""
_COUNTED = (Stage.TTIR, Stage.TTGIR, *MACHINE)


@dataclass(frozen=True, slots=True)
class Measured:
    """A profiler's measurements of a variant.

    ``told`` is a sentence a launch, ``findings`` are the profiler's own rules, ``samples`` are by
    line of SASS, empty where they cannot be placed there.
    """

    told: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    samples: Mapping[int, Samples] = field(default_factory=dict)


Measurements = Callable[[Variant], Measured | None]


class VariantFacts(VariantFigures):
    """Adds the analysis of variants. Arguments are as for a ``Reader``."""

    def __init__(
        self,
        recording: Recording,
        cache: DerivedCache,
        device: str | None,
        measured: Measurements,
    ) -> None:
        super().__init__(cache)
        if device is not None and base_arch(device) not in tables.devices():
            raise UsageError(
                f"no device {device} is known",
                f"Known are: {', '.join(tables.devices())}",
            )
        self.recording = recording
        self.measured = measured
        self.executions = Executions(cache)
        self._chosen = device
        self._kernels = {id(v): k for k, v in recording.variants()}
        self._compiled = CompiledVariants(recording)

    # -- the kernel as a whole ----------------------------------------------------------------

    def device(self, variant: Variant) -> Device | None:
        """The device of the figures; None for an unknown architecture."""
        arch = self._chosen or variant.target
        if arch is None:
            return None
        known = tables.devices().get(base_arch(arch))
        if known is None or self._chosen is not None:
            return known
        return known.recorded(self.recording.device)

    def kernel(self, variant: Variant) -> Kernel:
        """The kernel that a variant is of."""
        return self._kernels[id(variant)]

    def context(self, variant: Variant) -> Context:
        """Parameters, grid and block, known from PTX, the signature and the launches."""
        return self.memo.once(("context", id(variant)), lambda: self._context(variant))

    def _context(self, variant: Variant) -> Context:
        listing, function = None, None
        if at_hand(variant, Stage.PTX):
            try:
                listing = self.listing(variant, Stage.PTX)
                function = self.function(variant, Stage.PTX)
            except PtxviewError:
                listing = None
        return context_of(self.kernel(variant), variant, listing, function)

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
        if sum(one.size for one in in_cubin.parameters) > MAX_PARAMETER_BYTES:
            return {}
        names = {one.index: one.name for one in self.context(variant).parameters}
        return {
            hex(in_cubin.base + one.offset + byte): f"{names.get(one.ordinal) or one.ordinal}"
            + (f"+{byte}" if byte else "")
            for one in in_cubin.parameters
            for byte in range(0, one.size, 4)
        }

    def card(self, variant: Variant) -> Card:
        """Resources, limits and contents of a variant, and its measurements."""
        own = self.memo.once(("card", id(variant)), lambda: self._card(variant))
        measured = self.measured(variant)
        return own if measured is None else replace(own, measured=measured.told)

    def _card(self, variant: Variant) -> Card:
        listings: dict[Stage, tuple[Listing, Function]] = {}
        known: dict[Stage, FunctionFacts] = {}
        for stage in _COUNTED:
            if not at_hand(variant, stage):
                continue
            try:
                own = self.function(variant, stage)
                if own is not None:
                    listings[stage] = (self.listing(variant, stage), own)
                    facts = self.own(variant, stage)
                    if facts is not None:
                        known[stage] = facts
            except PtxviewError:
                continue  # the card does without that stage
        subject = self._subject(variant)
        block = self.context(variant).block  # .reqntid says it without a launch
        threads = None if block is None else block[0] * block[1] * block[2]
        if subject.warps is not None:
            threads = WARP * subject.warps
        return card(
            self.resources(variant),
            subject.device,
            listings,
            tables.isa().cost,
            subject.launch,
            threads,
            known,
            subject.built_for,
        )

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
                return len(self.listing(variant, stage).lines)
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
        """The hints of ptxview's own rules."""
        return self.memo.once(
            ("hints", id(variant), counted),
            lambda: hints(self._subject(variant, counted), tables.table("hints")),
        )

    def counted(self, variant: Variant, facts: ExecutedFacts) -> tuple[Finding, ...]:
        """The hints that these counts of a launch give, and no others."""
        subject = replace(self._subject(variant), executed=facts)
        return with_executed(subject, (), tables.table("hints"))

    def _subject(self, variant: Variant, counted: bool = True) -> HintSubject:
        return HintSubject(
            kernel=self.kernel(variant),
            variant=variant,
            resources=self.resources(variant),
            listings=StagesAtHand(variant, lambda stage: self.listing(variant, stage)),
            functions=StagesAtHand(variant, lambda stage: self.function(variant, stage)),
            facts=StagesAtHand(variant, lambda stage: self.own(variant, stage)),
            calls=variant.calls,
            device=self.device(variant),
            built_for=tables.devices().get(base_arch(variant.target or "")),
            executed=self.executions.of(variant) if counted else None,
        )

    def occupancy(self, variant: Variant) -> float | None:
        """The theoretical occupancy in percent."""
        full = self._subject(variant).occupancy
        return None if full is None else full.percent

    def lacking(self, variant: Variant) -> tuple[str, ...]:
        """Why figures and hints are not known, where what they are read from was recorded: a
        missing tool, a damaged cubin, a blob that is gone."""
        reads: list[Callable[[], object]] = [
            partial(self.listing, variant, stage)
            for stage in (Stage.SASS, Stage.PTX, Stage.TTGIR)  # what hints look at
            if at_hand(variant, stage)
        ]
        if at_hand(variant, Stage.SASS):
            content = variant.stages[Stage.SASS].content
            reads.insert(1, partial(self.in_cubin, variant, content))
        out: list[str] = []
        for read in reads:
            try:
                read()
            except PtxviewError as error:
                out.append(f"{error.message}. {error.hint}" if error.hint else error.message)
        return tuple(dict.fromkeys(out))

    def pass_over(self, variant: Variant) -> None:
        """Drop the analysis of one variant; its listings, which other variants share, stay."""
        self.memo.forget({id(variant)})

    # -- the functions of a listing -------------------------------------------------------------

    def facts(self, variant: Variant, stage: Stage, n: int) -> FunctionFacts | None:
        """The analysis of the function of PTX or SASS with line ``n``."""
        listing = self.listing(variant, stage)
        functions = functions_of(stage, listing, variant.symbol)
        at = bisect_right(functions, n, key=lambda f: f.first) - 1
        if at < 0 or functions[at].last < n:
            return None
        key = ("facts", variant.hash, stage, at)
        scheduling = tables.table("scheduling")
        return self.memo.once(key, lambda: FunctionFacts(listing, functions[at], scheduling))

    def own(self, variant: Variant, stage: Stage) -> FunctionFacts | None:
        """The analysis of the kernel in PTX or SASS; None if the stage lacks it."""
        own = self.function(variant, stage) if stage in MACHINE else None
        return None if own is None else self.facts(variant, stage, own.first)

    def code(self, variant: Variant, stage: Stage) -> FunctionFacts | None:
        """The same, but None also where reading the stage would run a compiler."""
        return self.own(variant, stage) if at_hand(variant, stage) else None


class StagesAtHand(Mapping[Stage, T]):
    """What a variant has of each stage, read when it is asked for.

    Costly stages are left out: a hint is no reason to run a compiler. Reading may raise
    ``PtxviewError``.
    """

    def __init__(self, variant: Variant, read: Callable[[Stage], T]) -> None:
        self._stages = tuple(s for s in variant.stages if at_hand(variant, s))
        self._read = read

    def __getitem__(self, stage: Stage) -> T:
        if stage not in self._stages:
            raise KeyError(stage)
        return self._read(stage)

    def __iter__(self) -> Iterator[Stage]:
        return iter(self._stages)

    def __len__(self) -> int:
        return len(self._stages)


def at_hand(variant: Variant, stage: Stage) -> bool:
    """Whether a stage can be read without running a compiler."""
    file = variant.stages.get(stage)
    return file is not None and not file.costly
