"""Every hint, in order.

Each is a small pure function of a subject and the thresholds of ``reference/hints.toml``; it gives
no finding where it does not apply, and none where what it needs is not known.
"""

from collections.abc import Iterable

from inspector.analysis.hints.access import (
    DIVERGENCE,
    REPEATED,
    bank_conflicts,
    narrow_access,
    narrow_rows,
    uncoalesced_layout,
    with_executed,
)
from inspector.analysis.hints.launching import (
    idle_lanes,
    local_memory,
    low_occupancy,
    masked_lanes,
    small_grid,
    spills,
    tail_effect,
)
from inspector.analysis.hints.order import (
    barrier_in_loop,
    early_wait,
    fp64_promotion,
    no_tensor_cores,
    slow_division,
    uninlined_call,
)
from inspector.analysis.hints.subject import Finding, HintSubject, Thresholds
from inspector.base.errors import PtxviewError

HINTS = (
    fp64_promotion,
    spills,
    local_memory,
    narrow_access,
    narrow_rows,
    uncoalesced_layout,
    masked_lanes,
    small_grid,
    tail_effect,
    low_occupancy,
    early_wait,
    slow_division,
    no_tensor_cores,
    bank_conflicts,
    barrier_in_loop,
    uninlined_call,
    idle_lanes,
)

RULES = tuple(h.__name__.replace("_", "-") for h in HINTS if h is not narrow_rows)
"""The names of what hints say, which are those of their functions: narrow rows are accesses too."""
PAGE = "docs/reference/hints.md"
"""Explains each rule, below an anchor of its name."""


def pages(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Where the rules of findings are explained; a profiler's rules have no page here."""
    documented = {*RULES, DIVERGENCE, REPEATED}
    rules = dict.fromkeys(finding.rule for finding in findings)
    return tuple(f"{PAGE}#{rule}" for rule in rules if rule in documented)


def hint_rules(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Each rule of findings once, in their order."""
    return tuple(dict.fromkeys(finding.rule for finding in findings))


def hints(subject: HintSubject, thresholds: Thresholds) -> tuple[Finding, ...]:
    """Every finding of every hint, what may gain most first.

    Where blocks were run, what was counted replaces guesses. A hint whose stage cannot be
    read (no disassembler, a blob that is gone) says nothing.
    """
    out: list[Finding] = []
    for hint in HINTS:
        try:
            out += hint(subject, thresholds)
        except PtxviewError:
            continue
    findings = with_executed(subject, out, thresholds)
    return tuple(sorted(findings, key=lambda finding: -finding.weight))
