"""Shrinks events and contents in memory: a cache has tens of thousands of kernels.

A parsed event has every key of Triton's metadata and a separate string for each word; a ``Path``
takes ten times the memory of its text. Keys that nothing reads are left out here, repeated words
are interned, and paths are kept as text until they are opened.
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
FILES = frozenset(("source", "ttir", "ttgir", "llir", "ptx", "cubin"))
# Fields of CUDAOptions in triton/backends/nvidia/compiler.py, 3.2 to 3.9, that stages after the
# frontend read; paths and what a configuration already tells are left out.
OPTIONS = frozenset((
    "triton_version", "enable_fp_fusion", "ptx_version", "ptx_options", "launch_cooperative_grid",
    "launch_pdl", "max_num_imprecise_acc_default", "debug", "sanitize_overflow", "cluster_dims",
    "instrumentation_mode", "min_shared_mem", "clc", "sched4reg", "enable_reflect_ftz",
    "num_consumer_groups", "num_buffers_warp_spec", "reg_dec_producer", "reg_inc_consumer",
    "minRegAutoWS", "maxRegAutoWS", "fpsan_homomorphic_casts",
))  # fmt: skip
SHORT = 40
"""Longest word that is interned: a name, a type, a kind of event."""


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
    """The same content, taking less memory if it is a file or a blob."""
    if isinstance(content, FileContent):
        return Lying(str(content.path), FileContent, content.inside)
    if isinstance(content, BlobContent):
        return Lying(str(content.path), BlobContent)
    return content


def path_of(content: Content | None, recorded: object) -> str | None:
    """The path of a stage's text: the recorded one, else that of its content."""
    if isinstance(recorded, str) and recorded:
        return recorded
    return content.path if isinstance(content, Lying) and content.kind is FileContent else None


def slim(event: Event) -> dict[str, object]:
    """An event reduced to the keys that are read."""
    if event.get("event") not in ("triton", "triton_failed"):
        return {intern(k): _shared(v) for k, v in event.items()}
    out = {intern(k): _shared(v) for k, v in event.items()}
    metadata = as_map(out.get("metadata"))
    out["metadata"] = {k: v for k, v in metadata.items() if k in METADATA}
    # An exported recording has them beside the metadata, as they were put there by this.
    out["options"] = options_of({**as_map(out.get("options")), **metadata})
    paths = {k: v for k, v in as_map(out.get("paths")).items() if k in FILES}
    files: dict[str, object] = {}
    for kind, content in as_map(out.get("files")).items():
        if kind in FILES:
            small = compact(content) if isinstance(content, FileContent | BlobContent) else content
            if isinstance(small, Lying) and paths.get(kind) == small.path:
                del paths[kind]
            files[kind] = small
    return {**out, "files": files, "paths": paths or None}


_alike: dict[str, Mapping[str, object]] = {}


def options_of(metadata: Mapping[str, object]) -> Mapping[str, object]:
    """Triton's options among a kernel's metadata: one mapping for all kernels that share them."""
    options = {k: v for k, v in metadata.items() if k in OPTIONS and v is not None}
    key = repr(sorted(options.items(), key=lambda item: item[0]))
    return _alike.setdefault(key, options) if len(_alike) < 1000 else options


def _shared(value: object) -> object:
    """A JSON value with its short words interned."""
    if isinstance(value, str):
        return intern(value) if len(value) <= SHORT and type(value) is str else value
    if isinstance(value, dict):
        return {intern(k) if type(k) is str else k: _shared(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_shared(v) for v in value]
    return value
