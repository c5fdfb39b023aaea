"""Has MLIR and LLVM print their IR around every pass, and say how long each pass took.

The stages are made twice: once timed, with nothing printed but MLIR's and LLVM's own reports of
time, and once with the IR before every pass of MLIR's and after every pass of LLVM's. Between what
they print stand marks, lines of this module's own with a word that nobody else knows:

    <mark> stage ttgir          a stage begins
    <mark> pipeline TEXT        a pass manager of MLIR's begins, with its passes as text
    <mark> ended                it has ended; the module follows
    <mark> module               LLVM's module as it is before LLVM's first pass follows
    <mark> translate            LLVM's code generator begins
    <mark> over                 what followed is complete

LLVM does not time the passes of its optimizer where Triton runs it. It says when it begins one, and
when one has ended: a second process notes when these lines arrive. In the file of arrivals is, for
all that was read at once with such a line in it, the byte at which it ends in what was printed, and
the seconds.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

TIMED = {"MLIR_ENABLE_TIMING": "1", "LLVM_ENABLE_TIMING": "1"}
# Triton sets a flag of LLVM's for each name in the second, and there is no other way to set one:
# what is printed after each pass is then the whole module, as MLIR's are.
PRINTED = {
    "MLIR_ENABLE_DUMP": "1",
    "LLVM_IR_ENABLE_DUMP": "1",
    "DISABLE_LLVM_OPT": "print-module-scope",
}
CHUNK = 1 << 16
AT_ONCE = 16 << 20
PIPE = 1 << 20
TELLING = (b"Running pass: ", b"*** IR Dump After ")


@contextmanager
def told(settings: dict[str, str]) -> Iterator[None]:
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
        """Stand around MLIR's pass managers and LLVM's optimizer."""
        run = ir.pass_manager.run

        @functools.wraps(run)
        def watched_run(manager: Any, module: Any, *args: Any) -> Any:
            pipeline = getattr(manager, "get_pipeline_str", None)
            self._line(f"pipeline {pipeline() if pipeline is not None else ''}")
            result = run(manager, module, *args)
            self._line("ended", str(module))
            return result

        ir.pass_manager.run = watched_run
        optimize = llvm.optimize_module

        @functools.wraps(optimize)
        def watched_optimize(module: Any, *args: Any, **kwargs: Any) -> Any:
            self._line("module", str(module))
            with self._arrivals():
                result = optimize(module, *args, **kwargs)
            self._line("over")
            return result

        llvm.optimize_module = watched_optimize
        translate = llvm.translate_to_asm

        @functools.wraps(translate)
        def watched_translate(text: str, *args: Any, **kwargs: Any) -> Any:
            self._line("translate")
            result = translate(text, *args, **kwargs)
            self._line("over")
            return result

        llvm.translate_to_asm = watched_translate

    def _line(self, text: str, module: str | None = None) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        _all(2, f"\n{self._mark} {text}\n".encode())
        if module is not None:
            _all(2, module.encode("utf-8", "replace"))
            _all(2, f"\n{self._mark} over\n".encode())

    @contextmanager
    def _arrivals(self) -> Iterator[None]:
        """Within it, another process notes when what is printed arrives."""
        file, (reader, writer) = os.dup(2), os.pipe()
        with suppress(OSError, AttributeError):
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE)
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
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(file, 2)
            os.close(file)
            os.waitpid(child, 0)


def _note(reader: int, file: int, times: str) -> None:
    """Copy all that arrives, and keep when each part of it did."""
    at = os.lseek(file, 0, os.SEEK_CUR)
    arrived: list[tuple[int, float]] = []
    waiting: list[bytes] = []
    size = 0
    while data := os.read(reader, CHUNK):
        now = time.perf_counter()
        at += len(data)
        if any(word in data for word in TELLING):
            arrived.append((at, now))
        waiting.append(data)
        size += len(data)
        if size > AT_ONCE:  # seldom, since what arrives meanwhile is noted late
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
    """Make the stages timed, then with their IR printed; each into a file of its own.

    ``make`` is given what it is to call when a stage begins.
    """
    with told(TIMED), _into(printed[0]), suppress(Exception):  # what fails will fail again below
        plain = Marks(mark, times)
        make(plain.stage)
    run_printed(make, printed[1], mark, times)


def run_printed(
    make: Callable[[Callable[[str], None]], None], printed: str, mark: str, times: str
) -> None:
    """Make the stages with their IR printed, into a file."""
    from triton._C.libtriton import ir, llvm

    with told(PRINTED), _into(printed):
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
