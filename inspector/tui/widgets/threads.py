"""Work in threads, with results that come back to the interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from textual.dom import DOMNode
from textual.worker import get_current_worker

from inspector.base.errors import PtxviewError
from inspector.tui.widgets.notice import Notice

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
