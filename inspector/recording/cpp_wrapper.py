"""Reads the kernels of the C++ that AOTInductor writes in the place of Inductor's ``output_code``.

Each Triton kernel has a function that launches it, which begins with its Python in a comment:

    /*
    async_compile.triton('triton_poi_fused_sin_0', '''
    …
    ''', device_str='cuda')
    */
    …
    launchKernel(kernels_.triton_poi_fused_sin_0, grid_0, grid_1, grid_2, 4, 0, args_, stream_);

The text is read line by line with plain patterns; it is never compiled.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

_DEFINED = re.compile(r"^(\s{0,64})async_compile\.triton\('(\w{1,400})', '''")
_CLOSED = re.compile(r"^\s{0,64}'''")
_CALLED = re.compile(r"^\s{1,64}(?:launch|call)_(\w{1,400})\(")
_LAUNCHED = re.compile(
    r"^\s{1,64}launchKernel\((?:kernels_?\.)?(\w{1,400}), [^,]{1,400}, [^,]{1,400}, [^,]{1,400},"
    r" (\d{1,9}), (\d{1,9}),"
)
_SIGNATURE = re.compile(r"'signature': (\{[^{}]{0,100000}\})")
_HEAD = 20_000


@dataclass(frozen=True, slots=True)
class CppKernel:
    """A kernel's Python in the wrapper: the line that opens it, its last, and its text.

    ``launches`` are the lines that call what launches it. ``warps`` and ``shared`` are what it is
    launched with, None where that is not a number there; ``signature`` types by name.
    """

    name: str
    line: int
    last: int
    text: str
    launches: tuple[int, ...] = ()
    warps: int | None = None
    shared: int | None = None
    signature: Mapping[str, str] | None = None


def is_wrapper(text: str) -> bool:
    """Whether a text is AOTInductor's C++."""
    return "aoti_runtime" in text[:_HEAD] or "torch/csrc/inductor/" in text[:_HEAD]


def kernels(text: str) -> tuple[CppKernel, ...]:
    """The Triton kernels of a wrapper in the order of their definitions. Never raises."""
    lines = text.split("\n")
    texts: dict[str, tuple[int, int, str]] = {}
    calls: dict[str, list[int]] = {}
    launched: dict[str, tuple[int, int]] = {}
    n = 0
    while n < len(lines):
        line = lines[n]
        n += 1
        if match := _DEFINED.match(line):
            first, indent = n, match[1]
            while n < len(lines) and not _CLOSED.match(lines[n]):
                n += 1
            body = [x.removeprefix(indent) for x in lines[first:n]]
            n += 1
            texts.setdefault(match[2], (first, min(n, len(lines)), "\n".join(body)))
        elif match := _LAUNCHED.match(line):
            launched.setdefault(match[1], (int(match[2]), int(match[3])))
        elif match := _CALLED.match(line):
            calls.setdefault(match[1], []).append(n)
    out = []
    for name, (first, last, python) in texts.items():
        warps, shared = launched.get(name, (None, None))
        at = tuple(calls.get(name, ()))
        out.append(CppKernel(name, first, last, python, at, warps, shared, _signature(python)))
    return tuple(out)


def _signature(body: str) -> Mapping[str, str] | None:
    match = _SIGNATURE.search(body)
    if match is None:
        return None
    try:
        value = ast.literal_eval(match[1])
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else None
