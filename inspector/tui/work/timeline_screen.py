"""The timeline of the GPU, over the screen: streams as rows, a bar a kernel, and what ran below."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget

from inspector.base.model import Recording
from inspector.measure.gpu_window import gpu_window
from inspector.measure.profile.trace import Profile
from inspector.measure.streams import profile_streams, window_streams
from inspector.render import timeline
from inspector.render.tables import padded
from inspector.render.timeline import MIN_COLUMN_NS, Bar, NamedTimeline, View
from inspector.tui.widgets.notice import cut
from inspector.tui.widgets.tool_screen import AnswersKeys

COLOURS = ("$primary", "$accent", "$success", "$error", "$warning")
"""Of the kernels that take most time, in turn."""
OTHER_COLOUR = "$quiet"
"""Of copies and sets."""
MOVE_SHARE = 0.25
"""The part of what is in view by which ← and → move."""
GAP_SHARE = 0.02
"""Gaps shorter than this part of what is in view are passed over."""
FRAME_ROWS = 2
"""Lines of the upper half that are no streams: the time axis and the mark of the chosen span."""


def timeline_of(recording: Recording, profile: Profile | None) -> "TimelineScreen | None":
    """The timeline of the run, else that of its profile; None where neither is known."""
    window = gpu_window(recording)
    if window is not None and len(window.spans):
        shown = timeline.named_timeline(window_streams(window), recording)
        return TimelineScreen(recording, shown, timeline.heading(window))
    if profile is not None and profile.timeline:
        shown = timeline.named_timeline(profile_streams(profile), recording)
        return TimelineScreen(recording, shown, "last step of the profile")
    return None


class TimelineView(Widget, can_focus=True):
    """What is in view of a timeline, and the chosen span of it."""

    def __init__(self, shown: NamedTimeline) -> None:
        super().__init__()
        self.shown = shown
        first = shown.streams.first
        self.begin = float(first.begin)
        self.length = float(max(first.end - first.begin, 1))
        indexes = shown.streams.between(first.begin, first.end)
        self.selected = int(indexes[0]) if len(indexes) else 0
        self.labels = [
            timeline.lane_label(lane, shown.streams.lanes) for lane in shown.streams.lanes
        ]

    @property
    def columns(self) -> int:
        return max(self.size.width - self.margin, 10)

    @property
    def margin(self) -> int:
        return max(map(len, self.labels)) + 1

    @property
    def view(self) -> View:
        return View(self.begin, self.begin + self.length, self.columns)

    def zoom(self, factor: float) -> None:
        """Show more or less time; the chosen span stays where it is, if it is in view."""
        total = max(self.shown.streams.length, 1)
        shortest = min(self.columns * MIN_COLUMN_NS, total)
        length = min(max(self.length * factor, shortest), total)
        centre = self._chosen_start()
        if not self.begin <= centre <= self.begin + self.length:
            centre = self.begin + self.length / 2
        share = (centre - self.begin) / self.length
        self.length = length
        self.move_to(centre - share * length)

    def move_to(self, begin: float) -> None:
        """Show what is from ``begin`` on; the first span in view is chosen if none of it was."""
        streams = self.shown.streams
        self.begin = min(max(begin, 0.0), max(streams.length - self.length, 0.0))
        indexes = streams.between(int(self.begin), int(self.begin + self.length) + 1)
        if len(indexes) and self.selected not in indexes:
            self.selected = int(indexes[0])
        self.refresh()

    def choose(self, span: int) -> None:
        """Choose a span, and bring it into view."""
        self.selected = min(max(span, 0), len(self.shown.streams) - 1)
        start = self._chosen_start()
        if not self.begin <= start < self.begin + self.length:
            self.move_to(start - self.length / 4)
        self.refresh()

    def next_gap(self, direction: int) -> bool:
        """Choose the next visible span that follows a gap; False without one."""
        idle = self.shown.streams.idle
        is_gap = idle >= self.length * GAP_SHARE
        ahead = is_gap[self.selected + 1 :] if direction > 0 else is_gap[: self.selected][::-1]
        if not ahead.any():
            return False
        self.choose(self.selected + direction * (int(ahead.argmax()) + 1))
        return True

    def _chosen_start(self) -> float:
        return float(self.shown.streams.start[self.selected])

    def render(self) -> Content:
        view = self.view
        lanes = self._lanes_in_view()
        lines = [Content.styled(" " * self.margin + timeline.axis(view), "$quiet")]
        for lane in lanes:
            bars = timeline.lane_bars(self.shown, lane, view, self.selected)
            parts = [(bar.text, self._style(bar)) for bar in bars]
            label = padded(self.labels[lane], self.margin)
            lines.append(Content.assemble(label, *parts))
        place = int((self._chosen_start() - view.begin) / view.length * view.columns)
        mark = "▲" if 0 <= place < view.columns else ""
        lines.append(Content(" " * (self.margin + place) + mark if mark else ""))
        described = timeline.describe(self.shown, self.selected)
        lines.append(Content.styled(cut(described, self.size.width), "bold"))
        lines += self._rows(self.size.height - len(lines) - 1)
        return Content("\n").join(lines)

    def _lanes_in_view(self) -> range:
        """As many streams as there is room for, with that of the chosen span."""
        room = max(self.size.height // 2 - FRAME_ROWS, 1)
        lane = int(self.shown.streams.lane[self.selected])
        first = min(max(lane - room // 2, 0), max(len(self.labels) - room, 0))
        return range(first, min(first + room, len(self.labels)))

    def _rows(self, room: int) -> list[Content]:
        """The spans before and after the chosen one, in the order of time."""
        if room < 2:
            return []
        count = len(self.shown.streams)
        first = min(max(self.selected - (room - 1) // 2, 0), max(count - room + 1, 0))
        indexes = range(first, min(first + room - 1, count))
        head, *rows = timeline.span_rows(self.shown, indexes, self.size.width - 2)
        lines = [Content(""), Content.styled(f"  {head.text.plain}", "bold")]
        for index, row in zip(indexes, rows, strict=True):
            is_chosen = index == self.selected
            text = f"{'▸' if is_chosen else ' '} {row.text.plain}"
            style = "bold $foreground on $cursor-line" if is_chosen else ""
            lines.append(Content.styled(padded(text, self.size.width), style))
        return lines

    def _style(self, bar: Bar) -> str:
        if bar.span is None:
            return "$quiet"
        rank = self.shown.rank(bar.span)
        colour = OTHER_COLOUR if rank is None else COLOURS[rank % len(COLOURS)]
        if bar.span == self.selected:
            colour = "$foreground"
        return f"$surface on {colour}" if bar.label else colour


class TimelineScreen(AnswersKeys, ModalScreen[str | None]):
    """When the GPU did what. Enter goes to the kernel: its id, or the hash of its variant."""

    BINDINGS: ClassVar = [
        Binding("escape,q,t,K,dollar_sign", "dismiss", "Close", show=False),
        Binding("plus,equals_sign", "zoom(0.5)", show=False),
        Binding("minus", "zoom(2.0)", show=False),
        Binding("left,h", "move(-1)", show=False),
        Binding("right,l", "move(1)", show=False),
        Binding("right_square_bracket,n,down,j", "span(1)", show=False),
        Binding("left_square_bracket,p,up,k", "span(-1)", show=False),
        Binding("g", "gap(1)", show=False),
        Binding("G", "gap(-1)", show=False),
        Binding("home", "end(-1)", show=False),
        Binding("end", "end(1)", show=False),
        Binding("enter", "kernel", show=False),
    ]
    KEYS: ClassVar = "+ − zoom · ← → move · [ ] kernel · g gap · Enter shows it · Esc closes"

    def __init__(self, recording: Recording, shown: NamedTimeline, heading: str) -> None:
        super().__init__()
        self.hashes = {(k.id, v.id): v.hash for k, v in recording.variants()}
        self.view = TimelineView(shown)
        self.view.border_title = Content(f"Timeline · {heading}")
        self.view.border_subtitle = Content(self.KEYS)

    def compose(self) -> ComposeResult:
        yield self.view

    def action_zoom(self, factor: float) -> None:
        """Show more or less time."""
        self.view.zoom(factor)

    def action_move(self, direction: int) -> None:
        """Show earlier or later time."""
        self.view.move_to(self.view.begin + direction * MOVE_SHARE * self.view.length)

    def action_span(self, direction: int) -> None:
        """Choose the next span, or the one before."""
        self.view.choose(self.view.selected + direction)

    def action_gap(self, direction: int) -> None:
        """Go to the next time in which the GPU did nothing, or the one before."""
        if not self.view.next_gap(direction):
            place = "after" if direction > 0 else "before"
            self.notify(f"No gap of {GAP_SHARE:.0%} of what is in view is {place} this.")

    def action_end(self, direction: int) -> None:
        """Go to the first span, or the last."""
        self.view.choose(0 if direction < 0 else len(self.view.shown.streams) - 1)

    def action_kernel(self) -> None:
        """Show the chosen kernel."""
        work = self.view.shown.work(self.view.selected)
        if work.kernel is None:
            self.notify("No code of this was recorded.")
        else:
            self.dismiss(self.hashes.get((work.kernel, work.variant or ""), work.kernel))
