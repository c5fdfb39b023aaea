"""Runs compilers in child processes: nvcc, ptxas, and the later stages of Triton's compiler.

One module because all share a job, its messages, and the explanation of a compiler's death. nvcc
and ptxas are asked for line information, so that machine code is linked to PTX and source, and for
their figures (``-v``). A Triton stage may be a stranger's: a separate process reads it, with bounds
of time and memory, in a new folder. Nothing is launched, and no GPU is needed.
"""

import json
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from inspector.base.errors import PtxviewError, ToolMissing, Unreadable, UsageError
from inspector.base.model import (
    Compilation,
    CompilerMessage,
    Recording,
    Resources,
    Stage,
    StageFile,
    Variant,
)
from inspector.base.names import base_name
from inspector.parsers.cubin import read_cubin
from inspector.parsers.ptx_statement import entries
from inspector.recording.compiler_messages import first_error, messages_from, messages_of, renamed
from inspector.recording.contents import target_of
from inspector.recording.layout import BytesContent, DerivedCache
from inspector.recording.resources import from_ptxas
from inspector.recording.variants import CONFIG
from inspector.system import files
from inspector.system.process import Finished, run_tool
from inspector.system.toolchain import PROBES, PURPOSE, Tool, need, newest_first, path_folders

GoOn = Callable[[], bool]
Say = Callable[[str], None]
NO_TRITON = 3
"""Exit status of a child whose interpreter lacks Triton."""
_CAUSE = re.compile(r"Assertion|LLVM ERROR|UNREACHABLE|Segmentation")
# Variables that would make the child print, or compile otherwise than the recording says.
_NOT_PASSED_ON = re.compile(
    r"PTXVIEW_|MLIR_|LLVM_IR_|DISABLE_LLVM_OPT|TRITON_(?:OVERRIDE_ARCH|KERNEL_|INTERPRET|ALWAYS_)"
    r"|USE_IR_LOC|DISABLE_PTXAS_OPT|NVPTX_ENABLE_DUMP|TRITON_(?:ENABLE_LLVM_DEBUG|REPRODUCER_PATH)"
)


def _messages(
    printed: str, tool: str, texts: Mapping[str, tuple[str, str]], reads_files: bool = False
) -> tuple[CompilerMessage, ...]:
    """The messages in what a compiler printed, with the lines that they name.

    ``texts``: what the user calls a file, and its content, by file name. ``reads_files``: whether
    lines of other files that the compiler names may be read, as of the user's own headers.
    """
    rows = {name: text.splitlines() for name, (_, text) in texts.items()}

    def line_of(file: str, number: int) -> str | None:
        path = Path(file)
        if path.name not in rows:
            try:
                data = files.read(path) if reads_files else b""
            except (PtxviewError, OSError, ValueError):
                data = b""
            rows[path.name] = data.decode("utf-8", "replace").splitlines()
        lines = rows[path.name]
        return lines[number - 1] if 0 < number <= len(lines) else None

    names = {name: shown for name, (shown, _) in texts.items()}
    return renamed(messages_of(printed, tool, line_of), names)


def death_of(
    printed: str, status: int, file: str, name: str, text: str
) -> tuple[str, tuple[CompilerMessage, ...]]:
    """Explain why Triton's compiler ended its process: a sentence, and all messages. It was given
    ``text`` in a file whose name is ``file``, and which the user calls ``name``."""
    messages = _messages(printed, "triton", {file: (name, text)})
    if (bad := _bad_ir(printed, name, text.splitlines())) is not None:
        messages = (bad, *(m for m in messages if m.severity != "error"))
    if (failed := first_error(messages)) is None:
        how = f"was ended by signal {-status}" if status < 0 else "ended before its time"
        cause = _cause_of(printed)
        failed = f"Triton's compiler {how}{f': {cause}' if cause else ''}"
        messages = (CompilerMessage("error", failed, "triton", name), *messages)
    return failed, messages


def triton_environment(folder: Path, as_recorded: bool = True) -> dict[str, str]:
    """The environment of a child that runs Triton: no GPU, and new caches in ``folder``.
    ``as_recorded`` leaves out the user's settings of Triton and LLVM."""
    excluded = _NOT_PASSED_ON if as_recorded else re.compile("PTXVIEW_")
    for name in ("triton", "inductor", "work"):
        (folder / name).mkdir()
    return {k: v for k, v in os.environ.items() if not excluded.match(k)} | {
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TMPDIR": str(folder / "work"),  # Triton leaves PTX there that ptxas has refused
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }


def no_triton(python: str, name: str) -> ToolMissing:
    return ToolMissing(
        f"{python} has no Triton, which compiles {name}",
        "Get it: pip install triton, or name another interpreter with --python.",
    )


def _cause_of(printed: str) -> str | None:
    """The line in which LLVM says why it ends its process, if it does."""
    row = next((r for r in printed.splitlines() if _CAUSE.search(r)), None)
    if row is None:
        return None
    # glibc's line of an assertion: the program, the folder and the signature say nothing to a user.
    prefix, mark, condition = row.strip().partition(": Assertion `")
    words = prefix.split(": ", 2)
    if mark and len(words) == 3:
        return f"{words[1].rpartition('/')[2]}{mark}{condition}"[:300]
    return row.strip()[:300]


def _bad_ir(printed: str, name: str, rows: Sequence[str]) -> CompilerMessage | None:
    """LLVM's complaint about a text that it cannot read: the line follows the sentence."""
    sentence, mark, number = printed.partition("failed to parse IR: ")[2].partition("lineno: ")
    digits = number.split("\n", 1)[0].strip()[:9]
    if not mark or not digits.isdecimal():
        return None
    n = int(digits)
    text = rows[n - 1] if 0 < n <= len(rows) else None
    return CompilerMessage("error", sentence.strip()[:500], "triton", name, n, text=text)


_NOT_FOR_IT = re.compile(r"Value '\w+' is not defined for option 'gpu-name'|Unsupported \.version")
# nvcc hands its own commands to a shell, and quotes in a way that $(…) and `…` survive.
PLAIN = re.compile(r"[\w.,/+=:%@\[\] -]+")
# What is decided by --target and by what is kept; the rest is the compiler's own.
_OURS = re.compile(
    r"(?:--?(?:o|output-file|c|compile|ptx|cubin|fatbin|dc|dlink|E|run|gencode|generate-code|arch|"
    r"gpu-architecture|code|gpu-code|gpu-name|keep|save-temps|keep-dir|dryrun|time))(?:=.*)?|-arch=.*"
)
_DEBUG = ("-G", "--device-debug", "-g", "--device-debug-info")


class CompilerInput(Struct, frozen=True):
    """A file to compile: ``path`` is its place, ``name`` what the user called it. ``language`` is
    cuda, ptx, ttir, ttgir, llir or triton; ``data`` its content."""

    path: Path
    name: str
    language: str
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "surrogateescape")


class Compiled(Struct, frozen=True):
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


def own_target(ptx: bytes) -> str | None:
    return target_of(BytesContent(ptx), {})


def compile_cuda(
    source: CompilerInput,
    target: str,
    options: Sequence[str],
    *,
    extra_options: Sequence[str] = (),
    seconds: float = 600,
    go_on: GoOn | None = None,
    tool: Tool | None = None,
) -> Compiled:
    """CUDA C++ for one target with nvcc; ``extra_options`` follow. Raises ``ToolMissing``."""
    tool = tool or need("nvcc")
    path = source.path.absolute()
    if not PLAIN.fullmatch(str(path)):
        raise Unreadable(
            f"{source.name} cannot be compiled: nvcc would obey the odd characters in its path",
            "Rename it, or give it on standard input: ptxview compile - --language cuda",
        )
    arch = target.removeprefix("sm_")
    lines = [] if any(word in _DEBUG for word in options) else ["-lineinfo"]
    with tempfile.TemporaryDirectory(prefix="ptxview-") as name:
        folder = Path(name)
        words = [
            *(
                *options,
                *extra_options,
                f"-gencode=arch=compute_{arch},code=sm_{arch}",
                "-cubin",
                *lines,
            ),
            *("-Xptxas", "-v", "-MD", "-MF", str(folder / "read")),
            *("--keep", "--keep-dir", str(folder)),
        ]
        path_list = os.pathsep.join([str(tool.path.parent), *path_folders()])
        env = {**os.environ, "PATH": path_list, "TMPDIR": str(folder)}  # it leaves files there
        compiled = _compiled(tool, words, path, source, folder, env, seconds, go_on)
        return replace(compiled, read=_included(folder / "read", tool))


def _included(listed: Path, tool: Tool) -> tuple[str, ...]:
    """The files that nvcc read, but for the system's, torch's and its own."""
    try:
        text = files.text(listed)
    except (PtxviewError, OSError):
        return ()
    system_folders = ("/usr/", str(tool.path.parents[1]), os.path.realpath(tool.path.parents[1]))
    return tuple(
        p
        for p in text.replace("\\\n", " ").split()[1:]
        if Path(p).is_absolute() and not p.startswith(system_folders) and "/site-packages/" not in p
    )


FOR_OPTIX = (
    "this PTX is OptiX's: its _optix_ functions are in OptiX's compiler, which is in the driver. "
    "ptxas cannot assemble it, so there are no registers, spills or SASS of it"
)
_OPTIX_CALL = re.compile(rb"^[^\n/]*\bcall\b[^\n;]*\b_optix_", re.MULTILINE)


def compile_ptx(
    source: CompilerInput,
    target: str,
    options: Sequence[str],
    *,
    seconds: float = 600,
    go_on: GoOn | None = None,
    ptxas_tools: Sequence[Tool] = (),
) -> Compiled:
    """PTX for one target with the newest ptxas that knows it, or with one of ``ptxas_tools``.
    OptiX's is not given to ptxas. Raises ``ToolMissing``."""
    if _OPTIX_CALL.search(source.data):
        return Compiled(source.data, failed=FOR_OPTIX)
    tools = tuple(ptxas_tools) or assemblers()
    if not tools:
        raise ToolMissing(
            "ptxas was not found; it is needed for the machine code of PTX",
            f"Get it: {PURPOSE['ptxas'][1]}, or pip install 'ptxview[cuda]'",
        )
    lines = [] if any(word in _DEBUG for word in options) else ["-lineinfo"]
    best: Compiled | None = None
    words = ["-v", *lines, *options, f"--gpu-name={target}"]
    with tempfile.TemporaryDirectory(prefix="ptxview-") as name:
        file = Path(name) / "input.ptx"
        file.write_bytes(source.data)
        for tool in tools:
            compiled = _compiled(tool, words, file, source, file.parent, None, seconds, go_on)
            if compiled.failed is None or not _NOT_FOR_IT.search(compiled.printed):
                return compiled
            best = best or compiled
    assert best is not None
    return best


@cache
def assemblers() -> tuple[Tool, ...]:
    """Every ptxas, the newest first: older ones know targets that the newest lacks."""
    return tuple(newest_first("ptxas"))


def _compiled(
    tool: Tool,
    words: Sequence[str],
    file: Path,
    source: CompilerInput,
    folder: Path,
    env: Mapping[str, str] | None,
    seconds: float,
    go_on: GoOn | None,
) -> Compiled:
    """Run nvcc or ptxas on a file; the cubin, and PTX on the way to it, are made in ``folder``."""
    out = folder / "made.cubin"
    argv = (str(tool.path), *words, str(file), "-o", str(out))
    named = f"{tool.name} {tool.version}" if tool.version else tool.name
    began = time.monotonic()
    try:
        finished = run_tool(argv, env=env, seconds=seconds, go_on=go_on)
    except Unreadable as error:
        why = f"{tool.path.name} {error.message.partition(' ')[2]}"
        return Compiled(None, None, time.monotonic() - began, named, argv, why)
    took = time.monotonic() - began
    texts = {file.name: (source.name, source.text)}
    ptx = next(iter(sorted(folder.glob("*.ptx"))), None)
    text = None if ptx is None else files.read(ptx)
    if ptx is not None and text is not None:
        texts.setdefault(ptx.name, ("ptx", text.decode("utf-8", "replace")))
    printed = (finished.err + finished.out).decode("utf-8", "replace")
    messages = tuple(
        m if m.file is not None else replace(m, file=source.name)
        for m in _messages(printed, tool.name, texts, reads_files=True)
    )
    cubin = files.read(out) if finished.status == 0 and out.is_file() else None
    failed: str | None = None
    if finished.status < 0:
        failed = f"{tool.name} was ended by signal {-finished.status}"
    elif cubin is None:
        last = next((r for r in reversed(printed.splitlines()) if r.strip()), "")
        failed = first_error(messages) or last or f"{tool.name} ended with status {finished.status}"
    return Compiled(text, cubin, took, named, argv, failed, messages, printed)


SECONDS, UNASKED_SECONDS = 120.0, 6.0
"""Time limits of ptxas for a device that was named, and where nobody asked for machine code."""


def assembled(recording: Recording, cache: DerivedCache, device: str | None = None) -> Recording:
    """A recording of one file of PTX, with machine code for ``device``, else for its own target.

    Where it cannot be assembled, its variants say why they have no SASS; a ``Compilation`` of the
    recording has what ptxas said. One that holds anything else is given back as it is.
    """
    variants = [v for _, v in recording.variants()]
    file = variants[0].stages.get(Stage.PTX) if variants else None
    if file is None or any(len(v.stages) > 1 or v.hash != variants[0].hash for v in variants):
        return recording
    source = CompilerInput(Path(recording.path), recording.path, "ptx", file.content.read())
    if not re.search(r"^[^\S\n]*\.version\s", source.text, flags=re.MULTILINE):
        return _without(recording, "it is a part of a module: it has no .version")
    if (file_target := own_target(source.data)) is None:
        return _without(recording, "it has no .target")
    for target in dict.fromkeys(filter(None, (device, file_target))):
        try:
            compiled = _assemble_cached(
                source, target, cache, UNASKED_SECONDS if device is None else SECONDS
            )
        except PtxviewError as error:
            return _without(recording, f"{error.message}. {error.hint}".rstrip(". "))
        if device is None and compiled.cubin is None and (compiled.seconds or 0) >= UNASKED_SECONDS:
            compiled = replace(
                compiled,
                failed=f"{compiled.failed}: --device {file_target} gives it {SECONDS:.0f} s",
            )
        if compiled.failed == FOR_OPTIX:
            compiled = replace(compiled, messages=(CompilerMessage("note", FOR_OPTIX, "ptxas"),))
        if compiled.failed is None or target == file_target:
            return _with(recording, source, target, compiled)
    return recording


def _assemble_cached(
    source: CompilerInput, target: str, cache: DerivedCache, seconds: float
) -> Compiled:
    """What ptxas makes of it, from the cache where it has been made before."""
    version = next((f"{t.path} {t.version}" for t in assemblers()), "")
    keys = [cache.key("assembled", version, target, source.data, n) for n in ("cubin", "printed")]
    cubin, printed = map(cache.get, keys)
    if cubin is not None and printed is not None and version:
        return Compiled(source.data, cubin, printed=printed.decode("utf-8", "replace"))
    compiled = compile_ptx(source, target, (), seconds=seconds)
    # What has something to say says it again.
    if compiled.cubin is not None and not compiled.messages:
        cache.store(keys[0], compiled.cubin)
        cache.store(keys[1], compiled.printed.encode())
    return compiled


def _with(
    recording: Recording, source: CompilerInput, target: str, compiled: Compiled
) -> Recording:
    figures = from_ptxas(compiled.printed) if compiled.cubin is not None else {}
    tried = Compilation(
        source.name,
        "ptx",
        target,
        hash=next(v.hash for _, v in recording.variants()),
        symbols=compiled.symbols,
        seconds=compiled.seconds,
        tool=compiled.tool,
        failed=compiled.failed,
        messages=compiled.messages,
    )

    def with_sass(variant: Variant) -> Variant:
        if compiled.cubin is None:
            return replace(
                variant, missing={**variant.missing, Stage.SASS: f"ptxas: {compiled.failed}"}
            )
        return replace(
            variant,
            target=target,
            stages={
                **variant.stages,
                Stage.SASS: StageFile(BytesContent(compiled.cubin), None, "nvdisasm -c"),
            },
            missing={s: why for s, why in variant.missing.items() if s is not Stage.SASS},
            recorded_resources=figures.get(variant.symbol, Resources()),
        )

    return replace(_changed(recording, with_sass), compilations=(tried,))


def _without(recording: Recording, why: str) -> Recording:
    return _changed(
        recording, lambda variant: replace(variant, missing={**variant.missing, Stage.SASS: why})
    )


def _changed(recording: Recording, change: Callable[[Variant], Variant]) -> Recording:
    kernels = (replace(k, variants=tuple(map(change, k.variants))) for k in recording.kernels)
    return replace(recording, kernels=tuple(kernels))


STAGES = ("ttir", "ttgir", "llir", "ptx", "cubin")
BEGINNINGS = ("source", "ttir", "ttgir", "llir", "ptx")
# The probes as a package, as a recorded program has them, without the current folder in the path.
BOOT = """
import sys, importlib, importlib.util as u
sys.path[:] = [p for p in sys.path if p]
folder = sys.argv[1]
spec = u.spec_from_file_location("ptxview_probes", folder + "/__init__.py",
                                 submodule_search_locations=[folder])
sys.modules["ptxview_probes"] = u.module_from_spec(spec)
main = importlib.import_module("ptxview_probes." + sys.argv[2]).main
raise SystemExit(main(sys.argv[3], sys.argv[4]))
"""
# ptxas takes names of files among its options: of a recording only those are believed that name
# none.
_PTXAS_OPTION = re.compile(
    r"(?:-O[0-4]|(?:--opt-level|-O|--maxrregcount|--regAllocOptLevel|--register-usage-level)[= ]\d+"
    r"|--(?:fmad|allow-expensive-optimizations|position-independent-code)[= ](?:true|false)"
    r"|--(?:disable-optimizer-constants|suppress-stack-size-warning|device-function-maxrregcount)"
    r"|-v|--verbose|-lineinfo|--generate-line-info)"
)
_SIGNAL = "A signal was caught while processing the MLIR module"
_WARPS = re.compile(r'"?(?:ttg|triton_gpu)\.num-(warps|ctas)"? = (\d{1,4})\b')


class StageJob(Struct, frozen=True):
    """A stage's text, and how it is to be compiled on.

    ``stage`` is one of ``BEGINNINGS``; ``source`` is Triton's own IR before its first pass.
    ``name`` is what messages call the text. ``target`` is like ``sm_90a``; Triton takes the number.
    ``options`` are Triton's by name, as ``variant_options`` gives them; ``until`` is the last stage
    to make. ``environment`` is added to the child's. ``watch``: whether every pass is reported;
    ``at_source``: whether errors are to be placed at the lines of the program, not of the text.
    """

    text: bytes
    stage: str
    name: str
    target: str
    options: Mapping[str, object] = field(default_factory=dict)
    until: str = "cubin"
    gluon: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    watch: bool = False
    at_source: bool = False

    @property
    def number(self) -> int:
        """90 of sm_90a. Raises ``Unreadable`` where it names no architecture."""
        match = re.fullmatch(r"(?:sm_|cuda:)?(\d{2,4})[af]?", self.target)
        if match is None:
            raise Unreadable(f"{self.target} is no target of Triton's for NVIDIA's GPUs")
        return int(match[1])


class PassesPrinted(Struct, frozen=True):
    """What compilers printed around their passes, for ``inspector/analysis/passes.py``.

    ``timed`` are their reports of time; ``arrivals`` say at which byte what was read of ``printed``
    at once ended, and when; ``mark`` is the word that marks begin with. ``cut`` says that there was
    more than the bound of one file.
    """

    printed: bytes
    timed: bytes
    arrivals: tuple[tuple[int, float], ...]
    mark: str
    cut: bool = False


class StagesMade(Struct, frozen=True):
    """What a child came to.

    ``texts`` are the stages that were made (``cubin`` is binary), ``seconds`` the compiler's own
    time of each. ``failed`` is the first error in a sentence and ``failed_at`` the stage that was
    being made (the given one where it could not be read); None where all were made. ``unknown``
    are options that this version of Triton does not have. ``printed`` is all that was printed.
    """

    triton: str
    texts: Mapping[str, bytes]
    seconds: Mapping[str, float]
    metadata: Mapping[str, object]
    failed: str | None = None
    failed_at: str | None = None
    messages: tuple[CompilerMessage, ...] = ()
    unknown: tuple[str, ...] = ()
    printed: bytes = b""
    passes: PassesPrinted | None = None


def compile_on(
    job: StageJob, python: str, *, seconds: float = 600.0, go_on: GoOn | None = None
) -> StagesMade:
    """Make the stages that follow.

    Raises ``ToolMissing`` where the interpreter is not there or has no Triton, ``Unreadable`` where
    the target is unknown or it takes longer than ``seconds``, ``Stopped`` where ``go_on`` says no.
    What the compiler refuses raises nothing.
    """
    stages, died = _by_child(job, python, seconds, go_on, only=False)
    if died and job.watch:
        # Once more, for what it prints until then.
        printed_stages, _ = _by_child(job, python, seconds, go_on, only=True)
        stages = replace(stages, passes=printed_stages.passes)
    return stages


def _by_child(
    job: StageJob, python: str, seconds: float, go_on: GoOn | None, only: bool
) -> tuple[StagesMade, bool]:
    """What one child came to, and whether it died of it; ``only`` tells its passes alone."""
    number = job.number
    with tempfile.TemporaryDirectory(prefix="ptxview-") as name:
        folder = Path(name)
        path = folder / f"input.{'ttir' if job.stage == 'source' else job.stage}"
        path.write_bytes(job.text)
        mark = f"ptxview-{secrets.token_hex(16)}"
        job_file, results, output_file = (
            folder / "job.json",
            folder / "results.jsonl",
            folder / "said",
        )
        watched = {n: folder / f"passes.{n}" for n in ("printed", "timed", "arrivals")}
        fields = {
            "stage": job.stage,
            "path": path,
            "file": job.name,
            "target": number,
            "options": dict(job.options),
            "gluon": job.gluon,
            "until": job.until,
            "folder": folder,
            "said": output_file,
            "most": files.limits().one,
            "watch": {**watched, "mark": mark, "only": only} if job.watch else None,
            "at_source": job.at_source,
        }
        job_file.write_text(json.dumps(fields, default=str), "utf-8")
        argv = by_probes(python, "cross_compile.remaining", job_file, results)
        env = {**triton_environment(folder), **job.environment}
        ended = run_tool(argv, env=env, seconds=seconds, go_on=go_on)
        if ended.status == NO_TRITON:
            raise no_triton(python, job.name)
        stages = _stages_of(job, path.name, results, output_file, ended)
        if job.watch:
            stages = replace(stages, passes=_printed(watched, mark))
        return stages, ended.status < 0


def by_probes(python: str, module: str, job: Path, results: Path) -> list[str]:
    """The command that runs ``main`` of a module of the probes on a job's file."""
    return [python, "-c", BOOT, str(PROBES.parent), module, str(job), str(results)]


def _printed(places: Mapping[str, Path], mark: str) -> PassesPrinted:
    """The passes that a child has reported."""
    printed, timed, listed = (
        files.read(place) if place.is_file() else b"" for place in places.values()
    )
    try:
        arrivals = tuple((int(offset), float(when)) for offset, when in json.loads(listed or b"[]"))
    except (ValueError, TypeError):
        arrivals = ()
    return PassesPrinted(printed, timed, arrivals, mark, len(printed) >= files.limits().one)


class _ChildRecords(Struct):
    """The records that a child has written: texts and seconds by stage, and all other fields."""

    fields: dict[str, object] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


def _child_records(results: Path) -> _ChildRecords:
    out = _ChildRecords()
    for record in files.records(results) if results.exists() else ():
        if not isinstance(record, dict):
            continue
        out.fields |= {k: v for k, v in record.items() if k != "stage"}
        stage = str(record.get("stage"))
        seconds = record.get("seconds")
        if "failed" in record:
            out.fields["failed_at"] = stage
        elif stage in STAGES and isinstance(seconds, int | float):
            out.texts[stage] = files.read(results.with_name(f"made.{stage}"))
            out.seconds[stage] = float(seconds)
    return out


def _stages_of(
    job: StageJob, file: str, results: Path, output_file: Path, ended: Finished
) -> StagesMade:
    """The stages that the child made of the text in its ``file``, and where and why it died."""
    records = _child_records(results)
    fields = records.fields
    printed = files.read(output_file) if output_file.is_file() else ended.err
    metadata = fields.get("metadata")
    unknown = fields.get("unknown")
    failed: str | None = None
    failed_at: str | None = None
    messages = messages_from(fields.get("messages"))
    if "failed" in fields:
        failed = str(fields["failed"])
        failed_at = str(fields["failed_at"]) if failed else None
    if failed is None and (ended.status != 0 or "metadata" not in fields):
        failed_at = str(fields.get("begin") or job.stage)
        text = (printed + b"\n" + ended.err).decode("utf-8", "replace")
        source_text = job.text.decode("utf-8", "surrogateescape")
        failed, messages = death_of(text, ended.status, file, job.name, source_text)
    elif any(m.message.startswith(_SIGNAL) for m in messages):
        messages = _with_abort_cause(messages, printed)
        failed = first_error(messages)
    return StagesMade(
        str(fields.get("triton") or ""),
        records.texts,
        records.seconds,
        metadata if isinstance(metadata, dict) else {},
        failed,
        failed_at,
        messages,
        tuple(str(o) for o in unknown) if isinstance(unknown, list) else (),
        printed,
    )


def _with_abort_cause(
    messages: Sequence[CompilerMessage], printed: bytes
) -> tuple[CompilerMessage, ...]:
    """The messages, with the cause of an abort that MLIR survived.

    A pass that aborts inside a pipeline with a reproducer does not end its process (Triton 3.7):
    MLIR goes on, and only what was printed says why it aborted.
    """
    cause = _cause_of(printed.decode("utf-8", "replace"))
    out = []
    for message in messages:
        if cause and message.message.startswith(_SIGNAL):
            message = replace(message, message=cause)
        out.append(message)
    return tuple(out)


def believed(options: Mapping[str, object]) -> dict[str, object]:
    """Options that a recording names, without those of ptxas that would name files."""
    out = dict(options)
    if words := str(out.get("ptx_options") or "").split():
        allowed = [word for word in words if _PTXAS_OPTION.fullmatch(word)]
        out["ptx_options"] = " ".join(allowed) or None
    return out


def job_of(variant: Variant, stage: str, until: str = "cubin") -> StageJob:
    """A variant's own stage, for its own target and with its own options. Raises ``Unreadable``
    where the variant is not Triton's, or lacks the stage."""
    if (why := not_tritons(variant)) is not None:
        raise Unreadable(why)
    if stage == "source":
        content = variant.initial_ir
        why = "its recording does not hold Triton's IR as it was before the first pass"
    else:
        file = variant.stages.get(Stage(stage))
        content = None if file is None else file.content
        why = variant.missing.get(Stage(stage), "it was not recorded")
    if content is None:
        raise Unreadable(f"{variant.symbol} has no {stage}: {why}")
    return StageJob(
        content.read(),
        stage,
        f"{variant.symbol}.{stage}",
        variant.target or "",
        options_of(variant),
        until,
        Stage.TTIR not in variant.stages and Stage.TTGIR in variant.stages,
    )


def not_tritons(variant: Variant) -> str | None:
    """Why Triton cannot compile a variant again, in a sentence; None where it can."""
    if any(stage in variant.stages for stage in (Stage.TTIR, Stage.TTGIR, Stage.LLIR)):
        return None
    return f"{base_name(variant.symbol)} is not Triton's: it has no TTIR, TTGIR or LLVM IR"


def options_of(variant: Variant) -> dict[str, object]:
    """Triton's options of a variant, if recorded.

    Warps are those that the program asked for: Triton's metadata count those too that it has added
    to specialize them, which TTGIR tells apart.
    """
    config = {name: variant.config[name] for name in CONFIG if name in variant.config}
    out = believed({**variant.options, **config})
    if (file := variant.stages.get(Stage.TTGIR)) is not None:
        head = file.content.read()[: 1 << 16].decode("utf-8", "replace")
        out |= {f"num_{kind}": int(n) for kind, n in _WARPS.findall(head)}
    return out
