"""Which of a kernel's arguments it writes, from its TTIR: what is absent where it is not run."""

from __future__ import annotations

import re

_VALUE = re.compile(r"%[\w.$-]+")
# The first operand is the place written.
_WRITES = (
    "tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_store", "tt.descriptor_store",
    "tt.descriptor_scatter", "tt.descriptor_reduce", "tt.experimental_descriptor_store",
)  # fmt: skip
# Operations whose result is data and no longer a pointer into an argument.
_READS = ("tt.load", "tt.descriptor_load", "tt.descriptor_gather", "tt.atomic", "tt.dot")


def written_arguments(ttir: str) -> set[int] | None:
    """Positions, among the TTIR function's parameters, that some store may reach.

    None where the text has calls or forms that this reading does not follow.
    """
    lines = ttir.splitlines()
    start = next((i for i, line in enumerate(lines) if "tt.func public" in line), None)
    if start is None or any(_opaque(line) for line in lines):
        return None
    names = parameters(ttir)
    origins: dict[str, set[int]] = {name: {i} for i, name in enumerate(names)}
    body = lines[start + 1 :]
    written: set[int] = set()
    for _ in range(3):  # values carried by loops come round again
        loops: list[list[str]] = []
        for line in body:
            code = line.split(" loc(")[0]
            results, _, right = code.partition(" = ") if " = " in code else ("", "", code)
            operands = _VALUE.findall(right)
            reached = set().union(*(origins.get(_base(v), set()) for v in operands), set())
            if any(op in right for op in _WRITES) and operands:
                written |= origins.get(_base(operands[0]), set())
            if "iter_args(" in code or "scf.while" in code:
                # All that a loop carries is taken as one.
                carried = _VALUE.findall(right) + [_base(v) for v in _VALUE.findall(results)]
                loops.append(carried)
                for value in carried:
                    origins.setdefault(_base(value), set()).update(reached)
            elif "scf.yield" in code or "scf.condition" in code:
                for value in loops[-1] if loops else ():
                    origins.setdefault(_base(value), set()).update(reached)
            elif results and not any(op in right for op in _READS):
                for value in _VALUE.findall(results):
                    origins.setdefault(_base(value), set()).update(reached)
    return written


def parameters(ttir: str) -> list[str]:
    """The names of the kernel's parameters in the TTIR: no constexpr is among them."""
    line = next((x for x in ttir.splitlines() if "tt.func public" in x), "")
    return re.findall(r"(%[\w.$-]+): ", line)


def _opaque(line: str) -> bool:
    return " tt.call " in line or ("inline_asm" in line and "pure = true" not in line)


def _base(value: str) -> str:
    """``%5#1`` and ``%5:2`` are parts of ``%5``."""
    return value.split("#")[0].split(":")[0]
