"""Work in threads, and the sentence in a pane that has nothing to show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.dom import DOMNode
from textual.strip import Strip
from textual.worker import get_current_worker

from inspector.base.errors import PtxviewError
from inspector.tui.widgets.visible import visible


@dataclass(frozen=True, slots=True)
class Notice:
    """``sign`` says without colour what kind of notice it is; the texts may be anything."""

    sign: str
    message: str
    hint: str = ""


def _wrapped(text: str, width: int, style: Style) -> list[Strip]:
    return [
        Strip([Segment(line.plain.rstrip(), style)])
        for paragraph in text.split("\n")
        for line in Content(visible(paragraph)).wrap(max(1, width)) or [Content("")]
    ]


def notice_row(
    notice: Notice | None, y: int, width: int, base: Style, message: Style, hint: Style
) -> Strip:
    """Row ``y`` of a view that has nothing but the notice to show."""
    strips = notice_strips(notice, width, base + message, base + hint)
    if 0 <= y - 1 < len(strips):
        return strips[y - 1].extend_cell_length(width, base).apply_style(base)
    return Strip.blank(width, base)


def notice_strips(notice: Notice | None, width: int, message: Style, hint: Style) -> list[Strip]:
    """The notice in rows of at most ``width`` cells, a column free on either side."""
    if notice is None:
        return []
    room = max(1, width - 2)
    rows = _wrapped(f"{notice.sign} {notice.message}".strip(), room, message)
    if notice.hint:
        rows += [Strip([Segment("")]), *_wrapped(notice.hint, room, hint)]
    return [Strip([Segment(" ", message), *row]) for row in rows]


T = TypeVar("T")


def attempt(work: Callable[[], T]) -> T | Notice:
    """Return the result of ``work``, or any failure of it as a readable notice."""
    try:
        return work()
    except PtxviewError as error:
        return Notice("✗", error.message, error.hint)
    except Exception as error:  # a bug must cost one pane, not the whole program
        said = f": {error}" if str(error) else ""
        return Notice(
            "✗",
            f"This could not be read ({type(error).__name__}{said}).",
            "This is a bug in ptxview; everything else can still be read.",
        )


def in_thread(
    node: DOMNode,
    work: Callable[[], T],
    then: Callable[[T | Notice], Any],
    group: str,
    exclusive: bool = True,
) -> None:
    """Run ``work`` in a thread, and ``then`` with its result in the interface.

    With ``exclusive``, a newer call of the same group and node discards the result of this one;
    ``cancelled`` tells ``work`` so.
    """

    def run() -> None:
        answer = attempt(work)
        if not cancelled():
            node.call_later(then, answer)

    # Textual's own description spells out every argument, which may take longer than the work.
    node.run_worker(
        run, group=group, description=group, exit_on_error=False, exclusive=exclusive, thread=True
    )


def cancelled() -> bool:
    """Return whether nobody waits for the work of this thread any more."""
    return get_current_worker().is_cancelled
