"""Run the PTX of one launch on the tensors' own memory.

The executor runs all threads of many blocks at once and reads and writes the tensors in place, so
pointers keep their values. It knows every piece of device memory whose value is present; an access
to any other address is a fault, as on a GPU.
"""

from __future__ import annotations

import math
import re
import threading
from typing import Any

from . import executor, native
from .faults import error_of, source
from .kernel_launch import Launch
from .tuning import BENCHMARKS

LANES_A_SECOND = 100_000_000
"""Instructions of one lane in one second of ``--value-seconds``: about the rate of one idle core of
2024 at a kernel that fills the executor's chunks."""

_CLUSTER = re.compile(r"\.reqnctapercluster\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")

_kernels: dict[tuple[str, str], Any] = {}
_modules: dict[str, tuple[Any, Any]] = {}
_launches: dict[str, int] = {}
"""Launches of each kernel so far."""
_running = threading.RLock()


class NotExecutable(Exception):
    """The executor cannot run this kernel, and has written nothing; the text gives the reason."""


class Failed(Exception):
    """The executor failed within the kernel: what was written is not known."""


class OverBudget(Exception):
    """The launch would take more work than it may; ``seconds``: for all of it, at least."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


def run(call: Launch, seconds: float) -> tuple[str, ...]:
    """Run a launch within as much work as fits into ``seconds``; return the text that it prints.

    Raises NotExecutable, Failed, OverBudget, AbsentValue, and KernelFault for the kernel's faults.
    """
    if call.obstacle:
        raise NotExecutable(call.obstacle)
    execute = _executor()
    with _running:
        kernel, listing = _program(call)
        missing = len(kernel.parameters) - len(call.arguments)
        if not 0 <= missing <= len(call.scratch):
            raise NotExecutable(
                f"its PTX has {len(kernel.parameters)} parameters, and the launch gives "
                f"{len(call.arguments)}"
            )
        memory = _MEMORY.now(execute, call.host)
        buffers = [
            memory.add(f"scratch {number}", _zeros(*size))
            for number, size in enumerate(call.scratch[:missing])
        ]
        arguments = [*call.arguments, *(b.address if b.size else 0 for b in buffers)]
        number = _launches[call.name] = _launches.get(call.name, 0) + 1
        try:
            done = execute.execute(
                kernel,
                call.grid,
                call.block or kernel.required_block,
                arguments,
                memory=memory,
                shared=call.shared,
                budget=None if math.isinf(seconds) else int(seconds * LANES_A_SECOND),
            )
            BENCHMARKS.used(done.cost / LANES_A_SECOND)
            return tuple(done.printed)
        except (execute.CannotRun, execute.LaunchError) as error:
            raise NotExecutable(str(error)) from error
        except execute.OutOfBudget as error:
            BENCHMARKS.used(seconds)
            raise OverBudget(error.work / LANES_A_SECOND) from None
        except execute.Fault as fault:
            raise error_of(fault, call, listing, number) from None
        except Exception as error:  # of the executor, for a kernel that the compiler accepted
            kind = Failed if memory.written else NotExecutable
            raise kind(f"{type(error).__name__}: {error}"[:300]) from error
        finally:
            for part in buffers:
                memory.remove(part)


def _zeros(size: int, align: int) -> Any:
    import numpy as np

    whole = np.zeros(size + align if size else 0, np.uint8)
    skipped = -whole.ctypes.data % align if size else 0
    return whole[skipped : skipped + size]


def _executor() -> Any:
    """The package ``inspector.execute``; raises NotExecutable."""
    try:
        return executor.load("execute")
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"[:300]
        raise NotExecutable(f"the executor of PTX cannot be loaded ({reason})") from error


def _program(call: Launch) -> tuple[Any, Any]:
    """The kernel as the executor has it, and the PTX's lines; raises NotExecutable."""
    kernel, (listing, _) = _kernel(call.text, call.entry), _module(call.text)
    obstacles = kernel.cannot()
    if obstacles:
        first, more = obstacles[0], len(obstacles) - 1
        place = source(listing, first.line, call.file)
        raise NotExecutable(
            f"{first.opcode} in line {first.line} of its PTX: {first.reason}"
            + (f", and {more} more" if more else "")
            + (f"; {place}" if place else "")
        )
    clusters = max(call.clusters, _required_clusters(call.text, call.entry))
    if clusters > 1:
        raise NotExecutable(f"its blocks are in clusters of {clusters}")
    return kernel, listing


# -- a text's kernels and variables -------------------------------------------------------------


def _module(text: str) -> tuple[Any, Any]:
    """The lines of a PTX text, and its module; raises NotExecutable."""
    made = _modules.get(text)
    if made is None:
        _executor()
        try:
            listing = executor.load("listing.ptx").parse_ptx(text)
            module = executor.load("listing.ptx_code").read_module(listing)
        except Exception as error:
            raise NotExecutable(f"its PTX is not understood: {error}"[:300]) from error
        made = _modules[text] = listing, module
    return made


def _kernel(text: str, entry: str) -> Any:
    """A kernel of a PTX text, whether or not it can be run; raises NotExecutable."""
    made = _kernels.get((text, entry))
    if made is None:
        module = _module(text)[1]
        try:
            made = _kernels[text, entry] = _executor().Program(module, entry)
        except Exception as error:
            raise NotExecutable(f"its PTX is not understood: {error}"[:300]) from error
    return made


def parameter_sizes(text: str, entry: str) -> list[int]:
    """Bytes of each of a kernel's parameters; raises NotExecutable."""
    return [parameter.size for parameter in _module(text)[1].functions[entry].parameters]


def variables(text: str) -> dict[str, int]:
    """The addresses of a text's variables in global and constant memory; raises NotExecutable."""
    module = _module(text)[1]
    if not module.entries:
        return {}
    with _running:
        kernel = _kernel(text, next(iter(module.entries)))
        memory = _MEMORY.now(_executor(), frozenset())
        kernel.addresses(memory)
        return dict(memory.modules[kernel.module_key])


def _required_clusters(text: str, entry: str) -> int:
    """Blocks of a cluster by the kernel's own directive."""
    head = re.search(rf"\.entry\s+{re.escape(entry)}\b[^{{]*", text)
    asked = _CLUSTER.search(head[0]) if head else None
    return math.prod(int(n or 1) for n in asked.groups()) if asked else 1


# -- memory -------------------------------------------------------------------------------------


class _DeviceMemory:
    """Every piece of device memory, as the executor sees it; the same for all launches.

    A module's own variables stay in it from launch to launch.
    """

    def __init__(self) -> None:
        self.memory: Any = None
        self.pieces: dict[tuple[int, int], Any] = {}

    def now(self, execute: Any, host: frozenset[tuple[int, int]]) -> Any:
        """The present memory: what is absent cannot be read, and so is not in it."""
        if self.memory is None:
            self.memory = execute.Memory()
        present = {piece for piece in native.memory() if not native.absence_at(piece[0])} | host
        for piece in self.pieces.keys() - present:
            self.memory.remove(self.pieces.pop(piece))
        for first, end in present - self.pieces.keys():
            self.pieces[first, end] = self.memory.add_raw(f"{first:#x}", first, end - first)
        return self.memory


_MEMORY = _DeviceMemory()
