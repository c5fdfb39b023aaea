"""Compiles a kernel from one of its recorded stages onward.

    main(JOB, RESULTS)

JOB is a JSON file: ``stage`` (``source``, Triton's own IR before its first pass, ``ttir``,
``ttgir``, ``llir`` or ``ptx``), ``path`` (its text), ``file`` (what the user calls it), ``target``
(a number, 90), ``options`` by name as they were recorded or chosen (what this version of Triton's
does not know is left out, and said), ``gluon``, ``until`` (the last stage to make), ``folder`` (for
the stages), ``said`` (a file for the output), ``watch`` (null, or the files of the
told of passes: ``timed``, ``printed``, ``arrivals``, ``mark``, as below; ``only``
where it is known to die, and nothing but what is printed is wanted), ``most`` (bytes of one file).

RESULTS grows by one JSON object a line, flushed: ``{"triton", "unknown": [option…]}``, for each
stage ``{"begin"}`` and ``{"stage", "path", "seconds"}``, then ``{"metadata"}``, or where one failed
``{"failed", "stage", "messages"}``. A process that dies leaves the stage that it had begun.

Where passes are watched the stages are made again, once with MLIR's and LLVM's own reports of time
(``timed``), and once with the IR before every MLIR pass and after every LLVM pass (``printed``).
Lines that begin with the mark, a word that nobody else knows, separate the parts:

    <mark> stage ttgir          a stage begins
    <mark> pipeline TEXT        a pass manager of MLIR's begins, with its passes as text
    <mark> ended                it has ended; the module follows
    <mark> module               LLVM's module before LLVM's first pass follows
    <mark> translate            LLVM's code generator begins
    <mark> over                 what followed is complete

LLVM does not time the passes of its optimizer where Triton runs it. It prints a line when it begins
a pass and when it ends one: a second process notes when these lines arrive. ``arrivals`` holds, for
each piece that was read at once with such a line in it, the byte at which it ends in the output,
and the seconds.
"""

import faulthandler
import json
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..hooks import observed, succeeded
from ..writer import json_value
from . import compile_job, diagnostics

NO_TRITON = 3
MEMORY = 32 << 30
"""Bytes of address space: a text may ask for any amount."""
MLIR = ("source", "ttir", "ttgir")
# Paths, and what would be looked for on this machine, are never taken from a recording.
NEVER = ("extern_libs", "ir_override", "arch", "backend_name", "warp_size", "triton_version")
_WARPS = re.compile(r'"?(?:ttg|triton_gpu)\.num-(warps|ctas)"? = (\d{1,4})')
_LOCATION = re.compile(
    r' ?loc\((?:[^()"\n]|"[^"\n]*"|\((?:[^()"\n]|"[^"\n]*"|\((?:[^()"\n]|"[^"\n]*")*\))*\))*\)'
)
_DEFINED = re.compile(r"^#loc\d* = .*$", re.MULTILINE)


def main(job_path: str, results_path: str) -> int:
    """0 where all stages were made or one failed in words; 3 without Triton."""
    with open(job_path, encoding="utf-8") as file:
        job = json.load(file)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit_resource(resource.RLIMIT_AS, MEMORY)
    if job.get("most"):
        _limit_resource(
            resource.RLIMIT_FSIZE, job["most"]
        )  # Python ignores the signal: writing fails
    os.dup(2)  # held open, so that a parent that reads it also waits for our own children
    with open(job["said"], "wb") as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
    faulthandler.disable()
    try:
        import triton
    except ImportError:
        return NO_TRITON
    with open(results_path, "a", encoding="utf-8") as out:

        def tell(**fields: Any) -> None:
            out.write(json.dumps(fields, default=str) + "\n")
            out.flush()

        Remaining(job, tell, str(getattr(triton, "__version__", ""))).run()
    return 0


def _limit_resource(resource_kind: int, limit: int) -> None:
    hard = resource.getrlimit(resource_kind)[1]
    resource.setrlimit(
        resource_kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard)
    )


class Remaining:
    """One text, and the stages that follow it."""

    def __init__(self, job: dict[str, Any], tell: Callable[..., None], version: str) -> None:
        self.job = job
        self.tell = tell
        self.version = version
        self.stage: str = job["stage"]
        self.current_stage = self.stage
        self.text = compile_job.read(job["path"])
        self.stages: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self._backend: Any = None

    def run(self) -> None:
        """Make every stage, as the compiler would have, and write a line for each."""
        self.tell(begin=self.stage)
        try:
            self._prepare()
            if self.job.get("watch") is None:
                self._make()
            else:
                self._watched(**self.job["watch"])
        except Exception as error:
            self._failed(self.current_stage, error)
            return
        self.tell(metadata=json_value(self.metadata))

    def _make(
        self, mark: Callable[[str], object] | None = None, path: str = "", until: str = ""
    ) -> None:
        """Make the stages and keep them; with ``mark``, which gets each as it begins, keep none."""
        module = self._parsed(path or self.job["path"])
        names = list(self.stages)
        if self.stage != "source":
            names = names[names.index(self.stage) + 1 :]
        for name in names:
            self.current_stage = name
            self.tell(begin=name)
            if mark is not None:
                mark(f"stage {name}")
            clock = time.perf_counter()
            module = self.stages[name](module, self.metadata)
            seconds = time.perf_counter() - clock
            if mark is None:  # written down as Triton's cache would
                path = os.path.join(self.job["folder"], f"made.{name}")
                data = module if isinstance(module, bytes) else str(module).encode(errors="replace")
                with open(path, "wb") as file:
                    file.write(data)
                self.tell(stage=name, path=path, seconds=seconds)
            if name == (until or self.job["until"]):
                break

    def _watched(self, timed: str, printed: str, arrivals: str, mark: str, only: bool) -> None:
        """The same with passes, whose output goes into separate files."""
        failed: Exception | None = None
        marks = Marks(mark, arrivals)
        if not only:
            try:  # compilers are woken, too, for the times that follow
                self._make()
            except Exception as error:
                failed = error  # told with the passes that it came to
            with suppress(Exception), _printing(TIMED, timed):  # it will fail again below
                self._make(marks.line)
        try:
            with _printing(PRINTED, printed):
                marks.attach()
                self._make(marks.line)
        except Exception as error:
            failed = failed or error
        if failed is not None:
            raise failed

    def _prepare(self) -> None:
        target = compile_job.gpu_target(int(self.job["target"]))
        self._backend = compile_job.make_backend(target)
        # The options that this Triton knows; the others are reported.
        defaults = vars(self._backend.parse_options({}))
        requested = {
            k: v for k, v in self.job["options"].items() if k not in NEVER and v is not None
        }
        options = {k: _like(defaults[k], v) for k, v in requested.items() if k in defaults}
        if self.stage == "ttgir":  # as Triton itself does: the text says it
            options |= {f"num_{unit}": int(n) for unit, n in _WARPS.findall(self.text[: 1 << 16])}
        self.tell(triton=self.version, unknown=sorted(requested.keys() - defaults.keys()))
        parsed = self._backend.parse_options(options)
        self.stages = compile_job.stages_of(self._backend, parsed, self.job["gluon"])
        self.metadata.update(vars(parsed), triton_version=self.version)
        self.metadata["target"] = vars(target) if hasattr(target, "__dict__") else target
        if self.stage in ("llir", "ptx"):
            from triton._C.libtriton import llvm, nvidia

            llvm.init_targets()
            # Up to Triton 3.7 the stage before sets LLVM's width of shared pointers, for the
            # process; a text that starts behind it says by its data layout that it was set.
            if "-p3:32:32" in self.text[: 1 << 16]:
                getattr(nvidia, "set_short_ptr", bool)()

    def _parsed(self, path: str) -> Any:
        """The text as the next stage takes it."""
        if self.stage not in MLIR:
            return self.text
        from triton._C.libtriton import ir

        context = ir.context()
        ir.load_dialects(context)
        self._backend.load_dialects(context)
        module = ir.parse_mlir_module(path, context)
        module.context = context
        return module

    # -- what went wrong --------------------------------------------------------------------------

    def _failed(self, failed_stage: str, error: Exception) -> None:
        """Say it, at the lines of the text that was given where they can be known."""
        messages = self._messages(error, self.job["path"])
        has_own_line = any(m.get("file") == self.job["file"] and "line" in m for m in messages)
        relocate = not has_own_line and not self.job.get("at_source")
        if relocate and self.stage in MLIR and failed_stage not in ("ptx", "cubin"):
            messages = self._messages_at_text_lines(failed_stage) or messages
        first = next(m for m in messages if m["severity"] == "error")
        self.tell(failed=first["message"], stage=failed_stage, messages=messages)

    def _messages(self, error: Exception, path: str) -> list[dict[str, Any]]:
        compile_job.flush()
        printed = compile_job.read_printed(self.job["said"]) + "\n" + str(error)
        names = {path: self.job["file"], os.path.realpath(path): self.job["file"]}
        texts = {self.job["file"]: self.text}
        ptx = os.path.join(self.job["folder"], "made.ptx")
        if self.stage == "ptx":
            texts["ptx"] = self.text
        elif os.path.exists(ptx):
            texts["ptx"] = compile_job.read_printed(ptx)
        messages = [
            _with_continuation(m, printed)
            for m in diagnostics.from_failure(error, None, printed, names, texts)[0]
        ]
        if self.stage == "ptx":
            messages = [m | {"file": self.job["file"]} if "file" in m else m for m in messages]
        return messages

    def _messages_at_text_lines(self, failed_stage: str) -> list[dict[str, Any]]:
        """What a pass says where each operation's location is its line of the text itself.

        MLIR gives an operation that names no location the place where it stood when it was read.
        """
        text = _LOCATION.sub("", _DEFINED.sub("", self.text))
        path = os.path.join(self.job["folder"], "unlocated.mlir")
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        os.truncate(self.job["said"], 0)
        os.lseek(1, 0, os.SEEK_SET)
        messages: list[dict[str, Any]] = []
        try:
            self._make(lambda mark: None, path, failed_stage)
        except Exception as error:
            messages = self._messages(error, path)
        return messages if any("line" in m for m in messages) else []


def _with_continuation(message: dict[str, Any], printed: str) -> dict[str, Any]:
    """A message with the row beneath it, where a verifier goes on there."""
    _, mark, remainder = printed.partition(message["message"] + "\n")
    row = remainder.partition("\n")[0]
    if message["tool"] != "triton" or not mark or not row[:1].isupper() or not row.endswith("."):
        return message
    return message | {
        "message": f"{message['message']} {row}"[: diagnostics.MAX_MESSAGE_CHARACTERS]
    }


def _like(usual: Any, value: Any) -> Any:
    """A value of JSON's as the option has it: tuples are lists there."""
    if isinstance(value, list) and not isinstance(usual, list):
        return tuple(_like((), item) if isinstance(item, list) else item for item in value)
    return value


TIMED = {"MLIR_ENABLE_TIMING": "1", "LLVM_ENABLE_TIMING": "1"}
# Triton sets a flag of LLVM's for each name in the second, and there is no other way to set one:
# what is printed after each pass is then the whole module, as MLIR's are.
PRINTED = {
    "MLIR_ENABLE_DUMP": "1",
    "LLVM_IR_ENABLE_DUMP": "1",
    "DISABLE_LLVM_OPT": "print-module-scope",
}
CHUNK_BYTES = 1 << 16
NOTED = (b"Running pass: ", b"*** IR Dump After ")


class Marks:
    """Lines between what compilers print, and the modules that they do not print themselves."""

    def __init__(self, mark: str, times: str) -> None:
        self._mark = mark
        self._times = times

    def attach(self) -> None:
        """Observe MLIR's pass managers, LLVM's optimizer and its code generator."""
        from triton._C.libtriton import ir, llvm

        run = ir.pass_manager.run
        optimize = llvm.optimize_module
        translate = llvm.translate_to_asm
        ended = succeeded(lambda module, result: self.line("ended", str(module)))
        ir.pass_manager.run = observed(run, self._pipeline, ended)
        llvm.optimize_module = observed(optimize, self._optimizing, self._optimized)
        llvm.translate_to_asm = observed(
            translate, lambda args, kwargs: self.line("translate"), self._translated
        )

    def line(self, text: str, module: str | None = None) -> None:
        """Write a mark, and a module after it."""
        compile_job.flush()
        followed = "" if module is None else f"{module}\n{self._mark} over\n"
        sys.stderr.buffer.write(f"\n{self._mark} {text}\n{followed}".encode("utf-8", "replace"))
        sys.stderr.flush()

    def _pipeline(self, args: Any, kwargs: Any) -> Any:
        self.line(f"pipeline {getattr(args[0], 'get_pipeline_str', str)()}")
        return args[1]

    def _translated(self, _: None, result: Any, error: BaseException | None) -> None:
        if error is None:
            self.line("over")

    def _optimizing(self, args: Any, kwargs: Any) -> tuple[int, int]:
        """Have another process note the arrivals of output; its descriptor and number."""
        self.line("module", str(args[0]))
        file, (reader, writer) = os.dup(2), os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(writer)
                _note(reader, file, self._times)
            finally:
                os._exit(0)
        os.close(reader)
        os.dup2(writer, 2)
        os.close(writer)
        return file, child

    def _optimized(self, noting: tuple[int, int], result: Any, error: BaseException | None) -> None:
        file, child = noting
        sys.stderr.flush()
        os.dup2(file, 2)
        os.close(file)
        os.waitpid(child, 0)
        self._translated(None, result, error)


def _note(reader: int, file: int, times: str) -> None:
    """Copy all that arrives, and keep when each part of it did."""
    arrived: list[tuple[int, float]] = []
    with open(file, "ab", closefd=False) as copy:
        while data := os.read(reader, CHUNK_BYTES):
            now = time.perf_counter()
            copy.write(data)
            if any(word in data for word in NOTED):
                arrived.append((copy.tell(), now))
    with open(times, "w", encoding="ascii") as out:
        json.dump(arrived, out)


@contextmanager
def _printing(settings: dict[str, str], path: str) -> Iterator[None]:
    """Within it, compilers find these in the environment, and standard error is this file."""
    os.environ.update(settings)
    try:
        with compile_job.redirected(path, 2):
            yield
    finally:
        for name in settings:
            del os.environ[name]
