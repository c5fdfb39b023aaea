"""Sentences with places to be filled, chosen by opcode."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
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


def fill(template: str, piece: Piece) -> str:
    """A template with its places filled; options with an empty piece are left out."""
    filled: dict[str, str] = {}

    def get(name: str) -> str:
        if name not in filled:
            filled[name] = piece(name)
        return filled[name]

    def option(match: re.Match[str]) -> str:
        names = _PLACE.findall(match[1])
        return match[1] if all(get(name) for name in names) else ""

    text = _PLACE.sub(lambda m: get(m[1]) or "_", _OPTION.sub(option, template))
    return _ONE.sub(r"1 \1", text.replace("+ −", "− ").replace("− −", "+ "))
