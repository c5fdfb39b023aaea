// CUDAHooks, through which ATen asks about CUDA; CUDA generators and pinned memory.
#pragma once
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <pthread.h>
#include <vector>

#include "state.h"

namespace ptxview {

// A CUDA device's generator: a seed and an offset of 16 bytes, as a GPU's, which programs take apart to seed kernels of
// their own. Every operator draws from a CPU generator made of the two (the numbers are not the GPU's).
struct CudaGenerator final : c10::GeneratorImpl {
  explicit CudaGenerator(c10::DeviceIndex index)
      : GeneratorImpl(cuda(index), c10::DispatchKeySet(c10::DispatchKey::CUDA)) {}
  uint64_t from = c10::default_rng_seed_val;
  std::atomic<uint64_t> offset = 0;

  static c10::DeviceType device_type() { return c10::DeviceType::CUDA; }
  void set_current_seed(uint64_t value) override {
    from = value;
    offset = 0;
  }
  void set_offset(uint64_t value) override {
    TORCH_CHECK(value % 4 == 0, "offset must be a multiple of 4");
    offset = value;
  }
  uint64_t get_offset() const override { return offset; }
  uint64_t current_seed() const override { return from; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom(true));
    return from;
  }
  void set_state(const c10::TensorImpl& state) override {
    at::detail::check_rng_state(state);
    TORCH_CHECK(state.numel() == 16, "RNG state is wrong size");
    uint64_t parts[2];
    std::memcpy(parts, state.data(), sizeof parts);
    set_current_seed(parts[0]);
    set_offset(parts[1]);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    const at::TensorBase state = at::detail::empty_cpu({16}, at::kByte);
    const uint64_t parts[] = {from, offset};
    std::memcpy(state.data_ptr(), parts, sizeof parts);
    return state.getIntrusivePtr();
  }
  CudaGenerator* clone_impl() const override {
    auto* copy = new CudaGenerator(device().index());
    copy->from = from;
    copy->offset = offset.load();
    return copy;
  }
  at::Generator next() {  // CPU generators keep 32 bits of a seed: a bijection of the offset lets none come twice
    uint32_t mixed = uint32_t(offset.fetch_add(4) / 4);
    mixed = (mixed ^ (mixed >> 16)) * 0x85ebca6bU;
    mixed = (mixed ^ (mixed >> 13)) * 0xc2b2ae35U;
    return at::make_generator<at::CPUGeneratorImpl>(from + (mixed ^ (mixed >> 16)));
  }
};

inline const at::Generator& default_generator(c10::DeviceIndex index) {
  static std::vector<at::Generator> all = [] {
    std::vector<at::Generator> made;
    for (int i = 0; i < device_count; i++) made.push_back(at::make_generator<CudaGenerator>(i));
    return made;
  }();
  return all.at(cuda(index).index());
}
inline at::Generator next_draw(const at::Generator& generator) {
  return static_cast<CudaGenerator*>(generator.unsafeGetGeneratorImpl())->next();
}

// Pinned memory is ordinary memory that remembers being pinned.
struct Pinned final : c10::Allocator {
  struct Lease {
    c10::DataPtr data;
    size_t bytes;
  };
  static inline std::mutex lock;
  static inline std::map<const char*, size_t> ranges;
  Pinned() { pthread_atfork([] { lock.lock(); }, [] { lock.unlock(); }, [] { lock.unlock(); }); }

  c10::DataPtr allocate(size_t bytes) override {
    auto* lease = new Lease{c10::GetCPUAllocator()->allocate(bytes), bytes};
    void* data = lease->data.get();
    if (data) {
      std::lock_guard<std::mutex> held(lock);
      ranges[static_cast<const char*>(data)] = bytes;
    }
    return c10::DataPtr(data, lease, &release, c10::Device(c10::kCPU));
  }
  static void release(void* context) {
    auto* lease = static_cast<Lease*>(context);
    {
      std::lock_guard<std::mutex> held(lock);
      ranges.erase(static_cast<const char*>(lease->data.get()));
    }
    delete lease;
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  static bool holds(const void* pointer) {
    std::lock_guard<std::mutex> held(lock);
    auto after = ranges.upper_bound(static_cast<const char*>(pointer));
    if (after == ranges.begin()) return false;
    auto range = std::prev(after);
    return static_cast<const char*>(pointer) < range->first + range->second;
  }
};
inline Pinned pinned;

}  // namespace ptxview

namespace at {
// Which of these are virtual differs between versions of torch, so none says `override`.
// The name is the registry's key: Context looks up "CUDAHooks".
struct CUDAHooks final : at::CUDAHooksInterface {
  explicit CUDAHooks(at::CUDAHooksArgs) {}
  void init() const {}
  bool hasCUDA() const { return true; }
  bool hasCUDART() const { return true; }
  bool isBuilt() const { return true; }
  bool isAvailable() const { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const { return true; }
  int getNumGPUs() const { return ptxview::device_count; }
  c10::DeviceIndex current_device() const { return ptxview::current_device; }
  c10::DeviceIndex deviceCount() const { return c10::DeviceIndex(ptxview::device_count); }
  c10::DeviceIndex getCurrentDevice() const { return ptxview::current_device; }
  void setCurrentDevice(c10::DeviceIndex index) const {
    TORCH_CHECK(index >= 0 && index < ptxview::device_count, "CUDA error: invalid device ordinal");
    ptxview::current_device = index;
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const {
    c10::DeviceIndex old = ptxview::current_device;
    setCurrentDevice(index);
    return old;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const {
    c10::DeviceIndex old = ptxview::current_device;
    if (index >= 0) setCurrentDevice(index);
    return old;
  }
  bool isPinnedPtr(const void* pointer) const { return ptxview::Pinned::holds(pointer); }
  c10::Allocator* getPinnedMemoryAllocator() const { return &ptxview::pinned; }
  c10::Allocator* getCUDADeviceAllocator() const { return &ptxview::allocator; }
  const Generator& getDefaultGenerator(c10::DeviceIndex index) const {
    return ptxview::default_generator(index);
  }
  Generator getNewGenerator(c10::DeviceIndex index) const {
    return at::make_generator<ptxview::CudaGenerator>(ptxview::cuda(index).index());
  }
  void deviceSynchronize(c10::DeviceIndex) const {}
  std::string showConfig() const { return "  - CUDA device emulated by ptxview, no GPU\n"; }
  at::Device getDeviceFromPtr(void* pointer) const {
    const c10::DeviceIndex index = ptxview::device_at(pointer);
    TORCH_CHECK_VALUE(index >= 0, "The specified pointer resides on host memory and is not registered with any CUDA device.");
    return ptxview::cuda(index);
  }
  // cuFFT is not there, and no plan of it is kept.
  int64_t cuFFTGetPlanCacheMaxSize(c10::DeviceIndex) const { return 0; }
  void cuFFTSetPlanCacheMaxSize(c10::DeviceIndex, int64_t) const {}
  int64_t cuFFTGetPlanCacheSize(c10::DeviceIndex) const { return 0; }
  void cuFFTClearPlanCache(c10::DeviceIndex) const {}
};
C10_REGISTER_CLASS_WITH_PRIORITY(CUDAHooksRegistry, CUDAHooks, ::c10::REGISTRY_PREFERRED, CUDAHooks);
}  // namespace at
