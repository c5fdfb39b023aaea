"""Which addresses the 32 lanes of a warp touch, computed by running a kernel's integer PTX.

One pass over the instructions in the order they are written, each on 32 values at once: that is
the first turn of every loop, of the first warp of one block. Integer arithmetic is carried out;
what depends on data that was read is not known, and neither is what comes out of an ``if``.
Arguments that no launch gives are stood in for by values chosen to be awkward: see ``Arguments``.
"""

from __future__ import annotations

import operator
import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, repeat

from inspector.listing.line import Kind, Line
from inspector.listing.ptx_operands import split

# -- integer instructions on 32 values at once ----------------------------------------------------
# Integer PTX instructions on 32 values at once. What is not known stays unknown (None).

Lanes = int | tuple[int, ...]

COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
}
_INTEGER_TYPE = re.compile(r"\.([bsuf]f?|pred)(8|16|32|64|128)?(?:x2)?\Z")


def width_of(opcode: str) -> int | None:
    """Bits of the type that an opcode ends in: 32 of ``ld.global.v4.b32``."""
    match = _INTEGER_TYPE.search(opcode)
    return int(match[2]) if match and match[2] else None


def _quotient(a: int, b: int) -> int:
    """Division towards zero; of nothing, all bits."""
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _logic3(a: int, b: int, c: int, table: int) -> int:
    out = 0
    for at in range(8):
        if table >> at & 1:
            x = a if at & 4 else ~a
            y = b if at & 2 else ~b
            z = c if at & 1 else ~c
            out |= x & y & z
    return out


def _inserted(a: int, b: int, start: int, count: int) -> int:
    mask = (1 << min(count, 64)) - 1 << min(start, 64)
    return (b & ~mask) | (a << min(start, 64) & mask)


def _permuted(a: int, b: int, choice: int) -> int:
    pool = (b & 0xFFFFFFFF) << 32 | a & 0xFFFFFFFF
    return sum((pool >> 8 * (choice >> 4 * k & 7) & 0xFF) << 8 * k for k in range(4))


OPERATIONS: dict[str, Callable[..., int]] = {
    "cvta": lambda a: a,
    "cvt": lambda a: a,
    "not": lambda a: ~a,
    "neg": lambda a: -a,
    "abs": abs,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "mul24": operator.mul,
    "mad": lambda a, b, c: a * b + c,
    "mad24": lambda a, b, c: a * b + c,
    "div": _quotient,
    "rem": lambda a, b: a - _quotient(a, b) * b if b else a,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": lambda a, b: a << min(b & 0xFFFFFFFF, 64),
    "shr": lambda a, b: a >> min(b & 0xFFFFFFFF, 64),
    "bfe": lambda a, b, c: a >> min(b, 64) & (1 << min(c, 64)) - 1,
    "bfi": _inserted,
    "lop3": _logic3,
    "prmt": _permuted,
    "selp": lambda a, b, p: a if p else b,
    "pack": lambda a, b: a & 0xFFFFFFFF | b << 32,
}
_HIGH = re.compile(r"(?:mul|mad)\.hi\b")
_FLOAT = re.compile(r"\.(?:b?f|tf)\d")


def compute(opcode: str, values: Sequence[Lanes | None]) -> Lanes | None:
    """The result of an integer instruction, wrapped to its type; None if it is not known."""
    base = opcode.partition(".")[0]
    if _FLOAT.search(opcode) or _HIGH.match(opcode):
        return None
    if base == "setp":
        function: Callable[..., int] = lambda a, b: int(COMPARE[opcode.split(".")[1]](a, b))  # noqa: E731
    elif base in OPERATIONS:
        function = OPERATIONS[base]
    else:
        return None
    known = [value for value in values if value is not None]
    if len(known) != len(values):
        return _despite(base, values)
    wrap = _wrapper(opcode, base)
    narrow = _signedness(opcode, base)
    try:
        if all(isinstance(value, int) for value in known):
            return wrap(function(*(narrow(value) for value in known)))  # type: ignore[arg-type]
        columns = [repeat(narrow(v), WARP) if isinstance(v, int) else map(narrow, v) for v in known]
        return tuple(map(wrap, map(function, *columns)))
    except (TypeError, ValueError, OverflowError):
        return None  # not as many operands as the instruction has


def _despite(base: str, values: Sequence[Lanes | None]) -> Lanes | None:
    """What is known though an operand is not: ``and`` with 0, ``or`` with true."""
    if base == "and" and 0 in values:
        return 0
    return None


def _same(value: int) -> int:
    return value


def _signedness(opcode: str, base: str) -> Callable[[int], int]:
    """Operands as the type reads them: for what depends on the sign."""
    if base not in ("div", "rem", "min", "max", "shr", "setp", "mul", "mad", "cvt", "bfe"):
        return _same
    match = re.search(r"\.([su])(8|16|32|64)\Z", opcode)
    if match is None:
        return _same
    bits = int(match[2])
    return _signed(bits) if match[1] == "s" else _unsigned(bits)


def _wrapper(opcode: str, base: str) -> Callable[[int], int]:
    if base in ("setp", "cvta"):
        return _same
    if base == "cvt":
        match = re.search(r"\.([subf])(8|16|32|64)\.", opcode)
    else:
        match = re.search(r"\.([subp])(8|16|32|64)\Z", opcode)
    if match is None:
        return _same if not opcode.endswith(".pred") else lambda v: v & 1
    bits = int(match[2]) * (2 if ".wide" in opcode else 1)
    return _signed(bits) if match[1] == "s" else _unsigned(bits)


def _signed(bits: int) -> Callable[[int], int]:
    half, whole = 1 << bits - 1, 1 << bits
    return lambda value: (value + half) % whole - half


def _unsigned(bits: int) -> Callable[[int], int]:
    mask = (1 << bits) - 1
    return lambda value: value & mask


# -- operands of one PTX statement ----------------------------------------------------------------
# The operands of one PTX statement, as written and in order: ``Line.uses`` has each register once.
#
# Guard, opcode and comments are left out; braces and brackets keep what is in them together.

_HEAD = re.compile(r"\s*+(?:@(!?)\s*+([%\w$]++)\s++)?([a-z_][\w.:]*+)\s*+")


def guard(text: str) -> tuple[str, bool] | None:
    """The predicate that guards a statement, and whether it is negated; None without a guard."""
    match = _HEAD.match(text)
    if match is None or match[2] is None:
        return None
    return match[2], match[1] == "!"


def operands(text: str) -> tuple[str, ...]:
    """The operands of a statement on one line; none where it is no statement."""
    match = _HEAD.match(text)
    if match is None:
        return ()
    rest = text[match.end() :].partition("//")[0].rpartition(";")[0]
    return tuple(split(rest))


WARP = 32
"""The same in every lane, or one value a lane."""

_ADDRESS = re.compile(r"\[\s*+([%\w$.]++)\s*+(?:([+-])\s*+(-?\w++))?+\s*+\]")
_ACCESS = re.compile(
    r"(ld|st|ldu|atom|red|cp|ldmatrix|stmatrix)\.(?:async\.c[ag]\.)?"
    r"(?:[\w:]+\.)*?(global|shared)\b(?:::cta)?(.*)"
)
_VECTOR = re.compile(r"\.v([248])\b")
_TYPE = re.compile(r"\.[bsuf]f?(8|16|32|64|128)(?:x2)?\Z")
_SCALED = frozenset(("mul", "mad", "shl", "div", "rem", "setp", "min", "max"))
_PARAMETER = re.compile(r"ld\.param\.(?:\w+\.)*[bsuf](8|16|32|64)\Z")
_SPECIAL = re.compile(r"%(n?tid|n?ctaid)\.([xyz])\Z")
_BLOCK_ID = {"x": 5, "y": 3, "z": 2}
_GRID = {"x": 4099, "y": 67, "z": 5}


@dataclass(frozen=True, slots=True)
class Arguments:
    """What the kernel's parameters hold, by their place in the list.

    ``known`` are a launch's own, place and value. The others are ``scalar`` (a large odd number by
    default: a stride that nothing is known of), times 16 where ``sixteenths`` says that they are a
    multiple of it; pointers are far apart and aligned, as allocators return them.
    """

    known: tuple[tuple[int, int], ...] = ()
    sixteenths: frozenset[int] = frozenset()
    scalar: int = 1000003

    def value(self, index: int, pointer: bool) -> int:
        """The value of one parameter."""
        if pointer:
            return (index + 1) << 40
        for at, value in self.known:
            if at == index:
                return value
        return self.scalar * 16 if index in self.sixteenths else self.scalar


@dataclass(frozen=True, slots=True)
class WarpAccess:
    """One access to memory by a warp. ``addresses`` are those of the lanes that take part.

    ``width`` is the bytes a lane moves, ``space`` is global or shared; ``block`` counts the
    stretches between labels and barriers, ``base`` is the register that the address is made of
    and ``offset`` what is added to it.
    """

    line: Line
    space: str
    store: bool
    width: int
    addresses: tuple[int, ...]
    block: int
    base: str
    offset: int


class Warp:
    """A kernel's accesses by one warp of a block of the given shape."""

    def __init__(
        self, lines: Sequence[Line], block: tuple[int, int, int], arguments: Arguments
    ) -> None:
        self._block = block
        self._arguments = arguments
        self._values: dict[str, Lanes | None] = {}
        """What is known, as most registers hold data; None is of what a symbol may be mistaken
        for."""
        self._scalars, self._several = _surveyed(lines)
        self._met: set[str] = set()
        self._again: set[str] = set()
        self._symbols: dict[str, int] = {}
        self.accesses: list[WarpAccess] = []
        self._stretch = 0
        for line in lines:
            if line.kind is Kind.LABEL or line.label is not None:
                self._join()
            if line.opcode is not None:
                self._run(line)

    # -- one instruction ----------------------------------------------------------------------

    def _join(self) -> None:
        """At a label, what was defined a second time may be either."""
        self._stretch += 1
        for name in self._again:
            self._know(name, None)
        self._again.clear()

    def _run(self, line: Line) -> None:
        opcode = line.opcode or ""
        if line.base in ("bar", "barrier"):
            self._stretch += 1
        match, computed = _kind_of(opcode)
        if match is not None:
            self._access(line, match[2], match[3])
        if not line.defs:
            return
        value = self._result(line, opcode) if computed else None
        mask = self._guard(line)
        for at, name in enumerate(line.defs):
            got = value[at] if value is not None and at < len(value) else None
            if mask is not True:
                got = _chosen(mask, got, self._values.get(name))
            if name in self._several:
                (self._again if name in self._met else self._met).add(name)
            self._know(name, got)

    def _know(self, name: str, value: Lanes | None) -> None:
        if value is not None or name[:1] != "%":
            self._values[name] = value
        else:
            self._values.pop(name, None)

    def _guard(self, line: Line) -> Lanes | bool | None:
        """True without a guard; else which lanes it lets through, None if that is unknown."""
        text = line.text.lstrip()
        if not text.startswith("@"):
            return True
        found = guard(text)
        value = self._values.get(found[0]) if found else None
        if found is None or value is None:
            return None
        return _each(lambda p: int(not p), value) if found[1] else value

    def _result(self, line: Line, opcode: str) -> list[Lanes | None] | None:
        words = operands(line.text)
        if line.base == "ld":
            return self._load(line, opcode, words)
        if len(words) < 2:
            return None
        if line.base == "mov":
            return self._move(words)
        if line.base == "shfl" and ".idx" in opcode and len(words) >= 3:
            source, lane = self._value(words[1]), self._value(words[2])
            if isinstance(lane, int) and source is not None:
                return [source if isinstance(source, int) else source[lane % WARP]]
            return None
        values = [self._value(word) for word in words[1:]]
        if line.base == "setp":
            return self._compare(opcode, words[0], values)
        out = compute(opcode, values)
        return [out]

    def _compare(
        self, opcode: str, target: str, values: list[Lanes | None]
    ) -> list[Lanes | None] | None:
        parts = opcode.split(".")
        if (
            len(values) < 2
            or len(parts) < 3
            or parts[-1][:1] in ("", "f")
            or parts[1] not in COMPARE
        ):
            return None
        out = compute(f"{parts[0]}.{parts[1]}.{parts[-1]}", values[:2])
        if len(values) == 3 and parts[2] in ("and", "or", "xor"):
            out = compute(f"{parts[2]}.pred", [out, values[2]])
        if "|" not in target:
            return [out]
        return [out, None if out is None else _each(lambda p: int(not p), out)]

    def _move(self, words: tuple[str, ...]) -> list[Lanes | None] | None:
        to, source = words[0], words[1]
        if to.startswith("{"):
            value, names = self._value(source), split(to.strip("{}"))
            if value is None or len(names) != 2:
                return None
            halves = [
                _each(lambda v: v & 0xFFFFFFFF, value),
                _each(lambda v: v >> 32 & 0xFFFFFFFF, value),
            ]
            return [h for h, name in zip(halves, names, strict=True) if name != "_"]
        if source.startswith("{"):
            parts = [self._value(word) for word in split(source.strip("{}"))]
            return [compute("pack.b64", parts)] if len(parts) == 2 else None
        return [self._value(source)]

    def _load(self, line: Line, opcode: str, words: tuple[str, ...]) -> list[Lanes | None] | None:
        match = _PARAMETER.match(opcode)
        if match is None or len(words) < 2:
            return None
        index = _index(words[1])
        if index is None:
            return None
        pointer = match[1] == "64" and line.defs[0] not in self._scalars
        return [self._arguments.value(index, pointer)]

    # -- operands -----------------------------------------------------------------------------

    def _value(self, word: str) -> Lanes | None:
        if not word:
            return None
        if word in self._values:
            return self._values[word]
        if word[0].isdigit() or (word[0] == "-" and word[1:2].isdigit()):
            return _literal(word)
        if word[0] == "%":
            return self._special(word)
        if word[0] == "!":
            value = self._value(word[1:])
            return None if value is None else _each(lambda p: int(not p), value)
        if re.fullmatch(r"[A-Za-z_$][\w$]*", word):
            return self._symbols.setdefault(word, (len(self._symbols) + 1) << 20)
        return None

    def _special(self, name: str) -> Lanes | None:
        width, height, _ = self._block
        if name == "%laneid":
            return tuple(range(WARP))
        if name == "%warpid":
            return 0
        match = _SPECIAL.match(name)
        if match is None:
            return None
        kind, axis = match[1], match[2]
        if kind == "ntid":
            return self._block["xyz".index(axis)]
        if kind == "ctaid":
            return _BLOCK_ID[axis]
        if kind == "nctaid":
            return _GRID[axis]
        lanes = range(WARP)
        if axis == "x":
            return tuple(lane % width for lane in lanes)
        if axis == "y":
            return tuple(lane // width % height for lane in lanes)
        return tuple(lane // (width * height) for lane in lanes)

    # -- memory -------------------------------------------------------------------------------

    def _access(self, line: Line, space: str, rest: str) -> None:
        address = _ADDRESS.search(line.text)
        if address is None:
            return
        offset = (_literal(address[3]) or 0) if address[3] else 0
        offset = -offset if address[2] == "-" else offset
        base, mask = self._value(address[1]), self._guard(line)
        if base is None or mask is None:
            return
        width = _moved(line, rest)
        if width is None:
            return
        places = (base,) * WARP if isinstance(base, int) else base
        active = self._threads(mask)
        where = tuple(p + offset for p, on in zip(places, active, strict=True) if on)
        if where:
            store = line.base in ("st", "stmatrix", "red", "atom")
            self.accesses.append(
                WarpAccess(line, space, store, width, where, self._stretch, address[1], offset)
            )

    def _threads(self, mask: Lanes | bool) -> tuple[bool, ...]:
        """Lanes that exist in the block and that the guard lets through."""
        width, height, depth = self._block
        on = (bool(mask),) * WARP if isinstance(mask, int) else tuple(map(bool, mask))
        return tuple(o and lane < width * height * depth for lane, o in enumerate(on))


def _surveyed(lines: Sequence[Line]) -> tuple[frozenset[str], frozenset[str]]:
    """64-bit parameters that are multiplied or compared, which are no pointers; and registers that
    are defined more than once, told apart by eight bytes each, as there may be many."""
    parameters: set[str] = set()
    defined, scaled = array("q"), array("q")
    for line in lines:
        defined.extend(map(hash, line.defs))
        if line.base == "ld" and line.defs and _PARAMETER.match(line.opcode or ""):
            parameters.add(line.defs[0])
        elif line.base in _SCALED:
            scaled.extend(map(hash, line.uses))
    several = {a for a, b in pairwise(sorted(defined)) if a == b}
    loaded = set(map(hash, parameters))
    numbers: set[str] = set()
    again: set[str] = set()
    for line in lines if several or any(one in loaded for one in scaled) else ():
        if line.base in _SCALED:
            numbers.update(parameters.intersection(line.uses))
        again.update(name for name in line.defs if hash(name) in several)
    return frozenset(numbers), frozenset(again)


@lru_cache(maxsize=4096)
def _kind_of(opcode: str) -> tuple[re.Match[str] | None, bool]:
    """How an instruction touches memory, and whether its result may be known."""
    base = opcode.partition(".")[0]
    computed = base in ("ld", "mov", "shfl", "setp") or (
        base in OPERATIONS and not _FLOAT.search(opcode) and not _HIGH.match(opcode)
    )
    return _ACCESS.match(opcode), computed


def _index(word: str) -> int | None:
    """Which parameter an address names: 2 of ``[kernel_param_2]``."""
    match = re.match(r"\[\s*[\w$]+_param_(\d{1,9}+)(?!\d)\s*\]", word)
    return int(match[1]) if match else None


def _moved(line: Line, rest: str) -> int | None:
    """Bytes that one lane moves."""
    if line.base == "cp":
        words = operands(line.text)
        size = _literal(words[2]) if len(words) > 2 else None
        return size if size in (4, 8, 16) else None
    if line.base in ("ldmatrix", "stmatrix"):
        return None
    width = width_of(line.opcode or "")
    if width is None:
        return None
    vector = _VECTOR.search(rest)
    return width // 8 * (int(vector[1]) if vector else 1)


def _literal(word: str) -> int | None:
    try:
        return int(word.rstrip("U"), 0)
    except ValueError:
        return None


def _each(function: Callable[[int], int], value: Lanes) -> Lanes:
    return function(value) if isinstance(value, int) else tuple(map(function, value))


def _chosen(mask: Lanes | bool | None, new: Lanes | None, old: Lanes | None) -> Lanes | None:
    """What a guarded instruction leaves in its result."""
    if mask is None:
        return None
    if isinstance(mask, int):
        return new if mask else old
    if new is None or old is None:
        return None
    a = (new,) * WARP if isinstance(new, int) else new
    b = (old,) * WARP if isinstance(old, int) else old
    return tuple(x if m else y for m, x, y in zip(mask, a, b, strict=True))
