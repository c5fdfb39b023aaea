"""Constant banks and parameters, LOP3 by brute force, unknown opcodes, damaged lines and files."""

import re
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspector.analysis.sentences import wording
from inspector.analysis.sentences.context import Context, Parameter
from inspector.analysis.sentences.sass import SassReader
from inspector.parsers.cubin import kernel_parameters, read_cubin
from inspector.parsers.line import Kind
from inspector.system.toolchain import need
from tests.analysis.sentences.test_sass_sentences import DATA, ISA, TEMPLATES, constructs, say
from tests.helpers.ptxview import printed

CUBINS = sorted(DATA.rglob("*.cubin"))[::6]
PARAMETERS = Context(
    grid=(1823, 1, 1),
    block=(128, 1, 1),
    parameters=(
        Parameter(0, "output_ptr", "*fp32", 0, 8),
        Parameter(1, "input_ptr", "*fp32", 8, 8),
        Parameter(2, "n_cols", "i32", 16, 4, value=781),
    ),
)


@pytest.mark.parametrize(
    ("target", "block", "grid", "parameters"),
    [("sm_75", 0, 0xC, 0x160), ("sm_90a", 0, 0xC, 0x210), ("sm_120", 0x360, 0x370, 0x380)],
)  # fmt: skip
def test_constant_banks_name_parameters_and_sizes_of_the_launch(
    target: str, block: int, grid: int, parameters: int
) -> None:
    def read(offset: int, width: str = "") -> str | None:
        return say(f"LDC{width} R2, c[0x0][{hex(offset)}]", target, PARAMETERS)

    assert read(block) == "read the block's size in x (128) into R2"
    assert read(block + 8) == "read the block's size in z (1) into R2"
    assert read(grid) == "read the grid's size in x (1823) into R2"
    assert read(parameters, ".64") == "read the parameter output_ptr into R2:R3"
    assert read(parameters + 12) == "read the upper half of the parameter input_ptr into R2"
    assert read(parameters + 16) == "read the parameter n_cols (781) into R2"
    moved = say(f"IMAD.MOV.U32 R2, RZ, RZ, c[0x0][{hex(parameters)}]", target, PARAMETERS)
    assert moved == "read the parameter output_ptr into R2"
    several = say(f"LDCU.128 UR4, c[0x0][{hex(parameters)}]", target, PARAMETERS)
    assert several == "read the parameters output_ptr and input_ptr into UR4…UR7"
    added = say(f"IADD3 R2, R0, c[0x0][{hex(parameters + 16)}], RZ", target, PARAMETERS)
    assert added == "R2 = R0 + the parameter n_cols (781)"


@pytest.mark.parametrize("cubin", CUBINS, ids=lambda p: p.name)
def test_parameter_offsets_of_the_sentences(cubin: Path) -> None:
    """The base in each cubin is the one that the table has for its architecture."""
    data = cubin.read_bytes()
    whole = read_cubin(data)
    assert whole is not None
    known = [kernel_parameters(data, name) for name in whole.entries]
    assert any(known)
    text = printed(need("nvdisasm").path, "-c", cubin).decode()
    found = re.search(r"sm_(\d+)|EF_CUDA_SM(\d+)", text)
    assert found
    for parameters in known:
        if parameters is not None and parameters.base is not None:
            line = f"LDC R2, c[0x0][{hex(parameters.base)}]"
            assert "the parameter at byte 0 " in str(say(line, f"sm_{found[1] or found[2]}"))


@pytest.mark.parametrize("cubin", CUBINS, ids=lambda p: p.name)
def test_parameters_are_those_of_cuobjdump(cubin: Path) -> None:
    told = printed(need("cuobjdump").path, "-elf", cubin).decode()
    expected = {}
    for part in re.split(r"\n(?=\.)", told):
        if not (name := re.match(r"\.nv\.info\.(\S+)", part)):
            continue
        rows = re.findall(r"Ordinal : (0x\w+)\s+Offset\s+: (0x\w+)\s+Size\s+: (0x\w+)", part)
        bank = re.search(r"PARAM_CBANK\s+Format:.*\s+Value:\s+0x\w+ (0x\w+)", part)
        size = re.search(r"CBANK_PARAM_SIZE\s+Format:.*\s+Value:\s+(0x\w+)", part)
        expected[name[1]] = (
            sorted(tuple(int(x, 16) for x in row) for row in rows),
            int(bank[1], 16) & 0xFFFF if bank else None,
            int(size[1], 16) if size else None,
        )
    for kernel, figures in expected.items():
        known = kernel_parameters(cubin.read_bytes(), kernel)
        assert known is not None
        found = [(p.ordinal, p.offset, p.size) for p in known.parameters]
        assert (found, known.base, known.size) == figures
    assert any(rows for rows, _, _ in expected.values())


def _holds(formula: str, a: int, b: int, c: int) -> int:
    assert re.fullmatch(r"[abc01~&^| ()]+", formula)
    # Python's operators bind as those of the formulas do: ~, &, ^, |.
    return int(eval(formula, {"a": a, "b": b, "c": c})) & 1


def test_every_table_of_three_bits() -> None:
    for table, (a, b, c) in product(range(256), product((0, 1), repeat=3)):
        formula = wording.formula(table)
        assert _holds(formula, a, b, c) == table >> (a << 2 | b << 1 | c) & 1, formula


@given(st.integers(0, 255), st.tuples(*[st.sampled_from([None, 0, 1])] * 3))
def test_a_formula_leaves_out_inputs_with_known_values(
    table: int, known: tuple[int | None, ...]
) -> None:
    restricted = wording.restrict(table, known)
    formula = wording.formula(restricted)
    for name, value in zip("abc", known, strict=True):
        assert value is None or name not in formula
    for bits in product((0, 1), repeat=3):
        a, b, c = (x if k is None else k for x, k in zip(bits, known, strict=True))
        assert _holds(formula, *bits) == table >> (a << 2 | b << 1 | c) & 1


def test_every_opcode_of_the_reference_has_a_sentence() -> None:
    entries = ISA.entries("sass", "instruction")
    assert len(entries) > 100
    for entry in entries:
        for operands in ("", " R4, R2, R3", " UR4, [UR6], R2", " P0, PT, R2, 0x3, PT"):
            sentence = say(entry.word + operands)
            assert sentence, entry.word
            assert "{" not in sentence and "None" not in sentence, sentence


def test_what_is_not_known_has_none() -> None:
    assert say("FROBNICATE R0, R1") is None
    listing = constructs("sm75")
    reader = SassReader(listing, None, ISA, TEMPLATES)
    assert reader.sentence(0) is None
    assert reader.sentence(-1) is None
    assert reader.sentence(len(listing.lines) + 1) is None
    assert [reader.sentence(x.n) for x in listing.lines if x.kind is Kind.LABEL][:2] == [None] * 2
