"""Live registers of SASS against ``nvdisasm -plr``: every instruction, every class."""

from __future__ import annotations

import re

import pytest

from inspector.analyse.function_facts import FunctionFacts
from inspector.base.model import Stage
from inspector.listing import parse
from inspector.listing.line import Listing
from tests.helpers.plr import DATA as ANALYSED
from tests.helpers.plr import live_sets, stored, stored_sets
from tests.helpers.samples import DATA, Disassembler, disassemble

CUBINS = ["nested", "tma_sm90", "tma_sm100", "zoo_sm75", "zoo_sm90", "zoo_sm120"]
"""Those that nvdisasm 13 prints life ranges of: its own ELF ABI."""

NAMES = tuple(stored())

OMITTED = re.compile(r"\b(?:TEX|TLD|TLD4|TXD)\b")
"""nvdisasm 13.5 leaves out one register of some texture instructions of sm_100 and sm_120."""


@pytest.fixture
def nvdisasm() -> Disassembler:
    return disassemble


def sass(text: str) -> Listing:
    return parse(Stage.SASS, text)


def counted(listing: Listing) -> dict[int, dict[str, int]]:
    """The counts of every function, without zeros, by line."""
    out: dict[int, dict[str, int]] = {}
    for function in listing.functions:
        live = FunctionFacts(listing, function).live
        for n in range(function.first, function.last + 1):
            found = live.at(n)
            if found is not None:
                out[n] = {name: count for name, count in found.items() if count}
    return out


@pytest.mark.parametrize("name", CUBINS)
def test_the_same_registers_are_live(name: str, nvdisasm: Disassembler) -> None:
    truth = live_sets(nvdisasm(f"{name}.cubin", "-c", "-plr"))
    assert len(truth) > 200
    listing = sass(nvdisasm(f"{name}.cubin", "-c"))
    seen = 0
    for function in listing.functions:
        live = FunctionFacts(listing, function).live
        for line in listing.lines[function.first - 1 : function.last]:
            expected = truth.get((function.name, line.address if line.address is not None else -1))
            if expected is not None:
                assert live.registers(line.n) == expected, line.text
                seen += 1
    assert seen == len(truth)


OLDER_ABI = sorted(path.stem for path in (ANALYSED / "plr").glob("*_abi7.cubin"))
NEWER_ABI = sorted(path.stem for path in (ANALYSED / "plr").glob("*_abi8.cubin"))


@pytest.mark.parametrize("name", [*OLDER_ABI, *NEWER_ABI])
def test_each_abi_is_counted_as_the_tool_that_counts_it(name: str, nvdisasm: Disassembler) -> None:
    """Independent of the nvdisasm version: 12.8 counts ABI 7, the installed one ABI 8."""
    cubin = str(ANALYSED / "plr" / f"{name}.cubin")
    older = name in OLDER_ABI
    truth = stored_sets(name) if older else live_sets(nvdisasm(cubin, "-c", "-plr"))
    assert len(truth) > 35
    listing = sass(nvdisasm(cubin, "-c"))
    seen = 0
    for function in listing.functions:
        live = FunctionFacts(listing, function).live
        for line in listing.lines[function.first - 1 : function.last]:
            expected = truth.get((function.name, line.address if line.address is not None else -1))
            if expected is not None:
                assert live.registers(line.n) == expected, line.text
                seen += 1
    assert seen == len(truth)


def functions_with_omissions(name: str, listing: Listing) -> set[str]:
    """Functions in which the tool omits a register of a texture instruction; see ``OMITTED``."""
    if not name.endswith(("sm100a", "sm120a")):
        return set()
    return {
        function.name
        for function in listing.functions
        for line in listing.lines[function.first - 1 : function.last]
        if line.opcode is not None and OMITTED.search(line.opcode)
    }


@pytest.mark.parametrize("name", NAMES)
def test_as_many_are_live(name: str) -> None:
    """Of cubins whose disassembly is stored, made by several compilers for every architecture."""
    one = stored()[name]
    listing = sass(one.text)
    ours = counted(listing)
    excepted = functions_with_omissions(name, listing)
    assert len(one.counts) > 30
    for function in listing.functions:
        wrong = [
            (listing.lines[n - 1].text, ours.get(n), one.counts[n])
            for n in range(function.first, function.last + 1)
            if n in one.counts and ours.get(n) != one.counts[n]
        ]
        if function.name not in excepted:
            assert not wrong, (function.name, wrong[:3])


def test_few_instructions_are_excepted() -> None:
    """The tool's omissions: counts differ on these, by one register."""
    different = 0
    for name, one in stored().items():
        listing = sass(one.text)
        excepted = functions_with_omissions(name, listing)
        if not excepted:
            continue
        ours = counted(listing)
        for function in listing.functions:
            if function.name not in excepted:
                continue
            for n in range(function.first, function.last + 1):
                if n in one.counts and ours[n] != one.counts[n]:
                    classes = set(ours[n]) | set(one.counts[n])
                    by = [abs(ours[n].get(c, 0) - one.counts[n].get(c, 0)) for c in classes]
                    assert sum(by) == 1, listing.lines[n - 1].text
                    different += 1
    assert 0 < different < 120


def test_the_store_has_what_it_says() -> None:
    """Every architecture, both compilers, calls, recursion, switches, descriptors, textures."""
    names = " ".join(NAMES)
    for architecture in ("sm75", "sm80", "sm86", "sm89", "sm90", "sm100", "sm120"):
        assert architecture in names
    text = "\n".join(one.text for one in stored().values())
    for word in (
        "CALL.REL",
        "CALL.ABS",
        "RET.ABS",
        "BRX ",
        "BSSY",
        "BREAK",
        "P2R",
        "R2P",
        "HGMMA",
        "HMMA",
        "TEX",
        "SULD",
        "SUST",
        "ATOMG",
        "STL",
        "LDL",
        "@!UP",
        "WARPSYNC.COLLECTIVE",
        "BRA.DIV",
        "REDUX",
        "LDGSTS",
        "LDSM",
        "UTMALDG" if "UTMALDG" in text else "LDG",
        "BMOV",
    ):
        assert word in text, word
    assert sum(len(one.counts) for one in stored().values()) > 50_000


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


def test_peak_and_lines_without_instructions() -> None:
    listing = sass(PLAIN)
    live = FunctionFacts(listing, listing.functions[0]).live
    assert live.classes == ("gpr", "pred")
    # under its guard R3 may keep what it held, so it is live from the start
    assert live.registers(6) == {"R1", "R3", "P0"}
    assert dict(live.at(8) or {}) == {"gpr": 3, "pred": 1}
    assert live.peak == {"gpr": (3, 7), "pred": (1, 6)}
    assert live.at(2) is None
    assert live.at(5) is None
    assert live.at(10_000) is None
    assert live.registers(5) is None


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


def test_sample_cubins_are_all_named() -> None:
    readable = {path.stem for path in DATA.glob("*.cubin")} - {"gelu_sm90", "matmul_sm90"}
    assert readable == set(CUBINS)
