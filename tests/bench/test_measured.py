"""The newest time of each variant, of what was kept."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from inspector.analysing import Analyst
from inspector.bench.measured import Times, alike, times
from inspector.bench.results import KernelTime, Session, Timing, stored
from inspector.capture.opening import kept_cache, open_path
from inspector.comparing import compare, rows, stage_of
from inspector.model import Kernel, Origin, Stage, Variant
from inspector.recording_timings import keep
from inspector.report.timings import timing

LECTURE = Path(__file__).parents[2] / "examples" / "recordings" / "lecture-h200.ptxview"
VARIANT = Variant("0123456789", "0123456789abcdef", "k")
KERNEL = Kernel("k", "k", "k", Origin.TRITON, (VARIANT,))


def row(us: float, **known: object) -> Timing:
    bare = Timing("k", "01234567", 0, "cupti", "cold", us, us, us, 60, inputs="float32 8")
    made = replace(bare, **known)  # type: ignore[arg-type]
    return made if made.kind != "triton" else replace(
        made, kernels=(KernelTime(made.kernel, made.variant, us, 1, us, us, 60),)
    )  # fmt: skip


def session(day: int, *rows: Timing, device: str = "H") -> Session:
    return Session(f"2026-01-0{day}T00:00:00+00:00", {"name": device}, rows)


def test_the_newest_time_stands_and_of_it_the_most_frequent_call() -> None:
    often = row(3.0, inputs="float32 16", count=9)
    found = Times([session(1, row(1.0)), session(2, row(2.0), often)]).of(KERNEL, VARIANT)
    assert found is not None
    assert (found.median_us, found.inputs, found.taken[:10]) == (3.0, "float32 16", "2026-01-02")
    assert timing(found) == {
        "median_us": 3.0, "low_us": 3.0, "high_us": 3.0, "stopwatch": "cupti", "cache": "cold",
        "taken": "2026-01-02T00:00:00+00:00", "device": "H", "inputs": "float32 16",
    }  # fmt: skip


@pytest.mark.parametrize(
    "odd",
    [
        row(9.0, stopwatch="event"), row(9.0, cache="hot"), row(9.0, variant="76543210"),
        row(9.0, kernel="other"), Timing("k", "01234567", 0, "cupti", "cold", error="no memory"),
    ],
)  # fmt: skip
def test_other_stopwatches_caches_variants_and_failures_are_no_time_of_it(odd: Timing) -> None:
    assert Times([session(2, odd)]).of(KERNEL, VARIANT) is None
    found = Times([session(1, row(1.0)), session(2, odd)]).of(KERNEL, VARIANT)
    assert found is not None and found.median_us == 1.0


def test_a_kernel_of_a_call_has_its_own_time_and_its_own_launch_comes_first() -> None:
    call = row(20.0, kind="graph", kernel="0/0", variant="", count=50, kernels=(
        KernelTime("k", "01234567", 2.5, 4), KernelTime("Memset", None, 1.0, 1)))  # fmt: skip
    found = Times([session(1, call)]).of(KERNEL, VARIANT)
    assert found is not None and (found.median_us, found.low_us) == (2.5, None)
    both = Times([session(1, call, row(2.0, inputs=call.inputs))]).of(KERNEL, VARIANT)
    assert both is not None and both.median_us == 2.0


def test_rows_that_were_kept_before_they_told_their_kernels_count_too() -> None:
    found = Times([session(1, replace(row(4.0), kernels=()))]).of(KERNEL, VARIANT)
    assert found is not None and found.median_us == 4.0


def test_times_are_compared_of_the_same_inputs_on_the_same_device_alone() -> None:
    small, large = row(1.0), row(5.0, inputs="float32 16")
    one = Times([session(1, large, small)]).by_inputs(KERNEL, VARIANT)
    other = Times([session(2, replace(small, median_us=2.0, kernels=()))])
    found = alike(one, other.by_inputs(KERNEL, VARIANT))
    assert found is not None and [t.median_us for t in found] == [1.0, 2.0]
    elsewhere = Times([session(1, small, device="A")])
    assert alike(one, elsewhere.by_inputs(KERNEL, VARIANT)) is None
    assert alike(one, {}) is None


def test_two_variants_that_were_timed_are_compared_by_their_times(tmp_path: Path) -> None:
    path = Path(shutil.copy(LECTURE, tmp_path / "x.ptxview"))
    assert not times(path)
    recording = open_path(path)
    found = {v.id: (k, v) for k, v in recording.variants()}
    pair = (found["780c582c"][1], found["9c81a042"][1])
    reader = Analyst(recording, kept_cache())
    stage = stage_of(*pair)
    assert compare((reader, reader), pair, stage).a.time_us is None
    taken = [row(us, kernel="square_kernel", variant=v.id) for us, v in zip((1.0, 1.5), pair,
                                                                         strict=True)]  # fmt: skip
    keep(path, stored(session(1, *taken)))
    held = compare((reader, reader), pair, stage)
    assert (held.a.time_us, held.b.time_us) == (1.0, 1.5)
    assert any("measured: 1 → 1.5 µs, 50% more" in said for said in held.explanation)


def test_the_table_of_variants_has_the_times_of_the_inputs_that_most_were_timed_with(
    tmp_path: Path,
) -> None:
    path = Path(shutil.copy(LECTURE, tmp_path / "x.ptxview"))
    recording = open_path(path)
    held = [f for f in recording.variants() if f[0].name == "square_kernel"]
    reader = Analyst(recording, kept_cache())
    assert {r.time_us for r in rows(reader, held, Stage.PTX)} == {None}
    ids = [v.id for _, v in held]
    some = [row(n + 1.0, kernel="square_kernel", variant=i) for n, i in enumerate(ids[:3])]
    other = row(9.0, kernel="square_kernel", variant=ids[0], inputs="float32 4096", count=99)
    keep(path, stored(session(1, other, *some)))
    assert [r.time_us for r in rows(reader, held, Stage.PTX)] == [1.0, 2.0, 3.0, None, None, None]
    tuned = [f for f in recording.variants() if f[0].name == "matmul_kernel"]
    before = [r.time_us for r in rows(reader, tuned, Stage.PTX)]
    assert any(t is not None for t in before)
    keep(path, stored(session(2, row(7.0, kernel="matmul_kernel", variant=tuned[0][1].id))))
    assert [r.time_us for r in rows(reader, tuned, Stage.PTX)] == before  # the tuner's, all of them
