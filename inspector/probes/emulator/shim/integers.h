// Integers where ATen's CUDA kernels give another value than its CPU kernels: a divisor of zero, where
// the CPU raises, the least integer divided by -1, where it traps, and floats that no integer holds.
#pragma once
#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <optional>
#include <string>

namespace ptxview {

enum class Division { None, Truncating, Floor, Remainder };

inline Division division_of(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
  std::string name = schema.name();
  if (name.back() == '_') name.pop_back();
  if (name == "aten::floor_divide") return Division::Floor;
  if (name == "aten::remainder" || name == "aten::fmod") return Division::Remainder;
  const auto mode = schema.argumentIndexWithName("rounding_mode");
  if (name != "aten::div" || !mode) return Division::None;
  const c10::IValue& value = stack[stack.size() - schema.arguments().size() + size_t(*mode)];
  if (value.isNone()) return Division::None;
  return value.toStringRef() == "floor" ? Division::Floor : Division::Truncating;
}

inline at::Tensor operand_of(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor();
  at::Tensor scalar = c10::scalar_to_tensor(value.toScalar());
  scalar.unsafeGetTensorImpl()->set_wrapped_number(true);
  return scalar;
}

// What a GPU's division gives for a divisor of zero. The routines that ptxas puts in place of div and
// rem set all bits. nvcc divides 64 bits whose upper halves are 0 as 32, and extends the result with
// zeros. c10::div_floor_integer gives 0 (torch 2.13); of uint8, ATen's floor is the truncating kernel.
inline at::Tensor divided_by_zero(const at::Tensor& dividend, Division kind) {
  if (kind == Division::Floor && dividend.scalar_type() != at::kByte) return at::zeros_like(dividend);
  at::Tensor ones = at::full_like(dividend, dividend.scalar_type() == at::kByte ? 255 : -1);
  if (dividend.scalar_type() != at::kLong) return ones;
  return at::where(dividend.__rshift__(32).eq(0), 0xFFFFFFFFll, ones);
}

inline at::Scalar least_of(at::ScalarType type) {
  return type == at::kLong ? std::numeric_limits<int64_t>::min() : -(int64_t(1) << (8 * at::elementSize(type) - 1));
}

// One call that divides integers, with divisors that the CPU refuses replaced by 1.
class GuardedDivision {
 public:
  static std::optional<GuardedDivision> of(const c10::FunctionSchema& schema, torch::jit::Stack* stack) {
    const Division kind = division_of(schema, *stack);
    if (kind == Division::None) return std::nullopt;
    c10::IValue* arguments = stack->data() + stack->size() - schema.arguments().size();
    if (!arguments[1].isTensor()) return std::nullopt;
    const at::Tensor first = operand_of(arguments[0]), second = arguments[1].toTensor();
    const at::ScalarType type = at::result_type(first, second);
    const bool is_signed = type == at::kChar || type == at::kShort || type == at::kInt || type == at::kLong;
    if (!is_signed && type != at::kByte) return std::nullopt;
    const at::Tensor dividend = first.to(type), divisor = second.to(type);
    GuardedDivision call;
    call.replaced_ = divisor.eq(0);
    call.value_ = divided_by_zero(dividend, kind);
    if (is_signed) {
      const at::Tensor overflow = divisor.eq(-1).logical_and(dividend.eq(least_of(type)));
      call.replaced_ = call.replaced_.logical_or(overflow);
      const at::Tensor wrapped = kind == Division::Remainder ? at::zeros_like(dividend) : dividend;
      call.value_ = at::where(overflow, wrapped, call.value_);
    }
    if (!call.replaced_.any().item<bool>()) return std::nullopt;
    arguments[1] = at::where(call.replaced_, 1, divisor);
    return call;
  }

  void complete(const torch::jit::Stack& stack) const {
    const at::Tensor result = stack.back().toTensor();
    result.copy_(at::where(replaced_, value_, result));
  }

 private:
  at::Tensor replaced_, value_;
};

// The integer type that nvcc converts floats to for a cast in c10: small types are cut from it.
struct ConvertedType {
  double low, above;  // the range, its upper end excluded
  int64_t greatest, nan;
  static ConvertedType of(at::ScalarType to, bool from_double) {
    constexpr double two32 = 4294967296.0, two63 = 9223372036854775808.0;
    constexpr int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
    switch (to) {
      case at::kByte:  // by way of int64, as c10 says
      case at::kLong: return {-two63, two63, most, least};
      case at::kUInt64: return {0, 2 * two63, -1, least};
      case at::kUInt16:
      case at::kUInt32: return {0, two32, 0xFFFFFFFFll, from_double ? 0x80000000ll : 0};
      default: return {-two32 / 2, two32 / 2, 0x7FFFFFFFll, from_double ? -0x80000000ll : 0};
    }
  }
};

// Floats as cvt.rzi converts them (PTX ISA, "cvt"): clamped, a NaN to the number that its table has.
inline at::Tensor converted_on_device(const at::Tensor& floats, at::ScalarType to) {
  const ConvertedType type = ConvertedType::of(to, floats.scalar_type() == at::kDouble);
  const at::Tensor whole = floats.to(at::kDouble).trunc();
  const at::Tensor nan = whole.isnan(), over = whole.ge(type.above);
  const double bottom = type.low;
  at::Tensor inside = whole.masked_fill(nan.logical_or(over), 0).clamp_min(bottom);
  at::Tensor result;
  if (to == at::kUInt64) {
    const at::Tensor upper = inside.ge(type.above / 2);
    const at::Tensor lower = at::where(upper, inside - type.above / 2, inside).to(at::kLong);
    result = at::where(upper, lower.__xor__(std::numeric_limits<int64_t>::min()), lower);
  } else {
    result = inside.to(at::kLong);
  }
  return result.masked_fill(over, type.greatest).masked_fill(nan, type.nan);
}

// copy_(target, source): a float tensor on the device is converted there, on its way to any device.
inline void convert_as_device(const c10::FunctionSchema& schema, torch::jit::Stack* stack) {
  c10::IValue* arguments = stack->data() + stack->size() - schema.arguments().size();
  const at::ScalarType to = arguments[0].toTensor().scalar_type();
  const at::Tensor source = arguments[1].toTensor();
  if (at::isIntegralType(to, false) && at::isFloatingType(source.scalar_type()))
    arguments[1] = converted_on_device(source, to);
}

// Counts of integers, in bins by integer division as the CUDA kernel has it; the CPU counts floats only.
inline at::Tensor histogram_of_integers(const at::Tensor& values, int64_t bins, int64_t low, int64_t high) {
  TORCH_CHECK(bins > 0, "bins must be > 0");
  const at::Tensor flat = values.reshape(-1).to(at::kLong);
  if (low == high && flat.numel()) {
    low = flat.min().item<int64_t>();
    high = flat.max().item<int64_t>();
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  TORCH_CHECK(low < high, "max must be larger than min");
  const at::Tensor inside = flat.ge(low).logical_and(flat.le(high));
  const at::Tensor kept = flat.masked_select(inside);
  const at::Tensor bin = (kept - low).mul(bins).floor_divide(high - low).clamp_max(bins - 1);
  const at::Tensor counts = flat.new_zeros({bins}).scatter_add(0, bin, at::ones_like(bin));
  return counts.to(values.scalar_type());
}

}  // namespace ptxview
