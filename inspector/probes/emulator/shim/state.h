// What the emulated devices hold: how many there are, each thread's current device and streams,
// and the memory behind every CUDA tensor.
#pragma once
#include <c10/core/CPUAllocator.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>
#include <sys/mman.h>

#include <array>
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <string>
#include <utility>

namespace ptxview {

constexpr int kMaxDevices = 64;

// Set once from the environment: the loader (native.py) writes these before it loads the library.
inline int env_int(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::atoi(text) : otherwise;
}
inline const int device_count = std::clamp(env_int("PTXVIEW_DEVICES", 1), 1, kMaxDevices);

inline thread_local c10::DeviceIndex current_device = 0;
inline thread_local std::array<c10::StreamId, kMaxDevices> current_stream{};
inline std::atomic<c10::StreamId> next_stream{1};

inline c10::Device cuda(c10::DeviceIndex index) {
  return c10::Device(c10::DeviceType::CUDA, index < 0 ? current_device : index);
}

// The figures behind torch.cuda.memory_stats: bytes of host memory used as device memory.
struct Counter {
  std::atomic<int64_t> current{0}, peak{0}, allocated{0}, freed{0}, blocks{0}, peak_blocks{0};
  void add(int64_t bytes) {
    raise(peak, current += bytes);
    raise(peak_blocks, ++blocks);
    allocated += bytes;
  }
  void remove(int64_t bytes) {
    current -= bytes;
    freed += bytes;
    --blocks;
  }
  static void raise(std::atomic<int64_t>& top, int64_t value) {
    int64_t seen = top.load();
    while (seen < value && !top.compare_exchange_weak(seen, value)) {
    }
  }
};
inline std::array<Counter, kMaxDevices> memory;

struct Block;

// The ranges of device memory and their blocks: a kernel may touch nothing else.
struct Ranges {
  struct Range {
    uintptr_t end;
    Block* block;
  };
  std::mutex lock;
  std::map<uintptr_t, Range> by_start;
  // A child of fork has one thread: another that held the lock would never give it back.
  Ranges() { pthread_atfork(hold, let_go, let_go); }
  static void hold();
  static void let_go();
  void add(const void* data, size_t bytes, Block* block) {
    if (!bytes) return;
    std::lock_guard<std::mutex> held(lock);
    by_start[reinterpret_cast<uintptr_t>(data)] = {reinterpret_cast<uintptr_t>(data) + bytes, block};
  }
  void remove(const void* data) {
    std::lock_guard<std::mutex> held(lock);
    by_start.erase(reinterpret_cast<uintptr_t>(data));
  }
  // The range that holds [from, to), or an empty one.
  std::pair<uintptr_t, uintptr_t> find(uintptr_t from, uintptr_t to) {
    std::lock_guard<std::mutex> held(lock);
    auto range = around(from, to);
    if (range == by_start.end()) return {0, 0};
    return {range->first, range->second.end};
  }
  // To be called with the lock held.
  std::map<uintptr_t, Range>::iterator around(uintptr_t from, uintptr_t to) {
    auto after = by_start.upper_bound(from);
    if (after == by_start.begin()) return by_start.end();
    auto range = std::prev(after);
    return to > range->second.end ? by_start.end() : range;
  }
};
inline Ranges& ranges() {
  static Ranges& all = *new Ranges;  // never destroyed: tensors may outlive static objects
  return all;
}
inline void Ranges::hold() { ranges().lock.lock(); }
inline void Ranges::let_go() { ranges().lock.unlock(); }

// The context of every CUDA DataPtr. `absent` holds the reason while the contents mean nothing.
struct Block {
  c10::DataPtr owned;       // memory of our own …
  c10::Storage kept;        // … or another storage's, kept alive
  void* reserved = nullptr;  // … or address space
  const void* start = nullptr;
  size_t bytes;
  c10::DeviceIndex device;
  std::shared_ptr<const std::string> absent;

  Block(size_t n, c10::DeviceIndex d) : bytes(n), device(d) { memory[d].add(int64_t(n)); }
  ~Block() {
    memory[device].remove(int64_t(bytes));
    if (start) ranges().remove(start);
    if (reserved) munmap(reserved, bytes);
  }
  static void release(void* block) { delete static_cast<Block*>(block); }
};

// The device whose memory holds the address, or -1.
inline c10::DeviceIndex device_at(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  std::lock_guard<std::mutex> held(ranges().lock);
  auto range = ranges().around(address, address + 1);
  return range == ranges().by_start.end() ? -1 : range->second.block->device;
}

inline c10::DataPtr wrap(void* data, Block* block) {
  block->start = data;
  ranges().add(data, block->bytes, block);
  return c10::DataPtr(data, block, &Block::release, cuda(block->device));
}

// A device's addresses do not fit 32 bits. The heap of an interpreter that is not position-
// independent may be that low, and Triton would compile an address that it is given for an i32.
inline bool fits_32_bits(const void* data) { return data && reinterpret_cast<uintptr_t>(data) >> 32 == 0; }

// Memory of the block's own above, zeroed; null if there is no room.
inline void* high_memory(Block* block) {
  void* high = mmap(nullptr, block->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return high == MAP_FAILED ? nullptr : block->reserved = high;
}

inline c10::DataPtr allocate(size_t bytes, c10::DeviceIndex device) {
  auto* block = new Block(bytes, device);
  block->owned = c10::GetCPUAllocator()->allocate((bytes + 3) & ~size_t(3));  // whole words, as on a GPU
  void* data = block->owned.get();
  if (void* high = fits_32_bits(data) ? high_memory(block) : nullptr) {
    block->owned.clear();
    data = high;
  }
  return wrap(data, block);
}

// Memory for contents that are absent: address space that costs nothing until something writes it.
inline c10::DataPtr reserve(size_t bytes, c10::DeviceIndex device,
                            std::shared_ptr<const std::string> why) {
  if (bytes < 65536) {
    c10::DataPtr data = allocate(bytes, device);
    if (auto* block = data.cast_context<Block>(&Block::release)) block->absent = std::move(why);
    return data;
  }
  auto* block = new Block(bytes, device);
  block->absent = std::move(why);
  if (bytes) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TORCH_CHECK(data != MAP_FAILED, "ptxview: no address space for ", bytes, " bytes on cuda:", int(device));
    block->reserved = data;
  }
  return wrap(block->reserved, block);
}

inline Block* block_of(const c10::Storage& storage) {
  return storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().cast_context<Block>(&Block::release);
}
inline std::shared_ptr<const std::string> absence(const c10::Storage& storage) {
  Block* block = storage.device().is_cuda() ? block_of(storage) : nullptr;
  return block ? block->absent : nullptr;
}

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    return ptxview::allocate(bytes, current_device);
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};
inline Allocator allocator;

}  // namespace ptxview
