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
from contextlib import ExitStack, suppress
from typing import Any

from .. import hooks, private_names
from ..driver import subscriber
from ..writer import emit, problem
from . import lost_context
from .overlaps import shared_memory

# torch's allocator begins every block at a multiple of 512 bytes, and in the host's memory, where
# the emulated device's tensors are, of 64: the rest of an address is chance.
HOST_ALIGNMENT = 64
ALIGNMENT = HOST_ALIGNMENT if os.environ.get("PTXVIEW_TARGET") else 512
MAX_ARGUMENTS = 1024
MAX_TEXT_CHARACTERS = 200

Item = tuple[str, Any, Any]  # an argument's name, type and value
Described = dict[str, Any]


class Traced(Exception):
    """The arguments are a compiler's stand-ins: this is no call of the program."""


def sign(value: Any) -> Any:
    """A hashable that tells an argument apart at little cost and keeps no reference to it."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return tuple(shape)
    if isinstance(value, list | tuple):
        return tuple(map(sign, value))
    plain = value is None or isinstance(value, bool | int | float | str)
    return type(value), value if plain else None


def describe(items: Iterable[Item]) -> tuple[list[Described], list[tuple[Described, Any]]]:
    """Arguments as an event holds them, and each described tensor with the tensor itself."""
    out: list[Described] = []
    tensors: list[tuple[Described, Any]] = []
    for name, kind, value in items:
        _describe(out, tensors, name, kind, value)
    return out, tensors


class Description:
    """A call's grid and arguments; ``exact`` identifies it."""

    __slots__ = ("arguments", "exact", "grid", "shares", "tensors")

    def __init__(self, items: Iterable[Item], grid: Any) -> None:
        self.grid = grid
        self.arguments, self.tensors = describe(items)
        self.shares = shared_memory(self.tensors)
        self.exact = (grid, repr(self.arguments), repr(self.shares))


def _describe(
    out: list[Described], tensors: list[tuple[Described, Any]], name: str, kind: Any, value: Any
) -> None:
    if len(out) >= MAX_ARGUMENTS:
        return
    if isinstance(value, list | tuple):
        kinds = kind if isinstance(kind, list | tuple) else [None] * len(value)
        for index, element in enumerate(value):
            element_kind = kinds[index] if index < len(kinds) else None
            _describe(out, tensors, f"{name}[{index}]", element_kind, element)
        return
    description: Described = {"name": name, "type": None if kind is None else str(kind)}
    out.append(description)
    tensor = value if hasattr(value, "data_ptr") else getattr(value, "base", None)
    if hasattr(tensor, "data_ptr"):
        _layout(description, value, tensor)
        tensors.append((description, tensor))
        return
    plain = getattr(value, "value", value) if kind == "constexpr" else value
    if isinstance(plain, int) and not isinstance(plain, bool) and str(kind).startswith("*"):
        description["alignment"] = aligned(plain)  # a bare address, which says nothing elsewhere
    elif plain is None or isinstance(plain, bool | int | float):
        description["value"] = plain
    else:
        description["value"] = str(getattr(plain, "__name__", None) or plain)[:MAX_TEXT_CHARACTERS]
        description["python_type"] = type(plain).__name__


def _layout(description: Described, value: Any, tensor: Any) -> None:
    if any(k.__name__ in ("FakeTensor", "FunctionalTensor") for k in type(tensor).__mro__):
        raise Traced
    description["dtype"] = str(getattr(tensor, "dtype", "")).removeprefix("torch.") or None
    strides = getattr(value, "stride", None)
    most = ALIGNMENT if getattr(tensor, "is_cuda", True) else HOST_ALIGNMENT
    for field, read in (
        ("shape", lambda: [int(n) for n in value.shape]),
        ("strides", lambda: [int(n) for n in (strides() if callable(strides) else value.strides)]),
        ("alignment", lambda: aligned(int(tensor.data_ptr()), most)),
        ("device", lambda: str(tensor.device.type)),
    ):
        try:
            description[field] = read()
        except Exception:  # a tensor that has no storage, or a shape that is not of numbers
            description[field] = None


def aligned(address: int, most: int = ALIGNMENT) -> int | None:
    """The largest power of two, up to ``most`` bytes, that divides an address; None for null."""
    return min(address & -address, most) if address else None


def ranges(tensors: list[tuple[Described, Any]]) -> None:
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
    if not integer_tensors or not _may_wait(torch):
        return
    hiding = (
        private_names.get("torch.utils._python_dispatch:_disable_current_modes"),
        private_names.get("torch._C:DisableTorchFunction"),
    )
    for description, tensor in integer_tensors:
        # No operator for this dtype, or values that are absent.
        with suppress(Exception), ExitStack() as contexts:
            # Hidden from the program's torch modes and subclasses.
            for context in (*filter(None, hiding), torch.no_grad):
                contexts.enter_context(context())
            low, high = torch.aminmax(tensor.detach())
            description["low"], description["high"] = int(low.item()), int(high.item())


def _may_wait(torch: Any) -> bool:
    """Whether our own operator may run now: not in a profile, not in a CUDA graph's capture."""
    is_profiled = private_names.get("torch.autograd:_profiler_enabled")
    if is_profiled is None or is_profiled():
        return False
    cuda = torch.cuda
    waits = cuda.is_initialized()
    return not (waits and (cuda.is_current_stream_capturing() or cuda.get_sync_debug_mode()))


MAX_CALLS = 256
"""Distinct calls that are kept of one kernel, graph or function; the rest are counted together."""
MAX_KEYS = 4096
"""Keys that lead to them."""
MAX_FAILED_CALLS = 16
"""Distinct calls of one kernel, graph or function that raised, and are recorded as failed."""
MAX_ERROR_CHARACTERS = 2000
GROWN_CALLS = 8
"""Calls by which a count of more calls than that grows at least before it is looked at again."""
DESCRIBED_CALLS = 32
"""Calls of one kernel or graph whose arguments are all looked at; then only those of new keys."""
Entry = list[int]
"""A call's count; the count at which it is looked at again (``grown``); the call's number."""
_all: dict[tuple[str, str], Subject] = {}
_next = 0
epoch = 0
"""Changes when a recording or a forked child begins: subjects made before are not counted."""


tuning_depths: dict[int, int] = {}
"""How many benchmarks of an autotuner are under way in a thread, by its identifier; none is 0."""
_tuned_candidates: dict[int, int] = {}
"""The candidate whose benchmarks a thread's are, but of those that their own kernel tells of."""
_said: set[str] = hooks.per_recording(set())
_grown: dict[int, Entry] = {}
"""Entries to be written by ``grown``, by their calls' numbers."""
_lock = threading.RLock()


class Subject:
    """One thing that is called: a compiled kernel, a graph, a function of an extension.

    ``calls`` are its distinct calls, ``quick`` those after ``DESCRIBED_CALLS`` by grid and scalars
    alone, and ``described`` says how many calls were looked at in full so far. ``others`` are calls
    beyond MAX_CALLS and ``benchmarks`` launches by autotuning, each counted as one call;
    ``failures`` are the numbers of calls that raised.
    """

    __slots__ = (
        *("benchmarks", "calls", "described", "facts"),
        *("failures", "kind", "name", "others", "quick"),
    )

    def __init__(self, kind: str, name: str, facts: dict[str, Any]) -> None:
        self.kind, self.name, self.facts = kind, name, facts
        self.calls: dict[Any, Entry] = {}
        self.quick: dict[Any, Entry] = {}
        self.failures: set[int] = set()
        self.described = 0
        self.others: Entry = [0, 1, -1]
        self.benchmarks: Entry = [0, 1, -1]

    def known(self, key: Any) -> Entry | None:
        """The entry of an earlier call with this key; None if this call is to be described."""
        if self.described < DESCRIBED_CALLS:
            self.described += 1
            return None
        entry = self.quick.get(key)
        # A scalar that changes with every call makes every key new: no further one is described.
        return self.others if entry is None and len(self.calls) >= MAX_CALLS else entry

    def entry(self, key: Any, items: Iterable[Item], grid: Any = None) -> Entry:
        """The entry of a call that is not ``known``; raises Traced on a compiler's stand-ins."""
        try:
            call = Description(items, grid)
        except Traced:
            raise
        except Exception as error:
            where = f"a call of {self.name or 'a graph'}"
            if (kind := f"{where}:{type(error).__name__}") not in _said:
                _said.add(kind)
                problem(where, error)
            return self.others
        with _lock:
            entry = self.calls.get(call.exact)
            if entry is None and len(self.calls) >= MAX_CALLS:
                return self.others
            if entry is None:
                ranges(call.tensors)
                entry = self._new(call)
            if self.described >= DESCRIBED_CALLS:
                if len(self.quick) >= MAX_KEYS:
                    self.quick.clear()
                self.quick[key] = entry
            return entry

    def entry_of_failed(self, items: Iterable[Item], grid: Any) -> Entry | None:
        """The entry of a call that raised, by its own arguments; None for a further one."""
        try:
            call = Description(items, grid)
        except Traced:
            return None
        with _lock:
            entry = self.calls.get(call.exact)
            if entry is None and len(self.failures) < MAX_FAILED_CALLS:
                entry = self._new(call)
            return entry

    def failed(self, entry: Entry, error: BaseException) -> None:
        """Record that a call raised, once for each distinct call."""
        number = entry[2]
        if number < 0 or number in self.failures or not isinstance(error, Exception):
            return
        if len(self.failures) >= MAX_FAILED_CALLS:
            return
        self.failures.add(number)
        text = f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARACTERS]
        event = {"event": "calls", "counts": {number: entry[0]}, "failed": {number: text}}
        emit({**event, "final": False})

    def _new(self, call: Description) -> Entry:
        global _next
        entry = [0, 1, _next]
        _next += 1
        self.calls[call.exact] = entry
        emit(
            {
                "event": "call",
                "id": entry[2],
                "kind": self.kind,
                "name": self.name,
                "first": entry[2],
                "grid": call.grid,
                "arguments": call.arguments,
                "shares": call.shares,
                "final": False,
                **self.facts,
            }
        )
        return entry


def subject(kind: str, name: str, identity: str, facts: dict[str, Any]) -> Subject:
    """The subject with this ``identity``, created when it is first seen."""
    with _lock:
        entry = _all.get((kind, identity))
        if entry is None:
            entry = _all[kind, identity] = Subject(kind, name, {**facts, "subject": identity})
        return entry


def add(subject: Subject, entry: Entry, times: int = 1) -> None:
    """Add ``times`` calls to a count."""
    hooks.add_to(entry, times)
    if entry[0] >= entry[1]:
        grown(subject, entry)


def grown(subject: Subject, entry: Entry) -> None:
    """Write a count that has grown, or note it for the next write.

    Writing takes as long as several launches, and counts of a step's kernels grow together: a count
    from ``GROWN_CALLS`` on is noted when it has grown by a sixteenth, and written, with all that
    are noted, when it has grown by an eighth.
    """
    entry[1] = entry[0] + max(min(entry[0], GROWN_CALLS), entry[0] >> 4)
    if entry[2] < 0:
        emit({"event": "calls", "subjects": [_rest(subject)], "final": False})
    elif entry[0] > 1:  # the call's own event has counted the first
        with _lock:
            waits = entry[0] >= GROWN_CALLS and entry[2] not in _grown
            _grown[entry[2]] = entry
            counts = {} if waits else {number: grew[0] for number, grew in _grown.items()}
            if not waits:
                _grown.clear()
        if counts:
            emit({"event": "calls", "counts": counts, "final": False})


def _rest(subject: Subject) -> dict[str, Any]:
    return {
        "kind": subject.kind,
        "subject": subject.facts["subject"],
        "others": subject.others[0],
        "benchmarks": subject.benchmarks[0],
    }


def finish() -> None:
    """Write every count as it is when the process or the recording ends."""
    lost_context.look()
    subjects = list(_all.values())
    counts = {e[2]: e[0] for s in subjects for e in list(s.calls.values())}
    rest = [_rest(s) for s in subjects if s.others[0] or s.benchmarks[0]]
    if counts or rest:
        emit({"event": "calls", "counts": counts, "subjects": rest, "final": True})


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
    global epoch, _next
    epoch += 1
    _next = 0
    for known in _all.values():
        known.quick.clear()  # a launcher may hold it
    _all.clear()
    _grown.clear()
    lost_context.begin()
    tuning_depths.clear()
    _tuned_candidates.clear()
    subscriber.tuning(is_under_way=False)


os.register_at_fork(after_in_child=_child_begins)
