"""What else programs reach of CUDA through torch: its runtime library, NVTX, graphs."""
# ruff: noqa: N802, N815  (the names are NVIDIA's)

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from . import memory


def library(properties: Callable[[int], Any]) -> SimpleNamespace:
    """The part of the CUDA runtime that programs reach through ``torch.cuda.cudart()``."""

    def memory_info(index: int = 0) -> tuple[int, int]:
        total = properties(index).total_memory
        return max(0, total - memory.held(index)), total

    return SimpleNamespace(
        cudaError=SimpleNamespace(success=0),
        cudaGetErrorString=lambda code: f"CUDA error {code}",
        cudaMemGetInfo=memory_info,
        cudaProfilerStart=lambda: 0,
        cudaProfilerStop=lambda: 0,
        cudaDeviceSynchronize=lambda: 0,
        cudaHostRegister=lambda pointer, size, flags: 0,
        cudaHostUnregister=lambda pointer: 0,
    )


class Nvtx:
    """Ranges that nobody watches: each call keeps NVTX's own meaning of its result."""

    def __init__(self) -> None:
        self.depth = 0

    def rangePushA(self, message: str) -> int:
        self.depth += 1
        return self.depth - 1

    def rangePop(self) -> int:
        self.depth -= 1
        return self.depth

    def rangeStartA(self, message: str) -> int:
        return 0

    def rangeEnd(self, handle: int) -> None:
        return None

    def markA(self, message: str) -> None:
        return None

    deviceRangeStart = rangeStartA
    deviceRangeEnd = rangeEnd


class NoGraph:
    """CUDA graphs record what a GPU runs."""

    def __init__(self, *args: Any, **given: Any) -> None:
        raise NotImplementedError(
            "ptxview: CUDA graphs cannot be captured without a GPU; run the same code outside of "
            "torch.cuda.graph"
        )
