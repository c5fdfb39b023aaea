"""Pairing the kernels of two recordings: by what they share, each at most once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from inspector.base.model import Kernel, Origin, Variant
from inspector.diff.recordings import RecordedVariant, pair


def entry(
    name: str = "f",
    digest: str = "0",
    source: bytes | None = None,
    signature: Mapping[str, str] | None = None,
    target: str = "sm_90",
    **config: object,
) -> RecordedVariant:
    variant = Variant(
        digest, digest, name, target=target, config=config, signature=dict(signature or {})
    )
    return RecordedVariant(Kernel(name, name, name, Origin.TRITON, (variant,)), variant, source)


def digests(
    a: list[RecordedVariant], b: list[RecordedVariant]
) -> list[tuple[str | None, str | None]]:
    return [
        (p.a.variant.hash if p.a else None, p.b.variant.hash if p.b else None) for p in pair(a, b)
    ]


def test_the_same_compilation_goes_before_the_same_configuration() -> None:
    a = [entry(digest="1", num_warps=4), entry(digest="2", num_warps=4)]
    assert digests(a, [a[1], a[0]]) == [("1", "1"), ("2", "2")]


def test_configurations_match_in_any_order() -> None:
    a = [entry(digest=f"a{n}", num_warps=n) for n in (1, 2, 4)]
    b = [entry(digest=f"b{n}", num_warps=n) for n in (4, 1, 2)]
    assert digests(a, b) == [("a1", "b1"), ("a2", "b2"), ("a4", "b4")]


def test_signatures_tell_specialisations_apart() -> None:
    a = [entry(digest=f"a{t}", signature={"x": t}) for t in ("*fp32", "*fp16")]
    b = [entry(digest=f"b{t}", signature={"x": t}) for t in ("*fp16", "*fp32")]
    assert digests(a, b) == [("a*fp32", "b*fp32"), ("a*fp16", "b*fp16")]


def test_sources_tell_kernels_of_one_name_apart() -> None:
    a = [entry(digest="a1", source=b"1"), entry(digest="a2", source=b"2")]
    b = [entry(digest="b2", source=b"2"), entry(digest="b1", source=b"1")]
    assert digests(a, b) == [("a1", "b1"), ("a2", "b2")]


def test_a_changed_configuration_is_a_change_and_no_removal() -> None:
    a, b = [entry(digest="a", num_warps=4)], [entry(digest="b", num_warps=8)]
    assert digests(a, b) == [("a", "b")]


def test_remaining_variants_pair_with_the_most_similar() -> None:
    a = [entry(digest="a", num_warps=4, BLOCK=64, num_stages=3)]
    b = [
        entry(digest="far", num_warps=8, BLOCK=128, num_stages=4),
        entry(digest="near", num_warps=4, BLOCK=64, num_stages=4),
    ]
    assert digests(a, b) == [("a", "near"), (None, "far")]


def test_another_target_is_a_change() -> None:
    assert digests([entry(digest="a", target="sm_80")], [entry(digest="b")]) == [("a", "b")]


def test_added_and_removed() -> None:
    a, b = [entry("f", "a"), entry("g", "g")], [entry("h", "h"), entry("f", "b")]
    assert digests(a, b) == [("a", "b"), ("g", None), (None, "h")]


def test_a_renamed_kernel_is_found_by_its_source() -> None:
    a, b = [entry("old", "a", b"text")], [entry("new", "b", b"text"), entry("x", "x", b"other")]
    assert digests(a, b) == [("a", "b"), (None, "x")]


def test_a_kernel_without_a_known_source_is_not_found_by_it() -> None:
    assert digests([entry("old", "a")], [entry("new", "b")]) == [("a", None), (None, "b")]


def test_generated_kernels_are_found_under_another_number() -> None:
    a, b = [entry("triton_poi_fused_add_0", "a")], [entry("triton_poi_fused_add_3", "b")]
    assert digests(a, b) == [("a", "b")]


def test_functions_of_cpp_with_other_parameters() -> None:
    a, b = [entry("_Z4gelufPf", "a")], [entry("_Z4geluPKfPfi", "b")]
    assert digests(a, b) == [("a", "b")]


ENTRIES = st.lists(
    st.builds(
        lambda name, digest, warps, source: replace(entry(name, digest, source, num_warps=warps)),
        st.sampled_from(("f", "g", "k_0", "k_1")),
        st.sampled_from("0123"),
        st.sampled_from((1, 2, 4)),
        st.sampled_from((None, b"1", b"2")),
    ),
    max_size=12,
)


@given(ENTRIES, ENTRIES)
def test_every_variant_is_in_one_pair(a: list[RecordedVariant], b: list[RecordedVariant]) -> None:
    pairs = pair(a, b)
    assert [p.a for p in pairs if p.a is not None] == a
    left = sorted(id(p.b) for p in pairs if p.b is not None)
    assert left == sorted(id(e) for e in b)
    assert not any(p.a is None and p.b is None for p in pairs)


@given(ENTRIES)
def test_a_recording_and_itself_are_all_pairs_of_equals(a: list[RecordedVariant]) -> None:
    for one in pair(a, a):
        assert one.a is not None and one.b is not None
        assert (one.a.kernel.name, one.a.variant.hash) == (one.b.kernel.name, one.b.variant.hash)
