"""What autotuning looked at and chose: frozen, plain values beside those of ``model``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Configuration:
    """One configuration that an autotuner looked at, and what came of it.

    ``variant`` is the id of what was compiled for it. ``time_us`` is the tuner's own figure, in
    microseconds: Triton's median, Inductor's shortest or median by its benchmarker.
    ``quantiles_us`` are the 20th, 50th and 80th percentile. None is "not measured", and
    ``reason`` says why where it was pruned, failed, or was not needed.
    """

    config: Mapping[str, object]
    variant: str | None = None
    time_us: float | None = None
    quantiles_us: tuple[float, ...] | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Tuning:
    """One time that a kernel was tuned, for one ``key``: configurations in the tuner's order.

    ``by`` is triton or inductor. ``key`` holds what Triton tuned for by the arguments' names (bare
    values where only a cache tells them), or Inductor's size hints. ``best`` is the place of the
    winner, None where there is none. ``stopwatch`` is what measured, ``method`` how Inductor
    searched where it was not all against all, ``seconds`` how long measuring took.
    """

    by: str
    key: Mapping[str, object] | tuple[object, ...] | None
    configurations: tuple[Configuration, ...]
    best: int | None = None
    stopwatch: str | None = None
    method: str | None = None
    from_cache: bool = False
    seconds: float | None = None

    @property
    def winner(self) -> Configuration | None:
        """The configuration that the tuner chose."""
        return None if self.best is None else self.configurations[self.best]
