"""Launches several kernels on the same inputs and compares what they leave; a program of its own.

    main(JOB, RESULTS)

JOB is a JSON file: ``launches`` as in ``session``, the first of which the others are held against.
RESULTS grows by one JSON object a line, flushed: ``{"begin": n}``, then ``{"n", "tensors": […]}``
or ``{"n", "error", "launched"}`` (false where it came to no launch), and ``{"end": n}``. A tensor
is told by ``name``, ``dtype``, ``elements``, ``differing`` (elements whose bits differ),
``changed`` (of the first launch alone: whether it wrote there) and, where values differ,
``largest`` (the largest difference), ``at`` (the element), ``a`` and ``b`` (both values) and
``odd`` (elements that are NaN or infinite on one side alone). The first launch is compared with
itself, made twice. A launch that breaks the device's context ends the process: whoever started it
goes on without it.
"""

from __future__ import annotations

import faulthandler
import json
import math
from pathlib import Path
from typing import Any

from .driver import Driver, Kernel
from .inputs import Inputs
from .session import BROKEN, NO_DEVICE, NO_TORCH, first_line

PIECE = 1 << 24
"""Elements that are compared at once."""


def main(job_path: str, results_path: str) -> int:
    """Do a job and return the exit status: 0, or one that says why not."""
    job = json.loads(Path(job_path).read_text("utf-8"))
    with Path(results_path).open("a", encoding="utf-8") as out:

        def say(**fields: Any) -> None:
            out.write(json.dumps(fields) + "\n")
            out.flush()

        try:
            import torch
        except ImportError as error:
            say(no_torch=first_line(error))
            return NO_TORCH
        if not torch.cuda.is_available():
            say(no_device=f"torch {torch.__version__} sees none")
            return NO_DEVICE
        faulthandler.dump_traceback_later(job["limit"], exit=True)
        torch.zeros(1, device="cuda")
        driver = Driver()
        first: Inputs | None = None
        for launch in job["launches"]:
            faulthandler.dump_traceback_later(job["limit"], exit=True)
            say(begin=launch["n"])
            try:
                with torch.no_grad():
                    if first is None:
                        first = _launched(torch, driver, launch, job["alignment"])
                        again = _made(torch, launch, job["alignment"])
                        changed = [
                            not _same(torch, a[1], b[1])
                            for a, b in zip(first.named, again.named, strict=True)
                        ]
                        _launch(torch, driver, launch, again)
                        rows = list(compared(torch, first, again))
                        rows = [{**r, "changed": c} for r, c in zip(rows, changed, strict=True)]
                        del again
                    else:
                        other = _launched(torch, driver, launch, job["alignment"])
                        rows = list(compared(torch, first, other))
                        del other
                say(n=launch["n"], tensors=rows)
            except NotLaunched as error:
                say(n=launch["n"], error=str(error), launched=False)
            except Exception as error:
                say(n=launch["n"], error=first_line(error), launched=True)
            try:
                torch.cuda.empty_cache()
                torch.cuda.synchronize()
            except RuntimeError:
                return BROKEN
            say(end=launch["n"])
            if first is None:
                break  # there is nothing to hold the others against
        faulthandler.cancel_dump_traceback_later()
    return 0


class NotLaunched(Exception):
    """Inputs cannot be made, or the device does not take the machine code; the message says why."""


def _made(torch: Any, launch: dict[str, Any], alignment: int) -> Inputs:
    try:
        return Inputs(torch, launch, "cuda", alignment)
    except Exception as error:
        raise NotLaunched(first_line(error)) from error


def _launched(torch: Any, driver: Driver, launch: dict[str, Any], alignment: int) -> Inputs:
    inputs = _made(torch, launch, alignment)
    _launch(torch, driver, launch, inputs)
    return inputs


def _launch(torch: Any, driver: Driver, launch: dict[str, Any], inputs: Inputs) -> None:
    try:
        _, function = driver.load(Path(launch["cubin"]).read_bytes(), launch["symbol"])
        driver.allow_shared(function, launch["shared"] or 0, torch.cuda.current_device())
        kernel = Kernel(driver, function, launch, inputs.values)
    except Exception as error:
        raise NotLaunched(first_line(error)) from error
    torch.cuda.synchronize()
    kernel.launch(torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()


def _same(torch: Any, a: Any, b: Any) -> bool:
    """Whether two hold the same bits."""
    return bool(torch.equal(a.view(torch.uint8), b.view(torch.uint8)))


def compared(torch: Any, a: Inputs, b: Inputs) -> Any:
    """Each tensor of both launches, in the order of the arguments."""
    for (name, x), (_, y) in zip(a.named, b.named, strict=True):
        yield {
            "name": name, "dtype": str(x.dtype).removeprefix("torch."), "elements": x.numel(),
            **differing(torch, x, y),
        }  # fmt: skip


def differing(torch: Any, x: Any, y: Any) -> dict[str, Any]:
    """How two tensors of one kind differ: flat ones, of the same length."""
    out: dict[str, Any] = {"differing": 0}
    if not x.numel() or _same(torch, x, y):
        return out
    size = x.element_size()
    largest, odd = -1.0, 0
    for start in range(0, x.numel(), PIECE):
        a, b = x[start : start + PIECE], y[start : start + PIECE]
        bits = a.view(torch.uint8).view(-1, size) != b.view(torch.uint8).view(-1, size)
        other = bits.any(dim=1)
        count = int(other.sum().item())
        out["differing"] += count
        if not count:
            continue
        left, right = _numbers(torch, a), _numbers(torch, b)
        # NaN is NaN, and an infinity is the same one: their difference is no number.
        apart = (left - right).abs()
        alike = (left == right) | (left.isnan() & right.isnan())
        apart = torch.where(alike, torch.zeros_like(apart), apart)
        wild = ~apart.isfinite()
        odd += int(wild.sum().item())
        apart = torch.where(wild, torch.full_like(apart, -1.0), apart)
        here = int(apart.argmax().item())
        value = float(apart[here].item())
        if value > largest:
            largest = value
            out.update(at=start + here, a=_told(left[here]), b=_told(right[here]))
    out.update(largest=None if largest < 0 else largest, odd=odd)
    return out


def _numbers(torch: Any, values: Any) -> Any:
    """Values as doubles; of complex ones how large they are."""
    if values.dtype.is_complex:
        return values.abs().double()
    if values.dtype.is_floating_point and values.element_size() == 1:
        return values.to(torch.float32).double()
    return values.double()


def _told(value: Any) -> float | str:
    """A value as JSON has it."""
    number = float(value.item())
    return number if math.isfinite(number) else str(number)
