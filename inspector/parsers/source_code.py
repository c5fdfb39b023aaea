"""Python (the user's source and Inductor's ``output_code``) and CUDA C++, line by line.

Lines are classified by a scanner of strings and comments instead of ``ast``, which needs a whole
valid program of this interpreter's version and takes 50 times the text's memory.
"""

import keyword
import re
from collections.abc import Sequence
from typing import NamedTuple

from inspector.base.names import words
from inspector.base.stage import Location
from inspector.parsers.line import Function, Kind, Line, Listing, code_of

_PIECE = re.compile(r"#.*+|(?P<prefix>[A-Za-z]{0,2})(?P<quote>\"\"\"|'''|\"|')", re.DOTALL)
_REST = {
    '"': re.compile(r'(?:[^"\\]|\\.)*+"', re.DOTALL),
    "'": re.compile(r"(?:[^'\\]|\\.)*+'", re.DOTALL),
    # Unrolled: re of Python 3.11.2 does not go back from an alternative that fails within ()*+.
    '"""': re.compile(r'[^"\\]*(?:(?:\\.|(?!""")")[^"\\]*)*"""', re.DOTALL),
    "'''": re.compile(r"[^'\\]*(?:(?:\\.|(?!''')')[^'\\]*)*'''", re.DOTALL),
}
_NAME = re.compile(r"(?<![\w.])[^\W\d]\w*+")
_CALL = re.compile(r"((?<![\w.])[^\W\d]\w*+(?:\.[^\W\d]\w*+)*+)\s*+(?:\[[^\[\]()]*+\])?\s*+\(")
_TARGETS = re.compile(
    r"\s*+((?:[\w.,*\[\] \t()]|'|\")*+)(?::[^=]*+)?(?:[-+*/%@&|^]|//|\*\*|>>|<<)?=(?!=)"
)
_AUGMENTED = re.compile(r"\s*+[\w.\[\]]++\s*+(?:[-+*/%@&|^]|//|\*\*|>>|<<)=")
_KEYWORD_ARGUMENT = re.compile(r"[(,]\s*+([^\W\d]\w*+)\s*+=(?!=)")
_DEF = re.compile(r"([ \t]*+)(?:async\s++)?def\s++([^\W\d]\w*+)")
_FOR = re.compile(r"\bfor\s++([\w, ()]++)")
_FIRST = re.compile(r"\s*+(@?)(\w*+)")
_KEYWORDS = frozenset(keyword.kwlist)
_STATEMENTS = _KEYWORDS - {"None", "True", "False", "not", "lambda", "await"}


class PythonState(NamedTuple):
    """``quote``: the string that a line begins in; ``depth``: its open brackets."""

    quote: str = ""
    depth: int = 0
    joined: bool = False
    """The line before ended with a backslash."""


def parse_python(text: str, path: str | None = None, language: str = "source") -> Listing:
    """The listing of a Python text; with ``path``, code lines have themselves as ``source``.

    ``base`` is the statement's keyword, else what is called first on the line (``tl.load``),
    else ``=``. Names assigned are ``defs``, names read ``uses`` (attributes are not names).
    """
    state = PythonState()
    lines: list[Line] = []
    states: list[PythonState] = []
    for n, line_text in enumerate(text.split("\n"), 1):
        states.append(state)
        code, state, comment = _scan(line_text, state)
        lines.append(_line(n, line_text, code, states[-1], comment, path))
    return Listing(language, lines, _functions(lines, states))


def _line(
    n: int, text: str, code: str | None, state_before: PythonState, comment: bool, path: str | None
) -> Line:
    if not text or text.isspace():
        return Line(n, text, Kind.BLANK)
    source = Location(path, n) if path is not None else None
    if code is None or "\0" in text:
        return Line(n, text, Kind.UNKNOWN, source=source)
    if comment and not code.strip() and not state_before.quote:
        return Line(n, text, Kind.COMMENT)
    if state_before.quote and not code.strip():
        return Line(n, text, Kind.INSTRUCTION, source=source)
    base, defs, uses = _read_statement(code, state_before.depth > 0 or state_before.joined)
    return Line(n, text, Kind.INSTRUCTION, base, base, defs, uses, source)


def _scan(text: str, state: PythonState) -> tuple[str | None, PythonState, bool]:
    """A line's code with its strings emptied, the state after it, and whether it has a comment.

    The code is None if a string does not end on the line although it must.
    """
    parts: list[str] = []
    position = 0
    quote, depth, _ = state
    if quote:
        match = _REST[quote].match(text)
        if match is None:
            return "", state, False
        parts.append('""')
        position = match.end()
    comment = False
    while piece := _PIECE.search(text, position):
        parts.append(text[position : piece.start()])
        delimiter = piece["quote"]
        if delimiter is None:
            comment = True
            position = len(text)
            break
        closing = _REST[delimiter].match(text, piece.end())
        if closing is None:
            if len(delimiter) == 3 or text.rstrip("\r").endswith("\\"):
                code = "".join(parts)
                return code + '""', PythonState(delimiter, _depth(code, depth)), comment
            return None, PythonState("", depth), comment
        parts.append('""')
        position = closing.end()
    parts.append(text[position:])
    code = "".join(parts)
    joined = code.rstrip("\r")[-1:] == "\\"
    return code, PythonState("", _depth(code, depth), joined), comment


def _depth(code: str, depth: int) -> int:
    return max(0, depth + sum(code.count(c) for c in "([{") - sum(code.count(c) for c in ")]}"))


def _read_statement(
    code: str, continued: bool
) -> tuple[str | None, tuple[str, ...], tuple[str, ...]]:
    """The statement's keyword or callee, the names assigned, and the names read."""
    code = code[:65536]  # a longer line is data
    base = None if continued else _statement_keyword(code)
    defs: list[str] = []
    read_text = code
    if base in ("import", "from"):
        return base, tuple(dict.fromkeys(_names(code.rpartition("import")[2]))), ()
    if base in ("def", "class"):
        defs = [n for n in _NAME.findall(code)[1:2] if n not in _KEYWORDS]
        read_text = code[code.find("(") :] if "(" in code else ""
    elif base is None and not continued:
        base, defs, read_text = _read_assignment(code)
    if loop := _FOR.search(code):
        variables, _, _ = loop[1].partition(" in ")
        defs += _NAME.findall(variables)
    if base in (None, "=", "return"):
        call = _CALL.search(read_text)
        if call and call[1] not in _KEYWORDS:
            base = call[1]
    uses = _names_read(read_text)
    if loop:
        for name in defs:
            uses.pop(name, None)
    return base, tuple(dict.fromkeys(defs)), tuple(uses)


def _names(code: str) -> list[str]:
    return [name for name in _NAME.findall(code) if name not in _KEYWORDS]


def _names_read(code: str) -> dict[str, None]:
    """The names in code, but keywords and those of keyword arguments."""
    skipped = _KEYWORDS.union(_KEYWORD_ARGUMENT.findall(code)) if "=" in code else _KEYWORDS
    return dict.fromkeys(name for name in _NAME.findall(code) if name not in skipped)


def _statement_keyword(code: str) -> str | None:
    """``@`` of a decorator, the keyword that a statement begins with, or None."""
    first = _FIRST.match(code)
    if first is None:
        return None
    if first[1]:
        return "@"
    return first[2] if first[2] in _STATEMENTS else None


def _read_assignment(code: str) -> tuple[str | None, list[str], str]:
    """``=`` if the code assigns anything, the names that it assigns, and the code that it reads."""
    assigned = _TARGETS.match(code)
    if assigned is None or "(" in assigned[1].lstrip(" \t("):
        return None, [], code
    if "[" in assigned[1] or "." in assigned[1]:
        return "=", [], code
    read_text = code if _AUGMENTED.match(code) else code[assigned.end() :]
    return "=", _names(assigned[1]), read_text


class _OpenFunction(NamedTuple):
    """A function whose end was not read yet."""

    name: str
    first: int
    indent: int


def _functions(lines: Sequence[Line], states: Sequence[PythonState]) -> tuple[Function, ...]:
    """Functions and methods that are not nested in others, from their decorators on."""
    out: list[Function] = []
    open_function: _OpenFunction | None = None
    decorated = 0
    last = 0
    for line, state_before in zip(lines, states, strict=True):
        n = line.n
        text = line.text
        stripped = text.strip()
        if state_before.quote or state_before.depth or state_before.joined:
            last = n if stripped else last
            continue
        if not stripped or stripped[0] == "#":
            continue
        indent = len(text) - len(text.lstrip())
        if open_function and indent <= open_function.indent:
            out.append(Function(open_function.name, open_function.first, last))
            open_function = None
        if not open_function:
            if match := _DEF.match(text):
                open_function = _OpenFunction(match[2], decorated or n, indent)
            decorated = (decorated or n) if stripped[0] == "@" else 0
        last = n
    if open_function:
        out.append(Function(open_function.name, open_function.first, last))
    return tuple(out)


_CUDA_PIECE = re.compile(r"//|/\*|(?:u8|[LuU])?R\"([^()\\\s]{0,16})\(|\"|'", re.DOTALL)
_CUDA_CALL = re.compile(r"(?<![\w.>:])([A-Za-z_]\w*+(?:::\w++)*+)\s*+(?:<<<|\()")
_FUNCTION = re.compile(r"\b(__global__|__device__)\b")
_FUNCTION_NAME = re.compile(r"(?<!\w)([A-Za-z_]\w*+)\s*+\(")
_ATTRIBUTES = words(
    "__launch_bounds__ __attribute__ __declspec alignas noexcept __maxnreg__ __cluster_dims__ "
    "__block_size__"
)
_CUDA_KEYWORDS = words("if else for while do switch case return break continue goto")
_CUDA_FIRST = re.compile(r"\s*+\}?\s*+([A-Za-z_]\w*+)")


ENDINGS = words("cu cuh cpp cc cxx c h hpp hh inl")
"""File name endings of sources in C++; any other source is Python."""


def is_cuda(path: str | None) -> bool:
    """Whether a source file's name says C++ rather than Python."""
    return (path or "").rpartition(".")[2].lower() in ENDINGS


class CudaState(NamedTuple):
    """State at a line's start: the end to look for (``*/``, a raw string's), a joined directive."""

    until: str = ""
    directive: bool = False


def parse_cuda(text: str, path: str | None = None) -> Listing:
    """The listing of a C++ text; with ``path``, code lines have themselves as ``source``.

    ``base`` is the statement's keyword, else what is called first on the line.
    """
    state = CudaState()
    lines: list[Line] = []
    codes: list[str] = []
    for n, line_text in enumerate(text.split("\n"), 1):
        state_before = state
        code, state = _cuda_scan(line_text, state_before)
        lines.append(_cuda_line(n, line_text, code, state_before, path))
        codes.append("" if state_before.directive or code.lstrip()[:1] == "#" else code)
    return Listing("source", lines, _cuda_functions(codes))


def _cuda_line(n: int, text: str, code: str, state_before: CudaState, path: str | None) -> Line:
    stripped = code.strip()
    if not text or text.isspace():
        return Line(n, text, Kind.BLANK if state_before.until != "*/" else Kind.COMMENT)
    if state_before.directive or stripped[:1] == "#":
        return Line(n, text, Kind.DIRECTIVE)
    source = Location(path, n) if path is not None else None
    if not stripped:
        inside = state_before.until not in ("", "*/")
        kind = Kind.INSTRUCTION if inside else Kind.COMMENT
        return Line(n, text, kind, source=source if inside else None)
    if "\0" in stripped:
        return Line(n, text, Kind.UNKNOWN, source=source)
    first = _CUDA_FIRST.match(stripped)
    base = first[1] if first and first[1] in _CUDA_KEYWORDS else None
    if base in (None, "return"):
        call = _CUDA_CALL.search(stripped[:65536])
        base = call[1] if call and call[1] not in _CUDA_KEYWORDS else base
    return Line(n, text, Kind.INSTRUCTION, base, base, source=source)


def _cuda_functions(codes: Sequence[str]) -> tuple[Function, ...]:
    """``__global__`` and ``__device__`` functions with a body, in code without directives."""
    out: list[Function] = []
    header = ""
    first = 0
    depth = 0
    name = ""
    entry = False
    for n, code in enumerate(codes, 1):
        if not first and (match := _FUNCTION.search(code)):
            first = n
            header = ""
            entry = match[1] == "__global__"
        if not first:
            continue
        if not name:
            header = (header + " " + code)[:65536]
            ends = [p for p in (header.find("{"), header.find(";")) if p >= 0]
            if not ends:
                continue
            if header[min(ends)] == ";":
                first = 0
                continue
            names = _FUNCTION_NAME.findall(header[: min(ends)])
            name = next((x for x in names if x not in _ATTRIBUTES), "?")
        depth += code.count("{") - code.count("}")
        if depth <= 0:
            out.append(Function(name, first, n, entry))
            first = 0
            depth = 0
            name = ""
    if first and name:
        out.append(Function(name, first, len(codes), entry))
    return tuple(out)


def _cuda_scan(text: str, state: CudaState) -> tuple[str, CudaState]:
    """The code of a line without comments and with its strings emptied, and the state after it."""
    code, until = code_of(text, state.until, _CUDA_PIECE)
    begun = state.directive or code.lstrip()[:1] == "#"
    return code, CudaState(until, not until and begun and text.rstrip("\r")[-1:] == "\\")
