"""The emulated device's parts that need no torch: the table, cubins, TTIR, the host's C++."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from inspector.probes import target as device
from inspector.probes.target import cubin, devices, nvcc, writes

PACKAGE = Path(devices.__file__).parent
ARCHITECTURES = [75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121]


def test_every_architecture_has_its_limits_and_sources() -> None:
    assert list(devices.table()) == [f"sm_{n}" for n in ARCHITECTURES]
    for name, row in devices.table().items():
        device = devices.find(name)
        assert row["source"] and row["device_source"]
        assert device.shared_per_block < device.shared_per_block_optin <= device.shared_per_sm
        assert device.max_threads_per_sm == row["max_warps_per_sm"] * device.warp_size
        assert "no GPU" in device.name and device.name != device.device
    assert devices.find("sm_90a").device == devices.find("sm_90").device
    with pytest.raises(ValueError, match="sm_42"):
        devices.find("sm_42")


def test_the_table_reads_the_same_without_tomllib(monkeypatch: pytest.MonkeyPatch) -> None:
    text = devices.TABLE.read_text(encoding="utf-8")
    whole = devices._parse(text)
    monkeypatch.setitem(sys.modules, "tomllib", None)
    assert devices._parse(text) == whole


@pytest.mark.parametrize(
    ("target", "capability"), [("sm_75", (7, 5)), ("sm_90a", (9, 0)), ("sm_120", (12, 0))]
)
def test_capability_of_a_target(target: str, capability: tuple[int, int]) -> None:
    assert device.read_settings(target).capability == capability


def test_settings_survive_nonsense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTXVIEW_VALUES", "some")
    monkeypatch.setenv("PTXVIEW_VALUE_SECONDS", "soon")
    monkeypatch.setenv("PTXVIEW_DEVICES", "-3")
    found = device.read_settings("sm_90")
    assert (found.kernels, found.seconds, found.devices) == (False, device.DEFAULT_SECONDS, 1)


def test_invalid_cubin_has_no_resources() -> None:
    nothing = cubin.Binary(0, 0, 0, None)
    assert cubin.read(b"", "k") == cubin.read(b"\x7fELF\x02" + bytes(80), "k") == nothing


TTIR = """
module {
  tt.func public @k(%out: !tt.ptr<f32>, %x: !tt.ptr<f32>, %n: i32, %acc: !tt.ptr<f32>) {
    %0 = tt.splat %x : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %1 = tt.load %0 : tensor<8x!tt.ptr<f32>>
    %2 = tt.splat %out : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %3:2 = scf.for %i = %n to %n step %n iter_args(%p = %2, %v = %1) -> (tensor, tensor) : i32 {
      %4 = tt.addptr %p, %off : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
      scf.yield %4, %v : tensor, tensor
    }
    tt.store %3#0, %1 : tensor<8x!tt.ptr<f32>>
    STORE
    tt.return
  }
}
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", {0}),
        ("%5 = tt.atomic_rmw fadd, acq_rel, gpu, %acc, %1 : (f32) -> f32", {0, 3}),
        ("%5 = tt.call @helper(%acc) : (!tt.ptr<f32>) -> f32", None),
        ("%5 = tt.elementwise_inline_asm {pure = true} %1 : f32 -> f32", {0}),
        ("%5 = tt.elementwise_inline_asm {pure = false} %acc : i64 -> i32", {0, 3}),
    ],
)
def test_what_a_kernel_writes(line: str, expected: set[int] | None) -> None:
    found = writes.written(TTIR.replace("STORE", line))
    # %n bounds the loop that carries the pointer: naming a number too costs nothing.
    assert (found is None) == (expected is None)
    assert found is None or set(found.arguments) - {2} == expected


def test_which_addresses_in_memory_a_kernel_writes_through() -> None:
    lines = """
    %6 = tt.load %acc : !tt.ptr<i64>
    %7 = scf.if %n -> (!tt.ptr<f32>) {
      %8 = tt.int_to_ptr %6 : i64 -> !tt.ptr<f32>
      scf.yield %8 : !tt.ptr<f32>
    } else {
      scf.yield %x : !tt.ptr<f32>
    }
    tt.store %7, %1 : !tt.ptr<f32>
"""
    found = writes.written(TTIR.replace("STORE", lines))
    assert found is not None
    assert found.arguments - {2} == {0, 1} and found.behind[3] == 1
    data = writes.written(TTIR.replace("STORE", ""))
    assert data is not None and not data.behind, "nothing takes what it loads for an address"


def test_flags_of_nvcc() -> None:
    argv = "-MD -MF a.d -DA=1 -isystem /x -gencode=arch=compute_90a,code=sm_90a -O2 -c a.cu -o a.o"
    source, output, depends, flags = nvcc.split(argv.split())
    assert (source, output, depends) == ("a.cu", "a.o", "a.d")
    assert nvcc.architecture(flags, "sm_90") == "sm_90a"
    assert nvcc.architecture(flags, "sm_80") == "sm_80"
    command = nvcc.command("/cuda", Path("a.cu"), flags, "sm_90", Path("/tmp/k"))
    assert "-arch=sm_90a" in command and not any("gencode" in c for c in command)


def test_the_package_imports_neither_torch_nor_triton_at_its_head() -> None:
    for file in PACKAGE.glob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            heads = {name.split(".")[0] for name in names}
            assert not heads & {"torch", "triton", "numpy", "inspector"}, file.name
