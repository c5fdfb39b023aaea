"""What the control words of SASS say, on cubins of ptxas, against register def-use."""

import tomllib
from collections import Counter
from pathlib import Path

import pytest

import inspector
from inspector import parsers as parsers
from inspector.analysis.flow.graph import Flow
from inspector.analysis.function_facts import FunctionFacts, Schedule, schedule
from inspector.base.model import Stage
from inspector.base.names import words
from inspector.parsers.line import Control, Function, Line, Listing
from inspector.recording.layout import DerivedCache
from inspector.sources.disassembly import disassemble
from tests.helpers.cards import ptx

TABLE = tomllib.loads(
    (Path(inspector.__file__).parent / "reference" / "scheduling.toml").read_text("utf-8")
)
DATA = Path(__file__).parents[1] / "data"
# What ptxas makes without optimising has control words that schedule nothing: no stall, no barrier.
CUBINS = sorted(c for c in DATA.rglob("*.cubin") if not c.stem.startswith("clock_"))
LOADS = words("LD LDG LDL LDS LDSM LDC LDTM ATOMG ATOMS MUFU I2F F2I F2F S2R S2UR SHFL")


def sass(cubin: Path, cache: DerivedCache) -> Listing:
    plain, annotated, _ = disassemble(cubin.read_bytes(), cache)
    return parsers.parse(Stage.SASS, plain, annotated=annotated)


def scheduled(listing: Listing) -> Schedule:
    """The schedule of a listing's first function."""
    return schedule(listing.lines, FunctionFacts(listing, listing.functions[0]).flow, TABLE)


def successors(flow: Flow, n: int) -> list[int]:
    """The lines that may run after line ``n``."""
    at = flow.block_at(n)
    if at is None:
        return []
    block = flow.blocks[at]
    return [n + 1] if n < block.last else [flow.blocks[s].first for s in block.successors]


def first_uses(
    producer: Line, lines: list[Line], flow: Flow, stops: dict[int, bool]
) -> tuple[set[int], set[int]]:
    """Lines that read the result with no line of ``stops`` on the way, and the stops come to.

    Plain exploration, a line at a time, of every path; a register that is overwritten whole and
    without a guard no longer holds the result.
    """
    early: set[int] = set()
    stopped: set[int] = set()
    seen: set[tuple[int, frozenset[str]]] = set()
    todo = [(n, frozenset(producer.defs)) for n in successors(flow, producer.n)]
    while todo:
        n, held = todo.pop()
        if (n, held) in seen or not held:
            continue
        seen.add((n, held))
        line = lines[n - 1]
        if line.opcode is not None:
            if stops.get(n):
                stopped.add(n)
                continue
            if held.intersection(line.uses):
                early.add(n)
                continue
            if "@" not in line.text:
                held = held.difference(line.defs)
        todo += [(m, held) for m in successors(flow, n)]
    return early, stopped


def waited_for(found: Schedule, n: int) -> set[int]:
    """The lines whose results line ``n`` is said to wait for."""
    return {w.line for w in found.waits(n) if w.kind == "result"}


def judge(listing: Listing, function: Function) -> Counter[str]:
    """Each instruction of unknown latency with a result: is its barrier waited for before use?"""
    lines = list(listing.lines)
    flow = FunctionFacts(listing, function).flow
    found = schedule(lines, flow, TABLE)
    tally: Counter[str] = Counter()
    every = range(function.first, function.last + 1)
    for n in every:
        line = lines[n - 1]
        general = [r for r in line.defs if r[0] == "R" or r[:2] == "UR"]
        if line.base not in LOADS or line.control is None or not general:
            continue
        barrier = line.control.write_barrier
        if barrier is None:
            # Nothing in its own control word: who claims to wait for it must come before any use.
            stops = {m: True for m in every if any(w.line == n for w in found.waits(m))}
            early, _ = first_uses(line, lines, flow, stops)
            tally["carried, early" if early else "carried, in time"] += 1
            continue
        stops = {
            m: bool(c.wait >> barrier & 1) or f"DEPBAR.LE SB{barrier}, 0x0" in lines[m - 1].text
            for m in every
            if (c := lines[m - 1].control) is not None
        }
        early, stopped = first_uses(line, lines, flow, stops)
        tally["early" if early else "in time"] += 1
        missing = [m for m in stopped if n not in waited_for(found, m)]
        tally["told" if not missing else "not told"] += 1
        for m in stopped:
            own = [w for w in found.waits(m) if w.line == n and w.kind == "result"]
            assert all(w.barrier == f"SB{barrier}" for w in own)
    return tally


@pytest.mark.parametrize("cubin", CUBINS, ids=lambda c: f"{c.parent.name[:8]}-{c.stem[:24]}")
def test_no_result_is_used_before_its_barrier_is_waited_for(
    cubin: Path, cache: DerivedCache
) -> None:
    listing = sass(cubin, cache)
    tally: Counter[str] = Counter()
    for function in listing.functions:
        tally += judge(listing, function)
    assert tally["in time"] > 0
    assert tally["early"] == tally["not told"] == tally["carried, early"] == 0, tally


SQUARE = next(c for c in CUBINS if c.parent.name.startswith("QGNHRXZL"))
MATMUL = next(c for c in CUBINS if c.parent.name.startswith("62IEO2LA"))


def told(cubin: Path, cache: DerivedCache) -> tuple[Schedule, dict[int, int]]:
    """The schedule of a cubin's only kernel, and its lines by address."""
    listing = sass(cubin, cache)
    found = scheduled(listing)
    return found, {line.address: line.n for line in listing.lines if line.address is not None}


def test_what_a_load_is_waited_for_with_in_words(cache: DerivedCache) -> None:
    found, at = told(SQUARE, cache)
    assert found.sentences(at[0x200]) == ("waits here for the load at 0x190: the long scoreboard",)
    assert found.sentences(at[0xC0]) == (
        "waits here for the result of S2R at 0x10: the short scoreboard",
    )
    assert not found.sentences(at[0x1B0])
    # Stall counts from 0x190 up to 0x1f0, as nvdisasm -hex has them: 6, 1, 4, 2, 4, 3, 4.
    consumer = found.consumer(at[0x190])
    assert consumer is not None
    assert (consumer.address, consumer.distance, consumer.cycles) == (0x200, 7, 24)
    assert found.sentences(at[0x190]) == (
        "its result is first used by 0x200, 7 instructions on, at least 24 cycles later",
    )
    assert found.consumer(at[0x200]) is None  # FMUL: its latency is fixed
    assert found.consumer(at[0x260]) is None  # STG: it has no result


def test_groups_of_copies_that_depbar_waits_for(cache: DerivedCache) -> None:
    """``DEPBAR.LE SB0, 0x2``: not for the last two groups, which may go on."""
    found, at = told(MATMUL, cache)
    waits = found.waits(at[0xA90])
    assert {w.opcode for w in waits} == {"LDGDEPBAR"} and {w.barrier for w in waits} == {"SB0"}
    assert [w.address for w in waits] == [0x640, 0x6A0, 0x7E0, 0x880, 0xDC0, 0xEC0]
    assert found.sentences(at[0xA90]) == (
        "waits here for 6 groups of asynchronous copies from 0x640 to 0xec0: the long scoreboard",
    )


def test_matrix_products_of_a_warp_group(cache: DerivedCache) -> None:
    found, at = told(MATMUL, cache)
    assert {w.barrier for w in found.waits(at[0xEE0])} == {"gsb0"}
    assert found.sentences(at[0xEE0]) == ("waits here for 4 matrix products from 0xc10 to 0xd00",)
    # The next HGMMA accumulates without a wait; the conversion after the loop reads the result.
    consumer = found.consumer(at[0xC10])
    assert consumer is not None and consumer.opcode == "F2FP.BF16.F32.PACK_AB"


def test_cycles_of_branches_that_exclude_each_other_are_not_added() -> None:
    listing, function = ptx(
        "\t@%p1 bra $L__ELSE;\n\tadd.s32 %r1, %r1, 1;\n\tbra $L__END;\n"
        "$L__ELSE:\n\tadd.s32 %r1, %r1, 2;\n$L__END:\n\tadd.s32 %r1, %r1, 3;"
    )
    lines = [
        line._replace(control=Control(4, False, None, None, 0, 0)) if line.opcode else line
        for line in listing.lines
    ]
    made = schedule(lines, FunctionFacts(listing, function).flow)
    then, other, end = (line.n for line in lines if line.opcode == "add.s32")
    assert made.cycles((then, end)) == made.cycles((then, other, end)) == 8
    assert made.cycles((function.first,)) is None
