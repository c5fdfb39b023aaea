"""The parts of an opcode, and which of them are the instruction's word."""

from __future__ import annotations

import re
from collections.abc import Sequence

_PARTS = re.compile(r"\.|(?=::)")


def split(opcode: str) -> tuple[str, ...]:
    """``mma.sp::ordered_metadata.sync`` → ``mma``, ``sp``, ``::ordered_metadata``, ``sync``."""
    return tuple(_PARTS.split(opcode.strip()))


def joined(parts: Sequence[str]) -> str:
    """What ``split`` took apart."""
    return "".join(p if p.startswith("::") or not n else f".{p}" for n, p in enumerate(parts))


def stands_in(word: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether a word's parts stand in an opcode's in their order: ``mad.cc`` in ``mad.lo.cc``."""
    left = iter(parts)
    return word[0] == parts[0] and all(part in left for part in word)


def qualifiers_of(word: str, opcode: str) -> list[str]:
    """The qualifiers of an opcode, each with its dot, without the parts that its word takes."""
    taken = list(split(word))
    out: list[str] = []
    for part in opcode.strip().split("."):
        own = split(part)
        if taken and list(own) == taken[: len(own)]:
            taken = taken[len(own) :]
        elif taken and own[0] == taken[0]:
            taken = taken[1:]
            out.append(f".{part}")
        elif part:
            out.append(f".{part}")
    return out
