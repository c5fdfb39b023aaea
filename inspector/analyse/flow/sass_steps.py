"""The steps of a SASS function: jumps by their labels, registers by their names.

NVIDIA documents the mnemonics (CUDA Binary Utilities, "Instruction Set Reference"). Where control
goes was read off ``nvdisasm -bbcfg``, which draws every edge; the tests compare with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from inspector.analyse.flow.steps import Jump, Step, StepRows, Steps, Way
from inspector.base.text import words
from inspector.listing.line import Function, Kind, Line, Listing
from inspector.listing.sass_operands import BRANCHES, CALLS

_LABEL = re.compile(r"`\(([^()\n]*)\)")
_ADDRESS = re.compile(r"\b0x[0-9a-f]+\b")
_BARRIER = re.compile(r"\bB\d+\b")
_GUARD = re.compile(r"[^@;]*?/\s*(?:\{\s*)?@(!?)(U?P[0-9T])\b")
_OPERANDS = re.compile(r"(?<![\w.])[A-Z][\w.]*+\s++([^;`]*+)")
_LOCAL = re.compile(r"\.?L_x?_?\d+\Z|\.L")
_RETURNS = words("RET PRET")
_EXITS = words("EXIT KILL RTT")
_JUMPS = BRANCHES | _RETURNS | _EXITS | words("BSYNC BSSY SYNC BRK CONT SSY")
_FILES = {"R": "gpr", "P": "pred", "UR": "ugpr", "UP": "upred", "B": "barrier"}
_NAME = re.compile(r"(UR|UP|R|P|B)\d+\Z")


def read_sass(listing: Listing, function: Function) -> Steps:
    """The steps of ``function`` of a SASS ``listing``."""
    lines = listing.lines[function.first - 1 : function.last]
    labels, addresses = _places(lines)
    numbers: dict[str, int] = {}
    classes: list[str] = []
    steps = StepRows()
    jumps: dict[int, Jump] = {}
    entries: dict[int, None] = {}
    barriers: dict[int, tuple[str, int]] = {}
    for line in lines:
        if line.opcode is None or line.kind is not Kind.INSTRUCTION:
            continue
        n, text, base = line.n, line.text, line.base or ""
        guard = _GUARD.match(text) if "@" in text else None
        defs = _numbers(line.defs, numbers, classes)
        kills = () if guard and guard[2] not in ("PT", "UPT") else defs
        steps.append(Step(n, n, defs, kills, _numbers(line.uses, numbers, classes)))
        if base not in _JUMPS:
            continue
        targets = _targets(line, labels, addresses)
        always = guard is None or (guard[2] in ("PT", "UPT") and not guard[1])
        if base in ("BSSY", "SSY"):
            register = _BARRIER.search(text)
            if targets:
                barriers[n] = (register[0] if register else "", targets[0])
        elif base in CALLS:
            jumps[n] = Jump(Way.CALL, targets, True)
            entries.update((t, None) for t in targets)
        elif base in _RETURNS:
            jumps[n] = Jump(Way.RETURN, (), not always)
        elif base in _EXITS:
            jumps[n] = Jump(Way.EXIT, (), not always)
        elif base in BRANCHES:
            jumps[n] = Jump(Way.BRANCH, targets, not always or _conditional(line))
        elif base in ("BSYNC", "SYNC"):
            register = _BARRIER.search(text)
            jumps[n] = Jump(Way.SYNC, (), not always, register[0] if register else "")
    entries.update((n, None) for label, n in labels.items() if not _LOCAL.match(label))
    return Steps(
        steps,
        jumps,
        tuple(numbers),
        tuple(classes),
        tuple(dict.fromkeys(classes)),
        tuple(entries),
        barriers,
        tuple(dict.fromkeys(labels.values())),
    )


def _numbers(
    registers: tuple[str, ...], numbers: dict[str, int], classes: list[str]
) -> tuple[int, ...]:
    out = []
    for register in registers:
        number = numbers.get(register)
        if number is None:
            number = numbers[register] = len(numbers)
            file = _NAME.match(register)
            # PT, UPT and the like hold no value
            classes.append(_FILES[file[1]] if file else "")
        out.append(number)
    return tuple(out)


def _places(lines: Sequence[Line]) -> tuple[dict[str, int], dict[int, int]]:
    """The line of the first instruction at each label, and at each address."""
    labels: dict[str, int] = {}
    addresses: dict[int, int] = {}
    waiting: list[str] = []
    for line in lines:
        if line.label is not None:
            waiting.append(line.label)
        elif line.opcode is not None and line.kind is Kind.INSTRUCTION:
            for label in waiting:
                labels.setdefault(label, line.n)
            waiting = []
            if line.address is not None:
                addresses.setdefault(line.address, line.n)
    return labels, addresses


def _targets(line: Line, labels: dict[str, int], addresses: dict[int, int]) -> tuple[int, ...]:
    """The lines that a jump names, in this function."""
    named = line.targets or tuple(_LABEL.findall(line.text))
    if not named and (found := _ADDRESS.findall(line.text)):
        named = (found[-1],)
    out: dict[int, None] = {}
    for name in named:
        at = labels.get(name)
        if at is None and name.startswith("0x") and len(name) < 20:
            at = addresses.get(int(name, 16))
        if at is not None:
            out[at] = None
    return tuple(out)


def _conditional(line: Line) -> bool:
    """Whether a branch depends on more than its guard: ``BRA P0, …``, ``BRA.DIV UR4, …``."""
    if line.base not in ("BRA", "JMP"):
        return False
    match = _OPERANDS.search(line.text, line.text.find(line.opcode or ""))
    first = match[1].strip().rstrip(",") if match else ""
    conditional = first not in ("", "PT", "UPT") and not first.startswith("0x")
    qualifiers = (line.opcode or "").split(".")[1:]
    return conditional or not {"DIV", "CONV"}.isdisjoint(qualifiers)
