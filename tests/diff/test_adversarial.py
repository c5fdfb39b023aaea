"""Any renaming is identical; one change never is, and its hunk has its line."""

from __future__ import annotations

import random
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inspector.diff.canonical import digest
from inspector.diff.listings import ListingDiff, diff_listings
from inspector.diff.matching import Op, rows
from inspector.parsers import parse
from inspector.parsers.line import Kind, Listing
from tests.helpers.mutations import mutate, mutations, named, renamed
from tests.helpers.specimens import SPECIMENS, text_of

MAX_CHARS = 60_000
# The longest are tried nightly: others are of the same languages.
NAMES = [
    pytest.param(name, marks=[pytest.mark.nightly] * (len(text_of(name)) > MAX_CHARS))
    for name in sorted(SPECIMENS)
]
seeds = st.integers(0, 2**32)


@cache
def original(name: str) -> Listing:
    return parse(SPECIMENS[name][0], text_of(name))


@cache
def possible(name: str) -> tuple[tuple[str, int], ...]:
    listing = original(name)
    stage = SPECIMENS[name][0]
    return tuple(
        one
        for function in listing.functions
        for one in mutations(stage, text_of(name), function.first, function.last)
    )


def whole(diff: ListingDiff, a: Listing, b: Listing) -> None:
    """Every line of both in one hunk; an equal one uneven only in what says nothing."""
    for side, listing in ((0, a), (1, b)):
        spans = sorted((h.a, h.b)[side] for h in diff.hunks)
        spans = [s for s in spans if s[0] < s[1]]
        assert [s[0] for s in spans] == [1, *(s[1] for s in spans[:-1])]
        assert spans[-1][1] == len(listing.lines) + 1
    for hunk in diff.hunks:
        if hunk.op is Op.EQUAL:
            left = _content(a, hunk.a)
            assert left == _content(b, hunk.b)
            if hunk.a[1] - hunk.a[0] != hunk.b[1] - hunk.b[0]:
                assert left == 0
    shown = list(rows(diff.hunks))
    for side, listing in ((1, a), (2, b)):
        numbers = [row[side] for row in shown if row[side] is not None]
        assert sorted(n for n in numbers if isinstance(n, int)) == list(
            range(1, len(listing.lines) + 1)
        )


def _content(listing: Listing, span: tuple[int, int]) -> int:
    lines = listing.lines[span[0] - 1 : span[1] - 1]
    return sum(line.kind not in (Kind.COMMENT, Kind.BLANK) for line in lines)


@pytest.mark.parametrize("name", NAMES)
def test_a_text_differs_in_nothing_from_itself(name: str) -> None:
    listing = original(name)
    diff = diff_listings(listing, parse(SPECIMENS[name][0], text_of(name)))
    assert diff.identical and [h.op for h in diff.hunks] == [Op.EQUAL]
    assert all(pair.identical for pair in diff.functions)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=seeds)
def test_renamed_registers_and_labels_are_no_difference(name: str, seed: int) -> None:
    stage = SPECIMENS[name][0]
    text = renamed(stage, text_of(name), random.Random(seed))
    other = parse(stage, text)
    diff = diff_listings(original(name), other)
    changed = [h for h in diff.hunks if h.op is not Op.EQUAL]
    assert diff.identical and not changed, changed[:3]
    whole(diff, original(name), other)
    for mine, theirs in zip(original(name).functions, other.functions, strict=True):
        assert digest(original(name), mine) == digest(other, theirs)
    if text != text_of(name):
        assert not diff_listings(original(name), other, exact=True).identical


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), seed=seeds, also=st.booleans())
def test_one_change_is_one_difference(
    name: str, data: st.DataObject, seed: int, also: bool
) -> None:
    """One change, alone or on top of a renaming."""
    stage = SPECIMENS[name][0]
    kinds = sorted({kind for kind, _ in possible(name)})
    kind = data.draw(st.sampled_from(kinds))
    n = data.draw(st.sampled_from([n for k, n in possible(name) if k == kind]))
    text = mutate(stage, text_of(name), kind, n)
    a = original(name)
    if also:
        text = renamed(stage, text, random.Random(seed))
    b = parse(stage, text)
    diff = diff_listings(a, b)
    assert not diff.identical
    whole(diff, a, b)
    changed = [h for h in diff.hunks if h.op is not Op.EQUAL]
    assert changed
    if kind in ("delete", "duplicate"):
        # of several lines that are alike any may be the one
        assert any(h.op in (Op.DELETE, Op.INSERT, Op.REPLACE) for h in changed)
    else:
        covered = [k for h in changed for k in range(*h.a)]
        here = a.lines[n - 1].text
        # a name on two lines, called two things where everything is called otherwise: either line
        # may be the one that changed
        other = also and any(
            named(stage, a.lines[k - 1].text) & named(stage, here) for k in covered
        )
        assert n in covered or other, (kind, here)
    if not also and kind not in ("delete", "duplicate", "target"):
        # and little else is said to have changed
        assert sum(h.a[1] - h.a[0] for h in changed) <= 12


def test_two_registers_that_changed_places_in_one_line_are_that_line() -> None:
    """Not the line that defines the one and the one that uses the other, whose text is the same."""
    (n,) = (line.n for line in original("nested.ptx").lines if "%f7, %f6, %f6, %f3" in line.text)
    text = text_of("nested.ptx").replace("%f7, %f6, %f6, %f3", "%f6, %f7, %f7, %f3")
    diff = diff_listings(original("nested.ptx"), parse(SPECIMENS["nested.ptx"][0], text))
    assert [h.a for h in diff.hunks if h.op is not Op.EQUAL] == [(n, n + 1)]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=st.text(), seed=seeds)
def test_every_line_of_damaged_texts_is_in_the_diff(name: str, text: str, seed: int) -> None:
    """Nothing raises, and every line is somewhere."""
    rng = random.Random(seed)
    stage = SPECIMENS[name][0]
    lines = text_of(name).split("\n")
    for _ in range(20):
        at = rng.randrange(len(lines))
        lines[at : at + rng.randrange(4)] = [lines[at][: rng.randrange(1 + len(lines[at]))] + text]
    b = parse(stage, "\n".join(lines))
    whole(diff_listings(original(name), b), original(name), b)
    whole(diff_listings(b, original(name)), b, original(name))
