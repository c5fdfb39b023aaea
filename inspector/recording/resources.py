"""Reads figures of kernels out of what cuobjdump and ptxas print, and out of PTX."""

import re
from collections.abc import Iterator
from math import prod

from msgspec.structs import replace

from inspector.base.model import Resources
from inspector.parsers.ptx_statement import entries, thread_bounds

_FUNCTION = re.compile(r"^\s*Function (.+):\s*$")
_FIGURE = re.compile(r"\b([A-Z]+)(?:\[\d+\])?:(\d{1,9}+)(?!\d)")
_COMPILING = re.compile(r"Compiling entry function '([^']+)'|Function properties for (\S+)")
_SPILLS = re.compile(
    r"(?<!\d)(\d{1,9}+) bytes stack frame, (\d{1,9}+) bytes spill stores, "
    r"(\d{1,9}+) bytes spill loads"
)
_BARRIERS = re.compile(r"used (\d{1,9}+)(?!\d) barriers")


def from_res_usage(text: str) -> dict[str, Resources]:
    """``cuobjdump -res-usage``: registers, stack and static shared bytes, by function."""
    return {
        name: Resources(
            registers=figures.get("REG"),
            stack_bytes=figures.get("STACK"),
            static_shared_bytes=figures.get("SHARED"),
        )
        for name, figures in _res_usage(text)
    }


def without_local_memory(text: str) -> frozenset[str]:
    """Functions of ``cuobjdump -res-usage`` with neither a stack nor other local memory. Functions
    without registers are left out: they are not linked yet, and their figures unknown."""
    return frozenset(
        name
        for name, figures in _res_usage(text)
        if figures.get("REG") and figures.get("STACK") == 0 and figures.get("LOCAL") == 0
    )


def _res_usage(text: str) -> Iterator[tuple[str, dict[str, int]]]:
    """Each function with its figures, as ``cuobjdump -res-usage`` calls them."""
    name: str | None = None
    for line in text.splitlines():
        if match := _FUNCTION.match(line):
            name = match[1]
        elif name is not None and "REG:" in line:
            yield name, {key: int(figure) for key, figure in _FIGURE.findall(line)}
            name = None


def from_ptxas(text: str) -> dict[str, Resources]:
    """``ptxas -v``: spilled bytes and barriers, by function."""
    out: dict[str, Resources] = {}
    name = ""
    for line in text.splitlines():
        if match := _COMPILING.search(line):
            name = match[1] or match[2]
        if match := _SPILLS.search(line):
            out[name] = replace(
                out.get(name, Resources()),
                spill_store_bytes=int(match[2]),
                spill_load_bytes=int(match[3]),
            )
        if "Used " in line and " registers" in line:
            # Where the kernel has no barrier, ptxas 12 leaves the word out and ptxas 13 says 0.
            barriers = _BARRIERS.search(line)
            out[name] = replace(
                out.get(name, Resources()), barriers=int(barriers[1]) if barriers else 0
            )
    return out


def max_threads(ptx: str) -> dict[str, int]:
    """The threads a block that ``.reqntid`` or ``.maxntid`` allows, by kernel. For all kernels of a
    file at once, since there may be thousands."""
    out: dict[str, int] = {}
    for name, header in entries(ptx):
        limits = thread_bounds(header)
        threads = limits.get("reqntid") or limits.get("maxntid")
        if threads is not None:
            out.setdefault(name, prod(threads))
    return out


def merge(*parts: Resources) -> Resources:
    figures: dict[str, int | None] = {}
    for name in Resources.__struct_fields__:
        values = (value for part in parts if (value := getattr(part, name)) is not None)
        figures[name] = next(values, None)
    return Resources(**figures)
