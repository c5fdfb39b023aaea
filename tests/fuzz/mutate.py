"""Changes inputs: bits, pieces, lines, numbers, words of the format, and JSON by its structure."""

from __future__ import annotations

import io
import json
import random
import re
import warnings
import zipfile
from collections.abc import Sequence
from typing import Any

_NUMBER = re.compile(rb"\d+(?:\.\d+)?")
_WORD = re.compile(rb"[\w.$%]+")
NUMBERS = (
    b"0", b"1", b"-1", b"2", b"255", b"65536", b"2147483647", b"4294967296", b"9223372036854775807",
    b"18446744073709551616", b"9" * 40, b"9" * 4500, b"1e400", b"1e-400", b"NaN", b"Infinity",
    b"0x", b"0xffffffffffffffffff", b"0.5", "²".encode(), "٣".encode(), b"-0", b"1_0",
)  # fmt: skip
BYTES = (
    b"\0", b"\n", b"\r", b"\r\n", b"\t", b" ", b'"', b"'", b"\\", b"{", b"}", b"[", b"]", b"(",
    b")", b"<", b">", b",", b";", b":", b"/*", b"*/", b"//", b"#", b"|", b"%", b"$", b"@", b"!",
    b"=", b"\xff", b"\x1b[31m", b"\x85", b"\xed\xa0\x80", "\u202e".encode(), "\u2028".encode(),
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 10**40, 10**400, 0.5, -0.0, 1e308, float("nan"),
    float("inf"), "", "x", "²", "0", "\0", "\ud800", "\x1b[31m", "a" * 300, "/etc/passwd", "../x",
    [], {}, [[]], [None], {"": None}, [1, 2, 3], [2**70, -1, 0], {"x": {"x": {}}},
)  # fmt: skip
DEEP = 3000


class Mutator:
    """Makes new inputs of those that are kept, with words of the format among its pieces."""

    def __init__(self, chance: random.Random, words: Sequence[bytes], longest: int) -> None:
        self.chance = chance
        self.words = tuple(words)
        self.longest = longest

    def changed(self, data: bytes, others: Sequence[bytes]) -> bytes:
        """``data`` after one to eight changes; ``others`` lend their pieces."""
        chance = self.chance
        for _ in range(1 << chance.randrange(4)):
            data = self._once(data, chance.choice(others))
        return data[: self.longest]

    def structured(self, data: bytes) -> bytes:
        """JSON, or one line of JSON among others, with a value of it changed."""
        lines = data.split(b"\n")
        at = self.chance.randrange(len(lines))
        for line, begin in ((data, None), (lines[at], at)):
            brace = line.find(b"{")
            try:
                value = json.loads(line[max(brace, 0) :])
            except (ValueError, RecursionError):
                continue
            made = line[: max(brace, 0)] + dumped(self._altered(value))
            if begin is None:
                return made
            return b"\n".join([*lines[:at], made, *lines[at + 1 :]])
        return data

    def zipped(self, data: bytes) -> bytes:
        """A zip of which a member was changed, doubled or renamed, and which is whole."""
        chance, out = self.chance, io.BytesIO()
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                members = [(n, archive.read(n)) for n in archive.namelist()]
            name, content = members.pop(chance.randrange(len(members)))
        except Exception:  # what zipfile itself says of a damaged file is of many kinds
            return data
        members.append((name, self.structured(content)))
        if chance.randrange(3) == 0:
            members.append((chance.choice((name, "../../x", "/abs", "a\\b")), content))
        with warnings.catch_warnings(), zipfile.ZipFile(out, "w") as archive:
            warnings.simplefilter("ignore")  # two members of one name are meant
            for name, content in members:
                archive.writestr(name, content)
        return out.getvalue()

    # -- one change -----------------------------------------------------------------------------

    def _once(self, data: bytes, other: bytes) -> bytes:
        chance = self.chance
        kind = chance.randrange(10)
        at = chance.randrange(len(data) + 1)
        end = min(len(data), at + 1 + int(chance.expovariate(1 / 24)))
        if kind == 0:
            return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        if kind == 1:
            return data[:end] + data[at:end] * chance.randrange(1, 6) + data[end:]
        if kind in (2, 3):
            word = chance.choice(BYTES if kind == 2 or not self.words else self.words)
            return data[:at] + word + data[chance.choice((at, end)) :]
        if kind in (4, 5):
            pattern, pool = (_NUMBER, NUMBERS) if kind == 4 else (_WORD, self.words or BYTES)
            if found := pattern.search(data, at) or pattern.search(data):
                return data[: found.start()] + chance.choice(pool) + data[found.end() :]
        if kind == 6 and other:  # a piece of the other, or all that follows
            start = chance.randrange(len(other))
            piece = other[start : start + 1 + int(chance.expovariate(1 / 60))]
            return data[:at] + chance.choice((piece + data[end:], other[start:]))
        if kind in (7, 8, 9):
            lines, theirs = data.split(b"\n"), other.split(b"\n")
            at, to = chance.randrange(len(lines)), chance.randrange(len(lines))
            if kind == 7:
                lines[at], lines[to] = lines[to], lines[at]
            elif kind == 8:
                lines.insert(to, lines[at])
            else:
                start = chance.randrange(len(theirs))
                lines[at : at + chance.randrange(2)] = theirs[start : start + 3]
            return b"\n".join(lines)
        return data[:at] + data[end:]

    def _text(self, data: bytes) -> str:
        return data.decode("utf-8", "replace")

    def _altered(self, value: Any) -> Any:
        """A JSON value with one of its nodes changed."""
        chance = self.chance
        if isinstance(value, dict) and value and chance.randrange(8):
            key, kind = chance.choice(list(value)), chance.randrange(8)
            if kind == 0:
                return {k: v for k, v in value.items() if k != key}
            if kind == 1:
                words = [self._text(word) for word in self.words]
                other = chance.choice((*value, *words, "", "\ud800", "²", "x" * 200))
                return {**value, other: chance.choice((value[key], *VALUES))}
            return {**value, key: self._altered(value[key])}
        if isinstance(value, list) and value and chance.randrange(8):
            at = chance.randrange(len(value))
            altered, copies = [self._altered(value[at])], [value[at]] * chance.randrange(1, 9)
            return [*value[:at], *chance.choice((altered, copies, [])), *value[at + 1 :]]
        if chance.randrange(4) == 0 and self.words:
            return self._text(chance.choice(self.words))
        return chance.choice(VALUES)


def dumped(value: Any) -> bytes:
    """JSON as Python writes it, NaN and halves of characters and all."""
    try:
        return json.dumps(value).encode()
    except (RecursionError, ValueError):  # an integer of too many digits
        return b"[" * DEEP
