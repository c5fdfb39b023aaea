"""Answers in short: what one kernel, a list or a comparison comes to, and what to ask next.

Each is a value of JSON that is no longer than ``MOST`` bytes as it is written: texts are cut, and
of lists the first few are kept, as far as it takes; ``left_out`` says how many more there are.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from inspector.analyse.hints.subject import Finding
from inspector.diff.beside import loud
from inspector.diff.compare import Compared
from inspector.diff.hunks import Op
from inspector.diff.recordings import Fate
from inspector.model import Graph, Kernel, Location, Stage, Variant
from inspector.names import base_name
from inspector.report import diff_json, fields, jsons
from inspector.text import plural, shown

MOST = 8000
"""Bytes of a short answer."""
STEPS = ((600, 20), (400, 12), (250, 8), (160, 5), (100, 3), (60, 2))
"""Characters of a text and members of a list that are kept, from much to little."""
FIGURES = 30
"""Members of a mapping that are kept: what we name ourselves has fewer."""
LONGEST_PATH = 200
"""Characters of a path in the commands of an answer; a longer one is called PATH there."""
_WHOLE = frozenset(("command", "schema"))


@dataclass(frozen=True, slots=True)
class Question:
    """What one may ask next: a command as one types it, and what it says."""

    command: str
    answers: str


def ask(path: str, *words: str) -> str:
    """A command on a path, as one types it; ``words`` stand before the path and behind it."""
    named = "PATH" if len(ascii(path)) > LONGEST_PATH else shlex.quote(shown(path))
    first, *rest = words
    return " ".join(("ptxview", first, named, *(shlex.quote(shown(word)) for word in rest)))


# -- as short as it must be -----------------------------------------------------------------------


def bounded(value: Mapping[str, object], most: int = MOST) -> dict[str, object]:
    """The same answer in at most ``most`` bytes of JSON, with what had to be left out."""
    answer: dict[str, object] = {}
    for text, members in STEPS:
        cut = {name: _cut(each, text, members, name) for name, each in value.items()}
        left_out = {
            name: len(before) - len(after)
            for name, after in cut.items()
            if isinstance(before := value[name], list) and isinstance(after, list)
            and len(before) > len(after)
        }  # fmt: skip
        answer = {**cut, "left_out": left_out}
        if len(jsons.dumps(answer)) <= most:
            break
    return answer


def _cut(value: object, text: int, members: int, name: str = "") -> object:
    if name in _WHOLE:
        return value
    if isinstance(value, str):
        return _shortened(value, text)
    if isinstance(value, list | tuple):
        return [_cut(each, text, members) for each in value[:members]]
    if isinstance(value, Mapping):
        kept = list(value.items())[: max(members, FIGURES) if name != "config" else members]
        return {str(_cut(k, text, 1)): _cut(each, text, members, str(k)) for k, each in kept}
    return value


def _shortened(text: str, most: int) -> str:
    """A text of at most so many bytes of JSON: what is not ASCII is six of them, or twelve."""
    if len(text) <= most // 12 or (size := len(jsons.dumps(text))) <= most:
        return text
    kept = text[: most * len(text) // size]
    while kept and len(jsons.dumps(kept)) > most - 6:
        kept = kept[: len(kept) * 9 // 10]
    return f"{kept}…"


def _next(questions: Iterable[Question]) -> list[dict[str, object]]:
    return [{"command": one.command, "answers": one.answers} for one in questions]


# -- a kernel -------------------------------------------------------------------------------------

HINTED = 8
"""Lines of a hint that are named."""


@dataclass(frozen=True, slots=True)
class StageSize:
    """A stage that can be shown, how many lines it has and which of them are the kernel's.

    None where nobody has read it yet, or where the kernel stands in it is not known.
    """

    stage: Stage
    lines: int | None = None
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Lines to look at first, with why, and the text of the first instruction there."""

    first: int
    last: int
    by: str
    text: str
    source: Location | None
    percent: float | None = None
    depth: int | None = None
    live: int | None = None


@dataclass(frozen=True, slots=True)
class KernelInShort:
    """What is told of a variant in short; ``name`` is what a command calls it by."""

    path: str
    name: str
    kernel: Kernel
    variant: Variant
    stage: Stage
    figures: Mapping[str, object]
    stages: Sequence[StageSize]
    findings: Sequence[Finding]
    hottest: Sequence[Place]


def kernel(told: KernelInShort) -> dict[str, object]:
    """One kernel in short."""
    return bounded({
        "schema": jsons.SCHEMA,
        "path": told.path,
        "kernel": told.kernel.name,
        "variant": told.variant.id,
        "origin": told.kernel.origin.value,
        "stage": told.stage.value,
        "figures": {k: v for k, v in told.figures.items() if k not in ("kernel", "variant")},
        "stages": [
            {"stage": one.stage.value, "lines": one.lines, "first": one.first, "last": one.last}
            for one in told.stages
        ],
        "missing": {
            stage.value: told.variant.missing[stage]
            for stage in jsons.ordered(told.variant.missing)
            if stage not in told.variant.stages
        },
        "hints": [_hint(finding) for finding in told.findings],
        "hottest": [_place(place) for place in told.hottest],
        "next": _next(_questions(told)),
    })  # fmt: skip


def _hint(finding: Finding) -> dict[str, object]:
    return {
        **jsons.note(finding.note),
        "lines": {stage.value: list(lines[:HINTED]) for stage, lines in finding.lines.items()},
    }


def _place(place: Place) -> dict[str, object]:
    return {
        "first": place.first,
        "last": place.last,
        "by": place.by,
        "percent": place.percent,
        "depth": place.depth,
        "live": place.live,
        "text": place.text,
        "source": _where(place.source),
    }


def _where(source: Location | None) -> dict[str, object] | None:
    """The innermost frame alone."""
    return None if source is None else {"file": source.file, "line": source.line}


AROUND = 8
"""Lines before and behind one that is asked for."""
WORTH = (Stage.SOURCE, Stage.TTGIR, Stage.PTX, Stage.SASS)
"""Stages that one is told of beside the one that was asked for."""
STRETCH = 60
"""Lines of a long part that are asked for at once."""


def _questions(told: KernelInShort) -> Iterator[Question]:
    stage = told.stage.value

    def show(*words: str) -> str:
        return ask(told.path, "show", told.name, *words)

    for place in told.hottest[:2]:
        around = 0 if place.last > place.first else AROUND
        last = min(place.last, place.first + STRETCH)
        lines = span(max(place.first - around, 1), last + around)
        what = {"samples": "where most samples are", "loop": "the innermost loop",
                "registers": "where most registers are live"}[place.by]  # fmt: skip
        yield Question(show("--stage", stage, "--lines", lines, "-a"), what)
    for finding in told.findings:
        at = next(((s, n) for s, n in finding.lines.items() if n), None)
        if at is not None:
            lines = span(max(at[1][0] - AROUND, 1), at[1][0] + AROUND)
            question = show("--stage", at[0].value, "--lines", lines, "-a")
            yield Question(question, f"where {shown(finding.rule)} was seen")
            break
    for one in told.stages:
        own = one.stage is told.stage and not told.hottest
        if own or (one.stage is not told.stage and one.stage in WORTH):
            words = ["--stage", one.stage.value]
            if one.first is not None and one.last is not None:
                words += ["--lines", span(one.first, min(one.last, one.first + STRETCH))]
            yield Question(show(*words), f"its {one.stage.value}")
    if len(told.kernel.variants) > 1:
        yield Question(ask(told.path, "diff", told.kernel.name, "--variants", "--brief"),
                       "its variants beside one another")  # fmt: skip


def span(first: int, last: int) -> str:
    """``40:80`` as ``--lines`` takes it."""
    return f"{first}:{last}"


def kernel_lines(value: Mapping[str, object]) -> Iterator[str]:
    """The same for people, from the value of JSON."""
    yield shown(f"{value['kernel']}  {value['variant']}  {value['stage']}")
    yield from figure_lines(_mapping(value["figures"]))
    for one in _members(value["stages"]):
        first, last, many = one["first"], one["last"], one["lines"]
        lines = "" if many is None else plural(int(str(many)), "line")
        own = "" if first is None else f", the kernel in {first}:{last}"
        yield f"  {'stage':<14}{one['stage']} {lines}{own}".rstrip()
    for one in _members(value["hints"]):
        places = [f"{stage} {','.join(map(str, numbers))}"
                  for stage, numbers in _mapping(one["lines"]).items()
                  if isinstance(numbers, list) and numbers]  # fmt: skip
        where = f" ({'; '.join(places)})" if places else ""
        guess = ", a guess" if one["estimated"] else ""
        yield shown(f"  {one['severity']:<14}{one['rule']}{where}{guess}: {one['text']}")
    for one in _members(value["hottest"]):
        yield "  " + shown(f"{'look at':<14}{_said(one)}")
    yield from _rest(value)


def _live(many: object) -> str:
    return "1 register is" if many == 1 else f"{many} registers are"


def _said(one: Mapping[str, object]) -> str:
    lines = f"{one['first']}" if one["first"] == one["last"] else f"{one['first']}:{one['last']}"
    why = {
        "samples": f"{one['percent']} % of the samples",
        "loop": f"an innermost loop, {one['depth']} deep",
        "registers": f"{_live(one['live'])} live, the peak",
    }[str(one["by"])]
    source = one["source"]
    where = f"  ({source['file']}:{source['line']})" if isinstance(source, Mapping) else ""
    return f"lines {lines}: {why}{where}  {str(one['text']).strip()}"


def figure_lines(figures: Mapping[str, object]) -> Iterator[str]:
    """Figures by name, a line each."""
    for name, each in figures.items():
        yield f"  {name:<14}{fields.word(each)}"


def _rest(value: Mapping[str, object]) -> Iterator[str]:
    left = _mapping(value["left_out"])
    if left:
        yield "  left out      " + ", ".join(f"{many} more {name}" for name, many in left.items())
    yield "next:"
    for one in _members(value["next"]):
        yield f"  {one['command']}  # {one['answers']}"


def _members(value: object) -> list[Mapping[str, object]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


# -- a graph --------------------------------------------------------------------------------------


def graph(path: str, one: Graph, sizes: Mapping[Stage, int]) -> dict[str, object]:
    """A graph of torch.compile in short: its kernels, and how long its texts are."""
    lines = sizes.get(Stage.OUTPUT_CODE, max(sizes.values(), default=0))
    return bounded({
        "schema": jsons.SCHEMA,
        "path": path,
        "graph": one.id,
        "kernels": list(one.kernels),
        "stages": [{"stage": stage.value, "lines": many, "first": None, "last": None}
                   for stage, many in sizes.items()],
        "next": _next([
            Question(
                ask(path, "show", one.id),
                "which operators of which modules each call has"
                if one.error is None
                else "why it did not compile, and what there is of it",
            ),
            Question(ask(path, "show", one.id, "--lines", span(1, min(lines, 100))), "its text"),
            *(Question(ask(path, "show", name, "--brief"), "a kernel of it in short")
              for name in one.kernels[:2]),
        ]),
    })  # fmt: skip


def graph_lines(value: Mapping[str, object]) -> Iterator[str]:
    """The same for people."""
    names = value["kernels"]
    yield shown(f"graph {value['graph']}: {fields.word(names)}")
    yield from _rest(value)


# -- a list ---------------------------------------------------------------------------------------


def listed(
    path: str, about: Mapping[str, object], rows: Sequence[Mapping[str, object]],
    names: Sequence[str], name: Callable[[int], str],
) -> dict[str, object]:  # fmt: skip
    """A list in short: those that spill first, then those with the most hints.

    ``about`` is said of the recording; ``name`` is what the row of that place is called by.
    """
    places = sorted(
        range(len(rows)), key=lambda n: (-_number(rows[n], "spills"), -_number(rows[n], "hints"), n)
    )
    questions = [Question(ask(path, "show", name(n), "--brief"), "one of them in short")
                 for n in places[:1]]  # fmt: skip
    questions += [Question(ask(path, "show", name(n)), "one that failed: why, with its lines")
                  for n in places if rows[n].get("failed")][:1]  # fmt: skip
    several = Counter(row["kernel"] for row in rows).most_common(1)
    if several and several[0][1] > 1:
        kernel = next(n for n in places if rows[n]["kernel"] == several[0][0])
        words = ("diff", base_name(str(rows[kernel]["kernel"])), "--variants", "--brief")
        questions.append(Question(ask(path, *words), "the variants of one beside one another"))
    questions.append(
        Question(ask(path, "list", "--fields", ",".join(names)), "all of them, these figures")
    )
    return bounded({
        "schema": jsons.SCHEMA,
        "recording": dict(about),
        "variants": [dict(rows[n]) for n in places],
        "next": _next(questions),
    })  # fmt: skip


def _number(row: Mapping[str, object], name: str) -> float:
    value = row.get(name)
    return value if isinstance(value, int | float) else 0


def listed_lines(value: Mapping[str, object]) -> Iterator[str]:
    """The same for people."""
    about = _mapping(value["recording"])
    kernels, variants = (plural(int(str(about[f"{one}s"])), one) for one in ("kernel", "variant"))
    failed = f", {about['failed']} failed" if about["failed"] else ""
    yield shown(f"{about['path']}: {kernels}, {variants}{failed}")
    yield from fields.table(_members(value["variants"]))
    yield from _rest(value)


# -- a comparison ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ComparedName:
    """What a command calls one side of a comparison by."""

    path: str
    name: str

    @property
    def word(self) -> str:
        """``PATH::KERNEL``, as one types it."""
        path = "PATH" if len(ascii(self.path)) > LONGEST_PATH else shown(self.path)
        return shlex.quote(f"{path}::{shown(self.name)}" if self.name else path)


def _two(a: ComparedName, b: ComparedName, *options: str) -> str:
    return " ".join(("ptxview diff", a.word, b.word, *options))


def compared(one: Compared, a: ComparedName, b: ComparedName) -> dict[str, object]:
    """Two variants in short: the figures that differ, hints, what explains it, where it begins."""
    hunks = [h for h in loud(one.diff.hunks) if h.op is not Op.EQUAL]
    stage = one.stage.value
    questions = []
    if hunks:
        start = hunks[0].b[0] if hunks[0].b[1] > hunks[0].b[0] else hunks[0].a[0]
        lines = span(max(start - AROUND, 1), start + 4 * AROUND)
        questions.append(
            Question(_two(a, b, "--stage", stage, "--lines", lines), "where they begin to differ")
        )
    for side, mark in ((a, "a"), (b, "b")):
        questions.append(Question(ask(side.path, "show", side.name, "--brief"), f"{mark} in short"))
    return bounded({
        "schema": jsons.SCHEMA,
        "a": _side(one.a.kernel, one.a.variant, a.path),
        "b": _side(one.b.kernel, one.b.variant, b.path),
        "stage": stage,
        "identical": one.diff.identical,
        "first_difference": None if one.summary.first is None else one.summary.first.value,
        "resources": diff_json.changes(c for c in one.summary.resources if c.differs),
        "config": diff_json.changes(one.summary.config),
        "gained": [diff_json.hint(f) for f in one.summary.gained],
        "lost": [diff_json.hint(f) for f in one.summary.lost],
        "explanation": list(one.explanation),
        "hunks": {op.value: sum(h.op is op for h in hunks) for op in Op if op is not Op.EQUAL},
        "next": _next(questions),
    })  # fmt: skip


def _side(one: Kernel, variant: Variant, path: str) -> dict[str, object]:
    return {"path": path, "kernel": one.name, "variant": variant.id, "target": variant.target}


def compared_lines(value: Mapping[str, object]) -> Iterator[str]:
    """The same for people."""
    for mark in "ab":
        side = _mapping(value[mark])
        yield shown(f"{mark} {side['kernel']}  {side['variant']}  {side['path']}")
    same = "identical" if value["identical"] else "not the same"
    yield f"{value['stage']}: {same}"
    for one in (*_members(value["config"]), *_members(value["resources"])):
        yield shown(f"  {one['name']}: {fields.word(one['a'])} → {fields.word(one['b'])}")
    for name in ("gained", "lost"):
        for one in _members(value[name]):
            yield shown(f"  hint {name}: {one['rule']}")
    told = value["explanation"]
    yield from (shown(f"  {text}") for text in (told if isinstance(told, list) else ()))
    yield from _rest(value)


def many_compared(
    value: Mapping[str, object], members: str, a: ComparedName, b: ComparedName
) -> dict[str, object]:
    """Two recordings or files in short, of what ``diff --json`` has of them: what is not the same
    (``members`` is ``pairs`` or ``functions``), with the figures that differ."""
    changed = [
        {**one, "resources": [c for c in _members(one["resources"]) if c["a"] != c["b"]]}
        for one in _members(value[members])
        if one.get("state") != Fate.SAME.value and one.get("identical") is not True
    ]
    questions = [Question(_two(a, b, "--summary"), "all of them, as a table")]
    if members == "pairs":
        both = next((one for one in changed if one["a"] and one["b"]), None)
        if both is not None:
            left, right = (ComparedName(side.path, str(both[mark]))
                           for side, mark in ((a, "a"), (b, "b")))  # fmt: skip
            questions.insert(0, Question(_two(left, right, "--brief"), "the first that changed"))
    kept = ("schema", "a", "b", "stage", "identical", "counts")
    return bounded({
        **{name: value[name] for name in kept if name in value},
        members: changed,
        "next": _next(questions),
    })  # fmt: skip


def many_compared_lines(value: Mapping[str, object]) -> Iterator[str]:
    """The same for people."""
    for mark in "ab":
        yield shown(f"{mark} {_mapping(value[mark])['path']}")
    if "counts" in value:
        yield ", ".join(f"{many} {state}" for state, many in _mapping(value["counts"]).items())
    elif value["identical"]:
        yield "identical"
    for one in _members(value.get("pairs", value.get("functions"))):
        changes = ", ".join(f"{c['name']} {fields.word(c['a'])} → {fields.word(c['b'])}"
                            for c in _members(one["resources"]))  # fmt: skip
        name = one.get("kernel") or one["a"] or one["b"]
        yield shown(
            f"  {one.get('state', 'changed')}  {name}" + (f": {changes}" if changes else "")
        )
    yield from _rest(value)


ROW = ("kernel", "variant", "config", "winner", "time_us", "time_by", "occupancy_percent",
       "instructions")  # fmt: skip


def tabled(value: Mapping[str, object], path: str) -> dict[str, object]:
    """All variants of a kernel in short, of what ``diff --json`` has of them: the fastest first."""
    rows = []
    for one in _members(value["variants"]):
        taken = _mapping(one["resources"])
        rows.append({name: one[name] for name in ROW} | {
            name: taken.get(name)
            for name in ("registers", "spill_store_bytes", "spill_load_bytes")
        })  # fmt: skip
    timed = sorted(
        range(len(rows)),
        key=lambda n: (rows[n]["time_us"] is None, rows[n]["time_us"] or 0, n),
    )
    names = [str(rows[n]["variant"]) for n in timed if rows[n]["variant"] is not None]
    questions = [Question(ask(path, "show", name, "--brief"), "one of them in short")
                 for name in names[:1]]  # fmt: skip
    if len(names) > 1:
        a, b = (ComparedName(path, name) for name in names[:2])
        questions.append(Question(_two(a, b, "--brief"), "what the first two differ in"))
    return bounded({
        "schema": jsons.SCHEMA,
        "variants": [rows[n] for n in timed],
        "next": _next(questions),
    })  # fmt: skip


def tabled_lines(value: Mapping[str, object]) -> Iterator[str]:
    """The same for people."""
    yield from fields.table(_members(value["variants"]))
    yield from _rest(value)
