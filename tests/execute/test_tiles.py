"""Tiles that tensor maps describe, against an H200's: which elements, and where they may begin."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from inspector.execute import Fault, Memory, Program, TensorMap
from tests.execute.programs import launch

FOLDER = Path(__file__).parent.parent / "data" / "execute" / "h200"

TILE = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out) {{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;
.shared .align 1024 .b8 tile[16384]; .shared .align 8 .b8 bar[8];
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
mov.u32 %r5, tile;
mad.lo.u32 %r5, %r1, 16, %r5;
st.shared.v4.u32 [%r5], {{0, 0, 0, 0}};
fence.proxy.async.shared::cta;
bar.sync 0;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra WAIT;
mbarrier.init.shared.b64 [bar], 1;
mov.b64 %rd3, map;
cvta.param.u64 %rd4, %rd3;
mov.u32 %r2, {x};
mov.u32 %r3, {y};
{copy}
WAIT:
bar.sync 0;
{wait}
ld.shared.v4.u32 {{%r2, %r3, %r4, %r6}}, [%r5];
mad.wide.u32 %rd5, %r1, 16, %rd1;
st.global.v4.u32 [%rd5], {{%r2, %r3, %r4, %r6}};
ret;
}}
"""
LOAD = """mbarrier.arrive.expect_tx.shared.b64 %rd2, [bar], {nbytes};
cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
[tile], [%rd4, {{{at}}}], [bar];"""
STORE = """cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [%rd4, {{{at}}}], [tile];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;"""
WAITS = """TRY:
mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
@!%p2 bra TRY;"""


def copy_tile(
    tile: TensorMap, memory: Memory, start: tuple[int, ...], nbytes: int, store: bool = False
) -> bytes:
    """Copy a tile; the 16 KiB of shared memory where it is, which were zero."""
    x, y = (*start, 0)[:2]
    rank = len(tile.dims)
    words = {"rank": rank, "at": ("%r2", "%r2, %r3")[rank - 1], "nbytes": nbytes}
    copy = (STORE if store else LOAD).format(**words)
    text = TILE.format(x=x, y=y, copy=copy, wait="" if store else WAITS)
    out = np.zeros(4096, np.uint32)
    arguments = [tile.encode(), memory.add("out", out)]
    launch(Program(text), (1,), (1024,), arguments, memory=memory)
    return out.tobytes()


def h200_rows(name: str) -> list[str]:
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


@pytest.mark.parametrize("row", h200_rows("strided_tiles.txt"))
def test_element_strides_leave_out_what_an_h200_leaves_out(row: str) -> None:
    *sizes, digest = row.split()
    width, height, step_x, step_y, x, y, swizzle, nbytes = map(int, sizes)
    memory = Memory()
    source = memory.add("x", np.arange(1, 80 * 96 + 1, dtype=np.uint32).reshape(80, 96))
    tile = TensorMap(
        source.address, (96, 80), (384,), (width, height), 2, swizzle, steps=(step_x, step_y)
    )
    assert f"{crc32(copy_tile(tile, memory, (x, y), nbytes)[:nbytes]):08x}" == digest


KINDS_BY_SIZE = {1: 0, 2: 1, 4: 2, 8: 4}
"""A tensor map's number of an unsigned element, by its bytes."""


@pytest.mark.parametrize("row", h200_rows("tile_starts.txt"))
def test_a_tile_begins_where_an_h200_lets_it(row: str) -> None:
    *sizes, x, way, swizzle, answer = row.split()
    item, rank, width = map(int, sizes)
    memory = Memory()
    source = memory.add("x", np.arange(64 * 512, dtype=np.uint8))
    dims, box = ((512 // item, 64)[:rank], (width, 4)[:rank])
    tile = TensorMap(
        source.address, dims, (512,)[: rank - 1], box, KINDS_BY_SIZE[item], int(swizzle)
    )
    nbytes = width * item * (4 if rank == 2 else 1)
    start = (int(x), 1)[:rank]
    if answer == "taken":
        copy_tile(tile, memory, start, nbytes, way == "store")
        return
    with pytest.raises(Fault, match="multiples of 16 bytes"):
        copy_tile(tile, memory, start, nbytes, way == "store")
