"""The sentence of every form of SASS that the kernels of ``forms.py`` have."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from inspector.analysis.sentences.sass import SassReader
from inspector.base.model import Stage
from inspector.parsers import parse
from inspector.reader import tables
from tests.helpers.plr import FORMS, forms

SENTENCES = Path(__file__).parents[2] / "data" / "analysis" / "forms_sentences.txt"
"""One instruction of each opcode a line, with its sentence; a person has read it.

Written by ``python -m tests.analysis.sentences.test_sass_forms``.
"""
SILENT = Path(__file__).parents[2] / "data" / "analysis" / "sass_silent.toml"
"""Qualifiers without which a sentence may stay as it is, by the reason."""
INSTRUCTION = re.compile(r"((?:@!?\w+ )?)([A-Z]\w*)((?:\.\w+)*)(.*)")
"""``@P0 ATOMS.ADD.S32 RZ, [UR5], R0``"""
ADDRESS = re.compile(r"\s*/\*[0-9a-f]+\*/\s*")


def spoken() -> Iterator[str]:
    """The first instruction of every opcode, with its sentence."""
    seen: set[str] = set()
    for name in FORMS:
        listing = parse(Stage.SASS, forms(name).text)
        reader = SassReader(listing, None, tables.isa(), tables.table("sass_sentences"))
        for line in listing.lines:
            if line.opcode and line.opcode not in seen:
                seen.add(line.opcode)
                text = ADDRESS.sub("", line.text).removesuffix(";").strip()
                yield f"{text} => {reader.sentence(line.n)}"


def read_out(instruction: str) -> str | None:
    listing = parse(Stage.SASS, f"\t.target\tsm_100\n        /*0000*/ {instruction} ;")
    return SassReader(listing, None, tables.isa(), tables.table("sass_sentences")).sentence(2)


def dropped() -> Iterator[str]:
    """``ATOMS.S32`` for each qualifier without which an instruction's sentence is the same."""
    for line in SENTENCES.read_text("utf-8").splitlines():
        instruction, _, _ = line.partition(" => ")
        match = INSTRUCTION.fullmatch(instruction)
        assert match, instruction
        guard, base, suffix, operands = match.groups()
        qualifiers = suffix.split(".")[1:]
        whole = read_out(instruction)
        for index, qualifier in enumerate(qualifiers):
            left = [base, *qualifiers[:index], *qualifiers[index + 1 :]]
            if read_out(f"{guard}{'.'.join(left)}{operands}") == whole:
                yield f"{base}.{qualifier}"


def test_every_qualifier_changes_the_sentence_or_has_a_reason_not_to() -> None:
    reasons = tomllib.loads(SILENT.read_text("utf-8"))["silent"]
    excused = {name for names in reasons.values() for name in names.split()}
    found = set(dropped())
    anywhere = {f"*.{name.partition('.')[2]}" for name in found}
    unexplained = {name for name in found if f"*.{name.partition('.')[2]}" not in excused}
    assert unexplained - excused == set()
    assert excused - found - anywhere == set()


def test_every_form_has_the_sentence_that_was_read() -> None:
    lines = sorted(spoken())
    assert lines == SENTENCES.read_text("utf-8").splitlines()


if __name__ == "__main__":
    SENTENCES.write_text("\n".join(sorted(spoken())) + "\n", "utf-8")
