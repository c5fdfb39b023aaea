"""The request to shared memory of which one bank has to give the most words."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from inspector.execute.kinds import Array

BANKS = 32
WARP_LANES = 32


class BankWord(NamedTuple):
    """A word of shared memory that a lane of a warp asked for, counted in 4 bytes."""

    lane: int
    word: int

    @property
    def bank(self) -> int:
        return self.word % BANKS


@dataclass(frozen=True, slots=True)
class BankConflict:
    """The words of lanes that are served together, in as many wavefronts as one bank has words."""

    words: tuple[BankWord, ...]
    wavefronts: int


def bank_conflict(
    words: Array, on: Array, row: int, words_a_lane: int, wavefronts: int
) -> BankConflict:
    """A conflict of the lanes that ask for one row of words.

    Args:
        words: rows of words of lanes that are served together; several rows may be of one warp.
        on: which of them are asked for.
    """
    lanes_together = words.shape[1] // words_a_lane
    first_lane = row * lanes_together % WARP_LANES
    asked = np.flatnonzero(on[row]).tolist()
    bank_words = tuple(
        BankWord(first_lane + place // words_a_lane, int(words[row, place])) for place in asked
    )
    return BankConflict(bank_words, wavefronts)
