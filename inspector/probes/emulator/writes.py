"""Which memory a kernel may write, from its PTX: absent where the kernel is not run.

Registers are followed without regard to control flow: a register may hold an address if it is
computed, without a factor, from a parameter, a module's variable, or memory that one of them points
at. A grouped product gets a tensor of addresses; the memory behind those is absent too.
"""

import ctypes
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from . import shim

MAX_LOADS = 3
"""Loads counted between a parameter and an address computed from it."""

_STATEMENT = re.compile(r"(?:@!?%[\w$]+\s+)?([a-z]\w*(?:[.:]+\w+)*)\s+(.*)", re.DOTALL)
_OPERAND = re.compile(r"(?:\[[^\[\]]*+\]|\{[^{}]*+\}|[^,\[{])++")
# Not possessive: re of Python 3.11.2 does not go back from an alternative that fails within ()*+.
_VARIABLE = re.compile(
    r"^[ \t]*+(?:\.(?:visible|extern|weak|common)\s++)?\.global"
    r"(?:\s++(?:\.\w++(?:\([^()\n]*+\))?|\d++))*\s++([\w$]++)(?:\[\d*+\])*+\s*+[;={]",
    re.MULTILINE,
)
_NAME = re.compile(r"[%\w$]+")
# A factor or a wider type makes an index of a number, never an address.
_NO_ADDRESS = re.compile(r"setp?\.|shl\.|mul|cvt\..*(?:8|16|32)$")
_SPACE = re.compile(r"\.(global|shared|local|param)\b")
_READS = ("ld", "prefetch", "mbarrier", "tex")
_SPILLED = "(spilled)"  # the contents of shared and local memory, and of functions' arguments
_NARROW = "(32 bits) "  # before a register that holds a parameter's address, which cvt widens
_TENSOR_MAPS = "(tensor maps)"  # the addresses in tensor maps that the kernel writes itself

Origin = tuple[str, int]
"""A parameter or variable, and the number of loads between it and a value."""


class Written(NamedTuple):
    """The memory that a kernel's stores may reach, by names of parameters and variables."""

    direct: frozenset[str]
    """Names whose own memory is written."""
    behind: dict[str, int]
    """Names whose memory holds the addresses that are written, each with its number of loads."""


@lru_cache(maxsize=256)
def written(ptx: str, entry: str) -> Written:
    """Find what a kernel of this PTX may write."""
    names = {*parameters(ptx, entry), *variables(ptx)}
    reached = _stored_origins(ptx, entry, names)
    behind: dict[str, int] = {}
    for name, loads in reached:
        if loads:
            behind[name] = max(loads, behind.get(name, 0))
    return Written(frozenset(name for name, loads in reached if not loads), behind)


def _stored_origins(ptx: str, entry: str, names: set[str]) -> set[Origin]:
    """The origins of the addresses that a kernel's stores may write to.

    What each register may hold is followed until nothing is added any more.
    """
    parsed = (_step(statement, names) for statement in _statements(ptx, entry))
    steps = [step for step in parsed if step is not None]
    values: dict[str, set[Origin]] = {name: {(name, 0)} for name in names}
    reached: set[Origin] = set()
    size = -1
    while size != (size := len(reached) + sum(map(len, values.values()))):
        for results, sources, loads_them in steps:
            origins = set().union(*(values.get(name, ()) for name in sources))
            if loads_them is None:
                reached |= origins
            elif loads_them:
                origins = {(name, min(loads + 1, MAX_LOADS)) for name, loads in origins}
            for name in results:
                values.setdefault(name, set()).update(origins)
    return reached


def parameters(ptx: str, entry: str) -> list[str]:
    """The names of a kernel's parameters, in order."""
    head = re.search(rf"\.entry\s+{re.escape(entry)}\s*\(([^)]*)\)", ptx)
    listed = head[1].split(",") if head else []
    return [
        _NAME.findall(re.sub(r"\[\d*\]", "", declaration))[-1]
        for declaration in listed
        if declaration.strip()
    ]


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


_Step = tuple[list[str], list[str], bool | None]
"""Results and sources of one statement, and whether it loads through the sources.

None instead of the latter for a store, which writes where its sources point at.
"""


def _step(statement: str, names: set[str]) -> _Step | None:
    """What one statement does; None if it moves no address. ``names``: parameters, variables."""
    match = _STATEMENT.match(statement)
    texts = _OPERAND.findall(match[2]) if match else []
    if match is None or not texts:
        return None
    opcode = match[1]
    if opcode == "cvt.u64.u32":
        return _NAME.findall(texts[0]), [_NARROW + name for name in _NAME.findall(texts[1])], False
    if _NO_ADDRESS.match(opcode):
        return None
    operands = [_NAME.findall(text) for text in texts]
    everything = [name for operand in operands[1:] for name in operand]
    memory = [operand[0] for operand, text in zip(operands, texts, strict=True) if "[" in text]
    if opcode.startswith(("mad", "fma")):
        return operands[0], operands[-1], False
    if not memory:
        is_address = opcode in ("mov.b32", "mov.u32") and names.issuperset(everything)
        narrow = [_NARROW + name for name in operands[0]] if is_address else []
        return operands[0] + narrow, everything, False
    if opcode.startswith(_READS):
        private = _is_private(opcode)
        sources = memory if memory[0] in names or not private else [_SPILLED]
        return operands[0], sources, not private
    return _store_step(opcode, memory, everything)


def _is_private(opcode: str) -> bool:
    """Whether an access names a state space other than global memory."""
    space = _SPACE.search(opcode)
    return space is not None and space[1] != "global"


def _store_step(opcode: str, memory: list[str], everything: list[str]) -> _Step:
    """What a statement with an address in ``memory`` does that is no load."""
    if opcode.startswith("tensormap.replace") and "global_address" in opcode:
        return [_TENSOR_MAPS], everything, False
    if _is_private(opcode):
        return [_SPILLED], everything, len(memory) > 1
    written_names = [memory[0]]
    if "tensor" in opcode:
        written_names.append(_TENSOR_MAPS)
    return [], written_names, None


def behind(starts: Iterable[int], loads: int) -> set[int]:
    """Where the memory starts that as many loads lead to, from the memory at these addresses.

    Every word of 64 bits that is an address of device memory counts as a pointer. Memory whose
    value is absent leads nowhere: nothing can be read there.
    """
    import numpy as np

    pieces = shim.memory()
    firsts = np.array([first for first, _ in pieces], np.uint64)
    ends = np.array([end for _, end in pieces], np.uint64)

    def holding(addresses: Any) -> set[int]:
        """The numbers of the pieces of memory that hold one of these addresses."""
        words = np.unique(np.asarray(addresses, np.uint64))
        places = np.searchsorted(firsts, words, side="right").astype(np.int64) - 1
        return {int(i) for i, word in zip(places, words, strict=True) if i >= 0 and word < ends[i]}

    visited: set[int] = set()
    edge = holding(list(starts))
    for _ in range(loads):
        reached: set[int] = set()
        for piece in edge:
            first, end = pieces[piece]
            aligned = -(-first // 8) * 8
            if not shim.absence_at(first) and end - aligned >= 8:
                memory: Any = (ctypes.c_uint64 * ((end - aligned) // 8)).from_address(aligned)
                reached |= holding(np.frombuffer(memory, np.uint64))
        edge = reached - visited
        visited |= reached
    return {pieces[piece][0] for piece in visited}
