"""Bounded summaries of a kernel, a list or a comparison, each with follow-up commands.

Each is a JSON value of at most ``MAX_BYTES`` bytes: texts are cut and lists keep their first
members; ``left_out`` counts the others.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from sys import maxsize
from typing import Any

from inspector.analysis.hints.subject import Finding
from inspector.base.escapes import shown
from inspector.base.model import Graph, Kernel, Resources, Stage, Variant
from inspector.base.names import base_name
from inspector.diff.beside import loud
from inspector.diff.compare import Compared
from inspector.diff.matching import Op
from inspector.diff.recordings import ChangeKind
from inspector.diff.summary import VariantSide
from inspector.render import diff_rows, jsons
from inspector.render.diff_rows import FilesDiff, RecordingsDiff, VariantTable
from inspector.render.json_rows import StagesHintRow, stages_hint_row
from inspector.render.tables import UNKNOWN, grid
from inspector.render.variant_figures import VariantFigures

MAX_BYTES = 8000
BOUNDS = ((600, 20), (400, 12), (250, 8), (160, 5), (100, 3), (60, 2))
"""Characters of a text and members of a list that are kept; the first pair that fits is taken."""
MAX_FIGURES = 30
"""Members of a mapping that are kept: our own have fewer."""
MAX_PATH_CHARS = 200
"""Characters of a path in a command; a longer one is written as PATH."""
UNCUT = frozenset(("command", "schema"))
CONTEXT_LINES = 8
MAX_CELL = 40
"""Characters of a cell in a table of a summary."""
MAX_SPAN_LINES = 60
MAX_HINT_LINES = 8
SHOWN_STAGES = (Stage.SOURCE, Stage.TTGIR, Stage.PTX, Stage.SASS)
"""Stages that a summary suggests beside its own."""
PLACES = {
    "samples": "where most samples are",
    "loop": "the innermost loop",
    "registers": "where most registers are live",
}
Value = dict[str, Any]
Side = tuple[str, str]
"""A path, and the name that a command calls one of its variants by; "" for all of them."""


def command_text(path: str, *words: str) -> str:
    """A command on a path, as one types it; the first word is the command."""
    first, *arguments = words
    return " ".join(
        ("ptxview", first, *(shlex.quote(w) for w in (_path(path), *map(shown, arguments))))
    )


def _path(path: str) -> str:
    return "PATH" if len(ascii(path)) > MAX_PATH_CHARS else shown(path)


FollowUps = list[tuple[str, str]]
"""Commands, and what each answers."""


def _follow_up_json(questions: FollowUps) -> list[Value]:
    return [{"command": command, "answers": answers} for command, answers in questions]


def bounded_summary(value: Mapping[str, object], max_bytes: int = MAX_BYTES) -> Value:
    """Return a value in at most ``max_bytes`` of JSON, with counts of omitted members."""
    answer: Value = {}
    for chars, members in BOUNDS:
        cut = {name: _cut(member, chars, members, name) for name, member in value.items()}
        left_out = {
            name: len(original) - len(cut[name])
            for name, original in value.items()
            if isinstance(original, list) and len(original) > len(cut[name])
        }
        answer = {**cut, "left_out": left_out}
        if len(jsons.dumps(answer)) <= max_bytes:
            break
    return answer


def _cut(value: object, chars: int, members: int, name: str = "") -> Any:
    if name in UNCUT:
        return value
    if isinstance(value, str):
        return _shortened(value, chars)
    if isinstance(value, list | tuple):
        return [_cut(member, chars, members) for member in value[:members]]
    if isinstance(value, Mapping):
        items = list(value.items())[: max(members, MAX_FIGURES) if name != "config" else members]
        return {str(_cut(k, chars, 1)): _cut(member, chars, members, str(k)) for k, member in items}
    return value


def _shortened(text: str, max_bytes: int) -> str:
    """A text of at most ``max_bytes`` of JSON: a character outside ASCII takes six or twelve."""
    if (size := len(jsons.dumps(text))) <= max_bytes:
        return text
    prefix = text[: max_bytes * len(text) // size]
    while prefix and len(jsons.dumps(prefix)) > max_bytes - 6:
        prefix = prefix[: len(prefix) * 9 // 10]
    return f"{prefix}…"


def value_text(value: object) -> str:
    """Return a value as text; a dash if unknown."""
    if value is None:
        return UNKNOWN
    if isinstance(value, Mapping):
        return " ".join(f"{name}={value_text(member)}" for name, member in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ",".join(map(value_text, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else shown(str(value))


def table(rows: Sequence[Mapping[str, object]]) -> list[str]:
    if not rows:
        return []
    cells = []
    for row in rows:
        short = {"kernel": base_name(str(row["kernel"]))} if "kernel" in row else {}
        cells.append([value_text(value) for value in {**row, **short}.values()])
    return [line.plain for line in grid(list(rows[0]), cells, maxsize)]


def lines(summary: Value) -> Iterator[str]:
    """Yield a summary as text: a line for each member, lists of short rows as tables."""
    for name, value in summary.items():
        if isinstance(value, Mapping):
            yield f"{name}:"
            yield from (f"  {key:<14}{value_text(member)}" for key, member in value.items())
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            yield f"{name}:"
            yield from (f"  {row}" for row in _row_texts(name, value))
        elif name != "schema":
            yield f"{name:<18}{value_text(value)}"


def _row_texts(name: str, rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Rows as text: follow-up commands, a table of short cells, or members by their names."""
    if name == "next":
        return [f"{row['command']}  # {row['answers']}" for row in rows]
    cells = chain.from_iterable(row.values() for row in rows)
    are_short = all(len(value_text(cell)) <= MAX_CELL for cell in cells)
    if are_short and len({tuple(row) for row in rows}) == 1:
        return table(rows)
    return ["; ".join(f"{key}: {value_text(cell)}" for key, cell in row.items()) for row in rows]


def kernel_summary(
    side: Side,
    kernel: Kernel,
    variant: Variant,
    stage: Stage,
    figures: VariantFigures,
    stages: Sequence[Value],
    findings: Sequence[Finding],
    hottest: Sequence[Value],
) -> Value:
    hints: list[StagesHintRow] = []
    for finding in findings:
        lines = {s: list(numbers[:MAX_HINT_LINES]) for s, numbers in finding.lines.items()}
        hints.append(stages_hint_row(finding.note, lines))
    follow_ups: FollowUps = [_hot_lines(side, stage, place) for place in hottest[:2]]
    follow_ups += _first_hint(side, findings)
    for stage_row in stages:
        is_own = stage_row["stage"] == stage.value
        if (not hottest) if is_own else Stage(stage_row["stage"]) in SHOWN_STAGES:
            last = min(stage_row["last"] or 0, (stage_row["first"] or 0) + MAX_SPAN_LINES)
            command = _show_command(side, stage_row["stage"], stage_row["first"], last)
            follow_ups.append((command, f"its {stage_row['stage']}"))
    if len(kernel.variants) > 1:
        command = command_text(side[0], "diff", kernel.name, "--variants", "--brief")
        follow_ups.append((command, "its variants beside one another"))
    return bounded_summary(
        {
            "schema": jsons.SCHEMA,
            "path": side[0],
            "kernel": kernel.name,
            "variant": variant.id,
            "origin": kernel.origin.value,
            "stage": stage.value,
            "figures": jsons.pick_fields(figures),
            "stages": list(stages),
            "missing": {
                s: reason for s, reason in variant.missing.items() if s not in variant.stages
            },
            "hints": jsons.to_builtins(hints),
            "hottest": list(hottest),
            "next": _follow_up_json(follow_ups),
        }
    )


def _show_command(side: Side, stage: str, first: int | None, last: int, *options: str) -> str:
    """``ptxview show`` of some lines of a stage; of all where the first is unknown."""
    path, name = side
    lines = () if first is None else ("--lines", f"{max(first, 1)}:{last}")
    return command_text(path, "show", name, "--stage", stage, *lines, *options)


def _hot_lines(side: Side, stage: Stage, place: Value) -> tuple[str, str]:
    """The annotated listing of one of the hottest places."""
    context = 0 if place["last"] > place["first"] else CONTEXT_LINES
    last = min(place["last"], place["first"] + MAX_SPAN_LINES) + context
    command = _show_command(side, stage.value, place["first"] - context, last, "-a")
    return command, PLACES[place["by"]]


def _first_hint(side: Side, findings: Iterable[Finding]) -> FollowUps:
    """The annotated listing of the first line that a hint was seen on."""
    for finding in findings:
        for stage, numbers in finding.lines.items():
            if numbers:
                first = numbers[0] - CONTEXT_LINES
                last = numbers[0] + CONTEXT_LINES
                command = _show_command(side, stage.value, first, last, "-a")
                return [(command, f"where {shown(finding.rule)} was seen")]
    return []


def graph_summary(path: str, graph: Graph, sizes: Mapping[Stage, int]) -> Value:
    lines = sizes.get(Stage.OUTPUT_CODE, max(sizes.values(), default=0))
    question = (
        "which operators of which modules each call has"
        if graph.error is None
        else "why it did not compile, and what there is of it"
    )
    return bounded_summary(
        {
            "schema": jsons.SCHEMA,
            "path": path,
            "graph": graph.id,
            "kernels": list(graph.kernels),
            "stages": [
                {"stage": stage.value, "lines": line_count, "first": None, "last": None}
                for stage, line_count in sizes.items()
            ],
            "next": _follow_up_json(
                [
                    (command_text(path, "show", graph.id), question),
                    (
                        command_text(path, "show", graph.id, "--lines", f"1:{min(lines, 100)}"),
                        "its text",
                    ),
                    *(
                        (command_text(path, "show", name, "--brief"), "a kernel of it in short")
                        for name in graph.kernels[:2]
                    ),
                ]
            ),
        }
    )


def list_summary(
    path: str, recording: Mapping[str, object], rows: Sequence[Value], name: Callable[[int], str]
) -> Value:
    """A list: variants that spill first, then those with the most hints.

    ``recording`` describes it; ``name(n)`` is what a command calls the variant of row n.
    """

    def order(place: int) -> tuple[int, int, int]:
        return -(rows[place]["spills"] or 0), -(rows[place]["hints"] or 0), place

    places = sorted(range(len(rows)), key=order)
    follow_ups: FollowUps = []
    if places:
        command = command_text(path, "show", name(places[0]), "--brief")
        follow_ups.append((command, "one of them in short"))
    failed = [place for place in places if rows[place].get("failed")]
    if failed:
        command = command_text(path, "show", name(failed[0]))
        follow_ups.append((command, "one that failed: why, with its lines"))
    for kernel, count in Counter(row["kernel"] for row in rows).most_common(1):
        if count > 1:
            command = command_text(path, "diff", base_name(kernel), "--variants", "--brief")
            follow_ups.append((command, "the variants of one beside one another"))
    follow_ups.append((command_text(path, "list"), "all of them"))
    return bounded_summary(
        {
            "schema": jsons.SCHEMA,
            "recording": dict(recording),
            "variants": [rows[place] for place in places],
            "next": _follow_up_json(follow_ups),
        }
    )


def _diff_command(a: Side, b: Side, *options: str) -> str:
    words = (f"{_path(path)}::{shown(name)}" if name else _path(path) for path, name in (a, b))
    return " ".join(("ptxview diff", *map(shlex.quote, words), *options))


def comparison_summary(comparison: Compared, a: Side, b: Side) -> Value:
    hunks = [h for h in loud(comparison.diff.hunks) if h.op is not Op.EQUAL]
    stage = comparison.stage.value
    summary = comparison.summary
    follow_ups = []
    if hunks:
        first, last = hunks[0].b
        start = first if last > first else hunks[0].a[0]
        lines = f"{max(start - CONTEXT_LINES, 1)}:{start + 4 * CONTEXT_LINES}"
        command = _diff_command(a, b, "--stage", stage, "--lines", lines)
        follow_ups.append((command, "where they begin to differ"))
    for (path, name), mark in ((a, "a"), (b, "b")):
        follow_ups.append((command_text(path, "show", name, "--brief"), f"{mark} in short"))
    counts = Counter(hunk.op for hunk in hunks)
    return bounded_summary(
        {
            "schema": jsons.SCHEMA,
            "a": _side_json(comparison.a, a[0]),
            "b": _side_json(comparison.b, b[0]),
            "stage": stage,
            "identical": comparison.diff.identical,
            "first_difference": None if summary.first is None else summary.first.value,
            "resources": jsons.to_builtins(
                diff_rows.change_rows(c for c in summary.resources if c.differs)
            ),
            "config": jsons.to_builtins(diff_rows.change_rows(summary.config)),
            "gained": jsons.to_builtins(diff_rows.hint_rows(summary.gained)),
            "lost": jsons.to_builtins(diff_rows.hint_rows(summary.lost)),
            "explanation": list(comparison.explanation),
            "hunks": {op.value: counts[op] for op in Op if op is not Op.EQUAL},
            "next": _follow_up_json(follow_ups),
        }
    )


def _side_json(side: VariantSide, path: str) -> Value:
    return jsons.pick_fields(diff_rows.diff_side(side, path), "path kernel variant target")


def recordings_summary(document: RecordingsDiff) -> Value:
    """Two recordings: the pairs that are not the same."""
    changed = [pair for pair in document.pairs if pair.state is not ChangeKind.SAME]
    a = document.a.path
    b = document.b.path
    follow_ups: FollowUps = []
    for pair in changed:
        if pair.a and pair.b:
            command = _diff_command((a, pair.a), (b, pair.b), "--brief")
            follow_ups.append((command, "the first that changed"))
            break
    follow_ups.append(_whole_comparison(a, b))
    return bounded_summary(
        {
            **jsons.pick_fields(document, "schema a b identical counts"),
            "pairs": jsons.to_builtins(changed),
            "next": _follow_up_json(follow_ups),
        }
    )


def files_summary(document: FilesDiff) -> Value:
    """Two files: the functions that are not identical."""
    changed = [function for function in document.functions if not function.identical]
    follow_ups = [_whole_comparison(document.a.path, document.b.path)]
    return bounded_summary(
        {
            **jsons.pick_fields(document, "schema a b stage identical"),
            "functions": jsons.to_builtins(changed),
            "next": _follow_up_json(follow_ups),
        }
    )


def _whole_comparison(a: str, b: str) -> tuple[str, str]:
    """A command that compares two paths, and what it answers."""
    return _diff_command((a, ""), (b, ""), "--summary"), "all of them, as a table"


VARIANT_COLUMNS = "kernel variant config winner time_us time_by occupancy_percent instructions"
VARIANT_RESOURCES = "registers spill_store_bytes spill_load_bytes"


def variant_table(table: VariantTable, path: str) -> Value:
    rows: list[Value] = []
    for variant in table.variants:
        row = jsons.pick_fields(variant, VARIANT_COLUMNS)
        resources = variant.resources or Resources()
        rows.append(row | jsons.pick_fields(resources, VARIANT_RESOURCES))
    rows.sort(key=lambda row: (row["time_us"] is None, row["time_us"] or 0))
    names = [str(row["variant"]) for row in rows if row["variant"] is not None]
    follow_ups: FollowUps = []
    if names:
        command = command_text(path, "show", names[0], "--brief")
        follow_ups.append((command, "one of them in short"))
    if len(names) > 1:
        command = _diff_command((path, names[0]), (path, names[1]), "--brief")
        follow_ups.append((command, "what the first two differ in"))
    return bounded_summary(
        {"schema": jsons.SCHEMA, "variants": rows, "next": _follow_up_json(follow_ups)}
    )
