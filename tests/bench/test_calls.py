"""Calls of graphs and of extensions' functions: which, with what, and whose kernels they run."""

from __future__ import annotations

import hashlib
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from inspector.bench.calls import Library, again, frequent, job_of_call, kernel_times, owner
from inspector.capture.opening import open_path
from inspector.model import Kernel, Origin, Recording, Variant
from inspector.probes import replay_calls
from inspector.probes.replay_calls import Again, Gathered, parts
from inspector.probes.replay_inputs import Arguments, NotRebuilt
from inspector.probes.replay_stopwatches import Unavailable
from inspector.recording import read_events
from inspector.selecting import select, select_calls

LECTURE = Path(__file__).parents[2] / "examples" / "recordings" / "lecture-h200.ptxview"
BARE: dict[str, Any] = dict.fromkeys(
    ("name", "type", "value", "dtype", "shape", "strides", "alignment", "low", "high", "device")
)
X = {**BARE, "name": "arg0", "dtype": "float32", "shape": [4, 3], "strides": [3, 1],
     "alignment": 64}  # fmt: skip


@pytest.fixture(scope="module")
def lecture() -> Recording:
    return open_path(LECTURE)


def argument(name: str, value: object = None) -> dict[str, Any]:
    return {**BARE, "name": name, "value": value}


def test_arguments_come_back_by_place_and_by_name_with_lists_as_lists() -> None:
    said = [
        X, argument("arg1", 3), {**X, "name": "arg2[0]"}, {**X, "name": "arg2[1]"},
        argument("arg4", None), argument("eps", 0.5), argument("sizes[0]", 7),
        argument("sizes[1]", 8), argument("dtype", "torch.float16"), argument("mode", "mean"),
    ]  # fmt: skip
    held = Arguments(torch, said, "cpu", 64, flat=False)
    x, three, pair, gone, none = held.args
    assert x.shape == (4, 3) and three == 3 and none is None
    assert [t.shape for t in pair] == [(4, 3), (4, 3)]
    assert gone == []  # an empty list leaves nothing behind but its place
    assert held.given == {"eps": 0.5, "sizes": [7, 8], "dtype": torch.float16, "mode": "mean"}
    assert [name for name, _ in held.named] == ["arg0", "arg2[0]", "arg2[1]"]


def test_inputs_of_a_graph_are_flat_and_aligned_whatever_they_are_called() -> None:
    said = [{**X, "name": "primals[3]", "alignment": 4}, argument("s0", 17)]
    held = Arguments(torch, said, "cpu", 64, flat=True)
    assert held.args[0].data_ptr() % 64 == 0 and held.args[1] == 17
    assert held.warnings == ["primals[3] lay at a multiple of 4 bytes alone; here it lies better"]


@pytest.mark.parametrize("name", ["arg0[9999]", "a b", "arg0[0", ""])
def test_a_hostile_name_of_an_argument_is_refused(name: str) -> None:
    with pytest.raises(NotRebuilt):
        Arguments(torch, [argument(name, 1)], "cpu", 64, flat=False)


RUNNER = """
    import torch
    _tensor_constant0 = None  # 7f3a
    {before}
    def call({self}args):
        arg0_1, s0 = args
        args.clear()
        return (arg0_1 * s0 + _tensor_constant0, )
    {after}
    def get_args():
        global _tensor_constant0
        _tensor_constant0 = rand_strided((3, ), (1, ), device='cpu', dtype=torch.float32)
"""
FUNCTION = {"before": "", "self": "", "after": ""}
METHOD = {
    "before": "class Runner:", "self": "self, ", "after": "call = Runner().call",
}  # fmt: skip


@pytest.mark.parametrize("form", [FUNCTION, METHOD], ids=["function", "method"])
def test_a_graphs_code_is_called_as_every_torch_since_2_6_writes_it(
    form: dict[str, str], tmp_path: Path
) -> None:
    text = textwrap.dedent(RUNNER.format(**form))
    if form is METHOD:
        head, _, tail = text.partition("    def call") if "    def call" in text else (
            text.partition("def call"))  # fmt: skip
        body, _, rest = tail.partition("call = Runner")
        text = head + "    def call" + body.replace("\n", "\n    ") + "\ncall = Runner" + rest
    path = tmp_path / "code.py"
    path.write_text(text)
    said = {"kind": "graph", "n": 0, "name": "0/0", "code": str(path),
            "arguments": [X, argument("s0", 2)]}  # fmt: skip
    made = Again(torch, said, "cpu", 64)
    for _ in range(2):  # the list that it empties is its own
        (out,) = made.made()
        assert out.shape == (4, 3) and torch.isfinite(out).all()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 1", "no call"),
        ("_frozen_param0 = None  # 1\ndef call(args): pass", "_frozen_param0"),
        ("with torch.cuda._DeviceGuard(3): pass", "device 3"),
    ],
)
def test_a_graph_that_cannot_be_called_says_why(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text(text)
    said = {"kind": "graph", "n": 1, "name": "0/0", "code": str(path), "arguments": []}
    with pytest.raises(NotRebuilt, match=why):
        Again(torch, said, "cpu", 64)


def test_an_extensions_function_is_called_in_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "squares.py"  # what Python can import is imported alike
    library.write_text("def square(x, twice=1):\n    return x * x * twice\n")
    said = {"kind": "extension", "name": "squares.square", "module": "squares",
            "function": "square", "library": str(library),
            "arguments": [X, argument("twice", 2)]}  # fmt: skip
    try:
        made = Again(torch, said, "cpu", 64)
        assert torch.equal(made.made(), made.memory.args[0] ** 2 * 2)
        with pytest.raises(NotRebuilt, match="no function cube any more"):
            Again(torch, {**said, "function": "cube"}, "cpu", 64)
    finally:
        sys.modules.pop("squares", None)


# -- what CUPTI saw -------------------------------------------------------------------------------

FLUSH = [("Memset (Device)", 1.0), ("reduce", 80.0)]
CALL = [("reduce", 3.0), ("square", 2.0), ("square", 4.0)]


def test_the_flush_is_told_from_the_call_by_its_place_not_by_its_name() -> None:
    found = parts([*FLUSH, *CALL] * 3, 3, [name for name, _ in FLUSH])
    assert found == [CALL] * 3
    out = Gathered()
    out.take(found)
    assert out.sums == [9.0] * 3
    assert out.as_said() == [
        {"name": "reduce", "per_call": 1, "samples": [3.0] * 3},
        {"name": "square", "per_call": 2, "samples": [2.0, 4.0] * 3},
    ]


def test_a_lost_event_makes_the_block_unclear() -> None:
    lead = [name for name, _ in FLUSH]
    whole = [*FLUSH, *CALL] * 3
    assert parts(whole[:-1], 3, lead) is None
    assert parts(whole[1:] + whole[:1], 3, lead) is None
    assert parts(FLUSH * 3, 3, lead) == [[], [], []]


class Device:
    """A torch whose profiler sees what was made up: a flush, then what each call does."""

    def __init__(self, does: list[list[tuple[str, float]]]) -> None:
        self.does = does
        self.seen: list[tuple[str, float]] = []
        self.calls = 0
        self.cuda = self

    def synchronize(self) -> None:
        pass

    def flush(self) -> None:
        self.seen += FLUSH

    def call(self) -> None:
        self.seen += self.does[self.calls % len(self.does)]
        self.calls += 1

    def profiled(self, torch: object, run: Callable[[], object], count: int) -> object:
        self.seen.clear()
        for _ in range(count):
            run()
        return list(self.seen)


def measured(device: Device, monkeypatch: pytest.MonkeyPatch) -> Gathered:
    monkeypatch.setattr(replay_calls, "profiled", device.profiled)
    return replay_calls.cupti(device, device.call, device.flush, True, 5.0, lambda: None)


def test_a_call_is_repeated_until_its_sum_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(Device([CALL]), monkeypatch)
    assert len(found.sums) >= 60 and set(found.sums) == {9.0}
    assert found.per_call == {"reduce": 1, "square": 2}


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ([[]], "launched nothing on the device"),
        ([CALL, CALL[:2]], "does not launch the same kernels as the next"),
    ],
)
def test_what_cannot_be_told_apart_has_no_time(
    does: list[list[tuple[str, float]]], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Unavailable, match=why):
        measured(Device(does), monkeypatch)


def test_a_profiler_that_sees_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device([CALL])
    monkeypatch.setattr(replay_calls, "profiled", lambda torch, run, count: [])
    with pytest.raises(Unavailable, match="CUPTI"):
        replay_calls.cupti(device, device.call, device.flush, True, 5.0, lambda: None)


def test_a_flush_that_was_not_seen_is_not_taken_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device([CALL])
    misses = iter([True, False])  # as the profiler comes back with nothing now and then

    def profiled(torch: object, run: Callable[[], object], count: int) -> object:
        found = device.profiled(torch, run, count)
        return [] if next(misses, False) else found

    monkeypatch.setattr(replay_calls, "profiled", profiled)
    found = replay_calls.cupti(device, device.call, device.flush, True, 5.0, lambda: None)
    assert set(found.sums) == {9.0}


# -- which calls ----------------------------------------------------------------------------------


def test_a_kernel_of_an_extension_is_timed_by_the_function_beside_it(lecture: Recording) -> None:
    events = read_events(LECTURE).events
    found = select(lecture, "square_matrix_kernel")
    (one,) = again(lecture, events, found, ())
    assert one.call.name == "square_matrix_extension.square_matrix"
    assert one.library == Library("/tmp/c/ext/square_matrix_extension/square_matrix_extension.so")
    assert one.asked == {(found[0][0].id, found[0][1].id)}


def test_a_generated_kernel_is_timed_alone_where_its_launch_was_recorded(
    lecture: Recording,
) -> None:
    events = read_events(LECTURE).events
    (kernel, variant), *_ = [f for f in lecture.variants() if f[0].origin is Origin.INDUCTOR]
    assert again(lecture, events, [(kernel, variant)], ()) == []
    bare = replace(variant, calls=())
    other = replace(lecture, kernels=(replace(kernel, variants=(bare,)),))
    ((one),) = again(other, events, other.variants(), ())
    assert (one.call.kind, one.call.name) == ("graph", "0/0")


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("0/0", ["0/0"]),
        ("gelu", ["gelu_double_extension.gelu"]),
        ("gelu_*", ["gelu_double_extension.gelu", "gelu_float_extension.gelu_float"]),
        ("gelu_float_extension", ["gelu_float_extension.gelu_float"]),
        ("nothing", []),
    ],
)
def test_calls_are_selected_by_graph_function_and_module(
    lecture: Recording, word: str, names: list[str]
) -> None:
    assert [c.name for c in select_calls(lecture, word)] == names


def test_the_less_frequent_calls_of_a_function_are_left_out(lecture: Recording) -> None:
    (call,) = select_calls(lecture, "gelu")
    counts = (2, 9, 5)
    many = replace(lecture, calls=tuple(replace(call, count=n) for n in counts))
    kept, left = frequent(again(many, (), (), many.calls), 2)
    assert [(a.number, a.call.count) for a in kept] == [(1, 9), (2, 5)]
    assert left == [
        "gelu_double_extension.gelu: 1 of 3 distinct calls, the less frequent ones (--calls)"
    ]


def test_a_library_that_is_gone_or_built_anew_is_said(lecture: Recording, tmp_path: Path) -> None:
    file = tmp_path / "gelu.so"
    (call,) = select_calls(lecture, "gelu")
    said = {"event": "call", "name": call.name,
            "library": {"path": str(file), "size": 3,
                        "sha256": hashlib.sha256(b"old").hexdigest()}}  # fmt: skip
    (one,) = again(lecture, [said], (), [call])
    assert job_of_call(one, "gpu") == f"its code is gone: {file}: No such file or directory"
    file.write_bytes(b"old")
    told = job_of_call(one, "gpu")
    assert not isinstance(told, str) and told[2] is None
    assert (told[0]["module"], told[0]["function"]) == ("gelu_double_extension", "gelu")
    file.write_bytes(b"new")
    told = job_of_call(one, "gpu")
    assert not isinstance(told, str) and told[2] is not None and "built anew" in told[2]
    assert isinstance(job_of_call(one, "target"), str)


def test_a_graph_is_run_with_the_cache_that_its_program_had_where_that_is_still_there(
    lecture: Recording, tmp_path: Path
) -> None:
    (one,) = again(lecture, (), (), select_calls(lecture, "0/0"))
    assert one.code_path is not None and one.code_path.startswith("/tmp/c/inductor/dl/c")
    here = tmp_path / "inductor" / "dl" / "code.py"
    told = job_of_call(replace(one, code_path=str(here)), "gpu")
    assert not isinstance(told, str) and "cache" not in told[0]
    here.parent.mkdir(parents=True)
    here.touch()
    told = job_of_call(replace(one, code_path=str(here)), "gpu")
    assert not isinstance(told, str) and told[0]["cache"] == str(tmp_path / "inductor")
    assert b"def call(" in told[1]


# -- whose kernels --------------------------------------------------------------------------------


def kernel(symbol: str, demangled: str, *variants: Variant) -> list[tuple[Kernel, Variant]]:
    made = Kernel(symbol, symbol, demangled, Origin.NVCC, variants)
    return [(made, v) for v in variants]


SQUARE = kernel("_Z6squarePKfPfi", "square(const float *, float *, int)",
                Variant("aaaa", "aaaa", "_Z6squarePKfPfi", target="sm_80"),
                Variant("bbbb", "bbbb", "_Z6squarePKfPfi", target="sm_90a"))  # fmt: skip
HALF = kernel("_Z6squarePK6__halfPS_i", "square(const __half *, __half *, int)",
              Variant("cccc", "cccc", "_Z6squarePK6__halfPS_i", target="sm_90"))  # fmt: skip
OTHER = kernel("_ZN2ns4gelu", "void ns::gelu<4>(float *)",
               Variant("dddd", "dddd", "_ZN2ns4geluILi4EEEvPf", target="sm_90"))  # fmt: skip
EVERY = [*SQUARE, *HALF, *OTHER]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ("square(float const*, float*, int)", ("_Z6squarePKfPfi", "bbbb")),
        ("square(__half const*, __half*, int)", ("_Z6squarePK6__halfPS_i", "cccc")),
        ("square(double const*, double*, int)", None),  # which of the two is not clear
        ("_Z6squarePKfPfi", ("_Z6squarePKfPfi", "bbbb")),
        ("void (anonymous namespace)::gelu<8>(float*)", ("_ZN2ns4gelu", "dddd")),
        ("void at::native::reduce_kernel<512, 1>(float)", None),
        ("Memset (Device)", None),
    ],
)
def test_a_name_of_cuptis_is_put_to_the_kernel_that_it_is_of(
    seen: str, expected: tuple[str, str] | None
) -> None:
    assert owner(seen, EVERY, "sm_90") == expected


def test_of_several_compilations_the_launched_one_is_meant_else_none() -> None:
    (_, first), (_, second) = SQUARE
    assert owner("_Z6squarePKfPfi", SQUARE, None) == ("_Z6squarePKfPfi", None)
    launched = kernel("k", "k", replace(first, launches=0), replace(second, launches=3))
    assert owner("_Z6squarePKfPfi", launched, None) == ("k", "bbbb")


def test_times_of_kernels_are_read_and_put_to_the_recordings(lecture: Recording) -> None:
    found = select(lecture, "square_matrix_kernel")
    (one,) = again(lecture, read_events(LECTURE).events, found, ())
    said = [
        {"name": found[0][0].demangled, "per_call": 2, "samples": [2.0] * 60},
        {"name": "Memset (Device)", "per_call": 1, "samples": [1.0]},
        {"name": "odd", "per_call": None, "samples": [1.0]}, 7,
    ]  # fmt: skip
    first, second = kernel_times(said, one, lecture.variants(), "sm_90")
    assert (first.name, first.variant) == (found[0][0].name, found[0][1].id)
    assert (first.median_us, first.per_call, first.low_us) == (2.0, 2, 2.0)
    assert (second.name, second.variant, second.low_us) == ("Memset (Device)", None, None)
    assert kernel_times(None, one, (), None) == ()
