"""Kernels of launches that were seen at the CUDA driver's boundary."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from inspector.base.model import Kernel, Origin, Recording, Stage
from inspector.parsers.cubin import architecture, extract_kernel, kernel_parameters, read_cubin
from inspector.recording.extern_kernels import maker_of
from inspector.render.tables import heading_of
from inspector.sources.opening import open_path
from tests.helpers.ptxview import saved
from tests.helpers.samples import DATA, find_nvdisasm, said_of

ZOO = "zoo_sm90.cubin"
ROOT = Path(__file__).parents[2]
ATEN = "/venv/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so"
NESTED = "_Z6nestedPfPKfi"
ADDRESS = 0x7F6684800000
NIGHTLY = pytest.mark.nightly


class Folder:
    """A recording that is written event by event."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "blobs").mkdir(parents=True)
        self.rows: list[dict[str, Any]] = [
            {"event": "recording", "schema": 1, "command": ["python"], "mode": "gpu"},
            {"event": "driver", "schema": 1, "began": True, "pid": 7},
        ]

    def blob(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        (self.path / "blobs" / digest).write_bytes(data)
        return digest

    def event(self, event: str, **fields: Any) -> None:
        self.rows.append({"event": event, "pid": 7, **fields})

    def launch(self, number: int, name: str, count: object = None, **fields: Any) -> None:
        given = {"grid": [4, 1, 1], "block": [128, 1, 1], "shared_bytes": 0, "libraries": [ATEN]}
        self.event("driver_launch", id=number, name=name, **{**given, **fields})
        if count is not None:
            self.event("driver_counts", counts={str(number): count})

    def opened(self) -> Recording:
        for at, row in enumerate(self.rows):
            row["time"] = float(at + 1)
        text = "".join(json.dumps(row) + "\n" for row in self.rows)
        (self.path / "events.jsonl").write_text(text)
        return open_path(self.path)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "recording")


def the_kernel(recording: Recording) -> Kernel:
    (kernel,) = recording.kernels
    return kernel


def test_an_autotuners_launches_are_benchmarks(folder: Folder) -> None:
    cubin = folder.blob((DATA / ZOO).read_bytes())
    folder.launch(0, NESTED, [5, 0, 0], module=cubin)
    folder.launch(1, NESTED, [200, 12, 0], module=cubin, tuning=True)
    (variant,) = the_kernel(folder.opened()).variants
    assert (variant.launches, variant.benchmarks) == (5, 212)
    assert [call.count for call in variant.calls] == [5]


def test_a_kernel_of_a_library_has_its_maker_and_its_machine_code(folder: Folder) -> None:
    cubin = (DATA / ZOO).read_bytes()
    parsed = read_cubin(cubin)
    assert parsed is not None
    name = parsed.entries[0]
    folder.launch(0, name, [5, 2, 0], module=folder.blob(cubin), operators=["pow", "square"])
    recording = folder.opened()
    kernel = the_kernel(recording)
    (variant,) = kernel.variants
    assert (kernel.origin, heading_of(kernel)) == (Origin.EXTERN, "ATen")
    assert (variant.maker, variant.library, variant.launches) == ("ATen", ATEN, 7)
    (call,) = variant.calls
    assert (call.grid, call.block, call.count) == ((4, 1, 1), (128, 1, 1), 7)
    assert call.operators == ("square", "pow")
    code = read_cubin(variant.stages[Stage.SASS].content.read())
    assert code is not None and code.code[name] == parsed.code[name]
    assert not recording.problems


@pytest.mark.parametrize("captured", [False, True])
def test_parameters_have_the_types_of_the_demangled_name(folder: Folder, captured: bool) -> None:
    """What not every launch had has no value."""
    digest = folder.blob((DATA / "nested.cubin").read_bytes())
    if captured:
        source = folder.blob((DATA / "nested.cu").read_bytes())
        named = {"source": "/home/x/nested.cu", "object": "nested.o", "arch": "sm_90"}
        folder.event("device_code", cubin=digest, source_blob=source, **named)
    values = (("<Q", ADDRESS), ("<Q", ADDRESS + 24), ("<i", 781))
    parameters = [struct.pack(form, value).hex() for form, value in values]
    folder.launch(0, NESTED, [9, 0, 0], module=digest, parameters=parameters)
    folder.launch(1, NESTED, [2, 0, 0b101], module=digest, parameters=parameters, grid=[1, 1, 1])
    kernel = next(k for k in folder.opened().kernels if k.name == NESTED)
    (variant,) = kernel.variants
    assert kernel.origin is (Origin.NVCC if captured else Origin.EXTERN)
    assert variant.launches == 11
    first, second = variant.calls
    assert [a.name for a in first.arguments] == [f"parameter {n}" for n in range(3)]
    assert [a.value for a in first.arguments] == [hex(ADDRESS), hex(ADDRESS + 24), 781]
    assert [a.alignment for a in first.arguments] == [512, 8, None]
    assert [a.type for a in first.arguments] == ["float*", "float const*", "int"]
    assert [a.value for a in second.arguments] == [None, hex(ADDRESS + 24), None]


def test_launches_of_tritons_are_counted_where_they_are_made(folder: Folder) -> None:
    """What replays of a graph add to them is the driver's to say, and which were but captured."""
    cubin = (DATA / "gelu_sm90.cubin").read_bytes()
    parsed = read_cubin(cubin)
    assert parsed is not None
    name, digest = parsed.entries[0], folder.blob(cubin)
    folder.event("triton", name=name, hash="ab" * 32, files={"cubin": digest}, metadata={})
    folder.event("process")
    of = {"kind": "triton", "name": name, "subject": "ab" * 32, "hash": "ab" * 32}
    folder.event("call", id=0, grid=[4, 1, 1], arguments=[], **of)
    folder.event("calls", counts={"0": 6})
    folder.launch(0, name, [105, 30, 0, 1], module=digest)
    kernel = the_kernel(folder.opened())
    assert kernel.origin is Origin.TRITON
    assert kernel.variants[0].launches == 6 - 1 + 30  # one was asked for to be captured
    assert [call.kind for call in kernel.variants[0].calls] == ["triton"]


def test_what_a_compiler_was_given_is_the_source_of_its_kernel(folder: Folder) -> None:
    cubin = (DATA / "gelu_sm90.cubin").read_bytes()
    parsed = read_cubin(cubin)
    assert parsed is not None
    name = parsed.entries[0]
    text = f'extern "C" __global__ void {name}(float* out) {{\n  out[0] = 1;\n}}\n'
    source = folder.blob(text.encode())
    folder.event("uncaptured", by="CuPy", name=name, source=source, options=["-std=c++17"])
    folder.launch(0, name, [1, 0, 0], module=folder.blob(cubin), libraries=["/x/_ctypes.so"])
    recording = folder.opened()
    kernel = the_kernel(recording)
    (variant,) = kernel.variants
    assert (heading_of(kernel), variant.span) == ("CuPy", (1, 3))
    assert variant.stages[Stage.SOURCE].content.read().decode() == text
    assert variant.config == {"flags": ["-std=c++17"]}
    assert not recording.uncaptured and not recording.problems


@pytest.mark.parametrize("modules", [1, 2])
def test_one_of_several_modules_that_name_a_kernel_alike_is_not_guessed(
    folder: Folder, modules: int
) -> None:
    for number in range(modules):
        text = folder.blob(f"module @jit_{number}".encode())
        folder.event("uncaptured", by="JAX (XLA)", name=NESTED, symbol=NESTED, ir=text)
    folder.launch(0, NESTED, [1, 0, 0], module=folder.blob((DATA / "nested.cubin").read_bytes()))
    (variant,) = the_kernel(folder.opened()).variants
    assert (Stage.IR in variant.stages) == (modules == 1)
    assert modules == 1 or "2 modules" in variant.missing[Stage.IR]


def test_without_a_gpu_the_ptx_of_nvrtc_is_there_and_its_maker_named(folder: Folder) -> None:
    folder.rows = [row for row in folder.rows if row["event"] != "driver"]
    ptx = (DATA / "nested.ptx").read_bytes()
    source = folder.blob((DATA / "nested.cu").read_bytes())
    folder.event(
        "uncaptured", by="NVRTC", name="nested", symbol=NESTED, ptx=folder.blob(ptx), source=source
    )
    recording = folder.opened()
    kernel = the_kernel(recording)
    (variant,) = kernel.variants
    assert (kernel.name, heading_of(kernel), variant.target) == (NESTED, "NVRTC", "sm_90")
    assert variant.stages[Stage.PTX].content.read() == ptx
    assert variant.span is not None and "not emulated" in variant.missing[Stage.SASS]
    assert recording.problems == (
        "the kernel nested was made by NVRTC, which is not emulated; its code is here",
    )


def test_what_was_not_seen_is_said(folder: Folder) -> None:
    folder.event("uncaptured", by="CuPy", name="lonely")
    folder.event("driver_left", why="torch.profiler")
    folder.event("driver_counts", counts={}, lost_launches=3, lost_graphs=1)
    folder.launch(0, "without_a_module", [2, 0, 0])
    recording = folder.opened()
    problems = " / ".join(recording.problems)
    for words in (
        "not seen from when torch.profiler began",
        "3 launches of a kernel that is not known",
        "1 launch of a CUDA graph with kernels that may not be counted",
        "lonely was made by CuPy, which is not captured",
    ):
        assert words in problems
    (variant,) = the_kernel(recording).variants
    assert (variant.launches, variant.stages) == (2, {})
    assert "could not be kept" in variant.missing[Stage.SASS]


def test_a_launch_that_was_only_captured_is_not_counted(folder: Folder) -> None:
    folder.launch(0, "captured_and_never_replayed", in_graph=True)
    folder.launch(1, "killed_before_it_was_counted")
    assert [k.name for k in folder.opened().kernels] == ["killed_before_it_was_counted"]


@pytest.mark.parametrize(
    ("libraries", "maker"),
    [
        ((ATEN,), "ATen"),
        (("/v/nvidia/cu13/lib/libcublasLt.so.13", ATEN), "cuBLAS"),
        (("/v/nvidia/cudnn/lib/libcudnn_engines_precompiled.so.9", ATEN), "cuDNN"),
        (("/v/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so",), "JAX (XLA)"),
        (("/home/x/.cache/torch_extensions/sq_ext/sq_ext.so", ATEN), "sq_ext"),
        (("/usr/bin/python",), None),
        ((), None),
    ],
)
def test_the_innermost_library_names_the_maker(
    libraries: tuple[str, ...], maker: str | None
) -> None:
    assert maker_of(libraries) == maker


@pytest.mark.parametrize("sample", sorted(path.name for path in DATA.glob("*.cubin")))
def test_the_architecture_is_the_one_that_cuobjdump_names(sample: str) -> None:
    cuobjdump = find_nvdisasm().with_name("cuobjdump")
    named = re.search(r"sm_\d+", said_of(DATA / sample, cuobjdump, "-lelf").decode().split(":")[-1])
    assert named is not None and architecture((DATA / sample).read_bytes()) == named[0]


@pytest.mark.parametrize(
    "sample",
    ["nested.cubin", *(pytest.param(f"zoo_{n}.cubin", marks=NIGHTLY) for n in ("sm75", "sm90"))],
)
def test_a_kernel_taken_out_is_what_it_was(sample: str, tmp_path: Path) -> None:
    """By NVIDIA's own tools: the same instructions, registers, stack and shared memory."""
    cubin = (DATA / sample).read_bytes()
    parsed = read_cubin(cubin)
    assert parsed is not None
    cuobjdump = find_nvdisasm().with_name("cuobjdump")
    (tmp_path / "whole.cubin").write_bytes(cubin)
    figures = _figures(said_of(tmp_path / "whole.cubin", cuobjdump, "-res-usage").decode())
    for name in parsed.entries:
        alone = extract_kernel(cubin, name)
        assert alone is not None
        again = read_cubin(alone)
        assert again is not None and again.entries == (name,)
        assert again.code[name] == parsed.code[name]
        assert kernel_parameters(alone, name) == kernel_parameters(cubin, name)
        file = saved(tmp_path / "alone.cubin", alone)
        assert _figures(said_of(file, cuobjdump, "-res-usage").decode())[name] == figures[name]
        done = subprocess.run(
            [find_nvdisasm(), "-c", "-hex", file], capture_output=True, check=True
        )
        assert f".text.{name}" in done.stdout.decode()


def _figures(printed: str) -> dict[str, str]:
    rows = [row.strip() for row in printed.splitlines()]
    return {
        row.removeprefix("Function ").rstrip(":"): rows[at + 1]
        for at, row in enumerate(rows)
        if row.startswith("Function ")
    }
