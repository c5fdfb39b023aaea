"""Errors of a launch: the thread, the line, and the distance from the nearest tensor."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from typing import Any

from . import build, native, nvcc
from .kernel_launch import Launch, Memory

ASSEMBLY_LINES = 200
"""Lines of PTX above an instruction that are searched for the beginning of its inline assembly."""

_OPCODE = re.compile(r"(?:@!?%?\w+\s+)?([a-z]\w*)")
_VERBS = {
    "ld": "reads",
    "ldu": "reads",
    "cp": "reads",
    "st": "writes",
    "atom": "updates",
    "red": "updates",
}
# cudaGetErrorString of each cause.
_CUDA = {
    "out of bounds": "an illegal memory access was encountered",
    "null": "an illegal memory access was encountered",
    "read only": "an illegal memory access was encountered",
    "misaligned": "misaligned address",
    "trap": "unspecified launch failure",
    "tensor map": "an illegal instruction was encountered",
    "assertion": "device-side assert triggered",
}


class KernelFault(RuntimeError):
    """A kernel ended as it would on a GPU: a trap, an assertion, an illegal access; or never."""


class AbsentValue(Exception):
    """A kernel reads memory whose value is absent; the text is the reason."""


def error_of(fault: Any, call: Launch, listing: Any, number: int) -> Exception:
    """The exception that the program gets for the executor's ``fault`` in launch ``number``."""
    place, address = fault.place, fault.address
    if fault.space == "global" and address is not None and (why := native.absence_at(address)):
        return AbsentValue(why)
    who = f"{call.unit} {place.block or (0, 0, 0)}"
    if place.thread is not None:
        who += f", thread {place.thread}"
    line = source(listing, place.line, call.file)
    after = f" (PTX line {place.line}: {place.statement.rstrip('; ')[:100]}"
    after += f"; {line})" if line else ")"
    if fault.cause in ("out of bounds", "null") and fault.space == "global":
        match = _OPCODE.match(place.statement)
        verb = _VERBS.get(match[1] if match else "", "touches")
        what = f"{verb} {fault.nbytes} bytes at {address:#x}, outside of every CUDA tensor"
        if fault.cause == "null":
            what += ", a null pointer"
        elif memory := call.memory():
            what += f": {_nearest(memory, address)}"
    else:
        what = fault.message.removeprefix(f"{place.kernel}: ").removesuffix(f" ({place})")
    text = f"ptxview: {who} of launch {number} of {call.name}, grid {call.grid}, {what}{after}"
    cuda = _CUDA.get(fault.cause)
    return KernelFault(f"CUDA error: {cuda}\n{text}" if cuda else text)


def memory_of(tensor: Any) -> Memory:
    """The memory that a tensor's elements span."""
    first = int(tensor.data_ptr())
    sides = zip(tensor.shape, tensor.stride(), strict=True)
    elements = 1 + sum((n - 1) * step for n, step in sides) if tensor.numel() else 0
    kind = str(tensor.dtype).removeprefix("torch.")
    end = first + elements * int(tensor.element_size())
    return first, end, f"{kind} {list(tensor.shape)}"


def _nearest(memory: dict[str, Memory], address: int) -> str:
    """The nearest argument, and its distance from the address."""
    distances = {
        name: first - address if address < first else address - end
        for name, (first, end, _) in memory.items()
    }
    name = min(distances, key=lambda name: distances[name])
    side = "before the start" if address < memory[name][0] else "past the end"
    where = f"{distances[name]} bytes {side}" if distances[name] else f"just {side}"
    return f"{where} of {name}, {memory[name][2]}, the nearest argument"


def source(listing: Any, line: int, file: str) -> str:
    """The program's source line of a line of PTX; empty if unknown."""
    if not 0 < line <= len(listing.lines):
        return ""
    first = line
    # Within inline assembly LLVM counts lines of the assembly: the location of its first is right.
    for above in range(line - 1, max(0, line - ASSEMBLY_LINES), -1):
        text = listing.lines[above - 1].text
        if "// end inline asm" in text:
            break
        if "// begin inline asm" in text:
            first = above
            break
    places = (listing.lines[n - 1].source for n in range(first, line + 1))
    where = next((place for place in places if place is not None), None)
    return _first_own(where.frames(), file) if where is not None else ""


def _first_own(places: Iterable[Any], file: str) -> str:
    """The first of these locations, innermost first, in the program's own files.

    ``file`` is the kernel's: Triton's cache may hold code that was compiled from a copy elsewhere.
    """
    every = list(places)
    own = [p for p in every if not os.path.realpath(p.file).startswith(_libraries())] or every[:1]
    if not own:
        return ""
    same = os.path.basename(own[0].file) == os.path.basename(file)
    place, number = file if same else own[0].file, own[0].line
    text = linecache.getline(place, number).strip()
    return f"{os.path.basename(place)}:{number}: {text}"[:120]


@cache
def _libraries() -> tuple[str, ...]:
    """The folders of Triton, numpy, torch and the CUDA toolkit."""
    specs = (find_spec(name) for name in ("numpy", "triton"))
    folders = [os.path.dirname(s.origin) for s in specs if s is not None and s.origin]
    torch = build.torch_folder()
    folders += [str(home) for home in (*nvcc.homes(), *([torch] if torch else []))]
    return tuple(os.path.realpath(folder) + os.sep for folder in folders)
