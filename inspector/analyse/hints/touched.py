"""The accesses of a kernel's first warp, under every assumption that its launch leaves open."""

from __future__ import annotations

from inspector.analyse.hints.subject import HintSubject
from inspector.analyse.hints.warp import Arguments, Warp, WarpAccess
from inspector.listing.ptx_code import PtxFunction
from inspector.listing.ptx_statement import SpecialOperand

SHAPES = ((32, 32, 1), (16, 16, 1), (8, 8, 8), (64, 4, 1))
"""Blocks that a kernel of two or three dimensions may be launched with."""

Run = dict[int, WarpAccess]
"""Accesses by their line of PTX."""


def runs(subject: HintSubject, scalar: int = 1000003) -> tuple[Run, ...]:
    """The accesses of the first warp; once for each shape that the block may have.

    ``scalar`` replaces the arguments that are not known.
    """
    code = subject.ptx_code
    if code is None:
        return ()
    touched = subject.memo.get(("touched", scalar))
    if not isinstance(touched, tuple):
        given = arguments(subject, scalar)
        touched = tuple(
            {a.line: a for a in Warp(code, shape, given).accesses}
            for shape in _shapes(subject, code)
        )
        subject.memo["touched", scalar] = touched
    return touched


def arguments(subject: HintSubject, scalar: int = 1000003) -> Arguments:
    """Known facts about the kernel's parameters: Triton's specialisation, and the launch."""
    names = parameters(subject)
    sixteenths = frozenset(at for at, name in enumerate(names) if name in divisible(subject))
    numbers = {}
    if subject.launch is not None and subject.launch.kind == "triton":
        values = {argument.name: argument.value for argument in subject.launch.arguments}
        for at, name in enumerate(names):
            value = values.get(name)
            if isinstance(value, int):
                numbers[at] = int(value)
    return Arguments(tuple(sorted(numbers.items())), sixteenths, scalar)


def parameters(subject: HintSubject) -> tuple[str, ...]:
    """Names of a Triton kernel's parameters as its PTX has them: constants are compiled in."""
    constant = {
        name for name, said in _specialised(subject) if any(s[0] == "constant" for s in said)
    }
    return tuple(
        name
        for name, kind in subject.variant.signature.items()
        if kind != "constexpr" and name not in constant
    )


def divisible(subject: HintSubject) -> frozenset[str]:
    """Arguments that Triton compiled for as multiples of 16."""
    return frozenset(n for n, said in _specialised(subject) if ("tt.divisibility", 16) in said)


def _specialised(subject: HintSubject) -> list[tuple[str, list[tuple[object, ...]]]]:
    """What Triton knew of each argument: pairs of a property and its value."""
    return [
        (name, [tuple(s) for s in said if isinstance(s, list | tuple) and s])
        for name, said in subject.variant.specialization.items()
        if isinstance(said, list | tuple)
    ]


def _shapes(subject: HintSubject, code: PtxFunction) -> tuple[tuple[int, int, int], ...]:
    if subject.block is not None:
        return (subject.block,)
    named = {
        o.name for row in code.instructions for o in row.operands if isinstance(o, SpecialOperand)
    }
    if named & {"%tid.y", "%tid.z"}:
        return SHAPES
    return ((256, 1, 1),)
