"""What is content and what is a name, one construct at a time."""

from __future__ import annotations

import pytest

from inspector.base.model import Stage
from inspector.diff.beside import intra_line
from inspector.diff.canonical import digest, without_digests
from inspector.diff.listings import diff_listings, pair
from inspector.diff.matching import Op
from inspector.parsers import parse
from inspector.parsers.line import Listing


def ptx(body: str, name: str = "k", header: str = ".reg .b32 %r<9>;\n.reg .pred %p<9>;") -> Listing:
    return parse(Stage.PTX, f".visible .entry {name}()\n{{\n{header}\n{body}\nret;\n}}\n")


def sass(body: str) -> Listing:
    lines = [f"        /*{16 * i:04x}*/    {line} ;" for i, line in enumerate(body.split("\n"))]
    return parse(Stage.SASS, '\t.section\t.text.k,"ax",@progbits\n.text.k:\n' + "\n".join(lines))


def same(a: Listing, b: Listing) -> bool:
    diff = diff_listings(a, b)
    if len(a.functions) == len(b.functions) == 1:
        equal = digest(a, a.functions[0]) == digest(b, b.functions[0])
        assert equal == diff.functions[0].identical
    assert diff.identical == all(h.op is Op.EQUAL for h in diff.hunks)
    return diff.identical


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("add.s32 %r1, %r2, %r3;", "add.s32 %r7, %r1, %r5; // sum", True),
        ("mov.u32 %r1, %tid.x;", "mov.u32 %r1, %tid.y;", False),
        ("@%p1 ret;", "@!%p1 ret;", False),
        ("mov.b32 %r1, 1;", "mov.b32 %p1, 1;", False),
        ("$L__BB0_1:\nbra $L__BB0_1;", "$L__BB3_7:\nbra $L__BB3_7;", True),
        ("$L__BB0_1:\nbra.uni $L__BB0_1;", "loop:\nbra.uni loop;", True),
        ("$L__BB0_1:\n$L__BB0_2:\nbra $L__BB0_1;", "$L__BB0_1:\n$L__BB0_2:\nbra $L__BB0_2;", False),
        (".loc 1 2 3\nbar.sync 0;", ".loc 4 5 6\nbar.sync 0;", True),
        ("ld.param.u64 %r1, [k_param_0];", "ld.param.u64 %r1, [k_param_1];", False),
        (
            "{\n.reg .pred q;\nnot.pred q, %p1;\n}\n{\n.reg .pred q;\nnot.pred q, %p2;\n}",
            "{\n.reg .pred q;\nnot.pred q, %p1;\n}\n{\n.reg .pred z;\nnot.pred z, %p2;\n}",
            True,
        ),
    ],
)
def test_ptx_is_equal_up_to_names_of_registers_and_labels(a: str, b: str, expected: bool) -> None:
    assert same(ptx(a), ptx(b)) is expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("LDG.E R2, [R4.64]\nFADD R6, R5, R2", "LDG.E R12, [R6.64]\nFADD R9, R7, R12", True),
        ("LDG.E R2, [R4.64]\nFADD R6, R5, R2", "LDG.E R12, [R6.64]\nFADD R9, R8, R12", False),
        (
            "LDG.E.128 R4, desc[UR4][R2.64]\nFADD R0, R6, R7",
            "LDG.E.128 R8, desc[UR6][R12.64]\nFADD R0, R11, R10",
            False,
        ),
        ("@P0 EXIT", "@!P0 EXIT", False),
        ("IMAD.MOV.U32 R1, RZ, RZ, R5", "IMAD.MOV.U32 R2, RZ, RZ, R5", False),  # the stack
        ("LDC R2, c[0x0][0x28]", "LDC R2, c[0x0][0x2c]", False),
        ("FADD R2, R3.reuse, R4", "FADD R2, R3, R4", False),
        ("NOP\nBRA 0x0", "NOP\nBRA 0x10", False),
        ("CALL.REL.NOINC `(f)\nFADD R4, R4, R4", "CALL.REL.NOINC `(f)\nFADD R6, R6, R6", False),
    ],
)
def test_sass_is_equal_up_to_names_of_registers(a: str, b: str, expected: bool) -> None:
    assert same(sass(a), sass(b)) is expected


def test_sass_jumps_are_compared_by_the_instruction_they_reach() -> None:
    """A jump to an address goes to the instruction, wherever it stands."""
    a = sass("NOP\nFADD R2, R3, R4\nBRA 0x10")
    text = a.text.replace("/*0010*/", "/*0110*/").replace("/*0020*/", "/*0120*/")
    assert same(a, parse(Stage.SASS, text.replace("BRA 0x10", "BRA 0x110")))
    assert not same(a, parse(Stage.SASS, text.replace("BRA 0x10", "BRA 0x120")))


def ttgir(layout: str, used: str = "#blocked", other: str = "[1]") -> Listing:
    return parse(
        Stage.TTGIR,
        f"#blocked = #ttg.blocked<{{sizePerThread = {layout}}}>\n"
        f"#blocked1 = #ttg.blocked<{{sizePerThread = {other}}}>\n"
        "module {\n  tt.func public @k(%x: i32) {\n"
        f"    %0 = tt.splat %x : i32 -> tensor<8xi32, {used}> loc(#loc3)\n"
        '    tt.return loc("a.py":3:4)\n  }\n}\n#loc3 = loc("a.py":1:2)\n',
    )


def test_layouts_are_compared_by_definition() -> None:
    assert same(ttgir("[4]"), ttgir("[4]"))
    # the two names exchanged, definitions and all
    swapped = parse(
        Stage.TTGIR,
        ttgir("[4]")
        .text.replace("#blocked1", "#x")
        .replace("#blocked", "#blocked1")
        .replace("#x", "#blocked"),
    )
    a = ttgir("[4]")
    assert digest(a, a.functions[0]) == digest(swapped, swapped.functions[0])
    assert not same(a, ttgir("[4]", used="#blocked1"))


def test_a_layout_changes_where_it_is_defined() -> None:
    a, b = ttgir("[4]"), ttgir("[8]")
    diff = diff_listings(a, b)
    assert not diff.identical and not diff.functions[0].identical
    assert [h.a for h in diff.hunks if h.op is not Op.EQUAL] == [(1, 2)]
    # where only the function is looked at, on the lines that use it
    only = diff_listings(a, b, functions=((a.functions[0], b.functions[0]),))
    assert [h.a for h in only.hunks if h.op is not Op.EQUAL] == [(5, 6)]


def test_mlir_names_in_regions_beside_each_other() -> None:
    """A name that is free again in the next region is another value there."""
    text = (
        "tt.func @k(%c: i1) {\n  scf.if %c {\n    %1 = arith.constant 1 : i32\n"
        "    tt.use %1 : i32\n  }\n  scf.if %c {\n    %1 = arith.constant 1 : i32\n"
        "    tt.use %1 : i32\n  }\n  tt.return\n}\n"
    )
    head, tail = text[: text.rindex("scf.if")], text[text.rindex("scf.if") :]
    assert same(parse(Stage.TTIR, text), parse(Stage.TTIR, head + tail.replace("%1", "%2")))


def test_llvm_attributes_and_metadata_are_compared_by_content() -> None:
    def llvm(attribute: str, number: int, dbg: int) -> Listing:
        return parse(
            Stage.LLIR,
            f"define void @k() #{number} !dbg !{dbg} {{\n  %1 = add i32 0, 1, !dbg !{dbg + 1}\n"
            f"  ret void\n}}\nattributes #{number} = {{ {attribute} }}\n"
            f"!{dbg} = distinct !DISubprogram(line: {dbg})\n!{dbg + 1} = !DILocation(line: 3)\n",
        )

    assert same(llvm("nounwind", 0, 4), llvm("nounwind", 3, 9))
    a, b = llvm("nounwind", 0, 4), llvm('"nvvm.reqntid"="128"', 0, 4)
    diff = diff_listings(a, b)
    assert [h.a for h in diff.hunks if h.op is not Op.EQUAL] == [(5, 6)]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (
            "_Z3runPf_47_tmpxft_00001234_00000000_7_foo",
            "_Z3runPf_45_tmpxft_00abcd34_00000000_7_foo",
        ),
        ("$__internal_0_$__cuda_sm20_div", "$__internal_12_$__cuda_sm20_div"),
        ("_ZN50_INTERNAL_5f8a3c2e_9_k_cu_1b2c3d4eE", "_ZN49_INTERNAL_0f8a3c2e_9_k_cu_1b2c3dffE"),
    ],
)
def test_digests_in_names_are_no_difference(a: str, b: str) -> None:
    other = a.replace("cu", "cx").replace("foo", "bar")
    assert without_digests(a) == without_digests(b) != without_digests(other)


def test_pairs_by_name_then_likeness() -> None:
    def several(*functions: tuple[str, str]) -> Listing:
        return parse(
            Stage.PTX,
            "\n".join(f".visible .entry {n}()\n{{\n{body}\nret;\n}}" for n, body in functions),
        )

    adds, loads = "add.s32 %r1, %r2, 3;\n" * 6, "ld.global.b32 %r1, [%rd1];\n" * 6
    a = several(("a_0d1d", adds), ("b", loads), ("c", adds), ("gone", "bar.sync 0;\n" * 9))
    b = several(("x", loads), ("c", loads), ("a_0d1", adds))
    found = [(x and x.name, y and y.name) for x, y in pair(a, b)]
    assert found == [("a_0d1d", "a_0d1"), ("b", "x"), ("c", "c"), ("gone", None)]
    diff = diff_listings(a, b)
    assert [p.identical for p in diff.functions] == [True, True, False, False]
    covered = sorted(n for h in diff.hunks for n in range(*h.a))
    assert covered == list(range(1, len(a.lines) + 1))
    covered = sorted(n for h in diff.hunks for n in range(*h.b))
    assert covered == list(range(1, len(b.lines) + 1))


def ops(a: Listing, b: Listing) -> list[tuple[str, tuple[int, int], tuple[int, int]]]:
    return [(h.op.value, h.a, h.b) for h in diff_listings(a, b).hunks if h.op is not Op.EQUAL]


MOVING = "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\n{}\nst.global.b32 [%r7], %r5;"


def test_independent_lines_that_change_places_are_moved() -> None:
    one, two, three = "add.s32 %r3, %r1, 5;", "mul.lo.s32 %r4, %r2, 7;", "xor.b32 %r5, %r3, %r4;"
    a = ptx(MOVING.format("\n".join((one, two, three))))
    b = ptx(MOVING.format("\n".join((two, one, three))))
    found = ops(a, b)
    assert [f[0] for f in found] == ["moved"]
    assert not diff_listings(a, b).identical
    (_, (x, _), (y, _)) = found[0]
    assert a.lines[x - 1].text == b.lines[y - 1].text


@pytest.mark.parametrize(
    "lines",
    [
        ("add.s32 %r1, %r1, 5;", "mul.lo.s32 %r5, %r1, 7;"),  # reads what the other writes
        ("st.global.b32 [%r8], %r1;", "ld.global.b32 %r5, [%r7];"),  # memory
        ("bar.sync 0;", "ld.shared.b32 %r5, [%r7];"),
        ("$L__BB0_1:", "add.s32 %r5, %r1, 5;"),
        ("@%p1 bra $L__BB0_1;", "add.s32 %r5, %r1, 5;"),
    ],
)
def test_dependent_lines_that_change_places_are_not_moved(lines: tuple[str, str]) -> None:
    a = ptx(MOVING.format("\n".join(lines)))
    b = ptx(MOVING.format("\n".join(reversed(lines))))
    assert ops(a, b) and "moved" not in {f[0] for f in ops(a, b)}


def test_surplus_locations_are_quiet() -> None:
    a, b = ptx("bar.sync 0;\n.loc 1 2 3\nbar.sync 1;"), ptx("bar.sync 0;\nbar.sync 1;")
    diff = diff_listings(a, b)
    assert diff.functions[0].identical
    assert [(h.op.value, h.quiet) for h in diff.hunks if h.op is not Op.EQUAL] == [("delete", True)]


def test_python_is_compared_without_spacing_and_comments() -> None:
    def python(text: str) -> Listing:
        return parse(Stage.SOURCE, text, path="a.py")

    a = python("import torch\ndef f(x):\n    # twice\n    return x * 2  # so\n")
    assert diff_listings(a, python("import torch\ndef f(x):\n    return x  *  2\n")).identical
    assert not diff_listings(a, python("import torch\ndef f(x):\n   return x * 2\n")).identical
    assert not diff_listings(a, python("import torch\ndef f(y):\n    return y * 2\n")).identical
    s = python("import torch\ns = 'a  # b'\n")
    assert not diff_listings(s, python("import torch\ns = 'a # b'\n")).identical


def test_differences_within_a_line_leave_out_renamed_registers() -> None:
    a = "\tmad.wide.s32 \t%rd11, %r19, 4, %rd10;  // here"
    b = "\tmad.wide.s32 \t%rd21, %r29, 8, %rd20;"
    left, right = intra_line(a, b, {"%rd11": "%rd21", "%r19": "%r29", "%rd10": "%rd20"})
    assert [a[s:e] for s, e in left] == ["4"] and [b[s:e] for s, e in right] == ["8"]
    left, right = intra_line(a, b)
    assert [b[s:e] for s, e in right] == ["%rd21", "%r29", "8", "%rd20"]
    # a name that now means another one differs, though it is spelled alike
    for x, y, marked in (
        ("f(3, 4)", "f(5, 3)", (["3", "4"], ["5", "3"])),
        ("x = 3, 4, 9", "x = 5, 3, 9", (["3", "4"], ["5", "3"])),
        ("f(a, b, c, d)", "f(b, c, d, a)", (["a,"], [", a"])),  # it moved, and the others stayed
        ("f(a, b)", "f(a, c, b)", ([], ["c,"])),
    ):
        told = tuple(
            [text[s:e].strip() for s, e in spans]
            for text, spans in zip((x, y), intra_line(x, y), strict=True)
        )
        assert told == marked, (x, y)
    left, right = intra_line("add %r1, %r2;", "add %r2, %r2;", {"%r1": "%r2", "%r2": "%r1"})
    assert left and right and left[0][0] == 9
    x = "        /*0010*/     @P0 FADD R2, R3, R4 ;"
    y = "        /*0020*/     @!P0 FADD R2, R3, R4 ;"
    left, right = intra_line(x, y)
    assert not left and [y[s:e] for s, e in right] == ["!"]
