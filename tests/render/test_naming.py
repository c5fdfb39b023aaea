"""Names beside each other: what tells them apart is what is seen, at every width."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from inspector.base.model import Content, Fusion, Kernel, MadeFrom, Origin, Variant
from inspector.recording.layout import BytesContent
from inspector.recording.origins import Origins
from inspector.render.tables import distinct_names, labels, title, user_line


@settings(deadline=None)
@given(
    st.lists(st.text("ab_", min_size=1, max_size=40), min_size=2, max_size=12, unique=True),
    st.integers(8, 30),
)
def test_no_two_names_look_the_same_and_none_is_too_wide(names: list[str], width: int) -> None:
    short = distinct_names(names, width)
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
    assert [told.settings for told in labels([taken, half])] == ["x:*fp32", "x:*fp16"]


def test_ids_that_begin_alike_get_as_many_digits_as_it_takes() -> None:
    told = labels([one("3f2a91c0"), one("3f2a97c0"), one("84d20b7e")])
    assert [one.ident for one in told] == ["3f2a91", "3f2a97", "84d20b"]


MODEL = (
    MadeFrom(
        "/m/activations.py", 103, "h * sigmoid(h)", ("aten.sigmoid.default", "aten.mul.Tensor")
    ),
    MadeFrom("/m/mlp.py", 40, "self.down_proj(y)", ("aten.mm.default",)),
    MadeFrom("/m/norm.py", 9, "x + residual", ("aten.add.Tensor", "aten.relu.default")),
)


@pytest.mark.parametrize(
    ("name", "targets", "place"),
    [
        ("triton_tem_fused_mm_mul_sigmoid_1", ("aten.mm.default",), "mlp.py:40"),
        ("triton_tem_fused_addmm_mul_sigmoid_1", ("aten.addmm.default",), "mlp.py:40"),
        ("triton_tem_fused_convolution_1", ("aten.convolution.default",), "mlp.py:40"),
        ("triton_tem_fused_flex_attention_1", ("higher_order.flex_attention",), "mlp.py:40"),
        ("triton_tem_fused__scaled_mm_1", ("aten._scaled_mm.default",), "mlp.py:40"),
        ("triton_poi_fused_add_mul_relu_1", ("aten.tanh.default",), "norm.py:9"),
    ],
)
def test_the_line_of_a_template_is_that_of_its_product(
    name: str, targets: tuple[str, ...], place: str
) -> None:
    made = (MODEL[0], replace(MODEL[1], targets=targets), MODEL[2])
    fusion = Fusion(("aten.mul",), made)
    kernel = Kernel(name, name, name, Origin.INDUCTOR, (one("3f2a91c0"),), fusion=fusion)
    assert user_line(kernel) == place
    assert place in title(kernel)
    files: dict[str, Content] = {line.file: BytesContent(b"") for line in made}
    source = Origins(lambda blob: None, files=files).source(fusion)
    assert source is not None
    expected = "/m/mlp.py" if place == "mlp.py:40" else "/m/activations.py"
    assert source.origin_path == expected
