"""Services of this process for an extension's stand-in for the CUDA runtime: launches, limits.

The extension holds the PTX that nvcc compiled. A launch comes with that, the kernel's mangled name,
its configuration and the addresses of its arguments, and is run as Triton's are. The stand-in
raises what a service of this module raises as RuntimeError.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import struct
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from ..calls import graphs
from . import cuda, current, devices, launch, limits, native, ptx
from .faults import memory_of
from .kernel_launch import Launch, Memory

VERSION = 5
RAISES, INTERRUPTS, REFUSED = 1, 2, 16
"""Answers of a service; ``REFUSED`` is added to CUDA's error."""

_TEXT, _POINTER = ctypes.c_char_p, ctypes.c_void_p
_WORD, _SIGNED, _INT = ctypes.c_uint64, ctypes.c_int64, ctypes.c_int
_FIGURES, _POINTERS = ctypes.POINTER(_SIGNED), ctypes.POINTER(_POINTER)
_PTX = (_POINTER, _WORD, _TEXT)  # its address and size, and a name in it
_WHY = (ctypes.POINTER(ctypes.c_char), _SIGNED)


def _launch(text: str, entry: str, sizes: Any, arguments: Any) -> int:
    """Launch a kernel: 0, or CUDA's error if the driver would refuse it."""
    x, y, z, block_x, block_y, block_z, shared = (int(sizes[n]) for n in range(7))
    grid, block, name = (x, y, z), (block_x, block_y, block_z), base_name(entry)
    refused = limits.refusal(text, entry, grid, block, shared)
    if refused is not None:
        limits.report(name, text, entry, refused, grid, block)
        return refused.error
    graphs.launched(name, [*grid, *block, shared])
    parameter_sizes = ptx.parameter_sizes(text, entry)
    packed = [ctypes.string_at(arguments[n], size) for n, size in enumerate(parameter_sizes)]
    words = (w for data in packed if len(data) == 8 for (w,) in struct.iter_unpack("<Q", data))
    call = Launch(
        text=text,
        entry=entry,
        name=name,
        grid=grid,
        block=block,
        shared=shared,
        arguments=list(packed),
        memory=lambda: _memory(call),
        host=frozenset(piece for word in words if (piece := native.pinned_around(word))),
    )
    launch.launch(call)
    return 0


def _symbol(text: str, name: str, address: Any) -> None:
    """The address of a variable, by its name in the PTX."""
    placed = ptx.variables(text)
    if name not in placed:
        raise RuntimeError(
            f"ptxview: the variable {name} is not in the PTX of this library: no kernel uses it"
        )
    if why := launch.ABSENT_VARIABLES.get(text, {}).get(name):
        raise RuntimeError(f"ptxview: the value of {name} is absent: {why}")
    address[0] = placed[name]


def _allow(text: str, entry: str, dynamic: int) -> int:
    """``cudaFuncSetAttribute`` of dynamic shared memory: 0, or CUDA's error."""
    return limits.allow(text, entry, dynamic)


def _resources(text: str, entry: str, threads: int, dynamic: int, figures: Any) -> None:
    known = limits.resources(text, entry, threads, dynamic)
    if known is None:
        raise RuntimeError(f"ptxview: the registers of {base_name(entry)} are not known here")
    for number, figure in enumerate(known):
        figures[number] = figure


def _limit(device: int, attribute: int, value: Any) -> None:
    """``cudaDeviceGetAttribute``: -1 if unknown. 0: the device's memory, -1: its free memory."""
    known = limits.of_device().get(max(attribute, 0))
    value[0] = -1 if known is None else known
    if attribute < 0:
        value[0] = max(0, value[0] - cuda.held(device))


# -- the interface ------------------------------------------------------------------------------


def _service(function: Callable[..., int | None], *types: Any) -> Any:
    """A function that the stand-in calls with these types, and with room for a text of an error."""
    takes_ptx = types[:3] == _PTX

    def call(*given: Any) -> int:
        *values, why, room = given
        try:
            if takes_ptx:
                address, size, name = values[:3]
                values[:3] = _text_at(address, size), name.decode("utf-8", "replace")
            refused = function(*values)
            return REFUSED + refused if refused else 0
        except KeyboardInterrupt:
            text, status = "interrupted", INTERRUPTS
        except Exception as error:
            text, status = str(error) or type(error).__name__, RAISES
        said = text.encode("utf-8", "replace")[: room - 1] + b"\0"
        ctypes.memmove(why, said, len(said))
        return status

    return ctypes.CFUNCTYPE(_INT, *types, *_WHY)(call)


@lru_cache(maxsize=1024)
def _text_at(address: int, size: int) -> str:
    """The PTX in an extension, which stays where it is."""
    return ctypes.string_at(address, size).rstrip(b"\0").decode("utf-8", "replace")


class _Services(ctypes.Structure):
    """``Services`` in ptxview_launch.h."""

    _fields_ = (
        ("version", _WORD),
        *(
            (name, _POINTER)
            for name in (
                "launch", "symbol", "allow", "resources", "limit", "asked", "allocate", "release",
                "range", "absence", "mark_absent", "interrupt",
            )
        ),
        ("device_name", _TEXT),
    )  # fmt: skip
    functions: dict[str, Any]
    """The functions whose addresses these are."""


@cache
def _services() -> _Services:
    library = native.library()
    made = _Services(VERSION, device_name=devices.find(current().target).name.encode())
    functions = {
        "launch": _service(_launch, *_PTX, ctypes.POINTER(ctypes.c_uint32), _POINTERS),
        "symbol": _service(_symbol, *_PTX, ctypes.POINTER(_WORD)),
        "allow": _service(_allow, *_PTX, _SIGNED),
        "resources": _service(_resources, *_PTX, _INT, _WORD, _FIGURES),
        "limit": _service(_limit, _INT, _INT, _FIGURES),
        "asked": ctypes.CFUNCTYPE(None)(limits.asked),
        "allocate": library.ptxview_allocate,
        "release": library.ptxview_release,
        "range": library.ptxview_range,
        "absence": library.ptxview_absence_at,
        "mark_absent": library.ptxview_mark_absent_at,
        "interrupt": ctypes.pythonapi.PyErr_SetInterrupt,
    }
    for name, function in functions.items():
        setattr(made, name, ctypes.cast(function, _POINTER).value)
    made.functions = functions
    return made


def attach(torch: Any) -> None:
    """Let extensions reach this interpreter, also those that were built in another process."""
    graphs.EMULATED.append(limits.raising)
    _publish()
    os.register_at_fork(after_in_child=_publish)


def _publish() -> None:
    os.environ["PTXVIEW_RUNTIME"] = f"{os.getpid()}:{ctypes.addressof(_services())}"


# -- names --------------------------------------------------------------------------------------


def base_name(name: str) -> str:
    """``fill`` of ``_ZN1n4fillIfEEvPT_``: without namespaces and arguments."""
    found, at = name, 2
    if name.startswith("_Z"):
        while name[at : at + 1] in tuple("NLKV"):
            at += 1
        while length := re.match(r"\d+", name[at:]):
            at += len(length[0]) + int(length[0])
            found = name[at - int(length[0]) : at]
            if name[2] != "N":
                break
            at += name[at : at + 1] == "L"
    return found


# -- memory that errors name ----------------------------------------------------------------------


def _memory(call: Launch) -> dict[str, Memory]:
    """The memory that pointers among the arguments point at, by position: PTX has no names."""
    pointers = dict(call.pointers())
    owners = _owners(set(pointers.values()))
    made: dict[str, Memory] = {}
    for position, word in pointers.items():
        around = native.memory_around(word, word + 1)
        if word in owners:
            made[f"argument {position + 1}"] = memory_of(owners[word])
        elif around is not None:
            made[f"argument {position + 1}"] = word, around[1], f"{around[1] - word} bytes"
    return made


def _owners(wanted: set[int]) -> dict[int, Any]:
    """The program's tensors that begin at these addresses, the largest of each."""
    import torch

    owners: dict[int, Any] = {}
    for value in gc.get_objects():
        if not issubclass(type(value), torch.Tensor):
            continue
        try:
            first, size = int(value.data_ptr()), value.numel()
        except (RuntimeError, NotImplementedError):
            continue  # a tensor without memory
        if first in wanted and (first not in owners or owners[first].numel() < size):
            owners[first] = value
    return owners
