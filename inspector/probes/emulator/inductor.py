"""torch.compile: Inductor compiles each graph for the target; the graph's values come op by op.

The code that Inductor generates is real and is kept in its caches as on a GPU, under keys of this
device's own name. It is run with ``--values ptx``, its kernels by their PTX; else the same graph
runs operator by operator instead.
"""

import contextlib
import copy
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from .. import private_names
from ..calls import graphs as calls_torch
from ..hooks import guarded
from . import assertions, current, driver, say, shim

_FOR_CUDA = re.compile(r"-D\s{0,4}USE_CUDA\b|-ltorch_cuda\b")


def attach_compilation(compile_fx: Any) -> None:
    """Let compile_fx hand each graph with CUDA in it to us."""
    import torch
    import torch._functorch.config as functorch
    from torch._inductor import config
    from torch.utils import _triton

    original = compile_fx.compile_fx
    inner = compile_fx.compile_fx_inner

    def captured(gm: Any, example_inputs: Any, **kwargs: Any) -> Any:
        if not _on_cuda(gm, example_inputs):
            return inner(gm, example_inputs, **kwargs)
        return _compile(inner, gm, example_inputs, kwargs)

    def compile_graph(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not args:
            kwargs.setdefault("inner_compile", captured)
        tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
        on_cuda = not tensors or any(x.is_cuda for x in tensors)
        # AOTAutograd's cache keeps Inductor's callable, which launches kernels: not for CUDA
        # graphs. Inductor's own caches of code and kernels stay on.
        cached = functorch.patch(enable_autograd_cache=False)
        with cached if on_cuda else contextlib.nullcontext():
            return original(model, inputs, *args, **kwargs)

    compile_fx.compile_fx = compile_graph
    compile_fx.cudagraphify = _uncaptured
    # With every option given: of one that is not, Triton 3.9 warns, also where a program compiles
    # nothing for a GPU.
    libraries_key = getattr(_triton, "_extern_libs_key", None)
    if libraries_key is not None:
        _triton._extern_libs_key = lambda backend: libraries_key(
            SimpleNamespace(
                parse_options=lambda options: backend.parse_options(
                    {"enable_fp_fusion": True, **options}
                )
            )
        )
    # Inductor's own launcher is given machine code alone, without arguments' types.
    for name in ("use_static_cuda_launcher", "use_static_triton_launcher"):
        _force(config, name, False)
    if current().kernels:
        # Memory for generated code that runs as it is: Triton launches its kernels.
        torch._C._dynamo.guards._empty_strided_cuda = lambda size, stride, dtype: (
            torch.empty_strided(size, stride, dtype=dtype, device="cuda")
        )


def _force(config: Any, name: str, value: bool) -> None:
    """Give an option of a torch configuration this value in every thread, if it exists.

    An assignment holds in its own thread alone since torch 2.13; a value that is forced from the
    environment holds everywhere, and before what a program assigns.
    """
    option = getattr(config, "_config", {}).get(name)
    if option is not None:
        option.env_value_force = value


def _compile(inner: Any, gm: Any, example_inputs: Any, kwargs: dict[str, Any]) -> Any:
    """Compile one graph for its code; what it returns runs that, or the graph's operators."""

    from torch._inductor import config

    values = values_of(gm)
    # Said where code comes from the cache, too: it was chosen just so when it was made.
    if getattr(config, "max_autotune", False) or getattr(config, "max_autotune_gemm", False):
        say.once(
            "no-selection",
            "there is no GPU here, so max-autotune compiles every candidate and measures none: "
            "the one in the generated code is the first, not a winner",
        )
    try:
        compiled = inner(gm, example_inputs, **kwargs)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
        if lines[0].endswith(":") and "^" in lines[:-1]:  # Triton quotes the source before it
            lines = lines[lines.index("^") + 1 :]
        text = f"{type(error).__name__}: {lines[0]}"[:300]
        say.once(
            f"inductor:{hash(text)}",
            f"Inductor could not generate code for a graph ({text}); the program goes on with the "
            "graph's own operators",
            "a graph that Inductor could not generate code for was run by its own operators",
        )
        return values
    guarded(assertions.note_graph)(gm.graph, compiled)
    if not current().kernels:
        return guarded(calls_torch.watched_graph)(values, compiled) or values
    return compiled


def _uncaptured(model: Any, *args: Any, **kwargs: Any) -> Any:
    """A graph's code as it is: torch has found that a CUDA graph could be made of it."""
    say.once(
        "no-cudagraphs",
        "there is no GPU here, so torch.compile's graphs run without CUDA graphs "
        '(mode="reduce-overhead" or triton.cudagraphs)',
    )
    return model


def attach_builds(cpp_builder: Any) -> None:
    """Refuse C++ that is to be linked with CUDA's torch before a compiler is started."""
    original = cpp_builder.CppBuilder.build

    def build(self: Any, *args: Any, **kwargs: Any) -> Any:
        arguments = (value for value in vars(self).values() if isinstance(value, str))
        if any(_FOR_CUDA.search(text) for text in arguments):
            raise NotImplementedError(
                "ptxview: AOTInductor's and cpp_wrapper's C++ cannot be linked for ptxview's "
                "emulated device: there is no libcuda and no libtorch_cuda. The recording has the "
                "generated C++ and its kernels; build it on a machine with a GPU, or package the "
                'source alone with inductor_configs={"aot_inductor.package_cpp_only": True}'
            )
        return original(self, *args, **kwargs)

    cpp_builder.CppBuilder.build = build


def _on_cuda(gm: Any, example_inputs: Any) -> bool:
    import torch

    devices = (node.kwargs.get("device") for node in gm.graph.nodes)
    values = (node.meta.get("val") for node in gm.graph.nodes)
    return any(
        isinstance(value, torch.Tensor) and value.is_cuda for value in (*example_inputs, *values)
    ) or any(torch.device(d).type == "cuda" for d in devices if d is not None)


def attach_selection(module: Any) -> None:
    """max-autotune: compile every candidate, measure none, and take the first."""
    cache = module.AlgorithmSelectorCache

    def do_autotuning(
        self: Any,
        name: str,
        input_nodes: Any,
        layout: Any,
        input_gen_fns: Any,
        inputs_key: Any,
        choices: Any,
        precompile_fn: Any,
        *args: Any,
        **kwargs: Any,
    ) -> dict[Any, float]:
        precompile_fn()
        able = [c for c in choices if not getattr(c, "failed", False) and _compiles(c)]
        extern = [c for c in able if isinstance(c, module.ExternKernelCaller)]
        templates = [c for c in able if c not in extern]
        if not able:
            raise module.NoValidChoicesError(f"no candidate for {name} compiles")
        return dict.fromkeys([*templates, *extern], driver.NAN)

    if hasattr(cache, "do_autotuning"):
        cache.do_autotuning = do_autotuning
        return
    # Before torch 2.9 it is a closure, which precompiles and then looks the times up: with none,
    # the first candidate is taken.
    select = cache.__call__
    cache.__call__ = lambda self, *args, **kwargs: select(
        self, *args, **{**kwargs, "return_multi_template": False}
    )
    cache.lookup = _no_times


def _compiles(choice: Any) -> bool:
    """Compile one candidate: on Python 3.11.8 and before, Inductor leaves it to the benchmark."""
    with contextlib.suppress(Exception):
        if hasattr(choice, "precompile"):
            choice.precompile()
        return True
    return False


def _no_times(
    self: Any, choices: Any, op: Any, inputs: Any, benchmark: Any, **kwargs: Any
) -> dict[Any, float]:
    """``lookup`` of Inductor's table of times: nothing is in it, nothing goes into it."""
    if benchmark is not None:
        for choice in choices:
            _compiles(choice)
    return {}


def attach_benchmarks(module: Any) -> None:
    """Inductor's benchmarks of fusions and configurations run nothing and return NaN."""

    replaced = {
        "benchmark_gpu": lambda self, *args, **kwargs: driver.NAN,
        "benchmark_gpu_with_cuda_graph": lambda self, *args, **kwargs: driver.NAN,
        "benchmark_many_gpu": lambda self, calls, *args, **kwargs: [driver.NAN] * len(calls),
    }
    for owner in vars(module).values():
        if isinstance(owner, type) and owner.__module__ == module.__name__:
            for name, function in replaced.items():
                if name in vars(owner):
                    setattr(owner, name, function)


def _write_no_times(path: Any, *args: Any, **kwargs: Any) -> Any:
    """``write_atomic`` of generated code's modules for all files but those of a kernel's time."""
    write = private_names.get("torch._inductor.codecache:write_atomic")
    return None if str(path).endswith(".kernel_perf") else write(path, *args, **kwargs)


CACHES: dict[str, dict[str, Any]] = {
    "torch._inductor.runtime.autotune_cache": {
        "AutotuneCache.create": staticmethod(lambda *args, **kwargs: None)
    },
    "torch._inductor.codecache": {
        "CacheBase.get_local_cache": lambda self: {},
        "CacheBase.update_local_cache": lambda self, local_cache: None,
    },
    "torch._inductor.codegen.triton": {"write_atomic": _write_no_times},
    "torch._inductor.codegen.multi_kernel": {
        "MultiKernelCall.load_cache": lambda self: None,
        "MultiKernelCall.store_cache": lambda self: None,
    },
}
"""What Inductor keeps of its measurements, by module: nothing is read from it or goes into it, for
a GPU would believe a winner among configurations that all took NaN. Caches of what was compiled
stay on, under keys of this device's own name."""


def attach_caches(module: Any) -> None:
    """Have one of Inductor's modules keep nothing that was chosen without a measurement."""
    for name, replacement in CACHES[module.__name__].items():
        owner_path, _, attribute = name.rpartition(".")
        owner = getattr(module, owner_path, None) if owner_path else module
        if hasattr(owner, attribute):
            setattr(owner, attribute, replacement)
        else:
            private_names.missing(f"{module.__name__}:{name}")


def values_of(gm: Any) -> Callable[..., Any]:
    """A stand-in for the compiled graph: called as Inductor's own callable is, with a list."""
    import torch

    # Inductor rewrites the graph that it is given: this is a copy over the same attributes.
    graph = copy.deepcopy(gm.graph)
    replaced = _seeded(torch)
    for node in graph.nodes:
        if node.op == "call_function" and node.target in replaced:
            node.target = replaced[node.target]
    module = torch.fx.GraphModule(gm, graph)

    def call(inputs: Any, *ignored: Any) -> Any:
        values = list(inputs)
        if isinstance(inputs, list):  # the caller gives its references up, as it does to Inductor
            inputs.clear()
        with torch.no_grad():
            return module(*values)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _seeded(torch: Any) -> dict[Any, Any]:
    """Inductor's random prims as functions of their seed.

    The forward and the backward graph each draw from the same seed and must get the same numbers;
    the prims' own eager implementations ignore it.
    """
    prims = torch.ops.prims

    def drawn(draw: Callable[..., Any], seed: Any, *args: Any, **kwargs: Any) -> Any:
        why = shim.absence_at(seed.data_ptr())
        generator = torch.Generator(device=seed.device)
        if not why:
            generator.manual_seed(int(seed.item()))
        tensor = draw(*args, device=seed.device, generator=generator, **kwargs)
        if why:
            shim.mark_absent_at(tensor.data_ptr(), why)
        return tensor

    def random(size: Any, seed: Any, mode: str, *, align_dtype: Any = None, **ignored: Any) -> Any:
        return drawn(getattr(torch, mode), seed, size, dtype=torch.float32)

    def randint(low: int, high: int, size: Any, seed: Any) -> Any:
        return drawn(torch.randint, seed, low, high, size)

    def lookup_seed(seeds: Any, index: int) -> Any:
        return seeds[index].clone()  # torch 2.6's own returns a view, and refuses it

    seeded = {"random": random, "randint": randint, "lookup_seed": lookup_seed}
    return {
        getattr(prims, f"inductor_{name}").default: function
        for name, function in seeded.items()
        if hasattr(prims, f"inductor_{name}")
    }
