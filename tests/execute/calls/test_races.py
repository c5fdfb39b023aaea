"""``trace --races``: what is printed of a kernel with a race, and of the same with its barrier."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.execute.calls.programs import kernel, written
from tests.helpers import schemas
from tests.helpers.ptxview import SAMPLE, call

EXCHANGED = kernel(
    """    mov.u32 %r4, s;
    shl.b32 %r5, %r1, 2;
    add.s32 %r6, %r4, %r5;
    xor.b32 %r7, %r5, 128;
    add.s32 %r7, %r4, %r7;
    st.shared.u32 [%r6], %r1;
    bar.sync 0;
    ld.shared.u32 %r8, [%r7];
    st.global.u32 [%rd1], %r8;""",
    before=".shared .align 16 .b8 s[256];",
)
LAUNCH = ("--grid", "9,2", "--threads", "64", "--races")


def test_a_race_is_reported_with_its_lines_and_exit_status_1(tmp_path: Path) -> None:
    text = EXCHANGED.replace("bar.sync 0;", "//")
    ptx, inputs = written(tmp_path, text, x=np.zeros(64 * 18, np.int32))
    words = ("trace", ptx, "k", "--inputs", inputs, *LAUNCH)
    done = call(*words)
    assert done.status == 1
    lines = text.split("\n")
    store = next(n for n, line in enumerate(lines, 1) if "st.shared" in line)
    load = store + 2
    places = (f"the store in line {store} by warp 1", f"the load in line {load} by warp 0")
    reason = f"no barrier between {places[0]} and {places[1]}"
    out = " ".join(done.text.split())
    assert "races 1 race in shared memory of blocks (0, 0, 0), (0, 1, 0) and (8, 1, 0) and" in out
    assert f"race {reason} bytes 128 to 255 of shared memory, block (0, 1, 0)" in out
    assert f"line {store}: st.shared.u32 [%r6], %r1; line {load}: ld.shared.u32" in out
    document = json.loads(call(*words, "--json").out)
    schemas.hold("trace", document)
    place = {"block": [0, 1, 0], "source": None}
    assert document["races"] == [
        {
            "accesses": [
                {"line": store, "warp": 1, "access": "store", **place},
                {"line": load, "warp": 0, "access": "load", **place},
            ],
            "bytes": [128, 255],
            "owner": [0, 1, 0],
            "reason": reason,
        }
    ]


def test_no_race_where_there_is_a_barrier_and_null_where_nobody_asked(tmp_path: Path) -> None:
    ptx, inputs = written(tmp_path, EXCHANGED, x=np.zeros(64 * 18, np.int32))
    words = ("trace", ptx, "k", "--inputs", inputs, *LAUNCH)
    done = call(*words)
    assert done.status == 0 and "none found in shared memory" in " ".join(done.text.split())
    assert call(*words, "--json").json["races"] == []
    assert call(*words[:-1], "--json").json["races"] is None


def test_the_blocks_that_are_asked_for_are_the_ones_that_are_looked_at() -> None:
    done = call("trace", str(SAMPLE), "softmax_kernel", "--blocks", "7,0,0", "--races")
    assert done.status == 0
    assert "none found in shared memory of block (7, 0, 0)" in " ".join(done.text.split())
