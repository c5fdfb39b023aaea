"""Races in clusters of blocks: nvcc's kernels of ``clusters.cu``, and the same without one order.

Of kernels that have the cluster's barriers alone, all pairs of accesses between the same two of
them are enumerated, which knows nothing of happens-before.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from inspector.execute import Memory, Program, execute
from inspector.execute.block_order import BlockObserver
from inspector.execute.kinds import Array
from inspector.execute.lanes import Lanes
from inspector.execute.memory import Access, OrderObserver
from inspector.execute.synchronization import Race, RaceObserver
from tests.execute import test_clusters
from tests.execute.test_clusters import GRIDS, HEAD, WORDS, words
from tests.execute.test_h200 import FOLDER

TEXT = (FOLDER.parent / "clusters.ptx").read_text("utf-8")
CLUSTERS = {"addresses": 4, "atomics": 8, "ring": 8, "asynchronous": 2, "bulk": 4, "tiles": 4}
BARRIER = re.compile(r"barrier\.cluster\.(arrive|wait)\S*;")
WAIT = re.compile(r"mbarrier\.try_wait[^;]*;")
NO_WAIT = "setp.eq.s32 done, 0, 0;"


def kernel_text(name: str) -> str:
    """The text of one kernel of ``clusters.ptx``."""
    head, _, _ = TEXT.partition("\t// .globl")
    body, _, _ = TEXT.partition(f".entry {name}(")[2].partition("\t// .globl")
    return f"{head}.visible .entry {name}({body}"


def executed(name: str, text: str, *observers: Any) -> tuple[RaceObserver, BlockObserver]:
    memory, out = Memory(), np.zeros(WORDS, np.uint32)
    arguments: list[Any] = [memory.add("in", words()), memory.add("out", out)]
    if name == "tiles":
        arguments.append(test_clusters.tile_of(arguments[0]).encode())
    program = Program(text, name)
    size = CLUSTERS[name]
    races, order = RaceObserver(program, range(size)), BlockObserver(program, memory)
    block = list(range(size))
    execute(program, GRIDS[name], (64,), arguments, memory=memory, blocks=block,
            observer=(races, order, *observers))  # fmt: skip
    return races, order


def without(text: str, pattern: re.Pattern[str], index: int, replacement: str = "") -> str:
    """A text without one match of a pattern, counted from 0, negative from the end."""
    match = list(pattern.finditer(text))[index]
    return text[: match.start()] + replacement + text[match.end() :]


@pytest.mark.parametrize("name", list(CLUSTERS))
def test_a_sound_kernel_of_clusters_has_no_race(name: str) -> None:
    races, order = executed(name, kernel_text(name))
    assert races.followed == set(range(CLUSTERS[name]))
    assert not races.races
    assert not races.unwritten
    assert not order.races


class ClusterPairs(OrderObserver):
    """Which warps access each byte of shared memory between two barriers of the cluster."""

    def __init__(self) -> None:
        self.turns: dict[int, int] = defaultdict(int)
        self.warps: dict[tuple[int, int, int, str], set[int]] = defaultdict(set)

    def barrier(self, lanes: Lanes, way: str, number: int, mask: Array) -> None:
        if way == "release" and number < 0:
            for warp in set((np.flatnonzero(mask) // 32).tolist()):
                self.turns[warp] += 1

    def access(self, lanes: Lanes, access: Access) -> None:
        if not access.space.startswith("shared"):
            return
        addresses = lanes.full(access.address)
        for row, column in np.argwhere(lanes.full_mask(access.mask)).tolist():
            address = int(addresses[row, column])
            is_other = access.space == "shared::cluster"
            owner = row - row % lanes.cluster_size + (address >> 24) if is_other else row
            warp = (row * lanes.width + column) // 32
            for byte in range(access.nbytes):
                place = owner, (address & 0xFFFFFF) + byte, self.turns[warp], access.way
                self.warps[place].add(warp)

    def conflicts(self) -> bool:
        """Whether two warps access a byte and one of them stores, or one does after the last
        barrier before which a block of another warp may have ended."""
        last = max(self.turns.values(), default=0)
        for (owner, byte, turn, way), warps in self.warps.items():
            if turn == last and any(warp // 2 != owner for warp in warps):
                return True
            for other in ("load", "store", "atomic"):
                others = self.warps.get((owner, byte, turn, other), set())
                if (way == "store" or {way, other} == {"load", "atomic"}) and others - warps:
                    return True
        return False


@pytest.mark.parametrize("name", ["addresses", "atomics"])
def test_a_removed_barrier_of_a_cluster_is_a_race_if_all_pairs_of_accesses_say_so(
    name: str,
) -> None:
    text = kernel_text(name)
    pairs = ClusterPairs()
    executed(name, text, pairs)
    assert not pairs.conflicts()
    count = len(BARRIER.findall(text)) // 2
    for index in range(count):
        variant = without(without(text, BARRIER, 2 * index), BARRIER, 2 * index)
        pairs = ClusterPairs()
        races, _ = executed(name, variant, pairs)
        assert pairs.conflicts()
        assert races.races


@pytest.mark.parametrize(("name", "pattern", "index", "reason"), [
    ("ring", WAIT, 0, r"barrier of the cluster between the load .* and the store"),
    ("asynchronous", WAIT, 0, r"mbarrier that its bytes are reported to between the async store"),
    ("asynchronous", WAIT, 1, r"mbarrier that its bytes are reported to between the async atomic"),
    ("bulk", WAIT, 0, r"wait for the mbarrier of the copy between the bulk store .* of block"),
    ("bulk", WAIT, 1, r"wait for the mbarrier of the copy between the bulk store"),
    ("bulk", re.compile(r"fence\.proxy\.async;"), 0, r"no fence.proxy.async between the store"),
    ("bulk", BARRIER, -1, r"between the bulk load .* and the end of block"),
    ("addresses", BARRIER, -1, r"between the load .* and the end of block"),
    ("tiles", WAIT, 0, r"wait for the mbarrier of the copy between the bulk store"),
])  # fmt: skip
def test_what_a_removed_order_leaves_open_is_named(
    name: str, pattern: re.Pattern[str], index: int, reason: str
) -> None:
    replacement = NO_WAIT if pattern is WAIT else ""
    variant = without(kernel_text(name), pattern, index, replacement)
    if pattern is BARRIER:
        variant = without(variant, pattern, index)
    races, _ = executed(name, variant)
    assert any(re.search(reason, race.reason) for race in races.races)


EXCHANGE = """mov.u32 %r1, %cluster_ctarank;
mov.u32 %r2, %tid.x;
shl.b32 %r2, %r2, 2;
mov.u32 %r3, buf;
add.u32 %r3, %r3, %r2;
st.shared.u32 [%r3], %r1;
barrier.cluster.arrive{};
barrier.cluster.wait;
xor.b32 %r4, %r1, 1;
mapa.shared::cluster.u32 %r5, %r3, %r4;
ld.shared::cluster.u32 %r6, [%r5];
barrier.cluster.arrive;
barrier.cluster.wait;"""
GLOBAL = """mov.u32 %r1, %ctaid.x;
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd2, %rd1, %rd2;
st.global.u32 [%rd2], %r1;
{}
xor.b32 %r1, %r1, {};
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd2, %rd1, %rd2;
ld.global.u32 %r3, [%rd2];
mov.u32 %r4, %cluster_ctarank;"""
SYNC = "barrier.cluster.arrive;\nbarrier.cluster.wait;"


def races_of(body: str) -> tuple[tuple[Race, ...], tuple[Race, ...]]:
    """Races in shared memory, and in global memory, of four blocks in clusters of two."""
    memory = Memory()
    text = HEAD.replace("buf[64]", "buf[256]") + body + "\nret;\n}\n"
    program = Program(text)
    races, order = RaceObserver(program, [0]), BlockObserver(program, memory)
    arguments = [memory.add("out", np.zeros(4, np.uint32))]
    execute(program, (4,), (32,), arguments, memory=memory, cluster=(2,), observer=(races, order))
    return races.races, order.races


def test_a_relaxed_arrival_at_the_clusters_barrier_orders_nothing() -> None:
    assert races_of(EXCHANGE.format("")) == ((), ())
    (race,), _ = races_of(EXCHANGE.format(".relaxed"))
    assert [(a.access, a.block) for a in race.accesses] == [
        ("store", (1, 0, 0)),
        ("load", (0, 0, 0)),
    ]
    assert (race.owner, race.low, race.high) == ((1, 0, 0), 0, 127)


def test_the_clusters_barrier_orders_global_memory_of_its_blocks_alone() -> None:
    assert not races_of(GLOBAL.format(SYNC, 1))[1]
    assert races_of(GLOBAL.format("", 1))[1]
    assert races_of(GLOBAL.format(SYNC, 2))[1]
