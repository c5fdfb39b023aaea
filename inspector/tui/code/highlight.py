"""Tokens of a listing's lines, found when a line is first looked at.

PTX, SASS and the IRs are read line by line, so that the millionth line costs what the first does.
Python and CUDA have strings and comments over several lines: a text of theirs is read whole, in
the thread that loads it, as long as it is not huge.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from pygments.lexer import Lexer
from pygments.token import Token, _TokenType

from inspector.listing.line import LazyLines, Listing
from inspector.model import Stage
from inspector.tui.widgets.visible import TAB, squeezed, visible

Span = tuple[int, int, _TokenType]
Spans = tuple[Span, ...]

WHOLE = 4000
"""Lines up to which Python and CUDA are read whole (about a second at worst, in a thread)."""

LONGEST = 5000
"""Characters beyond which a line is shown plain: such lines are data, and lexers are slow."""


def texts_of(listing: Listing) -> Sequence[str]:
    """The texts of a listing's lines, without parsing any."""
    if isinstance(listing.lines, LazyLines):
        return listing.lines.texts
    return [line.text for line in listing.lines]


class Highlighter:
    """The visible text and the tokens of each line of a listing."""

    def __init__(self, listing: Listing, lexer: Lexer | None, whole: tuple[Spans, ...] | None):
        self.listing = listing
        self.texts = texts_of(listing)
        self.squeeze = listing.language == Stage.SASS.value
        self._lexer = lexer
        self._whole = whole
        self._spans = lru_cache(maxsize=4096)(self._find)

    def text(self, n: int) -> str:
        """Line ``n`` (from 1) as it may be shown."""
        text = visible(self.texts[n - 1])
        return squeezed(text) if self.squeeze else text

    def as_it_is(self, verbatim: bool) -> None:
        """Show every space of a disassembly, or leave out those that only push it to the right."""
        self.squeeze = self.listing.language == Stage.SASS.value and not verbatim
        self._spans.cache_clear()

    def spans(self, n: int) -> Spans:
        """The tokens of line ``n`` as (start, end, token) in its visible text."""
        return self._whole[n - 1] if self._whole is not None else self._spans(n)

    def _find(self, n: int) -> Spans:
        text = self.text(n)
        if self._lexer is None or len(text) > LONGEST:
            return ()
        try:
            found = self._lexer.get_tokens_unprocessed(text + "\n")
            return tuple(
                (start, min(start + len(value), len(text)), token)
                for start, token, value in found
                if value and start < len(text) and token is not Token.Text
            )
        except Exception:  # a lexer's fault must not cost the line
            return ()


def _whole_text(texts: list[str], lexer: Lexer) -> tuple[Spans, ...]:
    """The tokens of a whole text, cut at the ends of lines."""
    out: list[list[Span]] = [[] for _ in texts]
    row = column = 0
    for _, token, value in lexer.get_tokens_unprocessed("\n".join(texts) + "\n"):
        pieces = value.split("\n")
        for index, piece in enumerate(pieces):
            if index:
                row, column = row + 1, 0
            if piece and row < len(out):
                out[row].append((column, column + len(piece), token))
            column += len(piece)
    return tuple(tuple(spans) for spans in out)


def width_of(texts: Sequence[str]) -> int:
    """At least the cells of the widest line, found without measuring every character."""
    return max(
        (
            (len(text) if text.isascii() else 2 * len(text)) + (TAB - 1) * text.count("\t")
            for text in texts
        ),
        default=0,
    )


def highlighter_for(listing: Listing, stage: Stage, path: str | None) -> Highlighter:
    """A highlighter for a stage's listing; called in the thread that loads it."""
    try:
        # Imported in the loading thread: the first frame need not wait for the lexers.
        from inspector.listing.lexers import lexer_for

        lexer = lexer_for(stage, path)
        whole = None
        if stage in (Stage.SOURCE, Stage.OUTPUT_CODE) and len(listing.lines) <= WHOLE:
            texts = [visible(text) for text in texts_of(listing)]
            if max(map(len, texts), default=0) <= LONGEST:
                whole = _whole_text(texts, lexer)
    except Exception:  # without colours the text can still be read
        return Highlighter(listing, None, None)
    return Highlighter(listing, lexer, whole)
