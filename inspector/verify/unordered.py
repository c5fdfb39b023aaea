"""Kernels executed once more, to see whether their blocks race or read what nothing wrote."""

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from inspector.base.errors import PtxviewError, Stopped
from inspector.execute.calls.inputs import Array, stored_elements
from inspector.execute.calls.tracing import TracedLaunch, trace_launch
from inspector.measure.recorded_launch import ChosenLaunch, LaunchOverrides, choose_launch
from inspector.reader.reader import Reader
from inspector.verify.launches import GraphLaunch

SECONDS = 10.0
CHEAP = 20_000_000
"""Lane-instructions up to which every block of a kernel is executed."""
INDICES = ("int", "uint")


class ObservedLaunch(Struct, frozen=True):
    """A launch that was executed with observers of orders."""

    selection: ChosenLaunch
    launched: TracedLaunch


def observed_launch(
    reader: Reader, launch: GraphLaunch, go_on: Callable[[], bool] = lambda: True
) -> ObservedLaunch | None:
    """Execute a launch on the values that it was given; None if it cannot be judged.

    Where integers were made up, which may be indices, two blocks may store to one element that the
    program's would not: nothing is judged then. Raises ``Stopped`` once ``go_on`` says no.
    """
    if launch.variant is None:
        return None
    try:
        selection = choose_launch(reader, launch.kernel, launch.variant, LaunchOverrides())
        arrays = _arrays(selection, launch)
        if arrays is None:
            return None
        options = replace(selection.options, arrays={**selection.options.arrays, **arrays})
        selection = replace(selection, options=options)
        launched = trace_launch(
            selection.program,
            selection.launch,
            selection.make,
            seconds=SECONDS,
            cheap=CHEAP,
            values=False,
            races=True,
            stop=lambda: not go_on(),
        )
    except Stopped:
        raise
    except PtxviewError:
        return None
    return ObservedLaunch(selection, launched)


def _arrays(selection: ChosenLaunch, launch: GraphLaunch) -> Mapping[str, Array] | None:
    """The contents of tensors before a launch, where these were kept; None if those of integers
    that it reads are not known."""
    is_kept = launch.process is not None
    contents = {a.name: a.contents_before for a in launch.arguments if is_kept}
    arrays = {}
    for argument in () if selection.recorded is None else selection.recorded.arguments:
        tensor = contents.get(argument.name)
        if tensor is not None and (tensor.dtype, tensor.shape) == (argument.dtype, argument.shape):
            elements = stored_elements(argument, tensor.read())
            if elements is not None:
                arrays[argument.name] = elements
        is_output = argument.shape is None or argument.name.startswith("out_ptr")
        is_index = (argument.dtype or "").startswith(INDICES) and not is_output
        if is_index and argument.name not in arrays:
            return None
    return arrays
