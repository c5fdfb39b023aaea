"""What stands in place of the tree and the panes when a recording has nothing in it."""

from __future__ import annotations

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from inspector.model import Recording
from inspector.tui.widgets.title_bar import banner
from inspector.tui.widgets.visible import label


def empty_text(recording: Recording, running: bool = False) -> Content:
    """What was looked at, why it may be empty, and what to do next."""
    parts: list[tuple[str, str]] = [("No kernels here yet.\n\n", "bold")]
    if running:
        parts += [
            (f"Running: {label(' '.join(recording.command or ()))}\n\n", ""),
            ("Kernels come here as soon as the program compiles one. What it writes stands beneath;"
             " if it asks for input, it gets the whole terminal.\n", "$quiet"),
            ("\nO", "bold"), (" goes to the output, ", ""), ("q", "bold"), (" leaves.", ""),
        ]  # fmt: skip
        return Content.assemble(*parts)
    if said := banner(recording):
        parts.append((f"This recording was {said}.\n\n", "$warning"))
    parts.append((f"Looked at: {label(recording.path)}\n", "$quiet"))
    if recording.command:
        parts.append((f"Command: {label(' '.join(recording.command))}\n", "$quiet"))
    if recording.exit_status:
        parts.append((f"The program ended with status {recording.exit_status}.\n", "$warning"))
    if not recording.complete:
        parts.append(("The recording is unfinished: the program was killed, or still runs.\n",
                      "$warning"))  # fmt: skip
    parts += [(f"! {label(problem)}\n", "$warning") for problem in recording.problems[:5]]
    parts.append(("\nWhat to do next\n", "bold $primary"))
    if recording.command:
        parts.append(
            (
                "• The program compiled nothing for a GPU. Does it call a Triton kernel, a function"
                " of torch.compile, or an extension?\n",
                "",
            )
        )
    for command, meaning in (
        ("ptxview run script.py", "run a program and record what it compiles"),
        ("ptxview open ~/.triton/cache", "read what Triton has already compiled"),
        ("ptxview doctor", "see what was found on this machine and what is missing"),
    ):
        parts += [("• ", ""), (command, "bold"), (f"  {meaning}\n", "")]
    parts += [("\nq", "bold"), (" leaves, ", ""), ("?", "bold"), (" shows all keys.", "")]
    return Content.assemble(*parts)


class EmptyState(VerticalScroll, can_focus=True):
    """A text that says what to do."""

    def __init__(self, recording: Recording, running: bool = False) -> None:
        super().__init__(Static(empty_text(recording, running)))
