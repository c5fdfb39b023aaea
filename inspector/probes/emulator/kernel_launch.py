"""One launch of a kernel in PTX, as it is run, refused or made absent."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from . import native

Size = tuple[int, int, int]
Memory = tuple[int, int, str]
"""First address, end, and description: ``float32 [30]``."""


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel in PTX, of Triton or of CUDA C++."""

    text: str
    """The PTX."""
    entry: str
    """The kernel's name in it."""
    name: str
    """The kernel's name in messages."""
    grid: Size
    block: Size | None
    """Threads of a block; None for the kernel's own ``.reqntid``."""
    shared: int
    """Bytes of dynamic shared memory."""
    arguments: list[Any]
    """A value for each parameter: bytes, or a number."""
    memory: Callable[[], dict[str, Memory]]
    """Finds the memory that arguments point at, by the names of these arguments in errors."""
    host: frozenset[tuple[int, int]]
    """Pieces of the host's memory that the kernel may touch."""
    scratch: tuple[tuple[int, int], ...] = ()
    """Size and alignment of the buffers that Triton's kernels get behind their arguments."""
    clusters: int = 1
    """Blocks of a cluster."""
    unit: str = "block"
    """``block`` or ``program``, in the language of the kernel."""
    file: str = ""
    """The kernel's source file."""
    obstacle: str = ""
    """Why the arguments cannot be passed on; empty if they can."""

    def pointers(self) -> Iterator[tuple[int, int]]:
        """Each argument's position with its 64-bit words that are addresses of device memory."""
        for position, value in enumerate(self.arguments):
            data = value if isinstance(value, bytes) else b""
            if isinstance(value, int):
                data = struct.pack("<Q", value & 0xFFFF_FFFF_FFFF_FFFF)
            for (word,) in struct.iter_unpack("<Q", data[: len(data) // 8 * 8]):
                if word and native.memory_around(word, word + 1):
                    yield position, word
