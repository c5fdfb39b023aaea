"""Threads that part, meet, wait and lock, against what C's threads would compute one by one.

``tests/data/execute/control.ptx`` is nvcc's, of the source beside it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inspector.execute import Fault, Memory, OutOfBudget
from inspector.parsers.ptx import parse_ptx
from inspector.parsers.ptx_code import read_module
from tests.execute.programs import Array, launch

DATA = Path(__file__).parent.parent / "data" / "execute"
CONTROL = read_module(parse_ptx((DATA / "control.ptx").read_text("utf-8")))
CHUNKS = (32, 128, 32_768)
"""Lanes that run at once: a block alone, some, and all together."""


def integers(low: int, high: int, count: int) -> Array:
    return np.random.default_rng(count).integers(low, high, count).astype(np.int32)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_atomics_of_all_threads_fill_a_histogram(chunk: int) -> None:
    x, out = integers(0, 1000, 5000), np.zeros(64, np.int32)
    launch(CONTROL, (8,), 256, [x, out, x.size], "histogram", chunk=chunk)
    assert np.array_equal(out, np.bincount(x & 63, minlength=64))


def test_loops_in_loops_that_lanes_leave_one_by_one() -> None:
    x, out = integers(1, 5000, 1000), np.zeros(1000, np.int32)
    launch(CONTROL, (4,), 256, [x, out, x.size], "collatz")

    def steps(v: int) -> int:
        n = 0
        while v > 1:
            if v & 1:
                v = 3 * v + 1
            else:
                v >>= 1
                while not v & 1 and v > 1:
                    v >>= 1
                    n += 1
            n += 1
        return n

    assert out.tolist() == [steps(int(v)) for v in x]


def test_votes_and_shuffles_give_the_warps_values() -> None:
    x, out = integers(0, 200, 256), np.zeros(256, np.uint32)
    launch(CONTROL, (2,), 128, [x, out], "votes")
    expected = []
    for i, own in enumerate(x.tolist()):
        warp, lane = x[i // 32 * 32 : i // 32 * 32 + 32], i % 32
        odd = sum(int(v & 1) << k for k, v in enumerate(warp))
        r = odd
        if own & 2:
            r = int(((warp & 2) != 0).sum()) + (odd & -odd).bit_length() * 100
        r += int(warp[lane + 3] if lane + 3 < 32 else own)
        r += int(warp[lane - 5] if lane % 8 >= 5 else own)
        r += 32 - own.bit_length() + int(f"{own:032b}"[::-1], 2)
        r += (7 if (warp > 0).all() else 0) + (1000 if (warp == np.arange(32)).any() else 0)
        expected.append(r & 0xFFFFFFFF)
    assert out.tolist() == expected


def test_one_load_in_two_state_spaces_by_a_function_that_is_called() -> None:
    x = np.random.default_rng(0).standard_normal(512).astype(np.float32)
    out = np.zeros_like(x)
    launch(CONTROL, (4,), 128, [x, out], "two_spaces")
    other = x.reshape(-1, 2)[:, ::-1].reshape(-1)
    odd = np.arange(512) & 1
    assert np.array_equal(out, np.where(odd, 2 * other, other))


@pytest.mark.parametrize("chunk", CHUNKS)
def test_every_thread_has_its_own_ticket(chunk: int) -> None:
    counter, out = np.zeros(1, np.int32), np.full(1024, -1, np.int32)
    launch(CONTROL, (8,), 128, [counter, out], "tickets", chunk=chunk)
    assert sorted(out.tolist()) == list(range(1024))
    assert counter[0] == 1024


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize(("entry", "takers"), [("one_lock", 8), ("every_lane_locks", 256)])
def test_locks_are_taken_in_turn(entry: str, takers: int, chunk: int) -> None:
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    launch(CONTROL, (8,), 32, [lock, total], entry, chunk=chunk)
    assert total[0] == takers
    assert lock[0] == 0


def test_the_last_block_sums_what_the_others_left() -> None:
    x = integers(0, 50, 2048).astype(np.float32)
    part, count, out = np.zeros(64, np.float32), np.zeros(1, np.int32), np.zeros(1, np.float32)
    launch(CONTROL, (64,), 32, [x, part, count, out], "last_block")
    assert out[0] == x.sum()


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("step", [1, -1])
def test_blocks_wait_for_those_before_and_for_those_after_them(step: int, chunk: int) -> None:
    flag, x, out = np.zeros(16, np.int32), integers(1, 9, 16), np.zeros(16, np.int32)
    launch(CONTROL, (16,), 32, [flag, x, out, step], "look_back", chunk=chunk)
    assert np.array_equal(out, x[::step].cumsum()[::step])


@pytest.mark.parametrize("chunk", [64, 32_768])
def test_blocks_that_reach_a_barrier_in_different_turns(chunk: int) -> None:
    x, out = integers(0, 99, 64 * 20), np.full(64 * 20, -7, np.int32)
    launch(CONTROL, (20,), 64, [x, out], "uneven", chunk=chunk)
    expected = np.full(64 * 20, -7, np.int64)
    for b in range(20):
        own, sums = x[b * 64 : b * 64 + 64].astype(np.int64), np.zeros(64, np.int64)
        for k in range(b % 5 + 1):
            for t in range(64):
                v = int(own[(t + 7 * (k + 1)) % 64]) + k
                sums[t] += sum(j * v for j in range(v & 15)) if t & 1 else v
        y = sums * 3 + b
        for t in range(32):
            z = y[t + 32] + y[t]
            expected[b * 64 + t] = z
            if not own[t] & 1:
                expected[b * 64 + t + 32] = z ^ y[t]
    assert np.array_equal(out, expected.astype(np.int32))


def test_threads_that_end_before_a_barrier_are_not_waited_for() -> None:
    x, out = integers(0, 99, 1280), np.zeros(1280, np.int32)
    launch(CONTROL, (10,), 128, [x, out], "early")
    expected = []
    for b in range(10):
        s = x[b * 128 : b * 128 + 128]
        stay = 64 + (b & 1) * 32
        expected += [-1 if t >= stay else int(s[t ^ 1] + s[63 - (t & 63)]) for t in range(128)]
    assert out.tolist() == expected


def test_barriers_that_count_and_combine() -> None:
    x, out = integers(0, 100, 512), np.zeros(512, np.int32)
    x[:128] = np.maximum(x[:128], 1)
    launch(CONTROL, (4,), 128, [x, out], "counted")
    rows = x.reshape(4, 128)
    each = (rows & 1).sum(1) * 4 + (rows > 0).all(1) * 2 + (rows > 90).any(1)
    assert np.array_equal(out.reshape(4, 128), np.repeat(each[:, None], 128, 1))


def test_named_barriers_at_which_one_warp_arrives_and_another_waits() -> None:
    x, out = integers(0, 100, 3 * 4 * 32), np.zeros(96, np.int32)
    launch(CONTROL, (3,), 64, [x, out], "produce")
    weighted = x.reshape(3, 4, 32) * np.arange(1, 5)[None, :, None]
    assert np.array_equal(out.reshape(3, 32), weighted.sum(1)[:, ::-1])


CLUSTER = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry relay(.param .u64 out)
{
	.reg .pred %p<3>;
	.reg .b32 %r<5>;
	.reg .b64 %rd<5>;
	.shared .align 4 .b8 box[512];
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd3, %rd1, %rd2;
	mov.u64 %rd4, box;
	add.s64 %rd4, %rd4, %rd2;
	st.shared.u32 [%rd4], %r1;
	barrier.cluster.arrive.aligned;
	setp.ne.s32 %p1, %r1, 0;
	@%p1 bra passed;
poll:
	ld.volatile.global.u32 %r2, [%rd1+508];
	setp.eq.s32 %p2, %r2, 0;
	@%p2 bra poll;
passed:
	barrier.cluster.wait.aligned;
	xor.b32 %r3, %r1, 1;
	mul.wide.u32 %rd2, %r3, 4;
	mov.u64 %rd4, box;
	add.s64 %rd4, %rd4, %rd2;
	ld.shared.u32 %r4, [%rd4];
	add.s32 %r4, %r4, 1;
	st.volatile.global.u32 [%rd3], %r4;
	barrier.cluster.arrive.aligned;
	barrier.cluster.wait.aligned;
	ret;
}
"""


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_cluster_barrier_waits_for_arrivals_and_not_for_waits(chunk: int) -> None:
    """Thread 0 polls between its two halves for what a thread past its own wait stores."""
    out = np.zeros(128, np.int32)
    launch(CLUSTER, (1,), 128, [out], chunk=chunk)
    assert np.array_equal(out, (np.arange(128) ^ 1) + 1)


def test_a_lock_that_nobody_releases_is_a_fault_with_its_line() -> None:
    lock, total = np.ones(1, np.int32), np.zeros(1, np.int32)
    with pytest.raises(Fault, match="waits for ever") as caught:
        launch(CONTROL, (8,), 32, [lock, total], "one_lock")
    assert caught.value.cause == "deadlock"
    assert "atom" in caught.value.place.statement
    assert total[0] == 0


def test_a_barrier_that_some_never_reach_is_a_fault() -> None:
    with pytest.raises(Fault, match="32 threads wait") as caught:
        launch(CONTROL, (2,), 64, [np.zeros(1, np.int32)], "half_waits")
    polling, barrier = sorted(caught.value.waits, key=lambda wait: wait.kind, reverse=True)
    assert (barrier.kind, barrier.number, barrier.pending, barrier.expected) == (
        "barrier",
        0,
        32,
        64,
    )
    assert [(group.warps, group.line) for group in barrier.others] == [((1,), polling.line)]


def test_an_endless_loop_ends_with_its_budget() -> None:
    out = np.zeros(1, np.int32)
    with pytest.raises(OutOfBudget) as caught:
        launch(CONTROL, (1,), 32, [out], "endless", budget=1_000_000)
    assert "argument 0" in caught.value.reachable
    assert caught.value.written == ()


def test_a_budget_is_spent_within_a_block_and_says_what_was_written() -> None:
    x, out = integers(1, 5000, 1000), np.zeros(1000, np.int32)
    whole = launch(CONTROL, (4,), 256, [x, out, x.size], "collatz", chunk=256)
    assert whole.written == ("argument 1",)
    with pytest.raises(OutOfBudget) as caught:
        launch(CONTROL, (4,), 256, [x, out, x.size], "collatz", budget=whole.cost // 2, chunk=256)
    assert caught.value.written == ("argument 1",)
    assert {"argument 0", "argument 1"} <= set(caught.value.reachable)
    launch(CONTROL, (4,), 256, [x, out, x.size], "collatz", budget=whole.cost)


def test_trap_is_a_fault_of_the_thread_that_ran_it() -> None:
    x = np.ones(64, np.int32)
    x[37] = -1
    with pytest.raises(Fault) as caught:
        launch(CONTROL, (1,), 64, [x], "trapped")
    assert (caught.value.cause, caught.value.place.thread) == ("trap", (37, 0, 0))


def test_past_the_end_of_a_buffer() -> None:
    x, out = np.zeros(1000, np.float32), np.zeros(1001, np.float32)
    with pytest.raises(Fault) as caught:
        launch(CONTROL, (8,), 128, [x, out, 1000], "past_end")
    fault = caught.value
    assert (fault.cause, fault.buffer, fault.past) == ("out of bounds", "argument 0", 4)
    assert fault.place.block == (7, 0, 0) and fault.place.thread == (1000 - 7 * 128, 0, 0)
    assert fault.address == x.ctypes.data + 4000
    assert "ld.global" in fault.place.statement
    assert "4 bytes past the end of argument 0 (float32, 1000)" in str(fault)


BYTES = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry words(.param .u64 x, .param .u32 size)
{
    .reg .b64 %rd<4>;
    .reg .b32 %r<4>;
    ld.param.u64 %rd1, [x];
    ld.param.u32 %r1, [size];
    cvt.u64.u32 %rd2, %r1;
    add.u64 %rd3, %rd1, %rd2;
    atom.global.add.u32 %r2, [%rd3], 16777216;
    ret;
}
.visible .entry bytes(.param .u64 x, .param .u32 size)
{
    .reg .b64 %rd<4>;
    .reg .b32 %r<4>;
    ld.param.u64 %rd1, [x];
    ld.param.u32 %r1, [size];
    cvt.u64.u32 %rd2, %r1;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u8 [%rd3], %r1;
    ret;
}
"""


def test_the_aligned_word_with_a_buffers_last_byte_can_be_accessed_whole() -> None:
    module = read_module(parse_ptx(BYTES))
    whole = np.zeros(64, np.uint8)
    for size in (5, 6, 7, 8):
        whole[:] = 0
        launch(module, (1,), 1, [whole[:size], 4], "words")
        assert whole.nonzero()[0].tolist() == [7]


@pytest.mark.parametrize(
    ("size", "entry", "at"), [(5, "bytes", 5), (4, "words", 4), (7, "bytes", 7)]
)
def test_an_access_that_begins_past_a_buffers_end_is_a_fault(
    size: int, entry: str, at: int
) -> None:
    module = read_module(parse_ptx(BYTES))
    with pytest.raises(Fault) as caught:
        launch(module, (1,), 1, [np.zeros(64, np.uint8)[:size], at], entry)
    assert caught.value.cause == "out of bounds"


def test_null_misaligned_and_constant_addresses_are_faults() -> None:
    memory, x, out = Memory(), np.zeros(128, np.float32), np.zeros(128, np.float32)
    first = memory.add("x", x).address
    weights = memory.add("weights", np.zeros(32, np.float32), writable=False)
    causes = []
    for source, target in ((0, out), (first + 2, out), (first, weights)):
        with pytest.raises(Fault) as caught:
            launch(CONTROL, (1,), 32, [source, target, 10], "past_end", memory=memory)
        causes.append((caught.value.cause, caught.value.buffer))
    assert causes == [("null", None), ("misaligned", None), ("read only", "weights")]


GROUPS = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry groups(.param .u64 out) .reqntid 128, 1, 1 {
  .reg .pred %p<3>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<6>;
  .reg .f32 %f<5>;
  .shared .align 1024 .b8 tile[4096];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  shl.b32 %r3, %r1, 5;
  mov.u32 %r4, tile;
  add.u32 %r3, %r3, %r4;
  mov.b32 %r5, 0x3C003C00;
  st.shared.v4.b32 [%r3], {%r5, %r5, %r5, %r5};
  st.shared.v4.b32 [%r3+16], {%r5, %r5, %r5, %r5};
  bar.sync 0;
  mov.f32 %f1, 0f3F800000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
  setp.eq.u32 %p1, %r2, 0;
  // a descriptor of what is not there, in the block that does not multiply
  selp.b64 %rd2, 0x0000000000003FFF, 0x0000000800080000, %p1;
  setp.eq.u32 %p2, %r2, %r2;
  @%p1 bra DONE;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16
    {%f1, %f2, %f3, %f4}, %rd2, %rd2, %p2, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
DONE:
  mad.lo.u32 %r3, %r2, 128, %r1;
  mul.wide.u32 %rd3, %r3, 4;
  add.u64 %rd4, %rd1, %rd3;
  st.global.f32 [%rd4], %f4;
  ret;
}
"""


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_block_that_does_not_multiply_has_no_part_in_a_product(chunk: int) -> None:
    out = np.zeros((3, 128), np.float32)
    launch(read_module(parse_ptx(GROUPS)), (3,), 128, [out], "groups", chunk=chunk)
    assert (out == np.array([[1], [17], [17]], np.float32)).all()


def test_sums_of_32_bit_addresses_wrap_around() -> None:
    # What nvcc makes of s[i - 1]: the register is four bytes before the array.
    text = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<5>;
  .reg .b64 %rd<3>;
  .shared .align 4 .b8 s[128];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, s;
  add.s32 %r3, %r3, %r2;
  st.shared.u32 [%r3], %r1;
  add.s32 %r3, %r3, -4;
  ld.shared.u32 %r4, [%r3+4];
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r4;
  ret;
}
"""
    out = np.zeros(32, np.uint32)
    launch(text, (1,), 32, [out], "k")
    assert out.tolist() == list(range(32))
