"""Canonical forms of PTX: registers by their declared class, labels, the function's own name.

Written from the PTX ISA, "Directives" and "Instruction Operands". ``.reg`` declares how many
registers there may be, which is no property of the code: the number is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from inspector.diff.forms import HOLE, SELF, Aliases, CanonicalForm, Forms, plain
from inspector.listing.line import Function, Listing
from inspector.listing.ptx_statement import LABEL, REGISTERS, SPECIAL, register_declarations, strip

_NAMES = r"%[\w$]++|(?<![\w$])\$L[\w$]++|(?<![\w$%])__local_depot\d++"
_PLAIN = re.compile(f"({_NAMES})").split
_LOCATION = re.compile(r"\s*+(?:(\.loc|\.file)\b|(@@DWARF)|(\$L__(?:tmp|func_|info_)\w*+):)")
_DEBUG = re.compile(r"\s*+\.section\s++\.debug")


def read_ptx(
    listing: Listing, texts: list[str], first: int, function: Function | None, aliases: Aliases
) -> Forms:
    """The forms of ``texts``, the first of which is line ``first``."""
    return _FormReading(texts, first, function.name if function else "").read()


class _FormReading:
    def __init__(self, texts: list[str], first: int, name: str) -> None:
        self.texts = texts
        self.first = first
        self.classes: dict[str, str] = {}
        self.split = _PLAIN
        self.scopes: list[dict[str, str]] = [{}]
        """Registers declared in the open blocks, by the name they are written with."""
        self.made = 0
        self.own = re.compile(rf"(?<![\w$]){re.escape(name)}(?=_param_|_return_|(?![\w$]))")
        self.name = name
        extra: set[str] = set()
        for line in texts:
            label = LABEL.match(line.lstrip(" \t{")) if ":" in line else None
            if label is not None and not label[1].startswith(("%", "$L")):
                extra.add(label[1])
            if ".reg" in line:
                for declaration in register_declarations(line):
                    extra.update(name for name, _ in declaration.names if name[0] != "%")
        self.known = extra
        if extra:  # any word may be a name
            self.split = re.compile(rf"({_NAMES}|(?<![\w$%.])[A-Za-z_][\w$]*+)").split

    def read(self) -> Forms:
        out: list[CanonicalForm] = []
        quiet: dict[int, str] = {}
        comment = False
        debug = 0
        n = self.first - 1
        depth = 0
        name, split = self.name, self.split
        for text in self.texts:
            n += 1
            if comment or "/" in text:
                text, comment = strip(text, comment)
            key = text.strip()
            if not key:
                continue
            if debug < 0 and key[0] != "{":
                debug = 0
            if debug or _DEBUG.match(key):
                debug = self._debug(key, debug)
                quiet[n] = ".section"
                continue
            if key[0] in ".@$" and (located := _LOCATION.match(key)):
                quiet[n] = located[1] or located[2] or "label"
                continue
            if ".reg" in key and (declared := REGISTERS.search(key)):
                out.append(CanonicalForm(n, self._declare(key, declared, depth), ()))
                depth += text.count("{") - text.count("}")
                continue
            if "{" in key or "}" in key:
                depth += key.count("{") - key.count("}")
                self._close(depth)
            if name and name in key:
                key = self.own.sub(SELF, key)
            if "_" in key:
                key = plain(key)
            out.append(self._form(n, split(key)))
        return Forms(self.first, n, tuple(out), quiet, self.classes, {}, "ptx")

    def _form(self, n: int, parts: list[str]) -> CanonicalForm:
        texts, names = [parts[0]], []
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            if self._is_name(name):
                names.append(self._scoped(name) if self.made else name)
                texts.append(text)
            else:
                texts[-1] += name + text
        return CanonicalForm(n, " ".join(HOLE.join(texts).split()), tuple(names))

    def _is_name(self, name: str) -> bool:
        """Whether a word is a register or a label, not a special register or a keyword."""
        if name in SPECIAL:
            return False
        return name[0] in "%$" or name in self.known or name.startswith("__local_depot")

    def _debug(self, key: str, depth: int) -> int:
        """Braces open in a debugging section; -1 where the first is to stand on the next line."""
        opened = max(depth, 0) + key.count("{") - key.count("}")
        if "}" in key and opened <= 0:
            return 0
        return opened or -1

    def _declare(self, key: str, match: re.Match[str], depth: int) -> str:
        kind = " ".join(match[1].split())
        names = match[2].split(",")
        scope: dict[str, str] | None = None
        for part in names:
            name, _, count = part.strip().partition("<")
            if depth > 1:
                while len(self.scopes) <= depth:
                    self.scopes.append({})
                scope = self.scopes[depth]
                self.made += 1
                unique = f"{name}@{self.made}"
                scope[name] = unique
                self.classes[unique] = kind
            elif count:
                self.classes[name + "<"] = kind
            else:
                self.classes[name] = kind
        several = ", ".join("<>" if "<" in part else HOLE for part in names)
        before, after = key[: match.start(1)].strip(), key[match.end() :].strip()
        return f"{before} {kind} {several} {after}"

    def _close(self, depth: int) -> None:
        del self.scopes[max(1, depth + 1) :]

    def _scoped(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name


def class_of(name: str, classes: Mapping[str, str]) -> str:
    """The class a register was declared with, ``%r<9>`` for ``%r3``; else what it looks like."""
    kind = classes.get(name)
    if kind is not None:
        return kind
    kind = classes.get(name.rstrip("0123456789") + "<")
    if kind is None:
        kind = "%" if name[0] == "%" else "depot" if name.startswith("__local") else "label"
    return kind
