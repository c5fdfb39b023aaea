"""What the screens look like, as pictures: run with --snapshot-update when a change is meant."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import pytest
from textual.app import App
from textual.pilot import Pilot

from tests.helpers.sample import settle
from tests.helpers.shared_app import SharedApp, small_app

SIZES = [(120, 40)]


class Compare(Protocol):
    """pytest-textual-snapshot's fixture."""

    def __call__(
        self,
        app: App[None] | SharedApp,
        *,
        terminal_size: tuple[int, int],
        run_before: Callable[[Pilot[None]], Awaitable[None]],
    ) -> bool: ...


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Help names the file of one's own keys: it is as long on every machine."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "/home/ada/.config")


def pressing(*keys: str) -> Callable[[Pilot[None]], Awaitable[None]]:
    """Press keys once everything has been read, and wait for what they cause."""

    async def run(pilot: Pilot[None]) -> None:
        # A cursor that blinks would make two pictures of one screen.
        pilot.app.animation_level = "none"
        await pilot.pause()
        if pilot.app.screen_stack[0].query("CodeView"):
            await settle(pilot)
        await pilot.press(*keys)
        if pilot.app.screen_stack[0].query("CodeView"):
            await settle(pilot)

    return run


@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")
def test_reading(snap_compare: Compare, size: tuple[int, int]) -> None:
    keys = pressing("tab", "colon", "1", "4", "enter")
    assert snap_compare(small_app, terminal_size=size, run_before=keys)


@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")
def test_three_panes_a_search_and_folds(snap_compare: Compare, size: tuple[int, int]) -> None:
    keys = pressing("d", "tab", "p", "shift+tab", "F", "slash", *"mul", "enter")
    assert snap_compare(small_app, terminal_size=size, run_before=keys)
