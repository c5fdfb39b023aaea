"""Contents of tensors: inputs of first calls, and what generated kernels read and write.

``PTXVIEW_CONTENTS`` is how many bytes of tensors are kept in all, and ``PTXVIEW_CONTENT`` of one;
the same bytes are kept once. The first call of each variant and graph is kept with its inputs, and
the ranges of floating-point ones are taken from these copies.

``PTXVIEW_VERIFY`` is how many launches of each line of ``output_code`` are kept, in place of
inputs. A tensor is copied as it is before the launch if the kernel may read it, and again after it
if the kernel may write it. Launches are distinguished by the line that makes them, whose file is
kept too. Of a hand-written kernel for which the program names a reference, so many launches are
kept of each signature, with the operators of the reference.
"""

import json
import os
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from .. import private_names
from ..hooks import PACKAGE, per_recording
from ..writer import blob, emit, file_blob
from . import references

TUNER = "torch._inductor.runtime.triton_heuristics:CachingAutotuner"
READ_ONLY = ("in_ptr",)
WRITTEN_ONLY = ("out_ptr",)
"""Beginnings of the names of parameters that a kernel of Inductor's only reads, or only writes."""

_launches: Counter[Any] = per_recording(Counter())
"""Launches by their line, or by a hand-written kernel and its signature."""
_files: dict[str, str | None] = per_recording({})
_kept_digests: set[str] = per_recording(set())
_kept_bytes: Counter[str] = per_recording(Counter())
"""Bytes of all contents that were kept, under one key."""
_lock = threading.Lock()


def keep_inputs(tensors: list[tuple[dict[str, Any], Any]]) -> None:
    """Add content and range to the descriptions of a call's tensors, within the budget."""
    torch: Any = sys.modules.get("torch")
    if not os.environ.get("PTXVIEW_CONTENTS") or os.environ.get("PTXVIEW_VERIFY"):
        return
    if torch is None or not may_wait(torch):
        return
    largest = int(os.environ.get("PTXVIEW_CONTENT") or os.environ["PTXVIEW_CONTENTS"])
    for description, tensor in tensors:
        if not isinstance(tensor, torch.Tensor) or tensor.numel() * tensor.element_size() > largest:
            continue
        # Absent on the emulated device, or of a layout without elements in memory.
        with suppress(Exception):
            description["content"] = _content(tensor, description)


def may_wait(torch: Any) -> bool:
    """Whether our own operator may run now: not in a profile, not in a CUDA graph's capture, which
    it would break, nor where the program has asked to be warned of waits for the device."""
    is_profiled = private_names.get("torch.autograd:_profiler_enabled")
    if is_profiled is None or is_profiled():
        return False
    cuda = torch.cuda
    waits = cuda.is_initialized()
    return not (waits and (cuda.is_current_stream_capturing() or cuda.get_sync_debug_mode()))


@contextmanager
def hidden(torch: Any) -> Iterator[None]:
    """Within it, our operators are hidden from the program's torch modes and subclasses."""
    contexts = (
        private_names.get("torch.utils._python_dispatch:_disable_current_modes"),
        private_names.get("torch._C:DisableTorchFunction"),
        torch.no_grad,
    )
    with ExitStack() as stack:
        for context in filter(None, contexts):
            stack.enter_context(context())
        yield


def attach(module: Any) -> None:
    """Keep contents around the launches of Inductor's kernels, where that is asked for."""
    if os.environ.get("PTXVIEW_VERIFY"):
        private_names.wrap(f"{TUNER}.run", _launching, launched)


def counted(key: Any) -> int | None:
    """How many launches of this kind were before; None where enough of them were kept."""
    with _lock:
        number = _launches[key]
        _launches[key] += 1
    return number if number < int(os.environ["PTXVIEW_VERIFY"]) else None


def _launching(args: Any, kwargs: Any) -> dict[str, Any] | None:
    """The event of a launch that is kept, with contents from before it; None of another."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").startswith(PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    path = frame.f_code.co_filename
    line = frame.f_lineno
    number = counted((path, line))
    if number is None:
        return None
    tuner, *values = args
    meta = getattr(tuner, "inductor_meta", None) or {}
    names = passed_names(tuner.fn)
    event = {
        "path": path,
        "line": line,
        "name": meta.get("kernel_name"),
        "call": number,
        "code_blob": _code(path),
        "sizes": {k: v for k, v in frame.f_locals.items() if type(v) is int},
        "tuner": tuner,
        "changed": frozenset(getattr(tuner, "mutated_arg_names", None) or ()),
    }
    constants = (getattr(tuner, "triton_meta", None) or {}).get("constants") or {}
    return begun(event, names, values, references.of_kernel(tuner.fn), constants)


def passed_names(function: Any) -> list[str]:
    """The parameters of a kernel that a launch in ``output_code`` passes, in order."""
    declared = getattr(function, "constexprs", ())
    names = getattr(function, "arg_names", ())
    return [str(name) for n, name in enumerate(names) if n not in declared]


def begun(
    event: dict[str, Any],
    names: Sequence[str],
    values: Sequence[Any],
    reference: Any,
    compiled_in: dict[str, Any],
) -> dict[str, Any]:
    """The event of a launch, with contents from before it and the operators of its reference."""
    import torch

    event["event"] = "launch_values"
    event["values"] = values
    event["arguments"] = [described(n, v) for n, v in zip(names, values, strict=False)]
    if not may_wait(torch):
        event["why"] = "it was launched in a profile or a CUDA graph's capture: nothing was copied"
        return event
    if reference is not None:
        event["changed"] = frozenset(names)
    _keep(event, "before", WRITTEN_ONLY)
    if reference is not None and "why" not in event:
        arguments = {**compiled_in, **dict(zip(names, values, strict=False))}
        try:
            devices = {v.get_device() for v in values if isinstance(v, torch.Tensor) and v.is_cuda}
            with hidden(torch), torch.random.fork_rng(devices):
                operators, own = references.operators(reference, arguments)
            for name, tensor in own.items():
                event["arguments"].append({**described(name, tensor), "before": _content(tensor)})
            event["reference"] = blob(json.dumps(operators))
        except Exception as error:
            event["why"] = f"its reference raises {type(error).__name__}: {error}"[:300]
    return event


def launched(event: dict[str, Any] | None, compiled: Any, error: BaseException | None) -> None:
    if event is None:
        return
    if error is None and "why" not in event:
        _keep(event, "after", READ_ONLY)
    del event["values"], event["changed"]
    if "tuner" in event:
        launchers: list[Any] = getattr(event.pop("tuner"), "launchers", None) or []
        compiled = launchers[0] if len(launchers) == 1 else None
        event["cache_key"] = getattr(compiled, "cache_hash", None)
    else:
        event["hash"] = getattr(compiled, "hash", None)
    if error is None:
        emit(event)


def _code(path: str) -> str | None:
    """The content of the file that launches, kept once."""
    if path not in _files:
        _files[path] = file_blob(path)
    return _files[path]


def described(name: str, value: Any) -> dict[str, Any]:
    import torch

    if not isinstance(value, torch.Tensor):
        number = value if isinstance(value, bool | int | float) else None
        return {"name": name, "value": number}
    return {
        "name": name,
        "dtype": str(value.dtype).removeprefix("torch."),
        "shape": list(value.shape),
        "strides": list(value.stride()),
    }


def _keep(event: dict[str, Any], key: str, without: tuple[str, ...]) -> None:
    """Keep the contents of an event's tensors under a key, but of parameters named so."""
    import torch

    for argument, value in zip(event["arguments"], event["values"], strict=False):
        name = argument["name"]
        is_kept = name in event["changed"] or not name.startswith(without)
        if is_kept and isinstance(value, torch.Tensor):
            try:
                argument[key] = _content(value)
            except Exception as error:  # absent on the emulated device, or out of memory
                event["why"] = f"{name} cannot be read: {error}"[:300]
                return
            if argument[key] is None:
                event["why"] = (
                    "the tensors kept so far fill the budget of "
                    f"{int(os.environ.get('PTXVIEW_CONTENTS') or 0):,} bytes"
                )
                return


def _content(tensor: Any, description: dict[str, Any] | None = None) -> str | None:
    """Keep a tensor's elements in the order of their indices; None where they are too many.

    The range of floating-point ones goes into ``description``.
    """
    import torch

    size = tensor.numel() * tensor.element_size()
    budget = int(os.environ.get("PTXVIEW_CONTENTS") or 0)
    if _kept_bytes["all"] + size > budget:
        return None
    with hidden(torch):
        plain = tensor.detach().to("cpu", copy=True).contiguous()
        if description is not None and size and plain.is_floating_point():
            values = plain.to(torch.float64)
            numbers = values[~values.isnan()]
            description["nans"] = values.numel() - numbers.numel()
            if numbers.numel():
                description["low"], description["high"] = map(float, torch.aminmax(numbers))
        raw = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if size else b""
    digest = blob(zlib.compress(raw, 1))
    if digest is not None and digest not in _kept_digests:
        _kept_digests.add(digest)
        _kept_bytes["all"] += size
    return digest
