"""Run the PTX of one launch on the tensors' own memory.

The executor runs all threads of many blocks at once and reads and writes the tensors in place, so
pointers keep their values. It knows every piece of device memory whose value is present; an access
to any other address is a fault, as on a GPU.
"""

from __future__ import annotations

import math
import re
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import executor, native
from .faults import Names, error_of, source
from .tuning import BENCHMARKS

# Instructions of one lane in one second of ``--value-seconds``: about the rate of one
# idle core of 2024 at a kernel that fills the executor's chunks.
LANES_A_SECOND = 100_000_000

_programs: dict[tuple[str, str], tuple[Any, Any]] = {}
_modules: dict[str, tuple[Any, Any]] = {}
_launches: dict[str, int] = {}
"""How many launches of each kernel were run."""
_running = threading.RLock()


class NotExecutable(Exception):
    """The executor cannot run this kernel, and has written nothing; the text says why."""


class Failed(Exception):
    """The executor itself failed, and what the kernel writes is not known; the text says why."""


class OverBudget(Exception):
    """The launch would take more work than it may; ``seconds``: for the whole of it, at least."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


def run(
    asm: Any, metadata: Any, signature: dict[Any, Any], grid: tuple[int, int, int],
    passed: dict[str, tuple[int, Any]], tensors: dict[str, Any], file: str, seconds: float,
) -> tuple[str, ...]:  # fmt: skip
    """Run every program of a Triton grid, within so many seconds' work; what it printed.

    ``passed``: the arguments that were not compiled in, by name, each with its position among all;
    ``tensors``: those of them that are tensors, as an error names them; ``file``: the kernel's
    source. Raises NotExecutable, Failed, OverBudget, AbsentValue, and what is the kernel's
    own fault.
    """
    text = asm.get("ptx")
    if not isinstance(text, str):
        raise NotExecutable("the compiler gave no PTX")
    execute = _executor()
    name = str(metadata.name)
    with _running:
        program, listing = _program(execute, text, name, file)
        clusters = _clusters(metadata)
        if clusters > 1:
            raise NotExecutable(f"its blocks are in clusters of {clusters}")
        arguments = list(_arguments(execute, program, metadata, signature, passed))
        memory = _MEMORY.now(execute, tensors.values())
        scratch = _scratch(program, metadata, math.prod(grid), len(arguments))
        buffers = [memory.add(f"scratch {i}", part) for i, part in enumerate(scratch)]
        arguments += [part.address if part.size else 0 for part in buffers]
        arguments += [0] * (len(program.parameters) - len(arguments))
        try:
            return _execute(
                execute, program, grid, _block(program, metadata), arguments, memory,
                int(getattr(metadata, "shared", 0) or 0), seconds,
                Names(name, "program", listing, file, lambda: tensors),
            )  # fmt: skip
        finally:
            for part in buffers:
                memory.remove(part)


def run_entry(
    text: str, entry: str, name: str, grid: tuple[int, int, int], block: tuple[int, int, int],
    shared: int, arguments: list[bytes], tensors: Callable[[], dict[str, Any]],
    pinned: set[tuple[int, int]], seconds: float,
) -> tuple[str, ...]:  # fmt: skip
    """Run a kernel of CUDA C++; what it printed.

    ``entry`` is its name in the PTX and ``name`` the one to call it by; ``arguments`` are its
    parameters' bytes, ``tensors`` finds what they point at for an error, ``pinned`` is the host's
    memory that they point at. Raises what ``run`` raises.
    """
    execute = _executor()
    with _running:
        program, listing = _program(execute, text, entry, "")
        if re.search(r"\.(?:explicitcluster|reqnctapercluster)\b", text) and _clustered(
            text, entry
        ):
            raise NotExecutable("its blocks are in clusters")
        return _execute(
            execute, program, grid, block, arguments, _MEMORY.now(execute, (), pinned), shared,
            seconds, Names(name, "block", listing, "", tensors),
        )  # fmt: skip


def _executor() -> Any:
    """The package ``inspector.execute``; raises NotExecutable."""
    try:
        return executor.load()
    except executor.CannotLoad as error:
        raise NotExecutable(f"the executor of PTX cannot be loaded ({error})") from error


def _execute(
    execute: Any, program: Any, grid: tuple[int, int, int], block: tuple[int, int, int],
    arguments: list[Any], memory: Any, shared: int, seconds: float, names: Names,
) -> tuple[str, ...]:  # fmt: skip
    """One launch; raises as ``run`` does."""
    number = _launches[names.kernel] = _launches.get(names.kernel, 0) + 1
    budget = None if math.isinf(seconds) else int(seconds * LANES_A_SECOND)
    try:
        done = execute.execute(
            program, grid, block, arguments, memory=memory, shared=shared, budget=budget,
        )  # fmt: skip
        BENCHMARKS.used(done.cost / LANES_A_SECOND)
        return tuple(done.printed)
    except (execute.CannotRun, execute.LaunchError) as error:
        raise NotExecutable(str(error)) from error
    except execute.OutOfBudget as error:
        BENCHMARKS.used(seconds)
        raise OverBudget(error.work / LANES_A_SECOND) from None
    except execute.Fault as fault:
        raise error_of(fault, names, number, grid) from None
    except Exception as error:  # its own, of a kernel that the compiler took
        kind = Failed if memory.written else NotExecutable
        raise kind(f"{type(error).__name__}: {error}"[:300]) from error


def _read(execute: Any, text: str, name: str) -> tuple[Any, Any]:
    """The kernel, whether or not it can be run, and the PTX's lines; raises NotExecutable."""
    made = _programs.get((text, name))
    if made is None:
        listing, module = _module(text)
        try:
            made = _programs[text, name] = execute.Program(module, name), listing
        except Exception as error:
            raise NotExecutable(f"its PTX is not understood: {error}"[:300]) from error
    return made


def _program(execute: Any, text: str, name: str, file: str) -> tuple[Any, Any]:
    """The kernel as the executor has it, and the PTX's lines; raises NotExecutable."""
    made = _read(execute, text, name)
    obstacles = made[0].cannot()
    if obstacles:
        first, more = obstacles[0], len(obstacles) - 1
        place = source(made[1], first.line, file)
        raise NotExecutable(
            f"{first.opcode} in line {first.line} of its PTX: {first.reason}"
            + (f", and {more} more" if more else "")
            + (f"; {place}" if place else "")
        )
    return made


# -- a text's kernels and variables ---------------------------------------------------------------


def _module(text: str) -> tuple[Any, Any]:
    """The PTX's lines, and what they define; the same for all its kernels."""
    made = _modules.get(text)
    if made is None:
        _executor()
        try:
            listing = executor.part("listing.ptx").parse_ptx(text)
            made = _modules[text] = listing, executor.part("listing.ptx_code").read_module(listing)
        except Exception as error:
            raise NotExecutable(f"its PTX is not understood: {error}"[:300]) from error
    return made


def entries(text: str) -> tuple[str, ...]:
    """The names of a text's kernels; raises NotExecutable."""
    return tuple(_module(text)[1].entries)


def parameter_sizes(text: str, entry: str) -> list[int]:
    """Bytes of each of a kernel's parameters; raises NotExecutable."""
    return [parameter.size for parameter in _module(text)[1].functions[entry].parameters]


def variables(text: str) -> dict[str, int]:
    """The addresses of a text's variables in global and constant memory; raises NotExecutable."""
    execute = _executor()
    module = _module(text)[1]
    with _running:
        if not module.entries:
            return {}
        program, _ = _read(execute, text, module.entries[0])
        memory = _MEMORY.now(execute, ())
        program.addresses(memory)
        return dict(memory.modules[program.module_key])


def globals_of(text: str, entry: str) -> tuple[str, ...]:
    """The variables in global memory that a kernel may write: those that the text names in it."""
    declared = _module(text)[1].variables
    names = [name for name, one in declared.items() if one.space == "global"]
    return used(text, entry, names)


def used(text: str, entry: str, names: Iterable[str]) -> tuple[str, ...]:
    """Which of these variables the kernel, or any function that is called in it, may name."""
    if not names:
        return ()
    functions = _module(text)[1].functions
    places = sorted(function.line for function in functions.values())
    kept = [f for f in functions.values() if f.name == entry or not f.entry]
    lines = text.split("\n")
    body = "\n".join(
        "\n".join(lines[f.line - 1 : min((p for p in places if p > f.line), default=len(lines))])
        for f in kept
    )
    words = set(re.findall(r"[\w$]+", body))
    return tuple(name for name in names if name in words)


def _clustered(text: str, entry: str) -> bool:
    """Whether a kernel's own directives ask for clusters of several blocks."""
    line = _module(text)[1].functions[entry].line
    head = "\n".join(text.split("\n")[line - 1 : line + 200]).partition("{")[0]
    asked = re.search(r"\.reqnctapercluster\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", head)
    return asked is not None and math.prod(int(n or 1) for n in asked.groups()) > 1


# -- the launch -----------------------------------------------------------------------------------


def _block(program: Any, metadata: Any) -> tuple[int, int, int]:
    demanded = program.required_block
    return demanded or (32 * int(getattr(metadata, "num_warps", 4)), 1, 1)


def _clusters(metadata: Any) -> int:
    """Blocks of a cluster."""
    dims = getattr(metadata, "cluster_dims", None) or (1,)
    return max(int(getattr(metadata, "num_ctas", 1) or 1), math.prod(int(n) for n in dims))


def _scratch(program: Any, metadata: Any, programs: int, given: int) -> list[Any]:
    """Memory of the launch's own that the kernel is given after its arguments."""
    import numpy as np

    made = []
    for name in ("global_scratch", "profile_scratch")[: len(program.parameters) - given]:
        size = int(getattr(metadata, f"{name}_size", 0) or 0) * programs
        align = int(getattr(metadata, f"{name}_align", 1) or 1)
        whole = np.zeros(size + align if size else 0, np.uint8)
        skipped = -whole.ctypes.data % align if size else 0
        made.append(whole[skipped : skipped + size])
    return made


def _arguments(
    execute: Any, program: Any, metadata: Any, signature: dict[Any, Any],
    passed: dict[str, tuple[int, Any]],
) -> Iterator[Any]:  # fmt: skip
    """What each of the kernel's parameters is given, without scratch; raises NotExecutable."""
    described = iter(getattr(metadata, "tensordesc_meta", None) or ())
    flat = [
        pair
        for name, (position, value) in passed.items()
        for pair in _flat(execute, signature.get(name, signature.get(position)), value, described)
    ]
    parameters = program.parameters
    if not 0 <= len(parameters) - len(flat) <= 2:
        raise NotExecutable(
            f"its PTX has {len(parameters)} parameters, and the launch gives {len(flat)}"
        )
    for (kind, value), parameter in zip(flat, parameters, strict=False):
        yield _packed(kind, value, parameter)


def _flat(execute: Any, kind: Any, value: Any, described: Iterator[Any]) -> Iterator[Any]:
    """An argument as its parts' types and values, as the compiler lowers it."""
    if kind == "constexpr":
        return
    if isinstance(value, (tuple, list)):
        kinds = kind if isinstance(kind, (tuple, list)) else [None] * len(value)
        for part_kind, part in zip(kinds, value, strict=True):
            yield from _flat(execute, part_kind, part, described)
    elif hasattr(value, "block_shape"):
        yield from ((None, part) for part in _descriptor(execute, value, next(described, None)))
    else:
        yield kind, value


def _descriptor(execute: Any, value: Any, lowered: Any) -> list[Any]:
    """A tensor descriptor: a tensor map where the target has them, else what it is made of."""
    shape, strides = [int(n) for n in value.shape], [int(n) for n in value.strides]
    if not lowered:
        from triton.backends import driver, nvidia

        split = getattr(driver, "decompose_descriptor", None)
        split = split or getattr(nvidia.driver, "decompose_descriptor", None)
        if split is None:
            raise NotExecutable("how a tensor descriptor is lowered is not known")
        parts = list(split(value))
        # What stands twice in later versions: the shape, for the code after the descriptor's.
        return parts if parts[-len(strides) :] == strides else [*parts, *shape, *strides]
    if lowered.get("fp4_padded") or lowered.get("is_im2col"):
        raise NotExecutable("it uses a tensor map of padded 4-bit numbers or of im2col")
    size = int(lowered["elem_size"])
    element = 11 if getattr(value, "round_f32_to_tf32", False) else int(lowered["elem_type"])
    made = execute.TensorMap(
        int(value.base.data_ptr()),
        tuple(reversed(shape)),
        tuple(step * size for step in reversed(strides[:-1])),
        tuple(int(n) for n in reversed(lowered["block_size"])),
        element,
        int(lowered["swizzle"]),
        int(getattr(value, "padding", "zero") == "nan"),
    )
    return [made.encode(), *shape, *strides]


def _packed(kind: Any, value: Any, parameter: Any) -> Any:
    """A value as its parameter's; floats as the bytes that Triton's launcher gives."""
    if hasattr(value, "data_ptr"):
        return int(value.data_ptr())
    if value is None:
        return 0
    if isinstance(value, bytes):
        return value
    if isinstance(kind, str) and kind in ("fp16", "bf16", "fp32", "f32", "fp64"):
        value = float(value)
        if kind == "bf16":
            return struct.pack("<f", value)[2:]
        return struct.pack({"fp16": "<e", "fp64": "<d"}.get(kind, "<f"), value)
    if isinstance(value, float):
        return struct.pack("<d" if parameter.size == 8 else "<f", value)
    try:
        return int(value)
    except (TypeError, ValueError):
        raise NotExecutable(f"an argument of type {type(value).__name__} is not known") from None


# -- memory ---------------------------------------------------------------------------------------


class _DeviceMemory:
    """Every piece of device memory, as the executor sees it; the same for all launches.

    What a module declares as its own stays in it from launch to launch.
    """

    def __init__(self) -> None:
        self.memory: Any = None
        self.pieces: dict[tuple[int, int], Any] = {}

    def now(self, execute: Any, tensors: Any, pinned: Iterable[tuple[int, int]] = ()) -> Any:
        """The memory as it is: what is absent cannot be read, and so is not in it.

        ``pinned``: pieces of the host's that may be touched besides.
        """
        if self.memory is None:
            self.memory = execute.Memory()
        there = {piece for piece in native.memory() if not native.absence_at(piece[0])}
        there.update(pinned)
        for tensor in tensors:
            storage = tensor.untyped_storage()
            first = int(storage.data_ptr())
            if storage.nbytes() and native.memory_around(first, first + 1) is None:
                there.add((first, first + int(storage.nbytes())))  # pinned memory of the host's
        for piece in self.pieces.keys() - there:
            self.memory.remove(self.pieces.pop(piece))
        for first, end in there - self.pieces.keys():
            if end > first:
                self.pieces[first, end] = self.memory.add_raw(f"{first:#x}", first, end - first)
        return self.memory


_MEMORY = _DeviceMemory()
