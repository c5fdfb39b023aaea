"""Lines that stand elsewhere and do the same: told apart from lines that changed.

A line has moved where it is equal under the renaming, and nothing that it passed on its way stands
in an order to it: nothing reads what it writes, writes what it reads, or writes the same. A load
may pass a load. A store, an atomic, a barrier or a fence passes nothing that touches memory or
waits, and nothing leaves its block: what passed a label or a branch, or passes
one, has not merely moved. Whether two addresses are the same is not asked: they may be.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from itertools import accumulate, islice, takewhile

from inspector.diff.align import Blocks, gaps
from inspector.diff.matching import Match, MatchSide
from inspector.listing.line import Kind, Line

MAX_PASSED = 1024
"""Lines that a moved line may have passed; beyond, it counts as deleted and inserted."""

MAX_LINES_SEEN = 1 << 20
"""Lines looked at for all candidates together."""

_NOWHERE = 1 << 60

_CONTROL = re.compile(
    r"(?:bra|brx|call|ret|exit|trap|br|cond_br|switch|invoke|unreachable|\w+\.(?:return|yield|br|"
    r"cond_br|for|if|while|condition|reduce|func)|BRA|BRX|BRXU|JMP|JMX|CALL|RET|EXIT|BSSY|BSYNC|"
    r"WARPSYNC|BREAK|KILL|YIELD|define|scf\..*|module)\Z"
)
_READS = re.compile(r"(?:ld|ldu|ldmatrix|load|tt\.load|ttg\.local_load|LD|LDG|LDS|LDL|LDSM|LDT)\Z")
_CONSTANT = re.compile(r"(?:LDC|LDCU|ULDC|S2R|S2UR|CS2R)\Z|(?:ld|ldu)\.param\b|arith\.|math\.")
_TOUCHES = re.compile(
    r"st|ld|atom|red|bar|barrier|membar|fence|cp|mbarrier|wgmma|tcgen05|prefetch|discard|multimem|"
    r"stmatrix|tensormap|shfl|vote|match|activemask|elect|nanosleep|griddepcontrol|setmaxnreg|"
    r"su(?:ld|st|red)|store|load|cmpxchg|atomicrmw|tail|tt\.(?:load|store|atomic\w*|descriptor\w*|"
    r"print|assert|call|elementwise\w*|extern\w*)|ttg\..*|ttng\..*|gpu\..*|nvvm\..*|llvm\..*|"
    r"ST.*|LD.*|ATOM.*|RED.*|BAR|MEMBAR|DEPBAR|FENCE|UTMA.*|UBLK.*|HGMMA|IGMMA|QGMMA|WARPGROUP.*|"
    r"UTC.*|SYNCS|ARRIVES|CCTL.*|ERRBAR|SHFL|VOTE.*|MATCH|ELECT|NANOSLEEP|SUST|SURED|SULD|R2UR|"
    r"ACQBULK|PREEXIT|CGAERRBAR|UCGABAR.*|NOP"
)


def moved(a: MatchSide, b: MatchSide, match: Match) -> list[tuple[int, int]]:
    """Pairs of equal forms of ``a`` and ``b`` outside the blocks of ``match``: those that moved."""
    waiting: defaultdict[int, deque[int]] = defaultdict(deque)
    for _, _, j0, j1 in gaps(match.blocks, len(match.a), len(match.b)):
        for j in range(j0, j1):
            waiting[match.b[j]].append(j)
    if not waiting:
        return []
    candidates: list[tuple[int, int]] = []
    for i0, i1, _, _ in gaps(match.blocks, len(match.a), len(match.b)):
        for i in range(i0, i1):
            queue = waiting.get(match.a[i])
            if queue and a.lines[i].kind is Kind.INSTRUCTION:
                candidates.append((i, queue.popleft()))
    return _independent(a, match.blocks, candidates) if candidates else []


def _independent(
    a: MatchSide, blocks: Blocks, candidates: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Those of the candidates that passed only what they may pass."""
    partner = [-1] * len(a.lines)
    for i, j, size in blocks:
        partner[i : i + size] = range(j, j + size)
    for i, j in candidates:
        partner[i] = j
    # up to a line, the last place in b of any; from it on, the first
    last = list(accumulate(partner, max))
    ends = (p if p >= 0 else _NOWHERE for p in reversed(partner))
    first = list(accumulate(ends, min))[::-1]
    effort = MAX_LINES_SEEN
    out: list[tuple[int, int]] = []
    for i, j in candidates:
        behind = takewhile(lambda k, j=j: first[k] < j, range(i + 1, len(partner)))  # type: ignore[misc]
        before = takewhile(lambda k, j=j: last[k] > j, range(i - 1, -1, -1))  # type: ignore[misc]
        passed = [*islice(behind, MAX_PASSED), *islice(before, MAX_PASSED)]
        effort -= len(passed)
        if effort < 0:
            break
        crossed = (k for k in passed if partner[k] >= 0 and (k > i) == (partner[k] < j))
        if len(passed) < MAX_PASSED and all(_may_pass(a.lines[i], a.lines[k]) for k in crossed):
            out.append((i, j))
    return out


def _may_pass(moving: Line, passed: Line) -> bool:
    if passed.kind is Kind.LABEL or moving.kind is Kind.LABEL:
        return False
    for line in (moving, passed):
        if line.opcode is not None and _CONTROL.match(line.base or ""):
            return False
        if line.kind is Kind.UNKNOWN or (line.kind is Kind.INSTRUCTION and line.opcode is None):
            return False
    defs, uses = set(moving.defs), set(moving.uses)
    if not defs.isdisjoint(passed.uses) or not defs.isdisjoint(passed.defs):
        return False
    if not uses.isdisjoint(passed.defs):
        return False
    first, second = _touches(moving), _touches(passed)
    if not first or not second:
        return True
    return first == second == "reads"


def _touches(line: Line) -> str:
    """``reads`` for a load, else ``acts`` where memory or other threads have a part in it."""
    base, opcode = line.base or "", line.opcode or ""
    if _CONSTANT.match(opcode):
        return ""
    if _READS.match(base):
        return "" if ".volatile" in opcode or ".STRONG" in opcode else "reads"
    if base == "call" or _TOUCHES.match(base):
        return "acts"
    return ""
