"""What a kernel says itself: ``printf`` and ``assert``, which the system's functions are given."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

import numpy as np

from inspector.execute.access import ChunkMemory
from inspector.execute.kinds import Array, Mask, u8, u32, u64

MAX_TEXT_CHARS = 4096
"""Characters of a string that are read."""
MAX_PRINTED_LINES = 65_536
"""Lines that are kept of a launch; a GPU's own buffer holds about as many."""

_DIRECTIVE = re.compile(
    r"%([-+ #0]*+)(\*|\d++)?+(?:\.(\*|\d++))?+(hh|h|ll|l|L|z|t|j)?([diouxXeEfFgGaAcsp%])"
)
_LONG = ("l", "ll", "z", "t", "j")


def formatted(form: str, data: bytes, string_at: Callable[[int], str]) -> str:
    """``printf`` of a format and its arguments, as ``vprintf`` is given them on a GPU.

    Arguments stand one after another, each at a multiple of its size: 8 bytes of doubles, pointers
    and long integers, 4 of the others. ``string_at`` gives the string at an address.
    """
    at = 0

    def take(size: int, kind: str) -> int | float:
        nonlocal at
        at = -(-at // size) * size
        piece = data[at : at + size].ljust(size, b"\0")
        at += size
        value: int | float = struct.unpack("<" + kind, piece)[0]
        return value

    def shown(specifier: re.Match[str]) -> str:
        flags, width, precision, length, letter = specifier.groups()
        if letter == "%":
            return "%"
        sizes = [str(take(4, "i")) if part == "*" else part for part in (width, precision)]
        head = "%" + flags + (sizes[0] or "") + ("." + sizes[1] if sizes[1] is not None else "")
        if letter == "s":
            return (head + "s") % string_at(int(take(8, "Q")))
        if letter == "c":
            return (head + "c") % chr(int(take(4, "I")) & 255)
        if letter == "p":
            return (head + "s") % hex(int(take(8, "Q")))
        if letter in "eEfFgGaA":
            value = float(take(8, "d"))
            return value.hex() if letter in "aA" else (head + letter) % value
        wide = length in _LONG
        if letter in "di":
            return (head + "d") % take(8 if wide else 4, "q" if wide else "i")
        letter = "d" if letter == "u" else letter
        return (head + letter) % take(8 if wide else 4, "Q" if wide else "I")

    return _DIRECTIVE.sub(shown, form)


class Messages:
    """What the lanes of a chunk print, and the assertions that fail."""

    def __init__(self, memory: ChunkMemory, printed: list[str]) -> None:
        self.memory, self.lanes, self.printed = memory, memory.lanes, printed

    def print(self, n: int, form: Array, arguments: Array, mask: Mask) -> None:
        """``vprintf``: ``form`` and ``arguments`` are where its two parameters stand."""
        forms, lists = (self._parameter(n, x, u64, mask) for x in (form, arguments))
        for where in zip(*np.nonzero(self.lanes.full_mask(mask)), strict=True):
            if len(self.printed) >= MAX_PRINTED_LINES:
                return
            text = self._string(int(forms[where]))
            data = self._local(where, int(lists[where]), 1024)
            self.printed.append(formatted(text, data, self._string))

    def _parameter(self, n: int, address: Array, dtype: type, mask: Mask) -> Array:
        """A parameter of a call, of every lane."""
        return self.lanes.full(self.memory.fetch(n, "local", address, dtype, 1, mask)[0])

    def _string(self, address: int) -> str:
        """The string at an address of global memory, up to its end."""
        number = self.memory.memory.region_at(address)
        if number is None:
            return "(null)"
        region = self.memory.memory.regions[number]
        data = region.data[address - region.base :][:MAX_TEXT_CHARS].tobytes()
        return data.partition(b"\0")[0].decode("utf-8", "replace")

    def _local(self, where: tuple[int, int], address: int, size: int) -> bytes:
        """Bytes of one lane's local memory, at a generic address."""
        memory = self.memory
        offset = address & ((1 << 56) - 1)
        lane = int(where[0]) * self.lanes.width + int(where[1])
        first = lane * memory.local_size
        end = min(first + memory.local_size, first + offset + size)
        return memory.local[first + offset : end].view(u8).tobytes()

    def failed(self, n: int, operands: list[Array], mask: Mask) -> None:
        """``__assertfail``: of expression, file, line and function, given where they stand."""
        keep = self.lanes.full_mask(mask)
        if not keep.any():
            return
        where = self.lanes.first(keep)
        texts = [
            self._string(int(self._parameter(n, operands[k], u64, mask)[where])) for k in (0, 1)
        ]
        line = int(self._parameter(n, operands[2], u32, mask)[where])
        raise self.memory.scene.fault(
            "assertion", f"the assertion {texts[0]!r} of {texts[1]}, line {line}, failed", n, where
        )
