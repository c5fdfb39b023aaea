"""Calls of graphs that launch the same kernels on the same layouts each time, by their own code.

A graph without symbolic sizes and without branches can do nothing else. After some calls its
launches are not looked at one by one: they are counted as in the call that was looked at last,
which every 32nd is. Were one of them to launch more or fewer kernels than that, it would be a
problem of the recording, and each launch would be looked at from then on.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable
from threading import get_ident
from typing import Any

from ..writer import problem
from . import subjects

# The first SURE calls are looked at; after them, one of EVERY calls.
SURE, EVERY = 16, 32
_SYMBOL = re.compile(r"(s|u|ks|ps|zuf|zf)\d+")
_NEVER_CALLED = ("benchmark_compiled_module", "get_args", "recursively_apply_fns", "__init__")
_BRANCHES = (ast.If, ast.IfExp, ast.While, ast.For, ast.comprehension, ast.Try)
# What the launchers ask (launch.c, launch.py): the thread whose launches are not looked at; the
# thread whose launches are listed, and where; how many were not looked at.
STATE = subjects.graph
# Code that takes longer to read than it saves.
LARGEST = 1 << 20
OTHERS = (
    "a compiled graph launched more or fewer kernels than in its calls before; the launches of "
    "that one call are not counted"
)


class Settled:
    """The only call of a graph: its launches, and how often it was made since last looked at."""

    def __init__(
        self, subject: subjects.Subject, entry: subjects.Entry, log: list[subjects.Entry]
    ) -> None:
        self.held, self.log = subject, log
        self.ids = [*map(id, log)]
        times: dict[int, list[Any]] = {id(entry): [entry, 1]}
        for launch in log:
            times.setdefault(id(launch), [launch, 0])[1] += 1
        self.times = list(times.values())
        self.left, self.runs = EVERY - 1, 0

    def begin(self) -> bool:
        """Whether the next call need not be looked at; if so, nor are this thread's launches."""
        me = get_ident()
        # No call from here on: another thread could do the same in between.
        if not self.left or STATE[0] or STATE[1] or subjects._tuning[0]:
            return False
        STATE[0] = me
        STATE[3] = 0
        return True

    def run(self, original: Callable[..., Any], inputs: Any) -> Any:
        """Call the graph without looking at its launches; only after ``begin`` returned True."""
        try:
            result = original(inputs)
        finally:
            same, STATE[0] = STATE[3] == len(self.log), 0
        if same:
            self.runs += 1
            self.left -= 1
            if self.held.settled is not self:  # another thread has ended it meanwhile
                self._add()
        else:
            self.end()
            self.held.fixed = False
            subjects.add(self.held, self.times[0][0])
            problem("a graph's launches", OTHERS)
        return result

    def pending(self) -> list[tuple[subjects.Entry, int]]:
        """What is still to be added to the counts."""
        return [(entry, times * self.runs) for entry, times in self.times] if self.runs else []

    def end(self) -> None:
        """Add to the counts; the graph's next call is looked at."""
        if self.held.settled is self:
            self.held.settled = None
        self._add()

    def _add(self) -> None:
        runs, self.runs = self.runs, 0
        for entry, times in self.times:
            subjects.add(self.held, entry, times * runs)


def looked_at(
    subject: subjects.Subject,
    entry: subjects.Entry | None,
    original: Callable[..., Any],
    inputs: Any,
) -> Any:
    """Call a graph with each launch looked at, and decide whether later calls need that too."""
    settled, me = subject.settled, get_ident()
    earlier = settled.ids if settled is not None else subject.launched
    if settled is not None:
        settled.end()
    if STATE[0] == me or STATE[1] == me:  # a graph within another's operator
        outer = STATE[:]
        STATE[:] = [0, 0, None, 0]
        try:
            return original(inputs)
        finally:
            STATE[:] = outer
    log: list[subjects.Entry] = []
    if not subject.fixed or entry is None or STATE[0] or STATE[1] or subjects._tuning[0]:
        return original(inputs)
    STATE[1] = me
    STATE[2] = log
    try:
        result = original(inputs)
    finally:
        STATE[1], STATE[2] = 0, None
    subject.launched = [*map(id, log)]
    alike = log and earlier == subject.launched and len(subject.calls) == 1
    if alike and all(call[2] >= 0 for call in (entry, *log)):
        now_settled = Settled(subject, entry, log)
        previous, subject.settled = subject.settled, now_settled
        if previous is not None:  # another thread's
            previous.end()
    return result


def fixed(path: str) -> bool:
    """Whether a graph's code has neither symbolic sizes nor branches, so that it launches the same
    kernels each time; False of code that cannot be read, or is very long."""
    try:
        if os.path.getsize(path) > LARGEST:
            return False
        with open(path, encoding="utf-8") as file:
            module = ast.parse(file.read())
    except (OSError, ValueError, SyntaxError, RecursionError):
        return False
    bodies: list[ast.stmt] = [*module.body]
    for statement in module.body:
        if isinstance(statement, ast.ClassDef):
            bodies += statement.body
    called = [b for b in bodies if isinstance(b, ast.FunctionDef) and b.name not in _NEVER_CALLED]
    for function in called:
        for node in ast.walk(function):
            if isinstance(node, _BRANCHES):
                return False
            if isinstance(node, ast.Name) and _SYMBOL.fullmatch(node.id):
                return False
            if isinstance(node, ast.Attribute) and node.attr == "item":
                return False
    return bool(called)
