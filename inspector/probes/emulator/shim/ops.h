// Operators whose CUDA kernel has no CPU counterpart, written out with ATen's own operators.
#pragma once
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

namespace ptxview {
using at::Tensor;
using OptTensor = std::optional<Tensor>;

inline bool has(const OptTensor& t) { return t && t->defined(); }

// F.rms_norm's backward.
inline std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& grad, const Tensor& x, at::IntArrayRef shape,
                                                    const Tensor& rstd, const OptTensor& weight,
                                                    std::array<bool, 2> wanted) {
  std::vector<int64_t> inner, outer;
  for (int64_t i = 0; i < x.dim(); i++) (i < x.dim() - int64_t(shape.size()) ? outer : inner).push_back(i);
  auto type = rstd.scalar_type();
  Tensor normal = x.to(type) * rstd;
  Tensor weighted = has(weight) ? grad.to(type) * weight->to(type) : grad.to(type);
  Tensor grad_x, grad_weight;
  if (wanted[0]) grad_x = (rstd * (weighted - normal * (weighted * normal).mean(inner, true))).to(x.scalar_type());
  if (wanted[1] && has(weight)) {
    grad_weight = grad.to(type) * normal;
    if (!outer.empty()) grad_weight = grad_weight.sum(outer);
    grad_weight = grad_weight.to(weight->scalar_type());
  }
  return {grad_x, grad_weight};
}

// Products of halves whose results have another type, to which nothing is rounded before.
inline Tensor mm_dtype(const Tensor& a, const Tensor& b, at::ScalarType type) { return a.to(type).mm(b.to(type)); }
inline Tensor bmm_dtype(const Tensor& a, const Tensor& b, at::ScalarType type) { return a.to(type).bmm(b.to(type)); }
inline Tensor addmm_dtype(const Tensor& c, const Tensor& a, const Tensor& b, at::ScalarType type,
                          const at::Scalar& beta, const at::Scalar& alpha) {
  return c.to(type).addmm(a.to(type), b.to(type), beta, alpha);
}
inline Tensor baddbmm_dtype(const Tensor& c, const Tensor& a, const Tensor& b, at::ScalarType type,
                            const at::Scalar& beta, const at::Scalar& alpha) {
  return c.to(type).baddbmm(a.to(type), b.to(type), beta, alpha);
}

// The cells that LSTM and GRU modules use on CUDA without cuDNN.
inline Tensor with_bias(const Tensor& gates, const OptTensor& bias) { return has(bias) ? gates + *bias : gates; }

inline std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                                    const Tensor& cx, const OptTensor& input_bias,
                                                    const OptTensor& hidden_bias) {
  auto parts = (with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias)).chunk(4, 1);
  Tensor in = parts[0].sigmoid(), forget = parts[1].sigmoid(), cell = parts[2].tanh(), out = parts[3].sigmoid();
  Tensor cy = forget * cx + in * cell;
  return {out * cy.tanh(), cy, at::cat({in, forget, cell, out}, 1)};
}
inline std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptTensor& grad_hy, const OptTensor& grad_cy,
                                                             const Tensor& cx, const Tensor& cy,
                                                             const Tensor& workspace, bool has_bias) {
  auto parts = workspace.chunk(4, 1);
  const Tensor &in = parts[0], &forget = parts[1], &cell = parts[2], &out = parts[3];
  Tensor squashed = cy.tanh();
  Tensor gh = has(grad_hy) ? *grad_hy : at::zeros_like(cy);
  Tensor gc = gh * out * (1 - squashed * squashed);
  if (has(grad_cy)) gc = gc + *grad_cy;
  Tensor gates = at::cat({gc * cell * in * (1 - in), gc * cx * forget * (1 - forget),
                          gc * in * (1 - cell * cell), gh * squashed * out * (1 - out)}, 1);
  return {gates, gc * forget, has_bias ? gates.sum(0) : Tensor()};
}
inline std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                           const OptTensor& input_bias, const OptTensor& hidden_bias) {
  auto in = with_bias(input_gates, input_bias).chunk(3, 1);
  auto hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  Tensor reset = (in[0] + hidden[0]).sigmoid(), update = (in[1] + hidden[1]).sigmoid();
  Tensor fresh = (in[2] + reset * hidden[2]).tanh();
  return {fresh + update * (hx - fresh), at::cat({reset, update, fresh, hx, hidden[2]}, 1)};
}
inline std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad, const Tensor& workspace,
                                                                            bool has_bias) {
  auto parts = workspace.chunk(5, 1);
  const Tensor &reset = parts[0], &update = parts[1], &fresh = parts[2], &hx = parts[3], &hidden = parts[4];
  Tensor g_fresh = grad * (1 - update) * (1 - fresh * fresh);
  Tensor g_update = grad * (hx - fresh) * update * (1 - update);
  Tensor g_reset = g_fresh * hidden * reset * (1 - reset);
  Tensor g_input = at::cat({g_reset, g_update, g_fresh}, 1);
  Tensor g_hidden = at::cat({g_reset, g_update, g_fresh * reset}, 1);
  return {g_input, g_hidden, grad * update, has_bias ? g_input.sum(0) : Tensor(),
          has_bias ? g_hidden.sum(0) : Tensor()};
}

}  // namespace ptxview
