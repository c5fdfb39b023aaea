"""Words of PTX and SASS: how they are found, and whether the tables hold what assemblers know."""

import re
from pathlib import Path

import pytest

from inspector.analysis.isa import INSTRUCTION, PTX, REGISTER, Isa, ReferenceEntry, closest
from inspector.reader import tables
from inspector.system.process import run_tool
from inspector.system.toolchain import need
from tests.helpers.ptxview import saved


def entries(**summaries: str) -> dict[str, dict[str, object]]:
    return {word: {"summary": summary} for word, summary in summaries.items()}


SMALL = Isa([
    ("ptx", "instruction", {
        "ld": {
            "summary": "Loads.",
            "qualifiers": [".global", ".v4", ".odd"],
            "own_qualifiers": {".v4": "four of them"},
            "cost": "memory",
        },
        **entries(mad="Multiplies, adds.", fence="Orders."),
        **entries(**{"mad.cc": "Carries.", "cp.async": "Copies.", "cp.async.bulk": "Copies much."}),
        **entries(**{"fence::wide": "Fences."}),
    }),
    ("ptx", "directive", entries(**{".global": "Declares."})),
    ("ptx", "special register", entries(**{"%tid": "Index.", "%env<32>": "Env."})),
    ("ptx", "state space", entries(**{".global": "Memory."})),
    ("ptx", "type", entries(**{".b32": "32 bits.", ".b1": "A bit."})),
    ("ptx", "qualifier", entries(**{".v4": "Four.", ".lo": "Low."})),
    ("ptx", "qualifier", entries(**{".m<m>n<n>": "<m> by <n>.", ".h<4><4>": "Halves."})),
    ("sass", "instruction", {
        "LD": {"summary": "Loads.", "since": "sm_70", "until": "sm_90"}, **entries(HGMMA="Does."),
    }),
    ("sass", "qualifier", entries(**{".E": "64-bit address."})),
])  # fmt: skip


def words_of(entries: tuple[ReferenceEntry, ...]) -> list[tuple[str, str]]:
    return [(e.word, e.kind) for e in entries]


@pytest.mark.parametrize(
    ("opcode", "word"),
    [
        ("ld.global.v4.b32", "ld"),
        ("cp.async.bulk.tensor.2d", "cp.async.bulk"),
        ("mad.lo.cc.u32", "mad.cc"),
        ("fence::wide.gpu", "fence::wide"),
        ("fence::narrow", "fence"),
    ],
)
def test_an_opcode_is_its_longest_known_word(opcode: str, word: str) -> None:
    found = SMALL.ptx(opcode)
    assert found is not None and found.word == word


def test_qualifiers_are_those_in_the_opcode_in_its_order() -> None:
    given = SMALL.qualifiers("ld.v4.m16n8.global.b32.what")
    assert list(given.items()) == [
        (".v4", "four of them"),
        (".m16n8", "16 by 8."),
        (".global", "Memory."),
        (".b32", "32 bits."),
        (".what", ""),
    ]
    assert SMALL.unknown("ld.v4.what.b32") == (".what",)
    assert list(SMALL.qualifiers("mad.lo.cc.b32")) == [".lo", ".b32"]
    assert list(SMALL.qualifiers("fence::narrow.b32")) == [".fence::narrow", ".b32"]
    assert list(SMALL.qualifiers("LD.E.128").items()) == [(".E", "64-bit address."), (".128", "")]
    assert not SMALL.qualifiers("nothing.b32")


def test_one_name_of_several_kinds_means_all_of_them() -> None:
    assert words_of(SMALL.all(".global")) == [(".global", "directive"), (".global", "state space")]
    assert words_of(SMALL.all("ld")) == [("ld", INSTRUCTION), ("LD", INSTRUCTION)]
    assert words_of(SMALL.all("LD")) == [("LD", INSTRUCTION), ("ld", INSTRUCTION)]
    assert words_of(SMALL.all("hgmma.f32")) == [("HGMMA", INSTRUCTION)]
    assert words_of(SMALL.all("%TID.x")) == [("%tid", REGISTER)]


def test_an_opcode_with_a_qualifier_that_is_not_known_is_no_word() -> None:
    assert SMALL.all("ld.globl.b32") == ()
    assert SMALL.word("ld.global.b32") is SMALL.ptx("ld")
    # Modifiers of SASS are not all documented: the instruction is what it is.
    assert SMALL.word("LD.NEW") is SMALL.sass("LD")


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("%env31", True),
        ("%env32", False),
        (".h30", True),
        (".h40", False),
        (".m8n8", True),
        (".m8", False),
    ],
)
def test_a_family_has_the_numbers_that_its_places_allow(word: str, known: bool) -> None:
    assert (SMALL.word(word) is not None) == known


def test_only_words_that_are_close_are_suggested() -> None:
    assert closest("xyzzy", ["ld", "add", "%tid"]) == ()
    assert closest("HGMA", ["HMMA", "hgmma", "HGMMA"]) == ("HGMMA", "HMMA", "hgmma")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("%ctaId", "%ctaid"),
        ("HGMA", "HGMMA"),
        ("cvt.rn.f33", "cvt.rn.f32"),
        ("LGD.E.128", "LDG.E.128"),
        ("tgcen05", "tcgen05"),
        ("ldd.globl.b32", "ld.global.b32"),
        ("fma.rn.rn2.f32", "fma.rn.rn.f32"),
    ],
)
def test_typing_errors_are_mended(typed: str, meant: str) -> None:
    assert tables.isa().nearest(typed)[0] == meant


KERNEL = """.version {version}
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{{
.reg .b32 %r<4>; .reg .b64 %d<4>; .reg .pred %p<2>;
ld.param.u64 %d0, [out];
{body}
st.global.u32 [%d0], %r1; st.global.u64 [%d0+8], %d1;
ret;
}}
"""


def assembles(body: str, tmp_path: Path, version: str = "8.3") -> bool:
    source = saved(tmp_path / "k.ptx", KERNEL.format(version=version, body=body))
    ptxas = need("ptxas").path
    done = run_tool([ptxas, "-arch=sm_90", "-o", tmp_path / "k.cubin", source])
    print(done)
    return done.status == 0


def test_the_assembler_has_every_special_register(tmp_path: Path) -> None:
    body = []
    for entry in tables.isa().entries(PTX, REGISTER):
        if entry.since and entry.since.startswith("PTX ISA 9"):
            continue
        for word in {re.sub(r"<(\d+)>", n, entry.word) for n in ("0", "1")}:
            name = word + (".x" if "Components" in entry.summary else "")
            wide = "64" in word or word in ("%globaltimer", "%gridid", "%current_graph_exec")
            if word == "%is_explicit_cluster":
                body.append(f"mov.pred %p1, {name};\n@%p1 mov.u32 %r1, 1;")
            elif wide:
                body.append(f"mov.u64 %d1, {name};")
            else:
                body.append(f"mov.b32 %r1, {name};")
    assert len(body) > 40
    assert assembles("\n".join(body), tmp_path)
    # So that an assembler that takes anything, or nothing, is found out.
    assert not assembles("mov.u32 %r1, %ctaids;", tmp_path)
