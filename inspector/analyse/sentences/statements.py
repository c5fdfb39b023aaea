"""The statements of each line of a PTX function, and where its registers and labels are used."""

from __future__ import annotations

from inspector.listing.line import Function, Kind, Line, Listing
from inspector.listing.ptx_declaration import register_declarations
from inspector.listing.ptx_operands import WordedStatement, pieces, statement
from inspector.listing.ptx_statement import AHEAD, strip

MAX_FOLLOWED_LINES = 131072
"""Lines of a function that are gone through for where things are defined and used: as many as a
listing keeps parsed. In a longer function every register goes by its own name."""

MAX_USES = 16

MAX_KEPT_LINES = 1024
"""Lines whose statements are kept taken apart."""


class Statements:
    """What stands on a line, and the ways between lines. Lines count from 1."""

    def __init__(self, listing: Listing, function: Function) -> None:
        self.listing = listing
        self.function = function
        self._kept: dict[int, tuple[WordedStatement, ...]] = {}
        self._defined: dict[str, int] = {}
        self._uses: dict[str, list[int]] = {}
        self._labels: dict[str, int] = {}
        self._jumps: dict[str, list[int]] = {}
        self._bits: dict[str, int] = {}
        self._indexed = False

    # -- lines ------------------------------------------------------------------------------

    def line(self, n: int) -> Line | None:
        """Line ``n`` of the listing."""
        lines = self.listing.lines
        return lines[n - 1] if 1 <= n <= len(lines) else None

    def code(self, n: int) -> str:
        """The code of line ``n`` without comments and, where a statement goes on, what follows."""
        lines = self.listing.lines
        text = lines[n - 1].text
        closing = text.find("*/")
        code, comment = strip(text, closing >= 0 and text.find("/*", 0, closing) < 0)
        if ";" in code or lines[n - 1].opcode is None:
            return code
        parts = [code]
        for line in lines[n : n + AHEAD]:
            if line.opcode is not None or line.kind is Kind.LABEL:
                break
            more, comment = strip(line.text, comment)
            if more.lstrip()[:1] != ".":
                parts.append(more)
            if ";" in more:
                break
        return " ".join(parts)

    def at(self, n: int) -> tuple[WordedStatement, ...]:
        """The instructions that begin on line ``n``."""
        kept = self._kept.get(n)
        if kept is None:
            if len(self._kept) > MAX_KEPT_LINES:
                self._kept.clear()
            kept = self._kept[n] = self._read(n)
        return kept

    def _read(self, n: int) -> tuple[WordedStatement, ...]:
        line = self.line(n)
        if line is None or line.opcode is None:
            return ()
        names = frozenset([r for r in (*line.defs, *line.uses) if r[0] != "%"])
        made = [statement(piece, names) for piece in pieces(self.code(n))]
        return tuple([one for one in made if one is not None])

    # -- ways -------------------------------------------------------------------------------

    def definition(self, register: str) -> int | None:
        """The line of a register's only definition, None if it has none, or several."""
        self._index()
        return self._defined.get(register) or None

    def uses(self, register: str) -> list[int]:
        """The first lines that use a register."""
        self._index()
        return self._uses.get(register, [])

    def bits(self, register: str) -> int:
        """The width that a register is declared with; 64 where it is not known."""
        self._index()
        family = register.rstrip("0123456789") + "<"
        return max(self._bits.get(register, 0), self._bits.get(family, 0)) or 64

    def label(self, name: str) -> int | None:
        """The line that a label stands on."""
        self._index()
        return self._labels.get(name)

    def jumps(self, name: str) -> list[int]:
        """The lines that may jump to a label."""
        self._index()
        return self._jumps.get(name, [])

    def _index(self) -> None:
        if self._indexed:
            return
        self._indexed = True
        first, last = self.function.first, self.function.last
        if last - first >= MAX_FOLLOWED_LINES or first < 1:
            return
        defined, uses = self._defined, self._uses
        for line in self.listing.between(first, last):
            n = line.n
            if line.kind is Kind.DIRECTIVE and ".reg" in line.text:
                self._declare(line.text)
            for register in line.defs:
                # 0: defined more than once
                defined[register] = 0 if register in defined else n
            for register in line.uses:
                seen = uses.setdefault(register, [])
                if len(seen) < MAX_USES:
                    seen.append(n)
            if line.label is not None:
                self._labels[line.label] = n
            for target in line.targets:
                self._jumps.setdefault(target, []).append(n)

    def _declare(self, text: str) -> None:
        """``.reg .b32 %r<28>;``: where a name is declared again, the widest counts."""
        for one in register_declarations(strip(text, False)[0]):
            for name, count in one.names if one.bits is not None else ():
                key = name if count is None else f"{name}<"
                self._bits[key] = max(one.bits or 0, self._bits.get(key, 0))
