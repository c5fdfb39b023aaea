"""CUDA tensors and torch.cuda: what a program sees, and what it is refused."""

from __future__ import annotations

from pathlib import Path

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


def test_a_failed_build_says_one_line_and_the_program_goes_on(run: Run, tmp_path: Path) -> None:
    program = "import torch; print(torch.ones(2).sum().item())"
    cache = str(tmp_path / "cache")
    done = ok(run(program, env={"CXX": "/bin/false", "PATH": "/nowhere", "XDG_CACHE_HOME": cache}))
    assert done.out.strip() == "2.0"
    (line,) = done.said("ptxview:")
    assert "no emulated CUDA device" in line


def test_dynamo_can_be_reset(forked: Run) -> None:
    done = ok(forked("import torch; torch.cuda.init(); torch._dynamo.reset(); print('reset')"))
    assert done.out.split()[-1] == "reset"
