"""Every compile that Triton does, in this process: the hit in the cache as well as the miss."""

from __future__ import annotations

import functools
import linecache
import os
import sys
import time
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from .. import private_names
from ..autotune import trials
from ..calls import triton_launches
from ..hooks import unseen
from ..writer import blob, emit, file_blob, plain, problem
from . import triton_failures, triton_phases

# Functions that are looked at for what a kernel needs.
MOST_REACHED = 256
_seen: set[str] = set()
_refused: set[object] = set()


def attach(module: Any) -> None:
    """Wrap ``triton.compiler.compiler.compile`` before anybody has imported it by name.

    ``knobs.compilation.listener`` would be the public way; it is absent before Triton 3.4 and is
    a single slot, which stays the user's.
    """
    private_names.wrap("triton.compiler.compiler:compile", _watched)
    triton_phases.attach()
    private_names.wrap("triton.compiler.compiler:CompiledKernel._init_handles", _watch_loading)


def _watched(original: Any) -> Any:
    @functools.wraps(original)
    def compile(src: Any, *args: Any, **kwargs: Any) -> Any:
        began = time.time()
        try:
            with triton_failures.watched(src, args, kwargs):
                kernel = original(src, *args, **kwargs)
        except BaseException as error:
            unseen(error)
            raise
        try:
            trials.compiled(getattr(kernel, "hash", None), getattr(kernel, "name", None))
            _record(kernel, src, began)
        except Exception as error:
            problem("triton compile", error)
        return kernel

    return compile


def _record(kernel: Any, src: Any, began: float) -> None:
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
    stages = triton_phases.ended()
    emit(
        {
            "event": "triton",
            "name": metadata.get("name"),
            "hash": digest,
            "cache_key": _cache_key(paths),
            # Another process may have compiled it a moment ago: files are as new as of a miss.
            "cache_hit": not stages if triton_phases.watched() else _hit(paths, began),
            "metadata": plain(metadata),
            "files": files,
            "paths": paths,
            "began": began,
            "seconds": time.time() - began,
            "stage_seconds": stages,
            "made_by": made_by(),
            **_source(src),
        }
    )


def record_cached(
    digest: str, name: str, source: dict[str, Any] | None = None, folders: Iterable[str] = ()
) -> None:
    """Record a kernel that was loaded from a cache without a call of ``compile``.

    ``folders`` are caches beside Triton's own: Inductor names one of its own to Triton only when
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
            "made_by": made_by(),
            **(source or {}),
        }
    )


def made_by() -> dict[str, str]:
    """The versions of what compiles in this process; what is cached is of the same ones."""
    modules = ((name, sys.modules.get(name)) for name in ("torch", "triton"))
    versions = {name: getattr(module, "__version__", None) for name, module in modules}
    return {name: str(version) for name, version in versions.items() if version}


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


def _source(src: Any) -> dict[str, Any]:
    """Where the kernel's Python stands, and how its arguments were specialised."""
    out: dict[str, Any] = {
        "signature": {str(k): str(v) for k, v in (getattr(src, "signature", None) or {}).items()},
        "constexprs": _constexprs(src),
        "specialization": _attributes(src),
        "declared": _declared(src),
    }
    function = getattr(src, "fn", None)
    python = getattr(function, "fn", None)
    code = getattr(python, "__code__", None)
    if code is not None:
        path = code.co_filename
        digest = file_blob(path) if os.path.isfile(path) else None
        if digest is None:
            # Typed in at a prompt or made by exec: what linecache or Triton kept of it.
            text = "".join(linecache.getlines(path))
            digest = blob(text) if text else None
        lines = getattr(function, "raw_src", None) or str(getattr(function, "src", "")).splitlines()
        start = getattr(function, "starting_line_number", None) or code.co_firstlineno
        out["source"] = {
            "file": os.path.abspath(path) if os.path.isfile(path) else path,
            "blob": digest,
            "first": start,
            "last": start + max(len(lines) - 1, 0),
            "cut": blob("".join(lines)) if digest is None and lines else None,
            **_reached([function, *_passed(src)]),
        }
    return out


def _passed(src: Any) -> list[Any]:
    """Jitted functions among the values that were compiled in."""
    constants = getattr(src, "constants", None) or getattr(src, "constexprs", None) or {}
    values = [getattr(v, "value", v) for v in dict(constants).values()]
    return [v for v in values if hasattr(v, "fn")]


def _reached(waiting: list[Any]) -> dict[str, Any]:
    """The files of jitted functions and of those that they call, and globals of them by value."""
    files: dict[str, str | None] = {}
    values: dict[str, dict[str, Any]] = {}
    seen: set[Any] = set()
    while waiting and len(seen) < MOST_REACHED:
        python: Any = getattr(waiting.pop(), "fn", None)
        code = getattr(python, "__code__", None)
        if code is None or code in seen or _own(getattr(python, "__module__", None)):
            continue
        seen.add(code)
        path = os.path.abspath(code.co_filename)
        if path not in files and os.path.isfile(path):
            files[path] = file_blob(path)
        names, space = code.co_names, python.__globals__
        for name in names:
            value = space.get(name)
            if isinstance(value, ModuleType):
                within = [] if _own(value.__name__) else [getattr(value, n, None) for n in names]
                waiting += [v for v in within if hasattr(v, "fn")]
            elif hasattr(value, "fn"):
                waiting.append(value)
            elif name in space:
                number = value.value if type(value).__name__ == "constexpr" else value
                if number is None or isinstance(number, bool | int | float | str):
                    values.setdefault(path, {})[name] = number
    return {"files": files, "globals": values}


def _own(module: object) -> bool:
    """Whether a module is Triton's or torch's, which whoever runs a kernel has."""
    return str(module).partition(".")[0] in ("triton", "torch")


def _names(src: Any) -> list[str]:
    return [str(n) for n in getattr(getattr(src, "fn", None), "arg_names", ())]


def _by_name(src: Any, items: dict[Any, Any]) -> dict[str, Any]:
    """Keys are names, indices, or paths of indices, by version of Triton; names come out."""
    names = _names(src)
    out = {}
    for key, value in items.items():
        path = key if isinstance(key, tuple) else (key,)
        first = path[0] if path else key
        if isinstance(first, int) and first < len(names):
            out[names[first] + "".join(f"[{i}]" for i in path[1:])] = plain(value)
        else:
            out[str(key)] = plain(value)
    return out


def _constexprs(src: Any) -> dict[str, Any]:
    constants = getattr(src, "constants", None) or getattr(src, "constexprs", None) or {}
    return _by_name(src, dict(constants)) if hasattr(constants, "items") else {}


def _declared(src: Any) -> list[str] | None:
    """Names of the arguments that the kernel itself declares ``tl.constexpr``."""
    params = getattr(getattr(src, "fn", None), "params", None)
    if params is None:
        return None
    return [str(p.name) for p in params if getattr(p, "is_constexpr", False)]


def _attributes(src: Any) -> dict[str, Any]:
    attributes: Any = getattr(src, "attrs", None)
    if hasattr(attributes, "items"):
        return _by_name(src, dict(attributes))
    # Triton 3.2 keeps an object with the properties' argument indices.
    out: dict[str, Any] = {}
    for name in ("divisible_by_16", "divisibility_16", "equal_to_1"):
        if getattr(attributes, name, None):
            out[name] = [n for i, n in enumerate(_names(src)) if i in getattr(attributes, name)]
    return out


def _watch_loading(original: Any) -> Any:
    """Record the registers and spills that the driver reports when it loads a binary."""

    @functools.wraps(original)
    def init_handles(self: Any) -> Any:
        if getattr(self, "module", None) is not None:
            return original(self)
        try:
            result = original(self)
        except Exception as error:
            trials.compiled(getattr(self, "hash", None), getattr(self, "name", None))
            trials.failed(error)
            not_loaded(getattr(self, "hash", None), error)
            unseen(error)
            raise
        try:
            loaded(self.hash, getattr(self, "n_regs", None), getattr(self, "n_spills", None),
                   getattr(self, "n_max_threads", None))  # fmt: skip
            triton_launches.watch(self)
        except Exception as error:
            problem("triton load", error)
        return result

    return init_handles


def not_loaded(digest: object, error: BaseException) -> None:
    """Record that the device refused a binary, which needs more of a resource than there is."""
    try:
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
    except Exception as failure:
        problem("triton load", failure)


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
