"""Sentences with places to be filled, chosen by opcode."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

_PLACE = re.compile(r"\{(\w+)\}")
_ONE = re.compile(r"(?<![×−+] )(?<![\w.…])1 (arrival|register|thread|byte|column|block)s\b")
_OPTION = re.compile(r"\[([^\[\]]*)\]")

Piece = Callable[[str], str]


class Templates:
    """The table ptx_sentences.toml; sections that it does not have are empty."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.table = table
        self.pieces: Mapping[str, Mapping[str, str]] = table.get("pieces", {})
        self._by_base: dict[str, list[tuple[frozenset[str], str]]] = {}
        for key, text in self.section("say").items():
            base, *needs = key.split(".")
            self._by_base.setdefault(base, []).append((frozenset(needs), text))

    def section(self, name: str) -> Mapping[str, str]:
        """One table of words."""
        found = self.table.get(name, {})
        return found if isinstance(found, Mapping) else {}

    def of(self, parts: Sequence[str]) -> str | None:
        """The template of an opcode: the one that names most of its parts."""
        have = set(parts[1:])
        fitting = [f for f in self._by_base.get(parts[0], ()) if f[0] <= have]
        return max(fitting, key=lambda f: len(f[0]))[1] if fitting else None


_Part = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]
"""The places that an option needs, none outside of one; then text, each with the place after it,
"" at the end."""


@lru_cache(maxsize=4096)
def _taken_apart(template: str) -> tuple[_Part, ...]:
    parts: list[_Part] = []
    for i, text in enumerate(_OPTION.split(template)):
        pieces = _PLACE.split(text)
        places = pieces[1::2]
        parts.append(
            (tuple(places) if i % 2 else (), (*zip(pieces[::2], [*places, ""], strict=True),))
        )
    return tuple(parts)


def fill(template: str, piece: Piece) -> str:
    """A template with its places filled; options with an empty piece are left out."""
    filled: dict[str, str] = {"": ""}
    out: list[str] = []
    for needed, pairs in _taken_apart(template):
        for name in needed:
            if name not in filled:
                filled[name] = piece(name)
            if not filled[name]:
                break
        else:
            for text, name in pairs:
                if name not in filled:
                    filled[name] = piece(name)
                out.append(text)
                if name:
                    out.append(filled[name] or "_")
    said = "".join(out)
    if "−" in said:
        said = said.replace("+ −", "− ").replace("− −", "+ ")
    return _ONE.sub(r"1 \1", said) if "1 " in said else said
