"""The kernels that CUDA C++ source defines: their names, and their parameters' names and types.

A reader of declarations, not a compiler: headers that it cannot read for certain (a conditional
within, a function-like macro, a pack of parameters) are marked so. Time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from inspector.text import words

UNNAMED = "(anonymous namespace)"
"""The name of an unnamed namespace, as demanglers print it."""

LONGEST = 8192
"""Tokens of a declaration that are looked at."""

_TOKEN = re.compile(
    r"(?P<directive>^[ \t]*+\#[^\n\\/]*(?:(?:\\\r?\n|\\[^\n]|/\*.*?\*/|/(?!\*))[^\n\\/]*)*)"
    r"|(?P<comment>//(?:[^\n\\]|\\\r?\n|\\)*+|/\*(?:.*?\*/|.*+))"
    r"|(?P<raw>(?:u8|[LuU])?R\"(?P<mark>[^()\\\s]{0,16})\()"
    r"|(?P<text>(?:u8|[LuU])?\"(?:[^\"\\\n]|\\.)*+\"?)"
    r"|'(?:[^'\\\n]|\\.)*+'?"
    r"|(?P<word>[A-Za-z_$][\w$]*+)"
    r"|(?P<number>\.?\d(?:'?[\w.])*+)"
    r"|::|->|\.\.\.|[^\w\s]",
    re.DOTALL | re.MULTILINE,
)
_DIRECTIVE = re.compile(r"\s*#\s*+(\w++)(?:\s++(\w++)(\(?)(.*+))?", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_$]")
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")

_WITH_ARGUMENTS = words(
    "__launch_bounds__ __attribute__ __attribute __declspec alignas __align__ noexcept throw "
    "__maxnreg__ __cluster_dims__ __block_size__ explicit"
)
_IGNORED = words(
    "__restrict__ __restrict restrict __grid_constant__ register struct class union enum typename "
    "__extension__"
)
_QUALIFIERS = words("const volatile")
_INTEGER = words("unsigned signed short long int char")
_PLAIN = words("void bool float double wchar_t char8_t char16_t char32_t auto __int128 __nv_bool")
_STANDARD = {
    "size_t": "unsigned long", "ptrdiff_t": "long", "ssize_t": "long", "intptr_t": "long",
    "uintptr_t": "unsigned long", "int8_t": "signed char", "uint8_t": "unsigned char",
    "int16_t": "short", "uint16_t": "unsigned short", "int32_t": "int",
    "uint32_t": "unsigned int", "int64_t": "long", "uint64_t": "unsigned long",
}  # fmt: skip
"""Types on 64-bit Linux, on which every recording is made."""
_BYTES = {
    "bool": 1, "char": 1, "signed char": 1, "unsigned char": 1, "short": 2, "unsigned short": 2,
    "int": 4, "unsigned int": 4, "long": 8, "unsigned long": 8, "long long": 8,
    "unsigned long long": 8, "float": 4, "double": 8,
}  # fmt: skip

Operators = tuple[tuple[str, frozenset[str]], ...]


@dataclass(frozen=True, slots=True)
class Type:
    """A type: ``base``, its qualifiers, and the operators behind it (``*``, ``&``) in order.

    ``base`` has one spelling if the language defines it (``unsigned int``), else it is as written.
    ``complex`` is a pointer to a function or an array, not described further; ``unknown`` a type
    with a macro in it.
    """

    base: str
    qualifiers: frozenset[str] = frozenset()
    operators: Operators = ()
    complex: bool = False
    unknown: bool = False

    @property
    def fundamental(self) -> bool:
        return self.base in _BYTES or self.base in _PLAIN or self.base == "long double"

    @property
    def size(self) -> int | None:
        """Bytes of the type; None if they are not known."""
        if self.unknown:
            return None
        if self.complex or self.operators:
            return 8
        return _BYTES.get(self.base)


@dataclass(frozen=True, slots=True)
class Named:
    """A parameter as its source has it; ``name`` is None if it has none."""

    name: str | None
    type: Type


@dataclass(frozen=True, slots=True)
class Signature:
    """The header of a ``__global__`` function that has a body.

    ``path`` is its name with its namespaces. ``certain``: the compiler saw the same ``parameters``,
    whatever its macros are.
    """

    path: tuple[str, ...]
    parameters: tuple[Named, ...]
    template: bool = False
    c_linkage: bool = False
    certain: bool = True
    own: frozenset[str] = frozenset()
    """Words of its template header: these names have their own meaning in the header."""


@dataclass(frozen=True, slots=True)
class Signatures:
    """The kernels of a source, with the aliases and classes that it defines."""

    kernels: tuple[Signature, ...] = ()
    aliases: Mapping[str, Type | None] | None = None
    classes: frozenset[str] = frozenset()


# -- the text ---------------------------------------------------------------------------------


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Kind (``directive``, ``text``, ``word`` or nothing) and letters of each token."""
    position = 0
    while token := _TOKEN.search(text, position):
        position = token.end()
        kind = token.lastgroup or ""
        if kind == "comment":
            continue
        if token["raw"] is not None:
            end = text.find(f'){token["mark"]}"', position)
            position = len(text) if end < 0 else end + len(token["mark"]) + 2
            yield "text", '""'
        else:
            yield kind, token[0]


_Scope = tuple["_Scope | None", str, tuple[str, ...]]
_CONDITIONAL = words("if ifdef ifndef elif elifdef elifndef else endif")


class _Reader:
    """Declarations outside of bodies, one after the other."""

    def __init__(self) -> None:
        self.scope: _Scope | None = None
        self.nest = 0
        self.declaration: list[str] = []
        self.tainted = False
        self.conditions: list[list[tuple[_Scope | None, int] | None]] = []
        self.macros: dict[str, bool] = {}
        self.headers: list[tuple[list[str], tuple[str, ...] | None, bool, bool]] = []
        self.aliases: dict[str, list[str] | None] = {}
        self.classes: set[str] = set()

    def read(self, text: str) -> Signatures:
        for kind, token in _tokens(text):
            if kind == "directive":
                self.directive(token)
            elif self.scope is not None and self.scope[1] == "body":
                if token == "{":
                    self.scope = (self.scope, "body", ())
                elif token == "}":
                    self.scope = self.scope[0]
            else:
                self.outside(kind, token)
        aliases = {
            name: _type(tokens, self.macros) if tokens else None
            for name, tokens in self.aliases.items()
        }
        kernels = [
            signature
            for header in self.headers
            if (signature := _signature(*header, self.macros)) is not None
        ]
        return Signatures(tuple(kernels), aliases, frozenset(self.classes))

    def outside(self, kind: str, token: str) -> None:
        if self.nest == 0 and token in ("{", "}", ";") and kind == "":
            if token == "{":
                self.begin()
            elif token == "}":
                self.scope = self.scope[0] if self.scope is not None else None
            else:
                self.alias()
            self.declaration, self.tainted = [], False
            return
        if token in _OPEN:
            self.nest += 1
        elif token in _CLOSE and self.nest:
            self.nest -= 1
        if len(self.declaration) < LONGEST:
            self.declaration.append(token)
        else:
            self.tainted = True

    def begin(self) -> None:
        """Enter the scope that a brace after the declaration opens."""
        tokens = self.declaration
        if "__global__" in tokens:
            names: list[str] | None = []
            linkage, scope = False, self.scope
            while scope is not None:
                if scope[1] == "extern":
                    linkage = True
                elif scope[1] == "namespace" and names is not None:
                    names = [*scope[2], *names] if scope[2] else None
                scope = scope[0]
            path = tuple(names) if names is not None else None
            self.headers.append((tokens, path, linkage, self.tainted))
            self.scope = (self.scope, "body", ())
        elif "namespace" in tokens:
            last = len(tokens) - 1 - tokens[::-1].index("namespace")
            self.scope = (self.scope, "namespace", _namespace(tokens[last + 1 :]))
        elif tokens[-2:-1] == ["extern"] and tokens[-1][:1] == '"':
            self.scope = (self.scope, "extern", ())
        else:
            for word, name in pairwise(tokens):
                if word in ("struct", "class", "union", "enum") and _WORD.match(name):
                    self.classes.add(name)
            self.scope = (self.scope, "body", ())

    def alias(self) -> None:
        """Note ``using T = float;`` or ``typedef float T;``; two different meanings cancel out."""
        tokens = self.declaration
        if tokens[:1] == ["using"] and tokens[2:3] == ["="]:
            name, meaning = tokens[1], tokens[3:]
        elif tokens[:1] == ["typedef"] and len(tokens) > 2 and _WORD.match(tokens[-1]):
            name, meaning = tokens[-1], tokens[1:-1]
        else:
            return
        earlier = self.aliases.get(name, meaning)
        self.aliases[name] = meaning if earlier == meaning and not self.tainted else None

    def directive(self, text: str) -> None:
        match = _DIRECTIVE.match(text)
        if match is None:
            return
        word, name = match[1], match[2]
        if word == "define" and name:
            # A macro of words alone can stand for a type, any other for anything.
            plain = not match[3] and all(
                k == "word" or t in ("*", "&", "::") for k, t in _tokens(match[4].strip())
            )
            self.macros[name] = self.macros.get(name, True) and plain
        if word not in _CONDITIONAL:
            return
        self.tainted = self.tainted or bool(self.declaration)
        place = (self.scope, self.nest)
        if word.startswith("if"):
            self.conditions.append([place, None])
        elif self.conditions and word == "endif":
            first = self.conditions.pop()[1]
            if first is not None:
                self.scope, self.nest = first
        elif self.conditions:
            # All branches begin in the same scope; what follows continues after the first one.
            top = self.conditions[-1]
            if top[1] is None:
                top[1] = place
            if top[0] is not None:
                self.scope, self.nest = top[0]


def signatures(text: str) -> Signatures:
    """The kernels that a source in CUDA C++ defines."""
    return _Reader().read(text) if "__global__" in text else Signatures()


def _namespace(tokens: Sequence[str]) -> tuple[str, ...]:
    """The names behind ``namespace``; () if they cannot be determined."""
    plain = _without_attributes(tokens)
    names = [t for t in plain if t not in ("::", "inline")]
    if not names:
        return (UNNAMED,)
    return tuple(names) if all(_WORD.match(n) for n in names) else ()


# -- a header ---------------------------------------------------------------------------------


def _signature(
    tokens: Sequence[str],
    namespaces: tuple[str, ...] | None,
    linkage: bool,
    tainted: bool,
    macros: Mapping[str, bool],
) -> Signature | None:
    """The signature of a header; None if not even its name can be determined."""
    linkage = linkage or any(a == "extern" and b == '"C"' for a, b in pairwise(tokens))
    bare, template_words, template = _without_templates(_without_attributes(tokens))
    start = next((i for i, t in enumerate(bare) if t == "("), None)
    if start is None:
        return None
    end = _closing(bare, start)
    name = _name_before(bare, start)
    if end is None or not name:
        return None
    path = (*(namespaces or ()), *name)
    certain = namespaces is not None and not tainted and "(" not in bare[end:]
    certain = certain and not any(name in macros for name in path)
    inside = bare[start + 1 : end]
    parts = [] if list(inside) in ([], ["void"]) else _split(inside)
    parameters: list[Named] = []
    for part in parts if certain and parts is not None else ():
        parameter = _parameter(part, macros)
        if parameter is None:
            certain = False
            break
        parameters.append(parameter)
    names = [p.name for p in parameters if p.name]
    certain = certain and parts is not None and len(set(names)) == len(names)
    return Signature(
        path,
        tuple(parameters) if certain else (),
        template,
        linkage,
        certain,
        frozenset(template_words),
    )


def _without_attributes(tokens: Sequence[str]) -> list[str]:
    """Tokens without ``[[…]]``, ``__launch_bounds__(…)`` and other attributes."""
    out: list[str] = []
    i = 0
    while i < len(tokens):
        token = tokens[i]
        following = tokens[i + 1] if i + 1 < len(tokens) else ""
        if token in _WITH_ARGUMENTS or (token == "[" and following == "["):
            begin = i if token == "[" else i + 1
            end = _closing(tokens, begin) if tokens[begin : begin + 1] in (["("], ["["]) else None
            i = end + 1 if end is not None else i + 1
        else:
            out.append(token)
            i += 1
    return out


def _without_templates(tokens: Sequence[str]) -> tuple[list[str], set[str], bool]:
    """Tokens without ``template <…>``, the words in these, and whether there were any."""
    out: list[str] = []
    template_words: set[str] = set()
    template = False
    i = 0
    while i < len(tokens):
        if tokens[i] == "template" and tokens[i + 1 : i + 2] == ["<"]:
            template = True
            end = _closing(tokens, i + 1, angles=True)
            if end is None:
                return [], template_words, True
            template_words |= {t for t in tokens[i + 2 : end] if _WORD.match(t)}
            i = end + 1
        else:
            out.append(tokens[i])
            i += 1
    return out, template_words - _INTEGER - _PLAIN, template


def _closing(tokens: Sequence[str], start: int, angles: bool = False) -> int | None:
    """Index of the bracket that closes the one at ``start``; ``angles``: ``<`` is one, too."""
    depth = corners = 0
    for i in range(start, len(tokens)):
        token = tokens[i]
        if token in _OPEN:
            depth += 1
        elif token in _CLOSE:
            depth -= 1
        elif angles and depth == 0 and token in "<>":
            corners += 1 if token == "<" else -1
        else:
            continue
        if depth == 0 and corners == 0:
            return i
        if depth < 0:
            return None
    return None


def _name_before(tokens: Sequence[str], end: int) -> list[str]:
    """The names of ``ns::f`` in ``void ns::f<float>(``; empty if no name is there."""
    i = end - 1
    if i >= 0 and tokens[i] == ">":
        depth = 0
        while i >= 0:
            depth += (tokens[i] == ">") - (tokens[i] == "<")
            i -= 1
            if depth == 0:
                break
    names: list[str] = []
    while i >= 0 and _WORD.match(tokens[i]):
        names.append(tokens[i])
        if i < 2 or tokens[i - 1] != "::" or not _WORD.match(tokens[i - 2]):
            break
        i -= 2
    return names[::-1]


def _split(tokens: Sequence[str]) -> list[list[str]] | None:
    """The parts between commas; None if brackets do not match."""
    parts: list[list[str]] = [[]]
    depth = corners = 0
    value = False
    for token in tokens:
        if token in _OPEN:
            depth += 1
        elif token in _CLOSE:
            depth -= 1
        elif depth == 0 and token in "<>":
            if value:
                return None  # in a default, "<" may be less-than or begin a template's arguments
            corners += 1 if token == "<" else -1
        elif token == "=" and depth == 0 and corners == 0:
            value = True
        elif token == "," and depth == 0 and corners == 0:
            parts.append([])
            value = False
            continue
        if depth < 0 or corners < 0:
            return None
        if not value:
            parts[-1].append(token)
    return parts if depth == 0 and corners == 0 and all(parts) else None


def _parameter(tokens: Sequence[str], macros: Mapping[str, bool]) -> Named | None:
    """A parameter without its default; None if it cannot be determined."""
    plain = [t for t in tokens if t not in _IGNORED]
    if "..." in plain or not plain:
        return None
    name: str | None = None
    if "(" in plain:
        begin = plain.index("(")
        inner = plain[begin + 1 : _closing(plain, begin) or begin + 1]
        marks = [i for i, t in enumerate(inner) if t in ("*", "&")]
        if not begin or not marks or any(t in macros for t in plain):
            return None
        prefix = inner[: marks[0]]
        if prefix and prefix[-1] != "::":
            return None
        suffix = [t for t in inner[marks[-1] + 1 :] if t not in _QUALIFIERS]
        if suffix and _WORD.match(suffix[0]):
            name = suffix[0]
        return Named(name, Type("", complex=True))
    dimensions = 0
    while plain and plain[-1] == "]":
        opening = len(plain) - 1 - plain[::-1].index("[")
        plain = plain[:opening]
        dimensions += 1
    if not plain or "[" in plain or "]" in plain:
        return None
    last = plain[-1]
    if _WORD.match(last) and last not in _INTEGER | _PLAIN | _QUALIFIERS:
        type_tokens = plain[:-1]
        if type_tokens[-1:] != ["::"] and any(t not in _QUALIFIERS for t in type_tokens):
            name, plain = last, type_tokens
    if name in macros or any(not macros.get(t, True) for t in plain):
        return None
    if dimensions > 1:
        return Named(name, Type("", complex=True))
    type_ = _type(plain, macros, array=dimensions == 1)
    return Named(name, type_) if type_ is not None else None


# -- types ------------------------------------------------------------------------------------


def type_of(text: str) -> Type:
    """A type as a demangler prints it (``float const*``)."""
    return _type([t for _, t in _tokens(text)], {}) or Type("", unknown=True)


def _type(tokens: Sequence[str], macros: Mapping[str, bool], array: bool = False) -> Type | None:
    plain = [t for t in tokens if t not in _IGNORED]
    if not plain:
        return None
    if any(t in macros for t in plain):
        return Type("", unknown=True)
    # c++filt's (anonymous namespace)::S, and template arguments, are part of a name.
    base: list[str] = []
    operators: list[tuple[str, frozenset[str]]] = []
    qualifiers: set[str] = set()
    corners = depth = 0
    for i, token in enumerate(plain):
        corners += (token == "<") - (token == ">")
        if corners == 0 and token == "(" and plain[i + 1 : i + 2] != ["anonymous"]:
            return Type("", complex=True)
        depth += (token == "(") - (token == ")")
        if corners or depth or token not in ("*", "&", *_QUALIFIERS):
            base.append(token)
        elif token in _QUALIFIERS and operators:
            mark, mark_qualifiers = operators[-1]
            operators[-1] = (mark, mark_qualifiers | {token})
        elif token in _QUALIFIERS:
            qualifiers.add(token)
        else:
            operators.append((token, frozenset()))
    if array:
        operators.append(("*", frozenset()))
    if operators:
        operators[-1] = (operators[-1][0], frozenset())
    else:
        qualifiers.clear()
    return Type(_spelled(base), frozenset(qualifiers), tuple(operators))


def _spelled(tokens: Sequence[str]) -> str:
    """``unsigned int`` for ``int unsigned`` and ``unsigned``; a name without spaces."""
    if tokens and all(t in _INTEGER for t in tokens):
        sign = "unsigned " if "unsigned" in tokens else ""
        if "char" in tokens:
            return ("signed " if "signed" in tokens else sign) + "char"
        if "short" in tokens:
            return sign + "short"
        longs = list(tokens).count("long")
        return sign + ("long " * min(longs, 2)).strip() if longs else sign + "int"
    if sorted(tokens) == ["double", "long"]:
        return "long double"
    return _STANDARD.get("".join(tokens).removeprefix("::").removeprefix("std::"), "".join(tokens))


def resolved(type_: Type, source: Signatures, own: Iterable[str] = ()) -> Type:
    """A type with the source's own aliases followed, as far as they are known."""
    aliases = source.aliases or {}
    hidden = frozenset(own)
    for _ in range(8):
        if type_.base not in aliases or type_.base in hidden or type_.complex or type_.unknown:
            break
        meaning = aliases[type_.base]
        if meaning is None or meaning.unknown:
            return Type("", unknown=True)
        if meaning.complex:
            return meaning
        inner, operators = meaning.qualifiers, meaning.operators
        if operators:
            mark, mark_qualifiers = operators[-1]
            behind = (*operators[:-1], (mark, mark_qualifiers | type_.qualifiers), *type_.operators)
        else:
            inner, behind = inner | type_.qualifiers, type_.operators
        if behind and not type_.operators:
            behind = (*behind[:-1], (behind[-1][0], frozenset()))
        type_ = Type(meaning.base, inner if behind else frozenset(), behind)
    return type_
