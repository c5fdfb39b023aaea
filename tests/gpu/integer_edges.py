"""Print what a CUDA device gives for integer arithmetic at its edges, in eager mode and compiled.

    python tests/gpu/integer_edges.py                                  on a machine with a GPU
    ptxview run --no-tui --values ptx tests/gpu/integer_edges.py       the emulated device

Both print the same lines: division by zero, of the least integer by -1, shifts by the width and
more, ``abs`` and ``neg`` of the least integer, casts of floats that the integer cannot hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
OPERATIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a // b": lambda a, b, s: a // b,
    "div(a, b, 'trunc')": lambda a, b, s: torch.div(a, b, rounding_mode="trunc"),
    "a % b": lambda a, b, s: a % b,
    "fmod(a, b)": lambda a, b, s: torch.fmod(a, b),
    "a << s": lambda a, b, s: a << s,
    "a >> s": lambda a, b, s: a >> s,
    "abs(a)": lambda a, b, s: a.abs(),
    "-a": lambda a, b, s: -a,
}
INFINITY = float("inf")
NUMBERS = (INFINITY, -INFINITY, float("nan"), 3e38, -3e38, 2.0**31, -1.0, 300.0, -129.0, 2.0**32)
"""Rounded to each type of floats; half precision has infinities for the large ones."""


def integers(dtype: Any) -> tuple[Any, Any, Any]:
    """Dividends, divisors and shifts of one type."""
    info = torch.iinfo(dtype)
    low, high, width = info.min, info.max, info.bits
    third = -3 if low else 3
    rows: Sequence[Sequence[int]] = (
        (7, 5, low, high, low, 0, third, high),
        (2, 0, 0, 0, -1 if low else 1, 0, 2, 3),
        (0, 1, width - 1, width, width + 1, 100, 2, width),
    )
    a, b, s = (torch.tensor(row, dtype=dtype, device="cuda") for row in rows)
    return a, b, s


def show(name: str, dtype: Any, eager: Any, compiled: Any) -> None:
    first, second = eager.cpu().tolist(), compiled.cpu().tolist()
    also = "" if first == second else f"  compiled {second}"
    print(f"{name} {str(dtype).removeprefix('torch.')}: {first}{also}")


def main() -> None:
    operands = [integers(dtype) for dtype in DTYPES]
    for name, operation in OPERATIONS.items():

        def each(rows: Any, operation: Callable[[Any, Any, Any], Any] = operation) -> list[Any]:
            return [operation(a, b, s) for a, b, s in rows]

        compiled = torch.compile(each)(operands)
        for dtype, eager, result in zip(DTYPES, each(operands), compiled, strict=True):
            show(name, dtype, eager, result)
    for source in FLOATS:
        numbers = torch.tensor(NUMBERS, dtype=torch.float64).to(source).cuda()

        def casts(x: Any) -> list[Any]:
            return [x.to(dtype) for dtype in DTYPES + UNSIGNED]

        compiled = torch.compile(casts)(numbers)
        for dtype, eager, result in zip(DTYPES + UNSIGNED, casts(numbers), compiled, strict=True):
            show(f"from {str(source).removeprefix('torch.')} to", dtype, eager, result)


if __name__ == "__main__":
    main()
