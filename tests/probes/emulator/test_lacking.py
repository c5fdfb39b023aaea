"""What a CPU build of torch lacks of CUDA: it works on the emulated device, or refuses by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.nightly import nightly
from tests.probes.conftest import Run, ok

EVERY_FUNCTION = """
import importlib, inspect, torch, warnings
warnings.simplefilter("ignore")
MODULES = (
    "cuda", "cuda.memory", "cuda.nccl", "cuda.tunable", "cuda.graphs", "cuda.random",
    "cuda.streams", "cuda.nvtx", "cuda.profiler", "cuda.comm", "cuda.gds", "cuda.sparse",
    "backends.cuda", "backends.cudnn", "backends.cusparselt",
    "accelerator", "accelerator.memory", "accelerator.graphs", "__config__",
)
ARGUMENTS = dict(device=0, device_id=0, index=0, stream=None, enabled=True, val=True, fraction=0.5,
                 seed=1, seeds=1, size=100, cycles=1, filename="none", peer_device=0, debug_mode=0,
                 mem_ptr=0, msg="x", ret=False)
REFUSED = "ptxview: the emulated device"
BARE = ("INTERNAL ASSERT", "without", "not compiled", "dummy base", "not available", "Graph is")
calls = 0
def call(label, function):
    global calls
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        required = ()
    else:
        required = [p.name for p in signature.parameters.values()
                    if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if any(name not in ARGUMENTS for name in required):
        return
    calls += 1
    try:
        function(*(ARGUMENTS[name] for name in required))
    except BaseException as error:
        words = str(error)
        wrong = isinstance(error, AttributeError) or any(text in words for text in BARE)
        if wrong and REFUSED not in words:
            print(label, type(error).__name__, words[:200])

for name in MODULES:
    try:
        module = importlib.import_module(f"torch.{name}")
    except ImportError:
        continue
    for attribute in dir(module):
        value = getattr(module, attribute)
        public = not attribute.startswith("_") and callable(value)
        if public and str(getattr(value, "__module__", "")).startswith(("torch", "ptxview")):
            call(f"torch.{name}.{attribute}", value)
for name in dir(torch._C):
    if name.startswith(("_cuda_", "_nccl_", "_gds_", "_accelerator_get")):
        call(f"torch._C.{name}", getattr(torch._C, name))
assert calls > 200, calls
print(torch.backends.cuda.cufft_plan_cache.size, torch.backends.cuda.cufft_plan_cache.max_size)
"""


def test_every_function_of_torchs_cuda_works_or_refuses_by_name(forked: Run) -> None:
    assert ok(forked(EVERY_FUNCTION)).out == "0 0\n"


VALUES = """
import torch
assert "ptxview" in torch.__config__.show()
x = torch.ones(2, device="cuda")
assert torch.accelerator.memory_allocated() == torch.cuda.memory_allocated() >= 8
torch.cuda.set_per_process_memory_fraction(0.25)
assert torch.cuda.get_per_process_memory_fraction() == 0.25
assert not torch.cuda.nccl.is_available([x])
pointer = torch.cuda.caching_allocator_alloc(100)
torch.cuda.caching_allocator_delete(pointer)

made = torch.cuda.FloatTensor([1, 2])
assert isinstance(made, torch.cuda.FloatTensor)
assert not isinstance(made.cpu(), torch.cuda.FloatTensor)
assert made.device == x.device and torch.cuda.LongTensor(2, 3).shape == (2, 3)
assert made.type(torch.cuda.DoubleTensor).dtype == torch.float64

class Foreign:
    __cuda_array_interface__ = x.__cuda_array_interface__
shared = torch.as_tensor(Foreign())
shared[0] = 7
assert shared.device == x.device and x.tolist() == [7, 1]

storage = torch.arange(4, dtype=torch.uint8, device="cuda").untyped_storage()
assert storage.resize_(2).tolist() == [0, 1] and storage.resize_(0).size() == 0
assert storage.resize_(8).size() == 8
model = torch.nn.DataParallel(torch.nn.Linear(2, 2).cuda())
model(torch.ones(3, 2, device="cuda")).sum().backward()
assert model.module.weight.grad.tolist() == [[3, 3], [3, 3]]

p = torch.randn(12, 2, 5).log_softmax(2)
targets, lengths = torch.randint(1, 5, (2, 4)), (torch.tensor([12, 12]), torch.tensor([4, 3]))
for given in (lengths, ([12, 12], [4, 3])):
    here, there = p.clone().requires_grad_(), p.cuda().requires_grad_()
    want = torch.nn.functional.ctc_loss(here, targets, *given)
    made = torch.nn.functional.ctc_loss(there, targets.cuda(), *given)
    torch.testing.assert_close(made.cpu(), want)
    want.backward(), made.backward()
    torch.testing.assert_close(there.grad.cpu(), here.grad)
"""


def test_what_has_a_value_without_a_gpu_has_it(forked: Run) -> None:
    ok(forked(VALUES))


@pytest.mark.parametrize("ranks", [nightly(1), 2])
def test_collectives_and_sharded_models_over_gloo(forked: Run, tmp_path: Path, ranks: int) -> None:
    done = ok(forked("collectives.py", str(ranks), str(tmp_path)))
    assert done.out == "done\n"
