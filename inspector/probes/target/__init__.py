"""An emulated CUDA device: unmodified CUDA programs on a machine that has no GPU.

CUDA tensors are genuine to torch and live in host memory; every operator runs on the CPU, every
Triton kernel is compiled for the target and its PTX run, Inductor's graphs are compiled for the
target and run operator by operator, and CUDA C++ is compiled by nvcc and its PTX run. A value
is real or absent, and reading an absent one raises; nothing is timed.

The package runs in the user's interpreter and imports nothing of ours but its two neighbours
``hooks`` and ``writer``; ``executor`` loads what runs PTX when a kernel is first launched.
``install`` imports no torch: each part is set up when its module is.

    devices     the limits of each architecture, from reference/devices.toml
    build       compiles shim/ once for each torch;  native: loads it
    cuda        torch.cuda on top of the shim;  streams, memory: parts of it
    driver      Triton's driver;  launch: one launch;  writes: what it may have written
    ptx         a launch's PTX, run;  executor: loads what runs it;  faults: errors of a launch
    tuning      autotuning and benchmarks that measure nothing
    inductor    torch.compile
    waiting     what a long program waits for, said now and then
    lacking     NVIDIA's own libraries and tools, which are not here
    extension   load_inline, load, CUDAExtension;  nvcc, nvcc_main: parts of it
    cudart      what extensions ask of the CUDA runtime: launches, variables
"""

from __future__ import annotations

from ..hooks import before_import, when_imported
from . import settings as _settings

# Parts that work on CPU tensors, where the shim could not be compiled.
WITHOUT_SHIM = ("driver", "launch", "tuning")
_current: _settings.Settings | None = None


def install(target: str) -> None:
    """Arrange for an emulated device of this architecture (``sm_90``) when torch is imported."""
    global _current
    _current = _settings.read(target)
    before_import("torch", _load_shim)
    when_imported("torch", lambda module: _part("cuda", module))
    when_imported("torch", lambda module: _part("cudart", module))
    when_imported("torch", lambda module: _part("lacking", module))
    when_imported("triton.runtime.driver", lambda module: _part("driver", module))
    when_imported("triton.runtime.driver", lambda module: _part("lacking", module))
    when_imported("triton.compiler.compiler", lambda module: _part("launch", module))
    when_imported("triton.runtime.autotuner", lambda module: _part("tuning", module))
    when_imported("triton.testing", lambda module: _part("tuning", module))
    for name in ("compile_fx", "select_algorithm", "runtime.benchmarking"):
        when_imported(f"torch._inductor.{name}", lambda module: _part("inductor", module))
    when_imported("torch.utils.cpp_extension", lambda module: _part("extension", module))


def installed() -> bool:
    """Whether this process has an emulated device, or will have one when torch is imported."""
    return _current is not None


def current() -> _settings.Settings:
    """The settings of this process; install() must have run."""
    assert _current is not None
    return _current


def _load_shim() -> None:
    from . import build, lacking, native, say

    try:
        native.load()
        lacking.install()
    except build.CannotBuild as error:
        say.once(
            "no-shim",
            f"{error}; without it there is no emulated CUDA device and device='cuda' fails: "
            "CPU code runs, and Triton kernels launched on CPU tensors are compiled for the target",
        )


def _part(name: str, module: object) -> None:
    from importlib import import_module

    from .. import private_names
    from . import native

    if native.loaded() or name in WITHOUT_SHIM:
        private_names.check(f"target.{name}")
        import_module(f"{__name__}.{name}").attach(module)
