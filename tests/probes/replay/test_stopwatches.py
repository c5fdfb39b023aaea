"""Times that stopwatches derive from device events, which are made up."""

from __future__ import annotations

from typing import Any

from inspector.probes.replay.driver import (
    MAX_RECORDS,
    MIN_SAMPLES,
    SECOND_COUNT,
    TICK_US,
    next_count,
    settled,
)
from inspector.probes.replay.session import summed


def test_a_median_settles_when_it_is_known_to_one_percent() -> None:
    assert settled([1.0] * MIN_SAMPLES)
    assert not settled([1.0] * (MIN_SAMPLES - 1))
    spread = [100.0 + 20 * (n % 11 - 5) / 5 for n in range(MIN_SAMPLES)]
    assert not settled(spread)
    assert settled([100.0 + 0.5 * (n % 11 - 5) / 5 for n in range(MIN_SAMPLES)])
    # A short kernel settles where its clock tells no more.
    ticks = [1.120 + TICK_US * (n % 2) for n in range(MIN_SAMPLES)]
    assert settled(ticks)
    assert not settled([1.120 + 2 * TICK_US * (n % 2) for n in range(MIN_SAMPLES)])


def test_a_block_grows_and_its_records_fit_into_a_buffer() -> None:
    assert next_count(20, 0.002, 40, 10, 1000) == SECOND_COUNT
    assert next_count(200, 0.02, 400, 10, 1000) == 400
    assert next_count(20, 10.0, 40, 10, 1000) == 10
    assert next_count(10, 0.001, 20_000, 5, 200) * 2_000 <= MAX_RECORDS


def test_clocks_are_summed_up_and_stay_unknown_where_nobody_saw_them() -> None:
    looks = [
        {"sm_mhz": 1980, "most_mhz": 1980, "celsius": 30, "slowed_by": []},
        {"sm_mhz": 1500, "most_mhz": 1980, "celsius": 41, "slowed_by": ["power cap"]},
    ]
    clocks = {"low_mhz": 1500, "high_mhz": 1980, "most_mhz": 1980}
    assert summed(looks) == {**clocks, "celsius": 41, "slowed_by": ["power cap"]}
    blind: dict[str, Any] = dict.fromkeys(("sm_mhz", "most_mhz", "celsius", "slowed_by"))
    assert set(summed([blind]).values()) == {None}
