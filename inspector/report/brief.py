"""Bounded summaries of a kernel, a list or a comparison, each with follow-up commands.

Each is a JSON value of at most ``MAX_BYTES`` bytes: texts are cut and lists keep their first
members; ``left_out`` counts the others.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from sys import maxsize
from typing import Any

from inspector.analyse.card import Card
from inspector.analyse.hints.subject import Finding
from inspector.base.model import Graph, Kernel, Resources, Stage, Variant
from inspector.base.text import base_name, shown
from inspector.diff.beside import loud
from inspector.diff.compare import Compared
from inspector.diff.matching import Op
from inspector.diff.recordings import ChangeKind
from inspector.measure.launch_time import LaunchTime
from inspector.report import diff_text, jsons
from inspector.report.tables import UNKNOWN, grid

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


def ask(path: str, *words: str) -> str:
    """A command on a path, as one types it; the first word is the command."""
    first, *rest = words
    return " ".join(("ptxview", first, *(shlex.quote(w) for w in (_path(path), *map(shown, rest)))))


def _path(path: str) -> str:
    return "PATH" if len(ascii(path)) > MAX_PATH_CHARS else shown(path)


Questions = list[tuple[str, str]]
"""Commands, and what each answers."""


def _next(questions: Questions) -> list[Value]:
    return [{"command": command, "answers": answers} for command, answers in questions]


def bounded(value: Mapping[str, object], max_bytes: int = MAX_BYTES) -> Value:
    """Return a value in at most ``max_bytes`` of JSON, with counts of omitted members."""
    answer: Value = {}
    for chars, members in BOUNDS:
        cut = {name: _cut(each, chars, members, name) for name, each in value.items()}
        left_out = {
            name: len(before) - len(cut[name])
            for name, before in value.items()
            if isinstance(before, list) and len(before) > len(cut[name])
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
        return [_cut(each, chars, members) for each in value[:members]]
    if isinstance(value, Mapping):
        kept = list(value.items())[: max(members, MAX_FIGURES) if name != "config" else members]
        return {str(_cut(k, chars, 1)): _cut(each, chars, members, str(k)) for k, each in kept}
    return value


def _shortened(text: str, most: int) -> str:
    """A text of at most ``most`` bytes of JSON: a character outside ASCII takes six or twelve."""
    if (size := len(jsons.dumps(text))) <= most:
        return text
    kept = text[: most * len(text) // size]
    while kept and len(jsons.dumps(kept)) > most - 6:
        kept = kept[: len(kept) * 9 // 10]
    return f"{kept}…"


def glance(variant: Variant, res: Resources, hints: int | None, time: LaunchTime | None) -> Value:
    """The figures of a variant that need no analysis."""
    return {
        "target": variant.target,
        "registers": res.registers,
        "spills": _sum(res.spill_store_bytes, res.spill_load_bytes),
        "shared": _sum(res.static_shared_bytes, res.dynamic_shared_bytes),
        "hints": hints,
        "time": None if time is None else time.us,
        "time_from": None if time is None else time.source,
    }


def figures(
    variant: Variant, first: Value, res: Resources, card: Card, findings: Sequence[Finding]
) -> Value:
    """All figures of a variant; ``first`` are those of ``glance``."""
    occupancy, machine = card.occupancy, card.stage_content(Stage.SASS)
    return {
        "target": first["target"],
        "config": {k: v for k, v in variant.config.items() if k != "flags"},
        "launches": variant.launches,
        "registers": first["registers"],
        "spills": first["spills"],
        "stack": res.stack_bytes,
        "shared": first["shared"],
        "barriers": res.barriers,
        "threads": card.threads,
        "occupancy": None if occupancy is None else occupancy.percent,
        "limiters": None if occupancy is None else list(occupancy.limiters),
        "instructions": machine.mix.total if machine and machine.mix else None,
        "hints": first["hints"],
        "rules": [finding.rule for finding in findings],
        "time": first["time"],
        "time_from": first["time_from"],
        **({} if variant.error is None else {"failed": variant.failed}),
    }


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def word(value: object) -> str:
    """Return a value as text; a dash if unknown."""
    if value is None:
        return UNKNOWN
    if isinstance(value, Mapping):
        return " ".join(f"{name}={word(each)}" for name, each in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ",".join(map(word, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else shown(str(value))


def table(rows: Sequence[Mapping[str, object]]) -> list[str]:
    if not rows:
        return []
    cells = []
    for row in rows:
        short = {"kernel": base_name(str(row["kernel"]))} if "kernel" in row else {}
        cells.append([word(value) for value in {**row, **short}.values()])
    return [line.plain for line in grid(list(rows[0]), cells, maxsize)]


def lines(summary: Value) -> Iterator[str]:
    """Yield a summary as text: a line for each member, lists of short rows as tables."""
    for name, value in summary.items():
        if isinstance(value, Mapping):
            yield f"{name}:"
            yield from (f"  {key:<14}{word(each)}" for key, each in value.items())
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            yield f"{name}:"
            short = all(len(word(each)) <= MAX_CELL for row in value for each in row.values())
            rows = [f"{'; '.join(f'{k}: {word(v)}' for k, v in row.items())}" for row in value]
            if name == "next":
                rows = [f"{one['command']}  # {one['answers']}" for one in value]
            elif short and len({tuple(row) for row in value}) == 1:
                rows = table(value)
            yield from (f"  {row}" for row in rows)
        elif name != "schema":
            yield f"{name:<18}{word(value)}"


def kernel(
    side: Side,
    kernel: Kernel,
    variant: Variant,
    stage: Stage,
    figures: Value,
    stages: Sequence[Value],
    findings: Sequence[Finding],
    hottest: Sequence[Value],
) -> Value:
    hints: list[Value] = []
    for finding in findings:
        own = {s.value: list(lines[:MAX_HINT_LINES]) for s, lines in finding.lines.items()}
        hints.append({**jsons.note(finding.note), "lines": own})
    questions: Questions = []

    def show(stage: str, first: int | None, last: int, *more: str) -> str:
        lines = () if first is None else ("--lines", f"{max(first, 1)}:{last}")
        return ask(side[0], "show", side[1], "--stage", stage, *lines, *more)

    for place in hottest[:2]:
        around = 0 if place["last"] > place["first"] else CONTEXT_LINES
        last = min(place["last"], place["first"] + MAX_SPAN_LINES) + around
        command = show(stage.value, place["first"] - around, last, "-a")
        questions.append((command, PLACES[place["by"]]))
    for finding in findings:
        at = next(((s, n) for s, n in finding.lines.items() if n), None)
        if at is not None:
            of, (line, *_) = at
            command = show(of.value, line - CONTEXT_LINES, line + CONTEXT_LINES, "-a")
            questions.append((command, f"where {shown(finding.rule)} was seen"))
            break
    for one in stages:
        if not hottest if one["stage"] == stage.value else Stage(one["stage"]) in SHOWN_STAGES:
            last = min(one["last"] or 0, (one["first"] or 0) + MAX_SPAN_LINES)
            questions.append((show(one["stage"], one["first"], last), f"its {one['stage']}"))
    if len(kernel.variants) > 1:
        command = ask(side[0], "diff", kernel.name, "--variants", "--brief")
        questions.append((command, "its variants beside one another"))
    return bounded(
        {
            "schema": jsons.SCHEMA,
            "path": side[0],
            "kernel": kernel.name,
            "variant": variant.id,
            "origin": kernel.origin.value,
            "stage": stage.value,
            "figures": figures,
            "stages": list(stages),
            "missing": {s: why for s, why in variant.missing.items() if s not in variant.stages},
            "hints": hints,
            "hottest": list(hottest),
            "next": _next(questions),
        }
    )


def graph(path: str, one: Graph, sizes: Mapping[Stage, int]) -> Value:
    lines = sizes.get(Stage.OUTPUT_CODE, max(sizes.values(), default=0))
    about = (
        "which operators of which modules each call has"
        if one.error is None
        else "why it did not compile, and what there is of it"
    )
    return bounded(
        {
            "schema": jsons.SCHEMA,
            "path": path,
            "graph": one.id,
            "kernels": list(one.kernels),
            "stages": [
                {"stage": stage.value, "lines": many, "first": None, "last": None}
                for stage, many in sizes.items()
            ],
            "next": _next(
                [
                    (ask(path, "show", one.id), about),
                    (ask(path, "show", one.id, "--lines", f"1:{min(lines, 100)}"), "its text"),
                    *(
                        (ask(path, "show", name, "--brief"), "a kernel of it in short")
                        for name in one.kernels[:2]
                    ),
                ]
            ),
        }
    )


def listed(
    path: str, about: Mapping[str, object], rows: Sequence[Value], name: Callable[[int], str]
) -> Value:
    """A list: variants that spill first, then those with the most hints.

    ``about`` describes the recording; ``name(n)`` is what a command calls the variant of row n.
    """
    places = sorted(
        range(len(rows)), key=lambda n: (-(rows[n]["spills"] or 0), -(rows[n]["hints"] or 0), n)
    )
    failed = [n for n in places if rows[n].get("failed")]
    several = [k for k, n in Counter(row["kernel"] for row in rows).most_common(1) if n > 1]
    short, why = "one of them in short", "one that failed: why, with its lines"
    questions = [(ask(path, "show", name(n), "--brief"), short) for n in places[:1]]
    questions += [(ask(path, "show", name(n)), why) for n in failed[:1]]
    for kernel in several:
        command = ask(path, "diff", base_name(kernel), "--variants", "--brief")
        questions.append((command, "the variants of one beside one another"))
    questions.append((ask(path, "list"), "all of them"))
    return bounded(
        {
            "schema": jsons.SCHEMA,
            "recording": dict(about),
            "variants": [rows[n] for n in places],
            "next": _next(questions),
        }
    )


def _two(a: Side, b: Side, *options: str) -> str:
    words = (f"{_path(path)}::{shown(name)}" if name else _path(path) for path, name in (a, b))
    return " ".join(("ptxview diff", *map(shlex.quote, words), *options))


def compared(one: Compared, a: Side, b: Side) -> Value:
    hunks = [h for h in loud(one.diff.hunks) if h.op is not Op.EQUAL]
    stage = one.stage.value
    questions = []
    if hunks:
        start = hunks[0].b[0] if hunks[0].b[1] > hunks[0].b[0] else hunks[0].a[0]
        lines = f"{max(start - CONTEXT_LINES, 1)}:{start + 4 * CONTEXT_LINES}"
        command = _two(a, b, "--stage", stage, "--lines", lines)
        questions.append((command, "where they begin to differ"))
    for (path, name), mark in ((a, "a"), (b, "b")):
        questions.append((ask(path, "show", name, "--brief"), f"{mark} in short"))
    sides = {
        mark: {
            "path": path,
            "kernel": it.kernel.name,
            "variant": it.variant.id,
            "target": it.variant.target,
        }
        for mark, it, (path, _) in (("a", one.a, a), ("b", one.b, b))
    }
    return bounded(
        {
            "schema": jsons.SCHEMA,
            **sides,
            "stage": stage,
            "identical": one.diff.identical,
            "first_difference": None if one.summary.first is None else one.summary.first.value,
            "resources": diff_text.changes_json(c for c in one.summary.resources if c.differs),
            "config": diff_text.changes_json(one.summary.config),
            "gained": [diff_text.hint_json(f) for f in one.summary.gained],
            "lost": [diff_text.hint_json(f) for f in one.summary.lost],
            "explanation": list(one.explanation),
            "hunks": {op.value: sum(h.op is op for h in hunks) for op in Op if op is not Op.EQUAL},
            "next": _next(questions),
        }
    )


def many_compared(value: Value, members: str, a: str, b: str) -> Value:
    """Two recordings or files, of the JSON of ``diff``: what is not the same.

    ``members`` is ``pairs`` or ``functions``; ``a`` and ``b`` are paths.
    """
    changed = [
        {**one, "resources": [c for c in one["resources"] if c["a"] != c["b"]]}
        for one in value[members]
        if one.get("state") != ChangeKind.SAME.value and one.get("identical") is not True
    ]
    questions = []
    both = next((one for one in changed if one["a"] and one["b"]), None)
    if members == "pairs" and both is not None:
        command = _two((a, str(both["a"])), (b, str(both["b"])), "--brief")
        questions.append((command, "the first that changed"))
    questions.append((_two((a, ""), (b, ""), "--summary"), "all of them, as a table"))
    kept = ("schema", "a", "b", "stage", "identical", "counts")
    return bounded(
        {
            **{name: value[name] for name in kept if name in value},
            members: changed,
            "next": _next(questions),
        }
    )


VARIANT_COLUMNS = (
    *("kernel", "variant", "config", "winner"),
    *("time_us", "time_by", "occupancy_percent", "instructions"),
)


def tabled(value: Value, path: str) -> Value:
    taken = ("registers", "spill_store_bytes", "spill_load_bytes")
    rows: list[Value] = [
        {name: one[name] for name in VARIANT_COLUMNS}
        | {name: (one["resources"] or {}).get(name) for name in taken}
        for one in value["variants"]
    ]
    rows.sort(key=lambda row: (row["time_us"] is None, row["time_us"] or 0))
    names = [str(row["variant"]) for row in rows if row["variant"] is not None]
    questions = [(ask(path, "show", name, "--brief"), "one of them in short") for name in names[:1]]
    if len(names) > 1:
        command = _two((path, names[0]), (path, names[1]), "--brief")
        questions.append((command, "what the first two differ in"))
    return bounded({"schema": jsons.SCHEMA, "variants": rows, "next": _next(questions)})
