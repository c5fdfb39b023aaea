"""Warns of what spoils a benchmark: compiling, and torch.compile called within the timed part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from inspector.measure.profile.model import Compiling, Profile
from inspector.measure.profile.trace import whole

Said = Mapping[str, object]
Times = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What one process recorded when it ended: times in seconds since 1970."""

    pid: int | None
    seen: int | None
    compiles: tuple[tuple[str, str, Times], ...]
    calls: tuple[tuple[str, int, tuple[Times, ...]], ...]
    pairs: tuple[tuple[str, int, tuple[Times, ...]], ...]


def facts(event: Said) -> ProcessFacts:
    """The facts of a ``profile_facts`` event; invalid parts are left out."""
    compiles = [(*_compiled_what(e), t) for e in _rows(event, "dynamo") if (t := _span(e))]
    compiles += [
        (f"Triton's {_text(e, 'name')}", "", t) for e in _rows(event, "triton") if (t := _span(e))
    ]
    return ProcessFacts(
        whole(event.get("pid")),
        whole(event.get("seen")),
        tuple(compiles),
        tuple(_timed(event, "calls", "site")),
        tuple(_timed(event, "pairs", "sites")),
    )


def warned(profile: Profile, facts: Sequence[ProcessFacts]) -> Profile:
    """The profile with the compiling within its window, and warnings about it."""
    window = profile.window
    mine = [f for f in facts if f.pid == window.pid]
    if not mine or window.began is None or window.ended is None:
        return replace(profile, warnings=tuple(_compiled(profile)))
    within = (window.began, window.ended)
    triton = [
        Compiling(f"{what}", _us(times, within))
        for f in mine
        for what, _, times in f.compiles
        if what.startswith("Triton's ") and _us(times, within) > 0
    ]
    compiling = (*profile.compiling, *triton)
    names = [
        f"{what} ({place})" if place else what
        for f in mine
        for what, place, times in f.compiles
        if not what.startswith("Triton's ") and _us(times, within) > 0
    ]
    changed = replace(profile, compiling=compiling)
    warnings = [
        *_compiled(changed, names),
        *(w for f in mine for w in _calls(f, within)),
        *(w for f in mine for w in _pairs(f)),
    ]
    return replace(changed, warnings=tuple(dict.fromkeys(warnings)))


def _compiled(profile: Profile, names: Sequence[str] = ()) -> Iterator[str]:
    """A warning if the window holds compiling: of what, for how long, in how many steps."""
    spent = sum(c.us for c in profile.compiling)
    if spent <= 0:
        return
    window = profile.window
    window_us = profile.overhead.window_us
    what = ", ".join(dict.fromkeys(names or (c.what for c in profile.compiling)))
    steps = sorted({n for c in profile.compiling for n in c.steps})
    part = f" of its {_time(window_us)}" if window_us else ""
    if len(steps) > 1:
        numbers = ", ".join(f"#{n}" for n in steps)
        yield (
            f"{_time(spent)}{part} is compiling, in {len(steps)} steps ({numbers}): {what}. "
            "These steps time the compiler; compile once, before what is timed"
        )
    elif window.steps:
        yield (
            f"{_time(spent)}{part} is compiling, in a step that should only run: {what}. "
            "Let the warm-up be longer (--warmup)"
        )
    else:
        yield f"{_time(spent)}{part} is compiling: {what}"


def _calls(facts: ProcessFacts, within: Times) -> Iterator[str]:
    """Warnings about lines that call torch.compile repeatedly."""
    for site, count, times in facts.calls:
        inside = [t for t in times if _us(t, within) > 0]
        if count > 1 and inside:
            typical = median(b - a for a, b in times) * 1e6
            yield (
                f"torch.compile was called {count:,} times at {site}, {_time(typical)} each "
                "(median): what is timed around it times the wrapper and its checks; call it "
                "once, outside"
            )


def _pairs(facts: ProcessFacts) -> Iterator[str]:
    """Warnings about pairs of timing events with a compile between them."""
    for sites, _, times in facts.pairs:
        first, _, last = sites.partition("\n")
        spoilt = [
            (pair, [(what, _us(span, pair)) for what, _, span in facts.compiles if _us(span, pair)])
            for pair in times
        ]
        spoilt = [(pair, compiling) for pair, compiling in spoilt if compiling]
        if spoilt:
            pair, compiling = spoilt[0]
            names = ", ".join(dict.fromkeys(what for what, _ in compiling))
            spent = max(us for _, us in compiling)
            often = f", in {len(spoilt)} of {len(times)} measurements" if len(times) > 1 else ""
            yield (
                f"between the events of {first} and {last} {names} was compiled: {_time(spent)} of "
                f"{_time((pair[1] - pair[0]) * 1e6)}{often}; warm up first"
            )


def _us(times: Times, within: Times) -> float:
    return max(min(times[1], within[1]) - max(times[0], within[0]), 0.0) * 1e6


def _time(us: float) -> str:
    """A time in µs, ms or s, to three digits."""
    for unit, scale in (("s", 1e6), ("ms", 1e3)):
        if us >= scale:
            return f"{us / scale:.3g} {unit}"
    return f"{us:.3g} µs"


def _rows(event: Said, name: str) -> Iterable[Said]:
    rows = event.get(name)
    return [e for e in rows if isinstance(e, dict)] if isinstance(rows, list) else []


def _timed(event: Said, name: str, key: str) -> Iterator[tuple[str, int, tuple[Times, ...]]]:
    for row in _rows(event, name):
        pairs = row.get("times")
        times = [t for t in map(_pair, pairs if isinstance(pairs, list) else []) if t is not None]
        if times:
            yield _text(row, key), whole(row.get("count")) or len(times), tuple(times)


def _span(row: Said) -> Times | None:
    return _pair([row.get("began"), row.get("ended")])


def _pair(value: object) -> Times | None:
    if isinstance(value, list) and len(value) == 2:
        first, last = value
        if isinstance(first, int | float) and isinstance(last, int | float) and last >= first:
            return (float(first), float(last))
    return None


def _compiled_what(row: Said) -> tuple[str, str]:
    """The name of the function that torch.compile compiled, and its place."""
    line = row.get("line")
    path = _text(row, "file")
    if "/torch/" in path:
        # A function of torch's own goes through one of Dynamo's, whose name says nothing.
        return "a function of torch's", ""
    return _text(row, "name"), f"{path}:{line}" if path and isinstance(line, int) else path


def _text(row: Said, name: str) -> str:
    value = row.get(name)
    return value[:1000] if isinstance(value, str) else ""
