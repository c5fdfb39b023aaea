"""Values on the emulated device: those of the compiled code, or absent and said so."""

from __future__ import annotations

import pytest

from tests.helpers.nightly import first_by_day
from tests.probes.conftest import Run, ok

HEAD = "import torch, triton, triton.language as tl\n"
READ = """
def read(name, tensor):
    try:
        print(name, tensor.tolist())
    except RuntimeError as error:
        print(name, "absent:", str(error).replace(chr(10), " "))
"""


@pytest.mark.parametrize("arch", first_by_day(["sm_90", "sm_100"]))
def test_tensor_descriptors_copy_tiles_on_the_emulated_device(forked: Run, arch: str) -> None:
    assert ok(forked("descriptors.py", arch=arch)).out == "done\n"


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

def zeros(): return torch.zeros(8, device="cuda")
def table_of(*tensors): return torch.tensor([t.data_ptr() for t in tensors], device="cuda")
a, b, c, d, other = zeros(), zeros(), zeros(), zeros(), zeros() + 1
"""
)


def test_memory_behind_addresses_in_tensors_is_absent(forked: Run) -> None:
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


def test_missing_parts_of_cuda_are_refused_by_name(forked: Run) -> None:
    done = ok(
        forked("""
import torch, triton
def refused(kind, function):
    try:
        function()
    except kind as error:
        print(error)
refused(ModuleNotFoundError, lambda: torch.cuda.utilization())
refused(NotImplementedError, lambda: torch.cuda.jiterator._create_jit_fn(
    "template <typename T> T twice(T x) { return x + x; }")(torch.ones(2, device="cuda")))
from triton._C.libtriton import nvidia
product = nvidia.cublas.CublasLt(torch.empty(64, device="cuda", dtype=torch.uint8))
print(hasattr(product, "matmul"), hasattr(product, "no_such_thing"))
a, b = (torch.randn(n, 16, device="cuda").half() for n in (32, 8))
c = torch.empty(32, 8, device="cuda", dtype=torch.half)
product.matmul(a, b, c)
torch.testing.assert_close(c, a @ b.T)
""")
    )
    nvml, jitted, known = done.out.splitlines()
    assert "ptxview: the emulated device has no NVML" in nvml
    assert "ptxview: the emulated device has no jiterator" in jitted
    assert known == "True False"
    assert len(done.said("there is no cuBLAS here")) == 1


@pytest.mark.parametrize("kind", first_by_day(["float16", "bfloat16"]))
def test_sums_of_half_precision_are_as_exact_as_a_gpus(forked: Run, kind: str) -> None:
    done = ok(
        forked(
            "import torch\nfrom torch.nn import functional as F\n"
            + f"""
kind = torch.{kind}
"""
            + """
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
"""
        )
    )
    *checked, put, types = done.out.splitlines()
    names = ("layer norm", "product", "put", "embedding", "index", "loss")
    assert checked == [f"{name} True" for name in names]
    assert put == "True [[2.0, 2.0, 2.0], [1.0, 1.0, 1.0]]"
    assert types == "True torch.float32"


def test_products_of_halves_may_have_results_of_single_precision(forked: Run) -> None:
    text = (
        HEAD
        + """
a, b, c = (torch.randn(*s).bfloat16().double() for s in ((2, 8, 64), (2, 64, 4), (2, 8, 4)))
x, y, z = (m.bfloat16().cuda() for m in (a, b, c))
wide = dict(out_dtype=torch.float32)
pairs = [
    (torch.mm(x[0], y[0], **wide), a[0] @ b[0]),
    (torch.bmm(x, y, **wide), a @ b),
    (torch.addmm(z[0], x[0], y[0], beta=2, alpha=3, **wide), 2 * c[0] + 3 * (a[0] @ b[0])),
    (torch.baddbmm(z, x, y, **wide), c + a @ b),
]
for result, exact in pairs:
    print(result.dtype, bool((result.cpu() - exact).abs().max() < 1e-4))
"""
    )
    assert ok(forked(text)).out.splitlines() == ["torch.float32 True"] * 4
