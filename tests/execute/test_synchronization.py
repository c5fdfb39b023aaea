"""Races in shared memory: sound kernels, and the same without one barrier, wait or fence."""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from inspector.execute import Fault, Program
from inspector.execute.synchronization import Race, RaceObserver
from tests.execute import judged, test_bulk
from tests.execute.calls.programs import kernel
from tests.execute.programs import launch

SHARED = ".shared .align 16 .b8 s[4096];\n.shared .align 8 .b64 bar;"
WHERE = "    mov.u32 %r4, s;\n    shl.b32 %r5, %r1, 2;\n    add.s32 %r5, %r4, %r5;\n"
"""%r5: the thread's own word; the lines below have the other warp's in %r6."""
OTHER = "    xor.b32 %r6, %r1, 32;\n    shl.b32 %r6, %r6, 2;\n    add.s32 %r6, %r4, %r6;\n"
COPY = "    cp.async.ca.shared.global [%r5], [%rd1], 4;"


def races(text: str, threads: int = 64, blocks: int = 1) -> tuple[Race, ...]:
    """The races of a kernel whose argument is an array of numbers."""
    program = Program(text)
    observer = RaceObserver(program, range(blocks))
    x = np.arange(4096, dtype=np.int32)
    launch(program, (blocks,), (threads,), [x], observer=observer)
    return observer.races


def shared_kernel(*lines: str) -> str:
    body = "\n".join(f"    {line}" for line in lines)
    return kernel(f"{WHERE}{OTHER}{body}", before=SHARED)


def without(text: str, statement: str) -> str:
    """A text without its first line that has a statement."""
    lines = text.split("\n")
    index = next(n for n, line in enumerate(lines) if statement in line)
    lines[index] = "    //"
    return "\n".join(lines)


def line_of(text: str, part: str) -> int:
    return next(n for n, line in enumerate(text.split("\n"), 1) if part in line)


EXCHANGED = shared_kernel("st.shared.u32 [%r5], %r1;", "bar.sync 0;", "ld.shared.u32 %r7, [%r6];")


def test_a_store_and_another_warps_load_need_a_barrier() -> None:
    assert not races(EXCHANGED)
    text = without(EXCHANGED, "bar.sync")
    (race,) = races(text, blocks=3)
    store, load = line_of(text, "st.shared"), line_of(text, "ld.shared")
    assert race.accesses == ((store, (0, 0, 0), 1, "store"), (load, (0, 0, 0), 0, "load"))
    assert (race.low, race.high) == (128, 255)
    places = (f"the store in line {store} by warp 1", f"the load in line {load} by warp 0")
    assert race.reason == f"no barrier between {places[0]} and {places[1]}"


def test_a_load_and_the_store_of_a_later_turn_need_a_barrier() -> None:
    text = shared_kernel(
        "mov.u32 %r8, 0;",
        "again:",
        "add.s32 %r9, %r8, %r1;",
        "st.shared.u32 [%r5], %r9;",
        "bar.sync 0;",
        "ld.shared.u32 %r7, [%r6];",
        "barrier.sync 1;",
        "add.s32 %r8, %r8, 1;",
        "setp.lt.s32 %p1, %r8, 3;",
        "@%p1 bra again;",
    )
    assert not races(text)
    (race,) = races(without(text, "barrier.sync 1"))
    assert (race.accesses[0].access, race.accesses[1].access) == ("load", "store")


@pytest.mark.parametrize(
    "lines",
    [
        # One warp in its own order, also lane by lane
        ("st.shared.u32 [%r5], %r1;", "bar.warp.sync -1;", "ld.shared.u32 %r7, [%r5];"),
        ("xor.b32 %r6, %r5, 4;", "st.shared.u32 [%r5], %r1;", "ld.shared.u32 %r7, [%r6];"),
        ("ld.shared.u32 %r7, [%r4];",),
        ("atom.shared.add.u32 %r7, [%r4], 1;",),
        ("mov.u32 %r7, 5;", "st.shared.u32 [%r4], %r7;"),
        # Bytes of one word
        ("add.s32 %r7, %r4, %r1;", "st.shared.u8 [%r7], %r1;"),
        # Only one warp stores
        ("setp.lt.s32 %p1, %r1, 32;", "@%p1 st.shared.u32 [%r4+256], %r1;"),
    ],
    ids=["warp", "lanes", "loads", "atomics", "same", "bytes", "predicate"],
)
def test_accesses_that_need_no_barrier(lines: tuple[str, ...]) -> None:
    assert not races(shared_kernel(*lines))


def test_stores_of_two_warps_need_a_barrier_where_they_differ() -> None:
    (race,) = races(shared_kernel("st.shared.u32 [%r4], %r1;"))
    assert (race.low, race.high) == (0, 3)
    cleared = ("@!%p1 st.shared.u32 [%r4], 0;", "bar.sync 0;", "st.shared.u32 [%r4], 1;")
    text = shared_kernel("setp.gt.s32 %p1, %r1, 0;", *cleared)
    assert not races(text)
    assert races(without(text, "bar.sync"))


def test_an_atomic_and_a_store_need_a_barrier() -> None:
    text = shared_kernel(
        "setp.eq.s32 %p1, %r1, 0;",
        "@%p1 st.shared.u32 [%r4], 0;",
        "bar.sync 0;",
        "red.shared.add.u32 [%r4], 1;",
        "bar.sync 1;",
        "ld.shared.u32 %r7, [%r4];",
    )
    assert not races(text)
    assert [r.accesses[1].access for r in races(without(text, "bar.sync 0"))] == ["atomic"]
    assert [r.accesses[0].access for r in races(without(text, "bar.sync 1"))] == ["atomic"]


def test_a_named_barrier_orders_those_that_meet_at_it() -> None:
    producer = ("setp.lt.s32 %p1, %r1, 32;", "@%p1 st.shared.u32 [%r5], %r1;")
    arrive, wait = "@%p1 bar.arrive 3, 64;", "@!%p1 bar.sync 3, 64;"
    load = "@!%p1 ld.shared.u32 %r7, [%r6];"
    assert not races(shared_kernel(*producer, arrive, wait, load))
    late = shared_kernel("setp.lt.s32 %p1, %r1, 32;", arrive, producer[1], wait, load)
    assert [r.accesses[0].access for r in races(late)] == ["store"]
    apart = shared_kernel(
        *producer, "mov.u32 %r8, 1;", "@%p1 mov.u32 %r8, 2;", "bar.sync %r8, 32;", load
    )
    assert races(apart)


def test_asynchronous_copies_need_a_wait_and_then_a_barrier() -> None:
    lines = ("cp.async.commit_group;", "cp.async.wait_group 0;", "bar.sync 0;")
    text = shared_kernel(COPY.strip(), *lines, "ld.shared.u32 %r7, [%r6];")
    assert not races(text)
    (race,) = races(without(text, "bar.sync"))
    assert race.accesses[0].access == "cp.async store"
    assert race.reason.startswith("no cp.async.wait_group of warp 1 and then a barrier between")
    (race,) = races(without(text, "cp.async.wait_group"))
    assert race.reason.startswith("no cp.async.wait_group of warp 1 and then a barrier between")
    own = shared_kernel(COPY.strip(), "cp.async.wait_all;", "ld.shared.u32 %r7, [%r5];")
    assert not races(own)
    (race,) = races(without(own, "cp.async.wait_all"))
    assert race.reason.startswith("no cp.async.wait_group between")


def test_a_wait_leaves_the_newest_groups() -> None:
    copies = (COPY.strip(), "cp.async.commit_group;", COPY.replace("[%r5]", "[%r5+1024]").strip())
    lines = (*copies, "cp.async.commit_group;", "cp.async.wait_group 1;")
    assert not races(shared_kernel(*lines, "ld.shared.u32 %r7, [%r5];"))
    assert races(shared_kernel(*lines, "ld.shared.u32 %r7, [%r5+1024];"))


PHASE = shared_kernel(
    "mov.u32 %r8, bar;",
    "setp.eq.s32 %p1, %r1, 0;",
    "@%p1 mbarrier.init.shared.b64 [%r8], 64;",
    "bar.sync 0;",
    "st.shared.u32 [%r5], %r1;",
    "mbarrier.arrive.shared.b64 %rd3, [%r8];",
    "wait:",
    "mbarrier.try_wait.shared.b64 %p2, [%r8], %rd3;",
    "@!%p2 bra wait;",
    "ld.shared.u32 %r7, [%r6];",
)


def test_a_phase_of_an_mbarrier_orders_what_was_before_its_arrivals() -> None:
    assert not races(PHASE)
    assert {r.accesses[1].access for r in races(without(PHASE, "bar.sync"))} == {"atomic"}
    found = races(without(PHASE.replace("@!%p2 bra wait;", "//"), "mbarrier.try_wait"))
    assert [(r.accesses[0].access, r.accesses[1].access) for r in found] == [("store", "load")]


def test_an_mbarrier_is_invalidated_after_the_last_wait() -> None:
    end = PHASE.replace(
        "    ret;", "    bar.sync 1;\n    @%p1 mbarrier.inval.shared.b64 [%r8];\n    ret;"
    )
    assert not races(end)
    (race,) = races(without(end, "bar.sync 1"))
    assert (race.accesses[0].access, race.accesses[1].access) == ("atomic", "store")


def test_a_copy_that_reports_to_an_mbarrier_is_seen_after_its_phase() -> None:
    text = PHASE.replace("st.shared.u32 [%r5], %r1;", COPY.strip()).replace(
        "mbarrier.arrive", "cp.async.mbarrier.arrive.shared.b64 [%r8];\n    mbarrier.arrive"
    )
    assert not races(text)
    assert [r.accesses[0].access for r in races(without(text, "cp.async.mbarrier"))] == [
        "cp.async store"
    ]


def races_of_tiles(change: Any) -> tuple[Race, ...]:
    """The races of a kernel of Triton's that loads and stores tiles."""
    made = test_bulk.made_of(test_bulk.doubled, 90, "*fp32 *fp32 i32 i32", BM=16, BN=32)
    text = change(made.ptx)
    assert text != made.ptx or change is str
    program = Program(text)
    observer = RaceObserver(program, [0, 3])
    x, y = test_bulk.some(32, 64).astype(np.float32), np.zeros((32, 64), np.float32)
    test_bulk.run(made, (2, 2), [x, y, 32, 64], program=program, observer=observer)
    return observer.races


def test_bulk_copies_need_a_phase_and_a_fence_between_proxies() -> None:
    assert not races_of_tiles(str)
    unfenced = races_of_tiles(lambda text: text.replace("fence.proxy.async", "//"))
    assert {r.accesses[1].access for r in unfenced} == {"bulk load", "bulk store"}
    assert all(r.reason.startswith("no fence.proxy.async between the store") for r in unfenced)
    waited = re.compile(r"mbarrier\.try_wait[^;]*;")
    untested = races_of_tiles(lambda text: waited.sub("setp.eq.s32 complete, 0, 0;", text))
    assert ("bulk store", "load") in {
        (r.accesses[0].access, r.accesses[1].access) for r in untested
    }
    assert any("no wait for the mbarrier of the copy between" in r.reason for r in untested)


def test_copies_may_not_overwrite_what_a_multiplication_still_reads() -> None:
    row = next(row for row in judged.LAUNCHES if row.name == "matmul_sm90")

    def found(text: str) -> tuple[Race, ...]:
        program = Program(text, row.entry)
        observer = RaceObserver(program, [0])
        more: dict[str, Any] = {"shared": row.shared, "blocks": [0], "observer": observer}
        launch(program, row.grid, row.threads, row.arguments(), **more)
        return observer.races

    assert not found(row.ptx)
    late = found(row.ptx.replace("wgmma.wait_group.sync.aligned 1;", "//"))
    assert ("wgmma load", "cp.async store") in {
        (r.accesses[0].access, r.accesses[1].access) for r in late
    }
    assert any(r.reason.startswith("no wgmma.wait_group") for r in late)


def test_an_access_out_of_bounds_is_still_the_fault_that_it_is() -> None:
    address = ("mul.lo.s32 %r7, %r1, 1000;", "add.s32 %r7, %r5, %r7;")
    text = shared_kernel(*address, "st.shared.u32 [%r7], %r1;")
    with pytest.raises(Fault) as caught:
        races(text)
    assert caught.value.cause == "out of bounds"
