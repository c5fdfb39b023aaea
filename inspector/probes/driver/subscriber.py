"""Has ``driver.c`` stand at the CUDA driver's boundary, and take its leave before a profiler comes.

The driver itself begins it: what ``CUDA_INJECTION64_PATH`` names is loaded when CUDA is
initialised, which no import does, so that a process that never uses the GPU has no context for it,
and one that forks before it may use CUDA in its children. The name stands in the environment of
this process only from the import of a library that can use the GPU until then, and not in that of
programs which it starts: Nsight Compute refuses to run beside it.

CUPTI has room for one subscriber. Whoever profiles is the better one: before torch.profiler,
Proton, JAX's or another profiler of the program's own begins, this one leaves; CUPTI does not let
it come back (error 39), so the recording says from when on launches were not seen. A process that
has had one copy of CUPTI refuses every other, also when nobody is subscribed any more: Triton's
wheel has a copy of its own for Proton, and where Proton is imported before CUDA is initialised,
nobody subscribes; where it is imported later, it is given the copy that is loaded, as its own
setting for that is documented (TRITON_CUPTI_LIB_PATH).
"""

from __future__ import annotations

import atexit
import os
import sys
import time

from .. import hooks
from ..writer import emit, folder, problem

TYPE_CHECKING = False  # typing takes two milliseconds, and a program may never need it
if TYPE_CHECKING:
    from typing import Any

PATIENCE = 10.0
"""Seconds that the first of all imports waits for the compiler."""

MAKERS_OF_LAUNCHES = (
    "torch", "cupy", "numba.cuda", "jax", "jaxlib", "cuda.bindings", "cuda.core", "pycuda",
    "triton", "cutlass", "tilelang", "warp", "taichi", "tensorflow",
)  # fmt: skip
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
    "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NV_NSIGHT_INJECTION_TRANSPORT_TYPE",
    "NV_COMPUTE_PROFILER_PERFWORKS_DIR", "NSYS_PROFILING_SESSION_ID", "NV_TPS_LAUNCH_TOKEN",
    "NV_SANITIZER_INJECTION_PORT", "KINETO_USE_DAEMON",
)  # fmt: skip
"""Variables that say that a tool of NVIDIA's, or Kineto's daemon, is to stand there itself."""

_state: dict[str, Any] = {"library": None, "armed": False}


def install() -> None:
    """Wait for the import of what can use the GPU. Nothing is loaded before."""
    if not os.environ.get("PTXVIEW_DRIVER") or folder() is None:
        return
    if os.environ.get("PTXVIEW_PROFILE"):
        return  # torch.profiler takes the whole run
    foreign = foreign_tool()
    if foreign is not None:
        emit({"event": "driver", "began": False, "beside": foreign})
        return
    _watch_children()
    atexit.register(tell)
    os.register_at_fork(after_in_child=_in_child)
    for name in MAKERS_OF_LAUNCHES:
        hooks.when_imported(name, lambda module: arm())
    hooks.when_imported("triton.profiler", lambda module: _yield_to(PROTON))
    for name, functions, who in PROFILERS:
        hooks.when_imported(name, _profiler(functions, who))


def _profiler(functions: tuple[str, ...], who: str) -> hooks.AfterImport:
    return lambda module: leave_before(module, functions, who)


def foreign_tool() -> str | None:
    """What in the environment says that another tool is at the driver; None if nothing does."""
    for name in FOREIGN:
        if os.environ.get(name):
            return name
    preloaded = os.environ.get("LD_PRELOAD", "").lower()
    for word in ("sanitizer", "nsight", "nsys", "ncu"):
        if word in preloaded:
            return "LD_PRELOAD"
    return None


def arm() -> None:
    """Tell the driver, by the environment, what to load when CUDA is initialised."""
    recording = folder()
    if _state["armed"] or recording is None:
        return
    from ..calls import launch_native
    from . import native

    path = launch_native.driver_library()
    began = time.monotonic()
    while os.path.exists(f"{path}.building") and time.monotonic() - began < PATIENCE:
        time.sleep(0.01)  # the first run of all, of a program that has imported little
    cupti = native.find_cupti()
    _state["lacks"] = None
    if not os.path.exists(path):
        _state["lacks"] = "there is no C compiler that could compile what sees them"
    elif cupti is None:
        _state["lacks"] = "libcupti is not installed (pip install nvidia-cuda-cupti)"
    if cupti is None or _state["lacks"] is not None:
        return  # another module's import may bring it
    _state["armed"] = True
    import ctypes

    library = ctypes.CDLL(path)
    library.ptxview_driver_prepare(
        os.fsencode(recording), os.urandom(4).hex().encode(), os.fsencode(cupti),
        os.fsencode(path), int(bool(os.environ.get("PTXVIEW_OPERATORS"))),
    )  # fmt: skip
    _state["library"] = library


def tell() -> None:
    """Write the counts as they stand, and say if launches were not seen though CUDA was used."""
    if _state["library"] is not None:
        _state["library"].ptxview_driver_tell()
    elif _state.get("lacks"):
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is None or getattr(cuda, "is_initialized", bool)():
            problem("driver", f"launches are not seen: {_state['lacks']}")


def _in_child() -> None:
    """Children of multiprocessing end without ``atexit``."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.register_after_fork(util, lambda _: util.Finalize(None, tell, exitpriority=0))


# -- programs that this one starts ----------------------------------------------------------------


def _watch_children() -> None:
    """Have programs that are started find nothing of ours in C's environment, but for those that
    are themselves for CUDA: those are told what the driver is to load."""
    import _posixsubprocess

    _posixsubprocess.fork_exec = _starting(_posixsubprocess.fork_exec)
    hooks.when_imported("subprocess", _watch_subprocess)
    os.system = _hidden(os.system)
    os.execv = _hidden(os.execv)


def _watch_subprocess(module: Any) -> None:
    import _posixsubprocess

    if hasattr(module, "_fork_exec"):
        module._fork_exec = _posixsubprocess.fork_exec


def _hidden(original: Any) -> Any:
    @hooks.like(original)
    def start(*args: Any, **kwargs: Any) -> Any:
        from . import native

        try:
            with _Environment({native.INJECTION: None}):
                return original(*args, **kwargs)
        except BaseException as error:
            hooks.unseen(error)
            raise

    return start


def _starting(original: Any) -> Any:
    """``fork_exec`` of a program whose launches are seen where it is one for CUDA."""

    @hooks.like(original)
    def start(*args: Any, **kwargs: Any) -> Any:
        from . import native

        extra: dict[str, str] = {}
        try:
            if len(args) > 5:
                extra = _for_child(args[1], args[4], args[5])
                if extra and args[5] is not None:
                    theirs = [*args[5], *(os.fsencode(f"{k}={v}") for k, v in extra.items())]
                    args = (*args[:5], theirs, *args[6:])
        except Exception as error:
            problem("a program's launches", error)
        try:
            with _Environment({native.INJECTION: None, **extra}):
                return original(*args, **kwargs)
        except BaseException as error:
            hooks.unseen(error)
            raise

    return start


def _for_child(candidates: Any, cwd: Any, environment: Any) -> dict[str, str]:
    """Variables for a program that is about to start: {} unless it is one for CUDA."""
    recording = folder()
    path = next((p for c in candidates if os.path.isfile(p := _whole(c, cwd))), None)
    if path is None or recording is None or not _uses_cuda(path):
        return {}
    if environment is not None and any(os.fsencode(f"{n}=") in e for n in FOREIGN
                                       for e in environment):  # fmt: skip
        return {}
    from ..calls import launch_native
    from . import native

    library = launch_native.build_driver()
    extra = native.variables(library) if library is not None else {}
    if extra:
        emit({"event": "library", "path": path, "name": os.path.basename(path)})
        extra["PTXVIEW_RECORDING"] = recording
    return extra


def _whole(path: Any, cwd: Any) -> str:
    return os.path.abspath(os.path.join(os.fsdecode(cwd or "."), os.fsdecode(path)))


def _uses_cuda(path: str) -> bool:
    from . import native

    if path not in _for_cuda:
        _for_cuda[path] = native.uses_cuda(path)
    return _for_cuda[path]


_for_cuda: dict[str, bool] = {}


class _Environment:
    """C's environment with these variables, or without them, while a program is started."""

    def __init__(self, changes: dict[str, str | None]) -> None:
        import ctypes

        self._libc = ctypes.CDLL(None)
        self._libc.getenv.restype = ctypes.c_char_p
        self._wanted = {n: None if v is None else os.fsencode(v) for n, v in changes.items()}

    def __enter__(self) -> None:
        before = {name: self._libc.getenv(os.fsencode(name)) for name in self._wanted}
        # Mostly nothing differs: C's environment is touched only where it does.
        self._before = {n: value for n, value in before.items() if value != self._wanted[n]}
        for name in self._before:
            _set(self._libc, name, self._wanted[name])

    def __exit__(self, *raised: object) -> None:
        for name, value in self._before.items():
            _set(self._libc, name, value)


def _set(libc: Any, name: str, value: bytes | None) -> None:
    if value is None:
        libc.unsetenv(os.fsencode(name))
    else:
        libc.setenv(os.fsencode(name), value, 1)


# -- leaving --------------------------------------------------------------------------------------


def leave_before(module: Any, functions: tuple[str, ...], who: str) -> None:
    """Leave when one of a module's functions is called, before it runs."""
    from .. import private_names

    for name in functions:
        private_names.wrap(f"{module.__name__}:{name}", lambda original: _leaving(original, who))


def _yield_to(who: str) -> None:
    """Leave for good if nothing has begun yet; else wait until it is needed."""
    library = _state["library"]
    if library is None:
        _state["armed"] = True  # never
        emit({"event": "driver_left", "why": who})
    elif not library.ptxview_driver_active():
        leave(who)


def _lend_cupti() -> None:
    """Have Proton load the copy of CUPTI that this process has had."""
    if os.environ.get("TRITON_CUPTI_LIB_PATH"):
        return
    from ..calls import launch_native
    from . import native

    loaded = native.find_cupti()
    if loaded is None:
        return

    place = os.path.join(os.path.dirname(launch_native.driver_library()), "cupti")
    link = os.path.join(place, "libcupti.so")
    os.makedirs(place, exist_ok=True)
    if not os.path.lexists(link) or os.readlink(link) != loaded:
        part = f"{link}.{os.getpid()}"
        os.symlink(loaded, part)
        os.replace(part, link)
    os.environ["TRITON_CUPTI_LIB_PATH"] = place


def _leaving(original: Any, who: str) -> Any:
    @hooks.like(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        leave(who)
        return original(*args, **kwargs)

    return call


def leave(who: str) -> None:
    """Take our leave for ``who``; nothing happens if we are not there. CUDA may not have begun."""
    library = _state["library"]
    if library is None or _state.get("left"):
        return
    try:
        _state["left"] = True
        if library.ptxview_driver_active():
            if who == PROTON:
                _lend_cupti()
            library.ptxview_driver_leave(who.encode())
        else:
            import ctypes

            ctypes.CDLL(None).unsetenv(b"CUDA_INJECTION64_PATH")
            emit({"event": "driver_left", "why": who})
    except Exception as error:
        problem("driver", error)
