"""Hints on pieces of PTX and SASS: what each is made to leave alone, and what not."""

from collections.abc import Iterable

import msgspec.structs
import pytest

from inspector.analysis.function_facts import FunctionFacts
from inspector.analysis.hints.subject import HintSubject
from inspector.base.model import Kernel, Origin, Resources, Stage, Variant
from inspector.parsers import parse
from tests.helpers.hint_data import findings, pairs, rules


def ptx(
    body: str, parameters: str = ".param .u64 k_param_0,\n.param .u32 k_param_1"
) -> HintSubject:
    """A kernel of the given PTX."""
    text = (
        ".version 9.0\n.target sm_90\n.address_size 64\n"
        f".visible .entry k(\n{parameters}\n)\n{{\n.reg .b32 %r<99>;\n.reg .b64 %rd<99>;\n"
        f".reg .f32 %f<99>;\n.reg .f64 %fd<99>;\n.reg .pred %p<9>;\n{body}\nret;\n}}\n"
    )
    listing = parse(Stage.PTX, text)
    variant = Variant("", "", "k", target="sm_90")
    kernel = Kernel("k", "k", "k", Origin.NVCC, (variant,))
    own = listing.functions[0]
    facts = {Stage.PTX: FunctionFacts(listing, own)}
    listings, functions = {Stage.PTX: listing}, {Stage.PTX: own}
    return HintSubject(kernel, variant, Resources(), listings, functions, facts=facts)


PLACE = """
ld.param.u64 %rd1, [k_param_0];
ld.param.u32 %r1, [k_param_1];
mov.u32 %r2, %tid.x;
"""

PROMOTED = """
ld.global.f32 %f1, [%rd1];
cvt.f64.f32 %fd1, %f1;
mul.f64 %fd2, %fd1, 0d3FE988453365DE00;
cvt.rn.f32.f64 %f2, %fd2;
st.global.f32 [%rd1], %f2;
"""


def test_widened_multiplied_by_a_literal_and_narrowed_is_a_promotion() -> None:
    finding = findings(ptx(PLACE + PROMOTED))["fp64-promotion"]
    assert "1 fp64 instruction against 0 in fp32" in finding.text
    assert "1/2 of the rate" in finding.text
    assert len(finding.lines[Stage.PTX]) == 3


@pytest.mark.parametrize(
    "changed",
    [
        PROMOTED.replace("0d3FE988453365DE00", "%fd1"),  # a sum of squares, meant to be exact
        PROMOTED.replace("0d3FE988453365DE00", "0d0000000000000000"),
        PROMOTED.replace("cvt.rn.f32.f64 %f2, %fd2;", ""),
        PROMOTED.replace("cvt.f64.f32 %fd1, %f1;", "cvt.rn.f64.s64 %fd1, %rd1;"),  # sinf
        PROMOTED + "ld.global.f64 %fd3, [%rd1];",
        PROMOTED + "st.global.v2.f64 [%rd1], {%fd1, %fd2};",
    ],
)
def test_doubles_that_are_meant_are_no_promotion(changed: str) -> None:
    assert "fp64-promotion" not in rules(ptx(PLACE + changed))


DEPOT = ".local .align 16 .b8 __local_depot0[64];\n"
INDEXED = DEPOT + "st.local.u32 [%rd1], %r1;\nld.local.u32 %r3, [%rd2];"


def test_local_array_is_reported_with_its_size() -> None:
    assert "64 bytes a thread" in findings(ptx(INDEXED))["local-memory"].text


@pytest.mark.parametrize(
    "body",
    [
        DEPOT + "st.local.u32 [%rd1], %r1;",  # the arguments of printf
        INDEXED + "\nmov.u64 %rd5, __cudart_i2opi_f;",  # the slow path of sinf
    ],
)
def test_local_memory_that_is_not_an_array_of_the_program(body: str) -> None:
    assert "local-memory" not in rules(ptx(body))


def lane(stride: str, body: str) -> str:
    return PLACE + f"{stride}\nmul.wide.s32 %rd2, %r3, 4;\nadd.s64 %rd3, %rd1, %rd2;\n{body}"


FAR, NARROW = "uncoalesced-layout", "narrow-access"


@pytest.mark.parametrize(
    ("rule", "stride", "offsets", "fires"),
    [
        (FAR, "mov.u32 %r3, %r2;", (0,), False),
        (FAR, "shl.b32 %r3, %r2, 2;", (0,), True),
        (FAR, "mul.lo.s32 %r3, %r2, %r1;", (0,), True),
        (FAR, "xor.b32 %r3, %r2, 31;", (0,), False),  # backwards
        (FAR, "ld.global.u32 %r3, [%rd1];", (0,), False),  # an index from memory: not known
        (FAR, "rem.s32 %r3, %r2, 8;\nmul.lo.s32 %r3, %r3, 64;", (0,), True),
        (FAR, "shl.b32 %r3, %r2, 2;", (0, 4, 8, 12), False),  # a structure that is read whole
        (NARROW, "shl.b32 %r3, %r2, 2;", (0, 4, 8, 12), True),
        (NARROW, "shl.b32 %r3, %r2, 1;", (4, 0), True),
        (NARROW, "shl.b32 %r3, %r2, 2;", (0, 8), False),  # not side by side
        (NARROW, "mov.u32 %r3, %r2;", (-4, 0, 4), False),  # a stencil: neighbours overlap
        (NARROW, "mul.lo.s32 %r3, %r2, 3;", (0, 4, 8), False),  # 12 bytes: never aligned
        (NARROW, "mul.lo.s32 %r3, %r2, %r1;", (0, 4, 8, 12), False),  # a row of unknown length
        (NARROW, "shl.b32 %r3, %r2, 2;", (4, 8), False),  # straddles the middle
        (NARROW, "shl.b32 %r3, %r2, 1;", (0,), False),
    ],
)
def test_loads_by_the_distances_of_lanes_and_of_each_other(
    rule: str, stride: str, offsets: tuple[int, ...], fires: bool
) -> None:
    loads = "\n".join(f"ld.global.f32 %f{k}, [%rd3+{at}];" for k, at in enumerate(offsets))
    assert (rule in rules(ptx(lane(stride, loads)))) is fires


def loads(offsets: Iterable[int], between: str = "", width: str = "f32") -> str:
    texts = [f"ld.global.{width} %f{n}, [%rd3+{offset}];" for n, offset in enumerate(offsets)]
    return f"\n{between}\n".join(texts)


@pytest.mark.parametrize(
    ("stride", "body", "text"),
    [
        (2, loads((0, 4)), "2 accesses of 4 bytes a thread to neighbouring addresses in global "
         "memory, where 1 of 8 bytes"),
        (4, loads((0, 4, 8)), "2 accesses of 4 bytes a thread to neighbouring addresses in global "
         "memory, where 1 of 8 bytes"),
        (4, loads((0, 4, 8, 12)), "4 accesses of 4 bytes a thread to neighbouring addresses in "
         "global memory, where 1 of 16 bytes"),
        (8, loads(range(0, 32, 4)), "8 accesses of 4 bytes a thread to neighbouring addresses in "
         "global memory, where 2 of 16 bytes"),
        (8, loads(range(0, 24, 4)), "6 accesses of 4 bytes"),  # four at once, then two
        (1, loads((0, 1), width="u8"), "2 accesses of 1 bytes"),
        (1, loads((0, 2), width="u16"), "where 1 of 4 bytes"),
        (4, loads((0, 8), width="f64"), "2 accesses of 8 bytes a thread to neighbouring addresses "
         "in global memory, where 1 of 16 bytes"),
        (8, loads((0, 16), width="v4.f32"), None),
        (4, loads((0, 4), "bar.sync 0;"), None),  # another thread may write in between
        (4, loads((0, 4), "$L1:"), None),
        (4, loads((0,)) + "\nst.global.f32 [%rd3+4], %f0;", None),
    ],
)  # fmt: skip
def test_neighbours_are_one_access_as_wide_as_their_alignment(
    stride: int, body: str, text: str | None
) -> None:
    found = findings(ptx(lane(f"mul.lo.u32 %r3, %r2, {stride};", body)))
    if text is None:
        assert NARROW not in found
    else:
        assert text in found[NARROW].text
        assert found[NARROW].estimated


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (loads((0, 4, 8, 12)), 0),  # a structure that is read whole
        (loads((0, 4, 8, 12), "bar.sync 0;"), 4),
        (loads((0, 4, 8)) + "\nst.global.f32 [%rd3+12], %f0;", 1),
        (loads((0,)) + "\nadd.s64 %rd4, %rd1, %rd2;\nld.global.f32 %f2, [%rd4+4];", 2),
    ],
)
def test_only_what_moves_together_shares_sectors(body: str, lines: int) -> None:
    """Lanes are 16 bytes apart: one load of 4 bytes uses a quarter of its sectors."""
    found = findings(ptx(lane("mul.lo.u32 %r3, %r2, 4;", body)))
    assert (len(found[FAR].lines[Stage.PTX]) if FAR in found else 0) == lines


@pytest.mark.parametrize(
    ("stride", "text"),
    [
        ("mul.lo.u32 %r3, %r2, 4;", "touches 16 sectors of 32 bytes for data that fill 4"),
        ("mul.lo.u32 %r3, %r2, 64;", "touches 32 sectors of 32 bytes for data that fill 4"),
        ("mul.lo.u32 %r3, %r2, %r1;", "(unless the argument that their index is multiplied by"),
    ],
)
def test_a_scattered_load_says_how_much_it_moves(stride: str, text: str) -> None:
    found = findings(ptx(lane(stride, loads((0,)))))[FAR].text
    assert text in found
    assert ("unless" in found) is ("unless" in text)


@pytest.mark.parametrize(
    ("body", "rule", "text"),
    [
        (
            "div.s32 %r3, %r2, %r1;",
            "slow-division",
            "1 division in a kernel without loops (div.s32)",
        ),
        (
            "add.f32 %f1, %f1, %f2;\nrem.u64 %rd3, %rd2, %rd1;\nrem.u64 %rd4, %rd2, %rd1;",
            "slow-division",
            "2 divisions in a kernel without loops (rem.u64), about 92% of its instructions",
        ),
        (PROMOTED, "fp64-promotion", "1 fp64 instruction against 0 in fp32"),
        (
            PROMOTED + "add.f64 %fd3, %fd2, %fd2;\nadd.f32 %f3, %f2, %f2;\nmul.f32 %f4, %f2, %f2;\n"
            "mov.f32 %f5, %f2;\nmov.f64 %fd4, %fd2;",
            "fp64-promotion",
            "2 fp64 instructions against 2 in fp32",
        ),
    ],
)
def test_a_hint_on_arithmetic_counts_its_instructions(body: str, rule: str, text: str) -> None:
    assert text in findings(ptx(PLACE + body))[rule].text


@pytest.mark.parametrize(
    "moved", ["atom.global.add.f64 %fd3, [%rd1], %fd2;", "red.global.add.f64 [%rd1], %fd2;"]
)
def test_a_kernel_that_adds_to_doubles_means_them(moved: str) -> None:
    assert "fp64-promotion" not in rules(ptx(PLACE + PROMOTED + moved))


def test_a_kernel_that_is_passed_doubles_means_them() -> None:
    declared = ".param .u64 k_param_0,\n.param .u32 k_param_1,\n.param .{} k_param_2"
    assert "fp64-promotion" in rules(ptx(PLACE + PROMOTED, declared.format("f32")))
    assert "fp64-promotion" not in rules(ptx(PLACE + PROMOTED, declared.format("f64")))


@pytest.mark.parametrize(
    ("argument", "fires"),
    [("!tt.ptr<f32>", True), ("!tt.ptr<f64>", False), ("!tt.tensordesc<tensor<8xf64>>", False)],
)
def test_a_triton_kernel_of_doubles_means_them(argument: str, fires: bool) -> None:
    subject = ptx(PLACE + PROMOTED)
    text = f"module {{\n  tt.func public @k(%x: {argument}) {{\n    tt.return\n  }}\n}}\n"
    listing = parse(Stage.TTGIR, text)
    triton = msgspec.structs.replace(
        subject,
        listings={**subject.listings, Stage.TTGIR: listing},
        functions={**subject.functions, Stage.TTGIR: listing.functions[0]},
    )
    assert ("fp64-promotion" in rules(triton)) is fires


def test_lanes_that_a_guard_keeps_out_do_not_count() -> None:
    body = "setp.lt.u32 %p1, %r2, 4;\n@%p1 ld.global.f32 %f1, [%rd3];"
    assert rules(ptx(lane("shl.b32 %r3, %r2, 5;", body))) == set()


LOOP = (
    "mov.u32 %r9, 0;\n$L__BB0_1:\n{}\nadd.s32 %r9, %r9, 1;\n"
    "setp.lt.s32 %p1, %r9, %r1;\n@%p1 bra $L__BB0_1;"
)
ADDS = "\n".join("add.f32 %f1, %f1, %f2;" for _ in range(100))
SHARED = "st.shared.f32 [%r3], %f1;\nbar.sync 0;\nld.shared.f32 %f1, [%r4];"


@pytest.mark.parametrize(
    ("rule", "body", "fires"),
    [
        ("slow-division", LOOP.format("div.s32 %r3, %r2, %r1;"), True),
        ("slow-division", LOOP.format("div.rn.f32 %f3, %f2, %f1;"), True),
        ("slow-division", LOOP.format("div.s32 %r3, %r2, 7;"), False),
        ("slow-division", LOOP.format("div.full.f32 %f3, %f2, %f1;"), False),
        ("slow-division", LOOP.format("div.s32 %r3, %r2, %r1;\n" + ADDS), False),
        ("slow-division", "div.s32 %r3, %r2, %r1;\n" + LOOP.format(ADDS), False),  # once, before
        ("slow-division", "rem.s64 %rd3, %rd2, %rd1;", True),
        ("barrier-in-loop", LOOP.format(SHARED), True),
        ("barrier-in-loop", SHARED, False),
        ("barrier-in-loop", LOOP.format(SHARED + "\n" + ADDS), False),
        ("barrier-in-loop", LOOP.format(SHARED + "\ncp.async.commit_group;"), False),
    ],
)
def test_what_is_much_of_the_work_of_a_loop(rule: str, body: str, fires: bool) -> None:
    assert (rule in rules(ptx(PLACE + body))) is fires


@pytest.mark.parametrize(
    ("callee", "severity"), [("_Z8far_awayf", "hint"), ("vprintf", "info"), ("__assertfail", None)]
)
def test_calls_by_what_they_call(callee: str, severity: str | None) -> None:
    call = f"{{\n.param .b32 p;\ncall.uni (retval0), \n{callee}, \n(\np\n);\n}}"
    found = findings(ptx(PLACE + call)).get("uninlined-call")
    assert (found.severity if found else None) == severity
    if found and severity == "hint":
        assert "far_away" in found.text


def additions(count: int) -> str:
    return "\n".join(["add.f32 %f1, %f1, %f2;"] * count)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (SHARED, "1 barrier in a loop with about 6 instructions of PTX for each"),
        # Of two barriers in one loop each has half of its 20 instructions.
        (f"{SHARED}\n{SHARED}\n{additions(11)}", "2 barriers in a loop with about 10 instructions"),
    ],
)
def test_barriers_share_the_instructions_of_their_loop(body: str, text: str) -> None:
    assert text in findings(ptx(PLACE + LOOP.format(body)))["barrier-in-loop"].text


def test_a_division_before_a_loop_does_not_count_beside_one_in_it() -> None:
    body = "rem.u32 %r4, %r2, %r1;\n" + LOOP.format("div.s32 %r3, %r2, %r1;")
    text = findings(ptx(PLACE + body))["slow-division"].text
    # 23 instructions, and three of the loop.
    assert "1 division in a loop (div.s32), about 88% of its instructions" in text


def test_only_the_innermost_loop_of_a_barrier_counts() -> None:
    outer = f"$OUTER:\n{SHARED}\n{LOOP.format(ADDS)}\nsetp.lt.s32 %p2, %r8, %r1;\n@%p2 bra $OUTER;"
    assert "barrier-in-loop" not in rules(ptx(PLACE + outer))


def test_inlined_call_is_not_a_call() -> None:
    called, inlined = pairs("called"), pairs("inlined")
    assert "uninlined-call" in rules(called)
    facts = {**called.facts, Stage.SASS: inlined.facts[Stage.SASS]}
    changed = msgspec.structs.replace(called, facts=facts)
    assert "uninlined-call" not in rules(changed)
