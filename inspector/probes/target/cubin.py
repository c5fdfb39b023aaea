"""What a cubin says of one kernel, from its ELF sections: registers, stack, shared memory, threads.

This is what the CUDA driver would report after loading; Inductor's heuristics read it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

# .nv.info attributes, as cuobjdump names them
EIATTR_MAX_THREADS = 0x05
EIATTR_REQNTID = 0x10
EIATTR_FRAME_SIZE = 0x11
EIATTR_MIN_STACK_SIZE = 0x12
EIATTR_REGCOUNT = 0x2F
SHT_SYMTAB = 2


class Binary(NamedTuple):
    """Resources of one kernel; 0 registers where the file does not say.

    ``shared_bytes`` is the static shared memory of a block, with what the driver keeps of it;
    ``max_threads`` the most threads a block by ``.maxntid`` or ``.reqntid``, None without either.
    """

    registers: int
    stack_bytes: int
    shared_bytes: int = 0
    max_threads: int | None = None


def read(data: bytes, name: str) -> Binary:
    """The resources of the kernel ``name``; zeros where the file is no cubin or lacks it."""
    try:
        return _read(data, name)
    except (struct.error, IndexError, UnicodeDecodeError):
        return Binary(0, 0)


def _read(data: bytes, name: str) -> Binary:
    if data[:5] != b"\x7fELF\x02":
        return Binary(0, 0)
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    size, count, strings = struct.unpack_from("<HHH", data, 0x3A)
    sections = [
        struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)
    ]  # name, type, flags, address, offset, size, link, info, align, entry size

    def text(table: int, at: int) -> str:
        start = sections[table][4] + at
        return data[start : data.index(b"\0", start)].decode()

    registers = stack = shared = 0
    threads: int | None = None
    symbols: list[str] = []
    for section in sections:
        if section[1] == SHT_SYMTAB:
            for at in range(section[4], section[4] + section[5], 24):
                (entry,) = struct.unpack_from("<I", data, at)
                symbols.append(text(section[6], entry))
    for section in sections:
        title = text(strings, section[0])
        if title == f".text.{name}":
            registers = registers or section[7] >> 24
        elif title == f".nv.shared.{name}":
            shared = section[5]
        elif title == f".nv.info.{name}":
            for attribute, payload in _attributes(data[section[4] : section[4] + section[5]]):
                if attribute in (EIATTR_MAX_THREADS, EIATTR_REQNTID) and len(payload) == 12:
                    x, y, z = struct.unpack("<III", payload)
                    threads = x * y * z
        elif title == ".nv.info":
            for attribute, payload in _attributes(data[section[4] : section[4] + section[5]]):
                if len(payload) != 8:
                    continue
                symbol, value = struct.unpack("<II", payload)
                if symbol >= len(symbols) or symbols[symbol] != name:
                    continue
                if attribute == EIATTR_REGCOUNT:
                    registers = value
                elif attribute in (EIATTR_FRAME_SIZE, EIATTR_MIN_STACK_SIZE):
                    stack = max(stack, value)
    return Binary(registers, stack, shared, threads)


def _attributes(data: bytes) -> list[tuple[int, bytes]]:
    attributes, at = [], 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form != 0x04:  # the value is the size field itself
            continue
        attributes.append((attribute, data[at : at + size]))
        at += size
    return attributes
