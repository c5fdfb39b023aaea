// CUDA C++ compiled by an ordinary C++ compiler: a launch runs its grid here, block by block.
//
// The threads of a block run one after another; in sources that synchronise they are fibers, which
// change places at every barrier.  Launches come rewritten, k<<<g, b>>>(a) as
// ptxview_launch(g, b).named("k")([&] { k(a); }), and PTXVIEW_FIBERS says whether anything synchronises.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include <unistd.h>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __managed__
#undef __launch_bounds__
#undef __noinline__
#undef __forceinline__
#undef __grid_constant__
#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __constant__ static
#define __managed__ static
#define __launch_bounds__(...)
#define __noinline__
#define __forceinline__ inline
#define __grid_constant__

namespace ptxview_host {
struct Fibers;
inline dim3 grid_dim, block_dim;
inline uint3 thread_index, block_index;
inline std::vector<char> dynamic_memory;
Fibers* fibers();
void barrier(int group_of_warps);
bool vote(unsigned mask, bool value, int how);
}  // namespace ptxview_host

static constexpr int warpSize = 32;
#define gridDim (::ptxview_host::grid_dim)
#define blockDim (::ptxview_host::block_dim)
#define threadIdx (::ptxview_host::thread_index)
#define blockIdx (::ptxview_host::block_index)

#if PTXVIEW_FIBERS
#include <ucontext.h>

namespace ptxview_host {
// One fiber a thread of the block.  A barrier waits until every fiber of its group that still runs
// has arrived: the whole block for __syncthreads, a warp for __syncwarp and the shuffles.
struct Fibers {
  ucontext_t scheduler;
  std::vector<ucontext_t> contexts;
  std::vector<std::vector<char>> stacks;
  std::vector<char> done;
  std::vector<int> waits;  // the barrier's group: -2 none, -1 block, else the warp
  std::vector<uint64_t> slots;
  size_t now = 0, count = 0;
  std::function<void()>* body = nullptr;
  std::exception_ptr error;
};
inline Fibers* fibers() {
  static Fibers all;
  return &all;
}
inline void enter() {
  Fibers& f = *fibers();
  try {
    (*f.body)();
  } catch (...) {
    f.error = std::current_exception();
  }
  f.done[f.now] = 1;
  swapcontext(&f.contexts[f.now], &f.scheduler);
}
inline void barrier(int group) {
  Fibers& f = *fibers();
  f.waits[f.now] = group;
  swapcontext(&f.contexts[f.now], &f.scheduler);
}
inline void place(size_t t) {
  const dim3& b = block_dim;
  thread_index = uint3{unsigned(t % b.x), unsigned(t / b.x % b.y), unsigned(t / b.x / b.y)};
}
inline void run_block(std::function<void()>& body) {
  Fibers& f = *fibers();
  const size_t n = size_t(block_dim.x) * block_dim.y * block_dim.z;
  if (f.stacks.size() < n) f.stacks.resize(n, std::vector<char>(128 << 10));
  f.contexts.resize(n);
  f.done.assign(n, 0);
  f.waits.assign(n, -2);
  f.slots.assign(n, 0);
  f.body = &body;
  f.count = n;
  f.error = nullptr;
  for (size_t t = 0; t < n; t++) {
    ucontext_t& u = f.contexts[t];
    getcontext(&u);
    u.uc_stack.ss_sp = f.stacks[t].data();
    u.uc_stack.ss_size = f.stacks[t].size();
    u.uc_link = nullptr;
    makecontext(&u, enter, 0);
  }
  for (;;) {
    bool ran = false, left = false;
    for (size_t t = 0; t < n; t++) {
      if (f.done[t] || f.waits[t] != -2) continue;
      f.now = t;
      place(t);
      swapcontext(&f.scheduler, &f.contexts[t]);
      ran = true;
      if (f.error) std::rethrow_exception(f.error);
    }
    // Release every group whose running members all wait for it.
    for (int warp = -1; warp < int((n + 31) / 32); warp++) {
      const size_t from = warp < 0 ? 0 : size_t(warp) * 32, to = warp < 0 ? n : std::min(n, from + 32);
      bool all = true, any = false;
      for (size_t t = from; t < to; t++)
        if (!f.done[t]) {
          all &= f.waits[t] == warp;
          any = true;
        }
      if (!any || !all) continue;
      for (size_t t = from; t < to; t++) f.waits[t] = -2;
      left = true;
    }
    if (!ran && !left) break;
  }
  for (size_t t = 0; t < n; t++)
    if (!f.done[t]) throw std::runtime_error("ptxview: threads of a block wait at different barriers");
}
inline int warp() { return int(fibers()->now / 32); }
template <class T>
inline T exchange(T value, size_t lane) {  // what the lane of this warp holds
  static_assert(sizeof(T) <= 8, "a shuffle of at most 8 bytes");
  Fibers& f = *fibers();
  const size_t me = f.now;
  f.slots[me] = 0;
  std::memcpy(&f.slots[me], &value, sizeof(T));
  barrier(warp());
  const size_t from = me / 32 * 32 + lane;
  T result = value;
  if (lane < 32 && from < f.count) std::memcpy(&result, &f.slots[from], sizeof(T));
  barrier(warp());
  return result;
}
inline size_t lane() { return fibers()->now % 32; }
inline unsigned ballot(bool value) {
  Fibers& f = *fibers();
  const size_t me = f.now, first = me / 32 * 32;
  f.slots[me] = value ? 1 : 0;
  barrier(warp());
  unsigned bits = 0;
  for (size_t t = first; t < std::min(f.count, first + 32); t++)
    if (!f.done[t] && f.slots[t]) bits |= 1u << (t - first);
  barrier(warp());
  return bits;
}
}  // namespace ptxview_host

static inline void __syncthreads() { ptxview_host::barrier(-1); }
static inline void __syncwarp(unsigned = ~0u) { ptxview_host::barrier(ptxview_host::warp()); }
template <class T>
static inline T __shfl_sync(unsigned, T v, int from, int width = 32) {
  const int lane = int(ptxview_host::lane());
  return ptxview_host::exchange(v, size_t(lane / width * width + from % width));
}
template <class T>
static inline T __shfl_xor_sync(unsigned, T v, int mask, int width = 32) {
  const int lane = int(ptxview_host::lane()), to = lane ^ mask;
  return ptxview_host::exchange(v, size_t(to / width > lane / width ? lane : to));
}
template <class T>
static inline T __shfl_down_sync(unsigned, T v, unsigned by, int width = 32) {
  const int lane = int(ptxview_host::lane()), to = lane + int(by);
  return ptxview_host::exchange(v, size_t(to / width == lane / width ? to : lane));
}
template <class T>
static inline T __shfl_up_sync(unsigned, T v, unsigned by, int width = 32) {
  const int lane = int(ptxview_host::lane()), to = lane - int(by);
  return ptxview_host::exchange(v, size_t(to >= lane / width * width ? to : lane));
}
static inline unsigned __ballot_sync(unsigned, int p) { return ptxview_host::ballot(p != 0); }
static inline int __any_sync(unsigned, int p) { return ptxview_host::ballot(p != 0) != 0; }
static inline int __all_sync(unsigned, int p) { return ptxview_host::ballot(p == 0) == 0; }
static inline unsigned __activemask() { return ~0u; }
#else
namespace ptxview_host {
inline void run_block(std::function<void()>& body) {
  const dim3 b = block_dim;
  for (unsigned z = 0; z < b.z; z++)
    for (unsigned y = 0; y < b.y; y++)
      for (unsigned x = 0; x < b.x; x++) {
        thread_index = uint3{x, y, z};
        body();
      }
}
}  // namespace ptxview_host
#endif

namespace ptxview_host {
// Python's own function for launches, where this process has one: "<pid>:<address>".
using Told = void (*)(const char*, const unsigned*);
inline Told told() {
  const char* text = std::getenv("PTXVIEW_LAUNCHES");
  long pid = 0;
  unsigned long long address = 0;
  if (!text || std::sscanf(text, "%ld:%llu", &pid, &address) != 2 || pid != long(getpid())) return nullptr;
  return reinterpret_cast<Told>(static_cast<uintptr_t>(address));
}
}  // namespace ptxview_host

struct ptxview_launch {
  size_t dynamic;
  ptxview_launch& named(const char* name) {
    const dim3 g = ptxview_host::grid_dim, b = ptxview_host::block_dim;
    const unsigned numbers[] = {g.x, g.y, g.z, b.x, b.y, b.z, unsigned(dynamic)};
    if (auto tell = ptxview_host::told()) tell(name, numbers);
    return *this;
  }
  ptxview_launch(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t = nullptr) : dynamic(shared) {
    ptxview_host::grid_dim = grid;
    ptxview_host::block_dim = block;
    ptxview_host::dynamic_memory.assign(shared + 64, 0);
  }
  void operator()(std::function<void()> body) {
    const dim3 g = ptxview_host::grid_dim;
    for (unsigned z = 0; z < g.z; z++)
      for (unsigned y = 0; y < g.y; y++)
        for (unsigned x = 0; x < g.x; x++) {
          ptxview_host::block_index = uint3{x, y, z};
          ptxview_host::run_block(body);
        }
  }
};
#define ptxview_dynamic_shared \
  (reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(::ptxview_host::dynamic_memory.data()) + 15) & ~uintptr_t(15)))

// One thread runs at a time, so that these are atomic.
template <class T, class U> static inline T atomicAdd(T* p, U v) { T o = *p; *p = T(o + T(v)); return o; }
template <class T, class U> static inline T atomicSub(T* p, U v) { T o = *p; *p = T(o - T(v)); return o; }
template <class T, class U> static inline T atomicMax(T* p, U v) { T o = *p; if (T(v) > o) *p = T(v); return o; }
template <class T, class U> static inline T atomicMin(T* p, U v) { T o = *p; if (T(v) < o) *p = T(v); return o; }
template <class T, class U> static inline T atomicOr(T* p, U v) { T o = *p; *p = o | T(v); return o; }
template <class T, class U> static inline T atomicAnd(T* p, U v) { T o = *p; *p = o & T(v); return o; }
template <class T, class U> static inline T atomicExch(T* p, U v) { T o = *p; *p = T(v); return o; }
template <class T, class U, class V> static inline T atomicCAS(T* p, U c, V v) { T o = *p; if (o == T(c)) *p = T(v); return o; }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}

template <class T> static inline T __ldg(const T* p) { return *p; }
template <class T> static inline T __ldcs(const T* p) { return *p; }
template <class A, class B, class C = std::common_type_t<A, B>,
          class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
static inline C max(A a, B b) { return C(a) > C(b) ? C(a) : C(b); }
template <class A, class B, class C = std::common_type_t<A, B>,
          class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
static inline C min(A a, B b) { return C(a) < C(b) ? C(a) : C(b); }
static inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
static inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
static inline float rsqrt(float x) { return rsqrtf(x); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fsqrt_rn(float x) { return std::sqrt(x); }
static inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
static inline float __saturatef(float x) { return x < 0 ? 0.0f : x > 1 ? 1.0f : x; }
static inline int __float2int_rn(float x) { return int(std::nearbyint(x)); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline unsigned __float_as_uint(float x) { unsigned u; std::memcpy(&u, &x, 4); return u; }
static inline int __float_as_int(float x) { return int(__float_as_uint(x)); }
static inline float __uint_as_float(unsigned u) { float x; std::memcpy(&x, &u, 4); return x; }
static inline float __int_as_float(int i) { return __uint_as_float(unsigned(i)); }
#define __expf(x) std::exp(float(x))
#define __logf(x) std::log(float(x))
#define __log2f(x) std::log2(float(x))
#define __powf(x, y) std::pow(float(x), float(y))
#define __sinf(x) std::sin(float(x))
#define __cosf(x) std::cos(float(x))
#define __tanhf(x) std::tanh(float(x))
