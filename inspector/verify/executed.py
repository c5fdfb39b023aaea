"""Launches of a recording executed on inputs that are made as ``trace`` makes them.

The kernels of a graph are executed in the order of their first launches: what one has written the
next is given, so that a result in parts can be compared as a whole. What a library writes is made
up as the graph's inputs are.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from inspector.analysis.representative import representative
from inspector.base.errors import PtxviewError, Stopped
from inspector.base.model import Argument, Graph, Kernel, Origin, Stage, Variant
from inspector.execute import Fault, LaunchError, OutOfBudget, execute
from inspector.execute.calls.inputs import Array, LaunchInputs
from inspector.measure.recorded_launch import LaunchOverrides, choose_launch
from inspector.reader.reader import Reader
from inspector.verify.graph_nodes import WrapperCode
from inspector.verify.launches import GraphLaunch, LaunchArgument, TensorValue

IN_PLACE = "in_out_ptr"
WRITTEN = ("out_ptr", IN_PLACE)
SECONDS = 30.0
"""Within which one launch has to be executed."""
Values = dict[str, tuple[Argument, Array]]
"""Contents by the names of the code's buffers, each with the argument that it was."""


def executed_launches(
    reader: Reader,
    graph: Graph,
    seconds: float = SECONDS,
    go_on: Callable[[], bool] = lambda: True,
) -> Iterator[GraphLaunch]:
    """The first launch of each kernel of a graph, one after the other, as each is asked for.

    ``go_on`` is asked before each: an observer of its instructions would slow it. Raises
    ``Stopped`` once it says no.
    """
    code = WrapperCode(reader.graphs.text(graph, Stage.OUTPUT_CODE))
    kernels = {kernel.id: kernel for kernel in reader.recording.kernels}
    first_lines = sorted(
        (line, name)
        for name, lines in graph.calls.items()
        for line in [next((n for n in lines if code.arguments(n)), None)]
        if line is not None
    )
    values: Values = {}
    for line, name in first_lines:
        if not go_on():
            raise Stopped("it was stopped before its end")
        kernel = kernels[name]
        if kernel.origin is Origin.INDUCTOR:
            variant = representative(kernel.variants) if kernel.variants else None
            yield _executed(reader, graph, kernel, variant, line, code, values, seconds)


def _executed(
    reader: Reader,
    graph: Graph,
    kernel: Kernel,
    variant: Variant | None,
    line: int,
    code: WrapperCode,
    values: Values,
    seconds: float,
) -> GraphLaunch:
    """One launch; what it reads and writes goes into ``values``."""
    launch = GraphLaunch(graph, kernel, variant, 0, line, code, ())
    if variant is None:
        return replace(launch, why="no variant of it was recorded")
    if not variant.calls:
        why = "no launch of it was recorded"
        if reader.recording.mode == "target":
            why += ": the graph's values were its operators' (run --values ptx launches kernels)"
        return replace(launch, why=why)
    try:
        chosen = choose_launch(reader, kernel, variant, LaunchOverrides())
        if chosen.recorded is None:
            return replace(launch, why="no launch of it was recorded")
        names = code.arguments(line)
        recorded = [a for a in chosen.recorded.arguments if a.type != "constexpr"]
        if len(names) < len(recorded):
            return replace(launch, why="its launch is not one of its graph's code")
        buffers = dict(zip((a.name for a in recorded), names, strict=False))
        arrays = {
            argument.name: values[content][1]
            for argument in recorded
            if (content := _content(code, line, buffers, argument, values)) is not None
        }
        options = LaunchOverrides(arrays=arrays)
        chosen = choose_launch(reader, kernel, variant, options)
        inputs = chosen.make()
        before = {a.name: _elements(inputs, a) for a in recorded if a.shape is not None}
        execute(
            chosen.program,
            chosen.launch.grid,
            chosen.launch.block,
            inputs.arguments,
            memory=inputs.memory,
            shared=chosen.launch.shared,
            seconds=seconds,
        )
        after = {a.name: _elements(inputs, a) for a in recorded if a.shape is not None}
    except OutOfBudget:
        return replace(launch, why=f"executing it takes more than {seconds:g} s")
    except (LaunchError, Fault) as error:
        return replace(launch, why=f"on inputs that were made up: {error}")
    except PtxviewError as error:
        return replace(launch, why=error.message)
    arguments = []
    for argument in recorded:
        buffer = buffers.get(argument.name)
        if argument.shape is None:
            arguments.append(LaunchArgument(argument.name))
            continue
        if buffer is not None:
            values[buffer] = argument, after[argument.name]
        only_written = argument.name.startswith("out_ptr") and argument.name not in arrays
        arguments.append(
            _argument(argument, before[argument.name], after[argument.name], only_written)
        )
    sizes = _sizes(code, buffers, recorded)
    return replace(launch, arguments=tuple(arguments), sizes=sizes)


def _content(
    code: WrapperCode,
    line: int,
    buffers: Mapping[str, str | None],
    argument: Argument,
    values: Values,
) -> str | None:
    """The buffer whose content an argument is given, of the same layout; None of one made up."""
    name = buffers.get(argument.name)
    if name is None or argument.shape is None:
        return None
    if argument.name.startswith(IN_PLACE):
        name = code.reused_before(line, name) or name
    earlier = values.get(name)
    if earlier is None or (earlier[0].dtype, earlier[0].shape) != (argument.dtype, argument.shape):
        return None
    return name


def _elements(inputs: LaunchInputs, argument: Argument) -> Array:
    """A copy of a tensor's elements, in the order of their indices."""
    buffer = inputs.tensor(argument.name)
    shape = argument.shape or ()
    if buffer is None or not isinstance(buffer.owner, np.ndarray):
        return np.zeros(shape, np.uint8)
    flat: Array = buffer.owner
    steps = tuple(n * flat.itemsize for n in argument.strides or ())
    return np.array(np.lib.stride_tricks.as_strided(flat, shape, steps), order="C")


def _argument(
    argument: Argument, before: Array, after: Array, only_written: bool
) -> LaunchArgument:
    changed = before.tobytes() != after.tobytes()
    return LaunchArgument(
        argument.name, None if only_written else _tensor(argument, before),
        _tensor(argument, after), changed,
    )  # fmt: skip


def _tensor(argument: Argument, elements: Array) -> TensorValue:
    read: Callable[[], bytes] = elements.tobytes
    return TensorValue(argument.dtype or "", argument.shape or (), argument.strides or (), read)


def _sizes(
    code: WrapperCode, buffers: Mapping[str, str | None], recorded: list[Argument]
) -> dict[str, int]:
    """The integers of a launch by their names in the code and in the graph."""
    out: dict[str, int] = {}
    for argument in recorded:
        value: Any = argument.value
        name = buffers.get(argument.name)
        if name is not None and type(value) is int:
            out[name] = value
            out[code.symbol_input(name)] = value
    return out
