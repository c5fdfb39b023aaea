"""What ncu on an H200 counted of the launches in :mod:`tests.execute.judged`."""

from __future__ import annotations

import csv
import functools
from collections import Counter

from tests.execute.judged import FOLDER, LAUNCHES

COLUMNS = {
    "Instructions Executed": "warps",
    "Predicated-On Thread Instructions Executed": "lanes",
    "L1 Tag Requests Global": "tag_requests",
    "L2 Theoretical Sectors Global": "sectors",
    "L2 Theoretical Sectors Global Ideal": "least_sectors",
    "L1 Wavefronts Shared": "wavefronts",
    "L1 Wavefronts Shared Ideal": "least_wavefronts",
}
"""Columns of the source page, and what the same is called here."""
KINDS = {
    "LDG": "global load",
    "LDGSTS": "copy",
    "STG": "global store",
    "REDG": "global atomic",
    "LDS": "shared load",
    "STS": "shared store",
    "LDSM": "shared matrix",
    "ATOMS": "shared atomic",
    "BAR": "bar",
    "SHFL": "shfl",
    "HMMA": "mma",
    "HGMMA": "wgmma",
    "MUFU": "special",
}
"""Instructions of SASS that are compared, by what they do."""


def kind_of(source: str) -> str | None:
    """What an instruction of SASS does, if it is one that is compared."""
    words = source.split()
    mnemonic = words[1] if words[0].startswith("@") else words[0]
    return KINDS.get(mnemonic.split(".")[0].rstrip(";"))


@functools.cache
def counted() -> list[dict[str, Counter[str]]]:
    """Of each launch, sums of the columns by kind of instruction."""
    out: list[dict[str, Counter[str]]] = [{} for _ in LAUNCHES]
    with (FOLDER / "counters.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            kind = kind_of(row["Source"])
            assert kind is not None
            sums = out[int(row["launch"])].setdefault(kind, Counter())
            for column, name in COLUMNS.items():
                sums[name] += int(row[column] or 0)
    return out
