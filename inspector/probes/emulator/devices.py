"""The limits of the emulated device, from reference/devices.toml: typed in nowhere else."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parents[2] / "reference" / "devices.toml"


@dataclass(frozen=True)
class Device:
    """One architecture's limits with its representative device; sizes in bytes, None: unknown."""

    arch: str
    device: str
    sms: int
    warp_size: int
    registers_per_sm: int
    registers_per_block: int
    register_allocation_unit: int
    warp_allocation_granularity: int
    shared_per_sm: int
    shared_per_block: int
    shared_per_block_optin: int
    shared_reserved_in_cubin: int
    max_threads_per_block: int
    max_threads_per_sm: int
    l2_bytes: int
    memory_bytes: int
    memory_bus_bits: int | None
    clock_hz: int | None
    memory_bandwidth: int | None

    @property
    def name(self) -> str:
        """The name that torch and CUDA give: never the bare name of a real device.

        Caches of measurements are keyed by this name, so none from here is taken for a real
        device's.
        """
        return f"{self.device} (emulated by ptxview, no GPU)"

    @property
    def clock_khz(self) -> int:
        """0 if unknown, as the next."""
        return (self.clock_hz or 0) // 1000

    @property
    def memory_clock_khz(self) -> int:
        """From two transfers a clock over the bus."""
        bits = (self.memory_bandwidth or 0) * 8
        return bits // self.memory_bus_bits // 2000 if self.memory_bus_bits else 0


@cache
def table() -> dict[str, dict[str, Any]]:
    """The whole table, by architecture."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


@cache
def find(arch: str) -> Device:
    """The device of an architecture; ``sm_90a`` is found under ``sm_90``.

    Raises ValueError, with the known architectures, for an unknown one.
    """
    rows = table()
    row = rows.get(arch) or rows.get(arch.rstrip("af"))
    if row is None:
        raise ValueError(f"no device data for {arch}; known: {', '.join(rows)}")
    fields: dict[str, Any] = {
        name: row.get(name) for name in Device.__dataclass_fields__ if name != "arch"
    }
    return Device(arch=arch, **fields)
