"""Ranking of entries for a query: exact, by prefix, by part."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Spans = tuple[tuple[int, int], ...]
"""Matched ranges of a text."""

HEX_PREFIX = re.compile(r"[0-9a-f]{2,}\Z")
"""Hexadecimal digits that may begin a hash."""

_FORMS = (r"\A{}\Z", r"\A{}", r"(?<![^\W_]){}(?![^\W_])", r"(?<![^\W_]){}", "{}")
"""A word is the whole text, its beginning, a part of it, the beginning of a part, or within."""

EXACT, BEGINNING, ELSEWHERE = 0, 1, len(_FORMS)
"""Scores, the lowest is best. Elsewhere: settings, operators, origin."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Something that can be found. All texts are safe to draw.

    ``lead`` says what it is, ``more`` describes it, ``detail`` is at the right end. ``words`` are
    looked in as well, ``digest`` is found by its beginning. ``near`` is how far it is from what is
    in view: 0 is there. ``run`` is what Enter does, None: nothing, and ``why`` says why. ``also``
    returns the same at a stage, which is a word of those that are typed: its PTX.
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


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """An entry that fits, and where."""

    entry: Entry
    spans: Spans = ()


Word = tuple[str, tuple[re.Pattern[str], ...]]
Score = tuple[int, int, int]


def _word(text: str) -> Word:
    return text, tuple(re.compile(form.format(re.escape(text))) for form in _FORMS)


def _fit(entry: Entry, text: str, word: Word) -> tuple[int, Spans] | None:
    """How a word fits, and where."""
    plain, patterns = word
    if entry.digest == plain:
        return EXACT, ()
    if plain in text:
        for score, pattern in enumerate(patterns):
            if found := pattern.search(text):
                return score, (found.span(),)
    if entry.digest.startswith(plain) and HEX_PREFIX.match(plain):
        return BEGINNING, ()
    return (ELSEWHERE, ()) if plain in entry.words else None


def _score(entry: Entry, words: Sequence[Word]) -> tuple[Score, Spans] | None:
    """Score an entry; None where a word is nowhere."""
    text = entry.text.casefold()
    fits = [fit for word in words if (fit := _fit(entry, text, word)) is not None]
    if len(fits) < len(words):
        return None
    worst = max(score for score, _ in fits)
    whole = " ".join(plain for plain, _ in words)
    if text.startswith(whole):
        worst = EXACT if text == whole else min(worst, BEGINNING)
    spans = sorted(span for _, spans in fits for span in spans)
    return (worst, sum(score for score, _ in fits), entry.near), tuple(spans)


def rank(
    entries: Sequence[Entry], query: str, stages: Sequence[str] = (), nearest: bool = False
) -> list[Match]:
    """Return the entries that fit, the best first, then those nearest to what is in view.

    Without a query all of them in their order. ``nearest``: what is nearer comes before all else.
    With one of ``stages`` beside other words, what has such a stage comes with it: ``237 sass`` is
    the SASS of what fits ``237``.
    """
    words = [*map(_word, query.casefold().split())]
    if not words:
        return [Match(entry) for entry in entries]
    scored = [
        (fit[0], 0, Match(entry, fit[1]))
        for entry in entries
        if not entry.heading and (fit := _score(entry, words)) is not None
    ]
    for stage, others in _staged(words, stages):
        for entry in entries:
            fit = None if entry.also is None else _score(entry, others)
            if fit is not None and entry.also is not None and (one := entry.also(stage)):
                scored.append((fit[0], -1, Match(one)))
    scored.sort(key=lambda one: (one[0][2] if nearest else 0, *one[:2]))
    return [match for _, _, match in scored]


def _staged(words: list[Word], stages: Sequence[str]) -> Iterator[tuple[str, list[Word]]]:
    """The stage that the last word begins, or the first one, and the words beside it."""
    for word, others in ((words[-1], words[:-1]), (words[0], words[1:])):
        stage = next((s for s in stages if len(word[0]) > 1 and s.startswith(word[0])), None)
        if stage is not None and others:
            yield stage, others
            return
