"""Each rule of the explanation: what it says, with both sides' numbers, and when it is silent."""

from __future__ import annotations

import pytest

from inspector.base.model import Resources, Stage
from inspector.base.text import some
from inspector.diff.explanation import ratio
from inspector.listing import parse
from inspector.listing.line import Function, Listing
from tests.helpers.sides import LOAD, STORE, WIDE, side, tensor, told, using

MMA = "\tmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1};"
LOOP = "$L__BB0_1:\n\tadd.s32 %r1, %r1, 1;\n\t@%p1 bra $L__BB0_1;"


def taking(*parameters: str) -> tuple[Listing, Function]:
    """TTIR of a kernel with these parameters."""
    text = f"module {{\n  tt.func public @f({', '.join(parameters)}) {{\n    tt.return\n  }}\n}}\n"
    listing = parse(Stage.TTIR, text)
    return listing, listing.functions[0]


def loads(n: int, line: str = LOAD) -> str:
    return "\n".join([line] * n)


# -- what was chosen ------------------------------------------------------------------------------


def test_single_cause_has_its_effects() -> None:
    a = side(loads(8), body=tensor(1024), resources=using(registers=22))
    b = side(loads(4), body=tensor(1024), config={"num_warps": 8}, resources=using(registers=16))
    assert told(a, b)[0] == (
        "num_warps 4 → 8: half the elements a thread (8 → 4): "
        "8 → 4 ld.global, 22 → 16 registers, 9 → 5 PTX instructions"
    )


def test_several_causes_share_their_effects() -> None:
    a = side(loads(8), config={"num_stages": 2, "X": 1})
    b = side(loads(4), config={"num_stages": 3, "X": 2})
    assert told(a, b) == (
        "X 1 → 2",
        "num_stages 2 → 3",
        "together: 8 → 4 ld.global, 9 → 5 PTX instructions",
    )


def test_a_block_and_warps_that_grow_alike_leave_a_thread_what_it_had() -> None:
    a = side(body=tensor(1024), config={"BLOCK": 1024})
    b = side(body=tensor(2048), config={"BLOCK": 2048, "num_warps": 8})
    assert told(a, b)[0].startswith(
        "num_warps 4 → 8 and BLOCK 1024 → 2048: as many elements a thread as before (8)"
    )


def test_a_block_that_is_only_known_by_its_tensors() -> None:
    a, b = side(body=tensor(64, 64)), side(body=tensor(128, 64))
    assert told(a, b)[0].startswith(
        "largest tensor 64×64 → 128×64: twice the elements a thread (32 → 64)"
    )


def test_warps_without_ttir_say_nothing_of_elements() -> None:
    assert told(side(), side(config={"num_warps": 8}))[0] == (
        "num_warps 4 → 8: the ptx is the same but for names"
    )


def test_choice_without_effect_is_reported() -> None:
    a, b = side(config={"num_stages": 2}), side(config={"num_stages": 4})
    assert told(a, b) == ("num_stages 2 → 4: the ptx is the same but for names",)


def test_shared_memory_and_copies_come_with_stages() -> None:
    copy = "\tcp.async.cg.shared.global [%r1], [%rd1], 0x10, 0x10;"
    a = side(copy, config={"num_stages": 2}, resources=using(dynamic_shared_bytes=16384))
    b = side(loads(2, copy), config={"num_stages": 3}, resources=using(dynamic_shared_bytes=24576))
    assert told(a, b)[0] == (
        "num_stages 2 → 3: 1 → 2 cp.async, 16384 → 24576 bytes of dynamic shared memory, "
        "2 → 3 PTX instructions"
    )


def test_a_setting_that_one_side_has_not() -> None:
    a, b = side(config={"maxnreg": None}), side(config={"maxnreg": 64})
    assert told(a, b)[0].startswith("maxnreg unset → 64")


def test_the_target() -> None:
    assert told(side(target="sm_80"), side(target="sm_90"))[0].startswith("target sm_80 → sm_90")


def test_types_of_arguments() -> None:
    a = side(head=taking("%x: !tt.ptr<f32>", "%y: !tt.ptr<f32>", "%n: i32"))
    b = side(head=taking("%x: !tt.ptr<f16>", "%y: !tt.ptr<f16>", "%n: i32"))
    assert told(a, b)[0].startswith("x and y ptr<f32> → ptr<f16>")


def test_an_argument_that_became_a_constant() -> None:
    a, b = side(head=taking("%n: i32", "%s: i32")), side(head=taking("%n: i32"))
    assert told(a, b)[0].startswith("s i32 → no argument of its own")


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("", " {tt.divisibility = 16 : i32}", "n is known to be a multiple of 16 in b alone"),
        (" {tt.divisibility = 16 : i32}", "", "n is known to be a multiple of 16 in a alone"),
        (
            " {tt.divisibility = 8 : i32}",
            " {tt.divisibility = 16 : i32}",
            "n is known to be a multiple of 8 in a, of 16 in b",
        ),
    ],
)
def test_argument_specializations(a: str, b: str, expected: str) -> None:
    found = told(side(head=taking(f"%n: i32{a}")), side(head=taking(f"%n: i32{b}")))
    assert found[0].startswith(expected)


def test_flags_that_can_change_code() -> None:
    a = side(config={"flags": ["-O3", "/one/x.cu", "-DTORCH_EXTENSION_NAME=a"]})
    b = side(config={"flags": ["-O3", "/two/x.cu", "-DTORCH_EXTENSION_NAME=b", "--use_fast_math"]})
    assert told(a, b)[0].startswith("flags: --use_fast_math in b alone")
    paths = side(config={"flags": ["-O3", "/three/x.cu", "-DTORCH_EXTENSION_NAME=c"]})
    assert told(a, paths) == ("the ptx is the same but for names",)


def test_the_source() -> None:
    found = told(side(loads(1), source=("x = 1",)), side(loads(2), source=("x = 1", "y = 2")))
    assert found[0].startswith("source: 0 lines in a alone, 1 in b alone: 1 → 2 ld.global")


def test_nothing_chosen_differently() -> None:
    assert told(side(), side()) == ("the ptx is the same but for names",)
    assert told(side(loads(1)), side(loads(2)))[0].startswith(
        "nothing that was recorded was chosen differently: 1 → 2 ld.global"
    )


# -- effects -------------------------------------------------------------------------------------


def test_unknown_figures_are_not_told_as_changes() -> None:
    text = " ".join(told(side(resources=Resources()), side(resources=using(registers=40))))
    assert "registers" not in text


def test_wider_loads_over_the_same_bytes() -> None:
    assert (
        "global loads move 16 instead of 4 bytes a thread each: 8 → 2 of them for the same "
        "32 bytes" in told(side(loads(8)), side(loads(2, WIDE)))
    )


def test_wider_loads_over_other_bytes() -> None:
    found = told(side(loads(8)), side(loads(1, WIDE)))
    assert "global loads move 16 instead of 4 bytes a thread each" in found


def test_loads_of_several_widths_are_not_told_as_one() -> None:
    found = told(side(f"{LOAD}\n{WIDE}"), side(WIDE))
    assert not any("instead of" in text for text in found)


def test_masks_that_are_gone_and_that_came() -> None:
    masked = f"\t@%p1 {LOAD.strip()}"
    found = told(side(f"{masked}\n{STORE}"), side(f"{LOAD}\n{STORE}"))
    assert any(text.startswith("masks are gone: 1 of 2 global accesses of a ") for text in found)
    back = told(side(f"{LOAD}\n{STORE}"), side(f"{masked}\n{STORE}"))
    assert any(text.startswith("masks came: 1 of 2") for text in back)
    assert not any("masks" in text for text in told(side(masked), side(loads(2, masked))))


def test_tensor_cores_gained_and_products_of_another_shape() -> None:
    found = told(side(), side(MMA))
    assert "b multiplies on tensor cores (mma), a does not" in found
    other = MMA.replace("m16n8k16", "m16n8k8")
    assert any("1 → 1 mma (m16n8k16 → m16n8k8)" in text for text in told(side(MMA), side(other)))
    assert any("1 → 2 mma" in text for text in told(side(MMA), side(loads(2, MMA))))


def test_loops_with_the_blocks_that_are_launched() -> None:
    assert "0 → 1 loop" in told(side(), side(LOOP))
    assert "0 → 1 loop, and 1,000 → 132 blocks are launched" in told(
        side(grid=1000), side(LOOP, grid=132)
    )


def test_spills_with_the_registers_that_there_were() -> None:
    found = told(
        side(resources=using(registers=255, spill_store_bytes=0)),
        side(resources=using(registers=255, spill_store_bytes=64)),
    )
    assert (
        "spills: 0 → 64 bytes a thread are stored to local memory, with 255 and 255 registers a "
        "thread" in found
    )
    assert not any(
        text.startswith("spills")
        for text in told(side(resources=using(spill_store_bytes=None)), side())
    )


def test_occupancy_with_what_limits_it() -> None:
    found = told(side(), side(resources=using(registers=128)))
    assert (
        "occupancy in theory 100 → 25 %: 16 blocks an SM in a, limited by 128 threads a block; "
        "4 blocks an SM in b, limited by 128 registers a thread" in found
    )


def test_occupancy_on_two_devices_is_of_each() -> None:
    found = told(side(target="sm_86"), side(target="sm_90", resources=using(registers=128)))
    assert "occupancy in theory: 100 % of an SM of sm_86, 25 % of one of sm_90" in found


def test_where_the_difference_begins() -> None:
    only_sass = {Stage.PTX: True, Stage.SASS: False}
    assert "the ptx is the same: the difference was made by the assembler" in told(
        side(), side(), only_sass
    )
    # Where SASS is all there is, nothing is known of what stands above.
    assert not any("assembler" in text for text in told(side(), side(), {Stage.SASS: False}))
    layouts = {Stage.TTIR: True, Stage.TTGIR: False, Stage.PTX: False}
    assert any(
        "begins in ttgir" in text for text in told(side(), side(config={"num_warps": 8}), layouts)
    )
    source = {Stage.TTIR: False, Stage.TTGIR: False, Stage.PTX: False}
    assert not any("begins" in text for text in told(side(), side(loads(2)), source))


def test_times_need_both_measurements() -> None:
    assert "measured: 12.5 → 10.0 µs, 20% less" in told(side(time_us=12.5), side(time_us=10.0))
    assert "measured: 10.0 → 12.5 µs, 25% more" in told(side(time_us=10.0), side(time_us=12.5))
    assert not any("measured" in text for text in told(side(time_us=12.5), side()))


# -- numbers in words -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "word"),
    [
        (8, 4, "half"),
        (4, 8, "twice"),
        (32, 4, "an eighth of"),
        (3, 12, "four times"),
        (2, 3, "1.5 times"),
    ],
)
def test_ratios(a: int, b: int, word: str) -> None:
    assert ratio(a, b) == word


def test_lists() -> None:
    assert [some(list("abcde"[:n])) for n in (0, 1, 2, 3, 5)] == [
        "",
        "a",
        "a and b",
        "a, b and c",
        "a, b, c and 2 more",
    ]
