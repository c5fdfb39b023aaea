"""One kernel's registers, stack, shared memory and threads, from the ELF sections of a cubin.

The CUDA driver reports the same after loading; Inductor's heuristics read it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from math import prod
from typing import NamedTuple

# .nv.info attributes, as cuobjdump names them
EIATTR_MAX_THREADS = 0x05
EIATTR_REQNTID = 0x10
EIATTR_FRAME_SIZE = 0x11
EIATTR_MIN_STACK_SIZE = 0x12
EIATTR_REGCOUNT = 0x2F
EIFMT_SVAL = 0x04
SHT_SYMTAB = 2


class Binary(NamedTuple):
    """Resources of one kernel; 0 registers if unknown.

    ``shared_bytes`` is the static shared memory of a block, with the part that the driver reserves;
    ``max_threads`` the most threads a block by ``.maxntid`` or ``.reqntid``, None without either.
    """

    registers: int
    stack_bytes: int
    shared_bytes: int = 0
    max_threads: int | None = None


def read(data: bytes, name: str) -> Binary:
    """The resources of the kernel ``name``; zeros if the file is no cubin or lacks it."""
    try:
        return _read(data, name)
    except (struct.error, IndexError, UnicodeDecodeError):
        return Binary(0, 0)


def _read(data: bytes, name: str) -> Binary:
    if data[:5] != b"\x7fELF\x02":
        return Binary(0, 0)
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    size, count, strings = struct.unpack_from("<HHH", data, 0x3A)
    # name, type, flags, address, offset, size, link, info, align, entry size
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]

    def text(table: int, at: int) -> str:
        start = sections[table][4] + at
        return data[start : data.index(b"\0", start)].decode()

    titled = {text(strings, section[0]): section for section in sections}
    symbols = next((section for section in sections if section[1] == SHT_SYMTAB), (0,) * 10)
    number = -1
    for index, at in enumerate(range(symbols[4], symbols[4] + symbols[5], 24)):
        if text(symbols[6], *struct.unpack_from("<I", data, at)) == name:
            number = index
    code, shared = titled.get(f".text.{name}"), titled.get(f".nv.shared.{name}")
    registers, stack, threads = code[7] >> 24 if code else 0, 0, None
    for title in (".nv.info", f".nv.info.{name}"):
        for attribute, payload in _attributes(data, titled.get(title)):
            values = struct.unpack(f"<{len(payload) // 4}I", payload[: len(payload) // 4 * 4])
            if attribute in (EIATTR_MAX_THREADS, EIATTR_REQNTID) and len(values) == 3:
                threads = prod(values)
            elif values[:1] == (number,) and len(values) == 2:
                if attribute == EIATTR_REGCOUNT:
                    registers = values[1]
                elif attribute in (EIATTR_FRAME_SIZE, EIATTR_MIN_STACK_SIZE):
                    stack = max(stack, values[1])
    return Binary(registers, stack, shared[5] if shared else 0, threads)


def _attributes(data: bytes, section: tuple[int, ...] | None) -> Iterator[tuple[int, bytes]]:
    """Kind and value of the attributes in a section of ``.nv.info`` that have a longer value."""
    at, end = (section[4], section[4] + section[5]) if section else (0, 0)
    while at + 4 <= end:
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == EIFMT_SVAL:  # other values are in the size field itself
            yield attribute, data[at : at + size]
            at += size
