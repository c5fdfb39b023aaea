"""What is compiled while the program runs, and what its timing events stand around.

Only what a benchmark should know of: calls of ``torch.compile`` by the line that they stand on,
compiles by Triton, torch.compile's own record of what it compiled, pairs of CUDA events.
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

from .. import hooks
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
# Ours steps aside, and reads what his recorded.

# Windows of the program's own profilers that are read; a result is held until the program ends.
MOST = 8
_held: list[dict[str, Any]] = []
_count = [0]


def attach(session: Any) -> None:
    """Stand around the three places through which every profiler of torch's goes."""
    module = session.torch.autograd.profiler
    for name in ("_prepare_profiler", "_enable_profiler"):
        original = getattr(module, name, None)
        if original is not None:
            setattr(module, name, _before(session, original))
    kind = module.profile
    leave, export = kind.__exit__, kind.export_chrome_trace

    @functools.wraps(leave)
    def __exit__(self: Any, *args: Any) -> Any:  # noqa: N807
        result = leave(self, *args)
        if not session.ours:
            _ended(session, self)
        return result

    @functools.wraps(export)
    def export_chrome_trace(self: Any, path: Any, *args: Any, **given: Any) -> Any:
        result = export(self, path, *args, **given)
        if not session.ours:
            _exported(session, self, path)
        return result

    kind.__exit__ = __exit__
    kind.export_chrome_trace = export_chrome_trace


def _before(session: Any, original: Any) -> Any:
    @functools.wraps(original)
    def call(*args: Any, **given: Any) -> Any:
        try:
            session.aside()
        except Exception as error:
            problem("profile", error)
        return original(*args, **given)

    return call


def _ended(session: Any, profiler: Any) -> None:
    """A window of his has ended: its result can be saved once, by him or, in the end, by us."""
    try:
        results = getattr(profiler, "kineto_results", None)
        if results is None or not hasattr(results, "save") or os.getpid() != session.pid:
            return
        _count[0] += 1
        if len(_held) >= MOST:
            return
        # His times are of the monotonic clock, and only the length of the window is needed.
        began_ns = getattr(profiler, "profiling_start_time_ns", 0)
        ended_ns = getattr(profiler, "profiling_end_time_ns", 0)
        now = time.time()
        took = (ended_ns - began_ns) / 1e9 if 0 < began_ns <= ended_ns else 0.0
        one = {
            "results": results,
            "facts": {
                "by": "program",
                "mode": "program",
                "began": now - took,
                "ended": now,
                "stacks": bool(getattr(profiler, "with_stack", False)),
            },
        }
        _held.append(one)
        profiler._ptxview = one
    except Exception as error:
        problem("profile", error)


def _exported(session: Any, profiler: Any, path: Any) -> None:
    """He has written his trace: a copy is taken, since it cannot be written twice."""
    one = getattr(profiler, "_ptxview", None)
    if one is None or one.get("results") is None:
        return
    one["results"] = None
    keep(session, one["facts"], lambda to: shutil.copyfile(path, to))


def finish_others(session: Any) -> None:
    """The program ends: what he has not written is written here."""
    for one in _held:
        results, one["results"] = one.get("results"), None
        if results is not None:
            keep(session, one["facts"], results.save)
    if _count[0] > len(_held):
        problem("profile", f"the program ran {_count[0]} profilers; the first {MOST} are read")
    _held.clear()


# Of each line that calls, and of each pair of lines that takes a time.
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
    held: dict[str, list[tuple[float, float]]], site: str, times: tuple[float, float]
) -> None:
    if site not in held and len(held) >= MOST_SITES:
        return
    _counts[site] = _counts.get(site, 0) + 1
    known = held.setdefault(site, [])
    if len(known) < MOST_TIMES:
        known.append(times)


def _watched_compile(original: Any) -> Any:
    @functools.wraps(original)
    def compile(*args: Any, **given: Any) -> Any:
        began = time.time()
        try:
            return original(*args, **given)
        finally:
            path, line = _line(sys._getframe(1))
            _note(_calls, f"compile {path}:{line}", (began, time.time()))

    return compile


def _watched_record(original: Any) -> Any:
    @functools.wraps(original)
    def record(self: Any, *args: Any, **given: Any) -> Any:
        try:
            # Little is done here: what it takes stands between the program's two events.
            self._ptxview = (time.time(), *_line(sys._getframe(1)))
        except AttributeError:
            pass
        return original(self, *args, **given)

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
    """What torch.compile says that it compiled, the last 64 of it."""
    utils: Any = sys.modules.get("torch._dynamo.utils")
    if utils is None or not hasattr(utils, "get_compilation_metrics"):
        return []
    out = []
    for one in utils.get_compilation_metrics():
        start, took = getattr(one, "start_time_us", None), getattr(one, "duration_us", None)
        if not isinstance(start, int) or not isinstance(took, int):
            continue
        out.append(
            {
                "name": str(getattr(one, "co_name", None) or ""),
                "file": str(getattr(one, "co_filename", None) or ""),
                "line": getattr(one, "co_firstlineno", None),
                "began": start / 1e6,
                "ended": (start + took) / 1e6,
            }
        )
    return out


def finish(seen: int, step: dict[str, str] | None, wish: dict[str, Any]) -> None:
    """Tell what was seen; called once, when the program ends."""
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
