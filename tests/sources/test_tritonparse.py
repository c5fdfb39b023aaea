"""Traces that tritonparse itself writes are opened as the recordings that they describe."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tritonparse.parse.trace_processor import parse_single_file

from tests.helpers.ptxview import call, environment, ptxview, saved
from tests.probes.conftest import caches, parents, warm_python

__all__ = ["caches", "parents", "warm_python"]  # fixtures
pytestmark = pytest.mark.nightly

PROGRAM = """
import tritonparse.structured_logging as log
log.init("logs", enable_trace_launch=True)
import torch, triton, triton.language as tl

@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)

x = torch.rand(1000, device="cuda")
out = torch.empty_like(x)
for n in (1000, 1000, 500):
    add_kernel[(triton.cdiv(n, 256),)](x, x, out, n, BLOCK=256)
"""


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory, warm_python: Callable[..., Path]
) -> tuple[Path, Path]:
    """A program traced by tritonparse while it is recorded: the trace and the recording."""
    folder = tmp_path_factory.mktemp("traced")
    (folder / "traced.py").write_text(PROGRAM)
    options = ("--target", "sm_90", "--no-tui", "-o", "x.ptxview", "--python", warm_python())
    env = environment(TRITON_CACHE_DIR=str(folder / "cache"))
    done = ptxview("run", *options, "traced.py", cwd=folder, env=env)
    assert done.status == 0, done.said
    (written,) = (folder / "logs").iterdir()
    return written, folder / "x.ptxview"


def variant_of(path: Path) -> Any:
    (kernel,) = call("list", path, "--json").json["kernels"]
    (variant,) = kernel["variants"]
    return variant


def test_what_tritonparse_wrote_is_what_was_recorded(made: tuple[Path, Path]) -> None:
    written, recording = made
    mine, theirs = variant_of(recording), variant_of(written)
    for field in ("id", "hash", "target", "config", "launches"):
        assert theirs[field] == mine[field], field
    assert set(mine["stages"]) - set(theirs["stages"]) == {"sass"}
    assert "no machine code" in theirs["missing"]["sass"]
    for stage in ("ttir", "ttgir", "llir", "ptx"):
        shown = [call("show", path, mine["id"], "--stage", stage).out for path in made]
        assert shown[0] == shown[1] and shown[0]
    calls = [
        [
            (c["count"], c["grid"], c["block"], [(a["name"], a["shape"]) for a in c["arguments"]])
            for c in variant["calls"]
        ]
        for variant in (mine, theirs)
    ]
    assert calls[0] == calls[1] and [c[0] for c in calls[0]] == [2, 1]


def test_a_trace_is_opened_packed_and_in_its_folder(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    written, _ = made
    data = written.read_bytes()
    events = data.splitlines(keepends=True)
    packed = saved(tmp_path / "x.ndjson.gz", gzip.compress(data))
    members = tmp_path / "y.bin.ndjson"  # newer ones: a member of gzip an event
    members.write_bytes(b"".join(map(gzip.compress, events)))
    folder = tmp_path / "logs"
    saved(folder / "trace_rank_0.ndjson", data)
    expected = variant_of(written)
    for path in (packed, members, folder):
        assert variant_of(path) == expected
    # What tritonparse makes of a trace is one, too.
    parse_single_file(str(written), str(tmp_path / "parsed"))
    (parsed,) = (tmp_path / "parsed").iterdir()
    assert variant_of(parsed)["hash"] == expected["hash"]
