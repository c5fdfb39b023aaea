"""How well what can be found fits what one types."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspector.tui.find.finder import Entry, rank


def entry(text: str, near: int = 0, words: str = "", digest: str = "") -> Entry:
    return Entry("thing", text, words=words, digest=digest, near=near)


def ranked(query: str, *entries: Entry, nearest: bool = False) -> list[str]:
    return [match.entry.text for match in rank(entries, query, nearest=nearest)]


def test_exact_comes_before_the_beginning_and_that_before_anything_within() -> None:
    names = ["a_softmax", "presoftmax", "softmax_kernel", "softmax"]
    others = entry("triton_red", words="aten.softmax")
    assert ranked("softmax", others, *map(entry, names)) == [
        "softmax",
        "softmax_kernel",
        "a_softmax",
        "presoftmax",
        "triton_red",
    ]


def test_what_is_in_view_comes_first_of_what_fits_alike_or_of_all() -> None:
    entries = [entry("loop_far", near=3), entry("loop_here", near=0), entry("loop", near=5)]
    assert ranked("loop", *entries) == ["loop", "loop_here", "loop_far"]
    entries = [entry("fold", near=2), entry("unfold", near=0)]
    assert ranked("fold", *entries, nearest=True) == ["unfold", "fold"]


def test_every_word_must_be_somewhere() -> None:
    entries = [entry("matmul", words="block_m=64 w4"), entry("matmul", words="block_m=128 w8")]
    matches = rank(entries, "MATMUL 64")
    assert [match.entry for match in matches] == entries[:1]


@pytest.mark.parametrize(
    ("typed", "fits"), [("ea", True), ("ea23", True), ("a23", False), ("e", False), ("eg", False)]
)
def test_a_hash_is_found_by_its_beginning_alone(typed: str, fits: bool) -> None:
    assert bool(ranked(typed, entry("x", digest="ea237a1f"))) is fits


def test_a_stage_beside_other_words_is_that_stage_of_what_fits_them() -> None:
    def of(name: str) -> Entry:
        at = lambda stage: None if name == "b_7" else Entry(stage, f"{name} at {stage}")  # noqa: E731
        return Entry("kernel", name, also=at)

    stages = ("ptx", "sass")
    found = [m.entry.text for m in rank([of("a_7"), of("b_7")], "7 sa", stages)]
    assert found == ["a_7 at sass"]
    assert [m.entry.text for m in rank([of("a_7")], "ptx 7", stages)] == ["a_7 at ptx"]


@given(st.lists(st.text(max_size=12), max_size=6), st.text(max_size=8))
def test_spans_are_within_the_text_for_any_query(names: list[str], query: str) -> None:
    matches = rank([entry(name) for name in [*names, query]], query, ("ptx",))
    assert matches
    for match in matches:
        assert all(0 <= a < b <= len(match.entry.text.casefold()) for a, b in match.spans)


def test_numbers_lines_and_sizes_are_found_whole_as_titles_show_them() -> None:
    titles = [entry("#3 mm 512×256×512 · a.py:66"), entry("#31 mm 1512×256 · a.py:660")]
    for query in ("#3", ":66", "a.py:66", "mm 512x256", "512×256"):
        assert ranked(query, *titles) == ["#3 mm 512×256×512 · a.py:66"]
    assert not ranked("#4", *titles) and not ranked(":6", *titles)
