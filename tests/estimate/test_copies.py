"""Estimates of kernels that copy by TMA, beside an H200's times (CUPTI, a cold L2)."""

import pytest

from inspector.commands.common import open_reader
from inspector.estimate.rows import frequent, gather
from inspector.reader.query import select_one
from tests.helpers.ptxview import DATA, call

FOLDER = DATA.parent / "estimate"
MEASURED = {
    ("copies", "6daad3fd"): 16.6,
    ("copies", "30e660a8"): 20.5,
    ("copies", "13b5bc3f"): 47.9,
    ("roles", "b3e69730"): 43.2,
}
"""µs of a copy, a matmul, an attention, and a matmul whose producer is a warp of its own."""


@pytest.mark.parametrize(("recording", "variant"), list(MEASURED))
def test_the_measured_time_is_within_the_interval(recording: str, variant: str) -> None:
    path = FOLDER / f"{recording}.ptxview"
    (row,) = call("time", path, variant, "--estimate", "--json").json["rows"]
    assert row["low_us"] < MEASURED[recording, variant] < row["high_us"]


def test_warps_with_roles_take_the_steps_of_their_own() -> None:
    reader = open_reader(str(FOLDER / "roles.ptxview"))
    work = gather(reader, frequent(*select_one(reader.recording, "b3e69730")))
    by_warp = {warp: role for role in work.roles for warp in role.warps}

    def count(warp: int, base: str) -> int:
        return sum(op.base == base for op, _ in by_warp[warp].steps)

    # K is 2048, a stage is 64 of it: a copy of A and of B, and eight products, m64n128k16 each.
    assert [count(warp, "UTMALDG") for warp in (0, 3, 6)] == [0, 0, 64]
    assert [count(warp, "HGMMA") for warp in (0, 3, 6)] == [128, 128, 0]
    assert count(0, "SYNCS") > 32 <= count(6, "SYNCS")


def test_a_timeline_has_the_roles_and_what_holds_them_up() -> None:
    path = FOLDER / "roles.ptxview"
    done = call("time", path, "b3e69730", "--estimate", "--timeline", "--json")
    drawn = done.json["timeline"]
    consumers, producer, copies, tensor = drawn["rows"]
    assert (consumers["warps"], producer["warps"]) == ([0, 1, 2, 3], [6])
    # By %clock64 on an H200 the consumers wait for 19 % of their time, the producer for 73 %.
    assert abs(consumers["shares"]["wait"] - 0.19) < 0.17
    assert abs(producer["shares"]["wait"] - 0.73) < 0.15
    assert copies["warps"] == tensor["warps"] == []
    for row in drawn["rows"]:
        ends = [span["end"] for span in row["spans"]]
        assert ends == sorted(ends) and ends[-1] <= drawn["cycles"]
    # 32 stages of 64, a ring of four full and four empty mbarriers.
    assert len(drawn["phases"]) == 64
    assert len({phase["barrier"] for phase in drawn["phases"]}) == 8
    assert sum(drawn["critical"].values()) == pytest.approx(1)


def test_a_timeline_is_of_one_kernel() -> None:
    done = call("time", FOLDER / "copies.ptxview", "--estimate", "--timeline")
    assert done.status == 2 and "--timeline is of one kernel" in done.said
