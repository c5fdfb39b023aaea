"""What stands before a launcher: it passes all arguments on and counts what call they make.

What is called for each launch compares it with the last call, scalars one by one and tensors in one
look, and asks ``Stand`` about all others. That is an object of ``launch.c`` where it could be
compiled, and else a function that does the same in ten times the time.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterator
from functools import cache
from operator import and_, itemgetter
from threading import get_ident
from typing import Any, NamedTuple, cast

from .. import private_names
from . import launch_native, subjects
from .arguments import ALIGNMENT, Item, aligned, mask, sign, unseen
from .subjects import Entry, Subject

# -- the arguments of one kernel ------------------------------------------------------------------

Parameters = list[tuple[str, Any, Any]]  # name, type, the value of one that was compiled in
# The role of an argument when launches are compared: ignored (compiled in, or irrelevant), scalar,
# tensor (launch.c has the same numbers), or odd: none of these.
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


class Roles(NamedTuple):
    """The role of each of a launcher's arguments, and functions that pick the scalars (with the
    grid) and the tensors out of them."""

    each: bytes
    scalars: Callable[[Any], tuple[Any, ...]]
    tensors: Callable[[Any], tuple[Any, ...]]


def roles_of(leading: int, kinds: list[Any]) -> Roles | None:
    """The roles of arguments of these types after ``leading`` other ones; None if there is no
    tensor, or if an argument is neither a tensor nor a scalar."""
    each = [SCALAR, SCALAR, SCALAR, *[IGNORED] * (leading - 3), *map(role_of, kinds)]
    tensors = [n for n, role in enumerate(each) if role == TENSOR]
    if ODD in each or not tensors:
        return None
    scalars = [n for n, role in enumerate(each) if role == SCALAR]
    # itemgetter of a single index would not return a tuple.
    first_tensor = itemgetter(slice(tensors[0], tensors[0] + 1))
    return Roles(
        bytes(each),
        itemgetter(*scalars),
        itemgetter(*tensors) if len(tensors) > 1 else first_tensor,
    )


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


# -- calls that are recognised by one check -------------------------------------------------------

# How many layouts of a launcher may be remembered so; with ever new ones it would not pay.
MOST_QUICK = 32


class Known(NamedTuple):
    """A layout of tensors, as a check whether others have it too, and the call that has it."""

    check: Callable[..., bool]
    entry: Entry


def _check_of(tensors: tuple[Any, ...]) -> Callable[..., bool]:
    """Whether tensors have the sizes, strides, dtype, device and alignment of these, to which no
    reference is kept; raises if that cannot be told of them."""
    masks = tuple(map(_bits_of_alignment, tensors))
    native = launch_native.native()
    if native is None:
        check = _check_by_guards(tensors, masks)
    else:
        # What wraps another tensor may have no sizes or no address to tell.
        if any(launch_native.keys(t) & ~_plain_keys(t.device) for t in tensors):
            raise ValueError("tensors that are not plain")
        check = native.Layout(tensors, masks)
    if not check(*tensors):
        raise ValueError("tensors that are not even like themselves")
    return check


def _check_by_guards(tensors: tuple[Any, ...], masks: tuple[int, ...]) -> Callable[..., bool]:
    """What a ``Layout`` of launch.c says, by torch's own guards, which also compare many tensors in
    one call, but not their addresses."""
    torch: Any = sys.modules["torch"]
    kind = private_names.get("torch._C._dynamo.guards:TensorGuards")
    if kind is None:
        raise ValueError("nothing compares tensors in one look")
    guards = kind(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
    alike, address = guards.check, torch.Tensor.data_ptr
    expected = tuple(map(and_, map(address, tensors), masks))

    def check(*others: Any) -> bool:
        return alike(*others) and tuple(map(and_, map(address, others), masks)) == expected

    return check


@cache
def _plain_keys(device: Any) -> int:
    torch: Any = sys.modules["torch"]
    with unseen(torch), torch.inference_mode(False):
        return launch_native.keys(torch.empty(0, device=device))


def _bits_of_alignment(tensor: Any) -> int:
    """The bits of an address that all addresses of the same alignment have in common."""
    address, most = tensor.data_ptr(), mask(tensor) + 1
    alignment = aligned(address, most)
    if alignment is None:
        return sys.maxsize * 2 + 1
    return most - 1 if alignment == most else 2 * alignment - 1


def remember(subject: Subject, key: Any, tensors: Any, entry: Entry) -> Known | None:
    """Have a call recognised by one check of its tensors, if they are plain and torch has guards.

    ``key`` is everything else that tells the call apart. None if the call cannot be remembered.
    """
    try:
        plain = _plain()
        if subject.turns >= MOST_QUICK or any(type(t) not in plain for t in tensors):
            return None
        subject.turns += 1
        layout = Known(_check_of(tuple(tensors)), entry)
        subject.quick.setdefault(key, []).append(layout)
        return layout
    except Exception:
        return None  # this torch has no guards: each tensor is looked at by itself


def known_call(subject: Subject, key: Any, tensors: Any) -> Known | None:
    """The remembered layout of these tensors; None if there is none."""
    for layout in subject.quick.get(key, ()):
        if layout.check(*tensors):
            return layout
    return None


# -- calls of graphs and functions ----------------------------------------------------------------


def split(args: Any) -> tuple[Any, list[Any]]:
    """A key of the arguments that are no plain tensors, and the plain tensors."""
    plain = _plain()
    key = tuple([None if type(a) in plain else (type(a), a) for a in args])
    return key, [a for a in args if type(a) in plain]


def again(subject: Subject, args: Any) -> Entry | None:
    """The entry of a remembered call; None if it is not remembered, or has odd arguments."""
    try:
        layout = subject.whole
        if layout is None or not layout.check(*args):
            layout = known_call(subject, *split(args))
        return None if layout is None else layout.entry
    except Exception:
        return None


def learn(subject: Subject, args: Any, entry: Entry) -> None:
    """Remember a call, if fewer than ``MOST_QUICK`` layouts of its subject are remembered yet."""
    try:
        key, tensors = split(args)
        hash(key)
    except Exception:
        return
    if tensors:
        layout = remember(subject, key, tensors, entry)
        if layout is not None and len(tensors) == len(args):
            subject.whole = layout


@cache
def _plain() -> frozenset[Any]:
    import torch

    return frozenset((torch.Tensor, torch.nn.Parameter))


# Stands for the last call if there is none: no launch has -1 arguments.
_NOTHING: tuple[Any, ...] = (-1, None, None, None, None, None)


class Stand:
    """Counts the launches of one launcher; ``call`` is what is called in its place."""

    def __init__(
        self,
        inner: Any,
        subject: subjects.Subject,
        leading: int,
        parameters: Parameters,
        skips: bool = False,
    ) -> None:
        self.inner, self.held, self.skips = inner, subject, skips
        self.leading, self.parameters = leading, parameters
        self._kinds: list[int] | None = None  # the roles of the kernel's arguments, once seen
        self._roles: Roles | None = None
        self._last = _NOTHING
        native = launch_native.native()
        self.native = native is not None
        if native is not None:
            self.call: Any = native.Launch(
                inner, self, self._slow, self._due, subjects._tuning, subjects.graph, skips
            )
            return
        self.call = self._in_python()
        self.call._ptxview = self
        if hasattr(inner, "__self__"):
            self.call.__self__ = inner.__self__  # Inductor takes its kernel from there

    def _in_python(self) -> Any:
        """What ``launch`` of launch.c does: a launch like the last one is counted here.

        All that may change is read at once, since another thread may change it; and only after the
        launch is it counted, since that may raise.
        """
        inner, skips, graph, tuning = self.inner, self.skips, subjects.graph, subjects._tuning

        def call(*args: Any, **kwargs: Any) -> Any:
            if skips and graph[0] and graph[0] == get_ident():
                graph[3] += 1
                return inner(*args, **kwargs)
            arity, scalars, tensors, key, check, entry = self._last
            if (
                len(args) != arity or kwargs or tuning[0]
                or scalars(args) != key or not check(*tensors(args))
            ):  # fmt: skip
                return self._slow(args, kwargs)
            result = inner(*args)
            count = entry[0] + 1
            entry[0] = count
            if skips and graph[1] and graph[1] == get_ident():
                graph[2].append(entry)
            if count >= entry[1]:
                self._due(entry, args)
            return result

        return call

    def _slow(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
        """Launch, and count the launch after comparing each of its arguments."""
        entry = self._entry(args)
        result = self.inner(*args, **(kwargs or {}))
        if subjects._tuning[0]:
            entry = self.held.benchmarks
        subjects.add(self.held, entry)
        if subjects.graph[1] and self.skips and subjects.graph[1] == get_ident():
            subjects.graph[2].append(entry)
        return result

    def _due(self, entry: subjects.Entry, args: tuple[Any, ...]) -> None:
        """Report a count, unless it is that of a process before a fork."""
        if entry[2] != subjects.FORGOTTEN:
            subjects.grown(self.held, entry)
            return
        self._compare_with(None)
        entry[0] -= 1
        subjects.add(self.held, self._entry(args))

    def _entry(self, args: tuple[Any, ...]) -> subjects.Entry:
        """The entry of a call, with which the next one is compared."""
        if subjects._tuning[0]:
            return self.held.benchmarks
        roles = self._roles
        if roles is None or len(args) != len(roles.each):
            return self._one_by_one(args)
        key, tensors = roles.scalars(args), roles.tensors(args)
        try:
            layout = known_call(self.held, key, tensors)
        except Exception:
            return self._one_by_one(args)  # values that have no place in a key
        if layout is None:
            entry = self._one_by_one(args)
            layout = remember(self.held, key, tensors, entry)
            if layout is None:
                return entry
        self._compare_with((key, *layout))
        return layout.entry

    def _compare_with(self, last: tuple[Any, Any, subjects.Entry] | None) -> None:
        """Compare the next launch with (key, check, entry), or with none."""
        roles = self._roles
        if roles is None:
            return
        if self.native:
            self.call._ptxview_compare(roles.each, last)
        elif last is None:
            self._last = _NOTHING
        else:
            self._last = (len(roles.each), roles.scalars, roles.tensors, *last)

    def _one_by_one(self, args: tuple[Any, ...]) -> subjects.Entry:
        """The entry of a call, found by comparing each of its arguments."""
        subject = self.held
        values = args[self.leading :]
        try:
            if self._kinds is None:
                self._look_at(kinds_of(self.parameters, len(values)))
            key: Any
            try:
                key = key_of(args[:3], values, cast(list[int], self._kinds))
                hash(key)
            except Exception:  # values that the roles do not fit, or that have no place in a key
                key = (args[:3], tuple(map(sign, values)))
            if key in subject.seen:
                return subject.seen[key]
            grid = [int(n) for n in args[:3]]
            return subject.entry(key, items(self.parameters, values), tuple(grid))
        except Exception as error:
            subjects.failed("a launch", error)
            return subject.others

    def _look_at(self, kinds: list[Any]) -> None:
        """From the next launch on, compare arguments of these types."""
        self._kinds = [*map(role_of, kinds)]
        if "torch" in sys.modules:
            self._roles = roles_of(self.leading, kinds)


class Launch(functools.partial[Any]):
    """A function of ``Stand`` as an object: in all but being called it is the launcher.

    A ``partial`` calls what it is of without a frame of Python's, as ``__call__`` would need.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ptxview.inner, name)

    @property
    def _ptxview(self) -> Stand:
        counter: Stand = cast(Any, self.func)._ptxview
        return counter

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Inductor keeps kernels in its cache: what it keeps is what it would keep without us.
        return operator.getitem, ((self._ptxview.inner,), 0)


def standing(launcher: Any) -> Stand | None:
    """The ``Stand`` that counts a launcher's launches; None if the launcher is not wrapped."""
    counter = getattr(launcher, "_ptxview", None)
    return counter if isinstance(counter, Stand) else None


def stand(inner: Any, subject: subjects.Subject, leading: int, parameters: Parameters) -> Any:
    """An object that counts the launches of ``inner`` and has all attributes of the launcher.

    The kernel's own arguments are those after the first ``leading``.
    """
    counter = Stand(inner, subject, leading, parameters)
    return counter.call if counter.native else Launch(counter.call)


def function(inner: Any, subject: subjects.Subject, leading: int, parameters: Parameters) -> Any:
    """Like ``stand``, for Inductor's launchers, which only graphs call.

    Nothing but their ``__self__`` is ever read, so a function does, which is called faster than
    an object.
    """
    return Stand(inner, subject, leading, parameters, skips=True).call
