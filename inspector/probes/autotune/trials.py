"""One configuration that a tuner tries, with its times, binary or error; of any tuner."""

from __future__ import annotations

import itertools
import math
import os
import threading
from typing import Any

from ..writer import emit, plain

now = threading.local()  # trial: the configuration that is measured in this thread
_numbers = itertools.count()
MAX_REASON_CHARACTERS = 300


class Trial:
    """One configuration and its result."""

    def __init__(self, config: dict[str, Any], reason: str | None = None) -> None:
        self.config, self.reason = config, reason
        self.times: list[float] | None = None  # milliseconds, as the tuner was given them
        self.hash: str | None = None
        self.error: str | None = None
        self.compiled: dict[str, str] = {}

    def event(self) -> dict[str, Any]:
        """The trial as the recording holds it."""
        return {
            "config": self.config,
            "hash": self.hash,
            "times_ms": self.times,
            "reason": self.reason,
        }


def trial_of(trials: list[Trial], config: dict[str, Any]) -> Trial:
    """The trial of a configuration, added to ``trials`` if it is not among them."""
    for trial in trials:
        if trial.config == config:
            return trial
    trials.append(Trial(config))
    return trials[-1]


def number() -> int:
    """A number for a tuning, unique in this process."""
    return next(_numbers)


def write(by: str, name: Any, configurations: list[dict[str, Any]], **more: Any) -> None:
    """Write the event of a tuning; ``more``: facts in the place of those that are unknown."""
    event = {
        "event": "autotune",
        "by": by,
        "name": name,
        "file": None,
        "key": None,
        "stopwatch": None,
        "method": None,
        "from_cache": False,
        "seconds": None,
        "configurations": configurations,
        "winner": None,
    }
    emit(event | more)


def emulated() -> bool:
    """Whether nothing can be measured in this process."""
    return bool(os.environ.get("PTXVIEW_TARGET"))


def config_of(config: Any) -> dict[str, Any]:
    """A ``triton.Config`` as plain values, without those that it leaves to the compiler."""
    # num_consumer_groups and the like are 0 where they are not used.
    settings = {
        **config.kwargs,
        **{
            name: getattr(config, name, None)
            for name in ("num_warps", "num_stages", "num_ctas", "maxnreg", "ir_override")
        },
    }
    return {str(k): plain(v) for k, v in settings.items() if v is not None}


def times_of(measured: Any) -> list[float] | None:
    """Milliseconds as floats; None where the tuner has none: infinite, or not a number."""
    several = measured if isinstance(measured, list | tuple) else [measured]
    out = [float(t) for t in several if isinstance(t, int | float)]
    if emulated() or not out or len(out) != len(several) or not all(map(math.isfinite, out)):
        return None
    return out


def infinite(measured: Any) -> bool:
    """Whether a time is infinite, by which a tuner marks a configuration that failed."""
    several = measured if isinstance(measured, list | tuple) else [measured]
    return bool(several) and all(t == float("inf") for t in several)


def first_line(error: BaseException) -> str:
    """An error in one line: of Triton's own, the message and not the place before it."""
    message = getattr(error, "error_message", None) or str(error)
    lines = [line.strip() for line in str(message).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:MAX_REASON_CHARACTERS]


def compiled(digest: Any, name: Any) -> None:
    """Note a kernel that was compiled or taken from the cache, maybe for the current trial."""
    trial = getattr(now, "trial", None)
    if trial is not None and digest:
        trial.compiled[str(digest)] = str(name or "")


def failed(error: BaseException) -> None:
    """Note why a kernel could not be compiled or loaded, which the tuner itself does not say."""
    trial = getattr(now, "trial", None)
    if trial is not None:
        trial.error = first_line(error)
