"""What torch.compile did and why, for people and as JSON: phases, breaks, recompiles, guards.

One module because the timeline, the sentences and the JSON tell the same compiles.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import accumulate, islice
from math import ceil
from operator import itemgetter
from pathlib import PurePath

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from inspector.analyse import graph_view as choice_words
from inspector.base.model import (
    EXPORTED,
    FrameCompile,
    GraphBreak,
    KernelCompile,
    Recording,
    ShapeFact,
    UserFrame,
)
from inspector.base.text import (
    by_key,
    first_error,
    guard_parts,
    plural,
    seconds,
    shown,
    word_for,
)
from inspector.report import compile_metrics, ranks
from inspector.report.compile_metrics import Words
from inspector.report.jsons import members, plain
from inspector.report.tables import FAILED, UNKNOWN, padded

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
_BY = {"nvcc": "nvcc", "inductor": "Inductor", "numba.cuda": "numba"}


class Stretch(Struct, frozen=True):
    """An interval, in seconds since 1970, in which one part of the compiler was at work."""

    began: float
    ended: float
    part: str


class TimelineRow(Struct, frozen=True):
    """A compile, a kernel that was compiled outside of any, or one that was not compiled, with its
    stretches in order.

    ``within`` says of a kernel that did not compile that its time is also in a compile's row.
    """

    of: FrameCompile | KernelCompile
    stretches: tuple[Stretch, ...]
    within: bool = False


def timeline_rows(rec: Recording, phases: Table) -> list[TimelineRow]:
    """Compiles, kernels outside of any, and failed kernels, in order of time.

    Each moment of a compile is given to the innermost phase whose part is known. An exact name
    of a phase comes before one with ``*``.
    """
    known = sorted(
        (("*" in n, part, n) for part, names in phases.items() for n in names), key=itemgetter(0)
    )
    names = {phase.name for one in rec.frame_compiles for phase in one.phases}
    parts = {
        name: next((part for _, part, n in known if fnmatchcase(name, n)), None) for name in names
    }
    began = sorted((k for k in rec.kernel_compiles if k.began is not None), key=_began)
    timed = by_key((kernel.process, kernel) for kernel in began)
    out, busy = [], []
    for one in rec.frame_compiles:
        spans = [(p.began, p.began + p.seconds, p.depth, parts[p.name]) for p in one.phases]
        if one.began is not None and one.seconds is not None:
            first, last = one.began - CLOCK_SECONDS, one.began + one.seconds + CLOCK_SECONDS
            busy.append((first, last))
            own = timed.get(one.process, [])
            deepest = max((p.depth for p in one.phases), default=0)
            at = bisect_left(own, first, key=_began)
            for kernel in own[at : bisect_right(own, last, key=_began)]:
                spans += [(b, e, deepest + n, part) for b, e, n, part in _of_kernel(kernel)]
        out.append(TimelineRow(one, _innermost(spans)))
    merged = union(busy)
    for kernel in rec.kernel_compiles:
        if kernel.failed is None and (kernel.hit is True or kernel.seconds is None):
            continue
        at = bisect_right(merged, _began(kernel), key=itemgetter(0)) - 1
        within = kernel.began is not None and at >= 0 and kernel.began <= merged[at][1]
        if kernel.failed is not None or not within:
            out.append(TimelineRow(kernel, _innermost(_of_kernel(kernel)), within))
    return sorted(out, key=lambda row: (row.of.began is None, row.of.began or 0.0))


def of_all(rows: Iterable[TimelineRow]) -> list[Stretch]:
    return [s for row in rows if not row.within for s in row.stretches]


def by_part(stretches: Iterable[Stretch]) -> dict[str, float]:
    """Seconds of each part, in the order of lowering; parts that took none are left out."""
    seconds: dict[str, float] = {}
    for one in stretches:
        seconds[one.part] = seconds.get(one.part, 0.0) + one.ended - one.began
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
    before = list(accumulate((ended - began for began, ended in busy), initial=0.0))

    def column(moment: float) -> float:
        at = bisect_right(busy, moment, key=itemgetter(0)) - 1
        began, ended = busy[at]
        return (before[at] + min(moment, ended) - began) / before[-1] * width

    out = []
    for row in rows:
        cells: list[dict[str, float]] = [{} for _ in range(width)]
        for one in row.stretches:
            first, last = column(one.began), column(one.ended)
            start = min(int(first), width - 1)
            for at in range(start, min(width, max(ceil(last), start + 1))):
                here = min(last, at + 1) - max(first, at)
                cells[at][one.part] = cells[at].get(one.part, 0.0) + here
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
            before = pieces[-1] if pieces else None
            if before is not None and before.part == part and before.ended >= now:
                pieces[-1] = Stretch(before.began, moment, part)
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


def _of_kernel(kernel: KernelCompile) -> Iterator[tuple[float, float, int, str]]:
    """Yield a kernel's compile and, deeper, its assembler: the last of Triton's stages."""
    if kernel.began is None or kernel.seconds is None:
        return
    ended = kernel.began + kernel.seconds
    yield kernel.began, ended, 1, _BY.get(kernel.compiler, TRITON)
    # The stages end where the compile does.
    name, seconds = kernel.steps[-1] if kernel.steps else ("", 0.0)
    if kernel.compiler == "triton" and name == "cubin":
        yield max(ended - seconds, kernel.began), ended, 2, PTXAS


def _began(kernel: KernelCompile) -> float:
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

    ``kernel`` is the kernel that it is about: its id, or the hash of its variant. ``opens``: more
    lines come beneath it where one asks for them. ``about`` is said of it where it is chosen.
    """

    text: Text
    place: UserFrame | None = None
    kernel: str | None = None
    opens: bool = False
    about: str = ""


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
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def resumed_at(function: str) -> tuple[str, int] | None:
    """The function and line at which the function that Dynamo made begins; None for the user's."""
    match = _RESUMED.match(function)
    return (match[1], int(match[2])) if match else None


def break_places(rec: Recording) -> list[BreakPlace]:
    """Graph breaks by their line and reason, in the order in which they were first met."""
    groups = by_key(
        ((b.place and (b.place.file, b.place.line), b.reason), (one, b))
        for one in rec.frame_compiles
        for b in one.breaks
    )
    resumed = [(go[1], one) for one in rec.frame_compiles if (go := resumed_at(one.function))]
    out = []
    for group in groups.values():
        lines = {(f.file, f.line) for _, b in group for f in b.stack}
        after = [one for line, one in resumed if (one.file, line) in lines]
        out.append(
            BreakPlace(
                group[0][1],
                len(group),
                list(dict.fromkeys(one.id for one, _ in group)),
                list(dict.fromkeys(one.id for one in after)),
                _total(graph_break.lost_seconds for _, graph_break in group),
                _total(one.seconds for one in after),
            )
        )
    return out


def recompiles(rec: Recording) -> list[FrameCompile]:
    """Compiles of what had been compiled before, in order."""
    return [one for one in rec.frame_compiles if one.failures]


def lookups(rec: Recording) -> dict[str, Counter[str]]:
    """Count lookups of each cache by outcome; Triton's by distinct kernels."""
    out: dict[str, Counter[str]] = {}
    for one in rec.frame_compiles:
        for lookup in one.caches:
            out.setdefault(lookup.cache, Counter())[lookup.outcome] += 1
    for kernel in _distinct(rec.kernel_compiles):
        if kernel.compiler == "triton" and kernel.hit is not None:
            out.setdefault("triton", Counter())["hit" if kernel.hit else "miss"] += 1
    return out


def uncompiled(rec: Recording) -> list[FrameCompile | KernelCompile]:
    """Compiles of which nothing came: of functions first, then of kernels, graphs and builds."""
    frames = [one for one in rec.frame_compiles if one.failed]
    return [*frames, *(one for one in rec.kernel_compiles if one.failed)]


def failed_seconds(bad: Sequence[FrameCompile | KernelCompile]) -> float | None:
    """Return the wall time of failed compiles; None if one's is unknown."""
    spans = [
        (one.began, one.began + one.seconds)
        for one in bad
        if one.began is not None and one.seconds is not None
    ]
    return length(spans) if len(spans) == len(bad) else None


def _distinct(kernels: Iterable[KernelCompile]) -> list[KernelCompile]:
    """Each kernel that compiled, once: a process takes from the cache what another compiled."""
    out: dict[object, KernelCompile] = {}
    for n, kernel in enumerate(kernel for kernel in kernels if kernel.failed is None):
        key = kernel.hash or n
        if key not in out or (out[key].hit and not kernel.hit):
            out[key] = kernel
    return list(out.values())


# -- for people -----------------------------------------------------------------------------------


def none_known(rec: Recording) -> str | None:
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
    between = (
        CompileLine(text, getattr(one, "place", None), getattr(one, "kernel", None))
        for text, one in ranks.lines(rec)
    )
    parts = (choices(rec), breaks(rec), recompiled(rec), shapes(rec))
    for part in (between, *parts, metrics(rec, figures), failed(rec)):
        if told := list(part):
            yield from (CompileLine(Text()), *told)


def summary(rec: Recording, rows: Sequence[TimelineRow]) -> Iterator[Text]:
    """Yield a line of counts and one of compile times by part."""
    frames = rec.frame_compiles
    exported = [one for one in frames if one.id == EXPORTED and one.figures and not one.failed]
    whole = [one for one in frames if one.id != EXPORTED and not one.failed]
    functions = {(one.file, one.line, one.function) for one in whole}
    parts = []
    if whole:
        often = f" {len(whole)} times" if len(whole) != len(functions) else ""
        several = ranks.ranks(rec)
        by_ranks = f" by {plural(len(several), 'rank')}" if several else ""
        parts.append(f"{plural(len(functions), 'function')} compiled{often}{by_ranks}")
    if exported:
        parts.append(f"{plural(len(exported), 'exported program')}")
    if any(one.id != EXPORTED for one in frames):
        count = sum(len(one.breaks) for one in frames)
        parts += [plural(count, "graph break"), plural(len(recompiles(rec)), "recompile")]
    for by, noun, how in MAKERS:
        made = [k for k in rec.kernel_compiles if k.compiler == by and k.failed is None]
        if by == "triton":
            made = [k for k in _distinct(made) if k.hit is False and k.seconds is not None]
        if made:
            took = seconds(sum(k.seconds or 0 for k in made))
            ptxas = [s for k in made for name, s in k.steps if name == "cubin" and by == "triton"]
            of_it = f", ptxas {seconds(sum(ptxas))} of them" if ptxas else ""
            parts.append(f"{plural(len(made), noun)} {how} in {took}{of_it}")
    if bad := uncompiled(rec):
        lost = failed_seconds(bad)
        took = "" if lost is None else f" in {seconds(lost)}"
        parts.append(f"{plural(len(bad), 'compile')} failed{took}")
    if parts:
        yield Text(" · ".join(parts), "bold")
    if shares := by_part(of_all(rows)):
        wall = length((s.began, s.ended) for row in rows for s in row.stretches)
        also = ", the failed ones included" if bad else ""
        # What processes compile side by side takes no longer, but each its own time.
        over = sum(shares.values())
        beside = f", {seconds(over)} over all processes" if over > PARALLEL_RATIO * wall else ""
        text = Text(f"{seconds(wall)} of compiling{also}{beside}: ")
        for n, (part, took_seconds) in enumerate(shares.items()):
            letter = PARTS[part]
            text.append(" · " if n else "")
            text.append(letter, f"bold {COLOURS[letter]}")
            text.append(f" {part} {seconds(took_seconds)}")
        yield text


def timeline(
    rows: Sequence[TimelineRow], width: int, rank_of: Mapping[int | None, str]
) -> Iterator[CompileLine]:
    """A row for each compile with a bar of its phases; time without any compile is left out.

    ``rank_of`` has the names of processes' ranks, where there are several.
    """
    names = {process: f"{shown(name)}  " for process, name in rank_of.items()}
    labels = [names.get(row.of.process, "") + _label(row) for row in rows]
    counts = Counter(labels)
    for n, row in enumerate(rows):
        if isinstance(row.of, KernelCompile) and row.of.hash and counts[labels[n]] > 1:
            labels[n] += f" {shown(row.of.hash[:IDENT_DIGITS])}"
    wide = min(max((cell_len(label) for label in labels), default=0), MAX_LABEL, width // 2)
    room = width - wide - 11
    drawn = bars(rows, room) if room >= MIN_BAR else [""] * len(rows)
    for row, label, bar in zip(rows, labels, drawn, strict=True):
        one = row.of
        took = UNKNOWN if one.seconds is None else seconds(one.seconds)
        text = Text(padded(label, wide), "bold red" if one.failed else "")
        text.append(f" {took:>8}  ", "")
        for letter in bar:
            text.append(letter, f"{COLOURS[letter]} reverse" if letter != " " else "")
        text.no_wrap = True
        text.rstrip()
        yield CompileLine(text, _begins(one), getattr(one, "hash", None))


def _begins(one: FrameCompile | KernelCompile) -> UserFrame | None:
    """Where a compile's function begins, or goes on after a break; a kernel's place."""
    if isinstance(one, KernelCompile):
        return one.place
    resumed = resumed_at(one.function)
    line = resumed[1] if resumed is not None else one.line
    return UserFrame(one.file, line, one.function) if one.file and line else None


def _label(row: TimelineRow) -> str:
    of = row.of
    if isinstance(of, FrameCompile):
        mark = (" ↻" if of.failures else "") + (FAILED if of.failed else "")
        way = "" if of.direction == "forward" else f" ({of.direction})"
        return f"{shown(of.id)}{mark} {called(of)}{way}"
    mark = f"{FAILED.strip()} " if of.failed else ""
    return ("  " if row.within else "") + mark + _named(of)


def _named(kernel: KernelCompile) -> str:
    """A kernel, graph or build with whose work it was: ``triton add``."""
    return f"{kernel.compiler} {shown(PurePath(kernel.name).name)}"


def called(one: FrameCompile) -> str:
    """A compile's function and where it stands: ``f  model.py:3``."""
    resumed = resumed_at(one.function)
    name = f"{resumed[0]}, resumed" if resumed is not None else one.function
    where = _where(one.file, resumed[1] if resumed is not None else one.line)
    return shown(f"{name}  {where}".strip()) or UNKNOWN


def _where(file: str, line: int | None) -> str:
    name = PurePath(file).name
    return name if line is None else f"{name}:{line}"


def _caches(rec: Recording) -> Iterator[Text]:
    counts, said = lookups(rec), []
    for cache in (cache for cache in CACHES if cache in counts):
        each = (f"{n} {word_for(n, outcome)}" for outcome, n in sorted(counts[cache].items()))
        said.append(f"{CACHES[cache]} {', '.join(each)}")
    if said:
        yield Text("caches: " + " · ".join(map(shown, said)))
    looked = (lookup for one in rec.frame_compiles for lookup in one.caches if lookup.reason)
    for reason, cache in {lookup.reason: lookup.cache for lookup in looked}.items():
        yield Text(shown(f"  {CACHES.get(cache, cache)} was not asked: {reason}"))


def choices(rec: Recording) -> Iterator[CompileLine]:
    """What max-autotune chose for each operation, of how many, and whose time that is."""
    told = [
        CompileLine(
            Text(shown(f"  {k.name}: {choice_words.choice_text(t)}; {choice_words.candidates(t)}")),
            kernel=k.id,
        )
        for k in rec.kernels
        for t in k.autotune
        if t.operation is not None
    ]
    if told:
        yield from (CompileLine(Text("max-autotune", "bold cyan")), *told)


def breaks(rec: Recording) -> Iterator[CompileLine]:
    """Each line that breaks graphs: its reason, how often, in which compiles, what it cost."""
    places = break_places(rec)
    count = sum(place.count for place in places)
    if places:
        several = f" in {plural(len(places), 'place')}" if len(places) != count else ""
        yield CompileLine(Text(f"{plural(count, 'graph break')}{several}", "bold cyan"))
    for place in places:
        first = place.first
        often = f"  {place.count}×" if place.count > 1 else ""
        at, line = first.place, "a line that torch did not name"
        if at is not None:
            inside = f" in {at.function}" if at.function else ""
            line = f"{at.file}:{at.line}{inside}" + (f"  {at.code}" if at.code else "")
        told = [Text.assemble("  ", (shown(line), "bold"), often)]
        told.append(Text(f"    {shown(first.reason)}"))
        if first.explanation:
            told.append(Text(f"    {shown(first.explanation)}", "dim"))
        told += [Text(f"    hint: {shown(hint)}", "dim") for hint in first.hints]
        costs = [f"in {', '.join(place.compiles)}"]
        if place.lost_seconds is not None:
            costs.append(f"{seconds(place.lost_seconds)} of tracing were repeated because of it")
        if place.resumed:
            took = "" if place.resumed_seconds is None else f", {seconds(place.resumed_seconds)}"
            costs.append(f"what follows is compiled on its own: {', '.join(place.resumed)}{took}")
        told.append(Text(f"    {shown('; '.join(costs))}"))
        if len(first.stack) > 1:
            steps = " → ".join(f"{_where(f.file, f.line)} in {f.function}" for f in first.stack)
            told.append(Text(f"    called by: {shown(steps)}"))
        yield from (CompileLine(text, first.place) for text in told)


def recompiled(rec: Recording) -> Iterator[CompileLine]:
    """Each recompile: what it cost, and the guards that failed, in torch's words."""
    again = recompiles(rec)
    if again:
        took = _total(one.seconds for one in again)
        cost = f", {seconds(took)}" if took is not None else ""
        yield CompileLine(Text(f"{plural(len(again), 'recompile')}{cost}", "bold cyan"))
    for one in again:
        cost = UNKNOWN if one.seconds is None else seconds(one.seconds)
        head = Text.assemble(f"  {shown(one.id)} ", (called(one), "bold"), f"  {cost}")
        yield CompileLine(head, _begins(one))
        hints: set[str] = set()
        for failure in one.failures:
            of = f" (guard of {failure.compile})" if failure.compile else ""
            code = f"  {failure.code}" if failure.code else ""
            said = f"{failure.guard}{of}{_at(failure.stack) or code}"
            place = failure.stack[-1] if failure.stack else _begins(one)
            # Torch's comment names the end of its file's path.
            file, _, line = failure.place.partition(" in ")[0].rpartition(":")
            made = file and one.file.endswith(file) and line.isdecimal() and len(line) < 10
            if made and not failure.stack:
                place = UserFrame(one.file, int(line), one.function, failure.code)
            yield CompileLine(Text(f"    {shown(said)}"), place)
            for hint in failure.hints:
                if hint not in hints:
                    hints.add(hint)
                    yield CompileLine(Text(f"      hint: {shown(hint)}", "dim"), place)


def _at(stack: Sequence[UserFrame]) -> str:
    """``  model.py:3: y = x + 1``; "" without frames."""
    return f"  {_where(stack[-1].file, stack[-1].line)}: {stack[-1].code}" if stack else ""


def shapes(rec: Recording) -> Iterator[CompileLine]:
    """Which sizes became symbols, and what made them static again, by function."""
    told: dict[str, UserFrame | None] = {}
    for one in rec.frame_compiles:
        for fact in one.shapes:
            if said := _fact(fact):
                place = fact.stack[-1] if fact.stack else _begins(one)
                told.setdefault(f"  {one.id} {called(one)}: {said}", place)
    if told:
        yield CompileLine(Text("dynamic shapes", "bold cyan"))
    yield from (CompileLine(Text(shown(line)), place) for line, place in told.items())


def _fact(fact: ShapeFact) -> str:
    place = _at(fact.stack)
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
        why = f" ({fact.reason})" if fact.reason else ""
        return f"{fact.symbol} of {source} was made static: {fact.value}{why}{place}"
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
        way = "" if compiled.direction == "forward" else f" ({compiled.direction})"
        head = Text.assemble(f"  {shown(compiled.id)} ", (called(compiled), "bold"), way)
        yield from (CompileLine(text, _begins(compiled)) for text in (head, *rows))


def failed(rec: Recording) -> Iterator[CompileLine]:
    """Compiles of which nothing came, each with the first line of its error."""
    bad = uncompiled(rec)
    if bad:
        yield CompileLine(Text("not compiled", "bold cyan"))
    for one in bad:
        first = shown(first_error(one.failed or ""))
        name = _named(one) if isinstance(one, KernelCompile) else f"{shown(one.id)} {called(one)}"
        after = "" if one.seconds is None else f" after {seconds(one.seconds)}"
        yield CompileLine(Text(f"  {name} failed{after}: {first}"), _begins(one))


# -- JSON -----------------------------------------------------------------------------------------


def document(rec: Recording, phases: Table) -> dict[str, object]:
    rows = timeline_rows(rec, phases)
    stretches = {id(row.of): row.stretches for row in rows}
    everything = of_all(rows)
    bad = uncompiled(rec)
    return {
        "seconds": length((s.began, s.ended) for s in everything) if everything else None,
        "phases": by_part(everything),
        "compiles": [
            {
                **members(one, "id direction process function"),
                "file": one.file or None,
                **members(one, "line began seconds"),
                "parts": by_part(stretches.get(id(one), ())),
                "phases": plain(one.phases),
                "stack": list(map(_frame, one.stack)),
                "breaks": len(one.breaks),
                "failures": [
                    members(f)
                    | {"code": f.code or None, "place": f.place or None}
                    | {"stack": list(map(_frame, f.stack))}
                    for f in one.failures
                ],
                "guards": one.guard_count,
                "caches": plain(one.caches),
                "shapes": [members(s) | {"stack": list(map(_frame, s.stack))} for s in one.shapes],
                **members(one, "failed figures"),
            }
            for one in rec.frame_compiles
        ],
        "breaks": [
            {
                "place": _frame(place.first.place),
                "reason": place.first.reason,
                "explanation": place.first.explanation or None,
                "hints": list(place.first.hints),
                **members(place, "count compiles"),
                "stack": list(map(_frame, place.first.stack)),
                **members(place, "resumed lost_seconds resumed_seconds"),
                "text": place.first.text,
            }
            for place in break_places(rec)
        ],
        "recompiles": [one.id for one in recompiles(rec)],
        "caches": {cache: dict(counts) for cache, counts in lookups(rec).items()},
        "kernels": [
            {
                "name": k.name,
                "by": k.compiler,
                **members(k, "began seconds"),
                "steps": [{"name": name, "seconds": took} for name, took in k.steps],
                "cache_hit": k.hit,
                **members(k, "hash process failed"),
                "place": _frame(k.place),
            }
            for k in rec.kernel_compiles
        ],
        "failed": {"count": len(bad), "seconds": failed_seconds(bad)},
    }


def _frame(frame: UserFrame | None) -> dict[str, object] | None:
    if frame is None:
        return None
    return members(frame) | {"function": frame.function or None, "code": frame.code or None}


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


def guard_lines(told: Iterable[tuple[FrameCompile, list[Guard]]]) -> Iterator[Text]:
    """Each compile with its guards, those that the program's lines made first."""
    for one, guards in told:
        counts = Counter(guard.kind for guard in guards)
        many = ", ".join(f"{n} {kind}" for kind, n in counts.most_common())
        count = f"  {plural(len(guards), 'guard')}: {many}" if guards else "  no guards"
        yield Text.assemble(f"{shown(one.id)} ", (called(one), "bold"), count)
        for guard in sorted(guards, key=lambda guard: not guard.code):
            made_by = "".join(f"  {shown(part)}" for part in (guard.code, guard.place) if part)
            yield Text.assemble(f"  {guard.kind:<16} {shown(guard.expression)}", (made_by, "dim"))
            yield from (Text(f"    hint: {shown(hint)}", "dim") for hint in guard.hints)


def guards_json(one: FrameCompile, guards: list[Guard]) -> dict[str, object]:
    """The guards of a compile as ``list --guards --json`` has them."""
    return {
        "compile": one.id,
        **members(one, "direction process function"),
        "file": one.file or None,
        "line": one.line,
        "guards": [
            members(g, "kind expression hints") | {"code": g.code or None, "place": g.place or None}
            for g in guards
        ],
    }
