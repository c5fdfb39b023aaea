"""What an event says of a call's arguments, when counts are written, and which launches may have
ended the context."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from inspector.probes.calls import call_counts, graphs, lost_context, triton_launches
from inspector.probes.hooks import CallCounter
from tests.probes.calls.test_launch_proxies import Kernel, aligned, names


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The events that are written while a test runs."""
    written: list[dict[str, Any]] = []
    monkeypatch.setattr(call_counts, "emit", written.append)
    monkeypatch.setattr(lost_context, "emit", written.append)
    return written


@pytest.mark.parametrize(
    ("address", "alignment"),
    [
        (0, None),
        (1, 1),
        (4, 4),
        (12, 4),
        (256, 256),
        (511, 1),
        (512, 512),
        (1024, 512),
        (1536, 512),
    ],
)
def test_an_alignment_is_the_largest_power_of_two_up_to_the_allocators(
    address: int, alignment: int | None
) -> None:
    assert call_counts.aligned(address, 512) == alignment


@pytest.mark.parametrize(
    ("name", "kind", "value", "wanted"),
    [
        ("n", "i32", 7, {"value": 7}),
        ("n", None, 7, {"value": 7}),
        ("flag", "i1", True, {"value": True}),
        ("x", "fp32", 0.5, {"value": 0.5}),
        ("x", "*fp32", None, {"value": None}),
        ("x", "*fp32", 256, {"alignment": 64}),
        ("x", "*fp32", 40, {"alignment": 8}),
        ("x", "*i1", True, {"value": True}),
        ("BLOCK", "constexpr", SimpleNamespace(value=64), {"value": 64}),
        ("f", "constexpr", len, {"value": "len", "python_type": "builtin_function_or_method"}),
        ("text", None, "s" * 300, {"value": "s" * 200, "python_type": "str"}),
    ],
)
def test_a_scalar_is_its_value_and_a_bare_address_its_alignment(
    monkeypatch: pytest.MonkeyPatch, name: str, kind: str | None, value: Any, wanted: dict[str, Any]
) -> None:
    monkeypatch.setattr(call_counts.aligned, "__defaults__", (64,))
    described, tensors = call_counts.describe([(name, kind, value)])
    assert described == [{"name": name, "type": kind, **wanted}]
    assert tensors == []


def test_elements_of_tuples_are_arguments_with_their_own_types() -> None:
    x = aligned(3, 4).t()
    described, tensors = call_counts.describe([("a", ("i32", "*fp32"), (7, x, [1]))])
    assert [(d["name"], d["type"]) for d in described] == [
        ("a[0]", "i32"), ("a[1]", "*fp32"), ("a[2][0]", None)]  # fmt: skip
    assert (described[1]["shape"], described[1]["strides"]) == ([4, 3], [1, 4])
    assert (described[1]["dtype"], described[1]["device"]) == ("float32", "cpu")
    assert tensors == [(described[1], x)]
    assert call_counts.describe([("a", "i32", (7,))])[0][0]["type"] is None


@pytest.mark.parametrize(("count", "kept"), [(1023, 1023), (1024, 1024), (1025, 1024)])
def test_arguments_beyond_the_most_are_not_described(count: int, kept: int) -> None:
    assert len(call_counts.describe([("a", None, [0] * count)])[0]) == kept


def test_signs_tell_types_values_and_shapes_apart() -> None:
    x = torch.ones(2, 3)
    signs = [call_counts.sign(v) for v in (1, 1.0, True, None, "1", x, x.t(), [1], [[1]], object())]
    assert len(set(signs)) == len(signs)
    assert call_counts.sign(object()) == call_counts.sign(object())
    assert call_counts.sign((1, x)) == call_counts.sign([1, torch.zeros(2, 3)])


def test_ranges_are_of_integers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = {
        "ints": torch.tensor([[5, -3], [9, 0]]),
        "none": torch.empty(0, dtype=torch.int32),
        "floats": torch.tensor([1.0]),
        "flags": torch.tensor([True]),
        "complex": torch.tensor([1j]),
    }
    described: list[tuple[dict[str, Any], Any]] = [({"name": n}, t) for n, t in tensors.items()]
    monkeypatch.setenv("PTXVIEW_RANGES", "0")
    call_counts.ranges(described)
    assert all("low" not in description for description, _ in described)
    monkeypatch.delenv("PTXVIEW_RANGES")
    call_counts.ranges(described)
    assert described[0][0] == {"name": "ints", "low": -3, "high": 9}
    assert all("low" not in description for description, _ in described[1:])


def test_counts_are_written_when_they_have_grown_by_an_eighth(events: list[dict[str, Any]]) -> None:
    """Doubled counts up to eight; then noted at each sixteenth and written at the second."""
    kernel, x, y = Kernel(), aligned(64), aligned(64)
    for _ in range(1000):
        kernel(x, y)
    (number,) = (event["id"] for event in events if event["event"] == "call")
    written = [e["counts"][number] for e in events if number in e.get("counts", {})]
    assert written[:6] == [2, 4, 16, 32, 48, 64]
    assert all(b - a <= max(16, a // 7) for a, b in pairwise(written[2:]))
    assert written[-1] >= 1000 * 7 // 8 and len(written) < 45


def test_benchmarks_and_further_calls_are_totals_of_their_kernel(
    events: list[dict[str, Any]],
) -> None:
    identity = f"totals {next(names)}"
    target = call_counts.call_target("triton", "k", identity, {"hash": "h"})
    assert call_counts.call_target("triton", "other", identity, {}) is target
    assert call_counts.call_target("cuda", "k", identity, {}) is not target
    for grid in ((4, 1, 1), (8, 1, 1), (4, 1, 1)):
        call_counts.add(target, target.benchmark(grid))
    call_counts.add(target, target.others, 2)
    totals = [row for event in events for row in event["subjects"]]
    counts = {"others": 2, "benchmarks": 3, "benchmark_grids": [[4, 1, 1], [8, 1, 1]]}
    assert totals[-1] == {"kind": "triton", "subject": identity, **counts}
    assert target.facts == {"hash": "h", "subject": identity}


def test_a_call_beyond_the_most_is_counted_with_the_others(events: list[dict[str, Any]]) -> None:
    kernel, x, y = Kernel(), aligned(64), aligned(64)
    for n in range(call_counts.MAX_CALLS + 3):
        kernel(x, y, n)
    calls = [event for event in events if event["event"] == "call"]
    assert len(kernel.counts) == call_counts.MAX_CALLS == len(calls)
    assert kernel.target.others.count == 3
    kernel(x, y, call_counts.MAX_CALLS - 1)  # its grid and scalars are those of a call that is kept
    assert kernel.counts[-1] == 2


@pytest.mark.parametrize("text", lost_context.STICKY)
def test_errors_that_end_the_context_are_known_by_cudas_words(text: str) -> None:
    error = RuntimeError(f"CUDA error: {text}\nmore")
    assert lost_context.context_error(error) == f"RuntimeError: CUDA error: {text}"


def test_a_cause_is_looked_for_in_a_chain_of_eight() -> None:
    chain: list[BaseException] = [RuntimeError("an illegal instruction")]
    for depth in range(8):
        chain.append(ValueError(f"{depth}"))
        chain[-1].__cause__ = chain[-2]
    assert lost_context.context_error(chain[7]) == "RuntimeError: an illegal instruction"
    assert lost_context.context_error(chain[8]) is None
    assert lost_context.context_error(None) is None
    raised_while_handling = ValueError()
    raised_while_handling.__context__ = chain[0]
    assert lost_context.context_error(raised_while_handling) is not None


@pytest.mark.parametrize(
    ("launches", "complete", "calls"),
    [
        (3, True, [2, 1, 0]),
        (16, True, list(range(15, -1, -1))),
        (17, True, list(range(16, 0, -1))),
        (1023, True, list(range(1022, 1006, -1))),
        (1024, False, list(range(1023, 1007, -1))),
        (1025, False, list(range(1024, 1008, -1))),
    ],
)
def test_the_last_launches_are_those_that_may_have_failed(
    events: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    launches: int,
    complete: bool,
    calls: list[int],
) -> None:
    monkeypatch.delenv("PTXVIEW_TARGET", raising=False)
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    lost_context.begin()
    try:
        for number in range(launches):
            lost_context.pending.append(CallCounter(number))
        assert not lost_context.note_launch_error(ValueError("of the program"))
        assert not events
        for _ in range(2):
            assert lost_context.note_launch_error(RuntimeError("misaligned address"))
    finally:
        lost_context.begin()
    lost = {"error": "RuntimeError: misaligned address", "launches": min(launches, 1024)}
    assert events == [
        {"event": "calls", "lost": {**lost, "complete": complete, "calls": calls}, "final": False}
    ]


PARAMETERS: triton_launches.Parameters = [
    ("x", "*fp32", triton_launches.ABSENT),
    ("BLOCK", "constexpr", 64),
    ("n", "i32", triton_launches.ABSENT),
    ("FLAG", "constexpr", triton_launches.ABSENT),
]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ((1, 2, 3, 4), [("x", 1), ("BLOCK", 2), ("n", 3), ("FLAG", 4)]),
        ((1, 3), [("x", 1), ("BLOCK", 64), ("n", 3), ("FLAG", None)]),
        ((1, 2, 3), [("arg0", 1), ("arg1", 2), ("arg2", 3)]),
    ],
)
def test_values_have_the_names_of_all_parameters_or_of_those_passed(
    values: tuple[int, ...], wanted: list[tuple[str, int | None]]
) -> None:
    described = triton_launches.items(PARAMETERS, values)
    assert [(name, value) for name, _, value in described] == wanted


@pytest.mark.parametrize(
    ("signature", "constants"),
    [
        ({"x": "*fp32", "n": "i32"}, {"BLOCK": 64}),
        ({0: "*fp32", 2: "i32"}, {1: 64}),
        ({"x": "*fp32", "n": "i32"}, {(1,): 64}),
    ],
)
def test_parameters_are_found_by_name_position_or_path(
    signature: dict[Any, Any], constants: dict[Any, Any]
) -> None:
    found = triton_launches.parameters(["x", "BLOCK", "n"], signature, constants, (1, 7))
    assert found == [
        ("x", "*fp32", triton_launches.ABSENT),
        ("BLOCK", "constexpr", 64),
        ("n", "i32", triton_launches.ABSENT),
    ]


def test_a_library_is_known_by_its_path_size_and_digest(tmp_path: Any) -> None:
    file = tmp_path / "lib.so"
    file.write_bytes(b"abc")
    sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert graphs.library(str(file)) == {"path": str(file), "size": 3, "sha256": sha256}
    mebibytes = 64
    for size, is_hashed in ((mebibytes << 20, True), ((mebibytes << 20) + 1, False)):
        with file.open("r+b") as large:
            large.truncate(size)
        facts = graphs.library(str(file))
        assert facts["size"] == size and (facts["sha256"] is not None) is is_hashed
    gone = str(tmp_path / "gone.so")
    assert graphs.library(gone) == {"path": gone, "size": None, "sha256": None}
