"""Applications on recordings that tests share, with all that their readers have found out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from textual.pilot import Pilot

from inspector.commands.common import open_reader
from inspector.reader.reader import Reader
from inspector.tui.app.app import PtxviewApp
from tests.helpers.sample import reader

RECORDING = Path(__file__).parents[2] / "examples" / "recordings" / "lecture-h200.ptxview"


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

lecture_app = SharedApp(cache(lambda: open_reader(str(RECORDING))))
"""On the recording among the examples, with its reader's cache."""
