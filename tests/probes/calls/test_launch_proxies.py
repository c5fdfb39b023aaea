"""Launcher proxies: every launch is passed on and counted once, by grid, scalars and layout."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from inspector.probes.calls import call_counts, graphs, overlaps, triton_launches
from inspector.probes.driver import subscriber

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

    def __init__(self, error: Exception | None = None) -> None:
        self.name = f"test {next(names)}"
        self.error = error
        self.launched: list[tuple[Any, ...]] = []
        self.launch = self.behind(self.inner)

    def behind(self, launcher: Any) -> Any:
        name = self.name
        counter = triton_launches.LaunchCounter(
            lambda: call_counts.call_target("triton", "k", name, {}), len(HEAD), PARAMETERS
        )
        return triton_launches.counted(launcher, counter)

    def inner(self, *args: Any) -> str:
        if self.error is not None:
            raise self.error
        self.launched.append(args)
        return "its result"

    def __call__(self, out: Any, x: Any, n: int = 64, grid: int = 1) -> None:
        args = (grid, *HEAD[1:], out, x, n, 64)
        assert self.launch(*args) == "its result"
        assert all(a is b for a, b in zip(self.launched.pop(), args, strict=True))

    @property
    def target(self) -> call_counts.CallTarget:
        return call_counts.call_target("triton", "k", self.name, {})

    @property
    def counts(self) -> list[int]:
        return [counter.count for counter in self.target.calls.values()]


def test_repeated_launches_are_one_call() -> None:
    kernel = Kernel()
    for _ in range(3 * call_counts.DESCRIBED_CALLS):
        kernel(aligned(64), aligned(64))
    assert kernel.counts == [3 * call_counts.DESCRIBED_CALLS]


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
    many = 2 * call_counts.DESCRIBED_CALLS
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


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The events that are written while a test runs."""
    written: list[dict[str, Any]] = []
    monkeypatch.setattr(call_counts, "emit", written.append)
    return written


def failures(events: list[dict[str, Any]]) -> dict[int, str]:
    return {n: text for e in events for n, text in e.get("failed", {}).items()}


def test_a_launch_that_raises_is_written_before_it_and_marked_after_it(
    events: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    kernel = Kernel()
    written: list[int] = []

    def launcher(*args: Any) -> None:
        written.append(len(events))
        raise RuntimeError("an illegal memory access was encountered")

    launch = kernel.behind(launcher)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="illegal memory access"):
            launch(*HEAD, aligned(64), aligned(8), 64, 64)
    call = events[0]
    assert written[0] == 1 and [a.get("shape") for a in call["arguments"][:2]] == [[64], [8]]
    assert failures(events) == {
        call["id"]: "RuntimeError: an illegal memory access was encountered"
    }
    assert kernel.counts == [0] and len(events) == 2, "each distinct call is marked once"


def test_a_launch_that_raises_late_has_its_own_arguments(events: list[dict[str, Any]]) -> None:
    kernel = Kernel()
    for _ in range(2 * call_counts.DESCRIBED_CALLS):
        kernel(aligned(64), aligned(64))
    kernel.error = ValueError("late")
    with pytest.raises(ValueError, match="late"):
        kernel(aligned(64), aligned(16))
    (number,) = failures(events)
    (call,) = [e for e in events if e["event"] == "call" and e["id"] == number]
    assert call["arguments"][1]["shape"] == [16]
    assert kernel.counts == [2 * call_counts.DESCRIBED_CALLS, 0]


def test_launches_that_always_raise_fill_no_memory(events: list[dict[str, Any]]) -> None:
    kernel = Kernel(RuntimeError("again"))
    for n in range(call_counts.MAX_CALLS + 100):
        with pytest.raises(RuntimeError, match="again"):
            kernel(aligned(64), aligned(64), n=n)
    assert len(failures(events)) == call_counts.MAX_FAILED_CALLS
    assert len(kernel.counts) <= call_counts.MAX_CALLS


def test_ctrl_c_is_no_failed_launch(events: list[dict[str, Any]]) -> None:
    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Kernel().behind(interrupted)(*HEAD, aligned(64), aligned(64), 64, 64)
    assert not failures(events)


def test_launches_that_differ_in_shared_memory_alone_are_two_calls(
    events: list[dict[str, Any]],
) -> None:
    kernel = Kernel()
    x, y = aligned(64), aligned(64)
    for _ in range(5):
        kernel(x, y)
        kernel(x, x)
    assert kernel.counts == [5, 5]
    apart, same = (e["shares"] for e in events if e["event"] == "call")
    assert (apart, [tuple(pair) for pair in same]) == ([], [("out", "x", 0)])


BASE = aligned(16, 96)
Q, K, V = BASE.split(32, dim=1)
PAIRS = [
    ("parts of a projection", Q, K, None),
    ("rows apart", BASE[:8], BASE[8:], None),
    ("every second", BASE.view(-1)[::2], BASE.view(-1)[1::2], None),
    ("every second and third", BASE.view(-1)[::2], BASE.view(-1)[1::3], 4),
    ("a part and the whole", V, BASE, -256),
    ("rows in common", BASE[:9], BASE[8:], 8 * 96 * 4),
    ("transposed", BASE, BASE.t(), 0),
    ("expanded", BASE[3, 5].expand(64), BASE, -(3 * 96 + 5) * 4),
    ("an expanded element and others", BASE[3, 5].expand(64), BASE[:, 6:], None),
    ("bytes of an element", BASE[0, :1], BASE.view(torch.uint8)[0, 3:4], 3),
    ("next to it", BASE[0, :1], BASE.view(torch.uint8)[0, 4:8], None),
    ("of no elements", BASE[:0], BASE, None),
]


@pytest.mark.parametrize(("name", "a", "b", "offset"), PAIRS, ids=[pair[0] for pair in PAIRS])
def test_tensors_share_memory_where_elements_of_both_overlap(
    name: str, a: torch.Tensor, b: torch.Tensor, offset: int | None
) -> None:
    tensors = call_counts.describe([("a", "*fp32", a), ("b", "*fp32", b)])[1]
    pairs = {frozenset(pair[:2]): pair for pair in overlaps.shared_memory(tensors)}
    assert (frozenset("ab") in pairs) == (offset is not None)
    if offset is not None:
        first, _, bytes_apart = pairs[frozenset("ab")]
        assert bytes_apart == (offset if first == "a" else -offset)


def test_each_pair_of_several_tensors_that_share_memory_is_named() -> None:
    views = {"q": Q, "whole": BASE, "rows": BASE[8:], "v": V, "other": aligned(4, 4)}
    described = call_counts.describe([(name, "*fp32", view) for name, view in views.items()])[1]
    pairs = {tuple(sorted(pair[:2])) for pair in overlaps.shared_memory(described)}
    assert pairs == {
        ("q", "whole"), ("q", "rows"), ("rows", "whole"), ("rows", "v"), ("v", "whole"),
    }  # fmt: skip


def test_overlaps_are_those_of_an_exhaustive_search() -> None:
    """Random small views of one storage, against the sets of bytes of their elements."""
    draw = random.Random(0)
    storage = torch.zeros(64)
    found = 0
    for _ in range(400):
        views = []
        for _ in range(2):
            rank = draw.randint(0, 3)
            shape = [draw.randint(1, 3) for _ in range(rank)]
            strides = [draw.randint(0, 9) for _ in range(rank)]
            views.append(storage.as_strided(shape, strides, draw.randint(0, 9)))
        touched = [set(view.flatten().tolist()) for view in numbered(views)]
        items = [(name, "*fp32", view) for name, view in zip("ab", views, strict=True)]
        pairs = overlaps.shared_memory(call_counts.describe(items)[1])
        assert bool(pairs) == bool(touched[0] & touched[1]), [
            (v.shape, v.stride(), v.storage_offset()) for v in views
        ]
        found += bool(pairs)
    assert 100 < found < 300


def numbered(views: list[torch.Tensor]) -> list[torch.Tensor]:
    """The same views of a storage whose elements are their own numbers."""
    numbers = torch.arange(64)
    return [numbers.as_strided(v.shape, v.stride(), v.storage_offset()) for v in views]


def test_a_search_for_common_bytes_ends() -> None:
    sizes = [(4, n) for n in (97, 89, 83, 79, 73)]
    terms = [(step * 4, 0, count - 1) for count, step in sizes]
    budget = [overlaps.MAX_STEPS]
    overlaps._reaches([*terms, *terms], 1, 1, budget)
    assert budget[0] >= 0


def seconds(launch: Callable[[int], Any], count: int) -> float:
    """CPU seconds of so many launches, each with its number: the least of five tries."""
    tries = []
    for attempt in range(5):
        began = time.thread_time()
        for n in range(count):
            launch(attempt * count + n)
        tries.append(time.thread_time() - began)
    return min(tries)


def test_a_scalar_that_changes_with_every_launch_costs_little(
    events: list[dict[str, Any]],
) -> None:
    launch = Kernel().behind(lambda *args: None)
    x, y = aligned(64), aligned(64)
    for n in range(call_counts.MAX_CALLS + 100):
        launch(*HEAD, x, y, n, 64)
    same = seconds(lambda n: launch(*HEAD, x, y, 7, 64), 1000)
    changing = seconds(lambda n: launch(*HEAD, x, y, 1000 + n, 64), 1000)
    assert changing < 10 * same
    held = launch._ptxview.target
    assert held.others.count > 5000 and len(held.quick) <= call_counts.MAX_CALLS


def test_a_new_call_costs_the_same_beside_many_others(events: list[dict[str, Any]]) -> None:
    x, y = aligned(64), aligned(64)

    def first_calls(kernels: int) -> float:
        made = [Kernel().behind(lambda *args: None) for _ in range(kernels)]
        began = time.thread_time()
        for launch in made:
            for n in range(64):
                launch(*HEAD, x, y, n, 64)
        return (time.thread_time() - began) / kernels

    first_calls(2)
    alone = min(first_calls(4) for _ in range(3))
    first_calls(120)
    assert min(first_calls(4) for _ in range(3)) < 3 * alone


def test_counts_of_kernels_that_grow_together_are_written_together(
    events: list[dict[str, Any]],
) -> None:
    x, y = aligned(64), aligned(64)
    launches = [Kernel().behind(lambda *args: None) for _ in range(60)]
    written: dict[int, int] = {}
    for step in range(1, 1001):
        previous = len(events)
        for launch in launches:
            launch(*HEAD, x, y, 7, 64)
        for event in events[previous:]:
            written |= event["counts"] if event["event"] == "calls" else {event["id"]: 1}
        numbers = [event["id"] for event in events if event["event"] == "call"]
        assert len(numbers) == 60
        assert min(map(written.__getitem__, numbers)) >= min(step - 16, step * 7 // 8)
    assert len([event for event in events if event["event"] == "calls"]) < 8 * 60


def test_a_thread_that_tunes_leaves_launches_of_others_alone() -> None:
    kernel = Kernel()
    tunes, launched = threading.Event(), threading.Event()

    def tune() -> None:
        kernel(aligned(64), aligned(64))
        tunes.set()
        launched.wait(10)

    thread = threading.Thread(target=call_counts.comparing(tune))
    thread.start()
    tunes.wait(10)
    kernel(aligned(64), aligned(64))
    launched.set()
    thread.join()
    assert (kernel.counts, kernel.target.benchmarks.count) == ([1], 1)
    kernel(aligned(64), aligned(64))
    assert kernel.counts == [2]


def test_a_tuner_that_ends_after_another_recording_began_counts_none_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tuning_states: list[dict[str, Any]] = []
    monkeypatch.setattr(subscriber, "tuning", lambda **state: tuning_states.append(state))
    kernel = Kernel()
    call_counts.comparing(call_counts.begin)()
    kernel(aligned(64), aligned(64))
    assert kernel.counts == [1] and not tuning_states[-1]["is_under_way"]


@pytest.mark.parametrize("fast", [None, type("Launcher", (), {"__globals__": {}})])
def test_a_faster_launcher_that_was_not_made_is_no_failure(fast: Any) -> None:
    slow = type("Launcher", (), {"__globals__": {"runner": Kernel().launch}})
    triton_launches.watch_faster(slow, fast)  # raises nothing


def graph() -> tuple[call_counts.CallTarget, Any]:
    """A compiled graph that does nothing, and the call target that its calls count for."""
    name = f"test {next(names)}"
    graphs._paths[name] = name

    class Compiled:
        cache_key = name

    call = graphs.watched_graph(lambda inputs: None, Compiled())
    return call_counts.call_target("graph", "", name, {}), lambda *args: call(list(args))


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
    assert [counter.count for counter in held.calls.values()] == [4] * 7
