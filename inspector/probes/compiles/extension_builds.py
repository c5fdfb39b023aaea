"""Builds of C++ and CUDA extensions, fresh or already there: the folder, its commands, its log."""

from __future__ import annotations

import inspect
import os
import time
from typing import Any

from .. import private_names
from ..calls import graphs
from ..writer import emit, file_blob

# The text files of a build folder; objects are read when the program has ended.
TEXTS = (".ninja", ".cu", ".cuh", ".cpp", ".cc", ".cxx", ".h", ".hpp")
LARGEST_TEXT = 8 << 20


def attach(module: Any) -> None:
    """Watch the functions that every build goes through; the build itself is torch's."""
    for name, after in (("_run_ninja_build", _ninja_ended), ("_jit_compile", _jit_ended)):
        function = getattr(module, name, None)
        before = None if function is None else _binding(inspect.signature(function))
        private_names.observe(f"torch.utils.cpp_extension:{name}", before, after)
    private_names.observe(
        "torch.utils.cpp_extension:BuildExtension.build_extensions",
        lambda args, kwargs: args[0], _setup_ended,
    )  # fmt: skip


def _binding(signature: inspect.Signature) -> Any:
    """A hook that notes a call's arguments by name, and when it begins."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], float]:
        return dict(signature.bind(*args, **kwargs).arguments), time.time()

    return before


def _ninja_ended(token: tuple[dict[str, Any], float], result: Any, error: Any) -> None:
    arguments, began = token
    _say(arguments.get("build_directory"), None, True, _text(error), began)


def _jit_ended(token: tuple[dict[str, Any], float], result: Any, error: Any) -> None:
    arguments, _ = token
    try:
        _say(arguments.get("build_directory"), arguments, None, _text(error))
    finally:
        if error is None:
            graphs.watch_module(result)


def _text(error: BaseException | None) -> str | None:
    return None if error is None else f"{error}"


def _setup_ended(command: Any, result: Any, error: BaseException | None) -> None:
    for extension in command.extensions:
        path = os.path.abspath(command.get_ext_fullpath(extension.name))
        if os.path.exists(path):
            emit({"event": "library", "path": path, "name": extension.name})


def _say(
    folder: Any,
    arguments: dict[str, Any] | None,
    fresh: bool | None,
    error: str | None,
    began: float | None = None,
) -> None:
    """Record a build; ``began`` is when ninja was started, where it just has ended."""
    if not folder:
        return
    seconds = None if began is None else time.time() - began
    directory = os.path.abspath(str(folder))
    files = {}
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        wanted = name.endswith(TEXTS) or name == ".ninja_log"
        if wanted and os.path.isfile(path) and os.path.getsize(path) <= LARGEST_TEXT:
            files[name] = file_blob(path)
    event = {
        "event": "extension",
        "directory": directory,
        "name": (arguments or {}).get("name"),
        "files": files,
        "fresh": fresh,
        "error": None if error is None else error[-20000:],
    }
    if seconds is not None:
        event |= {"began": began, "seconds": seconds}
    sources = (arguments or {}).get("sources")
    if sources:
        listed = [sources] if isinstance(sources, str) else list(sources)
        event["sources"] = {os.path.abspath(str(s)): file_blob(str(s)) for s in listed}
    emit(event)
