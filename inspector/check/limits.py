"""What is allowed: limits of figures, hints that may not be there, what may be worse than before.

They come from options and from ``[tool.ptxview.check]``; an option wins, and of the tables of
``[[tool.ptxview.check.kernels]]`` the last that fits a kernel.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from inspector.errors import UsageError


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a variant that can be limited.

    ``least`` where less is worse (occupancy), so that its bound is the least that is allowed; other
    bounds are the most. ``unit`` stands behind a value; ``title`` before it.
    """

    name: str
    title: str
    unit: str
    least: bool = False

    @property
    def option(self) -> str:
        """The option, and the key in a file, that bounds it."""
        return f"{'min' if self.least else 'max'}-{self.name}"


FIGURES = {
    figure.name: figure
    for figure in (
        Figure("registers", "registers", "a thread"),
        Figure("spills", "spilled", "bytes a thread"),
        Figure("stack", "stack", "bytes a thread"),
        Figure("shared", "shared memory", "bytes a block"),
        Figure("instructions", "instructions", "of SASS"),
        Figure("fp64", "fp64 instructions", "of PTX, else SASS"),
        Figure("occupancy", "occupancy", "% of the warps", least=True),
        Figure("time", "time", "µs"),
        Figure("kernels", "kernels", "of a graph"),
    )
}
"""Everything that has a limit, in the order in which it is told."""

PAIRED = ("registers", "spills", "stack", "shared", "instructions", "occupancy", "time")
"""Figures that are held against a baseline's."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much worse than the baseline a figure may be: so much, or such a share of it.

    ``implied``: nobody asked for this figure by name; where neither side knows it, it is no limit.
    """

    amount: float
    percent: bool = False
    implied: bool = False

    def worst(self, base: float, least: bool) -> float:
        """The worst that is still allowed, of a figure that was ``base``."""
        room = base * self.amount / 100 if self.percent else self.amount
        return base - room if least else base + room

    def __str__(self) -> str:
        return f"{self.amount:g}{' %' if self.percent else ''}"


NOT_WORSE = {name: Allowance(0, implied=True) for name in ("registers", "spills", "occupancy")}
"""What a baseline means where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one kernel may be. ``bounds`` are by name of the figure, inclusive; ``forbidden`` are
    rules of hints, ``allowed`` what may be worse than in the baseline."""

    bounds: Mapping[str, float] = field(default_factory=dict)
    forbidden: frozenset[str] = frozenset()
    allowed: Mapping[str, Allowance] = field(default_factory=dict)

    def over(self, other: Limits) -> Limits:
        """These, and of ``other`` what these do not say."""
        return Limits(
            {**other.bounds, **self.bounds},
            self.forbidden | other.forbidden,
            {**other.allowed, **self.allowed},
        )

    def __bool__(self) -> bool:
        return bool(self.bounds or self.forbidden or self.allowed)


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits of all kernels, and those of some, each with its KERNEL selector, in their order."""

    limits: Limits = Limits()
    kernels: tuple[tuple[str, Limits], ...] = ()
    baseline: str | None = None

    def of(self, fits: Sequence[bool]) -> Limits:
        """The limits of a kernel that fits those of ``kernels``; of several, the last counts."""
        out = self.limits
        for (_, limits), fit in zip(self.kernels, fits, strict=True):
            out = limits.over(out) if fit else out
        return out


OPTIONS = {figure.option: name for name, figure in FIGURES.items()}
"""Options that take a number, by the figure that they bound."""
SWITCHES = {"no-spills": "spills", "no-fp64": "fp64"}
"""Options that mean a bound of 0."""
OPTIONS_OF_GRAPHS = {FIGURES["kernels"].option}
OTHERS = ("forbid", "allow", "baseline", "kernels")


def allowance(text: object, where: str) -> Allowance:
    """``2``, ``"5%"``. Raises ``UsageError``."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return Allowance(_finite(float(text), where))
    if isinstance(text, str):
        number = text.strip().removesuffix("%").strip()
        try:
            return Allowance(_finite(float(number), where), "%" in text)
        except ValueError:
            pass
    raise UsageError(f"{where}: {text!r} is neither a number nor a percentage", "Such as 2 or 5%.")


def allowances(words: Sequence[str]) -> dict[str, Allowance]:
    """``registers=2``, ``time=5%``. Raises ``UsageError``."""
    out = {}
    for word in words:
        name, equals, amount = word.partition("=")
        if not equals:
            raise UsageError(f"--allow {word}: say how much", f"Such as --allow {name}=5%.")
        out[_paired(name.strip(), "--allow")] = allowance(amount, f"--allow {name}")
    return out


def read(table: object, where: str, rules: Sequence[str]) -> Rules:
    """``[tool.ptxview.check]`` as it was parsed; ``where`` names the file, ``rules`` the hints that
    there are. Raises ``UsageError`` for what is not known, with the nearest that is."""
    settings = _table(table, where)
    baseline = settings.get("baseline")
    if baseline is not None and not isinstance(baseline, str):
        raise UsageError(f"{where}: baseline is not a path")
    kernels: list[tuple[str, Limits]] = []
    parts = settings.get("kernels", [])
    if not isinstance(parts, list):
        raise UsageError(
            f"{where}: kernels is not a list of tables", "[[tool.ptxview.check.kernels]]"
        )
    for n, part in enumerate(parts, 1):
        inner = dict(_table(part, f"{where}, kernels {n}"))
        selector = inner.pop("select", None)
        if not isinstance(selector, str):
            raise UsageError(f"{where}, kernels {n}: select says no kernel", 'select = "matmul*"')
        if OPTIONS_OF_GRAPHS & inner.keys():
            raise UsageError(
                f"{where}, {selector}: max-kernels is a limit of graphs, not of kernels"
            )
        kernels.append((selector, _limits(inner, f"{where}, {selector}", rules, ())))
    return Rules(_limits(settings, where, rules, ("baseline", "kernels")), tuple(kernels), baseline)


def _limits(
    settings: Mapping[str, object], where: str, rules: Sequence[str], besides: Sequence[str]
) -> Limits:
    out = Limits()
    for name, value in settings.items():
        at = f"{where}: {name}"
        if name in OPTIONS:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UsageError(f"{at} is not a number")
            out = bounded(out, OPTIONS[name], _finite(float(value), at))
        elif name in SWITCHES:
            if not isinstance(value, bool):
                raise UsageError(f"{at} is neither true nor false")
            out = bounded(out, SWITCHES[name], 0.0) if value else out
        elif name == "forbid":
            words = cast(list[object], value) if isinstance(value, list) else [value]
            out = replace(out, forbidden=frozenset(rule_named(w, rules, at) for w in words))
        elif name == "allow":
            given = _table(value, at)
            allowed = {_paired(key, at): allowance(v, f"{at}.{key}") for key, v in given.items()}
            out = replace(out, allowed=allowed)
        elif name not in besides:
            known = (*OPTIONS, *SWITCHES, *OTHERS)
            raise UsageError(f"{where}: nothing is called {name}", _nearest(name, known))
    return out


def bounded(limits: Limits, figure: str, value: float) -> Limits:
    """These limits with one bound more."""
    return replace(limits, bounds={**limits.bounds, figure: value})


def rule_named(word: object, rules: Sequence[str], where: str) -> str:
    """A rule of hints. Raises ``UsageError`` where there is none of that name."""
    if isinstance(word, str) and word in rules:
        return word
    raise UsageError(f"{where}: {word} is not the rule of a hint", _nearest(str(word), rules))


def _paired(name: str, where: str) -> str:
    if name in PAIRED:
        return name
    raise UsageError(f"{where}: {name} is not compared with a baseline", _nearest(name, PAIRED))


def _table(value: object, where: str) -> Mapping[str, object]:
    if isinstance(value, dict):
        return cast(Mapping[str, object], value)
    raise UsageError(f"{where} is not a table")


def _finite(value: float, where: str) -> float:
    if math.isfinite(value) and value >= 0:
        return value
    raise UsageError(f"{where}: {value:g} is not an amount")


def _nearest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, 2)
    return f"Is {' or '.join(near)} meant?" if near else f"There are {', '.join(known)}."
