"""Has MLIR and LLVM print their IR around every pass, and the time of each pass.

The stages are made twice: once timed, with nothing printed but MLIR's and LLVM's own reports of
time, and once with the IR before every MLIR pass and after every LLVM pass. Marks separate the
parts, lines of this module with a word that nobody else knows:

    <mark> stage ttgir          a stage begins
    <mark> pipeline TEXT        a pass manager of MLIR's begins, with its passes as text
    <mark> ended                it has ended; the module follows
    <mark> module               LLVM's module before LLVM's first pass follows
    <mark> translate            LLVM's code generator begins
    <mark> over                 what followed is complete

LLVM does not time the passes of its optimizer where Triton runs it. It prints a line when it begins
a pass and when it ends one: a second process notes when these lines arrive. The file of arrivals
holds, for each piece that was read at once with such a line in it, the byte at which it ends in the
output, and the seconds.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..hooks import observed

TIMED = {"MLIR_ENABLE_TIMING": "1", "LLVM_ENABLE_TIMING": "1"}
# Triton sets a flag of LLVM's for each name in the second, and there is no other way to set one:
# what is printed after each pass is then the whole module, as MLIR's are.
PRINTED = {
    "MLIR_ENABLE_DUMP": "1",
    "LLVM_IR_ENABLE_DUMP": "1",
    "DISABLE_LLVM_OPT": "print-module-scope",
}
CHUNK_BYTES = 1 << 16
MAX_HELD_BYTES = 16 << 20
PIPE_BYTES = 1 << 20
NOTED = (b"Running pass: ", b"*** IR Dump After ")


@contextmanager
def environment(settings: dict[str, str]) -> Iterator[None]:
    """Within it, compilers find these in the environment."""
    os.environ.update(settings)
    try:
        yield
    finally:
        for name in settings:
            del os.environ[name]


class Marks:
    """Lines between what compilers print, and the modules that they do not print themselves."""

    def __init__(self, mark: str, times: str) -> None:
        self._mark, self._times = mark, times
        self._stage = ""

    def stage(self, name: str) -> None:
        """A stage begins."""
        self._stage = name
        self._line(f"stage {name}")

    def attach(self, ir: Any, llvm: Any) -> None:
        """Observe MLIR's pass managers, LLVM's optimizer and its code generator."""
        run, optimize, translate = ir.pass_manager.run, llvm.optimize_module, llvm.translate_to_asm
        ir.pass_manager.run = observed(run, self._pipeline, self._ended)
        llvm.optimize_module = observed(optimize, self._optimizing, self._optimized)
        llvm.translate_to_asm = observed(translate, self._translating, self._translated)

    def _pipeline(self, args: Any, kwargs: Any) -> Any:
        pipeline = getattr(args[0], "get_pipeline_str", None)
        self._line(f"pipeline {pipeline() if pipeline is not None else ''}")
        return args[1]

    def _ended(self, module: Any, result: Any, error: BaseException | None) -> None:
        if error is None:
            self._line("ended", str(module))

    def _translating(self, args: Any, kwargs: Any) -> None:
        self._line("translate")

    def _translated(self, _: None, result: Any, error: BaseException | None) -> None:
        if error is None:
            self._line("over")

    def _line(self, text: str, module: str | None = None) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        _all(2, f"\n{self._mark} {text}\n".encode())
        if module is not None:
            _all(2, module.encode("utf-8", "replace"))
            _all(2, f"\n{self._mark} over\n".encode())

    def _optimizing(self, args: Any, kwargs: Any) -> tuple[int, int]:
        """Have another process note the arrivals of output; its descriptor and number."""
        self._line("module", str(args[0]))
        file, (reader, writer) = os.dup(2), os.pipe()
        with suppress(OSError, AttributeError):
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
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
    at = os.lseek(file, 0, os.SEEK_CUR)
    arrived: list[tuple[int, float]] = []
    waiting: list[bytes] = []
    size = 0
    while data := os.read(reader, CHUNK_BYTES):
        now = time.perf_counter()
        at += len(data)
        if any(word in data for word in NOTED):
            arrived.append((at, now))
        waiting.append(data)
        size += len(data)
        if size > MAX_HELD_BYTES:  # seldom: what arrives during it is noted late
            _all(file, b"".join(waiting))
            waiting, size = [], 0
    _all(file, b"".join(waiting))
    with open(times, "w", encoding="ascii") as out:
        json.dump(arrived, out)


def _all(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def run_twice(
    make: Callable[[Callable[[str], None]], None], printed: tuple[str, str], mark: str, times: str
) -> None:
    """Make the stages timed, then with their IR printed, each into a separate file.

    ``make`` is given what it is to call when a stage begins.
    """
    with (
        environment(TIMED),
        _into(printed[0]),
        suppress(Exception),
    ):  # what fails will fail again below
        plain = Marks(mark, times)
        make(plain.stage)
    run_printed(make, printed[1], mark, times)


def run_printed(
    make: Callable[[Callable[[str], None]], None], printed: str, mark: str, times: str
) -> None:
    """Make the stages with their IR printed, into a file."""
    from triton._C.libtriton import ir, llvm

    with environment(PRINTED), _into(printed):
        marks = Marks(mark, times)
        marks.attach(ir, llvm)
        make(marks.stage)


@contextmanager
def _into(path: str) -> Iterator[None]:
    """Within it, standard error is this file."""
    before = os.dup(2)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    sys.stderr.flush()
    os.dup2(fd, 2)
    os.close(fd)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)
