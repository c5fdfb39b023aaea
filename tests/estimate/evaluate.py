"""Estimates against stored times, by class, with two trivial baselines; by hand.

    python -m tests.estimate.evaluate [--fit] [--device H100] [--cache hot] RECORDING…

Recordings have the times of ``ptxview run --time``. Kernels whose times constants were fitted on
(``specimens`` of the device's table) are left out of the table; ``--fit`` fits on them again, by
coordinate descent, and prints what to write into inspector/reference/estimate.toml.
"""

import argparse
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles

from msgspec import Struct, convert
from msgspec.structs import replace

from inspector.base.errors import PtxviewError
from inspector.base.model import Stage
from inspector.commands.common import open_reader
from inspector.estimate.model import Machine, Simulation, Work
from inspector.estimate.rows import devices, gather
from inspector.measure.time.planning import PlannedLaunch
from inspector.measure.time.results import COLD, HOT, OWN, sessions
from inspector.reader.query import select_one

STEPS = (0.5, 0.7, 0.85, 1.2, 1.5, 2.0)
"""Factors by which a constant is changed; those that help are tried again."""


class Case(Struct):
    """A measured launch and what its estimate needs."""

    variant: str
    kind: str
    us: float
    work: Work


def kind_of(name: str, ptx: str) -> str:
    if re.search(r"\b(?:wg)?mma\.", ptx):
        return "attention" if "ex2" in ptx else "matmul"
    if re.search("embedding|gather|index", name):
        return "gather"
    return "reduction" if "shfl" in ptx else "pointwise"


def cases(paths: Sequence[str], cache: str = COLD) -> list[Case]:
    out: dict[tuple[str, str, int], Case] = {}
    for path in paths:
        reader = open_reader(path)
        for row in (row for s in sessions(Path(path)) for row in s.rows):
            own = (row.kind, row.stopwatch, row.cache) == ("triton", OWN, cache)
            if not own or row.median_us is None:
                continue
            kernel, variant = select_one(reader.recording, row.variant)
            planned = PlannedLaunch(kernel, variant, row.call, variant.calls[row.call])
            try:
                work = gather(reader, planned, cache)
            except PtxviewError as error:
                print(f"{path} {kernel.name} {variant.id}: {error.message}")
                continue
            ptx = reader.stages.listing(variant, Stage.PTX).text
            key = path, variant.id, row.call
            out[key] = Case(variant.id, kind_of(kernel.name, ptx), row.median_us, work)
    return list(out.values())


def microseconds(case: Case, machine: Machine) -> float:
    return machine.floor_us + Simulation(case.work, machine).run() / machine.clock_hz * 1e6


def by_bytes(case: Case, machine: Machine) -> float:
    return (case.work.loaded + case.work.stored) / machine.memory_bytes_per_s * 1e6


def with_latency(case: Case, machine: Machine) -> float:
    latency = machine.memory_latency / machine.clock_hz * 1e6
    return machine.floor_us + latency + by_bytes(case, machine)


def line(title: str, ratios: Sequence[float], known: Mapping[str, object]) -> str:
    """A row of the table, of estimated times over measured ones."""
    errors = [abs(r - 1) for r in ratios]
    low, high = float(str(known["low"])), float(str(known["high"]))
    count = len(ratios)
    inside = [low <= 1 / r <= high for r in ratios]
    shares = [sum(e <= most for e in errors) / count for most in (0.2, 0.25)]
    shares.append(sum(inside) / count)
    beyond = sum(not 0.5 <= r <= 2 for r in ratios)
    said = " | ".join(f"{100 * share:.0f} %" for share in shares)
    return f"| {title} | {count} | {100 * median(errors):.1f} % | {said} | {beyond} |"


def fitted(machine: Machine, names: Sequence[str], those: Sequence[Case]) -> Machine:
    """Coordinate descent of some constants on some cases."""

    def loss(one: Machine) -> float:
        errors = (abs(math.log(microseconds(c, one) / c.us)) for c in those)
        return sum(math.pow(min(error, 0.7), 1.3) for error in errors)

    best = loss(machine)
    for turn in range(3):
        for name in names:
            for step in STEPS:
                other = replace(machine, **{name: getattr(machine, name) * step})
                if (found := loss(other)) < best - 1e-6:
                    best, machine = found, other
        print(f"turn {turn}: {best:.4f}")
    return machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--device", default="H100")
    parser.add_argument("--cache", default=COLD, choices=(COLD, HOT))
    parser.add_argument("paths", nargs="+")
    args = parser.parse_args()
    known = devices()[args.device]
    machine, began = convert(known, Machine), time.monotonic()
    every = cases(args.paths, args.cache)
    print(f"{len(every)} launches in {time.monotonic() - began:.0f} s")
    specimens = str(known["specimens"]).split()
    if args.fit:
        machine = fitted(
            machine, str(known["fitted"]).split(), [c for c in every if c.variant in specimens]
        )
        for name in str(known["fitted"]).split():
            print(f"{name} = {getattr(machine, name):.4g}")
    held = [c for c in every if c.variant not in specimens]
    ratios = [microseconds(c, machine) / c.us for c in held]
    parts = quantiles([1 / r for r in ratios], n=40)
    print(f"85 % of the measured times are {parts[2]:.3f} to {parts[36]:.3f} of the estimate")
    print(
        "| kernels | n | median error | within 20 % | within 25 % | in the interval | beyond 2× |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for kind in dict.fromkeys(c.kind for c in held):
        of_kind = [r for c, r in zip(held, ratios, strict=True) if c.kind == kind]
        print(line(kind, of_kind, known))
    print(line("all", ratios, known))
    ways: dict[str, Callable[[Case, Machine], float]] = {
        "bytes over bandwidth": by_bytes,
        "floor, latency and bytes over bandwidth": with_latency,
    }
    for title, way in ways.items():
        print(line(title, [way(c, machine) / c.us for c in held], known))
    for c, r in sorted(zip(held, ratios, strict=True), key=lambda pair: abs(math.log(pair[1])))[
        -5:
    ]:
        print(f"{c.variant} {c.kind}: {c.us} measured, {r:.2f} of it estimated")


if __name__ == "__main__":
    main()
