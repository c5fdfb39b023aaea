"""What the palette and named layouts look like."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot

from inspector.tui.app.app import PtxviewApp
from tests.helpers.sample import reader, settle

Compare = Callable[..., bool]
SIZES = [(120, 36)]
by_size = pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")


def pressing(*keys: str) -> Callable[[Pilot[None]], Awaitable[None]]:
    """Presses keys once everything is there."""

    async def run(pilot: Pilot[None]) -> None:
        # A cursor that blinks would make two pictures of one screen.
        pilot.app.animation_level = "none"
        await settle(pilot)
        await pilot.press(*keys)
        await settle(pilot)

    return run


@by_size
def test_palette(snap_compare: Compare, size: tuple[int, int]) -> None:
    keys = pressing("tab", "ctrl+p", *"square")
    assert snap_compare(PtxviewApp(reader()), terminal_size=size, run_before=keys)
