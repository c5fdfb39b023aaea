// Operators whose CPU kernel sums in half precision where the GPU's sums in single precision: they
// are given single precision here, so that a reference is no less exact than on a GPU.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ptxview {

// By operator, the arguments whose type its results have; WIDE is single precision.
constexpr int WIDE = -1;
inline const std::vector<int>* sums_in_half(const std::string& name) {
  static const std::unordered_map<std::string, std::vector<int>> results{
      {"aten::native_layer_norm", {0, WIDE, WIDE}},
      {"aten::native_layer_norm_backward", {1, 5, 6}},
      {"aten::prod", {0}},
      {"aten::nll_loss_forward", {0, 0}},
      {"aten::nll_loss2d_forward", {0, 0}},
      {"aten::embedding_dense_backward", {0}},
      {"aten::_embedding_bag_dense_backward", {0}},
      {"aten::index_put", {0}},
      {"aten::index_put_", {0}},
      {"aten::_index_put_impl_", {0}},
      {"aten::_unsafe_index_put", {0}}};
  auto found = results.find(name);
  return found == results.end() ? nullptr : &found->second;
}

// One call whose arguments of half precision were replaced by single precision.
class Widened {
 public:
  // Nothing where the call is not such a one, or says itself in which type it is to sum.
  static std::optional<Widened> of(const c10::FunctionSchema& schema, torch::jit::Stack* stack) {
    const std::vector<int>* types = sums_in_half(schema.name());
    if (!types) return std::nullopt;
    const auto& arguments = schema.arguments();
    Widened call;
    call.base_ = stack->size() - arguments.size();
    bool half = false;
    for (size_t i = 0; i < arguments.size(); i++) {
      const c10::IValue& value = (*stack)[call.base_ + i];
      const std::string& name = arguments[i].name();
      if (arguments[i].is_out() || (name == "dtype" && !value.isNone())) return std::nullopt;
      if (name == "accumulate" && !value.toBool()) return std::nullopt;
      half |= value.isTensor() && is_half(value.toTensor());
    }
    if (!half) return std::nullopt;
    for (int from : *types) {
      const c10::IValue* value = from == WIDE ? nullptr : &(*stack)[call.base_ + size_t(from)];
      const bool known = value && value->isTensor() && value->toTensor().defined();
      call.types_.push_back(known ? value->toTensor().scalar_type() : at::kFloat);
    }
    for (size_t i = 0; i < arguments.size(); i++) {
      c10::IValue& value = (*stack)[call.base_ + i];
      if (!value.isTensor() || !is_half(value.toTensor())) continue;
      const auto* alias = arguments[i].alias_info();
      at::Tensor wide = value.toTensor().to(at::kFloat);
      if (alias && alias->isWrite()) call.written_.emplace_back(value.toTensor(), wide);
      value = wide;
    }
    return call;
  }

  // Gives the results, and what was written, the types that the caller expects.
  void narrow(const c10::FunctionSchema& schema, torch::jit::Stack* stack) const {
    for (const auto& [narrow, wide] : written_) narrow.copy_(wide);
    const size_t first = stack->size() - schema.returns().size();
    for (size_t i = 0; i < types_.size() && first + i < stack->size(); i++) {
      c10::IValue& value = (*stack)[first + i];
      if (!value.isTensor() || !value.toTensor().defined()) continue;
      const at::Tensor result = value.toTensor();
      value = result.to(types_[i]);
      for (const auto& [narrow, wide] : written_)
        if (wide.is_same(result)) value = narrow;
    }
  }

 private:
  static bool is_half(const at::Tensor& t) {
    return t.defined() && (t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16);
  }
  size_t base_ = 0;
  std::vector<at::ScalarType> types_;
  std::vector<std::pair<at::Tensor, at::Tensor>> written_;
};

}  // namespace ptxview
