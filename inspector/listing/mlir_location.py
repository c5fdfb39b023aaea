"""MLIR locations: ``loc(...)`` and the ``#loc`` aliases, wherever those are defined.

MLIR Language Reference, "Builtin Dialect", location attributes: FileLineColLoc, NameLoc,
CallSiteLoc, FusedLoc, OpaqueLoc, UnknownLoc.
"""

from __future__ import annotations

import re

from inspector.model import Location

_ALIAS_LINE = re.compile(r"\s*(#[\w$.\-]++)\s*=\s*loc\(")
_TOKEN = re.compile(
    r'\s*+(?:"((?:[^"\\]|\\.)*+)"|(#[\w$.\-]++)|(callsite|fused|unknown|at|to)\b|(\d++)|(.))',
    re.DOTALL,
)
_START = re.compile(r"(?<![\w.$\"])loc\(")
_ESCAPE = re.compile(r'\\([0-9A-Fa-f]{2}|[nt"\\])')
_DEPTH = 64


class Aliases:
    """The ``#loc`` aliases of one text, by name; resolved when asked for."""

    def __init__(self, texts: list[str]) -> None:
        self._where: dict[str, str] = {}
        self._done: dict[str, Location | None] = {}
        self._inline: dict[str, Location | None] = {}
        for text in texts:
            if "#" in text and (found := _ALIAS_LINE.match(text)):
                self._where.setdefault(found[1], text[found.end() :])

    def get(self, name: str, depth: int = 0) -> Location | None:
        """What an alias stands for; None where it is unknown, or not defined."""
        if name in self._done:
            return self._done[name]
        if name not in self._where or depth > _DEPTH:
            return None
        self._done[name] = None  # a definition in terms of itself ends here
        found = _Reader(self._where[name], 0, self, depth + 1).location()
        self._done[name] = found
        return found

    def trailing(self, text: str) -> tuple[Location | None, int]:
        """The location that ends a line, and where its ``loc(`` begins (-1 where none does)."""
        end = len(text)
        for _ in range(4):
            at = text.rfind("loc(", 0, end)
            if at < 0:
                break
            if _START.match(text, at):
                inside = text[at + 4 :]
                plain = inside.rstrip(" \t\r),:{")
                if plain in self._done and plain[:1] == "#":
                    return self._done[plain], at
                reader = _Reader(inside, 0, self, 0)
                location = reader.location()
                if not inside[reader.at :].strip(" \t\r),:{"):
                    return location, at
            end = at
        return None, -1


class _Reader:
    """Recursive descent over one location attribute; anything unforeseen is "no location"."""

    def __init__(self, text: str, at: int, aliases: Aliases, depth: int) -> None:
        self.text = text
        self.at = at
        self.aliases = aliases
        self.depth = depth

    def _next(self) -> tuple[str, str]:
        """The next token: its kind (s, #, w, d, p, or empty at the end) and its text."""
        found = _TOKEN.match(self.text, self.at)
        if found is None:
            self.at = len(self.text)
            return "", ""
        self.at = found.end()
        for kind, value in zip("s#wdp", found.groups(), strict=True):
            if value is not None:
                return kind, value
        return "", ""

    def _peek(self) -> tuple[str, str]:
        at = self.at
        token = self._next()
        self.at = at
        return token

    def location(self) -> Location | None:
        """One location from here on."""
        self.depth += 1
        if self.depth > _DEPTH:
            self.at = len(self.text)
            return None
        try:
            return self._location()
        finally:
            self.depth -= 1

    def _location(self) -> Location | None:
        kind, value = self._next()
        if kind == "#":
            return self.aliases.get(value, self.depth)
        if kind == "s":
            return self._file_or_name(value)
        if kind == "w" and value == "callsite":
            return self._call_site()
        if kind == "w" and value == "fused":
            return self._fused()
        return None

    def _file_or_name(self, text: str) -> Location | None:
        what = self._peek()
        if what == ("p", ":"):
            self._next()
            line = self._number()
            column = 0
            if self._peek() == ("p", ":"):
                self._next()
                column = self._number()
            if self._peek() == ("w", "to"):  # a range: where it ends is not kept
                while self._peek() in (("w", "to"), ("p", ":")) or self._peek()[0] == "d":
                    self._next()
            return Location(_unescape(text), line, column) if line else None
        if what == ("p", "("):
            self._next()
            child = self.location()
            self._skip(")")
            return child
        return None

    def _number(self) -> int:
        kind, value = self._peek()
        if kind != "d":
            return 0
        self._next()
        return int(value) if len(value) < 19 else 0

    def _call_site(self) -> Location | None:
        if self._next() != ("p", "("):
            return None
        callee = self.location()
        if self._next() != ("w", "at"):
            return callee
        caller = self.location()
        self._skip(")")
        return _chain(callee, caller)

    def _fused(self) -> Location | None:
        if self._peek() == ("p", "<"):
            depth = 0
            while (token := self._next()) != ("", ""):
                depth += (token == ("p", "<")) - (token == ("p", ">"))
                if depth == 0:
                    break
        if self._next() != ("p", "["):
            return None
        first: Location | None = None
        while self._peek() not in (("p", "]"), ("", "")):
            one = self.location()
            first = first or one
            if self._peek() != ("p", ","):
                break
            self._next()
        self._skip("]")
        return first

    def _skip(self, what: str) -> None:
        if self._peek() == ("p", what):
            self._next()


def _chain(callee: Location | None, caller: Location | None) -> Location | None:
    if callee is None or caller is None:
        return callee or caller
    here: Location | None = caller
    for frame in reversed(callee.frames()):
        here = Location(frame.file, frame.line, frame.column, here)
    return here


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    what = match[1]
    plain = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}.get(what)
    return plain if plain is not None else chr(int(what, 16))
