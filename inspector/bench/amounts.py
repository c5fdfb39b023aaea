"""What a launch moves and computes, as the user gives it, instead of the estimates."""

from __future__ import annotations

from dataclasses import replace

from inspector.bench.results import Session, Timing


def with_amounts(session: Session, moved: int | None, done: int | None) -> Session:
    """A session with each row's bytes and operations as given, and what follows of them.

    ``moved`` in bytes and ``done`` in operations, of one launch; None leaves the estimate.
    """
    if moved is None and done is None:
        return session
    return replace(session, rows=tuple(_with(t, session, moved, done) for t in session.rows))


def _with(timing: Timing, session: Session, moved: int | None, done: int | None) -> Timing:
    us = timing.median_us or None
    if moved is not None:
        peak = next((p for p in session.peaks if p.stopwatch == timing.stopwatch), None)
        gb = None if us is None else moved / us / 1e3
        timing = replace(
            timing,
            bytes=moved,
            bytes_from="given",
            gb_per_s=gb,
            percent_of_peak=None if gb is None or peak is None else 100 * gb / peak.gb_per_s,
        )
    if done is not None:
        rate = None if us is None else done / us / 1e6
        timing = replace(timing, flops=done, flops_from="given", tflop_per_s=rate)
    return timing
