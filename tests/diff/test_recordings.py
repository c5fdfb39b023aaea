"""Pairing the kernels of two recordings: by what they share, each at most once."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

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
    return [(x.variant.hash if x else None, y.variant.hash if y else None) for x, y in pair(a, b)]


FP32, FP16 = {"x": "*fp32"}, {"x": "*fp16"}
FAR = entry(digest="far", num_warps=8, BLOCK=128, num_stages=4)
NEAR = entry(digest="near", num_warps=4, BLOCK=64, num_stages=4)
CASES = {
    "the same compilation goes before the same configuration": (
        [entry(digest="1", num_warps=4), entry(digest="2", num_warps=4)],
        [entry(digest="2", num_warps=4), entry(digest="1", num_warps=4)],
        [("1", "1"), ("2", "2")],
    ),
    "configurations match in any order": (
        [entry(digest=f"{n}", num_warps=n) for n in (1, 2, 4)],
        [entry(digest=f"b{n}", num_warps=n) for n in (4, 1, 2)],
        [("1", "b1"), ("2", "b2"), ("4", "b4")],
    ),
    "signatures tell specialisations apart": (
        [entry(digest="a32", signature=FP32), entry(digest="a16", signature=FP16)],
        [entry(digest="b16", signature=FP16), entry(digest="b32", signature=FP32)],
        [("a32", "b32"), ("a16", "b16")],
    ),
    "remaining variants pair with the most similar": (
        [entry(digest="a", num_warps=4, BLOCK=64, num_stages=3)], [FAR, NEAR],
        [("a", "near"), (None, "far")],
    ),
    "added and removed": (
        [entry("f", "a"), entry("g", "g")], [entry("h", "h"), entry("f", "b")],
        [("a", "b"), ("g", None), (None, "h")],
    ),
    "a renamed kernel is found by its source": (
        [entry("old", "a", b"text")], [entry("new", "b", b"text"), entry("x", "x", b"other")],
        [("a", "b"), (None, "x")],
    ),
    "an unknown source finds nothing": (
        [entry("old", "a")], [entry("new", "b")], [("a", None), (None, "b")],
    ),
    "generated kernels are found under another number": (
        [entry("triton_poi_fused_add_0", "a")], [entry("triton_poi_fused_add_3", "b")],
        [("a", "b")],
    ),
    "functions of C++ with other parameters": (
        [entry("_Z4gelufPf", "a")], [entry("_Z4geluPKfPfi", "b")], [("a", "b")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("a", "b", "expected"), CASES.values(), ids=CASES)
def test_variants_of_two_recordings_pair_by_kernel_and_settings(
    a: list[RecordedVariant],
    b: list[RecordedVariant],
    expected: list[tuple[str | None, str | None]],
) -> None:
    assert digests(a, b) == expected


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
    assert [x for x, _ in pairs if x is not None] == a
    left = sorted(id(y) for _, y in pairs if y is not None)
    assert left == sorted(id(e) for e in b)
    assert (None, None) not in pairs
