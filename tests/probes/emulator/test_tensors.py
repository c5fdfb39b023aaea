"""CUDA tensors and torch.cuda: what a program sees, and what it is refused."""

from __future__ import annotations

import pytest

from tests.probes.conftest import Run, ok


def test_a_program_sees_a_cuda_device(run: Run) -> None:
    done = ok(run("tensors.py"))
    assert done.out.split()[-1] == "done"
    assert len(done.said("ptxview:")) == 1, done.err  # CUDA times are NaN, and no more


@pytest.mark.nightly
def test_several_devices_and_child_processes(run: Run) -> None:
    done = ok(run("several.py", devices=2))
    assert "spawned" in done.out and done.out.split()[-1] == "done"


def test_without_the_target_nothing_changes(run: Run) -> None:
    done = ok(run("import torch; print(torch.cuda.is_available(), torch.version.cuda)", arch=None))
    assert "NVIDIA" not in done.out and "emulated" not in done.err


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


def test_conjugate_and_negative_views_equal_the_cpus(forked: Run) -> None:
    ok(forked(VIEWS))
