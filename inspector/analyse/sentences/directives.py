"""Directives and labels of PTX in words."""

from __future__ import annotations

import re
from math import prod

from inspector.analyse.sentences.context import Context
from inspector.analyse.sentences.templates import Templates, fill
from inspector.base.text import plural
from inspector.listing.ptx_declaration import register_declarations, variable_declaration
from inspector.listing.ptx_operands import split
from inspector.listing.ptx_statement import strip

_WORD = re.compile(r"\s*+(\.?[\w@]++)")
_LINKING = re.compile(r"\s*+\.(?:visible|extern|weak|common)\b")
_FILE = re.compile(r'(\d++)\s++"((?:[^"\\]|\\.)*+)"')
_DEBUGGING = re.compile(r"\$L__(?:tmp|func_begin|func_end|info_string|pubNames|set)\w*+\Z")


def directive(text: str, templates: Templates, context: Context) -> str | None:
    """What a line that is a directive says."""
    code = strip(text[:4096], False)[0].strip()
    table = templates.section("directive")
    if code.startswith(")") and (code := code[1:].strip()) == "":
        return "the parameters end"
    if code[:1] in ("{", "}"):
        rest = code[1:].strip(" ;")
        inner = directive(rest, templates, context) if rest[:1] == "." else None
        return inner or table.get(code[0])
    while match := _LINKING.match(code):
        code = code[match.end() :]
    word = _WORD.match(code)
    if word is None or (template := table.get(word[1])) is None:
        return None
    rest = code[word.end() :].strip().rstrip(";").rstrip()
    pieces = _Pieces(rest, text, templates, context)
    return fill(template, pieces.get)


class _Pieces:
    """The pieces of a directive; ``{0}`` is the first word after it."""

    def __init__(self, rest: str, text: str, templates: Templates, context: Context) -> None:
        self.rest = rest
        self.text = text
        self.templates = templates
        self.context = context
        self.items = [w for part in split(rest) for w in part.split()]

    def get(self, name: str) -> str:
        if name.isdigit():
            if self.items and '"' in self.rest and (match := _FILE.match(_rest(self.text))):
                return match[int(name) + 1] if int(name) < 2 else ""
            return self.items[int(name)] if int(name) < len(self.items) else ""
        made = getattr(self, f"_{name}", None)
        return str(made()) if callable(made) else ""

    def _args(self) -> str:
        if self.rest == '""' or '""' in self.rest:
            return ", ".join(re.findall(r'"([^"]*)"', self.text)) or self.rest
        return self.rest

    def _name(self) -> str:
        match = re.search(
            r"(?<![\w$%])([\w$%]++)\s*+(?:\(|\Z)", self.rest.rpartition(")")[2] or self.rest
        )
        return match[1] if match else self.rest

    def _product(self) -> str:
        sizes = [int(p[:9]) for p in split(self.rest) if p.isascii() and p.isdecimal()]
        many = " × ".join(str(s) for s in sizes)
        return f"{many} = {prod(sizes)}" if len(sizes) > 1 else many

    def _registers(self) -> str:
        one = next(register_declarations(f".reg {self.rest}"), None)
        if one is None:
            return f"registers: {self.rest}"
        of_type = self.templates.section("types").get(one.type, one.type)
        names = ", ".join(
            name if count is None else f"{name}0 … {name}{max(0, count - 1)}"
            for name, count in one.names
        )
        what = "predicates" if one.type == "pred" else f"registers of type {of_type}"
        if one.type[:1] == "b":
            what = f"registers of {of_type}"
        return f"{what}: {names}"

    def _parameter(self) -> str:
        one = variable_declaration(self.rest)
        p = self.context.parameter(one.name if one else "")
        if p is None:
            return f"the parameter {self._variable()}"
        place = f", at byte {p.offset} of the parameters" if p.offset is not None else ""
        own = " (the compiler's own)" if p.hidden else ""
        value = f", {p.value} in this launch" if p.value is not None else ""
        multiple = f", a multiple of {p.multiple}" if p.multiple and p.value is None else ""
        head = f"parameter {p.index} is {p.shown}" if p.name else p.shown
        return f"{head}{own}{multiple}{value}{place}"

    def _variable(self) -> str:
        one = variable_declaration(self.rest)
        if one is None:
            return self.rest
        if one.type is None:  # textures and the like have no size
            return one.name
        if one.size is not None:
            size = plural(one.size, "byte")
        elif ".extern" in self.text:
            size = "as many bytes as the launch asks for"
        else:
            size = "as many bytes as its values take"
        return f"{one.name}: {size}" + (f", aligned to {one.align}" if one.align else "")

    def _file(self) -> str:
        return f"source file {self.items[0]}" if self.items else "a source file"


def _rest(text: str) -> str:
    return text.partition(".file")[2].strip()


def label(name: str, line: int, jumps: list[int], all_seen: bool) -> str:
    """What a label is there for; ``known`` where all jumps of the function were looked at."""
    if jumps:
        back = [n for n in jumps if n >= line]
        who = "line" if len(jumps) == 1 else "lines"
        text = f"jumped to from {who} {_listed(jumps)}"
        return f"{name}: the head of a loop, {text}" if back else f"{name}: {text}"
    if _DEBUGGING.match(name):
        return f"{name}: a place that debugging information names"
    return f"{name}: no jump names it" if all_seen else name


def _listed(lines: list[int]) -> str:
    some = [str(n) for n in lines[:6]]
    if len(lines) > 6:
        some.append(f"{len(lines) - 6} more")
    return ", ".join(some[:-1]) + f" and {some[-1]}" if len(some) > 1 else some[0]
