"""Figures of SASS told on the lines that it came from."""

from inspector.analysis.line_annotations import roll_up

LIVE = {1: {"gpr": 3, "pred": 1}, 2: {"gpr": 7, "pred": 0}, 3: {"gpr": 5, "pred": 2}}
STALL = {1: 4, 2: 1, 3: 11}


def test_a_line_has_the_most_live_registers_and_all_the_stalls_of_its_instructions() -> None:
    rolled = roll_up(
        {10: (1, 3), 11: (2,)}, LIVE.get, lambda ns: sum(STALL[n] for n in ns), highest=7
    )
    assert rolled[10].live == {"gpr": 5, "pred": 2}
    assert (rolled[10].stall, rolled[10].instructions, rolled[10].peak) == (15, 2, False)
    assert (rolled[11].live["gpr"], rolled[11].stall, rolled[11].peak) == (7, 1, True)
