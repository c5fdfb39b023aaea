"""Launches of CUDA C++: what an extension's stand-in of the CUDA runtime asks of this process.

The extension holds the PTX that nvcc made of its device code. A launch comes with that, the
kernel's mangled name, its configuration and the addresses of its arguments, and is run as Triton's
are. Where it ends as it would on a GPU, the stand-in raises what is written here as RuntimeError.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import struct
import threading
from collections.abc import Callable, Iterator
from functools import cache
from math import prod
from typing import Any

from ..calls import graphs
from . import current, devices, launch, limits, memory, native, ptx, refusals, writes

VERSION = 4
REFUSED = 16
"""Added to CUDA's error in the answer to a launch that the driver would refuse."""

_TEXT = ctypes.c_char_p
_WORD, _SIGNED = ctypes.c_uint64, ctypes.c_int64
_ROOM = ctypes.POINTER(ctypes.c_char)
_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, _WORD, _TEXT, ctypes.POINTER(ctypes.c_uint32),
    ctypes.POINTER(ctypes.c_void_p), _ROOM, _SIGNED,
)  # fmt: skip
_SYMBOL = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, _WORD, _TEXT, _WORD, ctypes.POINTER(_WORD), _ROOM, _SIGNED
)
_ALLOW = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, _WORD, _TEXT, _SIGNED)
_ASKED = ctypes.CFUNCTYPE(None)
_LIMIT = ctypes.CFUNCTYPE(_SIGNED, ctypes.c_int, ctypes.c_int, _ROOM, _SIGNED)
_RESOURCES = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, _WORD, _TEXT, ctypes.c_int, _WORD, ctypes.POINTER(_SIGNED),
    _ROOM, _SIGNED,
)  # fmt: skip


class _Services(ctypes.Structure):
    """``Services`` in ptxview_launch.h."""

    _fields_ = (
        ("version", _WORD),
        ("launch", _LAUNCH),
        ("symbol", _SYMBOL),
        *((name, ctypes.c_void_p) for name in ("allocate", "release", "range")),
        *((name, ctypes.c_void_p) for name in ("absence", "mark_absent", "interrupt")),
        ("allow", _ALLOW),
        ("asked", _ASKED),
        ("limit", _LIMIT),
        ("resources", _RESOURCES),
    )


_services: _Services | None = None
_modules: dict[tuple[int, int], _Module] = {}
_making = threading.Lock()


def attach(torch: Any) -> None:
    """Let extensions reach this interpreter, those too that were built in another process."""
    global _services
    library = native.library()

    def address(function: Any) -> int | None:
        return ctypes.cast(function, ctypes.c_void_p).value

    _services = _Services(
        VERSION, _LAUNCH(_launched), _SYMBOL(_symbol), address(library.ptxview_allocate),
        address(library.ptxview_release), address(library.ptxview_range),
        address(library.ptxview_absence_at), address(library.ptxview_mark_absent_at),
        address(ctypes.pythonapi.PyErr_SetInterrupt),
        _ALLOW(_allow), _ASKED(refusals.asked),
        _LIMIT(_limit), _RESOURCES(_resources),
    )  # fmt: skip
    graphs.EMULATED.append(refusals.raising)
    _publish()
    os.register_at_fork(after_in_child=_publish)


def _publish() -> None:
    assert _services is not None
    os.environ["PTXVIEW_RUNTIME"] = f"{os.getpid()}:{ctypes.addressof(_services)}"


# -- what the stand-in calls --------------------------------------------------------------------


def _answer(why: Any, room: int, asked: Callable[[], None]) -> int:
    """0; 1 and the reason; or 2 where the user interrupts."""
    try:
        asked()
        return 0
    except KeyboardInterrupt:
        text, status = "interrupted", 2
    except Exception as error:
        text, status = str(error) or type(error).__name__, 1
    said = text.encode("utf-8", "replace")[: room - 1] + b"\0"
    ctypes.memmove(why, said, len(said))
    return status


def _launched(
    text: int, size: int, kernel: bytes, numbers: Any, arguments: Any, why: Any, room: int
) -> int:
    refused: list[int] = []

    def asked() -> None:
        sizes = [int(numbers[n]) for n in range(7)]
        module, entry = _module(text, size), kernel.decode("utf-8", "replace")
        if (error := module.refuses(entry, sizes)) is not None:
            refused.append(error)
            return
        graphs.launched(base_name(entry), sizes)
        module.launch(entry, sizes, arguments)

    status = _answer(why, room, asked)
    return REFUSED + refused[0] if refused and not status else status


def _allow(text: int, size: int, kernel: bytes, dynamic: int) -> int:
    """``cudaFuncSetAttribute`` of dynamic shared memory."""
    try:
        return refusals.allow(_module(text, size).text, kernel.decode("utf-8", "replace"), dynamic)
    except Exception:
        return 0  # the limits of a kernel that cannot be read are unknown


def _limit(device: int, attribute: int, name: Any, room: int) -> int:
    """``cudaDeviceGetAttribute``, and a device's memory and name; -1 where it is not known."""
    try:
        if room:
            said = devices.find(current().target).name.encode()[: room - 1] + b"\0"
            ctypes.memmove(name, said, len(said))
        if attribute == -1:
            return max(0, _limit(device, 0, name, 0) - memory.held(device))
        known = limits.of_device().get(attribute)
        return -1 if known is None else known
    except Exception:
        return -1


def _resources(
    text: int, size: int, kernel: bytes, threads: int, dynamic: int, figures: Any, why: Any,
    room: int,
) -> int:  # fmt: skip
    def asked() -> None:
        module = _module(text, size)
        entry = kernel.decode("utf-8", "replace")
        known = limits.of_kernel(module.text, entry, threads, dynamic)
        if known is None:
            raise RuntimeError(f"ptxview: the registers of {base_name(entry)} are not known here")
        for n, figure in enumerate(known):
            figures[n] = figure

    return _answer(why, room, asked)


def _symbol(
    text: int, size: int, name: bytes, nbytes: int, address: Any, why: Any, room: int
) -> int:
    def asked() -> None:
        address[0] = _module(text, size).variable(name.decode("utf-8", "replace"), nbytes)

    return _answer(why, room, asked)


def _module(text: int, size: int) -> _Module:
    with _making:
        made = _modules.get((text, size))
        if made is None:
            ptx_text = ctypes.string_at(text, size).rstrip(b"\0").decode("utf-8", "replace")
            made = _modules[text, size] = _Module(ptx_text)
        return made


# -- names --------------------------------------------------------------------------------------


@cache
def demangled(name: str) -> str:
    """Demangle a C++ name; other names, and all names without libstdc++, stay the same."""
    try:
        library = ctypes.CDLL("libstdc++.so.6")
        function = library.__cxa_demangle
    except (OSError, AttributeError):
        return name
    function.restype = ctypes.c_void_p
    status = ctypes.c_int()
    made = function(name.encode(), None, None, ctypes.byref(status))
    if not made:
        return name
    try:
        text = ctypes.string_at(made).decode("utf-8", "replace")
    finally:
        free = ctypes.CDLL(None).free
        free.argtypes = [ctypes.c_void_p]
        free(made)
    # What is local to a file has the file's name in nvcc's.
    return re.sub(r"\b_INTERNAL_\w+::", "", text)


def base_name(name: str) -> str:
    """``fill`` of ``_ZN1n4fillIfEEvPT_``: without namespaces and arguments."""
    text, _ = _signature(demangled(name))
    depth, kept = 0, ""
    for character in text:
        depth += (character == "<") - (character == ">")
        kept += character if not depth and character != ">" else ""
    return kept.rpartition("::")[2].rpartition(" ")[2] or name


def _signature(text: str) -> tuple[str, list[str] | None]:
    """Split a demangled name into its head and its parameters' types (None without parameters)."""
    if not text.endswith(")"):
        return text, None
    depth, at = 0, len(text)
    while at:
        at -= 1
        depth += (text[at] == ")") - (text[at] == "(")
        if not depth:
            break
    types, level, start = [], 0, at + 1
    for n in range(at + 1, len(text) - 1):
        level += (text[n] in "(<[{") - (text[n] in ")>]}")
        if text[n] == "," and not level:
            types.append(text[start:n].strip())
            start = n + 1
    last = text[start:-1].strip()
    return text[:at], [*types, last] if last else types


# -- one library's device code --------------------------------------------------------------------


class _Module:
    """The device code of one source: its kernels, and its variables."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.absent: dict[str, str] = {}
        """Variables that a kernel may have written that was not run to its end, and why."""

    def variable(self, name: str, size: int) -> int:
        """The address of a variable of the module's, by its name in the PTX."""
        placed = ptx.variables(self.text)
        if name not in placed:
            raise RuntimeError(
                f"ptxview: the variable {demangled(name)} is not in the PTX of this library: "
                "no kernel uses it"
            )
        if name in self.absent:
            raise RuntimeError(f"ptxview: the value of {name} is absent: {self.absent[name]}")
        return placed[name]

    def refuses(self, entry: str, numbers: list[int]) -> int | None:
        """CUDA's error if the driver would refuse this launch; it is reported and recorded."""
        grid, block, shared = _triple(numbers, 0), _triple(numbers, 3), numbers[6]
        refused = refusals.of(self.text, entry, grid, block, shared)
        if refused is None:
            return None
        refusals.report(base_name(entry), self.text, entry, refused, grid, block)
        refusals.wait(refused)
        return refused.error

    def launch(self, entry: str, numbers: list[int], arguments: Any) -> None:
        """Run a grid, or make absent what it would have written."""
        grid, block, shared = _triple(numbers, 0), _triple(numbers, 3), numbers[6]
        name = base_name(entry)
        given = _Arguments(self, entry, arguments)
        why = (
            next(given.absences(), "")
            or next((self.absent[v] for v in ptx.used(self.text, entry, self.absent)), "")
            or launch.compute(
                name,
                f"{prod(grid)} blocks",
                lambda seconds: ptx.run_entry(
                    self.text, entry, name, grid, block, shared, given.packed, given.tensors,
                    given.pinned(), seconds,
                ),
            )
        )  # fmt: skip
        if why:
            given.make_absent(why)
            self.absent |= dict.fromkeys(ptx.globals_of(self.text, entry), why)


def _triple(numbers: list[int], at: int) -> tuple[int, int, int]:
    x, y, z = numbers[at : at + 3]
    return x, y, z


# -- arguments ------------------------------------------------------------------------------------


class Piece:
    """Device memory that no tensor of Python's is known for, as messages name it."""

    def __init__(self, start: int, end: int, kind: str) -> None:
        self._start, self._end = start, end
        self._size = _SIZES.get(kind, 1)
        self.dtype = kind if kind in _SIZES else "bytes"
        self.shape = ((end - start) // self._size,)

    def data_ptr(self) -> int:
        return self._start

    def numel(self) -> int:
        return self.shape[0]

    def stride(self) -> tuple[int]:
        return (1,)

    def element_size(self) -> int:
        return self._size


_SIZES = {
    "bool": 1, "char": 1, "signed char": 1, "unsigned char": 1, "short": 2, "unsigned short": 2,
    "int": 4, "unsigned int": 4, "long": 8, "unsigned long": 8, "long long": 8,
    "unsigned long long": 8, "float": 4, "double": 8, "__half": 2, "__nv_bfloat16": 2,
    "c10::Half": 2, "c10::BFloat16": 2,
}  # fmt: skip


class _Arguments:
    """What one launch was given, by position."""

    def __init__(self, module: _Module, entry: str, arguments: Any) -> None:
        sizes = ptx.parameter_sizes(module.text, entry)
        self.packed = [ctypes.string_at(arguments[n], size) for n, size in enumerate(sizes)]
        types = _signature(demangled(entry))[1]
        self._types = types if types is not None and len(types) == len(sizes) else [""] * len(sizes)

    def _pointers(self) -> Iterator[tuple[int, int]]:
        """Each argument's position with its 64-bit words that are addresses of device memory."""
        for position, data in enumerate(self.packed):
            for (word,) in struct.iter_unpack("<Q", data[: len(data) // 8 * 8]):
                if word and native.memory_around(word, word + 1):
                    yield position, word

    def absences(self) -> Iterator[str]:
        """Why memory that an argument points to is absent."""
        for _, word in self._pointers():
            if why := native.absence_at(word):
                yield why

    def pinned(self) -> set[tuple[int, int]]:
        """The host's pinned memory that arguments point to."""
        words = (
            w for data in self.packed if len(data) == 8 for (w,) in struct.iter_unpack("<Q", data)
        )
        return {piece for word in words if (piece := native.pinned_around(word))}

    def make_absent(self, why: str) -> None:
        """Make absent what the kernel may write: all but what its parameters say is constant."""
        starts = [word for _, word in self._pointers()]
        written = writes.behind(starts, writes.MOST_STEPS)
        written |= {
            w for at, w in self._pointers() if not re.search(r"\bconst\*$", self._types[at])
        }
        for start in written:
            native.mark_absent_at(start, why)

    def tensors(self) -> dict[str, Any]:
        """What the pointers among the arguments point at, by position: PTX has no names."""
        pointers = dict(self._pointers())
        owners = _owners(set(pointers.values()))
        made: dict[str, Any] = {}
        for position, word in pointers.items():
            name = f"argument {position + 1}"
            around = native.memory_around(word, word + 1)
            kind = self._types[position].removesuffix("*").removesuffix(" const").strip()
            if word in owners:
                made[name] = owners[word]
            elif around is not None:
                made[name] = Piece(word, around[1], kind)
        return made


def _owners(wanted: set[int]) -> dict[int, Any]:
    """The program's tensors that begin at these addresses, the largest of each."""
    import torch

    owners: dict[int, Any] = {}
    for value in gc.get_objects():
        if not issubclass(type(value), torch.Tensor):
            continue
        try:
            first, size = int(value.data_ptr()), value.numel()
        except (RuntimeError, NotImplementedError):
            continue  # a tensor without memory
        if first in wanted and (first not in owners or owners[first].numel() < size):
            owners[first] = value
    return owners
