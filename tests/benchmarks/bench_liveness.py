"""``python -m tests.benchmarks.bench_liveness [LINES]``: what flow, live ranges and chains cost.

Prints, asserts nothing. PTX: the matmul sample's body repeated within one function, each time with
labels of its own. SASS: a function of that many lines, of the largest kernel that is stored. Times
are processor time, of parsed lines, the best of three.

Of live ranges, about half is making the steps (numbering registers, resolving labels), a third
the walk that counts, the rest the sets between regions (cProfile, of 20,000 lines of PTX).
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator

from inspector.analyse.function_facts import FunctionFacts
from inspector.listing import parse
from inspector.listing.line import Function, Listing
from inspector.model import Stage
from tests.benchmarks.ratio import Ratio
from tests.helpers.plr import stored
from tests.helpers.samples import read_sample


def seconds(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(3):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best


def ptx(size: int) -> str:
    """One kernel of about ``size`` lines."""
    listing = parse(Stage.PTX, read_sample("matmul_sm90.ptx"))
    function = listing.functions[0]
    lines = [line.text for line in listing.lines]
    body = lines[function.first - 1 : function.last]
    begin = next(i for i, text in enumerate(body) if text.strip() == "{") + 1
    code = [t for t in body[begin:-1] if t.strip() != "ret;"]
    out = lines[: function.first - 1] + body[:begin]
    for part in range(max(1, size // len(code))):
        for text in code:
            if ".reg" in text and part:
                continue
            out.append(re.sub(r"(\$L\w+)", rf"\g<1>_{part}", text))
    return "\n".join([*out, "ret;", "}"])


def sass(size: int) -> str:
    """One function of about ``size`` lines: a kernel again and again."""
    listing = parse(Stage.SASS, stored()["hard_sm90a"].text)
    function = max(listing.functions, key=lambda f: f.last - f.first)
    lines = [line.text for line in listing.lines[function.first - 1 : function.last]]
    code = [t for t in lines if re.match(r"\s*/\*|\.L", t)]
    out = [t for t in lines if t not in code]
    for part in range(max(1, size // len(code))):
        out += [re.sub(r"(\.L_x_\d+)", rf"\g<1>{part}", t) for t in code]
    return "\n".join(out)


def show(language: str, listing: Listing) -> None:
    function: Function = listing.functions[0]
    count = sum(1 for line in listing.lines if line.opcode)
    for name, work in (
        ("flow", lambda: FunctionFacts(listing, function).flow),
        ("live ranges", lambda: FunctionFacts(listing, function).live),
        ("chains", lambda: FunctionFacts(listing, function).chains),
    ):
        took = seconds(work)
        print(
            f"{language} {name}: {len(listing.lines):,} lines ({count:,} instructions), "
            f"{took:.3f} s, {len(listing.lines) / took:,.0f} lines/s"
        )


def main() -> None:
    """Both languages."""
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    show("PTX", parse(Stage.PTX, ptx(size)))
    show("SASS", parse(Stage.SASS, sass(size)))


def ratios() -> Iterator[Ratio]:
    """Each analysis of 10,000 lines beside parsing them."""
    yield from beside_parsing("PTX", Stage.PTX, ptx(10_000))
    yield from beside_parsing("SASS", Stage.SASS, sass(10_000))


def beside_parsing(language: str, stage: Stage, text: str) -> Iterator[Ratio]:
    """The analyses of one language."""
    parsing = seconds(lambda: sum(line.n for line in parse(stage, text).lines))
    listing = parse(stage, text)
    function = listing.functions[0]
    assert sum(line.n for line in listing.lines)
    flow = seconds(lambda: FunctionFacts(listing, function).flow)
    yield Ratio(f"flow of {language}", flow / parsing, "parsing its lines")
    live = seconds(lambda: FunctionFacts(listing, function).live)
    yield Ratio(f"live registers of {language}", live / parsing, "parsing its lines")
    defined = seconds(lambda: FunctionFacts(listing, function).chains)
    yield Ratio(f"definitions of {language}", defined / parsing, "parsing its lines")


if __name__ == "__main__":
    main()
