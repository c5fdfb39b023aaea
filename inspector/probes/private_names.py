"""Private names of torch, Triton and others: how probes get them, and the report of a missing one.

``private_names.toml`` lists each name with what is lost without it. A missing name is reported in
the recording, once a process, and the program goes on; a name that the library's version is known
not to have is not reported. Probes that record ask by ``get`` and ``wrap``; parts that are written
against a library's insides as a whole have theirs checked by ``check`` when they begin.

Nothing is imported or looked up before a probe needs it. A key is a module and a path within it,
``torch._inductor.graph:GraphLowering.codegen``.
"""

import functools
import importlib
import os
import sys
from importlib.machinery import PathFinder
from typing import Any

from .hooks import CallHook, ReturnHook, name_of, observed, per_recording
from .writer import problem

_LOST = "the emulated device does without it, and what needs it fails"
_reported: set[str] = per_recording(set())
_ABSENT = object()


@functools.cache
def tables() -> dict[str, dict[str, list[str]]]:
    """The tables of ``private_names.toml``: ``names``, ``parts`` and ``modules``."""
    import tomllib

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "private_names.toml")
    with open(path, "rb") as file:
        return tomllib.load(file)


def get(name: str) -> Any:
    """Return the value of a name, importing its module if need be; None if it is missing."""
    module, _, path = name.partition(":")
    value = _reach(module, path)
    if value is not _ABSENT:
        return value
    missing(name)
    return None


def wrap(
    name: str,
    on_call: CallHook | None = None,
    on_return: ReturnHook | None = None,
    inherited: bool = False,
) -> bool:
    """Have a module's or a class's own attribute observed by two hooks (``hooks.observed``).

    A static method stays one, a method of a class too. ``inherited``: a class may have it from
    another, and has its own from now on. Returns False, and reports it, if it is missing.
    """
    module, _, path = name.partition(":")
    owner_path, _, attribute = path.rpartition(".")
    value = _reach(module, path)
    owner = _ABSENT if value is _ABSENT else _reach(module, owner_path)
    if owner is not _ABSENT:
        # Of the dictionaries: what an attribute gives is no longer a static or class method.
        owners = getattr(owner, "__mro__", (owner,)) if inherited else (owner,)
        value = next((vars(o)[attribute] for o in owners if attribute in vars(o)), _ABSENT)
    if value is _ABSENT or owner is _ABSENT:
        missing(name)
        return False
    kind = type(value) if isinstance(value, staticmethod | classmethod) else None
    # Several probes may observe one name, and each fails alone.
    label = f"{_dotted(name)} ({name_of(on_return or on_call)})"
    wrapper = observed(value if kind is None else value.__func__, on_call, on_return, label)
    setattr(owner, attribute, wrapper if kind is None else kind(wrapper))
    return True


def missing(name: str) -> None:
    """Report that a name is missing, unless this version of the library is known to lack it."""
    lost, instead, *versions = tables()["names"].get(name, (_LOST, ""))
    since, until = map(_numbers, versions or ("", ""))
    version = _numbers(_library(name).partition(" ")[2])
    if name not in _reported and (
        not version or (version >= since and (not until or version < until))
    ):
        _reported.add(name)
        text = f"{_library(name)} has no such name: {lost}"
        problem(_dotted(name), f"{text}; {instead}" if instead else text)


def check(part: str) -> None:
    """Report the missing names of a part, in modules that are imported already."""
    for name in tables()["parts"].get(part, ()):
        module, _, path = name.partition(":")
        if module in sys.modules and _reach(module, path) is _ABSENT:
            missing(name)


def package(module: Any) -> None:
    """Report the modules of a package that probes wait for and that it lacks."""
    for name in tables()["modules"].get(module.__name__, ()):
        is_present = name in sys.modules or PathFinder.find_spec(name, module.__path__) is not None
        if not is_present and name not in _reported:
            _reported.add(name)
            problem(name, f"{_library(name)} has no such module: what it does is not recorded")


def _dotted(name: str) -> str:
    return name.replace(":", ".")


def _reach(module: str, path: str) -> Any:
    """Return the value at a path of a module; ``_ABSENT`` if one of the two is missing."""
    try:
        value: Any = sys.modules.get(module) or importlib.import_module(module)
    except ImportError:
        return _ABSENT
    for step in filter(None, path.split(".")):
        value = getattr(value, step, _ABSENT)
        if value is _ABSENT:
            return _ABSENT
    return value


def _library(name: str) -> str:
    """The package of a name with its version: ``torch 2.13.0+cpu``."""
    package = _dotted(name).partition(".")[0]
    return f"{package} {getattr(sys.modules.get(package), '__version__', '')}".strip()


def _numbers(version: str) -> tuple[int, ...]:
    """``2.13.0+cpu`` as (2, 13)."""
    return tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdecimal())
