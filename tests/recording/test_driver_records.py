"""Records of ``driver.c``, as they are read: whole, cut short, damaged and hostile."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from inspector.parsers.cubin import read_cubin
from inspector.recording.driver_records import keep_records, operator_of
from inspector.recording.layout import Writer, read_events
from inspector.sources.opening import open_path
from inspector.sources.running import Follower
from tests.helpers.samples import DATA

NAME = "driver-7-1a2b.records"
CUBIN = (DATA / "gelu_sm90.cubin").read_bytes()
ATEN = b"/venv/torch/lib/libtorch_cuda.so"
CPU = b"/venv/torch/lib/libtorch_cpu.so"
POW = b"_ZN2at4_ops17pow_Tensor_Scalar4callERKNS_6TensorERKN3c106ScalarE"


def record(kind: int, *parts: bytes) -> bytes:
    data = b"".join(parts)
    return struct.pack("<IIQ", kind, len(data), 10**18) + data


def began(error: int = 0) -> bytes:
    return record(1, struct.pack("<Ii", 1, error), b"/usr/bin/python3.12")


def module(number: int, data: bytes = CUBIN) -> bytes:
    return record(2, struct.pack("<II", number, 0), data)


def entry(number: int, symbol: bytes, module: int = 0, frames: Sequence[int] = ()) -> bytes:
    dims = (4, 1, 1, 128, 1, 1, 64, 0, 0, 0)
    sizes = (0, len(frames), 2, 12, len(symbol))
    head = struct.pack("<Iii3I3II3I5I", number, module, 0, *dims, *sizes)
    values = struct.pack("<HH", 8, 4) + bytes(8) + b"\1\2\3\4"
    return record(3, head, struct.pack(f"<{len(frames)}Q", *frames), values, symbol)


def counts(number: int, count: int, sampled: int = 0) -> bytes:
    return record(
        5, struct.pack("<II6Q", sampled, 1, *[0] * 6), struct.pack("<5Q", number, count, 0, 0, 0)
    )


def frame(address: int, library: bytes, symbol: bytes = b"") -> bytes:
    return record(6, struct.pack("<QII", address, len(library), len(symbol)), library, symbol)


@pytest.fixture(scope="module")
def symbol() -> bytes:
    cubin = read_cubin(CUBIN)
    assert cubin is not None
    return cubin.entries[0].encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    writer = Writer(tmp_path / "recording")
    writer.event(event="recording", schema=1, time=1.0, command=["python"], mode="gpu")
    writer.close()
    return writer.folder


def whole(symbol: bytes, sampled: int = 0) -> bytes:
    launches = module(0) + entry(0, symbol, 0, (1, 2)) + frame(1, CPU, POW) + frame(2, ATEN)
    return began() + launches + counts(0, 5, sampled)


def test_a_folder_whose_run_was_killed_has_its_launches(folder: Path, symbol: bytes) -> None:
    (folder / NAME).write_bytes(whole(symbol) + counts(0, 9)[:-1])
    (kernel,) = open_path(folder).kernels
    (variant,) = kernel.variants
    assert (variant.launches, variant.launches_exact) == (5, True)
    assert variant.library == CPU.decode() and variant.calls[0].operators == ("pow_Tensor_Scalar",)
    (machine_code,) = variant.stages.values()
    assert machine_code.content.read() == CUBIN


def test_the_end_of_a_run_keeps_what_was_launched(folder: Path, symbol: bytes) -> None:
    (folder / NAME).write_bytes(whole(symbol) + module(1, CUBIN[:-1]))
    before = read_events(folder).events
    writer = Writer(folder)
    keep_records(folder, writer.blob)
    writer.close()
    assert read_events(folder).events == before
    assert not (folder / NAME).exists() and len(list((folder / "blobs").iterdir())) == 1


def test_counts_of_a_process_that_was_sampled_are_lower_bounds(folder: Path, symbol: bytes) -> None:
    (folder / NAME).write_bytes(whole(symbol, sampled=1))
    (variant,) = open_path(folder).kernels[0].variants
    assert (variant.launches, variant.launches_exact) == (5, False)


def test_a_recording_that_grows_has_new_records_followed(folder: Path, symbol: bytes) -> None:
    follower = Follower(folder)
    assert follower.look() is not None
    (folder / NAME).write_bytes(whole(symbol))
    follower._not_before = 0.0
    recording = follower.look()
    assert recording is not None and len(recording.kernels) == 1


def test_records_that_are_cut_short_anywhere_are_read_so_far(folder: Path, symbol: bytes) -> None:
    data = whole(symbol)
    before = len(data) - len(CUBIN)
    for end in (*range(0, 200, 7), before, len(data) - 60, len(data) - 1):
        (folder / NAME).write_bytes(data[:end])
        kinds = [e["event"] for e in read_events(folder).events]
        assert "driver_counts" not in kinds and "problem" not in kinds


def test_a_damaged_record_is_a_problem_and_passed_over(folder: Path, symbol: bytes) -> None:
    bad = (
        record(3, b"short"),
        record(3, struct.pack("<18I", *[2**32 - 1] * 18)),
        record(99, b"x"),
        record(5, struct.pack("<II6Q", 0, 2**31, *[0] * 6)),
        record(6, b""),
        record(4, bytes(40)),
        entry(0, symbol),
        module(0),
        entry(10**6, symbol),
    )
    (folder / NAME).write_bytes(whole(symbol) + b"".join(bad) + counts(0, 6))
    read = read_events(folder).events
    assert [e["text"] for e in read if e["event"] == "problem"] == [
        "of process 7: records of launches that are damaged: 8"
    ]
    (variant,) = open_path(folder).kernels[0].variants
    assert variant.launches == 6


def test_any_bytes_are_read_without_an_error(folder: Path, symbol: bytes) -> None:
    chance = random.Random(31)
    small = CUBIN[:64]
    data = began() + module(0, small) + entry(0, symbol, 0, (1, 2)) + frame(1, CPU, POW)
    data += counts(0, 5) + record(7, struct.pack("<i", 0), b"torch.profiler")
    for _ in range(100):
        broken = bytearray(data)
        for _ in range(chance.randrange(1, 20)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        (folder / NAME).write_bytes(broken)
        open_path(folder)


def test_a_hostile_file_takes_no_longer_than_a_large_one(folder: Path, symbol: bytes) -> None:
    many = b"".join(entry(n, b"kernel%d" % n, -1) for n in range(5_000))
    modules = b"".join(module(n) for n in range(200))
    (folder / NAME).write_bytes(began() + modules + many + record(99) * 50_000)
    at = time.monotonic()
    read_events(folder)
    assert time.monotonic() - at < 5


def test_operators_are_those_of_calls_and_of_backward_nodes() -> None:
    assert operator_of(POW.decode()) == "pow_Tensor_Scalar"
    backward = "_ZN5torch8autograd9generated12PowBackward05applyEOSt6vectorIN2at6TensorESaIS4_EE"
    assert operator_of(backward) == "PowBackward0"
    assert operator_of("_ZN2at4_ops999x") is None and operator_of("main") is None
