"""Values of the PTX that was compiled for the target: what a GPU would run, judged by torch."""

from __future__ import annotations

import re

import pytest

from tests.probes.conftest import Run, ok
from tests.probes.emulator.test_values import HEAD, READ

CANNOT = (
    HEAD
    + READ
    + """
{kernel}
x = torch.ones(128, device="cuda")
out = torch.zeros(128, device="cuda")
the_kernel[(1,)](out, x)
the_kernel[(1,)](out, x)
read("out", out)
read("x", x[:1])
"""
)
GLUON = """
from triton.experimental import gluon
from triton.experimental.gluon import language as ttgl
@gluon.jit
def the_kernel(out, x):
    layout: ttgl.constexpr = ttgl.BlockedLayout([1], [32], [4], [0])
    o = ttgl.arange(0, 128, layout)
    ttgl.store(out + o, ttgl.load(x + o) * 2)
"""
UNKNOWN = """
@triton.jit
def the_kernel(out, x):
    {line}
    o = tl.arange(0, 128)
    tl.store(out + o, tl.load(x + o) * 2)
"""
WAITS = UNKNOWN.format(line="tl.extra.cuda.gdc_wait()")


def test_each_change_of_a_kernel_fails_its_check(forked: Run) -> None:
    """The sound kernel agrees with torch in fp64; each change of one line shows."""
    text = (
        HEAD
        + """
import linecache, sys
SOURCE = '''
@triton.jit
def rows_kernel(out, x, w, n, stride, block: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, block)
    v = tl.load(x + row * stride + i, mask=i < n, other=-float("inf"))
    v = tl.exp(v - tl.max(v, 0))
    share = v / tl.sum(v, 0)
    scaled = share * tl.load(w + i, mask=i < n, other=0.0) - 0.5
    tl.store(out + row * n + i, scaled, mask=i < n)
'''
CHANGES = [
    ("sound", "", ""),
    ("no mask of the load", 'mask=i < n, other=-float("inf")', "mask=i < block"),
    ("no mask of the store", "scaled, mask=i < n", "scaled"),
    ("off by one", "row * n + i, scaled", "row * n + i + 1, scaled"),
    ("swapped operands", "* tl.load(w + i, mask=i < n, other=0.0) - 0.5",
     "* (0.5 - tl.load(w + i, mask=i < n, other=0.0))"),
    ("another stride", "row * stride", "row * n"),
    ("another reduction", "tl.sum(v, 0)", "tl.max(v, 0)"),
    ("another row", "tl.program_id(0)", "tl.program_id(1)"),
]
torch.manual_seed(0)
n, stride, rows = 100, 104, 37
x, w = torch.randn(rows, stride), torch.rand(n)
want = x[:, :n].double().softmax(-1) * w.double() - 0.5
for number, (name, old, new) in enumerate(CHANGES):
    assert not old or SOURCE.count(old) == 1
    source, file = SOURCE.replace(old, new) if old else SOURCE, f"<rows {number}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space = {"triton": triton, "tl": tl}
    exec(compile(source, file, "exec"), space)
    whole = torch.full((rows + 2, n), 7.0, device="cuda")
    out = whole[:rows]
    try:
        space["rows_kernel"][(rows,)](out, x.cuda(), w.cuda(), n, stride, block=128)
        torch.testing.assert_close(out.cpu().double(), want, rtol=1e-6, atol=1e-6)
        assert (whole[rows:] == 7).all(), "it wrote past the end"
        print(name, "agrees")
    except (AssertionError, RuntimeError):
        print(name, "fails")
"""
    )
    said = dict(line.rsplit(" ", 1) for line in ok(forked(text)).out.splitlines())
    assert said.pop("sound") == "agrees"
    assert len(said) == 7 and set(said.values()) == {"fails"}, said


def test_arguments_of_every_type_arrive(forked: Run) -> None:
    text = (
        HEAD
        + """
@triton.jit
def scalars_kernel(out, whole, half, brain, single, double, yes, byte, wide, negative, pair, none,
                   fixed: tl.constexpr, one):
    tl.store(out + 0, half.to(tl.float64))
    tl.store(out + 1, brain.to(tl.float64))
    tl.store(out + 2, single.to(tl.float64))
    tl.store(out + 3, double.to(tl.float64))
    tl.store(out + 4, yes.to(tl.float64))
    tl.store(out + 5, byte.to(tl.float64))
    tl.store(out + 6, negative.to(tl.float64))
    tl.store(out + 7, pair[1].to(tl.float64) + fixed + one)
    tl.store(whole, wide)
    tl.store(pair[0], tl.load(pair[0]) * 2)
    if none is not None:
        tl.store(none, 1.0)
out = torch.zeros(8, device="cuda", dtype=torch.float64)
whole = torch.zeros(1, device="cuda", dtype=torch.int64)
inside = torch.full((3,), 21.0, device="cuda", dtype=torch.bfloat16)[1:]
scalars_kernel.arg_names
typed = triton.jit(scalars_kernel.fn)
typed[(1,)](out, whole, 0.1, 0.1, 0.1, 0.1, True, 200, 2**61 + 3, -5, (inside, 1000), None, 7, 1)
print(out.tolist(), whole.item(), inside.tolist())
annotated = scalars_kernel.fn
annotated.__annotations__.update(half="fp16", brain="bf16", single="fp32", double="fp64",
                                 byte="u8", negative="i16")
triton.jit(annotated)[(1,)](
    out, whole, 0.1, 0.1, 0.1, 0.1, False, 200, -(2**62), -5, (inside, 1000), None, 7, 1)
print(out.tolist(), whole.item(), inside.tolist())
"""
    )
    first, second = ok(forked(text)).out.splitlines()
    single = 0.10000000149011612
    assert first == (
        f"{[single, single, single, single, 1.0, 200.0, -5.0, 1008.0]} {2**61 + 3} [42.0, 21.0]"
    )
    # torch's own roundings; Triton's launcher cuts bf16 off
    assert second == (
        f"{[0.0999755859375, 0.099609375, single, 0.1, 0.0, 200.0, -5.0, 1008.0]} {-(2**62)} "
        "[84.0, 21.0]"
    )


def test_programs_of_several_blocks_sum_across_their_cluster(forked: Run) -> None:
    text = (
        HEAD
        + """
@triton.jit
def row_sums(x, y, N: tl.constexpr):
    row = tl.program_id(0)
    tl.store(y + row, tl.sum(tl.load(x + row * N + tl.arange(0, N))))
x = torch.arange(2048, device="cuda", dtype=torch.float32).reshape(2, 1024)
y = torch.empty(2, device="cuda")
row_sums[(2,)](x, y, 1024, num_ctas=2, num_warps=1)
print(y.tolist())
"""
    )
    assert ok(forked(text)).out.splitlines() == [f"{[523776.0, 1572352.0]}"]


@pytest.mark.parametrize("kernel", [GLUON, WAITS], ids=["gluon", "gdc"])
def test_gluon_and_dependent_launches_have_values(forked: Run, kernel: str) -> None:
    done = ok(forked(CANNOT.format(kernel=kernel)))
    assert done.out.splitlines() == [f"out {[2.0] * 128}", "x [1.0]"]
    assert not done.said("ptxview:")


def test_products_of_tensor_memory_have_values(forked: Run) -> None:
    text = (
        HEAD
        + """
@triton.jit
def product_kernel(a, b, c, n: tl.constexpr):
    i = tl.arange(0, n)
    at = i[:, None] * n + i[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))
a, b = (torch.arange(128 * 128, device="cuda").reshape(128, 128).mul(k).remainder(7).half()
        for k in (3, 5))
c = torch.zeros(128, 128, device="cuda")
product_kernel[(1,)](a, b, c, 128)
print("tcgen05.mma" in product_kernel.device_caches[0][0].popitem()[1].asm["ptx"])
print(torch.equal(c, a.float() @ b.float()))
"""
    )
    assert ok(forked(text, arch="sm_100")).out.splitlines() == ["True", "True"]


SCALED = """
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout, TensorMemoryScalesLayout, allocate_tensor_memory, tcgen05_commit,
    tcgen05_copy, tcgen05_mma_scaled)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
@gluon.jit
def scales_of(pointer):
    # as a GPU's copy takes them: (rows / 128, K / 128, 32, 4, 4)
    flat: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [4, 3, 2, 1, 0])
    shared = gl.allocate_shared_memory(gl.uint8, [1, 1, 32, 4, 4], plain)
    shared.store(gl.load(pointer + gl.arange(0, 512, flat)).reshape(1, 1, 32, 4, 4))
    fence_async_shared()
    scales = allocate_tensor_memory(gl.uint8, [128, 4], TensorMemoryScalesLayout())
    tcgen05_copy(shared.permute((0, 3, 2, 1, 4)).reshape((128, 4)), scales)
    return scales
@gluon.jit
def product_kernel(a_map, b_map, c_map, a_scales, b_scales):
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    mbarrier.init(done, count=1)
    a = gl.allocate_shared_memory(a_map.dtype, a_map.block_type.shape, a_map.layout)
    b = gl.allocate_shared_memory(b_map.dtype, b_map.block_type.shape, b_map.layout)
    mbarrier.expect(bar, a_map.block_type.nbytes + b_map.block_type.nbytes)
    tma.async_load(a_map, [0, 0], bar, a)
    tma.async_load(b_map, [0, 0], bar, b)
    mbarrier.wait(bar, 0)
    c = allocate_tensor_memory(gl.float32, [128, 128], TensorMemoryLayout([128, 128], col_stride=1))
    tcgen05_mma_scaled(a, b.permute((1, 0)), c, scales_of(a_scales), scales_of(b_scales),
                       "e4m3", "e2m1", use_acc=False)
    tcgen05_commit(done)
    mbarrier.wait(done, 0)
    out = gl.allocate_shared_memory(gl.float32, [128, 128], c_map.layout)
    out.store(c.load())
    fence_async_shared()
    tma.async_store(c_map, [0, 0], out)
    tma.store_wait(0)
def descriptor(tensor, kind, **options):
    layout = gl.NVMMASharedLayout.get_default_for(list(tensor.shape), kind, **options)
    return TensorDescriptor.from_tensor(tensor, list(tensor.shape), layout)
torch.manual_seed(0)
a = torch.randn(128, 128).to(torch.float8_e4m3fn)
b = torch.randint(0, 256, (128, 64), dtype=torch.uint8)
scales = [torch.randint(125, 130, (128, 4), dtype=torch.uint8) for _ in range(2)]
packed = [s.reshape(1, 4, 32, 1, 4).permute(0, 3, 2, 1, 4).contiguous().cuda() for s in scales]
c = torch.zeros(128, 128, device="cuda")
product_kernel[(1,)](
    descriptor(a.cuda(), gl.float8e4nv), descriptor(b.cuda(), gl.uint8, fp4_padded=True),
    descriptor(c, gl.float32), *packed)
values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.double)
values = torch.cat((values, -values))
b = values[torch.stack((b & 15, b >> 4), -1).reshape(128, 128).int()]
a, b = (x.double() * (2.0 ** (s.double() - 127)).repeat_interleave(32, 1)
        for x, s in zip((a, b), scales))
print(float((c.cpu() - a @ b.T).abs().max() / (a @ b.T).abs().max()) < 1e-6)
"""


def test_scaled_products_of_gluon_equal_fp64(forked: Run) -> None:
    """By TMA, of which the elements of 4 bits are padded in shared memory; scales are copied."""
    assert ok(forked(HEAD + SCALED, arch="sm_100")).out.splitlines() == ["True"]


def test_outputs_of_what_cannot_be_executed_are_absent_with_one_warning(forked: Run) -> None:
    text = (
        HEAD
        + READ
        + """
@triton.jit
def counting_kernel(a, c):
    i = tl.arange(0, 128)
    count = tl.inline_asm_elementwise("mov.u32 $0, %pm0;", "=r,r", [i], tl.int32, True, 1)
    tl.store(c + i, tl.load(a + i) + count)
a = torch.ones(128, device="cuda")
c = torch.zeros(128, device="cuda")
for _ in range(2):
    counting_kernel[(1,)](a, c)
read("c", c)
read("a", a[:1])
"""
    )
    done = ok(forked(text))
    (line,) = done.said("ptxview:")
    assert "the PTX of counting_kernel cannot be run here (mov.u32" in line
    assert "; program.py:" in line and "reading its outputs will raise" in line
    absent, real = done.out.splitlines()
    assert absent.startswith("c absent:") and "%pm0" in absent and real == "a [1.0]"
    (problem,) = [e for e in done.of("problem") if "counting_kernel" in e["text"]]
    assert problem["where"] == "target"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ('tl.device_assert(o < 100, "too far")', "device-side assert triggered"),
        ('assert tl.load(x) > 1, "too small"', "device-side assert triggered"),
        ('tl.static_assert(out.dtype == tl.float16, "other types")', "other types"),
    ],
)
def test_assertions_of_a_kernel_compiled_with_debug_fail(
    forked: Run, line: str, error: str
) -> None:
    kernel = UNKNOWN.format(line="pass").replace("    tl.store", f"    {line}\n    tl.store")
    kernel = kernel.replace("@triton.jit\n", "@triton.jit(debug=True)\n")
    done = forked(CANNOT.format(kernel=kernel))
    assert done.status == 1 and error in done.err and not done.out
    wanted = line.split('"')[1]
    assert wanted in done.err and line.split("(")[0] in done.err


FAR = (
    "import sys\n"
    + HEAD
    + """
@triton.jit
def first(p, o):
    return p + o
@triton.jit
def far_kernel(out, x, table, short, how: tl.constexpr):
    o = tl.arange(0, 8)
    if how == "block":
        tl.store(out + 60 + o, 1.0)
    elif how == "scalar":
        value = tl.load(first(x, tl.program_id(0) * 4))
        tl.store(out, value)
    elif how == "across":
        wide = tl.load(table + 1 + tl.arange(0, 1))
        code: tl.constexpr = "{ .reg .b32 t; ld.global.v4.b32 {$0, t, t, t}, [$1]; }"
        tl.store(out + o, tl.inline_asm_elementwise(code, "=r,l", [wide], tl.int32, False, 1))
    elif how == "behind":
        tl.store(tl.load(table).to(tl.pointer_type(tl.float32)), 1.0)
x = torch.arange(4, device="cuda", dtype=torch.float16)
out = torch.zeros(64, device="cuda")
short = torch.zeros(2, device="cuda")
table = torch.tensor([out.data_ptr() - 8, short.data_ptr()], device="cuda")
far_kernel[(1,)](out, x, table, short, "none")
far_kernel[(2, 2)](out, x, table, short, sys.argv[1])
"""
)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (
            "block",
            "program (0, 0, 0), thread (4, 0, 0) of launch 2 of far_kernel, grid (2, 2, 1), "
            "writes 4 bytes at ADDRESS, outside of every CUDA tensor: just past the end of out, "
            "float32 [64], the nearest argument (PTX line",
        ),
        (
            "scalar",
            "program (1, 0, 0), thread (0, 0, 0) of launch 2 of far_kernel, grid "
            "(2, 2, 1), reads 2 bytes at ADDRESS, outside of every CUDA tensor: just past the end "
            "of x, float16 [4]",
        ),
        (
            "across",
            "touches 16 bytes at ADDRESS, outside of every CUDA tensor: it reaches 8 bytes past "
            "the end of short, float32 [2], the nearest argument",
        ),
        ("behind", "8 bytes before the start of out, float32 [64], the nearest argument"),
    ],
)
def test_an_illegal_access_names_thread_line_address_and_tensor(
    forked: Run, how: str, said: str
) -> None:
    done = forked(FAR, how)
    (line,) = done.said("ptxview:")
    assert done.status == 1
    assert "CUDA error: an illegal memory access was encountered" in done.err
    assert said in re.sub("0x[0-9a-f]+", "ADDRESS", line)
    source = {
        "block": "tl.store(out + 60 + o, 1.0)",
        "scalar": "value = tl.load(first(x,",
        "across": "tl.store(out + o, tl.inline_asm_elementwise(",
        "behind": "tl.store(tl.load(table)",
    }
    assert f": {source[how]}" in line
    assert "inspector/execute" not in done.err, "the program's traceback is its own"


def test_misaligned_access_trap_and_deadlock_end_a_kernel(forked: Run) -> None:
    text = (
        HEAD
        + READ
        + """
@triton.jit
def odd_kernel(address):
    tl.store((address + 2).to(tl.pointer_type(tl.float32)), 1.0)
@triton.jit
def trap_kernel(out):
    tl.store(out, tl.inline_asm_elementwise("trap; mov.u32 $0, 1;", "=r", [], dtype=tl.int32,
                                            is_pure=False, pack=1))
@triton.jit
def locked_kernel(lock, out):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out, 1)
out = torch.zeros(4, device="cuda", dtype=torch.int32)
for kernel, args in ((odd_kernel, (out.data_ptr(),)), (trap_kernel, (out,)),
                     (locked_kernel, (torch.ones_like(out), out))):
    try:
        kernel[(1,)](*args)
    except RuntimeError as error:
        print(str(error).replace(chr(10), " "))
read("locked", out)
out.fill_(5)
read("out", out)
"""
    )
    odd, trap, locked, after = ok(forked(text, seconds=0.05)).out.splitlines()
    assert odd.startswith("CUDA error: misaligned address ptxview: program (0, 0, 0), thread")
    assert "of launch 1 of odd_kernel" in odd and ": tl.store((address + 2)" in odd
    assert trap.startswith("CUDA error: unspecified launch failure") and "stopped itself" in trap
    assert locked.startswith("locked absent:") and "was not run to its end" in locked
    assert after == "out [5, 5, 5, 5]"


LONG = (
    HEAD
    + READ
    + """
@triton.jit
def long_kernel(out, n):
    total = tl.zeros((), tl.float32)
    for i in range(n):
        total = tl.sqrt(total + i)
    tl.store(out, total)
for n in (COUNTS):
    out = torch.zeros(1, device="cuda")
    long_kernel[(1,)](out, n)
    read(n, out)
"""
)


def test_the_budget_is_counted_inside_a_block(forked: Run) -> None:
    """One thread block that goes round for long: what it costs does not depend on the machine."""
    done = ok(forked(LONG.replace("COUNTS", "20, 50_000"), seconds=0.05))
    short, long = done.out.splitlines()
    assert re.fullmatch(r"20 \[4\.\d+\]", short)
    assert "50000 absent:" in long and "more than the 0.05 s allowed" in long
    (line,) = done.said("ptxview:")
    assert "long_kernel was not run to its end: its 1 programs take" in line
    whole = ok(forked(LONG.replace("COUNTS", "5_000,"), values="all"))
    assert re.fullmatch(r"5000 \[7\d\.\d+\]\n", whole.out)
