"""Declarations of PTX, against ptxas and the PTX ISA."""

import re
from pathlib import Path

import pytest

from inspector.base.model import Stage
from inspector.parsers import parse
from inspector.parsers.ptx_statement import (
    entries,
    read_header,
    register_declarations,
    variable_declaration,
)
from inspector.system.process import run_tool
from inspector.system.toolchain import need
from tests.helpers.ptxview import saved

VARIABLES = (
    ".visible .global .attribute(.managed) .align 4 .u32 shared_with_host = 40;",
    ".global .b8 plain[5];",
    ".global .v4 .f32 vector;",
    ".global .f64 matrix[3][5];",
)
KERNEL = """.visible .entry k(
    .param .u64 .ptr .global .align 16 a,
    .param .u8 b,
    .param .align 8 .b8 c[12],
    .param .f64 d
)
.reqntid 64, 2
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<3>;
    .reg .f64 %fd;
    ld.param.u64 %rd1, [a];
    ld.param.u8 %r1, [b];
    ld.param.b32 %r2, [c];
    ld.param.f64 %fd, [d];
    st.global.b32 [%rd1], %r1;
    st.global.b32 [%rd1+4], %r2;
    st.global.f64 [%rd1+8], %fd;
    ret;
}
"""


def told(tmp_path: Path, body: str) -> str:
    """What ``ptxas -v`` says of a module."""
    source = saved(tmp_path / "k.ptx", f".version 8.5\n.target sm_90\n.address_size 64\n{body}")
    done = run_tool([need("ptxas").path, "-v", "-arch=sm_90", "-o", tmp_path / "k.cubin", source])
    return (done.out + done.err).decode()


@pytest.mark.parametrize("code", VARIABLES)
def test_a_variable_takes_the_bytes_that_ptxas_gives_it(code: str, tmp_path: Path) -> None:
    one = variable_declaration(code)
    found = re.search(r"(\d+) bytes gmem", told(tmp_path, f"{code}\n{KERNEL}"))
    assert one is not None and found is not None
    assert one.size == int(found[1])


def test_parameters_stand_where_ptxas_reads_them(tmp_path: Path) -> None:
    listing = parse(Stage.PTX, KERNEL)
    header = read_header(listing, listing.functions[0])
    assert [(p.name, p.kind, p.offset, p.size, p.pointer) for p in header.parameters] == [
        ("a", "u64", 0, 8, True),
        ("b", "u8", 8, 1, False),
        ("c", "b8", 16, 12, False),
        ("d", "f64", 32, 8, False),
    ]
    assert header.block == (64, 2, 1) and header.block_limit is None
    told(tmp_path, KERNEL)
    code = run_tool([need("nvdisasm").path, "-c", tmp_path / "k.cubin"]).text
    # On sm_90 parameters begin at 0x210 of the constant bank.
    read = {int(at, 16) - 0x210 for at in re.findall(r"c\[0x0\]\[(0x[0-9a-f]+)\]", code)}
    assert {p.offset for p in header.parameters} <= read


def test_the_kernels_of_a_text_with_their_headers() -> None:
    text = KERNEL + "// .entry commented(\n.extern .entry\nsecond\n(.param .u32 n);\n" + KERNEL
    found = list(entries(text))
    assert [name for name, _ in found] == ["k", "second", "k"]
    assert ".reqntid 64, 2" in found[0][1] and ".reg" not in found[0][1]


@pytest.mark.parametrize(
    ("type_name", "bits"),
    [
        ("pred", 1),
        ("u8", 8),
        ("bf16", 16),
        ("f16x2", 32),
        ("bf16x2", 32),
        ("tf32", 32),
        ("b128", 128),
    ],
)
def test_a_packed_register_is_as_wide_as_all_its_elements(type_name: str, bits: int) -> None:
    (declared,) = register_declarations(f".reg .{type_name} %a<3>;")
    assert declared.bits == bits
