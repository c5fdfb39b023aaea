"""Colours: whole texts come back, linear in time, the main things told apart."""

from pygments.token import Comment, Error, Keyword, Name, String, _TokenType

from inspector.base.model import Stage
from inspector.parsers.lexers import lexer_for
from tests.helpers.samples import Disassembler, read_sample


def tokens(text: str, stage: Stage) -> list[tuple[_TokenType, str]]:
    """Token types and texts."""
    return [(kind, value) for kind, value in lexer_for(stage).get_tokens(text)]


def test_sass_is_coloured_without_losing_text(nvdisasm: Disassembler) -> None:
    text = nvdisasm("nested.cubin", "-c")
    found = tokens(text, Stage.SASS)
    assert "".join(value for _, value in found) == text
    assert {(Keyword, "LDG"), (Name.Variable, "R6"), (Name.Decorator, "@!P0")} < set(found)
    assert Error not in {kind for kind, _ in found}


def test_mlir_is_coloured_without_losing_text() -> None:
    text = read_sample("matmul_sm90.ttgir")
    found = tokens(text, Stage.TTGIR)
    assert "".join(value for _, value in found) == text
    assert {(Keyword, "tt.splat"), (Name.Constant, "#mma"), (Comment.Special, "loc")} < set(found)
    assert Error not in {kind for kind, _ in found}


OUTPUT_CODE = """\
# AOT ID: ['0_inference']
# kernel path: /tmp/k.py
# Topologically Sorted Source Nodes: [y], Original ATen: [aten.mul]
# Source node to ATen node mapping:
#   y => mul
# Graph fragment:
#   %mul : Tensor "f32[8][1]cuda:0"[num_users=2] = call_function[target=torch.ops.aten.mul.Tensor](\
args = (%arg0_1, 0.5), kwargs = {})
k = async_compile.triton('k', '''
import triton
@triton.jit
def k(in_ptr0, XBLOCK : tl.constexpr):
    '"What it does."'
    x = tl.load(in_ptr0, None)  # all of it
''', device_str='cuda')
cpp = async_compile.cpp_pybinding(['float*'], r'''
#include <cmath>
extern "C" void f(float* p) { static_cast<void>(p); }
''')
words = '''
not a program
'''
def call(args):
    return k
"""


def test_output_code_is_what_it_holds() -> None:
    found = tokens(OUTPUT_CODE, Stage.OUTPUT_CODE)
    assert "".join(value for _, value in found) == OUTPUT_CODE
    # The kernel in the string reads as it does by itself, and so does what comes after.
    kernel = OUTPUT_CODE.partition("'k', '''")[2].partition("'''")[0]
    alone = tokens(kernel, Stage.SOURCE)
    at = next(i for i in range(len(found)) if found[i : i + len(alone)] == alone)
    assert (Keyword, "def") in found[at : at + len(alone)]
    assert any(kind[0] == "Keyword" and value == "static_cast" for kind, value in found)
    assert any(kind[:2] == String and "not a program" in value for kind, value in found)
    assert found.count((Keyword, "def")) == 2
    # The graph: nodes, operators, types.
    assert {(Name.Variable, "%arg0_1"), (Name.Function, "aten.mul")} < set(found)
    assert {(String, '"f32[8][1]cuda:0"'), (Comment.Single, "# kernel path: /tmp/k.py")} < set(
        found
    )
