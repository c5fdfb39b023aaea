"""torch.profiler as the program itself uses it: ours steps aside, and reads what his recorded."""

from __future__ import annotations

import functools
import os
import shutil
import time
from typing import Any

from .profile_keeping import keep
from .writer import problem

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


def finish(session: Any) -> None:
    """The program ends: what he has not written is written here."""
    for one in _held:
        results, one["results"] = one.get("results"), None
        if results is not None:
            keep(session, one["facts"], results.save)
    if _count[0] > len(_held):
        problem("profile", f"the program ran {_count[0]} profilers; the first {MOST} are read")
    _held.clear()
