"""Addresses of a warp's lanes and elements of tensors, against their definitions."""

import re
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from inspector.analysis.hints.access import degree
from inspector.analysis.hints.subject import HintSubject
from inspector.analysis.hints.warp import Warp, WarpAccess
from inspector.analysis.tensors import Tensors, blocked
from inspector.base.model import Stage
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
