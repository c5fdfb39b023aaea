"""Launcher proxies that forward each launch and count it by grid and arguments."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from .. import hooks
from . import subjects
from .arguments import ALIGNMENT, Item, sign
from .subjects import Entry, Subject

Parameters = list[tuple[str, Any, Any]]  # name, type, the value of one that was compiled in
# The role of an argument when launches are compared: ignored (compiled in, or irrelevant), scalar,
# tensor, or odd: none of these.
IGNORED, SCALAR, TENSOR, ODD = range(4)


def kinds_of(parameters: Parameters, count: int) -> list[Any]:
    """Types of the values that are passed: of all parameters, or of those not compiled in."""
    kinds = [kind for _, kind, _ in parameters]
    passed = [kind for kind in kinds if kind != "constexpr"]
    return kinds if len(kinds) == count else passed if len(passed) == count else [None] * count


def role_of(kind: Any) -> int:
    """What an argument of this type is."""
    if kind == "constexpr":
        return IGNORED
    if not isinstance(kind, str):
        return ODD
    return TENSOR if kind.startswith("*") else SCALAR if kind[:1] in "iufb" else ODD


def key_of(grid: Any, values: Any, roles: list[int]) -> tuple[Any, ...]:
    """What tells a call apart: the grid, and what each of the kernel's arguments is."""
    parts: list[Any] = [*grid]
    for role, value in zip(roles, values, strict=True):
        if role == TENSOR:
            parts += (value.shape, value.stride(), value.data_ptr() & ALIGNMENT - 1)
        elif role != IGNORED:
            parts.append(value if role == SCALAR else sign(value))
    return tuple(parts)


def items(parameters: Parameters, values: tuple[Any, ...]) -> Iterator[Item]:
    """Parameters with their values; those that were compiled in and not passed have their own."""
    if len(values) == len(parameters):
        for (name, kind, _), value in zip(parameters, values, strict=True):
            yield name, kind, value
        return
    passed = [p for p in parameters if p[1] != "constexpr"]
    if len(values) != len(passed):
        for n, value in enumerate(values):
            yield f"arg{n}", None, value
        return
    remaining = iter(values)
    for name, kind, value in parameters:
        yield name, kind, value if kind == "constexpr" else next(remaining)


class Counter:
    """Counts the launches of one launcher.

    Args:
        record: Records the kernel where this recording lacks it, and returns its subject.
        leading: Number of arguments before the kernel's own; the first three are the grid.
    """

    def __init__(self, record: Callable[[], Subject], leading: int, parameters: Parameters) -> None:
        self.record, self.leading, self.parameters = record, leading, parameters
        self._epoch = -1
        # The roles of a launch's arguments, and what picks the grid and the scalars out of them.
        self._roles: list[int] | None = None
        self._scalars: Callable[[Any], Any] | None = None
        self._arity = 0

    def before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Subject, Entry]:
        """The entry that a launch with these arguments counts for once it has succeeded."""
        if self._epoch != subjects.epoch:
            self.subject = self.record()
            self._epoch = subjects.epoch
        subject = self.subject
        if subjects._tuning[0]:
            return subject, subject.benchmarks
        scalars = self._scalars
        if scalars is None or len(args) != self._arity:
            return subject, self._described(subject, args)
        key = scalars(args)
        entry = subject.known(key)
        if entry is None:
            entry = self._described(subject, args)
            subject.learn(key, entry)
        return subject, entry

    def after(self, token: tuple[Subject, Entry], result: Any, error: Any) -> None:
        """Count a launch that did not raise."""
        if error is None:
            subject, entry = token
            entry[0] += 1
            if entry[0] >= entry[1]:
                subjects.grown(subject, entry)

    def _described(self, subject: Subject, args: tuple[Any, ...]) -> Entry:
        """The entry of a call, found by comparing each of its arguments."""
        values = args[self.leading :]
        try:
            if self._roles is None or len(self._roles) != len(values):
                self._look_at(values)
            key: Any
            try:
                key = key_of(args[:3], values, self._roles or [])
                hash(key)
            except Exception:  # values that the roles do not fit, or that have no place in a key
                self._scalars = None
                key = (args[:3], tuple(map(sign, values)))
            if key in subject.seen:
                return subject.seen[key]
            grid = [int(n) for n in args[:3]]
            return subject.entry(key, items(self.parameters, values), tuple(grid))
        except Exception as error:
            subjects.failed("a launch", error)
            return subject.others

    def _look_at(self, values: tuple[Any, ...]) -> None:
        """From the next launch on, compare arguments like these."""
        roles = self._roles = [*map(role_of, kinds_of(self.parameters, len(values)))]
        self._arity = self.leading + len(values)
        own = [self.leading + n for n, role in enumerate(roles) if role == SCALAR]
        self._scalars = None if ODD in roles else itemgetter(0, 1, 2, *own)


class LaunchProxy(functools.partial[Any]):
    """A counted launcher as an object: in all but being called it is the launcher.

    A ``partial`` calls what it is of without a frame of Python's, as ``__call__`` would need.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(self.func.__wrapped__, name)  # type: ignore[attr-defined]

    @property
    def _ptxview(self) -> Counter:
        counter: Counter = self.func._ptxview  # type: ignore[attr-defined]
        return counter

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Inductor keeps kernels in its cache: what it keeps is what it would keep without us.
        return operator.getitem, ((self.func.__wrapped__,), 0)  # type: ignore[attr-defined]


def counter_of(launcher: Any) -> Counter | None:
    """The ``Counter`` of a launcher's launches; None if the launcher is not wrapped."""
    counter = getattr(launcher, "_ptxview", None)
    return counter if isinstance(counter, Counter) else None


def counted_function(launcher: Any, counter: Counter) -> Any:
    """A function that counts the launches of ``launcher``, for Inductor's launchers.

    Nothing but their ``__self__`` is ever read.
    """
    made = hooks.observed(launcher, counter.before, counter.after, "counting launches")
    made._ptxview = counter
    if hasattr(launcher, "__self__"):
        made.__self__ = launcher.__self__  # Inductor takes its kernel from there
    return made


def counted(launcher: Any, counter: Counter) -> Any:
    """An object that counts the launches of ``launcher`` and has all attributes of the launcher."""
    return LaunchProxy(counted_function(launcher, counter))
