"""A byte-pair tokenizer as language models have them, taught on this repository's own texts.

Words, single digits and marks are cut apart first, as usual tokenizers do; then the most frequent
neighbours are one, over and over. It knows far fewer than a model's, so a text is more of them.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import pairwise

from tests.helpers.ptxview import REPOSITORY, call

MERGES = 4000
WORDS = re.compile(r" ?[A-Za-z]+|\d| ?[^\sA-Za-z\d]+|\s+(?!\S)|\s+")
TEXTS = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/*.md",
    "kernels/*.py",
    "inspector/diff/*.py",
    "tests/data/listing/matmul_sm90.*",
    "tests/data/listing/*.cu",
)


def taught() -> str:
    """What it was taught on: prose, Python, CUDA, Triton's IR, PTX and SASS."""
    paths = [path for pattern in TEXTS for path in sorted(REPOSITORY.glob(pattern))]
    texts = [path.read_text("utf-8", "replace") for path in paths if path.suffix != ".cubin"]
    cubin = REPOSITORY / "tests" / "data" / "listing" / "matmul_sm90.cubin"
    return "\n".join([*texts, call("show", cubin, "--stage", "sass").text])


@cache
def ranks() -> dict[tuple[bytes, bytes], int]:
    """The pairs that are one, in the order in which they were found."""
    words = {
        tuple(bytes([b]) for b in word.encode()): many
        for word, many in Counter(WORDS.findall(taught())).items()
    }
    out: dict[tuple[bytes, bytes], int] = {}
    while len(out) < MERGES:
        pairs: Counter[tuple[bytes, bytes]] = Counter()
        for word, many in words.items():
            for pair in pairwise(word):
                pairs[pair] += many
        if not pairs:
            break
        for best, many in pairs.most_common(64):  # several at once: the order hardly differs
            if many > 1:
                out.setdefault(best, len(out))
        words = {merged(word, out): many for word, many in words.items()}
        if all(many < 2 for _, many in pairs.most_common(1)):
            break
    return out


def merged(word: tuple[bytes, ...], known: dict[tuple[bytes, bytes], int]) -> tuple[bytes, ...]:
    """A word in as few parts as the pairs allow, the oldest pair first."""
    parts = list(word)
    while len(parts) > 1:
        places = [(known[pair], n) for n, pair in enumerate(pairwise(parts)) if pair in known]
        if not places:
            break
        _, at = min(places)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return tuple(parts)


@cache
def of_word(word: str) -> int:
    return len(merged(tuple(bytes([b]) for b in word.encode("utf-8", "replace")), ranks()))


def count(text: str) -> int:
    """How many tokens a text is."""
    return sum(of_word(word) for word in WORDS.findall(text))
