"""A program whose generated code is edited before it runs: faults planted in Inductor's kernels.

    ptxview verify tests/verify/planted.py NAME…

The faults are in tests/data/verify/planted.toml: a function of this file, a pattern in the code
that Inductor writes, and what it is replaced by. The NAME of a function compiles it as it is.
"""

import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch._inductor.codecache import PyCodeCache

FAULTS = tomllib.loads(
    (Path(__file__).parents[1] / "data" / "verify" / "planted.toml").read_text("utf-8")
)


def softmax(x: Any, y: Any) -> Any:
    return torch.softmax(x, -1) * 2


def gelu(x: Any, y: Any) -> Any:
    return torch.nn.functional.gelu(x) + y


PROGRAMS: Mapping[str, Callable[..., Any]] = {"softmax": softmax, "gelu": gelu}


def make_inputs(dtype: torch.dtype) -> tuple[Any, Any]:
    torch.manual_seed(0)
    return (
        torch.randn(8, 96, device="cuda", dtype=dtype),
        torch.randn(8, 96, device="cuda", dtype=dtype),
    )


def compile_with(name: str, fault: Mapping[str, Any] | None) -> None:
    """Compile and call a function whose generated code is edited as a fault says."""
    cache: Any = PyCodeCache
    original = cache.write.__func__

    def write(cls: Any, source_code: str, *args: Any, **kwargs: Any) -> Any:
        if fault is None:
            return original(cls, source_code, *args, **kwargs)
        edited, count = re.subn(fault["pattern"], fault["replacement"], source_code, count=1)
        if not count:
            raise SystemExit(f"{name}: the code has no {fault['pattern']}")
        return original(cls, edited, *args, **kwargs)

    cache.write = classmethod(write)
    try:
        torch._dynamo.reset()
        program = PROGRAMS[name if fault is None else fault["program"]]
        dtype = "float32" if fault is None else fault.get("dtype", "float32")
        torch.compile(program)(*make_inputs(getattr(torch, dtype)))
    finally:
        cache.write = classmethod(original)


if __name__ == "__main__":
    for fault_name in sys.argv[1:] or list(FAULTS):
        compile_with(fault_name, FAULTS.get(fault_name))
        print(fault_name)
