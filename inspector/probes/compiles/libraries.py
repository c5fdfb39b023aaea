"""Extension modules that hold device code, seen when the interpreter loads them."""

import atexit
import inspect
import os
import re
import sys
import time
from importlib.machinery import ExtensionFileLoader
from typing import Any

from .. import private_names
from ..calls import graphs
from ..driver.subscriber import has_fatbin
from ..hooks import (
    CallHook,
    ReturnHook,
    argument,
    arguments,
    at_new_recording,
    guarded,
    observed,
    per_recording,
    recording,
    succeeded,
)
from ..writer import emit, file_blob

# Libraries of these packages hold thousands of kernels that are not the user's; Python's have none.
_FOREIGN = re.compile(
    r"/(?:site|dist)-packages/"
    r"(?:torch|nvidia|triton|torchvision|torchaudio|cupy|jaxlib|numba|jax_cuda[^/]*)/"
    r"|/lib-dynload/"
)

_user_modules: set[str] = set()  # modules that have been created, and have not run yet


def attach(module: object) -> None:
    """``torch``: a library that holds device code and is its own is loaded after it.

    Each extension module is looked at once, after it has been created. torch's version is noted,
    and a device when the program ends.
    """
    loader: Any = ExtensionFileLoader

    def created(token: tuple[Any, Any], module: Any) -> None:
        loader, spec = token
        if _look(str(loader.path), str(spec.name)):
            _user_modules.add(str(spec.name))

    def executed(module: Any, result: Any) -> None:
        name = getattr(module, "__name__", None)
        if name in _user_modules:
            _user_modules.discard(name)
            graphs.watch_module(module)

    call_arguments = arguments("self", "spec")
    loader.create_module = observed(loader.create_module, call_arguments, succeeded(created))
    loader.exec_module = observed(loader.exec_module, argument(1, "module"), succeeded(executed))

    def note_version() -> None:
        cuda = getattr(getattr(module, "version", None), "cuda", None)
        emit({"event": "torch", "version": str(getattr(module, "__version__", "")), "cuda": cuda})

    note_version()
    at_new_recording(note_version)
    atexit.register(note_device)


def attach_ops(module: Any) -> None:
    """Look at what ``torch.ops.load_library`` loads: libraries of operators, no Python modules."""

    def loaded(path: Any, result: Any) -> None:
        _look(str(path), os.path.basename(str(path)))

    private_names.wrap("torch._ops:_Ops.load_library", argument(1, "path"), succeeded(loaded))


def _look(path: str, name: str) -> bool:
    """Whether a library is the user's and holds device code; it is recorded if so."""
    full = os.path.realpath(path)
    if _FOREIGN.search(full) or "torch" not in sys.modules or not has_fatbin(full):
        return False
    emit({"event": "library", "path": os.path.abspath(path), "name": name})
    return True


EXTENSIONS = "torch.utils.cpp_extension"

# The text files of a build folder; objects are read when the program has ended.
TEXTS = (".ninja", ".cu", ".cuh", ".cpp", ".cc", ".cxx", ".h", ".hpp")
MAX_TEXT_BYTES = 8 << 20


def attach_builds(module: Any) -> None:
    """Observe the functions that every build goes through; the build itself is torch's."""
    for name in ("_run_ninja_build", "_jit_compile"):
        function = private_names.get(f"{EXTENSIONS}:{name}")
        if function is not None:
            hooks = _building(function, name == "_run_ninja_build")
            private_names.wrap(f"{EXTENSIONS}:{name}", *hooks)
    private_names.wrap(f"{EXTENSIONS}:BuildExtension.build_extensions", argument(0), _built)


def _building(function: Any, is_ninja: bool) -> tuple[CallHook, ReturnHook]:
    """Hooks around ``_run_ninja_build``, or around ``_jit_compile``, which returns a module."""
    signature = inspect.signature(function)

    def on_call(args: Any, kwargs: Any) -> tuple[dict[str, Any], float]:
        return dict(signature.bind(*args, **kwargs).arguments), time.time()

    def on_return(
        token: tuple[dict[str, Any], float], module: Any, error: BaseException | None
    ) -> None:
        bound, began = token
        _record_build(bound, began if is_ninja else None, error)
        if not is_ninja and error is None:
            graphs.watch_module(module)

    return on_call, on_return


def _built(builder: Any, _: Any, error: BaseException | None) -> None:
    """Note the libraries that ``setup.py`` has built so far, also when one of them failed."""
    for extension in builder.extensions:
        path = os.path.abspath(builder.get_ext_fullpath(extension.name))
        if os.path.exists(path):
            emit({"event": "library", "path": path, "name": extension.name})


def _record_build(bound: dict[str, Any], began: float | None, error: BaseException | None) -> None:
    """Record a build; ``began`` is when ninja was started, where it just has ended."""
    folder = bound.get("build_directory")
    if not folder or not (error is None or isinstance(error, Exception)):
        return
    directory = os.path.abspath(str(folder))
    event = {
        "event": "extension",
        "directory": directory,
        "name": None if began is not None else bound.get("name"),
        "files": _text_blobs(directory),
        "fresh": None if began is None else True,
        "error": None if error is None else str(error)[-20000:],
    }
    if began is not None:
        event |= {"began": began, "seconds": time.time() - began}
    elif sources := bound.get("sources"):
        listed = [sources] if isinstance(sources, str) else list(sources)
        event["sources"] = {os.path.abspath(str(s)): file_blob(str(s)) for s in listed}
    emit(event)


def _text_blobs(directory: str) -> dict[str, Any]:
    """The blobs of the texts in a build folder, and of ninja's log, by name."""
    blobs = {}
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        is_text = name.endswith(TEXTS) or name == ".ninja_log"
        if is_text and os.path.isfile(path) and os.path.getsize(path) <= MAX_TEXT_BYTES:
            blobs[name] = file_blob(path)
    return blobs


_reported_pids: set[int] = per_recording(set())
PROPERTIES = (
    *("name", "major", "minor", "total_memory", "multi_processor_count", "L2_cache_size"),
    *("regs_per_multiprocessor", "max_threads_per_multi_processor", "warp_size"),
    *("shared_memory_per_block", "shared_memory_per_block_optin"),
    *("shared_memory_per_multiprocessor", "clock_rate", "memory_clock_rate", "memory_bus_width"),
)
"""Those of torch's device that are recorded, where a version has them."""


@guarded
def note_device() -> None:
    """Emit the current device once; nothing is initialised for it."""
    if not recording() or os.getpid() in _reported_pids or os.environ.get("PTXVIEW_TARGET"):
        return
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return
    _reported_pids.add(os.getpid())
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    figures = {n: getattr(properties, n) for n in PROPERTIES if hasattr(properties, n)}
    emit({"event": "device", **figures})
