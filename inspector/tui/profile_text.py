"""What ``ptxview profile`` kept with a recording, as one text."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text
from textual.content import Content

from inspector.bench.profile_reading import profiles, why_none
from inspector.capture.opening import kept_cache
from inspector.model import Recording
from inspector.printing import page
from inspector.recording import is_recording
from inspector.report import profile as tables
from inspector.report.safe import shown
from inspector.tui.notice import Notice

TOP = 40
"""Rows of each table: what takes longest."""


def profile_text(recording: Recording, width: int) -> Content | Notice:
    """The tables of its last profile, in so many columns; a notice where there is none.

    Reads a trace when it is asked for the first time, which may take seconds: for a thread. Raises
    ``Unreadable``.
    """
    path = Path(recording.path)
    if not is_recording(path):
        return Notice("∅", "Only a recording holds profiles.", "ptxview profile SCRIPT makes one.")
    windows, profile, problems = profiles(path, recording, kept_cache())
    if profile is None:
        why = "; ".join((*problems, why_none(path)))
        return Notice("∅", f"There is no profile: {shown(why)}.")
    console, written = page(width)
    for part in tables.whole(profile, len(windows), recording.mode, width, TOP):
        console.print(part)
    for said in problems:
        console.print(Text(f"! {shown(said)}"))
    return Content.from_rich_text(Text.from_ansi(written()))
