"""What stands before a launcher: it passes all arguments on and counts what call they make.

What is called for each launch compares it with the last call, scalars one by one and tensors in one
look, and asks ``Stand`` about all others. That is an object of ``launch.c`` where it could be
compiled, and else a function that is made for the arguments of that kernel.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from threading import get_ident
from typing import Any, cast

from . import calls, calls_code, calls_quick, launch_native
from .calls_code import Parameters

_MISSING = object()
# A key that no arguments have, in the place of the last call where there is none.
_NOTHING: tuple[Any, ...] = (None, None, None, None)


class Stand:
    """Counts the launches of one launcher; ``call`` is what is called in its place."""

    def __init__(
        self,
        inner: Any,
        held: calls.Subject,
        leading: int,
        parameters: Parameters,
        skips: bool = False,
    ) -> None:
        self.inner, self.held, self.skips = inner, held, skips
        self.leading, self.parameters = leading, parameters
        self._key: Callable[..., Any] = calls_code.no_key
        self._quick: calls_code.Quick | None = None
        self._scope: dict[str, Any] = {
            "inner": inner, "slow": self._slow, "due": self._due, "which": self._which,
            "missing": _MISSING, "tuning": calls._tuning, "current": _NOTHING,
            "graph": calls.graph, "thread": get_ident,
        }  # fmt: skip
        native = launch_native.launch_type()
        self.native = native is not None
        if native is not None:
            self.call: Any = native(
                inner, self, self._slow, self._due, self._which, calls._tuning, calls.graph, skips
            )
            return
        exec(calls_code.FIRST, self._scope)
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
        if calls._tuning[0]:
            entry = self.held.benchmarks
        calls.add(self.held, entry)
        if calls.graph[1] and self.skips and calls.graph[1] == get_ident():
            calls.graph[2].append(entry)
        return result

    def _which(self, known: calls_quick.Known, args: tuple[Any, ...]) -> calls.Entry | None:
        """The entry of a call of this layout, which more than one has; None where it is new."""
        quick = self._quick
        try:
            return None if quick is None else known.entry(quick.split(*args)[1])
        except Exception:
            return None

    def _due(self, entry: calls.Entry, known: Any, args: tuple[Any, ...]) -> None:
        """Tell a count; look whether a launch that was counted is aligned as its call is."""
        if entry[2] == calls.FORGOTTEN:
            found = None
        else:
            if entry[0] >= entry[3]:
                calls.grown(self.held, entry)
            if known.only is not entry:
                entry[1] = entry[3]
                return  # addresses were looked at before
            entry[1] = min(entry[3], calls_quick.look(entry[0]))
            found = self._which(known, args)
        if found is entry:
            return
        self._compare_with(_NOTHING)
        entry[0] -= 1
        calls.add(self.held, self._entry(args))

    def _entry(self, args: tuple[Any, ...]) -> calls.Entry:
        """The entry of a call, with which the next one is compared."""
        if calls._tuning[0]:
            return self.held.benchmarks
        if self._quick is None or len(args) != len(self._quick.roles):
            return self._one_by_one(args)
        key: Any = None
        try:
            key, tensors = self._quick.split(*args)
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
        """Compare the next launch with calls of this layout. Where that is one call, addresses are
        looked at now and then; where it is more, each time, since only they tell them apart."""
        entry = known.only
        if entry is not None:
            entry[1] = min(entry[3], calls_quick.look(entry[0]))
        self._compare_with((key, known.check, entry, known))

    def _compare_with(self, last: tuple[Any, ...]) -> None:
        self._scope["current"] = last
        if self.native and self._quick is not None:
            self.call._ptxview_compare(self._quick.roles, last if last is not _NOTHING else None)

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
            if self._key is calls_code.no_key:
                kinds = calls_code.kinds_of(self.parameters, len(values))
                self._key = calls_code.key_function(self.leading, kinds)
                self._specialise(kinds)
            try:
                key = self._key(*args)
                hash(key)
            except Exception:
                key = (args[:3], tuple(map(calls.sign, values)))
                if key in held.seen:
                    return held.seen[key]
            grid = [int(n) for n in args[:3]]
            return held.entry(key, calls_code.items(self.parameters, values), tuple(grid))
        except Exception as error:
            calls.failed("a launch", error)
            return held.others

    def _specialise(self, kinds: list[Any]) -> None:
        """From the next launch on, compare arguments of these kinds."""
        if "torch" in sys.modules:
            self._quick = calls_code.quick(self.leading, tuple(kinds), self.skips)
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


def stand(inner: Any, held: calls.Subject, leading: int, parameters: Parameters) -> Any:
    """What stands before ``inner``, whose arguments but the first ``leading`` are the kernel's: an
    object that has all that the launcher has."""
    made = Stand(inner, held, leading, parameters)
    return made.call if made.native else Launch(made.call)


def function(inner: Any, held: calls.Subject, leading: int, parameters: Parameters) -> Any:
    """The same for a launcher of Inductor's, which nobody asks for more than its ``__self__``, and
    which only graphs call: a function is called faster than an object."""
    return Stand(inner, held, leading, parameters, skips=True).call
