"""What Triton's autotuner looks at: each configuration with its time, its binary or its reason.

A tuning begins where the autotuner prunes its configurations and ends when the launch that caused
it returns. A configuration's binary is the one that was launched while it was measured, or, where
none was, the one compiled then. Times are those that the tuner itself got; nothing is measured
here, and where the device is emulated there are none.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import Any

from .. import hooks, private_names
from ..calls import subjects
from ..writer import emit, plain
from .trials import (
    Trial,
    config_of,
    emulated,
    first_line,
    infinite,
    now,
    number,
    times_of,
    trial_of,
)

# Tunings under way, by thread; a tuning begun while another tries a configuration comes last.
_begun: dict[int, list[Tuning]] = hooks.per_recording({})
_now = threading.local()  # warming: whether ``warmup`` runs, which prunes and measures nothing
MAX_CONFIGURATIONS = 4096
MAX_BEGUN = 8
"""Tunings of a thread that are under way; each holds the arguments of its launch."""


class Tuning:
    """One tuning of Triton's: the configurations in the order of the program."""

    def __init__(self, owner: Any, kwargs: dict[str, Any]) -> None:
        self.owner = owner
        self.known = _keys(owner)
        self.timings = getattr(owner, "configs_timings", None)
        self.arguments = {**dict(owner.nargs or {}), **kwargs}
        self.trials: list[Trial] = []
        self.tried = False

    def prune(self, remaining: Iterable[Any]) -> None:
        """Take in all configurations, and which of them the pruners kept."""
        kept_configs = [config_of(c) for c in remaining]
        for config in map(config_of, self.owner.configs):
            trial = Trial(config)
            if config not in kept_configs:
                trial.reason = f"pruned: {self._pruner()}"
            self.trials.append(trial)
        self.trials += [Trial(c) for c in kept_configs if c not in [t.config for t in self.trials]]

    def _pruner(self) -> str:
        owner = self.owner
        if not owner.perf_model:
            return "early_config_prune"
        if not owner.early_config_prune:
            return f"perf_model ranks it below the best {owner.configs_top_k} (top_k)"
        return "early_config_prune or perf_model"

    def trial(self, config: dict[str, Any]) -> Trial:
        """The trial of a configuration, created if the tuner had not announced it."""
        return trial_of(self.trials, config)


def attach(module: Any) -> None:
    """``triton.runtime.autotuner``; call it last of all that change that module."""
    tuner = private_names.get("triton.runtime.autotuner:Autotuner")
    if tuner is None:
        return

    def init_subclass(subclass: Any, **kwargs: Any) -> None:
        super(tuner, subclass).__init_subclass__(**kwargs)

    tuner.__init_subclass__ = classmethod(hooks.observed(init_subclass, _subclassing, _subclassed))
    for name, before, after in (
        ("prune_configs", _pruning, _pruned),
        ("_bench", _trying, _tried),
        ("run", _running, _ran),
        ("warmup", _warming, _warmed),
    ):
        private_names.wrap(f"triton.runtime.autotuner:Autotuner.{name}", before, after)


def _subclassing(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0]


def _subclassed(subclass: Any, result: Any, error: BaseException | None) -> None:
    """A tuner of a library's own may run in its own way, and never call Triton's ``run``."""
    run = vars(subclass).get("run")
    if error is None and callable(run):
        subclass.run = hooks.observed(run, _running, _ran)


def _keys(owner: Any) -> set[Any]:
    """The keys that a tuner has tuned for so far; empty if its cache does not list them."""
    cache = owner.cache
    return set(cache) if hasattr(cache, "keys") else set()


def _running(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0]


def _ran(owner: Any, kernel: Any, error: BaseException | None) -> None:
    if _begun:
        _end(owner, kernel)


def _end(owner: Any, kernel: Any) -> None:
    """Record the tuning that began in the launch which has just returned, if one did."""
    me = threading.get_ident()
    stack = _begun.get(me)
    if not stack or stack[-1].owner is not owner:
        return
    tuning = stack.pop()
    while stack and stack[-1].owner is owner:
        stack.pop()  # the program itself called prune_configs
    if not stack:
        del _begun[me]
    if tuning.tried or len(_keys(owner)) > len(tuning.known):
        _told(tuning, kernel)


def _current() -> Tuning | None:
    stack = _begun.get(threading.get_ident())
    return stack[-1] if stack else None


def _warming(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    outer = getattr(_now, "warming", False)
    _now.warming = True
    return outer


def _warmed(outer: bool, result: Any, error: BaseException | None) -> None:
    _now.warming = outer


def _pruning(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tuning | None:
    """The tuning that begins; None where nothing is measured."""
    if getattr(_now, "warming", False) or os.environ.get("TRITON_INTERPRET") == "1":
        return None
    return Tuning(args[0], dict(args[1] if len(args) > 1 else kwargs["kwargs"]))


def _pruned(tuning: Tuning | None, remaining: Any, error: BaseException | None) -> None:
    # A pruner of the program's may give an iterator, which is Triton's to read.
    if tuning is not None and isinstance(remaining, list | tuple | dict):
        tuning.prune(remaining)
        stack = _begun.setdefault(threading.get_ident(), [])
        stack.append(tuning)
        del stack[:-MAX_BEGUN]


def _trying(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The trial that begins, with what was launched before and the trial around it."""
    tuning = _current()
    if tuning is None or tuning.owner is not args[0]:
        return None
    trial = tuning.trial(config_of(kwargs["config"]))
    launched, outer = subjects.benchmarked(), getattr(now, "trial", None)
    now.trial, tuning.tried = trial, True
    return trial, launched, outer, args[0]


def _tried(token: Any, measured: Any, error: BaseException | None) -> None:
    if token is None:
        return
    trial, launched, outer, owner = token
    now.trial = outer
    trial.hash = _binary(trial, launched, owner)
    if error is not None:
        trial.reason = f"failed: {first_line(error)}"
        return
    trial.times = times_of(measured)
    if infinite(measured):
        trial.reason = f"failed: {trial.error or 'the tuner gave it no time'}"


def _binary(trial: Trial, launched_before: dict[str, int], owner: Any) -> str | None:
    """The hash of the trial's binary; None if it is not certain which one that is."""
    counts = subjects.benchmarked()
    launched = {d: n for d, n in counts.items() if n > launched_before.get(d, 0)}
    binaries = {d: subjects.name_of(d) for d in launched} or trial.compiled
    if len(binaries) > 1:  # a hook of the program's may launch kernels, too
        kernel_name = owner.base_fn.__name__
        binaries = {digest: name for digest, name in binaries.items() if name == kernel_name}
    return next(iter(binaries)) if len(binaries) == 1 else None


def _told(tuning: Tuning, kernel: Any) -> None:
    owner = tuning.owner
    added = [k for k in owner.cache if k not in tuning.known] if _keys(owner) else []
    silent = kernel is not None and not hasattr(owner.cache, "keys")
    chosen = (
        owner.cache[added[-1]] if added else getattr(owner, "best_config", None) if silent else None
    )
    best = None if chosen is None else config_of(chosen)
    timings = getattr(owner, "configs_timings", None)
    measured = timings is not tuning.timings
    from_cache = bool(added) and measured and not tuning.tried
    if from_cache and isinstance(timings, dict):
        for config, times in timings.items():
            trial = tuning.trial(config_of(config))
            trial.times = times_of(times)
            if infinite(times):
                trial.reason = "failed when it was measured, in another run"
    winner = None if best is None or emulated() else tuning.trial(best)
    if winner is not None and kernel is not None and winner.hash is None:
        winner.hash = str(getattr(kernel, "hash", None) or "") or None
    if winner is not None and winner.reason is not None:
        winner = None  # they all failed; Triton goes on with the first
    seconds = getattr(owner, "bench_time", None)
    emit(
        {
            "event": "autotune",
            "tuning": number(),
            "by": "triton",
            "name": owner.base_fn.__name__,
            "file": _file(owner.base_fn),
            "key": _key(tuning, added[-1] if added else None),
            "stopwatch": _stopwatch(owner) if tuning.tried and not emulated() else None,
            "from_cache": from_cache,
            "seconds": seconds if tuning.tried and measured and not emulated() else None,
            "configurations": [t.event() for t in tuning.trials[:MAX_CONFIGURATIONS]],
            "winner": None if winner is None else tuning.trials.index(winner),
        }
    )


def _file(function: Any) -> str | None:
    path = getattr(getattr(function, "__code__", None), "co_filename", None)
    if not isinstance(path, str):
        return None
    return os.path.abspath(path) if os.path.isfile(path) else path


def _key(tuning: Tuning, key: Any) -> Any:
    """The key's values by argument name; Triton's bare values if the names do not fit."""
    owner = tuning.owner
    arguments = {k: v for k, v in tuning.arguments.items() if k in owner.arg_names}
    named = [(k, arguments[k]) for k in owner.keys if k in arguments]
    named += [(k, str(v.dtype)) for k, v in arguments.items() if hasattr(v, "dtype")]
    fits = len({k for k, _ in named}) == len(named)
    if fits and (key is None or (isinstance(key, tuple) and len(key) == len(named))):
        return {str(k): plain(v) for k, v in named}
    return None if key is None else plain(list(key) if isinstance(key, tuple) else [key])


def _stopwatch(owner: Any) -> str | None:
    """The name of the function that the tuner measures with: Triton's or the program's own."""
    if getattr(owner, "use_cuda_graph", False):
        return "do_bench_cudagraph"
    function = vars(owner).get("do_bench") or vars(owner).get("_do_bench")
    name = getattr(function, "__qualname__", None)
    # With ``warmup`` or ``rep`` it is a lambda of Triton's own around do_bench.
    return "do_bench" if name is None or name.startswith("Autotuner.") else str(name)
