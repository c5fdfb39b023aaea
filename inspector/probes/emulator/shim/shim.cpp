// CUDA tensors over host memory, for a machine with no GPU.  Loaded before `import torch`; what it
// registers makes `device="cuda"` genuine to ATen, autograd, autocast and C++ extensions, while
// every operator's values come from the CPU's kernel over the same bytes.

// Of ATen's thousands of functions only those that are named here: half of the time to compile.
#define AT_PER_OPERATOR_HEADERS
#include <ATen/native/transformers/attention.h>

#include <cstdio>
#include <set>
#include <tuple>

#include "attention.h"
#include "fallback.h"
#include "guard.h"
#include "hooks.h"
#include "ops.h"

namespace ptxview {

static std::mutex leased_lock;
static auto& leased = *new std::map<void*, c10::DataPtr>;

struct ByName {
  bool operator()(const c10::OperatorName& a, const c10::OperatorName& b) const {
    return std::tie(a.name, a.overload_name) < std::tie(b.name, b.overload_name);
  }
};

// Above the CUDA build's own allocator.
static const int allocator_set = (c10::SetAllocator(c10::DeviceType::CUDA, &allocator, 200), 0);

// On a CUDA build of torch, every kernel that libtorch_cuda has put at the CUDA key is replaced.
// A CPU build has none, and an operator with a form that writes into `out` would call that one,
// by the same name: it gets a kernel as well, so that a call is one call to a profiler.
static const size_t replaced = [] {
  struct Quiet final : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  } quiet;
  c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  static auto& held = *new std::vector<c10::RegistrationHandleRAII>;
  auto& dispatcher = c10::Dispatcher::singleton();
  std::set<c10::OperatorName, ByName> names;
  for (auto key : {c10::DispatchKey::CUDA, c10::DispatchKey::CompositeExplicitAutogradNonFunctional})
    for (auto& name : dispatcher.getRegistrationsForDispatchKey(key)) names.insert(name);
  for (auto& name : names)
    held.push_back(dispatcher.registerImpl(name, c10::DispatchKey::CUDA,
                                           c10::KernelFunction::makeFromBoxedFunction<&run_elsewhere>(),
                                           std::nullopt, nullptr, "ptxview"));
  return held.size();
}();

static const int attention_set = [] {
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose_attention);
  return 0;
}();

// Whether cuDNN or MIOpen computes this call: there is none, and ATen's own kernel takes its place.
void answer_no(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  torch::jit::drop(*stack, op.schema().arguments().size());
  stack->emplace_back(false);
}

void count_in_bins(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::IValue* arguments = stack->data() + stack->size() - op.schema().arguments().size();
  const Tensor values = arguments[0].toTensor();
  if (!at::isIntegralType(values.scalar_type(), false)) return run_elsewhere(op, stack);
  const Tensor counts = histogram_of_integers(values, arguments[1].toInt(), arguments[2].toScalar().toLong(),
                                              arguments[3].toScalar().toLong());
  torch::jit::drop(*stack, op.schema().arguments().size());
  stack->emplace_back(counts);
}

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_elsewhere>());
}
TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  // Composite kernels that look up a stub by device themselves, and would find none for CUDA, and
  // those that replace kernels of a GPU: their results have other types.
  for (const char* name : {"copy_", "convolution", "convolution_backward", "resize_", "nonzero_static",
                           "native_layer_norm", "native_group_norm"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_elsewhere>());
  for (const char* name : {"_use_cudnn_ctc_loss", "_use_cudnn_ctc_loss.Tensor", "_use_miopen_ctc_loss",
                           "_use_miopen_ctc_loss.Tensor"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&answer_no>());
  library.impl("histc", torch::CppFunction::makeFromBoxedFunction<&count_in_bins>());
  library.impl("record_stream", [](Tensor&, c10::Stream) {});
  library.impl("_fused_rms_norm_backward", rms_norm_backward);
  library.impl("_fused_sdp_choice", [](const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& mask,
                                       double dropout, bool causal, std::optional<double> scale, bool gqa) {
    return choose_attention(q, k, v, mask, dropout, causal, scale, gqa);
  });
  library.impl("_scaled_dot_product_flash_attention", flash_attention);
  library.impl("_scaled_dot_product_flash_attention_backward", flash_attention_backward);
  library.impl("_scaled_dot_product_efficient_attention", efficient_attention);
  library.impl("_scaled_dot_product_efficient_attention_backward", efficient_attention_backward);
  library.impl("mm.dtype", mm_dtype);
  library.impl("bmm.dtype", bmm_dtype);
  library.impl("addmm.dtype", addmm_dtype);
  library.impl("baddbmm.dtype", baddbmm_dtype);
  library.impl("_thnn_fused_lstm_cell", lstm_cell);
  library.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  library.impl("_thnn_fused_gru_cell", gru_cell);
  library.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
}

// Otherwise torch would explain a missing kernel by its CPU build.
template <int Kind>
void refuse_backend(const c10::OperatorHandle& op, torch::jit::Stack*) {
  static const char* const KINDS[] = {"sparse", "quantized", "nested"};
  refuse_kind(KINDS[Kind], op.schema().name());
}
TORCH_LIBRARY_IMPL(_, SparseCUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_backend<0>>());
}
TORCH_LIBRARY_IMPL(_, SparseCsrCUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_backend<0>>());
}
TORCH_LIBRARY_IMPL(_, QuantizedCUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_backend<1>>());
}
TORCH_LIBRARY_IMPL(_, NestedTensorCUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_backend<2>>());
}

TORCH_LIBRARY(ptxview_target, library) {
  library.def("default_generator",  // torch versions disagree on its schema: it is inferred
              [](int64_t index) { return default_generator(c10::DeviceIndex(index)); });
  library.def("new_generator", [](int64_t index) {
    return at::make_generator<CudaGenerator>(c10::DeviceIndex(index));
  });
  library.def("resize_storage", [](const Tensor& over, int64_t bytes) {
    Storage storage = over.storage();
    TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
    c10::DataPtr data = allocate(size_t(bytes), storage.device().index());
    if (auto* block = data.cast_context<Block>(&Block::release)) block->absent = absence(storage);
    if (const size_t kept = std::min(size_t(bytes), storage.nbytes())) std::memcpy(data.get(), storage.data(), kept);
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(data));
    storage.unsafeGetStorageImpl()->set_nbytes(size_t(bytes));
  });
}

}  // namespace ptxview

extern "C" {
int ptxview_get_device() { return ptxview::current_device; }
void ptxview_set_device(int index) { ptxview::current_device = c10::DeviceIndex(index); }
int64_t ptxview_get_stream(int device) { return ptxview::current_stream[device]; }
void ptxview_set_stream(int device, int64_t id) { ptxview::current_stream[device] = id; }
// The memory that holds the bytes [from, to): its bounds, and 1 where there is such.
int ptxview_range(uint64_t from, uint64_t to, uint64_t* start, uint64_t* end) {
  auto found = ptxview::ranges().find(from, to);
  *start = found.first;
  *end = found.second;
  return found.second != 0;
}
// Where each piece of device memory starts and ends, as many as fit; how many there are.
int64_t ptxview_ranges(uint64_t* starts, uint64_t* ends, int64_t most) {
  std::lock_guard<std::mutex> held(ptxview::ranges().lock);
  int64_t i = 0;
  for (auto& [start, range] : ptxview::ranges().by_start) {
    if (i == most) break;
    starts[i] = start;
    ends[i++] = range.end;
  }
  return int64_t(ptxview::ranges().by_start.size());
}
// Why the memory at the address is absent, cut to so many bytes; 0 where it is there.
int ptxview_absence_at(uint64_t address, char* why, int64_t most) {
  std::lock_guard<std::mutex> held(ptxview::ranges().lock);
  auto range = ptxview::ranges().around(address, address + 1);
  if (range == ptxview::ranges().by_start.end() || !range->second.block->absent) return 0;
  std::snprintf(why, size_t(most), "%s", range->second.block->absent->c_str());
  return 1;
}
void ptxview_mark_absent_at(uint64_t address, const char* why) {
  std::lock_guard<std::mutex> held(ptxview::ranges().lock);
  auto range = ptxview::ranges().around(address, address + 1);
  if (range != ptxview::ranges().by_start.end())
    range->second.block->absent = std::make_shared<const std::string>(why);
}
// Device memory that is no tensor's: cudaMalloc of extensions.
void* ptxview_allocate(uint64_t bytes) {
  c10::DataPtr data = ptxview::allocator.allocate(bytes);
  void* pointer = data.get();
  std::lock_guard<std::mutex> held(ptxview::leased_lock);
  ptxview::leased[pointer] = std::move(data);
  return pointer;
}
int ptxview_release(void* pointer) {
  c10::DataPtr data;  // released after the lock
  std::lock_guard<std::mutex> held(ptxview::leased_lock);
  auto one = ptxview::leased.find(pointer);
  if (one == ptxview::leased.end()) return 0;
  data = std::move(one->second);
  ptxview::leased.erase(one);
  return 1;
}
// Pinned memory of the host that holds the address: its bounds, and 1 where there is such.
int ptxview_pinned_range(uint64_t address, uint64_t* start, uint64_t* end) {
  std::lock_guard<std::mutex> held(ptxview::Pinned::lock);
  auto after = ptxview::Pinned::ranges.upper_bound(reinterpret_cast<const char*>(address));
  if (after == ptxview::Pinned::ranges.begin()) return 0;
  auto range = std::prev(after);
  *start = reinterpret_cast<uint64_t>(range->first);
  *end = *start + range->second;
  return address < *end;
}
// 0 current bytes, 1 peak bytes, 2 bytes ever allocated, 3 bytes ever freed, 4 blocks, 5 most blocks
int64_t ptxview_memory(int device, int what) {
  auto& m = ptxview::memory[device];
  const std::atomic<int64_t>* figures[] = {&m.current, &m.peak, &m.allocated, &m.freed, &m.blocks, &m.peak_blocks};
  return figures[what]->load();
}
void ptxview_reset_peak(int device) {
  auto& m = ptxview::memory[device];
  m.peak = m.current.load();
  m.peak_blocks = m.blocks.load();
}
}
