"""CUDA tensors and torch.cuda: what a program sees, and what it is refused."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest

from inspector.probes.emulator.shim import compiler
from tests.helpers.tools import skip_without
from tests.probes.conftest import Run, ok


def test_a_program_sees_a_cuda_device(run: Run) -> None:
    done = ok(run("tensors.py"))
    assert done.out.split()[-1] == "done"
    assert len(done.said("ptxview:")) == 1, done.err  # CUDA times are NaN, and no more


def test_memory_figures_are_labelled_in_the_recording(forked: Run) -> None:
    done = ok(
        forked("import torch; x = torch.ones(3, device='cuda'); torch.cuda.memory_allocated()")
    )
    assert any("bytes that CUDA tensors hold" in e["text"] for e in done.of("problem"))
    assert done.err == ""


def test_several_devices_and_child_processes(run: Run) -> None:
    done = ok(run("several.py", devices=2))
    assert "spawned" in done.out and done.out.split()[-1] == "done"


def test_without_the_target_nothing_changes(run: Run) -> None:
    done = ok(run("import torch; print(torch.cuda.is_available(), torch.version.cuda)", arch=None))
    assert "NVIDIA" not in done.out and "emulated" not in done.err


def test_a_failed_build_of_the_shim_is_one_warning(run: Run, tmp_path: Path) -> None:
    program = "import torch; print(torch.ones(2).sum().item())"
    cache = str(tmp_path / "cache")
    done = ok(run(program, env={"CXX": "/bin/false", "PATH": "/nowhere", "XDG_CACHE_HOME": cache}))
    assert done.out.strip() == "2.0"
    (line,) = done.said("ptxview:")
    assert "no emulated CUDA device" in line


@pytest.mark.nightly
def test_dynamo_can_be_reset(forked: Run) -> None:
    done = ok(forked("import torch; torch.cuda.init(); torch._dynamo.reset(); print('reset')"))
    assert done.out.split()[-1] == "reset"


# posix_memalign is what torch allocates tensors with: all of it below 2 GiB, and never given back.
LOW = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
static char *from, *next;
enum { ALL = 256 << 20 };
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT;
  if (!from) from = next = mmap(0, ALL, PROT_READ | PROT_WRITE, how, -1, 0);
  next = (char*)(((uintptr_t)next + alignment - 1) / alignment * alignment);
  *out = next;
  next += bytes;
  return next > from + ALL ? 12 : 0;
}
void free(void* data) {
  static void (*other)(void*);
  if (!other) other = (void (*)(void*))dlsym(RTLD_NEXT, "free");
  if (!from || (char*)data < from || (char*)data >= from + ALL) other(data);
}
"""


def test_addresses_never_fit_32_bits(run: Run, tmp_path: Path) -> None:
    """As under an interpreter that is not position-independent; a GPU's never do either."""
    skip_without("g++")
    source, library = tmp_path / "low.c", tmp_path / "low.so"
    source.write_text(LOW)
    subprocess.run(
        [str(compiler()), "-x", "c", "-w", "-shared", "-fPIC", source, "-o", library, "-ldl"],
        check=True,
    )
    program = """
    import torch
    device = [torch.empty(4, device="cuda"), torch.zeros(4, device="cuda"),
              torch.arange(6.0, device="cuda"), torch.tensor([1, 2], device="cuda"),
              torch.ones(3).cuda()]
    device += [device[1] + device[0].shape[0], torch.cat([device[1], device[2]])]
    grown = torch.empty(0, device="cuda").resize_(5).fill_(2)
    print(torch.ones(3).data_ptr() < 1 << 31, all(x.data_ptr() >> 32 for x in (*device, grown)))
    print(device[2].tolist(), device[3].tolist(), device[5].tolist(), device[6].sum().item(),
          grown.tolist())
    """
    done = ok(run(textwrap.dedent(program), env={"LD_PRELOAD": str(library)}))
    assert done.out.splitlines() == [
        "True True",
        "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0] [1, 2] [4.0, 4.0, 4.0, 4.0] 15.0 [2.0, 2.0, 2.0, 2.0, 2.0]",
    ]


VIEWS = """
import torch
torch.manual_seed(0)
A = torch.randn(3, 3, dtype=torch.complex64)

def same(compute, *given):
    want = compute(*given)
    got = compute(*(x.cuda() for x in given))
    assert got.is_cuda and got.is_neg() == want.is_neg() and got.is_conj() == want.is_conj()
    assert torch.equal(got.cpu().resolve_conj().resolve_neg(), want.resolve_conj().resolve_neg())

for compute in (
    lambda x: x * x.conj(), lambda x: x.conj(), lambda x: x.conj().clone(),
    lambda x: x.conj().resolve_conj(), lambda x: torch.empty_like(x).copy_(x.conj()),
    lambda x: x @ x.mH, lambda x: torch.einsum("ij,jk->ik", x, x.conj()),
    lambda x: torch.exp(x.conj()), lambda x: torch.fft.fft(x.conj()), lambda x: x.conj().imag,
    lambda x: x.conj().imag * 1, lambda x: x.conj().imag.clone(), lambda x: -x.conj().imag.sum(),
):
    same(compute, A)
"""
ZEROS = """
import torch
c = torch.arange(1.0, 4.0)
x = c.cuda()
cube, line = (lambda t: (t**3).sum()), (lambda t: t * 2 + torch.ones_like(t))
assert torch.equal(torch.func.hessian(cube)(x).cpu(), torch.func.hessian(cube)(c))
assert torch.equal(torch.func.jacfwd(line)(x).cpu(), torch.func.jacfwd(line)(c))
for f in (line, torch.ones_like, lambda t: t.sin() * 3, lambda t: t.detach() * t):
    for ours, theirs in zip(torch.func.jvp(f, (x,), (x,)), torch.func.jvp(f, (c,), (c,))):
        assert torch.equal(ours.cpu(), theirs)
zero = torch._efficientzerotensor(3, device="cuda")
for made in (zero.clone(), zero * x, zero):
    assert made.cpu().tolist() == [0.0] * 3
assert (zero + x).tolist() == c.tolist()
"""


def test_conjugate_and_negative_views_equal_the_cpus(forked: Run) -> None:
    ok(forked(VIEWS))


def test_tensors_of_zeros_without_memory_are_zeros(forked: Run) -> None:
    ok(forked(ZEROS))


KINDS = """
import torch
x, two = torch.eye(3, device="cuda"), torch.tensor([0, 1])
for make in (
    lambda: x.to_sparse(), lambda: x.to_sparse_csr(), lambda: torch.eye(3).to_sparse().cuda(),
    lambda: torch.sparse_coo_tensor(two[None].cuda(), torch.ones(2).cuda(), (2,)),
    lambda: torch.eye(3).to_sparse_csr().cuda() @ x, lambda: x.to_mkldnn(),
    lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
    lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device="cuda") + 1,
):
    try:
        make()
        print("made")
    except NotImplementedError as error:
        print(str(error).split("(")[0])
"""


def test_tensors_that_are_not_strided_are_refused_by_the_device(forked: Run) -> None:
    said = ok(forked("import warnings; warnings.simplefilter('ignore')\n" + KINDS)).out.splitlines()
    kinds = ["sparse"] * 5 + ["MKLDNN", "quantized", "nested"]
    assert said == [f"ptxview: the emulated device has no {kind} tensors " for kind in kinds]
