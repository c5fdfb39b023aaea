"""A program that compiles a small model, its backward pass and optimizers, for ``count_sound``.

ptxview verify tests/verify/sound_models.py NAME…
"""

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch._inductor.config
from torch import nn
from torch.nn import functional

DEVICE = "cuda"


def train(model: nn.Module, *inputs: Any, autocast: torch.dtype | None = None) -> None:
    """Compile a model, and call it and its backward pass."""
    model.to(DEVICE)
    compiled = torch.compile(model)
    with torch.autocast(DEVICE, autocast, enabled=autocast is not None):
        result = compiled(*inputs)
    result = result[0] if isinstance(result, tuple) else result
    loss = result if result.dim() == 0 else result.float().pow(2).mean()
    loss.backward()


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE, dtype=dtype)


class Residual(nn.Module):  # type: ignore[misc]
    """A block of a ResNet."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x: Any) -> Any:
        inner = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(x + self.norm2(self.conv2(inner)))


def resnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 7, 2, 3),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        Residual(16),
        Residual(16),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


def train_resnet() -> None:
    train(resnet(), randn(4, 3, 32, 32))


def train_resnet_channels_last() -> None:
    model = resnet().to(memory_format=torch.channels_last)
    train(model, randn(4, 3, 32, 32).to(memory_format=torch.channels_last))


def train_resnet_float16() -> None:
    train(resnet(), randn(4, 3, 32, 32), autocast=torch.float16)


class Up(nn.Module):  # type: ignore[misc]
    """A U-Net of two levels with bilinear and nearest upsampling."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8)
        self.inner = nn.Conv2d(8, 8, 3, padding=1)
        self.transposed = nn.ConvTranspose2d(8, 8, 2, 2)
        self.merge = nn.Conv2d(24, 4, 3, padding=1)

    def forward(self, x: Any) -> Any:
        outer = functional.silu(self.norm(self.down(x)))
        inner = functional.silu(self.inner(functional.avg_pool2d(outer, 2)))
        bilinear = functional.interpolate(
            inner, scale_factor=2, mode="bilinear", align_corners=False
        )
        nearest = functional.interpolate(inner, scale_factor=2) + self.transposed(inner)
        return self.merge(torch.cat([outer, bilinear, nearest], 1))


def train_unet() -> None:
    train(Up(), randn(2, 3, 16, 16))


class Layer(nn.Module):  # type: ignore[misc]
    """A layer of a transformer: before its norms (GPT, ViT) or after them (BERT)."""

    def __init__(self, width: int, heads: int, causal: bool, dropout: float, after: bool) -> None:
        super().__init__()
        self.heads = heads
        self.causal = causal
        self.after = after
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def attention(self, x: Any) -> Any:
        rows, length, width = x.shape
        shape = (rows, length, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(x).view(shape).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)) / (width // self.heads) ** 0.5
        if self.causal:
            later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(later, float("-inf"))
        mixed = (self.dropout(scores.softmax(-1)) @ v).transpose(1, 2)
        return self.dropout(self.out(mixed.reshape(rows, length, width)))

    def perceptron(self, x: Any) -> Any:
        approximate = "tanh" if self.causal else "none"
        inner = functional.gelu(self.up(x), approximate=approximate)
        return self.dropout(self.down(inner))

    def forward(self, x: Any) -> Any:
        if self.after:
            x = self.norm1(x + self.attention(x))
            return self.norm2(x + self.perceptron(x))
        x = x + self.attention(self.norm1(x))
        return x + self.perceptron(self.norm2(x))


class Gpt(nn.Module):  # type: ignore[misc]
    """GPT-2 with its loss."""

    def __init__(self, dropout: float = 0.1, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(128, width)
        self.positions = nn.Embedding(64, width)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            Layer(width, 4, True, dropout, after=False) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 128, bias=False)

    def forward(self, ids: Any) -> Any:
        positions = torch.arange(ids.shape[1], device=ids.device)
        x = self.dropout(self.tokens(ids) + self.positions(positions))
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def token_ids(rows: int = 2, length: int = 32) -> torch.Tensor:
    return torch.randint(0, 128, (rows, length), device=DEVICE)


def train_gpt() -> None:
    train(Gpt(), token_ids())


def train_gpt_bfloat16() -> None:
    train(Gpt(), token_ids(), autocast=torch.bfloat16)


def train_gpt_float16() -> None:
    train(Gpt(dropout=0.0), token_ids(), autocast=torch.float16)


def train_gpt_dynamic() -> None:
    """Three lengths, of which the second makes the shape symbolic."""
    model = Gpt(dropout=0.0, layers=1).to(DEVICE)
    compiled = torch.compile(model, dynamic=True)
    for length in (16, 24):
        compiled(token_ids(length=length)).backward()


class Bert(nn.Module):  # type: ignore[misc]
    """Layers with their norms after them, of padded inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(128, 64, padding_idx=0)
        self.norm = nn.LayerNorm(64)
        self.layer = Layer(64, 4, causal=False, dropout=0.1, after=True)
        self.pooler = nn.Linear(64, 64)
        self.head = nn.Linear(64, 2)

    def forward(self, ids: Any) -> Any:
        x = self.layer(self.norm(self.tokens(ids)))
        return functional.log_softmax(self.head(torch.tanh(self.pooler(x[:, 0]))), -1)


def train_bert() -> None:
    train(Bert(), token_ids())


class Vit(nn.Module):  # type: ignore[misc]
    """Patches, a class token, a layer of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 48, 8, 8)
        self.token = nn.Parameter(torch.zeros(1, 1, 48))
        self.positions = nn.Parameter(torch.randn(1, 17, 48) * 0.02)
        self.layer = Layer(48, 4, causal=False, dropout=0.0, after=False)
        self.norm = nn.LayerNorm(48)
        self.head = nn.Linear(48, 10)

    def forward(self, x: Any) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.layer(x))[:, 0])


def train_vit() -> None:
    train(Vit(), randn(2, 3, 32, 32))


def train_vit_bfloat16() -> None:
    train(Vit(), randn(2, 3, 32, 32), autocast=torch.bfloat16)


class Lstm(nn.Module):  # type: ignore[misc]
    """An LSTM of plain operators."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs = nn.Linear(16, 64)
        self.hidden = nn.Linear(16, 64)

    def forward(self, x: Any) -> Any:
        h = torch.zeros(x.shape[1], 16, device=x.device)
        c = h
        for step in range(x.shape[0]):
            i, f, g, o = (self.inputs(x[step]) + self.hidden(h)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h


def train_lstm() -> None:
    train(Lstm(), randn(5, 4, 16))


class Experts(nn.Module):  # type: ignore[misc]
    """A mixture of four experts of which each token takes two."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(32, 4)
        self.up = nn.Parameter(torch.randn(4, 32, 64) * 0.1)
        self.down = nn.Parameter(torch.randn(4, 64, 32) * 0.1)

    def forward(self, x: Any) -> Any:
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        inner = functional.silu(torch.einsum("td,edf->tef", x, self.up))
        results = torch.einsum("tef,efd->ted", inner, self.down)
        picked = results.gather(1, chosen[..., None].expand(-1, -1, 32))
        return (picked * weights[..., None]).sum(1)


def train_experts() -> None:
    train(Experts(), randn(24, 32))


def train_experts_bfloat16() -> None:
    train(Experts(), randn(24, 32), autocast=torch.bfloat16)


def step_optimizers() -> None:
    """Two compiled steps of each optimizer: a kernel updates all parameters."""
    optimizers: tuple[Callable[..., torch.optim.Optimizer], ...] = (
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01),
        lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        lambda parameters: torch.optim.Adam(parameters, lr=1e-3, amsgrad=True),
        lambda parameters: torch.optim.RMSprop(parameters, lr=1e-3),
        lambda parameters: torch.optim.Adagrad(parameters, lr=1e-3),
    )
    for make in optimizers:
        torch._dynamo.reset()
        model = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 8)).to(DEVICE)
        optimizer = make(model.parameters())
        step = torch.compile(optimizer.step)
        for _ in range(2):
            for parameter in model.parameters():
                parameter.grad = torch.randn_like(parameter)
            step()


def clip_gradients() -> None:
    """The norm of many gradients, and their scaling by it."""
    gradients = [randn(24, 32), randn(32), randn(8, 32), randn(8)]

    def clip(values: list[Any], most: float) -> list[Any]:
        norm = torch.stack([v.norm() for v in values]).norm()
        scale = torch.clamp(most / (norm + 1e-6), max=1.0)
        return list(torch._foreach_mul(values, scale))

    torch.compile(clip)(gradients, 1.0)
    torch.compile(lambda values: torch._foreach_add(values, values, alpha=0.5))(gradients)


def quantize() -> None:
    """Casts to int8 and fp8 with scales, and back."""

    def to_int8(x: Any) -> Any:
        scale = x.abs().amax(-1, keepdim=True) / 127
        q = torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8)
        return q, q.to(torch.float32) * scale

    def to_fp8(x: Any) -> Any:
        scale = x.abs().amax() / 448
        q = (x / scale).to(torch.float8_e4m3fn)
        return q, q.to(torch.float32) * scale

    def to_e5m2(x: Any) -> Any:
        return x.to(torch.float8_e5m2).to(torch.bfloat16)

    for function in (to_int8, to_fp8, to_e5m2):
        for dtype in (torch.float32, torch.bfloat16):
            torch._dynamo.reset()
            torch.compile(function)(randn(16, 96, dtype=dtype))


def multiply_by_templates() -> None:
    """Matrix products by Inductor's own template, with what follows fused into them."""
    torch._inductor.config.max_autotune_gemm_backends = "TRITON"
    mode = "max-autotune-no-cudagraphs"
    a, b, c = (randn(128, 128, dtype=torch.float16) for _ in range(3))
    torch.compile(lambda a, b, c: functional.relu(a @ b + c) * 2, mode=mode)(a, b, c)


def run_rare_writes() -> None:
    """What buffers hold that is no plain result: the recording of ``test_verify``.

    A convolution whose bias a kernel adds and whose weight is copied to channels_last, memory that
    is filled before it is scattered into, a store that is left out, a cast to fp8, random integers.
    """
    convolution = nn.Conv2d(3, 4, 3).to(DEVICE, memory_format=torch.channels_last)
    image = randn(1, 3, 6, 6).to(memory_format=torch.channels_last)
    torch.compile(convolution)(image)
    index = torch.tensor([3, 0, 3], device=DEVICE)

    def scatter(values: Any) -> Any:
        return torch.zeros(5, device=DEVICE).index_put_((index,), values, accumulate=True) * 2

    torch.compile(scatter)(randn(3))
    layer = Layer(16, 2, causal=True, dropout=0.1, after=False).to(DEVICE)
    torch.compile(layer.attention)(randn(1, 8, 16)).sum().backward()

    def cast(x: Any) -> Any:
        scale = x.abs().amax() / 448
        return (x / scale).to(torch.float8_e4m3fn).to(torch.float32) * scale

    torch.compile(cast)(randn(4, 32, dtype=torch.bfloat16))
    torch.compile(torch.special.bessel_j0)(randn(32) * 20)
    torch.compile(lambda x: x + torch.randint(-3, 1000, (32,), device=DEVICE))(randn(32))


MODELS: Mapping[str, Callable[[], None]] = {
    "resnet": train_resnet,
    "resnet-channels-last": train_resnet_channels_last,
    "resnet-float16": train_resnet_float16,
    "unet": train_unet,
    "gpt": train_gpt,
    "gpt-bfloat16": train_gpt_bfloat16,
    "gpt-float16": train_gpt_float16,
    "gpt-dynamic": train_gpt_dynamic,
    "bert": train_bert,
    "vit": train_vit,
    "vit-bfloat16": train_vit_bfloat16,
    "lstm": train_lstm,
    "experts": train_experts,
    "experts-bfloat16": train_experts_bfloat16,
    "optimizers": step_optimizers,
    "clip-gradients": clip_gradients,
    "quantize": quantize,
    "templates": multiply_by_templates,
    "rare-writes": run_rare_writes,
}


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    for name in sys.argv[1:] or list(MODELS):
        MODELS[name]()
