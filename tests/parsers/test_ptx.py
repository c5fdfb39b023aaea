"""PTX, one construct at a time. The PTX ISA says what each means."""

import pytest

from inspector.base.model import Location
from inspector.parsers.line import Kind, Line
from inspector.parsers.ptx import inline_assembly_lines, parse_ptx
from tests.helpers.samples import read_sample


def one(text: str) -> Line:
    """The first line of a text."""
    return parse_ptx(text).lines[0]


@pytest.mark.parametrize(
    ("text", "opcode", "defs", "uses"),
    [
        ("add.s32 %r3, %r1, %r2;", "add.s32", "%r3", "%r1 %r2"),
        ("mov.u32 %r1, %tid.x;", "mov.u32", "%r1", ""),
        ("ld.global.b32 %r1, [%rd1+4];", "ld.global.b32", "%r1", "%rd1"),
        ("ld.global.v2.b32 {%r1, _}, [%rd1];", "ld.global.v2.b32", "%r1", "%rd1"),
        ("@%p1 st.global.v2.b32 [%rd1 + 0], { %r1, %r2 };", "st.global.v2.b32", "",
         "%p1 %rd1 %r1 %r2"),
        ("@!%p1 mov.b32 %r1, 0;", "mov.b32", "%r1", "%p1"),
        ("mov.b64 {%r1,%r2}, %rd3;", "mov.b64", "%r1 %r2", "%rd3"),
        ("setp.lt.s32 %p1|%p2, %r1, %r2;", "setp.lt.s32", "%p1 %p2", "%r1 %r2"),
        ("setp.lt.and.s32 %p1, %r1, 4, !%p2;", "setp.lt.and.s32", "%p1", "%r1 %p2"),
        ("shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;", "shfl.sync.bfly.b32", "%r1 %p1", "%r2"),
        ("atom.global.add.f32 %f1, [%rd1], %f2;", "atom.global.add.f32", "%f1", "%rd1 %f2"),
        ("red.global.add.f32 [%rd1], %f2;", "red.global.add.f32", "", "%rd1 %f2"),
        ("bar.red.popc.u32 %r1, 0, %p1;", "bar.red.popc.u32", "%r1", "%p1"),
        ("barrier.cta.red.or.pred %p2, 0, %p1;", "barrier.cta.red.or.pred", "%p2", "%p1"),
        ("cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, %r2;",
         "cp.async.cg.shared.global", "", "%r1 %rd1 %r2"),
        ("cp.async.bulk.tensor.2d.shared::cluster.global [%r1], [%rd1, {%r2, %r3}], [%r4];",
         "cp.async.bulk.tensor.2d.shared::cluster.global", "", "%r1 %rd1 %r2 %r3 %r4"),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2}, %rd1, %rd2, p, 1, 1;",
         "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16", "%f1 %f2", "%f1 %f2 %rd1 %rd2"),
        ("mma.sync.aligned.m16n8k8.row.col.f32 {%f1,%f2}, {%r1}, {%r2}, {%f3,%f4};",
         "mma.sync.aligned.m16n8k8.row.col.f32", "%f1 %f2", "%r1 %r2 %f3 %f4"),
        ("mbarrier.init.shared::cta.b64 [%r1], 1;", "mbarrier.init.shared::cta.b64", "", "%r1"),
        ("mbarrier.arrive.shared.b64 %rd1, [%r1];", "mbarrier.arrive.shared.b64", "%rd1", "%r1"),
        ("tcgen05.ld.sync.aligned.16x256b.x1.b32 {%r1,%r2}, [%r3];",
         "tcgen05.ld.sync.aligned.16x256b.x1.b32", "%r1 %r2", "%r3"),
        ("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 512;",
         "tcgen05.dealloc.cta_group::1.sync.aligned.b32", "", "%r1"),
        ("elect.sync %r1|%p1, -1;", "elect.sync", "%r1 %p1", ""),
        ("tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [tex, {%f5,%f6}];", "tex.2d.v4.f32.f32",
         "%f1 %f2 %f3 %f4", "%f5 %f6"),
        ("tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}|%p1, [tex, smp, {%f5,%f6}];", "tex.2d.v4.f32.f32",
         "%f1 %f2 %f3 %f4 %p1", "%f5 %f6"),
        ("tld4.r.2d.v4.f32.f32 {%f1, %f2, %f3, %f4} | %p1, [tex, {%f5, %f6}], {%r1, %r2};",
         "tld4.r.2d.v4.f32.f32", "%f1 %f2 %f3 %f4 %p1", "%f5 %f6 %r1 %r2"),
        ("spcompress.b8.b4.sp::2:4.x1 {%r1}, {%r2}, {%r3,%r4}, %r5;",
         "spcompress.b8.b4.sp::2:4.x1", "%r1 %r2", "%r3 %r4 %r5"),
        ("tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32 {%r1,%r2}, %r3, [%r4];",
         "tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32", "%r1 %r2 %r3", "%r4"),
        ("@%p1 tcgen05.ld.red.sync.aligned.32x32b.x1.min.u32 %r1, %r3, [%r4];",
         "tcgen05.ld.red.sync.aligned.32x32b.x1.min.u32", "%r1 %r3", "%p1 %r4"),
        ("tensormap.query.alloc_class_large.global.b1024 %p1, [%rd1];",
         "tensormap.query.alloc_class_large.global.b1024", "%p1", "%rd1"),
        ("fabric.wait.sync_restrict::read %r1;", "fabric.wait.sync_restrict::read", "", "%r1"),
        ("setmaxnreg.inc.sync.aligned.u32 240;", "setmaxnreg.inc.sync.aligned.u32", "", ""),
        ("brandnew.thing.v7 %r1, %r2;", "brandnew.thing.v7", "%r1", "%r2"),
    ],
)  # fmt: skip
def test_a_ptx_line_has_its_opcode_and_registers_in_any_layout(
    text: str, opcode: str, defs: str, uses: str
) -> None:
    for layout in (text, f"\t{text}", f"\t{text}   // a note", f"{text}\r", f"/* x */ {text}"):
        line = one(layout)
        assert line.kind is Kind.INSTRUCTION
        assert (line.opcode, line.base) == (opcode, opcode.partition(".")[0])
        assert (line.defs, line.uses) == (tuple(defs.split()), tuple(uses.split())), layout


def test_ptx_branches_and_calls_have_their_targets() -> None:
    line = one("@%p1 bra $L__BB0_2;")
    assert (line.base, line.targets, line.uses) == ("bra", ("$L__BB0_2",), ("%p1",))
    assert one("bra.uni DONE;").targets == ("DONE",)
    line = one("brx.idx %r1, table;")
    assert (line.targets, line.uses, line.defs) == (("table",), ("%r1",), ())
    line = one("table: .branchtargets A, B, C;")
    assert (line.label, line.targets) == ("table", ("A", "B", "C"))
    line = one("call (%r1), f, (%r2, %r3);")
    assert (line.defs, line.uses, line.targets) == (("%r1",), ("%r2", "%r3"), ("f",))
    line = one("call.uni (%r1), %rd1, (%r2), prototype_0;")
    assert (line.defs, line.uses, line.targets) == (("%r1",), ("%rd1", "%r2"), ())


def test_an_unfinished_statement_does_not_swallow_the_next() -> None:
    lines = parse_ptx("ld.global.b32 %r1\nadd.s32 %r3, %r1, %r2;\n?!\nret;").lines
    assert [line.opcode for line in lines] == ["ld.global.b32", "add.s32", None, "ret"]
    assert lines[2].kind is Kind.UNKNOWN


def test_ptx_directives_and_data_are_no_instructions() -> None:
    text = (
        '.version 8.7\n.target sm_90a, debug\n.address_size 64\n\t.pragma "nounroll";\n'
        ".global .align 4 .b8 table[8] = {1, 2,\n 3, 4,\n 5, 6, 7, 8};\n"
        "\t.reg .b32 %r<9>;\n.extern .shared .align 16 .b8 smem[];\n@@DWARF .byte 0\n"
        '.section .debug_str\n{\n$L__info:\n.b8 95,90\n.b8 0  // end\n}\n\t.section .debug_x { }'
    )  # fmt: skip
    lines = parse_ptx(text).lines
    assert {line.kind for line in lines} == {Kind.DIRECTIVE, Kind.LABEL}
    assert [line.label for line in lines if line.label] == ["$L__info"]


def test_names_declared_without_a_percent_sign_in_their_block() -> None:
    text = (
        "{\n.reg .pred p, q<2>;\nsetp.ne.s32 p, %r1, 0;\n@p add.s32 %r2, %r2, 1;\n"
        "@!q1 bra L;\n}\nsetp.ne.s32 p, %r1, 0;"
    )
    lines = parse_ptx(text).lines
    assert (lines[2].defs, lines[2].uses) == (("p",), ("%r1",))
    assert lines[3].uses == ("p", "%r2")
    assert lines[4].uses == ("q1",)
    assert lines[6].defs == (), "out of scope"


TWO = """.visible .entry first(
	.param .u64 first_param_0
)
.reqntid 128
{
	.loc 1 5 3
	ret;
}
.extern .func (.param .b32 r) vprintf
(
	.param .b64 a
)
;
.visible .func  (.param .b32 func_retval0) second(.param .b32 a) {
	ret;
	.loc 1 0 0
	ret;
	.loc 1 9 0
	{ // a block
	ret;
	}
	ret;
}
	ret;
.file 1 "/there/x.cu"
"""


def test_functions_and_their_locations() -> None:
    listing = parse_ptx(TWO)
    assert [(f.name, f.first, f.last, f.entry) for f in listing.functions] == [
        ("first", 1, 8, True),
        ("second", 14, 23, False),
    ]
    returns = [line.source for line in listing.lines if line.base == "ret"]
    nine = Location("/there/x.cu", 9, 0)
    assert returns == [Location("/there/x.cu", 5, 3), None, None, nine, nine, None]


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ('.file 1 "/a/b.cu"', "/a/b.cu"),
        ('.file 1 "/a" "b.cu"', "/a/b.cu"),
        ('\t.file\t1 "b.cu", 1234, 567', "b.cu"),
        (r'.file 1 "C:\\x \"y\".cu"', r'C:\x "y".cu'),
        ('.file 2 "b.cu"', ""),
    ],
)
def test_locations_name_the_file_of_their_number(line: str, file: str) -> None:
    text = f".entry a() {{\n.loc 1 2 3 // note\nret;\n}}\n{line}"
    assert parse_ptx(text).lines[2].source == Location(file, 2, 3)


def test_a_line_of_inlined_functions_has_all_frames() -> None:
    """Three functions deep: cube(x[i]) in poly in the kernel, and square in cube."""
    listing = parse_ptx(read_sample("nested.ptx"))
    by_text = {line.text.strip(): line for line in listing.lines}
    deep = by_text["mul.f32 \t%f5, %f4, %f4;"].source
    assert deep is not None
    assert [(f.line, f.column) for f in deep.frames()] == [(3, 5), (7, 5), (13, 5), (25, 9)]
    assert {f.file.rpartition("/")[2] for f in deep.frames()} == {"nested.cu"}
    assert [f.line for f in by_text["mul.f32 \t%f2, %f1, %f1;"].source.frames()] == [  # type: ignore[union-attr]
        3, 7, 12, 25,
    ]  # fmt: skip


ASSEMBLY = """\
.file 1 "k.py"
.visible .entry k()
{
	.loc	1 12 9                          // k.py:12:9
	// begin inline asm
	.loc	1 12 9                          // k.py:12:9
	mov.u32 %r1, %r5;
	.loc	1 13 9                          // k.py:13:9
	mov.u32 %r2, %r5;
	@%p1 ld.global.v2.b32 { %r1, %r2 }, [ %rd1 + 0 ];

	// end inline asm
	add.s32 	%r3, %r1, %r2;
	// begin inline asm
	@%p1 st.global.b32 [ %rd1 + 0 ], { %r3 };
	// end inline asm
	.loc	1 16 9                          // k.py:16:9
	mul.lo.s32 	%r4, %r3, %r3;
	ret;
}
.visible .entry after()
{
	ret;
	.loc	1 20 1
	ret;
}
"""


def test_inline_assembly_and_what_follows_it_have_the_place_before_it() -> None:
    lines = parse_ptx(ASSEMBLY).lines
    places = [
        (line.base, line.source and line.source.line)
        for line in lines
        if line.kind is Kind.INSTRUCTION
    ]
    assert places == [
        ("mov", 12), ("mov", 12), ("ld", 12), ("add", 12), ("st", 12), ("mul", 16), ("ret", 16),
        ("ret", None), ("ret", 20),
    ]  # fmt: skip


def test_an_unfinished_block_of_assembly_ends_with_its_function() -> None:
    text = ASSEMBLY.replace("\t// end inline asm\n", "")
    assert [line.source and line.source.line for line in parse_ptx(text).lines][-5:] == [
        None, None, 20, None, None,
    ]  # fmt: skip


def test_lines_that_ptxas_places_by_a_location_within_assembly_are_known() -> None:
    listing = parse_ptx(ASSEMBLY)
    texts = [listing.lines[n - 1].opcode for n in sorted(inline_assembly_lines(listing)) if n]
    assert [text for text in texts if text] == [
        "mov.u32", "mov.u32", "ld.global.v2.b32", "add.s32", "st.global.b32",
    ]  # fmt: skip
