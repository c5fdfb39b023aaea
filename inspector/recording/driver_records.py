"""Decodes ``driver-<pid>-<tag>.records``: what ``probes/driver`` saw at the CUDA driver, and
``timeline-<pid>-<tag>.records``, which becomes a blob as it is.

A file is a sequence of records: kind, size and time, then as many bytes as the size says. It may be
anybody's: every number is checked before it is used, and a record that makes no sense is counted
and passed over. One that is cut short by a kill is the last.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath

from msgspec import Struct

from inspector.base.errors import Unreadable
from inspector.system import files

FORMATS = (1, 2)
"""Of 1 there are no times."""
BEGAN, MODULE, ENTRY, REFUSED, COUNTS, FRAME, LEFT, TIMES = range(1, 9)
OTHERS, IN_GRAPH, BY_OPERATOR, TUNING = 1, 2, 4, 8
CANDIDATE_SHIFT = 8
"""Above the flags of a tuner's launch is the number of the candidate that it is of."""

_RECORD = struct.Struct("<IIQ")
_TIMELINE = struct.Struct("<16xQq")  # of the head: its end, and what makes UTC of it

LOST = {
    "lost_launches": ("launch", "of a kernel that is not known"),
    "lost_modules": ("module", "that the driver loaded could not be kept"),
    "lost_graphs": ("launch of a CUDA graph", "with kernels that may not be counted"),
    "changed_graphs": (
        "change of a CUDA graph",
        "after it was made: its kernels are counted as they were before",
    ),
    "failed_writes": ("record", "could not be written"),
    "lost_refusals": ("refused launch", "not told: the 64 before differ already"),
}
"""What was seen and could not be recorded, and why, in the order of the record's numbers."""

MAX_ENTRIES = 16384
"""Distinct launches of one process, as ``driver.c`` has it."""

MAX_LIBRARIES, MAX_OPERATORS = 6, 8
"""Libraries and operators of one launch that are recorded, innermost first."""

ERRORS = {
    -1: "libcupti is not installed (pip install nvidia-cuda-cupti)",
    -2: "libcupti lacks a function",
    -3: "there was no memory",
    -4: "no thread could be started",
}
"""Numbers of ``driver.c`` for the reasons that are its own; CUPTI's are above zero."""

ROW, SPREAD = 250, 12
"""Bytes of memory that a record takes at most: in all, and for each of its bytes."""

_PLUMBING = re.compile(
    r"libcuda\.so|libcupti|libc\.so|libcudart|libffi|libpython|libstdc\+\+|.*ptxview_"
)
_OPERATORS = (
    (re.compile(r"_ZN2at4_ops(\d{1,3})(.*)", re.DOTALL), ("4call", "10redispatch")),
    (re.compile(r"_ZN5torch8autograd9generated(\d{1,3})(.*)", re.DOTALL), ("5apply",)),
)

Event = dict[str, object]
Keep = Callable[[str, int, int], object]
_NAME = re.compile(r"(driver|timeline)-(\d{1,10})-[0-9a-f]{1,16}\.records")


def is_records(name: str) -> bool:
    """Whether a file of a recording holds such records."""
    return _NAME.fullmatch(name) is not None


class PartContent(Struct, frozen=True):
    """A part of a file, with the SHA-256 that it must have."""

    path: Path
    digest: str
    begin: int
    end: int

    def read(self) -> bytes:
        data = files.part(self.path, self.begin, self.end - self.begin, inside=self.path.parent)
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise Unreadable(f"a module in {self.path} is damaged")
        return data


def read_records(
    file: Path, take: Callable[[int], object], parts: dict[str, PartContent]
) -> Iterator[tuple[float, Event]]:
    """Yield the events of a file, each with its time, and add its modules to ``parts``.

    Raises ``Unreadable``, and what ``take`` raises: it is called with the bytes of memory that what
    is decoded next takes.
    """

    def keep(digest: str, begin: int, end: int) -> None:
        parts[digest] = PartContent(file, digest, begin, end)

    data = files.read(file, follow=False)
    if file.name.startswith("timeline"):
        take(ROW)
        digest, time = hashlib.sha256(data).hexdigest(), _ended_at(data)
        keep(digest, 0, len(data))
        pid = int(file.name.split("-")[1])
        yield time, {"event": "timeline", "pid": pid, "blob": digest, "time": time}
        return
    for event in _Decoder(file, data, keep, take).events():
        yield float(str(event["time"])), event


def _ended_at(timeline: bytes) -> float:
    """When a timeline's window ended, in seconds since 1970. Raises ``Unreadable``."""
    if len(timeline) < _TIMELINE.size:
        raise Unreadable("the timeline of the GPU is damaged: it is too short")
    ended, to_utc = _TIMELINE.unpack_from(timeline)
    return float(ended + to_utc) / 1e9


def keep_records(folder: Path, blob: Callable[[bytes], object]) -> None:
    """Turn the records of a recording's folder into events, and the cubins of kernels into blobs.
    Raises ``OSError`` if they cannot be written, ``Unreadable`` if a file cannot be read."""
    for file in filter(lambda file: is_records(file.name), files.files_in(folder)):
        allowance = files.Allowance(share=2)
        target = file.with_name(f"events-{file.stem}.jsonl")
        part, modules = target.with_name(f".{target.name}"), dict[str, PartContent]()
        with part.open("w", encoding="ascii") as out:
            for _, event in read_records(file, partial(allowance.take, label=file.name), modules):
                out.write(json.dumps(event, separators=(",", ":")) + "\n")
        for module in modules.values():
            blob(module.read())
        part.replace(target)
        file.unlink()


class _Decoder:
    """What the records so far have told of one process."""

    def __init__(self, file: Path, data: bytes, keep: Keep, take: Callable[[int], object]) -> None:
        self._pid, self._data = int(file.name.split("-")[1]), data
        self._keep, self._take = keep, take
        self._modules: dict[int, tuple[int, int]] = {}  # number: begin and end
        self._kernels: dict[int, frozenset[str]] = {}  # number: names
        self._digests: dict[int, str] = {}
        self._last: dict[str, int] = {}  # name: the last module that has it
        self._seen: set[int] = set()
        self._frames: dict[int, tuple[str, str]] = {}

    def events(self) -> Iterator[Event]:
        rows = list(self._rows())
        # A frame is named after the first entry that has it.
        for begin, end in ((begin, end) for kind, begin, end, _ in rows if kind == FRAME):
            with suppress(struct.error, ValueError):
                record = _Record(self._data[begin:end])
                address, library, symbol = record.numbers("<QII")
                if library + symbol == record.remaining:
                    self._frames[address] = _path(record.data(library)), _text(record.data(symbol))
        makers = {
            BEGAN: self._began,
            ENTRY: self._entry,
            REFUSED: self._refused,
            COUNTS: self._counts,
            LEFT: self._ended,
            TIMES: self._times,
        }
        damaged, latest = 0, 0.0
        for kind, begin, end, nanoseconds in rows:
            latest = nanoseconds / 1e9 or latest
            try:
                if kind == MODULE:
                    number, lost = struct.unpack_from("<II", self._data[begin : begin + 8])
                    if not lost:
                        if number in self._modules:
                            raise ValueError("its number was given already")
                        self._modules[number] = begin + 8, end
                elif kind != FRAME:
                    for event in makers[kind](_Record(self._data[begin:end])):
                        yield {**event, "time": latest, "pid": self._pid}
            except (struct.error, ValueError, KeyError):
                damaged += 1
        if damaged:
            text = f"of process {self._pid}: records of launches that are damaged: {damaged:,}"
            yield {"event": "problem", "where": "driver", "text": text, "time": latest}

    def _rows(self) -> Iterator[tuple[int, int, int, int]]:
        offset, size = 0, len(self._data)
        while offset + _RECORD.size <= size:
            kind, length, nanoseconds = _RECORD.unpack_from(self._data, offset)
            begin, offset = offset + _RECORD.size, offset + _RECORD.size + length
            if offset > size:
                return
            self._take(ROW + (0 if kind == MODULE else SPREAD * length))
            yield kind, begin, offset, nanoseconds

    # -- records --------------------------------------------------------------------------------

    def _began(self, record: _Record) -> Iterator[Event]:
        form, error = record.numbers("<Ii")
        if form not in FORMATS:
            raise ValueError("it is of another version")
        program = _path(record.data(record.remaining))
        why = {"error": error} if error > 0 else {"why": ERRORS.get(error, str(error))}
        yield {"event": "driver", "schema": 1, "began": not error, **(why if error else {})}
        if program and not PurePath(program).name.startswith("python"):
            # A program that may carry its kernels' PTX.
            yield {"event": "library", "path": program, "name": PurePath(program).name}

    def _entry(self, record: _Record) -> Iterator[Event]:
        number, module, device, *dims = record.numbers("<Iii3I3II3I")
        flags, frames, parameters, size, text = record.numbers("<5I")
        if number >= MAX_ENTRIES:
            raise ValueError(f"its number, {number}, is above {MAX_ENTRIES - 1:,}")
        if number in self._seen:
            raise ValueError(f"an earlier launch has its number, {number}")
        if 8 * frames + 2 * parameters + size + text != record.remaining:
            raise ValueError("its sizes do not fit")
        libraries, operators = self._callers(record.numbers(f"<{frames}Q"))
        values = [record.data(length).hex() for length in record.numbers(f"<{parameters}H")]
        symbol = record.data(text)
        if record.remaining or not symbol:
            raise ValueError("its sizes do not fit")
        self._seen.add(number)
        event: Event = {
            "id": number,
            "name": _text(symbol),
            "module": self._module_of(module, symbol),
            "others": bool(flags & OTHERS),
            "device": device if device >= 0 else None,
            "by_operator": bool(flags & BY_OPERATOR),
            "in_graph": bool(flags & IN_GRAPH),
            "tuning": bool(flags & TUNING),
            "candidate": flags >> CANDIDATE_SHIFT or None,
            "libraries": libraries,
            "operators": operators,
        }
        if not flags & OTHERS:
            event |= {"grid": dims[:3], "block": dims[3:6], "shared_bytes": dims[6]}
            event |= {"cluster": dims[7:10] if dims[7] else None, "parameters": values}
        fields = {k: v for k, v in event.items() if v is not None and v is not False and v != []}
        yield {"event": "driver_launch", **fields}

    def _refused(self, record: _Record) -> Iterator[Event]:
        module, *dims = record.numbers("<i7I")
        sizes = record.numbers("<3I")
        if sum(sizes) != record.remaining:
            raise ValueError("its sizes do not fit")
        symbol, kind, error = map(record.data, sizes)
        digest = self._module_of(module, symbol)
        yield {
            "event": "not_launched",
            "symbol": _text(symbol),
            **({} if digest is None else {"hash": digest}),
            "kind": _text(kind),
            "error": _text(error),
            "grid": dims[:3],
            "block": dims[3:6],
            "shared_bytes": dims[6],
        }

    def _counts(self, record: _Record) -> Iterator[Event]:
        sampled, row_count, *lost = record.numbers("<II6Q")
        if row_count * 40 != record.remaining:
            raise ValueError("its sizes do not fit")
        rows = struct.iter_unpack("<5Q", record.data(record.remaining))
        counts = {str(row[0]): list(row[1:]) for row in rows if row[0] < MAX_ENTRIES}
        losses = {key: n for key, n in zip(LOST, lost, strict=True) if n}
        yield {"event": "driver_counts", "counts": counts, "exact": not sampled, **losses}

    def _times(self, record: _Record) -> Iterator[Event]:
        row_count, _, lost = record.numbers("<IIQ")
        if row_count * 40 != record.remaining:
            raise ValueError("its sizes do not fit")
        rows = struct.iter_unpack("<3Q4I", record.data(record.remaining))
        times = {str(row[0]): list(row[1:]) for row in rows if row[0] < MAX_ENTRIES}
        yield {"event": "driver_times", "times": times, "lost": lost}

    def _ended(self, record: _Record) -> Iterator[Event]:
        (error,) = record.numbers("<i")
        why = {"error": error} if error else {}
        yield {"event": "driver_left", "why": _text(record.data(record.remaining)), **why}

    # -- meaning --------------------------------------------------------------------------------

    def _module_of(self, number: int, symbol: bytes) -> str | None:
        name = _path(symbol)
        if name not in self._kernels_of(number):
            for other in self._modules:
                self._kernels_of(other)
            number = self._last.get(name, -1)
        if number not in self._modules:
            return None
        if number not in self._digests:
            begin, end = self._modules[number]
            digest = hashlib.sha256(memoryview(self._data)[begin:end]).hexdigest()
            self._digests[number] = digest
            self._keep(digest, begin, end)
        return self._digests[number]

    def _kernels_of(self, number: int) -> frozenset[str]:
        if number in self._modules and number not in self._kernels:
            from inspector.parsers.cubin import read_cubin  # a program waits for it otherwise

            begin, end = self._modules[number]
            cubin = read_cubin(self._data[begin:end])
            self._kernels[number] = frozenset(() if cubin is None else cubin.entries)
            for name in self._kernels[number]:
                self._last[name] = max(self._last.get(name, -1), number)
        return self._kernels.get(number, frozenset())

    def _callers(self, addresses: Iterable[int]) -> tuple[list[str], list[str]]:
        """Libraries and ATen's operators on the stack of a launch, innermost first, each once."""
        libraries: dict[str, None] = {}
        operators: dict[str, None] = {}
        for address in addresses:
            path, symbol = self._frames.get(address, ("", ""))
            if path and not _PLUMBING.match(PurePath(path).name):
                libraries[path] = None
            if symbol and (operator := operator_of(symbol)) is not None:
                operators[operator] = None
        return list(libraries)[:MAX_LIBRARIES], list(operators)[:MAX_OPERATORS]


class _Record:
    """The bytes of one record, read from their beginning; too few raise ``struct.error``."""

    def __init__(self, data: bytes) -> None:
        self._rest = memoryview(data)

    @property
    def remaining(self) -> int:
        return len(self._rest)

    def numbers(self, form: str) -> tuple[int, ...]:
        return struct.unpack(form, self.data(struct.calcsize(form)))

    def data(self, size: int) -> bytes:
        piece, self._rest = self._rest[:size], self._rest[size:]
        return bytes(piece)


def operator_of(symbol: str) -> str | None:
    """ATen's operator, or the node of the backward pass, that a mangled function is of."""
    for pattern, methods in _OPERATORS:
        if (match := pattern.match(symbol)) is not None:
            size = int(match[1])
            name, method = match[2][:size], match[2][size:]
            return name if len(name) == size and method.startswith(methods) else None
    return None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _path(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
