"""Kernels, copies and fills on the device with their times, from CUPTI's activity records.

CUPTI requests a buffer, writes a record of each kernel, copy and fill into it, and returns it when
it is flushed. Both are our callbacks. They take Python's lock in the thread that CUPTI calls them
in, and so must not be called while a launch waits for CUPTI with that lock held: a buffer is large
enough not to fill up between two flushes, which are made with the lock released.

Fields are read where ``cupti_activity.h`` has them: these are at the front of every record, and
in the same place in each version of it (``CUpti_ActivityKernel3`` to ``10``, and all of
``CUpti_ActivityMemcpy``, ``CUpti_ActivityMemcpyPtoP`` and ``CUpti_ActivityMemset``). CUPTI itself
goes from one record to the next.
"""

from __future__ import annotations

import ctypes
import importlib
import mmap
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from ..driver.subscriber import find_cupti

MEMCPY, MEMSET, KERNEL, CONCURRENT_KERNEL, MEMCPY_PEER = 1, 2, 3, 10, 22
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

Work = Callable[[], Any]
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


COPY_KIND, COPY_FROM, COPY_TO = 4, 5, 6
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
    """CUPTI's activity records of this process, between ``start`` and ``stop``."""

    def __init__(self, lib: Any) -> None:
        self._lib = lib
        self._free: list[int] = []
        self._full: list[tuple[int, int]] = []
        self._own: dict[int, mmap.mmap] = {}
        # CUPTI keeps their addresses for as long as the process lives, and so must we.
        self._callbacks = (_Requested(self._requested), _Completed(self._completed))
        next_record = lib.cuptiActivityGetNextRecord
        next_record.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p))
        self._next = next_record

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of CUPTI's. Raises ``Unavailable``."""
        checked(self._lib, "cuptiGetResultString", Unavailable, name, *arguments)

    def start(self) -> None:
        """Record from now on. Raises ``Unavailable``."""
        self.call("cuptiActivityRegisterCallbacks", *self._callbacks)
        for kind in KINDS:
            self.call("cuptiActivityEnable", ctypes.c_uint32(kind))

    def stop(self) -> None:
        """Stop recording, and drop records that were not read.

        All buffers are taken back: another profiler would lose records that came into ours later.
        """
        for kind in KINDS:
            self.call("cuptiActivityDisable", ctypes.c_uint32(kind))
        self.call("cuptiActivityFlushAll", ctypes.c_uint32(FORCED))
        self.forget()

    def flush(self, forced: bool = False) -> None:
        """Flush the complete records; ``forced``: the others too. Raises ``Unavailable``."""
        self.call("cuptiActivityFlushAll", ctypes.c_uint32(FORCED if forced else 0))

    def taken(self) -> list[Event]:
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
        if address in self._own:  # another profiler's stays its own
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
        copy, source, target = fields[COPY_KIND], fields[COPY_FROM], fields[COPY_TO]
        return f"Memcpy {_word(COPIES, copy)} ({_word(MEMORY, source)} -> {_word(MEMORY, target)})"

    # CUPTI calls these two; an exception has nowhere to go there.

    def _requested(self, buffer: Any, size: Any, most: Any) -> None:
        most[0] = 0  # as many records as it can hold
        if not self._free:
            memory = mmap.mmap(-1, BUFFER_BYTES)
            address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            self._own[address] = memory
            self._free.append(address)
        buffer[0], size[0] = self._free.pop(), BUFFER_BYTES

    def _completed(self, context: Any, stream: int, buffer: int, size: int, valid: int) -> None:
        self._full.append((buffer, valid))


# -- blocks of work -------------------------------------------------------------------------------


class Records:
    """CUPTI's records of the device's work within the ``with`` block."""

    def __init__(self, torch: Any, cupti: Cupti) -> None:
        self._torch, self._cupti = torch, cupti
        self._lost = False

    def __enter__(self) -> Records:
        enabled = getattr(self._torch.autograd, "_profiler_enabled", None)
        if enabled is not None and enabled():
            raise Unavailable("a torch.profiler of the program's own runs, and has CUPTI to itself")
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Unavailable):  # the events seen are valid; a later start says what is wrong
            self._cupti.stop()

    def _begin(self) -> None:
        self._cupti.start()
        self._lost = False

    def saw(self, work: Work, enough: Enough) -> list[Event]:
        """Return the device's work for ``work``, ordered by start.

        Waits until the records are ``enough``, for a quarter of a second at most. Raises
        ``Unavailable``.
        """
        if self._lost:  # for example, if the called code runs a profiler
            self._begin()
        events: list[Event] = []
        self._cupti.flush()
        self._cupti.forget()  # of a block before, which was given up
        work()
        self._torch.cuda.synchronize()
        for wait in WAIT_SECONDS:
            time.sleep(wait)
            self._cupti.flush(forced=wait > 0)
            events = sorted([*events, *self._cupti.taken()], key=lambda event: event.start)
            if enough(events):
                break
        else:
            self._lost = True
        return events


def trace_of(torch: Any) -> Records:
    """Return the source of device events. Raises ``Unavailable`` where CUPTI cannot be used."""
    path = find_cupti()
    if path is None:
        raise Unavailable("no libcupti was found")
    try:
        cupti = Cupti(ctypes.CDLL(path))
        cupti.start()
        cupti.stop()
    except (Unavailable, OSError, AttributeError) as error:
        raise Unavailable(f"CUPTI cannot be used: {error}") from None
    return Records(torch, cupti)
