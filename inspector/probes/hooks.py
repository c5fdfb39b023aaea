"""Calls a function when a module of that name is imported, without importing it."""

from __future__ import annotations

import sys

from .writer import problem

TYPE_CHECKING = False  # typing takes two milliseconds, and a program may never need it
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    AfterImport = Callable[[ModuleType], object]

PACKAGE = __name__.rpartition(".")[0]
_after: dict[str, list[AfterImport]] = {}
_before: dict[str, list[Callable[[], object]]] = {}


def unseen(error: BaseException) -> None:
    """Take the frames of ours that stand first out of a traceback; then comes ``raise`` alone.

    Frames are added to it from within, as each is left: the calling one already stands first, and
    is not added again by a ``raise`` that names nothing.
    """
    traceback = error.__traceback__
    while traceback is not None and _ours(traceback.tb_frame.f_globals):
        traceback = traceback.tb_next
    error.__traceback__ = traceback


def like(original: Any) -> Callable[[Any], Any]:
    """``functools.wraps``, without the two milliseconds that its module takes to import."""

    def wrap(wrapper: Any) -> Any:
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            try:
                setattr(wrapper, name, getattr(original, name))
            except AttributeError:
                pass
        wrapper.__dict__.update(getattr(original, "__dict__", {}))
        wrapper.__wrapped__ = original
        return wrapper

    return wrap


def _ours(names: dict[str, Any]) -> bool:
    return str(names.get("__name__")).startswith(PACKAGE)


def when_imported(name: str, callback: AfterImport, first: bool = False) -> None:
    """Call ``callback(module)`` right after the module has run; at once if it already has.

    ``first``: before the callbacks already registered, so that their wrappers go around its own.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(
        getattr(module, "__spec__", None), "_initializing", False
    ):
        _call(name, callback, module)
        return
    waiting = _after.setdefault(name, [])
    waiting.insert(0 if first else len(waiting), callback)


def before_import(name: str, callback: Callable[[], object]) -> None:
    """Call ``callback()`` right before the module is first found; never if it is loaded."""
    if name not in sys.modules:
        _before.setdefault(name, []).append(callback)


class Finder:
    """Stands first on ``sys.meta_path`` and leaves finding modules to the finders after it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders give, with its loader made to call back once."""
        for callback in _before.pop(fullname, ()):
            try:
                callback()
            except Exception as error:
                problem(f"before importing {fullname}", error)
        if fullname not in _after:
            return None
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec: ModuleSpec | None = finder.find_spec(fullname, path, target)
            if spec is not None:
                _wrap(spec, fullname)
                return spec
        return None


def _wrap(spec: ModuleSpec, name: str) -> None:
    loader: Any = spec.loader
    original = getattr(loader, "exec_module", None)
    if original is None:
        return

    def exec_module(module: ModuleType) -> None:
        try:
            del loader.exec_module
        except AttributeError:
            pass
        try:
            original(module)
        except BaseException as error:
            unseen(error)
            raise
        for callback in _after.pop(name, ()):
            _call(name, callback, module)

    try:
        # An attribute of this one loader: its class, and what others see of it, stay as they are.
        loader.exec_module = exec_module
    except AttributeError as error:
        problem(f"watching {name}", error)


def _call(name: str, callback: AfterImport, module: ModuleType) -> None:
    try:
        callback(module)
    except Exception as error:
        problem(f"probing {name}", error)


def forget(but: str) -> None:
    """Call back nobody but functions of the package ``but``, and look for no module without one."""
    registries: tuple[dict[str, list[Any]], ...] = (_after, _before)
    for waiting in registries:
        for name, callbacks in list(waiting.items()):
            waiting[name] = [c for c in callbacks if str(c.__module__).startswith(but)]
            if not waiting[name]:
                del waiting[name]
    if not _after and not _before:
        sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, Finder)]


def install() -> None:
    """Put the finder in place, once."""
    if not any(isinstance(f, Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, Finder())
