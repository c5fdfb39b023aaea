"""Calls of graphs and of extensions' functions as the child process makes them again."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from inspector.probes.replay import session
from inspector.probes.replay.driver import Event, Unavailable
from inspector.probes.replay.inputs import Memory, NotRebuilt
from inspector.probes.replay.session import add, parts, repeated
from tests.helpers.ptxview import saved

BARE: dict[str, Any] = dict.fromkeys(
    ("name", "type", "value", "dtype", "shape", "strides", "alignment", "low", "high", "device")
)
X = {
    **BARE,
    "name": "arg0",
    "dtype": "float32",
    "shape": [4, 3],
    "strides": [3, 1],
    "alignment": 64,
}


def argument(name: str, value: object = None) -> dict[str, Any]:
    return {**BARE, "name": name, "value": value}


def test_arguments_come_back_by_place_and_by_name_with_lists_as_lists() -> None:
    said = [
        X,
        argument("arg1", 3),
        {**X, "name": "arg2[0]"},
        {**X, "name": "arg2[1]"},
        argument("arg4", None),
        argument("eps", 0.5),
        argument("sizes[0]", 7),
        argument("sizes[1]", 8),
        argument("dtype", "torch.float16"),
        argument("mode", "mean"),
    ]
    held = Memory(torch, "cpu", 64)
    (x, three, pair, gone, none), given = held.arguments(said)
    assert x.shape == (4, 3) and three == 3 and none is None
    assert [t.shape for t in pair] == [(4, 3), (4, 3)]
    assert gone == []  # an empty list leaves nothing behind but its place
    assert given == {"eps": 0.5, "sizes": [7, 8], "dtype": torch.float16, "mode": "mean"}
    assert [name for name, _ in held.named] == ["arg0", "arg2[0]", "arg2[1]"]


def test_inputs_of_a_graph_are_flat_and_aligned_under_any_name() -> None:
    said = [{**X, "name": "primals[3]", "alignment": 4}, argument("s0", 17)]
    held = Memory(torch, "cpu", 64)
    x, s0 = held.flat(said)
    assert x.data_ptr() % 64 == 0 and s0 == 17
    assert held.warnings == [
        "primals[3] was at a multiple of 4 bytes alone; here it is better aligned"
    ]


FUNCTION = """
import torch
_tensor_constant0 = None  # 7f3a
def call(args):
    arg0_1, s0 = args
    args.clear()
    return (arg0_1 * s0 + _tensor_constant0, )
def get_args():
    global _tensor_constant0
    _tensor_constant0 = rand_strided((3, ), (1, ), device='cpu', dtype=torch.float32)
"""
METHOD = f"{FUNCTION}\nclass Runner:\n    of_graph = staticmethod(call)\n"
METHOD += "    def call(self, args): return self.of_graph(args)\ncall = Runner().call\n"


@pytest.mark.parametrize("text", [FUNCTION, METHOD], ids=["function", "method"])
def test_a_graphs_code_is_called_as_every_torch_since_2_6_writes_it(
    text: str, tmp_path: Path
) -> None:
    path = saved(tmp_path / "code.py", text)
    arguments = [X, argument("s0", 2)]
    said = {"kind": "graph", "n": 0, "name": "0/0", "code": str(path), "arguments": arguments}
    made = repeated(torch, said, Memory(torch, "cpu", 64))
    for _ in range(2):  # the list that it empties is its own
        (out,) = made()
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
    path = saved(tmp_path / "code.py", text)
    said = {"kind": "graph", "n": 1, "name": "0/0", "code": str(path), "arguments": []}
    with pytest.raises(NotRebuilt, match=why):
        repeated(torch, said, Memory(torch, "cpu", 64))


def test_an_extensions_function_is_called_in_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "squares.py"  # what Python can import is imported alike
    library.write_text("def square(x, twice=1):\n    return x * x * twice\n")
    said = {
        "kind": "extension",
        "name": "squares.square",
        "module": "squares",
        "function": "square",
        "library": str(library),
        "arguments": [X, argument("twice", 2)],
    }
    try:
        memory = Memory(torch, "cpu", 64)
        made = repeated(torch, said, memory)
        assert torch.equal(made(), memory.named[0][1].reshape(4, 3) ** 2 * 2)
        with pytest.raises(NotRebuilt, match="no function cube any more"):
            repeated(torch, {**said, "function": "cube"}, memory)
    finally:
        sys.modules.pop("squares", None)


FLUSH = [Event("Memset (Device)", 0, 1000), Event("reduce", 0, 80_000)]
CALL = [Event("reduce", 0, 3000), Event("square", 5000, 2000), Event("square", 7000, 4000)]


def test_the_flush_is_known_by_its_place_not_by_its_name() -> None:
    found = parts([*FLUSH, *CALL] * 3, 3, [event.name for event in FLUSH])
    assert found == [CALL] * 3
    out: dict[str, Any] = {"samples": [], "span": [], "kernels": {}}
    add(out, found)
    assert (out["samples"], out["span"]) == ([9.0] * 3, [11.0] * 3)
    assert [*out["kernels"].values()] == [
        {"name": "reduce", "per_call": 1, "samples": [3.0] * 3},
        {"name": "square", "per_call": 2, "samples": [2.0, 4.0] * 3},
    ]


class Device:
    """A torch with made-up events: a flush, then the kernels of each call."""

    def __init__(self, does: list[list[Event]]) -> None:
        self.does = does
        self.seen: list[Event] = []
        self.calls = 0
        self.cuda = self

    def synchronize(self) -> None:
        pass

    def flush(self) -> None:
        self.seen += FLUSH

    def call(self) -> None:
        self.seen += self.does[self.calls % len(self.does)]
        self.calls += 1

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def saw(self, work: Callable[[], object], enough: object) -> list[Event]:
        self.seen.clear()
        work()
        return [event._replace(start=n) for n, event in enumerate(self.seen)]


def measured(device: Any) -> dict[str, Any]:
    return session.cupti(device, device.call, device.flush, True, 5.0, lambda: None)


def test_a_call_is_repeated_until_its_sum_is_settled() -> None:
    found = measured(Device([CALL]))
    assert len(found["samples"]) >= 60 and set(found["samples"]) == {9.0}
    assert {n: k["per_call"] for n, k in found["kernels"].items()} == {"reduce": 1, "square": 2}


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ([[]], "launched nothing on the device"),
        ([CALL, CALL[:2]], "does not launch the same kernels as the next"),
    ],
)
def test_calls_that_cannot_be_separated_have_no_time(does: list[list[Event]], why: str) -> None:
    with pytest.raises(Unavailable, match=why):
        measured(Device(does))


class Misses(Device):
    """Comes back with nothing the first times, as torch.profiler does now and then."""

    def __init__(self, times: int) -> None:
        super().__init__([CALL])
        self.times = times

    def saw(self, work: Callable[[], object], enough: object) -> list[Event]:
        events = super().saw(work, enough)
        self.times -= 1
        return [] if self.times >= 0 else events


def test_a_flush_that_was_not_seen_is_not_taken_for_none() -> None:
    assert set(measured(Misses(1))["samples"]) == {9.0}
