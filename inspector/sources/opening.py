"""Opens a path of any kind: a recording, a cache, a build folder, one file, a log."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from itertools import chain
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from inspector.base.errors import PtxviewError, Unreadable, UsageError
from inspector.base.model import Content, Recording, Stage
from inspector.base.names import words
from inspector.parsers.cubin import debug_ptx, is_cubin, is_elf, read_cubin
from inspector.parsers.ptx_statement import entries
from inspector.recording.assemble import Assembly
from inspector.recording.contents import Blob
from inspector.recording.decoding import as_map
from inspector.recording.layout import (
    SUFFIX,
    BytesContent,
    DerivedCache,
    Event,
    Events,
    FileContent,
    is_recording,
    merged,
    read_events,
    recordings_folder,
    unfinished,
    user_derived_cache,
)
from inspector.recording.layout import problems as kept_problems
from inspector.sources import caches, traces, tritonparse
from inspector.sources.builds import BuiltCubin, event_of, read_folder, read_object
from inspector.sources.caches import scan
from inspector.sources.disassembly import FATBIN_MAGIC, arch_of, carries_device_code, images
from inspector.system import files
from inspector.system.files import unpacking

TEXT_STAGES = {
    ".ptx": Stage.PTX,
    ".ttir": Stage.TTIR,
    ".ttgir": Stage.TTGIR,
    ".llir": Stage.LLIR,
    ".ll": Stage.LLIR,
    ".sass": Stage.SASS,
}
FILE_ENDINGS = {
    *TEXT_STAGES,
    *words(".ptxview .cubin .so .o .fatbin .cu .pt2 .ncu-rep .tgz .gz .xz .bz2 .zip"),
}
"""Endings of a word that is a file's name, never a kernel's."""
KINDS = (
    "a recording, a .triton or Inductor cache, an extension's build folder, a .ptx .cubin .so .o "
    ".fatbin .ttir .ttgir .llir .sass file, saved TORCH_LOGS=output_code text, a TORCH_TRACE "
    "folder, a trace of tritonparse's, an AOTInductor package (.pt2), or a .tgz .tar.xz .tar.bz2 "
    ".zip of any of them"
)
_DEFINE = re.compile(
    r"^define [^@\n]*ptx_kernel[^@\n]* @\"?([\w$.]+)|^define void @([\w$.]+)", re.MULTILINE
)
_SASS_TEXT = re.compile(r"^[ \t]*+\.text\.([^\s:,]++):|^[ \t]*+Function : (\S++)", re.MULTILINE)
LOG_HEAD = 1 << 22


def newest() -> Path:
    """The newest recording of this user. Raises ``UsageError`` without one."""
    root = recordings_folder()
    entries = files.names(root)[0] if root.is_dir() else []
    recordings = [p for p in map(root.joinpath, (e.name for e in entries)) if is_recording(p)]
    if not recordings:
        raise UsageError(
            "there is no recording yet",
            "Make one with: ptxview run script.py    or name a path to open.",
        )
    return max(recordings, key=lambda p: p.stat().st_mtime)


def is_own(recording: Recording) -> bool:
    """Whether this user owns the recording, and it is in this user's folder of recordings.

    The recording's own content proves nothing; the place from which it was opened does.
    """
    real = Path(recording.resolved_path)
    with suppress(OSError):
        inside = real.is_relative_to(recordings_folder().resolve())
        return inside and real.lstat().st_uid == os.getuid()
    return False


def is_there(path: Path) -> bool:
    """Whether there is something to open at a path, or of a run that was to make it."""
    return path_or_unfinished(path).exists()


def path_or_unfinished(path: Path) -> Path:
    """A path, or the folder of a run that was to make it and has not, or not yet."""
    if path.exists() or path.suffix != SUFFIX:
        return path
    return unfinished(path) or path


class PathKind(Enum):
    """What can be opened at a path."""

    MISSING = auto()
    SPECIAL = auto()  # a device, a socket, a pipe
    RECORDING = auto()  # its folder or its single file
    ARCHIVE = auto()  # a packed file of any other kind
    FOLDER = auto()  # a cache, a build, a trace, or files of one of them
    FILE = auto()  # a compiler's product, or a log


def kind_of(path: Path) -> PathKind:
    """What a path is, found out once. Nothing is unpacked for it."""
    if not path.exists():
        return PathKind.MISSING
    is_folder = path.is_dir()
    if not is_folder and not path.is_file():
        return PathKind.SPECIAL
    if is_recording(path):
        return PathKind.RECORDING
    if is_folder:
        return PathKind.FOLDER
    return PathKind.ARCHIVE if unpacking.is_archive(path) else PathKind.FILE


class UnpackedArchive(Struct, frozen=True):
    """The content of an archive, in a folder that is removed when this process ends.

    ``root`` is where the content begins, ``problems`` are about the archive.
    """

    root: Path
    is_recording: bool
    problems: Sequence[str]


def open_path(path: Path) -> Recording:
    """The content of a path as a recording. Raises ``Unreadable`` if it does not exist, cannot be
    read, is damaged or of no known kind."""
    folder = path_or_unfinished(path)
    try:
        recording = _open(folder, path)
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror or error}") from None
    if folder == path:
        return recording
    problem = f"{path} was not made, or not yet: what its run recorded is read from {folder}"
    return replace(recording, problems=(problem, *recording.problems))


def _open(path: Path, named: Path) -> Recording:
    """Open a path by its kind; ``named`` is what the user called it."""
    match kind_of(path):
        case PathKind.MISSING:
            raise Unreadable(f"{named} does not exist", f"Give {KINDS}.")
        case PathKind.SPECIAL:
            kind = files.kind(path.stat().st_mode)
            raise Unreadable(f"{named} is {kind}: neither a file nor a folder", f"Give {KINDS}.")
        case PathKind.RECORDING:
            return _open_recording(path)
        case PathKind.ARCHIVE:
            return _open_archive(path)
        case PathKind.FOLDER:
            return _open_products(path, _folder_events(path))
        case PathKind.FILE:
            return _open_products(path, _file_events(path))


def _open_recording(path: Path) -> Recording:
    real = path.resolve()
    # A link may be changed later, so its target is opened; other paths are shown as given.
    events = read_events(path if path.absolute() == real else real)
    events = replace(events, problems=(*events.problems, *kept_problems(path)))
    return replace(_assembled(str(path), events), resolved_path=str(real))


def _open_archive(path: Path) -> Recording:
    archive = _unpacked(path)
    if archive.is_recording:
        recording = _open_recording(archive.root)
    else:
        try:
            recording = _open_products(path, _archived_events(archive, path))
        except Unreadable as error:
            message = error.message.replace(str(archive.root), str(path))
            raise Unreadable("; ".join((message, *archive.problems[:3])), error.hint) from None
    problems = (*archive.problems, *recording.problems)
    return replace(recording, path=str(path), resolved_path=str(path.resolve()), problems=problems)


def _open_products(path: Path, events: list[Event]) -> Recording:
    return Assembly(carried).recording(str(path), events)


def _unpacked(path: Path) -> UnpackedArchive:
    archive = unpacking.unpacked(path)
    root, is_recording_inside = _content_of(archive.folder, path)
    return UnpackedArchive(root, is_recording_inside, archive.problems)


def _assembled(name: str, events: Events) -> Recording:
    problems = list(events.problems)
    remaining: list[Event] = list(events.events)
    # The assembly lets go of each event that it has decoded: no other reference may keep them.
    without_events = replace(events, events=())
    assembly = Assembly(partial(without_events.blob, say=problems.append))
    assembly.problems = problems
    return assembly.recording(name, _drained(remaining))


def _drained(events: list[Event]) -> Iterator[Event]:
    """The events of a list in their order, each of which leaves the list."""
    events.reverse()
    while events:
        yield events.pop()


def open_paths(paths: Sequence[Path]) -> Recording:
    """The recordings of several machines as one; of one path what ``open_path`` gives. Raises
    ``Unreadable`` as that does, and for what is no recording."""
    if len(paths) == 1:
        return open_path(paths[0])
    parts = []
    for path in map(path_or_unfinished, paths):
        kind = kind_of(path)
        if kind is not PathKind.RECORDING:
            is_missing = kind is PathKind.MISSING
            raise Unreadable(
                f"{path} does not exist" if is_missing else f"{path} is not a recording",
                "Several paths are read as one where each is a recording of ptxview run's.",
            )
        parts.append(read_events(path))
    machines, merged_events = merged(parts)
    return replace(_assembled(" + ".join(map(str, paths)), merged_events), machines=machines)


def _content_of(folder: Path, archive: Path) -> tuple[Path, bool]:
    """Where what was packed begins, and whether it is a recording: else it is the first folder
    with more than a folder in it. Raises ``Unreadable`` where there are several recordings."""
    while True:
        if is_recording(folder):
            return folder, True
        entries = files.names(folder)[0]
        recordings = [p for p in (folder / e.name for e in entries) if is_recording(p)]
        if len(recordings) > 1:
            listed = ", ".join(p.name for p in recordings[:5])
            raise Unreadable(
                f"{archive} holds {len(recordings)} recordings: {listed}",
                "Unpack it, and open one of them.",
            )
        if recordings:
            return recordings[0], True
        if len(entries) != 1 or not entries[0].is_dir(follow_symlinks=False):
            return folder, False
        folder = folder / entries[0].name


def _folder_events(path: Path) -> list[Event]:
    """The events that a folder of compilers' products amounts to."""
    allowance = files.Allowance()
    return _all_events(path, allowance, _folder(path, allowance))


def _file_events(path: Path) -> list[Event]:
    """The events that a compiler's product or a log amounts to."""
    return _all_events(path, files.Allowance(), _file(path))


def _archived_events(archive: UnpackedArchive, path: Path) -> list[Event]:
    """The events of a folder that was unpacked, with the archive's path in them."""
    root = archive.root
    allowance = files.Allowance()
    items = (_renamed(event, str(root), str(path)) for event in _folder(root, allowance))
    return _all_events(root, allowance, items)


def _all_events(path: Path, allowance: files.Allowance, items: Iterable[Event]) -> list[Event]:
    """All events of a path. Raises ``Unreadable`` for none."""
    events_found: list[Event] = list(_within(allowance, items, path))
    if not any(e.get("event") != "problem" for e in events_found):
        reasons = dict.fromkeys(f"{e.get('where')} {e.get('text')}" for e in events_found)
        # A reason that a limit was met comes first.
        listed = "; ".join(sorted(reasons, key=lambda text: files.VARIABLE not in text)[:3])
        message = f"{path} holds nothing that ptxview knows"
        raise Unreadable(f"{message}: {listed}" if listed else message, f"Give {KINDS}.")
    return events_found


def raw_events(path: Path) -> tuple[list[Event], Blob]:
    """What a path holds as events, and what gives the content that a value of one names. For who
    copies a recording; ``open_path`` makes values of it. Raises ``PtxviewError``."""
    match kind_of(path):
        case PathKind.RECORDING:
            return _recorded_events(path)
        case PathKind.ARCHIVE:
            archive = _unpacked(path)
            if archive.is_recording:
                return _recorded_events(archive.root)
            problems: list[Event] = [
                {"event": "problem", "where": str(path), "text": text} for text in archive.problems
            ]
            return [*_archived_events(archive, path), *problems], carried
        case PathKind.FOLDER:
            return _folder_events(path), carried
        case _:
            return _file_events(path), carried


def _recorded_events(path: Path) -> tuple[list[Event], Blob]:
    events = read_events(path)
    return list(events.events), events.blob


def _renamed(event: Event, real: str, shown_path: str) -> dict[str, object]:
    """An event of an unpacked file, with paths as they are within the archive."""
    out = {k: v.replace(real, shown_path) if isinstance(v, str) else v for k, v in event.items()}
    if paths := as_map(event.get("paths")):
        out["paths"] = {kind: str(path).replace(real, shown_path) for kind, path in paths.items()}
    return out


def open_text(data: bytes, name: str, stage: Stage) -> Recording:
    """One stage's text without a file, as a recording; ``name`` is what it is called."""
    return Assembly(carried).recording(name, [_file_event(name, stage, BytesContent(data))])


def _file_event(path: str, stage: Stage, content: Content) -> dict[str, object]:
    fields = {"stage": stage.value, "path": path, "blob": content}
    return {"event": "file", **fields, "symbols": kernels_of(stage, content)}


def carried(value: object) -> Content | None:
    """The content in an event of a cache, which carries it itself; None for other values."""
    return value if hasattr(value, "read") else None


EVENT, PROBLEM = 2000, 300
"""Bytes of memory that an event of a cache takes, besides its contents."""


def _within(allowance: files.Allowance, events: Iterable[Event], path: Path) -> Iterator[Event]:
    """Events until they would take more memory than the allowance; then a problem."""
    for event in events:
        carried = sum(len(v.data) for v in event.values() if isinstance(v, BytesContent))
        size = PROBLEM if event.get("event") == "problem" else EVENT + carried
        try:
            allowance.take(size, str(event.get("path") or event.get("object") or path))
        except files.TooLarge as error:
            yield {"event": "problem", "where": str(path), "text": error.message}
            return
        yield event


def _folder(path: Path, allowance: files.Allowance) -> Iterable[Event]:
    cache = user_derived_cache()
    if packaged := caches.models(path):
        for model in packaged:
            yield from caches.events(model, path)
        return
    any_event = False
    for event in chain(scan(path, allowance), ({"event": "build_folder", "directory": path},)):
        if event["event"] != "build_folder":
            any_event = any_event or event["event"] != "problem"
            yield event
        elif event["directory"] != path or not any_event:
            for item in read_folder(Path(str(event["directory"])), cache):
                any_event = True
                yield _event(item, cache, path)
    if not any_event:
        for entry in files.names(path)[0]:  # the scan has said if there are more
            file = path / entry.name
            is_readable = entry.name.endswith((*TEXT_STAGES, ".cubin", *tritonparse.ENDINGS))
            if is_readable and not (entry.is_symlink() and files.leads_out(file, path)):
                try:
                    yield from _file(file, path)
                except Unreadable as error:
                    yield _event(error.message, cache, file)


def _event(item: BuiltCubin | str, cache: DerivedCache, path: Path) -> dict[str, object]:
    """The event of a cubin of a build, or of what could not be read of it."""
    if isinstance(item, str):
        return {"event": "problem", "where": str(path), "text": item.removeprefix(f"{path} ")}
    return event_of(item, cache)


def _file(path: Path, inside: Path | None = None) -> Iterable[Event]:
    """Events of a file that the user named, or of one in the folder ``inside`` that was named."""
    with files.opened(path, inside=inside) as file:
        if not (head := file.take(LOG_HEAD)):
            raise Unreadable(f"{path} is empty")
        if is_elf(head) or FATBIN_MAGIC in head[:64]:
            yield from _binary(file, head)
            return
        if tritonparse.is_tritonparse(unpacking.head(path, tritonparse.HEAD, inside=inside)):
            yield from tritonparse.from_tritonparse(path, inside)
            return
        yield from _text(file, head, inside)


def _text(file: files.File, head: bytes, inside: Path | None) -> Iterable[Event]:
    path = file.path
    text = head.decode("utf-8", "surrogateescape")
    if (stage := TEXT_STAGES.get(path.suffix.lower())) is not None:
        if (why := files.unreadable_reason(path, follow=True)) is not None:
            raise Unreadable(why)
        content = FileContent(path, inside)
        if b"\0" in head[:4096] and stage is not Stage.PTX:
            raise Unreadable(f"{path} is binary, not {stage.value}")
        yield _file_event(str(path), stage, content)
    elif traces.is_torch_trace(text):
        yield from traces.from_torch_trace(path, inside)
    elif traces.MARK in text:
        file.seek(0)
        yield from traces.from_log(file.read_all().decode("utf-8", "surrogateescape"))


def _binary(file: files.File, head: bytes) -> Iterable[Event]:
    path = file.path
    if is_cubin(head):
        file.seek(0)
        data = file.read_all()
        if read_cubin(data) is None:
            raise Unreadable(f"{path} is a damaged cubin", "Compile it again.")
        text = debug_ptx(data)
        yield {
            "event": "device_code",
            "origin": "file",
            "object": str(path),
            "cubin": BytesContent(data),
            "arch": arch_of(file),
            "why": "the cubin was built without -lineinfo, which would have kept it",
            "ptx": None if text is None else BytesContent(text),
            "ptx_from": "the cubin's .nv_debug_ptx_txt, which ptxas keeps without its comments",
        }
        return
    cache = user_derived_cache()
    if path.suffix in (".so", ".o", ".obj") and (path.parent / "build.ninja").is_file():
        built = [i for i in read_folder(path.parent, cache) if isinstance(i, BuiltCubin)]
        if build_events := [event_of(item, cache) for item in built if item.object == path]:
            yield from build_events
            return
    library_events = list(caches.of_library(file))
    yield from library_events
    if library_events and not carries_device_code(file):
        return
    images(path, cache)  # raises with one sentence if something is wrong
    for item in read_object(path, None, path.parent, cache):
        yield _event(item, cache, path)


def kernels_of(stage: Stage, content: Content) -> list[str]:
    try:
        text = content.read().decode("utf-8", "surrogateescape")
    except PtxviewError:
        return []
    if stage is Stage.PTX:
        return [name for name, _ in entries(text)]
    if stage is Stage.SASS:
        return list(dict.fromkeys(a or b for a, b in _SASS_TEXT.findall(text)))
    if stage in (Stage.TTIR, Stage.TTGIR):
        return re.findall(r"tt\.func public @([\w$.]+)", text)
    return [a or b for a, b in _DEFINE.findall(text)]
