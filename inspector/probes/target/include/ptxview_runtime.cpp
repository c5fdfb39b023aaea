// What an extension calls of the CUDA runtime and of libc10_cuda, over host memory: linked into the
// extension itself, with hidden names, so that no CUDA library is needed or disturbed.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

#include <cstdlib>
#include <cstring>

static const c10::impl::DeviceGuardImplInterface* guard() {
  return c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA);
}

extern "C" {
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "no error" : "CUDA error"; }
const char* cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "cudaError"; }
cudaError_t cudaGetDevice(int* device) {
  *device = guard()->getDevice().index();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  guard()->setDevice(c10::Device(c10::DeviceType::CUDA, c10::DeviceIndex(device)));
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = guard()->deviceCount();
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  *pointer = std::malloc(bytes);
  return *pointer || !bytes ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t) { return cudaMalloc(pointer, bytes); }
cudaError_t cudaFree(void* pointer) {
  std::free(pointer);
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return cudaFree(pointer); }
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) { return cudaMemset(to, value, bytes); }
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
}

namespace c10::cuda {
// The line's type differs between versions of torch.
void c10_cuda_check_implementation(const int32_t error, const char* file, const char*, const uint32_t line, const bool) {
  TORCH_CHECK(error == cudaSuccess, "CUDA error ", error, " at ", file, ":", line);
}
void c10_cuda_check_implementation(const int32_t error, const char* file, const char*, const int line, const bool) {
  TORCH_CHECK(error == cudaSuccess, "CUDA error ", error, " at ", file, ":", line);
}
DeviceIndex device_count() noexcept { return guard()->deviceCount(); }
DeviceIndex current_device() { return guard()->getDevice().index(); }
void set_device(DeviceIndex device) { cudaSetDevice(device); }
cudaStream_t CUDAStream::stream() const { return nullptr; }
CUDAStream getCurrentCUDAStream(DeviceIndex device) {
  return CUDAStream(guard()->getStream(c10::Device(c10::DeviceType::CUDA, device)));
}
CUDAStream getDefaultCUDAStream(DeviceIndex device) {
  return CUDAStream(guard()->getDefaultStream(c10::Device(c10::DeviceType::CUDA, device)));
}
}  // namespace c10::cuda
