"""Launches of a recording executed on inputs that are made as ``trace`` makes them.

The kernels of a graph are executed in the order of their first launches: what each has written the
next is given, so that a result in parts can be compared as a whole. What a library writes is made
up as the graph's inputs are.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
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
    execution = _GraphExecution(reader, graph, seconds)
    kernels = {kernel.id: kernel for kernel in reader.recording.kernels}
    for line, name in execution.first_launches():
        if not go_on():
            raise Stopped("it was stopped before its end")
        if kernels[name].origin is Origin.INDUCTOR:
            yield execution.launch(kernels[name], line)


class _GraphExecution:
    """Executes a graph's kernels; ``values`` is what its buffers hold by then."""

    def __init__(self, reader: Reader, graph: Graph, seconds: float) -> None:
        self.reader = reader
        self.graph = graph
        self.seconds = seconds
        self.code = WrapperCode(reader.graphs.text(graph, Stage.OUTPUT_CODE))
        self.values: Values = {}

    def first_launches(self) -> list[tuple[int, str]]:
        """The line of the first launch of each kernel, in order, and the kernel's id."""
        launches = []
        for name, lines in self.graph.calls.items():
            line = next((n for n in lines if self.code.arguments(n)), None)
            if line is not None:
                launches.append((line, name))
        return sorted(launches)

    def launch(self, kernel: Kernel, line: int) -> GraphLaunch:
        """Execute a launch by a line; of one that cannot be executed the reason."""
        variant = representative(kernel.variants) if kernel.variants else None
        launch = GraphLaunch(self.graph, kernel, variant, 0, line, self.code, ())
        if variant is None:
            return replace(launch, why="no variant of it was recorded")
        if not variant.calls:
            why = "no launch of it was recorded"
            if self.reader.recording.mode == "target":
                values = "the graph's values were its operators'"
                why += f": {values} (run --values ptx launches kernels)"
            return replace(launch, why=why)
        try:
            return self._executed(launch, kernel, variant)
        except OutOfBudget:
            return replace(launch, why=f"executing it takes more than {self.seconds:g} s")
        except (LaunchError, Fault) as error:
            return replace(launch, why=f"on inputs that were made up: {error}")
        except PtxviewError as error:
            return replace(launch, why=error.message)

    def _executed(self, launch: GraphLaunch, kernel: Kernel, variant: Variant) -> GraphLaunch:
        """A launch with what it read and wrote, which goes into ``values``, too."""
        recorded_call = choose_launch(self.reader, kernel, variant, LaunchOverrides()).recorded
        names = self.code.arguments(launch.line)
        arguments = () if recorded_call is None else recorded_call.arguments
        passed = [argument for argument in arguments if argument.type != "constexpr"]
        if recorded_call is None or len(names) < len(passed):
            return replace(launch, why="its launch is not one of its graph's code")
        buffers = dict(zip((a.name for a in passed), names, strict=False))
        arrays = self._arrays(launch.line, passed, buffers)
        call = choose_launch(self.reader, kernel, variant, LaunchOverrides(arrays=arrays))
        inputs = call.make()
        tensors = [argument for argument in passed if argument.shape is not None]
        contents_before = {a.name: _elements(inputs, a) for a in tensors}
        execute(
            call.program,
            call.launch.grid,
            call.launch.block,
            inputs.arguments,
            memory=inputs.memory,
            shared=call.launch.shared,
            cluster=call.launch.cluster,
            seconds=self.seconds,
        )
        launch_arguments = []
        for argument in passed:
            if argument.shape is None:
                launch_arguments.append(LaunchArgument(argument.name))
                continue
            elements = _elements(inputs, argument)
            if (buffer := buffers.get(argument.name)) is not None:
                self.values[buffer] = argument, elements
            is_made_up = argument.name not in arrays
            only_written = argument.name.startswith("out_ptr") and is_made_up
            launch_arguments.append(
                _argument(argument, contents_before[argument.name], elements, only_written)
            )
        sizes = _sizes(self.code, buffers, passed)
        return replace(launch, arguments=tuple(launch_arguments), sizes=sizes)

    def _arrays(
        self, line: int, arguments: Sequence[Argument], buffers: Mapping[str, str | None]
    ) -> dict[str, Array]:
        """What the buffers hold that arguments are; none of one that is made up."""
        arrays = {}
        for argument in arguments:
            content = self._content(line, buffers.get(argument.name), argument)
            if content is not None:
                arrays[argument.name] = content
        return arrays

    def _content(self, line: int, buffer: str | None, argument: Argument) -> Array | None:
        """What a buffer holds in the layout of an argument; None if that is not known."""
        if buffer is None or argument.shape is None:
            return None
        if argument.name.startswith(IN_PLACE):
            buffer = self.code.reused_before(line, buffer) or buffer
        if buffer not in self.values:
            return None
        earlier, elements = self.values[buffer]
        is_alike = (earlier.dtype, earlier.shape) == (argument.dtype, argument.shape)
        return elements if is_alike else None


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
