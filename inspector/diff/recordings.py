"""The kernels of two recordings, paired: by name, by what they were compiled for, by their source.

Each variant is paired at most once, by the strictest of ``KEYS`` first. What no key pairs was added
or removed. A pair is the *same* if its PTX has one canonical form (names, registers and comments do
not count) and its machine code, where both have it, is alike byte for byte. Without PTX the machine
code decides, without either the lowest stage that both have, in its canonical form.
"""

import json
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct

from inspector.base.model import Kernel, Variant
from inspector.base.names import base_name

T = TypeVar("T")
_NUMBER = re.compile(r"_\d+$")


class ChangeKind(StrEnum):
    SAME = "same"
    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"


class RecordedVariant(Struct, frozen=True):
    """A variant of a recording; ``source`` is a digest of the kernel's own source, if known."""

    kernel: Kernel
    variant: Variant
    source: bytes | None = None


Pair = tuple[RecordedVariant | None, RecordedVariant | None]
"""Two variants that belong together, or one without a counterpart."""
Key = Callable[[RecordedVariant], Hashable | None]


def _text(mapping: Mapping[str, object]) -> str:
    return json.dumps(dict(mapping), sort_keys=True, default=str)


def _settings(entry: RecordedVariant) -> str:
    return _text({k: v for k, v in entry.variant.config.items() if v is not None})


def _compiled(entry: RecordedVariant) -> Hashable:
    variant = entry.variant
    return _text(variant.signature), _text(variant.specialization), _settings(entry), variant.target


KEYS: tuple[Key, ...] = (
    lambda e: (e.kernel.name, e.variant.symbol, e.variant.hash),
    lambda e: (e.kernel.name, _compiled(e), e.source) if e.source else None,
    lambda e: (e.kernel.name, _compiled(e)),
    lambda e: (e.kernel.name, _text(e.variant.signature), _settings(e)),
    lambda e: (e.kernel.name, _settings(e), e.variant.target),
    lambda e: (e.kernel.name, _text(e.variant.signature), _text(e.variant.specialization)),
    lambda e: e.kernel.name,
    lambda e: base_name(e.kernel.name),
    lambda e: (e.source, _compiled(e)) if e.source else None,
    lambda e: (_NUMBER.sub("", e.kernel.name), _compiled(e)),
)
"""What two variants have to share to be paired, the strictest first; None is never shared.

The last three pair what is called otherwise: a function of C++ with other parameters, the same
source under another name, and a generated kernel that got another number in its graph.
"""


def pair(a: Iterable[RecordedVariant], b: Iterable[RecordedVariant]) -> tuple[Pair, ...]:
    """Return every variant of both, in the order of the first; added ones come last."""
    a_entries = list(a)
    b_entries = list(b)
    matches = partners(a_entries, b_entries, KEYS, _settings_alike)
    pairs: list[Pair] = []
    for n, entry in enumerate(a_entries):
        pairs.append((entry, b_entries[matches[n]] if n in matches else None))
    used = set(matches.values())
    pairs += [(None, entry) for n, entry in enumerate(b_entries) if n not in used]
    return tuple(pairs)


def partners(
    a: Sequence[T],
    b: Sequence[T],
    keys: Iterable[Callable[[T], Hashable | None]],
    likeness: Callable[[T, T], int] = lambda x, y: 0,
) -> dict[int, int]:
    """Return the places of ``a`` with those of ``b`` that share a key, the first key first.

    Of several candidates the one of most ``likeness`` wins, then the first.
    """
    matches: dict[int, int] = {}
    for key in keys:
        used = set(matches.values())
        waiting: dict[Hashable, list[int]] = {}
        for n, entry in enumerate(b):
            value = None if n in used else key(entry)
            if value is not None:
                waiting.setdefault(value, []).append(n)
        if not waiting:
            continue
        for n, entry in enumerate(a):
            candidates = [] if n in matches else waiting.get(key(entry), [])
            if candidates:
                scores = [likeness(entry, b[m]) for m in candidates]
                matches[n] = candidates.pop(scores.index(max(scores)))
    return matches


def _settings_alike(a: RecordedVariant, b: RecordedVariant) -> int:
    b_config = b.variant.config
    return sum(b_config.get(name, b_config) == value for name, value in a.variant.config.items())
