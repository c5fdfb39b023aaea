"""Reads what lies about already: Triton's cache, Inductor's cache, extension build folders.

Pickles are never loaded: Inductor's ``fxgraph`` and ``aotautograd`` entries are passed over.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from inspector.capture import autotune_caches, output_code, torch_logs
from inspector.capture.elf import has_device_code
from inspector.errors import Unreadable
from inspector.recording import FileContent, leads_out

_INDUCTOR_FILE = re.compile(r"c[a-z2-7]{51}\.py")
KNOWN = {".source", ".ttir", ".ttgir", ".llir", ".ptx", ".cubin"}
PICKLES = {"fxgraph", "aotautograd"}
DEEPEST = 6
MOST_FOLDERS = 200_000
LARGEST_SCRIPT = 64 << 20

Event = dict[str, object]


def scan(root: Path) -> Iterator[Event]:
    """Events of every known thing under a folder, and a ``problem`` for what is damaged."""
    for seen, (folder, below, names) in enumerate(os.walk(root), 1):
        here = Path(folder)
        depth = len(here.relative_to(root).parts)
        below[:] = sorted(d for d in below if d not in PICKLES) if depth < DEEPEST else []
        if seen > MOST_FOLDERS:
            yield _problem(root, f"more than {MOST_FOLDERS} folders; the rest was not looked at")
            return
        yield from _folder(here, sorted(names), root)


def _folder(here: Path, names: list[str], root: Path) -> Iterator[Event]:
    # Pipes and links that lead nowhere are nobody's cache.
    names = [n for n in names if not _of_interest(n) or (here / n).is_file()]
    links = (n for n in names if _of_interest(n) and (here / n).is_symlink())
    out = {n for n in links if leads_out(here / n, root)}
    for name in sorted(out):
        yield _problem(here / name, f"is a link that leads out of {root}, and was not followed")
    names = [n for n in names if n not in out]
    by_suffix = {n for n in names if Path(n).suffix in KNOWN}
    tunings = [n for n in names if autotune_caches.is_tuning(n) and not n.startswith("__grp__")]
    metadata = [
        n for n in names if n.endswith(".json") and not n.startswith("__grp__") and n not in tunings
    ]
    if by_suffix and metadata:
        for name in metadata:
            yield from _triton(here, name, names, root)
    elif by_suffix and not tunings and any(n.startswith("__grp__") for n in names):
        yield _problem(here, "Triton's metadata is missing: a half-written entry")
    for name in tunings:
        yield from autotune_caches.from_file(here / name, root)
    if "build.ninja" in names:
        yield {"event": "build_folder", "directory": str(here)}
    for name in names:
        if _INDUCTOR_FILE.fullmatch(name):
            yield from _inductor(here / name, root)
        elif name.endswith(".log") and "torch_trace" in name:
            yield from _trace(here / name, root)


def _of_interest(name: str) -> bool:
    return name.endswith((*KNOWN, ".best_config", ".json", ".py", ".log", ".ninja"))


def _triton(here: Path, name: str, names: list[str], root: Path) -> Iterator[Event]:
    stem = name[: -len(".json")]
    try:
        metadata = json.loads(FileContent(here / name, root).read())
    except (Unreadable, ValueError, RecursionError):
        yield _problem(here / name, "is no JSON: truncated, or half-written")
        return
    if not isinstance(metadata, dict) or not isinstance(metadata.get("hash"), str):
        if any(Path(n).suffix in KNOWN and Path(n).stem == stem for n in names):
            yield _problem(here / name, "is not Triton's metadata: half-written, or foreign")
        return
    files: dict[str, object] = {}
    paths: dict[str, str] = {}
    for each in names:
        suffix = Path(each).suffix
        if each == stem + suffix and suffix in KNOWN:
            file = here / each
            try:
                size = file.stat().st_size
            except OSError as error:
                yield _problem(file, f"cannot be read: {error.strerror}")
                continue
            if size == 0:
                yield _problem(file, "is empty")
                continue
            files[suffix[1:]] = FileContent(file, root)
            paths[suffix[1:]] = str(file)
    if files:
        yield {
            "event": "triton",
            "name": metadata.get("name") or stem,
            "hash": metadata.get("hash"),
            "cache_key": here.name,
            "metadata": metadata,
            "files": files,
            "paths": paths,
        }


def _inductor(path: Path, root: Path) -> Iterator[Event]:
    try:
        if path.stat().st_size > LARGEST_SCRIPT:
            yield _problem(path, "is too large to be a graph")
            return
        text = FileContent(path, root).read().decode("utf-8", "surrogateescape")
    except (OSError, Unreadable) as error:
        yield _problem(path, f"cannot be read: {error}")
        return
    if output_code.is_output_code(text):
        yield {"event": "graph", "path": str(path), "blob": FileContent(path, root)}


def _trace(path: Path, root: Path) -> Iterator[Event]:
    try:
        yield from torch_logs.from_trace_file(path, root)
    except Unreadable as error:
        yield _problem(path, f"cannot be read: {error}")
    except OSError as error:
        yield _problem(path, f"cannot be read: {error.strerror}")
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        # One file of a folder that others wrote too: the rest of the folder is still read.
        yield _problem(path, f"is not as torch writes it: {type(error).__name__}")


def objects(directory: Path) -> list[Path]:
    """The files of a build folder that hold device code: objects, else libraries."""
    for suffixes in ((".o", ".obj"), (".so",), (".fatbin", ".cubin")):
        found = []
        for file in sorted(directory.iterdir()):
            if file.suffix in suffixes and file.is_file() and not leads_out(file, directory):
                data = FileContent(file, directory).read()
                if has_device_code(data) or suffixes[0] == ".fatbin":
                    found.append(file)
        if found:
            return found
    return []


def _problem(where: Path, text: str) -> Event:
    return {"event": "problem", "where": str(where), "text": text}
