"""A value is real or absent: nothing that a program checks is made true for it."""

from __future__ import annotations

from tests.probes.conftest import Run, ok


def test_times_are_nan_with_one_warning(forked: Run) -> None:
    done = ok(
        forked("""
import torch, math
for _ in range(3):
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record(); b.record()
    assert math.isnan(a.elapsed_time(b))
import torch._inductor.runtime.benchmarking as inductor
assert math.isnan(inductor.benchmarker.benchmark_gpu(lambda: 1 / 0))
""")
    )
    assert len(done.said("CUDA times are NaN")) == 1
    assert [e["text"] for e in done.of("problem")].count(
        done.err.split("ptxview: ")[1].strip()
    ) == 1


def test_cuda_graphs_and_gpu_only_operators_are_refused(forked: Run) -> None:
    done = ok(
        forked("""
import torch
for refused in (lambda: torch.cuda.CUDAGraph(), lambda: torch._int_mm(
        torch.ones(32, 32, dtype=torch.int8, device="cuda"),
        torch.ones(32, 32, dtype=torch.int8, device="cuda")),
        lambda: torch.ops.aten._cudnn_init_dropout_state(
            0.5, True, 3, dtype=torch.uint8, device="cuda")):
    try:
        refused()
    except NotImplementedError as error:
        print(str(error).splitlines()[0])
""")
    )
    lines = done.out.splitlines()
    assert "the emulated device has no CUDA graphs" in lines[0]
    assert "_cudnn_init_dropout_state runs on a GPU only" in lines[-1]
