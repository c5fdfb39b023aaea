"""How well something fits what one types: exactly, by its beginning, by something in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

Spans = tuple[tuple[int, int], ...]
"""Where in a text what was typed stands."""

HEX = re.compile(r"[0-9a-f]{2,}\Z")
"""Digits that may be the first of a hash."""

LEAST_FUZZY = 3
"""Letters from which on they are looked for one by one."""

SPREAD = 5
"""How many times its own length a word's letters may be spread over."""


class Fit(IntEnum):
    """How a word fits, the best first."""

    EXACT = 0
    BEGINNING = 1
    PART = 2
    """A part of it, such as the number at the end of a name."""
    PART_BEGINNING = 3
    INSIDE = 4
    ELSEWHERE = 5
    """In what is said of it: settings, operators, where it is from."""
    LETTERS = 6
    """Its letters in their order."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Something that can be found. All texts are safe to draw.

    ``lead`` says what it is, ``more`` is said of it, ``detail`` stands at the right end. ``words``
    are looked in as well, ``digest`` is found by its beginning. ``near`` is how far it is from what
    is in view: 0 is there. ``run`` is what Enter does, None: nothing, and ``why`` says why.
    ``also`` gives the same at a stage, which is a word of those that are typed: its PTX.
    """

    lead: str
    text: str
    more: str = ""
    detail: str = ""
    words: str = ""
    digest: str = ""
    near: int = 0
    run: Callable[[], object] | None = None
    heading: bool = False
    why: str = ""
    also: Callable[[str], Entry | None] | None = None
    folded: str = field(init=False, default="")
    parts: frozenset[str] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        """Once, and not at every key."""
        folded = self.text.casefold()
        object.__setattr__(self, "folded", folded)
        object.__setattr__(self, "parts", frozenset(re.split(r"[\W_]+", folded)))


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """An entry that fits, and where."""

    entry: Entry
    spans: Spans = ()


def _letters(text: str, word: str) -> tuple[int, Spans] | None:
    """The letters of a word in their order, not far apart, the first at the beginning of a part."""
    at, ends = -1, []
    for letter in word:
        at = text.find(letter, at + 1)
        if at < 0:
            return None
        ends.append(at)
    # Each as near to the one after it as it can be.
    places = [ends[-1]]
    for letter in reversed(word[:-1]):
        places.append(text.rfind(letter, 0, places[-1]))
    places.reverse()
    first, spread = places[0], places[-1] - places[0] + 1
    if spread > SPREAD * len(word) or (first and text[first - 1].isalnum()):
        return None
    return spread, tuple((at, at + 1) for at in places)


def _fit(entry: Entry, word: str) -> tuple[Fit, int, Spans] | None:
    """How a word fits, how much less well than another that fits so, and where."""
    text = entry.folded
    at = text.find(word)
    span: Spans = ((at, at + len(word)),) if at >= 0 else ()
    if text == word or entry.digest == word:
        return Fit.EXACT, 0, span
    if at == 0:
        return Fit.BEGINNING, 0, span
    if entry.digest and entry.digest.startswith(word) and HEX.match(word):
        return Fit.BEGINNING, 0, span
    if at > 0:
        if word in entry.parts:
            return Fit.PART, 0, span
        begins = next((m for m in _starts(text, word, at)), None)
        if begins is not None:
            return Fit.PART_BEGINNING, 0, ((begins, begins + len(word)),)
        return Fit.INSIDE, 0, span
    if word in entry.words:
        return Fit.ELSEWHERE, 0, ()
    if len(word) >= LEAST_FUZZY and (spread := _letters(text, word)) is not None:
        return Fit.LETTERS, spread[0], spread[1]
    return None


def _starts(text: str, word: str, at: int) -> Iterable[int]:
    """Where a word stands at the beginning of a part."""
    while at >= 0:
        if not text[at - 1].isalnum():
            yield at
        at = text.find(word, at + 1)


Score = tuple[int, int, int, int]


def _score(entry: Entry, words: Sequence[str]) -> tuple[Score, Spans] | None:
    """The less the better; None where a word is nowhere."""
    worst, total, spread = 0, 0, 0
    spans: list[tuple[int, int]] = []
    for word in words:
        fit = _fit(entry, word)
        if fit is None:
            return None
        worst, total, spread = max(worst, fit[0]), total + fit[0], spread + fit[1]
        spans += fit[2]
    if len(words) > 1:
        whole = " ".join(words)
        if entry.folded == whole:
            worst = Fit.EXACT
        elif entry.folded.startswith(whole):
            worst = min(worst, Fit.BEGINNING)
    return (worst, total + spread, entry.near, 0), tuple(sorted(spans))


def rank(
    entries: Sequence[Entry], query: str, stages: Sequence[str] = (), nearest: bool = False
) -> list[Match]:
    """The entries that fit, the best first; of those that fit alike what is nearer to what is in
    view. Without a query all of them in their order. ``nearest``: what is nearer comes before all
    else.

    ``stages`` are names of stages: with one of them beside other words, what has such a stage comes
    with it: ``237 sass`` is the SASS of what fits ``237``.
    """
    words = query.casefold().split()
    if not words:
        return [Match(entry) for entry in entries]
    scored: list[tuple[Score, int, Match]] = []
    for order, entry in enumerate(entries):
        if not entry.heading and (fit := _score(entry, words)) is not None:
            scored.append((fit[0], order, Match(entry, fit[1])))
    for stage, others in _staged(words, stages):
        for order, entry in enumerate(entries):
            if entry.also is None or (fit := _score(entry, others)) is None:
                continue
            if (one := entry.also(stage)) is not None:
                score = (*fit[0][:3], -1)
                scored.append((score, order, Match(one)))
    if nearest:
        # But for what has no more than the letters.
        scored.sort(key=lambda one: (one[0][0] is Fit.LETTERS, one[0][2], one[0], one[1]))
    else:
        scored.sort(key=lambda one: one[:2])
    return [match for _, _, match in scored]


def _staged(words: list[str], stages: Sequence[str]) -> Iterable[tuple[str, list[str]]]:
    """The stage that the last word begins, or the first one, and the words beside it."""
    if len(words) < 2:
        return
    for word, others in ((words[-1], words[:-1]), (words[0], words[1:])):
        stage = next((s for s in stages if len(word) > 1 and s.startswith(word)), None)
        if stage is not None:
            yield stage, others
            return
