"""What torch.compile did and why, for people: phases, breaks, recompiles, guards.

One module because the timeline and the sentences are of the same compiles.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import accumulate, chain, islice
from math import ceil
from operator import itemgetter
from pathlib import PurePath

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from inspector.analysis import graph_view as choice_words
from inspector.base.errors import first_error
from inspector.base.escapes import shown
from inspector.base.grouping import by_key
from inspector.base.model import (
    EXPORTED,
    FrameCompile,
    GraphBreak,
    GuardFailure,
    KernelCompile,
    Recording,
    ShapeFact,
    UserFrame,
)
from inspector.base.units import plural, seconds, word_for
from inspector.parsers.guards import guard_parts
from inspector.render import compile_metrics, ranks
from inspector.render.compile_metrics import Words
from inspector.render.tables import FAILED, UNKNOWN, padded

Table = Mapping[str, Sequence[str]]
"""The names of phases of each part of the compiler; a name may have ``*`` in it."""

DYNAMO, TRITON, PTXAS = "Dynamo", "Triton", "ptxas"
PARTS = {
    DYNAMO: "D",
    "AOTAutograd": "A",
    "Inductor": "I",
    TRITON: "T",
    PTXAS: "p",
    "autotuning": "b",
    "nvcc": "n",
    "numba": "u",
}
"""The parts of the compiler in the order of lowering, and the letter of each in a bar."""
CLOCK_SECONDS = 0.002
"""Difference between clocks of one process."""
_PART_BY_MAKER = {"nvcc": "nvcc", "inductor": "Inductor", "numba.cuda": "numba"}


class Stretch(Struct, frozen=True):
    """An interval, in seconds since 1970, in which one part of the compiler was at work."""

    began: float
    ended: float
    part: str


class TimelineRow(Struct, frozen=True):
    """A compile, a kernel that was compiled outside of any, or one that was not compiled, with its
    stretches in order.

    ``is_nested`` says of a kernel that did not compile that its time is also in a compile's row.
    """

    compilation: FrameCompile | KernelCompile
    stretches: tuple[Stretch, ...]
    is_nested: bool = False


def timeline_rows(rec: Recording, phases: Table) -> list[TimelineRow]:
    """Compiles, kernels outside of any, and failed kernels, in order of time.

    Each moment of a compile is given to the innermost phase whose part is known. An exact name
    of a phase comes before one with ``*``.
    """
    parts = _parts_of_phases(rec, phases)
    timed_kernels = sorted((k for k in rec.kernel_compiles if k.began is not None), key=_start_time)
    kernels_by_process = by_key((kernel.process, kernel) for kernel in timed_kernels)
    rows: list[TimelineRow] = []
    busy: list[tuple[float, float]] = []
    for frame in rec.frame_compiles:
        spans: list[Span] = [
            (p.began, p.began + p.seconds, p.depth, parts[p.name]) for p in frame.phases
        ]
        if frame.began is not None and frame.seconds is not None:
            first = frame.began - CLOCK_SECONDS
            last = frame.began + frame.seconds + CLOCK_SECONDS
            busy.append((first, last))
            kernels = kernels_by_process.get(frame.process, [])
            begin = bisect_left(kernels, first, key=_start_time)
            end = bisect_right(kernels, last, key=_start_time)
            deepest = max((p.depth for p in frame.phases), default=0)
            for kernel in kernels[begin:end]:
                spans += [(b, e, deepest + depth, p) for b, e, depth, p in _kernel_spans(kernel)]
        rows.append(TimelineRow(frame, _innermost(spans)))
    frame_intervals = union(busy)
    for kernel in rec.kernel_compiles:
        if kernel.failed is None and (kernel.hit is True or kernel.seconds is None):
            continue
        is_nested = kernel.began is not None and _covers(frame_intervals, kernel.began)
        if kernel.failed is not None or not is_nested:
            rows.append(TimelineRow(kernel, _innermost(_kernel_spans(kernel)), is_nested))
    return sorted(
        rows, key=lambda row: (row.compilation.began is None, row.compilation.began or 0.0)
    )


Span = tuple[float, float, int, str | None]
"""Begin and end in seconds, nesting depth, and part of the compiler."""


def _parts_of_phases(rec: Recording, phases: Table) -> dict[str, str | None]:
    """The part of the compiler of each phase's name in a recording; None if unknown."""
    patterns = [(pattern, part) for part, names in phases.items() for pattern in names]
    patterns.sort(key=lambda pair: "*" in pair[0])
    parts: dict[str, str | None] = {}
    for phase in chain.from_iterable(frame.phases for frame in rec.frame_compiles):
        if phase.name not in parts:
            matches = (part for pattern, part in patterns if fnmatchcase(phase.name, pattern))
            parts[phase.name] = next(matches, None)
    return parts


def _covers(intervals: Sequence[tuple[float, float]], moment: float) -> bool:
    """Whether a moment is in one of the ordered intervals."""
    index = bisect_right(intervals, moment, key=itemgetter(0)) - 1
    return index >= 0 and moment <= intervals[index][1]


def all_stretches(rows: Iterable[TimelineRow]) -> list[Stretch]:
    return [s for row in rows if not row.is_nested for s in row.stretches]


def by_part(stretches: Iterable[Stretch]) -> dict[str, float]:
    """Seconds of each part, in the order of lowering; parts that took none are left out."""
    seconds: dict[str, float] = {}
    for stretch in stretches:
        seconds[stretch.part] = seconds.get(stretch.part, 0.0) + stretch.ended - stretch.began
    return {part: seconds[part] for part in PARTS if part in seconds}


def union(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Intervals without overlaps, in order."""
    out: list[tuple[float, float]] = []
    for began, ended in sorted(intervals):
        if out and began <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], ended))
        else:
            out.append((began, ended))
    return out


def length(intervals: Iterable[tuple[float, float]]) -> float:
    return sum(ended - began for began, ended in union(intervals))


def bars(rows: Sequence[TimelineRow], width: int) -> list[str]:
    """Each row as letters: a column has that of the part with most of its time, a blank for none.

    Time in which nothing was compiled takes no column.
    """
    busy = union((s.began, s.ended) for row in rows for s in row.stretches)
    start_times = list(accumulate((ended - began for began, ended in busy), initial=0.0))

    def column(moment: float) -> float:
        index = bisect_right(busy, moment, key=itemgetter(0)) - 1
        began, ended = busy[index]
        seconds_before = start_times[index] + min(moment, ended) - began
        return seconds_before / start_times[-1] * width

    out = []
    for row in rows:
        cells: list[dict[str, float]] = [{} for _ in range(width)]
        for stretch in row.stretches:
            first = column(stretch.began)
            last = column(stretch.ended)
            start = min(int(first), width - 1)
            for place in range(start, min(width, max(ceil(last), start + 1))):
                overlap = min(last, place + 1) - max(first, place)
                cells[place][stretch.part] = cells[place].get(stretch.part, 0.0) + overlap
        letters = [PARTS[max(cell, key=cell.__getitem__)] if cell else " " for cell in cells]
        out.append("".join(letters).rstrip())
    return out


def _innermost(spans: Iterable[tuple[float, float, int, str | None]]) -> tuple[Stretch, ...]:
    """Stretches of nested spans (began, ended, depth, part), each moment the innermost one's."""
    # One pass: what is open at a moment is a stack, as phases nest.
    stack: list[tuple[float, str]] = []  # until when, which part
    pieces: list[Stretch] = []
    now = 0.0

    def until(moment: float, part: str) -> None:
        nonlocal now
        if moment > now:
            previous = pieces[-1] if pieces else None
            if previous is not None and previous.part == part and previous.ended >= now:
                pieces[-1] = Stretch(previous.began, moment, part)
            else:
                pieces.append(Stretch(now, moment, part))
            now = moment

    last = (float("inf"), float("inf"), 0, None)
    for began, ended, _, part in (*sorted(spans, key=lambda s: (s[0], s[2], -s[1])), last):
        while stack and stack[-1][0] <= began:
            until(*stack.pop())
        if stack:
            until(began, stack[-1][1])
        now = max(now, began)
        within = min(ended, stack[-1][0]) if stack else ended
        stack.append((within, part or (stack[-1][1] if stack else DYNAMO)))
    return tuple(pieces)


def _kernel_spans(kernel: KernelCompile) -> Iterator[tuple[float, float, int, str]]:
    """Yield a kernel's compile and, deeper, its assembler: the last of Triton's stages."""
    if kernel.began is None or kernel.seconds is None:
        return
    ended = kernel.began + kernel.seconds
    yield kernel.began, ended, 1, _PART_BY_MAKER.get(kernel.compiler, TRITON)
    # The stages end where the compile does.
    name, seconds = kernel.steps[-1] if kernel.steps else ("", 0.0)
    if kernel.compiler == "triton" and name == "cubin":
        yield max(ended - seconds, kernel.began), ended, 2, PTXAS


def _start_time(kernel: KernelCompile) -> float:
    return kernel.began or 0.0


COLOURS = {"D": "blue", "A": "cyan", "I": "green", "T": "magenta", "p": "red"}
COLOURS |= {"b": "yellow", "n": "red", "u": "green"}
CACHES = {
    "fx_graph": "FX graph",
    "fx_graph_bundled": "FX graph (bundled)",
    "aotautograd": "AOTAutograd",
    "triton": "Triton",
}
MAKERS = (
    ("triton", "kernel", "compiled by Triton"),
    ("numba.cuda", "kernel", "compiled by numba"),
    ("nvcc", "build", "of extensions"),
)
"""Makers of kernels, the noun for one compile, and the verb."""
_RESUMED = re.compile(r"(?:torch_dynamo_resume_in_|__resume_at_)(.*)_at_(\d{1,9})$")
PARALLEL_RATIO = 1.01
"""Sum of compile times over wall time above which processes compiled in parallel."""
MIN_BAR = 12
MAX_LABEL = 44
IDENT_DIGITS = 4
"""Digits of a variant's id beside kernels of one name."""


class CompileLine(Struct, frozen=True):
    """A line for people, and the line of the program that it is about, None if it is about none.

    ``kernel`` is the kernel that it is about: its id, the hash of its variant, or the ids of kernel
    and variant with a blank between. ``opens``: more lines follow beneath it on request.
    ``about`` is said of it where it is chosen. ``tuned`` are the ids of kernels that a round of
    tuning, or one of its candidates, was for.
    """

    text: Text
    place: UserFrame | None = None
    kernel: str | None = None
    opens: bool = False
    about: str = ""
    tuned: tuple[str, ...] = ()

    @property
    def leads(self) -> bool:
        """Whether there is something to go to or to open."""
        return bool(self.opens or self.place or self.kernel)


class BreakPlace(Struct, frozen=True):
    """The graph breaks of one line for one reason, and the ids of the compiles that had them.

    ``resumed`` are the compiles of what comes after it: Dynamo makes a function of that.
    """

    first: GraphBreak
    count: int
    compiles: Sequence[str]
    resumed: Sequence[str]
    lost_seconds: float | None
    resumed_seconds: float | None


def _total(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None


def resumed_at(function: str) -> tuple[str, int] | None:
    """The function and line at which the function that Dynamo made begins; None for the user's."""
    match = _RESUMED.match(function)
    return (match[1], int(match[2])) if match else None


def break_places(rec: Recording) -> list[BreakPlace]:
    """Graph breaks by their line and reason, in the order in which they were first met."""
    groups: dict[object, list[tuple[FrameCompile, GraphBreak]]] = {}
    for frame in rec.frame_compiles:
        for graph_break in frame.breaks:
            place = graph_break.place
            line = place and (place.file, place.line)
            groups.setdefault((line, graph_break.reason), []).append((frame, graph_break))
    starts = ((resumed_at(frame.function), frame) for frame in rec.frame_compiles)
    resumed = [(start[1], frame) for start, frame in starts if start is not None]
    return [_break_place(group, resumed) for group in groups.values()]


def _break_place(
    group: Sequence[tuple[FrameCompile, GraphBreak]],
    all_resumed: Iterable[tuple[int, FrameCompile]],
) -> BreakPlace:
    """The breaks of one line, with the compiles that resume at a line of their stacks.

    ``all_resumed`` are all compiles of functions that Dynamo made, each with its first line.
    """
    breaks = [graph_break for _, graph_break in group]
    lines = {(f.file, f.line) for graph_break in breaks for f in graph_break.stack}
    resumed = [frame for line, frame in all_resumed if (frame.file, line) in lines]
    return BreakPlace(
        breaks[0],
        len(breaks),
        list(dict.fromkeys(frame.id for frame, _ in group)),
        list(dict.fromkeys(frame.id for frame in resumed)),
        _total(graph_break.lost_seconds for graph_break in breaks),
        _total(frame.seconds for frame in resumed),
    )


def recompiles(rec: Recording) -> list[FrameCompile]:
    """Compiles of what had been compiled before, in order."""
    return [frame for frame in rec.frame_compiles if frame.failures]


def lookups(rec: Recording) -> dict[str, Counter[str]]:
    """Count lookups of each cache by outcome; Triton's by distinct kernels."""
    out: dict[str, Counter[str]] = {}
    for frame in rec.frame_compiles:
        for lookup in frame.caches:
            out.setdefault(lookup.cache, Counter())[lookup.outcome] += 1
    for kernel in _distinct(rec.kernel_compiles):
        if kernel.compiler == "triton" and kernel.hit is not None:
            out.setdefault("triton", Counter())["hit" if kernel.hit else "miss"] += 1
    return out


def failed_compiles(rec: Recording) -> list[FrameCompile | KernelCompile]:
    """Compiles of which nothing came: of functions first, then of kernels, graphs and builds."""
    frames = [compilation for compilation in rec.frame_compiles if compilation.failed]
    return [*frames, *(compilation for compilation in rec.kernel_compiles if compilation.failed)]


def failed_seconds(compilations: Sequence[FrameCompile | KernelCompile]) -> float | None:
    """Return the wall time of failed compiles; None if one's is unknown."""
    spans = [
        (compilation.began, compilation.began + compilation.seconds)
        for compilation in compilations
        if compilation.began is not None and compilation.seconds is not None
    ]
    return length(spans) if len(spans) == len(compilations) else None


def _distinct(kernels: Iterable[KernelCompile]) -> list[KernelCompile]:
    """Each kernel that compiled, once: a process takes from the cache what another compiled."""
    out: dict[object, KernelCompile] = {}
    for n, kernel in enumerate(kernel for kernel in kernels if kernel.failed is None):
        key = kernel.hash or n
        if key not in out or (out[key].hit and not kernel.hit):
            out[key] = kernel
    return list(out.values())


# -- for people -----------------------------------------------------------------------------------


def why_empty(rec: Recording) -> str | None:
    """Why there is nothing to say of compiles; None if there is."""
    if rec.frame_compiles or any(k.seconds is not None or k.failed for k in rec.kernel_compiles):
        return None
    return (
        "nothing is known of compiles here: torch.compile made nothing, or the recording is of a "
        "version that did not keep it"
    )


def lines(rec: Recording, phases: Table, figures: Words, width: int) -> Iterator[CompileLine]:
    """Everything: the timeline, caches, breaks, recompiles, dynamic shapes, torch's figures."""
    rows = timeline_rows(rec, phases)
    yield from map(CompileLine, summary(rec, rows))
    rank_of: dict[int | None, str] = {n: r.name for r in ranks.ranks(rec) for n in r.processes}
    yield from timeline(rows, width, rank_of)
    yield from map(CompileLine, _caches(rec))
    parts = (
        _rank_lines(rec),
        tuner_choices(rec),
        breaks(rec),
        recompile_lines(rec),
        shapes(rec),
        metrics(rec, figures),
        failure_lines(rec),
    )
    for part in parts:
        part_lines = list(part)
        if part_lines:
            yield from (CompileLine(Text()), *part_lines)


def _rank_lines(rec: Recording) -> Iterator[CompileLine]:
    """What ranks compiled differently."""
    for text, difference in ranks.lines(rec):
        if difference is None:
            yield CompileLine(text)
        else:
            yield CompileLine(text, difference.place, difference.kernel)


def summary(rec: Recording, rows: Sequence[TimelineRow]) -> Iterator[Text]:
    """Yield a line of counts and one of compile times by part."""
    parts = [*_frame_counts(rec), *_kernel_counts(rec)]
    failed = failed_compiles(rec)
    if failed:
        lost = failed_seconds(failed)
        duration = "" if lost is None else f" in {seconds(lost)}"
        parts.append(f"{plural(len(failed), 'compile')} failed{duration}")
    if parts:
        yield Text(" · ".join(parts), "bold")
    shares = by_part(all_stretches(rows))
    if shares:
        yield _shares_text(rows, shares, bool(failed))


def _frame_counts(rec: Recording) -> list[str]:
    """How many functions and programs were compiled, graph breaks and recompiles."""
    frames = [frame for frame in rec.frame_compiles if frame.id != EXPORTED]
    exported = [
        frame
        for frame in rec.frame_compiles
        if frame.id == EXPORTED and frame.figures and not frame.failed
    ]
    compiled = [frame for frame in frames if not frame.failed]
    parts = []
    if compiled:
        functions = {(frame.file, frame.line, frame.function) for frame in compiled}
        often = f" {len(compiled)} times" if len(compiled) != len(functions) else ""
        rank_count = len(ranks.ranks(rec))
        by_ranks = f" by {plural(rank_count, 'rank')}" if rank_count else ""
        parts.append(f"{plural(len(functions), 'function')} compiled{often}{by_ranks}")
    if exported:
        parts.append(f"{plural(len(exported), 'exported program')}")
    if frames:
        count = sum(len(frame.breaks) for frame in rec.frame_compiles)
        parts += [plural(count, "graph break"), plural(len(recompiles(rec)), "recompile")]
    return parts


def _kernel_counts(rec: Recording) -> Iterator[str]:
    """How many kernels each maker compiled, and how long they took."""
    for maker, noun, verb in MAKERS:
        kernels = [k for k in rec.kernel_compiles if k.compiler == maker and k.failed is None]
        ptxas_seconds: list[float] = []
        if maker == "triton":
            kernels = [k for k in _distinct(kernels) if k.hit is False and k.seconds is not None]
            steps = chain.from_iterable(kernel.steps for kernel in kernels)
            ptxas_seconds = [duration for name, duration in steps if name == "cubin"]
        if kernels:
            total = seconds(sum(kernel.seconds or 0 for kernel in kernels))
            ptxas = f", ptxas {seconds(sum(ptxas_seconds))} of them" if ptxas_seconds else ""
            yield f"{plural(len(kernels), noun)} {verb} in {total}{ptxas}"


def _shares_text(
    rows: Sequence[TimelineRow], shares: Mapping[str, float], has_failed: bool
) -> Text:
    """Seconds of compiling, and of each part of the compiler."""
    wall = length((s.began, s.ended) for row in rows for s in row.stretches)
    failed = ", the failed ones included" if has_failed else ""
    # What processes compile side by side takes no longer, but each its own time.
    total = sum(shares.values())
    processes = f", {seconds(total)} over all processes" if total > PARALLEL_RATIO * wall else ""
    text = Text(f"{seconds(wall)} of compiling{failed}{processes}: ")
    for n, (part, part_seconds) in enumerate(shares.items()):
        letter = PARTS[part]
        text.append(" · " if n else "")
        text.append(letter, f"{COLOURS[letter]} reverse")
        text.append(f" {part} {seconds(part_seconds)}")
    return text


def timeline(
    rows: Sequence[TimelineRow], width: int, rank_of: Mapping[int | None, str]
) -> Iterator[CompileLine]:
    """A row for each compile with a bar of its phases; time without any compile is left out.

    ``rank_of`` has the names of processes' ranks, where there are several.
    """
    names = {process: f"{shown(name)}  " for process, name in rank_of.items()}
    labels = [names.get(row.compilation.process, "") + _label(row) for row in rows]
    counts = Counter(labels)
    for n, row in enumerate(rows):
        if (
            isinstance(row.compilation, KernelCompile)
            and row.compilation.hash
            and counts[labels[n]] > 1
        ):
            labels[n] += f" {shown(row.compilation.hash[:IDENT_DIGITS])}"
    label_width = min(max((cell_len(label) for label in labels), default=0), MAX_LABEL, width // 2)
    room = width - label_width - 11
    drawn = bars(rows, room) if room >= MIN_BAR else [""] * len(rows)
    for row, label, bar in zip(rows, labels, drawn, strict=True):
        compilation = row.compilation
        duration = UNKNOWN if compilation.seconds is None else seconds(compilation.seconds)
        text = Text(padded(label, label_width), "bold red" if compilation.failed else "")
        text.append(f" {duration:>8}  ", "")
        for letter in bar:
            text.append(letter, f"{COLOURS[letter]} reverse" if letter != " " else "")
        text.no_wrap = True
        text.rstrip()
        yield CompileLine(text, _first_line(compilation), getattr(compilation, "hash", None))


def _first_line(compilation: FrameCompile | KernelCompile) -> UserFrame | None:
    """Where a compile's function begins, or goes on after a break; a kernel's place."""
    if isinstance(compilation, KernelCompile):
        return compilation.place
    resumed = resumed_at(compilation.function)
    line = resumed[1] if resumed is not None else compilation.line
    return (
        UserFrame(compilation.file, line, compilation.function)
        if compilation.file and line
        else None
    )


def _label(row: TimelineRow) -> str:
    compilation = row.compilation
    if isinstance(compilation, FrameCompile):
        mark = (" ↻" if compilation.failures else "") + (FAILED if compilation.failed else "")
        direction = "" if compilation.direction == "forward" else f" ({compilation.direction})"
        return f"{shown(compilation.id)}{mark} {function_text(compilation)}{direction}"
    mark = f"{FAILED.strip()} " if compilation.failed else ""
    return ("  " if row.is_nested else "") + mark + _kernel_text(compilation)


def _kernel_text(kernel: KernelCompile) -> str:
    """A kernel, graph or build with whose work it was: ``triton add``."""
    return f"{kernel.compiler} {shown(PurePath(kernel.name).name)}"


def function_text(frame: FrameCompile) -> str:
    """A compile's function and where it stands: ``f  model.py:3``."""
    resumed = resumed_at(frame.function)
    name = f"{resumed[0]}, resumed" if resumed is not None else frame.function
    location = _location(frame.file, resumed[1] if resumed is not None else frame.line)
    return shown(f"{name}  {location}".strip()) or UNKNOWN


def _location(file: str, line: int | None) -> str:
    name = PurePath(file).name
    return name if line is None else f"{name}:{line}"


def _caches(rec: Recording) -> Iterator[Text]:
    counts = lookups(rec)
    texts = []
    for cache, name in CACHES.items():
        if cache in counts:
            outcomes = (f"{n} {word_for(n, word)}" for word, n in sorted(counts[cache].items()))
            texts.append(f"{name} {', '.join(outcomes)}")
    if texts:
        yield Text("caches: " + " · ".join(map(shown, texts)))
    all_lookups = chain.from_iterable(frame.caches for frame in rec.frame_compiles)
    unasked = {lookup.reason: lookup.cache for lookup in all_lookups if lookup.reason}
    for reason, cache in unasked.items():
        yield Text(shown(f"  {CACHES.get(cache, cache)} was not asked: {reason}"))


def tuner_choices(rec: Recording) -> Iterator[CompileLine]:
    """What max-autotune chose for each operation, of how many, and whose time that is."""
    is_first = True
    for kernel in rec.kernels:
        for tuning in kernel.autotune:
            if tuning.operation is None:
                continue
            if is_first:
                yield CompileLine(Text("max-autotune", "bold cyan"))
                is_first = False
            choice = choice_words.choice_text(tuning)
            text = f"  {kernel.name}: {choice}; {choice_words.candidates(tuning)}"
            yield CompileLine(Text(shown(text)), kernel=kernel.id)


def breaks(rec: Recording) -> Iterator[CompileLine]:
    """Each line that breaks graphs: its reason, how often, in which compiles, what it cost."""
    places = break_places(rec)
    count = sum(place.count for place in places)
    if places:
        several = f" in {plural(len(places), 'place')}" if len(places) != count else ""
        yield CompileLine(Text(f"{plural(count, 'graph break')}{several}", "bold cyan"))
    for place in places:
        for text in _break_texts(place):
            yield CompileLine(text, place.first.place)


def _break_texts(break_place: BreakPlace) -> Iterator[Text]:
    """Where a graph was broken, why, torch's hints, the costs, and the stack."""
    first = break_place.first
    often = f"  {break_place.count}×" if break_place.count > 1 else ""
    yield Text.assemble("  ", (shown(_source_line(first.place)), "bold"), often)
    yield Text(f"    {shown(first.reason)}")
    if first.explanation:
        yield Text(f"    {shown(first.explanation)}", "dim")
    for hint in first.hints:
        yield Text(f"    hint: {shown(hint)}", "dim")
    costs = [f"in {', '.join(break_place.compiles)}"]
    if break_place.lost_seconds is not None:
        costs.append(f"{seconds(break_place.lost_seconds)} of tracing were repeated because of it")
    if break_place.resumed:
        names = ", ".join(break_place.resumed)
        resumed = break_place.resumed_seconds
        duration = "" if resumed is None else f", {seconds(resumed)}"
        costs.append(f"what follows is compiled on its own: {names}{duration}")
    yield Text(f"    {shown('; '.join(costs))}")
    if len(first.stack) > 1:
        steps = " → ".join(f"{_location(f.file, f.line)} in {f.function}" for f in first.stack)
        yield Text(f"    called by: {shown(steps)}")


def _source_line(place: UserFrame | None) -> str:
    """``/x/model.py:3 in forward  y = x + 1``."""
    if place is None:
        return "a line that torch did not name"
    function = f" in {place.function}" if place.function else ""
    code = f"  {place.code}" if place.code else ""
    return f"{place.file}:{place.line}{function}{code}"


def recompile_lines(rec: Recording) -> Iterator[CompileLine]:
    """Each recompile: what it cost, and the guards that failed, in torch's words."""
    compiles = recompiles(rec)
    if compiles:
        total = _total(frame.seconds for frame in compiles)
        cost = f", {seconds(total)}" if total is not None else ""
        yield CompileLine(Text(f"{plural(len(compiles), 'recompile')}{cost}", "bold cyan"))
    for frame in compiles:
        cost = UNKNOWN if frame.seconds is None else seconds(frame.seconds)
        head = Text.assemble(f"  {shown(frame.id)} ", (function_text(frame), "bold"), f"  {cost}")
        yield CompileLine(head, _first_line(frame))
        printed_hints: set[str] = set()
        for failure in frame.failures:
            place = _failure_place(frame, failure)
            yield CompileLine(Text(f"    {shown(_failure_text(failure))}"), place)
            for hint in failure.hints:
                if hint not in printed_hints:
                    printed_hints.add(hint)
                    yield CompileLine(Text(f"      hint: {shown(hint)}", "dim"), place)


def _failure_text(failure: GuardFailure) -> str:
    """A guard that failed, the compile that it is of, and the line that it was made for."""
    guard_of = f" (guard of {failure.compile})" if failure.compile else ""
    code = f"  {failure.code}" if failure.code else ""
    return f"{failure.guard}{guard_of}{_frame_text(failure.stack) or code}"


def _failure_place(frame: FrameCompile, failure: GuardFailure) -> UserFrame | None:
    """The line that a failed guard was made for, else the first line of the function."""
    if failure.stack:
        return failure.stack[-1]
    # Torch's comment names the end of its file's path.
    file, _, line = failure.place.partition(" in ")[0].rpartition(":")
    if file and frame.file.endswith(file) and line.isdecimal() and len(line) < 10:
        return UserFrame(frame.file, int(line), frame.function, failure.code)
    return _first_line(frame)


def _frame_text(stack: Sequence[UserFrame]) -> str:
    """``  model.py:3: y = x + 1``; "" without frames."""
    return f"  {_location(stack[-1].file, stack[-1].line)}: {stack[-1].code}" if stack else ""


def shapes(rec: Recording) -> Iterator[CompileLine]:
    """Which sizes became symbols, and what made them static again, by function."""
    places: dict[str, UserFrame | None] = {}
    for frame in rec.frame_compiles:
        for fact in frame.shapes:
            if text := _shape_text(fact):
                place = fact.stack[-1] if fact.stack else _first_line(frame)
                places.setdefault(f"  {frame.id} {function_text(frame)}: {text}", place)
    if places:
        yield CompileLine(Text("dynamic shapes", "bold cyan"))
    yield from (CompileLine(Text(shown(line)), place) for line, place in places.items())


def _shape_text(fact: ShapeFact) -> str:
    place = _frame_text(fact.stack)
    source = fact.source or ""
    if fact.kind == "dynamic":
        return f"{source} is dynamic from here: {fact.reason or 'it changed'}{place}"
    if fact.kind == "constant":
        return f"{source} stays a constant: {fact.reason or 'it changed'}{place}"
    if fact.kind == "symbol":
        bounds = f" in {fact.bounds}" if fact.bounds else ""
        return f"{fact.symbol} is {source}, here {fact.value}{bounds}{place}"
    if fact.kind == "unbacked":
        return f"{fact.symbol} is known only when it runs{place}"
    if fact.kind == "static":
        reason = f" ({fact.reason})" if fact.reason else ""
        return f"{fact.symbol} of {source} was made static: {fact.value}{reason}{place}"
    return f"guard {fact.expression}{place}" if fact.expression else ""


def metrics(rec: Recording, words: Words) -> Iterator[CompileLine]:
    """What torch measured of each compile, and why it made no CUDA graph."""
    is_first = True
    for compiled in rec.frame_compiles:
        rows = list(compile_metrics.rows(compiled.figures, words))
        if not rows:
            continue
        if is_first:
            yield CompileLine(Text("torch's figures", "bold cyan"))
            is_first = False
        direction = "" if compiled.direction == "forward" else f" ({compiled.direction})"
        head = Text.assemble(
            f"  {shown(compiled.id)} ", (function_text(compiled), "bold"), direction
        )
        yield from (CompileLine(text, _first_line(compiled)) for text in (head, *rows))


def failure_lines(rec: Recording) -> Iterator[CompileLine]:
    """Compiles of which nothing came, each with the first line of its error."""
    compilations = failed_compiles(rec)
    if compilations:
        yield CompileLine(Text("not compiled", "bold cyan"))
    for compilation in compilations:
        first = shown(first_error(compilation.failed or ""))
        name = (
            _kernel_text(compilation)
            if isinstance(compilation, KernelCompile)
            else f"{shown(compilation.id)} {function_text(compilation)}"
        )
        duration = "" if compilation.seconds is None else f" after {seconds(compilation.seconds)}"
        yield CompileLine(Text(f"  {name} failed{duration}: {first}"), _first_line(compilation))


MAX_GUARDS = 10_000
"""Guards shown of one compile."""
# A row of torch's tree of guards: `| | +- EQUALS_MATCH: L['n'] == 3`.
_ROW = re.compile(r"[|\s]{0,400}\+- ([A-Z][A-Z0-9_]{1,60}): ")


class Guard(Struct, frozen=True):
    """One guard in torch's words: its ``kind`` (``TENSOR_MATCH``), what is compared, the line of
    the program for which it was made, that line's place if known, and torch's hints."""

    kind: str
    expression: str
    code: str = ""
    place: str = ""
    hints: tuple[str, ...] = ()


def guards_in(text: str) -> list[Guard]:
    """The guards in torch's tree of them, in its order. Never raises."""
    rows = islice(filter(None, map(_ROW.match, text.split("\n"))), MAX_GUARDS)
    return [Guard(row[1], *guard_parts(row.string[row.end() :])) for row in rows]


def guard_lines(guards_by_compile: Iterable[tuple[FrameCompile, list[Guard]]]) -> Iterator[Text]:
    """Each compile with its guards, those that the program's lines made first."""
    for frame, guards in guards_by_compile:
        counts = Counter(guard.kind for guard in guards)
        kinds = ", ".join(f"{n} {kind}" for kind, n in counts.most_common())
        count = f"  {plural(len(guards), 'guard')}: {kinds}" if guards else "  no guards"
        yield Text.assemble(f"{shown(frame.id)} ", (function_text(frame), "bold"), count)
        for guard in sorted(guards, key=lambda guard: not guard.code):
            made_by = "".join(f"  {shown(part)}" for part in (guard.code, guard.place) if part)
            yield Text.assemble(f"  {guard.kind:<16} {shown(guard.expression)}", (made_by, "dim"))
            yield from (Text(f"    hint: {shown(hint)}", "dim") for hint in guard.hints)
