"""Integer arithmetic at its edges on the emulated device: no error, and a GPU's values."""

from __future__ import annotations

from tests.probes.conftest import Run, ok

HEAD = """
import torch
def put(values, dtype): return torch.tensor(values, dtype=dtype, device="cuda")
def least(dtype): return torch.iinfo(dtype).min
"""


def test_integer_division_by_zero_gives_a_gpus_values(forked: Run) -> None:
    text = """
for dtype in (torch.uint8, torch.int16, torch.int32, torch.int64):
    a, b = put([7, 5, least(dtype)], dtype), put([2, 0, 0], dtype)
    print(*((a // b).tolist(), torch.div(a, b, rounding_mode="trunc").tolist()))
    print(*((a % b).tolist(), torch.fmod(a, b).tolist(), (5 % b).tolist()))
"""
    # All bits set, but 0 for a floor (torch 2.13); 64 bits whose upper halves are 0 as 32 bits.
    long = 0xFFFFFFFF
    assert ok(forked(HEAD + text)).out.splitlines() == [
        "[3, 255, 255] [3, 255, 255]",
        "[1, 255, 255] [1, 255, 255] [1, 255, 255]",
        "[3, 0, 0] [3, -1, -1]",
        "[1, -1, -1] [1, -1, -1] [1, -1, -1]",
        "[3, 0, 0] [3, -1, -1]",
        "[1, -1, -1] [1, -1, -1] [1, -1, -1]",
        f"[3, 0, 0] [3, {long}, -1]",
        f"[1, {long}, -1] [1, {long}, -1] [1, {long}, {long}]",
    ]


def test_the_least_integer_divided_by_minus_one_wraps(forked: Run) -> None:
    text = """
for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
    a, b = put([least(dtype)] * 40, dtype), put([-1] * 40, dtype)
    quotients = torch.div(a, b, rounding_mode="trunc"), a // b
    print(*((q == a).all().item() for q in quotients), (a % b).any().item())
"""
    assert ok(forked(HEAD + text)).out == "True True False\n" * 4


def test_division_in_place_and_into_a_result_keeps_its_type(forked: Run) -> None:
    text = """
a = put([[7, 8], [9, 10]], torch.int32)
b = put([2, 0], torch.int64)
out = torch.empty(2, 2, dtype=torch.int64, device="cuda")
torch.remainder(a, b, out=out)
by_scalar = torch.div(b, 0, rounding_mode="trunc")
print(a.remainder_(b).tolist(), a.dtype, out.tolist(), by_scalar.tolist())
"""
    expected = "[[1, -1], [1, -1]] torch.int32 [[1, 4294967295], [1, 4294967295]] "
    assert ok(forked(HEAD + text)).out == expected + "[4294967295, 4294967295]\n"


def test_floats_that_an_integer_cannot_hold_are_clamped(forked: Run) -> None:
    text = """
x = [float("inf"), -float("inf"), float("nan"), 2.0**32, -1.0, 300.0]
for source in (torch.float32, torch.float64):
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint32):
        numbers = put(x, source)
        assert numbers.to("cpu", dtype).tolist() == numbers.to(dtype).tolist()
        print(numbers.to(dtype).tolist())
"""
    most, least = (1 << 63) - 1, -(1 << 63)
    single = [
        [255, 0, 0, 0, 255, 44],  # c10 converts to int64 and cuts
        [-1, 0, 0, -1, -1, 44],  # nvcc converts to int32 and cuts
        [-1, 0, 0, -1, -1, 300],
        [0x7FFFFFFF, -0x80000000, 0, 0x7FFFFFFF, -1, 300],
        [most, least, least, 1 << 32, -1, 300],
        [0xFFFFFFFF, 0, 0, 0xFFFFFFFF, 0, 300],
    ]
    double = [row.copy() for row in single]
    double[3][2] = -0x80000000
    double[5][2] = 0x80000000
    lines = [str(row) for row in single + double]
    assert ok(forked(HEAD + text)).out.splitlines() == lines


def test_compiled_integers_are_those_of_eager_mode(forked: Run) -> None:
    text = """
def guarded(a, b): return torch.where(b == 0, 0, a // b)
def remainder(a, b): return a % b
def shifted(a, b): return a << b, a >> b, a.abs(), -a
def cast(x): return x.to(torch.int32)
a, b = put([7, 5, 8, least(torch.int32)], torch.int32), put([1, 0, 4, -1], torch.int32)
shifts = put([0, 31, 32, 100], torch.int32)
x = put([float("inf"), float("nan"), 3e38, -3e38], torch.float32)
for function in guarded, remainder, shifted, cast:
    operands = {"shifted": (a, shifts), "cast": (x,)}.get(function.__name__, (a, b))
    eager, compiled = function(*operands), torch.compile(function)(*operands)
    print(function.__name__, all(e.equal(c) for e, c in zip(eager, compiled)))
"""
    names = ("guarded", "remainder", "shifted", "cast")
    expected = [f"{name} True" for name in names]
    assert ok(forked(HEAD + text, values="ptx", inductor=True)).out.splitlines() == expected


def test_integers_are_counted_in_bins_as_a_gpu_counts_them(forked: Run) -> None:
    program = """
import torch
values = torch.arange(-3, 60)
def expected(bins, low, high):
    counts = [0] * bins
    for value in values.tolist():
        if low <= value <= high:
            counts[min((value - low) * bins // (high - low), bins - 1)] += 1
    return counts
for dtype in (torch.int32, torch.int64, torch.int8, torch.int16):
    on_device = values.to("cuda", dtype)
    for bins, low, high in ((49, 0, 49), (8, 0, 7), (5, 3, 40), (1, 0, 9)):
        counts = torch.histc(on_device, bins, low, high)
        assert counts.dtype == dtype and counts.is_cuda
        assert counts.tolist() == expected(bins, low, high), (dtype, bins, low, high)
    assert torch.histc(on_device, 4).tolist() == expected(4, -3, 59)
assert torch.histc(torch.full((3,), 7, device="cuda"), 2).tolist() == [0, 3]
assert torch.histc(torch.zeros(0, device="cuda", dtype=torch.int32), 2).tolist() == [0, 0]
floats = torch.linspace(-1, 1, 50, device="cuda")
assert torch.equal(torch.histc(floats, 7).cpu(), torch.histc(floats.cpu(), 7))
"""
    ok(forked(program))


def test_a_type_that_the_cpus_kernel_lacks_is_refused_with_the_reason(forked: Run) -> None:
    program = """
import torch
try:
    torch.histc(torch.zeros(3, device="cuda", dtype=torch.bool))
except NotImplementedError as error:
    print(error)
"""
    assert "emulated device computes aten::histc by the CPU's kernel" in ok(forked(program)).out
