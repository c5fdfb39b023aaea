"""Names of torch, Triton and others that are not promised to stay, and what happens without each.

Whatever a probe touches that is private to a library, or is a detail of one, stands here with what
is lost where it is missing and what is done instead. The probes that record ask for it by ``get``,
``wrap`` and their like; parts that are written against a library's insides as a whole (the emulated
device, calls made again, compiles ahead) have theirs looked at by ``check`` when they begin. A name
that is missing is told in the recording, once a process, and the program goes on; one that this
version is known not to have is no problem.

Nothing is imported or looked up before a probe needs it. A key is a module and a path within it,
``torch._inductor.graph:GraphLowering.codegen``; a path that begins with ``.`` is of an object that
the class before it makes.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

from .hooks import observed, per_recording
from .writer import problem

if TYPE_CHECKING:
    from .hooks import After, Before

Row = tuple[str, str] | tuple[str, str, str, str]
"""What is lost, what is done instead; the first version that has the name, the first without it."""

_GRAPH_NODES = "which nodes and modules a graph is made of, and what was fused, is not recorded"
_TUNINGS = "what Triton's tuner tries is not recorded"
_INDUCTOR_TUNINGS = "what Inductor's tuner tries is not recorded"
_TEMPLATES = "what max-autotune tries is not recorded"
_CHOSEN = "which kernel max-autotune's choice became is not recorded"
_MEASURED = "the fusions that Inductor compiles to measure them are not named"
_LAUNCHES = "launches of these kernels are not counted"
_COMPARED = "launches that compare candidates count as the program's"
_WHY_NOT = f"where a graph did not compile is not recorded, and {_COMPARED}"
_OTHERS = "kernels of this maker are not named"
_HITS = "kernels that Inductor loads from its caches are not recorded"
_RANGES = "no ranges of integer tensors, and no arguments by their values"
_PROFILES = "a profiler of the program's own finds us at CUPTI"

NAMES: dict[str, Row] = {
    # -- Triton: compiles, launches, tunings
    "triton.compiler.compiler:compile": (
        "Triton's kernels are not recorded", "launches at the driver name them"),
    "triton.compiler.compiler:CompiledKernel": (
        "what the driver says of loaded kernels is not recorded", "ptxas's figures stand for it"),
    "triton.compiler.compiler:CompiledKernel._init_handles": (
        "launches of Triton's kernels are not counted", "ptxas's figures stand for the driver's"),
    "triton.compiler.compiler:CompiledKernel._run": (_LAUNCHES, ""),
    "triton.compiler.compiler:get_cache_manager": ("a compile that fails early has no hash", ""),
    "triton.compiler.compiler:make_backend": ("a compile has no seconds of its stages", ""),
    "triton.runtime.cache:get_cache_manager": (
        "files of kernels from the cache are not recorded",
        "what the compiler holds in memory is kept"),
    "triton.runtime.jit:JITFunction": (
        "kernels that were compiled before a recording began are not recorded", ""),
    "triton.runtime.autotuner:Autotuner": (_TUNINGS, "its compiles are recorded"),
    "triton.runtime.autotuner:Autotuner.prune_configs": (_TUNINGS, "its compiles are recorded"),
    "triton.runtime.autotuner:Autotuner._bench": (_COMPARED, ""),
    "triton.runtime.autotuner:Autotuner.run": (_TUNINGS, "its compiles are recorded"),
    "triton.runtime.autotuner:Autotuner.warmup": (
        "what is compiled ahead by a tuner is told as a tuning", ""),
    # -- torch.compile: graphs
    "torch._inductor.compile_fx:compile_fx": ("Dynamo's nodes are not recorded", ""),
    "torch._inductor.graph:GraphLowering": (_GRAPH_NODES, "texts of torch's trace are kept"),
    "torch._inductor.graph:GraphLowering.codegen": (
        _GRAPH_NODES, "texts of torch's trace are kept"),
    "torch._inductor.graph:GraphLowering.codegen_subgraph": (
        "nodes of graphs within graphs are not recorded", ""),
    "torch._inductor.graph:GraphLowering.run": (_WHY_NOT, "torch's figures of a compile say why"),
    "torch._inductor.graph:GraphLowering.compile_to_module": (
        _WHY_NOT, "torch's figures of a compile say why"),
    "torch._inductor.scheduler:WhyNoFuse.__call__": (
        "why nodes were not fused is not recorded", ""),
    "torch._inductor.debug:log_ir_pre_fusion": (
        "the IR before fusion is not recorded", "", "2.7", ""),
    "torch._inductor.debug:log_ir_post_fusion": (
        "the IR after fusion is not recorded", "", "2.7", ""),
    "torch._inductor.debug:DebugFormatter._write_ir": ("Inductor's IR is not recorded", ""),
    "torch._guards:CompileContext": (
        "a graph's nodes are not tied to its compile", "the order ties them"),
    "torch._guards:TracingContext": (
        "a graph's nodes are not tied to its code", "the order ties them"),
    "torch._logging.structured:INTERN_TABLE": ("some frames of a compile have no file", ""),
    "torch._inductor.output_code:CompiledFxGraph.__call__": (
        "calls of compiled graphs are not recorded", "their kernels' launches are"),
    "torch._inductor.codecache:get_path": (
        "calls of compiled graphs are not tied to their code", "their kernels' launches are"),
    # -- torch.compile: kernels and their tunings
    "torch._inductor.runtime.triton_heuristics:StaticTritonCompileResult.make_launcher": (
        _HITS, "those that are compiled are", "2.8", ""),
    "torch._inductor.runtime.triton_heuristics:TritonCompileResult.make_launcher": (
        _HITS, "those that are compiled are", "2.7", ""),
    "torch._inductor.runtime.triton_heuristics:CachingAutotuner": (_INDUCTOR_TUNINGS, ""),
    "torch._inductor.runtime.triton_heuristics:CachingAutotuner.bench": (_COMPARED, ""),
    "torch._inductor.runtime.triton_heuristics:CachingAutotuner._build_fast_launcher": (
        _LAUNCHES, "", "2.13", ""),
    "torch._inductor.runtime.triton_heuristics:CachingAutotuner.benchmark_all_configs": (
        _INDUCTOR_TUNINGS, ""),
    "torch._inductor.runtime.triton_heuristics:CachingAutotuner.autotune_to_one_config": (
        _INDUCTOR_TUNINGS, ""),
    "torch._inductor.runtime.triton_heuristics:CachingAutotuner.coordinate_descent_tuning": (
        _INDUCTOR_TUNINGS, ""),
    "torch._inductor.runtime.triton_heuristics:CachingAutotuner._combo_sequential_autotune": (
        "how a combined kernel's parts are tuned is not recorded", "", "2.13", ""),
    "torch._inductor.runtime.triton_heuristics:CachingAutotuner.precompile": (
        "configurations are told when they are measured alone", ""),
    "torch._inductor.runtime.triton_heuristics:CachingAutotuner._precompile_config": (
        "why a configuration did not compile is not recorded", ""),
    "torch._inductor.runtime.triton_heuristics:CachingAutotuner.recheck_autotune_cache": (
        "sizes of a tuning from the cache are not recorded", "", "2.8", ""),
    "torch._inductor.runtime.triton_heuristics:AutotuneCache.create": (
        "the file of a tuning from the cache is not recorded", ""),
    "torch._inductor.runtime.triton_heuristics:AutotuneCache.read_best": (
        "tunings from Inductor's cache are not recorded", ""),
    "torch._inductor.runtime.triton_heuristics:cached_autotune": (
        "sizes of a tuning from the cache are not recorded", ""),
    "torch._inductor.runtime.cache_dir_utils:triton_cache_dir": (
        "of kernels loaded from Inductor's own cache no files are recorded",
        "the folder of the kernel's cubin is looked into", "2.7", ""),
    "torch._inductor.runtime.benchmarking:benchmarker": (
        "a tuning does not say what measured it", ""),
    "torch._inductor.select_algorithm:AlgorithmSelectorCache.do_autotuning": (
        _TEMPLATES, "", "2.10", ""),
    "torch._inductor.select_algorithm:AlgorithmSelectorCache.__call__": (_TEMPLATES, ""),
    "torch._inductor.select_algorithm:AlgorithmSelectorCache.lookup": (_TEMPLATES, ""),
    "torch._inductor.select_algorithm:AlgorithmSelectorCache.benchmark_choice": (
        "why a candidate failed is not recorded", "", "2.7", ""),
    "torch._inductor.virtualized:V": (_CHOSEN, ""),
    "torch._inductor.codegen.triton:TritonScheduling.define_kernel": (_CHOSEN, ""),
    "torch._inductor.codegen.triton:TritonScheduling.benchmark_fused_nodes": (_MEASURED, ""),
    "torch._inductor.codegen.triton:TritonScheduling.benchmark_codegened_module": (
        _MEASURED, "", "2.8", ""),
    "torch._inductor.scheduler:Scheduler.compile_kernel": (_MEASURED, "", "2.13", ""),
    # -- extensions
    "torch.utils.cpp_extension:_run_ninja_build": (
        "builds of extensions have no log and no seconds", "their folder is read"),
    "torch.utils.cpp_extension:_jit_compile": (
        "builds of load_inline and load are not recorded", "libraries that are loaded are"),
    "torch.utils.cpp_extension:BuildExtension.build_extensions": (
        "builds by setup.py are not recorded", "libraries that are loaded are"),
    "torch._ops:_Ops.load_library": (
        "libraries of torch.ops.load_library are not recorded", "launches at the driver are"),
    # -- calls and their arguments
    "torch.utils._python_dispatch:_disable_current_modes": (
        "the program's torch modes see operators of ours", ""),
    "torch.autograd:_profiler_enabled": (_RANGES, ""),
    "torch.autograd:_enable_record_function": ("the program's profile shows operators of ours", ""),
    "torch._C:DisableTorchFunction": ("subclasses of tensors see operators of ours", ""),
    # -- profiles
    "torch.autograd.profiler:_prepare_profiler": (_PROFILES, ""),
    "torch.autograd.profiler:_enable_profiler": (_PROFILES, ""),
    "torch.cuda:_lazy_call": (
        "a profile begins again with kernels later, at the first step", ""),
    "torch.cuda:_tls": ("a program that begins to use CUDA is profiled from its next step", ""),
    "torch._dynamo.utils:get_compilation_metrics": ("a profile has no compiles of Dynamo's", ""),
    "torch._dynamo.eval_frame:TorchPatcher.patch": (
        "steps of optimizers that torch.compile patched are not seen", ""),
    "torch.optim.optimizer:Optimizer._patch_step_function": (
        "a profile has no steps of optimizers", "it ends with its time"),
    "triton.profiler.profile:start": ("Proton finds us at CUPTI", ""),
    "jax._src.profiler:start_trace": ("JAX's profiler finds us at CUPTI", ""),
    "jax._src.profiler:start_server": ("JAX's profiler finds us at CUPTI", ""),
    "cupti.cupti:subscribe": ("cupti-python finds us at CUPTI", ""),
    "cupti.cupti:activity_enable": ("cupti-python finds us at CUPTI", ""),
    # -- other makers of kernels
    "torch.cuda._utils:_nvrtc_compile": (
        "sources of torch.cuda._compile_kernel are not recorded", "its modules are", "2.8", ""),
    "torch.cuda._utils:_cuda_load_module": (
        "modules that torch.cuda loads are not recorded", "", "2.8", ""),
    "torch.cuda.jiterator:_JittedFunction.__call__": (_OTHERS, "launches at the driver are"),
    "cupy.cuda.compiler:_compile_module_with_cache": (_OTHERS, "launches at the driver are"),
    "numba.cuda.dispatcher:_Kernel.__init__": (_OTHERS, "launches at the driver are"),
    "numba.cuda.compiler:compile": ("what cuda.compile gives is not recorded", ""),
    "numba.cuda.codegen:CUDACodeLibrary.get_asm_str": (
        "what cuda.compile gives has no LLVM IR", ""),
    "numba.cuda.codegen:CUDACodeLibrary.get_cubin": (
        "numba's kernels have no machine code", "the driver's modules stand for it"),
    "jax._src.compiler:compile_or_get_cached": (_OTHERS, "launches at the driver are"),
    "cuda.bindings.nvrtc:nvrtcCreateProgram": (_OTHERS, "launches at the driver are"),
    "cuda.nvrtc:nvrtcCreateProgram": (_OTHERS, "launches at the driver are"),
    "cuda.core._program:Program": (_OTHERS, "launches at the driver are"),
    "cuda.core.experimental._program:Program": (_OTHERS, "launches at the driver are"),
    "pycuda.compiler:compile": (_OTHERS, "launches at the driver are"),
}  # fmt: skip

_DEVICE = "the emulated device does without it, and what needs it fails"

PARTS: dict[str, tuple[str, ...]] = {
    "target.cuda": (
        "torch.cuda:_initialized", "torch.cuda:_is_in_bad_fork", "torch.cuda:_exchange_device",
        "torch.cuda:_maybe_exchange_device", "torch.cuda:_utils._get_device_index",
        "torch.cuda.graphs:_cuda_isCurrentStreamCapturing", "torch.cuda.nvtx:_nvtx",
        "torch.cuda:_get_pynvml_handler",
    ),
    "target.extension": (
        "torch.utils.cpp_extension:_get_build_directory",
        "torch.utils.cpp_extension:_prepare_ldflags", "torch.utils.cpp_extension:_write_ninja_file",
        "torch.utils.cpp_extension:_jit_compile",
    ),
    "target.driver": (
        "triton.backends.compiler:GPUTarget", "triton.backends.driver:DriverBase",
        "triton.backends:backends",
    ),
    "target.tuning": ("triton.testing:Mark._run", "triton.runtime.autotuner:Autotuner._bench"),
    "target.inductor": (
        "torch._inductor:config", "torch._C._dynamo.guards:_empty_strided_cuda",
        "torch.utils:_triton",
        "torch._functorch:config",
    ),
    "ahead": (
        "triton.compiler:ASTSource", "triton.backends.compiler:GPUTarget",
        "triton.compiler.compiler:make_backend", "triton._C.libtriton:ir",
        "triton._C.libtriton:llvm",
    ),
}  # fmt: skip
"""What parts that are written against a library's insides touch besides, by part."""

MODULES: dict[str, tuple[str, ...]] = {
    "triton.compiler": ("triton.compiler.compiler",),
    "triton.runtime": ("triton.runtime.autotuner", "triton.runtime.jit"),
    "torch._dynamo": ("torch._dynamo.convert_frame",),
    "torch._inductor": (
        "torch._inductor.graph", "torch._inductor.compile_fx", "torch._inductor.scheduler",
        "torch._inductor.debug", "torch._inductor.output_code",
        "torch._inductor.select_algorithm",
    ),
    "torch._inductor.runtime": (
        "torch._inductor.runtime.triton_heuristics", "torch._inductor.runtime.benchmarking",
    ),
}  # fmt: skip
"""Modules that a package must have for probes to be called at all, looked for in its folder."""

_told: set[str] = per_recording(set())
_ABSENT = object()


def get(name: str) -> Any:
    """What a name stands for, its module imported where it is not yet; None where it is missing."""
    module, _, path = name.partition(":")
    value = _reach(module, path)
    if value is not _ABSENT:
        return value
    missing(name)
    return None


def wrap(
    name: str, before: Before | None = None, after: After | None = None, inherited: bool = False
) -> bool:
    """Have a module's or a class's own attribute observed by two hooks (``hooks.observed``).

    False, and told, where it is missing. A static method stays one, a method of a class too.
    ``inherited``: a class may have it from another, and has its own from now on.
    """
    module, _, path = name.partition(":")
    above, _, last = path.rpartition(".")
    value = _reach(module, path)
    owner = _ABSENT if value is _ABSENT else _reach(module, above)
    if owner is not _ABSENT:
        # Of the dictionaries: what an attribute gives is no longer a static or class method.
        owners = getattr(owner, "__mro__", (owner,)) if inherited else (owner,)
        value = next((vars(o)[last] for o in owners if last in vars(o)), _ABSENT)
    if value is _ABSENT or owner is _ABSENT:
        missing(name)
        return False
    kind = type(value) if isinstance(value, staticmethod | classmethod) else None
    made = observed(value if kind is None else value.__func__, before, after)
    setattr(owner, last, made if kind is None else kind(made))
    return True


def missing(name: str) -> None:
    """Tell that a name is missing, unless this version of the library is known to lack it."""
    lost, instead, *versions = NAMES.get(name, (_DEVICE, ""))
    if name in _told or (versions and not _expected(name, *versions)):
        return
    _told.add(name)
    text = f"{_library(name)} has no such name: {lost}"
    problem(name.replace(":", "."), f"{text}; {instead}" if instead else text)


def check(part: str) -> None:
    """Tell what is missing of the names that a part needs, of modules that are imported by now."""
    for name in PARTS[part]:
        module, _, path = name.partition(":")
        if module in sys.modules and _reach(module, path) is _ABSENT:
            missing(name)


def package(module: Any) -> None:
    """Tell which modules of a package are missing that probes wait for."""
    for name in MODULES.get(module.__name__, ()):
        if not _found(name, module):
            _say_module(name)


def _say_module(name: str) -> None:
    if name not in _told:
        _told.add(name)
        problem(name, f"{_library(name)} has no such module: what it does is not recorded")


def _found(name: str, parent: Any) -> bool:
    return name in sys.modules or PathFinder.find_spec(name, parent.__path__) is not None


def _reach(module: str, path: str) -> Any:
    """What stands at a path of a module; ``_ABSENT`` where one of the two is missing."""
    try:
        value: Any = sys.modules.get(module) or importlib.import_module(module)
    except ImportError:
        return _ABSENT
    for step in filter(None, path.split(".")):
        value = getattr(value, step, _ABSENT)
        if value is _ABSENT:
            return _ABSENT
    return value


def _expected(name: str, since: str, until: str) -> bool:
    """Whether the library that is here should have a name."""
    version = _numbers(_version(name))
    if not version:
        return True
    return not (since and version < _numbers(since)) and not (until and version >= _numbers(until))


def _version(name: str) -> str:
    return str(getattr(sys.modules.get(name.partition(".")[0].partition(":")[0]),
                       "__version__", ""))  # fmt: skip


def _library(name: str) -> str:
    return f"{name.partition('.')[0].partition(':')[0]} {_version(name)}".strip()


def _numbers(version: str) -> tuple[int, ...]:
    """``2.13.0+cpu`` as (2, 13)."""
    out = []
    for part in version.split("+")[0].split(".")[:2]:
        if not part.isdecimal():
            break
        out.append(int(part))
    return tuple(out)
