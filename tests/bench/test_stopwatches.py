"""What the stopwatches make of a profiler's events; the profiler and the device are made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch.profiler

from inspector.probes.replay import summed
from inspector.probes.replay_stopwatches import (
    COPY,
    FEWEST,
    MOST_MISSES,
    Unavailable,
    caches,
    cupti,
    kernel_times,
    settled,
)


class Event:
    def __init__(self, name: str, start: int, ns: int, device: str = "DeviceType.CUDA") -> None:
        self._said = (name, start, ns, device)

    def name(self) -> str:
        return self._said[0]

    def start_ns(self) -> int:
        return self._said[1]

    def duration_ns(self) -> int:
        return self._said[2]

    def device_type(self) -> str:
        return self._said[3]


def profiled(events: list[Any]) -> Any:
    results = SimpleNamespace(events=lambda: events)
    return SimpleNamespace(profiler=SimpleNamespace(kineto_results=results))


def test_only_the_kernels_own_events_on_the_device_count_in_their_order() -> None:
    held = [
        Event("square_kernel", 30, 3000), Event("reduce_kernel<float>", 5, 70000),
        Event("square_kernel", 10, 1500), Event("square_kernel_2", 11, 9),
        Event("square_kernel", 12, 8, "DeviceType.CPU"),
        Event("Memcpy DtoD (Device -> Device)", 1, 2),
    ]  # fmt: skip
    assert kernel_times(profiled(held), "square_kernel") == [1.5, 3.0]
    assert kernel_times(profiled(held), COPY) == [0.002]


def test_older_profilers_tell_whole_microseconds() -> None:
    old = SimpleNamespace(
        name=lambda: "k", start_us=lambda: 1, duration_us=lambda: 4, device_type=lambda: "CUDA"
    )
    assert kernel_times(profiled([old]), "k") == [4.0]


def test_a_median_settles_when_it_is_known_to_one_percent() -> None:
    assert settled([1.0] * FEWEST)
    assert not settled([1.0] * (FEWEST - 1))
    spread = [100.0 + 20 * (n % 11 - 5) / 5 for n in range(FEWEST)]
    assert not settled(spread)
    assert settled([100.0 + 0.5 * (n % 11 - 5) / 5 for n in range(FEWEST)])


@pytest.fixture
def profiler(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """What each profile in turn will have seen; nothing when there is no more."""
    turns: list[list[Any]] = []

    class Profile:
        def __init__(self, **_: Any) -> None:
            self.profiler = profiled(turns.pop(0) if turns else []).profiler

        def __enter__(self) -> Profile:
            return self

        def __exit__(self, *_: Any) -> None:
            return None

    monkeypatch.setattr(torch.profiler, "profile", Profile)
    return turns


FAKE = SimpleNamespace(cuda=SimpleNamespace(synchronize=lambda: None))


def nothing() -> None:
    return None


def test_a_profile_that_saw_nothing_is_taken_again(profiler: list[list[Any]]) -> None:
    seen = [Event("k", n, 2000) for n in range(FEWEST)]
    profiler += [[]] * (MOST_MISSES - 1) + [seen]
    assert cupti(FAKE, nothing, nothing, "k", 5.0, nothing) == [2.0] * FEWEST


def test_profiles_that_never_see_the_kernel_are_an_error(profiler: list[list[Any]]) -> None:
    profiler += [[Event("other", 1, 2)]] * 20
    with pytest.raises(Unavailable, match="saw no launch of the kernel"):
        cupti(FAKE, nothing, nothing, "k", 5.0, nothing)


def test_the_l2_is_prepared_before_every_launch(profiler: list[list[Any]]) -> None:
    profiler += [[Event("k", n, 2000) for n in range(FEWEST)]]
    done: list[str] = []
    cupti(FAKE, lambda: done.append("launch"), lambda: done.append("flush"), "k", 5.0, nothing)
    assert done == ["flush", "launch"] * (len(done) // 2) and done


def test_do_bench_and_graphs_have_a_state_of_the_l2_of_their_own() -> None:
    every = ["cupti", "event", "do_bench", "cudagraph"]
    assert dict(caches(every, "cold")) == {
        "cupti": "cold", "event": "cold", "do_bench": "dirty", "cudagraph": "hot",
    }  # fmt: skip


def test_clocks_are_summed_up_and_stay_unknown_where_nobody_saw_them() -> None:
    looks = [
        {"sm_mhz": 1980, "most_mhz": 1980, "celsius": 30, "slowed_by": []},
        {"sm_mhz": 1500, "most_mhz": 1980, "celsius": 41, "slowed_by": ["power cap"]},
    ]
    assert summed(looks) == {
        "low_mhz": 1500, "high_mhz": 1980, "most_mhz": 1980, "celsius": 41,
        "slowed_by": ["power cap"],
    }  # fmt: skip
    blind: dict[str, Any] = dict.fromkeys(("sm_mhz", "most_mhz", "celsius", "slowed_by"))
    assert set(summed([blind]).values()) == {None}
