"""Python and CUDA C++."""

from inspector.base.model import Location, Stage
from inspector.parsers import parse
from inspector.parsers.line import Kind
from inspector.parsers.source_code import parse_cuda, parse_python
from tests.helpers.samples import read_sample

PYTHON = '''"""A docstring # no comment

over lines"""
import triton  # a comment

@triton.jit
def kernel(x, n,
           BLOCK: tl.constexpr):
    # a comment
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + offs, mask=offs < n,
                other=0.0)
    for i in range(0, n, BLOCK):
        acc += v[i]
    tl.store(x + offs, "# no " 'comment' + f"{v}")

total = 3
'''


def test_python_lines_have_kinds_calls_and_names() -> None:
    lines = parse_python(PYTHON, "/m.py").lines
    kinds = [line.kind for line in lines]
    assert [i for i, kind in enumerate(kinds, 1) if kind is Kind.COMMENT] == [9]
    assert [i for i, kind in enumerate(kinds, 1) if kind is Kind.BLANK] == [2, 5, 16, 18]
    assert lines[9].base == "tl.program_id"
    assert (lines[9].defs, lines[9].uses) == (("offs",), ("tl", "BLOCK"))
    assert (lines[10].base, lines[10].defs) == ("tl.load", ("v",))
    assert lines[10].uses == ("tl", "x", "offs", "n")
    assert (lines[12].base, lines[12].defs) == ("for", ("i",))
    assert lines[13].uses == ("acc", "v", "i")
    assert lines[14].base == "tl.store"
    assert lines[9].source == Location("/m.py", 10)
    assert lines[8].source is None
    listing = parse_python(PYTHON)
    assert {line.source for line in listing.lines} == {None}
    assert [(f.name, f.first, f.last) for f in listing.functions] == [("kernel", 6, 15)]


def test_inductors_code_is_read_as_python() -> None:
    listing = parse(Stage.OUTPUT_CODE, read_sample("../analysis/forward.py"))
    assert listing.language == "output_code"
    assert "call" in {function.name for function in listing.functions}
    assert Kind.UNKNOWN not in {line.kind for line in listing.lines}


CUDA = """// a comment
#include <cuda.h>
#define TWICE(x) \\
    ((x) * 2)
/* several

lines */ __global__ void
__launch_bounds__(128) add(float *out, int n)
{
    out[0] = "// no { comment"[0] + '"';  // {
    helper<<<1, 2>>>(out);
    auto s = R"x(
    // raw } text
)x";
}
__device__ float declared(float);
__device__ float twice(float v) { return v * 2; }
"""


def test_cuda_lines_have_kinds_and_calls() -> None:
    lines = parse_cuda(CUDA, "/k.cu").lines
    assert [line.kind for line in lines[:4]] == [Kind.COMMENT, *[Kind.DIRECTIVE] * 3]
    assert [line.kind for line in lines[4:7]] == [Kind.COMMENT] * 2 + [Kind.INSTRUCTION]
    assert lines[9].source == Location("/k.cu", 10)
    assert lines[10].base == "helper"
    assert [line.kind for line in lines[11:14]] == [Kind.INSTRUCTION] * 3


def test_cuda_functions_have_their_lines() -> None:
    listing = parse_cuda(CUDA)
    assert [(f.name, f.first, f.last, f.entry) for f in listing.functions] == [
        ("add", 7, 15, True),
        ("twice", 17, 17, False),
    ]
    names = [f.name for f in parse_cuda(read_sample("nested.cu")).functions]
    assert names == ["square", "cube", "poly", "outer", "nested", "calls"]
