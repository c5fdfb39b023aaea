"""The limits of the emulated device, from reference/devices.toml: typed in nowhere else."""

from __future__ import annotations

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
        """What ``torch.cuda.get_device_name`` says: never the bare name of a real device.

        Caches of what was measured are keyed by this name, so nothing from here can be taken
        for a real device's.
        """
        return f"{self.device} (emulated by ptxview, no GPU)"


def _parse(text: str) -> dict[str, dict[str, Any]]:
    try:
        import tomllib
    except ImportError:  # Python 3.10: the table uses sections, integers and plain strings only
        tables: dict[str, dict[str, Any]] = {}
        for line in text.splitlines():
            line = line.strip()
            if line.startswith("["):
                section = tables.setdefault(line.strip("[]"), {})
            elif "=" in line and not line.startswith("#"):
                key, value = (part.strip() for part in line.split("=", 1))
                section[key] = value.strip('"') if value.startswith('"') else int(value)
        return tables
    return tomllib.loads(text)


@cache
def table() -> dict[str, dict[str, Any]]:
    """The whole table, by architecture."""
    return _parse(TABLE.read_text(encoding="utf-8"))


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
