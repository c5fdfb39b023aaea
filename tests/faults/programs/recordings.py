# mypy: ignore-errors
"""A launcher that one recording has seen is called in the next, and between them."""

import inspector
from inspector.commands.notebook import emulate

emulate("sm_90")
import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402


@triton.jit
def doubled(x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, tl.load(x + i, i < n) * 2, i < n)


def launched(n):
    x = torch.ones(n, device="cuda")
    kernel = doubled[(1,)](x, n, B=64)
    for _ in range(2):
        kernel[(1, 1, 1)](x, n, 64)
    return kernel, x.sum().item()


with inspector.record() as first:
    kernel, total = launched(9)
    print(total)
print(launched(9)[1])
with inspector.record() as second:
    for n in (9, 10, 11):
        x = torch.ones(n, device="cuda")
        kernel[(1, 1, 1)](x, n, 64)
        print(x.sum().item())
    print(launched(9)[1])
for recording in (first, second):
    (kernel,) = recording.kernels
    print(kernel.name, sum(c.count for v in kernel.variants for c in v.calls))
