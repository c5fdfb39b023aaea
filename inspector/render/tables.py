"""Tables and listings for people: cells, columns fit into a width, labels of variants, failures.

Generated kernels have titles from facts, ``#11 silu·mul 4×128×1376 bf16 · act.py:66 · pointwise``:
Inductor's own names list every operator, view and cast, and differ in their last letters.

One module because a row of any table is named, sized and laid out in the same way.
"""

import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import PurePath
from types import MappingProxyType

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inspector.analysis.representative import representative, result
from inspector.base.errors import UsageError, ended_by
from inspector.base.escapes import shown
from inspector.base.model import (
    PRODUCTS,
    Failure,
    Graph,
    Kernel,
    MadeFrom,
    Origin,
    Recording,
    Resources,
    Stage,
    Variant,
    principal_lines,
)
from inspector.base.names import words
from inspector.base.units import kibibytes, plural, some
from inspector.parsers.line import Line
from inspector.render.jsons import ordered

_INDUCTORS = re.compile(r"triton_(?P<kind>[a-z]+)_fused_")
"""Inductor's kernel names (``torch/_inductor/codegen/triton.py``): kind, operators, number."""
TEMPLATE = "tem"
KINDS = {
    "poi": "pointwise",
    "red": "reduction",
    "per": "persistent reduction",
    TEMPLATE: "",  # its tile says so
}
"""Inductor's kinds of kernels, in words."""
LAYOUT = frozenset(
    words(
        "_to_copy _unsafe_view alias arange as_strided clone convert_element_type detach expand "
        "full permute reshape scalar_tensor select slice split squeeze t transpose unsqueeze view"
    )
)
"""Operators that compute nothing; named only where a kernel has no others."""
_MOVE_OPERATORS = LAYOUT | {"iota", "broadcast_in_dim"}
MAX_OPERATORS = 3
TILE = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
"""Constants of templates; the last is read from TTGIR without them."""
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}


def is_generated(kernel: Kernel) -> bool:
    """Whether Inductor made the kernel, of which it is known from what."""
    return bool(kernel.origin is Origin.INDUCTOR and kernel.fusion is not None and kernel.variants)


def title(kernel: Kernel, with_launches: bool = True) -> str:
    """One kernel's title: number, operators, shape and dtype, tile, source line, kind, launches.

    What tells kernels apart comes first, since a narrow place cuts the end. Of a kernel that was
    not generated, its name.
    """
    if not is_generated(kernel):
        return shown(kernel.display_name)
    variant = representative(kernel.variants)
    kind = _kind(kernel)
    template = kind == TEMPLATE
    head = " ".join(filter(None, (_number(kernel), _operators(kernel, template), _shape(variant))))
    warps, stages = (variant.config.get(name) for name in ("num_warps", "num_stages"))
    sizes = f"{tile(variant.config, variant.tile)} w{warps} s{stages}" if template else ""
    launches = plural(variant.launches, "launch") if variant.launches and with_launches else ""
    parts = (head, sizes.strip(), user_line(kernel), KINDS.get(kind, kind), launches)
    return shown(" · ".join(filter(None, parts)))


def short_title(kernel: Kernel) -> str:
    """Number, operators and source line; the name of a kernel that was not generated."""
    if not is_generated(kernel):
        return shown(kernel.display_name)
    head = f"{_number(kernel)} {_operators(kernel, _kind(kernel) == TEMPLATE)}".strip()
    return shown(" · ".join(filter(None, (head, user_line(kernel)))))


def _number(kernel: Kernel) -> str:
    """``#13``; "" of a kernel that Inductor did not number."""
    return "" if kernel.number is None else f"#{kernel.number}"


def _kind(kernel: Kernel) -> str:
    match = _INDUCTORS.match(kernel.name)
    return "" if match is None else match["kind"]


def _operators(kernel: Kernel, template: bool) -> str:
    assert kernel.fusion is not None
    names = list(dict.fromkeys(op.partition(".")[2] or op for op in kernel.fusion.ops))
    products = [name for name in names if template and name in PRODUCTS]
    computing = [name for name in names if name not in LAYOUT]
    chosen_names = products or computing or names
    count_text = (
        f"+{len(chosen_names) - MAX_OPERATORS}" if len(chosen_names) > MAX_OPERATORS else ""
    )
    return "·".join(chosen_names[-MAX_OPERATORS:]) + count_text


def _shape(variant: Variant) -> str:
    """``512×256×512 bf16``; "" without a recorded call."""
    written = result(variant)
    if written is None:
        return ""
    sizes, dtype = written
    return f"{'×'.join(map(str, sizes)) or 'scalar'} {DTYPES.get(dtype, dtype)}"


def tile(config: Mapping[str, object], by_ttgir: str | None = None) -> str:
    """The tile of a matrix product, ``64·32·128``; "" if unknown."""
    sizes = [config.get(name) for name in TILE]
    return by_ttgir or "" if None in sizes else "·".join(map(str, sizes))


def calling_operators(variant: Variant) -> str:
    """The ATen operators that launch a library's kernel: ``matmul → mm and linear → addmm``."""
    calls = (" → ".join(call.operators) for call in variant.calls)
    return shown(some([*dict.fromkeys(filter(None, calls))]))


def user_line(kernel: Kernel) -> str:
    """The user's line of a template's product, else the one of which most operators are in a
    kernel, the last of several, or ""."""
    principal = principal_lines(kernel.fusion.made_from if kernel.fusion is not None else ())

    def weight(part: MadeFrom) -> int:
        bases = [target.split(".")[1:2] for target in part.targets]
        return sum(not base or base[0] not in _MOVE_OPERATORS for base in bases)

    heaviest = max(reversed(principal), key=weight, default=None)
    return "" if heaviest is None else f"{PurePath(heaviest.file).name}:{heaviest.line}"


Cell = str | tuple[str, str]
"""A text, or a text and its style."""
ShrinkOrder = Sequence[tuple[str, int]]
"""Columns in the order in which they give room, each with its least width; 0 leaves it out."""
Shorten = Callable[[Sequence[str], int], Mapping[str, str]]
"""Texts of at most a width by the texts of a column."""
NO_SHORTENING: Mapping[str, Shorten] = MappingProxyType({})
GAP = "  "


def fit(wanted_widths: Mapping[str, int], width: int, shrink_order: ShrinkOrder) -> dict[str, int]:
    """Return the widths of the columns that fit; columns that were cut too far grow again."""
    sizes = dict(wanted_widths)
    spare = width - sum(sizes.values()) - len(GAP) * (len(sizes) - 1)
    for head, least in shrink_order:
        if spare >= 0 or head not in sizes:
            continue
        if least:
            released = min(-spare, max(sizes[head] - least, 0))
            sizes[head] -= released
        else:
            released = sizes.pop(head) + len(GAP)
        spare += released
    for head in sizes:
        growth = max(min(spare, wanted_widths[head] - sizes[head]), 0)
        sizes[head] += growth
        spare -= growth
    return sizes


def grid(
    heads: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    width: int,
    numbers: Collection[str] = (),
    shrink_order: ShrinkOrder = (),
    shorten: Mapping[str, Shorten] = NO_SHORTENING,
) -> Iterator[Text]:
    """Yield the heads and rows as lines.

    Args:
        heads: the titles of the columns.
        rows: the cells, one for each head.
        width: cells of a line.
        numbers: columns that are aligned right.
        shrink_order: how columns give room.
        shorten: how texts of a column are fitted into it; others end in an ellipsis.
    """
    full = {head: cell_len(head) for head in heads}
    for row in rows:
        for head, cell in zip(heads, row, strict=True):
            full[head] = max(full[head], cell_len(cell if isinstance(cell, str) else cell[0]))
    sizes = fit(full, width, shrink_order)
    yield row_text(heads, [(head, "bold") for head in heads], sizes, numbers)
    shorter: dict[str, Mapping[str, str]] = {}
    for head, shorten_texts in shorten.items():
        place = heads.index(head)
        texts = [
            cell if isinstance(cell, str) else cell[0] for cell in (row[place] for row in rows)
        ]
        shorter[head] = shorten_texts(texts, sizes[head]) if head in sizes else {}
    for row in rows:
        cells = [
            shorter[head].get(cell, cell) if head in shorter and isinstance(cell, str) else cell
            for head, cell in zip(heads, row, strict=True)
        ]
        yield row_text(heads, cells, sizes, numbers)


def row_text(
    heads: Sequence[str], row: Sequence[Cell], sizes: Mapping[str, int], numbers: Collection[str]
) -> Text:
    """Return one row as a line; long cells end in an ellipsis."""
    out = Text(no_wrap=True, overflow="crop")
    for head, cell in zip(heads, row, strict=True):
        if head in sizes:
            text, style = (cell, "") if isinstance(cell, str) else cell
            out.append(GAP if out else "")
            out.append(padded(text, sizes[head], head in numbers), style)
    out.rstrip()
    return out


def padded(text: str, size: int, right: bool = False) -> str:
    blanks = size - cell_len(text)
    if blanks < 0:
        return set_cell_size(text, size - 1) + "…"
    return " " * blanks + text if right else text + " " * blanks


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def wrapped(label: str, text: str, width: int) -> Iterator[tuple[str, str]]:
    """Yield a text in lines of at most ``width`` cells, the label or its blanks before each."""
    for n, part in enumerate(textwrap.wrap(text, max(width - len(label), 20)) or [""]):
        yield " " * len(label) if n else label, part


def folded(sentence: str, width: int) -> Iterator[Text]:
    """Yield a text in lines of at most ``width`` cells, which end where it has `` · ``."""
    line = ""
    for part in sentence.split(SEPARATOR):
        longer = f"{line}{SEPARATOR}{part}" if line else part
        if line and cell_len(longer) > width:
            yield Text(line)
            longer = part
        line = longer
    yield Text(line)


STAR, TIE, BEST_BY_GPU = "★", "≈", "☆"
"""Marks of a tuner's candidates: its choice, tied with it by the tuner's times, and shortest by the
GPU's time, or tied with that."""

SEPARATOR = " · "
"""Between the parts of a sentence of figures."""

TRITON_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Triton's options, listed after the kernel's own constants."""

_SHORT = {"num_warps": "w", "num_stages": "s", "num_ctas": "c", "maxnreg": "maxnreg="}

# -- kernels ------------------------------------------------------------------------------------


def heading_of(kernel: Kernel) -> str:
    """Return a kernel's heading in lists: its maker if foreign, else its origin."""
    maker = next((v.maker for v in kernel.variants if v.maker is not None), None)
    return shown(maker) if maker is not None else kernel.origin.value


# -- settings of variants -----------------------------------------------------------------------


def setting(key: str, value: object) -> str:
    """One entry of a configuration, short: ``w4``, ``s3``, ``BLOCK=1024``."""
    if isinstance(value, list | tuple):
        value = " ".join(str(item) for item in value)
    return f"{_SHORT[key]}{value}" if key in _SHORT else f"{key}={value}"


def configuration(config: Mapping[str, object], keys: Iterable[str]) -> str:
    return " ".join(setting(key, config[key]) for key in keys if config.get(key) is not None)


def differing(configurations: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    """Return the keys in which configurations differ, the kernel's own constants first."""
    names = [key for key in _all_keys(configurations) if _differs(key, configurations)]
    constants = [name for name in names if name not in TRITON_OPTIONS]
    return (*constants, *(name for name in TRITON_OPTIONS if name in names))


def _all_keys(configurations: Iterable[Mapping[str, object]]) -> Iterable[str]:
    """Every key once, in the order in which it appears first."""
    return dict.fromkeys(chain.from_iterable(configurations))


def _differs(key: str, configurations: Sequence[Mapping[str, object]]) -> bool:
    """Whether configurations have different values of a key; a missing one counts as a value."""
    missing = object()
    return len({repr(config.get(key, missing)) for config in configurations}) > 1


def settings_in_words(text: str) -> str:
    """``64·32 warps 4 stages 3`` for ``64·32 w4 s3``."""
    text = re.sub(r"(?<!\S)w(?=\d+(?!\S))", "warps ", text)
    return re.sub(r"(?<!\S)s(?=\d+(?!\S))", "stages ", text)


UNKNOWN = "–"
FAILED = " ✗"
"""Follows the id of a failed variant."""
MAX_PROBLEMS = 200
"""Printed lines of problems."""


def figure(value: float | None, form: str = "{}") -> str:
    """Return a figure in a form (``{:.0f} %``), or a dash if unknown."""
    return UNKNOWN if value is None else form.format(value)


def spills(res: Resources) -> str:
    if res.spill_store_bytes is None and res.spill_load_bytes is None:
        return UNKNOWN
    if not res.spill_store_bytes and not res.spill_load_bytes:
        return "0"
    return f"{figure(res.spill_store_bytes)}/{figure(res.spill_load_bytes)}"


def shared(res: Resources) -> str:
    """Return shared memory of a block: ``33 KiB``; ``–+32 KiB`` if the static part is unknown."""
    static, dynamic = res.static_shared_bytes, res.dynamic_shared_bytes or 0
    if static is None:
        return f"{UNKNOWN}+{kibibytes(dynamic)}" if dynamic else UNKNOWN
    return kibibytes(static + dynamic)


def config_text(variant: Variant, first: Sequence[str] = ()) -> str:
    """Return warps, stages and constexprs, short; ``first`` are listed before other constexprs."""
    settings = {name: variant.config[name] for name in first if name in variant.config}
    settings |= variant.config
    # max-autotune's name of a candidate comes last.
    return settings_text(settings | {"choice": None}, settings.get("choice"), by_ttgir=variant.tile)


def settings_text(
    config: Mapping[str, object], *suffixes: object, by_ttgir: str | None = None
) -> str:
    """Return settings, short: the tile of a product, warps and stages, then all others."""
    tile_size = tile(config, by_ttgir)
    names = [*TRITON_OPTIONS]
    for name in config:
        is_in_tile = bool(tile_size) and name in TILE
        if name not in TRITON_OPTIONS and name != "flags" and not is_in_tile:
            names.append(name)
    parts = [tile_size] if tile_size else []
    for name in names:
        value = config.get(name)
        if value is not None and (name, value) != ("num_ctas", 1):
            parts.append(setting(name, value))
    parts += [f"choice={text}" for text in suffixes if text]
    return " ".join(parts)


def heading(rec: Recording) -> str:
    """Device or target, counts, what was removed, and how the program ended."""
    device_name = ""
    if rec.mode == "gpu":
        device_name = str((rec.device or {}).get("name") or "")
    elif rec.mode == "target":
        device_name = f"compiled for {rec.target}, not run on a GPU"
    without = f"without {' and '.join(rec.removed)}" if rec.removed else ""
    ended = ended_by(rec.exit_status) if rec.complete else "unfinished"
    return " · ".join(filter(None, (device_name, _counts_text(rec), without, ended)))


def _counts_text(rec: Recording) -> str:
    """``3 kernels, 5 variants, 1 failed``."""
    parts = [plural(len(rec.kernels), "kernel"), plural(len(rec.variants()), "variant")]
    if rec.graphs:
        parts.append(plural(len(rec.graphs), "graph"))
    if rec.uncaptured:
        parts.append(f"{len(rec.uncaptured)} not captured")
    failed = failure_count(rec)
    if failed:
        parts.append(f"{failed} failed")
    return ", ".join(parts)


def failure_count(rec: Recording) -> int:
    refused = sum(variant.error is not None for _, variant in rec.variants())
    return refused + sum(graph.error is not None for graph in rec.graphs)


def tuning_mark(variant: Variant) -> str:
    """Return what autotuning said of a variant: ``★`` chosen, pruned or failed; "" if nothing."""
    outcome = variant.autotune or {}
    if outcome.get("winner") is True:
        return STAR
    reason = str(outcome.get("reason") or "").partition(":")[0]
    return reason if reason in ("pruned", "failed") else ""


def missing_code(rec: Recording) -> list[str]:
    """Return each reason for a missing PTX or SASS once."""
    kernels_by_reason: dict[str, dict[str, None]] = {}
    for kernel, variant in rec.variants():
        if variant.uncompiled:
            continue
        stages = [Stage.PTX, Stage.SASS]
        if kernel.origin in (Origin.FILE, Origin.EXTERN):
            stages = [Stage.SASS]
        for stage in stages:
            why = variant.missing.get(stage)
            if why and stage not in variant.stages:
                reason = f"no {stage.value}: {why}"
                kernels_by_reason.setdefault(reason, {})[kernel.display_name] = None
    return [f"{', '.join(names)}: {reason}" for reason, names in kernels_by_reason.items()]


def failure_sentences(rec: Recording) -> list[str]:
    """Return a sentence for each variant and graph that failed to compile or load."""
    kernels_by_failure: dict[str, list[str]] = {}
    for kernel, variant in rec.variants():
        if variant.error is not None:
            outcome = "did not compile" if variant.uncompiled else "never ran"
            sentence = f"{variant.id} {outcome}: {variant.failed}"
            kernels_by_failure.setdefault(sentence, []).append(kernel.display_name)
    sentences = [f"{', '.join(names)} {text}" for text, names in kernels_by_failure.items()]
    return sentences + [
        f"graph {graph.id} did not compile: {graph.error.summary}"
        for graph in rec.graphs
        if graph.error is not None
    ]


def graphs(rec: Recording, console: Console) -> None:
    for graph in rec.graphs:
        console.print(
            Text.assemble(
                ("graph ", "bold cyan"),
                shown(graph.id),
                "  → ",
                shown(", ".join(graph.kernels) or "no kernels"),
                FAILED if graph.error is not None else "",
            ),
            soft_wrap=True,
        )
    if has_operators_values(rec):
        text = "values are the operators', not the kernels'; --values ptx runs them, "
        console.print(Text(f"{text}ptxview verify SCRIPT.py compares them", style="dim"))


def has_operators_values(rec: Recording) -> bool:
    """Whether graphs ran by their operators on the emulated device, and launched no kernel."""
    names = {name for graph in rec.graphs for name in graph.kernels}
    kernels = [k for k in rec.kernels if k.id in names and k.origin is Origin.INDUCTOR]
    launched = any(variant.launches for kernel in kernels for variant in kernel.variants)
    return rec.mode == "target" and bool(kernels) and not launched


def problems(rec: Recording, console: Console, unexplained: Sequence[str] = ()) -> None:
    """Print what went wrong; ``unexplained`` are sentences on kernels that ``verify`` names."""
    texts = (*missing_code(rec), *failure_sentences(rec), *rec.problems, *unexplained)
    for text in texts[:MAX_PROBLEMS]:
        console.print(Text("! " + shown(text), style="yellow"))
    remaining = len(texts) - MAX_PROBLEMS
    if remaining > 0:
        more_problems = plural(remaining, "more problem")
        console.print(Text(f"! {more_problems}: ptxview list --json has all", style="yellow"))


def side_by_side(
    upper_lines: Iterable[Line],
    lower_lines: Mapping[int, Line],
    links: Mapping[int, tuple[int, ...]],
    width: int,
    names: tuple[str, str],
) -> Table:
    """Return two stages side by side: left lines with their linked right lines.

    A right line is shown once; later links give its number.
    """
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", width=width)
    for name in names:
        table.add_column("", justify="right", no_wrap=True, style="dim")
        table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=1)
    placed: set[int] = set()
    for line in upper_lines:
        linked = [n for n in links.get(line.n, ()) if n in lower_lines]
        fresh = [n for n in linked if n not in placed]
        placed.update(fresh)
        repeated = ", ".join(str(n) for n in linked if n not in fresh)
        rows = [(str(n), Text(clean(lower_lines[n].text))) for n in fresh]
        first = (str(line.n), Text(clean(line.text)))
        for row in rows or [("", Text(f"↑ {repeated}" if repeated else "", style="dim"))]:
            table.add_row(*first, *row)
            first = ("", Text())
    return table


def clean(text: str) -> str:
    """Return a line with tabs as spaces, visible controls and no carriage return."""
    return shown(text.rstrip("\r").expandtabs(8))


RESUMABLE_STAGES = (Stage.PTX, Stage.LLIR, Stage.TTGIR, Stage.TTIR)
"""Stages from which ``try`` goes on, the last first."""
MAX_MESSAGES = 12
"""Messages shown one by one."""


def failure_text(variant: Variant) -> str | None:
    """``did not compile: square.py:5:28: …``; None of one that was compiled and could be loaded."""
    error = variant.error
    return None if error is None else shown(f"{error.outcome}: {error.summary}")


def exceeded_resource(error: Failure) -> str:
    """``shared memory 512 KiB > 227 KiB``: what was needed and what the device has; "" where the
    driver did not say."""
    if error.resource is None or error.required is None or error.limit is None:
        return ""
    formatted = kibibytes if "memory" in error.resource else str
    return shown(f"{error.resource} {formatted(error.required)} > {formatted(error.limit)}")


def failure_sentence(kernel: Kernel, variant: Variant) -> str | None:
    """``square did not compile: square.py:5:28: …``; None of one that was compiled."""
    failure = failure_text(variant)
    return None if failure is None else f"{shown(kernel.display_name)} {variant.id} {failure}"


def require_compiled(kernel: Kernel, variant: Variant) -> None:
    """Raise ``UsageError`` where a compiler refused it: there is nothing that could be run."""
    failure = failure_sentence(kernel, variant)
    if failure is not None and variant.uncompiled:
        last = next((stage.value for stage in RESUMABLE_STAGES if stage in variant.stages), None)
        try_hint = f"; ptxview try {variant.id} --stage {last} FILE goes on from a mended text"
        show_hint = f"ptxview show {variant.id} shows what there is of it"
        raise UsageError(failure, f"{show_hint}{try_hint if last else ''}.")


def failure_lines(kernel: Kernel, variant: Variant) -> Iterator[str]:
    """The sentence, then all that was said with its lines, the command, and what there is."""
    error, failure = variant.error, failure_sentence(kernel, variant)
    if error is not None and failure is not None:
        yield failure
        yield from failure_details(error)
        stage_names = ", ".join(stage.value for stage in ordered(variant.stages))
        if stage_names and not error.at_load:
            yield f"it came to these stages: {stage_names}"


def graph_failure(graph: Graph) -> Iterator[str]:
    if graph.error is not None:
        yield shown(f"graph {graph.id} did not compile: {graph.error.summary}")
        yield from failure_details(graph.error)


def failure_details(error: Failure) -> Iterator[str]:
    """The line of text that was complained of, the other messages, the command that failed."""
    first = error.first
    if first is not None and first.text:
        yield f"  {shown(first.text.strip())}"
    further = [message for message in error.messages if message is not first]
    for message in further[:MAX_MESSAGES]:
        yield shown(f"  {message.severity}: {message.sentence}")
        if message.text:
            yield f"    {shown(message.text.strip())}"
    if len(further) > MAX_MESSAGES:
        yield f"  … {plural(len(further) - MAX_MESSAGES, 'more message')}"
    if error.command is not None:
        yield f"  the command: {shown(error.command)}"
