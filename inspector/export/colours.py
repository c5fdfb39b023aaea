"""The tokens of a text as short words, so that the page needs no lexer.

A line's tokens are ``LENGTH CLASS`` one after the other, such as ``3k1-4v``: three characters of a
keyword, one without a colour, four of a variable. The rest of the line has no colour.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from pygments.lexer import Lexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Token, _TokenType

from inspector.base.model import Stage
from inspector.listing.lexers import lexer_for

PLAIN = "-"
CLASSES: tuple[tuple[_TokenType, str], ...] = (
    (Comment.Preproc, "p"),
    (Comment, "c"),
    (Keyword.Type, "t"),
    (Keyword.Declaration, "d"),
    (Keyword.Constant, "m"),
    (Keyword, "k"),
    (Name.Function, "f"),
    (Name.Class, "f"),
    (Name.Builtin, "b"),
    (Name.Decorator, "p"),
    (Name.Label, "l"),
    (Name.Variable, "v"),
    (Name.Constant, "t"),
    (Name.Exception, "t"),
    (Number, "m"),
    (String, "s"),
    (Operator.Word, "k"),
    (Token, PLAIN),
)
"""Classes of the page's style sheet; a token belongs to the nearest above it."""

LONGEST = 5000
"""Characters beyond which a line is shown plain: such lines are data, and lexers are slow."""
MOST = 2 << 20
"""Characters beyond which a text is: some seconds of a lexer."""


def tokens(lines: Sequence[str], stage: Stage, path: str | None) -> list[str]:
    """The tokens of each line of a stage's text; [] where it is shown plain."""
    if sum(map(len, lines)) > MOST or max(map(len, lines), default=0) > LONGEST:
        return []
    try:
        return list(_lines(lines, lexer_for(stage, path)))
    except Exception:  # a lexer's fault must not cost the page
        return []


def _lines(lines: Sequence[str], lexer: Lexer) -> Iterator[str]:
    row: list[tuple[int, str]] = []
    for _, token, value in lexer.get_tokens_unprocessed("\n".join(lines) + "\n"):
        for n, piece in enumerate(value.split("\n")):
            if n:
                if row and row[-1][1] == PLAIN:
                    row.pop()
                yield "".join(f"{length}{kind}" for length, kind in row)
                row = []
            if not piece:
                continue
            kind, length = _class_of(token), len(piece)
            if row and row[-1][1] == kind:
                length += row.pop()[0]
            row.append((length, kind))


@cache
def _class_of(token: _TokenType) -> str:
    """The class of the nearest kind of token above one that has a class."""
    classes = dict(CLASSES)
    return next((classes[of] for of in reversed(token.split()) if of in classes), PLAIN)
