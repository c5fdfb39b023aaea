"""Which device the program ran on, asked only of a CUDA context that the program itself made."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

from ..hooks import at_new_recording, guarded, per_recording, recording
from ..writer import emit

_said: set[int] = per_recording(set())


def attach(module: Any) -> None:
    """Note torch's version, and look for a device when the program ends."""

    def note_version() -> None:
        version = getattr(module, "version", None)
        emit(
            {
                "event": "torch",
                "version": str(getattr(module, "__version__", "")),
                "cuda": getattr(version, "cuda", None),
            }
        )

    note_version()
    at_new_recording(note_version)
    atexit.register(note)


@guarded
def note() -> None:
    """Emit the current device once; nothing is initialised for it."""
    if not recording() or os.getpid() in _said or os.environ.get("PTXVIEW_TARGET"):
        return
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return
    _said.add(os.getpid())
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    names = (
        "name",
        "major",
        "minor",
        "total_memory",
        "multi_processor_count",
        "L2_cache_size",
        "regs_per_multiprocessor",
        "max_threads_per_multi_processor",
        "warp_size",
        "shared_memory_per_block",
        "shared_memory_per_block_optin",
        "shared_memory_per_multiprocessor",
        "clock_rate",
        "memory_clock_rate",
        "memory_bus_width",
    )
    emit(
        {
            "event": "device",
            **{n: getattr(properties, n) for n in names if hasattr(properties, n)},
        }
    )
