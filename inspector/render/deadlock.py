"""A deadlock: what each thread waits for and who should have come, as rows and as JSON."""

from collections.abc import Iterator, Sequence

from inspector.base.units import plural, word_for
from inspector.execute.faults import ArrivalGroup, Fault, Wait, WarpGroup
from inspector.render import jsons

MAX_WAITS = 3
"""Waits that are shown."""
MAX_GROUPS = 3
"""Groups of warps, and lines, that a row names."""


def deadlock_rows(fault: Fault) -> Iterator[tuple[str, str]]:
    """Labels and sentences on the waits of a deadlock; the first one's is in the fault's text."""
    for wait in fault.waits[:1]:
        yield from _mbarrier_rows(wait) if wait.kind == "mbarrier" else _barrier_rows(wait)
    for wait in fault.waits[1:MAX_WAITS]:
        verb = "waits" if wait.threads == 1 else "wait"
        yield "also", f"{_groups_text(wait.waiting, wait)} {verb} {wait.reason}"
    unshown = len(fault.waits) - MAX_WAITS
    if unshown > 0:
        yield "", f"and {plural(unshown, 'more wait')}, which --json has"
    remedy = fault.remedy
    if remedy is not None:
        change = "the other parity" if remedy.count is None else plural(remedy.count, "arrival")
        yield (
            "remedy",
            f"with {change} in {_lines(remedy.lines)} it comes to its end, without a race",
        )


def _mbarrier_rows(wait: Wait) -> Iterator[tuple[str, str]]:
    """Who arrived in the phase, who did not, and what was never executed."""
    if wait.phase is None:
        return
    if wait.arrived:
        yield "  arrived", "; ".join(_arrival_text(g, wait) for g in wait.arrived[:MAX_GROUPS])
    if not wait.pending:
        return
    for group in wait.absent[:MAX_GROUPS]:
        now = "it has ended" if group.now is None else f"it waits in line {group.now}"
        if len(group.warps) > 1:
            now = now.replace("it has", "they have").replace("it waits", "they wait")
        yield "  missing", f"{_arrival_text(group, wait)}, as in an earlier phase; now {now}"
    if wait.unexecuted:
        yield "  not run", f"{_lines(wait.unexecuted)}, which would arrive at {wait.name}, or copy"
    if not (wait.arrived or wait.absent or wait.unexecuted):
        yield "  missing", "no line of this kernel arrives at it"


def _barrier_rows(wait: Wait) -> Iterator[tuple[str, str]]:
    if wait.others:
        yield "  missing", _groups_text(wait.others, wait)


def _arrival_text(group: ArrivalGroup, wait: Wait) -> str:
    """``line 40 of warps 0, 1 (64 arrivals, 512 bytes)``."""
    counts: list[str] = []
    if group.arrivals:
        counts.append(plural(group.arrivals, "arrival"))
    if group.nbytes:
        counts.append(plural(group.nbytes, "byte"))
    text = f"line {group.line} of {_warps(group.warps)}{_block(group.block, wait)}"
    return f"{text} ({', '.join(counts)})" if counts else text


def _groups_text(groups: Sequence[WarpGroup], wait: Wait) -> str:
    """``warps 0, 1 in line 40, warp 2, which ended``."""
    texts: list[str] = []
    for group in groups[:MAX_GROUPS]:
        place = ", which ended" if group.line is None else f" in line {group.line}"
        texts.append(f"{_warps(group.warps)}{_block(group.block, wait)}{place}")
    unnamed = len(groups) - MAX_GROUPS
    return "; ".join(texts) + (f" and {unnamed} more" if unnamed > 0 else "")


def _block(block: tuple[int, int, int], wait: Wait) -> str:
    """The block, where it is not the one whose thread waits."""
    return "" if block == wait.block else f" of block {block}"


def _warps(warps: Sequence[int]) -> str:
    """``warp 3``, ``warps 0 to 7``, ``warps 1, 2, 5``."""
    if len(warps) > 2 and warps[-1] - warps[0] == len(warps) - 1:
        return f"warps {warps[0]} to {warps[-1]}"
    return f"{word_for(len(warps), 'warp')} {', '.join(map(str, warps))}"


def _lines(lines: Sequence[int]) -> str:
    named = ", ".join(map(str, lines[:MAX_GROUPS]))
    unnamed = len(lines) - MAX_GROUPS
    return f"{word_for(len(lines), 'line')} {named}" + (
        f" and {unnamed} more" if unnamed > 0 else ""
    )


_PLAIN_FIELDS = (
    "kind line block thread threads reason number pending expected owner offset name phase parity "
    "init_line unexecuted"
)


def waits_json(fault: Fault) -> list[dict[str, object]]:
    """The waits of a deadlock, with the likeliest cause first."""
    return [
        jsons.pick_fields(wait, _PLAIN_FIELDS)
        | {
            "bytes": wait.nbytes,
            "waiting": [jsons.pick_fields(g, "block warps line") for g in wait.waiting],
            "others": [jsons.pick_fields(g, "block warps line") for g in wait.others],
            "arrived": [_arrival_json(group) for group in wait.arrived],
            "absent": [_arrival_json(group) for group in wait.absent],
        }
        for wait in fault.waits
    ]


def _arrival_json(group: ArrivalGroup) -> dict[str, object]:
    plain = jsons.pick_fields(group, "line block warps arrivals now")
    return plain | {"bytes": group.nbytes}
