"""``.file`` and ``.loc``: the locations of a PTX text.

PTX ISA, "Debugging Directives". ``.loc file line column[, function_name label[+offset],
inlined_at file line column]``: the call site is the one of an earlier ``.loc``, so that chains
are found by looking it up. nvcc writes ``.file`` at the end of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import NamedTuple

from inspector.model import Location

_FILE = re.compile(
    r'^[ \t]*\.file[ \t]+(\d{1,18})[ \t]+"((?:[^"\\\n]|\\.)*+)"(?:[ \t]*"((?:[^"\\\n]|\\.)*+)")?',
    re.MULTILINE,
)
_LOC = re.compile(
    r"[ \t]*\.loc[ \t]+(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(\d{1,18}))?"
    r"(?:[^/\n]*?inlined_at[ \t]+(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(\d{1,18}))?)?"
)
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class Place(NamedTuple):
    """A ``.loc``'s file index, line, column."""

    file: int
    line: int
    column: int


class Mark(NamedTuple):
    """One ``.loc``: where, and the call site it names."""

    place: Place
    site: Place | None


def unescape(text: str) -> str:
    """An assembler string's characters (``\\"``, ``\\\\``, octal)."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    what = match[1]
    return chr(int(what, 8)) if what[0] in "01234567" else _ESCAPES.get(what, what)


def read_mark(text: str) -> Mark | None:
    """The ``.loc`` of a line, None where it is not well-formed."""
    found = _LOC.match(text)
    if found is None:
        return None
    file, line, column, at_file, at_line, at_column = found.groups()
    place = Place(int(file), int(line), int(column or 0))
    if at_file is None:
        return Mark(place, None)
    return Mark(place, Place(int(at_file), int(at_line), int(at_column or 0)))


class Locations:
    """Every ``.file`` and, where the text has inlining, every ``.loc`` of one text."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts
        self._files: dict[int, str] | None = None
        self._marks: dict[Place, list[tuple[int, Mark]]] | None = None
        self._plain: dict[str, Location | None] = {}

    def at(self, n: int, text: str) -> Location | None:
        """What the ``.loc`` on line ``n`` says; None for line 0, which is "no location"."""
        cut = text.find("//")
        key = text if cut < 0 else text[:cut]
        if key in self._plain:
            return self._plain[key]
        mark = read_mark(key)
        if mark is None or mark.place.line == 0:
            self._plain[key] = None
            return None
        if mark.site is None:
            found = self._plain[key] = self._location(mark.place, None)
            return found
        return self._chain(n, mark)

    def _location(self, place: Place, inlined_at: Location | None) -> Location:
        file = self.files.get(place.file, "")
        return Location(file, place.line, place.column, inlined_at)

    @property
    def files(self) -> dict[int, str]:
        """File names by index. Of two names the first is the folder."""
        if self._files is None:
            self._files = {}
            for text in self._texts:
                if ".file" in text and (found := _FILE.match(text)):
                    index, name, more = found.groups()
                    path = unescape(name)
                    if more:
                        path = f"{path.rstrip('/')}/{unescape(more)}"
                    self._files.setdefault(int(index), path)
        return self._files

    def _chain(self, n: int, mark: Mark) -> Location:
        if self._marks is None:
            self._marks = {}
            for at, text in enumerate(self._texts, 1):
                if ".loc" in text and (one := read_mark(text)):
                    self._marks.setdefault(one.place, []).append((at, one))
        frames = [mark]
        seen = {mark.place}
        site = mark.site
        while site is not None and len(frames) < 256:
            known = self._marks.get(site, [])
            at = bisect_left(known, n, key=lambda entry: entry[0]) - 1
            if at < 0 or site in seen:
                frames.append(Mark(site, None))
                break
            seen.add(site)
            n, outer = known[at]
            frames.append(outer)
            site = outer.site
        here: Location | None = None
        for frame in reversed(frames):
            here = self._location(frame.place, here)
        assert here is not None
        return here
