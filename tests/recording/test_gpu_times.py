"""Timelines of the GPU as they are read: whole, cut short, foreign and hostile."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from inspector.base.errors import Unreadable
from inspector.measure.gpu_window import gpu_window, read_windows
from inspector.recording.gpu_times import MAX_SPANS, read_timeline
from inspector.sources.opening import open_path
from tests.helpers.gpu_timeline import BEGAN, TO_UTC, recorded, steps, timeline_file
from tests.helpers.ptxview import call
from tests.recording.test_driver_records import symbol as symbol

DAMAGED = {
    "empty": (b"", "too short"),
    "a head cut short": (timeline_file(steps(2))[:40], "too short"),
    "a span cut short": (timeline_file(steps(2))[:-1], "sizes do not fit"),
    "spans missing": (timeline_file(steps(2))[:-40], "sizes do not fit"),
    "another version": (timeline_file(steps(2), version=3), "another version"),
    "more spans than there are": (timeline_file(steps(2), count=9), "sizes do not fit"),
    "more spans than memory": (timeline_file(steps(2), count=2**60), "sizes do not fit"),
    "more spans than are read": (timeline_file([], count=MAX_SPANS + 1), "sizes do not fit"),
    "an end before the beginning": (timeline_file([], length=-1), "sizes do not fit"),
    "a window of years": (timeline_file([], length=2**60), "sizes do not fit"),
}


def test_spans_are_read_in_the_order_of_time_since_the_window_began() -> None:
    spans = [(50, 60, 0, 7, 1, 0, 0), (5, 90, -2, 9, 0, 4096, 8)]
    window = read_timeline(timeline_file(spans, length=80))
    read = [
        (s.start, s.end, s.launch, s.stream, s.device, s.bytes, s.copy_kind) for s in window.spans
    ]
    assert read == sorted(spans)
    assert window.spans[1].device == 1
    assert window.length == 90  # what began in the window belongs to it
    assert window.began == (BEGAN + TO_UTC) / 1e9


def test_spans_that_cannot_be_are_left_out() -> None:
    spans = [(-5, 10, 0, 7, 0, 0, 0), (30, 20, 0, 7, 0, 0, 0), (0, 2**60, 0, 7, 0, 0, 0)]
    spans += [(40, 50, 0, 7, 0, 2**64 - 1, 0), (60, 70, 0, 7, 0, 0, 0)]
    assert [span.start for span in read_timeline(timeline_file(spans)).spans] == [60]


@pytest.mark.parametrize(("data", "why"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_timeline_is_a_sentence(data: bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        read_timeline(data)


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_timeline_spoils_nothing_else(name: str, tmp_path: Path, symbol: bytes) -> None:
    data, why = DAMAGED[name]
    folder = recorded(tmp_path / "recording", symbol, data)
    recording = open_path(folder)
    (kernel,) = recording.kernels
    assert kernel.variants[0].launches == 5 and gpu_window(recording) is None
    window, problems = read_windows(recording)
    told = [*problems, *recording.problems]
    assert window is None and any(why in problem for problem in told), told
    done = call("list", folder, "--by", "cost")
    assert done.status == 0 and "no GPU time of 1 kernel" in done.text


def test_bytes_that_are_changed_anywhere_raise_nothing_else(tmp_path: Path, symbol: bytes) -> None:
    chance = random.Random(5)
    whole = timeline_file(steps(3))
    readable = 0
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 1, 8))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            window = read_timeline(bytes(data))
        except Unreadable:
            continue
        assert all(0 <= span.start <= span.end <= window.length for span in window.spans)
        readable += len(window.spans) > 0
    assert readable > 10
