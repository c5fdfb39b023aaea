"""What an opcode does, in words that all stages share: the table of reference/operations.toml."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from inspector.base.model import Stage
from inspector.listing.line import Line

Table = Mapping[str, Mapping[str, Sequence[str]]]
Does = frozenset[str]

NOTHING: Does = frozenset()
LANGUAGE = {
    Stage.TTIR: "mlir",
    Stage.TTGIR: "mlir",
    Stage.LLIR: "llvm",
    Stage.PTX: "ptx",
    Stage.SASS: "sass",
}
# PTX in a string of LLVM IR: an opcode at the string's beginning or after a separator.
_ASSEMBLY = re.compile(
    r"(?:[\"{;]|0[9A]|\}|p\d|\$\d)\s*+([a-z][a-z0-9_]{1,15}(?:[.:]+[a-z0-9_]++)*+)"
)
_CALLED = re.compile(r"@(?:llvm\.)?([\w.]++)\(")
_PYTHON = re.compile(
    r"(?<!\w)(?<!\w\.)([A-Za-z_]\w*+(?:\.\w++)*+)\(|(\.to)\(|\s([-+*/<>&|^]|[<>=!]=|<<|>>)\s"
)
_FLOAT = re.compile(r"(?:bf|f|tf|e\dm|ue\dm)\d")
_WORD = re.compile(r"[a-z]\d")


class Operations:
    """Opcodes to operations. Without a table no opcode is known, and all links are by place."""

    def __init__(self, table: Table | None = None) -> None:
        self._names: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for operation, languages in (table or {}).items():
            for language, names in languages.items():
                for name in names:
                    self._names[language][name].add(operation)
        self._memo: dict[tuple[str, str], Does] = {}

    def of(self, line: Line, stage: Stage) -> Does:
        """What a line of a lowered stage does; empty where that is not known."""
        if line.opcode is None:
            return NOTHING
        language = LANGUAGE.get(stage)
        if language == "llvm" and (line.base == "call" or "call" in line.opcode):
            return self._call(line.text)
        return self.named(language, line.opcode) if language else NOTHING

    def named(self, language: str, opcode: str) -> Does:
        """What an opcode (or a name of ``python`` or ``aten``) does."""
        key = (language, opcode)
        known = self._memo.get(key)
        if known is None:
            known = self._memo[key] = self._find(language, opcode)
        return known

    def _find(self, language: str, opcode: str) -> Does:
        names = self._names.get(language)
        if not names:
            return NOTHING
        word = opcode.split(None, 1)[0] if " " in opcode else opcode
        parts = word.split(".")
        for end in range(len(parts), 1, -1):
            if found := names.get(".".join(parts[:end])):
                return frozenset(found)
        kind = _kind(parts) if language == "ptx" else None
        found = names.get(parts[0]) or (names.get(f"{parts[0]}/{kind}") if kind else None)
        return frozenset(found or ())

    def _call(self, text: str) -> Does:
        # One call may hold a whole statement of PTX; it does all that is in it.
        out: set[str] = set()
        _, assembly, rest = text.partition(" asm ")
        if assembly:
            for name in _ASSEMBLY.findall(rest):
                out |= self.named("ptx", name)
        elif called := _CALLED.search(text):
            out |= self.named("llvm", called[1])
        return frozenset(out)

    def python(self, text: str) -> Does:
        """What a line of generated Python calls and computes."""
        out: set[str] = set()
        for called, method, sign in _PYTHON.findall(text):
            out |= self.named("python", called or method or sign)
            if called.endswith(".to"):
                out |= self.named("python", ".to")
        return frozenset(out)

    def aten(self, target: str) -> Does:
        """What ``aten.mul.Tensor`` does; empty where the operator is not in the table."""
        parts = target.removeprefix("torch.ops.").split(".")
        if len(parts) > 1 and parts[0] in ("aten", "prims", "inductor"):
            return self.named("aten", parts[1])
        return NOTHING


def _kind(parts: Sequence[str]) -> str | None:
    """``f`` or ``i`` by the type that an opcode of PTX ends with, None if it names none."""
    for part in reversed(parts[1:]):
        if _FLOAT.match(part):
            return "f"
        if _WORD.match(part):
            return "i"
    return None
