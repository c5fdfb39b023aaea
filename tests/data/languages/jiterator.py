"""torch.cuda.jiterator: an elementwise function of C++."""

import torch

SOURCE = "template <typename T> T jit_add(T x, T y) { return x + y; }"
add = torch.cuda.jiterator._create_jit_fn(SOURCE)
x = torch.arange(1000, device="cuda", dtype=torch.float32)
print(add(x, x).sum().item())
