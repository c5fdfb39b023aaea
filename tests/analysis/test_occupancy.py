"""Occupancy against NVIDIA's calculator, Nsight Compute, and its rules in words."""

import csv
import importlib.util
import subprocess
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inspector
from inspector.analysis.occupancy import Device, Occupancy, arch_of, occupancy
from tests.helpers.tools import path_of, skip_without

TABLE = Path(inspector.__file__).parent / "reference" / "devices.toml"
ENTRIES = tomllib.loads(TABLE.read_text("utf-8"))
DEVICES = {arch: Device.of(arch, entry) for arch, entry in ENTRIES.items()}
DATA = Path(__file__).parents[1] / "data" / "analysis"
H200 = DEVICES["sm_90"]
NO_LIMIT = 2**31 - 1
FACTORS = {
    "block size": 1, "registers": 2, "shared memory": 4, "blocks": 8, "barriers": 16,
}  # fmt: skip


def told(device: Device, threads: int, registers: int, shared: int) -> Occupancy:
    found = occupancy(device, threads, registers, shared)
    assert found is not None
    return found


@pytest.fixture(scope="session")
def calculator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NVIDIA's ``cuda_occupancy.h``, which triton's wheel brings, as a program."""
    skip_without("g++")
    found = importlib.util.find_spec("triton")
    assert found is not None and found.submodule_search_locations
    include = Path(next(iter(found.submodule_search_locations))) / "backends" / "nvidia" / "include"
    program = tmp_path_factory.mktemp("calculator") / "calculator"
    source = Path(__file__).with_name("calculator.cpp")
    subprocess.run(
        [str(path_of("g++")), "-O1", f"-I{include}", str(source), "-o", str(program)], check=True
    )
    return program


def cases(device: Device) -> list[tuple[int, int, int, int, int]]:
    """Registers, static and dynamic shared memory, barriers, threads."""
    sizes = [0, 1, 127, 128, 1024, 5000, 16384, 48 * 1024, 49153, 70000, 99 * 1024, 99 * 1024 + 1,
             163 * 1024, 227 * 1024, 227 * 1024 + 1]  # fmt: skip
    out = [
        (registers, 0, shared, 1, threads)
        for registers in (0, 1, 16, 18, 22, 24, 25, 32, 40, 42, 64, 65, 72, 96, 128, 168, 255)
        for threads in (1, 31, 32, 33, 64, 96, 128, 160, 256, 384, 512, 640, 768, 1000, 1024, 1025)
        for shared in sizes
    ]
    out += [
        (registers, static, shared, barriers, threads)
        for registers in (16, 64, 100)
        for threads in (64, 128, 416)
        for static in (0, 100, 8192)
        for shared in sizes
        for barriers in (0, 1, 2, 3, 7, 16)
    ]
    return out


def answers(program: Path, device: Device, asked: list[tuple[int, ...]]) -> list[list[int] | None]:
    number = device.arch.removeprefix("sm_")
    values = (
        int(number[:-1]), int(number[-1]), device.max_threads_per_sm, device.max_threads_per_block,
        device.registers_per_block, device.registers_per_sm, device.warp_size,
        device.shared_per_block, device.shared_per_sm, device.sms, device.shared_per_block_optin,
        device.shared_reserved_per_block,
    )  # fmt: skip
    head = " ".join(map(str, values))
    lines = "\n".join(f"{head} {' '.join(map(str, case))}" for case in asked)
    done = subprocess.run([str(program)], input=lines, capture_output=True, text=True, check=True)
    return [
        None if line == "error" else [int(word) for word in line.split()]
        for line in done.stdout.splitlines()
    ]


@pytest.mark.parametrize("arch", DEVICES)
def test_occupancy_is_that_of_nvidias_calculator(arch: str, calculator: Path) -> None:
    device = DEVICES[arch]
    asked = cases(device)
    theirs = answers(calculator, device, list(asked))
    assert len(theirs) == len(asked)
    compared = 0
    for case, answer in zip(asked, theirs, strict=True):
        registers, static, dynamic, barriers, threads = case
        if answer is None:  # more shared memory than any setting has
            assert static + dynamic > device.shared_per_block_optin
            continue
        found = occupancy(device, threads, registers, static + dynamic, barriers=barriers)
        assert found is not None
        blocks, by_registers, by_shared, by_warps, by_blocks, by_barriers, factors, held = answer
        ours = (
            found.blocks,
            found.limits.get("registers", NO_LIMIT),
            found.limits.get("shared memory", NO_LIMIT),
            found.limits["block size"],
            found.limits["blocks"],
            found.limits.get("barriers", NO_LIMIT),
            found.shared_a_block,
        )
        assert ours == (
            blocks, by_registers, by_shared, by_warps, by_blocks, by_barriers, held,
        ), (case, found)  # fmt: skip
        # The calculator adds factors up before it looks at barriers, so it may name more.
        named = sum(FACTORS[name] for name in found.limiters)
        assert named & factors == named, (case, found)
        if by_barriers > blocks:
            assert named == factors & 31, (case, found)
        compared += 1
    assert compared > 3000


def test_as_nsight_compute_says() -> None:
    with (DATA / "ncu_occupancy.csv").open() as file:
        launches = list(csv.DictReader(file))
    assert [row["registers"] for row in launches] == ["18", "22", "16", "20", "30"]
    for row in launches:
        shared = int(row["static_shared"]) + int(row["dynamic_shared"])
        found = occupancy(H200, int(row["threads"]), int(row["registers"]), shared, barriers=0)
        assert found is not None
        assert found.limits["registers"] == int(row["limit_registers"])
        assert found.limits["block size"] == int(row["limit_warps"])
        assert found.limits["blocks"] == int(row["limit_blocks"])
        # The kernel has no barrier: ncu then says what the blocks allow.
        assert found.limits.get("barriers", found.limits["blocks"]) == int(row["limit_barriers"])
        assert found.warps == float(row["warps"])
        assert found.percent == float(row["percent"])
        assert H200.sms == int(row["sms"])
        waves = int(row["grid"]) / (found.blocks * H200.sms)
        assert round(waves, 2) == float(row["waves"])


def test_what_cannot_be_launched_says_what_could() -> None:
    found = told(H200, 1024, 72, 0)
    assert (found.blocks, found.percent) == (0, 0)
    assert found.next_steps[0].text == "64 instead of 72 registers: 1 block an SM instead of 0"


@given(
    st.sampled_from(sorted(DEVICES)),
    st.integers(1, 1024),
    st.integers(1, 255),
    st.integers(0, 240_000),
)
@settings(max_examples=120, deadline=None)
def test_steps_hold_and_are_the_smallest(arch: str, threads: int, registers: int, s: int) -> None:
    """Taking a step gives what it says; one register or one unit more does not."""
    device = DEVICES[arch]
    now = told(device, threads, registers, s)
    assert (now.percent == 100) <= (not now.next_steps)
    for step in now.next_steps:
        use = (
            step.threads or threads,
            registers if step.registers is None else step.registers,
            s if step.shared_bytes is None else step.shared_bytes,
        )
        then = told(device, *use)
        assert (then.blocks, then.warps) == (step.blocks, step.warps)
        assert then.warps > now.warps
        if step.registers is not None:
            assert step.registers < registers
            assert told(device, use[0], use[1] + 1, use[2]).blocks <= now.blocks
        if step.shared_bytes is not None:
            assert step.shared_bytes < s
            assert told(device, use[0], use[1], use[2] + 1).blocks <= now.blocks


def test_the_recorded_device_overrides_the_representative() -> None:
    recorded = {
        "name": "NVIDIA H100 PCIe", "major": 9, "minor": 0, "multi_processor_count": 114,
        "clock_rate": 1755000, "total_memory": 85 * 10**9, "L2_cache_size": 52428800,
    }  # fmt: skip
    assert arch_of(recorded) == "sm_90"
    device = H200.recorded(recorded)
    assert (device.name, device.sms, device.clock_hz) == ("NVIDIA H100 PCIe", 114, 1755000000)
    assert device.max_blocks_per_sm == H200.max_blocks_per_sm
    assert device.memory_bandwidth is None  # the H200's is not the H100's
    assert DEVICES["sm_80"].recorded(recorded) == DEVICES["sm_80"]
    assert H200.recorded(None) == H200
    assert H200.recorded({"major": 9, "minor": 0, "multi_processor_count": "?"}) == H200
    assert H200.recorded({"major": 9, "minor": 0, "max_threads_per_multi_processor": 16}) == H200


def test_what_the_cubin_counts_of_the_reserved_memory_is_not_counted_twice() -> None:
    # A kernel with 400 static bytes: nvcc 13.0 writes 400 for sm_80 and 1424 for sm_90.
    assert [DEVICES["sm_80"].own_shared(400), H200.own_shared(1424), H200.own_shared(0)] == [
        400, 400, 0,
    ]  # fmt: skip
