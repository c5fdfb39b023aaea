"""Makes variants of an event: a compile of Triton's, a build's device code, a single file."""

import inspect
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct
from msgspec.structs import replace

from inspector.base.model import (
    KERNEL_STAGES,
    Content,
    Copied,
    Failure,
    Origin,
    Resources,
    Stage,
    StageFile,
    Variant,
)
from inspector.base.text import PtxviewError, base_name
from inspector.listing.cubin import read_cubin
from inspector.listing.output_code import KernelText
from inspector.listing.ptx_statement import entries
from inspector.recording import facts
from inspector.recording.facts import (
    Blob,
    Event,
    as_map,
    as_text,
    config_of,
    cuda_kernels,
    cuda_span,
    digest_of,
    lines_of,
    options_of,
    python_span,
    target_of,
    text_of,
)

ALONE = "only this one file was opened"
# A kernel is identified by its compiler, its name, and its file.
Key = tuple[str, str, str]
Files = Mapping[str, tuple[StageFile, KernelText]]
_LOC = re.compile(r'loc\("([^"\n]{1,4096})":\d+:\d+\)')
# Inductor names files by a 51-letter base32 digest with a "c" before it.
_INDUCTOR_FILE = re.compile(r"c[a-z2-7]{51}\.py$")
STAGES = (Stage.TTIR, Stage.TTGIR, Stage.LLIR, Stage.PTX)


class VariantOfKernel(Struct, frozen=True):
    """A variant and the kernel that it belongs to."""

    key: Key
    origin: Origin
    name: str
    variant: Variant


def from_triton(
    event: Event,
    blob: Blob,
    graph_files: Files,
    rank: int | None,
    users: Mapping[str, Content] | None = None,
) -> VariantOfKernel | None:
    """A compile of Triton's; None if the event names no kernel or holds no code.

    ``graph_files``: the ``output_code`` to which a kernel file of Inductor's belongs, by name;
    ``users``: the user's own files by path.
    """
    metadata = as_map(event.get("metadata"))
    name = str(event.get("name") or metadata.get("name") or "")
    files, paths = as_map(event.get("files")), as_map(event.get("paths"))
    ptx, cubin = blob(files.get("ptx")), blob(files.get("cubin"))
    digest = str(event.get("hash") or metadata.get("hash") or "") or digest_of(cubin or ptx)
    if not name or not digest:
        return None
    stages: dict[Stage, StageFile] = {}
    missing = {s: f"Triton left no .{s.value} file" for s in STAGES}
    for stage in STAGES:
        if (content := blob(files.get(stage.value))) is not None:
            stages[stage] = StageFile(content, as_text(paths.get(stage.value)), "Triton")
            del missing[stage]
    if cubin is not None:
        stages[Stage.SASS] = StageFile(cubin, as_text(paths.get("cubin")), "nvdisasm -c")
    else:
        missing[Stage.SASS] = as_text(event.get("lacks")) or "Triton left no .cubin file"
    source = as_map(event.get("source"))
    file = as_text(source.get("file")) or ""
    # Else the Python file is in the first location of the TTIR.
    if not file and (match := _LOC.search(text_of(blob(files.get(Stage.TTIR.value))))):
        file = match[1]
    graph = graph_files.get(PurePath(file).name) if file else None
    inductor = graph is not None or bool(_INDUCTOR_FILE.search(file))
    origin = Origin.INDUCTOR if inductor else Origin.TRITON
    key = (origin.value, name, file)
    span, embedded, copied = None, None, None
    if graph is not None:
        text, kernel = graph
        key = key_of(kernel)
        stages[Stage.OUTPUT_CODE] = text
        if kernel.body is not None:
            embedded = (file, kernel.body)
            span = (kernel.body, kernel.last or kernel.body)
        if kernel.written is not None:
            origin, name = Origin.TRITON, key[1]
            if (user_file := (users or {}).get(kernel.written[0])) is not None:
                stages[Stage.SOURCE] = StageFile(user_file, kernel.written[0], "the script's file")
                copied = _copied(text_of(user_file), kernel, file)
            else:
                missing[Stage.SOURCE] = "the kernel's own file was not recorded"
    elif inductor:
        missing[Stage.OUTPUT_CODE] = "the graph that this kernel belongs to was not recorded"
    elif (user_source := blob(source.get("blob"))) is not None:
        stages[Stage.SOURCE] = StageFile(user_source, file, "the script's file")
        span = python_span(source)
    else:
        missing[Stage.SOURCE] = "Triton's cache keeps no Python; only a recording does"
    if (error := facts.of_compile(event, blob)) is not None:
        reason = f"Triton could not compile it: {error.summary}"
        missing |= dict.fromkeys(missing.keys() - {Stage.SOURCE}, reason)
    if (why := as_text(event.get("unkept"))) is not None:
        # A file named without content existed, but could not be stored.
        named = {stage: files.get(stage.value, "") for stage in STAGES}
        named |= {Stage.SASS: files.get("cubin", ""), Stage.SOURCE: source.get("blob", "")}
        unkept = missing.keys() & {s for s, content in named.items() if content is None}
        missing |= dict.fromkeys(unkept, f"it could not be kept with the recording: {why}")
    shared, hit = metadata.get("shared"), event.get("cache_hit")
    config, specialization = config_of(metadata, event)
    variant = Variant(
        id="",
        hash=digest,
        symbol=name,
        cache_key=as_text(event.get("cache_key")),
        target=target_of(ptx, metadata),
        config=config,
        stages=stages,
        recorded_resources=Resources(
            dynamic_shared_bytes=shared if isinstance(shared, int) else None
        ),
        ranks=() if rank is None else (rank,),
        signature={k: str(v) for k, v in as_map(event.get("signature")).items()},
        specialization=specialization,
        tile=as_text(event.get("tile")),
        span=span,
        embedded=embedded,
        copied=copied,
        missing=missing,
        cache_hit=hit if isinstance(hit, bool) else None,
        options=options_of(event, metadata),
        unpassed=blob(files.get("source")),
        made_by={k: str(v) for k, v in as_map(event.get("made_by")).items()},
        error=error,
    )
    return VariantOfKernel(key, origin, name, variant)


def of_language(compiled: VariantOfKernel, event: Event, blob: Blob) -> VariantOfKernel:
    """A compile of Triton that another language generated, with that language's stages."""
    source, code = blob(event.get("source")), blob(event.get("output_code"))
    path, language, file = (as_text(event.get(key)) for key in ("path", "by", "file"))
    stages = dict(compiled.variant.stages)
    if code is not None:
        stages[Stage.OUTPUT_CODE] = StageFile(code, file, f"what {language} generated")
    if source is not None:
        stages[Stage.SOURCE] = StageFile(source, path, "the script's file")
    variant = replace(
        compiled.variant,
        stages=stages,
        missing={s: why for s, why in compiled.variant.missing.items() if s not in stages},
        span=lines_of(event),
        embedded=None if file is None else (file, 1),
        config={**as_map(event.get("config")), **compiled.variant.config},
        maker=language,
    )
    key = (Origin.TRITON.value, compiled.name, path or "")
    return VariantOfKernel(key, Origin.TRITON, compiled.name, variant)


def at_home(compiled: Sequence[VariantOfKernel]) -> Iterator[VariantOfKernel]:
    """Each compile under one kernel, however many files its text was generated into.

    Inductor writes the same kernel into several files, with other comments in each (one for the
    graph, others to try fusions or for other processes): a hash is the graph's, else the first's.
    """
    homes: dict[tuple[str, str], VariantOfKernel] = {}
    for compiled_variant in sorted(compiled, key=lambda one: one.variant.embedded is None):
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


def from_device_code(
    event: Event, blob: Blob, sources: Mapping[str, Content], error: Failure | None = None
) -> tuple[tuple[VariantOfKernel, ...], tuple[str, ...]]:
    """Every kernel of a cubin (or, without one, of its PTX) that a build or a file holds; ``error``
    says why there is neither. A source without kernels becomes one kernel then."""
    cubin, ptx = blob(event.get("cubin")), blob(event.get("ptx"))
    path = as_text(event.get("source")) or ""
    why = as_text(event.get("why"))
    source = blob(event.get("source_blob")) or sources.get(path)
    stages: dict[Stage, StageFile] = {}
    alone = event.get("origin") == Origin.FILE.value
    missing = dict.fromkeys(
        (Stage.TTIR, Stage.TTGIR, Stage.LLIR), ALONE if alone else "nvcc writes none"
    )
    if source is not None:
        stages[Stage.SOURCE] = StageFile(source, path, "the build's source")
    else:
        missing[Stage.SOURCE] = "the source was not recorded"
    if ptx is not None:
        ptx_from = as_text(event.get("ptx_from")) or "the build's nvcc command with -ptx -lineinfo"
        stages[Stage.PTX] = StageFile(ptx, None, ptx_from, costly=event.get("costly") is True)
    else:
        missing[Stage.PTX] = why or "no PTX was kept by the build"
    if cubin is not None:
        stages[Stage.SASS] = StageFile(cubin, as_text(event.get("object")), "nvdisasm -c")
    else:
        missing[Stage.SASS] = why or "no machine code was built"
    origin = next((o for o in Origin if o.value == event.get("origin")), Origin.NVCC)
    symbols, problems = _symbols(cubin, ptx)
    text = text_of(source)
    if cubin is None and ptx is None:
        # Nothing was compiled: the kernels' names come from the source.
        symbols = cuda_kernels(text)
        log = text_of(blob(event.get("log")))
        if error is None and log:
            error = facts.of_log(log, "nvcc", path, source, as_text(event.get("command")))
        if error is not None:
            reason = f"{error.tool or 'its compiler'} could not compile it: {error.summary}"
            missing |= dict.fromkeys((Stage.PTX, Stage.SASS), reason)
            symbols = symbols or (PurePath(path).name,)
    else:
        error = None
    flags = event.get("flags")
    digest = digest_of(cubin or ptx or source)
    target = as_text(event.get("arch")) or target_of(ptx, {})
    variants = []
    for symbol in symbols if digest else ():
        variant = Variant(
            id="",
            hash=digest,
            symbol=symbol,
            target=target,
            config={"flags": list(flags)} if isinstance(flags, list | tuple) else {},
            stages=stages,
            locations_cubin=blob(event.get("lineinfo_cubin")),
            span=cuda_span(text, base_name(symbol)),
            missing=missing,
            error=error,
        )
        key = (origin.value, symbol, path or str(event.get("object") or ""))
        variants.append(VariantOfKernel(key, origin, symbol, variant))
    return tuple(variants), problems


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


def from_file(event: Event, blob: Blob) -> Iterator[VariantOfKernel]:
    """A single file of one stage, with one or several kernels in it."""
    content = blob(event.get("blob"))
    stage = next((s for s in Stage if s.value == event.get("stage")), None)
    if content is None or stage is None:
        return
    path = as_text(event.get("path"))
    names = event.get("symbols")
    symbols = [str(n) for n in names] if isinstance(names, list | tuple) else []
    digest = digest_of(content)
    target = target_of(content, {}) if stage is Stage.PTX else as_text(event.get("arch"))
    for symbol in symbols or [PurePath(path or "kernel").stem]:
        variant = Variant(
            id="",
            hash=digest,
            symbol=symbol,
            target=target,
            stages={stage: StageFile(content, path, f"the file {path}")},
            missing={s: ALONE for s in KERNEL_STAGES if s is not stage},
        )
        yield VariantOfKernel(("file", symbol, path or ""), Origin.FILE, symbol, variant)
