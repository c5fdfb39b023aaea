"""``python -m tests.benchmarks [NAME…] [--keep]``: what things cost, beside others in the same run.

Each figure is a ratio, so that it says something on any machine. Beside it stands the one that was
kept last (``kept.toml``), with its day, its machine and how busy that was; ``--keep`` writes the
new ones there. Each benchmark runs in a process of its own, one after the other; run alone, it
says more (``python -m tests.benchmarks.bench_ptx``). Prints, asserts nothing.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import platform
import sys
import tomllib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from tests.benchmarks.ratio import Ratio, measured

HERE = Path(__file__).parent
KEPT = HERE / "kept.toml"
NAMES = (
    "calls", "diff", "execute", "figures", "first_frame", "keys", "links", "liveness", "profile",
    "ptx", "recordings", "sentences", "sizes",
)  # fmt: skip
"""The modules ``bench_…``, each with a function ``ratios``."""


def machine() -> str:
    """The kind of this machine: processor, cores, Python."""
    model = platform.machine()
    cpus = Path("/proc/cpuinfo")
    if cpus.is_file():
        lines = cpus.read_text("utf-8").splitlines()
        model = next(
            (x.partition(":")[2].strip() for x in lines if x.startswith("model name")), model
        )
    cores = len(os.sched_getaffinity(0))
    return f"{model}, {cores} cores, Python {platform.python_version()}"


def kept() -> dict[str, dict[str, Any]]:
    """The figures that were kept, by benchmark and what was measured."""
    return tomllib.loads(KEPT.read_text("utf-8")) if KEPT.is_file() else {}


def keep(figures: dict[str, dict[str, Any]]) -> None:
    """Write them all, in the order of the modules."""
    lines = ["# The last figures of `python -m tests.benchmarks --keep`."]
    for name in NAMES:
        for what, figure in figures.get(name, {}).items():
            lines += ["", f"[{name}.{json.dumps(what, ensure_ascii=False)}]"]
            lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}"
                      for key, value in figure.items()]  # fmt: skip
    KEPT.write_text("\n".join(lines) + "\n", "utf-8")


def entry(ratio: Ratio) -> str:
    """How a figure is called in ``kept.toml``."""
    return f"{ratio.what}, beside {ratio.beside}"


def shown(ratio: Ratio, before: dict[str, Any] | None) -> str:
    """A line: the figure, what it is of, and the one before."""
    last = "not kept yet"
    if before is not None:
        where = f"{before['machine']}, load {before['load']}"
        last = f"{before['ratio']:.3g} on {before['date']} ({where})"
    return f"  {ratio.value:8.3g} × {entry(ratio)}; before: {last}"


def main() -> int:
    """Run what is named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*",
                        help=f"one of {', '.join(NAMES)}; all, where none is named")  # fmt: skip
    parser.add_argument("--keep", action="store_true", help="write the figures to kept.toml")
    args = parser.parse_args()
    if unknown := set(args.names) - set(NAMES):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}")
    figures, failed = kept(), []
    today, here = datetime.datetime.now(datetime.UTC).date().isoformat(), machine()
    spawn = multiprocessing.get_context("spawn")
    for name in args.names or NAMES:
        print(name, flush=True)
        try:
            with ProcessPoolExecutor(1, mp_context=spawn) as pool:
                ratios = pool.submit(measured, name).result()
        except Exception as error:
            print(f"  failed: {error!r}", flush=True)
            failed.append(name)
            continue
        before = figures.get(name, {})
        for ratio in ratios:
            print(shown(ratio, before.get(entry(ratio))), flush=True)
        if args.keep:
            figures[name] = {
                entry(r): {"ratio": float(f"{r.value:.3g}"), "date": today, "machine": here,
                           "load": round(os.getloadavg()[0], 1)}
                for r in ratios
            }  # fmt: skip
            keep(figures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
