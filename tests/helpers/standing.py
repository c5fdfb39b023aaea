"""Kernels that launch nothing, behind what stands before launchers: in Python, and in C."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from inspector.probes.calls import launch_native

names = itertools.count()
PARAMETERS: list[tuple[str, Any, Any]] = [
    ("out", "*fp32", None), ("x", "*fp32", None), ("n", "i32", None), ("BLOCK", "constexpr", 64)
]  # fmt: skip


def aligned(*shape: int, dtype: torch.dtype = torch.float32, by: int = 0) -> torch.Tensor:
    """A tensor at a multiple of 512 bytes as on a device, and ``by`` elements further."""
    size = torch.empty((), dtype=dtype).element_size()
    count = int(torch.Size(shape).numel())
    memory = torch.zeros(count + by + 512 // size, dtype=dtype)
    start = -memory.data_ptr() % 512 // size + by
    return memory[start : start + count].view(shape)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The module of launch.c, compiled here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(launch_native, "_loaded", [])
        assert launch_native.native() is None
        assert launch_native.build() is not None, "no C compiler, or no Python.h"
        launch_native._loaded.clear()
        module = launch_native.native()
        assert module is not None, "this torch is not known again"
        return module


@pytest.fixture(params=["in Python", "in C"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which of the two stands before launchers."""
    native = request.getfixturevalue("compiled") if request.param == "in C" else None
    monkeypatch.setattr(launch_native, "_loaded", [native])
    return str(request.param)
