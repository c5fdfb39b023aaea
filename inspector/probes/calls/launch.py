"""What stands before a launcher: it passes all arguments on and counts what call they make.

What is called for each launch compares it with the last call, scalars one by one and tensors in one
look, and asks ``Stand`` about all others. That is an object of ``launch.c`` where it could be
compiled, and else a function that is made for the arguments of that kernel.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterator
from functools import cache
from operator import and_
from threading import get_ident
from typing import Any, NamedTuple, cast

from . import launch_native, subjects
from .arguments import ALIGNMENT, Item, mask, sign
from .subjects import Entry, Subject

# -- functions made for the arguments of one kernel -----------------------------------------------
# Functions that are made for the arguments of one kernel, by its signature.

Parameters = list[tuple[str, Any, Any]]  # name, type, the value of one that was compiled in
_FIELDS = {"*": "a{0}.shape, a{0}.stride(), a{0}.data_ptr() & {1}", "value": "a{0}"}


def no_key(*args: Any) -> Any:
    """In the place of a key's function that is still to be made: no key is found."""
    raise KeyError


def kinds_of(parameters: Parameters, count: int) -> list[Any]:
    """Types of the values that are passed: of all parameters, or of those not compiled in."""
    kinds = [kind for _, kind, _ in parameters]
    passed = [kind for kind in kinds if kind != "constexpr"]
    return kinds if len(kinds) == count else passed if len(passed) == count else [None] * count


def key_function(leading: int, kinds: list[Any]) -> Callable[..., Any]:
    """A function of a launcher's arguments that gives what tells calls apart, made for speed."""
    names = [f"a{n}" for n in range(len(kinds))]
    parts = ["g0", "g1", "g2"]
    for n, kind in enumerate(kinds):
        if kind == "constexpr":
            continue  # compiled in
        pointer = isinstance(kind, str) and kind.startswith("*")
        plain = isinstance(kind, str) and kind[:1] in "iufb"
        form = _FIELDS["*"] if pointer else _FIELDS["value"] if plain else "sign(a{0})"
        parts.append(form.format(n, ALIGNMENT - 1))
    before = [f"g{n}" for n in range(leading)]
    text = f"lambda {', '.join(before + names)}: ({', '.join(parts)})"
    made: Callable[..., Any] = eval(text, {"sign": sign})
    return made


# Before it is seen how many arguments there are.
FIRST = compile("def call(*args, **given): return slow(args, given)\n", "<ptxview launch>", "exec")


class Quick(NamedTuple):
    """What is made for a kernel's arguments: the code of a function ``call``; a function of them
    that gives the scalars as a key, and the tensors; what each is (``launch.c``: 0 compiled in, 1 a
    scalar, 2 a tensor)."""

    code: Any
    split: Callable[..., tuple[Any, list[Any]]]
    roles: bytes


# A launch like the last one is counted here. All that may change is read at once, since another
# thread may change it; and only after the launch is it counted, since that may raise.
_QUICK = """
def call({head}, *more):
    {skip}
    last, check, entry, known = current
    if more or {short}({key}) != last or not check({tensors}) or tuning[0]:
        return slow(({all}, *more))
    if entry is None:
        entry = which(known, ({all},))
        if entry is None:
            return slow(({all},))
    result = inner({all})
    count = entry[0] + 1
    entry[0] = count
    {log}
    if count >= entry[1]:
        due(entry, known, ({all},))
    return result
"""


_LOG = """if graph[1] and graph[1] == thread():
        graph[2].append(entry)"""
_SKIP = """if graph[0] and not more and graph[0] == thread():
        graph[3] += 1
        return inner({all})"""


@functools.lru_cache(maxsize=1024)
def quick(leading: int, kinds: tuple[Any, ...], skips: bool = False) -> Quick | None:
    """It for arguments of these kinds; None where one is neither tensor nor scalar. ``skips``: of
    what graphs alone launch, which need not be looked at in some of their calls."""
    values, tensors = ["g0", "g1", "g2"], []
    names = [f"a{n}" for n in range(len(kinds))]
    roles = [1, 1, 1, *[0] * (leading - 3)]
    for name, kind in zip(names, kinds, strict=True):
        if kind == "constexpr":
            roles.append(0)
        elif isinstance(kind, str) and kind.startswith("*"):
            tensors.append(name)
            roles.append(2)
        elif isinstance(kind, str) and kind[:1] in "iufb":
            values.append(name)
            roles.append(1)
        else:
            return None
    if not tensors:
        return None
    before = [f"g{n}" for n in range(leading)]
    every, key = ", ".join(before + names), ", ".join(values)
    text = _QUICK.format(
        head=", ".join(before + [f"{name}=missing" for name in names]), all=every, key=key,
        skip=_SKIP.format(all=every) if skips else "", log=_LOG if skips else "",
        # A tensor or a scalar that is missing is unlike the last one.
        short=f"{names[-1]} is missing or " if kinds[-1] == "constexpr" else "",
        tensors=", ".join(tensors),
    )  # fmt: skip
    split = f"lambda {every}: (({key}), [{', '.join(tensors)}])"
    return Quick(compile(text, "<ptxview launch>", "exec"), eval(split), bytes(roles))


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
    given = iter(values)
    for name, kind, value in parameters:
        yield name, kind, value if kind == "constexpr" else next(given)


# -- calls that are known again by one look -------------------------------------------------------
# Calls that are known again by one look at all their tensors.
#
# torch's own guards compare sizes, strides, dtype and device of many tensors in one call, and keep
# no reference to any. Addresses are looked at here, now and then: what is aligned in another way
# is another call.

# How many layouts of a launcher may be remembered so; with ever new ones it would not pay.
MOST_QUICK = 16
# After so many launches of a call, addresses are looked at every 32nd time: asking torch for three
# of them costs as much as comparing all else of three tensors. What is less aligned than 16 bytes
# is another compilation to Triton in any case.
SURE, RARELY = 64, 31


class Known:
    """Tensors of one layout: a check that others are so, too, and the calls by their alignment."""

    __slots__ = ("check", "masks", "only", "ways")

    def __init__(self, tensors: list[Any]) -> None:
        # It has sizes, strides, dtype and device of each, and no reference to any.
        torch: Any = sys.modules["torch"]
        guards = torch._C._dynamo.guards.TensorGuards(
            *tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None
        )
        if not guards.check(*tensors):
            raise ValueError("tensors that are not even like themselves")
        self.check = guards.check
        self.masks = tuple(map(mask, tensors))
        self.ways: dict[Any, Entry] = {}
        self.only: Entry | None = None  # of the ways, where there is but one

    def entry(self, tensors: Any) -> Entry | None:
        """The call of tensors of this layout that are aligned as these are."""
        return self.ways.get(self._aligned(tensors))

    def add(self, tensors: Any, entry: Entry) -> None:
        """Remember the call of tensors that are aligned as these are."""
        self.ways[self._aligned(tensors)] = entry
        self.only = entry if len(self.ways) == 1 else None

    def _aligned(self, tensors: Any) -> tuple[int, ...]:
        return tuple(map(and_, map(_address(), tensors), self.masks))


def remember(held: Subject, key: Any, tensors: list[Any], entry: Entry) -> Known | None:
    """Let a call be known by one look at all its tensors, where torch has that and they are plain;
    ``key`` is all else that tells it apart."""
    try:
        plain = _plain()
        if any(type(t) not in plain for t in tensors):
            return None
        found = known_call(held, key, tensors)
        if found is None:
            if held.turns >= MOST_QUICK:
                return None
            held.turns += 1
            found = Known(tensors)
            held.quick.setdefault(key, []).append(found)
        found.add(tensors, entry)
        return found
    except Exception:
        return None  # a torch without it: each tensor is looked at by itself


def known_call(held: Subject, key: Any, tensors: Any) -> Known | None:
    """The layout of these tensors, where it is remembered."""
    for found in held.quick.get(key, ()):
        if found.check(*tensors):
            return found
    return None


def look(count: int) -> int:
    """The count at which addresses are looked at next, of a call that was made so often."""
    return count + 1 if count < SURE else (count | RARELY) + 1


# -- calls of graphs and functions ----------------------------------------------------------------


def split(args: Any) -> tuple[Any, list[Any]]:
    """Arguments as what tells them apart but for their plain tensors, and those."""
    plain = _plain()
    key = tuple([None if type(a) in plain else (type(a), a) for a in args])
    return key, [a for a in args if type(a) in plain]


def again(held: Subject, args: Any, always: bool = False) -> Entry | None:
    """The entry of a call that is remembered; None where it is not, or has odd arguments.
    ``always``: look at addresses, though the call was made often."""
    try:
        found = held.whole
        if found is None or not found.check(*args):
            key, args = split(args)
            found = known_call(held, key, args)
            if found is None:
                return None
        only = found.only
        if only is not None and only[0] > SURE and only[0] & RARELY and not always:
            return only
        return found.entry(args)
    except Exception:
        return None


def learn(held: Subject, args: Any, entry: Entry) -> None:
    """Remember a call, as one of the first so many."""
    try:
        key, tensors = split(args)
        hash(key)
    except Exception:
        return
    if tensors:
        found = remember(held, key, tensors, entry)
        if found is not None and len(tensors) == len(args):
            held.whole = found


@cache
def _plain() -> frozenset[Any]:
    import torch

    return frozenset((torch.Tensor, torch.nn.Parameter))


@cache
def _address() -> Any:
    return sys.modules["torch"].Tensor.data_ptr


_MISSING = object()
# A key that no arguments have, in the place of the last call where there is none.
_NOTHING: tuple[Any, ...] = (None, None, None, None)


class Stand:
    """Counts the launches of one launcher; ``call`` is what is called in its place."""

    def __init__(
        self,
        inner: Any,
        held: subjects.Subject,
        leading: int,
        parameters: Parameters,
        skips: bool = False,
    ) -> None:
        self.inner, self.held, self.skips = inner, held, skips
        self.leading, self.parameters = leading, parameters
        self._key: Callable[..., Any] = no_key
        self._quick: Quick | None = None
        self._scope: dict[str, Any] = {
            "inner": inner, "slow": self._slow, "due": self._due, "which": self._which,
            "missing": _MISSING, "tuning": subjects._tuning, "current": _NOTHING,
            "graph": subjects.graph, "thread": get_ident,
        }  # fmt: skip
        native = launch_native.launch_type()
        self.native = native is not None
        if native is not None:
            self.call: Any = native(
                inner,
                self,
                self._slow,
                self._due,
                self._which,
                subjects._tuning,
                subjects.graph,
                skips,
            )
            return
        exec(FIRST, self._scope)
        self.call = self._scope["call"]
        self.call._ptxview = self
        if hasattr(inner, "__self__"):
            self.call.__self__ = inner.__self__  # Inductor takes its kernel from there

    def _slow(self, args: tuple[Any, ...], given: dict[str, Any] | None = None) -> Any:
        """Launch, and count it by what its arguments are."""
        if args and args[-1] is _MISSING:
            args = tuple([a for a in args if a is not _MISSING])
        entry = self._entry(args)
        result = self.inner(*args, **(given or {}))
        if subjects._tuning[0]:
            entry = self.held.benchmarks
        subjects.add(self.held, entry)
        if subjects.graph[1] and self.skips and subjects.graph[1] == get_ident():
            subjects.graph[2].append(entry)
        return result

    def _which(self, known: Known, args: tuple[Any, ...]) -> subjects.Entry | None:
        """The entry of a call of this layout, which more than one has; None where it is new."""
        quick = self._quick
        try:
            return None if quick is None else known.entry(quick.split(*args)[1])
        except Exception:
            return None

    def _due(self, entry: subjects.Entry, known: Any, args: tuple[Any, ...]) -> None:
        """Tell a count; look whether a launch that was counted is aligned as its call is."""
        if entry[2] == subjects.FORGOTTEN:
            found = None
        else:
            if entry[0] >= entry[3]:
                subjects.grown(self.held, entry)
            if known.only is not entry:
                entry[1] = entry[3]
                return  # addresses were looked at before
            entry[1] = min(entry[3], look(entry[0]))
            found = self._which(known, args)
        if found is entry:
            return
        self._compare_with(_NOTHING)
        entry[0] -= 1
        subjects.add(self.held, self._entry(args))

    def _entry(self, args: tuple[Any, ...]) -> subjects.Entry:
        """The entry of a call, with which the next one is compared."""
        if subjects._tuning[0]:
            return self.held.benchmarks
        if self._quick is None or len(args) != len(self._quick.roles):
            return self._one_by_one(args)
        key: Any = None
        try:
            key, tensors = self._quick.split(*args)
            known = known_call(self.held, key, tensors)
            entry = None if known is None else known.entry(tensors)
        except Exception:
            return self._one_by_one(args)  # values that have no place in a key
        if entry is None:
            entry = self._one_by_one(args)
            known = remember(self.held, key, tensors, entry)
        if known is not None:
            self._compare(key, known)
        return entry

    def _compare(self, key: Any, known: Known) -> None:
        """Compare the next launch with calls of this layout. Where that is one call, addresses are
        looked at now and then; where it is more, each time, since only they tell them apart."""
        entry = known.only
        if entry is not None:
            entry[1] = min(entry[3], look(entry[0]))
        self._compare_with((key, known.check, entry, known))

    def _compare_with(self, last: tuple[Any, ...]) -> None:
        self._scope["current"] = last
        if self.native and self._quick is not None:
            self.call._ptxview_compare(self._quick.roles, last if last is not _NOTHING else None)

    def _one_by_one(self, args: tuple[Any, ...]) -> subjects.Entry:
        """The entry of a call by what each of its arguments is."""
        held = self.held
        try:
            return held.seen[self._key(*args)]
        except Exception:
            pass  # one that is new, or that the key does not fit
        try:
            values = args[self.leading :]
            key: Any
            if self._key is no_key:
                kinds = kinds_of(self.parameters, len(values))
                self._key = key_function(self.leading, kinds)
                self._specialise(kinds)
            try:
                key = self._key(*args)
                hash(key)
            except Exception:
                key = (args[:3], tuple(map(sign, values)))
                if key in held.seen:
                    return held.seen[key]
            grid = [int(n) for n in args[:3]]
            return held.entry(key, items(self.parameters, values), tuple(grid))
        except Exception as error:
            subjects.failed("a launch", error)
            return held.others

    def _specialise(self, kinds: list[Any]) -> None:
        """From the next launch on, compare arguments of these kinds."""
        if "torch" in sys.modules:
            self._quick = quick(self.leading, tuple(kinds), self.skips)
        if self._quick is None or self.native:
            return
        scope = dict(self._scope)
        exec(self._quick.code, scope)
        # The function stays the one that stands there; it has what it needs before its code.
        self.call.__defaults__ = scope["call"].__defaults__
        self.call.__code__ = scope["call"].__code__


class Launch(functools.partial[Any]):
    """A function of ``Stand`` as an object: in all but being called it is the launcher.

    A ``partial`` calls what it is of without a frame of Python's, as ``__call__`` would need.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ptxview.inner, name)

    @property
    def _ptxview(self) -> Stand:
        found: Stand = cast(Any, self.func)._ptxview
        return found

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Inductor keeps kernels in its cache: what it keeps is what it would keep without us.
        return operator.getitem, ((self._ptxview.inner,), 0)


def standing(launcher: Any) -> Stand | None:
    """What counts the launches of a launcher; None where nothing stands before it."""
    found = getattr(launcher, "_ptxview", None)
    return found if isinstance(found, Stand) else None


def stand(inner: Any, held: subjects.Subject, leading: int, parameters: Parameters) -> Any:
    """What stands before ``inner``, whose arguments but the first ``leading`` are the kernel's: an
    object that has all that the launcher has."""
    made = Stand(inner, held, leading, parameters)
    return made.call if made.native else Launch(made.call)


def function(inner: Any, held: subjects.Subject, leading: int, parameters: Parameters) -> Any:
    """The same for a launcher of Inductor's, which nobody asks for more than its ``__self__``, and
    which only graphs call: a function is called faster than an object."""
    return Stand(inner, held, leading, parameters, skips=True).call
