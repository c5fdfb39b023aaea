"""The specimens: their values against torch, and that their notes say what the compilers do."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.ptxview import saved, tool

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "kernels"


def literal_specimens() -> tuple[str, ...]:
    """SPECIMENS, read as a literal: it must not need an import."""
    for node in ast.parse((KERNELS / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SPECIMENS":
            return tuple(ast.literal_eval(node.value))
    raise AssertionError("kernels/__init__.py has no SPECIMENS")


SPECIMENS = literal_specimens()


Python = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def python(plain_python: Callable[..., str]) -> Python:
    """``python(words, folder=…)``: Python that has torch, as ``run_python`` starts it."""
    return partial(run_python, plain_python("torch"))


def run_python(
    interpreter: str, *arguments: str, folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "CUDA_VISIBLE_DEVICES": "",
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TRITON_DEFAULT_FP_FUSION": "1",
        **environment,
    }
    return subprocess.run(
        [interpreter, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=300
    )


def test_specimens_lists_every_module() -> None:
    modules = {path.stem for path in KERNELS.glob("*.py")} - {"__init__", "__main__"}
    assert set(SPECIMENS) == modules
    assert len(SPECIMENS) == len(modules)


# The notes in the docstrings, compared with the code that Triton compiles: that needs no GPU.
COMPILE = '''
import json
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from kernels import matmul, softmax, square

TARGET = GPUTarget("cuda", 90, 32)
ALIGNED = [["tt.divisibility", 16]]

def make(function, constants, aligned, **options):
    """The PTX and TTGIR of a kernel whose arguments named in ``aligned`` are multiples of 16."""
    types = {n: "constexpr" if n in constants else "*fp16" if n in ("a_ptr", "b_ptr", "c_ptr")
             else "*fp32" if n.endswith("_ptr") else "i32" for n in function.arg_names}
    attributes = {(i,): ALIGNED for i, n in enumerate(function.arg_names)
                  if n.endswith("_ptr") or (aligned and n not in constants)}
    source = ASTSource(function, types, constexprs=constants, attrs=attributes)
    made = triton.compile(source, target=TARGET, options=options)
    return {"ptx": made.asm["ptx"], "ttgir": made.asm["ttgir"], "shared": made.metadata.shared}

block = {"BLOCK_SIZE": 1024}
out = {f"square_{w}": make(square.square_kernel, block, False, num_warps=w) for w in (4, 8, 16)}
out["square_aligned"] = make(square.square_kernel, block, True, num_warps=4)
out["square_loop"] = make(square.square_loop_kernel, block, True, num_warps=4)
out["square_grid"] = make(square.square_grid_kernel, block, True, num_warps=4)
out["softmax"] = make(softmax.softmax_kernel, block, False, num_warps=4)
ones = dict.fromkeys(("stride_ak", "stride_bn", "stride_cn"), 1)
for i, c in enumerate(matmul.CONFIGS):
    out[f"matmul_{i}"] = make(matmul.matmul_kernel.fn, {**c.kwargs, **ones}, True,
                              num_warps=c.num_warps, num_stages=c.num_stages)
print(json.dumps(out))
'''


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory, python: Python) -> dict[str, dict[str, Any]]:
    """PTX, TTGIR and dynamic shared memory of the Triton specimens for sm_90a, by name."""
    pytest.importorskip("triton", reason="triton is not installed")
    pytest.importorskip("torch", reason="torch is not installed")
    done = python("-c", COMPILE, folder=tmp_path_factory.mktemp("compiled"))
    assert done.returncode == 0, done.stderr[-2000:]
    made: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return made


def has(counted: str, ptx: str) -> bool:
    """Whether the PTX has each text, as often as ``N×`` before it says."""
    for words in counted.split("; "):
        count, times, text = words.rpartition("×")
        if not (ptx.count(text) == int(count) if times else text in ptx):
            return False
    return True


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("square_4", ".reqntid 128; 8×ld.global.b32; 8×mul.f32; 8×st.global.b32"),
        ("square_8", ".reqntid 256; 4×ld.global.b32; 4×mul.f32; 4×st.global.b32"),
        ("square_16", ".reqntid 512; 2×ld.global.b32; 2×mul.f32; 2×st.global.b32"),
        ("square_aligned", "ld.global.v4.b32"),
        ("square_loop", "bra"),
        ("square_grid", "%ctaid.y"),
        ("softmax", "14×shfl.sync.bfly.b32; st.shared; bar.sync; -8388608; ex2.approx.f32"),
        ("matmul_0", "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16; cp.async.cg.shared"),
        ("matmul_1", "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16; cp.async.cg.shared"),
        ("matmul_2", "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16; cp.async.cg.shared"),
    ],
)
def test_ptx_of_triton_specimens_is_as_described(
    compiled: dict[str, dict[str, Any]], name: str, counted: str
) -> None:
    assert has(counted, compiled[name]["ptx"].replace(".maxntid", ".reqntid"))


def test_layouts_and_shared_memory_of_triton_specimens_are_as_described(
    compiled: dict[str, dict[str, Any]],
) -> None:
    assert "sizePerThread = [4]" in compiled["square_aligned"]["ttgir"]
    assert "sizePerThread = [1]" in compiled["square_4"]["ttgir"]
    shared = [compiled[name]["shared"] for name in ("softmax", "matmul_0", "matmul_1", "matmul_2")]
    assert shared == [16, 32 * 1024, 96 * 1024, 144 * 1024]


def nvcc_ptx(name: str, folder: Path) -> str:
    """PTX that nvcc makes of a CUDA specimen's kernel, its host function left out."""
    nvcc = tool("nvcc")
    tree = ast.parse((KERNELS / f"{name}.py").read_text(encoding="utf-8"))
    kernel = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "KERNEL"
    )
    source = saved(folder / f"{name}.cu", kernel)
    target = source.with_suffix(".ptx")
    command = [nvcc, "-ptx", "-O2", "-arch=sm_90", str(source), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return target.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("square_cuda", "_Z20square_matrix_kernelPKfPfii; 1×ld.global; or.pred; bra"),
        ("gelu_cuda", "cvt.f64.f32; fma.rn.f64; 0d3FE988453365DE00"),
        ("gelu_cuda_float", "0×f64; 0f3F4C422A; selp.f32"),
    ],
)
def test_ptx_of_cuda_specimens_is_as_described(tmp_path: Path, name: str, counted: str) -> None:
    assert has(counted, nvcc_ptx(name, tmp_path))
