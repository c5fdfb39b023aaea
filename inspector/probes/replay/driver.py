"""The CUDA driver and NVML by ctypes: loads a recorded cubin, launches it, reads the clocks.

Structures and constants are cuda.h's and nvml.h's. Everything happens in the context that torch
has made current.

Times of kernels, copies and fills are those of CUPTI's activity records. CUPTI requests a buffer,
writes a record of each into it, and returns it when it is flushed. Both are our callbacks. They
take Python's lock in the thread that CUPTI calls them in, and so must not be called while a launch
waits for CUPTI with that lock held: a buffer is large enough not to fill up between two flushes,
which are made with the lock released.

Fields are read where ``cupti_activity.h`` has them: these are at the front of every record, and
in the same place in each version of it (``CUpti_ActivityKernel3`` to ``10``, and all of
``CUpti_ActivityMemcpy``, ``CUpti_ActivityMemcpyPtoP`` and ``CUpti_ActivityMemset``). CUPTI itself
goes from one record to the next.
"""

from __future__ import annotations

import ctypes
import importlib
import math
import mmap
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from statistics import median_high
from typing import Any, NamedTuple

from ..driver.subscriber import find_cupti

MEMCPY = 1
MEMSET = 2
KERNEL = 3
CONCURRENT_KERNEL = 10
MEMCPY_PEER = 22
KINDS = (CONCURRENT_KERNEL, MEMCPY, MEMCPY_PEER, MEMSET)
BUFFER_BYTES = 32 << 20
FORCED = 1
# Copies by CUpti_ActivityMemcpyKind, memory by CUpti_ActivityMemoryKind, in torch.profiler's words.
COPIES = ("?", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP")
MEMORY = (
    *("Unknown", "Pageable", "Pinned", "Device", "Array", "Managed"),
    *("Device Static", "Managed Static"),
)
# After the device has come to rest all records are there, as a rule at the first flush.
WAIT_SECONDS = (0.0, 0.001, 0.01, 0.05, 0.2)

Launch = Callable[[], Any]
Enough = Callable[["list[Event]"], bool]


class Event(NamedTuple):
    """A kernel, a copy or a fill on the device: its start and its duration, in ns."""

    name: str
    start: int
    ns: int


class Unavailable(Exception):
    """This stopwatch cannot be used here; the message says why."""


def checked(lib: Any, words: str, error: type[Exception], name: str, *arguments: Any) -> None:
    """Call a function of a library; raise ``error``, with the words of its function ``words``."""
    if status := getattr(lib, name)(*arguments):
        text = ctypes.c_char_p()
        getattr(lib, words)(status, ctypes.byref(text))
        message = (text.value or b"unknown error").decode("utf-8", "replace")
        raise error(f"{name}: {message} ({status})")


class _Head(ctypes.Structure):
    """The front of the records of kernels, copies and fills; 16 bytes, then start and end."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("own", ctypes.c_uint8 * 12),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
    )


COPY_KIND = 4
COPY_FROM = 5
COPY_TO = 6
FILL_MEMORY = 50
KERNEL_NAME = 104

_Size = ctypes.POINTER(ctypes.c_size_t)
_Requested = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), _Size, _Size)
_Completed = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)


def _word(words: Sequence[str], index: int) -> str:
    return words[index] if index < len(words) else words[0]


# -- records --------------------------------------------------------------------------------------


class Cupti:
    """CUPTI's activity records of this process, between ``start`` and ``stop`` or within ``with``.

    Raises ``Unavailable`` where CUPTI cannot be used.
    """

    def __init__(self, torch: Any, lib: Any) -> None:
        self._torch = torch
        self.call = partial(checked, lib, "cuptiGetResultString", Unavailable)
        self._lost = False
        self._free: list[int] = []
        self._full: list[tuple[int, int]] = []
        self._buffers: dict[int, mmap.mmap] = {}
        # CUPTI keeps their addresses for as long as the process lives, and so must we.
        self._callbacks = (_Requested(self._requested), _Completed(self._completed))
        next_record = lib.cuptiActivityGetNextRecord
        next_record.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p))
        self._next = next_record

    def __enter__(self) -> Cupti:
        enabled = getattr(self._torch.autograd, "_profiler_enabled", None)
        if enabled is not None and enabled():
            raise Unavailable("a torch.profiler of the program's own runs, and has CUPTI to itself")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Unavailable):  # the events seen are valid; a later start says what is wrong
            self.stop()

    def start(self) -> None:
        """Record from now on."""
        self.call("cuptiActivityRegisterCallbacks", *self._callbacks)
        for kind in KINDS:
            self.call("cuptiActivityEnable", ctypes.c_uint32(kind))
        self._lost = False

    def stop(self) -> None:
        """Stop recording, and drop records that were not read.

        All buffers are taken back: another profiler would lose records that came into ours later.
        """
        for kind in KINDS:
            self.call("cuptiActivityDisable", ctypes.c_uint32(kind))
        self.flush(forced=True)
        self.forget()

    def flush(self, forced: bool = False) -> None:
        """Flush the complete records; ``forced``: the others too."""
        self.call("cuptiActivityFlushAll", ctypes.c_uint32(FORCED if forced else 0))

    def saw(self, work: Launch, enough: Enough) -> list[Event]:
        """Return the device's work for ``work``, ordered by start.

        Waits until the records are ``enough``, for a quarter of a second at most.
        """
        if self._lost:  # for example, if the called code runs a profiler
            self.start()
        events: list[Event] = []
        self.flush()
        self.forget()  # of a block before, which was given up
        work()
        self._torch.cuda.synchronize()
        for wait in WAIT_SECONDS:
            time.sleep(wait)
            self.flush(forced=wait > 0)
            events = sorted([*events, *self.take_events()], key=lambda event: event.start)
            if enough(events):
                return events
        self._lost = True
        return events

    def take_events(self) -> list[Event]:
        """The events recorded and flushed since the last call, in no order."""
        events: list[Event] = []
        while self._full:
            address, valid = self._full.pop(0)
            self._read(address, valid, events)
            self._release(address)
        return events

    def forget(self) -> None:
        """Drop the records that were flushed, without reading names, which may be freed by now."""
        while self._full:
            self._release(self._full.pop(0)[0])

    def _release(self, address: int) -> None:
        if address in self._buffers:  # another profiler's stays its own
            self._free.append(address)

    def _read(self, address: int, valid: int, events: list[Event]) -> None:
        record = ctypes.c_void_p()
        names: dict[int, str] = {}  # an address may be another name's once a module is unloaded
        while valid and not self._next(address, valid, ctypes.byref(record)) and record.value:
            address_of_record = record.value
            head = _Head.from_address(address_of_record)
            # Without device memory for it CUPTI has no time, and says 0.
            if head.kind not in (*KINDS, KERNEL) or not 0 < head.start <= head.end:
                continue
            name = self._name(head.kind, address_of_record, names)
            events.append(Event(name, head.start, head.end - head.start))

    def _name(self, kind: int, address: int, names: dict[int, str]) -> str:
        if kind in (KERNEL, CONCURRENT_KERNEL):
            pointer = ctypes.c_void_p.from_address(address + KERNEL_NAME).value or 0
            if pointer not in names:
                raw = ctypes.string_at(pointer) if pointer else b""
                name = raw.decode("utf-8", "replace")
                # Without the beginning that all C++ functions have, "f" would be read as a float.
                if name.startswith("_Z"):
                    demangle = getattr(importlib.import_module("torch._C"), "_demangle", str)
                    name = str(demangle(name))
                names[pointer] = name
            return names[pointer]
        fields = (ctypes.c_uint8 * 64).from_address(address)
        if kind == MEMSET:
            return f"Memset ({_word(MEMORY, fields[FILL_MEMORY])})"
        copy = fields[COPY_KIND]
        source = fields[COPY_FROM]
        target = fields[COPY_TO]
        return f"Memcpy {_word(COPIES, copy)} ({_word(MEMORY, source)} -> {_word(MEMORY, target)})"

    # CUPTI calls these two; an exception has nowhere to go there.

    def _requested(self, buffer: Any, size: Any, max_records: Any) -> None:
        max_records[0] = 0  # as many records as it can hold
        if not self._free:
            memory = mmap.mmap(-1, BUFFER_BYTES)
            address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            self._buffers[address] = memory
            self._free.append(address)
        buffer[0] = self._free.pop()
        size[0] = BUFFER_BYTES

    def _completed(self, context: Any, stream: int, buffer: int, size: int, valid: int) -> None:
        self._full.append((buffer, valid))


def trace_of(torch: Any) -> Cupti:
    """Return the source of device events. Raises ``Unavailable`` where CUPTI cannot be used."""
    path = find_cupti()
    if path is None:
        raise Unavailable("no libcupti was found")
    try:
        cupti = Cupti(torch, ctypes.CDLL(path))
        cupti.start()
        cupti.stop()
    except (Unavailable, OSError, AttributeError) as error:
        raise Unavailable(f"CUPTI cannot be used: {error}") from None
    return cupti


FUNC_SHARED_SIZE = 1
FUNC_MAX_DYNAMIC_SHARED = 8
DEVICE_SHARED_OPTIN = 97
PREFER_SHARED = 1
ATTRIBUTE_COOPERATIVE = 2
ATTRIBUTE_CLUSTER = 4
ATTRIBUTE_CLUSTER_POLICY = 5
POLICY_SPREAD = 1
# Bytes of shared memory a block may have without opting in, on every architecture so far.
UNASKED_SHARED = 49152
L2_PROMOTION_128B = 2
# CUtensorMapDataType of the types whose number in PTX is another: f32.ftz, f64, bf16.
HOST_TYPES = {8: 10, 9: 8, 10: 9}
CLOCK_SM = 1
# nvmlClocksEventReason…: what slows a device down, apart from its being idle or told to.
THROTTLES = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "temperature (software)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16))


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint),
    )


class DriverError(RuntimeError):
    """A call of the driver failed; the message has the driver's own words."""


class Driver:
    """The driver functions that a launch needs. Raises ``DriverError``, ``OSError`` without one."""

    def __init__(self) -> None:
        lib = ctypes.CDLL("libcuda.so.1")
        self.call = partial(checked, lib, "cuGetErrorString", DriverError)

    def load(self, cubin: bytes, symbol: str) -> ctypes.c_void_p:
        """The function of that name in a cubin, whose module stays loaded."""
        module = ctypes.c_void_p()
        function = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(cubin))
        self.call("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
        return function

    def allow_shared(self, function: ctypes.c_void_p, dynamic: int, device: int) -> None:
        """Allow ``dynamic`` bytes of dynamic shared memory a block, as Triton's loader does."""
        if dynamic <= UNASKED_SHARED:
            return
        static = ctypes.c_int()
        max_shared = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(max_shared), DEVICE_SHARED_OPTIN, device)
        self.call("cuFuncSetCacheConfig", function, PREFER_SHARED)
        self.call("cuFuncGetAttribute", ctypes.byref(static), FUNC_SHARED_SIZE, function)
        size = max_shared.value - static.value
        self.call("cuFuncSetAttribute", function, FUNC_MAX_DYNAMIC_SHARED, size)

    def tensor_map(self, address: int, argument: dict[str, Any]) -> bytes:
        """The tensor map of a tensor descriptor, as Triton's driver encodes it.

        ``argument`` has its shape and strides in elements, and its layout.
        """
        layout = argument["layout"]
        rank = len(argument["shape"])
        dims = (ctypes.c_uint64 * rank)(*reversed(argument["shape"]))
        steps = [n * layout["elem_size"] for n in reversed(argument["strides"][:-1])]
        strides = (ctypes.c_uint64 * max(rank - 1, 1))(*steps)
        box = (ctypes.c_uint32 * rank)(*reversed(layout["block_size"]))
        ones = (ctypes.c_uint32 * rank)(*[1] * rank)
        buffer = (ctypes.c_uint64 * 24)()
        start = -ctypes.addressof(buffer) % 64
        tensor_map = (ctypes.c_char * 128).from_buffer(buffer, start)
        kind = HOST_TYPES.get(layout["elem_type"], layout["elem_type"])
        self.call(
            "cuTensorMapEncodeTiled", tensor_map, kind, rank, ctypes.c_void_p(address), dims,
            strides, box, ones, 0, layout["swizzle"], L2_PROMOTION_128B, 0,
        )  # fmt: skip
        return bytes(tensor_map)

    def bus_id(self, device: int) -> bytes:
        """The device's PCI bus id, by which NVML identifies it."""
        text = ctypes.create_string_buffer(32)
        self.call("cuDeviceGetPCIBusId", text, 32, device)
        return text.value


def launched(
    torch: Any, driver: Driver, function: ctypes.c_void_p, launch: dict[str, Any], values: list[Any]
) -> Launch:
    """A launch of a loaded function with its arguments on the current stream.

    ``values`` are the bytes of its parameters.
    """
    buffers = [ctypes.create_string_buffer(v, len(v)) for v in values]
    parameters = (ctypes.c_void_p * max(len(buffers), 1))(*map(ctypes.addressof, buffers))
    cluster = int(launch.get("cluster") or 1)
    x, y, z = launch["grid"]
    rows: list[_Attribute] = []
    if launch.get("cooperative"):
        rows.append(_Attribute(id=ATTRIBUTE_COOPERATIVE, value=(1,)))
    if cluster > 1:
        rows.append(_Attribute(id=ATTRIBUTE_CLUSTER, value=(cluster, 1, 1)))
        rows.append(_Attribute(id=ATTRIBUTE_CLUSTER_POLICY, value=(POLICY_SPREAD,)))
    attributes = (_Attribute * max(len(rows), 1))(*rows)
    config = _Config(
        grid=(x * cluster, y, z),
        block=tuple(launch["block"]),
        shared=int(launch.get("shared") or 0),
        attributes=ctypes.addressof(attributes),
        count=len(rows),
    )

    def launch_again(_: object = (buffers, attributes)) -> None:  # to whose memory the others point
        config.stream = torch.cuda.current_stream().cuda_stream
        driver.call("cuLaunchKernelEx", ctypes.byref(config), function, parameters, None)

    return launch_again


class Clocks:
    """Reads the clocks of a device; every value is None without NVML."""

    def __init__(self, bus_id: bytes) -> None:
        self._lib: Any = None
        self._device = ctypes.c_void_p()
        with suppress(OSError, AttributeError):
            lib = ctypes.CDLL("libnvidia-ml.so.1")
            lib.nvmlInit_v2()
            device_ref = ctypes.byref(self._device)
            if not lib.nvmlDeviceGetHandleByPciBusId_v2(ctypes.c_char_p(bus_id), device_ref):
                self._lib = lib

    def _ask(self, name: str, kind: Any, *arguments: Any) -> int | None:
        value = kind()
        ask = getattr(self._lib, name, None)
        failed = ask is None or ask(self._device, *arguments, ctypes.byref(value))
        return None if failed else int(value.value)

    def driver(self) -> str | None:
        """The driver's version; None if it is not known."""
        text = ctypes.create_string_buffer(80)
        failed = self._lib is None or self._lib.nvmlSystemGetDriverVersion(text, len(text))
        return None if failed else text.value.decode("utf-8", "replace")

    def look(self) -> dict[str, Any]:
        """SM clock and its maximum in MHz, °C, and what slows the device; None if not known."""
        reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong)
        return {
            "sm_mhz": self._ask("nvmlDeviceGetClockInfo", ctypes.c_uint, CLOCK_SM),
            "most_mhz": self._ask("nvmlDeviceGetMaxClockInfo", ctypes.c_uint, CLOCK_SM),
            "celsius": self._ask("nvmlDeviceGetTemperature", ctypes.c_uint, 0),
            "slowed_by": None
            if reasons is None
            else [text for bit, text in THROTTLES.items() if reasons & bit],
        }


# Bytes that are read or written between two launches: several times the size of the L2.
MIN_FLUSH_BYTES = 256 << 20
L2_TIMES = 4
PRECISION = 0.01
MIN_SAMPLES = 60
MAX_SAMPLES = 20_000
BLOCK_SECONDS = 0.1
# Consecutive blocks that may lack some of the launches.
MAX_MISSES = 5
# Records of CUPTI that fit into a buffer, with some room.
MAX_RECORDS = 100_000
# Launches of the second block: as a rule the median is settled by then.
SECOND_COUNT = 100
# No kernel is that short; a graph without any takes some ns.
MIN_GRAPH_US = 0.1
# The device's clock advances in steps of so many µs (32 ns on an H200), the limit of precision.
TICK_US = 0.032


def preparing(torch: Any, state: str) -> Launch:
    """A function that brings the L2 into a state before each launch, on the current stream.

    ``cold`` reads other memory, which leaves none of the launch's data and nothing to write back;
    ``dirty`` writes it, and the launch then pays for writing it back; ``hot`` leaves it alone.
    """
    if state == "hot":
        return lambda: None
    l2 = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)
    size = max(MIN_FLUSH_BYTES, L2_TIMES * int(l2 or 0))
    memory = torch.zeros(size // 4, dtype=torch.float32, device="cuda")
    if state == "dirty":
        return lambda: memory.zero_()
    total = torch.zeros((), device="cuda")
    return lambda: torch.sum(memory, dim=0, out=total)


def settled(samples: list[float]) -> bool:
    """Whether the 95 % interval of the median of ``samples`` (µs) is within 1 % of it.

    By the normal approximation; or as narrow as the resolution of the device's clock.
    """
    n = len(samples)
    if n < MIN_SAMPLES:
        return False
    ordered = sorted(samples)
    reach = 1.96 * math.sqrt(n) / 2
    low = ordered[max(0, math.floor(n / 2 - reach) - 1)]
    high = ordered[min(n - 1, math.ceil(n / 2 + reach))]
    return high - low <= max(2 * PRECISION * ordered[n // 2], TICK_US * 1.01)


def next_count(
    count: int, block_seconds: float, records: int, min_count: int, max_count: int
) -> int:
    """How many calls the next block makes, after ``count`` took ``block_seconds``.

    Blocks grow, limited by the seconds a block may take and by the ``records`` that fit a buffer.
    """
    in_time = int(count * BLOCK_SECONDS / max(block_seconds, 1e-6)) + 1
    fitting = MAX_RECORDS * count // max(records, 1)
    return max(min_count, min(max_count, in_time, fitting, max(SECOND_COUNT, 2 * count)))


def events(
    torch: Any, launch: Launch, prepare: Launch, seconds: float, between: Launch
) -> list[float]:
    """A pair of events around one launch on an idle device, as a script would do it."""
    samples: list[float] = []
    began = time.monotonic()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    while True:
        for _ in range(20):
            prepare()
            torch.cuda.synchronize()
            start.record()
            launch()
            end.record()
            torch.cuda.synchronize()
            samples.append(start.elapsed_time(end) * 1000)
        between()
        if settled(samples) or len(samples) >= MAX_SAMPLES or time.monotonic() - began > seconds:
            return samples


def do_bench(
    torch: Any, launch: Launch, prepare: Launch, seconds: float, between: Launch
) -> list[float]:
    """Triton's ``do_bench``: the L2 is flushed by writing, events are in a full queue."""
    milliseconds = _testing().do_bench(launch, warmup=25, rep=100, return_mode="all")
    between()
    return [1000 * float(t) for t in milliseconds]


def cudagraph(
    torch: Any, launch: Launch, prepare: Launch, seconds: float, between: Launch
) -> list[float]:
    """Triton's ``do_bench_cudagraph``: launches one after another in a graph, the L2 left hot."""
    testing = _testing()
    with torch.cuda.stream(torch.cuda.Stream()):
        milliseconds = testing.do_bench_cudagraph(launch, rep=100, return_mode="all")
    between()
    samples = [1000 * float(t) for t in milliseconds]
    if samples and max(samples) < MIN_GRAPH_US:
        raise Unavailable(
            "the graph is empty: what is launched is not on the stream that is captured"
        )
    return samples


def _testing() -> Any:
    try:
        return importlib.import_module("triton.testing")
    except ImportError as error:
        raise Unavailable(f"it is Triton's, which cannot be imported: {error}") from None


# The stopwatches that do not use CUPTI.
STOPWATCHES = {"event": events, "do_bench": do_bench, "cudagraph": cudagraph}
# The stopwatches that bring the L2 into a certain state themselves.
OWN_CACHE = {"do_bench": "dirty", "cudagraph": "hot"}


# -- without CUPTI's tracing ----------------------------------------------------------------------
# The time of a kernel without CUPTI's tracing, if that slows it.
#
# To trace kernels that may run at once CUPTI adds code to each, which notes when its blocks begin
# and end (NVIDIA calls it the instrumentation overhead of concurrent kernel tracing). Most kernels
# do not feel it; one of many short blocks does: on an H200 a GELU of 16,384 blocks of 1,024
# threads reads 67.5 µs so, and takes 61. A pair of events adds nothing to the kernel. What it
# reads too much, the way from one command in the queue to the next, is the same for every kernel
# as long as the queue is full, and an empty kernel tells how much that is.

# A difference below either may be chance.
PART = 0.02
LEAST_DIFFERENCE_US = 0.2
SAMPLES = 80
BATCH = 20
MIN_PAIRS = 6
# All of them together, in µs: a launch that takes longer is looked at less often, or not at all.
MAX_US = 500_000
# Cycles that keep the queue busy while a batch is launched: 2 ms.
AHEAD_CYCLES = 4_000_000
EMPTY = "ptxview_empty"
EMPTY_PTX = f"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry {EMPTY}() {{ ret; }}
"""


def queued(torch: Any, launch: Launch, prepare: Launch, count: int = SAMPLES) -> list[float]:
    """``count`` readings, in µs, of a pair of events around a launch in a full queue."""
    readings: list[float] = []
    batch = min(BATCH, count)
    event = partial(torch.cuda.Event, enable_timing=True)
    pairs = [(event(), event()) for _ in range(batch)]
    while len(readings) < count:
        torch.cuda.synchronize()
        torch.cuda._sleep(AHEAD_CYCLES)
        for start, end in pairs:
            prepare()
            start.record()
            launch()
            end.record()
        torch.cuda.synchronize()
        readings += [1000 * float(start.elapsed_time(end)) for start, end in pairs]
    return readings


def undisturbed(
    torch: Any, result: dict[str, Any], launch: Launch, prepare: Launch, extra: float | None
) -> dict[str, Any]:
    """A stopwatch's ``result`` by CUPTI, corrected by untraced times if tracing slows the call.

    ``extra`` is what a pair of events reads beyond a kernel's own time. A call of one kernel gets
    the samples of the events less this; ``traced`` is then what CUPTI read. Of several kernels the
    pair holds the gaps between them too: the sum stays CUPTI's, ``whole`` is the most that it can
    be. What is not disturbed comes back as it is.
    """
    if extra is None:
        return result
    traced = median_high(result["samples"])
    count = min(SAMPLES, int(MAX_US / max(traced, 1.0)))
    if count < MIN_PAIRS:
        return result
    samples = [pair - extra for pair in queued(torch, launch, prepare, count)]
    untraced = median_high(samples)
    if untraced <= 0 or traced - untraced <= max(PART * untraced, LEAST_DIFFERENCE_US):
        return result
    changed = {**result, "samples": samples, "traced": traced}
    if kernels := result.get("kernels"):
        if len(kernels) > 1 or kernels[0]["per_call"] > 1:
            return {**result, "whole": untraced}
        changed |= {"span": samples, "kernels": [{**kernels[0], "samples": samples}]}
    return changed
