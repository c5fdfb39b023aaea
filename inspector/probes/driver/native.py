"""Programs that are not Python's: what they need so that their launches are seen as well.

Nothing of ours runs in them before the driver loads what ``CUDA_INJECTION64_PATH`` names, so that
the name is put into their environment when they are started. Only into that of a program which is
itself one for CUDA: a shell or a launcher may start a profiler, and Nsight Compute refuses to run
beside the variable.

As a script (``ptxview run -- PROGRAM`` runs it in an interpreter of the user's): has ``driver.c``
compiled, and prints the variables for the program named as JSON. It imports nothing but its
neighbour, so that it starts quickly.
"""

from __future__ import annotations

import os
import struct
import sys
from typing import BinaryIO

INJECTION = "CUDA_INJECTION64_PATH"
CUPTI = "PTXVIEW_CUPTI"

TOOLS = (
    "ncu", "nsys", "nsys-launcher", "nv-nsight-cu-cli", "compute-sanitizer", "cuda-gdb", "nvprof",
    "cuda-memcheck", "nvidia-smi", "nvcc", "ptxas", "cuobjdump", "nvdisasm", "dcgmi",
)  # fmt: skip
"""NVIDIA's own programs, which are not the user's, or stand at the driver themselves."""

LIBRARIES = (
    b"libcuda.so", b"libcudart.so", b"libcublas", b"libcudnn", b"libcufft", b"libcusparse",
    b"libcusolver", b"libcurand", b"libnccl", b"libtorch_cuda",
)  # fmt: skip
"""Libraries that a program for CUDA is linked to."""

SECTIONS = (b".nv_fatbin\0", b"__nv_relfatbin\0")
"""Where nvcc puts device code (CUDA Binary Utilities)."""

_MOST = 1 << 20
"""Bytes of a table of names that are looked at."""


def uses_cuda(path: str) -> bool:
    """Whether a file is a 64-bit ELF program with device code, or linked to CUDA's libraries."""
    if os.path.basename(path) in TOOLS:
        return False
    try:
        return has_fatbin(path) or any(name in _linked(path) for name in LIBRARIES)
    except OSError:
        return False


def has_fatbin(path: str) -> bool:
    """Whether a 64-bit ELF file has a section for device code. Raises OSError."""
    with open(path, "rb") as file:
        return any(name in _sections(file)[0] for name in SECTIONS)


def _linked(path: str) -> bytes:
    """The text with the names of libraries that a 64-bit ELF file is linked to."""
    with open(path, "rb") as file:
        names, sections = _sections(file)
        for section in sections:
            (name,) = struct.unpack_from("<I", section)
            if names[name : name + 8] == b".dynstr\0":
                return _content(file, section)
    return b""


def _sections(file: BinaryIO) -> tuple[bytes, tuple[bytes, ...]]:
    """The names of a 64-bit ELF file's sections, one after the other, and the table's rows."""
    head = file.read(64)
    if len(head) < 64 or head[:5] != b"\x7fELF\x02":
        return b"", ()
    (table,) = struct.unpack_from("<Q", head, 40)
    size, count, names = struct.unpack_from("<HHH", head, 58)
    if size < 64 or names >= count:
        return b"", ()
    _go(file, table)
    rows = tuple(file.read(size) for _ in range(count))
    if len(rows[-1]) < size:
        return b"", ()
    return _content(file, rows[names]), rows


def _content(file: BinaryIO, section: bytes) -> bytes:
    offset, length = struct.unpack_from("<QQ", section, 24)
    _go(file, offset)
    return file.read(min(length, _MOST))


def _go(file: BinaryIO, offset: int) -> None:
    """To a place that the file names, which may lie beyond what any file can hold."""
    file.seek(min(offset, (1 << 63) - 1))


def find_cupti() -> str | None:
    """libcupti as it is loaded here, else of NVIDIA's wheels, else of a toolkit."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                if "libcupti.so" in line:
                    return line.split(maxsplit=5)[5].strip()
    except OSError:
        pass
    import glob

    patterns = [
        f"{place}/nvidia/{package}/lib/libcupti.so.*[0-9]"
        for place in sys.path if place.endswith("-packages")
        for package in ("cu13", "cuda_cupti", "cu*")
    ]  # fmt: skip
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    for home in filter(None, homes):
        patterns += [
            f"{home}/extras/CUPTI/lib64/libcupti.so.*[0-9]",
            f"{home}/lib64/libcupti.so.*[0-9]",
        ]
    for pattern in patterns:
        if matches := sorted(glob.glob(pattern), key=len):
            return matches[0]
    return None


def variables(library: str) -> dict[str, str]:
    """What a program's environment needs besides; {} where what sees launches is not there."""
    cupti = find_cupti()
    if cupti is None or not os.path.exists(library):
        return {}
    return {INJECTION: library, CUPTI: cupti}


def main(program: str) -> None:
    """Print the variables for a program; none for one that is not for CUDA."""
    import json

    environment = {}
    if uses_cuda(program):
        import runpy

        neighbour = os.path.join(os.path.dirname(__file__), os.pardir, "calls", "launch_native.py")
        environment = variables(runpy.run_path(neighbour)["build_driver"]() or "")
    print(json.dumps(environment))


if __name__ == "__main__":
    main(sys.argv[1])
