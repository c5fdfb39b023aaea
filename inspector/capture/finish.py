"""When the program has ended: the device code of its builds, spills, versions, the device."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from inspector import files
from inspector.capture import machine, spills
from inspector.capture.binaries import carries_device_code
from inspector.capture.builds import (
    Found,
    ptxas_event,
    read_folder,
    read_object,
    recorded_event,
)
from inspector.capture.opening import open_path
from inspector.errors import PtxviewError, Stopped
from inspector.model import Origin, Recording, Variant
from inspector.recording import DerivedCache, Writer, read_events

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
    """Add to a recording what is made of it after the run; what it then holds.

    Whatever fails is a ``problem`` in the recording; nothing that was captured is lost. Raises
    ``Stopped`` once ``go_on`` says no: what was made by then is kept.
    """

    def still() -> None:
        if not go_on():
            raise Stopped("it was stopped before its end")

    held = machine.versions(python)
    still()
    writer.event(event="tools", tools={k: v for k, v in held.items() if "folder" not in k})
    if mode == "gpu" and (device := machine.nvidia_smi()) is not None:
        writer.event(event="tools", tools={"driver": device["driver_version"]})
    try:
        events = read_events(writer.folder).events
    except PtxviewError:
        return None
    found = list(_builds(list(events), cache))

    def events_of(item: Found | str) -> list[Event]:
        still()
        made = _events_of(item, writer, cache, say)
        still()  # a tool that was stopped has failed for no reason of its own
        return made

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for made in pool.map(events_of, found):
            for event in made:
                writer.event(**event)
    if assemblers := spills.versions(held.get("triton_folder")):
        writer.event(event="tools", tools=assemblers)
    recording = open_path(writer.folder)
    measured = _measure(recording, held.get("triton_folder"), cache, still)
    for event in measured:
        writer.event(**event)
    return open_path(writer.folder) if measured else recording


def _events_of(item: Found | str, writer: Writer, cache: DerivedCache, say: Say) -> list[Event]:
    if isinstance(item, str):
        return [{"event": "problem", "where": "extension", "text": item}]
    try:
        return recorded_event(item, writer.blob, cache, say)
    except (PtxviewError, OSError) as error:
        return [{"event": "problem", "where": str(item.object), "text": str(error)}]


def _builds(events: list[Event], cache: DerivedCache) -> Iterator[Found | str]:
    """Every cubin of the builds and libraries that the program made or loaded, once each."""
    seen: set[bytes] = set()
    for item in _held(events, cache):
        if isinstance(item, Found):
            if item.cubin in seen:
                continue
            seen.add(item.cubin)
        yield item


def _held(events: list[Event], cache: DerivedCache) -> Iterator[Found | str]:
    """Build folders before libraries: only they know the commands."""
    for folder in map(Path, _named(events, "extension", "directory")):
        if folder.is_dir():
            yield from read_folder(folder, cache)
    for library in map(Path, _named(events, "library", "path")):
        for ninja in sorted((library.parent / "build").glob("temp*/**/build.ninja")):
            yield from read_folder(ninja.parent, cache)
        # One built for the emulated device has none: its kernels were recorded when compiled.
        if _carries_code(library):
            yield from read_object(library, None, library.parent, cache)


def _carries_code(library: Path) -> bool:
    try:
        with files.opened(library) as file:
            return carries_device_code(file)
    except PtxviewError:
        return False


def _named(events: list[Event], kind: str, field: str) -> list[str]:
    found = [str(e.get(field)) for e in events if e.get("event") == kind and e.get(field)]
    return list(dict.fromkeys(found))


def _measure(
    recording: Recording,
    triton_folder: str | None,
    cache: DerivedCache,
    still: Callable[[], None],
) -> list[dict[str, object]]:
    """``ptxas`` events for the variants of Triton whose spills nobody has said."""
    tools = spills.assemblers([triton_folder])
    todo = [
        v
        for k, v in recording.variants()
        if k.origin in (Origin.TRITON, Origin.INDUCTOR) and v.known.barriers is None
    ]

    def one(variant: Variant) -> list[dict[str, object]]:
        still()
        known = spills.of_variant(variant, tools, cache)
        still()
        return [ptxas_event(variant.hash, symbol, res) for symbol, res in known.items()]

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        return [event for events in pool.map(one, todo) for event in events]
