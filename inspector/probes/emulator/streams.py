"""CUDA streams and events: everything on them has already happened, and nothing was measured.

torch's own ``Stream`` and ``Event`` do the work through the shim's device guard.
"""

from __future__ import annotations

import ctypes
from typing import Any

from . import native, say

CUDA = 1  # DeviceType::CUDA


def low_level() -> dict[str, Any]:
    """The functions of ``torch._C`` about streams."""
    library = native.library()

    def current(index: int) -> tuple[int, int, int]:
        return int(library.ptxview_get_stream(index)), index, CUDA

    def set_stream(stream_id: int, device_index: int, device_type: int = CUDA) -> None:
        library.ptxview_set_stream(device_index, stream_id)
        library.ptxview_set_device(device_index)

    return {
        "_cuda_getCurrentStream": current,
        "_cuda_getDefaultStream": lambda index: (0, index, CUDA),
        "_cuda_getStreamFromExternal": lambda pointer, index: (pointer, index, CUDA),
        "_cuda_setStream": set_stream,
        "_cuda_getCurrentRawStream": lambda index: int(library.ptxview_get_stream(index)),
    }


def attach(torch: Any) -> None:
    """Replace the dummy classes Stream, ExternalStream and Event of a CPU build."""

    def index_of(device: Any) -> int:
        return int(torch.cuda._utils._get_device_index(device, optional=True))

    class Stream(torch.Stream):
        """A stream of the emulated device."""

        def __new__(cls, device: Any = None, priority: int = 0, **given: Any) -> Any:
            if "stream_id" in given:
                return super().__new__(
                    cls,
                    stream_id=given["stream_id"],
                    device_index=given["device_index"],
                    device_type=CUDA,
                )
            where = torch.device("cuda", index_of(device))
            return super().__new__(cls, device=where, priority=priority)

        priority = 0

        @staticmethod
        def priority_range() -> tuple[int, int]:
            return 0, -5

        @property
        def cuda_stream(self) -> int:
            return int(self.stream_id)

        @property
        def _as_parameter_(self) -> Any:
            return ctypes.c_void_p(self.cuda_stream)

        def record_event(self, event: Any = None) -> Any:
            event = Event() if event is None else event
            event.record(self)
            return event

    class ExternalStream(Stream):
        """A stream made elsewhere, known by its pointer."""

        def __new__(cls, stream_ptr: int, device: Any = None, **given: Any) -> Any:
            return super().__new__(cls, stream_id=stream_ptr, device_index=index_of(device))

    class Event(torch.Event):
        """An event of the emulated device; its times are NaN."""

        def __new__(
            cls,
            enable_timing: bool = False,
            blocking: bool = False,
            interprocess: bool = False,
            external: bool = False,
        ) -> Any:
            made = super().__new__(cls, torch.device("cuda"), enable_timing=enable_timing)
            made._timed = enable_timing
            return made

        @property
        def cuda_event(self) -> int:
            return int(self.event_id)

        def elapsed_time(self, end_event: Any) -> float:
            if not (self._timed and end_event._timed):
                raise ValueError("Both events must be created with argument 'enable_timing=True'.")
            if not (self.cuda_event and end_event.cuda_event):
                raise ValueError("Both events must be recorded before calculating elapsed time.")
            say.once(
                "no-times",
                "there is no GPU here, so CUDA times are NaN: kernels are compiled for the target "
                "and their values computed on the CPU, and nothing is measured",
            )
            return float("nan")

    for made in (Stream, ExternalStream, Event):
        made.__module__, made.__qualname__ = "torch.cuda", made.__name__
        setattr(torch.cuda, made.__name__, made)
        setattr(torch.cuda.streams, made.__name__, made)
