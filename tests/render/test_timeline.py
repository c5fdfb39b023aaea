"""A timeline as rows of bars: what a column shows, the axis, names in bars, a page's picture."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from inspector.base.model import Recording
from inspector.measure.streams import window_streams
from inspector.render.timeline import (
    EIGHTHS,
    MAX_PICTURED,
    NamedTimeline,
    View,
    axis,
    lane_bars,
    named_timeline,
    picture,
    span_rows,
)
from tests.helpers.gpu_timeline import US, SpanFields, steps
from tests.measure.test_streams import window_of

NOTHING = Recording("x", ())


def timeline_of(spans: Sequence[SpanFields]) -> NamedTimeline:
    return named_timeline(window_streams(window_of(spans)), NOTHING)


def drawn(timeline: NamedTimeline, view: View, lane: int = 0) -> str:
    return "".join(bar.text for bar in lane_bars(timeline, lane, view))


@pytest.mark.parametrize("seed", range(30))
def test_the_height_of_a_column_is_the_time_in_which_the_stream_worked(seed: int) -> None:
    chance = random.Random(seed)
    spans: list[SpanFields] = [(0, 1, 0, 7, 0, 0, 0)]
    while spans[-1][1] < 4000:
        start = spans[-1][1] + chance.choice((0, 1, 30, 300))
        # One launch number a span: none is long enough for a name.
        spans.append((start, start + chance.choice((1, 7, 90)), 0, 7, 0, 0, 0))
    view = View(100, 3100, 30)
    worked = {ns for start, end, *_ in spans for ns in range(start, end)}
    text = drawn(timeline_of(spans), view)
    assert len(text) == 30
    for column, character in enumerate(text):
        begin = 100 + column * 100
        share = len(worked.intersection(range(begin, begin + 100))) / 100
        assert (character == "·") is (share == 0)
        if share:
            assert EIGHTHS.index(character) in {max(round(share * 8 + d), 1) for d in (-0.01, 0.01)}


def test_a_name_is_in_a_bar_with_room_for_it_and_in_no_other() -> None:
    timeline = timeline_of([(0, 500, 0, 7, 0, 0, 0), (600, 650, -2, 7, 0, 8, 1)])
    text = drawn(timeline, View(0, 1000, 50))
    assert text.startswith("█a kernel that was not r") or "a kernel" in text
    assert "copy" not in text and text[30] == "█" and text[-1] == "·"


def test_the_chosen_span_is_drawn_between_longer_ones() -> None:
    spans = [(0, 990, 0, 7, 0, 0, 0), (990, 992, 0, 7, 0, 0, 0), (992, 2000, 0, 7, 0, 0, 0)]
    timeline = timeline_of(spans)
    view = View(0, 2000, 20)
    assert 1 not in {bar.span for bar in lane_bars(timeline, 0, view)}
    assert 1 in {bar.span for bar in lane_bars(timeline, 0, view, selected_span=1)}


def test_each_stream_has_its_own_row_and_devices_are_named_where_there_are_several() -> None:
    two = timeline_of([(0, 10, 0, 7, 0, 0, 0), (0, 10, 0, 7, 1, 0, 0)])
    assert picture(two, [])["lanes"] == ["GPU 0 stream 7", "GPU 1 stream 7"]
    timeline = timeline_of([(0, 10, 0, 7, 0, 0, 0), (10, 20, 0, 9, 0, 0, 0)])
    view = View(0, 20, 4)
    assert [drawn(timeline, view, lane) for lane in (0, 1)] == ["██··", "··██"]
    assert picture(timeline, [])["lanes"] == ["stream 7", "stream 9"]


@pytest.mark.parametrize(
    ("view", "labels"),
    [
        (View(0, 100 * US, 60), ["0 µs", "50 µs"]),
        (View(357_000, 358_000, 60), ["357,000 ns", "357,500 ns"]),
        (View(0, 10e9, 100), ["0 s", "2 s"]),
    ],
)
def test_labels_of_the_axis_are_at_their_times(view: View, labels: list[str]) -> None:
    line = axis(view)
    units = {"ns": 1, "µs": US, "s": 1e9}
    for label in labels:
        number, unit = label.replace(",", "").split()
        column = (float(number) * units[unit] - view.begin) / view.length * view.columns
        assert line[int(column) :].startswith(f"╷{label}")
    assert len(line) <= view.columns


def test_neighbours_late_in_a_window_have_different_starts() -> None:
    late = 1_645_000 * US
    spans = [(at, at + 300, 0, 7, 0, 0, 0) for at in (0, late + 10, late + 1300, late + 2500)]
    _, *rows = span_rows(timeline_of(spans), range(4), 80)
    starts = [row.text.plain.partition(" µs")[0].strip() for row in rows]
    assert starts == ["0.00", "1,645,000.01", "1,645,001.30", "1,645,002.50"]


def test_a_picture_has_the_longest_bars_and_says_what_it_leaves_out() -> None:
    spans = [(n * 10, n * 10 + (9 if n % 2 else 1), 0, 7, 0, 0, 0) for n in range(601)]
    marks: list[SpanFields] = [(at, at, -4, 0, 0, 1, 0) for at in (0, 6000)]
    made = picture(timeline_of([*marks, *spans]), ["busy"])
    bars = made["bars"]
    assert isinstance(bars, list) and len(bars) == MAX_PICTURED
    assert sum(bar["us"] > 0.005 for bar in bars) == 300
    assert str(made["footnote"]).startswith("200 shorter spans left out: 6.7 %")
    assert picture(timeline_of(steps(5)), [])["footnote"] == ""
