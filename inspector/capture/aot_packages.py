"""Reads AOTInductor's packages: a ``.pt2``, which is a zip, or the folder that it unpacks to.

``torch/export/pt2_archive/constants.py``: ``data/aotinductor/MODEL`` has what was generated for a
model: ``*.wrapper.cpp``, which is its output_code; each kernel's cubin beside it, and what else was
kept of it by that name (``.ptx``, with ``aot_inductor.emit_multi_arch_kernel``); with
``aot_inductor.embed_kernel_binary`` the cubins are within the wrapper's library instead. Weights,
graphs as JSON and libraries for the host are left alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from inspector import files
from inspector.errors import Unreadable
from inspector.listing.cubin import architecture, read_cubin
from inspector.recording import cpp_wrapper
from inspector.recording.layout import FileContent

Event = dict[str, object]
MODELS = Path("data") / "aotinductor"
WRAPPER = (".wrapper.cpp", "_wrapper.cpp")
KINDS = {".ptx": "ptx", ".ttir": "ttir", ".ttgir": "ttgir", ".llir": "llir"}
_FILE = re.compile(rb"\0(c[a-z2-7]{51}\.py)\0")
_FOLDER = re.compile(rb"\0(/[^\0]{1,4096})(?=\0)")


def models(root: Path) -> list[Path]:
    """The folders of models that an unpacked package, or a folder of one model, has."""
    place = root / MODELS
    if place.is_dir() and not place.is_symlink():
        entries = files.names(place)[0]
        return [place / e.name for e in entries if e.is_dir(follow_symlinks=False)]
    return [root] if any(e.name.endswith(WRAPPER) for e in files.names(root)[0]) else []


def events(model: Path, root: Path) -> Iterator[Event]:
    """What a model's folder holds, as events: its graph, and a compile of Triton's a cubin."""
    names = [e.name for e in files.names(model)[0] if e.is_file(follow_symlinks=False)]
    written: dict[str, cpp_wrapper.CppKernel] = {}
    for name in (n for n in names if n.endswith(WRAPPER)):
        path = model / name
        try:
            text = files.text(path, files.limits().text, inside=root)
        except Unreadable as error:
            yield _problem(path, error.message)
            continue
        written |= {kernel.name: kernel for kernel in cpp_wrapper.kernels(text)}
        yield {
            "event": "graph", "path": str(path), "blob": FileContent(path, root), "id": model.name,
        }  # fmt: skip
    for name in (n for n in names if n.endswith(".cubin")):
        path = model / name
        try:
            data = files.read(path, files.limits().one, inside=root)
        except Unreadable as error:
            yield _problem(path, error.message)
            continue
        if read_cubin(data) is None:
            yield _problem(path, "is a damaged cubin")
        event = _compiled(path, root, data, names, written)
        if event["files"]:
            yield event


def _compiled(
    path: Path, root: Path, data: bytes, names: list[str], written: dict[str, cpp_wrapper.CppKernel]
) -> Event:
    """A kernel's cubin and the files that go by its name."""
    stem = path.name.removesuffix(".cubin")
    contents = {"cubin": FileContent(path, root)} if read_cubin(data) is not None else {}
    for ending, kind in KINDS.items():
        if stem + ending in names:
            contents[kind] = FileContent(path.with_name(stem + ending), root)
    # With several architectures a file's name has one after the kernel's.
    ends = range(len(stem), 0, -1)
    kernel = next((written[stem[:end]] for end in ends if stem[:end] in written), None)
    arch = architecture(data)
    metadata: dict[str, object] = {"name": stem if kernel is None else kernel.name}
    if arch is not None:
        metadata["target"] = {"backend": "cuda", "arch": int(arch.removeprefix("sm_"))}
    event: Event = {
        "event": "triton", "hash": hashlib.sha256(data).hexdigest(), "files": contents,
        "paths": {kind: str(content.path) for kind, content in contents.items()},
        "source": {"file": generated_file(data) or str(path)},
    }  # fmt: skip
    if kernel is not None:
        event["signature"] = dict(kernel.signature or {})
        facts = {"num_warps": kernel.warps, "shared": kernel.shared}
        metadata |= {name: value for name, value in facts.items() if value is not None}
    return event | {"name": metadata["name"], "metadata": metadata}


def generated_file(cubin: bytes) -> str | None:
    """The file of Inductor's cache that a cubin's lines are of: its name begins with a digest."""
    match = _FILE.search(cubin)
    if match is None:
        return None
    name = match[1].decode()
    folders = (found[1] for found in _FOLDER.finditer(cubin))
    folder = next((f for f in folders if f.endswith(b"/" + name[1:3].encode())), None)
    return name if folder is None else f"{folder.decode('utf-8', 'surrogateescape')}/{name}"


def _problem(path: Path, text: str) -> Event:
    return {"event": "problem", "where": str(path), "text": text}
