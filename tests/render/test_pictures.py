"""Pictures by the models that they are drawn from."""

import pytest
from msgspec.structs import replace

from inspector.analysis.card import Card, Estimate, card
from inspector.analysis.tuner_times import tuner_facts
from inspector.base.model import (
    Argument,
    Call,
    Configuration,
    GpuTime,
    Kernel,
    Origin,
    Recording,
    Resources,
    Tuning,
)
from inspector.measure.launch_time import BOUND, RUN, LaunchTime
from inspector.measure.time.results import ESTIMATE
from inspector.reader import tables
from inspector.render.pictures.occupancy_picture import occupancy_picture
from inspector.render.pictures.picture import RowPicture
from inspector.render.pictures.roofline_picture import roofline_picture
from inspector.render.pictures.terminal_picture import picture_lines
from inspector.render.pictures.tuning_picture import tuning_picture


def gpu_time(*quartiles: float) -> GpuTime:
    low, median, high = quartiles
    return GpuTime(100, median, low, (low, median, high))


def candidate(name: str, us: float, time: GpuTime | None = None) -> Configuration:
    return Configuration({"X": name}, name, us, gpu_time=time)


def picture_of(*rounds: Tuning, codes: dict[str, bytes] | None = None) -> RowPicture | None:
    kernel = Kernel("k", "k", "k", Origin.INDUCTOR, (), autotune=rounds)
    facts = tuner_facts(Recording("x", (kernel,)), codes or {})
    labels = [c.variant or "" for c in rounds[0].configurations]
    return tuning_picture(rounds[0], facts, labels)


def tuning(*candidates: Configuration, best: int = 0, elements: int = 1 << 20) -> Tuning:
    return Tuning("inductor", {"n": elements}, candidates, best, "stopwatch")


def test_candidates_by_gpu_time_have_their_quartiles_and_ties_with_the_best() -> None:
    picture = picture_of(
        tuning(
            candidate("a", 30, gpu_time(1.9, 2.0, 2.2)),
            candidate("b", 31, gpu_time(1.85, 1.9, 2.1)),
            candidate("c", 32, gpu_time(3.0, 3.1, 3.2)),
        )
    )
    assert picture is not None
    rows = [(row.label, row.mark, row.role, row.low, row.high) for row in picture.rows]
    assert rows == [
        ("b", "☆", "best", 1.85, 2.1),
        ("a", "★☆", "chosen", 1.9, 2.2),
        ("c", "", "other", 3.0, 3.2),
    ]
    assert picture.answer == "The choice is one of 2 that are tied: their difference is noise."
    assert picture.band == (1.85, 2.1)


def test_a_choice_that_is_slower_by_gpu_time_is_answered_as_such() -> None:
    picture = picture_of(
        tuning(
            candidate("a", 30, gpu_time(4.0, 4.1, 4.2)),
            candidate("b", 31, gpu_time(1.9, 2.0, 2.1)),
        )
    )
    assert picture is not None
    assert "not the fastest by GPU time" in picture.answer
    drawn = [line.plain for line in picture_lines(picture, 80)]
    assert any(line.lstrip().startswith("★") and "▸" in line for line in drawn)


def test_bands_of_tuners_times_touch_where_two_candidates_are_tied() -> None:
    first = tuning(candidate("a", 10), candidate("b", 10.8), candidate("c", 12))
    second = tuning(candidate("a", 11), candidate("b", 10.8 * 1.1), candidate("c", 12 * 1.1))
    picture = picture_of(first, second)
    assert picture is not None and picture.band is not None
    roles = {row.label: row.role for row in picture.rows}
    assert roles == {"a": "chosen", "b": "tied", "c": "other"}
    for row in picture.rows[1:]:
        assert row.low is not None
        assert (row.low <= picture.band[1]) == (row.role == "tied")


def test_without_two_times_of_one_code_no_band_is_drawn() -> None:
    picture = picture_of(tuning(candidate("a", 10), candidate("b", 12)))
    assert picture is not None
    assert picture.band is None
    assert "unknown" in picture.answer


def test_the_answer_by_tuners_times_says_what_launching_may_take_of_them() -> None:
    for us in (9.9, 10, 10.1, 30):
        small = tuning(candidate("a", 10), candidate("b", 12), elements=128)
        picture = picture_of(tuning(candidate("a", us), candidate("b", us + 2)), small)
        assert picture is not None
        assert picture.answer.startswith("No candidate was timed twice")
        assert picture.answer.endswith("Launching alone may take up to 10.0 µs of each time.")


def test_a_round_with_one_time_has_no_picture() -> None:
    untimed = Configuration({"X": "b"}, "b", None)
    assert picture_of(tuning(candidate("a", 10), untimed)) is None


def test_rows_fit_the_width() -> None:
    candidates = [candidate(f"w4 s{n} " + "XBLOCK=1024 " * 4, 10 + n) for n in range(20)]
    picture = picture_of(tuning(*candidates))
    assert picture is not None
    for width in (80, 120):
        assert max(line.cell_len for line in picture_lines(picture, width)) <= width


# -- the card -----------------------------------------------------------------------------------

H200 = tables.devices()["sm_90"]
PEAKS = {"memory_bandwidth": 4800e9, "fp32": 67e12, "bf16_tensor": 989.5e12}


def card_of(registers: int, blocks: int, shared: int = 0) -> Card:
    """Blocks of 256 threads on an H200, which move 1 MB and compute 1 MFLOP of fp32."""
    argument = Argument("x", "*fp32", None, "float32", (1,))
    call = Call("triton", "k", None, (blocks, 1, 1), (256, 1, 1), shared, (argument,))
    resources = Resources(registers, 0, 0, 0, 0, shared, 1, 256)
    without_code = card(resources, H200, {}, lambda language, opcode: None, call)
    return replace(
        without_code,
        tensor_bytes=Estimate(10**6, "each tensor once"),
        operations=Estimate(10**6, "counted in TTIR"),
    )


def time_of(us: float, source: str = RUN) -> LaunchTime:
    return LaunchTime(us, source, us)


def test_slots_are_the_warps_that_each_resource_allows() -> None:
    picture = occupancy_picture(card_of(registers=128, blocks=10_000))
    assert picture is not None and picture.axis.high == 64
    warps = {row.label: (row.value, row.role) for row in picture.rows}
    assert warps["registers"] == (16, "limit")
    assert warps["block size"] == (64, "other")
    assert warps["this launch"] == (16, "other")
    assert picture.answer == "16 of 64 warps fit: limited by registers."
    (drawn,) = [t.plain for t in picture_lines(picture, 120) if "registers " in t.plain]
    assert drawn.count("█") == drawn.count("▓") == 8
    assert drawn.count("·") == 48


def test_a_launch_of_few_blocks_is_what_limits_it() -> None:
    picture = occupancy_picture(card_of(registers=32, blocks=132))
    assert picture is not None
    assert [(row.label, row.value) for row in picture.rows if row.role == "limit"] == [
        ("this launch", 8)
    ]
    assert picture.answer.startswith("64 of 64 warps fit: nothing limits them.")


def test_without_a_known_occupancy_there_is_no_picture_of_it() -> None:
    unknown = card(Resources(), H200, {}, lambda language, opcode: None)
    assert occupancy_picture(unknown) is None


@pytest.mark.parametrize(
    ("us", "words"),
    [(0.25, "By memory: it reaches ≈ 83 %"), (25, "By neither: it reaches ≈ 0.83 %")],
)
def test_a_point_is_under_the_roof_that_its_intensity_has(us: float, words: str) -> None:
    picture = roofline_picture(card_of(32, 132), time_of(us), PEAKS)
    assert picture is not None
    assert picture.answer.startswith(words)
    (kernel,) = [line for line in picture.lines if not line.limit]
    assert kernel.points[0] == pytest.approx((1.0, 1 / us))
    levels = [line.name for line in picture.lines if line.limit]
    assert levels == ["memory by data sheet", "fp32 by data sheet"]
    assert max(line.cell_len for line in picture_lines(picture, 80)) <= 80


@pytest.mark.parametrize("time", [None, time_of(1, BOUND)])
def test_no_point_is_drawn_of_a_time_that_is_unknown_or_a_bound(time: LaunchTime | None) -> None:
    assert roofline_picture(card_of(32, 132), time, PEAKS) is None


def test_an_estimated_time_is_marked() -> None:
    picture = roofline_picture(card_of(32, 132), time_of(1, ESTIMATE), PEAKS)
    assert picture is not None
    assert any("≈ 1.00 µs, estimate" in note for note in picture.notes)
