"""Makes variants of an event: a compile of Triton's, a build's device code, a single file."""

import inspect
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from inspector.base.errors import PtxviewError
from inspector.base.model import (
    KERNEL_STAGES,
    Content,
    Copied,
    DescriptorLayout,
    Failure,
    Origin,
    Resources,
    Stage,
    StageFile,
    Variant,
)
from inspector.base.names import base_name
from inspector.parsers.cubin import read_cubin
from inspector.parsers.output_code import KernelText
from inspector.parsers.ptx_statement import entries
from inspector.recording import failures
from inspector.recording.contents import (
    Blob,
    cuda_kernels,
    cuda_span,
    digest_of,
    target_of,
    text_of,
)
from inspector.recording.decoding import as_text
from inspector.recording.events import (
    CompilerProduct,
    DeviceCode,
    Generated,
    SourceLines,
    StageFileFound,
    TritonCompile,
)

ALONE = "only this one file was opened"
# A kernel is identified by its compiler, its name, and its file.
Key = tuple[str, str, str]
Files = Mapping[str, tuple[StageFile, KernelText]]
# loc("/home/ada/square.py":6:0)
_LOC = re.compile(r'loc\("([^"\n]{1,4096})":\d+:\d+\)')
# Inductor names files by a 51-letter base32 digest with a "c" before it.
_INDUCTOR_FILE = re.compile(r"c[a-z2-7]{51}\.py$")
STAGES = (Stage.TTIR, Stage.TTGIR, Stage.LLIR, Stage.PTX)
CONFIG = ("num_warps", "num_stages", "num_ctas", "maxnreg")
# Fields of CUDAOptions in triton/backends/nvidia/compiler.py, 3.2 to 3.9, that stages after the
# frontend read; paths and what a configuration already tells are left out.
OPTIONS = frozenset((
    "triton_version", "enable_fp_fusion", "ptx_version", "ptx_options", "launch_cooperative_grid",
    "launch_pdl", "max_num_imprecise_acc_default", "debug", "sanitize_overflow", "cluster_dims",
    "instrumentation_mode", "min_shared_mem", "clc", "sched4reg", "enable_reflect_ftz",
    "num_consumer_groups", "num_buffers_warp_spec", "reg_dec_producer", "reg_inc_consumer",
    "minRegAutoWS", "maxRegAutoWS", "fpsan_homomorphic_casts",
))  # fmt: skip


class VariantOfKernel(Struct, frozen=True):
    """A variant and the kernel that it belongs to."""

    key: Key
    origin: Origin
    name: str
    variant: Variant


# -- Triton ---------------------------------------------------------------------------------------


class _Owner(Struct):
    """The kernel that a compilation of Triton belongs to, and what it was compiled from."""

    key: Key
    origin: Origin
    name: str
    stages: dict[Stage, StageFile]
    missing: dict[Stage, str]
    span: tuple[int, int] | None = None
    embedded: tuple[str, int] | None = None
    copied: Copied | None = None


def from_triton(
    event: TritonCompile,
    blob: Blob,
    graph_files: Files,
    rank: int | None,
    users: Mapping[str, Content] | None = None,
) -> VariantOfKernel | None:
    """A compile of Triton's; None if the event names no kernel or holds no code.

    ``graph_files``: the ``output_code`` to which a kernel file of Inductor's belongs, by name;
    ``users``: the user's own files by path.
    """
    metadata = event.metadata
    name = event.name or as_text(metadata.get("name"))
    ptx = blob(event.files.get("ptx"))
    cubin = blob(event.files.get("cubin"))
    digest = event.hash or as_text(metadata.get("hash")) or digest_of(cubin or ptx)
    if not name or not digest:
        return None
    owner = _owner(event, name, blob, graph_files, users or {})
    stages = _triton_stages(event, blob)
    error = failures.of_compile(event, blob)
    shared = metadata.get("shared")
    config, specialization = config_of(event)
    variant = Variant(
        id="",
        hash=digest,
        symbol=owner.name,
        cache_key=event.cache_key,
        target=target_of(ptx, metadata),
        config=config,
        stages=stages | owner.stages,
        recorded_resources=Resources(
            dynamic_shared_bytes=shared if isinstance(shared, int) else None
        ),
        ranks=() if rank is None else (rank,),
        signature=event.signature,
        specialization=specialization,
        tile=event.tile,
        span=owner.span,
        embedded=owner.embedded,
        copied=owner.copied,
        missing=_missing(event, stages, owner.missing, error),
        cache_hit=event.cache_hit,
        options=options_of(event),
        initial_ir=blob(event.files.get("source")),
        producers=event.made_by,
        error=error,
        descriptor_layouts=_descriptor_layouts(metadata),
    )
    return VariantOfKernel(owner.key, owner.origin, owner.name, variant)


def _descriptor_layouts(metadata: Mapping[str, object]) -> tuple[DescriptorLayout, ...]:
    """The layouts of tensor descriptors (Triton 3.4 and later), none where one is malformed."""
    try:
        return convert(metadata.get("tensordesc_meta") or (), tuple[DescriptorLayout, ...])
    except ValidationError:
        return ()


def _triton_stages(event: TritonCompile, blob: Blob) -> dict[Stage, StageFile]:
    """The stages that Triton made."""
    stages: dict[Stage, StageFile] = {}
    for stage in STAGES:
        content = blob(event.files.get(stage.value))
        if content is not None:
            path = as_text(event.paths.get(stage.value))
            stages[stage] = StageFile(content, path, "Triton")
    cubin = blob(event.files.get("cubin"))
    if cubin is not None:
        stages[Stage.SASS] = StageFile(cubin, as_text(event.paths.get("cubin")), "nvdisasm -c")
    return stages


def _missing(
    event: TritonCompile,
    stages: Mapping[Stage, StageFile],
    owner_missing: Mapping[Stage, str],
    error: Failure | None,
) -> dict[Stage, str]:
    """Why stages are missing: ``owner_missing`` are the reasons for those above Triton's."""
    missing = {s: f"Triton left no .{s.value} file" for s in STAGES if s not in stages}
    if Stage.SASS not in stages:
        missing[Stage.SASS] = event.lacks or "Triton left no .cubin file"
    missing |= owner_missing
    if error is not None:
        reason = f"Triton could not compile it: {error.summary}"
        missing |= dict.fromkeys(missing.keys() - {Stage.SOURCE}, reason)
    if event.unkept is not None:
        reason = f"it could not be kept with the recording: {event.unkept}"
        missing |= dict.fromkeys(missing.keys() & _unkept_stages(event), reason)
    return missing


def _unkept_stages(event: TritonCompile) -> set[Stage]:
    """Stages whose files existed and could not be stored: they are named without content."""
    names = {**{stage: stage.value for stage in STAGES}, Stage.SASS: "cubin"}
    stages = {s for s, name in names.items() if event.files.get(name, "") is None}
    if event.source.blob is None:
        stages.add(Stage.SOURCE)
    return stages


def _owner(
    event: TritonCompile, name: str, blob: Blob, graph_files: Files, users: Mapping[str, Content]
) -> _Owner:
    """The kernel of a compilation: one of Inductor's graph, one of a graph that was not recorded,
    or the user's own."""
    file = event.source.file or _file_in_ttir(event, blob)
    graph = graph_files.get(PurePath(file).name) if file else None
    if graph is not None:
        text, kernel = graph
        return _graph_owner(text, kernel, file, name, users)
    if _INDUCTOR_FILE.search(file):
        reason = "the graph that this kernel belongs to was not recorded"
        key = (Origin.INDUCTOR.value, name, file)
        return _Owner(key, Origin.INDUCTOR, name, {}, {Stage.OUTPUT_CODE: reason})
    owner = _Owner((Origin.TRITON.value, name, file), Origin.TRITON, name, {}, {})
    source = blob(event.source.blob)
    if source is not None:
        owner.stages[Stage.SOURCE] = StageFile(source, file, "the script's file")
        owner.span = python_span(event.source)
    else:
        owner.missing[Stage.SOURCE] = "Triton's cache keeps no Python; only a recording does"
    return owner


def _graph_owner(
    text: StageFile, kernel: KernelText, file: str, name: str, users: Mapping[str, Content]
) -> _Owner:
    """A kernel in a graph's ``output_code``: Inductor's, or a copy of one in the user's file."""
    owner = _Owner(key_of(kernel), Origin.INDUCTOR, name, {Stage.OUTPUT_CODE: text}, {})
    if kernel.body is not None:
        owner.embedded = (file, kernel.body)
        owner.span = (kernel.body, kernel.last or kernel.body)
    if kernel.written is None:
        return owner
    owner.origin = Origin.TRITON
    owner.name = owner.key[1]
    path = kernel.written[0]
    user_file = users.get(path)
    if user_file is not None:
        owner.stages[Stage.SOURCE] = StageFile(user_file, path, "the script's file")
        owner.copied = _copied(text_of(user_file), kernel, file)
    else:
        owner.missing[Stage.SOURCE] = "the kernel's own file was not recorded"
    return owner


def _file_in_ttir(event: TritonCompile, blob: Blob) -> str:
    """The Python file in the first location of the TTIR, else ""."""
    match = _LOC.search(text_of(blob(event.files.get(Stage.TTIR.value))))
    return "" if match is None else match[1]


def python_span(source: SourceLines) -> tuple[int, int] | None:
    """The first and the last line of a kernel in Python."""
    if source.first is None or source.last is None:
        return None
    return source.first, source.last


def lines_of(event: Generated | CompilerProduct) -> tuple[int, int] | None:
    """The first and the last line that an event of a language's kernel has."""
    match event.lines:
        case (int(first), int(last)) if 0 < first <= last:
            return first, last
    return None


def config_of(event: TritonCompile) -> tuple[dict[str, object], dict[str, object]]:
    """A kernel's configuration, and what its arguments were specialised for."""
    config = {k: event.metadata[k] for k in CONFIG if k in event.metadata}
    special = dict(event.specialization)
    for name, value in event.constexprs.items():
        if event.declared is None or name.partition("[")[0] in event.declared:
            config[name] = value
        else:  # an integer argument that was 1 is compiled in as well
            special[name] = [["constant", value]]
    return config, {k: v for k, v in special.items() if v}


def options_of(event: TritonCompile) -> dict[str, object]:
    """Triton's options among a kernel's metadata, or beside them in an exported recording."""
    options = {**event.options, **event.metadata}
    return {k: v for k, v in options.items() if k in OPTIONS and v is not None}


def of_language(compiled: VariantOfKernel, event: Generated, blob: Blob) -> VariantOfKernel:
    """A compile of Triton that another language generated, with that language's stages."""
    stages = dict(compiled.variant.stages)
    code = blob(event.output_code)
    if code is not None:
        stages[Stage.OUTPUT_CODE] = StageFile(code, event.file, f"what {event.language} generated")
    source = blob(event.source)
    if source is not None:
        stages[Stage.SOURCE] = StageFile(source, event.path, "the script's file")
    variant = replace(
        compiled.variant,
        stages=stages,
        missing={s: why for s, why in compiled.variant.missing.items() if s not in stages},
        span=lines_of(event),
        embedded=None if event.file is None else (event.file, 1),
        config={**event.config, **compiled.variant.config},
        maker=event.language,
    )
    key = (Origin.TRITON.value, compiled.name, event.path or "")
    return VariantOfKernel(key, Origin.TRITON, compiled.name, variant)


def under_one_kernel(compiled: Sequence[VariantOfKernel]) -> Iterator[VariantOfKernel]:
    """Each compile under one kernel, however many files its text was generated into.

    Inductor writes the same kernel into several files, with other comments in each (one for the
    graph, others to try fusions or for other processes): a hash is the graph's, else the first's.
    """
    homes: dict[tuple[str, str], VariantOfKernel] = {}
    in_graphs = [c for c in compiled if c.variant.embedded is not None]
    without_graph = [c for c in compiled if c.variant.embedded is None]
    for compiled_variant in (*in_graphs, *without_graph):
        homes.setdefault(
            (compiled_variant.variant.hash, compiled_variant.variant.symbol), compiled_variant
        )
    for compiled_variant in compiled:
        home = homes[compiled_variant.variant.hash, compiled_variant.variant.symbol]
        if compiled_variant.origin is Origin.INDUCTOR and compiled_variant.key != home.key:
            yield replace(compiled_variant, key=home.key, origin=home.origin, name=home.name)
        else:
            yield compiled_variant


def key_of(kernel: KernelText) -> Key:
    """The key of a kernel in ``output_code``; if the user wrote it, it names the user's file."""
    if kernel.written is not None:
        return (Origin.TRITON.value, kernel.symbol or kernel.name, kernel.written[0])
    return (kernel.origin, kernel.name, kernel.path or "")


def _copied(text: str, kernel: KernelText, file: str) -> Copied | None:
    """Where a kernel is in the user's file, and the offset of its copy's lines; or None."""
    if kernel.written is None or kernel.definition is None or kernel.body is None:
        return None
    lines = text.splitlines(keepends=True)
    begin, start = kernel.written[1], f"def {kernel.symbol}("
    definition_line = next(
        (n for n in range(begin, len(lines) + 1) if lines[n - 1].lstrip().startswith(start)), None
    )
    try:
        block = inspect.getblock(lines[begin - 1 :])
    except (SyntaxError, IndentationError, tokenize.TokenError):
        return None
    if definition_line is None:
        return None  # the file has changed
    inside = kernel.definition - kernel.body
    return Copied(file, definition_line - inside, (begin, begin + len(block) - 1))


# -- builds and files -----------------------------------------------------------------------------


def from_device_code(
    event: DeviceCode,
    blob: Blob,
    sources: Mapping[str, Content],
    error: Failure | None = None,
) -> tuple[tuple[VariantOfKernel, ...], tuple[str, ...]]:
    """Every kernel of a cubin (or, without one, of its PTX) that a build or a file holds; ``error``
    says why there is neither. A source without kernels becomes one kernel then."""
    cubin = blob(event.cubin)
    ptx = blob(event.ptx)
    path = event.source or ""
    source = blob(event.source_blob) or sources.get(path)
    stages = _device_stages(event, source, ptx, cubin)
    missing = _device_missing(event, stages)
    symbols, problems = _symbols(cubin, ptx)
    text = text_of(source)
    if cubin is not None or ptx is not None:
        error = None
    else:
        # Nothing was compiled: the kernels' names come from the source.
        symbols = cuda_kernels(text)
        log = text_of(blob(event.log))
        if error is None and log:
            error = failures.of_log(log, "nvcc", path, source, event.command)
        if error is not None:
            reason = f"{error.tool or 'its compiler'} could not compile it: {error.summary}"
            missing |= dict.fromkeys((Stage.PTX, Stage.SASS), reason)
            symbols = symbols or (PurePath(path).name,)
    digest = digest_of(cubin or ptx or source)
    if not digest:
        return (), problems
    origin = next((o for o in Origin if o.value == event.origin), Origin.NVCC)
    target = event.arch or target_of(ptx, {})
    variants = []
    for symbol in symbols:
        variant = Variant(
            id="",
            hash=digest,
            symbol=symbol,
            target=target,
            config={} if event.flags is None else {"flags": list(event.flags)},
            stages=stages,
            locations_cubin=blob(event.lineinfo_cubin),
            span=cuda_span(text, base_name(symbol)),
            missing=missing,
            error=error,
        )
        key = (origin.value, symbol, path or event.object_path or "")
        variants.append(VariantOfKernel(key, origin, symbol, variant))
    return tuple(variants), problems


def _device_stages(
    event: DeviceCode, source: Content | None, ptx: Content | None, cubin: Content | None
) -> dict[Stage, StageFile]:
    stages: dict[Stage, StageFile] = {}
    if source is not None:
        stages[Stage.SOURCE] = StageFile(source, event.source or "", "the build's source")
    if ptx is not None:
        ptx_from = event.ptx_from or "the build's nvcc command with -ptx -lineinfo"
        stages[Stage.PTX] = StageFile(ptx, None, ptx_from, costly=event.costly)
    if cubin is not None:
        stages[Stage.SASS] = StageFile(cubin, event.object_path, "nvdisasm -c")
    return stages


def _device_missing(event: DeviceCode, stages: Mapping[Stage, StageFile]) -> dict[Stage, str]:
    """Why stages of a build's or a file's device code are missing."""
    triton_reason = ALONE if event.origin == Origin.FILE.value else "nvcc writes none"
    reasons = dict.fromkeys((Stage.TTIR, Stage.TTGIR, Stage.LLIR), triton_reason)
    reasons[Stage.SOURCE] = "the source was not recorded"
    reasons[Stage.PTX] = event.why or "no PTX was kept by the build"
    reasons[Stage.SASS] = event.why or "no machine code was built"
    return {stage: reason for stage, reason in reasons.items() if stage not in stages}


def _symbols(cubin: Content | None, ptx: Content | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the kernels, and a sentence if the cubin cannot be read."""
    try:
        parsed = None if cubin is None else read_cubin(cubin.read())
    except PtxviewError as error:
        return (), (error.message,)
    if parsed is not None:
        return parsed.entries, ()
    damaged = ("a cubin is damaged: its kernels cannot be listed",)
    names = dict.fromkeys(name for name, _ in entries(text_of(ptx)))
    return tuple(names), () if cubin is None else damaged


def from_file(event: StageFileFound, blob: Blob) -> Iterator[VariantOfKernel]:
    """A single file of one stage, with one or several kernels in it."""
    content = blob(event.blob)
    stage = next((s for s in Stage if s.value == event.stage), None)
    if content is None or stage is None:
        return
    path = event.path
    digest = digest_of(content)
    target = target_of(content, {}) if stage is Stage.PTX else event.arch
    for symbol in event.symbols or (PurePath(path or "kernel").stem,):
        variant = Variant(
            id="",
            hash=digest,
            symbol=symbol,
            target=target,
            stages={stage: StageFile(content, path, f"the file {path}")},
            missing={s: ALONE for s in KERNEL_STAGES if s is not stage},
        )
        yield VariantOfKernel(("file", symbol, path or ""), Origin.FILE, symbol, variant)
