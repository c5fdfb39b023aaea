"""Races that are found when one barrier of a sound kernel is taken away; run by hand.

    python -m tests.execute.removed_barriers [WORD…]

Kernels of Triton, of nvcc and of the recordings at hand are executed with a race observer: none may
be reported. Then each barrier is removed from the PTX in turn. Of a removal that is not reported,
the judge knows nothing of happens-before: it executes the block one warp at a time, in several
orders, and compares what is in global memory with the kernel's own result. A result that differs
without a report is a race that was missed; if none differs, the barrier was redundant for this
launch. Of kernels that have barriers of the whole block alone, all pairs of accesses between the
same two barriers are enumerated instead. Waits for asynchronous copies and multiplications, and
fences between proxies, are removed in the same way; those that are not reported are only counted.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from inspector.base.errors import PtxviewError
from inspector.execute import Fault, Memory, Observer, OutOfBudget, Program
from inspector.execute.kinds import Array, Mask
from inspector.execute.lanes import Lanes
from inspector.execute.memory import Access, OrderObserver
from inspector.execute.synchronization import Race, RaceObserver
from tests.execute.programs import launch
from tests.execute.synchronized import Specimen, of_cuda, of_judged, of_recordings, of_triton

BARRIER = re.compile(r"\s*(@!?%\w+\s+)?(bar|barrier)\.(?!warp|cluster)[\w.:]*sync\b[^;]*;")
"""``bar.sync 	0;``, ``@%p1 barrier.sync.aligned 1, 64;``, ``barrier.cta.sync``"""
WAIT = re.compile(
    r"\s*(@!?%\w+\s+)?"
    r"(cp\.async\.(bulk\.)?wait_|wgmma\.wait_group|fence\.proxy\.async(?!\.global))[^;]*;"
)
"""``cp.async.wait_group 2;``, ``wgmma.wait_group.sync.aligned 0;``, ``fence.proxy.async;``"""
BUDGET = 20_000_000
ORDERS = 3
"""Orders of warps that the judge tries: first to last, last to first, and a random one."""


# -- the judge ------------------------------------------------------------------------------------


def executed(specimen: Specimen, ptx: str, blocks: Sequence[int], **more: Any) -> list[bytes] | str:
    """What is in global memory after some blocks; a sentence if they do not come to an end."""
    arguments = specimen.arguments()
    memory = arguments.pop(0) if isinstance(arguments[0], Memory) else Memory()
    copies = [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    try:
        launch(Program(ptx, specimen.entry), specimen.grid, specimen.threads, copies, memory=memory,
               shared=specimen.shared, blocks=blocks, budget=BUDGET, **more)  # fmt: skip
    except (Fault, OutOfBudget) as error:
        return f"{type(error).__name__}: {error.message}"
    written = [r for r in memory.regions if r.writable and r.buffers[0].dtype != "uint8"]
    written.sort(key=lambda region: region.buffers[0].name)
    return [region.data[region.head : region.size].tobytes() for region in written]


def races(
    specimen: Specimen, ptx: str, blocks: Sequence[int]
) -> tuple[tuple[Race, ...], set[int], str]:
    """The races, the lines that were run, and why it ended early or ""."""

    class Lines(Observer):
        def step(self, lanes: Lanes, instruction: int, mask: Mask) -> None:
            seen.add(program.code.instructions[instruction].line)

    seen: set[int] = set()
    program = Program(ptx, specimen.entry)
    observer = RaceObserver(program, blocks)
    result = executed(specimen, ptx, blocks, observer=(observer, Lines()))
    return observer.races, seen, result if isinstance(result, str) else ""


def serial(specimen: Specimen, ptx: str, block: int) -> Iterator[list[bytes] | str]:
    warps = -(-prod(specimen.threads) // 32)
    ascending = list(range(warps))
    shuffled = np.random.default_rng(warps).permutation(warps).tolist()
    for order in (ascending, ascending[::-1], shuffled)[:ORDERS]:
        yield executed(specimen, ptx, [block], warp_order=order)


class ValueJudge:
    """Whether a removal changes what the last block leaves in global memory."""

    def __init__(self, specimen: Specimen, block: int) -> None:
        self.specimen = specimen
        self.block = block
        self._result: list[bytes] | str | None = None
        self._ordered: bool | None = None

    def differs(self, ptx: str) -> bool | None:
        """None where the order of warps changes the kernel's own result."""
        if self._ordered is None:
            self._result = executed(self.specimen, self.specimen.ptx, [self.block])
            results = serial(self.specimen, self.specimen.ptx, self.block)
            self._ordered = all(result == self._result for result in results)
        if not self._ordered:
            return None
        return any(r != self._result for r in serial(self.specimen, ptx, self.block))


class PairObserver(OrderObserver):
    """Every byte of shared memory that a warp accesses between two barriers of the whole block."""

    def __init__(self) -> None:
        self.rows: list[Array] = []
        self.turns = Counter[int]()
        self.mask: Mask = None

    def step(self, lanes: Lanes, instruction: int, mask: Mask) -> None:
        self.mask = mask

    def barrier(self, lanes: Lanes, way: str, number: int, mask: Array) -> None:
        if way == "release":
            self.turns.update(np.unique(np.nonzero(mask)[1] // 32).tolist())

    def access(self, lanes: Lanes, access: Access) -> None:
        if access.space != "shared":
            return
        if access.way.startswith("matrix"):
            warps = np.repeat(np.flatnonzero(lanes.mask_warps(self.mask)[0].any(1)), 8)
            address = access.address.reshape(-1)
        else:
            on = np.flatnonzero(lanes.full_mask(access.mask)[0])
            warps = on // 32
            address = lanes.full(access.address)[0][on]
        values = np.zeros((len(warps), access.nbytes), np.uint8)
        if access.way == "store" and access.values:
            parts = [lanes.full(v)[0][on] for v in access.values]
            values = np.stack(parts, 1).view(np.uint8)
        turn = np.array([self.turns[w] for w in warps.tolist()], np.int64)
        way = ("load", "store", "atomic").index(access.way.split()[-1].replace("matrix", "load"))
        shape = (len(warps), access.nbytes)
        place = (turn << 32)[:, None] + address.astype(np.int64)[:, None] + np.arange(access.nbytes)
        columns = (place, np.broadcast_to(warps[:, None], shape), np.full(shape, way), values)
        self.rows.append(np.stack([c.reshape(-1).astype(np.int64) for c in columns], 1))

    @property
    def conflict(self) -> bool:
        """Whether two warps access a byte between the same barriers, and one of them stores."""
        if not self.rows:
            return False
        rows = np.concatenate(self.rows)
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        starts = np.flatnonzero(np.r_[True, rows[1:, 0] != rows[:-1, 0]])
        bounds: list[tuple[Array, Array]] = []
        for way in range(3):
            chosen = rows[:, 2] == way
            low = np.minimum.reduceat(np.where(chosen, rows[:, 1], 99), starts)
            bounds.append((low, np.maximum.reduceat(np.where(chosen, rows[:, 1], -1), starts)))
        load, store, atomic = bounds
        stored = rows[:, 2] == 1
        least = np.minimum.reduceat(np.where(stored, rows[:, 3], 999), starts)
        greatest = np.maximum.reduceat(np.where(stored, rows[:, 3], -1), starts)
        out = (store[0] < store[1]) & (least < greatest)
        for a, b in ((load, store), (load, atomic), (store, atomic)):
            both = (a[1] >= 0) & (b[1] >= 0)
            out = out | (both & ((a[0] != b[0]) | (a[1] != b[1]) | (a[0] != a[1])))
        return bool(out.any())


def pairs_conflict(specimen: Specimen, ptx: str, block: int) -> bool | None:
    """What an enumeration of all pairs says; None for a kernel with more than plain barriers."""
    program = Program(ptx, specimen.entry)
    for row in program.code.instructions:
        plain = row.base not in ("cp", "mbarrier", "wgmma")
        if row.base in ("bar", "barrier") and "warp" not in row.parts:
            plain = "sync" in row.parts and [getattr(o, "text", "") for o in row.operands] == ["0"]
        if not plain:
            return None
    observer = PairObserver()
    executed(specimen, ptx, [block], observer=observer)
    return observer.conflict


def removals(
    specimen: Specimen, lines: set[int], pattern: re.Pattern[str] = BARRIER
) -> Iterator[tuple[int, str]]:
    """The lines of barriers, or what else, that were run, and the text without each."""
    texts = specimen.ptx.split("\n")
    for n, text in enumerate(texts, 1):
        if n in lines and pattern.match(text):
            yield n, "\n".join([*texts[: n - 1], pattern.sub("//", text, count=1), *texts[n:]])


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", help="names of kernels that are tried (all)")
    chosen = parser.parse_args(words).words
    total: Counter[str] = Counter()
    seen: set[str] = set()
    for source in (of_judged, of_recordings, of_cuda, of_triton):
        for specimen in source():
            key = body_of(specimen)
            if key in seen or (chosen and not any(w in specimen.name for w in chosen)):
                continue
            seen.add(key)
            total += tried(specimen)
    print(dict(sorted(total.items())))
    wrong = ("alarms", "missed", "found against all pairs")
    return 1 if any(total[name] for name in wrong) else 0


def body_of(specimen: Specimen) -> str:
    """The text of a kernel, without its target and other kernels."""
    _, _, text = specimen.ptx.partition(f".entry {specimen.entry or ''}")
    body, _, _ = text.partition(".entry")
    return re.sub(r"//.*|\$L__BB\d+", "", body)


def tried(specimen: Specimen) -> Counter[str]:
    """What came of one kernel: counts by what they are called."""
    blocks = prod(specimen.grid)
    numbers = sorted({0, blocks // 2, blocks - 1})
    try:
        reported, lines, why = races(specimen, specimen.ptx, numbers)
    except PtxviewError as error:
        print(f"{specimen.name}: not run: {error.message[:100]}", flush=True)
        return Counter(refused=1)
    count = Counter(kernels=1, alarms=bool(reported), ended=bool(why))
    for race in reported[:3]:
        print(f"{specimen.name}: ALARM: {race.reason}", flush=True)
    if why:
        print(f"{specimen.name}: {why[:120]}", flush=True)
    outcomes: Counter[str] = Counter()
    for line, ptx in removals(specimen, lines, WAIT):
        outcome = "waits found" if races(specimen, ptx, numbers)[0] else "waits unreported"
        outcomes[outcome] += 1
        if outcome == "waits unreported":
            print(f"{specimen.name}: line {line}: {outcome}", flush=True)
    judge = ValueJudge(specimen, numbers[-1])
    for line, ptx in removals(specimen, lines):
        found, _, why = races(specimen, ptx, numbers)
        if found:
            conflict = pairs_conflict(specimen, ptx, judge.block)
            known = {True: " as all pairs say", False: " against all pairs", None: ""}
            outcome, how = "found", known[conflict]
        else:
            outcome, how = _unreported(specimen, ptx, judge, why)
            print(f"{specimen.name}: line {line}: {outcome}{how}", flush=True)
        outcomes[outcome] += 1
        outcomes[f"{outcome}{how}"] += bool(how)
        count["removals"] += 1
    print(f"{specimen.name}: {dict(outcomes)}", flush=True)
    return count + outcomes


def _unreported(specimen: Specimen, ptx: str, judge: ValueJudge, why: str) -> tuple[str, str]:
    """What a removal is of which no race is reported, and who says so."""
    if why:
        return "deadlock", ""
    if (conflict := pairs_conflict(specimen, ptx, judge.block)) is not None:
        return "missed" if conflict else "redundant", " by all pairs"
    outcome = {True: "missed", False: "redundant", None: "unjudged"}[judge.differs(ptx)]
    return outcome, " by values"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
