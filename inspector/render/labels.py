"""Labels of variants: the settings in which siblings differ, fitted into a width."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from sys import maxsize

from msgspec import Struct
from rich.cells import cell_len, set_cell_size

from inspector.base.escapes import shown
from inspector.base.model import Kernel, Variant
from inspector.base.names import granted
from inspector.render.tables import (
    TILE,
    TRITON_OPTIONS,
    config_text,
    cut,
    differing,
    heading_of,
    setting,
    tile,
)

DIGITS = 4
"""Hexadecimal digits of a variant's id in a label; more where two share them."""

FORMATTED_SETTINGS = ("flags", "target")
"""Settings that are not written as a name and a value."""

SHAPES = ("dot", "block", "descriptor")
"""Traits that come before the options of the compiler."""

MIN_NAME = 2
"""Cells of a setting's name that stay where its value is to be seen."""


class VariantLabel(Struct, frozen=True):
    """A variant's differing settings (may be "") and the unique first digits of its id.

    ``short_settings`` shortens the names of constants; ``telling`` and ``short_telling`` have only
    what tells the variant from each of the others; ``parts`` are those of ``short_telling``,
    ``strongest`` the fewest that do. ``more`` are the differences that are no settings: types,
    specializations, flags, target and traits.
    """

    settings: str
    ident: str
    short_settings: str = ""
    telling: str = ""
    short_telling: str = ""
    parts: tuple[str, ...] = ()
    strongest: tuple[str, ...] = ()
    more: str = ""

    def __str__(self) -> str:
        return f"{self.settings} {self.ident}".strip()

    @property
    def short(self) -> str:
        """The short form: ``M64 N128 w4 ff3a``."""
        return f"{self.short_settings or self.settings} {self.ident}".strip()


def specializations(variant: Variant, names: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return specializations of arguments (``n:16``, ``n=1``), of ``names`` only if given."""
    arguments = variant.specialization if names is None else dict.fromkeys(names)
    tags = ((name, granted(variant.specialization.get(name))) for name in arguments)
    return tuple(shown(f"{name}{tag}") for name, tag in tags if tag)


def labels(variants: Sequence[Variant]) -> list[VariantLabel]:
    """Return a label for each variant with the settings in which they differ."""
    keys = differing([variant.config for variant in variants])
    tiles = [tile(variant.config, variant.tile) for variant in variants]
    has_tiles = all(tiles) and len(set(tiles)) > 1
    excluded = (*FORMATTED_SETTINGS, *(TILE if has_tiles else ()))
    keys = tuple(key for key in keys if key not in excluded)
    constants = [key for key in keys if key not in TRITON_OPTIONS]
    full_rows = []
    brief_rows = []
    differences = []
    for variant, tile_size, other in zip(variants, tiles, _other_parts(variants), strict=True):
        config = {key: variant.config[key] for key in keys if variant.config.get(key) is not None}
        shapes = _shapes(variant)
        head = [tile_size, *shapes] if has_tiles else shapes
        full_rows.append([*head, *(setting(*item) for item in config.items()), *other])
        brief_rows.append([*head, *(_brief(*item, constants) for item in config.items()), *other])
        differences.append([*shapes, *other])
    return _labels_of_rows(variants, full_rows, brief_rows, differences)


Rows = Sequence[Sequence[str]]
"""Parts of a label of each variant."""


def _labels_of_rows(
    variants: Sequence[Variant], full_rows: Rows, brief_rows: Rows, differences: Rows
) -> list[VariantLabel]:
    digits = _id_digits({variant.id for variant in variants})
    telling_rows = _telling_parts(full_rows)
    brief_telling_rows = _telling_parts(brief_rows)
    strongest_rows = _telling_parts(brief_rows, strongest=True)
    return [
        VariantLabel(
            settings=_joined(full_rows[index]),
            ident=shown(variant.id[:digits]),
            short_settings=_joined(brief_rows[index]),
            telling=_joined(telling_rows[index]),
            short_telling=_joined(brief_telling_rows[index]),
            parts=tuple(map(shown, brief_telling_rows[index])),
            strongest=tuple(map(shown, strongest_rows[index])),
            more=_joined(filter(_is_no_count, differences[index])),
        )
        for index, variant in enumerate(variants)
    ]


def _joined(parts: Iterable[str]) -> str:
    return shown(" ".join(parts))


def _shapes(variant: Variant) -> list[str]:
    """Traits that say what a variant works on; the others come last."""
    return [text for key, text in variant.traits.items() if key in SHAPES]


def _other_parts(variants: Sequence[Variant]) -> list[list[str]]:
    """Differing types, specializations, compiler flags, targets and traits of each variant.

    Of types, specializations and flags those that distinguish the variants, and the number
    of the others.
    """
    kinds = (
        list(map(_types, variants)),
        list(map(_specialization_texts, variants)),
        _flag_texts(variants),
    )
    groups: list[object] = [
        (repr(sorted(variant.config.items())), _target(variant), *variant.traits.values())
        for variant in variants
    ]
    parts: list[list[str]] = [[] for _ in variants]
    for rows in kinds:
        keys = differing(rows)
        telling_keys, groups = _telling_keys(keys, rows, groups)
        for row, texts in zip(rows, parts, strict=True):
            texts += _telling_and_count(row, keys, telling_keys)
    has_targets = len(set(map(_target, variants))) > 1
    for variant, texts in zip(variants, parts, strict=True):
        last_traits = [text for key, text in variant.traits.items() if key not in SHAPES]
        texts += filter(None, [_target(variant) if has_targets else "", *last_traits])
    return parts


def _telling_keys(
    keys: Iterable[str], rows: Sequence[Mapping[str, str]], groups: list[object]
) -> tuple[list[str], list[object]]:
    """Return the keys by which rows of one group differ, and the finer groups."""
    telling_keys = []
    for key in sorted(keys, key=len):
        finer: list[object] = [
            (group, row.get(key)) for group, row in zip(groups, rows, strict=True)
        ]
        if len(set(finer)) > len(set(groups)):
            telling_keys.append(key)
            groups = finer
    return telling_keys, groups


def _telling_and_count(
    row: Mapping[str, str], keys: Iterable[str], telling_keys: Iterable[str]
) -> list[str]:
    """Return a row's texts of the telling keys, else the first of ``keys``; count the others."""
    texts = [row[key] for key in keys if row.get(key)]
    first = [row[key] for key in telling_keys if row.get(key)] or texts[:1]
    remaining = len(texts) - len(first)
    return [*first, f"+{remaining}"] if remaining else first


def _is_no_count(part: str) -> bool:
    return not part.startswith("+")


def _telling_parts(rows: Rows, strongest: bool = False) -> list[list[str]]:
    """Return for each row the parts by which it differs from every other.

    ``strongest``: the fewest, those first that differ from most rows; else those that come first.
    """
    rows_with: dict[str, int] = {}
    """The rows that have a part, a bit each."""
    for index, row in enumerate(rows):
        for part in row:
            rows_with[part] = rows_with.get(part, 0) | 1 << index
    telling = []
    for index, row in enumerate(rows):
        undistinguished = (1 << len(rows)) - 1 ^ 1 << index
        parts = list(filter(_is_no_count, row))
        telling_parts = set()
        while undistinguished and parts:
            if strongest:
                parts.sort(key=lambda part: (undistinguished & rows_with[part]).bit_count())
            part = parts.pop(0)
            if undistinguished & rows_with[part] != undistinguished:
                telling_parts.add(part)
                undistinguished &= rows_with[part]
        telling.append([part for part in row if part in telling_parts])
    return telling


def _id_digits(ids: Collection[str]) -> int:
    """The least number of digits, ``DIGITS`` or more, that distinguishes ids."""
    digits = DIGITS
    while len({ident[:digits] for ident in ids}) < len(ids):
        digits += 1
    return digits


def _flags(variant: Variant) -> list[str]:
    """The compiler flags of an extension's build."""
    flags = variant.config.get("flags")
    return [str(flag) for flag in flags] if isinstance(flags, list | tuple) else []


def _flag_texts(variants: Sequence[Variant]) -> list[dict[str, str]]:
    """The flags of each variant that some others have not, by themselves."""
    flags = list(map(_flags, variants))
    common = set.intersection(*map(set, flags)) if flags else set()
    return [{flag: flag for flag in row if flag not in common} for row in flags]


def _target(variant: Variant) -> str:
    return str(variant.config.get("target") or variant.target or "")


def _specialization_texts(variant: Variant) -> dict[str, str]:
    """``n:16`` by the argument; not of constants, which are settings."""
    tags = {
        name: granted(value)
        for name, value in variant.specialization.items()
        if name not in variant.config
    }
    return {name: f"{name}{tag}" for name, tag in tags.items() if tag}


def _types(variant: Variant) -> dict[str, str]:
    """``x:*fp16`` by the argument."""
    return {n: f"{n}:{kind}" for n, kind in variant.signature.items() if kind != "constexpr"}


def _brief(key: str, value: object, constants: Sequence[str]) -> str:
    """``M64`` of ``BLOCK_M=64`` beside ``BLOCK_N``; ``1024`` of the only constant."""
    if key in TRITON_OPTIONS or not isinstance(value, int | float) or isinstance(value, bool):
        return setting(key, value)
    if len(constants) == 1:
        return str(value)
    stems = {name.rpartition("_")[0] for name in constants}
    if len(stems) > 1 or "" in stems:
        return f"{key}={value}"
    return f"{key.rpartition('_')[2]}{value}"


# -- in a width -----------------------------------------------------------------------------------


def sibling_settings(
    pairs: Sequence[tuple[Kernel, Variant]], names_by_id: Mapping[str, str], width: int = maxsize
) -> list[str]:
    """Return the settings of variants in which those of kernels of one name differ.

    Args:
        pairs: kernels and their variants.
        names_by_id: what kernels are called, by their ids.
        width: cells of a text at most; it is cut by who prints it.
    """
    families: dict[object, list[int]] = {}
    for index, (kernel, _) in enumerate(pairs):
        family = heading_of(kernel), names_by_id[kernel.id]
        families.setdefault(family, []).append(index)
    texts = [""] * len(pairs)
    for members in families.values():
        variants = [pairs[index][1] for index in members]
        first = differing([variant.config for variant in variants])
        for index, text in zip(members, settings_in(width, variants, first), strict=True):
            texts[index] = text
    return texts


def settings_in(width: int, variants: Sequence[Variant], first: Sequence[str]) -> list[str]:
    """Return the settings of siblings as a column of a table has them, no two alike.

    All settings where they fit and differ, else with the other differences, else the differences
    first, else those alone that tell a variant from the others, with shorter names if need be.
    Variants that nothing else tells apart have their ids. ``first`` are constants that come first.
    """
    full = [shown(config_text(variant, first)) for variant in variants]
    if _fit(full, width):
        return full
    variant_labels = labels(variants)
    telling = [label.short_telling for label in variant_labels]
    forms = [
        [f"{text} {label.more}".strip() for text, label in zip(full, variant_labels, strict=True)],
        _differences_first(full, variant_labels, width),
        [label.telling for label in variant_labels],
        telling,
        [_strongest_parts(label, width) for label in variant_labels],
        [shorten_settings(text, width) for text in telling],
    ]
    fitting = next((cells for cells in forms if _fit(cells, width)), None)
    if fitting is not None:
        return fitting
    if max(map(cell_len, full)) <= width:
        forms.insert(0, full)
    cells = max(forms, key=lambda cells: len({cut(cell, width) for cell in cells}))
    counts = Counter(cut(cell, width) for cell in cells)
    return [
        text
        if counts[cut(text, width)] == 1
        else f"{shorten_settings(text, width - len(label.ident) - 1)} {label.ident}".strip()
        for text, label in zip(cells, variant_labels, strict=True)
    ]


def _fit(cells: Sequence[str], width: int) -> bool:
    return len(set(cells)) == len(cells) and max(map(cell_len, cells), default=0) <= width


def _differences_first(
    full: Sequence[str], variant_labels: Sequence[VariantLabel], width: int
) -> list[str]:
    """The differing settings, and as many of the others as fit."""
    cells = []
    for text, label in zip(full, variant_labels, strict=True):
        differences = label.settings.split()
        common = [part for part in text.split() if part not in differences]
        longer = " ".join((*differences, *common))
        cells.append(cut(longer, max(width, cell_len(label.settings))))
    return cells


def _strongest_parts(label: VariantLabel, width: int) -> str:
    """Return what tells a variant apart, of that the strongest parts and as many others as fit."""
    parts = list(label.strongest)
    for part in label.parts:
        if part not in parts and cell_len(" ".join((*parts, part))) <= width:
            parts.append(part)
    ordered = [part for part in label.parts if part in parts]
    return " ".join((*ordered, *(part for part in parts if part not in ordered)))


def shorten_settings(text: str, width: int) -> str:
    """Return settings with shorter names where they are too long: ``BACKW…=False``.

    Values stay, for they are what differs; what does not fit even so is cut.
    """
    parts = text.split(" ")
    for index, part in enumerate(parts):
        excess = cell_len(" ".join(parts)) - width
        name, equals, value = part.partition("=")
        if excess <= 0 or not equals or len(name) <= MIN_NAME + 1:
            continue
        name_cells = max(MIN_NAME, len(name) - excess - 1)
        parts[index] = f"{name[:name_cells]}…={value}"
    text = " ".join(parts)
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 1 else ""
