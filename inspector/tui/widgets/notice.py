"""Text that may be shown, notices, and work in threads.

Names and listings are data: what a terminal would obey becomes a symbol. A control character is
drawn as its picture (``␛``), anything else without a shape (direction marks, joiners, bytes that
were not UTF-8) as its number.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.dom import DOMNode
from textual.strip import Strip
from textual.worker import get_current_worker

from inspector.base.errors import PtxviewError
from inspector.base.escapes import harmless, symbol


class Notice(Struct, frozen=True):
    """``sign`` says without colour what kind of notice it is; the texts may be anything."""

    sign: str
    message: str
    hint: str = ""


def notice_row(
    notice: Notice | None, y: int, width: int, base: Style, message: Style, hint: Style
) -> Strip:
    rows: list[Segment] = []
    if notice is not None:
        texts = [(f"{notice.sign} {notice.message}".strip(), message)]
        if notice.hint:
            texts += [("", hint), (notice.hint, hint)]
        rows = [
            Segment(f" {line.plain.rstrip()}", base + style)
            for text, style in texts
            for paragraph in text.split("\n")
            for line in Content(visible(paragraph)).wrap(max(1, width - 2)) or [Content("")]
        ]
    return Strip(rows[y - 1 : y] if y else []).extend_cell_length(width, base).apply_style(base)


T = TypeVar("T")


def attempt(work: Callable[[], T]) -> T | Notice:
    """Return the result of ``work``, or any failure of it as a readable notice."""
    try:
        return work()
    except PtxviewError as error:
        return Notice("✗", error.message, error.hint)
    except Exception as error:  # a bug must cost one pane, not the whole program
        detail = f": {error}" if str(error) else ""
        return Notice(
            "✗",
            f"This could not be read ({type(error).__name__}{detail}).",
            "This is a bug in ptxview; everything else can still be read.",
        )


def in_thread(
    node: DOMNode,
    work: Callable[[], T],
    then: Callable[[T], Any],
    group: str,
    exclusive: bool = True,
    failed: Callable[[Notice], Any] | None = None,
) -> None:
    """Run ``work`` in a thread, and ``then`` with its result in the interface.

    A failure is for ``failed``; without it the interface stays as it is.
    With ``exclusive``, a newer call of the same group and node discards the result of this one;
    ``cancelled`` tells ``work`` so.
    """

    def run() -> None:
        answer = attempt(work)
        callback: Callable[[Any], Any] | None = failed if isinstance(answer, Notice) else then
        if callback is not None and not cancelled():
            node.call_later(callback, answer)

    # Textual's own description spells out every argument, which may take longer than the work.
    node.run_worker(
        run, group=group, description=group, exit_on_error=False, exclusive=exclusive, thread=True
    )


def following(items: Sequence[T], now: object, step: int = 1) -> T:
    """The item ``by`` places after ``now``, round the ends; from the first if it is not there."""
    index = items.index(now) + step if now in items else min(step, 0)
    return items[index % len(items)]


def cancelled() -> bool:
    return get_current_worker().is_cancelled


TAB_CELLS = 4
"""Columns between tab stops; eight would spend half of a narrow pane on indentation."""


def visible(text: str, tabs: bool = True) -> str:
    tab = "\t" if tabs else ""
    if not text.replace(tab, "").isprintable():
        text = "".join(
            character if harmless(character) or character == tab else symbol(character)
            for character in text
        )
    return text.expandtabs(TAB_CELLS) if tabs else text


_SASS = re.compile(r"^ {8}(/\*[0-9a-f]{4,}\*/) {12}(?= )")


def squeezed(text: str) -> str:
    return _SASS.sub(r" \1", text)


def label(text: str) -> str:
    """A name or a path on one row: tabs and newlines are symbols too."""
    return visible(text, tabs=False)


def shorten(text: str, width: int) -> str:
    if width <= 0:
        return ""
    if cell_len(text) <= width:
        return text
    if width <= 4:
        return set_cell_size(text, width - 1) + "…"
    tail = max(1, (width - 1) // 3)
    end = set_cell_size(text[::-1], tail)[::-1]
    return set_cell_size(text, width - 1 - tail) + "…" + end


def replace_surrogates(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def cut(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 1 else ""
