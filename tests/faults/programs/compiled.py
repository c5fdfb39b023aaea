# mypy: ignore-errors
"""torch.compile with max-autotune, and a graph that a backend refuses."""

import hashlib
import traceback

import torch
import torch._inductor.config as config

config.compile_threads = 1
config.fx_graph_cache = False
config.max_autotune_gemm_backends = "ATEN,TRITON"
config.test_configs.autotune_choice_desc_regex = "^$|BLOCK_K=16, BLOCK_M=32.*BLOCK_N=32"


@torch.compile(mode="max-autotune-no-cudagraphs")
def product(a, b):
    return torch.relu(a @ b)


@torch._dynamo.register_backend
def refusing(graph, inputs):
    raise ValueError("this backend refuses")


@torch.compile(backend="refusing")
def refused(a):
    return a + 1


torch.manual_seed(0)
a, b = torch.randn(64, 32, device="cuda"), torch.randn(32, 48, device="cuda")
for _ in range(3):
    made = product(a, b)
print(hashlib.sha256(made.cpu().numpy().tobytes()).hexdigest())
try:
    refused(a)
except Exception as error:
    print(type(error).__name__, str(error).splitlines()[0])
    traceback.print_exc()
