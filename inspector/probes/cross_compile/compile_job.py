"""The job of `ptxview compile`, and one compilation of it: timed, recorded, with its messages.

The job is a JSON file that the environment names: ``file`` (how the user calls it), ``path``,
``language``, ``columns`` (each with ``target``, ``options`` as shown, ``settings`` by name),
``kernels``, ``signature``, ``constexprs``, ``done``, ``doing`` and ``said`` (files for the finished
compilations, for the one under way, and for what is printed: all that a process that dies leaves).
"""

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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

from .. import private_names
from ..autotune import triton_tuner
from ..compiles import triton_compiles
from ..replay.inputs import imported
from ..writer import blob, emit, json_value
from . import diagnostics

VARIABLE = "PTXVIEW_COMPILE"
CONFIG = ("num_warps", "num_stages", "num_ctas", "maxnreg")
MAX_PRINTED_BYTES = 1 << 22
_lock = threading.RLock()


class Column(NamedTuple):
    """One target with one set of options, as shown and by name."""

    target: str
    options: str
    settings: dict[str, Any]

    @property
    def number(self) -> int:
        """90 for sm_90 and for sm_90a: Triton chooses the flavour itself."""
        return int("".join(c for c in self.target if c.isdigit()))


class Job(SimpleNamespace):
    """What this process compiles: the fields of the file."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.columns = [Column(**column) for column in values["columns"]]
        with open(self.done, encoding="ascii") as file:
            self.attempted = set(file.read().split())

    def begin(self, *parts: Any) -> str | None:
        """Note a compilation as begun; None where an earlier process has done it, or died of it."""
        key = hashlib.sha256(repr(parts).encode("utf-8", "surrogateescape")).hexdigest()
        if key in self.attempted:
            return None
        self.attempted.add(key)
        with open(self.doing, "w", encoding="utf-8") as file:
            json.dump({"key": key, "parts": [str(p) for p in parts]}, file)
        return key

    def end(self, key: str) -> None:
        """Note it as done."""
        with open(self.done, "a", encoding="ascii") as file:
            file.write(key + "\n")
        os.unlink(self.doing)


def read_job() -> Job:
    """Return the job of this process."""
    with open(os.environ[VARIABLE], encoding="utf-8") as file:
        return Job(**json.load(file))


def gpu_target(number: int) -> Any:
    """Triton's name of an architecture."""
    private_names.check("cross_compile")
    from triton.backends.compiler import GPUTarget

    return GPUTarget("cuda", number, 32)


def make_backend(target: Any) -> Any:
    """Triton's compiler for a target."""
    return importlib.import_module("triton.compiler.compiler").make_backend(target)


def stages_of(backend: Any, options: Any, gluon: bool = False) -> dict[str, Any]:
    """Return the functions of a backend that make each stage, by stage."""
    stages: dict[str, Any] = {}
    arguments = [stages, options]
    if len(inspect.signature(backend.add_stages).parameters) > 2:
        from triton.backends.compiler import Language

        arguments.append(Language.GLUON if gluon else Language.TRITON)
    backend.add_stages(*arguments)
    return stages


def compile_columns(
    job: Job, src: Any, options: dict[str, Any], compile: Callable[..., Any]
) -> None:
    """Compile a kernel for every column of the job that is not done yet, and record the results;
    ``compile`` is Triton's own."""

    def make(column: Column) -> Any:
        target = gpu_target(column.number)
        return compile(copy.copy(src), target=target, options={**options, **column.settings})

    config = _row_config(job, src, options)
    signature = _row_signature(src)
    warm(tuple(column.number for column in job.columns))
    name = str(getattr(src, "name", ""))
    sorted_config = sorted(config.items(), key=repr)
    row = {"kernel": name.lstrip("@"), "config": config, "signature": signature}
    for column in job.columns:
        key = job.begin(name, sorted_config, signature, column.target, column.options)
        if key is not None:
            _compile_one(job, column, partial(make, column), src, row, key)
            job.end(key)


def _row_config(job: Job, src: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The constants and launch options of a row, without what the columns set."""
    config = {name: json_value(value) for name, value in triton_compiles.constexprs(src).items()}
    config |= {n: options[n] for n in CONFIG if options.get(n) is not None}
    if config.get("num_ctas") == 1:
        del config["num_ctas"]
    column_settings = {name for column in job.columns for name in column.settings}
    return {name: value for name, value in config.items() if name not in column_settings}


def _row_signature(src: Any) -> str:
    """The types of a kernel's arguments as they could be given: ``x: *fp32:16, n: i32``."""
    attributes = triton_compiles.attributes(src)
    declarations = []
    for name, kind in (getattr(src, "signature", None) or {}).items():
        if kind != "constexpr":
            divisible = any("divisibility" in str(a) for a in attributes.get(str(name)) or ())
            declarations.append(f"{name}: {kind}{':16' if divisible else ''}")
    return ", ".join(declarations)


@functools.cache
def warm(numbers: tuple[int, ...]) -> None:
    """Load what the first compilation would load, so that its time is that of a compilation."""
    with suppress(Exception):
        importlib.import_module("triton.compiler.code_generator")
        for number in numbers:
            backend = make_backend(gpu_target(number))
            backend.parse_options({}).hash()
            backend.hash()
        for name in ("triton.runtime.cache", "triton.compiler.compiler"):
            # A digest of all of Triton, made once.
            getattr(importlib.import_module(name), "triton_key", str)()


def _compile_one(
    job: Job, column: Column, make: Callable[[], Any], src: Any, row: dict[str, Any], key: str
) -> None:
    """Compile, and record the result; one that fails is known by ``key``."""
    import triton

    name = row["kernel"]
    began = time.time()
    triton_compiles.end_stages()
    error: Exception | None = None
    with _lock, redirected(job.said, 1, 2):
        clock = time.perf_counter()
        try:
            kernel = make()
        except Exception as failure:
            error = failure
        seconds = time.perf_counter() - clock
    printed = read_printed(job.said)
    names = {job.path: job.file, os.path.realpath(job.path): job.file}
    event: dict[str, Any] = {
        "event": "compiled",
        "file": job.file,
        "language": job.language,
        "target": column.target,
        "options": column.options,
        **row,
        "seconds": seconds,
        "tool": f"triton {getattr(triton, '__version__', '')}".strip(),
    }
    if error is None:
        digest, symbol, ptx = _record(kernel, src, began)
        texts = {"ptx": ptx} if isinstance(ptx, str) else {}
        messages = list(diagnostics.parse_output(printed, names, texts))
        emit({**event, "hash": digest, "symbols": [symbol], "messages": messages})
        return
    files = triton_compiles.stages_left(name)
    log = f"{printed}\n{error}"
    messages, first = diagnostics.from_failure(error, getattr(src, "fn", None), log, names, files)
    location = f"{os.path.basename(first['file'])}:{first['line']}: " if "line" in first else ""
    failed = location + first["message"]
    config = {n: row["config"][n] for n in CONFIG if n in row["config"]}
    about = {
        "metadata": {"target": {"arch": column.number}, "name": name, **config},
        "files": {stage: blob(content) for stage, content in files.items()},
        **triton_compiles.source(src),
    }
    emit({"event": "triton", "name": name, "hash": key, "failed": failed, **about})
    emit({**event, "hash": key, "symbols": [], "failed": failed, "messages": messages})


def _record(kernel: Any, src: Any, began: float) -> tuple[str, str, Any]:
    """Record a compilation; its hash, symbol and PTX."""
    metadata = kernel.metadata._asdict() if hasattr(kernel.metadata, "_asdict") else {}
    digest = str(metadata.get("hash") or getattr(kernel, "hash", ""))
    symbol = str(metadata.get("name") or getattr(src, "name", ""))
    triton_compiles.record(kernel, src, began)
    return digest, symbol, kernel.asm.get("ptx")


@contextmanager
def redirected(path: str, *numbers: int) -> Iterator[None]:
    """Within it, what goes to these descriptors goes to a file."""
    flush()
    with open(path, "wb") as file:
        saved = {number: os.dup(number) for number in numbers}
        try:
            for number in numbers:
                os.dup2(file.fileno(), number)
            yield
        finally:
            flush()
            for number, descriptor in saved.items():
                os.dup2(descriptor, number)
                os.close(descriptor)


def flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()


def read(path: str, errors: str = "surrogateescape", max_characters: int = -1) -> str:
    with open(path, encoding="utf-8", errors=errors) as file:
        return file.read(max_characters)


def read_printed(path: str) -> str:
    return read(path, "replace", MAX_PRINTED_BYTES)


# -- beside a program that runs: each kernel that it compiles, for every target as well -----------


def attach(module: Any) -> None:
    """Observe ``triton.compiler.compiler.compile``, which each launch of a new kind calls."""
    job = read_job()
    if job.signature is None:
        on_compile = partial(_compiling, job, inspect.unwrap(module.compile))
        private_names.wrap("triton.compiler.compiler:compile", on_compile, _compiled)


def _compiling(
    job: Job, triton_compile: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Compile for every target, before the program's own compilation."""
    bound = dict(zip(("src", "target", "options"), args, strict=False)) | kwargs
    src = bound["src"]
    options = bound.get("options") or {}
    if isinstance(src, str):
        return
    options = dict(options if isinstance(options, dict) else vars(options))
    # Those that somebody chose: they differ from what the target has anyway.
    target = bound.get("target") or gpu_target(90)
    defaults = {**vars(make_backend(target).parse_options({})), "arch": options.get("arch")}
    # Launch options are recorded even where they are the defaults.
    chosen_options = {
        name: value
        for name, value in options.items()
        if name not in defaults or defaults[name] != value or (name in CONFIG and value is not None)
    }
    compile_columns(job, src, chosen_options, triton_compile)


def _compiled(_: object, kernel: Any, error: BaseException | None) -> None:
    if error is None:
        triton_tuner.compiled(getattr(kernel, "hash", None), getattr(kernel, "name", None))
    elif isinstance(error, Exception):
        triton_tuner.failed(error)


class CannotCompile(Exception):
    """The arguments do not fit the kernel; the text says what to give."""


# -- kernels of a module --------------------------------------------------------------------------


def _kernels_of_module(job: Job) -> None:
    sys.path.insert(0, os.path.dirname(os.path.abspath(job.path)))
    module = imported(os.path.splitext(os.path.basename(job.path))[0], job.path)
    triton_compile = inspect.unwrap(importlib.import_module("triton.compiler.compiler").compile)
    for fn, configs in _kernels(module, job):
        for config in _configurations(fn, configs, job):
            compile_columns(job, *_source_of(fn, config, job), triton_compile)


def _kernels(module: Any, job: Job) -> list[tuple[Any, list[Any]]]:
    """The kernels to compile with their configurations. Raises ``CannotCompile``."""
    kernels = _kernels_by_name(module)
    if not kernels:
        raise CannotCompile(f"there is no kernel of Triton's in {job.file}")
    for name in job.kernels:
        if name not in kernels:
            raise CannotCompile(
                f"there is no kernel {name} in {job.file}; there are {', '.join(kernels)}"
            )
    if job.kernels:
        return [kernels[name] for name in job.kernels]
    return [_fitting_kernel(kernels, job)]


def _kernels_by_name(module: Any) -> dict[str, tuple[Any, list[Any]]]:
    """Every kernel of a module, with the configurations of the tuner around it."""
    kernels: dict[str, tuple[Any, list[Any]]] = {}
    for name, value in vars(module).items():
        configs: list[Any] = []
        while not hasattr(value, "starting_line_number") and hasattr(value, "fn"):
            configs = list(getattr(value, "configs", ())) or configs  # a tuner's
            value = value.fn
        if hasattr(value, "starting_line_number") and hasattr(value, "arg_names"):
            kernels[name] = (value, configs)
    return kernels


def _fitting_kernel(
    kernels: Mapping[str, tuple[Any, list[Any]]], job: Job
) -> tuple[Any, list[Any]]:
    """The only kernel that the job's arguments fit. Raises ``CannotCompile``."""
    named_arguments = set(job.signature or ()) | set(job.constexprs)
    fit = [k for k in kernels.values() if named_arguments <= set(k[0].arg_names)]
    fit = [(fn, configs) for fn, configs in fit if _is_complete(fn, configs, job)] or fit
    if len(fit) != 1:
        mismatch = "fits no kernel" if not fit else "fits several kernels"
        raise CannotCompile(
            f"the signature {mismatch} of {job.file}: "
            f"name one with --kernel, of {', '.join(kernels)}"
        )
    return fit[0]


def _is_complete(fn: Any, configs: list[Any], job: Job) -> bool:
    """Whether every configuration of a kernel has a value or a type for each argument."""
    configurations = _configurations(fn, configs, job)
    return not any(_lacking(fn, config, job) for config in configurations)


def _configurations(fn: Any, configs: list[Any], job: Job) -> list[dict[str, Any]]:
    """The tuner's, unless all that they choose is given."""
    configurations = []
    for config in configs:
        named = {n: getattr(config, n, None) for n in CONFIG}
        configurations.append(
            {**config.kwargs, **{n: v for n, v in named.items() if v is not None}}
        )
    tuned_names = {name for config in configurations for name in config if name in fn.arg_names}
    return (
        [{}]
        if not configurations or (tuned_names and tuned_names <= set(job.constexprs))
        else configurations
    )


def _lacking(fn: Any, config: dict[str, Any], job: Job) -> list[str]:
    """Arguments of a kernel that neither the job nor a configuration says anything of."""
    specified = {*(job.signature or ()), *job.constexprs, *config}
    defaults = inspect.signature(fn.fn).parameters
    return [
        name
        for name in fn.arg_names
        if name not in specified and defaults[name].default is inspect.Parameter.empty
    ]


def _value(value: Any) -> Any:
    """A constant as it was written: ``tl.float16`` is Triton's type."""
    if isinstance(value, str) and value.startswith(("tl.", "triton.language.")):
        types = importlib.import_module("triton.language")
        return getattr(types, value.rpartition("tl.")[2], value)
    return value


def _source_of(fn: Any, config: dict[str, Any], job: Job) -> tuple[Any, dict[str, Any]]:
    """A kernel as Triton compiles it, and its options."""
    from triton.compiler import ASTSource

    lacking = _lacking(fn, config, job)
    if lacking:
        raise CannotCompile(
            f"nothing is said of {', '.join(lacking)} of {fn.__name__}: give the type in "
            "--signature, or the value with --constexpr NAME=VALUE"
        )
    defaults = inspect.signature(fn.fn).parameters
    values = {name: parameter.default for name, parameter in defaults.items()}
    values |= config | {name: _value(value) for name, value in job.constexprs.items()}
    specialization = _specialization(fn, values, job.signature or {})
    options = {k: v for k, v in config.items() if k not in fn.arg_names}
    if "constexprs" not in inspect.signature(ASTSource.__init__).parameters:
        raise CannotCompile("--signature needs Triton 3.3 or later")
    return ASTSource(fn=fn, **specialization), options


def _specialization(
    fn: Any, values: Mapping[str, Any], given_types: Mapping[str, str]
) -> dict[str, Any]:
    """A kernel's signature, constants and attributes, by the names of ``ASTSource``'s arguments.

    An argument without a type, or with the hint ``:1``, is a constant.
    """
    declared = {p.name for p in fn.params if p.is_constexpr}
    constants: dict[tuple[int, ...], Any] = {}
    attributes: dict[tuple[int, ...], Any] = {}
    signature: dict[str, str] = {}
    for index, name in enumerate(fn.arg_names):
        kind, _, hint = given_types.get(name, "").partition(":")
        signature[name] = kind
        if not kind or name in declared or hint == "1":
            signature[name] = "constexpr"
            constants[(index,)] = 1 if hint == "1" else values[name]
        elif hint == "16":
            attributes[(index,)] = [["tt.divisibility", 16]]
    return {"signature": signature, "constexprs": constants, "attrs": attributes}


def main() -> int:
    """Return 0 if all was tried, 2 if the job does not fit the file, 3 without Triton."""
    job = read_job()
    try:
        import triton  # noqa: F401
    except ImportError:
        return 3
    try:
        _kernels_of_module(job)
    except CannotCompile as error:
        emit({"event": "refused", "text": str(error), "file": job.file})
        return 2
    return 0


if __name__ == "__main__":
    sys.path.pop(0)  # this folder is no place to import from
    sys.exit(main())
