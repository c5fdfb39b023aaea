"""Colours: whole texts come back, linear in time, the main things told apart."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from pygments.token import Comment, Error, Keyword, Name

from inspector.listing.lexers import MlirLexer, NvSassLexer, lexer_for
from inspector.model import Stage
from tests.helpers.samples import Disassembler, read_sample
from tests.listing.test_lossless import TEXTS


@pytest.mark.parametrize(
    ("stage", "path", "name"),
    [
        (Stage.SOURCE, "a.py", "Python"),
        (Stage.SOURCE, None, "Python"),
        (Stage.SOURCE, "a.cu", "CUDA"),
        (Stage.OUTPUT_CODE, None, "Python"),
        (Stage.TTIR, None, "MLIR"),
        (Stage.TTGIR, None, "MLIR"),
        (Stage.LLIR, None, "LLVM"),
        (Stage.PTX, None, "PTX"),
        (Stage.SASS, None, "NVIDIA SASS"),
    ],
)
def test_a_lexer_for_each_stage(stage: Stage, path: str | None, name: str) -> None:
    assert lexer_for(stage, path).name == name


def tokens(text: str, stage: Stage) -> list[tuple[object, str]]:
    """Token types and texts."""
    return [(kind, value) for kind, value in lexer_for(stage).get_tokens(text)]


def test_sass(nvdisasm: Disassembler) -> None:
    text = nvdisasm("nested.cubin", "-c")
    found = tokens(text, Stage.SASS)
    assert "".join(value for _, value in found) == text
    assert (Keyword, "LDG") in found
    assert (Name.Variable, "R6") in found
    assert (Name.Decorator, "@!P0") in found
    assert (Comment.Address, "/*0000*/") in found
    assert Error not in {kind for kind, _ in found}


def test_mlir() -> None:
    text = read_sample("matmul_sm90.ttgir")
    found = tokens(text, Stage.TTGIR)
    assert "".join(value for _, value in found) == text
    assert (Keyword, "tt.splat") in found
    assert (Name.Constant, "#mma") in found
    assert (Comment.Special, "loc") in found
    assert Error not in {kind for kind, _ in found}


@settings(max_examples=100, deadline=None)
@given(text=TEXTS)
def test_any_text_comes_back(text: str) -> None:
    plain = text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    for lexer in (MlirLexer, NvSassLexer):
        made = lexer(stripnl=False, ensurenl=False)
        assert "".join(value for _, value in made.get_tokens(text)) == plain


@pytest.mark.parametrize("piece", ["a.", "0x", '"', "R1", "/*", "-", "@!", "`(", "e+1", "%", " "])
def test_linear(piece: str) -> None:
    text = piece * 20_000
    for lexer in (MlirLexer, NvSassLexer):
        begin = time.process_time()
        assert list(lexer(stripnl=False, ensurenl=False).get_tokens(text))
        assert time.process_time() - begin < 5
