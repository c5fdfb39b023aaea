"""Builds of extensions: the commands as ninja reads them, and nvcc run again for the PTX."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from inspector.parsers.cubin import read_cubin
from inspector.recording.layout import user_derived_cache
from inspector.sources.builds import BuiltCubin, harmless, parse_ninja, read_folder
from inspector.system.toolchain import find
from tests.helpers.ptxview import EXTENSION, call, printed, saved, tool, variants_of
from tests.helpers.tools import path_of, skip_without

ODD = r"""
ninja_required_version = 1.3
cxx = c++
flags = -DNAME="two words" -I$$HOME $
    -O2
empty =
rule compile
  command = $cxx $flags ${extra}-c $in -o $out
  description = compiling $out
rule link
  command = $cxx -shared $in -o $out $libs

# a comment
extra = -Wall$ $ #no
build a$ b.o: compile with$ space.cpp | implicit.h || order
  extra = -DEDGE=1$ $

build c$:d.o e.o | side.o: compile x.cpp y.cpp
build out.so: link a$ b.o c$:d.o | script.lds
libs = -lm
default out.so
"""


def ninja() -> str:
    """The real ninja; the test is skipped without it."""
    skip_without("ninja")
    return str(path_of("ninja"))


def commands(folder: Path) -> set[tuple[str, ...]]:
    """Every command of a build as the real ninja expands it, split into words."""
    text = printed(ninja(), "-C", folder, "-t", "commands").decode()
    lines = [line for line in text.splitlines() if not line.startswith("ninja: Entering")]
    return {tuple(shlex.split(line)) for line in lines}


def test_escapes_scopes_and_implicit_inputs_are_read_as_ninja_reads_them(tmp_path: Path) -> None:
    (tmp_path / "build.ninja").write_text(ODD)
    builds = parse_ninja(ODD)
    assert {b.argv for b in builds} == commands(tmp_path)
    assert [b.output for b in builds] == ["a b.o", "c:d.o", "out.so"]
    assert builds[0].inputs == ("with space.cpp",)


def test_variables_that_name_each_other_do_not_explode() -> None:
    lines = ["v0 = xxxxxxxxxx", *(f"v{n} = $v{n - 1}$v{n - 1}" for n in range(1, 60))]
    text = "\n".join([*lines, "rule r", "  command = $v59", "build a: r b"])
    (build,) = parse_ninja(text)
    assert build.argv == () or len(build.argv[0]) < 1 << 24


HOSTILE = (
    *("/evil/nvcc", "-ccbin", "/evil/gcc", "-ccbin=/evil/g++.cu", "--compiler-bindir=/evil.cu"),
    *("-Xcompiler", "-fplugin=/evil.so", "--compiler-options=-wrapper,/evil.cu", "-Xptxas"),
    *("--evil", "-optf", "/evil.cu", "--options-file=/evil.cu", "@/evil.cu", "-run", "--run"),
    *("-dryrun", "-target-dir=/evil.cu", "-L/evil", "-levil", "-odir", "/evil", "-DGOOD=1", "-I"),
    *("/good/include", "-isystem", "/good/system", "-std=c++17", "-O2", "--use_fast_math", "-c"),
    *("-gencode=arch=compute_90a,code=sm_90a", "-maxrregcount=32", "good.cu", "-o", "good.o"),
)


def test_only_flags_that_shape_the_code_are_used_of_a_folder_that_is_opened() -> None:
    words = harmless(HOSTILE, Path("/mine/nvcc"), Path("/mine/good.cu"))
    assert words[0] == "/mine/nvcc"
    assert not [w for w in words if "evil" in w or "wrapper" in w or "run" in w]
    flags = ("-DGOOD=1", "-I", "/good/include", "-isystem", "/good/system", "-std=c++17", "-O2")
    code = ("--use_fast_math", "-gencode=arch=compute_90a,code=sm_90a", "-maxrregcount=32")
    assert words[1:] == (*flags, *code, "/mine/good.cu")


@pytest.mark.parametrize("word", ["$(touch x)", "`touch x`", '";touch x;"', "a\nb"])
def test_words_that_a_shell_would_obey_are_left_out(word: str) -> None:
    """nvcc gives its commands to a shell, with such words inside."""
    joined = (("nvcc", flag + word) for flag in ("-DX=", "-I", "-O", "-std="))
    for argv in (*joined, ("nvcc", "-D", word), ("nvcc", "-isystem", word)):
        assert harmless(argv, Path("n"), Path("k.cu")) == ("n", "k.cu")


CODE = """
__global__ void axpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

namespace other {
__global__ void fill(float* y) {
    y[threadIdx.x] = 1.0f;
}
}
"""


def build_folder(folder: Path, *flags: str) -> Path:
    """A folder as torch leaves it: a source, build.ninja, and the object that nvcc made."""
    found = tool("nvcc")
    saved(folder / "cuda.cu", CODE)
    (folder / "build.ninja").write_text(
        f"""ninja_required_version = 1.3
nvcc = {found}
cuda_cflags = {" ".join(flags)} --expt-relaxed-constexpr -O2 -std=c++17

rule cuda_compile
  depfile = $out.d
  deps = gcc
  command = $nvcc -MD -MF $out.d $cuda_cflags -c $in -o $out

build cuda.cuda.o: cuda_compile {folder / "cuda.cu"}
"""
    )
    subprocess.run(
        [found, *flags, "--expt-relaxed-constexpr", "-O2", "-std=c++17", "-c", folder / "cuda.cu",
         "-o", folder / "cuda.cuda.o"], check=True, capture_output=True,
    )  # fmt: skip
    return folder


def instructions(ptx: bytes) -> list[str]:
    """PTX without what names the file's place and the tool's hour."""
    return [line for line in ptx.decode().splitlines() if not line.startswith(("//", ".file"))]


def copy_of(built: Path, folder: Path) -> Path:
    """A build folder of the same content at another place."""
    shutil.copytree(built, folder)
    ninja_file = folder / "build.ninja"
    at = str(folder).replace("$", "$$").replace(" ", "$ ")
    ninja_file.write_text(ninja_file.read_text().replace(str(built), at))
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_folder(
        tmp_path_factory.mktemp("built") / "axpy", "-gencode=arch=compute_90a,code=sm_90a"
    )


@pytest.mark.nvcc
def test_ptx_is_what_nvcc_writes_with_lineinfo(built: Path, tmp_path: Path) -> None:
    expected = tmp_path / "x.ptx"
    printed(tool("nvcc"), "-arch=sm_90a", "-O2", "-std=c++17", "--expt-relaxed-constexpr", "-ptx",
            "-lineinfo", built / "cuda.cu", "-o", expected)  # fmt: skip
    done = call("show", built, "axpy", "--stage", "ptx")
    assert done.status == 0, done.said
    assert instructions(done.out) == instructions(expected.read_bytes())


@pytest.mark.nvcc
def test_lines_are_carried_over_where_the_code_is_the_same(built: Path) -> None:
    plain = call("show", built, "axpy", "--stage", "sass").out
    (found,) = (f for f in read_folder(built, user_derived_cache()) if isinstance(f, BuiltCubin))
    held = read_cubin(found.cubin)
    assert held is not None and not held.has_lines, "an ordinary build has no line information"
    shown = call("show", built, "axpy", "--stage", "sass", "--json").json
    assert "\n".join(line["text"] for line in shown["lines"]).encode() == plain
    stores = [x for x in shown["lines"] if x["base"] == "STG" and x["source"]]
    wanted = CODE.split("\n").index("        y[i] = a * x[i] + y[i];") + 1
    assert wanted in {x["source"]["line"] for x in stores}
    assert {Path(x["source"]["file"]).name for x in stores} == {"cuda.cu"}


@pytest.mark.nvcc
def test_lines_are_not_carried_over_where_the_source_has_changed(
    built: Path, tmp_path: Path
) -> None:
    folder = copy_of(built, tmp_path / "changed")
    (folder / "cuda.cu").write_text(CODE.replace("a * x[i] + y[i]", "a - x[i] * y[i]"))
    shown = call("show", folder, "axpy", "--stage", "sass", "--json").json
    assert shown["lines"]
    assert not any(line["source"] for line in shown["lines"])


@pytest.mark.nvcc
def test_ptx_that_the_object_carries_is_shown_as_it_is(tmp_path: Path) -> None:
    folder = build_folder(tmp_path / "both", "-gencode=arch=compute_90,code=[compute_90,sm_90]")
    (folder / "build.ninja").unlink()
    (folder / "cuda.cu").unlink()
    printed("sh", "-c", f"cd {tmp_path} && {tool('cuobjdump')} -xptx all {folder}/cuda.cuda.o")
    (carried,) = tmp_path.glob("*.ptx")
    assert call("show", folder, "axpy", "--stage", "ptx").out == carried.read_bytes()


@pytest.mark.nvcc
def test_source_whose_name_a_shell_would_obey_is_not_compiled(built: Path, tmp_path: Path) -> None:
    odd = copy_of(built, tmp_path / "$(touch proof)")
    done = call("show", odd, "axpy", "--stage", "ptx")
    assert done.status == 4 and "odd characters" in done.said
    assert not (odd / "proof").exists() and not Path("proof").exists()
    assert call("show", odd, "axpy", "--stage", "sass").status == 0


@pytest.mark.nvcc
def test_build_that_nvcc_refuses_says_what_nvcc_said(built: Path, tmp_path: Path) -> None:
    folder = copy_of(built, tmp_path / "broken")
    (folder / "cuda.cu").write_text(CODE + "\nthis is no C++;\n")
    done = call("show", folder, "axpy", "--stage", "ptx")
    assert done.status == 4 and not done.out
    assert "nvcc" in done.said and "error" in done.said


def test_without_nvcc_the_reason_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from inspector.system import toolchain

    folder = tmp_path / "folder"
    shutil.copytree(EXTENSION, folder)
    text = (folder / "build.ninja").read_text()
    text = text.replace("/tmp/cap/lecture/ext/square_gelu", str(folder))
    text = text.replace("/usr/local/cuda/bin/nvcc", "/nowhere/nvcc")
    (folder / "build.ninja").write_text(text)
    places = [p for p in toolchain.places() if not (p[1] / "nvcc").exists()]
    monkeypatch.setattr(toolchain, "places", lambda: iter(places))
    find.cache_clear()
    try:
        value = call("list", folder, "--json").json
        variants = list(variants_of(value))
        assert variants
        for _, variant in variants:
            assert "/nowhere/nvcc" in variant["missing"]["ptx"]
    finally:
        find.cache_clear()
