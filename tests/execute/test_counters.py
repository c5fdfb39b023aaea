"""What is counted of whole kernels, beside what ncu counted of their SASS on an H200.

ncu counts an instruction for a warp that reaches it with all lanes off; warps are compared where
ptxas makes no guards.
"""

from __future__ import annotations

import functools
from collections import Counter

import pytest

from inspector.execute import Facts, Program
from tests.execute import counters, judged
from tests.execute.programs import launch

GLOBAL = ("lanes", "tag_requests", "sectors", "least_sectors")
SHARED = ("lanes", "wavefronts", "least_wavefronts")
NAMES = [one.name for one in judged.LAUNCHES]


@functools.cache
def ours(number: int) -> dict[str, Counter[str]]:
    """What is counted here, by the same kinds."""
    one = judged.LAUNCHES[number]
    program = Program(one.ptx, one.entry)
    facts = Facts(program, values=False)
    launch(program, one.grid, one.threads, one.arguments(), shared=one.shared, observer=facts)
    out: dict[str, Counter[str]] = {}
    for line in facts.lines():
        base = line.opcode.split(".")[0]
        if base in ("bar", "shfl", "mma") or line.opcode.startswith("wgmma.mma_async"):
            out.setdefault(base, Counter()).update(warps=line.executed, lanes=line.active)
        for access in line.accesses:
            kind = f"{access.space} {access.way}"
            if base == "cp":
                kind = "copy" if access.space == "global" else "copied"
            names = (*GLOBAL, *SHARED[1:])
            out.setdefault(kind, Counter()).update({n: getattr(access, n) for n in names})
    return out


def both(number: int, kind: str, names: tuple[str, ...]) -> tuple[list[int], list[int]]:
    theirs = counters.counted()[number].get(kind, Counter())
    return [ours(number).get(kind, Counter())[n] for n in names], [theirs[n] for n in names]


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_global_accesses_count_as_ncu_counts_them(number: int) -> None:
    """Lanes, tag requests, sectors and the least of them, of every kind of access."""
    for kind in ("global load", "global store", "global atomic"):
        mine, theirs = both(number, kind, GLOBAL)
        assert mine == theirs, kind
    mine, theirs = both(number, "copy", GLOBAL[1:])
    assert mine == theirs
    assert sum(sum(both(number, kind, GLOBAL)[1]) for kind in ("global load", "copy"))


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_shared_accesses_count_as_ncu_counts_them(number: int) -> None:
    """Wavefronts and the least of them; ptxas loads of a tile what will be stored."""
    for kind in ("shared load", "shared store", "shared atomic"):
        mine, theirs = both(number, kind, SHARED)
        if (NAMES[number], kind) == ("transpose", "shared load"):
            assert all(0.97 * m < t < m for m, t in zip(mine, theirs, strict=True))
        else:
            assert mine == theirs, kind
    # Four lanes of ldmatrix are one of LDSM.
    mine, theirs = both(number, "shared matrix", SHARED[1:])
    assert mine == theirs


def test_a_column_of_a_tile_and_a_padded_one() -> None:
    by_name = {
        name: counters.counted()[k]["shared load"]
        for k, name in enumerate(NAMES)
        if name.startswith("turned")
    }
    assert by_name["turned"]["wavefronts"] == 32 * by_name["turned_padded"]["wavefronts"]


@pytest.mark.parametrize("name", ["matmul_sm90", "matmul_sm80"])
def test_asynchronous_copies_write_as_ncu_counts_them(name: str) -> None:
    """``cp.async``: the least wavefronts are ncu's; of collisions ncu tells more than banks do."""
    number = NAMES.index(name)
    mine, theirs = ours(number)["copied"], counters.counted()[number]["copy"]
    assert mine["least_wavefronts"] == theirs["least_wavefronts"] > 0
    assert mine["wavefronts"] <= theirs["wavefronts"]


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_instructions_that_ptxas_makes_one_of(number: int) -> None:
    for kind in ("bar", "shfl", "mma", "wgmma"):
        mine, theirs = both(number, kind, ("warps", "lanes"))
        assert mine == theirs, kind
