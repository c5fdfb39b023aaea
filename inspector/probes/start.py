"""Runs when the interpreter starts: watches for imports of modules that make kernels."""

from __future__ import annotations

import atexit
import os
import sys

from . import children, hooks
from .writer import problem, watching

PACKAGES = (
    "triton.compiler", "triton.runtime", "torch._dynamo", "torch._inductor",
    "torch._inductor.runtime",
)  # fmt: skip
"""Whose modules are waited for below: one that a version lacks is told (private_names.MODULES)."""

MAKERS = (
    ("torch.cuda._utils", "attach_nvrtc"),
    ("torch.cuda.jiterator", "attach_jiterator"),
    ("cupy.cuda.compiler", "attach_cupy"),
    ("jax._src.compiler", "attach_jax"),
    ("cuda.bindings.nvrtc", "attach_bindings"),
    ("cuda.nvrtc", "attach_bindings"),
    ("cuda.core._program", "attach_core"),
    ("cuda.core.experimental._program", "attach_core"),
    ("pycuda.compiler", "attach_pycuda"),
)
"""Modules that make kernels, each with the function of ``uncaptured`` that watches it.

numba's are in ``numba_kernels``."""


_started: list[bool] = []


def start() -> None:
    """Watch for triton, Inductor and cpp_extension; set up the emulated device if one is asked."""
    watching()
    if _started:  # an earlier recording of this process has installed the hooks
        return
    _started.append(True)
    hooks.install()
    hooks.when_imported("subprocess", children.attach)
    atexit.register(hooks.guarded(_finish))
    # What a program without torch and Triton would wait for in vain is loaded with these.
    for module in ("torch", "triton"):
        hooks.when_imported(module, _lazily("calls.subjects", "attach"))
    hooks.when_imported("torch", _lazily("compiles.libraries"))
    if os.environ.get("PTXVIEW_DRIVER"):
        from .driver import subscriber

        subscriber.install()
    hooks.when_imported("triton.compiler.compiler", _lazily("compiles.triton_compiles"))
    hooks.when_imported(
        "triton.runtime.autotuner", _lazily("calls.triton_launches", "attach_autotuner")
    )
    hooks.when_imported("torch._dynamo.convert_frame", _lazily("compiles.dynamo_trace"))
    hooks.when_imported("torch._inductor.graph", _lazily("compiles.inductor_graphs"))
    hooks.when_imported("torch._inductor.graph", _lazily("compiles.graph_failures"))
    for module, function in (
        ("compile_fx", "attach_compilation"),
        ("graph", "attach_lowering"),
        ("scheduler", "attach_scheduler"),
        ("debug", "attach_debug"),
    ):
        hooks.when_imported(f"torch._inductor.{module}", _lazily("compiles.graph_nodes", function))
    for module, function in (
        ("output_code", "attach_graphs"),
        ("graph", "attach_compilation"),
        ("runtime.benchmarking", "attach_benchmarks"),
    ):
        hooks.when_imported(f"torch._inductor.{module}", _lazily("calls.graphs", function))
    hooks.when_imported(
        "torch._inductor.runtime.triton_heuristics", _lazily("compiles.inductor_launchers")
    )
    hooks.when_imported("torch.utils.cpp_extension", _lazily("compiles.extension_builds"))
    hooks.when_imported("torch._ops", _lazily("compiles.libraries", "attach_ops"))
    hooks.when_imported("torch", _lazily("compiles.device"))
    for package in PACKAGES:
        hooks.when_imported(package, _lazily("private_names", "package"))
    for module, function in MAKERS:
        hooks.when_imported(module, _lazily("uncaptured", function))
    for module in ("dispatcher", "compiler", "codegen"):
        hooks.when_imported(f"numba.cuda.{module}", _lazily("numba_kernels", f"attach_{module}"))
    target = os.environ.get("PTXVIEW_TARGET")
    if target:
        try:
            from . import target as emulated

            if not emulated.installed():  # a program that records now and then keeps its device
                emulated.install(target)
        except Exception as error:
            problem("target", error)
    if os.environ.get("PTXVIEW_COMPILE"):
        hooks.when_imported("triton.compiler.compiler", _lazily("ahead.calls"))
    if os.environ.get("PTXVIEW_PROFILE"):
        try:
            from .profile import session

            session.install()
        except Exception as error:
            problem("profile", error)
    # After all else that changes the tuners: what they were given is what is recorded.
    hooks.when_imported("triton.runtime.autotuner", _lazily("autotune.triton_tuner"))
    hooks.when_imported("torch._inductor.runtime.triton_heuristics", _lazily("autotune.inductor"))
    hooks.when_imported("torch._inductor.select_algorithm", _lazily("autotune.templates"))
    for module, function in (("codegen.triton", "attach_code"), ("scheduler", "attach_scheduler")):
        hooks.when_imported(f"torch._inductor.{module}", _lazily("autotune.templates", function))


def _finish() -> None:
    """Tell the counts when the process ends: after all that the program does then."""
    subjects = sys.modules.get("ptxview_probes.calls.subjects")
    if subjects is not None and hooks.recording():
        subjects.finish()


def _lazily(name: str, function: str = "attach") -> hooks.AfterImport:
    def callback(module: object) -> None:
        from importlib import import_module

        getattr(import_module(f"ptxview_probes.{name}"), function)(module)

    return callback
