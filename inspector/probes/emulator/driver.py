"""Triton's driver for the emulated device: it loads what the compiler made and runs launches.

Everything above it is Triton's own: specialisation, the compilation with its caches and hooks,
the check of shared memory against the device's, launch hooks. Autotuning and benchmarks measure
nothing: every configuration compiles, and the first one that fits the device runs. Nothing of this
reaches Triton's autotuning cache on disk, where a real device would find it.
"""

import dataclasses
import inspect
import math
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

from ..calls import triton_launches
from ..hooks import observed
from . import current, devices, executor, launch, say, shim
from .launch import BENCHMARKS, Launch, Size, memory_of
from .say import WAITING, unseen

PROPERTIES = {
    "max_shared_mem": "shared_per_block_optin",
    "max_num_regs": "registers_per_sm",
    "multiprocessor_count": "sms",
    "warpSize": "warp_size",
    "sm_clock_rate": "clock_khz",
    "mem_clock_rate": "memory_clock_khz",
    "mem_bus_width": "memory_bus_bits",
}
"""Triton's properties of a device, and the fields of ``devices.find`` that give them."""


class Utils:
    """What Triton asks of the CUDA driver about the device and about binaries."""

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[Any, ...]:
        """Module, function, registers, spilled words (as the driver counts them), threads."""
        kernel_facts = devices.read_binary(kernel, name)
        limits = devices.find(current().target)
        max_threads = limits.max_threads_per_block
        if kernel_facts.registers:
            warps = limits.registers_per_sm // (-(-kernel_facts.registers * 32 // 256) * 256)
            max_threads = min(max_threads, warps // 4 * 4 * 32)
        loaded = (1, 1, kernel_facts.registers, kernel_facts.stack_bytes // 4, max_threads)
        # Triton 3.4 and later want the most threads a block as well.
        kernel_class = sys.modules["triton.compiler.compiler"].CompiledKernel
        handle_names = inspect.unwrap(kernel_class._init_handles).__code__.co_names
        return loaded if "n_max_threads" in handle_names else loaded[:4]

    def unload_module(self, module: Any) -> None:
        """Nothing was loaded."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        limits = devices.find(current().target)
        return {name: getattr(limits, field) or 0 for name, field in PROPERTIES.items()}

    def cuOccupancyMaxActiveClusters(self, *args: Any) -> int:  # noqa: N802  (Triton's name)
        raise NotImplementedError(
            "ptxview: only the CUDA driver of a GPU knows how many clusters it can run at once; "
            "the emulated device has none"
        )

    def set_printf_fifo_size(self, size: int) -> None:
        """What kernels print has no bounds."""


class Launcher:
    """Triton's launcher: called with grid, stream, handles, hooks and arguments of a kernel."""

    def __init__(self, src: Any, metadata: Any) -> None:
        self.src = src
        self.metadata = metadata

    def __call__(
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: Any,
        function: Any,
        packed_metadata: Any,
        launch_metadata: Any,
        enter_hook: Any,
        exit_hook: Any,
        *args: Any,
    ) -> None:
        """Run the grid; raises what a GPU would raise for a pointer that it cannot reach."""
        # Without the shim CPU tensors are all there is.
        for position, value in enumerate(args if shim.loaded() else ()):
            for _, tensor in _tensors_of("", value):
                # A null pointer, of an empty tensor, is valid.
                if tensor.device.type == "cpu" and not tensor.is_pinned() and tensor.data_ptr():
                    raise ValueError(
                        f"Pointer argument (at {position}) cannot be accessed from Triton "
                        "(cpu tensor?)"
                    )
        if enter_hook is not None:
            enter_hook(launch_metadata)
        if not _depth and grid_x * grid_y * grid_z > 0:
            launch.launch(self._launch((int(grid_x), int(grid_y), int(grid_z)), args))
        if exit_hook is not None:
            exit_hook(launch_metadata)

    def _launch(self, grid: Size, args: tuple[Any, ...]) -> Launch:
        metadata = self.metadata
        code = getattr(getattr(getattr(self.src, "fn", None), "fn", None), "__code__", None)
        parameters = triton_launches.parameters_of(self.src)
        fixed = {
            name
            for name, kind, value in parameters
            if kind == "constexpr" or value is not triton_launches.ABSENT
        }
        bound = triton_launches.items(parameters, args)
        passed = {name: (kind, value) for name, kind, value in bound if name not in fixed}
        tensors: dict[str, Any] = {}
        for name, (_, value) in passed.items():
            tensors.update(_tensors_of(name, value))
        text = getattr(self.src, "_ptxview_ptx", "")
        obstacle = ""
        dims = getattr(metadata, "cluster_dims", None) or (1,)
        blocks = max(int(getattr(metadata, "num_ctas", 1) or 1), math.prod(map(int, dims)))
        try:
            arguments = self._lowered_arguments(passed.values())
        except NotImplementedError as error:
            # The addresses among them are those of what the kernel may write.
            arguments = [int(tensor.data_ptr()) for tensor in tensors.values()]
            obstacle = str(error)
        return Launch(
            text=text,
            entry=str(metadata.name),
            name=str(metadata.name),
            grid=grid,
            block=None if ".reqntid" in text else (32 * int(metadata.num_warps), 1, 1),
            shared=int(getattr(metadata, "shared", 0) or 0),
            arguments=arguments,
            memory=lambda: {name: memory_of(tensor) for name, tensor in tensors.items()},
            host=_host_memory(tensors.values()),
            scratch=(_scratch(metadata, "global", grid), _scratch(metadata, "profile", grid)),
            cluster=(blocks, 1, 1) if blocks > 1 else None,
            unit="program",
            file=str(getattr(code, "co_filename", "")),
            obstacle=obstacle,
        )

    def _lowered_arguments(self, passed: Iterable[tuple[Any, Any]]) -> list[Any]:
        """The values of the kernel's parameters, by type and value of each argument.

        Raises NotImplementedError where it is not known how the compiler lowers one.
        """
        described = iter(getattr(self.metadata, "tensordesc_meta", None) or ())
        arguments: list[Any] = []
        for kind, value in passed:
            arguments += _flat(kind, value, described)
        return arguments


def _host_memory(tensors: Iterable[Any]) -> frozenset[tuple[int, int]]:
    """The pieces of host memory that contain tensors, rather than device memory."""
    pieces: set[tuple[int, int]] = set()
    for tensor in tensors:
        storage = tensor.untyped_storage()
        first = int(storage.data_ptr())
        nbytes = int(storage.nbytes())
        if nbytes and shim.memory_around(first) is None:
            pieces.add((first, first + nbytes))
    return frozenset(pieces)


def _scratch(metadata: Any, kind: str, grid: Size) -> tuple[int, int]:
    """Size and alignment of the buffer of one kind that all blocks of a grid share."""
    program_bytes = int(getattr(metadata, f"{kind}_scratch_size", 0) or 0)
    alignment = int(getattr(metadata, f"{kind}_scratch_align", 1) or 1)
    return program_bytes * math.prod(grid), alignment


def _tensors_of(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The tensors in one argument, as errors name them: ``pair[1]`` in a tuple.

    Descriptors and wrappers of a tensor have it as ``base``.
    """
    import torch

    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (tuple, list)):
        for index, part in enumerate(value):
            yield from _tensors_of(f"{name}[{index}]", part)
    elif hasattr(value, "base") and (hasattr(value, "data_ptr") or hasattr(value, "block_shape")):
        yield from _tensors_of(name, value.base)


# -- arguments as the compiler lowers them ------------


def _flat(kind: Any, value: Any, described: Iterator[Any]) -> list[Any]:
    """An argument as the values of its parameters; raises NotImplementedError."""
    if kind == "constexpr":
        return []
    if isinstance(value, (tuple, list)):
        kinds = kind if isinstance(kind, (tuple, list)) else [None] * len(value)
        pairs = zip(kinds, value, strict=True)
        return [
            part
            for element_kind, element in pairs
            for part in _flat(element_kind, element, described)
        ]
    if hasattr(value, "block_shape"):
        return [_packed(None, part) for part in _descriptor(value, next(described, None))]
    return [_packed(kind, value)]


def _descriptor(value: Any, lowered: Any) -> list[Any]:
    """A tensor descriptor: a tensor map if the target has them, else its parts."""
    shape = [int(n) for n in value.shape]
    strides = [int(n) for n in value.strides]
    if not lowered:
        from triton.backends import driver, nvidia

        split = getattr(driver, "decompose_descriptor", None)
        split = split or getattr(nvidia.driver, "decompose_descriptor", None)
        if split is None:
            raise NotImplementedError("how a tensor descriptor is lowered is not known")
        parts = list(split(value))
        # Later versions pass shape and strides twice, for the code after the descriptor's.
        return parts if parts[-len(strides) :] == strides else [*parts, *shape, *strides]
    if lowered.get("is_im2col"):
        raise NotImplementedError("it uses a tensor map of im2col")
    size = int(lowered["elem_size"])
    dimensions = shape[::-1]
    if lowered.get("fp4_padded"):  # two elements a byte
        dimensions[0] *= 2
    element = 11 if getattr(value, "round_f32_to_tf32", False) else int(lowered["elem_type"])
    tensor_map = executor.load("execute").TensorMap(
        int(value.base.data_ptr()),
        tuple(dimensions),
        tuple(step * size for step in reversed(strides[:-1])),
        tuple(int(n) for n in reversed(lowered["block_size"])),
        element,
        int(lowered["swizzle"]),
        int(getattr(value, "padding", "zero") == "nan"),
    )
    return [tensor_map.encode(), *shape, *strides]


def _packed(kind: Any, value: Any) -> Any:
    """A value as its parameter's; floats as the bytes that Triton's launcher gives."""
    if hasattr(value, "data_ptr"):
        return int(value.data_ptr())
    if value is None:
        return 0
    if isinstance(value, bytes):
        return value
    if kind in ("bf16", "fp16", "fp32", "f32", "fp64"):
        packed = struct.pack({"fp16": "<e", "fp64": "<d"}.get(kind, "<f"), float(value))
        return packed[2:] if kind == "bf16" else packed
    return value if isinstance(value, float) else int(value)


def attach_compiler(compiler: Any) -> None:
    """Let a compiled kernel's source keep the PTX that is run."""
    kernel = compiler.CompiledKernel
    original = kernel.__init__

    def init(self: Any, src: Any, metadata_group: Any, *args: Any, **kwargs: Any) -> None:
        original(self, src, metadata_group, *args, **kwargs)
        with suppress(AttributeError):
            src._ptxview_ptx = str(self.asm.get("ptx", ""))

    kernel.__init__ = init

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExitStack:
        name = getattr(args[0] if args else kwargs.get("src"), "name", None)
        waiting = ExitStack()
        waiting.enter_context(WAITING.on("kernels compiled", str(name or "a kernel")))
        return waiting

    compiler.compile = observed(compiler.compile, begin, lambda waiting, *ended: waiting.close())


class CublasLt:
    """Triton's binding of cuBLAS, as its tutorials use it: torch computes the products."""

    def __init__(self, workspace: Any) -> None:
        say.once(
            "no-cublas",
            "there is no cuBLAS here: what a program asks of Triton's CublasLt is computed by "
            "torch, on this machine's processor",
        )

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        """C = A Bᵀ, summed in fp32."""
        c.copy_(a.float() @ b.float().T)

    def gemm(self, a: Any, b: Any, c: Any, d: Any, alpha: float, beta: float) -> None:
        """D = alpha A Bᵀ + beta C, summed in fp32."""
        d.copy_(alpha * (a.float() @ b.float().T) + beta * c.float())


def attach(module: Any) -> None:
    """Make ours the NVIDIA backend's driver; called right after triton.runtime.driver has run.

    The table of backends changes as well as the active driver: Inductor and
    ``driver.reset_active`` make a new one from it.
    """
    backends = sys.modules["triton.backends"].backends

    class Driver(backends["nvidia"].driver):  # type: ignore[misc]
        """The only driver of the process; ``triton.runtime.driver.active``."""

        def __init__(self) -> None:
            self.utils = Utils()
            self.launcher_cls = Launcher
            self.get_current_device = shim.device
            self.set_current_device = shim.set_device
            self.get_current_stream = lambda index=0: shim.stream(index or 0)
            self.get_device_capability = lambda index=0: current().capability

        @staticmethod
        def is_active() -> bool:
            return True

        def get_active_torch_device(self) -> Any:
            import torch

            return torch.device("cuda", shim.device()) if shim.loaded() else torch.device("cpu")

        def get_empty_cache_for_benchmark(self) -> Any:
            import torch

            return torch.empty(0, dtype=torch.int)

    backends["nvidia"] = dataclasses.replace(backends["nvidia"], driver=Driver)
    module.driver.set_active(Driver())
    if shim.loaded():
        from triton._C.libtriton import nvidia

        nvidia.cublas.CublasLt = CublasLt


# -- autotuning and benchmarks --------------------------------------------------------------------


class NotMeasured(float):
    """NaN that loses to no time but infinity: a configuration that failed is never kept."""

    def __lt__(self, other: object) -> bool:
        return other == float("inf")

    def __gt__(self, other: object) -> bool:
        return False


NAN = NotMeasured("nan")
_depth = 0  # launches compile and do not run while candidates are tried


def no_times(quantiles: Any = None, return_mode: str = "mean") -> Any:
    """The result of a benchmark in the requested shape: NaN."""
    say.once(
        "no-benchmarks",
        "there is no GPU here, so benchmarks measure nothing: their times are NaN, and autotuning "
        "compiles every configuration and runs the first that fits",
    )
    if quantiles is not None and len(quantiles) > 1:
        return [NAN] * len(quantiles)
    return [] if return_mode == "all" and quantiles is None else NAN


@unseen
def do_bench(
    fn: Callable[[], Any],
    *args: Any,
    quantiles: Any = None,
    return_mode: str = "mean",
    **ignored: Any,
) -> Any:
    """``triton.testing.do_bench``: calls ``fn`` once, so that it compiles and writes, no more."""
    with BENCHMARKS.running():
        fn()
    return no_times(quantiles, return_mode)


def attach_testing(module: Any) -> None:
    """Replace what measures in triton.testing."""
    for name in ("", "_cudagraph", "_proton", "_cudagraph_proton"):
        if hasattr(module, f"do_bench{name}"):
            setattr(module, f"do_bench{name}", do_bench)
    # perf_report runs functions for their times alone.
    module.Mark._run = BENCHMARKS.running()(module.Mark._run)


def attach_tuning(module: Any) -> None:
    """Replace what measures in triton.runtime.autotuner."""
    tuner = module.Autotuner
    original = tuner._bench

    @unseen
    def bench(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
        global _depth
        _depth += 1
        try:
            measured = original(self, *args, config=config, **meta)
        finally:
            _depth -= 1
        times = measured if isinstance(measured, (list, tuple)) else [measured]
        return measured if float("inf") in times else no_times((0.5, 0.2, 0.8))

    def check_disk_cache(self: Any, key: Any, configs: Any, bench_fn: Callable[[], None]) -> bool:
        bench_fn()
        return False

    tuner._bench = bench
    tuner.check_disk_cache = check_disk_cache
