"""Estimated times of recorded launches, as rows like those of measured times."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence

from msgspec import convert
from msgspec.structs import replace

from inspector.base.errors import PtxviewError, UsageError
from inspector.base.text import plural, some
from inspector.estimate.gather import gather
from inspector.estimate.model import Machine, Simulation
from inspector.measure.time.planning import Found, PlannedLaunch, most_frequent
from inspector.measure.time.results import COLD, ESTIMATE, Session, Timing
from inspector.measure.time.take import untimed
from inspector.reader.reader import Reader
from inspector.reader.tables import table

NO_CALL_NUMBER = -1
NO_CALL = "no call with its arguments was recorded"
Constants = Mapping[str, object]


def devices() -> Mapping[str, Constants]:
    """The devices whose constants are known, by a short name."""
    return {name: entry for name, entry in table("estimate").items() if isinstance(entry, dict)}


def constants(reader: Reader, device: str | None) -> tuple[str, Constants | None]:
    """The name and constants of a device: the wanted one, else the recording's.

    None where the recording's device is not known. Raises ``UsageError`` for a wanted one.
    """
    recorded = str((reader.recording.device or {}).get("name") or "unknown device")
    wanted = device or recorded
    for short, entry in devices().items():
        names = [str(name) for name in entry["names"]]  # type: ignore[attr-defined]
        if wanted.casefold() in (short.casefold(), *(name.casefold() for name in names)):
            return names[0], entry
    if device is not None:
        raise UsageError(f"no constants of {device} are known", f"Known: {some(list(devices()))}")
    return recorded, None


def estimates(
    reader: Reader,
    found: Sequence[Found],
    most: int,
    device: str | None,
    *,
    named: bool,
    say: Callable[[str], None],
) -> Session:
    """Estimate the ``most`` frequent calls of each variant.

    Variants without a call that can be executed have a row only if they are ``named``.
    Raises ``UsageError``.
    """
    name, known = constants(reader, device)
    rows: list[Timing] = []
    unknown: list[str] = []
    for kernel, variant in found:
        if not named and not any(call.kind == "triton" for call in variant.calls):
            unknown.append(kernel.name)
            continue
        calls, dropped = most_frequent(f"{kernel.name} {variant.id}", variant.calls, most)
        for said in dropped:
            say(f"left out: {said}")
        if not calls:
            rows.append(
                Timing(kernel.name, variant.id, NO_CALL_NUMBER, ESTIMATE, warnings=(NO_CALL,))
            )
        for number, call in enumerate(variant.calls):
            if call in calls:
                rows.append(estimate(reader, PlannedLaunch(kernel, variant, number, call), known))
    if unknown:
        many = plural(len(unknown), "variant")
        names = some(list(dict.fromkeys(unknown)))
        say(f"left out: {many} of which no launch with its arguments was recorded: {names}")
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Session(now, {"name": name}, tuple(rows))


def estimate(reader: Reader, planned: PlannedLaunch, known: Constants | None) -> Timing:
    """The estimated time of one recorded launch; without one, its warning says why."""
    bare = replace(untimed(reader, planned), stopwatch=ESTIMATE, cache=COLD, kind=planned.call.kind)
    if known is None:
        return replace(bare, warnings=("its device is unknown: name one with --device",))
    if (planned.variant.target or "").rstrip("af") != known["arch"]:
        return replace(bare, warnings=(f"it is compiled for {planned.variant.target}",))
    try:
        work = gather(reader, planned)
    except PtxviewError as error:
        return replace(bare, warnings=(error.message,))
    machine = machine_of(known)
    us = machine.floor_us + Simulation(work, machine).run() / machine.clock_hz * 1e6
    low, high = (us * float(str(known[bound])) for bound in ("low", "high"))
    return replace(bare, median_us=us, low_us=low, high_us=high)


def machine_of(known: Constants) -> Machine:
    """The constants of a device as the simulation takes them."""
    return convert(known, Machine)
