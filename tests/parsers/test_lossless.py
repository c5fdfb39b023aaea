"""Every input comes out again, line for line, in time linear in its size."""

import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inspector.base.model import FX_STAGES, GRAPH_STAGES, Stage
from inspector.parsers import parse
from inspector.parsers.line import Kind, Listing
from inspector.parsers.source_code import parse_cuda
from tests.helpers.samples import read_sample

WORDS = st.sampled_from(
    [
        *"{}()[];:,@%!#^\"'\\/*\n\r\0\t .<>=-+0",
        *("//", "/*", "*/", "\r\n", '"""', ".loc 1 2 3", '.file 1 "a"', ".entry f(", ".func g"),
        *("ld.global.b32 %r1, [%rd2];", "@%p1 bra L;", "L:", ".reg .pred p<3>;", "loc(#loc1)"),
        *('#loc1 = loc("f":1:2)', "callsite(", "fused<", " at ", "%0 = tt.load %1", "!dbg !3"),
        *("!3 = !DILocation(line: 1, scope: !3, inlinedAt: !3)", "define void @f() {", "/*0010*/"),
        *("MOV R1, R2 ;", "/* 0x0000000000000000 */", ".section\t.text.k", "Function : k"),
        *('//## File "f", line 3 inlined at "g", line 4', "switch i32 %1, label %2 [", "call"),
        *("def f(x):", "'''", "for i in x", 'R"(', "#define", "\udc80", "é", "BRA `(.L_x_1)"),
    ]
)
TEXTS = st.lists(WORDS, max_size=60).map("".join) | st.text(max_size=200)


def parser(stage: Stage) -> Callable[[str], Listing]:
    return lambda text: parse(stage, text, annotated=text, path="x.py")


# Of the stages of graphs, which share two parsers, one each.
ALIKE = {*list(FX_STAGES)[1:], *[s for s in GRAPH_STAGES if s not in FX_STAGES][1:]}
PARSERS: dict[str, Callable[[str], Listing]] = {
    **{stage.value: parser(stage) for stage in Stage if stage not in ALIKE},
    "cuda": lambda text: parse_cuda(text, "x.cu"),
}


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=TEXTS)
def test_any_text_comes_back(name: str, text: str) -> None:
    listing = PARSERS[name](text)
    assert "\n".join(line.text for line in listing.lines) == text == listing.text
    assert [line.n for line in listing.lines] == list(range(1, text.count("\n") + 2))
    for function in listing.functions:
        assert 1 <= function.first <= function.last <= len(listing.lines)


@pytest.mark.parametrize("stage", list(Stage))
def test_crlf_means_the_same(stage: Stage) -> None:
    name = {
        **dict.fromkeys(FX_STAGES, "gpt_forward.fx"),
        **{s: "gpt_fused.ir" for s in GRAPH_STAGES if s not in FX_STAGES},
        Stage.SOURCE: "tma.py",
        Stage.OUTPUT_CODE: "../analysis/forward.py",
        **dict.fromkeys((Stage.IR, Stage.TTIR), "layer_norm_sm90.ttir"),
        Stage.TTGIR: "layer_norm_sm90.ttgir",
        Stage.LLIR: "matmul_sm90.llir",
        Stage.PTX: "nested.ptx",
        Stage.SASS: "extension_cuobjdump.sass",
    }[stage]
    text = read_sample(name)
    plain, windows = parse(stage, text), parse(stage, text.replace("\n", "\r\n"))
    for a, b in zip(plain.lines, windows.lines, strict=True):
        assert a._replace(text="") == b._replace(text="")
    assert list(plain.functions) == list(windows.functions)


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize(
    "piece",
    [
        *("a", "{", "/*", '"', "(", "R1,", "%r1, ", "loc(", "@x ", ";", ".a", "\\", "'", "x:", "["),
        *(
            "fused<",
            "!",
            "#",
            "callsite(",
            ".entry a;",
            "ld ",
            "`(",
            "x(\n",
            "switch [\n",
            ".entry a\n",
            "{\n",
        ),
    ],
)
def test_long_lines_are_linear(name: str, piece: str) -> None:
    """Twice the text may not take much more than twice the time."""

    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        begin = time.process_time()
        assert PARSERS[name](text).text == text
        return time.process_time() - begin

    small, large = seconds(5_000), seconds(50_000)
    assert large < 10 * small * 4 + 0.125, (small, large)


def test_unknown_text_is_kept_as_an_unknown_line() -> None:
    for stage in (Stage.TTIR, Stage.LLIR, Stage.PTX, Stage.SASS):
        line = parse(stage, "?? what is this").lines[0]
        assert (line.kind, line.text) == (Kind.UNKNOWN, "?? what is this")
