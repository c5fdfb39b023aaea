"""Programs whose generated code is edited before it runs: faults planted in Inductor's kernels.

    ptxview verify tests/verify/planted.py NAME…

The faults are in tests/data/verify/planted.toml: a program of this file, a pattern in the code that
Inductor writes for it, and what it is replaced by. The NAME of a program compiles it as it is. All
are compiled and called in turn; without a NAME, every program and every fault. For each a line
says the frame of torch.compile, the kernel with the fault, and by how much results have changed:

    planted lost_scale: frame 3, kernel triton_per_fused__softmax_0, changed 0.5
"""

import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch._inductor import config
from torch._inductor.codecache import PyCodeCache
from torch.nn import functional

FAULTS: Mapping[str, Mapping[str, str]] = tomllib.loads(
    (Path(__file__).parents[1] / "data" / "verify" / "planted.toml").read_text("utf-8")
)
FP32 = torch.float32
FP16 = torch.float16
BF16 = torch.bfloat16


def normal(*shape: int, dtype: torch.dtype = FP32, grad: bool = False) -> Any:
    return torch.randn(shape).to("cuda", dtype).requires_grad_(grad)


def indices(end: int, *shape: int) -> Any:
    return torch.randint(end, shape).to("cuda")


def softmax(x: Any) -> Any:
    return torch.softmax(x, -1) * 2


def log_sum_exp(x: Any) -> Any:
    return torch.logsumexp(x, -1)


def gelu(x: Any, y: Any) -> Any:
    return functional.gelu(x) + y


def gelu_tanh(x: Any) -> Any:
    return functional.gelu(x, approximate="tanh")


def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    return functional.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)


def residual_norm(x: Any, residual: Any, weight: Any) -> Any:
    added = x + residual
    return added, functional.layer_norm(added, added.shape[-1:], weight)


def rms_norm(x: Any, weight: Any) -> Any:
    wide = x.float()
    scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
    return scaled.to(x.dtype) * weight


def group_norm(x: Any, weight: Any, bias: Any) -> Any:
    return functional.silu(functional.group_norm(x, 4, weight, bias))


def batch_norm(x: Any, mean: Any, variance: Any, weight: Any, bias: Any) -> Any:
    return functional.relu(functional.batch_norm(x, mean, variance, weight, bias, training=True))


def dropout(x: Any) -> Any:
    return functional.dropout(x, 0.25, training=True) + 1


def cross_entropy(logits: Any, target: Any) -> Any:
    return functional.cross_entropy(logits, target, ignore_index=3)


def attention(query: Any, key: Any, value: Any, mask: Any) -> Any:
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
    return torch.softmax(scores.masked_fill(~mask, -torch.inf), -1) @ value


def causal_softmax(scores: Any) -> Any:
    length = scores.shape[-1]
    row = torch.arange(length, device=scores.device)
    return torch.softmax(torch.where(row[:, None] >= row, scores * 0.125, -torch.inf), -1)


def embedding(table: Any, tokens: Any, position: Any) -> Any:
    return functional.embedding(tokens, table) + position


def max_pool(x: Any) -> Any:
    return functional.max_pool2d(x, 3, 2, 1)


def average_pool(x: Any) -> Any:
    return functional.avg_pool2d(functional.relu(x), 2)


def cumulative_sum(x: Any) -> Any:
    return torch.cumsum(x * 0.5, -1)


def argmax(x: Any) -> Any:
    return torch.argmax(x - 0.25, -1), x.amax(-1)


def column_range(x: Any) -> Any:
    return x.amax(0) - x.amin(0)


def column_mean(x: Any) -> Any:
    return x.mean(0)


def gather_scatter(x: Any, index: Any, source: Any) -> Any:
    gathered = torch.gather(x, 1, index)
    return gathered * 2, torch.zeros_like(x).scatter_add(1, index, source)


def rotary(x: Any, cosine: Any, sine: Any) -> Any:
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat((-second, first), -1) * sine


def matmul(x: Any, weight: Any, bias: Any) -> Any:
    return functional.relu(x @ weight + bias)


def adam(weight: Any, gradient: Any, mean: Any, square: Any) -> Any:
    mean.mul_(0.9).add_(gradient, alpha=0.1)
    square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
    weight.addcdiv_(mean, square.sqrt().add_(1e-3), value=-0.01)
    return weight.sum()


def transposes(x: Any, y: Any) -> Any:
    return (x.t() / (y.abs() + 1)).contiguous()


def dynamic_norm(x: Any) -> Any:
    return x / (x.square().sum(-1, keepdim=True).sqrt() + 1e-6)


def quantize(x: Any, scale: Any) -> Any:
    return torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8)


def concatenate(x: Any, y: Any) -> Any:
    return functional.pad(torch.cat((x, y.sin()), 1), (1, 2), value=0.5)


def variance(x: Any) -> Any:
    return x.var(-1)


def noise(x: Any) -> Any:
    return x + torch.randn_like(x) * 0.25


def index_add_twice(x: Any, index: Any, source: Any) -> Any:
    once = torch.zeros_like(x).index_add(0, index, source)
    return once.index_add(0, index, source * 2)


def foreach_step(x: Any, y: Any, first: Any, second: Any) -> Any:
    torch._foreach_add_([first, second], 1.0)
    torch._foreach_div_([x, y], [first, second])
    return first + second


def share(x: Any) -> Any:
    return torch.cumsum(x, 1) / x.abs().sum()


class Program(NamedTuple):
    """A function to compile, what makes its inputs, and how it is compiled.

    Where an input needs a gradient, the backward pass is called too.
    """

    function: Callable[..., Any]
    inputs: Callable[[], Sequence[Any]]
    dynamic: bool = False
    options: Mapping[str, Any] = {}


TRITON_MATMUL = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}
PROGRAMS: Mapping[str, Program] = {
    "softmax": Program(softmax, lambda: [normal(8, 96)]),
    "softmax_bf16": Program(softmax, lambda: [normal(8, 96, dtype=BF16)]),
    "log_sum_exp": Program(log_sum_exp, lambda: [normal(8, 3000) - 20]),
    "gelu": Program(gelu, lambda: [normal(8, 96), normal(8, 96)]),
    "gelu_tanh_fp16": Program(gelu_tanh, lambda: [normal(8, 96, dtype=FP16, grad=True)]),
    "layer_norm": Program(
        layer_norm,
        lambda: [normal(8, 96, grad=True), normal(96, grad=True), normal(96, grad=True)],
    ),
    "residual_norm_bf16": Program(
        residual_norm,
        lambda: [
            normal(8, 96, dtype=BF16),
            normal(8, 96, dtype=BF16),
            normal(96, dtype=BF16),
        ],
    ),
    "rms_norm_bf16": Program(
        rms_norm,
        lambda: [normal(8, 96, dtype=BF16, grad=True), normal(96, dtype=BF16, grad=True)],
    ),
    "group_norm": Program(group_norm, lambda: [normal(2, 8, 6, 6), normal(8), normal(8)]),
    "batch_norm": Program(
        batch_norm,
        lambda: [normal(4, 3, 5, 5), normal(3), normal(3).abs(), normal(3), normal(3)],
    ),
    "dropout": Program(dropout, lambda: [normal(8, 96, grad=True)]),
    "cross_entropy": Program(
        cross_entropy, lambda: [normal(16, 50, grad=True), torch.arange(16, device="cuda") % 5]
    ),
    "attention": Program(
        attention,
        lambda: [
            *(normal(2, 12, 16) for _ in range(3)),
            torch.ones(12, 12, dtype=torch.bool).tril().to("cuda"),
        ],
    ),
    "causal_softmax": Program(causal_softmax, lambda: [normal(2, 24, 24)]),
    "embedding": Program(
        embedding, lambda: [normal(50, 32, grad=True), indices(50, 4, 6), normal(6, 32)]
    ),
    "max_pool": Program(max_pool, lambda: [normal(2, 3, 9, 9) - 2]),
    "max_pool_backward": Program(max_pool, lambda: [normal(2, 3, 9, 9, grad=True)]),
    "average_pool": Program(average_pool, lambda: [normal(2, 3, 8, 8)]),
    "cumulative_sum": Program(cumulative_sum, lambda: [normal(8, 96)]),
    "argmax": Program(argmax, lambda: [normal(8, 96) - 5]),
    "column_range": Program(column_range, lambda: [normal(200, 24) - 9]),
    "column_mean_fp16": Program(column_mean, lambda: [normal(700, 24, dtype=FP16) + 8]),
    "gather_scatter": Program(
        gather_scatter, lambda: [normal(8, 40), indices(40, 8, 20), normal(8, 20)]
    ),
    "rotary": Program(rotary, lambda: [normal(2, 6, 16), normal(6, 16), normal(6, 16)]),
    "matmul": Program(
        matmul, lambda: [normal(64, 48), normal(48, 80), normal(80)], options=TRITON_MATMUL
    ),
    "matmul_fp16": Program(
        matmul,
        lambda: [normal(n, m, dtype=FP16) for n, m in ((64, 128), (128, 64), (1, 64))],
        options=TRITON_MATMUL,
    ),
    "adam": Program(adam, lambda: [*(normal(500) for _ in range(3)), normal(500).square()]),
    "transposes": Program(transposes, lambda: [normal(24, 40), normal(40, 24)]),
    "dynamic_norm": Program(dynamic_norm, lambda: [normal(7, 90)], dynamic=True),
    "quantize": Program(quantize, lambda: [normal(8, 96) * 90, normal(8, 1).abs() + 0.1]),
    "concatenate": Program(concatenate, lambda: [normal(6, 5), normal(6, 9)]),
    "noise": Program(noise, lambda: [normal(8, 96)]),
    "index_add_twice": Program(
        index_add_twice, lambda: [normal(70, 24), indices(70, 40), normal(40, 24)]
    ),
    "foreach_step": Program(
        foreach_step, lambda: [normal(300), normal(40, 50), normal() + 5, normal() + 5]
    ),
    "share": Program(share, lambda: [normal(20, 60, grad=True)]),
    "variance": Program(variance, lambda: [normal(8, 3000) + 1]),
}


KERNEL = re.compile(r"^(\w+) = async_compile\.triton\(.*?(^def .*?)^'''", re.MULTILINE | re.DOTALL)
"""A kernel's name and its function in the code of a graph."""


class Planter:
    """Edits what Inductor writes as a fault says, once, and knows in which kernel it did."""

    def __init__(self, fault: Mapping[str, str]) -> None:
        self.fault = fault
        self.kernel: str | None = None

    def edited(self, code: str) -> str:
        """The code of a graph with the fault."""
        for kernel in KERNEL.finditer(code):
            pattern = re.compile(self.fault["pattern"], re.MULTILINE)
            edited, count = pattern.subn(self.fault["replacement"], kernel[2], count=1)
            if count and self.kernel is None:
                self.kernel = kernel[1]
                return code[: kernel.start(2)] + edited + code[kernel.end(2) :]
        return code


def run(name: str, program: Program, planter: Planter | None) -> list[Any]:
    """Compile and call a program; its outputs, gradients, and the inputs that it may change."""
    cache: Any = PyCodeCache
    original = cache.write.__func__

    def write(cls: Any, source_code: str, *args: Any, **kwargs: Any) -> Any:
        if planter is not None:
            source_code = planter.edited(source_code)
        return original(cls, source_code, *args, **kwargs)

    torch.manual_seed(0)
    inputs = program.inputs()
    code = program.function.__code__.replace(co_name=name)  # a separate frame
    function = FunctionType(code, globals(), name)
    cache.write = classmethod(write)
    try:
        with config.patch(dict(program.options)):
            compiled = torch.compile(function, fullgraph=True, dynamic=program.dynamic)
            outputs = compiled(*inputs)
            outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
            if any(x.requires_grad for x in inputs):
                torch.autograd.backward(outputs, [torch.randn(x.shape).to(x) for x in outputs])
    finally:
        cache.write = classmethod(original)
    gradients = [x.grad for x in inputs if x.grad is not None]
    return [x.detach().to("cpu", copy=True) for x in (*outputs, *gradients, *inputs)]


def change(results: Sequence[Any], faulty: Sequence[Any]) -> float:
    """The largest change of a result, as a share of its largest magnitude."""
    largest = 0.0
    for one, other in zip(results, faulty, strict=True):
        one = one.double().nan_to_num()
        other = other.double().nan_to_num()
        largest = max(largest, float((one - other).abs().max() / one.abs().max().clamp(1e-30)))
    return largest


def main(names: Sequence[str]) -> None:
    """Compile and call programs and faults in turn."""
    torch._dynamo.config.recompile_limit = 1000
    results: dict[str, Sequence[Any]] = {}
    for frame, name in enumerate(names):
        fault = FAULTS.get(name)
        if fault is None:
            results[name] = run(name, PROGRAMS[name], None)
            print(f"planted {name}: frame {frame}")
            continue
        planter = Planter(fault)
        faulty = run(name, PROGRAMS[fault["program"]], planter)
        if planter.kernel is None:
            raise SystemExit(f"{name}: the code of {fault['program']} has no {fault['pattern']}")
        line = f"planted {name}: frame {frame}, kernel {planter.kernel}"
        if fault["program"] in results:
            line += f", changed {change(results[fault['program']], faulty):.2g}"
        print(line)


if __name__ == "__main__":
    main(sys.argv[1:] or [*PROGRAMS, *FAULTS])
