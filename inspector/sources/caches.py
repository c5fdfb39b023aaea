"""Reads existing caches: Triton's, Inductor's, build folders of extensions, AOTInductor packages.

Pickles are never loaded: Inductor's ``fxgraph`` and ``aotautograd`` entries are ignored. An
AOTInductor package is a ``.pt2`` (a zip) or the folder that it unpacks to
(``torch/export/pt2_archive/constants.py``): ``data/aotinductor/MODEL`` has ``*.wrapper.cpp``, which
is a model's output_code, and each kernel's cubin with the files of its name (``.ptx``). With
``aot_inductor.emit_multi_arch_kernel`` it is a fat binary (``.fatbin``) for several architectures;
with ``aot_inductor.embed_kernel_binary`` either is within the wrapper's library or objects.
"""

import hashlib
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from inspector.base.errors import PtxviewError, Unreadable
from inspector.base.model import Content
from inspector.parsers import output_code
from inspector.parsers.cubin import architecture, embedded_binaries, read_cubin
from inspector.recording.autotune import configuration
from inspector.recording.decoding import as_map, as_seconds
from inspector.recording.layout import BytesContent, FileContent
from inspector.recording.variants import CONFIG
from inspector.sources import traces
from inspector.sources.disassembly import (
    FATBIN_MAGIC,
    Image,
    carries_device_code,
    images,
    images_of,
)
from inspector.sources.traces import Event
from inspector.system import files

# What the caches of Triton and Inductor keep of autotuning, as events. Both are JSON.

BEST_CONFIG = ".best_config"
TIMINGS = ".autotune.json"
# What Inductor writes into a .best_config beside the configuration itself.
_NOT_CONFIG = frozenset(
    {
        "configs_hash",
        "extra_options",
        "found_by_coordesc",
        "num_buffers_warp_spec",
        "num_consumer_groups",
        "time_saved_ns",
        "time_taken_ms",
        "triton_cache_hash",
    }
)


def from_file(path: Path, inside: Path, scripts: Sequence[str]) -> Iterator[dict[str, object]]:
    """The tuning that a ``.best_config`` of Inductor's or a ``.autotune.json`` of Triton's holds.

    The file is in the folder ``inside``, which was opened. A ``.best_config`` has the winner
    without its time: ``time_taken_ms`` is how long tuning took. ``scripts`` are the names of the
    Python files in its folder.
    """
    stored = as_map(_json(path, inside, None, str(path)))
    event = _best(scripts, stored) if path.name.endswith(BEST_CONFIG) else _timings(path, stored)
    if event is None:
        yield _problem(path, "holds no tuning: half-written, or foreign")
    else:
        yield {"event": "autotune", "from_cache": True, "kept": True, **event}


def _json(path: Path, root: Path, allowance: files.Allowance | None, description: str) -> object:
    """The content of a file of JSON. Raises ``Unreadable``."""
    try:
        return files.parsed(
            files.read(path, files.limits().line, inside=root), allowance, description
        )
    except ValueError:
        raise Unreadable("is no JSON: truncated, or half-written") from None


def _best(scripts: Sequence[str], stored: Mapping[str, object]) -> dict[str, object] | None:
    config = {k: v for k, v in stored.items() if k not in _NOT_CONFIG}
    if not isinstance(stored.get("num_warps"), int):
        return None
    # Without the winner's hash, the kernel's file is the only Python file beside it, if any.
    milliseconds = as_seconds(stored.get("time_taken_ms"))
    return {
        "by": "inductor",
        "file": scripts[0] if len(scripts) == 1 else None,
        "method": "coordinate descent" if stored.get("found_by_coordesc") is True else None,
        "seconds": None if milliseconds is None else milliseconds / 1000,
        "configurations": [{"config": config, "cache_key": stored.get("triton_cache_hash")}],
        "winner": 0,
    }


def _timings(path: Path, stored: Mapping[str, object]) -> dict[str, object] | None:
    """The fields of a tuning from Triton's own cache; None for any other file."""
    pairs = stored.get("configs_timings")
    configurations: list[dict[str, object]] = []
    for pair in pairs if isinstance(pairs, list) else []:
        match pair:
            case [dict(config), times]:
                configurations.append(_timed_configuration(config, times))
            case _:
                return None
    if not configurations:
        return None
    medians = [configuration(c, "triton").time_us for c in configurations]
    measured = [t for t in medians if t is not None]
    return {
        "by": "triton",
        "name": path.name[: -len(TIMINGS)],
        "key": stored.get("key"),
        "configurations": configurations,
        "winner": medians.index(min(measured)) if measured else None,
    }


def _timed_configuration(stored: Mapping[str, object], times: object) -> dict[str, object]:
    """One configuration with its times: a list of quantiles in ms, or the median alone."""
    constants = as_map(stored.get("kwargs"))
    names = {*constants, *CONFIG, "ir_override"}
    config = {**constants, **stored}
    times_ms = times if isinstance(times, list) else [times]
    failed = bool(times_ms) and all(time == math.inf for time in times_ms)
    return {
        "config": {k: v for k, v in config.items() if v is not None and k in names},
        "times_ms": times_ms,
        "reason": "failed when it was measured, in another run" if failed else None,
    }


KNOWN = {".source", ".ttir", ".ttgir", ".llir", ".ptx", ".cubin"}
PICKLES = {"fxgraph", "aotautograd"}
MAX_DEPTH = 6
MAX_FOLDERS = 200_000
GROUP = "__grp__"


def scan(root: Path, allowance: files.Allowance | None = None) -> Iterator[Event]:
    """Events of every known file under a folder, and a ``problem`` for each damaged one. The memory
    that they take is drawn from the ``allowance``."""
    taking = allowance or files.Allowance()
    names_left = taking.limits.names
    pending = [(root, 0)]
    deeper: Path | None = None
    folders = 0
    while pending:
        directory, depth = pending.pop()
        folders += 1
        if folders > MAX_FOLDERS:
            yield _problem(root, f"more than {MAX_FOLDERS} folders; the rest was not looked at")
            return
        try:
            entries, cut = files.names(directory, names_left)
        except Unreadable as error:
            yield _problem(directory, error.message)
            continue
        names_left -= len(entries)
        below: list[Path] = []
        names: list[str] = []
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                below += [directory / entry.name] if entry.name not in PICKLES else []
            elif entry.name.endswith((*KNOWN, ".best_config", ".json", ".py", ".log", ".ninja")):
                if (why := _why_not(entry, root)) is None:
                    names.append(entry.name)
                elif why:
                    yield _problem(directory / entry.name, why)
            elif entry.name.startswith(GROUP):
                names.append(entry.name)
        yield from _folder(directory, names, root, taking)
        if cut:
            yield _problem(root, files.more_names(root, taking.limits))
            return
        if depth < MAX_DEPTH:
            pending.extend((folder, depth + 1) for folder in reversed(below))
        elif below and deeper is None:
            deeper = below[0]
    if deeper is not None:
        yield _problem(root, f"folders deeper than {MAX_DEPTH} levels were not looked at: {deeper}")


def _why_not(entry: os.DirEntry[str], root: Path) -> str | None:
    """Why a file of a folder is not read, "" if nobody misses it; None where it is."""
    with suppress(OSError):  # a link in a circle
        if entry.is_file():
            leads_out = entry.is_symlink() and files.leads_out(Path(entry.path), root)
            return (
                f"is a link that leads out of {root}, and was not followed" if leads_out else None
            )
    return files.unreadable_reason(Path(entry.path), follow=True) or ""


def _folder(
    directory: Path, names: list[str], root: Path, allowance: files.Allowance
) -> Iterator[Event]:
    """The events of the files of one folder; a damaged file costs a problem, not the others."""
    stages = _stage_files(names)
    tunings = [n for n in names if n.endswith((BEST_CONFIG, TIMINGS)) and not n.startswith(GROUP)]
    metadata = [n for n in names if _is_metadata(n)]
    has_group = any(n.startswith(GROUP) for n in names)
    if stages and not metadata and not tunings and has_group:
        yield _problem(directory, "Triton's metadata is missing: a half-written entry")
    if "build.ninja" in names:
        yield {"event": "build_folder", "directory": str(directory)}
    readers: list[tuple[str, Iterator[Event]]] = []
    if stages:
        for name in metadata:
            stage_names = stages.get(name.removesuffix(".json"), [])
            readers.append((name, _triton(directory, name, stage_names, root, allowance)))
    scripts = [n for n in names if n.endswith(".py")]
    readers.extend((name, from_file(directory / name, root, scripts)) for name in tunings)
    readers.extend(_inductor_readers(directory, names, root))
    for name, events in readers:
        try:
            yield from events
        except Unreadable as error:
            yield _problem(directory / name, error.message)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            yield _problem(directory / name, f"is not as torch writes it: {type(error).__name__}")


def _inductor_readers(
    directory: Path, names: Iterable[str], root: Path
) -> Iterator[tuple[str, Iterator[Event]]]:
    """The files of Inductor's code and of torch's traces, each with the reader of its events."""
    for name in names:
        if _INDUCTOR_CODE.fullmatch(name):
            yield name, _inductor(directory / name, root)
        elif name.endswith(".log") and "torch_trace" in name:
            yield name, traces.from_torch_trace(directory / name, root)


_INDUCTOR_CODE = re.compile(r"c[a-z2-7]{51}\.py")
"""A name by Inductor: a base32 digest of 51 letters with a "c" before it."""


def _stage_files(names: Iterable[str]) -> dict[str, list[str]]:
    """The files of Triton's stages among ``names``, by their stems."""
    out: dict[str, list[str]] = {}
    for name in names:
        stem, suffix = os.path.splitext(name)  # noqa: PTH122  a Path for each takes ten times as long
        if suffix in KNOWN:
            out.setdefault(stem, []).append(name)
    return out


def _is_metadata(name: str) -> bool:
    """Whether a file of Triton's cache is the metadata of one kernel."""
    return name.endswith(".json") and not name.endswith(TIMINGS) and not name.startswith(GROUP)


def _triton(
    directory: Path, name: str, file_names: list[str], root: Path, allowance: files.Allowance
) -> Iterator[Event]:
    """``file_names``: the files of the metadata's own name."""
    metadata = _json(directory / name, root, allowance, name)
    if not isinstance(metadata, dict) or not isinstance(metadata.get("hash"), str):
        if file_names:
            yield _problem(directory / name, "is not Triton's metadata: half-written, or foreign")
        return
    contents: dict[str, FileContent] = {}
    for file in (directory / file_name for file_name in file_names):
        try:
            size = file.stat().st_size
        except OSError as error:
            yield _problem(file, f"cannot be read: {error.strerror}")
            continue
        if size == 0:
            yield _problem(file, "is empty")
            continue
        if (
            size > allowance.limits.one
            and (why := files.unreadable_reason(file, follow=True)) is not None
        ):
            yield _problem(file, why)
        contents[file.suffix[1:]] = FileContent(file, root)
    if contents:
        yield {
            "event": "triton",
            "name": metadata.get("name") or name.removesuffix(".json"),
            "hash": metadata.get("hash"),
            "cache_key": directory.name,
            "metadata": metadata,
            "files": contents,
            "paths": {kind: str(content.path) for kind, content in contents.items()},
        }


def _inductor(path: Path, root: Path) -> Iterator[Event]:
    if output_code.is_output_code(files.text(path, files.limits().text, inside=root)):
        yield {"event": "graph", "path": str(path), "blob": FileContent(path, root)}


def objects(directory: Path, say: Callable[[str], None]) -> list[Path]:
    """The files of a build folder that hold device code: objects, else libraries. ``say`` is called
    with a sentence for each file that was left out. Raises ``Unreadable``."""
    entries, truncated = files.names(directory)
    if truncated:
        say(files.more_names(directory, files.limits()))
    for suffixes in ((".o", ".obj"), (".so",), (".fatbin", ".cubin")):
        matches = []
        named = (e for e in entries if e.name.endswith(suffixes) and not e.is_dir())
        for file in (directory / entry.name for entry in named):
            try:
                with files.opened(file, inside=directory) as opened:
                    if suffixes[0] == ".fatbin" or carries_device_code(opened):
                        matches.append(file)
            except Unreadable as error:
                say(error.message)
        if matches:
            return matches
    return []


def _problem(path: Path, text: str) -> Event:
    return {"event": "problem", "where": str(path), "text": text.removeprefix(f"{path} ")}


WRAPPER = (".wrapper.cpp", "_wrapper.cpp")
LIBRARIES = (".so", ".o")


def models(root: Path) -> list[Path]:
    """The folders of models that an unpacked package, or a folder of one model, has."""
    place = root / "data" / "aotinductor"
    if place.is_dir() and not place.is_symlink():
        return [place / e.name for e in files.names(place)[0] if e.is_dir(follow_symlinks=False)]
    return [root] if any(e.name.endswith(WRAPPER) for e in files.names(root)[0]) else []


def events(model: Path, root: Path) -> Iterator[Event]:
    """What a model's folder holds, as events: its graph, and a compile of Triton's a cubin."""
    names = [e.name for e in files.names(model)[0] if e.is_file(follow_symlinks=False)]
    written: dict[str, output_code.KernelText] = {}
    for path in (model / n for n in names if n.endswith(WRAPPER)):
        try:
            text = files.text(path, files.limits().text, inside=root)
        except Unreadable as error:
            yield _problem(path, error.message)
            continue
        written |= {kernel.name: kernel for kernel in output_code.cpp_kernels(text)}
        yield _graph(path, root, model.name)
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
    """What AOTInductor embedded in a library or an object, as events; nothing of another one. The
    wrapper's text is looked for beside it, by the library's own name."""
    embedded = list(_embedded(file))
    wrapper, folder = file.path.with_suffix(".cpp"), file.path.parent
    written: dict[str, output_code.KernelText] = {}
    if embedded and wrapper.is_file():
        text = files.text(wrapper, files.limits().text, inside=folder)
        if output_code.is_cpp(text):
            written = {kernel.name: kernel for kernel in output_code.cpp_kernels(text)}
            yield _graph(wrapper, folder, wrapper.stem)
    yield from (_compiled(binary, written) for binary in embedded)


def _graph(path: Path, root: Path, name: str) -> Event:
    return {"event": "graph", "path": str(path), "blob": FileContent(path, root), "id": name}


class _Binary(Struct, frozen=True):
    """A kernel's machine code, by the name that it goes by, with what else is there of it."""

    stem: str
    path: Path
    data: bytes
    contents: Mapping[str, Content]


def _binaries(file: files.File, root: Path, names: list[str]) -> Iterator[_Binary]:
    """The kernels' binaries that a file of a model's folder is, or has within it."""
    path = file.path
    if path.suffix == ".cubin":
        data = file.read_all()
        contents = {"cubin": FileContent(path, root)} if read_cubin(data) is not None else {}
        kernel_binaries: Iterable[_Binary] = [_Binary(path.stem, path, data, contents)]
    elif path.suffix == ".fatbin":
        kernel_binaries = _of_fatbin(images(path), path.stem, path)
    else:
        kernel_binaries = _embedded(file)
    for binary in kernel_binaries:
        texts: dict[str, Content] = {  # the texts that go by the kernel's name
            kind: FileContent(path.with_name(f"{binary.stem}.{kind}"), root)
            for kind in ("ptx", "ttir", "ttgir", "llir")
            if f"{binary.stem}.{kind}" in names
        }
        yield replace(binary, contents={**binary.contents, **texts})


def _embedded(file: files.File) -> Iterator[_Binary]:
    """The kernels' binaries within a library or an object."""

    def read(offset: int, size: int) -> bytes:
        file.seek(offset)
        return file.take(size)

    allowance = files.Allowance()
    for entry in embedded_binaries(read):
        allowance.take(entry.size, f"{entry.name} of {file.path}")
        data = read(entry.offset, entry.size)
        if read_cubin(data) is not None:
            yield _Binary(entry.name, file.path, data, {"cubin": BytesContent(data)})
        elif data.startswith(FATBIN_MAGIC):
            yield from _of_fatbin(images_of(data, f"{entry.name}.fatbin"), entry.name, file.path)


def _of_fatbin(device_images: Sequence[Image], stem: str, path: Path) -> Iterator[_Binary]:
    """A binary for each architecture that a fat binary has machine code of, with its PTX."""
    texts = [image for image in device_images if image.is_ptx]
    for image in device_images:
        if image.is_ptx or read_cubin(image.data) is None:
            continue
        same = [text for text in texts if text.arch == image.arch] or texts[:1]
        ptx = {"ptx": BytesContent(same[0].data.rstrip(b"\0"))} if same else {}
        yield _Binary(stem, path, image.data, {"cubin": BytesContent(image.data), **ptx})


def _compiled(binary: _Binary, written: Mapping[str, output_code.KernelText]) -> Event:
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
    if kernel is not None:
        launched = {"num_warps": kernel.warps, "shared": kernel.shared}
        metadata |= {name: value for name, value in launched.items() if value is not None}
    return {
        "event": "triton",
        "name": metadata["name"],
        "hash": hashlib.sha256(data).hexdigest(),
        "metadata": metadata,
        "files": dict(binary.contents),
        "paths": paths,
        "source": {"file": _generated_file(data) or str(binary.path)},
        "signature": dict(kernel.signature or {}) if kernel is not None else {},
    }


def _generated_file(cubin: bytes) -> str | None:
    if (match := re.search(rb"\0(c[a-z2-7]{51}\.py)\0", cubin)) is None:
        return None
    name = match[1].decode()
    folders = (folder_match[1] for folder_match in re.finditer(rb"\0(/[^\0]{1,4096})(?=\0)", cubin))
    folder = next((f for f in folders if f.endswith(b"/" + name[1:3].encode())), None)
    return name if folder is None else f"{folder.decode('utf-8', 'surrogateescape')}/{name}"
