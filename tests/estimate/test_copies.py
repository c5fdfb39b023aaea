"""Estimates of kernels that copy by TMA, and of clusters, beside an H200's times (CUPTI)."""

from typing import Any

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
    ("clusters", "c97d987c"): 24.5,
    ("clusters", "17adba4c"): 180.7,
}
"""µs, with a cold L2, of a copy, a matmul, an attention, a matmul whose producer is a warp of its
own, and of a matmul and an addition whose programs are clusters (num_ctas)."""
SHARED = {"row_sums": (141.8, 165.9)}
"""µs of sums of rows by clusters whose blocks read each other's shared memory: 4096 × 16384 and
16384 × 2048."""
STORED = {
    "copy_rowsP": 169.8,
    "tile_columnsP": 148.4,
    "by_columnsP": 1092.4,
    "by_columns_lowP": 1043.0,
    "everyILi2E": 160.4,
    "everyILi4E": 139.1,
    "everyILi8E": 131.1,
    "charsP": 503.4,
}
"""µs of kernels that store whole sectors (rows, through a tile, bytes), or parts of them that are
completed later (by columns) or never (every second, fourth or eighth number); 256 MB each, by
parts of their mangled names."""


@pytest.mark.parametrize(("recording", "variant"), list(MEASURED))
def test_the_measured_time_is_within_the_interval(recording: str, variant: str) -> None:
    path = FOLDER / f"{recording}.ptxview"
    row = call("time", path, variant, "--estimate", "--json").json["rows"][0]
    assert row["low_us"] < MEASURED[recording, variant] < row["high_us"]


def test_blocks_of_a_cluster_read_each_others_memory() -> None:
    path = FOLDER / "shared_clusters.ptxview"
    rows = call("time", path, "row_sums", "--estimate", "--json").json["rows"]
    for row, us in zip(rows, SHARED["row_sums"], strict=True):
        assert us / 1.5 < row["median_us"] < 1.2 * us
    refused = call("time", path, "histogram", "--estimate").text
    assert "atomics on other blocks' shared memory are not modelled" in refused


def test_parts_of_sectors_cost_what_they_do_on_a_gpu() -> None:
    rows = call("time", FOLDER / "stores.ptxview", "--estimate", "--json").json["rows"]
    for name, us in STORED.items():
        row = next(row for row in rows if name in row["kernel"])
        assert us / 1.4 < row["median_us"] < 1.1 * us, name


def test_a_tensor_map_of_cuda_is_on_the_card_in_sentences_and_in_the_estimate() -> None:
    path = FOLDER / "tensor_map.ptxview"
    described = "box 32×32 of 128×64 f32"
    shown = call("show", path, "transpose_tiles", "-a", "--stage", "ptx").text
    assert f"tensor map      parameter 0: {described}, strides of 256 and 4 bytes" in shown
    assert f"(parameter 0: {described}, no swizzle)" in shown
    drawn = call("time", path, "--estimate", "--timeline", "--json").json["timeline"]
    copies = [row for row in drawn["rows"] if row["label"] == "copies under way"]
    assert drawn["bubble"] is not None and len(copies) == 1


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


def test_a_timeline_of_a_cluster_is_of_its_first_block() -> None:
    def drawn(recording: str, kernel: str) -> dict[str, Any]:
        words = ("time", FOLDER / f"{recording}.ptxview", kernel, "--estimate", "--timeline")
        timeline: dict[str, Any] = call(*words, "--json").json["timeline"]
        return timeline

    matmul = drawn("clusters", "c97d987c")
    assert [row["warps"] for row in matmul["rows"]] == [[0, 1, 2, 3], [], []]
    # A ring of three mbarriers behind three stages of 16 KB + 16 KB a block.
    assert {p["barrier"] for p in matmul["phases"]} == {98304, 98312, 98320}
    sums = drawn("shared_clusters", "row_sums")
    assert {p["barrier"] for p in sums["phases"]} == {None}
    text = call(
        "time", FOLDER / "shared_clusters.ptxview", "row_sums", "--estimate", "--timeline"
    ).text
    assert "of the cluster's barrier; last came UCGABAR_ARV" in text


def test_each_of_eight_warps_that_wait_for_one_another_has_a_row() -> None:
    done = call("time", FOLDER / "chain.ptxview", "--estimate", "--timeline", "--json")
    assert done.json["rows"][0]["median_us"] is not None
    rows = done.json["timeline"]["rows"]
    assert [row["warps"] for row in rows] == [[warp] for warp in range(8)]
    waits = [row["shares"].get("wait", 0) for row in rows]
    assert waits == sorted(waits) and waits[0] == 0 and waits[-1] > 0.75


def test_a_timeline_is_of_one_kernel() -> None:
    done = call("time", FOLDER / "copies.ptxview", "--estimate", "--timeline")
    assert done.status == 2 and "--timeline is of one kernel" in done.said
