// The host's part of a CUDA C++ source, for an ordinary C++ compiler: device code is taken out, a
// kernel's body hands over what it was given, and k<<<g, b>>>(a) comes as (configure(g, b), k(a)).
#pragma once
#include "ptxview_launch.h"

#include <array>
#include <cstring>
#include <type_traits>
#include <typeinfo>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __launch_bounds__
#undef __noinline__
#undef __forceinline__
#undef __grid_constant__
// A kernel that was not seen, as in a header: nvcc's own front end takes such a source.
#define __global__ ptxview_kernel_that_was_not_rewritten
#define __device__
#define __host__
#define __shared__ static
#define __constant__
#define __launch_bounds__(...)
#define __noinline__
#define __forceinline__ inline
#define __grid_constant__

static constexpr int warpSize = 32;

namespace ptxview_cuda {
// The type is a local one of the kernel's: its mangled name holds the kernel's.
template <class... A>
inline void stub(const Module& module, const std::type_info& local, const char* parameters, A&... arguments) {
  std::array<void*, sizeof...(A) + 1> each{const_cast<void*>(static_cast<const volatile void*>(&arguments))..., nullptr};
  launch(module, local.name(), parameters, each.data(), int64_t(sizeof...(A)));
}
// An argument of nothing, for a stub that is only asked for its name.
template <class T>
inline T nothing() {
  alignas(std::remove_cv_t<std::remove_reference_t<T>>) static char zeros[sizeof(std::remove_reference_t<T>)] = {};
  return static_cast<T>(reinterpret_cast<std::remove_reference_t<T>&>(zeros));
}
template <class... A>
inline void name(void (*kernel)(A...)) {
  // What has a copy constructor of its own might look into what it copies: such a kernel is not known.
  if constexpr ((std::is_trivially_copyable_v<std::remove_reference_t<A>> && ...)) {
    if (!kernel || !begin_naming(reinterpret_cast<const void*>(kernel))) return;
    kernel(nothing<A>()...);
    end_naming();
  }
}
struct Variable {
  Variable(const Module& module, const char* name, const void* host, size_t size) {
    variable(module, host, name, size);
  }
};
}  // namespace ptxview_cuda

// What cuda_runtime.h has for nvcc alone.
template <class T>
static inline cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* from, size_t bytes, size_t offset = 0,
                                             cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  return ::cudaMemcpyToSymbol(static_cast<const void*>(&symbol), from, bytes, offset, kind);
}
template <class T>
static inline cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* from, size_t bytes, size_t offset = 0,
                                                  cudaMemcpyKind kind = cudaMemcpyHostToDevice,
                                                  cudaStream_t stream = nullptr) {
  return ::cudaMemcpyToSymbolAsync(static_cast<const void*>(&symbol), from, bytes, offset, kind, stream);
}
template <class T>
static inline cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                               cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  return ::cudaMemcpyFromSymbol(to, static_cast<const void*>(&symbol), bytes, offset, kind);
}
template <class T>
static inline cudaError_t cudaMemcpyFromSymbolAsync(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                                    cudaMemcpyKind kind = cudaMemcpyDeviceToHost,
                                                    cudaStream_t stream = nullptr) {
  return ::cudaMemcpyFromSymbolAsync(to, static_cast<const void*>(&symbol), bytes, offset, kind, stream);
}
template <class T>
static inline cudaError_t cudaGetSymbolAddress(void** address, const T& symbol) {
  return ::cudaGetSymbolAddress(address, static_cast<const void*>(&symbol));
}
template <class T>
static inline cudaError_t cudaGetSymbolSize(size_t* size, const T& symbol) {
  return ::cudaGetSymbolSize(size, static_cast<const void*>(&symbol));
}
template <class T>
static inline cudaError_t cudaFuncSetAttribute(T* kernel, cudaFuncAttribute attribute, int value) {
  return ::cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
template <class... A>
static inline cudaError_t cudaFuncSetAttribute(void (*kernel)(A...), cudaFuncAttribute attribute, int value) {
  ::ptxview_cuda::name(kernel);
  return ::cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
template <class T>
static inline cudaError_t cudaFuncSetCacheConfig(T* kernel, cudaFuncCache config) {
  return ::cudaFuncSetCacheConfig(reinterpret_cast<const void*>(kernel), config);
}
