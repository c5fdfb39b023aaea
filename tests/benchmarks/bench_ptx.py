"""``python -m tests.benchmarks.bench_ptx [LINES]``: what parsing PTX costs. Asserts nothing.

The samples' PTX repeated to LINES lines (a million by default); seconds are processor time, the
best of three. Where tritonparse is installed (``pip install --no-deps tritonparse``; it wants
zstandard as well), its ``.loc`` extraction runs on the same files, one by one.

Where the time goes, of about 2.5 µs a line: the regular expression that takes an instruction apart
0.4, the one that finds its registers 0.3, making the line's tuple 0.15, the cycle collector 0.6
(it walks the lines kept), the rest the interpreter's own steps. One match of any regular
expression costs 0.1 to 0.3 in CPython, so that a line cannot be had much below 1 µs.
"""

from __future__ import annotations

import gc
import importlib
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator

from inspector.listing.ptx import parse_ptx
from tests.benchmarks.ratio import Ratio
from tests.helpers.samples import read_sample

SAMPLES = ("matmul_sm90.ptx", "gelu_sm90.ptx", "nested.ptx")
DEEP = 20_000
"""Lines of the memory measurement's page."""


def seconds(work: Callable[[], object]) -> float:
    """The best of three."""
    best = float("inf")
    for _ in range(3):
        gc.collect()
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best


def show(what: str, count: int, spent: float) -> None:
    rate = f"{count / spent:>12,.0f} lines/s" if spent else ""
    print(f"{what:<46}{spent * 1000:>10,.1f} ms{rate}")


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    once = "".join(read_sample(name) for name in SAMPLES)
    text = once * max(1, wanted // once.count("\n"))
    count = text.count("\n") + 1
    print(f"{count:,} lines, {len(text):,} characters, Python {sys.version.split()[0]}")
    show("text.split", count, seconds(lambda: text.split("\n")))
    show("open (split, nothing parsed)", count, seconds(lambda: parse_ptx(text)))
    show("open, look at the first 50 lines", 50, seconds(lambda: parse_ptx(text).lines[:50]))
    show(
        "open, look at the last line (skims all)", count, seconds(lambda: parse_ptx(text).lines[-1])
    )
    show("open, list the functions", count, seconds(lambda: len(parse_ptx(text).functions)))

    def whole() -> None:
        for _ in parse_ptx(text).lines:
            pass

    show("parse every line", count, seconds(whole))
    gc.disable()
    show("parse every line, without the cycle collector", count, seconds(whole))
    gc.enable()
    tritonparse(count)
    tracemalloc.start()
    listing = parse_ptx(text)
    opened = tracemalloc.get_traced_memory()[0]
    for line in listing.lines[:DEEP]:
        assert line.n
    looked = tracemalloc.get_traced_memory()[0]
    print(f"memory: open {opened / count:.0f} bytes a line (the texts); "
          f"{(looked - opened) / DEEP:.0f} more for each of {DEEP:,} lines looked at")  # fmt: skip


def tritonparse(count: int) -> None:
    """The files one by one, many times: tritonparse reads the first function, and ``.loc`` only."""
    files = [read_sample(name) for name in SAMPLES if name != "nested.ptx"]
    times = max(1, count // sum(text.count("\n") for text in files))
    total = times * sum(text.count("\n") for text in files)

    def ours() -> None:
        for _ in range(times):
            for text in files:
                for _ in parse_ptx(text).lines:
                    pass

    show("parse every line, file by file", total, seconds(ours))
    try:
        module = importlib.import_module("tritonparse.parse.ir_parser")
    except ImportError as error:
        print(f"tritonparse: not here ({error})")
        return
    extract = module.extract_ptx_amdgcn_mappings

    def theirs() -> None:
        for _ in range(times):
            for text in files:
                extract(text)

    show("tritonparse, .loc only, file by file", total, seconds(theirs))
    mapped = sum(len(extract(text)) for text in files)
    given = sum(line.source is not None for text in files for line in parse_ptx(text).lines)
    print(f"  it maps {mapped:,} lines, comments and labels too; we give {given:,} a location")


def ratios() -> Iterator[Ratio]:
    """A listing of 100,000 lines beside splitting its text."""
    once = "".join(read_sample(name) for name in SAMPLES)
    text = once * (100_000 // once.count("\n"))
    split = seconds(lambda: text.split("\n"))
    yield Ratio(
        "opening a listing of PTX", seconds(lambda: parse_ptx(text)) / split, "splitting it"
    )
    whole = seconds(lambda: sum(line.n for line in parse_ptx(text).lines))
    yield Ratio("parsing every line of PTX", whole / split, "splitting it")


if __name__ == "__main__":
    main()
