"""Compiles ``launch.c`` and finds it again: what stands before a launcher, in C.

Run as a script by ``ptxview run``, in the program's interpreter and beside the program, which does
not wait for it: a process of the program's own might be noticed by it. Where there is no C compiler
or no ``Python.h``, launches are counted in Python, which costs a microsecond more.

What tensors are, the compiled file asks torch itself, through the plain C interface that libraries
of AOTInductor use (``torch/csrc/inductor/aoti_torch/c/shim.h``): no header of torch's, which would
take half a minute to compile.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from typing import Any

DISPATCH_KEYS = "torch._C:_dispatch_keys"
WORD = 8
# A TensorImpl had 160 to 208 bytes so far; its keys are its last word, or almost.
LARGEST_TENSOR = 208
HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "launch.c")
NAME = "ptxview_launch"
_loaded: list[Any] = []  # the module or None, once that is decided


@functools.cache
def _digest(source: str) -> str:
    with open(source, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:20]


def _cached(kind: str, source: str, name: str) -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "ptxview", kind, _digest(source), name)


def library() -> str:
    """Where the compiled ``launch.c`` for this interpreter lies, or would."""
    return _cached("launch", SOURCE, NAME + str(sysconfig.get_config_var("EXT_SUFFIX") or ".so"))


def build() -> str | None:
    """Compile ``launch.c`` unless it is compiled (half a second): the path, None if it failed."""
    include = sysconfig.get_path("include")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    if not os.path.exists(os.path.join(include, "Python.h")):
        return None
    return _compiled(SOURCE, library(), f"-I{include}")


def _compiled(source: str, target: str, flag: str) -> str | None:
    if os.path.exists(target):
        return target
    compiler = _compiler()
    if compiler is None:
        return None
    part, mark = f"{target}.{os.getpid()}", f"{target}.building"
    command = [compiler, "-O2", "-fPIC", "-shared", "-w", flag, source, "-o", part, "-ldl"]
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(mark, "wb"):
            pass
        subprocess.run(
            command, check=True, timeout=120, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.replace(part, target)
    except (OSError, subprocess.SubprocessError):
        return None
    finally:
        for path in (part, mark):
            if os.path.exists(path):
                os.unlink(path)
    return target


def _compiler() -> str | None:
    from_environment = os.environ.get("CC", "").split(" ")[0]
    for name in (from_environment, "cc", "gcc", "clang"):
        path = shutil.which(name) if name else None
        if path:
            return path
    return None


def native() -> Any:
    """The compiled module, which knows this process's torch: decided once. None if it is not
    compiled or cannot be loaded, or if torch does not tell it what it tells Python."""
    if not _loaded:
        _loaded.append(_ready())
    return _loaded[0]


def _ready() -> Any:
    path = library()
    if "torch" not in sys.modules or not os.path.exists(path):
        return None
    try:
        module = load(path)
        return module if knows_torch(module) else None
    except Exception:
        return None


def load(path: str) -> Any:
    """The module of a compiled file; raises ImportError if it is none."""
    from importlib.machinery import ExtensionFileLoader
    from importlib.util import module_from_spec, spec_from_loader

    loader = ExtensionFileLoader(NAME, path)
    spec = spec_from_loader(NAME, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def knows_torch(module: Any) -> bool:
    """Tell the module where this torch keeps what, and whether it then tells the same of tensors
    as Python does: of views, scalars, many dimensions, every dtype, a parameter …

    Where a tensor of Python's holds torch's own tensor, and where that holds its dispatch keys,
    differs by version: both are looked for, by ``_cdata`` and ``_dispatch_keys``, in all of them.
    """
    import torch

    from .. import private_names
    from .arguments import unseen

    with unseen(torch), torch.no_grad(), torch.inference_mode(False):
        samples = _samples(torch)
        if any(private_names.get(n) is None for n in ("torch:Tensor._cdata", DISPATCH_KEYS)):
            return False
        in_python = range(object.__basicsize__, torch.Tensor.__basicsize__, WORD)
        at = [int(getattr(t, "_cdata")) for t in samples]  # noqa: B009 - private, and there
        tensor_at = _offset(in_python, [(id(t), a) for t, a in zip(samples, at, strict=True)])
        in_torch = range(WORD, LARGEST_TENSOR, WORD)
        keys_at = _offset(in_torch, [(a, keys(t)) for t, a in zip(samples, at, strict=True)])
        if tensor_at is None or keys_at is None:
            return False
        module.use_torch(torch.Tensor, torch.nn.Parameter, tensor_at, keys_at)
        numbers = {t.dtype: module.describe(t)[1] for t in samples}
        return len(set(numbers.values())) == len(numbers) and all(
            module.describe(t) == (
                keys(t), numbers[t.dtype], -1, (*t.shape,), t.stride(), t.data_ptr()
            )
            for t in samples
            if t.layout == torch.strided
        )  # fmt: skip


def _samples(torch: Any) -> list[Any]:
    memory = torch.empty(48, dtype=torch.float32, device="cpu")
    wide = memory[8:32].view(1, 2, 3, 1, 4, 1, 1)
    samples = [
        memory, memory[3:], memory[2], memory.view(6, 8).t(), memory[:0].view(0, 5), wide,
        memory.view(6, 8)[1:5:2, ::3], memory[:1].expand(7, 3), memory.detach().requires_grad_(),
        torch.nn.Parameter(memory), torch.empty(3, dtype=torch.complex64, device="cpu").conj(),
        torch.empty(3, dtype=torch.float32, device="meta"),
    ]  # fmt: skip
    names = "float16 bfloat16 float64 int8 int16 int32 int64 uint8 bool float8_e4m3fn float8_e5m2"
    samples += [torch.empty(2, dtype=getattr(torch, n), device="cpu") for n in names.split()]
    with torch.inference_mode():
        samples.append(torch.empty(2, dtype=torch.float32, device="cpu"))
    return samples


def keys(tensor: Any) -> int:
    """The dispatch keys of a tensor, a bit each."""
    from .. import private_names  # not at the top: as a script this file has no neighbours

    of = private_names.get(DISPATCH_KEYS)
    return 0 if of is None else int(of(tensor).raw_repr())


def _offset(offsets: range, wanted: list[tuple[int, int]]) -> int | None:
    """Where the same word stands in all objects at these addresses: none of them, or one."""
    import ctypes

    for offset in offsets:
        # One after another: what lies beyond an object is not read without need.
        if all(ctypes.c_uint64.from_address(at + offset).value == word for at, word in wanted):
            return offset
    return None


if __name__ == "__main__":
    sys.exit(0 if build() else 1)
