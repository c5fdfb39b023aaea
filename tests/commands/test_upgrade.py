"""`ptxview upgrade`, compared with the compilers themselves."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from copy import deepcopy
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from inspector.base.errors import Stopped
from inspector.base.model import Stage
from inspector.parsers.cubin import read_cubin
from inspector.sources.compilers import assemblers
from inspector.sources.disassembly import same_code
from inspector.sources.opening import is_own, open_path
from inspector.sources.recompiling import Compilers, RecompileRequest, recompile
from tests.helpers.ptxview import (
    MATMUL,
    Done,
    call,
    environment,
    finished,
    ptxview,
    saved,
    tool,
    variants_of,
    write_events,
)
from tests.helpers.shared import once

HELPERS = """\
import triton
import triton.language as tl


@triton.jit
def squared(x, kind: tl.constexpr):
    return (x * x).to(kind)
"""
KERNELS = """\
import triton
import triton.language as tl
from helpers import squared
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

WIDTH = tl.constexpr(128)


@triton.jit
def scaled(out, x, bias, n, kind: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    value = squared(tl.load(x + at, mask=at < n), kind)
    if bias is not None:
        value += tl.load(bias + at, mask=at < n)
    tl.store(out + at, value, mask=at < n)


@triton.jit
def paired(pointers, pair: tl.constexpr, WIDE: tl.constexpr):
    at = tl.arange(0, WIDE)
    value = tl.load(pointers[1] + at)
    if pointers[2] is None:
        value += pointers[3]
    tl.store(pointers[0] + at, value * pair[1])


@gluon.jit
def copied(out, x, n, WIDE: gl.constexpr, layout: gl.constexpr):
    at = gl.arange(0, WIDE, layout=layout)
    gl.store(out + at, gl.load(x + at, at < n), at < n)


@triton.autotune([triton.Config({"BLOCK": 64 * n}, num_warps=n) for n in (1, 2)], key=["n"])
@triton.jit
def summed(out, x, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, n, BLOCK):
        at = first + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out, tl.sum(total))
"""
PROGRAM = """\
import torch
import triton.language as tl
from kernels import copied, gl, paired, scaled, summed

x = torch.ones(1000, device="cuda")
out = torch.empty_like(x)
scaled[(8,)](out, x, None, 1000, kind=tl.float32)
paired[(1,)]((out, x, None, 1), (2, 3), 128)
copied[(1,)](out, x, 99, 128, gl.BlockedLayout([1], [32], [4], [0]))
summed[(1,)](out, x, 1000)
"""
BARE = """
import sys
sys.path.insert(0, sys.argv[1])
import kernels, triton, triton.language as tl
from triton.backends.compiler import GPUTarget
source = triton.compiler.ASTSource(
    fn=kernels.scaled,
    signature={"out": "*fp32", "x": "*fp32", "bias": "constexpr", "n": "i32", "kind": "constexpr"},
    constexprs={(2,): None, (4,): tl.float32},
    attrs={(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]},
)
made = triton.compile(source, target=GPUTarget("cuda", 90, 32))
open(sys.argv[2], "wb").write(made.asm["cubin"])
"""
VARIANTS = 5


@pytest.fixture(scope="session")
def recorded(common: Path) -> Path:
    """A recording of the program above, compiled for sm_90."""
    pytest.importorskip("triton")

    def make(path: Path) -> None:
        for name, text in (("helpers", HELPERS), ("kernels", KERNELS), ("program", PROGRAM)):
            saved(path / f"{name}.py", text)
        words = ("run", "--target", "sm_90", "--no-tui", "-o", path / "x.ptxview")
        done = ptxview(*words, path / "program.py", cwd=path)
        assert done.status == 0, done.said

    return once(common / "upgraded", make) / "x.ptxview"


@pytest.fixture(scope="session")
def again(recorded: Path, plain_python: Callable[..., str]) -> tuple[Path, Any]:
    """The recording by the same Triton, and the report of it."""
    made = recorded.with_name("again.ptxview")

    def make(path: Path) -> None:
        words = ("--python", plain_python(), "--trust", "-o", made, "--json", "--estimate", "0")
        done = ptxview("upgrade", recorded, *words)
        assert done.status == 0, done.said
        saved(path, done.out)

    return made, json.loads(once(recorded.with_name("again.json"), make).read_bytes())


def assembler(
    folder: Path,
    *options: str,
    among: str = "",
    refuses: str = "",
    version: str | None = "99.1.7",
) -> Path:
    """A ptxas of that version, else of the newest here, which it is with other options for texts
    with ``among``, and one kernel that it refuses."""
    tools = assemblers()
    if not tools:
        pytest.skip("needs ptxas: pip install triton")
    version = version or tools[0].version or ""
    release = version.rpartition(".")[0]
    return saved(
        folder / "ptxas",
        f"""#!/bin/sh
if [ "$1" = --version ]; then
  echo "ptxas: NVIDIA (R) Ptx optimizing assembler"
  echo "Cuda compilation tools, release {release}, V{version}"; exit
fi
for word in "$@"; do case "$word" in *.ptx) file="$word"; esac; done
if [ -n "{refuses}" ] && grep -q "entry {refuses}(" "$file"; then
  echo "ptxas $file, line 7; error   : this one is not liked" >&2; exit 1
fi
if grep -q "{among}" "$file"; then set -- {" ".join(options)} "$@"; fi
exec {tools[0].path} "$@"
""",
        0o755,
    )


def upgraded(recording: Path, out: Path, *words: str | Path, status: int = 0) -> Any:
    """The JSON of an upgrade whose recording is made at ``out``."""
    done = call("upgrade", recording, "-o", out, "--estimate", "0", "--json", *words)
    assert done.status == status, done.said
    return json.loads(done.out)


def edited(recording: Path, folder: Path, edit: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of a recording, as a folder, with other events."""
    with zipfile.ZipFile(recording) as archive:
        archive.extractall(folder)
    for file in folder.glob("events*.jsonl"):
        events = [json.loads(row) for row in file.read_text("utf-8").splitlines()]
        for event in events:
            edit(event)
        file.write_text("".join(json.dumps(event) + "\n" for event in events), "utf-8")
    return folder


def in_a_sentence(done: Done, status: int, *parts: str) -> None:
    """Check that a command ended with a message and nothing else."""
    assert done.status == status and done.out == b"", done.said
    assert all(part in done.said for part in parts), done.said
    assert len(done.said.splitlines()) <= 2 and "fault of ptxview" not in done.said


def test_the_same_compiler_changes_nothing(again: tuple[Path, Any], recorded: Path) -> None:
    path, report = again
    assert (report["compared"], report["same"], report["alone"]) == (VARIANTS, VARIANTS, 0)
    assert (report["changes"], report["failed"], report["versions"]) == ([], [], {})
    before, after = (call("list", p, "--json").json for p in (recorded, path))
    pairs = zip(variants_of(before), variants_of(after), strict=True)
    for (kernel, variant), (new_kernel, new_variant) in pairs:
        assert (kernel["name"], variant["id"]) == (new_kernel["name"], new_variant["id"])
        assert variant["calls"] == new_variant["calls"]
        assert variant["resources"] == new_variant["resources"]


def test_code_is_linked_with_its_source(again: tuple[Path, Any]) -> None:
    for stage in ("ptx", "sass"):
        shown = call("show", again[0], "scaled", "--stage", stage, "--beside", "source").text
        assert "value = squared(tl.load(x + at" in shown
        assert "tl.store(out + at, value, mask=at < n)" in shown


def test_machine_code_is_what_triton_itself_makes(
    again: tuple[Path, Any], plain_python: Callable[..., str], tmp_path: Path
) -> None:
    out = tmp_path / "bare.cubin"
    env = environment(TRITON_CACHE_DIR=str(tmp_path / "cache"))
    done = finished([plain_python(), "-c", BARE, again[0].parent, out], env=env)
    assert done.status == 0, done.said
    kernel = next(k for k in open_path(again[0]).kernels if k.name == "scaled")
    made = kernel.variants[0].stages[Stage.SASS].content.read()
    assert same_code(read_cubin(made), read_cubin(out.read_bytes()))


@pytest.fixture(scope="session")
def unoptimized(recorded: Path) -> Path:
    """The recording by an assembler that does not optimize."""

    def make(path: Path) -> None:
        other = assembler(path.parent / "unoptimized", "-O0")
        done = call("upgrade", recorded, "-o", path, "--ptxas", other, "--estimate", "0")
        assert done.status == 0 and "became" in done.text and "changed" in done.text, done.said

    return once(recorded.with_name("unoptimized.ptxview"), make)


def test_another_assembler_is_reported_with_what_it_changed(
    recorded: Path, unoptimized: Path
) -> None:
    assert open_path(unoptimized).tools["ptxas"] == "99.1.7"
    report = call("upgrade", recorded, unoptimized, "--json", "--estimate", "0").json
    assert report["compared"] == VARIANTS and report["failed"] == [] and report["edits"]
    changes = {row["variant"]: row for row in report["changes"]}
    assert len(changes) == VARIANTS
    for kernel, variant in variants_of(call("list", unoptimized, "--json").json):
        row = changes[variant["id"]]
        assert row["kernel"] == kernel["name"] and row["first"] == "sass"
        if "registers" in row["figures"]:
            assert row["figures"]["registers"][1] == variant["resources"]["registers"]
    words = ("--markdown", "--no-new-spills", "--estimate", "0")
    comment = call("upgrade", recorded, unoptimized, *words).text
    assert comment.startswith("### ptxview upgrade: ") and "| kernel | variant |" in comment


def test_the_part_that_brings_a_change_is_named(
    unoptimized: Path, plain_python: Callable[..., str]
) -> None:
    """Only the assembler was another one when it was recorded."""
    words = ("upgrade", unoptimized, "--python", plain_python(), "--trust", "--explain", "scaled")
    text = call(*words).text
    assert "ptxas, since the recorded ptx:\n  registers" in text
    assert text.count("\n  no change\n") == 4
    assert text.endswith("\nthe change comes with ptxas\n")


@pytest.mark.nightly
def test_an_older_assembler_beneath_triton(
    recorded: Path, tmp_path: Path, plain_python: Callable[..., str]
) -> None:
    """Triton then writes the PTX that this one reads."""
    tools = assemblers()
    older = [tool for tool in tools if tool.version != tools[0].version]
    if not older:
        pytest.skip("needs ptxas in two versions: pip install triton")
    words = ("--python", plain_python(), "--trust", "--ptxas", older[0].path)
    report = upgraded(recorded, tmp_path / "y.ptxview", *words)
    assert report["failed"] == [] and report["compared"] == VARIANTS
    assert {new for _, new in report["versions"]["ptxas"]} == {older[0].version}


def test_a_tuners_best_candidate_moves_by_estimate(recorded: Path, tmp_path: Path) -> None:
    """Loads of the faster candidate of two are no longer issued ahead."""
    slow = assembler(tmp_path, "-O1", among=".reqntid 64")
    out = tmp_path / "y.ptxview"
    done = call("upgrade", recorded, "-o", out, "--ptxas", slow, "--json")
    (tuning,) = done.json["tunings"]
    assert (tuning["kernel"], tuning["candidates"], tuning["estimated"]) == ("summed", 2, 2)
    before, after = tuning["before"], tuning["after"]
    assert (before["config"]["num_warps"], after["config"]["num_warps"]) == (2, 1)
    assert before["us"][0] < after["us"][0] and after["us"][1] < before["us"][1]
    assert after["us"][0] == after["us"][1]  # its code is the same
    for words in ((), ("--markdown",)):
        text = call("upgrade", recorded, out, *words).text
        moved = "summed by estimate: the best of 2 candidates moved, BLOCK 128 → 64, num_warps"
        assert moved in text.replace("\\_", "_")
    assert call("upgrade", recorded, out, "--estimate", "0", "--json").json["tunings"] == []


def test_limits_make_it_a_gate(recorded: Path, unoptimized: Path) -> None:
    words = ("upgrade", recorded, unoptimized, "--estimate", "0", "--json")
    strict = call(*words, "--max-instructions-growth", "0")
    assert strict.status == 1 and json.loads(strict.out)["check"]["passed"] is False
    allowed = ("--max-instructions-growth", "100000%", "--no-new-spills")
    assert call(*words, *allowed).json["check"]["passed"] is True
    assert call(*words).json["check"] is None


def test_a_kernel_that_is_refused_is_kept_with_the_reason(recorded: Path, tmp_path: Path) -> None:
    made = tmp_path / "y.ptxview"
    report = upgraded(recorded, made, "--ptxas", assembler(tmp_path, refuses="scaled"), status=1)
    (row,) = report["failed"]
    assert (row["kernel"], row["compiled_before"]) == ("scaled", True)
    assert "this one is not liked" in row["reason"]
    assert report["same"] == VARIANTS - 1
    assert "this one is not liked" in call("show", made, "scaled").said
    back = call("upgrade", made, recorded, "--json", "--estimate", "0")  # and the other way round
    assert back.json["failed"][0]["compiled_before"] is False


def test_a_kernel_that_another_triton_refuses_keeps_its_stages(
    recorded: Path, tmp_path: Path, plain_python: Callable[..., str]
) -> None:
    made = tmp_path / "y.ptxview"
    other = assembler(tmp_path, refuses="scaled", version=None)  # Triton reads the version
    words = ("--python", plain_python(), "--trust", "--ptxas", other)
    (row,) = upgraded(recorded, made, *words, status=1)["failed"]
    assert row["kernel"] == "scaled" and "this one is not liked" in row["reason"]
    listed = variants_of(call("list", made, "--json").json)
    (scaled,) = (variant for kernel, variant in listed if kernel["name"] == "scaled")
    assert {"ttir", "ttgir", "llir", "ptx"} <= set(scaled["stages"])
    late = upgraded(recorded, tmp_path / "z.ptxview", *words, "--limit", "0.01", status=1)["failed"]
    assert {row["reason"] for row in late} >= {"Triton's compiler did not finish within 0.01 s"}


def test_times_of_the_old_code_are_left_out(recorded: Path, tmp_path: Path) -> None:
    def with_times(event: dict[str, Any]) -> None:
        if event["event"] == "autotune":
            event["seconds"] = 3.5
            for number, row in enumerate(event["configurations"], 1):
                row["times_ms"] = [number / 7]

    timed = edited(recorded, tmp_path / "timed", with_times)
    assert call("list", timed, "--tunings").text != call("list", recorded, "--tunings").text
    upgraded(timed, tmp_path / "y.ptxview", "--ptxas", assembler(tmp_path))
    new, old = (call("list", p, "--tunings").text for p in (tmp_path / "y.ptxview", recorded))
    assert new == old and "BLOCK=128" in new


def test_a_kernel_without_source_is_not_called_the_same(
    recorded: Path, tmp_path: Path, plain_python: Callable[..., str], again: tuple[Path, Any]
) -> None:
    def without(event: dict[str, Any]) -> None:
        if event.get("name") == "scaled":
            event.pop("source", None)

    path = edited(recorded, tmp_path / "partly", without)
    words = ("--python", plain_python(), "--trust", "--estimate", "0")
    report = upgraded(path, tmp_path / "y.ptxview", *words)
    (row,) = report["left_out"]
    assert (row["kernel"], row["reason"]) == ("scaled", "its Python source was not recorded")
    sentence = f"1 variant not compiled: {row['reason']} (scaled {row['variant']})"
    comment = call("upgrade", path, "-o", tmp_path / "z.ptxview", *words, "--markdown").text
    assert sentence in comment
    assert (report["compared"], report["same"], report["alone"]) == (VARIANTS - 1,) * 2 + (1,)


def test_what_is_compiled_by_then_is_not_compiled_again(
    recorded: Path, tmp_path: Path, plain_python: Callable[..., str], new_user: None
) -> None:
    said: list[str] = []
    request = RecompileRequest(
        open_path(recorded), Compilers(plain_python()), tmp_path / "y.ptxview"
    )
    with pytest.raises(Stopped):
        recompile(request, said.append, lambda: not any("compiled, about" in s for s in said))
    assert not list(tmp_path.glob("y.*"))
    done = int(said[-1].split()[0])
    assert 0 < done < VARIANTS
    said.clear()
    assert recompile(request, said.append).compiled == VARIANTS
    assert said[0] == f"{done} were compiled before; {VARIANTS - done} remain"


def test_questions_that_cannot_be_answered_are_a_sentence(
    recorded: Path, tmp_path: Path, plain_python: Callable[..., str]
) -> None:
    bare = saved(tmp_path / "python", "#!/bin/sh\nexit 1\n", 0o755)
    python = ("--python", plain_python())
    text = saved(tmp_path / "notes.txt", "no tool")
    in_a_sentence(call("upgrade", recorded), 2, "either other compilers or another recording")
    in_a_sentence(call("upgrade", recorded, recorded, "--ptxas", assembler(tmp_path)), 2, "either")
    in_a_sentence(call("upgrade", recorded, "--ptxas", text), 3, "cannot be started")
    other = saved(tmp_path / "other", "#!/bin/sh\necho other 1.2\n", 0o755)
    in_a_sentence(call("upgrade", recorded, "--ptxas", other), 2, "is not ptxas")
    in_a_sentence(call("upgrade", recorded, "--nvcc", tmp_path / "none"), 3, "started")
    in_a_sentence(call("upgrade", recorded, tmp_path / "none.ptxview"), 4, "none.ptxview")
    in_a_sentence(call("upgrade", recorded, "--python", bare, "--trust"), 3, "is no Python")
    in_a_sentence(call("upgrade", recorded, *python), 2, "--trust", plain_python())
    in_a_sentence(call("upgrade", MATMUL, *python, "--trust"), 2, "is no recording")
    whole = recorded.read_bytes()
    in_a_sentence(call("upgrade", recorded, *python, "--trust", "-o", recorded), 2, "again")
    in_a_sentence(call("upgrade", recorded, *python, "--trust", "-o", "/proc/y.ptxview"), 2)
    assert recorded.read_bytes() == whole
    assert not list(recorded.parent.glob(f"{recorded.name}*.unfinished"))


def test_a_recording_without_any_source_says_so(
    recorded: Path, tmp_path: Path, plain_python: Callable[..., str]
) -> None:
    def without(event: dict[str, Any]) -> None:
        event.pop("source", None)

    path = edited(recorded, tmp_path / "bare", without)
    out = tmp_path / "y.ptxview"
    done = call("upgrade", path, "--python", plain_python(), "--trust", "-o", out)
    in_a_sentence(done, 2, "its Python source was not recorded")
    assert not list(tmp_path.glob("y.*"))


def test_what_is_made_of_a_strangers_recording_is_no_recording_of_ones_own(
    recorded: Path, tmp_path: Path, new_user: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call("upgrade", recorded, "--ptxas", assembler(tmp_path), "--estimate", "0")
    (made,) = tmp_path.glob("x-upgraded-*.ptxview")
    assert made.name in done.said and not list((tmp_path / "state").rglob("events.jsonl"))
    assert not is_own(open_path(made))


HOSTILE: dict[str, Callable[[dict[str, Any]], None]] = {
    "target": lambda e: e["metadata"].update(target={"arch": "9" * 5000}),
    "attribute": lambda e: e.update(specialization={"x": [5], "\n": [[]], "out": [[["constant"]]]}),
    "attributes": lambda e: e.update(specialization={"no": [["constant", {}]]}),
    "constexprs": lambda e: e.update(constexprs={"kind": {"a": [None, "\0"]}, "kind[x]": []}),
    "signature": lambda e: e["signature"].update({f"a{n}": "*fp32" for n in range(3000)}),
    "tuple": lambda e: e["signature"].update(n="(" * 500),
    "name": lambda e: e["source"].update(name="scaled\n\0"),
    "options": lambda e: e["metadata"].update(num_warps="\0", num_stages=[1], maxnreg={}),
    "path": lambda e: e["source"].update(file="/a\0\n\u2028\ud800.py"),
    "globals": lambda e: e["source"].update(globals={"": {"WIDTH": "\0"}, "x": 3}),
}


def test_a_hostile_kernel_is_its_own_failure(
    recorded: Path, tmp_path: Path, plain_python: Callable[..., str]
) -> None:
    """A recording in which a kernel is there again and again, with what no compiler expects."""
    path = edited(recorded, tmp_path / "hostile", lambda event: None)
    (file,) = (
        f for f in path.glob("events-*.jsonl") if '"event": "triton"' in f.read_text("utf-8")
    )
    rows = map(json.loads, file.read_text("utf-8").splitlines())
    kernel = next(row for row in rows if row.get("name") == "scaled")
    with file.open("a", encoding="utf-8") as events:
        for number, trick in enumerate(HOSTILE.values()):
            event = deepcopy(kernel)
            event["hash"] = event["metadata"]["hash"] = f"{number + 1:064x}"
            trick(event)
            events.write(json.dumps(event) + "\n")
    words = ("--python", plain_python(), "--trust", "--estimate", "0")
    done = call("upgrade", path, "-o", tmp_path / "y.ptxview", *words)
    assert done.status == 1 and "fault of ptxview" not in done.said, done.said
    assert "Traceback" not in done.text
    assert call("list", tmp_path / "y.ptxview").status == 0


NVCC_SOURCE = """\
extern "C" __global__ void doubled(float *x) { x[threadIdx.x] *= FACTOR; }
"""


def test_cuda_is_compiled_by_another_nvcc_with_its_own_flags(tmp_path: Path) -> None:
    nvcc = tool("nvcc")
    source = saved(tmp_path / "doubled.cu", NVCC_SOURCE)
    subprocess.run(
        [nvcc, "-cubin", "-arch=sm_90", "-DFACTOR=2", source, "-o", tmp_path / "old.cubin"],
        check=True,
        env=environment(PATH=f"{Path(nvcc).parent}:/usr/bin:/bin"),
    )
    recording = tmp_path / "built"
    blobs = {n: blob(recording, tmp_path / n) for n in ("doubled.cu", "old.cubin")}
    mark = tmp_path / "mark"
    hostile = saved(tmp_path / "gcc", f"#!/bin/sh\ntouch {mark}\nexit 1\n", 0o755)
    flags = ["-DFACTOR=2", "-ccbin", str(hostile), f"-Xcompiler=-wrapper,{hostile}", "-c", "x.cu"]
    built = {
        "event": "device_code",
        "origin": "nvcc",
        "source": "/elsewhere/doubled.cu",
        "source_blob": blobs["doubled.cu"],
        "arch": "sm_90",
        "flags": [*flags, "-gencode=arch=compute_80,code=sm_80", "-o", "x.o"],
        "cubin": blobs["old.cubin"],
        "sha256": blobs["old.cubin"],
    }
    write_events(recording, {"event": "recording", "schema": 1}, built)
    report = upgraded(recording, tmp_path / "y.ptxview", "--nvcc", nvcc)
    assert (report["compared"], report["same"], report["failed"]) == (1, 1, [])
    assert not mark.exists()
    shown = call("show", tmp_path / "y.ptxview", "doubled", "--stage", "ptx", "--beside", "source")
    assert "x[threadIdx.x] *= FACTOR" in shown.text


def blob(recording: Path, file: Path) -> str:
    """A content of a recording's folder; its name."""
    digest = sha256(file.read_bytes()).hexdigest()
    (recording / "blobs").mkdir(parents=True, exist_ok=True)
    shutil.copy(file, recording / "blobs" / digest)
    return digest


def test_another_constant_is_a_change_though_the_opcodes_are_the_same(tmp_path: Path) -> None:
    if not assemblers():
        pytest.skip("needs ptxas: pip install triton")
    text = """.version 8.0
.target sm_90
.address_size 64
.visible .entry written(.param .u64 out)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    add.s32 %r2, %r1, 1234;
    st.global.u32 [%rd1], %r2;
    ret;
}
"""
    before = saved(tmp_path / "before.ptx", text)
    after = saved(tmp_path / "after.ptx", text.replace("1234", "4321"))
    same = saved(tmp_path / "same.ptx", text.replace("%r2", "%r0"))
    changed = json.loads(call("upgrade", before, after, "--estimate", "0", "--json").out)
    assert (changed["same"], changed["reordered"], len(changed["changes"])) == (0, 0, 1)
    renamed = json.loads(call("upgrade", before, same, "--estimate", "0", "--json").out)
    assert (renamed["same"], renamed["changes"]) == (1, [])
