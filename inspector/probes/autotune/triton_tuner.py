"""Records Triton's autotuner: each configuration with its time, its binary or its reason.

A tuning begins where the autotuner prunes its configurations and ends when the launch that caused
it returns. A configuration's binary is the one that was launched while it was measured, or, where
none was, the one compiled then. Times are those that the tuner itself got; nothing is measured
here, and an emulated device gives no times.
"""

import itertools
import math
import os
import threading
import weakref
from collections.abc import Collection
from types import FunctionType
from typing import Any

from .. import private_names
from ..calls import call_counts
from ..hooks import Args, Kwargs, argument, arguments, during, observed, succeeded
from ..writer import emit, json_value

now = threading.local()  # trial: the configuration that is measured in this thread
numbers = itertools.count()  # of tunings, unique in this process
MAX_REASON_CHARACTERS = 300


class Trial:
    """One configuration and its result."""

    def __init__(self, config: dict[str, Any], reason: str | None = None) -> None:
        self.config = config
        self.reason = reason
        self.times: list[float] | None = None  # milliseconds, as the tuner was given them
        self.hash: str | None = None
        self.error: str | None = None
        self.compiled: dict[str, str] = {}

    def event(self) -> dict[str, Any]:
        """The trial as the recording holds it."""
        facts = {"config": self.config, "hash": self.hash, "times_ms": self.times}
        return facts | {"reason": self.reason}

    def measured(self, times: Any, failed: str) -> None:
        """Note the milliseconds that the tuner measured; infinite ones mark a failure."""
        several = times if isinstance(times, list | tuple) else [times]
        infinite = bool(several) and all(t == float("inf") for t in several)
        finite = [float(t) for t in several if isinstance(t, int | float) and math.isfinite(t)]
        complete = bool(finite) and len(finite) == len(several) and not emulated()
        self.times = finite if complete else None
        self.reason = failed if infinite else None


def trial_of(trials: list[Trial], config: dict[str, Any]) -> Trial:
    """The trial of a configuration, added to ``trials`` if it is not among them."""
    for trial in trials:
        if trial.config == config:
            return trial
    trials.append(Trial(config))
    return trials[-1]


def write(compiler: str, name: Any, configurations: list[dict[str, Any]], **fields: Any) -> None:
    """Write the event of a tuning; ``fields``: facts in the place of those that are unknown."""
    event = {
        "event": "autotune",
        "by": compiler,
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
    emit(event | fields)


def emulated() -> bool:
    """Whether nothing can be measured in this process."""
    return bool(os.environ.get("PTXVIEW_TARGET"))


def config_of(config: Any) -> dict[str, Any]:
    """A ``triton.Config`` as plain values, without those that it leaves to the compiler."""
    # num_consumer_groups and the like are 0 where they are not used.
    names = ("num_warps", "num_stages", "num_ctas", "maxnreg", "ir_override")
    settings = {**config.kwargs, **{name: getattr(config, name, None) for name in names}}
    return {str(k): json_value(v) for k, v in settings.items() if v is not None}


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


TUNER = "triton.runtime.autotuner:Autotuner"
MAX_CONFIGURATIONS = 4096
MAX_BEGUN = 64
"""Tunings under way in a thread: a program that only prunes ends no tuning."""

# begun: this thread's tunings under way, the innermost last; warming: whether ``warmup`` runs,
# which prunes and measures nothing.
_now = threading.local()
_observed_classes: weakref.WeakSet[type] = weakref.WeakSet()


class Tuning:
    """One tuning of Triton's: the configurations in the order of the program.

    Args:
        remaining: The configurations that the pruners kept. An iterator is the tuner's to read: its
            configurations are known as they are tried.
    """

    def __init__(self, owner: Any, kwargs: dict[str, Any], remaining: Any) -> None:
        self.owner = owner
        self.keys_before = _keys(owner)
        self.timings = getattr(owner, "configs_timings", None)
        self.key_values = _key_arguments(owner, kwargs)
        self.trials: list[Trial] = []
        self.tried = False
        if not isinstance(remaining, Collection):
            return
        pruner = f"perf_model ranks it below the best {owner.configs_top_k} (top_k)"
        if not owner.perf_model:
            pruner = "early_config_prune"
        elif owner.early_config_prune:
            pruner = f"early_config_prune, or {pruner}"
        remaining_configs = [config_of(config) for config in remaining]
        for config in map(config_of, owner.configs):
            self.trials.append(
                Trial(config, None if config in remaining_configs else f"pruned: {pruner}")
            )
        for config in remaining_configs:
            trial_of(self.trials, config)


def attach(module: Any) -> None:
    """``triton.runtime.autotuner``; call it last of all that change that module."""
    tuner = private_names.get(TUNER)
    if tuner is None:
        return
    tuner.__init__ = observed(tuner.__init__, argument(0), _tuner_created)
    call_arguments = arguments("self", "kwargs")
    private_names.wrap(f"{TUNER}.prune_configs", call_arguments, succeeded(_pruned))
    private_names.wrap(f"{TUNER}._bench", _before_trying, _tried)
    private_names.wrap(f"{TUNER}.run", argument(0), _ran)
    private_names.wrap(f"{TUNER}.warmup", *during(_now, "warming", lambda args, kwargs: True))


def _tuner_created(owner: Any, result: Any, error: BaseException | None) -> None:
    """A tuner of a library's own may run in its own way, and never call Triton's ``run``."""
    for tuner in type(owner).__mro__:
        run = vars(tuner).get("run")
        if f"{tuner.__module__}:{tuner.__qualname__}" == TUNER:
            return
        if isinstance(run, FunctionType) and tuner not in _observed_classes:
            _observed_classes.add(tuner)
            tuner.run = observed(run, argument(0), _ran)  # type: ignore[attr-defined]


def _keys(owner: Any) -> set[Any]:
    """The keys that a tuner has tuned for so far; empty if its cache does not list them."""
    cache = owner.cache
    return set(cache) if hasattr(cache, "keys") else set()


def _ran(owner: Any, kernel: Any, error: BaseException | None) -> None:
    """Record the tuning that began in the launch which has just returned, if one did."""
    stack = getattr(_now, "begun", None)
    if not stack or stack[-1].owner is not owner:
        return
    tuning = stack.pop()
    while stack and stack[-1].owner is owner:
        stack.pop()  # the program itself called prune_configs
    if tuning.tried or len(_keys(owner)) > len(tuning.keys_before):
        _write_tuning(tuning, kernel)


# -- pruning --------------------------------------------------------------------------------------


def _pruned(pruning: tuple[Any, Any], remaining: Any) -> None:
    if getattr(_now, "warming", False) or os.environ.get("TRITON_INTERPRET") == "1":
        return
    owner, kwargs = pruning
    tuning = Tuning(owner, kwargs, remaining)
    stack = _now.__dict__.setdefault("begun", [])
    if stack and stack[-1].owner is owner and not stack[-1].tried:
        stack.pop()  # the program itself pruned, and measured nothing
    stack.append(tuning)
    del stack[:-MAX_BEGUN]


# -- measuring ------------------------------------------------------------------------------------


Trying = tuple[Any, Trial, dict[str, int], Trial | None]
"""A tuner, the configuration that it measures, launches before, and the trial around this one."""


def _before_trying(args: Args, kwargs: Kwargs) -> Trying | None:
    stack = getattr(_now, "begun", None)
    if not stack or stack[-1].owner is not args[0]:
        return None
    tuning = stack[-1]
    trial = trial_of(tuning.trials, config_of(kwargs["config"]))
    outer = getattr(now, "trial", None)
    now.trial = trial
    tuning.tried = True
    return args[0], trial, _benchmarked(), outer


def _tried(trying: Trying | None, measured: Any, error: BaseException | None) -> None:
    if trying is None:
        return
    owner, trial, launched, now.trial = trying
    if error is not None:
        trial.reason = f"failed: {first_line(error)}"
    else:
        trial.measured(measured, f"failed: {trial.error or 'the tuner gave it no time'}")
    trial.hash = _binary(owner, trial, launched)


def _benchmarked() -> dict[str, int]:
    """Launches by tuners so far, by the hash of what was launched."""
    call_targets = list(call_counts._targets.items())
    return {
        digest: target.benchmarks.count
        for (kind, digest), target in call_targets
        if kind == "triton"
    }


def _binary(owner: Any, trial: Trial, launched: dict[str, int]) -> str | None:
    """The hash of the trial's binary; None if it is not certain which one that is."""
    binaries = {
        digest: call_counts._targets["triton", digest].name
        for digest, count in _benchmarked().items()
        if count > launched.get(digest, 0)
    } or trial.compiled
    if len(binaries) > 1:  # a hook of the program's may launch kernels, too
        kernel_name = owner.base_fn.__name__
        binaries = {digest: name for digest, name in binaries.items() if name == kernel_name}
    return next(iter(binaries)) if len(binaries) == 1 else None


# -- writing --------------------------------------------------------------------------------------


def _write_tuning(tuning: Tuning, kernel: Any) -> None:
    owner = tuning.owner
    new_key = _added_key(tuning)
    timings = getattr(owner, "configs_timings", None)
    measured = timings is not tuning.timings
    from_cache = new_key is not None and measured and not tuning.tried
    if from_cache and isinstance(timings, dict):
        for config, times in timings.items():
            trial = trial_of(tuning.trials, config_of(config))
            trial.measured(times, "failed when it was measured, in another run")
    winner = _winner(tuning, new_key, kernel)
    was_timed = tuning.tried and not emulated()
    write(
        "triton",
        owner.base_fn.__name__,
        [trial.event() for trial in tuning.trials[:MAX_CONFIGURATIONS]],
        tuning=next(numbers),
        file=_file_of(owner.base_fn),
        key=_key(tuning, new_key),
        stopwatch=_stopwatch(owner) if was_timed else None,
        from_cache=from_cache,
        seconds=getattr(owner, "bench_time", None) if was_timed and measured else None,
        winner=None if winner is None else tuning.trials.index(winner),
    )


def _added_key(tuning: Tuning) -> Any:
    """The last key that the tuning put into the tuner's cache; None if it put none there."""
    owner = tuning.owner
    added = [k for k in owner.cache if k not in tuning.keys_before] if _keys(owner) else []
    return added[-1] if added else None


def _winner(tuning: Tuning, new_key: Any, kernel: Any) -> Trial | None:
    """The trial of the configuration that was chosen, with the hash of the kernel that ran.

    None if nothing was chosen by its time, also where every configuration failed: Triton goes on
    with the first one then.
    """
    owner = tuning.owner
    chosen_config = None
    if new_key is not None:
        chosen_config = owner.cache[new_key]
    elif kernel is not None and not hasattr(owner.cache, "keys"):
        chosen_config = getattr(owner, "best_config", None)
    if chosen_config is None or emulated():
        return None
    winner = trial_of(tuning.trials, config_of(chosen_config))
    if winner.hash is None:
        winner.hash = str(getattr(kernel, "hash", None) or "") or None
    return winner if winner.reason is None else None


def _file_of(function: Any) -> str | None:
    """The absolute path of a function's file; the name of what is no file, such as ``<stdin>``."""
    path: str | None = getattr(getattr(function, "__code__", None), "co_filename", None)
    return os.path.abspath(path) if path is not None and os.path.isfile(path) else path


def _key_arguments(owner: Any, kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """The values that a tuner's key is made of, by the argument's name; no argument is kept."""
    arguments = {**dict(owner.nargs or {}), **kwargs}
    arguments = {k: v for k, v in arguments.items() if k in owner.arg_names}
    named = [(str(k), json_value(arguments[k])) for k in owner.keys if k in arguments]
    return named + [(str(k), str(v.dtype)) for k, v in arguments.items() if hasattr(v, "dtype")]


def _key(tuning: Tuning, key: Any) -> Any:
    """The key's values by argument name; Triton's bare values if the names do not fit."""
    named = dict(tuning.key_values)
    fits = len(named) == len(tuning.key_values)
    if fits and (key is None or (isinstance(key, tuple) and len(key) == len(named))):
        return named
    if key is None:
        return None
    return json_value(list(key) if isinstance(key, tuple) else [key])


def _stopwatch(owner: Any) -> str | None:
    """The name of the function that the tuner measures with: Triton's or the program's own."""
    if getattr(owner, "use_cuda_graph", False):
        return "do_bench_cudagraph"
    function = vars(owner).get("do_bench") or vars(owner).get("_do_bench")
    name = getattr(function, "__qualname__", None)
    # With ``warmup`` or ``rep`` it is a lambda of Triton's own around do_bench.
    return "do_bench" if name is None or name.startswith("Autotuner.") else str(name)
