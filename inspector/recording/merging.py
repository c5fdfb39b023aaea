"""Several recordings as one: of the machines of one program, each with its own disk.

Processes get numbers that are unique among all recordings: those of the first recording keep
theirs. The facts of the run are the first's; it is complete where every one is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from inspector.base.model import Content
from inspector.recording.facts import as_int
from inspector.recording.layout import HEX, Events

Event = Mapping[str, object]
APART = 1 << 22
"""What Linux numbers processes below (``PID_MAX_LIMIT``)."""

SAME = ("target", "mode")
"""What the recordings of one program have in common."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The events of several recordings in the order of their times, and what is odd about that.

    ``machines`` are the names of the recordings, each another.
    """

    machines: tuple[str, ...]
    events: tuple[dict[str, object], ...]
    problems: tuple[str, ...]
    parts: tuple[Events, ...]

    def blob(self, digest: object, say: Callable[[str], None] | None = None) -> Content | None:
        """The content that a digest names, of the first recording that has it."""
        if not isinstance(digest, str) or len(digest) != 64 or not HEX.issuperset(digest):
            return None
        holding = [part for part in self.parts if part.holds(digest)]
        return (holding or list(self.parts))[0].blob(digest, say)


def names(paths: Sequence[Path]) -> tuple[str, ...]:
    """Labels of recordings: their names, with as many folders as make them unique."""
    parts = [path.absolute().parts[1:] or (str(path),) for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        short = ["/".join(part[-length:]) for part in parts]
        if len(set(short)) == len(short):
            return tuple(name.removesuffix(".ptxview") for name in short)
    counts: Counter[str] = Counter()
    out = []
    for path in map(str, paths):
        counts[path] += 1
        out.append(path if counts[path] == 1 else f"{path}#{counts[path]}")
    return tuple(out)


def merged(parts: Sequence[Events]) -> Merged:
    """One recording of several."""
    machines = names([part.path for part in parts])
    placed: list[tuple[float, int, int, dict[str, object]]] = []
    problems: list[str] = []
    begun: list[Event] = []
    ends: list[Event] = []
    for n, (part, machine) in enumerate(zip(parts, machines, strict=True)):
        problems += [f"{machine}: {problem}" for problem in part.problems]
        ended: Event | None = None
        moment = 0.0
        for index, event in enumerate(part.events):
            kind, stamp, pid = event.get("event"), event.get("time"), as_int(event.get("pid"))
            if isinstance(stamp, int | float):
                moment = max(moment, float(stamp))
            if kind == "recording":
                begun.append(event)
                if n:
                    continue
            elif kind == "end":
                ended = event
                continue
            elif kind == "finished":
                ended = None if ended is None else {**ended, "finishing": False}
                continue
            told = dict(event)
            if pid:
                told["pid"] = pid + n * APART
            if kind == "process":
                told["machine"] = machine
            placed.append((moment, n, index, told))
        ends += [] if ended is None else [ended]
    placed.sort(key=lambda one: one[:3])
    events = [event for *_, event in placed]
    if ends and len(ends) == len(parts):
        failed = next((e for e in ends if e.get("exit_status")), ends[0])
        finishing = any(e.get("finishing") is True for e in ends)
        events.append({**failed, "finishing": finishing})
    return Merged(machines, tuple(events), (*problems, *_unlike(machines, begun)), tuple(parts))


def _unlike(machines: Sequence[str], begun: Sequence[Event]) -> list[str]:
    """A sentence for each thing that recordings of one program do not differ in."""
    out = []
    for what in SAME:
        said = [str(event.get(what)) for event in begun]
        if len(set(said)) > 1:
            each = ", ".join(f"{m}: {s}" for m, s in zip(machines, said, strict=False))
            out.append(f"these are hardly of one program: its {what} differs ({each})")
    return out
