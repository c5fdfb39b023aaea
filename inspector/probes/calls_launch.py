"""What stands before a launcher: it passes all arguments on and counts what call they make.

What is called for each launch is a function that is made for the arguments of that kernel: it
compares them with the last call's, scalars as one tuple and tensors in one look, and asks ``Stand``
about all others.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

from . import calls, calls_quick
from .calls_arguments import ALIGNMENT, Item

Parameters = list[tuple[str, Any, Any]]  # name, type, the value of one that was compiled in
_FIELDS = {"*": "a{0}.shape, a{0}.stride(), a{0}.data_ptr() & {1}", "value": "a{0}"}
_MISSING = object()
# A key that no arguments have, in the place of the last call where there is none.
_NOTHING: tuple[Any, ...] = (None, None, None, None)


class Stand:
    """Counts the launches of one launcher; ``call`` is what is called in its place."""

    def __init__(
        self, inner: Any, held: calls.Subject, leading: int, parameters: Parameters
    ) -> None:
        self.inner, self.held = inner, held
        self.leading, self.parameters = leading, parameters
        self._key: Callable[..., Any] = _no_key  # made when it is seen how many values are passed
        self._split: Callable[..., Any] | None = None
        self._count = 0
        self._scope: dict[str, Any] = {
            "inner": inner, "slow": self._slow, "due": self._due, "missing": _MISSING,
            "tuning": calls._tuning, "current": _NOTHING,
        }  # fmt: skip
        exec(_FIRST, self._scope)
        self.call: Any = self._scope["call"]
        self.call._ptxview = self

    def _slow(self, args: tuple[Any, ...], given: dict[str, Any] | None = None) -> Any:
        """Launch, and count it by what its arguments are."""
        args = tuple([a for a in args if a is not _MISSING])
        entry = self._entry(args)
        result = self.inner(*args, **(given or {}))
        if calls._tuning[0]:
            entry = self.held.benchmarks
        entry[0] += 1
        if entry[0] >= entry[3]:
            calls.grown(self.held, entry)
        return result

    def _due(self, entry: calls.Entry, known: Any, args: tuple[Any, ...]) -> None:
        """Tell a count; look whether a launch that was counted is aligned as its call is."""
        if entry[2] == calls.FORGOTTEN:
            found = None
        else:
            if entry[0] >= entry[3]:
                calls.grown(self.held, entry)
            entry[1] = min(entry[3], calls_quick.look(entry[0]))
            try:
                found = known.entry(self._split(*args)[1])  # type: ignore[misc]
            except Exception:
                return
        if found is entry:
            return
        self._scope["current"] = _NOTHING
        entry[0] -= 1
        entry = self._entry(args)
        entry[0] += 1
        if entry[0] >= entry[3]:
            calls.grown(self.held, entry)

    def _entry(self, args: tuple[Any, ...]) -> calls.Entry:
        """The entry of a call, with which the next one is compared."""
        if calls._tuning[0]:
            return self.held.benchmarks
        if self._split is None or len(args) != self._count:
            return self._one_by_one(args)
        key: Any = None
        try:
            key, tensors = self._split(*args)
            known = calls_quick.known(self.held, key, tensors)
            entry = None if known is None else known.entry(tensors)
        except Exception:
            return self._one_by_one(args)  # values that have no place in a key
        if entry is None:
            entry = self._one_by_one(args)
            known = calls_quick.remember(self.held, key, tensors, entry)
        if known is not None:
            self._compare(key, known)
        return entry

    def _compare(self, key: Any, known: calls_quick.Known) -> None:
        """Compare the next launch with calls of this layout; not where there is more than one of
        it, which only addresses tell apart."""
        entry = known.only
        if entry is not None:
            entry[1] = min(entry[3], calls_quick.look(entry[0]))
            self._scope["current"] = (key, known.check, entry, known)
        elif self._scope["current"][3] is known:
            self._scope["current"] = _NOTHING

    def _one_by_one(self, args: tuple[Any, ...]) -> calls.Entry:
        """The entry of a call by what each of its arguments is."""
        held = self.held
        try:
            return held.seen[self._key(*args)]
        except Exception:
            pass  # one that is new, or that the key does not fit
        try:
            values = args[self.leading :]
            key: Any
            if self._key is _no_key:
                kinds = _kinds(self.parameters, len(values))
                self._key = _key_function(self.leading, kinds)
                self._specialise(kinds)
            try:
                key = self._key(*args)
                hash(key)
            except Exception:
                key = (args[:3], tuple(map(calls.sign, values)))
                if key in held.seen:
                    return held.seen[key]
            grid = [int(n) for n in args[:3]]
            return held.entry(key, _items(self.parameters, values), tuple(grid))
        except Exception as error:
            calls.failed("a launch", error)
            return held.others

    def _specialise(self, kinds: list[Any]) -> None:
        """From the next launch on, be a function that is made for these arguments."""
        made = _quick_code(self.leading, tuple(kinds)) if "torch" in sys.modules else None
        if made is None:
            return
        code, self._split = made
        self._count = self.leading + len(kinds)
        scope = dict(self._scope)
        exec(code, scope)
        # The function stays the one that stands there; it has what it needs before its code.
        self.call.__defaults__ = scope["call"].__defaults__
        self.call.__code__ = scope["call"].__code__


class Launch(functools.partial):  # type: ignore[type-arg]
    """A ``Stand`` as an object: in all but being called it is the launcher.

    A ``partial`` calls what it is of without a frame of Python's, as ``__call__`` would need.
    """

    _ptxview: Stand

    def __new__(
        cls, inner: Any, held: calls.Subject, leading: int, parameters: Parameters
    ) -> Launch:
        """Stand before ``inner``, whose arguments but the first ``leading`` are the kernel's."""
        stand = Stand(inner, held, leading, parameters)
        made = super().__new__(cls, stand.call)
        made._ptxview = stand
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_ptxview").inner, name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Inductor keeps kernels in its cache: what it keeps is what it would keep without us.
        return operator.getitem, ((self._ptxview.inner,), 0)


def standing(launcher: Any) -> Stand | None:
    """What counts the launches of a launcher; None where nothing stands before it."""
    found = getattr(launcher, "_ptxview", None)
    return found if isinstance(found, Stand) else None


def function(inner: Any, held: calls.Subject, leading: int, parameters: Parameters) -> Any:
    """A ``Stand`` as a plain function, which is called faster than an object."""
    made = Stand(inner, held, leading, parameters).call
    if hasattr(inner, "__self__"):
        made.__self__ = inner.__self__  # Inductor takes its kernel from there
    return made


def _no_key(*args: Any) -> Any:
    raise KeyError


def _kinds(parameters: Parameters, count: int) -> list[Any]:
    """Types of the values that are passed: of all parameters, or of those not compiled in."""
    kinds = [kind for _, kind, _ in parameters]
    passed = [kind for kind in kinds if kind != "constexpr"]
    return kinds if len(kinds) == count else passed if len(passed) == count else [None] * count


def _key_function(leading: int, kinds: list[Any]) -> Callable[..., Any]:
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
    made: Callable[..., Any] = eval(text, {"sign": calls.sign})
    return made


_FIRST = compile("def call(*args, **given): return slow(args, given)\n", "<ptxview launch>", "exec")
# A launch like the last one is counted here. All that may change is read at once, since another
# thread may change it; and only after the launch is it counted, since that may raise.
_QUICK = """
def call({head}, *more):
    last, check, entry, known = current
    if more or {short}({key}) != last or not check({tensors}) or tuning[0]:
        return slow(({all}, *more))
    result = inner({all})
    count = entry[0] + 1
    entry[0] = count
    if count >= entry[1]:
        due(entry, known, ({all},))
    return result
"""


@functools.lru_cache(maxsize=1024)
def _quick_code(leading: int, kinds: tuple[Any, ...]) -> tuple[Any, Any] | None:
    """The code of the function for arguments of these kinds, and a function that tells the tensors
    among them from the rest; None where one is neither tensor nor scalar."""
    values, tensors = ["g0", "g1", "g2"], []
    names = [f"a{n}" for n in range(len(kinds))]
    for name, kind in zip(names, kinds, strict=True):
        if kind == "constexpr":
            continue
        if isinstance(kind, str) and kind.startswith("*"):
            tensors.append(name)
        elif isinstance(kind, str) and kind[:1] in "iufb":
            values.append(name)
        else:
            return None
    if not tensors:
        return None
    before = [f"g{n}" for n in range(leading)]
    every, key = ", ".join(before + names), ", ".join(values)
    text = _QUICK.format(
        head=", ".join(before + [f"{name}=missing" for name in names]), all=every, key=key,
        # A tensor or a scalar that is missing is unlike the last one.
        short=f"{names[-1]} is missing or " if kinds[-1] == "constexpr" else "",
        tensors=", ".join(tensors),
    )  # fmt: skip
    split = f"lambda {every}: (({key}), [{', '.join(tensors)}])"
    return compile(text, "<ptxview launch>", "exec"), eval(split)


def _items(parameters: Parameters, values: tuple[Any, ...]) -> Iterator[Item]:
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
