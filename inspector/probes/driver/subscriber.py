"""Prepares ``driver.c`` in a Python process, and has it leave before a profiler begins.

The driver itself loads it when CUDA is initialised: ``CUDA_INJECTION64_PATH`` names it, in the
environment that ``ptxview run`` gives to the program and its children. A process that never uses
the GPU loads nothing. ``prepare`` passes it the path of libcupti, which Python's packages may have.

CUPTI has room for one subscriber. Before torch.profiler, Proton, JAX's or another profiler of the
program begins, this one leaves; CUPTI does not let it come back (error 39), so the recording says
from when on launches were not seen. A process that has had one copy of CUPTI refuses every other,
also when nobody is subscribed any more: Triton's wheel has another copy for Proton. Where
Proton is imported before CUDA is initialised, nobody subscribes; where it is imported later, it is
given the copy that is loaded, by its own setting (TRITON_CUPTI_LIB_PATH).
"""

from __future__ import annotations

import os
import struct
import sys

from .. import hooks
from ..writer import emit, folder

TYPE_CHECKING = False  # typing takes two milliseconds, and a program may never need it
if TYPE_CHECKING:
    from typing import Any

INJECTION = "CUDA_INJECTION64_PATH"

MAKERS_OF_LAUNCHES = (
    "torch",
    "cupy",
    "numba.cuda",
    "jax",
    "jaxlib",
    "cuda.bindings",
    "cuda.core",
    "pycuda",
    "triton",
    "cutlass",
    "tilelang",
    "warp",
    "taichi",
    "tensorflow",
)
"""Modules whose import may lead to a use of the GPU."""

PROTON = "Proton"
PROFILERS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("torch.autograd.profiler", ("_prepare_profiler", "_enable_profiler"), "torch.profiler"),
    ("triton.profiler.profile", ("start",), PROTON),
    ("jax._src.profiler", ("start_trace", "start_server"), "jax.profiler"),
    ("cupti.cupti", ("subscribe", "activity_enable"), "cupti-python"),
)
"""Modules, their functions before which CUPTI must be free, and what people call them."""

FOREIGN = (
    "NVTX_INJECTION64_PATH",
    "NV_NSIGHT_INJECTION_TRANSPORT_TYPE",
    "NV_COMPUTE_PROFILER_PERFWORKS_DIR",
    "NSYS_PROFILING_SESSION_ID",
    "NV_TPS_LAUNCH_TOKEN",
    "NV_SANITIZER_INJECTION_PORT",
    "KINETO_USE_DAEMON",
)
"""Variables of NVIDIA's tools, or of Kineto's daemon, where one of them uses CUPTI."""

_state: dict[str, Any] = {"library": None, "in window": None, "left": False}


def install() -> None:
    """Wait for the import of what can use the GPU. Nothing is loaded before."""
    if not os.environ.get("PTXVIEW_DRIVER") or folder() is None:
        return
    foreign = foreign_tool()
    if foreign is not None:
        if os.environ.get(INJECTION) == os.environ["PTXVIEW_DRIVER"]:
            del os.environ[INJECTION]
        emit({"event": "driver", "began": False, "beside": foreign})
        return
    ends = hooks.guarded(lambda: hooks.at_end_of_child(tell, "the driver"), "the driver's child")
    os.register_at_fork(after_in_child=ends)
    for name in MAKERS_OF_LAUNCHES:
        hooks.when_imported(name, lambda module: prepare())
    hooks.when_imported("triton.profiler", _proton_imported)
    for name, functions, who in PROFILERS:
        hooks.when_imported(name, _profiler(functions, who))


def _profiler(functions: tuple[str, ...], who: str) -> hooks.AfterImport:
    return lambda module: leave_before(module, functions, who)


def foreign_tool() -> str | None:
    """What in the environment says that another tool is at the driver; None if nothing does."""
    if os.environ.get(INJECTION) not in (None, "", os.environ.get("PTXVIEW_DRIVER")):
        return INJECTION
    preloaded = os.environ.get("LD_PRELOAD", "").lower()
    if any(word in preloaded for word in ("sanitizer", "nsight", "nsys", "ncu")):
        return "LD_PRELOAD"
    return next((name for name in FOREIGN if os.environ.get(name)), None)


def prepare() -> None:
    """Tell the library where CUPTI is, before CUDA is initialised."""

    path = os.environ.get("PTXVIEW_DRIVER", "")
    if _state["library"] is None and os.path.exists(path):
        import ctypes

        library = _state["library"] = ctypes.CDLL(path)
        _state["in window"] = ctypes.c_int.in_dll(library, "ptxview_driver_in_window")
    cupti = find_cupti()
    if _state["library"] is not None and cupti is not None:
        _state["library"].ptxview_driver_prepare(os.fsencode(cupti))


def tell() -> None:
    """Write the counts as they are."""
    if _state["library"] is not None:
        _state["library"].ptxview_driver_tell()


def tuning(*, is_under_way: bool, candidate: int = 0) -> None:
    """Have this thread's launches count as an autotuner's from now on, or as the program's.

    Args:
        is_under_way: Whether an autotuner measures.
        candidate: The number of the candidate whose launches they are; 0 of none that is known.
    """
    if _state["library"] is not None:
        _state["library"].ptxview_driver_tuning(1 + candidate if is_under_way else 0)


def is_loaded() -> bool:
    """Whether the library is in this process."""
    return _state["library"] is not None


def mark(number: int) -> None:
    """Mark a moment of the program on the timeline of the GPU, as the call of a graph."""
    in_window = _state["in window"]
    if in_window is not None and in_window.value:
        _state["library"].ptxview_driver_mark(number)


def leave_before(module: Any, functions: tuple[str, ...], who: str) -> None:
    """Leave when one of a module's functions is called, before it runs."""
    from .. import private_names

    for name in functions:
        private_names.wrap(f"{module.__name__}:{name}", lambda args, kwargs: leave(who))


def _proton_imported(module: Any) -> None:
    """Leave for good if nothing has begun yet; else wait until it is needed."""
    prepare()
    if _state["library"] is not None and not _state["library"].ptxview_driver_active():
        leave(PROTON)


def leave(who: str) -> None:
    """Leave CUPTI to ``who``, once. CUDA may not have begun: it is then left alone."""
    if _state["left"]:
        return
    prepare()  # a profiler may be all that was imported
    library = _state["library"]
    if library is None:
        return
    _state["left"] = True
    began = library.ptxview_driver_active()
    if began and who == PROTON:
        _lend_cupti()
    library.ptxview_driver_leave(who.encode())
    if not began:
        emit({"event": "driver_left", "why": who})


def _lend_cupti() -> None:
    """Have Proton load the copy of CUPTI that this process has had."""

    loaded = find_cupti()
    if loaded is None or os.environ.get("TRITON_CUPTI_LIB_PATH"):
        return
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    place = os.path.join(base, "ptxview", "cupti")
    link = os.path.join(place, "libcupti.so")
    os.makedirs(place, exist_ok=True)
    if not os.path.lexists(link) or os.readlink(link) != loaded:
        part = f"{link}.{os.getpid()}"
        os.symlink(loaded, part)
        os.replace(part, link)
    os.environ["TRITON_CUPTI_LIB_PATH"] = place


SECTIONS = (b".nv_fatbin\0", b"__nv_relfatbin\0")
"""Where nvcc puts device code (CUDA Binary Utilities)."""

MAX_NAMES_BYTES = 1 << 20
"""Bytes of a table of names that are looked at."""


def has_fatbin(path: str) -> bool:
    """Whether a 64-bit ELF file has a section for device code. Raises OSError."""
    with open(path, "rb") as file:
        head = file.read(64)
        if head[:5] != b"\x7fELF\x02":
            return False
        try:
            (table,) = struct.unpack_from("<Q", head, 40)
            size, _, names = struct.unpack_from("<HHH", head, 58)
            file.seek(table + size * names)
            offset, length = struct.unpack_from("<QQ", file.read(size), 24)
            file.seek(offset)
        except (struct.error, ValueError, OverflowError):
            return False  # it is damaged
        titles = file.read(min(length, MAX_NAMES_BYTES))
    return any(title in titles for title in SECTIONS)


def find_cupti() -> str | None:
    """libcupti as it is loaded here, else of NVIDIA's wheels, else of a toolkit."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                if "libcupti" in line and ".so" in line:
                    return line.split(maxsplit=5)[5].strip()
    except OSError:
        pass
    import glob

    patterns: list[str] = []
    for path in sys.path:
        if path.endswith("-packages"):
            wheels = ("cu13", "cuda_cupti", "cu*")
            patterns += [f"{path}/nvidia/{wheel}/lib/libcupti.so.*[0-9]" for wheel in wheels]
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
