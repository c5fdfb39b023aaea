"""Kernels of a module whose signatures are given: nothing is launched."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from typing import Any

from ..writer import emit
from . import one
from .job import CONFIG, Job


class CannotCompile(Exception):
    """What was given does not fit the kernel; the text says what to give."""


def run(job: Job) -> None:
    """Compile the kernels that the job names, as it says."""
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
        raise CannotCompile(f"the signature {what} of {job.file}: name one with --kernel, of "
                            f"{', '.join(known)}")  # fmt: skip
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


def _subject(fn: Any, config: dict[str, Any], job: Job) -> one.Subject:
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
    return one.Subject(source, options, str(source.name))


def refused(job: Job, error: BaseException) -> None:
    """Say why nothing could be compiled."""
    emit({"event": "refused", "text": str(error), "file": job.file})
