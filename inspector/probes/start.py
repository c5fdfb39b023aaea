"""Runs when the interpreter starts: watches for imports of modules that make kernels."""

import atexit
import os
import sys

from . import children, hooks
from .writer import watching

TRITON = "triton.compiler.compiler"
TUNER = "triton.runtime.autotuner"
INDUCTOR = "torch._inductor"
HEURISTICS = f"{INDUCTOR}.runtime.triton_heuristics"

PROBES = (
    ("torch", "compiles.libraries", "attach"),
    ("torch", "calls.lost_context", "attach"),
    (TRITON, "compiles.triton_compiles", "attach"),
    (TUNER, "calls.call_counts", "attach"),
    ("torch._dynamo.convert_frame", "compiles.inductor_graphs", "attach"),
    (f"{INDUCTOR}.graph", "compiles.inductor_graphs", "attach"),
    (f"{INDUCTOR}.graph", "compiles.inductor_graphs", "attach_inductor"),
    (f"{INDUCTOR}.compile_fx", "compiles.inductor_graphs", "attach_inductor"),
    (f"{INDUCTOR}.scheduler", "compiles.inductor_graphs", "attach_inductor"),
    (f"{INDUCTOR}.debug", "compiles.inductor_graphs", "attach_inductor"),
    (f"{INDUCTOR}.output_code", "calls.graphs", "attach_graphs"),
    (f"{INDUCTOR}.graph", "calls.call_counts", "attach"),
    (f"{INDUCTOR}.runtime.benchmarking", "calls.graphs", "attach_benchmarks"),
    (HEURISTICS, "compiles.triton_compiles", "attach_launchers"),
    (HEURISTICS, "calls.tensor_contents", "attach"),
    ("triton.runtime.jit", "calls.hand_written", "attach"),
    ("torch.optim.optimizer", "driver.marks", "attach_optimizers"),
    ("torch.utils.cpp_extension", "compiles.libraries", "attach_builds"),
    ("torch._ops", "compiles.libraries", "attach_ops"),
    # Packages whose modules are waited for here: a missing module is reported.
    ("triton.compiler", "private_names", "package"),
    ("triton.runtime", "private_names", "package"),
    ("torch._dynamo", "private_names", "package"),
    (INDUCTOR, "private_names", "package"),
    (f"{INDUCTOR}.runtime", "private_names", "package"),
    # Other languages and makers of kernels.
    ("torch.cuda._utils", "languages.torch_nvrtc", "attach"),
    ("torch.cuda.jiterator", "languages.nvrtc", "attach"),
    ("cupy.cuda.compiler", "languages.nvrtc", "attach"),
    ("cuda.bindings.nvrtc", "languages.nvrtc", "attach_bindings"),
    ("cuda.nvrtc", "languages.nvrtc", "attach_bindings"),
    ("pycuda.compiler", "languages.nvrtc", "attach"),
    ("numba.cuda.dispatcher", "languages.numba_cuda", "attach"),
    ("numba.cuda.compiler", "languages.numba_cuda", "attach"),
    ("numba.cuda.codegen", "languages.numba_cuda", "attach"),
    ("jax._src.compiler", "languages.jax_xla", "attach"),
    ("jax._src.pallas.triton.lowering", "languages.jax_xla", "attach_pallas"),
    ("cutlass.base_dsl.dsl", "languages.cute_dsl", "attach"),
    ("cuda.tile._compile", "languages.cutile", "attach"),
    ("tilelang.engine.lower", "languages.tilelang_tir", "attach"),
    ("tilelang.cache.cuda_binary_cache", "languages.tilelang_tir", "attach_cache"),
    ("tilelang.contrib.nvcc", "languages.tilelang_tir", "attach_nvcc"),
    ("helion.runtime.kernel", "languages.helion_dsl", "attach"),
    ("helion.autotuner.base_search", "languages.helion_dsl", "attach_search"),
    ("warp._src.context", "languages.warp_lang", "attach"),
)
"""Modules that are waited for, each with the probe and its function that is called."""

LAST = (
    (TUNER, "autotune.triton_tuner", "attach"),
    (HEURISTICS, "autotune.inductor", "attach"),
    (f"{INDUCTOR}.select_algorithm", "autotune.inductor", "attach_selection"),
    (f"{INDUCTOR}.codegen.triton", "autotune.inductor", "attach_code"),
    (f"{INDUCTOR}.scheduler", "autotune.inductor", "attach_code"),
)
"""After all others that change the tuners: what a tuner was given is recorded."""

_started: list[bool] = []


def start() -> None:
    """Watch for imports; set up the emulated device, compilations ahead and profiles if asked."""
    watching()
    if _started:  # an earlier recording of this process has installed the hooks
        return
    _started.append(True)
    hooks.install()
    hooks.when_imported("subprocess", children.attach)
    atexit.register(hooks.guarded(_finish))
    if os.environ.get("PTXVIEW_DRIVER"):
        from .driver import subscriber

        subscriber.install()
    for module, probe, function in PROBES:
        hooks.when_imported(module, _lazily(probe, function))
    if os.environ.get("PTXVIEW_COMPILE"):
        hooks.when_imported(TRITON, _lazily("cross_compile.compile_job", "attach"))
    hooks.guarded(_emulate, "target")()
    hooks.guarded(_profile, "profile")()
    for module, probe, function in LAST:
        hooks.when_imported(module, _lazily(probe, function))


def _emulate() -> None:
    if target := os.environ.get("PTXVIEW_TARGET"):
        from . import emulator

        if not emulator.installed():  # a program that records now and then keeps its device
            emulator.install(target)


def _profile() -> None:
    if os.environ.get("PTXVIEW_PROFILE"):
        from .profile import session

        session.install()


def _finish() -> None:
    """Write the counts when the process ends, after all that the program does then."""
    call_counts = sys.modules.get("ptxview_probes.calls.call_counts")
    if call_counts is not None and hooks.recording():
        call_counts.finish()


def _lazily(name: str, function: str) -> hooks.AfterImport:
    def callback(module: object) -> None:
        from importlib import import_module

        getattr(import_module(f"ptxview_probes.{name}"), function)(module)

    return callback
