"""Which kernels a path holds, at a glance: for whoever has pressed a key and waits.

What is opened is opened as ever, with bounds that are narrower; no tool is started but
the demangler, so objects and libraries, whose kernels one would have to list, are passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from inspector import files
from inspector.capture.caches import scan
from inspector.capture.opening import TEXT_STAGES, open_path
from inspector.errors import PtxviewError
from inspector.model import Recording
from inspector.names import base_name
from inspector.recording.layout import is_recording

BOUND = 128 << 20
"""Bytes of memory that are given to what is looked at; a recording's first events fit."""

MOST_EVENTS = 2000
"""Events of a cache that are looked at, about one a kernel."""


@dataclass(frozen=True, slots=True)
class Glimpse:
    """A variant of a kernel: its plain name, how its id or its hash begins, what tells it apart."""

    name: str
    id: str
    said: str = ""


def narrow() -> None:
    """From now on this process takes in no more than a glance may cost, or the user's own bound."""
    try:
        own = files.limits().total
    except PtxviewError:
        own = BOUND
    os.environ[files.VARIABLE] = str(min(own, BOUND))


def glance(path: Path) -> tuple[Glimpse, ...]:
    """The variants of kernels at a path, as far as they are seen at once; none where it is none."""
    try:
        if is_recording(path):
            return tuple(_of(open_path(path)))
        if path.is_dir():
            return tuple(_of_cache(path))
        if path.suffix.lower() in (*TEXT_STAGES, ".cubin"):
            return tuple(_of(open_path(path)))
    except (PtxviewError, OSError, ValueError):
        pass
    return ()


def _of(recording: Recording) -> Iterator[Glimpse]:
    for kernel, variant in recording.variants():
        config = (f"{k}={v}" for k, v in variant.config.items() if k != "flags" and v is not None)
        said = " ".join((variant.target or "", *config)).strip()
        yield Glimpse(base_name(kernel.name), variant.id, said)
    for graph in recording.graphs:
        yield Glimpse(graph.id, graph.id, "a graph of torch.compile")


def _of_cache(path: Path) -> Iterator[Glimpse]:
    for event in islice(scan(path), MOST_EVENTS):
        name, digest = event.get("name"), event.get("hash")
        if event["event"] == "triton" and isinstance(name, str) and isinstance(digest, str):
            yield Glimpse(base_name(name), digest[:8])
