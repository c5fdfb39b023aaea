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


def test_after_many_launches_another_alignment_is_seen() -> None:
    kernel = Watched()
    same, odd = (aligned(64), aligned(64)), (aligned(64), aligned(64, by=4))
    first, others = 200, 100
    for _ in range(first):
        kernel(*same)
    for _ in range(others):
        kernel(*odd)
    for _ in range(first):
        kernel(*same)
    assert kernel.counts == [2 * first, others]


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
    monkeypatch.setattr(launch_native, "_loaded", [None])
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
    "last", [(), (1, 2, 3), ([], None, None), [None] * 3, "text", (None, 2, 3), ((), print, [0, 9])]
)
def test_odd_last_calls_are_refused(compiled: Any, last: Any) -> None:
    made = compiled.Launch(print, None, print, print, [0], [0, 0, None, 0], False)
    with pytest.raises(TypeError):
        made._ptxview_compare(b"", last)


def test_an_odd_count_is_no_error(compiled: Any) -> None:
    """Whatever the last call holds: the launch is made once, and what is odd goes to ``slow``."""

    def fail(*args: Any) -> Any:
        raise OSError

    slow: list[Any] = []

    def slowly(*args: Any) -> str:
        slow.append(args)
        return "slow"

    made = compiled.Launch(lambda *args: "launched", None, slowly, fail, [0], [0] * 4, 0)
    x = aligned(64)
    one, none, two = (compiled.Layout((x,) * n, (0,) * n) for n in (1, 0, 2))
    roles, tensor = bytes([1, 2]), aligned(64)
    for last, expected in (
        (((), one, [0, 9]), "slow"),
        (((5,), none, [0, 9]), "slow"),
        (((5,), two, [0, 9]), "launched"),
        (((5,), one, []), "launched"),
        (((5,), one, None), "launched"),
        (((5,), one, [1.5, "x"]), "launched"),
        (((5,), one, [8, 9]), "launched"),  # due raises
        (((6,), one, [8, 9]), "slow"),
        ((("5",), one, [8, 9]), "slow"),
        (((5.0,), one, [8, 9]), "slow"),
        (((True,), one, [8, 9]), "slow"),
        (None, "slow"),
    ):
        made._ptxview_compare(roles, last)
        assert made(5, tensor) == expected, last
    counts = [8, 9]
    made._ptxview_compare(roles, ((5,), one, counts))
    assert made(5, tensor) == "launched" and counts == [9, 9]
    for odd in (None, 4096, "text", aligned(63), aligned(8, 8), torch.nn.Buffer(aligned(65))):
        assert made(5, odd) == "slow" and counts == [9, 9]
    assert made(5) == made(5, tensor, 6) == made(5, more=6) == "slow"
    assert slow[-1] == ((5,), {"more": 6}) and slow[-2] == ((5, tensor, 6),)


@pytest.mark.parametrize("vectorcall", [True, False])
def test_arguments_arrive_as_they_were_given(compiled: Any, vectorcall: bool) -> None:
    class Inner:
        def __call__(self, *args: Any, **given: Any) -> Any:
            return args, given

    inner = (lambda *args, **given: (args, given)) if vectorcall else Inner()
    x, nothing, more = aligned(64), dict[str, int](), {"n": 2}
    counts, slow = [0, 9], lambda args, given=None: ("slow", args, given)
    made = compiled.Launch(inner, None, slow, print, [0], [0] * 4, 0)
    made._ptxview_compare(bytes([1, 2]), ((5,), compiled.Layout((x,), (0,)), counts))
    assert made(5, x) == made(*[5, x]) == made(*[5, x], **nothing) == ((5, x), {})
    assert made(5, x, n=2) == made(*[5, x], **more) == ("slow", (5, x), {"n": 2})
    assert made() == ("slow", (), None) and counts[0] == 3


def test_ctrl_c_within_is_the_programs(compiled: Any) -> None:
    class Value:
        def __eq__(self, other: object) -> bool:
            raise KeyboardInterrupt

    def interrupted(*args: Any) -> Any:
        raise KeyboardInterrupt

    def launched(*args: Any) -> str:
        return "launched"

    made = compiled.Launch(launched, None, launched, interrupted, [0], [0] * 4, 0)
    one = compiled.Layout((aligned(64),), (0,))
    for last, value in (
        (((Value(),), one, [0, 9]), Value()),
        (((5,), one, [8, 9]), 5),  # in due
    ):
        made._ptxview_compare(bytes([1, 2]), last)
        with pytest.raises(KeyboardInterrupt):
            made(value, aligned(64))


# -- what torch's plain C interface tells ---------------------------------------------------------


def test_a_layout_has_what_python_says_of_a_tensor(compiled: Any) -> None:
    wide = aligned(2, 3, 1, 4, 1, 5, 2)
    for tensor in (
        aligned(64), aligned(64, by=1), aligned(8, 8).t(), aligned(8, 8)[1:5:2, ::3], wide,
        wide.permute(6, 5, 4, 3, 2, 1, 0), aligned(64)[3], aligned(64)[:0], torch.empty(0, 3, 0),
        aligned(1).expand(7, 3), torch.nn.Parameter(aligned(4)), aligned(4).requires_grad_(),
        torch.empty(4, device="meta"), aligned(8, dtype=torch.float8_e4m3fn),
    ):  # fmt: skip
        keys, _, device, sizes, strides, address = compiled.describe(tensor)
        assert keys == torch._C._dispatch_keys(tensor).raw_repr() and device == -1
        assert sizes == tuple(tensor.shape) and strides == tensor.stride()
        assert address == tensor.data_ptr()


def test_a_layout_is_had_by_what_differs_in_nothing(compiled: Any) -> None:
    tensors = [
        aligned(64), aligned(64).view(8, 8), aligned(8, 8).t()[:, :4], aligned(8, 8)[:, :4],
        aligned(128)[::2], aligned(64, dtype=torch.int32), aligned(64, dtype=torch.bfloat16),
        aligned(64, dtype=torch.float16), aligned(64, by=1), torch.empty(64, device="meta"),
        aligned(64)[0], aligned(64)[:0], aligned(8, 8, 1), aligned(1, 8, 8),
        aligned(64, dtype=torch.complex64), aligned(64, dtype=torch.complex64).conj(),
    ]  # fmt: skip
    for n, tensor in enumerate(tensors):
        layout = compiled.Layout((tensor,), (15,))
        assert [layout(t) for t in tensors] == [n == m for m in range(len(tensors))]
        assert not layout() and not layout(tensor, tensor) and not layout(None)
        assert not layout(tensor, n=1)


class Wrapped(torch.Tensor):  # type: ignore[misc]
    """A subclass, which may be anything."""


def test_what_torch_cannot_tell_of_is_no_layout_and_says_nothing(
    compiled: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch writes to stderr what its plain C interface cannot tell: it is never asked for that."""
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(8, 8)
    monkeypatch.setattr(launch_native, "_loaded", [compiled])
    plain, held = aligned(8, 8), Watched().held
    known = launch.remember(held, (), (plain,), [0, 1, 0])
    assert known is not None and known.check(plain) and known.check(aligned(8, 8))
    seen = []

    def within(tensor: torch.Tensor) -> torch.Tensor:
        seen.append(known.check(tensor))
        assert launch.remember(held, (), (tensor,), [0, 1, 0]) is None
        return tensor.sum()

    torch.func.vmap(within)(aligned(2, 8, 8))
    torch.func.grad(within)(aligned(8, 8))
    assert seen == [False, False]
    nested = torch.nested.nested_tensor([aligned(3, 8), aligned(5, 8)])
    odd = [fake, plain.to_sparse(), plain.as_subclass(Wrapped), nested]
    for tensor in (*odd, None, 3, "text", torch.Tensor):
        assert not known.check(tensor)
        assert launch.remember(held, (), (tensor,), [0, 1, 0]) is None
    assert capfd.readouterr() == ("", "")


def test_a_torch_that_keeps_things_elsewhere_is_not_taken_for_this_one(
    compiled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an offset is not found, or what is told is not what Python says, C is not used."""
    assert launch_native.knows_torch(compiled)
    path = launch_native.library
    told = []

    class Other:
        """The module, of a torch in which something stands elsewhere."""

        def __init__(self, at: int) -> None:
            self._at = at

        def use_torch(self, *args: Any) -> None:
            told.append(args)

        def describe(self, tensor: Any) -> Any:
            true = list(compiled.describe(tensor))
            true[self._at] = 7
            return tuple(true)

    for at in range(6):
        assert not launch_native.knows_torch(Other(at))
    assert len(told) == 6 and launch_native.library is path
    monkeypatch.setattr(launch_native, "LARGEST_TENSOR", 8)
    assert not launch_native.knows_torch(Other(0)) and len(told) == 6


def test_torch_is_come_to_know_unseen_by_the_program(compiled: Any) -> None:
    """Neither a mode nor a profile of the program's notices the tensors that are made for it."""
    from torch.overrides import TorchFunctionMode

    seen = []

    class Mode(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(function)
            return function(*args, **(kwargs or {}))

    host = torch.device("cpu")
    with torch.profiler.profile() as profile, Mode():
        assert launch_native.knows_torch(compiled)
        launch._plain_keys.cache_clear()
        launch._plain_keys(host)
    assert not seen and not profile.key_averages()


def test_without_a_compiler_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(launch_native, "_loaded", [])
    monkeypatch.setattr(launch_native, "_compiler", lambda: None)
    assert launch_native.build() is None and launch_native.native() is None
    monkeypatch.setattr(launch_native, "_compiler", lambda: "false")
    assert launch_native.build() is None and launch_native.native() is None
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]
    path = Path(launch_native.library())
    path.write_bytes(b"no library")
    launch_native._loaded.clear()
    assert launch_native.native() is None


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
