"""A function's instructions are read once, whatever is asked of it."""

from __future__ import annotations

from collections import Counter

import pytest

from inspector.analyse.flow.graph import read_steps
from inspector.commands.common import open_reader
from inspector.listing.line import Function, Listing
from inspector.model import Stage
from tests.helpers.ptxview import SQUARE


def test_card_hints_and_every_line_share_one_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    readings: Counter[tuple[str, str]] = Counter()

    def counted(listing: Listing, function: Function) -> object:
        readings[listing.language, function.name] += 1
        return read_steps(listing, function)

    monkeypatch.setattr("inspector.analyse.function_facts.read_steps", counted)
    reader = open_reader(str(SQUARE))
    ((_, variant),) = reader.recording.variants()
    reader.card(variant)
    reader.findings(variant)
    for stage in (Stage.PTX, Stage.SASS):
        telling = reader.telling(variant, stage)
        for line in reader.listing(variant, stage).lines:
            telling.at(line.n)
            telling.words(line.n)
            telling.registers(line.n)
    assert readings == {("ptx", "square_kernel"): 1, ("sass", "square_kernel"): 1}
