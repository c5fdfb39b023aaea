"""Inductor's texts: graphs of torch.fx, and the calls and buffers of ``output_code``.

Above the nodes that came of a line of the user's, ``print_readable`` writes which it is::

    # File: /home/me/model.py:9 in forward, code: y = torch.sin(x) * x
    sin: "f32[64, 256][256, 1]cuda:0" = torch.ops.aten.sin.default(primals_1)

``output_code`` is read line by line with plain patterns; it is never executed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from inspector.base.stage import Location
from inspector.listing.line import Kind, Line, Listing

_FILE = re.compile(
    r"\s*+# (?:Annotation: .{0,4096}? )?(?:Backward of forward node: )?"
    r"File: (.{1,4096}?):(\d{1,9}) in "
)
_NODE = re.compile(r"\s++(\w{1,400})(?:: ?\"[^\"\n]*\")? = (.*)")
_CALL = re.compile(r"([A-Za-z_][\w.]{0,400})\(")
_QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w{0,400}(?![\w(.=])")
_WORDS = frozenset(("None", "True", "False"))


def parse_fx(text: str, language: str) -> Listing:
    """Parse a printed graph; a node's line has the user's line as ``source``."""
    place: Location | None = None
    lines: list[Line] = []
    for n, each in enumerate(text.split("\n"), 1):
        place = _place(each, place)
        lines.append(_line(n, each, place))
    return Listing(language, lines)


def parse_plain(text: str, language: str) -> Listing:
    lines = [
        Line(n, each, Kind.UNKNOWN if each.strip() else Kind.BLANK)
        for n, each in enumerate(text.split("\n"), 1)
    ]
    return Listing(language, lines)


def _place(text: str, before: Location | None) -> Location | None:
    bare = text.lstrip()
    if not bare.startswith("#"):
        # The function's own line, and what it returns, came of no line of the user's.
        return None if bare.startswith(("def ", "class ", "return ")) else before
    if match := _FILE.match(text):
        return Location(match[1], int(match[2]))
    return None if bare.startswith("# No stacktrace") else before


def _line(n: int, text: str, place: Location | None) -> Line:
    bare = text.strip()
    if not bare:
        return Line(n, text, Kind.BLANK)
    if bare.startswith("#"):
        return Line(n, text, Kind.COMMENT)
    match = _NODE.match(text.rstrip("\r"))
    if match is None:
        return Line(n, text, Kind.INSTRUCTION, *_opcode(bare))
    right = match[2].partition(";")[0]
    names = _NAME.findall(_QUOTED.sub("", right))
    uses = tuple(dict.fromkeys(name for name in names if name not in _WORDS))
    return Line(n, text, Kind.INSTRUCTION, *_opcode(right), (match[1],), uses, place)


def _opcode(text: str) -> tuple[str | None, str | None]:
    """What is called: its last word but the overload's, and the whole."""
    match = _CALL.match(text)
    if match is None:
        return None, None
    name = match[1].removeprefix("torch.ops.")
    return name.removeprefix("aten.").partition(".")[0], name


# Patterns without nested repetition: linear on any input.
_DEFINED = re.compile(r"^(\w{1,400}) = async_compile\.(\w+)\(")
_LAUNCHED = re.compile(r"^\s++(\w{1,400})\.run\(")
_CALLED = re.compile(r"^\s++(?:(\w{1,400}) = )?(\w{1,400})\(")
_EXTERN = re.compile(
    r"^\s++(?:([\w, ()]{1,400}) = )?"
    r"(?:extern_kernels\.(\w{1,400})|torch\.ops\.(\w{1,100})\.(\w{1,400})(?:\.\w{1,100})?"
    r"|(aten|prims)\.(\w{1,400})(?:\.\w{1,100})?)\("
)
_COMMENT = re.compile(r"^\s*# (?:Topologically Sorted|Unsorted) Source Nodes: \[")
_ATEN = "], Original ATen: ["
_ALLOCATED = re.compile(
    r"^\s++(\w{1,400}) = empty_strided\w{0,40}"
    r"\(\(([^()]{0,2000})\), \(([^()]{0,2000})\), (.{0,200})"
)
_DTYPE = re.compile(r"\btorch\.(\w{1,40})")
_REUSED = re.compile(r"^\s++(\w{1,400}) = (?:reinterpret_tensor\()?(\w{1,400})\b.{0,4000}# reuse")
_POOLED = re.compile(r"^\s++(\w{1,400}) = alloc_from_pool\((\w{1,400})\b")
_OUT = re.compile(r"\bout=(?:reinterpret_tensor\()?(\w{1,400})")
_WORD = re.compile(r"[A-Za-z_]\w{0,399}")


@dataclass(frozen=True, slots=True)
class WrapperCall:
    """A line that launches a kernel or calls an operator of a library.

    ``name`` is the kernel's, or the operator's without ``aten`` before it. ``words`` are the names
    on the line, ``made`` those that it may write: of a kernel all, of a library's operator what it
    is assigned to. ``sources`` are the nodes of Dynamo's graph and ``operators`` ATen's operators
    that Inductor's comment above it has.
    """

    n: int
    name: str
    extern: bool
    words: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WrapperBuffer:
    """A buffer that the wrapper makes: new memory, or that of ``reuses`` (a buffer, or a pool).

    ``elements`` is how many there are from its first to its last, None where that is known only
    when it runs.
    """

    n: int
    name: str
    dtype: str | None = None
    elements: int | None = None
    reuses: str | None = None


@dataclass(frozen=True, slots=True)
class Wrapper:
    """What the wrapper does, in order."""

    calls: tuple[WrapperCall, ...] = ()
    buffers: tuple[WrapperBuffer, ...] = ()


def extern_name(namespace: str | None, name: str) -> str:
    """What a library's operator is called: of ATen by its name alone."""
    return name if namespace in (None, "aten") else f"{namespace}.{name}"


def extern_called(line: str) -> str | None:
    """The operator of a library that a line of the wrapper calls."""
    match = _EXTERN.match(line)
    if match is None:
        return None
    return match[2] or extern_name(match[3] or match[5], match[4] or match[6])


def parse_wrapper(lines: Sequence[str]) -> Wrapper:
    """Read one graph's ``output_code``. Never raises."""
    calls: list[WrapperCall] = []
    buffers: dict[str, WrapperBuffer] = {}
    defined: set[str] = set()
    sources: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    quoted = False
    for n, line in enumerate(lines, 1):
        if quoted:
            quoted = not line.startswith("'''")
            continue
        if match := _DEFINED.match(line):
            defined.add(match[1])
            quoted = line.count("'''") == 1
        elif match := _COMMENT.match(line):
            names, _, atens = line[match.end() :].partition(_ATEN)
            sources, operators = _listed(names), _listed(atens.rpartition("]")[0])
        elif (buffer := _buffer(n, line, buffers)) is not None:
            buffers[buffer.name] = buffer
        elif (called := _called(line, defined)) is not None:
            words = tuple(dict.fromkeys(_WORD.findall(line)))
            made = _made(line) if called[1] else words
            calls.append(WrapperCall(n, *called, words, made, sources, operators))
            sources = operators = ()
    return Wrapper(tuple(calls), tuple(buffers.values()))


def _called(line: str, defined: set[str]) -> tuple[str, bool] | None:
    if match := _LAUNCHED.match(line):
        return (match[1], False) if match[1] in defined else None
    if (name := extern_called(line)) is not None:
        return name, True
    match = _CALLED.match(line)
    return (match[2], False) if match and match[2] in defined else None


def _made(line: str) -> tuple[str, ...]:
    """What a library's operator gives: names before ``=``, and those after ``out=``."""
    head, is_assigned, _ = line.partition("(")[0].partition(" = ")
    out = _WORD.findall(head) if is_assigned else []
    return tuple(dict.fromkeys((*out, *_OUT.findall(line))))


def _buffer(n: int, line: str, earlier: dict[str, WrapperBuffer]) -> WrapperBuffer | None:
    if match := _ALLOCATED.match(line):
        dtype = _DTYPE.search(match[4])
        name = None if dtype is None else dtype[1]
        return WrapperBuffer(n, match[1], name, _elements(match[2], match[3]))
    if match := _REUSED.match(line):
        of = earlier.get(match[2])
        known = (None, None) if of is None else (of.dtype, of.elements)
        return WrapperBuffer(n, match[1], *known, match[2])
    if match := _POOLED.match(line):
        return WrapperBuffer(n, match[1], reuses=match[2])
    return None


def _elements(shape: str, strides: str) -> int | None:
    parts = [*_listed(shape), *_listed(strides)]
    if len(_listed(shape)) != len(_listed(strides)) or not all(
        p.isascii() and p.isdecimal() and len(p) < 19 for p in parts
    ):
        return None
    sizes, steps = map(int, _listed(shape)), map(int, _listed(strides))
    spans = list(zip(sizes, steps, strict=True))
    empty = any(size == 0 for size, _ in spans)
    return 0 if empty else 1 + sum((size - 1) * step for size, step in spans)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(word for part in text.split(",") if (word := part.strip()))
