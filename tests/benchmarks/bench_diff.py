"""How long comparing takes: ``python -m tests.benchmarks.bench_diff``.

Two variants of one long function, each instruction of which may be gone, come or changed, every
register renamed; in PTX and SASS. Parsing is timed apart. The ratio is to difflib, in the same run,
on the same lines' keys (which spares it the renaming) and on their text. Then two recordings'
worth of kernels, most of which are the same but for names.
"""

from __future__ import annotations

import difflib
import gc
import random
import re
import resource
import time
from collections.abc import Callable, Iterator
from functools import partial

from inspector.diff import canonical
from inspector.diff.canonical import digest
from inspector.diff.listings import diff_listings
from inspector.listing import parse
from inspector.listing.line import Listing
from inspector.model import Stage
from tests.benchmarks.ratio import Ratio
from tests.helpers.mutations import mutate, mutations, renamed
from tests.helpers.specimens import text_of

LINES = 20_000
KERNELS = 400
CHANGED = 0.06


def body(text: str) -> tuple[list[str], list[str], list[str]]:
    """What stands before a function's instructions, they, and what stands after."""
    lines = text.split("\n")
    begin = next(i for i, t in enumerate(lines) if t == "{" or t.endswith("R1, c[0x0][0x28] ;"))
    end = next(i for i, t in enumerate(lines) if t.strip() == "ret;" or "EXIT ;" in t)
    return lines[: begin + 1], lines[begin + 1 : end], lines[end:]


def long_text(name: str, lines: int) -> str:
    """The body of a kernel over and over, in PTX with registers of its own each time."""
    head, middle, tail = body(text_of(name))
    sass = name.endswith(".sass")
    out = list(head)
    turn = 0
    while len(out) < lines:
        shift = 1000 * turn
        for line in middle:
            if sass:
                line = re.sub(r"/\*[0-9a-f]{4,}\*/", f"/*{16 * len(out):05x}*/", line)
                line = line.replace(".L_x_", f".L_x_{turn}")
            else:
                line = re.sub(r"%(r|rd|p)(\d+)\b", partial(_shifted, shift), line)
                line = line.replace("$L__", f"$L__{turn}")
            out.append(line)
        turn += 1
    return "\n".join(out[:lines] + tail)


def _shifted(by: int, m: re.Match[str]) -> str:
    return f"%{m[1]}{int(m[2]) + by}"


def edited(stage: Stage, text: str, rng: random.Random) -> str:
    """``text`` with names changed and 6 of 100 instructions, one way or another."""
    lines = text.split("\n")
    last = len(lines) - 40
    for n in sorted(rng.sample(range(40, last), int(CHANGED * last)), reverse=True):
        found = mutations(stage, lines[n - 1], 1, 1)
        if found:
            kind, _ = rng.choice(found)
            lines[n - 1 : n] = mutate(stage, lines[n - 1], kind, 1).split("\n")
    return renamed(stage, "\n".join(lines), rng)


def timed(what: Callable[[], object], times: int = 3) -> float:
    """The best of some runs, in seconds of one core."""
    best = 1e9
    for _ in range(times):
        gc.collect()
        start = time.process_time()
        what()
        best = min(best, time.process_time() - start)
    return best


def parsed(listing: Listing) -> Listing:
    list(listing.lines)
    len(listing.functions)
    return listing


def variants(name: str, lines: int) -> None:
    stage = Stage.PTX if name.endswith(".ptx") else Stage.SASS
    rng = random.Random(7)
    one = long_text(name, lines)
    two = edited(stage, one, rng)
    parsing = timed(lambda: (parsed(parse(stage, one)), parsed(parse(stage, two))), 1)
    a, b = parsed(parse(stage, one)), parsed(parse(stage, two))
    diff = diff_listings(a, b)
    took = timed(lambda: diff_listings(a, b))
    equal = sum(h.a[1] - h.a[0] for h in diff.hunks if h.op == "equal")
    same = parsed(parse(stage, renamed(stage, one, rng)))
    alike = timed(lambda: diff_listings(a, same))
    print(
        f"{stage.value}: two variants of {len(a.lines):,} lines: {took:.3f} s beyond parsing "
        f"(parsing both: {parsing:.3f} s); {equal / len(a.lines):.1%} of lines equal, "
        f"{len(diff.hunks)} hunks; a renaming: {alike:.3f} s, identical: "
        f"{diff_listings(a, same).identical}"
    )
    if lines > LINES:
        return
    keys = [[form.key for form in canonical(x).forms] for x in (a, b)]
    texts = [one.split("\n"), two.split("\n")]
    for label, (x, y) in (("keys", keys), ("text", texts)):
        other = timed(
            lambda x=x, y=y: difflib.SequenceMatcher(None, x, y, False).get_opcodes(),  # type: ignore[misc]
            1,
        )
        print(f"    difflib on the {label} alone: {other:.3f} s, {other / took:.1f} × as long")


def recordings(kernels: int) -> None:
    """Kernels of two recordings: one in twenty changed, the others renamed."""
    rng = random.Random(11)
    sources = [(Stage.PTX, text_of(n)) for n in ("matmul.ptx", "gelu.ptx")]
    left, right = [], []
    for k in range(kernels):
        stage, text = sources[k % 2]
        new = edited(stage, text, rng) if k % 20 == 0 else renamed(stage, text, rng)
        left.append((stage, text))
        right.append((stage, new))
    lines = sum(text.count("\n") + 1 for _, text in left + right)

    def compare() -> int:
        changed = 0
        for (stage, one), (_, two) in zip(left, right, strict=True):
            a, b = parse(stage, one), parse(stage, two)
            if digest(a, a.functions[0]) != digest(b, b.functions[0]):
                changed += not diff_listings(a, b).identical
        return changed

    start = time.process_time()
    changed = compare()
    took = time.process_time() - start
    print(
        f"two recordings of {kernels} kernels, {lines:,} lines of PTX, {changed} changed: "
        f"{took:.2f} s, parsing included"
    )


def main() -> None:
    """Prints every figure."""
    for name in ("matmul.ptx", "matmul.sass"):
        variants(name, LINES)
    recordings(KERNELS)
    variants("matmul.ptx", 200_000)
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")


def ratios() -> Iterator[Ratio]:
    """Two variants of 20,000 lines beside parsing them, and beside difflib on the same lines."""
    for name, stage in (("matmul.ptx", Stage.PTX), ("matmul.sass", Stage.SASS)):
        one = long_text(name, LINES)
        two = edited(stage, one, random.Random(7))
        parsing = timed(lambda s=stage, x=one, y=two: (parsed(parse(s, x)), parsed(parse(s, y))), 1)  # type: ignore[misc]
        a, b = parsed(parse(stage, one)), parsed(parse(stage, two))
        took = timed(lambda a=a, b=b: diff_listings(a, b))  # type: ignore[misc]
        yield Ratio(f"comparing two variants' {stage.value}", took / parsing, "parsing both")
        x, y = ([form.key for form in canonical(side).forms] for side in (a, b))
        other = timed(lambda x=x, y=y: difflib.SequenceMatcher(None, x, y, False).get_opcodes(), 1)  # type: ignore[misc]
        yield Ratio(f"comparing two variants' {stage.value}", took / other, "difflib on their keys")


if __name__ == "__main__":
    main()
