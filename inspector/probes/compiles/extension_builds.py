"""Builds of C++ and CUDA extensions, fresh or already there: the folder, its commands, its log."""

from __future__ import annotations

import functools
import inspect
import os
import time
from typing import Any

from .. import private_names
from ..calls import graphs
from ..hooks import unseen
from ..writer import emit, file_blob, problem

# The text files of a build folder; objects are read when the program has ended.
TEXTS = (".ninja", ".cu", ".cuh", ".cpp", ".cc", ".cxx", ".h", ".hpp")
LARGEST_TEXT = 8 << 20


def attach(module: Any) -> None:
    """Wrap the functions that every build goes through; the build itself is torch's."""
    private_names.wrap("torch.utils.cpp_extension:_run_ninja_build", _watch_ninja)
    private_names.wrap("torch.utils.cpp_extension:_jit_compile", _watch_jit)
    private_names.wrap("torch.utils.cpp_extension:BuildExtension.build_extensions", _watch_setup)


def _bound(function: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    try:
        return dict(inspect.signature(function).bind(*args, **kwargs).arguments)
    except TypeError:
        return {}


def _watch_ninja(original: Any) -> Any:
    @functools.wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        folder = _bound(original, args, kwargs).get("build_directory")
        began = time.time()
        try:
            result = original(*args, **kwargs)
        except Exception as error:
            _say(folder, None, True, f"{error}", began)
            unseen(error)
            raise
        _say(folder, None, True, None, began)
        return result

    return run


def _watch_jit(original: Any) -> Any:
    @functools.wraps(original)
    def jit(*args: Any, **kwargs: Any) -> Any:
        arguments = _bound(original, args, kwargs)
        try:
            result = original(*args, **kwargs)
        except Exception as error:
            _say(arguments.get("build_directory"), arguments, None, f"{error}")
            unseen(error)
            raise
        _say(arguments.get("build_directory"), arguments, None, None)
        try:
            graphs.watch_module(result)
        except Exception as error:
            problem("an extension's calls", error)
        return result

    return jit


def _watch_setup(original: Any) -> Any:
    @functools.wraps(original)
    def build(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            unseen(error)
            raise
        finally:
            try:
                for extension in self.extensions:
                    path = os.path.abspath(self.get_ext_fullpath(extension.name))
                    if os.path.exists(path):
                        emit({"event": "library", "path": path, "name": extension.name})
            except Exception as error:
                problem("setup.py build", error)

    return build


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
    try:
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
    except Exception as failed:
        problem("extension build", failed)
