"""Services of this process for an extension's stand-in for the CUDA runtime: launches, limits.

The extension holds the PTX that nvcc compiled. A launch comes with that, the kernel's mangled name,
its configuration and the addresses of its arguments, and is run as Triton's are. The stand-in
raises what a service of this module raises as RuntimeError.
"""

import ctypes
import hashlib
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache, wraps
from math import prod
from pathlib import Path
from typing import Any

from ..calls import graphs
from ..writer import emit
from . import cuda, current, devices, executor, extension, launch, say, shim
from .launch import Launch, Memory, Size

# The largest grid and block of any device (CUDA C++ Programming Guide, "Technical Specifications
# per Compute Capability").
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
MAX_THREADS = 1024

# Numbers and words of driver_types.h, and of cudaGetErrorString.
INVALID_VALUE = 1
OUT_OF_RESOURCES = 701
NAMES = {
    INVALID_VALUE: ("cudaErrorInvalidValue", "invalid argument"),
    OUT_OF_RESOURCES: ("cudaErrorLaunchOutOfResources", "too many resources requested for launch"),
}

ANY_DEVICE = {
    2: MAX_BLOCK[0], 3: MAX_BLOCK[1], 4: MAX_BLOCK[2], 5: MAX_GRID[0], 6: MAX_GRID[1],
    7: MAX_GRID[2], 9: 65536, 11: 2**31 - 1, 18: 0, 19: 1, 20: 0, 31: 1, 33: 0, 34: 0, 41: 1,
    50: 0, 78: 1, 79: 1, 80: 1, 83: 1, 84: 0, 95: 1, 99: 1, 115: 1,
}  # fmt: skip
"""Attributes of every device of sm_75 and later, by their numbers in driver_types.h: the largest
block and grid, bytes of constant memory and of a pitch; integrated no, mapped memory yes, compute
mode default, concurrent kernels yes, the place on the PCI bus, unified addressing, stream
priorities, both L1 caches, managed memory; a board of several GPUs no; cooperative launches,
registered memory and pools of memory yes."""


def device_attributes() -> dict[int, int | None]:
    """The device's attributes by CUDA's number for each, and 0: its memory; None if unknown."""
    settings = current()
    device = devices.find(settings.target)
    major, minor = settings.capability
    return {
        **ANY_DEVICE,
        0: device.memory_bytes,
        1: device.max_threads_per_block,
        8: device.shared_per_block,
        10: device.warp_size,
        12: device.registers_per_block,
        13: device.clock_hz // 1000 if device.clock_hz else None,
        16: device.sms,
        37: device.memory_bus_bits,
        38: device.l2_bytes,
        39: device.max_threads_per_sm,
        75: major,
        76: minor,
        81: device.shared_per_sm,
        82: device.registers_per_sm,
        97: device.shared_per_block_optin,
        106: device.max_blocks_per_sm,
        111: device.shared_reserved_per_block,
        120: int(major >= 9),
    }


# -- kernels ------------------------------------------------------------------------------------


@dataclass
class Kernel:
    """A kernel of some PTX: its resources, and what became of its launches."""

    text: str
    entry: str
    allowed: int = 0
    """Bytes of dynamic shared memory that cudaFuncSetAttribute allows."""
    ran: bool = False
    refused: set[str] = field(default_factory=set)

    @property
    def device(self) -> Any:
        """The limits of the device."""
        return devices.find(current().target)

    @cached_property
    def machine(self) -> dict[str, bytes]:
        """All machine code that was made of this PTX, by its digest."""
        codes: dict[str, bytes] = {}
        place = extension.machine_place(self.text.encode("utf-8", "replace"))
        files = sorted(place.iterdir()) if place.is_dir() else []
        for file in files:
            try:
                data = Path(file.read_text(encoding="utf-8")).read_bytes()
            except OSError:
                continue  # of a build that was removed
            codes[hashlib.sha256(data).hexdigest()] = data
        return codes

    @cached_property
    def binary(self) -> devices.Binary | None:
        """Its resources; None if they are unknown, or differ between the machine codes."""
        binaries = {devices.read_binary(data, self.entry) for data in self.machine.values()}
        return binaries.pop() if len(binaries) == 1 else None

    @property
    def static(self) -> int:
        """Bytes of static shared memory, without those that the driver reserves in each block."""
        reserved = self.device.shared_reserved_in_cubin
        return 0 if self.binary is None else max(self.binary.shared_bytes - reserved, 0)

    @property
    def dynamic(self) -> int:
        """The most bytes of dynamic shared memory that a launch may have."""
        return max(self.allowed, self.device.shared_per_block - self.static)

    @property
    def named(self) -> dict[str, str | None]:
        """The kernel in a recording: its symbol, and the digest of its machine code if known."""
        digest = next(iter(self.machine)) if len(self.machine) == 1 else None
        return {"symbol": self.entry, "hash": digest}


find_kernel = cache(Kernel)
"""The kernel of a PTX text and a name; the same each time."""


def allow(text: str, entry: str, dynamic: int) -> int:
    """``cudaFuncSetAttribute`` for dynamic shared memory: 0, or CUDA's error."""
    kernel = find_kernel(text, entry)
    if not 0 <= dynamic <= kernel.device.shared_per_block_optin - kernel.static:
        return INVALID_VALUE
    kernel.allowed = dynamic
    return 0


def _resources(text: str, entry: str, threads: int, dynamic: int, figures: Any) -> None:
    """The resources of a kernel in such launches.

    Blocks an SM, registers, bytes of static shared and of local memory, the most threads of a
    block, the most bytes of dynamic shared memory.
    """
    kernel = find_kernel(text, entry)
    binary = kernel.binary
    if binary is None or not binary.registers:
        raise RuntimeError(f"ptxview: the registers of {base_name(entry)} are not known here")
    occupancy = executor.load("analysis.occupancy")
    arch = kernel.device.arch
    device = occupancy.Device.of(arch, devices.table()[arch])
    fitting = occupancy.occupancy(device, threads, binary.registers, kernel.static + dynamic)
    # A block's warps are counted as if they filled all sub-partitions evenly (``refusal``).
    even = device.sub_partitions * device.warp_size
    by_registers = device.registers_per_block // (fitting.registers_a_warp * device.sub_partitions)
    bounds = (device.max_threads_per_block, by_registers * even, binary.max_threads)
    max_threads = min(bound for bound in bounds if bound is not None)
    blocks = fitting.blocks if threads <= max_threads and dynamic <= kernel.dynamic else 0
    values = (
        blocks,
        binary.registers,
        kernel.static,
        binary.stack_bytes,
        max_threads,
        kernel.dynamic,
    )
    for number, figure in enumerate(values):
        figures[number] = figure


# -- launches that are refused --------------------------------------------------------------------


@dataclass(frozen=True)
class Refusal:
    """Why a launch is refused: CUDA's error by its number, and a sentence.

    ``required`` is how much it takes of ``resource`` (``blocks``, ``threads``, ``registers``, bytes
    of ``shared memory``), ``limit`` how much there is.
    """

    error: int
    text: str
    resource: str
    required: int | None = None
    limit: int | None = None


def _fits(size: Size, limits: Size) -> bool:
    return all(1 <= n <= limit for n, limit in zip(size, limits, strict=True))


def refusal(kernel: Kernel, grid: Size, block: Size, shared: int) -> Refusal | None:
    """Why the driver would not launch a kernel; None if it would."""
    device = kernel.device
    binary = kernel.binary
    static = kernel.static
    registers, bound = (binary.registers, binary.max_threads) if binary else (0, None)
    threads = prod(block)
    if not _fits(grid, MAX_GRID):
        return Refusal(INVALID_VALUE, f"a grid of {grid} cannot be launched", "blocks")
    if threads > MAX_THREADS or not _fits(block, MAX_BLOCK):
        text = f"a block of {block}, {threads} threads cannot be launched"
        return Refusal(INVALID_VALUE, text, "threads", threads, MAX_THREADS)
    if bound is not None and threads > bound:
        text = (
            f"a block of {threads} threads, and the kernel is compiled for {bound} at most "
            "(__launch_bounds__)"
        )
        return Refusal(INVALID_VALUE, text, "threads", threads, bound)
    limit = device.shared_per_block_optin
    text = f"{shared} bytes of dynamic shared memory"
    text += f" beside its {static} of static" if static else ""
    if shared + static > limit:
        text += f", and a block of this device has {limit}"
        return Refusal(INVALID_VALUE, text, "shared memory", shared + static, limit)
    if shared > kernel.dynamic:
        text += (
            f": more than {device.shared_per_block} of both has to be asked for by "
            "cudaFuncSetAttribute with cudaFuncAttributeMaxDynamicSharedMemorySize"
        )
        limit = max(device.shared_per_block, kernel.dynamic + static)
        return Refusal(INVALID_VALUE, text, "shared memory", shared + static, limit)
    # The hardware's check of a block's registers, as NVIDIA's cuda_occupancy.h has it
    # (``cudaOccMaxBlocksPerSMRegsLimit``): a warp's come in units of 256, and its warps are counted
    # as if they filled all of an SM's four sub-partitions evenly.
    unit = device.register_allocation_unit
    partitions = device.warp_allocation_granularity
    a_warp = -(-registers * device.warp_size // unit) * unit
    required = a_warp * (-(-threads // (device.warp_size * partitions)) * partitions)
    if required <= device.registers_per_block:
        return None
    text = (
        f"a block of {threads} threads with {registers} registers each takes {required}, and a "
        f"block of this device has {device.registers_per_block}"
    )
    return Refusal(OUT_OF_RESOURCES, text, "registers", required, device.registers_per_block)


def report(name: str, kernel: Kernel, refused: Refusal, grid: Size, block: Size) -> None:
    """Print and record a refused launch once, and keep it until the program asks for it."""
    _waiting.refused = refused
    if refused.text in kernel.refused:
        return
    kernel.refused.add(refused.text)
    code, words = NAMES[refused.error]
    emit(
        {
            "event": "not_launched",
            "name": name,
            **kernel.named,
            "ran": kernel.ran,
            "kind": code,
            "error": f"{words}: {refused.text}",
            "required": refused.required,
            "limit": refused.limit,
            "resource": refused.resource,
            "grid": list(grid),
            "block": list(block),
        }
    )
    say.aloud(f"the launch of {name} was refused: {code}, {words}: {refused.text}")


# -- errors that the program has not asked for ----------------------------------------------------

_waiting = threading.local()


def clear_refusal() -> None:
    """The program has asked CUDA for the last error."""
    _waiting.refused = None


def raising(function: Any) -> Any:
    """An extension's function that raises a refusal that the program did not ask for.

    Its next operator would on a GPU, since torch asks CUDA for the last error.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        refused: Refusal | None = getattr(_waiting, "refused", None)
        if refused is not None:
            _waiting.refused = None
            raise RuntimeError(f"CUDA error: {NAMES[refused.error][1]}\nptxview: {refused.text}")
        return result

    return say.unseen(call)


# -- services for the stand-in ------------------------------------------------------------------

VERSION = 6
RAISES = 1
INTERRUPTS = 2
REFUSED = 16
"""Answers of a service; ``REFUSED`` is added to CUDA's error."""

_TEXT = ctypes.c_char_p
_POINTER = ctypes.c_void_p
_WORD = ctypes.c_uint64
_SIGNED = ctypes.c_int64
_INT = ctypes.c_int
_FIGURES = ctypes.POINTER(_SIGNED)
_POINTERS = ctypes.POINTER(_POINTER)
_PTX = (_POINTER, _WORD, _TEXT)  # its address and size, and a name in it
_WHY = (ctypes.POINTER(ctypes.c_char), _SIGNED)


_counted_launch = graphs.counted_launch(launch.launch)


def _launch(text: str, entry: str, sizes: Any, arguments: Any) -> int:
    """Launch a kernel: 0, or CUDA's error if the driver would refuse it."""
    numbers = [int(sizes[n]) for n in range(10)]
    grid: Size = (numbers[0], numbers[1], numbers[2])
    block: Size = (numbers[3], numbers[4], numbers[5])
    cluster: Size = (numbers[6], numbers[7], numbers[8])
    shared = numbers[9]
    name = base_name(entry)
    kernel = find_kernel(text, entry)
    refused = refusal(kernel, grid, block, shared)
    if refused is not None:
        report(name, kernel, refused, grid, block)
        return refused.error
    if kernel.refused and not kernel.ran:
        emit({"event": "launched", **kernel.named})
    kernel.ran = True
    parameter_sizes = launch.parameter_sizes(text, entry)
    packed = [ctypes.string_at(arguments[n], size) for n, size in enumerate(parameter_sizes)]
    call = Launch(
        text=text,
        entry=entry,
        name=name,
        grid=grid,
        block=block,
        shared=shared,
        cluster=cluster if all(cluster) else None,
        arguments=list(packed),
        memory=lambda: _argument_memory(call),
        host=_pinned_memory(packed),
    )
    _counted_launch(call)
    return 0


def _argument_memory(call: Launch) -> dict[str, Memory]:
    """The memory that arguments point at, by their position.

    PTX has no names of arguments, and the host's code no shapes of what they point at.
    """
    memory: dict[str, Memory] = {}
    for position, word in call.pointers():
        piece = shim.memory_around(word)
        if piece:
            memory[f"argument {position + 1}"] = word, piece[1], f"{piece[1] - word} bytes"
    return memory


def _pinned_memory(packed: Iterable[bytes]) -> frozenset[tuple[int, int]]:
    """The pieces of pinned memory that arguments of 64 bits point at."""
    words = [int.from_bytes(data, "little") for data in packed if len(data) == 8]
    pieces = [shim.memory_around(word, pinned=True) for word in words]
    return frozenset(piece for piece in pieces if piece)


def _symbol(text: str, name: str, address: Any) -> None:
    """The address of a variable, by its name in the PTX."""
    placed = launch.variables(text)
    if name not in placed:
        raise RuntimeError(
            f"ptxview: the variable {name} is not in the PTX of this library: no kernel uses it"
        )
    if why := launch.ABSENT_VARIABLES.get(text, {}).get(name):
        raise RuntimeError(f"ptxview: the value of {name} is absent: {why}")
    address[0] = placed[name]


def _limit(device: int, attribute: int, value: Any) -> None:
    """``cudaDeviceGetAttribute``: -1 if unknown. 0: the device's memory, -1: its free memory."""
    total = device_attributes().get(max(attribute, 0))
    used = cuda.held_bytes(device) if attribute < 0 else 0
    value[0] = -1 if total is None else max(0, total - used)


# -- the interface ------------------------------------------------------------------------------


def _service(function: Callable[..., int | None], *types: Any) -> Any:
    """A function that the stand-in calls with these types, and with room for a text of an error."""
    takes_ptx = types[:3] == _PTX

    def call(*arguments: Any) -> int:
        *values, why, room = arguments
        try:
            if takes_ptx:
                address, size, name = values[:3]
                values[:3] = _text_at(address, size), name.decode("utf-8", "replace")
            refused = function(*values)
            return REFUSED + refused if refused else 0
        except KeyboardInterrupt:
            text = "interrupted"
            status = INTERRUPTS
        except Exception as error:
            text = str(error) or type(error).__name__
            status = RAISES
        message = text.encode("utf-8", "replace")[: room - 1] + b"\0"
        ctypes.memmove(why, message, len(message))
        return status

    return ctypes.CFUNCTYPE(_INT, *types, *_WHY)(call)


@lru_cache(maxsize=1024)
def _text_at(address: int, size: int) -> str:
    """The PTX in an extension, which stays where it is."""
    return ctypes.string_at(address, size).rstrip(b"\0").decode("utf-8", "replace")


@cache
def _services() -> Any:
    """``Services`` in ptxview_launch.h, filled; it keeps the functions that it has addresses of."""
    library = shim.library
    functions = {
        "launch": _service(_launch, *_PTX, ctypes.POINTER(ctypes.c_uint32), _POINTERS),
        "symbol": _service(_symbol, *_PTX, ctypes.POINTER(_WORD)),
        "allow": _service(allow, *_PTX, _SIGNED),
        "resources": _service(_resources, *_PTX, _INT, _WORD, _FIGURES),
        "limit": _service(_limit, _INT, _INT, _FIGURES),
        "asked": ctypes.CFUNCTYPE(None)(clear_refusal),
        "allocate": library.ptxview_allocate,
        "release": library.ptxview_release,
        "range": library.ptxview_range,
        "absence": library.ptxview_absence_at,
        "mark_absent": library.ptxview_mark_absent_at,
        "interrupt": ctypes.pythonapi.PyErr_SetInterrupt,
    }
    fields = [("version", _WORD), *((name, _POINTER) for name in functions), ("device_name", _TEXT)]
    services: Any = type("Services", (ctypes.Structure,), {"_fields_": fields})()
    services.version = VERSION
    services.device_name = devices.find(current().target).name.encode()
    for name, function in functions.items():
        setattr(services, name, ctypes.cast(function, _POINTER).value)
    services.functions = functions
    return services


def attach(torch: Any) -> None:
    """Let extensions reach this interpreter, also those that were built in another process."""
    graphs.EMULATED.append(raising)
    _publish()
    os.register_at_fork(after_in_child=_publish)


def _publish() -> None:
    os.environ["PTXVIEW_RUNTIME"] = f"{os.getpid()}:{ctypes.addressof(_services())}"


# -- names --------------------------------------------------------------------------------------


def base_name(name: str) -> str:
    """``fill`` of ``_ZN1n4fillIfEEvPT_``: without namespaces and arguments."""
    return str(executor.load("base.names").base_name(name))
