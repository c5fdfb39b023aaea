"""Live registers of SASS against ``nvdisasm -plr``: every instruction, every class."""

import re
from collections.abc import Iterator

import pytest

from inspector.analysis.flow.liveness import Liveness
from inspector.analysis.function_facts import FunctionFacts
from inspector.base.model import Stage
from inspector.parsers import parse
from inspector.parsers.line import Line, Listing
from tests.helpers.live import live_names
from tests.helpers.nightly import first_by_day
from tests.helpers.plr import DATA as ANALYSED
from tests.helpers.plr import FORMS, RESERVED, forms, live_sets, stored, stored_sets
from tests.helpers.samples import DATA, disassemble

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


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if n % 3 == 0 else pytest.mark.nightly)
        for n, name in enumerate([*CUBINS, *OLDER_ABI, *NEWER_ABI])
    ],
)
def test_the_same_registers_are_live(name: str) -> None:
    """Independent of the nvdisasm version: 12.8 counts ABI 7, the installed one ABI 8."""
    cubin = f"{name}.cubin" if name in CUBINS else str(ANALYSED / "plr" / f"{name}.cubin")
    older = name in OLDER_ABI
    truth = stored_sets(name) if older else live_sets(disassemble(cubin, "-c", "-plr"))
    assert len(truth) > 35
    seen = 0
    listing = sass(disassemble(cubin, "-c"))
    for function in listing.functions:
        names = live_names(listing, function)
        for line in listing.between(function.first, function.last):
            expected = truth.get((function.name, -1 if line.address is None else line.address))
            if expected is not None:
                assert names[line.n] == expected, line.text
                seen += 1
    assert seen == len(truth)


@pytest.mark.parametrize("name", first_by_day(FORMS))
def test_the_same_registers_are_live_around_every_form(name: str) -> None:
    """Calls aside: what one may write goes up to the highest register of the whole file, of which
    the stored kernels are a part."""
    text, marks = forms(name)
    listing = sass(text)
    wrong: list[str] = []
    for function in listing.functions:
        names = live_names(listing, function)
        wrong += [
            line.text
            for line in listing.between(function.first, function.last)
            if line.n in marks
            and line.base != "CALL"
            and names[line.n] - RESERVED != marks[line.n].live
        ]
    assert wrong == []


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
        ours = {name: count for name, count in (live.counts_at(line.n) or {}).items() if count}
        if ours != theirs:
            by = sum(abs(ours.get(c, 0) - theirs.get(c, 0)) for c in {*ours, *theirs})
            assert function in textures and by == 1, (function, line.text, ours, theirs)
            different += 1
    assert different < 60
