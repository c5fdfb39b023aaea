// Fused attention: chosen as a GPU of the target's architecture would choose it, so that compiled
// graphs are those of a GPU; computed in fp32 with ATen's own operators.
#pragma once
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>

#include <cctype>

#include "hooks.h"

namespace ptxview {
using at::Tensor;
using OptTensor = std::optional<Tensor>;

enum Attention : int64_t { kMath = 0, kFlash = 1, kEfficient = 2 };

// 90 for sm_90a.
inline const int target_number = [] {
  const char* text = std::getenv("PTXVIEW_TARGET");
  while (text && *text && !std::isdigit(static_cast<unsigned char>(*text))) text++;
  return text ? std::atoi(text) : 0;
}();

inline bool last_dim_dense(const Tensor& t) { return t.stride(-1) == 1; }

// The rules of sdp_utils.cpp that look at dtypes and shapes.
inline int64_t choose_attention(const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& mask, double,
                                bool causal, std::optional<double>, bool gqa) {
  auto& context = at::globalContext();
  const bool plain = q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && q.scalar_type() == k.scalar_type() &&
                     q.scalar_type() == v.scalar_type() && q.layout() == c10::kStrided && q.size(2) > 0 &&
                     k.size(2) > 0 && last_dim_dense(q) && last_dim_dense(k) && last_dim_dense(v) &&
                     q.size(0) == k.size(0) && q.size(0) == v.size(0);
  if (!plain) return kMath;
  const bool masked = mask && mask->defined();
  const bool half = q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16;
  const bool heads = q.size(1) == k.size(1) && q.size(1) == v.size(1);
  const bool grouped = gqa && k.size(1) == v.size(1) && q.size(1) % k.size(1) == 0;
  if (context.userEnabledFlashSDP() && target_number >= 80 && half && !masked && (heads || grouped) &&
      q.size(3) == k.size(3) && q.size(3) == v.size(3) && q.size(3) <= 256 && !(causal && q.size(2) != k.size(2)))
    return kFlash;
  const int64_t align = half ? (target_number >= 80 ? 8 : 4) : (target_number >= 80 ? 4 : 1);
  const bool kind = q.scalar_type() == at::kFloat || q.scalar_type() == at::kHalf ||
                    (q.scalar_type() == at::kBFloat16 && target_number >= 80);
  if (context.userEnabledMemEfficientSDP() && kind && heads && q.size(3) == k.size(3) && q.size(3) % align == 0 &&
      v.size(3) % align == 0 && (!masked || !mask->requires_grad() || mask->scalar_type() == q.scalar_type()))
    return kEfficient;
  return kMath;
}

// One attention in fp32: scores, their logsumexp, probabilities, and the mask of dropout.
struct Attending {
  Tensor q, k, v, scores, keep;
  double scale, kept;
  int64_t groups;

  Attending(const Tensor& query, const Tensor& key, const Tensor& value, const OptTensor& bias, bool causal,
            std::optional<double> factor, double dropout, uint64_t seed)
      : q(query.to(at::kFloat)), k(key.to(at::kFloat)), v(value.to(at::kFloat)), kept(1.0 - dropout),
        groups(query.size(1) / key.size(1)) {
    if (groups > 1) {
      k = k.repeat_interleave(groups, 1);
      v = v.repeat_interleave(groups, 1);
    }
    scale = factor.value_or(1.0 / std::sqrt(double(query.size(-1))));
    scores = at::matmul(q, k.transpose(-2, -1)) * scale;
    if (bias && bias->defined()) {
      scores = bias->scalar_type() == at::kBool ? scores.masked_fill(bias->logical_not(), -INFINITY)
                                                : scores + bias->to(at::kFloat);
    }
    if (causal) {
      auto allowed = at::ones({scores.size(-2), scores.size(-1)}, scores.options().dtype(at::kBool)).tril();
      scores = scores.masked_fill(allowed.logical_not(), -INFINITY);
    }
    if (dropout > 0) {
      auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
      auto drawn = at::empty(scores.sizes(), at::dtype(at::kFloat).device(at::kCPU)).bernoulli_(kept, generator);
      keep = drawn.to(scores.device()) / kept;
    }
  }
  Tensor dropped(const Tensor& t) const { return keep.defined() ? t * keep : t; }
  // Rows in which everything is masked give zeros, as the fused kernels do.
  Tensor forward() const { return at::matmul(dropped(at::nan_to_num(scores.softmax(-1))), v); }
  Tensor logsumexp() const { return scores.logsumexp(-1); }

  struct Gradients {
    Tensor q, k, v, scores;
  };
  Gradients backward(const Tensor& grad, const Tensor& out, const Tensor& lse) const {
    Tensor g = grad.to(at::kFloat);
    Tensor p = at::nan_to_num((scores - lse.unsqueeze(-1)).exp());
    Tensor dv = at::matmul(dropped(p).transpose(-2, -1), g);
    Tensor dp = dropped(at::matmul(g, v.transpose(-2, -1)));
    Tensor ds = p * (dp - (g * out.to(at::kFloat)).sum(-1, true));
    Tensor dq = at::matmul(ds, k) * scale, dk = at::matmul(ds.transpose(-2, -1), q) * scale;
    return {dq, ungrouped(dk), ungrouped(dv), ds};
  }
  Tensor ungrouped(const Tensor& t) const {
    return groups > 1 ? t.unflatten(1, {t.size(1) / groups, groups}).sum(2) : t;
  }
};

inline Tensor shaped_like(const Tensor& like, const Tensor& value) { return at::empty_like(like).copy_(value); }
inline Tensor as_heads(const Tensor& value, at::ScalarType type) {  // (B, M, H, K) seen as (B, H, M, K)
  return value.to(type).transpose(1, 2).contiguous().transpose(1, 2);
}
inline uint64_t drawn_seed(double dropout, const Tensor& q) {
  if (dropout <= 0) return 0;
  auto generator = next_draw(default_generator(q.device().index()));
  return uint64_t(at::randint(int64_t(1) << 62, {1}, generator, at::dtype(at::kLong).device(at::kCPU)).item<int64_t>());
}

using Flash = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;
inline Flash flash_attention(const Tensor& q, const Tensor& k, const Tensor& v, double dropout, bool causal, bool debug,
                             std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(!debug, "ptxview: attention's debug mask runs on a GPU only");
  const uint64_t seed = drawn_seed(dropout, q);
  Attending a(q, k, v, std::nullopt, causal, scale, dropout, seed);
  Tensor state = at::full({2}, int64_t(seed), q.options().dtype(at::kLong)).view(at::kUInt64);
  return {shaped_like(q, a.forward()), a.logsumexp(), Tensor(), Tensor(), q.size(2), k.size(2), state,
          at::empty({}, q.options().dtype(at::kUInt64)), at::empty({0}, q.options())};
}
inline std::tuple<Tensor, Tensor, Tensor> flash_attention_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& lse,
    const Tensor&, const Tensor&, c10::SymInt, c10::SymInt, double dropout, bool causal, const Tensor& state,
    const Tensor&, std::optional<double> scale) {
  const uint64_t seed = dropout > 0 ? uint64_t(state.view(at::kLong)[0].item<int64_t>()) : 0;
  Attending a(q, k, v, std::nullopt, causal, scale, dropout, seed);
  auto g = a.backward(grad, out, lse);
  return {shaped_like(q, g.q), shaped_like(k, g.k), shaped_like(v, g.v)};
}

inline std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_attention(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& bias, bool with_lse, double dropout,
    bool causal, std::optional<double> scale) {
  const uint64_t seed = drawn_seed(dropout, q);
  Attending a(q, k, v, bias, causal, scale, dropout, seed);
  const int64_t rows = q.size(2), padded = (rows + 31) / 32 * 32;
  Tensor lse = with_lse ? at::constant_pad_nd(a.logsumexp(), {0, padded - rows}, INFINITY)
                        : at::empty({q.size(0), q.size(1), 0}, q.options().dtype(at::kFloat));
  auto whole = at::dtype(at::kLong).device(at::kCPU);
  return {as_heads(a.forward(), q.scalar_type()), lse, at::full({}, int64_t(seed), whole), at::zeros({}, whole)};
}
inline std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_attention_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const Tensor& out,
    const Tensor& lse, const Tensor& seed, const Tensor&, double dropout, std::array<bool, 4> wanted, bool causal,
    std::optional<double> scale) {
  if (!grad.defined()) return {};
  Attending a(q, k, v, bias, causal, scale, dropout, dropout > 0 ? uint64_t(seed.item<int64_t>()) : 0);
  auto g = a.backward(grad, out, lse.narrow(-1, 0, q.size(2)));
  Tensor grad_bias;
  if (wanted[3] && bias.defined()) grad_bias = at::sum_to(g.scores, bias.sizes()).to(bias.scalar_type());
  return {as_heads(g.q, q.scalar_type()), as_heads(g.k, k.scalar_type()), as_heads(g.v, v.scalar_type()), grad_bias};
}

}  // namespace ptxview
