"""Launches that may have ended the CUDA context, whose error a later call of the program tells.

A launch returns before its kernel has run. An illegal address or a failed assertion ends the
context, and what asks CUDA next raises: a synchronisation, a copy, another launch. Launches since
the last synchronisation of the device that this process is known to have made are candidates; a
kernel of another library, or of a CUDA graph, may have failed instead. The emulated device, and
CUDA with CUDA_LAUNCH_BLOCKING=1, raise in the launch itself.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from typing import Any

from .. import hooks, private_names
from ..writer import emit

STICKY = (
    "illegal memory access",
    "device-side assert",
    "unspecified launch failure",
    "launch failed",
    "misaligned address",
    "illegal instruction",
    "invalid program counter",
    "operation not supported on global/shared address space",
    "hardware stack error",
    "launch timed out",
)
"""CUDA's words for errors of a kernel after which its context is lost."""
RECENT_LAUNCHES = 1024
"""Launches that are remembered: about as many as a device queues."""
MAX_CANDIDATES = 16
"""Distinct calls that are named, the last ones."""
MAX_CAUSES = 8
"""Exceptions of a chain that are looked at."""

pending: deque[hooks.CallCounter] = deque(maxlen=RECENT_LAUNCHES)
"""Counters of calls, one for each launch that is not known to have ended, the last ones."""
_reported: list[str] = []


def begin() -> None:
    """Remember no launch: another recording or a forked child begins."""
    pending.clear()
    _reported.clear()


def context_error(error: BaseException | None) -> str | None:
    """CUDA's message on a lost context, in an exception or what caused it; None if it has none."""
    for _ in range(MAX_CAUSES):
        if error is None:
            break
        text = f"{type(error).__name__}: {error}"
        if any(words in text for words in STICKY):
            return text.splitlines()[0]
        error = error.__cause__ or error.__context__
    return None


def note_launch_error(error: BaseException) -> bool:
    """Note what a launch raised; whether that is the fault of an earlier launch."""
    message = None if _raises_at_once() else context_error(error)
    if message is None:
        return False
    _report(message)
    return True


@hooks.guarded
def look() -> None:
    """Report a context that is lost when the process or the recording ends."""
    if not pending or _reported or _raises_at_once():
        return
    message = context_error(getattr(sys, "last_value", None)) or _query_context()
    if message is not None:
        _report(message)


def attach(torch: Any) -> None:
    """Forget launches that a synchronisation of the device has seen the end of."""
    if torch.version.cuda is not None and not _raises_at_once():
        private_names.wrap(
            "torch._C:_cuda_synchronize", lambda args, kwargs: len(pending), _synchronized
        )


def _synchronized(count: int, result: Any, error: BaseException | None) -> None:
    if error is not None:
        message = context_error(error)
        if message is not None:
            _report(message)
    elif sys.modules["torch"].cuda.device_count() == 1:
        for _ in range(min(count, len(pending))):
            pending.popleft()


def _raises_at_once() -> bool:
    return bool(os.environ.get("PTXVIEW_TARGET")) or os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"


def _query_context() -> str | None:
    """What CUDA says of the current stream, without waiting for it."""
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized() or cuda.is_current_stream_capturing():
        return None
    try:
        cuda.current_stream().query()
    except Exception as error:
        return context_error(error)
    return None


def _report(message: str) -> None:
    """Write the candidates, once."""
    if _reported:
        return
    _reported.append(message)
    numbers = dict.fromkeys(c.number for c in reversed(pending) if c.number >= 0)
    lost = {
        "error": message,
        "launches": len(pending),
        "complete": len(pending) < RECENT_LAUNCHES,
        "calls": list(numbers)[:MAX_CANDIDATES],
    }
    emit({"event": "calls", "lost": lost, "final": False})
