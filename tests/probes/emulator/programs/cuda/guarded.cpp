// What extensions include of torch for its CUDA context, streams and guards.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

int run_guarded(int which) {
  const at::cuda::CUDAGuard guard(c10::Device(c10::DeviceType::CUDA, 0));
  const at::cuda::OptionalCUDAGuard perhaps(c10::Device(c10::DeviceType::CUDA, 0));
  if (which == 0) return at::cuda::getCurrentDeviceProperties()->multiProcessorCount * at::cuda::warp_size();
  if (which == 1) {
    const auto before = at::cuda::getCurrentCUDAStream();
    const at::cuda::CUDAStreamGuard side(at::cuda::getStreamFromPool());
    return at::cuda::getCurrentCUDAStream() != before;
  }
  c10::cuda::CUDACachingAllocator::raw_alloc(64);
  return 0;
}
