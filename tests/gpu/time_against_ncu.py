"""Our times of the specimens beside ncu's, and how far off the other stopwatches are.

    python -m tests.gpu.time_against_ncu

Run by hand on a machine with a GPU, from the repository's root; it takes about two minutes. It
records a program that launches each specimen, has ``ptxview time --stopwatch all`` take their
times, has ncu measure the same launches (``--clock-control none --cache-control all``, the median
of 25), and prints a table in Markdown; with ``OUT`` set, its figures are written there as JSON.

ncu's duration carries about 1.0 µs at every size. A row is wrong where both saw the SM at the same
clock, within 1 %, and our time differs from ncu's less 1.0 µs by more than 3 % and by more than
0.2 µs; then it exits with 1. Where ncu may not read the counters, it says so, prints the other
columns and exits with 0.

ncu's clock is its cycles by its duration. About 0.05 µs of the duration has no cycles, at every
size, so that the clock of the shortest kernels seems 2 % lower than it is: the clocks are equal
where the cycles take ncu's duration at our clock, within 1 %, or 0.06 µs less.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

CARRIED = 1.0
LAUNCHES = 25
PART, LEAST, CLOCKS, UNCOUNTED = 0.03, 0.2, 0.01, 0.06
STOPWATCHES = ("cupti", "do_bench", "event", "cudagraph")
SELF = "tests.gpu.time_against_ncu"
BUILDS = ("square_cuda", "gelu_cuda", "gelu_cuda_float")
METRICS = (
    "gpu__time_duration.sum",
    "gpc__cycles_elapsed.avg.per_second",
    "gpc__cycles_elapsed.max",
    "sm__cycles_elapsed.max",
)


@dataclass(frozen=True)
class Specimen:
    """What is launched: the kernel, the words that ``ptxview time`` has for it, its inputs."""

    kernel: str
    called: str
    shape: tuple[int, int]

    @property
    def size(self) -> str:
        return "×".join(map(str, self.shape))

    def is_row(self, row: dict[str, Any]) -> bool:
        """Whether a row of ``ptxview time`` is of it."""
        first = str(row["inputs"]).split(",")[0]
        return str(row["kernel"]).endswith(self.called) and first.endswith(f" {self.size}")


SPECIMENS = (
    *(Specimen("square_kernel", "square_kernel", s)
      for s in ((64, 1024), (1823, 781), (4096, 4096), (16384, 8192))),
    Specimen("softmax_kernel", "softmax_kernel", (1823, 781)),
    Specimen("square_matrix_kernel", ".square_matrix", (1823, 781)),
    Specimen("gelu_kernel", ".gelu", (4096, 4096)),
    Specimen("gelu_float_kernel", ".gelu_float", (4096, 4096)),
    # Last: these take so much power that what follows would run at other clocks.
    Specimen("matmul_kernel", "matmul_kernel", (1024, 1024)),
    Specimen("matmul_kernel", "matmul_kernel", (4096, 4096)),
)  # fmt: skip


def launchers() -> list[Callable[[], Any]]:
    """What launches each specimen once."""
    import torch
    import triton

    from kernels import gelu_cuda, gelu_cuda_float, square_cuda
    from kernels.matmul import matmul
    from kernels.softmax import softmax
    from kernels.square import square

    # Chosen here: two processes that tune might choose differently.
    blocks = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}
    config = triton.Config(blocks, num_warps=8, num_stages=3)
    functions: dict[str, Callable[[Any], Any]] = {
        "square_kernel": square,
        "softmax_kernel": softmax,
        "matmul_kernel": lambda x: matmul(x.half(), x.half(), config),
        "square_matrix_kernel": square_cuda.extension().square_matrix,
        "gelu_kernel": gelu_cuda.extension().gelu,
        "gelu_float_kernel": gelu_cuda_float.extension().gelu_float,
    }
    out: list[Callable[[], Any]] = []
    for one in SPECIMENS:
        kind = torch.float16 if one.kernel == "matmul_kernel" else torch.float32
        x = torch.randn(one.shape, device="cuda").to(kind)
        out.append(partial(functions[one.kernel], x))
    return out


def program() -> None:
    """Launch each specimen once: what is recorded."""
    import torch

    for launch in launchers():
        launch()
    torch.cuda.synchronize()


def launches() -> None:
    """Launch each specimen often, as ncu measures it; the device works in between, as with us."""
    import torch

    memory = torch.zeros(64 << 20, device="cuda")
    for launch in launchers():
        launch()  # compiles; ncu is told to pass over it
        for _ in range(200):
            memory.sum()
        for _ in range(LAUNCHES):
            for _ in range(10):
                memory.sum()
            launch()
    torch.cuda.synchronize()


def run(*argv: str, seconds: float = 300) -> subprocess.CompletedProcess[str]:
    began = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, timeout=seconds, check=False)
    print(f"{time.monotonic() - began:.0f} s: {' '.join(argv[:6])} … → {done.returncode}",
          file=sys.stderr)  # fmt: skip
    return done


def build() -> None:
    """The extensions, side by side: each takes half a minute of one core."""
    code = "import importlib, sys; importlib.import_module('kernels.' + sys.argv[1]).extension()"
    made = [subprocess.Popen([sys.executable, "-c", code, name]) for name in BUILDS]
    for one in made:
        if one.wait():
            raise SystemExit("an extension could not be built")


def ours(folder: Path) -> list[dict[str, Any]]:
    """The rows of ``ptxview time``."""
    recording = folder / "specimens.ptxview"
    tool = (sys.executable, "-m", "inspector")
    done = run(*tool, "run", "--no-tui", "-o", str(recording), "-m", SELF, "--program")
    if done.returncode:
        raise SystemExit(f"the program failed:\n{done.stderr[-2000:]}")
    done = run(*tool, "time", str(recording), "--trust", "--json", "--stopwatch", "all",
               "--seconds", "0.7", "--calls", "8")  # fmt: skip
    try:
        rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    except (ValueError, KeyError):
        raise SystemExit(f"ptxview time failed:\n{done.stderr[-2000:]}") from None
    return rows


def theirs(folder: Path) -> tuple[list[dict[str, float] | None], str]:
    """What ncu measured of each specimen (median µs, GHz), or why it did not."""
    from inspector.errors import PtxviewError
    from inspector.measure.ncu import export, files

    nothing: list[dict[str, float] | None] = [None] * len(SPECIMENS)
    log = folder / "ncu.csv"
    names = "|".join(dict.fromkeys(s.kernel for s in SPECIMENS))
    try:
        tool = str(files.need())
    except PtxviewError as error:
        return nothing, error.message
    done = run(
        tool, "--clock-control", "none", "--cache-control", "all",
        "--target-processes", "application-only", "--metrics", ",".join(METRICS),
        "--kernel-name", f"regex:^({names})$", "--csv", "--page", "raw", "--log-file", str(log),
        sys.executable, "-m", SELF, "--launches",
    )  # fmt: skip
    text = log.read_text("utf-8", "replace") if log.is_file() else ""
    if files.COUNTERS in text:
        return nothing, f"ncu may not read the GPU's counters here ({files.COUNTERS})"
    try:
        held = export.read(text, "ncu's output").launches
    except PtxviewError as error:
        return nothing, f"{error.message}: {(files.complaints(text) or [done.stderr[-500:]])[0]}"
    cycles = _column(text, "sm__cycles_elapsed.max")
    out: list[dict[str, float] | None] = []
    each = LAUNCHES + 1
    if len(held) != each * len(SPECIMENS):
        return nothing, f"ncu saw {len(held)} launches of {each * len(SPECIMENS)}"
    for n, one in enumerate(SPECIMENS):
        part = held[n * each + 1 : (n + 1) * each]
        if {launch.function for launch in part} != {one.kernel}:
            return nothing, f"ncu saw {part[0].function} where {one.kernel} was launched"
        took = [launch.duration_us for launch in part if launch.duration_us is not None]
        clocks = [launch.sm_ghz for launch in part if launch.sm_ghz is not None]
        count = [launch.cycles for launch in part if launch.cycles is not None]
        of_sm = cycles[n * each + 1 : (n + 1) * each]
        ghz = [c / 1e3 / t for c, t in zip(of_sm, took, strict=False)]
        out.append({
            "us": statistics.median(took), "samples": len(took),
            "cycles": statistics.median(count),
            "ghz": statistics.median(clocks), "sm_cycles_ghz": statistics.median(ghz or [0.0]),
        })  # fmt: skip
    return out, ""


def _column(text: str, name: str) -> list[float]:
    """A metric of each launch that the report's own reader has no field for."""
    from inspector.measure.ncu.export import number, tables

    (table,) = tables(text, "ncu's output")
    if name not in table.columns:
        return []
    cells = [row[table.columns.index(name)] for _, row in table.rows[1:]]
    return [number(c, name) or 0.0 for c in cells]


def of_kernel(one: Specimen, row: dict[str, Any]) -> float | None:
    """The median of the kernel itself: a function of an extension may do other things too."""
    for held in row.get("kernels") or []:
        name = str(held["name"])
        if (
            one.kernel == name
            or f"{len(one.kernel)}{one.kernel}" in name
            or f"{one.kernel}(" in name
        ):
            median: float | None = held["median_us"]
            return median
    whole: float | None = row["median_us"]
    return whole


def compare(
    rows: list[dict[str, Any]], measured: list[dict[str, float] | None]
) -> list[dict[str, Any]]:
    """A row a specimen."""
    out = []
    for one, ncu in zip(SPECIMENS, measured, strict=True):
        held = {r["stopwatch"]: r for r in rows if one.is_row(r)}
        own = held.get("cupti")
        us = None if own is None else of_kernel(one, own)
        clocks = (own or {}).get("clocks") or {}
        low, high = (clocks.get(k) for k in ("low_mhz", "high_mhz"))
        row: dict[str, Any] = {
            "kernel": one.kernel, "shape": one.size, "ours_us": us,
            "ours_mhz": [low, high], "error": (own or {}).get("error"),
            "warnings": (own or {}).get("warnings", []),
            "ncu_us": ncu and ncu["us"], "ncu_mhz": ncu and 1000 * ncu["ghz"],
            "ncu_cycles": ncu and ncu["cycles"],
            "ncu_sm_cycles_mhz": ncu and 1000 * ncu["sm_cycles_ghz"],
            **{w: held[w]["median_us"] if w in held else None for w in STOPWATCHES[1:]},
        }  # fmt: skip
        row["verdict"] = verdict(row)
        out.append(row)
    return out


def verdict(row: dict[str, Any]) -> str:
    """``agrees``, ``DIFFERS``, or why it cannot be told."""
    us, theirs_us, (low, high) = row["ours_us"], row["ncu_us"], row["ours_mhz"]
    if us is None:
        return "no time of ours"
    if theirs_us is None:
        return "no ncu"
    difference = us - (theirs_us - CARRIED)
    row["difference_percent"] = 100 * difference / (theirs_us - CARRIED)
    if low is None:
        return "our clocks are not known"
    shortest, longest = row["ncu_cycles"] / high, row["ncu_cycles"] / low
    if not shortest * (1 - CLOCKS) <= theirs_us <= max(longest * (1 + CLOCKS), longest + UNCOUNTED):
        return "other clocks"
    wrong = abs(difference) > PART * (theirs_us - CARRIED) and abs(difference) > LEAST
    return "DIFFERS" if wrong else "agrees"


def table(rows: list[dict[str, Any]]) -> str:
    def cell(value: float | None, form: str = ".2f") -> str:
        return "–" if value is None else format(value, form)

    head = ("kernel", "shape", "ours (CUPTI, cold)", "ncu", "ncu − 1.0", "difference %",
            "do_bench", "event pair", "cudagraph", "our SM MHz", "ncu's", "verdict")  # fmt: skip
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    for r in rows:
        low, high = r["ours_mhz"]
        seen = "–" if low is None else f"{low:.0f}" if low == high else f"{low:.0f} to {high:.0f}"
        less = None if r["ncu_us"] is None else r["ncu_us"] - CARRIED
        lines.append(" | ".join((
            r["kernel"], r["shape"], cell(r["ours_us"]), cell(r["ncu_us"]), cell(less),
            cell(r.get("difference_percent"), "+.1f"), cell(r["do_bench"]), cell(r["event"]),
            cell(r["cudagraph"]), seen, cell(r["ncu_mhz"], ".0f"), r["verdict"],
        )))  # fmt: skip
    return "\n".join(f"| {line} |" for line in lines)


def main(argv: list[str]) -> int:
    if argv[:1] == ["--program"]:
        program()
        return 0
    if argv[:1] == ["--launches"]:
        launches()
        return 0
    with tempfile.TemporaryDirectory(prefix="ptxview-against-ncu-") as folder:
        build()
        rows = ours(Path(folder))
        measured, why = theirs(Path(folder))
    found = compare(rows, measured)
    print(table(found))
    for r in found:
        for said in ([r["error"]] if r["error"] else []) + r["warnings"]:
            print(f"{r['kernel']} {r['shape']}: {said}")
    if why:
        print(f"No ncu: {why}.")
    if out := os.environ.get("OUT"):
        Path(out, "time_against_ncu.json").write_text(json.dumps(
            {"rows": found, "ncu": why or "measured"}, indent=1))  # fmt: skip
    return 1 if any(r["verdict"] == "DIFFERS" for r in found) else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
