"""`ptxview try`, compared with the compilers themselves."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from inspector.base.model import Stage
from inspector.sources.compilers import assemblers
from inspector.sources.opening import open_path
from inspector.sources.trying import AS_RECORDED, TryOutcome, TryRequest, TrySetting, try_stage
from tests.helpers.nightly import nightly
from tests.helpers.ptxview import Done, call, command, environment, ptxview, saved
from tests.helpers.schemas import hold
from tests.helpers.shared import once

MATMUL = "ff3a7da2"
PROGRAM = """\
import torch
import triton
import triton.language as tl


@triton.jit
def twice(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2.0, mask=at < n)


@triton.jit
def product(a, b, c, N, K, M: tl.constexpr, BK: tl.constexpr):
    om, on, ok = tl.arange(0, M), tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, BK)
    total = tl.zeros((M, M), dtype=tl.float32)
    for k in range(0, K, BK):
        left = tl.load(a + om[:, None] * K + (k + ok)[None, :])
        right = tl.load(b + (k + ok)[:, None] * N + on[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + om[:, None] * N + on[None, :], total)


x = torch.ones(1000, device="cuda")
twice[(8,)](torch.empty_like(x), x, 1000, BLOCK=128)
a, b = (torch.ones(64, 64, device="cuda", dtype=torch.float16) for _ in range(2))
product[(2,)](a, b, torch.empty(64, 64, device="cuda"), 64, 64, M=32, BK=32)
"""
BARE = """
import sys, triton
from triton.backends.compiler import GPUTarget
kernel = triton.compile(sys.argv[1], target=GPUTarget("cuda", 90, 32),
                        options=eval(sys.argv[2]))
open(sys.argv[3], "w").write(kernel.asm["ptx"])
open(sys.argv[3] + ".cubin", "wb").write(kernel.asm["cubin"])
"""
STAGES = ("ttir", "ttgir", "llir", "ptx")
pytestmark = pytest.mark.usefixtures("triton_at_once")


@pytest.fixture(scope="session")
def recorded(common: Path) -> Path:
    """A recording of the program above, compiled for sm_90."""

    def make(path: Path) -> None:
        saved(path / "program.py", PROGRAM)
        words = ("run", "--target", "sm_90", "--no-tui", "-o", path / "x.ptxview")
        done = ptxview(*words, path / "program.py", cwd=path)
        assert done.status == 0, done.said

    return once(common / "tried", make) / "x.ptxview"


def text_of(recorded: Path, kernel: str, stage: str) -> str:
    """The recorded text of a stage."""
    return call("show", recorded, kernel, "--stage", stage).text


def tried(recorded: Path, *words: str | Path, status: int = 0) -> Any:
    """The JSON of a trial, which is as its schema says."""
    before = hashlib.sha256(recorded.read_bytes()).digest()
    done = call("try", recorded, *words, "--json")
    assert done.status == status, done.said
    assert hashlib.sha256(recorded.read_bytes()).digest() == before
    value = json.loads(done.out)
    hold("try", value)
    return value


def edited(
    recorded: Path, kernel: str, stage: str, old: str, new: str, file: Path
) -> tuple[Path, str]:
    """A file with a recorded stage in which something was replaced, and its text."""
    text = text_of(recorded, kernel, stage)
    assert old in text
    text = text.replace(old, new)
    file.write_text(text, "utf-8")
    return file, text


def outcome(
    recorded: Path, kernel: str, stage: Stage, text: str | None, *settings: TrySetting
) -> TryOutcome:
    """The result of a stage, as values."""
    recording = open_path(recorded)
    own = next(k for k in recording.kernels if k.name == kernel)
    data = None if text is None else text.encode()
    request = TryRequest(
        recording, own, own.variants[0], stage, data, "file", settings or (AS_RECORDED,)
    )
    return try_stage(request, lambda _: None)


def bare(python: str, text: str, ending: str, options: str, folder: Path) -> bytes:
    """The PTX that Triton itself makes of a file of IR."""
    file, out = folder / f"kernel.{ending}", folder / "bare.ptx"
    file.write_text(text, "utf-8")
    env = {"TRITON_CACHE_DIR": str(folder / "cache"), "PATH": "/usr/bin:/bin"}
    subprocess.run([python, "-c", BARE, str(file), options, str(out)], check=True, env=env)
    return out.read_bytes()


@pytest.mark.parametrize("stage", ["ttir", nightly("ttgir"), "ptx"])
def test_an_unedited_stage_gives_the_recorded_code(
    recorded: Path, stage: str, tmp_path: Path
) -> None:
    file, _ = edited(recorded, "product", stage, "", "", tmp_path / f"same.{stage}")
    value = tried(recorded, "product", "--stage", stage, file)
    first, second = value["columns"]
    assert (first["of"], second["of"], second["label"]) == ("recorded", "tried", "edited")
    assert second["same_code"] and first["resources"] == second["resources"]
    assert value["compiler"]["same"] is True and value["compiler"]["stages"]["sass"] is True
    after = (*STAGES, "sass")[STAGES.index(stage) + 1 :]
    assert tuple(value["compiler"]["stages"]) == after
    made = outcome(recorded, "product", Stage(stage), None).recompiled.variant
    assert made is not None
    for name, same in value["compiler"]["stages"].items():
        if name != "sass":
            text = text_of(recorded, "product", name).encode()
            assert same == (made.stages[Stage(name)].content.read() == text)
    # Of TTIR all follows: only a text that names no place of an operation gets another one.
    assert stage == "ttgir" or set(value["compiler"]["stages"].values()) == {True}


def test_registers_and_spills_are_those_of_ptxas(recorded: Path, tmp_path: Path) -> None:
    plain = tried(recorded, "product", "--ptxas-options=-O3")["columns"][0]
    assert plain["resources"]["registers"] > 32
    file, _ = edited(
        recorded, "product", "ptx", ".reqntid 128", ".reqntid 128\n.maxnreg 32", tmp_path / "x.ptx"
    )
    value = tried(recorded, "product", "--stage", "ptx", file)
    column = value["columns"][1]
    version = column["tool"].removeprefix("ptxas ")
    tool = next(t.path for t in assemblers() if t.version == version)
    options = ("-v", "-lineinfo", "--regAllocOptLevel=2", "--gpu-name=sm_90a")
    own: list[str | Path] = [tool, *options, file, "-o", tmp_path / "x.cubin"]
    said = subprocess.run(own, capture_output=True, text=True, check=True).stderr
    spill = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said)
    used = re.search(r"Used (\d+) registers", said)
    assert spill and used and int(used[1]) <= 32
    taken = column["resources"]
    assert (taken["registers"], taken["spill_store_bytes"], taken["spill_load_bytes"]) == (
        int(used[1]),
        int(spill[1]),
        int(spill[2]),
    )


def test_options_recompile_from_ttir_as_triton_does(
    recorded: Path, tmp_path: Path, triton_at_once: str
) -> None:
    settings = [TrySetting(None, {"num_warps": w, "num_stages": s}) for w in (2, 8) for s in (1, 4)]
    made = outcome(recorded, "product", Stage.TTIR, None, *settings)
    ttir = text_of(recorded, "product", "ttir")
    for setting, column in zip(settings, made.columns, strict=True):
        folder = tmp_path / setting.label.replace(" ", "-")
        folder.mkdir()
        options = repr(dict(setting.triton) | {"enable_fp_fusion": True})
        assert column.variant is not None and column.label == setting.label
        own = column.variant.stages[Stage.PTX].content.read()
        assert own == bare(triton_at_once, ttir, "ttir", options, folder), setting.label
        assert column.variant.config["edit"] == "tried"
    assert len({c.variant.hash for c in made.columns if c.variant is not None}) == 4


def test_each_combination_of_options_is_a_column(recorded: Path) -> None:
    words = "--num-warps 4,8 --maxnreg 64 --maxnreg 128 --ptxas-options=-O1"
    value = tried(recorded, "product", *words.split())
    labels = [f"num_warps={w} maxnreg={n} -O1" for w in (4, 8) for n in (64, 128)]
    assert [c["label"] for c in value["columns"]] == ["recorded", *labels]
    for column in value["columns"][1:]:
        warps = column["config"]["num_warps"]
        assert column["resources"]["max_threads"] == 32 * warps
        assert column["resources"]["registers"] <= column["config"]["maxnreg"]
    assert not value["differences"]  # of several nothing is shown unless a stage is asked for


@pytest.mark.parametrize(
    ("stage", "old", "new", "says"),
    [
        ("ttir", "arith.mulf", "arith.mulx", "'arith.mulx' is unknown"),
        nightly("ttgir", "warpsPerCTA = [4]", "warpsPerCTA = [8]", "warps per CTA"),
        nightly("llir", "fmul", "fmulx", "expected instruction opcode"),
        ("ptx", "add.f32", "add.f33", "f33"),
    ],
)
def test_errors_have_the_lines_of_the_file(
    recorded: Path, stage: str, old: str, new: str, says: str, tmp_path: Path
) -> None:
    file, text = edited(recorded, "twice", stage, old, new, tmp_path / f"bad.{stage}")
    done = call("try", recorded, "twice", "--stage", stage, file)
    assert done.status == 1
    assert f"{file}:" in done.text and says in done.text
    column = tried(recorded, "twice", "--stage", stage, file, status=1)["columns"][1]
    assert not column["compiled"] and column["failed"]
    error = next(m for m in column["messages"] if m["severity"] == "error")
    assert error["file"] == str(file) and says in error["message"]
    assert error["text"].strip() == text.splitlines()[error["line"] - 1].strip()
    if stage != "ttgir":
        assert new in error["text"]


def test_invalid_requests_end_with_their_status(recorded: Path, tmp_path: Path) -> None:
    ptx, _ = edited(recorded, "twice", "ptx", "", "", tmp_path / "x.ptx")
    ttgir, _ = edited(recorded, "twice", "ttgir", "", "", tmp_path / "x.ttgir")
    without = saved(tmp_path / "python", f'#!/bin/sh\nexec {sys.executable} -S "$@"\n', mode=0o755)
    empty = saved(tmp_path / "empty.ptx", "\n")

    def refused(*words: str | Path) -> Done:
        return call("try", recorded, *words)

    for words, status, says in (
        (("twice",), 2, "there is nothing to try"),
        (("twice", "--num-warps", "3"), 2, "powers of two"),
        (("twice", "--target", "ampere"), 2, "ampere is not a target"),
        (("twice", "--stage", "ttgir", ttgir, "--maxnreg", "8"), 2, "ttg.maxnreg"),
        (("twice", "--stage", "sass", ptx), 2, "sass is not one of ttir"),
        (("twice", "--stage", "ptx", empty), 4, "is empty"),
        (("twice", "--ptxas-options=-o /tmp/x"), 2, "-o cannot be given"),
        (("twice", "--num-warps", "8", "--python", without), 3, "has no Triton"),
    ):
        done = refused(*words)
        assert (done.status, says in done.said) == (status, True), (words, done.said)
        assert "Traceback" not in done.said
    many = ",".join(str(n) for n in range(1, 33))
    done = refused("twice", "--num-stages", many, "--maxnreg", many)
    assert done.status == 2 and "1024 combinations" in done.said


def test_interrupt_leaves_no_compiler_process(recorded: Path, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    python = tmp_path / "python"
    saved(python, f"#!/bin/sh\necho $$ >> {begun}\nexec sleep 600\n", 0o755)
    words = command(["try", recorded, "twice", "--num-warps", "2,8", "--python", python])
    child = subprocess.Popen(words, env=environment(), stderr=subprocess.PIPE)
    while not begun.exists() or not begun.read_text().endswith("\n"):
        assert child.poll() is None
        time.sleep(0.05)
    child.send_signal(signal.SIGTERM)
    said = child.communicate(timeout=60)[1]
    assert child.returncode == 130 and b"Traceback" not in said
    for process in begun.read_text().split():
        assert not Path(f"/proc/{process}").exists()
