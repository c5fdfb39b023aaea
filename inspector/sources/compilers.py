"""Compiles one file for one target: CUDA C++ with nvcc, PTX with ptxas.

Both are asked for line information, so that machine code is linked to PTX and source, and for their
figures (``-v``). Triton's compiler runs in the user's interpreter and is ``triton_ahead``'s.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from inspector.base.errors import PtxviewError, ToolMissing, Unreadable, UsageError
from inspector.base.model import CompilerMessage
from inspector.listing.cubin import read_cubin
from inspector.listing.ptx_statement import entries
from inspector.recording.compilations import first_error
from inspector.sources.compile_job import CompileJob, GoOn, with_file
from inspector.system import files
from inspector.system.toolchain import PURPOSE, Tool, need, newest_first, path_folders

_NOT_FOR_IT = re.compile(r"Value '\w+' is not defined for option 'gpu-name'|Unsupported \.version")
# nvcc hands its own commands to a shell, and quotes in a way that $(…) and `…` survive.
_PLAIN = re.compile(r"[\w.,/+=:%@\[\] -]+")
_TARGET = re.compile(r"^[^\S\n]*\.target\s+([\w.]+)", re.MULTILINE)
# What is decided by --target and by what is kept; the rest is the compiler's own.
_OURS = re.compile(
    r"(?:--?(?:o|output-file|c|compile|ptx|cubin|fatbin|dc|dlink|E|run|gencode|generate-code|arch|"
    r"gpu-architecture|code|gpu-code|gpu-name|keep|save-temps|keep-dir|dryrun|time))(?:=.*)?|-arch=.*"
)
_DEBUG = ("-G", "--device-debug", "-g", "--device-debug-info")


@dataclass(frozen=True, slots=True)
class CompilerInput:
    """A file to compile: ``path`` is its place, ``name`` what the user called it.

    ``language`` is cuda, ptx, ttir, ttgir, llir or triton; ``data`` its content.
    """

    path: Path
    name: str
    language: str
    data: bytes

    @property
    def text(self) -> str:
        """The content as text, with surrogate escapes."""
        return self.data.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a compiler made: PTX and a cubin if it got there, and its messages.

    ``failed`` is one sentence on why there is no cubin; ``printed`` is what ptxas says with
    ``-v``; ``read`` are the user's own files that it includes.
    """

    ptx: bytes | None = None
    cubin: bytes | None = None
    seconds: float | None = None
    tool: str | None = None
    command: tuple[str, ...] = ()
    failed: str | None = None
    messages: tuple[CompilerMessage, ...] = ()
    printed: str = ""
    read: tuple[str, ...] = ()

    @property
    def symbols(self) -> tuple[str, ...]:
        """The kernels in it."""
        cubin = None if self.cubin is None else read_cubin(self.cubin)
        if cubin is not None:
            return cubin.entries
        text = "" if self.ptx is None else self.ptx.decode("utf-8", "surrogateescape")
        return tuple(dict.fromkeys(name for name, _ in entries(text)))


def check_options(options: Sequence[str], language: str) -> None:
    """Raise ``UsageError`` for an option that is not the user's to give, or not this compiler's."""
    for word in options:
        if language in ("cuda", "ptx") and _OURS.fullmatch(word):
            raise UsageError(
                f"{word} cannot be given: what is compiled for and kept is decided here",
                "Targets are given with --target.",
            )
        if language in ("cuda", "ptx") and re.fullmatch(r"num_\w+=\d+", word):
            tool = "nvcc" if language == "cuda" else "ptxas"
            raise UsageError(
                f"{word} is an option of Triton's, and {tool} has none of that kind",
                "Compile files of different languages one after the other.",
            )


def own_target(text: str) -> str | None:
    """The target that PTX names itself; None if it names none."""
    match = _TARGET.search(text)
    return match[1] if match else None


def compile_cuda(
    source: CompilerInput,
    target: str,
    options: Sequence[str],
    *,
    more: Sequence[str] = (),
    seconds: float = 600,
    go_on: GoOn | None = None,
) -> Compiled:
    """CUDA C++ for one target with nvcc; ``more`` are further options. Raises ``ToolMissing``."""
    tool = need("nvcc")
    path = source.path.absolute()
    if not _PLAIN.fullmatch(str(path)):
        raise Unreadable(
            f"{source.name} cannot be compiled: nvcc would obey the odd characters in its path",
            "Rename it, or give it on standard input: ptxview compile - --language cuda",
        )
    arch = target.removeprefix("sm_")
    lines = [] if any(word in _DEBUG for word in options) else ["-lineinfo"]
    with tempfile.TemporaryDirectory(prefix="ptxview-") as name:
        folder = Path(name)
        argv = [
            str(tool.path),
            *options,
            *more,
            f"-gencode=arch=compute_{arch},code=sm_{arch}",
            "-cubin",
            *lines,
            "-Xptxas",
            "-v",
            "-MD",
            "-MF",
            str(folder / "read"),
            "--keep",
            "--keep-dir",
            str(folder),
            str(path),
            "-o",
            str(folder / "made.cubin"),
        ]
        path_list = os.pathsep.join([str(tool.path.parent), *path_folders()])
        env = {**os.environ, "PATH": path_list, "TMPDIR": str(folder)}  # it leaves files there
        job = CompileJob(
            argv,
            "nvcc",
            {path.name: source.name},
            {path.name: source.text},
            env,
            seconds,
            go_on,
            reads_files=True,
        )

        def ptx() -> tuple[str, bytes | None]:
            kept = next(iter(sorted(folder.glob("*.ptx"))), None)
            return ("", None) if kept is None else (kept.name, files.read(kept))

        made = _compiled(job, tool, folder / "made.cubin", ptx)
        return replace(made, read=_included(folder / "read", tool))


def _included(listed: Path, tool: Tool) -> tuple[str, ...]:
    """The files that nvcc read, but for the system's, torch's and its own."""
    try:
        text = files.text(listed)
    except (PtxviewError, OSError):
        return ()
    known = ("/usr/", str(tool.path.parents[1]), os.path.realpath(tool.path.parents[1]))
    paths = text.replace("\\\n", " ").split()[1:]
    return tuple(
        p
        for p in paths
        if Path(p).is_absolute() and not p.startswith(known) and "/site-packages/" not in p
    )


def compile_ptx(
    source: CompilerInput,
    target: str,
    options: Sequence[str],
    *,
    seconds: float = 600,
    go_on: GoOn | None = None,
    by: Sequence[Tool] = (),
) -> Compiled:
    """PTX for one target with the newest ptxas that knows it, or with one of those in ``by``.

    Raises ``ToolMissing``.
    """
    tools = tuple(by) or assemblers()
    if not tools:
        raise ToolMissing(
            "ptxas was not found; it is needed for the machine code of PTX",
            f"Get it: {PURPOSE['ptxas'][1]}, or pip install 'ptxview[cuda]'",
        )
    lines = [] if any(word in _DEBUG for word in options) else ["-lineinfo"]
    best: Compiled | None = None
    with tempfile.TemporaryDirectory(prefix="ptxview-") as name:
        file, out = Path(name) / "input.ptx", Path(name) / "made.cubin"
        file.write_bytes(source.data)
        for tool in tools:
            argv = [
                str(tool.path),
                "-v",
                *lines,
                *options,
                f"--gpu-name={target}",
                str(file),
                "-o",
                str(out),
            ]
            job = CompileJob(
                argv,
                "ptxas",
                {file.name: source.name},
                {file.name: source.text},
                None,
                seconds,
                go_on,
                reads_files=True,
            )
            made = _compiled(job, tool, out, lambda: (file.name, source.data))
            if made.failed is None or not _NOT_FOR_IT.search(made.printed):
                return made
            best = best or made
    assert best is not None
    return best


@cache
def assemblers() -> tuple[Tool, ...]:
    """Every ptxas, the newest first: older ones know targets that the newest lacks."""
    return tuple(newest_first("ptxas"))


def _compiled(
    job: CompileJob, tool: Tool, out: Path, ptx: Callable[[], tuple[str, bytes | None]]
) -> Compiled:
    """Run nvcc or ptxas. ``out`` is where the cubin is written; ``ptx`` gives the PTX and its file
    name once it has ended."""
    named = f"{tool.name} {tool.version}" if tool.version else tool.name
    began = time.monotonic()
    try:
        done = job.run()
    except Unreadable as error:
        why = f"{tool.path.name} {error.message.partition(' ')[2]}"
        return Compiled(None, None, time.monotonic() - began, named, tuple(job.argv), why)
    took = time.monotonic() - began
    name, text = ptx()
    if name and name not in job.names:
        texts = {**job.texts, name: _text(text)}
        job = replace(job, names={**job.names, name: "ptx"}, texts=texts)
    printed = (done.err + done.out).decode("utf-8", "replace")
    messages = with_file(job.messages(printed), next(iter(job.names.values())))
    cubin = files.read(out) if done.status == 0 and out.is_file() else None
    failed: str | None = None
    if cubin is None:
        last = next((r for r in reversed(printed.splitlines()) if r.strip()), "")
        failed = first_error(messages) or last or f"{job.tool} ended with status {done.status}"
        if done.status < 0:
            failed = f"{job.tool} was ended by signal {-done.status}"
    return Compiled(text, cubin, took, named, tuple(job.argv), failed, messages, printed)


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode("utf-8", "replace")
