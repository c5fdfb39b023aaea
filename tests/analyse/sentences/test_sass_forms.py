"""The sentence of every form of SASS that the kernels of ``forms.py`` have."""

import re
from collections.abc import Iterator
from pathlib import Path

from inspector.analyse.sentences.sass import SassReader
from inspector.base.model import Stage
from inspector.listing import parse
from inspector.reader import tables
from tests.helpers.plr import FORMS, forms

SENTENCES = Path(__file__).parents[2] / "data" / "analyse" / "forms_sentences.txt"
"""One instruction of each opcode a line, with its sentence; a person has read it.

Written by ``python -m tests.analyse.sentences.test_sass_forms``.
"""
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


def test_every_form_has_the_sentence_that_was_read() -> None:
    lines = sorted(spoken())
    assert lines == SENTENCES.read_text("utf-8").splitlines()


if __name__ == "__main__":
    SENTENCES.write_text("\n".join(sorted(spoken())) + "\n", "utf-8")
