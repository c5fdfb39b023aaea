"""Values on the emulated device: those of the compiled code, or absent and said so."""

from __future__ import annotations

import json
import re

import pytest

from tests.probes.conftest import Run, ok

HEAD = "import torch, triton, triton.language as tl\n"
READ = """
def read(name, tensor):
    try:
        print(name, tensor.tolist())
    except RuntimeError as error:
        print(name, "absent:", str(error).replace(chr(10), " "))
"""


def test_pythons_constructs_mean_what_the_compiler_makes_of_them(forked: Run) -> None:
    assert ok(forked("constructs.py")).out == "done\n"


@pytest.mark.parametrize("arch", ["sm_90", "sm_100"])
def test_tensor_descriptors(forked: Run, arch: str) -> None:
    assert ok(forked("descriptors.py", arch=arch)).out == "done\n"


@pytest.mark.parametrize(
    ("values", "said"),
    [("interpreter", "a stride of [35] elements is not a multiple of 16 bytes"),
     ("ptx", "a stride of 140 bytes is no multiple of 16 bytes")],
)  # fmt: skip
def test_a_descriptor_that_the_hardware_refuses(forked: Run, values: str, said: str) -> None:
    done = forked(
        HEAD
        + """
@triton.jit
def narrow_kernel(x, n, b: tl.constexpr):
    a = tl.make_tensor_descriptor(x, shape=[n, n], strides=[n, 1], block_shape=[b, b])
    a.store([0, 0], a.load([0, 0]))
narrow_kernel[(1,)](torch.ones(35, 35, device="cuda"), 35, 16)
""",
        values=values,
    )
    assert done.status == 1
    assert said in done.err


BEHIND = (
    HEAD
    + READ
    + """
@triton.jit
def table_kernel(table, block: tl.constexpr):
    place = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    o = tl.arange(0, block)
    tl.store(place + o, o + 1.0)

@triton.jit
def tables_kernel(tables, block: tl.constexpr):
    table = tl.load(tables).to(tl.pointer_type(tl.int64))
    table_kernel(table, block)

@triton.jit
def bare_kernel(address, which, block: tl.constexpr):
    chosen = address if tl.load(which) > 0 else address + 4
    o = tl.arange(0, block)
    tl.store(chosen.to(tl.pointer_type(tl.float32)) + o, o + 1.0)

@triton.jit
def reading_kernel(out, table, block: tl.constexpr):
    place = tl.load(table).to(tl.pointer_type(tl.float32))
    o = tl.arange(0, block)
    tl.store(out + o, tl.load(place + o))

def zeros(): return torch.zeros(8, device="cuda")
def table_of(*tensors): return torch.tensor([t.data_ptr() for t in tensors], device="cuda")
a, b, c, d, other = zeros(), zeros(), zeros(), zeros(), zeros() + 1
"""
)


def test_what_addresses_in_tensors_point_at_is_absent_too(forked: Run) -> None:
    text = (
        BEHIND
        + """
table_kernel[(2,)](table_of(a, b), 8)
inner = table_of(c)
tables_kernel[(1,)](table_of(inner), 8)
bare_kernel[(1,)](d.data_ptr(), other, 8)
for name in "a", "b", "c", "d", "other":
    read(name, globals()[name])
"""
    )
    lines = ok(forked(text, seconds=1e-6)).out.splitlines()
    assert [line.split()[:2] for line in lines[:4]] == [[name, "absent:"] for name in "abcd"]
    assert "table_kernel was not run to its end" in lines[0] and lines[4] == f"other {[1.0] * 8}"
    whole = [float(i) for i in range(1, 9)]
    expected = [f"{name} {whole}" for name in "abcd"]
    assert ok(forked(text)).out.splitlines()[:4] == expected


def test_what_is_read_through_an_address_may_be_absent(forked: Run) -> None:
    text = (
        BEHIND
        + """
@triton.jit
def unknown_kernel(out, block: tl.constexpr):
    o = tl.arange(0, block)
    value = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [o], dtype=tl.int32,
                                      is_pure=True, pack=1)
    tl.store(out + o, value)
unknown_kernel[(1,)](a, 8)
reading_kernel[(1,)](b, table_of(a), 8)
read("b", b)
hidden = table_of(c)
unknown_kernel[(1,)](hidden, 1)
table_kernel[(1,)](hidden, 8)
"""
    )
    done = forked(text, values="interpreter")
    assert done.out.startswith("b absent:") and "unknown_kernel cannot be interpreted" in done.out
    # Where an absent table leads nobody knows: no tensor may be taken for real.
    assert done.status == 1
    assert "writes through addresses kept in a tensor whose value is absent" in done.err


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
CLOCK = UNKNOWN.format(line="tl.store(out, tl.extra.cuda.globaltimer().to(tl.float32))")


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (GLUON, "it is written in Gluon"),
        (WAITS, "tl.extra.cuda.gdc_wait(): Triton's interpreter does not know it"),
        (CLOCK, "tl.extra.cuda.globaltimer()"),
    ],
)
def test_what_the_interpreter_does_not_know_is_said_once(
    forked: Run, kernel: str, reason: str
) -> None:
    done = ok(forked(CANNOT.format(kernel=kernel), values="interpreter"))
    absent, real = done.out.splitlines()
    assert absent.startswith("out absent:") and "cannot be interpreted here" in absent
    assert reason in absent and real == "x [1.0]"
    (line,) = done.said("ptxview:")
    assert reason in line and "Did you forget" not in done.err
    assert {e["name"] for e in done.of("triton")} == {"the_kernel"}


FAR = (
    "import sys\n"
    + HEAD
    + """
@triton.jit
def first(p, o):
    return p + o
@triton.jit
def far_kernel(out, x, pair, table, desc, how: tl.constexpr):
    o = tl.arange(0, 8)
    if how == "block":
        tl.store(out + 60 + o, 1.0)
    elif how == "scalar":
        value = tl.load(first(x, tl.program_id(0) * 4))
        tl.store(out, value)
    elif how == "before":
        tl.store(out, tl.sum(tl.load(x - 2 + o)))
    elif how == "chosen":
        p = pair[1] + tl.program_id(0)
        for i in range(3):
            p += 4
        tl.store(p, 1.0)
    elif how == "behind":
        tl.store(tl.load(table).to(tl.pointer_type(tl.float32)), 1.0)
x = torch.arange(4, device="cuda", dtype=torch.float16)
out = torch.zeros(64, device="cuda")
other = torch.zeros(2, 3, device="cuda")
table = torch.tensor([out.data_ptr() - 4000], device="cuda")
far_kernel[(1,)](out, x, (x, other), table, None, "none")
far_kernel[(2, 2)](out, x, (x, other), table, None, sys.argv[1])
"""
)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("block", "program (0, 0, 0) of launch 2 of far_kernel, grid (2, 2, 1), writes 4 elements "
         "of 4 bytes, the first at ADDRESS, outside of every CUDA tensor: just past the end of "
         "out, float32 [64] (program.py:"),
        ("scalar", "program (1, 0, 0) of launch 2 of far_kernel, grid (2, 2, 1), reads 2 bytes "
         "at ADDRESS, outside of every CUDA tensor: just past the end of x, float16 [4] "),
        ("before", "reads 4 elements of 2 bytes, the first at ADDRESS, outside of every CUDA "
         "tensor: 4 bytes before the start of x, float16 [4] (program.py:"),
        ("chosen", "writes 4 bytes at ADDRESS, outside of every CUDA tensor: 24 bytes past the "
         "end of pair[1], float32 [2, 3] (program.py:"),
        ("behind", "4000 bytes before the start of out, float32 [64], the nearest argument (prog"),
    ],
)  # fmt: skip
def test_an_illegal_access_names_launch_line_address_and_tensor(
    forked: Run, how: str, said: str
) -> None:
    done = forked(FAR, how, values="interpreter")
    (line,) = done.said("ptxview:")
    assert done.status == 1
    assert said in re.sub("0x[0-9a-f]+", "ADDRESS", line)
    # The program's traceback leads to the kernel's own line, and not through the interpreter.
    assert "runtime/interpreter.py" not in done.err and "far_kernel\n" in done.err


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ('tl.device_assert(o < 100, "too far")', "too far"),
        ('assert tl.load(x) > 1, "too small"', "too small"),
        ("tl.store(out + 4096 + o, 1.0)", "illegal memory access"),
        ('tl.static_assert(out.dtype == x.dtype, "other types")', "other types"),
    ],
)
def test_a_kernels_own_errors_stay_errors(forked: Run, line: str, error: str) -> None:
    kernel = f"""
@triton.jit
def the_kernel(out, x):
    o = tl.arange(0, 128)
    {line}
    tl.store(out + o, 1.0)
"""
    text = CANNOT.format(kernel=kernel)
    if "static" in line:
        text = text.replace('zeros(128, device="cuda")', 'zeros(128, device="cuda").half()')
    done = forked(text)
    assert done.status == 1 and error in done.err and not done.out
    assert not done.said("cannot be interpreted")


def test_a_profilers_table_has_each_operator_once(forked: Run) -> None:
    done = ok(
        forked("""
import json, torch
from torch.profiler import profile, ProfilerActivity
a = torch.randn(300, 300, device="cuda")
with profile(activities=[ProfilerActivity.CPU]) as watched:
    for _ in range(3):
        a * a
    a.sum(); a @ a; a.softmax(-1); a.cpu(); torch.zeros(5, device="cuda")
rows = watched.key_averages()
whole = sum(row.self_cpu_time_total for row in rows)
print(json.dumps({row.key: [row.count, row.cpu_time_total / whole] for row in rows}))
""")
    )
    rows = json.loads(done.out.splitlines()[-1])
    wanted = {"aten::mul": 3, "aten::sum": 1, "aten::mm": 1, "aten::_softmax": 1, "aten::copy_": 1}
    assert {name: rows[name][0] for name in wanted} == wanted
    assert all(share <= 1.0 + 1e-9 for _, share in rows.values()), rows


WORK = (
    HEAD
    + READ
    + """
import time
@triton.jit
def long_kernel(out, n):
    total = 0
    for i in range(n):
        print("turn")
        total += i
    tl.store(out, total)
@triton.jit
def locked_kernel(lock, out):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out, 1)
@triton.jit
def rows_kernel(out, x):
    o = tl.program_id(0) * 64 + tl.arange(0, 64)
    tl.store(out + o, tl.load(x + o) * 2)
"""
)


def test_the_budget_is_looked_at_inside_a_program(forked: Run) -> None:
    text = (
        WORK
        + """
out = torch.zeros(1, device="cuda", dtype=torch.int32)
long_kernel[(1,)](out, 100000)
read("long", out)
out = torch.zeros(1, device="cuda", dtype=torch.int32)
locked_kernel[(1,)](torch.ones(1, device="cuda", dtype=torch.int32), out)
read("locked", out)
"""
    )
    done = ok(forked(text, values="interpreter", seconds=0.05))
    turns = done.out.count("turn")
    assert 10 < turns < 50_000
    absent = [line for line in done.out.splitlines() if not line.startswith("turn")]
    assert "long absent:" in absent[0] and "more than the 0.05 s allowed" in absent[0]
    assert "locked absent:" in absent[1]
    again = ok(forked(text, values="interpreter", seconds=0.05))
    assert done.out == again.out, "it stops at the same turn each time"
    assert ok(forked(text, values="interpreter", seconds=0.1)).out.count("turn") > 1.8 * turns


@pytest.mark.parametrize("slowly", [False, True])
def test_the_budget_does_not_depend_on_how_busy_the_machine_is(forked: Run, slowly: bool) -> None:
    text = (
        WORK
        + """
x = torch.ones(64 * 500, device="cuda")
outs = [torch.zeros_like(x) for _ in range(2)]
if SLOWLY:
    real = time.perf_counter
    began = real()
    time.perf_counter = lambda: began + 1e4 * (real() - began)
rows_kernel[(500,)](outs[0], x)
rows_kernel[(40,)](outs[1], x)
for out in outs:
    read("rows", out[:1])
""".replace("SLOWLY", str(slowly))
    )
    done = ok(forked(text, values="interpreter", seconds=0.05))
    first, second = done.out.splitlines()
    assert first.startswith("rows absent:") and second == "rows [2.0]"


def test_nvidias_libraries_and_tools_are_said_to_be_missing(run: Run, forked: Run) -> None:
    ok(forked("import torch"))  # the device is there: what follows finds no compiler
    done = ok(
        run("""
import ctypes, subprocess, torch, triton
def refused(kind, function):
    try:
        function()
    except kind as error:
        print(error)
refused(OSError, lambda: ctypes.CDLL("libcublas.so.99"))
refused(FileNotFoundError, lambda: subprocess.run(["nvidia-smi", "-L"]))
refused(ModuleNotFoundError, lambda: torch.cuda.utilization())
refused(NotImplementedError, lambda: torch.cuda.jiterator._create_jit_fn(
    "template <typename T> T twice(T x) { return x + x; }")(torch.ones(2, device="cuda")))
refused(OSError, lambda: ctypes.CDLL("libnothing.so"))
from triton._C.libtriton import nvidia
product = nvidia.cublas.CublasLt(torch.empty(64, device="cuda", dtype=torch.uint8))
a, b = (torch.randn(n, 16, device="cuda").half() for n in (32, 8))
c = torch.empty(32, 8, device="cuda", dtype=torch.half)
product.matmul(a, b, c)
torch.testing.assert_close(c, a @ b.T)
""", env={"PATH": "/nowhere"})
    )  # fmt: skip
    cublas, tool, nvml, jitted, other = done.out.splitlines()
    for line, name in ((cublas, "libcublas.so.99"), (tool, "nvidia-smi"), (nvml, "NVML"),
                       (jitted, "the jiterator, which would compile twice")):  # fmt: skip
        assert "ptxview: there is no GPU here" in line and name in line
    assert "ptxview" not in other
    assert len(done.said("there is no cuBLAS here")) == 1


def test_what_else_stands_in_a_kernels_module_is_left_alone(forked: Run) -> None:
    done = ok(forked(HEAD + """
from triton._C.libtriton import nvidia
class Odd:
    def __getattr__(self, name):
        raise NotImplementedError(name)
odd = Odd()
blas = nvidia.cublas.CublasLt(torch.empty(64, device="cuda", dtype=torch.uint8))
print(hasattr(blas, "matmul"), hasattr(blas, "no_such_thing"))
@triton.jit
def kernel(x):
    tl.store(x + tl.arange(0, 4), 2.0)
x = torch.zeros(4, device="cuda")
kernel[(1,)](x)
print(x.tolist())
"""))  # fmt: skip
    assert done.out.splitlines() == ["True False", "[2.0, 2.0, 2.0, 2.0]"]


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_sums_of_half_precision_are_as_exact_as_a_gpus(forked: Run, kind: str) -> None:
    done = ok(forked("import torch\nfrom torch.nn import functional as F\n" + f"""
kind = torch.{kind}
""" + """
def grads(function, inputs, kind, device):
    given = [x.to(device, kind).requires_grad_() for x in inputs]
    result = function(*given)
    torch.manual_seed(1)
    result.backward(torch.randn(result.shape).to(torch.bfloat16).to(device, kind))
    return [result.detach(), *(x.grad for x in given)]
def check(name, function, *inputs):
    inputs = [x.to(kind) for x in inputs]
    exact = grads(function, inputs, torch.float64, "cpu")
    worst = 0
    for near, right in zip(grads(function, inputs, kind, "cuda"), exact, strict=True):
        assert near.dtype == kind and near.is_cuda
        worst = max(worst, ((near.cpu().double() - right).abs().max() / right.abs().max()).item())
    print(name, worst / torch.finfo(kind).eps < 1)
def rows(x):
    return torch.arange(4096, device=x.device) % 4
many, few = torch.rand(4096, 64) * 0.1, torch.randn(4, 64)
check("layer norm", lambda x, w, b: F.layer_norm(x, (512,), w, b),
      torch.randn(4096, 512), torch.randn(512), torch.randn(512))
check("product", lambda x: x.prod(0), 1 + torch.randn(256, 64) * 0.01)
check("put", lambda x: x.new_zeros(4, 64).index_put((rows(x),), x, accumulate=True), many)
check("embedding", lambda w: F.embedding(rows(w), w), few)
check("index", lambda x: x[rows(x)], few)
check("loss", lambda x: F.nll_loss(x, x.new_zeros(8, 64, 64).long(), reduction="sum"),
      torch.rand(8, 10, 64, 64) * 0.1)
x = torch.zeros(2, 3, device="cuda", dtype=kind)
same = x.index_put_((torch.tensor([0, 0, 1], device="cuda"),), x.new_ones(3, 3), accumulate=True)
print(same is x, x.tolist())
mixed = F.layer_norm(torch.randn(4, 8, device="cuda").to(kind), (8,), torch.ones(8, device="cuda"))
_, mean, _ = torch.native_layer_norm(x, (3,), None, None, 1e-5)
print(mixed.dtype == kind, mean.dtype)
"""))  # fmt: skip
    *checked, put, types = done.out.splitlines()
    names = ("layer norm", "product", "put", "embedding", "index", "loss")
    assert checked == [f"{name} True" for name in names]
    assert put == "True [[2.0, 2.0, 2.0], [1.0, 1.0, 1.0]]"
    assert types == "True torch.float32"


def test_an_aot_package_without_a_driver_is_one_sentence(forked: Run) -> None:
    done = forked(
        """
import torch
from torch._inductor import config
config.aot_inductor.precompile_headers = False  # which takes longer than what includes them
config.aot_inductor.compile_wrapper_opt_level = "O0"
class Twice(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
made = torch.export.export(Twice().cuda(), (torch.randn(64, 64, device="cuda"),))
torch._inductor.aoti_compile_and_package(made, package_path="twice.pt2")
""",
        inductor=True,
    )
    assert done.status == 1
    last = done.err.strip().splitlines()[-1]
    assert last.startswith("RuntimeError: ptxview: AOTInductor links its package against lib")
    assert "cannot find -l" not in done.err
    assert done.of("triton"), "its kernels are captured"
