"""Runs commands for an assistant, each in its own process, with bounded answers.

Answers are harmless wherever they are shown: names, sources and messages
say was written by strangers.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import inspector
from inspector.base.errors import Exit, Unreadable
from inspector.base.text import lines_shown
from inspector.recording.layout import user_cache
from inspector.serve.tools import Server, ToolCall
from inspector.system.files import ROOTS
from inspector.system.process import run_tool

MOST = 24_000
"""Characters of an answer."""
PACKAGE = Path(inspector.__file__).resolve().parent
"""This package, for the path of child processes."""
SAID = 2_000
"""Characters of what a command says on standard error that are handed on."""
SECONDS, LONG = 120.0, 900.0
"""How long a command may take; one that compiles, runs or measures."""
KEPT = 8
"""Answers that are kept because more of them may be asked for."""
HEAVIEST = 4_000_000
"""Characters of an answer that is kept."""

# The child ends with its parent.
_BEGIN = """\
import sys
sys.path.insert(0, sys.argv.pop(1))
from inspector.system.process import die_with_parent
die_with_parent()
from inspector.commands.cli import main
sys.exit(main(sys.argv[1:]))
"""
# With one that runs others we end in an orderly way only: they end with it.
ENDED_WELL = (Exit.OK, Exit.DIFFERENT)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is handed on: a text, the same as a value of JSON, and whether it is an error."""

    text: str
    value: dict[str, object]
    failed: bool = False


class Answers:
    """Runs commands, each in its own process; thread-safe."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._kept: OrderedDict[tuple[str, ...], str] = OrderedDict()
        self._lock = Lock()

    def of(self, call: ToolCall, cursor: int, go_on: Callable[[], bool]) -> Answer:
        """What a command says, from ``cursor`` on where it was cut before.

        ``go_on`` is asked some times a second; once it says no, the command is ended. Raises
        ``PtxviewError`` where it cannot be started, takes too long or was ended.
        """
        key = tuple(call.words)
        with self._lock:
            known = self._kept.get(key) if cursor else None
        if known is None:
            answer = self._asked(call, go_on)
            if answer.failed:
                return answer
            known = answer.text
            if len(known) <= MOST and not cursor:
                return answer
            self._keep(key, known)
        return cut(known, cursor)

    def _keep(self, key: tuple[str, ...], text: str) -> None:
        if len(text) > HEAVIEST:
            return
        with self._lock:
            self._kept[key] = text
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)

    def _asked(self, call: ToolCall, go_on: Callable[[], bool]) -> Answer:
        with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
            limit = SECONDS if call.confined else LONG
            try:
                done = run_tool(
                    [sys.executable, "-P", "-c", _BEGIN, str(PACKAGE.parent), *call.words],
                    seconds=limit,
                    cwd=self._server.roots[0],
                    env=self._environment(call, Path(folder)),
                    go_on=go_on,
                )
            except Unreadable:
                said = f"{call.words[0]} did not come to an end within {limit:.0f} s"
                return failure(Exit.UNREADABLE, f"{said}\nAsk for less: a file, or one kernel.")
        said = _harmless(done.err.decode("utf-8", "replace"))[:SAID].strip()
        if done.status not in ENDED_WELL:
            return failure(done.status, said or _harmless(done.text)[-SAID:])
        if not call.as_json:
            text = _harmless(done.text)
            return Answer(
                "\n".join(filter(None, (text.rstrip("\n"), said))), {"text": text, "said": said}
            )
        return _as_value(done.text)

    def _environment(self, call: ToolCall, folder: Path) -> dict[str, str]:
        """The environment of a command: of what it may read, our own folders and its own for
        temporary files."""
        out = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | {"NO_COLOR": "1"}
        if call.confined:
            readable = (*self._server.roots, PACKAGE, user_cache().resolve(), folder.resolve())
            out |= {"TMPDIR": str(folder), ROOTS: "\n".join(map(str, readable))}
        return out


def failure(status: int, said: str) -> Answer:
    """What went wrong, in a sentence, and what to do about it."""
    lines = [line.removeprefix("ptxview: ") for line in said.splitlines()]
    message, hint = (lines[0], "\n".join(lines[1:])) if lines else (f"it ended with {status}", "")
    error: dict[str, object] = {"status": status, "message": message, "hint": hint}
    return Answer("\n".join(filter(None, (message, hint))), {"error": error}, failed=True)


def cut(text: str, cursor: int) -> Answer:
    """A part of an answer that is too long, and how to have the rest, or less."""
    end = min(cursor + MOST, len(text))
    part = text[cursor:end]
    more = str(end) if end < len(text) else None
    hint = (
        f"This is {cursor:,} to {end:,} of {len(text):,} characters. "
        + (f'Call again with cursor "{more}" for what follows, or ask for less: ' if more else "")
        + ("lines, or in short." if more else "It ends here.")
    )
    value: dict[str, object] = {
        "cut": {"from": cursor, "to": end, "of": len(text), "cursor": more},
        "hint": hint,
        "text": part,
    }
    return Answer(f"{part}\n\n[{hint}]", value)


def _as_value(text: str) -> Answer:
    """What was printed as JSON, each text in it made harmless; of several documents a list."""
    documents = [harmless(json.loads(line)) for line in text.splitlines() if line]
    value = documents[0] if len(documents) == 1 else {"documents": documents}
    if not isinstance(value, dict):
        value = {"value": value}
    return Answer(json.dumps(value, ensure_ascii=False), value)


def _harmless(text: str) -> str:
    """Text of several lines; what is not UTF-8 becomes its number."""
    return lines_shown(text)


def harmless(value: object) -> object:
    """A value of JSON in which no text holds what a terminal would obey."""
    if isinstance(value, str):
        return _harmless(value)
    if isinstance(value, list):
        return [harmless(each) for each in value]
    if isinstance(value, Mapping):
        return {_harmless(str(name)): harmless(each) for name, each in value.items()}
    return value
