"""Makes a recording of files that are compiled for several targets, with several sets of options.

Every file, target and set of options is one compilation: an event ``compiled`` says what was tried,
how long it took and what the compiler said, and events as builds leave them hold the code. One that
fails is kept with what it said; the others go on.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from inspector import __version__
from inspector.base.errors import PtxviewError, RunFailed, Unreadable, UsageError
from inspector.base.model import BEFORE, EDIT, Kernel, Recording
from inspector.recording.compilations import message_event
from inspector.recording.facts import from_ptxas
from inspector.recording.layout import SCHEMA, Writer, pack, remove
from inspector.sources import machine, triton_ahead
from inspector.sources.builds import ptxas_event
from inspector.sources.compile_job import GoOn
from inspector.sources.compilers import (
    Compiled,
    CompilerInput,
    compile_cuda,
    compile_ptx,
    own_target,
)
from inspector.sources.machine import PROBES
from inspector.sources.opening import open_path
from inspector.sources.running import RunRequest, prepare
from inspector.system import files
from inspector.system.process import side_by_side, stop_tools

Event = dict[str, object]
Say = Callable[[str], None]
DEFAULT_TARGET = "sm_90"
CPU_BUILD = PROBES.parent / "emulator" / "include" / "cpu_build"
LANGUAGES = {
    ".cu": "cuda",
    ".ptx": "ptx",
    ".ttir": "ttir",
    ".ttgir": "ttgir",
    ".llir": "llir",
    ".ll": "llir",
    ".py": "triton",
}
ENDINGS = {
    "cuda": ".cu",
    "ptx": ".ptx",
    "ttir": ".ttir",
    "ttgir": ".ttgir",
    "llir": ".llir",
    "triton": ".py",
}
BY_TRITON = ("ttir", "ttgir", "llir", "triton")
_TORCH = re.compile(rb'^[ \t]*+#[ \t]*+include[ \t]*+[<"](?:torch|ATen|c10)/', re.MULTILINE)
_TTGIR_TARGET = re.compile(r'ttg\.target\s*=\s*"cuda:(\d+)"')


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """What to compile, for which targets (none: each file's own), with which sets of options.

    ``kernels`` are how kernels of Triton's are to be compiled; with none, a program is run for its
    own calls. ``limit`` is the most seconds that one compiler, or the program, may take.
    """

    inputs: tuple[CompilerInput, ...]
    targets: tuple[str, ...] = ()
    options: tuple[tuple[str, ...], ...] = ((),)
    given: triton_ahead.GivenKernels = field(default_factory=triton_ahead.GivenKernels)
    out: Path | None = None
    python: str | None = None
    limit: float = 600.0
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompileOutcome:
    """Where the recording is, what it holds, and how many compilations failed."""

    path: Path
    recording: Recording
    failed: int


def language_of(path: str, asked: str | None) -> str:
    """The language of a file: the one asked for, else what its name says.

    Raises ``UsageError`` where neither says one.
    """
    language = asked or LANGUAGES.get(Path(path).suffix.lower())
    if language is None:
        what = (
            "standard input has no name" if path == "-" else f"{path} has no ending that is known"
        )
        raise UsageError(
            f"{what}: give the language of it",
            "--language cuda, ptx, ttir, ttgir, llir or triton",
        )
    return language


def read_input(path: str, asked: str | None) -> CompilerInput:
    """A file to compile. Raises ``Unreadable`` if it is missing or empty."""
    language = language_of(path, asked)
    real = Path(path)
    if real.is_dir():
        raise Unreadable(f"{path} is a folder", "Give a file, or several.")
    if not real.exists():
        raise Unreadable(
            f"{path} does not exist", "Give a .cu .ptx .ttir .ttgir .llir or .py file."
        )
    data = files.read(real)
    return checked(CompilerInput(real, path, language, data))


def checked(source: CompilerInput) -> CompilerInput:
    """The input, unless it is empty or no text. Raises ``Unreadable``."""
    if not source.data.strip():
        raise Unreadable(f"{source.name} is empty")
    if b"\0" in source.data[:65536].rstrip(b"\0\n"):
        raise Unreadable(
            f"{source.name} is binary, and no {source.language}",
            "ptxview open reads cubins, objects and recordings.",
        )
    return source


def targets_of(source: CompilerInput, asked: Sequence[str]) -> tuple[str, ...]:
    """The targets of a file: those asked for, else the one that it names itself, else sm_90."""
    if asked:
        return tuple(asked)
    if source.language == "ptx":
        return (own_target(source.text) or DEFAULT_TARGET,)
    if source.language == "ttgir" and (match := _TTGIR_TARGET.search(source.text)):
        return (f"sm_{match[1]}",)
    return (DEFAULT_TARGET,)


def compile_files(request: CompileRequest, say: Say, go_on: GoOn = lambda: True) -> CompileOutcome:
    """Compile everything, and give the recording of it.

    Raises ``ToolMissing`` where a compiler is not there, ``Unreadable`` and ``UsageError`` where
    nothing could be begun. What fails to compile raises nothing.
    """
    folder, pack_to = _place(request)
    writer = Writer(folder)
    try:
        targets = dict.fromkeys(t for s in request.inputs for t in targets_of(s, request.targets))
        writer.event(
            event="recording",
            schema=SCHEMA,
            time=time.time(),
            ptxview=__version__,
            command=list(request.command),
            cwd=str(Path.cwd()),
            mode="target",
            started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            target=", ".join(targets),
        )
        for event in _machine_code(request, writer, say, go_on):
            writer.event(**event)
        triton = [s for s in request.inputs if s.language in BY_TRITON]
        if triton:
            _by_triton(request, triton, writer, say, go_on)
        recording = open_path(folder)
        failed = sum(one.failed is not None for one in recording.compilations)
        writer.event(event="end", time=time.time(), exit_status=int(failed > 0))
        writer.close()
        return _closed(folder, pack_to, failed)
    except BaseException:
        stop_tools()
        writer.close()
        remove(folder)
        raise


def with_before(now: Recording, before: Recording) -> Recording:
    """A recording with the variants of an earlier one beside those that took their places.

    Their configuration says so: ``edit=before``. What is the same code is there once.
    """
    earlier = {kernel.id: kernel for kernel in before.kernels}

    def kernel(one: Kernel) -> Kernel:
        made = {variant.hash for variant in one.variants}
        old = earlier.get(one.id)
        kept = (
            []
            if old is None
            else [
                replace(v, config={**v.config, EDIT: BEFORE})
                for v in old.variants
                if v.hash not in made and v.config.get(EDIT) != BEFORE
            ]
        )
        return replace(one, variants=(*one.variants, *kept))

    return replace(
        now,
        kernels=tuple(kernel(one) for one in now.kernels),
        compilations=(*now.compilations, *before.compilations),
    )


def _place(request: CompileRequest) -> tuple[Path, Path | None]:
    """The folder to record into, and the file to pack it into. Raises ``UsageError``."""
    name = Path(request.inputs[0].name).name
    try:
        return prepare(RunRequest("script", (name if name != "-" else "stdin",), request.out))
    except RunFailed as error:
        raise UsageError(error.message, error.hint) from None


def _closed(folder: Path, pack_to: Path | None, failed: int) -> CompileOutcome:
    if pack_to is None:
        return CompileOutcome(folder, open_path(folder), failed)
    try:
        pack(folder, pack_to)
    except OSError as error:
        raise Unreadable(f"{pack_to} cannot be written: {error.strerror or error}") from None
    remove(folder)
    return CompileOutcome(pack_to, open_path(pack_to), failed)


# -- nvcc and ptxas -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Job:
    source: CompilerInput
    target: str
    options: tuple[str, ...]


def _machine_code(
    request: CompileRequest, writer: Writer, say: Say, go_on: GoOn
) -> Iterator[Event]:
    """The events of all files of CUDA C++ and PTX, whose compilers run side by side."""
    jobs = [
        _Job(source, target, options)
        for source in request.inputs
        if source.language in ("cuda", "ptx")
        for target in targets_of(source, request.targets)
        for options in request.options
    ]
    every = [word for options in request.options for word in options]
    more = {
        s.name: _for_torch(s, request.python, every) for s in request.inputs if s.language == "cuda"
    }

    def run(job: _Job) -> Compiled | PtxviewError:
        try:
            if job.source.language == "ptx":
                return compile_ptx(
                    job.source, job.target, job.options, seconds=request.limit, go_on=go_on
                )
            return compile_cuda(
                job.source,
                job.target,
                job.options,
                more=more[job.source.name],
                seconds=request.limit,
                go_on=go_on,
            )
        except PtxviewError as error:
            return error

    with closing(side_by_side(run, jobs)) as compiled:
        for number, (job, made) in enumerate(zip(jobs, compiled, strict=True), 1):
            if isinstance(made, PtxviewError):
                raise made
            told = "" if made.failed is None else f": {made.failed}"
            say(f"{number} of {len(jobs)}: {job.source.name} for {job.target}{told}")
            yield from _events(job, made, writer)


def _for_torch(source: CompilerInput, python: str | None, options: Sequence[str]) -> list[str]:
    """Options for a file that includes torch's headers: the folders of all that they need.

    cuBLAS, cuSPARSE and cuSOLVER, which ``ATen/cuda/CUDAContext.h`` includes, come with CUDA builds
    of torch; they are looked at last, since the compiler has the rest of CUDA itself.
    """
    if not _TORCH.search(source.data):
        return []
    found = machine.versions(machine.interpreter(python))
    folder, own = found.get("torch_folder"), found.get("include_folder")
    if folder is None:
        return []
    include = Path(folder) / "include"
    places = [
        include,
        include / "torch" / "csrc" / "api" / "include",
        *([Path(own)] if own else []),
    ]
    if not (include / "c10" / "cuda" / "impl" / "cuda_cmake_macros.h").exists():
        places.append(CPU_BUILD)  # what torch's CPU wheels leave out
    out = [f"-I{place}" for place in places]
    wheels = Path(folder).parent / "nvidia"
    for name in ("cublas_v2.h", "cusparse.h", "cusolverDn.h"):
        headers = sorted(wheels.glob(f"*/include/{name}"))
        out += [f"-Xcompiler=-idirafter,{header.parent}" for header in headers]
    if not any(word.lstrip("-").startswith("std") for word in options):
        out.append("-std=c++20")
    return [*dict.fromkeys(out), "--expt-relaxed-constexpr"]  # as torch builds extensions


def _events(job: _Job, made: Compiled, writer: Writer) -> Iterator[Event]:
    source = job.source
    digest = None
    code = made.cubin or made.ptx or (source.data if source.language == "cuda" else None)
    if code is not None:
        digest = hashlib.sha256(code).hexdigest()
    event: Event = {
        "event": "device_code",
        "time": time.time(),
        "object": source.name,
        "arch": job.target,
        "flags": list(job.options),
        "sha256": digest,
        "why": made.failed,
    }
    if source.language == "cuda":
        event |= {
            "source": str(source.path.absolute()),
            "source_blob": writer.blob(source.data),
            "directory": str(Path.cwd()),
            "ptx_from": "nvcc, on the way to the machine code",
            "ptx_command": list(made.command),
        }
    else:
        event |= {"origin": "file", "ptx_from": f"the file {source.name}"}
    for key, data in (("ptx", made.ptx), ("cubin", made.cubin), ("lineinfo_cubin", made.cubin)):
        if data is not None:
            event[key] = writer.blob(data)
    yield event
    if made.cubin is not None and digest is not None:
        for symbol, figures in from_ptxas(made.printed).items():
            yield ptxas_event(digest, symbol, figures)
    yield {
        "event": "compiled",
        "time": time.time(),
        "file": source.name,
        "language": source.language,
        "target": job.target,
        "options": shlex.join(job.options),
        "hash": digest,
        "symbols": list(made.symbols),
        "seconds": made.seconds,
        "tool": made.tool,
        "command": list(made.command),
        "read": list(made.read),
        "failed": made.failed,
        "messages": [message_event(message) for message in made.messages],
    }


# -- Triton ---------------------------------------------------------------------------------------


def _by_triton(
    request: CompileRequest, inputs: Sequence[CompilerInput], writer: Writer, say: Say, go_on: GoOn
) -> None:
    """Have Triton compile what is its own, in the user's interpreter, which writes the events."""
    python = machine.interpreter(request.python)
    for source in inputs:
        say(
            f"running {source.name} for its calls"
            if source.language == "triton" and request.given.signature is None
            else f"{source.name} through Triton"
        )
        columns = tuple(
            (target, options)
            for target in targets_of(source, request.targets)
            for options in request.options
        )
        job = triton_ahead.AheadJob(source, columns, request.given, python, request.limit)
        said = triton_ahead.compile_by_triton(job, writer, go_on)
        if said is not None:
            say(said)
            writer.event(event="problem", time=time.time(), where=source.name, text=said)
