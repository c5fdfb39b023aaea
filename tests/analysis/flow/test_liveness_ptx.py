"""Live ranges of PTX against paths walked one by one."""

import pytest
from hypothesis import given, settings

from inspector.analysis.function_facts import FunctionFacts
from inspector.base.model import Stage
from inspector.parsers import parse
from inspector.parsers.line import Listing
from tests.helpers.live import live_names
from tests.helpers.ptx_programs import CLASSES, Program, programs
from tests.helpers.samples import read_sample


def ptx(text: str) -> Listing:
    return parse(Stage.PTX, text)


def body(*lines: str, header: str = ".visible .entry f()") -> Listing:
    return ptx("\n".join((".version 8.0", ".target sm_90", header, "{", *lines, "}")))


@settings(max_examples=80, deadline=None)
@given(programs())
def test_live_registers_are_those_that_a_path_reads(program: Program) -> None:
    listing = ptx(program.text)
    live = FunctionFacts(listing, listing.functions[0]).live
    names = live_names(listing, listing.functions[0])
    every = program.registers()
    for i, (one, line) in enumerate(zip(program.code, program.lines, strict=True)):
        expected = {r for r in every if program.live_after(i, r)} | {*one.defs, *one.uses}
        assert names[line] == expected, one.text
        counts = dict.fromkeys(live.classes, 0)
        for register in expected:
            counts[CLASSES[register.rstrip("0123456789")]] += 1
        assert dict(live.counts_at(line) or {}) == counts
    assert {n for n in range(len(listing.lines) + 1) if live.counts_at(n)} <= set(program.lines)
    for name in live.classes:
        here = [(live.counts_at(n) or {})[name] for n in program.lines]
        assert live.peak[name] == (max(here), program.lines[here.index(max(here))])


@pytest.mark.parametrize(
    ("code", "live", "classes"),
    [
        (".reg .b32 %r<3>;|.reg .b64 addr;|.reg .pred p, q;|.reg .f16x2 %h<2>;|mov.u64 addr, 0;|"
         "ld.u32 %r1, [addr];|setp.eq.s32 p, %r1, 0;|@p ret;|mov.b32 %h1, %r1;|st.b32 [addr], %h1;|"
         "add.s32 %x1, %r1, 1;",
         {12: "p %r1 addr"}, "b64 b32 pred f16x2 undeclared"),
        # As nvcc's call sequences and inline assembly have it: in a block it is another register.
        (".reg .b32 %r<3>;|.reg .b32 t;|mov.u32 t, 1;|{|.reg .f16 t;|mov.b16 t, 2;|"
         "st.shared.b16 [0], t;|}|{ .reg .b64 t; mov.u64 t, 3; }|mov.u32 %r1, t;",
         {11: "t", 14: "t %r1"}, "b32 f16 b64"),
        # The write of %r2 is guarded, so what it held may be read on the line.
        (".reg .pred %p<3>;|.reg .b32 %r<5>;|mov.u32 %r1, 1;|"
         "{ .reg .pred q; setp.ne.s32 q, %r1, 0; @q mov.u32 %r2, 3; mov.u32 %r3, %r2; }|"
         "st.shared.u32 [0], %r3;",
         {7: "%r1 %r2", 8: "%r1 q %r2 %r3", 9: "%r3"}, "b32 pred"),
        (".reg .b32 %r<5>;|mov.u32 %r1, 1;|call.uni (%r2),|g,|(%r1,|%r3);|st.shared.u32 [0], %r2;",
         {6: "%r1 %r3", 7: "%r1 %r2 %r3"}, "b32"),
        # Elements of a vector do not end its range.
        (".reg .v2 .f32 v;|.reg .f32 %f<3>;|mov.f32 v.x, %f1;|mov.f32 v.y, %f2;|"
         "st.global.v2.f32 [0], v;",
         {7: "v %f1 %f2", 8: "v %f2"}, "v2.f32 f32"),
        # The second operand is a result too, so it is not live before.
        (".reg .b32 %r<5>;|mov.u32 %r4, 0;|"
         "tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32 {%r1, %r2}, %r3, [%r4];|"
         "st.shared.u32 [0], %r3;",
         {6: "%r4", 7: "%r1 %r2 %r3 %r4", 8: "%r3"}, "b32"),
    ],
    ids=[
        "classes", "blocks", "one line", "several lines", "vector", "two results",
    ],
)  # fmt: skip
def test_live_registers_of_a_line_are_those_read_later(
    code: str, live: dict[int, str], classes: str
) -> None:
    listing = body(*code.split("|"))
    found = FunctionFacts(listing, listing.functions[0]).live
    assert sorted(found.classes) == sorted(classes.split())
    names = live_names(listing, listing.functions[0])
    assert {n: names[n] for n in live} == {n: set(r.split()) for n, r in live.items()}


def test_the_predicate_beside_a_vector_of_results_is_written() -> None:
    listing = body(
        ".reg .f32 %f<7>;",
        ".reg .pred %p<2>;",
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}|%p1, [image, {%f5, %f6}];",
        "@%p1 st.shared.f32 [0], %f1;",
    )
    live = FunctionFacts(listing, listing.functions[0]).live
    assert sorted(live.classes) == ["f32", "pred"]
    names = live_names(listing, listing.functions[0])
    assert names[7] == {"%f1", "%f2", "%f3", "%f4", "%f5", "%f6", "%p1"}
    assert names[8] == {"%f1", "%p1"}


def test_what_a_function_returns_in_registers_is_live_at_its_return() -> None:
    header = ".func (.reg .b32 %out) g (.reg .b32 %in, .reg .b64 %pointer)"
    code = (".reg .b32 %r<5>;", "add.s32 %out, %in, 1;", "mov.u32 %r1, 0;", "ret;")
    listing = body(*code, header=header)
    live = FunctionFacts(listing, listing.functions[0]).live
    names = live_names(listing, listing.functions[0])
    assert (names[6], names[8]) == ({"%in", "%out"}, {"%out"})
    assert live.classes == ("b32",)


def test_real_kernels_have_live_registers_within_what_they_declare() -> None:
    for name in ("matmul_sm90.ptx", "gelu_sm90.ptx", "nested.ptx"):
        listing = ptx(read_sample(name))
        assert listing.functions, name
        for function in listing.functions:
            live = FunctionFacts(listing, function).live
            assert "undeclared" not in live.classes
            first = next(n for n in range(function.first, function.last) if live.counts_at(n))
            # nothing is read that was not written
            line = listing.lines[first - 1]
            assert live_names(listing, function)[first] == {*line.defs, *line.uses}
