"""Structures that a launch on a GPU was given by value: their tensor maps and addresses are turned
into those of memory here."""

from collections.abc import Iterable, Iterator

import numpy as np

from inspector.analysis.argument_memory import ALIGNED
from inspector.analysis.tensor_maps import encoded_maps
from inspector.execute import Memory
from inspector.parsers.tensor_map import SIZE

WORD = 8
ADDRESSES = range(0x7000_0000_0000, 0x8000_0000_0000)
"""Where CUDA on Linux has its memory: a word of a structure in this range is an address."""


class DeviceMemory:
    """Memory for what structures point to: zeros, which take no place until they are written.

    ``structures`` are all of a launch's; tensors that overlapped on the GPU do so here. Behind an
    address that no tensor map is of are ``unsized`` bytes.
    """

    def __init__(self, structures: Iterable[bytes], memory: Memory, unsized: int) -> None:
        self._memory = memory
        self._unsized = unsized
        self._known: list[tuple[range, int]] = []
        """Ranges of the GPU's addresses, and where each begins here."""
        maps = [found for data in structures for _, found in encoded_maps(data)]
        for addresses in _joined(range(m.address, m.address + m.extent) for m in maps):
            self._allocate(addresses)

    def translated(self, data: bytes) -> bytes:
        """A structure with this memory's addresses."""
        out = bytearray(data)
        places = [place for place, _ in encoded_maps(data)]
        for place in range(0, len(data) - WORD + 1, WORD):
            in_map = any(place in range(start, start + SIZE) for start in places)
            address = int.from_bytes(data[place : place + WORD], "little")
            if place in places or (address in ADDRESSES and not in_map):
                out[place : place + WORD] = self._here(address).to_bytes(WORD, "little")
        return bytes(out)

    def _here(self, address: int) -> int:
        for addresses, start in self._known:
            if address in addresses:
                return start + address - addresses.start
        return self._allocate(range(address, address + self._unsized))

    def _allocate(self, addresses: range) -> int:
        raw = np.zeros(len(addresses) + ALIGNED, np.uint8)
        flat = raw[-raw.ctypes.data % ALIGNED :][: len(addresses)]
        start = flat.ctypes.data
        name = f"the memory at {addresses.start:#x}"
        self._memory.add_raw(name, start, flat.nbytes, owner=flat)
        self._known.append((addresses, start))
        return start


def _joined(ranges: Iterable[range]) -> Iterator[range]:
    """Ranges of addresses, those that overlap as one."""
    joined: list[range] = []
    for one in sorted(ranges, key=lambda r: r.start):
        if joined and one.start < joined[-1].stop:
            one = range(joined[-1].start, max(joined.pop().stop, one.stop))
        joined.append(one)
    yield from joined
