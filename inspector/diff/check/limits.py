"""What is allowed: limits of figures, hints that may not be there, what may be worse than before.

They come from options and from ``[tool.ptxview.check]``; an option wins, and of the tables of
``[[tool.ptxview.check.kernels]]`` the last that fits a kernel.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from inspector.base.errors import UsageError


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
"""All metrics with limits, in the order of reports."""

PAIRED = ("registers", "spills", "stack", "shared", "instructions", "occupancy", "time")
"""Metrics compared with a baseline's."""


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


def allowance(text: object, where: str) -> Allowance:
    """Parse ``2`` or ``"5%"``. Raises ``UsageError``."""
    number = str(text).strip()
    try:
        return Allowance(_amount(float(number.removesuffix("%")), where), number.endswith("%"))
    except ValueError:
        raise UsageError(
            f"{where}: {text!r} is neither a number nor a percentage", "Such as 2 or 5%."
        ) from None


def read(table: object, where: str, rules: Sequence[str]) -> Rules:
    """Parse ``[tool.ptxview.check]``.

    Args:
        table: the table.
        where: the file's name.
        rules: the rules of hints.

    Raises ``UsageError`` for unknown names, with the nearest known one.
    """
    settings = dict(_table(table, where))
    baseline, parts = settings.pop("baseline", None), settings.pop("kernels", [])
    if baseline is not None and not isinstance(baseline, str):
        raise UsageError(f"{where}: baseline is not a path")
    if not isinstance(parts, list):
        raise UsageError(
            f"{where}: kernels is not a list of tables", "[[tool.ptxview.check.kernels]]"
        )
    kernels: list[tuple[str, Limits]] = []
    for n, part in enumerate(parts, 1):
        inner = dict(_table(part, f"{where}, kernels {n}"))
        selector = inner.pop("select", None)
        if not isinstance(selector, str):
            raise UsageError(f"{where}, kernels {n}: select says no kernel", 'select = "matmul*"')
        if FIGURES["kernels"].option in inner:
            raise UsageError(
                f"{where}, {selector}: max-kernels is a limit of graphs, not of kernels"
            )
        kernels.append((selector, limits_of(inner, f"{where}, {selector}: ", rules)))
    return Rules(limits_of(settings, f"{where}: ", rules), tuple(kernels), baseline)


def limits_of(settings: Mapping[str, object], prefix: str, rules: Sequence[str]) -> Limits:
    """Parse limits by option; ``prefix`` precedes an option in errors. Raises ``UsageError``."""
    bounds: dict[str, float] = {}
    forbidden: list[object] = []
    allowed: dict[str, Allowance] = {}
    for name, value in settings.items():
        at = f"{prefix}{name}"
        if name in OPTIONS:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UsageError(f"{at} is not a number")
            bounds[OPTIONS[name]] = _amount(float(value), at)
        elif name in SWITCHES:
            if not isinstance(value, bool):
                raise UsageError(f"{at} is neither true nor false")
            bounds |= {SWITCHES[name]: 0.0} if value else {}
        elif name == "forbid":
            forbidden = list(value) if isinstance(value, list) else [value]
            for rule in forbidden:
                if rule not in rules:
                    nearest = _nearest(str(rule), rules)
                    raise UsageError(f"{at}: {rule} is not the rule of a hint", nearest)
        elif name == "allow":
            for key, amount in _table(value, at).items():
                if key not in PAIRED:
                    nearest = _nearest(key, PAIRED)
                    raise UsageError(f"{at}: {key} is not compared with a baseline", nearest)
                allowed[key] = allowance(amount, f"{at}.{key}")
        else:
            known = (*OPTIONS, *SWITCHES, "forbid", "allow", "baseline", "kernels")
            raise UsageError(f"{prefix}nothing is called {name}", _nearest(name, known))
    return Limits(bounds, frozenset(map(str, forbidden)), allowed)


def _table(value: object, where: str) -> Mapping[str, object]:
    if isinstance(value, dict):
        return cast(Mapping[str, object], value)
    raise UsageError(f"{where} is not a table")


def _amount(value: float, where: str) -> float:
    if math.isfinite(value) and value >= 0:
        return value
    raise UsageError(f"{where}: {value:g} is not an amount")


def _nearest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, 2)
    return f"Is {' or '.join(near)} meant?" if near else f"There are {', '.join(known)}."
