"""The key of reports that opens the timeline of the GPU over them."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual.binding import Binding

from inspector.base.model import Recording
from inspector.tui.widgets.lines_screen import LinesScreen
from inspector.tui.widgets.notice import in_thread

if TYPE_CHECKING:
    from inspector.measure.profile.trace import Profile
    from inspector.tui.work.timeline_screen import TimelineScreen

Target = TypeVar("Target")


class TimelineKey(LinesScreen[Target]):
    """A report from which ``t`` opens the timeline; a kernel chosen there is shown."""

    BINDINGS: ClassVar = [Binding("t", "timeline", show=False)]

    @property
    @abstractmethod
    def timeline_source(self) -> tuple[Recording, Profile | None]:
        """The recording, and the profile whose timeline is shown if the recording has none."""

    @abstractmethod
    def show_kernel(self, kernel: str) -> None:
        """Leave for a kernel: its id, or the hash of its variant."""

    def action_timeline(self) -> None:
        """Show when the GPU did what."""
        self.wait_for("◔ reading the timeline")
        source = self.timeline_source

        def read() -> TimelineScreen | None:
            from inspector.tui.work.timeline_screen import timeline_of

            return timeline_of(*source)

        def closed(kernel: str | None) -> None:
            if kernel is not None:
                self.show_kernel(kernel)

        def opened(screen: TimelineScreen | None) -> None:
            self.wait_for("")
            if screen is None:
                self.notify(
                    "No work of a GPU was recorded: ptxview run on a machine with one does."
                )
            else:
                self.app.push_screen(screen, closed)

        in_thread(self, read, opened, "timeline", failed=lambda _: self.wait_for(""))
