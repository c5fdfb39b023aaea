"""Two sides and their summary, as rules see them, and how numbers are put in words."""

from __future__ import annotations

from dataclasses import dataclass

from inspector.analyse.card import Made
from inspector.analyse.diff.summary import Side, Summary

_RATIOS = {(2, 1): "half", (4, 1): "a quarter of", (8, 1): "an eighth of", (1, 2): "twice",
           (1, 4): "four times", (1, 8): "eight times"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Delta:
    """What a rule is told."""

    a: Side
    b: Side
    summary: Summary

    @property
    def stage(self) -> str:
        """The stage that counts of instructions are told of: ``ptx`` or ``sass``."""
        return self.summary.machine.value if self.summary.machine is not None else ""

    @property
    def machine(self) -> tuple[Made | None, Made | None]:
        """What that stage is made of on both sides; None where one has it not."""
        stage = self.summary.machine
        if stage is None:
            return None, None
        return self.a.card.of(stage), self.b.card.of(stage)

    def config(self, name: str) -> str | None:
        """``4 → 8``, None where it does not differ."""
        held = next((c for c in self.summary.config if c.name == name), None)
        return None if held is None else f"{self.value(held.a)} → {self.value(held.b)}"

    @staticmethod
    def value(value: object) -> str:
        """A value of a configuration; what is not set there is said so."""
        return "unset" if value is None else str(value)


def ratio(a: int, b: int) -> str:
    """``half``, ``twice``, ``1.5 times``: what ``b`` is of ``a``; both are positive."""
    for (x, y), word in _RATIOS.items():
        if a * y == b * x:
            return word
    return f"{b / a:.3g} times"


def some(names: list[str], most: int = 3) -> str:
    """``a``, ``a and b``, ``a, b, c and 4 more``."""
    rest = len(names) - most
    if rest > 0:
        return f"{', '.join(names[:most])} and {rest} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else ""


def plural(count: int, noun: str) -> str:
    """``1 block``, ``2 blocks``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
