"""Every compile that Triton does, in this process: the hit in the cache as well as the miss."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Iterable
from typing import Any

from .. import private_names
from ..autotune import trials
from ..calls import triton_launches
from ..hooks import per_recording
from ..writer import blob, emit, file_blob, plain, problem
from . import triton_failures, triton_sources

_seen: set[str] = per_recording(set())
_refused: set[object] = per_recording(set())


def attach(module: Any) -> None:
    """Observe ``triton.compiler.compiler.compile`` before anybody has imported it by name.

    ``knobs.compilation.listener`` would be the public way; it is absent before Triton 3.4 and is
    a single slot, which stays the user's.
    """
    if not os.environ.get("PTXVIEW_COMPILE"):  # else ahead/calls.py has them recorded
        name = "triton.compiler.compiler:compile"
        private_names.wrap(name, triton_failures.Compile, _compile_ended)
    triton_failures.attach()
    private_names.wrap(
        "triton.compiler.compiler:CompiledKernel._init_handles", _loading, _loading_ended
    )


def _compile_ended(
    compile: triton_failures.Compile, kernel: Any, error: BaseException | None
) -> None:
    try:
        if error is None:
            trials.compiled(getattr(kernel, "hash", None), getattr(kernel, "name", None))
            record(kernel, compile.src, compile.began)
        elif isinstance(error, Exception):
            compile.failed(error)
    finally:
        compile.ended()


def record(kernel: Any, src: Any, began: float) -> None:
    """Record a kernel that Triton compiled or took from its cache."""
    metadata = kernel.metadata._asdict() if hasattr(kernel.metadata, "_asdict") else {}
    digest = str(metadata.get("hash") or getattr(kernel, "hash", ""))
    if digest in _seen:
        return
    _seen.add(digest)
    paths = _group(kernel, digest, str(metadata.get("name", getattr(src, "name", ""))))
    files: dict[str, str | None] = {}
    for extension, content in dict(kernel.asm).items():
        path = paths.get(extension)
        files[extension] = file_blob(path) if path and os.path.exists(path) else None
        if files[extension] is None and isinstance(content, str | bytes):
            files[extension] = blob(content)
    stages = triton_failures.end_stages()
    emit(
        {
            "event": "triton",
            "name": metadata.get("name"),
            "hash": digest,
            "cache_key": _cache_key(paths),
            # Another process may have compiled it a moment ago: files are as new as of a miss.
            "cache_hit": not stages if triton_failures.stages_watched() else _hit(paths, began),
            "metadata": plain(metadata),
            "files": files,
            "paths": paths,
            "began": began,
            "seconds": time.time() - began,
            "stage_seconds": stages,
            "made_by": triton_sources.made_by(),
            **triton_sources.source(src),
        }
    )


def record_cached(
    digest: str, name: str, source: dict[str, Any] | None = None, folders: Iterable[str] = ()
) -> None:
    """Record a kernel that was loaded from a cache without a call of ``compile``.

    ``folders`` are caches beside Triton's own: Inductor names its cache to Triton only when
    it compiles, and not when it loads.
    """
    if digest in _seen:
        return
    import json

    group = _cached_group(digest, name)
    paths = {os.path.splitext(k)[1][1:]: str(v) for k, v in group.items()}
    for folder in folders:
        if "json" not in paths:
            paths = _beside(folder, digest, name[:150])
    if "json" not in paths:
        problem("inductor launcher", f"the files of {name} ({digest[:8]}) are in no cache")
        return
    _seen.add(digest)
    with open(paths["json"], encoding="utf-8") as file:
        metadata = json.load(file)
    emit(
        {
            "event": "triton",
            "name": metadata.get("name", name),
            "hash": digest,
            "cache_key": _cache_key(paths),
            "cache_hit": True,
            "metadata": metadata,
            "files": {e: file_blob(p) for e, p in paths.items() if e != "json"},
            "paths": paths,
            "seconds": None,
            "made_by": triton_sources.made_by(),
            **(source or {}),
        }
    )


def _beside(folder: str, digest: str, name: str) -> dict[str, str]:
    """The files of a kernel in a cache, by extension; folders are named by the hash in base32."""
    import base64

    kernel_folder = os.path.join(
        folder, base64.b32encode(bytes.fromhex(digest)).decode().rstrip("=")
    )
    if not os.path.isdir(kernel_folder):
        return {}
    split = [
        os.path.splitext(name_in_folder) for name_in_folder in sorted(os.listdir(kernel_folder))
    ]
    return {e[1:]: os.path.join(kernel_folder, stem + e) for stem, e in split if stem == name and e}


def _group(kernel: Any, digest: str, name: str) -> dict[str, str]:
    """The files that the cache holds for a kernel, by extension."""
    group = getattr(kernel, "metadata_group", None)
    if not group:
        try:
            group = _cached_group(digest, name)
        except Exception:
            group = None
    return {os.path.splitext(k)[1][1:]: str(v) for k, v in (group or {}).items()}


def _cached_group(digest: str, name: str) -> dict[str, Any]:
    """The files of a kernel in Triton's own cache, by name; {} if it has none."""
    manager = private_names.get("triton.runtime.cache:get_cache_manager")
    return {} if manager is None else manager(digest).get_group(f"{name[:150]}.json") or {}


def _cache_key(paths: dict[str, str]) -> str | None:
    any_path = paths.get("json") or next(iter(paths.values()), None)
    return os.path.basename(os.path.dirname(any_path)) if any_path else None


def _hit(paths: dict[str, str], began: float) -> bool | None:
    # File systems keep times to a tick of the kernel's clock; a tick is at most 10 ms.
    try:
        return os.path.getmtime(paths["json"]) < began - 0.02
    except (KeyError, OSError):
        return None


def _loading(args: Any, kwargs: Any) -> Any:
    """The kernel that is about to be loaded; None if it already is."""
    (kernel,) = args
    return kernel if getattr(kernel, "module", None) is None else None


def _loading_ended(kernel: Any, _: object, error: BaseException | None) -> None:
    """Record the registers and spills that the driver reports when it loads a binary."""
    if kernel is None:
        return
    if error is None:
        loaded(
            kernel.hash,
            getattr(kernel, "n_regs", None),
            getattr(kernel, "n_spills", None),
            getattr(kernel, "n_max_threads", None),
        )
        watch(kernel)
    elif isinstance(error, Exception):
        digest = getattr(kernel, "hash", None)
        trials.compiled(digest, getattr(kernel, "name", None))
        trials.failed(error)
        not_loaded(digest, error)


def watch(kernel: Any) -> None:
    """Count the launches of a loaded kernel, which is recorded where a recording lacks it."""
    held = weakref.ref(kernel)
    triton_launches.watch(kernel, lambda: _record_again(held()))


def _record_again(kernel: Any) -> None:
    if kernel is not None and str(kernel.hash) not in _seen:
        record(kernel, kernel.src, time.time())
        loaded(
            kernel.hash,
            getattr(kernel, "n_regs", None),
            getattr(kernel, "n_spills", None),
            getattr(kernel, "n_max_threads", None),
        )


def not_loaded(digest: object, error: BaseException) -> None:
    """Record that the device refused a binary, which needs more of a resource than there is."""
    if digest and digest not in _refused:
        _refused.add(digest)
        emit(
            {
                "event": "not_loaded",
                "hash": str(digest),
                "error": trials.first_line(error),
                **triton_failures.exceeded(error),
            }
        )


def loaded(digest: object, registers: Any, spills: Any, threads: Any = None) -> None:
    """The loaded binary's own figures: ``n_spills`` is local memory a thread, in 4-byte words."""
    if os.environ.get("PTXVIEW_TARGET"):
        return
    emit(
        {
            "event": "loaded",
            "hash": str(digest),
            "registers": registers,
            "local_words": spills,
            "max_threads": threads,
        }
    )
    from . import device

    device.note()
