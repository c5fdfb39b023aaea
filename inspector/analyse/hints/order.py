"""The order of things in loops: loads waited for at once, barriers, calls."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from inspector.analyse.flow.graph import Flow, Loop
from inspector.analyse.hints.subject import (
    Finding,
    HintSubject,
    Thresholds,
    number,
    numbers,
    plural,
    some,
)
from inspector.analyse.opcodes import OpcodeLines
from inspector.analyse.tensors import uses
from inspector.base.model import Origin, Stage
from inspector.base.names import base_name
from inspector.base.text import words
from inspector.listing.line import Line

WAIT = "early-wait"
BARRIER = "barrier-in-loop"
CALL = "uninlined-call"

_WIDTH = re.compile(r"\.(U8|S8|U16|S16|64|128|256)(?=\.|\Z)")
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}


def _bodies(flow: Flow, code: OpcodeLines) -> list[tuple[Loop, Sequence[Line]]]:
    """Loops without a loop inside them, each with its instructions."""
    if not flow.loops:
        return []
    inside: dict[int, list[Line]] = defaultdict(list)
    for line in code.lines():
        loop = flow.loop_at(line.n)
        if loop is not None:
            inside[loop.header].append(line)
    outer = {
        a.header
        for a in flow.loops
        for b in flow.loops
        if a is not b and set(b.blocks) < set(a.blocks)
    }
    return [
        (loop, inside[loop.header])
        for loop in flow.loops
        if loop.header not in outer and loop.header in inside
    ]


# -- early-wait -----------------------------------------------------------------------------------


def early_wait(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Loops in which no more than a few bytes a thread are ever on their way from memory.

    Read off the wait masks. A kernel with one loop that keeps more in flight is left alone (the
    others are what is left over by unrolling), and so are loads whose address was itself loaded.
    """
    flow, code = subject.flow(Stage.SASS), subject.code(Stage.SASS)
    if flow is None or code is None or not any(line.control for line in subject.sass):
        return
    enough = number(thresholds, WAIT, "bytes")
    near = number(thresholds, WAIT, "instructions")
    early_waits: list[tuple[Line, Line, int]] = []
    for _, lines in _bodies(flow, code):
        loads = sum(1 for line in lines if line.base == "LDG")
        if not loads:
            continue
        most, waits = _in_flight(lines)
        if most >= enough or loads > number(thresholds, WAIT, "loads") or _chased(lines):
            return
        early_waits += [wait for wait in waits if wait[2] <= near]
    if not early_waits:
        return
    distance = min(wait[2] for wait in early_waits)
    early, waiting = [wait[0] for wait in early_waits], [wait[1] for wait in early_waits]
    soon = "the next instruction" if distance == 1 else f"{distance} instructions later"
    yield Finding(
        WAIT,
        "hint",
        f"{plural(len(set(early)), 'load')} in a loop waited for at once ({soon}), with nothing "
        "else on its way: each turn takes the whole latency of memory, hundreds of cycles, which "
        "only other warps can hide. Unroll the loop (with __restrict__, where it also stores) so "
        "that several loads are issued before the first is used, load the next turn's value one "
        "turn ahead, or load 16 bytes at a time.",
        {Stage.SASS: numbers(early + waiting)},
    )


def _in_flight(lines: Sequence[Line]) -> tuple[int, list[tuple[Line, Line, int]]]:
    """The most bytes a thread has on their way at a wait; loads, who waits, and how far on."""
    pending: dict[int, list[tuple[int, Line]]] = defaultdict(list)
    most = 0
    waits: list[tuple[Line, Line, int]] = []
    for at, line in enumerate(lines):
        control = line.control
        if control is None:
            continue
        on_way = sum(_moved(load) for loads in pending.values() for _, load in loads)
        for barrier in range(6):
            if control.wait >> barrier & 1 and pending.get(barrier):
                most = max(most, on_way)
                waits += [(load, line, at - issued) for issued, load in pending.pop(barrier)]
        if line.base == "LDG" and control.write_barrier is not None:
            pending[control.write_barrier].append((at, line))
    if any(pending.values()):  # waited for in the next turn: it was loaded ahead
        return 1 << 20, []
    return most, waits


def _moved(load: Line) -> int:
    match = _WIDTH.search(load.opcode or "")
    return _BYTES[match[1]] if match else 4


def _chased(lines: Sequence[Line]) -> bool:
    """Whether a load's address depends on what a load of the loop brought, this turn or before."""
    loaded: set[str] = set()
    for _ in range(2):
        for line in lines:
            uses = not loaded.isdisjoint(line.uses)
            if line.base == "LDG":
                if uses:
                    return True
                loaded.update(line.defs)
            elif uses:
                loaded.update(name for name in line.defs if name.lstrip("U")[:1] != "P")
            else:
                loaded.difference_update(line.defs)
    return False


# -- barrier-in-loop ------------------------------------------------------------------------------

_BARRIERS = re.compile(r"(?:bar|barrier)(?:\.cta)?\.(?:sync|red)\b")
_PIPELINED = re.compile(r"(?:wgmma|mma|wmma|tcgen05|cp|ldmatrix|mbarrier)\.")


def barrier_in_loop(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Barriers with next to no work between them, and reductions that could be left for later.

    Loops that feed the tensor cores or copy asynchronously need their barriers, and so do tiles in
    shared memory: those have more work than that between them.
    """
    flow, code = subject.flow(Stage.PTX), subject.code(Stage.PTX)
    if flow is None or code is None or not code.count(_BARRIERS.match):
        return
    bars: list[Line] = []
    crowded: list[Line] = []
    work = 0
    for _, lines in _bodies(flow, code):
        here = [line for line in lines if _BARRIERS.match(line.opcode or "")]
        if not here or any(_PIPELINED.match(line.opcode or "") for line in lines):
            continue
        bars += here
        if len(lines) / len(here) <= number(thresholds, BARRIER, "instructions"):
            crowded += here
            work = max(work, round(len(lines) / len(here)))
    sums = _accumulated(subject.ttgir) if bars else []
    if sums:
        yield Finding(
            BARRIER,
            "hint",
            f"{plural(len(sums), 'reduction')} over all warps in every turn of a loop, with "
            f"{plural(len(bars), 'barrier')}, only to be added up: all warps wait for the slowest, "
            "turn after turn. Keep a block of partial results, add to it elementwise, and reduce "
            "it once after the loop.",
            {Stage.TTGIR: numbers(sums), Stage.PTX: numbers(bars)},
        )
    elif crowded and subject.kernel.origin not in (Origin.TRITON, Origin.INDUCTOR):
        yield Finding(
            BARRIER,
            "hint",
            f"{plural(len(crowded), 'barrier')} in a loop with about {work} instructions of PTX "
            "for each: all warps of the block wait for the slowest, turn after turn, for very "
            "little work. Do the last steps within a warp by shuffles (__shfl_xor_sync, "
            "__reduce_add_sync), which need no barrier, or let each thread do more before it.",
            {Stage.PTX: numbers(crowded)},
        )


_COMBINE = words(
    "arith.addf arith.addi arith.maxnumf arith.minnumf arith.maximumf arith.minimumf arith.maxsi "
    "arith.minsi arith.maxui arith.minui arith.mulf"
)


def _accumulated(lines: Sequence[Line]) -> list[Line]:
    """Reductions in an ``scf.for`` whose result is combined with what the loop carries."""
    out: list[Line] = []
    carried: set[str] = set()
    reduced: dict[str, Line] = {}
    depth = 0
    for line in lines:
        if line.base == "scf.for":
            depth += 1
            carried.update(re.findall(r"(%[\w$.\-]+) = %", line.text.partition("iter_args(")[2]))
        elif line.base == "scf.yield":
            depth = max(depth - 1, 0)
        elif line.base == "tt.reduce" and depth:
            reduced.update((name, line) for name in line.defs)
        elif line.base in _COMBINE and depth:
            names = uses(line)
            if len(names) == 2 and not carried.isdisjoint(names):
                out += [reduced[name] for name in names if name in reduced]
    return out


# -- uninlined-call -------------------------------------------------------------------------------

_SYSTEM = frozenset(("__assertfail", "__trap"))
_HEAVY = frozenset(("vprintf", "malloc", "free"))
_CALLEE = re.compile(r"\$(_Z\w+|\w+)\)")


def uninlined_call(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Calls of functions that were not inlined: of the program's, and printf, malloc and free.

    A failing assertion and the assembler's own subroutines (divisions) are left alone, and so are
    calls in PTX that the assembler inlined after all.
    """
    own = [line for line in subject.of(Stage.SASS, "CALL") if "__internal_" not in line.text]
    if subject.sass and not own:
        return
    calls = subject.of(Stage.PTX, "call")
    if subject.ptx:
        names = [line.targets[0] if line.targets else "" for line in calls]
    else:
        names = [(m[1] if (m := _CALLEE.search(line.text)) else "") for line in own]
    named = [name for name in names if name not in _SYSTEM]
    if not named:
        return
    heavy = all(name in _HEAVY for name in named)
    shown = some([base_name(name) if name else "a function chosen at run time" for name in named])
    kept = [line for line in calls if not line.targets or line.targets[0] not in _SYSTEM]
    yield Finding(
        CALL,
        "info" if heavy else "hint",
        f"{plural(len(named), 'call')} of {shown}, not inlined: registers are saved around it and "
        "arguments handed over by convention, and nothing is optimised across it. "
        + (
            "Leave it out of kernels that are measured."
            if heavy
            else "Take away __noinline__ (noinline=True), make the function visible where it is "
            "called, or link with -dlto."
        ),
        {Stage.PTX: numbers(kept), Stage.SASS: numbers(own)},
    )
