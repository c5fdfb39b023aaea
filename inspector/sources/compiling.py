"""Makes a recording of files that are compiled for several targets, with several sets of options.

Every file, target and set of options is one compilation: an event ``compiled`` has its time and
messages, and events as builds leave them hold the code. One that fails is kept; the others go on.
Triton compiles a program's kernels in the user's interpreter: the program is run once on the
emulated device, and each kernel that it launches is compiled for every target; where signatures are
given its module is only imported. A child that dies of a compilation is started again without it.
A file of Triton's IR goes through the stages that follow it, each time in a new child process.
"""

import ast
import datetime
import hashlib
import itertools
import json
import os
import re
import shlex
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from inspector import __version__
from inspector.base.errors import PtxviewError, RunFailed, ToolMissing, Unreadable, UsageError
from inspector.base.model import BEFORE, EDIT, Kernel, Recording, Stage
from inspector.base.names import at_commas
from inspector.recording.compiler_messages import first_error, message_event
from inspector.recording.layout import SCHEMA, BytesContent, Writer, pack, read_events, remove
from inspector.recording.resources import from_ptxas
from inspector.sources.builds import ptxas_event
from inspector.sources.compilers import (
    NO_TRITON,
    Compiled,
    CompilerInput,
    GoOn,
    Say,
    StageJob,
    StagesMade,
    compile_cuda,
    compile_on,
    compile_ptx,
    death_of,
    no_triton,
    own_target,
    triton_environment,
)
from inspector.sources.opening import kernels_of, open_path
from inspector.sources.running import RunRequest, prepare
from inspector.sources.traces import Event
from inspector.system import files, toolchain
from inspector.system.process import Finished, run_tool, side_by_side, stop_tools
from inspector.system.toolchain import PROBES

MAIN = "ptxview_probes.cross_compile.compile_job"
DOES_NOT_FIT = 2
MAX_DEATHS = 20
"""Times that a child is started again because a compilation has ended it."""

_TYPES = re.compile(
    r"\*?(?:k?\*)?(?:i1|u1|[iu](?:8|16|32|64)|fp?(?:16|32|64)|bf16|fp8e\w+|B|nvTmaDesc"
    r"|tensordesc<.+>|\(.*\))(?::(?:16|1))?"
)
_DTYPES = {
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float64": "fp64",
    "int32": "i32",
    "int64": "i64",
    "int8": "i8",
    "bool": "i1",
    "float": "fp32",
    "int": "i32",
    "half": "fp16",
    "double": "fp64",
}
# The architectures that can be emulated are those whose limits are known (reference/devices.toml).
_EMULATED = (75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121)


class KernelOptions(Struct, frozen=True):
    """How kernels are to be compiled where no call says so: types and constants by argument.
    ``signature`` is None where a program's own calls are to say it."""

    names: tuple[str, ...] = ()
    signature: Mapping[str, str] | None = None
    constexprs: Mapping[str, object] = field(default_factory=dict)


def signature_of(text: str) -> dict[str, str]:
    """``x: *fp32:16, n: i32`` by argument. Raises ``UsageError`` where a type is not Triton's."""
    out: dict[str, str] = {}
    for part in filter(None, at_commas(text, "<([", ">)]")):
        name, colon, kind = (word.strip() for word in part.partition(":"))
        kind = kind.replace(" ", "")
        if not colon or not name.isidentifier() or not kind:
            raise UsageError(
                f"{part!r} in --signature is not an argument",
                "Write --signature 'x: *fp32:16, n: i32': a name, a type, and :16 where it is "
                "divisible by 16.",
            )
        if not _TYPES.fullmatch(kind):
            base_type = kind.lstrip("*").partition(":")[0].removeprefix("torch.")
            triton_type = _DTYPES.get(base_type)
            raise UsageError(
                f"{kind} is not a type of Triton's",
                f"Triton writes {kind.replace(base_type, triton_type).replace('torch.', '')}."
                if triton_type
                else "Types are i1 i8 i16 i32 i64 u8 … fp16 bf16 fp32 fp64, and * of each.",
            )
        out[name] = kind
    return out


def settings(words: Sequence[str], option: str = "") -> dict[str, object]:
    """``BLOCK=1024`` by name, the value as in Python, else as text. Raises ``UsageError``."""
    out: dict[str, object] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(
                f"{option} {word} has no value"
                if option
                else f"{word} is not an option of Triton's",
                "Triton's options are written like num_warps=8, constants like BLOCK=1024.",
            )
        out[name] = text
        with suppress(ValueError, SyntaxError):
            out[name] = ast.literal_eval(text)
    return out


class AheadJob(Struct, frozen=True):
    """A file that Triton compiles, for these columns: a target and options, as they are shown."""

    source: CompilerInput
    columns: tuple[tuple[str, tuple[str, ...]], ...]
    kernel_options: KernelOptions
    python: str
    limit: float


def compile_by_triton(job: AheadJob, writer: Writer, go_on: GoOn) -> str | None:
    """Have everything of a file compiled; a sentence where the program itself ended badly.

    Raises ``ToolMissing`` where the interpreter has no Triton, ``Unreadable`` where nothing was
    compiled, ``UsageError`` where signatures do not fit the kernels.
    """
    with tempfile.TemporaryDirectory(prefix="ptxview-") as name:
        folder = Path(name)
        (folder / "done").touch()
        job_file, path = folder / "job.json", job.source.path.absolute()
        job_file.write_text(json.dumps(_job_fields(job, path, folder)), "utf-8")
        own_calls = job.kernel_options.signature is None
        argv = [job.python, *([str(path)] if own_calls else ["-m", MAIN])]
        env = _environment(job, writer.folder, job_file, folder)
        compiled_before = _compiled(writer.folder)
        for _ in range(MAX_DEATHS):
            try:
                ended = run_tool(argv, env=env, seconds=job.limit, go_on=go_on)
            except Unreadable:
                if _compiled(writer.folder) == compiled_before:
                    raise Unreadable(
                        f"{job.source.name} took longer than {job.limit:g} s, and launched nothing",
                        "Give it more with --limit, or say how to compile its kernels with "
                        "--signature.",
                    ) from None
                return f"it was ended after {job.limit:g} s (--limit)"
            if ended.status >= 0 or not (folder / "doing").exists():
                break
            _died(job, path.name, writer, folder, ended)
        return _ended(job, ended, writer.folder, compiled_before, own_calls)


def _job_fields(job: AheadJob, path: Path, folder: Path) -> dict[str, object]:
    columns = [
        {"target": target, "options": shlex.join(options), "settings": settings(options)}
        for target, options in job.columns
    ]
    signature = job.kernel_options.signature
    return {
        "file": job.source.name,
        "path": str(path),
        "language": job.source.language,
        "columns": columns,
        "kernels": list(job.kernel_options.names),
        "signature": None if signature is None else dict(signature),
        "constexprs": dict(job.kernel_options.constexprs),
        **{name: str(folder / name) for name in ("done", "doing", "said")},
    }


def _environment(job: AheadJob, recording: Path, job_file: Path, folder: Path) -> dict[str, str]:
    env = triton_environment(folder, as_recorded=False)
    python_path = env.get("PYTHONPATH")
    first = [str(PROBES), *([python_path] if python_path else [])]
    # The program sees the target's device, else the next one whose limits are known.
    number = int(re.sub(r"\D", "", job.columns[0][0]))
    device = max((n for n in _EMULATED if n <= number), default=_EMULATED[0])
    return env | {
        "PYTHONPATH": os.pathsep.join(first),
        "PTXVIEW_RECORDING": str(recording),
        "PTXVIEW_COMPILE": str(job_file),
        "PTXVIEW_TARGET": f"sm_{device}",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }


def _died(job: AheadJob, file: str, writer: Writer, folder: Path, ended: Finished) -> None:
    """Record a compilation that ended its process; it is not tried again."""
    doing, output_file = folder / "doing", folder / "said"
    read = files.parsed(files.read(doing))
    fields = read if isinstance(read, dict) else {}
    parts = [str(p) for p in fields.get("parts", [])]
    doing.unlink()
    with (folder / "done").open("a") as done_file:
        done_file.write(f"{fields.get('key')}\n")
    printed = (
        files.text(output_file) if output_file.is_file() else ended.err.decode("utf-8", "replace")
    )
    failed, messages = death_of(printed, ended.status, file, job.source.name, job.source.text)
    config: dict[str, object] = {}  # of a kernel as the child noted it
    with suppress(ValueError, SyntaxError, TypeError):
        config = dict(ast.literal_eval(parts[1])) if len(parts) > 4 else {}
    writer.event(
        event="compiled",
        time=time.time(),
        file=job.source.name,
        language=job.source.language,
        kernel=parts[0] if parts else None,
        target=parts[-2] if len(parts) > 1 else "",
        options=parts[-1] if parts else "",
        signature=parts[2] if len(parts) > 4 else "",
        config=config,
        failed=failed,
        messages=[message_event(message) for message in messages],
    )


_EXCEPTION = re.compile(
    r"[\w.]*(?:Error|Exception|Failure|Interrupt|Exit|Refused)\w*(?:: .*|\(.*)?"
)


def _compiled(folder: Path) -> int:
    """How many compilations a recording holds by now."""
    try:
        return sum(e.get("event") == "compiled" for e in read_events(folder).events)
    except PtxviewError:
        return 0


def _ended(
    job: AheadJob, ended: Finished, folder: Path, compiled_before: int, own_calls: bool
) -> str | None:
    """What is to be said of a child that has ended, or raised."""
    rows = [r.strip() for r in ended.err.decode("utf-8", "replace").splitlines() if r.strip()]
    errors = [row for row in rows[-50:] if _EXCEPTION.fullmatch(row)]
    last = (errors or rows or [""])[-1][:500]  # in which a program's end says what was wrong
    name = job.source.name
    if not own_calls and ended.status == NO_TRITON:
        raise no_triton(job.python, name)
    if not own_calls and ended.status == DOES_NOT_FIT:
        refusals = [e for e in read_events(folder).events if e.get("event") == "refused"]
        raise UsageError(str(refusals[-1].get("text")) if refusals else last)
    if _compiled(folder) > compiled_before:
        return None if ended.status == 0 else f"{name} ended with status {ended.status}: {last}"
    if "No module named 'triton'" in last:
        raise ToolMissing(
            f"{job.python} has no Triton, which {name} imports",
            "Get it: pip install triton, or name another interpreter with --python.",
        )
    if ended.status != 0:
        raise Unreadable(
            f"{name} ended with status {ended.status} before it compiled anything: {last}",
            "Run it alone with ptxview run to see all that it says, or say how to compile its "
            "kernels with --signature.",
        )
    raise Unreadable(
        f"{name} launched no kernel of Triton's",
        "Say how to compile its kernels: --signature 'x: *fp32:16, n: i32' --constexpr BLOCK=1024. "
        f"Those of another language compile under ptxview run --target {DEFAULT_TARGET} {name}",
    )


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
ENDINGS = {language: ending for ending, language in reversed(LANGUAGES.items())}
BY_TRITON = ("ttir", "ttgir", "llir", "triton")
_TORCH = re.compile(rb'^[ \t]*+#[ \t]*+include[ \t]*+[<"](?:torch|ATen|c10)/', re.MULTILINE)
_TTGIR_TARGET = re.compile(r'ttg\.target\s*=\s*"cuda:(\d+)"')


class CompileRequest(Struct, frozen=True):
    """What to compile, for which targets (none: each file's own), with which sets of options.

    ``kernels`` are how kernels of Triton's are to be compiled; with none, a program is run for its
    own calls. ``limit`` is the most seconds that one compiler, or the program, may take.
    """

    inputs: tuple[CompilerInput, ...]
    targets: tuple[str, ...] = ()
    options: tuple[tuple[str, ...], ...] = ((),)
    kernel_options: KernelOptions = field(default_factory=KernelOptions)
    out: Path | None = None
    python: str | None = None
    limit: float = 600.0
    command: tuple[str, ...] = ()


class CompileOutcome(Struct, frozen=True):
    """Where the recording is, what it holds, and how many compilations failed."""

    path: Path
    recording: Recording
    failed: int


def language_of(path: str, language_option: str | None) -> str:
    """The language of a file: the one asked for, else what its name says. Raises ``UsageError``
    where neither says one."""
    language = language_option or LANGUAGES.get(Path(path).suffix.lower())
    if language is None:
        problem = (
            "standard input has no name" if path == "-" else f"{path} has no ending that is known"
        )
        raise UsageError(
            f"{problem}: give the language of it",
            "--language cuda, ptx, ttir, ttgir, llir or triton",
        )
    return language


def read_input(path: str, language_option: str | None) -> CompilerInput:
    """A file to compile. Raises ``Unreadable`` if it is missing or empty."""
    language = language_of(path, language_option)
    real = Path(path)
    if real.is_dir():
        raise Unreadable(f"{path} is a folder", "Give a file, or several.")
    if not real.exists():
        raise Unreadable(
            f"{path} does not exist", "Give a .cu .ptx .ttir .ttgir .llir or .py file."
        )
    return checked(CompilerInput(real, path, language, files.read(real)))


def checked(source: CompilerInput) -> CompilerInput:
    if not source.data.strip():
        raise Unreadable(f"{source.name} is empty")
    if b"\0" in source.data[:65536].rstrip(b"\0\n"):
        raise Unreadable(
            f"{source.name} is binary, and no {source.language}",
            "ptxview open reads cubins, objects and recordings.",
        )
    return source


def targets_of(source: CompilerInput, target_options: Sequence[str]) -> tuple[str, ...]:
    """The targets of a file: those asked for, else the one that it names itself, else sm_90."""
    if target_options:
        return tuple(target_options)
    if source.language == "ptx":
        return (own_target(source.data) or DEFAULT_TARGET,)
    if source.language == "ttgir" and (match := _TTGIR_TARGET.search(source.text)):
        return (f"sm_{match[1]}",)
    return (DEFAULT_TARGET,)


def compile_files(request: CompileRequest, say: Say, go_on: GoOn = lambda: True) -> CompileOutcome:
    """Compile everything, and give the recording of it.

    Raises ``ToolMissing`` where a compiler is not there, ``Unreadable`` and ``UsageError`` where
    nothing could be begun. What fails to compile raises nothing.
    """
    name = Path(request.inputs[0].name).name
    words = (name if name != "-" else "stdin",)
    try:
        folder, pack_to = prepare(RunRequest("script", words, request.out))
    except RunFailed as error:
        raise UsageError(error.message, error.hint) from None
    writer = Writer(folder)
    try:
        writer.event(**_first_event(request))
        for event in _compiled_alone(request, writer, say, go_on):
            writer.event(**event)
        _compile_triton(request, writer, say, go_on)
        recording = open_path(folder)
        failed = sum(compilation.failed is not None for compilation in recording.compilations)
        writer.event(event="end", time=time.time(), exit_status=int(failed > 0))
        writer.close()
        if pack_to is None:
            return CompileOutcome(folder, open_path(folder), failed)
        try:
            pack(folder, pack_to)
        except OSError as error:
            raise Unreadable(f"{pack_to} cannot be written: {error.strerror or error}") from None
        remove(folder)
        return CompileOutcome(pack_to, open_path(pack_to), failed)
    except BaseException:
        stop_tools()
        writer.close()
        remove(folder)
        raise


def _first_event(request: CompileRequest) -> dict[str, object]:
    """The event of the run: the command, and the targets of all files."""
    targets: dict[str, None] = {}
    for source in request.inputs:
        targets |= dict.fromkeys(targets_of(source, request.targets))
    return {
        "event": "recording",
        "schema": SCHEMA,
        "time": time.time(),
        "ptxview": __version__,
        "command": list(request.command),
        "cwd": str(Path.cwd()),
        "mode": "target",
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "target": ", ".join(targets),
    }


def _compile_triton(request: CompileRequest, writer: Writer, say: Say, go_on: GoOn) -> None:
    """Run the Python files with Triton kernels, which are compiled for every target."""
    for source in request.inputs:
        if source.language != "triton":
            continue
        if request.kernel_options.signature is None:
            say(f"running {source.name} for its calls")
        else:
            say(f"{source.name} through Triton")
        targets = targets_of(source, request.targets)
        columns = tuple(itertools.product(targets, request.options))
        python = toolchain.interpreter(request.python)
        job = AheadJob(source, columns, request.kernel_options, python, request.limit)
        problem = compile_by_triton(job, writer, go_on)
        if problem is not None:
            say(problem)
            writer.event(event="problem", time=time.time(), where=source.name, text=problem)


def with_before(current: Recording, previous: Recording) -> Recording:
    """A recording with the variants of an earlier one beside those that took their places. Their
    configuration says so: ``edit=before``. What is the same code is there once."""
    variants_by_kernel = {kernel.id: kernel.variants for kernel in previous.kernels}

    def with_previous(kernel: Kernel) -> Kernel:
        hashes = {variant.hash for variant in kernel.variants}
        previous_variants = (
            replace(v, config={**v.config, EDIT: BEFORE})
            for v in variants_by_kernel.get(kernel.id, ())
            if v.hash not in hashes and v.config.get(EDIT) != BEFORE
        )
        return replace(kernel, variants=(*kernel.variants, *previous_variants))

    return replace(
        current,
        kernels=tuple(with_previous(kernel) for kernel in current.kernels),
        compilations=(*current.compilations, *previous.compilations),
    )


_Job = tuple[CompilerInput, str, tuple[str, ...]]
"""A file, a target and options."""


def _compiled_alone(
    request: CompileRequest, writer: Writer, say: Say, go_on: GoOn
) -> Iterator[Event]:
    """The events of all files but programs; their compilers run side by side."""
    jobs = [
        (source, target, options)
        for source in request.inputs
        if source.language != "triton"
        for target in targets_of(source, request.targets)
        for options in request.options
    ]
    option_words = [word for options in request.options for word in options]
    header_options = {
        s.name: torch_options(s, request.python, option_words)
        for s in request.inputs
        if s.language == "cuda"
    }

    def run(job: _Job) -> Compiled | StagesMade | PtxviewError:
        source, target, options = job
        try:
            if source.language in ("ttir", "ttgir", "llir"):
                triton_options = settings(options)
                stages = StageJob(source.data, source.language, source.name, target, triton_options)
                python = toolchain.interpreter(request.python)
                return compile_on(stages, python, seconds=request.limit, go_on=go_on)
            if source.language == "ptx":
                return compile_ptx(source, target, options, seconds=request.limit, go_on=go_on)
            return compile_cuda(
                source,
                target,
                options,
                extra_options=header_options[source.name],
                seconds=request.limit,
                go_on=go_on,
            )
        except PtxviewError as error:
            return error

    with closing(side_by_side(run, jobs)) as outcomes:
        for number, (job, outcome) in enumerate(zip(jobs, outcomes, strict=True), 1):
            if isinstance(outcome, PtxviewError):
                raise outcome
            failure = "" if outcome.failed is None else f": {outcome.failed}"
            say(f"{number} of {len(jobs)}: {job[0].name} for {job[1]}{failure}")
            if isinstance(outcome, Compiled):
                yield from _events(job, outcome, writer)
            else:
                yield from _events_of_ir(job, outcome, writer)


def torch_options(source: CompilerInput, python: str | None, options: Sequence[str]) -> list[str]:
    """Options for a file that includes torch's headers: the folders of all that they need.

    cuBLAS, cuSPARSE and cuSOLVER, which ``ATen/cuda/CUDAContext.h`` includes, come with CUDA builds
    of torch; they are looked at last, since the compiler has the rest of CUDA itself.
    """
    if not _TORCH.search(source.data):
        return []
    versions = toolchain.versions(toolchain.interpreter(python))
    folder, include_folder = versions.get("torch_folder"), versions.get("include_folder")
    if folder is None:
        return []
    include = Path(folder) / "include"
    places = [include, include / "torch" / "csrc" / "api" / "include"]
    places += [Path(include_folder)] if include_folder else []
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


def _events(job: _Job, compiled: Compiled, writer: Writer) -> Iterator[Event]:
    source, target, options = job
    digest = None
    code = compiled.cubin or compiled.ptx or (source.data if source.language == "cuda" else None)
    if code is not None:
        digest = hashlib.sha256(code).hexdigest()
    event: Event = {
        "event": "device_code",
        "time": time.time(),
        "object": source.name,
        "arch": target,
        "flags": list(options),
        "sha256": digest,
        "why": compiled.failed,
    }
    if source.language == "cuda":
        event |= {
            "source": str(source.path.absolute()),
            "source_blob": writer.blob(source.data),
            "directory": str(Path.cwd()),
            "ptx_from": "nvcc, on the way to the machine code",
            "ptx_command": list(compiled.command),
        }
    else:
        event |= {"origin": "file", "ptx_from": f"the file {source.name}"}
    for key, data in (
        ("ptx", compiled.ptx),
        ("cubin", compiled.cubin),
        ("lineinfo_cubin", compiled.cubin),
    ):
        if data is not None:
            event[key] = writer.blob(data)
    yield event
    if compiled.cubin is not None and digest is not None:
        for symbol, figures in from_ptxas(compiled.printed).items():
            yield ptxas_event(digest, symbol, figures)
    yield {
        **_compiled_event(job, compiled),
        "hash": digest,
        "symbols": list(compiled.symbols),
        "seconds": compiled.seconds,
        "tool": compiled.tool,
        "command": list(compiled.command),
        "read": list(compiled.read),
        "failed": compiled.failed,
    }


def _events_of_ir(job: _Job, stages: StagesMade, writer: Writer) -> Iterator[Event]:
    source, target, options = job
    named = kernels_of(Stage(source.language), BytesContent(source.data))
    name = str(stages.metadata.get("name") or (*named, source.name)[0])
    digest = hashlib.sha256(
        repr((source.data, target, options, stages.triton)).encode()
    ).hexdigest()
    failed = None if stages.failed is None else first_error(stages.messages) or stages.failed
    # LLVM IR has no shared memory and no warps.
    launch_metadata = stages.metadata if source.language != "llir" else {}
    texts = {**stages.texts, source.language: source.data}
    yield {
        "event": "triton",
        "time": time.time(),
        "name": name,
        "hash": digest,
        "failed": failed,
        "metadata": {"target": {"arch": int(re.sub(r"\D", "", target))}, **launch_metadata},
        "files": {stage: writer.blob(data) for stage, data in texts.items()},
        "paths": {source.language: source.name},
    }
    yield {
        **_compiled_event(job, stages),
        "kernel": name,
        "hash": digest,
        "symbols": [name] if failed is None else [],
        "seconds": sum(stages.seconds.values()) or None,
        "tool": f"triton {stages.triton}".strip(),
        "failed": failed,
    }


def _compiled_event(job: _Job, outcome: Compiled | StagesMade) -> Event:
    source, target, options = job
    return {
        "event": "compiled",
        "time": time.time(),
        "file": source.name,
        "language": source.language,
        "target": target,
        "options": shlex.join(options),
        "messages": [message_event(message) for message in outcome.messages],
    }
