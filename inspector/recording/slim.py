"""Events and contents at a hundredth of a kernel's files: a cache has tens of thousands of kernels.

An event as it is parsed has every key of Triton's metadata and a string of its own for each word;
a ``Path`` takes ten times the memory of its text. What nothing reads is left out here, words that
come again and again are kept once, and paths are kept as text until they are opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from sys import intern

from inspector.model import Content
from inspector.recording.facts import CONFIG, as_map
from inspector.recording.layout import BlobContent, FileContent

Event = Mapping[str, object]
METADATA = frozenset(("name", "hash", "shared", "target", *CONFIG))
FILES = frozenset(("ttir", "ttgir", "llir", "ptx", "cubin"))
UNREAD = frozenset(("seconds",))
SHORT = 40
"""Letters of a word that may come again: a name, a type, a kind of event."""


@dataclass(frozen=True, slots=True)
class Lying:
    """The content of a file or of a blob, by the text of its path."""

    path: str
    kind: type[FileContent] | type[BlobContent]
    inside: Path | None = None

    def read(self) -> bytes:
        if self.kind is FileContent:
            return FileContent(Path(self.path), self.inside).read()
        return BlobContent(Path(self.path)).read()


def compact(content: Content | None) -> Content | None:
    """The same content, in less memory where it is a file's."""
    if isinstance(content, FileContent):
        return Lying(str(content.path), FileContent, content.inside)
    if isinstance(content, BlobContent):
        return Lying(str(content.path), BlobContent)
    return content


def path_of(content: Content | None, said: object) -> str | None:
    """Where a stage's text lay: as the event says, else where its content lies."""
    if isinstance(said, str) and said:
        return said
    return content.path if isinstance(content, Lying) and content.kind is FileContent else None


def slim(event: Event) -> dict[str, object]:
    """An event with all that is read of it."""
    if event.get("event") != "triton":
        return {intern(k): _shared(v) for k, v in event.items()}
    out = {intern(k): _shared(v) for k, v in event.items() if k not in UNREAD}
    out["metadata"] = {k: v for k, v in as_map(out.get("metadata")).items() if k in METADATA}
    paths = {k: v for k, v in as_map(out.get("paths")).items() if k in FILES}
    files: dict[str, object] = {}
    for kind, held in as_map(out.get("files")).items():
        if kind in FILES:
            small = compact(held) if isinstance(held, FileContent | BlobContent) else held
            if isinstance(small, Lying) and paths.get(kind) == small.path:
                del paths[kind]
            files[kind] = small
    return {**out, "files": files, "paths": paths or None}


def _shared(value: object) -> object:
    """A value of JSON whose short words are those that all others have."""
    if isinstance(value, str):
        return intern(value) if len(value) <= SHORT and type(value) is str else value
    if isinstance(value, dict):
        return {intern(k) if type(k) is str else k: _shared(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_shared(v) for v in value]
    return value
