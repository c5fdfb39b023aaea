"""Scripts that are written run alone on the emulated device, and tell right from wrong."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inspector.recording.layout import read_events
from inspector.system.files import archive
from tests.helpers.ptxview import call
from tests.probes.conftest import Outcome, Run, caches, forked, ok, parents, warm_python

__all__ = ["caches", "forked", "parents", "warm_python"]  # fixtures

HELPERS = """
import triton
import triton.language as tl

EPS = tl.constexpr(0.5)


@triton.jit
def scaled(x, factor):
    return x * factor + EPS
"""
KERNELS = """
import os
import torch, triton
import triton.language as tl
from kit_of_kernels import scaled as stretched

WIDTH = tl.constexpr(int(os.environ.get("NOBODY_SETS_THIS", "3")))
UNUSED = torch.zeros(3)


@triton.jit
def plain(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, stretched(tl.load(x + at, at < n), 2.0) + WIDTH, at < n)


@triton.autotune([triton.Config({"BLOCK": 32}, num_warps=1),
                  triton.Config({"BLOCK": 64}, num_warps=2)], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) * 2, at < n)


@triton.jit
def gather(table, index, out, by_t, by_o, D: tl.constexpr):
    row = tl.program_id(0)
    d = tl.arange(0, D)
    tl.store(out + row * by_o + d, tl.load(table + tl.load(index + row) * by_t + d))


@triton.jit
def backwards(src, dst, some, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst + at, tl.load(src + at, at < n) + tl.load(some), at < n)


n = 100
x, out = torch.randn(n, device="cuda"), torch.empty(n, device="cuda")
plain[(4,)](x, out, n, BLOCK=32)
tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
table = torch.randn(50, 96, device="cuda", dtype=torch.bfloat16)[:, 8:72]
index = torch.randint(5, 45, (33,), device="cuda", dtype=torch.int32)
result = torch.empty(33, 128, device="cuda", dtype=torch.bfloat16)[:, :64]
gather[(33,)](table, index, result, table.stride(0), result.stride(0), D=64)
small = torch.randn(n + 4, device="cuda").to(torch.float8_e4m3fn)[4:]
plain[(4,)](small.to(torch.float16), out, n, BLOCK=32)
both = torch.randn(200, device="cuda")
backwards[(1,)](both[40:140], both[8:], both[2:3].view(torch.int32), n, BLOCK=128)
backwards[(1,)](both[40:140], both[40:140], both[50:51].view(torch.int32), n, BLOCK=128)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the module's recording is kept."""
    return tmp_path_factory.mktemp("recorded")


@pytest.fixture
def interpreting(warm_python: Callable[..., Path]) -> dict[str, str]:
    """What has a script start, for Triton's interpreter, a child of one that has imported it."""
    return {"FORKS_EXECUTABLE": str(warm_python(TRITON_INTERPRET="1"))}


@pytest.fixture
def recording(folder: Path, forked: Run, tmp_path: Path) -> Path:
    """A recording of KERNELS, made once."""
    kept = folder / "recording"
    if not kept.exists():
        (tmp_path / "kit_of_kernels.py").write_text(HELPERS)
        keep_recording(ok(forked(KERNELS)), tmp_path, kept)
        (tmp_path / "kit_of_kernels.py").unlink()
    return kept


def keep_recording(done: Outcome, tmp_path: Path, kept: Path) -> None:
    """The recording that a program has just left, as ``ptxview run`` would keep it."""
    newest = max(tmp_path.glob("recording*"), key=lambda p: p.stat().st_mtime_ns)
    first = {"event": "recording", "schema": 1, "mode": "target", "target": "sm_90", "time": 0}
    (newest / "events.jsonl").write_text(json.dumps(first) + "\n")
    shutil.copytree(newest, kept)


def script_of(recording: Path, kernel: str, *options: str) -> str:
    """The script of a kernel; it is Python without a name that nobody defines."""
    done = call("repro", recording, kernel, *options)
    assert done.status == 0, done.said
    ast.parse(done.text)
    words = "-m ruff check -q --isolated --select=E9,F63,F7,F82,F401 -"
    command = [sys.executable, *words.split()]
    checked = subprocess.run(command, input=done.text, text=True, capture_output=True, check=False)
    assert not checked.stdout and checked.returncode == 0, checked.stdout + checked.stderr
    assert "inspector" not in done.text and str(Path.cwd()) not in done.text
    return done.text


def test_a_kernel_runs_alone_with_what_it_calls_and_reads(recording: Path, forked: Run) -> None:
    """A function of another file, renamed; a constexpr that came of the environment."""
    script = script_of(recording, "plain", "--call", "0")
    assert "NOBODY_SETS_THIS" not in script and "UNUSED" not in script
    done = ok(forked(script))
    assert "wrote" not in done.err and "out: agrees" in done.out
    assert "agrees with Triton's interpreter, 4 of 4 programs" in done.out
    assert "time: not taken, the device is emulated" in done.out


def test_inputs_are_of_the_recorded_kind(
    recording: Path, forked: Run, interpreting: dict[str, str]
) -> None:
    """Strides, alignment, dtype and range: the script's launch records what was recorded."""
    events: Any = read_events(recording).events
    (before,) = [e for e in events if e["event"] == "call" and e["name"] == "gather"]
    done = ok(forked(script_of(recording, "gather"), env=interpreting))
    (again,) = done.of("call")
    assert again["grid"] == before["grid"] and again["block"] == before["block"]
    for one, other in zip(before["arguments"], again["arguments"], strict=True):
        low, high = one.pop("low", None), one.pop("high", None)
        assert low is None or low <= other.pop("low") <= other.pop("high") <= high
        assert other == one
    assert "out: agrees" in done.out and "index: the same" in done.out


@pytest.mark.parametrize("number", [0, 1])
def test_arguments_that_shared_memory_share_it_in_the_script(
    recording: Path, forked: Run, number: int
) -> None:
    """Partly, and as one tensor with another of other values within."""
    events: Any = read_events(recording).events
    recorded = [e for e in events if e["event"] == "call" and e["name"] == "backwards"][number]
    assert recorded["shares"]
    script = script_of(recording, "backwards", "--call", str(number), "--check-with", "none")
    done = ok(forked(script))
    (again,) = done.of("call")
    assert again["shares"] == recorded["shares"]
    layouts = [
        [[a.get(key) for key in ("shape", "strides", "alignment", "dtype")] for a in e["arguments"]]
        for e in (recorded, again)
    ]
    assert layouts[0] == layouts[1]


def test_a_given_array_has_memory_of_its_own_in_the_script(
    recording: Path, forked: Run, tmp_path: Path
) -> None:
    script = script_of(recording, "backwards", "--call", "1", "--check-with", "none")
    (tmp_path / "script.py").write_text(script)
    np.savez(tmp_path / "src.npz", src=np.ones(100, np.float32))
    words = f"import sys; sys.argv += ['--inputs', {str(tmp_path / 'src.npz')!r}]\n"
    done = ok(forked(words + script.partition('"""')[2].partition('"""')[2]))
    assert "src is given, and has memory of its own here" in done.out
    (again,) = done.of("call")
    assert [pair[:2] for pair in again["shares"]] == [["dst", "some"]]


REFERENCE = """
import torch
import a_package_that_nobody_has

FACTOR = 2


def times(x):
    return x * FACTOR


def right(x, n):
    return times(x)[:n]


def in_place(x, out):
    out.copy_(times(x))


def wrong(x):
    return x + 1
"""


@pytest.mark.parametrize(("function", "status"), [("right", 0), ("in_place", 0), ("wrong", 1)])
def test_a_reference_is_copied_into_the_script(
    recording: Path,
    forked: Run,
    tmp_path: Path,
    function: str,
    status: int,
    interpreting: dict[str, str],
) -> None:
    (tmp_path / "ref.py").write_text(REFERENCE)
    script = script_of(recording, "tuned", "--check-with", f"{tmp_path / 'ref.py'}:{function}")
    (tmp_path / "ref.py").unlink()
    assert "a_package_that_nobody_has" not in script and str(tmp_path) not in script
    done = forked(script, env=interpreting)
    assert done.status == status, done.err
    assert ("agrees with the reference" in done.out) == (status == 0)


def test_a_launch_of_which_nothing_was_recorded_takes_all_from_the_user(
    folder: Path, recording: Path, forked: Run, tmp_path: Path, interpreting: dict[str, str]
) -> None:
    alone = tmp_path / "alone"
    shutil.copytree(recording, alone)
    for file in alone.glob("events-*.jsonl"):
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(one for one in lines if json.loads(one)["event"] != "call"))
    done = call("repro", alone, "gather")
    assert done.status == 2 and "no launch of gather was recorded" in done.said
    assert "--grid" in done.said and "--inputs" in done.said and not done.out
    np.savez(
        tmp_path / "all.npz",
        table=np.ones((9, 64), np.uint16),
        index=np.arange(3, dtype=np.int32),
        out=np.zeros((3, 64), np.uint16),
        by_t=np.array(64),
        by_o=np.array(64),
    )
    options = ("--grid", "3", "--inputs", str(tmp_path / "all.npz"))
    again = ok(forked(script_of(alone, "gather", *options), env=interpreting))
    assert "it made out" in again.out and "3 of 3 programs" in again.out


@pytest.mark.nightly
def test_a_kernel_that_torch_compile_made(
    forked: Run, tmp_path: Path, interpreting: dict[str, str]
) -> None:
    """A reduction, a pointwise kernel with indices; the program's own choice of configuration."""
    program = """
import torch
gelu = torch.nn.functional.gelu
f = torch.compile(lambda x, y: (gelu(x * y + 1.0, approximate="tanh"), x.sum(-1)))
f(torch.randn(16, 200, device="cuda"), torch.randn(200, device="cuda"))
g = torch.compile(lambda table, index: torch.relu(table[index]) + 1)
g(torch.randn(40, 32, device="cuda"), torch.randint(0, 40, (25,), device="cuda"))
"""
    kept = tmp_path / "kept"
    keep_recording(ok(forked(program, values="ptx", inductor=True)), tmp_path, kept)
    for kernel in ("triton_per_*", "triton_poi_*"):
        script = script_of(kept, kernel)
        assert "triton_heuristics" not in script
        done = ok(forked(script, inductor=True, env=interpreting))
        assert "agrees with Triton's interpreter" in done.out and "made out_ptr0" in done.out


def test_an_extension_has_its_own_sources_and_options() -> None:
    """Of a recording made on a GPU: the sources byte for byte, and no option of torch's or of that
    machine's."""
    recording = Path("examples/recordings/lecture-h200.ptxview")
    done = call("repro", recording, "square_matrix_kernel")
    assert done.status == 0 and "--check-with" in done.said
    tree = ast.parse(done.text)
    assigned = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    sources = ast.literal_eval(assigned["SOURCES"])
    events = read_events(recording)
    (built,) = [
        e
        for e in events.events
        if e.get("name") == "square_matrix_extension" and e["event"] == "extension"
    ]
    files: Any = built["files"]
    for name in ("main.cpp", "cuda.cu"):
        blob = archive(recording).read(f"blobs/{files[name]}")
        assert sources[name][1:] == blob.decode()
    assert set(sources) == {"main.cpp", "cuda.cu"}
    assert "extra_cuda_cflags=['-O2']" in done.text and "/opt" not in done.text
    assert "NOT COMPARED" in done.text


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["softmax_kernel", "--call", "7"], 2, "there is no call 7"),
        (["softmax_kernel", "--check-with", "gpu"], 2, "nothing to compare with"),
        (["softmax_kernel", "--check-with", __file__ + ":nobody"], 2, "has no function nobody"),
        (["softmax_kernel", "--inputs", __file__], 4, "is not an .npz"),
        (["square_matrix_kernel", "--grid", "3"], 2, "--grid is of a Triton kernel's launch"),
        (["square_kernel", "--variant", "zzzz"], 2, "no kernel or variant is called zzzz"),
    ],
)
def test_what_cannot_be_written_is_a_sentence(words: list[str], status: int, said: str) -> None:
    done = call("repro", "examples/recordings/lecture-h200.ptxview", *words)
    assert done.status == status and said in done.said and not done.out
