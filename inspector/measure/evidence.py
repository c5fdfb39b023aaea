"""Everything that tells how long launches of a recording take, and hints, in the order of trust."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from inspector.analyse.hints.subject import Finding
from inspector.analyse.occupancy import Device
from inspector.base.model import Kernel, Variant
from inspector.base.text import PtxviewError
from inspector.measure.profile.read import profiles
from inspector.measure.profile.trace import Profile
from inspector.measure.time.results import StoredTimes, times
from inspector.reader.facts import Measured
from inspector.reader.reader import Reader


class Evidence(Struct, frozen=True):
    """Where times and facts of a recording's variants come from.

    ``hints`` is asked in the order of cost; None means not looked for. ``estimated`` gives the µs
    of a launch that has no measured time, where estimates are asked for.
    """

    times: StoredTimes
    profile: Profile | None
    measured: Callable[[Variant], Measured | None]
    device: Callable[[Variant], Device | None]
    hints: Callable[[Variant], Sequence[Finding] | None]
    estimated: Callable[[Kernel, Variant], float | None] = lambda kernel, variant: None


def evidence(reader: Reader, seconds: float) -> Evidence:
    """What is known of a reader's recording; hints are looked for until ``seconds`` are over."""
    rec, until = reader.recording, time.monotonic() + seconds
    profile = None
    with suppress(PtxviewError):
        profile = profiles(Path(rec.path), rec, reader.cache)[1]

    def hints(variant: Variant) -> Sequence[Finding] | None:
        return reader.hints(variant) if time.monotonic() < until else None

    return Evidence(times(rec.path), profile, reader.measured, reader.device, hints)
