"""A roofline: the operations per second a call can reach, by its operations per byte moved.

S. Williams, A. Waterman, D. Patterson, "Roofline: An Insightful Visual Performance Model for
Multicore Architectures", CACM 52 (4), 2009. The slanted roofs are bandwidths: of a copy that was
measured, and the data sheet's. The level ones are the data sheet's peaks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

# A dtype as torch names it: the units that compute with it, by the data sheet's peaks.
UNITS = {
    "float64": ("fp64", "fp64_tensor"),
    "float32": ("fp32", "tf32_tensor"),
    "float16": ("fp32", "fp16_tensor"),
    "bfloat16": ("fp32", "bf16_tensor"),
    "float8_e4m3fn": ("fp32", "fp8_tensor"),
    "float8_e5m2": ("fp32", "fp8_tensor"),
}
TITLES = {
    "fp64": "fp64",
    "fp64_tensor": "fp64 tensor cores",
    "fp32": "fp32",
    "tf32_tensor": "tf32 tensor cores",
    "fp16_tensor": "fp16 tensor cores",
    "bf16_tensor": "bf16 tensor cores",
    "fp8_tensor": "fp8 tensor cores",
}


@dataclass(frozen=True, slots=True)
class Peaks:
    """A device's peaks by its data sheet: bytes per second, and operations per second by unit."""

    name: str
    bandwidth: float | None
    flops: Mapping[str, float]
    source: str


@dataclass(frozen=True, slots=True)
class Spot:
    """One call: ``intensity`` in operations a byte, ``flops`` in operations a second."""

    name: str
    intensity: float
    flops: float

    @classmethod
    def of(cls, name: str, us: float | None, moved: int | None, done: int | None) -> Spot | None:
        """A call's spot; None if its time, bytes or operations are not known or none."""
        if not us or not moved or not done:
            return None
        return cls(name, done / moved, done / us * 1e6)


def peaks_of_device(name: object, table: Mapping[str, object]) -> Peaks | None:
    """The data sheet of a device by its own name, of ``reference/peaks.toml``."""
    sheet = next(
        (e for e in table.values() if isinstance(e, Mapping) and name in (e.get("names") or ())),
        None,
    )
    if sheet is None:
        return None
    bandwidth = sheet.get("memory_bandwidth")
    flops = {unit: float(sheet[unit]) for unit in TITLES if unit in sheet}
    return Peaks(
        str(name),
        float(bandwidth) if isinstance(bandwidth, int | float) else None,
        flops,
        str(sheet.get("source", "")),
    )


def dtypes_in(words: str) -> list[str]:
    """The dtypes that inputs in words name: ``float32 1823×781, int64 16``."""
    return [d for d in UNITS if re.search(rf"\b{d}\b", words)]
