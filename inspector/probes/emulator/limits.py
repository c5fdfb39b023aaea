"""Limits of the emulated device as CUDA's runtime gives them, and launches that exceed them.

A launch is compared with the device (``reference/devices.toml``) and with the kernel's registers,
static shared memory and launch bounds in the machine code that nvcc made from the same PTX.
Unknown limits refuse nothing.

Which error it is: an H100 with CUDA 13.0 gives cudaErrorLaunchOutOfResources for too many threads
for the kernel's registers, and cudaErrorInvalidValue for all else (``python -m tests.gpu.failures``
compares this module with a GPU): more threads or blocks than the device can ever have, launch
bounds, and dynamic shared memory above the limit set by cudaFuncSetAttribute. driver_types.h
has cudaErrorInvalidConfiguration for the first, and names none for the others.
"""

from __future__ import annotations

import hashlib
import re
import threading
from dataclasses import dataclass, field
from functools import cached_property, wraps
from math import prod
from pathlib import Path
from typing import Any

from ..writer import emit
from . import build, cubin, current, devices, executor, say
from .kernel_launch import Size

# The largest grid and block of any device (CUDA C++ Programming Guide, "Technical Specifications
# per Compute Capability").
MAX_GRID, MAX_BLOCK, MAX_THREADS = (2**31 - 1, 65535, 65535), (1024, 1024, 64), 1024

# Numbers and words of driver_types.h, and of cudaGetErrorString.
INVALID_VALUE, OUT_OF_RESOURCES = 1, 701
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


def of_device() -> dict[int, int | None]:
    """The device's attributes by CUDA's number for each, and 0: its memory; None if unknown."""
    asked = current()
    device = devices.find(asked.target)
    row = devices.table()[device.arch.rstrip("af")]
    major, minor = asked.capability
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
        106: row["max_blocks_per_sm"],
        111: row["shared_reserved_per_block"],
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

    @cached_property
    def machine(self) -> dict[str, bytes]:
        """All machine code that was made of this PTX, by its digest."""
        every: dict[str, bytes] = {}
        place = _place(self.text.encode("utf-8", "replace"))
        for file in sorted(place.iterdir()) if place.is_dir() else ():
            try:
                data = Path(file.read_text(encoding="utf-8")).read_bytes()
            except OSError:
                continue  # of a build that was removed
            every[hashlib.sha256(data).hexdigest()] = data
        return every

    @cached_property
    def binary(self) -> cubin.Binary | None:
        """Its resources; None if they are unknown, or differ between the machine codes."""
        every = {cubin.read(data, self.entry) for data in self.machine.values()}
        return every.pop() if len(every) == 1 else None

    @property
    def static(self) -> int:
        """Bytes of static shared memory, without those that the driver reserves in each block."""
        kept = devices.find(current().target).shared_reserved_in_cubin
        return 0 if self.binary is None else max(self.binary.shared_bytes - kept, 0)

    @property
    def dynamic(self) -> int:
        """The most bytes of dynamic shared memory that a launch may have."""
        return max(self.allowed, devices.find(current().target).shared_per_block - self.static)

    @property
    def named(self) -> dict[str, str | None]:
        """The kernel in a recording: its symbol, and the digest of its machine code if known."""
        digest = next(iter(self.machine)) if len(self.machine) == 1 else None
        return {"symbol": self.entry, "hash": digest}


_kernels: dict[tuple[str, str], Kernel] = {}


def kernel(text: str, entry: str) -> Kernel:
    """The kernel ``entry`` of a PTX text; the same each time."""
    return _kernels.setdefault((text, entry), Kernel(text, entry))


def allow(text: str, entry: str, dynamic: int) -> int:
    """``cudaFuncSetAttribute`` for dynamic shared memory: 0, or CUDA's error."""
    one = kernel(text, entry)
    limit = devices.find(current().target).shared_per_block_optin
    if dynamic < 0 or (limit and dynamic + one.static > limit):
        return INVALID_VALUE
    one.allowed = dynamic
    return 0


def resources(text: str, entry: str, threads: int, dynamic: int) -> tuple[int, ...] | None:
    """The resources of a kernel in such launches; None if its machine code is unknown.

    Blocks an SM, registers, bytes of static shared and of local memory, the most threads of a
    block, the most bytes of dynamic shared memory.
    """
    one = kernel(text, entry)
    binary = one.binary
    if binary is None or not binary.registers:
        return None
    occupancy = executor.load("analyse.occupancy")
    arch = devices.find(current().target).arch.rstrip("af")
    device = occupancy.Device.of(arch, devices.table()[arch])
    fitting = occupancy.occupancy(device, threads, binary.registers, one.static + dynamic)
    # A block's warps are counted as if they filled all sub-partitions evenly (_of_registers).
    even = device.sub_partitions * device.warp_size
    by_registers = device.registers_per_block // (fitting.registers_a_warp * device.sub_partitions)
    bounds = (device.max_threads_per_block, by_registers * even, binary.max_threads)
    max_threads = min(bound for bound in bounds if bound is not None)
    blocks = fitting.blocks if threads <= max_threads and dynamic <= one.dynamic else 0
    return blocks, binary.registers, one.static, binary.stack_bytes, max_threads, one.dynamic


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


def refusal(text: str, entry: str, grid: Size, block: Size, shared: int) -> Refusal | None:
    """Why the driver would not launch the kernel ``entry`` of this PTX; None if it would."""
    one = kernel(text, entry)
    refused = (
        _of_any(grid, block)
        or _of_bounds(one, block)
        or _of_shared(one, shared)
        or _of_registers(one, block)
    )
    if refused is None and not one.ran:
        one.ran = True
        if one.refused:
            emit({"event": "launched", **one.named})
    return refused


def _of_any(grid: Size, block: Size) -> Refusal | None:
    def fits(size: Size, most: Size) -> bool:
        return all(1 <= n <= limit for n, limit in zip(size, most, strict=True))

    if not fits(grid, MAX_GRID):
        return Refusal(INVALID_VALUE, f"a grid of {grid} cannot be launched", "blocks")
    threads = prod(block)
    if threads <= MAX_THREADS and fits(block, MAX_BLOCK):
        return None
    text = f"a block of {block}, {threads} threads cannot be launched"
    return Refusal(INVALID_VALUE, text, "threads", threads, MAX_THREADS)


def _of_bounds(one: Kernel, block: Size) -> Refusal | None:
    threads, limit = prod(block), one.binary.max_threads if one.binary else None
    if limit is None or threads <= limit:
        return None
    text = (
        f"a block of {threads} threads, and the kernel is compiled for {limit} at most "
        "(__launch_bounds__)"
    )
    return Refusal(INVALID_VALUE, text, "threads", threads, limit)


def _of_shared(one: Kernel, shared: int) -> Refusal | None:
    device, static = devices.find(current().target), one.static
    limit, usual = device.shared_per_block_optin, device.shared_per_block
    text = f"{shared} bytes of dynamic shared memory"
    text += f" beside its {static} of static" if static else ""
    if limit and shared + static > limit:
        text += f", and a block of this device has {limit}"
    elif usual and shared > one.dynamic:
        text += (
            f": more than {usual} of both has to be asked for by cudaFuncSetAttribute with "
            "cudaFuncAttributeMaxDynamicSharedMemorySize"
        )
        limit = max(usual, one.dynamic + static)
    else:
        return None
    return Refusal(INVALID_VALUE, text, "shared memory", shared + static, limit)


def _of_registers(one: Kernel, block: Size) -> Refusal | None:
    """The hardware's check of a block's registers, as NVIDIA's cuda_occupancy.h has it
    (``cudaOccMaxBlocksPerSMRegsLimit``): a warp's come in units of 256, and its warps are counted
    as if they filled all of an SM's four sub-partitions evenly."""
    if one.binary is None or not one.binary.registers:
        return None
    device, registers = devices.find(current().target), one.binary.registers
    warps = -(-prod(block) // device.warp_size)
    unit, partitions = device.register_allocation_unit, device.warp_allocation_granularity
    a_warp = -(-registers * device.warp_size // unit) * unit
    required = a_warp * (-(-warps // partitions) * partitions)
    if required <= device.registers_per_block:
        return None
    text = (
        f"a block of {prod(block)} threads with {registers} registers each takes {required}, and a "
        f"block of this device has {device.registers_per_block}"
    )
    return Refusal(OUT_OF_RESOURCES, text, "registers", required, device.registers_per_block)


def report(name: str, text: str, entry: str, refused: Refusal, grid: Size, block: Size) -> None:
    """Print and record a refused launch once, and keep it until the program asks for it."""
    _waiting.refused = refused
    one = kernel(text, entry)
    if refused.text in one.refused:
        return
    one.refused.add(refused.text)
    code, words = NAMES[refused.error]
    emit(
        {
            "event": "not_launched",
            "name": name,
            **one.named,
            "ran": one.ran,
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


def asked() -> None:
    """The program has asked CUDA for the last error."""
    _waiting.refused = None


def raising(function: Any) -> Any:
    """An extension's function that raises a refusal that the program did not ask for.

    Its next operator would on a GPU, since torch asks CUDA for the last error.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
            refused: Refusal | None = getattr(_waiting, "refused", None)
            if refused is not None:
                _waiting.refused = None
                error = f"CUDA error: {NAMES[refused.error][1]}\nptxview: {refused.text}"
                raise RuntimeError(error)
            return result
        except BaseException as error:
            say.unseen(error)
            raise

    return call


# -- machine code by its PTX ----------------------------------------------------------------------


def _place(ptx: bytes) -> Path:
    """The folder of one PTX, by its tokens: fatbinary embeds it without comments and indents."""
    digest = hashlib.sha256(re.sub(rb"//[^\n]*|\s+", b"", ptx.rstrip(b"\0"))).hexdigest()
    return build.cache_root() / "machine" / digest[:32]


def note(ptx: Path, machine: Path) -> None:
    """Remember the machine code that was made from some PTX, also with other flags."""
    try:
        place = _place(ptx.read_bytes())
        place.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(str(machine).encode()).hexdigest()[:16]
        (place / name).write_text(str(machine), encoding="utf-8")
    except OSError:
        return
