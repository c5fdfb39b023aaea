"""Functions that are made for the arguments of one kernel, by its signature."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .calls_arguments import ALIGNMENT, Item, sign

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
