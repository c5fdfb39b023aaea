"""The Python that is generated from PTX: known syntax and known names alone, for any text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inspector.execute import Program
from inspector.execute.program import HANDLERS, MALFORMED
from inspector.execute.translate import SCOPE, Untranslatable
from inspector.execute.words import KNOWN

DATA = Path(__file__).parent.parent / "data"


def few_registers(line: str) -> str:
    """A statement on the registers that the kernel here declares."""
    line = line.strip().replace("%rs", "%h")
    return re.sub(r"%([a-z]+)(\d+)", lambda m: f"%{m[1]}{int(m[2]) % 9}", line)


BODIES = [
    few_registers(line)
    for name in ("execute/control.ptx", "parsers/matmul_sm90.ptx", "parsers/gelu_sm90.ptx")
    for line in (DATA / name).read_text("utf-8").split("\n")
    if re.match(r"\s+(@!?%p\d+ )?[a-z][\w.:]+\s[^;]*;\s*$", line)
]
BODIES += [
    "mbarrier.expect_tx.relaxed.cta.shared.b64 [sm], %r1;",
    "mbarrier.arrive.expect_tx.shared.b64 %rd1, [sm], %r1;",
    "mbarrier.try_wait.parity.shared.b64 %p1, [sm], %r1;",
    "cp.async.ca.shared.global [sm], [%rd1], 16, %r1;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [sm], %r1;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%rd1], %r1, [sm];",
    "atom.global.add.noftz.f16x2 %r1, [%rd1], %r2;",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1,%r2,%r3,%r4}, %rd1, %rd2, %p1, 1, 1, "
    "0, 0;",
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1,%r2,%r3,%r4}, [sm];",
    "shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;",
    "vote.sync.ballot.b32 %r1, %p1, -1;",
    "call.uni (%r1), vprintf, (sm, sm);",
    "call.uni __assertfail, (sm, sm, sm, sm);",
    "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [sm], 0, %r1;",
    "setp.lt.and.f16x2 %p1|%p2, %r1, %r2, %p3;",
    "lop3.and.b32 %r1|%p1, %r1, %r2, %r3, 0x80, %p2;",
    "mov.b64 {%r1, %r2}, %rd1;",
    "bar.red.popc.u32 %r1, 0, %p1;",
    "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e2m1.f32."
    "ue8m0 {%r1,%r2,%r3,%r4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%r1,%r2,%r3,%r4}, %r7, {0, 1}, %r8, "
    "{%h1, 2};",
    "cvt.rn.satfinite.relu.scaled::n2::ue8m0.s2f6x2.f32 %h1, %f1, %f2, %h2;",
    "cvt.rn.scaled::n2::ue8m0.bf16x2.e4m3x2 %r1, %h1, %h2;",
    "vadd.s32.u32.s32.sat.min %r1, %r2.b0, %r3.h1, %r4;",
    "vset.u32.s32.lt %r1.b2, %r2, %r3, %r4;",
    "vmad.s32.s32.u32.po.sat.shr7 %r1, %r2.h0, %r3.b3, %r4;",
    "vavrg4.u32.u32.u32.add %r1.b310, %r2.b0725, %r3, %r4;",
]
OPERANDS = [
    *("%r1", "%rd1", "%p1", "!%p1", "%f1", "%h1", "%q", "sm", "g", "nobody", "%tid.x", "%clock64"),
    *("_", "0", "-1", "1e999", "0f7fc00000", "0d7ff0000000000000", "99999999999999999999", "1.5"),
    *("{%r1, %r2}", "{}", "{%r1}", "[%rd1]", "[sm+4]", "[sm-4]", "[%rd1, {%r1, %r2}]", "%r1|%p1"),
    *('"); import os #', "r1", "__import__", "K[0]", "\\n", "'", "{0}", "{mask}", "é", "%r1 .b32"),
]
WORDS = sorted(set().union(*KNOWN.values()) | {"b8", "b128", "pred", "u1", "{0}", "m64n8k9", "x"})
HEAD = """.version 8.6
.target sm_90a
.address_size 64
.global .align 8 .b64 g;
.visible .entry k(.param .u64 a)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>; .reg .f32 %f<9>; .reg .b16 %h<9>;
.reg .b128 %q; .shared .align 128 .b8 sm[4096];
"""
NODES = (
    *(ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Assign, ast.Expr, ast.Delete),
    *(ast.Return, ast.Pass, ast.Name, ast.Load, ast.Store, ast.Del, ast.Constant, ast.Attribute),
    *(ast.Call, ast.Subscript, ast.Tuple, ast.List, ast.Lambda, ast.BinOp, ast.UnaryOp),
    *(ast.Compare, ast.operator, ast.unaryop, ast.cmpop),
)
NAME = re.compile(r"[rx]\d+|[KLGRAmabc]")
TEXT = re.compile(r"[%\w.]{0,24}")
OF_MACHINE = {
    *("lanes", "memory", "bulk", "phases", "messages", "globals", "tell", "multiply_group"),
    *("special", "load", "store", "atomic", "copy", "load_matrix", "store_matrix", "print"),
    *("failed", "initialise", "invalidate", "expect", "arrive", "test", "load_tile", "store_tile"),
    *("copy_in", "copy_out", "copy_map", "replace", "hold", "store_async"),
    "rank_base",
}
OF_ARRAYS = {"astype", "view", "dtype", "type"}


@st.composite
def statements(draw: st.DrawFn) -> str:
    """A statement of a compiler's, or of a table's opcode, with parts exchanged."""
    text = draw(st.sampled_from(BODIES))
    guard, opcode, rest = re.fullmatch(r"(@!?\S+ )?(\S+)\s*(.*);", text).groups()  # type: ignore[union-attr]
    parts = opcode.split(".")
    operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,\s]+", rest)
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.integers(0, 5))
        if kind == 0:
            parts[0] = draw(st.sampled_from(sorted(HANDLERS)))
        elif kind == 1:
            parts.insert(draw(st.integers(1, len(parts))), draw(st.sampled_from(WORDS)))
        elif kind == 2 and len(parts) > 1:
            parts[draw(st.integers(1, len(parts) - 1))] = draw(st.sampled_from(WORDS))
        elif kind == 3 and operands:
            del operands[draw(st.integers(0, len(operands) - 1))]
        elif kind == 4 and operands:
            operands[draw(st.integers(0, len(operands) - 1))] = draw(
                st.sampled_from(OPERANDS) | st.text(max_size=6)
            )
        else:
            guard = draw(st.sampled_from(["@%p1 ", "@!%p1 ", "@%rd1 ", "@%q ", "@sm "]))
    return f"{guard or ''}{'.'.join(parts)} {', '.join(operands)};"


def sources(text: str) -> Iterator[str]:
    """The Python of each instruction of a text that has a translation."""
    try:
        program = Program(text)
    except Exception as error:
        assert type(error).__name__ == "LaunchError"
        return
    program.cannot()
    translator = program.translator
    for watched in (False, True):
        translator.watched = watched
        for block in program.blocks.blocks:
            for number in range(block.first, block.last):
                translator.lines, translator.origins = [], []
                row = program.code.instructions[number]
                try:
                    if row is block.end:
                        translator.emit(f"x0 = {translator.end(block) or None}")
                    else:
                        translator.instruction(number, row)
                except (Untranslatable, *MALFORMED):
                    continue
                yield "\n".join(translator.lines)


def check(source: str) -> None:
    for node in ast.walk(ast.parse(source)):
        assert isinstance(node, NODES), f"{type(node).__name__} in {source}"
        if isinstance(node, ast.Name):
            known = node.id in SCOPE or node.id in ("bool", "R", "A")
            assert known or NAME.fullmatch(node.id), f"{node.id} in {source}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert TEXT.fullmatch(node.value), f"{node.value!r} in {source}"
        elif isinstance(node, ast.Attribute):
            check_attribute(node, source)


def check_attribute(node: ast.Attribute, source: str) -> None:
    owner = SCOPE.get(node.value.id) if isinstance(node.value, ast.Name) else None
    if isinstance(owner, ModuleType):
        assert hasattr(owner, node.attr) and node.attr[0] != "_", f"{node.attr} in {source}"
        return
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        root = root.value
    of_machine = isinstance(root, ast.Name) and root.id == "m"
    assert node.attr in (OF_MACHINE if of_machine else OF_ARRAYS), f"{node.attr} in {source}"


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(statements(), min_size=1, max_size=6))
def test_generated_python_has_only_known_syntax_and_names(body: list[str]) -> None:
    for source in sources(HEAD + "\n".join(body) + "\nret;\n}\n"):
        check(source)


def test_the_instructions_of_compilers_have_sources_that_are_checked() -> None:
    translated = list(sources(HEAD + "\n".join(BODIES) + "\nret;\n}\n"))
    assert len(translated) > 250
    for source in translated:
        check(source)
