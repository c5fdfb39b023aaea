"""Directives and labels of PTX in words."""

from __future__ import annotations

import re
from itertools import pairwise
from math import prod

from inspector.analyse.sentences.context import Context
from inspector.analyse.sentences.operands import Templates, fill, split
from inspector.listing.ptx_statement import strip
from inspector.text import plural

_WORD = re.compile(r"\s*+(\.?[\w@]++)")
_LINKING = re.compile(r"\s*+\.(?:visible|extern|weak|common)\b")
_REGISTER = re.compile(r"([%\w$]++)\s*+(?:<\s*+(\d++)\s*+>)?")
_VARIABLE = re.compile(r"((?:\.[\w:]++(?:\s++\d++)?\s++)*+)([\w$%]++)((?:\s*+\[\s*+\d*+\s*+\])*+)")
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
    while found := _LINKING.match(code):
        code = code[found.end() :]
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
            if self.items and '"' in self.rest and (found := _FILE.match(_rest(self.text))):
                return found[int(name) + 1] if int(name) < 2 else ""
            return self.items[int(name)] if int(name) < len(self.items) else ""
        made = getattr(self, f"_{name}", None)
        return str(made()) if callable(made) else ""

    def _args(self) -> str:
        if self.rest == '""' or '""' in self.rest:
            return ", ".join(re.findall(r'"([^"]*)"', self.text)) or self.rest
        return self.rest

    def _name(self) -> str:
        found = re.search(
            r"(?<![\w$%])([\w$%]++)\s*+(?:\(|\Z)", self.rest.rpartition(")")[2] or self.rest
        )
        return found[1] if found else self.rest

    def _product(self) -> str:
        sizes = [int(p[:9]) for p in split(self.rest) if p.isascii() and p.isdecimal()]
        many = " × ".join(str(s) for s in sizes)
        return f"{many} = {prod(sizes)}" if len(sizes) > 1 else many

    def _registers(self) -> str:
        type_, _, names = self.rest.lstrip(".").partition(" ")
        known = self.templates.section("types").get(type_.strip(), type_.strip())
        said: list[str] = []
        for part in split(names):
            found = _REGISTER.match(part)
            if found is None:
                continue
            if found[2]:
                last = max(0, int(found[2][:9]) - 1)
                said.append(f"{found[1]}0 … {found[1]}{last}")
            else:
                said.append(found[1])
        what = "predicates" if type_.strip() == "pred" else f"registers of type {known}"
        if type_[:1] == "b":
            what = f"registers of {known}"
        return f"{what}: {', '.join(said)}"

    def _parameter(self) -> str:
        found = _VARIABLE.match(self.rest)
        name = found[2] if found else ""
        p = self.context.parameter(name)
        if p is None:
            return f"the parameter {self._variable()}"
        place = f", at byte {p.offset} of the parameters" if p.offset is not None else ""
        own = " (the compiler's own)" if p.hidden else ""
        known = f", {p.value} in this launch" if p.value is not None else ""
        multiple = f", a multiple of {p.multiple}" if p.multiple and p.value is None else ""
        head = f"parameter {p.index} is {p.shown}" if p.name else p.shown
        return f"{head}{own}{multiple}{known}{place}"

    def _variable(self) -> str:
        found = _VARIABLE.match(self.rest)
        if found is None:
            return self.rest
        words = found[1].split()
        align = next((b for a, b in pairwise(words) if a == ".align"), None)
        type_ = next((w[1:] for w in reversed(words) if re.fullmatch(r"\.[busf]\d+", w)), "b8")
        each = int(re.sub(r"\D", "", type_)) // 8
        sizes = re.findall(r"\[\s*(\d*)", found[3])
        if "" in sizes:
            size = "as many bytes as the launch asks for"
            if ".extern" not in self.text:
                size = "as many bytes as its values take"
        else:
            count = each * prod(int(n[:9]) for n in sizes)
            size = plural(count, "byte")
        return f"{found[2]}: {size}" + (f", aligned to {align}" if align else "")

    def _file(self) -> str:
        return f"source file {self.items[0]}" if self.items else "a source file"


def _rest(text: str) -> str:
    return text.partition(".file")[2].strip()


def label(name: str, line: int, jumps: list[int], known: bool) -> str:
    """What a label is there for; ``known`` where all jumps of the function were looked at."""
    if jumps:
        back = [n for n in jumps if n >= line]
        who = "line" if len(jumps) == 1 else "lines"
        text = f"jumped to from {who} {_listed(jumps)}"
        return f"{name}: the head of a loop, {text}" if back else f"{name}: {text}"
    if _DEBUGGING.match(name):
        return f"{name}: a place that debugging information names"
    return f"{name}: no jump names it" if known else name


def _listed(lines: list[int]) -> str:
    some = [str(n) for n in lines[:6]]
    if len(lines) > 6:
        some.append(f"{len(lines) - 6} more")
    return ", ".join(some[:-1]) + f" and {some[-1]}" if len(some) > 1 else some[0]
