# mypy: ignore-errors
"""Two devices, worker processes and spawned ones. Ends with "done"."""

import torch
import torch.multiprocessing as processes
from torch.utils.data import DataLoader, TensorDataset


def child():
    assert torch.cuda.device_count() == 2
    assert torch.ones(3, device="cuda:1").sum().item() == 3
    print("spawned", flush=True)


if __name__ == "__main__":
    a, b = torch.randn(4, device="cuda:0"), torch.randn(4, device="cuda:1")
    try:
        a + b
    except RuntimeError as error:
        assert "cuda:0 and cuda:1" in str(error)
    else:
        raise AssertionError("two devices were mixed")
    assert (a + b.to("cuda:0")).device.index == 0
    assert torch.equal(b.cuda(0).cpu(), b.cpu())
    with torch.cuda.device(1):
        assert torch.empty(2, device="cuda").device.index == torch.cuda.current_device() == 1
        assert torch.cuda.current_stream().device.index == 1
    assert torch.cuda.current_device() == 0
    torch.cuda.set_device(1)
    assert torch.ones(2).cuda().device.index == 1
    torch.cuda.set_device(0)
    held = torch.cuda.memory_allocated(1)
    block = torch.empty(1000, dtype=torch.uint8, device="cuda:1")
    assert torch.cuda.memory_allocated(1) == held + 1000
    del block
    layer = torch.nn.Linear(4, 4).to("cuda:1")
    layer(b).sum().backward()
    assert layer.weight.grad.device.index == 1
    data = DataLoader(TensorDataset(torch.randn(32, 4)), 8, num_workers=2, pin_memory=True)
    for (x,) in data:
        assert x.is_pinned() and x.cuda(non_blocking=True).is_cuda
    processes.set_start_method("spawn", force=True)
    worker = processes.Process(target=child)
    worker.start()
    worker.join()
    assert worker.exitcode == 0
    print("done")
