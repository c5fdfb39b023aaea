"""Calls that are known again by one look at all their tensors: never taken for another."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

from inspector.probes.calls import graphs, launch, launch_native, subjects
from tests.helpers.standing import PARAMETERS, aligned, compiled, how, names

__all__ = ["compiled", "how"]  # fixtures
pytestmark = pytest.mark.usefixtures("how")


class Watched:
    """A kernel that is launched through the object that stands before its launcher."""

    def __init__(self) -> None:
        self.held = subjects.subject("triton", "k", f"test {next(names)}", {})
        self.launched: list[tuple[Any, ...]] = []
        self.launch = launch.stand(self.inner, self.held, 9, PARAMETERS)

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
    monkeypatch.setattr(launch.Stand, "_one_by_one", None)
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
    assert first <= kept <= first + launch.RARELY
    for _ in range(first):
        kernel(*same)
    assert kernel.counts == [kept + first, late]


def test_more_ways_than_are_remembered_are_told_apart_all_the_same() -> None:
    kernel = Watched()
    for _ in range(3):
        for n in range(launch.MOST_QUICK * 2):
            kernel(aligned(64), aligned(64), n)
    assert kernel.counts == [3] * launch.MOST_QUICK * 2


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

    broken = launch.stand(fails, kernel.held, 9, PARAMETERS)
    args = (1, 1, 1, 0, 0, None, None, None, None, aligned(64), aligned(64), 64, 64)
    for _ in range(3):
        with pytest.raises(MemoryError):
            broken(*args)
    assert kernel.counts == [1]


def test_a_benchmark_is_no_launch_of_the_programs() -> None:
    kernel = Watched()
    for _ in range(3):
        kernel(aligned(64), aligned(64))
    with subjects.benchmark():
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
    before = dict(subjects._all)
    try:
        subjects._forget()
        kernel(aligned(64), aligned(64))
        assert kernel.counts == [1]
    finally:
        subjects._all.update(before)


# -- in C -----------------------------------------------------------------------------------------


def test_what_stands_there_is_the_launcher_in_all_else() -> None:
    class Inner:
        number = 5

        def __call__(self, *args: Any, **given: Any) -> Any:
            return args, given

    made = launch.stand(Inner(), Watched().held, 9, PARAMETERS)
    assert made.number == 5 and made(1, 2, n=3) == ((1, 2), {"n": 3})
    assert launch.standing(made) is not None and launch.standing(Inner()) is None
    with pytest.raises(AttributeError, match="missing"):
        _ = made.missing


def test_it_goes_away_with_its_launcher() -> None:
    kernel = Watched()
    for _ in range(70):
        kernel(aligned(64), aligned(64))
    gone = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert gone() is None


def test_a_launcher_may_launch_and_forget_itself() -> None:
    """What is compared with, and the launcher itself, may change while it is called."""
    kernel = Watched()
    args = (1, 1, 1, 0, 0, None, None, None, None, aligned(64), aligned(64), 64, 64)
    depth = [0]

    def inner(*given: Any) -> int:
        depth[0] += 1
        if depth[0] % 5:
            kernel.launch(*given[:11], depth[0] % 3, 64)
        return depth[0]

    kernel.launch = launch.stand(inner, kernel.held, 9, PARAMETERS)
    for _ in range(200):
        assert kernel.launch(*args) % 5 == 0
    assert sum(kernel.counts) == depth[0] == 1000


def test_threads_share_one() -> None:
    kernel = Watched()
    tensors = [(aligned(64), aligned(64)), (aligned(64), aligned(8, 8))]
    made = launch.stand(lambda *args: None, kernel.held, 9, PARAMETERS)

    def launches(which: int) -> None:
        for n in range(3000):
            pair = tensors[(which + n // 7) % 2]
            made(1, 1, 1, 0, 0, None, None, None, None, *pair, 64, 64)

    threads = [threading.Thread(target=launches, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kernel.counts) == 2 and sum(kernel.counts) == pytest.approx(12000, abs=40)


@pytest.mark.parametrize(
    "last", [(), (1, 2, 3), ([], None, None, None), [None] * 4, "text", (None, 2, 3, 4)]
)
def test_odd_last_calls_are_refused(compiled: Any, last: Any) -> None:
    made = compiled(print, None, print, print, print, [0], [0, 0, None, 0], False)
    with pytest.raises(TypeError):
        made._ptxview_compare(b"", last)


def test_an_odd_check_or_count_is_no_error(compiled: Any) -> None:
    """Whatever the last call holds: the launch is made once, and what is odd goes to ``slow``."""

    def fail(*args: Any) -> Any:
        raise OSError

    slow: list[Any] = []

    def which(known: Any, args: Any) -> Any:
        assert args == (5, "tensor")
        return known()

    def slowly(*args: Any) -> str:
        slow.append(args)
        return "slow"

    made = compiled(lambda *args: "launched", None, slowly, fail, which, [0], [0] * 4, 0)
    roles, chosen = bytes([1, 2]), [3, 9]
    for last, expected in (
        (((5,), fail, [0, 9], None), "slow"),
        (((), fail, [0, 9], None), "slow"),
        (((5,), 7, [0, 9], None), "slow"),
        (((5,), lambda x: True, [], None), "launched"),
        (((5,), lambda x: True, [1.5, "x"], None), "launched"),
        (((5,), lambda x: True, [8, 9], None), "launched"),  # due raises
        (((5,), lambda x: 1, [8, 9], None), "slow"),
        (((6,), lambda x: True, [8, 9], None), "slow"),
        ((("5",), lambda x: True, [8, 9], None), "slow"),
        (((5.0,), lambda x: True, [8, 9], None), "slow"),
        (((True,), lambda x: True, [8, 9], None), "slow"),
        (((5,), lambda x: True, None, fail), "slow"),
        (((5,), lambda x: True, None, lambda: None), "slow"),
        (((5,), lambda x: True, None, lambda: chosen), "launched"),
        (None, "slow"),
    ):
        made._ptxview_compare(roles, last)
        assert made(5, "tensor") == expected, last
    assert chosen == [4, 9]
    counts = [8, 9]
    made._ptxview_compare(roles, ((5,), lambda x: True, counts, None))
    assert made(5, "tensor") == "launched" and counts == [9, 9]
    assert made(5) == made(5, "tensor", 6) == made(5, more=6) == "slow"
    assert slow[-1] == ((5,), {"more": 6}) and slow[-2] == ((5, "tensor", 6),)


def test_ctrl_c_within_is_the_programs(compiled: Any) -> None:
    def interrupted(*args: Any) -> Any:
        raise KeyboardInterrupt

    def launched(*args: Any) -> str:
        return "launched"

    made = compiled(launched, None, launched, interrupted, interrupted, [0], [0] * 4, 0)
    for last in (
        ((5,), interrupted, [0, 9], None),
        ((5,), lambda x: True, [8, 9], None),  # in due
        ((5,), lambda x: True, None, None),  # in which
    ):
        made._ptxview_compare(bytes([1, 2]), last)
        with pytest.raises(KeyboardInterrupt):
            made(5, "tensor")


def test_without_a_compiler_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(launch_native, "_loaded", [])
    monkeypatch.setattr(launch_native, "_compiler", lambda: None)
    assert launch_native.build() is None and launch_native.launch_type() is None
    monkeypatch.setattr(launch_native, "_compiler", lambda: "false")
    assert launch_native.build() is None and launch_native.launch_type() is None
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]
    path = Path(launch_native.library())
    path.write_bytes(b"no library")
    assert launch_native.launch_type() is None


# -- graphs and functions -------------------------------------------------------------------------


def graph() -> tuple[subjects.Subject, Any]:
    held = subjects.subject("graph", "g", f"test {next(names)}", {})
    return held, lambda *args: graphs._with_inputs(held, lambda inputs: None, list(args))


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
