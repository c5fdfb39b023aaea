// Carrying one operator call over to another device over the same memory: CUDA tensors become CPU
// tensors (or meta tensors, where values are absent) on the way in, and results come home as CUDA.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstring>
#include <map>
#include <utility>

#include "state.h"

namespace ptxview {
using at::Tensor;
using c10::Storage;
using c10::StorageImpl;

inline Storage storage_over(c10::DataPtr data, size_t bytes, c10::Allocator* with) {
  return Storage(c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), bytes,
                                                  std::move(data), with, /*resizable=*/true));
}

// A CPU (or meta) storage over the bytes of a CUDA one, which it keeps alive.
inline Storage away(const Storage& home, c10::DeviceType type) {
  void* data = type == c10::kCPU ? home.mutable_data() : nullptr;
  c10::DataPtr view(data, new Storage(home), [](void* kept) { delete static_cast<Storage*>(kept); },
                    c10::Device(type));
  c10::Allocator* with = type == c10::kCPU ? c10::GetCPUAllocator() : c10::GetAllocator(c10::kMeta);
  return storage_over(std::move(view), home.nbytes(), with);
}

// A CUDA storage over the bytes of a CPU one, or over nothing where the contents are absent.
inline c10::DataPtr data_home(const Storage& cpu, c10::DeviceIndex device) {
  auto* block = new Block(cpu.nbytes(), device);
  if (void* high = fits_32_bits(cpu.data()) ? high_memory(block) : nullptr) {
    std::memcpy(high, cpu.data(), cpu.nbytes());  // of a result, which nobody else has yet
    return wrap(high, block);
  }
  block->kept = cpu;
  return wrap(cpu.mutable_data(), block);
}

// What a tensor is that is no plain, strided one: the emulated device has memory for those alone.
inline const char* unserved(const Tensor& tensor) {
  if (tensor.is_mkldnn()) return "MKLDNN";
  if (tensor.is_nested() || tensor.layout() == c10::kJagged) return "nested";
  if (tensor.layout() != c10::kStrided) return "sparse";
  return tensor.is_quantized() ? "quantized" : nullptr;
}
[[noreturn]] inline void refuse_kind(const std::string& kind, const std::string& name) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "ptxview: the emulated device has no ", kind, " tensors (", name,
                              "); run this part of the program on the CPU, or on a GPU");
}

inline Tensor tensor_over(const Storage& storage, const Tensor& like, c10::DispatchKey key) {
  c10::DispatchKeySet keys(key);
  if (like._is_zerotensor()) keys = keys.add(c10::DispatchKey::ZeroTensor);  // has no memory
  Tensor made = at::detail::make_tensor<c10::TensorImpl>(Storage(storage), keys, like.dtype());
  auto* impl = made.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  // Operators that read a conjugated or negated view as it is get it as such.
  made._set_conj(like.is_conj());
  made._set_neg(like.is_neg());
  return made;
}

class Crossing {
 public:
  Crossing(c10::DeviceType type, c10::DeviceIndex device, std::shared_ptr<const std::string> why)
      : type_(type), key_(type == c10::kCPU ? c10::DispatchKey::CPU : c10::DispatchKey::Meta),
        device_(device), why_(std::move(why)) {}

  Tensor in(const Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return tensor;
    const bool meta = type_ == c10::kMeta;
    if (!tensor.is_cuda()) {  // a CPU scalar beside CUDA tensors
      return meta && tensor.is_cpu() ? tensor.to(c10::kMeta) : tensor;
    }
    Tensor made = tensor_over(in(tensor.storage()), tensor, key_);
    seen_[made.unsafeGetTensorImpl()] = {made, tensor};
    return made;
  }
  Storage in(const Storage& home) {
    auto* impl = home.unsafeGetStorageImpl();
    auto found = to_.find(impl);
    if (found != to_.end()) return found->second;
    Storage made = away(home, type_);
    to_.emplace(impl, made);
    back_.emplace(made.unsafeGetStorageImpl(), home);
    return made;
  }

  // `force`: the result belongs on the device even though nothing ties it to an argument.
  Tensor out(const Tensor& tensor, bool force, const std::string& name) {
    if (!tensor.defined()) return tensor;
    auto found = seen_.find(tensor.unsafeGetTensorImpl());
    if (found != seen_.end()) return found->second.second;
    if (!force || tensor.device().type() != type_) return tensor;
    if (const char* kind = unserved(tensor)) refuse_kind(kind, name);
    if (!tensor.has_storage()) return tensor;
    return tensor_over(home(tensor.storage()), tensor, c10::DispatchKey::CUDA);
  }

  // Arguments that the call resized or gave another storage.
  void settle() {
    for (auto& [view, home] : back_) {
      if (view->nbytes() == home.nbytes() && (type_ == c10::kMeta || view->data() == home.data())) continue;
      Storage kept(c10::intrusive_ptr<StorageImpl>::reclaim_copy(view));
      home.unsafeGetStorageImpl()->set_data_ptr_noswap(fresh(kept));
      home.unsafeGetStorageImpl()->set_nbytes(view->nbytes());
    }
    for (auto& [key, pair] : seen_) {
      auto& [view, original] = pair;
      auto* impl = original.unsafeGetTensorImpl();
      auto tie = back_.find(view.storage().unsafeGetStorageImpl());
      if (tie == back_.end() || tie->second.unsafeGetStorageImpl() != original.storage().unsafeGetStorageImpl())
        impl->set_storage_keep_dtype(home(view.storage()));
      if (view.sizes() != original.sizes() || view.strides() != original.strides() ||
          view.storage_offset() != original.storage_offset())
        impl->set_sizes_and_strides(view.sizes(), view.strides(), view.storage_offset());
    }
  }

 private:
  c10::DataPtr fresh(const Storage& storage) {
    return type_ == c10::kCPU ? data_home(storage, device_) : reserve(storage.nbytes(), device_, why_);
  }
  Storage home(const Storage& storage) {
    auto found = back_.find(storage.unsafeGetStorageImpl());
    if (found != back_.end()) return found->second;
    Storage made = storage_over(fresh(storage), storage.nbytes(), &allocator);
    back_.emplace(storage.unsafeGetStorageImpl(), made);  // two results over one storage stay so
    keep_.push_back(storage);
    return made;
  }

  c10::DeviceType type_;
  c10::DispatchKey key_;
  c10::DeviceIndex device_;
  std::shared_ptr<const std::string> why_;
  std::map<StorageImpl*, Storage> to_;
  std::map<StorageImpl*, Storage> back_;
  std::map<c10::TensorImpl*, std::pair<Tensor, Tensor>> seen_;
  std::vector<Storage> keep_;
};

}  // namespace ptxview
