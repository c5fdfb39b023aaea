"""CUDA C++ compiled by an ordinary C++ compiler; device code too, where launches run natively."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
from pathlib import Path

from . import build

INCLUDE = Path(__file__).parent / "include"
CPU_BUILD = INCLUDE / "cpu_build"  # what torch's CPU wheels lack of c10/cuda
_SYNCHRONISES = re.compile(r"__sync(threads|warp)|__shfl_|__ballot_sync|__any_sync|__all_sync")
# Backwards, from the chevrons: each character is looked at once, however long what stands there is.
_NAME = re.compile(r"\s*+\w*+(?<=[A-Za-z_])(?:\s*+::\s*+\w*+(?<=[A-Za-z_]))*+")
# nvcc's flags that mean the same to g++; each may be followed by its value.
_KEPT = ("-D", "-U", "-I", "-isystem", "-std=", "--std=")
_WITH_VALUE = {
    "-o", "-gencode", "--generate-code", "-arch", "--gpu-architecture", "-code", "-ccbin",
    "--compiler-options", "-Xcompiler", "-Xptxas", "--ptxas-options", "-Xcudafe", "-MF", "-MT",
    "-maxrregcount", "--maxrregcount", "-Xnvlink", "-t", "--threads", "-diag-suppress",
    "--diag-suppress", "-x", "-odir", "--output-directory", "-Xfatbin", "-lineinfo=",
}  # fmt: skip


class CannotRewrite(Exception):
    """The source has a form that this rewriting does not know."""


def masked(text: str) -> str:
    """The same text with comments and literals blanked, so that positions stay."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
        re.DOTALL,
    )

    def blank(match: re.Match[str]) -> str:
        return "".join(c if c == "\n" else " " for c in match[0])

    return pattern.sub(blank, text)


def kernel_start(text: str, end: int) -> int:
    """Where the kernel's name, with its template arguments, begins before ``end``."""
    at = end
    while at and text[at - 1].isspace():
        at -= 1
    if at and text[at - 1] == ">":
        depth = 0
        while at:
            at -= 1
            depth += {">": 1, "<": -1}.get(text[at], 0)
            if depth == 0:
                break
    name = _NAME.match(text[max(0, at - 400) : at][::-1])
    if name is None:
        raise CannotRewrite(f"a launch of something unnamed near {text[at - 40 : end]!r}")
    return at - name.end()


def closing(text: str, start: int) -> int:
    """Just past the parenthesis that closes the one before ``start``."""
    depth, at = 1, start
    while depth:
        if at >= len(text):
            raise CannotRewrite("a launch whose arguments never close")
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at


def rewrite(source: str, path: str) -> str:
    """The source with its launches as calls, and our header first."""
    blanked = masked(source)
    pieces: list[str] = []
    done = 0
    for match in re.finditer(r"<<<(?!<)((?:(?!<<<).)*?)>>>\s*+\(", blanked, re.DOTALL):
        if match.start() < done:
            raise CannotRewrite("a launch within a launch's arguments")
        begin = kernel_start(blanked, match.start())
        end = closing(blanked, match.end())
        kernel = source[begin : match.start()]
        configuration = source[match.start(1) : match.end(1)]
        arguments = source[match.end() : end]
        pieces.append(source[done:begin])
        name = kernel.partition("<")[0].rpartition("::")[2].strip()
        launch = f'ptxview_launch({configuration}).named("{name}")'
        pieces.append(f"{launch}([&] {{ {kernel}({arguments}; }})")
        done = end
    pieces.append(source[done:])
    text = re.sub(
        r"extern\s++__shared__\s++((?:(?:__align__|alignas)\s*+\([^()]*+\)\s*+)?)"
        r"((?:(?!(?:extern|__shared__)\b)[\w:]++\s++)*?[\w:]++)\s++(\w++)\s*+\[\s*+\]\s*+;",
        r"\2* \3 = (\2*)ptxview_dynamic_shared;",
        "".join(pieces),
    )
    fibers = int(bool(_SYNCHRONISES.search(blanked)))
    return (
        f'#define PTXVIEW_FIBERS {fibers}\n#include <ptxview_host_cuda.h>\n#line 1 "{path}"\n{text}'
    )


def read(source: Path) -> str:
    """A source's text."""
    return source.read_text(encoding="utf-8", errors="surrogateescape")


def host_flags(argv: list[str]) -> list[str]:
    """nvcc's arguments as g++'s: defines, include paths, language; the rest is for the device."""
    kept: list[str] = []
    items = iter(argv)
    for item in items:
        if item in ("-I", "-D", "-U", "-isystem"):
            kept += [item, next(items, "")]
        elif item in ("-std", "--std"):
            kept.append(f"-std={next(items, '')}")
        elif item.startswith(_KEPT):
            kept.append(item.replace("--std=", "-std="))
        elif item in _WITH_VALUE:
            next(items, "")
    return kept


def cpu_build() -> list[str]:
    """The include path that completes torch's CPU wheels; empty for a CUDA build."""
    torch = build.torch_folder()
    whole = torch and (torch / "include/c10/cuda/impl/cuda_cmake_macros.h").exists()
    return [] if whole else ["-isystem", str(CPU_BUILD)]


def compile_host(
    source: Path, output: Path, argv: list[str], home: str, text: str
) -> subprocess.Popen[str]:
    """Start the host compilation of one .cu file, rewritten to ``text``; raises CannotBuild."""
    cxx = build.compiler()
    if cxx is None:
        raise build.CannotBuild("no C++ compiler was found (g++, or $CXX)")
    digest = hashlib.sha256(f"{source.absolute()} {output.absolute()}".encode()).hexdigest()[:16]
    folder = build.writable(build.cache_root() / "host")
    rewritten = folder / f"{source.stem}-{digest}.cpp"
    rewritten.write_text(text, encoding="utf-8", errors="surrogateescape")
    flags = host_flags(argv)
    if not any(flag.startswith("-std=") for flag in flags):
        flags.append("-std=c++20")
    command = [
        cxx, "-x", "c++", "-c", str(rewritten), "-o", str(output), "-O1", "-w", "-fPIC",
        f"-I{source.parent}", f"-I{INCLUDE}", *flags, *cpu_build(), "-isystem", f"{home}/include",
    ]  # fmt: skip
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )


def symbol(output: Path) -> str:
    """What an object calls the PTX that it holds; each its own."""
    return f"ptxview_ptx_{hashlib.sha256(str(output.absolute()).encode()).hexdigest()[:16]}"


def join(host: Path, ptx: Path, name: str, output: Path) -> str:
    """One object of the host's part and the PTX, by this name; why not, or nothing."""
    text = host.with_suffix(".s")
    quoted = str(ptx).replace("\\", "\\\\").replace('"', '\\"')
    text.write_text(
        f".section .rodata\n.globl {name}, {name}_end\n.hidden {name}, {name}_end\n{name}:\n"
        f'.incbin "{quoted}"\n{name}_end:\n.byte 0\n.section .note.GNU-stack,"",@progbits\n'
    )
    done = subprocess.run(
        [str(build.compiler()), "-r", "-nostdlib", str(host), str(text), "-o", str(output)],
        capture_output=True, text=True, errors="replace",
    )  # fmt: skip
    text.unlink()
    return done.stderr[:2000] if done.returncode else ""


def runtime_archive(home: str) -> Path:
    """The stand-in for libcudart and libc10_cuda, compiled once for each torch and toolkit."""
    torch = build.torch_folder()
    cxx = build.compiler()
    if torch is None or cxx is None:
        raise build.CannotBuild("no C++ compiler was found (g++, or $CXX)")
    source = INCLUDE / "ptxview_runtime.cpp"
    version = build.torch_version(torch)
    digest = hashlib.sha256(f"{version} {home}".encode() + source.read_bytes())
    digest.update((INCLUDE / "ptxview_launch.h").read_bytes())
    place = build.writable(build.cache_root() / "runtime" / digest.hexdigest()[:20])
    archive = place / "libptxview_cudart.a"
    if archive.exists():
        return archive
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if archive.exists():
            return archive
        item = place / "runtime.o"
        done = subprocess.run(
            [
                cxx, "-O1", "-w", "-std=c++20", "-fPIC", "-c", str(source), "-o", str(item),
                f"-D_GLIBCXX_USE_CXX11_ABI={build.new_abi(torch)}", f"-I{INCLUDE}", *cpu_build(),
                f"-I{torch}/include", f"-I{torch}/include/torch/csrc/api/include",
                "-isystem", f"{home}/include",
            ],
            capture_output=True, text=True, errors="replace",
        )  # fmt: skip
        if done.returncode:
            raise build.CannotBuild(f"the CUDA runtime's stand-in: {done.stderr[:400]}")
        part = place / f".{os.getpid()}.a"
        subprocess.run(["ar", "rcs", str(part), str(item)], check=True)
        os.replace(part, archive)
    return archive
