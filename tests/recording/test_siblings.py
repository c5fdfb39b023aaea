"""What tells kernels and variants of one name apart."""

from msgspec.structs import replace

from inspector.base.model import Kernel, Origin, Stage, StageFile, Variant
from inspector.parsers.ttgir_traits import distinguishing, dot_shapes, traits
from inspector.recording.layout import BytesContent
from inspector.recording.siblings import KernelNumbers, with_traits

TTGIR = """
module attributes {"ttg.num-warps" = 4 : i32} {
  tt.func public @mm(%a: !tt.ptr<f16> {tt.divisibility = 16 : i32} loc("a"(#loc)), \
%n: i32 loc("n"(#loc))) {
    %c1376_i32 = arith.constant 1376 : i32 loc(#loc1)
    %acc = tt.dot %0, %1, %2 : tensor<64x32xf16, #a> * tensor<32x128xf16, #b> \
-> tensor<64x128xf32, #mma> loc(#loc2)
    tt.store %p, %acc : tensor<64x128x!tt.ptr<f16>, #blocked> loc(#loc3)
    tt.return loc(#loc)
  } loc(#loc)
}
"""


def test_traits_are_blocks_types_divisors_sizes_and_operations() -> None:
    assert dot_shapes(TTGIR) == ["64·128·32"]
    texts = traits(TTGIR)
    assert texts["dot"] == "dot 64·128·32"
    assert texts["block"] == "[64×128]"
    assert texts["type a"] == "a:*fp16"
    assert texts["divisibility a"] == "a:16"
    assert texts["divisibility n"] == ""
    assert texts["sizes"] == "sizes 1376"
    assert texts["operation tt.store"] == "store×1"


def test_arguments_have_the_names_of_their_locations() -> None:
    older = TTGIR.replace("%a:", "%arg0:").replace("%n:", "%arg1:")
    assert traits(older)["type n"] == "n:i32"


def test_the_fewest_traits_that_tell_rows_apart_are_chosen() -> None:
    rows = [
        {"type a": "a:*fp16", "type b": "b:*fp16", "operation tt.load": "load×1"},
        {"type a": "a:*fp32", "type b": "b:*fp32", "operation tt.load": "load×2"},
    ]
    assert distinguishing(rows, ["w4", "w4"]) == ["type a"]
    assert distinguishing(rows, ["w4", "w8"]) == []


def variant(ident: str, ttgir: str) -> Variant:
    stages = {Stage.TTGIR: StageFile(BytesContent(ttgir.encode()))}
    return Variant(ident, ident * 8, "mm", config={"num_warps": 4}, stages=stages)


def test_variants_of_equal_settings_have_the_traits_in_which_they_differ() -> None:
    wide = variant("84d20b7e", TTGIR.replace("f16", "bf16"))
    kernel = Kernel("mm", "mm", "mm", Origin.TRITON, (variant("3f2a91c0", TTGIR), wide))
    key = ("triton", "mm", "")
    described = with_traits({key: kernel})[key]
    assert [dict(v.traits) for v in described.variants] == [
        {"type a": "a:*fp16"},
        {"type a": "a:*bf16"},
    ]
    other = replace(wide, config={"num_warps": 8})
    apart = with_traits({key: replace(kernel, variants=(kernel.variants[0], other))})[key]
    assert [dict(v.traits) for v in apart.variants] == [{}, {}]


def test_a_number_is_one_kernel_of_the_recording() -> None:
    names = ("fused_add_0", "fused_mul_1", "fused_add_0", "fused_sum_1", "fused_sum_7", "triton_mm")
    numbers = KernelNumbers()
    kernel_numbers = [numbers.number_of(Origin.INDUCTOR, name) for name in names]
    assert kernel_numbers == [0, 1, 2, 3, 7, None]
    assert numbers.number_of(Origin.TRITON, "block_5") is None
