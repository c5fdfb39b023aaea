"""Every compile that Triton does, in this process: the hit in the cache as well as the miss."""

import base64
import hashlib
import json
import linecache
import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any, NamedTuple

from .. import private_names
from ..autotune import inductor
from ..autotune.triton_tuner import compiled, failed, first_line
from ..calls import call_counts, triton_launches
from ..cross_compile import diagnostics
from ..hooks import CallHook, argument, observed, per_recording, succeeded
from ..writer import blob, emit, file_blob, json_value, problem, withdraw, write_provisional

# Functions that are looked at for what a kernel needs.
MAX_FUNCTIONS = 256


def source(src: Any) -> dict[str, Any]:
    """Where the kernel's Python stands, and how its arguments were specialised."""
    out: dict[str, Any] = {
        "signature": {str(k): str(v) for k, v in (getattr(src, "signature", None) or {}).items()},
        "constexprs": constexprs(src),
        "specialization": attributes(src),
        "declared": _declared(src),
    }
    function = getattr(src, "fn", None)
    code = getattr(getattr(function, "fn", None), "__code__", None)
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
            "objects": _objects(src),
            # Jitted functions may be among the values that were compiled in.
            **_reached([function, *(getattr(v, "value", v) for v in _constants(src).values())]),
        }
    return out


def _reached(waiting: list[Any]) -> dict[str, Any]:
    """The files of jitted functions and of those that they call, and globals of them by value."""
    files: dict[str, str | None] = {}
    values: dict[str, dict[str, Any]] = {}
    visited: set[Any] = set()
    while waiting and len(visited) < MAX_FUNCTIONS:
        python: Any = getattr(waiting.pop(), "fn", None)
        code = getattr(python, "__code__", None)
        if code is None or code in visited or _is_library(getattr(python, "__module__", None)):
            continue
        visited.add(code)
        path = os.path.abspath(code.co_filename)
        if path not in files and os.path.isfile(path):
            files[path] = file_blob(path)
        names = code.co_names
        space = python.__globals__
        for name in names:
            value = space.get(name)
            if isinstance(value, ModuleType):
                waiting += _functions_in(value, names)
            elif hasattr(value, "fn"):
                waiting.append(value)
            elif name in space:
                number = value.value if type(value).__name__ == "constexpr" else value
                if number is None or isinstance(number, bool | int | float | str):
                    values.setdefault(path, {})[name] = number
    return {"files": files, "globals": values}


def _functions_in(module: ModuleType, names: Iterable[str]) -> list[Any]:
    """The jitted functions of a module of the user's that have one of these names."""
    if _is_library(module.__name__):
        return []
    members = [getattr(module, name, None) for name in names]
    return [member for member in members if hasattr(member, "fn")]


def _is_library(module: object) -> bool:
    """Whether a module is Triton's or torch's, which every user of a kernel has."""
    return str(module).partition(".")[0] in ("triton", "torch")


def _names(src: Any) -> list[str]:
    return [str(n) for n in getattr(getattr(src, "fn", None), "arg_names", ())]


def _constants(src: Any) -> dict[Any, Any]:
    return dict(getattr(src, "constants", None) or getattr(src, "constexprs", None) or {})


def constexprs(src: Any) -> dict[str, Any]:
    """The values that were compiled in, by the names of arguments."""
    return dict(json_value(triton_launches.by_name(_names(src), _constants(src))))


def _objects(src: Any) -> dict[str, str]:
    """The types of values that were compiled in and that JSON cannot hold, by names of arguments.

    Those are the program's own: enumerations, dataclasses, named tuples.
    """
    values = triton_launches.by_name(_names(src), _constants(src))
    types = {name: _object_type(value) for name, value in values.items()}
    return {name: kind for name, kind in types.items() if kind is not None}


def _object_type(value: Any) -> str | None:
    """The name of a type of the program's in a value; None without one."""
    kind = type(value)
    if kind.__name__ == "constexpr":
        return _object_type(value.value)
    if kind in (list, tuple):
        return next(filter(None, map(_object_type, value)), None)
    is_plain = value is None or isinstance(value, bool | int | float | str)
    is_known = kind.__module__ == "builtins" or _is_library(kind.__module__)
    return None if is_plain or is_known else kind.__name__


def _declared(src: Any) -> list[str] | None:
    """Names of the arguments that the kernel itself declares ``tl.constexpr``."""
    params = getattr(getattr(src, "fn", None), "params", None)
    if params is None:
        return None
    return [str(p.name) for p in params if getattr(p, "is_constexpr", False)]


def attributes(src: Any) -> dict[str, Any]:
    attributes: Any = getattr(src, "attrs", None)
    if hasattr(attributes, "items"):
        return dict(json_value(triton_launches.by_name(_names(src), dict(attributes))))
    # Triton 3.2 keeps an object with the properties' argument indices.
    kinds = ("divisible_by_16", "divisibility_16", "equal_to_1")
    out: dict[str, Any] = {}
    for kind in kinds:
        indices = getattr(attributes, kind, None)
        if indices:
            out[kind] = [name for index, name in enumerate(_names(src)) if index in indices]
    return out


def compiler_versions() -> dict[str, str]:
    """The versions of what compiles in this process; what is cached is of the same ones."""
    modules = ((name, sys.modules.get(name)) for name in ("torch", "triton"))
    versions = {name: getattr(module, "__version__", None) for name, module in modules}
    return {name: str(version) for name, version in versions.items() if version}


STAGES = ("source", "ttir", "ttgir", "llir", "ptx")
"""What Triton's cache holds of a kernel before its machine code; ``source`` is TTIR as it was
before the first pass."""
MAX_LOG_CHARACTERS = 20_000
_COMMAND = re.compile(r"^Repro command: (.{1,8000})$", re.MULTILINE)
_recorded_failures: set[str] = per_recording(set())
# Of the compile under way: stages ([name, seconds]), making (the BegunStage that was begun last),
# digest (Triton's hash of it), missed (what is called where it is in no cache).
_now = threading.local()


class BegunStage(NamedTuple):
    """A stage that Triton makes, with Triton's metadata and what the stage is made of."""

    name: str
    metadata: dict[str, Any]
    source: Any


class Compile:
    """A call of ``compile(src, target, options)`` under way in this thread.

    Its event is in a separate file until the call returns: LLVM may end the process.
    """

    def __init__(self, args: Any, kwargs: Any) -> None:
        bound = dict(zip(("src", "target", "options"), args, strict=False)) | kwargs
        self.src = bound["src"]
        options = bound.get("options")
        target = bound.get("target")
        # The target and the options that Triton was asked for, where it has no metadata yet.
        self.requested = dict(json_value(options)) if isinstance(options, dict) else {}
        if getattr(target, "arch", None) is not None:
            backend = getattr(target, "backend", None)
            self.requested["target"] = {"backend": backend, "arch": json_value(target.arch)}
        self.began = time.time()
        self._provisional_path: str | None = None
        _now.__dict__.clear()
        _now.missed = self._missed

    def _missed(self) -> None:
        """Note a compilation that is in no cache: LLVM may end the process at any stage."""
        digest = self._digest()
        self._provisional_path = write_provisional(
            {
                "event": "triton_failed",
                "name": str(getattr(self.src, "name", "") or "").lstrip("@"),
                "hash": digest,
                "metadata": self.requested,
                "made_by": compiler_versions(),
                "folder": getattr(_manager(digest), "cache_dir", None),
                "began": self.began,
                **source(self.src),
            }
        )

    def ended(self, kernel: Any, error: BaseException | None) -> None:
        """Record what the call returned or raised."""
        try:
            if error is None:
                compiled(getattr(kernel, "hash", None), getattr(kernel, "name", None))
                record(kernel, self.src, self.began)
            elif isinstance(error, Exception):
                self._failed(error)
        finally:
            end_stages()
            if self._provisional_path is not None:
                withdraw(self._provisional_path)

    def _failed(self, error: Exception) -> None:
        seconds = time.time() - self.began
        failed(error)
        digest = self._digest()
        compiled(digest, getattr(self.src, "name", None))
        if digest in _recorded_failures:
            return
        _recorded_failures.add(digest)
        stage: BegunStage | None = getattr(_now, "making", None)
        metadata = {} if stage is None else dict(stage.metadata)
        metadata.pop("hash", None)
        name = str(getattr(self.src, "name", "") or "")
        log = str(error)
        files = stages_left(name)
        messages, first = diagnostics.from_failure(
            error, getattr(self.src, "fn", None), log, {}, files
        )
        command = _COMMAND.search(log)
        emit(
            {
                "event": "triton_failed",
                "name": str(metadata.get("name") or name).lstrip("@"),
                "hash": digest,
                "metadata": {**self.requested, **json_value(metadata)},
                "made_by": compiler_versions(),
                "files": {stage: blob(text) for stage, text in files.items()},
                "began": self.began,
                "seconds": seconds,
                "stage_seconds": end_stages(),
                "error": f"{type(error).__name__}: {error}"[:4000],
                "stage": "ttir" if stage is None else {"cubin": "sass"}.get(stage.name, stage.name),
                "kind": type(error).__name__,
                "message": first["message"],
                "tool": first["tool"],
                "messages": messages,
                "log": blob(log[:MAX_LOG_CHARACTERS]),
                "command": None if command is None else command[1].strip(),
                **exceeded(error),
                **source(self.src),
            }
        )

    def _digest(self) -> str:
        """Triton's hash; before Triton has made one, a hash of what it was asked for."""
        if digest := getattr(_now, "digest", None):
            return str(digest)
        identity = (
            getattr(self.src, "name", None),
            getattr(getattr(self.src, "fn", None), "cache_key", None),
            constexprs(self.src),
            getattr(self.src, "signature", None),
            self.requested,
        )
        return hashlib.sha256(repr(identity).encode("utf-8", "replace")).hexdigest()


def exceeded(error: BaseException) -> dict[str, Any]:
    """What an ``OutOfResources`` says in figures: what is required, and how much there is."""
    required = getattr(error, "required", None)
    limit = getattr(error, "limit", None)
    if not isinstance(required, int) or not isinstance(limit, int):
        return {}
    name = getattr(error, "name", None)
    return {"required": required, "limit": limit, "resource": None if name is None else str(name)}


def stages_left(name: str) -> dict[str, str]:
    """The stages that were made by the compilation under way in this thread, which has failed.

    Triton writes each into its cache before it makes the next.
    """
    out: dict[str, str] = {}
    digest = getattr(_now, "digest", None)
    begun: BegunStage | None = getattr(_now, "making", None)
    if begun is not None and begun.name == "cubin" and isinstance(begun.source, str):
        out["ptx"] = begun.source
    try:
        manager: Any = _manager(digest) if digest else None
        if manager is None:
            return out
        for stage in STAGES:
            path = manager.get_file(f"{name[:150]}.{stage}")
            if begun is not None and stage == begun.name:
                break  # a file of that name is of another attempt
            if path and stage not in out:
                with open(path, encoding="utf-8", errors="surrogateescape") as file:
                    out[stage] = file.read()
    except Exception as error:
        problem("the stages of a compile of Triton's that failed", error)
    return out


def end_stages() -> list[list[Any]]:
    """The stages of the compile that ends in this thread, in order, with their seconds."""
    stages: list[list[Any]] = getattr(_now, "stages", [])
    _now.__dict__.clear()  # what it was made of is kept alive by nobody
    return stages


def _note_cache_key(args: Any, kwargs: Any) -> None:
    """Note the hash for which Triton asks for its cache: one that fails early has no other."""
    _now.digest = str(args[0] if args else kwargs["key"])


def _time_stages(stages: Any, _: object) -> None:
    """Time each stage; what comes next is a compilation that was in no cache."""
    for name, stage in list(stages.items()):
        stages[name] = observed(stage, _beginning(str(name)), _stage_ended)
    if (missed := _now.__dict__.pop("missed", None)) is not None:
        missed()


def _beginning(name: str) -> CallHook:
    def stage_began(args: Any, kwargs: Any) -> tuple[str, float]:
        metadata = args[1] if len(args) > 1 and isinstance(args[1], dict) else {}
        _now.making = BegunStage(name, metadata, args[0] if args else None)
        return name, time.perf_counter()

    return stage_began


def _stage_ended(token: tuple[str, float], _: object, error: BaseException | None) -> None:
    name, began = token
    _now.__dict__.setdefault("stages", []).append([name, time.perf_counter() - began])


_recorded_kernels: set[str] = per_recording(set())
_refused: set[object] = per_recording(set())


def attach(module: Any) -> None:
    """Observe ``triton.compiler.compiler.compile`` before anybody has imported it by name.

    ``knobs.compilation.listener`` would be the public way; it is absent before Triton 3.4 and is
    a single slot, which stays the user's.
    """
    if not os.environ.get("PTXVIEW_COMPILE"):  # else cross_compile/compile_job.py has them recorded
        private_names.wrap("triton.compiler.compiler:compile", Compile, Compile.ended)
    private_names.wrap("triton.compiler.compiler:get_cache_manager", _note_cache_key)

    def backend_made(_: object, backend: Any) -> None:
        backend.add_stages = observed(
            backend.add_stages, argument(0, "stages"), succeeded(_time_stages)
        )

    # What it calls to get a backend gives one whose stages are timed.
    private_names.wrap("triton.compiler.compiler:make_backend", on_return=succeeded(backend_made))
    private_names.wrap(
        "triton.compiler.compiler:CompiledKernel._init_handles", _loading, _loading_ended
    )


def record(kernel: Any, src: Any, began: float) -> None:
    """Record a kernel that Triton compiled or took from its cache."""
    metadata = kernel.metadata._asdict() if hasattr(kernel.metadata, "_asdict") else {}
    digest = str(metadata.get("hash") or getattr(kernel, "hash", ""))
    if digest in _recorded_kernels:
        return
    _recorded_kernels.add(digest)
    paths: dict[str, str] = {}
    with suppress(Exception):
        paths = _cached(digest, str(metadata.get("name", getattr(src, "name", ""))), kernel)
    files: dict[str, str | None] = {}
    for extension, content in dict(kernel.asm).items():
        path = paths.get(extension)
        files[extension] = file_blob(path) if path and os.path.exists(path) else None
        if files[extension] is None and isinstance(content, str | bytes):
            files[extension] = blob(content)
    stages = end_stages()
    times = {"began": began, "seconds": time.time() - began, "stage_seconds": stages}
    _emit(
        digest,
        json_value(metadata),
        paths,
        files,
        {"cache_hit": not stages, **times, **source(src)},
    )


def _emit(
    digest: str,
    metadata: Any,
    paths: dict[str, str],
    files: dict[str, str | None],
    fields: dict[str, Any],
) -> None:
    cached_path = paths.get("json") or next(iter(paths.values()), None)
    event = {
        "event": "triton",
        "name": metadata.get("name"),
        "hash": digest,
        "cache_key": os.path.basename(os.path.dirname(cached_path)) if cached_path else None,
        "metadata": metadata,
        "files": files,
        "paths": paths,
        "made_by": compiler_versions(),
    }
    emit(event | fields)


def _record_cached(digest: str, name: str, source: dict[str, Any], folders: list[str]) -> None:
    """Record a kernel that was loaded, without a call of ``compile``, from Triton's own cache or
    one of these."""
    if digest in _recorded_kernels:
        return
    paths = _cached(digest, name)
    key = base64.b32encode(bytes.fromhex(digest)).decode().rstrip("=")  # names folders in caches
    for folder in (os.path.join(folder, key) for folder in folders):
        if "json" not in paths and os.path.isdir(folder):
            split = [os.path.splitext(file) for file in sorted(os.listdir(folder))]
            kernel_files = [(stem, end) for stem, end in split if stem == name[:150] and end]
            paths = {end[1:]: os.path.join(folder, stem + end) for stem, end in kernel_files}
    if "json" not in paths:
        problem("inductor launcher", f"the files of {name} ({digest[:8]}) are in no cache")
        return
    _recorded_kernels.add(digest)
    with open(paths["json"], encoding="utf-8") as file:
        metadata = {"name": name, **json.load(file)}
    files = {end: file_blob(path) for end, path in paths.items() if end != "json"}
    _emit(digest, metadata, paths, files, {"cache_hit": True, "seconds": None, **source})


def _manager(digest: str) -> Any:
    """Triton's cache of one compile, None where this version names it otherwise."""
    make = private_names.get("triton.runtime.cache:get_cache_manager")
    return None if make is None else make(digest)


def _cached(digest: str, name: str, kernel: Any = None) -> dict[str, str]:
    """The files that Triton's own cache holds for a kernel, by extension."""
    group = getattr(kernel, "metadata_group", None)
    if not group and (manager := _manager(digest)) is not None:
        group = manager.get_group(f"{name[:150]}.json")
    return {os.path.splitext(k)[1][1:]: str(v) for k, v in (group or {}).items()}


def _loading(args: Any, kwargs: Any) -> Any:
    """The kernel that is about to be loaded; None if it already is."""
    (kernel,) = args
    return kernel if getattr(kernel, "module", None) is None else None


def _loading_ended(kernel: Any, _: object, error: BaseException | None) -> None:
    """Record the registers and spills that the driver reports when it loads a binary."""
    if kernel is None:
        return
    if error is None:
        loaded(kernel.hash, kernel)
        watch(kernel)
    elif isinstance(error, Exception):
        compiled(getattr(kernel, "hash", None), getattr(kernel, "name", None))
        failed(error)
        not_loaded(getattr(kernel, "hash", None), error)


def watch(kernel: Any) -> None:
    """Count the launches of a loaded kernel, which is recorded where a recording lacks it."""
    kernel_ref = weakref.ref(kernel)

    def record_again() -> None:
        kernel = kernel_ref()
        if kernel is not None and str(kernel.hash) not in _recorded_kernels:
            record(kernel, kernel.src, time.time())
            loaded(kernel.hash, kernel)

    triton_launches.watch(kernel, record_again)


def not_loaded(digest: object, error: BaseException) -> None:
    """Record that the device refused a binary, which needs more of a resource than there is."""
    if digest and digest not in _refused:
        _refused.add(digest)
        why = {"error": first_line(error), **exceeded(error)}
        emit({"event": "not_loaded", "hash": str(digest), **why})


def loaded(digest: object, binary: Any) -> None:
    """Record the figures that the driver gave when it loaded a binary."""
    if os.environ.get("PTXVIEW_TARGET"):
        return
    emit(
        {
            "event": "loaded",
            "hash": str(digest),
            "registers": getattr(binary, "n_regs", None),
            "local_words": getattr(binary, "n_spills", None),  # local memory a thread
            "max_threads": getattr(binary, "n_max_threads", None),
        }
    )
    from . import libraries

    libraries.note_device()


HEURISTICS = "torch._inductor.runtime.triton_heuristics"


def attach_launchers(module: Any) -> None:
    """Watch the making of launchers: it happens once for each configuration that is kept."""
    for name in ("StaticTritonCompileResult", "TritonCompileResult"):
        private_names.wrap(f"{HEURISTICS}:{name}.make_launcher", argument(0), _launcher_made)
    call_counts.attach(module)
    faster = f"{HEURISTICS}:CachingAutotuner._build_fast_launcher"
    private_names.wrap(faster, argument(1, "launcher"), succeeded(triton_launches.watch_faster))


def _launcher_made(result: Any, launcher: Any, error: BaseException | None) -> None:
    """Record a configuration, also one that cannot be loaded, which Inductor drops."""
    kernel = result.kernel
    digest = getattr(kernel, "hash", None)
    if isinstance(error, Exception):
        name = (getattr(result, "inductor_meta", None) or {}).get("kernel_name")
        inductor.dropped(name, None, result.config, error, digest)
        # It was compiled all the same, here or by another process, whose files are in the cache.
        _record_compiled(result)
        not_loaded(digest, error)
    if error is not None or not digest:
        return
    _record_compiled(result)
    meta = getattr(result, "compile_meta", None) or {}
    if hasattr(kernel, "full_constexprs"):
        signature = meta.get("signature")
        constants = meta.get("constants")
        triton_launches.watch_static(
            launcher, kernel, signature, constants, lambda: _record_compiled(result)
        )
    if getattr(launcher, "n_regs", None) is not None:
        loaded(digest, launcher)


def _record_compiled(result: Any) -> None:
    """Record what a configuration of Inductor's was compiled to."""
    kernel = result.kernel
    digest = getattr(kernel, "hash", None)
    if not digest:
        return
    inductor.configured(result.config, digest)
    meta = getattr(result, "compile_meta", None) or {}
    function: Any = getattr(getattr(kernel, "src", None), "fn", None)
    name = getattr(kernel, "name", None) or getattr(function, "__name__", "")
    source = _compiled_source(kernel, meta, function)
    _record_cached(str(digest), str(name), source, _cache_folders(kernel, meta))


def _compiled_source(kernel: Any, meta: Mapping[str, Any], function: Any) -> dict[str, Any]:
    """The signature, constants and specialization of what a configuration was compiled from."""
    source: dict[str, Any] = {
        "signature": {str(k): str(v) for k, v in (meta.get("signature") or {}).items()},
        "constexprs": {str(k): json_value(v) for k, v in (meta.get("constants") or {}).items()},
    }
    declared = _declared_names(kernel, function)
    if declared is not None:
        source["declared"] = declared
    attributes = next(iter(meta.get("configs") or ()), None)
    if isinstance(attributes, dict):
        named = triton_launches.by_name(list(source["signature"]), attributes)
        source["specialization"] = json_value(named)
    return source


def _declared_names(kernel: Any, function: Any) -> list[str] | None:
    """The arguments that the kernel's source declares as ``constexpr``; None if unknown."""
    names = getattr(kernel, "arg_names", None) or getattr(function, "arg_names", None)
    declared = getattr(kernel, "declared_constexprs", None)
    if declared is None and getattr(function, "params", None) is not None:
        declared = [p.num for p in function.params if p.is_constexpr]
    if names is None or declared is None:
        return None
    return [str(names[index]) for index in declared if index < len(names)]


def _cache_folders(kernel: Any, meta: Mapping[str, Any]) -> list[str]:
    """Folders that may hold what was compiled: the one beside the cubin, and Inductor's own.

    Inductor names its cache to Triton only when it compiles, and not when it loads.
    """
    path = getattr(kernel, "cubin_path", None)
    folders = [os.path.dirname(os.path.dirname(path))] if isinstance(path, str) else []
    cache = private_names.get("torch._inductor.runtime.cache_dir_utils:triton_cache_dir")
    if cache is not None:
        folders.append(cache(meta.get("device", 0)))
    return folders
