"""What is compiled while the program runs, and which lines its timing events enclose.

Only what spoils or explains a benchmark: calls of ``torch.compile`` by line, compiles by Triton,
torch.compile's own record of what it compiled, and pairs of CUDA events.
"""

from __future__ import annotations

import functools
import gzip
import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any

from .. import hooks, private_names
from ..writer import emit, folder, moved, problem

# -- the trace of a window ------------------------------------------------------------------------
# Keeps the trace of a window with the recording.

COMPRESSION = 3


def keep(session: Any, facts: dict[str, Any], write: Callable[[str], object]) -> None:
    """Store the trace that ``write(path)`` makes, compressed, and the event that names it."""
    root = folder()
    if root is None:
        return
    base = os.path.join(root, "blobs", f".profile.{os.getpid()}.{time.time_ns():x}")
    plain, packed = base + ".json", base + ".gz"
    try:
        with session.own():
            write(plain)
        with open(plain, "rb") as source, gzip.open(packed, "wb", COMPRESSION) as out:
            shutil.copyfileobj(source, out, 1 << 20)
        digest = moved(packed)
        torch = session.torch
        emit(
            {
                "event": "profile",
                **facts,
                "trace": digest,
                "gpu": session.on_gpu(),
                "torch": str(getattr(torch, "__version__", "")),
            }
        )
    except Exception as error:
        problem("profile", error)
    finally:
        for path in (plain, packed):
            if os.path.exists(path):
                os.unlink(path)


# -- torch.profiler as the program itself uses it -------------------------------------------------
# Ours steps aside, and reads what the program's recorded.

# Windows of the program's own profilers that are read; a result is held until the program ends.
MOST = 8
_held: list[dict[str, Any]] = []
_count = [0]


def attach(session: Any) -> None:
    """Wrap the functions that every profiler of torch's goes through."""
    module = session.torch.autograd.profiler
    for name in ("_prepare_profiler", "_enable_profiler"):
        wrapper = functools.partial(_before, session)
        private_names.wrap(f"torch.autograd.profiler:{name}", wrapper)
    kind = module.profile
    leave, export = kind.__exit__, kind.export_chrome_trace

    @functools.wraps(leave)
    def __exit__(self: Any, *args: Any) -> Any:  # noqa: N807
        result = leave(self, *args)
        if not session.ours:
            _ended(session, self)
        return result

    @functools.wraps(export)
    def export_chrome_trace(self: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        result = export(self, path, *args, **kwargs)
        if not session.ours:
            _exported(session, self, path)
        return result

    kind.__exit__ = __exit__
    kind.export_chrome_trace = export_chrome_trace


def _before(session: Any, original: Any) -> Any:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            session.aside()
        except Exception as error:
            problem("profile", error)
        return original(*args, **kwargs)

    return call


def _ended(session: Any, profiler: Any) -> None:
    """Hold the result of a window of the program's own profiler, which can be saved only once."""
    try:
        results = getattr(profiler, "kineto_results", None)
        if results is None or not hasattr(results, "save") or os.getpid() != session.pid:
            return
        _count[0] += 1
        if len(_held) >= MOST:
            return
        # The profiler's times are monotonic; only the length of the window is needed.
        began_ns = getattr(profiler, "profiling_start_time_ns", 0)
        ended_ns = getattr(profiler, "profiling_end_time_ns", 0)
        now = time.time()
        seconds = (ended_ns - began_ns) / 1e9 if 0 < began_ns <= ended_ns else 0.0
        window = {
            "results": results,
            "facts": {
                "by": "program",
                "mode": "program",
                "began": now - seconds,
                "ended": now,
                "stacks": bool(getattr(profiler, "with_stack", False)),
            },
        }
        _held.append(window)
        profiler._ptxview = window
    except Exception as error:
        problem("profile", error)


def _exported(session: Any, profiler: Any, path: Any) -> None:
    """Copy the trace that the program has written, since it cannot be written twice."""
    window = getattr(profiler, "_ptxview", None)
    if window is None or window.get("results") is None:
        return
    window["results"] = None
    keep(session, window["facts"], lambda to: shutil.copyfile(path, to))


def finish_others(session: Any) -> None:
    """Write the traces that the program has not written itself, when it ends."""
    for window in _held:
        results, window["results"] = window.get("results"), None
        if results is not None:
            keep(session, window["facts"], results.save)
    if _count[0] > len(_held):
        problem("profile", f"the program ran {_count[0]} profilers; the first {MOST} are read")
    _held.clear()


# Times kept of each calling line and of each pair of timing lines, and how many lines.
MOST_TIMES = 256
MOST_SITES = 256
_calls: dict[str, list[tuple[float, float]]] = {}
_compiles: list[dict[str, Any]] = []
_pairs: dict[str, list[tuple[float, float]]] = {}
_counts: dict[str, int] = {}
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def install() -> None:
    """Watch torch.compile, CUDA's events and Triton's compiler."""
    hooks.when_imported("torch", _attach)
    # Before the probe that records it, whose work is not the compiler's.
    hooks.when_imported("triton.compiler.compiler", _attach_triton, first=True)


def _attach(torch: Any) -> None:
    torch.compile = _watched_compile(torch.compile)
    event = getattr(torch.cuda, "Event", None)
    if event is not None:
        event.record = _watched_record(event.record)
        event.elapsed_time = _watched_elapsed(event.elapsed_time)


def _line(frame: Any) -> tuple[str, int]:
    """The file and the innermost line of it that is neither torch's nor ours."""
    while frame is not None:
        path = frame.f_code.co_filename
        if "/torch/" not in path and not path.startswith((_HERE, "<")):
            return path, frame.f_lineno
        frame = frame.f_back
    return "", 0


def _note(
    times_by_site: dict[str, list[tuple[float, float]]], site: str, times: tuple[float, float]
) -> None:
    if site not in times_by_site and len(times_by_site) >= MOST_SITES:
        return
    _counts[site] = _counts.get(site, 0) + 1
    recorded = times_by_site.setdefault(site, [])
    if len(recorded) < MOST_TIMES:
        recorded.append(times)


def _watched_compile(original: Any) -> Any:
    @functools.wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        began = time.time()
        try:
            return original(*args, **kwargs)
        finally:
            path, line = _line(sys._getframe(1))
            _note(_calls, f"compile {path}:{line}", (began, time.time()))

    return compile


def _watched_record(original: Any) -> Any:
    @functools.wraps(original)
    def record(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            # As little as possible: the program's two events also time this code.
            self._ptxview = (time.time(), *_line(sys._getframe(1)))
        except AttributeError:
            pass
        return original(self, *args, **kwargs)

    return record


def _watched_elapsed(original: Any) -> Any:
    @functools.wraps(original)
    def elapsed_time(self: Any, end_event: Any) -> Any:
        first, last = getattr(self, "_ptxview", None), getattr(end_event, "_ptxview", None)
        if first and last and last[0] >= first[0]:
            sites = f"{first[1]}:{first[2]}\n{last[1]}:{last[2]}"
            _note(_pairs, sites, (first[0], last[0]))
        return original(self, end_event)

    return elapsed_time


def _attach_triton(module: Any) -> None:
    original = module.compile

    @functools.wraps(original)
    def compile(src: Any, *args: Any, **kwargs: Any) -> Any:
        began = time.time()
        try:
            return original(src, *args, **kwargs)
        finally:
            if len(_compiles) < MOST_TIMES:
                name = str(getattr(src, "name", "") or getattr(src, "fn", ""))
                _compiles.append({"name": name, "began": began, "ended": time.time()})

    module.compile = compile


def _dynamo() -> list[dict[str, Any]]:
    """The compilations that torch.compile has a record of, the last 64."""
    if "torch._dynamo.utils" not in sys.modules:
        return []
    compilations = private_names.get("torch._dynamo.utils:get_compilation_metrics")
    out = []
    for metrics in () if compilations is None else compilations():
        start, duration = (
            getattr(metrics, "start_time_us", None),
            getattr(metrics, "duration_us", None),
        )
        if not isinstance(start, int) or not isinstance(duration, int):
            continue
        out.append(
            {
                "name": str(getattr(metrics, "co_name", None) or ""),
                "file": str(getattr(metrics, "co_filename", None) or ""),
                "line": getattr(metrics, "co_firstlineno", None),
                "began": start / 1e6,
                "ended": (start + duration) / 1e6,
            }
        )
    return out


def finish(seen: int, step: dict[str, str] | None, wish: dict[str, Any]) -> None:
    """Write what was seen, once, when the program ends."""
    dynamo: list[dict[str, Any]] = []
    try:
        dynamo = _dynamo()
    except Exception as error:
        problem("profile", error)
    emit(
        {
            "event": "profile_facts",
            "seen": seen,
            "step": step,
            "wish": wish,
            "dynamo": dynamo,
            "triton": _compiles,
            "calls": [
                {"site": s.removeprefix("compile "), "count": _counts[s], "times": t}
                for s, t in _calls.items()
            ],
            "pairs": [{"sites": s, "count": _counts[s], "times": t} for s, t in _pairs.items()],
        }
    )
