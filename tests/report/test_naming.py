"""Names beside each other: what tells them apart is what is seen, at every width."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from inspector.base.model import Variant
from inspector.report.tables import apart, labels


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


def one(ident: str, **more: object) -> Variant:
    """A variant of which only this is known."""
    return replace(Variant(ident, ident * 8, "k"), **more)


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
