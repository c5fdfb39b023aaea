"""What the caches of Triton and Inductor keep of autotuning, as events. Both are JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from inspector import files
from inspector.capture.autotune import configuration, finite
from inspector.capture.facts import CONFIG, as_map
from inspector.errors import Unreadable

BEST_CONFIG = ".best_config"
TIMINGS = ".autotune.json"
# What Inductor writes into a .best_config beside the configuration itself.
_NOT_CONFIG = frozenset(
    {
        "configs_hash",
        "extra_options",
        "found_by_coordesc",
        "num_buffers_warp_spec",
        "num_consumer_groups",
        "time_saved_ns",
        "time_taken_ms",
        "triton_cache_hash",
    }
)


def is_tuning(name: str) -> bool:
    """Whether a file of this name holds what a tuner found."""
    return name.endswith((BEST_CONFIG, TIMINGS))


def from_file(path: Path, inside: Path, beside: Sequence[str]) -> Iterator[dict[str, object]]:
    """The tuning that a ``.best_config`` of Inductor's or a ``.autotune.json`` of Triton's holds.

    The file lies in the folder ``inside``, which was opened. The former has the winner and no time
    of it: its ``time_taken_ms`` is how long tuning took. ``beside`` are the names of the Python
    files in its folder.
    """
    try:
        data = files.read(path, files.limits().line, inside=inside)
        held = files.parsed(data, what=str(path))
    except files.TooLarge as error:
        yield _problem(path, error.message)
        return
    except (Unreadable, ValueError):
        yield _problem(path, "is no JSON: truncated, or half-written")
        return
    event = None
    if isinstance(held, dict):
        event = _best(beside, held) if path.name.endswith(BEST_CONFIG) else _timings(path, held)
    if event is None:
        yield _problem(path, "holds no tuning: half-written, or foreign")
    else:
        yield {"event": "autotune", "from_cache": True, "kept": True, **event}


def _best(beside: Sequence[str], held: Mapping[str, object]) -> dict[str, object] | None:
    config = {k: v for k, v in held.items() if k not in _NOT_CONFIG}
    if not isinstance(held.get("num_warps"), int):
        return None
    # Without a hash of what won, the kernel's file is the one that lies beside it, if it is one.
    taken = finite(held.get("time_taken_ms"))
    return {
        "by": "inductor",
        "file": beside[0] if len(beside) == 1 else None,
        "method": "coordinate descent" if held.get("found_by_coordesc") is True else None,
        "seconds": None if taken is None else taken / 1000,
        "configurations": [{"config": config, "cache_key": held.get("triton_cache_hash")}],
        "winner": 0,
    }


def _timings(path: Path, held: Mapping[str, object]) -> dict[str, object] | None:
    pairs = held.get("configs_timings")
    said: list[dict[str, object]] = []
    for pair in pairs if isinstance(pairs, list) else []:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], dict):
            return None
        config = {**as_map(pair[0].get("kwargs")), **pair[0]}
        config = {k: v for k, v in config.items() if v is not None and k in _tuned(pair[0])}
        times = pair[1] if isinstance(pair[1], list) else [pair[1]]
        failed = bool(times) and all(t == math.inf for t in times)
        reason = "failed when it was measured, in another run" if failed else None
        said.append({"config": config, "times_ms": times, "reason": reason})
    if not said:
        return None
    medians = [configuration(c, "triton").time_us for c in said]
    known = [t for t in medians if t is not None]
    return {
        "by": "triton",
        "name": path.name[: -len(TIMINGS)],
        "key": held.get("key"),
        "configurations": said,
        "winner": medians.index(min(known)) if known else None,
    }


def _tuned(config: Mapping[str, object]) -> frozenset[str]:
    return frozenset({*as_map(config.get("kwargs")), *CONFIG, "ir_override"})


def _problem(where: Path, text: str) -> dict[str, object]:
    return {"event": "problem", "where": str(where), "text": text.removeprefix(f"{where} ")}
