"""What torch said of its compiles, of events: breaks, recompiles, caches, symbols, phases.

Probes and the reader of TORCH_TRACE give the same events: torch's own records, cut short. What they
mean is found here, for both. A stranger may have written any of them: nothing is taken for granted
of a field's type, and what cannot be understood is left out.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence

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
from inspector.parsers.guards import guard_parts
from inspector.recording import failures
from inspector.recording.contents import Blob, text_of
from inspector.recording.decoding import as_seconds, as_text, tolerant
from inspector.recording.events import (
    CacheLookedUp,
    CompileEnded,
    CompileFigures,
    CompileMarks,
    CompilerProduct,
    CompileStarted,
    CompileText,
    Event,
    ExtensionBuild,
    GraphFailed,
    StackFrame,
    SymbolRecorded,
    TorchEvent,
    TritonCompile,
)

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
MAX_MOMENT = 1e11
"""Seconds since 1970 that a time may have."""
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

    EVENTS = (
        TritonCompile,
        CompilerProduct,
        ExtensionBuild,
        GraphFailed,
        CompileStarted,
        CompileEnded,
        CompileMarks,
        CompileText,
        CacheLookedUp,
        SymbolRecorded,
    )
    """The events that it takes."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._compiles: list[_CompileInProgress] = []
        self._latest: dict[tuple[int | None, str], _CompileInProgress] = {}
        self.kernels: list[KernelCompile] = []  # what Triton and nvcc were asked for, in order
        # Events of no frame, by process and kind: of programs that were exported.
        self._frameless: dict[tuple[int | None, str], list[TorchEvent]] = {}
        self._refused: dict[str, int] = {}  # kernels that did not compile, by hash
        self._builds: dict[tuple[str, float], int] = {}  # by folder and beginning
        self._unbuilt: set[str] = set()  # folders of builds that failed

    def take(self, event: Event) -> None:
        match event:
            case TritonCompile(event="triton"):
                self._triton(event)
            case TritonCompile(event="triton_failed"):
                self._triton_failed(event)
            case TritonCompile(event="triton_said"):
                self._second_attempt(event)
            case GraphFailed():
                self._graph_failed(event)
            case ExtensionBuild():
                self._extension(event)
            case CompilerProduct():
                self._product(event)
            case TorchEvent():
                compiling = self._compile_of(event)
                if compiling is not None:
                    self._compile(compiling, event)
                else:
                    events = self._frameless.setdefault((event.pid, event.event), [])
                    if len(events) < MAX_FACTS:
                        events.append(event)

    def _compile(self, compiling: _CompileInProgress, event: TorchEvent) -> None:
        """Take in an event of one of torch's compiles."""
        frame = compiling.frame
        match event:
            case CompileStarted():
                compiling.frame = replace(frame, stack=frames_of(event.stack))
            case CompileEnded():
                compiling.ended = True
                direction = _direction(frame, event)
                compiling.frame = replace(frame, figures=event.figures, direction=direction)
            case CompileMarks():
                spans = phases_of(self._marks(event))
                compiling.frame = replace(frame, phases=(*frame.phases, *spans)[:MAX_FACTS])
            case CompileText():
                compiling.frame = self._with_text(frame, event)
            case CacheLookedUp():
                lookup = _lookup(event)
                if lookup is not None and len(frame.caches) < MAX_FACTS:
                    compiling.frame = replace(frame, caches=(*frame.caches, lookup))
            case SymbolRecorded():
                shape = _shape(event)
                if shape is not None and len(frame.shapes) < MAX_FACTS:
                    compiling.frame = replace(frame, shapes=(*frame.shapes, shape))

    def _marks(self, event: CompileMarks) -> object:
        """The marks of an event, which may have them in a blob."""
        content = None if isinstance(event.marks, list) else self._blob(event.marks)
        return event.marks if content is None else parsed_json(text_of(content))

    def _with_text(self, frame: FrameCompile, event: CompileText) -> FrameCompile:
        """A compile with a graph break, the failures of a recompile, or the guards of an event."""
        content = self._blob(event.blob)
        if event.event == "guards":
            return replace(frame, guards=content or frame.guards)
        text = text_of(content)[:MAX_TEXT_CHARS]
        if event.event == "recompile":
            return replace(frame, failures=failures_of(text))
        if content is None or len(frame.breaks) >= MAX_FACTS:
            return frame
        return replace(frame, breaks=(*frame.breaks, graph_break(text, event.attempt)))

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
                figures = tolerant(compiling.frame.figures, CompileFigures)
                phases = _within(marks.frame.phases, figures)
                compiling.frame = replace(compiling.frame, phases=phases)
                yield compiling
            if sizes:  # exported, and not compiled
                compiling = _CompileInProgress(FrameCompile(EXPORTED, process=process), None)
                for event in sizes:
                    self._compile(compiling, event)
                yield compiling

    # -- one event each ---------------------------------------------------------------------------

    def _compile_of(self, event: TorchEvent | GraphFailed) -> _CompileInProgress | None:
        """The compile of an event: the latest of its name, or a new one once that is over.

        The backward of a graph, and its first run, have the forward's name. The reason of a
        recompile comes before the compile begins.
        """
        name = id_of(event)
        if name is None:
            return None
        latest = self._latest.get((event.pid, name))
        if latest is not None and not _is_over(latest, event):
            return latest
        previous = None if latest is None else latest.frame
        frame = FrameCompile(name, process=event.pid)
        compiling = _CompileInProgress(frame, previous)
        self._latest[event.pid, name] = compiling
        self._compiles.append(compiling)
        return compiling

    def _triton(self, event: TritonCompile) -> None:
        # Without a cache hit or miss, it is of a cache that was opened.
        if event.cache_hit is None or event.name is None:
            return
        compiled = _kernel(event, "triton", event.name)
        self.kernels.append(
            replace(compiled, steps=_stages(event), hit=event.cache_hit, hash=event.hash)
        )

    def _triton_failed(self, event: TritonCompile) -> None:
        error = event.error if isinstance(event.error, str) else ""
        first_line = error.strip().partition("\n")[0]
        failure = failures.of_compile(event, self._blob)
        if failure is None and first_line:
            failure = Failure(first_line)
        if event.hash is None or failure is None:
            return
        place = _place(event.source.file, event.source.first)
        self._refused[event.hash] = len(self.kernels)
        compiled = _kernel(event, "triton", event.name, failure, place)
        self.kernels.append(replace(compiled, steps=_stages(event), hash=event.hash))

    def _second_attempt(self, event: TritonCompile) -> None:
        """Add the messages of a second attempt at a kernel that failed, which have lines."""
        index = self._refused.get(event.hash or "")
        failure = failures.of_compile(event, self._blob)
        if index is not None and failure is not None:
            compiled = self.kernels[index]
            self.kernels[index] = replace(
                compiled,
                failed=failure.summary[:SENTENCE_CHARS],
                place=_blamed(failure) or compiled.place,
            )

    def _product(self, event: CompilerProduct) -> None:
        if event.began is None or event.seconds is None:
            return
        failure = failures.of_compile(event, self._blob)
        place = _place(event.path, event.lines[0] if event.lines else None)
        compiler = as_text(event.compiler) or ""
        self.kernels.append(_kernel(event, compiler, event.name, failure, place))

    def _graph_failed(self, event: GraphFailed) -> None:
        """A graph of a function, or one that was exported before: that is no compile of torch's."""
        failure = failures.of_compile(event, self._blob)
        if failure is None:
            return
        compiling = self._compile_of(event)
        if compiling is not None:
            compiling.frame = replace(compiling.frame, failed=failure.summary)
        else:
            self.kernels.append(_kernel(event, "inductor", event.graph or "graph", failure))

    def _extension(self, event: ExtensionBuild) -> None:
        directory = event.directory or ""
        # Of a build torch tells as well when it has ended, or has failed before it began.
        if event.seconds is None and (event.error is None or directory in self._unbuilt):
            return
        failure = None
        self._unbuilt.discard(directory)
        if event.error is not None:
            self._unbuilt.add(directory)
            sources = failures.of_build(event, self._blob)
            failure = next((source.failure for source in sources), None)
            failure = failure or failures.of_whole_build(event)
        content = self._blob(event.files.get(".ninja_log"))
        steps: tuple[tuple[str, float], ...] = ()
        if content is not None and event.fresh is not False:
            steps = tuple(ninja_steps(content))
        hit = None
        if failure is None and event.fresh is not None:
            hit = not event.fresh
        compiled = _kernel(event, "nvcc", event.name or directory, failure)
        # A second event of the same build adds the compilers' output.
        index = len(self.kernels)
        if event.began is not None:
            index = self._builds.setdefault((directory, event.began), index)
        self.kernels[index : index + 1] = [replace(compiled, steps=steps, hit=hit)]


def _is_over(latest: _CompileInProgress, event: TorchEvent | GraphFailed) -> bool:
    """Whether an event of a compile's name is of another compile than the latest."""
    if latest.ended and latest.frame.phases:
        return True
    if event.event == "compile_end":
        return latest.ended
    if event.event in ("compile_start", "recompile"):
        return latest.ended or bool(latest.frame.stack)
    return False


def _direction(frame: FrameCompile, event: CompileEnded) -> str:
    """The direction of a compile by torch's figures of it."""
    figures = tolerant(event.figures, CompileFigures)
    if figures.is_forward is False or (event.kind or "").startswith("bwd_"):
        return "backward"
    if figures.is_runtime and not frame.stack:
        return "runtime"
    return frame.direction


def _kernel(
    event: TritonCompile | CompilerProduct | GraphFailed | ExtensionBuild,
    compiler: str,
    name: str | None,
    failure: Failure | None = None,
    place: UserFrame | None = None,
) -> KernelCompile:
    """A compile of a kernel; its place is the line that the compiler complains of, if any."""
    return KernelCompile(
        name=name or "",
        compiler=compiler,
        process=event.pid,
        began=event.began,
        seconds=event.seconds,
        failed=None if failure is None else failure.summary[:SENTENCE_CHARS],
        place=_blamed(failure) or place,
    )


# fx_graph_cache_hit
_CACHE_NAME = re.compile(r"(fx_graph_bundled|fx_graph|aotautograd)_cache_(\w{1,64})$")


def _lookup(event: CacheLookedUp) -> CacheLookup | None:
    match = _CACHE_NAME.match(event.name or "")
    if match is None:
        return None
    entry = event.entry
    reason = entry.cache_bypass_reason or entry.failure_reason
    saved = entry.time_saved_ns
    return CacheLookup(
        cache=match[1],
        outcome=match[2],
        key=entry.key,
        reason=None if reason is None else reason[:SENTENCE_CHARS],
        saved_seconds=None if saved is None else saved / 1e9,
    )


def _shape(event: SymbolRecorded) -> ShapeFact | None:
    kind = _KINDS.get(event.kind or "")
    if kind is None:
        return None
    symbol = event.facts
    source = symbol.source or symbol.name
    if source is None and symbol.sources is not None:
        source = ", ".join(symbol.sources[:MAX_ITEMS]) or None
    reason = symbol.reason
    if kind == "dynamic" and reason is not None and symbol.cached is not None:
        reason = f"{reason}: {symbol.cached} before, now {symbol.new}"
    value = next((v for v in (symbol.value, symbol.val, symbol.new) if v is not None), None)
    return ShapeFact(
        kind=kind,
        symbol=symbol.symbol,
        source=source,
        value=None if value is None else str(value)[:SENTENCE_CHARS],
        bounds=symbol.vr,
        expression=symbol.expr,
        reason=reason,
        stack=frames_of(event.stack),
    )


def _settled(shapes: Collection[ShapeFact]) -> tuple[ShapeFact, ...]:
    """Facts where a value that changed is ``dynamic`` only if this compile made a symbol of it.

    Torch says so of each value that changed, also where it then takes it as a constant.
    """
    symbols = [fact for fact in shapes if fact.kind in ("symbol", "unbacked")]
    out = []
    for fact in shapes:
        if fact.kind == "dynamic" and not _is_symbolic(fact, symbols):
            fact = replace(fact, kind="constant")
        out.append(fact)
    return tuple(out)


def _is_symbolic(fact: ShapeFact, symbols: Sequence[ShapeFact]) -> bool:
    """Whether one of a compile's symbols is of a value. Sizes that are equal share one symbol, and
    a stride may be a product of symbols."""
    source, reason = fact.source or "", fact.reason or ""
    if reason.startswith("stride") or any(symbol.kind == "unbacked" for symbol in symbols):
        return bool(symbols)
    if reason.startswith("scalar"):
        return any(symbol.source == source for symbol in symbols)
    for symbol in symbols:
        if symbol.value == fact.value or (symbol.source or "").startswith(f"{source}."):
            return True
    return False


def _place(file: str | None, line: int | None) -> UserFrame | None:
    return UserFrame(file, line) if file and line else None


def _blamed(failure: Failure | None) -> UserFrame | None:
    """The line of a file that a compiler's first error is of."""
    first = None if failure is None else failure.first
    if first is None or first.file is None or first.line is None or first.file == "ptx":
        return None
    return UserFrame(first.file, first.line, code=(first.text or "").strip()[:SENTENCE_CHARS])


def _stages(event: TritonCompile) -> tuple[tuple[str, float], ...]:
    return event.stage_seconds[:MAX_ITEMS]


def id_of(event: TorchEvent | GraphFailed) -> str | None:
    """Torch's name of a compile: ``0/1``, ``!2/0/1`` within compiled autograd's second graph."""
    autograd = event.compiled_autograd_id
    if event.frame_id is None or event.frame_compile_id is None:
        return None if autograd is None else f"!{autograd}"
    prefix = "" if autograd is None else f"!{autograd}/"
    return f"{prefix}{event.frame_id}/{event.frame_compile_id}"


def frames_of(stack: Sequence[StackFrame]) -> tuple[UserFrame, ...]:
    """A stack without torch's own frames, the innermost frame last."""
    out = []
    for frame in stack[-MAX_ITEMS:]:
        file, line = frame.file, frame.line
        if file is None or line is None or line < 1 or _TORCHS.search(file):
            continue
        function = (frame.name or "")[:SENTENCE_CHARS]
        code = (frame.code or "")[:SENTENCE_CHARS]
        out.append(UserFrame(file, line, function, code))
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
        match mark:
            case [kind, str(name), moment]:
                microseconds = as_seconds(moment, MAX_MOMENT * 1e6)
            case _:
                continue
        if not microseconds:
            continue
        seconds = microseconds / 1e6
        if kind == "B" and len(under_way) < MAX_FACTS:
            under_way.append((name, seconds))
        elif kind == "E":
            out.extend(_ended_phases(under_way, name, seconds))
    return tuple(sorted(out, key=lambda phase: (phase.began, phase.depth)))


def _ended_phases(
    under_way: list[tuple[str, float]], name: str, moment: float
) -> Iterator[CompilePhase]:
    """The phases that the end of one ends: those inside it too, whose ends are missing."""
    if not any(open_name == name for open_name, _ in under_way):
        return
    while under_way:
        ended, began = under_way.pop()
        yield CompilePhase(ended, began, max(moment - began, 0.0), len(under_way))
        if ended == name:
            return


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


def _within(phases: tuple[CompilePhase, ...], figures: CompileFigures) -> tuple[CompilePhase, ...]:
    """The phases that began while a compile with these figures went on."""
    start, duration = figures.start_time_us, figures.microseconds
    if start is None or duration is None:
        return ()
    first = start / 1e6 - CLOCK_SECONDS
    last = (start + duration) / 1e6 + CLOCK_SECONDS
    return tuple(phase for phase in phases if first <= phase.began <= last)


def _finished(compiling: _CompileInProgress) -> FrameCompile:
    """A compile of which no further event comes, with what its figures and phases say."""
    frame = compiling.frame
    figures = tolerant(frame.figures, CompileFigures)
    place = _function(compiling)
    began, seconds = _times(frame, figures)
    return replace(
        frame,
        direction=_finished_direction(compiling),
        function=place.function,
        file=place.file,
        line=place.line or None,
        began=began,
        seconds=seconds,
        breaks=_with_lost_time(frame),
        shapes=_settled(dict.fromkeys(frame.shapes)),
        guard_count=figures.guard_count,
        failed=figures.fail_reason or frame.failed,
    )


def _outermost(frame: FrameCompile) -> CompilePhase | None:
    return next((phase for phase in frame.phases if phase.depth == 0), None)


def _finished_direction(compiling: _CompileInProgress) -> str:
    outermost = _outermost(compiling.frame)
    if outermost is not None and outermost.name == "entire_backward_compile":
        return "backward"
    if compiling.previous is not None and not compiling.ended and not compiling.frame.stack:
        return "runtime"
    return compiling.frame.direction


def _function(compiling: _CompileInProgress) -> UserFrame:
    """The function that was compiled, by torch's figures, else by the stack; the backward of one
    has the forward's figures. Line 0 is unknown."""
    frame = compiling.frame
    figures = frame.figures
    if compiling.previous is not None and not frame.stack:
        figures = {**compiling.previous.figures, **figures}
    names = tolerant(figures, CompileFigures)
    innermost = UserFrame("", 0, _frameless_name(frame))
    if frame.stack:
        innermost = frame.stack[-1]
    return UserFrame(
        names.co_filename or innermost.file,
        names.co_firstlineno or innermost.line,
        names.co_name or innermost.function,
    )


def _times(frame: FrameCompile, figures: CompileFigures) -> tuple[float | None, float | None]:
    """When a compile began, and how many seconds it took: by torch's figures, else its phases."""
    duration = figures.microseconds
    seconds = figures.entire_frame_compile_time_s
    if duration is not None:
        seconds = as_seconds(duration / 1e6)
    began = figures.start_time
    if began is None and figures.start_time_us is not None:
        began = as_seconds(figures.start_time_us / 1e6, MAX_MOMENT) or None
    outermost = _outermost(frame)
    if outermost is not None:
        seconds = outermost.seconds if seconds is None else seconds
        began = began or outermost.began
    return began, seconds


def _with_lost_time(frame: FrameCompile) -> tuple[GraphBreak, ...]:
    """The graph breaks; an attempt was lost where another one followed."""
    attempts = {phase.name: phase.seconds for phase in frame.phases}
    out = []
    for graph_break in frame.breaks:
        lost = None
        attempt = graph_break.attempt
        if attempt is not None and f"compile_attempt_{attempt + 1}" in attempts:
            lost = attempts.get(f"compile_attempt_{attempt}")
        out.append(replace(graph_break, lost_seconds=lost))
    return tuple(out)
