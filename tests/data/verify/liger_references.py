"""Liger's Triton kernels with references for ``ptxview verify``.

    ptxview verify tests/data/verify/liger_references.py [FAULT…]

FAULT is a row of ``FAULTS``: a text of one kernel is replaced by another, and that kernel alone is
not explained. Each reference takes the kernel's arguments by their names, and returns what it is to
have written, and rounds to the dtypes of the arguments where the kernel does.
"""

import importlib
import importlib.util
import inspect
import sys
import tempfile
from pathlib import Path

import torch
from torch.nn import functional

import inspector

FAULTS = {
    "rms_norm_mean": ("rms_norm", "tl.sum(X_row * X_row, axis=0) / n_cols", "tl.sum(X_row * X_row, axis=0) / (n_cols - 1)"),
    "swiglu_gradient": ("swiglu", "silu_a * (1 - sig_a) + sig_a", "silu_a * (1 - sig_a)"),
    "geglu_constant": ("geglu", "(a_row + 0.044715 * a_cubed)\n    tanh_result = tanh(tanh_arg)\n    geglu_a = 0.5 * a_row * (1 + tanh_result)\n    c_row", "(a_row + 0.04715 * a_cubed)\n    tanh_result = tanh(tanh_arg)\n    geglu_a = 0.5 * a_row * (1 + tanh_result)\n    c_row"),
    "rope_sign": ("rope", "new_k_tile_2 = k_tile_2 * cos_row + k_tile_1 * sin_row", "new_k_tile_2 = k_tile_2 * cos_row - k_tile_1 * sin_row"),
    "layer_norm_mask": ("layer_norm", "X_centered_masked = tl.where(mask, X_centered, 0.0)", "X_centered_masked = X_centered"),
    "cross_entropy_log": ("cross_entropy", "lse = m + tl.log(d)", "lse = m + tl.log(d + 1e-3)"),
    "softmax_gradient": ("softmax", "dx = y * (dy - dot)\n", "dx = y * dy - dot\n"),
}  # fmt: skip
"""By name: a module of ``liger_kernel.ops``, a text of its source, and what replaces it."""
KERNELS = {
    "rms_norm": ("_rms_norm_forward_kernel", "_rms_norm_backward_kernel"),
    "swiglu": ("_swiglu_forward_kernel", "_swiglu_backward_kernel"),
    "geglu": ("_geglu_tanh_forward_kernel", "_geglu_tanh_backward_kernel"),
    "rope": ("_triton_rope",),
    "layer_norm": ("_layer_norm_forward_kernel", "_layer_norm_backward_kernel"),
    "cross_entropy": ("liger_cross_entropy_kernel",),
    "softmax": ("_softmax_single_block_forward_kernel", "_softmax_single_block_backward_kernel"),
}


def rms_norm_forward(X_ptr, W_ptr, eps, offset, casting_mode):
    x = X_ptr if casting_mode == -1 else X_ptr.float()
    rstd = torch.rsqrt((x * x).mean(-1) + eps)
    y = x * rstd[:, None]
    weight = W_ptr.float() if casting_mode == 1 else W_ptr
    if casting_mode == 0:
        y = y.to(X_ptr.dtype)
    return {"Y_ptr": y * (offset + weight), "RSTD_ptr": rstd}


def rms_norm_backward(
    dY_ptr, X_ptr, W_ptr, RSTD_ptr, dW_ptr, rows_per_program, n_cols, offset, casting_mode
):
    x = X_ptr.float()
    rstd = RSTD_ptr.float()[:, None]
    gradient = dY_ptr.float() * (W_ptr.float() + offset)
    dx = rstd * gradient - rstd**3 / n_cols * (gradient * x).sum(-1, keepdim=True) * x
    normed = x * rstd
    if casting_mode == 0:
        normed = normed.to(X_ptr.dtype)
    return {
        "dX_ptr": dx,
        "dW_ptr": by_programs(dY_ptr.float() * normed, dW_ptr, rows_per_program),
    }


def by_programs(rows, out, rows_per_program):
    """Sums of the rows of each program; programs beyond the last row have none."""
    padding = out.shape[0] * rows_per_program - rows.shape[0]
    return functional.pad(rows, (0, 0, 0, padding)).unflatten(0, (out.shape[0], -1)).sum(1)


def swiglu_forward(a_ptr, b_ptr, gate_multiplier):
    return functional.silu(a_ptr.float() * gate_multiplier).to(b_ptr.dtype) * b_ptr


def swiglu_backward(dc_ptr, a_ptr, b_ptr, gate_multiplier):
    a, b = (tensor.detach().float().requires_grad_() for tensor in (a_ptr, b_ptr))
    c = functional.silu(a * gate_multiplier) * b
    return torch.autograd.grad(c, (a, b), dc_ptr.float())


def geglu_forward(a, b):
    return functional.gelu(a.float(), approximate="tanh").to(b.dtype) * b


def geglu_backward(dc, a, b):
    x = a.detach().float().requires_grad_()
    gated = functional.gelu(x, approximate="tanh")
    (da,) = torch.autograd.grad(gated, x, (dc * b).float())
    return da, dc.float() * gated.detach().to(dc.dtype)


def rope(q_ptr, k_ptr, cos, sin, BACKWARD_PASS):
    half = cos.shape[-1] // 2
    cosine = cos[..., None, :half]
    sine = sin[..., None, :half] * (-1 if BACKWARD_PASS else 1)

    def rotated(x):
        first, second = x[..., :half], x[..., half:]
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)

    return rotated(q_ptr), rotated(k_ptr)


def layer_norm_forward(X_ptr, W_ptr, B_ptr, eps):
    x = X_ptr.float()
    mean = x.mean(-1)
    rstd = torch.rsqrt(x.var(-1, correction=0) + eps)
    y = (x - mean[:, None]) * rstd[:, None] * W_ptr.float() + B_ptr.float()
    return y, mean, rstd


def layer_norm_backward(
    X_ptr, W_ptr, Mean_ptr, RSTD_ptr, DW_ptr, DB_ptr, DY_ptr, rows_per_program
):
    normed = (X_ptr.float() - Mean_ptr[:, None]) * RSTD_ptr[:, None]
    dy = DY_ptr.float()
    weighted = dy * W_ptr.float()
    inner = (normed * weighted).mean(-1, keepdim=True) * normed
    return {
        "DX_ptr": (weighted - inner - weighted.mean(-1, keepdim=True)) * RSTD_ptr[:, None],
        "DW_ptr": by_programs(dy * normed, DW_ptr, rows_per_program),
        "DB_ptr": by_programs(dy, DB_ptr, rows_per_program),
    }


def cross_entropy(X_ptr, Y_ptr, ignore_index, label_smoothing, reduction, n_non_ignore):
    x = X_ptr.detach().float().requires_grad_()
    loss = functional.cross_entropy(
        x, Y_ptr, reduction="none", ignore_index=ignore_index, label_smoothing=label_smoothing
    )
    loss = loss / (n_non_ignore if reduction == "mean" else 1)
    (gradient,) = torch.autograd.grad(loss.sum(), x)
    return {"X_ptr": gradient, "loss_ptr": loss.detach()}


def softmax_forward(X_ptr):
    return functional.softmax(X_ptr.float(), -1)


def softmax_backward(dy_ptr, y_ptr):
    return y_ptr * (dy_ptr - (dy_ptr * y_ptr).sum(-1, keepdim=True))


REFERENCES = {
    "rms_norm": (rms_norm_forward, rms_norm_backward),
    "swiglu": (swiglu_forward, swiglu_backward),
    "geglu": (geglu_forward, geglu_backward),
    "rope": (rope,),
    "layer_norm": (layer_norm_forward, layer_norm_backward),
    "cross_entropy": (cross_entropy,),
    "softmax": (softmax_forward, softmax_backward),
}


def operators(name, faults):
    """A module of Liger's with references for its kernels, and with a fault in its source."""
    module = importlib.import_module(f"liger_kernel.ops.{name}")
    fault = next((fault for fault in faults if fault[0] == name), None)
    if fault is not None:
        source = inspect.getsource(module)
        if fault[1] not in source:
            sys.exit(f"{name} has no text {fault[1]!r}")
        path = Path(tempfile.mkdtemp()) / f"faulty_{name}.py"
        path.write_text(source.replace(fault[1], fault[2]))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    for kernel, reference in zip(KERNELS[name], REFERENCES[name], strict=True):
        inspector.reference(getattr(module, kernel), reference)
    return module


def main(*words):
    faults = [FAULTS[word] for word in words]
    torch.manual_seed(0)
    modules = {name: operators(name, faults) for name in KERNELS}
    for dtype in (torch.float32, torch.bfloat16):
        run_all(dtype, modules)


def run_all(dtype, modules):
    def made(*shape):
        return torch.randn(*shape, device="cuda", dtype=dtype)

    def back(result, *inputs):
        torch.autograd.grad(result, inputs, torch.randn_like(result))

    rows, columns = 6, 200
    x, w, b = made(rows, columns), made(columns), made(columns)
    leaves = [tensor.requires_grad_() for tensor in (x, w, b)]
    for mode, offset in (("llama", 0.0), ("gemma", 1.0), ("none", 0.0)):
        y = modules["rms_norm"].LigerRMSNormFunction.apply(x, w, 1e-6, offset, mode, False)
        back(y, x, w)
    back(modules["layer_norm"].LigerLayerNormFunction.apply(x, w, b, 1e-5), *leaves)
    gate, up = made(rows, columns).requires_grad_(), made(rows, columns).requires_grad_()
    back(modules["swiglu"].LigerSiLUMulFunction.apply(gate.clone(), up.clone()), gate, up)
    back(modules["geglu"].LigerGELUMulFunction.apply(gate.clone(), up.clone()), gate, up)
    back(modules["softmax"].LigerSoftmaxFunction.apply(x), x)
    q, k = made(1, 4, 8, 32).requires_grad_(), made(1, 2, 8, 32).requires_grad_()
    angles = torch.outer(torch.arange(8.0), torch.arange(16.0) / 16).repeat(1, 2)[None]
    cos, sin = (angle.to("cuda", dtype) for angle in (angles.cos(), angles.sin()))
    rotated = modules["rope"].LigerRopeFunction.apply(q, k, cos, sin)
    torch.autograd.grad(rotated, (q, k), [torch.randn_like(tensor) for tensor in rotated])
    logits = made(rows, columns).requires_grad_()
    target = torch.randint(columns, (rows,), device="cuda")
    target[1] = -100
    for smoothing in (0.0, 0.1):
        modules["cross_entropy"].LigerCrossEntropyFunction.apply(
            logits.detach().clone().requires_grad_(), target, None, -100, 0.0, smoothing, "mean"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
