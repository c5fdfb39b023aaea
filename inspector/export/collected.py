"""A recording as what it is made of: events, the contents that they name, times.

Exported recordings are written from this, and a recording after removals is
read of it again, without a file between.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inspector.base.errors import PtxviewError
from inspector.base.model import Content, Kernel, Recording, Variant
from inspector.base.text import words
from inspector.recording.assemble import Assembly, Blob
from inspector.recording.kept import NAME, kept
from inspector.recording.layout import SCHEMA, BytesContent, Writer, pack
from inspector.sources.opening import raw_events

Event = Mapping[str, object]
Found = tuple[Kernel, Variant]

OF_A_KERNEL = words(
    "triton triton_failed triton_said loaded not_loaded not_launched launched ptxas configured"
)
OF_GRAPHS = ("graph", "graph_failed", "graph_text", "graph_nodes", "dynamo_nodes", "user_file")
OF_BUILDS = ("extension", "library")
DIGEST_CHARS = 64
"""Length of a content's name, its SHA-256 in hex."""


def digest_of(data: bytes) -> str:
    """The name of a content."""
    return hashlib.sha256(data).hexdigest()


@dataclass
class Collected:
    """Events in the order of time, contents by their SHA-256, and records of times."""

    events: list[dict[str, object]] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)
    timings: list[dict[str, object]] = field(default_factory=list)
    blob: Blob = field(default=lambda digest: None)

    def content(self, digest: object) -> bytes | None:
        """Return the content of that name; None if missing or unreadable."""
        if not isinstance(digest, str):
            return None
        if (data := self.contents.get(digest)) is None and (held := self.blob(digest)) is not None:
            with suppress(PtxviewError):
                data = held.read()
        return data

    def recording(self, path: str) -> Recording:
        """What it holds, as values; ``path`` is what it is called."""

        def held(digest: object) -> Content | None:
            data = self.content(digest)
            return None if data is None else BytesContent(data)

        return Assembly(held).recording(path, [dict(e) for e in self.events])

    def as_json(self) -> bytes:
        """Events and times as they are written."""
        lines = (json.dumps(e, ensure_ascii=True) for e in (*self.events, *self.timings))
        return "\n".join(lines).encode("ascii")

    def write(self, target: Path) -> None:
        """One file of it. Raises ``OSError`` where it cannot be written."""
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as name:
            with closing(Writer(Path(name))) as writer:
                for number, event in enumerate(self.events):
                    for digest in named_in(event):
                        if (data := self.content(digest)) is not None:
                            writer.blob(data)
                    writer.event(**(event if number else event | {"schema": SCHEMA}))
            if self.timings:
                lines = (json.dumps(t, ensure_ascii=True) + "\n" for t in self.timings)
                (Path(name) / NAME).write_text("".join(lines), "ascii")
            pack(Path(name), target)


def collect(path: Path) -> Collected:
    """Read the events at a path. Raises ``PtxviewError``."""
    events, blob = raw_events(path)
    out = Collected(timings=kept(path), blob=blob)
    out.events = [_plain(_at_hand(event), out.contents) for event in events]
    return out


def some_of(given: Collected, found: Iterable[Found]) -> Collected:
    """The events that some variants need, and no others."""
    every = list(found)
    hashes = {v.hash for _, v in every}
    names = {k.name for k, _ in every} | {v.symbol for _, v in every}
    graphs = any(v.embedded is not None or v.fusion is not None for _, v in every)
    builds = any("flags" in v.config for _, v in every)

    def wanted(event: Event, kind: object) -> bool:
        if kind in OF_A_KERNEL:
            return event.get("hash") in hashes
        if kind in ("device_code", "file"):
            # What did not compile has the name of its source.
            held = [event.get(n) for n in ("cubin", "ptx", "blob", "source_blob")]
            return next((h for h in held if isinstance(h, str)), None) in hashes
        if kind == "call":
            return called(event)
        if kind == "autotune":
            return event.get("name") in names
        return graphs if kind in OF_GRAPHS else builds if kind in OF_BUILDS else True

    def called(call: Event) -> bool:
        kind = call.get("kind")
        if kind in ("extension", "graph"):
            return builds if kind == "extension" else graphs
        return call.get("hash", call.get("subject")) in hashes or call.get("name") in names

    events = [e for e in given.events if wanted(e, e.get("event"))]
    for event in events:
        if event.get("event") == "calls" and isinstance(subjects := event.get("subjects"), list):
            event["subjects"] = [s for s in subjects if isinstance(s, dict) and called(s)]
    return Collected(events, given.contents, given.timings, given.blob)


def strings(value: object) -> Iterator[str]:
    """Yield every text of a JSON value, names of members too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, member in value.items():
            yield str(name)
            yield from strings(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from strings(member)


def named_in(value: object) -> Iterator[str]:
    """Yield every text that may name a content."""
    return (text for text in strings(value) if len(text) == DIGEST_CHARS)


def mapped(value: object, change: Callable[[object], object]) -> Any:
    """Return a JSON value with ``change`` applied to its texts and numbers, names too."""
    if isinstance(value, Mapping):
        return {str(change(str(name))): mapped(member, change) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [mapped(member, change) for member in value]
    return change(value)


def _at_hand(event: Event) -> Event:
    """An event without the content that a compiler would have to be run for."""
    if not event.get("costly"):
        return event
    why = "the build kept none, and it was not compiled for the copy"
    return {k: v for k, v in event.items() if k not in ("ptx", "costly")} | {"why": why}


def _plain(event: Event, contents: dict[str, bytes]) -> dict[str, object]:
    """Return an event of a cache, which carries its contents, as one that names them."""

    def named(part: object) -> object:
        if not hasattr(part, "read"):
            return part
        with suppress(PtxviewError):
            data = part.read()
            contents[digest := digest_of(data)] = data
            return digest
        return None

    out: dict[str, object] = mapped(event, named)
    return out
