"""torch.cuda on the emulated device: the functions of ``torch._C`` that a CPU build lacks.

torch.cuda's own Python stays as it is wherever it only calls down; what it calls is supplied
here, with real answers (current device, streams, bytes held) or with none.
"""

import ctypes
import functools
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from . import current, devices, extension, lacking, say, shim

CUDA = 1  # DeviceType::CUDA


def attach_streams(torch: Any) -> None:
    """Replace the dummy classes Stream, ExternalStream and Event of a CPU build."""

    def index_of(device: Any) -> int:
        return int(torch.cuda._utils._get_device_index(device, optional=True))

    class Stream(torch.Stream):
        """A stream of the emulated device."""

        def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Any:
            if not kwargs:
                kwargs = {"device": torch.device("cuda", index_of(device)), "priority": priority}
            return super().__new__(cls, **kwargs)

        priority = 0

        @staticmethod
        def priority_range() -> tuple[int, int]:
            return 0, -5

        @property
        def cuda_stream(self) -> int:
            return int(self.stream_id)

        @property
        def _as_parameter_(self) -> Any:
            return ctypes.c_void_p(self.cuda_stream)

        def record_event(self, event: Any = None) -> Any:
            event = Event() if event is None else event
            event.record(self)
            return event

    class ExternalStream(Stream):
        """A stream made elsewhere, known by its pointer."""

        def __new__(cls, stream_ptr: int, device: Any = None, **kwargs: Any) -> Any:
            return super().__new__(cls, stream_id=stream_ptr, device_index=index_of(device))

    class Event(torch.Event):
        """An event of the emulated device; its times are NaN."""

        def __new__(
            cls,
            enable_timing: bool = False,
            blocking: bool = False,
            interprocess: bool = False,
            external: bool = False,
        ) -> Any:
            event = super().__new__(cls, torch.device("cuda"), enable_timing=enable_timing)
            event._timed = enable_timing
            return event

        ipc_handle = from_ipc_handle = lacking.refusal("events that processes share (CUDA IPC)")

        @property
        def cuda_event(self) -> int:
            return int(self.event_id)

        def elapsed_time(self, end_event: Any) -> float:
            if not (self._timed and end_event._timed):
                raise ValueError("Both events must be created with argument 'enable_timing=True'.")
            if not (self.cuda_event and end_event.cuda_event):
                raise ValueError("Both events must be recorded before calculating elapsed time.")
            say.once(
                "no-times",
                "there is no GPU here, so CUDA times are NaN: kernels are compiled for the target "
                "and their values computed on the CPU, and nothing is measured",
            )
            return float("nan")

    for kind in (Stream, ExternalStream, Event):
        kind.__module__ = "torch.cuda"
        kind.__qualname__ = kind.__name__
        setattr(torch.cuda, kind.__name__, kind)
        setattr(torch.cuda.streams, kind.__name__, kind)


PROPERTIES = {
    "gcnArchName": "name",
    "warp_size": "warp_size",
    "regs_per_multiprocessor": "registers_per_sm",
    "max_threads_per_multi_processor": "max_threads_per_sm",
    "max_threads_per_block": "max_threads_per_block",
    "shared_memory_per_block": "shared_per_block",
    "shared_memory_per_block_optin": "shared_per_block_optin",
    "shared_memory_per_multiprocessor": "shared_per_sm",
    "L2_cache_size": "l2_bytes",
    "memory_bus_width": "memory_bus_bits",
    "clock_rate": "clock_khz",
    "memory_clock_rate": "memory_clock_khz",
}
"""torch's properties of a device, and the fields of ``devices.Device`` that give them."""


class DeviceProperties:
    """The result of ``torch.cuda.get_device_properties``: the limits of the target's device."""

    is_integrated = is_multi_gpu_board = pci_device_id = pci_domain_id = 0

    def __init__(self, device: Any, capability: tuple[int, int], index: int) -> None:
        for name, field in PROPERTIES.items():
            setattr(self, name, getattr(device, field) or 0)
        self.total_memory = device.memory_bytes
        self.multi_processor_count = device.sms
        self.name, (self.major, self.minor) = device.name, capability
        self.pci_bus_id = index
        self.uuid = f"00000000-0000-0000-0000-{index:012d}"

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB, "
            f"multi_processor_count={self.multi_processor_count})"
        )


@functools.cache
def properties(index: int = 0) -> DeviceProperties:
    """One device's properties; the same object each time."""
    settings = current()
    if not 0 <= index < settings.devices:
        raise IndexError(f"there are {settings.devices} devices")
    return DeviceProperties(devices.find(settings.target), settings.capability, index)


def toolkit_version() -> str | None:
    """The version of the CUDA headers at hand (nvcc's, else Triton's), as ``13.0``."""
    candidates = [
        *(Path(home, "include/cuda.h") for home in extension.homes()),
        *(Path(folder, "triton/backends/nvidia/include/cuda.h") for folder in sys.path),
    ]
    for header in filter(Path.is_file, candidates):
        version = re.search(r"#define CUDA_VERSION (\d+)", header.read_text(errors="replace"))
        if version:
            return f"{int(version[1]) // 1000}.{int(version[1]) % 1000 // 10}"
    return None


def attach(torch: Any) -> None:
    """Give torch its CUDA device; called right after ``import torch``."""
    low = torch._C
    # What torch asks for at the first use: what fails here leaves torch without the device.
    properties()
    supplied: dict[str, Any] = {
        **{name: _constant(answer) for name, answer in CONSTANT_ANSWERS.items()},
        **_device_functions(torch),
        **_stream_functions(),
        **_memory_functions(),
        **lacking.communication(torch),
    }
    vars(low).update(supplied)
    vars(low).update(_accelerator_functions(low, supplied))
    _supply_missing(low)
    low._has_cuda = True
    if torch.version.cuda is None:
        torch.version.cuda = toolkit_version()
    _replace_in_torch_cuda(torch)
    attach_streams(torch)
    _let_storages_be_made(torch)
    lacking.legacy_types(torch)
    lacking.refuse_remaining(torch)
    # cuDNN has no kernels here: the native paths run.
    torch.backends.cudnn.is_acceptable = _named(lambda tensor: False, "is_acceptable")
    _profile_the_cpu(torch)
    _make_generators(torch)
    _refuse_graphs(torch)
    names = "rangePushA rangePop rangeStartA rangeEnd markA deviceRangeStart deviceRangeEnd"
    torch.cuda.nvtx._nvtx = SimpleNamespace(**dict.fromkeys(names.split(), lambda *args: 0))


CONSTANT_ANSWERS: dict[str, Any] = {
    "_cuda_synchronize": None,
    "_cuda_ipc_collect": None,
    "_cuda_getCompiledVersion": 0,
    "_cuda_canDeviceAccessPeer": True,
    "_cuda_get_sync_debug_mode": 0,
    "_cuda_set_sync_debug_mode": None,
    "_cuda_sleep": None,
    "_cuda_isCurrentStreamCapturing": False,
    "_host_emptyCache": None,
    "_cuda_isHistoryEnabled": False,
    "_cuda_tunableop_is_enabled": False,
    "_cuda_tunableop_tuning_is_enabled": False,
    "_cuda_record_untuned_is_enabled": False,
    "_cuda_resetAccumulatedMemoryStats": None,
    "_cuda_emptyCache": None,
    # Inductor makes CUDA graphs only with it.
    "_cuda_cudaCachingAllocator_is_enabled": True,
    "_cuda_getAllocatorBackend": "native",
    "_cuda_clearCublasWorkspaces": None,
}
"""Functions of ``torch._C`` that give the same answer to any arguments."""


def _constant(answer: Any) -> Callable[..., Any]:
    """A new function that gives this answer, since Dynamo has a handler for each."""
    return lambda *args, **kwargs: answer


def _device_functions(torch: Any) -> dict[str, Any]:
    """The functions of ``torch._C`` about devices."""
    settings = current()
    generators = tuple(
        torch.ops.ptxview_target.default_generator(i) for i in range(settings.devices)
    )

    def set_device(index: int) -> None:
        if not 0 <= index < settings.devices:
            kind = getattr(torch, "AcceleratorError", RuntimeError)
            raise kind("CUDA error: invalid device ordinal")
        shim.set_device(index)

    def exchange_device(index: int) -> int:
        if index < 0:
            return -1
        old = shim.device()
        set_device(index)
        return old

    def init() -> None:
        torch.cuda.default_generators = generators
        torch.cuda._get_device_properties = properties

    bad_forks = _watch_forks(torch)
    return {
        "_cuda_init": init,
        "_cuda_getDeviceCount": lambda: settings.devices,
        "_cuda_getDevice": shim.device,
        "_cuda_setDevice": set_device,
        "_cuda_exchangeDevice": exchange_device,
        # Not the same object: Dynamo has a handler for each.
        "_cuda_maybeExchangeDevice": lambda index: exchange_device(index),
        "_cuda_isInBadFork": lambda: bool(bad_forks),
        "_cuda_getArchFlags": lambda: settings.target,
        "_cuda_hasPrimaryContext": lambda device: bool(torch.cuda._initialized),
    }


def _stream_functions() -> dict[str, Any]:
    """The functions of ``torch._C`` about streams, which are numbers without an effect."""

    def set_stream(stream_id: int, device_index: int, device_type: int = CUDA) -> None:
        shim.library.ptxview_set_stream(device_index, stream_id)
        shim.set_device(device_index)

    return {
        "_cuda_getCurrentStream": lambda index: (shim.stream(index), index, CUDA),
        "_cuda_getDefaultStream": lambda index: (0, index, CUDA),
        "_cuda_getStreamFromExternal": lambda pointer, index: (pointer, index, CUDA),
        "_cuda_setStream": set_stream,
        "_cuda_getCurrentRawStream": shim.stream,
    }


def _watch_forks(torch: Any) -> list[bool]:
    """A list that is empty except in a child that was forked when CUDA had been initialised.

    CUDA cannot be used there.
    """
    bad_forks: list[bool] = []

    def in_child() -> None:
        if torch.cuda._initialized:
            bad_forks.append(True)
            # The next CUDA tensor asks torch.cuda again, as torch's own handler has it do.
            library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_python.so"))
            name = "_ZN5torch5utils24set_requires_device_initEN3c1010DeviceTypeEb"
            if hasattr(library, name):
                library[name](ctypes.c_int8(CUDA), ctypes.c_bool(True))

    os.register_at_fork(after_in_child=in_child)
    return bad_forks


def _supply_missing(low: Any) -> None:
    """Supply what torch's Python imports from ``torch._C`` of a CUDA build, unless it is there."""
    for name, value in {
        # Inductor's module of CUDA graphs imports these two once CUDA is said to be built.
        "_cuda_CUDAAllocator_AllocatorState": type("AllocatorState", (), {}),
        "_set_cached_tensors_enabled": lambda enabled: None,
        "_cuda_jiterator_compile_and_launch_kernel": say.refusing(
            NotImplementedError,
            lacking.LACKED.format("jiterator: no NVRTC would compile its kernel"),
        ),
    }.items():
        vars(low).setdefault(name, value)


def _replace_in_torch_cuda(torch: Any) -> None:
    """Replace the functions of torch.cuda that do not only call down."""
    low = torch._C
    settings = current()
    replaced: dict[str, Any] = {
        "_is_in_bad_fork": low._cuda_isInBadFork,
        "_exchange_device": low._cuda_exchangeDevice,
        "_maybe_exchange_device": low._cuda_maybeExchangeDevice,
        "_cudart": _runtime_library(),
        "_get_pynvml_handler": say.refusing(
            ModuleNotFoundError,
            lacking.LACKED.format("NVML, which measures a GPU's load, clocks and temperature"),
        ),
        # The original asks NVML first, which would count the machine's own.
        "device_count": _named(lambda: settings.devices, "device_count"),
        "CUDAGraph": NoGraph,
    }
    vars(torch.cuda).update(replaced)


def _refuse_graphs(torch: Any) -> None:
    """Have torch's names of CUDA graphs refuse; streams are never captured."""
    torch.cuda.graphs._cuda_isCurrentStreamCapturing = lambda: False
    torch.cuda.graphs.CUDAGraph = NoGraph
    for module in (
        getattr(torch, "accelerator", None),
        sys.modules.get("torch.accelerator.graphs"),
    ):
        if hasattr(module, "Graph"):
            setattr(module, "Graph", NoGraph)  # noqa: B010


def _profile_the_cpu(torch: Any) -> None:
    """Let the profiler find no CUDA: it says so itself, and shows the CPU's times alone."""
    profile = torch.autograd.profiler.profile
    original = profile.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        is_available = torch.cuda.is_available
        torch.cuda.is_available = lambda: False
        try:
            original(self, *args, **kwargs)
        finally:
            torch.cuda.is_available = is_available

    profile.__init__ = init


def _make_generators(torch: Any) -> None:
    """``torch.Generator("cuda")``: torch 2.6's CUDA build makes the real one itself."""
    real = torch._C.Generator
    with suppress(RuntimeError):
        real(device="cuda")
        return

    class GeneratorType(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, real)

        def __call__(cls, device: Any = "cpu") -> Any:
            requested = torch.device(device)
            if requested.type != "cuda":
                return real(device=requested)
            index = torch.cuda.current_device() if requested.index is None else requested.index
            return torch.ops.ptxview_target.new_generator(index)

    torch.Generator = GeneratorType("Generator", (), {})


def _named(function: Any, name: str) -> Any:
    function.__name__ = function.__qualname__ = name
    return function


# -- what programs reach of CUDA through torch --------------------------------------------------


def memory_info(index: int = 0) -> tuple[int, int]:
    """Free and total bytes of a device."""
    total = properties(index).total_memory
    return max(0, total - held_bytes(index)), total


def _runtime_library() -> SimpleNamespace:
    """The part of the CUDA runtime that programs reach through ``torch.cuda.cudart()``."""

    return SimpleNamespace(
        cudaError=SimpleNamespace(success=0),
        cudaGetErrorString=lambda code: f"CUDA error {code}",
        cudaMemGetInfo=memory_info,
        cudaProfilerStart=lambda: 0,
        cudaProfilerStop=lambda: 0,
        cudaDeviceSynchronize=lambda: 0,
        cudaHostRegister=lambda pointer, size, flags: 0,
        cudaHostUnregister=lambda pointer: 0,
    )


class NoGraph:
    """CUDA graphs record what a GPU runs."""

    __init__ = say.refusing(
        NotImplementedError,
        "the emulated device has no CUDA graphs, which record what a GPU runs; run the same code "
        "outside of torch.cuda.graph",
    )


# -- memory --------------------------------------------------------------------------------------


def _figures(index: int) -> list[int]:
    """A device's memory: bytes now, at most, allocated and freed so far; blocks now and at most."""
    return [int(shim.library.ptxview_memory(index, figure)) for figure in range(6)]


def held_bytes(index: int) -> int:
    """Bytes that CUDA tensors hold now."""
    return _figures(index)[0]


def _memory_functions() -> dict[str, Any]:
    """The functions of ``torch._C`` about memory."""
    fractions: dict[int, float] = {}

    def raw_alloc(size: int, stream: int) -> int:
        return int(shim.library.ptxview_allocate(size) or 0)

    return {
        "_cuda_memoryStats": _memory_stats,
        "_cuda_resetPeakMemoryStats": lambda index: shim.library.ptxview_reset_peak(index),
        "_cuda_setMemoryFraction": lambda fraction, index: fractions.update({index: fraction}),
        "_cuda_getMemoryFraction": lambda index: fractions.get(index, 1.0),
        "_cuda_cudaCachingAllocator_raw_alloc": raw_alloc,
        "_cuda_cudaCachingAllocator_raw_delete": lambda pointer: (
            shim.library.ptxview_release(pointer) and None
        ),
    }


def _memory_stats(index: int) -> dict[str, Any]:
    """A device's memory in the form of torch's allocator: one pool, which caches nothing."""
    say.problem(
        "memory statistics count the bytes that CUDA tensors hold on this machine; no GPU "
        "memory exists"
    )
    *byte_figures, blocks_now, most_blocks = _figures(index)
    byte_entry = _pool_entry(*byte_figures)
    empty = _pool_entry(0, 0, 0, 0)
    blocks = _pool_entry(blocks_now, most_blocks, 0, 0)
    names = ("allocated", "reserved", "active", "requested")
    numbers = ("alloc_retries", "ooms", "sync_all_streams", "device_alloc", "device_free")
    return {
        **{f"{name}_bytes": byte_entry for name in names},
        **dict.fromkeys(("allocation", "active", "segment"), blocks),
        **dict.fromkeys(("inactive_split", "inactive_split_bytes"), empty),
        **dict.fromkeys(("oversize_allocations", "oversize_segments"), empty["all"]),
        **{f"num_{name}": 0 for name in numbers},
        "max_split_size": -1,
    }


def _pool_entry(*figures: int) -> dict[str, dict[str, int]]:
    """What the statistics say of one kind of memory, by pool: all of it is in neither."""
    names = ("current", "peak", "allocated", "freed")
    nothing = dict.fromkeys(names, 0)
    return {
        "all": dict(zip(names, figures, strict=True)),
        "large_pool": dict(nothing),
        "small_pool": nothing,
    }


def _accelerator_functions(low: Any, cuda: dict[str, Any]) -> dict[str, Any]:
    """torch.accelerator's functions of memory: torch's own want an allocator that caches."""
    functions = {
        "_accelerator_isAllocatorInitialized": lambda: bool(sys.modules["torch"].cuda._initialized),
        "_accelerator_emptyCache": lambda *pool: None,
        "_accelerator_emptyHostCache": lambda: None,
        "_accelerator_getDeviceStats": cuda["_cuda_memoryStats"],
        "_accelerator_resetAccumulatedStats": cuda["_cuda_resetAccumulatedMemoryStats"],
        "_accelerator_resetPeakStats": cuda["_cuda_resetPeakMemoryStats"],
        "_accelerator_getMemoryInfo": memory_info,
        "_accelerator_getDeviceCapability": lacking.refusal("torch.accelerator capability"),
    }
    return {name: function for name, function in functions.items() if hasattr(low, name)}


def _let_storages_be_made(torch: Any) -> None:
    """Support device storages: torch.load, FSDP and Module.cuda() on storages need them."""
    resize = torch.UntypedStorage.resize_

    def resized(self: Any, size: int) -> Any:
        if self.device.type != "cuda":
            return resize(self, size)
        torch.ops.ptxview_target.resize_storage(
            torch.empty(0, dtype=torch.uint8, device=self.device).set_(self), size
        )
        return self

    torch.UntypedStorage.resize_ = resized
    torch.UntypedStorage._share_cuda_ = lacking.refusal("memory that processes share (CUDA IPC)")
    original = torch.UntypedStorage.__new__

    def new(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        size = args[0] if args else 0
        if device is None or torch.device(device).type != "cuda":
            return original(cls, *args, **({} if device is None else {"device": device}), **kwargs)
        make = torch.empty if isinstance(size, int) else torch.tensor
        return make(size, dtype=torch.uint8, device=device).untyped_storage()

    torch.UntypedStorage.__new__ = new
