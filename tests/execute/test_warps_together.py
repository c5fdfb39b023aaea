"""Lanes of a warp that are apart, and warps that run one after another."""

from pathlib import Path

import numpy as np
import pytest

from inspector.execute import Memory, Program, execute
from inspector.execute.calls.inputs import LaunchInputs
from inspector.execute.calls.warp_orders import warp_orders
from tests.helpers.ptxview import call

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;
.shared .align 8 .b8 bar[16]; .shared .align 4 .b8 word[4];
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
"""
# Twice the elected lane of warp 0 waits for a phase that warp 1 completes, and counts itself.
ELECTED = """setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
mbarrier.init.shared.b64 [bar], 1;
mbarrier.init.shared.b64 [bar+8], 1;
READY:
bar.sync 0;
setp.ge.u32 %p2, %r1, 32;
@%p2 bra ARRIVES;
mov.u32 %r2, 0;
TILE:
elect.sync %r3|%p3, 0xffffffff;
@!%p3 bra NEXT;
shl.b32 %r4, %r2, 3;
mov.u32 %r5, bar;
add.u32 %r5, %r5, %r4;
WAIT:
mbarrier.try_wait.parity.shared.b64 %p4, [%r5], 0;
@!%p4 bra WAIT;
mad.wide.u32 %rd2, %r1, 4, %rd1;
red.global.add.u32 [%rd2], 1;
NEXT:
add.u32 %r2, %r2, 1;
setp.lt.u32 %p5, %r2, 2;
@%p5 bra TILE;
bra END;
ARRIVES:
setp.ne.u32 %p6, %r1, 32;
@%p6 bra END;
mbarrier.arrive.shared.b64 %rd3, [bar];
mbarrier.arrive.shared.b64 %rd3, [bar+8];
END:
ret;
}
"""


def run(body: str, order: tuple[int, ...] = ()) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    memory, out = Memory(), np.zeros(64, np.uint32)
    buffer = memory.add("out", out)
    execute(Program(HEAD + body), (1,), (64,), [buffer], memory=memory, warp_order=order)
    return out


@pytest.mark.parametrize("order", [(), (0, 1), (1, 0)])
def test_the_lanes_of_a_warp_elect_together_though_one_waits(order: tuple[int, ...]) -> None:
    assert run(ELECTED, order).tolist() == [2] + [0] * 63


# Each warp's first lane takes the next number, and writes which it got.
TICKETS = """mov.u32 %r2, 0;
setp.ne.u32 %p1, %r1, 0;
@!%p1 st.shared.u32 [word], %r2;
bar.sync 0;
and.b32 %r3, %r1, 31;
setp.ne.u32 %p2, %r3, 0;
@%p2 bra END;
atom.shared.add.u32 %r4, [word], 1;
mad.wide.u32 %rd2, %r1, 4, %rd1;
st.global.u32 [%rd2], %r4;
END:
ret;
}
"""


def test_an_order_of_warps_shows_where_the_result_depends_on_it() -> None:
    def inputs(body: str, order: tuple[int, ...]) -> LaunchInputs:
        made = LaunchInputs()
        buffer = made.memory.add("out", np.zeros(64, np.uint32))
        execute(Program(HEAD + body), (1,), (64,), [buffer], memory=made.memory, warp_order=order)
        return made

    same = warp_orders(lambda order: inputs(ELECTED, tuple(order)), 2)
    assert [(o.order, o.differing, o.fault) for o in same] == [
        ("first to last", [], None),
        ("last to first", [], None),
    ]
    first, last = warp_orders(lambda order: inputs(TICKETS, tuple(order)), 2)
    assert not first.differing
    assert last.differing == ["out differs in 2 of 64 elements"]
    assert warp_orders(lambda order: inputs(TICKETS, tuple(order)), 1) == ()


def test_the_command_says_what_other_orders_did(tmp_path: Path) -> None:
    source = tmp_path / "k.ptx"
    source.write_text(HEAD + TICKETS)
    np.savez(tmp_path / "in.npz", out=np.zeros(64, np.uint32))
    given = ("--grid", "1", "--threads", "64", "--inputs", tmp_path / "in.npz", "--races")
    done = call("trace", source, "k", *given)
    assert done.status == 0
    assert "last to first: out differs in 2 of 64 elements" in done.out.decode()
    orders = call("trace", source, "k", *given, "--json").json["orders"]
    assert [o["finished"] for o in orders] == [True, True]
