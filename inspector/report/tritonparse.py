"""A recording in tritonparse's words: its events, one a line, which ``tritonparse parse`` takes.

Triton's kernels alone are said: a trace knows no others. Each distinct call is one ``launch``, with
how often it was made under ``ptxview``, a field of ours that tritonparse passes over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import prod

from inspector.model import Argument, Call, Kernel, Origin, Stage, Variant

STAGES = (Stage.TTIR, Stage.TTGIR, Stage.LLIR, Stage.PTX, Stage.SASS)
SIZES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2,
         "int16": 2, "int8": 1, "uint8": 1, "bool": 1}  # fmt: skip
Text = Callable[[Variant, Stage], str | None]
"""The text of a stage; None where it cannot be had."""


def can_hold(kernel: Kernel) -> bool:
    """Whether a trace can hold a kernel: whether Triton made it."""
    return kernel.origin in (Origin.TRITON, Origin.INDUCTOR)


def lines(
    chosen: Iterable[tuple[Kernel, Variant]], started: str | None, text: Text
) -> Iterator[str]:
    """The events of those variants that Triton made, each a line of JSON.

    ``started`` is when they were recorded, as ISO 8601 says it.
    """
    stamp = started or "1970-01-01T00:00:00+00:00"
    for kernel, variant in chosen:
        if can_hold(kernel):
            for event in _events(kernel, variant, text, stamp):
                yield json.dumps(event, ensure_ascii=True, allow_nan=False) + "\n"


def _events(
    kernel: Kernel, variant: Variant, text: Text, stamp: str
) -> Iterator[dict[str, object]]:
    said: dict[str, object] = {"pid": 0, "stack": [], "timestamp": stamp}
    metadata = _metadata(kernel, variant)
    payload: dict[str, object] = {"metadata": metadata, **_files(kernel, variant, text)}
    if (source := _source(variant, text)) is not None:
        payload["python_source"] = source
    yield {"event_type": "compilation", **said, "payload": payload}
    for call in variant.calls:
        yield {
            "event_type": "launch",
            **said,
            "name": kernel.called,
            "function": None,
            "stream": None,
            "grid": None if call.grid is None else list(call.grid),
            "compilation_metadata": {**metadata, **_shared(call)},
            "extracted_args": {a.name: _argument(a) for a in call.arguments},
            "extracted_inductor_args": {},
            "ptxview": {"count": call.count},
        }


def _metadata(kernel: Kernel, variant: Variant) -> dict[str, object]:
    config = {k: v for k, v in variant.config.items() if isinstance(v, int | float | str | bool)}
    triton = {k: config.get(k) for k in ("num_warps", "num_stages", "num_ctas", "maxnreg")}
    number = (variant.target or "").removeprefix("sm_").rstrip("af")
    arch = int(number) if number.isascii() and number.isdecimal() else None
    return {
        "hash": variant.hash,
        "name": kernel.called,
        "target": {"backend": "cuda", "arch": arch, "warp_size": 32},
        "backend_name": "cuda",
        "arch": None if arch is None else f"sm{arch}",
        "warp_size": 32,
        **triton,
        "shared": variant.known.dynamic_shared_bytes if variant.known is not None else None,
        "cache_hit": bool(variant.cache_hit),
        "src_constants": {
            f"({place},)": config[name]
            for place, name in enumerate(_parameters(variant))
            if name in config and name not in triton
        },
    }


def _parameters(variant: Variant) -> tuple[str, ...]:
    """The names of a kernel's parameters, in their order."""
    longest = max((tuple(a.name for a in c.arguments) for c in variant.calls), key=len, default=())
    return longest or tuple(variant.signature or ())


def _shared(call: Call) -> dict[str, object]:
    return {} if call.shared_bytes is None else {"shared": call.shared_bytes}


def _files(kernel: Kernel, variant: Variant, text: Text) -> dict[str, dict[str, str]]:
    contents: dict[str, str] = {}
    paths: dict[str, str] = {}
    for stage in STAGES:
        file = variant.stages.get(stage)
        written = None if file is None else text(variant, stage)
        if file is not None and written is not None:
            name = f"{kernel.called}.{stage.value}"
            contents[name] = written
            paths[name] = file.origin_path or name
    return {"file_path": paths, "file_content": contents}


def _source(variant: Variant, text: Text) -> Mapping[str, object] | None:
    """The user's Python as a whole file, and the kernel's lines in it."""
    for stage in (Stage.SOURCE, Stage.OUTPUT_CODE):
        file = variant.stages.get(stage)
        written = None if file is None else text(variant, stage)
        if file is None or written is None:
            continue
        whole = {
            "file_path": file.origin_path or stage.value,
            "start_line": 1,
            "end_line": written.count("\n") + 1,
            "code": written,
        }
        span = variant.lines_in(stage)
        if span is None:
            return whole
        return {**whole, "function_start_line": span[0], "function_end_line": span[1]}
    return None


def _argument(argument: Argument) -> dict[str, object]:
    if argument.shape is None:
        return {"type": type(argument.value).__name__, "value": argument.value}
    size = SIZES.get(argument.dtype or "")
    count = prod(argument.shape)
    return {
        "type": "tensor",
        "shape": list(argument.shape),
        "dtype": f"torch.{argument.dtype}",
        "device": "cuda:0" if argument.device in (None, "cuda") else argument.device,
        "stride": None if argument.strides is None else list(argument.strides),
        "numel": count,
        "is_contiguous": _contiguous(argument),
        "element_size": size,
        "memory_usage": None if size is None else size * count,
    }


def _contiguous(argument: Argument) -> bool | None:
    if argument.shape is None or argument.strides is None:
        return None
    expected = 1
    for length, stride in zip(reversed(argument.shape), reversed(argument.strides), strict=False):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True
