"""Canonical forms of MLIR (TTIR, TTGIR) and LLVM IR: values, blocks, aliases, metadata.

``#blocked`` and ``!t`` of MLIR, ``#0``, ``!5`` and ``%struct.x`` of LLVM are compared by their
definitions. Locations (``loc(…)``, ``#loc3``,
``!dbg !7``, ``!DILocation``, ``#dbg_value``) say nothing of the code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from hashlib import sha256

from inspector.diff.forms import HOLE, SELF, Aliases, CanonicalForm, Forms, plain
from inspector.listing.line import Function, Listing

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


def read_mlir(
    listing: Listing, texts: list[str], first: int, function: Function | None, aliases: Aliases
) -> Forms:
    """The forms of ``texts``, the first of which is line ``first``, of an MLIR ``listing``."""
    name = function.name if function else ""
    own = re.compile(rf"(?<=@){re.escape(name)}(?![\w$.])")
    out: list[CanonicalForm] = []
    quiet: dict[int, str] = {}
    versions: dict[str, str] = {}
    seen: set[str] = set()
    n = first - 1
    lines = listing.lines[first - 1 : first - 1 + len(texts)]
    for text, line in zip(texts, lines, strict=True):
        n += 1
        if "//" in text:
            text = _COMMENT.sub(_kept, text)
        if not text or text.isspace():
            continue
        if _LOC_ALIAS.match(text):
            quiet[n] = "#loc"
            continue
        key = without_locations(text) if "loc(" in text else text
        if name and name in key:
            key = own.sub(SELF, key)
        if "_" in key:
            key = plain(key)
        parts = _MLIR(key)
        if len(parts) > 1:
            parts = _aliased(parts, aliases)
        for value in line.defs:
            value = value.partition("#")[0]
            if value in seen and versions.get(value, "").partition("@")[2] != str(n):
                versions[value] = f"{value}@{n}"
        names = [versions.get(name, name) for name in parts[1::2]]
        seen.update(parts[1::2])
        out.append(CanonicalForm(n, " ".join(HOLE.join(parts[::2]).split()), tuple(names)))
    return Forms(first, n, tuple(out), quiet, {}, aliases, "mlir")


def mlir_aliases(listing: Listing) -> Mapping[str, str]:
    """Return each alias's definition with aliases in it expanded."""
    defined: dict[str, str] = {}
    for line in listing.lines:
        if not line.label or line.label[0] not in "#!":
            continue
        match = _ALIAS.match(line.text.strip())
        if match and not match[2].startswith("loc("):
            defined.setdefault(match[1], without_locations(match[2]))
    return _resolved(defined, _MLIR)


def without_locations(text: str) -> str:
    """``text`` without its ``loc(…)``."""
    text = _LOC.sub("", text)
    start = text.find("loc(")
    while start >= 0:
        if start and (text[start - 1].isalnum() or text[start - 1] in '_."'):
            start = text.find("loc(", start + 4)
            continue
        end = _closing(text, start + 3)
        text = text[:start].rstrip() + text[end:]
        start = text.find("loc(", start)
    return text


def _closing(text: str, position: int) -> int:
    """The position after the parenthesis that closes the one at ``at``."""
    depth = 0
    quoted = False
    size = len(text)
    while position < size:
        c = text[position]
        if quoted:
            if c == "\\":
                position += 1
            elif c == '"':
                quoted = False
        elif c == '"':
            quoted = True
        elif c == "(":
            depth += 1
        elif c == ")":
            depth -= 1
            if depth == 0:
                return position + 1
        position += 1
    return size


def _kept(match: re.Match[str]) -> str:
    return match[1] or ""


def _aliased(parts: list[str], aliases: Mapping[str, str]) -> list[str]:
    """Pieces of a line, with names that look like aliases but are not defined kept as text."""
    if not any(name[0] in "#!" and name not in aliases for name in parts[1::2]):
        return parts
    out = [parts[0]]
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        if name[0] in "#!" and name not in aliases:
            out[-1] += name + text
        else:
            out += (name, text)
    return out


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


def read_llvm(
    listing: Listing, texts: list[str], first: int, function: Function | None, aliases: Aliases
) -> Forms:
    """The forms of ``texts``, the first of which is line ``first``, of an LLVM ``listing``."""
    name = function.name if function else ""
    own = re.compile(rf"(?<=@){re.escape(name)}(?![\w$.])")
    out: list[CanonicalForm] = []
    quiet: dict[int, str] = {}
    n = first - 1
    for text in texts:
        n += 1
        if ";" in text:
            text = _LLVM_COMMENT.sub(_kept, text)
        key = text.strip()
        if not key:
            continue
        if key[0] in "#!" and _quiet(key):
            quiet[n] = key[:5] if key[0] == "#" else "!DI"
            continue
        if "!dbg" in key:
            key = _DBG.sub("", key)
        if name and name in key:
            key = own.sub(SELF, key)
        if "_" in key:
            key = plain(key)
        if text[0] not in " \t" and (label := _LLVM_LABEL.match(key)):
            block = "%" + label[1].strip('"')
            out.append(CanonicalForm(n, HOLE + key[label.end(1) :], (block,)))
            continue
        parts = _LLVM_NAMES(key)
        if len(parts) > 1:
            parts = _aliased(parts, aliases)
        names = tuple(parts[1::2])
        out.append(CanonicalForm(n, " ".join(HOLE.join(parts[::2]).split()), names))
    return Forms(first, n, tuple(out), quiet, {}, aliases, "llvm")


def _quiet(key: str) -> bool:
    if key[0] == "#":
        return key.startswith("#dbg_")
    if _DEBUG_ROOT.match(key):
        return True
    _, _, value = key.partition("=")
    return _DEBUG_NODE.match(value.lstrip()) is not None


def llvm_aliases(listing: Listing) -> Mapping[str, str]:
    """Return the definitions of attributes, metadata and types; debug nodes are ``DI``."""
    defined: dict[str, str] = {}
    inside = False
    for line in listing.text.split("\n"):
        if inside:
            inside = line[:1] != "}"
            continue
        if line.startswith("define "):
            inside = True
            continue
        if line[:1] in "#!%a" and (definition := _LLVM_DEFINED.match(line)):
            if definition[1][0] == "%" and not definition[2].startswith("type"):
                continue
            node = "DI" if _DEBUG_NODE.match(definition[2]) else definition[2]
            defined.setdefault(definition[1], node)
    return _resolved(defined, _LLVM_NAMES)
