"""Regular expressions over what strangers wrote take time in proportion to its length.

All of them are found mechanically: every compiled pattern that a module holds, and every pattern
in a call of ``re``. Each is tried with long runs of every character that it names,
after everything that may lead to each of its repetitions, and with an end that fits nothing. How it
grows is judged by the time of four times the text beside the time of once, in the same run: 4 where
it is linear, 16 where it is quadratic.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import FrameType
from typing import Any

import pytest

import inspector

HOUSE = Path(inspector.__file__).parent
SHORT = 500
"""Characters of the shorter text: a quadratic pattern takes a millisecond, a linear one µs."""

MOST = 9.0
"""How much longer four times the text may take: between 4 and 16, on a machine that others use."""

PARTS = 8
"""Tests among which the patterns are divided: finding all of them would delay each collection."""

SCANS = ("search", "finditer", "findall", "sub", "subn", "split")
SAMPLES = "a1 \t_.%x0A$-,;:()[]{}<>\"'/*\\=!@#&|^~+?eEfF\n`é"


@dataclass(frozen=True)
class Used:
    """A pattern with where it stands, and whether it is tried at every place of a text."""

    where: str
    pattern: re.Pattern[Any]
    scans: bool

    def __str__(self) -> str:
        return self.where


def modules() -> dict[str, Path]:
    """Every module of the package with its file."""
    return {
        ".".join(("inspector", *p.relative_to(HOUSE).with_suffix("").parts)): p
        for p in sorted(HOUSE.rglob("*.py"))
    }


def held(value: object, name: str, depth: int = 0) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """The compiled patterns in a module's value."""
    if isinstance(value, re.Pattern):
        yield name, value
    elif isinstance(getattr(value, "__self__", None), re.Pattern):  # a bound method of one
        yield f"{name}.{value.__name__}", value.__self__  # type: ignore[attr-defined]
    elif depth < 3 and isinstance(value, dict):
        for key, each in list(value.items()):
            yield from held(each, f"{name}[{key!r}]", depth + 1)
    elif depth < 3 and isinstance(value, list | tuple | set | frozenset):
        for n, each in enumerate(value):
            yield from held(each, f"{name}[{n}]", depth + 1)


@cache
def everything() -> list[Used]:
    """All patterns of the package, each once."""
    found: dict[tuple[object, int], Used] = {}

    def keep(where: str, pattern: re.Pattern[Any], scans: bool) -> None:
        key = (pattern.pattern, pattern.flags)
        before = found.get(key)
        if before is None or (scans and not before.scans):
            found[key] = Used(where if before is None else before.where, pattern, scans)

    for found_in in pkgutil.walk_packages([str(HOUSE)], "inspector."):
        if not found_in.name.startswith("inspector.probes") and "__main__" not in found_in.name:
            importlib.import_module(found_in.name)
    files = modules()

    @cache
    def nodes(name: str) -> list[ast.AST]:
        return list(ast.walk(ast.parse(files[name].read_text("utf-8"))))

    @cache
    def scanned(name: str) -> set[str]:
        return _scanned(nodes(name)) if name in files else set()

    for name, module in sorted(sys.modules.items()):
        if name.split(".")[0] == "inspector":
            for key, value in list(vars(module).items()):
                for where, pattern in held(value, f"{name}.{key}"):
                    bound = where.rpartition(".")[2]  # a name may be that of `re.compile(…).match`
                    anchored = bound in ("match", "fullmatch")
                    scans = bound in SCANS or key in scanned(name)
                    keep(where, pattern, scans and not anchored)
    for name, path in files.items():
        if re.search(r"\bre\b", path.read_text("utf-8")):
            for where, pattern, scans in _in_calls(name, nodes(name), scanned(name)):
                keep(where, pattern, scans)
    return sorted(found.values(), key=str)


def _scanned(nodes: Sequence[ast.AST]) -> set[str]:
    """Names of patterns that are tried at every place of a text, or handed on to who may."""
    called: set[str] = set()
    anchored: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Attribute):
            of = node.value.value if isinstance(node.value, ast.Subscript) else node.value
            if isinstance(of, ast.Name):
                (called if node.attr in SCANS else anchored).add(of.id)
    read = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return called | (read - anchored)


def _in_calls(
    name: str, nodes: Sequence[ast.AST], scanned: set[str]
) -> Iterator[tuple[str, re.Pattern[Any], bool]]:
    """Patterns in a call of ``re`` itself, by how they are used where they have a name.

    So those of the probes are found too, which only a program that is recorded imports.
    """
    named = {
        id(node.value): target.id
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        owner, first = node.func.value, node.args[0]
        if not (isinstance(owner, ast.Name) and owner.id == "re"):
            continue
        if isinstance(first, ast.Constant) and isinstance(first.value, str | bytes):
            flags = 0
            for more in (*node.args[1:], *(k.value for k in node.keywords)):
                for part in ast.walk(more):
                    if isinstance(part, ast.Attribute) and part.attr.isupper():
                        flags |= getattr(re, part.attr, 0)
            called = named.get(id(node))
            scans = node.func.attr in SCANS or called in scanned
            where = f"{name}:{node.lineno}" if called is None else f"{name}.{called}"
            yield where, re.compile(first.value, flags), scans


# -- texts ----------------------------------------------------------------------------------------


def one_of(op: Any, arg: Any) -> list[str]:
    """Characters that a single node of a parsed pattern fits."""
    if op is sre.LITERAL:
        return [chr(arg)]
    if op is sre.ANY:
        return ["a", " "]
    if op is sre.NOT_LITERAL:
        return [c for c in SAMPLES if ord(c) != arg][:4]
    assert op is sre.IN
    negated = arg[0][0] is sre.NEGATE
    fits = [c for c in SAMPLES if any(_in(c, *part) for part in arg) != negated]
    if not fits:
        fits = [chr(v if o is sre.LITERAL else v[0]) for o, v in arg if o is not sre.CATEGORY][:3]
    return fits[:12]


def _in(char: str, op: Any, arg: Any) -> bool:
    if op is sre.LITERAL:
        return bool(ord(char) == arg)
    if op is sre.RANGE:
        return bool(arg[0] <= ord(char) <= arg[1])
    if op is sre.CATEGORY:
        name = str(arg).rpartition("_")[2]
        inside = {
            "DIGIT": char.isdigit(),
            "SPACE": char.isspace(),
            "WORD": char.isalnum() or char == "_",
        }[name]
        return bool(inside) != ("_NOT_" in str(arg))
    return False


REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)


def least(nodes: Iterable[Any]) -> str:
    """A short text that fits a sequence of nodes, if one is easily made."""
    out = []
    for op, arg in nodes:
        if op in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            out.append((one_of(op, arg) or [""])[0])
        elif op in REPEATS:
            out.append(least(arg[2]) * min(int(arg[0]), 50))
        elif op is sre.SUBPATTERN:
            out.append(least(arg[3]))
        elif op is sre.ATOMIC_GROUP:
            out.append(least(arg))
        elif op is sre.BRANCH:
            out.append(least(arg[1][0]))
        elif op is sre.ASSERT and arg[0] > 0:
            pass  # what follows has to fit anyway
    return "".join(out)


def children(op: Any, arg: Any) -> list[Any]:
    """The sequences within a node."""
    if op in REPEATS:
        return [arg[2]]
    if op is sre.SUBPATTERN:
        return [arg[3]]
    if op is sre.ATOMIC_GROUP:
        return [arg]
    if op is sre.BRANCH:
        return list(arg[1])
    if op in (sre.ASSERT, sre.ASSERT_NOT):
        return [arg[1]]
    return []


def singles(nodes: Iterable[Any]) -> Iterator[str]:
    """Every character that a node within fits, a few of each."""
    for op, arg in nodes:
        if op in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            yield from one_of(op, arg)
        for inner in children(op, arg):
            yield from singles(inner)


def runs(nodes: Sequence[Any], before: str = "") -> Iterator[tuple[str, str]]:
    """What may lead to each repetition within, and what may be repeated there."""
    for at, (op, arg) in enumerate(nodes):
        lead = before + least(nodes[:at])
        if op in REPEATS:
            body = list(arg[2])
            units = list(dict.fromkeys(singles(body)))
            whole = least(body)
            many = [whole] if len(whole) > 1 else []
            for unit in (*units[:14], *many, *(f"{whole}{u}" for u in units[:3])):
                if unit:
                    yield lead, unit
        for inner in children(op, arg):
            yield from runs(list(inner), lead)


def texts(used: Used) -> list[tuple[str, str, str]]:
    """Prefix, repeated part, suffix."""
    source = used.pattern.pattern
    flags = used.pattern.flags & ~re.UNICODE if isinstance(source, bytes) else used.pattern.flags
    nodes = list(parser.parse(source, flags & ~re.DEBUG))
    out = list(runs(nodes))
    whole = least(nodes)
    out.extend(("", unit) for unit in dict.fromkeys(singles(nodes)))
    # The beginning of the pattern again and again: `.file 1 .file 1`, `"traceEvents" "trace…`.
    out.extend(("", least(nodes[:end])) for end in range(1, len(nodes) + 1))
    made = [
        (lead, unit, tail) for lead, unit in dict.fromkeys(out) if unit for tail in ("", "\x00")
    ]
    return made + [(f"{whole} ", unit, "\x00") for unit in dict.fromkeys(singles(nodes))]


# -- growth ---------------------------------------------------------------------------------------


class Endless(Exception):
    """It was waited for long enough: it grows faster than any polynomial."""


def stopped(number: int, frame: FrameType | None) -> None:
    raise Endless


def seconds(do: Callable[[], object], times: int = 1) -> float:
    """The least of several times of this thread alone, on a machine with any load."""
    took = []
    for _ in range(times):
        start = time.thread_time()
        do()
        took.append(time.thread_time() - start)
    return min(took)


def growth(make: Callable[[int], Callable[[], object]], short: int = SHORT) -> float:
    """How much longer four times as much takes, the least of several attempts."""
    least_ratio = float("inf")
    for attempt in range(4):
        once = seconds(make(short), 3 + 2 * attempt)
        four = seconds(make(4 * short), 1 + 2 * attempt)
        least_ratio = min(least_ratio, four / max(once, 1e-7))
        # What takes µs is measured badly, and what is linear is soon known to be.
        if least_ratio < MOST or four < 2e-5:
            break
    return least_ratio if four >= 2e-5 else 1.0


def attempt(used: Used, text: str) -> Callable[[], object]:
    """The pattern on a text, as the package uses it."""
    subject: Any = text.encode() if isinstance(used.pattern.pattern, bytes) else text
    if not used.scans:
        return lambda: used.pattern.match(subject)
    return lambda: sum(1 for _ in used.pattern.finditer(subject))


@pytest.fixture
def patience() -> Iterator[None]:
    """A pattern that backtracks without end fails instead of keeping everyone waiting."""
    before = signal.signal(signal.SIGALRM, stopped)
    signal.alarm(60)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def slow(used: Used) -> Iterator[str]:
    """The texts for which a pattern grows faster than they do."""
    for lead, unit, tail in texts(used):

        def make(
            size: int, lead: str = lead, unit: str = unit, tail: str = tail
        ) -> Callable[[], object]:
            return attempt(used, lead + unit * (size // len(unit)) + tail)

        signal.alarm(20)
        # Small ones first: what is exponential shows there.
        for size in (16, 24, 32):
            make(size)()
        if (ratio := growth(make)) > MOST:
            yield f"{lead!r} + {unit!r} × n + {tail!r}: {ratio:.1f} times for 4 n"
            return


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("part", range(PARTS))
def test_patterns_take_time_in_proportion(part: int) -> None:
    quadratic = []
    for used in everything()[part::PARTS]:
        quadratic += [f"{used}: {text}" for text in slow(used)]
    assert not quadratic


@pytest.mark.nightly
def test_a_pattern_that_is_quadratic_is_found_out() -> None:
    """The judge itself: what was once in this package, and its like."""
    for source in (r"([%\w$]++)\s*+(?:<\s*+(\d{1,9})\s*+>)?\s*+(?=[,;]|\Z)", r"(\w+)\s*$"):
        assert list(slow(Used("judge", re.compile(source), scans=True)))
    assert not list(slow(Used("judge", re.compile(r"\w++"), scans=True)))
