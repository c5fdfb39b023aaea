"""Analysis of variants and of their functions, and what their compilers said of them."""

from __future__ import annotations

import contextlib
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from inspector import __version__
from inspector.analysis.hints.subject import ExecutedFacts, Finding, HintSubject
from inspector.analysis.line_annotations import Samples
from inspector.analysis.occupancy import Device, base_arch
from inspector.analysis.tensor_maps import TensorMap, tensor_maps
from inspector.base.errors import PtxviewError, UsageError
from inspector.base.model import (
    Compilation,
    CompilerMessage,
    Kernel,
    Origin,
    Recording,
    Resources,
    Stage,
    Variant,
)
from inspector.parsers.cubin import Cubin, kernel_parameters, read_cubin
from inspector.parsers.line import Function, Listing
from inspector.reader import tables
from inspector.reader.memo import Memo, RecordingIndex, code_key, owners
from inspector.reader.stages import StageReader, decode, functions_of, listing_key
from inspector.recording.layout import DerivedCache, content_digest
from inspector.recording.resources import from_res_usage, max_threads, merge
from inspector.sources import disassembly
from inspector.sources.disassembly import usage_text
from inspector.system.process import side_by_side

if TYPE_CHECKING:
    from inspector.analysis.card import Card
    from inspector.analysis.function_facts import FunctionFacts
    from inspector.analysis.sentences.context import Context
    from inspector.analysis.shared_memory import Allocation

TOOLS = ("nvcc", "ptxas", "triton")
IR = ("ptx", "ttir", "ttgir", "llir")
NOT_LOADED = "not-loaded"
"""The rule of what was compiled, and needs more of a resource than the device has."""
Place = tuple[Stage | None, int | None]
SEVERITIES = {"error": "warn", "warning": "warn", "note": "info"}


class CompiledVariants:
    """The compilations that ``ptxview compile`` made each variant of."""

    def __init__(self, recording: Recording) -> None:
        self._compilations: dict[tuple[str, str], list[Compilation]] = {}
        for compilation in recording.compilations:
            # Without a name: a file of which nothing was compiled.
            for name in (
                compilation.symbols or (compilation.kernel or "",) if compilation.hash else ()
            ):
                self._compilations.setdefault((compilation.hash or "", name), []).append(
                    compilation
                )
        self._spans: dict[tuple[str, str], list[tuple[str, tuple[int, int]]]] = {}
        for _, variant in recording.variants() if self._compilations else ():
            if variant.span is not None:
                key = (variant.hash, _source(variant))
                self._spans.setdefault(key, []).append((variant.symbol, variant.span))

    def compilations(self, variant: Variant) -> list[Compilation]:
        return self._compilations.get((variant.hash, variant.symbol)) or self._compilations.get(
            (variant.hash, ""), []
        )

    def findings(self, variant: Variant, lines_of: Callable[[Stage], int]) -> Iterator[Finding]:
        """Each message once: of a file's, those that no other kernel's lines are meant by.

        ``lines_of`` says how many lines a stage has: a recording may name others.
        """
        if variant.error is not None and not variant.error.messages:
            message = CompilerMessage("error", variant.error.message, variant.error.tool or "")
            rule = NOT_LOADED if variant.error.at_load else _rule(message)
            yield Finding(rule, "warn", message.message)
        yielded: set[CompilerMessage] = set()
        for message, place in self._messages(variant):
            stage, n = place or _stage(message, variant)
            spans = self._spans.get((variant.hash, _source(variant)), ()) if n is not None else ()
            kernels_on_line = [
                name for name, (first, last) in spans if n is not None and first <= n <= last
            ]
            is_of_another_kernel = (
                stage is Stage.SOURCE and kernels_on_line and variant.symbol not in kernels_on_line
            )
            if message in yielded or is_of_another_kernel:
                continue
            yielded.add(message)
            in_stage = stage is not None and n is not None and 0 < n <= lines_of(stage)
            lines = {stage: (n,)} if in_stage and stage is not None and n is not None else {}
            text, severity = message.message, SEVERITIES.get(message.severity, "info")
            if stage is None and message.file is not None and message.line is not None:
                text = f"{message.file}:{message.line}: {text}"
            yield Finding(_rule(message), severity, text, lines)

    def _messages(self, variant: Variant) -> Iterator[tuple[CompilerMessage, Place | None]]:
        """All that was said, with its place where the file was a stage's own text."""
        for compilation in self.compilations(variant):
            for message in compilation.messages:
                of_stage = message.file == compilation.file and compilation.language in IR
                yield message, (Stage(compilation.language), message.line) if of_stage else None
        for message in variant.error.messages if variant.error is not None else ():
            yield message, None


def _rule(message: CompilerMessage) -> str:
    """``ptxas-warning``; what a recording calls neither so nor otherwise is a compiler's note."""
    tool = message.tool if message.tool in TOOLS else "compiler"
    return f"{tool}-{message.severity if message.severity in SEVERITIES else 'note'}"


def _source(variant: Variant) -> str:
    file = variant.stages.get(Stage.SOURCE)
    return "" if file is None or file.origin_path is None else file.origin_path


def _stage(message: CompilerMessage, variant: Variant) -> Place:
    """The stage and the line that a message names; no stage where it is a file of another kind."""
    n = message.line
    if message.file == "ptx":
        return Stage.PTX, n
    copied, embedded, source = variant.copied, variant.embedded, _source(variant)
    for stage, path, first in (
        (Stage.SOURCE, copied.file if copied else "", copied.first if copied else 1),
        (Stage.SOURCE, source, 1),
        (Stage.OUTPUT_CODE, *(embedded or ("", 1))),
    ):
        if path and PurePath(path).name == PurePath(message.file or "").name:
            return stage, None if n is None else n + first - 1
    return None, n


TRITON = (Origin.TRITON, Origin.INDUCTOR)
MAX_PTX_HEAD_BYTES = 4096
"""Bytes of PTX in which its compiler names itself; what declares its version is there, too."""
_ISA = re.compile(rb"^[^\S\n]*+\.version\s++(\d++\.\d++)", re.MULTILINE)
_CUDA_13 = re.compile(r"(?:1[3-9]|[2-9]\d|\d{3})(?!\d)")
"""The version of a ptxas from CUDA 13 on, such as ``13.0.48``."""
_NVCC = re.compile(rb"^// Cuda compilation tools, release [\d.]++, V([\d.]++)", re.MULTILINE)


def producing_tools(tools: Mapping[str, str], origin: Origin, variant: Variant) -> dict[str, str]:
    """The programs that made a variant, with their versions if known.

    Those of Triton and torch are recorded with it, in a recording made before that with all of it;
    nvcc's, or of NVIDIA's compiler where another calls it, is its own line at the head of its PTX.
    Of ptxas it is the cubin's own note, which CUDA 13's writes, else the recording's where Triton
    has one assembler for all. The ISA is PTX's.
    """
    out = _python_tools(tools, origin, variant)
    sass = variant.stages.get(Stage.SASS)
    ptx = variant.stages.get(Stage.PTX)
    try:
        cubin = None if sass is None else read_cubin(sass.content.read())
        head = b"" if ptx is None or ptx.costly else ptx.content.read()[:MAX_PTX_HEAD_BYTES]
    except (PtxviewError, OSError):
        return out
    nvcc = _NVCC.search(head)
    if nvcc is not None:
        # libNVVM and NVRTC write the same line for others.
        out["nvcc" if origin is Origin.NVCC else "CUDA compiler"] = nvcc[1].decode()
    isa = _ISA.search(head)
    if isa is not None:
        out["PTX ISA"] = isa[1].decode()
    assembler = None
    if cubin is not None:
        assembler = cubin.ptxas or assembler_of(tools, origin, cubin)
    if assembler:
        out["ptxas"] = assembler
    return out


def _python_tools(tools: Mapping[str, str], origin: Origin, variant: Variant) -> dict[str, str]:
    """Versions of torch and Triton, of a kernel that they made."""
    versions = {
        **tools,
        **{name: version for name, version in variant.producers.items() if version},
    }
    triton = variant.options.get("triton_version")
    if triton is not None:
        versions["triton"] = str(triton) or tools.get("triton", "")
    names = []
    if origin is Origin.INDUCTOR:
        names.append("torch")
    if origin in TRITON:
        names.append("triton")
    return {name: versions[name] for name in names if versions.get(name)}


def assembler_of(tools: Mapping[str, str], origin: Origin, cubin: Cubin) -> str | None:
    """The version of Triton's ptxas that assembled a cubin without a note; None if it is not known.

    ABI 7 is CUDA 12's. Where Triton brings two assemblers that both may have written the file,
    nothing says which.
    """
    versions = set()
    for name in ("ptxas", "ptxas-blackwell"):
        version = tools.get(name, "")
        is_cuda_13 = _CUDA_13.match(version) is not None
        if version and is_cuda_13 == (cubin.abi >= 8):
            versions.add(version)
    return versions.pop() if len(versions) == 1 and origin in TRITON else None


GLANCE_SECONDS = 0.3  # seconds after which a user who waits for figures sees their progress


def by_cubin(variants: Sequence[Variant]) -> list[list[Variant]]:
    groups: dict[str, list[Variant]] = {}
    for variant in variants:
        groups.setdefault(variant.hash, []).append(variant)
    return list(groups.values())


def _thread_bounds(variant: Variant) -> dict[str, int]:
    if not is_available(variant, Stage.PTX):
        return {}
    try:
        return max_threads(decode(variant.stages[Stage.PTX].content.read()))
    except PtxviewError:
        return {}


T = TypeVar("T")

_LACK = re.compile(r"out of resource: (?P<memory>shared|tensor) memory|too much shared data")
"""``out of resource: shared memory, Required: 262936, Hardware limit: 232448.`` of Triton, and
``Entry function 'f' uses too much shared data (0xc400 bytes, 0xc000 max)`` of ptxas."""

MACHINE = (Stage.PTX, Stage.SASS)  # the stages that have registers
WARP = 32
MAX_PARAMETER_BYTES = 32_764
"""Parameters of any kernel (PTX ISA, "Kernel Function Parameter Attribute")."""
_CARD_STAGES = (Stage.TTIR, Stage.TTGIR, *MACHINE)


class Measured(Struct, frozen=True):
    """A profiler's measurements of a variant.

    ``sentences`` has one a launch, ``findings`` are the profiler's own rules, ``samples`` are by
    line of SASS, empty where they cannot be placed there. ``us`` is the mean time of a launch,
    ``busiest`` the largest percentage of a peak and whose: ``memory`` or ``compute``.
    """

    sentences: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    samples: Mapping[int, Samples] = field(default_factory=dict)
    us: float | None = None
    busiest: tuple[float, str] | None = None


Measurements = Callable[[Variant], Measured | None]


class VariantFacts:
    """Resources, parameters, hints and analysis of variants.

    Args:
        recording: What the variants are of, with its ``index``.
        stages: Their listings and links.
        memo: Results, shared with the other services of a reader.
        cache: The user's cache of the output of tools.
        device: The architecture (``sm_80``) for occupancy and hints; None is the recording's own.
            Raises ``UsageError`` for an unknown one.
        measured: Returns a profiler's measurements of a variant, or None.
    """

    def __init__(
        self,
        recording: Recording,
        index: RecordingIndex,
        stages: StageReader,
        memo: Memo,
        cache: DerivedCache,
        device: str | None,
        measured: Measurements,
    ) -> None:
        if device is not None and base_arch(device) not in tables.devices():
            raise UsageError(
                f"no device {device} is known", f"Known are: {', '.join(tables.devices())}"
            )
        self.measured = measured
        self._recording = recording
        self._index = index
        self._stages = stages
        self._memo = memo
        self._cache = cache
        self._device_name = device
        self._compiled = CompiledVariants(recording)

    def forget(self, variants: Sequence[Variant]) -> None:
        """Drop all results about variants, their listings too; there may be thousands of them."""
        self._memo.forget(owners(self._index, variants))

    def forget_analysis(self, variant: Variant) -> None:
        """Drop the analysis of one variant; its listings, which other variants share, stay."""
        self._memo.forget({self._index.key(variant)})

    def _key(self, variant: Variant, name: str) -> tuple[object, ...]:
        """The key of a result about one variant, which may show one of several source files."""
        return name, self._index.key(variant), variant.stages.get(Stage.SOURCE)

    def resources(self, variant: Variant) -> Resources:
        """Resources by cuobjdump, then as recorded, then by the bounds in the PTX."""
        key = self._key(variant, "resources")
        return self._memo.memoize(key, lambda: self._read_resources(variant))

    def read_resources(self, variants: Sequence[Variant]) -> Iterator[tuple[int, int]]:
        """Read the resources of many variants side by side; yields how many cubins of how many."""
        cubins = by_cubin(variants)
        measured = side_by_side(lambda kernels: [*map(self.resources, kernels)], cubins)
        for count, _ in enumerate(measured, 1):
            yield count, len(cubins)

    def _read_resources(self, variant: Variant) -> Resources:
        usage = Resources()
        try:
            usage = self._in_cubin(variant, Stage.SASS)
        except PtxviewError:
            with contextlib.suppress(PtxviewError):  # without a tool: the cubin's barriers
                recorded = disassembly.on_record(variant.stages[Stage.SASS].content.read(), "")
                usage = recorded.get(variant.symbol, usage)
        ptx_key = code_key(variant, Stage.PTX)
        bounds = self._memo.memoize(("bounds", *ptx_key), lambda: _thread_bounds(variant))
        allowed = Resources(max_threads=bounds.get(variant.symbol))
        merged = merge(variant.recorded_resources, usage, allowed)
        if merged.spill_store_bytes is not None and merged.barriers is not None:
            return merged
        assembled = self._memo.memoize(
            ("spills", *ptx_key),
            lambda: disassembly.assembled(variant, disassembly.assemblers(()), self._cache),
        )
        return merge(merged, assembled.get(variant.symbol, Resources()))

    def _in_cubin(self, variant: Variant, stage: Stage) -> Resources:
        """Resources by cuobjdump and by the spill records, if the stage is a cubin."""
        if stage is not Stage.SASS or stage not in variant.stages:
            return Resources()

        def read() -> tuple[dict[str, Resources], dict[str, Resources]]:
            cubin = variant.stages[stage].content.read()
            printed = usage_text(cubin, self._cache)
            return from_res_usage(printed), disassembly.on_record(cubin, printed)

        tables_of_cubin = self._memo.memoize(("usage", *code_key(variant, stage)), read)
        return merge(*(by_name.get(variant.symbol, Resources()) for by_name in tables_of_cubin))

    def execution_counts(self, variant: Variant) -> ExecutedFacts | None:
        """The last counts of a variant's PTX and recorded calls on this machine; None without."""
        with contextlib.suppress(PtxviewError, msgspec.DecodeError, ValueError, KeyError):
            cached = self._cache.get(self._execution_key(variant))
            return None if cached is None else msgspec.json.decode(cached, type=ExecutedFacts)
        return None

    def store_execution_counts(self, variant: Variant, facts: ExecutedFacts) -> None:
        """Keep the counts of a call whose blocks were run: hints use them from now on."""
        self._cache.store(self._execution_key(variant), msgspec.json.encode(facts))
        self.forget_analysis(variant)

    def _execution_key(self, variant: Variant) -> str:
        digest = content_digest(variant.stages[Stage.PTX].content)
        # Names are a stranger's: not every one of them can be encoded.
        call_text = ascii((variant.symbol, variant.calls))
        return self._cache.key("executed", __version__, digest, call_text)

    def device(self, variant: Variant) -> Device | None:
        """The device of the figures; None for an unknown architecture."""
        described = tables.devices().get(base_arch(self._device_name or variant.target or ""))
        if described is None or self._device_name is not None:
            return described
        return described.recorded(self._recording.device)

    def kernel(self, variant: Variant) -> Kernel:
        return self._index.kernel(variant)

    def context(self, variant: Variant) -> Context:
        """Parameters, grid and block, known from PTX, the signature and the launches."""
        return self._memo.memoize(self._key(variant, "context"), lambda: self._context(variant))

    def _context(self, variant: Variant) -> Context:
        from inspector.analysis.sentences.context import context_of, with_tensor_maps

        listing, function = None, None
        if is_available(variant, Stage.PTX):
            with contextlib.suppress(PtxviewError):
                function = self._stages.function(variant, Stage.PTX)
                listing = self._stages.listing(variant, Stage.PTX)
        context = context_of(self.kernel(variant), variant, listing, function)
        return with_tensor_maps(context, self.tensor_maps(variant))

    def tensor_maps(self, variant: Variant) -> tuple[TensorMap, ...]:
        """What the tensor descriptors among a variant's arguments describe."""
        elements = tables.table("ptx_descriptors")["tensormap"]["elements"]
        return tensor_maps(variant, elements)

    def parameter_names(self, variant: Variant, stage: Stage) -> dict[str, str]:
        """What a kernel's parameters are called in its source: by symbols of PTX, for SASS by
        offsets in constant bank 0 as its cubin has them (``0x214``: ``stride+4``, of eight bytes
        the upper half). One without a name is its number there. Empty of other stages."""
        if stage is Stage.PTX:
            of_ptx = self.context(variant).parameters
            return {
                parameter.symbol: parameter.name
                for parameter in of_ptx
                if parameter.symbol and parameter.name
            }
        file = variant.stages.get(Stage.SASS)
        if stage is not Stage.SASS or file is None:
            return {}
        in_cubin = kernel_parameters(file.content.read(), variant.symbol)
        if in_cubin is None or in_cubin.base is None:
            return {}
        if sum(parameter.size for parameter in in_cubin.parameters) > MAX_PARAMETER_BYTES:
            return {}
        names = {parameter.index: parameter.name for parameter in self.context(variant).parameters}
        return {
            hex(
                in_cubin.base + parameter.offset + byte
            ): f"{names.get(parameter.ordinal) or parameter.ordinal}" + (f"+{byte}" if byte else "")
            for parameter in in_cubin.parameters
            for byte in range(0, parameter.size, 4)
        }

    def card(self, variant: Variant) -> Card:
        """Resources, limits and contents of a variant, its measurements, and its compilers."""
        variant_card = self._memo.memoize(self._key(variant, "card"), lambda: self._card(variant))
        measured = self.measured(variant) or Measured()
        return replace(
            variant_card,
            measured=measured.sentences,
            made_by=self.producing_tools(variant),
            tensor_maps=self.tensor_maps(variant),
            allocations=self.allocations(variant),
        )

    def allocations(self, variant: Variant) -> tuple[Allocation, ...]:
        """What a variant's shared memory and tensor memory consist of, the largest first."""
        key = self._key(variant, "allocations")
        return self._memo.memoize(key, lambda: self._read_allocations(variant))

    def _read_allocations(self, variant: Variant) -> tuple[Allocation, ...]:
        from inspector.analysis.shared_memory import allocations, with_places

        listings: dict[Stage, tuple[Listing, Function]] = {}
        for stage in (Stage.TTGIR, Stage.PTX):
            if is_available(variant, stage):
                with contextlib.suppress(PtxviewError):
                    function = self._stages.function(variant, stage)
                    if function is not None:
                        listings[stage] = (self._stages.listing(variant, stage), function)
        found = allocations(listings)
        placed = self._placed_ttgir(variant) if Stage.TTGIR in listings else None
        return found if placed is None else with_places(found, placed)

    def _placed_ttgir(self, variant: Variant) -> str | None:
        """The TTGIR of a variant with the places of its allocations, if its passes were listed."""
        from inspector.analysis.shared_memory import PLACED
        from inspector.reader.passes import cached_passes

        with contextlib.suppress(PtxviewError):
            told = cached_passes(variant, self._cache)
            texts = [run.after for run in told.passes if run.after] if told is not None else []
            return next((text for text in reversed(texts) if PLACED in text), None)
        return None

    def producing_tools(self, variant: Variant) -> dict[str, str]:
        origin = self.kernel(variant).origin
        # Every kernel of a cubin is of the same programs, and the cubin may be large.
        key = ("made by", origin, *code_key(variant, Stage.SASS, Stage.PTX))
        return self._memo.memoize(
            key, lambda: producing_tools(self._recording.tools, origin, variant)
        )

    def _card(self, variant: Variant) -> Card:
        from inspector.analysis.card import card  # modules of the analysis delay the first row

        listings: dict[Stage, tuple[Listing, Function]] = {}
        analyses: dict[Stage, FunctionFacts] = {}
        for stage in _CARD_STAGES:
            with contextlib.suppress(PtxviewError):  # the card does without that stage
                if (
                    is_available(variant, stage)
                    and (function := self._stages.function(variant, stage)) is not None
                ):
                    listings[stage] = (self._stages.listing(variant, stage), function)
                    if (analysis := self.kernel_analysis(variant, stage)) is not None:
                        analyses[stage] = analysis
        subject = self._hint_subject(variant)
        if subject.warps is None:
            block = self.context(variant).block  # .reqntid says it without a launch
            threads = None if block is None else math.prod(block)
        else:
            threads = WARP * subject.warps
        variant_card = card(
            self.resources(variant),
            subject.device,
            listings,
            tables.isa().cost,
            subject.launch,
            threads,
            analyses,
            subject.built_for,
        )
        return _with_described_products(variant_card, listings)

    def findings(self, variant: Variant, use_execution_counts: bool = True) -> tuple[Finding, ...]:
        """The hints on the variant, then its compiler's messages and its profiler's findings.

        Without ``use_execution_counts`` hints are those of the code alone.
        """
        measured = self.measured(variant) or Measured()
        return (
            *self.hints(variant, use_execution_counts),
            *self._compiler_findings(variant),
            *measured.findings,
        )

    def _compiler_findings(self, variant: Variant) -> tuple[Finding, ...]:

        def lines_of(stage: Stage) -> int:
            try:
                return len(self._stages.listing(variant, stage).lines)
            except PtxviewError:
                return 0

        found = self._compiled.findings(variant, lines_of)
        return tuple(self._with_largest(variant, finding) for finding in found)

    def _with_largest(self, variant: Variant, finding: Finding) -> Finding:
        """A finding on a lack of memory names what takes most of it."""
        lack = _LACK.search(finding.text)
        if lack is None:
            return finding
        from inspector.analysis.shared_memory import SHARED, TENSOR, largest

        memory = TENSOR if lack["memory"] == "tensor" else SHARED
        text = largest(self.allocations(variant), memory)
        return replace(finding, text=f"{finding.text} The largest are {text}.") if text else finding

    def failed_at(self, variant: Variant) -> tuple[Stage, int] | None:
        """The stage and the line of the first error of a compiler's that has one here."""
        for finding in self._compiler_findings(variant) if variant.uncompiled else ():
            if finding.rule.endswith("-error"):
                for stage, lines in finding.lines.items():
                    return stage, lines[0]
        return None

    def hints(self, variant: Variant, use_execution_counts: bool = True) -> tuple[Finding, ...]:
        from inspector.analysis.hints.rules import hints

        return self._memo.memoize(
            (*self._key(variant, "hints"), use_execution_counts),
            lambda: hints(self._hint_subject(variant, use_execution_counts), tables.table("hints")),
        )

    def hints_from_counts(self, variant: Variant, facts: ExecutedFacts) -> tuple[Finding, ...]:
        """The hints that these counts of a launch give, and no others."""
        from inspector.analysis.hints.access import with_executed

        subject = replace(self._hint_subject(variant), executed=facts)
        return with_executed(subject, (), tables.table("hints"))

    def _hint_subject(self, variant: Variant, use_execution_counts: bool = True) -> HintSubject:
        return HintSubject(
            kernel=self.kernel(variant),
            variant=variant,
            resources=self.resources(variant),
            listings=AvailableStages(variant, lambda stage: self._stages.listing(variant, stage)),
            functions=AvailableStages(variant, lambda stage: self._stages.function(variant, stage)),
            facts=AvailableStages(variant, lambda stage: self.kernel_analysis(variant, stage)),
            calls=variant.calls,
            device=self.device(variant),
            built_for=tables.devices().get(base_arch(variant.target or "")),
            executed=self.execution_counts(variant) if use_execution_counts else None,
        )

    def occupancy(self, variant: Variant) -> float | None:
        occupancy = self._hint_subject(variant).occupancy
        return None if occupancy is None else occupancy.percent

    def lacking(self, variant: Variant) -> tuple[str, ...]:
        """Why figures and hints are not known, where what they are read from was recorded: a
        missing tool, a damaged cubin, a blob that is gone."""
        out: dict[str, None] = {}
        for stage in (Stage.SASS, Stage.PTX, Stage.TTGIR):  # what hints look at
            if not is_available(variant, stage):
                continue
            for read in (self._stages.listing, self._in_cubin):
                try:
                    read(variant, stage)
                except PtxviewError as error:
                    out[f"{error.message}. {error.hint}" if error.hint else error.message] = None
        return tuple(out)

    def function_facts(self, variant: Variant, stage: Stage, n: int) -> FunctionFacts | None:
        """The analysis of the function of PTX or SASS with line ``n``."""
        from inspector.analysis.function_facts import FunctionFacts

        listing = self._stages.listing(variant, stage)
        functions = functions_of(stage, listing, variant.symbol)
        index = bisect_right(functions, n, key=lambda f: f.first) - 1
        if index < 0 or functions[index].last < n:
            return None
        key = ("facts", stage, index, *listing_key(variant, stage))
        scheduling = tables.table("scheduling")
        return self._memo.memoize(key, lambda: FunctionFacts(listing, functions[index], scheduling))

    def kernel_analysis(self, variant: Variant, stage: Stage) -> FunctionFacts | None:
        """The analysis of the kernel in PTX or SASS; None if the stage lacks it."""
        function = self._stages.function(variant, stage) if stage in MACHINE else None
        return None if function is None else self.function_facts(variant, stage, function.first)

    def available_analysis(self, variant: Variant, stage: Stage) -> FunctionFacts | None:
        """The same, but None also where reading the stage would run a compiler."""
        return self.kernel_analysis(variant, stage) if is_available(variant, stage) else None

    def opcodes(self, variant: Variant) -> tuple[str, ...] | None:
        """Return the opcodes of PTX and SASS at hand, from the cache; None if one is unreadable."""
        stages = [stage for stage in MACHINE if is_available(variant, stage)]
        texts = [available_content(variant, stage) for stage in stages]
        key = self._cache.key("opcodes", __version__, ascii(variant.symbol), *texts)
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(self._cache.get(key) or b"", type=tuple[str, ...])
        opcodes: dict[str, None] = {}
        with contextlib.suppress(PtxviewError):
            for stage in stages:
                lines = self._stages.listing(variant, stage).lines
                function = self._stages.function(variant, stage)
                kernel_lines = (
                    lines if function is None else lines[function.first - 1 : function.last]
                )
                opcodes |= {line.opcode: None for line in kernel_lines if line.opcode}
            self._cache.store(key, msgspec.json.encode(tuple(opcodes)))
            return tuple(opcodes)
        return None


def _with_described_products(
    card: Card, listings: Mapping[Stage, tuple[Listing, Function]]
) -> Card:
    """A card whose products of PTX have the shapes that only their descriptors tell."""
    from inspector.analysis.sentences.products import described_products

    content = card.stage_content(Stage.PTX)
    if content is None:
        return card
    descriptors = tables.table("ptx_descriptors")
    products = described_products(content.products, *listings[Stage.PTX], descriptors)
    described = replace(content, products=products)
    stages = tuple(described if stage is content else stage for stage in card.stages)
    return replace(card, stages=stages)


class AvailableStages(Mapping[Stage, T]):
    """What a variant has of each stage, read when it is asked for.

    Costly stages are left out: a hint is no reason to run a compiler. Reading may raise
    ``PtxviewError``.
    """

    def __init__(self, variant: Variant, read: Callable[[Stage], T]) -> None:
        self._stages = {s: partial(read, s) for s in variant.stages if is_available(variant, s)}

    def __getitem__(self, stage: Stage) -> T:
        return self._stages[stage]()

    def __iter__(self) -> Iterator[Stage]:
        return iter(self._stages)

    def __len__(self) -> int:
        return len(self._stages)


def is_available(variant: Variant, stage: Stage) -> bool:
    """Whether a stage can be read without running a compiler."""
    file = variant.stages.get(stage)
    return file is not None and not file.costly


def available_content(variant: Variant, stage: Stage) -> bytes:
    """The content of a stage; empty without one that can be read."""
    with contextlib.suppress(PtxviewError):
        return variant.stages[stage].content.read() if is_available(variant, stage) else b""
    return b""
