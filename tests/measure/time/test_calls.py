"""Calls of graphs and of extensions' functions: which, and whose kernels they run."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from inspector.base.errors import PtxviewError
from inspector.base.model import Kernel, Origin, Recording, Variant
from inspector.measure.time.planning import (
    Library,
    frequent,
    job_of_call,
    kernel_times,
    owner,
    replayable_calls,
)
from inspector.reader.query import select, select_calls
from inspector.recording.layout import read_events
from inspector.sources.opening import open_path
from tests.helpers.ptxview import SAMPLE


@pytest.fixture(scope="module")
def lecture() -> Recording:
    return open_path(SAMPLE)


def test_a_kernel_of_an_extension_is_timed_by_the_function_beside_it(lecture: Recording) -> None:
    events = read_events(SAMPLE).events
    found = select(lecture, "square_matrix_kernel")
    (one,) = replayable_calls(lecture, events, found, ())
    assert one.call.name == "square_matrix_extension.square_matrix"
    assert one.library == Library("/tmp/c/ext/square_matrix_extension/square_matrix_extension.so")
    assert one.requested == {(found[0][0].id, found[0][1].id)}


def test_a_generated_kernel_is_timed_alone_where_its_launch_was_recorded(
    lecture: Recording,
) -> None:
    events = read_events(SAMPLE).events
    (kernel, variant), *_ = [f for f in lecture.variants() if f[0].origin is Origin.INDUCTOR]
    assert replayable_calls(lecture, events, [(kernel, variant)], ()) == []
    bare = replace(variant, calls=())
    other = replace(lecture, kernels=(replace(kernel, variants=(bare,)),))
    ((one),) = replayable_calls(other, events, other.variants(), ())
    assert (one.call.kind, one.call.name) == ("graph", "0/0")


def test_the_less_frequent_calls_of_a_function_are_left_out(lecture: Recording) -> None:
    (call,) = select_calls(lecture, "gelu")
    counts = (2, 9, 5)
    many = replace(lecture, calls=tuple(replace(call, count=n) for n in counts))
    kept, left = frequent(replayable_calls(many, (), (), many.calls), 2)
    assert [(a.number, a.call.count) for a in kept] == [(1, 9), (2, 5)]
    assert left == [
        "gelu_double_extension.gelu: 1 of 3 distinct calls, the less frequent ones (--calls)"
    ]


def test_a_library_that_is_gone_or_rebuilt_is_said(lecture: Recording, tmp_path: Path) -> None:
    file = tmp_path / "gelu.so"
    (call,) = select_calls(lecture, "gelu")
    said = {
        "event": "call",
        "name": call.name,
        "library": {"path": str(file), "size": 3, "sha256": hashlib.sha256(b"old").hexdigest()},
    }
    (one,) = replayable_calls(lecture, [said], (), [call])
    with pytest.raises(PtxviewError, match=f"its code is gone: {file} does not exist"):
        job_of_call(one, "gpu")
    file.write_bytes(b"old")
    job, _, warnings = job_of_call(one, "gpu")
    assert (job["module"], job["function"]) == ("gelu_double_extension", "gelu") and not warnings
    file.write_bytes(b"new")
    assert "rebuilt" in job_of_call(one, "gpu")[2][0]
    with pytest.raises(PtxviewError, match="on the CPU"):
        job_of_call(one, "target")


def test_a_graph_is_run_with_the_cache_that_its_program_had_where_that_is_still_there(
    lecture: Recording, tmp_path: Path
) -> None:
    (one,) = replayable_calls(lecture, (), (), select_calls(lecture, "0/0"))
    assert one.code_path is not None and one.code_path.startswith("/tmp/c/inductor/dl/c")
    here = tmp_path / "inductor" / "dl" / "code.py"
    assert "cache" not in job_of_call(replace(one, code_path=str(here)), "gpu")[0]
    here.parent.mkdir(parents=True)
    here.touch()
    job, code, _ = job_of_call(replace(one, code_path=str(here)), "gpu")
    assert job["cache"] == str(tmp_path / "inductor") and b"def call(" in code


def kernel(symbol: str, demangled: str, *variants: Variant) -> list[tuple[Kernel, Variant]]:
    made = Kernel(symbol, symbol, demangled, Origin.NVCC, variants)
    return [(made, v) for v in variants]


SQUARE = kernel(
    "_Z6squarePKfPfi",
    "square(const float *, float *, int)",
    Variant("aaaa", "aaaa", "_Z6squarePKfPfi", target="sm_80"),
    Variant("bbbb", "bbbb", "_Z6squarePKfPfi", target="sm_90a"),
)
HALF = kernel(
    "_Z6squarePK6__halfPS_i",
    "square(const __half *, __half *, int)",
    Variant("cccc", "cccc", "_Z6squarePK6__halfPS_i", target="sm_90"),
)
OTHER = kernel(
    "_ZN2ns4gelu",
    "void ns::gelu<4>(float *)",
    Variant("dddd", "dddd", "_ZN2ns4geluILi4EEEvPf", target="sm_90"),
)
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
    (one,) = replayable_calls(lecture, read_events(SAMPLE).events, found, ())
    said = [
        {"name": found[0][0].demangled, "per_call": 2, "samples": [2.0] * 60},
        {"name": "Memset (Device)", "per_call": 1, "samples": [1.0]},
    ]
    first, second = kernel_times({"kernels": said}, one.among, lecture.variants(), "sm_90")
    assert (first.name, first.variant) == (found[0][0].name, found[0][1].id)
    assert (first.median_us, first.per_call, first.low_us) == (2.0, 2, 2.0)
    assert (second.name, second.variant, second.low_us) == ("Memset (Device)", None, None)
    assert kernel_times({}, one.among, (), None) == ()
