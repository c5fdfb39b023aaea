"""MLIR text: Triton's TTIR and TTGIR, and any other dialect as it is printed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from inspector.base.model import Location
from inspector.listing.line import Function, Kind, Line, Listing

# -- locations ------------------------------------------------------------------------------------
# MLIR locations: ``loc(...)`` and the ``#loc`` aliases, wherever those are defined.
#
# MLIR Language Reference, "Builtin Dialect", location attributes: FileLineColLoc, NameLoc,
# CallSiteLoc, FusedLoc, OpaqueLoc, UnknownLoc.

_ALIAS_LINE = re.compile(r"\s*(#[\w$.\-]++)\s*=\s*loc\(")
_TOKEN = re.compile(
    r'\s*+(?:"((?:[^"\\]|\\.)*+)"|(#[\w$.\-]++)|(callsite|fused|unknown|at|to)\b|(\d++)|(.))',
    re.DOTALL,
)
_START = re.compile(r"(?<![\w.$\"])loc\(")
_ESCAPE = re.compile(r'\\([0-9A-Fa-f]{2}|[nt"\\])')
MAX_DEPTH = 64


class Aliases:
    """The ``#loc`` aliases of one text by name, resolved on request."""

    def __init__(self, texts: list[str]) -> None:
        self._where: dict[str, str] = {}
        self._done: dict[str, Location | None] = {}
        self._inline: dict[str, Location | None] = {}
        for text in texts:
            if "#" in text and (match := _ALIAS_LINE.match(text)):
                self._where.setdefault(match[1], text[match.end() :])

    def get(self, name: str, depth: int = 0) -> Location | None:
        """The location that an alias represents; None if it is unknown or not defined."""
        if name in self._done:
            return self._done[name]
        if name not in self._where or depth > MAX_DEPTH:
            return None
        self._done[name] = None  # a definition in terms of itself ends here
        location = _Reader(self._where[name], 0, self, depth + 1).location()
        self._done[name] = location
        return location

    def trailing(self, text: str) -> tuple[Location | None, int]:
        """The location at a line's end, and where its ``loc(`` begins (-1 if missing)."""
        end = len(text)
        for _ in range(4):
            start = text.rfind("loc(", 0, end)
            if start < 0:
                break
            if _START.match(text, start):
                inside = text[start + 4 :]
                plain = inside.rstrip(" \t\r),:{")
                if plain in self._done and plain[:1] == "#":
                    return self._done[plain], start
                reader = _Reader(inside, 0, self, 0)
                location = reader.location()
                if not inside[reader.at :].strip(" \t\r),:{"):
                    return location, start
            end = start
        return None, -1


class _Reader:
    """Recursive descent over one location attribute; unknown syntax means "no location"."""

    def __init__(self, text: str, at: int, aliases: Aliases, depth: int) -> None:
        self.text = text
        self.at = at
        self.aliases = aliases
        self.depth = depth

    def _next(self) -> tuple[str, str]:
        """The next token: its kind (s, #, w, d, p, or empty at the end) and its text."""
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            self.at = len(self.text)
            return "", ""
        self.at = match.end()
        for kind, value in zip("s#wdp", match.groups(), strict=True):
            if value is not None:
                return kind, value
        return "", ""

    def _peek(self) -> tuple[str, str]:
        position = self.at
        token = self._next()
        self.at = position
        return token

    def location(self) -> Location | None:
        """The location that begins here; None if unknown."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
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
        following = self._peek()
        if following == ("p", ":"):
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
        if following == ("p", "("):
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
            part = self.location()
            first = first or part
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
    location: Location | None = caller
    for frame in reversed(callee.frames()):
        location = Location(frame.file, frame.line, frame.column, location)
    return location


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = match[1]
    plain = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}.get(code)
    return plain if plain is not None else chr(int(code, 16))


_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"')
_OPERATION = re.compile(
    r"(?P<results>%[\w$.\-]++(?::\d++)?(?:[ \t]*+,[ \t]*+%[\w$.\-]++(?::\d++)?)*+[ \t]*+=[ \t]*+)?+"
    r"(?:\"(?P<quoted>[\w$.\-]++)\"|(?P<name>[A-Za-z_][\w$]*+(?:\.[\w$]++)*+))"
)
_RESULT = re.compile(r"(%[\w$.\-]+)(?::(\d{1,4}))?")
_VALUE = re.compile(r"%(?:\d++|[A-Za-z_$.\-][\w$.\-]*+)(?:#\d++)?")
_BOUND = re.compile(r"(%(?:\d++|[A-Za-z_$.\-][\w$.\-]*+))[ \t]*+=(?!=)")
_ARGUMENT = re.compile(r"(%(?:\d++|[A-Za-z_$.\-][\w$.\-]*+))[ \t]*+:")
_BLOCK = re.compile(r"\^[\w$.\-]++")
_SYMBOL = re.compile(r"@(?:([\w$.\-]++)|\"([^\"]*)\")")
_DEFINITION = re.compile(r"([#!][\w$.\-]++)[ \t]*+=")
_FUNCTION = re.compile(r"(?:\w+\.)?func\b")
_CALLS = re.compile(r"(?:\w+\.)?(?:call|callee|invoke)\b")


def parse_mlir(text: str, language: str = "ttir") -> Listing:
    """Parse an MLIR text.

    An operation with regions has the location that follows its last ``}``. A definition's
    alias (``#blocked``, ``#loc3``, ``!t``) is its line's ``label``.
    """
    texts = text.split("\n")
    aliases = Aliases(texts)
    lines: list[Line] = []
    opened: list[int] = []
    for i, each in enumerate(texts):
        location, start = aliases.trailing(each) if "loc(" in each else (None, -1)
        body = (each[:start] if start >= 0 else each).strip()
        if body[:1] == "}" and body[-1:] != "{" and opened:
            # unless another region begins, the location after ``}`` is the operation's
            opener = opened.pop()
            if location is not None and lines[opener].source is None:
                lines[opener] = lines[opener]._replace(source=location)
        line = _line(i + 1, each, body, location)
        lines.append(line)
        if body[-1:] == "{" and body[:1] != "}" and line.kind is not Kind.COMMENT:
            opened.append(i)
    return Listing(language, lines, _functions(lines))


def definitions(listing: Listing) -> dict[str, Line]:
    """The lines that define ``#blocked``, ``#mma``, ``#shared`` and other aliases, by alias."""
    by_alias: dict[str, Line] = {}
    for line in listing.lines:
        if line.label and line.label[0] in "#!":
            by_alias.setdefault(line.label, line)
    return by_alias


def _line(n: int, text: str, body: str, location: Location | None) -> Line:
    if not body:
        return Line(n, text, Kind.BLANK if not text.strip() else Kind.UNKNOWN, source=location)
    first = body[0]
    if body.startswith("//"):
        return Line(n, text, Kind.COMMENT)
    if first in "#!":
        definition = _DEFINITION.match(body)
        if definition:
            return Line(n, text, Kind.DIRECTIVE, label=definition[1])
    if first == "^":
        block = _BLOCK.match(body)
        if block:
            defs = tuple(_ARGUMENT.findall(_STRING.sub("", body)))
            return Line(n, text, Kind.LABEL, defs=defs, label=block[0], source=location)
    if first in "})" or body in ("{", "({", "{-#", "#-}"):
        uses = tuple(dict.fromkeys(_VALUE.findall(_STRING.sub("", body))))
        return Line(n, text, Kind.DIRECTIVE, uses=uses, source=location)
    match = _OPERATION.match(body)
    if match is None:
        return Line(n, text, Kind.UNKNOWN, source=location)
    return _operation(n, text, body, match, location)


def _operation(
    n: int, text: str, body: str, match: re.Match[str], location: Location | None
) -> Line:
    name = match["quoted"] or match["name"]
    rest = body[match.end() :]
    certain = match["results"] or match["quoted"] or "." in name or name in ("module", "func")
    if not certain and name not in ("return", "call", "br", "cond_br"):
        return Line(n, text, Kind.UNKNOWN, source=location)
    if '"' in rest:
        rest = _STRING.sub('""', rest)
    defs: list[str] = []
    if match["results"]:
        for value, count in _RESULT.findall(match["results"]):
            result_count = int(count or 1)
            defs += [f"{value}#{i}" for i in range(result_count)] if count else [value]
    if _FUNCTION.fullmatch(name):
        arguments = tuple(dict.fromkeys(_ARGUMENT.findall(rest)))
        symbol = _SYMBOL.search(body)
        label = (symbol[1] or symbol[2]) if symbol else None
        return Line(n, text, Kind.INSTRUCTION, name, name, arguments, (), location, label)
    bound: list[str] = []
    if "=" in rest and "%" in rest:
        bound = _BOUND.findall(rest)
    skipped = set(bound)
    uses = dict.fromkeys(v for v in _VALUE.findall(rest) if v not in skipped)
    targets: tuple[str, ...] = ()
    if "^" in rest:
        targets = tuple(_BLOCK.findall(rest))
    if "@" in rest and _CALLS.fullmatch(name):
        targets += tuple(a or b for a, b in _SYMBOL.findall(rest))
    return Line(
        n,
        text,
        Kind.INSTRUCTION,
        name,
        name,
        tuple(dict.fromkeys(defs + bound)),
        tuple(uses),
        location,
        None,
        targets,
    )


def _functions(lines: Sequence[Line]) -> tuple[Function, ...]:
    """Functions with a body, from their own line to the ``}`` that ends them."""
    out: list[Function] = []
    opened: list[tuple[str, int, bool] | None] = []
    for line in lines:
        bare = line.text.strip()
        closes = bare[:1] == "}"
        if closes and opened and _without_location(bare)[-1:] != "{":
            opening = opened.pop()
            if opening:
                out.append(Function(opening[0], opening[1], line.n, opening[2]))
        elif bare[-1:] == "{" and not closes and line.kind is not Kind.COMMENT:
            is_function = line.base is not None and _FUNCTION.fullmatch(line.base)
            opened.append(
                (line.label or "", line.n, " private " not in bare) if is_function else None
            )
    out += [
        Function(unclosed[0], unclosed[1], len(lines), unclosed[2])
        for unclosed in opened
        if unclosed
    ]
    return tuple(sorted(out, key=lambda f: f.first))


def _without_location(bare: str) -> str:
    return bare[: bare.rfind("loc(")].rstrip() if bare.endswith(")") and "loc(" in bare else bare
