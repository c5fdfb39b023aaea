"""A Triton compilation: its stages with their durations; where it fails, the compiler's messages.

Triton's own listener, ``knobs.compilation.listener``, gives the stages too from 3.4 on; it is a
single slot, which stays the user's.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from typing import TYPE_CHECKING, Any

from .. import private_names
from ..autotune import trials
from ..hooks import argument, observed, per_recording
from ..writer import blob, emit, plain, problem, standing, withdraw
from . import triton_sources

if TYPE_CHECKING:
    from ..hooks import Before

STAGES = ("source", "ttir", "ttgir", "llir", "ptx")
"""What Triton's cache holds of a kernel before its machine code; ``source`` is TTIR as it was
before the first pass."""
MAX_LOG_CHARACTERS = 20_000
_COMMAND = re.compile(r"^Repro command: (.{1,8000})$", re.MULTILINE)
_recorded: set[str] = per_recording(set())
MAX_STAGES = 64
"""Stages of one compilation that are timed."""
_attached: list[bool] = []
# Of the compile under way: stages ([name, seconds]), making (the last stage that was begun, with
# Triton's metadata and what it is made of), digest (Triton's hash of it), missed (what is called
# where it is in no cache).
_now = threading.local()


class Compile:
    """A call of ``compile(src, target, options)`` under way in this thread.

    Its event is in a separate file until the call returns: LLVM may end the process.
    """

    def __init__(self, args: Any, kwargs: Any) -> None:
        given = dict(zip(("src", "target", "options"), args, strict=False)) | kwargs
        self.src = given["src"]
        self.asked = _asked(given.get("target"), given.get("options"))
        self.began = time.time()
        self._standing: str | None = None
        _now.stages, _now.making, _now.digest, _now.missed = [], None, None, self._missed

    def _missed(self) -> None:
        """Note a compilation that is in no cache: LLVM may end the process at any stage."""
        digest = self._digest()
        self._standing = standing(
            {
                "event": "triton_failed",
                "name": str(getattr(self.src, "name", "") or "").lstrip("@"),
                "hash": digest,
                "metadata": self.asked,
                "made_by": triton_sources.made_by(),
                "folder": getattr(_manager(digest), "cache_dir", None),
                "began": self.began,
                **triton_sources.source(self.src),
            }
        )

    def ended(self) -> None:
        """Forget the call, which has returned or raised."""
        end_stages()
        if self._standing is not None:
            withdraw(self._standing)

    def failed(self, error: Exception) -> None:
        """Record what the call raised."""
        seconds = time.time() - self.began
        trials.failed(error)
        digest = self._digest()
        trials.compiled(digest, getattr(self.src, "name", None))
        if digest not in _recorded:
            _recorded.add(digest)
            _record(self.src, error, digest, (self.began, seconds), self.asked)

    def _digest(self) -> str:
        """Triton's hash; before Triton has made one, a hash of what it was asked for."""
        known: str | None = getattr(_now, "digest", None)
        if known:
            return known
        function = getattr(self.src, "fn", None)
        asked = (
            getattr(self.src, "name", None),
            getattr(function, "cache_key", None),
            triton_sources.constexprs(self.src),
            getattr(self.src, "signature", None),
            self.asked,
        )
        return hashlib.sha256(repr(asked).encode("utf-8", "replace")).hexdigest()


def exceeded(error: BaseException) -> dict[str, Any]:
    """What an ``OutOfResources`` says in figures: what is required, and how much there is."""
    required, limit = getattr(error, "required", None), getattr(error, "limit", None)
    if not isinstance(required, int) or not isinstance(limit, int):
        return {}
    name = getattr(error, "name", None)
    return {"required": required, "limit": limit, "resource": None if name is None else str(name)}


def _record(
    src: Any, error: Exception, digest: str, took: tuple[float, float], asked: dict[str, Any]
) -> None:
    """``took`` is when the compile began, since 1970, and for how many seconds it went on."""
    making, stages = getattr(_now, "making", None), end_stages()
    metadata = {} if making is None else {k: v for k, v in making[1].items() if k != "hash"}
    name = str(metadata.get("name") or getattr(src, "name", "") or "").lstrip("@")
    files = _so_far(digest, str(getattr(src, "name", "")), making)
    emit(
        {
            "event": "triton_failed",
            "name": name,
            "hash": digest,
            "metadata": {**asked, **plain(metadata)},
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
        "log": blob(log[:MAX_LOG_CHARACTERS]),
        "command": None if command is None else command[1].strip(),
        **exceeded(error),
    }


def _asked(target: Any, options: Any) -> dict[str, Any]:
    """The target and the options that Triton was asked for, where it has no metadata yet."""
    out = dict(plain(options)) if isinstance(options, dict) else {}
    if getattr(target, "arch", None) is not None:
        out["target"] = {"backend": getattr(target, "backend", None), "arch": plain(target.arch)}
    return out


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


# -- stages ----------------------------------------------------------------------------------------


def attach() -> None:
    """``triton.compiler.compiler``: what it calls to get a backend gives one that is timed."""
    private_names.wrap("triton.compiler.compiler:get_cache_manager", _keyed)
    if private_names.wrap("triton.compiler.compiler:make_backend", after=_made):
        _attached.append(True)


def _made(_: object, backend: Any, error: BaseException | None) -> None:
    """Observe which stages a new backend has."""
    if error is None:
        backend.add_stages = observed(backend.add_stages, argument(0, "stages"), _added)


def stages_watched() -> bool:
    """Whether stages are seen at all."""
    return bool(_attached)


def end_stages() -> list[list[Any]]:
    """The stages of the compile that ends in this thread, in order, with their seconds."""
    stages: list[list[Any]] = getattr(_now, "stages", [])
    # What it was made of is kept alive by nobody.
    _now.stages, _now.making, _now.missed = [], None, None
    return stages


def _keyed(args: Any, kwargs: Any) -> None:
    """Note the hash for which Triton asks for its cache: one that fails early has no other."""
    _now.digest = str(args[0] if args else kwargs["key"])


def _added(stages: Any, _: object, error: BaseException | None) -> None:
    """Time each stage; what comes next is a compilation that was in no cache."""
    if error is not None:
        return
    for name, stage in list(stages.items()):
        stages[name] = observed(stage, _beginning(str(name)), _stage_ended)
    missed, _now.missed = getattr(_now, "missed", None), None
    if missed is not None:
        missed()


def _beginning(name: str) -> Before:
    def stage_began(args: Any, kwargs: Any) -> tuple[str, float]:
        metadata = args[1] if len(args) > 1 and isinstance(args[1], dict) else {}
        _now.making = (name, metadata, args[0] if args else None)
        return name, time.perf_counter()

    return stage_began


def _stage_ended(token: tuple[str, float], _: object, error: BaseException | None) -> None:
    name, began = token
    stages = _now.__dict__.setdefault("stages", [])
    if len(stages) < MAX_STAGES:
        stages.append([name, time.perf_counter() - began])
