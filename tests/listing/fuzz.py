"""``python -m tests.listing.fuzz N [SEED]``: mutated samples through every parser.

Each text goes through all parsers: it must come back line for line, in time, without an
exception. Bytes are flipped, lines repeated, dropped and swapped between samples.
"""

from __future__ import annotations

import random
import sys
import time

from inspector.listing import parse
from inspector.listing.cuda import parse_cuda
from inspector.listing.line import Listing
from inspector.model import Stage
from tests.listing.conftest import DATA

TEXT = (".ptx", ".ttir", ".ttgir", ".llir", ".sass", ".cu", ".py")
SAMPLES = [
    path.read_bytes().decode("utf-8", "surrogateescape")
    for path in sorted(DATA.iterdir())
    if path.suffix in TEXT
]
ANNOTATED = (
    '.section\t.text.k,\n\t//## File "a", line 3 inlined at "b", line 4\n'
    '\t//## File ".nv_debug_ptx_txt", line 9\n        /*0000*/   MOV R1, R2 ;   '
    "/* 0x00000a00ff017b82 */\n        /* 0x000fe20000000800 */\n"
)
LONGEST = 5.0
"""Seconds of processor time that one mutated text may take in all parsers together."""


def check(text: str) -> None:
    """Every parser gives ``text`` back."""
    begin = time.process_time()
    for listing in listings(text):
        assert "\n".join(line.text for line in listing.lines) == text
        for function in listing.functions:
            assert 1 <= function.first <= function.last <= len(listing.lines)
    spent = time.process_time() - begin
    assert spent < LONGEST + len(text) / 50_000, spent


def listings(text: str) -> list[Listing]:
    """The text as every language."""
    out = [parse(stage, text, path="x.py") for stage in Stage]
    out.append(parse(Stage.SASS, text, annotated=text))
    out.append(parse(Stage.SASS, text, annotated=ANNOTATED))
    out.append(parse_cuda(text, "x.cu"))
    return out


def mutate(text: str, chance: random.Random) -> str:
    """A piece of ``text``, damaged."""
    lines = text.split("\n")
    start = chance.randrange(len(lines))
    lines = lines[start : start + chance.randrange(1, 60)]
    for _ in range(chance.randrange(1, 8)):
        kind = chance.randrange(7)
        at = chance.randrange(len(lines))
        line = lines[at]
        spot = chance.randrange(len(line) + 1)
        if kind == 0:
            lines[at] = (
                line[:spot] + chr(chance.choice((0, 10, 13, 34, 40, 123, 125))) + line[spot:]
            )
        elif kind == 1:
            lines[at] = line[:spot] + line[spot + chance.randrange(1, 9) :]
        elif kind == 2:
            lines[at] = line[spot:] * chance.randrange(2, 5)
        elif kind == 3:
            other = chance.choice(SAMPLES)
            piece = chance.randrange(max(1, len(other) - 80))
            lines[at] = line[:spot] + other[piece : piece + chance.randrange(80)] + line[spot:]
        elif kind == 4:
            lines.insert(at, chance.choice(lines))
        elif kind == 5:
            lines[at] = line[:spot] + chr(chance.randrange(1, 0x2FF)) + line[spot + 1 :]
        else:
            lines[at] = line.replace(
                *chance.choice(((" ", ""), (",", ";"), ("(", "["), ("#", "!")))
            )
    return "\n".join(lines)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    chance = random.Random(seed)
    begin = time.perf_counter()
    for i in range(count):
        text = mutate(chance.choice(SAMPLES), chance)
        try:
            check(text)
        except BaseException:
            print(f"input {i} of seed {seed}: {text!r}", file=sys.stderr)
            raise
    print(f"{count} inputs, seed {seed}, {time.perf_counter() - begin:.1f} s, nothing lost")


if __name__ == "__main__":
    main()
