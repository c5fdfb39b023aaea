"""Runs the user's program with the probes in its interpreter, and keeps what they wrote."""

from __future__ import annotations

import datetime
import os
import re
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from inspector import __version__
from inspector.base.errors import PtxviewError, RunFailed, Stopped
from inspector.base.redaction import without_secrets
from inspector.recording.driver_records import keep_records
from inspector.recording.layout import (
    SCHEMA,
    SUFFIX,
    Writer,
    is_recording,
    is_watched,
    pack,
    recordings_folder,
    remove,
    stamp,
    unwritten,
    user_derived_cache,
    work_folder,
)
from inspector.system import toolchain
from inspector.system.process import instead_of_ending, run_program, stop_tools
from inspector.system.toolchain import PROBES

if TYPE_CHECKING:
    from inspector.base.model import Recording

# What the end of a run needs is imported when it comes, or while the program runs (``run``): a
# program waits for all that is imported before it begins.

# Follows a growing recording: reads it again as soon as there is something new.

SPARE = 8
"""A look waits so many times as long as the last one took, so as not to slow the program down."""


class Follower:
    """Reads a recording's folder again on request; for one thread at a time.

    All of it is read: kernels, graphs and tunings are put together from the events of all processes
    in the order of time, and reading the lines is less than a third of that.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: str | None = None
        self._not_before = 0.0

    def look(self) -> Recording | None:
        """The recording as it is by now; None if nothing is new since the last look. A folder that
        is gone, or cannot be read at the moment, has nothing new."""
        if time.monotonic() < self._not_before:
            return None
        began, stamped = time.monotonic(), stamp(self.path)
        if stamped is None or stamped == self._stamp:
            return None
        from inspector.sources.opening import open_path

        try:
            recording = open_path(self.path)
        except (PtxviewError, OSError):
            return None
        finally:
            self._not_before = time.monotonic() + SPARE * (time.monotonic() - began)
        self._stamp = stamped
        return recording


def grows(path: Path, recording: Recording) -> bool:
    """Whether a recording is worth following: a folder without the event of the run's end."""
    return path.is_dir() and not recording.complete and os.access(path, os.R_OK)


INJECTION = "CUDA_INJECTION64_PATH"
NVIDIA_TOOLS = frozenset((
    "ncu", "nsys", "nsys-launcher", "nv-nsight-cu-cli", "compute-sanitizer", "cuda-gdb", "nvprof",
    "cuda-memcheck", "nvidia-smi", "nvcc", "ptxas", "cuobjdump", "nvdisasm", "dcgmi",
))  # fmt: skip
"""NVIDIA's own programs: some are at the driver themselves, and refuse to run beside another."""
NO_DRIVER = (
    "launches at the CUDA driver are not recorded: ptxview was installed without a C compiler "
    "(apt install gcc, then pip install --force-reinstall --no-deps ptxview)"
)
DEFAULT_TARGET = "sm_90"
ENVIRONMENT = (
    "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "CC", "CXX",
    "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVIDIA_TF32_OVERRIDE", "MAX_JOBS",
    "TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_DEBUG", "TRITON_INTERPRET", "TRITON_ALWAYS_COMPILE",
    "TRITON_DEFAULT_FP_FUSION", "TRITON_DISABLE_LINE_INFO", "TRITON_PTXAS_PATH",
    "TRITON_PTXAS_BLACKWELL_PATH", "TRITON_OVERRIDE_ARCH", "TRITON_PRINT_AUTOTUNING",
    "TRITON_CACHE_AUTOTUNING", "DISABLE_PTXAS_OPT", "DISABLE_LLVM_OPT", "MLIR_ENABLE_DUMP",
    "TORCH_LOGS", "TORCH_TRACE", "TORCH_COMPILE_DEBUG", "TORCH_CUDA_ARCH_LIST",
    "TORCH_EXTENSIONS_DIR", "TORCHDYNAMO_DISABLE", "TORCHINDUCTOR_CACHE_DIR",
    "TORCHINDUCTOR_COMPILE_THREADS", "TORCHINDUCTOR_COORDINATE_DESCENT_TUNING",
    "TORCHINDUCTOR_CPP_WRAPPER", "TORCHINDUCTOR_CUDAGRAPHS", "TORCHINDUCTOR_FORCE_DISABLE_CACHES",
    "TORCHINDUCTOR_FREEZING", "TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_MAX_AUTOTUNE",
    "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM", "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS",
    "TORCHINDUCTOR_UNIQUE_KERNEL_NAMES", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF",
    "RANK", "LOCAL_RANK", "WORLD_SIZE",
)  # fmt: skip
"""Variables that are recorded, no other: they shape what is compiled and where it is kept."""
MAX_VARIABLE_CHARS = 1000


class RunRequest(Struct, frozen=True):
    """What to run and how: ``kind`` is script, module or command; ``words`` its command line.
    ``driver``: whether launches are seen at the CUDA driver's boundary, where there is a GPU."""

    kind: str
    words: tuple[str, ...]
    out: Path | None = None
    target: str | None = None
    python: str | None = None
    driver: bool = True
    environment: tuple[tuple[str, str], ...] = ()


class RunOutcome(Struct, frozen=True):
    """The end of a run: exit status, the recording's path and content, seconds of run and after."""

    status: int
    path: Path
    recording: Recording | None
    seconds: float
    completion_seconds: float


def prepare(request: RunRequest) -> tuple[Path, Path | None]:
    """The folder to record into and the file to pack it into, or None; both are writable. Raises
    ``RunFailed`` if they are not, before the program has begun."""
    out = request.out
    pack_to = out if out is not None and out.suffix == SUFFIX else None
    if out is not None and pack_to is None:
        folder = out
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RunFailed(
                f"{folder} exists already and is not empty", "Give another -o, or delete it first."
            )
    else:
        # Beside the file, where a user looks for it even if we are killed.
        folder = recordings_folder() / _name(request) if pack_to is None else work_folder(pack_to)
    try:
        if pack_to is not None:
            if pack_to.is_dir():
                raise RunFailed(f"{pack_to} is a folder", "Give -o a file's name.")
            if not os.access(pack_to.resolve().parent, os.W_OK | os.X_OK):
                raise PermissionError(13, "Permission denied", str(pack_to.parent))
        folder.mkdir(parents=True, exist_ok=True)
        return folder.resolve(), pack_to
    except OSError as error:
        if out is None:  # a home that cannot be written: it is recorded all the same
            with suppress(OSError):
                folder = Path(tempfile.mkdtemp(prefix="ptxview-")) / folder.name
                folder.mkdir()
                return folder.resolve(), None
        raise RunFailed(
            f"the recording cannot be written: {error.filename}: {error.strerror}",
            "Give another place with -o.",
        ) from None


def _name(request: RunRequest) -> str:
    words = [w for w in request.words if not w.startswith("-")]
    name = re.sub(r"[^\w.-]+", "_", Path(words[0]).stem if words else "run")[:60] or "run"
    now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return f"{now}-{name}-{secrets.token_hex(2)}"


def command_of(request: RunRequest) -> tuple[list[str], str]:
    """The command to start, and the interpreter whose versions are recorded."""
    python = toolchain.interpreter(request.python)
    if request.kind == "command":
        return list(request.words), python
    if request.kind == "module":
        return [python, "-m", *request.words], python
    if request.words[0] == "-":  # from standard input, as Python itself reads it
        return [python, *request.words], python
    script = Path(request.words[0])
    if not script.exists():
        raise RunFailed(f"{script} does not exist", "Give the path of a Python script.")
    if is_recording(script):
        # Python would run a __main__.py in it, which anybody may have put there.
        raise RunFailed(
            f"{script} is a recording, and no program",
            "ptxview open, list and show read it, ptxview time takes its times, ptxview profile "
            "--stored shows its profile.",
        )
    if script.is_dir() and not (script / "__main__.py").exists():
        raise RunFailed(f"{script} is a folder without a __main__.py", "Give a script in it.")
    return [python, *request.words], python


def environment(folder: Path, request: RunRequest, target: str | None) -> dict[str, str]:
    """The program's environment: the user's, with the probes first on PYTHONPATH."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PTXVIEW_")}
    if "ptxview_driver" in Path(env.get(INJECTION, "")).name:
        del env[INJECTION]  # of a run around this one
    python_path = env.get("PYTHONPATH")
    env["PYTHONPATH"] = f"{PROBES}{os.pathsep}{python_path}" if python_path else str(PROBES)
    env["PTXVIEW_RECORDING"] = str(folder)
    if target is not None:
        env["PTXVIEW_TARGET"] = target
    env.update(request.environment)
    return env


def _has_other_tool(request: RunRequest) -> bool:
    """Whether another is at the driver: torch.profiler, or a tool of NVIDIA's."""
    if request.kind == "command" and Path(request.words[0]).name in NVIDIA_TOOLS:
        return True
    return any(name == "PTXVIEW_PROFILE" for name, _ in request.environment)


class Run:
    """A run whose recording has begun; the caller starts its program, ``argv`` in ``env``."""

    def __init__(self, request: RunRequest, this_argv: Sequence[str] | None = None) -> None:
        """Begin the recording, of a program to be started or of this one: ``this_argv``.
        Raises ``RunFailed`` if that is not possible."""
        is_child = this_argv is None
        if this_argv is None:
            self.argv, self._python = command_of(request)
        else:
            self.argv, self._python = list(this_argv), sys.executable
        folder, self._pack_to = prepare(request)
        self._asked_for = request.out is not None
        target = request.target
        if target is None and is_child and not toolchain.gpu_present():
            target = DEFAULT_TARGET
        self._mode = "gpu" if target is None else "target"
        self._hurries = False
        self._watches = not is_child
        self._began = time.monotonic()
        try:
            self._writer = Writer(folder)
            self._writer.event(**self._first_event(target))
        except OSError as error:
            if self._pack_to is not None:
                remove(folder)
            raise RunFailed(
                f"the recording cannot be written in {folder}: {error.strerror or error}",
                "Give another place with -o.",
            ) from None
        self.env = environment(folder, request, target)
        if target is None and request.driver and is_child and not _has_other_tool(request):
            self._watch_driver()

    def _first_event(self, target: str | None) -> dict[str, object]:
        """The event of the run: the command without secrets, and where it runs."""
        variables = {n: os.environ[n][:MAX_VARIABLE_CHARS] for n in ENVIRONMENT if n in os.environ}
        return {
            "event": "recording",
            "schema": SCHEMA,
            "time": time.time(),
            "ptxview": __version__,
            "command": without_secrets(self.argv),
            "environment": variables,
            "cwd": str(Path.cwd()),
            "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "mode": self._mode,
            "target": target,
        }

    def _watch_driver(self) -> None:
        """Have the CUDA driver load the library that sees launches."""
        library = toolchain.driver_library()
        if library is None:
            self._writer.event(event="problem", where="driver", text=NO_DRIVER)
            return
        self.env["PTXVIEW_DRIVER"] = str(library)
        # Another tool's is left alone: the probes then report it.
        self.env.setdefault(INJECTION, str(library))

    @property
    def folder(self) -> Path:
        return self._writer.folder

    def elsewhere(self) -> str | None:
        if self._asked_for or self.folder.is_relative_to(recordings_folder().resolve()):
            return None
        return f"{recordings_folder()} cannot be written: the recording is made in {self.folder}"

    def abandon(self) -> None:
        """Remove the recording, since the program could not be started."""
        self._writer.close()
        remove(self._writer.folder)

    def ended(self, status: int, say: Callable[[str], None]) -> RunOutcome:
        """Complete the recording, and pack it if that was asked for."""
        seconds = time.monotonic() - self._began
        if not self.folder.is_dir():
            self._writer.close()
            say(f"the recording in {self.folder} was deleted while the program ran")
            return RunOutcome(status, self.folder, None, seconds, 0.0)
        with _attempt(say, "the end of the run could not be recorded"):
            self._writer.event(
                event="end", time=time.time(), exit_status=status, seconds=seconds, finishing=True
            )
            if not self._watches and not is_watched(self.folder):
                self._writer.event(event="unwatched", command=Path(self.argv[0]).name, why="none")
            keep_records(self.folder, self._writer.blob)
            for text, mark in unwritten(self.folder):
                self._writer.event(event="problem", where="recording", text=text)
                mark.unlink(missing_ok=True)
        if self._pack_to is not None:
            # From here on the user knows where the recording is, even if we are killed.
            say(f"writing {self._pack_to}; should that not end, open {self.folder}")
        return self._close(status, seconds, say)

    def hurry(self) -> None:
        self._hurries = True
        stop_tools()

    def lasting(self) -> AbstractContextManager[None]:
        """A context in which a signal to end makes us hurry; the recording is still completed."""
        return instead_of_ending(self.hurry)

    def _close(self, status: int, seconds: float, say: Callable[[str], None]) -> RunOutcome:
        ended = time.monotonic()
        writer, pack_to = self._writer, self._pack_to
        recording: Recording | None = None
        with _attempt(say, "the recording is kept as the program left it"):
            from inspector.sources.completing import complete

            recording = complete(
                writer,
                user_derived_cache(),
                self._python,
                self._mode,
                say,
                lambda: not self._hurries,
            )
        with _attempt(say, "the end of the run could not be recorded"):
            try:
                writer.event(event="finished", time=time.time())
                recording = recording and replace(recording, complete=True)
            finally:
                writer.close()
        path = writer.folder
        if pack_to is not None:
            with _attempt(say, f"{pack_to} could not be written, and the recording is in {path}"):
                pack(writer.folder, pack_to, quickly=self._hurries)
                path = pack_to
                remove(writer.folder)
        if recording is None or pack_to is not None:
            recording = None
            with _attempt(say, "the recording cannot be read"):
                from inspector.sources.opening import open_path

                recording = open_path(path)
        return RunOutcome(status, path, recording, seconds, time.monotonic() - ended)


@contextmanager
def _attempt(say: Callable[[str], None], failure: str) -> Iterator[None]:
    """A context in which an error costs a sentence: the program has ended, and has its status."""
    try:
        yield
    except (KeyboardInterrupt, Stopped):
        say("interrupted: the recording is kept without what was still to be made of it")
    except Exception as error:
        reason = error.strerror if isinstance(error, OSError) else None
        with suppress(Exception):
            say(f"{failure}: {reason or str(error) or type(error).__name__}")


def load_the_rest() -> None:
    """Import what completes a recording."""
    import inspector.sources.completing  # noqa: F401


def run(
    request: RunRequest, say: Callable[[str], None], preload: Callable[[], None] = load_the_rest
) -> RunOutcome:
    """Run the program, then complete the recording and pack it if that was asked for. ``preload``
    is called in another thread when the program has run for a second."""
    started = Run(request)
    if (elsewhere := started.elsewhere()) is not None:
        say(elsewhere)
    with started.lasting():
        try:
            status = run_program(started.argv, started.env, preload=preload)
        except PtxviewError:
            started.abandon()
            raise
        return started.ended(status, say)
