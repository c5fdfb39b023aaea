"""Completes the recording of a program that has ended: the device code of its builds, spills, the
versions of what compiled it, and errors that a compiler printed or that ended the program.

MLIR prints its errors, and LLVM ends its process on unexpected input: the probes see neither. The
recorded text goes through the failed stage once more, in a child, and its messages are kept. Apart
from ``running``, since the program would wait for the imports of this module.
"""

import contextlib
import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path, PurePath

from msgspec.structs import replace

from inspector.base.errors import PtxviewError, Stopped, Unreadable
from inspector.base.model import CompilerMessage, Origin, Recording, Stage, Variant
from inspector.parsers.cubin import extract_kernel
from inspector.recording import variants
from inspector.recording.compiler_messages import message_event
from inspector.recording.decoding import as_text, tolerant
from inspector.recording.driver_launches import MAX_WHOLE_CUBIN_BYTES
from inspector.recording.events import TritonCompile
from inspector.recording.layout import (
    BytesContent,
    DerivedCache,
    Writer,
    pending_compilations,
    read_events,
)
from inspector.sources import disassembly
from inspector.sources.builds import (
    BuiltCubin,
    ptxas_event,
    read_folder,
    read_object,
    recorded_event,
)
from inspector.sources.compilers import GoOn, Say, StageJob, StagesMade, compile_on, job_of
from inspector.sources.disassembly import carries_device_code
from inspector.sources.opening import carried, open_path
from inspector.sources.traces import Event
from inspector.system import files, toolchain
from inspector.system.process import side_by_side

MAX_KERNELS = 12
"""Variants that are compiled once more; a child takes some seconds."""
SECONDS = 120.0
FILES = ("source", "ttir", "ttgir", "llir", "ptx")
BEGINNINGS = (Stage.LLIR, Stage.TTGIR, Stage.TTIR)
AGAIN = (Stage.TTIR.value, Stage.TTGIR.value, Stage.LLIR.value, Stage.PTX.value)
"""Stages whose compilers print what they say; ptxas's words are in Triton's own error."""


def of_triton(
    recording: Recording, writer: Writer, python: str, say: Say, go_on: GoOn
) -> Iterator[Event]:
    """An event for each variant that did not compile and of which no line is known."""
    failed = ((v, v.error) for _, v in recording.variants() if v.error is not None)
    unplaced = [
        variant
        for variant, error in failed
        if error.stage in AGAIN and error.kind and all(m.line is None for m in error.messages)
    ]
    for variant in unplaced[:MAX_KERNELS]:
        stages = _recompile(variant, python, say, go_on)
        if stages is not None and stages.failed is not None:
            yield {
                "event": "triton_said",
                "hash": variant.hash,
                **_message_fields(stages, variant, writer),
            }


def unfinished(writer: Writer, python: str, say: Say, go_on: GoOn) -> Iterator[Event]:
    """An event for each compile in whose midst its process ended, if it was of the compiler's
    doing: one that comes to its end here was interrupted by something else."""
    try:
        entries = pending_compilations(writer.folder)
    except Unreadable:
        return
    for event, file in entries[:MAX_KERNELS]:
        if event.get("event") == "triton_failed":
            failed = _interrupted(event, writer, python, say, go_on)
            if failed is not None:
                yield failed
        with contextlib.suppress(OSError):
            file.unlink()


def _interrupted(event: Event, writer: Writer, python: str, say: Say, go_on: GoOn) -> Event | None:
    """The event of a compile that ended its process, with what the compiler says of it now."""
    texts = _texts_in_cache(event)
    contents = {stage: BytesContent(text) for stage, text in texts.items()}
    fields = {**event, "files": contents, "failed": "?"}
    compiled = variants.from_triton(tolerant(fields, TritonCompile), carried, {}, None)
    if compiled is None:
        return None
    stages = _recompile(compiled.variant, python, say, go_on, "cubin")
    if stages is None or stages.failed is None:
        return None
    stored = {stage: writer.blob(text) for stage, text in texts.items()}
    event_fields = {k: v for k, v in event.items() if k != "folder"}
    message_fields = _message_fields(stages, compiled.variant, writer)
    return {**event_fields, "files": stored, "kind": None, **message_fields}


def _texts_in_cache(event: Event) -> dict[str, bytes]:
    """The stages that Triton had written into its cache when the process ended."""
    folder = as_text(event.get("folder"))
    if folder is None:
        return {}
    name = as_text(event.get("name")) or ""
    texts: dict[str, bytes] = {}
    for stage in FILES:
        with contextlib.suppress(PtxviewError, OSError):
            texts[stage] = files.read(Path(folder) / f"{name[:150]}.{stage}")
    return texts


def _recompile(
    variant: Variant, python: str, say: Say, go_on: GoOn, until: str | None = None
) -> StagesMade | None:
    """The stage that failed, once more; None where it cannot be had."""
    last = until or (variant.error.stage if variant.error is not None else None)
    begin: str | None = next((s.value for s in BEGINNINGS if s in variant.stages), None)
    if begin is None and variant.initial_ir is not None:
        begin = "source"
    if begin is None or last is None:
        return None
    try:
        job: StageJob = replace(job_of(variant, begin, last), at_source=True)
        say(f"{variant.symbol} through Triton again, for what it says of its failure")
        return compile_on(job, python, seconds=SECONDS, go_on=go_on)
    except Stopped:
        raise
    except PtxviewError:
        return None


def _message_fields(stages: StagesMade, variant: Variant, writer: Writer) -> Event:
    source = variant.stages.get(Stage.SOURCE)
    kernel_file = None if source is None else source.origin_path
    messages = _at_home(stages.messages, kernel_file)
    return {
        "stage": {"cubin": "sass"}.get(stages.failed_at or "", stages.failed_at),
        "tool": "triton",
        "message": next((m.message for m in messages if m.severity == "error"), stages.failed),
        "messages": [message_event(m) for m in messages],
        "log": writer.blob(stages.printed[-20_000:]) if stages.printed.strip() else None,
    }


def _at_home(
    messages: Sequence[CompilerMessage], kernel_file: str | None
) -> tuple[CompilerMessage, ...]:
    """Errors of what Triton's own library says, at the line of the program that called it.

    MLIR prints the chain of calls as notes behind the error: the innermost one in the kernel's file
    is where the user has to look.
    """
    out: list[CompilerMessage] = []
    homes: dict[tuple[str | None, int | None], CompilerMessage] = {}
    for index, message in enumerate(messages):
        if message.severity != "error" or kernel_file is None or _same(message.file, kernel_file):
            out.append(message)
            continue
        place = message.file, message.line
        notes = itertools.takewhile(lambda m: m.severity == "note", messages[index + 1 :])
        home = next((n for n in notes if _same(n.file, kernel_file)), homes.get(place, message))
        out.append(
            replace(message, file=home.file, line=home.line, column=home.column, text=home.text)
        )
        if home is not message and place not in homes:
            out.append(replace(message, severity="note", message="it is said of this line"))
            homes[place] = home
    return tuple(out)


def _same(file: str | None, kernel_file: str) -> bool:
    return file is not None and PurePath(file).name == PurePath(kernel_file).name


def complete(
    writer: Writer,
    cache: DerivedCache,
    python: str,
    mode: str,
    say: Say,
    go_on: Callable[[], bool] = lambda: True,
) -> Recording | None:
    """Add to a recording what is derived after the run, and return its content.

    A failure is a ``problem`` in the recording; nothing that was captured is lost. Raises
    ``Stopped`` once ``go_on`` says no: what was added by then is kept.
    """

    def still() -> None:
        if not go_on():
            raise Stopped("it was stopped before its end")

    versions = toolchain.versions(python)
    still()
    tools = {k: v for k, v in versions.items() if "folder" not in k}
    if mode == "gpu" and (device := toolchain.nvidia_smi()) is not None:
        tools["driver"] = str(device["driver_version"])
    writer.event(event="tools", tools=tools)
    try:
        events = read_events(writer.folder).events
    except PtxviewError:
        return None
    # Before the builds are kept: a build may have such a module, and its events name it.
    _take_kernels_out(writer, events)

    def events_of(item: BuiltCubin | str) -> list[Event]:
        still()
        location, text = "extension", item
        try:
            if not isinstance(item, str):
                location = str(item.object)
                return recorded_event(item, writer.blob, cache, say)
        except (PtxviewError, OSError) as error:
            still()  # the failure of a tool that was stopped is no problem of the recording
            text = str(error)
        return [{"event": "problem", "where": location, "text": text}]

    with closing(side_by_side(events_of, list(_builds(list(events), cache)))) as event_lists:
        for event in itertools.chain.from_iterable(event_lists):
            writer.event(**event)
    still()
    if assemblers := disassembly.versions(versions.get("triton_folder")):
        writer.event(event="tools", tools=assemblers)
    for event in unfinished(writer, python, say, go_on):
        writer.event(**event)
    recording = open_path(writer.folder)
    later = list(of_triton(recording, writer, python, say, go_on))
    later += measured_spills(recording, versions.get("triton_folder"), cache, still)
    for event in later:
        writer.event(**event)
    return open_path(writer.folder) if later else recording


def _take_kernels_out(writer: Writer, events: Sequence[Mapping[str, object]]) -> None:
    """Keep, of modules with hundreds of kernels, those that were launched: 60 MB of torch's and
    NVIDIA's libraries become one. What cannot be taken apart stays whole."""
    launched: dict[str, dict[str, None]] = {}
    other_uses: set[object] = set()
    for event in events:
        module, name = event.get("module"), event.get("name")
        if event.get("event") == "driver_launch" and isinstance(module, str):
            launched.setdefault(module, {})[str(name)] = None
        else:
            files_of = event.get("files")
            other_uses.update(files_of.values() if isinstance(files_of, dict) else ())
            other_uses.update(v for v in event.values() if isinstance(v, str) and len(v) == 64)
    for module, names in launched.items():
        path = writer.stored(module)
        try:
            if path is None or path.stat().st_size <= MAX_WHOLE_CUBIN_BYTES:
                continue
            cubin = files.read(path)
            codes = {name: extract_kernel(cubin, name) for name in names}
            if module in other_uses or not all(codes.values()):
                continue
            for name, code in codes.items():
                digest = writer.blob(code or b"")
                writer.event(event="driver_kernel", module=module, name=name, blob=digest)
            path.unlink()
        except (PtxviewError, OSError) as error:
            writer.event(event="problem", where="driver", text=str(error))


def _builds(events: list[Event], cache: DerivedCache) -> Iterator[BuiltCubin | str]:
    """Every cubin of the builds and libraries that the program made or loaded, once each. Builds
    for the emulated device were recorded when nvcc made them."""
    recorded = [e for e in events if e.get("event") == "device_code"]
    digests = {e.get(field) for e in recorded for field in ("cubin", "lineinfo_cubin")}
    for item in _all_cubins(events, cache):
        digest = None if isinstance(item, str) else hashlib.sha256(item.cubin).hexdigest()
        if digest is None or digest not in digests:
            digests.add(digest)
            yield item


def _all_cubins(events: list[Event], cache: DerivedCache) -> Iterator[BuiltCubin | str]:
    """Cubins of build folders before those of libraries: only folders have the commands."""
    for folder in filter(Path.is_dir, map(Path, _named(events, "extension", "directory"))):
        yield from read_folder(folder, cache)
    for library in map(Path, _named(events, "library", "path")):
        for ninja in sorted((library.parent / "build").glob("temp*/**/build.ninja")):
            yield from read_folder(ninja.parent, cache)
        with contextlib.suppress(PtxviewError), files.opened(library) as file:
            if carries_device_code(file):
                yield from read_object(library, None, library.parent, cache)


def _named(events: list[Event], kind: str, field: str) -> list[str]:
    values = [str(e.get(field)) for e in events if e.get("event") == kind and e.get(field)]
    return list(dict.fromkeys(values))


def measured_spills(
    recording: Recording,
    triton_folder: str | None,
    cache: DerivedCache,
    still: Callable[[], object] = lambda: None,
) -> list[dict[str, object]]:
    """``ptxas`` events for Triton's variants whose spills are not recorded."""
    tools = disassembly.assemblers([triton_folder])
    todo = [
        v
        for k, v in recording.variants()
        if k.origin in (Origin.TRITON, Origin.INDUCTOR) and v.recorded_resources.barriers is None
    ]

    def ptxas_events(variant: Variant) -> list[dict[str, object]]:
        still()
        figures = disassembly.of_variant(variant, tools, cache)
        still()
        return [ptxas_event(variant.hash, symbol, res) for symbol, res in figures.items()]

    return [event for events in side_by_side(ptxas_events, todo) for event in events]
