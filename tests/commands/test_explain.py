"""``ptxview explain``: words, opcodes, whole instructions, families, and what is not known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inspector.base.names import words
from tests.helpers.ptxview import call

FIELDS = words(
    "schema word entry language kind summary operands qualifiers cost since until "
    "reference also members nearest"
)


def explained(*words: str) -> list[dict[str, Any]]:
    done = call("explain", "--json", *words)
    return [json.loads(line) for line in done.text.splitlines()]


def test_an_opcode_has_its_instruction_and_the_qualifiers_in_it() -> None:
    (found,) = explained("ld.global.v4.b32")
    assert set(found) == FIELDS and found["schema"] == 1
    assert (found["word"], found["entry"]) == ("ld.global.v4.b32", "ld")
    assert (found["language"], found["kind"], found["cost"]) == ("ptx", "instruction", "memory")
    assert list(found["qualifiers"]) == [".global", ".v4", ".b32"]
    assert all(found["qualifiers"].values()) and found["operands"] and found["nearest"] == []
    assert found["since"].startswith("PTX ISA 1.0") and found["until"] is None
    assert "9.7.9.8" in found["reference"]


@pytest.mark.parametrize(
    ("word", "entry", "language", "kind"),
    [
        ("%ctaid.x", "%ctaid", "ptx", "special register"),
        (".reqntid", ".reqntid", "ptx", "directive"),
        (".bf16x2", ".bf16x2", "ptx", "type"),
        (".L1::evict_last", ".L1::evict_last", "ptx", "qualifier"),
        ("HGMMA", "HGMMA", "sass", "instruction"),
        ("LDG.E.128", "LDG", "sass", "instruction"),
        ("@%p1 ld.global.b32 %r1, [%rd1];", "ld", "ptx", "instruction"),
        ("  @P0 LDG.E.128 R4, [R2.64] ;", "LDG", "sass", "instruction"),
        ("/*0a10*/  LDG.E.128 R4, desc[UR4][R2.64+0x10] ;", "LDG", "sass", "instruction"),
        (".reg .b32 %r<5>;", ".reg", "ptx", "directive"),
    ],
)
def test_a_word_is_found_as_it_is_in_code(word: str, entry: str, language: str, kind: str) -> None:
    (found,) = explained(word)
    assert (found["entry"], found["language"], found["kind"]) == (entry, language, kind)
    assert found["summary"] and found["word"] == word


@pytest.mark.parametrize("word", ["mbarrier", "tcgen05", "wgmma", "WGMMA"])
def test_a_family_shows_its_members(word: str) -> None:
    (found,) = explained(word)
    assert found["kind"] == "family" and found["language"] == "ptx" and found["summary"]
    assert len(found["members"]) > 3
    assert all(m.startswith(word.lower() + ".") for m in found["members"])
    done = call("explain", word)
    assert done.status == 0 and all(m in done.text for m in found["members"])


def test_what_is_not_known_is_reported_with_what_is_near() -> None:
    done = call("explain", "ld.globl.v4.b32")
    assert done.status == 1 and "no .globl" in done.text
    assert "Did you mean ld.global.v4.b32?" in done.text.replace("\n", " ")
    (found,) = explained("ld.globl.v4.b32")
    assert found["summary"] is None and found["language"] is None and found["members"] == []
    assert found["nearest"][0] == "ld.global.v4.b32"
