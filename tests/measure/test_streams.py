"""What the GPU did in a window: how busy it was, its gaps, its steps, and the first view."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from inspector.base.model import Timeline
from inspector.measure.gpu_window import GpuWindow, busy_ns, idle_before, steady_part
from inspector.measure.streams import MAX_FIRST_SPANS, Lane, Stretch, window_streams
from inspector.recording.gpu_times import MARK, OPTIMIZER, read_timeline
from inspector.recording.layout import BytesContent
from tests.helpers.gpu_timeline import US, SpanFields, steps, timeline_file

SEEDS = range(40)


def window_of(spans: Sequence[SpanFields], **timeline: object) -> GpuWindow:
    """The window of spans, in a recording that names their launches so."""
    data = timeline_file(spans)
    of_process = Timeline(7, BytesContent(data), {0: ("gelu", "1a2b")})
    return steady_part(replace(of_process, **timeline), read_timeline(data))


def random_spans(seed: int) -> list[SpanFields]:
    """Spans that overlap, touch, contain each other and are empty, on two devices."""
    chance = random.Random(seed)
    spans = []
    for _ in range(chance.randrange(1, 30)):
        start = chance.randrange(60)
        end = start + chance.choice((0, 1, 3, 20))
        spans.append((start, end, 0, chance.randrange(3), chance.randrange(2), 0, 0))
    return spans


@pytest.mark.parametrize("seed", SEEDS)
def test_busy_time_is_that_of_the_busiest_device_and_overlaps_count_once(seed: int) -> None:
    spans = random_spans(seed)
    worked: dict[int, set[int]] = {}
    for start, end, _, _, device, _, _ in spans:
        worked.setdefault(device, set()).update(range(start, end))
    columns = read_timeline(timeline_file(spans)).spans.columns
    assert busy_ns(columns) == max(map(len, worked.values()))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_gap_is_a_time_in_which_a_device_did_nothing(seed: int) -> None:
    spans = sorted(random_spans(seed), key=lambda span: span[:2])
    columns = read_timeline(timeline_file(spans)).spans.columns
    idle, previous = idle_before(columns["start"], columns["end"], columns["device"])
    assert len(idle) == len(previous) == len(spans) > 0
    for index, (start, *_) in enumerate(spans):
        device = int(columns["device"][index])
        ends = [int(s["end"]) for s in columns[:index] if s["device"] == device]
        assert idle[index] == max(start - max(ends, default=start), 0)
        if idle[index]:
            before = columns[previous[index]]
            assert before["device"] == device and before["end"] == start - idle[index]


def test_steps_are_from_one_call_of_the_graph_to_the_next() -> None:
    window = window_of(steps(5))
    assert (window.launches, window.attributed) == (10, 5) and window.steps is not None
    assert (window.steps.count, window.steps.us, window.steps.kind) == (4, 100, "call of a graph")
    assert window.busy_us == 5 * 22
    assert [gap.us for gap in window.gaps] == [70] * 4 + [8]
    assert (window.gaps[0].previous.launch, window.gaps[0].following.bytes) == (0, 4096)


def marks(number: int, *times_us: int) -> list[SpanFields]:
    return [(us * US, us * US, MARK, 0, 0, number, 0) for us in times_us]


FORWARD, BACKWARD = marks(0, 0, 10, 20, 100, 110), marks(1, 50, 150)
FIRST, SECOND = marks(OPTIMIZER, 60, 160, 260), marks(OPTIMIZER + 1, 70, 80, 90, 170)


@pytest.mark.parametrize(
    ("marked", "kind", "us"),
    [
        (FORWARD + BACKWARD, "call of graph 0/0_backward", 100),
        (FORWARD + BACKWARD + FIRST, "step of AdamW", 100),
        (SECOND + FIRST, "step of AdamW", 100),
        (SECOND + FIRST[:1], "step of an optimizer", 10),
        (BACKWARD + FIRST[:1], "call of graph 0/0_backward", 100),
        (BACKWARD[:1] + FIRST[:1], None, None),
    ],
)
def test_steps_of_the_first_optimizer_come_before_calls_of_graphs(
    marked: list[SpanFields], kind: str | None, us: float | None
) -> None:
    work: list[SpanFields] = [(0, 300 * US, 0, 7, 0, 0, 0)]
    names = {1: "0/0_backward", OPTIMIZER: "AdamW"}
    steps = window_of([*work, *marked], marks=names).steps
    assert (steps and steps.kind, steps and steps.us) == (kind, us)


def test_the_part_with_most_work_between_first_launches_counts() -> None:
    spans = [(0, 10 * US, 0, 7, 0, 0, 0), (60 * US, 90 * US, 0, 7, 0, 0, 0)]
    began = read_timeline(timeline_file(spans)).began
    window = window_of(spans, first_launches=(began + 50e-6,))
    assert (len(window.spans), window.busy_us, window.spans[0].start) == (1, 30, 0)


def test_launches_of_an_autotuner_are_left_out() -> None:
    spans = [(0, 10, 0, 7, 0, 0, 0), (20, 60, 1, 7, 0, 0, 0)]
    assert [span.launch for span in window_of(spans, tuning=frozenset({1})).spans] == [0]


def test_streams_name_kernels_copies_and_what_was_not_recorded() -> None:
    streams = window_streams(window_of(steps(2)))
    assert streams.lanes == [Lane(0, 7), Lane(0, 9)]
    works = [streams.works[index] for index in streams.work[:3]]
    assert [(work.kind, work.kernel, work.variant) for work in works] == [
        ("copy", None, None),
        ("kernel", "gelu", "1a2b"),
        ("kernel", None, None),
    ]
    assert works[0].name == "copy host to device"


def test_the_step_of_median_length_is_shown_first() -> None:
    starts = (0, 50, 150, 400, 480)
    marks = [(at, at, MARK, 0, 0, 3, 0) for at in starts]
    spans = [(0, 500, 0, 7, 0, 0, 0)]
    assert window_streams(window_of([*marks, *spans])).first == Stretch(50, 150, 1)


def test_without_steps_the_busiest_part_is_shown_first() -> None:
    sparse = [(n * 1000, n * 1000 + 10, 0, 7, 0, 0, 0) for n in range(1000)]
    dense = [(n, n + 9, 0, 7, 0, 0, 0) for n in range(600_000, 604_000, 10)]
    streams = window_streams(window_of(sorted([*sparse, *dense])))
    first = streams.first
    assert first.step is None and 600_000 <= first.begin < first.end <= 604_000
    assert len(streams.between(first.begin, first.end)) <= MAX_FIRST_SPANS + 1


def test_all_of_a_short_window_is_shown_first() -> None:
    spans = [(0, 10, 0, 7, 0, 0, 0), (5000, 5010, 0, 7, 0, 0, 0)]
    assert window_streams(window_of(spans)).first == Stretch(0, 5010)
