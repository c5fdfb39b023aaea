"""Names beside each other: what tells them apart is what is seen, at every width."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from inspector.base.model import Variant
from inspector.report.naming import apart, labels
from inspector.tui.tree.rows import TreeKind, fitness, rows, whole_tree
from tests.helpers.sample import recording

FUSED = (
    "triton_per_fused__to_copy_add_mul_sum_3",
    "triton_per_fused__to_copy_add_mul_sum_13",
    "triton_per_fused__to_copy_add_mul_view_17",
    "triton_poi_fused_add_0",
)


@pytest.mark.parametrize("width", [12, 20, 28, 36])
def test_generated_names_keep_their_number(width: int) -> None:
    short = apart(FUSED, width)
    assert [text.rpartition("_")[2] for text in short.values()][:3] == ["3", "13", "17"]
    assert all(text.startswith("tri") for text in short.values())


@settings(deadline=None)
@given(
    st.lists(st.text("ab_", min_size=1, max_size=40), min_size=2, max_size=12, unique=True),
    st.integers(8, 30),
)
def test_no_two_names_look_the_same_and_none_is_too_wide(names: list[str], width: int) -> None:
    short = apart(names, width)
    assert len(set(short.values())) == len(names)
    assert all(cell_len(text) <= width for text in short.values())
    assert all(short[name] == name for name in names if len(name) <= width)


@pytest.mark.parametrize("width", range(6, 16))
def test_generated_names_end_and_written_ones_begin_as_they_are(width: int) -> None:
    name = "triton_per_fused__softmax_add_amax_neg_where_0"
    short = apart((name, "matmul_kernel"), width)
    head, tail = short[name].split("…")
    assert head and name.startswith(head)
    assert name.endswith(f"_{tail}")
    assert tail.endswith("where_0") == (width >= 10)
    assert cell_len(short[name]) <= width
    assert short["matmul_kernel"].startswith("matm"[: width - 1])


def one(ident: str, **more: object) -> Variant:
    """A variant of which only this is known."""
    return replace(Variant(ident, ident * 8, "k"), **more)  # type: ignore[arg-type]


def test_labels_have_differing_settings_only() -> None:
    configs = ({"BLOCK_M": 64, "num_stages": 3}, {"BLOCK_M": 128, "num_stages": 4})
    shared = {"BLOCK_N": 32, "num_warps": 4}
    idents = ("3f2a91c0", "3f2b07e1")
    both = labels([one(i, config={**c, **shared}) for i, c in zip(idents, configs, strict=True)])
    assert [str(told) for told in both] == ["BLOCK_M=64 s3 3f2a", "BLOCK_M=128 s4 3f2b"]
    assert [told.short for told in both] == ["64 s3 3f2a", "128 s4 3f2b"]


def test_what_was_taken_for_granted_tells_variants_of_one_configuration_apart() -> None:
    plain = one("a4fe74f3", signature={"x": "*fp32", "n": "i32"})
    taken = replace(plain, id="780c582c", specialization={"n": [["tt.divisibility", 16]]})
    half = replace(taken, id="11112222", signature={"x": "*fp16", "n": "i32"})
    assert [str(told) for told in labels([plain, taken])] == ["a4fe", "n:16 780c"]
    assert [told.told for told in labels([taken, half])] == ["x:*fp32", "x:*fp16"]


def test_ids_that_begin_alike_get_as_many_digits_as_it_takes() -> None:
    told = labels([one("3f2a91c0"), one("3f2a97c0"), one("84d20b7e")])
    assert [one.ident for one in told] == ["3f2a91", "3f2a97", "84d20b"]


def test_kernels_of_one_name_are_one_row_and_the_winner_is_its_own() -> None:
    of = recording()
    gelu = of.kernels[2]
    named = []
    for n in range(5):
        tuned = {"winner": n == 3}
        own = replace(gelu.variants[0], id=f"{n}{n}aa11bb", config={"BLOCK": n}, autotune=tuned)
        named.append(replace(gelu, id=f"gelu@{n}", variants=(own,)))
    tree = whole_tree(replace(of, kernels=tuple(named), graphs=()))
    folded = rows(tree, "", {})
    assert [(row.text, row.count) for row in folded[1:]] == [("gelu_kernel", 5)]
    assert folded[1].subject.kernel is named[3]
    every = rows(tree, "", None)[2:]
    assert [row.text for row in every] == [f"BLOCK={n} {n}{n}aa" for n in range(5)]
    assert [row.winner for row in every] == [n == 3 for n in range(5)]
    assert [row.subject.kernel for row in every] == named


def test_a_filter_goes_to_the_row_that_is_what_was_typed() -> None:
    of = recording()
    fused = of.kernels[1]
    kernels = []
    for n in (1123, 123, 23, 4230):
        own = replace(fused.variants[0], id=f"{n:08x}", hash=f"{n:08x}" * 8)
        kernels.append(replace(fused, id=f"k{n}", name=f"triton_mul_{n}", variants=(own,)))
    found = rows(whole_tree(replace(of, kernels=tuple(kernels), graphs=())), "23", {})
    best = max((r for r in found if r.kind is TreeKind.KERNEL), key=lambda r: fitness(r, "23"))
    assert best.text == "triton_mul_23"
