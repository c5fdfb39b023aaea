"""What a run captures of Triton and Inductor, cold and warm, and that nothing of it shows."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inspector.system.toolchain import installed_copies
from tests.helpers.ptxview import (
    Done,
    call,
    environment,
    finished,
    printed,
    ptxview,
    saved,
    tool,
    variants_of,
)
from tests.probes.conftest import INDUCTOR as INDUCTOR_IMPORTED

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("triton") is None:
    pytest.skip("torch and triton are not installed", allow_module_level=True)

# Compiles without a device: only what the probes see of a compile is asked here.
COMPILES = '''
import sys
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def double(out, x, n, BLOCK: tl.constexpr, SCALE: tl.constexpr):
    """Doubles."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = at < n
    value = tl.load(x + at, mask=keep)
    tl.store(out + at, value * SCALE, mask=keep)

def build(block, warps, **more):
    source = ASTSource(
        fn=double,
        signature={"out": "*fp32", "x": "*fp32", "n": "i32", "BLOCK": "constexpr",
                   "SCALE": "constexpr"},
        constexprs={"BLOCK": block, "SCALE": 2.0},
        attrs={(0,): [["tt.divisibility", 16]]},
    )
    options = {"num_warps": warps, **more}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)

made = [build(1024, 4), build(2048, 8), build(1024, 4), build(8192, 1, maxnreg=32)]
print([m.hash for m in made], flush=True)
if "crash" in sys.argv:
    import os; os.kill(os.getpid(), 9)
'''


def run_triton(python: Path, folder: Path, name: str, *words: str) -> Done:
    """Run the script that compiles, with a Triton cache in the folder."""
    path = saved(folder / "compiles.py", COMPILES)
    env = environment(TRITON_CACHE_DIR=str(folder / "triton"))
    return ptxview("run", "-o", folder / name, "--python", python, path, *words, env=env)


@pytest.fixture(scope="module")
def compiled(
    tmp_path_factory: pytest.TempPathFactory, warm_python: Callable[..., Path]
) -> tuple[Path, list[Done]]:
    """Two runs of the same compiles: the first finds no cache, the second all of it."""
    folder = tmp_path_factory.mktemp("compiled")
    return folder, [run_triton(warm_python(), folder, name) for name in ("cold", "warm")]


def hashes(done: Done) -> list[str]:
    return list(ast.literal_eval(done.text))


@pytest.mark.parametrize("name", ["cold", "warm"])
def test_every_compile_is_captured_once(compiled: tuple[Path, list[Done]], name: str) -> None:
    folder, runs = compiled
    value = call("list", folder / name, "--json").json
    (kernel,) = value["kernels"]
    assert (kernel["name"], kernel["origin"]) == ("double", "triton")
    told = list(dict.fromkeys(hashes(runs[name == "warm"])))
    assert [v["hash"] for v in kernel["variants"]] == told
    assert {v["cache_hit"] for v in kernel["variants"]} == {name == "warm"}


def test_compile_has_its_stages_configuration_and_python(compiled: tuple[Path, list[Done]]) -> None:
    folder, _ = compiled
    first, second, _ = (v for _, v in variants_of(call("list", folder / "cold", "--json").json))
    assert first["stages"] == ["source", "ttir", "ttgir", "llir", "ptx", "sass"]
    assert first["missing"] == {}
    assert (first["config"]["BLOCK"], second["config"]["BLOCK"]) == (1024, 2048)
    assert (first["config"]["num_warps"], second["config"]["num_warps"]) == (4, 8)
    assert first["config"]["SCALE"] == 2.0
    assert first["signature"] == {
        "out": "*fp32",
        "x": "*fp32",
        "n": "i32",
        "BLOCK": "constexpr",
        "SCALE": "constexpr",
    }
    assert first["specialization"] == {"out": [["tt.divisibility", 16]]}
    assert first["resources"]["max_threads"] == 128
    shown = call("show", folder / "cold", first["id"], "--stage", "source", "--json").json
    assert "\n".join(line["text"] for line in shown["lines"]) == COMPILES
    (function,) = shown["functions"]
    lines = COMPILES.split("\n")
    assert lines[function["first"] - 1] == "@triton.jit"
    assert "tl.store" in lines[function["last"] - 1]


def test_texts_are_the_caches_files(compiled: tuple[Path, list[Done]]) -> None:
    folder, _ = compiled
    variants = list(variants_of(call("list", folder / "warm", "--json").json))
    assert len(variants) == 3
    for _, variant in variants:
        for stage in ("ttir", "ttgir", "llir", "ptx"):
            file = folder / "triton" / variant["cache_key"] / f"double.{stage}"
            done = call("show", folder / "warm", variant["id"], "--stage", stage)
            assert done.out == file.read_bytes()


def test_source_lines_reach_the_ptx(compiled: tuple[Path, list[Done]]) -> None:
    folder, runs = compiled
    shown = call("show", folder / "cold", hashes(runs[0])[0], "--stage", "source", "--json").json
    ptx = call("show", folder / "cold", hashes(runs[0])[0], "--json").json["lines"]
    (line,) = [x for x in shown["lines"] if "tl.load" in x["text"]]
    bases = {ptx[n - 1]["base"] for n in line["links"]["ptx"]}
    assert "ld" in bases and "st" not in bases


def test_spills_are_those_that_the_same_assembler_prints(
    compiled: tuple[Path, list[Done]], tmp_path: Path
) -> None:
    folder, _ = compiled
    variants = list(variants_of(call("list", folder / "cold", "--json").json))
    assert len(variants) == 3
    for n, (_, variant) in enumerate(variants):
        here = folder / "triton" / variant["cache_key"]
        wanted = printed(tool("nvdisasm"), "-c", here / "double.cubin")
        said = assembled(here / "double.ptx", wanted, tmp_path / "x.cubin")
        if said is None:
            pytest.skip("no ptxas here writes this cubin")
        resources = variant["resources"]
        assert (resources["spill_store_bytes"], resources["spill_load_bytes"]) == said
        assert (n == 2) == (said > (0, 0)), "the third has 32 registers for 256 values"


def assembled(ptx: Path, wanted: bytes, out: Path) -> tuple[int, int] | None:
    """Spilled bytes as ptxas prints them when it writes code that disassembles to this."""
    for found in installed_copies("ptxas"):
        for more in ([], ["--regAllocOptLevel=2"]):
            options = ("-v", "-lineinfo", *more, "--gpu-name=sm_90a")
            done = finished([found.path, *options, ptx, "-o", out])
            if done.status == 0 and printed(tool("nvdisasm"), "-c", out) == wanted:
                pattern = r"(\d+) bytes spill stores, (\d+) bytes spill loads"
                ((stored, loaded),) = re.findall(pattern, done.said)
                return int(stored), int(loaded)
    return None


def test_what_was_captured_before_a_kill_is_kept(
    tmp_path: Path, warm_python: Callable[..., Path]
) -> None:
    done = run_triton(warm_python(), tmp_path, "x.ptxview", "crash")
    assert done.status == 128 + 9
    value = call("list", tmp_path / "x.ptxview", "--json").json
    assert [v["hash"] for _, v in variants_of(value)] == list(dict.fromkeys(hashes(done)))
    assert value["recording"]["exit_status"] == 137


INDUCTOR = """
import torch
x = torch.full((64, 1000), 3.0, device="cuda")
f = torch.compile(lambda x: (x ** 2 + 1).sum(dim=-1).tanh())
f(x)
print("done")
"""


def test_inductor_is_captured_cold_and_warm_alike(
    tmp_path: Path, warm_python: Callable[..., Path]
) -> None:
    """On the emulated device: without caches, and with all that the first run left.

    TRITON_CACHE_DIR is not set: then Inductor has its own Triton cache.
    """
    folder = tmp_path
    path = saved(folder / "program.py", INDUCTOR)
    env = environment(
        TRITON_CACHE_DIR=None,
        TORCHINDUCTOR_CACHE_DIR=str(folder / "inductor"),
        HOME=str(folder),
        **NO_POOL,
    )
    python = warm_python(*INDUCTOR_IMPORTED)
    found: list[Any] = []
    for name in ("cold", "warm"):
        done = ptxview("run", "-o", folder / name, "--python", python, path, env=env)
        assert (done.status, done.out) == (0, b"done\n"), done.said
        found.append(call("list", folder / name, "--json").json)
    seen = []
    for value in found:
        variants = variants_of(value)
        assert variants
        for kernel, variant in variants:
            assert kernel["origin"] == "inductor"
            assert variant["stages"][-6:] == ["output_code", "ttir", "ttgir", "llir", "ptx", "sass"]
        seen.append(
            (
                sorted((k["name"], v["hash"], v["cache_key"]) for k, v in variants),
                value["graphs"],
                value["recording"]["problems"],
            )
        )
    # Out of its cache Inductor has the code alone: it makes no IR then.
    assert not any("ir_pre_fusion" in graph["stages_above"] for graph in seen[1][1])
    for graph in seen[0][1]:
        graph["stages_above"] = [s for s in graph["stages_above"] if not s.startswith("ir_")]
    assert seen[0] == seen[1]
    assert seen[0][2] == []
    for name, value in zip(("cold", "warm"), found, strict=False):
        (graph,) = value["graphs"]
        assert graph["id"] == "0/0"
        assert set(graph["kernels"]) == {k["id"] for k, _ in variants_of(value)}
        text = call("show", folder / name, "0/0", "--stage", "output_code").text
        written = [p.read_text() for p in (folder / "inductor").glob("*/*.py")]
        assert text in written
        for kernel in graph["kernels"]:
            assert f"async_compile.triton('{kernel}'" in text


# There is nothing to compile for a pool of processes, which would all import torch.
NO_POOL = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
# A time, a process, an address: what differs between two runs of anything.


OBJECT = """\
from enum import Enum
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget


class Mode(Enum):
    FAST = "fast"


@triton.jit
def chosen(out, mode: tl.constexpr):
    tl.store(out, 1.0 if mode.value == "fast" else 2.0)


types = {"out": "*fp32", "mode": "constexpr"}
source = triton.compiler.ASTSource(chosen, types, constexprs={"mode": Mode.FAST})
triton.compile(source, target=GPUTarget("cuda", 90, 32))
"""


def test_a_constant_that_no_recording_holds_is_a_reason(
    tmp_path: Path, plain_python: Callable[..., str], warm_python: Callable[..., Path]
) -> None:
    path = tmp_path / "x.ptxview"
    script = saved(tmp_path / "script.py", OBJECT)
    done = ptxview("run", "--no-tui", "-o", path, "--python", warm_python(), script)
    assert done.status == 0, done.said
    words = ("--python", plain_python(), "--trust", "-o", tmp_path / "y.ptxview")
    done = call("upgrade", path, *words)
    assert done.status == 2
    assert "its argument mode is a Mode, whose value was not recorded" in done.said
