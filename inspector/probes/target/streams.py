"""CUDA streams and events: everything on them has already happened, and nothing was measured."""

from __future__ import annotations

from typing import Any

from . import native, say

CUDA = 1  # DeviceType::CUDA


def low_level(torch: Any) -> dict[str, Any]:
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
    """Put working Stream, ExternalStream and Event classes where the dummies are."""
    event = _event_class(torch)
    stream = _stream_class(torch, event)
    for made in (stream, _external_class(torch, stream), event):
        made.__module__, made.__qualname__ = "torch.cuda", made.__name__
        setattr(torch.cuda, made.__name__, made)
        setattr(torch.cuda.streams, made.__name__, made)


def _stream_class(torch: Any, event_class: type) -> type:
    class Stream(torch.Stream):
        """A stream of the emulated device: work on it is done when the call returns."""

        def __new__(cls, device: Any = None, priority: int = 0, **given: Any) -> Any:
            if "stream_id" in given:
                index = given["device_index"]
                made = super().__new__(
                    cls, stream_id=given["stream_id"], device_index=index, device_type=CUDA
                )
            else:
                index = torch.cuda._utils._get_device_index(device, optional=True)
                made = super().__new__(cls, device=torch.device("cuda", index), priority=priority)
            return made

        def __init__(self, *args: Any, **given: Any) -> None:
            pass

        @property
        def cuda_stream(self) -> int:
            return int(self.stream_id)

        @property
        def priority(self) -> int:
            return 0

        @staticmethod
        def priority_range() -> tuple[int, int]:
            return 0, -5

        @property
        def _as_parameter_(self) -> Any:
            import ctypes

            return ctypes.c_void_p(self.cuda_stream)

        def query(self) -> bool:
            return True

        def synchronize(self) -> None:
            return None

        def wait_event(self, event: Any) -> None:
            return None

        def wait_stream(self, stream: Any) -> None:
            return None

        def record_event(self, event: Any = None) -> Any:
            event = event_class() if event is None else event
            event.record(self)
            return event

        def __repr__(self) -> str:
            return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

    return Stream


def _external_class(torch: Any, stream_class: Any) -> type:
    class ExternalStream(stream_class):
        """A stream made elsewhere: nothing here looks behind its pointer."""

        def __new__(cls, stream_ptr: int, device: Any = None, **given: Any) -> Any:
            index = torch.cuda._utils._get_device_index(device, optional=True)
            return super().__new__(cls, stream_id=stream_ptr, device_index=index)

    return ExternalStream


def _event_class(torch: Any) -> type:
    class Event(torch.Event):
        """An event: recorded at once, and its times are NaN."""

        def __new__(
            cls,
            enable_timing: bool = False,
            blocking: bool = False,
            interprocess: bool = False,
            external: bool = False,
        ) -> Any:
            return super().__new__(cls, torch.device("cuda"), enable_timing=enable_timing)

        def __init__(self, *args: Any, **given: Any) -> None:
            self._recorded = False
            self._timed = bool(args[0] if args else given.get("enable_timing", False))

        @property
        def cuda_event(self) -> int:
            return id(self) if self._recorded else 0

        def record(self, stream: Any = None) -> None:
            self._recorded = True

        def wait(self, stream: Any = None) -> None:
            return None

        def query(self) -> bool:
            return True

        def synchronize(self) -> None:
            return None

        def elapsed_time(self, end_event: Any) -> float:
            """NaN, where a GPU would give a time; what a GPU refuses is refused."""
            if not (self._timed and end_event._timed):
                raise ValueError("Both events must be created with argument 'enable_timing=True'.")
            if not (self._recorded and end_event._recorded):
                raise ValueError("Both events must be recorded before calculating elapsed time.")
            return _timeless()

        def __repr__(self) -> str:
            state = f"{self.cuda_event:#x}" if self._recorded else "uninitialized"
            return f"<torch.cuda.Event {state}>"

    return Event


def _timeless() -> float:
    """Not a number, and said once: nothing ran on a GPU, so there is nothing to measure."""
    say.once(
        "no-times",
        "there is no GPU here, so CUDA times are NaN: kernels are compiled for the target and "
        "their values computed on the CPU, and nothing is measured",
    )
    return float("nan")
