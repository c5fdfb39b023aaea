"""The title, the card of the variant that is being read, and what an empty recording shows."""

import calendar
import re
from functools import partial

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from inspector.analysis.card import Card
from inspector.base.errors import ended_by
from inspector.base.model import LAUNCH, Failure, Recording, Resources, Variant
from inspector.base.units import plural
from inspector.measure.launch_time import TIMED
from inspector.measure.time.results import COLD
from inspector.reader.reader import Reader
from inspector.render.ranks import differences
from inspector.render.tables import (
    TRITON_OPTIONS,
    configuration,
    exceeded_resource,
    settings_in_words,
    shared,
)
from inspector.tui.keys.command_table import command, shown
from inspector.tui.program.live import Live, ProgramState, ending
from inspector.tui.widgets.notice import cut, in_thread, label, shorten
from inspector.tui.widgets.subject import (
    UNKNOWN,
    RecordingTimes,
    TreeSubject,
    age,
    figure,
    spilled,
    spills,
)
from inspector.tui.widgets.tool_screen import LineWidget, ends, link

StyledText = tuple[str, str]
"""A text and the name of its style."""

MIN_NAME_CELLS = 24
"""Cells of a kernel's name before which figures give way."""
LEAST_FIGURES = ("shared ", "sm_")
"""How the figures begin that give way to the name, in this order."""


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
        """Show known resources at once, and the rest when it is read; what was read stays."""
        if subject != self.subject:
            self.resources = self.card = self.hints = None
        self.subject = subject
        variant = subject.variant
        reads = self.reads
        self.refresh()
        if variant is None:
            return

        def show(**values: object) -> None:
            if subject == self.subject:
                self.tell(**values)

        def analyse(variant: Variant = variant) -> tuple[Card, int]:
            return reads.facts.card(variant), len(reads.facts.findings(variant))

        read = partial(reads.facts.resources, variant)
        in_thread(self, read, lambda answer: show(resources=answer), "resources")
        in_thread(self, analyse, lambda answer: show(card=answer[0], hints=answer[1]), "card")

    def _parts(self, short: bool) -> list[StyledText]:
        variant = self.subject.variant
        if variant is None:
            graph = self.subject.graph
            alone = graph is not None and self.subject.kernel is None
            return self._failure(graph.error, short) if graph is not None and alone else []
        target = (label(variant.target or UNKNOWN), "")
        parts = [target, *self._failure(variant.error, short)]
        if variant.uncompiled:
            return parts
        figures = self._figures(variant, short)
        if variant.error is not None and short:
            figures = figures[:1]
        return [*parts, *(part for part in figures if part[0])]

    def _figures(self, variant: Variant, short: bool) -> list[StyledText]:
        """Registers first, then the rest in order of importance; "" where nothing is known."""
        resources = self.resources or variant.recorded_resources
        spill_style = "bold $warning" if spilled(resources) else ""
        hints = f"◆ {plural(self.hints, 'hint')}" if self.hints else ""
        figures = [
            (f"{figure(resources.registers)} {'regs' if short else 'registers'}", "bold"),
            (f"spills {spills(resources)}", spill_style),
            (f"stack {resources.stack_bytes} B" if resources.stack_bytes else "", "bold $warning"),
            (f"shared {shared(resources)}", ""),
            (self._occupancy(short), ""),
            self._time(variant, short),
            (hints, "bold $warning"),
        ]
        if not short:
            figures.append((f"barriers {figure(resources.barriers)}", ""))
        return figures

    def _occupancy(self, short: bool) -> str:
        """Theoretical: how much of an SM's warps fit, not how many were active."""
        occupancy = None if self.card is None else self.card.occupancy
        if occupancy is None:
            return ""
        percent = f"{occupancy.percent:.0f} %"
        return f"occ {percent}" if short else f"occupancy {percent} at most"

    def _time(self, variant: Variant, short: bool) -> StyledText:
        """The time of a launch; of one that ptxview measured, under what and when."""
        time = self.times.launch(self.subject.kernel, variant)
        if time is None:
            return "", ""
        text = time.text
        measurement = self.times.latest(self.subject.kernel, variant)
        if time.source == TIMED and measurement is not None:
            cache = measurement.timing.cache
            if cache != COLD:
                text += f" {cache} L2"
            text += " measured"
            if not short:
                text += f" {age(measurement.taken)}"
        return text, "bold" if time.measured else ""

    def _failure(self, error: Failure | None, short: bool) -> list[StyledText]:
        """Why it was not compiled, loaded or launched, as much as there is room for."""
        variant = self.subject.variant
        if error is None:
            return []
        if variant is None or variant.uncompiled:
            message = label(f"✗ did not compile: {error.summary}")
            if short:
                used = min(len(self.subject.name), 30) + len(" 1a1a1a1a  sm_90a    ") + 4
                message = cut(message, max(17, self.size.width - used))
            return [(message, "bold $error")]
        why = exceeded_resource(error)
        milestone = "launched" if error.stage == LAUNCH else "loaded"
        return [(f"✗ not {milestone}: {why}" if why else f"✗ not {milestone}", "bold $error")]

    def render(self) -> Content:
        width = self.size.width - 2
        variant = self.subject.variant
        name = label(self.subject.name)
        ident = "" if variant is None else f" {variant.id}"
        for short in (False, True):
            parts = self._parts(short)
            figures = sum(len(text) + 2 for text, _ in parts)
            if figures + min(len(name), 30) + len(ident) <= width:
                break
        else:
            ident = ""
            for least in LEAST_FIGURES:
                if figures + min(len(name), MIN_NAME_CELLS) <= width:
                    break
                parts = [part for part in parts if not part[0].startswith(least)]
                figures = sum(len(text) + 2 for text, _ in parts)
        name = shorten(name, max(6, width - figures - len(ident)))
        line: list[StyledText] = [(" ", ""), (name, "bold $primary"), (ident, "dim")]
        for text, style in parts:
            line += [("  ", ""), (text, style)]
        room = width - Content(name).cell_length - len(ident) - figures
        settings = "" if variant is None else _settings(variant)
        if len(settings_in_words(settings)) + 2 <= room:
            settings = settings_in_words(settings)
        if settings and room > 12:
            line.append(("  " + cut(settings, room - 2), "dim"))
        return Content.assemble(*line)


def _settings(variant: Variant) -> str:
    """The settings of a variant, Triton's own first, without what every kernel has."""
    config = dict(variant.config)
    if config.get("num_ctas") == 1:
        del config["num_ctas"]
    names = dict.fromkeys((*TRITON_OPTIONS, *config))
    return label(configuration(config, tuple(names)))


_UNNAMED = re.compile(
    r"\d{4}(?P<month>0[1-9]|1[0-2])(?P<day>\d\d)-(?P<hour>\d\d)(?P<minute>\d\d)\d\d-"
    r"(?P<program>.+)-[0-9a-f]{4,}"
)
"""What ``run`` calls a recording that it is given no name for."""


def banner(recording: Recording) -> str:
    """What must be said on every screen of a recording that no GPU ran; else ""."""
    if recording.mode != "target":
        return ""
    return f"compiled for {label(recording.target or 'a target')}, not run on a GPU"


def recording_name(recording: Recording) -> str:
    """The last part of the path, all names, or program and time: ``train 23 Nov 06:35``."""
    if recording.machines:
        return label(" + ".join(recording.machines))
    name = recording.path.rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    if parts := _UNNAMED.fullmatch(name):
        month = calendar.month_abbr[int(parts["month"])]
        name = f"{parts['program']} {int(parts['day'])} {month} {parts['hour']}:{parts['minute']}"
    return label(name.removesuffix(".ptxview") or recording.path)


def device_name(recording: Recording) -> str:
    name = str((recording.device or {}).get("name") or "")
    targets = {v.target: None for _, v in recording.variants() if v.target}
    words = [name] if name else []
    if targets:
        words.append(", ".join(targets) if len(targets) < 3 else f"{len(targets)} targets")
    return label(" ".join(words))


def counts(recording: Recording) -> str:
    graphs = [plural(len(recording.graphs), "graph")] if recording.graphs else []
    kernels = plural(len(recording.kernels), "kernel")
    return ", ".join([kernels, plural(len(recording.variants()), "variant"), *graphs])


class TitleBar(LineWidget):
    """One line; what matters least is left out first when it gets narrow."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.program_state = ""
        self.modes: tuple[tuple[str, str], ...] = ()
        """What is on, in a word or two, each with the command that ends it."""
        self.renew(recording)

    def renew(self, recording: Recording) -> None:
        self.recording = recording
        self._differences = len(differences(recording))
        self.refresh()

    def render(self) -> Content:
        width = self.size.width - 2
        name = recording_name(self.recording)
        banner_text = banner(self.recording)
        facts = [name, banner_text or device_name(self.recording), counts(self.recording)]
        warnings = self._warnings()
        fine = len(warnings) == 1 and warnings[0].startswith("exit 0 ") and not self.modes
        for warning in (" · ".join(warnings), "!" if warnings else ""):
            right = self._right(warning, "bold" if fine else "bold $warning")
            right_width = right.cell_length + 2 if right else 0
            for shown_facts in (facts, facts[:2], [banner_text or name]):
                text = " · ".join(part for part in shown_facts if part)
                if len("ptxview  ") + len(text) + right_width <= width:
                    title = Content.assemble(" ", ("ptxview", "bold"), f"  {text}")
                    return ends(title, right, width + 1)
        if len(banner_text) > width:
            banner_text = f"{label(self.recording.target or '')}, no GPU"
        return Content.assemble(" ", (shorten(banner_text or name, width), "bold"))

    def _warnings(self) -> list[str]:
        """How the program ended, if not well; differences of ranks; problems."""
        recording = self.recording
        warnings = []
        if self.program_state:
            warnings.append(self.program_state)
        elif not recording.complete:
            warnings.append("unfinished")
        elif recording.exit_status and recording.seconds is not None:
            warnings.append(ending(recording.exit_status, recording.seconds))
        if self._differences:
            key = shown(command("compiles"), getattr(self.app, "keys", {}))
            warnings.append(f"{key} {plural(self._differences, 'difference')} of ranks")
        if recording.problems:
            warnings.append(f"! {plural(len(recording.problems), 'problem')}")
        return warnings

    def _right(self, warning: str, style: str) -> Content:
        """The modes that are on, with their keys, and the warning."""
        keys = getattr(self.app, "keys", {})
        parts = []
        for word, command_id in self.modes:
            text = f"[{f'{shorten(word, 24)} {shown(command(command_id), keys)}'.rstrip()}]"
            parts.append(link(text, style, f"screen.run({command_id!r})"))
        if warning:
            parts.append(Content.styled(warning, style))
        return Content(" ").join(parts)


COMPILED_NOTHING = (
    "The program compiled nothing for a GPU. Does it call a Triton kernel, a function of"
    " torch.compile, or an extension?"
)
NEXT = (
    ("ptxview run script.py", "run a program and record what it compiles"),
    ("ptxview open ~/.triton/cache", "read what Triton has already compiled"),
    ("ptxview doctor", "list the tools of this machine, and missing ones"),
)


def watched_text(recording: Recording, live: Live) -> Content:
    if live.running or live.state is not ProgramState.ENDED:
        return Content.assemble(
            ("No kernels here yet.  ", "bold"),
            f"Running: {label(' '.join(recording.command or ()))}\n",
            (
                "They come here as soon as the program compiles one. Its output is below; if it"
                " asks for input, it gets the whole terminal.",
                "$quiet",
            ),
        )
    status = live.status if live.status is not None else recording.exit_status
    ended = ("The program has ended.\n", "")
    if live.killed_by is not None:
        ended = f"The program was {live.state_text}.\n", "bold $warning"
    elif status:
        ended = f"The program ended with status {status}.\n", "bold $warning"
    problems = [(f"! {label(problem)}\n", "$warning") for problem in recording.problems[:3]]
    sentence = f"{COMPILED_NOTHING} ptxview doctor lists the tools of this machine."
    if recording.uncaptured:
        makers = ", ".join(dict.fromkeys(failure.compiler for failure in recording.uncaptured))
        count = plural(len(recording.uncaptured), "kernel")
        sentence = f"None was captured of {count} that it made with {label(makers)}."
    return Content.assemble(("No kernels here.  ", "bold"), ended, *problems, (sentence, "$quiet"))


def empty_text(recording: Recording) -> Content:
    warnings = [f"This recording was {condition}.\n"] if (condition := banner(recording)) else []
    looked = f"Looked at: {label(recording.path)}\n"
    if recording.command:
        looked += f"Command: {label(' '.join(recording.command))}\n"
    if recording.exit_status:
        end_cause = ended_by(recording.exit_status)
        how = f"was {end_cause}" if end_cause else f"ended with status {recording.exit_status}"
        warnings.append(f"The program {how}.\n")
    if not recording.complete:
        warnings.append("The recording is unfinished: the program was killed, or still runs.\n")
    warnings += [f"! {label(problem)}\n" for problem in recording.problems[:5]]
    first = f"• {COMPILED_NOTHING}\n" if recording.command else ""
    steps = [("• ", (words, "bold"), f"  {meaning}\n") for words, meaning in NEXT]
    return Content.assemble(
        (f"No kernels here{'' if recording.complete else ' yet'}.\n\n", "bold"),
        (looked, "$quiet"),
        ("".join(warnings), "$warning"),
        ("\nWhat to do next\n", "bold $primary"),
        first,
        *(part for step in steps for part in step),
        *(("\nq", "bold"), " leaves, ", ("?", "bold"), " shows all keys."),
    )


class EmptyState(VerticalScroll, can_focus=True):
    """A text that says what to do; few words where a program's output is to be seen."""

    def __init__(self, recording: Recording, live: Live | None = None) -> None:
        """``live`` is of a program that we started, whose output is shown."""
        self._text = Static()
        super().__init__(self._text)
        self.tell(recording, live)

    def tell(self, recording: Recording, live: Live | None) -> None:
        text = empty_text(recording) if live is None else watched_text(recording, live)
        self._text.update(text)
