"""MLIR text: Triton's TTIR and TTGIR, and any other dialect as it is printed."""

import re

from inspector.base.budget import Budget
from inspector.base.stage import MAX_FRAMES, Location
from inspector.parsers.line import Function, Kind, Line, Listing, unescape

# MLIR locations: ``loc(...)`` and the ``#loc`` aliases, wherever those are defined.
#
# MLIR Language Reference, "Builtin Dialect", location attributes: FileLineColLoc, NameLoc,
# CallSiteLoc, FusedLoc, OpaqueLoc, UnknownLoc.

_ALIAS_LINE = re.compile(r"\s*(#[\w$.\-]++)\s*=\s*loc\(")
_TOKEN = re.compile(
    r'\s*+(?:"(?P<string>(?:[^"\\]|\\.)*+)"|(?P<alias>#[\w$.\-]++)|'
    r"(?P<word>callsite|fused|unknown|at|to)\b|(?P<number>\d++)|(?P<mark>.))",
    re.DOTALL,
)
_START = re.compile(r"(?<![\w.$\"])loc\(")
_ESCAPE = re.compile(r'\\(?:([0-9A-Fa-f]{2})|([nt"\\]))')
MAX_DEPTH = 64
MAX_CHAINED_FRAMES = 1 << 22
"""Frames of one text that are copied to be chained to call sites: about 300 MB."""


class Aliases:
    """The ``#loc`` aliases of one text by name, resolved on request."""

    def __init__(self, texts: list[str]) -> None:
        self._where: dict[str, str] = {}
        self._done: dict[str, Location | None] = {}
        self._budget = Budget(MAX_CHAINED_FRAMES)
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
        location = self._done[name] = _Reader(self._where[name], self).location(depth + 1)
        return location

    def chain(self, callee: Location | None, caller: Location | None) -> Location | None:
        """The location of a callee that was inlined at a call site.

        A call site may be in the chain of many locations, and of one many times: the frames of
        one location are bounded, and the frames of all.
        """
        if callee is None or caller is None:
            return callee or caller
        inner = callee.frames()
        outer = caller.frames()
        location: Location | None = caller
        if len(inner) + len(outer) > MAX_FRAMES:
            inner = (*inner, *outer)[:MAX_FRAMES]
            location = None
        if not self._budget.take(len(inner)):
            return callee
        for frame in reversed(inner):
            location = Location(frame.file, frame.line, frame.column, location)
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
                alias = inside.rstrip(" \t\r),:{")
                if alias in self._done and alias[:1] == "#":
                    return self._done[alias], start
                reader = _Reader(inside, self)
                location = reader.location()
                if not inside[reader.token_start :].strip(" \t\r),:{"):
                    return location, start
            end = start
        return None, -1


class _Reader:
    """Recursive descent over one location attribute; unknown syntax means "no location".

    ``kind`` and ``value`` are the next token's, "" at the end; it begins at ``token_start``.
    """

    def __init__(self, text: str, aliases: Aliases) -> None:
        self.text = text
        self.aliases = aliases
        self.token_end = 0
        self.next()

    def next(self) -> None:
        self.token_start = self.token_end
        match = _TOKEN.match(self.text, self.token_end)
        self.token_end = match.end() if match else len(self.text)
        self.kind = (match.lastgroup or "") if match else ""
        self.value: str = match[self.kind] if match else ""

    def skip(self, value: str) -> bool:
        """Go past the token if it is this word or mark."""
        is_match = self.kind in ("word", "mark") and self.value == value
        if is_match:
            self.next()
        return is_match

    def location(self, depth: int = 0) -> Location | None:
        if depth > MAX_DEPTH:
            self.token_end = len(self.text)
            self.next()
            return None
        kind = self.kind
        value = self.value
        self.next()
        if kind == "alias":
            return self.aliases.get(value, depth)
        if kind == "string":
            return self._file_or_name(value, depth)
        if value == "callsite" and self.skip("("):
            callee = self.location(depth + 1)
            if not self.skip("at"):
                return callee
            caller = self.location(depth + 1)
            self.skip(")")
            return self.aliases.chain(callee, caller)
        return self._fused(depth) if value == "fused" else None

    def _file_or_name(self, text: str, depth: int) -> Location | None:
        if self.skip("("):
            child = self.location(depth + 1)
            self.skip(")")
            return child
        if not self.skip(":"):
            return None
        line = self._number()
        column = self._number() if self.skip(":") else 0
        if self.skip("to"):  # a range: where it ends is not kept
            while self.kind == "number" or self.value in ("to", ":"):
                self.next()
        return Location(unescape(text, _ESCAPE, 16), line, column) if line else None

    def _number(self) -> int:
        if self.kind != "number":
            return 0
        value = int(self.value) if len(self.value) < 19 else 0
        self.next()
        return value

    def _fused(self, depth: int) -> Location | None:
        opened = int(self.skip("<"))
        while opened and self.kind:
            opened += (self.value == "<") - (self.value == ">")
            self.next()
        if not self.skip("["):
            return None
        first: Location | None = None
        while self.kind and self.value != "]":
            part = self.location(depth + 1)
            first = first or part
            if not self.skip(","):
                break
        self.skip("]")
        return first


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
    functions: list[Function] = []

    def close(last: int) -> Line:
        """The line that opened the innermost region, which ends on line ``last``."""
        opener = lines[opened.pop()]
        if opener.base is not None and _FUNCTION.fullmatch(opener.base):
            private = " private " in opener.text
            functions.append(Function(opener.label or "", opener.n, last, not private))
        return opener

    for n, line_text in enumerate(texts, 1):
        location, start = aliases.trailing(line_text) if "loc(" in line_text else (None, -1)
        body = (line_text[:start] if start >= 0 else line_text).strip()
        if body[:1] == "}" and body[-1:] != "{" and opened:
            # unless another region begins, the location after ``}`` is the operation's
            opener = close(n)
            if location is not None and opener.source is None:
                lines[opener.n - 1] = opener._replace(source=location)
        line = _line(n, line_text, body, location)
        lines.append(line)
        if body[-1:] == "{" and body[:1] != "}" and line.kind is not Kind.COMMENT:
            opened.append(n - 1)
    while opened:
        close(len(lines))
    return Listing(language, lines, tuple(sorted(functions, key=lambda f: f.first)))


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
    operands_text = body[match.end() :]
    if not _is_operation(match, name):
        return Line(n, text, Kind.UNKNOWN, source=location)
    if '"' in operands_text:
        operands_text = _STRING.sub('""', operands_text)
    if _FUNCTION.fullmatch(name):
        arguments = tuple(dict.fromkeys(_ARGUMENT.findall(operands_text)))
        symbol = _SYMBOL.search(body)
        label = (symbol[1] or symbol[2]) if symbol else None
        return Line(n, text, Kind.INSTRUCTION, name, name, arguments, (), location, label)
    bound = dict.fromkeys(
        _BOUND.findall(operands_text) if "=" in operands_text and "%" in operands_text else ()
    )
    uses = tuple(dict.fromkeys(v for v in _VALUE.findall(operands_text) if v not in bound))
    targets = tuple(_BLOCK.findall(operands_text) if "^" in operands_text else ())
    if "@" in operands_text and _CALLS.fullmatch(name):
        targets += tuple(a or b for a, b in _SYMBOL.findall(operands_text))
    all_defs = tuple(dict.fromkeys((*_results(match), *bound)))
    return Line(n, text, Kind.INSTRUCTION, name, name, all_defs, uses, location, None, targets)


def _is_operation(match: re.Match[str], name: str) -> bool:
    """Whether a line is an operation, rather than text that begins like one."""
    if match["results"] or match["quoted"] or "." in name:
        return True
    return name in ("module", "func", "return", "call", "br", "cond_br")


def _results(operation: re.Match[str]) -> list[str]:
    """The values that an operation gives, each of ``%0:2`` by itself."""
    values: list[str] = []
    if operation["results"]:
        for value, count in _RESULT.findall(operation["results"]):
            values += [f"{value}#{i}" for i in range(int(count))] if count else [value]
    return values
