"""Which memory a kernel may write, from its TTIR: what is absent where it is not run."""

from __future__ import annotations

import re
from typing import NamedTuple

_VALUE = re.compile(r"%[\w.$-]+")
# The first operand is the place written.
_WRITES = (
    "tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_store", "tt.descriptor_store",
    "tt.descriptor_scatter", "tt.descriptor_reduce", "tt.experimental_descriptor_store",
    "ttng.async_tma_copy_local_to_global", "ttng.async_tma_reduce", "ttng.async_tma_scatter",
)  # fmt: skip
# Operations whose result is what lies in memory: a pointer from there leads one step further.
_READS = ("tt.load", "tt.descriptor_load", "tt.descriptor_gather", "tt.atomic")
# Operations that no pointer comes out of.
_DATA = ("tt.dot",)
# Forms that hide where a pointer comes from: calls, warps with arguments of their own.
_OPAQUE = (" tt.call ", "tensormap_create", "ttg.warp_specialize")
# Further steps than these are taken for one.
MOST_STEPS = 3

# A parameter's position, and how many loads lie between it and the value.
_Origin = tuple[int, int]


class Written(NamedTuple):
    """What some store may reach, by position among the function's parameters."""

    arguments: frozenset[int]
    """Parameters that are written themselves."""
    behind: dict[int, int]
    """Parameters whose memory holds the addresses that are written, and at how many steps."""


def written(ttir: str) -> Written | None:
    """What a kernel may write; None where its text has forms that this reading does not follow."""
    lines = ttir.splitlines()
    start = next((i for i, line in enumerate(lines) if "tt.func public" in line), None)
    if start is None or any(_opaque(line) for line in lines):
        return None
    names = parameters(ttir)
    if "int_to_ptr" in ttir and "global_to_local" in ttir:
        return None  # addresses that go through shared memory
    origins: dict[str, set[_Origin]] = {name: {(i, 0)} for i, name in enumerate(names)}
    branched: set[_Origin] = set()
    reached: set[_Origin] = set()
    for _ in range(2 + MOST_STEPS):  # values carried by loops come round again
        # What each open region gives to: the values that its operation carries.
        regions: list[list[str]] = []
        for line in lines[start + 1 :]:
            code = line.split(" loc(")[0].strip()
            closed = regions.pop() if code.startswith("}") and regions else []
            results, _, right = code.partition(" = ") if " = " in code else ("", "", code)
            operands = _VALUE.findall(right)
            from_here: set[_Origin] = set()
            for value in operands:
                from_here |= origins.get(_base(value), set())
            if any(op in right for op in _WRITES) and operands:
                reached |= origins.get(_base(operands[0]), set())
            if "inline_asm" in right and "pure = true" not in right:
                reached |= from_here  # assembly may write at any address that it is given
            given = [_base(value) for value in _VALUE.findall(results)]
            if code.startswith("^bb"):  # what a loop or a branch hands to a block
                carried = next((r for r in reversed(regions) if r), None)
                from_here = set(branched)
                for value in carried or ():
                    from_here |= origins.get(value, set())
                given = [_base(value) for value in operands]
            elif code.startswith("cf."):
                branched |= from_here
            elif "iter_args(" in code or "scf.while" in code:
                # All that a loop carries is taken as one.
                given += [_base(value) for value in operands]
            elif "scf.yield" in code or "scf.condition" in code:
                given = next((r for r in reversed(regions) if r), [])
            elif any(op in right for op in _DATA):
                given = []
            elif any(op in right for op in _READS):
                from_here = {(i, min(steps + 1, MOST_STEPS)) for i, steps in from_here}
            for value in given:
                origins.setdefault(value, set()).update(from_here)
            if code.endswith("{"):
                regions.append(closed if code.startswith("}") else given)
    behind: dict[int, int] = {}
    # What is loaded is an address only where something takes it for one.
    addresses = any(form in ttir for form in ("int_to_ptr", "!tt.ptr<!tt.ptr", "inline_asm"))
    for position, steps in reached:
        if steps and addresses:
            behind[position] = max(steps, behind.get(position, 0))
    return Written(frozenset(i for i, steps in reached if not steps), behind)


def parameters(ttir: str) -> list[str]:
    """The names of the kernel's parameters in the TTIR: no constexpr is among them."""
    line = next((x for x in ttir.splitlines() if "tt.func public" in x), "")
    return re.findall(r"(%[\w.$-]+): ", line)


def _opaque(line: str) -> bool:
    return any(form in line for form in _OPAQUE)


def _base(value: str) -> str:
    """``%5#1`` and ``%5:2`` are parts of ``%5``."""
    return value.split("#")[0].split(":")[0]
