"""How often Python looks for garbage while the interface stands.

A full collection goes through every object there is and holds the interpreter meanwhile: a quarter
of a second where two listings of 20,000 lines are compared, whichever thread does it, and the keys
wait. What listings are made of holds no cycles, and is kept anyway; what screens leave behind is
found by the collections of what is young.
"""

from __future__ import annotations

import gc

YOUNG, MIDDLE, OLD = 10_000, 10, 1_000
"""Objects until the young are looked through, and how often that is until the older ones are."""


def spare() -> None:
    """Look through the young alone, as good as always."""
    gc.set_threshold(YOUNG, MIDDLE, OLD)
