"""What the screens look like, as pictures: run with --snapshot-update when a change is meant."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import pytest
from textual.app import App
from textual.pilot import Pilot

from inspector.tui.app.app import PtxviewApp
from tests.helpers.nightly import first_by_day
from tests.helpers.sample import settle
from tests.helpers.shared_app import lecture_app, small_app


class Compare(Protocol):
    """pytest-textual-snapshot's fixture."""

    def __call__(
        self,
        app: App[None],
        *,
        terminal_size: tuple[int, int],
        run_before: Callable[[Pilot[None]], Awaitable[None]],
    ) -> bool: ...


def pressing(*keys: str) -> Callable[[Pilot[None]], Awaitable[None]]:
    """Press keys once everything has been read, and wait for what they cause."""

    async def run(pilot: Pilot[None]) -> None:
        # A cursor that blinks would make two pictures of one screen.
        pilot.app.animation_level = "none"
        await settle(pilot)
        await settle(pilot, *keys)

    return run


LOOKS = {
    "reading": (small_app, ("tab", "colon", "1", "4", "enter")),
    "folds": (
        small_app,
        ("d", "tab", "p", "shift+tab", "F", "slash", *"mul", "enter"),
    ),
    "palette": (small_app, ("tab", "ctrl+p", *"square")),
    "loop": (
        lecture_app,
        ("slash", *"matmul", "enter", "b", "tab", "colon", *"452", "enter"),
    ),
    "map": (
        lecture_app,
        ("slash", *"softmax_k", "enter", "b", "tab", "colon", *"42", "enter"),
    ),
}


@pytest.mark.usefixtures("no_kept_estimates")
@pytest.mark.parametrize("name", first_by_day(LOOKS, 2))
def test_look(snap_compare: Compare, name: str) -> None:
    app, keys = LOOKS[name]
    assert snap_compare(
        PtxviewApp(app.reads()), terminal_size=(120, 40), run_before=pressing(*keys)
    )
