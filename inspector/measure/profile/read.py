"""Reads the profiles of a recording: from the events that name traces to the summed-up traces."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from statistics import median
from typing import cast

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from inspector.base.errors import PtxviewError, Unreadable
from inspector.base.model import Content, Kernel, Recording, Variant
from inspector.base.names import base_name
from inspector.base.units import plural
from inspector.measure.profile.trace import (
    Compiling,
    Profile,
    Shape,
    Window,
    summarise,
)
from inspector.measure.time.results import from_json
from inspector.recording.decoding import as_int
from inspector.recording.layout import DerivedCache, Events, read_events
from inspector.system import files

EventFields = Mapping[str, object]
Times = tuple[float, float]


class CompiledFact(Struct, frozen=True):
    """Something that was compiled, with its times in seconds since 1970."""

    began: float
    ended: float
    name: str = ""
    file: str = ""
    line: int | None = None

    @property
    def times(self) -> Times:
        return self.began, self.ended

    def named(self, placed: bool = False) -> str:
        if "/torch/" in self.file:  # Dynamo's name says nothing
            return "a function of torch's"
        line = "" if self.line is None else f":{self.line}"
        return f"{self.name} ({self.file}{line})" if placed and self.file else self.name


class RepeatedFact(Struct, frozen=True):
    """A line, or a pair of lines, that ran ``count`` times, with the ``times`` of some."""

    times: tuple[Times, ...]
    site: str = ""
    sites: str = ""
    count: int | None = None


class ProcessFacts(Struct, frozen=True):
    """What one process recorded when it ended, of torch.compile, Triton and timing events."""

    pid: int | None = None
    dynamo: tuple[CompiledFact, ...] = ()
    triton: tuple[CompiledFact, ...] = ()
    calls: tuple[RepeatedFact, ...] = ()
    pairs: tuple[RepeatedFact, ...] = ()


def facts(event: EventFields) -> ProcessFacts:
    """The facts of a ``profile_facts`` event; invalid parts are left out."""
    return cast(ProcessFacts, from_json(ProcessFacts, dict(event)))


def warned(profile: Profile, facts: Sequence[ProcessFacts]) -> Profile:
    """The profile with the compiling within its window, and warnings about it."""
    window = profile.window
    if window.began is None or window.ended is None:
        return replace(profile, warnings=tuple(_compiled(profile, [])))
    process_facts = [f for f in facts if f.pid == window.pid]
    within = (window.began, window.ended)
    triton: list[Compiling] = []
    names: list[str] = []
    timing_warnings: list[str] = []
    for process in process_facts:
        for compiled in process.triton:
            us = _us(compiled.times, within)
            if us > 0:
                triton.append(Compiling(f"Triton's {compiled.name}", us))
        names += [c.named(True) for c in process.dynamo if _us(c.times, within) > 0]
        timing_warnings += [*_repeated_compiles(process, within), *_compiles_in_pairs(process)]
    changed = replace(profile, compiling=(*profile.compiling, *triton))
    warnings = [*_compiled(changed, names), *timing_warnings]
    return replace(changed, warnings=tuple(dict.fromkeys(warnings)))


def _compiled(profile: Profile, names: Sequence[str]) -> Iterator[str]:
    """A warning if the window holds compiling: of what, for how long, in how many steps."""
    spent = sum(c.us for c in profile.compiling)
    if spent <= 0:
        return
    window_us = profile.overhead.window_us
    compiled_names = ", ".join(dict.fromkeys(names or (c.what for c in profile.compiling)))
    steps = sorted({n for c in profile.compiling for n in c.steps})
    part = f" of its {_time(window_us)}" if window_us else ""
    location = ""
    advice = ""
    if len(steps) > 1:
        location = f", in {len(steps)} steps ({', '.join(f'#{n}' for n in steps)})"
        advice = ". These steps time the compiler; compile once, before what is timed"
    elif profile.window.steps:
        location = ", in a step that should only run"
        advice = ". Let the warm-up be longer (--warmup)"
    yield f"{_time(spent)}{part} is compiling{location}: {compiled_names}{advice}"


def _repeated_compiles(facts: ProcessFacts, within: Times) -> Iterator[str]:
    """Warnings about torch.compile called again and again in what is timed."""
    for call in facts.calls:
        count = call.count or len(call.times)
        if count > 1 and any(_us(t, within) > 0 for t in call.times):
            typical = median(b - a for a, b in call.times) * 1e6
            yield (
                f"torch.compile was called {count:,} times at {call.site}, {_time(typical)} each "
                "(median): what is timed around it times the wrapper and its checks; call it "
                "once, outside"
            )


def _compiles_in_pairs(facts: ProcessFacts) -> Iterator[str]:
    """Warnings about compiling between the two events of a measurement."""
    compiles = [(compiled.named(), compiled.times) for compiled in facts.dynamo]
    compiles += [(f"Triton's {compiled.name}", compiled.times) for compiled in facts.triton]
    for timed in facts.pairs:
        spoilt = [pair for pair in timed.times if _compiled_within(compiles, pair)]
        if not spoilt:
            continue
        pair = spoilt[0]
        measurements = len(timed.times)
        compiling = _compiled_within(compiles, pair)
        names = ", ".join(dict.fromkeys(name for name, _ in compiling))
        events = timed.sites.replace("\n", " and ")
        spent = max(us for _, us in compiling)
        often = f", in {len(spoilt)} of {measurements} measurements" if measurements > 1 else ""
        yield (
            f"between the events of {events} {names} was compiled: {_time(spent)} of "
            f"{_time((pair[1] - pair[0]) * 1e6)}{often}; warm up first"
        )


def _compiled_within(
    compiles: Iterable[tuple[str, Times]], within: Times
) -> list[tuple[str, float]]:
    """What was compiled within some time, with the µs of it that are."""
    spent = [(name, _us(times, within)) for name, times in compiles]
    return [(name, us) for name, us in spent if us]


def _us(times: Times, within: Times) -> float:
    return max(min(times[1], within[1]) - max(times[0], within[0]), 0.0) * 1e6


def _time(us: float) -> str:
    """A time in µs, ms or s, to three digits."""
    for unit, scale in (("s", 1e6), ("ms", 1e3)):
        if us >= scale:
            return f"{us / scale:.3g} {unit}"
    return f"{us:.3g} µs"


def linked(profile: Profile, rec: Recording) -> Profile:
    by_name: dict[str, list[Kernel]] = defaultdict(list)
    for kernel in rec.kernels:
        names = {
            kernel.name,
            kernel.demangled,
            base_name(kernel.name),
            _without_arguments(kernel.demangled),
        }
        for name in names | {v.symbol for v in kernel.variants}:
            by_name[name].append(kernel)
    works = []
    for work in profile.kernels:
        kernels = by_name.get(work.name) or by_name.get(_without_arguments(work.name)) or []
        if work.kind == "kernel" and kernels:
            fitting = [(k, v) for k in kernels for v in _fitting(k.variants, work.shapes)]
            owner = fitting[0][0] if fitting else kernels[0]
            variants = tuple(dict.fromkeys(variant for _, variant in fitting))
            fused = owner.fusion.ops if owner.fusion is not None else ()
            work = replace(work, kernel=owner.id, variants=variants, fused=fused)
        works.append(work)
    return replace(profile, kernels=tuple(works))


def _without_arguments(name: str) -> str:
    """A function's name without its arguments and its return type."""
    return name.partition("(")[0].partition("<")[0].removeprefix("void ").strip()


def _fitting(variants: Sequence[Variant], shapes: Sequence[Shape]) -> list[str]:
    """The ids of the variants that were launched so; without such launches, that may have been."""
    out: list[str] = []
    for shape in shapes:
        possible = [v for v in variants if _may_be(v, shape)]
        launched = [v for v in possible if _was_launched(v, shape)]
        out += [v.id for v in launched or possible]
    return out


def _was_launched(variant: Variant, shape: Shape) -> bool:
    """Whether a launch of the variant with the grid was recorded."""
    return any(call.grid == shape.grid for call in variant.calls)


def _may_be(variant: Variant, shape: Shape) -> bool:
    if len({variant.recorded_resources.registers, shape.registers} - {None}) > 1:
        return False
    # Warp specialisation launches more warps than were asked for; its calls say so.
    blocks = {c.block for c in variant.calls if c.block is not None}
    if shape.block is None or blocks:
        return shape.block is None or shape.block in blocks
    warps = variant.config.get("num_warps")
    return not isinstance(warps, int) or warps * 32 == prod(shape.block)


# Part of the key under which a trace's summary is cached; it grows when the summary changes.
VERSION = "profile-2"


def windows(events: Events) -> list[Window]:
    """Every window of a recording, in the order in which they began."""
    processes = [e for e in events.events if e.get("event") == "process"]
    ranks = {as_int(e.get("pid")): as_int(e.get("rank")) for e in processes}
    out: list[Window] = []
    for event in (e for e in events.events if e.get("event") == "profile"):
        pid = as_int(event.get("pid"))
        profiler = "program" if event.get("by") == "program" else "ptxview"
        rank = None if pid is None else ranks.get(pid)
        fields = {"number": 0, "by": profiler, "about": about(event), "rank": rank, "steps": ()}
        out.append(from_json(Window, {**event, **fields}))
    out.sort(key=lambda window: window.began or 0.0)
    return [replace(window, number=n) for n, window in enumerate(out, 1)]


def about(event: EventFields) -> str:
    mode = event.get("mode")
    ended = event.get("ended_by")
    step = event.get("step")
    stepped = "no steps"
    if isinstance(step, dict):
        verb = "ends at" if step.get("kind") == "optimizer" else "is"
        stepped = f"a step {verb} {_value_text(step.get('name'))}"
    end = {
        "seconds": f"until its time was up ({_value_text(event.get('seconds'))} s, --seconds)",
        "memory": "until memory ran short",
    }.get(str(ended), "to the program's end")
    if mode == "program":
        return "the program's own torch.profiler; this one stepped aside for it"
    if mode == "steps":
        plan = event.get("schedule")
        schedule = ""
        if isinstance(plan, dict):
            schedule = ", ".join(
                f"{n} {_value_text(plan.get(n))}" for n in ("wait", "warmup", "active")
            )
        cut = "" if ended == "steps" else f", {end}"
        return f"{stepped}; {schedule}{cut}"
    start = "from the first use of CUDA" if event.get("gpu") is True else "from the import of torch"
    if mode == "fallback":
        step_count = _value_text(event.get("seen"))
        return (
            f"{start} to the end of the first step: the program made {step_count} in all "
            f"({stepped}), too few for the schedule to become active"
        )
    return f"the whole program as one window, {start} {end}: it made no steps (--step names some)"


def _value_text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)[:200]


def profile_of(events: Events, window: Window, cache: DerivedCache) -> Profile:
    """One window, summed up, without the recording's kernels. Raises ``Unreadable``."""
    content = _trace(events, window)
    key = DerivedCache.key(VERSION, window.trace or "")
    with suppress(ValueError, TypeError, RecursionError, PtxviewError):
        cached: Profile = from_json(Profile, files.parsed(cache.get(key) or b""))
        return replace(
            cached, window=replace(window, steps=cached.window.steps, gpu=cached.window.gpu)
        )
    profile = summarise(content.read(), window)
    cache.store(key, json.dumps(to_builtins(profile)).encode())
    return profile


def _trace(events: Events, window: Window) -> Content:
    if (content := events.blob(window.trace)) is None:
        raise Unreadable("the trace of this window was not stored")
    return content


def trace_of(path: Path, window: Window) -> bytes:
    """The Chrome trace of a window, compressed by gzip. Raises ``Unreadable``."""
    return _trace(read_events(path), window).read()


def profiles(
    path: Path, rec: Recording, cache: DerivedCache, number: int | None = None
) -> tuple[list[Window], Profile | None, list[str]]:
    """The windows of a recording, one of them summed up, and what could not be recorded.

    Without a ``number`` it is the last window of the lowest rank. Raises ``Unreadable`` for an
    unknown number and for an unreadable trace.
    """
    events = read_events(path)
    recorded = windows(events)
    problems = [
        str(e.get("text"))
        for e in events.events
        if e.get("event") == "problem" and str(e.get("where")).partition(".")[0] == "profile"
    ]
    if not recorded:
        return [], None, problems
    if number is not None and not 1 <= number <= len(recorded):
        raise Unreadable(f"there is no window {number}", f"There are {len(recorded)}.")
    if number is not None:
        selected = recorded[number - 1]
    else:
        lowest = min((w.rank for w in recorded if w.rank is not None), default=None)
        selected = ([w for w in recorded if w.rank == lowest] or recorded)[-1]
    processes = [facts(e) for e in events.events if e.get("event") == "profile_facts"]
    return recorded, warned(linked(profile_of(events, selected, cache), rec), processes), problems


def why_none(path: Path) -> str:
    records = read_events(path).events
    facts = [e for e in records if e.get("event") == "profile_facts"]
    if not any(e.get("event") == "torch" for e in records):
        return "the program did not import torch"
    if not facts:
        return "the recording holds none; ptxview profile SCRIPT makes one"
    options = facts[0].get("wish")
    plan = options if isinstance(options, dict) else {}
    if step_count := max(as_int(e.get("seen")) or 0 for e in facts):
        skipped = f"wait {_value_text(plan.get('wait'))}, warmup {_value_text(plan.get('warmup'))}"
        return (
            f"the program made {plural(step_count, 'step')}, and with {skipped} none of them counts"
        )
    return f"the program never called {_value_text(plan.get('step'))}"
