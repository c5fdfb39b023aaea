"""The first screen: what ran, where the time goes, what to act on, and what failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.text import Text
from textual.binding import Binding

from inspector.analysis.hints.subject import Finding
from inspector.base.model import Recording
from inspector.reader.reader import Reader
from inspector.tui.keys.command_table import command, shown
from inspector.tui.main.bars import recording_name
from inspector.tui.widgets.notice import in_thread
from inspector.tui.work.timeline_key import TimelineKey

if TYPE_CHECKING:
    from inspector.estimate.launches import Launched, LaunchEstimates
    from inspector.measure.evidence import Evidence
    from inspector.render import compiles
    from inspector.render.costs import Cost, Costs
    from inspector.render.overview import OverviewLine, VariantKey

ESTIMATING_SECONDS = 20.0
"""Time that is given to estimates before hints are looked for."""


class OverviewScreen(TimelineKey[Any]):
    """Times, then the hints of the costliest kernels, are looked for in the background.

    It is left with the line that was chosen, or with the id of a command to run.
    """

    BINDINGS: ClassVar = [
        Binding("escape,tab,0", "dismiss", "Kernels", show=False),
        Binding("q,ctrl+c", "app.quit", show=False),
        Binding("dollar_sign", "leave('cost')", show=False),
        Binding("K", "leave('compiles')", show=False),
        Binding("exclamation_mark", "leave('problems')", show=False),
        Binding("slash,f", "leave('filter')", show=False),
        Binding("V", "leave('tree.variants')", show=False),
        Binding("ctrl+p", "leave('palette')", show=False),
        Binding("question_mark,f1", "leave('help')", show=False),
    ]
    KEYS: ClassVar = "$ cost · t timeline · / filter · ? help"
    CLOSES: ClassVar = "Esc kernels"

    def __init__(self, reads: Reader) -> None:
        self.reads = reads
        self.costs: Costs | None = None
        self.findings: dict[VariantKey, Sequence[Finding]] = {}
        """Hints of each variant that was looked at."""
        self.upgrade = ""
        """What a kept report of ``upgrade`` says in one line."""
        self.progress = ""
        self.loaded = False
        self._until = 0.0
        """When no more estimates are begun, in seconds of the monotonic clock."""
        super().__init__(f"Overview · {recording_name(reads.recording)}", self.overview)

    @property
    def settled(self) -> bool:
        return self.loaded and not self.progress

    def overview(self, width: int) -> Iterable[compiles.CompileLine]:
        from inspector.render import overview

        recording = self.reads.recording
        found = () if self.costs is None else overview.actions(self.costs, self.findings)
        keys = getattr(self.app, "keys", {})

        def key_of(name: str) -> str:
            return shown(command(name), keys)

        return overview.lines(
            recording, self.costs, found, self.progress, width, key_of, self.upgrade
        )

    def fill(self) -> None:
        # The modules that make the lines are imported in the background once the first frame is
        # shown: a thread that imports delays it.
        if self.loaded:
            super().fill()

    on_resize = fill

    def on_mount(self) -> None:
        def load() -> None:
            import inspector.render.overview  # noqa: F401

        def show(_: None) -> None:
            self.loaded = True
            self.wait_for("")
            in_thread(self, partial(_upgrade, self.reads.recording), self._with_upgrade, "upgrade")
            self._read_times()

        self.wait_for("◔ reading the recording")
        self.call_after_refresh(in_thread, self, load, show, "overview")

    def _with_upgrade(self, sentence: str) -> None:
        self.upgrade = sentence
        self.fill()

    def renew(self, reads: Reader) -> None:
        """Look again, where the recording has grown since all was looked for."""
        self.reads = reads
        self.heading = f"Overview · {recording_name(reads.recording)}"
        if self.settled:
            self._read_times()

    def _read_times(self) -> None:
        reads = self.reads

        def look() -> tuple[LaunchEstimates, Evidence, list[Launched]]:
            from inspector.estimate.launches import LaunchEstimates, launch_evidence

            estimates = LaunchEstimates(reads)
            evidence = launch_evidence(reads, estimates, with_window=True)
            return estimates, evidence, estimates.missing(evidence, reads.recording.variants())

        self.progress = "◔ reading times"
        self.fill()
        in_thread(self, look, self._with_times, "costs", failed=lambda _: self._finish())

    def _with_times(self, answer: tuple[LaunchEstimates, Evidence, list[Launched]]) -> None:
        self._until = monotonic() + ESTIMATING_SECONDS
        self._estimate(*answer, 0)

    def _estimate(
        self,
        estimates: LaunchEstimates,
        evidence: Evidence,
        missing: Sequence[Launched],
        done_count: int,
    ) -> None:
        """Show the costs; then simulate the launches without a time from ``done_count`` on."""
        from inspector.render.costs import costs
        from inspector.render.overview import to_look_at

        self.costs = costs(self.reads.recording, evidence)
        if done_count >= len(missing) or monotonic() > self._until:
            self._look_for_hints(to_look_at(self.costs), 0)
            return
        self.progress = f"◔ estimating times: {done_count} of {len(missing)}"
        self.fill()
        in_thread(
            self,
            partial(estimates.simulate, *missing[done_count]),
            lambda _: self._estimate(estimates, evidence, missing, done_count + 1),
            "estimate",
        )

    def _look_for_hints(self, rows: Sequence[Cost], done_count: int) -> None:
        """Look for the hints of the rows from ``done_count`` on, one after the other."""
        from inspector.render.overview import variant_key

        if done_count >= len(rows):
            self._finish()
            return
        self.progress = f"◔ looking for hints: {done_count} of {len(rows)} kernels"
        self.fill()
        variant = rows[done_count].variant
        assert variant is not None

        def found(findings: Sequence[Finding]) -> None:
            self.findings[variant_key(variant)] = findings
            self._look_for_hints(rows, done_count + 1)

        in_thread(
            self,
            partial(self.reads.facts.findings, variant),
            found,
            "hints",
            failed=lambda _: self._look_for_hints(rows, done_count + 1),
        )

    def _finish(self) -> None:
        self.progress = ""
        self.fill()

    def choose(self, row: compiles.CompileLine) -> None:
        line = cast("OverviewLine", row)
        if line.command == "timeline":
            self.action_timeline()
        elif line.command or line.kernel is not None:
            self.dismiss(line)
        elif self.progress:
            self.answer(f"{self.progress}: Enter opens a row once it is known")

    def answer_to_enter(self, row: compiles.CompileLine) -> str:
        line = cast("OverviewLine", row)
        if line.kernel is not None:
            return "Enter: its line" if line.line is not None else "Enter: its kernel"
        return "Enter opens" if line.command else ""

    def action_leave(self, name: str) -> None:
        self.dismiss(name)

    @property
    def timeline_source(self) -> tuple[Recording, None]:
        return self.reads.recording, None

    def show_kernel(self, kernel: str) -> None:
        from inspector.render.overview import OverviewLine

        self.dismiss(OverviewLine(Text(), kernel=kernel))


def _upgrade(recording: Recording) -> str:
    """What a kept report of ``upgrade`` says in one line; "" without one."""
    from inspector.render.upgrade import heading
    from inspector.tui.work.upgrade_screen import kept_report

    kept = kept_report(recording)
    if kept is None:
        return ""
    return f"Upgraded from {Path(kept.report.a).name} (Enter: the report): {heading(kept.report)}"
