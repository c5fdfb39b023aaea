"""Why kernels, graphs and builds failed, from events of compilers, of the driver and of ninja."""

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from msgspec import Struct
from msgspec.structs import replace

from inspector.base.errors import first_error
from inspector.base.model import (
    LAUNCH,
    LOAD,
    Compilation,
    CompilerMessage,
    Content,
    Failure,
    Stage,
    Variant,
)
from inspector.base.names import base_name
from inspector.base.units import plural
from inspector.recording.compiler_messages import messages_from, messages_of
from inspector.recording.contents import Blob, text_of
from inspector.recording.decoding import tolerant
from inspector.recording.events import (
    BinaryFigures,
    CompileEnded,
    CompileFailure,
    CompileFigures,
    Event,
    Exceeded,
    ExtensionBuild,
    GraphFailed,
    Launched,
    NotLaunched,
    NotLoaded,
    TritonCompile,
)
from inspector.recording.layout import BytesContent

_STAGES = frozenset((*(stage.value for stage in Stage), LOAD, LAUNCH))


def of_compile(event: CompileFailure, blob: Blob) -> Failure | None:
    """Decode the failure of a compilation; None if the event has none."""
    message = event.message or event.failed
    if message is None:
        return None
    return _limited(
        event,
        Failure(
            message,
            stage=event.stage if event.stage in _STAGES else None,
            tool=event.tool,
            kind=event.kind,
            messages=messages_from(event.messages),
            log=blob(event.log),
            command=event.command,
        ),
    )


def _limited(event: Exceeded, failure: Failure) -> Failure:
    """A failure with the limit that was exceeded, if it was one."""
    return replace(failure, required=event.required, limit=event.limit, resource=event.resource)


def of_loading(event: NotLoaded) -> Failure | None:
    """Why the device would not load a binary."""
    if event.error is None:
        return None
    kind, colon, _ = event.error.partition(": ")
    named = kind if colon and kind.isidentifier() else None
    tool = "driver" if event.required is None else "triton"
    return _limited(event, Failure(event.error, stage=LOAD, tool=tool, kind=named))


def of_launch(event: NotLaunched) -> Failure | None:
    """Why the driver would not launch a kernel of CUDA C++."""
    error = event.error
    if event.kind is None or error is None:
        return None
    if event.shared_bytes is not None:  # the driver's own text names no sizes
        grid = _size_text(event.grid)
        block = _size_text(event.block)
        shared = f"{plural(event.shared_bytes, 'byte')} of dynamic shared memory"
        error += f" (grid {grid}, blocks of {block}, {shared})"
    failure = Failure(f"{event.kind}: {error}", stage=LAUNCH, tool="driver", kind=event.kind)
    return _limited(event, failure)


def _size_text(size: tuple[int, int, int] | None) -> str:
    """A grid or a block for a message: ``32×1×1``."""
    return "?" if size is None else "×".join(map(str, size))


def of_graph(event: Event, blob: Blob) -> Failure | None:
    """Why a graph did not compile, by the probe or by torch's own figures of the compile; None
    where it did."""
    if isinstance(event, GraphFailed):
        return of_compile(event, blob)
    if not isinstance(event, CompileEnded):
        return None
    figures = tolerant(event.figures, CompileFigures)
    text = (figures.fail_reason or "").strip()
    if not text:
        return None
    message = first_error(text)
    file = figures.fail_user_frame_filename
    line = figures.fail_user_frame_lineno
    return Failure(
        message,
        tool="torch",
        kind=figures.fail_type,
        messages=(CompilerMessage("error", message, "torch", file, line),),
        log=BytesContent(text.encode("utf-8", "backslashreplace")),
    )


# What ninja prints of a build that failed: ``FAILED: cuda.cuda.o``, the command, what it said.

_ENDS = re.compile(r"^(?:FAILED: |\[\d+/\d+\] |ninja: build stopped)", re.MULTILINE)
_FAILED_STEP = re.compile(r"^FAILED: .*\n(?P<command>.*)\n", re.MULTILINE)
SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c")


class FailedSource(Struct, frozen=True):
    """A file of a build that did not compile: its path, and the blob of its content if known.
    ``argv`` is the command, ``target`` the first that it names."""

    path: str
    blob: object
    argv: tuple[str, ...]
    target: str | None
    failure: Failure


def of_build(event: ExtensionBuild, blob: Blob) -> Iterator[FailedSource]:
    """The files that an event of a build says did not compile; none where it was built."""
    log = event.error or ""
    digests = source_blobs(event)
    for block in _FAILED_STEP.finditer(log):
        end = _ENDS.search(log, block.end())
        output = log[block.end() : len(log) if end is None else end.start()]
        try:
            argv = tuple(shlex.split(block["command"]))
        except ValueError:
            continue
        source = next((word for word in argv if word.endswith(SOURCES)), None)
        if source is None:
            continue  # the libraries were linked
        path = source if source.startswith("/") else f"{event.directory or ''}/{source}"
        digest = digests.get(path)
        tool = "nvcc" if path.endswith(".cu") else PurePath(argv[0]).name
        failure = of_log(output, tool, path, blob(digest), block["command"])
        if failure is not None:
            target = re.search(r"\b(?:sm|compute)_(\d+[af]?)\b", block["command"])
            yield FailedSource(path, digest, argv, target and f"sm_{target[1]}", failure)


def source_blobs(event: ExtensionBuild) -> dict[str, object]:
    """The blobs of a build's files, by their paths."""
    directory = event.directory or ""
    return {f"{directory}/{name}": blob for name, blob in event.files.items()} | event.sources


def complaint(event: ExtensionBuild) -> str:
    """The line of what was printed of a build that failed in which a compiler complains."""
    lines = (event.error or "").strip().splitlines() or [""]
    return next((line for line in lines if "error" in line[1:].lower()), lines[0]).strip()


def of_whole_build(event: ExtensionBuild) -> Failure:
    """Why a build failed without a compiler's message: ninja is missing."""
    log = (event.error or "").strip()
    return Failure(
        complaint(event)[:2000],
        stage=Stage.PTX.value,
        log=BytesContent(log.encode("utf-8", "backslashreplace")),
    )


def of_log(
    log: str, tool: str, path: str, content: Content | None, command: str | None
) -> Failure | None:
    """What a compiler of C++ printed of a file that it refused; None if it printed nothing."""
    rows = text_of(content).splitlines()

    def line_of(file: str, n: int) -> str | None:
        is_source = PurePath(file).name == PurePath(path).name
        return rows[n - 1] if is_source and 0 < n <= len(rows) else None

    messages = messages_of(log, tool, line_of)
    first = next((m for m in messages if m.severity == "error"), None)
    lines = log.strip().splitlines()
    if first is None and not lines:
        return None
    return Failure(
        lines[0] if first is None else first.message,
        stage=Stage.SASS.value if first is not None and first.tool == "ptxas" else Stage.PTX.value,
        tool=tool if first is None else first.tool,
        messages=messages,
        log=BytesContent(log.strip().encode("utf-8", "backslashreplace")),
        command=command,
    )


class Failures:
    """The failures of all variants, by hash."""

    EVENTS = (BinaryFigures, Launched, NotLoaded, TritonCompile, NotLaunched)
    """The events that it takes."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._refused: dict[str | None, Failure] = {}
        self._loaded: set[str | None] = set()
        self._attempts: dict[str, Compilation] = {}
        self._second_attempts: dict[str | None, Failure] = {}
        self._launches: dict[tuple[str | None, str], dict[Failure, None]] = {}
        self._launched: set[tuple[str | None, str]] = set()
        self._attributed: set[tuple[str | None, str]] = set()

    def take(self, event: Event) -> None:
        match event:
            case BinaryFigures(event="loaded"):  # by this process or another
                self._loaded.add(event.hash)
            case Launched():
                self._launched.add((event.hash, event.symbol or ""))
            case NotLoaded():
                if (failure := of_loading(event)) is not None:
                    self._refused.setdefault(event.hash, failure)
            case TritonCompile(event="triton_said"):
                if (failure := of_compile(event, self._blob)) is not None:
                    self._second_attempts[event.hash] = failure
            case NotLaunched(symbol=str(symbol)):
                if (failure := of_launch(event)) is not None:
                    key = event.hash, symbol
                    self._launches.setdefault(key, {})[failure] = None
                    if event.ran:
                        self._launched.add(key)

    def take_attempts(self, compilations: Iterable[Compilation]) -> None:
        """Take in the failed compilations of ``ptxview compile``."""
        for compilation in compilations:
            if compilation.failed is not None and compilation.hash is not None:
                self._attempts.setdefault(compilation.hash, compilation)

    def failure_of(self, variant: Variant) -> Failure | None:
        """Why a variant failed, None where it did not. What was refused with one launch and ran
        with another came to something."""
        error, attempt = variant.error, self._attempts.get(variant.hash)
        if error is None and (attempt is None or Stage.SASS in variant.stages):
            if variant.hash in self._loaded:
                return None
            return self._refused.get(variant.hash) or self._unlaunched(variant)
        words = self._second_attempts.get(variant.hash)
        if error is not None and words is not None:
            return replace(error, message=words.message, messages=words.messages, log=words.log)
        if attempt is None or (error is not None and error.messages):
            return error
        return Failure(
            attempt.failed or "",
            None if error is None else error.stage,
            (attempt.tool or "").partition(" ")[0] or None,
            messages=attempt.messages,
        )

    def _unlaunched(self, variant: Variant) -> Failure | None:
        if variant.launches:
            return None
        for key in ((variant.hash, variant.symbol), (None, variant.symbol)):
            for failure in self._launches.get(key, ()) if key not in self._launched else ():
                self._attributed.add(key)
                return failure
        return None

    def problems(self) -> Iterator[str]:
        """A sentence for each launch that was refused and that no variant bears."""
        for key, refused in self._launches.items():
            for failure in refused if key not in self._attributed else ():
                yield f"a launch of {base_name(key[1])} was refused: {failure.message}"
