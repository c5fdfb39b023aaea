"""What was meant: the known words that are spelled most like one that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher


def closest(word: str, known: Iterable[str], n: int = 3) -> tuple[str, ...]:
    """Up to ``n`` known words, the closest first; none where nothing is near.

    Case counts less than any letter. Near is at most a third of the letters changed, and one where
    the word has fewer than three.
    """
    folded = word.casefold()
    most = max(1, (len(folded.strip(".%@")) + 1) // 3)
    found: list[tuple[float, float, int, str]] = []
    for order, name in enumerate(dict.fromkeys(known)):
        other = name.casefold()
        if abs(len(other) - len(folded)) > most:
            continue
        far = distance(folded, other, most)
        if far <= most:
            # Of two that are as far: letters swapped, then more of the letters in their order.
            alike = SequenceMatcher(None, folded, other, autojunk=False).ratio()
            alike += sorted(folded) == sorted(other)
            found.append((far + (0 if _same_case(word, name) else 0.5), -alike, order, name))
    return tuple(name for *_, name in sorted(found)[:n])


def distance(one: str, other: str, most: int) -> int:
    """Letters to insert, leave out, change or swap with the next; ``most + 1`` for any more.

    The optimal string alignment distance.
    """
    if len(one) > len(other):
        one, other = other, one
    before: list[int] = []
    row = list(range(len(one) + 1))
    for y, letter in enumerate(other, 1):
        earlier, before, row = before, row, [y]
        for x, mine in enumerate(one, 1):
            best = min(before[x] + 1, row[x - 1] + 1, before[x - 1] + (mine != letter))
            if x > 1 and y > 1 and mine == other[y - 2] and one[x - 2] == letter:
                best = min(best, earlier[x - 2] + 1)
            row.append(best)
        if min(row) > most + 1:
            return most + 1
    return min(row[-1], most + 1)


def _same_case(one: str, other: str) -> bool:
    return one.isupper() == other.isupper()
