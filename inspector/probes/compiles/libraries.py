"""Extension modules that hold device code, seen when the interpreter loads them."""

from __future__ import annotations

import atexit
import functools
import inspect
import os
import re
import sys
import sysconfig
import time
from importlib.machinery import ExtensionFileLoader
from typing import TYPE_CHECKING, Any

from .. import private_names
from ..calls import graphs
from ..driver.subscriber import has_fatbin
from ..hooks import argument, at_new_recording, guarded, observed, per_recording, recording
from ..writer import emit, file_blob

if TYPE_CHECKING:
    from ..hooks import Before

# Libraries of these packages hold thousands of kernels that are not the user's.
_FOREIGN = re.compile(
    r"/(?:site|dist)-packages/"
    r"(?:torch|nvidia|triton|torchvision|torchaudio|cupy|jaxlib|numba|jax_cuda[^/]*)/"
)

_his: set[str] = set()  # modules that have been created, and have not run yet


def attach(module: object) -> None:
    """``torch``: a library that holds device code and is its own is loaded after it.

    Each extension module is looked at once, after it has been created.
    """
    loader: Any = ExtensionFileLoader
    loader.create_module = observed(loader.create_module, _before_create, _created)
    loader.exec_module = observed(loader.exec_module, argument(1, "module"), _executed)


def _before_create(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str]:
    return str(args[0].path), str((args[1] if len(args) > 1 else kwargs["spec"]).name)


def _created(extension: tuple[str, str], module: Any, error: BaseException | None) -> None:
    path, name = extension
    if error is None and _look(path, name):
        _his.add(name)


def _executed(module: Any, result: Any, error: BaseException | None) -> None:
    name = getattr(module, "__name__", None)
    if name in _his:
        _his.discard(name)
        if error is None:
            from ..calls import graphs

            graphs.watch_module(module)


def attach_ops(module: Any) -> None:
    """Look at what ``torch.ops.load_library`` loads: libraries of operators, no Python modules."""
    private_names.wrap("torch._ops:_Ops.load_library", argument(1, "path"), _loaded)


def _loaded(path: Any, result: Any, error: BaseException | None) -> None:
    if error is None:
        _look(str(path), os.path.basename(str(path)))


def _look(path: str, name: str) -> bool:
    """Whether a library is the user's and holds device code; it is recorded if so."""
    full = os.path.realpath(path)
    if full.startswith(_standard()) or _FOREIGN.search(full):
        return False
    if "torch" not in sys.modules or not has_fatbin(full):
        return False
    emit({"event": "library", "path": os.path.abspath(path), "name": name})
    return True


@functools.cache
def _standard() -> str:
    return os.path.realpath(sysconfig.get_path("stdlib")) + os.sep + "lib-dynload"


EXTENSIONS = "torch.utils.cpp_extension"

# The text files of a build folder; objects are read when the program has ended.
TEXTS = (".ninja", ".cu", ".cuh", ".cpp", ".cc", ".cxx", ".h", ".hpp")
MAX_TEXT_BYTES = 8 << 20


def attach_builds(module: Any) -> None:
    """Observe the functions that every build goes through; the build itself is torch's."""
    for name, after in (("_run_ninja_build", _ninja_ended), ("_jit_compile", _jit_loaded)):
        function = private_names.get(f"{EXTENSIONS}:{name}")
        if function is not None:
            private_names.wrap(f"{EXTENSIONS}:{name}", _named(function), after)
    private_names.wrap(f"{EXTENSIONS}:BuildExtension.build_extensions", argument(0), _built)


def _named(function: Any) -> Before:
    """Return a hook whose token is the call's arguments by name, and when it began."""
    signature = inspect.signature(function)

    def began(args: Any, kwargs: Any) -> tuple[dict[str, Any], float]:
        return dict(signature.bind(*args, **kwargs).arguments), time.time()

    return began


def _ninja_ended(token: tuple[dict[str, Any], float], _: Any, error: BaseException | None) -> None:
    arguments, began = token
    _say(arguments.get("build_directory"), None, True, error, began)


def _jit_loaded(
    token: tuple[dict[str, Any], float], module: Any, error: BaseException | None
) -> None:
    arguments, _ = token
    _say(arguments.get("build_directory"), arguments, None, error)
    if error is None:
        graphs.watch_module(module)


def _built(builder: Any, _: Any, error: BaseException | None) -> None:
    """Note the libraries that ``setup.py`` has built so far, also when one of them failed."""
    for extension in builder.extensions:
        path = os.path.abspath(builder.get_ext_fullpath(extension.name))
        if os.path.exists(path):
            emit({"event": "library", "path": path, "name": extension.name})


def _say(
    folder: Any,
    arguments: dict[str, Any] | None,
    fresh: bool | None,
    error: BaseException | None,
    began: float | None = None,
) -> None:
    """Record a build; ``began`` is when ninja was started, where it just has ended."""
    if not folder or not (error is None or isinstance(error, Exception)):
        return
    seconds = None if began is None else time.time() - began
    directory = os.path.abspath(str(folder))
    files = {}
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        wanted = name.endswith(TEXTS) or name == ".ninja_log"
        if wanted and os.path.isfile(path) and os.path.getsize(path) <= MAX_TEXT_BYTES:
            files[name] = file_blob(path)
    event = {
        "event": "extension",
        "directory": directory,
        "name": (arguments or {}).get("name"),
        "files": files,
        "fresh": fresh,
        "error": None if error is None else str(error)[-20000:],
    }
    if seconds is not None:
        event |= {"began": began, "seconds": seconds}
    sources = (arguments or {}).get("sources")
    if sources:
        listed = [sources] if isinstance(sources, str) else list(sources)
        event["sources"] = {os.path.abspath(str(s)): file_blob(str(s)) for s in listed}
    emit(event)


_said: set[int] = per_recording(set())


def attach_device(module: Any) -> None:
    """Note torch's version, and look for a device when the program ends."""

    def note_version() -> None:
        version = getattr(module, "version", None)
        emit(
            {
                "event": "torch",
                "version": str(getattr(module, "__version__", "")),
                "cuda": getattr(version, "cuda", None),
            }
        )

    note_version()
    at_new_recording(note_version)
    atexit.register(note_device)


@guarded
def note_device() -> None:
    """Emit the current device once; nothing is initialised for it."""
    if not recording() or os.getpid() in _said or os.environ.get("PTXVIEW_TARGET"):
        return
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return
    _said.add(os.getpid())
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    names = (
        "name",
        "major",
        "minor",
        "total_memory",
        "multi_processor_count",
        "L2_cache_size",
        "regs_per_multiprocessor",
        "max_threads_per_multi_processor",
        "warp_size",
        "shared_memory_per_block",
        "shared_memory_per_block_optin",
        "shared_memory_per_multiprocessor",
        "clock_rate",
        "memory_clock_rate",
        "memory_bus_width",
    )
    emit(
        {
            "event": "device",
            **{n: getattr(properties, n) for n in names if hasattr(properties, n)},
        }
    )
