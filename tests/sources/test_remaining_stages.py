"""A recorded stage goes through the rest of Triton's compiler, compared with Triton's own run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from inspector.base.errors import ToolMissing
from inspector.base.model import Variant
from inspector.sources.compilers import StagesMade, believed, compile_on, job_of
from inspector.sources.opening import open_path
from inspector.system import toolchain
from tests.helpers.ptxview import MATMUL, saved

pytestmark = pytest.mark.usefixtures("triton_at_once")

# What Triton itself makes of a file of its IR: `triton.compile` with a target and options.
TRITONS = """
import sys, triton
from triton.backends.compiler import GPUTarget
kernel = triton.compile(sys.argv[1], target=GPUTarget("cuda", int(sys.argv[2]), 32),
                        options=dict(num_warps=4, num_stages=3, enable_fp_fusion=True))
for stage in ("ttgir", "llir", "ptx", "cubin"):
    data = kernel.asm[stage]
    data = data if isinstance(data, bytes) else data.encode()
    open(f"{sys.argv[3]}/{stage}", "wb").write(data)
"""


@pytest.fixture(scope="module")
def matmul() -> Variant:
    """A matmul that Triton 3.6 compiled for an H200."""
    return open_path(MATMUL).variants()[0][1]


def made(
    variant: Variant, stage: str, old: bytes = b"", new: bytes = b"", until: str = "cubin"
) -> StagesMade:
    """What comes of a variant's stage in which a word was replaced."""
    job = job_of(variant, stage, until)
    assert old in job.text
    return compile_on(replace(job, text=job.text.replace(old, new, 1)), toolchain.interpreter(None))


def test_stages_are_those_that_triton_makes_of_the_file(matmul: Variant, tmp_path: Path) -> None:
    ours = made(matmul, "ttir")
    assert (ours.failed, ours.unknown) == (None, ())
    file = saved(tmp_path / "matmul_kernel.ttir", job_of(matmul, "ttir").text)
    subprocess.run(
        [toolchain.interpreter(None), "-c", TRITONS, str(file), "90", str(tmp_path)],
        check=True,
        env={"TRITON_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"},
    )
    for stage in ("ttgir", "llir", "ptx", "cubin"):
        assert ours.texts[stage] == (tmp_path / stage).read_bytes(), stage
    assert ours.metadata["shared"] and set(ours.seconds) == set(ours.texts)


def test_tritons_ir_before_its_first_pass_goes_through_all_stages(matmul: Variant) -> None:
    every = made(matmul, "source", until="ttgir")
    assert list(every.texts) == ["ttir", "ttgir"]
    assert every.texts["ttgir"] == made(matmul, "ttir", until="ttgir").texts["ttgir"]


def test_an_option_reaches_the_compiler_and_one_that_it_does_not_know_is_said(
    matmul: Variant,
) -> None:
    job = job_of(matmul, "ttir", "ttgir")
    wide = compile_on(
        replace(job, options={"num_warps": 8, "no_such": 1}), toolchain.interpreter(None)
    )
    assert b'"ttg.num-warps" = 8' in wide.texts["ttgir"]
    assert wide.unknown == ("no_such",)


@pytest.mark.parametrize(
    ("stage", "old", "new", "says", "at"),
    [
        ("ttgir", b"tt.return", b"tt.retrn", "custom op 'tt.retrn' is unknown", "ttgir"),
        ("ptx", b"\tret;", b"\trat;", "Not a name of any known instruction: 'rat'", "cubin"),
    ],
)
def test_an_error_has_its_line(
    matmul: Variant, stage: str, old: bytes, new: bytes, says: str, at: str
) -> None:
    ended = made(matmul, stage, old, new)
    assert ended.failed is not None and says in ended.failed
    assert ended.failed_at == at and not ended.texts
    error = next(m for m in ended.messages if m.severity == "error")
    rows = job_of(matmul, stage).text.replace(old, new, 1).decode().splitlines()
    assert error.file == f"matmul_kernel.{stage}" and error.line is not None
    assert error.text == rows[error.line - 1].rstrip()
    assert new.decode().strip() in rows[error.line - 1]


def test_llvm_ir_that_cannot_be_read_is_a_sentence_with_its_line(matmul: Variant) -> None:
    text = made(matmul, "ttgir", until="llir").texts["llir"].replace(b"ret void", b"ret vod", 1)
    ended = compile_on(
        replace(job_of(matmul, "ttgir"), text=text, stage="llir", name="x.llir"),
        toolchain.interpreter(None),
    )
    row = next(n for n, row in enumerate(text.splitlines(), 1) if b"ret vod" in row)
    assert ended.failed is not None and ended.failed_at == "ptx"
    assert any((m.file, m.line) == ("x.llir", row) for m in ended.messages)


def test_a_compiler_that_dies_is_a_sentence(matmul: Variant, tmp_path: Path) -> None:
    """A Triton whose first pass ends its process, as an assertion of LLVM's does."""
    package = tmp_path / "sitecustomize.py"
    package.write_text(
        "import os, sys, importlib.abc\n"
        "class Find(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'triton':\n"
        "            os.write(2, b'x.cpp:7: Assertion `a == b\\' failed.\\n'); os.abort()\n"
        "sys.meta_path.insert(0, Find())\n"
    )
    job = replace(job_of(matmul, "ttir"), environment={"PYTHONPATH": str(tmp_path)})
    ended = compile_on(job, sys.executable)
    assert ended.failed is not None and not ended.texts
    assert "ended by signal 6" in ended.failed and "Assertion `a == b' failed." in ended.failed


def test_no_triton_is_said(matmul: Variant, tmp_path: Path) -> None:
    (tmp_path / "triton.py").write_text("raise ImportError('none here')")
    job = replace(job_of(matmul, "ttir"), environment={"PYTHONPATH": str(tmp_path)})
    with pytest.raises(ToolMissing, match="has no Triton"):
        compile_on(job, sys.executable)


def test_of_a_recordings_options_for_ptxas_none_names_a_file() -> None:
    assert believed({"ptx_options": "-O1 -o /tmp/x --fmad=false --output-file=/tmp/y"}) == {
        "ptx_options": "-O1 --fmad=false"
    }
