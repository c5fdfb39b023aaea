"""Applications on recordings that tests share, with all that their readers have found out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import cache

from textual.pilot import Pilot

from inspector.commands.common import open_reader
from inspector.reader.reader import Reader
from inspector.tui.app.app import PtxviewApp
from inspector.tui.main.main_screen import MainScreen
from tests.helpers.ptxview import SAMPLE
from tests.helpers.sample import reader, settle


@dataclass(frozen=True, eq=False)
class SharedApp:
    """A new application each time, on one reader: what has it find out else has a reader apart."""

    reads: Callable[[], Reader]

    def run_test(
        self, *, size: tuple[int, int] = (80, 24)
    ) -> AbstractAsyncContextManager[Pilot[None]]:
        """The application in a terminal of so many columns and rows."""
        return PtxviewApp(self.reads()).run_test(size=size)


small_app = SharedApp(cache(reader))
"""On the small recording of ``tests.helpers.sample``."""

lecture_app = SharedApp(cache(lambda: open_reader(str(SAMPLE))))
"""On the recording among the examples, with its reader's cache."""


@asynccontextmanager
async def started(
    *keys: str, size: tuple[int, int] = (120, 36), app: SharedApp | PtxviewApp = small_app
) -> AsyncIterator[tuple[Pilot[None], MainScreen]]:
    """The interface at rest; ``keys`` are pressed first."""
    async with app.run_test(size=size) as ui:
        screen = await settle(ui)
        await settle(ui, *keys)
        yield ui, screen
