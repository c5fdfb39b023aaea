"""Random programs on data: threads that part and meet, loops, every kind of memory, atomics, calls.

What a program stores follows from its inputs alone, in any order of a GPU's warps and
blocks: threads change nothing of one another's but by operations whose order does not matter, and
read what others wrote only behind a barrier. Instructions that talk to other lanes of the warp
stand where all of them are.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.execute import random_ptx
from tests.execute.random_ptx import BOUNDS, CLASSES, REGISTER, SPECIAL, Instruction

THREADS, BLOCKS = 64, 2
LANES = THREADS * BLOCKS
WORDS = 16
"""64-bit words that each lane stores at the end, and as many of private memory."""
SHARED_COUNTERS = 8
"""32-bit words of memory that all threads change, of a block in shared and of a grid in global."""

Array = np.ndarray[Any, Any]

REGISTERS = (
    ".reg .pred %p<499>;\n.reg .b16 %h<499>;\n.reg .b32 %r<499>;\n.reg .b64 %d<499>;\n"
    ".reg .b64 %x<9>;\n.reg .b32 %y<9>;\n"
)
SPARE = 490
"""Registers from this on are used within one statement."""

MODULE = """
.const .align 8 .b64 table[8] = {1, 0x8000000000000000, 0xFFFFFFFF, 0x3FF0000000000000, 255, 77,
  0x123456789ABCDEF0, 0xFFFFFFFFFFFFFFFF};
.func (.param .b32 result) mixed(.param .b32 left, .param .b32 right)
{
.reg .b32 %a<5>;
.reg .pred %q;
ld.param.b32 %a0, [left];
ld.param.b32 %a1, [right];
mad.lo.u32 %a2, %a0, %a1, 12345;
setp.lt.s32 %q, %a0, %a1;
@%q xor.b32 %a2, %a2, %a0;
st.param.b32 [result], %a2;
ret;
}
"""
"""What every program may read or call."""

WIDTHS = tuple(
    (kind, register, int(kind[1:]) // 8)
    for kind, register in zip(
        ("b8", "b16", "b32", "b64", "s8", "s16", "s32", "u16", "u8"), "rhrdrrddh", strict=True
    )
)
"""Types of a load or store, the register that it has, and bytes."""
REDUCTIONS = ("add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "add.s32", "inc.u32")
"""What all threads do to the counters: each counter has one operation, in any order the same."""
OWN_ATOMICS = ("add.u32", "exch.b32", *REDUCTIONS[1:6], "inc.u32", "dec.u32")


UNGUARDED = ("testp.", "set.")
"""What stands under no guard: ptxas of CUDA 13.0 and 13.4 drops the guard of ``testp``, and of the
conversion that it makes of ``set`` to ``.f32`` (``@%p testp`` writes its result always)."""
ALONE = ("cnot.", "abs.s16", "neg.s16", "cvt.sat.s32.s64", "cvt.sat.u32.u64")
"""What is tried alone and not among others: of ``cnot`` ptxas takes the 1 as 1.0 where a conversion
from floating point follows, of −32768 it keeps the 17th bit, and it makes one conversion of two,
of which a NaN gives something else."""
OUTSIDE_LOOPS = ("mad.hi.",)
"""ptxas 13.0 makes two of four turns of ``mad.hi`` in a loop that adds up; 13.4 makes four."""


def works_on_data(one: Instruction) -> bool:
    """Whether an instruction may stand anywhere in a program."""
    return "sync" not in one[0] and not one[0].startswith(ALONE)


class Writer:
    """Writes one program."""

    def __init__(self, seed: int, chosen: list[Instruction]) -> None:
        self.rng = random.Random(seed)
        self.plain = [one for one in chosen if works_on_data(one)]
        self.warp = [one for one in chosen if "sync" in one[0]]
        self.turning = 0
        self.registers: dict[str, list[str]] = {kind: [] for kind in "hrdp"}
        self.body: list[str] = []
        self.count = 20
        self.labels = 0

    def fresh(self, kind: str) -> str:
        """A register that nothing has written."""
        self.count += 1
        assert self.count < SPARE - 1
        return f"{REGISTER[kind]}{self.count}"

    def pick(self, kind: str) -> str:
        """A register that has a value on every way here."""
        own = SPECIAL.get(kind, kind)
        pool = {"f": "r", "E": "r", "B": "r", "g": "d", "e": "h", "b": "h"}.get(own, own)
        register = self.rng.choice(self.registers[pool])
        if kind not in BOUNDS:
            return register
        bounded = self.fresh(SPECIAL[kind])
        self.body.append(f"mov.b{CLASSES[own]} {bounded}, {register};")
        self.body += random_ptx.bounded(kind, bounded)
        return bounded

    def keep(self, kind: str, register: str) -> None:
        """A value that what follows may read; an old one is forgotten where there are many."""
        pool = {"%r": "r", "%h": "h", "%d": "d", "%p": "p"}[REGISTER[kind]]
        names = self.registers[pool]
        if register not in names:
            names.append(register)
            if len(names) > 8:
                names.pop(self.rng.randrange(len(names)))

    def target(self, kind: str, certain: bool) -> str:
        """Where a result goes: an old register where not every thread will write it."""
        if certain and self.count < 140 and self.rng.random() < 0.8:
            return self.fresh(kind)
        pool = {"%r": "r", "%h": "h", "%d": "d", "%p": "p"}[REGISTER[kind]]
        return self.rng.choice(self.registers[pool])

    def instruction(self, one: Instruction, certain: bool, guard: str = "") -> None:
        """One instruction of the table, on values that are there."""
        opcode, kind, sources = one
        operands = [
            text if text[0] in "-0" else self.pick(text) for text in random_ptx.sources_of(sources)
        ]
        result = self.target(kind, certain and not guard)
        self.body.append(f"{guard}{opcode} {result}, {', '.join(operands)};")
        self.body += random_ptx.quieted(kind, result, SPARE)
        self.keep(kind, result)

    def any_instruction(self, certain: bool) -> None:
        guard, one = "", self.rng.choice(self.plain)
        while self.turning and one[0].startswith(OUTSIDE_LOOPS):
            one = self.rng.choice(self.plain)
        if self.rng.random() < 0.15 and not one[0].startswith(UNGUARDED):
            guard = f"@{self.rng.choice(['', '!'])}{self.pick('p')} "
        self.instruction(one, certain, guard)

    def parting(self, depth: int) -> None:
        """Two ways, of which each thread goes one."""
        self.labels += 1
        other, end = f"$E{self.labels}", f"$J{self.labels}"
        self.body.append(f"@{self.pick('p')} bra {other};")
        self.statements(self.rng.randint(1, 3), depth + 1)
        if self.rng.random() < 0.5:
            self.body.append(f"bra {end};")
        self.body.append(f"{other}:")
        self.statements(self.rng.randint(1, 2), depth + 1)
        self.body.append(f"{end}:")

    def loop(self, depth: int) -> None:
        """As many turns as the thread's value says, up to four."""
        self.labels += 1
        counter, guard, begin = self.fresh("r"), f"%p{SPARE + depth}", f"$L{self.labels}"
        self.body += [f"and.b32 {counter}, {self.pick('r')}, 3;", f"{begin}:"]
        self.turning += 1
        self.statements(self.rng.randint(1, 3), depth + 1)
        self.turning -= 1
        self.body += [
            f"sub.s32 {counter}, {counter}, 1;",
            f"setp.ge.s32 {guard}, {counter}, 0;",
            f"@{guard} bra {begin};",
        ]

    def own_memory(self, certain: bool) -> None:
        """A load or a store of what is the thread's own, at a place that may be computed."""
        space, base = self.rng.choice(
            (("global", "%x5"), ("local", "%x6"), ("shared", "%y5"), ("", "%x5"), ("", "%x8"))
        )
        kind, register, size = self.rng.choice(WIDTHS)
        place = size * self.rng.randrange(WORDS * 8 // size)
        where = f"[{base}+{place}]"
        dot = f".{space}" if space else ""
        if self.rng.random() < 0.3:  # at a word that the thread computes
            address = "%y7" if space == "shared" else "%x7"
            width = 32 if space == "shared" else 64
            self.body.append(f"and.b32 %y6, {self.pick('r')}, {WORDS - 1};")
            self.body.append("shl.b32 %y6, %y6, 3;")
            self.body.append("cvt.u64.u32 %x7, %y6;" if width == 64 else "mov.b32 %y7, %y6;")
            self.body.append(f"add.s{width} {address}, {address}, {base};")
            where = f"[{address}]"
        way = self.rng.randrange(4)
        if way == 0:
            result = self.target(register, certain)
            self.body.append(f"ld{dot}.{kind} {result}, {where};")
            self.keep(register, result)
        elif way == 1:
            word = kind.replace("s", "b").replace("u", "b")
            source = self.pick({"b8": "h", "b16": "h", "b32": "r", "b64": "d"}[word])
            self.body.append(f"st{dot}.{word} {where}, {source};")
        elif way == 2:
            count = self.rng.choice((2, 4))
            place = 16 * self.rng.randrange(WORDS // 2)
            results = [self.fresh("r") if certain else f"%r{SPARE + k}" for k in range(count)]
            self.body.append(f"ld{dot}.v{count}.b32 {{{', '.join(results)}}}, [{base}+{place}];")
            for result in results if certain else []:
                self.keep("r", result)
        else:
            place = 16 * self.rng.randrange(WORDS // 2)
            self.body.append(
                f"st{dot}.v2.b64 [{base}+{place}], {{{self.pick('d')}, {self.pick('d')}}};"
            )

    def atomic(self, certain: bool) -> None:
        """A counter that all change, or a word of the thread's own that gives its old value."""
        if self.rng.random() < 0.5:
            n = self.rng.randrange(SHARED_COUNTERS)
            space, base = self.rng.choice((("global", "%x1"), ("shared", "%y4")))
            operand = "37" if REDUCTIONS[n].startswith("inc") else self.pick("r")
            self.body.append(f"red.{space}.{REDUCTIONS[n]} [{base}+{4 * n}], {operand};")
            return
        space, base = self.rng.choice((("global", "%x5"), ("shared", "%y5")))
        place = 4 * self.rng.randrange(2 * WORDS)
        result = self.target("r", certain)
        if self.rng.random() < 0.3:
            self.body.append(
                f"atom.{space}.cas.b32 {result}, [{base}+{place}], "
                f"{self.pick('r')}, {self.pick('r')};"
            )
        else:
            self.body.append(
                f"atom.{space}.{self.rng.choice(OWN_ATOMICS)} {result}, "
                f"[{base}+{place}], {self.pick('r')};"
            )
        self.keep("r", result)

    def called(self, certain: bool) -> None:
        """A call of a function, or a constant at a place that is computed."""
        if self.rng.random() < 0.5:
            left, right = self.pick("r"), self.pick("r")
            result = self.target("r", certain)
            self.body += [
                "{",
                ".param .b32 one;",
                ".param .b32 two;",
                ".param .b32 back;",
                f"st.param.b32 [one], {left};",
                f"st.param.b32 [two], {right};",
                "call.uni (back), mixed, (one, two);"
                if certain
                else "call (back), mixed, (one, two);",
                f"ld.param.b32 {result}, [back];",
                "}",
            ]
            self.keep("r", result)
            return
        result = self.target("d", certain)
        self.body += [
            f"and.b32 %y6, {self.pick('r')}, 7;",
            "shl.b32 %y6, %y6, 3;",
            "cvt.u64.u32 %x7, %y6;",
            "mov.u64 %x2, table;",
            "add.s64 %x7, %x7, %x2;",
            f"ld.const.b64 {result}, [%x7];",
        ]
        self.keep("d", result)

    def together(self) -> None:
        """What only all threads can do: votes, shuffles, other threads' words behind a barrier."""
        if self.warp and self.rng.random() < 0.6:
            self.instruction(self.rng.choice(self.warp), certain=True)
            return
        if self.rng.random() < 0.4:
            result = self.fresh("p")
            self.body.append(
                f"barrier.cta.red.{self.rng.choice(('and', 'or'))}.pred {result}, 0, "
                f"{self.pick('p')};"
            )
            self.keep("p", result)
            return
        result, other = self.fresh("d"), self.rng.randrange(1, THREADS)
        self.body += [
            f"st.shared.b64 [%y5], {self.pick('d')};",
            "bar.sync 0;",
            f"xor.b32 %y6, %y1, {other};",
            f"mad.lo.u32 %y6, %y6, {8 * WORDS}, %y3;",
            f"ld.shared.b64 {result}, [%y6];",
            "bar.sync 0;",
        ]
        self.keep("d", result)

    def statements(self, count: int, depth: int) -> None:
        """So many statements of any kind."""
        rng, certain = self.rng, depth == 0
        for _ in range(count):
            way = rng.random()
            if way < 0.08 and depth < 3:
                self.parting(depth)
            elif way < 0.13 and depth < 2:
                self.loop(depth)
            elif way < 0.28:
                self.own_memory(certain)
            elif way < 0.35:
                self.atomic(certain)
            elif way < 0.40:
                self.called(certain)
            elif way < 0.48 and certain:
                self.together()
            else:
                self.any_instruction(certain)

    def beginning(self) -> None:
        """Addresses, memory of the thread's own, and its first values."""
        self.body += [
            "ld.param.b64 %x0, [a];",
            "ld.param.b64 %x1, [b];",
            "mov.u32 %y1, %tid.x;",
            "mov.u32 %y2, %ctaid.x;",
            f"mad.lo.u32 %y0, %y2, {THREADS}, %y1;",
            "mad.wide.u32 %x2, %y0, 32, %x0;",
            f"add.s64 %x5, %x1, {4 * SHARED_COUNTERS};",
            f"mad.wide.u32 %x5, %y0, {8 * WORDS}, %x5;",
            "mov.u64 %x6, depot;",
            "mov.u32 %y3, words;",
            f"mad.lo.u32 %y5, %y1, {8 * WORDS}, %y3;",
            "mov.u32 %y4, counters;",
            "cvt.u64.u32 %x8, %y5;",
            "cvta.shared.u64 %x8, %x8;",
        ]
        for k in range(4):
            word = self.fresh("d")
            self.body.append(f"ld.global.b64 {word}, [%x2+{8 * k}];")
            self.keep("d", word)
            low, high, half, sign = (self.fresh(kind) for kind in "rrhp")
            self.body += [
                f"mov.b64 {{{low}, {high}}}, {word};",
                f"cvt.u16.u64 {half}, {word};",
                f"setp.lt.s64 {sign}, {word}, 0;",
            ]
            for kind, register in (("r", low), ("r", high), ("h", half), ("p", sign)):
                self.keep(kind, register)
        for k in range(WORDS):
            word = self.rng.choice(self.registers["d"])
            self.body += [
                f"st.local.b64 [%x6+{8 * k}], {word};",
                f"st.shared.b64 [%y5+{8 * k}], {word};",
            ]
        self.body += [
            "setp.eq.u32 %p489, %y1, 0;",
            *(f"@%p489 st.shared.b32 [%y4+{4 * n}], 0;" for n in range(SHARED_COUNTERS)),
            "bar.sync 0;",
        ]

    def ending(self) -> None:
        """Stores what there is: registers, then sums of what memory holds."""
        place = 0
        for kind in "rdhp":
            for register in self.registers[kind][-3:]:
                self.body += [
                    random_ptx.widened(kind, register, "%x4"),
                    f"st.global.b64 [%x3+{8 * place}], %x4;",
                ]
                place += 1
        self.body.append("bar.sync 0;")
        for space, base, words in (
            ("local", "%x6", WORDS),
            ("shared", "%y5", WORDS),
            ("shared", "%y4", SHARED_COUNTERS // 2),
        ):
            self.body.append("mov.b64 %x4, 0;")
            for k in range(words):
                self.body += [
                    f"ld.{space}.b64 %x7, [{base}+{8 * k}];",
                    "mul.lo.u64 %x4, %x4, 31;",
                    "add.u64 %x4, %x4, %x7;",
                ]
            self.body.append(f"st.global.b64 [%x3+{8 * place}], %x4;")
            place += 1
        assert place <= WORDS


def entry(name: str, seed: int, chosen: list[Instruction], length: int = 30) -> str:
    """A kernel of two pointers: words of :func:`random_ptx.words`, and :func:`memory_for`."""
    writer = Writer(seed, chosen)
    writer.beginning()
    out = 4 * SHARED_COUNTERS + 8 * WORDS * LANES
    writer.body += [f"add.s64 %x3, %x1, {out};", f"mad.wide.u32 %x3, %y0, {8 * WORDS}, %x3;"]
    writer.statements(length, 0)
    writer.ending()
    spaces = (
        f".local .align 16 .b8 depot[{8 * WORDS}];\n"
        f".shared .align 16 .b8 words[{8 * WORDS * THREADS}];\n"
        f".shared .align 16 .b8 counters[{4 * SHARED_COUNTERS}];\n"
    )
    body = "\n".join([*writer.body, "ret;"])
    return (
        f".visible .entry {name}(.param .b64 a, .param .b64 b)\n.reqntid {THREADS}\n"
        f"{{\n{REGISTERS}{spaces}{body}\n}}\n"
    )


def module(seeds: range, chosen: list[Instruction]) -> str:
    """A PTX text of programs ``p<seed>``."""
    return random_ptx.HEAD + MODULE + "".join(entry(f"p{k}", k, chosen) for k in seeds)


def memory_for(seed: int) -> Array:
    """Counters, words of every lane, and room for what each stores, as bytes."""
    counters = np.arange(SHARED_COUNTERS, dtype=np.uint32)
    own = random_ptx.words(LANES * WORDS // 4, seed + 1).reshape(-1)
    room = np.zeros(LANES * WORDS, np.uint64)
    return np.concatenate([counters.view(np.uint8), own.view(np.uint8), room.view(np.uint8)])
