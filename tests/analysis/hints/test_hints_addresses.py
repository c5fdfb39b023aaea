"""Addresses of a warp's lanes and elements of tensors, against their definitions."""

import re
from collections import Counter
from collections.abc import Sequence

import msgspec.structs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inspector.analysis.hints.access import degree
from inspector.analysis.hints.subject import HintSubject
from inspector.analysis.hints.warp import Warp, WarpAccess, runs
from inspector.analysis.sentences.context import Parameter
from inspector.analysis.tensors import Tensors, blocked
from inspector.base.model import Call, Stage
from inspector.parsers.ptx_code import PtxFunction
from tests.analysis.hints.test_hints_ptx import ptx
from tests.analysis.sentences.test_ptx_values import Op, run
from tests.helpers.hint_data import pairs

MASK = 0xFFFFFFFF


def code_of(subject: HintSubject) -> PtxFunction:
    assert subject.ptx_code is not None
    return subject.ptx_code


OPCODES = [
    *("add.s32", "sub.s32", "mul.lo.s32", "and.b32", "or.b32", "xor.b32", "shl.b32", "shr.u32"),
    *("shr.s32", "min.s32", "max.u32", "div.u32", "div.s32", "rem.u32"),
]


@settings(max_examples=100, deadline=None)
@given(
    program=st.lists(
        st.tuples(st.sampled_from(OPCODES), st.integers(0, 9), st.integers(1, 40)),
        min_size=1,
        max_size=9,
    )
)
def test_integer_ptx_is_computed_as_the_isa_says(program: list[tuple[str, int, int]]) -> None:
    code: list[Op] = [
        (opcode, f"%r{at}", (f"%r{source % at}", str(constant)))
        for at, (opcode, source, constant) in enumerate(program, 1)
    ]
    # The lane is added, as an access of one place by all lanes is left out.
    last = f"%r{len(program)}"
    code.append(("add.u32", "%r98", (last, "%r0")))
    states = [{"%r0": lane} for lane in range(32)]
    for state in states:
        run(code, state)
    expected = [state["%r98"] for state in states]
    lines = [f"{opcode} {d}, {', '.join(args)};" for opcode, d, args in code]
    subject = ptx("\n".join(["mov.u32 %r0, %tid.x;", *lines, "st.shared.b32 [%r98], %r0;"]))
    found = Warp(code_of(subject), (32, 1, 1)).accesses
    several = len(set(expected)) > 1
    assert [[a & MASK for a in one.addresses] for one in found] == [expected] * several


def addresses(body: str, block: tuple[int, int, int] = (32, 1, 1)) -> list[tuple[int, ...]]:
    subject = ptx(body)
    return [a.addresses for a in Warp(code_of(subject), block).accesses]


def test_threads_of_a_warp_run_along_x_first() -> None:
    body = (
        "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %tid.y;\n"
        "mad.lo.s32 %r3, %r2, 100, %r1;\nst.shared.b32 [%r3], %r1;"
    )
    assert addresses(body, (8, 4, 1)) == [tuple(100 * y + x for y in range(4) for x in range(8))]
    assert len(addresses(body, (5, 2, 1))[0]) == 10


def test_threads_of_a_warp_run_along_y_before_z() -> None:
    body = "mov.u32 %r1, %tid.z;\nst.shared.b32 [%r1], %r1;"
    assert addresses(body, (2, 4, 4)) == [tuple(lane // 8 for lane in range(32))]


def test_a_loop_is_in_its_first_turn_and_an_if_is_not_guessed() -> None:
    head = "mov.u32 %r1, %tid.x;\nmov.u32 %r2, 0;\n"
    loop = "$L1:\nadd.s32 %r3, %r1, %r2;\nst.shared.b32 [%r3], %r1;\nadd.s32 %r2, %r2, 64;\n"
    back = "setp.lt.s32 %p1, %r2, 512;\n@%p1 bra $L1;\n"
    assert addresses(head + loop + back) == [tuple(range(32))]
    choice = "@%p3 bra $L2;\nmov.u32 %r2, 7;\n$L2:\nst.shared.b32 [%r2], %r1;"
    assert addresses(head + choice) == []


def test_vectors_guards_shuffles_and_halves() -> None:
    head = "mov.u32 %r1, %tid.x;\n"
    packed = "mov.b64 %rd1, {%r1, 0};\nmov.b64 {%r2, %r3}, %rd1;\nst.shared.b32 [%r2], %r3;"
    assert addresses(head + packed) == [tuple(range(32))]
    upper_half = "mov.b64 %rd1, {0, %r1};\nmov.b64 {%r2, %r3}, %rd1;\nst.shared.b32 [%r3], %r2;"
    assert addresses(head + upper_half) == [tuple(range(32))]
    guarded = (
        "setp.gt.u32 %p1, %r1, 29;\n"
        "@%p1 st.shared.b32 [%r1], %r1;\n@!%p1 st.shared.b32 [%r1+4], %r1;"
    )
    assert addresses(head + guarded) == [(30, 31), tuple(range(4, 34))]
    shuffled = "shfl.sync.idx.b32 %r2, %r1, 5, 31, -1;\nadd.u32 %r3, %r2, %r1;\n"
    shuffled += "st.shared.b32 [%r3], %r1;"
    assert addresses(head + shuffled) == [tuple(range(5, 37))]


TID = "mov.u32 %r1, %tid.x;\n"
FIRST = "setp.lt.u32 %p1, %r1, 20;\n"  # lanes 0 to 19
EVEN = "and.b32 %r2, %r1, 1;\nsetp.eq.u32 %p2, %r2, 0;\n"
STORE = "st.shared.b32 [%r1], %r1;"


@pytest.mark.parametrize(
    ("predicates", "guard", "lanes"),
    [
        ("setp.ge.and.u32 %p3, %r1, 10, %p1;", "%p3", range(10, 20)),
        ("setp.lt.or.u32 %p3, %r1, 25, %p1;", "%p3", range(25)),
        ("setp.ge.xor.u32 %p3, %r1, 10, %p1;", "%p3", (*range(10), *range(20, 32))),
        ("setp.lt.u32 %p3|%p4, %r1, 7;", "%p3", range(7)),
        ("setp.lt.u32 %p3|%p4, %r1, 7;", "%p4", range(7, 32)),
        ("and.pred %p3, %p1, %p2;", "%p3", range(0, 20, 2)),
        ("not.pred %p3, %p1;", "%p3", range(20, 32)),
        ("setp.ge.and.u32 %p3, %r1, 10, !%p1;", "%p3", range(20, 32)),
        ("setp.num.f32 %p3, %f1, %f2;", "%p3", None),
        ("setp.lt.and.u32 %p3, %r1, 10, %p5;", "%p3", None),  # combined with what is not known
        ("setp.lt.and.u32 %p3, %r1, 0, %p5;", "%p3", ()),  # of no lane, whatever that is
    ],
)
def test_a_guard_lets_the_lanes_in_of_which_its_predicates_hold(
    predicates: str, guard: str, lanes: Sequence[int] | None
) -> None:
    body = f"{TID}{FIRST}{EVEN}{predicates}\n@{guard} {STORE}"
    assert addresses(body) == ([tuple(lanes)] if lanes else [])


@pytest.mark.parametrize(
    ("guarded", "values"),
    [
        ("mov.u32 %r3, 7;\n@%p1 mov.u32 %r3, 9;", [9] * 20 + [7] * 12),
        ("mov.u32 %r3, 7;\n@!%p1 mov.u32 %r3, 9;", [7] * 20 + [9] * 12),
        ("@%p1 mov.u32 %r3, 9;", None),  # the others hold what is not known
        ("mov.u32 %r3, 7;\n@%p5 mov.u32 %r3, 9;", None),
        ("mov.u32 %r3, 7;\n@%p1 ld.global.u32 %r3, [%rd1];", None),
        ("mov.u32 %r3, 7;\nsetp.ge.u32 %p3, %r1, 32;\n@%p3 mov.u32 %r3, 9;", [7] * 32),
        ("mov.u32 %r3, 7;\nsetp.lt.u32 %p3, %r1, 32;\n@%p3 mov.u32 %r3, 9;", [9] * 32),
        ("ld.global.u32 %r4, [%rd1];\nand.b32 %r3, %r4, 0;", [0] * 32),
        ("ld.global.u32 %r4, [%rd1];\nor.b32 %r3, %r4, 0;", None),
        ("ld.global.u32 %r4, [%rd1];\nand.b32 %r3, %r4, 1;", None),
        ("cvta.to.shared.u32 %r3, %r1;", list(range(32))),
        ("shfl.sync.idx.b32 %r3, %r1, 37, 31, -1;", [5] * 32),
        ("shfl.sync.idx.b32 %r3, %r1, %r1, 31, -1;", None),  # from a lane of each lane's own
        ("shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;", None),
        ("mov.b32 {%rs1, %rs2}, %r1;\nmov.b32 %r3, {%rs2, %rs1};", [n << 16 for n in range(32)]),
        (
            "mov.b64 %rd5, {1, 2, 3, 4};\nmov.b64 {%r4, %r3}, %rd5;",
            [(4 << 16) + 3] * 32,
        ),
        ("mov.b64 %rd5, {%r1, %r9};\nmov.b64 {%r3, %r4}, %rd5;", None),
        ("mov.b64 %rd5, {%r9, %r1};\nmov.b64 {%r4, %r3}, %rd5;", None),
    ],
)
def test_a_register_holds_what_the_lanes_that_took_part_wrote(
    guarded: str, values: list[int] | None
) -> None:
    body = f"{TID}{FIRST}{guarded}\nmad.lo.u32 %r8, %r1, 64, %r3;\nst.shared.b32 [%r8], %r1;"
    wanted = [tuple(64 * lane + value for lane, value in enumerate(values or ()))]
    assert addresses(body) == (wanted if values else [])


@pytest.mark.parametrize(
    ("register", "values"),
    [
        ("%laneid", range(32)),
        ("%tid.x", [0, 1, 2, 3] * 8),
        ("%tid.y", [lane // 4 % 3 for lane in range(32)]),
        ("%tid.z", [lane // 12 for lane in range(32)]),
        ("%warpid", [0] * 32),
        ("%ntid.x", [4] * 32),
        ("%ntid.y", [3] * 32),
        ("%ntid.z", [5] * 32),
        ("%clock", None),
    ],
)
def test_special_registers_are_those_of_the_first_warp(
    register: str, values: Sequence[int] | None
) -> None:
    body = (
        f"mov.u32 %r1, %laneid;\nmov.u32 %r2, {register};\n"
        "mad.lo.u32 %r3, %r1, 64, %r2;\nst.shared.b32 [%r3], %r1;"
    )
    wanted = [tuple(64 * lane + value for lane, value in enumerate(values or ()))]
    assert addresses(body, (4, 3, 5)) == (wanted if values else [])


def test_a_block_is_inside_the_grid_on_every_axis() -> None:
    for axis in "xyz":
        body = f"{TID}mov.u32 %r2, %ctaid.{axis};\nmov.u32 %r3, %nctaid.{axis};\n"
        stores = "".join(
            f"add.u32 %r{n + 2}, %r1, %r{n};\nst.shared.b32 [%r{n + 2}], %r1;\n" for n in (2, 3)
        )
        # %r4 is the sum with the block, %r5 that with the grid.
        block, grid = addresses(body + stores)
        assert 0 < block[0] < grid[0] - 1
        assert block == tuple(range(block[0], block[0] + 32))


def test_only_accesses_of_several_places_in_global_and_shared_memory_are_kept() -> None:
    body = (
        f"{TID}mul.wide.u32 %rd2, %r1, 16;\nld.param.u64 %rd1, [k_param_0];\n"
        "add.s64 %rd3, %rd1, %rd2;\nld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd3];\n"
        "st.global.cs.u16 [%rd3+8], %rs1;\nld.shared::cta.f64 %fd1, [%r1];\n"
        "ld.local.f32 %f1, [%r1];\nld.shared.f32 %f1, [16];\natom.global.add.u32 %r5, [%rd3], 1;\n"
        "bar.sync 0;\nst.volatile.shared.u8 [%r1+4], %rs1;\n$L1:\nst.shared.u8 [%r1], %rs1;"
    )
    accesses = Warp(code_of(ptx(body)), (32, 1, 1)).accesses
    kinds = [(a.space, a.store, a.width, a.block) for a in accesses]
    assert kinds == [
        ("global", False, 16, 0),
        ("global", True, 2, 0),
        ("shared", False, 8, 0),
        ("shared", True, 1, 1),
        ("shared", True, 1, 2),
    ]
    assert accesses[1].addresses == tuple(place + 8 for place in accesses[0].addresses)
    assert accesses[0].base == accesses[1].base != accesses[2].base


def test_arrays_and_pointers_are_aligned_and_far_apart() -> None:
    arrays = (
        f"{TID}shl.b32 %r2, %r1, 2;\n"
        "mov.u32 %r3, a;\nadd.u32 %r4, %r3, %r2;\nst.shared.b32 [%r4], %r1;\n"
        "mov.u32 %r5, b;\nadd.u32 %r6, %r5, %r2;\nst.shared.b32 [%r6], %r1;\n"
        "mov.u32 %r7, a+12;\nadd.u32 %r8, %r7, %r2;\nst.shared.b32 [%r8], %r1;"
    )
    a, b, inside = addresses(arrays)
    assert inside == tuple(place + 12 for place in a)
    pointers = f"{TID}mul.wide.u32 %rd3, %r1, 4;\n" + "".join(
        f"ld.param.u64 %rd{n}, [p{n}];\nadd.s64 %rd{n + 4}, %rd{n}, %rd3;\n"
        f"st.global.b32 [%rd{n + 4}], %r1;\n"
        for n in (1, 2)
    )
    subject = ptx(pointers, ".param .u64 p1,\n.param .u64 p2")
    first, second = (access.addresses for access in Warp(code_of(subject), (32, 1, 1)).accesses)
    for one, other in ((a, b), (first, second)):
        assert one[0] > 0 and one[0] % 256 == other[0] % 256 == 0
        assert abs(one[0] - other[0]) > 1 << 19


@pytest.mark.parametrize(
    ("load", "stride"),
    [
        ("ld.param.u32 %r2, [k_param_1];\nmul.lo.u32 %r3, %r1, %r2;", 12),
        ("ld.param.u32 %r2, [k_param_1];\nshl.b32 %r3, %r1, %r2;", None),
        ("ld.param.u32 %r2, [k_param_1+4];\nmul.lo.u32 %r3, %r1, %r2;", None),
        ("ld.param.u32 %r2, [elsewhere];\nmul.lo.u32 %r3, %r1, %r2;", None),
        # Eight bytes that are multiplied are a size, and no pointer.
        ("ld.param.u64 %rd2, [k_param_1];\ncvt.u64.u32 %rd3, %r1;\n"
         "mul.lo.u64 %rd4, %rd3, %rd2;\ncvt.u32.u64 %r3, %rd4;", 12),
    ],
)  # fmt: skip
def test_a_parameter_that_is_multiplied_is_the_unknown_scalar(
    load: str, stride: int | None
) -> None:
    code = code_of(ptx(f"{TID}{load}\nst.shared.b32 [%r3], %r1;"))
    found = Warp(code, (32, 1, 1), unknown=12).accesses
    if stride is None:
        assert all(access.addresses != tuple(range(0, 384, 12)) for access in found)
    else:
        assert [access.addresses for access in found] == [tuple(range(0, 32 * stride, stride))]


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        (Parameter(1, symbol="k_param_1", value=6), 6),
        (Parameter(1, symbol="k_param_1", value=6, multiple=16), 6),
        (Parameter(1, symbol="k_param_1", multiple=16), 80),
        (Parameter(1, symbol="k_param_1"), 5),
        (Parameter(1, symbol="k_param_2", value=6), 5),
    ],
)
def test_a_parameter_is_the_launchs_else_a_multiple_of_what_stands_for_it(
    parameter: Parameter, value: int
) -> None:
    body = "ld.param.u32 %r2, [k_param_1];\nmul.lo.u32 %r3, %r1, %r2;\nst.shared.b32 [%r3], %r1;"
    (access,) = Warp(code_of(ptx(TID + body)), (32, 1, 1), [parameter], unknown=5).accesses
    assert access.addresses == tuple(value * lane for lane in range(32))


@pytest.mark.parametrize(
    ("body", "shapes"), [("", 1), ("mov.u32 %r2, %tid.y;", 4), ("mov.u32 %r2, %tid.z;", 4)]
)
def test_every_shape_that_a_block_may_have_is_run(body: str, shapes: int) -> None:
    subject = ptx(f"{TID}{body}\n{STORE}")
    assert len(runs(subject)) == shapes
    call = Call("extension", "k", grid=(1, 1, 1), block=(8, 2, 1))
    (run,) = runs(msgspec.structs.replace(subject, calls=(call,)))
    assert [len(access.addresses) for access in run.values()] == [16]
    assert runs(HintSubject(subject.kernel, subject.variant)) == ()


@pytest.mark.parametrize(
    ("width", "addresses", "times"),
    [
        (1, range(32), 1),
        (1, range(0, 32 * 128, 128), 32),
        (2, range(0, 64, 2), 1),
        (2, range(0, 32 * 64, 64), 16),
        (4, range(0, 16 * 128, 128), 16),  # half of a warp
        (4, [0] * 32, 1),
        (4, [0, 128] * 16, 2),
        (8, range(0, 32 * 8, 8), 1),
        (8, range(0, 32 * 16, 16), 2),
        (16, range(0, 32 * 16, 16), 1),
        (16, range(0, 32 * 32, 32), 2),
        (4, range(2, 130, 4), 2),  # each word straddles two
        (4, (), 1),
    ],
)
def test_conflicts_of_narrow_few_and_wide_lanes(
    width: int, addresses: Sequence[int], times: int
) -> None:
    assert degree(WarpAccess(1, "shared", False, width, tuple(addresses))) == times


def conflicts(addresses: tuple[int, ...], width: int) -> int:
    """The definition: of a pass, the most different words in any one bank."""
    lanes = {4: 32, 8: 16, 16: 8}[width]
    passes = 0
    for start in range(0, len(addresses), lanes):
        words = {
            (a + 4 * k) // 4 for a in addresses[start : start + lanes] for k in range(width // 4)
        }
        passes += max(Counter(word % 32 for word in words).values())
    return passes // -(-len(addresses) // lanes)


@given(
    width=st.sampled_from([4, 8, 16]),
    stride=st.integers(0, 80),
    swizzle=st.integers(0, 31),
)
def test_conflicts_are_the_words_a_bank_is_asked_for(width: int, stride: int, swizzle: int) -> None:
    places = tuple(width * (lane * stride ^ swizzle) for lane in range(32))
    access = WarpAccess(1, "shared", False, width, places)
    assert degree(access) == conflicts(places, width)


def test_elements_of_a_row_are_as_the_source_says() -> None:
    subject = pairs("scale_kernel", num_warps=4, columns="strided")
    values = {"col_stride": 11, "output_stride": 13, "n_cols": 600}
    tensors = Tensors(subject.lines(Stage.TTGIR), values, (5, 0, 0))
    load = next(line for line in subject.ttgir if line.base == "tt.load")
    store = next(line for line in subject.ttgir if line.base == "tt.store")
    base = tensors.elements("%input_ptr")[0]
    assert base is not None
    for col in (0, 1, 599, 600, 1023):
        assert tensors.elements(load.uses[0], ((col,),))[0] == base + 4 * (
            5 + col * 11
        )  # rows 1 apart
        assert tensors.elements(load.uses[1], ((col,),))[0] == int(col < 600)
        out = tensors.elements("%output_ptr")[0]
        assert out is not None
        assert tensors.elements(store.uses[0], ((col,),))[0] == out + 4 * (5 * 13 + col)
    assert tensors.elements(load.defs[0], ((0,),))[0] is None
    assert tensors.programs


def test_elements_of_a_tile_are_as_the_source_says() -> None:
    subject = pairs("dot_kernel", PRECISION="tf32", TURNED=True)
    tensors = Tensors(subject.lines(Stage.TTGIR), {})
    load = next(line for line in subject.ttgir if line.base == "tt.load")
    start = tensors.elements(load.uses[0], ((0, 0),))[0]
    assert start is not None
    for place in ((0, 1), (1, 0), (63, 63), (17, 5)):
        assert tensors.elements(load.uses[0], (place,))[0] == start + 4 * (64 * place[0] + place[1])
    assert tensors.elements(load.uses[0], ((3,),))[0] is None


def test_layouts_say_how_much_a_thread_holds() -> None:
    subject = pairs("scale_kernel", num_warps=4, columns=1024)
    layouts = blocked(subject.listings[Stage.TTGIR].lines)
    (layout,) = layouts.values()
    said = re.search(r"sizePerThread = \[(\d+)\]", subject.listings[Stage.TTGIR].text)
    assert said is not None
    assert layout.size == (int(said[1]),)
    assert layout.elements_a_thread((1024,)) == 1024 // 128
