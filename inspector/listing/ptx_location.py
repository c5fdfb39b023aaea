"""``.file`` and ``.loc``: the locations of a PTX text.

PTX ISA, "Debugging Directives". ``.loc file line column[, function_name label[+offset],
inlined_at file line column]``: the call site is that of an earlier ``.loc``, so chains are found
by looking it up. nvcc writes ``.file`` at the end of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from inspector.model import Location

_FILE = re.compile(
    r'\.file[ \t]+(\d{1,18})[ \t]+"((?:[^"\\\n]|\\.)*+)"(?:[ \t]*"((?:[^"\\\n]|\\.)*+)")?'
)
_LOC = re.compile(
    r"[ \t]*\.loc[ \t]+(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(\d{1,18}))?"
    r"(?:[^/\n]*?inlined_at[ \t]+(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(\d{1,18}))?)?"
)
# LLVM's comment, which has the chain if the directive has none (Triton before 3.9).
_COMMENT = re.compile(r"([^@\[\]\n]{1,4096}?):(\d{1,9}):(\d{1,9})[ \]]*\Z")
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


NEAR = 64
"""Lines above a ``.loc`` that are searched for its call site."""

DEEPEST = 256
"""Most frames of a chain; further ones are left out."""


class LocPlace(NamedTuple):
    """A ``.loc``'s file index, line, column."""

    file: int
    line: int
    column: int


class Mark(NamedTuple):
    """One ``.loc``: its place, and the call site it names."""

    place: LocPlace
    site: LocPlace | None


def unescape(text: str) -> str:
    """An assembler string's characters (``\\"``, ``\\\\``, octal)."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPES.get(code, code)


def read_mark(text: str) -> Mark | None:
    """The ``.loc`` of a line, None if it is not well-formed."""
    match = _LOC.match(text)
    if match is None:
        return None
    file, line, column, at_file, at_line, at_column = match.groups()
    place = LocPlace(int(file), int(line), int(column or 0))
    if at_file is None:
        return Mark(place, None)
    return Mark(place, LocPlace(int(at_file), int(at_line), int(at_column or 0)))


def frames_of(text: str, files: Mapping[int, str]) -> Location | None:
    """What a ``.loc`` says by itself: its place, and where that was inlined as far as its own line
    tells. Line 0, which is "no line", stays 0; None if it is not well-formed.

    ``files`` are names by their index; one that is missing there is "".
    """
    head, _, comment = text.partition("//")
    mark = read_mark(head)
    if mark is None:
        return None
    outer: Location | None = None
    for part in reversed(comment.split(" @[ ")[1 : DEEPEST + 1]):
        if match := _COMMENT.match(part.strip()):
            outer = Location(match[1], int(match[2]), int(match[3]), outer)
    if outer is None and mark.site is not None:
        at = mark.site
        outer = Location(files.get(at.file, ""), at.line, at.column)
    at = mark.place
    return Location(files.get(at.file, ""), at.line, at.column, outer)


class Locations:
    """Every ``.file`` and, if the text has inlining, every ``.loc`` of one text."""

    def __init__(self, text: str, texts: Sequence[str]) -> None:
        self._text = text
        self._texts = texts
        self._files: dict[int, str] | None = None
        self._marks: dict[LocPlace, list[tuple[int, Mark]]] | None = None
        self._names: dict[str, str] | None = None
        self._plain: dict[str, Location | None] = {}

    def at(self, n: int, text: str) -> Location | None:
        """The location of the ``.loc`` on line ``n``; None for line 0, which is "no location"."""
        cut = text.find("//")
        chained = cut >= 0 and " @[ " in text
        key = text if cut < 0 or chained else text[:cut]
        if key in self._plain:
            return self._plain[key]
        mark = read_mark(key)
        if mark is None or mark.place.line == 0:
            self._plain[key] = None
            return None
        if mark.site is None:
            outer = self._commented(text[cut + 2 :]) if chained else None
            location = self._plain[key] = self._location(mark.place, outer)
            return location
        return self._chain(n, mark)

    def _commented(self, comment: str) -> Location | None:
        """The call sites of ``f.py:263:15 @[ g.py:293:36 @[ h.py:48:26 ] ]``."""
        location: Location | None = None
        for part in reversed(comment.split(" @[ ")[1 : DEEPEST + 1]):
            match = _COMMENT.match(part.strip())
            if match is None:
                return None
            name = match[1]
            if line := int(match[2]):
                location = Location(self._path_of(name), line, int(match[3]), location)
        return location

    def _path_of(self, name: str) -> str:
        """The path of the only file with that name; the bare name if there are several."""
        if self._names is None:
            self._names = {}
            for path in dict.fromkeys(self.files.values()):
                last = path.rpartition("/")[2]
                self._names[last] = last if last in self._names else path
        return self._names.get(name, name)

    def _location(self, place: LocPlace, inlined_at: Location | None) -> Location:
        file = self.files.get(place.file, "")
        return Location(file, place.line, place.column, inlined_at)

    @property
    def files(self) -> dict[int, str]:
        """File names by index; if a ``.file`` has two names, the first is the folder."""
        if self._files is None:
            self._files = {}
            text = self._text
            position = text.find(".file")
            while position >= 0:
                line_start = position
                while line_start and text[line_start - 1] in " \t":
                    line_start -= 1
                if not line_start or text[line_start - 1] == "\n":
                    self._read_file(position)
                position = text.find(".file", position + 5)
        return self._files

    def _read_file(self, start: int) -> None:
        match = _FILE.match(self._text, start)
        if match and self._files is not None:
            index, name, second_name = match.groups()
            path = unescape(name)
            if second_name:
                path = f"{path.rstrip('/')}/{unescape(second_name)}"
            self._files.setdefault(int(index), path)

    def _chain(self, n: int, mark: Mark) -> Location:
        frames = [mark]
        seen = {mark.place}
        while (site := frames[-1].site) is not None and len(frames) < DEEPEST:
            n, outer = self._before(n, site)
            if outer is None or site in seen:
                frames.append(Mark(site, None))
                break
            seen.add(site)
            frames.append(outer)
        location: Location | None = None
        for frame in reversed(frames):
            location = self._location(frame.place, location)
        assert location is not None
        return location

    def _before(self, n: int, place: LocPlace) -> tuple[int, Mark | None]:
        """The last ``.loc`` of ``place`` before line ``n``, and its line."""
        for index in range(n - 2, max(-1, n - 2 - NEAR), -1):
            text = self._texts[index]
            if ".loc" in text and (mark := read_mark(text)) and mark.place == place:
                return index + 1, mark
        if n - 2 < NEAR:
            return n, None
        if self._marks is None:  # a call site is rarely far above; if it is, all are indexed
            self._marks = {}
            for number, text in enumerate(self._texts, 1):
                if ".loc" in text and (mark := read_mark(text)):
                    self._marks.setdefault(mark.place, []).append((number, mark))
        marks = self._marks.get(place, [])
        index = bisect_left(marks, n, key=lambda entry: entry[0]) - 1
        return marks[index] if index >= 0 else (n, None)
