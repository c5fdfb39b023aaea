"""Compiles kernels whose signatures are given, and files of TTIR, TTGIR or LLVM IR."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import os
import re
import sys
from functools import partial
from typing import Any

from ..writer import blob, emit, plain
from . import one
from .one import CONFIG, Column, Job, Subject

_KERNEL = re.compile(
    r"^define [^@\n]*ptx_kernel[^@\n]* @\"?([\w$.]+)|^define void @\"?([\w$.]+)", re.MULTILINE
)
_FUNCTION = re.compile(r"tt\.func (?:public )?@\"?([\w$.]+)")


class CannotCompile(Exception):
    """The arguments do not fit the kernel; the text says what to give."""


def run(job: Job) -> int:
    """Compile what the job names; 0, or 2 where the signature or the options do not fit."""
    try:
        (_kernels_of_module if job.language == "triton" else _stages_of_file)(job)
    except CannotCompile as error:
        emit({"event": "refused", "text": str(error), "file": job.file})
        return 2
    return 0


# -- kernels of a module --------------------------------------------------------------------------


def _kernels_of_module(job: Job) -> None:
    module = _load(job.path)
    from triton.compiler import compiler

    own = one.native(compiler.compile)
    for fn, configs in _kernels(module, job):
        for config in _configurations(fn, configs, job):
            one.each(job, _subject(fn, config, job), own)


def _load(path: str) -> Any:
    name = os.path.splitext(os.path.basename(path))[0]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _unwrapped(value: Any) -> tuple[Any, list[Any], list[str]]:
    """The function beneath its decorators, a tuner's configurations, what is computed of calls."""
    configs: list[Any] = []
    computed: list[str] = []
    while not hasattr(value, "starting_line_number") and hasattr(value, "fn"):
        configs = list(getattr(value, "configs", ())) or configs
        computed += list(getattr(value, "values", None) or ())
        value = value.fn
    return value, configs, computed


def _kernels(module: Any, job: Job) -> list[tuple[Any, list[Any]]]:
    """The kernels to compile with their configurations. Raises ``CannotCompile``."""
    known: dict[str, tuple[Any, list[Any]]] = {}
    for name, value in vars(module).items():
        if not hasattr(value, "fn"):
            continue
        fn, configs, _ = _unwrapped(value)
        if hasattr(fn, "starting_line_number") and hasattr(fn, "arg_names"):
            known[name] = (fn, configs)
    if not known:
        raise CannotCompile(f"there is no kernel of Triton's in {job.file}")
    if job.kernels:
        for name in job.kernels:
            if name not in known:
                raise CannotCompile(
                    f"there is no kernel {name} in {job.file}; there are {', '.join(known)}"
                )
        return [known[name] for name in job.kernels]
    asked = set(job.signature or ()) | set(job.constexprs)
    fit = [k for k in known.values() if asked <= set(k[0].arg_names)]
    fit = [
        (fn, configs)
        for fn, configs in fit
        if not any(_lacking(fn, config, job) for config in _configurations(fn, configs, job))
    ] or fit
    if len(fit) != 1:
        what = "fits no kernel" if not fit else "fits several kernels"
        raise CannotCompile(
            f"the signature {what} of {job.file}: name one with --kernel, of {', '.join(known)}"
        )
    return fit


def _settings(config: Any) -> dict[str, Any]:
    named = {n: getattr(config, n, None) for n in CONFIG}
    return {**config.kwargs, **{n: v for n, v in named.items() if v is not None}}


def _configurations(fn: Any, configs: list[Any], job: Job) -> list[dict[str, Any]]:
    """The tuner's, unless all that they choose is given."""
    every = [_settings(config) for config in configs]
    chosen = {name for config in every for name in config if name in fn.arg_names}
    if not every or (chosen and chosen <= set(job.constexprs)):
        return [{}]
    return every


def _lacking(fn: Any, config: dict[str, Any], job: Job) -> list[str]:
    """Arguments of a kernel that neither the job nor a configuration says anything of."""
    told = {*(job.signature or ()), *job.constexprs, *config}
    defaults = inspect.signature(fn.fn).parameters
    return [
        name
        for name in fn.arg_names
        if name not in told and defaults[name].default is inspect.Parameter.empty
    ]


def _value(value: Any) -> Any:
    """A constant as it was written: ``tl.float16`` is Triton's type."""
    if isinstance(value, str):
        import triton.language as tl

        name = value.rpartition("tl.")[2]
        if value.startswith(("tl.", "triton.language.")) and hasattr(tl, name):
            return getattr(tl, name)
    return value


def _subject(fn: Any, config: dict[str, Any], job: Job) -> Subject:
    from triton.compiler import ASTSource

    lacking = _lacking(fn, config, job)
    if lacking:
        raise CannotCompile(
            f"nothing is said of {', '.join(lacking)} of {fn.__name__}: give the type in "
            "--signature, or the value with --constexpr NAME=VALUE"
        )
    declared = {p.name for p in fn.params if p.is_constexpr}
    defaults = inspect.signature(fn.fn).parameters
    constants: dict[tuple[int, ...], Any] = {}
    attributes: dict[tuple[int, ...], Any] = {}
    signature: dict[str, str] = {}
    for index, name in enumerate(fn.arg_names):
        kind, _, hint = (job.signature or {}).get(name, "").partition(":")
        if kind and name not in declared and hint != "1":
            signature[name] = kind
            if hint == "16":
                attributes[(index,)] = [["tt.divisibility", 16]]
            continue
        signature[name] = "constexpr"
        if hint == "1":
            constants[(index,)] = 1
        elif name in job.constexprs:
            constants[(index,)] = _value(job.constexprs[name])
        elif name in config:
            constants[(index,)] = config[name]
        else:
            constants[(index,)] = defaults[name].default
    options = {k: v for k, v in config.items() if k not in fn.arg_names}
    parameters = inspect.signature(ASTSource.__init__).parameters
    if "constexprs" not in parameters:
        raise CannotCompile("--signature needs Triton 3.3 or later")
    source = ASTSource(fn=fn, signature=signature, constexprs=constants, attrs=attributes)
    return Subject(source, options, str(source.name))


# -- files of IR ----------------------------------------------------------------------------------


def _stages_of_file(job: Job) -> None:
    with open(job.path, encoding="utf-8", errors="surrogateescape") as file:
        text = file.read()
    match = (_KERNEL if job.language == "llir" else _FUNCTION).search(text)
    name = next(filter(None, match.groups())) if match else job.file
    one.warm(job)
    for column in job.columns:
        key = job.begin(name, column.target, column.options)
        if key is not None:
            make = partial(_from_llir if job.language == "llir" else _from_mlir, job, text, column)
            one.one(job, column, make, job.path, name=name, config={}, signature="")
            job.end(key)


def _from_mlir(job: Job, text: str, column: Column) -> Any:
    from triton.compiler import compiler

    target = one.gpu_target(column.number)
    own = one.native(compiler.compile)
    return own(job.path, target=target, options=dict(column.settings))


def _from_llir(job: Job, text: str, column: Column) -> dict[str, Any]:
    """PTX and machine code of LLVM IR, by the last stages of Triton's compiler."""
    from triton._C.libtriton import llvm

    backend = one.backend_of(one.gpu_target(column.number))
    options = backend.parse_options(dict(column.settings))
    stages = one.stages_of(backend, options)
    llvm.init_targets()
    metadata: dict[str, Any] = {"target": {"backend": "cuda", "arch": column.number}}
    ptx = stages["ptx"](text, metadata)
    cubin = stages["cubin"](ptx, metadata)
    name = str(metadata.get("name") or "")
    digest = hashlib.sha256(repr((text, column.target, vars(options))).encode()).hexdigest()
    event = {
        "event": "triton",
        "name": name,
        "hash": digest,
        # LLVM IR has no shared memory and no warps.
        "metadata": {**plain(metadata), "name": name, "hash": digest},
        "files": {"llir": blob(text), "ptx": blob(ptx), "cubin": blob(cubin)},
    }
    return {"event": event, "asm": {"llir": text, "ptx": ptx, "cubin": cubin}}
