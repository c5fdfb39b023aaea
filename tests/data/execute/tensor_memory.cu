// Kernels of one tcgen05 instruction each. Shared memory is an image that the host lays out, tensor
// memory begins and ends as 128 lanes of 128 words: the host knows the layouts, these kernels do not.
// nvcc -arch=sm_100a -ptx tensor_memory.cu
#include <cstdint>

constexpr int kImageBytes = 40960;
constexpr int kColumns = 128;

__device__ inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// What a product is told: descriptors of A and B from the image's start on, the instruction's, whether
// it adds to D, the lanes of D that it leaves out, addresses of A and of scales in tensor memory.
struct Operands {
  uint64_t a, b;
  uint32_t instruction, adds;
  uint32_t disabled[8];
  uint32_t tensor_a, scales_a, scales_b;
};

struct Block {
  uint32_t tensor, image, barrier;
};

__device__ inline void wait(uint32_t barrier) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n@!done bra again;\n}" ::"r"(
          barrier)
      : "memory");
}

__device__ inline void sync_cluster() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

template <int kBlocks>
__device__ __noinline__ Block begin(const uint32_t* image, const uint32_t* tensor) {
  __shared__ alignas(1024) uint32_t words[kImageBytes / 4];
  __shared__ uint64_t barrier;
  __shared__ uint32_t place;
#pragma unroll 1
  for (int i = threadIdx.x; i < kImageBytes / 4; i += blockDim.x) words[i] = image[blockIdx.x * (kImageBytes / 4) + i];
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (threadIdx.x < 32) {
    if (kBlocks == 1)
      asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 128;" ::"r"(shared_address(&place))
                   : "memory");
    else
      asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 128;" ::"r"(shared_address(&place))
                   : "memory");
  }
  __syncthreads();
  const uint32_t own = place + ((threadIdx.x / 32 * 32) << 16);
  const uint32_t* row = tensor + (blockIdx.x * 128 + threadIdx.x) * kColumns;
#pragma unroll 1
  for (int column = 0; column < kColumns; column += 8)
    asm volatile("tcgen05.st.sync.aligned.32x32b.x8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"r"(own + column),
                 "r"(row[column]), "r"(row[column + 1]), "r"(row[column + 2]), "r"(row[column + 3]),
                 "r"(row[column + 4]), "r"(row[column + 5]), "r"(row[column + 6]), "r"(row[column + 7])
                 : "memory");
  asm volatile("tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  if (kBlocks > 1) sync_cluster();
  __syncthreads();
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
  return {place, shared_address(words), shared_address(&barrier)};
}

template <int kBlocks>
__device__ inline void commit(const Block& block) {
  if (kBlocks == 1)
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(block.barrier)
                 : "memory");
  else
    asm volatile(
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(
            block.barrier),
        "h"(static_cast<uint16_t>(3))
        : "memory");
}

template <int kBlocks>
__device__ __noinline__ void end(const Block& block, uint32_t* out) {
  wait(block.barrier);
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
  const uint32_t own = block.tensor + ((threadIdx.x / 32 * 32) << 16);
  uint32_t* row = out + (blockIdx.x * 128 + threadIdx.x) * kColumns;
#pragma unroll 1
  for (int column = 0; column < kColumns; column += 8)
    asm volatile(
        "tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];\ntcgen05.wait::ld.sync.aligned;"
        : "=r"(row[column]), "=r"(row[column + 1]), "=r"(row[column + 2]), "=r"(row[column + 3]),
          "=r"(row[column + 4]), "=r"(row[column + 5]), "=r"(row[column + 6]), "=r"(row[column + 7])
        : "r"(own + column)
        : "memory");
  if (kBlocks > 1) sync_cluster();
  __syncthreads();
  if (threadIdx.x < 32) {
    if (kBlocks == 1)
      asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 128;" ::"r"(block.tensor));
    else
      asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 128;" ::"r"(block.tensor));
  }
}

#define PRODUCT(name, blocks, text, ...)                                                                       \
  extern "C" __global__ void name(const uint32_t* image, const uint32_t* tensor, uint32_t* out,                \
                                  const Operands* operands) {                                                  \
    const Block block = begin<blocks>(image, tensor);                                                          \
    const Operands o = *operands;                                                                              \
    const uint64_t start = block.image >> 4;                                                                   \
    if (threadIdx.x == 0 && blockIdx.x == 0) {                                                                 \
      asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %4, 0;\n" text "\n}" ::"r"(block.tensor),           \
                   "l"(o.a + start), "l"(o.b + start), "r"(o.instruction), "r"(o.adds), ##__VA_ARGS__          \
                   : "memory");                                                                                \
      commit<blocks>(block);                                                                                   \
    }                                                                                                          \
    end<blocks>(block, out);                                                                                   \
  }
#define DISABLED4 "r"(o.disabled[0]), "r"(o.disabled[1]), "r"(o.disabled[2]), "r"(o.disabled[3])
#define DISABLED8 DISABLED4, "r"(o.disabled[4]), "r"(o.disabled[5]), "r"(o.disabled[6]), "r"(o.disabled[7])

PRODUCT(f16, 1, "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, adds;")
PRODUCT(f16_scaled_d, 1, "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, adds, 3;")
PRODUCT(f16_disabled, 1, "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, {%5, %6, %7, %8}, adds;", DISABLED4)
PRODUCT(f16_of_tensor, 1, "tcgen05.mma.cta_group::1.kind::f16 [%0], [%5], %2, %3, adds;",
        "r"(block.tensor + o.tensor_a))
PRODUCT(f16_stationary, 1, "tcgen05.mma.ws.cta_group::1.kind::f16 [%0], %1, %2, %3, adds;")
PRODUCT(tf32, 1, "tcgen05.mma.cta_group::1.kind::tf32 [%0], %1, %2, %3, adds;")
PRODUCT(i8, 1, "tcgen05.mma.cta_group::1.kind::i8 [%0], %1, %2, %3, adds;")
PRODUCT(i8_stationary, 1, "tcgen05.mma.ws.cta_group::1.kind::i8 [%0], %1, %2, %3, adds;")
PRODUCT(f8f6f4, 1, "tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, adds;")
PRODUCT(f16_pair, 2,
        "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, {%5, %6, %7, %8, %9, %10, %11, %12}, adds;", DISABLED8)
PRODUCT(f8_of_tensor, 1, "tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], [%5], %2, %3, adds;",
        "r"(block.tensor + o.tensor_a))
PRODUCT(mxf8_pair, 2,
        "tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale.block32 [%0], %1, %2, %3, [%5], [%6], adds;",
        "r"(block.tensor + o.scales_a), "r"(block.tensor + o.scales_b))

#define COPY(name, shape)                                                                                      \
  extern "C" __global__ void name(const uint32_t* image, const uint32_t* tensor, uint32_t* out,                \
                                  const Operands* operands) {                                                  \
    const Block block = begin<1>(image, tensor);                                                               \
    if (threadIdx.x == 0) {                                                                                    \
      asm volatile("tcgen05.cp.cta_group::1." shape " [%0], %1;" ::"r"(block.tensor + operands->tensor_a),     \
                   "l"(operands->a + (block.image >> 4))                                                       \
                   : "memory");                                                                                \
      commit<1>(block);                                                                                        \
    }                                                                                                          \
    end<1>(block, out);                                                                                        \
  }
COPY(copy_128x256b, "128x256b")
COPY(copy_128x128b, "128x128b")
COPY(copy_64x128b_02_13, "64x128b.warpx2::02_13")
COPY(copy_64x128b_01_23, "64x128b.warpx2::01_23")
COPY(copy_32x128b, "32x128b.warpx4")
COPY(copy_b4, "128x256b.b8x16.b4x16_p64")
COPY(copy_b6, "128x256b.b8x16.b6x16_p32")

// Each warp's lanes from its first on: registers to columns from 64 on with .unpack::16b, back with .pack::16b
#define HALVES(name, store, load)                                                                              \
  extern "C" __global__ void name(const uint32_t* image, const uint32_t* tensor, uint32_t* out,                \
                                  const Operands* operands) {                                                  \
    const Block block = begin<1>(image, tensor);                                                               \
    const uint32_t own = block.tensor + ((threadIdx.x / 32 * 32) << 16);                                       \
    uint32_t r[4];                                                                                             \
    asm volatile("tcgen05.ld.sync.aligned." load " {%0, %1, %2, %3}, [%4];\ntcgen05.wait::ld.sync.aligned;"    \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                              \
                 : "r"(own)                                                                                    \
                 : "memory");                                                                                  \
    for (int i = 0; i < 4; ++i) out[128 * kColumns + threadIdx.x * 4 + i] = r[i];                              \
    asm volatile("tcgen05.st.sync.aligned." store " [%4], {%0, %1, %2, %3};\ntcgen05.wait::st.sync.aligned;" ::"r"( \
                     threadIdx.x * 4 + 0x10000),                                                               \
                 "r"(threadIdx.x * 4 + 0x20001), "r"(threadIdx.x * 4 + 0x30002), "r"(threadIdx.x * 4 + 0x40003), \
                 "r"(own + 64)                                                                                 \
                 : "memory");                                                                                  \
    if (threadIdx.x == 0) commit<1>(block);                                                                    \
    end<1>(block, out);                                                                                        \
  }
HALVES(halves_32x32b, "32x32b.x4.unpack::16b.b32", "32x32b.x4.pack::16b.b32")
HALVES(halves_16x64b, "16x64b.x4.unpack::16b.b32", "16x64b.x4.pack::16b.b32")
HALVES(halves_16x128b, "16x128b.x2.unpack::16b.b32", "16x128b.x2.pack::16b.b32")
HALVES(halves_16x256b, "16x256b.x1.unpack::16b.b32", "16x256b.x1.pack::16b.b32")
