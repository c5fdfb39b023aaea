"""Compare occupancy with the driver's: cuOccupancyMaxActiveBlocksPerMultiprocessor.

    python -m tests.gpu.occupancy PATH…

Run by hand on a machine with a GPU and ``cuda-bindings``. Each PATH is a recording, a cubin, or a
folder of cubins. Every kernel of them that this device can load is asked with blocks of 32 to 1024
threads and several sizes of dynamic shared memory. Its registers, shared memory and greatest block
are the driver's (cuFuncGetAttribute); the device's limits are ``reference/devices.toml``'s. Both
are compared too: the limits with the driver's, static shared memory with cuobjdump's, where there
is one. Prints every disagreement and how many comparisons there were; exits with 1 on any, or
where nothing could be compared.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from inspector.analyse.occupancy import Device, occupancy
from inspector.capture.opening import open_path
from inspector.listing.cubin import read_cubin
from inspector.model import Resources, Stage
from inspector.reader import tables
from inspector.recording.facts import from_res_usage
from inspector.system.process import run_tool
from inspector.system.toolchain import every

THREADS = range(32, 1025, 32)
EIFMT_BVAL, EIFMT_SVAL, EIATTR_NUM_BARRIERS = 2, 4, 0x4C
SHARED = (0, 1, 128, 1000, 4096, 10_000, 16_384, 24_576, 32_768, 49_152, 65_536, 76_800, 99_000,
          100_000, 131_072, 166_912, 200_000, 232_448)  # fmt: skip


def checked(answer: tuple[Any, ...]) -> Any:
    """What a call of the driver gives. Raises ``RuntimeError`` with the driver's own error."""
    if answer[0] != 0:
        raise RuntimeError(str(answer[0]))
    return answer[1] if len(answer) == 2 else None


def cubins(path: Path) -> Iterator[tuple[str, bytes]]:
    """Every distinct cubin of a recording, a file or a folder."""
    seen: set[bytes] = set()
    if path.suffix == ".cubin":
        found = [(path.name, path.read_bytes())]
    elif path.is_dir() and any(path.rglob("*.cubin")):
        found = [(file.name, file.read_bytes()) for file in sorted(path.rglob("*.cubin"))]
    else:
        found = [
            (variant.symbol, variant.stages[Stage.SASS].content.read())
            for _, variant in open_path(path).variants()
            if Stage.SASS in variant.stages
        ]
    for name, data in found:
        if data not in seen:
            seen.add(data)
            yield name, data


def usage(data: bytes) -> dict[str, Resources]:
    """What cuobjdump says of a cubin's kernels; nothing where there is none."""
    for tool in every("cuobjdump"):
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(data)
            file.flush()
            found = from_res_usage(run_tool([tool.path, "-res-usage", file.name]).out.decode())
        if found:
            return found
    return {}


def barriers(data: bytes, symbol: str) -> int:
    """The named barriers of a kernel, as its cubin has them.

    ELF ABI 7 keeps them in the flags of the code's section, bits 20 to 26; ABI 8 as the attribute
    ``EIATTR_NUM_BARRIERS`` of ``.nv.info`` (both as cuobjdump -elf shows them).
    """
    elf: Any = ELFFile(io.BytesIO(data))
    code = elf.get_section_by_name(f".text.{symbol}")
    if data[8] < 8:
        return 0 if code is None else code["sh_flags"] >> 20 & 0x7F
    section = elf.get_section_by_name(f".nv.info.{symbol}")
    held = section.data() if section is not None else b""
    at = 0
    while at + 4 <= len(held):
        form, attribute, value = held[at], held[at + 1], held[at + 2]
        if (form, attribute) == (EIFMT_BVAL, EIATTR_NUM_BARRIERS):
            return value
        at += 4 + (int.from_bytes(held[at + 2 : at + 4], "little") if form == EIFMT_SVAL else 0)
    return 0


def limits(driver: Any, device: Any, ours: Device) -> int:
    """Compare the table's limits with the driver's; how many differ."""
    attribute = driver.CUdevice_attribute
    wrong = 0
    for name, value in (
        ("MULTIPROCESSOR_COUNT", ours.sms),
        ("MAX_REGISTERS_PER_MULTIPROCESSOR", ours.registers_per_sm),
        ("MAX_REGISTERS_PER_BLOCK", ours.registers_per_block),
        ("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR", ours.shared_per_sm),
        ("MAX_SHARED_MEMORY_PER_BLOCK", ours.shared_per_block),
        ("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", ours.shared_per_block_optin),
        ("RESERVED_SHARED_MEMORY_PER_BLOCK", ours.shared_reserved_per_block),
        ("MAX_THREADS_PER_MULTIPROCESSOR", ours.max_threads_per_sm),
        ("MAX_THREADS_PER_BLOCK", ours.max_threads_per_block),
        ("MAX_BLOCKS_PER_MULTIPROCESSOR", ours.max_blocks_per_sm),
        ("WARP_SIZE", ours.warp_size),
    ):
        which = getattr(attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        theirs = checked(driver.cuDeviceGetAttribute(which, device))
        if theirs != value:
            wrong += 1
            print(f"limit {name}: the driver has {theirs}, the table {value}")
    return wrong


def compare(
    driver: Any, device: Device, name: str, function: Any, static: int | None, bars: int
) -> tuple[int, int]:
    """Comparisons and disagreements of one kernel; ``static`` and ``bars`` are the cubin's."""
    attribute = driver.CUfunction_attribute
    ask = {
        key: checked(driver.cuFuncGetAttribute(getattr(attribute, f"CU_FUNC_ATTRIBUTE_{key}"),
                                               function))
        for key in ("NUM_REGS", "SHARED_SIZE_BYTES", "MAX_THREADS_PER_BLOCK")
    }  # fmt: skip
    registers, own, most = ask.values()
    done = wrong = 0
    print(
        f"{name}: {registers} registers, {own} static bytes, {bars} barriers, "
        f"blocks up to {most} threads"
    )
    if static is not None and device.own_shared(static) != own:
        wrong += 1
        print(f"  static shared memory: the driver has {own}, the cubin {static}")
    for shared in SHARED:
        if own + shared > device.shared_per_block_optin:
            continue
        size = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        checked(driver.cuFuncSetAttribute(function, size, shared))
        for threads in THREADS:
            if threads > most:
                continue
            theirs = checked(
                driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, threads, shared)
            )
            ours = occupancy(device, threads, registers, own + shared, barriers=bars)
            done += 1
            if ours is None or ours.blocks != theirs:
                wrong += 1
                print(
                    f"  {threads} threads, {shared} dynamic bytes: the driver has {theirs} blocks, "
                    f"this {ours.blocks if ours else None} ({dict(ours.limits) if ours else {}})"
                )
    return done, wrong


def main(argv: list[str]) -> int:
    from cuda.bindings import driver  # type: ignore[import-not-found, unused-ignore]

    checked(driver.cuInit(0))
    handle = checked(driver.cuDeviceGet(0))
    context = checked(driver.cuDevicePrimaryCtxRetain(handle))
    checked(driver.cuCtxSetCurrent(context))
    which = driver.CUdevice_attribute
    major, minor = (
        checked(driver.cuDeviceGetAttribute(
            getattr(which, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}"), handle))
        for part in ("MAJOR", "MINOR")
    )  # fmt: skip
    device = tables.devices()[f"sm_{major}{minor}"]
    print(f"sm_{major}{minor}, the table's {device.name}")
    wrong = limits(driver, handle, device)
    done = kernels = skipped = 0
    for path in argv:
        for name, data in cubins(Path(path)):
            known = read_cubin(data)
            status, module = driver.cuModuleLoadData(data)
            if known is None or status != 0:
                skipped += 1
                continue
            told = usage(data)
            for symbol in known.entries:
                function = checked(driver.cuModuleGetFunction(module, symbol.encode()))
                kernels += 1
                static = told[symbol].static_shared_bytes if symbol in told else None
                bars = barriers(data, symbol)
                one = compare(driver, device, f"{name} {symbol}", function, static, bars)
                done, wrong = done + one[0], wrong + one[1]
            checked(driver.cuModuleUnload(module))
    print(f"{done} comparisons of {kernels} kernels, {wrong} disagreements, "
          f"{skipped} cubins that this device cannot load")  # fmt: skip
    return 1 if wrong or not done else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
