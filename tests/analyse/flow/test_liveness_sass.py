"""Live registers of SASS against ``nvdisasm -plr``: every instruction, every class."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from inspector.analyse.flow.liveness import Liveness
from inspector.analyse.function_facts import FunctionFacts
from inspector.base.model import Stage
from inspector.listing import parse
from inspector.listing.line import Line, Listing
from tests.helpers.plr import DATA as ANALYSED
from tests.helpers.plr import live_sets, stored, stored_sets
from tests.helpers.samples import DATA, disassemble

"""Those that nvdisasm 13 prints life ranges of: its own ELF ABI."""

NAMES = tuple(stored())

OMITTED = re.compile(r"\b(?:TEX|TLD|TLD4|TXD)\b")
"""nvdisasm 13.5 leaves out one register of some texture instructions of sm_100 and sm_120."""


def sass(text: str) -> Listing:
    return parse(Stage.SASS, text)


def live_in(listing: Listing) -> Iterator[tuple[str, Line, Liveness]]:
    """Each line of each function with the function's name and live registers."""
    for function in listing.functions:
        live = FunctionFacts(listing, function).live
        for line in listing.between(function.first, function.last):
            yield function.name, line, live


CUBINS = sorted({path.stem for path in DATA.glob("*.cubin")} - {"gelu_sm90", "matmul_sm90"})
"""Those that nvdisasm 13 prints life ranges of: its own ELF ABI."""
OLDER_ABI = sorted(path.stem for path in (ANALYSED / "plr").glob("*_abi7.cubin"))
NEWER_ABI = sorted(path.stem for path in (ANALYSED / "plr").glob("*_abi8.cubin"))


@pytest.mark.parametrize("name", [*CUBINS, *OLDER_ABI, *NEWER_ABI])
def test_the_same_registers_are_live(name: str) -> None:
    """Independent of the nvdisasm version: 12.8 counts ABI 7, the installed one ABI 8."""
    cubin = f"{name}.cubin" if name in CUBINS else str(ANALYSED / "plr" / f"{name}.cubin")
    older = name in OLDER_ABI
    truth = stored_sets(name) if older else live_sets(disassemble(cubin, "-c", "-plr"))
    assert len(truth) > 35
    seen = 0
    for function, line, live in live_in(sass(disassemble(cubin, "-c"))):
        expected = truth.get((function, -1 if line.address is None else line.address))
        if expected is not None:
            assert live.registers(line.n) == expected, line.text
            seen += 1
    assert seen == len(truth)


@pytest.mark.parametrize("name", NAMES)
def test_as_many_are_live(name: str) -> None:
    """Of cubins whose disassembly is stored, made by several compilers for every architecture.

    In functions with texture instructions of sm_100 and sm_120 the tool may omit one register.
    """
    one = stored()[name]
    listing = sass(one.text)
    assert len(one.counts) > 30
    textures: set[str] = set()
    if name.endswith(("sm100a", "sm120a")):
        textures = {f for f, line, _ in live_in(listing) if OMITTED.search(line.opcode or "")}
    different = 0
    for function, line, live in live_in(listing):
        theirs = one.counts.get(line.n)
        if theirs is None:
            continue
        ours = {name: count for name, count in (live.at(line.n) or {}).items() if count}
        if ours != theirs:
            by = sum(abs(ours.get(c, 0) - theirs.get(c, 0)) for c in {*ours, *theirs})
            assert function in textures and by == 1, (function, line.text, ours, theirs)
            different += 1
    assert different < 60


PLAIN = """
//--------------------- .text.f --------------------------
	.section	.text.f,"ax",@progbits
f:
.text.f:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/                   S2R R2, SR_TID.X ;
        /*0020*/              @!P0 IADD3 R3, R2, 0x1, RZ ;
        /*0030*/                   STG.E.SYS [R2], R3 ;
        /*0040*/                   EXIT ;
.L_x_0:
        /*0050*/                   BRA `(.L_x_0);
"""


def test_a_guarded_write_leaves_the_old_value_only_within_its_region() -> None:
    """As the tool has it: what is read after the next label is not live before the last one."""
    text = PLAIN.replace("        /*0020*/", ".L_x_9:\n        /*0020*/")
    text = text.replace("        /*0030*/", ".L_x_8:\n        /*0030*/")
    listing = sass(text)
    live = FunctionFacts(listing, listing.functions[0]).live
    of = {line.address: line.n for line in listing.lines if line.address is not None}
    assert live.registers(of[0x10]) == {"R1", "R2", "P0"}
    assert live.registers(of[0x20]) == {"R1", "R2", "R3", "P0"}
    assert live.registers(of[0x30]) == {"R1", "R2", "R3"}


OLDER = '\t.headerflags\t@"EF_CUDA_SM90"'
"""How nvdisasm begins the listing of a cubin of ELF ABI 7."""


def labelled_twice(heading: str) -> Listing:
    """``PLAIN`` with a label before the guarded write, and one behind it."""
    text = PLAIN.replace("        /*0020*/", ".L_x_9:\n        /*0020*/")
    return sass(heading + text.replace("        /*0030*/", ".L_x_8:\n        /*0030*/"))


def test_a_label_that_nothing_names_begins_a_region_in_the_newer_abi_alone() -> None:
    """nvdisasm 13.5 writes it in both, and counts only what is of the newer one."""
    for heading, expected in ((OLDER, {"R1", "R3", "P0"}), ("\t.target\tsm_90", {"R1", "P0"})):
        listing = labelled_twice(heading)
        first = next(line.n for line in listing.lines if line.address == 0)
        assert FunctionFacts(listing, listing.functions[0]).live.registers(first) == expected


def test_a_label_that_an_instruction_names_begins_a_region_in_the_older_abi() -> None:
    """If only ``BSSY`` names it."""
    plain = labelled_twice(OLDER)
    text = "\n".join(line.text for line in plain.lines)
    text = text.replace("S2R R2, SR_TID.X", "BSSY B0, `(.L_x_9)")
    text = text.replace("MOV R1, c[0x0][0x28]", "BSSY B1, `(.L_x_8)")
    listing = sass(text)
    first = next(line.n for line in listing.lines if line.address == 0)
    assert FunctionFacts(listing, listing.functions[0]).live.registers(first) == {"R1", "R2", "P0"}
