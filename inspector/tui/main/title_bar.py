"""The first line of every screen: which recording, from which device, and what to know of it."""

from __future__ import annotations

import re

from textual.content import Content

from inspector.base.model import Recording
from inspector.base.text import plural
from inspector.report.ranks import differences
from inspector.tui.keys.command_table import command
from inspector.tui.keys.keymap import shown
from inspector.tui.program.live import ending
from inspector.tui.widgets.lines import LineWidget, ends, link
from inspector.tui.widgets.visible import label, shorten

_UNNAMED = re.compile(
    r"\d{4}(?P<month>\d\d)(?P<day>\d\d)-(?P<hour>\d\d)(?P<minute>\d\d)\d\d-"
    r"(?P<program>.+)-[0-9a-f]{4,}"
)
"""What ``run`` calls a recording that it is given no name for."""
_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {f"{n:02}": name for n, name in enumerate(_NAMES, 1)}


def banner(recording: Recording) -> str:
    """What must be said on every screen of a recording that no GPU ran; else ""."""
    if recording.mode != "target":
        return ""
    return f"compiled for {label(recording.target or 'a target')}, not run on a GPU"


def recording_name(recording: Recording) -> str:
    """The last part of the path, without the ending of a recording; of several, all names. Of one
    that nobody gave a name the program's and when it was run: ``train 23 Nov 06:35``."""
    if recording.machines:
        return label(" + ".join(recording.machines))
    name = recording.path.rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    if (own := _UNNAMED.fullmatch(name)) and own["month"] in _MONTHS:
        when = f"{int(own['day'])} {_MONTHS[own['month']]} {own['hour']}:{own['minute']}"
        return label(f"{own['program']} {when}")
    return label(name.removesuffix(".ptxview") or recording.path)


def device_name(recording: Recording) -> str:
    """``NVIDIA H200 sm_90a``: the device, with the target that most was compiled for."""
    name = str((recording.device or {}).get("name") or "")
    targets = {v.target: None for _, v in recording.variants() if v.target}
    words = [name] if name else []
    if targets:
        words.append(", ".join(targets) if len(targets) < 3 else f"{len(targets)} targets")
    return label(" ".join(words))


def counts(recording: Recording) -> str:
    """``12 kernels, 19 variants, 3 graphs``."""
    parts = [
        plural(len(recording.kernels), "kernel"),
        plural(len(recording.variants()), "variant"),
    ]
    if recording.graphs:
        parts.append(plural(len(recording.graphs), "graph"))
    return ", ".join(parts)


def parts(recording: Recording) -> list[str]:
    """What the line says, what matters most first."""
    return [
        recording_name(recording),
        banner(recording) or device_name(recording),
        counts(recording),
    ]


class TitleBar(LineWidget):
    """One line; what matters least is left out first when it gets narrow."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.told = ""
        """The state of a program that runs."""
        self.modes: tuple[tuple[str, str], ...] = ()
        """What is on, in a word or two, each with the command that ends it."""
        self.renew(recording)

    def renew(self, recording: Recording) -> None:
        """Show a recording that has grown."""
        self.recording = recording
        self._differences = len(differences(recording))
        self.refresh()

    def render(self) -> Content:
        """Name, device or banner, counts, and warnings at the right."""
        recording, width = self.recording, self.size.width - 2
        keys = getattr(self.app, "keys", {})
        warnings = []
        if self.told:
            warnings.append(self.told)
        elif not recording.complete:
            warnings.append("unfinished")
        elif recording.exit_status and recording.seconds is not None:
            warnings.append(ending(recording.exit_status, recording.seconds))
        if self._differences:
            key = shown(command("compiles"), keys)
            warnings.append(f"{key} {plural(self._differences, 'difference')} of ranks")
        if recording.problems:
            warnings.append(f"! {plural(len(recording.problems), 'problem')}")
        warning = " · ".join(warnings)
        fine = warning.startswith("exit 0 ") and len(warnings) == 1 and not self.modes
        style = "bold" if fine else "bold $warning"
        on = [
            link(
                f"[{shorten(word, 24)} {shown(command(name), keys)}]",
                style,
                f"screen.run({name!r})",
            )
            for word, name in self.modes
        ]
        said = parts(recording)
        name, banner_text = said[0], banner(recording)
        for last in (warning, "!" if warnings else ""):
            right = Content(" ").join([*on, *([Content.styled(last, style)] if last else [])])
            for chosen in (said, said[:2], [banner_text or name]):
                text = " · ".join(part for part in chosen if part)
                used = len("ptxview  ") + len(text)
                if used + (right.cell_length + 2 if right else 0) <= width:
                    left = Content.assemble(" ", ("ptxview", "bold"), f"  {text}")
                    return ends(left, right, width + 1)
        if banner_text and len(banner_text) > width:
            banner_text = f"{label(recording.target or '')}, no GPU"
        return Content.assemble(" ", (shorten(banner_text or name, width), "bold"))
