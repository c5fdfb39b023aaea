"""Files compiled for several targets, compared with the vendors' tools."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.nightly import nightly
from tests.helpers.ptxview import (
    REPOSITORY,
    Done,
    call,
    command,
    environment,
    finished,
    printed,
    ptxview,
    saved,
    tool,
)
from tests.helpers.samples import DATA
from tests.probes.conftest import caches, parents, warm_python

__all__ = ["caches", "parents", "warm_python"]  # fixtures

PTX = """\
.version 8.0
.target sm_75
.address_size 64

// squares what it is given
.visible .entry square(
    .param .u64 square_param_0
)
{
    .reg .f32 %f<3>;
    .reg .b32 %r<2>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [square_param_0];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.f32 %f1, [%rd3];
    mul.f32 %f2, %f1, %f1;
    st.global.f32 [%rd3], %f2;
    ret;
}
"""
CUDA = """\
__global__ void square(float* x, int n) {
    int unused;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * x[i];
}
__global__ void __launch_bounds__(128) reversed(float* x) {
    __shared__ float all[128];
    all[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = all[127 - threadIdx.x];
}
"""
TRITON = """\
import torch
import triton
import triton.language as tl


@triton.jit
def twice(v):
    return v + v


@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, twice(tl.load(x + at, mask=at < n)), mask=at < n)


@triton.autotune([triton.Config({"BLOCK": 64}, num_warps=2),
                  triton.Config({"BLOCK": 256}, num_warps=8)], key=["n"])
@triton.jit
def tuned(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 1.0, mask=at < n)


if __name__ == "__main__":
    x = torch.ones(100, device="cuda")
    double[(1,)](x, 100, BLOCK=128)
    double[(1,)](x.half(), 100, BLOCK=128)
    tuned[(1,)](x, 96)
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to compile in, the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "square.ptx").write_text(PTX)
    (tmp_path / "square.cu").write_text(CUDA)
    (tmp_path / "kernels.py").write_text(TRITON)
    return tmp_path


@pytest.fixture
def python(warm_python: Callable[..., Path]) -> list[str]:
    """``--python`` with an interpreter that has Triton: what its start is like is not asked."""
    return ["--python", str(warm_python())]


def compiled(*words: str | Path, status: int = 0) -> Any:
    """The JSON of a compilation into ``x.ptxview``."""
    done = call("compile", "-o", "x.ptxview", "--json", *words)
    assert done.status == status, done.said
    return json.loads(done.out)


def cells(value: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Each cell with its row and column."""
    for row in value["rows"]:
        yield from ((row, c, cell) for c, cell in zip(value["columns"], row["cells"], strict=True))


def machine_code(folder: Path, digest: str) -> Path:
    """The cubin of a variant, by the name of its content."""
    subprocess.run([sys.executable, "-m", "zipfile", "-e", "x.ptxview", "all"], check=True)
    return saved(folder / "variant.cubin", (folder / "all" / "blobs" / digest).read_bytes())


def of_ptxas(log: str) -> dict[str, tuple[int, int, int]]:
    """Registers, bytes stored and loaded by spills, by function, as ``ptxas -v`` says them."""
    out: dict[str, tuple[int, int, int]] = {}
    for part in log.split("Function properties for ")[1:]:
        name = part.split()[0]
        spill = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", part)
        used = re.search(r"Used (\d+) registers", part)
        assert spill and used
        out[name] = (int(used[1]), int(spill[1]), int(spill[2]))
    return out


def ptxas_says(file: Path, target: str, *options: str) -> dict[str, tuple[int, int, int]]:
    """What the assembler that is found says of a file of PTX."""
    words = ("-v", "-lineinfo", *options, f"-arch={target}", file, "-o", "/dev/null")
    done = finished([tool("ptxas"), *map(str, words)])
    assert done.status == 0, done.said
    return of_ptxas(done.said)


# PTX


def test_a_file_of_ptx_has_the_figures_of_ptxas_for_every_target(work: Path) -> None:
    value = compiled("square.ptx", "--target", "sm_80,sm_90a", "--target", "sm_120")
    assert [c["target"] for c in value["columns"]] == ["sm_80", "sm_90a", "sm_120"]
    for row, column, cell in cells(value):
        (registers, stored, loaded) = ptxas_says(work / "square.ptx", column["target"])["square"]
        assert row["kernel"] == "square" and cell["compiled"]
        taken = cell["resources"]
        assert (taken["registers"], taken["spill_store_bytes"], taken["spill_load_bytes"]) == (
            registers,
            stored,
            loaded,
        )
        assert cell["seconds"] > 0
        elf = machine_code(work, cell["hash"])
        listed = printed(tool("cuobjdump"), "-lelf", elf).decode()
        assert f".{column['target']}.cubin" in listed
        text = call("show", "x.ptxview", cell["select"], "--stage", "sass").out
        assert text == printed(tool("nvdisasm"), "-c", elf)


def test_options_are_the_compilers_own_and_columns(work: Path) -> None:
    hungry = DATA / "matmul_sm90.ptx"
    value = compiled(hungry, "--options=-O3", "--options=-O1 --fmad=false")
    assert [c["options"] for c in value["columns"]] == ["-O3", "-O1 --fmad=false"]
    assert {c["target"] for c in value["columns"]} == {"sm_90a"}  # which the file names
    (row,) = value["rows"]
    for cell, options in zip(row["cells"], (["-O3"], ["-O1", "--fmad=false"]), strict=True):
        taken = cell["resources"]
        assert (taken["registers"], taken["spill_store_bytes"], taken["spill_load_bytes"]) == (
            ptxas_says(hungry, "sm_90a", *options)[row["kernel"]]
        )
    assert row["cells"][0]["instructions"] != row["cells"][1]["instructions"]
    listed = call("list", "x.ptxview").text
    assert "options=-O1 --fmad=false" in listed


def test_an_error_of_ptxas_is_at_its_line(work: Path) -> None:
    (work / "bad.ptx").write_text(PTX.replace("mul.f32 %f2", "mulx.f32 %f2"))
    value = compiled("bad.ptx", "square.ptx", "--target", "sm_80,sm_90", status=1)
    line = 1 + PTX[: PTX.index("    mul.f32")].count("\n")
    (message,) = {json.dumps(m) for c in value["compilations"] for m in c["messages"]}
    said = json.loads(message)
    assert (said["severity"], said["tool"], said["file"], said["line"]) == (
        "error",
        "ptxas",
        "bad.ptx",
        line,
    )
    assert said["text"].strip() == "mulx.f32 %f2, %f1, %f1;"
    by_file = {row["file"]: row["cells"] for row in value["rows"]}
    assert all(cell["compiled"] for cell in by_file["square.ptx"])
    assert not any(cell["compiled"] for cell in by_file["bad.ptx"])
    assert "mulx" in by_file["bad.ptx"][0]["failed"]
    failed = next(c["hash"] for c in value["compilations"] if c["failed"])
    told = call("show", "x.ptxview", failed[:12], "-a")
    rows = told.text.splitlines()
    at = next(n for n, row in enumerate(rows) if "mulx.f32" in row)
    assert "ptxas-error: Not a name of any known instruction: 'mulx'" in rows[at + 1]


def test_two_columns_are_compared(work: Path) -> None:
    words = ("compile", "square.ptx", "--target", "sm_80,sm_90", "-o", "x.ptxview", "--diff")
    by_name = call(*words, "sm_80", "sm_90")
    assert by_name.status == 0, by_name.said
    assert "target sm_80 → sm_90" in by_name.text
    by_number = call(*words, "1", "2")
    assert by_number.out == by_name.out
    wrong = call(*words, "1", "sm_70")
    assert wrong.status == 2 and "1 sm_80; 2 sm_90" in wrong.said


# CUDA C++


@pytest.mark.nvcc
def test_cuda_goes_through_nvcc_and_ends_as_its_figures(work: Path) -> None:
    nvcc = tool("nvcc")
    value = compiled("square.cu", "--target", "sm_80,sm_90a")
    assert {row["kernel"] for row in value["rows"]} == {"square(float*, int)", "reversed(float*)"}
    figures = {}
    for target in ("sm_80", "sm_90a"):
        arch = target.removeprefix("sm_")
        words = f"-gencode=arch=compute_{arch},code=sm_{arch} -cubin -lineinfo -Xptxas -v square.cu"
        own = [nvcc, *words.split(), "-o", "own.cubin"]
        done = subprocess.run(own, capture_output=True, text=True, check=True)
        figures[target] = of_ptxas(done.stderr)
    for row, column, cell in cells(value):
        by_symbol = figures[column["target"]]
        (symbol,) = (s for s in by_symbol if row["kernel"].split("(")[0] in s)
        taken = cell["resources"]
        assert (taken["registers"], taken["spill_store_bytes"], taken["spill_load_bytes"]) == (
            by_symbol[symbol]
        )
        listed = printed(tool("cuobjdump"), "-lelf", machine_code(work, cell["hash"])).decode()
        assert f".{column['target']}.cubin" in listed
        shown = call("show", "x.ptxview", cell["select"], "--stage", "sass").out
        assert shown == printed(tool("nvdisasm"), "-c", machine_code(work, cell["hash"]))
    warning = value["compilations"][0]["messages"][0]
    assert (warning["severity"], warning["line"], warning["column"]) == ("warning", 2, 9)
    assert warning["text"] == "    int unused;"
    known = next(r for r in value["rows"] if r["kernel"].startswith("reversed"))
    unknown = next(r for r in value["rows"] if r["kernel"].startswith("square"))
    # A bound is not a size, and nobody has said how much shared memory a launch asks for.
    assert known["cells"][0]["occupancy_percent"] is None
    assert unknown["cells"][0]["occupancy_percent"] is None
    value = compiled("square.cu", "--target", "sm_80", "--threads", "1024")
    # 2,048 threads are what an SM of sm_80 holds: two such blocks, by threads alone.
    assert [cell["occupancy_percent"] for _, _, cell in cells(value)] == [100, 100]


# Triton


def test_a_program_is_compiled_as_its_own_calls_say(work: Path) -> None:
    value = compiled("kernels.py", "--target", "sm_80,sm_90")
    rows = [
        (r["kernel"], r["config"]["BLOCK"], r["config"]["num_warps"], r["signature"])
        for r in value["rows"]
    ]
    assert rows == [
        ("double", 128, 4, "x: *fp32:16, n: i32"),
        ("double", 128, 4, "x: *fp16:16, n: i32"),
        ("tuned", 64, 2, "x: *fp32:16, n: i32:16"),
        ("tuned", 256, 8, "x: *fp32:16, n: i32:16"),
    ]
    for row, column, cell in cells(value):
        # Triton compiles for 90 with what is sm_90's alone.
        target = {"sm_80": "sm_80", "sm_90": "sm_90a"}[column["target"]]
        assert cell["compiled"] and cell["target"] == target, row
        assert cell["resources"]["registers"] is not None
        assert cell["occupancy_percent"] is not None
    listed = call("list", "x.ptxview", "--json").json
    for kernel in listed["kernels"]:
        for variant in kernel["variants"]:
            assert variant["stages"] == ["source", "ttir", "ttgir", "llir", "ptx", "sass"]
            assert variant["config"]["target"] in ("sm_80", "sm_90")
    ptx = work / "own.ptx"
    first = value["rows"][0]["cells"][1]
    ptx.write_bytes(call("show", "x.ptxview", first["select"], "--stage", "ptx").out)
    assert first["resources"]["registers"] == ptxas_says(ptx, "sm_90a")["double"][0]


# IR


@pytest.mark.parametrize("language", ["ttir", nightly("llir")])
def test_a_stage_of_triton_goes_through_those_that_follow(
    work: Path, python: list[str], language: str
) -> None:
    file = DATA / f"gelu_sm90.{language}"
    value = compiled(file, "--target", "sm_90", *python)
    (row,) = value["rows"]
    (cell,) = row["cells"]
    assert cell["target"] == "sm_90a", value
    order = ["ttir", "ttgir", "llir", "ptx", "sass"]
    (kernel,) = call("list", "x.ptxview", "--json").json["kernels"]
    assert kernel["variants"][0]["stages"] == order[order.index(language) :]
    # The user's own text, comments and all, not the compiler's print of it.
    assert call("show", "x.ptxview", cell["select"], "--stage", language).out == file.read_bytes()
    ptx = saved(work / "own.ptx", call("show", "x.ptxview", cell["select"], "--stage", "ptx").out)
    assert cell["resources"]["registers"] == ptxas_says(ptx, "sm_90a")[row["kernel"]][0]


# What cannot be compiled


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("nothing.cu",), 4, "nothing.cu does not exist"),
        (("empty.ptx",), 4, "empty.ptx is empty"),
        (("binary.ptx",), 4, "binary.ptx is binary"),
        (("text.txt",), 2, "--language"),
        (("square.ptx", "--target", "hopper"), 2, "hopper is not a target"),
        (("square.ptx", "--", "-o", "y"), 2, "-o cannot be given"),
        (("square.ptx", "--options", "'"), 2, "cannot be split"),
        (("square.ptx", "-o", "folder.ptx"), 2, "exists already"),
        (("square.ptx", "--signature", "x: i32"), 2, "are of a .py"),
        (("square.ptx", "--limit", "0"), 2, "not a number of seconds"),
        (("square.ptx", "--watch", "-o", "place"), 2, "Give -o x.ptxview"),
        (("-", "--watch", "--language", "ptx"), 2, "standard input is read once"),
    ],
)
def test_bad_input_is_one_sentence(
    work: Path, words: tuple[str, ...], status: int, said: str
) -> None:
    (work / "folder.ptx").mkdir()
    (work / "folder.ptx" / "x").touch()
    (work / "empty.ptx").touch()
    (work / "binary.ptx").write_bytes(b"\x7fELF\0\0\0\0\1\2\3\4" * 10)
    (work / "text.txt").write_text("hello")
    done = call("compile", *words)
    assert (done.status, said in done.said) == (status, True), done.said
    assert "Traceback" not in done.said


def test_who_ends_us_ends_the_program_and_no_half_recording_is_left(work: Path) -> None:
    """The signal goes to ptxview alone, as by `kill`."""
    (work / "slow.py").write_text(
        "import os, time\nopen('part', 'w').write(str(os.getpid()))\nos.rename('part', 'begun')\n"
        "time.sleep(600)\n"
    )
    state = work / "state"
    child = subprocess.Popen(
        command(["compile", "slow.py", "--no-tui"]),
        cwd=work,
        env=environment(XDG_STATE_HOME=str(state)),
        stderr=subprocess.PIPE,
    )
    wait_for((work / "begun").exists)
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130 and b"Traceback" not in said
    assert not list((state / "ptxview" / "recordings").iterdir())
    wait_for(lambda: not Path(f"/proc/{(work / 'begun').read_text()}").exists())


# On every save


def wait_for(happens: Any, seconds: float = 120) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


def test_a_save_compiles_again_and_shows_what_changed(work: Path) -> None:
    out = work / "out"
    with out.open("wb") as file:
        child = subprocess.Popen(
            command(["compile", "square.ptx", "--target", "sm_90", "--watch", "-o", "w.ptxview"]),
            cwd=work,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment(XDG_STATE_HOME=str(work / "state"), PYTHONPATH=str(REPOSITORY)),
        )

    def says(text: str) -> None:
        wait_for(lambda: text in out.read_text())

    try:
        says("waiting for a change")
        first = call("list", "w.ptxview", "--json").json["kernels"][0]["variants"]
        edited = PTX.replace("    st.global", "    fma.rn.f32 %f2, %f2, %f2, %f1;\n    st.global")
        (work / "new").write_text(edited)
        (work / "new").replace(work / "square.ptx")  # as editors do
        says("+     fma.rn.f32")
        text = out.read_text()
        assert re.search(r"square sm_90: .*instructions \d+ → \d+", text)
        says("sass of square sm_90: before │ after")
        says("FFMA")
        second = call("list", "w.ptxview", "--json").json["kernels"][0]["variants"]
        assert [len(first), len(second)] == [1, 1] and first[0]["hash"] != second[0]["hash"]
        (work / "square.ptx").write_text(edited.replace("fma.rn.f32", "fma.no.f32"))
        says("1 of 1 compilation failed")
        says("square.ptx:19: error")
        (work / "square.ptx").write_text(PTX)
        # Against what compiled last, not against what failed.
        wait_for(
            lambda: re.search(
                r"instructions \d+ → \d+(?s:.*)instructions \d+ → \d+", out.read_text()
            )
        )
    finally:
        os.killpg(child.pid, signal.SIGINT)
        child.wait(60)
    assert child.returncode == 130
    assert not list((work / "state" / "ptxview" / "recordings").iterdir())
    assert call("list", "w.ptxview", "--json").json["kernels"][0]["variants"] == first


# show


def done_of(*words: str | Path, given: str = "") -> Done:
    """``ptxview show`` as a program, with a standard input."""
    return ptxview("show", *words, given=given.encode())


def test_show_assembles_a_file_of_ptx(work: Path) -> None:
    told = call("show", "square.ptx", "-a")
    registers = ptxas_says(work / "square.ptx", "sm_75")["square"][0]
    assert told.status == 0 and f"registers       {registers} a thread, spills 0" in told.text
    text = call("show", "square.ptx", "--stage", "sass")
    subprocess.run(
        [tool("ptxas"), "-lineinfo", "-arch=sm_75", "square.ptx", "-o", "own.cubin"], check=True
    )
    assert text.out == printed(tool("nvdisasm"), "-c", work / "own.cubin")
    other = call("show", "square.ptx", "--stage", "sass", "--device", "sm_90").text
    assert "sm_90" in other.splitlines()[0]
    plain = call("show", "square.ptx")
    assert plain.text == PTX and "assembled for sm_75" in plain.said


@pytest.mark.parametrize("language", ["ptx", "ttgir", "sass"])
def test_standard_input_is_recognised(work: Path, language: str) -> None:
    if language == "sass":
        text = printed(tool("nvdisasm"), "-c", DATA / "gelu_sm90.cubin").decode()
    else:
        text = (DATA / f"gelu_sm90.{language}").read_text()
    done = done_of("-", "--json", given=text)
    assert done.status == 0, done.said
    value = json.loads(done.out)
    assert value["stage"] == language
    assert "\n".join(line["text"] for line in value["lines"]) == text
