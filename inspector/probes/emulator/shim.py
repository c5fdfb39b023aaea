"""Compiles the shim once for each version of torch, and finds it again.

The library depends on torch's headers and on nothing of Python: one file for each torch version,
in the user's cache folder, compiled under a lock and put in place by one rename.
"""

import ctypes
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parent / "shim"
INCLUDE = Path(__file__).parent / "include"
RUNTIME = INCLUDE / "ptxview_runtime.cpp"
CPU_BUILD = INCLUDE / "cpu_build"  # c10/cuda files that torch's CPU wheels lack
LIBRARY = "libptxview_target.so"
OPTIONS = ("-O1", "-fPIC", "-w")
STANDARDS = ("c++20", "c++17")
"""torch 2.12 and later need 20; older compilers know 17."""


class CannotBuild(Exception):
    """The shim cannot be made on this machine; the text says what is missing."""


def torch_folder() -> Path:
    """Where torch is installed, without importing it. Raises CannotBuild."""
    spec = PathFinder.find_spec("torch")
    if spec is None or spec.origin is None:
        raise CannotBuild("torch is not installed in this Python")
    return Path(spec.origin).parent


def torch_version() -> str:
    """``2.13.0+cpu`` and the commit, as torch/version.py says."""
    text = (torch_folder() / "version.py").read_text(encoding="utf-8")
    versions = dict(re.findall(r"^(__version__|git_version)[^=]*= *'([^']*)'", text, re.MULTILINE))
    return f"{versions.get('__version__', 'unknown')} {versions.get('git_version', '')}"


def cache_root() -> Path:
    """``$XDG_CACHE_HOME/ptxview``, or ``~/.cache/ptxview``."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "ptxview"


def compiler() -> str:
    """A C++ compiler: ``$CXX``, g++, c++ or clang++. Raises CannotBuild."""
    names = (os.environ.get("CXX", "").split(" ")[0], "g++", "c++", "clang++")
    for path in filter(None, map(shutil.which, filter(None, names))):
        return path
    raise CannotBuild("no C++ compiler was found (g++, or $CXX)")


def writable(folder: Path) -> Path:
    """The folder, made; a temporary one where it cannot be written."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="ptxview-"))


def build_once(place: Path, name: str, make: Callable[[Path], None]) -> Path:
    """A file that is made once for all processes: ``make`` writes it, it is renamed into place.

    Raises CannotBuild, as ``make`` does. A failure is remembered for this compiler, so that child
    processes do not try again.
    """
    file = place / name
    if file.exists():
        return file
    place = writable(place)
    cxx = compiler()
    tried = f"{cxx} {os.stat(cxx).st_mtime_ns}"
    failed = place / f"failed-{hashlib.sha256(tried.encode()).hexdigest()[:16]}"
    file = place / name
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if failed.exists():
            raise CannotBuild(failed.read_text(encoding="utf-8"))
        if not file.exists():
            part = file.with_name(f".{os.getpid()}.{name}")
            try:
                make(part)
            except CannotBuild as error:
                failed.write_text(str(error), encoding="utf-8")
                raise
            os.replace(part, file)
    return file


def _digest(*files: Path, extra: str = "") -> str:
    digest = hashlib.sha256(f"{torch_version()} {platform.machine()} {extra}".encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:20]


def shim() -> Path:
    """The compiled shim for the installed torch; compiles it the first time (6 to 12 seconds).

    Raises CannotBuild with one line that says what is missing.
    """
    digest = _digest(*sorted(SOURCES.iterdir()), extra=" ".join((*OPTIONS, *STANDARDS)))
    return build_once(cache_root() / "target" / digest, LIBRARY, _compile)


def _flags() -> list[str]:
    """A compiler's options for torch's headers.

    Wheels before 2.7 exist with GCC's old std::string as well, which is ``Ss`` in mangled names.
    """
    torch = torch_folder()
    include = torch / "include"
    old = b"_ZN3c105ErrorC2ENS_14SourceLocationESs" in (torch / "lib/libc10.so").read_bytes()
    return [
        f"-D_GLIBCXX_USE_CXX11_ABI={int(not old)}",
        f"-I{include}",
        f"-I{include}/torch/csrc/api/include",
        *OPTIONS,
    ]


def _compile(library: Path) -> None:
    cxx = compiler()
    argv = [cxx, "-shared", *_flags(), str(SOURCES / "shim.cpp"), "-o", str(library)]
    argv += [f"-L{torch_folder() / 'lib'}", "-lc10", "-ltorch_cpu"]
    log = ""
    for standard in STANDARDS:
        completed = subprocess.run(
            [*argv, f"-std={standard}"], capture_output=True, text=True, errors="replace"
        )
        if completed.returncode == 0:
            _try(library)
            return
        log = log or completed.stderr
    library.with_name("log").write_text(log, encoding="utf-8")
    first = next((line for line in log.splitlines() if "error" in line), log[:200])
    raise CannotBuild(
        f"{cxx} could not compile the shim against torch {torch_version().split()[0]}: "
        f"{first.strip()} (the log: {library.with_name('log')})"
    )


def _try(library: Path) -> None:
    """Load the library in a separate process, which an exception of its registrations would end."""
    script = "import ctypes, sys; [ctypes.CDLL(p, ctypes.RTLD_GLOBAL) for p in sys.argv[1:]]"
    names = ("libc10.so", "libtorch_cpu.so", "libtorch_cuda.so")
    libraries = [torch_folder() / "lib" / name for name in names]
    paths = [str(path) for path in libraries if path.exists()]
    argv = [sys.executable, "-c", script, *paths, str(library)]
    # Without the probes, which would report an option that keeps them out.
    environment = {name: value for name, value in os.environ.items() if name != "PTXVIEW_RECORDING"}
    completed = subprocess.run(
        argv, env=environment, capture_output=True, text=True, errors="replace"
    )
    if completed.returncode:
        library.unlink()
        lines = completed.stderr.strip().splitlines() or [f"exit status {completed.returncode}"]
        reason = next((x for x in lines if "what()" in x), lines[-1])
        raise CannotBuild(f"the shim does not load beside this torch: {reason.strip()}")


def cpu_build() -> list[str]:
    """The include path that completes torch's CPU wheels; empty for a CUDA build."""
    is_complete = (torch_folder() / "include/c10/cuda/impl/cuda_cmake_macros.h").exists()
    return [] if is_complete else ["-isystem", str(CPU_BUILD)]


def runtime_archive(home: str) -> Path:
    """Path of the library that replaces libcudart and libc10_cuda; one for each torch and toolkit.

    Raises CannotBuild.
    """
    digest = _digest(RUNTIME, INCLUDE / "ptxview_launch.h", extra=home)
    return writable(cache_root() / "runtime" / digest) / "libptxview_cudart.a"


def build_runtime(home: str) -> Path:
    """Build ``runtime_archive`` unless it exists. Raises CannotBuild."""
    archive = runtime_archive(home)
    argv = [compiler(), "-std=c++20", *_flags(), f"-I{INCLUDE}", *cpu_build(), "-isystem"]
    argv += [f"{home}/include", "-c", str(RUNTIME), "-o"]

    def make(part: Path) -> None:
        item = part.with_suffix(".o")
        completed = subprocess.run(
            [*argv, str(item)], capture_output=True, text=True, errors="replace"
        )
        if completed.returncode:
            raise CannotBuild(f"the CUDA runtime's replacement: {completed.stderr[:400]}")
        subprocess.run(["ar", "rcs", str(part), str(item)], check=True)
        item.unlink()

    return build_once(archive.parent, archive.name, make)


class _NotLoaded:
    """Takes the library's place before it is loaded: device 0, stream 0, no memory."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *args: 0


library: Any = _NotLoaded()


def load() -> None:
    """Load torch's libraries and the shim, in the order that lets the shim's registrations win.

    Must run before ``import torch``: torch looks for CUDA once. Raises CannotBuild.
    """
    global library
    path = shim()
    folder = torch_folder() / "lib"
    try:
        for name in ("libc10.so", "libtorch_cpu.so"):
            ctypes.CDLL(str(folder / name), ctypes.RTLD_GLOBAL)
        # Where it is, before the shim: its registrations are the ones replaced.
        with suppress(OSError):
            ctypes.CDLL(str(folder / "libtorch_cuda.so"), ctypes.RTLD_GLOBAL)
        loaded_library = ctypes.CDLL(str(path))
    except OSError as error:
        raise CannotBuild(f"the shim cannot be loaded: {error}") from error
    word = ctypes.c_uint64
    text = ctypes.c_char_p
    number = ctypes.c_int64
    small = ctypes.c_int
    words = ctypes.POINTER(word)
    for name, result, types in (
        ("memory", number, (small, small)),
        ("get_stream", number, (small,)),
        ("set_stream", None, (small, number)),
        ("range", small, (word, word, words, words)),
        ("ranges", number, (words, words, number)),
        ("absence_at", small, (word, text, number)),
        ("mark_absent_at", None, (word, text)),
        ("pinned_range", small, (word, words, words)),
        ("allocate", word, (word,)),
        ("release", small, (word,)),
    ):
        function = getattr(loaded_library, f"ptxview_{name}")
        function.restype = result
        function.argtypes = types
    library = loaded_library


def loaded() -> bool:
    """Whether the emulated device is there."""
    return not isinstance(library, _NotLoaded)


def device() -> int:
    """The current device."""
    return int(library.ptxview_get_device())


def set_device(index: int) -> None:
    """Make a device the current one."""
    library.ptxview_set_device(index)


def stream(index: int) -> int:
    """The current stream of a device."""
    return int(library.ptxview_get_stream(index))


def memory_around(address: int, pinned: bool = False) -> tuple[int, int] | None:
    """The bounds of the device memory, or the host's pinned memory, that holds an address."""
    first = ctypes.c_uint64()
    last = ctypes.c_uint64()
    ends = ctypes.byref(first), ctypes.byref(last)
    is_inside = (
        library.ptxview_pinned_range(address, *ends)
        if pinned
        else library.ptxview_range(address, address + 1, *ends)
    )
    return (first.value, last.value) if is_inside else None


def memory() -> list[tuple[int, int]]:
    """Where each piece of device memory starts and ends, in order."""
    room = 0
    while True:
        starts = (ctypes.c_uint64 * room)()
        ends = (ctypes.c_uint64 * room)()
        count = int(library.ptxview_ranges(starts, ends, room))
        if count <= room:
            return list(zip(starts[:count], ends[:count], strict=True))
        room = count


def absence_at(address: int) -> str:
    """Why the memory at the address is absent; empty where it is there."""
    text = ctypes.create_string_buffer(2000)
    is_absent = library.ptxview_absence_at(address, text, len(text))
    return text.value.decode(errors="replace") if is_absent else ""


def mark_absent_at(address: int, why: str) -> None:
    """Make every later read of the memory around the address raise, with this reason."""
    library.ptxview_mark_absent_at(address, why.encode(errors="replace"))
