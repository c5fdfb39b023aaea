"""What does not compile, or cannot be loaded: judged by what the compilers themselves print."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.ptxview import Done, call, environment, ptxview, saved, write_events
from tests.helpers.tools import needs, path_of
from tests.probes.conftest import INDUCTOR

PROGRAM = """
import os, torch, triton
import triton.language as tl

@triton.jit
def front(x, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(x + at, absent(at))

@triton.jit
def even(x, B: tl.constexpr):
    tl.static_assert(B < 100, "too wide a block")
    at = tl.arange(0, B)
    tl.store(x + at, at * 2.0)

@triton.jit
def refused(x, B: tl.constexpr):
    at = tl.arange(0, B)
    y = tl.inline_asm_elementwise("mulx.f32 $0, $1;", "=r,r", [tl.load(x + at)],
                                  dtype=tl.float32, is_pure=True, pack=1)
    tl.store(x + at, y)

@triton.jit
def scanned(x, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(x + at, tl.cumsum(tl.load(x + at), 0))

@triton.jit
def ended(x, B: tl.constexpr):
    at = tl.arange(0, B)
    y = tl.inline_asm_elementwise("mov.b32 $0, $7;", "=r,r", [tl.load(x + at)],
                                  dtype=tl.float32, is_pure=True, pack=1)
    tl.store(x + at, y)

@triton.autotune([triton.Config({"B": 64}, num_stages=s) for s in (6, 1)]
                 + [triton.Config({"B": 32})], ["K"])
@triton.jit
def large(a, b, c, K, B: tl.constexpr):
    tl.static_assert(B > 32, "too narrow a block")
    at = tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, K, 4 * B):
        deep = k + tl.arange(0, 4 * B)
        total += tl.dot(tl.load(a + at[:, None] * K + deep[None, :]),
                        tl.load(b + deep[:, None] * B + at[None, :]))
    tl.store(c + at[:, None] * B + at[None, :], total)

x = torch.zeros(1024, device="cuda")

def tried(kernel, *given, **more):
    try:
        kernel[(1,)](*given, **more)
    except Exception as error:
        print("raised:", type(error).__name__, error, flush=True)

tried(front, x, B=128)
tried(even, x, B=128)
tried(even, x, B=64)
tried(refused, x, B=128)
tried(scanned, x, B=1024, num_ctas=2)
a, b = torch.ones(64, 1024, device="cuda"), torch.ones(1024, 64, device="cuda")
tried(large, a, b, torch.empty(64, 64, device="cuda"), 1024)
child = os.fork()
if not child:
    ended[(1,)](x, B=128)
    os._exit(0)
print("ended:", os.waitpid(child, 0)[1])
raise ValueError("in the middle")
"""
LINES = PROGRAM.split("\n")


def line_of(text: str) -> int:
    """The only line of the program with this text."""
    (n,) = (n for n, line in enumerate(LINES, 1) if text in line)
    return n


@pytest.fixture(scope="module")
def program(
    tmp_path_factory: pytest.TempPathFactory, warm_python: Callable[..., Path]
) -> tuple[Path, Done]:
    """The recording of the program, and what it printed itself."""
    folder = tmp_path_factory.mktemp("failing")
    script = saved(folder / "program.py", PROGRAM)
    env = environment(TRITON_CACHE_DIR=str(folder / "triton"))
    return folder / "r", ptxview(
        "run", "-o", folder / "r", "--no-tui", "--python", warm_python(), script, env=env
    )


@pytest.fixture(scope="module")
def listed(program: tuple[Path, Done]) -> dict[str, Any]:
    """What ``list --json`` says of it."""
    document: dict[str, Any] = call("list", program[0], "--json").json
    return document


def variants(listed: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The variants of a kernel."""
    (kernel,) = (k for k in listed["kernels"] if k["name"] == name)
    out: list[dict[str, Any]] = kernel["variants"]
    return out


@pytest.mark.parametrize(
    ("name", "stage", "reached", "tool", "line"),
    [
        ("front", "ttir", [], "triton", "absent(at)"),
        ("even", "ttir", [], "triton", "static_assert(B < 100"),
        ("refused", "sass", ["ttir", "ttgir", "llir", "ptx"], "ptxas", None),
        ("scanned", "llir", ["ttir", "ttgir"], "triton", "tl.cumsum"),
        ("ended", "ptx", ["ttir", "ttgir", "llir"], "triton", None),
    ],
)
def test_what_does_not_compile_has_its_stages_so_far_and_the_compilers_words(
    program: tuple[Path, Done],
    listed: dict[str, Any],
    name: str,
    stage: str,
    reached: list[str],
    tool: str,
    line: str | None,
) -> None:
    path, done = program
    variant = variants(listed, name)[0]
    error = variant["error"]
    assert (error["stage"], error["tool"]) == (stage, tool)
    assert variant["stages"] == ["source", *reached]
    # Of what LLVM ends by, its words; of an assertion, the file and the condition.
    words = re.split(r"LLVM ERROR: |^\w+\.cpp:\d+: ", error["message"])[-1]
    assert words in done.text or words in done.said, "these are not the compiler's words"
    assert error["message"] in variant["failed"] and variant["launches"] in (None, 0)
    told = call("show", path, variant["id"])
    assert told.status == 0 and told.out and error["message"] in told.said
    lowest = ["source", *reached][-1]
    document = call("show", path, variant["id"], "--stage", lowest, "--json").json
    assert document["error"] == error
    missing = call("show", path, variant["id"], "--stage", "sass")
    assert missing.status == 4 and error["message"] in missing.said
    if line == "tl.cumsum" and f"program.py:{line_of(line)}:" not in done.said:
        line = "def scanned"  # Triton 3.7's assertion is of the whole kernel
    if line is not None:
        assert (error["file"], error["line"]) == (str(path.parent / "program.py"), line_of(line))
        assert error["text"] == LINES[error["line"] - 1]
        source = call("show", path, variant["id"], "--stage", "source", "--json").json
        noted = {one["n"]: [n["text"] for n in one["notes"]] for one in source["lines"]}
        assert error["message"] in noted[error["line"]]


def test_the_ptx_that_ptxas_refuses_is_kept_with_its_words_and_its_command(
    program: tuple[Path, Done], listed: dict[str, Any], tmp_path: Path
) -> None:
    path, _ = program
    (variant,) = variants(listed, "refused")
    error = variant["error"]
    ptx = call("show", path, variant["id"], "--stage", "ptx").text
    row = ptx.split("\n")[error["line"] - 1]
    assert "mulx" in row and error["file"] == "ptx" and error["text"] == row
    (tmp_path / "k.ptx").write_text(ptx)
    words = error["command"].split()
    given = next(word for word in words if word.endswith(".ptx"))
    words = [str(tmp_path / "k.ptx") if w == given else w for w in words]
    words[words.index("-o") + 1] = str(tmp_path / "k.o")
    again = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (
        again.returncode and f"line {error['line']}; error   : {error['message']}" in again.stderr
    )
    for said in again.stderr.splitlines():
        assert said.partition(", line")[2] in error["log"]
    # Its line of PTX is tied to that of the program.
    notes = call("show", path, variant["id"], "--stage", "source", "--json").json["lines"]
    assert [one["n"] for one in notes if one["notes"]] == [line_of("mulx.f32")]


def test_a_configuration_that_the_tuner_swallows_says_why(
    program: tuple[Path, Done], listed: dict[str, Any]
) -> None:
    assert "too narrow" not in program[1].text, "Triton has told of it"
    deep, _, narrow = (by_config(listed, B, stages) for B, stages in ((64, 6), (64, 1), (32, 3)))
    (kernel,) = (k for k in listed["kernels"] if k["name"] == "large")
    reasons = {c["variant"]: c["reason"] for c in kernel["autotune"][0]["configurations"]}
    error = deep["error"]
    assert (error["stage"], error["kind"], error["resource"]) == (
        "load",
        "OutOfResources",
        "shared memory",
    )
    # The limit of sm_90 as NVIDIA's guide has it: 227 KB a block.
    assert error["required"] > error["limit"] == 227 * 1024
    assert error["required"] == deep["resources"]["dynamic_shared_bytes"]
    assert reasons[deep["id"]] == f"failed: {deep['failed']}" and "sass" in deep["stages"]
    assert narrow["error"]["line"] == line_of("too narrow a block")
    assert reasons[narrow["id"]].endswith(narrow["error"]["message"])


def by_config(listed: dict[str, Any], block: int, stages: int) -> dict[str, Any]:
    """The variant of ``large`` with this configuration."""
    (one,) = (
        v
        for v in variants(listed, "large")
        if (v["config"]["B"], v["config"]["num_stages"]) == (block, stages)
    )
    return one


def test_failures_are_counted_and_the_exit_status_is_the_programs(
    program: tuple[Path, Done], listed: dict[str, Any]
) -> None:
    path, done = program
    assert done.status == 1 and "ValueError: in the middle" in done.said
    assert "ended: 6" in done.text, "LLVM has not ended the child by SIGABRT"
    many = sum(v["error"] is not None for k in listed["kernels"] for v in k["variants"])
    assert many == 7
    assert f"{many} failed" in next(r for r in done.said.splitlines() if "→" in r)
    table = call("list", path)
    assert f"{many} failed" in table.text and table.text.count("✗") == many
    assert not list(path.glob("standing-*")), "a pending failure is left"


# -- graphs ---------------------------------------------------------------------------------------

GRAPH = """
import torch
from torch._inductor import lowering

@torch.library.custom_op("mine::odd", mutates_args=())
def odd(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

odd.register_fake(torch.empty_like)

def refuse(x):
    raise NotImplementedError("odd has no form here")

lowering.lowerings[torch.ops.mine.odd.default] = refuse

def model(x):
    y = torch.sin(x)
    return torch.ops.mine.odd(y) * 2

print(torch.compile(model)(torch.zeros(8, device="cuda")).sum().item())

def broken(graph, inputs):
    raise RuntimeError("not by this one")

try:
    torch.compile(model, backend=broken)(torch.zeros(8, device="cuda"))
except Exception as error:
    print(type(error).__name__)
"""


def test_a_graph_that_does_not_compile_has_its_stages_so_far_and_the_error(
    tmp_path: Path, warm_python: Callable[..., Path]
) -> None:
    script = saved(tmp_path / "model.py", GRAPH)
    env = environment(
        TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor"), TORCHINDUCTOR_COMPILE_THREADS="1"
    )
    done = ptxview(
        "run", "-o", tmp_path / "r", "--no-tui", "--python", warm_python(*INDUCTOR), script, env=env
    )
    assert done.status == 0 and "BackendCompilerFailed" in done.text, done.said
    listed = call("list", tmp_path / "r", "--json").json
    lowered, given = listed["graphs"]
    assert lowered["stages"] == [] and lowered["stages_above"][-1] == "post_grad"
    error = lowered["error"]
    assert error["message"] == "NotImplementedError: odd has no form here"
    place = GRAPH.split("\n").index("    return torch.ops.mine.odd(y) * 2") + 1
    assert (error["file"], error["line"]) == (str(script), place)
    assert given["stages_above"] == ["dynamo"] and "not by this one" in given["error"]["log"]
    assert "2 graphs, 2 failed" in done.said
    shown = call("show", tmp_path / "r", lowered["id"])
    assert shown.status == 0 and "torch.ops.mine.odd" in shown.text
    assert "odd has no form here" in shown.said
    assert call("show", tmp_path / "r", lowered["id"], "--json").json["error"] == error
    lacking = call("show", tmp_path / "r", lowered["id"], "--stage", "output_code")
    assert lacking.status == 2 and "output_code" in lacking.said


# -- builds ---------------------------------------------------------------------------------------

CUDA = """\
__global__ void twice(float* x) {
    x[threadIdx.x] *= undeclared;
}
__global__ void thrice(float* x) { x[threadIdx.x] *= 3; }
"""
CPP = """\
int good() { return 1; }
int bad() { return missing; }
"""
NINJA = """\
rule cuda
  command = {nvcc} -gencode=arch=compute_90,code=sm_90 -c $in -o $out
rule cpp
  command = c++ -c $in -o $out
build k.cuda.o: cuda {folder}/k.cu
build main.o: cpp {folder}/main.cpp
"""


@needs("nvcc", "ninja", "g++")
def test_a_build_that_fails_has_its_messages_at_the_lines_of_its_sources(tmp_path: Path) -> None:
    """Real nvcc, c++ and ninja; what torch's function raises is ninja's output."""
    nvcc, ninja = path_of("nvcc"), str(path_of("ninja"))
    build = tmp_path / "build"
    build.mkdir()
    texts = {"k.cu": CUDA, "main.cpp": CPP}
    texts["build.ninja"] = NINJA.format(nvcc=nvcc, folder=build)
    for name, text in texts.items():
        (build / name).write_text(text)
    done = subprocess.run(
        [ninja, "-v", "-k", "0"], cwd=build, capture_output=True, text=True, check=False
    )
    assert done.returncode
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    path = write_events(
        tmp_path / "r",
        {"event": "recording", "schema": 1, "command": ["python", "x.py"], "mode": "gpu"},
        {
            "event": "extension",
            "directory": str(build),
            "name": "mine",
            "fresh": True,
            "files": digests,
            "error": f"Error building extension 'mine': {done.stdout}",
            "began": 1795412000.0,
            "seconds": 8.0,
        },
    )
    for name, digest in digests.items():
        (path / "blobs" / digest).write_text(texts[name])
    listed = call("list", path, "--json").json
    found = {k["name"]: k["variants"][0] for k in listed["kernels"]}
    assert set(found) == {"twice", "thrice", "main.cpp"}
    for name, file, word in (("twice", "k.cu", "undeclared"), ("main.cpp", "main.cpp", "missing")):
        error, text = found[name]["error"], texts[file]
        place = text[: text.index(word)].count("\n") + 1
        assert error["line"] == place and error["text"] == text.split("\n")[place - 1]
        column = re.search(rf"{file}:{place}:(\d+): error", done.stdout)
        wanted = int(column[1]) if column else text.split("\n")[place - 1].index(word) + 1
        assert error["column"] == wanted
        assert error["message"] in done.stdout and error["message"] in error["log"]
        assert error["command"] in done.stdout
        lines = call(
            "show",
            path,
            found[name]["id"] if file == "main.cpp" else name,
            "--stage",
            "source",
            "--json",
        ).json["lines"]
        assert [one["n"] for one in lines if one["notes"]] == [place]
    assert found["twice"]["target"] == "sm_90" and found["thrice"]["error"]
    timed = call("list", path, "--compiles").text
    assert "✗ nvcc mine" in timed and " of extensions" not in timed
    assert "nvcc mine failed after 8.00 s: " in timed and "1 compile failed in 8.00 s" in timed
