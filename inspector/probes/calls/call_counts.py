"""Calls of this process: each distinct one recorded when first seen, and counted.

A call is identified by its grid, by shape, strides, dtype, alignment and value of its arguments,
and by which of them share memory. It becomes an event when it is first seen, before it runs: a
launch after which the process or its context is lost is on disk. Counts follow while they grow and
when the process ends. After ``DESCRIBED_CALLS`` calls of a kernel or graph, calls whose grid and
scalars were seen before count as the last call that had them; a call that raises is described all
the same. No tensor is kept alive, and the device is waited for only where the range of an integer
tensor is taken, once for a distinct call and never without leave (``PTXVIEW_RANGES``).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from .. import hooks, private_names
from ..driver import subscriber
from ..hooks import CallCounter
from ..writer import emit, problem
from . import lost_context, tensor_contents
from .overlaps import shared_memory

# torch's allocator begins every block at a multiple of 512 bytes, and in the host's memory, where
# the emulated device's tensors are, of 64: the rest of an address is chance.
HOST_ALIGNMENT = 64
ALIGNMENT = HOST_ALIGNMENT if os.environ.get("PTXVIEW_TARGET") else 512
MAX_ARGUMENTS = 1024
MAX_TEXT_CHARACTERS = 200

Argument = tuple[str, Any, Any]  # an argument's name, type and value
ArgumentRecord = dict[str, Any]


class CompilerTracing(Exception):
    """The arguments are a compiler's stand-ins: this is no call of the program."""


def sign(value: Any) -> Any:
    """A hashable that tells an argument apart at little cost and keeps no reference to it."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return tuple(shape)
    if isinstance(value, list | tuple):
        return tuple(map(sign, value))
    is_plain = value is None or isinstance(value, bool | int | float | str)
    return type(value), value if is_plain else None


def describe(
    items: Iterable[Argument],
) -> tuple[list[ArgumentRecord], list[tuple[ArgumentRecord, Any]]]:
    """Arguments as an event holds them, and each described tensor with the tensor itself."""
    out: list[ArgumentRecord] = []
    tensors: list[tuple[ArgumentRecord, Any]] = []
    for name, kind, value in items:
        _describe(out, tensors, name, kind, value)
    return out, tensors


class Description:
    """A call's grid and arguments; ``exact`` identifies it."""

    __slots__ = ("arguments", "exact", "grid", "shares", "tensors")

    def __init__(self, items: Iterable[Argument], grid: Any) -> None:
        self.grid = grid
        self.arguments, self.tensors = describe(items)
        self.shares = shared_memory(self.tensors)
        self.exact = (grid, repr(self.arguments), repr(self.shares))


def _describe(
    out: list[ArgumentRecord],
    tensors: list[tuple[ArgumentRecord, Any]],
    name: str,
    kind: Any,
    value: Any,
) -> None:
    if len(out) >= MAX_ARGUMENTS:
        return
    if isinstance(value, list | tuple):
        kinds = kind if isinstance(kind, list | tuple) else [None] * len(value)
        for index, element in enumerate(value):
            element_kind = kinds[index] if index < len(kinds) else None
            _describe(out, tensors, f"{name}[{index}]", element_kind, element)
        return
    description: ArgumentRecord = {"name": name, "type": None if kind is None else str(kind)}
    out.append(description)
    tensor = value if hasattr(value, "data_ptr") else getattr(value, "base", None)
    if hasattr(tensor, "data_ptr"):
        _layout(description, value, tensor)
        tensors.append((description, tensor))
        return
    scalar = getattr(value, "value", value) if kind == "constexpr" else value
    if isinstance(scalar, int) and not isinstance(scalar, bool) and str(kind).startswith("*"):
        description["alignment"] = aligned(scalar)  # a bare address, which says nothing elsewhere
    elif scalar is None or isinstance(scalar, bool | int | float):
        description["value"] = scalar
    else:
        description["value"] = str(getattr(scalar, "__name__", None) or scalar)[
            :MAX_TEXT_CHARACTERS
        ]
        description["python_type"] = type(scalar).__name__


def _layout(description: ArgumentRecord, value: Any, tensor: Any) -> None:
    if any(k.__name__ in ("FakeTensor", "FunctionalTensor") for k in type(tensor).__mro__):
        raise CompilerTracing
    description["dtype"] = str(getattr(tensor, "dtype", "")).removeprefix("torch.") or None
    max_alignment = ALIGNMENT if getattr(tensor, "is_cuda", True) else HOST_ALIGNMENT
    for field, read in (
        ("shape", lambda: [int(n) for n in value.shape]),
        ("strides", lambda: _strides(value)),
        ("alignment", lambda: aligned(int(tensor.data_ptr()), max_alignment)),
        ("device", lambda: str(tensor.device.type)),
    ):
        try:
            description[field] = read()
        except Exception:  # a tensor that has no storage, or a shape that is not of numbers
            description[field] = None


def _strides(value: Any) -> list[int]:
    """The steps of a tensor of torch's, or of an object with ``strides``."""
    stride = getattr(value, "stride", None)
    steps = stride() if callable(stride) else value.strides
    return [int(step) for step in steps]


def aligned(address: int, max_alignment: int = ALIGNMENT) -> int | None:
    """The largest power of two, up to ``max_alignment``, that divides an address; None for null."""
    return min(address & -address, max_alignment) if address else None


def ranges(tensors: list[tuple[ArgumentRecord, Any]]) -> None:
    """Fill in the range of each integer tensor; waits for the device, so once for a call."""
    torch: Any = sys.modules.get("torch")
    if torch is None or os.environ.get("PTXVIEW_RANGES") == "0":
        return
    integer_tensors = [
        (description, tensor)
        for description, tensor in tensors
        if isinstance(tensor, torch.Tensor)
        and tensor.numel()
        and not (tensor.dtype.is_floating_point or tensor.dtype.is_complex)
        and tensor.dtype != torch.bool
    ]
    if not integer_tensors or not tensor_contents.may_wait(torch):
        return
    for description, tensor in integer_tensors:
        # No operator for this dtype, or values that are absent.
        with suppress(Exception), tensor_contents.hidden(torch):
            low, high = torch.aminmax(tensor.detach())
            lowest = int(low.item())
            highest = int(high.item())
            description["low"] = lowest
            description["high"] = highest


MAX_CALLS = 256
"""Distinct calls that are kept of one kernel, graph or function; the rest are counted together."""
MAX_KEYS = 4096
"""Keys that lead to them."""
MAX_FAILED_CALLS = 16
"""Distinct calls of one kernel, graph or function that raised, and are recorded as failed."""
MAX_BENCHMARK_GRIDS = 64
"""Grids with which an autotuner launched one kernel that are kept."""
MAX_ERROR_CHARACTERS = 2000
MIN_GROWTH_CALLS = 8
"""Calls by which a count of more calls than that grows at least before it is looked at again."""
DESCRIBED_CALLS = 32
"""Calls of one kernel or graph whose arguments are all looked at; then only those of new keys."""
_targets: dict[tuple[str, str], CallTarget] = {}
_next_number = 0
epoch = 0
"""Changes when a recording or a forked child begins: call targets made before are not counted."""


tuning_depths: dict[int, int] = {}
"""How many benchmarks of an autotuner are under way in a thread, by its identifier; none is 0."""
_tuned_candidates: dict[int, int] = {}
"""The candidate that a thread benchmarks, unless the benchmark's kernel says it."""
_reported_problems: set[str] = hooks.per_recording(set())
_unflushed: dict[int, CallCounter] = {}
"""Counters to be written by ``flush_count``, by their calls' numbers."""
_lock = threading.RLock()


class CallTarget:
    """What is called: a compiled kernel, a graph, a function of an extension.

    ``calls`` are its distinct calls, ``quick`` those after ``DESCRIBED_CALLS`` by grid and scalars
    alone, and ``described`` says how many calls were looked at in full so far. ``others`` are calls
    beyond MAX_CALLS and ``benchmarks`` launches by autotuning, each counted as one call;
    ``benchmark_grids`` are the latter's, in the order in which each was first seen; ``failures``
    are the numbers of calls that raised.
    """

    __slots__ = (
        *("benchmark_grids", "benchmarks", "calls", "described", "facts"),
        *("failures", "kind", "name", "others", "quick"),
    )

    def __init__(self, kind: str, name: str, facts: dict[str, Any]) -> None:
        self.kind = kind
        self.name = name
        self.facts = facts
        self.calls: dict[Any, CallCounter] = {}
        self.quick: dict[Any, CallCounter] = {}
        self.failures: set[int] = set()
        self.described = 0
        self.others: CallCounter = CallCounter(-1)
        self.benchmarks: CallCounter = CallCounter(-1)
        self.benchmark_grids: list[list[int]] = []

    def benchmark(self, grid: tuple[Any, ...]) -> CallCounter:
        """The counter of a launch by autotuning, whose grid is kept."""
        sizes = [int(size) for size in grid]
        if sizes not in self.benchmark_grids and len(self.benchmark_grids) < MAX_BENCHMARK_GRIDS:
            self.benchmark_grids.append(sizes)
        return self.benchmarks

    def lookup(self, key: Any) -> CallCounter | None:
        """The counter of an earlier call with this key; None if this call is to be described."""
        if self.described < DESCRIBED_CALLS:
            self.described += 1
            return None
        entry = self.quick.get(key)
        # A scalar that changes with every call makes every key new: no further one is described.
        return self.others if entry is None and len(self.calls) >= MAX_CALLS else entry

    def add_call(
        self, key: Any, items: Iterable[Argument], grid: Any = None, **facts: Any
    ) -> CallCounter:
        """Describe a call that ``lookup`` lacks; its counter. Raises CompilerTracing."""
        try:
            call = Description(items, grid)
        except CompilerTracing:
            raise
        except Exception as error:
            call_name = f"a call of {self.name or 'a graph'}"
            if (kind := f"{call_name}:{type(error).__name__}") not in _reported_problems:
                _reported_problems.add(kind)
                problem(call_name, error)
            return self.others
        with _lock:
            counter = self.calls.get(call.exact)
            if counter is None and len(self.calls) >= MAX_CALLS:
                return self.others
            if counter is None:
                ranges(call.tensors)
                if not self.calls and self.kind in ("triton", "graph"):
                    tensor_contents.keep_inputs(call.tensors)
                counter = self._new(call, facts)
            if self.described >= DESCRIBED_CALLS:
                if len(self.quick) >= MAX_KEYS:
                    self.quick.clear()
                self.quick[key] = counter
            return counter

    def add_failed_call(self, items: Iterable[Argument], grid: Any) -> CallCounter | None:
        """The counter of a call that raised, by its own arguments; None for a further one."""
        try:
            call = Description(items, grid)
        except CompilerTracing:
            return None
        with _lock:
            counter = self.calls.get(call.exact)
            if counter is None and len(self.failures) < MAX_FAILED_CALLS:
                counter = self._new(call, {})
            return counter

    def failed(self, counter: CallCounter, error: BaseException) -> None:
        """Record that a call raised, once for each distinct call."""
        number = counter.number
        if number < 0 or number in self.failures or not isinstance(error, Exception):
            return
        if len(self.failures) >= MAX_FAILED_CALLS:
            return
        self.failures.add(number)
        text = f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARACTERS]
        event = {"event": "calls", "counts": {number: counter.count}, "failed": {number: text}}
        emit({**event, "final": False})

    def _new(self, call: Description, facts: dict[str, Any]) -> CallCounter:
        global _next_number
        counter = CallCounter(_next_number)
        _next_number += 1
        self.calls[call.exact] = counter
        emit(
            {
                "event": "call",
                "id": counter.number,
                "kind": self.kind,
                "name": self.name,
                "first": counter.number,
                "grid": call.grid,
                "arguments": call.arguments,
                "shares": call.shares,
                "final": False,
                **self.facts,
                **facts,
            }
        )
        return counter


def call_target(kind: str, name: str, identity: str, facts: dict[str, Any]) -> CallTarget:
    """The call target with this ``identity``, created when it is first seen."""
    with _lock:
        target = _targets.get((kind, identity))
        if target is None:
            target = _targets[kind, identity] = CallTarget(
                kind, name, {**facts, "subject": identity}
            )
        return target


def add(target: CallTarget, counter: CallCounter, times: int = 1) -> None:
    """Add ``times`` calls to a count."""
    hooks.add_calls(counter, times)
    if counter.count >= counter.flush_at:
        flush_count(target, counter)


def flush_count(target: CallTarget, counter: CallCounter) -> None:
    """Write a count that has grown, or note it for the next write.

    Writing takes as long as several launches, and counts of a step's kernels grow together: a count
    from ``MIN_GROWTH_CALLS`` on is noted when it has grown by a sixteenth, and written, with all
    that are noted, when it has grown by an eighth.
    """
    counter.flush_at = counter.count + max(min(counter.count, MIN_GROWTH_CALLS), counter.count >> 4)
    if counter.number < 0:
        emit({"event": "calls", "subjects": [_totals_of(target)], "final": False})
    elif counter.count > 1:  # the call's own event has counted the first
        with _lock:
            waits = counter.count >= MIN_GROWTH_CALLS and counter.number not in _unflushed
            _unflushed[counter.number] = counter
            counts = (
                {} if waits else {number: waiting.count for number, waiting in _unflushed.items()}
            )
            if not waits:
                _unflushed.clear()
        if counts:
            emit({"event": "calls", "counts": counts, "final": False})


def _totals_of(target: CallTarget) -> dict[str, Any]:
    return {
        "kind": target.kind,
        "subject": target.facts["subject"],
        "others": target.others.count,
        "benchmarks": target.benchmarks.count,
        "benchmark_grids": target.benchmark_grids,
    }


def finish() -> None:
    """Write every count as it is when the process or the recording ends."""
    lost_context.look()
    targets = list(_targets.values())
    counts = {c.number: c.count for t in targets for c in list(t.calls.values())}
    totals = [_totals_of(t) for t in targets if t.others.count or t.benchmarks.count]
    if counts or totals:
        emit({"event": "calls", "counts": counts, "subjects": totals, "final": True})


# -- autotuning -----------------------------------------------------------------------------


def is_tuning() -> bool:
    """Whether this thread's launches are an autotuner's."""
    return bool(tuning_depths) and threading.get_ident() in tuning_depths


def _begin_comparing(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    thread = threading.get_ident()
    tuning_depths[thread] = tuning_depths.get(thread, 0) + 1
    _tell_driver()
    return epoch


def _end_comparing(begun: int, result: Any, error: BaseException | None) -> None:
    thread = threading.get_ident()
    depth = tuning_depths.get(thread, 0)
    if begun == epoch:  # else it was reset to 0
        depth -= 1
    if depth > 0:
        tuning_depths[thread] = depth
    else:
        tuning_depths.pop(thread, None)
    _tell_driver()


def compare_candidate(number: int) -> None:
    """Have what benchmarks of this thread launch be a candidate's, by its number; 0: of none."""
    thread = threading.get_ident()
    if number:
        _tuned_candidates[thread] = number
    else:
        _tuned_candidates.pop(thread, None)
    _tell_driver()


def _tell_driver() -> None:
    thread = threading.get_ident()
    candidate = _tuned_candidates.get(thread, 0)
    subscriber.tuning(is_under_way=thread in tuning_depths, candidate=candidate)


BENCHMARKS = {
    "triton.runtime.autotuner": ("Autotuner._bench",),
    "torch._inductor.runtime.triton_heuristics": ("CachingAutotuner.bench",),
    # What is launched while a graph is compiled is a comparison.
    "torch._inductor.graph": (
        *("GraphLowering.run", "GraphLowering.codegen", "GraphLowering.compile_to_module"),
    ),
}
"""Private names of methods whose launches are autotuning's, by module."""


def attach(module: Any) -> None:
    """Count what is launched in one of ``BENCHMARKS`` as autotuning's."""
    for name in BENCHMARKS[module.__name__]:
        private_names.wrap(f"{module.__name__}:{name}", _begin_comparing, _end_comparing)


def comparing(original: Any) -> Any:
    """A function whose launches count as autotuning's."""
    return hooks.observed(original, _begin_comparing, _end_comparing)


# -- processes ------------------------------------------------------------------------------


@hooks.guarded
def _child_begins() -> None:
    """A forked child counts its own; a thread that held the lock never gives it back there."""
    global _lock
    _lock = threading.RLock()
    begin()
    hooks.at_end_of_child(finish, "counts")


@hooks.at_new_recording
def begin() -> None:
    """Count from zero: another recording or a forked child begins."""
    global epoch, _next_number
    epoch += 1
    _next_number = 0
    for target in _targets.values():
        target.quick.clear()  # a launcher may hold it
    _targets.clear()
    _unflushed.clear()
    lost_context.begin()
    tuning_depths.clear()
    _tuned_candidates.clear()
    subscriber.tuning(is_under_way=False)


os.register_at_fork(after_in_child=_child_begins)
