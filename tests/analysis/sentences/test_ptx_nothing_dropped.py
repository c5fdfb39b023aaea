"""PTX sentences leave nothing out: each qualifier and each operand of an instruction changes them.

The forms are those that ptxas is asked about (ptx_forms.toml), with every further qualifier that
the reference lists for their instructions. What a sentence need not say is in ``[[silent]]`` of
ptx_sentences.toml, with reasons.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from inspector.analysis.sentences.ptx import PtxReader
from inspector.analysis.sentences.wording import Templates
from inspector.base.model import Stage
from inspector.parsers import parse
from inspector.parsers.ptx_statement import split
from inspector.reader import tables

ROOT = Path(__file__).parents[3]
FORMS = tomllib.loads((ROOT / "tests/data/analysis/ptx_forms.toml").read_text("utf-8"))["form"]
TABLE = tables.table("ptx_sentences")
TEMPLATES = Templates(TABLE)
HEAD = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry f(.param .u64 f_param_0)
{
.reg .pred %p<99>; .reg .b8 %b<99>; .reg .b16 %h<99>; .reg .b32 %r<99>; .reg .b64 %rd<99>;
"""
TYPE = re.compile(r"\.(?:[busf]|bf)\d+(?:x\d)?\Z|\.u?e\dm\d(?:x\d)?\Z|\.(?:tf32|pred|s2f6x2)\Z")
SHAPE = re.compile(r"\.m\w+?n\w+(?:k\w+)?\Z")


OF_PARAMETERS = ["ld.param.u32 %r0, [f_param_0]", "st.param.v2.f32 [f_param_0], {%f0, %f1}"]
"""Further forms, which ptxas takes only where parameters are declared."""


class Change(NamedTuple):
    """Two opcodes that differ in one qualifier, each with the same operands."""

    qualifier: str
    longer: str
    shorter: str
    operands: str


def sentences(codes: list[str]) -> list[str]:
    listing = parse(Stage.PTX, HEAD + "".join(f"{code};\n" for code in codes) + "ret;\n}\n")
    reader = PtxReader(listing, listing.functions[0], tables.isa(), TEMPLATES)
    first = HEAD.count("\n") + 1
    return [reader.sentence(first + n) or "" for n in range(len(codes))]


def forms() -> Iterator[tuple[str, str]]:
    """Opcode and operands of each form."""
    for code in [*(form["code"] for form in FORMS), *OF_PARAMETERS]:
        opcode, _, operands = code.removesuffix(";").partition(" ")
        yield opcode, operands


def removals() -> Iterator[Change]:
    for opcode, operands in forms():
        parts = opcode.split(".")
        for n in range(1, len(parts)):
            if parts.count(parts[n]) > 1:  # of equal types the sentence names one
                continue
            shorter = ".".join(parts[:n] + parts[n + 1 :])
            yield Change(parts[n], opcode, shorter, operands)


def additions() -> Iterator[Change]:
    """Each qualifier that the reference lists for an instruction, added to its forms."""
    isa = tables.isa()
    for opcode, operands in forms():
        entry = isa.ptx(opcode)
        assert entry is not None
        parts = opcode.split(".")
        # Types come last, and the last ones are read by their place.
        end = len(parts)
        while end > 1 and TYPE.match(f".{parts[end - 1]}"):
            end -= 1
        for qualifier in entry.qualifiers:
            name = qualifier.removeprefix(".")
            longer = ".".join([*parts[:end], name, *parts[end:]])
            of_another = isa.ptx(longer) is not entry
            if name in parts or of_another or TYPE.match(qualifier) or SHAPE.match(qualifier):
                continue
            yield Change(name, longer, opcode, operands)


def unsaid(changes: list[Change]) -> list[str]:
    """The changes that no sentence shows, without those that need not be said."""
    longer = sentences([f"{c.longer} {c.operands}" for c in changes])
    shorter = sentences([f"{c.shorter} {c.operands}" for c in changes])
    return [
        f"{change.longer}: .{change.qualifier}"
        for change, before, after in zip(changes, longer, shorter, strict=True)
        if before == after and TEMPLATES.silent(change.longer.split("."), change.qualifier) is None
    ]


def test_a_sentence_changes_when_a_qualifier_is_removed() -> None:
    changes = list(removals())
    assert len(changes) > 800
    assert unsaid(changes) == []


def test_a_sentence_changes_with_each_qualifier_that_the_reference_lists() -> None:
    changes = list(additions())
    assert len(changes) > 1500
    assert unsaid(changes) == []


def test_a_sentence_tells_signed_from_unsigned_where_the_result_differs() -> None:
    swapped: list[Change] = []
    for opcode, operands in forms():
        entry = tables.isa().ptx(opcode)
        for name in re.findall(r"\.([us]\d+(?:x\d)?)(?=\.|\Z)", opcode):
            other = ("u" if name[0] == "s" else "s") + name[1:]
            if entry is not None and f".{other}" in entry.qualifiers:
                swap = opcode.replace(f".{name}", f".{other}", 1)
                swapped.append(Change(name, opcode, swap, operands))
    assert len(swapped) > 60
    assert unsaid(swapped) == []


def other(operand: str) -> str:
    """An operand of the same kind with other registers, numbers and names."""
    if re.fullmatch(r"-?(?:0x)?[\dA-F]+", operand):
        return "1" if int(operand, 0) != 1 else "-1"
    if re.fullmatch(r"[\d.{}, ]+", operand):
        return re.sub(r"\d\b", "7", operand)
    if "%" in operand and "%tid" not in operand:
        return re.sub(r"%([a-z]+)(\d+)", lambda m: f"%{m[1]}{int(m[2]) + 60}", operand)
    return re.sub(r"[A-Za-z%][\w.]*", "another", operand)


def test_a_sentence_names_every_operand() -> None:
    codes: list[str] = []
    changed: list[str] = []
    for opcode, operands in forms():
        listed = split(operands)
        for n in range(len(listed)):
            if listed[n] == "_":
                continue
            codes.append(f"{opcode} {operands}")
            changed.append(
                f"{opcode} {', '.join([*listed[:n], other(listed[n]), *listed[n + 1 :]])}"
            )
    assert len(codes) > 700
    pairs = zip(codes, changed, sentences(codes), sentences(changed), strict=True)
    assert [(code, new) for code, new, before, after in pairs if before == after] == []


def test_each_reason_for_silence_is_needed() -> None:
    """A qualifier that no form leaves unsaid is not in the list, nor is an instruction."""
    seen: set[tuple[int, str]] = set()
    used: set[tuple[int, str]] = set()
    for change in [*removals(), *additions()]:
        parts = change.longer.split(".")
        for n, rule in enumerate(TABLE["silent"]):
            if change.qualifier not in rule["qualifiers"]:
                continue
            for instruction in rule.get("instructions", [""]):
                base, *needed = instruction.split(".") if instruction else [parts[0]]
                if base == parts[0] and set(needed) <= set(parts):
                    seen.add((n, instruction))
                    used.add((n, change.qualifier))
    assert len(TABLE["silent"]) > 5
    for n, rule in enumerate(TABLE["silent"]):
        assert rule["reason"].endswith(".")
        typed = [q for q in rule["qualifiers"] if TYPE.match(f".{q}") or q in ("v2", "v4")]
        untold = [q for q in rule["qualifiers"] if (n, q) not in used and q not in typed]
        idle = [i for i in rule.get("instructions", [""]) if (n, i) not in seen]
        assert untold == [], rule["reason"]
        assert idle == [], rule["reason"]


def test_a_qualifier_that_the_reference_does_not_have_is_shown_as_unknown() -> None:
    """It may change anything, so no sentence is made of the other words."""
    said = sentences(["min.frob.s32 %r1, %r2, %r3", "cvt.rn.q9f9x2.f32 %h1, %f1, %f2"])
    assert "smallest" not in said[0]
    assert said[0].endswith(
        "; .frob is not in the reference (PTX ISA up to 9.5; this file is for 9.0)"
    )
    assert "converted from" not in said[1]
    assert ".q9f9x2 is not in the reference" in said[1]


def test_an_instruction_that_the_reference_does_not_have_is_shown_as_unknown() -> None:
    said = sentences(["frob.x %r1, %r2"])
    assert said == [
        "frob.x %r1, %r2; frob is not in the reference (PTX ISA up to 9.5; this file is for 9.0)"
    ]


def test_a_special_register_that_the_reference_does_not_have_is_shown_as_unknown() -> None:
    said = sentences(["mov.u32 %r1, %locality_domain_id", "mov.u32 %r1, %laneid"])
    assert said[0].endswith(
        "; %locality_domain_id is not in the reference (PTX ISA up to 9.5; this file is for 9.0)"
    )
    assert "not in the reference" not in said[1]


def test_an_undocumented_instruction_of_two_words_is_shown_as_unknown() -> None:
    assert sentences(["trace.mark 0x3"]) == [
        "trace.mark 3; trace is not in the reference (PTX ISA up to 9.5; this file is for 9.0)"
    ]
