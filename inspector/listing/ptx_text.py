"""PTX text without its comments and strings, and the headers of its functions."""

from __future__ import annotations

import re

_COMMENT_OR_STRING = re.compile(r'//|/\*|"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_NAME = re.compile(r"[\w$%]++")
WORD = re.compile(r"\s*+(\.?+[\w$@]++)")
_KIND = re.compile(r"\.(entry|func)\b")
HEADER = re.compile(r"\s*+(?:\.[a-z]++\s++)*?\.(entry|func)\b")

AHEAD = 64
"""Lines looked at for the rest of a statement."""


def strip(text: str, comment: bool) -> tuple[str, bool]:
    """The code of a line (comments cut out, strings emptied) and whether a comment is left open."""
    if not comment and "/" not in text and '"' not in text:
        return text, False
    parts: list[str] = []
    at = 0
    if comment:
        end = text.find("*/")
        if end < 0:
            return "", True
        at = end + 2
    while found := _COMMENT_OR_STRING.search(text, at):
        parts.append(text[at : found.start()])
        if found[0] == "//":
            return "".join(parts), False
        if found[0] == "/*":
            end = text.find("*/", found.end())
            if end < 0:
                return "".join(parts), True
            parts.append(" ")
            at = end + 2
        else:
            parts.append('""')
            at = found.end()
    parts.append(text[at:])
    return "".join(parts), False


def function_header(texts: list[str], first: int, last: int) -> tuple[str, bool]:
    """Name and whether it is an entry, of the function whose header begins on line ``first``."""
    header = ""
    comment = False
    for text in texts[first - 1 : min(last, first + AHEAD)]:
        code, comment = strip(text[:4096], comment)
        header += code + " "
        if "{" in code or len(header) > 65536:
            break
    found = _KIND.search(header)
    at = found.end() if found else 0
    while at < len(header) and (header[at].isspace() or header[at] in ".("):
        if header[at] == "(":
            at = header.find(")", at) + 1 or len(header)
        elif header[at] == "." and (word := WORD.match(header, at)):
            at = word.end()
        else:
            at += 1
    name = _NAME.match(header, at)
    return name[0] if name else "", bool(found and found[1] == "entry")
