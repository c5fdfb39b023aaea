"""Launches of Triton's kernels, hand-written and generated, counted where the driver is called.

What a compiled kernel launches with is an object that it makes when it is loaded: ours stands
before it and passes everything on. It sees the grid as it was evaluated and the arguments as they
were bound, whoever launches: ``kernel[grid](…)``, an autotuner, or Inductor's generated code.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

from . import calls, calls_quick
from .calls_arguments import ALIGNMENT, Item

# grid x, y, z, stream, function, metadata, launch metadata, enter hook, exit hook
LEADING = 9
# Inductor's own launcher: grid x, y, z, stream
STATIC_LEADING = 4
_FIELDS = {"*": "a{0}.shape, a{0}.stride(), a{0}.data_ptr() & {1}", "value": "a{0}"}


class Launch:
    """Stands before a launcher; in all but being called it is the launcher.

    After the first launch it is of a class of its own, whose ``__call__`` is made for the arguments
    that this kernel takes: that is a third of the cost.
    """

    __slots__ = ("_held", "_inner", "_key", "_leading", "_parameters", "_split", "_turns")

    def __init__(
        self, inner: Any, held: calls.Subject, leading: int, parameters: list[tuple[str, Any, Any]]
    ) -> None:
        self._inner, self._held, self._leading = inner, held, leading
        self._parameters = parameters
        self._key: Callable[..., Any] = _no_key  # made when it is seen how many values are passed
        self._split: Callable[..., Any] | None = None
        self._turns = 0

    def __call__(self, *args: Any, **given: Any) -> Any:
        entry = self._one_by_one(args)
        result = self._inner(*args, **given)
        held = self._held
        if calls._tuning[0]:
            entry = held.benchmarks
        entry[0] += 1
        if entry[0] >= entry[1]:
            calls.grown(held, entry)
        return result

    def _one_by_one(self, args: tuple[Any, ...]) -> calls.Entry:
        """The entry of a call by what each of its arguments is; the next one is known faster."""
        held = self._held
        try:
            entry = held.seen[self._key(*args)]
        except Exception:
            entry = self._slow(args)
        if self._split is not None:
            self._turns += 1
            try:
                key, tensors = self._split(*args)
                if entry[2] >= 0:
                    calls_quick.remember(held, key, tensors, entry)
            except Exception:
                self._split = None  # values that have no place in a key
            if self._turns >= calls_quick.MOST_QUICK:
                self._split = None
        return entry

    def _slow(self, args: tuple[Any, ...]) -> calls.Entry:
        """The entry of a call that is new, or that the fast key does not fit."""
        held = self._held
        if calls._tuning[0]:
            return held.benchmarks
        try:
            values = args[self._leading :]
            key: Any
            if self._key is _no_key:
                kinds = _kinds(self._parameters, len(values))
                self._key = _key_function(self._leading, kinds)
                self._specialise(kinds)
            try:
                key = self._key(*args)
                hash(key)
            except Exception:
                key = (args[:3], tuple(map(calls.sign, values)))
                if key in held.seen:
                    return held.seen[key]
            grid = [int(n) for n in args[:3]]
            return held.entry(key, _items(self._parameters, values), tuple(grid))
        except Exception as error:
            calls.failed("a launch", error)
            return held.others

    def _specialise(self, kinds: list[Any]) -> None:
        """From the next call on, be of a class whose ``__call__`` is made for these arguments."""
        torch: Any = sys.modules.get("torch")
        made = None if torch is None else _quick_code(self._leading, tuple(kinds))
        if made is None:
            return
        code, self._split = made
        scope: dict[str, Any] = {
            "missing": object(), "generic": Launch.__call__, "one_by_one": Launch._one_by_one,
            "get": self._held.quick.get, "at": torch.Tensor.data_ptr, "inner": self._inner,
            "tuning": calls._tuning, "held": self._held, "grown": calls.grown,
        }  # fmt: skip
        exec(code, scope)
        space = {"__slots__": (), "__call__": scope["__call__"], "__doc__": Launch.__doc__}
        self.__class__ = type("Launch", (Launch,), space)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_inner"), name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Inductor keeps kernels in its cache: what it keeps is what it would keep without us.
        return operator.getitem, ((self._inner,), 0)


def _no_key(*args: Any) -> Any:
    raise KeyError


def _kinds(parameters: list[tuple[str, Any, Any]], count: int) -> list[Any]:
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


# A launch by one look at all tensors; whatever is not as it was is looked at one by one.
_QUICK = """
def __call__(self, {head}, *more):
    if more or {last} is missing:
        return generic(self, *[a for a in ({all}, *more) if a is not missing])
    try:
        known = get(({key}))
        entry = (
            known[1]
            if known is not None
            and (known[1][0] > {sure} and known[1][0] & {rarely} or not ({addresses}) & {mask})
            and known[0]({tensors})
            else None
        )
    except Exception:
        entry = None
    if entry is None:
        entry = one_by_one(self, ({all},))
    result = inner({all})
    if tuning[0]:
        entry = held.benchmarks
    count = entry[0] + 1
    entry[0] = count
    if count >= entry[1]:
        grown(held, entry)
    return result
"""


@functools.lru_cache(maxsize=1024)
def _quick_code(leading: int, kinds: tuple[Any, ...]) -> tuple[Any, Any] | None:
    """The code of ``__call__`` for arguments of these kinds, and of a function that tells the
    tensors among them from the rest; None where one is neither tensor nor scalar."""
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
        head=", ".join(before + [f"{name}=missing" for name in names]), last=names[-1], all=every,
        key=key, addresses=" | ".join(f"at({name})" for name in tensors), mask=ALIGNMENT - 1,
        sure=calls_quick.SURE, rarely=calls_quick.RARELY,
        tensors=", ".join(tensors),
    )  # fmt: skip
    split = f"lambda {every}: (({key}), [{', '.join(tensors)}])"
    return compile(text, "<ptxview launch>", "exec"), eval(split)


def _items(parameters: list[tuple[str, Any, Any]], values: tuple[Any, ...]) -> Iterator[Item]:
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


def parameters(
    names: list[str], signature: dict[Any, Any], constants: dict[Any, Any], declared: Any
) -> list[tuple[str, Any, Any]]:
    """A kernel's parameters in order: name, type, and the value of those that were compiled in.

    ``declared`` are the positions of parameters that the kernel declares ``tl.constexpr``; keys of
    the other two are names, positions, or paths that begin with a position, by Triton's version.
    """
    kinds = {_name(names, k): v for k, v in signature.items()}
    values = {_name(names, k): v for k, v in constants.items()}
    fixed = {names[n] for n in declared if n < len(names)}
    return [
        (name, "constexpr" if name in fixed else kinds.get(name), values.get(name))
        for name in names
    ]


def _name(names: list[str], key: Any) -> str:
    if isinstance(key, tuple):
        if len(key) > 1:
            return str(key)
        key = key[0] if key else ""
    return names[key] if isinstance(key, int) and key < len(names) else str(key)


def watch(kernel: Any) -> None:
    """Stand before the launcher of a kernel that has just been loaded."""
    space = kernel.__dict__
    slot = "_run" if space.get("_run") is not None else "run"
    inner = space.get(slot)
    if inner is None or isinstance(inner, Launch):
        return
    source, metadata = kernel.src, kernel.metadata
    function = getattr(source, "fn", None)
    signature = dict(getattr(source, "signature", None) or {})
    names = [str(n) for n in getattr(function, "arg_names", ())]
    names = names or [f"arg{n}" for n in range(len(signature))]
    constants = getattr(source, "constants", None) or getattr(source, "constexprs", None) or {}
    known = parameters(names, signature, dict(constants), getattr(function, "constexprs", ()))
    warp = getattr(metadata, "warp_size", None) or getattr(metadata.target, "warp_size", 32)
    threads = int(metadata.num_warps) * int(warp or 32)
    space[slot] = Launch(
        inner, _subject(kernel.hash, metadata.name, threads, metadata.shared), LEADING, known
    )


def watch_static(launcher: Any, kernel: Any, signature: Any, constants: Any) -> None:
    """Stand before the kernel in one of Inductor's launchers that leave Triton's aside."""
    space = launcher.__globals__
    inner = space["runner"]
    if isinstance(inner, Launch):
        return
    names = [str(n) for n in kernel.arg_names]
    known = parameters(names, dict(signature or {}), dict(constants or {}), kernel.full_constexprs)
    threads = int(kernel.num_warps) * 32
    held = _subject(kernel.hash, kernel.name, threads, kernel.shared)
    space["runner"] = Launch(inner, held, STATIC_LEADING, known)


def watch_faster(slow: Any, fast: Any) -> None:
    """Stand in the launcher that Inductor makes of another after its first launch."""
    before, inner = slow.__globals__.get("runner"), fast.__globals__.get("runner")
    if isinstance(before, Launch) and inner is not None and not isinstance(inner, Launch):
        fast.__globals__["runner"] = Launch(
            inner, before._held, before._leading, before._parameters
        )


def _subject(digest: Any, name: Any, threads: int, shared: Any) -> calls.Subject:
    facts = {
        "hash": str(digest),
        "block": [threads, 1, 1],
        "shared_bytes": shared if isinstance(shared, int) else None,
    }
    return calls.subject("triton", str(name), str(digest), facts)


def attach_autotuner(module: Any) -> None:
    """``triton.runtime.autotuner``: what it launches to compare is not the program's."""
    calls.as_benchmark(module.Autotuner, "_bench")
