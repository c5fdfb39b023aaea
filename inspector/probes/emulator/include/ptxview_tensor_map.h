// The 128 bytes of a tensor map as the driver encodes them for sm_90; inspector/parsers/tensor_map.py says
// where each field is, and reads them.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <cstring>

namespace ptxview_cuda {

struct Bits {
  unsigned char* bytes;
  void put(unsigned first, unsigned width, uint64_t value) {
    for (unsigned n = 0; n < width; n++)
      if (value >> n & 1) bytes[(first + n) / 8] |= 1u << (first + n) % 8;
  }
};

// Of a CUtensorMapDataType: its number in the map, and its bytes.
struct Element {
  unsigned number, bytes;
};
constexpr Element kElements[] = {{0, 1}, {1, 2}, {2, 4}, {3, 4},  {4, 8}, {5, 8}, {6, 2},
                                 {7, 4}, {9, 8}, {10, 2}, {8, 4}, {7, 4}, {8, 4}};
constexpr uint64_t kSharedBytes = 232448;  // the most of a block, which a box must fit into
constexpr unsigned kSharedAlignment[] = {16, 256, 512, 1024};

inline CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                             const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                             const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                             CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  const auto base = reinterpret_cast<uint64_t>(address);
  const bool known = unsigned(type) < sizeof kElements / sizeof *kElements && interleave == 0 && unsigned(swizzle) < 4;
  if (!map || reinterpret_cast<uint64_t>(map) % 64 || !known || rank < 1 || rank > 5 || !dims || !box || !steps ||
      (rank > 1 && !strides) || base % 16)
    return CUDA_ERROR_INVALID_VALUE;
  const Element element = kElements[type];
  const uint64_t row = uint64_t(box[0]) * element.bytes;
  if (row % 16 || (swizzle && row > 16u << swizzle) || (fill && type < CU_TENSOR_MAP_DATA_TYPE_FLOAT16))
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t moved = element.bytes;
  for (unsigned d = 0; d < rank; d++) {
    const bool fits = dims[d] && dims[d] <= uint64_t(1) << 32 && box[d] && box[d] <= 256 && steps[d] && steps[d] <= 8;
    if (!fits || (d && (strides[d - 1] % 16 || strides[d - 1] >> 40))) return CUDA_ERROR_INVALID_VALUE;
    moved *= box[d] / steps[d];
  }
  if (moved > kSharedBytes) return CUDA_ERROR_INVALID_VALUE;
  std::memset(map, 0, sizeof *map);
  Bits bits{reinterpret_cast<unsigned char*>(map)};
  bits.put(0, 64, base);
  bits.put(68, 3, rank - 1);
  bits.put(71, 4, element.number);
  bits.put(77, 2, swizzle);
  bits.put(79, 1, fill);
  bits.put(80, 1, type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 || type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ);
  bits.put(81, 2, promotion);
  for (unsigned d = 0; d < rank; d++) {
    if (d) bits.put(96 + 32 * (d - 1), 32, strides[d - 1] / 16), bits.put(224 + 4 * (d - 1), 4, strides[d - 1] >> 36);
    bits.put(256 + 32 * d, 32, dims[d] - 1);
    bits.put(416 + 3 * d, 3, steps[d] - 1);
    bits.put(440 + 8 * d, 8, box[d] - 1);
  }
  bits.put(512, 32, moved);
  bits.put(576, 32, kSharedAlignment[swizzle]);
  return CUDA_SUCCESS;
}

}  // namespace ptxview_cuda
