"""Values of kernels that Triton compiles, for every family of GPUs, against double precision."""

from __future__ import annotations

import math

import numpy as np
import pytest

from inspector.execute import Program
from tests.execute import programs
from tests.execute.programs import Array, launch

ROWS, COLUMNS = 300, 781
ARCHITECTURES = [80, 90, *(pytest.param(cc, marks=pytest.mark.nightly) for cc in (75, 100, 120))]
PRODUCTS = [("fp16", 80), ("bf16", 90), ("fp32", 90), ("fp8e5", 80)]
OTHERS = [(k, cc) for k, _ in PRODUCTS for cc in (75, 80, 90, 120) if (k, cc) not in PRODUCTS]


def some(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ulps(made: Array, exact: Array) -> float:
    """The greatest distance from the exact values, in units of single precision's last place."""
    spacing = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    return float(np.max(np.abs(made.astype(np.float64) - exact) / spacing))


@pytest.mark.parametrize("cc", ARCHITECTURES)
def test_square_is_exact_up_to_its_one_rounding(cc: int) -> None:
    x, out = some(ROWS, COLUMNS), np.full((ROWS, COLUMNS), np.nan, np.float32)
    made = programs.square(cc)
    launch(made.ptx, (ROWS,), made.threads, [out, x, COLUMNS, COLUMNS, COLUMNS])
    assert ulps(out, x.astype(np.float64) ** 2) <= 0.5


@pytest.mark.parametrize("cc", ARCHITECTURES)
def test_a_softmax_of_every_architecture_is_exact_to_ulps(cc: int) -> None:
    x, out = some(ROWS, COLUMNS), np.full((ROWS, COLUMNS), np.nan, np.float32)
    made = programs.softmax(cc)
    launch(made.ptx, (ROWS,), made.threads, [out, x, COLUMNS, COLUMNS, COLUMNS], shared=made.shared)
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(1, keepdims=True))
    assert ulps(out, powers / powers.sum(1, keepdims=True)) < 20


@pytest.mark.parametrize("cc", ARCHITECTURES)
def test_a_layer_norm_of_every_architecture_is_exact_to_ulps(cc: int) -> None:
    x, out = some(ROWS, COLUMNS), np.full((ROWS, COLUMNS), np.nan, np.float32)
    weight, bias = some(COLUMNS, seed=1), some(COLUMNS, seed=2)
    made = programs.layer_norm(cc)
    launch(
        made.ptx,
        (ROWS,),
        made.threads,
        [out, x, weight, bias, COLUMNS, COLUMNS, 1e-5],
        shared=made.shared,
    )
    wide = x.astype(np.float64)
    exact = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    assert np.abs(out - (exact * weight + bias)).max() < 4e-6


@pytest.mark.parametrize("cc", (80, 90))
def test_gelu_by_the_error_function(cc: int) -> None:
    x, out = some(5000), np.full(5000, np.nan, np.float32)
    made = programs.gelu(cc)
    launch(made.ptx, (5,), made.threads, [out, x, 5000])
    exact = [0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.astype(np.float64)]
    assert np.abs(out - exact).max() < 5e-7


@pytest.mark.parametrize(
    ("kind", "cc"), [*PRODUCTS, *(pytest.param(*one, marks=pytest.mark.nightly) for one in OTHERS)]
)
def test_a_product_on_tensor_cores_is_exact_to_its_types(kind: str, cc: int) -> None:
    """mma.sync on sm_75 to sm_89 and sm_120, wgmma on sm_90; fp32 as tf32 where there is it."""
    m, n, k = 128, 64, 96
    a, b = some(m, k), some(k, n, seed=1)
    out: Array = np.full((m, n), np.nan, np.float32)
    left, right = a, b
    if kind == "fp16":
        left = a = a.astype(np.float16)
        right = b = b.astype(np.float16)
        out = out.astype(np.float16)
    elif kind == "bf16":
        left, right = programs.bfloat16(a), programs.bfloat16(b)
        a, b = programs.from_bfloat16(left), programs.from_bfloat16(right)
        out = np.zeros((m, n), np.uint16)
    elif kind == "fp8e5":
        import torch

        first = torch.from_numpy(a).to(torch.float8_e5m2)
        second = torch.from_numpy(b).to(torch.float8_e5m2)
        left, right = (t.view(torch.uint8).numpy() for t in (first, second))
        a, b = (t.float().numpy() for t in (first, second))
    made = programs.matmul(kind, cc)
    grid = (-(-m // 64) * -(-n // 64),)
    launch(made.ptx, grid, made.threads, [left, right, out, m, n, k, k, n, n], shared=made.shared)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    given = programs.from_bfloat16(out) if kind == "bf16" else out.astype(np.float64)
    size = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    # Half a unit of the output's format, or what tf32's ten bits lose of each factor.
    unit = {"fp16": 2.0**-11, "bf16": 2.0**-8, "fp32": 0.0, "fp8e5": 0.0}[kind]
    inputs = 2.0**-10 if kind == "fp32" and cc >= 80 else 2.0**-20
    assert (np.abs(given - exact) <= unit * np.abs(exact) * 1.001 + inputs * size).all()


def test_all_that_the_project_keeps_of_real_programs_can_be_translated() -> None:
    from pathlib import Path

    data = Path(__file__).parent.parent / "data"
    texts = [path.read_text("utf-8") for path in sorted(data.rglob("*.ptx"))]
    assert len(texts) > 10
    refused = {}
    for text in texts:
        program = Program(text)
        for entry in program.module.entries:
            if obstacles := Program(program.module, entry).cannot():
                refused[entry] = obstacles
    assert not refused
