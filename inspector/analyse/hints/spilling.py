"""Local memory: what spilled out of registers, and arrays that never were in them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inspector.analyse.hints.subject import Finding, Subject, Thresholds, numbers, plural
from inspector.listing.line import Line
from inspector.model import Stage

SPILLS = "spills"
LOCAL = "local-memory"

_DEPOT = re.compile(r"\.local\s+(?:\.align\s+\d+\s+)?\.b8\s+[\w$]+\[(\d{1,9}+)(?!\d)\]")
_LOCAL_PTX = re.compile(r"(?:ld|st)(?:\.\w+)*?\.local\b")
_LOCAL_SASS = frozenset(("LDL", "STL"))
# nvdisasm's remark on what the assembler spilled and fetched back.
_SPILLED = re.compile(r"\(\*\"Spill")
# The table of 2/pi that the slow path of sin, cos and tan reads: its array is touched only where
# an argument is huge.
_REDUCTION_TABLE = "__cudart_i2opi"


def spills(subject: Subject, thresholds: Thresholds) -> Iterator[Finding]:
    """Registers spilled, as the assembler counts them."""
    stores = subject.resources.spill_store_bytes or 0
    loads = subject.resources.spill_load_bytes or 0
    if not stores and not loads:
        return
    machine = _local_sass(subject)
    registers = subject.resources.registers
    at = f" at {registers} registers" if registers is not None else ""
    yield Finding(
        SPILLS,
        "warn",
        f"{stores} bytes of spill stores and {loads} of spill loads a thread{at}: values that had "
        "no register go to local memory, which is device memory behind the caches. Allow more "
        "registers (maxnreg, __launch_bounds__, -maxrregcount), or keep fewer values alive: a "
        "smaller block, more warps for the same block, less unrolling.",
        {Stage.SASS: numbers([m for m in machine if _SPILLED.search(m.text)] or machine)},
    )


def _local_sass(subject: Subject) -> list[Line]:
    return [line for line in subject.sass if line.base in _LOCAL_SASS]


def local_memory(subject: Subject, thresholds: Thresholds) -> Iterator[Finding]:
    """Arrays of a thread that live in memory, because registers cannot be indexed."""
    machine = [m for m in _local_sass(subject) if not _SPILLED.search(m.text)]
    if subject.sass and not any(line.base == "LDL" for line in machine):
        return
    depot, accesses = _in_ptx(subject)
    if subject.ptx:
        if not any(line.base == "ld" for line in accesses):
            return
    elif not machine or subject.resources.spill_store_bytes != 0:
        # Without PTX only "no spills" tells that what is there is an array.
        return
    if _REDUCTION_TABLE in _text(subject):
        return
    size = depot or subject.resources.stack_bytes
    held = f"{plural(size, 'byte')} a thread" if size else "an array"
    count = len(machine) or len(accesses)
    yield Finding(
        LOCAL,
        "hint",
        f"{held[0].upper()}{held[1:]} in local memory, by {plural(count, 'instruction')}, and not "
        "because registers spilled: an array that is indexed by a value not known when compiling "
        "cannot be kept in registers, so each access is one of memory. Unroll the loops that "
        "index it until every index is a constant, or keep it in shared memory.",
        {Stage.PTX: numbers(accesses), Stage.SASS: numbers(machine)},
    )


def _in_ptx(subject: Subject) -> tuple[int, list[Line]]:
    depot = 0
    accesses: list[Line] = []
    for line in subject.lines(Stage.PTX):
        if line.opcode is not None:
            if _LOCAL_PTX.match(line.opcode):
                accesses.append(line)
        elif ".local" in line.text:
            found = _DEPOT.search(line.text)
            depot += int(found[1]) if found else 0
    return depot, accesses


def _text(subject: Subject) -> str:
    """The uses of constant tables in the kernel: addresses taken by ``mov``."""
    return "\n".join(line.text for line in subject.ptx if line.base in ("mov", "ld"))
