"""PTX read out: constructs one by one, names and launches, everything at hand, anything at all."""

import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from inspector.analysis.sentences.context import Context, context_of, of_header
from inspector.analysis.sentences.ptx import PtxReader
from inspector.analysis.sentences.ptx_pieces import byte_picks
from inspector.analysis.sentences.wording import Templates
from inspector.base.model import Kernel, Stage, Variant
from inspector.parsers import parse
from inspector.parsers.line import Kind, Listing
from inspector.reader import tables
from inspector.reader.reader import Reader
from inspector.recording.layout import user_derived_cache
from inspector.sources.opening import open_path
from inspector.system.toolchain import need
from tests.helpers.ptxview import SAMPLE

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests/data"
FILES = sorted(DATA.glob("**/*.ptx"))
FORMS = tomllib.loads((DATA / "analysis/ptx_forms.toml").read_text("utf-8"))["form"]
SENTENCES = tomllib.loads((DATA / "analysis/sentences.toml").read_text("utf-8"))
TEMPLATES = Templates(tables.table("ptx_sentences"))

HEAD = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry f(.param .u64 f_param_0, .param .u32 f_param_1)
{
.reg .pred %p<9>;
.reg .b32 %r<99>;
.reg .b64 %rd<99>;
.reg .f32 %f<9>;
"""


def reader(listing: Listing, context: Context | None = None, name: str | None = None) -> PtxReader:
    functions = listing.functions
    function = next((f for f in functions if f.name == name), functions[0])
    return PtxReader(listing, function, tables.isa(), TEMPLATES, context)


def sentence(line: str, context: Context | None = None, before: str = "") -> str | None:
    listing = parse(Stage.PTX, f"{HEAD}{before}\n{line}\nret;\n}}\n")
    return reader(listing, context).sentence(len(listing.lines) - 3)


@pytest.mark.parametrize(("line", "said"), SENTENCES["ptx"].items())
def test_a_ptx_instruction_reads_as_its_sentence(line: str, said: str) -> None:
    assert sentence(line + ";") == said


@pytest.mark.parametrize(("line", "said"), SENTENCES["directive"].items())
def test_a_ptx_directive_reads_as_its_sentence(line: str, said: str) -> None:
    assert sentence(line) == said


def test_labels_and_jumps_name_each_others_lines() -> None:
    body = "$L__BB0_1:\nadd.s32 %r1, %r1, 1;\n@%p1 bra $L__BB0_1;\nbra.uni $L__BB0_2;\n$L__BB0_2:"
    listing = parse(Stage.PTX, f"{HEAD}{body}\nret;\n}}\n")
    said = [reader(listing).sentence(n) for n in range(10, 15)]
    assert said == [
        "$L__BB0_1: the head of a loop, jumped to from line 12",
        "%r1 = %r1 + 1",
        "if %p1: go to $L__BB0_1 (line 10, back)",
        "go to $L__BB0_2 (line 14), all threads alike",
        "$L__BB0_2: jumped to from line 13",
    ]


def test_a_list_of_branch_targets_is_no_loop() -> None:
    """The jumps are those of the branch that takes the list, before or after it."""
    body = (
        "ts: .branchtargets L0, L1;\nbrx.idx %r1, ts;\nL0:\nadd.s32 %r1, %r1, 1;\nL1:\n"
        "tt:\n.branchtargets L0;\n@%p1 brx.idx.uni %r1, tt;"
    )
    listing = parse(Stage.PTX, f"{HEAD}{body}\nret;\n}}\n")
    said = [reader(listing).sentence(n) for n in (10, 11, 12, 14, 15, 16, 17)]
    assert said == [
        "ts: labels that an indexed branch may go to: L0, L1",
        "go to the label of ts that %r1 picks (0: L0, 1: L1)",
        "L0: the head of a loop, jumped to from lines 11 and 17",
        "L1: jumped to from line 11",
        "tt: the list of labels that follows",
        "labels that an indexed branch may go to: L0",
        "if %p1: go to the label of tt that %r1 picks (0: L0), all threads alike",
    ]


def test_a_label_of_functions_says_what_it_lists() -> None:
    body = "fs: .calltargets f, g;\npt: .callprototype (.param .b32 _) _ (.param .b32 _);"
    listing = parse(Stage.PTX, f"{HEAD}{body}\nret;\n}}\n")
    assert [reader(listing).sentence(n) for n in (10, 11)] == [
        "fs: functions that an indirect call may reach: f, g",
        "pt: what a function that is called indirectly takes and gives",
    ]


BEFORE = "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nld.param.u64 %rd1, [f_param_0];\n"
ROW = Context(block=(128, 1, 1), grid=(1823, 1, 1), language="triton")


@pytest.mark.parametrize(("line", "said"), SENTENCES["launch"].items())
def test_values_of_the_launch_are_put_into_the_sentence(line: str, said: str) -> None:
    listing = parse(Stage.PTX, f"{HEAD}{BEFORE}{line}\nret;\n}}\n")
    context = replace(ROW, parameters=of_header(listing, listing.functions[0]).parameters)
    assert reader(listing, context).sentence(len(listing.lines) - 3) == said


def test_lane_is_said_only_where_x_alone_numbers_the_threads() -> None:
    flat = Context(block=(16, 8, 1))
    line = "shr.u32 %r9, %r1, 5;"
    assert (
        sentence(line, None, BEFORE)
        == "%r9 = %r1 ÷ 32, rounded down, unsigned (⌊thread / 32⌋, 0…31)"
    )
    said = sentence("and.b32 %r9, %r1, 7;", flat, BEFORE)
    assert said == "%r9 = %r1 & 7 (thread mod 8, 0…7)"


@given(st.integers(0, 0xFFFF), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_bytes_picked_by_prmt_are_those_of_the_isa(selector: int, a: int, b: int) -> None:
    out = 0
    said = byte_picks("A", "B", selector).partition(": ")[2].split(", ")
    for text in said:
        found = re.fullmatch(r"(the sign of )?byte (\d) of (\w)", text)
        assert found is not None
        byte = ({"A": a, "B": b}[found[3]] >> 8 * int(found[2])) & 255
        out = out << 8 | ((255 if byte >> 7 else 0) if found[1] else byte)
    both, expected = a | b << 32, 0
    for i in range(4):
        pick = selector >> 4 * i & 15
        byte = both >> 8 * (pick & 7) & 255
        expected |= ((255 if byte >> 7 else 0) if pick & 8 else byte) << 8 * i
    assert out == expected


@cache
def recorded() -> Reader:
    return Reader(open_path(SAMPLE), user_derived_cache())


def variants() -> list[tuple[Kernel, Variant, Listing]]:
    found = []
    for kernel, variant in recorded().recording.variants():
        held = variant.stages.get(Stage.PTX)
        if held is not None and not held.costly:
            found.append((kernel, variant, recorded().stages.listing(variant, Stage.PTX)))
    return found


def test_parameters_have_the_kernels_own_names() -> None:
    seen = 0
    for kernel, variant, listing in variants():
        context = context_of(kernel, variant, listing)
        if not variant.signature:
            continue
        seen += 1
        fixed = {n for n, said in variant.specialization.items() if "constant" in str(said)}
        names = [n for n, t in variant.signature.items() if t != "constexpr" and n not in fixed]
        named = [p.name for p in context.parameters if not p.hidden]
        assert named == names
        hidden = [p.name for p in context.parameters if p.hidden]
        assert hidden == ["global_scratch", "profile_scratch"]
    assert seen > 10


@pytest.mark.parametrize("name", ["matmul_sm90", "gelu_sm90", "nested"])
def test_parameter_offsets_match_the_cubin(name: str) -> None:
    """EIATTR_KPARAM_INFO of ``cuobjdump -elf``: ordinal, offset and size of each parameter."""
    listing = parse(Stage.PTX, (DATA / f"parsers/{name}.ptx").read_text())
    argv = [str(need("cuobjdump").path), "-elf", str(DATA / f"parsers/{name}.cubin")]
    printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    found = re.split(r"\n\.nv\.info\.([\w$]+)\n", printed)
    compared = 0
    for symbol, text in zip(found[1::2], found[2::2], strict=False):
        function = next((f for f in listing.functions if f.name == symbol), None)
        info = re.findall(r"Ordinal : (0x\w+)\s+Offset\s+: (0x\w+)\s+Size\s+: (0x\w+)", text)
        if function is None or not info:
            continue
        declared = {p.index: (p.offset, p.size) for p in of_header(listing, function).parameters}
        assert {int(n, 16): (int(o, 16), int(s, 16)) for n, o, s in info} == declared
        compared += 1
    assert compared


def test_every_instruction_of_the_files() -> None:
    listings = [parse(Stage.PTX, path.read_text()) for path in FILES]
    functions = [(listing, function) for listing in listings for function in listing.functions]
    assert len(functions) >= len(FILES) > 1
    for listing, function in functions:
        said = PtxReader(listing, function, tables.isa(), TEMPLATES)
        for n in range(function.first, function.last + 1):
            if listing.lines[n - 1].kind not in (Kind.INSTRUCTION, Kind.LABEL):
                continue
            text = said.sentence(n)
            assert text, listing.lines[n - 1].text
            assert not re.search(r"\{[a-z]\w*\}|\[[a-z{]|(^|\s)_($|[\s,;])", text), text


def test_every_form_that_the_assembler_was_asked_about() -> None:
    for form in FORMS:
        text = sentence(form["code"])
        assert text, form["code"]
        assert not re.search(r"\{[a-z]\w*\}|(^|\s)_($|[\s,;])|\(\)($| )|  ", text), text


def test_every_template_belongs_to_an_instruction() -> None:
    isa = tables.isa()
    say = TEMPLATES.section("say")
    assert len(say) > 100
    assert [key for key in say if isa.ptx(key) is None and not isa.members(key.split(".")[0])] == []


TEXT = (DATA / "parsers/matmul_sm90.ptx").read_text().split("\n")[10:120]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200))
def test_no_text_makes_sentences_raise(text: str) -> None:
    _read(HEAD + text + "\n}\n")
    _read(text)


def _read(text: str) -> None:
    listing = parse(Stage.PTX, text)
    for function in listing.functions:
        said = PtxReader(listing, function, tables.isa(), TEMPLATES)
        for n in range(len(listing.lines) + 2):
            said.sentence(n)
