"""A device's limits: of an architecture's representative, or of the one that a program ran on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

_RECORDED = {
    "multi_processor_count": ("sms", 1),
    "warp_size": ("warp_size", 1),
    "regs_per_multiprocessor": ("registers_per_sm", 1),
    "shared_memory_per_multiprocessor": ("shared_per_sm", 1),
    "shared_memory_per_block": ("shared_per_block", 1),
    "shared_memory_per_block_optin": ("shared_per_block_optin", 1),
    "max_threads_per_multi_processor": ("max_threads_per_sm", 1),
    "L2_cache_size": ("l2_bytes", 1),
    "total_memory": ("memory_bytes", 1),
    "memory_bus_width": ("memory_bus_bits", 1),
    "clock_rate": ("clock_hz", 1000),
}
"""torch's device properties, the field of ours, and what one unit of theirs is in ours."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device. Sizes in bytes, clocks in Hz, bandwidth in bytes a second; None: not known.

    ``arch`` is as in ``sm_90``, ``name`` the device's own. ``registers_per_block`` and the
    ``shared_per_block…`` are the most that one block may have, with ``shared_per_block_optin`` the
    one that a launch must ask for. ``shared_reserved_per_block`` is taken of every block by the
    driver, and ``shared_reserved_in_cubin`` is how much of that the cubin's figure of a kernel
    with shared memory holds already. ``sub_partitions`` is what an SM's registers are shared out
    among. ``barriers_per_sm`` is None where barriers limit nothing. ``shared_carveouts`` are the
    sizes that the shared memory of an SM can be set to, ascending.
    """

    arch: str
    name: str
    sms: int | None
    warp_size: int
    registers_per_sm: int
    registers_per_block: int
    max_registers_per_thread: int
    register_allocation_unit: int
    sub_partitions: int
    shared_per_sm: int
    shared_per_block: int
    shared_per_block_optin: int
    shared_reserved_per_block: int
    shared_reserved_in_cubin: int
    shared_allocation_unit: int
    max_threads_per_block: int
    max_threads_per_sm: int
    max_blocks_per_sm: int
    barriers_per_sm: int | None = None
    shared_carveouts: tuple[int, ...] = ()
    l2_bytes: int | None = None
    memory_bytes: int | None = None
    memory_bandwidth: int | None = None
    memory_bus_bits: int | None = None
    clock_hz: int | None = None

    @property
    def max_warps_per_sm(self) -> int:
        """Warps that an SM holds at most."""
        return self.max_threads_per_sm // self.warp_size

    @classmethod
    def of(cls, arch: str, entry: Mapping[str, object]) -> Device:
        """The device of one entry of ``reference/devices.toml``.

        Raises ``KeyError`` with the name of a limit that the entry does not have.
        """
        carveouts = str(entry.get("shared_carveouts", "")).split()
        return cls(
            arch=arch,
            name=str(entry["device"]),
            sms=_known(entry, "sms"),
            warp_size=_figure(entry, "warp_size"),
            registers_per_sm=_figure(entry, "registers_per_sm"),
            registers_per_block=_figure(entry, "registers_per_block"),
            max_registers_per_thread=_figure(entry, "max_registers_per_thread"),
            register_allocation_unit=_figure(entry, "register_allocation_unit"),
            sub_partitions=_figure(entry, "warp_allocation_granularity"),
            shared_per_sm=_figure(entry, "shared_per_sm"),
            shared_per_block=_figure(entry, "shared_per_block"),
            shared_per_block_optin=_figure(entry, "shared_per_block_optin"),
            shared_reserved_per_block=_figure(entry, "shared_reserved_per_block"),
            shared_reserved_in_cubin=_figure(entry, "shared_reserved_in_cubin"),
            shared_allocation_unit=_figure(entry, "shared_allocation_unit"),
            max_threads_per_block=_figure(entry, "max_threads_per_block"),
            max_threads_per_sm=_figure(entry, "max_threads_per_sm"),
            max_blocks_per_sm=_figure(entry, "max_blocks_per_sm"),
            barriers_per_sm=_known(entry, "barriers_per_sm"),
            shared_carveouts=tuple(1024 * int(size) for size in carveouts),
            l2_bytes=_known(entry, "l2_bytes"),
            memory_bytes=_known(entry, "memory_bytes"),
            memory_bandwidth=_known(entry, "memory_bandwidth"),
            memory_bus_bits=_known(entry, "memory_bus_bits"),
            clock_hz=_known(entry, "clock_hz"),
        )

    def own_shared(self, static_bytes: int) -> int:
        """Static shared memory of a block without what is reserved, from the cubin's figure."""
        return max(static_bytes - self.shared_reserved_in_cubin, 0)

    def recorded(self, device: Mapping[str, object] | None) -> Device:
        """This one with what a recording says of its device, where that is of this architecture.

        ``device`` is the recording's (torch's device properties). The table's bandwidth is its
        representative's, and so is left out where the recorded device has another name.
        """
        if device is None or arch_of(device) != self.arch:
            return self
        name = str(device.get("name") or self.name)
        figures: dict[str, int] = {}
        for key, (field, unit) in _RECORDED.items():
            value = device.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                figures[field] = value * unit
        known = replace(self, name=name, **figures)  # type: ignore[arg-type]
        return known if name == self.name else replace(known, memory_bandwidth=None)


def arch_of(device: Mapping[str, object]) -> str | None:
    """``sm_90`` of the device that a recording names, None where it does not say."""
    major, minor = device.get("major"), device.get("minor")
    if isinstance(major, int) and isinstance(minor, int):
        return f"sm_{major}{minor}"
    return None


def base_arch(target: str) -> str:
    """``sm_90`` of ``sm_90a``: the entry of the table that a target is found under."""
    return target.rstrip("af")


def _known(entry: Mapping[str, object], key: str) -> int | None:
    value = entry.get(key)
    return value if isinstance(value, int) else None


def _figure(entry: Mapping[str, object], key: str) -> int:
    value = _known(entry, key)
    if value is None:
        raise KeyError(key)
    return value
