"""What a recording holds at a glance: what ran, where the time goes, what to act on, what failed.

Each line leads somewhere: to a kernel, to a line of one of its stages, or to a screen that has the
whole of what the line counts.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from textwrap import wrap

from msgspec import Struct
from rich.text import Text

from inspector.analysis.hints.subject import Finding
from inspector.base.escapes import shown
from inspector.base.model import Recording, Stage, Variant
from inspector.base.units import plural, whole_percent
from inspector.render import costs
from inspector.render.compiles import CompileLine, failed_compiles, recompiles
from inspector.render.kernel_names import distinct_names
from inspector.render.tables import grid, short_title

MAX_COSTS = 5
MAX_FINDINGS = 5
MAX_LINES = 2
"""Of the sentence of a finding."""
LOOKED_AT = 10
"""Kernels whose hints are looked for: the costliest."""
IDLE_PERCENT = 50.0
"""GPU idle above which that is the first thing to act on."""
SHOWN_STAGES = (Stage.SOURCE, Stage.TTGIR, Stage.PTX, Stage.SASS)
"""Stages that a finding leads to, the first that it has lines of."""
HEAD = "bold cyan"
QUIET = "dim"
GAIN_CELLS = 11
"""Columns of what an action may gain."""
_SENTENCE_END = re.compile(r"(?<=[.:]) (?=[A-Z])")
_COLUMNS = ("kernel", "launches", "µs", "share", "")
_NUMBERS = ("launches", "µs", "share")
_SHRINK_ORDER = (("kernel", 24), ("launches", 0), ("", 0), ("kernel", 12))


class OverviewLine(CompileLine, frozen=True):
    """A line and what Enter does on it.

    ``command`` is the id of a command of the interface; else ``kernel`` is shown, at ``line`` of
    ``stage`` where there is one.
    """

    command: str = ""
    stage: Stage | None = None
    line: int | None = None

    @property
    def leads(self) -> bool:
        return bool(self.command or super().leads)


class Action(Struct, frozen=True):
    """Something to act on, in one sentence, and the kernel and line that it is about.

    ``share`` bounds what it may gain, in percent of the GPU's time or of the window; None
    where no time is known. ``estimated``: of times that were not measured.
    """

    text: str
    weight: float
    share: float | None = None
    estimated: bool = False
    subject: str = ""
    kernel: str | None = None
    stage: Stage | None = None
    line: int | None = None
    command: str = ""


def what_ran(recording: Recording, width: int) -> Iterator[OverviewLine]:
    """The program, the machine, and counts of what was compiled."""
    if not recording.command:
        yield OverviewLine(Text(_cut(shown(recording.path), width)))
    else:
        program, *arguments = recording.command
        words = (PurePath(program).name, *arguments)
        yield OverviewLine(Text(_cut(shown(" ".join(words)), width)))
    machine = [str((recording.device or {}).get("name") or "")]
    if recording.mode == "target":
        machine = [f"compiled for {shown(recording.target or 'a target')}, not run on a GPU"]
    tools = [f"{name} {recording.tools[name]}" for name in _TOOLS if name in recording.tools]
    facts = " · ".join(filter(None, [*machine, *map(shown, tools)]))
    if facts:
        yield OverviewLine(Text(_cut(facts, width)))
    yield OverviewLine(Text(_cut(" · ".join(_counts(recording)), width)), command="tree")


_TOOLS = ("torch", "triton", "nvcc", "ptxas", "driver")


def _counts(recording: Recording) -> list[str]:
    variants = recording.variants()
    launched = sum(bool(variant.launches) for _, variant in variants)
    failed = sum(variant.error is not None for _, variant in variants)
    counts = [
        plural(len(recording.graphs), "graph") if recording.graphs else "",
        plural(len(recording.kernels), "kernel"),
        plural(len(variants), "variant") + (f", {launched:,} launched" if launched else ""),
        f"{failed:,} failed" if failed else "",
    ]
    return [count for count in counts if count]


def time_lines(run_costs: costs.Costs, width: int) -> Iterator[OverviewLine]:
    """How busy the GPU was, and the costliest kernels with a bar each."""
    yield OverviewLine(Text(_cut(costs.title(run_costs), width)), command="cost")
    rows = [row for row in run_costs.rows if row.total_us][:MAX_COSTS]
    if not rows:
        return
    largest = max(row.share or 0.0 for row in rows)
    cells = [costs.cells(row, largest) for row in rows]
    table = grid(
        list(_COLUMNS),
        [[row[head] for head in _COLUMNS] for row in cells],
        width,
        _NUMBERS,
        _SHRINK_ORDER,
        {"kernel": distinct_names},
    )
    yield OverviewLine(next(table).copy())
    for text, row in zip(table, rows, strict=False):
        variant = None if row.variant is None else row.variant.hash
        yield OverviewLine(text, kernel=variant, about=costs.about(row))
    remaining = len(run_costs.rows) - len(rows)
    if remaining > 0:
        yield OverviewLine(Text(f"{plural(remaining, 'kernel')} more", QUIET), command="cost")


def action_lines(actions: Sequence[Action], width: int) -> Iterator[OverviewLine]:
    """The findings, each a sentence with what it may gain at most."""
    for action in actions:
        mark = "≈ " if action.estimated else ""
        share = "" if action.share is None else f"≤ {mark}{_bound(action.share)} %"
        text_width = max(width - GAIN_CELLS, 20)
        first, *following = wrap(action.text, text_width, max_lines=MAX_LINES, placeholder=" …")
        text = Text.assemble((f"{share:>{GAIN_CELLS - 2}}  ", "yellow"), first)
        for line in following:
            text.append(f"\n{'':{GAIN_CELLS}}{line}")
        if action.subject:
            text.append(f"\n{'':{GAIN_CELLS}}{_cut(action.subject, text_width)}", QUIET)
        yield OverviewLine(
            text,
            kernel=action.kernel,
            command=action.command,
            stage=action.stage,
            line=action.line,
            about=action.text,
        )


def _bound(percent: float) -> int:
    """A bound in whole percent: never 0 of something."""
    return 1 if 0 < percent < 1 else round(percent)


def trouble_lines(recording: Recording, width: int) -> Iterator[OverviewLine]:
    """What did not compile, was compiled again or broke a graph, in counts that open."""
    failed = len(failed_compiles(recording))
    recompile_count = len(recompiles(recording))
    breaks = sum(len(frame.breaks) for frame in recording.frame_compiles)
    problems = len(recording.problems)
    counts = (
        (failed, "compile", "failed", "compiles"),
        (breaks, "graph break", "", "compiles"),
        (recompile_count, "recompile", "", "compiles"),
        (problems, "problem", "of recording or reading", "problems"),
    )
    for count, noun, suffix, command in counts:
        if count:
            text = f"{plural(count, noun)} {suffix}".rstrip()
            yield OverviewLine(Text(_cut(text, width)), command=command)


VariantKey = tuple[str, str]
"""Hash and symbol: they stay when the recording is read again."""


def variant_key(variant: Variant) -> VariantKey:
    return variant.hash, variant.symbol


def to_look_at(run_costs: costs.Costs) -> list[costs.Cost]:
    """The rows whose hints are worth looking for."""
    return [row for row in run_costs.rows if row.variant is not None][:LOOKED_AT]


def actions(
    run_costs: costs.Costs, findings: Mapping[VariantKey, Sequence[Finding]]
) -> tuple[Action, ...]:
    """At most ``MAX_FINDINGS`` things to act on, by what they may gain.

    ``findings`` are those of variants that were looked at. A rule that speaks of most of these
    kernels is one finding of the recording.
    """
    looked_at: list[tuple[costs.Cost, Sequence[Finding]]] = []
    for row in to_look_at(run_costs):
        kernel_findings = None if row.variant is None else findings.get(variant_key(row.variant))
        if kernel_findings is not None:
            looked_at.append((row, kernel_findings))
    common = costs.common_rules(
        [{finding.rule for finding in kernel_findings} for _, kernel_findings in looked_at]
    )
    candidates: list[Action] = []
    for row, kernel_findings in looked_at:
        candidates += (
            _kernel_action(row, finding)
            for finding in kernel_findings
            if finding.rule not in common and finding.severity != "info"
        )
    candidates += (_common_action(rule, looked_at) for rule in common)
    idle = _idle(run_costs)
    if idle is not None:
        candidates.append(idle)
    weighty = [action for action in candidates if action.weight]
    ordered = sorted(weighty or candidates, key=lambda action: -action.weight)
    return tuple(ordered[:MAX_FINDINGS])


def _kernel_action(row: costs.Cost, finding: Finding) -> Action:
    assert row.variant is not None
    stage, line = _place(finding)
    place = "" if stage is None or line is None else f", {stage.value} line {line}"
    sentence = _SENTENCE_END.split(finding.text, maxsplit=1)[0].rstrip(".:")
    kernel_share = row.share or 0.0
    return Action(
        f"{sentence} ({finding.rule})",
        finding.weight * kernel_share,
        None if row.share is None else row.share * finding.bound,
        _is_estimated(row),
        f"{row.name if row.kernel is None else short_title(row.kernel)}{place}",
        row.variant.hash,
        stage,
        line,
    )


def _place(finding: Finding) -> tuple[Stage | None, int | None]:
    """The first line of the finding, in the stage nearest to the source that it has lines of."""
    for stage in SHOWN_STAGES:
        lines = finding.lines.get(stage)
        if lines:
            return stage, lines[0]
    return None, None


def _common_action(rule: str, looked_at: Sequence[tuple[costs.Cost, Sequence[Finding]]]) -> Action:
    """One finding for all kernels that a rule speaks of."""
    rows: list[costs.Cost] = []
    weight = share = 0.0
    for row, findings in looked_at:
        of_rule = [finding for finding in findings if finding.rule == rule]
        if of_rule:
            rows.append(row)
            kernel_share = row.share or 0.0
            weight += kernel_share * max(finding.weight for finding in of_rule)
            share += kernel_share * max(finding.bound for finding in of_rule)
    advice = COMMON_ADVICE.get(rule, "the same hint on each")
    return Action(
        f"{len(rows)} of the {len(looked_at)} costliest kernels: {advice} ({rule})",
        weight,
        share,
        any(_is_estimated(row) for row in rows),
        command="cost",
    )


def _is_estimated(row: costs.Cost) -> bool:
    return row.time is not None and not row.time.measured


COMMON_ADVICE = {
    "small-grid": "too few blocks to fill the GPU; fuse them, or launch them as a CUDA graph",
    "masked-lanes": "lanes that a mask turns off; choose blocks that divide the sizes",
}
"""What to do about a hint that most kernels have."""


def _idle(run_costs: costs.Costs) -> Action | None:
    """That the GPU waits for the program, where it does so most of the time."""
    window = run_costs.window
    if window is None or window.busy_percent is None:
        return None
    idle = 100 - window.busy_percent
    if idle < IDLE_PERCENT:
        return None
    share = whole_percent(idle)
    text = f"The GPU is idle {share} of the time: launch more work at once, or a CUDA graph"
    return Action(text, idle, idle, command="timeline")


def empty_lines(width: int) -> Iterator[OverviewLine]:
    """What can be asked of a cache or a file, of which no launch is known."""
    yield OverviewLine(
        Text(_cut("No launch is known: this is what compilers wrote, and not a run.", width), QUIET)
    )
    questions = (
        ("Read a kernel, from its source to SASS", "tree"),
        ("Compare the variants of a kernel in a table", "tree.variants"),
        ("Find a kernel, a line or an instruction", "palette"),
    )
    for text, command in questions:
        yield OverviewLine(Text(text), command=command)


def lines(
    recording: Recording,
    run_costs: costs.Costs | None,
    shown_actions: Sequence[Action],
    progress: str,
    width: int,
    key_of: Callable[[str], str] = lambda command: "",
    upgrade: str = "",
) -> Iterator[OverviewLine]:
    """The whole overview; ``run_costs`` is None until they are known, ``upgrade`` is the sentence
    of a report of ``upgrade`` that is kept with the recording."""
    yield from what_ran(recording, width)
    if upgrade:
        yield OverviewLine(Text(_cut(shown(upgrade), width)), command="upgrade")
    has_launches = any(variant.launches for _, variant in recording.variants())
    has_costs = run_costs is not None and bool(run_costs.rows)
    is_run = recording.mode != "files" or has_launches
    if not is_run:
        yield from _part("What you can ask", "", empty_lines(width))
    elif run_costs is None:
        yield from _part("Where the time goes", "", [OverviewLine(Text("◔ reading times", QUIET))])
    elif has_costs:
        yield from _part("Where the time goes", key_of("cost"), time_lines(run_costs, width))
    to_do = [*action_lines(shown_actions, width)]
    if progress:
        to_do.append(OverviewLine(Text(progress, QUIET)))
    elif not to_do and has_costs and is_run:
        to_do.append(OverviewLine(Text("no hint on the costliest kernels", QUIET)))
    yield from _part("What to act on", "", to_do)
    yield from _part(
        "What failed or was compiled again", key_of("compiles"), [*trouble_lines(recording, width)]
    )


def _part(
    title: str, key: str, part_lines: Sequence[OverviewLine] | Iterator[OverviewLine]
) -> Iterator[OverviewLine]:
    """A part with its title, the key that shows all of it, and an empty line before; if any."""
    rows = list(part_lines)
    if not rows:
        return
    heading = Text.assemble((title, HEAD), (f"   {key} shows all" if key else "", QUIET))
    yield OverviewLine(Text(""))
    yield OverviewLine(heading)
    yield from rows


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(width - 1, 1)]}…"
