"""How variants and kernels are called beside each other: by what tells them apart.

What all of them share is left out, and a name that is too long for its place keeps the part in
which it differs from its neighbours.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.cells import cell_len, set_cell_size

from inspector.model import Kernel, Variant
from inspector.names import granted
from inspector.text import shown

DIGITS = 4
"""Hexadecimal digits of a variant's id beside what it is told by; more where two share them."""

OWN = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""What Triton decides, after the kernel's own constants."""

TOLD_APART = ("flags", "target")
"""What a label says in its own way, and not as a name and a value."""

_SHORT = {"num_warps": "w", "num_stages": "s", "num_ctas": "c", "maxnreg": "maxnreg="}
_GENERATED = re.compile(r"triton_[a-z]+_fused_")
"""How Inductor begins the names of its kernels (``torch/_inductor/codegen/triton.py``)."""

LEAST = 8
"""Characters of a long name that are shown of its beginning, where there is room."""

MOST = 2000
"""Names that are held against each other; of more, each is cut in its middle."""


# -- kernels ------------------------------------------------------------------------------------


def under(kernel: Kernel) -> str:
    """What a kernel is listed under: its origin, or the maker of one that came from elsewhere."""
    maker = next((v.maker for v in kernel.variants if v.maker is not None), None)
    return shown(maker) if maker is not None else kernel.origin.value


# -- variants -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VariantLabel:
    """What a variant is told by among others, "" where nothing is known that differs, and the
    first digits of its id, which no other of them has.

    ``brief`` is the same with names of constants left out as far as their values say it.
    """

    told: str
    ident: str
    brief: str = ""

    def __str__(self) -> str:
        return f"{self.told} {self.ident}".strip()

    @property
    def short(self) -> str:
        """Where there is little room: ``M64 N128 w4 ff3a``."""
        return f"{self.brief or self.told} {self.ident}".strip()


def setting(key: str, value: object) -> str:
    """One entry of a configuration, short: ``w4``, ``s3``, ``BLOCK=1024``."""
    if isinstance(value, list | tuple):
        value = " ".join(str(item) for item in value)
    return f"{_SHORT[key]}{value}" if key in _SHORT else f"{key}={value}"


def differing(configurations: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    """The keys of configurations by which they differ, a kernel's own constants first."""
    keys = dict.fromkeys(key for one in configurations for key in one)
    first = configurations[0] if configurations else {}
    names = [
        key
        for key in keys
        if any((key in one, one.get(key)) != (key in first, first.get(key))
               for one in configurations)
    ]  # fmt: skip
    return tuple(k for k in names if k not in OWN) + tuple(k for k in OWN if k in names)


def specialised(variant: Variant, names: Iterable[str] | None = None) -> tuple[str, ...]:
    """What the compiler took for granted of arguments: ``n:16`` is a multiple of 16, ``n=1`` one.

    ``names``: of these alone.
    """
    chosen = variant.specialization if names is None else dict.fromkeys(names)
    tags = ((name, granted(variant.specialization.get(name))) for name in chosen)
    return tuple(shown(f"{name}{tag}") for name, tag in tags if tag)


def labels(variants: Sequence[Variant]) -> list[VariantLabel]:
    """How each of these is told from the others."""
    keys = [key for key in differing([v.config for v in variants]) if key not in TOLD_APART]
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
    """``M64`` of ``BLOCK_M=64`` beside ``BLOCK_N``; ``1024`` of a number that stands alone."""
    if key in OWN or not isinstance(value, int | float) or isinstance(value, bool):
        return setting(key, value)
    if len(constants) == 1:
        return str(value)
    shared = min(_common(constants[0], other) for other in constants)
    begin = constants[0].rfind("_", 0, shared) + 1
    return f"{key[begin:]}{'' if begin else '='}{value}"


def _types(variant: Variant) -> Mapping[str, str]:
    return {name: kind for name, kind in variant.signature.items() if kind != "constexpr"}


def _few(parts: Sequence[str]) -> list[str]:
    """One of several things that go together, and how many more."""
    return list(parts) if len(parts) < 2 else [parts[0], f"+{len(parts) - 1}"]


def _own_flags(flags: Sequence[object]) -> list[list[str]]:
    """The flags of each that not all have."""
    sets = [[str(f) for f in one] if isinstance(one, list | tuple) else [] for one in flags]
    many = Counter(flag for one in sets for flag in set(one))
    return [[flag for flag in one if many[flag] < len(sets)] for one in sets]


def _idents(idents: Sequence[str]) -> list[str]:
    """The beginning of each id that no other one has, of ``DIGITS`` letters or more."""
    for size in range(DIGITS, max(map(len, idents), default=DIGITS) + 1):
        if len({ident[:size] for ident in idents}) == len(set(idents)):
            return [ident[:size] for ident in idents]
    return list(idents)


# -- names that are too long ----------------------------------------------------------------------


def apart(names: Iterable[str], width: int) -> dict[str, str]:
    """Each name in at most ``width`` cells, no two of them alike: one that is too long shows how it
    begins and where it begins to differ from those that are most like it."""
    own = list(dict.fromkeys(names))
    if width < 4:
        return {name: set_cell_size(name, min(width, cell_len(name))) for name in own}
    out = {name: name for name in own if cell_len(name) <= width}
    long = [name for name in own if name not in out]
    if len(own) > MOST:
        return out | {name: _windows(name, (), width) for name in long}
    marks: dict[str, set[int]] = {name: set() for name in long}
    # What is told apart by one place may look the same for want of another: those once more.
    left = [sorted(own)]
    crowded: set[str] = set()
    for _ in range(4):
        for alike in left:
            for name, at in _places(alike):
                if name in marks:
                    marks[name].add(at)
        shortened: dict[str, list[str]] = {}
        for name in own:
            text = out.get(name)
            if text is None:
                text = _windows(name, sorted(marks[name]), width, name in crowded)
            shortened.setdefault(text, []).append(name)
        left = [sorted(alike) for alike in shortened.values() if len(alike) > 1]
        if not left:
            break
        crowded.update(name for alike in left for name in alike)
    for text, alike in shortened.items():
        for n, name in enumerate(alike):
            end = f"~{n + 1}" if n and name in marks else ""
            out[name] = set_cell_size(text, width - len(end)) + end if end else text
    return {name: out[name] for name in own}


def _places(names: Sequence[str]) -> Iterable[tuple[str, int]]:
    """Where each of some sorted names begins to differ from the one that it shares most with."""
    shared = [_common(a, b) for a, b in pairwise(names)]
    for n, name in enumerate(names):
        yield name, max(shared[max(n - 1, 0) : n + 1], default=0)


def _common(a: str, b: str) -> int:
    """How many characters two names have in common from their beginnings on."""
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n


def _windows(name: str, marks: Sequence[int], width: int, crowded: bool = False) -> str:
    """``name`` in ``width`` cells: its beginning, and what follows each of the marked places.

    ``crowded``: the end alone does not tell it apart.
    """
    # Half of it is the beginning anyway; without a place after that, the end is the other half,
    # where there is room for two halves that can be read.
    if width < 2 * LEAST and marks:
        generated = None if crowded else _GENERATED.match(name)
        if generated is not None and max(marks) < generated.end() and name.isascii():
            return _last_words(name, generated.end(), width)
        if max(marks) < width // 2 - 1:
            return set_cell_size(name, width - 1) + "…"
    begins = [_word(name, at) for at in marks if at >= width // 2 - 1] or [len(name) - 1]
    head = min(LEAST, width // 3)

    def drawn(head: int, size: int, back: int = 0) -> str:
        *others, last = [(at, at + size) for at in begins]
        return _drawn(name, [(0, head), *others, (max(last[0] - back, 0), last[1])])

    def most(below: int, text: Callable[[int], str]) -> int:
        """The largest number up to there whose text has room: texts grow with it."""
        return bisect_left(range(1, below + 1), True, key=lambda n: cell_len(text(n)) > width)

    size = most(len(name), lambda n: drawn(head, n))
    if not size:
        return set_cell_size(name, width - 1) + "…"
    # What is left over goes to what stands before the last place, then to the beginning.
    spare = max(width // 2 - (min(begins[-1] + size, len(name)) - begins[-1]), 0)
    back = most(spare, lambda n: drawn(head, size, n))
    return drawn(head + most(len(name) - head, lambda n: drawn(head + n, size, back)), size, back)


def _last_words(name: str, first: int, width: int) -> str:
    """``tr…where_0``: the last words of a name from place ``first`` on, and as much of its
    beginning as there is room for.

    The beginning of a name that Inductor has made says what all of them are; what is fused comes
    after it, and a number that no other kernel of its graph has.
    """
    least = max(first, len(name) - width + 2)
    tail = name[next((at for at in range(least, len(name)) if name[at - 1] == "_"), least) :]
    return f"{name[: width - 1 - len(tail)]}…{tail}"


def _word(name: str, at: int) -> int:
    """Where the word begins that a place stands in, if that is not far."""
    begin = max(name.rfind("_", 0, at), name.rfind(":", 0, at), name.rfind("<", 0, at)) + 1
    return begin if at - begin <= LEAST else at


def _drawn(name: str, spans: Sequence[tuple[int, int]]) -> str:
    """These spans of a name, in their order, with an ellipsis for what is left out."""
    out, end = "", 0
    for first, last in sorted(spans):
        if first > end:
            # One character is as wide as the ellipsis.
            out += "…" if first > end + 1 else name[end:first]
        out += name[max(first, end) : last]
        end = max(end, min(last, len(name)))
    if end < len(name):
        out += "…" if end < len(name) - 1 else name[end:]
    return out
