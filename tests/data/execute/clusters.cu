// Kernels whose blocks use each other's shared memory. Each reads `in` and writes `out`, 4,096 words;
// all that they compute is exact, so that every order gives the same words.
#include <cstdint>

__device__ inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ inline uint32_t rank_in_cluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline uint32_t blocks_in_cluster() {
  uint32_t blocks;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return blocks;
}
__device__ inline uint32_t mapped(uint32_t address, uint32_t rank) {
  uint32_t other;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(address), "r"(rank));
  return other;
}
__device__ inline void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ inline void init_barrier(uint64_t* barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void expect(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ inline void wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}
__device__ inline uint32_t block_number() { return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z); }

// Who a block is, in clusters of three dimensions
extern "C" __global__ void __cluster_dims__(2, 2, 2) places(const uint32_t*, uint32_t* out) {
  uint32_t v[16];
  asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(v[0]));
  asm volatile("mov.u32 %0, %%clusterid.y;" : "=r"(v[1]));
  asm volatile("mov.u32 %0, %%clusterid.z;" : "=r"(v[2]));
  asm volatile("mov.u32 %0, %%nclusterid.x;" : "=r"(v[3]));
  asm volatile("mov.u32 %0, %%nclusterid.y;" : "=r"(v[4]));
  asm volatile("mov.u32 %0, %%nclusterid.z;" : "=r"(v[5]));
  asm volatile("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(v[6]));
  asm volatile("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(v[7]));
  asm volatile("mov.u32 %0, %%cluster_ctaid.z;" : "=r"(v[8]));
  asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(v[9]));
  asm volatile("mov.u32 %0, %%cluster_nctaid.y;" : "=r"(v[10]));
  asm volatile("mov.u32 %0, %%cluster_nctaid.z;" : "=r"(v[11]));
  v[12] = rank_in_cluster();
  v[13] = blocks_in_cluster();
  asm volatile("{\n.reg .pred p;\nmov.pred p, %%is_explicit_cluster;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(v[14]));
  v[15] = block_number();
  if (threadIdx.x < 16) {
    uint32_t word = 0;
    for (int i = 0; i < 16; i++) word = i == threadIdx.x ? v[i] : word;
    out[block_number() * 16 + threadIdx.x] = word;
  }
}

// Addresses: shared::cluster, generic, which block they are in
extern "C" __global__ void __cluster_dims__(4, 1, 1) addresses(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t words[64];
  uint32_t rank = rank_in_cluster(), mine = shared_address(words);
  words[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
  sync_cluster();
  uint32_t next = (rank + 1) % 4, there = mapped(mine, next);
  uint64_t generic;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(generic) : "l"(words), "r"(next));
  uint32_t of_shared, of_generic, is_cta, is_cluster, is_own;
  asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(of_shared) : "r"(there));
  asm volatile("getctarank.u64 %0, %1;" : "=r"(of_generic) : "l"(generic));
  asm volatile("{\n.reg .pred p;\nisspacep.shared::cta p, %1;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(is_cta) : "l"(generic));
  asm volatile("{\n.reg .pred p;\nisspacep.shared::cluster p, %1;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(is_cluster)
               : "l"(generic));
  asm volatile("{\n.reg .pred p;\nisspacep.shared::cta p, %1;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(is_own) : "l"(words));
  uint32_t loaded, mixed;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(loaded) : "r"(there + 4 * (63 - threadIdx.x)));
  mixed = *(threadIdx.x % 2 ? reinterpret_cast<uint32_t*>(generic) : words);
  uint32_t facts = there - (mine & 0xffffff) | of_shared << 8 | of_generic << 12 | is_cta << 16 | is_cluster << 17 | is_own << 18;
  out[blockIdx.x * 64 + threadIdx.x] = loaded * 3 + mixed + facts;
  sync_cluster();
}

// Stores and atomics to another block, by their state space and by generic addresses
extern "C" __global__ void __cluster_dims__(8, 1, 1) atomics(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t bins[32];
  __shared__ unsigned long long sums[4];
  __shared__ uint32_t mail[64];
  uint32_t rank = rank_in_cluster();
  if (threadIdx.x < 32) bins[threadIdx.x] = 0;
  if (threadIdx.x < 4) sums[threadIdx.x] = 0;
  mail[threadIdx.x] = 0;
  sync_cluster();
  uint32_t value = in[blockIdx.x * 64 + threadIdx.x], target = value % 8;
  uint32_t bin = mapped(shared_address(bins), target) + 4 * (value / 8 % 32);
  asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;" ::"r"(bin), "r"(value & 15) : "memory");
  uint64_t sum;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(sum) : "l"(sums), "r"((rank + 3) % 8));
  atomicAdd(reinterpret_cast<unsigned long long*>(sum) + threadIdx.x % 4, 1ull + value);
  uint32_t to = mapped(shared_address(mail), (rank + threadIdx.x) % 8) + 4 * threadIdx.x;
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to), "r"(value ^ rank) : "memory");
  sync_cluster();
  out[blockIdx.x * 64 + threadIdx.x] =
      mail[threadIdx.x] + bins[threadIdx.x % 32] * 5 + static_cast<uint32_t>(sums[threadIdx.x % 4]);
}

// A ring: each block waits for an arrival of the one before it, and changes what that one gave it
extern "C" __global__ void __cluster_dims__(8, 1, 1) ring(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t mail[64];
  __shared__ uint64_t full;
  uint32_t rank = rank_in_cluster();
  if (threadIdx.x == 0) init_barrier(&full, 64);
  sync_cluster();
  uint32_t value = in[blockIdx.x * 64 + threadIdx.x];
  if (rank != 0) {
    wait(&full, 0);
    value += 3 * mail[threadIdx.x];
  }
  if (rank != 7) {
    uint32_t to = mapped(shared_address(mail), rank + 1) + 4 * threadIdx.x;
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
    uint32_t barrier = mapped(shared_address(&full), rank + 1);
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
  }
  out[blockIdx.x * 64 + threadIdx.x] = value;
  sync_cluster();
}

// st.async and red.async, each word's bytes to the other block's mbarrier
extern "C" __global__ void __cluster_dims__(2, 1, 1) asynchronous(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t words[64 * 8];
  __shared__ alignas(16) uint32_t sums[8];
  __shared__ uint64_t full, added;
  uint32_t rank = rank_in_cluster(), other = rank ^ 1;
  if (threadIdx.x == 0) {
    init_barrier(&full, 1);
    init_barrier(&added, 1);

  }
  if (threadIdx.x < 8) sums[threadIdx.x] = threadIdx.x == 4 ? 0xffff0fff : threadIdx.x * 16;
  for (int i = threadIdx.x; i < 64 * 8; i += 64) words[i] = 0;
  sync_cluster();
  if (threadIdx.x == 0) {
    expect(&full, 64 * (4 + 8 + 16 + 4));
    expect(&added, 64 * 8 * 4);
  }
  uint32_t value = in[blockIdx.x * 64 + threadIdx.x];
  uint32_t to = mapped(shared_address(words), other) + 32 * threadIdx.x;
  uint32_t barrier = mapped(shared_address(&full), other), second = mapped(shared_address(&added), other);
#define STORED "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes"
  asm volatile(STORED ".u32 [%0], %1, [%2];" ::"r"(to), "r"(value), "r"(barrier) : "memory");
  asm volatile(STORED ".b64 [%0], %1, [%2];" ::"r"(to + 8), "l"(uint64_t(value) << 20), "r"(barrier) : "memory");
  asm volatile(STORED ".v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to + 16), "r"(value + 1), "r"(value * 7),
               "r"(value ^ 255), "r"(rank), "r"(barrier)
               : "memory");
  asm volatile(STORED ".f32 [%0], %1, [%2];" ::"r"(to + 4), "f"(float(value & 255) + 0.5f), "r"(barrier) : "memory");
#define REDUCED "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes"
  uint32_t sum = mapped(shared_address(sums), other);
  asm volatile(REDUCED ".add.u32 [%0], %1, [%2];" ::"r"(sum), "r"(value), "r"(second) : "memory");
  asm volatile(REDUCED ".min.s32 [%0], %1, [%2];" ::"r"(sum + 4), "r"(int(value) - 500), "r"(second) : "memory");
  asm volatile(REDUCED ".max.u32 [%0], %1, [%2];" ::"r"(sum + 8), "r"(value), "r"(second) : "memory");
  asm volatile(REDUCED ".or.b32 [%0], %1, [%2];" ::"r"(sum + 12), "r"(value & 0xf0), "r"(second) : "memory");
  asm volatile(REDUCED ".and.b32 [%0], %1, [%2];" ::"r"(sum + 16), "r"(value | 0xff00), "r"(second) : "memory");
  asm volatile(REDUCED ".xor.b32 [%0], %1, [%2];" ::"r"(sum + 20), "r"(value), "r"(second) : "memory");
  asm volatile(REDUCED ".inc.u32 [%0], %1, [%2];" ::"r"(sum + 24), "r"(100u), "r"(second) : "memory");
  asm volatile(REDUCED ".dec.u32 [%0], %1, [%2];" ::"r"(sum + 28), "r"(1000u), "r"(second) : "memory");
  wait(&full, 0);
  wait(&added, 0);
  for (int i = 0; i < 8; i++) out[(blockIdx.x * 64 + threadIdx.x) * 8 + i] = words[threadIdx.x * 8 + i] + sums[i];
  sync_cluster();
}

// Bulk copies: shared memory of one block to another's, added to it, and one piece to many blocks
extern "C" __global__ void __cluster_dims__(4, 1, 1) bulk(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(128) uint32_t source[64], target[64], sums[64], shared_in[256];
  __shared__ uint64_t full, pieces;
  uint32_t rank = rank_in_cluster();
  source[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
  sums[threadIdx.x] = threadIdx.x;
  if (threadIdx.x == 0) {
    init_barrier(&full, 1);
    init_barrier(&pieces, 1);
  }
  asm volatile("fence.proxy.async;" ::: "memory");
  sync_cluster();
  if (threadIdx.x == 0) {
    expect(&full, 256 + 3 * 256);
    expect(&pieces, 1024);
    uint32_t barrier = mapped(shared_address(&full), (rank + 1) % 4);
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(
                     mapped(shared_address(target), (rank + 1) % 4)),
                 "r"(shared_address(source)), "r"(barrier)
                 : "memory");
    for (uint32_t k = 1; k < 4; k++) {
      uint32_t to = (rank + k) % 4, theirs = mapped(shared_address(&full), to);
      asm volatile(
          "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%0], [%1], 256, [%2];" ::"r"(
              mapped(shared_address(sums), to)),
          "r"(shared_address(source)), "r"(theirs)
          : "memory");
    }
    // each block's piece of 256 bytes to all four
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 256, [%2], %3;" ::"r"(
            shared_address(shared_in + 64 * rank)),
        "l"(in + 1024 + blockIdx.x * 64), "r"(shared_address(&pieces)), "h"(uint16_t(15))
        : "memory");
  }
  wait(&full, 0);
  wait(&pieces, 0);
  uint32_t all = 0;
  for (int i = 0; i < 4; i++) all = all * 3 + shared_in[64 * i + threadIdx.x];
  out[blockIdx.x * 64 + threadIdx.x] = target[threadIdx.x] * 5 + sums[threadIdx.x] * 11 + all;
  sync_cluster();
}

struct alignas(64) TensorMap { unsigned char bytes[128]; };

// A tile by a tensor map to the blocks of some ranks, halves loaded by two of them
extern "C" __global__ void __cluster_dims__(4, 1, 1)
    tiles(const uint32_t* in, uint32_t* out, const __grid_constant__ TensorMap map) {
  __shared__ alignas(1024) uint32_t tile[2 * 8 * 32];
  __shared__ uint64_t full;
  uint32_t rank = rank_in_cluster();
  for (int i = threadIdx.x; i < 512; i += 64) tile[i] = 7;
  if (threadIdx.x == 0) init_barrier(&full, 1);
  asm volatile("fence.proxy.async;" ::: "memory");
  sync_cluster();
  if (threadIdx.x == 0) expect(&full, rank == 2 ? 1024 : 2048);
  sync_cluster();
  if (threadIdx.x == 0 && (rank == 0 || rank == 3)) {
    uint32_t half = rank == 3;
    uint16_t ranks = half ? 0b1111 : 0b1011;
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(tile + 256 * half)),
        "l"(&map), "r"(int(blockIdx.x / 4 * 16 + 8 * half)), "r"(int(blockIdx.x / 4 * 8)), "r"(shared_address(&full)),
        "h"(ranks)
        : "memory");
  }
  wait(&full, 0);
  for (int i = threadIdx.x; i < 512; i += 64) out[blockIdx.x * 512 + i] = tile[i];
  sync_cluster();
}
