"""A round of tuning: its candidates as dots with bands of noise, and which of them are tied."""

import math
from collections.abc import Mapping, Sequence

from inspector.analysis.tuner_times import TunerFacts, best_by_gpu
from inspector.base.model import Configuration, GpuTime, Tuning
from inspector.base.units import microseconds, plural
from inspector.render.pictures.picture import Axis, PictureRow, Role, RowPicture
from inspector.render.tables import BEST_BY_GPU, STAR, TIE

TITLE = "Which candidate won, and is the difference real?"
MAX_ROWS = 16
"""Candidates that are drawn, the fastest first."""
MARGIN_SHARE = 0.03
"""The margin beside the first and the last value, as a share of the axis or of the best."""
MAX_TIMES_BEST = 2.0
"""Where the axis ends, in times of the best: beyond it no two candidates are close."""


def tuning_picture(tuning: Tuning, facts: TunerFacts, labels: Sequence[str]) -> RowPicture | None:
    """The candidates of a round by the GPU's times, else by the tuner's.

    Args:
        labels: the texts of the candidates, in the round's order.

    Returns:
        None where fewer than two candidates have a time.
    """
    winner = tuning.winner
    if winner is None:
        return None
    if winner.gpu_time is not None and best_by_gpu(tuning) is not None:
        return _gpu_picture(tuning, facts, labels)
    timed = [candidate for candidate in tuning.configurations if candidate.time_us]
    if len(timed) < 2 or not winner.time_us:
        return None
    return _tuner_picture(tuning, winner, facts, labels)


def _gpu_picture(tuning: Tuning, facts: TunerFacts, labels: Sequence[str]) -> RowPicture | None:
    """Medians of the GPU's times with their quartiles; None of fewer than two."""
    best = best_by_gpu(tuning)
    if best is None or best.gpu_time is None:
        return None
    tied = facts.tied_by_gpu(tuning)
    rows = []
    for candidate, label in zip(tuning.configurations, labels, strict=True):
        time = candidate.gpu_time
        if time is not None:
            rows.append(_gpu_row(candidate, time, label, tuning, tied, best))
    chosen = tuning.winner
    others = len(tied) - 1
    if chosen is best:
        answer = "The choice is the fastest by GPU time"
        answer += f", tied with {others}." if others else "; no other is tied with it."
    elif chosen in tied:
        answer = f"The choice is one of {len(tied)} that are tied: their difference is noise."
    else:
        answer = "The choice is not the fastest by GPU time, and the difference is more than noise."
    low, _, high = best.gpu_time.quartiles_us
    note = "GPU time: median and quartiles of the tuner's launches"
    return _picture(rows, answer, (low, high), note)


def _gpu_row(
    candidate: Configuration,
    time: GpuTime,
    label: str,
    tuning: Tuning,
    tied: Sequence[Configuration],
    best: Configuration,
) -> PictureRow:
    low, _, high = time.quartiles_us
    role: Role = "tied" if candidate in tied else "other"
    mark = BEST_BY_GPU if role == "tied" else ""
    if candidate is best:
        role = "best"
        mark = BEST_BY_GPU
    if candidate is tuning.winner:
        role = "chosen"
        mark = STAR + mark
    text = f"{microseconds(time.median_us)} µs"
    return PictureRow(label, mark, role, time.median_us, low, high, text)


def _tuner_picture(
    tuning: Tuning, winner: Configuration, facts: TunerFacts, labels: Sequence[str]
) -> RowPicture:
    """The tuner's times with the spread that equal machine code has in the recording.

    Bands reach as far as makes two of them touch where the times differ by that spread.
    """
    noise = facts.noise(tuning)
    tied = facts.tied(tuning)
    factor = None if noise is None else math.sqrt(1 + noise)
    rows = []
    for candidate, label in zip(tuning.configurations, labels, strict=True):
        if candidate.time_us is not None:
            role: Role = "tied" if candidate in tied else "other"
            if candidate is winner:
                role = "chosen"
            rows.append(_tuner_row(candidate.time_us, label, role, factor))
    notes = [f"times by {tuning.stopwatch}" if tuning.stopwatch else "the tuner's times"]
    if noise is not None:
        notes.append(f"band: the {noise:.0%} by which times of one machine code differ")
    answer = _answer_by_tuner(tied, noise)
    overhead_us = facts.overhead_us(tuning)
    if overhead_us is not None:
        answer += f" Launching alone may take up to {microseconds(overhead_us)} µs of each time."
    band = next(((r.low, r.high) for r in rows if r.role == "chosen" and r.low and r.high), None)
    return _picture(rows, answer, band, "; ".join(notes))


_MARKS: Mapping[Role, str] = {"chosen": STAR, "tied": TIE}


def _tuner_row(us: float, label: str, role: Role, factor: float | None) -> PictureRow:
    low = None if factor is None else us / factor
    high = None if factor is None else us * factor
    return PictureRow(label, _MARKS.get(role, ""), role, us, low, high, f"{microseconds(us)} µs")


def _answer_by_tuner(tied: Sequence[Configuration], noise: float | None) -> str:
    if noise is None:
        return "No candidate was timed twice: whether the difference is real is unknown."
    if not tied:
        return "The choice is the fastest, by more than the noise."
    verb = "is" if len(tied) == 1 else "are"
    return f"{plural(len(tied), 'candidate')} {verb} tied with the choice within the noise."


def _picture(
    rows: Sequence[PictureRow], answer: str, band: tuple[float, float] | None, note: str
) -> RowPicture:
    """The picture of some rows, the fastest first, on an axis that keeps close ones apart."""
    by_time = sorted(rows, key=lambda row: row.value)
    hidden = by_time[MAX_ROWS:]
    # The choice is drawn, however slow it is.
    drawn = by_time[:MAX_ROWS] + [row for row in hidden if row.role == "chosen"]
    notes = [note]
    if len(by_time) > len(drawn):
        notes.append(f"{plural(len(by_time) - len(drawn), 'slower candidate')} not drawn")
    fastest = by_time[0].value
    starts = [row.value if row.low is None else row.low for row in by_time]
    ends = [row.value if row.high is None else row.high for row in drawn]
    high = min(max(ends), MAX_TIMES_BEST * fastest)
    margin = max(MARGIN_SHARE * (high - min(starts)), MARGIN_SHARE * fastest)
    axis = Axis("time of a launch", "µs", max(min(starts) - margin, 0.0), high + margin)
    return RowPicture(TITLE, answer, "dots", axis, drawn, band, notes)
