"""What registers hold, against an interpreter of the same instructions."""

import random
import struct
from collections.abc import Callable
from operator import and_, floordiv, mod, mul, or_, xor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from inspector.analysis.sentences import forms
from inspector.analysis.sentences.context import Context, Parameter
from inspector.analysis.sentences.forms import Atom, LinearForm, wrapped
from inspector.analysis.sentences.values import Statements, Values
from inspector.analysis.sentences.wording import Wording
from inspector.base.model import Stage
from inspector.parsers import parse
from inspector.parsers.ptx_statement import ImmediateOperand
from inspector.semantics.instructions import evaluate

BLOCK, GRID = (192, 2, 1), (1823, 7, 1)
CONTEXT = Context(
    parameters=(
        Parameter(0, "n", "i32", 0, 4, "f_param_0", multiple=16),
        Parameter(1, "m", None, 4, 4, "f_param_1"),
        Parameter(2, "x_ptr", "*fp32", 8, 8, "f_param_2", multiple=16, pointer=True),
    ),
    grid=GRID,
    block=BLOCK,
)
UNKNOWN = Context(parameters=CONTEXT.parameters)
HEAD = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry f(.param .u32 f_param_0, .param .u32 f_param_1, .param .u64 f_param_2)
{
.reg .pred %p<99>;
.reg .b32 %r<99>;
.reg .b64 %rd<99>;
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
mov.u32 %r3, %tid.y;
ld.param.u32 %r4, [f_param_0];
ld.param.u32 %r5, [f_param_1];
ld.param.u64 %rd0, [f_param_2];
"""


def values(body: str, context: Context = CONTEXT) -> Values:
    listing = parse(Stage.PTX, HEAD + body + "\nret;\n}\n")
    return Values(Statements(listing, listing.functions[0]), context)


# -- an interpreter ---------------------------------------------------------------------------

Op = tuple[str, str, tuple[str, ...]]


def read(value: int, type_: str) -> int:
    bits = int(type_[1:])
    value %= 1 << bits
    return value - (1 << bits) if type_[0] == "s" and value >> bits - 1 else value


def run(program: list[Op], state: dict[str, int]) -> None:
    """Executes a program as the PTX ISA describes its instructions."""
    for opcode, d, args in program:
        operands = [[state[x] if x in state else int(x, 0)] for x in args]
        result = operands[0] if opcode.startswith("mov.") else evaluate(opcode, operands)
        assert result is not None
        state[d] = result[0] % (1 << (64 if d.startswith("%rd") else 32))


def evaluated(form: LinearForm, known: dict[str, int]) -> int:
    """The value of a form, given those of its leaves by name."""
    return form.constant + sum(f * evaluated_atom(atom, known) for atom, f in form.terms)


COMPUTED: dict[str, Callable[..., int]] = {
    "product": mul,
    "quotient": floordiv,
    "remainder": mod,
    "min": min,
    "max": max,
    "and": and_,
    "or": or_,
    "xor": xor,
}


def evaluated_atom(atom: Atom, known: dict[str, int]) -> int:
    if atom.op in forms.LEAVES:
        return known[atom.name]
    if atom.op == "wrap":
        bits = int(atom.name[1:])
        return (evaluated(atom.args[0], known) - atom.low) % (1 << bits) + atom.low
    return COMPUTED[atom.op](*(evaluated(a, known) for a in atom.args))


# -- random programs --------------------------------------------------------------------------


def programs() -> st.SearchStrategy[list[Op]]:
    return st.integers(0, 2**32).map(random_program)


def random_program(seed: int) -> list[Op]:
    rng = random.Random(seed)
    narrow, wide = [f"%r{i}" for i in range(6)], ["%rd0"]
    out: list[Op] = []
    numbers = ["0", "1", "2", "3", "4", "7", "8", "16", "31", "32", "127", "508", "-1", "-16"]
    numbers += ["2044", "1024", "4096", "0x7fffffff", "0xfffffff0"]
    for i in range(6, 6 + rng.randrange(1, 16)):

        def r() -> str:
            return rng.choice(narrow[-4:] if rng.random() < 0.6 else narrow)

        def r_or_n() -> str:
            return rng.choice(numbers) if rng.random() < 0.6 else r()

        def w() -> str:
            return rng.choice(wide)

        d, wd = f"%r{i}", f"%rd{i}"
        kind = rng.choice(["u32", "s32"])
        shift, power = str(rng.randrange(0, 34)), str(1 << rng.randrange(0, 12))
        op: Op = rng.choice(
            [
                (f"add.{kind}", d, (r(), r_or_n())),
                (f"sub.{kind}", d, (r(), r_or_n())),
                ("neg.s32", d, (r(),)),
                ("not.b32", d, (r(),)),
                (f"mul.lo.{kind}", d, (r(), r_or_n())),
                (f"mad.lo.{kind}", d, (r(), r_or_n(), r())),
                ("and.b32", d, (r(), r_or_n())),
                ("and.b32", d, (r(), str((1 << rng.randrange(1, 31)) - 4))),
                ("and.b32", d, (r(), str(int(power) - 1))),
                ("or.b32", d, (r(), r_or_n())),
                ("or.b32", d, (r(), power)),
                ("xor.b32", d, (r(), r_or_n())),
                ("shl.b32", d, (r(), shift)),
                ("shl.b32", d, (r(), "2")),
                (f"shr.{kind}", d, (r(), shift)),
                (f"shr.{kind}", d, (r(), "5")),
                (f"min.{kind}", d, (r(), r_or_n())),
                (f"max.{kind}", d, (r(), r_or_n())),
                (f"div.{kind}", d, (r(), power)),
                (f"rem.{kind}", d, (r(), power)),
                ("bfe.u32", d, (r(), str(rng.randrange(0, 33)), str(rng.randrange(0, 34)))),
                (f"mul.wide.{kind}", wd, (r(), r_or_n())),
                (f"mad.wide.{kind}", wd, (r(), "4", w())),
                ("cvt.u64.u32", wd, (r(),)),
                ("cvt.s64.s32", wd, (r(),)),
                ("cvt.u32.u64", d, (w(),)),
                ("cvt.s32.s16", d, (r(),)),
                ("add.s64", wd, (w(), w())),
                ("add.s64", wd, (w(), rng.choice(numbers))),
                ("shl.b64", wd, (w(), shift)),
                ("shr.u64", wd, (w(), "4")),
                ("or.b64", wd, (w(), rng.choice(["0x4000000000000000", "8"]))),
                ("mov.b32", d, (r(),)),
                ("mov.b64", wd, (w(),)),
            ]
        )
        out.append(op)
        (wide if op[1].startswith("%rd") else narrow).append(op[1])
    return out


def start(rng: random.Random, context: Context) -> tuple[dict[str, int], dict[str, int]]:
    """Registers to begin with, and the leaves that they are."""
    block = context.block or (rng.choice([1, 32, 96, 1024]), 1, 1)
    grid = context.grid or (rng.choice([1, 1823, 2**31 - 1]), 1, 1)
    tid = rng.choice([0, block[0] - 1, rng.randrange(block[0])])
    n = rng.choice([0, 784, -16, 2**31 - 16, -(2**31)])
    leaves = {
        "%tid.x": tid,
        "%tid.y": rng.randrange(block[1]),
        "%ctaid.x": rng.choice([0, grid[0] - 1, rng.randrange(grid[0])]),
        "%ntid.x": block[0],
        "f_param_0": n,
        "f_param_1": rng.choice([0, 1, 2**32 - 1, rng.randrange(2**32)]),
        "f_param_2": rng.randrange(2**44) * 16,
    }
    names = ["%tid.x", "%ctaid.x", "%ntid.x", "%tid.y", "f_param_0", "f_param_1"]
    state = {f"%r{i}": leaves[name] % 2**32 for i, name in enumerate(names)}
    state["%rd0"] = leaves["f_param_2"]
    return state, leaves


@settings(max_examples=100, deadline=None)
@given(programs(), st.integers(0, 2**32), st.sampled_from([CONTEXT, UNKNOWN]))
def test_a_form_is_what_the_program_computes(
    program: list[Op], seed: int, context: Context
) -> None:
    body = "\n".join(f"{op} {d}, {', '.join(args)};" for op, d, args in program)
    known = values(body, context)
    rng = random.Random(seed)
    held = {d: known.register(d, 999) for _, d, _ in program}
    for _ in range(8):
        state, leaves = start(rng, context)
        run(program, state)
        leaves |= state  # a register that is not followed goes by its own name
        for register, form in held.items():
            bits = 64 if register.startswith("%rd") else 32
            value = evaluated(form, leaves)
            assert (value - state[register]) % (1 << bits) == 0, (body, register, form)
            assert form.low <= value <= form.high, (body, register, form)
            assert not form.multiple or value % form.multiple == 0, (body, register, form)
            for signed in (False, True):
                type_ = f"{'s' if signed else 'u'}{bits}"
                exact = wrapped(form, bits, signed)
                assert evaluated(exact, leaves) == read(state[register], type_), (body, register)


@settings(max_examples=60, deadline=None)
@given(programs(), st.integers(0, 2**32), st.data())
def test_a_decided_condition_is_so(program: list[Op], seed: int, data: st.DataObject) -> None:
    names = [d for _, d, _ in program if not d.startswith("%rd")] or ["%r0"]
    a, b = data.draw(st.sampled_from(names)), data.draw(st.sampled_from([*names, "100", "-1"]))
    op = data.draw(st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne", "lo", "hs"]))
    type_ = "u32" if op in ("lo", "hs") else data.draw(st.sampled_from(["s32", "u32"]))
    body = "\n".join(f"{o} {d}, {', '.join(args)};" for o, d, args in program)
    known = values(f"{body}\nsetp.{op}.{type_} %p1, {a}, {b};\nnot.pred %p2, %p1;")
    one, other = known.condition("%p1"), known.condition("%p2")
    assert one is not None and other is not None
    assert other.always == (None if one.always is None else not one.always)
    rng = random.Random(seed)
    for _ in range(8):
        state, _ = start(rng, CONTEXT)
        run(program, state)
        x, y = (read(state[v] if v in state else int(v), type_) for v in (a, b))
        truth = {
            "lt": x < y,
            "le": x <= y,
            "gt": x > y,
            "ge": x >= y,
            "eq": x == y,
            "ne": x != y,
            "lo": x < y,
            "hs": x >= y,
        }[op]
        assert one.always in (None, truth)


# -- what is followed, and what is not --------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "mov.u32 %r7, 1;\nadd.s32 %r8, %r7, 1;\nmov.u32 %r7, 2;\nsub.s32 %r9, %r8, %r7;",
        "setp.lt.s32 %p1, %r0, 5;\n@%p1 mov.u32 %r9, 1;",
        "add.s32 %r9, %r8, 1;\nadd.s32 %r8, %r9, 1;",
        "mov.u32 %r9, 1; mov.u32 %r9, 2;",
    ],
)
def test_what_may_hold_several_values_is_not_a_number(body: str) -> None:
    assert values(body).register("%r9", 50).number is None


def test_what_grows_is_given_a_name() -> None:
    lines = [f"mul.lo.s32 %r{i}, %r{i - 1}, %r{i - 2};" for i in range(6, 80)]
    known = values("\n".join(lines))
    assert all(known.register(f"%r{i}", 1).size <= forms.MAX_ATOMS for i in range(6, 80))


# -- formulas ---------------------------------------------------------------------------------

NAMES = {"%tid.x": "thread", "%tid.y": "thread_y", "%ctaid.x": "block", "%ntid.x": "threads"}


def worth(text: str, leaves: dict[str, int]) -> int:
    """The value of a formula as a reader works it out."""
    known = {NAMES.get(name, name).lstrip("%"): value for name, value in leaves.items()}
    known |= {"n": leaves["f_param_0"], "m": leaves["f_param_1"], "x_ptr": leaves["f_param_2"]}
    known |= {"warp": leaves["%tid.x"] // 32, "lane": leaves["%tid.x"] % 32}
    for sign, code in (
        ("×", "*"),
        ("−", "-"),
        ("⌊", "(("),
        ("⌋", "))"),
        (" mod ", "%"),
        (" / ", ")//("),
        (" xor ", "^"),
        ("%r", "r"),
    ):
        text = text.replace(sign, code)
    found = eval(text, {"min": min, "max": max}, known)
    assert isinstance(found, int)
    return found


def wraps(form: forms.LinearForm) -> bool:
    """Whether something in a form is cut to a register's width, which a formula does not tell."""
    return any(a.op == "wrap" or any(wraps(x) for x in a.args) for a, _ in form.terms)


@settings(max_examples=80, deadline=None)
@given(programs(), st.integers(0, 2**32), st.booleans())
def test_a_formula_reads_as_its_value(program: list[Op], seed: int, triton: bool) -> None:
    body = "\n".join(f"{op} {d}, {', '.join(args)};" for op, d, args in program)
    known = values(body)
    context = replace(CONTEXT, language="triton" if triton else None)
    wording = Wording(context, NAMES, {})
    rng = random.Random(seed)
    assert program
    for _, d, _ in program:
        form = known.register(d, 999)
        text = wording.form(form, 999)
        if text and not wraps(form):
            state, leaves = start(rng, CONTEXT)
            run(program, state)
            leaves |= state
            assert worth(text, leaves) == evaluated(form, leaves), (text, form)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float_digits_round_trip(value: float) -> None:
    bits = struct.pack(">f", value)
    listed = ImmediateOperand(f"0f{bits.hex()}")
    told = Wording(CONTEXT, {}, {}).real(listed)
    assert struct.pack(">f", float(told.replace("−", "-"))) == bits


@pytest.mark.parametrize(
    ("opcode", "operands", "expected"),
    [
        ("bfe.s32", "255, 0, 8", 0xFFFFFFFF),
        ("prmt.b32.rc16", "0x44332211, 0, 1", 0x44334433),
        ("mul24.lo.s32", "0x1000001, 0xffffff", 0xFFFFFFFF),
        ("mul.hi.u32", "0x80000000, 6", 3),
        ("rem.u32", "7, 0", 0xFFFFFFFF),
    ],
)
def test_operands_that_are_numbers_give_the_isas_number(
    opcode: str, operands: str, expected: int
) -> None:
    known = values(f"{opcode} %r50, {operands};").register("%r50", 999).number
    assert known is not None
    assert known % (1 << 32) == expected
