"""A model that torch.compile makes kernels of, forward and backward."""

import torch


def loss(x, weight, target):
    hidden = torch.nn.functional.gelu(x * weight, approximate="tanh")
    return torch.square(hidden - target).mean()


torch.manual_seed(0)
x, target = torch.randn(64, 100, device="cuda"), torch.zeros(64, 100, device="cuda")
eager = torch.ones(100, device="cuda", requires_grad=True)
compiled = torch.ones(100, device="cuda", requires_grad=True)
loss(x, eager, target).backward()
torch.compile(loss)(x, compiled, target).backward()
torch.testing.assert_close(compiled.grad, eager.grad)
