"""Programs that mix CUDA graphs, streams, AOTInductor, JAX, CuPy and torch.profiler."""

_SETUP = """
import os
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
import torch, triton
import triton.language as tl
@triton.jit
def scale(x, y, n, k, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * k, mask=i < n)
def scaled(x, k=2.0):
    y = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), k, BLOCK=256)
    return y
x = torch.arange(1000, device="cuda", dtype=torch.float32)
def captured(run, stream=None):
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        out = run()
    return graph, out
def kernels(profile):
    on_gpu = torch.autograd.DeviceType.CUDA
    names = {e.key for e in profile.key_averages() if e.device_type == on_gpu}
    return sorted(n for n in ("scale",) if n in names), bool(names)
CUDA = torch.profiler.ProfilerActivity.CUDA
"""

_PROGRAMS = {
    "graph": """
graph, out = captured(lambda: scaled(x) + 1)
for n in range(5):
    x.add_(1)
    graph.replay()
print(out.sum().item())
""",
    "graphed_callables": """
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 1)).cuda()
sample = torch.ones(32, 64, device="cuda", requires_grad=True)
model = torch.cuda.make_graphed_callables(model, (sample,))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
for _ in range(10):
    loss = (model(sample) - 1).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    losses.append(loss.item())
print(losses[-1] < losses[0])
""",
    "reduce_overhead": """
compiled = torch.compile(lambda x: torch.nn.functional.gelu(x) * scaled(x), mode="reduce-overhead")
for _ in range(6):
    torch.compiler.cudagraph_mark_step_begin()
    out = compiled(x).clone()
print(out.sum().item())
""",
    "streams": """
streams = [torch.cuda.Stream() for _ in range(4)]
outs = []
for n, stream in enumerate(streams):
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        outs.append(scaled(x, float(n)))
for stream in streams:
    torch.cuda.current_stream().wait_stream(stream)
print(torch.stack(outs).sum().item())
""",
    "threads": """
from concurrent.futures import ThreadPoolExecutor
def work(n):
    with torch.cuda.stream(torch.cuda.Stream()):
        out = scaled(x.clone(), float(n))
        torch.cuda.current_stream().synchronize()
        return out.sum().item()
torch.cuda.synchronize()
with ThreadPoolExecutor(8) as pool:
    print(sum(pool.map(work, range(32))))
""",
    "profiler": """
with torch.profiler.profile(activities=[CUDA]) as profile:
    scaled(x), x.square()
    torch.cuda.synchronize()
print(kernels(profile))
""",
    "profiler_schedule": """
compiled = torch.compile(lambda x: (x.sin() * scaled(x)).sum())
ready = []
schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
with torch.profiler.profile(activities=[CUDA], schedule=schedule,
                            on_trace_ready=lambda p: ready.append(kernels(p))) as profile:
    for _ in range(8):
        compiled(x).item()
        profile.step()
print(ready)
""",
    "aot_inductor": """
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x).softmax(-1)
sample = torch.randn(8, 128, device="cuda")
package = torch._inductor.aoti_compile_and_package(torch.export.export(Model(), (sample,)),
                                                   package_path=os.path.abspath("model.pt2"))
loaded = torch._inductor.aoti_load_package(package)
print(torch.allclose(loaded(sample), Model()(sample), atol=1e-6))
with torch.profiler.profile(activities=[CUDA]) as profile:
    out = loaded(sample)
    torch.cuda.synchronize()
print(out.sum().round().item(), kernels(profile)[1])
""",
    "jax_jit": """
import jax, jax.numpy as jnp
got = jax.jit(lambda a: jnp.tanh(a) @ a)(jnp.ones((64, 64)))
print(round(float(got.sum()), 1), scaled(x).sum().item())
""",
    "jax_dlpack_and_graph": """
import jax, jax.numpy as jnp
a = jax.dlpack.from_dlpack(x)
b = torch.from_dlpack(jax.jit(lambda v: v * 3)(a).block_until_ready())
graph, out = captured(lambda: scaled(b))
graph.replay()
print(out.sum().item())
""",
    "cupy_kernel": """
import cupy
kernel = cupy.RawKernel('extern "C" __global__ void inc(float* x) { x[threadIdx.x] += 1; }', "inc")
with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
    kernel((1,), (128,), (cupy.from_dlpack(x),))
print(scaled(x).sum().item())
""",
    "device_assert_after_graph": """
graph, out = captured(lambda: scaled(x))
graph.replay()
print(out.sum().item(), flush=True)
x[torch.tensor([5000], device="cuda")]
torch.cuda.synchronize()
""",
}

PROGRAMS = {name: _SETUP + text for name, text in _PROGRAMS.items()}
