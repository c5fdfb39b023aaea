"""``python -m tests.benchmarks.bench_sentences``: what sentences cost, one and all of a listing.

Prints figures; nothing here is a timed test.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from inspector.analyse.sentences.ptx import PtxReader
from inspector.analyse.sentences.templates import Templates
from inspector.listing import parse
from inspector.model import Stage
from inspector.reader import tables
from tests.benchmarks.ratio import Ratio, seconds

KERNEL = Path(__file__).parents[1] / "data/listing/matmul_sm90.ptx"


def timed(what: str, work: Callable[[], object]) -> None:
    begin = time.perf_counter()
    work()
    print(f"{what}: {(time.perf_counter() - begin) * 1000:.1f} ms")


def main() -> None:
    """A matrix product's kernel 2,000 times over, and one function of 100,000 lines."""
    templates, isa = Templates(tables.table("ptx_sentences")), tables.isa()
    text = KERNEL.read_text()
    many = parse(Stage.PTX, text * 2000)
    timed(f"where the functions of {len(many.lines)} lines stand", lambda: len(many.functions))
    function = many.functions[1000]
    reader = PtxReader(many, function, isa, templates)
    middle = (function.first + function.last) // 2
    timed("the first sentence of a function in the middle", lambda: reader.sentence(middle))
    whole = range(function.first, function.last + 1)
    timed(f"all {len(whole)} of it", lambda: [reader.sentence(n) for n in whole])

    body = text.split("{", 1)[0] + "{\n.reg .b32 %r<200000>;\nmov.u32 %r0, %tid.x;\n"
    steps = [f"add.s32 %r{i}, %r{i - 1}, {i};" for i in range(1, 100_000)]
    long = parse(Stage.PTX, body + "\n".join(steps) + "\nret;\n}\n")
    reader_of_long = PtxReader(long, long.functions[0], isa, templates)
    last = len(long.lines) - 4
    timed("a chain of 100,000 definitions, its last", lambda: reader_of_long.sentence(last))
    timed("all of its sentences", lambda: [reader_of_long.sentence(n) for n in range(1, last)])


def ratios() -> Iterator[Ratio]:
    """All sentences of 20,000 lines beside parsing them."""
    templates, isa = Templates(tables.table("ptx_sentences")), tables.isa()
    text = KERNEL.read_text()
    text *= 20_000 // text.count("\n")
    parsing = seconds(lambda: sum(line.n for line in parse(Stage.PTX, text).lines))

    def told() -> None:
        listing = parse(Stage.PTX, text)
        for function in listing.functions:
            reader = PtxReader(listing, function, isa, templates)
            for n in range(function.first, function.last + 1):
                reader.sentence(n)

    yield Ratio("parsing PTX and a sentence a line", seconds(told, 1) / parsing, "parsing it")


if __name__ == "__main__":
    main()
