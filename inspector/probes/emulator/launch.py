"""Launches of compiled kernels: their PTX is run, or what they would write is made absent."""

import linecache
import math
import os
import re
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from . import assertions, current, executor, say, shim, writes
from .say import WAITING

Size = tuple[int, int, int]
Memory = tuple[int, int, str]
"""First address, end, and description: ``float32 [30]``."""


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel in PTX, of Triton or of CUDA C++."""

    text: str
    """The PTX."""
    entry: str
    """The kernel's name in it."""
    name: str
    """The kernel's name in messages."""
    grid: Size
    block: Size | None
    """Threads of a block; None for the kernel's own ``.reqntid``."""
    shared: int
    """Bytes of dynamic shared memory."""
    arguments: list[Any]
    """A value for each parameter: bytes, or a number."""
    memory: Callable[[], dict[str, Memory]]
    """Finds the memory that arguments point at, by the names of these arguments in errors."""
    host: frozenset[tuple[int, int]]
    """Pieces of the host's memory that the kernel may touch."""
    scratch: tuple[tuple[int, int], ...] = ()
    """Size and alignment of the buffers that Triton's kernels get behind their arguments."""
    cluster: Size | None = None
    """Blocks of a cluster; None is what the kernel says."""
    unit: str = "block"
    """``block`` or ``program``, in the language of the kernel."""
    file: str = ""
    """The kernel's source file."""
    obstacle: str = ""
    """Why the arguments cannot be passed on; empty if they can."""

    @property
    def blocks(self) -> Size:
        """The blocks of the grid, of which each program of Triton's is a cluster."""
        if self.unit != "program" or self.cluster is None:
            return self.grid
        x, y, z = self.grid
        return x * self.cluster[0], y, z

    def pointers(self) -> Iterator[tuple[int, int]]:
        """Each argument's position with its 64-bit words that are addresses of device memory."""
        for position, value in enumerate(self.arguments):
            data = value if isinstance(value, bytes) else b""
            if isinstance(value, int):
                data = struct.pack("<Q", value & 0xFFFF_FFFF_FFFF_FFFF)
            for (word,) in struct.iter_unpack("<Q", data[: len(data) // 8 * 8]):
                if word and shim.memory_around(word):
                    yield position, word


_LIBRARY = re.compile(r"/(?:triton|torch|numpy|nvidia|cuda[-\w.]*)/")
_OPCODE = re.compile(r"(?:@!?%?\w+\s+)?([a-z]\w*)")
_VERBS = {
    **dict.fromkeys(("ld", "ldu", "cp"), "reads"),
    **dict.fromkeys(("atom", "red"), "updates"),
    "st": "writes",
}
_ILLEGAL = "an illegal memory access was encountered"
# cudaGetErrorString of each cause.
_CUDA = {
    "out of bounds": _ILLEGAL,
    "null": _ILLEGAL,
    "read only": _ILLEGAL,
    "misaligned": "misaligned address",
    "trap": "unspecified launch failure",
    "tensor map": "an illegal instruction was encountered",
    "assertion": "device-side assert triggered",
}


class KernelFault(RuntimeError):
    """A kernel ended as it would on a GPU: a trap, an assertion, an illegal access; or never."""


class AbsentValue(Exception):
    """A kernel reads memory whose value is absent; the text is the reason."""


def error_of(
    fault: Any, call: Launch, number: int, listing: Any, kernel: Any, rerun: Callable[[Any], Any]
) -> Exception:
    """The exception that the program gets for the executor's ``fault`` in launch ``number``.

    ``rerun`` runs the block that failed once more, under an observer.
    """
    place = fault.place
    address = fault.address
    if fault.space == "global" and address is not None and (why := shim.absence_at(address)):
        return AbsentValue(why)
    who = f"{call.unit} {place.block or (0, 0, 0)}"
    if place.thread is not None:
        who += f", thread {place.thread}"
    model = assertions.model_lines() if fault.cause == "assertion" else []
    line = " or ".join(model[: assertions.MAX_MODEL_LINES])
    line = line or source(listing, place.line, call.file)
    location = f" (PTX line {place.line}: {place.statement.rstrip('; ')[:100]}"
    location += f"; {line})" if line else ")"
    if fault.cause in ("out of bounds", "null") and fault.space == "global":
        failure = _illegal_access(fault, call)
    elif model:
        failure = assertions.sentence(fault, listing, kernel, rerun)
    else:
        failure = fault.message.removeprefix(f"{place.kernel}: ").removesuffix(f" ({place})")
    text = (
        f"ptxview: {who} of launch {number} of {call.name}, grid {call.grid}, {failure}{location}"
    )
    cuda = _CUDA.get(fault.cause)
    return KernelFault(f"CUDA error: {cuda}\n{text}" if cuda else text)


def _illegal_access(fault: Any, call: Launch) -> str:
    """What an access outside of every tensor does, and which argument's memory is nearest."""
    match = _OPCODE.match(fault.place.statement)
    verb = _VERBS.get(match[1] if match else "", "touches")
    failure = f"{verb} {fault.nbytes} bytes at {fault.address:#x}, outside of every CUDA tensor"
    if fault.cause == "null":
        failure += ", a null pointer"
    elif memory := call.memory():
        failure += f": {_nearest(memory, fault.address, fault.nbytes)}"
    return failure


def memory_of(tensor: Any) -> Memory:
    """The memory that a tensor's elements span."""
    first = int(tensor.data_ptr())
    sides = zip(tensor.shape, tensor.stride(), strict=True)
    elements = 1 + sum((n - 1) * step for n, step in sides) if tensor.numel() else 0
    kind = str(tensor.dtype).removeprefix("torch.")
    end = first + elements * int(tensor.element_size())
    return first, end, f"{kind} {list(tensor.shape)}"


def _nearest(memory: dict[str, Memory], address: int, nbytes: int) -> str:
    """The nearest argument, and the distance of an access from it."""
    distances = {
        name: first - address if address < first else max(address - end, 0)
        for name, (first, end, _) in memory.items()
    }
    name = min(distances, key=lambda name: distances[name])
    first, end, kind = memory[name]
    if first <= address < end:
        distance = f"it reaches {address + nbytes - end} bytes past the end"
    else:
        side = "before the start" if address < first else "past the end"
        distance = f"{distances[name]} bytes {side}" if distances[name] else f"just {side}"
    return f"{distance} of {name}, {kind}, the nearest argument"


def source(listing: Any, line: int, file: str) -> str:
    """The program's source line of a line of PTX; empty if unknown."""
    if not 0 < line <= len(listing.lines):
        return ""
    location = listing.lines[line - 1].source
    if location is None:
        return ""
    frames = list(location.frames())  # the innermost first
    user_frame = next((frame for frame in frames if not _LIBRARY.search(frame.file)), frames[0])
    name = os.path.basename(user_frame.file)
    # Triton's cache may hold code that was compiled from a copy of the kernel's file elsewhere.
    text = linecache.getline(
        file if name == os.path.basename(file) else user_frame.file, user_frame.line
    )
    return f"{name}:{user_frame.line}: {text.strip()}"[:120]


LANES_A_SECOND = 100_000_000
"""Instructions of one lane in one second of ``--value-seconds``: about the rate of one idle core of
2024 at a kernel that fills the executor's chunks."""

_launches: dict[str, int] = {}
"""Launches of each kernel so far."""
_running = threading.RLock()


class NotRun(Exception):
    """A kernel was not run to its end: why, and under which key that is said, if it says all."""


def run(call: Launch, seconds: float) -> str:
    """Run a launch within as much work as fits into ``seconds``; return the text that it prints.

    Raises NotRun, AbsentValue, and KernelFault for the kernel's faults.
    """
    if call.obstacle:
        raise NotRun(call.obstacle)
    with _running:
        execute, listing, kernel = _load(call)
        _check_runnable(kernel, listing, call)
        missing = max(0, len(kernel.parameters) - len(call.arguments))
        memory = _present_memory(call.host)
        buffers = [
            memory.add(f"scratch {number}", _zeros(*size))
            for number, size in enumerate(call.scratch[:missing])
        ]
        arguments = [*call.arguments, *(b.address if b.size else 0 for b in buffers)]
        number = _launches[call.name] = _launches.get(call.name, 0) + 1
        budget = None if math.isinf(seconds) else int(seconds * LANES_A_SECOND)
        block = call.block or kernel.required_block
        execution = partial(
            execute.execute,
            kernel,
            call.blocks,
            block,
            arguments,
            memory=memory,
            shared=call.shared,
            cluster=call.cluster,
            budget=budget,
        )
        try:
            result = execution()
            BENCHMARKS.used(result.cost / LANES_A_SECOND)
            return "".join(result.printed)
        except (execute.CannotRun, execute.LaunchError) as error:
            raise NotRun(str(error)) from error
        except execute.OutOfBudget as error:
            BENCHMARKS.used(seconds)
            raise NotRun(
                f"the kernel {call.name} was not run to its end: its {math.prod(call.grid)} "
                f"{call.unit}s take about {error.work / LANES_A_SECOND:.2g} s of work or more, "
                f"more than the {seconds:g} s allowed; --values all, or more --value-seconds, "
                "computes it",
                "over-budget",
            ) from None
        except execute.Fault as fault:
            failed = [_number(fault.place.block or (0, 0, 0), call.blocks)]
            rerun = partial(execution, blocks=failed)
            raise error_of(
                fault, call, number, listing, kernel, lambda observer: rerun(observer=observer)
            ) from None
        except Exception as error:  # of the executor, for a kernel that the compiler accepted
            why = f"{type(error).__name__}: {error}"[:300]
            if memory.written:
                why = f"the kernel {call.name} was not run to its end ({why})"
            raise NotRun(why, "failed" if memory.written else "") from error
        finally:
            for part in buffers:
                memory.remove(part)


def _load(call: Launch) -> tuple[Any, Any, Any]:
    """The executor, and a launch's listing and kernel as the executor has them. Raises NotRun."""
    try:
        execute = executor.load("execute")
        listing = _module(call.text)[0]
        return execute, listing, _kernel(call.text, call.entry)
    except ImportError as error:
        raise NotRun(f"the executor of PTX cannot be loaded ({error})"[:300]) from error
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"[:300]
        raise NotRun(f"its PTX is not understood: {reason}") from error


def _number(block: Size, grid: Size) -> int:
    """The number of a block in its grid."""
    return block[0] + grid[0] * (block[1] + grid[1] * block[2])


def _zeros(size: int, align: int) -> Any:
    import numpy as np

    padded = np.zeros(size + align, np.uint8)
    skipped = -padded.ctypes.data % align
    return padded[skipped : skipped + size]


def _check_runnable(kernel: Any, listing: Any, call: Launch) -> None:
    """Raise NotRun for a kernel that the executor cannot run."""
    obstacles = kernel.cannot()
    if obstacles:
        first = obstacles[0]
        further_count = len(obstacles) - 1
        place = source(listing, first.line, call.file)
        raise NotRun(
            f"{first.opcode} in line {first.line} of its PTX: {first.reason}"
            + (f", and {further_count} more" if further_count else "")
            + (f"; {place}" if place else "")
        )


# -- a text's kernels and variables -------------------------------------------------------------


@cache
def _module(text: str) -> tuple[Any, Any]:
    """The lines of a PTX text, and its module."""
    listing = executor.load("parsers.ptx").parse_ptx(text)
    return listing, executor.load("parsers.ptx_code").read_module(listing)


@cache
def _kernel(text: str, entry: str) -> Any:
    """A kernel of a PTX text, whether or not it can be run."""
    return executor.load("execute").Program(_module(text)[1], entry)


def parameter_sizes(text: str, entry: str) -> list[int]:
    """Bytes of each of a kernel's parameters."""
    return [parameter.size for parameter in _module(text)[1].functions[entry].parameters]


def variables(text: str) -> dict[str, int]:
    """The addresses of a text's variables in global and constant memory."""
    entry = next(iter(_module(text)[1].entries), None)
    if entry is None:
        return {}
    with _running:
        kernel = _kernel(text, entry)
        memory = _present_memory(frozenset())
        kernel.addresses(memory)
        return dict(memory.modules[kernel.module_key])


# -- benchmarks ------------------------------------------------------------------------------------

BENCHMARK_SECONDS = 1.0
BENCHMARKS_SECONDS = 10.0
"""Work that one launch within a benchmark may take, and all of a program's together: nothing is
measured, and their results are seldom read."""


class Benchmarks:
    """Whether a benchmark runs, and the work that all of them may still take."""

    depth = 0
    remaining_seconds = BENCHMARKS_SECONDS

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count launches in the block, or in a decorated function, as a benchmark's."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def used(self, seconds: float) -> None:
        """Count the work of a launch."""
        if self.depth:
            self.remaining_seconds = max(0.0, self.remaining_seconds - seconds)

    def allowed_seconds(self, allowed: float) -> float:
        """The seconds that one launch may take now, at most ``allowed``."""
        if not self.depth or math.isinf(allowed):
            return allowed
        return min(allowed, BENCHMARK_SECONDS, self.remaining_seconds)


BENCHMARKS = Benchmarks()


# -- memory -------------------------------------------------------------------------------------


@cache
def _device_memory() -> Any:
    """The executor's memory, in which modules' own variables stay from launch to launch."""
    return executor.load("execute").Memory()


_pieces: dict[tuple[int, int], Any] = {}
"""Those of the device's and the host's memory that are in it."""


def _present_memory(host: frozenset[tuple[int, int]]) -> Any:
    """The memory as it is now: what is absent cannot be read, and so is not in it."""
    memory = _device_memory()
    present = {piece for piece in shim.memory() if not shim.absence_at(piece[0])} | host
    for piece in _pieces.keys() - present:
        memory.remove(_pieces.pop(piece))
    for first, end in present - _pieces.keys():
        _pieces[first, end] = memory.add_raw(f"{first:#x}", first, end - first)
    return memory


ABSENT_VARIABLES: dict[str, dict[str, str]] = {}
"""By PTX, the variables that a kernel may have written that was not run to its end, and why."""


def launch(call: Launch) -> None:
    """Run a launch, or make absent what it would have written; raises what ends it on a GPU."""
    pointers = list(call.pointers())
    absent = ABSENT_VARIABLES.get(call.text, {})
    reasons = [shim.absence_at(word) for _, word in pointers]
    if absent:
        reasons += [absent[name] for name in writes.used(call.text, call.entry, absent)]
    if why := next(filter(None, reasons), "") or _compute(call):
        _make_absent(call, pointers, why)


def _compute(call: Launch) -> str:
    """Run a launch and print what it prints; return why its values are absent, or an empty text."""
    name = call.name
    allowed = BENCHMARKS.allowed_seconds(current().seconds)
    if BENCHMARKS.depth and allowed <= 0:
        return (
            f"the kernel {name} was compiled and not run: the launches of this program's "
            f"benchmarks, which measure nothing here, took their {BENCHMARKS_SECONDS:g} s of "
            "work; --values all computes every one"
        )
    try:
        with WAITING.on("launches computed", name):
            printed = run(call, allowed)
        if printed:
            sys.stdout.write(printed)
        return ""
    except AbsentValue as absent:
        return str(absent)
    except NotRun as error:
        why, key = (*error.args, "")[:2]
        why = why if key else f"the PTX of {name} cannot be run here ({why})"
        if not (BENCHMARKS.depth and key == "over-budget"):
            say.once(f"{key or 'not-run'}:{name}", f"{why}; reading its outputs will raise")
        return why


def _make_absent(call: Launch, pointers: list[tuple[int, int]], why: str) -> None:
    """Make absent what the kernel may write, also behind addresses in the arguments' memory."""
    if not shim.loaded():
        # Nothing could make a later read of a plain CPU tensor raise: this launch does.
        raise RuntimeError(f"ptxview: {why}")
    written = writes.written(call.text, call.entry)
    names = [] if call.obstacle else writes.parameters(call.text, call.entry)
    starts: set[int] = set()
    for position, word in pointers:
        name = names[position] if position < len(names) else ""
        if not name or name in written.direct:
            starts.add(word)
        if loads := written.behind.get(name):
            if unknown := shim.absence_at(word):
                raise RuntimeError(
                    f"ptxview: {why}; where it would have written is not known, for it writes "
                    f"through addresses kept in a tensor whose value is absent: {unknown}"
                )
            starts |= writes.behind([word], loads)
    for start in starts:
        shim.mark_absent_at(start, why)
    variables = [name for name in writes.variables(call.text) if name in written.direct]
    ABSENT_VARIABLES.setdefault(call.text, {}).update(dict.fromkeys(variables, why))
