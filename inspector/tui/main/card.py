"""The line beneath the title: the variant that is being read, and what it takes of the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from inspector.analyse.card import Card
from inspector.base.model import LAUNCH, Failure, Resources, Variant
from inspector.base.text import plural
from inspector.measure.time.stored import COLD
from inspector.report.failure import refused
from inspector.report.tables import shared
from inspector.report.timings import duration
from inspector.tui.tree.ordering import time_of
from inspector.tui.widgets.figures import (
    UNKNOWN,
    RecordingTimes,
    age,
    configuration,
    figure,
    spilled,
    spills,
)
from inspector.tui.widgets.lines import LineWidget
from inspector.tui.widgets.notice import Notice, in_thread
from inspector.tui.widgets.subject import TreeSubject, told_alike
from inspector.tui.widgets.visible import cut, label, shorten

if TYPE_CHECKING:
    from inspector.reader.reader import Reader

_TOLD = ("num_warps", "num_stages", "num_ctas", "maxnreg")


class VariantCard(LineWidget):
    """``square_kernel 3f2a91c0  sm_90a  22 registers  spills 0  shared 0  num_warps 4``."""

    def __init__(self, reads: Reader, times: RecordingTimes) -> None:
        super().__init__()
        self.reads = reads
        self.times = times
        self.subject = TreeSubject()
        self.resources: Resources | None = None
        self.card: Card | None = None
        self.hints: int | None = None

    def show(self, subject: TreeSubject) -> None:
        """Show known resources at once, and the rest when it is read."""
        self.subject, self.resources = subject, None
        self.card, self.hints = None, None
        self.refresh()
        if subject.variant is not None:
            self._read(subject, subject.variant)

    def renew(self, reads: Reader, before: TreeSubject, now: TreeSubject) -> None:
        """Follow a growing recording: ``before`` is ``now``; figures stay until read again."""
        self.reads = reads
        if now.variant is None or before.variant is None or before.key[0] != now.key[0]:
            if now != before:
                self.show(now)
            return
        self.subject = now
        self.refresh()
        # Of one whose id has grown the answer that a thread is about to give is nobody's.
        if now != before or not told_alike(before.variant, now.variant):
            self._read(now, now.variant)

    def _read(self, subject: TreeSubject, variant: Variant) -> None:
        def resources(found: Resources | Notice) -> None:
            if subject == self.subject:
                self.resources = found if isinstance(found, Resources) else None
                self.refresh()

        def analysed(found: tuple[Card, int] | Notice) -> None:
            if subject == self.subject:
                self.card, self.hints = (None, None) if isinstance(found, Notice) else found
                self.refresh()

        reads = self.reads
        in_thread(self, lambda: reads.resources(variant), resources, "resources")
        in_thread(
            self, lambda: (reads.card(variant), len(reads.findings(variant))), analysed, "card"
        )

    def _parts(self, short: bool) -> list[tuple[str, str]]:
        variant, graph = self.subject.variant, self.subject.graph
        if variant is None:
            alone = graph is not None and self.subject.kernel is None
            return self._uncompiled(graph.error, short) if graph is not None and alone else []
        if variant.uncompiled:
            target = (label(variant.target or UNKNOWN), "")
            return [target, *self._uncompiled(variant.error, short)]
        resources = self.resources or variant.known
        warned = "bold $warning" if spilled(resources) else ""
        parts = [
            (label(variant.target or UNKNOWN), ""),
            *self._refused(variant.error),
            (f"{figure(resources.registers)} {'regs' if short else 'registers'}", "bold"),
        ]
        if variant.error is not None and short:
            return parts
        parts.append((f"spills {spills(resources)}", warned))
        parts.append((f"shared {shared(resources)}", ""))
        full = None if self.card is None else self.card.occupancy
        if full is not None:
            # Theoretical: how much of an SM's warps fit, not how many were active.
            percent = f"{full.percent:.0f} %"
            parts.append((f"occ {percent}" if short else f"occupancy {percent} at most", ""))
        taken = self.times.latest(self.subject.kernel, variant)
        if taken is not None:
            us = f"{duration(taken.us)} µs"
            if taken.timing.cache != COLD:
                us += f" {taken.timing.cache} L2"
            parts.append((f"{us} measured" + ("" if short else f" {age(taken)}"), "bold"))
        elif (tuned := time_of(variant)) is not None:
            parts.append((f"{duration(tuned)} µs by the tuner", ""))
        if self.hints:
            parts.append((f"◆ {plural(self.hints, 'hint')}", "bold $warning"))
        if not short:
            parts.append((f"stack {figure(resources.stack_bytes)}", ""))
            parts.append((f"barriers {figure(resources.barriers)}", ""))
        return parts

    def _refused(self, error: Failure | None) -> list[tuple[str, str]]:
        """What the device has too little of, where it was compiled and could not be loaded or
        launched."""
        if error is None:
            return []
        why, done = refused(error), "launched" if error.stage == LAUNCH else "loaded"
        return [(f"✗ not {done}: {why}" if why else f"✗ not {done}", "bold $error")]

    def _uncompiled(self, error: Failure | None, short: bool) -> list[tuple[str, str]]:
        """Why there are no figures, as much of it as there is room for."""
        if error is None:
            return []
        said = label(f"✗ did not compile: {error.said}")
        taken = min(len(self.subject.name), 30) + len(" 1a1a1a1a  sm_90a    ") + 4
        return [(cut(said, max(17, self.size.width - taken)) if short else said, "bold $error")]

    def _more(self) -> str:
        """The configuration, what Triton decides first."""
        variant = self.subject.variant
        if variant is None:
            return ""
        own = tuple(key for key in _TOLD if key in variant.config)
        others = tuple(key for key in variant.config if key not in own)
        if variant.config.get("num_ctas") == 1:  # as good as always
            own = tuple(key for key in own if key != "num_ctas")
        return label(configuration(variant.config, own + others))

    def render(self) -> Content:
        """Figures always; the name gets the room that is left, then the configuration."""
        width = self.size.width - 2
        name = label(self.subject.name)
        ident = f" {self.subject.variant.id}" if self.subject.variant else ""
        for short in (False, True):
            parts = self._parts(short)
            figures = sum(len(text) + 2 for text, _ in parts)
            if figures + min(len(name), 30) + len(ident) <= width:
                break
        else:
            ident = ""
        name = shorten(name, max(6, width - figures - len(ident)))
        used = Content(name).cell_length + len(ident) + figures
        line: list[tuple[str, str]] = [(" ", ""), (name, "bold $primary"), (ident, "dim")]
        for text, style in parts:
            line += [("  ", ""), (text, style)]
        more = self._more()
        if more and width - used > 12:
            line.append(("  " + cut(more, width - used - 2), "dim"))
        return Content.assemble(*line)
