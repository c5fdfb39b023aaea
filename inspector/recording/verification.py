"""Events of launches that were run by their PTX and interpreted, into what each variant came to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from inspector.model import StoreDifference, Verified
from inspector.recording.facts import as_int, as_map, as_text

Event = Mapping[str, object]
KINDS = ("value", "missing", "extra", "fault")
MOST_WORDS = 2000
"""Characters of a sentence that are kept."""


class Verifications:
    """Collects the events of all processes; the last count of each is the whole of it."""

    def __init__(self) -> None:
        self.asked = False
        self._generation: Counter[object] = Counter()
        self._counts: dict[tuple[str, str], dict[tuple[object, int], Event]] = {}
        self._differences: dict[tuple[str, str], list[StoreDifference]] = {}

    def take(self, event: Event) -> None:
        """One event of any kind; others are passed over."""
        kind, pid = event.get("event"), event.get("pid")
        if kind == "recording":
            self.asked = self.asked or event.get("verify") is True
        elif kind == "process":
            self._generation[pid if isinstance(pid, int) else None] += 1
        elif kind in ("verified", "differs"):
            subject = (str(event.get("name")), str(event.get("hash") or ""))
            process = pid if isinstance(pid, int) else None
            if kind == "verified":
                key = (process, self._generation[process])
                self._counts.setdefault(subject, {})[key] = event
            else:
                self._differences.setdefault(subject, []).append(_difference(event))

    def values(self) -> tuple[Verified, ...] | None:
        """By variant, in the order of first sight; None where no launch was to be verified."""
        if not self.asked and not self._counts and not self._differences:
            return None
        subjects = dict.fromkeys((*self._counts, *self._differences))
        return tuple(self._verified(subject) for subject in subjects)

    def _verified(self, subject: tuple[str, str]) -> Verified:
        events = list(self._counts.get(subject, {}).values())
        told = tuple(self._differences.get(subject, ()))
        unverified: Counter[str] = Counter()
        for event in events:
            for why, count in as_map(event.get("unverified")).items():
                unverified[why[:MOST_WORDS]] += _count(count)
        ulps, bound = _worst(as_map(event.get("worst")) for event in events)
        return Verified(
            *subject,
            agree=sum(_count(e.get("agree")) for e in events),
            identical=sum(_count(e.get("identical")) for e in events),
            # A run that was killed may have told of one and not have counted it.
            differ=max(sum(_count(e.get("differ")) for e in events), len(told)),
            unverified=dict(unverified),
            ulps=ulps,
            bound_ulps=bound,
            differences=told,
        )


def _worst(told: Iterable[Mapping[str, object]]) -> tuple[float | None, float | None]:
    pairs = [(_float(one.get("ulps")), _float(one.get("bound_ulps"))) for one in told]
    bounded = [(u, b) for u, b in pairs if u is not None and b]
    return max(bounded, key=lambda pair: pair[0] / pair[1]) if bounded else (None, None)


def _difference(event: Event) -> StoreDifference:
    kind = as_text(event.get("kind"))
    bound = event.get("bound")
    index = event.get("index")
    whole = isinstance(index, list) and all(isinstance(n, int) for n in index)
    return StoreDifference(
        text=(as_text(event.get("text")) or "")[:MOST_WORDS],
        kind=kind if kind in KINDS else "value",
        launch=as_int(event.get("launch")),
        grid=_three(event.get("grid")),
        line=as_int(event.get("line")),
        statement=as_text(event.get("statement")) or "",
        source=as_text(event.get("source")) or "",
        python=as_text(event.get("python")) or "",
        block=_three(event.get("block")),
        thread=_three(event.get("thread")),
        address=as_int(event.get("address")),
        tensor=as_text(event.get("tensor")),
        index=tuple(index) if isinstance(index, list) and whole else None,
        type=as_text(event.get("type")),
        ptx_value=_value(event.get("ptx_value")),
        python_value=_value(event.get("python_value")),
        bound=bound if isinstance(bound, str) else _float(bound),
        elements=as_int(event.get("elements")),
    )


def _count(value: object) -> int:
    return max(0, as_int(value) or 0)


def _float(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            wide = float(value)
        except OverflowError:
            return None
        return wide if math.isfinite(wide) else None
    return None


def _value(value: object) -> float | int | str | None:
    return value if isinstance(value, int | float | str) else None


def _three(value: object) -> tuple[int, int, int] | None:
    if isinstance(value, list) and len(value) == 3:
        x, y, z = (as_int(n) for n in value)
        if x is not None and y is not None and z is not None:
            return x, y, z
    return None
