"""Races between blocks and reads of unwritten shared memory: sound kernels, and faults in them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.execute.calls.programs import kernel, written
from tests.execute.planted_blocks import PAIRS, UNWRITTEN, observed, shared_kernel, specimen
from tests.helpers import schemas
from tests.helpers.ptxview import call

OWN = "    st.global.u32 [%rd1], %r0;"
BESIDE = "    ld.global.u32 %r4, [%rd1+4];\n    st.global.u32 [%rd1], %r4;"
LAUNCH = ("--grid", "4", "--threads", "32", "--blocks", "all", "--races")
FEW = ("handed_on", "locked", "last_sums", "flagged")
"""Kernels whose order is made by atomics and polled flags, and one that stores equal values."""


@pytest.mark.parametrize("kernel_name", FEW)
@pytest.mark.parametrize("chunk", [32_768, 128])
def test_a_planted_fault_is_found_and_the_sound_kernel_is_not(kernel_name: str, chunk: int) -> None:
    made, grid, faults = next(row for row in PAIRS if row[0].fn.__name__ == kernel_name)
    assert not observed(specimen(made, grid, 0), chunk)[0].races
    for fault in faults:
        assert observed(specimen(made, grid, fault), chunk)[0].races


def test_a_race_between_blocks_has_its_lines_its_element_and_exit_status_1(tmp_path: Path) -> None:
    ptx, inputs = written(tmp_path, kernel(BESIDE), x=np.arange(129, dtype=np.int32))
    words = ("trace", ptx, "k", "--inputs", inputs, *LAUNCH)
    done = call(*words)
    assert done.status == 1
    lines = kernel(BESIDE).split("\n")
    load, store = (
        next(n for n, line in enumerate(lines, 1) if word in line) for word in ("ld.glo", "st.glo")
    )
    out = " ".join(done.text.split())
    reason = (
        f"x[32]: no order between the load in line {load} by block (0, 0, 0) and the store in line "
        f"{store} by block (1, 0, 0)"
    )
    assert "races 1 race in global memory of all 4 blocks" in out
    assert f"race {reason} line {load}: ld.global.u32" in out
    document = json.loads(call(*words, "--json").out)
    schemas.hold("trace", document)
    (race,) = document["races"]
    assert (race["reason"], race["bytes"]) == (reason, [128, 131])
    assert race["accesses"] == [
        {"line": load, "block": [0, 0, 0], "warp": None, "access": "load", "source": None},
        {"line": store, "block": [1, 0, 0], "warp": None, "access": "store", "source": None},
    ]


def test_blocks_with_their_own_elements_have_no_race(tmp_path: Path) -> None:
    ptx, inputs = written(tmp_path, kernel(OWN), x=np.zeros(128, np.int32))
    words = ("trace", ptx, "k", "--inputs", inputs, *LAUNCH)
    done = call(*words)
    assert done.status == 0
    assert "races none found in global memory of all 4 blocks" in " ".join(done.text.split())
    document = json.loads(call(*words[:-1], "--json").out)
    assert document["races"] is None


def unwritten_reads(folder: Path, text: str) -> list[str]:
    """The lines that read what nothing wrote."""
    ptx, inputs = written(folder, text, x=np.arange(128, dtype=np.int32))
    words = ("--grid", "1", *LAUNCH[2:], "--json")
    races = json.loads(call("trace", ptx, "k", "--inputs", inputs, *words).out)["races"]
    reads = [race["accesses"][0] for race in races if len(race["accesses"]) == 1]
    return [text.split("\n")[read["line"] - 1].split(".")[0].strip() for read in reads]


@pytest.mark.parametrize("name", UNWRITTEN)
def test_a_read_of_unwritten_shared_memory_is_reported_where_it_matters(
    tmp_path: Path, name: str
) -> None:
    faulty, sound = (shared_kernel(body) for body in UNWRITTEN[name])
    reads = unwritten_reads(tmp_path, faulty)
    assert set(reads) in ({"ld"}, {"ldmatrix"}, {"red", "ld"})
    assert not unwritten_reads(tmp_path, sound)


def test_an_observer_is_not_misled_by_an_access_out_of_bounds(tmp_path: Path) -> None:
    ptx, inputs = written(tmp_path, kernel(BESIDE), x=np.arange(64, dtype=np.int32))
    done = call("trace", ptx, "k", "--inputs", inputs, *LAUNCH)
    assert done.status == 1
    assert "out of bounds" in done.text
