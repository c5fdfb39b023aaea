"""Records the configurations that Inductor's tuner tries for a kernel of torch.compile.

They are written when they are compiled, and again after every phase that measures them: all
against all, coordinate descent, or the parts of a combined kernel in turn.
"""

from __future__ import annotations

import ast
import base64
import itertools
import json
import math
import re
import threading
import time
import weakref
from contextlib import suppress
from types import FunctionType
from typing import Any

from .. import private_names
from ..calls import call_counts
from ..hooks import (
    Args,
    CallHook,
    Kwargs,
    ReplaceArguments,
    ReturnHook,
    argument,
    arguments,
    during,
    observed,
    per_recording,
)
from ..writer import emit
from .triton_tuner import Trial, config_of, emulated, first_line, numbers, trial_of, write

HEURISTICS = "torch._inductor.runtime.triton_heuristics"
_now = threading.local()  # file, hints: of the kernel whose configuration is looked for


def sizes(hints: Any) -> Any:
    """The sizes that Inductor tunes for, each the next power of two: by dimension."""
    if isinstance(hints, dict):
        return {str(name): _size(hint) for name, hint in hints.items()}
    return list(map(_size, hints)) if hints else None


def _size(hint: Any) -> int | str:
    """A size as it is recorded: one that is no number in words."""
    return hint if isinstance(hint, int) else str(hint)


def unpacked(key: Any) -> str | None:
    """Triton's hash in hex, from the name of its cache folder, which is the hash in base32."""
    if not isinstance(key, str):
        return None
    try:
        return base64.b32decode(key + "=" * (-len(key) % 8)).hex()
    except ValueError:
        return None


def _read(token: tuple[Any, Any, Any], best: Any, error: BaseException | None) -> None:
    """Record a tuning whose best configuration was in the cache."""
    if best is None:
        return
    cache, meta, configs = token
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
        tuning=next(numbers),
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
        self.number = next(numbers)
        self.trials: list[Trial] = []
        self.written_facts = 0  # how many facts the last event held
        self.depth = 0  # phases under way


def attach(module: Any) -> None:
    """``torch._inductor.runtime.triton_heuristics``; call it last of all that change it."""
    tuner = f"{HEURISTICS}:CachingAutotuner"
    for name, method in PHASES.items():
        private_names.wrap(f"{tuner}.{name}", *_phase(method))
    private_names.wrap(f"{tuner}.bench", arguments("self", "launcher"), _bench_ended)
    private_names.wrap(f"{tuner}.precompile", argument(0), _precompiled)
    private_names.wrap(f"{tuner}._precompile_config", arguments("self", "cfg"), _compiled)
    recheck = f"{tuner}.recheck_autotune_cache"
    private_names.wrap(recheck, *during(_now, "hints", lambda args, kwargs: args[0].size_hints))
    cached = during(_now, "hints", argument(0, "size_hints"))
    private_names.wrap(f"{HEURISTICS}:cached_autotune", *cached)

    def created(filename: Any, result: Any, error: BaseException | None) -> None:
        _now.file = filename

    private_names.wrap(f"{HEURISTICS}:AutotuneCache.create", argument(1, "filename"), created)
    call_arguments = arguments("self", "inductor_meta", "configs")
    private_names.wrap(f"{HEURISTICS}:AutotuneCache.read_best", call_arguments, _read)


def _tuning_of(tuner: Any) -> Tuning:
    tuning = _tunings.get(tuner)
    if tuning is None:
        tuning = _tunings[tuner] = Tuning()
    return tuning


# -- phases ---------------------------------------------------------------------------------------


def _phase(method: str | None) -> tuple[CallHook, ReturnHook]:
    """Hooks around a phase that measures by a method."""

    def on_call(args: Args, kwargs: Kwargs) -> tuple[Any, Tuning]:
        tuning = _tuning_of(args[0])
        tuning.depth += 1
        return args[0], tuning

    def on_return(phase: tuple[Any, Tuning], result: Any, error: BaseException | None) -> None:
        tuner, tuning = phase
        tuning.depth -= 1
        if tuning.depth:
            return
        # What a phase returns is a launcher, or (of the first) every launcher's time.
        best_launcher = result if hasattr(result, "config") else None
        if best_launcher is None and error is None and len(tuner.launchers) == 1:
            best_launcher = tuner.launchers[0]
        _write_tuning(tuner, tuning, best_launcher, method)

    return on_call, on_return


def _bench_ended(token: tuple[Any, Any], measured: Any, error: BaseException | None) -> None:
    if error is not None and not isinstance(error, Exception):
        return
    tuner, launcher = token
    trial = _trial(tuner, launcher)
    if error is None:
        trial.measured(measured, _reason(tuner, launcher))
    else:
        trial.times = None
        trial.reason = f"failed: {first_line(error)}"


def _reason(tuner: Any, launcher: Any) -> str:
    failure = (getattr(tuner, "benchmark_failure_reasons", None) or {}).get(launcher)
    spills = getattr(launcher, "n_spills", None)
    threshold = tuner.inductor_meta.get("spill_threshold", 16)
    generated = not getattr(tuner, "custom_kernel", False)
    spilling = generated and isinstance(spills, int) and spills > threshold
    if getattr(failure, "name", "") == "REGISTER_SPILLING" or (failure is None and spilling):
        return f"pruned: {spills} registers spill, more than Inductor's threshold of {threshold}"
    return "failed: the device refused the launch"


def _trial(tuner: Any, launcher: Any) -> Trial:
    """The trial of a launcher's configuration, with the hash of its binary."""
    trial = trial_of(_tuning_of(tuner).trials, config_of(launcher.config))
    trial.hash = unpacked(getattr(launcher, "cache_hash", None)) or trial.hash
    return trial


# -- compiling ------------------------------------------------------------------------------------


def _precompiled(tuner: Any, result: Any, error: BaseException | None) -> None:
    """Record the configurations that will be measured, if there are several."""
    # Until torch 2.6 what is only compiled ahead has None in the place of a launcher.
    launchers = [launcher for launcher in tuner.launchers or () if launcher is not None]
    if error is not None or len(launchers) < 2:
        return
    for launcher in launchers:
        _trial(tuner, launcher)
    _write_tuning(tuner, _tuning_of(tuner), None, None)


def _compiled(token: tuple[Any, Any], result: Any, error: BaseException | None) -> None:
    if isinstance(error, Exception):
        # Often in a process that only compiles, and never learns the results of the others.
        tuner, config = token
        dropped(_name(tuner), getattr(tuner, "filename", None), config, error)


def configured(config: Any, digest: Any) -> None:
    """Record a configuration with the hash of its binary: Inductor may change it later."""
    config_values = config_of(config)
    key = (str(digest), repr(config_values))
    if key not in _configured:
        _configured.add(key)
        emit(
            {"event": "configured", "by": "inductor", "hash": str(digest), "config": config_values}
        )


def dropped(name: Any, file: Any, config: Any, error: Exception, digest: Any = None) -> None:
    """Record a configuration that failed before it could be measured."""
    trial = Trial(config_of(config), f"failed: {first_line(error)}")
    trial.hash = None if digest is None else str(digest)
    about = {"by": "inductor", "name": name, "file": file, "configuration": trial.event()}
    emit({"event": "autotune_failed", **about})


def _name(tuner: Any) -> Any:
    return (tuner.inductor_meta or {}).get("kernel_name") or getattr(tuner.fn, "__name__", None)


# -- writing --------------------------------------------------------------------------------------


def _write_tuning(tuner: Any, tuning: Tuning, best_launcher: Any, method: str | None) -> None:
    known_facts = sum(1 + (t.times is not None) + (t.reason is not None) for t in tuning.trials)
    if not tuning.trials or known_facts == tuning.written_facts:
        return  # a phase that tried nothing
    tuning.written_facts = known_facts
    winner = None
    if best_launcher is not None and not emulated():
        trial = _trial(tuner, best_launcher)
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


CODE = "torch._inductor.codegen.triton:TritonScheduling"
CACHE = "torch._inductor.select_algorithm:AlgorithmSelectorCache"
_selecting_now = threading.local()  # selection: the one under way in this thread
_choice_origins: weakref.WeakKeyDictionary[Any, tuple[Any, dict[str, Any]]] = per_recording(
    weakref.WeakKeyDictionary()
)
"""What each choice is given, and which node of which graph it is for: torch asks for times when
nobody says it any more."""
_writers: weakref.WeakKeyDictionary[Any, tuple[int, int]] = per_recording(
    weakref.WeakKeyDictionary()
)
"""The tuning and the place in it of the choice that each function writes the code of."""
_candidates: weakref.WeakKeyDictionary[Any, int] = per_recording(weakref.WeakKeyDictionary())
candidate_numbers = itertools.count(1)
"""Number of a candidate's launches, unique in this process."""
_reasons: weakref.WeakKeyDictionary[Any, str] = per_recording(weakref.WeakKeyDictionary())
_watched: weakref.WeakSet[type] = weakref.WeakSet()
_SETTING = re.compile(r"(\w{1,64})=('[^']{0,200}'|\[[^\]]{0,200}\]|\([^)]{0,200}\)|[^,]{1,200})")
MAX_CHOICES = 2000
MAKERS = {
    "Triton": "Triton",
    "Extern": "ATen",
    "CUTLASS": "CUTLASS",
    "CUDA": "CUTLASS",
    "ROCm": "CK",
    "Cpp": "C++",
    "Subgraph": "subgraph",
}
"""Makers of a choice by the beginning of its class's name."""
LEADING_SETTINGS = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "num_warps", "num_stages")
"""Settings by which people tell templates apart, before all others."""


class Selection:
    """The choices for one operation, as torch gave them, and their results."""

    def __init__(
        self, name: Any, inputs: Any, choices: list[Any], graph_node: dict[str, Any]
    ) -> None:
        self.number = next(numbers)
        self.graph_node = graph_node
        self.name = str(name)
        self.inputs = inputs
        self.choices = choices[:MAX_CHOICES]
        self.key: str | None = None  # torch's own text of the inputs, where they are not known
        self.measured = False
        self.seconds: float | None = None
        self.timings: dict[Any, float] = {}


PARAMETERS = {
    "__call__": ("choices", "input_nodes"),
    "do_autotuning": ("input_nodes", "layout", "input_gen_fns", "inputs_key", "choices"),
}
"""Those of the functions that select, after the operation's name."""


def attach_selection(module: Any) -> None:
    """``torch._inductor.select_algorithm``; call it after all else that changes it."""
    for name in PARAMETERS:
        private_names.wrap(f"{CACHE}.{name}", *_selecting(name))
    private_names.wrap(f"{CACHE}.lookup", _before_lookup, _looked_up, inherited=True)
    failed = _fails("failed when it was measured")
    private_names.wrap(f"{CACHE}.benchmark_choice", _choice, failed)
    private_names.wrap(f"{CACHE}.benchmark_choice", _candidate_begins, _candidate_ends)


def _selecting(name: str) -> tuple[CallHook, ReturnHook]:
    """``__call__`` knows the inputs in every version; ``do_autotuning`` may come long after it."""

    def on_call(args: Args, kwargs: Kwargs) -> tuple[Selection, Selection | None]:
        operation = args[1] if len(args) > 1 else kwargs["name"]
        outer: Selection | None = getattr(_selecting_now, "selection", None)
        if outer is not None and outer.name == str(operation):
            selection = outer  # which the outer of the two functions has begun
        else:
            selection = _begin(name, operation, args[2:], kwargs)
        _selecting_now.selection = selection
        return selection, outer

    def on_return(
        token: tuple[Selection, Selection | None], result: Any, error: BaseException | None
    ) -> None:
        selection, _selecting_now.selection = token
        if name == "do_autotuning" and isinstance(result, dict):
            selection.timings.update(result)
        written_later = name == "__call__" and not selection.timings
        if selection is not _selecting_now.selection and not written_later:
            _write_selection(selection)

    return on_call, on_return


def _begin(name: str, operation: Any, args: Any, bound: Any) -> Selection:
    bound = {**dict(zip(PARAMETERS[name], args, strict=False)), **bound}
    choices = _listed(bound.get("choices"))
    inputs = bound.get("input_nodes", ())
    origin = None if name == "__call__" or not choices else _choice_origins.get(choices[0])
    graph_node = _node() if origin is None else origin[1]
    selection = Selection(operation, inputs, choices, graph_node)
    for choice in selection.choices:
        _watch(type(choice))
        _choice_origins[choice] = inputs, graph_node
    return selection


def _listed(choices: Any) -> list[Any]:
    """The choices; none where they are an iterator, which is torch's to read."""
    return list(choices) if isinstance(choices, list | tuple) else []


def _node() -> dict[str, Any]:
    """The node that is being lowered, and its graph as torch's trace names it."""
    from ..compiles import inductor_graphs

    handlers = private_names.get("torch._inductor.virtualized:V")
    name = getattr(getattr(handlers.graph, "current_node", None), "name", None)
    return {"node": name if isinstance(name, str) else None, **inductor_graphs.graph_ids()}


def _watch(owner: type) -> None:
    """Note why a choice of this class could not be compiled, which torch itself does not keep."""
    if owner in _watched:
        return
    _watched.add(owner)
    precompile = vars(owner).get("precompile")
    if isinstance(precompile, FunctionType):
        owner.precompile = observed(precompile, _choice, _fails("failed"))  # type: ignore[attr-defined]


def _choice(args: Args, kwargs: Kwargs) -> Any:
    """The choice that a method is called for, which may come after its class."""
    candidates = [arg for arg in args[:2] if not isinstance(arg, type)]
    return candidates[0] if candidates else kwargs["choice"]


def _candidate_begins(args: Args, kwargs: Kwargs) -> None:
    """Have launches of a library's kernels be this candidate's: several may launch one kernel."""
    choice = _choice(args, kwargs)
    if maker(choice) != "Triton":
        call_counts.compare_candidate(_candidates.setdefault(choice, next(candidate_numbers)))


def _candidate_ends(token: None, result: Any, error: BaseException | None) -> None:
    call_counts.compare_candidate(0)


def _fails(how: str) -> ReturnHook:
    """Return a hook that notes the first failure of a choice, compiling or measuring."""

    def on_return(choice: Any, result: Any, error: BaseException | None) -> None:
        if isinstance(error, Exception):
            _reasons.setdefault(choice, f"{how}: {first_line(error)}")

    return on_return


def _before_lookup(args: Args, kwargs: Kwargs) -> Any:
    """Have the time of torch's own measuring taken; None where it only asks its table."""
    bound = dict(zip(("self", "choices", "op", "inputs", "benchmark"), args, strict=False))
    bound.update(kwargs)
    benchmark = bound["benchmark"]
    if benchmark is None:
        return None
    selection = getattr(_selecting_now, "selection", None)
    alone = selection is None
    if selection is None:
        # Until torch 2.8 what is chosen while graphs are scheduled comes here at once.
        choices = _listed(bound["choices"])
        origin = _choice_origins.get(choices[0]) if choices else None
        inputs, graph_node = ((), {}) if origin is None else origin
        selection = Selection(bound["op"], inputs, choices, graph_node)
        selection.key = str(bound["inputs"])[:1000] if origin is None else None

    def took(began: float, result: Any, error: BaseException | None) -> None:
        selection.measured = True
        selection.seconds = (selection.seconds or 0.0) + time.perf_counter() - began

    timed = observed(benchmark, lambda args, kwargs: time.perf_counter(), took)
    if len(args) > 4:
        args = (*args[:4], timed, *args[5:])
    else:
        kwargs = {**kwargs, "benchmark": timed}
    return ReplaceArguments(args, kwargs, (selection, alone))


def _looked_up(
    token: tuple[Selection, bool] | None, timings: Any, error: BaseException | None
) -> None:
    if token is None or error is not None:
        return
    selection, alone = token
    if isinstance(timings, dict):
        selection.timings.update(timings)
    if alone:
        _write_selection(selection)


# -- writing --------------------------------------------------------------------------------------


def _write_selection(selection: Selection) -> None:
    if len(selection.choices) < 2:
        return
    times = [_milliseconds(selection.timings.get(choice)) for choice in selection.choices]
    finite = [(time, index) for index, time in enumerate(times) if time is not None]
    configurations = []
    for index, (choice, time_ms) in enumerate(zip(selection.choices, times, strict=True)):
        writer = getattr(choice, "make_kernel_render", None)
        if callable(writer):
            _writers[writer] = selection.number, index
        configurations.append(_configuration(selection, choice, time_ms))
    key = _input_key(selection)
    write(
        "inductor",
        f"{selection.name}({key['sizes']})",
        configurations,
        **selection.graph_node,
        tuning=selection.number,
        operation=selection.name,
        key=key if selection.key is None else {"inputs": selection.key},
        stopwatch=stopwatch() if finite else None,
        method="templates",
        from_cache=bool(selection.timings) and not selection.measured and not emulated(),
        seconds=None if emulated() else selection.seconds,
        winner=min(finite)[1] if finite else None,
    )


def _input_key(selection: Selection) -> dict[str, str]:
    """Sizes, strides and types of the inputs that the choices are measured with."""
    layouts = [_layout(node) for node in selection.inputs]
    return {
        "sizes": ", ".join("x".join(shape) for shape, _, _ in layouts),
        "strides": ", ".join(str(strides) for _, strides, _ in layouts),
        "dtypes": ", ".join(dtype for _, _, dtype in layouts),
    }


def _configuration(selection: Selection, choice: Any, time_ms: float | None) -> dict[str, Any]:
    """What a tuning's event says of one choice: its time, or why it has none."""
    return {
        "config": settings(choice),
        "hash": None,
        # The file of the kernel that was compiled to be measured.
        "file": getattr(getattr(choice, "bmreq", None), "module_path", None),
        "maker": maker(choice),
        "candidate": _candidates.get(choice),
        "times_ms": None if time_ms is None else [time_ms],
        "reason": _no_time(selection, choice) if time_ms is None else None,
    }


def attach_code(module: Any) -> None:
    """``torch._inductor.codegen.triton`` and ``.scheduler``: a kernel gets its name when its code
    is written, and what a fusion would give is compiled and measured."""

    def fusion_compiled(nodes: Any, result: Any, error: BaseException | None) -> None:
        if isinstance(result, tuple) and len(result) > 1:
            _fusion(result[1], nodes)

    def before_benchmark(args: Args, kwargs: Kwargs) -> str | None:
        compiled_module = args[1] if len(args) > 1 else kwargs["module"]
        return _fusion(compiled_module, getattr(_selecting_now, "nodes", None))

    def benchmarked(path: str | None, result: Any, error: BaseException | None) -> None:
        if path is not None and isinstance(result, tuple) and result:
            emit({"event": "fusion_time", "file": path, "ms": _milliseconds(result[0])})

    if module.__name__ == "torch._inductor.scheduler":
        name = "torch._inductor.scheduler:Scheduler.compile_kernel"
        private_names.wrap(name, argument(1, "nodes"), fusion_compiled)
        return
    private_names.wrap(f"{CODE}.define_kernel", argument(2, "node_schedule"), _written)
    nodes = during(_selecting_now, "nodes", argument(1, "nodes"))
    private_names.wrap(f"{CODE}.benchmark_fused_nodes", *nodes)
    private_names.wrap(f"{CODE}.benchmark_codegened_module", before_benchmark, benchmarked)


def _written(nodes: Any, name: Any, error: BaseException | None) -> None:
    choice = _choice_of(nodes) if _writers and error is None else None
    if choice is not None:
        tuning, index = choice
        emit({"event": "written", "tuning": tuning, "configuration": index, "kernel": str(name)})


def _choice_of(nodes: Any) -> tuple[int, int] | None:
    """The tuning and the place in it of the choice that is now to write the nodes' code."""
    for node in _listed(nodes):
        buffer = getattr(node, "node", None)
        # Where it writes one kernel for each of several sizes, its own function is of none of them.
        several = len(getattr(buffer, "_make_kernel_renders", None) or ()) > 1
        writer = getattr(buffer, "make_kernel_render", None)
        if not several and callable(writer) and writer in _writers:
            return _writers[writer]
    return None


def _milliseconds(measured: Any) -> float | None:
    is_valid = isinstance(measured, int | float) and math.isfinite(measured) and not emulated()
    return float(measured) if is_valid else None


def _fusion(module: Any, nodes: Any) -> str | None:
    """Record operations whose fusion is compiled into a module to measure it; the module's path."""
    from ..compiles import inductor_graphs

    path = getattr(module, "__file__", None)
    if not isinstance(path, str) or nodes is None:
        return path
    names: dict[str, None] = {}
    for node in _listed(nodes):
        origins = inductor_graphs.origins_of(getattr(node, "node", None))
        names.update(
            dict.fromkeys([origins["result"]] if origins["result"] else origins["origins"])
        )
    tuning, configuration = _choice_of(nodes) or (None, None)
    emit(
        {
            "event": "fusion_tried",
            "file": path,
            "nodes": list(names),
            "tuning": tuning,
            "configuration": configuration,
            **inductor_graphs.graph_ids(),
        }
    )
    return path


def _no_time(selection: Selection, choice: Any) -> str | None:
    if choice in _reasons or getattr(choice, "failed", False):
        return _reasons.get(choice, "failed: it could not be compiled")
    timed = selection.timings.get(choice)
    if isinstance(timed, float) and math.isinf(timed):
        return "failed when it was measured: torch gave it no time"
    if selection.timings and choice not in selection.timings:
        return "not measured: torch left it out"
    return None


def maker(choice: Any) -> str:
    """Whose code a choice is: Triton's template, CUTLASS's, ATen's own, or torch's class's name."""
    # One whose inputs are changed first is around another.
    name = type(getattr(choice, "_wrapped", choice)).__name__
    return next((word for start, word in MAKERS.items() if name.startswith(start)), name)


def settings(choice: Any) -> dict[str, Any]:
    """A choice's name, without its running number, and what torch says of it, as values."""
    name = str(getattr(choice, "name", type(choice).__name__))
    out: dict[str, Any] = {"choice": re.sub(r"_\d{1,9}$", "", name)}
    for key, text in _SETTING.findall(str(getattr(choice, "description", "") or "")[:4000]):
        out[key] = text.strip()
        with suppress(ValueError, SyntaxError):
            value = ast.literal_eval(text.strip())
            out[key] = value if isinstance(value, bool | int | float | str) else text.strip()
    first = [name for name in ("choice", *LEADING_SETTINGS) if name in out]
    return {name: out[name] for name in dict.fromkeys((*first, *out))}


def _layout(node: Any) -> tuple[list[str], list[Any], str]:
    """The sizes, strides and dtype of an input; Inductor has none of an input without a layout."""
    try:
        strides = [int(s) if str(s).isdecimal() else str(s) for s in node.get_stride()]
        dtype = str(node.get_dtype()).removeprefix("torch.")
        return [str(size) for size in node.get_size()], strides, dtype
    except Exception:
        return ["?"], [], "?"
