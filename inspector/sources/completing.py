"""Completes the recording of a program that has ended: the device code of its builds, spills, the
versions of what compiled it, and what did not compile.

Apart from ``running``, since the program would wait for the imports of this module.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from inspector.base.errors import PtxviewError, Stopped
from inspector.base.model import Origin, Recording, Variant
from inspector.listing.cubin import only
from inspector.recording.driver import MAX_WHOLE_CUBIN_BYTES
from inspector.recording.layout import DerivedCache, Writer, read_events
from inspector.sources import failed_compiles, machine, spills
from inspector.sources.builds import (
    Found,
    ptxas_event,
    read_folder,
    read_object,
    recorded_event,
)
from inspector.sources.disassembly import carries_device_code
from inspector.sources.failed_compiles import of_triton, unfinished
from inspector.sources.opening import open_path
from inspector.system import files
from inspector.system.process import side_by_side

Say = Callable[[str], None]
Event = dict[str, object]


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

    versions = machine.versions(python)
    still()
    writer.event(event="tools", tools={k: v for k, v in versions.items() if "folder" not in k})
    if mode == "gpu" and (device := machine.nvidia_smi()) is not None:
        writer.event(event="tools", tools={"driver": device["driver_version"]})
    try:
        events = read_events(writer.folder).events
    except PtxviewError:
        return None
    for event in failed_compiles.of_builds(events, writer.blob, say, go_on):
        writer.event(**event)
    # Before the builds are kept: a build may have such a module, and its events name it.
    _take_kernels_out(writer, events)
    builds = list(_builds(list(events), cache))

    def events_of(item: Found | str) -> list[Event]:
        still()
        item_events = _events_of(item, writer, cache, say)
        still()  # the failure of a tool that was stopped is no problem of the recording
        return item_events

    with closing(side_by_side(events_of, builds)) as each:
        for item_events in each:
            for event in item_events:
                writer.event(**event)
    still()
    if assemblers := spills.versions(versions.get("triton_folder")):
        writer.event(event="tools", tools=assemblers)
    for event in unfinished(writer, python, say, go_on):
        writer.event(**event)
    recording = open_path(writer.folder)
    later = list(of_triton(recording, writer, python, say, go_on))
    for event in later:
        writer.event(**event)
    measured = _measure(recording, versions.get("triton_folder"), cache, still)
    for event in measured:
        writer.event(**event)
    return open_path(writer.folder) if measured or later else recording


def _take_kernels_out(writer: Writer, events: Sequence[Mapping[str, object]]) -> None:
    """Keep, of modules with hundreds of kernels, those that were launched: 60 MB of torch's and
    NVIDIA's libraries become one. What cannot be taken apart stays whole."""
    launched: dict[str, dict[str, None]] = {}
    others: set[object] = set()
    for event in events:
        module, name = event.get("module"), event.get("name")
        if event.get("event") == "driver_launch" and isinstance(module, str):
            launched.setdefault(module, {})[str(name)] = None
        else:
            files_of = event.get("files")
            others.update(files_of.values() if isinstance(files_of, dict) else ())
            others.update(v for v in event.values() if isinstance(v, str) and len(v) == 64)
    for module, names in launched.items():
        path = writer.stored(module)
        try:
            if path is None or path.stat().st_size <= MAX_WHOLE_CUBIN_BYTES:
                continue
            cubin = files.read(path)
            codes = {name: only(cubin, name) for name in names}
            if module in others or not all(codes.values()):
                continue
            for name, code in codes.items():
                digest = writer.blob(code or b"")
                writer.event(event="driver_kernel", module=module, name=name, blob=digest)
            path.unlink()
        except (PtxviewError, OSError) as error:
            writer.event(event="problem", where="driver", text=str(error))


def _events_of(item: Found | str, writer: Writer, cache: DerivedCache, say: Say) -> list[Event]:
    if isinstance(item, str):
        return [{"event": "problem", "where": "extension", "text": item}]
    try:
        return recorded_event(item, writer.blob, cache, say)
    except (PtxviewError, OSError) as error:
        return [{"event": "problem", "where": str(item.object), "text": str(error)}]


def _builds(events: list[Event], cache: DerivedCache) -> Iterator[Found | str]:
    """Every cubin of the builds and libraries that the program made or loaded, once each.

    Builds for the emulated device were recorded when nvcc made them.
    """
    recorded = [e for e in events if e.get("event") == "device_code"]
    seen = {e.get(field) for e in recorded for field in ("cubin", "lineinfo_cubin")}
    for item in _held(events, cache):
        if isinstance(item, Found):
            digest = hashlib.sha256(item.cubin).hexdigest()
            if digest in seen:
                continue
            seen.add(digest)
        yield item


def _held(events: list[Event], cache: DerivedCache) -> Iterator[Found | str]:
    """Cubins of build folders before those of libraries: only folders have the commands."""
    for folder in map(Path, _named(events, "extension", "directory")):
        if folder.is_dir():
            yield from read_folder(folder, cache)
    for library in map(Path, _named(events, "library", "path")):
        for ninja in sorted((library.parent / "build").glob("temp*/**/build.ninja")):
            yield from read_folder(ninja.parent, cache)
        if _carries_code(library):
            yield from read_object(library, None, library.parent, cache)


def _carries_code(library: Path) -> bool:
    try:
        with files.opened(library) as file:
            return carries_device_code(file)
    except PtxviewError:
        return False


def _named(events: list[Event], kind: str, field: str) -> list[str]:
    values = [str(e.get(field)) for e in events if e.get("event") == kind and e.get(field)]
    return list(dict.fromkeys(values))


def _measure(
    recording: Recording,
    triton_folder: str | None,
    cache: DerivedCache,
    still: Callable[[], None],
) -> list[dict[str, object]]:
    """``ptxas`` events for Triton's variants whose spills are not recorded."""
    tools = spills.assemblers([triton_folder])
    todo = [
        v
        for k, v in recording.variants()
        if k.origin in (Origin.TRITON, Origin.INDUCTOR) and v.known.barriers is None
    ]

    def one(variant: Variant) -> list[dict[str, object]]:
        still()
        figures = spills.of_variant(variant, tools, cache)
        still()
        return [ptxas_event(variant.hash, symbol, res) for symbol, res in figures.items()]

    return [event for events in side_by_side(one, todo) for event in events]
