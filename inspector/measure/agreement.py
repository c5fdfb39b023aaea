"""Whether kernels leave the same results: launched on the same inputs, and compared bit for bit.

On a GPU a child of the user's interpreter launches the machine code; without one the executor runs
the PTX, all blocks of the launch where that is cheap, else the same ones of each.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from inspector.errors import PtxviewError, Stopped, ToolMissing, Unreadable
from inspector.execute import Fault, OutOfBudget, execute
from inspector.execute.floats import from_bf16, from_small
from inspector.execute.launch import choose
from inspector.execute.memory import Buffer
from inspector.measure.recorded_launch import ChosenLaunch, LaunchWish, choose_launch
from inspector.measure.time import child
from inspector.model import Call, Kernel, Variant
from inspector.reader.reader import Reader
from inspector.trace.inputs import Array, LaunchInputs
from inspector.trace.watched import Watched

GPU, CPU = "gpu", "cpu"
CHEAP = 100_000_000
"""Lane-instructions up to which a launch is run on the CPU without being asked: some seconds."""
_NARROW = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}


@dataclass(frozen=True, slots=True)
class TensorAgreement:
    """One tensor that both launches had: ``differing`` of ``elements`` do not have the same bits.

    ``largest`` is the largest difference of two finite values, at element ``at`` of its memory,
    where they are ``a`` and ``b``; ``odd`` counts those that are NaN or infinite on one side alone.
    """

    name: str
    dtype: str
    elements: int
    differing: int = 0
    largest: float | None = None
    at: int | None = None
    a: float | str | None = None
    b: float | str | None = None
    odd: int = 0


@dataclass(frozen=True, slots=True)
class Agreement:
    """What a launch left, held against the recorded kernel's on the same inputs.

    ``where`` is gpu or cpu. ``tensors`` are those that were written; ``blocks`` says how many were
    run of how many, None where it was all of them on a GPU. ``why`` says why nothing is known, or
    that the launch ended in a fault. ``steady`` is whether the recorded kernel leaves the same bits
    each time that it is launched; None where that was not tried.
    """

    where: str
    tensors: tuple[TensorAgreement, ...] = ()
    blocks: tuple[int, int] | None = None
    why: str | None = None
    fault: bool = False
    steady: bool | None = None

    @property
    def identical(self) -> bool | None:
        """Whether all bits are the same; None where that is not known."""
        if self.why is not None:
            return None
        return not any(one.differing for one in self.tensors)


@dataclass(frozen=True, slots=True)
class Launchable:
    """A variant with the call that it is launched by, and the scratch that it needs, in bytes a
    program: global, profiling."""

    kernel: Kernel
    variant: Variant
    call: Call
    need: tuple[int, int] = (0, 0)


# -- on the CPU -----------------------------------------------------------------------------------


def on_cpu(
    reader: Reader,
    launches: Sequence[Launchable],
    budget: int = CHEAP,
    stop: Callable[[], bool] | None = None,
) -> list[Agreement]:
    """What each launch after the first leaves, held against the first.

    Raises ``Stopped`` where ``stop`` says so. ``budget`` is in lane-instructions, for each.
    """
    try:
        first = _chosen(reader, launches[0])
        numbers, total = _blocks(first, budget, stop)
        reference = _run(first, numbers, budget, stop)
    except Stopped:
        raise
    except PtxviewError as error:
        why = f"the recorded kernel cannot be run on the CPU: {_sentence(error)}"
        return [Agreement(CPU, why=why) for _ in launches[1:]]
    return [_held(reader, reference, one, numbers, total, budget, stop) for one in launches[1:]]


def _sentence(error: PtxviewError) -> str:
    """An error's message, with what cannot be run where that is a list of lines."""
    first = error.hint.strip().splitlines()[0].strip() if error.hint.startswith("  ") else ""
    return f"{error.message.partition('; ')[0]}: {first}" if first else error.message


def _chosen(reader: Reader, one: Launchable) -> ChosenLaunch:
    wish = LaunchWish(like=one.call, scratch=one.need)
    return choose_launch(reader, one.kernel, one.variant, wish)


def _blocks(
    chosen: ChosenLaunch, budget: int, stop: Callable[[], bool] | None
) -> tuple[list[int], int]:
    """The blocks to run: all where they are cheap, else as many as are, spread over the grid."""
    total = chosen.launch.blocks
    try:
        done = _executed(chosen, chosen.make(), [total // 2], budget, stop)
        affordable = max(1, budget // max(1, done))
    except Fault as fault:
        if fault.cause != "deadlock":
            raise
        affordable = total  # it waits for blocks that were not run
    if affordable >= total:
        return list(range(total)), total
    return choose(chosen.launch.grid, affordable).tolist(), total


def _executed(
    chosen: ChosenLaunch,
    inputs: LaunchInputs,
    blocks: Sequence[int],
    budget: int,
    stop: Callable[[], bool] | None,
) -> int:
    """Run these blocks; what they took of the budget."""
    launch = chosen.launch
    done = execute(
        chosen.program, launch.grid, launch.block, inputs.arguments, memory=inputs.memory,
        shared=launch.shared, blocks=list(blocks), budget=2 * budget,
        observer=None if stop is None else Watched((), stop),
    )  # fmt: skip
    return max(done.cost, done.work)


@dataclass(frozen=True, slots=True)
class _Left:
    """The inputs of a launch as it left them, and the names of those that it wrote."""

    inputs: LaunchInputs
    written: frozenset[str]


def _run(
    chosen: ChosenLaunch, blocks: Sequence[int], budget: int, stop: Callable[[], bool] | None
) -> _Left:
    inputs = chosen.make()
    _executed(chosen, inputs, blocks, budget, stop)
    return _Left(inputs, frozenset(inputs.memory.names(inputs.memory.written)))


def _held(
    reader: Reader,
    reference: _Left,
    one: Launchable,
    numbers: Sequence[int],
    total: int,
    budget: int,
    stop: Callable[[], bool] | None,
) -> Agreement:
    blocks = (len(numbers), total)
    try:
        left = _run(_chosen(reader, one), numbers, budget, stop)
    except Fault as fault:
        return Agreement(CPU, blocks=blocks, why=fault.message, fault=True)
    except OutOfBudget as spent:
        return Agreement(CPU, blocks=blocks, why=spent.message)
    except Stopped:
        raise
    except PtxviewError as error:
        return Agreement(CPU, blocks=blocks, why=_sentence(error))
    written = reference.written | left.written
    mine = {buffer.name: buffer for buffer in left.inputs.memory.buffers}
    tensors = tuple(
        _compared(buffer, mine[buffer.name])
        for buffer in reference.inputs.memory.buffers
        if buffer.name in written and buffer.dtype and buffer.name in mine
    )
    if not tensors:
        return Agreement(CPU, blocks=blocks, why="the blocks that were run wrote no tensor")
    return Agreement(CPU, tensors, blocks)


def _compared(a: Buffer, b: Buffer) -> TensorAgreement:
    x, y = (np.asarray(one.owner).reshape(-1) for one in (a, b))
    out = TensorAgreement(a.name, a.dtype, x.size)
    size = x.itemsize
    other = (x.view(np.uint8).reshape(-1, size) != y.view(np.uint8).reshape(-1, size)).any(axis=1)
    count = int(other.sum())
    if not count:
        return out
    left, right = (_numbers(values[other], a.dtype) for values in (x, y))
    with np.errstate(all="ignore"):
        apart = np.abs(left - right)
    apart[(left == right) | (np.isnan(left) & np.isnan(right))] = 0.0
    wild = ~np.isfinite(apart)
    apart[wild] = -1.0
    here = int(apart.argmax())
    return replace(
        out,
        differing=count,
        largest=None if apart[here] < 0 else float(apart[here]),
        at=int(np.flatnonzero(other)[here]),
        a=_told(left[here]),
        b=_told(right[here]),
        odd=int(wild.sum()),
    )


def _numbers(values: Array, dtype: str) -> Array:
    """Stored values as doubles; of complex ones how large they are."""
    if dtype == "bfloat16":
        values = from_bf16(values)
    elif dtype in _NARROW:
        values = from_small(values, _NARROW[dtype])
    elif values.dtype.kind == "c":
        values = np.abs(values)
    return np.array(values, np.float64)


def _told(value: float) -> float | str:
    return float(value) if math.isfinite(value) else str(float(value))


# -- on a GPU -------------------------------------------------------------------------------------


def on_gpu(
    python: str,
    jobs: Sequence[tuple[child.Said, bytes] | str],
    alignment: int,
    limit: float,
    run: child.Child = child.start,
) -> list[Agreement]:
    """What each launch after the first leaves on this machine's device, held against the first.

    A job is a launch with its machine code, or why there is none. This runs a recording's code: the
    caller must have the user's permission. Raises ``ToolMissing`` without a device or torch.
    """
    first = jobs[0]
    if isinstance(first, str):
        why = f"the recorded kernel cannot be launched: {first}"
        return [Agreement(GPU, why=why) for _ in jobs[1:]]
    answers: dict[int, child.Said] = {}
    with tempfile.TemporaryDirectory(prefix="ptxview-") as name:
        folder = Path(name)
        todo: list[child.Said] = []
        for n, job in enumerate(jobs):
            if not isinstance(job, str):
                path = folder / f"{n}.cubin"
                path.write_bytes(job[1])
                todo.append({**job[0], "n": n, "cubin": str(path)})
        while len(todo) > 1:
            asked = {"launches": todo, "alignment": alignment, "limit": limit}
            seconds = child.STARTING + (len(todo) + 1) * limit
            end = child.run_child(python, "agree", asked, limit, folder, seconds, run)
            todo = _after(python, todo, end, answers)
    return [
        Agreement(GPU, why=job)
        if isinstance(job, str)
        else _answered(answers.get(n, {}), answers.get(0, {}))
        for n, job in enumerate(jobs)
    ][1:]


def _after(
    python: str, todo: list[child.Said], end: child.ChildEnd, answers: dict[int, child.Said]
) -> list[child.Said]:
    """The launches that a child left for the next one, the first of all always among them."""
    begun: list[object] = []
    for record in end.records:
        number = record.get("n")
        if "begin" in record:
            begun.append(record["begin"])
        elif isinstance(number, int):
            answers.setdefault(number, record)
    if end.status == child.NO_DEVICE:
        raise ToolMissing("launching needs an NVIDIA GPU, and the interpreter's torch sees none")
    if end.status == child.NO_TORCH:
        raise ToolMissing(f"launching needs torch, which {python} cannot import", "See --python.")
    if not begun:
        raise Unreadable(f"the process that launches kernels ended early: {end.problem}")
    last = begun[-1]
    if isinstance(last, int) and last not in answers:
        answers[last] = {"n": last, "error": end.problem}
    if "error" in answers.get(0, {}):
        return []
    return [one for one in todo if one["n"] == 0 or one["n"] not in answers]


def _answered(answer: Mapping[str, object], first: Mapping[str, object]) -> Agreement:
    if "error" in first:
        return Agreement(GPU, why=f"the recorded kernel cannot be launched: {first['error']}")
    if "error" in answer:
        return Agreement(GPU, why=str(answer["error"]), fault=answer.get("launched") is not False)
    if not answer:
        return Agreement(GPU, why="it was not launched")
    own = {one.name: one for one in map(_tensor, _rows(first))}
    changed = {str(row.get("name")) for row in _rows(first) if row.get("changed")}
    tensors = tuple(
        one for one in map(_tensor, _rows(answer)) if one.name in changed or one.differing
    )
    steady = not any(one.differing for one in own.values())
    if not tensors:
        return Agreement(GPU, why="neither launch wrote a tensor", steady=steady)
    return Agreement(GPU, tensors, steady=steady)


def _rows(answer: Mapping[str, object]) -> list[Mapping[str, object]]:
    rows = answer.get("tensors")
    return [r for r in rows if isinstance(r, Mapping)] if isinstance(rows, list) else []


def _tensor(row: Mapping[str, object]) -> TensorAgreement:
    whole = partial(_whole, row)
    largest = row.get("largest")
    return TensorAgreement(
        str(row.get("name")),
        str(row.get("dtype")),
        whole("elements") or 0,
        whole("differing") or 0,
        float(largest) if isinstance(largest, int | float) else None,
        whole("at"),
        _value(row.get("a")),
        _value(row.get("b")),
        whole("odd") or 0,
    )


def _whole(row: Mapping[str, object], name: str) -> int | None:
    value = row.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _value(value: object) -> float | str | None:
    return value if isinstance(value, float | str) else None
