"""An autotuned matrix product: one source, three configurations, the tensor cores in the PTX.

Triton compiles every configuration, times each on the real input, and keeps the fastest for this
M, N, K. Compare the three in ptxview: tile size, registers, shared memory, and the shape in
wgmma.mma_async (mma.sync on GPUs before Hopper). GROUP_M only changes the order of the tiles.

    ptxview run examples/10_matmul.py
"""

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=warps, num_stages=stages)
    for m, n, k, warps, stages in ((64, 64, 32, 4, 4), (128, 128, 64, 4, 3), (128, 256, 64, 8, 3))
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    pid = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP_M * tiles_n) * GROUP_M
    group_m = min(tl.cdiv(M, BLOCK_M) - first_m, GROUP_M)
    rows = (first_m + pid % (GROUP_M * tiles_n) % group_m) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid % (GROUP_M * tiles_n) // group_m * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        a_mask = (rows[:, None] < M) & (ks[None, :] < K)
        b_mask = (ks[:, None] < K) & (cols[None, :] < N)
        a = tl.load(a_ptr + rows[:, None] * K + ks[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + ks[:, None] * N + cols[None, :], mask=b_mask, other=0.0)
        acc = tl.dot(a, b, acc)
    c_mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc.to(tl.float16), mask=c_mask)


if __name__ == "__main__":
    torch.manual_seed(0)
    m, n, k = 512, 384, 256
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(k, n, device="cuda", dtype=torch.float16)
    c = torch.empty(m, n, device="cuda", dtype=torch.float16)

    def grid(meta):
        return (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)

    matmul_kernel[grid](a, b, c, m, n, k, GROUP_M=8)
    torch.testing.assert_close(c, a @ b, atol=5e-2, rtol=1e-2)
    print(f"matmul {m}×{k} by {k}×{n} in fp16: agrees with torch; kept {matmul_kernel.best_config}")
