"""What the run asked of the emulated device, read from the environment that `ptxview run` sets."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

DEFAULT_SECONDS = 20.0
# What runs kernels for their values, the usual one first.
ENGINES = ("ptx", "interpreter")


@dataclass(frozen=True)
class Settings:
    """One process's settings; children inherit them through the environment."""

    target: str
    """The architecture, as in ``sm_90``."""
    devices: int
    """How many CUDA devices the program sees."""
    values: str
    """``all``, ``budget`` or ``none``: which values are computed."""
    engine: str
    """``ptx`` or ``interpreter``: what runs a Triton kernel, its PTX or its Python."""
    kernels: bool
    """Whether torch.compile's graphs run the kernels generated for them, with ``ptx`` alone."""
    seconds: float
    """Seconds that one launch may take; infinite with ``all``, 0 with ``none``."""
    debug_kernel: str | None
    """The kernel whose ``breakpoint()`` stops, or None."""
    debug_program: tuple[int, int, int]
    """The program (block) in which it stops."""

    @property
    def capability(self) -> tuple[int, int]:
        """Major and minor compute capability: sm_120 is (12, 0)."""
        number = self.number
        return number // 10, number % 10

    @property
    def number(self) -> int:
        """90 for sm_90 and for sm_90a."""
        return int("".join(c for c in self.target.removeprefix("sm_") if c.isdigit()))


def _number(name: str, otherwise: float) -> float:
    try:
        value = float(os.environ.get(name, "") or otherwise)
    except ValueError:
        return otherwise
    return otherwise if math.isnan(value) else value


def _program(text: str) -> tuple[int, int, int]:
    parts = [int(p) for p in text.split(",") if p.strip().isdigit()]
    x, y, z = [*parts, 0, 0, 0][:3]
    return x, y, z


def read(target: str) -> Settings:
    """The settings of this process."""
    values = asked = os.environ.get("PTXVIEW_VALUES", "budget")
    engine = asked if asked in ENGINES else ENGINES[0]
    if values not in ("all", "budget", "none"):
        values = "budget"
    seconds = _number("PTXVIEW_VALUE_SECONDS", DEFAULT_SECONDS)
    return Settings(
        target=target,
        devices=max(1, int(_number("PTXVIEW_DEVICES", 1))),
        values=values,
        engine=engine,
        kernels=asked == "ptx",
        seconds={"all": math.inf, "none": 0.0}.get(values, seconds),
        debug_kernel=os.environ.get("PTXVIEW_DEBUG_KERNEL") or None,
        debug_program=_program(os.environ.get("PTXVIEW_DEBUG_PROGRAM", "")),
    )
