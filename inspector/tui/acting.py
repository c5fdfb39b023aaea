"""Doing something with what one reads: mark, compare, time, copy, edit, save."""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path

from textual import on, work
from textual.app import SuspendNotSupported
from textual.message import Message
from textual.screen import Screen

from inspector.bench.results import Session
from inspector.errors import PtxviewError
from inspector.model import Stage, Variant
from inspector.process import run_program
from inspector.tui.card import VariantCard
from inspector.tui.export import file_name, save, text_of
from inspector.tui.navigating import Navigating
from inspector.tui.notice import Notice
from inspector.tui.outcome import attempt
from inspector.tui.reads import Reads
from inspector.tui.subject import Subject
from inspector.tui.times import Times
from inspector.tui.visible import label, plain

Compare = Callable[[Reads, Subject, Subject], Screen[None]]
Time = Callable[[Reads, Subject, Times], Screen[None]]


def _compare(reads: Reads, a: Subject, b: Subject) -> Screen[None]:
    # Imported when something is compared: the first frame need not wait for it.
    from inspector.tui.diff_screen import DiffScreen

    return DiffScreen(reads, a, b)


COMPARE: Compare | None = _compare
"""Makes the screen that shows how two variants differ. None: there is no such screen."""


def _time(reads: Reads, subject: Subject, times: Times) -> Screen[None]:
    from inspector.tui.timing_screen import TimingScreen

    return TimingScreen(reads, subject, times)


TIME: Time = _time
"""Makes the screen that measures a variant."""

EDITORS = ("VISUAL", "EDITOR")


GOTO = frozenset(("code", "code-insiders", "code-server", "codium", "vscodium", "cursor"))
"""Editors that take the line with the path: VS Code and what is made of it."""


def whole_path(recorded: str) -> Path | None:
    """Where a recorded path leads, from the root on and without links; None where no regular file
    lies there.

    A recording may name anything: a path that begins at the root is an option or a command
    (``+:!…``, ``-c …``) of no editor.
    """
    try:
        path = Path(recorded).resolve(strict=True)
        return path if path.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return None


def editor(words: list[str], path: Path, n: int) -> list[str]:
    """The command that opens line ``n`` of a file, whose path begins at the root."""
    if Path(words[0]).name in GOTO:
        return [*words, "--goto", f"{path}:{n}"]
    return [*words, f"+{n}", str(path)]


class Acting(Navigating):
    """A screen whose keys do something beyond reading."""

    reads: Reads
    times: Times
    card: VariantCard

    def __init__(self) -> None:
        super().__init__()
        self.marked: tuple[Subject, ...] = ()

    class Saved(Message):
        """A thread has written a file, or could not."""

        def __init__(self, text: str, warning: bool) -> None:
            super().__init__()
            self.text = text
            self.warning = warning

    class WereTaken(Message):
        """A thread has read the times that were taken before."""

        def __init__(self, sessions: tuple[Session, ...]) -> None:
            super().__init__()
            self.sessions = sessions

    def _say(self, text: str) -> None:
        self.status.say(text, self.panes.active.view)

    # Marks

    def action_mark(self) -> None:
        """Mark the variant, or take its mark away; a third takes the place of the second."""
        subject = self.panes.subject
        if subject.variant is None:
            self._warn("There is no compilation here to mark.")
            return
        own = Subject(subject.kernel, subject.variant)
        if own in self.marked:
            self.marked = tuple(one for one in self.marked if one != own)
        else:
            self.marked = (*self.marked[:1], own)
        self.kernels.mark(tuple(one.key[:2] for one in self.marked))
        names = [f"{letter} {label(one.name)} {one.key[1]}"
                 for letter, one in zip("AB", self.marked, strict=False)]  # fmt: skip
        hint = ("d marks another, then D compares them", "D compares them")
        if names:
            self._say(f"Marked: {', '.join(names)}. {hint[len(names) - 1]}.")
        else:
            self._say("Nothing is marked.")

    def action_compare(self) -> None:
        """Show how the two marked variants differ."""
        if len(self.marked) < 2:
            self._warn("Mark two variants with d; then this compares them.")
        elif COMPARE is None:
            a, b = (one.key[1] for one in self.marked)
            self._warn(f"No screen shows differences yet: ptxview diff {a} {b} prints them.")
        else:
            self.app.push_screen(COMPARE(self.reads, *self.marked))

    def action_time(self) -> None:
        """Measure the variant."""
        if self.panes.subject.variant is None:
            self._warn("There is no compilation here to time.")
        else:
            screen = TIME(self.reads, self.panes.subject, self.times)
            self.app.push_screen(screen, lambda _: self.timed())

    def timed(self) -> None:
        """Other times are known than before."""
        self.kernels.timed()
        self.card.refresh()

    @work(thread=True, exclusive=True, group="times", exit_on_error=False, description="times")
    def read_times(self) -> None:
        """Have the times read that were taken before."""
        from inspector.timing import sessions

        found = attempt(lambda: tuple(sessions(self.times.path)))
        if not isinstance(found, Notice):
            self.post_message(self.WereTaken(found))

    @on(WereTaken)
    def _were_taken(self, message: WereTaken) -> None:
        message.stop()
        if len(message.sessions) >= len(self.times.sessions):
            self.times.know(message.sessions)
            self.timed()

    # Copying

    def action_copy(self) -> None:
        """Copy the chosen lines, else the cursor's."""
        view = self.panes.active.view
        if view.source is None:
            return
        first, last = view.chosen or (view.cursor, view.cursor)
        view.unchoose()
        self._copy(first, last)

    def action_copy_all(self) -> None:
        """Copy the whole listing."""
        view = self.panes.active.view
        if view.source is not None:
            self._copy(1, view.lines)

    def _copy(self, first: int, last: int) -> None:
        view = self.panes.active.view
        assert view.source is not None
        self.app.copy_to_clipboard(plain("\n".join(view.source.texts[first - 1 : last])))
        said = f"Line {first} is" if first == last else f"Lines {first} to {last} are"
        self._say(f"{said} on the clipboard.")

    # The editor

    def action_edit(self) -> None:
        """Open the line in the user's editor, and come back when that ends."""
        view, stage = self.panes.active.view, self.panes.active.stage
        if view.source is None or stage is None:
            return
        named = next((os.environ[name] for name in EDITORS if os.environ.get(name)), "")
        try:
            words = shlex.split(named)
        except ValueError:
            words = []
        if not words:
            self._warn("Say which editor: set EDITOR, as in EDITOR=vim.")
            return
        path = self._recorded(stage)
        with contextlib.ExitStack() as held:
            if path is None:
                folder = held.enter_context(tempfile.TemporaryDirectory(prefix="ptxview-"))
                path = Path(folder) / file_name(self.panes.subject, stage, "")
                text = "\n".join(view.source.texts)
                path.write_bytes(text.encode("utf-8", "surrogateescape"))
            self._edit(words, path, view.cursor)

    def _recorded(self, stage: Stage) -> Path | None:
        """The user's own source, where there is a file where it was recorded."""
        variant = self.panes.subject.variant
        file = None if variant is None else variant.stages.get(stage)
        if stage is not Stage.SOURCE or file is None or file.origin_path is None:
            return None
        return whole_path(file.origin_path)

    def _edit(self, words: list[str], path: Path, n: int) -> None:
        try:
            with self.app.suspend():
                status = run_program(editor(words, path, n), os.environ, is_job=False)
        except SuspendNotSupported:
            self._warn(
                "A browser has no terminal to lend to an editor; y copies the line, X saves all."
                if self.app.is_web
                else "This terminal cannot be lent to an editor."
            )
        except PtxviewError as error:
            self._warn(error.message)
        else:
            if status:
                self._warn(f"{label(words[0])} ended with status {status}.")
        self.refresh(layout=True)

    # Files

    def action_screenshot(self) -> None:
        """Save what the terminal shows as a picture."""
        picture = self.app.export_screenshot(title="ptxview").encode()
        try:
            path = save(Path.cwd() / "ptxview.svg", picture)
        except OSError as error:
            self._warn(f"No picture could be saved: {error.strerror or error}.")
        else:
            self._say(f"A picture of the screen is in {label(str(path))}.")

    def action_export(self) -> None:
        """Save the listing with everything that is told of it."""
        stage, variant = self.panes.active.stage, self.panes.subject.variant
        if stage is None or variant is None or self.panes.active.view.source is None:
            self._warn("There is no listing here to save.")
        else:
            self._export(self.panes.subject, variant, stage)

    @work(thread=True, exclusive=True, group="export", exit_on_error=False, description="export")
    def _export(self, subject: Subject, variant: Variant, stage: Stage) -> None:
        def write() -> Path:
            text = text_of(self.reads, subject, variant, stage)
            data = text.encode("utf-8", "surrogateescape")
            return save(Path.cwd() / file_name(subject, stage, ".txt"), data)

        found = attempt(write)
        if isinstance(found, Notice):
            self.post_message(self.Saved(found.message, warning=True))
        else:
            said = f"The listing and what is told of it are in {label(str(found))}."
            self.post_message(self.Saved(said, warning=False))

    @on(Saved)
    def _saved(self, message: Saved) -> None:
        message.stop()
        self.status.say(message.text, self.panes.active.view, message.warning)
