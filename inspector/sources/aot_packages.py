"""Reads AOTInductor's packages: a ``.pt2``, which is a zip, or the folder that it unpacks to.

``torch/export/pt2_archive/constants.py``: ``data/aotinductor/MODEL`` has what was generated for a
model: ``*.wrapper.cpp``, which is its output_code; each kernel's cubin beside it, and what else was
kept of it by that name (``.ptx``). With ``aot_inductor.emit_multi_arch_kernel`` it is a fat binary
(``.fatbin``), with the machine code of several architectures and PTX; with
``aot_inductor.embed_kernel_binary`` either is within the wrapper's library (``.so``), or within the
objects that are still to be linked. Weights and graphs as JSON are left alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from inspector.base.errors import PtxviewError, Unreadable
from inspector.base.model import Content
from inspector.listing import cubin
from inspector.listing.cubin import architecture, read_cubin
from inspector.recording import output_code
from inspector.recording.layout import BytesContent, FileContent
from inspector.sources.disassembly import FATBIN_MAGIC, Image, images, images_of
from inspector.system import files

Event = dict[str, object]
MODELS = Path("data") / "aotinductor"
WRAPPER = (".wrapper.cpp", "_wrapper.cpp")
LIBRARIES = (".so", ".o")
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
    written: dict[str, output_code.CppKernel] = {}
    for name in (n for n in names if n.endswith(WRAPPER)):
        path = model / name
        try:
            text = files.text(path, files.limits().text, inside=root)
        except Unreadable as error:
            yield _problem(path, error.message)
            continue
        written |= {kernel.name: kernel for kernel in output_code.kernels(text)}
        yield {
            "event": "graph",
            "path": str(path),
            "blob": FileContent(path, root),
            "id": model.name,
        }
    for name in (n for n in names if Path(n).suffix in (".cubin", ".fatbin", *LIBRARIES)):
        path = model / name
        try:
            with files.opened(path, inside=root) as file:
                for binary in _binaries(file, root, names):
                    event = _compiled(binary, written)
                    if event["files"]:
                        yield event
                    if "cubin" not in binary.contents:
                        yield _problem(path, "is a damaged cubin")
        except PtxviewError as error:
            yield _problem(path, error.message)


def of_library(file: files.File) -> Iterator[Event]:
    """What AOTInductor embedded in a library or an object, as events; nothing of another one.

    The wrapper's text is looked for beside it, by the library's own name.
    """
    cubin = list(_embedded(file))
    wrapper = file.path.with_suffix(".cpp")
    written: dict[str, output_code.CppKernel] = {}
    if cubin and wrapper.is_file():
        content = FileContent(wrapper, file.path.parent)
        text = files.text(wrapper, files.limits().text, inside=file.path.parent)
        if output_code.is_wrapper(text):
            written = {kernel.name: kernel for kernel in output_code.kernels(text)}
            yield {"event": "graph", "path": str(wrapper), "blob": content, "id": wrapper.stem}
    yield from (_compiled(binary, written) for binary in cubin)


@dataclass(frozen=True, slots=True)
class _Binary:
    """A kernel's machine code, by the name that it goes by, with what else is there of it."""

    stem: str
    path: Path
    data: bytes
    contents: Mapping[str, Content]


def _binaries(file: files.File, root: Path, names: list[str]) -> Iterator[_Binary]:
    """The kernels' binaries that a file of a model's folder is, or has within it."""
    path = file.path
    if path.suffix == ".cubin":
        data = file.whole()
        stem = path.name.removesuffix(".cubin")
        contents: dict[str, Content] = {}
        if read_cubin(data) is not None:
            contents["cubin"] = FileContent(path, root)
        yield _Binary(stem, path, data, contents | _beside(path, stem, root, names))
    elif path.suffix == ".fatbin":
        stem = path.name.removesuffix(".fatbin")
        beside = _beside(path, stem, root, names)
        for binary in _of_fatbin(images(path), stem, path):
            yield replace(binary, contents={**binary.contents, **beside})
    elif path.suffix in LIBRARIES:
        for binary in _embedded(file):
            yield replace(
                binary,
                contents={**_beside(path, binary.stem, root, names), **binary.contents},
            )


def _beside(path: Path, stem: str, root: Path, names: list[str]) -> dict[str, Content]:
    """The texts that go by a kernel's name."""
    return {
        kind: FileContent(path.with_name(stem + ending), root)
        for ending, kind in KINDS.items()
        if stem + ending in names
    }


def _embedded(file: files.File) -> Iterator[_Binary]:
    """The kernels' binaries within a library or an object."""

    def read(offset: int, size: int) -> bytes:
        file.seek(offset)
        return file.take(size)

    allowance = files.Allowance()
    for one in cubin.binaries(read):
        allowance.take(one.size, f"{one.name} of {file.path}")
        data = read(one.offset, one.size)
        if read_cubin(data) is not None:
            yield _Binary(one.name, file.path, data, {"cubin": BytesContent(data)})
        elif data.startswith(FATBIN_MAGIC):
            yield from _of_fatbin(images_of(data, f"{one.name}.fatbin"), one.name, file.path)


def _of_fatbin(found: Sequence[Image], stem: str, path: Path) -> Iterator[_Binary]:
    """A binary for each architecture that a fat binary has machine code of, with its PTX."""
    texts = [image for image in found if image.is_ptx]
    for image in found:
        if image.is_ptx or read_cubin(image.data) is None:
            continue
        same = [text for text in texts if text.arch == image.arch] or texts[:1]
        contents: dict[str, Content] = {"cubin": BytesContent(image.data)}
        if same:
            contents["ptx"] = BytesContent(same[0].data.rstrip(b"\0"))
        yield _Binary(stem, path, image.data, contents)


def _compiled(binary: _Binary, written: Mapping[str, output_code.CppKernel]) -> Event:
    """A kernel's machine code and what goes by its name, as a compile of Triton's."""
    stem, data = binary.stem, binary.data
    # With several architectures a file's name has one after the kernel's.
    ends = range(len(stem), 0, -1)
    kernel = next((written[stem[:end]] for end in ends if stem[:end] in written), None)
    arch = architecture(data)
    metadata: dict[str, object] = {"name": stem if kernel is None else kernel.name}
    if arch is not None:
        metadata["target"] = {"backend": "cuda", "arch": int(arch.removeprefix("sm_"))}
    paths = {
        kind: str(content.path if isinstance(content, FileContent) else binary.path)
        for kind, content in binary.contents.items()
    }
    event: Event = {
        "event": "triton",
        "hash": hashlib.sha256(data).hexdigest(),
        "files": dict(binary.contents),
        "paths": paths,
        "source": {"file": generated_file(data) or str(binary.path)},
    }
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
