"""Hints on a launch against the device: what they count, and the launches that they leave alone."""

from __future__ import annotations

import msgspec.structs
import pytest

from inspector.analysis.function_facts import FunctionFacts
from inspector.analysis.hints.launching import masked_lanes
from inspector.analysis.hints.subject import Finding, HintSubject, Thresholds
from inspector.base.model import Argument, Call, Kernel, Origin, Stage, Variant
from inspector.parsers import parse
from tests.analysis.hints.test_hint_thresholds import rows_of
from tests.analysis.hints.test_hints import launched
from tests.analysis.hints.test_hints_ptx import DEPOT, INDEXED, ptx
from tests.helpers.hint_data import H200, THRESHOLDS, findings, pairs, rules


def blocks_of_threads(threads: int, **resources: int) -> HintSubject:
    """A launch that fills the device many times over, of blocks with this many threads."""
    subject = launched(132 * 64, **resources)
    call = msgspec.structs.replace(subject.calls[0], block=(threads, 1, 1))
    return msgspec.structs.replace(subject, calls=(call,))


@pytest.mark.parametrize(
    ("subject", "rule", "text"),
    [
        (launched(65), "small-grid", "65 blocks for 132 SMs: 67 of them get no work"),
        (launched(1), "small-grid", "1 block for 132 SMs: 131 of them get no work"),
        (launched(1055), "small-grid", "1,055 blocks fill 50% of what 132 SMs hold, 16 each"),
        (launched(3168), "tail-effect", "1 full wave and one of 1,056 blocks, where 2,112 fit"),
        (launched(3168), "tail-effect", "25% of the device's time is spent idle"),
        (launched(4752), "tail-effect", "2 full waves and one of 528 blocks, where 2,112 fit"),
        (
            # Two blocks of seven warps, of 64 warps.
            blocks_of_threads(224, dynamic_shared_bytes=80_000),
            "low-occupancy",
            "14 warps an SM, 22 percent of what it could hold, limited by shared memory: "
            "3.5 for each of its 4 schedulers",
        ),
        (blocks_of_threads(20), "idle-lanes", "20 threads take 1 warp, in which 12 of 32 lanes"),
        (blocks_of_threads(33), "idle-lanes", "33 threads take 2 warps, in which 31 of 64 lanes"),
        (
            pairs("few_lanes", num_warps=4),
            "idle-lanes",
            "128 threads (4 warps) for blocks of 32 elements at most: 96 threads repeat",
        ),
        (pairs("few_lanes", num_warps=4), "idle-lanes", "Launch with num_warps=1,"),
        (rows_of(768), "masked-lanes", "grid of 4×1×1, 768 of the 1,024 elements of a block"),
        (rows_of(768), "masked-lanes", "up to 25% of the lanes' work"),
        (
            launched(132, spill_store_bytes=8),
            "spills",
            "8 bytes of spill stores and 0 of spill loads a thread at 32 registers",
        ),
        (
            launched(132, spill_load_bytes=4),
            "spills",
            "0 bytes of spill stores and 4 of spill loads a thread at 32 registers",
        ),
        (ptx(INDEXED), "local-memory", "64 bytes a thread in local memory, by 2 instructions"),
        (
            ptx(".local .align 4 .b8 other[8];\n" + INDEXED),
            "local-memory",
            "72 bytes a thread in local memory",
        ),
        (ptx(INDEXED.removeprefix(DEPOT)), "local-memory", "An array in local memory"),
    ],
)
def test_a_hint_counts_what_the_launch_wastes(subject: HintSubject, rule: str, text: str) -> None:
    assert text in findings(subject)[rule].text


@pytest.mark.parametrize(
    ("blocks", "severity"), [(65, "warn"), (66, "hint"), (67, "hint"), (131, "hint")]
)
def test_a_grid_is_a_warning_where_most_sms_have_no_block(blocks: int, severity: str) -> None:
    assert findings(launched(blocks))["small-grid"].severity == severity


@pytest.mark.parametrize(("floats", "severity"), [(16384, "info"), (16385, "warn")])
def test_a_small_grid_of_at_most_64_kib_is_for_information(floats: int, severity: str) -> None:
    subject = launched(1)
    argument = Argument("x", dtype="float32", shape=(floats,))
    call = msgspec.structs.replace(subject.calls[0], arguments=(argument,))
    finding = findings(msgspec.structs.replace(subject, calls=(call,)))["small-grid"]
    assert finding.severity == severity


@pytest.mark.parametrize("blocks", [1056, 2111, 2112, 4224])
def test_whole_waves_and_a_part_of_one_have_no_tail(blocks: int) -> None:
    assert rules(launched(blocks)) == set()


@pytest.mark.parametrize(("blocks", "fires"), [(395, False), (396, True), (397, True)])
def test_occupancy_is_that_of_a_grid_that_fills_a_wave(blocks: int, fires: bool) -> None:
    """Three blocks of 168 registers a thread on each of 132 SMs."""
    assert ("low-occupancy" in rules(launched(blocks, registers=168))) is fires


def test_a_block_that_no_sm_can_hold_has_no_occupancy() -> None:
    assert "low-occupancy" not in rules(launched(132 * 64, dynamic_shared_bytes=400_000))


@pytest.mark.parametrize(
    ("threads", "fires"), [(28, True), (29, False), (56, True), (57, False), (224, False)]
)
def test_an_eighth_of_a_blocks_lanes_without_a_thread_is_a_hint(threads: int, fires: bool) -> None:
    assert ("idle-lanes" in rules(blocks_of_threads(threads))) is fires


@pytest.mark.parametrize(
    ("spilled", "fires"), [({"spill_store_bytes": 0}, True), ({"spill_store_bytes": 4}, False)]
)
def test_local_memory_without_ptx_is_an_array_where_nothing_spilled(
    spilled: dict[str, int], fires: bool
) -> None:
    subject = pairs("indexed")
    sass = {Stage.SASS: subject.facts[Stage.SASS]}
    resources = msgspec.structs.replace(subject.resources, **spilled)
    without_ptx = msgspec.structs.replace(subject, facts=sass, resources=resources)
    assert ("local-memory" in rules(without_ptx)) is fires


MASKED = """
#blocked = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}}>
module attributes {{"ttg.num-warps" = 1 : i32}} {{
  tt.func public @k(%x: !tt.ptr<f32>, %n: i32) {{
    %size = arith.constant {size} : i32
    %program = tt.get_program_id {axis} : i32
    %start = arith.muli %program, %size : i32
    %range = tt.make_range {{end = {size} : i32, start = 0 : i32}} : tensor<{size}xi32, #blocked>
    %starts = tt.splat %start : i32 -> tensor<{size}xi32, #blocked>
    %columns = arith.addi %starts, %range : tensor<{size}xi32, #blocked>
    %limits = tt.splat %n : i32 -> tensor<{size}xi32, #blocked>
    %mask = arith.cmpi slt, %columns, %limits : tensor<{size}xi32, #blocked>
    %pointers = tt.splat %x : !tt.ptr<f32> -> tensor<{size}x!tt.ptr<f32>, #blocked>
    %places = tt.addptr %pointers, %columns : tensor<{size}x!tt.ptr<f32>, #blocked>, tensor<{size}xi32, #blocked>
    %value = tt.load %places, %mask : tensor<{size}x!tt.ptr<f32>, #blocked>
    tt.return
  }}
}}
"""  # noqa: E501


def triton_call(grid: tuple[int, int, int], elements: int, count: int = 1) -> Call:
    """A launch of a kernel of ``masked_kernel`` on this many elements."""
    arguments = (
        Argument("x", "*fp32", dtype="float32", shape=(elements,)),
        Argument("n", "i32", elements),
    )
    block = (32, 1, 1)
    return Call("triton", "k", grid=grid, block=block, arguments=arguments, count=count)


def masked_kernel(*calls: Call, axis: str = "x", size: int = 64) -> HintSubject:
    """A kernel whose programs load consecutive blocks, up to the last element."""
    listing = parse(Stage.TTGIR, MASKED.format(axis=axis, size=size))
    function = listing.functions[0]
    subject = ptx("")
    signature = {"x": "*fp32", "n": "i32"}
    variant = Variant("", "", "k", config={"num_warps": 1}, signature=signature)
    return msgspec.structs.replace(
        subject,
        kernel=Kernel("k", "k", "k", Origin.TRITON, (variant,)),
        variant=variant,
        listings={**subject.listings, Stage.TTGIR: listing},
        functions={**subject.functions, Stage.TTGIR: function},
        facts={**subject.facts, Stage.TTGIR: FunctionFacts(listing, function)},
        calls=calls,
        device=H200,
    )


def thresholds_of(**changed: float) -> Thresholds:
    return {**THRESHOLDS, "masked-lanes": {**THRESHOLDS["masked-lanes"], **changed}}


def masked(subject: HintSubject, **changed: float) -> Finding | None:
    return next(masked_lanes(subject, thresholds_of(**changed)), None)


@pytest.mark.parametrize(
    ("axis", "blocks", "share_off"), [("x", 1, 0.5), ("y", 3, 0.25), ("z", 2, 1 / 3)]
)
def test_masks_are_counted_over_every_program_of_a_small_grid(
    axis: str, blocks: int, share_off: float
) -> None:
    """Of two by four by three programs those beyond the elements have nothing to do."""
    finding = masked(masked_kernel(triton_call((2, 4, 3), 64 * blocks), axis=axis))
    assert finding is not None
    assert not finding.estimated and "estimate" not in finding.text
    assert finding.gain == pytest.approx(share_off)
    assert f"up to {share_off:.0%} of the lanes' work" in finding.text


@pytest.mark.parametrize(
    ("budget", "blocks", "share_off"),
    [
        (64, 5, None),  # one program of eight, the fifth
        (64, 4, None),  # none of those looked at has anything to do
        (128, 6, 0.5),  # two of eight, the third and the seventh
        (128, 7, None),
        (191, 6, 0.5),
        (192, 6, 1 / 3),  # three: the second, the fifth and the seventh
        (192, 4, 2 / 3),
        (192, 1, None),
        (63, 1, None),  # not even one block may be evaluated
    ],
)
def test_a_large_grid_is_sampled_in_the_middles_of_equal_parts(
    budget: int, blocks: int, share_off: float | None
) -> None:
    finding = masked(masked_kernel(triton_call((8, 1, 1), 64 * blocks)), elements=budget)
    assert (finding is None) == (share_off is None)
    if finding is not None:
        assert finding.gain == pytest.approx(share_off)
        assert finding.estimated and "(an estimate, of some programs)" in finding.text


@pytest.mark.parametrize(("size", "fires"), [(16, False), (32, True)])
def test_masks_of_less_than_a_warp_are_left_alone(size: int, fires: bool) -> None:
    subject = masked_kernel(triton_call((2, 1, 1), size), size=size)
    assert (masked(subject) is not None) is fires


@pytest.mark.parametrize("grid", [(0, 1, 1), (4, 0, 1)])
def test_a_launch_of_no_program_masks_nothing(grid: tuple[int, int, int]) -> None:
    assert masked(masked_kernel(triton_call(grid, 1))) is None


def test_the_launch_that_leaves_the_fewest_elements_is_named() -> None:
    calls = (triton_call((4, 1, 1), 192), triton_call((8, 1, 1), 64), triton_call((2, 1, 1), 64))
    finding = masked(masked_kernel(*calls))
    assert finding is not None
    assert "grid of 8×1×1, 8 of the 64 elements" in finding.text


@pytest.mark.parametrize(("place", "fires"), [(3, True), (4, False)])
def test_only_the_most_frequent_launches_are_looked_at(place: int, fires: bool) -> None:
    calls = [triton_call((4, 1, 1), 256, count=9 - n) for n in range(5)]
    calls[place] = msgspec.structs.replace(triton_call((4, 1, 1), 64), count=calls[place].count)
    assert (masked(masked_kernel(*reversed(calls))) is not None) is fires
