"""Launches of which ncu on an H200 says what every instruction asked of memory.

The PTX is Triton's, and that of control.cu: what ncu counted belongs to these texts.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DATA = Path(__file__).parent.parent / "data" / "execute"
FOLDER = DATA / "judged"
Array = np.ndarray[Any, Any]


class Judged(NamedTuple):
    """A launch: its PTX, and arguments, with arrays placed as by cudaMalloc."""

    name: str
    file: Path
    entry: str
    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    shared: int
    arguments: Callable[[], list[Any]]

    @property
    def ptx(self) -> str:
        return self.file.read_text("utf-8")


def placed(value: Array) -> Array:
    """A copy at a multiple of 512 bytes."""
    whole = np.zeros(value.nbytes + 1024, np.uint8)
    first = -whole.ctypes.data % 512
    out = whole[first : first + value.nbytes].view(value.dtype).reshape(value.shape)
    out[...] = value
    return out


def floats(*shape: int, kind: Any = np.float32) -> Array:
    return placed(np.random.default_rng(len(shape)).standard_normal(shape).astype(kind))


def zeros(*shape: int, kind: Any = np.float32) -> Array:
    return placed(np.zeros(shape, kind))


def whole(count: int, below: int) -> Array:
    return placed(np.random.default_rng(below).integers(0, below, count, np.int32))


def _of_triton(
    name: str,
    grid: tuple[int, ...],
    shared: int,
    arguments: Callable[[], list[Any]],
    threads: int = 128,
) -> Judged:
    entry = f"{name.rpartition('_sm')[0] or name}_kernel"
    x, y, z = (*grid, 1, 1)[:3]
    return Judged(
        name, FOLDER / f"{name}.ptx", entry, (x, y, z), (threads, 1, 1), shared, arguments
    )


def _of_control(
    entry: str, grid: tuple[int, ...], threads: tuple[int, ...], arguments: Callable[[], list[Any]]
) -> Judged:
    (x, y, z), (a, b, c) = (*grid, 1, 1)[:3], (*threads, 1, 1)[:3]
    return Judged(entry, DATA / "control.ptx", entry, (x, y, z), (a, b, c), 0, arguments)


def _products() -> list[Any]:
    a, b = floats(256, 320, kind=np.float16), floats(320, 192, kind=np.float16)
    return [a, b, zeros(256, 192, kind=np.float16), 256, 192, 320, 320, 192, 192]


def _norm() -> list[Any]:
    return [zeros(500, 1000), floats(500, 1000), *[floats(1000)] * 2, 1000, 1000, np.float32(1e-5)]


def _turned() -> list[Any]:
    return [floats(384, 384), zeros(384, 384), 384]


def _counted(count: int, below: int, bins: int) -> list[Any]:
    return [whole(count, below), zeros(bins, kind=np.int32), count]


LAUNCHES = (
    _of_triton("softmax", (1823,), 16, lambda: [zeros(1823, 781), floats(1823, 781), *[781] * 3]),
    _of_triton("layer_norm", (500,), 2048, _norm),
    _of_triton("matmul_sm90", (12,), 32768, _products),
    _of_triton("matmul_sm80", (12,), 16384, _products),
    _of_triton("transpose", (10, 7), 4096, lambda: [zeros(300, 200), floats(200, 300), 200, 300]),
    _of_triton("gelu", (98,), 0, lambda: [zeros(100_000), floats(100_000), 100_000]),
    _of_control("turned", (12, 12), (32, 32), _turned),
    _of_control("turned_padded", (12, 12), (32, 32), _turned),
    _of_control("histogram", (40,), (256,), lambda: _counted(100_000, 64, 64)),
    _of_control("strided", (100,), (128,), lambda: [floats(12800 * 3), zeros(12800), 3]),
    _of_control("collatz", (40,), (256,), lambda: _counted(10_000, 1000, 10_000)),
)
"""Every launch; the shapes are such that some lanes are off and some rows are not aligned."""
