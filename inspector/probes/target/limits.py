"""What CUDA's runtime says of the emulated device's limits, and of a kernel's resources."""

from __future__ import annotations

from typing import NamedTuple

from . import current, devices, executor, refusals

ANY_DEVICE = {
    2: refusals.MOST_BLOCK[0], 3: refusals.MOST_BLOCK[1], 4: refusals.MOST_BLOCK[2],
    5: refusals.MOST_GRID[0], 6: refusals.MOST_GRID[1], 7: refusals.MOST_GRID[2],
    9: 65536, 11: 2**31 - 1, 18: 0, 19: 1, 20: 0, 31: 1, 33: 0, 34: 0, 41: 1, 50: 0, 78: 1, 79: 1,
    80: 1, 83: 1, 84: 0, 95: 1, 99: 1, 115: 1,
}  # fmt: skip
"""Attributes that are the same for every device of sm_75 and later, by the numbers of
driver_types.h: the largest block and grid, bytes of constant memory and of a pitch; integrated no,
mapped memory yes, compute mode default, concurrent kernels yes, the place on the PCI bus, unified
addressing, stream priorities, both L1 caches, managed memory; a board of several GPUs no;
cooperative launches, registered memory and pools of memory yes."""


def of_device() -> dict[int, int | None]:
    """The device's attributes by CUDA's number for each, 0: its memory; None: not known."""
    asked = current()
    device = devices.find(asked.target)
    row = devices.table()[device.arch.rstrip("af")]
    major, minor = asked.capability
    return {
        **ANY_DEVICE,
        0: device.memory_bytes,
        1: device.max_threads_per_block,
        8: device.shared_per_block,
        10: device.warp_size,
        12: device.registers_per_block,
        13: device.clock_hz // 1000 if device.clock_hz else None,
        16: device.sms,
        37: device.memory_bus_bits,
        38: device.l2_bytes,
        39: device.max_threads_per_sm,
        75: major,
        76: minor,
        81: device.shared_per_sm,
        82: device.registers_per_sm,
        97: device.shared_per_block_optin,
        106: row["max_blocks_per_sm"],
        111: row["shared_reserved_per_block"],
        120: int(major >= 9),
    }


class Resources(NamedTuple):
    """One kernel's, in the order of ``Services::resources`` in ptxview_launch.h; bytes."""

    blocks_per_sm: int
    registers: int
    static_shared: int
    local: int
    max_threads: int
    max_dynamic_shared: int


def of_kernel(text: str, entry: str, threads: int, dynamic: int) -> Resources | None:
    """What ptxas says of a kernel, and how many blocks of such launches an SM holds; None where its
    machine code is not known."""
    kernel = refusals.kernel(text, entry)
    if kernel is None or not kernel.registers:
        return None
    executor.load()
    occupancy = executor.part("analyse.occupancy")
    arch = devices.find(current().target).arch.rstrip("af")
    device = occupancy.Device.of(arch, devices.table()[arch])
    static = device.own_shared(kernel.shared_bytes)
    fitting = occupancy.occupancy(device, threads, kernel.registers, static + dynamic)
    # A block's warps are counted as if they filled all sub-partitions evenly (refusals).
    even = device.sub_partitions * device.warp_size
    by_registers = device.registers_per_block // (fitting.registers_a_warp * device.sub_partitions)
    bounds = (device.max_threads_per_block, by_registers * even, kernel.max_threads)
    most = min(bound for bound in bounds if bound is not None)
    allowed = refusals.dynamic_shared(text, entry)
    blocks = fitting.blocks if threads <= most and dynamic <= allowed else 0
    return Resources(blocks, kernel.registers, static, kernel.stack_bytes, most, allowed)
