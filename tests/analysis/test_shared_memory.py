"""Allocations of shared and tensor memory: as Triton's own passes place them, and as nvcc does."""

import re
from pathlib import Path

from inspector.analysis.shared_memory import Allocation, allocations, largest, with_places
from inspector.base.model import LOAD, Failure, Kernel, Origin, Recording, Stage, StageFile, Variant
from inspector.parsers import parse
from inspector.reader.reader import Reader
from inspector.recording.layout import BytesContent, DerivedCache

# Triton 3.9 for sm_100, after AllocateSharedMemoryNv and TritonTensorMemoryAllocationPass, of
# tl.dot_scaled of 128×256 by 256×256 e2m1; the operations between are left out.
PLACED = """#blocked3 = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 8}>
#shared1 = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 8}>
#shared2 = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
#tmem = #ttng.tensor_memory_encoding<blockM = 128, blockN = 256, colStride = 1>
#tmem_scales = #ttng.tensor_memory_scales_encoding<>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.shared = 99328 : i32, ttg.tensor_memory_size = 512 : i32} {
  tt.func public @scaled(%a_ptr: !tt.ptr<i8>) attributes {noinline = false} {
    %acc = ttng.tmem_alloc {tensor_memory_col_offset = 0 : i32, tensor_memory_row_offset = 0 : i32} : () -> !ttg.memdesc<128x256xf32, #tmem, #ttng.tensor_memory, mutable> loc(#loc44)
    %a_43 = ttg.local_alloc {allocation.offset = 65536 : i32} : () -> !ttg.memdesc<2x128x128xi8, #shared, #smem, mutable> loc(#loc45)
    %b_44 = ttg.local_alloc {allocation.offset = 0 : i32} : () -> !ttg.memdesc<2x128x256xi8, #shared1, #smem, mutable> loc(#loc46)
    %acc_88 = ttg.convert_layout %sa_84 {allocation.offset = 98304 : i32, allocation.size = 1024 : i32} : tensor<128x8xi8, #blocked3> -> tensor<128x8xi8, #linear1> loc(#loc44)
    %acc_90 = ttng.tmem_alloc %acc_88 {tensor_memory_col_offset = 256 : i32, tensor_memory_row_offset = 0 : i32} : (tensor<128x8xi8, #linear1>) -> !ttg.memdesc<128x8xi8, #tmem_scales, #ttng.tensor_memory> loc(#loc44)
    %acc_91 = ttng.tmem_alloc %acc_89 {tensor_memory_col_offset = 264 : i32, tensor_memory_row_offset = 0 : i32} : (tensor<256x8xi8, #linear2>) -> !ttg.memdesc<256x8xi8, #tmem_scales, #ttng.tensor_memory> loc(#loc44)
    %acc_92 = ttg.local_alloc {allocation.offset = 98304 : i32} : () -> !ttg.memdesc<1xi64, #shared2, #smem, mutable> loc(#loc44)
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc = loc("scaled.py":3:0)
#loc44 = loc("scaled.py":12:15)
#loc45 = loc("scaled.py":8:12)
#loc46 = loc("scaled.py":9:12)
"""  # noqa: E501


def of_ttgir(text: str) -> tuple[Allocation, ...]:
    listing = parse(Stage.TTGIR, text)
    return allocations({Stage.TTGIR: (listing, listing.functions[0])})


def test_sizes_fill_the_places_that_triton_chose() -> None:
    placed = of_ttgir(PLACED)
    ends = {a.name: (a.offset or 0) + (a.bytes or 0) for a in placed if a.memory == "shared"}
    assert ends["%b_44"] == 65536  # where %a_43 begins
    assert ends["%a_43"] == 98304  # where the others begin
    assert max(ends.values()) == 99328  # ttg.shared
    columns = {a.name: (a.offset or 0) + (a.columns or 0) for a in placed if a.memory == "tensor"}
    assert columns == {"%acc": 256, "%acc_90": 264, "%acc_91": 280}
    assert placed[0].text() == "65,536 bytes at byte 0: 2×128×256 i8, scaled.py:9"


def test_sizes_are_known_before_the_places_are() -> None:
    text = PLACED.replace("allocation.offset = 65536 : i32", "").replace("nvmma_shared", "other")
    allocation = next(a for a in of_ttgir(text) if a.name == "%a_43")
    assert (allocation.bytes, allocation.offset) == (32768, None)


def test_a_matrix_of_half_the_lanes_takes_its_columns() -> None:
    """Gluon's only one of a kernel, for which Triton 3.9 allocates 128 columns."""
    text = PLACED.replace("128x256xf32, #tmem,", "64x128xf32, #tmem,")
    text = text.replace("blockM = 128, blockN = 256", "blockM = 64, blockN = 128")
    assert next(a for a in of_ttgir(text) if a.name == "%acc").columns == 128


def test_a_later_text_of_the_same_tensors_gives_the_places() -> None:
    """As ``ptxview passes`` keeps it; names are counted again where operations were added."""
    earlier = re.sub(r"\w+[._](?:offset|size) = \d+ : i32,? ?", "", PLACED)
    earlier = earlier.replace("%acc_9", "%acc_7")
    found = of_ttgir(earlier)
    assert {allocation.offset for allocation in found} == {None}
    placed = {a.name: a.offset for a in with_places(found, PLACED)}
    assert placed["%a_43"] == 65536
    assert placed["%acc_71"] == 264
    others = PLACED.replace("memdesc<2x128x128xi8", "memdesc<3x128x128xi8")
    assert with_places(found, others) == found


def test_what_a_type_does_not_tell_is_unknown() -> None:
    padded = PLACED.replace(
        "#shared = #ttg.nvmma_shared<{", "#shared = #ttg.padded_shared<[128:+4] {"
    )
    assert next(a for a in of_ttgir(padded) if a.name == "%a_43").bytes is None
    cluster = PLACED.replace('"ttg.num-ctas" = 1', '"ttg.num-ctas" = 2')
    assert next(a for a in of_ttgir(cluster) if a.name == "%a_43").bytes is None
    fours = PLACED.replace("elementBitWidth = 8}", "elementBitWidth = 8, fp4Padded = true}", 1)
    assert next(a for a in of_ttgir(fours) if a.name == "%a_43").bytes == 65536


def test_variables_of_cuda_are_those_that_the_kernel_uses() -> None:
    """As nvcc writes ``__shared__ float tile[32][33]`` and ``extern __shared__ char dyn[]``."""
    ptx = """.version 9.0
.target sm_90a
.extern .shared .align 16 .b8 dyn[];
.extern .shared .align 16 .b8 other[];
.visible .entry f()
{
.reg .b32 %r<3>;
// demoted variable
	.shared .align 4 .b8 _ZZ2smPfiE4tile[4224];
	mov.u32 %r1, dyn;
	ret;
}
"""
    listing = parse(Stage.PTX, ptx)
    found = allocations({Stage.PTX: (listing, listing.functions[0])})
    assert [(a.name, a.bytes, a.dynamic) for a in found] == [
        ("tile", 4224, False),
        ("dyn", None, True),
    ]
    assert largest(found, "shared") == (
        "tile 4,224 bytes: static, aligned to 4; "
        "dyn as many bytes as the launch asks for: dynamic, aligned to 16"
    )


def test_a_kernel_that_needs_too_much_is_told_what_takes_it() -> None:
    message = "out of resource: shared memory, Required: 294960, Hardware limit: 232448."
    stages = {Stage.TTGIR: StageFile(BytesContent(PLACED.encode()))}
    refused = Variant("ab" * 4, "ab" * 32, "scaled", stages=stages, error=Failure(message, LOAD))
    kernel = Kernel("scaled", "scaled", "scaled", Origin.TRITON, (refused,))
    reader = Reader(Recording("/r", (kernel,)), DerivedCache(Path("/dev/null/none")))
    finding = next(f for f in reader.facts.findings(refused) if f.rule == "not-loaded")
    assert finding.text.startswith(
        f"{message} The largest are %b_44 65,536 bytes at byte 0: 2×128×256 i8, scaled.py:9; %a_43 "
    )
