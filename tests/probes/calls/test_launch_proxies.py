"""Launcher proxies: every launch is passed on and counted once, by grid, scalars and layout."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest
import torch

from inspector.probes.calls import graphs, subjects, triton_launches

names = itertools.count()
PARAMETERS: list[tuple[str, Any, Any]] = [
    ("out", "*fp32", None),
    ("x", "*fp32", None),
    ("n", "i32", None),
    ("BLOCK", "constexpr", 64),
]
HEAD = (1, 1, 1, 0, 0, None, None, None, None)


def aligned(*shape: int, dtype: torch.dtype = torch.float32, by: int = 0) -> torch.Tensor:
    """A tensor at a multiple of 512 bytes as on a device, and ``by`` elements further."""
    size = torch.empty((), dtype=dtype).element_size()
    count = int(torch.Size(shape).numel())
    memory = torch.zeros(count + by + 512 // size, dtype=dtype)
    start = -memory.data_ptr() % 512 // size + by
    return memory[start : start + count].view(shape)


class Kernel:
    """A kernel that launches nothing, behind a proxy."""

    def __init__(self) -> None:
        self.name = f"test {next(names)}"
        self.launched: list[tuple[Any, ...]] = []
        self.launch = self.behind(self.inner)

    def behind(self, launcher: Any) -> Any:
        name = self.name
        counter = triton_launches.Counter(
            lambda: subjects.subject("triton", "k", name, {}), len(HEAD), PARAMETERS
        )
        return triton_launches.counted(launcher, counter)

    def inner(self, *args: Any) -> str:
        self.launched.append(args)
        return "its result"

    def __call__(self, out: Any, x: Any, n: int = 64, grid: int = 1) -> None:
        args = (grid, *HEAD[1:], out, x, n, 64)
        assert self.launch(*args) == "its result"
        assert all(a is b for a, b in zip(self.launched.pop(), args, strict=True))

    @property
    def subject(self) -> subjects.Subject:
        return subjects.subject("triton", "k", self.name, {})

    @property
    def counts(self) -> list[int]:
        return [entry[0] for entry in self.subject.calls.values()]


def test_repeated_launches_are_one_call() -> None:
    kernel = Kernel()
    for _ in range(3 * subjects.DESCRIBED_CALLS):
        kernel(aligned(64), aligned(64))
    assert kernel.counts == [3 * subjects.DESCRIBED_CALLS]


OTHERS = [
    {"x": aligned(8, 8)},
    {"x": aligned(64, 2)[:, 0]},
    {"x": aligned(64, by=4)},
    {"x": aligned(64, by=1)},
    {"n": 63},
    {"grid": 2},
    {"out": aligned(32)},
]


@pytest.mark.parametrize("other", OTHERS, ids=["shape", "strides", "16", "4", "n", "grid", "out"])
def test_a_launch_that_differs_in_one_thing_is_another_call(other: dict[str, Any]) -> None:
    kernel = Kernel()
    same = {"out": aligned(64), "x": aligned(64)}
    for _ in range(10):
        kernel(**same)
        kernel(**{**same, **other})
    assert kernel.counts == [10, 10]


def test_after_many_launches_grid_and_scalars_tell_calls_apart() -> None:
    kernel = Kernel()
    many = 2 * subjects.DESCRIBED_CALLS
    for _ in range(many):
        kernel(aligned(64), aligned(64))
    for _ in range(5):
        kernel(aligned(64), aligned(64, by=4))  # counts as the call with the same scalars
        kernel(aligned(64), aligned(64), n=63)
        kernel(aligned(64), aligned(64), grid=2)
    assert kernel.counts == [many + 5, 5, 5]


def test_unusual_arguments_are_passed_on() -> None:
    kernel = Kernel()
    x = aligned(64)
    kernel(x, x)
    for args in ((x, x, 3), (x,), (x, x, 3, 64, 5, 6)):
        kernel.launch(*HEAD, *args)
        assert kernel.launched.pop() == (*HEAD, *args)
    assert sum(kernel.counts) == 4


def test_a_proxy_is_the_launcher_in_all_but_being_called() -> None:
    class Inner:
        number = 5

        def __call__(self, *args: Any, **given: Any) -> Any:
            return args, given

    made = Kernel().behind(Inner())
    assert made.number == 5 and made(1, 2, n=3) == ((1, 2), {"n": 3})
    assert (
        triton_launches.counter_of(made) is not None and triton_launches.counter_of(Inner()) is None
    )
    with pytest.raises(AttributeError, match="missing"):
        _ = made.missing


def test_launches_of_several_threads_are_all_counted() -> None:
    kernel = Kernel()
    tensors = [(aligned(64), aligned(64), 64), (aligned(64), aligned(8, 8), 8)]
    made = kernel.behind(lambda *args: None)
    begin = threading.Barrier(8)

    def launches(which: int) -> None:
        begin.wait()
        for n in range(2000):
            made(*HEAD, *tensors[(which + n // 7) % 2], 64)

    threads = [threading.Thread(target=launches, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kernel.counts) == 2 and sum(kernel.counts) == 16000


def graph() -> tuple[subjects.Subject, Any]:
    """A compiled graph that does nothing, and the subject that its calls count for."""
    name = f"test {next(names)}"
    graphs._paths[name] = name

    class Compiled:
        cache_key = name

    call = graphs.watched_graph(lambda inputs: None, Compiled())
    return subjects.subject("graph", "", name, {}), lambda *args: call(list(args))


def test_a_graphs_calls_differ_by_tensors_and_by_sizes() -> None:
    held, call = graph()
    for _ in range(4):
        call(aligned(64), aligned(8))
        call(aligned(8), aligned(64))
        call(aligned(64), 7)
        call(aligned(64), 8)
        call(7, aligned(64))
        call(aligned(64, dtype=torch.float64), aligned(8))
        call(aligned(64, by=4), aligned(8))
    assert [entry[0] for entry in held.calls.values()] == [4] * 7
