"""Labels of variants: the settings in which siblings differ, fitted into a width."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct
from rich.cells import cell_len, set_cell_size

from inspector.base.escapes import shown
from inspector.base.model import Variant
from inspector.base.names import granted
from inspector.render.tables import (
    TILE,
    TRITON_OPTIONS,
    config_text,
    cut,
    differing,
    setting,
    tile,
)

DIGITS = 4
"""Hexadecimal digits of a variant's id in a label; more where two share them."""

FORMATTED_SETTINGS = ("flags", "target")
"""Settings that are not written as a name and a value."""

SHAPES = ("dot", "block", "descriptor")
"""Traits that come before the options of the compiler."""

MIN_NAME = 4
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
    digits = _id_digits({variant.id for variant in variants})
    full_rows = []
    brief_rows = []
    more = []
    for variant, tile_size, other in zip(variants, tiles, _other_parts(variants), strict=True):
        config = {key: variant.config[key] for key in keys if variant.config.get(key) is not None}
        shapes = _shapes(variant)
        head = [tile_size, *shapes] if has_tiles else shapes
        full_rows.append([*head, *(setting(*item) for item in config.items()), *other])
        brief_rows.append([*head, *(_brief(*item, constants) for item in config.items()), *other])
        more.append([*shapes, *other])
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
            more=_joined(filter(_is_no_count, more[index])),
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

    Of types, specializations and flags those by which the variants are told apart, and the number
    of the others.
    """
    flags = [set(_flags(variant)) for variant in variants]
    common_flags = set.intersection(*flags) if flags else set()
    kinds: tuple[list[dict[str, str]], ...] = (
        [_types(variant) for variant in variants],
        [_specialization_texts(variant) for variant in variants],
        [{f: f for f in _flags(variant) if f not in common_flags} for variant in variants],
    )
    settings: list[object] = [
        (repr(sorted(variant.config.items())), _target(variant), *variant.traits.values())
        for variant in variants
    ]
    parts: list[list[str]] = [[] for _ in variants]
    for rows in kinds:
        keys = differing(rows)
        chosen, settings = _telling(keys, rows, settings)
        for row, texts in zip(rows, parts, strict=True):
            texts += _chosen_and_count([row[key] for key in keys if row.get(key)], row, chosen)
    has_targets = len(set(map(_target, variants))) > 1
    for variant, texts in zip(variants, parts, strict=True):
        remaining = [text for key, text in variant.traits.items() if key not in SHAPES]
        texts += filter(None, [_target(variant) if has_targets else "", *remaining])
    return parts


def _telling(
    keys: Iterable[str], rows: Sequence[Mapping[str, str]], groups: list[object]
) -> tuple[list[str], list[object]]:
    """Return the keys by which rows of one group differ, and the finer groups."""
    chosen = []
    for key in sorted(keys, key=len):
        finer: list[object] = [
            (group, row.get(key)) for group, row in zip(groups, rows, strict=True)
        ]
        if len(set(finer)) > len(set(groups)):
            chosen.append(key)
            groups = finer
    return chosen, groups


def _chosen_and_count(
    texts: Sequence[str], row: Mapping[str, str], chosen: Collection[str]
) -> list[str]:
    """Return the texts of chosen keys, else the first, and the number of the others."""
    first = [row[key] for key in chosen if row.get(key)] or list(texts[:1])
    remaining = len(texts) - len(first)
    if remaining == 1:
        return [*first, *(text for text in texts if text not in first)] if chosen else [*texts]
    return [*first, f"+{remaining}"] if remaining else first


def _is_no_count(part: str) -> bool:
    return not part.startswith("+")


def _telling_parts(rows: Sequence[Sequence[str]], strongest: bool = False) -> list[list[str]]:
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
        alike = (1 << len(rows)) - 1 ^ 1 << index
        parts = list(filter(_is_no_count, row))
        chosen = set()
        while alike and parts:
            if strongest:
                parts.sort(key=lambda part: (alike & rows_with[part]).bit_count())
            part = parts.pop(0)
            if alike & rows_with[part] != alike:
                chosen.add(part)
                alike &= rows_with[part]
        telling.append([part for part in row if part in chosen])
    return telling


def _id_digits(ids: Collection[str]) -> int:
    """The least number of digits, ``DIGITS`` or more, by which ids are told apart."""
    digits = DIGITS
    while len({ident[:digits] for ident in ids}) < len(ids):
        digits += 1
    return digits


def _flags(variant: Variant) -> list[str]:
    """The compiler flags of an extension's build."""
    flags = variant.config.get("flags")
    return [str(flag) for flag in flags] if isinstance(flags, list | tuple) else []


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
    chosen = list(label.strongest)
    for part in label.parts:
        if part not in chosen and cell_len(" ".join((*chosen, part))) <= width:
            chosen.append(part)
    ordered = [part for part in label.parts if part in chosen]
    return " ".join((*ordered, *(part for part in chosen if part not in ordered)))


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
        kept = max(MIN_NAME, len(name) - excess - 1)
        parts[index] = f"{name[:kept]}…={value}"
    text = " ".join(parts)
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 1 else ""
