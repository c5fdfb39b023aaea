"""Events of calls into values: counts of several processes, ranges, graphs, odd input."""

from __future__ import annotations

from typing import Any

import pytest

from inspector.base.model import Recording, Share
from inspector.recording.assemble import Assembly
from inspector.recording.layout import BytesContent
from tests.helpers.ptxview import SQUARE

HASH = "ab" * 32
GRAPH = b"""
def call(self, args):
    arg0_1, arg1_1 = args
    args.clear()
"""
COMPILED: dict[str, Any] = {
    "event": "triton",
    "name": "square_kernel",
    "hash": HASH,
    "files": {"ptx": "ptx"},
    "pid": 1,
}


def arguments(low: int, high: int) -> list[dict[str, Any]]:
    tensor = {"name": "x", "type": "*i32", "dtype": "int32", "shape": [4, 2], "strides": [2, 1]}
    known = {"alignment": 16, "low": low, "high": high}
    return [{**tensor, **known}, {"name": "n", "type": "i32", "value": 4}]


def call(number: int, pid: int = 1, **changed: Any) -> dict[str, Any]:
    return {
        "event": "call",
        "id": number,
        "kind": "triton",
        "name": "square_kernel",
        "pid": pid,
        "hash": HASH,
        "subject": HASH,
        "grid": [4, 1, 1],
        "block": [128, 1, 1],
        "shared_bytes": 16,
        "first": number,
        "arguments": arguments(3, 9),
        **changed,
    }


def told(counts: dict[str, int], pid: int = 1, **more: Any) -> dict[str, Any]:
    return {"event": "calls", "counts": counts, "pid": pid, **more}


def read(*events: dict[str, Any]) -> Recording:
    blobs = {"ptx": (SQUARE / "square_kernel.ptx").read_bytes(), "graph": GRAPH}

    def blob(digest: object) -> BytesContent | None:
        return BytesContent(blobs[str(digest)]) if digest in blobs else None

    return Assembly(blob).recording("x", [COMPILED, *events])


def test_a_launch_is_of_its_variant() -> None:
    ((_, variant),) = read(call(0), told({"0": 7})).variants()
    (one,) = variant.calls
    assert (variant.launches, one.count, one.first) == (7, 7, 0)
    assert (one.grid, one.block, one.shared_bytes) == ((4, 1, 1), (128, 1, 1), 16)
    x, n = one.arguments
    assert (x.name, x.type, x.dtype, x.shape, x.strides) == ("x", "*i32", "int32", (4, 2), (2, 1))
    assert (x.alignment, x.low, x.high, x.value) == (16, 3, 9, None)
    assert (n.name, n.value, n.shape, n.low) == ("n", 4, None, None)


def test_counts_only_grow_and_a_call_that_raised_is_not_counted() -> None:
    told_late = [told({"0": 9, "1": 0}), told({"0": 8})]
    ((_, variant),) = read(call(0), call(1, grid=[5, 1, 1]), *told_late).variants()
    assert [c.count for c in variant.calls] == [9]
    ((_, begun),) = read(call(0)).variants()
    assert begun.launches == 1, "what was begun and not counted yet counts once"


def test_a_call_that_raised_is_kept_with_its_error() -> None:
    bad = call(1, grid=[5, 1, 1])
    failed = told({"1": 0}, failed={"1": "RuntimeError: no", "x": "y", "2": 3})
    ((_, variant),) = read(call(0), told({"0": 9}), bad, failed).variants()
    good, error = variant.calls
    assert (good.count, good.failed) == (9, None)
    assert (error.count, error.failed, error.grid) == (0, "RuntimeError: no", (5, 1, 1))
    assert variant.launches == 9
    # The process was killed before it wrote a count.
    ((_, begun),) = read(bad, {**failed, "counts": {}}).variants()
    assert (begun.launches, begun.calls[0].count) == (0, 0)


LOST = {"error": "CUDA error: device-side assert triggered", "launches": 2, "calls": [1]}


def test_candidates_of_a_lost_context_are_marked_as_such() -> None:
    calls = (call(0), call(1, grid=[5, 1, 1]), told({"0": 9, "1": 2}, lost=LOST))
    recording = read(*calls)
    ((_, variant),) = recording.variants()
    good, suspect = variant.calls
    assert (good.failed, suspect.count) == (None, 2)
    assert suspect.failed == f"perhaps, as one of 2 launches before the error: {LOST['error']}"
    (problem,) = (text for text in recording.problems if "context was lost" in text)
    assert "2 launches of Triton kernels" in problem and "another library" in problem


def test_the_only_candidate_of_a_lost_context_is_the_failed_one() -> None:
    lost = told({"0": 1}, lost={**LOST, "launches": 1, "calls": [0]})
    ((_, variant),) = read(call(0), lost).variants()
    assert variant.calls[0].failed == f"{LOST['error']} (raised by a later call)"


def test_a_context_that_is_lost_without_launches_is_another_librarys() -> None:
    recording = read(call(0), told({"0": 1}, lost={"error": "x", "launches": 0}))
    (problem,) = (text for text in recording.problems if "context was lost" in text)
    assert "no launch of a Triton kernel was pending" in problem


@pytest.mark.parametrize("lost", [3, [], {}, {"error": 3}, {"error": "x", "launches": "many"}])
def test_a_malformed_lost_context_marks_no_call(lost: object) -> None:
    ((_, variant),) = read(call(0), told({"0": 1}, lost=lost)).variants()
    assert variant.calls[0].failed is None


def test_calls_that_share_memory_otherwise_stay_apart() -> None:
    shared = call(1, shares=[["x", "y", 64]])
    ((_, variant),) = read(call(0), shared, call(2, shares=[["x", "y", 64]])).variants()
    assert [(c.count, [tuple_of(s) for s in c.shares]) for c in variant.calls] == [
        (1, []),
        (2, [("x", "y", 64)]),
    ]


def tuple_of(share: Share) -> tuple[str, str, int]:
    return share.first, share.second, share.offset_bytes


def test_processes_are_added_up_and_one_of_the_same_id_is_another() -> None:
    ((_, variant),) = read(
        {"event": "process", "pid": 1},
        call(0),
        told({"0": 2}),
        {"event": "process", "pid": 2},
        call(0, 2, arguments=arguments(-1, 5), first=5),
        told({"0": 3}, 2),
        {"event": "process", "pid": 1},
        call(0),
        told({"0": 4}),
    ).variants()
    (one,) = variant.calls
    assert (one.count, one.first) == (9, 0)
    assert (one.arguments[0].low, one.arguments[0].high) == (-1, 9)


@pytest.mark.parametrize(
    ("low", "high", "kept"),
    [
        (3, (1 << 64) - 1, (None, None)),
        (1 << 63, 1 << 63, (None, None)),
        (-(1 << 63), (1 << 63) - 1, (-(1 << 63), (1 << 63) - 1)),
    ],
)
def test_a_range_beyond_64_signed_bits_is_unknown_and_the_call_kept(
    low: int, high: int, kept: tuple[int | None, int | None]
) -> None:
    recording = read(call(0, arguments=arguments(low, high)), told({"0": 7}))
    ((_, variant),) = recording.variants()
    x, n = variant.calls[0].arguments
    assert (variant.calls[0].count, x.low, x.high, n.value) == (7, *kept, 4)
    assert x.shape == (4, 2) and not any("malformed" in text for text in recording.problems)


def test_a_scalar_beyond_64_signed_bits_is_unknown_and_the_call_kept() -> None:
    scalar = {"name": "n", "type": "u64", "value": (1 << 64) - 1}
    recording = read(call(0, arguments=[scalar]), told({"0": 7}))
    ((_, variant),) = recording.variants()
    (n,) = variant.calls[0].arguments
    assert (variant.launches, n.name, n.type, n.value) == (7, "n", "u64", None)
    assert not any("malformed" in text for text in recording.problems)


@pytest.mark.parametrize("wrong", [{"grid": [-1, 1, 1]}, {"block": [128, -4, 1]}])
def test_a_call_with_a_negative_size_is_left_out_and_said(wrong: dict[str, Any]) -> None:
    recording = read(call(0), call(1, **wrong), told({"0": 1}))
    ((_, variant),) = recording.variants()
    assert [c.grid for c in variant.calls if c.grid is not None] == [(4, 1, 1)]
    assert any("of kind call is malformed" in problem for problem in recording.problems)


def test_what_changes_from_launch_to_launch_stays_apart() -> None:
    changed = call(1, grid=[5, 1, 1], first=3)
    ((_, variant),) = read(call(0), changed, told({"0": 3})).variants()
    assert [(c.grid, c.count, c.first) for c in variant.calls] == [
        ((4, 1, 1), 3, 0),
        ((5, 1, 1), 1, 3),
    ]


def test_launches_that_no_call_holds_are_counted_and_said() -> None:
    rest = {"kind": "triton", "subject": HASH, "others": 40, "benchmarks": 6}
    recording = read(call(0), told({"0": 2}, subjects=[rest]))
    ((_, variant),) = recording.variants()
    assert (variant.launches, variant.benchmarks) == (42, 6)
    assert any("square_kernel" in p and "40 more" in p for p in recording.problems)


def test_a_candidate_of_autotuning_has_no_launch_of_the_program() -> None:
    rest = {"kind": "triton", "subject": HASH, "others": 0, "benchmarks": 6}
    grids = {"benchmark_grids": [[4, 1, 1], [8, 2, 1]]}
    recording = read(told({}, subjects=[{**rest, **grids}]))
    ((_, variant),) = recording.variants()
    assert (variant.launches, variant.benchmarks, variant.calls) == (0, 6, ())
    assert variant.benchmark_grids == ((4, 1, 1), (8, 2, 1))
    assert not recording.problems


def test_graphs_calls_stand_under_the_graphs_id_with_its_inputs_names() -> None:
    inputs = [{"name": f"arg{n}", "dtype": "float32", "shape": [2], "strides": [1]} for n in (0, 1)]
    bare: dict[str, Any] = {"hash": None, "grid": None, "block": None, "shared_bytes": None}
    named = {"blob": "graph", "path": "/c/g.py", "frame_id": 0, "frame_compile_id": 1, "pid": 1}
    recording = read(
        {"event": "graph", **named},
        call(
            0,
            **{"kind": "graph", "subject": "/c/g.py", "name": "", "arguments": inputs, **bare},
            shares=[["arg0", "arg1", 0]],
        ),
        call(1, kind="extension", subject="m.f", name="m.f", arguments=[], **bare),
        told({"0": 5}),
    )
    graph, extension = recording.calls
    assert (graph.kind, graph.name, graph.count) == ("graph", "0/1", 5)
    assert [a.name for a in graph.arguments] == ["arg0_1", "arg1_1"]
    assert [tuple_of(share) for share in graph.shares] == [("arg0_1", "arg1_1", 0)]
    assert (extension.kind, extension.name, extension.arguments) == ("extension", "m.f", ())


def test_a_launch_of_cuda_is_of_the_only_kernel_of_its_name() -> None:
    def cuda(number: int, name: str) -> dict[str, Any]:
        return call(number, kind="cuda", name=name, subject=f"{name} 1", hash=None, arguments=[])

    ptx = {"event": "device_code", "ptx": "ptx", "pid": 1}
    recording = read(ptx, cuda(0, "square_kernel"), cuda(1, "other"), told({"0": 3}))
    (built,) = [v for k, v in recording.variants() if k.origin.value == "nvcc"]
    assert (built.launches, built.calls[0].grid) == (3, (4, 1, 1))
    (triton,) = [v for k, v in recording.variants() if k.origin.value == "triton"]
    assert triton.launches is None
