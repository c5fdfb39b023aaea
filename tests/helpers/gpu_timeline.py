"""Timelines of a GPU as ``activity.c`` writes them, and a recording that has one."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from inspector.recording.gpu_times import COPY, FORMAT, MARK
from inspector.recording.layout import Writer
from tests.recording.test_driver_records import NAME, whole

BEGAN = 10**15
TO_UTC = 10**18
TIMELINE_NAME = NAME.replace("driver", "timeline")
US = 1000

SpanFields = tuple[int, int, int, int, int, int, int]
"""Start and end in ns since the window began, launch, stream, device, bytes, kind of copy."""


def timeline_file(
    spans: Sequence[SpanFields],
    length: int = 10**7,
    version: int = FORMAT,
    count: int | None = None,
) -> bytes:
    """A timeline file; ``count`` is what its head says, if it is not how many spans there are."""
    counted = len(spans) if count is None else count
    head = struct.pack("<IIQQqQQ", version, 40, BEGAN, BEGAN + length, TO_UTC, counted, 0)
    return head + b"".join(
        struct.pack("<QQQiIHHI", BEGAN + start, BEGAN + end, size, launch, stream, device, kind, 0)
        for start, end, launch, stream, device, size, kind in spans
    )


def steps(count: int) -> list[SpanFields]:
    """Steps of 100 µs: a graph's call, a copy to the device of 2 µs, the recorded kernel of 20 µs
    after a gap of 8 µs, at once one of 10 µs that was not recorded on another stream."""
    spans = []
    for number in range(count):
        begin = number * 100 * US
        spans += [
            (begin, begin, MARK, 0, 0, 3, 0),
            (begin, begin + 2 * US, COPY, 7, 0, 4096, 1),
            (begin + 10 * US, begin + 30 * US, 0, 7, 0, 0, 0),
            (begin + 15 * US, begin + 25 * US, -1, 9, 0, 0, 0),
        ]
    return spans


def recorded(
    folder: Path, symbol: bytes, timeline: bytes, events: Sequence[dict[str, object]] = ()
) -> Path:
    """A recording of one kernel of the driver's, with a timeline of its process, number 7."""
    writer = Writer(folder)
    writer.event(event="recording", schema=1, time=1.0, command=["python"], mode="gpu")
    for event in events:
        writer.event(**event)
    writer.close()
    (folder / NAME).write_bytes(whole(symbol))
    (folder / TIMELINE_NAME).write_bytes(timeline)
    return folder
