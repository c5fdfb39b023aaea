"""Where a kernel of Triton's stands, what it needs of its program, and how it was specialised."""

from __future__ import annotations

import linecache
import os
import sys
from types import ModuleType
from typing import Any

from ..writer import blob, file_blob, plain

# Functions that are looked at for what a kernel needs.
MAX_FUNCTIONS = 256


def source(src: Any) -> dict[str, Any]:
    """Where the kernel's Python stands, and how its arguments were specialised."""
    out: dict[str, Any] = {
        "signature": {str(k): str(v) for k, v in (getattr(src, "signature", None) or {}).items()},
        "constexprs": constexprs(src),
        "specialization": attributes(src),
        "declared": _declared(src),
    }
    function = getattr(src, "fn", None)
    python = getattr(function, "fn", None)
    code = getattr(python, "__code__", None)
    if code is not None:
        path = code.co_filename
        digest = file_blob(path) if os.path.isfile(path) else None
        if digest is None:
            # Typed in at a prompt or made by exec: what linecache or Triton kept of it.
            text = "".join(linecache.getlines(path))
            digest = blob(text) if text else None
        lines = getattr(function, "raw_src", None) or str(getattr(function, "src", "")).splitlines()
        start = getattr(function, "starting_line_number", None) or code.co_firstlineno
        out["source"] = {
            "file": os.path.abspath(path) if os.path.isfile(path) else path,
            "blob": digest,
            "first": start,
            "last": start + max(len(lines) - 1, 0),
            "cut": blob("".join(lines)) if digest is None and lines else None,
            **_reached([function, *_passed(src)]),
        }
    return out


def _passed(src: Any) -> list[Any]:
    """Jitted functions among the values that were compiled in."""
    constants = getattr(src, "constants", None) or getattr(src, "constexprs", None) or {}
    values = [getattr(v, "value", v) for v in dict(constants).values()]
    return [v for v in values if hasattr(v, "fn")]


def _reached(waiting: list[Any]) -> dict[str, Any]:
    """The files of jitted functions and of those that they call, and globals of them by value."""
    files: dict[str, str | None] = {}
    values: dict[str, dict[str, Any]] = {}
    seen: set[Any] = set()
    while waiting and len(seen) < MAX_FUNCTIONS:
        python: Any = getattr(waiting.pop(), "fn", None)
        code = getattr(python, "__code__", None)
        if code is None or code in seen or _own(getattr(python, "__module__", None)):
            continue
        seen.add(code)
        path = os.path.abspath(code.co_filename)
        if path not in files and os.path.isfile(path):
            files[path] = file_blob(path)
        names, space = code.co_names, python.__globals__
        for name in names:
            value = space.get(name)
            if isinstance(value, ModuleType):
                within = [] if _own(value.__name__) else [getattr(value, n, None) for n in names]
                waiting += [v for v in within if hasattr(v, "fn")]
            elif hasattr(value, "fn"):
                waiting.append(value)
            elif name in space:
                number = value.value if type(value).__name__ == "constexpr" else value
                if number is None or isinstance(number, bool | int | float | str):
                    values.setdefault(path, {})[name] = number
    return {"files": files, "globals": values}


def _own(module: object) -> bool:
    """Whether a module is Triton's or torch's, which every user of a kernel has."""
    return str(module).partition(".")[0] in ("triton", "torch")


def _names(src: Any) -> list[str]:
    return [str(n) for n in getattr(getattr(src, "fn", None), "arg_names", ())]


def _by_name(src: Any, items: dict[Any, Any]) -> dict[str, Any]:
    """Keys are names, indices, or paths of indices, by version of Triton; names come out."""
    names = _names(src)
    out = {}
    for key, value in items.items():
        path = key if isinstance(key, tuple) else (key,)
        first = path[0] if path else key
        if isinstance(first, int) and first < len(names):
            out[names[first] + "".join(f"[{i}]" for i in path[1:])] = plain(value)
        else:
            out[str(key)] = plain(value)
    return out


def constexprs(src: Any) -> dict[str, Any]:
    constants = getattr(src, "constants", None) or getattr(src, "constexprs", None) or {}
    return _by_name(src, dict(constants)) if hasattr(constants, "items") else {}


def _declared(src: Any) -> list[str] | None:
    """Names of the arguments that the kernel itself declares ``tl.constexpr``."""
    params = getattr(getattr(src, "fn", None), "params", None)
    if params is None:
        return None
    return [str(p.name) for p in params if getattr(p, "is_constexpr", False)]


def attributes(src: Any) -> dict[str, Any]:
    attributes: Any = getattr(src, "attrs", None)
    if hasattr(attributes, "items"):
        return _by_name(src, dict(attributes))
    # Triton 3.2 keeps an object with the properties' argument indices.
    out: dict[str, Any] = {}
    for name in ("divisible_by_16", "divisibility_16", "equal_to_1"):
        if getattr(attributes, name, None):
            out[name] = [n for i, n in enumerate(_names(src)) if i in getattr(attributes, name)]
    return out


def made_by() -> dict[str, str]:
    """The versions of what compiles in this process; what is cached is of the same ones."""
    modules = ((name, sys.modules.get(name)) for name in ("torch", "triton"))
    versions = {name: getattr(module, "__version__", None) for name, module in modules}
    return {name: str(version) for name, version in versions.items() if version}
