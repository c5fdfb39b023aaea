"""MLIR, one construct at a time. The MLIR language reference says what each means."""

import pytest

from inspector.base.model import Location
from inspector.parsers.line import Kind, Line
from inspector.parsers.mlir import definitions, parse_mlir
from tests.helpers.samples import read_sample

A = Location("f.py", 1, 2)
B = Location("f.py", 3, 4)


def lines_of(text: str) -> list[Line]:
    """All lines."""
    return list(parse_mlir(text).lines)


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ('"f.py":1:2', A),
        ('"f.py":1:2 to 7:8', A),
        ("unknown", None),
        ('"name"(#a)', A),
        ('"only a name"', None),
        ("callsite(#a at #b)", Location("f.py", 1, 2, B)),
        ('callsite("f.py":1:2 at "f.py":3:4)', Location("f.py", 1, 2, B)),
        ("callsite(callsite(#a at #b) at #a)", Location("f.py", 1, 2, Location("f.py", 3, 4, A))),
        ("fused[#a, #b]", A),
        ('fused<"loop">[unknown, #b]', B),
        ("fused<#x<[1, 2]>>[#b]", B),
        (r'"a \"quoted\" \\ \2Fname.py":5:6', Location('a "quoted" \\ /name.py', 5, 6)),
        ("#self", None),
        ("#forward", A),
        ("callsite(", None),
    ],
)
def test_an_mlir_line_has_the_location_that_its_aliases_lead_to(
    location: str, expected: Location | None
) -> None:
    text = (
        "#forward = loc(#a)\n#self = loc(callsite(#self at #self))\n"
        f"  %0 = tt.x %1 : i32 loc({location})\n"
        '#a = loc("f.py":1:2)\n#b = loc("f.py":3:4)'
    )
    assert lines_of(text)[2].source == expected


def test_regions_have_the_location_behind_them() -> None:
    text = """%acc:2 = scf.for %k = %c0 to %K step %c1 iter_args(%s = %x, %t = %y) -> (i32, i32) {
  %2 = scf.if %b -> i32 {
    scf.yield %s : i32 loc(#a)
  } else {
    scf.yield %t : i32 loc(#a)
  } loc(#b)
  scf.yield %2, %t : i32, i32 loc(#a)
} loc(#a)
#a = loc("f.py":1:2)
#b = loc("f.py":3:4)"""
    lines = lines_of(text)
    assert lines[0].source == A
    assert lines[0].defs == ("%acc#0", "%acc#1", "%k", "%s", "%t")
    assert lines[0].uses == ("%c0", "%K", "%c1", "%x", "%y")
    assert lines[1].source == lines[5].source == B
    assert [lines[i].kind for i in (3, 5, 7)] == [Kind.DIRECTIVE] * 3


def test_blocks_branches_and_calls() -> None:
    text = (
        '  %s = "tt.reduce"(%v) <{axis = 0 : i32}> ({\n  ^bb0(%a: f32 loc(#l), %b: f32 loc(#l)):\n'
        "    tt.reduce.return %a : f32\n  }) : (tensor<4xf32>) -> f32 loc(#l)\n"
        "cf.cond_br %c, ^bb1(%a : i32), ^bb2\n%r = tt.call @callee(%a) : (i32) -> i32\n"
        '#l = loc("f.py":1:2)'
    )
    lines = lines_of(text)
    assert (lines[0].opcode, lines[0].uses, lines[0].source) == ("tt.reduce", ("%v",), A)
    assert (lines[1].kind, lines[1].label) == (Kind.LABEL, "^bb0")
    assert lines[1].defs == ("%a", "%b")
    assert lines[4].targets == ("^bb1", "^bb2")
    assert lines[5].targets == ("callee",)


@pytest.mark.parametrize("stage", ["ttir", "ttgir"])
@pytest.mark.parametrize("kernel", ["matmul_sm90", "gelu_sm90", "layer_norm_sm90"])
def test_every_line_of_real_mlir_is_known(kernel: str, stage: str) -> None:
    listing = parse_mlir(read_sample(f"{kernel}.{stage}"), stage)
    assert listing.language == stage
    assert Kind.UNKNOWN not in {line.kind for line in listing.lines}
    (function,) = listing.functions
    assert listing.lines[function.first - 1].opcode == "tt.func"
    assert listing.lines[function.last - 1].text.strip().startswith("}")
    aliases = definitions(listing)
    unknown = {name for name, line in aliases.items() if "loc(unknown)" in line.text}
    for line in listing.lines[function.first - 1 : function.last]:
        nowhere = any(line.text.endswith(f"loc({name})") for name in unknown)
        if line.kind is Kind.INSTRUCTION:
            assert (line.source is None) == nowhere, line.text
