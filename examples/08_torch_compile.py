"""torch.compile: nine pointwise operations, a layer norm and a softmax become few kernels.

Eager PyTorch sends every intermediate to DRAM and back, to the warehouse far from the factory.
Inductor writes Triton in which they are tmp0, tmp1, … in registers. The second part trains: the
backward pass is a graph of its own, with its own generated kernels.

    ptxview run examples/08_torch_compile.py
"""

import torch


def chain(x):
    gelu = 0.5 * x * (1.0 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x)))
    return torch.softmax(torch.nn.functional.layer_norm(gelu, gelu.shape[-1:]), dim=-1)


def loss(x, weight, target):
    hidden = torch.nn.functional.gelu(x * weight, approximate="tanh")
    return torch.square(hidden - target).mean()


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(1823, 781, device="cuda")
    torch.testing.assert_close(torch.compile(chain)(x), chain(x))
    print("forward: the compiled chain agrees with eager")

    target = torch.zeros_like(x)
    eager = torch.ones(781, device="cuda", requires_grad=True)
    compiled = torch.ones(781, device="cuda", requires_grad=True)
    loss(x, eager, target).backward()
    torch.compile(loss)(x, compiled, target).backward()
    torch.testing.assert_close(compiled.grad, eager.grad)
    with torch.no_grad():
        compiled -= 0.1 * compiled.grad
    print("backward: the compiled gradient agrees with eager, one step taken")
