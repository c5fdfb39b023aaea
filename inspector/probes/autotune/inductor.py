"""Records the configurations that Inductor's tuner tries for a kernel of torch.compile.

They are written when they are compiled, and again after every phase that measures them: all
against all, coordinate descent, or the parts of a combined kernel in turn.
"""

from __future__ import annotations

import base64
import json
import threading
import weakref
from typing import TYPE_CHECKING, Any

from .. import private_names
from ..hooks import argument, arguments, during, per_recording
from ..writer import emit
from .trials import (
    Trial,
    config_of,
    emulated,
    first_line,
    infinite,
    number,
    times_of,
    trial_of,
    write,
)

if TYPE_CHECKING:
    from ..hooks import After, Args, Kwargs


HEURISTICS = "torch._inductor.runtime.triton_heuristics"
_now = threading.local()  # file, hints: of the kernel whose configuration is looked for


def attach_cached(module: Any) -> None:
    """``torch._inductor.runtime.triton_heuristics``: it looks configurations up."""
    recheck = f"{HEURISTICS}:CachingAutotuner.recheck_autotune_cache"
    private_names.wrap(recheck, *during(_now, "hints", lambda args, kwargs: args[0].size_hints))
    private_names.wrap(f"{HEURISTICS}:AutotuneCache.create", _before_create)
    private_names.wrap(
        f"{HEURISTICS}:AutotuneCache.read_best",
        arguments("self", "inductor_meta", "configs"),
        _read,
    )
    cached = during(_now, "hints", argument(0, "size_hints"))
    private_names.wrap(f"{HEURISTICS}:cached_autotune", *cached)


def sizes(hints: Any) -> Any:
    """The sizes that Inductor tunes for, each the next power of two: by dimension."""
    if isinstance(hints, dict):
        return {str(k): v if isinstance(v, int) else str(v) for k, v in hints.items()}
    return [v if isinstance(v, int) else str(v) for v in hints] if hints else None


def unpacked(key: Any) -> str | None:
    """Triton's hash in hex, from the name of its cache folder, which is the hash in base32."""
    if not isinstance(key, str):
        return None
    try:
        return base64.b32decode(key + "=" * (-len(key) % 8)).hex()
    except ValueError:
        return None


def _before_create(args: Args, kwargs: Kwargs) -> None:
    _now.file = args[1] if len(args) > 1 else kwargs.get("filename")


def _read(asked: tuple[Any, Any, Any], best: Any, error: BaseException | None) -> None:
    if best is not None:
        _cached(*asked, best)


def _cached(cache: Any, meta: Any, configs: Any, best: Any) -> None:
    stored: dict[str, Any] = {}
    try:
        with open(cache.local_cache[1], encoding="utf-8") as file:
            stored = json.load(file)
    except (OSError, TypeError, ValueError):
        pass  # the configuration came from a remote cache
    winner = Trial(config_of(best))
    winner.hash = unpacked(stored.get("triton_cache_hash"))
    trials = [Trial(config_of(c), "not measured: the best one was in the cache") for c in configs]
    index = next((n for n, t in enumerate(trials) if t.config == winner.config), len(trials))
    trials[index : index + 1] = [winner]
    write(
        "inductor",
        meta.get("kernel_name"),
        [trial.event() for trial in trials],
        tuning=number(),
        file=getattr(_now, "file", None),
        key=sizes(getattr(_now, "hints", None)),
        method="coordinate descent" if stored.get("found_by_coordesc") else None,
        from_cache=True,
        winner=index,
    )


_tunings: weakref.WeakKeyDictionary[Any, Tuning] = per_recording(weakref.WeakKeyDictionary())
_configured: set[tuple[str, str]] = per_recording(set())
PHASES = {
    "benchmark_all_configs": None,
    "autotune_to_one_config": None,
    "coordinate_descent_tuning": "coordinate descent",
    "_combo_sequential_autotune": "the combined kernel's parts in turn",
}


class Tuning:
    """The trials of one kernel's configurations so far; each event holds all of them."""

    def __init__(self) -> None:
        self.number = number()
        self.trials: list[Trial] = []
        self.told = 0  # how many facts the last event held
        self.depth = 0  # phases under way


def attach(module: Any) -> None:
    """``torch._inductor.runtime.triton_heuristics``; call it last of all that change it."""
    tuner = f"{HEURISTICS}:CachingAutotuner"
    for name, method in PHASES.items():
        private_names.wrap(f"{tuner}.{name}", _before_phase, _after_phase(method))
    private_names.wrap(f"{tuner}.bench", arguments("self", "launcher"), _measured)
    private_names.wrap(f"{tuner}.precompile", argument(0), _precompiled)
    private_names.wrap(f"{tuner}._precompile_config", arguments("self", "cfg"), _compiled)
    attach_cached(module)


def _of(tuner: Any) -> Tuning:
    tuning = _tunings.get(tuner)
    if tuning is None:
        tuning = _tunings[tuner] = Tuning()
    return tuning


# -- phases ---------------------------------------------------------------------------------------


def _before_phase(args: Args, kwargs: Kwargs) -> tuple[Any, Tuning]:
    tuning = _of(args[0])
    tuning.depth += 1
    return args[0], tuning


def _after_phase(method: str | None) -> After:
    def after(phase: tuple[Any, Tuning], result: Any, error: BaseException | None) -> None:
        tuner, tuning = phase
        tuning.depth -= 1
        if tuning.depth:
            return
        # What a phase returns is a launcher, or (of the first) every launcher's time.
        chosen = result if hasattr(result, "config") else None
        if chosen is None and error is None and len(tuner.launchers) == 1:
            chosen = tuner.launchers[0]
        _tell(tuner, tuning, chosen, method)

    return after


def _measured(asked: tuple[Any, Any], measured: Any, error: BaseException | None) -> None:
    if error is not None and not isinstance(error, Exception):
        return
    tuner, launcher = asked
    trial = trial_of(_of(tuner).trials, config_of(launcher.config))
    trial.hash = _hash(launcher) or trial.hash
    trial.times = None if error is not None else times_of(measured)
    trial.reason = None
    if error is not None:
        trial.reason = f"failed: {first_line(error)}"
    elif infinite(measured):
        trial.reason = _reason(tuner, launcher)


def _reason(tuner: Any, launcher: Any) -> str:
    failure = (getattr(tuner, "benchmark_failure_reasons", None) or {}).get(launcher)
    spills = getattr(launcher, "n_spills", None)
    threshold = tuner.inductor_meta.get("spill_threshold", 16)
    generated = not getattr(tuner, "custom_kernel", False)
    spilling = generated and isinstance(spills, int) and spills > threshold
    if getattr(failure, "name", "") == "REGISTER_SPILLING" or (failure is None and spilling):
        return f"pruned: {spills} registers spill, more than Inductor's threshold of {threshold}"
    return "failed: the device refused the launch"


def _hash(launcher: Any) -> str | None:
    return unpacked(getattr(launcher, "cache_hash", None))


# -- compiling ------------------------------------------------------------------------------------


def _precompiled(tuner: Any, result: Any, error: BaseException | None) -> None:
    if error is None:
        _candidates(tuner)


def _candidates(tuner: Any) -> None:
    """Record the configurations that will be measured, if there are several.

    Until torch 2.6 what is only compiled ahead has None in the place of a launcher.
    """
    launchers = [launcher for launcher in tuner.launchers if launcher is not None]
    if len(launchers) < 2:
        return
    tuning = _of(tuner)
    for launcher in launchers:
        trial = trial_of(tuning.trials, config_of(launcher.config))
        trial.hash = _hash(launcher) or trial.hash
    _tell(tuner, tuning, None, None)


def _compiled(asked: tuple[Any, Any], result: Any, error: BaseException | None) -> None:
    if isinstance(error, Exception):
        # Often in a process that only compiles, and never learns the results of the others.
        tuner, config = asked
        dropped(_name(tuner), getattr(tuner, "filename", None), config, first_line(error))


def configured(config: Any, digest: Any) -> None:
    """Record a configuration with the hash of its binary: Inductor may change it later."""
    plain = config_of(config)
    key = (str(digest), repr(plain))
    if key not in _configured:
        _configured.add(key)
        emit({"event": "configured", "by": "inductor", "hash": str(digest), "config": plain})


def dropped(name: Any, file: Any, config: Any, reason: str, digest: Any = None) -> None:
    """Record a configuration that failed before it could be measured."""
    emit(
        {
            "event": "autotune_failed",
            "by": "inductor",
            "name": name,
            "file": file,
            "configuration": {
                "config": config_of(config),
                "hash": None if digest is None else str(digest),
                "times_ms": None,
                "reason": f"failed: {reason}",
            },
        }
    )


def _name(tuner: Any) -> Any:
    return (tuner.inductor_meta or {}).get("kernel_name") or getattr(tuner.fn, "__name__", None)


# -- writing --------------------------------------------------------------------------------------


def _tell(tuner: Any, tuning: Tuning, chosen: Any, method: str | None) -> None:
    known_facts = sum(1 + (t.times is not None) + (t.reason is not None) for t in tuning.trials)
    if not tuning.trials or known_facts == tuning.told:
        return  # a phase that tried nothing
    tuning.told = known_facts
    winner = None
    if chosen is not None and not emulated():
        trial = trial_of(tuning.trials, config_of(chosen.config))
        trial.hash = trial.hash or _hash(chosen)
        winner = tuning.trials.index(trial) if trial.reason is None else None
    write(
        "inductor",
        _name(tuner),
        [trial.event() for trial in tuning.trials],
        tuning=tuning.number,
        file=getattr(tuner, "filename", None),
        key=sizes(getattr(tuner, "size_hints", None)),
        stopwatch=stopwatch() if any(t.times for t in tuning.trials) else None,
        method=method,
        winner=winner,
    )


def stopwatch() -> str | None:
    """What Inductor measures with."""
    benchmarker = private_names.get("torch._inductor.runtime.benchmarking:benchmarker")
    return None if benchmarker is None else type(benchmarker).__name__
