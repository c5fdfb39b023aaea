"""What ``trace`` and ``step`` share: which kernel, which of its calls, with which inputs."""

from __future__ import annotations

import argparse
import io
import math
import tokenize
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from inspector.base.errors import Unreadable
from inspector.commands.common import open_reader, split_path
from inspector.execute.calls.inputs import Array
from inspector.execute.calls.tracing import BUDGET, Triple, parse_place, parse_sizes
from inspector.measure.recorded_launch import ChosenLaunch, LaunchWish, choose_launch
from inspector.reader.selecting import select_one
from inspector.report.tables import need_compiled
from inspector.system import files

NO_ARRAY = (
    ValueError,
    SyntaxError,
    TypeError,
    LookupError,
    MemoryError,
    RecursionError,
    AttributeError,
    OverflowError,
    tokenize.TokenError,
)
"""What numpy raises on an invalid header of an array."""


def takes_launch(parser: argparse.ArgumentParser) -> None:
    """The words and options that say what is launched."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="[PATH] KERNEL",
        help="recording or file, and kernel: a name, glob, variant id or NAME#2",
    )
    parser.add_argument(
        "--call",
        type=int,
        metavar="N",
        help="number of the recorded call (default: the most frequent; see list --calls)",
    )
    parser.add_argument(
        "--inputs",
        type=Path,
        metavar="FILE.npz",
        help="arrays by argument name, without dimensions for numbers, in place of new ones",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of new inputs (0)")
    parser.add_argument(
        "--grid", type=triple, metavar="X[,Y,Z]", help="blocks, in place of the call's"
    )
    parser.add_argument(
        "--threads",
        type=triple,
        metavar="X[,Y,Z]",
        help="threads of a block, in place of the call's",
    )
    parser.add_argument(
        "--shared",
        type=amount,
        metavar="BYTES",
        help="dynamic shared memory of a block, in place of the call's",
    )
    parser.add_argument(
        "--budget",
        type=amount,
        default=BUDGET,
        metavar="N",
        help=f"lane-instructions after which it is given up ({BUDGET:.0e})".replace("+0", ""),
    )


def triple(text: str) -> Triple:
    """``1823``, ``64,4``, ``3,1,0``."""
    try:
        x, y, z = (*parse_sizes(text), 1, 1)[:3]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return x, y, z


def place(text: str) -> Triple:
    """Coordinates: ``7``, ``3,1,0``; those that are left out are 0."""
    try:
        return parse_place(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def amount(text: str) -> int:
    """``4096``, ``2e9``."""
    try:
        value = float(text)
        if value >= 0 and value == int(value) and math.isfinite(value):
            return int(text) if text.isdecimal() else int(value)
    except (ValueError, OverflowError):
        pass
    raise argparse.ArgumentTypeError(f"{text} is not a whole number")


def chosen_launch(args: argparse.Namespace, parser: argparse.ArgumentParser) -> ChosenLaunch:
    """What the words and options mean. Raises PtxviewError; nothing has been run yet."""
    if len(args.words) > 2:
        parser.error("give at most a PATH and a KERNEL")
    path, selector = split_path(args.words)
    reader = open_reader(path)
    kernel, variant = select_one(reader.recording, selector)
    need_compiled(kernel, variant)
    given = {} if args.inputs is None else read_arrays(args.inputs)
    wish = LaunchWish(args.call, args.grid, args.threads, args.shared, given, args.seed)
    return choose_launch(reader, kernel, variant, wish)


def read_arrays(path: Path) -> Mapping[str, Array]:
    """The arrays of an .npz by name. Nothing in it is unpickled. Raises ``Unreadable``."""
    if not files.is_zip(path):
        files.opened(path).close()
        raise Unreadable(f"{path} is not an .npz: numpy.savez writes one")
    archive = files.archive(path)
    out: dict[str, Array] = {}
    for member in archive.names:
        if member.endswith(".npy"):
            out[member.removesuffix(".npy")] = _array(archive.read(member), f"{member} in {path}")
    return out


def _array(data: bytes, what: str) -> Array:
    """An array of a .npy. Raises ``Unreadable`` if it is invalid or holds Python objects."""
    stream = io.BytesIO(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shape, by_columns, dtype = _head(stream)
    except NO_ARRAY as error:
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise Unreadable(f"{what} is not an array: {said[:200]}") from None
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
