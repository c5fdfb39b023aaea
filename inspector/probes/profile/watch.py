"""What is compiled while the program runs, and which lines its timing events enclose.

Only what spoils or explains a benchmark: calls of ``torch.compile`` by line, compiles by Triton,
torch.compile's own record of what it compiled, and pairs of CUDA events.
"""

import gzip
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from .. import hooks, private_names
from ..writer import emit, file_blob, folder, problem

# Keeps the trace of a window with the recording.

COMPRESSION = 3


def keep(session: Any, facts: dict[str, Any], write: Callable[[str], object]) -> None:
    """Store the trace that ``write(path)`` makes, compressed, and the event that names it."""
    root = folder()
    if root is None:
        return
    with tempfile.TemporaryDirectory(prefix=".profile.", dir=os.path.join(root, "blobs")) as place:
        trace_path = os.path.join(place, "trace.json")
        packed_path = os.path.join(place, "trace.gz")
        with session.own_calls():
            write(trace_path)
        with open(trace_path, "rb") as source, gzip.open(packed_path, "wb", COMPRESSION) as out:
            shutil.copyfileobj(source, out, 1 << 20)
        version = str(getattr(session.torch, "__version__", ""))
        about = {"trace": file_blob(packed_path), "gpu": session.on_gpu(), "torch": version}
        emit({"event": "profile", **facts, **about})


# Ours steps aside, and reads what the program's recorded.

MAX_PROGRAM_WINDOWS = 8
"""Windows of the program's own profilers that are read; each is held until the program ends."""
_program_windows: list[dict[str, Any]] = []
_count = [0]


def attach(session: Any) -> None:
    """Observe the functions that every profiler of torch's goes through."""
    for name in ("_prepare_profiler", "_enable_profiler"):
        private_names.wrap(f"torch.autograd.profiler:{name}", lambda args, kwargs: session.aside())
    kind = session.torch.autograd.profiler.profile

    def on_exit(profiler: Any, result: Any) -> None:
        if not session.ours and os.getpid() == session.pid:
            _keep_window(profiler)

    def exported(call: tuple[Any, Any], result: Any) -> None:
        """Copy the trace that the program has written, since it cannot be written twice."""
        profiler, path = call
        window = getattr(profiler, "_ptxview", None)
        if not session.ours and window is not None and window["results"] is not None:
            window["results"] = None
            keep(session, window["facts"], lambda to: shutil.copyfile(path, to))

    kind.__exit__ = hooks.observed(kind.__exit__, hooks.argument(0), hooks.succeeded(on_exit))
    call_arguments = hooks.arguments("self", "path")
    export = hooks.observed(kind.export_chrome_trace, call_arguments, hooks.succeeded(exported))
    kind.export_chrome_trace = export


def _keep_window(profiler: Any) -> None:
    """Hold the result of a window of the program's own profiler, which can be saved only once."""
    results = getattr(profiler, "kineto_results", None)
    if results is None or not hasattr(results, "save"):
        return
    _count[0] += 1
    if len(_program_windows) >= MAX_PROGRAM_WINDOWS:
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
    _program_windows.append(window)
    profiler._ptxview = window


def finish_others(session: Any) -> None:
    """Write the traces that the program has not written itself, when it ends."""
    for window in _program_windows:
        results = window.get("results")
        window["results"] = None
        if results is not None:
            hooks.guarded(keep)(session, window["facts"], results.save)
    if _count[0] > len(_program_windows):
        problem(
            "profile",
            f"the program ran {_count[0]} profilers; the first {MAX_PROGRAM_WINDOWS} are read",
        )
    _program_windows.clear()


MAX_TIMES = 256
"""Times kept of each calling line, of each pair of timing lines, and of Triton compilations."""
MAX_SITES = 256
"""Calling lines, and pairs of timing lines."""
_calls: dict[str, list[tuple[float, float]]] = {}
_compiles: list[dict[str, Any]] = []
_pairs: dict[str, list[tuple[float, float]]] = {}
_counts: dict[str, int] = {}
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def install(session: Any) -> None:
    """Watch torch.compile, CUDA's events and Triton's compiler, and end windows there."""

    def passing(*_: Any) -> None:
        session.passing()

    def attach_torch(torch: Any) -> None:
        torch.compile = hooks.observed(torch.compile, _before_compile, _after_compile)
        torch.cuda.synchronize = hooks.observed(torch.cuda.synchronize, on_return=passing)
        event = torch.cuda.Event
        event.record = hooks.observed(event.record, _before_record)
        event.elapsed_time = hooks.observed(event.elapsed_time, _before_elapsed, passing)

    hooks.when_imported("torch", attach_torch)
    graph = "torch._inductor.output_code:CompiledFxGraph.__call__"
    hooks.when_imported(
        "torch._inductor.output_code", lambda _: private_names.wrap(graph, on_return=passing)
    )
    # Before the probe that records it, whose work is not the compiler's.
    hooks.when_imported("triton.compiler.compiler", _attach_triton, first=True)


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
    if site in times_by_site or len(times_by_site) < MAX_SITES:
        _counts[site] = _counts.get(site, 0) + 1
        recorded = times_by_site.setdefault(site, [])
        recorded.extend([times] if len(recorded) < MAX_TIMES else [])


def _before_compile(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[float, str, int]:
    return (time.time(), *_line(sys._getframe(1)))


def _after_compile(call: tuple[float, str, int], result: Any, error: object) -> None:
    began, path, line = call
    _note(_calls, f"compile {path}:{line}", (began, time.time()))


def _before_record(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    # As little as possible: the program's two events also time this code.
    args[0]._ptxview = (time.time(), *_line(sys._getframe(1)))


def _before_elapsed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    end_event = args[1] if len(args) > 1 else kwargs["end_event"]
    first = getattr(args[0], "_ptxview", None)
    last = getattr(end_event, "_ptxview", None)
    if not first or not last:
        return
    began, first_path, first_line = first
    ended, last_path, last_line = last
    if ended >= began:
        sites = f"{first_path}:{first_line}\n{last_path}:{last_line}"
        _note(_pairs, sites, (began, ended))


def _attach_triton(module: Any) -> None:
    def on_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[float, str]:
        source = args[0] if args else kwargs["src"]
        return time.time(), str(getattr(source, "name", "") or getattr(source, "fn", ""))

    def on_return(call: tuple[float, str], result: Any, error: object) -> None:
        began, name = call
        if len(_compiles) < MAX_TIMES:
            _compiles.append({"name": name, "began": began, "ended": time.time()})

    private_names.wrap("triton.compiler.compiler:compile", on_call, on_return)


def _dynamo() -> list[dict[str, Any]]:
    """The compilations that torch.compile has a record of, the last 64."""
    if "torch._dynamo.utils" not in sys.modules:
        return []
    compilations = private_names.get("torch._dynamo.utils:get_compilation_metrics")
    if compilations is None:
        return []
    out = []
    for metrics in compilations():
        start = getattr(metrics, "start_time_us", None)
        duration = getattr(metrics, "duration_us", None)
        if isinstance(start, int) and isinstance(duration, int):
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


def finish(step_count: int, step: dict[str, str] | None, options: dict[str, Any]) -> None:
    """Write what was seen, once, when the program ends."""
    dynamo = hooks.guarded(_dynamo)() or []
    emit(
        {
            "event": "profile_facts",
            "seen": step_count,
            "step": step,
            "wish": options,
            "dynamo": dynamo,
            "triton": _compiles,
            "calls": [
                {"site": s.removeprefix("compile "), "count": _counts[s], "times": t}
                for s, t in _calls.items()
            ],
            "pairs": [{"sites": s, "count": _counts[s], "times": t} for s, t in _pairs.items()],
        }
    )
