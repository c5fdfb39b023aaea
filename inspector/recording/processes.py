"""Tells processes apart whose ids the system has given out again."""

from collections import Counter

from inspector.recording.events import Event

Process = tuple[int, int]
"""A process's id, and how many processes with this id began before its events."""


class Processes:
    """Processes by their ids, and how many of an id have begun: an event of ``kind`` says so."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._begun: Counter[int] = Counter()

    def process_of(self, event: Event) -> Process | None:
        if event.pid is None:
            return None
        self._begun[event.pid] += event.event == self._kind
        return event.pid, self._begun[event.pid]
