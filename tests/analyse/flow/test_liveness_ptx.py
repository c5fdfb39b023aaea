"""Live ranges of PTX against paths walked one by one."""

from __future__ import annotations

from hypothesis import given, settings

from inspector.analyse.function_facts import FunctionFacts
from inspector.base.model import Stage
from inspector.listing import parse
from inspector.listing.line import Listing
from tests.helpers.ptx_programs import CLASSES, Program, programs
from tests.helpers.samples import read_sample


def ptx(text: str) -> Listing:
    return parse(Stage.PTX, text)


def body(*lines: str, header: str = ".visible .entry f()") -> Listing:
    return ptx("\n".join((".version 8.0", ".target sm_90", header, "{", *lines, "}")))


@settings(max_examples=150, deadline=None)
@given(programs())
def test_live_registers_are_those_that_a_path_reads(program: Program) -> None:
    listing = ptx(program.text)
    live = FunctionFacts(listing, listing.functions[0]).live
    every = program.registers()
    for i, (one, line) in enumerate(zip(program.code, program.lines, strict=True)):
        expected = {r for r in every if program.live_after(i, r)} | {*one.defs, *one.uses}
        assert live.registers(line) == expected, one.text
        counts = dict.fromkeys(live.classes, 0)
        for register in expected:
            counts[CLASSES[register.rstrip("0123456789")]] += 1
        assert dict(live.at(line) or {}) == counts
    assert {n for n in range(len(listing.lines) + 1) if live.at(n)} <= set(program.lines)
    for name in live.classes:
        here = [(live.at(n) or {})[name] for n in program.lines]
        assert live.peak[name] == (max(here), program.lines[here.index(max(here))])


def test_classes_are_those_declared() -> None:
    listing = body(
        ".reg .b32 %r<3>;", ".reg .b64 addr;", ".reg .pred p, q;", ".reg .f16x2 %h<2>;",
        "mov.u64 addr, 0;", "ld.u32 %r1, [addr];", "setp.eq.s32 p, %r1, 0;", "@p ret;",
        "mov.b32 %h1, %r1;", "st.b32 [addr], %h1;", "add.s32 %x1, %r1, 1;",
    )  # fmt: skip
    live = FunctionFacts(listing, listing.functions[0]).live
    assert live.classes == ("b64", "b32", "pred", "f16x2", "undeclared")
    assert live.registers(12) == {"p", "%r1", "addr"}
    assert dict(live.at(14) or {}) == {
        "b64": 1, "b32": 1, "pred": 0, "f16x2": 1, "undeclared": 0
    }  # fmt: skip
    assert live.peak["undeclared"] == (1, 15)


def test_a_name_declared_in_a_block_is_another_register() -> None:
    """As nvcc's call sequences and inline assembly have them."""
    listing = body(
        ".reg .b32 %r<3>;", ".reg .b32 t;", "mov.u32 t, 1;", "{", ".reg .f16 t;",
        "mov.b16 t, 2;", "st.shared.b16 [0], t;", "}", "{ .reg .b64 t; mov.u64 t, 3; }",
        "mov.u32 %r1, t;",
    )  # fmt: skip
    live = FunctionFacts(listing, listing.functions[0]).live
    assert live.classes == ("b32", "f16", "b64")
    assert dict(live.at(11) or {}) == {"b32": 1, "f16": 1, "b64": 0}
    assert dict(live.at(13) or {}) == {"b32": 1, "f16": 0, "b64": 1}
    assert dict(live.at(14) or {}) == {"b32": 2, "f16": 0, "b64": 0}


def test_statements_of_one_line_are_one_step() -> None:
    listing = body(
        ".reg .pred %p<3>;", ".reg .b32 %r<5>;", "mov.u32 %r1, 1;",
        "{ .reg .pred q; setp.ne.s32 q, %r1, 0; @q mov.u32 %r2, 3; mov.u32 %r3, %r2; }",
        "st.shared.u32 [0], %r3;",
    )  # fmt: skip
    live = FunctionFacts(listing, listing.functions[0]).live
    assert live.registers(8) == {"%r1", "q", "%r2", "%r3"}
    # the write of %r2 is guarded, so what it held may be read on the line
    assert live.registers(7) == {"%r1", "%r2"}
    assert live.registers(9) == {"%r3"}


def test_what_a_function_returns_in_registers_is_live_at_its_return() -> None:
    listing = body(
        ".reg .b32 %r<5>;", "add.s32 %out, %in, 1;", "mov.u32 %r1, 0;", "ret;",
        header=".func (.reg .b32 %out) g (.reg .b32 %in, .reg .b64 %pointer)",
    )  # fmt: skip
    live = FunctionFacts(listing, listing.functions[0]).live
    assert live.registers(6) == {"%in", "%out"}
    assert live.registers(8) == {"%out"}
    assert live.classes == ("b32",)


def test_elements_of_a_vector_do_not_end_its_range() -> None:
    listing = body(
        ".reg .v2 .f32 v;", ".reg .f32 %f<3>;", "mov.f32 v.x, %f1;", "mov.f32 v.y, %f2;",
        "st.global.v2.f32 [0], v;",
    )  # fmt: skip
    live = FunctionFacts(listing, listing.functions[0]).live
    assert live.registers(8) == {"v", "%f2"}
    assert live.registers(7) == {"v", "%f1", "%f2"}
    assert live.classes == ("v2.f32", "f32")


def test_real_kernels_have_live_registers_within_what_they_declare() -> None:
    for name in ("matmul_sm90.ptx", "gelu_sm90.ptx", "nested.ptx"):
        listing = ptx(read_sample(name))
        for function in listing.functions:
            live = FunctionFacts(listing, function).live
            assert "undeclared" not in live.classes
            first = next(n for n in range(function.first, function.last) if live.at(n))
            # nothing is read that was not written
            line = listing.lines[first - 1]
            assert live.registers(first) == {*line.defs, *line.uses}
