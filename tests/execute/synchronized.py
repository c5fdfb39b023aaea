"""Sound kernels whose warps meet in shared memory, of Triton, of nvcc and of recordings."""

# mypy: allow-untyped-defs, allow-incomplete-defs
# ruff: noqa: N803

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product as every
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import triton
import triton.language as tl

from inspector.base.errors import PtxviewError
from inspector.execute import Program
from inspector.measure.recorded_launch import ChosenLaunch, LaunchOverrides, choose_launch
from inspector.reader.reader import Reader
from inspector.recording.layout import user_derived_cache
from inspector.sources.opening import open_path
from kernels import hint_triton
from tests.execute import judged, programs, test_bulk
from tests.execute.programs import Array, Made, make
from tests.helpers.ptxview import REPOSITORY
from tests.helpers.tools import path_of


class Specimen(NamedTuple):
    """A kernel with a launch; ``arguments`` makes them anew, after their memory if it is theirs."""

    name: str
    ptx: str
    entry: str | None
    grid: tuple[int, ...]
    threads: tuple[int, ...]
    shared: int
    arguments: Callable[[], list[Any]]


# -- kernels of Triton ----------------------------------------------------------------------------


@triton.jit
def rows_of(x_ptr, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    return at, tl.load(x_ptr + tl.program_id(0) * R * C + at)


@triton.jit
def summed(y_ptr, x_ptr, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    _, x = rows_of(x_ptr, R, C)
    size: tl.constexpr = C if AXIS == 0 else R
    at = tl.program_id(0) * size + tl.arange(0, size)
    tl.store(y_ptr + at, tl.sum(x, AXIS) + tl.max(x, AXIS))


@triton.jit
def greatest(y_ptr, x_ptr, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    _, x = rows_of(x_ptr, R, C)
    size: tl.constexpr = C if AXIS == 0 else R
    at = tl.program_id(0) * size + tl.arange(0, size)
    tl.store(y_ptr + at, tl.argmax(x, AXIS).to(tl.float32))


@triton.jit
def scanned(y_ptr, x_ptr, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    at, x = rows_of(x_ptr, R, C)
    tl.store(y_ptr + tl.program_id(0) * R * C + at, tl.cumsum(x, AXIS))


@triton.jit
def sorted_rows(y_ptr, x_ptr, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    at, x = rows_of(x_ptr, R, C)
    tl.store(y_ptr + tl.program_id(0) * R * C + at, tl.sort(x, 1))


@triton.jit
def turned(y_ptr, x_ptr, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    _, x = rows_of(x_ptr, R, C)
    at = tl.arange(0, C)[:, None] * R + tl.arange(0, R)[None, :]
    tl.store(y_ptr + tl.program_id(0) * R * C + at, tl.trans(x))


@triton.jit
def normalised(y_ptr, x_ptr, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    at, x = rows_of(x_ptr, R, C)
    x = x - tl.max(x, AXIS, keep_dims=True)
    x = tl.exp(x) / tl.sum(tl.exp(x), AXIS, keep_dims=True)
    tl.store(y_ptr + tl.program_id(0) * R * C + at, x * tl.sum(x))


@triton.jit
def picked(y_ptr, x_ptr, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    at, x = rows_of(x_ptr, R, C)
    index = (at * 7 + 3) % (R if AXIS == 0 else C)
    tl.store(y_ptr + tl.program_id(0) * R * C + at, tl.gather(x, index, AXIS))


@triton.jit
def binned(y_ptr, x_ptr, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    at = tl.program_id(0) * R * C + tl.arange(0, R * C)
    x = tl.load(x_ptr + at)
    bins = tl.histogram((tl.abs(x) * 20).to(tl.int32) % 64, 64)
    tl.atomic_add(y_ptr + tl.arange(0, 64), bins.to(tl.float32))


@triton.jit
def exchanged(y_ptr, x_ptr, R: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    """An atomic whose result every lane uses, in a loop."""
    at, x = rows_of(x_ptr, R, C)
    total = tl.zeros((R, C), tl.float32)
    for k in range(3):
        ticket = tl.atomic_add(y_ptr + tl.program_id(0), 1.0)
        total += x * ticket + tl.sum(x) * k
    tl.store(y_ptr + 64 + tl.program_id(0) * R * C + at, total)


@triton.jit
def attention(
    o_ptr, q_ptr, k_ptr, v_ptr, n, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * M + tl.arange(0, M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :])
    total = tl.zeros((M, D), tl.float32)
    most = tl.full((M,), -1e30, tl.float32)
    weight = tl.zeros((M,), tl.float32)
    for start in range(0, n, N):
        keys = start + tl.arange(0, N)
        k = tl.load(k_ptr + keys[None, :] * D + d[:, None])
        scores = tl.dot(q, k)
        now = tl.maximum(most, tl.max(scores, 1))
        p = tl.exp(scores - now[:, None])
        scale = tl.exp(most - now)
        v = tl.load(v_ptr + keys[:, None] * D + d[None, :])
        total = total * scale[:, None] + tl.dot(p.to(tl.float16), v)
        weight = weight * scale + tl.sum(p, 1)
        most = now
    tl.store(o_ptr + rows[:, None] * D + d[None, :], total / weight[:, None])


def normal(*shape: int, kind: Any = np.float32) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(kind)


def fresh(arguments: list[Any]) -> list[Any]:
    """Arguments with copies of their arrays."""
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


def of_made(name: str, made: Made, grid: tuple[int, ...], *arguments: Any) -> Specimen:
    threads = (made.threads,)
    return Specimen(
        name, made.ptx, None, grid, threads, made.shared, partial(fresh, list(arguments))
    )


def of_triton() -> Iterator[Specimen]:
    for cc in (80, 90):
        yield from _rows_of_triton(cc)
        yield from _products_of_triton(cc)
        yield from _attention(cc)
    yield from _bulk_of_triton()


ROWS = (summed, greatest, scanned, sorted_rows, turned, normalised, picked, binned, exchanged)
ALONG_ROWS = (sorted_rows, turned, binned, exchanged)
"""Kernels that have no use for an axis."""
POINTERS = (("y_ptr", "*fp32"), ("x_ptr", "*fp32"))


def _rows_of_triton(cc: int) -> Iterator[Specimen]:
    for kernel, (r, c, warps), axis in every(ROWS, ((32, 64, 4), (4, 256, 8)), (0, 1)):
        if axis == 0 and kernel in ALONG_ROWS:
            continue
        made = make(kernel, POINTERS, (("R", r), ("C", c), ("AXIS", axis)), cc, warps, 3, (0, 1))
        name = f"{kernel.fn.__name__} {r}×{c} {axis} sm_{cc}"
        yield of_made(name, made, (3,), np.zeros(64 + 3 * r * c, np.float32), normal(3, r, c))
    x = normal(5, 1000)
    y = np.zeros_like(x)
    weights = (normal(1000), normal(1000))
    yield of_made(f"softmax sm_{cc}", programs.softmax(cc), (5,), y, x, 1000, 1000, 1000)
    made = programs.layer_norm(cc)
    yield of_made(f"layer_norm sm_{cc}", made, (5,), y, x, *weights, 1000, 1000, 1e-5)
    for kernel in (hint_triton.row_sums, hint_triton.row_sums_after):
        signature: Any = (("output_ptr", "*fp32"), ("input_ptr", "*fp32"), ("n_cols", "i32"))
        made = make(kernel, signature, (("BLOCK_SIZE", 512),), cc)
        name = f"{kernel.fn.__name__} sm_{cc}"
        yield of_made(name, made, (4,), np.zeros(64, np.float32), normal(4, 2048), 2048)


def _products_of_triton(cc: int) -> Iterator[Specimen]:
    tiles = ((64, 64, 32), (128, 64, 64), (32, 32, 32))
    m, n, k = 256, 128, 192
    for kind, tile, stages in every(("fp16", "fp32"), tiles, (1, 3)):
        made = programs.matmul(kind, cc, tile, stages)
        dtype = np.float16 if kind == "fp16" else np.float32
        matrices = (normal(m, k, kind=dtype), normal(k, n, kind=dtype), np.zeros((m, n), dtype))
        grid = (-(-m // tile[0]) * -(-n // tile[1]),)
        yield of_made(
            f"matmul {kind} {tile} {stages} sm_{cc}", made, grid, *matrices, m, n, k, k, n, n
        )


def _attention(cc: int) -> Iterator[Specimen]:
    signature: Any = (
        *(("o_ptr", "*fp32"), ("q_ptr", "*fp16"), ("k_ptr", "*fp16"), ("v_ptr", "*fp16")),
        ("n", "i32"),
    )
    for m, n, d, warps in ((64, 32, 64, 4), (128, 64, 64, 8)):
        constants = (("M", m), ("N", n), ("D", d))
        made = make(attention, signature, constants, cc, warps, 2, (0, 1, 2, 3))
        rows = [normal(256, d, kind=np.float16) for _ in "qkv"]
        output = np.zeros((2 * m, d), np.float32)
        yield of_made(f"attention {m} {n} sm_{cc}", made, (2,), output, *rows, 256)


def _bulk_of_triton() -> Iterator[Specimen]:
    """Kernels with tensor maps, mbarriers, and warps that specialise."""
    x, y = normal(48, 64), np.zeros((48, 64), np.float32)
    for width in (16, 32):
        made = test_bulk.made_of(test_bulk.doubled, 90, "*fp32 *fp32 i32 i32", BM=16, BN=width)
        yield _with_scratch(f"doubled {width}", made, (3, 2), x, y, 48, 64)
    a, b = normal(128, 320, kind=np.float16), normal(320, 192, kind=np.float16)
    types = "*fp16 *fp16 *fp16 i32 i32 i32"
    for special, cc in every((False, True), (90, 120)):
        made = test_bulk.made_of(test_bulk.product, cc, types, BM=64, BN=64, BK=64, SPECIAL=special)
        c = np.zeros((128, 192), np.float16)
        name = f"product special={special} sm_{cc}"
        yield _with_scratch(name, made, (2, 3), a, b, c, 128, 192, 320)
    made = test_bulk.made_of(test_bulk.added, 90, "*fp32 *fp32 i32 i32", BM=16, BN=32)
    yield _with_scratch("added", made, (3, 2), x, y, 48, 64)
    made = test_bulk.made_of(test_bulk.gathered, 100, "*fp32 *i32 *fp32 i32 i32", BN=32, ROWS=32)
    rows = np.arange(32, dtype=np.int32)[::-1].copy()
    out = np.ones((32, 32), np.float32)
    yield _with_scratch("gathered", made, (1,), normal(50, 32), rows, out, 50, 32)


def _with_scratch(name: str, made: Made, grid: tuple[int, ...], *arguments: Any) -> Specimen:
    """A kernel that makes its tensor maps in global memory."""
    scratch = np.zeros(prod(grid) * 4096, np.uint8)
    block = Program(made.ptx).required_block or (made.threads,)
    return of_made(name, made, grid, *arguments, scratch)._replace(threads=block)


# -- kernels of nvcc and of recordings ------------------------------------------------------------

CUDA_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "product16": (normal(48, 32), normal(32, 16), np.zeros(4096, np.float32), 32),
    "copied_ahead": (normal(4096, 4), np.zeros((1 << 14, 4), np.float32), 4),
    "copied_once": (normal(4096, 4), np.zeros((1 << 14, 4), np.float32)),
}
"""What kernels of synchronized.cu take that do not take one array and give another."""


def of_cuda() -> Iterator[Specimen]:
    source = judged.DATA / "synchronized.cu"
    integers = np.random.default_rng(1).integers(0, 4096, 4096).astype(np.int32)
    heads = re.findall(r"KERNEL (\w+)\((.*?)\)", source.read_text("utf-8"))
    for cc in (80, 90):
        text = compiled(source, cc)
        for entry, parameters in heads:
            x = normal(4096) if "float" in parameters else integers
            arguments = CUDA_ARGUMENTS.get(entry, (x, np.zeros(1 << 14, np.int32)))
            others = rf"\.visible \.entry (?!{entry}\b).*?\n}}"
            alone = re.sub(others, "", text, flags=re.DOTALL)
            made = partial(fresh, list(arguments))
            yield Specimen(f"{entry} sm_{cc}", alone, entry, (3,), (256,), 0, made)


def compiled(source: Path, cc: int) -> str:
    """The PTX that nvcc makes of a file."""
    nvcc = path_of("nvcc")
    assert nvcc is not None, "this needs nvcc"
    with tempfile.TemporaryDirectory() as folder:
        ptx = Path(folder) / "out.ptx"
        options = ("-std=c++17", "-ptx", f"-arch=sm_{cc}", "-w", "-o", str(ptx))
        subprocess.run([nvcc, *options, str(source)], check=True)
        return ptx.read_text("utf-8")


def of_judged() -> Iterator[Specimen]:
    for row in judged.LAUNCHES:
        launch = (row.grid, row.threads, row.shared, row.arguments)
        yield Specimen(f"judged {row.name}", row.ptx, row.entry, *launch)
    text = (judged.DATA / "control.ptx").read_text("utf-8")
    arguments = partial(fresh, [np.arange(1024, dtype=np.int32), np.zeros(4096, np.int32)])
    for entry, threads in (("counted", 128), ("produce", 64), ("uneven", 64), ("early", 128)):
        yield Specimen(f"control {entry}", text, entry, (2,), (threads,), 0, arguments)


def of_recordings() -> Iterator[Specimen]:
    """The recorded calls of the recordings at hand."""
    paths = [
        *REPOSITORY.glob("examples/recordings/*.ptxview"),
        *REPOSITORY.glob("tests/data/*/*.ptxview"),
        REPOSITORY / "tests" / "data" / "core" / "lecture",
    ]
    for path in paths:
        reader = Reader(open_path(path), user_derived_cache())
        for kernel, variant in reader.recording.variants():
            try:
                chosen = choose_launch(reader, kernel, variant, LaunchOverrides())
            except PtxviewError:
                continue
            text = "\n".join(chosen.program.module.texts)
            call = chosen.launch
            launch = (call.grid, call.block, call.shared, partial(_recorded, chosen))
            name = f"{path.stem} {kernel.demangled[:40]} {variant.id}"
            yield Specimen(name, text, variant.symbol, *launch)


def _recorded(chosen: ChosenLaunch) -> list[Any]:
    inputs = chosen.make()
    return [inputs.memory, *inputs.arguments]
