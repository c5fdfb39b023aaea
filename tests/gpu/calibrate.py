"""Measure the constants of the time model on the GPU of this machine, and print their table.

    python -m tests.gpu.calibrate NAME            # times tests/gpu/micro_kernels.py here
    python -m tests.gpu.calibrate NAME RECORDING  # of what was timed elsewhere

The clock, the number of SMs and memory's bandwidth are the device's own; the constants that the
H100's table names as fitted are fitted again, from its values on. The interval is that of the
micro-kernels, which the constants were fitted on: give it the one that
``python -m tests.estimate.evaluate --device NAME`` finds with kernels of other programs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import quantiles

from msgspec import convert
from msgspec.structs import fields, replace

from inspector.commands.common import open_reader
from inspector.estimate.model import Machine
from inspector.estimate.rows import devices
from inspector.measure.time.results import COLD, OWN, sessions
from tests.estimate.evaluate import cases, fitted, microseconds

KERNELS = Path(__file__).with_name("micro_kernels.py")


def recorded(folder: str) -> str:
    path = f"{folder}/micro.ptxview"
    command = [sys.executable, "-m", "inspector", "run", "--no-tui", "--time", "-o", path]
    subprocess.run([*command, str(KERNELS)], check=True)
    return path


def table(name: str, path: str) -> str:
    """The table of a device, from the times stored with a recording of the micro-kernels."""
    device = open_reader(path).recording.device or {}
    peaks = [
        peak.gb_per_s
        for session in sessions(Path(path))
        for peak in session.peaks
        if (peak.stopwatch, peak.cache) == (OWN, COLD)
    ]
    base = devices()["H100"]
    machine = replace(
        convert(base, Machine),
        clock_hz=float(str(device["clock_rate"])) * 1e3,
        sms=int(str(device["multi_processor_count"])),
        memory_bytes_per_s=peaks[0] * 1e9,
    )
    found = cases([path])
    machine = fitted(machine, str(base["fitted"]).split(), found)
    for case in found:
        print(f"# {case.variant} {case.us:.2f} µs, estimated {microseconds(case, machine):.2f}")
    parts = quantiles([case.us / microseconds(case, machine) for case in found], n=40)
    arch = f"sm_{device['major']}{device['minor']}"
    lines = [f"[{name}]", f'names = ["{device["name"]}"]', f'arch = "{arch}"']
    lines += [f"{each.name} = {getattr(machine, each.name):.6g}" for each in fields(machine)]
    lines += [f"low = {parts[2]:.2f}", f"high = {parts[36]:.2f}", f'fitted = "{base["fitted"]}"']
    specimens = " ".join(dict.fromkeys(case.variant for case in found))
    return "\n".join([*lines, f'specimens = "{specimens}"', f'measured = "{base["measured"]}"'])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("recording", nargs="?")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(table(args.name, args.recording or recorded(folder)))


if __name__ == "__main__":
    main()
