// The kernel of every operator at the CUDA dispatch key: the CPU's kernel over the same memory or,
// where an input's value is absent, the meta kernel, whose results are absent as well.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/record_function.h>
#include <torch/library.h>

#include <set>
#include <unordered_set>

#include "hooks.h"
#include "integers.h"
#include "views.h"
#include "wide.h"

namespace ptxview {

using Reason = std::shared_ptr<const std::string>;

// Operators that may have CPU tensors with dimensions beside CUDA ones, as on a GPU.
inline bool mixes_devices(const std::string& name) {
  static const std::unordered_set<std::string> names{
      "aten::copy_", "aten::index", "aten::_unsafe_index", "aten::index_put_", "aten::index_put",
      "aten::_index_put_impl_", "aten::_unsafe_index_put", "aten::set_", "aten::_pack_padded_sequence",
      "aten::_ctc_loss", "aten::_ctc_loss_backward", "aten::is_set_to", "aten::_copy_from", "aten::_copy_from_and_resize", "aten::record_stream"};
  return names.count(name) > 0;
}

// In-place operators that write the whole of their first argument and read none of it.
inline bool overwrites_self(const std::string& name) {
  static const std::unordered_set<std::string> names{
      "aten::copy_", "aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_", "aten::random_",
      "aten::exponential_", "aten::bernoulli_", "aten::log_normal_", "aten::cauchy_", "aten::geometric_"};
  return names.count(name) > 0;
}

inline bool covers_storage(const Tensor& t) {
  return t.is_non_overlapping_and_dense() && t.storage().nbytes() == size_t(t.numel()) * t.element_size();
}

template <class F>
void each_tensor(const c10::IValue& value, F&& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const Tensor& t : value.toTensorVector())
      if (t.defined()) visit(t);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<Tensor>& t : value.toOptionalTensorList())
      if (t && t->defined()) visit(*t);
  } else if (value.isList()) {  // lists of lists: the collectives'
    for (const c10::IValue& element : value.toListRef()) each_tensor(element, visit);
  }
}

// What the arguments of one call say about it.
struct Survey {
  bool any_cuda = false, cpu_with_dims = false, to_cpu = false, cpu_written = false;
  std::set<c10::DeviceIndex> devices;
  std::optional<c10::DeviceIndex> asked;  // a device argument
  c10::DeviceIndex first = -1;
  Reason absent;                           // of a tensor that the call reads
  std::vector<Tensor> written, overwritten;

  Survey(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
    const auto& arguments = schema.arguments();
    const size_t base = stack.size() - arguments.size();
    for (size_t i = 0; i < arguments.size(); i++) {
      const c10::IValue& value = stack[base + i];
      const auto* alias = arguments[i].alias_info();
      const bool write = alias && alias->isWrite();
      const bool overwrite = write && (arguments[i].is_out() || (i == 0 && overwrites_self(schema.name())));
      each_tensor(value, [&](const Tensor& t) {
        if (!t.is_cuda()) {
          cpu_with_dims |= t.is_cpu() && t.dim() > 0;
          cpu_written |= t.is_cpu() && write;
          return;
        }
        any_cuda = true;
        if (first < 0) first = t.device().index();
        if (t.dim() > 0 || devices.empty()) devices.insert(t.device().index());
        if (!t.has_storage()) return;
        if (!absent && !overwrite) absent = absence(t.storage());
        if (write) (overwrite ? overwritten : written).push_back(t);
      });
      if (value.isDevice()) {
        to_cpu |= value.toDevice().is_cpu();
        if (value.toDevice().is_cuda()) asked = cuda(value.toDevice().index()).index();
        TORCH_CHECK(!asked || *asked < device_count, "CUDA error: invalid device ordinal");
      } else if (value.isStorage() && value.toStorage().device().is_cuda()) {
        if (first < 0) first = value.toStorage().device().index();
        if (!absent) absent = absence(value.toStorage());
      }
    }
  }

  // As the kernels of a GPU do: refuse a CPU tensor with dimensions, and a second device.
  void refuse_mixtures(const std::string& name) const {
    if (!any_cuda || mixes_devices(name)) return;
    if (cpu_with_dims)
      TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ",
                  cuda(first), " and cpu! (", name, ")");
    TORCH_CHECK(devices.size() < 2, "Expected all tensors to be on the same device, but found at least two devices, ",
                cuda(*devices.begin()), " and ", cuda(*devices.rbegin()), "! (", name, ")");
  }
};

// While it lives, the CPU's default generator draws the device's: for operators with no generator argument.
struct BorrowedGenerator {
  at::Generator host = at::detail::getDefaultCPUGenerator();
  c10::intrusive_ptr<c10::TensorImpl> saved = host.unsafeGetGeneratorImpl()->get_state();
  explicit BorrowedGenerator(const at::Generator& device) {
    host.unsafeGetGeneratorImpl()->set_state(*next_draw(device).unsafeGetGeneratorImpl()->get_state());
  }
  ~BorrowedGenerator() { host.unsafeGetGeneratorImpl()->set_state(*saved); }
};

[[noreturn]] inline void refuse_absent(const std::string& name, const Reason& why) {
  TORCH_CHECK(false, "ptxview: ", name, " needs a value that is absent: ", *why);
}

inline bool returns_tensors(const c10::FunctionSchema& schema) {
  for (const auto& result : schema.returns())
    if (result.type()->str().find("Tensor") != std::string::npos) return true;
  return schema.returns().empty();
}

// Tensors of one argument or result, each replaced; lists of lists too, which are the collectives'.
template <class F>
c10::IValue replace_tensors(const c10::IValue& value, F&& replace) {
  if (value.isTensor()) return replace(value.toTensor());
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& t : value.toTensorVector()) list.push_back(replace(t));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> list;
    for (const std::optional<Tensor>& t : value.toOptionalTensorList())
      list.push_back(t ? std::optional<Tensor>(replace(*t)) : t);
    return list;
  }
  if (!value.isList()) return value;
  c10::impl::GenericList list(value.toList().elementType());
  for (const c10::IValue& element : value.toListRef()) list.push_back(replace_tensors(element, replace));
  return list;
}

inline void run_elsewhere(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  // The dispatcher has told the profiler of this call: the CPU's kernel below it is not another.
  at::DisableRecordFunctionGuard counted_already;
  const auto& schema = op.schema();
  const std::string& name = schema.name();
  Survey call(schema, *stack);
  call.refuse_mixtures(name);
  const bool meta = call.absent && !call.to_cpu;
  const bool reads = call.to_cpu || call.cpu_written || !returns_tensors(schema) ||
                     op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape);
  if (call.absent && reads) refuse_absent(name, call.absent);

  const auto type = meta ? c10::kMeta : c10::kCPU;
  const c10::DeviceIndex device = call.asked ? *call.asked : call.first >= 0 ? call.first : current_device;
  Crossing crossing(type, device, call.absent);
  const size_t base = stack->size() - schema.arguments().size();
  bool generator_argument = false;
  const bool converts = !meta && name == "aten::copy_" && (*stack)[base + 1].toTensor().is_cuda();
  for (size_t i = base; i < stack->size(); i++) {
    c10::IValue& value = (*stack)[i];
    if (value.isTensor() || value.isList()) {
      value = replace_tensors(value, [&](const Tensor& t) { return crossing.in(t); });
    } else if (value.isStorage()) {
      if (value.toStorage().device().is_cuda()) value = c10::IValue(crossing.in(value.toStorage()));
    } else if (value.isDevice()) {
      value = c10::IValue(c10::Device(type));
    } else if (schema.arguments()[i - base].name() == "generator") {
      generator_argument = true;
      if (value.isGenerator()) {
        TORCH_CHECK(value.toGenerator().device().is_cuda(),
                    "Expected a 'cuda' device type for generator but found 'cpu'");
        value = c10::IValue(next_draw(value.toGenerator()));
      } else if (!meta) {
        value = c10::IValue(next_draw(default_generator(device)));
      }
    }
  }

  const auto key = meta ? c10::DispatchKey::Meta : c10::DispatchKey::CPU;
  std::optional<BorrowedGenerator> borrowed;
  if (!meta && !generator_argument && op.hasTag(at::Tag::nondeterministic_seeded))
    borrowed.emplace(default_generator(device));
  std::optional<Widened> widened;
  std::optional<GuardedDivision> division;
  if (converts) convert_as_device(schema, stack);
  if (!meta) division = GuardedDivision::of(schema, stack);
  if (!meta) widened = Widened::of(schema, stack);
  try {
    op.redispatchBoxed(c10::DispatchKeySet(key), stack);
  } catch (const c10::NotImplementedError& error) {
    if (meta) refuse_absent(name, call.absent);
    const std::string why = error.what_without_backtrace();
    TORCH_CHECK_NOT_IMPLEMENTED(why.find(" not implemented for '") == std::string::npos, why,
                                " (ptxview: the emulated device computes ", name,
                                " by the CPU's kernel; a GPU's may take this type)");
    if (why.rfind("Could not run", 0) != 0) throw;
    TORCH_CHECK_NOT_IMPLEMENTED(false, "ptxview: ", name, " runs on a GPU only: it has no CPU kernel to give its values here");
  }
  borrowed.reset();
  if (widened) widened->narrow(schema, stack);
  if (division) division->complete(*stack);

  crossing.settle();
  for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); i++) {
    c10::IValue& value = (*stack)[i];
    value = replace_tensors(value, [&](const Tensor& t) { return crossing.out(t, !call.to_cpu, name); });
  }
  if (meta) {
    for (const auto* group : {&call.written, &call.overwritten})
      for (const Tensor& t : *group)
        if (Block* block = block_of(t.storage())) block->absent = call.absent;
  } else {
    for (const Tensor& t : call.overwritten)
      if (covers_storage(t))
        if (Block* block = block_of(t.storage())) block->absent = nullptr;
  }
}

}  // namespace ptxview
