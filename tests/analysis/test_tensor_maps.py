"""Tensor maps: as the program wrote its tensors, blocks and types, on the card and in sentences."""

import pytest
from msgspec.structs import replace

from inspector.analysis.sentences.context import context_of, with_tensor_maps
from inspector.analysis.sentences.ptx import PtxReader
from inspector.analysis.tensor_maps import TensorMap, tensor_maps
from inspector.base.model import Argument, Call, Kernel, Origin, Stage, Variant
from inspector.parsers import parse
from inspector.reader import tables
from inspector.recording.events import TritonCompile
from inspector.recording.variants import from_triton

ELEMENTS = tables.table("ptx_descriptors")["tensormap"]["elements"]

# What Triton 3.9 made for sm_90 of TensorDescriptor.from_tensor(b, [64, 128]) of f16 128×256, whose
# box is half of the block: 128 bytes are the most that a swizzle spans. And of f4 in u8.
SIGNATURE = {"b_desc": "tensordesc<fp16[64, 128]>", "K": "i32", "w": "tensordesc<u8[64, 64]>"}
METADATA = [
    {
        "swizzle": 3,
        "elem_size": 2,
        "elem_type": 6,
        "block_size": [64, 64],
        "fp4_padded": False,
        "is_im2col": False,
    },
    {"swizzle": 0, "elem_size": 1, "elem_type": 14, "block_size": [64, 128], "fp4_padded": True},
]
CALL = Call(
    kind="triton",
    name="f",
    arguments=(
        Argument(
            "b_desc", SIGNATURE["b_desc"], dtype="float16", shape=(128, 256), strides=(256, 1)
        ),
        Argument("K", "i32", 128),
        Argument("w", SIGNATURE["w"], dtype="uint8", shape=(512, 96), strides=(96, 1)),
    ),
)


def variant(*calls: Call, layouts: object = METADATA) -> Variant:
    event = TritonCompile(
        event="triton",
        name="f",
        hash="ab" * 16,
        metadata={"tensordesc_meta": layouts},
        signature=SIGNATURE,
    )
    compiled = from_triton(event, lambda _: None, {}, None)
    assert compiled is not None
    return replace(compiled.variant, calls=calls)


def test_a_tensor_map_is_what_the_program_and_triton_chose() -> None:
    halves, fours = tensor_maps(variant(CALL), ELEMENTS)
    assert halves == TensorMap("b_desc", "f16", (64, 64), 128, "none", (128, 256), (512, 2))
    assert fours == TensorMap("w", "b4x16_p64", (64, 128), 0, "none", (512, 192), (96, 1))
    assert halves.text() == "box 64×64 of 128×256 f16, strides of 512 and 2 bytes, 128-byte swizzle"


def test_calls_with_other_shapes_leave_the_box_alone() -> None:
    first, *others = CALL.arguments
    other = replace(CALL, arguments=(replace(first, shape=(64, 64), strides=(64, 1)), *others))
    assert (
        tensor_maps(variant(CALL, other), ELEMENTS)[0].text()
        == "box 64×64 of f16, 128-byte swizzle"
    )


@pytest.mark.parametrize(
    "layouts", [(), METADATA[:1], [{**METADATA[0], "swizzle": 9}, METADATA[1]]]
)
def test_metadata_that_does_not_fit_the_arguments_is_no_tensor_map(layouts: object) -> None:
    assert tensor_maps(variant(CALL, layouts=layouts), ELEMENTS) == ()


def test_a_copy_names_the_tensor_map_of_its_parameter() -> None:
    ptx = """.version 8.7
.target sm_90a
.visible .entry f(.param .align 64 .b8 f_param_0[128], .param .u32 f_param_1,
  .param .u32 f_param_2, .param .u64 f_param_3, .param .u64 f_param_4)
{
.reg .b32 %r<9>;
.reg .b64 %rd<9>;
mov.b32 %r1, f_param_0;
cvt.u64.u32 %rd1, %r1;
cvta.param.u64 %rd2, %rd1;
cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r2],
  [%rd2, {%r3, %r4}], [%r5];
ret;
}
"""
    listing = parse(Stage.PTX, ptx)
    signature = {"b_desc": SIGNATURE["b_desc"]}
    copied = replace(
        variant(CALL),
        symbol="f",
        signature=signature,
        descriptor_layouts=variant().descriptor_layouts[:1],
    )
    kernel = Kernel("f", "f", "f", Origin.TRITON, (copied,))
    context = context_of(kernel, copied, listing, listing.functions[0])
    described = with_tensor_maps(context, tensor_maps(copied, ELEMENTS))
    reader = PtxReader(
        listing, listing.functions[0], tables.isa(), tables.ptx_templates(), described
    )
    text = reader.sentence(11) or ""
    assert "the tensor map %rd2 (b_desc: box 64×64 of 128×256 f16, 128-byte swizzle) to" in text
