"""Where one has jumped from, to go back there and forward again, as in a browser."""

from __future__ import annotations

from dataclasses import dataclass

from inspector.model import Stage
from inspector.tui.subject import Subject

MOST = 200


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a stage of a subject."""

    subject: Subject
    stage: Stage
    n: int


class History:
    """Two stacks. A new jump forgets what lay ahead."""

    def __init__(self) -> None:
        self._back: list[Place] = []
        self._ahead: list[Place] = []

    def leave(self, place: Place) -> None:
        """A jump begins here."""
        self._ahead.clear()
        if not self._back or self._back[-1] != place:
            self._back.append(place)
            del self._back[:-MOST]

    def go(self, here: Place, by: int) -> Place | None:
        """Back (-1) or forward (1) from ``here``; None where there is nothing more."""
        source, other = (self._back, self._ahead) if by < 0 else (self._ahead, self._back)
        while source:
            place = source.pop()
            if place != here:
                other.append(here)
                return place
        return None
