"""Clusters of blocks: each other's shared memory, barriers, copies to several of them.

``tests/data/execute/clusters.ptx`` is nvcc's, of the source beside it; an H200 ran it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from inspector.execute import (
    Buffer,
    Execution,
    Fault,
    LaunchError,
    Memory,
    Program,
    TensorMap,
    Trace,
    execute,
)
from inspector.parsers.ptx import parse_ptx
from inspector.parsers.ptx_code import read_module
from tests.execute.test_h200 import CHANGED, FOLDER, digest, rows

CLUSTERS = read_module(parse_ptx((FOLDER.parent / "clusters.ptx").read_text("utf-8")))
WORDS = 4096
GRIDS: dict[str, tuple[int, ...]] = {
    "places": (4, 4, 2),
    "addresses": (16,),
    "atomics": (16,),
    "ring": (16,),
    "asynchronous": (4,),
    "bulk": (8,),
    "tiles": (8,),
}
UINT32, SWIZZLE_32B = 2, 1


def words() -> np.ndarray[Any, np.dtype[np.uint32]]:
    numbers = np.arange(WORDS, dtype=np.uint64) * 2654435761 & 0xFFFFFFFF
    return ((numbers >> 7) % 1000).astype(np.uint32)


def tile_of(source: Buffer) -> TensorMap:
    return TensorMap(source.address, (64, 64), (256,), (8, 32), UINT32, SWIZZLE_32B)


def launch(name: str, **options: Any) -> tuple[np.ndarray[Any, Any], Execution]:
    memory, out = Memory(), np.zeros(WORDS, np.uint32)
    source = memory.add("in", words())
    arguments: list[Any] = [source, memory.add("out", out)]
    if name == "tiles":
        arguments.append(tile_of(source).encode())
    block = (32 if name == "places" else 64,)
    done = execute(Program(CLUSTERS, name), GRIDS[name], block, arguments, memory=memory, **options)
    return out, done


@pytest.mark.parametrize("name", list(GRIDS))
def test_a_clusters_kernel_leaves_the_h200s_memory(name: str) -> None:
    kept = {row[0]: row[1:] for row in rows("clusters.txt")}
    assert kept[name][0] == digest(words().tobytes()), CHANGED
    assert digest(launch(name)[0].tobytes()) == kept[name][1]


def test_of_a_chosen_block_its_whole_cluster_is_run() -> None:
    everything, _ = launch("ring")
    out, done = launch("ring", blocks=[13])
    assert done.ran == 8
    assert not out[: 8 * 64].any()
    assert np.array_equal(out[8 * 64 :], everything[8 * 64 :])


def test_clusters_in_chunks_of_their_own_give_the_same() -> None:
    assert np.array_equal(launch("ring", chunk=64)[0], launch("ring")[0])


HEAD = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .b32 %r<9>;
.reg .b64 %rd<3>;
.reg .pred %p<2>;
.shared .align 8 .b8 buf[64];
ld.param.u64 %rd1, [out];
"""


def run(body: str, cluster: Sequence[int] | None, blocks: int = 4) -> list[int]:
    memory, out = Memory(), np.zeros(blocks, np.uint32)
    program = Program(HEAD + body + "\nret;\n}\n")
    assert program.cannot() == ()
    arguments = [memory.add("out", out)]
    execute(program, (blocks,), (32,), arguments, memory=memory, cluster=cluster)
    return out.tolist()


RANK = """mov.u32 %r1, %cluster_ctarank;
mov.u32 %r2, %ctaid.x;
mad.wide.u32 %rd2, %r2, 4, %rd1;
st.global.b32 [%rd2], %r1;"""


@pytest.mark.parametrize(
    ("cluster", "ranks"), [(None, [0] * 4), ((2,), [0, 1, 0, 1]), ((4, 1, 1), [0, 1, 2, 3])]
)
def test_a_launch_says_how_many_blocks_a_cluster_has(
    cluster: tuple[int, ...] | None, ranks: list[int]
) -> None:
    assert run(RANK, cluster) == ranks


@pytest.mark.parametrize(
    ("cluster", "sentence"),
    [
        ((3,), r"a grid of \(4, 1, 1\) blocks is not of clusters of \(3, 1, 1\)"),
        ((32,), "of at most 16"),
    ],
)
def test_a_cluster_that_no_device_has_is_refused(cluster: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(LaunchError, match=sentence):
        run(RANK, cluster)


def test_a_kernels_own_cluster_is_the_only_one_that_it_takes() -> None:
    with pytest.raises(LaunchError, match=r"demands clusters of \(8, 1, 1\) blocks"):
        launch("ring", cluster=(2, 1, 1))


LAUNCH_CONTROL = """mov.u32 %r8, %ctaid.x;
mad.wide.u32 %rd2, %r8, 4, %rd1;
.reg .b128 %rq<3>;
.reg .b64 %half<3>;
mbarrier.init.shared.b64 [buf], 1;
mov.b32 %r1, 7;
st.shared.v4.b32 [buf+16], {%r1, %r1, %r1, %r1};
barrier.cluster.arrive;
barrier.cluster.wait;
mov.u32 %r2, %tid.x;
setp.eq.u32 %p1, %r2, 0;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [buf], 16;
barrier.cluster.arrive;
barrier.cluster.wait;
mov.u32 %r3, %cluster_ctarank;
setp.eq.and.u32 %p0, %r3, 0, %p1;
@%p0 TRY [buf+16], [buf];
again:
mbarrier.try_wait.parity.shared.b64 %p1, [buf], 0;
@!%p1 bra again;
ld.shared.b128 %rq1, [buf+16];
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %rq1;
selp.b32 %r4, 1, 100, %p1;
mov.b128 {%half1, %half2}, %rq1;
mov.b128 %rq2, {%half2, %rd2};
st.shared.b128 [buf+32], %rq2;
ld.shared.b64 %half1, [buf+40];
sub.u64 %half1, %half1, %rd1;
cvt.u32.u64 %r5, %half1;
ld.shared.b32 %r6, [buf+20];
add.u32 %r4, %r4, %r5;
add.u32 %r4, %r4, %r6;
st.global.b32 [%rd2], %r4;"""


def test_no_cluster_is_left_to_be_taken_over() -> None:
    """Each block is answered by zeros, which cancel nothing: 100, and its offset in ``out``."""
    opcode = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
    body = LAUNCH_CONTROL.replace("TRY", f"{opcode}.multicast::cluster::all.b128")
    assert run(body, (2,)) == [100, 104, 108, 112]


OTHER = "mov.u32 %r4, %cluster_ctarank;\nmov.u32 %r1, buf;\nxor.b32 %r2, %r1, 0x1000000;\n"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (OTHER + "ld.shared.b32 %r3, [%r2];", "block 1 of its cluster, which .shared::cluster"),
        ("mov.u32 %r1, buf;\nmapa.shared::cluster.u32 %r2, %r1, 5;\n"
         "ld.shared::cluster.b32 %r3, [%r2];", "block 5 of its cluster"),
        (OTHER + "ld.shared::cluster.b32 %r3, [%r2+64];", "of which there are 64 bytes"),
    ],
)  # fmt: skip
def test_what_an_h200_ends_a_launch_for_is_a_fault(body: str, sentence: str) -> None:
    with pytest.raises(Fault, match=sentence):
        run(body, (2,))


def test_a_cluster_whose_blocks_do_not_all_arrive_waits_for_ever() -> None:
    body = """mov.u32 %r1, %cluster_ctarank;
mbarrier.init.shared.b64 [buf], 1;
setp.ne.u32 %p1, %r1, 1;
@%p1 bra together;
again:
mbarrier.try_wait.parity.shared.b64 %p1, [buf], 0;
@!%p1 bra again;
together:
barrier.cluster.arrive;
barrier.cluster.wait;"""
    with pytest.raises(Fault, match="1 of 1 arrival is missing") as caught:
        run(body, (2,))
    (wait,) = [wait for wait in caught.value.waits if wait.kind == "cluster"]
    assert (wait.pending, wait.expected, wait.block) == (32, 64, (0, 0, 0))
    assert [(group.block, group.warps) for group in wait.others] == [((1, 0, 0), (0,))]


@pytest.mark.parametrize("number", [8, 13])
def test_a_trace_is_of_one_block_of_its_cluster(number: int) -> None:
    program = Program(CLUSTERS, "ring")
    memory, out = Memory(), np.zeros(WORDS, np.uint32)
    arguments = [memory.add("in", words()), memory.add("out", out)]
    trace = Trace(program, number=number)
    sizes = GRIDS["ring"], (64,)
    execute(program, *sizes, arguments, memory=memory, blocks=[number], observer=trace)
    of_global = [a for step in trace.steps for a in step.accesses if a.space == "global"]
    loaded, stored = of_global
    assert loaded.address.tolist() == [
        arguments[0].address + 4 * (64 * number + k) for k in range(64)
    ]
    assert np.array_equal(np.concatenate(stored.values), out[number * 64 :][:64])
