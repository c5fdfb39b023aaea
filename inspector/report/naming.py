"""Labels of variants by the settings in which they differ; long names cut to a width."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from inspector.base.model import Kernel, Variant
from inspector.base.names import granted
from inspector.base.text import shown

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


@dataclass(frozen=True, slots=True)
class VariantLabel:
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


def differing(configurations: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    """Return the keys in which configurations differ, the kernel's own constants first."""
    keys = dict.fromkeys(key for one in configurations for key in one)
    first = configurations[0] if configurations else {}
    missing = object()
    names = [
        key
        for key in keys
        if any(one.get(key, missing) != first.get(key, missing) for one in configurations)
    ]
    return tuple(k for k in names if k not in OWN) + tuple(k for k in OWN if k in names)


def specialised(variant: Variant, names: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return specializations of arguments (``n:16``, ``n=1``), of ``names`` only if given."""
    chosen = variant.specialization if names is None else dict.fromkeys(names)
    tags = ((name, granted(variant.specialization.get(name))) for name in chosen)
    return tuple(shown(f"{name}{tag}") for name, tag in tags if tag)


def labels(variants: Sequence[Variant]) -> list[VariantLabel]:
    """Return a label for each variant with the settings in which they differ."""
    keys = [key for key in differing([v.config for v in variants]) if key not in FORMATTED_APART]
    flags = _own_flags([v.config.get("flags") for v in variants])
    types = differing([_types(v) for v in variants])
    taken = differing([{n: granted(s) for n, s in v.specialization.items()} for v in variants])
    targets = [str(v.config.get("target") or v.target or "") for v in variants]
    idents = _idents([v.id for v in variants])
    constants = [key for key in keys if key not in OWN]
    out = []
    for variant, own, target, ident in zip(variants, flags, targets, idents, strict=True):
        chosen = [key for key in keys if variant.config.get(key) is not None]
        parts = [setting(key, variant.config[key]) for key in chosen]
        brief = [_brief(key, variant.config[key], constants) for key in chosen]
        begun = len(parts)
        parts += _few([f"{name}:{kind}" for name, kind in _types(variant).items() if name in types])
        parts += _few(specialised(variant, (n for n in taken if n not in variant.config)))
        parts += _few(own)
        if target and len(set(targets)) > 1:
            parts.append(target)
        short = " ".join(brief + parts[begun:])
        out.append(VariantLabel(shown(" ".join(parts)), shown(ident), shown(short)))
    return out


def _brief(key: str, value: object, constants: Sequence[str]) -> str:
    """``M64`` of ``BLOCK_M=64`` beside ``BLOCK_N``; ``1024`` of the only constant."""
    if key in OWN or not isinstance(value, int | float) or isinstance(value, bool):
        return setting(key, value)
    if len(constants) == 1:
        return str(value)
    stems = {name.rpartition("_")[0] for name in constants}
    begin = len(stems.pop()) + 1 if len(stems) == 1 and "" not in stems else 0
    return f"{key[begin:]}{'' if begin else '='}{value}"


def _types(variant: Variant) -> Mapping[str, str]:
    return {name: kind for name, kind in variant.signature.items() if kind != "constexpr"}


def _few(parts: Sequence[str]) -> list[str]:
    """Return the first part and the number of others."""
    return list(parts) if len(parts) < 2 else [parts[0], f"+{len(parts) - 1}"]


def _own_flags(flags: Sequence[object]) -> list[list[str]]:
    """Return the flags of each variant that not all have."""
    sets = [[str(f) for f in one] if isinstance(one, list | tuple) else [] for one in flags]
    many = Counter(flag for one in sets for flag in set(one))
    return [[flag for flag in one if many[flag] < len(sets)] for one in sets]


def _idents(idents: Sequence[str]) -> list[str]:
    """Return the shortest prefixes of ids, of ``DIGITS`` or more, that tell them apart."""
    for size in range(DIGITS, max(map(len, idents), default=DIGITS) + 1):
        if len({ident[:size] for ident in idents}) == len(set(idents)):
            return [ident[:size] for ident in idents]
    return list(idents)


# -- long names -----------------------------------------------------------------------------------


def apart(names: Iterable[str], width: int) -> dict[str, str]:
    """Return each name in at most ``width`` cells; equal results are numbered (``~2``)."""
    given = list(dict.fromkeys(names))
    out: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for name in sorted(given, key=lambda name: cell_len(name) > width):
        short = text = _shortened(name, width)
        while seen[text] and width > MIN_WIDTH:
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
    if width >= 2 * MIN_WIDTH:
        tail = name[-(width // 2) :]
    elif _GENERATED.match(name):
        tail = name[max(1, width // 4) - width :]
        tail = tail[tail.find("_") + 1 :]
    text = f"{name[: width - 1 - len(tail)]}…{tail}"
    return text if cell_len(text) <= width else set_cell_size(name, width - 1) + "…"
