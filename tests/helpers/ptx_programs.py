"""Random PTX programs, with what they mean kept beside their text, and slow but plain analyses.

What is live or reaches is found here by walking paths from one instruction to the next, one
register and one instruction at a time: nothing is shared with the code that is tested.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from hypothesis import strategies as st

CLASSES = {"%r": "b32", "%rd": "b64", "%p": "pred", "%f": "f32"}


@dataclass(frozen=True)
class Instruction:
    text: str
    defs: tuple[str, ...]
    uses: tuple[str, ...]
    guarded: bool
    jumps: tuple[int, ...] = ()
    falls: bool = True


@dataclass(frozen=True)
class Program:
    """``lines[i]`` is the line of ``code[i]`` in ``text``."""

    text: str
    code: tuple[Instruction, ...]
    lines: tuple[int, ...]

    def after(self, i: int) -> tuple[int, ...]:
        out = list(self.code[i].jumps)
        if self.code[i].falls:
            out.append(i + 1)
        return tuple(sorted({o for o in out if o < len(self.code)}))

    def registers(self) -> set[str]:
        return {r for one in self.code for r in (*one.defs, *one.uses)}

    def live_after(self, i: int, register: str) -> bool:
        """Whether a path from the end of ``i`` reads ``register`` before it is overwritten."""
        return bool(self.readers(i, register))

    def readers(self, i: int, register: str) -> set[int]:
        """Instructions that may read what ``i`` writes to ``register``."""
        return set(self._hits(i, lambda j: register in self.code[j].uses, self._stops(register)))

    def writers(self, i: int, register: str) -> set[int]:
        """Instructions whose write of ``register`` may be what ``i`` reads."""
        return {
            j
            for j, one in enumerate(self.code)
            if register in one.defs and register in self.code[i].uses
            if i in self._hits(j, lambda k: k == i, self._stops(register))
        }

    def _stops(self, register: str) -> Callable[[int], bool]:
        return lambda j: register in self.code[j].defs and not self.code[j].guarded

    def _hits(
        self, start: int, hit: Callable[[int], bool], stop: Callable[[int], bool]
    ) -> list[int]:
        out, seen, work = [], set(), list(self.after(start))
        while work:
            here = work.pop()
            if here in seen:
                continue
            seen.add(here)
            if hit(here):
                out.append(here)
            if not stop(here):
                work += self.after(here)
        return out


# Made once: Hypothesis looks through each strategy that is made, which took half of all.
r, rd, p, f = (
    st.sampled_from([f"{prefix}{i}" for i in range(4)]) for prefix in ("%r", "%rd", "%p", "%f")
)
guards = st.none() | p


@cache
def instructions(size: int) -> st.SearchStrategy[Instruction]:
    return _instructions(size)


@st.composite
def _instructions(draw: st.DrawFn, size: int) -> Instruction:
    kind = draw(st.integers(0, 11))
    guard = draw(guards)
    negated = draw(st.booleans())
    head = f"@{'!' if negated else ''}{guard} " if guard else ""
    uses: list[str] = [guard] if guard else []
    defs: list[str] = []
    jumps: tuple[int, ...] = ()
    falls = True
    if kind <= 2:
        defs, used = [draw(r)], [draw(r), draw(r)]
        text = f"add.s32 {defs[0]}, {used[0]}, {used[1]};"
    elif kind == 3:
        defs, used = [draw(p)], [draw(r)]
        text = f"setp.ne.s32 {defs[0]}, {used[0]}, 0;"
    elif kind == 4:
        defs, used = [draw(r), draw(r)], [draw(rd)]
        text = f"mov.b64 {{{defs[0]}, {defs[1]}}}, {used[0]};"
    elif kind == 5:
        defs, used = [draw(f), draw(f)], [draw(rd)]
        text = f"ld.global.v2.f32 {{ {defs[0]}, {defs[1]} }}, [ {used[0]} + 8 ];"
    elif kind == 6:
        used = [draw(rd), draw(f), draw(f)]
        text = f"st.global.v2.f32 [{used[0]}], {{{used[1]}, {used[2]}}};"
    elif kind == 7:
        defs, used = [draw(rd)], [draw(rd), draw(r)]
        text = f"mad.wide.s32 {defs[0]}, {used[1]}, 4, {used[0]};"
    elif kind <= 9:
        used = []
        jumps = (draw(st.integers(0, size - 1)),)
        text = f"bra $L{jumps[0]};"
        falls = guard is not None
    elif kind == 10:
        used = []
        text = draw(st.sampled_from(("ret;", "exit;", "trap;")))
        falls = guard is not None
    else:
        used = [draw(r)]
        jumps = tuple(sorted({draw(st.integers(0, size - 1)) for _ in range(3)}))
        listed = ", ".join(f"$L{j}" for j in jumps)
        text = f"brx.idx {used[0]}, $T%;\0{listed}"
        falls = guard is not None
    uses += used
    return Instruction(
        head + text,
        tuple(dict.fromkeys(defs)),
        tuple(dict.fromkeys(uses)),
        guard is not None,
        jumps,
        falls,
    )


@st.composite
def programs(draw: st.DrawFn, most: int = 24) -> Program:
    """A kernel with branches, loops, guards, vectors, tables of targets and redefinitions."""
    size = draw(st.integers(1, most))
    code = [draw(instructions(size)) for _ in range(size)]
    lines = [
        ".version 8.0",
        ".target sm_90",
        ".visible .entry f(",
        ".param .u64 f_param_0",
        ")",
        "{",
        ".reg .pred %p<4>;",
        ".reg .b32 %r<4>;",
        ".reg .b64 %rd<4>;",
        ".reg .f32 %f<4>;",
    ]
    at = []
    targets = {j for one in code for j in one.jumps}
    for i, one in enumerate(code):
        if i in targets or draw(st.booleans()):
            lines.append(f"$L{i}:")
        text, _, listed = one.text.partition("\0")
        text = text.replace("$T%", f"$T{i}")
        if listed:
            lines.append(f"$T{i}: .branchtargets {listed};")
        lines.append(f"\t{text}")
        at.append(len(lines))
        if draw(st.integers(0, 5)) == 0:
            lines.append("\t.loc 1 3 4" if draw(st.booleans()) else "// a comment { with a brace")
    lines.append("}")
    return Program("\n".join(lines), tuple(code), tuple(at))
