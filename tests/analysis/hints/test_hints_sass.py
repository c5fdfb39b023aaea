"""Waits for loads in loops of SASS: bytes on their way, distances, and addresses from memory."""

from __future__ import annotations

import msgspec.structs
import pytest

from inspector.analysis.function_facts import FunctionFacts
from inspector.analysis.hints.subject import HintSubject
from inspector.base.model import Stage
from inspector.parsers import parse
from inspector.parsers.line import Control, Listing
from tests.analysis.hints.test_hints_ptx import ptx
from tests.helpers.hint_data import findings, rules

HEAD = """
	.section	.text.k,"ax",@progbits
        .global         k
        .type           k,@function
        .size           k,(.L_x_9 - k)
        .other          k,@"STO_CUDA_ENTRY STV_DEFAULT"
k:
.text.k:
"""
LOAD = "LDG.E R{0}, desc[UR4][R2.64]"
WIDE_LOAD = "LDG.E.64 R{0}, desc[UR4][R2.64]"
ADD = "FADD R20, R{0}, R20"
OTHER = "IADD3 R0, R0, 0x100, RZ"
BACK = "@!P0 BRA `(.L_x_1)"

Row = tuple[str, int | None, int]
"""An instruction, the scoreboard that it sets, and the mask of those that it waits for."""


def load(register: int = 4, barrier: int = 0, text: str = LOAD) -> Row:
    return text.format(register), barrier, 0


def use(register: int = 4, *barriers: int) -> Row:
    return ADD.format(register), None, sum(1 << barrier for barrier in barriers or (0,))


def others(count: int) -> list[Row]:
    return [(OTHER, None, 0)] * count


def sass(before: list[Row], *loops: list[Row], control: bool = True) -> HintSubject:
    """A kernel of SASS: some instructions, then loops, one after the other."""
    rows = list(before)
    labels: dict[int, str] = {}
    for number, body in enumerate(loops, 1):
        labels[len(rows)] = f".L_x_{number}:\n"
        rows += [*body, (BACK.replace("_1)", f"_{number})"), None, 0)]
    rows.append(("EXIT", None, 0))
    text = HEAD
    for index, (instruction, _, _) in enumerate(rows):
        text += f"{labels.get(index, '')}        /*{16 * index:04x}*/  {instruction} ;\n"
    parsed = parse(Stage.SASS, text + ".L_x_9:\n")
    controls = iter(rows)
    lines = []
    for line in parsed.lines:
        if control and line.opcode is not None:
            _, barrier, wait = next(controls)
            line = line._replace(control=Control(1, False, barrier, None, wait, 0))
        lines.append(line)
    listing = Listing(parsed.language, lines, parsed.functions)
    facts = FunctionFacts(listing, listing.functions[0])
    return msgspec.structs.replace(
        ptx(""),
        listings={Stage.SASS: listing},
        functions={Stage.SASS: listing.functions[0]},
        facts={Stage.SASS: facts},
    )


IMAD = "IMAD.WIDE R{0}, R{1}, 0x4, R10"
FIRES = [
    ("the next instruction waits", [load(), use()], "1 load in a loop", "(the next instruction)"),
    ("8 instructions on", [load(), *others(7), use()], "1 load", "(8 instructions later)"),
    (
        "12 bytes on their way",
        [load(4, 0), load(6, 1, WIDE_LOAD), use(4, 0, 1)],
        "2 loads in a loop",
        "(the next instruction)",
    ),
    (
        "each waited for before the next",
        [row for _ in range(4) for row in (load(), use())],
        "4 loads in a loop",
        "(the next instruction)",
    ),
    (
        "the address is computed anew",
        [
            load(),
            use(),
            (IMAD.format(4, 12), None, 0),
            ("LDG.E R6, desc[UR4][R4.64]", 1, 0),
            use(6, 1),
        ],
        "2 loads in a loop",
        "(the next instruction)",
    ),
    (
        "a condition on what was loaded",
        [
            load(),
            ("ISETP.GE.AND P1, PT, R4, UR6, PT", None, 1),
            ("@P1 LDG.E R6, desc[UR4][R2.64]", 1, 0),
            use(6, 1),
        ],
        "2 loads in a loop",
        "(the next instruction)",
    ),
    (
        "a load of shared memory beside it",
        [load(), ("LDS.128 R12, [R8]", 1, 0), use(4, 0, 1)],
        "1 load in a loop",
        "(2 instructions later)",
    ),
]


@pytest.mark.parametrize(
    ("body", "count", "distance"), [row[1:] for row in FIRES], ids=[row[0] for row in FIRES]
)
def test_a_load_that_is_waited_for_at_once_is_a_hint(
    body: list[Row], count: str, distance: str
) -> None:
    text = findings(sass(others(2), body))["early-wait"].text
    assert count in text and distance in text


SILENT = {
    "9 instructions on": [load(), *others(8), use()],
    "16 bytes on their way": [load(4, 0, WIDE_LOAD), load(6, 1, WIDE_LOAD), use(4, 0, 1)],
    "16 bytes at once": [load(4, 0, "LDG.E.128 R{0}, desc[UR4][R2.64]"), use()],
    "four loads on their way": [*(load(4 + n, n) for n in range(4)), use(4, 0, 1, 2, 3)],
    "five loads": [row for _ in range(5) for row in (load(), use())],
    "waited for in the next turn": [use(), load()],
    "no load": [("LDS R4, [R8]", 0, 0), use()],
    "a list": [load(), use(), ("LDG.E R6, desc[UR4][R4.64]", 1, 0), use(6, 1)],
    "an index": [
        load(), (IMAD.format(6, 4), None, 1), ("LDG.E R8, desc[UR4][R6.64]", 1, 0), use(8, 1)
    ],
    "the next turn's address": [
        ("LDG.E R8, desc[UR4][R6.64]", 0, 0), use(8), (IMAD.format(6, 8), None, 0)
    ],
}  # fmt: skip


@pytest.mark.parametrize("body", SILENT.values(), ids=SILENT)
def test_loads_that_overlap_or_depend_on_each_other_are_left_alone(body: list[Row]) -> None:
    assert "early-wait" not in rules(sass(others(2), body))


def test_a_wait_outside_of_loops_or_without_encodings_is_left_alone() -> None:
    body = [load(), use()]
    assert "early-wait" in rules(sass([], body))
    assert "early-wait" not in rules(sass(body, others(2)))
    assert "early-wait" not in rules(sass([], body, control=False))


def test_a_loop_that_keeps_enough_in_flight_speaks_for_the_others() -> None:
    early, deep = [load(), use()], [load(4, 0, "LDG.E.128 R{0}, desc[UR4][R2.64]"), use()]
    assert "early-wait" in rules(sass([], early, others(3)))
    assert "2 loads" in findings(sass([], early, early))["early-wait"].text
    assert "early-wait" not in rules(sass([], early, deep))
    assert "early-wait" not in rules(sass([], deep, early))
