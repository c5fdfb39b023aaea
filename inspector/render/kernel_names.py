"""Names of kernels beside each other: what tells them apart is what is seen, at every width."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, set_cell_size

from inspector.base.escapes import shown
from inspector.base.grouping import by_key
from inspector.base.model import Kernel, Recording
from inspector.base.names import argument_types, at_commas, template_arguments
from inspector.render.tables import is_generated, title

MIN_WIDTH = 8
"""Cells of a name below which it keeps no tail and no number."""
MIN_HEAD = 4
"""Cells of a name's beginning before a part that is cut itself."""
_GENERATED = re.compile(r"triton_[a-z]+_fused_")
"""Prefix of Inductor's kernel names (``torch/_inductor/codegen/triton.py``)."""
_TOKEN = re.compile(r"[A-Za-z]+|\d+|.")
_TILE = re.compile(r"\d{1,5}x\d{1,5}(?:x\d{1,5}){0,4}(?:_\d{1,5}x\d{1,5}){0,4}")
"""``64x128_64x8`` of a library's product: its tile, and its stages."""
_QUALIFIER = re.compile(r"\(anonymous namespace\)::|\b[A-Za-z_]\w*::")
"""``at::native::`` before a name."""


def titles(rec: Recording, with_launches: bool = True) -> dict[str, str]:
    """The titles of generated kernels, and names of kernels whose own is another's, by id.

    No two titles are alike. Of instances of one template the arguments in which they differ.
    """
    titles_by_id = {
        kernel.id: title(kernel, with_launches) for kernel in rec.kernels if is_generated(kernel)
    }
    counts = Counter(titles_by_id.values())
    names_by_id = {
        name: text if counts[text] == 1 else f"{text} · {shown(name[-24:])}"
        for name, text in titles_by_id.items()
    }
    untitled = [kernel for kernel in rec.kernels if kernel.id not in titles_by_id]
    for siblings in by_key((kernel.display_name, kernel) for kernel in untitled).values():
        if len({kernel.demangled for kernel in siblings}) > 1 or _is_cut(siblings[0]):
            names = instance_names(siblings)
            names_by_id |= dict(zip((kernel.id for kernel in siblings), names, strict=True))
    return names_by_id


def _is_cut(kernel: Kernel) -> bool:
    return kernel.display_name.endswith("…")


def instance_names(kernels: Sequence[Kernel]) -> list[str]:
    """Return the names of instances of one template, ``kernel<FillFunctor<float>>``, or of
    functions of one name, ``kernel(float*)``."""
    if _is_cut(kernels[0]):
        return [shown(kernel.demangled.partition("(")[0]) for kernel in kernels]
    arguments = list(map(_arguments, kernels))
    heads = [list(map(_head, row)) for row in arguments]
    full = [list(map(_without_spaces, row)) for row in arguments]
    rows = heads if _are_told_apart(heads) else full
    places = _telling_places(rows)
    if not places:
        return [shown(kernel.display_name) for kernel in kernels]
    names = [kernel.display_name.partition("<")[0] for kernel in kernels]
    opening, closing = "<>" if template_arguments(kernels[0].demangled) else "()"
    return [
        shown(f"{name}{opening}{','.join(row[place] for place in places)}{closing}")
        for name, row in zip(names, rows, strict=True)
    ]


def _are_told_apart(rows: Sequence[Sequence[str]]) -> bool:
    places = _telling_places(rows)
    return len({tuple(row[place] for place in places) for row in rows}) == len(rows)


def _arguments(kernel: Kernel) -> list[str]:
    """The arguments of a template without namespaces, else the types of a function's."""
    inner = template_arguments(kernel.demangled)
    arguments = at_commas(inner, "(<[{", ")>]}") if inner else argument_types(kernel.demangled)
    return [_QUALIFIER.sub("", argument) for argument in arguments]


def _head(argument: str) -> str:
    """``BinaryOpFunctor`` of ``BinaryOpFunctor<float, 1>``."""
    return argument.partition("<")[0].partition("(")[0]


def _without_spaces(argument: str) -> str:
    return re.sub(r" ?([,<>]) ?", r"\1", argument)


def _telling_places(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the fewest places at which rows differ, the most distinctive first, then in order."""
    places: list[int] = []
    columns = range(min(map(len, rows)))
    groups = 1
    while groups < len(rows):
        sizes = {
            place: len({tuple(row[p] for p in (*places, place)) for row in rows})
            for place in columns
        }
        best = max(sizes, key=lambda place: sizes[place], default=None)
        if best is None or sizes[best] <= groups:
            break
        places.append(best)
        groups = sizes[best]
    return sorted(places)


# -- in a width -----------------------------------------------------------------------------------


def distinct_names(names: Iterable[str], width: int) -> dict[str, str]:
    """Return each name in at most ``width`` cells; equal results are numbered (``~2``)."""
    distinct = list(dict.fromkeys(names))
    shortened = dict(_shortened_names(distinct, width))
    out: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for name in sorted(distinct, key=lambda name: cell_len(name) > width):
        short = text = shortened[name]
        if counts[text] and MIN_WIDTH <= width < 2 * MIN_WIDTH:  # its end may tell it from others
            short = text = set_cell_size(f"{name[:2]}…{name[3 - width :]}", width).rstrip()
        while counts[text] and width >= MIN_WIDTH:
            counts[short] += 1
            end = f"~{counts[short]}"
            text = set_cell_size(short, width - len(end)) + end
        counts[text] += 1
        out[name] = text
    return {name: out[name] for name in distinct}


def _shortened_names(names: Sequence[str], width: int) -> Iterator[tuple[str, str]]:
    """Yield each name and a text for it: of names that begin alike the part that differs."""
    families = by_key((_family(name), name) for name in names)
    for family in families.values():
        prefix, suffix = common_ends(family)
        for name in family:
            if cell_len(name) <= width:
                yield name, name
            elif (
                _is_title(name)
                or width < MIN_WIDTH
                or (width < 2 * MIN_WIDTH and _GENERATED.match(name))
            ):
                yield name, _shortened(name, width)
            elif len(family) > 1:
                yield name, _around(name, prefix, len(name) - suffix, width)
            elif tile := _TILE.search(name, width // 2):
                yield name, _around(name, *tile.span(), width)
            else:
                yield name, _shortened(name, width)


def _keeps_an_end(name: str, width: int) -> bool:
    """Whether a name's beginning or its last words tell it from others."""
    return _is_title(name) or (width < 2 * MIN_WIDTH and _GENERATED.match(name) is not None)


def _is_title(name: str) -> bool:
    """Whether a name begins with what tells it from others."""
    return name.lstrip().startswith("#")


def _family(name: str) -> str:
    """The first word: names of one library or of one function."""
    match = re.match(r"\s*_*[A-Za-z]*", name)
    return "" if match is None else match[0]


def common_ends(names: Sequence[str]) -> tuple[int, int]:
    """Return the lengths of the words that all names begin and end with."""
    rows = [_TOKEN.findall(name) for name in names]
    least = min(map(len, rows))
    heads = _equal_columns(rows, least)
    tails = _equal_columns([row[::-1] for row in rows], least - heads)
    prefix = sum(map(len, rows[0][:heads]))
    suffix = sum(map(len, rows[0][len(rows[0]) - tails :]))
    return prefix, suffix


def _equal_columns(rows: Sequence[Sequence[str]], limit: int) -> int:
    """How many columns from the first have one value in all rows."""
    for place in range(limit):
        if any(row[place] != rows[0][place] for row in rows):
            return place
    return limit


def _around(name: str, start: int, end: int, width: int) -> str:
    """Return the part of a name from ``start`` to ``end`` with as much around it as fits."""
    core = name[start:end]
    suffix = name[end:]
    left = "…" if start else ""
    right = "…" if suffix else ""
    room = width - len(core) - len(left + right)
    if room < 0:
        if start > MIN_HEAD and width > 3 * MIN_WIDTH:
            left = f"{name[:MIN_HEAD]}…"
        room = width - len(left + right)
        return f"{left}{core[: room - room // 2 - 1]}…{core[len(core) - room // 2 :]}{right}"
    head_cells = width - len(core + suffix) - 1
    if start and head_cells >= (min(start, MIN_HEAD) if suffix else 0):
        return f"{name[:head_cells]}…{core}{suffix}"
    if start <= room + len(left):
        return f"{name[: width - 1]}…"
    return f"{name[:room]}{left}{core}{right}"


def _shortened(name: str, width: int) -> str:
    """Return a name's head and tail; if narrow, its head, or the last words of Inductor's names."""
    if cell_len(name) <= width:
        return name
    tail = ""
    if _is_title(name):
        return set_cell_size(name, width - 1) + "…"
    if width >= 2 * MIN_WIDTH:
        tail = name[-(width // 2) :]
    elif _GENERATED.match(name):
        tail = name[max(1, width // 4) - width :]
        tail = tail[tail.find("_") + 1 :]
    text = f"{name[: width - 1 - len(tail)]}…{tail}"
    return text if cell_len(text) <= width else set_cell_size(name, width - 1) + "…"
