"""Pygments lexers for what Pygments lacks (SASS, MLIR, Inductor's code), and every stage's lexer.

No rule can match the empty string and none backtracks, so that colouring is linear.
"""

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from pygments.lexer import Lexer, RegexLexer
from pygments.lexers import CudaLexer, PythonLexer, TextLexer
from pygments.lexers.asm import LlvmLexer
from pygments.lexers.ptx import PtxLexer
from pygments.token import (
    Comment,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Text,
    Whitespace,
    _TokenType,
)

from inspector.base.stage import FX_STAGES, GRAPH_STAGES, Stage
from inspector.parsers.source_code import is_cuda


class NvSassLexer(RegexLexer):
    """NVIDIA's machine code as nvdisasm and cuobjdump print it."""

    name = "NVIDIA SASS"
    tokens: ClassVar[dict[str, list[Any]]] = {
        "root": [
            (r"\s+", Whitespace),
            (r"//[^\n]*+", Comment.Single),
            (r"/\*[0-9a-f]{4,16}\*/", Comment.Address),
            (r"/\*[^*\n]*+\*/", Comment.Multiline),
            (r"\.L_x_\d++:?", Name.Label),
            (r"\.[A-Za-z_][\w.$]*+:", Name.Label),
            (r"\.[A-Za-z_][\w.]*+", Keyword.Declaration),
            (r"[A-Za-z_$][\w$.]*+:", Name.Label),
            (r'"[^"\n]*+"?', String),
            (r"`\([^)\n]*+\)?", Name.Label),
            (r"@!?+U?+P(?:\d|T)", Name.Decorator),
            (r"(?:UR|R)(?:\d{1,3}|Z)(?![\w])", Name.Variable),
            (r"U?+P(?:\d|T|R)(?![\w])", Name.Variable.Magic),
            (r"S[RB]\w*+(?:\.\w++)?", Name.Builtin),
            (r"B\d{1,2}(?![\w])", Name.Variable.Global),
            (r"[-+]?+0x[0-9a-fA-F]++", Number.Hex),
            (r"[-+]?+\d++(?:\.\d*+)?(?:e[-+]?\d++)?", Number),
            (r"[-+](?:INF|QNAN|SNAN)\b", Number.Float),
            (r"(?:g?desc|tmem|cx?)(?=\[)", Name.Builtin),
            (r"[A-Z][A-Z0-9_]*+(?=[\s.;])", Keyword),
            (r"[\[\](){},;]", Punctuation),
            (r"[-+|~!&*.@%=:<>?]", Operator),
            (r"[\w$]++", Text),
            (r".", Text),
        ]
    }


class MlirLexer(RegexLexer):
    """MLIR: Triton's TTIR and TTGIR and other dialects."""

    name = "MLIR"
    tokens: ClassVar[dict[str, list[Any]]] = {
        "root": [
            (r"\s+", Whitespace),
            (r"//[^\n]*+", Comment.Single),
            (r'"(?:[^"\\\n]|\\.)*+"?', String),
            (r"%[\w$.\-]++(?:#\d++)?", Name.Variable),
            (r"#[\w$.\-]++", Name.Constant),
            (r"\^[\w$.\-]++", Name.Label),
            (r'@(?:[\w$.\-]++|"[^"\n]*+")', Name.Function),
            (r"![\w$.]++", Keyword.Type),
            (r"\b(?:loc|callsite|fused|at|unknown)\b", Comment.Special),
            (r"\b(?:true|false|dense|none)\b", Keyword.Constant),
            (
                r"\b(?:[sui]\d++|bf16|f16|f32|f64|tf32|f8E\w++|index|tensor|memref|vector|"
                r"tuple)\b(?!\.)",
                Keyword.Type,
            ),
            (r"\b(?:module|func|attributes|public|private|iter_args|to|step|else|do)\b", Keyword),
            (r"[A-Za-z_][\w$]*+(?:\.[\w$]++)++", Keyword),
            (r"(?<![\w])-?+0x[0-9A-Fa-f]++", Number.Hex),
            (r"(?<![\w])-?+\d++(?=x)", Number.Integer),
            (r"(?<![\w])-?+\d++(?:\.\d*+)?(?:[eE][-+]?\d++)?", Number),
            (r"->|::|[=:*+\-<>?]", Operator),
            (r"[\[\](){},]", Punctuation),
            (r"[\w$]++", Name),
            (r".", Text),
        ]
    }


_GRAPH = re.compile(r"# +(?:%\w|return %|[\w.]+ => )|# Topologically Sorted Source Nodes:")
"""A comment of Inductor's that speaks of the graph: FX's own text, names, or which became which."""
_QUOTES = re.compile(r"[uUrRbBfF]{0,2}('''|\"\"\")")
_CPP = ("#include", 'extern "C"')
_CODE = ("import ", "def ", *_CPP)


class _GraphLexer(RegexLexer):
    """A comment about a graph: nodes, operators, the types between them."""

    name = "FX graph comment"
    tokens: ClassVar[dict[str, list[Any]]] = {
        "root": [
            (r"#", Comment.Single),
            (r"\s+", Whitespace),
            (r"%[\w.]++", Name.Variable),
            (r'"[^"\n]*+"?', String),
            (
                r"(?:aten|prims|prim|inductor|torch|quantized|higher_order)(?:\.\w++)++",
                Name.Function,
            ),
            (
                r"(?:call_function|call_method|call_module|placeholder|PlaceHolder|get_attr|output|"
                r"return)\b",
                Keyword,
            ),
            (r"(?:args|kwargs|target|num_users)(?==|\b)", Name.Attribute),
            (r"(?:Topologically Sorted Source Nodes|Original ATen)(?=:)", Comment.Single),
            (r"(?:None|True|False)\b", Keyword.Constant),
            (r"-?+\d++(?:\.\d*+)?(?:e[-+]?\d++)?(?![\w])", Number),
            (r"=>|[=:]", Operator),
            (r"[\[\](){},]", Punctuation),
            (r"[\w.]++", Name),
            (r".", Text),
        ]
    }


def _is_program(text: str) -> bool:
    """Whether a string's text is a program of several lines."""
    return "\n" in text and any(word in text for word in _CODE)


def _program_tokens(text: str) -> Iterator[tuple[int, _TokenType, str]]:
    """The tokens of a program in a string, C++ or Python."""
    is_cpp = any(word in text for word in _CPP)
    lexer = (CudaLexer if is_cpp else PythonLexer)(stripnl=False, ensurenl=False)
    return iter(lexer.get_tokens_unprocessed(text))


class OutputCodeLexer(Lexer):
    """What Inductor writes: Python, with kernels in strings and the graph in comments.

    A string of several lines that holds a program is read as that program, Python or C++.
    """

    name = "output_code"

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, _TokenType, str]]:
        """The tokens of a text, each with its place; joined they are the text."""
        graph = _GraphLexer()
        ends = 0
        quotes = ""
        for start, token, value in PythonLexer().get_tokens_unprocessed(text):
            if start < ends:
                continue
            if token in Comment and _GRAPH.match(value):
                for inner, kind, part in graph.get_tokens_unprocessed(value):
                    yield start + inner, kind, part
                continue
            yield start, token, value
            if token not in String or token in String.Doc:
                continue
            opened = _QUOTES.fullmatch(value)
            if opened is None:
                continue
            if opened[1] == quotes:  # the end of a string that was no program
                quotes = ""
                continue
            end = text.find(opened[1], start + len(value))
            within = text[start + len(value) : end] if end >= 0 else ""
            if quotes or not _is_program(within):
                quotes = quotes or opened[1]
                continue
            for inner, kind, part in _program_tokens(within):
                yield start + len(value) + inner, kind, part
            ends = end
            quotes = opened[1]


_LEXERS: dict[Stage, type[Lexer]] = {
    **dict.fromkeys(GRAPH_STAGES, TextLexer),
    **dict.fromkeys(FX_STAGES, PythonLexer),
    Stage.SOURCE: PythonLexer,
    Stage.OUTPUT_CODE: OutputCodeLexer,
    Stage.IR: MlirLexer,
    Stage.TTIR: MlirLexer,
    Stage.TTGIR: MlirLexer,
    Stage.LLIR: LlvmLexer,
    Stage.PTX: PtxLexer,
    Stage.SASS: NvSassLexer,
}


def lexer_for(stage: Stage, path: str | None = None) -> Lexer:
    """The Pygments lexer of a stage; ``path`` tells a source in Python from one in CUDA C++.

    Nothing is stripped or appended: the tokens joined are the text.
    """
    lexer = (
        CudaLexer
        if stage in (Stage.SOURCE, Stage.OUTPUT_CODE) and is_cuda(path)
        else _LEXERS[stage]
    )
    return lexer(stripnl=False, ensurenl=False, stripall=False)
