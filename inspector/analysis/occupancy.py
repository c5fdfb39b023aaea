"""How many blocks of a kernel an SM holds at once, what limits them, and what more would take.

The rules are those of NVIDIA's own calculator, ``cuda_occupancy.h`` of the CUDA toolkit, which the
tests compile and compare with: registers are given to each warp in units, in one of the SM's
sub-partitions; shared memory to each block in units, with what the driver keeps of it; warps,
blocks and barriers are counted. It is the theoretical occupancy: that of a full SM.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import fields, replace

from inspector.base.units import plural

# A device's limits: of an architecture's representative, or of the one that a program ran on.

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
"""torch's device properties, our field for each, and torch's unit in ours."""
_IN_TABLE = {"sub_partitions": "warp_allocation_granularity"}
"""Fields that ``reference/devices.toml`` calls by the name of NVIDIA's calculator."""


class Device(Struct, frozen=True):
    """One device. Sizes in bytes, clocks in Hz, bandwidth in bytes a second; None: not known.

    ``arch`` is as in ``sm_90``, ``name`` the device's own. ``registers_per_block`` and the
    ``shared_per_block…`` are the most that one block may have, with ``shared_per_block_optin`` the
    one that a launch must ask for. ``shared_reserved_per_block`` is taken of every block by the
    driver, and ``shared_reserved_in_cubin`` is how much of that the cubin's figure of a kernel
    with shared memory holds already. ``sub_partitions`` is what an SM's registers are shared out
    among. ``barriers_per_sm`` is None if barriers limit nothing.
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
        """The device of one entry of ``reference/devices.toml``. Raises ``KeyError`` with the name
        of a limit that the entry does not have."""
        figures: dict[str, int | None] = {}
        for limit in fields(cls)[2:]:
            value = entry.get(_IN_TABLE.get(limit.name, limit.name))
            figures[limit.name] = value if isinstance(value, int) else None
            if value is None and limit.required and limit.name != "sms":
                raise KeyError(limit.name)
        return cls(arch, str(entry["device"]), **figures)  # type: ignore[arg-type]

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
        for key, (figure, unit) in _RECORDED.items():
            value = device.get(key)
            if type(value) is int and value > 0:
                figures[figure] = value * unit
        varied = replace(self, name=name, **figures)
        if varied.max_threads_per_sm < varied.warp_size:  # no warp fits: the record is malformed
            return self
        return varied if name == self.name else replace(varied, memory_bandwidth=None)


def arch_of(device: Mapping[str, object]) -> str | None:
    """``sm_90`` of the device that a recording names, None if it does not say."""
    major = device.get("major")
    minor = device.get("minor")
    return f"sm_{major}{minor}" if isinstance(major, int) and isinstance(minor, int) else None


def base_arch(target: str) -> str:
    """``sm_90`` of ``sm_90a``: the entry of the table that a target is found under."""
    return target.rstrip("af")


REGISTERS = "registers"
SHARED = "shared memory"
THREADS = "block size"
BLOCKS = "blocks"
BARRIERS = "barriers"


class OccupancyStep(Struct, frozen=True):
    """A change to a kernel that lets an SM hold more warps of it, all else being equal.

    ``registers`` a thread, ``shared_bytes`` and ``threads`` a block are what it would have; those
    that do not change are None. ``blocks`` and ``warps`` are an SM's then, ``text`` says it all.
    """

    text: str
    blocks: int
    warps: int
    registers: int | None = None
    shared_bytes: int | None = None
    threads: int | None = None


class _Use(Struct, frozen=True):
    threads: int
    registers: int
    shared_bytes: int
    barriers: int


class Occupancy(Struct, frozen=True):
    """What an SM holds of a kernel at once, at most.

    ``blocks`` is 0 where no block can be launched. ``percent`` is ``warps`` of those that the
    SM could hold. ``limits`` are the blocks that each resource alone allows; what is not used is
    not in it. ``limiters`` are those that allow no more than there are. ``registers_a_warp`` and
    ``shared_a_block`` (bytes) are what is really taken, in whole allocation units and with what
    the driver reserves.
    """

    device: Device
    blocks: int
    warps: int
    percent: float
    limiters: tuple[str, ...]
    limits: Mapping[str, int]
    registers_a_warp: int
    shared_a_block: int
    use: _Use

    @property
    def next_steps(self) -> tuple[OccupancyStep, ...]:
        """The smallest changes that make more warps fit: registers, shared memory, block size."""
        device = self.device
        use = self.use
        blocks = self.blocks
        if self.warps >= device.max_warps_per_sm:
            return ()
        fewer = _fewer_registers(device, use, blocks) if REGISTERS in self.limiters else None
        less = _less_shared(device, use, blocks) if SHARED in self.limiters else None
        out = [_step(self, registers=fewer), _step(self, shared_bytes=less)]
        if not any(out):
            out.append(_step(self, registers=fewer, shared_bytes=less))
        out.append(_other_size(self))
        return tuple(step for step in out if step is not None)


def occupancy(
    device: Device,
    threads: int | None,
    registers: int | None,
    shared_bytes: int | None,
    *,
    barriers: int | None = None,
) -> Occupancy | None:
    """The occupancy of blocks of ``threads`` threads, or None if a figure is not known.

    ``registers`` are a thread's, ``shared_bytes`` the static and dynamic ones of a block,
    ``barriers`` a block's named barriers (None counts as the one that every block may have).
    Shared memory is the most that an SM can be set to, as the driver does for a kernel that needs
    it.
    """
    if threads is None or registers is None or shared_bytes is None:
        return None
    if threads <= 0 or registers < 0 or shared_bytes < 0:
        return None
    use = _Use(threads, registers, shared_bytes, 1 if barriers is None else barriers)
    limits = _limits(device, use)
    blocks = min(limits.values())
    warps = blocks * _warps(device, use)
    return Occupancy(
        device,
        blocks,
        warps,
        100 * warps / device.max_warps_per_sm,
        tuple(name for name, limit in limits.items() if limit == blocks),
        limits,
        _registers_a_warp(device, registers),
        _shared_a_block(device, use),
        use,
    )


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _warps(device: Device, use: _Use) -> int:
    return -(-use.threads // device.warp_size)


def _registers_a_warp(device: Device, registers: int) -> int:
    return _up(registers * device.warp_size, device.register_allocation_unit)


def _shared_a_block(device: Device, use: _Use) -> int:
    used = use.shared_bytes + device.shared_reserved_per_block
    return _up(used, device.shared_allocation_unit)


def _limits(device: Device, use: _Use) -> dict[str, int]:
    fits = use.threads <= device.max_threads_per_block
    named = use.barriers > 0 and device.barriers_per_sm is not None
    limits = {
        REGISTERS: _by_registers(device, use) if use.registers else None,
        SHARED: _by_shared(device, use) if _shared_a_block(device, use) else None,
        THREADS: device.max_warps_per_sm // _warps(device, use) if fits else 0,
        BLOCKS: device.max_blocks_per_sm,
        BARRIERS: (device.barriers_per_sm or 0) // use.barriers if named else None,
    }
    return {name: limit for name, limit in limits.items() if limit is not None}


def _by_registers(device: Device, use: _Use) -> int:
    a_warp = _registers_a_warp(device, use.registers)
    # The hardware's check of a block is as if its warps filled all sub-partitions evenly.
    assumed = a_warp * _up(_warps(device, use), device.sub_partitions)
    if assumed > device.registers_per_block or use.registers > device.max_registers_per_thread:
        return 0
    a_partition = device.registers_per_sm // device.sub_partitions // a_warp
    return a_partition * device.sub_partitions // _warps(device, use)


def _by_shared(device: Device, use: _Use) -> int:
    a_block = _shared_a_block(device, use)
    if a_block > device.shared_per_block_optin + device.shared_reserved_per_block:
        return 0
    return device.shared_per_sm // a_block


def _fewer_registers(device: Device, use: _Use, blocks: int) -> int | None:
    """The most registers a thread with which more than ``blocks`` fit."""
    unit = max(1, device.register_allocation_unit // device.warp_size)
    highest = (min(use.registers, device.max_registers_per_thread + 1) - 1) // unit * unit
    for registers in range(highest, 0, -unit):
        if _by_registers(device, replace(use, registers=registers)) > blocks:
            return registers
    return None


def _less_shared(device: Device, use: _Use, blocks: int) -> int | None:
    """The most shared memory a block, in bytes, with which more than ``blocks`` fit."""
    reserved = device.shared_reserved_per_block
    unit = device.shared_allocation_unit
    highest = min(device.shared_per_sm // (blocks + 1), device.shared_per_block_optin + reserved)
    usable = highest // unit * unit - reserved
    return usable if 0 <= usable < use.shared_bytes else None


def _other_size(now: Occupancy) -> OccupancyStep | None:
    """The nearest block size with which an SM holds more warps. Of 1 or 2 warps, or of whole
    multiples of 4, which fill the sub-partitions evenly."""
    device = now.device
    use = now.use
    max_threads = device.max_threads_per_block
    even = device.sub_partitions * device.warp_size
    sizes = [device.warp_size, 2 * device.warp_size, *range(even, max_threads + 1, even)]
    sizes.sort(key=lambda size: (abs(size - use.threads), -size))
    steps = (_step(now, threads=size) for size in sizes)
    return next((step for step in steps if step is not None), None)


def _step(now: Occupancy, **changes: int | None) -> OccupancyStep | None:
    new_values = {name: value for name, value in changes.items() if value is not None}
    then = replace(now.use, **new_values)
    blocks = min(_limits(now.device, then).values())
    warps = blocks * _warps(now.device, then)
    if warps <= now.warps:
        return None
    change_texts = [
        f"{n} instead of {getattr(now.use, name)} {_SAID[name]}" for name, n in new_values.items()
    ]
    gain = f"{plural(blocks, 'block')} an SM instead of {now.blocks}"
    if "threads" in new_values:
        gain = f"{warps} warps an SM instead of {now.warps}"
    return OccupancyStep(f"{' and '.join(change_texts)}: {gain}", blocks, warps, **new_values)


_SAID = {
    "registers": "registers",
    "shared_bytes": "bytes of shared memory a block",
    "threads": "threads a block",
}
