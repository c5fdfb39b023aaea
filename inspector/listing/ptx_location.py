"""``.file`` and ``.loc``: the locations of a PTX text.

PTX ISA, "Debugging Directives". ``.loc file line column[, function_name label[+offset],
inlined_at file line column]``: the call site is that of an earlier ``.loc``, so chains are found
by looking it up. nvcc writes ``.file`` at the end of the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from inspector.base.model import Location

_FILE = re.compile(
    r'^[ \t]*+\.file[ \t]+(\d{1,18})[ \t]+"((?:[^"\\\n]|\\.)*+)"(?:[ \t]*"((?:[^"\\\n]|\\.)*+)")?',
    re.MULTILINE,
)
_LOC = re.compile(
    r"[ \t]*\.loc[ \t]+(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(\d{1,18}))?"
    r"(?:[^/\n]*?inlined_at[ \t]+(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(\d{1,18}))?)?"
)
# LLVM's comment, which has the chain if the directive has none (Triton before 3.9).
_COMMENT = re.compile(r"([^@\[\]\n]{1,4096}?):(\d{1,9}):(\d{1,9})[ \]]*\Z")
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


MAX_FRAMES = 256
"""Frames of a chain; further ones are left out."""


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
    outer = _commented(comment, {})
    if outer is None and mark.site is not None:
        at = mark.site
        outer = Location(files.get(at.file, ""), at.line, at.column)
    at = mark.place
    return Location(files.get(at.file, ""), at.line, at.column, outer)


def _commented(comment: str, paths: Mapping[str, str]) -> Location | None:
    """The call sites of ``f.py:263:15 @[ g.py:293:36 @[ h.py:48:26 ] ]``.

    ``paths`` are those of file names.
    """
    location: Location | None = None
    for part in reversed(comment.split(" @[ ")[1 : MAX_FRAMES + 1]):
        match = _COMMENT.match(part.strip())
        if match is None:
            return None
        if line := int(match[2]):
            path = paths.get(match[1], match[1])
            location = Location(path, line, int(match[3]), location)
    return location


class Locations:
    """The locations of one text's ``.loc`` directives, which are read in order."""

    def __init__(self, text: str) -> None:
        self.files = read_files(text)
        # The last path of each file name, the bare name if there are several.
        self._paths: dict[str, str] = {}
        for path in dict.fromkeys(self.files.values()):
            name = path.rpartition("/")[2]
            self._paths[name] = name if name in self._paths else path
        self._latest: dict[LocPlace, tuple[Location, int]] = {}
        """The last location of each place, and how many frames it has."""

    def next(self, text: str) -> Location | None:
        """The location of the next ``.loc``; None for line 0, which is "no location"."""
        head, _, comment = text.partition("//")
        mark = read_mark(head)
        if mark is None or mark.place.line == 0:
            return None
        outer: Location | None = None
        depth = 0
        if mark.site is not None:
            outer, depth = self._latest.get(mark.site, (None, 0))
            if outer is None or depth >= MAX_FRAMES:
                outer, depth = self._location(mark.site, None), 1
        elif " @[ " in comment:
            outer = _commented(comment, self._paths)
        location = self._location(mark.place, outer)
        # Equal neighbours are one object.
        known = self._latest.get(mark.place)
        if known is not None and known[0] == location:
            return known[0]
        self._latest[mark.place] = location, depth + 1
        return location

    def _location(self, place: LocPlace, inlined_at: Location | None) -> Location:
        return Location(self.files.get(place.file, ""), place.line, place.column, inlined_at)


def read_files(text: str) -> dict[int, str]:
    """File names by index; if a ``.file`` has two names, the first is the folder."""
    files: dict[int, str] = {}
    for index, name, second_name in _FILE.findall(text):
        path = unescape(name)
        if second_name:
            path = f"{path.rstrip('/')}/{unescape(second_name)}"
        files.setdefault(int(index), path)
    return files
