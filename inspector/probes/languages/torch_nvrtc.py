"""``torch.cuda._compile_kernel``: NVRTC by a library of ctypes, which is asked for its PTX too."""

from __future__ import annotations

import ctypes
import inspect
import threading
from typing import Any

from .. import private_names
from ..hooks import Args, Kwargs, argument, arguments, observed, succeeded
from .emit import code, encoded, kernels, record, refused
from .nvrtc import listed, tell_program

TORCH = "torch.cuda._compile_kernel (NVRTC)"
_now = threading.local()  # ptx: what NVRTC has for torch, in the call that is under way
_loaded: set[int] = set()  # what NVRTC returned to torch, which is loaded right afterwards


def attach(module: Any) -> None:
    """``torch.cuda._utils``: compiles CUDA C++ by a library of ctypes, and loads modules."""

    compiler = private_names.get("torch.cuda._utils:_nvrtc_compile")
    if compiler is None:
        return
    signature = inspect.signature(compiler)  # versions differ in the order

    def on_call(args: Args, kwargs: Kwargs) -> dict[str, Any]:
        return dict(signature.bind(*args, **kwargs).arguments)

    private_names.wrap("torch.cuda._utils:_nvrtc_compile", on_call, _compiled)
    private_names.wrap("torch.cuda._utils:_get_nvrtc_library", None, succeeded(_library))

    def loading(args: Args, kwargs: Kwargs) -> None:
        data, names = arguments("ptx", "kernel_names")(args, kwargs)
        if hash(encoded(data)) not in _loaded:
            names = listed(names) or kernels(data)
            record("torch.cuda (a module of PTX or cubin)", names, **code(data))

    private_names.wrap("torch.cuda._utils:_cuda_load_module", loading)


def _library(token: None, library: Any) -> None:
    """A library of torch's own, which nobody else has."""

    def compiled(program: Any, status: Any) -> None:
        size = ctypes.c_size_t()
        if not status and not library.nvrtcGetPTXSize(program, ctypes.byref(size)):
            text = ctypes.create_string_buffer(size.value)
            if not library.nvrtcGetPTX(program, text):
                _now.ptx = text.value

    library.nvrtcCompileProgram = observed(
        library.nvrtcCompileProgram, argument(0), succeeded(compiled)
    )


def _compiled(bound: dict[str, Any], result: Any, error: BaseException | None) -> None:
    source = bound["kernel_source"]
    name = bound["kernel_name"]
    ptx = _now.__dict__.pop("ptx", None)
    if error is not None:
        _, _, log = str(error).partition(":\n")
        if isinstance(error, RuntimeError) and log:
            refused(TORCH, "NVRTC", log, source=source, path=f"{name}.cu")
        else:
            record(TORCH, [name], source=source)
        return
    _loaded.add(hash(encoded(result[0])))
    tell_program(TORCH, (source, f"{name}.cu"), bound.get("nvcc_options"), result[0], ptx)
