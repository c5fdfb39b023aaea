"""What the run asked of the emulated device, read from the environment that `ptxview run` sets."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

DEFAULT_SECONDS = 20.0


@dataclass(frozen=True)
class Settings:
    """One process's settings; children inherit them through the environment."""

    target: str
    """The architecture, as in ``sm_90``."""
    devices: int
    """How many CUDA devices the program sees."""
    kernels: bool
    """Whether torch.compile's graphs run the kernels generated for them (``--values ptx``)."""
    seconds: float
    """Seconds that one launch may take; infinite with ``--values all``."""

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


def read(target: str) -> Settings:
    """The settings of this process."""
    values = os.environ.get("PTXVIEW_VALUES")
    seconds = _number("PTXVIEW_VALUE_SECONDS", DEFAULT_SECONDS)
    return Settings(
        target=target,
        devices=max(1, int(_number("PTXVIEW_DEVICES", 1))),
        kernels=values == "ptx",
        seconds=math.inf if values == "all" else seconds,
    )
