"""Names beside each other: what tells them apart is what is seen, at every width."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from inspector.base.model import (
    Argument,
    Call,
    Content,
    Fusion,
    Kernel,
    MadeFrom,
    Origin,
    Recording,
    Variant,
)
from inspector.recording.layout import BytesContent
from inspector.recording.origins import Origins
from inspector.render.kernel_names import distinct_names, titles
from inspector.render.labels import labels, settings_in, shorten_settings
from inspector.render.tables import title, user_line


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


FAMILIES = {
    ("_rms_norm_forward_kernel", "_rms_norm_backward_kernel"): ("forward", "backward"),
    (
        "nvjet_sm90_tst_64x128_64x8_2x1_v_bz_NTN",
        "nvjet_sm90_tst_128x64_64x8_2x1_v_bz_NTN",
    ): ("64x128", "128x64"),
    ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize256x64x8_stage3_warpsize2x2x1_ffma",): (
        "256x64x8",
    ),
}


@pytest.mark.parametrize("names", FAMILIES)
@pytest.mark.parametrize("width", [20, 24])
def test_names_that_begin_and_end_alike_show_the_part_that_differs(
    names: tuple[str, ...], width: int
) -> None:
    short = distinct_names(names, width)
    shown_parts = [part for part in FAMILIES[names] if any(part in short[name] for name in names)]
    assert shown_parts == list(FAMILIES[names])
    assert max(map(cell_len, short.values())) <= width


def extern(demangled: str) -> Kernel:
    return Kernel(demangled, demangled, demangled, Origin.EXTERN, ())


def test_instances_of_one_template_are_named_by_the_arguments_that_differ() -> None:
    functor = "at::native::(anonymous namespace)::"
    instances = [
        f"void at::apply_kernel<{functor}Lists<1>, {functor}Scalar<float>, {operation}, float>(int)"
        for operation in ("std::multiplies<float>", "std::plus<float>")
    ]
    fills = [
        f"void at::fill_kernel<{size}, at::native::FillFunctor<{kind}> >(int)"
        for size, kind in ((4, "float"), (4, "int"), (2, "long"))
    ]
    kernels = tuple(map(extern, (*instances, *fills)))
    names = titles(Recording(path="x", kernels=kernels))
    assert [names[kernel.id] for kernel in kernels] == [
        "apply_kernel<multiplies>",
        "apply_kernel<plus>",
        "fill_kernel<FillFunctor<float>>",
        "fill_kernel<FillFunctor<int>>",
        "fill_kernel<FillFunctor<long>>",
    ]


def test_a_product_is_titled_by_its_three_sizes() -> None:
    shapes = {"arg_A": (4, 128, 1376), "arg_B": (512, 1376), "out_ptr0": (512, 512)}
    arguments = tuple(
        Argument(name, "*bf16", dtype="bfloat16", shape=shape) for name, shape in shapes.items()
    )
    variant = one("3f2a91c0", calls=(Call("triton", "k", arguments=arguments),))
    name = "triton_tem_fused_mm_14"
    kernel = Kernel(
        name, name, name, Origin.INDUCTOR, (variant,), fusion=Fusion(("aten.mm",)), number=14
    )
    assert title(kernel).startswith("#14 mm 512×512×1376 bf16")
    fused = replace(variant, calls=(Call("triton", "k", arguments=arguments[1:]),))
    assert title(replace(kernel, variants=(fused,))).startswith("#14 mm 512×512 bf16")


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


def test_settings_of_siblings_differ_in_every_width() -> None:
    plain = one("a4fe74f3", config={"BLOCK_SIZE": 1024, "num_warps": 4})
    taken = replace(plain, id="780c582c", specialization={"n_cols": [["tt.divisibility", 16]]})
    wide = replace(plain, id="812d5e0d", config={"BLOCK_SIZE": 2048, "num_warps": 8})
    siblings = [plain, taken, wide]
    assert settings_in(40, siblings, ["BLOCK_SIZE"]) == [
        "w4 BLOCK_SIZE=1024",
        "w4 BLOCK_SIZE=1024 n_cols:16",
        "w8 BLOCK_SIZE=2048",
    ]
    assert settings_in(26, siblings, [])[1:] == ["BLOCK_SIZE=1024 n_cols:16", "BLOCK_SIZE=2048"]
    assert settings_in(20, siblings, [])[1:] == ["1024 n_cols:16", "2048"]
    assert settings_in(40, [plain, wide], []) == ["w4 BLOCK_SIZE=1024", "w8 BLOCK_SIZE=2048"]


def test_a_value_stays_where_the_name_of_its_setting_is_cut() -> None:
    configs = ({"BACKWARD_PASS": False}, {"BACKWARD_PASS": True})
    both = [
        one(ident, config=c) for ident, c in zip(("92fa0000", "faf70000"), configs, strict=True)
    ]
    assert settings_in(14, both, []) == ["BACKWAR…=False", "BACKWARD…=True"]
    assert shorten_settings("BACKWARD_PASS=False", 11) == "BACK…=False"


def test_an_id_tells_variants_apart_that_nothing_else_does() -> None:
    config = {"BLOCK": 64, "num_warps": 4}
    twins = [one("3f2a91c0", config=config), one("84d20b7e", config=config)]
    other = one("11112222", config={"BLOCK": 128, "num_warps": 4})
    assert settings_in(30, [*twins, other], []) == [
        "w4 BLOCK=64 3f2a",
        "w4 BLOCK=64 84d2",
        "w4 BLOCK=128",
    ]
