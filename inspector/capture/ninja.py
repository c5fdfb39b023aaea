"""Reads the ``build.ninja`` that torch writes: which commands make which files.

What torch's generator uses and a little more: variables, rules, builds with variables of their own,
``$`` escapes, implicit inputs and outputs; no ``include`` and no ``subninja``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass

_REFERENCE = re.compile(r"\$(?:([$ :])|\{([^{}]*)\}|([A-Za-z0-9_-]+)|)")
_WORD = re.compile(r"(?:[^ $]|\$(?s:.)|\$$)+")
# Stands for a line that goes on: what indents the next is no part of it.
_JOINED = "\0"
LONGEST = 1 << 20
# All that is expanded together: so many times the text, and a little for a short one. A hundred
# files of one long list of flags are 20 times their text.
TIMES, LEAST = 64, 1 << 16


@dataclass(frozen=True, slots=True)
class Build:
    """One edge: ``argv`` makes ``output`` from ``inputs``."""

    output: str
    inputs: tuple[str, ...]
    rule: str
    argv: tuple[str, ...]


def parse_ninja(text: str) -> tuple[Build, ...]:
    """The builds of a file, with their commands expanded. What cannot be read is left out."""
    room = _Room(LEAST + TIMES * len(text))
    variables: dict[str, str] = {}
    rules: dict[str, dict[str, str]] = {}
    edges: list[_Edge] = []
    # What the indented lines below belong to, and what their values may name already.
    block: dict[str, str] | None = None
    scope: dict[str, str] | None = None
    for line in text.replace("$\r\n", _JOINED).replace("$\n", _JOINED).split("\n"):
        line = re.sub(_JOINED + " *", "", line.rstrip("\r"))
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if line.startswith((" ", "\t")):
            if block is not None and equals:
                value = value.lstrip()
                block[name.strip()] = value if scope is None else room.expand(value, scope.get)
            continue
        block, scope = None, None
        if line.startswith("rule "):
            block = rules.setdefault(line[5:].strip(), {})
        elif line.startswith("build "):
            edge = _edge(line[6:], variables, room)
            if edge is not None:
                edges.append(edge)
                block, scope = edge.variables, variables
        elif equals:
            variables[name.strip()] = room.expand(value.lstrip(), variables.get)
    return tuple(_build(edge, rules.get(edge.rule, {}), variables, room) for edge in edges)


@dataclass(frozen=True, slots=True)
class _Edge:
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    rule: str
    variables: dict[str, str]


def _edge(text: str, variables: dict[str, str], room: _Room) -> _Edge | None:
    left, colon, right = _split_colon(text)
    # What stands behind a bar is implied: it orders the build and is in no command.
    outputs = tuple(room.expand(w, variables.get) for w in _explicit(_words(left)))
    words = _words(right)
    if not colon or not words:
        return None
    inputs = tuple(room.expand(w, variables.get) for w in _explicit(words[1:]))
    return _Edge(outputs, inputs, words[0], {})


def _explicit(words: list[str]) -> list[str]:
    bar = next((n for n, w in enumerate(words) if w in ("|", "||", "|@")), len(words))
    return words[:bar]


def _build(edge: _Edge, rule: dict[str, str], variables: dict[str, str], room: _Room) -> Build:
    def outside(name: str) -> str | None:
        if name in ("in", "out"):
            return " ".join(map(shlex.quote, edge.inputs if name == "in" else edge.outputs))
        return edge.variables.get(name, variables.get(name))

    def value(name: str) -> str | None:
        # As ninja looks it up: a rule's go before the file's where the edge has some of its own.
        first = edge.variables or variables
        if name in ("command", "in", "out") or name not in rule or name in first:
            return outside(name)
        # A rule's own are expanded where they are used: once is all that torch's need.
        return room.expand(rule[name], outside)

    command = room.expand(edge.variables.get("command", rule.get("command", "")), value)
    try:
        argv = tuple(shlex.split(command))
    except ValueError:
        argv = ()
    return Build(edge.outputs[0] if edge.outputs else "", edge.inputs, edge.rule, argv)


def _split_colon(text: str) -> tuple[str, bool, str]:
    at = 0
    while at < len(text):
        if text[at] == "$":
            at += 2
        elif text[at] == ":":
            return text[:at], True, text[at + 1 :]
        else:
            at += 1
    return text, False, ""


def _words(text: str) -> list[str]:
    """Words of a path list, their escapes (``$ ``, ``$:``, ``$$``) still in them."""
    return _WORD.findall(text)


class _Room:
    """How much text may still be expanded, of a whole file: each value draws on it."""

    def __init__(self, left: int) -> None:
        self.left = left

    def expand(self, text: str, value: Callable[[str], str | None]) -> str:
        """Text with its variables; nothing of it where it becomes too long to be a command."""
        parts: list[str] = []
        at = size = 0
        for found in _REFERENCE.finditer(text):
            parts += (
                text[at : found.start()],
                found[1] or value(found[2] or found[3] or "") or "",
            )
            at = found.end()
            size += len(parts[-1]) + len(parts[-2])
            if size > min(LONGEST, self.left):
                break
        size += len(text) - at
        if size > LONGEST or size > self.left:
            self.left = max(0, self.left - min(size, LONGEST))
            return ""
        self.left -= size
        return "".join(parts) + text[at:]
