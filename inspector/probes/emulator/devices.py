"""Limits of the emulated device, and what kernels in cubins take of them.

Limits come from reference/devices.toml; they are typed in nowhere else.
"""

import tomllib
from collections.abc import Iterator
from functools import cache
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from . import executor

TABLE = Path(__file__).parents[2] / "reference" / "devices.toml"
# .nv.info attributes, as cuobjdump names them
EIATTR_MAX_THREADS = 0x05
EIATTR_REQNTID = 0x10
EIATTR_FRAME_SIZE = 0x11
EIATTR_MIN_STACK_SIZE = 0x12
EIATTR_REGCOUNT = 0x2F


@cache
def table() -> dict[str, dict[str, Any]]:
    """The whole table, by architecture."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


@cache
def find(arch: str) -> Any:
    """The limits of an architecture; ``sm_90a`` is found under ``sm_90``.

    An object with the table's fields; sizes are in bytes, and None or, of clocks, 0 is unknown.
    ``name`` is what torch and CUDA give: caches of measurements are keyed by it, so it is never the
    bare name of a real device. Raises ValueError, with the known architectures, for an unknown one.
    """
    rows = table()
    row = rows.get(arch) or rows.get(arch.rstrip("af"))
    if row is None:
        raise ValueError(f"no device data for {arch}; known: {', '.join(rows)}")
    unknown = dict.fromkeys(("clock_hz", "l2_bytes"))
    device = SimpleNamespace(arch=arch.rstrip("af"), **{**unknown, **row})
    device.name = f"{device.device} (emulated by ptxview, no GPU)"
    device.clock_khz = (device.clock_hz or 0) // 1000
    # Two transfers a clock over the bus.
    device.memory_clock_khz = device.memory_bandwidth * 8 // device.memory_bus_bits // 2000
    return device


class Binary(NamedTuple):
    """Resources of one kernel, as the driver reports them after loading it.

    ``registers`` are 0 if unknown. ``shared_bytes`` is the static shared memory of a block, with
    the part that the driver reserves; ``max_threads`` the most threads a block by ``.maxntid`` or
    ``.reqntid``, None without either.
    """

    registers: int
    stack_bytes: int
    shared_bytes: int = 0
    max_threads: int | None = None


def read_binary(data: bytes, name: str) -> Binary:
    """The resources of the kernel ``name`` in a cubin; zeros if the file is invalid or lacks it."""
    cubin = executor.load("parsers.cubin")
    try:
        sections = {section.name: section for section in cubin.read_sections(data)}
        symbols = list(cubin.read_symbols(sections[".symtab"].data))
        names = cubin.read_names(sections[".strtab"].data, (symbol.name for symbol in symbols))
        number = names.index(name)
        registers = sections[f".text.{name}"].header.info >> 24
    except (ValueError, KeyError):
        return Binary(0, 0)
    shared = sections.get(f".nv.shared.{name}")
    stack = 0
    threads = None
    for title in (".nv.info", f".nv.info.{name}"):
        info = sections[title].data if title in sections else b""
        for kind, words in _word_attributes(cubin, info):
            if kind in (EIATTR_MAX_THREADS, EIATTR_REQNTID) and len(words) == 3:
                threads = prod(words)
            elif len(words) != 2 or words[0] != number:
                continue
            elif kind == EIATTR_REGCOUNT:
                registers = words[1]
            elif kind in (EIATTR_FRAME_SIZE, EIATTR_MIN_STACK_SIZE):
                stack = max(stack, words[1])
    return Binary(registers, stack, shared.header.size if shared else 0, threads)


def _word_attributes(cubin: Any, info: bytes) -> Iterator[tuple[int, list[int]]]:
    """Kind and 32-bit words of the attributes of a ``.nv.info`` section that have a length."""
    for form, kind, value in cubin.attributes(info):
        if form == cubin.EIFMT_SVAL:
            words = [int.from_bytes(value[n : n + 4], "little") for n in range(0, len(value), 4)]
            yield kind, words
