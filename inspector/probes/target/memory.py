"""Memory figures and storages of the emulated device: host memory stands for its own."""

from __future__ import annotations

from typing import Any

from ..writer import emit
from . import native

CURRENT, PEAK, ALLOCATED, FREED, BLOCKS, MOST_BLOCKS = range(6)
_labelled = False


def _figure(index: int, what: int) -> int:
    return int(native.library().ptxview_memory(index, what))


def held(index: int) -> int:
    """Bytes that CUDA tensors hold now."""
    return _figure(index, CURRENT)


def _label() -> None:
    """The recording says what these figures are; the program formats them as integers."""
    global _labelled
    if not _labelled:
        _labelled = True
        emit(
            {
                "event": "problem",
                "where": "target",
                "text": "memory statistics count the bytes that CUDA tensors hold on this machine; "
                "no GPU memory exists",
            }
        )


def low_level(torch: Any) -> dict[str, Any]:
    """The functions of ``torch._C`` about memory."""

    def stats(index: int) -> dict[str, Any]:
        _label()

        def entry(current: int, peak: int, allocated: int, freed: int) -> dict[str, Any]:
            names = ("current", "peak", "allocated", "freed")
            figures = dict(zip(names, (current, peak, allocated, freed), strict=True))
            none = dict.fromkeys(figures, 0)
            return {"all": figures, "large_pool": dict(none), "small_pool": dict(none)}

        one = entry(*(_figure(index, w) for w in (CURRENT, PEAK, ALLOCATED, FREED)))
        blocks = entry(_figure(index, BLOCKS), _figure(index, MOST_BLOCKS), 0, 0)
        empty = entry(0, 0, 0, 0)
        names = ("allocated", "reserved", "active", "requested")
        return {
            **{f"{name}_bytes": one for name in names},
            "allocation": blocks,
            "active": blocks,
            "segment": blocks,
            "inactive_split": empty,
            "inactive_split_bytes": empty,
            "oversize_allocations": empty["all"],
            "oversize_segments": empty["all"],
            "num_alloc_retries": 0,
            "num_ooms": 0,
            "num_sync_all_streams": 0,
            "num_device_alloc": 0,
            "num_device_free": 0,
            "max_split_size": -1,
        }

    def reset_peak(index: int) -> None:
        native.library().ptxview_reset_peak(index)

    return {
        "_cuda_memoryStats": stats,
        "_cuda_resetPeakMemoryStats": reset_peak,
        "_cuda_resetAccumulatedMemoryStats": lambda index: None,
        "_cuda_emptyCache": lambda: None,
        "_cuda_setMemoryFraction": lambda fraction, index: None,
        "_cuda_getAllocatorBackend": lambda: "native",
        "_cuda_clearCublasWorkspaces": lambda: None,
    }


def attach(torch: Any) -> None:
    """Let storages be made on the device: torch.load and Module.cuda() on storages need it."""
    plain = torch.UntypedStorage
    original = plain.__new__

    def new(cls: Any, *args: Any, device: Any = None, **given: Any) -> Any:
        if device is None or torch.device(device).type != "cuda" or (args and not _size(args[0])):
            return original(cls, *args, **({} if device is None else {"device": device}), **given)
        size = args[0] if args else 0
        if not _size(size):
            data = torch.tensor(size, dtype=torch.uint8, device=device)
        else:
            data = torch.empty(size, dtype=torch.uint8, device=device)
        return data.untyped_storage()

    plain.__new__ = new


def _size(value: Any) -> bool:
    return isinstance(value, int)
