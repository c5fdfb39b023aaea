# mypy: ignore-errors
"""CUDA tensors and torch.cuda, with what a GPU would give or refuse. Ends with "done"."""

import io
import math
import os

import torch
from torch.utils.data import DataLoader, TensorDataset


def refuses(kind, text, function):
    try:
        function()
    except kind as error:
        assert text in str(error), f"{error!r} lacks {text!r}"
    else:
        raise AssertionError(f"{text!r} was not raised")


def factories():
    x = torch.randn(5, device="cuda", requires_grad=True)
    assert x.is_cuda and x.device == torch.device("cuda:0") and x.get_device() == 0
    (x * x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())
    assert torch.arange(3, device="cuda").tolist() == [0, 1, 2]
    assert "device='cuda:0'" in repr(x)
    assert torch.ones(3).cuda().to("cpu").numpy().sum() == 3
    count, value = 0, torch.tensor(1.0, device="cuda")
    while value.item() < 100:
        value, count = value * 3, count + 1
    assert count == 5
    big = torch.randn(7, 9, device="cuda")
    assert torch.equal(big.t().contiguous().cpu(), big.cpu().t().contiguous())
    assert torch.equal(big[big > 0].cpu(), big.cpu()[big.cpu() > 0])
    big.resize_(3, 3)
    assert big.shape == (3, 3) and big.untyped_storage().nbytes() == 7 * 9 * 4
    assert big.view(-1).data_ptr() == big.data_ptr()
    with torch.device("cuda"):
        assert torch.zeros(2).is_cuda


def mixtures():
    x = torch.randn(4, device="cuda")
    refuses(RuntimeError, "at least two devices, cuda:0 and cpu", lambda: x + torch.randn(4))
    refuses(RuntimeError, "two devices", lambda: torch.nn.Linear(4, 4)(x))
    refuses(TypeError, "can't convert cuda:0", lambda: x.numpy())
    refuses(
        RuntimeError,
        "'cuda' device type for generator",
        lambda: torch.randn(2, device="cuda", generator=torch.Generator()),
    )
    refuses(RuntimeError, "invalid device ordinal", lambda: torch.ones(1, device="cuda:9"))
    assert (x + torch.tensor(1.0)).is_cuda  # a CPU scalar is allowed
    assert torch.equal(x[torch.tensor([2, 0])].cpu(), x.cpu()[[2, 0]])


def generators():
    torch.manual_seed(0)
    on_cpu = torch.randn(3)
    torch.manual_seed(0)
    torch.randn(3, device="cuda")
    assert torch.equal(torch.randn(3), on_cpu), "the device has its own generator"
    torch.cuda.manual_seed(7)
    first = torch.rand(4, device="cuda")
    state = torch.cuda.get_rng_state()
    second = torch.rand(4, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(torch.rand(4, device="cuda"), second)
    torch.cuda.manual_seed(7)
    assert torch.equal(torch.rand(4, device="cuda"), first)
    seed, offset = torch.cuda.default_generators[0].get_state().view(torch.int64)  # for kernels
    assert seed == 7 and offset % 4 == 0
    torch.cuda.set_rng_state(torch.stack((seed, offset + 4 * 1000)).view(torch.uint8))
    later = torch.rand(4, device="cuda")
    assert not torch.equal(later, second)
    torch.cuda.default_generators[0].set_offset(int(offset) + 4000)
    assert torch.equal(torch.rand(4, device="cuda"), later)
    refuses(RuntimeError, "wrong size", lambda: torch.cuda.set_rng_state(torch.get_rng_state()))
    one = torch.Generator("cuda").manual_seed(1)
    assert one.device.type == "cuda"
    again = torch.Generator("cuda").manual_seed(1)
    assert torch.equal(
        torch.randperm(9, device="cuda", generator=one),
        torch.randperm(9, device="cuda", generator=again),
    )
    torch.manual_seed(3)
    before = torch.get_rng_state()
    torch.nn.functional.dropout(torch.ones(100, device="cuda"))
    assert torch.equal(torch.get_rng_state(), before), "dropout on the device drew from the CPU"


def streams():
    stream = torch.cuda.Stream()
    assert stream.cuda_stream != torch.cuda.current_stream().cuda_stream
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream
        x = torch.ones(3, device="cuda") * 2
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    torch.cuda.current_stream().wait_stream(stream)
    x.record_stream(stream)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    end.record(stream)
    end.synchronize()
    assert end.query() and math.isnan(start.elapsed_time(end))
    refuses(ValueError, "enable_timing", lambda: torch.cuda.Event().elapsed_time(end))
    torch.cuda.synchronize()
    with torch.cuda.nvtx.range("a range"):
        torch.cuda.profiler.start()
    assert torch.accelerator.current_accelerator().type == "cuda"


def memory():
    before = torch.cuda.memory_allocated()
    x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() - before == 1 << 20
    del x
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.max_memory_allocated() >= before + (1 << 20)
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == before
    free, total = torch.cuda.mem_get_info()
    assert total - free == before and f"{total:d}"
    assert "memory summary" in torch.cuda.memory_summary()
    torch.cuda.empty_cache()


def files():
    model = torch.nn.Linear(8, 4).cuda().bfloat16()
    out = io.BytesIO()
    torch.save(model.state_dict(), out)
    out.seek(0)
    loaded = torch.load(out)
    assert loaded["bias"].device == torch.device("cuda:0")
    assert torch.equal(loaded["weight"].cpu(), model.weight.detach().cpu())
    out.seek(0)
    assert torch.load(out, map_location="cpu")["bias"].device.type == "cpu"
    out = io.BytesIO()
    torch.save(torch.ones(3), out)
    out.seek(0)
    assert torch.load(out, map_location="cuda").is_cuda
    assert model.state_dict()["bias"].untyped_storage().device.type == "cuda"


def training():
    torch.manual_seed(0)
    reference = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
    model.load_state_dict(reference.state_dict())
    model.cuda()
    data = TensorDataset(torch.randn(32, 8), torch.randn(32, 1))
    steps = [
        torch.optim.AdamW(m.parameters(), lr=0.1, fused=fused)
        for m, fused in ((reference, False), (model, False))
    ]
    for x, y in DataLoader(data, batch_size=8, pin_memory=True):
        assert x.is_pinned() and not torch.ones(1).is_pinned()
        for m, step in zip((reference, model), steps, strict=True):
            device = next(m.parameters()).device
            step.zero_grad()
            loss = (m(x.to(device, non_blocking=True)) - y.to(device)).square().mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
            step.step()
    for a, b in zip(reference.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a, b.cpu(), rtol=1e-4, atol=1e-5)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert model(x.cuda()).dtype == torch.bfloat16
    scaler = torch.amp.GradScaler("cuda")
    w = torch.randn(4, device="cuda", requires_grad=True)
    step = torch.optim.SGD([w], 0.1)
    before = w.detach().clone()
    scaler.scale((w * w).sum()).backward()
    scaler.step(step)
    scaler.update()
    torch.testing.assert_close(w.detach(), before - 0.1 * 2 * before)
    assert scaler.get_scale() == 65536.0


def attention():
    torch.manual_seed(0)
    cases = [
        (kind, causal, mask, grouped)
        for kind in (torch.float32, torch.bfloat16)
        for causal, mask in ((False, None), (True, None), (False, "bool"), (False, "float"))
        for grouped in (False, True)
    ]
    for kind, causal, mask, grouped in cases:
        q = torch.randn(2, 4, 33, 32, dtype=kind)
        k, v = (torch.randn(2, 2 if grouped else 4, 33, 32, dtype=kind) for _ in range(2))
        bias = {None: None, "bool": torch.rand(33, 33) > 0.3, "float": torch.randn(33, 33)}[mask]
        found = []
        for device, exact in (("cpu", torch.float32), ("cuda", kind)):
            given = [t.clone().to(device, exact).requires_grad_() for t in (q, k, v)]
            with_mask = bias if mask != "float" else bias.to(exact)
            out = torch.nn.functional.scaled_dot_product_attention(
                *given,
                attn_mask=None if bias is None else with_mask.to(device),
                is_causal=causal,
                enable_gqa=grouped,
            )
            out.float().square().sum().backward()
            found.append([out.detach().cpu().float(), *(t.grad.cpu().float() for t in given)])
        tolerance = 1e-4 if kind == torch.float32 else 5e-2
        for a, b in zip(*found, strict=True):
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
    half = torch.randn(1, 2, 8, 16, device="cuda", dtype=torch.bfloat16)
    kinds = [torch._fused_sdp_choice(x, x, x) for x in (half, half.float(), half.double())]
    assert kinds == [1, 2, 0], "flash, memory-efficient, plain: as on a GPU"


def devices():
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1
    properties = torch.cuda.get_device_properties(0)
    assert torch.cuda.get_device_capability() == (properties.major, properties.minor) == (9, 0)
    assert "no GPU" in torch.cuda.get_device_name()
    assert properties.multi_processor_count == 132
    assert not torch.cuda.is_current_stream_capturing()
    child = os.fork()
    if child == 0:
        try:
            torch.ones(1, device="cuda")
        except RuntimeError as error:
            os._exit(0 if "Cannot re-initialize CUDA in forked" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, "a forked child could use the device"


if __name__ == "__main__":
    for part in (
        factories,
        mixtures,
        generators,
        streams,
        memory,
        files,
        training,
        attention,
        devices,
    ):
        part()
        print(part.__name__)
    print("done")
