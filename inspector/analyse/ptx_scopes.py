"""Names of PTX by the block ``{ }`` they are declared in (PTX ISA, "Identifiers", "Variables").

What is declared in a block hides the same name outside of it, and ends with it.
"""

from __future__ import annotations

import re

UNDECLARED = "undeclared"
"""The class of a register whose declaration is not in the function."""

_DECLARED = re.compile(r"(?<![%\w$])([%\w$]++)\s*+(?:<\s*+(\d{1,9})\s*+>)?\s*+(?=[,;]|\Z)")
_TYPES = re.compile(r"\s*((?:\.[a-z]\w*\s*(?:\d+\s+)?)+)")
_NUMBERED = re.compile(r"(.*?)(0|[1-9]\d{0,8})\Z", re.DOTALL)
_HIDDEN = 64
"""Blocks around, declaring the same name, that are looked through."""


class Scopes:
    """The blocks of a function: 0 is what is around it all."""

    def __init__(self) -> None:
        self.parents = [0]
        self.here = 0

    def enter(self) -> None:
        """A ``{``."""
        self.parents.append(self.here)
        self.here = len(self.parents) - 1

    def leave(self) -> None:
        """A ``}``."""
        self.here = self.parents[self.here]


class Registers:
    """Registers as numbers, in the order in which they are met."""

    def __init__(self, scopes: Scopes) -> None:
        self.scopes = scopes
        self.names: list[str] = []
        self.classes: list[str] = []
        self.vectors: set[int] = set()
        """Numbers of vectors, whose elements are written one by one."""
        self._declared: dict[str, list[tuple[int, int, str]]] = {}
        """Scope, serial number, class, by name; innermost last."""
        self._ranges: dict[str, list[tuple[int, int, str, int]]] = {}
        """The same with how many, by what their names begin with."""
        self._made: dict[int, list[tuple[str, bool]]] = {}
        """What a scope declared, to be forgotten at its end."""
        self._numbers: dict[tuple[str, int], int] = {}
        self._known: dict[str, int] = {}
        self._serial = 0

    def number(self, name: str) -> int:
        """The register that ``name`` means here."""
        known = self._known.get(name)
        if known is not None:
            return known
        serial, kind = self._find(name)
        key = (name, serial)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.names)
            self.names.append(name)
            self.classes.append(kind)
            if kind.startswith("v") and "." in kind:
                self.vectors.add(number)
        self._known[name] = number
        return number

    def _find(self, name: str) -> tuple[int, str]:
        exact = self._declared.get(name)
        best = exact[-1] if exact else (-1, 0, UNDECLARED)
        if found := _NUMBERED.match(name):
            for scope, serial, kind, count in reversed(self._ranges.get(found[1], [])[-_HIDDEN:]):
                if int(found[2]) < count:
                    if serial > best[1]:
                        best = (scope, serial, kind)
                    break
        return best[1], best[2]

    def declare(self, text: str) -> None:
        """``text`` is what stands between ``.reg`` and ``;``: types, then names."""
        found = _TYPES.match(text)
        if found is None:
            return
        kind = ".".join(word for word in re.findall(r"\.([a-z]\w*)", found[1]) if word != "align")
        here = self.scopes.here
        made = self._made.setdefault(here, [])
        for name, count in _DECLARED.findall(text[found.end() :]):
            self._serial += 1
            if count:
                rows = self._ranges.setdefault(name, [])
                rows.append((here, self._serial, kind, int(count)))
            else:
                self._declared.setdefault(name, []).append((here, self._serial, kind))
            made.append((name, bool(count)))
            self._forget(name, bool(count))

    def _forget(self, name: str, ranged: bool) -> None:
        """What was looked up may mean another register now."""
        if ranged:
            self._known.clear()
        else:
            self._known.pop(name, None)

    def enter(self) -> None:
        """A ``{``."""
        self.scopes.enter()

    def leave(self) -> None:
        """A ``}``: what it declared means what it meant outside."""
        here = self.scopes.here
        for name, ranged in self._made.pop(here, ()):
            if ranged:
                self._ranges[name].pop()
            else:
                self._declared[name].pop()
            self._forget(name, ranged)
        self.scopes.leave()


class Labels:
    """Labels by name and by the block that they stand in."""

    def __init__(self, scopes: Scopes) -> None:
        self.scopes = scopes
        self._places: dict[str, dict[int, int]] = {}

    def put(self, name: str, scope: int, line: int) -> None:
        """The first instruction after a label is on ``line``."""
        self._places.setdefault(name, {}).setdefault(scope, line)

    def find(self, name: str, scope: int) -> int | None:
        """The line that ``name`` means in ``scope``; the only one, wherever it stands."""
        places = self._places.get(name)
        if places is None:
            return None
        if len(places) > 1:
            for _ in range(_HIDDEN):
                if scope in places:
                    return places[scope]
                scope = self.scopes.parents[scope]
        return next(iter(places.values()))
