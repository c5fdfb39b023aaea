"""Errors of a launch, in the program's words: who did it, where, how far from which tensor."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

from . import build, native, nvcc

# Lines of PTX above an instruction that are searched for the beginning of its inline assembly.
ASSEMBLY_LINES = 200

_OPCODE = re.compile(r"(?:@!?%?\w+\s+)?([a-z]\w*)")
_VERBS = {"ld": "reads", "ldu": "reads", "cp": "reads", "st": "writes", "atom": "updates",
          "red": "updates"}  # fmt: skip
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


class Names(NamedTuple):
    """What an error calls the parts of a launch."""

    kernel: str
    block: str
    """``program`` or ``block``, as its language says."""
    listing: Any
    file: str
    tensors: Callable[[], dict[str, Any]]


def error_of(fault: Any, names: Names, number: int, grid: tuple[int, int, int]) -> Exception:
    """The exception that the program gets for the executor's ``fault`` in launch ``number``."""
    place, address = fault.place, fault.address
    if fault.space == "global" and address is not None and (why := native.absence_at(address)):
        return AbsentValue(why)
    who = f"{names.block} {place.block or (0, 0, 0)}"
    if place.thread is not None:
        who += f", thread {place.thread}"
    line = source(names.listing, place.line, names.file)
    after = f" (PTX line {place.line}: {place.statement.rstrip('; ')[:100]}"
    after += f"; {line})" if line else ")"
    if fault.cause in ("out of bounds", "null") and fault.space == "global":
        match = _OPCODE.match(place.statement)
        verb = _VERBS.get(match[1] if match else "", "touches")
        what = f"{verb} {fault.nbytes} bytes at {address:#x}, outside of every CUDA tensor"
        if fault.cause == "null":
            what += ", a null pointer"
        elif tensors := names.tensors():
            what += f": {_nearest(tensors, address)}"
    else:
        what = fault.message.removeprefix(f"{place.kernel}: ").removesuffix(f" ({place})")
    text = f"ptxview: {who} of launch {number} of {names.kernel}, grid {grid}, {what}{after}"
    cuda = _CUDA.get(fault.cause)
    return KernelFault(f"CUDA error: {cuda}\n{text}" if cuda else text)


def _nearest(tensors: dict[str, Any], address: int) -> str:
    """The nearest argument, and how far the address is from it."""

    def beyond(tensor: Any) -> tuple[int, str]:
        first = int(tensor.data_ptr())
        if address < first:
            return first - address, "before the start"
        sides = zip(tensor.shape, tensor.stride(), strict=True)
        elements = 1 + sum((n - 1) * step for n, step in sides) if tensor.numel() else 0
        return address - first - elements * int(tensor.element_size()), "past the end"

    name, tensor = min(tensors.items(), key=lambda item: beyond(item[1])[0])
    distance, side = beyond(tensor)
    kind = str(tensor.dtype).removeprefix("torch.")
    where = f"{distance} bytes {side}" if distance else f"just {side}"
    return f"{where} of {name}, {kind} {list(tensor.shape)}, the nearest argument"


def source(listing: Any, line: int, file: str) -> str:
    """The program's line that a line of PTX was made from; empty if unknown."""
    if not 0 < line <= len(listing.lines):
        return ""
    first = line
    # Within assembly LLVM counts its lines as if they were the source's: the first one's is right.
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
    """Of places in sources, innermost first, the first in the program's own files.

    ``file`` is the kernel's: Triton's cache may hold code that was made from a copy elsewhere.
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
