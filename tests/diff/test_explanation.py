"""Each rule of the explanation: what it says, with both sides' numbers, and when it is silent."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from inspector.analysis.card import with_grid
from inspector.analysis.tuner_times import RoundTimes
from inspector.base.model import Resources, Stage
from inspector.diff.explanation import explain
from inspector.diff.summary import VariantSide, summarise
from inspector.diff.tiles import Tiles
from inspector.parsers import parse
from inspector.parsers.line import Function, Listing
from tests.helpers.sides import LOAD, STORE, side, tensor, told, using

MMA = "\tmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1};"
LOOP = "$L__BB0_1:\n\tadd.s32 %r1, %r1, 1;\n\t@%p1 bra $L__BB0_1;"


def taking(*parameters: str) -> tuple[Listing, Function]:
    """TTIR of a kernel with these parameters."""
    text = f"module {{\n  tt.func public @f({', '.join(parameters)}) {{\n    tt.return\n  }}\n}}\n"
    listing = parse(Stage.TTIR, text)
    return listing, listing.functions[0]


def loads(n: int, line: str = LOAD) -> str:
    return "\n".join([line] * n)


SIXTEEN, EIGHT = " {tt.divisibility = 16 : i32}", " {tt.divisibility = 8 : i32}"
COPY = "\tcp.async.cg.shared.global [%r1], [%rd1], 0x10, 0x10;"
MASKED = f"\t@%p1 {LOAD.strip()}"
FLAGS = ["-O3", "/one/x.cu", "-DTORCH_EXTENSION_NAME=a"]
FAST = ["-O3", "/two/x.cu", "-DTORCH_EXTENSION_NAME=b", "--use_fast_math"]
SAME = "the ptx is the same but for names"

SAID: list[tuple[VariantSide, VariantSide, str]] = [
    # what was chosen
    (side(loads(8), body=tensor(1024), resources=using(registers=22)),
     side(loads(4), body=tensor(1024), config={"num_warps": 8}, resources=using(registers=16)),
     "num_warps 4 → 8: half the elements a thread (8 → 4): 8 → 4 ld.global, 22 → 16 registers, "
     "9 → 5 PTX instructions"),
    (side(body=tensor(1024), config={"BLOCK": 1024}),
     side(body=tensor(2048), config={"BLOCK": 2048, "num_warps": 8}),
     "num_warps 4 → 8 and BLOCK 1024 → 2048: as many elements a thread as before (8)"),
    (side(body=tensor(64, 64)), side(body=tensor(128, 64)),
     "largest tensor 64×64 → 128×64: twice the elements a thread (32 → 64)"),
    (side(), side(config={"num_warps": 8}), f"num_warps 4 → 8: {SAME}"),
    (side(config={"num_stages": 2}), side(config={"num_stages": 4}), f"num_stages 2 → 4: {SAME}"),
    (side(COPY, config={"num_stages": 2}, resources=using(dynamic_shared_bytes=16384)),
     side(loads(2, COPY), config={"num_stages": 3}, resources=using(dynamic_shared_bytes=24576)),
     "num_stages 2 → 3: 1 → 2 cp.async, 16384 → 24576 bytes of dynamic shared memory, "
     "2 → 3 PTX instructions"),
    (side(config={"maxnreg": None}), side(config={"maxnreg": 64}), "maxnreg unset → 64"),
    (side(target="sm_80"), side(target="sm_90"), "target sm_80 → sm_90"),
    (side(head=taking("%x: !tt.ptr<f32>", "%y: !tt.ptr<f32>", "%n: i32")),
     side(head=taking("%x: !tt.ptr<f16>", "%y: !tt.ptr<f16>", "%n: i32")),
     "x and y ptr<f32> → ptr<f16>"),
    (side(head=taking("%n: i32", "%s: i32")), side(head=taking("%n: i32")),
     "s i32 → no argument of its own"),
    (side(head=taking("%n: i32")), side(head=taking(f"%n: i32{SIXTEEN}")),
     "n is known to be a multiple of 16 in b alone"),
    (side(head=taking(f"%n: i32{EIGHT}")), side(head=taking(f"%n: i32{SIXTEEN}")),
     "n is known to be a multiple of 8 in a, of 16 in b"),
    (side(config={"flags": FLAGS}), side(config={"flags": FAST}),
     "flags: --use_fast_math in b alone"),
    (side(config={"flags": FLAGS}), side(config={"flags": FAST[:3]}), SAME),
    (side(loads(1), source=("x = 1",)), side(loads(2), source=("x = 1", "y = 2")),
     "source: 0 lines in a alone, 1 in b alone: 1 → 2 ld.global"),
    (side(), side(), SAME),
    (side(loads(1)), side(loads(2)),
     "nothing that was recorded was chosen differently: 1 → 2 ld.global"),
    # what follows
    (side(f"{MASKED}\n{STORE}"), side(f"{LOAD}\n{STORE}"),
     "masks are gone: 1 of 2 global accesses of a "),
    (side(MMA), side(MMA.replace("m16n8k16", "m16n8k8")), "1 → 1 mma (m16n8k16 → m16n8k8)"),
    (side(grid=1000), side(LOOP, grid=132), "1,000 → 132 blocks: 7.58 for each of 132 SMs in a"),
    (side(), side(resources=using(registers=128)),
     "occupancy in theory 100 → 25 %: 16 blocks an SM in a, limited by 128 threads a block; "
     "4 blocks an SM in b, limited by 128 registers a thread"),
    (side(target="sm_86"), side(target="sm_90", resources=using(registers=128)),
     "occupancy in theory: 100 % of an SM of sm_86, 25 % of one of sm_90"),
    (side(time_us=12.5), side(time_us=10.0), "measured: 12.5 → 10.0 µs, 20% less"),
    (side(time_us=11.0), side(time_us=10.0),
     "none of the differences explains this time; it may be noise"),
    (side(loads(1), time_us=11.0), side(loads(2), time_us=10.0),
     "none of the differences explains this time; it may be noise"),
    (side(time_us=20.0), side(time_us=10.0),
     "none of the differences explains this time; ptxview ncu may"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "sentence"), SAID, ids=[said[:40] for *_, said in SAID])
def test_each_difference_is_explained_by_its_sentence(
    a: VariantSide, b: VariantSide, sentence: str
) -> None:
    found = told(a, b)
    assert [text for text in found if sentence in text], found


UNSAID: dict[str, tuple[VariantSide, VariantSide]] = {
    "registers": (side(resources=Resources()), side(resources=using(registers=40))),
    "masks": (side(MASKED), side(loads(2, MASKED))),
    "spilled": (side(resources=using(spill_store_bytes=None)), side()),
    "measured": (side(time_us=12.5), side()),
    "explains": (side(loads(2), time_us=11.0), side(loads(1), time_us=10.0)),
    "explains this": (
        side(config={"num_stages": 2}, time_us=11.0),
        side(config={"num_stages": 4}, time_us=10.0),
    ),
}


@pytest.mark.parametrize("word", UNSAID)
def test_unknown_and_equal_figures_are_no_changes(word: str) -> None:
    sentences = told(*UNSAID[word])
    assert sentences
    assert not any(word in sentence for sentence in sentences)


def test_several_causes_share_their_effects() -> None:
    a = side(loads(8), config={"num_stages": 2, "X": 1})
    b = side(loads(4), config={"num_stages": 3, "X": 2})
    assert told(a, b) == (
        "X 1 → 2",
        "num_stages 2 → 3",
        "together: 8 → 4 ld.global, 9 → 5 PTX instructions",
    )


def tiled(m: int, n: int, k: int, warps: int) -> VariantSide:
    sizes = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "num_warps": warps}
    one = side(loads(m), config=sizes, body=tensor(m, n), target="sm_90")
    steps, loaded = 512 // k, 512 * (m + n) * 2 / (m * n)
    blocks = 512 // m * (256 // n)
    tiles = Tiles(m * n, blocks, steps, loaded, 1.0 * m, 2.0 * m)
    return replace(one, tiles=tiles, card=with_grid(one.card, blocks))


def test_tiles_explain_what_follows_from_them_and_nothing_else() -> None:
    found = told(tiled(64, 32, 32, 8), tiled(128, 128, 64, 4))
    causes = [text.partition(":")[0] for text in found]
    (elements,) = [text for text in found if "elements a thread" in text]
    assert "16 times" in elements and "BLOCK_K" not in elements
    assert "BLOCK_K 32 → 64: half the k-steps (16 → 8)" in found
    assert "64 → 8 blocks" in causes
    text = " ".join(found)
    assert "48 → 16 bytes loaded an output element" in text
    # What is launched fills no wave: registers limit nothing. Raw counts of tiles say nothing.
    assert "limited by" not in text and "ld.global" not in text


def test_times_are_of_rounds_that_both_were_in() -> None:
    def timed(number: int, a: float, b: float) -> RoundTimes:
        return RoundTimes(number, ("mm",), "watch", a, b, 0.3, 4.0)

    a, b = side(config={"X": 1}), side(config={"X": 2})
    both = (timed(1, 6.0, 7.0), timed(2, 14.0, 26.0))
    one, other = explain(a, b, summarise(a, b, Stage.PTX, None, both), identical=False)[-3:-1]
    assert "round 1" in one and "6.00 → 7.00" in one and "noise" in one
    assert "round 2" in other and "noise" not in other


def test_where_the_difference_begins() -> None:
    only_sass = {Stage.PTX: True, Stage.SASS: False}
    assert "the ptx is the same: the difference was made by the assembler" in told(
        side(), side(), only_sass
    )
    # Where SASS is all there is, nothing is known of what stands above.
    assert not any("assembler" in text for text in told(side(), side(), {Stage.SASS: False}))
    layouts = {Stage.TTIR: True, Stage.TTGIR: False, Stage.PTX: False}
    assert any(
        "begins in ttgir" in text for text in told(side(), side(config={"num_warps": 8}), layouts)
    )
    source = {Stage.TTIR: False, Stage.TTGIR: False, Stage.PTX: False}
    assert not any("begins" in text for text in told(side(), side(loads(2)), source))


def test_versions_of_the_tools_come_last() -> None:
    a = replace(side(loads(2), time_us=12.5), made_by={"PTX ISA": "8.7"})
    b = replace(side(loads(1), config={"num_warps": 8}, time_us=10.0), made_by={"PTX ISA": "9.0"})
    first, *_, last = told(a, b)
    assert first.startswith("num_warps 4 → 8")
    assert last.startswith("PTX ISA 8.7 → 9.0: made by other versions of the tools")
