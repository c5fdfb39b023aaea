"""LLVM debug metadata: ``!dbg`` → DILocation → scope → file, with ``inlinedAt``.

LLVM Language Reference, "Specialized Metadata Nodes".
"""

from __future__ import annotations

import re

from inspector.model import Location

_NODE = re.compile(r"!(\d{1,18}) = (?:distinct )?!(\w+)\(")
_NUMBER = re.compile(r"\b(line|column): (\d{1,18})\b")
_REFERENCE = re.compile(r"\b(scope|file|inlinedAt): !(\d{1,18})\b")
_TEXT = re.compile(r'\b(filename|directory): "([^"]*)"')
_INLINE = re.compile(r"!dbg !DILocation\(([^()]*)\)")
_DBG = re.compile(r"!dbg !(\d{1,18})")
_RECORD = re.compile(r"!(\d{1,18})\s*\)\s*\Z")
_HEX = re.compile(r"\\([0-9A-Fa-f]{2})")


class Metadata:
    """The numbered nodes of one module; read when a location is first asked for."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts
        self._nodes: dict[int, tuple[str, str]] | None = None
        self._locations: dict[int, Location | None] = {}
        self._files: dict[int, str | None] = {}

    def _node(self, number: int) -> tuple[str, str]:
        if self._nodes is None:
            self._nodes = {}
            for text in self._texts:
                if text[:1] == "!" and (found := _NODE.match(text)):
                    self._nodes[int(found[1])] = (found[2], text[found.end() :])
        return self._nodes.get(number, ("", ""))

    def of_line(self, text: str) -> Location | None:
        """The location that a line's ``!dbg`` (or a debug record's last operand) names."""
        if "!dbg " in text:
            if found := _DBG.search(text):
                return self.location(int(found[1]))
            if inline := _INLINE.search(text):
                return self._read(inline[1], frozenset())
        elif "#dbg_" in text and (record := _RECORD.search(text.rstrip())):
            return self.location(int(record[1]))
        return None

    def location(self, number: int) -> Location | None:
        """The location of a DILocation, or of a DISubprogram (where the function begins)."""
        if number not in self._locations:
            self._locations[number] = self._resolve(number, frozenset())
        return self._locations[number]

    def _resolve(self, number: int, seen: frozenset[int]) -> Location | None:
        kind, body = self._node(number)
        if kind == "DILocation":
            return self._read(body, seen | {number})
        if kind == "DISubprogram":
            return self._read(f"{body}, scope: !{number}", seen | {number})
        return None

    def _read(self, body: str, seen: frozenset[int]) -> Location | None:
        numbers = dict(_NUMBER.findall(body))
        line = int(numbers.get("line", 0))
        if line == 0:
            return None
        references = {key: int(value) for key, value in _REFERENCE.findall(body)}
        outer: Location | None = None
        call = references.get("inlinedAt")
        if call is not None and call not in seen and len(seen) < 256:
            outer = self._resolve(call, seen)
        file = self._file_of(references.get("scope", -1))
        column = int(numbers["column"]) if "column" in numbers else None
        return Location(file or "", line, column, outer)

    def _file_of(self, scope: int) -> str | None:
        """The file of the nearest scope that names one."""
        if scope in self._files:
            return self._files[scope]
        here, found = scope, None
        seen: set[int] = set()
        while here not in seen:
            seen.add(here)
            kind, body = self._node(here)
            references = {key: int(value) for key, value in _REFERENCE.findall(body)}
            if kind == "DIFile":
                found = _path(body)
                break
            following = references.get("file", references.get("scope"))
            if following is None:
                break
            here = following
        self._files[scope] = found
        return found


def _path(body: str) -> str:
    parts = {key: _HEX.sub(_escape, value) for key, value in _TEXT.findall(body)}
    name, folder = parts.get("filename", ""), parts.get("directory", "")
    if not folder or name.startswith("/"):
        return name
    return f"{folder.rstrip('/')}/{name}"


def _escape(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))
