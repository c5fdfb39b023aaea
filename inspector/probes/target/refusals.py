"""Launches of CUDA C++ that a device of the target would refuse, with CUDA's own errors.

What is asked for is held against the device (``reference/devices.toml``) and against what ptxas
says of the kernel: the machine code of the same PTX, which nvcc made with it, has its registers,
its static shared memory and its launch bounds. What is not known refuses nothing.

Which error it is: an H100 with CUDA 13.0 gives cudaErrorLaunchOutOfResources for too many threads
for the kernel's registers, and cudaErrorInvalidValue for all else: more threads or blocks than the
device can ever have, launch bounds, and dynamic shared memory above what was asked for by
cudaFuncSetAttribute. driver_types.h has cudaErrorInvalidConfiguration for the first, and names none
for the others.
"""

from __future__ import annotations

import functools
import hashlib
import re
import threading
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from ..writer import emit
from . import build, cubin, current, devices, say
from .traceback import unseen

# The largest grid and block of any device (CUDA C++ Programming Guide, "Technical Specifications
# per Compute Capability").
MOST_GRID, MOST_BLOCK, MOST_THREADS = (2**31 - 1, 65535, 65535), (1024, 1024, 64), 1024

# Numbers and words of driver_types.h, and of cudaGetErrorString.
INVALID_VALUE, OUT_OF_RESOURCES = 1, 701
NAMES = {
    INVALID_VALUE: ("cudaErrorInvalidValue", "invalid argument"),
    OUT_OF_RESOURCES: ("cudaErrorLaunchOutOfResources", "too many resources requested for launch"),
}

Size = tuple[int, int, int]
_binaries: dict[str, list[tuple[str, bytes]]] = {}
_kernels: dict[tuple[str, str], cubin.Binary | None] = {}
_allowed: dict[tuple[str, str], int] = {}
_reported: set[tuple[str, str]] = set()
_refused: set[tuple[str, str]] = set()
_ran: set[tuple[str, str]] = set()
_waiting = threading.local()


@dataclass(frozen=True)
class Refusal:
    """Why a launch is refused: CUDA's error by its number, and what it is about.

    ``required`` is how much it takes of ``resource`` (``blocks``, ``threads``, ``registers``, bytes
    of ``shared memory``), ``limit`` how much there is.
    """

    error: int
    text: str
    resource: str
    required: int | None = None
    limit: int | None = None

    @property
    def message(self) -> str:
        """What torch raises of it, and what it is about."""
        return f"CUDA error: {NAMES[self.error][1]}\nptxview: {self.text}"


def of(text: str, entry: str, grid: Size, block: Size, shared: int) -> Refusal | None:
    """Why the driver would not launch the kernel ``entry`` of this PTX so; None where it would."""
    refused = _of_any(grid, block)
    if refused is None:
        known = kernel(text, entry)
        refused = _of_bounds(known, block) or _of_shared(text, entry, known, shared)
        refused = refused or _of_registers(known, block)
    if refused is None and (text, entry) not in _ran:
        _ran.add((text, entry))
        if (text, entry) in _refused:
            emit({"event": "launched", **_named(text, entry)})
    return refused


def _named(text: str, entry: str) -> dict[str, str | None]:
    """What a recording knows a kernel by: its symbol, and the digest of its machine code."""
    found = _binary(text)
    return {"symbol": entry, "hash": None if found is None else found[0]}


def allow(text: str, entry: str, dynamic: int) -> int:
    """``cudaFuncSetAttribute`` for dynamic shared memory: 0, or CUDA's error."""
    most = devices.find(current().target).shared_per_block_optin
    if dynamic < 0 or (most and dynamic + _static(kernel(text, entry)) > most):
        return INVALID_VALUE
    _allowed[text, entry] = dynamic
    return 0


def report(name: str, text: str, entry: str, refused: Refusal, grid: Size, block: Size) -> None:
    """Say once that a launch was refused, and record it."""
    code, words = NAMES[refused.error]
    if (entry, refused.text) in _reported:
        return
    _reported.add((entry, refused.text))
    _refused.add((text, entry))
    emit(
        {
            "event": "not_launched",
            "name": name,
            **_named(text, entry),
            "ran": (text, entry) in _ran,
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


# -- what nobody has asked for ------------------------------------------------------------------


def wait(refused: Refusal) -> None:
    """Keep a refusal until the program asks CUDA for its last error, or its function returns."""
    _waiting.refused = refused


def asked() -> None:
    """The program has asked CUDA for the last error."""
    _waiting.refused = None


def unasked() -> None:
    """Raise the refusal that the program did not ask for, as the next operator of torch's would,
    which does ask. Raises RuntimeError."""
    refused: Refusal | None = getattr(_waiting, "refused", None)
    if refused is not None:
        _waiting.refused = None
        raise RuntimeError(refused.message)


def raising(function: Any) -> Any:
    """A function of an extension that raises, as it returns, what was not asked for."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
            unasked()
            return result
        except BaseException as error:
            unseen(error)
            raise

    return call


# -- the limits -----------------------------------------------------------------------------------


def _of_any(grid: Size, block: Size) -> Refusal | None:
    if min(grid) < 1 or any(n > most for n, most in zip(grid, MOST_GRID, strict=True)):
        return Refusal(INVALID_VALUE, f"a grid of {grid} cannot be launched", "blocks")
    threads = prod(block)
    if (
        min(block) < 1
        or threads > MOST_THREADS
        or any(n > most for n, most in zip(block, MOST_BLOCK, strict=True))
    ):
        return Refusal(
            INVALID_VALUE, f"a block of {block}, {threads} threads cannot be launched",
            "threads", threads, MOST_THREADS,
        )  # fmt: skip
    return None


def _of_bounds(kernel: cubin.Binary | None, block: Size) -> Refusal | None:
    threads = prod(block)
    if kernel is None or kernel.max_threads is None or threads <= kernel.max_threads:
        return None
    return Refusal(
        INVALID_VALUE, f"a block of {threads} threads, and the kernel is compiled for "
        f"{kernel.max_threads} at most (__launch_bounds__)", "threads", threads, kernel.max_threads,
    )  # fmt: skip


def _of_shared(text: str, entry: str, kernel: cubin.Binary | None, shared: int) -> Refusal | None:
    device, static = devices.find(current().target), _static(kernel)
    most = device.shared_per_block_optin
    own = f" beside its {static} of static" if static else ""
    if most and shared + static > most:
        return Refusal(
            INVALID_VALUE, f"{shared} bytes of dynamic shared memory{own}, and a block of this "
            f"device has {most}", "shared memory", shared + static, most,
        )  # fmt: skip
    usual, asked_for = device.shared_per_block, dynamic_shared(text, entry)
    if usual and shared > asked_for:
        return Refusal(
            INVALID_VALUE, f"{shared} bytes of dynamic shared memory{own}: more than {usual} of "
            "both has to be asked for by cudaFuncSetAttribute with "
            "cudaFuncAttributeMaxDynamicSharedMemorySize",
            "shared memory", shared + static, max(usual, asked_for + static),
        )  # fmt: skip
    return None


def dynamic_shared(text: str, entry: str) -> int:
    """The most bytes of dynamic shared memory that a launch of this kernel may have."""
    usual = devices.find(current().target).shared_per_block
    return max(_allowed.get((text, entry), 0), usual - _static(kernel(text, entry)))


def _of_registers(kernel: cubin.Binary | None, block: Size) -> Refusal | None:
    """The hardware's check of a block's registers, as NVIDIA's cuda_occupancy.h has it
    (``cudaOccMaxBlocksPerSMRegsLimit``): a warp's come in units of 256, and its warps are counted
    as if they filled all of an SM's four sub-partitions evenly."""
    if kernel is None or not kernel.registers:
        return None
    device = devices.find(current().target)
    warps = -(-prod(block) // device.warp_size)
    unit, partitions = device.register_allocation_unit, device.warp_allocation_granularity
    a_warp = -(-kernel.registers * device.warp_size // unit) * unit
    required = a_warp * (-(-warps // partitions) * partitions)
    if required <= device.registers_per_block:
        return None
    return Refusal(
        OUT_OF_RESOURCES, f"a block of {prod(block)} threads with {kernel.registers} registers "
        f"each takes {required}, and a block of this device has {device.registers_per_block}",
        "registers", required, device.registers_per_block,
    )  # fmt: skip


def _static(kernel: cubin.Binary | None) -> int:
    """A kernel's own static shared memory, without what the driver keeps of every block."""
    if kernel is None:
        return 0
    kept = devices.find(current().target).shared_reserved_in_cubin
    return max(kernel.shared_bytes - kept, 0)


# -- which machine code is of which PTX -----------------------------------------------------------


def _place(ptx: bytes) -> Path:
    """The folder of one PTX, by its tokens: fatbinary embeds it without comments and indents."""
    digest = hashlib.sha256(re.sub(rb"//[^\n]*|\s+", b"", ptx.rstrip(b"\0"))).hexdigest()
    return build.cache_root() / "machine" / digest[:32]


def note(ptx: Path, machine: Path) -> None:
    """Remember the machine code that was made with some PTX; without it nothing is refused for
    registers. The same PTX may have been assembled with other flags too: each is remembered."""
    try:
        place = _place(ptx.read_bytes())
        place.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(str(machine).encode()).hexdigest()[:16]
        (place / name).write_text(str(machine), encoding="utf-8")
    except OSError:
        return


def kernel(text: str, entry: str) -> cubin.Binary | None:
    """A kernel's figures; None where they are not known, or not the same in all that was made."""
    if (text, entry) not in _kernels:
        every = {cubin.read(data, entry) for _, data in _binaries_of(text)}
        _kernels[text, entry] = every.pop() if len(every) == 1 else None
    return _kernels[text, entry]


def _binary(text: str) -> tuple[str, bytes] | None:
    """The machine code of this PTX with its digest; None where it is not known, or which."""
    every = _binaries_of(text)
    return every[0] if len(every) == 1 else None


def _binaries_of(text: str) -> list[tuple[str, bytes]]:
    """All machine code that is known to be made of this PTX, each with its digest."""
    if text not in _binaries:
        every: dict[str, bytes] = {}
        try:
            for file in sorted(_place(text.encode("utf-8", "replace")).iterdir()):
                try:
                    data = Path(file.read_text(encoding="utf-8")).read_bytes()
                except OSError:
                    continue  # of a build that was removed
                every[hashlib.sha256(data).hexdigest()] = data
        except OSError:
            every = {}
        _binaries[text] = list(every.items())
    return _binaries[text]
