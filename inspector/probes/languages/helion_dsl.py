"""Helion: each configuration of a kernel becomes a file with a kernel of Triton, and is tuned.

Triton's compile of that file is recorded as any other; here are the Python and the configuration
that it was generated from, and what Helion's autotuner measured.
"""

from __future__ import annotations

import math
import threading
import time
from typing import Any

from .. import private_names
from ..autotune.triton_tuner import emulated, write
from ..hooks import argument, succeeded
from ..writer import emit, file_blob, json_value
from .emit import of_function

BY = "Helion"
MAX_CONFIGURATIONS = 2000
_now = threading.local()  # results: what the tuning that is under way has measured


def attach(module: Any) -> None:
    """``helion.runtime.kernel``: a bound kernel compiles a configuration to a function."""
    name = "helion.runtime.kernel:BoundKernel.compile_config"
    private_names.wrap(name, argument(0), succeeded(_generated))


def _generated(bound: Any, function: Any) -> None:
    cache = getattr(bound, "_compile_cache", {})
    configs = [config for config, compiled in list(cache.items()) if compiled is function]
    path = function.__code__.co_filename
    text = {"output_code": file_blob(path), "file": path}
    config = _settings(configs[-1]) if configs else {}
    emit({"event": "generated", "config": config, **text, **of_function(BY, bound.kernel.fn)})


def _settings(config: Any) -> dict[str, Any]:
    return {str(name): json_value(value) for name, value in config.config.items()}


def attach_search(module: Any) -> None:
    """``helion.autotuner.base_search``: a search measures batches of configurations."""
    search = "helion.autotuner.base_search:BaseSearch"

    def began(args: Any, kwargs: Any) -> tuple[Any, float, Any]:
        outer = getattr(_now, "results", None)
        _now.results = []
        return args[0], time.time(), outer

    def measured(token: Any, results: Any) -> None:
        collected = getattr(_now, "results", None)
        if collected is not None and len(collected) < MAX_CONFIGURATIONS:
            collected += list(results)

    def ended(token: tuple[Any, float, Any], best: Any, error: BaseException | None) -> None:
        searcher, began_at, outer = token
        results = _now.results
        _now.results = outer
        if error is None and results:
            _tuned(searcher, results, best, time.time() - began_at)

    private_names.wrap(f"{search}.benchmark_batch", None, succeeded(measured))
    private_names.wrap(f"{search}.autotune", began, ended)


def _tuned(search: Any, results: list[Any], best: Any, seconds: float) -> None:
    """The configurations in the order of their first measurement, each with its best time."""
    times: dict[str, tuple[dict[str, Any], float, str]] = {}
    for result in results:
        config = _settings(result.config)
        earlier = times.get(repr(config))
        if earlier is None or result.perf < earlier[1]:
            times[repr(config)] = config, result.perf, str(result.status)
    # Until Helion 1.1 all times are in ms, and nothing says so.
    in_ms = getattr(search, "performance_unit", "ms") == "ms" and not emulated()
    entries: list[dict[str, Any]] = []
    for config, time_ms, status in times.values():
        is_finite = math.isfinite(time_ms)
        entries.append(
            {
                "config": config,
                "times_ms": [time_ms] if in_ms and is_finite else None,
                "reason": None if is_finite else status,
            }
        )
    best_key = repr(_settings(best))
    identity = of_function(BY, search.kernel.kernel.fn)
    write(
        "triton",
        f"_helion_{identity['name'].rpartition('.')[2]}",
        entries,
        file=identity.get("path"),
        seconds=seconds,
        method=type(search).__name__,
        winner=list(times).index(best_key) if best_key in times else None,
    )
