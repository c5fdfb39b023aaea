"""Instructions as PTX that runs them, on operands in memory or constants; random programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Instruction = tuple[str, str, str]
"""Opcode, the kind that it writes, the kinds that it reads."""

# Each line: opcodes, a bar, what they write and read. h, r, d: 16, 32, 64 bits; f, g: fp32, fp64;
# e, b: fp16, bf16; E, B: pairs of them; p: a predicate; small letters after = are written.
# {a,b}: each in turn. A number is itself; n is an odd divisor, s a shift, c a count to 64.
TABLE = """
{add,sub,mul.lo,mul.hi,min,max}.{u16,s16} | h=hh
{add,sub,mul.lo,mul.hi,min,max}.{u32,s32} | r=rr
{add,sub,mul.lo,mul.hi,min,max}.{u64,s64} | d=dd
{add.sat,sub.sat}.s32 | r=rr
{div,rem}.{u16,s16} | h=hm
{div,rem}.{u32,s32} | r=rn
{div,rem}.{u64,s64} | d=do
{abs,neg}.s16 | h=h
{abs,neg}.s32 | r=r
{abs,neg}.s64 | d=d
mul.wide.{u16,s16} | r=hh
mul.wide.{u32,s32} | d=rr
mad.wide.{u16,s16} | r=hhr
mad.wide.{u32,s32} | d=rrd
{mad.lo,mad.hi}.{u32,s32} | r=rrr
{mad.lo,mad.hi}.{u64,s64} | d=ddd
mad.hi.sat.s32 | r=rrr
{mul24.lo,mul24.hi}.{u32,s32} | r=rr
{mad24.lo,mad24.hi}.{u32,s32} | r=rrr
sad.{u32,s32} | r=rrr
sad.{u64,s64} | d=ddd
sad.{u16,s16} | h=hhh
{popc,clz}.b32 | r=r
{popc,clz}.b64 | r=d
brev.b32 | r=r
brev.b64 | d=d
{bfind,bfind.shiftamt}.{u32,s32} | r=r
{bfind,bfind.shiftamt}.{u64,s64} | r=d
bfe.{u32,s32} | r=rcc
bfe.{u64,s64} | d=dcc
bfi.b32 | r=rrcc
bfi.b64 | d=ddcc
bmsk.{clamp,wrap}.b32 | r=cc
szext.{clamp,wrap}.{u32,s32} | r=rc
fns.b32 | r=rtu
dp4a.{u32,s32}.{u32,s32} | r=rrr
{dp2a.lo,dp2a.hi}.{u32,s32}.{u32,s32} | r=rrr
{and,or,xor}.b16 | h=hh
{and,or,xor}.b32 | r=rr
{and,or,xor}.b64 | d=dd
{not,cnot}.b16 | h=h
{not,cnot}.b32 | r=r
{not,cnot}.b64 | d=d
{shl.b16,shr.u16,shr.s16} | h=hc
{shl.b32,shr.u32,shr.s32} | r=rc
{shl.b64,shr.u64,shr.s64} | d=dc
{shf.l.wrap,shf.r.wrap,shf.l.clamp,shf.r.clamp}.b32 | r=rrc
lop3.b32 | r=rrr0x{17,96,e8,ca,b8}
{prmt.b32,prmt.b32.f4e,prmt.b32.b4e,prmt.b32.rc8,prmt.b32.ecl,prmt.b32.ecr,prmt.b32.rc16} | r=rrr
setp.{eq,ne,lt,le,gt,ge}.{u32,s32} | p=rr
setp.{lo,ls,hi,hs}.u32 | p=rr
setp.{eq,ne,lt,le,gt,ge}.{u64,s64} | p=dd
setp.{eq,lt,ge}.{u16,s16} | p=hh
setp.{lt.and,ne.or,ge.xor}.s32 | p=rrp
setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f32 | p=ff
setp.{lt,geu,ne,num}.ftz.f32 | p=ff
setp.{eq,ne,lt,leu,nan}.f64 | p=gg
setp.{eq,ne,lt,leu,nan}.f16 | p=ee
set.{eq,ne,lt,gt}.u32.s32 | r=rr
set.{lt,gtu}.u32.f32 | r=ff
set.{lt,gtu}.f32.f32 | f=ff
selp.b32 | r=rrp
selp.b64 | d=ddp
slct.b32.s32 | r=rrr
slct.u64.f32 | d=ddf
cvt.{u8,s8}.{u32,s32} | r=r
cvt.sat.{u8,s8,u16,s16}.{u32,s32} | r=r
cvt.sat.{u32,s32}.{u64,s64} | r=d
cvt.{u32,s32}.{u16,s16} | r=h
cvt.{u64,s64}.{u32,s32} | d=r
cvt.{u16,s16}.{u64,s64} | h=d
cvt.pack.sat.{u8,s8}.s32.b32 | r=rrr
cvt.pack.sat.{u16,s16}.s32 | r=rr
cvt.{rn,rz,rm,rp}.f32.{u32,s32} | f=r
cvt.{rn,rz,rm,rp}.f32.{u64,s64} | f=d
cvt.{rn,rz,rm,rp}.f64.{u64,s64} | g=d
cvt.rn.f64.{u32,s32} | g=r
cvt.{rn,rz}.f16.{u32,s32} | e=r
cvt.rn.f16.{u16,s16} | e=h
cvt.rn.bf16.{u16,s16} | b=h
cvt.rn.bf16.{u32,s32} | b=r
cvt.{rni,rzi,rmi,rpi}.{u32,s32}.f32 | r=f
cvt.{rni,rzi,rmi,rpi}.{u64,s64}.f32 | d=f
cvt.{rni,rzi,rmi,rpi}.{u32,s32}.f64 | r=g
cvt.{rni,rzi}.{u16,s16,u8,s8}.f64 | h=g
cvt.{rni,rzi,rmi,rpi}.{u64,s64}.f64 | d=g
cvt.{rni,rzi}.{u16,s16,u8,s8}.f32 | h=f
cvt.{rni,rzi}.{u16,s16}.f16 | h=e
cvt.rzi.ftz.s32.f32 | r=f
cvt.{rni,rzi,rmi,rpi}.f32.f32 | f=f
cvt.{rni,rpi}.ftz.f32.f32 | f=f
cvt.sat.f32.f32 | f=f
cvt.rni.f64.f64 | g=g
cvt.rmi.f16.f16 | e=e
cvt.{rn,rz,rm,rp}.f32.f64 | f=g
cvt.f64.f32 | g=f
cvt.{rn,rz}.f16.f32 | e=f
cvt.rn.relu.f16.f32 | e=f
cvt.rn.f16.f64 | e=g
cvt.rn.bf16.f64 | b=g
cvt.{rn,rz,rn.relu}.bf16.f32 | b=f
cvt.{f32.f16,f64.f16} | {f,g}=e
cvt.f32.bf16 | f=b
cvt.{rna,rn,rz}.tf32.f32 | r=f
cvt.{rn,rz,rn.relu}.f16x2.f32 | E=ff
cvt.{rn,rz,rn.relu}.bf16x2.f32 | B=ff
cvt.rn.satfinite.{e4m3x2,e5m2x2}.f32 | h=ff
cvt.rn.satfinite.relu.e4m3x2.f32 | h=ff
cvt.rn.satfinite.{e4m3x2,e5m2x2}.f16x2 | h=E
cvt.rn.f16x2.{e4m3x2,e5m2x2} | E=h
{add,sub,mul}.{rn,rz,rm,rp}.f32 | f=ff
{add,sub,mul}.rn.ftz.f32 | f=ff
{add,mul}.sat.f32 | f=ff
{div,sqrt,rcp}.{rn,rz,rm,rp}.f32 | f={ff,f,f}
{div.rn.ftz,sqrt.rn.ftz,rcp.rn.ftz}.f32 | f={ff,f,f}
fma.{rn,rz,rm,rp}.f32 | f=fff
fma.rn.{ftz,sat,ftz.sat}.f32 | f=fff
{add,sub,mul}.{rn,rz,rm,rp}.f64 | g=gg
{div,sqrt,rcp}.{rn,rz,rm,rp}.f64 | g={gg,g,g}
fma.{rn,rz,rm,rp}.f64 | g=ggg
{min,max,min.NaN,max.NaN,min.ftz,min.xorsign.abs}.f32 | f=ff
{min,max}.f64 | g=gg
{min,max,max.NaN}.f16 | e=ee
{min,max,max.NaN}.bf16 | b=bb
{min,max.NaN}.f16x2 | E=EE
{min,max.NaN}.bf16x2 | B=BB
{abs,neg,abs.ftz}.f32 | f=f
{abs,neg}.f64 | g=g
{abs,neg}.f16x2 | E=E
{abs,neg}.bf16 | b=b
copysign.f32 | f=ff
copysign.f64 | g=gg
testp.{finite,infinite,number,notanumber,normal,subnormal}.f32 | p=f
testp.{finite,normal,subnormal}.f64 | p=g
{add,sub,mul}.rn.f16 | e=ee
{add.sat,mul.sat}.f16 | e=ee
{add,sub,mul}.rn.f16x2 | E=EE
{add,sub,mul}.rn.bf16 | b=bb
{add,sub,mul}.rn.bf16x2 | B=BB
fma.rn.{f16,sat.f16,relu.f16} | e=eee
fma.rn.{f16x2,relu.f16x2} | E=EEE
fma.rn.{bf16,relu.bf16} | b=bbb
fma.rn.{bf16x2,relu.bf16x2} | B=BBB
{add,min,max}.{u16x2,s16x2} | r=rr
shfl.sync.{up,down,bfly,idx}.b32 | r=rvw-1
vote.sync.{all,any,uni}.pred | p=p-1
vote.sync.ballot.b32 | r=p-1
match.any.sync.b32 | r=q-1
redux.sync.{add,min,max}.{u32,s32} | r=r-1
redux.sync.{and,or,xor}.b32 | r=r-1
"""

CLASSES = {"h": 16, "r": 32, "d": 64, "f": 32, "g": 64, "e": 16, "b": 16, "E": 32, "B": 32, "p": 1}
SPECIAL = {"n": "r", "m": "h", "o": "d", "c": "r", "v": "r", "w": "r", "q": "r", "t": "r", "u": "r"}
"""Operands whose values are bounded, by the kind of register that they have."""
BOUNDS = dict.fromkeys("nmo", "| 1") | dict.fromkeys("vt", "& 31")
BOUNDS |= {"c": "& 127", "w": "& 7967", "q": "& 3", "u": "& 7"}


def spread(text: str) -> list[str]:
    """Every text that braces with commas expand to."""
    at = text.find("{")
    if at < 0:
        return [text]
    end = text.index("}", at)
    return [
        text[:at] + one + more
        for one in text[at + 1 : end].split(",")
        for more in spread(text[end + 1 :])
    ]


def instructions() -> list[Instruction]:
    """Every instruction of the table."""
    out = []
    for line in TABLE.strip().splitlines():
        opcodes, operands = line.split(" | ")
        left, forms = spread(opcodes), spread(operands)
        if "{" in operands and len(left) % len(forms) == 0 and not operands.startswith("r=rrr0x"):
            pairs = [(o, forms[k * len(forms) // len(left)]) for k, o in enumerate(left)]
        else:
            pairs = [(o, f) for o in left for f in forms]
        for opcode, form in pairs:
            target, sources = form.split("=")
            out.append((opcode, target, sources))
    return out


def sources_of(text: str) -> list[str]:
    """The operands that an instruction reads: kinds, or constants as they stand."""
    out: list[str] = []
    while text:
        if text[0] in "-0":
            return [*out, text]
        out.append(text[0])
        text = text[1:]
    return out


HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<99>;\n.reg .b16 %h<199>;\n.reg .b32 %r<199>;\n.reg .b64 %d<199>;\n"
    ".reg .b64 %x<9>;\n.reg .b32 %y<9>;\n"
)
REGISTER = {
    kind: f"%{file}"
    for file, kinds in zip("hrdp", ("heb", "rfEB", "dg", "p"), strict=True)
    for kind in kinds
}
QUIET = {
    "f": ("f32", "0x7fffffff"),
    "g": ("f64", "0x7fffffffffffffff"),
    "e": ("f16", "0x7fff"),
    "b": ("bf16", "0x7fff"),
}


def quieted(kind: str, register: str, n: int) -> list[str]:
    """Gives every NaN the same bits: payloads are not specified."""
    if kind in "EB":
        half, name = ("e", "f16") if kind == "E" else ("b", "bf16")
        return [
            f"mov.b32 {{%h{n}, %h{n + 1}}}, {register};",
            *quieted(half, f"%h{n}", n),
            *quieted(half, f"%h{n + 1}", n + 1),
            f"mov.b32 {register}, {{%h{n}, %h{n + 1}}};",
        ]
    if kind not in QUIET:
        return []
    name, bits = QUIET[kind]
    width = CLASSES[kind]
    return [
        f"setp.nan.{name} %p90, {register}, {register};",
        f"@%p90 mov.b{width} {register}, {bits};",
    ]


def widened(kind: str, register: str, target: str) -> str:
    """A register's bits in 64."""
    if kind == "p":
        return f"selp.b64 {target}, 1, 0, {register};"
    width = CLASSES[kind]
    return (
        f"mov.b64 {target}, {register};"
        if width == 64
        else (f"cvt.u64.u{width} {target}, {register};")
    )


def loaded(kind: str, register: str, place: str) -> list[str]:
    """Reads a register of a kind from 64 bits in memory."""
    own = SPECIAL.get(kind, kind)
    lines = [f"ld.global.b64 %x7, {place};"]
    width = CLASSES[own]
    if own == "p":
        return [*lines, "and.b64 %x7, %x7, 1;", f"setp.ne.b64 {register}, %x7, 0;"]
    lines.append(
        f"mov.b64 {register}, %x7;" if width == 64 else f"cvt.u{width}.u64 {register}, %x7;"
    )
    return lines + bounded(kind, register)


def bounded(kind: str, register: str) -> list[str]:
    """Keeps an operand within what it may be."""
    if kind not in BOUNDS:
        return []
    sign, number = BOUNDS[kind].split()
    word = {"|": "or", "&": "and"}[sign]
    return [f"{word}.b{CLASSES[SPECIAL[kind]]} {register}, {register}, {number};"]


def entry(name: str, body: list[str]) -> str:
    """A kernel of two pointers: 64-bit words in, four a lane; words out, one a lane."""
    head = [
        "ld.param.b64 %x0, [a];",
        "ld.param.b64 %x1, [b];",
        "mov.u32 %y0, %tid.x;",
        "mov.u32 %y1, %ctaid.x;",
        "mov.u32 %y2, %ntid.x;",
        "mad.lo.s32 %y0, %y1, %y2, %y0;",
        "mad.wide.u32 %x2, %y0, 32, %x0;",
        "mad.wide.u32 %x3, %y0, 8, %x1;",
    ]
    lines = "\n".join([*head, *body, "st.global.b64 [%x3], %x4;", "ret;"])
    return f".visible .entry {name}(.param .b64 a, .param .b64 b)\n{{\n{REGISTERS}{lines}\n}}\n"


def one_instruction(name: str, opcode: str, target: str, sources: str) -> str:
    """A kernel that runs one instruction."""
    body, operands = [], []
    for k, kind in enumerate(sources_of(sources)):
        if kind[0] in "-0":
            operands.append(kind)
            continue
        register = f"{REGISTER[SPECIAL.get(kind, kind)]}{k + 10}"
        body += loaded(kind, register, f"[%x2+{8 * min(k, 3)}]")
        operands.append(register)
    result = f"{REGISTER[target]}9"
    body.append(f"{opcode} {result}, {', '.join(operands)};")
    body += [*quieted(target, result, 1), widened(target, result, "%x4")]
    return entry(name, body)


def instruction_module(chosen: list[Instruction]) -> str:
    """A PTX text of kernels ``i0``, ``i1``, …, each of one instruction."""
    return HEAD + "".join(one_instruction(f"i{k}", *one) for k, one in enumerate(chosen))


SINGLES = """
0 1 2 7F 80 FF 7FFF 8000 FFFF 10000 7FFFFFFF 80000000 FFFFFFFF 3F800000 BF800000 7F800000 FF800000
7FC00000 00800000 007FFFFF 7F7FFFFF 4F000000 5F000000 3F000000 3FC00000 477FE000 38800000 33000000
43E00000 3C003C00 7C00FC00 7BFF0001 3F803F80 7F80FF80
"""
"""32 bits that are at an edge of integers, singles, halves or bf16."""
DOUBLES = """
0 1 8000000000000000 7FFFFFFFFFFFFFFF FFFFFFFFFFFFFFFF 3FF0000000000000 7FF0000000000000
FFF0000000000000 7FF8000000000000 0010000000000000 43E0000000000000 43F0000000000000
3FE0000000000000 41F0000000000000 36A0000000000000 47F0000000000000
"""
"""64 bits that are at an edge of integers or doubles."""


def words(count: int, seed: int) -> np.ndarray[Any, Any]:
    """64-bit words that are often at an edge of some type; four a lane."""
    rng = np.random.default_rng(seed)
    out = rng.integers(0, 1 << 64, (count, 4), np.uint64)
    singles = np.array([int(x, 16) for x in SINGLES.split()], np.uint64)
    doubles = np.array([int(x, 16) for x in DOUBLES.split()], np.uint64)
    floats = rng.standard_normal((count, 4)) * 2.0 ** rng.integers(-30, 34, (count, 4))
    narrow = floats.astype(np.float32).view(np.uint32).astype(np.uint64)
    how = rng.integers(0, 8, (count, 4))
    out = np.where(how == 0, rng.choice(singles, (count, 4)), out)
    out = np.where(how == 1, rng.choice(doubles, (count, 4)), out)
    out = np.where(how == 2, floats.view(np.uint64), out)
    out = np.where((how == 3) | (how == 4), narrow, out)
    return np.where(how == 5, rng.integers(0, 300, (count, 4), np.uint64), out)


def constant_operand(kind: str, register: str, word: int) -> str:
    """Gives a register a constant of a kind."""
    own = SPECIAL.get(kind, kind)
    if own == "p":
        return f"setp.ne.b32 {register}, {word & 1}, 0;"
    value = word & ((1 << CLASSES[own]) - 1)
    if kind in BOUNDS:
        sign, number = BOUNDS[kind].split()
        value = value | int(number) if sign == "|" else value & int(number)
    return f"mov.b{CLASSES[own]} {register}, {value:#x};"


def of_constants(one: Instruction, word: Sequence[int], place: int) -> list[str]:
    """Statements that run an instruction on constants and store what it gives."""
    opcode, target, sources = one
    body, operands = [], []
    for k, kind in enumerate(sources_of(sources)):
        if kind[0] in "-0":
            operands.append(kind)
            continue
        register = f"{REGISTER[SPECIAL.get(kind, kind)]}{k + 10}"
        body.append(constant_operand(kind, register, word[min(k, 3)]))
        operands.append(register)
    result = f"{REGISTER[target]}9"
    return [
        *body,
        f"{opcode} {result}, {', '.join(operands)};",
        widened(target, result, "%x4"),
        f"st.global.b64 [%x3+{8 * place}], %x4;",
    ]


def constant_entry(name: str, body: list[str]) -> str:
    """A kernel that stores what follows from its text alone."""
    lines = "\n".join(["ld.param.b64 %x3, [b];", *body, "ret;"])
    return f".visible .entry {name}(.param .b64 b)\n{{\n{REGISTERS}{lines}\n}}\n"
