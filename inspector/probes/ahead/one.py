"""The job of `ptxview compile`, and one compilation of it: timed, recorded, with its messages.

The job is a JSON file that the environment names: ``file`` (how the user calls it), ``path``,
``language``, ``columns`` (each with ``target``, ``options`` as shown, ``settings`` by name),
``kernels``, ``signature``, ``constexprs``, ``done``, ``doing`` and ``said`` (files for the finished
compilations, for the one under way, and for what is printed: all that a process that dies leaves).
"""

from __future__ import annotations

import copy
import functools
import hashlib
import importlib
import inspect
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import private_names
from ..compiles import triton_compiles, triton_sources
from ..writer import blob, emit, plain
from . import said

VARIABLE = "PTXVIEW_COMPILE"
CONFIG = ("num_warps", "num_stages", "num_ctas", "maxnreg")
MAX_PRINTED_BYTES = 1 << 22
_lock = threading.RLock()
STAGES = ("ttir", "ttgir", "llir", "ptx")


class Column:
    """One target with one set of options."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.target: str = values["target"]
        self.options: str = values["options"]
        self.settings: dict[str, Any] = values["settings"]

    @property
    def number(self) -> int:
        """90 for sm_90 and for sm_90a: Triton chooses the flavour itself."""
        return int("".join(c for c in self.target if c.isdigit()))


class Job:
    """What this process compiles."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.file: str = values["file"]
        self.path: str = values["path"]
        self.language: str = values["language"]
        self.columns = [Column(c) for c in values["columns"]]
        self.kernels: list[str] = values["kernels"]
        self.signature: dict[str, str] | None = values["signature"]
        self.constexprs: dict[str, Any] = values["constexprs"]
        self._done, self._doing = values["done"], values["doing"]
        self.said: str = values["said"]
        with open(self._done, encoding="ascii") as file:
            self._known = set(file.read().split())

    def begin(self, *parts: Any) -> str | None:
        """Note a compilation as begun; None where an earlier process has done it, or died of it."""
        key = hashlib.sha256(repr(parts).encode("utf-8", "surrogateescape")).hexdigest()
        if key in self._known:
            return None
        self._known.add(key)
        with open(self._doing, "w", encoding="utf-8") as file:
            json.dump({"key": key, "parts": [str(p) for p in parts]}, file)
        return key

    def end(self, key: str) -> None:
        """Note it as done."""
        with open(self._done, "a", encoding="ascii") as file:
            file.write(key + "\n")
        os.unlink(self._doing)


def read_job() -> Job:
    """Return the job of this process."""
    with open(os.environ[VARIABLE], encoding="utf-8") as file:
        return Job(json.load(file))


def gpu_target(number: int) -> Any:
    """Triton's name of an architecture."""
    private_names.check("ahead")
    from triton.backends.compiler import GPUTarget

    return GPUTarget("cuda", number, 32)


def backend_of(target: Any) -> Any:
    """Triton's compiler for a target."""
    from triton.compiler.compiler import make_backend

    return make_backend(target)


def stages_of(backend: Any, options: Any, gluon: bool = False) -> dict[str, Any]:
    """Return the functions of a backend that make each stage, by stage."""
    stages: dict[str, Any] = {}
    arguments = [stages, options]
    if len(inspect.signature(backend.add_stages).parameters) > 2:
        from triton.backends.compiler import Language

        arguments.append(Language.GLUON if gluon else Language.TRITON)
    backend.add_stages(*arguments)
    return stages


def explicit(options: dict[str, Any], target: Any) -> dict[str, Any]:
    """The options that somebody chose: those that differ from what the target has anyway."""
    usual = dict(vars(backend_of(target).parse_options({})))
    missing = object()
    return {k: v for k, v in options.items() if usual.get(k, missing) != v and k != "arch"}


class Subject:
    """A kernel as it is to be compiled: Triton's own source object, with its options."""

    def __init__(self, src: Any, options: dict[str, Any], name: str) -> None:
        self.src, self.options, self.name = src, options, name

    def signature(self) -> str:
        """``x: *fp32:16, n: i32``, as it could be given."""
        attributes = triton_sources.attributes(self.src)
        parts = []
        for name, kind in (getattr(self.src, "signature", None) or {}).items():
            if kind != "constexpr":
                divisible = any("divisibility" in str(a) for a in attributes.get(str(name)) or ())
                parts.append(f"{name}: {kind}{':16' if divisible else ''}")
        return ", ".join(parts)

    def config(self, overridden: set[str]) -> dict[str, Any]:
        """The constants and launch options of a row, without what the columns say."""
        constexprs = triton_sources.constexprs(self.src)
        out = {name: plain(value) for name, value in constexprs.items()}
        out |= {n: self.options[n] for n in CONFIG if self.options.get(n) is not None}
        if out.get("num_ctas") == 1:
            del out["num_ctas"]
        return {k: v for k, v in out.items() if k not in overridden}


def each(job: Job, subject: Subject, compile: Callable[..., Any]) -> None:
    """Compile a kernel for every column of the job; ``compile`` is Triton's own."""
    warm(job)
    overridden = {name for column in job.columns for name in column.settings}
    config, signature = subject.config(overridden), subject.signature()
    for column in job.columns:
        key = job.begin(
            subject.name, sorted(config.items(), key=repr), signature, column.target, column.options
        )
        if key is None:
            continue
        options = {**subject.options, **column.settings}
        src = subject.src if isinstance(subject.src, str) else copy.copy(subject.src)

        def make(src: Any = src, options: Any = options, column: Column = column) -> Any:
            return compile(src, target=gpu_target(column.number), options=options)

        one(job, column, make, src, name=subject.name, config=config, signature=signature)
        job.end(key)


@functools.cache
def warm(job: Job) -> None:
    """Load what the first compilation would load, so that its time is that of a compilation."""
    try:
        importlib.import_module("triton.compiler.code_generator")
        for column in job.columns:
            backend = backend_of(gpu_target(column.number))
            backend.parse_options({}).hash()
            backend.hash()
        for name in ("triton.runtime.cache", "triton.compiler.compiler"):
            key = getattr(importlib.import_module(name), "triton_key", None)
            if key is not None:  # a digest of all of Triton, made once
                key()
    except Exception:
        return


def one(
    job: Job,
    column: Column,
    make: Callable[[], Any],
    src: Any,
    name: str,
    config: dict[str, Any],
    signature: str,
) -> Any:
    """Compile, record the result, and return it; None if it failed."""
    began, before = time.time(), _cached()
    error: BaseException | None = None
    kernel = None
    with _lock, _printed(job.said) as text:
        clock = time.perf_counter()
        try:
            kernel = make()
        except Exception as failure:
            error = failure
        seconds = time.perf_counter() - clock
    names = {job.path: job.file, os.path.realpath(job.path): job.file}
    event: dict[str, Any] = {
        "event": "compiled",
        "file": job.file,
        "language": job.language,
        "target": column.target,
        "options": column.options,
        "kernel": name.lstrip("@"),
        "config": config,
        "signature": signature,
        "seconds": seconds,
        "tool": _tool(),
    }
    if kernel is not None:
        digest, symbol = _record(kernel, src, began, job)
        ptx = kernel.asm.get("ptx") if hasattr(kernel, "asm") else kernel["asm"].get("ptx")
        texts = {"ptx": ptx} if isinstance(ptx, str) else {}
        messages = list(said.printed(text(), names, texts))
        emit({**event, "hash": digest, "symbols": [symbol], "messages": messages})
        return kernel
    assert error is not None
    own = said.of_error(error, getattr(src, "fn", None), names)
    files = _left(before)
    texts = {"ptx": files["ptx"]} if "ptx" in files else {}
    told = [*said.printed(text() + "\n" + str(error), names, texts)]
    # What LLVM printed says more than the error that ends it.
    if not any(m["severity"] == "error" for m in told) or "line" in own:
        told.insert(0, own)
    first = next(m for m in told if m["severity"] == "error")
    where = f"{os.path.basename(first['file'])}:{first['line']}: " if "line" in first else ""
    failed = where + first["message"]
    digest = hashlib.sha256(
        repr(
            (
                job.path,
                name,
                sorted(config.items(), key=repr),
                signature,
                column.target,
                column.options,
            )
        ).encode()
    ).hexdigest()
    emit(
        {
            "event": "triton",
            "name": name.lstrip("@"),
            "hash": digest,
            "metadata": {
                "target": {"arch": column.number},
                "name": name.lstrip("@"),
                **{n: config[n] for n in CONFIG if n in config},
            },
            "files": {stage: blob(content) for stage, content in files.items()},
            "failed": failed,
            **(triton_sources.source(src) if not isinstance(src, str) else {}),
        }
    )
    emit({**event, "hash": digest, "symbols": [], "failed": failed, "messages": told})
    return None


def _record(kernel: Any, src: Any, began: float, job: Job) -> tuple[str, str]:
    """Record a compilation, with the user's text of a file of IR; its hash and symbol."""
    if isinstance(kernel, dict):
        emit(kernel["event"])
        return kernel["event"]["hash"], kernel["event"]["name"]
    metadata = kernel.metadata._asdict() if hasattr(kernel.metadata, "_asdict") else {}
    digest = str(metadata.get("hash") or getattr(kernel, "hash", ""))
    symbol = str(metadata.get("name") or getattr(src, "name", ""))
    if isinstance(src, str) and job.language in STAGES:
        # Before Triton's own, which is the same text as it prints it: without comments.
        with open(job.path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
        emit(
            {
                "event": "triton",
                "name": symbol,
                "hash": digest,
                "metadata": plain(metadata),
                # The PTX says which flavour of the target it is for.
                "files": {job.language: blob(text), "ptx": blob(kernel.asm["ptx"])},
                "paths": {job.language: job.file},
            }
        )
    triton_compiles.record(kernel, src, began)
    return digest, symbol


def _tool() -> str:
    import triton

    return f"triton {getattr(triton, '__version__', '')}".strip()


def _cached() -> set[str]:
    folder = os.environ.get("TRITON_CACHE_DIR", "")
    return set(os.listdir(folder)) if os.path.isdir(folder) else set()


def _left(before: set[str]) -> dict[str, str]:
    """The stages that a compilation that failed has left in the cache."""
    folder = os.environ.get("TRITON_CACHE_DIR", "")
    out: dict[str, str] = {}
    for name in _cached() - before:
        inside = os.path.join(folder, name)
        for entry in os.listdir(inside) if os.path.isdir(inside) else ():
            stage = os.path.splitext(entry)[1][1:]
            if stage in STAGES:
                path = os.path.join(inside, entry)
                with open(path, encoding="utf-8", errors="surrogateescape") as file:
                    out[stage] = file.read()
    return out


@contextmanager
def _printed(path: str) -> Iterator[Callable[[], str]]:
    """Within it, standard output and error go to a file, whose text the result returns."""
    kept: list[str] = []
    sys.stdout.flush()
    sys.stderr.flush()
    with open(path, "w+b") as file:
        before = [os.dup(1), os.dup(2)]
        try:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            yield lambda: kept[0]
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, descriptor in zip((1, 2), before, strict=True):
                os.dup2(descriptor, number)
                os.close(descriptor)
            file.seek(0)
            kept.append(file.read(MAX_PRINTED_BYTES).decode("utf-8", "replace"))


def native(compile: Callable[..., Any]) -> Callable[..., Any]:
    """Triton's own function, without its wrappers."""
    return inspect.unwrap(compile)
