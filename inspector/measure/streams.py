"""Work on the GPU by stream in the order of time: of a recorded window, or of a profile's step.

Both become the same columns, of which a timeline is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from inspector.measure.gpu_window import GpuWindow, idle_before
from inspector.measure.profile.trace import Profile
from inspector.recording.gpu_times import COPY, MARK, SET

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

COPY_KINDS = {1: "host to device", 2: "device to host", 8: "on the device", 9: "on the host"}
"""CUpti_ActivityMemcpyKind; 10 is between devices."""
PEER_COPY = 10
COPY_KIND_LIMIT = 1 << 16
STREAM_LIMIT = 1 << 32
"""Numbers of kinds of copies and of streams are below."""
PROFILE_KINDS = {"memcpy": "copy", "memset": "set"}
STRETCH_SHARE = 50
"""Without steps, the view opens on the busiest of this many parts of the window."""
MAX_FIRST_SPANS = 200
"""Spans that are shown first, where there are no steps."""


class Work(Struct, frozen=True):
    """What spans are of: a kernel, copies of one direction, sets, or marks.

    ``kernel`` and ``variant`` are ids in the recording, None where it is not known which; ``name``
    is for what has no id.
    """

    kind: str
    name: str
    kernel: str | None = None
    variant: str | None = None


class Lane(Struct, frozen=True):
    """A stream of a device; None where a profile does not tell."""

    device: int | None
    stream: int | None


class Stretch(Struct, frozen=True):
    """A part of a timeline in ns; ``step`` is the number of the step that it is, from 0."""

    begin: int
    end: int
    step: int | None = None


class Streams(Struct, frozen=True):
    """Columns of spans in the order of time, in ns since the first, and what they refer to.

    ``work`` and ``lane`` are indexes into ``works`` and ``lanes``; ``idle`` is for how long the
    device did nothing before a span. ``length`` is that of the whole in ns, ``first`` the part that
    is shown first, and ``steps`` how many there are.
    """

    start: Column
    end: Column
    work: Column
    lane: Column
    idle: Column
    works: Sequence[Work]
    lanes: Sequence[Lane]
    length: int
    first: Stretch
    steps: int = 0

    def __len__(self) -> int:
        return len(self.start)

    def between(self, begin: int, end: int) -> Column:
        """The indexes of spans that ran at any moment from ``begin`` to ``end``."""
        import numpy as np

        last = int(np.searchsorted(self.start, end))
        indexes: Column = np.flatnonzero(self.end[:last] > begin)
        return indexes


def window_streams(window: GpuWindow) -> Streams:
    """The streams of a recorded window."""
    import numpy as np

    spans = window.spans.columns
    # Copies differ by their direction.
    keys, work = np.unique(
        spans["launch"] * COPY_KIND_LIMIT + spans["copy_kind"], return_inverse=True
    )
    places, lane = np.unique(spans["device"] * STREAM_LIMIT + spans["stream"], return_inverse=True)
    starts = () if window.steps is None else window.steps.starts
    idle, _ = idle_before(spans["start"], spans["end"], spans["device"])
    return Streams(
        start=np.ascontiguousarray(spans["start"]),
        end=np.ascontiguousarray(spans["end"]),
        work=work,
        lane=lane,
        idle=idle,
        works=[launch_work(window, *divmod(key, COPY_KIND_LIMIT)) for key in keys.tolist()],
        lanes=[Lane(*divmod(place, STREAM_LIMIT)) for place in places.tolist()],
        length=round(window.seconds * 1e9),
        first=_median_step(starts) or _busiest_stretch(spans["start"], spans["end"]),
        steps=max(len(starts) - 1, 0),
    )


def _median_step(starts: Sequence[int]) -> Stretch | None:
    """The step of median length; None where there are no steps."""
    steps = [Stretch(*pair, number) for number, pair in enumerate(pairwise(starts))]
    steps.sort(key=lambda step: step.end - step.begin)
    return steps[len(steps) // 2] if steps else None


def _busiest_stretch(start: Column, end: Column) -> Stretch:
    """The part of a window in which the GPU worked most, or all of a window with few spans."""
    import numpy as np

    window_end = int(end.max())
    if len(start) <= MAX_FIRST_SPANS:
        return Stretch(0, window_end)
    length = max(window_end // STRETCH_SHARE, 1)
    busiest = int(np.bincount(start // length, end - start).argmax()) * length
    first = int(np.searchsorted(start, busiest))
    last_end = int(end[first : first + MAX_FIRST_SPANS].max())
    return Stretch(int(start[first]), min(busiest + length, last_end))


def launch_work(window: GpuWindow, launch: int, copy_kind: int) -> Work:
    """What a launch number of a window refers to."""
    if launch == MARK:
        return Work("mark", "a moment of the program")
    if launch == SET:
        return Work("set", "set memory")
    if launch == COPY:
        direction = "between devices" if copy_kind == PEER_COPY else COPY_KINDS.get(copy_kind)
        return Work("copy", f"copy {direction or ''}".rstrip())
    kernel, variant = window.timeline.variants.get(launch, (None, None))
    return Work("kernel", "a kernel that was not recorded", kernel, variant)


def profile_streams(profile: Profile) -> Streams:
    """What a device did for the last step of a profile, as one lane."""
    import numpy as np

    kernels = {work.name: work for work in profile.kernels}
    names = list(dict.fromkeys(piece.name for piece in profile.timeline))
    works = []
    for name in names:
        work = kernels[name]
        variant = work.variants[0] if len(work.variants) == 1 else None
        kind = PROFILE_KINDS.get(work.kind, work.kind)
        works.append(Work(kind, work.short, work.kernel, variant))
    places = {name: index for index, name in enumerate(names)}
    pieces = profile.timeline
    start = np.array([round(piece.start_us * 1e3) for piece in pieces], np.int64)
    durations = np.array([round(piece.us * 1e3) for piece in pieces], np.int64)
    length = int((start + durations).max(initial=0))
    return Streams(
        start=start,
        end=start + durations,
        work=np.array([places[piece.name] for piece in pieces], np.int64),
        lane=np.zeros(len(pieces), np.int64),
        idle=np.array([round((piece.gap_us or 0) * 1e3) for piece in pieces], np.int64),
        works=works,
        lanes=[Lane(None, None)],
        length=length,
        first=Stretch(0, length),
    )
