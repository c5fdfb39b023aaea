"""Reads what the device did and when from CUPTI's activity records, through ctypes.

CUPTI asks for memory, writes a record into it of each kernel, copy and fill, and gives it back when
it is flushed. Both are our callbacks. They take Python's lock in the thread that CUPTI calls them
in, and so must not be called while a launch waits for CUPTI with that lock held: a buffer is so
large that it does not fill up between two flushes, which are made with the lock given up.

Fields are read where ``cupti_activity.h`` has them: these are at the front of every record, and
in the same place in each version of it (``CUpti_ActivityKernel3`` to ``10``, and all of
``CUpti_ActivityMemcpy``, ``CUpti_ActivityMemcpyPtoP`` and ``CUpti_ActivityMemset``). How long a
record is, CUPTI says itself: it goes from one to the next.
"""

from __future__ import annotations

import ctypes
import glob
import mmap
import os
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

MEMCPY, MEMSET, KERNEL, CONCURRENT_KERNEL, MEMCPY_PEER = 1, 2, 3, 10, 22
KINDS = (CONCURRENT_KERNEL, MEMCPY, MEMCPY_PEER, MEMSET)
BUFFER_BYTES = 32 << 20
TOOLKIT = "/usr/local/cuda"
NO_MORE, INVALID_KIND = 12, 21
FORCED = 1
# Copies by CUpti_ActivityMemcpyKind, memory by CUpti_ActivityMemoryKind, in torch.profiler's words.
COPIES = ("?", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP")
MEMORY = (
    "Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static",
    "Managed Static",
)  # fmt: skip
_LIBRARY = re.compile(r"libcupti[-.\w]*\.so[.\d]*")


class Event(NamedTuple):
    """A kernel, a copy or a fill on the device: its start and its duration, in ns."""

    name: str
    start: int
    ns: int


class CuptiError(RuntimeError):
    """CUPTI is not there, or cannot be used; the message says why."""


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

_Requested = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_size_t),
)  # fmt: skip
_Completed = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)


# -- finding the library --------------------------------------------------------------------------


def loaded() -> str | None:
    """The path of the libcupti that this process, or its torch, has loaded; None if none is."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                path = line[line.find("/") :].rstrip()  # behind addresses, rights, offset, inode
                if _LIBRARY.fullmatch(os.path.basename(path)):
                    return path
    except OSError:
        pass
    return None


def shipped(cuda: str | None) -> list[str]:
    """Where torch's wheels and the toolkit have a libcupti for this CUDA (``12.8``), best first."""
    major = (cuda or "").split(".")[0] or "*"
    name = f"libcupti.so.{major}"
    folders = [
        os.path.join(path, *parts)
        for path in sys.path
        for parts in (("nvidia", "cuda_cupti", "lib"), ("nvidia", f"cu{major}", "lib"),
                      ("torch", "lib"))
    ]  # fmt: skip
    toolkits = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), TOOLKIT]
    for toolkit in filter(None, toolkits):
        folders += [os.path.join(toolkit, "extras", "CUPTI", "lib64"),
                    os.path.join(toolkit, "lib64"), os.path.join(toolkit, "lib")]  # fmt: skip
    return [path for folder in folders for path in sorted(glob.glob(os.path.join(folder, name)))]


def library(cuda: str | None) -> ctypes.CDLL:
    """CUPTI: the one already loaded, else the best that is found. Raises ``CuptiError``."""
    already_loaded = loaded()
    reason = "no libcupti was found"
    for path in [already_loaded] if already_loaded else shipped(cuda):
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            reason = str(error)
    raise CuptiError(reason)


# -- names ----------------------------------------------------------------------------------------


def _demangler() -> Callable[[bytes], str]:
    """A function that demangles C++ names, or leaves them alone if there is no libstdc++."""
    try:
        demangle = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
        free = ctypes.CDLL(None)["free"]
    except (OSError, AttributeError):
        return lambda name: name.decode("utf-8", "replace")
    demangle.restype, free.argtypes, free.restype = ctypes.c_void_p, (ctypes.c_void_p,), None
    demangle.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)

    def plain(name: bytes) -> str:
        # Without the beginning that all C++ functions have, "f" would be read as a float.
        address = demangle(name, None, None, None) if name.startswith(b"_Z") else None
        if not address:
            return name.decode("utf-8", "replace")
        text = ctypes.string_at(address)
        free(address)
        return text.decode("utf-8", "replace")

    return plain


def _word(words: tuple[str, ...], index: int) -> str:
    return words[index] if index < len(words) else words[0]


# -- records --------------------------------------------------------------------------------------


class Cupti:
    """CUPTI's activity records of this process, between ``start`` and ``stop``."""

    def __init__(self, lib: Any, kinds: tuple[int, ...] = KINDS) -> None:
        self._lib, self._kinds = lib, kinds
        self._free: list[int] = []
        self._full: list[tuple[int, int]] = []
        self._own: dict[int, mmap.mmap] = {}
        self._demangle = _demangler()
        self._names: dict[bytes, str] = {}
        # CUPTI keeps their addresses for as long as the process lives, and so must we.
        self._callbacks = (_Requested(self._requested), _Completed(self._completed))
        next_record = lib.cuptiActivityGetNextRecord
        next_record.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p))
        self._next = next_record

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of CUPTI's. Raises ``CuptiError``."""
        status = getattr(self._lib, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._lib.cuptiGetResultString(status, ctypes.byref(text))
            message = (text.value or b"unknown error").decode("utf-8", "replace")
            raise CuptiError(f"{name}: {message} ({status})")

    def start(self) -> None:
        """Record from now on. Raises ``CuptiError``."""
        self.call("cuptiActivityRegisterCallbacks", *self._callbacks)
        for kind in self._kinds:
            self.call("cuptiActivityEnable", ctypes.c_uint32(kind))

    def stop(self) -> None:
        """Stop recording, and drop records that were not read.

        All buffers are taken back: another profiler would lose records that came into ours later.
        """
        for kind in self._kinds:
            self.call("cuptiActivityDisable", ctypes.c_uint32(kind))
        self.call("cuptiActivityFlushAll", ctypes.c_uint32(FORCED))
        self.forget()

    def flush(self, forced: bool = False) -> None:
        """Flush the complete records; ``forced``: the others too. Raises ``CuptiError``."""
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
            events.append(Event(self._name(head.kind, address_of_record, names), head.start,
                                head.end - head.start))  # fmt: skip

    def _name(self, kind: int, address: int, names: dict[int, str]) -> str:
        if kind in (KERNEL, CONCURRENT_KERNEL):
            pointer = ctypes.c_void_p.from_address(address + KERNEL_NAME).value or 0
            if pointer not in names:
                raw = ctypes.string_at(pointer) if pointer else b""
                if raw not in self._names:
                    self._names[raw] = self._demangle(raw)
                names[pointer] = self._names[raw]
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
