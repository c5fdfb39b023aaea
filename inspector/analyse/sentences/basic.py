"""The pieces of a sentence that any instruction may have, computed of its parts.

Written from the PTX ISA, chapter "Instruction Set".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from inspector.analyse.sentences.templates import fill
from inspector.analyse.sentences.truth_tables import formula, named
from inspector.base.text import plural
from inspector.listing.ptx_operands import Operand, OperandKind, WordedStatement
from inspector.listing.ptx_statement import has_result


def byte_picks(a: str, b: str, selector: int) -> str:
    """``prmt.b32``: the four bytes of the result, highest first; bytes 0 to 3 are ``a``'s."""
    picks = [selector >> 4 * i & 15 for i in range(3, -1, -1)]
    said: list[str] = []
    for pick in picks:
        name, place = (a, pick & 7) if pick & 7 < 4 else (b, (pick & 7) - 4)
        sign = "the sign of " if pick & 8 else ""
        said.append(f"{sign}byte {place} of {name}")
    return f"bytes, the highest first: {', '.join(said)}"


_TYPE = re.compile(r"[busf]\d+(?:x\d)?\Z|t?f32\Z|bf16(?:x2)?\Z|u?e\dm\d(?:x\d)?\Z|pred\Z")
_VECTOR = re.compile(r"v([248])\Z")
BITS = re.compile(r"[busf]([1-9]\d{0,3})\Z")


class Basic:
    """The pieces of one instruction; a subclass words its operands."""

    def __init__(self, one: WordedStatement, tables: Mapping[str, Mapping[str, str]]) -> None:
        self.one = one
        self.parts = one.parts
        self.tables = tables
        self.types = tuple(part for part in one.parts[1:] if _TYPE.match(part))
        operands = one.operands
        self.result = bool(operands) and has_result(self.parts[0], one.opcode)
        if operands and operands[0].kind is OperandKind.ADDRESS:
            self.result = False
        self.args = operands[1:] if self.result else operands
        self.addresses = [o for o in operands if o.kind is OperandKind.ADDRESS]

    def say(self, one: Operand) -> str:
        """An operand in words."""
        return one.text

    def place(self, one: Operand) -> str:
        """An address in memory in words."""
        return one.text

    def get(self, name: str) -> str:
        """A piece by its name, "" if this instruction has none of it."""
        if name in _LETTERS:
            return self._letter(_LETTERS.index(name))
        made = getattr(self, f"_{name}", None)
        if callable(made):
            return str(made())
        return self.words(name)

    def words(self, table: str) -> str:
        """What the opcode's qualifiers are called in a table of pieces, in order."""
        known = self.tables.get(table, {})
        said = [known[p] for p in self.parts[1:] if p in known]
        text = ", ".join(dict.fromkeys(said))
        return fill(text, self.get) if "{" in text else text

    # -- operands ---------------------------------------------------------------------------

    def _letter(self, i: int) -> str:
        return self.say(self.args[i]) if i < len(self.args) else ""

    def _d(self) -> str:
        first = self._pair(0)
        return "" if first is None or first.kind is OperandKind.SINK else self.say(first)

    def _p(self) -> str:
        second = self._pair(1)
        return "" if second is None or second.kind is OperandKind.SINK else self.say(second)

    def _pair(self, i: int) -> Operand | None:
        if not self.result:
            return None
        first = self.one.operands[0]
        if first.kind is OperandKind.PAIR:
            return first.parts[i] if i < len(first.parts) else None
        return first if i == 0 else None

    def _last(self) -> str:
        return self.say(self.args[-1]) if self.args else ""

    def _args(self) -> str:
        return self._listed(self.args)

    def _but(self) -> str:
        return self._listed(self.args[:-1])

    def _listed(self, args: tuple[Operand, ...]) -> str:
        said = [self.say(a) for a in args]
        return " and ".join([", ".join(said[:-1]), said[-1]] if len(said) > 1 else said)

    def _at(self) -> str:
        return self._nth_address(0)

    def _at2(self) -> str:
        return self._nth_address(1)

    def _nth_address(self, i: int) -> str:
        return self.place(self.addresses[i]) if i < len(self.addresses) else ""

    def _name(self) -> str:
        return self.addresses[0].parts[0].text if self.addresses else ""

    def number(self, i: int) -> int | None:
        """The number that operand ``i`` after the result is."""
        one = self.args[i] if -len(self.args) <= i < len(self.args) else None
        return int(one.value or 0) if one is not None and one.kind is OperandKind.NUMBER else None

    # -- types and sizes --------------------------------------------------------------------

    def type_name(self, type_: str) -> str:
        """``32-bit float``; the type itself where it is not known."""
        return self.tables.get("types", {}).get(type_, type_)

    def _type(self) -> str:
        return self.type_name(self.types[-1]) if self.types else ""

    def _to(self) -> str:
        return self.type_name(self.types[0]) if self.types else ""

    def _from(self) -> str:
        return self.type_name(self.types[-1]) if len(self.types) > 1 else ""

    def _data(self) -> str:
        vector = next((int(m[1]) for p in self.parts if (m := _VECTOR.match(p))), 1)
        type_ = self.types[-1] if self.types else ""
        match = BITS.match(type_)
        if match is None:
            return self.type_name(type_) or "data"
        size = vector * int(match[1]) // 8
        elements = self.type_name(type_) + ("" if type_[0] == "b" else "s")
        amount = f"{vector} × {elements}" if vector > 1 else self._single(type_)
        return f"{amount} ({plural(size, 'byte')} a thread)"

    def _single(self, type_: str) -> str:
        name = self.type_name(type_)
        return name if type_[0] == "b" else f"{'an' if name.startswith('8') else 'a'} {name}"

    def _space(self) -> str:
        return self._spaces(0) or "memory"

    def _space2(self) -> str:
        return self._spaces(1) or self._space()

    def _spaces(self, i: int) -> str:
        words = self.tables.get("space", {})
        spaces = [words[p] for p in self.parts[1:] if p in words]
        return spaces[i] if i < len(spaces) else ""

    def _count(self) -> str:
        vectors = [o for o in self.one.operands if o.kind is OperandKind.VECTOR]
        many = len(vectors[0].parts) if vectors else 1
        return f"{many} registers"

    def _float(self) -> str:
        table = self.tables.get("float", {})
        return next((table[t] for t in self.types if t in table), "")

    def _saturate(self) -> str:
        if "satfinite" in self.parts:
            return "kept within the type's finite range"
        if "sat" not in self.parts:
            return ""
        real = bool(self.types) and self.types[0] in self.tables.get("float", {})
        return "kept within 0…1" if real else "kept within the type's range"

    # -- integers ---------------------------------------------------------------------------

    def _power(self) -> str:
        by = self.number(1)
        return str(1 << by) if by is not None and 0 <= by < 128 else f"2^{self._letter(1)}"

    def _field(self) -> str:
        at, many = self.number(1), self.number(2)
        extended = ", sign-extended" if self.types and self.types[-1][0] == "s" else ""
        if at is None or many is None:
            text = f"{self._letter(2)} bits from bit {self._letter(1)} of {self._letter(0)}"
        elif many == 1:
            text = f"bit {at} of {self._letter(0)}"
        else:
            text = f"bits {at} to {at + many - 1} of {self._letter(0)}"
        return text + extended

    def _truth(self) -> str:
        table = self.number(3)
        names = [self._letter(i) for i in range(3)]
        if table is None:
            return f"{', '.join(names)} combined bit by bit, by table {self._letter(3)}"
        text = named(formula(table), names)
        return "all ones" if text == "1" else text

    def _pin(self) -> str:
        return self.say(self.args[-1]) if len(self.args) > 4 else ""

    def _picks(self) -> str:
        mode = self.words("prmt")
        selector = self.number(2)
        a, b = self._letter(0), self._letter(1)
        if selector is None or self.parts[-1] != "b32":
            return f"bytes of {a} and {b} that {self._letter(2)} picks ({self.parts[-1]})" + mode
        return byte_picks(a, b, selector)

    # -- comparing --------------------------------------------------------------------------

    def _set(self) -> str:
        signs = self.tables.get("compare", {})
        parts = [p for p in self.parts[1:] if p in signs or p in ("num", "nan")]
        a, b = self._letter(0), self._letter(1)
        if not parts:
            return f"{a} compared to {b}"
        if parts[0] in ("num", "nan"):
            text = f"neither {a} nor {b} is NaN" if parts[0] == "num" else f"{a} or {b} is NaN"
        else:
            text = self._compared(a, signs[parts[0]], b)
        joined = self.words("boolean")
        return f"({text}) {joined} {self._letter(2)}" if joined and len(self.args) > 2 else text

    @staticmethod
    def _compared(a: str, sign: str, b: str) -> str:
        head, _, or_nan = sign.partition(" ")
        return f"{a} {head} {b}" + (f", {or_nan}" if or_nan else "")

    def _also(self) -> str:
        joined = self.words("boolean")
        return f", {joined} {self._letter(2)}" if joined and len(self.args) > 2 else ""

    def _settype(self) -> str:
        return "1.0" if self.types and self.types[0] in ("f32", "f16", "bf16") else "all ones"


_LETTERS = "abcefgh"
