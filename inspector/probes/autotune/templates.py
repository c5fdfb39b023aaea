"""What max-autotune looks at for one operation: templates of Triton and CUTLASS, and ATen's own.

``AlgorithmSelectorCache`` is given the choices and gets a time for each, by measuring them or from
its table on disk; from torch 2.10 on all of it is in ``do_autotuning``, before in ``lookup``. Which
choice a kernel was generated from, with what was fused into it, is known when its code is written:
the graph's buffer has the function of the choice that writes it.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import threading
import time
import weakref
from functools import partial
from typing import Any

from .. import private_names
from ..calls import subjects
from ..hooks import Changed, observed, per_recording
from ..writer import emit
from . import inductor
from .trials import emulated, first_line, number

CODE = "torch._inductor.codegen.triton:TritonScheduling"
CACHE = "torch._inductor.select_algorithm:AlgorithmSelectorCache"
_now = threading.local()  # selection: the one under way in this thread
_asked: weakref.WeakKeyDictionary[Any, tuple[Any, dict[str, Any]]] = weakref.WeakKeyDictionary()
"""What each choice is given, and which node of which graph it is for: torch asks for times when
nobody says it any more."""
_writers: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()
"""The tuning and the place in it of the choice that each function writes the code of."""
_reasons: weakref.WeakKeyDictionary[Any, str] = per_recording(weakref.WeakKeyDictionary())
_watched: set[type] = set()
_SETTING = re.compile(r"(\w{1,64})=('[^']{0,200}'|\[[^\]]{0,200}\]|\([^)]{0,200}\)|[^,]{1,200})")
MOST_CHOICES = 2000
FIRST = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "num_warps", "num_stages")
"""Settings by which people tell templates apart, before all others."""


class Selection:
    """The choices for one operation, as torch gave them, and what came of each."""

    def __init__(self, name: Any, inputs: Any, choices: Any, asked: dict[str, Any]) -> None:
        self.number = number()
        self.asked = asked
        self.name, self.inputs = str(name), inputs
        self.choices = list(choices)[:MOST_CHOICES]
        self.key: str | None = None  # torch's own text of the inputs, where they are not known
        self.measured = False
        self.seconds: float | None = None
        self.timings: dict[Any, float] = {}


def attach(module: Any) -> None:
    """``torch._inductor.select_algorithm``; call it after all else that changes it."""
    for name in ("do_autotuning", "__call__"):
        private_names.wrap(f"{CACHE}.{name}", partial(_selecting, name), partial(_selected, name))
    private_names.wrap(f"{CACHE}.lookup", _looking, _looked_up, inherited=True)
    choice = private_names.get(f"{CACHE}.benchmark_choice")
    if choice is not None:
        # It is given its class first where it is a method of the class, not where it is static.
        place = list(inspect.signature(choice).parameters).index("choice")
        place += inspect.ismethod(choice)
        private_names.wrap(
            f"{CACHE}.benchmark_choice", partial(_given, place, "choice"), _not_measured
        )


def _given(place: int, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return kwargs[name] if name in kwargs else args[place]


def _selecting(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The selection that begins, and the one around it.

    ``__call__`` knows the inputs in every version; ``do_autotuning`` may come long after it.
    """
    _, operation, *rest = args
    earlier = getattr(_now, "selection", None)
    if earlier is not None and earlier.name == str(operation):
        selection = earlier  # the outer of the two has begun it
    else:
        selection = _begin(name, operation, rest, kwargs)
    _now.selection = selection
    return selection, earlier


def _selected(name: str, token: Any, result: Any, error: BaseException | None) -> None:
    selection, earlier = token
    _now.selection = earlier
    if name == "do_autotuning" and isinstance(result, dict):
        selection.timings.update(result)
    told_later = name == "__call__" and not selection.timings
    if selection is not earlier and not told_later:
        _tell(selection)


def _begin(name: str, operation: Any, args: Any, given: Any) -> Selection:
    # __call__(name, choices, input_nodes, …), do_autotuning(name, input_nodes, …, choices, …).
    if name == "__call__":
        choices = given.get("choices", args[0] if args else ())
        inputs = given.get("input_nodes", args[1] if len(args) > 1 else ())
    else:
        inputs = given.get("input_nodes", args[0] if args else ())
        choices = given.get("choices", args[4] if len(args) > 4 else ())
    known = None if name == "__call__" else _known(choices)
    asked = _node() if known is None else known[1]
    selection = Selection(operation, inputs, choices, asked)
    for choice in selection.choices:
        _watch(type(choice))
        _asked[choice] = inputs, asked
    return selection


def _known(choices: Any) -> tuple[Any, dict[str, Any]] | None:
    first = next(iter(choices), None)
    return None if first is None else _asked.get(first)


def _node() -> dict[str, Any]:
    """The node that is being lowered, and its graph as torch's trace names it."""
    try:
        from ..compiles import graph_nodes

        handlers = private_names.get("torch._inductor.virtualized:V")
        name = getattr(getattr(handlers.graph, "current_node", None), "name", None)
        node = name if isinstance(name, str) else None
        return {"node": node, "graph": graph_nodes.aot(), **graph_nodes.ids()}
    except Exception as error:
        subjects.failed("max-autotune's node", error)
        return {}


def _watch(owner: type) -> None:
    """Note why a choice of this class could not be compiled, which torch itself does not keep."""
    if owner in _watched:
        return
    _watched.add(owner)
    precompile = vars(owner).get("precompile")
    if callable(precompile):
        owner.precompile = observed(  # type: ignore[attr-defined]
            precompile, partial(_given, 0, "self"), _not_compiled
        )


def _not_compiled(choice: Any, result: Any, error: BaseException | None) -> None:
    if isinstance(error, Exception):
        _failed(choice, error, "failed")


def _not_measured(choice: Any, result: Any, error: BaseException | None) -> None:
    if isinstance(error, Exception):
        _failed(choice, error, "failed when it was measured")


def _failed(choice: Any, error: BaseException, how: str) -> None:
    # What cannot be compiled is compiled again when it is to be measured.
    _reasons.setdefault(choice, f"{how}: {first_line(error)}")


def _looking(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The selection whose choices are looked up, with the seconds that measuring takes counted."""
    if len(args) < 5 or args[4] is None:
        return None
    cache, choices, op, inputs, benchmark, *rest = args
    selection = getattr(_now, "selection", None)
    alone = selection is None
    if selection is None:
        # Until torch 2.8 what is chosen while graphs are scheduled comes here at once.
        selection = _alone(op, inputs, choices)
    measured = observed(benchmark, _measuring, partial(_measured, selection))
    return Changed((cache, choices, op, inputs, measured, *rest), kwargs, (selection, alone))


def _looked_up(token: Any, timings: Any, error: BaseException | None) -> None:
    if token is None or error is not None:
        return
    selection, alone = token
    if isinstance(timings, dict):
        selection.timings.update(timings)
    if alone:
        _tell(selection)


def _measuring(args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
    return time.perf_counter()


def _measured(selection: Selection, began: float, result: Any, error: BaseException | None) -> None:
    selection.measured = True
    selection.seconds = (selection.seconds or 0.0) + time.perf_counter() - began


def _alone(op: Any, inputs: Any, choices: Any) -> Selection:
    known = _known(choices)
    given, asked = ((), {}) if known is None else known
    selection = Selection(op, given, choices, asked)
    selection.key = str(inputs)[:1000] if known is None else None
    return selection


# -- telling --------------------------------------------------------------------------------------


def _tell(selection: Selection) -> None:
    if len(selection.choices) < 2:
        return
    configurations = []
    finite: list[tuple[float, int]] = []
    for index, choice in enumerate(selection.choices):
        timed = selection.timings.get(choice)
        writer = getattr(choice, "make_kernel_render", None)
        if callable(writer):
            _writers[writer] = selection.number, index
        known = None
        if isinstance(timed, int | float) and math.isfinite(timed) and not emulated():
            known = float(timed)
            finite.append((known, index))
        configurations.append(
            {
                "config": settings(choice),
                "hash": None,
                "file": _file(choice),
                "maker": maker(choice),
                "times_ms": None if known is None else [known],
                "reason": _reason(selection, choice, timed) if known is None else None,
            }
        )
    sizes = ", ".join("x".join(_sizes(node)) for node in selection.inputs)
    emit(
        {
            "event": "autotune",
            **selection.asked,
            "tuning": selection.number,
            "by": "inductor",
            "operation": selection.name,
            "name": f"{selection.name}({sizes})",
            "file": None,
            "key": _key(selection, sizes),
            "stopwatch": inductor.stopwatch() if finite else None,
            "method": "templates",
            "from_cache": bool(selection.timings) and not selection.measured and not emulated(),
            "seconds": None if emulated() else selection.seconds,
            "configurations": configurations,
            "winner": min(finite)[1] if finite else None,
        }
    )


def attach_code(module: Any) -> None:
    """``torch._inductor.codegen.triton``: it gives a kernel its name when its code is written, and
    measures what a fusion would give."""
    for name, before, after in (
        ("define_kernel", partial(_given, 2, "nodes"), _defined),
        ("benchmark_fused_nodes", _fusing, _fused),
        ("benchmark_codegened_module", _benchmarking, _benchmarked),
    ):
        private_names.wrap(f"{CODE}.{name}", before, after)


def attach_scheduler(module: Any) -> None:
    """``torch._inductor.scheduler``: it compiles a template with what could be fused into it."""
    nodes = partial(_given, 1, "nodes")
    private_names.wrap("torch._inductor.scheduler:Scheduler.compile_kernel", nodes, _compiled)


def _defined(nodes: Any, name: Any, error: BaseException | None) -> None:
    if error is None and _writers:
        _written(name, nodes)


def _written(name: Any, nodes: Any) -> None:
    chosen = _choice_of(nodes)
    if chosen is not None:
        tuning, index = chosen
        emit({"event": "written", "tuning": tuning, "configuration": index, "kernel": str(name)})


def _choice_of(nodes: Any) -> tuple[int, int] | None:
    """The tuning and the place in it of the choice that is now to write the nodes' code."""
    for node in nodes:
        buffer = getattr(node, "node", None)
        # Where it writes one kernel for each of several sizes, its own function is of none of them.
        several = len(getattr(buffer, "_make_kernel_renders", None) or ()) > 1
        writer = getattr(buffer, "make_kernel_render", None)
        if not several and callable(writer) and writer in _writers:
            return _writers[writer]
    return None


def _compiled(nodes: Any, result: Any, error: BaseException | None) -> None:
    module = result[1] if isinstance(result, tuple) and len(result) > 1 else None
    path = getattr(module, "__file__", None)
    if isinstance(path, str):
        _fusion(path, nodes)


def _fusing(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    outer = getattr(_now, "nodes", None)
    _now.nodes = _given(1, "nodes", args, kwargs)
    return outer


def _fused(outer: Any, result: Any, error: BaseException | None) -> None:
    _now.nodes = outer


def _benchmarking(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    nodes = getattr(_now, "nodes", None)
    path = getattr(_given(1, "module", args, kwargs), "__file__", None)
    if nodes is not None and isinstance(path, str):
        _fusion(path, nodes)
    return path


def _benchmarked(path: Any, result: Any, error: BaseException | None) -> None:
    if isinstance(path, str) and isinstance(result, tuple) and result:
        _fusion_time(path, result[0])


def _fusion(path: str, nodes: Any) -> None:
    """Tell what is compiled in a file of its own to be measured: operations in one kernel."""
    from ..compiles import graph_nodes

    names: dict[str, None] = {}
    for node in nodes:
        operation = getattr(node, "node", None)
        own = graph_nodes.origins_of(operation)
        names.update(dict.fromkeys([own["result"]] if own["result"] else own["origins"]))
    chosen = _choice_of(nodes)
    emit(
        {
            "event": "fusion_tried",
            "file": path,
            "nodes": list(names),
            "tuning": None if chosen is None else chosen[0],
            "configuration": None if chosen is None else chosen[1],
            "graph": graph_nodes.aot(),
            **graph_nodes.ids(),
        }
    )


def _fusion_time(path: str, ms: Any) -> None:
    known = isinstance(ms, int | float) and math.isfinite(ms) and not emulated()
    emit({"event": "fusion_time", "file": path, "ms": float(ms) if known else None})


def _key(selection: Selection, sizes: str) -> dict[str, Any]:
    if selection.key is not None:
        return {"inputs": selection.key}
    return {
        "sizes": sizes,
        "strides": ", ".join(str(_strides(node)) for node in selection.inputs),
        "dtypes": ", ".join(_dtype(node) for node in selection.inputs),
    }


def _reason(selection: Selection, choice: Any, timed: Any) -> str | None:
    if choice in _reasons:
        return _reasons[choice]
    if getattr(choice, "failed", False):
        return "failed: it could not be compiled"
    if isinstance(timed, float) and math.isinf(timed):
        return "failed when it was measured: torch gave it no time"
    if selection.timings and choice not in selection.timings:
        return "not measured: torch left it out"
    return None


def maker(choice: Any) -> str:
    """Whose code a choice is: Triton's template, CUTLASS's, ATen's own, or torch's class's name."""
    choice = getattr(choice, "_wrapped", choice)  # one whose inputs are changed first
    name = type(choice).__name__
    known = (("Triton", "Triton"), ("Extern", "ATen"), ("CUTLASS", "CUTLASS"), ("CUDA", "CUTLASS"),
             ("ROCm", "CK"), ("Cpp", "C++"), ("Subgraph", "subgraph"))  # fmt: skip
    return next((word for start, word in known if name.startswith(start)), name)


def settings(choice: Any) -> dict[str, Any]:
    """A choice's name, without its running number, and what torch says of it, as values."""
    name = str(getattr(choice, "name", type(choice).__name__))
    out: dict[str, Any] = {"choice": re.sub(r"_\d{1,9}$", "", name)}
    for key, text in _SETTING.findall(str(getattr(choice, "description", "") or "")[:4000]):
        try:
            value = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError):
            value = text.strip()
        out[key] = value if isinstance(value, bool | int | float | str) else text.strip()
    first = [name for name in ("choice", *FIRST) if name in out]
    return {name: out[name] for name in dict.fromkeys((*first, *out))}


def _file(choice: Any) -> str | None:
    """The file of the kernel that was compiled to be measured."""
    path = getattr(getattr(choice, "bmreq", None), "module_path", None)
    return path if isinstance(path, str) else None


def _sizes(node: Any) -> list[str]:
    try:
        return [str(size) for size in node.get_size()]
    except Exception:
        return ["?"]


def _strides(node: Any) -> list[Any]:
    try:
        return [int(s) if str(s).isdecimal() else str(s) for s in node.get_stride()]
    except Exception:
        return []


def _dtype(node: Any) -> str:
    try:
        return str(node.get_dtype()).removeprefix("torch.")
    except Exception:
        return "?"
