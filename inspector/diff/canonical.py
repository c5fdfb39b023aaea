"""The canonical form of a function, in which names are replaced by their roles.

A line that has content becomes a ``CanonicalForm``: its ``key`` is the text with every name that a
compiler chose (registers, values, labels) cut out, without comments, addresses, locations and
needless blanks; its ``names`` are those names. Names are numbered in the order in which they first
appear, which is the same for two functions iff one bijection between their names makes the one into
the other.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from hashlib import blake2b, sha256
from typing import NamedTuple

from msgspec import Struct, field

from inspector.parsers.line import Function, Kind, Line, Listing
from inspector.parsers.ptx_statement import LABEL, REGISTERS, SPECIAL, register_declarations, strip

HOLE = "\x00"
SELF = "\x01"
"""Replace a name, and the function's own name, in a key."""
Aliases = Mapping[str, str]
"""Names of definitions elsewhere, with their definitions."""


class CanonicalForm(NamedTuple):
    n: int
    key: str
    names: tuple[str, ...]
    """Written ones in order, then those that are meant and not written: R5 of ``R4.64``."""


class Forms(Struct, frozen=True):
    """A stretch of lines, ``first`` to ``last`` (both counted in).

    ``quiet`` lines say only where code comes from (``.loc``, ``#loc3 = …``, ``!DILocation``): their
    kind by line. ``classes``: names match names of their class only.
    """

    first: int
    last: int
    forms: tuple[CanonicalForm, ...]
    quiet: Mapping[int, str] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)
    aliases: Aliases = field(default_factory=dict)
    language: str = ""


# -- Python and CUDA C++ --------------------------------------------------------------------------
# Names are the writer's own, so they are content. Comments are not, nor are blanks at a line's
# end; in C++, and within a line of Python, neither is how many blanks there are.

_PYTHON = re.compile(r"((?:\"\"\"|'''|\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'))|#.*+", re.DOTALL)
_CUDA = re.compile(
    r"(\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+')|//.*+|/\*(?:(?!\*/).)*+(?:\*/)?", re.DOTALL
)
_PIECES = re.compile(r"(\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+')")


def read_source(
    listing: Listing, texts: list[str], first: int, function: Function | None, aliases: Aliases
) -> Forms:
    """The forms of ``texts``, the first of which is line ``first``; no names."""
    python = any(line.base in ("def", "import", "from") for line in listing.lines)
    forms: list[CanonicalForm] = []
    for line in listing.lines[first - 1 : first - 1 + len(texts)]:
        if line.kind is Kind.COMMENT or line.kind is Kind.BLANK:
            continue
        text = line.text.rstrip()
        # A line without a statement is within a string: every blank counts.
        if line.base is not None or line.defs or line.uses:
            text = _source_key(text, python)
        forms.append(CanonicalForm(line.n, text, ()))
    return Forms(first, first - 1 + len(texts), tuple(forms), language="source")


def _source_key(text: str, python: bool) -> str:
    """A line without comments and needless blanks; of Python with its indentation."""
    if ("#" if python else "/") in text:
        comments = _PYTHON if python else _CUDA
        text = comments.sub(lambda m: m[1] or "", text).rstrip()
    indent = text[: len(text) - len(text.lstrip())] if python else ""
    pieces = _PIECES.split(text)
    # Every other piece is a string.
    pieces[::2] = [" ".join(piece.split()) or piece[:1] for piece in pieces[::2]]
    return indent + "".join(pieces).strip()


# -- names without digests ------------------------------------------------------------------------
# - Triton up to 2 marks how a kernel was specialised: ``add_kernel_0d1d2d3de``.
# - ``nvcc`` names what is internal to a file after the file, a digest and its temporary files:
#   ``_ZN50_INTERNAL_5f8a3c2e_9_kernel_cu_1b2c3d4e_12345E``, ``_GLOBAL__N__5c8a3a5f_11_foo_cu_…``,
#   ``_47_tmpxft_00001234_00000000_7_foo_cpp1_ii_abcdef12``.
# - ``ptxas`` numbers the functions it adds: ``$__internal_3_$__cuda_sm20_div_f32_slowpath``.

_MARKS = re.compile(r"__internal_|tmpxft|_INTERNAL_|_GLOBAL__N_|unnamed")
_SPECIALISED = re.compile(r"_(?:\d{1,3}(?:de|d|c))+\Z")
_INTERNAL = re.compile(r"__internal_\d++_")
_FILE = re.compile(r"(?:(?<!\d)\d++_)?_?tmpxft_[0-9a-f]++_[0-9a-f]++(?:-\d++)?(?:_\d++)?")
_LENGTH = re.compile(r"(?<!\d)\d++(?=_INTERNAL_|_GLOBAL__N_|_tmpxft)")
_DIGEST = re.compile(r"(?<=_)[0-9a-f]{8}(?:_\d++)?(?=_|E|\b)")
_UNNAMED = re.compile(r"__unnamed_\d++")


def without_digests(text: str) -> str:
    """``text`` with the digests and numbers of the names in it left out."""
    if not _MARKS.search(text):
        return text
    text = _INTERNAL.sub("__internal_", text)
    text = _LENGTH.sub("", text)
    text = _FILE.sub("tmpxft", text)
    if "_INTERNAL_" in text or "_GLOBAL__N_" in text or "tmpxft" in text:
        text = _DIGEST.sub("", text)
    return _UNNAMED.sub("__unnamed", text)


def plain_name(name: str) -> str:
    """A function's name as it is shown: without digests and specialisation."""
    return _SPECIALISED.sub("", without_digests(name)) or name


_NAMES = r"%[\w$]++|(?<![\w$])\$L[\w$]++|(?<![\w$%])__local_depot\d++"
_PLAIN = re.compile(f"({_NAMES})").split
_LOCATION = re.compile(r"\s*+(?:(\.loc|\.file)\b|(@@DWARF)|(\$L__(?:tmp|func_|info_)\w*+):)")
_DEBUG = re.compile(r"\s*+\.section\s++\.debug")


def read_ptx(
    listing: Listing, texts: list[str], first: int, function: Function | None, aliases: Aliases
) -> Forms:
    declared_names = _declared_names(texts)
    split = _PLAIN
    if declared_names:
        # Beside registers and labels of compilers, any word may be a name.
        split = re.compile(rf"({_NAMES}|(?<![\w$%.])[A-Za-z_][\w$]*+)").split
    registers = _PtxRegisters()
    name = function.name if function else ""
    own_name = re.compile(rf"(?<![\w$]){re.escape(name)}(?=_param_|_return_|(?![\w$]))")
    forms: list[CanonicalForm] = []
    quiet: dict[int, str] = {}
    comment = False
    depth = 0
    debug_section = _DebugSection()
    for n, text in enumerate(texts, first):
        if comment or "/" in text:
            text, comment = strip(text, comment)
        key = text.strip()
        if not key:
            continue
        if debug_section.has(key):
            quiet[n] = ".section"
        elif key[0] in ".@$" and (located := _LOCATION.match(key)):
            quiet[n] = located[1] or located[2] or "label"
        elif ".reg" in key and (declared := REGISTERS.search(key)):
            forms.append(CanonicalForm(n, registers.declare(key, declared, depth), ()))
            depth += key.count("{") - key.count("}")
        else:
            depth += key.count("{") - key.count("}")
            del registers.scopes[max(1, depth + 1) :]
            if name and name in key:
                key = own_name.sub(SELF, key)
            forms.append(registers.form(n, split(without_digests(key)), declared_names))
    last = first - 1 + len(texts)
    return Forms(first, last, tuple(forms), quiet, registers.classes, {}, "ptx")


def _declared_names(texts: Iterable[str]) -> set[str]:
    """Labels and registers that are written without a compiler's prefix."""
    names: set[str] = set()
    for text in texts:
        label = LABEL.match(text.lstrip(" \t{")) if ":" in text else None
        if label is not None and not label[1].startswith(("%", "$L")):
            names.add(label[1])
        if ".reg" in text:
            for declaration in register_declarations(text):
                names.update(name for name, _ in declaration.names if name[0] != "%")
    return names


class _DebugSection:
    """Follows sections of debugging information; ``.section .debug_str {`` to its brace."""

    def __init__(self) -> None:
        self._inside = False
        self._depth = 0
        """Open braces; 0 before the first one."""

    def has(self, key: str) -> bool:
        """Whether the next line, without comments, is of such a section."""
        if self._inside and not self._depth and key[0] != "{":
            self._inside = False
        if not self._inside:
            if not _DEBUG.match(key):
                return False
            self._inside = True
            self._depth = 0
        self._depth += key.count("{") - key.count("}")
        if "}" in key and self._depth <= 0:
            self._inside = False
        return True


class _PtxRegisters:
    def __init__(self) -> None:
        self.classes: dict[str, str] = {}
        self.scopes: list[dict[str, str]] = [{}]
        self.made = 0

    def form(self, n: int, parts: list[str], declared_names: set[str]) -> CanonicalForm:
        texts = [parts[0]]
        names = []
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            # a register or a label, not a special register or a keyword
            if name not in SPECIAL and (
                name[0] in "%$" or name in declared_names or name.startswith("__local_depot")
            ):
                if self.made:
                    name = next((s[name] for s in reversed(self.scopes) if name in s), name)
                names.append(name)
                texts.append(text)
            else:
                texts[-1] += name + text
        return CanonicalForm(n, " ".join(HOLE.join(texts).split()), tuple(names))

    def declare(self, key: str, match: re.Match[str], depth: int) -> str:
        """Note the registers of a declaration; return its key."""
        kind = " ".join(match[1].split())
        names = match[2].split(",")
        while depth > 1 and len(self.scopes) <= depth:
            self.scopes.append({})
        for part in names:
            name, _, count = part.strip().partition("<")
            if depth > 1:
                self.made += 1
                self.scopes[depth][name] = unique = f"{name}@{self.made}"
                self.classes[unique] = kind
            else:
                self.classes[name + "<" if count else name] = kind
        several = ", ".join("<>" if "<" in part else HOLE for part in names)
        prefix = key[: match.start(1)].strip()
        suffix = key[match.end() :].strip()
        return f"{prefix} {kind} {several} {suffix}"


_REGISTER = r"(?<![.$`])\b(?:U?[RP]|B)\d{1,3}\b"
_REGISTERS = re.compile(f"({_REGISTER})").split
_SPLIT = re.compile(rf"({_REGISTER}|(?<![\w$])\.L_?x?_?\d++\b)").split
_SASS_COMMENT = re.compile(r"/\*[^*]*+\*/")
_JUMP = re.compile(
    r"(?:BRA|BRX|BRXU|JMP|JMX|CALL|JCAL|CAL|BSSY|SSY|PBK|PCNT|PRET|WARPSYNC)\b[^;`]*?"
    r"\b(0x[0-9a-f]++)\s*+;"
)
_RETURN = re.compile(r"\bMOV[\w.]*+ (?:(?!\bMOV)[^;])*?\b(0x[0-9a-f]{1,15})\s*+;")
_PTXAS_NAME = re.compile(r"\$__internal_\d++_[\w$]++")
_SASS_LOCATION = re.compile(r"\s*+//##")
_ADDRESS_CHARACTERS = 16
"""Characters of an address that is too long to be in a function."""


def read_sass(
    listing: Listing, texts: list[str], first: int, function: Function | None, aliases: Aliases
) -> Forms:
    name = function.name if function else ""
    own_name = re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])")
    lines = listing.lines[first - 1 : first - 1 + len(texts)]
    jumped = _jump_targets(texts)
    classes: dict[str, str] = {}
    if any("CALL" in text for text in texts):
        returns, calls = _calls(lines, name)
        jumped |= returns
        if calls:
            classes = {"": "ABI"}
    forms: list[CanonicalForm] = []
    quiet: dict[int, str] = {}
    for line in lines:
        if line.kind in (Kind.COMMENT, Kind.BLANK):
            if _SASS_LOCATION.match(line.text):
                quiet[line.n] = "//##"
            continue
        key = _SASS_COMMENT.sub("", line.text)
        names: list[str] = []
        operands: tuple[str, ...] = ()
        if line.kind is Kind.INSTRUCTION:
            operands = (*line.defs, *line.uses)
            key, names = _without_addresses(line, key, jumped)
        else:
            key = key.partition("//")[0]
        if name and name in key:
            key = own_name.sub(SELF, key)
        # Functions that ptxas added are numbered.
        if "__internal_" in key and not key.lstrip().startswith((".size", ".type")):
            names += _PTXAS_NAME.findall(key)
        forms.append(_sass_form(line.n, without_digests(key), operands, names))
    last = first - 1 + len(texts)
    return Forms(first, last, tuple(forms), quiet, classes, {}, "sass")


def _jump_targets(texts: Sequence[str]) -> set[int]:
    """The addresses that instructions jump to, where these are not labels."""
    targets: set[int] = set()
    if any("`(" in text for text in texts):
        return targets
    for text in texts:
        jump = _JUMP.search(text)
        if jump and len(jump[1]) < _ADDRESS_CHARACTERS:
            targets.add(int(jump[1], 16))
    return targets


def _without_addresses(line: Line, key: str, jumped: Container[int]) -> tuple[str, list[str]]:
    """An instruction with a hole for the address that it goes to; that address as a name, and its
    own if something jumps there."""
    names = []
    jump = (_JUMP.search(key) or _RETURN.search(key)) if jumped else None
    if jump and (jump.re is _JUMP or int(jump[1], 16) in jumped):
        key = key[: jump.start(1)] + HOLE + key[jump.end(1) :]
        long = len(jump[1]) >= _ADDRESS_CHARACTERS
        names.append(jump[1] if long else f"@{int(jump[1], 16)}")
    if line.address in jumped:
        names.append(f"@{line.address}")
    return key, names


def _sass_form(
    n: int, key: str, operands: Sequence[str], further_names: Sequence[str]
) -> CanonicalForm:
    """Names are registers and labels as written, registers that are meant, and further ones."""
    parts = _SPLIT(key) if ".L" in key else _REGISTERS(key)
    names = parts[1::2]
    if len(operands) > len(names):
        names += [register for register in operands if register not in names]
    return CanonicalForm(n, " ".join(HOLE.join(parts[::2]).split()), (*names, *further_names))


def _calls(lines: Sequence[Line], name: str) -> tuple[set[int], bool]:
    """The addresses to which calls return, and whether one leaves these lines."""
    labels = {line.label for line in lines if line.label is not None} - {name}
    places = {line.address for line in lines if line.address is not None}
    returns: set[int] = set()
    leaves = called = False
    for line in lines:
        if line.address is None:
            continue
        if called:
            returns.add(line.address)
        called = line.base in ("CALL", "JCAL", "CAL")
        target = line.targets[-1] if line.targets else ""
        inside = target in labels or (
            target[:2] == "0x" and len(target) < 16 and int(target, 16) in places
        )
        leaves |= called and not inside
    return returns, leaves


_ALIAS = re.compile(r"([#!][\w$.\-]++)[ \t]*+=(?!=)[ \t]*+(.*)", re.DOTALL)
_LOC = re.compile(r"(?<!\s)\s*+\bloc\(#loc\d*+\)")
_LOC_ALIAS = re.compile(r"\s*+#loc\d*+\s*+=\s*+loc\(")
_VALUE = r"%[\w$.\-]++|\^[\w$.\-]++|(?<![\w$.\-])[#!][A-Za-z_][\w$\-]*+(?![\w$.<\-])"
_MLIR = re.compile(f"({_VALUE})").split
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*+")|//.*+', re.DOTALL)

_DBG = re.compile(r", !dbg !\d++| !dbg !\d++")
_LLVM_COMMENT = re.compile(r'("[^"]*+")|;.*+', re.DOTALL)
_LLVM_NAMES = re.compile(r'(%[\w$.\-]++|%"[^"]*+"|[#!]\d++)').split
_LLVM_LABEL = re.compile(r'([\w$.\-]++|"[^"]*+"):')
_LLVM_DEFINED = re.compile(
    r"(?:attributes\s++)?([#!]\d++|%[\w$.\-]++)\s*+=\s*+(?!\Z)(.*)", re.DOTALL
)
_DEBUG_NODE = re.compile(r"(?:distinct\s++)?!(?:DI\w++|GenericDINode)\(")
_DEBUG_ROOT = re.compile(r"!llvm\.(?:dbg\.cu|ident)\b")
_DEPTH = 24


def read_ir(
    listing: Listing, texts: list[str], first: int, function: Function | None, aliases: Aliases
) -> Forms:
    """The forms of ``texts``, the first of which is line ``first``, of MLIR or LLVM IR."""
    llvm = listing.language == "llvm"
    comment_sign = ";" if llvm else "//"
    comments = _LLVM_COMMENT if llvm else _COMMENT
    name = function.name if function else ""
    own_name = re.compile(rf"(?<=@){re.escape(name)}(?![\w$.])")
    forms: list[CanonicalForm] = []
    quiet: dict[int, str] = {}
    values = _MlirValues()
    for n, text in enumerate(texts, first):
        if comment_sign in text:
            text = comments.sub(lambda m: m[1] or "", text)
        key = text.strip()
        if not key:
            continue
        if key[0] in "#!" and (kind := _quiet(key)):
            quiet[n] = kind
            continue
        key = _without_places(key, llvm)
        if name and name in key:
            key = own_name.sub(SELF, key)
        if "_" in key:
            key = without_digests(key)
        if llvm and text[0] not in " \t" and (label := _LLVM_LABEL.match(key)):
            block = "%" + label[1].strip('"')
            forms.append(CanonicalForm(n, HOLE + key[label.end(1) :], (block,)))
            continue
        texts_between, names = _split_names(key, llvm, aliases)
        if not llvm:
            names = values.distinct(n, names, listing.lines[n - 1].defs)
        key = " ".join(HOLE.join(texts_between).split())
        forms.append(CanonicalForm(n, key, tuple(names)))
    last = first - 1 + len(texts)
    return Forms(first, last, tuple(forms), quiet, {}, aliases, "llvm" if llvm else "mlir")


def _without_places(key: str, llvm: bool) -> str:
    """A line without the locations of its source."""
    if llvm:
        return _DBG.sub("", key) if "!dbg" in key else key
    return without_locations(key) if "loc(" in key else key


def _split_names(key: str, llvm: bool, aliases: Aliases) -> tuple[list[str], list[str]]:
    """The names in a line, and the texts between them; what only looks like an alias is text."""
    parts = _LLVM_NAMES(key) if llvm else _MLIR(key)
    texts = [parts[0]]
    names = []
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        if name[0] in "#!" and name not in aliases:
            texts[-1] += name + text
        else:
            names.append(name)
            texts.append(text)
    return texts, names


class _MlirValues:
    """Tells values apart: one of a region may have the name of another's."""

    def __init__(self) -> None:
        self._versions: dict[str, str] = {}
        self._seen: set[str] = set()

    def distinct(self, n: int, names: Sequence[str], defined: Iterable[str]) -> list[str]:
        """Names of line ``n``, those with the line of their definition that were used above."""
        version = f"@{n}"
        for value in defined:
            value = value.partition("#")[0]
            if value in self._seen:
                self._versions[value] = value + version
        self._seen.update(names)
        return [self._versions.get(name, name) for name in names]


def _quiet(key: str) -> str:
    """What kind of location or debugging information a line is; "" for code."""
    if key[0] == "#":
        if _LOC_ALIAS.match(key):
            return "#loc"
        return key[:5] if key.startswith("#dbg_") else ""
    value = key.partition("=")[2].lstrip()
    return "!DI" if _DEBUG_ROOT.match(key) or _DEBUG_NODE.match(value) else ""


_LOCATED = re.compile(r'(?<![\w."])loc\(')
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"|[()]', re.DOTALL)


def without_locations(text: str) -> str:
    text = _LOC.sub("", text)
    start = 0
    while located := _LOCATED.search(text, start):
        start = located.start()
        depth = 0
        end = len(text)
        for match in _BRACKETS.finditer(text, start):
            depth += {"(": 1, ")": -1}.get(match[0], 0)
            if match[0] == ")" and depth == 0:
                end = match.end()
                break
        text = text[:start].rstrip() + text[end:]
    return text


def _resolved(
    defined: Mapping[str, str], split: Callable[[str], list[str | None]]
) -> dict[str, str]:
    """Definitions with the aliases in them written out; one that is in itself is ``…``."""
    resolved: dict[str, str] = {}

    def resolve(name: str, depth: int, open_: frozenset[str]) -> str:
        if name in resolved:
            return resolved[name]
        if name in open_ or depth > _DEPTH:
            return "…"
        parts = split(defined[name])
        inside = open_ | {name}
        for i in range(1, len(parts), 2):
            alias = parts[i] or ""
            if alias in defined:
                parts[i] = "{" + resolve(alias, depth + 1, inside) + "}"
        text = "".join(part or "" for part in parts)
        if len(text) > 65536:
            text = sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
        if not open_:
            resolved[name] = text
        return text

    for name in defined:
        resolved[name] = resolve(name, 0, frozenset())
    return resolved


def aliases_of(listing: Listing) -> Aliases:
    """Definitions of MLIR's aliases, or of LLVM's attributes, metadata and types, of which debug
    nodes are ``DI``."""
    if listing.language in ("ttir", "ttgir"):
        return _resolved(_mlir_definitions(listing), _MLIR)
    if listing.language == "llvm":
        return _resolved(_llvm_definitions(listing), _LLVM_NAMES)
    return {}


def _mlir_definitions(listing: Listing) -> dict[str, str]:
    definitions: dict[str, str] = {}
    for line in listing.lines:
        match = _ALIAS.match(line.text.strip()) if line.label else None
        if match and not match[2].startswith("loc("):
            definitions.setdefault(match[1], without_locations(match[2]))
    return definitions


def _llvm_definitions(listing: Listing) -> dict[str, str]:
    definitions: dict[str, str] = {}
    inside = False
    for text in listing.text.split("\n"):
        if inside or text.startswith("define "):
            inside = text[:1] != "}"
            continue
        match = _LLVM_DEFINED.match(text) if text[:1] in "#!%a" else None
        if match and (match[1][0] != "%" or match[2].startswith("type")):
            definition = "DI" if _DEBUG_NODE.match(match[2]) else match[2]
            definitions.setdefault(match[1], definition)
    return definitions


READERS = {"ptx": read_ptx, "sass": read_sass, **dict.fromkeys(("ttir", "ttgir", "llvm"), read_ir)}
"""By ``Listing.language``; any other is read as a source."""


def canonical(
    listing: Listing,
    function: Function | None = None,
    span: tuple[int, int] | None = None,
    aliases: Aliases | None = None,
) -> Forms:
    """The forms of a function, of lines ``span`` (both counted in), or of the whole listing.

    ``aliases`` are those of the listing, where they are known already.
    """
    if aliases is None:
        aliases = aliases_of(listing)
    if span is None:
        span = (function.first, function.last) if function else (1, len(listing.lines))
    first = max(1, span[0])
    last = min(span[1], len(listing.lines))
    texts = listing.texts(first, last)
    return READERS.get(listing.language, read_source)(listing, texts, first, function, aliases)


def exact_forms(listing: Listing, span: tuple[int, int]) -> Forms:
    first, last = span
    forms = [CanonicalForm(line.n, line.text, ()) for line in listing.lines[first - 1 : last]]
    return Forms(first, last, tuple(forms), language="exact")


def class_of(forms: Forms, name: str) -> str:
    """What a name is a name of: a register file, a declared type, a kind of label."""
    name = name.partition("@")[0] or name
    series = name.rstrip("0123456789")
    if forms.language == "ptx":
        # As declared, ``%r<9>`` for ``%r3``; else what it looks like.
        return forms.classes.get(name) or forms.classes.get(series + "<") or _ptx_class(name)
    if forms.language != "sass" or name[0] in ".@$":
        return name[0]
    # Of a function that makes calls, a register is what the ABI says.
    return name if name == "R1" or (forms.classes and name[0] == "R") else series


def _ptx_class(name: str) -> str:
    if name[0] == "%":
        return "%"
    return "depot" if name.startswith("__local") else "label"


def digest(listing: Listing, function: Function | None = None) -> bytes:
    """16 bytes that are equal iff two functions have the same canonical form (or a collision).

    Of the whole listing without ``function``.
    """
    text = "\n".join(numbered(canonical(listing, function)))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def numbered(forms: Forms) -> Sequence[str]:
    """Every line's key followed by its names' numbers, the first of each with its class."""
    out: list[str] = []
    numbers: dict[str, str] = {}
    for _, key, names in forms.forms:
        out.append(key)
        for name in names:
            if name in numbers:
                out.append(numbers[name])
            elif name in forms.aliases:
                numbers[name] = "=" + forms.aliases[name]
                out.append(numbers[name])
            else:
                numbers[name] = str(len(numbers))
                out.append(f"{numbers[name]}:{class_of(forms, name)}")
    return out
