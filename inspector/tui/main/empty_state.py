"""What is in place of the tree and the panes when a recording has nothing in it."""

from __future__ import annotations

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from inspector.base.model import Recording
from inspector.base.text import ended_by, plural
from inspector.tui.main.title_bar import banner
from inspector.tui.program.live import Live, ProgramState
from inspector.tui.widgets.visible import label


def watched_text(recording: Recording, live: Live) -> Content:
    """Return the few lines above the output of a program without kernels."""
    if live.running or live.state is not ProgramState.ENDED:
        return Content.assemble(
            ("No kernels here yet.  ", "bold"),
            (f"Running: {label(' '.join(recording.command or ()))}\n", ""),
            (
                "They come here as soon as the program compiles one. Its output is below; if it"
                " asks for input, it gets the whole terminal.",
                "$quiet",
            ),
        )
    parts: list[tuple[str, str]] = [("No kernels here.  ", "bold")]
    status = live.status if live.status is not None else recording.exit_status
    if live.killed_by is not None:
        parts.append((f"The program was {live.told}.\n", "bold $warning"))
    elif status:
        parts.append((f"The program ended with status {status}.\n", "bold $warning"))
    else:
        parts.append(("The program has ended.\n", ""))
    parts += [(f"! {label(problem)}\n", "$warning") for problem in recording.problems[:3]]
    if recording.uncaptured:
        makers = ", ".join(dict.fromkeys(one.by for one in recording.uncaptured))
        count = plural(len(recording.uncaptured), "kernel")
        said = f"None was captured of {count} that it made with {label(makers)}."
    else:
        said = f"{COMPILED_NOTHING} ptxview doctor lists the tools of this machine."
    parts.append((said, "$quiet"))
    return Content.assemble(*parts)


COMPILED_NOTHING = (
    "The program compiled nothing for a GPU. Does it call a Triton kernel, a function of"
    " torch.compile, or an extension?"
)


def empty_text(recording: Recording) -> Content:
    """What was looked at, why it may be empty, and what to do next."""
    yet = "" if recording.complete else " yet"
    parts: list[tuple[str, str]] = [(f"No kernels here{yet}.\n\n", "bold")]
    if said := banner(recording):
        parts.append((f"This recording was {said}.\n\n", "$warning"))
    parts.append((f"Looked at: {label(recording.path)}\n", "$quiet"))
    if recording.command:
        parts.append((f"Command: {label(' '.join(recording.command))}\n", "$quiet"))
    if recording.exit_status:
        how = ended_by(recording.exit_status) or f"ended with status {recording.exit_status}"
        parts.append((f"The program {'was ' if 'by' in how else ''}{how}.\n", "$warning"))
    if not recording.complete:
        parts.append(
            ("The recording is unfinished: the program was killed, or still runs.\n", "$warning")
        )
    parts += [(f"! {label(problem)}\n", "$warning") for problem in recording.problems[:5]]
    parts.append(("\nWhat to do next\n", "bold $primary"))
    if recording.command:
        parts.append((f"• {COMPILED_NOTHING}\n", ""))
    for command, meaning in (
        ("ptxview run script.py", "run a program and record what it compiles"),
        ("ptxview open ~/.triton/cache", "read what Triton has already compiled"),
        ("ptxview doctor", "list the tools of this machine, and missing ones"),
    ):
        parts += [("• ", ""), (command, "bold"), (f"  {meaning}\n", "")]
    parts += [("\nq", "bold"), (" leaves, ", ""), ("?", "bold"), (" shows all keys.", "")]
    return Content.assemble(*parts)


class EmptyState(VerticalScroll, can_focus=True):
    """A text that says what to do; few words where a program's output is to be seen."""

    def __init__(self, recording: Recording, live: Live | None = None) -> None:
        """``live`` is of a program that we started, whose output is shown."""
        self._text = Static(self._of(recording, live))
        super().__init__(self._text)

    @staticmethod
    def _of(recording: Recording, live: Live | None) -> Content:
        return empty_text(recording) if live is None else watched_text(recording, live)

    def tell(self, recording: Recording, live: Live | None) -> None:
        """There is more to be said of it, though no kernel has come."""
        self._text.update(self._of(recording, live))
