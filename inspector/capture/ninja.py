"""Reads the ``build.ninja`` that torch writes: which commands make which files.

Only what torch's generator uses: variables, rules and builds, ``$`` escapes, one level of scope.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Build:
    """One edge: ``argv`` makes ``output`` from ``inputs``."""

    output: str
    inputs: tuple[str, ...]
    rule: str
    argv: tuple[str, ...]


def parse_ninja(text: str) -> tuple[Build, ...]:
    """The builds of a file, with their commands expanded. What cannot be read is left out."""
    text = text.replace("$\r\n", "").replace("$\n", "")
    variables: dict[str, str] = {}
    rules: dict[str, dict[str, str]] = {}
    builds: list[tuple[str, list[str], str]] = []
    rule: str | None = None
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line.startswith((" ", "\t")):
            name, equals, value = line.strip().partition("=")
            if rule is not None and equals:
                rules[rule][name.strip()] = value.strip()
            continue
        rule = None
        if line.startswith("rule "):
            rule = line[5:].strip()
            rules[rule] = {}
        elif line.startswith("build "):
            left, colon, right = _split_colon(line[6:])
            words = _words(right)
            if colon and words:
                inputs = [w for w in words[1:] if w not in ("|", "||")]
                builds.append((_words(left)[0] if _words(left) else "", inputs, words[0]))
        elif "=" in line:
            name, _, value = line.partition("=")
            variables[name.strip()] = _expand(value.strip(), variables)
    out = []
    for output, inputs, name in builds:
        scope = {
            **variables,
            "in": " ".join(shlex.quote(i) for i in inputs),
            "out": shlex.quote(output),
        }
        command = _expand(rules.get(name, {}).get("command", ""), scope)
        try:
            argv = tuple(shlex.split(command))
        except ValueError:
            argv = ()
        out.append(Build(output, tuple(inputs), name, argv))
    return tuple(out)


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
    """Words of a path list: ``$ ``, ``$:`` and ``$$`` stand for the character itself."""
    words: list[str] = []
    word = ""
    at = 0
    while at < len(text):
        char = text[at]
        if char == "$" and at + 1 < len(text) and text[at + 1] in " :$":
            word += text[at + 1]
            at += 2
            continue
        if char == " ":
            if word:
                words.append(word)
            word = ""
        else:
            word += char
        at += 1
    if word:
        words.append(word)
    return words


def _expand(text: str, scope: dict[str, str]) -> str:
    out = ""
    at = 0
    while at < len(text):
        if text[at] != "$" or at + 1 >= len(text):
            out += text[at]
            at += 1
            continue
        after = text[at + 1]
        if after in "$ :":
            out += after
            at += 2
        elif after == "{" and "}" in text[at:]:
            end = text.index("}", at)
            out += scope.get(text[at + 2 : end], "")
            at = end + 1
        else:
            end = at + 1
            while end < len(text) and (text[end].isalnum() or text[end] in "_-"):
                end += 1
            out += scope.get(text[at + 1 : end], "")
            at = max(end, at + 1)
    return out
