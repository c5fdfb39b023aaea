"""A compile of Triton's that failed: the stages that it came to, and the compiler's own words."""

from __future__ import annotations

import hashlib
import re
import time
from typing import Any

from .. import hooks, private_names
from ..autotune import trials
from ..writer import blob, emit, plain, problem, standing, withdraw
from . import triton_phases, triton_sources

STAGES = ("source", "ttir", "ttgir", "llir", "ptx")
"""What Triton's cache holds of a kernel before its machine code; ``source`` is TTIR as it was
before the first pass."""
LONGEST_LOG = 20_000
_COMMAND = re.compile(r"^Repro command: (.{1,8000})$", re.MULTILINE)
_recorded: set[str] = hooks.per_recording(set())


def begin(src: Any, args: Any, kwargs: Any) -> tuple[float, list[str | None]]:
    """``compile(src, *args, **kwargs)`` begins: when, and the files that say so until it ends.

    What is compiled when the process ends is in a file of its own until then.
    """
    files: list[str | None] = []
    began = time.time()
    triton_phases.begin(lambda: files.append(_begun(src, began, args, kwargs)))
    return began, files


def end(files: list[str | None]) -> None:
    """A compile has ended, in whatever way."""
    for file in filter(None, files):
        withdraw(file)


def _begun(src: Any, began: float, args: Any, kwargs: Any) -> str | None:
    """LLVM ends the process where it meets what it does not expect: nothing could be told then."""
    digest = _digest(src, args, kwargs)
    return standing(
        {
            "event": "triton_failed",
            "name": str(getattr(src, "name", "") or "").lstrip("@"),
            "hash": digest,
            "metadata": _asked(args, kwargs),
            "made_by": triton_sources.made_by(),
            "folder": getattr(_manager(digest), "cache_dir", None),
            "began": began,
            **triton_sources.source(src),
        }
    )


def raised(src: Any, error: BaseException, began: float, args: Any, kwargs: Any) -> None:
    """Record that ``compile(src, *args, **kwargs)`` raised."""
    seconds = time.time() - began
    trials.failed(error)
    try:
        digest = _digest(src, args, kwargs)
        trials.compiled(digest, getattr(src, "name", None))
        if digest not in _recorded:
            _recorded.add(digest)
            _record(src, error, digest, (began, seconds), args, kwargs)
    finally:
        triton_phases.ended()


def exceeded(error: BaseException) -> dict[str, Any]:
    """What an ``OutOfResources`` says in figures: what is required, and how much there is."""
    required, limit = getattr(error, "required", None), getattr(error, "limit", None)
    if not isinstance(required, int) or not isinstance(limit, int):
        return {}
    name = getattr(error, "name", None)
    return {"required": required, "limit": limit, "resource": None if name is None else str(name)}


def _record(
    src: Any, error: BaseException, digest: str, took: tuple[float, float], args: Any, kwargs: Any
) -> None:
    """``took`` is when the compile began, since 1970, and for how many seconds it went on."""
    making, stages = triton_phases.making(), triton_phases.ended()
    metadata = {} if making is None else {k: v for k, v in making[1].items() if k != "hash"}
    name = str(metadata.get("name") or getattr(src, "name", "") or "").lstrip("@")
    files = _so_far(digest, str(getattr(src, "name", "")), making)
    emit(
        {
            "event": "triton_failed",
            "name": name,
            "hash": digest,
            "metadata": {**_asked(args, kwargs), **plain(metadata)},
            "made_by": triton_sources.made_by(),
            "files": {stage: blob(text) for stage, text in files.items()},
            "began": took[0],
            "seconds": took[1],
            "stage_seconds": stages,
            "error": f"{type(error).__name__}: {error}"[:4000],
            **_words(src, error, making, files),
            **triton_sources.source(src),
        }
    )


def _words(src: Any, error: BaseException, making: Any, files: dict[str, str]) -> dict[str, Any]:
    """What the compiler said, and of which lines."""
    from ..ahead import said

    log = str(error)
    texts = {"ptx": files["ptx"]} if "ptx" in files else {}
    messages = list(said.printed(log, {}, texts))
    if not any(m["severity"] == "error" for m in messages):
        messages.insert(0, said.of_error(error, getattr(src, "fn", None), {}))
    first = next(m for m in messages if m["severity"] == "error")
    command = _COMMAND.search(log)
    return {
        "stage": "ttir" if making is None else {"cubin": "sass"}.get(making[0], making[0]),
        "kind": type(error).__name__,
        "message": first["message"],
        "tool": first["tool"],
        "messages": messages,
        "log": blob(log[:LONGEST_LOG]),
        "command": None if command is None else command[1].strip(),
        **exceeded(error),
    }


def _asked(args: Any, kwargs: Any) -> dict[str, Any]:
    """The target and the options that Triton was asked for, where it has no metadata yet."""
    target = kwargs.get("target", args[0] if args else None)
    options = kwargs.get("options", args[1] if len(args) > 1 else None)
    out = dict(plain(options)) if isinstance(options, dict) else {}
    if getattr(target, "arch", None) is not None:
        out["target"] = {"backend": getattr(target, "backend", None), "arch": plain(target.arch)}
    return out


def _digest(src: Any, args: Any, kwargs: Any) -> str:
    """Triton's hash; where it did not come to that, one of what it was asked for."""
    known = triton_phases.digest()
    if known:
        return known
    function = getattr(src, "fn", None)
    asked = (
        getattr(src, "name", None), getattr(function, "cache_key", None),
        triton_sources.constexprs(src), getattr(src, "signature", None), _asked(args, kwargs),
    )  # fmt: skip
    return hashlib.sha256(repr(asked).encode("utf-8", "replace")).hexdigest()


def _manager(digest: str) -> Any:
    """Triton's cache of one compile, None where this version names it otherwise."""
    make = private_names.get("triton.runtime.cache:get_cache_manager")
    return None if make is None else make(digest)


def _so_far(digest: str, name: str, making: Any) -> dict[str, str]:
    """The stages that were made: Triton writes each into its cache before it makes the next."""
    out: dict[str, str] = {}
    begun = None if making is None else making[0]
    if begun == "cubin" and isinstance(making[2], str):
        out["ptx"] = making[2]
    try:
        manager = _manager(digest)
        for stage in STAGES if manager is not None else ():
            path = manager.get_file(f"{name[:150]}.{stage}")
            if stage == begun:
                break  # a file of that name is of another attempt
            if path and stage not in out:
                with open(path, encoding="utf-8", errors="surrogateescape") as file:
                    out[stage] = file.read()
    except Exception as error:
        problem("the stages of a compile of Triton's that failed", error)
    return out
