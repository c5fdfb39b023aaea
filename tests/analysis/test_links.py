"""Links on small cases made by hand: place, inlining, operation, order, both directions."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inspector
from inspector.analysis.links import (
    UNKNOWN,
    Links,
    Operations,
    Relation,
    StageNames,
    beginning,
    composed,
    marked,
    relate,
)
from inspector.base.model import Location, Stage
from inspector.parsers import parse
from inspector.parsers.line import Function, Kind, Line, Listing

TABLE = Path(inspector.__file__).parent / "reference" / "operations.toml"
KNOWN = Operations(tomllib.loads(TABLE.read_text()))


def link(
    a: Listing,
    b: Listing,
    stages: tuple[Stage, Stage],
    places: Mapping[Stage, StageNames],
    operations: Operations = UNKNOWN,
    through: Mapping[int, tuple[int, ...]] | None = None,
) -> Links:
    """Lines of ``a`` to lines of ``b``, in either order of stages."""
    if stages[0].rank > stages[1].rank:
        swapped = stages[1], stages[0]
        return relate(b, a, swapped, places, operations, through).backward()
    return relate(a, b, stages, places, operations, through).forward()


def at(line: int, column: int | None = None, outer: Location | None = None) -> Location:
    """A place in the user's file."""
    return Location("/home/user/k.py", line, column, outer)


def lib(line: int, column: int | None, outer: Location | None = None) -> Location:
    """A place in a library that is inlined."""
    return Location("/lib/standard.py", line, column, outer)


def listing(*rows: tuple[str, Location | None]) -> Listing:
    """Instructions by opcode and place; ``a=b,c:op`` defines a and uses b and c."""
    lines = []
    for n, (said, source) in enumerate(rows, 1):
        values, _, opcode = said.rpartition(":")
        made, _, taken = values.partition("=")
        lines.append(
            Line(
                n,
                said,
                Kind.INSTRUCTION,
                opcode.split(".")[0],
                opcode,
                tuple(filter(None, [made])),
                tuple(filter(None, taken.split(","))),
                source,
            )
        )
    return Listing("test", lines)


def ttir_to_ptx(upper: Listing, lower: Listing) -> Links:
    """Links, after checking that the other direction has the same pairs."""
    stages = (Stage.TTIR, Stage.PTX)
    down = link(upper, lower, stages, {}, KNOWN)
    up = link(lower, upper, (Stage.PTX, Stage.TTIR), {}, KNOWN)
    assert pairs(down) == {(a, b) for b, a in pairs(up)}
    return down


def pairs(links: Links) -> set[tuple[int, int]]:
    """Links as pairs."""
    return {(a, b) for a, others in links.items() for b in others}


def test_lines_link_by_column_before_line() -> None:
    upper = listing(("tt.addptr", at(7, 24)), ("tt.load", at(7, 16)))
    lower = listing(("mad.wide.s32", at(7, 24)), ("ld.global.b32", at(7, 16)))
    assert ttir_to_ptx(upper, lower) == {1: (1,), 2: (2,)}


def test_without_columns_the_operation_tells() -> None:
    upper = listing(("tt.load", at(7, 8)), ("arith.mulf", at(7, 8)), ("arith.addf", at(7, 8)))
    lower = listing(
        ("ld.global.b32", at(7)), ("mul.f32", at(7)), ("add.rn.f32", at(7)), ("fma.rn.f32", at(7))
    )
    assert ttir_to_ptx(upper, lower) == {1: (1,), 2: (2, 4), 3: (3, 4)}


def test_what_has_no_counterpart_goes_to_what_has_none() -> None:
    upper = listing(("tt.splat", at(7)), ("tt.load", at(7)))
    lower = listing(("mov.u32", at(7)), ("ld.global.b32", at(7)))
    assert ttir_to_ptx(upper, lower) == {1: (1,), 2: (2,)}
    assert ttir_to_ptx(listing(("tt.load", at(7))), lower) == {1: (1, 2)}


def test_an_unrolled_loop_goes_in_order() -> None:
    upper = listing(*[("tt.load", at(7, 16))] * 3)
    lower = listing(*[("ld.global.b32", at(7, 16))] * 6)
    assert ttir_to_ptx(upper, lower) == {1: (1, 2), 2: (3, 4), 3: (5, 6)}


def test_values_tell_operation_by_operation_from_element_by_element() -> None:
    upper = listing(("b=a,a:arith.mulf", at(7, 8)), ("c=b,a:arith.mulf", at(7, 8)))
    by_operation = listing(
        ("p=x,x:mul.f32", at(7, 8)),
        ("q=y,y:mul.f32", at(7, 8)),
        ("r=p,x:mul.f32", at(7, 8)),
        ("s=q,y:mul.f32", at(7, 8)),
    )
    assert ttir_to_ptx(upper, by_operation) == {1: (1, 2), 2: (3, 4)}
    by_element = listing(
        ("p=x,x:mul.f32", at(7, 8)),
        ("r=p,x:mul.f32", at(7, 8)),
        ("q=y,y:mul.f32", at(7, 8)),
        ("s=q,y:mul.f32", at(7, 8)),
    )
    assert ttir_to_ptx(upper, by_element) == {1: (1, 3), 2: (2, 4)}


def test_a_function_inlined_twice_is_named_by_its_call_sites() -> None:
    first, second = lib(290, 36, at(20, 11)), lib(290, 36, at(21, 11))
    upper = listing(("tt.reduce", first), ("tt.reduce", second))
    lower = listing(("shfl.sync.bfly.b32", second), ("shfl.sync.bfly.b32", first))
    assert ttir_to_ptx(upper, lower) == {1: (2,), 2: (1,)}
    # Without columns, the chains still tell.
    lower = listing(("bar.sync", lib(290, None, at(21))), ("bar.sync", lib(290, None, at(20))))
    assert ttir_to_ptx(upper, lower) == {1: (2,), 2: (1,)}


def test_a_side_without_chains_is_met_by_the_innermost_or_the_call() -> None:
    upper = listing(("tt.reduce", lib(290, 36, at(20, 11))))
    assert ttir_to_ptx(upper, listing(("shfl.sync.b32", lib(290, 36)))) == {1: (1,)}
    assert ttir_to_ptx(upper, listing(("shfl.sync.b32", at(20, 11)))) == {1: (1,)}
    upper = listing(("tt.reduce", at(20, 11)))
    assert ttir_to_ptx(upper, listing(("shfl.sync.b32", lib(290, 36, at(20, 11))))) == {1: (1,)}


def test_a_source_has_the_innermost_frame_and_calls_that_have_nothing_else() -> None:
    source = parse(Stage.SOURCE, "\n".join(f"x{n} = f({n})" for n in range(1, 31)))
    lower = listing(
        ("FMUL", at(3, None, at(10))),
        ("FADD", at(4, None, at(11))),
        ("STG", at(11)),
        ("EXIT", None),
    )
    stages = (Stage.SOURCE, Stage.SASS)
    found = link(source, lower, stages, {Stage.SOURCE: StageNames("/home/user/k.py")}, KNOWN)
    assert found == {3: (1,), 4: (2,), 10: (1,), 11: (3,)}


def test_two_files_of_one_name_stay_apart() -> None:
    source = parse(Stage.SOURCE, "a = 1\nb = 2\n")
    lower = listing(("FMUL", Location("/a/k.py", 1)), ("FADD", Location("/b/k.py", 1)))
    stages = (Stage.SOURCE, Stage.SASS)
    assert link(source, lower, stages, {Stage.SOURCE: StageNames("/b/k.py")}) == {1: (2,)}
    assert link(source, lower, stages, {Stage.SOURCE: StageNames("k.py")}) == {1: (1, 2)}


def test_embedded_text_is_offset() -> None:
    code = parse(Stage.OUTPUT_CODE, "\n".join(["# wrapper"] * 4 + ["a = 1", "b = 2"]))
    lower = listing(("FMUL", at(2)), ("FADD", at(90)))
    stages = (Stage.OUTPUT_CODE, Stage.SASS)
    places = {Stage.OUTPUT_CODE: StageNames("/home/user/k.py", 5)}
    assert link(code, lower, stages, places) == {6: (1,)}


def test_sass_links_to_the_lines_that_ptx_has() -> None:
    ptx = listing(("mul.f32", at(7)), ("add.f32", at(8)))
    rows = listing(*[("FMUL", at(7))] * 4).lines
    named = (1, 2, 0, 3)
    sass = Listing("sass", [row._replace(ptx_line=n) for row, n in zip(rows, named, strict=True)])
    assert link(ptx, sass, (Stage.PTX, Stage.SASS), {}) == {1: (1,), 2: (2,)}


def test_only_sass_follows_lines_of_ptx() -> None:
    upper = listing(("tt.load", at(7)), ("tt.store", at(8)))
    rows = listing(("ld.global.b32", at(7)), ("st.global.b32", at(8))).lines
    lower = Listing("ptx", [row._replace(ptx_line=row.n) for row in rows])
    to_wrong_line = {1: (2,), 2: (1,)}
    for_ptx = link(upper, lower, (Stage.TTIR, Stage.PTX), {}, KNOWN, to_wrong_line)
    assert for_ptx == {1: (1,), 2: (2,)}
    assert link(upper, lower, (Stage.TTIR, Stage.SASS), {}, UNKNOWN, to_wrong_line) != for_ptx


def test_a_line_of_embedded_text_counts_from_its_first_line() -> None:
    code = parse(Stage.OUTPUT_CODE, "\n".join(["# wrapper"] * 2 + ["a = 1", "b = 2", "c = 3"]))
    places = {Stage.OUTPUT_CODE: StageNames("/home/user/k.py", 3)}
    stages = (Stage.OUTPUT_CODE, Stage.SASS)
    assert link(code, listing(("FMUL", at(3))), stages, places) == {5: (1,)}


def test_sass_without_a_line_of_the_source_follows_its_ptx_line() -> None:
    source = parse(Stage.SOURCE, "a = 1\nb = 2")
    rows = listing(("FMUL", at(1)), ("FADD", lib(90, 1)), ("EXIT", None)).lines
    sass = Listing("sass", [row._replace(ptx_line=row.n) for row in rows])
    places = {Stage.SOURCE: StageNames("/home/user/k.py")}
    through = {1: (2,), 2: (2,), 3: (2,)}
    stages = (Stage.SOURCE, Stage.SASS)
    assert link(source, sass, stages, places) == {1: (1,)}
    assert link(source, sass, stages, places, through=through) == {1: (1,), 2: (2,)}


def test_a_kernel_begins_with_its_first_linked_line_or_its_first_instruction() -> None:
    label = Line(1, "$L1:", Kind.LABEL)
    rows = [
        label,
        *(row._replace(n=row.n + 1) for row in listing(("ld", None), ("st", None)).lines),
    ]
    lower = Listing("ptx", rows)
    assert beginning(lower, Function("k", 1, 3), Relation(())) == (2,)
    assert beginning(lower, Function("k", 3, 3), Relation(())) == (3,)
    assert beginning(lower, None, Relation(())) == ()
    linked = Relation([((4,), (2,)), ((2,), (3,))])
    assert beginning(lower, Function("k", 1, 3), linked) == (3,)


def test_an_operator_is_known_by_its_name_in_aten_alone() -> None:
    assert KNOWN.aten("aten.mul.Tensor") == KNOWN.aten("torch.ops.aten.mul.Tensor") != frozenset()
    assert KNOWN.aten("aten") == KNOWN.aten("other.mul.Tensor") == frozenset()


PLACES = st.one_of(
    st.none(),
    st.builds(at, st.integers(1, 3), st.sampled_from([None, 1, 2])),
    st.builds(
        lib, st.integers(1, 2), st.just(3), st.one_of(st.none(), st.builds(at, st.integers(1, 3)))
    ),
)
UPPER = st.sampled_from(["tt.load", "a=b:arith.mulf", "b=a:arith.addf", "tt.splat", "tt.reduce"])
LOWER = st.sampled_from(["ld.global.b32", "p=q:mul.f32", "q=p:fma.rn.f32", "mov.b32", "bar.sync"])


@settings(deadline=None, max_examples=120)
@given(
    st.lists(st.tuples(UPPER, PLACES), max_size=12), st.lists(st.tuples(LOWER, PLACES), max_size=24)
)
def test_both_directions_hold_the_same_pairs(
    above: Sequence[tuple[str, Location | None]], below: Sequence[tuple[str, Location | None]]
) -> None:
    upper, lower = listing(*above), listing(*below)
    for a, b in pairs(ttir_to_ptx(upper, lower)):
        assert upper.lines[a - 1].source is not None
        assert lower.lines[b - 1].source is not None
    # Every place below that is known above has its line there.
    wanted = {line.source for line in upper.lines if line.source is not None}
    met = {b for _, b in pairs(link(upper, lower, (Stage.TTIR, Stage.PTX), {}, KNOWN))}
    assert {line.n for line in lower.lines if line.source in wanted} <= met


@pytest.mark.parametrize(
    ("opcode", "stage", "like"),
    [
        ("mul.lo.s32", Stage.PTX, "mul.wide.u32"),
        ("mul.rn.ftz.f32", Stage.PTX, "mul.bf16x2"),
        ("tt.load", Stage.TTIR, "tt.load"),
    ],
)
def test_an_opcode_does_what_its_longest_known_beginning_does(
    opcode: str, stage: Stage, like: str
) -> None:
    line, same = listing((opcode, None)).lines[0], listing((like, None)).lines[0]
    assert KNOWN.kinds_of_line(line, stage) == KNOWN.kinds_of_line(same, stage) != frozenset()


def test_integers_and_floats_of_one_opcode_are_two_operations() -> None:
    kinds = [
        KNOWN.kinds_of_line(listing((opcode, None)).lines[0], Stage.PTX)
        for opcode in ("mul.lo.s32", "mul.rn.f32", "mul.unknown")
    ]
    assert kinds[0] and kinds[1] and not kinds[0] & kinds[1]
    assert not kinds[2]


def called(text: str) -> Line:
    return Line(1, text, Kind.INSTRUCTION, "call", "call")


@pytest.mark.parametrize(
    ("text", "opcodes"),
    [
        ('call i32 asm sideeffect "ld.global.b32 $0, [$1];", "=r,l"(ptr %1)', ["ld.global.b32"]),
        ('call void asm "bar.sync 0;\\0A mul.f32 $0, $1;", ""()', ["bar.sync", "mul.f32"]),
        ('call void asm "@$0 st.global.b32 [$1], $2;", ""()', ["st.global.b32"]),
        ('call void asm "{ .reg .pred p0; add.f32 $0, $1; }", ""()', ["add.f32"]),
        ("call void @elsewhere()", []),
    ],
)
def test_a_call_of_assembly_does_all_that_is_in_it(text: str, opcodes: list[str]) -> None:
    wanted = [KNOWN.kinds_of_line(listing((o, None)).lines[0], Stage.PTX) for o in opcodes]
    assert all(wanted)
    assert KNOWN.kinds_of_line(called(text), Stage.LLIR) == frozenset().union(*wanted)


def test_marks_above_generated_lines_name_the_users_lines() -> None:
    texts = [
        "x = 0",
        "# src[k.py:5]: y",
        "y = 1",
        "",
        "z = 2",
        "#line 8 k.cu",
        "w = 3",
        "// <L 9>",
        "v",
    ]
    lines = [
        Line(n, text, Kind.INSTRUCTION if text and text[0] in "xyzwv" else Kind.COMMENT)
        for n, text in enumerate(texts, 1)
    ]
    assert marked(Listing("python", lines)) == {3: (5,), 5: (5,), 7: (8,), 9: (9,)}


@pytest.mark.parametrize("middle", [2, 15, 16, 40])
def test_links_followed_by_links_reach_all_that_either_middle_reaches(middle: int) -> None:
    between = tuple(range(1, middle + 1))
    first = {1: between, 2: between, 3: (1,), 4: (99,), 5: (99, 98)}
    then = {n: (n + 100, 200 - n) for n in between}
    everything = tuple(sorted({line for targets in then.values() for line in targets}))
    assert composed(first, then) == {1: everything, 2: everything, 3: (101, 199)}


@pytest.mark.parametrize("length", [1, 15, 16, 40])
def test_a_relation_of_links_has_the_same_links_both_ways(length: int) -> None:
    targets = tuple(range(1, length + 1))
    links = {3: targets, 5: tuple(range(1, length + 1)), 7: (50,)}
    relation = Relation.from_links(links)
    assert relation.forward() == links
    assert relation.backward() == relation.turned().forward()
    assert relation.backward() == dict.fromkeys(targets, (3, 5)) | {50: (7,)}


@pytest.mark.parametrize(
    ("line", "linked"), [(0, False), (1, True), (2, True), (3, False), (None, False)]
)
def test_sass_names_only_lines_that_ptx_has(line: int | None, linked: bool) -> None:
    ptx = listing(("mul.f32", at(7)), ("add.f32", at(8)))
    (row,) = listing(("FMUL", at(7))).lines
    sass = Listing("sass", [row._replace(ptx_line=line)])
    found = link(ptx, sass, (Stage.PTX, Stage.SASS), {})
    assert found == ({line: (1,)} if linked else {})


def test_sass_goes_to_the_same_operation_of_its_ptx_lines_origin() -> None:
    upper = listing(("tt.load", at(7)), ("arith.mulf", at(7)), ("tt.store", at(8)))
    rows = listing(("LDG.E", at(7)), ("FMUL", at(7)), ("MOV", at(7)), ("STG.E", at(8))).lines
    named = (1, 1, 1, None)
    sass = Listing("sass", [r._replace(ptx_line=n) for r, n in zip(rows, named, strict=True)])
    stages = (Stage.TTIR, Stage.SASS)
    # What has no counterpart belongs to all; what has no line of PTX goes by its place.
    assert link(upper, sass, stages, {}, KNOWN, {1: (1, 2)}) == {1: (1, 3), 2: (2, 3), 3: (4,)}


def test_an_operation_whose_copies_do_not_divide_belongs_to_all() -> None:
    upper = listing(*[("tt.load", at(7, 16))] * 2)
    assert ttir_to_ptx(upper, listing(*[("ld.global.b32", at(7, 16))] * 3)) == {
        1: (1, 2, 3), 2: (1, 2, 3)}  # fmt: skip
    assert ttir_to_ptx(upper, listing(("ld.global.b32", at(7, 16)))) == {1: (1,), 2: (1,)}
