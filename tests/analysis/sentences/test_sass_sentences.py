"""Sentences of SASS: real lines of nvdisasm's output, one of each construct."""

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from inspector.analysis.sentences.context import Context
from inspector.analysis.sentences.sass import SassReader
from inspector.base.model import Stage
from inspector.parsers import parse
from inspector.parsers.line import Kind, Listing
from inspector.reader import tables

DATA = Path(__file__).parents[2] / "data"
SENTENCES = tomllib.loads((DATA / "analysis/sentences.toml").read_text("utf-8"))
CONSTRUCTS = ("sm75", "sm80", "sm90a", "sm100a", "sm120")
ISA = tables.isa()
TEMPLATES = tables.table("sass_sentences")


@cache
def constructs(target: str) -> Listing:
    return parse(Stage.SASS, (DATA / "analysis" / f"constructs_{target}.sass").read_text())


def say(text: str, target: str = "sm_90", context: Context | None = None) -> str | None:
    """The sentence of one instruction."""
    listing = parse(Stage.SASS, f"\t.target\t{target}\n        /*0000*/ {text} ;")
    return SassReader(listing, None, ISA, TEMPLATES, context).sentence(2)


@pytest.mark.parametrize("target", CONSTRUCTS)
def test_every_construct_that_nvdisasm_prints_has_its_sentence(target: str) -> None:
    listing = constructs(target)
    reader = SassReader(listing, None, ISA, TEMPLATES)
    patterns = SENTENCES["constructs"][target]
    assert patterns
    for opcode, pattern in patterns.items():
        said = [reader.sentence(x.n) or "" for x in listing.lines if x.opcode == opcode]
        bare = [re.sub(r"^(if|unless) \w+: ", "", sentence) for sentence in said]
        assert any(re.fullmatch(pattern, sentence) for sentence in bare), (opcode, bare)


@pytest.mark.parametrize("target", CONSTRUCTS)
def test_every_instruction_has_a_sentence(target: str) -> None:
    listing = constructs(target)
    reader = SassReader(listing, None, ISA, TEMPLATES)
    kinds = [(x, reader.sentence(x.n)) for x in listing.lines]
    assert sum(s is not None for _, s in kinds) > 200
    assert [x.text for x, s in kinds if (s is None) != (x.kind is not Kind.INSTRUCTION)] == []
    assert [s for _, s in kinds if s and re.search(r"\bR?Z\b|\{|reuse|\bU?PT\b", s)] == []


@pytest.mark.parametrize(("line", "sentence"), SENTENCES["sass"].items())
def test_a_sass_instruction_reads_as_its_sentence(line: str, sentence: str) -> None:
    assert say(line) == sentence
