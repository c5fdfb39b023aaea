"""What was tried of a kernel, as a table beside what was recorded, as sentences and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from inspector.base.model import Compilation, CompilerMessage, Stage
from inspector.base.text import shown
from inspector.diff.compare import Compared
from inspector.measure.experiment import Experiment, ExperimentColumn
from inspector.report import compiled, diff_json, tables
from inspector.report.compiled import CompiledCell, CompiledTable
from inspector.report.diff_text import settings
from inspector.report.jsons import SCHEMA, plain

NOT_COMPILED = "compiled in"


@dataclass(frozen=True, slots=True)
class Difference:
    """A column compared with the recorded variant at one stage; ``why`` it is not, else ""."""

    column: ExperimentColumn
    compared: Compared | None
    why: str = ""


def title(trial: Experiment) -> Text:
    """Which kernel it is, and what of it was tried."""
    request = trial.outcome.request
    variant = request.variant
    told = "  ".join(
        shown(p) for p in (variant.id, variant.target or "", settings(variant.config)) if p
    )
    what = (
        f"from the recorded {request.stage.value} on"
        if request.text is None
        else f"with the {request.stage.value} of {request.name}, which was edited"
    )
    return Text.assemble((shown(request.kernel.called), "bold cyan"), f"  {told}\n", shown(what))


def table(trial: Experiment, width: int) -> Iterator[Text]:
    """Yield the metrics, the recorded variant's first; other columns follow below."""
    cells = [_cell(one) for one in trial.columns]
    rows = [
        (name, line)
        for name, line in compiled.figures_of(cells)
        if name not in ("variant", NOT_COMPILED)
    ]
    seconds = [_seconds(one.compilation) if n else "" for n, one in enumerate(trial.columns)]
    rows.append((NOT_COMPILED, seconds))
    heads = [shown(one.label) for one in trial.columns]
    yield from compiled.grid(heads, rows, width)


def _cell(one: ExperimentColumn) -> CompiledCell:
    return CompiledCell(
        one.compilation, one.variant, "", one.resources, one.instructions, one.occupancy, one.code
    )


def _seconds(one: Compilation) -> str:
    if one.failed is not None:
        return ""
    return tables.UNKNOWN if one.seconds is None else f"{one.seconds:.2f} s"


def messages(trial: Experiment) -> Iterator[Text]:
    """What the compilers said of what was tried, at its lines."""
    made = tuple(one.compilation for one in trial.tried)
    yield from compiled.messages(
        CompiledTable("", tuple(dict.fromkeys(c.column for c in made)), (), made)
    )


def first_error(trial: Experiment, file: str) -> CompilerMessage | None:
    """The first error that has a line of a file."""
    return next(
        (
            m
            for one in trial.tried
            for m in one.compilation.messages
            if m.severity == "error" and m.file == file and m.line is not None
        ),
        None,
    )


# -- sentences ------------------------------------------------------------------------------------


def sentences(trial: Experiment) -> Iterator[str]:
    """Remarks beside the figures: on the compiler and on equal machine code."""
    yield from _of_compiler(trial)
    yield from trial.outcome.remarks
    for one in trial.tried:
        if one.code is not None and one.code == trial.recorded.code:
            yield f"{one.label}: the machine code is that of the recorded kernel."


def _of_compiler(trial: Experiment) -> Iterator[str]:
    outcome = trial.outcome
    request = outcome.request
    here, there = _versions(outcome.versions), _versions(outcome.recorded_versions)
    if outcome.alike is None:
        yield (
            f"The recorded {request.stage.value} does not compile here ({here}): "
            f"{outcome.again.compilation.failed}"
        )
        return
    whose = "the edit's" if request.text is not None else "the options'"
    tried = "what does not compile" if outcome.failed == len(outcome.columns) else "what differs"
    edit = f"{tried} is {whose}"
    if outcome.same_compiler:
        yield (
            f"The compiler here ({here}) makes of the recorded {request.stage.value} the machine "
            f"code that was recorded, instruction for instruction{_texts(outcome.alike)}: {edit}."
        )
        return
    first = next((stage.value for stage, same in outcome.alike.items() if not same), "")
    recorded = f"; it was recorded with {there}" if there else ""
    if not first:
        yield f"There is nothing recorded after {request.stage.value} to hold the compiler against."
        return
    yield (
        f"The compiler here ({here}{recorded}) makes another {first} of the recorded "
        f"{request.stage.value}: the column “{outcome.again.label}” is what it made here, and "
        f"what differs from that is {whose}."
    )


def _texts(alike: Mapping[Stage, bool]) -> str:
    """Which texts on the way there are the same."""
    texts = [stage for stage in alike if stage is not Stage.SASS]
    same = [stage.value for stage in texts if alike[stage]]
    others = [stage.value for stage in texts if not alike[stage]]
    out = f", and {_and(same)} byte for byte" if same else ""
    return out + (f"; of {_and(others)} the text alone is another" if others else "")


def _and(words: Sequence[str]) -> str:
    *rest, last = words
    return f"{', '.join(rest)} and {last}" if rest else last


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}".strip() for name, version in versions.items())


# -- JSON -----------------------------------------------------------------------------------------


def as_json(trial: Experiment, differences: Iterable[Difference]) -> dict[str, object]:
    """``try``: the columns, the recorded variant's first, and what differs from it."""
    outcome = trial.outcome
    request = outcome.request
    return {
        "schema": SCHEMA,
        "path": request.recording.path,
        "kernel": request.kernel.name,
        "variant": request.variant.id,
        "stage": request.stage.value,
        "file": None if request.text is None else request.name,
        "columns": [_column_json(trial, n, one) for n, one in enumerate(trial.columns)],
        "compiler": {
            "same": None if outcome.alike is None or not outcome.alike else outcome.same_compiler,
            "stages": None
            if outcome.alike is None
            else {stage.value: same for stage, same in outcome.alike.items()},
            "failed": outcome.again.compilation.failed,
            "versions": dict(outcome.versions),
        },
        "remarks": list(outcome.remarks),
        "differences": [_difference(trial, one) for one in differences],
    }


def _column_json(trial: Experiment, n: int, one: ExperimentColumn) -> dict[str, object]:
    variant, made = one.variant, one.compilation
    return {
        "label": one.label,
        "of": "recorded" if n == 0 else "tried" if one in trial.tried else "again",
        "compiled": variant is not None,
        "failed": made.failed,
        "target": (None if variant is None else variant.target) or made.target or None,
        "config": {} if variant is None else dict(variant.config),
        "tool": None if n == 0 else made.tool,
        "seconds": None if n == 0 else made.seconds,
        "stages": [] if variant is None else [s.value for s in Stage if s in variant.stages],
        "resources": plain(one.resources),
        "instructions": one.instructions,
        "occupancy_percent": one.occupancy,
        "same_code": None
        if n == 0 or one.code is None or trial.recorded.code is None
        else one.code == trial.recorded.code,
        "messages": plain(made.messages),
    }


def _difference(trial: Experiment, one: Difference) -> dict[str, object]:
    compared = one.compared
    text: dict[str, object] = {"stage": None, "identical": None, "hunks": []}
    if compared is not None:
        text = diff_json.text(compared.stage, compared.diff)
    return {
        "column": one.column.label,
        "against": trial.base.label,
        **{name: text[name] for name in ("stage", "identical", "hunks")},
        "resources": [] if compared is None else diff_json.changes(compared.summary.resources),
        "explanation": [] if compared is None else list(compared.explanation),
        "why": one.why if compared is None else None,
    }
