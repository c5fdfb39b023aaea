"""Errors as sentences on standard error, with the traceback kept in a file for a report."""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from inspector import __version__
from inspector.base.errors import PtxviewError
from inspector.system import printing

MAX_MESSAGE_CHARS = 200  # characters printed of an unexpected error


def say(error: BaseException) -> None:
    """Print an error on standard error, after pending output; never raises."""
    # Standard error may be gone as well; the status still says it.
    with contextlib.suppress(Exception):
        printing.flush()
    with contextlib.suppress(Exception):
        first, *details = _sentences(error)
        printing.narrate(f"ptxview: {first}")
        for text in filter(None, details):
            printing.narrate(text)


@contextlib.contextmanager
def after_program() -> Iterator[None]:
    """A context in which an error, or Ctrl-C, costs a sentence: the status is the program's."""
    try:
        yield
    except KeyboardInterrupt:
        return
    except BaseException as error:
        say(error)
        printing.give_up()


@contextlib.contextmanager
def thread_errors_reported() -> Iterator[None]:
    """Report a thread's error as a sentence instead of a traceback."""

    def failed(args: threading.ExceptHookArgs) -> None:
        if isinstance(args.exc_value, Exception):
            say(args.exc_value)

    previous_hook, threading.excepthook = threading.excepthook, failed
    try:
        yield
    finally:
        threading.excepthook = previous_hook


def _sentences(error: BaseException) -> tuple[str, ...]:
    """A message, a hint, and where the traceback is."""
    if isinstance(error, PtxviewError):
        return (error.message, error.hint)
    if isinstance(error, OSError):
        location = f"{error.filename}: " if error.filename else ""
        traced = bool(os.environ.get("PTXVIEW_TRACEBACK"))
        return (f"{location}{error.strerror or error}", _traceback(error) if traced else "")
    if isinstance(error, MemoryError):
        return (
            "there is not enough memory",
            "Open a part of it: one file instead of its folder, one kernel instead of all.",
            _traceback(error),
        )
    if isinstance(error, RecursionError):
        return ("the input is nested too deeply to be read", _traceback(error))
    try:
        line = str(error).split("\n", 1)[0]
    except Exception:
        line = "it cannot say what"
    line = line if len(line) <= MAX_MESSAGE_CHARS else f"{line[:MAX_MESSAGE_CHARS]}…"
    if isinstance(error, UnicodeError):
        return (f"text cannot be read or written as it is encoded: {line}", _traceback(error))
    return (f"a fault of ptxview's own: {type(error).__name__}: {line}", _traceback(error))


def _traceback(error: BaseException) -> str:
    """The traceback if PTXVIEW_TRACEBACK asks for it, else the name of the file that keeps it."""
    import traceback

    try:
        text = "".join(traceback.format_exception(error))
        if os.environ.get("PTXVIEW_TRACEBACK"):
            return text.rstrip()
        import platformdirs

        folder = Path(platformdirs.user_state_dir("ptxview", appauthor=False))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "fault.txt"
        path.write_text(f"ptxview {__version__}\n{text}", "utf-8", "backslashreplace")
    except Exception:
        return "PTXVIEW_TRACEBACK=1 in the environment shows where it happened."
    return f"Where it happened is in {path}, for a report."
