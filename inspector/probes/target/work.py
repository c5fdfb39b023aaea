"""How much a launch may be interpreted: counted in work, so that a loaded machine changes nothing.

The unit is an element that an operation of the interpreter gives. An operation has a price of its
own besides, since most of its time is Python's. ``--value-seconds`` is turned into such elements at
a fixed rate, about that of one idle core of 2024; what a program computes does not depend on how
fast or how busy the machine is.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Elements that one second of ``--value-seconds`` stands for.
ELEMENTS_A_SECOND = 250_000_000
# What one operation costs before its first element.
ELEMENTS_AN_OPERATION = 6_000
# Multiplications of a product that cost as much as one element: BLAS does them.
PRODUCTS_AN_ELEMENT = 16
# Operations that Python computes one element at a time.
SLOW = {"create_erf": 60, "create_umulhi": 40, "create_histogram": 20}


# What one launch within a benchmark may take, and all of a program's together: their results are
# seldom read, and nothing is measured.
BENCHMARK_SECONDS, BENCHMARKS_SECONDS = 1.0, 10.0


class Benchmarks:
    """Whether a benchmark runs, and what all of them may still take."""

    def __init__(self) -> None:
        self.depth = 0
        self.left = BENCHMARKS_SECONDS

    @contextmanager
    def running(self) -> Iterator[None]:
        """Within it, launches are a benchmark's."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def within(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose launches are a benchmark's."""

        @functools.wraps(run)
        def call(*args: Any, **given: Any) -> Any:
            with self.running():
                return run(*args, **given)

        return call

    def used(self, seconds: float) -> None:
        """A launch took so much work."""
        if self.depth:
            self.left = max(0.0, self.left - seconds)

    def most(self, allowed: float) -> float:
        """What one launch may take now, of what any may."""
        if not self.depth or math.isinf(allowed):
            return allowed
        return min(allowed, BENCHMARK_SECONDS, self.left)


BENCHMARKS = Benchmarks()


class OverBudget(Exception):
    """The launch would take more work than it may; ``seconds``: for the whole of it, at least."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Meter:
    """What the launch under way has used, and what it may."""

    def __init__(self) -> None:
        self.used = 0.0
        self.allowed = math.inf
        self.programs = 1
        self.done = 0

    def begin(self, seconds: float, programs: int) -> None:
        self.used, self.done = 0.0, 0
        self.allowed = seconds * ELEMENTS_A_SECOND
        self.programs = programs

    def add(self, elements: float) -> None:
        """One operation was interpreted; raises OverBudget within a program, too."""
        self.used += ELEMENTS_AN_OPERATION + elements
        if self.used > self.allowed:
            whole = self.used if not self.done else self.used / self.done * self.programs
            raise OverBudget(max(whole, self.used) / ELEMENTS_A_SECOND)

    def program_done(self) -> None:
        """Stop early where the rest is going to take far too much."""
        self.done += 1
        # What Python itself does for a program.
        self.used += ELEMENTS_AN_OPERATION
        if self.used < min(ELEMENTS_A_SECOND / 4, self.allowed):
            return
        whole = self.used / self.done * self.programs
        if self.used > self.allowed or whole > 1.5 * self.allowed:
            raise OverBudget(whole / ELEMENTS_A_SECOND)


METER = Meter()


def _size(value: Any) -> int:
    if isinstance(value, (tuple, list)):
        return max(map(_size, value), default=0)
    return int(getattr(getattr(value, "data", None), "size", 0) or 0)


def _counted(name: str, original: Any) -> Any:
    factor = SLOW.get(name, 1)

    def method(builder: Any, *args: Any, **given: Any) -> Any:
        result = original(builder, *args, **given)
        METER.add(factor * (_size(result) or _size(args)))
        return result

    return method


def _product(original: Any) -> Any:
    def method(builder: Any, a: Any, b: Any, *rest: Any, **given: Any) -> Any:
        result = original(builder, a, b, *rest, **given)
        METER.add(_size(a) * result.data.shape[-1] / PRODUCTS_AN_ELEMENT + _size(result))
        return result

    return method


def _reduction(original: Any) -> Any:
    def apply_impl(ops: Any, given: Any) -> Any:
        inputs = given if isinstance(given, tuple) else (given,)
        METER.add(sum(_size(value.handle) for value in inputs))
        return original(ops, given)

    return apply_impl


def patches(interpreter: Any, before: list[tuple[Any, str, Any]]) -> list[tuple[Any, str, Any]]:
    """Every operation of the interpreter, counted; ``before``: patches that this goes over."""
    builder = interpreter.InterpreterBuilder
    patched = {(id(owner), name): value for owner, name, value in before}
    counted = []
    for name in dir(builder):
        if name.startswith("create_"):
            original = patched.get((id(builder), name)) or getattr(builder, name)
            count = _product(original) if name == "create_dot" else _counted(name, original)
            counted.append((builder, name, count))
    for ops in (interpreter.ReduceOps, interpreter.ScanOps):
        original = patched.get((id(ops), "apply_impl")) or ops.apply_impl
        counted.append((ops, "apply_impl", _reduction(original)))
    return counted
