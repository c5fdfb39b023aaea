"""What is compiled while the program runs, and what its timing events stand around.

Only what a benchmark should know of: calls of ``torch.compile`` by the line that they stand on,
compiles by Triton, torch.compile's own record of what it compiled, pairs of CUDA events.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from typing import Any

from . import hooks
from .writer import emit, problem

# Of each line that calls, and of each pair of lines that takes a time.
MOST_TIMES = 256
MOST_SITES = 256
_calls: dict[str, list[tuple[float, float]]] = {}
_compiles: list[dict[str, Any]] = []
_pairs: dict[str, list[tuple[float, float]]] = {}
_counts: dict[str, int] = {}
_HERE = os.path.dirname(os.path.abspath(__file__))


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
