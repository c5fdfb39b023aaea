"""A kernel with what it is launched with on the CPU: a recorded call's, or what a user gives."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from inspector.base.errors import PtxviewError, ToolMissing, Unreadable, UsageError
from inspector.base.model import Call, Kernel, Location, Stage, Variant
from inspector.execute import CannotRun, Program
from inspector.execute.calls.inputs import (
    Array,
    InputOptions,
    LaunchInputs,
    make_inputs,
    stored_elements,
)
from inspector.execute.calls.stepper import register_names
from inspector.execute.calls.tracing import TraceLaunch, Triple
from inspector.execute.program import MALFORMED
from inspector.measure.time.planning import LaunchNeeds, launch_needs
from inspector.reader.reader import Reader
from inspector.recording.contents import inflated
from inspector.recording.layout import is_recording, read_events
from inspector.system import files

MAX_LISTED_LINES = 20
"""Unsupported lines that are listed."""


class LaunchOverrides(Struct, frozen=True):
    """How a launch differs from the recorded call; None is as recorded.

    ``call`` is the call's number, None for ``default_call``'s; ``arrays`` are by the names of
    arguments, ``unsized`` the bytes behind an address of unknown size (0 refuses it).
    """

    call: int | None = None
    grid: Triple | None = None
    threads: Triple | None = None
    shared: int | None = None
    arrays: Mapping[str, Array] = field(default_factory=dict)
    seed: int = 0
    unsized: int = 0


class ChosenLaunch(Struct, frozen=True):
    """A kernel with its launch; ``call`` is the number of the recorded call."""

    reader: Reader
    kernel: Kernel
    variant: Variant
    program: Program
    launch: TraceLaunch
    call: int | None
    names: tuple[str, ...]
    recorded: Call | None
    options: InputOptions
    kept_names: tuple[str, ...] = ()
    """Arguments whose values are the recorded call's own."""

    @property
    def given_names(self) -> tuple[str, ...]:
        return tuple(name for name in self.options.arrays if name not in self.kept_names)

    @property
    def seed(self) -> int | None:
        any_made = self.recorded is not None and any(
            a.shape is not None and a.name not in self.options.arrays
            for a in self.recorded.arguments
        )
        return self.options.seed if any_made else None

    def make(self) -> LaunchInputs:
        recorded = None if self.recorded is None else self.recorded.arguments
        return make_inputs(self.program, self.names, recorded, self.options)

    def source(self, line: int) -> Location | None:
        lines = self.reader.stages.listing(self.variant, Stage.PTX).lines
        return lines[line - 1].source if 0 < line <= len(lines) else None

    def register_names(self) -> tuple[dict[int, str], str]:
        """Names in the source by register number, and why some may be missing, or ""."""
        reader = self.reader
        variant = self.variant
        ttir = None
        why = ""
        if Stage.TTIR in variant.stages:
            try:
                ttir = reader.stages.listing(variant, Stage.TTIR)
            except PtxviewError as error:
                why = error.message
        symbols = reader.facts.parameter_names(variant, Stage.PTX)
        return register_names(
            self.program, reader.stages.listing(variant, Stage.PTX), ttir, symbols
        ), why


def choose_launch(
    reader: Reader, kernel: Kernel, variant: Variant, overrides: LaunchOverrides
) -> ChosenLaunch:
    """The launch of a variant, by a recorded call and the user's wish; nothing is run yet.

    Raises ``ToolMissing`` if the kernel has lines that cannot be run, ``UsageError`` if the launch
    is not completely known, ``Unreadable`` if the PTX is malformed.
    """
    program = _runnable_program(reader, kernel, variant)
    call_number = default_call(variant.calls) if overrides.call is None else overrides.call
    number, call = chosen_call(kernel.demangled, variant.calls, call_number)
    launch = _launch_sizes(kernel, variant, program, call, overrides)
    recorded = call if call is not None and (overrides.unsized or call.kind != "cuda") else None
    bounds = files.limits()
    scratch = _scratch_bytes(reader, variant, launch)
    max_bytes = bounds.streamed
    raising = bounds.raising()
    shares = () if recorded is None else recorded.shares
    kept = {} if recorded is None else kept_arrays(reader, recorded, overrides.arrays)
    arrays = {**kept, **overrides.arrays}
    inputs = InputOptions(
        overrides.seed,
        arrays,
        scratch,
        max_bytes,
        raising,
        overrides.unsized,
        shares,
        variant.descriptor_layouts,
    )
    names = _argument_names(reader, variant, program)
    return ChosenLaunch(
        reader, kernel, variant, program, launch, number, names, recorded, inputs, tuple(kept)
    )


def kept_arrays(reader: Reader, recorded: Call, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """What the tensors of a call held, of those that the user gives no array for. Tensors that
    share memory are made up together instead."""
    sharing = {name for share in recorded.shares for name in (share.first, share.second)}
    wanted = [
        argument
        for argument in recorded.arguments
        if argument.content is not None and argument.name not in {*sharing, *arrays}
    ]
    path = Path(reader.recording.resolved_path or reader.recording.path)
    if not wanted or not is_recording(path):
        return {}
    events = read_events(path)
    out = {}
    for argument in wanted:
        content = events.blob(argument.content)
        elements = None
        with suppress(PtxviewError):
            elements = None if content is None else stored_elements(argument, inflated(content))
        if elements is not None:
            out[argument.name] = elements
    return out


def _runnable_program(reader: Reader, kernel: Kernel, variant: Variant) -> Program:
    """The variant's PTX as it is run. Raises ``ToolMissing`` or ``Unreadable`` if it cannot be."""
    listing = reader.stages.listing(variant, Stage.PTX)
    try:
        program = Program(listing, variant.symbol)
        program.check()
    except CannotRun as error:
        lines = [f"  line {o.line}: {o.opcode}: {o.reason}" for o in error.obstacles]
        unlisted = len(lines) - MAX_LISTED_LINES
        if unlisted > 0:
            lines[MAX_LISTED_LINES:] = [f"  and {unlisted} more"]
        message = f"{variant.symbol} cannot be run here; nothing was run. What cannot be:"
        raise ToolMissing(message, "\n".join(lines)) from None
    except MALFORMED as error:
        raise Unreadable(
            f"the PTX of {kernel.demangled} is not such as ptxas takes: {str(error)[:200]}"
        ) from None
    return program


def _launch_sizes(
    kernel: Kernel,
    variant: Variant,
    program: Program,
    call: Call | None,
    overrides: LaunchOverrides,
) -> TraceLaunch:
    """Grid, block and shared memory: the user's, else the call's, else what the kernel says.

    Raises ``UsageError`` if nobody says grid or block.
    """
    call_grid, call_block, call_bytes = (
        (None, None, None) if call is None else (call.grid, call.block, call.shared_bytes)
    )
    grid = overrides.grid or call_grid
    block = overrides.threads or call_block or program.required_block
    if grid is None or block is None:
        options = ("--grid", grid), ("--threads", block)
        lacks = " and ".join(option for option, value in options if value is None)
        raise UsageError(
            f"no launch of {kernel.demangled} was recorded",
            f"Say with what to launch it: {lacks}, and --inputs FILE.npz for its arguments.",
        )
    cluster = None if call is None else call.cluster
    blocks_a_program = variant.config.get("num_ctas")
    if isinstance(blocks_a_program, int) and blocks_a_program > 1:
        grid = (grid[0] * blocks_a_program, grid[1], grid[2])
        cluster = (blocks_a_program, 1, 1)
    compiled_bytes = variant.recorded_resources.dynamic_shared_bytes
    shared_sizes = (overrides.shared, call_bytes, compiled_bytes, 0)
    shared = next(size for size in shared_sizes if size is not None)
    return TraceLaunch(grid, block, shared, cluster)


def _argument_names(reader: Reader, variant: Variant, program: Program) -> tuple[str, ...]:
    """The arguments' names in the source if all are known, else those of the PTX."""
    parameters = reader.facts.context(variant).parameters
    if len(parameters) != len(program.parameters):
        return tuple(p.name for p in program.parameters)
    return tuple(p.name or p.symbol or f"parameter {p.index}" for p in parameters)


def _scratch_bytes(reader: Reader, variant: Variant, launch: TraceLaunch) -> tuple[int, ...]:
    """Bytes behind the pointers that Triton appends, for all programs of the launch."""
    path = Path(reader.recording.resolved_path or reader.recording.path)
    needs = LaunchNeeds()
    if is_recording(path):
        needs = launch_needs(read_events(path).events).get(variant.hash, needs)
    return tuple(bytes_each * launch.blocks for bytes_each in needs.scratch)


def default_call(calls: Sequence[Call]) -> int | None:
    """The last call that failed, which is what a reader looks for; None if none did."""
    failed = [number for number, call in enumerate(calls) if call.failed is not None]
    return failed[-1] if failed else None


def chosen_call(
    name: str, calls: Sequence[Call], number: int | None
) -> tuple[int | None, Call | None]:
    """The wanted call, else the most frequent one, after its number. Raises ``UsageError``."""
    if number is not None:
        if not 0 <= number < len(calls):
            available = f"they are 0 to {len(calls) - 1}" if calls else "none of it was recorded"
            raise UsageError(
                f"there is no call {number} of {name}: {available}",
                "ptxview list --calls lists the recorded calls.",
            )
        return number, calls[number]
    if not calls:
        return None, None
    most_frequent = max(range(len(calls)), key=lambda n: (calls[n].count, -n))
    return most_frequent, calls[most_frequent]
