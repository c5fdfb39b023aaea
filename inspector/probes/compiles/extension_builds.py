"""Builds of C++ and CUDA extensions, fresh or already there: the folder, its commands, its log."""

from __future__ import annotations

import inspect
import os
import time
from typing import TYPE_CHECKING, Any

from .. import private_names
from ..calls import graphs
from ..hooks import argument
from ..writer import emit, file_blob

if TYPE_CHECKING:
    from ..hooks import Before

EXTENSIONS = "torch.utils.cpp_extension"

# The text files of a build folder; objects are read when the program has ended.
TEXTS = (".ninja", ".cu", ".cuh", ".cpp", ".cc", ".cxx", ".h", ".hpp")
MAX_TEXT_BYTES = 8 << 20


def attach(module: Any) -> None:
    """Observe the functions that every build goes through; the build itself is torch's."""
    for name, after in (("_run_ninja_build", _ninja_ended), ("_jit_compile", _loaded)):
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


def _loaded(token: tuple[dict[str, Any], float], module: Any, error: BaseException | None) -> None:
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
