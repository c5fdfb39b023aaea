"""Kernels that the user wrote, called in a compiled function: each is one, with its own source."""

from __future__ import annotations

from pathlib import Path

from inspector.base.model import Origin, Recording, Stage
from inspector.reader.reader import Reader
from inspector.recording.assemble import Assembly
from inspector.recording.layout import BytesContent, user_derived_cache
from tests.probes.conftest import Outcome, Run, ok

PROGRAM = """
import torch, triton
import triton.language as tl

@triton.jit
def plain(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

@triton.autotune([triton.Config({"B": b}, num_warps=w) for b, w in ((128, 1), (256, 4))], ["n"])
@triton.jit
def tuned(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 3, mask=at < n)

@triton.jit
def wrapped(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 5, mask=at < n)

@torch.library.triton_op("ours::five", mutates_args=())
def five(x: torch.Tensor) -> torch.Tensor:
    y, n = torch.empty_like(x), x.numel()
    torch.library.wrap_triton(wrapped)[(triton.cdiv(n, 128),)](x, y, n, B=128)
    return y

@torch.compile
def model(x):
    y, z, n = torch.empty_like(x), torch.empty_like(x), x.numel()
    plain[(triton.cdiv(n, 256),)](x, y, n, B=256)
    plain[(triton.cdiv(n, 512),)](y, z, n, B=512)
    tuned[lambda meta: (triton.cdiv(n, meta["B"]),)](z, y, n)
    return five(y).sin() + 1

model(torch.ones(1000, device="cuda"))
"""


def read(done: Outcome, blobs: Path) -> Recording:
    return Assembly(
        lambda d: BytesContent((blobs / d).read_bytes()) if isinstance(d, str) else None
    ).recording("r", done.events)


def test_a_users_kernel_in_a_graph_is_one_kernel_with_its_own_source(
    forked: Run, tmp_path: Path
) -> None:
    done = ok(forked(PROGRAM, inductor=True))
    (blobs,) = tmp_path.glob("recording*/blobs")
    rec = read(done, blobs)
    mine = {k.name: k for k in rec.kernels if not k.name.startswith("triton_")}
    assert sorted(mine) == ["plain", "tuned", "wrapped"]
    assert all(kernel.origin is Origin.TRITON for kernel in mine.values())
    (graph,) = rec.graphs
    assert graph.kernels[:3] == ("plain", "tuned", "wrapped")
    code = graph.stages[Stage.OUTPUT_CODE].content.read().decode().split("\n")
    text = PROGRAM.split("\n")
    reader = Reader(rec, user_derived_cache())
    for name, kernel in mine.items():
        for n in graph.calls[kernel.id]:
            assert name in code[n - 1]
        copies = [v for v in kernel.variants if Stage.OUTPUT_CODE in v.stages]
        assert len(copies) == (1 if name == "wrapped" else 2)
        for variant in copies:
            assert variant.stages[Stage.SOURCE].content.read().decode() == PROGRAM
            first, last = variant.lines_in(Stage.SOURCE) or (0, 0)
            assert text[first - 1].startswith("@triton.") and "tl.store" in text[last - 1]
            pairs = reader.stages.links(variant, Stage.SOURCE, Stage.OUTPUT_CODE)
            assert {last - 1, last} <= set(pairs)
            for own, (copy,) in pairs.items():
                assert text[own - 1] == code[copy - 1]
            below = reader.stages.links(variant, Stage.SOURCE, Stage.PTX)
            ptx = [line.text for line in reader.stages.listing(variant, Stage.PTX).lines]
            assert any("st.global" in ptx[n - 1] for n in below[last])
    # The one that was tuned knows both of its configurations.
    (tuning, *_) = [t for t in mine["tuned"].autotune if t.tuner == "inductor"]
    assert all(one.variant for one in tuning.configurations)
