"""LLVM IR, one construct at a time. The LLVM language reference says what each means."""

import pytest

from inspector.base.model import Location
from inspector.parsers.line import Kind, Line
from inspector.parsers.llvm import parse_llvm

METADATA = """
!1 = !DIFile(filename: "f.py", directory: "/d\\22ir")
!2 = distinct !DISubprogram(name: "k", scope: !1, file: !1, line: 7)
!3 = !DILocation(line: 8, column: 9, scope: !2)
!4 = distinct !DISubprogram(name: "inner", scope: !9, file: !9, line: 70)
!5 = distinct !DILexicalBlockFile(scope: !6, file: !9, discriminator: 0)
!6 = distinct !DILexicalBlock(scope: !4, file: !9, line: 71)
!7 = !DILocation(line: 80, column: 5, scope: !5, inlinedAt: !3)
!8 = !DILocation(line: 0, scope: !2)
!9 = !DIFile(filename: "/abs/g.py", directory: "/dir")
!10 = !DILocation(line: 4, column: 1, scope: !10, inlinedAt: !10)
!11 = !DILocation(line: 4, column: 1, scope: !2, inlinedAt: !7)
"""
KERNEL = Location('/d"ir/f.py', 8, 9)


def body(*lines: str) -> list[Line]:
    """The lines inside a function."""
    text = "define void @f(i32 %0) {\n" + "\n".join(lines) + "\n}\n" + METADATA
    return list(parse_llvm(text).lines)[1 : 1 + len(lines)]


@pytest.mark.parametrize(
    ("text", "opcode", "defs", "uses"),
    [
        ("%3 = add nuw nsw i32 %1, %2", "add nuw nsw", "%3", "%1 %2"),
        ("%3 = icmp slt i32 %1, %2", "icmp slt", "%3", "%1 %2"),
        ("%3 = icmp samesign ult i32 %1, %2", "icmp samesign ult", "%3", "%1 %2"),
        ("%3 = fcmp fast olt float %1, %2", "fcmp fast olt", "%3", "%1 %2"),
        ("store <2 x i32> %1, ptr addrspace(1) %2, align 8", "store", "", "%1 %2"),
        ("%3 = tail call i32 @llvm.nvvm.shfl(i32 %1)", "tail call", "%3", "%1"),
        ("%3 = phi i32 [ %1, %5 ], [ 0, %6 ]", "phi", "%3", "%1"),
        ("%3 = getelementptr inbounds i8, ptr %1, i64 %2", "getelementptr inbounds", "%3", "%1 %2"),
        ('%3 = call { i32 } asm sideeffect "ld $0, %no;", "=r,l"(ptr %1) #1', "call", "%3", "%1"),
        ('%"odd name" = sub i32 %"other name", %2', "sub", "%odd_name", "%other_name %2"),
        ("unreachable ; %1 in a comment", "unreachable", "", ""),
    ],
)
def test_an_llvm_instruction_has_its_opcode_and_values(
    text: str, opcode: str, defs: str, uses: str
) -> None:
    (line,) = body(f"  {text}")
    assert line.kind is Kind.INSTRUCTION
    assert (line.opcode, line.defs, line.uses) == (opcode, tuple(defs.split()), tuple(uses.split()))
    assert line.base == next(w for w in opcode.split() if w != "tail")


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        ("!dbg !3", KERNEL),
        ("!dbg !7", Location("/abs/g.py", 80, 5, KERNEL)),
        ("!dbg !11", Location('/d"ir/f.py', 4, 1, Location("/abs/g.py", 80, 5, KERNEL))),
        ("!dbg !8", None),
        ("!dbg !99", None),
        ("!dbg !10", Location("", 4, 1)),
        ("!dbg !DILocation(line: 8, column: 9, scope: !2)", KERNEL),
    ],
)
def test_an_llvm_line_has_the_location_of_its_metadata(
    mark: str, expected: Location | None
) -> None:
    assert body(f"  %2 = add i32 %0, 1, {mark}")[0].source == expected


def test_debug_intrinsics_and_records_use_nothing() -> None:
    intrinsic, record = body(
        "  call void @llvm.dbg.value(metadata i32 %0, metadata !5, metadata !6), !dbg !3",
        "    #dbg_value(i32 %0, !5, !DIExpression(), !7)",
    )
    assert (intrinsic.kind, intrinsic.uses, intrinsic.source) == (Kind.INSTRUCTION, (), KERNEL)
    assert (record.kind, record.uses) == (Kind.DIRECTIVE, ())
    assert record.source is not None
    assert record.source.line == 80


def test_branches_labels_and_switches() -> None:
    lines = body(
        "  br i1 %0, label %3, label %named",
        "3:                          ; preds = %1",
        "named:",
        "  switch i32 %0, label %default [",
        "    i32 1, label %3",
        "    i32 2, label %named",
        "  ]",
        "  ret void",
    )
    assert (lines[0].targets, lines[0].uses) == (("3", "named"), ("%0",))
    assert [(li.kind, li.label) for li in lines[1:3]] == [(Kind.LABEL, "3"), (Kind.LABEL, "named")]
    assert lines[3].targets == ("default", "3", "named")
    assert [line.opcode for line in lines[4:]] == [None, None, None, "ret"]
    assert {line.kind for line in lines[4:]} == {Kind.INSTRUCTION}


def test_llvm_functions_have_their_lines() -> None:
    text = (
        "declare void @no(i32)\ndefine ptx_kernel void @yes(ptr %0, i32 %n) !dbg !2 {\n"
        '  call void @no(i32 1)\n}\ndefine internal void @"a b"() {\n}\n' + METADATA
    )
    listing = parse_llvm(text)
    assert [(f.name, f.first, f.last, f.entry) for f in listing.functions] == [
        ("yes", 2, 4, True),
        ("a b", 5, 6, False),
    ]
    header = listing.lines[1]
    assert (header.label, header.defs) == ("yes", ("%0", "%n"))
    assert header.source == Location('/d"ir/f.py', 7)
    assert listing.lines[2].targets == ("no",)
