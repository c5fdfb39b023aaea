"""Samples, and the vendor's disassembler to compare with."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

DATA = Path(__file__).parent.parent / "data" / "listing"

Disassembler = Callable[..., str]


@cache
def find_nvdisasm() -> Path:
    """nvdisasm of NVIDIA's wheel, which is the newer one, or of triton's."""
    for package, inside in (
        ("nvidia", "cu13/bin/nvdisasm"),
        ("triton", "backends/nvidia/bin/nvdisasm"),
    ):
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            if (found := Path(folder) / inside).exists():
                return found
    pytest.fail("no nvdisasm: install nvidia-cuda-nvdisasm or triton")


@cache
def disassemble(name: str, *options: str) -> str:
    """What nvdisasm prints for a sample."""
    done = subprocess.run(
        [str(find_nvdisasm()), *options, str(DATA / name)], capture_output=True, check=True
    )
    return done.stdout.decode("utf-8", "surrogateescape")


def read_sample(name: str) -> str:
    """A sample's text, byte for byte."""
    return (DATA / name).read_bytes().decode("utf-8", "surrogateescape")
