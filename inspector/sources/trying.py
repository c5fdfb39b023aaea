"""Takes a recorded kernel through its compiler again: a stage that was edited, other options.

An edited TTIR, TTGIR or LLVM IR goes through what follows it in Triton's compiler, in a child of
the user's interpreter; PTX goes through the ptxas that made the recorded machine code, where one of
this machine's does. Options that are decided earlier begin again from the recorded TTIR. The
recorded text goes the same way beside it, which separates the effect of another compiler from
that of the edit. Nothing is written into the recording, and the result is no variant of its kernel.
"""

import hashlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from inspector.base.errors import PtxviewError, UsageError
from inspector.base.model import (
    EDIT,
    Compilation,
    Kernel,
    Origin,
    Recording,
    Resources,
    Stage,
    StageFile,
    Variant,
)
from inspector.parsers.cubin import Cubin, read_cubin
from inspector.parsers.ptx_statement import entries, thread_bounds
from inspector.recording.decoding import as_int, as_map
from inspector.recording.layout import BytesContent, user_derived_cache
from inspector.recording.resources import from_ptxas, merge
from inspector.recording.variants import CONFIG
from inspector.sources import disassembly
from inspector.sources.compilers import (
    CompilerInput,
    GoOn,
    StageJob,
    StagesMade,
    assemblers,
    compile_on,
    compile_ptx,
    job_of,
    own_target,
)
from inspector.sources.compiling import checked, targets_of
from inspector.sources.disassembly import same_code
from inspector.sources.opening import raw_events
from inspector.system import files, toolchain
from inspector.system.process import side_by_side
from inspector.system.toolchain import Tool, version_of

STAGES = (Stage.TTIR, Stage.TTGIR, Stage.LLIR, Stage.PTX)
"""What can be edited: the rest of a compiler begins there."""
TRITON = (Origin.TRITON, Origin.INDUCTOR)
EDITED, AGAIN, TRIED = "edited", "as recorded", "tried"
MAX_COLUMNS = 64
"""The first version of Triton that tells ptxas's register allocator its level."""
_OF_LLVM = (
    *("num_warps", "shared", "global_scratch_size", "profile_scratch_size", "tmem_size"),
    "launch_cooperative_grid",
)


class TrySetting(Struct, frozen=True):
    """Options of one column; what is not set is as recorded. ``ptxas`` are ptxas's own words."""

    target: str | None = None
    triton: Mapping[str, int] = field(default_factory=dict)
    ptxas: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """``sm_100 num_warps=8 -O1``; "" where all is as recorded."""
        words = [self.target or "", *(f"{k}={v}" for k, v in self.triton.items()), *self.ptxas]
        return " ".join(filter(None, words))


AS_RECORDED = TrySetting()


class TryRequest(Struct, frozen=True):
    """What to try of a variant: ``text`` is an edited stage, None for the recorded one. ``name`` is
    what messages call the file; ``limit`` the most seconds that a compiler may take."""

    recording: Recording
    kernel: Kernel
    variant: Variant
    stage: Stage
    text: bytes | None
    name: str
    settings: tuple[TrySetting, ...] = (AS_RECORDED,)
    python: str | None = None
    limit: float = 600.0


class TriedColumn(Struct, frozen=True):
    """The result of one column: ``variant`` is None where it did not compile. ``metadata`` is
    Triton's (warps, shared memory, scratch), if known."""

    label: str
    compilation: Compilation
    variant: Variant | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)


class TryOutcome(Struct, frozen=True):
    """A request with its columns in order.

    ``recompiled`` is the recorded text by the same way, ``same_stages`` the stages that it made and
    whether each is as recorded: None where nothing could be made. ``recording`` has the recorded
    variant and those that were tried, as one kernel; ``remarks`` are sentences on what is to be
    known of them; ``versions`` are the compilers that were used here.
    """

    request: TryRequest
    recording: Recording
    columns: tuple[TriedColumn, ...]
    recompiled: TriedColumn
    same_stages: Mapping[Stage, bool] | None
    remarks: tuple[str, ...] = ()
    recorded_metadata: Mapping[str, object] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def kernel(self) -> Kernel:
        """The kernel with the recorded variant first, then those that were tried."""
        return self.recording.kernels[0]

    @property
    def same_compiler(self) -> bool:
        """Whether what is here makes of the recorded text the machine code that was recorded.

        Texts may differ where that is the same: an operation whose place is not written in the text
        gets the place at which it was read.
        """
        same_stages = self.same_stages or {}
        return same_stages.get(Stage.SASS, bool(same_stages) and all(same_stages.values()))

    @property
    def recorded_versions(self) -> dict[str, str]:
        """The compilers of the recorded variant, if it or its machine code names them."""
        variant = self.request.variant
        triton = variant.options.get("triton_version") or self.request.recording.tools.get("triton")
        cubin = _cubin_of(variant)
        out = {"triton": str(triton)} if triton and self.request.kernel.origin in TRITON else {}
        return out | ({"ptxas": cubin.ptxas} if cubin is not None and cubin.ptxas else {})

    @property
    def failed(self) -> int:
        return sum(column.variant is None for column in self.columns)


def begin_of(
    kernel: Kernel, variant: Variant, settings: Sequence[TrySetting], requested_stage: Stage | None
) -> Stage:
    """The stage from which options are tried: the one asked for, else the latest that has them.
    Raises ``UsageError`` where an option cannot be honoured from there."""
    wants_triton = any(setting.triton or setting.target for setting in settings)
    available_stages = [stage for stage in STAGES if stage in variant.stages]
    if not available_stages:
        reasons = ", ".join(dict.fromkeys(variant.missing.get(s, "") for s in STAGES))
        raise UsageError(f"{kernel.demangled} has no stage to begin from: {reasons}")
    stage = requested_stage or (available_stages[0] if wants_triton else available_stages[-1])
    if stage not in variant.stages:
        why = variant.missing.get(stage, "it was not recorded")
        raise UsageError(f"there is no {stage.value} of {kernel.demangled}: {why}")
    check(kernel, stage, settings)
    return stage


def check(kernel: Kernel, stage: Stage, settings: Sequence[TrySetting]) -> None:
    """Raise ``UsageError`` for an option that nothing after a stage honours."""
    for name in dict.fromkeys(name for setting in settings for name in setting.triton):
        flag = f"--{name.replace('_', '-')}"
        if name == "maxnreg" and stage is Stage.PTX:
            continue  # ptxas has it, too
        if kernel.origin not in (*TRITON, Origin.FILE):
            raise UsageError(f"{flag} is Triton's, and {kernel.demangled} was not made by Triton")
        if stage is not Stage.TTIR:
            hint = "Begin from the ttir: --stage ttir"
            if name == "maxnreg" and stage is Stage.TTGIR:
                hint = 'In TTGIR it is the module\'s attribute "ttg.maxnreg" = N : i32.'
            elif name == "maxnreg":
                hint = "In PTX it is the directive .maxnreg N behind the kernel's parameters."
            raise UsageError(
                f"{flag} cannot be honoured from {stage.value} on: Triton decides it where it "
                "makes TTGIR of TTIR",
                hint,
            )


def try_stage(
    request: TryRequest, say: Callable[[str], None], go_on: GoOn = lambda: True
) -> TryOutcome:
    """Compile every column, and the recorded text beside them.

    Raises ``ToolMissing`` where a compiler is not there, ``Unreadable`` where a stage cannot be
    read. What fails to compile raises nothing.
    """
    variant, stage = request.variant, request.stage
    recorded = variant.stages[stage].content.read()
    metadata = _recorded_metadata(request)
    trial = _Trial(request, metadata, recorded, go_on)
    say(f"{request.name} through {'ptxas' if stage is Stage.PTX else 'Triton and ptxas'}")
    requests = [(AS_RECORDED, None), *((setting, request.text) for setting in request.settings)]
    recompiled, *columns = (
        trial.by_ptxas(requests) if stage is Stage.PTX else trial.by_triton(requests)
    )
    same_stages = (
        None if recompiled.variant is None else _same_stages(variant, recompiled.variant, stage)
    )
    tried = [column.variant for column in columns]
    if same_stages is not None and not same_stages.get(Stage.SASS, all(same_stages.values())):
        tried.insert(0, recompiled.variant)
    variants = (variant, *(tried_variant for tried_variant in tried if tried_variant is not None))
    kernel = replace(request.kernel, variants=variants, autotune=())
    return TryOutcome(
        request,
        replace(request.recording, kernels=(kernel,), graphs=(), compilations=()),
        tuple(columns),
        recompiled,
        same_stages,
        tuple(dict.fromkeys(trial.remarks)),
        metadata,
        _versions((recompiled, *columns)),
    )


def recorded_stage_through(request: TryRequest, go_on: GoOn = lambda: True) -> TriedColumn:
    """The recorded stage of a request through what follows it in Triton's compiler of ``python``.

    Raises ``ToolMissing`` where that has no Triton, ``Unreadable`` where the stage cannot be read.
    """
    recorded = request.variant.stages[request.stage].content.read()
    trial = _Trial(request, _recorded_metadata(request), recorded, go_on)
    return trial.by_triton([(AS_RECORDED, None)])[0]


def _recorded_metadata(request: TryRequest) -> dict[str, object]:
    path = Path(request.recording.resolved_path or request.recording.path)
    if request.kernel.origin not in TRITON or not path.exists():
        return {}
    for event in raw_events(path)[0]:
        metadata = as_map(event.get("metadata"))
        hashes = (event.get("hash"), metadata.get("hash"))
        if event.get("event") == "triton" and request.variant.hash in hashes:
            return metadata
    return {}


def _same_stages(recorded: Variant, recompiled: Variant, first_stage: Stage) -> dict[Stage, bool]:
    """Of each stage after one that both have, whether it is byte for byte, or in machine code, the
    same."""
    out: dict[Stage, bool] = {}
    for stage in (*STAGES, Stage.SASS):
        pair = [v.stages.get(stage) for v in (recorded, recompiled)]
        if stage.rank <= first_stage.rank or None in pair:
            continue
        a, b = (file.content.read() for file in pair if file is not None)
        out[stage] = same_code(read_cubin(a), read_cubin(b)) if stage is Stage.SASS else a == b
    return out


ColumnRequest = tuple[TrySetting, bytes | None]
"""Options, and the text that they are for: None is the recorded one."""


class _Trial:
    """One request under way."""

    def __init__(
        self, request: TryRequest, metadata: Mapping[str, object], recorded: bytes, go_on: GoOn
    ) -> None:
        self.request, self.metadata, self.recorded = request, metadata, recorded
        self.go_on = go_on
        self.remarks: list[str] = []

    # -- Triton ------------------------------------------------------------------------------

    def by_triton(self, requests: Sequence[ColumnRequest]) -> list[TriedColumn]:
        """The columns by what follows the stage in Triton's compiler, then by ptxas for options of
        its own."""
        python = toolchain.interpreter(self.request.python)

        def run(item: ColumnRequest) -> TriedColumn:
            setting, text = item
            column = self._child(python, replace(setting, ptxas=()), text)
            return self._again_by_ptxas(column, setting, text) if setting.ptxas else column

        return list(side_by_side(run, requests))

    def _child(self, python: str, setting: TrySetting, text: bytes | None) -> TriedColumn:
        """Compile the recorded stage, or the edited ``text`` of it, with other options."""
        request = self.request
        job = self._job(setting, text)
        outcome = compile_on(job, python, seconds=request.limit, go_on=self.go_on)
        failed = self._option_failure(setting, outcome) or outcome.failed
        symbol = str(outcome.metadata.get("name") or request.variant.symbol)
        compilation = Compilation(
            job.name,
            request.stage.value,
            job.target,
            shlex.join(f"{name}={value}" for name, value in setting.triton.items()),
            symbols=() if failed else (symbol,),
            seconds=sum(outcome.seconds.values()) if outcome.seconds else None,
            tool=f"triton {outcome.triton}".strip(),
            failed=failed,
            messages=outcome.messages,
        )
        metadata = dict(outcome.metadata)
        if request.stage in (Stage.LLIR, Stage.PTX):
            # Neither says anything of warps, shared memory and scratch.
            recorded = {k: v for k, v in self.metadata.items() if k in _OF_LLVM}
            metadata = recorded | metadata
        stages = {
            Stage(stage): StageFile(BytesContent(data), None, "Triton")
            for stage, data in outcome.texts.items()
            if stage != "cubin"
        }
        code = outcome.texts.get("cubin", b"")
        stages[Stage.SASS] = StageFile(BytesContent(code), None, "nvdisasm -c")
        variant = Variant(
            id="",
            hash=hashlib.sha256(code).hexdigest(),
            symbol=symbol,
            target=own_target(outcome.texts.get("ptx", b"")) or job.target,
            config={n: metadata[n] for n in CONFIG if n in metadata},
            stages=stages,
            recorded_resources=Resources(dynamic_shared_bytes=as_int(metadata.get("shared"))),
        )
        return self._column(setting, text, compilation, variant, metadata)

    def _job(self, setting: TrySetting, text: bytes | None) -> StageJob:
        """The recorded variant's job with the options and the target of a setting."""
        request = self.request
        name = request.name if text is not None else f"the recorded {request.stage.value}"
        job = job_of(request.variant, request.stage.value)
        options = {**job.options, **setting.triton}
        if not job.target:  # a single file
            source = CompilerInput(Path(name), name, request.stage.value, job.text)
            job = replace(job, target=targets_of(source, ())[0])
        if setting.target is not None:
            job = replace(job, target=setting.target)
            # Triton sets these by the target where nobody does.
            for option in ("max_num_imprecise_acc_default", "ptx_version"):
                options.pop(option, None)
        return replace(job, name=name, options=options, text=job.text if text is None else text)

    def _option_failure(self, setting: TrySetting, outcome: StagesMade) -> str | None:
        """Why a setting fails by its own option; recorded options that are unknown are remarked."""
        release = f"Triton {outcome.triton}"
        for option in outcome.unknown:
            if option in setting.triton:
                return f"{release} has no option {option}"
        if outcome.unknown:
            names = ", ".join(outcome.unknown)
            self.remarks.append(f"{release} has not all options that were recorded: {names}")
        return None

    # -- ptxas -------------------------------------------------------------------------------

    def by_ptxas(self, requests: Sequence[ColumnRequest]) -> list[TriedColumn]:
        variant = self.request.variant
        ptxas_tools, options = self._assembler(variant, self.recorded)

        def run(item: ColumnRequest) -> TriedColumn:
            setting, text = item
            data = self.recorded if text is None else text
            target = setting.target or own_target(data) or variant.target or "sm_90"
            return self._assembled(data, target, setting, text, ptxas_tools, options, self.metadata)

        return list(side_by_side(run, requests))

    def _assembler(self, variant: Variant, ptx: bytes) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
        """The assembler that made a variant's machine code, with its options; else none."""
        if (sass := variant.stages.get(Stage.SASS)) is None or variant.target is None:
            return (), ()
        folder = None
        if self.request.kernel.origin in TRITON:
            versions = toolchain.versions(toolchain.interpreter(self.request.python))
            folder = versions.get("triton_folder")
        triton_tools = disassembly.assemblers([folder]) if folder else []
        tools = dict.fromkeys((*triton_tools, *(tool.path for tool in assemblers())))
        likeliest = disassembly.likeliest_options(self.request.variant)
        try:
            code = sass.content.read()
            reproduced = disassembly.reproduction(
                ptx, code, variant.target, list(tools), user_derived_cache(), likeliest
            )
        except PtxviewError:
            reproduced = None
        if reproduced is None:
            return (), ()
        path, words, _ = reproduced
        tool = Tool("ptxas", path, version_of(path), "")
        return (tool,), tuple(word for word in words if word != "-lineinfo")

    def _assembled(
        self,
        data: bytes,
        target: str,
        setting: TrySetting,
        text: bytes | None,
        ptxas_tools: Sequence[Tool],
        options: Sequence[str],
        metadata: Mapping[str, object],
        upper: Mapping[Stage, StageFile] | None = None,
    ) -> TriedColumn:
        request = self.request
        name = request.name if text is not None else f"the recorded {request.stage.value}"
        maxnreg = setting.triton.get("maxnreg") if request.stage is Stage.PTX else None
        words = [*options, *setting.ptxas]
        words += [] if maxnreg is None else [f"--maxrregcount={maxnreg}"]
        source = CompilerInput(Path(name), name if upper is None else "ptx", "ptx", data)
        compiled = compile_ptx(
            source, target, words, seconds=request.limit, go_on=self.go_on, ptxas_tools=ptxas_tools
        )
        shown = " ".join(setting.label.split()[1 if setting.target else 0 :])
        symbol = request.variant.symbol
        failed = compiled.failed
        if symbol not in compiled.symbols and len(compiled.symbols) == 1:
            symbol = compiled.symbols[0]
        elif symbol not in compiled.symbols:
            failed = failed or f"it has no kernel {symbol}"
        compilation = Compilation(
            name,
            request.stage.value,
            target,
            shown,
            symbols=compiled.symbols,
            seconds=compiled.seconds,
            tool=compiled.tool,
            failed=failed,
            messages=compiled.messages,
        )
        figures = from_ptxas(compiled.printed).get(symbol, Resources())
        shared = request.variant.recorded_resources.dynamic_shared_bytes
        if upper is not None:
            shared = as_int(metadata.get("shared"))
        code = compiled.cubin or b""
        stages = {
            **(upper or {}),
            Stage.PTX: StageFile(BytesContent(data), None, f"the file {name}"),
            Stage.SASS: StageFile(BytesContent(code), None, "nvdisasm -c"),
        }
        variant = Variant(
            id="",
            hash=hashlib.sha256(code).hexdigest(),
            symbol=symbol,
            target=target,
            config=request.variant.config,
            stages=stages,
            recorded_resources=merge(figures, Resources(dynamic_shared_bytes=shared)),
        )
        return self._column(setting, text, compilation, variant, metadata)

    def _again_by_ptxas(
        self, column: TriedColumn, setting: TrySetting, text: bytes | None
    ) -> TriedColumn:
        """A column of Triton's with options for ptxas: its PTX is assembled once more."""
        if (variant := column.variant) is None:
            return replace(column, label=self._label(setting, text))
        ptx = variant.stages[Stage.PTX].content.read()
        ptxas_tools, options = self._assembler(variant, ptx)
        upper: dict[Stage, StageFile] = dict(variant.stages)
        del upper[Stage.PTX], upper[Stage.SASS]
        target = variant.target or column.compilation.target
        assembled = self._assembled(
            ptx, target, setting, text, ptxas_tools, options, column.metadata, upper
        )
        a, b = column.compilation.seconds, assembled.compilation.seconds
        total_seconds = None if a is None or b is None else a + b
        return replace(assembled, compilation=replace(assembled.compilation, seconds=total_seconds))

    # -- both --------------------------------------------------------------------------------

    def _label(self, setting: TrySetting, text: bytes | None) -> str:
        label = setting.label
        return label or AGAIN if text is None else f"{EDITED} {label}".rstrip()

    def _column(
        self,
        setting: TrySetting,
        text: bytes | None,
        compilation: Compilation,
        product: Variant,
        metadata: Mapping[str, object],
    ) -> TriedColumn:
        """The product as a variant beside the recorded one; its configuration says so. Its hash is
        of what it was tried with, too: the same machine code may be there twice."""
        recorded = self.request.variant
        label = self._label(setting, text)
        if compilation.failed is not None:
            return TriedColumn(label, compilation)
        stages = self._column_stages(text, product)
        digest = hashlib.sha256(f"{label}\0{product.hash}\0".encode("utf-8", "surrogateescape"))
        for text_stage in STAGES:
            if text_stage in stages:
                digest.update(stages[text_stage].content.read())
        variant = replace(
            recorded,
            id=digest.hexdigest()[:8],
            hash=digest.hexdigest(),
            symbol=product.symbol,
            cache_key=None,
            target=product.target,
            config=self._column_config(setting, text, product),
            stages={s: stages[s] for s in Stage if s in stages},
            locations_cubin=None,
            recorded_resources=product.recorded_resources,
            ptxas=None,
            autotune=None,
            ranks=(),
            launches=None,
            benchmarks=None,
            missing=self._column_missing(stages),
            cache_hit=None,
            calls=(),
            error=None,
        )
        return TriedColumn(label, compilation, variant, metadata)

    def _column_stages(self, text: bytes | None, product: Variant) -> dict[Stage, StageFile]:
        """The source, the recorded stages up to the one that was compiled, and the product's."""
        stage = self.request.stage
        stages: dict[Stage, StageFile] = {}
        for recorded_stage, file in self.request.variant.stages.items():
            is_source = recorded_stage in (Stage.SOURCE, Stage.OUTPUT_CODE)
            is_input = recorded_stage in STAGES and recorded_stage.rank <= stage.rank
            if is_source or (text is None and is_input):
                stages[recorded_stage] = file
        for product_stage, file in product.stages.items():
            content = BytesContent(file.content.read())
            stages[product_stage] = replace(file, content=content, origin_path=None)
        if text is not None and stage is not Stage.PTX:
            name = f"the file {self.request.name}"
            stages[stage] = StageFile(BytesContent(text), None, name)
        return stages

    def _column_missing(self, stages: Mapping[Stage, StageFile]) -> dict[Stage, str]:
        """Why other stages are missing: those above an edited one were not what it is made of."""
        stage = self.request.stage
        reason = f"the {stage.value} was {EDITED}: this is not made of it"
        missing = {s: reason for s in STAGES if s not in stages and s.rank < stage.rank}
        for recorded_stage, why in self.request.variant.missing.items():
            if recorded_stage not in stages:
                missing.setdefault(recorded_stage, why)
        return missing

    def _column_config(
        self, setting: TrySetting, text: bytes | None, product: Variant
    ) -> dict[str, object]:
        """The recorded configuration with what the setting changed, and a mark that says so."""
        config = dict(self.request.variant.config)
        config |= {n: v for n, v in product.config.items() if n in config or n in setting.triton}
        config |= setting.triton
        if setting.ptxas:
            config["ptxas_options"] = " ".join(setting.ptxas)
        if text is not None:
            config[EDIT] = f"{EDITED} {self.request.stage.value}"
        else:
            config[EDIT] = TRIED if setting.label else AGAIN
        return config


def _versions(columns: Sequence[TriedColumn]) -> dict[str, str]:
    """Which compilers were used here, for where they are not the recording's."""
    versions: dict[str, str] = {}
    for column in columns:
        name, _, version = (column.compilation.tool or "").partition(" ")
        versions |= {name: version} if name else {}
        cubin = None if column.variant is None else _cubin_of(column.variant)
        if cubin is not None and cubin.ptxas is not None:
            versions.setdefault("ptxas", cubin.ptxas)
    return versions


def _cubin_of(variant: Variant) -> Cubin | None:
    sass = variant.stages.get(Stage.SASS)
    return None if sass is None else read_cubin(sass.content.read())


def block_of(column: TriedColumn, recorded: tuple[int, int, int]) -> tuple[int, int, int]:
    """The threads of a block: what the PTX demands, else Triton's warps, else those recorded."""
    if (variant := column.variant) is not None and Stage.PTX in variant.stages:
        text = variant.stages[Stage.PTX].content.read().decode("utf-8", "surrogateescape")
        for name, header in entries(text):
            demanded = thread_bounds(header).get("reqntid") if name == variant.symbol else None
            if demanded:
                x, y, z = (*demanded, 1, 1)[:3]
                return x, y, z
    warps = as_int(column.metadata.get("num_warps"))
    return recorded if warps is None else (32 * warps, 1, 1)


def shared_of(column: TriedColumn, recorded: int | None) -> int | None:
    """Dynamic shared memory of a block in bytes: Triton's of it, else that of the recorded call."""
    shared = as_int(column.metadata.get("shared"))
    return recorded if shared is None else shared


def read_edited(path: str, stage: Stage) -> bytes:
    """The text of an edited stage. Raises ``Unreadable`` for anything else."""
    file = Path(path)
    return checked(CompilerInput(file, path, stage.value, files.read(file))).data
