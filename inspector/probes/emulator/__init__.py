"""An emulated CUDA device: unmodified CUDA programs on a machine that has no GPU.

CUDA tensors are genuine to torch and live in host memory; every operator runs on the CPU, every
Triton kernel is compiled for the target and its PTX run, Inductor's graphs are compiled for the
target and run operator by operator, and CUDA C++ is compiled by nvcc and its PTX run. A value
is real or absent, and reading an absent one raises; nothing is timed.

The package runs in the user's interpreter and imports only its two neighbours ``hooks`` and
``writer``; ``executor`` loads ``inspector.execute`` when a kernel is first launched.
``install`` imports no torch: each part is set up when its module is.

    devices     limits of each architecture;  say: lines on stderr, their times in long programs
    shim        compiles shim/ once for each torch, and asks it
    cuda        torch.cuda on top of the shim;  lacking: what a CPU build of torch lacks
    driver      Triton's driver, its launches and benchmarks without measurements
    launch      one launch in PTX, its faults;  executor: loads what runs it
    writes      the memory that a kernel may write
    inductor    torch.compile
    assertions  failed assertions of its kernels: the model's line, the index
    extension   load_inline, load, CUDAExtension;  nvcc_main: takes nvcc's place in them
    cudart      services for the CUDA runtime's replacement, limits and refused launches
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import partial

from ..hooks import before_import, device_attached, no_device, when_imported

DEFAULT_SECONDS = 20.0

PARTS = (
    ("torch", "cuda", "attach"),
    ("torch", "cudart", "attach"),
    ("triton.runtime.driver", "driver", "attach"),
    ("triton.compiler.compiler", "driver", "attach_compiler"),
    ("triton.runtime.autotuner", "driver", "attach_tuning"),
    ("triton.testing", "driver", "attach_testing"),
    ("torch._inductor.compile_fx", "inductor", "attach_compilation"),
    ("torch._inductor.cpp_builder", "inductor", "attach_builds"),
    ("torch._inductor.select_algorithm", "inductor", "attach_selection"),
    ("torch._inductor.runtime.benchmarking", "inductor", "attach_benchmarks"),
    ("torch._inductor.codecache", "inductor", "attach_caches"),
    ("torch._inductor.codegen.triton", "inductor", "attach_caches"),
    ("torch._inductor.codegen.multi_kernel", "inductor", "attach_caches"),
    ("torch._inductor.runtime.autotune_cache", "inductor", "attach_caches"),
    ("torch.utils.cpp_extension", "extension", "attach"),
    ("torch.distributed.distributed_c10d", "lacking", "attach_groups"),
)
"""Modules, and the part and its function that changes each right after its import; ``driver`` works
on CPU tensors too, where the shim cannot be compiled."""
_current: Settings | None = None


@dataclass(frozen=True)
class Settings:
    """One process's settings; children inherit them through the environment."""

    target: str
    """The architecture, as in ``sm_90``."""
    devices: int
    """How many CUDA devices the program sees."""
    kernels: bool
    """Whether torch.compile's graphs run the kernels generated for them (``--values ptx``)."""
    seconds: float
    """Seconds that one launch may take; infinite with ``--values all``."""

    @property
    def capability(self) -> tuple[int, int]:
        """Major and minor compute capability: sm_120 is (12, 0)."""
        return divmod(int("".join(filter(str.isdigit, self.target))), 10)


def read_settings(target: str) -> Settings:
    """The settings of this process."""
    values = os.environ.get("PTXVIEW_VALUES")
    seconds = float(os.environ.get("PTXVIEW_VALUE_SECONDS") or DEFAULT_SECONDS)
    return Settings(
        target=target,
        devices=max(1, int(os.environ.get("PTXVIEW_DEVICES") or 1)),
        kernels=values == "ptx",
        seconds=math.inf if values == "all" else seconds,
    )


def install(target: str) -> None:
    """Arrange for an emulated device of this architecture (``sm_90``) when torch is imported."""
    global _current
    _current = read_settings(target)
    before_import("torch", _load_shim)
    for module, part, function in PARTS:
        when_imported(module, partial(_attach, part, function))


def installed() -> bool:
    """Whether this process has an emulated device, or will have one when torch is imported."""
    return _current is not None


def current() -> Settings:
    """The settings of this process; install() must have run."""
    assert _current is not None
    return _current


def _load_shim() -> None:
    from . import say, shim

    try:
        if (shim.torch_folder() / "version.py").is_file():  # else it is the program's own torch.py
            shim.load()
    except shim.CannotBuild as error:
        say.once(
            "no-shim",
            f"{error}; without it there is no emulated CUDA device and device='cuda' fails: "
            "CPU code runs, and Triton kernels launched on CPU tensors are compiled for the target",
        )


def _attach(part: str, function: str, module: object) -> None:
    from importlib import import_module

    from .. import private_names
    from . import shim

    if shim.loaded() or part == "driver":
        try:
            private_names.check(f"{part}.{function}")
            getattr(import_module(f"{__name__}.{part}"), function)(module)
        except Exception as error:
            if part == "cuda":
                no_device(f"{type(error).__name__}: {error}")
            raise
        if part == "cuda":
            device_attached()
