"""Kernels of compilers that are not captured: each is named, in the events and to who reads them.

The modules here have the functions that the real ones have, with their signatures, and do nothing.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.ptxview import environment, finished, saved

PROBES = Path(__file__).parents[2] / "inspector" / "probes"
CUDA = """
// __global__ void not_this_one(float* x);
extern "C" __global__ void __launch_bounds__(128, 2) first(float* x) { x[0] = 1; }
template <typename T> __global__ void second(T* x) { x[0] = 2; }
"""
CUPY = """
def _compile_module_with_cache(source, options=(), *, arch=None, extra_source=None,
                               backend="nvrtc", enable_cooperative_groups=False,
                               name_expressions=None, log_stream=None, jitify=False):
    return "compiled"
class _NVRTCProgram:
    def compile(self, options=(), log_stream=None):
        return b"", None
"""
JAX = """
def compile_or_get_cached(backend, computation, devices, compile_options, host_callbacks,
                          executable_devices, pgle_profiler=None):
    from types import SimpleNamespace as Object
    text = "ENTRY %main {\\n  ROOT %loop_add.1 = f32[512]{0} fusion(%b.1), kind=kLoop\\n}"
    return Object(hlo_modules=lambda: [Object(to_string=lambda: text)])
"""
BINDINGS = """
def nvrtcCreateProgram(src, name, numHeaders, headers, includeNames):
    return 0, 7
def nvrtcCompileProgram(prog, numOptions, options):
    return (0,)
def nvrtcGetPTXSize(prog):
    return 0, 0
def nvrtcGetPTX(prog, data):
    return (0,)
nvrtcGetCUBINSize, nvrtcGetCUBIN = nvrtcGetPTXSize, nvrtcGetPTX
"""
PYCUDA = """
def compile(source, nvcc="nvcc", options=None, keep=False, no_extern_c=False):
    return b"cubin"
class SourceModule:
    def __init__(self, source):
        self.module = compile(source)
"""


def ran(tmp_path: Path, program: str, modules: dict[str, str]) -> list[dict[str, Any]]:
    """The events of a program with these modules, under the probes."""
    for name, text in modules.items():
        parts = name.split(".")
        for depth in range(1, len(parts)):
            folder = tmp_path.joinpath("lib", *parts[:depth])
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / "__init__.py").exists():
                (folder / "__init__.py").touch()
        tmp_path.joinpath("lib", *parts[:-1], parts[-1] + ".py").write_text(text)
    recording = tmp_path / "recording"
    (recording / "blobs").mkdir(parents=True)
    script = saved(tmp_path / "program.py", program)
    path = os.pathsep.join((str(PROBES / "bootstrap"), str(tmp_path / "lib")))
    env = environment(PYTHONPATH=path, PTXVIEW_RECORDING=str(recording))
    done = finished([sys.executable, script], env=env)
    assert done.status == 0, done.said
    events: list[dict[str, Any]] = []
    for file in sorted(recording.glob("events*.jsonl")):
        events += [json.loads(line) for line in file.read_text().splitlines()]
    assert not [e for e in events if e["event"] == "problem"]
    return events


def names(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(e["by"], e["name"]) for e in events if e["event"] == "uncaptured"]


def test_cupys_kernels_are_named_once_each(tmp_path: Path) -> None:
    program = f"""
from cupy.cuda import compiler
for _ in range(3):
    assert compiler._compile_module_with_cache({CUDA!r}) == "compiled"
compiler._compile_module_with_cache({CUDA!r}, name_expressions=("second<float>",))
"""
    found = names(ran(tmp_path, program, {"cupy.cuda.compiler": CUPY}))
    assert found == [("CuPy", "first"), ("CuPy", "second"), ("CuPy", "second<float>")]


def test_jax_names_the_module_of_a_gpu_and_is_silent_of_a_cpus(tmp_path: Path) -> None:
    program = """
from types import SimpleNamespace as Object
from jax._src import compiler
for platform, name in (("cpu", "jit_g"), ("gpu", "jit_f")):
    text = lambda **options: "module"
    module = Object(operation=Object(attributes={"sym_name": f'"{name}"'}, get_asm=text))
    compiler.compile_or_get_cached(Object(platform=platform), module, None, None, (), None)
"""
    found = names(ran(tmp_path, program, {"jax._src.compiler": JAX}))
    assert found == [("JAX (XLA)", "loop_add_1")]


def test_programs_of_nvrtc_are_named_by_their_source(tmp_path: Path) -> None:
    program = f"""
from cuda.bindings import nvrtc
from pycuda.compiler import SourceModule
assert nvrtc.nvrtcCreateProgram({CUDA!r}.encode(), b"x.cu", 0, None, None) == (0, 7)
assert nvrtc.nvrtcCompileProgram(7, 0, []) == (0,)
assert SourceModule({CUDA!r}).module == b"cubin"
"""
    modules = {"cuda.bindings.nvrtc": BINDINGS, "pycuda.compiler": PYCUDA}
    makers = ("NVRTC (cuda.bindings)", "PyCUDA")
    found = names(ran(tmp_path, program, modules))
    assert found == [(by, name) for by in makers for name in ("first", "second")]


def test_torchs_own_nvrtc_and_jiterator_are_named(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = f"""
import torch
for _ in range(2):
    try:
        torch.cuda._compile_kernel({CUDA!r}, "first")
    except Exception:
        pass  # there is no NVRTC, or no GPU
jitted = torch.cuda.jiterator._create_jit_fn("template <typename T> T twice(T x) {{ return x; }}")
try:
    jitted(torch.ones(4))
except Exception:
    pass
"""
    assert names(ran(tmp_path, program, {})) == [
        ("torch.cuda._compile_kernel (NVRTC)", "first"),
        ("torch.cuda.jiterator", "twice"),
    ]
