"""Compiles kernels of Triton's again, each from the Python that was recorded of it.

    main(JOB, RESULTS)

JOB is a JSON file: ``workers`` (how many at once), ``seconds`` (the most that one may take) and
``kernels``, each with ``folder`` (a recording's, made anew, which gets what compiling it records:
one event ``triton`` or ``triton_failed``), ``imports`` (lines), ``future``, ``statements`` ([file,
its line there, text]; line 0 is of no file), ``name`` (of the function), ``signature``,
``constexprs``, ``texts`` (names of those constexprs that are texts, not names of types and
functions), ``attributes``, ``options`` by name and ``target`` (a number, 90).

RESULTS grows by one JSON object a line: ``{"kernel": its index, "status", "printed"}``, of one that
took too long with ``overran``, the seconds that it had. A kernel
that ends its process is one of many: each is compiled in a process of its own, a copy of one that
has imported Triton.
"""

import __future__

import inspect
import json
import linecache
import os
import signal
import time
import traceback
from ast import literal_eval
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from ..compiles import triton_compiles
from ..writer import begin_file
from . import compile_job

NO_TRITON = 3
GLUON = "triton.experimental.gluon.language"
MAX_PRINTED_BYTES = 20_000


def main(job_path: str, results_path: str) -> int:
    """0 where all was tried, 3 without Triton."""
    with open(job_path, encoding="utf-8") as file:
        job = json.load(file)
    try:
        compiler = import_module("triton.compiler.compiler")
    except ImportError:
        return NO_TRITON
    if any("torch" in line for kernel in job["kernels"] for line in kernel["imports"]):
        # What kernels of Inductor's import, once for all of them.
        with suppress(Exception):
            import_module("torch._inductor.runtime.triton_helpers")
    triton_compiles.attach(compiler)
    compile_job.warm(tuple({kernel["target"] for kernel in job["kernels"]}))
    with open(results_path, "a", encoding="utf-8") as results:
        running: dict[int, tuple[int, float]] = {}
        for index, kernel in enumerate(job["kernels"]):
            while len(running) >= job["workers"]:
                _wait(job, running, results)
            running[_begin(kernel)] = index, time.monotonic() + job["seconds"]
        while running:
            _wait(job, running, results)
    return 0


def _begin(kernel: dict[str, Any]) -> int:
    """The number of a new process that compiles a kernel."""
    compile_job.flush()
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        printed = os.open(
            f"{kernel['folder']}.printed", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600
        )
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        os.makedirs(os.path.join(kernel["folder"], "blobs"))
        os.environ["PTXVIEW_RECORDING"] = kernel["folder"]
        begin_file()
        _compile(kernel)
        status = 0
    except BaseException:
        traceback.print_exc(limit=0)
    finally:
        compile_job.flush()
        os._exit(status)


def _wait(job: dict[str, Any], running: dict[int, tuple[int, float]], results: Any) -> None:
    """Wait until one of the running processes has ended, or has to be ended."""
    ended = 0
    while not ended:
        time.sleep(0.005)
        ended, status = os.waitpid(-1, os.WNOHANG)
        for process, (_, until) in running.items():
            if not ended and time.monotonic() > until:
                os.kill(process, signal.SIGKILL)
    index, until = running.pop(ended)
    path = f"{job['kernels'][index]['folder']}.printed"
    printed = compile_job.read(path, "replace", MAX_PRINTED_BYTES) if os.path.exists(path) else ""
    code = os.waitstatus_to_exitcode(status)
    result = {"kernel": index, "status": code, "printed": printed}
    if code == -signal.SIGKILL and time.monotonic() > until:
        result["overran"] = job["seconds"]
    results.write(json.dumps(result) + "\n")
    results.flush()


def _compile(kernel: Mapping[str, Any]) -> None:
    """Compile one; what it comes to is recorded by what observes Triton's compiler."""
    compiler = import_module("triton.compiler.compiler")
    function = _function(kernel)
    gluon = getattr(function, "is_gluon", bool)()
    sources = import_module("triton.experimental.gluon._runtime") if gluon else compiler
    kind = sources.GluonASTSource if gluon else sources.ASTSource
    source = kind(fn=function, **_specialization(function, kernel))
    target = compile_job.gpu_target(kernel["target"])
    known = vars(compile_job.make_backend(target).parse_options({}))
    options = {name: value for name, value in kernel["options"].items() if name in known}
    compiler.compile(source, target=target, options=options)


def _function(kernel: Mapping[str, Any]) -> Any:
    """The function of Triton's, made of texts that stand at the recorded lines of their files.

    Locations in what is compiled name these files and lines. The files are not opened: there may be
    others by now.
    """
    lines: dict[str, list[str]] = {}
    for path, first, text in kernel["statements"]:
        rows = [f"{row}\n" for row in text.split("\n")]
        file = lines.setdefault(path if first else f"<recorded {text[:40]}>", [])
        file += ["\n"] * (max(first, 1) - 1 + len(rows) - len(file))
        file[max(first, 1) - 1 : max(first, 1) - 1 + len(rows)] = rows
    for path, rows in lines.items():
        linecache.cache[path] = (sum(map(len, rows)), None, rows, path)
    features = [getattr(__future__, name).compiler_flag for name in kernel["future"]]
    namespace: dict[str, Any] = {"__name__": "recorded", "__builtins__": __builtins__}
    exec("\n".join(kernel["imports"]), namespace)
    for path, first, text in kernel["statements"]:
        path = path if first else f"<recorded {text[:40]}>"
        code = compile("\n" * (first - 1) + text, path, "exec", sum(features), dont_inherit=True)
        exec(code, namespace)
    function = namespace[kernel["name"]]
    if not hasattr(function, "arg_names"):  # jitted by a call, not by a decorator
        function = import_module("triton").jit(function)
    while not hasattr(function, "starting_line_number"):  # heuristics around it
        function = function.fn
    return function


def _specialization(function: Any, kernel: Mapping[str, Any]) -> dict[str, Any]:
    """A kernel's signature, constants and attributes, by the names of ``ASTSource``'s arguments."""
    compiler = import_module("triton.compiler.compiler")
    if "constexprs" not in inspect.signature(compiler.ASTSource.__init__).parameters:
        raise compile_job.CannotCompile("compiling recorded kernels needs Triton 3.3 or later")
    language = import_module("triton.language")
    types = {str(t): t for t in vars(language).values() if isinstance(t, language.dtype)}

    def value(name: str, recorded: Any) -> Any:
        if isinstance(recorded, list):  # JSON has no tuples
            return tuple(value(name, member) for member in recorded)
        if not isinstance(recorded, str) or name in kernel["texts"]:
            return recorded
        if "Layout(" in recorded:
            with suppress(Exception):  # one of Gluon's is recorded as it is written
                return eval(recorded, dict(vars(import_module(GLUON))))
        return types.get(recorded, function.fn.__globals__.get(recorded, recorded))

    def place(name: str) -> tuple[int, ...]:
        first, *members = name.replace("]", "").split("[")  # items of a tuple are name[0]
        return (function.arg_names.index(first), *map(int, members))

    # That of a tuple was recorded as its text.
    signature = {n: literal_eval(t) if t[:1] == "(" else t for n, t in kernel["signature"].items()}
    return {
        "signature": signature,
        "constexprs": {place(n): value(n, v) for n, v in kernel["constexprs"].items()},
        "attrs": {place(name): v for name, v in kernel["attributes"].items() if v},
    }
