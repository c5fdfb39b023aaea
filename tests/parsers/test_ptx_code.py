"""PTX as statements: operands, scopes, variables, labels, calls, as the PTX ISA has them."""

from inspector.parsers.ptx import parse_ptx
from inspector.parsers.ptx_code import PtxFunction, PtxModule, read_module
from inspector.parsers.ptx_statement import (
    AddressOperand,
    ImmediateOperand,
    PairOperand,
    RegisterOperand,
    SinkOperand,
    SpecialOperand,
    SymbolOperand,
    VectorOperand,
)

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"


def module(text: str) -> PtxModule:
    return read_module(parse_ptx(HEAD + text))


def kernel(body: str) -> PtxFunction:
    declared = ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<4>;"
    text = f".visible .entry k(.param .u64 a)\n{{\n{declared}\n{body}\nret;\n}}\n"
    return module(text).functions["k"]


def named(function: PtxFunction, register: object) -> str:
    assert isinstance(register, RegisterOperand)
    return ("!" if register.negated else "") + function.names[register.number]


def test_operands_of_every_form() -> None:
    made = kernel(
        "@!%p1 ld.global.v2.b32 {%r1, _}, [%rd1+-8];\n"
        "setp.lt.and.s32 %p1|%p2, %r1, 0x10, !%p3;\n"
        "mov.u32 %r2, %tid.x;\n"
        "mov.u64 %rd2, a+16;\n"
        "cp.async.bulk.tensor.2d.shared::cta.global [%r1], [%rd1, {%r2, 3}], [%r4 + 8];"
    )
    load, compare, special, symbol, bulk, _ = made.instructions
    assert named(made, load.guard) == "!%p1"
    vector, address = load.operands
    assert isinstance(vector, VectorOperand) and isinstance(address, AddressOperand)
    assert named(made, vector.elements[0]) == "%r1"
    assert isinstance(vector.elements[1], SinkOperand)
    assert (named(made, address.base), address.offset) == ("%rd1", -8)
    pair, first, number, third = compare.operands
    assert isinstance(pair, PairOperand)
    names = [named(made, x) for x in (pair.first, pair.second, first, third)]
    assert names == ["%p1", "%p2", "%r1", "!%p3"]
    assert number == ImmediateOperand("0x10")
    assert special.operands[1] == SpecialOperand("%tid.x")
    assert symbol.operands[1] == SymbolOperand("a", 16)
    assert bulk.parts[:4] == ("cp", "async", "bulk", "tensor")
    tile = bulk.operands[1]
    assert isinstance(tile, AddressOperand) and isinstance(tile.further_operands[0], VectorOperand)
    assert isinstance(bulk.operands[2], AddressOperand) and bulk.operands[2].offset == 8


def test_a_name_of_a_block_is_not_that_of_another() -> None:
    """Inline assembly declares its own registers and labels, again and again."""
    body = "{ .reg .pred done; .reg .b32 %r1; wait: mov.b32 %r1, 1; @!done bra.uni wait; }\n"
    made = kernel(body + body + "mov.b32 %r1, 2;")
    moves = [row for row in made.instructions if row.base == "mov"]
    assert len({named(made, row.operands[0]) + repr(row.operands[0]) for row in moves}) == 3
    jumps = [row.operands[0] for row in made.instructions if row.base == "bra"]
    assert all(isinstance(jump, SymbolOperand) for jump in jumps)
    places = [made.labels[jump.name] for jump in jumps if isinstance(jump, SymbolOperand)]
    assert places == [0, 2]


def test_variables_and_what_they_begin_with() -> None:
    made = module(
        ".extern .shared .align 16 .b8 pool[];\n"
        ".global .align 4 .u32 table[2][2] = {{1, 2}, {0x3, -4}};\n"
        ".const .f32 half = 0f3F000000;\n"
        ".visible .global .align 8 .u64 where = generic(table)+8;\n"
        ".visible .entry k()\n.reqntid 64, 2\n{\n.shared .v4 .f32 s[3];\n.local .b64 l;\nret;\n}\n"
    )
    sizes = {v.name: (v.space, v.size, v.align, v.initial) for v in made.variables.values()}
    assert sizes == {
        "pool": ("shared", 0, 16, ()),
        "table": ("global", 16, 4, ("1", "2", "0x3", "-4")),
        "half": ("const", 4, 4, ("0f3F000000",)),
        "where": ("global", 8, 8, ("generic(table)+8",)),
    }
    function = made.functions["k"]
    assert function.reqntid == (64, 2, 1)
    assert {v.name: v.size for v in function.variables.values()} == {"s": 48, "l": 8}
    assert made.target == "sm_90a"


def test_a_function_and_its_call_over_several_lines() -> None:
    made = module(
        ".func (.param .b32 out) _Z3addii(.param .b32 x, .reg .b32 y) { ret; }\n"
        ".visible .entry k()\n{\n.reg .b32 %r<3>;\n{ // callseq\n.param .b32 p;\n"
        "st.param.b32 [p+0], %r1;\n.param .b32 q;\ncall.uni (q),\n_Z3addii,\n(\np,\n%r1\n);\n}\n"
        "ret;\n}\n"
    )
    assert made.entries == ("k",)
    function = made.functions["_Z3addii"]
    assert [(v.name, v.space) for v in function.parameters] == [("x", "param"), ("y", "reg")]
    assert [v.name for v in function.results] == ["out"]
    call = next(row for row in made.functions["k"].instructions if row.base == "call")
    results, callee, arguments = call.operands
    assert results == VectorOperand((SymbolOperand("q"),))
    assert callee == SymbolOperand("_Z3addii")
    assert isinstance(arguments, VectorOperand) and len(arguments.elements) == 2
    assert call.line == 12


def test_lines_are_those_of_the_text() -> None:
    text = HEAD + (
        ".visible .entry k()\n{\n.reg .b32 %r<3>; /* one\ntwo */ mov.b32 %r1, 1; mov.b32 %r2, 2;\n"
        "$L: // a label\n.loc 1 2 3\nadd.s32 %r1,\n  %r1, %r2;\n@%r1 bra $L;\n}\n"
    )
    made = read_module(parse_ptx(text)).functions["k"]
    lines = text.split("\n")
    for row in made.instructions:
        assert row.base in lines[row.line - 1]
    assert made.labels == {"$L": 2}
