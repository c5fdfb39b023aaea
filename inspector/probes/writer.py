"""Appends events to the recording that the environment names, one file a process.

The layout is the one that ``inspector/recording/layout.py`` reads: blobs by SHA-256, written
before the event that names them; ``events-<pid>-<tag>.jsonl`` appended a whole line at a time.

No descriptor is kept: a program may close those that it did not open, as daemons do, and open a
file under the same number. Descriptors 0, 1 and 2 are never used.
"""

from __future__ import annotations

import os
import sys
import time

# threading's own, without what that module imports besides.
from _thread import RLock, get_ident
from _thread import _local as local

TYPE_CHECKING = False  # typing takes two milliseconds, and a program may never need it
if TYPE_CHECKING:
    from typing import Any

SCHEMA = 1
SECRETS = ("secret", "passw", "credential", "api-key", "apikey", "access-key", "accesskey")
_lock = RLock()
# This process's file, whether its first line is written, events that could not be written, and
# why the last of them could not.
_state: dict[str, Any] = {"pid": None, "path": None, "begun": False, "lost": 0, "why": ""}
_lasting: str | None = None  # where this process records, even if its environment changes
_now = local()  # unkept: why content of the next event could not be kept
_loading = RLock()
_waited: dict[int, bool] = {}  # of threads that fork: whether none imports anything for us


def _load(name: str) -> Any:
    """A module of the standard library that is imported when it is first needed.

    A fork waits until it is: in the child nobody would end an import that another thread has
    begun, and a thread that needs the module there would wait for ever.
    """
    with _loading:
        return __import__(name)


def is_programs(error: BaseException) -> bool:
    """Whether the program raised an exception while our code was running.

    That is Ctrl-C, an exit, or what one of its signal handlers raised.
    """
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return True
    import signal

    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {getattr(handler, "__code__", None) for handler in handlers} - {None}
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code in codes:
            return True
        traceback = traceback.tb_next
    return False


def _before_fork() -> None:
    # Not for ever: the program's fork is worth more than the recording.
    _waited[get_ident()] = _loading.acquire(timeout=5)


def _in_parent() -> None:
    if _waited.pop(get_ident(), False):
        _loading.release()


def _in_child() -> None:
    """A thread that held the lock is not in the child, and would never give it back."""
    global _lock, _loading
    _lock = RLock()
    _loading = RLock()
    _waited.clear()
    _now.__dict__.clear()


def _quiet(function: Any) -> Any:
    """A function that cannot raise; ``hooks.guarded`` imports this module."""

    def call() -> None:
        try:
            function()
        except BaseException as error:
            if is_programs(error):
                raise

    return call


os.register_at_fork(
    before=_quiet(_before_fork),
    after_in_parent=_quiet(_in_parent),
    after_in_child=_quiet(_in_child),
)


def begin_file() -> None:
    """Write to a new file from now on: another recording begins."""
    with _lock:
        _state.update(pid=None, path=None, begun=False, lost=0, why="")
    _now.__dict__.clear()


def last() -> None:
    """Record for as long as the process lives, even if the program empties its environment."""
    global _lasting
    _lasting = os.environ.get("PTXVIEW_RECORDING") or None


def folder() -> str | None:
    """The recording's folder, or None if nothing is recorded."""
    return os.environ.get("PTXVIEW_RECORDING") or _lasting


def watching() -> None:
    """Leave a mark in the recording: an interpreter is watched, whether it says anything or not."""
    path = os.path.join(folder() or "", "watched")
    if folder() is not None and not os.path.exists(path):
        _mark(path)


def blob(data: bytes | str) -> str | None:
    """Store content and return its SHA-256 in hex, or None if it cannot be written."""
    raw = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    # Not before: it brings OpenSSL along, and a program may make no kernel.
    digest: str = _load("hashlib").sha256(raw).hexdigest()
    root = folder()
    if root is None:
        return None
    target = os.path.join(root, "blobs", digest)
    part = os.path.join(root, "blobs", f".{digest}.{os.getpid()}.{get_ident()}")
    try:
        if not os.path.exists(target):
            try:
                _write(part, raw, os.O_TRUNC)
                os.replace(part, target)
            except OSError:
                _unlink(part)  # on a full disk, a smaller file may still fit
                raise
    except OSError as error:
        _now.unkept = error.strerror or str(error)
        return None
    return digest


def file_blob(path: str) -> str | None:
    """Store a file's content and return its SHA-256, or None if it cannot be read."""
    try:
        with open(path, "rb") as source:
            return blob(source.read())
    except OSError:
        return None


def emit(event: dict[str, Any]) -> None:
    """Append one event; a recording that cannot be written is given up in silence.

    Where the event's own content could not be kept, it says why (``unkept``). What could not be
    written is counted, and reported with the next event that can.
    """
    try:
        unkept = _now.__dict__.pop("unkept", None)
        extra = {} if unkept is None else {"unkept": unkept}
        line = _line({**event, **extra})
        with _lock:
            _append(line)
    except BaseException as error:
        if is_programs(error):
            raise


def problem(location: str, error: object) -> None:
    """Record that something could not be captured, and why."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    emit({"event": "problem", "where": location, "text": text[:2000]})


def write_provisional(event: dict[str, Any]) -> str | None:
    """Write an event that is valid only if this process ends before ``withdraw`` is
    called with what is returned; None if nothing is recorded."""
    root = folder()
    if root is None:
        return None
    path = os.path.join(root, f"standing-{os.getpid()}-{get_ident()}.json")
    try:
        _write(path, _line(event), os.O_TRUNC)
    except (OSError, ValueError):
        return None
    return path


def withdraw(path: str) -> None:
    """What was standing came to its end."""
    _unlink(path)


def _line(event: dict[str, Any]) -> bytes:
    stamped = {**event, "time": time.time(), "pid": os.getpid()}
    text: str = _load("json").dumps(stamped, default=str, ensure_ascii=True)
    return text.encode() + b"\n"


def _append(line: bytes) -> None:
    """Append a line to this process's file, after those that must precede it."""
    pid = os.getpid()
    if _state["pid"] != pid:
        # A forked child writes to a new file, not to its parent's.
        _state.update(pid=pid, path=None, begun=False, lost=0, why="")
    root = folder()
    if root is None:
        return
    if _state["path"] is None:
        _state["path"] = os.path.join(root, f"events-{pid}-{time.time_ns():x}.jsonl")
    preceding = b"" if _state["begun"] else _first()
    if _state["lost"]:
        events = "1 event" if _state["lost"] == 1 else f"{_state['lost']} events"
        text = f"{events} could not be written: {_state['why']}"
        preceding += _line({"event": "problem", "where": "recording", "text": text})
    try:
        # One that was deleted is gone on purpose: only the first write makes it.
        _write(_state["path"], preceding + line, os.O_APPEND, make=not _state["begun"])
    except OSError as error:
        _state["lost"] += 1
        _state["why"] = error.strerror or str(error)
        _mark(os.path.join(root, f"unwritten-{pid}-{error.errno or 0}"))
        return
    if _state["lost"]:
        for name in os.listdir(root):
            if name.startswith(f"unwritten-{pid}-"):
                _unlink(os.path.join(root, name))
    _state.update(begun=True, lost=0)


def _mark(path: str) -> None:
    """Make an empty file, for which there is a place on a full disk as a rule."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    except OSError:
        pass


def _write(path: str, data: bytes, how: int, make: bool = True) -> None:
    """Write all of it, or raise ``OSError`` and leave the file as it was."""
    flags = os.O_WRONLY | os.O_CLOEXEC | how | (os.O_CREAT if make else 0)
    fd = os.open(path, flags, 0o644)
    try:
        if fd < 3:
            # The program has closed one of its streams: what it opens next may become it.
            fcntl = _load("fcntl")
            low = fd
            fd = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
            os.close(low)
        size = os.fstat(fd).st_size
        remaining = memoryview(data)
        try:
            while remaining:
                remaining = remaining[os.write(fd, remaining) :]
        except OSError:
            # A line that is cut short would swallow the next.
            os.ftruncate(fd, size)
            raise
    finally:
        os.close(fd)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _first() -> bytes:
    """The line that begins a file."""
    rank = os.environ.get("RANK", "").strip()
    return _line(
        {
            "event": "process",
            "schema": SCHEMA,
            "ppid": os.getppid(),
            "argv": _without_secrets(getattr(sys, "orig_argv", sys.argv)),
            "executable": sys.executable,
            "python": sys.version.split()[0],
            "rank": int(rank) if rank.lstrip("+-").isdecimal() else None,
        }
    )


def _is_secret(name: str) -> bool:
    normalized = name.lower().replace("_", "-").replace(".", "-")
    is_word = normalized.replace("-", "").isalnum()  # else it is code, or a path
    return is_word and (
        normalized.endswith("token") or any(secret in normalized for secret in SECRETS)
    )


def _without_secrets(words: list[str]) -> list[str]:
    """A command line without secrets, as ``inspector/base/redaction.py`` removes them."""
    out: list[str] = []
    hides = False
    for word in words:
        name, equals, _ = word.partition("=")
        names = (equals or word.startswith("-")) and _is_secret(name)
        if names:
            out.append(f"{name}=…" if equals else word)
        else:
            out.append("…" if hides and not word.startswith("-") else word)
        hides = bool(names) and not equals
    return out


def json_value(value: Any) -> Any:
    """A value that JSON can hold, with the rest as its text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(k): json_value(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset) and not hasattr(value, "_asdict"):
        return [json_value(v) for v in value]
    if hasattr(value, "backend") and hasattr(value, "arch"):
        return {k: getattr(value, k, None) for k in ("backend", "arch", "warp_size")}
    inner = getattr(value, "value", None)
    if inner is not None and not callable(inner):
        return json_value(inner)
    return getattr(value, "__name__", None) or str(value)
