"""Definitions and uses against paths walked one by one, and in real SASS."""

from hypothesis import given, settings

from inspector.analysis.function_facts import FunctionFacts
from inspector.base.model import Stage
from inspector.parsers import parse
from inspector.parsers.line import Function, Line, Listing
from tests.helpers.plr import stored
from tests.helpers.ptx_programs import Program, programs


@settings(max_examples=60, deadline=None)
@given(programs())
def test_definitions_and_uses_are_those_of_paths(program: Program) -> None:
    listing = parse(Stage.PTX, program.text)
    found = FunctionFacts(listing, listing.functions[0]).chains
    assert program.code
    for i, (one, line) in enumerate(zip(program.code, program.lines, strict=True)):
        for register in program.registers():
            writers = {program.lines[j] for j in program.writers(i, register)}
            assert found.definitions(line, register) == tuple(sorted(writers)), (line, register)
            readers: set[int] = set()
            if register in one.defs:
                readers = {program.lines[j] for j in program.readers(i, register)}
            assert found.uses(line, register) == tuple(sorted(readers)), (line, register)


def section(name: str, function: str) -> tuple[Listing, Function, list[Line]]:
    listing = parse(Stage.SASS, stored()[name].text)
    found = next(f for f in listing.functions if f.name == function)
    lines = listing.lines[found.first - 1 : found.last]
    return listing, found, [line for line in lines if line.opcode]


def test_what_a_call_returns_is_written_by_the_call() -> None:
    """A division in double precision is a function of the section; its result is in registers."""
    listing, function, lines = section("hard_sm90a", "doubles")
    found = FunctionFacts(listing, function).chains
    written = {
        (line.n, register): found.uses(line.n, register)
        for line in lines
        if line.base == "CALL"
        for register in (f"R{i}" for i in range(16))
    }
    assert any(written.values())
    for (line, register), readers in written.items():
        for reader in readers:
            assert line in found.definitions(reader, register)
