"""Tables and listings for people: cells, columns fit into a width, labels of variants, failures.

Generated kernels have titles from facts, ``#11 poi silu·mul 4×128×1376 bf16 · act.py:66``:
Inductor's own names list every operator, view and cast, and differ in their last letters.

One module because a row of any table is named, sized and laid out in the same way.
"""

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import prod
from pathlib import PurePath

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

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
from inspector.base.text import (
    UsageError,
    by_key,
    ended_by,
    granted,
    kibibytes,
    plural,
    shown,
    words,
)
from inspector.listing.line import Line
from inspector.report.jsons import ordered

_INDUCTORS = re.compile(r"triton_(?P<kind>[a-z]+)_fused_.*?(?P<number>_\d+)?$")
"""Inductor's kernel names (``torch/_inductor/codegen/triton.py``): kind, operators, number."""
LAYOUT = frozenset(
    words(
        "_to_copy _unsafe_view alias arange as_strided clone convert_element_type detach expand "
        "full permute reshape scalar_tensor select slice split squeeze t transpose unsqueeze view"
    )
)
"""Operators that compute nothing; named only where a kernel has no others."""
_MOVES = LAYOUT | {"iota", "broadcast_in_dim"}
MAX_OPERATORS = 3
TILE = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
"""Constants of templates; the last is read from TTGIR where there are none."""
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}


def titles(rec: Recording) -> dict[str, str]:
    """The title of each generated kernel by its id; no two are alike."""
    made = {
        kernel.id: title(kernel)
        for kernel in rec.kernels
        if kernel.origin is Origin.INDUCTOR and kernel.fusion is not None and kernel.variants
    }
    alike = Counter(made.values())
    return {
        name: text if alike[text] == 1 else f"{text} · {shown(name[-24:])}"
        for name, text in made.items()
    }


def title(kernel: Kernel) -> str:
    """One kernel's title: number, kind, operators, shape and dtype, tile, source line, launches.
    Of a kernel that was not generated, its name."""
    if kernel.origin is not Origin.INDUCTOR or kernel.fusion is None or not kernel.variants:
        return shown(kernel.called)
    variant = representative(kernel.variants)
    named = _INDUCTORS.match(kernel.name)
    parts = [f"#{named['number'][1:]}" if named is not None and named["number"] else ""]
    template = named is not None and named["kind"] == "tem"
    if named is not None and not template:
        parts.append(named["kind"])
    parts += [_operators(kernel, template), _shape(variant)]
    head = " ".join(filter(None, parts))
    warps, stages = (variant.config.get(name) for name in ("num_warps", "num_stages"))
    sizes = f"{tile(variant.config, variant.tile)} w{warps} s{stages}" if template else ""
    launches = f"×{variant.launches}" if variant.launches else ""
    return shown(" · ".join(filter(None, (head, sizes.strip(), user_line(kernel), launches))))


def representative(variants: Sequence[Variant]) -> Variant:
    """Return the variant that was launched most, else the tuner's choice, else the first."""
    launched = [v for v in variants if v.launches]
    best = [v for v in variants if (v.autotune or {}).get("winner") is True]
    return max(launched, key=lambda v: v.launches or 0, default=(best or variants)[0])


def _operators(kernel: Kernel, template: bool) -> str:
    assert kernel.fusion is not None
    names = list(dict.fromkeys(op.partition(".")[2] or op for op in kernel.fusion.ops))
    chosen = [n for n in names if template and n in PRODUCTS] or [
        n for n in names if n not in LAYOUT
    ]
    chosen = chosen or names
    rest = f"+{len(chosen) - MAX_OPERATORS}" if len(chosen) > MAX_OPERATORS else ""
    return "·".join(chosen[-MAX_OPERATORS:]) + rest


def _shape(variant: Variant) -> str:
    """Shape and dtype of the largest tensor that is written, else of the largest tensor."""
    arguments = [a for call in variant.calls[:1] for a in call.arguments if a.shape is not None]
    written = [a for a in arguments if "out_ptr" in a.name]
    largest = max(written or arguments, key=lambda a: prod(a.shape or ()), default=None)
    if largest is None:
        return ""
    dtype = DTYPES.get(largest.dtype or "", largest.dtype or "")
    return f"{'×'.join(map(str, largest.shape or ())) or 'scalar'} {dtype}"


def tile(config: Mapping[str, object], by_ttgir: str | None = None) -> str:
    """The tile of a matrix product, ``64·32·128``; "" if unknown."""
    sizes = [config.get(name) for name in TILE]
    return by_ttgir or "" if None in sizes else "·".join(map(str, sizes))


def user_line(kernel: Kernel) -> str:
    """The user's line of a template's product, else the one of which most operators are in a
    kernel, the last of several, or ""."""
    made = principal_lines(kernel.fusion.made_from if kernel.fusion is not None else ())

    def weight(part: MadeFrom) -> int:
        bases = [target.split(".")[1:2] for target in part.targets]
        return sum(not base or base[0] not in _MOVES for base in bases)

    most = max(reversed(made), key=weight, default=None)
    return "" if most is None else f"{PurePath(most.file).name}:{most.line}"


Cell = str | tuple[str, str]
"""A text, or a text and its style."""
Gives = Sequence[tuple[str, int]]
"""Columns in the order in which they give room, each with its least width; 0 leaves it out."""
GAP = "  "


def fit(full: Mapping[str, int], width: int, gives: Gives) -> dict[str, int]:
    """Return the widths of the columns that fit; columns that were cut too far grow again."""
    sizes = dict(full)
    spare = width - sum(sizes.values()) - len(GAP) * (len(sizes) - 1)
    for head, least in gives:
        if spare < 0 and head in sizes:
            given = min(-spare, max(sizes[head] - least, 0)) if least else sizes[head] + len(GAP)
            sizes[head] -= given
            spare += given
            if not least:
                del sizes[head]
    for head in sizes:
        grown = max(min(spare, full[head] - sizes[head]), 0)
        sizes[head], spare = sizes[head] + grown, spare - grown
    return sizes


def grid(
    heads: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    width: int,
    numbers: Collection[str] = (),
    gives: Gives = (),
) -> Iterator[Text]:
    """Yield the heads and rows as lines; columns in ``numbers`` are aligned right."""
    full = {head: cell_len(head) for head in heads}
    for row in rows:
        for head, cell in zip(heads, row, strict=True):
            full[head] = max(full[head], cell_len(cell if isinstance(cell, str) else cell[0]))
    sizes = fit(full, width, gives)
    for row in ([(head, "bold") for head in heads], *rows):
        yield laid_out(heads, row, sizes, numbers)


def laid_out(
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


SEPARATOR = " · "
"""Between the parts of a sentence of figures."""

DIGITS = 4
"""Hexadecimal digits of a variant's id in a label; more where two share them."""

OWN = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Triton's options, listed after the kernel's own constants."""

FORMATTED_APART = ("flags", "target")
"""Settings that are not written as a name and a value."""

_SHORT = {"num_warps": "w", "num_stages": "s", "num_ctas": "c", "maxnreg": "maxnreg="}
_GENERATED = re.compile(r"triton_[a-z]+_fused_")
"""Prefix of Inductor's kernel names (``torch/_inductor/codegen/triton.py``)."""

MIN_WIDTH = 8
"""Cells of a name below which it keeps no tail and no number."""


# -- kernels ------------------------------------------------------------------------------------


def under(kernel: Kernel) -> str:
    """Return a kernel's heading in lists: its maker if foreign, else its origin."""
    maker = next((v.maker for v in kernel.variants if v.maker is not None), None)
    return shown(maker) if maker is not None else kernel.origin.value


# -- variants -------------------------------------------------------------------------------------


class VariantLabel(Struct, frozen=True):
    """A variant's differing settings (may be "") and the unique first digits of its id.

    ``brief`` shortens the names of constants.
    """

    told: str
    ident: str
    brief: str = ""

    def __str__(self) -> str:
        return f"{self.told} {self.ident}".strip()

    @property
    def short(self) -> str:
        """The short form: ``M64 N128 w4 ff3a``."""
        return f"{self.brief or self.told} {self.ident}".strip()


def setting(key: str, value: object) -> str:
    """One entry of a configuration, short: ``w4``, ``s3``, ``BLOCK=1024``."""
    if isinstance(value, list | tuple):
        value = " ".join(str(item) for item in value)
    return f"{_SHORT[key]}{value}" if key in _SHORT else f"{key}={value}"


def configuration(config: Mapping[str, object], keys: Iterable[str]) -> str:
    return " ".join(setting(key, config[key]) for key in keys if config.get(key) is not None)


def differing(configurations: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    """Return the keys in which configurations differ, the kernel's own constants first."""
    keys = dict.fromkeys(key for one in configurations for key in one)
    names = [k for k in keys if len({repr(one.get(k, keys)) for one in configurations}) > 1]
    return (*(k for k in names if k not in OWN), *(k for k in OWN if k in names))


def specialised(variant: Variant, names: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return specializations of arguments (``n:16``, ``n=1``), of ``names`` only if given."""
    chosen = variant.specialization if names is None else dict.fromkeys(names)
    tags = ((name, granted(variant.specialization.get(name))) for name in chosen)
    return tuple(shown(f"{name}{tag}") for name, tag in tags if tag)


def labels(variants: Sequence[Variant]) -> list[VariantLabel]:
    """Return a label for each variant with the settings in which they differ."""
    keys = [key for key in differing([v.config for v in variants]) if key not in FORMATTED_APART]
    given = [v.config.get("flags") for v in variants]
    flags = [[str(f) for f in one] if isinstance(one, list | tuple) else [] for one in given]
    common = set(flags[0]).intersection(*flags) if flags else set()
    types = differing([_types(v) for v in variants])
    taken = differing([{n: granted(s) for n, s in v.specialization.items()} for v in variants])
    targets = [str(v.config.get("target") or v.target or "") for v in variants]
    tiles = [tile(v.config, v.tile) for v in variants]
    if all(tiles) and len(set(tiles)) > 1:
        keys = [key for key in keys if key not in TILE]
    else:
        tiles = [""] * len(variants)
    constants = [key for key in keys if key not in OWN]
    out = []
    ids = {v.id for v in variants}
    digits = DIGITS
    while len({one[:digits] for one in ids}) < len(ids):
        digits += 1
    for variant, size, own, target in zip(variants, tiles, flags, targets, strict=True):
        config = variant.config
        chosen = [key for key in keys if config.get(key) is not None]
        rest = _few([f"{name}:{kind}" for name, kind in _types(variant).items() if name in types])
        rest += _few(specialised(variant, (n for n in taken if n not in config)))
        rest += _few([flag for flag in own if flag not in common])
        rest += [target] if target and len(set(targets)) > 1 else []
        sizes = [size] if size else []
        whole = " ".join([*sizes, *(setting(key, config[key]) for key in chosen), *rest])
        short = " ".join([*sizes, *(_brief(key, config[key], constants) for key in chosen), *rest])
        out.append(VariantLabel(shown(whole), shown(variant.id[:digits]), shown(short)))
    return out


def _brief(key: str, value: object, constants: Sequence[str]) -> str:
    """``M64`` of ``BLOCK_M=64`` beside ``BLOCK_N``; ``1024`` of the only constant."""
    if key in OWN or not isinstance(value, int | float) or isinstance(value, bool):
        return setting(key, value)
    if len(constants) == 1:
        return str(value)
    stems = {name.rpartition("_")[0] for name in constants}
    if len(stems) > 1 or "" in stems:
        return f"{key}={value}"
    return f"{key.rpartition('_')[2]}{value}"


def _types(variant: Variant) -> Mapping[str, str]:
    return {name: kind for name, kind in variant.signature.items() if kind != "constexpr"}


def _few(parts: Sequence[str]) -> list[str]:
    """Return the first part and the number of others."""
    return list(parts) if len(parts) < 2 else [parts[0], f"+{len(parts) - 1}"]


# -- long names -----------------------------------------------------------------------------------


def apart(names: Iterable[str], width: int) -> dict[str, str]:
    """Return each name in at most ``width`` cells; equal results are numbered (``~2``)."""
    given = list(dict.fromkeys(names))
    out: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for name in sorted(given, key=lambda name: cell_len(name) > width):
        short = text = _shortened(name, width)
        if seen[text] and MIN_WIDTH <= width < 2 * MIN_WIDTH:  # its end may tell it from others
            short = text = set_cell_size(f"{name[:2]}…{name[3 - width :]}", width).rstrip()
        while seen[text] and width >= MIN_WIDTH:
            seen[short] += 1
            end = f"~{seen[short]}"
            text = set_cell_size(short, width - len(end)) + end
        seen[text] += 1
        out[name] = text
    return {name: out[name] for name in given}


def _shortened(name: str, width: int) -> str:
    """Return a name's head and tail; if narrow, its head, or the last words of Inductor's names."""
    if cell_len(name) <= width:
        return name
    tail = ""
    if name.lstrip().startswith("#"):  # a title, which begins with what tells it from others
        return set_cell_size(name, width - 1) + "…"
    if width >= 2 * MIN_WIDTH:
        tail = name[-(width // 2) :]
    elif _GENERATED.match(name):
        tail = name[max(1, width // 4) - width :]
        tail = tail[tail.find("_") + 1 :]
    text = f"{name[: width - 1 - len(tail)]}…{tail}"
    return text if cell_len(text) <= width else set_cell_size(name, width - 1) + "…"


Figures = Callable[[Variant], Resources]
Clock = Callable[[Kernel, Variant], str]
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


def config(variant: Variant, first: Sequence[str] = ()) -> str:
    """Return warps, stages and constexprs, short; ``first`` are listed before other constexprs."""
    known = {name: variant.config[name] for name in first if name in variant.config}
    known |= variant.config
    # max-autotune's name of a candidate comes last.
    return brief(known | {"choice": None}, known.get("choice"), by_ttgir=variant.tile)


def brief(config: Mapping[str, object], *last: object, by_ttgir: str | None = None) -> str:
    """Return settings, short: the tile of a product, warps and stages, then all others."""
    sizes = tile(config, by_ttgir)
    rest = [name for name in config if name not in OWN and name != "flags"]
    names = [*OWN, *(name for name in rest if not sizes or name not in TILE)]
    told = [(name, config.get(name)) for name in names]
    parts = [setting(k, v) for k, v in told if v is not None and (k, v) != ("num_ctas", 1)]
    return " ".join([*filter(None, [sizes]), *parts, *(f"choice={one}" for one in last if one)])


def heading(rec: Recording) -> str:
    device = rec.device or {}
    where = str(device.get("name") or "") if rec.mode == "gpu" else ""
    if rec.mode == "target":
        where = f"compiled for {rec.target}, not run on a GPU"
    parts = [
        plural(len(rec.kernels), "kernel"),
        plural(len(rec.variants()), "variant"),
        *([plural(len(rec.graphs), "graph")] if rec.graphs else []),
        *([f"{len(rec.uncaptured)} not captured"] if rec.uncaptured else []),
        *([f"{count} failed"] if (count := failed(rec)) else []),
    ]
    without = f"without {' and '.join(rec.removed)}" if rec.removed else ""
    ended = ended_by(rec.exit_status) if rec.complete else "unfinished"
    return " · ".join(p for p in (where, ", ".join(parts), without, ended) if p)


def failed(rec: Recording) -> int:
    refused = sum(variant.error is not None for _, variant in rec.variants())
    return refused + sum(graph.error is not None for graph in rec.graphs)


def tuned(variant: Variant) -> str:
    """Return what autotuning said of a variant: ``★`` chosen, pruned or failed; "" if nothing."""
    said = variant.autotune or {}
    if said.get("winner") is True:
        return "★"
    why = str(said.get("reason") or "").partition(":")[0]
    return why if why in ("pruned", "failed") else ""


NUMBERS = ("regs", "spill", "stack", "shared", "µs", "hints")
HEADS = ("kernel", "variant", "configuration", "tuned", *NUMBERS, "stages")
SPILLS = HEADS.index("spill")
WHERE_KNOWN = ("tuned", "µs", "hints")
"""Columns left out if empty in every row."""
GIVES = (
    *(("kernel", 48), ("configuration", 40), ("stages", 0), ("kernel", 28), ("configuration", 32)),
    *(("configuration", 16), ("kernel", 14), ("configuration", 0), ("stack", 0), ("hints", 0)),
    *(("shared", 0), ("spill", 0), ("tuned", 0), ("variant", 0), ("µs", 0), ("kernel", 4)),
)
"""How columns give room: names stay readable as long as the stages are shown."""


def kernels(
    rec: Recording,
    figures: Figures,
    width: int,
    time: Clock = lambda kernel, variant: "",
    hints: Clock = lambda kernel, variant: "",
) -> Group:
    """Return the table of kernels and variants, grouped by origin.

    Args:
        figures: the resources of a variant.
        time: µs of its launch with their mark; "" if unknown.
        hints: the number of its hints; "" if not counted.
    """
    named = {kernel.id: f"  {shown(kernel.called)}" for kernel in rec.kernels}
    named |= {name: f"  {text}" for name, text in titles(rec).items()}
    rows: list[tuple[str, ...]] = []
    for heading in dict.fromkeys(map(under, rec.kernels)):
        rows.append((heading, *[""] * (len(HEADS) - 1)))
        for kernel in rec.kernels:
            if under(kernel) == heading:
                rows += _of_kernel(kernel, named[kernel.id], figures, time, hints)
    full = {
        head: max([len(head), *(cell_len(row[n]) for row in rows)])
        for n, head in enumerate(HEADS)
        if head not in WHERE_KNOWN or any(row[n] for row in rows)
    }
    sizes = fit(full, width, GIVES)
    names = apart(named.values(), sizes["kernel"])
    lines = [laid_out(HEADS, [(head, "bold") for head in HEADS], sizes, NUMBERS)]
    for row in rows:
        cells: list[Cell] = [names.get(row[0], row[0]), *row[1:]]
        if not any(row[1:]):
            cells[0] = (row[0], "bold cyan")
        if row[SPILLS] not in (UNKNOWN, "0", ""):
            cells[SPILLS] = (row[SPILLS], "bold red")
        lines.append(laid_out(HEADS, cells, sizes, NUMBERS))
    return Group(*lines)


def _of_kernel(
    kernel: Kernel,
    name: str,
    figures: Figures,
    time: Clock,
    hints: Clock,
) -> Iterator[tuple[str, ...]]:
    if not kernel.variants:
        yield (name, "", "no variant here", *[""] * (len(HEADS) - 3))
    first = differing([variant.config for variant in kernel.variants])
    for n, variant in enumerate(kernel.variants):
        res = figures(variant)
        yield (
            "" if n else name,
            shown(variant.id) + (FAILED if variant.error is not None else ""),
            shown(config(variant, first)),
            tuned(variant),
            figure(res.registers),
            spills(res),
            figure(res.stack_bytes),
            shared(res),
            time(kernel, variant),
            hints(kernel, variant),
            " ".join(s.value for s in ordered(variant.stages)),
        )


def lacking(rec: Recording) -> list[str]:
    """Return each reason for a missing PTX or SASS once."""
    out = by_key(
        (f"no {stage.value}: {why}", kernel.called)
        for kernel, variant in rec.variants()
        for stage in (Stage.PTX, Stage.SASS)
        if not variant.uncompiled and stage not in variant.stages
        if stage is Stage.SASS or kernel.origin not in (Origin.FILE, Origin.EXTERN)
        if (why := variant.missing.get(stage))
    )
    return [f"{', '.join(dict.fromkeys(names))}: {why}" for why, names in out.items()]


def never_ran(rec: Recording) -> list[str]:
    """Return a sentence for each variant and graph that failed to compile or load."""
    placed = by_key(
        (f"{v.id} {'did not compile' if v.uncompiled else 'never ran'}: {v.failed}", k.called)
        for k, v in rec.variants()
        if v.error is not None
    )
    of_kernels = [f"{', '.join(names)} {why}" for why, names in placed.items()]
    return of_kernels + [
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


def problems(rec: Recording, console: Console) -> None:
    texts = (*lacking(rec), *never_ran(rec), *rec.problems)
    for text in texts[:MAX_PROBLEMS]:
        console.print(Text("! " + shown(text), style="yellow"))
    if (more := len(texts) - MAX_PROBLEMS) > 0:
        more_problems = plural(more, "more problem")
        console.print(Text(f"! {more_problems}: ptxview list --json has all", style="yellow"))


def beside(
    left: Iterable[Line],
    right: Mapping[int, Line],
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
    for line in left:
        linked = [n for n in links.get(line.n, ()) if n in right]
        fresh = [n for n in linked if n not in placed]
        placed.update(fresh)
        again = ", ".join(str(n) for n in linked if n not in fresh)
        rows = [(str(n), Text(clean(right[n].text))) for n in fresh]
        first = (str(line.n), Text(clean(line.text)))
        for row in rows or [("", Text(f"↑ {again}" if again else "", style="dim"))]:
            table.add_row(*first, *row)
            first = ("", Text())
    return table


def clean(text: str) -> str:
    """Return a line with tabs as spaces, visible controls and no carriage return."""
    return shown(text.rstrip("\r").expandtabs(8))


MENDED = (Stage.PTX, Stage.LLIR, Stage.TTGIR, Stage.TTIR)
"""Stages from which ``try`` goes on, the last first."""
MAX_MESSAGES = 12
"""Messages shown one by one."""


def how(variant: Variant) -> str | None:
    """``did not compile: square.py:5:28: …``; None of one that was compiled and could be loaded."""
    error = variant.error
    return None if error is None else shown(f"{error.outcome}: {error.summary}")


def refused(error: Failure) -> str:
    """``shared memory 512 KiB > 227 KiB``: what was needed and what the device has; "" where the
    driver did not say."""
    if error.resource is None or error.required is None or error.limit is None:
        return ""
    told = kibibytes if "memory" in error.resource else str
    return shown(f"{error.resource} {told(error.required)} > {told(error.limit)}")


def sentence(kernel: Kernel, variant: Variant) -> str | None:
    """``square did not compile: square.py:5:28: …``; None of one that was compiled."""
    said = how(variant)
    return None if said is None else f"{shown(kernel.called)} {variant.id} {said}"


def need_compiled(kernel: Kernel, variant: Variant) -> None:
    """Raise ``UsageError`` where a compiler refused it: there is nothing that could be run."""
    said = sentence(kernel, variant)
    if said is not None and variant.uncompiled:
        last = next((stage.value for stage in MENDED if stage in variant.stages), None)
        mend = f"; ptxview try {variant.id} --stage {last} FILE goes on from a mended text"
        there = f"ptxview show {variant.id} shows what there is of it"
        raise UsageError(said, f"{there}{mend if last else ''}.")


def lines(kernel: Kernel, variant: Variant) -> Iterator[str]:
    """The sentence, then all that was said with its lines, the command, and what there is."""
    error, said = variant.error, sentence(kernel, variant)
    if error is not None and said is not None:
        yield said
        yield from details(error)
        there = ", ".join(stage.value for stage in ordered(variant.stages))
        if there and not error.at_load:
            yield f"it came to these stages: {there}"


def of_graph(graph: Graph) -> Iterator[str]:
    if graph.error is not None:
        yield shown(f"graph {graph.id} did not compile: {graph.error.summary}")
        yield from details(graph.error)


def details(error: Failure) -> Iterator[str]:
    """The line of text that was complained of, the other messages, the command that failed."""
    first = error.first
    if first is not None and first.text:
        yield f"  {shown(first.text.strip())}"
    others = [message for message in error.messages if message is not first]
    for message in others[:MAX_MESSAGES]:
        yield shown(f"  {message.severity}: {message.sentence}")
        if message.text:
            yield f"    {shown(message.text.strip())}"
    if len(others) > MAX_MESSAGES:
        yield f"  … {plural(len(others) - MAX_MESSAGES, 'more message')}"
    if error.command is not None:
        yield f"  the command: {shown(error.command)}"
