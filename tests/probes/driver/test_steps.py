"""Steps of a training loop on the GPU's timeline, with a stand-in for the driver and for CUPTI."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from inspector.measure.gpu_window import gpu_window
from inspector.sources.running import Run, RunRequest
from inspector.system import toolchain
from tests.helpers.ptxview import saved
from tests.helpers.samples import DATA
from tests.probes.driver.test_driver import GELU, entry

HEAD = f"""
import ctypes
import torch
driver = ctypes.CDLL("libcuda.so.1")
driver.stand_kernel.restype = ctypes.c_void_p
driver.stand_init()
with open({str(DATA / GELU)!r}, "rb") as file:
    data = file.read()
driver.stand_load(ctypes.c_void_p(1), data, ctypes.c_size_t(len(data)))
sizes = (ctypes.c_int * 8)()
kernel = driver.stand_kernel({entry(GELU).encode()!r}, ctypes.c_void_p(1), sizes, 0)

def work(ns):
    driver.stand_launch(ctypes.c_void_p(kernel), 3, 1, 64, 1, 0, 0, None, 0)
    driver.stand_wait(ctypes.c_uint64(ns))

model = torch.nn.Linear(4, 2)
torch.nn.init.ones_(model.weight)
torch.nn.init.zeros_(model.bias)
"""
TWO_OPTIMIZERS = """
class Careful(torch.optim.SGD):
    def step(self, closure=None):
        if closure is not None:
            raise ValueError("no closure")
        return super().step()

careful = Careful(model.parameters(), lr=0.01)
other = torch.optim.Adam(model.parameters(), lr=0.01)
for number in range(4):
    model(torch.ones(3, 4)).sum().backward()
    work(9500)
    try:
        careful.step(lambda: 1)
    except ValueError as error:
        print(error)
    careful.step()
    work(500)
    other.step()
    other.step()
    work(0)
    careful.zero_grad()
    print(number, round(float(model.weight.sum()), 4))
"""
COMPILED_STEP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step = torch.compile(optimizer.step, backend="eager")
for number in range(4):
    model(torch.ones(3, 4)).sum().backward()
    work(500)
    step()
    work(0)
    print(number, round(float(model.weight.sum()), 4))
print({name: len(counter) for name, counter in torch._dynamo.utils.counters.items()})
print(torch._dynamo.utils.counters["frames"])
"""


@pytest.mark.parametrize(
    ("loop", "steps"),
    # A launch takes 0.5 µs: three of them, and 9.5 and 0.5 µs of waiting.
    [
        (TWO_OPTIMIZERS, ("step of Careful", 3, 11.5)),
        pytest.param(COMPILED_STEP, None, marks=pytest.mark.nightly),
    ],
    ids=["two optimizers", "a compiled step"],
)
def test_steps_are_those_of_the_first_optimizer_and_the_program_is_as_it_was(
    loop: str,
    steps: tuple[str, int, float] | None,
    compiled: str,
    fake_driver: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_driver))
    monkeypatch.setattr(toolchain, "gpu_present", lambda: True)
    monkeypatch.setattr(toolchain, "driver_library", lambda: Path(compiled))
    script = saved(tmp_path / "train.py", HEAD + loop)
    bare = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    request = RunRequest("script", (str(script),), tmp_path / "recording", python=sys.executable)
    run = Run(request)
    env = {**run.env, "PTXVIEW_DRIVER_MS": "60000,1000,70000"}  # slow imports end no window
    done = subprocess.run(run.argv, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, bare.stdout), done.stderr
    recording = run.ended(done.returncode, print).recording
    assert recording is not None and not recording.problems
    window = gpu_window(recording)
    assert window is not None
    seen = window.steps and (window.steps.kind, window.steps.count, window.steps.us)
    assert seen == steps
