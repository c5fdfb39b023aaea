"""Appends events to the recording that the environment names, one file a process.

The layout is the one that ``inspector/recording.py`` reads: blobs by SHA-256, written before the
event that names them; ``events-<pid>-<tag>.jsonl`` appended a whole line at a time.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from typing import Any

SCHEMA = 1
_lock = threading.RLock()
_state: dict[str, Any] = {"pid": None, "fd": None}


def folder() -> str | None:
    """The recording's folder, or None where nothing is recorded."""
    return os.environ.get("PTXVIEW_RECORDING") or None


def blob(data: bytes | str) -> str | None:
    """Store content and give its SHA-256 in hex, or None where it cannot be written."""
    raw = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    digest = hashlib.sha256(raw).hexdigest()
    root = folder()
    if root is None:
        return None
    target = os.path.join(root, "blobs", digest)
    try:
        if not os.path.exists(target):
            part = os.path.join(root, "blobs", f".{digest}.{os.getpid()}.{threading.get_ident()}")
            with open(part, "wb") as out:
                out.write(raw)
            os.replace(part, target)
    except OSError:
        return None
    return digest


def file_blob(path: str) -> str | None:
    """Store a file's content, or None where it cannot be read."""
    try:
        with open(path, "rb") as source:
            return blob(source.read())
    except OSError:
        return None


def moved(path: str) -> str | None:
    """Make a blob of a file beside the blobs without reading it whole; None where that fails."""
    root = folder()
    if root is None:
        return None
    held = hashlib.sha256()
    try:
        with open(path, "rb") as source:
            while part := source.read(1 << 20):
                held.update(part)
        os.replace(path, os.path.join(root, "blobs", held.hexdigest()))
    except OSError:
        return None
    return held.hexdigest()


def emit(event: dict[str, Any]) -> None:
    """Append one event; a recording that cannot be written is given up in silence."""
    try:
        line = json.dumps(
            {**event, "time": time.time(), "pid": os.getpid()}, default=str, ensure_ascii=True
        )
        with _lock:
            fd = _open()
            if fd is not None:
                os.write(fd, line.encode() + b"\n")
    except Exception:
        return


def problem(where: str, error: object) -> None:
    """Record that something could not be captured, and why."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    emit({"event": "problem", "where": where, "text": text[:2000]})


def _open() -> int | None:
    pid = os.getpid()
    if _state["pid"] == pid:
        fd: int | None = _state["fd"]
        return fd
    # A forked child gets a file of its own, and leaves its parent's alone.
    _state["pid"], _state["fd"] = pid, None
    root = folder()
    if root is None:
        return None
    path = os.path.join(root, f"events-{pid}-{time.time_ns():x}.jsonl")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    _state["fd"] = fd
    first = {
        "event": "process",
        "schema": SCHEMA,
        "time": time.time(),
        "pid": pid,
        "ppid": os.getppid(),
        "argv": list(getattr(sys, "orig_argv", sys.argv)),
        "executable": sys.executable,
        "python": sys.version.split()[0],
        "rank": _rank(),
    }
    os.write(fd, json.dumps(first, default=str).encode() + b"\n")
    return fd


def _rank() -> int | None:
    try:
        return int(os.environ["RANK"])
    except (KeyError, ValueError):
        return None


def plain(value: Any) -> Any:
    """A value that JSON can hold, with the rest as its text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset) and not hasattr(value, "_asdict"):
        return [plain(v) for v in value]
    if hasattr(value, "backend") and hasattr(value, "arch"):
        return {k: getattr(value, k, None) for k in ("backend", "arch", "warp_size")}
    inner = getattr(value, "value", None)
    if inner is not None and not callable(inner):
        return plain(inner)
    return getattr(value, "__name__", None) or str(value)
