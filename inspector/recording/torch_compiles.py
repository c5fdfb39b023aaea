"""What torch said of its compiles, of events: breaks, recompiles, caches, symbols, phases.

Probes and the reader of TORCH_TRACE give the same events: torch's own records, cut short. What they
mean is found here, for both. A stranger may have written any of them: nothing is taken for granted
of a field's type, and what cannot be understood is left out.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from inspector.base.model import (
    EXPORTED,
    CacheLookup,
    CompilePhase,
    Content,
    Failure,
    FrameCompile,
    GraphBreak,
    GuardFailure,
    KernelCompile,
    ShapeFact,
    UserFrame,
)
from inspector.base.text import guard_parts
from inspector.recording import facts
from inspector.recording.facts import Blob, Event, as_int, as_map, as_seconds, as_text, text_of

MAX_ITEMS = 64
"""Frames of a stack, hints of a break, failures of a recompile that are kept."""
MAX_FACTS = 1000
"""Facts of one kind that are kept of one compile."""
MAX_TEXT_CHARS = 65536
"""Characters of what torch said of one break or recompile."""
SENTENCE_CHARS = 600

_FRAME = re.compile(r'\s*File "([^"\n]{1,4096})", line (\d{1,9})(?:, in (.{1,400}))?')
_PLACE = re.compile(r"^Graph break in user code at ([^\n]{1,4096}):(\d{1,9})(?!\d)")
_TORCHS = re.compile(r"[/\\](?:site|dist)-packages[/\\]torch[/\\]|^<frozen ")
_NINJA_STEP = re.compile(r"^(\d{1,12})\t(\d{1,12})\t[^\t\n]*\t([^\t\n]*)", re.MULTILINE)
OF_COMPILES = frozenset((
    "compile_start", "compile_end", "compile_phases", "graph_break", "recompile", "guards",
    "compile_cache", "symbol",
))  # fmt: skip
"""Kinds of events about torch's compiles."""
CLOCK_SECONDS = 0.002
"""Difference between torch's two clocks."""
_KINDS = {
    "create_symbol": "symbol",
    "create_unbacked_symbol": "unbacked",
    "symbolic_shape_specialization": "static",
    "guard_added_fast": "guard",
    "automatic_dynamic": "dynamic",
}


class _CompileInProgress(Struct):
    """A compile while its events come in."""

    frame: FrameCompile
    previous: FrameCompile | None  # the one of this name that ended before this began
    ended: bool = False


class TorchCompiles:
    """Collects the events of compiles of all processes."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._compiles: list[_CompileInProgress] = []
        self._latest: dict[tuple[int | None, str], _CompileInProgress] = {}
        self.kernels: list[KernelCompile] = []  # what Triton and nvcc were asked for, in order
        # Events of no frame, by process and kind: of programs that were exported.
        self._frameless: dict[tuple[int | None, str], list[Event]] = {}
        self._refused: dict[str, int] = {}  # kernels that did not compile, by hash
        self._builds: dict[tuple[str, float], int] = {}  # by folder and beginning
        self._unbuilt: set[str] = set()  # folders of builds that failed

    def take(self, event: Event) -> None:
        match event.get("event"):
            case "triton" if isinstance(hit := event.get("cache_hit"), bool):
                # Without it, it is of a cache that was opened.
                if (name := as_text(event.get("name"))) is not None:
                    digest = as_text(event.get("hash"))
                    steps = _stages(event)
                    self.kernels.append(
                        _kernel(event, "triton", name, steps=steps, hit=hit, hash=digest)
                    )
            case "triton_failed":
                self._triton_failed(event)
            case "triton_said":
                # Add the messages of a second attempt, which have lines
                index = self._refused.get(as_text(event.get("hash")) or "")
                failure = facts.of_compile(event, self._blob)
                if index is not None and failure is not None:
                    kernel_compile = self.kernels[index]
                    self.kernels[index] = replace(
                        kernel_compile,
                        failed=failure.summary[:SENTENCE_CHARS],
                        place=_blamed(failure) or kernel_compile.place,
                    )
            case "graph_failed":
                self._graph_failed(event)
            case "extension":
                self._extension(event)
            case "uncaptured" | "made_failed":
                self._product(event)
            case str(kind) if kind in OF_COMPILES:
                if (compiling := self._compile_of(event)) is not None:
                    self._compile(compiling, event)
                else:
                    events = self._frameless.setdefault((as_int(event.get("pid")), kind), [])
                    if len(events) < MAX_FACTS:
                        events.append(event)

    def _compile(self, compiling: _CompileInProgress, event: Event) -> None:
        """Take in an event of one of torch's compiles."""
        frame, content = compiling.frame, self._blob(event.get("blob"))
        match event.get("event"):
            case "compile_start":
                compiling.frame = replace(frame, stack=frames_of(event.get("stack")))
            case "compile_end":
                figures, direction = as_map(event.get("figures")), frame.direction
                compiling.ended = True
                if figures.get("is_runtime") is True and not frame.stack:
                    direction = "runtime"
                backward = (as_text(event.get("kind")) or "").startswith("bwd_")
                if figures.get("is_forward") is False or backward:
                    direction = "backward"
                compiling.frame = replace(frame, figures=figures, direction=direction)
            case "compile_phases":
                marks = event.get("marks")
                stored = None if isinstance(marks, list) else self._blob(marks)
                spans = phases_of(marks if stored is None else parsed_json(text_of(stored)))
                compiling.frame = replace(frame, phases=(*frame.phases, *spans)[:MAX_FACTS])
            case "graph_break" if content is not None and len(frame.breaks) < MAX_FACTS:
                interruption = graph_break(
                    text_of(content)[:MAX_TEXT_CHARS], as_int(event.get("attempt"))
                )
                compiling.frame = replace(frame, breaks=(*frame.breaks, interruption))
            case "recompile":
                failures = failures_of(text_of(content)[:MAX_TEXT_CHARS])
                compiling.frame = replace(frame, failures=failures)
            case "guards":
                compiling.frame = replace(frame, guards=content or frame.guards)
            case "compile_cache" if len(frame.caches) < MAX_FACTS:
                compiling.frame = replace(frame, caches=(*frame.caches, *_lookup(event)))
            case "symbol" if len(frame.shapes) < MAX_FACTS:
                compiling.frame = replace(frame, shapes=(*frame.shapes, *_shape(event)))

    def frames(self) -> tuple[FrameCompile, ...]:
        compiles = [*self._compiles, *self._exported()]
        return tuple(map(_finished, compiles))

    def _exported(self) -> Iterator[_CompileInProgress]:
        """Compiles of exported programs: torch gives figures of each and names no frame.

        Other phases without a frame are of no compile, so a phase counts where it is within one.
        """
        for process in dict.fromkeys(process for process, _ in self._frameless):
            sizes = self._frameless.get((process, "symbol"), [])
            marks = _CompileInProgress(FrameCompile(EXPORTED, process=process), None)
            for event in self._frameless.get((process, "compile_phases"), []):
                self._compile(marks, event)
            for end in self._frameless.get((process, "compile_end"), []):
                compiling = _CompileInProgress(FrameCompile(EXPORTED, process=process), None)
                for event in (end, *sizes):
                    self._compile(compiling, event)
                sizes = []
                phases = _within(marks.frame.phases, compiling.frame.figures)
                compiling.frame = replace(compiling.frame, phases=phases)
                yield compiling
            if sizes:  # exported, and not compiled
                compiling = _CompileInProgress(FrameCompile(EXPORTED, process=process), None)
                for event in sizes:
                    self._compile(compiling, event)
                yield compiling

    # -- one event each ---------------------------------------------------------------------------

    def _compile_of(self, event: Event) -> _CompileInProgress | None:
        """The compile of an event: the latest of its name, or a new one once that is over.

        The backward of a graph, and its first run, have the forward's name. The reason of a
        recompile comes before the compile begins.
        """
        name, process, kind = id_of(event), as_int(event.get("pid")), event.get("event")
        if name is None:
            return None
        latest = self._latest.get((process, name))
        if latest is not None:
            over = latest.ended and bool(latest.frame.phases)
            if kind in ("compile_start", "recompile", "compile_end"):
                begun = bool(latest.frame.stack) and kind != "compile_end"
                over = over or latest.ended or begun
            if not over:
                return latest
        previous = None if latest is None else latest.frame
        latest = self._latest[process, name] = _CompileInProgress(
            FrameCompile(name, process=process), previous
        )
        self._compiles.append(latest)
        return latest

    def _triton_failed(self, event: Event) -> None:
        digest = as_text(event.get("hash"))
        first_line = (as_text(event.get("error")) or "").strip().partition("\n")[0]
        failure = facts.of_compile(event, self._blob) or (
            Failure(first_line) if first_line else None
        )
        if digest is None or failure is None:
            return
        source = as_map(event.get("source"))
        place = _place(source.get("file"), source.get("first"))
        self._refused[digest] = len(self.kernels)
        fields = {"steps": _stages(event), "hash": digest}
        self.kernels.append(_kernel(event, "triton", event.get("name"), failure, place, **fields))

    def _product(self, event: Event) -> None:
        if as_moment(event.get("began")) is None or as_seconds(event.get("seconds")) is None:
            return
        failure, lines = facts.of_compile(event, self._blob), event.get("lines")
        line = lines[0] if isinstance(lines, list) and lines else None
        compiler, place = as_text(event.get("by")) or "", _place(event.get("path"), line)
        self.kernels.append(_kernel(event, compiler, event.get("name"), failure, place))

    def _graph_failed(self, event: Event) -> None:
        """A graph of a function, or one that was exported before: that is no compile of torch's."""
        failure = facts.of_compile(event, self._blob)
        if failure is None:
            return
        if (compiling := self._compile_of(event)) is not None:
            compiling.frame = replace(compiling.frame, failed=failure.summary)
        else:
            name = as_text(event.get("graph")) or "graph"
            self.kernels.append(_kernel(event, "inductor", name, failure))

    def _extension(self, event: Event) -> None:
        began, seconds = as_moment(event.get("began")), as_seconds(event.get("seconds"))
        directory = as_text(event.get("directory")) or ""
        # Of a build torch tells as well when it has ended, or has failed before it began.
        if seconds is None and (not event.get("error") or directory in self._unbuilt):
            return
        failure, fresh = None, event.get("fresh")
        self._unbuilt.discard(directory)
        if event.get("error"):
            self._unbuilt.add(directory)
            sources = facts.of_build(event, self._blob)
            failure = next((source.failure for source in sources), facts.of_whole_build(event))
        content = self._blob(as_map(event.get("files")).get(".ninja_log"))
        name = as_text(event.get("name")) or directory
        steps = () if content is None or fresh is False else tuple(ninja_steps(content))
        hit = None if failure is not None or not isinstance(fresh, bool) else not fresh
        # A second event of the same build adds the compilers' output.
        index = len(self.kernels)
        if began is not None:
            index = self._builds.setdefault((directory, began), index)
        self.kernels[index : index + 1] = [
            _kernel(event, "nvcc", name, failure, steps=steps, hit=hit)
        ]


def _kernel(
    event: Event,
    compiler: str,
    name: object,
    failure: Failure | None = None,
    place: UserFrame | None = None,
    **fields: Any,
) -> KernelCompile:
    """A compile of a kernel; its place is the line that the compiler complains of, if any."""
    return KernelCompile(
        name=as_text(name) or "",
        compiler=compiler,
        process=as_int(event.get("pid")),
        began=as_moment(event.get("began")),
        seconds=as_seconds(event.get("seconds")),
        failed=None if failure is None else failure.summary[:SENTENCE_CHARS],
        place=_blamed(failure) or place,
        **fields,
    )


def _lookup(event: Event) -> Iterator[CacheLookup]:
    named = re.match(
        r"(fx_graph_bundled|fx_graph|aotautograd)_cache_(\w{1,64})$",
        as_text(event.get("name")) or "",
    )
    if named is not None:
        entry = as_map(event.get("said"))
        saved = as_seconds(entry.get("time_saved_ns"))
        reason = as_text(entry.get("cache_bypass_reason")) or as_text(entry.get("failure_reason"))
        yield CacheLookup(
            cache=named[1],
            outcome=named[2],
            key=as_text(entry.get("key")),
            reason=None if reason is None else reason[:SENTENCE_CHARS],
            saved_seconds=None if saved is None else saved / 1e9,
        )


def _shape(event: Event) -> Iterator[ShapeFact]:
    kind = _KINDS.get(as_text(event.get("kind")) or "")
    if kind is None:
        return
    entry = as_map(event.get("said"))
    sources = entry.get("sources")
    source = as_text(entry.get("source")) or as_text(entry.get("name"))
    if source is None and isinstance(sources, list):
        source = ", ".join(str(source_name) for source_name in sources[:MAX_ITEMS]) or None
    value = next((entry[k] for k in ("value", "val", "new") if entry.get(k) is not None), None)
    reason = as_text(entry.get("reason"))
    if kind == "dynamic" and reason is not None and entry.get("cached") is not None:
        reason = f"{reason}: {entry.get('cached')} before, now {entry.get('new')}"
    yield ShapeFact(
        kind=kind,
        symbol=as_text(entry.get("symbol")),
        source=source,
        value=None if value is None else str(value)[:SENTENCE_CHARS],
        bounds=as_text(entry.get("vr")),
        expression=as_text(entry.get("expr")),
        reason=reason,
        stack=frames_of(event.get("stack")),
    )


def _settled(shapes: Collection[ShapeFact]) -> tuple[ShapeFact, ...]:
    """Facts where a value that changed is ``dynamic`` only if this compile made a symbol of it.

    Torch says so of each value that changed, also where it then takes it as a constant. Sizes that
    are equal share one symbol, and a stride may be a product of symbols.
    """
    symbols = [fact for fact in shapes if fact.kind in ("symbol", "unbacked")]

    def is_symbolic(fact: ShapeFact) -> bool:
        source, reason = fact.source or "", fact.reason or ""
        if reason.startswith("stride") or any(symbol.kind == "unbacked" for symbol in symbols):
            return bool(symbols)
        if reason.startswith("scalar"):
            return any(symbol.source == source for symbol in symbols)
        return any(
            (symbol.source or "").startswith(f"{source}.") or symbol.value == fact.value
            for symbol in symbols
        )

    return tuple(
        replace(fact, kind="constant") if fact.kind == "dynamic" and not is_symbolic(fact) else fact
        for fact in shapes
    )


def _place(file: object, line: object) -> UserFrame | None:
    path, number = as_text(file), as_int(line)
    return UserFrame(path, number) if path and number else None


def _blamed(failure: Failure | None) -> UserFrame | None:
    """The line of a file that a compiler's first error is of."""
    first = None if failure is None else failure.first
    if first is None or first.file is None or first.line is None or first.file == "ptx":
        return None
    return UserFrame(first.file, first.line, code=(first.text or "").strip()[:SENTENCE_CHARS])


def _stages(event: Event) -> tuple[tuple[str, float], ...]:
    steps = event.get("stage_seconds")
    pairs = [s for s in steps[:MAX_ITEMS] if isinstance(s, list)] if isinstance(steps, list) else []
    timed = ((str(s[0]), as_seconds(s[1])) for s in pairs if len(s) == 2)
    return tuple((stage, seconds) for stage, seconds in timed if seconds is not None)


def id_of(event: Event) -> str | None:
    """Torch's name of a compile: ``0/1``, ``!2/0/1`` within compiled autograd's second graph."""
    frame, number = as_int(event.get("frame_id")), as_int(event.get("frame_compile_id"))
    autograd = as_int(event.get("compiled_autograd_id"))
    prefix = "" if autograd is None else f"!{autograd}/"
    if frame is None or number is None:
        return None if autograd is None else f"!{autograd}"
    return f"{prefix}{frame}/{number}"


def as_moment(value: object) -> float | None:
    """Seconds since 1970; None for what cannot be such a time."""
    return as_seconds(value, 1e11) or None


def frames_of(stack: object) -> tuple[UserFrame, ...]:
    """A stack without torch's own frames, the innermost frame last."""
    out = []
    for item in stack[-MAX_ITEMS:] if isinstance(stack, list | tuple) else []:
        frame = as_map(item)
        file, line = as_text(frame.get("file")), as_int(frame.get("line"))
        if file is None or line is None or line < 1 or _TORCHS.search(file):
            continue
        code = (as_text(frame.get("code")) or "")[:SENTENCE_CHARS]
        out.append(UserFrame(file, line, (as_text(frame.get("name")) or "")[:SENTENCE_CHARS], code))
    return tuple(out)


def stack_in(text: str) -> tuple[UserFrame, ...]:
    """The frames of a traceback that Python has formatted, without torch's own."""
    rows = text.split("\n")
    out = []
    for n, row in enumerate(rows):
        if (frame := _FRAME.match(row)) is None or _TORCHS.search(frame[1]):
            continue
        code = rows[n + 1].strip() if n + 1 < len(rows) else ""
        code = "" if _FRAME.match(code) else code[:SENTENCE_CHARS]
        out.append(UserFrame(frame[1], int(frame[2]), frame[3] or "", code))
    return tuple(out[-MAX_ITEMS:])


def graph_break(text: str, attempt: int | None = None) -> GraphBreak:
    """What torch said of a graph break: its reason, hints, and the program's stack."""
    body, _, traceback = text.partition("User code traceback:")
    stack = stack_in(traceback.partition("\nTraceback (most recent call last)")[0])
    head, _, why = body.partition("Reason:")
    rows = [row.strip() for row in (why or head).split("\n") if row.strip()]
    # Since 2.10 a sentence on what was being traced may come before the reason.
    if len(rows) > 1 and rows[0].startswith("Encountered graph break when attempting to trace"):
        rows = rows[1:]
    sections: dict[str, list[str]] = {"Explanation": [], "Hint": []}
    for row in rows[1:]:
        name, colon, content = row.partition(":")
        if colon and name in sections:
            sections[name].append(content.strip()[:SENTENCE_CHARS])
    if not stack and (place := _PLACE.match(text)) is not None:
        stack = (UserFrame(place[1], int(place[2])),)
    return GraphBreak(
        reason=(rows[0] if rows else "no reason was said")[:SENTENCE_CHARS],
        explanation=" ".join(sections["Explanation"]),
        hints=tuple(sections["Hint"][:MAX_ITEMS]),
        stack=stack,
        attempt=attempt,
        text=text,
    )


def failures_of(text: str) -> tuple[GuardFailure, ...]:
    """The guards that failed, as torch says them: one text, or a list of such."""
    loaded = parsed_json(text) if text.lstrip()[:1] == "[" else None
    texts = loaded if isinstance(loaded, list) else [text]
    return tuple(_failure(str(guard_text)) for guard_text in texts[:MAX_ITEMS] if guard_text)


def _failure(text: str) -> GuardFailure:
    first, _, traceback = text.strip().partition("\n")
    belongs = re.match(r"(!?[\d/]{1,40}): ", first)
    guard, code, place, hints = guard_parts(first[belongs.end() :] if belongs else first)
    compiled = belongs[1] if belongs else None
    return GuardFailure(guard, compiled, code, place, stack_in(traceback), hints)


def phases_of(marks: object) -> tuple[CompilePhase, ...]:
    """Phases by their beginnings and ends, ``["B", name, microseconds since 1970]``, in order."""
    out: list[CompilePhase] = []
    under_way: list[tuple[str, float]] = []
    for mark in marks if isinstance(marks, list) else []:
        if not isinstance(mark, list) or len(mark) != 3 or not isinstance(mark[1], str):
            continue
        moment = as_moment(mark[2] / 1e6 if isinstance(mark[2], int | float) else None)
        if moment is None:
            continue
        if mark[0] == "B" and len(under_way) < MAX_FACTS:
            under_way.append((mark[1], moment))
        elif mark[0] == "E" and any(name == mark[1] for name, _ in under_way):
            while under_way:
                name, began = under_way.pop()
                out.append(CompilePhase(name, began, max(moment - began, 0.0), len(under_way)))
                if name == mark[1]:
                    break
    return tuple(sorted(out, key=lambda each: (each.began, each.depth)))


def parsed_json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def ninja_steps(content: Content) -> Iterator[tuple[str, float]]:
    """The files that ninja made and how long each took, of the last build in its log."""
    rows = "\n".join(text_of(content).split("\n")[-1000:])
    for began, ended, name in _NINJA_STEP.findall(rows)[-MAX_ITEMS:]:
        if int(ended) >= int(began):
            yield name, (int(ended) - int(began)) / 1000


def _frameless_name(frame: FrameCompile) -> str:
    """What a compile is called that has no function."""
    if frame.id != EXPORTED:
        return ""
    return "exported program" if frame.figures else "traced, not compiled"


def _within(
    phases: tuple[CompilePhase, ...], figures: Mapping[str, object]
) -> tuple[CompilePhase, ...]:
    """The phases that began while a compile with these figures went on."""
    start, micro = figures.get("start_time_us"), _duration(figures)
    if not isinstance(start, int | float) or micro is None:
        return ()
    first, last = start / 1e6 - CLOCK_SECONDS, (start + micro) / 1e6 + CLOCK_SECONDS
    return tuple(phase for phase in phases if first <= phase.began <= last)


def _duration(figures: Mapping[str, object]) -> float | None:
    """Microseconds of a compile; of an exported program torch gives its end."""
    start, end = figures.get("start_time_us"), figures.get("end_time_us")
    if isinstance(duration := figures.get("duration_us"), int | float):
        return duration
    return end - start if isinstance(start, int | float) and isinstance(end, int | float) else None


def _finished(compiling: _CompileInProgress) -> FrameCompile:
    frame, figures = compiling.frame, compiling.frame.figures
    outermost = next((p for p in frame.phases if p.depth == 0), None)
    direction = frame.direction
    if outermost is not None and outermost.name == "entire_backward_compile":
        direction = "backward"
    elif compiling.previous is not None and not compiling.ended and not frame.stack:
        direction = "runtime"
    names = figures
    if compiling.previous is not None and not frame.stack:
        names = {**compiling.previous.figures, **figures}
    innermost = frame.stack[-1] if frame.stack else None
    start, micro = figures.get("start_time_us"), _duration(figures)
    frame_seconds = figures.get("entire_frame_compile_time_s")
    seconds = as_seconds(micro / 1e6 if isinstance(micro, int | float) else frame_seconds)
    began = as_moment(figures.get("start_time")) or as_moment(
        start / 1e6 if isinstance(start, int | float) else None
    )
    if outermost is not None:
        seconds = outermost.seconds if seconds is None else seconds
        began = began or outermost.began
    # An attempt was lost where another one followed.
    attempts = {phase.name: phase.seconds for phase in frame.phases}
    lost: dict[int | None, float | None] = {
        b.attempt: attempts.get(f"compile_attempt_{b.attempt}")
        for b in frame.breaks
        if b.attempt is not None and f"compile_attempt_{b.attempt + 1}" in attempts
    }
    return replace(
        frame,
        direction=direction,
        function=as_text(names.get("co_name"))
        or (innermost.function if innermost else _frameless_name(frame)),
        file=as_text(names.get("co_filename")) or (innermost.file if innermost else ""),
        line=as_int(names.get("co_firstlineno")) or (innermost.line if innermost else None),
        began=began,
        seconds=seconds,
        breaks=tuple(replace(b, lost_seconds=lost.get(b.attempt)) for b in frame.breaks),
        shapes=_settled(dict.fromkeys(frame.shapes)),
        guard_count=as_int(figures.get("guard_count")),
        failed=as_text(figures.get("fail_reason")) or frame.failed,
    )
