"""The newest time of each variant, of what was kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from inspector.base.model import Kernel, Origin, Stage, Variant
from inspector.diff.compare import compare, stage_of, variant_rows
from inspector.measure.time.results import (
    KernelTime,
    Session,
    StoredTimes,
    Timing,
    sessions,
    stored_session,
    times,
)
from inspector.reader.reader import Reader
from inspector.recording.layout import store_record, user_derived_cache
from inspector.render.timings import stored_time_row
from inspector.sources.opening import open_path
from inspector.tui.widgets.subject import RecordingTimes as Shown
from tests.helpers.ptxview import SAMPLE, call

VARIANT = Variant("0123456789", "0123456789abcdef", "k")
KERNEL = Kernel("k", "k", "k", Origin.TRITON, (VARIANT,))


def row(us: float, **known: object) -> Timing:
    bare = Timing("k", "01234567", 0, "cupti", "cold", us, us, us, 60, inputs="float32 8")
    made = replace(bare, **known)
    own = KernelTime(made.kernel, made.variant, us, 1, us, us, 60)
    return replace(made, kernels=(own,)) if made.kind == "triton" else made


def session(day: int, *rows: Timing, device: str = "H") -> Session:
    return Session(f"2026-01-0{day}T00:00:00+00:00", {"name": device}, rows)


def test_the_newest_time_stands_and_of_it_the_most_frequent_call() -> None:
    often = row(3.0, inputs="float32 16", count=9)
    found = StoredTimes([session(1, row(1.0)), session(2, row(2.0), often)]).representative(
        KERNEL, VARIANT
    )
    assert found is not None
    assert (found.median_us, found.inputs, found.taken[:10]) == (3.0, "float32 16", "2026-01-02")
    printed = stored_time_row(found)
    assert printed is not None
    assert (printed.median_us, printed.stopwatch, printed.cache) == (3.0, "cupti", "cold")
    assert (printed.device, printed.inputs) == ("H", "float32 16")


@pytest.mark.parametrize(
    "odd",
    [
        row(9.0, stopwatch="event"),
        row(9.0, variant="76543210"),
        row(float("nan")),
        row(-1.0),
        row(9.0, kernel="other"),
        Timing("k", "01234567", 0, "cupti", "cold", error="no memory"),
    ],
)
def test_other_stopwatches_caches_variants_and_failures_are_no_time_of_it(odd: Timing) -> None:
    assert StoredTimes([session(2, odd)]).representative(KERNEL, VARIANT) is None
    found = StoredTimes([session(1, row(1.0)), session(2, odd)]).representative(KERNEL, VARIANT)
    assert found is not None and found.median_us == 1.0


def views_of(path: Path, kernel: Kernel, variant: Variant) -> list[float | None]:
    """The time of a variant as the command line and as the interface have it."""
    shown = Shown(str(path))
    shown.stored = StoredTimes(tuple(sessions(path)))
    return [
        getattr(times(path).representative(kernel, variant), "median_us", None),
        shown.us(kernel, variant),
    ]


def test_every_view_has_the_same_time(tmp_path: Path) -> None:
    path = Path(shutil.copy(SAMPLE, tmp_path / "x.ptxview"))
    kernel, variant = next(f for f in open_path(path).variants() if f[0].name == "square_kernel")
    own = {"kernel": kernel.name, "variant": variant.id}
    assert views_of(path, kernel, variant) == [None, None]
    store_record(path, stored_session(session(1, row(8.0, stopwatch="event", **own))))
    assert views_of(path, kernel, variant) == [None, None]
    store_record(path, stored_session(session(2, row(3.0, cache="hot", **own))))
    assert views_of(path, kernel, variant) == [3.0, 3.0]
    store_record(
        path, stored_session(session(3, row(4.0, **own), row(4.5, count=9, inputs="other", **own)))
    )
    assert views_of(path, kernel, variant) == [4.5, 4.5]
    store_record(path, stored_session(session(4, row(2.0, cache="hot", **own))))
    assert views_of(path, kernel, variant) == [4.5, 4.5]  # a cold L2 comes first
    call = row(
        20.0,
        kind="graph",
        kernel="0/0",
        variant="",
        count=50,
        kernels=(KernelTime(kernel.name, variant.id, 2.5, 4),),
    )
    store_record(path, stored_session(session(5, call)))
    assert views_of(path, kernel, variant) == [2.5, 2.5]


def test_two_variants_that_were_timed_are_compared_by_their_times(tmp_path: Path) -> None:
    path = Path(shutil.copy(SAMPLE, tmp_path / "x.ptxview"))
    assert not times(path)
    recording = open_path(path)
    found = {v.id: (k, v) for k, v in recording.variants()}
    pair = (found["780c582c"][1], found["9c81a042"][1])
    reader = Reader(recording, user_derived_cache())
    stage = stage_of(*pair)
    assert compare((reader, reader), pair, stage).a.time_us is None
    taken = [
        row(us, kernel="square_kernel", variant=v.id)
        for us, v in zip((1.0, 1.5), pair, strict=True)
    ]
    store_record(path, stored_session(session(1, *taken)))
    held = compare((reader, reader), pair, stage)
    assert (held.a.time_us, held.b.time_us) == (1.0, 1.5)
    assert any("measured: 1.00 → 1.50 µs, 50% more" in said for said in held.explanation)


def test_the_table_of_variants_has_the_times_of_the_inputs_that_most_were_timed_with(
    tmp_path: Path,
) -> None:
    path = Path(shutil.copy(SAMPLE, tmp_path / "x.ptxview"))
    recording = open_path(path)
    held = [f for f in recording.variants() if f[0].name == "square_kernel"]
    reader = Reader(recording, user_derived_cache())
    assert {r.time_us for r in variant_rows(reader, held, Stage.PTX)} == {None}
    ids = [v.id for _, v in held]
    some = [row(n + 1.0, kernel="square_kernel", variant=i) for n, i in enumerate(ids[:3])]
    other = row(9.0, kernel="square_kernel", variant=ids[0], inputs="float32 4096", count=99)
    store_record(path, stored_session(session(1, other, *some)))
    times_us = [r.time_us for r in variant_rows(reader, held, Stage.PTX)]
    assert times_us == [1.0, 2.0, 3.0, None, None, None]
    tuned = [f for f in recording.variants() if f[0].name == "matmul_kernel"]
    before = [r.time_us for r in variant_rows(reader, tuned, Stage.PTX)]
    assert any(t is not None for t in before)
    store_record(
        path, stored_session(session(2, row(7.0, kernel="matmul_kernel", variant=tuned[0][1].id)))
    )
    again = [r.time_us for r in variant_rows(reader, tuned, Stage.PTX)]
    assert again == before  # the tuner's, all of them


def test_the_tuners_times_are_called_its_own_and_have_few_places(tmp_path: Path) -> None:
    path = Path(shutil.copy(SAMPLE, tmp_path / "x.ptxview"))
    a, b = f"{path}::matmul_kernel#1", f"{path}::matmul_kernel#3"
    text = printed("diff", a, b)
    assert "8.29 µs" in text and "11.2 µs" in text and "+2.91" in text
    assert "tuner's time" in text and "measured" not in text
    assert "tuner's time in round 1 (do_bench): 8.29 → 11.2 µs, 35% more" in text
    table = printed("diff", str(path), "matmul_kernel")
    assert "tuner's" in table and "8.29 µs" in table and "time" not in table
    (time,) = json.loads(printed("diff", a, b, "--json"))["rounds"]
    assert (time["a"], time["b"]) == (8.287999778985977, 11.19999960064888)


def printed(*argv: str) -> str:
    done = call(*argv)
    assert done.status in (0, 1), done.said
    return " ".join(done.text.split())
