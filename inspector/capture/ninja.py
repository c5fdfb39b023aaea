"""Reads the ``build.ninja`` that torch writes: which commands make which files.

What torch's generator uses and a little more: variables, rules, builds with variables of their own,
``$`` escapes, implicit inputs and outputs; no ``include`` and no ``subninja``.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

_REFERENCE = re.compile(r"\$(?:([$ :])|\{([^{}]*)\}|([A-Za-z0-9_-]+)|)")
_WORD = re.compile(r"(?:[^ $]|\$(?s:.)|\$$)+")
# Stands for a line that goes on: what indents the next is no part of it.
_JOINED = "\0"
LONGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Build:
    """One edge: ``argv`` makes ``output`` from ``inputs``."""

    output: str
    inputs: tuple[str, ...]
    rule: str
    argv: tuple[str, ...]


def parse_ninja(text: str) -> tuple[Build, ...]:
    """The builds of a file, with their commands expanded. What cannot be read is left out."""
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
                block[name.strip()] = value if scope is None else _expand(value, scope)
            continue
        block, scope = None, None
        if line.startswith("rule "):
            block = rules.setdefault(line[5:].strip(), {})
        elif line.startswith("build "):
            edge = _edge(line[6:], variables)
            if edge is not None:
                edges.append(edge)
                block, scope = edge.variables, variables
        elif equals:
            variables[name.strip()] = _expand(value.lstrip(), variables)
    return tuple(_build(edge, rules.get(edge.rule, {}), variables) for edge in edges)


@dataclass(frozen=True, slots=True)
class _Edge:
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    rule: str
    variables: dict[str, str]


def _edge(text: str, variables: dict[str, str]) -> _Edge | None:
    left, colon, right = _split_colon(text)
    # What stands behind a bar is implied: it orders the build and is in no command.
    outputs = tuple(_expand(w, variables) for w in _explicit(_words(left)))
    words = _words(right)
    if not colon or not words:
        return None
    inputs = tuple(_expand(w, variables) for w in _explicit(words[1:]))
    return _Edge(outputs, inputs, words[0], {})


def _explicit(words: list[str]) -> list[str]:
    bar = next((n for n, w in enumerate(words) if w in ("|", "||", "|@")), len(words))
    return words[:bar]


def _build(edge: _Edge, rule: dict[str, str], variables: dict[str, str]) -> Build:
    scope = {
        **variables,
        **edge.variables,
        "in": " ".join(shlex.quote(i) for i in edge.inputs),
        "out": " ".join(shlex.quote(o) for o in edge.outputs),
    }
    # A rule's own variables are expanded where they are used: once is all that torch's need.
    own = {n: _expand(v, scope) for n, v in rule.items() if n != "command"}
    command = _expand(edge.variables.get("command", rule.get("command", "")), {**own, **scope})
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


def _expand(text: str, scope: dict[str, str]) -> str:
    """Text with its variables; nothing of it where it becomes too long to be a command."""
    out = _REFERENCE.sub(lambda found: found[1] or scope.get(found[2] or found[3] or "", ""), text)
    return out if len(out) <= LONGEST else ""
