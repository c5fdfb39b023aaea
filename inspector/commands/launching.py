"""What ``trace`` and ``step`` share: which kernel, which of its calls, with which inputs."""

from __future__ import annotations

import argparse
import io
import math
import tokenize
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from inspector import files
from inspector.commands.common import open_reader, split_path
from inspector.errors import ToolMissing, Unreadable, UsageError
from inspector.execute import CannotRun, Program
from inspector.execute.program import MALFORMED
from inspector.measure.time.planning import scratch
from inspector.model import Call, Kernel, Location, Stage, Variant
from inspector.reader.reader import Reader
from inspector.reader.selecting import select_one
from inspector.recording.layout import is_recording, read_events
from inspector.trace.inputs import Array, InputWish, LaunchInputs, make_inputs
from inspector.trace.tracing import BUDGET, TraceLaunch, Triple

MOST_TOLD = 20
"""Lines that cannot be run, of which each is told."""
NO_ARRAY = (ValueError, SyntaxError, TypeError, LookupError, MemoryError, RecursionError,
            AttributeError, OverflowError, tokenize.TokenError)  # fmt: skip
"""What numpy raises on the head of an array that is none."""


def takes_launch(parser: argparse.ArgumentParser) -> None:
    """The words and options that say what is launched."""
    parser.add_argument(
        "words", nargs="*", metavar="[PATH] KERNEL",
        help="what to open, and which kernel of it: a name, a glob, a variant's id, NAME#2",
    )  # fmt: skip
    parser.add_argument(
        "--call", type=int, metavar="N",
        help="which recorded call, from 0 (the most frequent; ptxview list --calls tells them)",
    )  # fmt: skip
    parser.add_argument(
        "--inputs", type=Path, metavar="FILE.npz",
        help="arrays by the names of arguments, of no dimensions for numbers, instead of new ones",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the new inputs' values (0)"
    )
    parser.add_argument(
        "--grid", type=triple, metavar="X[,Y,Z]", help="blocks, instead of the call's"
    )
    parser.add_argument(
        "--threads",
        type=triple,
        metavar="X[,Y,Z]",
        help="threads of a block, instead of the call's",
    )
    parser.add_argument(
        "--shared", type=amount, metavar="BYTES",
        help="dynamic shared memory of a block, instead of the call's",
    )  # fmt: skip
    parser.add_argument(
        "--budget", type=amount, default=BUDGET, metavar="N",
        help=f"lane-instructions after which it is given up ({BUDGET:.0e})".replace("+0", ""),
    )  # fmt: skip


def triple(text: str) -> Triple:
    """``1823``, ``64,4``, ``3,1,0``."""
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(p.isascii() and p.isdecimal() for p in parts):
        raise argparse.ArgumentTypeError(f"{text} is not one to three whole numbers")
    if any(len(p) > 10 for p in parts):
        raise argparse.ArgumentTypeError(f"{text} is more than any device has")
    x, y, z = (*(int(p) for p in parts), 1, 1)[:3]
    return x, y, z


def place(text: str) -> Triple:
    """Coordinates: ``7``, ``3,1,0``; those that are left out are 0."""
    x, y, z = triple(text)
    given = text.count(",") + 1
    return x, y if given > 1 else 0, z if given > 2 else 0


def amount(text: str) -> int:
    """``4096``, ``2e9``."""
    try:
        value = float(text)
        if value >= 0 and value == int(value) and math.isfinite(value):
            return int(text) if text.isdecimal() else int(value)
    except (ValueError, OverflowError):
        pass
    raise argparse.ArgumentTypeError(f"{text} is no whole number")


@dataclass(frozen=True, slots=True)
class ChosenLaunch:
    """A kernel with what it is to be launched with. ``call`` is the number of the recorded call."""

    reader: Reader
    kernel: Kernel
    variant: Variant
    program: Program
    launch: TraceLaunch
    call: int | None
    names: tuple[str, ...]
    recorded: Call | None
    wish: InputWish

    @property
    def given(self) -> tuple[str, ...]:
        """The names of arguments that the user gave values of."""
        return tuple(self.wish.given)

    @property
    def seed(self) -> int | None:
        """The seed, where any input was made anew."""
        made = self.recorded is not None and any(
            a.shape is not None and a.name not in self.wish.given for a in self.recorded.arguments
        )
        return self.wish.seed if made else None

    def make(self) -> LaunchInputs:
        """Its inputs, made anew each time."""
        recorded = None if self.recorded is None else self.recorded.arguments
        return make_inputs(self.program, self.names, recorded, self.wish)

    def source(self, line: int) -> Location | None:
        """Where a line of the PTX comes from."""
        lines = self.reader.listing(self.variant, Stage.PTX).lines
        return lines[line - 1].source if 0 < line <= len(lines) else None


def choose_launch(args: argparse.Namespace, parser: argparse.ArgumentParser) -> ChosenLaunch:
    """What the words and options mean. Raises PtxviewError; nothing has been run yet.

    ``ToolMissing`` where the kernel has lines that cannot be run, each told by its number.
    """
    if len(args.words) > 2:
        parser.error("give at most a PATH and a KERNEL")
    path, selector = split_path(args.words)
    reader = open_reader(path)
    kernel, variant = select_one(reader.recording, selector)
    listing = reader.listing(variant, Stage.PTX)
    try:
        program = Program(listing, variant.symbol)
    except MALFORMED as error:
        raise Unreadable(
            f"the PTX of {kernel.demangled} is not such as ptxas takes: {str(error)[:200]}"
        ) from None
    must_run(program)
    given = {} if args.inputs is None else read_arrays(args.inputs)
    number, call = _call(kernel, variant, args.call)
    grid = args.grid or (call.grid if call is not None else None)
    block = args.threads or (call.block if call is not None else None) or program.required_block
    if grid is None or block is None:
        lacks = " and ".join(n for n, v in (("--grid", grid), ("--threads", block)) if v is None)
        raise UsageError(
            f"no launch of {kernel.demangled} was recorded",
            f"Say with what to launch it: {lacks}, and --inputs FILE.npz for its arguments.",
        )
    shared = args.shared
    if shared is None:
        shared = call.shared_bytes if call is not None else None
    if shared is None:
        shared = reader.known_by_now(variant).dynamic_shared_bytes or 0
    launch = TraceLaunch(_whole(grid), _whole(block), shared)
    recorded = call if call is not None and call.kind != "cuda" else None
    names = tuple(
        p.name or p.symbol or f"parameter {p.index}" for p in reader.context(variant).parameters
    )
    if len(names) != len(program.parameters):
        names = tuple(p.name for p in program.parameters)
    bounds = files.limits()
    wish = InputWish(
        args.seed, given, _scratch(reader, variant, launch), bounds.streamed, bounds.raising()
    )
    return ChosenLaunch(
        reader, kernel, variant, program, launch, number, names, recorded, wish
    )  # fmt: skip


def _whole(sizes: Sequence[int]) -> Triple:
    return sizes[0], sizes[1], sizes[2]


def _call(kernel: Kernel, variant: Variant, wanted: int | None) -> tuple[int | None, Call | None]:
    """The recorded call that is meant, with its number."""
    calls = variant.calls
    if wanted is not None:
        if not 0 <= wanted < len(calls):
            there = f"they are 0 to {len(calls) - 1}" if calls else "none of it was recorded"
            raise UsageError(
                f"there is no call {wanted} of {kernel.demangled}: {there}",
                "ptxview list --calls tells the recorded calls.",
            )
        return wanted, calls[wanted]
    if not calls:
        return None, None
    most = max(range(len(calls)), key=lambda n: (calls[n].count, -n))
    return most, calls[most]


def must_run(program: Program) -> None:
    """Raises ToolMissing where a kernel has lines that cannot be run."""
    try:
        program.check()
    except CannotRun as error:
        told = [f"  line {o.line}: {o.opcode}: {o.reason}" for o in error.obstacles[:MOST_TOLD]]
        if (more := len(error.obstacles) - MOST_TOLD) > 0:
            told.append(f"  and {more} more")
        raise ToolMissing(
            f"{program.name} cannot be run here; nothing was run. What cannot be:",
            "\n".join(told),
        ) from None


def _scratch(reader: Reader, variant: Variant, launch: TraceLaunch) -> tuple[int, ...]:
    """Bytes of the pointers that Triton appends, for all programs of the launch."""
    path = Path(reader.recording.real or reader.recording.path)
    if not is_recording(path):
        return 0, 0
    need = scratch(read_events(path).events).get(variant.hash, (0, 0))
    return tuple(each * launch.blocks for each in need)


def read_arrays(path: Path) -> Mapping[str, Array]:
    """The arrays of an .npz by name. Nothing in it is unpickled. Raises ``Unreadable``."""
    if not files.is_zip(path):
        files.opened(path).close()
        raise Unreadable(f"{path} is no .npz: numpy.savez writes one")
    archive = files.archive(path)
    out: dict[str, Array] = {}
    for member in archive.names:
        if member.endswith(".npy"):
            out[member.removesuffix(".npy")] = _array(archive.read(member), f"{member} in {path}")
    return out


def _array(data: bytes, what: str) -> Array:
    """An array of a .npy. Raises ``Unreadable`` for what is none, or holds Python's objects."""
    stream = io.BytesIO(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shape, by_columns, dtype = _head(stream)
    except NO_ARRAY as error:
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise Unreadable(f"{what} is no array: {said[:200]}") from None
    if dtype.hasobject or dtype.names or dtype.kind not in "biufc":
        raise Unreadable(f"{what} holds {dtype}, and no numbers")
    rest = data[stream.tell() :]
    if any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize != len(rest):
        raise Unreadable(f"{what} is damaged: its size is not that of its shape")
    found = np.frombuffer(rest, dtype.newbyteorder("="))
    if not dtype.isnative:
        found = np.frombuffer(rest, dtype).astype(dtype.newbyteorder("="))
    return found.reshape(shape, order="F" if by_columns else "C")


def _head(stream: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and dtype, as the head of a .npy says them."""
    version = np.lib.format.read_magic(stream)
    read = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
    if version[0] not in read:
        raise ValueError(f"version {version[0]} of the format")
    return read[version[0]](stream)
