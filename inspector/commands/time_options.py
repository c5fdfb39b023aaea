"""Options of ``time`` that are of a comparison, or of a plot."""

from __future__ import annotations

import argparse
from pathlib import Path

from inspector.errors import UsageError

SCRIPT_ONLY = ("sweep", "size", "csv")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add them."""
    parser.add_argument(
        "--roofline", action="store_true",
        help="plot operations a second over operations a byte, below the device's roofs",
    )  # fmt: skip
    parser.add_argument(
        "--bytes", type=amount, metavar="N",
        help="what one launch of KERNEL moves, instead of the estimate",
    )  # fmt: skip
    parser.add_argument(
        "--flops", type=amount, metavar="N",
        help="how many operations one launch of KERNEL does, instead of the estimate",
    )  # fmt: skip
    of_scripts = parser.add_argument_group(
        "comparison",
        "ptxview time SCRIPT.py runs the variants that the script declares on one input, as python "
        "SCRIPT.py would run it, holds their results against each other and ranks them. It "
        "declares VARIANTS, a dict of functions, and inputs(), which gives their arguments; "
        "reference(), bytes_of() and flops_of() of the arguments if it likes.",
    )
    of_scripts.add_argument(
        "--sweep", metavar="N=A:B:STEP",
        help="at sizes of inputs() from A to B; N=A:B:*2 doubles them, N=A,B,C names them",
    )  # fmt: skip
    of_scripts.add_argument(
        "--size", action="append", default=[], metavar="M=V", help="another size of inputs()"
    )
    of_scripts.add_argument("--csv", metavar="PATH", type=Path, help="write all rows as CSV")
    of_scripts.add_argument(
        "--png", metavar="PATH", type=Path, help="write the sweep's or the roofline's plot as PNG"
    )


def amount(text: str) -> int:
    """``1e9``, ``268435456``."""
    try:
        value = float(text)
        if value > 0 and value == int(value):
            return int(text) if text.isdecimal() else int(value)
    except (ValueError, OverflowError):
        pass
    raise argparse.ArgumentTypeError(f"{text} is no number of bytes or operations")


def check(args: argparse.Namespace) -> None:
    """What cannot be meant of a recording. Raises ``UsageError``."""
    for name in SCRIPT_ONLY:
        if getattr(args, name):
            raise UsageError(
                f"--{name} is of a comparison",
                "Name a script that declares its variants: ptxview time kernels/square.py",
            )
    if args.stored and (args.roofline or args.bytes or args.flops):
        raise UsageError("--roofline, --bytes and --flops are of times that are taken now")
    if args.png is not None and not args.roofline:
        raise UsageError("--png draws what --roofline asks for, or --sweep of a script")


def one_launch(count: int) -> None:
    """``--bytes`` and ``--flops`` are of one launch. Raises ``UsageError`` where there are more."""
    if count != 1:
        raise UsageError(
            f"--bytes and --flops are of one launch, and {count} are to be timed",
            "Name a variant by its id, with --calls 1.",
        )
