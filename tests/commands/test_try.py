"""What is tried of a recorded kernel, held against the compilers themselves and arithmetic."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inspector.capture import machine
from inspector.capture.compilers import assemblers
from inspector.capture.opening import open_path
from inspector.capture.trying import AS_RECORDED, TryOutcome, TryRequest, TrySetting, try_stage
from inspector.measure.time import child
from inspector.model import Stage
from inspector.system.process import Finished
from tests.helpers.ptxview import REPOSITORY, Done, call, command, environment, ptxview
from tests.helpers.schemas import hold
from tests.helpers.shared import once

LECTURE = REPOSITORY / "examples" / "recordings" / "lecture-h200.ptxview"
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
        path.mkdir()
        (path / "program.py").write_text(PROGRAM)
        words = (
            "run",
            "--target",
            "sm_90",
            "--no-tui",
            "-o",
            path / "x.ptxview",
        )
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


def outcome(recorded: Path, kernel: str, stage: Stage, text: str | None, *settings: TrySetting
            ) -> TryOutcome:  # fmt: skip
    """What is made of a stage, as values."""
    recording = open_path(recorded)
    own = next(k for k in recording.kernels if k.name == kernel)
    data = None if text is None else text.encode()
    request = TryRequest(recording, own, own.variants[0], stage, data, "file", settings or
                         (AS_RECORDED,))  # fmt: skip
    return try_stage(request, lambda _: None)


def bare(python: str, text: str, ending: str, options: str, folder: Path) -> bytes:
    """The PTX that Triton itself makes of a file of IR."""
    file, out = folder / f"kernel.{ending}", folder / "bare.ptx"
    file.write_text(text, "utf-8")
    env = {"TRITON_CACHE_DIR": str(folder / "cache"), "PATH": "/usr/bin:/bin"}
    subprocess.run([python, "-c", BARE, str(file), options, str(out)], check=True, env=env)
    return out.read_bytes()


# -- against the compilers ------------------------------------------------------------------------


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_that_was_not_edited_gives_what_was_recorded(
    recorded: Path, stage: str, tmp_path: Path
) -> None:
    file, _ = edited(recorded, "product", stage, "", "", tmp_path / f"same.{stage}")
    value = tried(recorded, "product", "--stage", stage, file, "--no-run")
    first, second = value["columns"]
    assert (first["of"], second["of"], second["label"]) == ("recorded", "tried", "edited")
    assert second["same_code"] and first["resources"] == second["resources"]
    assert value["compiler"]["same"] is True and value["compiler"]["stages"]["sass"] is True
    after = (*STAGES, "sass")[STAGES.index(stage) + 1 :]
    assert tuple(value["compiler"]["stages"]) == after
    made = outcome(recorded, "product", Stage(stage), None).again.variant
    assert made is not None
    for name, same in value["compiler"]["stages"].items():
        if name != "sass":
            text = text_of(recorded, "product", name).encode()
            assert same == (made.stages[Stage(name)].content.read() == text)
    # Of TTIR all follows: only a text that names no place of an operation gets another one.
    assert stage == "ttgir" or set(value["compiler"]["stages"].values()) == {True}


def test_registers_and_spills_are_what_ptxas_says_of_the_edited_file(
    recorded: Path, tmp_path: Path
) -> None:
    plain = tried(recorded, "product", "--ptxas-options=-O3", "--no-run")["columns"][0]
    assert plain["resources"]["registers"] > 32
    file, _ = edited(
        recorded, "product", "ptx", ".reqntid 128", ".reqntid 128\n.maxnreg 32", tmp_path / "x.ptx"
    )
    value = tried(recorded, "product", "--stage", "ptx", file, "--no-run")
    column = value["columns"][1]
    version = column["tool"].removeprefix("ptxas ")
    tool = next(t.path for t in assemblers() if t.version == version)
    said = subprocess.run(
        [tool, "-v", "-lineinfo", "--regAllocOptLevel=2", "--gpu-name=sm_90a", file, "-o",
         tmp_path / "x.cubin"], capture_output=True, text=True, check=True,
    ).stderr  # fmt: skip
    spill = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said)
    used = re.search(r"Used (\d+) registers", said)
    assert spill and used and int(used[1]) <= 32
    taken = column["resources"]
    assert (taken["registers"], taken["spill_store_bytes"], taken["spill_load_bytes"]) == (
        int(used[1]), int(spill[1]), int(spill[2]),
    )  # fmt: skip


def test_an_edited_ttgir_is_what_triton_makes_of_the_file(
    recorded: Path, tmp_path: Path, triton_at_once: str
) -> None:
    text = text_of(recorded, "twice", "ttgir")
    layout = "#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32]"
    assert layout in text and '"ttg.num-warps" = 4' in text
    wide = text.replace("warpsPerCTA = [4]", "warpsPerCTA = [2]")
    wide = wide.replace('"ttg.num-warps" = 4', '"ttg.num-warps" = 2')
    (column,) = outcome(recorded, "twice", Stage.TTGIR, wide).columns
    assert column.variant is not None
    own = column.variant.stages[Stage.PTX].content.read()
    assert own == bare(triton_at_once, wide, "ttgir", "dict(enable_fp_fusion=True)", tmp_path)
    assert b".reqntid 64" in own and own != text_of(recorded, "twice", "ptx").encode()
    assert column.metadata["num_warps"] == 2
    assert Stage.TTIR not in column.variant.stages  # it was not made of the recorded one
    value = tried_file(recorded, "twice", "ttgir", wide, tmp_path)
    assert value["columns"][1]["launch"]["block"] == [64, 1, 1]
    assert value["columns"][1]["results"]["identical"] is True


def tried_file(recorded: Path, kernel: str, stage: str, text: str, folder: Path) -> Any:
    """The JSON of a trial of a text."""
    file = folder / f"edited.{stage}"
    file.write_text(text, "utf-8")
    return tried(recorded, kernel, "--stage", stage, file)


def test_options_begin_again_from_the_ttir_as_triton_does(
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


def test_a_table_has_each_combination_and_each_is_launched_as_it_was_compiled(
    recorded: Path,
) -> None:
    value = tried(recorded, "product", "--num-warps", "4,8", "--maxnreg", "64", "--maxnreg", "128",
                  "--ptxas-options=-O1")  # fmt: skip
    labels = [f"num_warps={w} maxnreg={n} -O1" for w in (4, 8) for n in (64, 128)]
    assert [c["label"] for c in value["columns"]] == ["recorded", *labels]
    for column in value["columns"][1:]:
        warps = column["config"]["num_warps"]
        assert column["launch"]["block"] == [32 * warps, 1, 1]
        assert column["resources"]["max_threads"] == 32 * warps
        assert column["resources"]["registers"] <= column["config"]["maxnreg"]
        assert column["results"]["where"] == "cpu" and column["results"]["identical"] is True
        assert column["results"]["blocks"] == {"run": 2, "of": 2}
    assert not value["differences"]  # of several nothing is shown unless a stage is asked for


def test_another_target_is_compiled_from_the_ttir(recorded: Path) -> None:
    value = tried(recorded, "twice", "--target", "sm_80,sm_100", "--no-run", "--diff", "ptx")
    assert [c["target"] for c in value["columns"]] == ["sm_90a", "sm_80", "sm_100a"]
    assert [d["column"] for d in value["differences"]] == ["sm_80", "sm_100"]
    for difference, column in zip(value["differences"], value["columns"][1:], strict=True):
        assert difference["stage"] == "ptx"
        figures = {f["name"]: f["b"] for f in difference["resources"]}
        assert figures["registers"] == column["resources"]["registers"]


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "old", "new", "says"),
    [
        ("ttir", "arith.mulf", "arith.mulx", "'arith.mulx' is unknown"),
        ("ttgir", "warpsPerCTA = [4]", "warpsPerCTA = [8]", "warps per CTA"),
        ("llir", "fmul", "fmulx", "expected instruction opcode"),
        ("ptx", "add.f32", "add.f33", "f33"),
    ],
)
def test_errors_stand_at_the_lines_of_the_file(
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


def test_what_cannot_be_meant_is_said(recorded: Path, tmp_path: Path) -> None:
    ptx, _ = edited(recorded, "twice", "ptx", "", "", tmp_path / "x.ptx")
    ttgir, _ = edited(recorded, "twice", "ttgir", "", "", tmp_path / "x.ttgir")
    without = tmp_path / "python"
    without.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    without.chmod(0o755)
    empty = tmp_path / "empty.ptx"
    empty.write_text("\n")

    def refused(*words: str | Path) -> Done:
        return call("try", recorded, *words)

    for words, status, says in (
        (("twice",), 2, "there is nothing to try"),
        (("twice", "--num-warps", "3"), 2, "powers of two"),
        (("twice", "--num-warps", "x"), 2, "--num-warps x is not a number"),
        (("twice", "--target", "ampere"), 2, "ampere is not a target"),
        (("twice", "--stage", "ttgir", ttgir, "--num-warps", "8"), 2,
         "--num-warps cannot be honoured from ttgir on"),
        (("twice", "--stage", "ttgir", ttgir, "--maxnreg", "8"), 2, "ttg.maxnreg"),
        (("twice", "--stage", "sass", ptx), 2, "sass is none of ttir"),
        (("twice", "--stage", "ptx", tmp_path / "none.ptx"), 4, "none.ptx"),
        (("twice", "--stage", "ptx", empty), 4, "is empty"),
        (("twice", "--num-warps", "8", "--call", "7"), 2, "there is no call 7"),
        (("none", "--num-warps", "8"), 2, "none"),
        (("twice", "--ptxas-options=-o /tmp/x"), 2, "-o cannot be given"),
        (("twice", "--num-warps", "8", "--python", without), 3, "has no Triton"),
    ):  # fmt: skip
        done = refused(*words)
        assert (done.status, says in done.said) == (status, True), (words, done.said)
        assert "Traceback" not in done.said
    many = ",".join(str(n) for n in range(1, 33))
    done = refused("twice", "--num-stages", many, "--maxnreg", many)
    assert done.status == 2 and "1024 combinations" in done.said


def test_what_was_made_by_nvcc_has_ptx_alone() -> None:
    value = tried(LECTURE, "gelu_kernel", "--maxnreg", "16", "--ptxas-options=-O3",
                  "--ptxas-options=-O0")  # fmt: skip
    assert value["stage"] == "ptx" and value["unlaunched"]
    same, other = value["columns"][1:]
    # ptxas has a lower bound of 24 for this target, and says so.
    assert same["same_code"] and "lower bound of 24" in same["messages"][0]["message"]
    assert not other["same_code"] and other["instructions"] > same["instructions"]
    done = call("try", LECTURE, "gelu_kernel", "--num-warps", "8")
    assert done.status == 2 and "was not made by Triton" in done.said


def test_another_compiler_is_told_from_the_edit() -> None:
    """Recorded with Triton 3.6: what 3.7 and 3.9 make of this one is another thing, of others
    3.7 makes the same."""
    value = tried(LECTURE, MATMUL, "--num-warps", "8", "--no-run")
    assert [c["of"] for c in value["columns"]] == ["recorded", "again", "tried"]
    assert value["compiler"]["same"] is False and value["compiler"]["stages"]["sass"] is False
    assert [d["against"] for d in value["differences"]] == ["as recorded"]
    again = value["columns"][1]
    assert again["same_code"] is False and again["config"]["num_warps"] == 4
    done = call("try", LECTURE, MATMUL, "--num-warps", "8", "--no-run")
    assert "as recorded → num_warps=8" in done.text
    assert "recorded with triton 3.6" in done.text and "“as recorded”" in done.text


def test_who_interrupts_it_leaves_no_compiler_behind(recorded: Path, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho $$ >> {begun}\nexec sleep 600\n")
    python.chmod(0o755)
    words = command(["try", recorded, "twice", "--num-warps", "2,8", "--python", python])
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 130)):
        begun.unlink(missing_ok=True)
        child = subprocess.Popen(words, env=environment(), stderr=subprocess.PIPE)
        while not begun.exists() or not begun.read_text().endswith("\n"):
            assert child.poll() is None
            time.sleep(0.05)
        child.send_signal(number)
        said = child.communicate(timeout=60)[1]
        assert child.returncode == status and b"Traceback" not in said
        for process in begun.read_text().split():
            assert not Path(f"/proc/{process}").exists()


# -- results --------------------------------------------------------------------------------------


def test_results_that_differ_are_counted_and_measured(recorded: Path, tmp_path: Path) -> None:
    """Three times instead of twice: each element is off by its input."""
    text = text_of(recorded, "twice", "ttir")
    assert "2.000000e+00" in text
    value = tried_file(recorded, "twice", "ttir", text.replace("2.000000e+00", "3.000000e+00"),
                       tmp_path)  # fmt: skip
    results = value["columns"][1]["results"]
    (out,) = results["tensors"]
    assert results["identical"] is False and not results["fault"]
    assert (out["name"], out["elements"], out["differing"], out["odd"]) == ("out", 1000, 1000, 0)
    assert out["a"] == pytest.approx(out["b"] * 2 / 3, rel=1e-6)
    assert out["largest"] == pytest.approx(abs(out["b"] - out["a"]), rel=1e-6)
    assert 2 < out["largest"] < 6  # the largest of a thousand normal numbers
    words = ("twice", "--stage", "ttir", tmp_path / "edited.ttir")
    assert call("try", recorded, *words).status == 0
    assert call("try", recorded, *words, "--exit-code").status == 1


def test_a_launch_that_faults_is_said(recorded: Path, tmp_path: Path) -> None:
    text = text_of(recorded, "twice", "ptx")
    assert "mul.wide.s32" in text
    file = tmp_path / "wild.ptx"
    file.write_text(re.sub(r"(mul\.wide\.s32\s+\S+\s+\S+) 4;", r"\1 4096;", text))
    value = tried(recorded, "twice", "--stage", "ptx", file, status=1)
    results = value["columns"][1]["results"]
    assert results["fault"] and results["identical"] is None and "past the end of" in results["why"]


def test_what_cannot_be_run_on_the_cpu_is_said(recorded: Path) -> None:
    value = tried(recorded, "product", "--target", "sm_100")
    results = value["columns"][1]["results"]
    if results["why"] is not None:
        assert results["identical"] is None and "tcgen05" in results["why"]
    else:
        assert results["identical"] is not None


def test_of_many_blocks_as_many_are_run_as_are_cheap(recorded: Path) -> None:
    value = tried(recorded, "twice", "--num-warps", "2", "--budget", "30000")
    blocks = value["columns"][1]["results"]["blocks"]
    assert blocks["of"] == 8 and 1 <= blocks["run"] < 8


# -- on a GPU -------------------------------------------------------------------------------------


class Device:
    """A child that would launch on a device: what it is asked, and what it answers."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.dies = False

    def start(self, argv: list[str], seconds: float, folder: Path) -> Finished:
        job = json.loads(Path(argv[-2]).read_text())
        self.jobs.append({**job, "module": argv[-3]})
        said: list[dict[str, Any]] = []
        for launch in job["launches"]:
            said.append({"begin": launch["n"]})
            if argv[-3] == "agree":
                if self.dies and launch["n"] == 1:
                    self._write(argv, said)
                    return Finished(-6, b"", b"")
                row = {"name": "out", "dtype": "float32", "elements": 1000, "differing": 0}
                if launch["n"] == 0:
                    row["changed"] = True
                if launch["n"] == 2:
                    row |= {"differing": 3, "largest": 0.5, "at": 7, "a": 1.0, "b": 1.5, "odd": 1}
                said.append({"n": launch["n"], "tensors": [row]})
            else:
                us = [4.0 + launch["n"]] * 60
                said.append({"n": launch["n"], "stopwatch": "cupti", "cache": "cold",
                             "samples": us, "clocks": {}, "warnings": []})  # fmt: skip
            said.append({"end": launch["n"]})
        device = {"name": "NVIDIA H200", "major": 9, "minor": 0}
        self._write(argv, [{"device": device}, *said])
        return Finished(0, b"", b"")

    def _write(self, argv: list[str], said: list[dict[str, Any]]) -> None:
        Path(argv[-1]).write_text("".join(json.dumps(line) + "\n" for line in said))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    made = Device()
    monkeypatch.setattr(machine, "gpu_present", lambda: True)
    monkeypatch.setattr(child, "start", made.start)
    return made


def test_on_a_gpu_all_are_launched_on_the_same_inputs_and_timed(
    recorded: Path, device: Device
) -> None:
    value = tried(recorded, "twice", "--num-warps", "2,8", "--trust")
    results = [c["results"] for c in value["columns"]]
    assert results[0] is None and results[1]["identical"] is True and results[1]["steady"] is True
    (out,) = results[2]["tensors"]
    assert (out["differing"], out["largest"], out["at"], out["odd"]) == (3, 0.5, 7, 1)
    assert [c["time"]["median_us"] for c in value["columns"]] == [4.0, 5.0, 6.0]
    agree, timed = device.jobs
    assert (agree["module"], timed["module"]) == ("agree", "session")
    for job in device.jobs:
        blocks = [launch["block"][0] for launch in job["launches"]]
        assert blocks == [128, 64, 256]
        assert all(launch["grid"] == [8, 1, 1] for launch in job["launches"])
        given = [launch["arguments"] for launch in job["launches"]]
        assert given[0] == given[1] == given[2]
    assert call("time", recorded, "--stored").out == b""  # nothing of it is kept


def test_a_launch_that_ends_its_process_costs_its_own_column(
    recorded: Path, device: Device
) -> None:
    device.dies = True
    value = tried(recorded, "twice", "--num-warps", "2,8", "--trust", status=1)
    assert value["columns"][1]["results"]["fault"]
    assert value["columns"][2]["results"]["tensors"]
    assert [[launch["n"] for launch in job["launches"]] for job in device.jobs[:2]] == [
        [0, 1, 2], [0, 2],
    ]  # fmt: skip


def test_a_strangers_machine_code_is_launched_by_leave_alone(
    recorded: Path, device: Device
) -> None:
    value = tried(recorded, "twice", "--num-warps", "8")
    assert not device.jobs and "--trust" in value["unlaunched"]
    assert value["columns"][1]["compiled"] and value["columns"][1]["results"] is None
    on_cpu = tried(recorded, "twice", "--num-warps", "8", "--cpu")
    assert not device.jobs and on_cpu["columns"][1]["results"]["where"] == "cpu"


LAUNCHING = """
import ctypes, importlib.util, json, sys, types
import numpy as np, torch
folder, job, results = sys.argv[1:]
spec = importlib.util.spec_from_file_location("ptxview_probes", folder + "/__init__.py",
                                              submodule_search_locations=[folder])
sys.modules["ptxview_probes"] = importlib.util.module_from_spec(spec)
from ptxview_probes.replay import agree
calls = []

class Driver:
    def load(self, cubin, symbol):
        if cubin == b"another's":
            raise RuntimeError("device kernel image is invalid")
        return None, cubin.decode()
    def allow_shared(self, function, dynamic, device):
        calls.append((function, dynamic))

class Kernel:
    # A kernel is the expression that its machine code is, of x, the output before, and the launch.
    def __init__(self, driver, function, launch, values):
        self.function, (out, x, n) = function, values
        count = int.from_bytes(n, "little")
        at = [(ctypes.c_float * count).from_address(int.from_bytes(v, "little")) for v in (out, x)]
        self.out, self.x = (np.frombuffer(a, np.float32) for a in at)
    def launch(self, stream):
        calls.append(self.function)
        if self.function == "refused":
            raise RuntimeError("no kernel image is available")
        number = calls.count(self.function)
        self.out[:] = eval(self.function, {"x": self.x, "out": self.out, "number": number})

agree.Driver, agree.Kernel = Driver, Kernel
own = agree.Inputs
agree.Inputs = lambda torch, launch, device, most: own(torch, launch, "cpu", most)
zeros = torch.zeros
torch.zeros = lambda *a, **k: zeros(*a, **{n: v for n, v in k.items() if n != "device"})
torch.cuda = types.SimpleNamespace(
    is_available=lambda: True, synchronize=lambda: None, empty_cache=lambda: None,
    current_device=lambda: 0, current_stream=lambda: types.SimpleNamespace(cuda_stream=0))
sys.exit(agree.main(job, results))
"""


def launched_by_child(python: str, folder: Path, *kernels: str) -> dict[int, dict[str, Any]]:
    """What the child says of kernels that it launches on a device that is made up."""
    from inspector.measure.time.child import PROBES

    tensor = {"type": "*fp32", "dtype": "float32", "shape": [1000], "strides": [1],
              "alignment": 64, "low": None, "high": None, "value": None}  # fmt: skip
    launches = []
    for n, kernel in enumerate(kernels):
        (folder / f"{n}.cubin").write_text(kernel)
        launches.append({
            "n": n, "symbol": "k", "cubin": str(folder / f"{n}.cubin"), "grid": [1, 1, 1],
            "block": [32, 1, 1], "shared": 0, "cluster": 1, "cooperative": False,
            "sizes": [8, 8, 4], "scratch": [0, 0],
            "arguments": [{"name": "out", **tensor}, {"name": "x", **tensor},
                          {"name": "n", "type": "i32", "value": 1000}],
        })  # fmt: skip
    job, results = folder / "job.json", folder / "results.jsonl"
    job.write_text(json.dumps({"launches": launches, "alignment": 64, "limit": 60}))
    subprocess.run([python, "-c", LAUNCHING, str(PROBES), str(job), str(results)],
                   check=True)  # fmt: skip
    said = [json.loads(line) for line in results.read_text().splitlines()]
    assert [r["begin"] for r in said if "begin" in r] == [r["end"] for r in said if "end" in r]
    return {r["n"]: r for r in said if "n" in r}


def test_the_child_launches_each_on_the_same_inputs_and_the_first_twice(
    tmp_path: Path, plain_python: Callable[..., str]
) -> None:
    said = launched_by_child(
        plain_python("torch"), tmp_path, "x * 2", "x + x", "x * 3", "refused", "np", "another's"
    )
    first, same, other, refused, failed, alien = (said[n] for n in range(6))
    out, x = first["tensors"]
    assert (out["changed"], x["changed"]) == (True, False)
    assert out["differing"] == x["differing"] == 0  # twice the same
    assert [t["differing"] for t in same["tensors"]] == [0, 0]
    told = other["tensors"][0]
    assert told["differing"] == 1000 and told["b"] == pytest.approx(told["a"] * 1.5)
    assert told["largest"] == pytest.approx(abs(told["a"] / 2), rel=1e-6)
    assert "no kernel image is available" in refused["error"]
    assert failed["launched"] and refused["launched"]
    assert (alien["launched"], alien["error"]) == (False, "device kernel image is invalid")


def test_a_recorded_kernel_that_differs_from_itself_is_found_out(
    tmp_path: Path, plain_python: Callable[..., str]
) -> None:
    said = launched_by_child(plain_python("torch"), tmp_path, "x + 0.25 * number", "x")
    assert said[0]["tensors"][0]["differing"] == 1000
    assert said[0]["tensors"][0]["largest"] == pytest.approx(0.25, rel=1e-5)
    (tmp_path / "none").mkdir()
    refused = launched_by_child(plain_python("torch"), tmp_path / "none", "refused", "x")
    assert set(refused) == {0} and "no kernel image" in refused[0]["error"]


DIFFERING = """
import importlib.util, json, sys
import numpy as np, torch
folder = sys.argv[1]
spec = importlib.util.spec_from_file_location("ptxview_probes", folder + "/__init__.py",
                                              submodule_search_locations=[folder])
sys.modules["ptxview_probes"] = importlib.util.module_from_spec(spec)
from ptxview_probes.replay import agree
agree.PIECE = 7
out = []
for name in ("float32", "float16", "bfloat16", "int32", "uint8", "bool", "complex64", "float64"):
    torch.manual_seed(3)
    kind = getattr(torch, name)
    x = (torch.randn(40) * 3).to(kind) if name != "bool" else torch.randn(40) > 0
    x[11] = 2
    y = x.clone()
    y[11] = 0 if name != "bool" else not bool(y[11])
    y[23] = x[23] + 1 if name != "bool" else y[23]
    if kind.is_floating_point:
        x[5], y[5] = float("nan"), float("nan")
        x[6], y[6] = float("inf"), float("inf")
        x[30], y[30] = 1.0, float("nan")
        x[31], y[31] = 0.0, -0.0
    out.append((name, agree.differing(torch, x, y), agree.differing(torch, x, x.clone())))
print(json.dumps([(n, a, b, None) for n, a, b in out]))
"""


def test_tensors_are_compared_as_numpy_compares_them(plain_python: Callable[..., str]) -> None:
    from inspector.measure.time.child import PROBES

    done = subprocess.run([plain_python("torch"), "-c", DIFFERING, str(PROBES)],
                          capture_output=True, text=True, check=True)  # fmt: skip
    for name, told, same, _ in json.loads(done.stdout):
        assert same == {"differing": 0}
        real = name.startswith(("float", "bfloat"))
        # Two were changed; of floats a NaN and a zero's sign beside them.
        expected = {"bool": 1}.get(name, 4 if real else 2)
        assert told["differing"] == expected, (name, told)
        assert told["odd"] == (1 if real else 0), name
        if name not in ("bool", "complex64"):
            assert told["at"] in (11, 23)
            values = [float(told["a"]), float(told["b"])]
            assert np.isclose(told["largest"], abs(values[0] - values[1])), name
            assert told["largest"] >= 1 - 0.01
