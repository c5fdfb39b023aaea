"""The pieces of sentences of threads together, of matrices and of copies, and of calls.

Written from the PTX ISA, chapter "Instruction Set".
"""

from __future__ import annotations

import re

from inspector.analyse.sentences.basic import BITS, Basic
from inspector.analyse.sentences.operands import Kind, Operand

_SHAPE = re.compile(r"m(\d{1,9}+)(?!\d)n(\d{1,9}+)(?!\d)k(\d{1,9}+)(?!\d)\Z")
_TILE = re.compile(r"m(\d{1,9}+)(?!\d)n(\d{1,9}+)(?!\d)\Z")


class Pieces(Basic):
    """All pieces of one instruction."""

    # -- threads ----------------------------------------------------------------------------

    def _waits(self) -> str:
        left = self.number(0)
        return "none" if left == 0 else f"at most {self._letter(0)}"

    def _who(self) -> str:
        who = f"{self._letter(1)} threads" if len(self.args) > 1 else "all threads of the block"
        return f"{who} are"

    def _lanes(self) -> str:
        mask = self.number(-1)
        if "sync" not in self.parts:
            return "the warp"
        if mask is None:
            text = f"the lanes in {self._last()}"
        elif mask % (1 << 32) == (1 << 32) - 1:
            text = "the whole warp"
        else:
            text = f"the lanes of mask 0x{mask % (1 << 32):x}"
        limits = self.number(2) if self.parts[0] == "shfl" else None
        apart = 32 - (limits >> 8 & 31) if limits is not None else 32
        return f"{text}, in groups of {apart}" if apart < 32 else text

    # -- matrices ---------------------------------------------------------------------------

    def _shape(self) -> str:
        found = next((size for p in self.parts if (size := _SHAPE.match(p))), None)
        if found is None:
            return "matrices"
        m, n, k = found.groups()
        types = self.types
        if len(types) == 2 and self.parts[0] == "wmma":  # the sums' alone: the factors are f16
            types = [types[0], "f16", "f16"]
        if len(types) >= 3:
            d, a, b = types[0], types[1], types[2]
            return f"{m}×{k} {a} by {k}×{n} {b}, sums of {m}×{n} in {d}"
        return f"{m}×{k} by {k}×{n}" + (f" in {types[0]}" if types else "")

    def _share(self) -> str:
        """Which matrix ``wmma.load`` and ``wmma.store`` move."""
        found = next((s for p in self.parts if (s := _SHAPE.match(p))), None)
        which = next((part for part in self.parts[1:] if part in ("a", "b", "c", "d")), "")
        if found is None or not which:
            return "a matrix"
        m, n, k = found.groups()
        size = {"a": f"{m}×{k}", "b": f"{k}×{n}"}.get(which, f"{m}×{n}")
        return f"matrix {which.upper()}, {size}" + (f" {self.types[-1]}" if self.types else "")

    def _tiles(self) -> str:
        found = next((m for p in self.parts if (m := _TILE.match(p))), None)
        size = f"{found[1]}×{found[2]}" if found else "8×8"
        bits = self.types[-1][1:] if self.types else "16"
        many = next((p[1:] for p in self.parts if re.fullmatch(r"x[124]", p)), "1")
        plural = f"{many} {size} matrices" if many != "1" else f"one {size} matrix"
        return f"{plural} of {bits}-bit elements"

    def _eachlane(self) -> str:
        many = next((int(p[1:]) for p in self.parts if re.fullmatch(r"x[124]", p)), 1)
        found = next((tile for p in self.parts if (tile := _TILE.match(p))), None)
        return f"0…{min(32, many * (int(found[1]) if found else 8)) - 1}"

    def _sum(self) -> str:
        product = f"{self._letter(0)} · {self._letter(1)}"
        d = self._d() or "its registers"
        fresh = self.added()
        if fresh is None:
            return f"{d} = {product}, + what it was if {self._letter(2)}"
        return f"{d} += {product}" if fresh else f"{d} = {product}"

    def added(self) -> bool | None:
        """Whether wgmma adds to its accumulator; None where a predicate says so."""
        if len(self.args) < 3:
            return True
        fresh = self.number(2)
        return bool(fresh) if fresh is not None else None

    def _half(self) -> str:
        found = BITS.match(self.types[-1]) if self.types else None
        if "wide" in self.parts and found:
            return f"as {2 * int(found[1])} bits"
        return self.words("half")

    def _flag(self) -> str:
        value = self.number(0)
        return self._letter(0) if value is None else "true" if value else "false"

    def _enable(self) -> str:
        after = 5 if "sp" in self.parts else 4
        later = [a for a in self.args[after:] if a.kind in (Kind.REGISTER, Kind.NUMBER, Kind.NAME)]
        return self.say(later[0]) if later else ""

    def _tmem(self) -> str:
        return ", ".join(p for p in self.parts if re.fullmatch(r"\d+x\d+b|x\d+|32x32b", p))

    # -- copies -----------------------------------------------------------------------------

    def _source(self) -> str:
        """How much of what ``cp.async`` writes is read."""
        if len(self.args) - ("L2::cache_hint" in self.parts) < 4:
            return ""
        if self.is_predicate(self.args[3]):
            return f"if {self._letter(3)} nothing is read, and all are 0"
        return f"only {self._letter(3)} of them are read, the others are 0"

    def is_predicate(self, one: Operand) -> bool:
        """Whether an operand is a predicate, by its name where no more is known."""
        return one.kind is Kind.REGISTER and one.name.startswith("%p")

    def _tensor(self) -> int:
        """Which address is a tensor map with its coordinates."""
        return next((i for i, a in enumerate(self.addresses) if len(a.parts) > 1), 0)

    def _map(self) -> str:
        return self.say(self.addresses[self._tensor()].parts[0]) if self.addresses else ""

    def _coordinates(self) -> str:
        if not self.addresses or len(self.addresses[self._tensor()].parts) < 2:
            return ""
        vector = self.addresses[self._tensor()].parts[1]
        return " at " + ", ".join(self.say(p) for p in vector.parts or (vector,))

    def _dimensions(self) -> str:
        digit = next((p[0] for p in self.parts if re.fullmatch(r"[1-5]d", p)), "several")
        return f"{digit}-dimensional"

    def _direction(self) -> str:
        if self._tensor() == 0:
            return f"from shared memory at {self._at2()}"
        return f"to {self._space()} at {self._at()}"

    def _completion(self) -> str:
        if "bulk_group" in self.parts:
            return "it belongs to the group that is closed next"
        if len(self.addresses) > 2:
            return f"the barrier at {self._nth_address(2)} counts the bytes"
        return ""

    def _call(self) -> str:
        groups = [o for o in self.one.operands if o.kind is Kind.GROUP]
        callee = next((o for o in self.one.operands if o.kind is not Kind.GROUP), None)
        if callee is None:
            return "a function"
        at = self.one.operands.index(callee)
        given = [g for g in groups if self.one.operands.index(g) < at]
        taken = [g for g in groups if g not in given]
        inside = ", ".join(self.say(p) for p in taken[0].parts) if taken else ""
        text = (
            f"{callee.text}({inside})"
            if callee.kind is Kind.NAME
            else f"the function at {callee.text}({inside})"
        )
        out = ", ".join(self.say(p) for p in given[0].parts) if given else ""
        return f"{text}, which gives {out}" if out else text
