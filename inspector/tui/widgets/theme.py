"""Colours: two themes, and what a token looks like in each.

Hues run from blue to orange, distinct to colour-blind readers, and each has a contrast
of at least 4.5 : 1 to the backgrounds that it is on. What a colour says, a mark says as well.
"""

from functools import lru_cache

from pygments.token import (
    Comment,
    Generic,
    Keyword,
    Literal,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Token,
    _TokenType,
)
from rich.style import Style
from textual.theme import Theme

TINTS = {
    # How a row of the map looks, and how it looks when it comes from the cursor's source line. The
    # eight colours are as far apart as possible, for normal sight, protanopia, deuteranopia and
    # tritanopia, with every token readable; neighbours in the source differ most.
    "dark": (
        ("#3e0301", "#501a00", "#290e4f", "#023420", "#340035", "#3f1c3e", "#351f60", "#0c2522"),
        ("#6d1b12", "#682200", "#47247d", "#004229", "#611861", "#562655", "#45247e", "#00413b"),
    ),
    "light": (
        ("#fedcd9", "#dcfedf", "#e7dfff", "#fff8be", "#eae6ad", "#def3c9", "#abf2e5", "#f6e9fe"),
        ("#fecfcb", "#a5eaad", "#dfd4ff", "#eddc5b", "#e8dd5e", "#bee791", "#85e9da", "#edd0fe"),
    ),
}


def _tints(theme: str) -> dict[str, str]:
    unlit, lit = TINTS[theme]
    named = {f"tint-{hue}": colour for hue, colour in enumerate(unlit, 1)}
    return named | {f"lit-{hue}": colour for hue, colour in enumerate(lit, 1)}


DARK = Theme(
    name="ptxview-dark",
    dark=True,
    primary="#58a6ff",
    secondary="#7fd1c7",
    accent="#f0a860",
    warning="#e8b84a",
    error="#ff8a80",
    success="#7fd1c7",
    foreground="#d5dbe3",
    background="#11151b",
    surface="#171c24",
    panel="#222a35",
    variables={
        "cursor-line": "#1a3454",
        "linked-line": "#3a2c1a",
        "quiet": "#98a4b3",
        "removed-line": "#2a1e14",
        "removed-part": "#4d3413",
        "added-line": "#12292f",
        "added-part": "#173d46",
        **_tints("dark"),
    },
)

LIGHT = Theme(
    name="ptxview-light",
    dark=False,
    primary="#0b57b0",
    secondary="#0a6460",
    accent="#9a4a00",
    warning="#8a5a00",
    error="#b3261e",
    success="#0a6460",
    foreground="#1f262e",
    background="#fcfbf8",
    surface="#f3f1ec",
    panel="#e4e1da",
    variables={
        "cursor-line": "#cfe3fb",
        "linked-line": "#fbe6c8",
        "quiet": "#586473",
        "removed-line": "#fdf1e0",
        "removed-part": "#fadfb8",
        "added-line": "#e2f3f0",
        "added-part": "#c4e8e1",
        **_tints("light"),
    },
)

TOKENS: tuple[tuple[_TokenType, str, str, str], ...] = (
    # token, attributes, on dark, on light
    (Token, "", "#d5dbe3", "#1f262e"),
    (Comment, "italic", "#98a4b3", "#535e6b"),
    (Comment.Address, "not italic", "#98a4b3", "#535e6b"),
    (Comment.Preproc, "", "#c3a6f5", "#5f2fa3"),
    (Keyword, "", "#7cb8ff", "#0a4c9c"),
    (Keyword.Type, "", "#6fd3c8", "#085c58"),
    (Keyword.Pseudo, "", "#a7b6c8", "#414c59"),
    (Keyword.Declaration, "", "#c3a6f5", "#5f2fa3"),
    (Name, "", "#d5dbe3", "#1f262e"),
    (Name.Builtin, "", "#6fd3c8", "#085c58"),
    (Name.Function, "bold", "#7cb8ff", "#0a4c9c"),
    (Name.Class, "bold", "#6fd3c8", "#085c58"),
    (Name.Label, "bold", "#c3a6f5", "#5f2fa3"),
    (Name.Decorator, "", "#c3a6f5", "#5f2fa3"),
    (Name.Attribute, "", "#a7b6c8", "#414c59"),
    (Name.Variable, "", "#e6c787", "#704400"),
    (Name.Constant, "", "#f2ab7c", "#8c3200"),
    (Literal, "", "#f2ab7c", "#8c3200"),
    (Number, "", "#f2ab7c", "#8c3200"),
    (String, "", "#b5d99c", "#2a5d1f"),
    (String.Doc, "italic", "#98a4b3", "#535e6b"),
    (Operator, "", "#a7b6c8", "#414c59"),
    (Operator.Word, "", "#7cb8ff", "#0a4c9c"),
    (Punctuation, "", "#a7b6c8", "#414c59"),
    (Generic, "", "#d5dbe3", "#1f262e"),
)

_STYLES = {
    dark: {
        token: Style.parse(f"{attributes} {on_dark if dark else on_light}".strip())
        for token, attributes, on_dark, on_light in TOKENS
    }
    for dark in (True, False)
}


@lru_cache(maxsize=512)
def token_style(token: _TokenType, dark: bool) -> Style:
    styles = _STYLES[dark]
    ancestor: _TokenType | None = token
    while ancestor is not None:
        if ancestor in styles:
            return styles[ancestor]
        ancestor = ancestor.parent
    return styles[Token]
