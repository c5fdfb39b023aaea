"""Calls that are known again by one look at all their tensors: never taken for another."""

from __future__ import annotations

import gc
import itertools
import weakref
from typing import Any

import pytest
import torch

from inspector.probes import calls, calls_launch, calls_quick, calls_torch

_names = itertools.count()
PARAMETERS: list[tuple[str, Any, Any]] = [
    ("out", "*fp32", None), ("x", "*fp32", None), ("n", "i32", None), ("BLOCK", "constexpr", 64)
]  # fmt: skip


def aligned(*shape: int, dtype: torch.dtype = torch.float32, by: int = 0) -> torch.Tensor:
    """A tensor at a multiple of 512 bytes as on a device, and ``by`` elements further."""
    size = torch.empty((), dtype=dtype).element_size()
    count = int(torch.Size(shape).numel())
    memory = torch.zeros(count + by + 512 // size, dtype=dtype)
    start = -memory.data_ptr() % 512 // size + by
    return memory[start : start + count].view(shape)


class Watched:
    """A kernel that is launched through the object that stands before its launcher."""

    def __init__(self) -> None:
        self.held = calls.subject("triton", "k", f"test {next(_names)}", {})
        self.launched: list[tuple[Any, ...]] = []
        self.launch = calls_launch.Launch(self.inner, self.held, 9, PARAMETERS)

    def inner(self, *args: Any) -> str:
        self.launched.append(args)
        return "its result"

    def __call__(self, out: Any, x: Any, n: int = 64, grid: int = 1, block: int = 64) -> None:
        args = (grid, 1, 1, 0, 0, None, None, None, None, out, x, n, block)
        assert self.launch(*args) == "its result"
        assert self.launched.pop() is not None

    @property
    def counts(self) -> list[int]:
        return [entry[0] for entry in self.held.calls.values()]


def test_a_repeated_launch_is_counted_without_a_look_at_each_tensor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = Watched()
    kernel(aligned(64), aligned(64))
    kernel(aligned(64), aligned(64))  # other memory
    monkeypatch.setattr(calls_launch.Stand, "_one_by_one", None)
    for _ in range(10):
        kernel(aligned(64), aligned(64))
    assert kernel.counts == [12]


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
def test_a_launch_that_differs_in_one_thing_is_another(other: dict[str, Any]) -> None:
    kernel = Watched()
    same = {"out": aligned(64), "x": aligned(64)}
    for _ in range(40):
        kernel(**same)
        kernel(**{**same, **other})
    assert kernel.counts == [40, 40]


def test_after_many_launches_another_alignment_is_seen_soon() -> None:
    kernel = Watched()
    same, odd = (aligned(64), aligned(64)), (aligned(64), aligned(64, by=4))
    first, others = 200, 100
    for _ in range(first):
        kernel(*same)
    for _ in range(others):
        kernel(*odd)
    kept, late = kernel.counts
    assert kept + late == first + others
    assert first <= kept <= first + calls_quick.RARELY
    for _ in range(first):
        kernel(*same)
    assert kernel.counts == [kept + first, late]


def test_more_ways_than_are_remembered_are_told_apart_all_the_same() -> None:
    kernel = Watched()
    for _ in range(3):
        for n in range(calls_quick.MOST_QUICK * 2):
            kernel(aligned(64), aligned(64), n)
    assert kernel.counts == [3] * calls_quick.MOST_QUICK * 2


@pytest.mark.parametrize("odd", [None, 4096, "text"])
def test_what_is_no_tensor_goes_the_long_way(odd: Any) -> None:
    kernel = Watched()
    for _ in range(3):
        kernel(aligned(64), aligned(64))
        kernel(aligned(64), odd)
    assert kernel.counts == [3, 3]


def test_a_launch_with_other_than_the_usual_arguments_is_passed_on() -> None:
    kernel = Watched()
    kernel(aligned(64), aligned(64))
    head = (1, 1, 1, 0, 0, None, None, None, None)
    x = aligned(64)
    for args in ((x, x, 3), (x,), (x, x, 3, 64, 5, 6)):
        kernel.launch(*head, *args)
        assert kernel.launched.pop() == (*head, *args)


def test_tensors_are_not_kept_alive() -> None:
    kernel = Watched()
    out, x = aligned(64), aligned(64)
    for _ in range(3):
        kernel(out, x)
    seen = [weakref.ref(out), weakref.ref(x)]
    del out, x
    gc.collect()
    assert [r() for r in seen] == [None, None]


def test_a_launch_that_raises_is_not_counted() -> None:
    kernel = Watched()
    kernel(aligned(64), aligned(64))

    def fails(*args: Any) -> None:
        raise MemoryError

    broken = calls_launch.Launch(fails, kernel.held, 9, PARAMETERS)
    args = (1, 1, 1, 0, 0, None, None, None, None, aligned(64), aligned(64), 64, 64)
    for _ in range(3):
        with pytest.raises(MemoryError):
            broken(*args)
    assert kernel.counts == [1]


def test_a_benchmark_is_no_launch_of_the_programs() -> None:
    kernel = Watched()
    for _ in range(3):
        kernel(aligned(64), aligned(64))
    with calls.benchmark():
        kernel(aligned(64), aligned(64))
    assert kernel.counts == [3] and kernel.held.benchmarks[0] == 1


def test_a_torch_without_its_guards_looks_at_each_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C._dynamo.guards, "TensorGuards")
    kernel = Watched()
    for _ in range(5):
        kernel(aligned(64), aligned(64))
    assert kernel.counts == [5] and not kernel.held.quick


def test_a_forked_child_forgets_what_was_remembered() -> None:
    kernel = Watched()
    for _ in range(3):
        kernel(aligned(64), aligned(64))
    before = dict(calls._all)
    try:
        calls._forget()
        kernel(aligned(64), aligned(64))
        assert kernel.counts == [1]
    finally:
        calls._all.update(before)


# -- graphs and functions -------------------------------------------------------------------------


def graph() -> tuple[calls.Subject, Any]:
    held = calls.subject("graph", "g", f"test {next(_names)}", {})
    return held, lambda *args: calls_torch._with_inputs(held, lambda inputs: None, list(args))


def test_a_graphs_calls_are_told_apart_by_tensors_and_by_sizes() -> None:
    held, call = graph()
    for _ in range(5):
        call(aligned(64), aligned(8))
        call(aligned(8), aligned(64))
        call(aligned(64), 7)
        call(aligned(64), 8)
        call(7, aligned(64))
        call(aligned(64, dtype=torch.float64), aligned(8))
        call(aligned(64, by=4), aligned(8))
    assert [entry[0] for entry in held.calls.values()] == [5] * 7
    assert held.whole is not None


def test_a_number_is_not_taken_for_another_of_the_same_value() -> None:
    held, call = graph()
    for _ in range(5):
        for value in (1, True, 1.0, None, "1"):
            call(aligned(64), value)
    assert [entry[0] for entry in held.calls.values()] == [5] * 5


def test_a_parameter_of_a_model_is_a_tensor_like_another() -> None:
    held, call = graph()
    weight = torch.nn.Parameter(aligned(64))
    for _ in range(5):
        call(weight, aligned(8))
    assert [entry[0] for entry in held.calls.values()] == [5]
    assert held.whole is not None and held.whole.check(weight, aligned(8))
