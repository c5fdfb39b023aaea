"""Control flow: PTX by hand, SASS against ``nvdisasm -bbcfg``, loops against dominators."""

import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inspector.analysis.flow.graph import Flow, declared, find_loops
from inspector.analysis.function_facts import FunctionFacts
from inspector.base.model import Stage
from inspector.parsers import parse
from tests.helpers.nightly import first_by_day
from tests.helpers.plr import stored
from tests.helpers.ptx_programs import Program, programs
from tests.helpers.samples import DATA, disassemble

CUBINS = sorted(path.name for path in DATA.glob("*.cubin") if path.stem != "matmul_sm90")
"""Those that nvdisasm 13 follows; ``matmul_sm90`` is of an ELF ABI before it."""


def kernel(code: str) -> Flow:
    """The flow of a kernel whose first line of code is 3; lines end with ``|``."""
    listing = parse(Stage.PTX, "\n".join((".entry f()", "{", *code.split("|"), "}")))
    return FunctionFacts(listing, listing.functions[0]).flow


@pytest.mark.parametrize(
    ("code", "blocks"),
    [
        ("setp.eq.s32 %p1, %r1, 0;|@%p1 bra $E;|mov.u32 %r2, 1;|bra.uni $L;|$E:|mov.u32 %r2, 2;|"
         "$L:|ret;",
         [(3, 4, (1, 2)), (5, 6, (3,)), (8, 8, (3,)), (10, 10, ())]),
        ("mov.u32 %r1, 1;|$L__tmp0:|mov.u32 %r2, 1;|.loc 1 2 3|ret;", [(3, 7, ())]),
        ("ts: .branchtargets $A, $B, $A;|@%p1 brx.idx %r1, ts;|mov.u32 %r1, 1;|$A:|mov.u32 %r1, 2;|"
         "$B: mov.u32 %r1, 3;|exit;",
         [(4, 4, (1, 2, 3)), (5, 5, (2,)), (7, 7, (3,)), (8, 9, ())]),
        ("@%p1 exit;|@!%p1 ret;|trap;|call.uni f, ();|ret;",
         [(3, 3, (1,)), (4, 4, (2,)), (5, 5, ()), (6, 7, ())]),
        ("$L: mov.u32 %r1, 1;|{|$L: mov.u32 %r1, 2;|{|@%p1 bra $L;|}|}|@%p1 bra $L;|ret;",
         [(3, 3, (1,)), (5, 7, (1, 2)), (10, 10, (0, 3)), (11, 11, ())]),
        ("{ .reg .pred q; setp.ne.s32 q, %r1, 0; @q bra $E; bra $S; mov.u32 %r1, 3; }|"
         "mov.u32 %r2, 1;|$S:|mov.u32 %r3, 1;|$E:|ret;",
         [(3, 3, (1, 2, 3)), (4, 4, (2,)), (6, 6, (3,)), (8, 8, ())]),
        ("call.uni (%r1),|g,|(%r2);|mov.u32 %r1, 1;|ret;", [(3, 7, ())]),
    ],
    ids=["condition", "unused label", "table", "ends", "scopes", "one line", "several lines"],
)  # fmt: skip
def test_ptx_is_split_into_blocks_at_labels_and_jumps(
    code: str, blocks: list[tuple[int, int, tuple[int, ...]]]
) -> None:
    flow = kernel(code)
    assert [(block.first, block.last, block.successors) for block in flow.blocks] == blocks
    for block in flow.blocks:
        assert all(
            flow.block_at(n) == flow.block_at(block.first) for n in (block.first, block.last)
        )
    assert flow.block_at(2) is None


def test_a_loop_in_a_loop() -> None:
    flow = kernel("$L: mov.u32 %r1, 1;|$M: mov.u32 %r1, 2;|@%p1 bra $M;|@%p1 bra $L;|ret;")
    assert [(loop.first, loop.last, loop.depth) for loop in flow.loops] == [(3, 6, 1), (4, 5, 2)]
    assert flow.loop_at(5) == flow.loops[1] and flow.loop_at(7) is None


@settings(max_examples=100, deadline=None)
@given(programs())
def test_edges_are_those_of_the_program(program: Program) -> None:
    listing = parse(Stage.PTX, program.text)
    flow = FunctionFacts(listing, listing.functions[0]).flow
    edges = {
        (block.last, flow.blocks[other].first)
        for block in flow.blocks
        for other in block.successors
    }
    expected = {
        (program.lines[i], program.lines[j])
        for i in range(len(program.code))
        for j in program.after(i)
    }
    inside = {
        (a, b)
        for a, b in zip(program.lines, program.lines[1:], strict=False)
        if flow.block_at(a) == flow.block_at(b)
    }
    assert edges | inside >= expected
    assert edges <= expected
    assert inside <= expected
    covered = [n for block in flow.blocks for n in program.lines if block.first <= n <= block.last]
    assert covered == list(program.lines)


def dominators(successors: list[list[int]]) -> list[set[int]]:
    """By their definition: what cannot be avoided on the way from node 0."""
    every = range(len(successors))
    return [{d for d in every if not reaches(successors, 0, n, d)} for n in every]


def reaches(successors: list[list[int]], start: int, end: int, without: int) -> bool:
    if start == without:
        return False
    seen, work = {start}, [start]
    while work:
        for other in successors[work.pop()]:
            if other != without and other not in seen:
                seen.add(other)
                work.append(other)
    return end in seen


def natural_loops(successors: list[list[int]]) -> tuple[dict[int, set[int]], bool]:
    """By header, those of one header together; and whether every cycle has such a header."""
    alive = {n for n in range(len(successors)) if reaches(successors, 0, n, -1)}
    dominated = dominators(successors)
    loops: dict[int, set[int]] = {}
    forward: list[list[int]] = [[] for _ in successors]
    for node in alive:
        for other in successors[node]:
            if other not in dominated[node]:
                forward[node].append(other)
                continue
            body = loops.setdefault(other, {other})
            body |= {n for n in alive if reaches(successors, n, node, other)} | {node}
    cyclic = any(reaches(forward, other, node, -1) for node in alive for other in forward[node])
    return loops, not cyclic


graphs = st.integers(1, 9).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=2), min_size=n, max_size=n)
)


@settings(max_examples=150, deadline=None)
@given(graphs)
def test_loops_are_the_natural_ones(successors: list[list[int]]) -> None:
    expected, reducible = natural_loops(successors)
    found = find_loops(successors, [0])
    if reducible:
        assert {header: set(members) for header, _, members in found} == expected
        for header, depth, _ in found:
            assert depth == sum(header in body for body in expected.values())
    else:  # every cycle is in a loop all the same
        assert found
        inside = {n for _, _, members in found for n in members}
        for node in range(len(successors)):
            around = any(reaches(successors, s, node, -1) for s in successors[node])
            if reaches(successors, 0, node, -1):
                assert (node in inside) == around


@cache
def drawn(name: str) -> dict[str, set[tuple[int, int]]]:
    """By function, the edges that ``nvdisasm -bbcfg`` draws: last to first address."""
    out: dict[str, set[tuple[int, int]]] = {}
    text = disassemble(name, "-bbcfg", "-poff")
    for part in re.split(r"^subgraph ", text, flags=re.MULTILINE)[1:]:
        title = re.match(r'"cluster_([^"]*)"', part)
        assert title
        nodes: dict[str, list[int]] = {}
        edges: list[tuple[str, str]] = []
        pattern = r'^"([^"]*)"\n?\[label="\{(.*?)\}"\]|^"([^"]*)":\w+:\w+ -> "([^"]*)"'
        for found in re.finditer(pattern, part, flags=re.MULTILINE | re.DOTALL):
            if found[3] is None:
                addresses = re.findall(r"(?:\\l|>|^)([0-9a-f]{4,6}):\\ ", found[2])
                nodes[found[1]] = [int(address, 16) for address in addresses]
            else:
                edges.append((found[3], found[4]))
        kept = {(nodes[a][-1], nodes[b][0]) for a, b in edges if nodes.get(a) and nodes.get(b)}
        out[title[1]] = kept
    return out


@pytest.mark.parametrize("name", first_by_day(CUBINS, 3))
def test_edges_of_sass_are_those_that_nvdisasm_draws(name: str) -> None:
    listing = parse(Stage.SASS, disassemble(name, "-c"))
    graph = drawn(name)
    seen = 0
    for function in listing.functions:
        flow = FunctionFacts(listing, function).flow
        lines = listing.lines[function.first - 1 : function.last]
        labels = {line.label for line in lines if line.label}
        theirs = {edge for title, edges in graph.items() if title in labels for edge in edges}
        by_line = {line.n: line.address for line in lines if line.address is not None}
        by_address = {line.address: line for line in lines if line.address is not None}
        ours = {
            (by_line[block.last], by_line[flow.blocks[other].first])
            for block in flow.blocks
            for other in block.successors
        }
        ends = {by_line[block.last] for block in flow.blocks}
        for a, b in ours - theirs:
            line = by_address[a]
            # Not drawn: the loop after the end, and blocks that we keep apart and it does not
            assert (a == b and line.base == "BRA") or b == a + 16, line.text
            if b == a + 16:
                assert line.base not in ("EXIT", "RET", "BRA") or "@" in line.text
        for a, b in theirs - ours:
            # It ends blocks where we do not
            assert b == a + 16, by_address[a].text
            assert a not in ends, by_address[a].text
        seen += len(theirs)
    assert seen > 0


def test_a_call_is_no_edge_and_its_function_an_entry() -> None:
    listing = parse(Stage.SASS, stored()["hard_sm90a"].text)
    function = next(f for f in listing.functions if f.name == "calls")
    flow = FunctionFacts(listing, function).flow
    lines = listing.lines[function.first - 1 : function.last]
    called = {t for line in lines if line.base == "CALL" for t in line.targets}
    labels = [line for line in lines if line.label in called]
    assert len(flow.entries) == len(labels) + 1
    for label in labels:
        after = next(line for line in lines if line.n > label.n and line.opcode)
        assert flow.block_at(after.n) in flow.entries


def test_declared_registers_are_counted_by_class_and_function() -> None:
    text = (
        ".visible .entry k()\n{\n.reg .pred \t%p<9>;\n.reg .b32 \t%r<33>, %a, %b;\n"
        ".reg .v2 .f32 %v;\n{ .reg .b32 tmp;\nmov.b32 tmp, %r1; }\n}\n"
        ".func f()\n{\n.reg .b64 %rd<4>;\n}\n"
    )
    listing = parse(Stage.PTX, text)
    found = [declared(listing, function) for function in listing.functions]
    assert found == [{"pred": 9, "b32": 36, "v2.f32": 1}, {"b64": 4}]
