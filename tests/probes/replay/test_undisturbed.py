"""Where CUPTI's tracing slows a kernel, and its time without: on a clock that is made up."""

from __future__ import annotations

from typing import Any

import pytest

from inspector.probes.replay.driver import SAMPLES, queued, undisturbed

GAP = 2.2


class Device:
    """Runs one command after another; a pair of events reads the time between them, and a gap."""

    def __init__(self) -> None:
        self.now, self.waited = 0.0, 0

    def runs(self, us: float) -> None:
        self.now += us


class Event:
    def __init__(self, device: Device) -> None:
        self._device = device
        self.at = 0.0

    def record(self) -> None:
        self.at = self._device.now

    def elapsed_time(self, end: Event) -> float:
        return (end.at - self.at + GAP) / 1000


class Cuda:
    def __init__(self, device: Device) -> None:
        self._device = device

    def Event(self, enable_timing: bool) -> Event:  # noqa: N802
        return Event(self._device)

    def synchronize(self) -> None:
        pass

    def _sleep(self, cycles: int) -> None:
        self._device.waited += 1


class Torch:
    def __init__(self) -> None:
        self.device = Device()
        self.cuda: Any = Cuda(self.device)


@pytest.fixture
def torch() -> Torch:
    return Torch()


def launches(torch: Torch, us: float) -> Any:
    return lambda: torch.device.runs(us)


def flushes(torch: Torch) -> Any:
    return lambda: torch.device.runs(60.0)


def test_the_flush_is_not_read_and_the_queue_is_kept_full(torch: Torch) -> None:
    found = queued(torch, launches(torch, 61.0), flushes(torch))
    assert len(found) == SAMPLES and found == pytest.approx([61.0 + GAP] * SAMPLES)
    assert torch.device.waited > 1


def test_a_kernel_that_tracing_slows_has_the_time_of_the_events(torch: Torch) -> None:
    said = {"samples": [67.5] * 30, "kernels": [{"name": "k", "per_call": 1, "samples": [67.5]}]}
    found = undisturbed(torch, said, launches(torch, 61.0), flushes(torch), GAP)
    assert found["samples"] == pytest.approx([61.0] * SAMPLES)
    assert found["kernels"][0]["samples"] == found["samples"]
    assert found["traced"] == 67.5


@pytest.mark.parametrize(("traced", "plain"), [(30.4, 30.3), (3.8, 3.7), (30.4, 45.0)])
def test_what_is_not_slowed_stays_cuptis(torch: Torch, traced: float, plain: float) -> None:
    said = {"samples": [traced] * 30}
    assert undisturbed(torch, said, launches(torch, plain), flushes(torch), GAP) is said


@pytest.mark.parametrize(("us", "launched"), [(20_000.0, 25), (100_000.0, 0), (5_000_000.0, 0)])
def test_a_long_launch_is_not_made_over_and_over(torch: Torch, us: float, launched: int) -> None:
    made = []

    def launch() -> None:
        made.append(us)
        torch.device.runs(us)

    undisturbed(torch, {"samples": [us * 1.1] * 30}, launch, flushes(torch), GAP)
    assert launched <= len(made) <= 2 * launched


def test_of_many_kernels_the_sum_stays_and_the_whole_is_added(torch: Torch) -> None:
    kernels = [{"name": n, "per_call": 1, "samples": [50.0]} for n in "ab"]
    said = {"samples": [100.0] * 30, "kernels": kernels}
    found = undisturbed(torch, said, launches(torch, 90.0), flushes(torch), GAP)
    assert found == {**said, "whole": pytest.approx(90.0)}
    twice = {"samples": [100.0], "kernels": [{**kernels[0], "per_call": 2}]}
    assert "traced" not in undisturbed(torch, twice, launches(torch, 90.0), flushes(torch), GAP)
