"""Decodes failures from events: compilations, binaries and launches that were refused."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath

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
from inspector.base.text import counted, first_error
from inspector.recording.compilations import messages_from, messages_of
from inspector.recording.facts import as_int, as_map, as_text, as_three, text_of
from inspector.recording.layout import BytesContent

Event = Mapping[str, object]
Blob = Callable[[object], Content | None]
_STAGES = frozenset((*(stage.value for stage in Stage), LOAD, LAUNCH))


def of_compile(event: Event, blob: Blob) -> Failure | None:
    """Decode the failure of a compilation; None if the event has none."""
    message = as_text(event.get("message")) or as_text(event.get("failed"))
    if message is None:
        return None
    stage = as_text(event.get("stage"))
    return Failure(
        message,
        stage=stage if stage in _STAGES else None,
        tool=as_text(event.get("tool")),
        kind=as_text(event.get("kind")),
        messages=messages_from(event.get("messages")),
        log=blob(event.get("log")),
        command=as_text(event.get("command")),
        required=as_int(event.get("required")),
        limit=as_int(event.get("limit")),
        resource=as_text(event.get("resource")),
    )


def of_loading(event: Event) -> Failure | None:
    """Why the device would not load a binary."""
    error = as_text(event.get("error"))
    if error is None:
        return None
    kind, colon, _ = error.partition(": ")
    return Failure(
        error,
        stage=LOAD,
        tool="driver" if event.get("required") is None else "triton",
        kind=kind if colon and kind.isidentifier() else None,
        required=as_int(event.get("required")),
        limit=as_int(event.get("limit")),
        resource=as_text(event.get("resource")),
    )


def of_launch(event: Event) -> Failure | None:
    """Why the driver would not launch a kernel of CUDA C++."""
    kind, error = as_text(event.get("kind")), as_text(event.get("error"))
    if kind is None or error is None:
        return None
    if (asked := as_int(event.get("shared_bytes"))) is not None:  # the driver's words alone
        sizes = [as_three(event.get(key)) for key in ("grid", "block")]
        grid, block = ("×".join(map(str, size or "?")) for size in sizes)
        error += (
            f" (grid {grid}, blocks of {block}, {counted(asked, 'byte')} of dynamic shared memory)"
        )
    return Failure(
        f"{kind}: {error}",
        stage=LAUNCH,
        tool="driver",
        kind=kind,
        required=as_int(event.get("required")),
        limit=as_int(event.get("limit")),
        resource=as_text(event.get("resource")),
    )


def of_graph(event: Event, blob: Blob) -> Failure | None:
    """Why a graph did not compile, by the probe or by torch's own figures of the compile; None
    where it did."""
    if event.get("event") == "graph_failed":
        return of_compile(event, blob)
    figures = as_map(event.get("figures"))
    text = (as_text(figures.get("fail_reason")) or "").strip()
    if not text:
        return None
    said = first_error(text)
    file = as_text(figures.get("fail_user_frame_filename"))
    line = as_int(figures.get("fail_user_frame_lineno"))
    return Failure(
        said,
        tool="torch",
        kind=as_text(figures.get("fail_type")),
        messages=(CompilerMessage("error", said, "torch", file, line),),
        log=BytesContent(text.encode("utf-8", "backslashreplace")),
    )


# -- builds ---------------------------------------------------------------------------------------
# What ninja prints of a build that failed: ``FAILED: cuda.cuda.o``, the command, what it said.

_FAILED = re.compile(r"^FAILED: .*\n(?P<command>.*)\n", re.MULTILINE)
_ENDS = re.compile(r"^(?:FAILED: |\[\d+/\d+\] |ninja: build stopped)", re.MULTILINE)
_TARGET = re.compile(r"\b(?:sm|compute)_(\d+[af]?)\b")
SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c")


@dataclass(frozen=True, slots=True)
class FailedSource:
    """A file of a build that did not compile: its path, and the blob of its content if known.

    ``argv`` is the command, ``target`` the first that it names.
    """

    path: str
    blob: object
    argv: tuple[str, ...]
    target: str | None
    failure: Failure


def has_log(event: Event) -> bool:
    """Whether an event of a build that failed has what the compilers printed."""
    return _FAILED.search(as_text(event.get("error")) or "") is not None


def of_build(event: Event, blob: Blob) -> Iterator[FailedSource]:
    """The files that an event of a build says did not compile; none where it was built."""
    log = as_text(event.get("error")) or ""
    directory = str(event.get("directory") or "")
    digests = {f"{directory}/{name}": d for name, d in as_map(event.get("files")).items()}
    digests |= as_map(event.get("sources"))
    for block in _FAILED.finditer(log):
        end = _ENDS.search(log, block.end())
        said = log[block.end() : len(log) if end is None else end.start()]
        try:
            argv = tuple(shlex.split(block["command"]))
        except ValueError:
            continue
        named = next((word for word in argv if word.endswith(SOURCES)), None)
        if named is None:
            continue  # the libraries were linked
        path = named if named.startswith("/") else f"{directory}/{named}"
        digest = digests.get(path)
        tool = "nvcc" if path.endswith(".cu") else PurePath(argv[0]).name
        failure = of_log(said, tool, path, blob(digest), block["command"])
        if failure is not None:
            target = _TARGET.search(block["command"])
            yield FailedSource(path, digest, argv, target and f"sm_{target[1]}", failure)


def complaint(event: Event) -> str:
    """The line of what was printed of a build that failed in which a compiler complains."""
    lines = (as_text(event.get("error")) or "").strip().splitlines() or [""]
    return next((line for line in lines if "error" in line[1:].lower()), lines[0]).strip()


def of_whole_build(event: Event) -> Failure:
    """Why a build failed without a compiler's message: ninja is missing."""
    log = (as_text(event.get("error")) or "").strip()
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
        own = PurePath(file).name == PurePath(path).name
        return rows[n - 1] if own and 0 < n <= len(rows) else None

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

    def __init__(self) -> None:
        self._refused: dict[str, Failure] = {}
        self._loaded: set[str] = set()
        self._attempts: dict[str, Compilation] = {}
        self._words: dict[str, Failure] = {}
        self._launches: dict[tuple[str | None, str], dict[Failure, None]] = {}
        self._names: dict[str, str] = {}
        self._launched: set[tuple[str | None, str]] = set()
        self._borne: set[tuple[str | None, str]] = set()

    def said(self, event: Event, blob: Blob) -> None:
        """What Triton said of a compile that failed, when it was asked once more."""
        words = of_compile(event, blob)
        if words is not None:
            self._words[str(event.get("hash"))] = words

    def refused(self, event: Event) -> None:
        """A binary was not loaded."""
        failure = of_loading(event)
        if failure is not None:
            self._refused.setdefault(str(event.get("hash")), failure)

    def not_launched(self, event: Event) -> None:
        """A launch was refused, by its kernel's symbol and the machine code that it is in."""
        failure, symbol = of_launch(event), as_text(event.get("symbol"))
        if failure is not None and symbol is not None:
            self._launches.setdefault((as_text(event.get("hash")), symbol), {})[failure] = None
            self._names[symbol] = as_text(event.get("name")) or base_name(symbol)
            if event.get("ran") is True:
                self.launched(event)

    def launched(self, event: Event) -> None:
        """A kernel of which a launch was refused was launched besides."""
        self._launched.add((as_text(event.get("hash")), as_text(event.get("symbol")) or ""))

    def loaded(self, event: Event) -> None:
        """It was loaded, by this process or another."""
        self._loaded.add(str(event.get("hash")))

    def attempts(self, compilations: Iterable[Compilation]) -> None:
        """Take in the failed compilations of ``ptxview compile``."""
        for one in compilations:
            if one.failed is not None and one.hash is not None:
                self._attempts.setdefault(one.hash, one)

    def of(self, variant: Variant) -> Failure | None:
        """Why a variant failed, None where it did not.

        What was refused with one launch and ran with another came to something.
        """
        own, attempt = variant.error, self._attempts.get(variant.hash)
        if own is None and (attempt is None or Stage.SASS in variant.stages):
            if variant.hash in self._loaded:
                return None
            return self._refused.get(variant.hash) or self._unlaunched(variant)
        words = self._words.get(variant.hash)
        if own is not None and words is not None:
            return replace(own, message=words.message, messages=words.messages, log=words.log)
        if attempt is None or (own is not None and own.messages):
            return own
        return Failure(
            attempt.failed or "",
            None if own is None else own.stage,
            (attempt.tool or "").partition(" ")[0] or None,
            messages=attempt.messages,
        )

    def _unlaunched(self, variant: Variant) -> Failure | None:
        if variant.launches:
            return None
        for key in ((variant.hash, variant.symbol), (None, variant.symbol)):
            for failure in self._launches.get(key, ()) if key not in self._launched else ():
                self._borne.add(key)
                return failure
        return None

    def problems(self) -> Iterator[str]:
        """A sentence for each launch that was refused and that no variant bears."""
        for key, refused in self._launches.items():
            for failure in refused if key not in self._borne else ():
                yield f"a launch of {self._names[key[1]]} was refused: {failure.message}"
