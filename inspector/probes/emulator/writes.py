"""Which memory a kernel may write, from its PTX: absent where the kernel is not run.

Registers are followed without regard to control flow: a register may hold an address if it is
computed, without a factor, from a parameter, a module's variable, or memory that one of them points
at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

_STATEMENT = re.compile(r"(?:@!?%[\w$]+\s+)?([a-z]\w*(?:[.:]+\w+)*)\s+(.*)", re.DOTALL)
_OPERAND = re.compile(r"(?:\[[^\[\]]*+\]|\{[^{}]*+\}|[^,\[{])++")
_VARIABLE = re.compile(
    r"^[ \t]*+(?:\.(?:visible|extern|weak|common)\s++)?\.global"
    r"(?:\s++(?:\.\w++(?:\([^()\n]*+\))?|\d++))*+\s++([\w$]++)(?:\[\d*+\])*+\s*+[;={]",
    re.MULTILINE,
)
_NAME = re.compile(r"[%\w$]+")
# A factor or a wider type makes an index of a number, never an address.
_NO_ADDRESS = re.compile(r"setp?\.|shl\.|mul|cvt\..*(?:8|16|32)$")
_SPACE = re.compile(r"\.(global|shared|local|param)\b")
_READS = ("ld", "prefetch", "mbarrier", "tex")
_SPILLED = "(spilled)"  # the contents of shared and local memory, and of functions' arguments
_TENSOR_MAPS = "(tensor maps)"  # the addresses in tensor maps that the kernel writes itself


class Written(NamedTuple):
    """The memory that a kernel's stores may reach."""

    direct: frozenset[str]
    """Parameters and variables whose own memory is written."""
    anywhere: bool
    """Whether a store goes through an address that memory holds, as in a grouped product."""


@lru_cache(maxsize=256)
def written(ptx: str, entry: str) -> Written:
    """Find what a kernel of this PTX may write."""
    names = {*parameters(ptx, entry), *variables(ptx)}
    found = (_step(statement, names) for statement in _statements(ptx, entry))
    steps = [step for step in found if step is not None]
    # Of each register: what its value is computed from, and whether that was loaded from there.
    values: dict[str, set[tuple[str, bool]]] = {name: {(name, False)} for name in names}
    reached: set[tuple[str, bool]] = set()
    size = -1
    while size != (size := len(reached) + sum(map(len, values.values()))):
        for results, sources, loads_them in steps:
            origins = set().union(*(values.get(name, ()) for name in sources))
            if loads_them is None:
                reached |= origins
            for name in results:
                values.setdefault(name, set()).update(
                    (origin, loaded or bool(loads_them)) for origin, loaded in origins
                )
    direct = frozenset(name for name, loaded in reached if not loaded)
    return Written(direct, any(loaded for _, loaded in reached))


def parameters(ptx: str, entry: str) -> list[str]:
    """The names of a kernel's parameters, in order."""
    head = re.search(rf"\.entry\s+{re.escape(entry)}\s*\(([^)]*)\)", ptx)
    listed = head[1].split(",") if head else []
    return [_NAME.findall(re.sub(r"\[\d*\]", "", one))[-1] for one in listed if one.strip()]


def variables(ptx: str) -> list[str]:
    """The names of a module's variables in global memory."""
    return _VARIABLE.findall(ptx)


def used(ptx: str, entry: str, names: Iterable[str]) -> list[str]:
    """Those of the names that a kernel, or a function that it may call, has in its code."""
    words = {word for code in _statements(ptx, entry) for word in _NAME.findall(code)}
    return [name for name in names if name in words]


def _statements(ptx: str, entry: str) -> Iterator[str]:
    """The statements of a kernel, and of all functions that are not kernels."""
    text = re.sub(r"//[^\n]*+|^[ \t]*+\.loc\b[^\n]*+", "", ptx, flags=re.MULTILINE)
    for number, part in enumerate(re.split(r"(?=\.(?:entry|func)\b)", text)[1:]):
        if part.startswith(".func") or re.match(rf"\.entry\s+{re.escape(entry)}\b", part):
            for statement in part.partition("{")[2].split(";"):
                # Each function has its own registers.
                yield re.sub(r"^(?:\s|[{}]|[\w$]+:)+", "", statement).replace("%", f"%{number}_")


def _step(statement: str, names: set[str]) -> tuple[list[str], list[str], bool | None] | None:
    """Results and sources of one statement, and whether it loads through the sources.

    None instead of the latter for a store, which writes where its sources point at; None alone if
    the statement moves no address. ``names`` are parameters and variables.
    """
    match = _STATEMENT.match(statement)
    texts = _OPERAND.findall(match[2]) if match else []
    if match is None or not texts or _NO_ADDRESS.match(match[1]):
        return None
    opcode, operands = match[1], [_NAME.findall(text) for text in texts]
    everything = [name for operand in operands[1:] for name in operand]
    memory = [found[0] for found, text in zip(operands, texts, strict=True) if "[" in text]
    space = _SPACE.search(opcode)
    private = space is not None and space[1] != "global"
    if opcode.startswith(("mad", "fma")):
        return operands[0], operands[-1], False
    if not memory:
        return operands[0], everything, False
    if opcode.startswith(_READS):
        return operands[0], memory if memory[0] in names or not private else [_SPILLED], not private
    if opcode.startswith("tensormap.replace") and "global_address" in opcode:
        return [_TENSOR_MAPS], everything, False
    if private:
        return [_SPILLED], everything, len(memory) > 1
    return [], [memory[0], *([_TENSOR_MAPS] if "tensor" in opcode else [])], None
