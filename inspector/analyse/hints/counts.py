"""Counts of the blocks of a launch that were run, for hints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExecutedAccess:
    """What one line of PTX asked of ``global`` or ``shared`` memory, in all blocks that were run.

    ``kind`` is ``load``, ``store`` or ``atomic``; ``requests`` are a warp's, ``lanes`` those that
    were part of one. Of global memory: ``sectors`` of 32 bytes, ``least_sectors`` that would do;
    ``together`` and ``filled`` the same of all accesses of its stretch of code that move together,
    where each sector counts once a warp, of the warps that were followed. ``repeated`` of the
    ``followed`` lanes load what they have loaded before, and nobody has stored to since. Of shared
    memory: wavefronts.
    """

    line: int
    space: str
    kind: str
    requests: int
    lanes: int
    sectors: int = 0
    least_sectors: int = 0
    together: int = 0
    filled: int = 0
    followed: int = 0
    repeated: int = 0
    wavefronts: int = 0
    least_wavefronts: int = 0


@dataclass(frozen=True, slots=True)
class ExecutedBranch:
    """Of ``warps`` that came to a branch, in how many some lanes took it and some did not."""

    line: int
    warps: int
    divergent: int


@dataclass(frozen=True, slots=True)
class ExecutedFacts:
    """Counts of ``ran`` of a launch's ``of`` blocks.

    ``instructions`` are warps', ``threads`` the lanes that came to them, ``active`` those that ran
    them.
    """

    ran: int
    of: int
    instructions: int
    threads: int
    active: int
    accesses: tuple[ExecutedAccess, ...] = ()
    branches: tuple[ExecutedBranch, ...] = ()

    @property
    def blocks(self) -> tuple[int, int]:
        """How many blocks of how many."""
        return self.ran, self.of
