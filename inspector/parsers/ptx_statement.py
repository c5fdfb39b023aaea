"""PTX grammar: comments, labels, instructions with their operands, declarations.

Written from the PTX ISA, chapters "Syntax", "Instruction Operands", "State Spaces, Types, and
Variables" and "Directives". One tree of operands serves lines, sentences, flow and execution;
``OperandReader`` takes names as they are written, and a subclass resolves them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from math import prod
from sys import intern
from typing import NamedTuple

from inspector.base.names import at_commas, words
from inspector.parsers.line import Function, Listing, code_of

# -- names, labels, headers, comments -------------------------------------------------------------

_COMMENT_OR_STRING = re.compile(r'//|/\*|"')
_NAME = re.compile(r"[\w$%]++")
WORD = re.compile(r"\s*+(\.?+[\w$@]++)")
FUNCTION = re.compile(r"\.(?:entry|func)\b")
LABEL = re.compile(r"\s*+([\w$%.]++)\s*+:(?!:)")
"""A label with its colon."""
SYMBOL = re.compile(r"[A-Za-z_$%][\w$]*+")
"""A name of the program's own: a register, a variable, a label, a function."""
REGISTER_RANGE = re.compile(r"([%\w$]++)\s*+(?:<\s*+(\d{1,9})\s*+>)?")
"""A register as ``.reg`` declares it, and how many: ``%r<33>`` are %r0 to %r32."""
DECLARED = re.compile(rf"(?<![%\w$]){REGISTER_RANGE.pattern}\s*+(?=[,;]|\Z)")
"""One register of a list that ``.reg`` declares."""
HEADER = re.compile(r"\s*+(?:\.[a-z]++\s++)*?\.(entry|func)\b")

AHEAD = 64
"""Most lines that are read for the rest of a statement."""


def strip(text: str, comment: bool) -> tuple[str, bool]:
    """The code of a line (comments cut out, strings emptied) and whether a comment is left open."""
    if not comment and "/" not in text and '"' not in text:
        return text, False
    code, until = code_of(text, "*/" if comment else "", _COMMENT_OR_STRING)
    return code, until == "*/"


NO_RESULT = words(
    "bra brx call ret exit trap brkpt nanosleep pmevent bar barrier membar fence setmaxnreg "
    "griddepcontrol stackrestore st red prefetch prefetchu discard applypriority wgmma "
    "cp stmatrix sust tensormap fabric"
)
"""Instructions whose first operand is no destination (unless ``_HAS_RESULT`` says otherwise)."""

_HAS_RESULT = re.compile(r"(?:bar|barrier)\.(?:\w+\.)?red\b|wgmma\.mma_async|tensormap\.query\b")
_NO_RESULT_FORM = re.compile(r"tcgen05\.(?!ld\b)|mbarrier\.(?:init|inval|expect_tx|complete_tx)\b")

BRANCHES = frozenset(("bra", "brx", "call"))

KNOWN = NO_RESULT | words(
    "abs add addc activemask alloca and atom bfe bfi bfind bmsk brev clmad clz cnot copysign cos "
    "createpolicy cvt cvta div dp2a dp4a elect ex2 fma fns getctarank isspacep istypep ld ldmatrix "
    "ldu lg2 lop3 mad mad24 madc mapa match max mbarrier min mma mov movmatrix mul mul24 multimem "
    "neg not or popc prmt rcp redux rem rsqrt sad selp set setp shf shfl shl shr sin slct sqrt "
    "stacksave sub subc suld suq sured szext tanh tcgen05 testp tex tld4 txq vabsdiff vabsdiff2 "
    "vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vote vset "
    "vset2 vset4 vshl vshr vsub vsub2 vsub4 wmma xor clusterlaunchcontrol spcompress spdecompress"
)
"""Known instructions, needed only if a statement has no ``;`` on its first line; so newer ones are
parsed as well."""

SPECIAL = words(
    "%tid %ntid %laneid %warpid %nwarpid %ctaid %nctaid %smid %nsmid %gridid "
    "%is_explicit_cluster %clusterid %nclusterid %cluster_ctaid %cluster_nctaid %cluster_ctarank "
    "%cluster_nctarank %lanemask_eq %lanemask_le %lanemask_lt %lanemask_ge %lanemask_gt %clock "
    "%clock_hi %clock64 %globaltimer %globaltimer_lo %globaltimer_hi %total_smem_size "
    "%aggr_smem_size %dynamic_smem_size %current_graph_exec %reserved_smem_offset_begin "
    "%reserved_smem_offset_end %reserved_smem_offset_cap %reserved_smem_offset_0 "
    "%reserved_smem_offset_1"
) | frozenset([f"%pm{i}" for i in range(8)] + [f"%envreg{i}" for i in range(32)])
"""Special registers, read-only values of the hardware: they are neither defined nor used."""

PLAIN = re.compile(
    r"[ \t]*+(?:@(!?+)[ \t]*+(%[\w$]++)[ \t]++)?([a-z][\w.]*+(?:::[\w.]++(?::\d[\w.]*+)?)*+)"
    r"(?:[ \t]++([%\w$.,{}\[\]+\-|! \t]*+))?;[ \t]*+(?://.*+)?\r?\Z",
    re.DOTALL,
)
"""One instruction on its own line: guard, opcode (``spcompress.b8.b4.sp::2:4.x1``), operands."""


_TWO_RESULTS = re.compile(r"tcgen05\.ld\.red\b|spcompress\b")
"""Instructions that write their second operand too: ``tcgen05.ld.red {%r1, %r2}, %r3, [%r4]``."""


def result_count(base: str, opcode: str) -> int:
    """How many of the first operands of ``opcode`` are destinations, unless they are addresses."""
    if base in NO_RESULT:
        return 1 if _HAS_RESULT.match(opcode) else 0
    if _TWO_RESULTS.match(opcode):
        return 2
    return 0 if _NO_RESULT_FORM.match(opcode) else 1


# -- operands and instructions --------------------------------------------------------------------

_FLAT = re.compile(r"[^\[\]{}()]*+(?:[\[{(][^\[\]{}(),]*+[\]})][^\[\]{}()]*+)*+\Z")
"""No comma stands within a bracket."""
_NUMBER = re.compile(
    r"(-?)\s*+(?:0[xX]([0-9a-fA-F]{1,40}+)|0[bB]([01]{1,160}+)|(\d{1,40}+))[uU]?\Z"
)
_HEX_FLOAT = re.compile(r"(-?)\s*+0(?:[fF]([0-9a-fA-F]{8})|[dD]([0-9a-fA-F]{16}))\Z")
_DECIMAL = re.compile(r"-?\s*+(?:\d++\.\d*+|\.\d++|\d++(?=[eE]))(?:[eE][+-]?\d++)?\Z")
INSTRUCTION = re.compile(
    r"\s*+(?:@(!?)\s*+([%\w$]++)\s*+)?([a-z_][\w.]*+(?:::[\w.]++(?::\d[\w.]*+)?)*+)"
    r"(?=[\s{\[(]|\Z)\s*+(.*)\Z",
    re.DOTALL,
)
_REGISTER = re.compile(r"(%[\w$]++)(?:\.(\w++))?")
_ADDED = re.compile(r"([^\d+\-\s][^+\-\s]*)\s*([+-].*)\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RegisterOperand:
    """A register; ``negated``: written ``!%p`` or ``-%r``, ``part``: ``x`` of ``%v.x``.

    ``number`` is its place in ``PtxFunction.registers``, -1 where names are not resolved.
    """

    number: int
    negated: bool = False
    name: str = ""
    part: str = ""


@dataclass(frozen=True, slots=True)
class SpecialOperand:
    """A read-only value of the hardware, such as ``%tid.x``."""

    name: str


@dataclass(frozen=True, slots=True)
class ImmediateOperand:
    """A constant as it is written: ``-1``, ``0f3F800000``, ``0x1F``."""

    text: str

    @property
    def value(self) -> int | float | None:
        """The number; of ``0f3F800000`` that of its bits. None if it is no number."""
        integer = number(self.text)
        return real(self.text) if integer is None else integer


@dataclass(frozen=True, slots=True)
class SymbolOperand:
    """The address of a variable, or the name of a function or a label; ``offset`` in bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class AddressOperand:
    """``[base+offset]``; ``further_operands``: others in the brackets (a TMA's coordinates)."""

    base: Operand
    offset: int = 0
    further_operands: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class VectorOperand:
    """``{a, b}``, or the list in a call's parentheses."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class PairOperand:
    """``p|q``: two destinations."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class SinkOperand:
    """``_``: a result that is discarded."""


Operand = (
    RegisterOperand
    | SpecialOperand
    | ImmediateOperand
    | SymbolOperand
    | AddressOperand
    | VectorOperand
    | PairOperand
    | SinkOperand
)

SINK = SinkOperand()

MAX_STATEMENT_CHARS = 1 << 16
MAX_NESTING = 8
"""Brackets within brackets of an operand that are read."""
MAX_KNOWN_OPERANDS = 1024


@dataclass(frozen=True, slots=True)
class PtxInstruction:
    """One instruction. ``parts`` is the opcode split at its dots, the base first.

    It runs if its ``guard`` is true, or, where that is ``negated``, false.
    """

    line: int
    opcode: str
    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: RegisterOperand | None = None

    @property
    def base(self) -> str:
        return self.parts[0]

    @property
    def kind(self) -> str:
        """The last type that the opcode names, usually that of its operands."""
        return self.parts[-1]

    def accesses(self) -> tuple[list[RegisterOperand], list[RegisterOperand]]:
        """The registers that its operands write, and those that they and its guard read."""
        written: list[RegisterOperand] = []
        read = [] if self.guard is None else [self.guard]
        operands = self.operands
        first = operands[0] if operands else SINK
        if self.base == "call":
            results = int(isinstance(first, VectorOperand))
        elif isinstance(first, AddressOperand):
            results = 0
        else:
            results = result_count(self.base, self.opcode)
        for operand in operands[:results]:
            written += registers_of(operand)
        if self.base == "wgmma":  # the accumulators are read as well
            read += written
        for operand in operands[results:]:
            read += [operand] if isinstance(operand, RegisterOperand) else registers_of(operand)
        return written, read

    def registers(self) -> tuple[list[int], list[int]]:
        written, read = self.accesses()
        return [r.number for r in written], [r.number for r in read]


def registers_of(operand: Operand) -> list[RegisterOperand]:
    match operand:
        case RegisterOperand():
            return [operand]
        case AddressOperand(base, _, further_operands):
            return [r for part in (base, *further_operands) for r in registers_of(part)]
        case VectorOperand(elements):
            return [r for part in elements for r in registers_of(part)]
        case PairOperand(first, second):
            return registers_of(first) + registers_of(second)
    return []


def registers_in(operand: Operand) -> list[int]:
    return [register.number for register in registers_of(operand)]


class OperandReader:
    """Reads instructions. ``names`` are registers without a ``%``; none gets a number here."""

    def __init__(self, names: frozenset[str] = frozenset()) -> None:
        self.declared = names
        self.operand_cache: dict[str, Operand] = {}

    def resolve_name(self, name: str) -> Operand:
        """What a name represents: a register, a special register, or any other symbol."""
        register_name, _, part = name.partition(".")
        if register_name in SPECIAL or name == "WARP_SZ":
            return SpecialOperand(name)
        if register_name in self.declared:
            return RegisterOperand(-1, False, intern(register_name), part)
        if match := _REGISTER.match(name):
            return RegisterOperand(-1, False, intern(match[1]), match[2] or "")
        return SymbolOperand(name)

    def instruction(self, code: str, line: int = 0) -> PtxInstruction | None:
        """The instruction in ``code``, which has no label and no ``;``, if it is one."""
        match = INSTRUCTION.match(code[:MAX_STATEMENT_CHARS])
        return None if match is None else self.build_instruction(line, *match.groups())

    def build_instruction(
        self,
        line: int,
        inverted: str | None,
        guard: str | None,
        opcode: str,
        operands_text: str | None,
    ) -> PtxInstruction:
        """An instruction of its parts."""
        predicate: RegisterOperand | None = None
        if guard is not None:
            guard_operand = self.operand(f"!{guard}" if inverted else guard)
            unknown = RegisterOperand(-1, bool(inverted), guard)
            predicate = guard_operand if isinstance(guard_operand, RegisterOperand) else unknown
        cached_operand = self.operand_cache.get
        operands = (
            tuple([cached_operand(o) or self.operand(o) for o in split(operands_text)])
            if operands_text
            else ()
        )
        return PtxInstruction(line, intern(opcode), parts_of(opcode), operands, predicate)

    def operand(self, text: str, depth: int = 0) -> Operand:
        """One operand; equal ones are one object."""
        cached = self.operand_cache.get(text)
        if cached is None:
            if len(self.operand_cache) > MAX_KNOWN_OPERANDS:
                self.operand_cache.clear()
            cached = self.operand_cache[text] = self._operand(text.strip(), depth + 1)
        return cached

    def _operand(self, text: str, depth: int) -> Operand:
        if depth > MAX_NESTING or text == "_":
            return SINK
        first = text[:1]
        if "|" in text[text.rfind("}") + 1 :]:
            a, _, b = text.rpartition("|")
            return PairOperand(self.operand(a, depth), self.operand(b, depth))
        if first == "[":
            inside = split(text[1:].rpartition("]")[0])
            base, offset = self._sum(inside[0]) if inside else (SINK, 0)
            return AddressOperand(base, offset, tuple(self.operand(o, depth) for o in inside[1:]))
        if first in ("{", "("):
            return VectorOperand(tuple(self.operand(o, depth) for o in split(text[1:-1])))
        if first == "!" or text.startswith("-%"):
            inner = self.operand(text[1:], depth)
            return replace(inner, negated=True) if isinstance(inner, RegisterOperand) else inner
        base, offset = self._sum(text)
        if isinstance(base, SymbolOperand) and offset:
            return SymbolOperand(base.name, offset)
        return base

    def _sum(self, text: str) -> tuple[Operand, int]:
        """``name+4`` or a name alone: the operand and the bytes added to it."""
        name = text.strip()
        offset = 0
        if match := _ADDED.match(name):
            tail = re.sub(r"\s+", "", match[2]).replace("+-", "-")
            if (added := number(tail.removeprefix("+"))) is not None:
                name = match[1]
                offset = added
        if name[:1].isdigit() or name[:1] in "-+.":
            return ImmediateOperand(name), offset
        return self.resolve_name(name), offset


@lru_cache(maxsize=1024)
def parts_of(opcode: str) -> tuple[str, ...]:
    """``ld``, ``global``, ``L1::no_allocate``, ``v4``, ``b32``."""
    return tuple(opcode.split("."))


def split(text: str) -> list[str]:
    """Parts at the commas outside every bracket."""
    if _FLAT.match(text):
        parts = [part.strip() for part in text.split(",")]
    else:
        parts = at_commas(text, "{[(", "}])")
    return parts if parts != [""] else []


def number(text: str) -> int | None:
    """An integer as PTX writes it: decimal, ``0x``, ``0b``, octal; None if it is not one."""
    digits = _NUMBER.match(text)
    if digits is None or len(text) > 80:
        return None
    minus, hexadecimal, binary, plain_digits = digits.groups()
    try:
        if plain_digits:
            value = int(plain_digits, 8 if plain_digits[0] == "0" else 10)
        else:
            value = int(hexadecimal, 16) if hexadecimal else int(binary, 2)
    except ValueError:  # 08
        return None
    return -value if minus else value


def real(text: str) -> float | None:
    """A floating-point constant: ``0f3F800000``, ``0d…`` (the bits), ``1.5``; None otherwise."""
    if match := _HEX_FLOAT.match(text):
        bits = bytes.fromhex(match[2] or match[3])
        value: float = struct.unpack(">f" if match[2] else ">d", bits)[0]
        return -value if match[1] else value
    if len(text) < 80 and _DECIMAL.match(text):
        return float(text.replace(" ", "").replace("\t", ""))
    return None


# -- types -------------------------------------------------------------------------------------

_TYPE = re.compile(
    r"(?:(?:bf|[busf])(8|16|32|64|128)|tf(32)|e(?:4m3|5m2)|(pred))(?:x(2|4|8|16))?\Z"
)
"""``f16x2``, ``b128``, ``e4m3x4``, ``pred``."""
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}


def type_bits(name: str) -> int | None:
    """The width of a type: 32 of ``f16x2``, 1 of ``pred``; None if it is no type."""
    match = _TYPE.match(name)
    if match is None:
        return None
    bits = 1 if match[3] else int(match[1] or match[2] or 8)
    return bits * int(match[4] or 1)


def access_bytes(words: Sequence[str]) -> int | None:
    """The bytes that one thread moves, by the words of an opcode or a declaration.

    16 of ``ld global v4 b32``, 1 of a predicate; None if no type is named.
    """
    widths = map(type_bits, reversed(words))
    bits = next((width for width in widths if width is not None), None)
    if bits is None:
        return None
    return max(1, bits // 8) * next((_VECTORS[word] for word in words if word in _VECTORS), 1)


# -- registers ---------------------------------------------------------------------------------

REGISTERS = re.compile(r"\.reg\b((?:\s*+\.[a-z]\w*+(?:\s++\d++)?)++)([^;]*+)")
"""A ``.reg``: its types, then its names. In a function's header it also ends at ``,`` or ``)``."""

_TYPE_WORD = re.compile(r"\.([a-z]\w*)")


class RegisterDeclaration(NamedTuple):
    """One ``.reg``. ``type`` is ``b32``, ``pred``, ``v2.f32``.

    ``names`` are as written, each with its count, None for a single register: ``%r<28>`` is
    ``("%r", 28)``, which declares ``%r0`` to ``%r27``.
    """

    type: str
    names: tuple[tuple[str, int | None], ...]

    @property
    def bits(self) -> int | None:
        """The width in bits of a register, or of an element of a vector; 1 for a predicate."""
        return type_bits(self.type.rpartition(".")[2])


_NUMBERED = re.compile(r"(.*?)(0|[1-9]\d{0,8})\Z", re.DOTALL)


def of_range(name: str) -> tuple[str, int] | None:
    """``("%r", 3)`` for ``%r3``, which ``%r<28>`` declares; None if it ends in no number."""
    match = _NUMBERED.match(name)
    return (match[1], int(match[2])) if match else None


def register_declarations(code: str) -> Iterator[RegisterDeclaration]:
    """Every ``.reg`` in code without comments."""
    for types, names in REGISTERS.findall(code):
        words = [word for word in _TYPE_WORD.findall(types) if word != "align"]
        rows = ((name, int(count) if count else None) for name, count in DECLARED.findall(names))
        yield RegisterDeclaration(".".join(words), tuple(rows))


# -- variables ---------------------------------------------------------------------------------

_VARIABLE = re.compile(
    r"((?:\s*+\.(?:attribute\s*+\([^()]*+\)|[a-z][\w:]*+(?:\s++\d++)?))*+)"
    r"\s*+([\w$%]++)((?:\s*+\[[^\[\]]*+\])*+)"
)
_WORD = re.compile(r"\.([a-z][\w:]*+)(?:\s++(\d++))?")
_SIZE = re.compile(r"\[([^\[\]]*+)\]")


class VariableDeclaration(NamedTuple):
    """A variable or a parameter.

    ``words`` are those before its name, each with its number if it has one: state space,
    alignment, type. ``sizes`` are those of an array, None for empty brackets. ``tail`` is the code
    after it, such as its initial value.
    """

    words: tuple[tuple[str, int | None], ...]
    name: str
    sizes: tuple[int | None, ...]
    tail: str = ""

    @property
    def type(self) -> str | None:
        """The type, such as ``u64``; None if none is named."""
        return next((word for word, _ in self.words if type_bits(word) is not None), None)

    @property
    def element_bytes(self) -> int:
        """Bytes of one element, or of a whole vector; 1 for a predicate, 4 if no type is named."""
        return access_bytes([word for word, _ in self.words]) or 4

    @property
    def size(self) -> int | None:
        """Bytes in all; None for an array with empty brackets."""
        counts = [count for count in self.sizes if count is not None]
        return self.element_bytes * prod(counts) if len(counts) == len(self.sizes) else None

    @property
    def element_count(self) -> int:
        """Elements in all; 0 with empty brackets, 1 of what is no array."""
        return prod(0 if size is None else size for size in self.sizes)

    @property
    def align(self) -> int | None:
        """Its own alignment in bytes; after ``.ptr``, ``.align`` is that of what it points to."""
        words_before_ptr = takewhile(lambda word: word[0] != "ptr", self.words)
        return next((value for word, value in words_before_ptr if word == "align"), None)


def variable_declaration(code: str) -> VariableDeclaration | None:
    """The variable that ``code`` declares, from its state space or type on; None if it does not."""
    match = _VARIABLE.match(code)
    if match is None:
        return None
    words = tuple(
        (word, int(value[:9]) if value else None) for word, value in _WORD.findall(match[1])
    )
    sizes = tuple(map(_size, _SIZE.findall(match[3])))
    return VariableDeclaration(words, match[2], sizes, code[match.end() :])


def _size(text: str) -> int | None:
    """A size, limited to 30 bits since the text is untrusted; None if it is no number."""
    size = number(text.strip())
    return None if size is None else min(size, 1 << 30)


_SPACES = ("global", "const", "shared", "local", "param", "reg", "tex")


@dataclass(frozen=True, slots=True)
class PtxVariable:
    """A variable or a parameter. ``size`` in bytes, 0 if ``.extern`` leaves it open.

    ``offset`` is a parameter's in bytes. ``initial`` are its initial values as they are written,
    one for each element. ``pointer``: declared to hold an address (``.ptr``).
    """

    name: str
    space: str
    kind: str
    align: int
    size: int
    line: int = 0
    initial: tuple[str, ...] = ()
    extern: bool = False
    array: bool = False
    pointer: bool = False
    offset: int = 0


def read_variable(statement: str, line: int, space: str = "") -> PtxVariable | None:
    """The variable or parameter that a statement declares; None if it declares none."""
    declaration = variable_declaration(statement)
    if declaration is None or not declaration.words:
        return None
    initializer = declaration.tail.strip()
    names = [word for word, _ in declaration.words]
    space = next((w for w in names if w in _SPACES), space)
    if (
        (initializer and initializer[0] != "=")
        or not space
        or (declaration.type is None and space != "tex")
    ):
        return None
    initial = _initial_values(initializer)
    element_bytes = 8 if declaration.type is None else declaration.element_bytes
    count = declaration.element_count or len(initial)
    return PtxVariable(
        declaration.name,
        space,
        declaration.type or "b64",
        declaration.align or element_bytes,
        element_bytes * count,
        line,
        initial,
        "extern" in names,
        bool(declaration.sizes),
        "ptr" in names,
    )


def _initial_values(initializer: str) -> tuple[str, ...]:
    """The values after a variable's ``=``, without the braces around them."""
    parts = [part.strip() for part in re.sub(r"[{}=]", " ", initializer).split(",")]
    return tuple(part for part in parts if part)


# -- headers -----------------------------------------------------------------------------------

MAX_HEADER_LINES = 4096
"""Most lines of a header that are read: more than 4,352 bytes of parameters need."""

_ENTRY = re.compile(r"^[^/\n]*\.entry\s++([\w$%.]++)", re.MULTILINE)
MAX_HEADER_CHARS = 20000
"""Most characters of a header that are read if no body follows."""
_BOUND = re.compile(
    r"\.(reqntid|maxntid|reqnctapercluster)\s++(\d{1,9}+)(?!\d)"
    r"(?:\s*+,\s*+(\d{1,9}+)(?!\d))?(?:\s*+,\s*+(\d{1,9}+)(?!\d))?"
)


@dataclass(frozen=True, slots=True)
class Header:
    """A kernel's header: ``block`` and ``block_limit``, threads by ``.reqntid`` and ``.maxntid``;
    ``cluster``, blocks by ``.reqnctapercluster``; None without the directive."""

    parameters: tuple[PtxVariable, ...] = ()
    block: tuple[int, int, int] | None = None
    block_limit: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None


def split_header(texts: Sequence[str]) -> tuple[str, int | None, str]:
    """The header without comments, up to its ``{``; the place of the line with it, None if there
    is none, and the code after it there."""
    parts: list[str] = []
    comment = False
    for n, text in enumerate(texts[:MAX_HEADER_LINES]):
        code, comment = strip(text[:MAX_STATEMENT_CHARS], comment)
        head, brace, tail = code.partition("{")
        parts.append(head)
        if brace:
            return "\n".join(parts), n, tail
    return "\n".join(parts), None, ""


def read_header(listing: Listing, function: Function) -> Header:
    text = split_header(listing.texts(function.first, function.last))[0]
    _, parameters = results_and_parameters(text, function.first)
    limits = thread_bounds(text)
    return Header(
        parameters, limits.get("reqntid"), limits.get("maxntid"), limits.get("reqnctapercluster")
    )


def thread_bounds(header: str) -> dict[str, tuple[int, int, int]]:
    """``reqntid``, ``maxntid`` and ``reqnctapercluster`` of a header, those that it has."""
    return {name: (int(x), int(y or 1), int(z or 1)) for name, x, y, z in _BOUND.findall(header)}


def entries(ptx: str) -> Iterator[tuple[str, str]]:
    """The kernels of a whole text by name, each with its header from the name on up to its ``{``.

    Takes time linear in the text, since there may be thousands.
    """
    entry = next(places := _ENTRY.finditer(ptx), None)
    while entry is not None:
        following = next(places, None)
        end = following.start() if following is not None else len(ptx)
        body = ptx.find("{", entry.end(), end)
        yield (
            entry[1],
            ptx[entry.end() : body if body >= 0 else min(end, entry.end() + MAX_HEADER_CHARS)],
        )
        entry = following


def results_and_parameters(
    header: str, line: int
) -> tuple[tuple[PtxVariable, ...], tuple[PtxVariable, ...]]:
    kind = FUNCTION.search(header)
    lists_text = header[kind.end() :].lstrip() if kind else ""
    lists = re.findall(r"\(([^()]*)\)", lists_text)
    results = lists.pop(0) if lists and lists_text[:1] == "(" else ""
    return _parameters_with_offsets(results, line), _parameters_with_offsets(
        lists[0] if lists else "", line
    )


def _parameters_with_offsets(text: str, line: int) -> tuple[PtxVariable, ...]:
    """Parameters, each at the next offset that its alignment allows, as the PTX ISA says."""
    out: list[PtxVariable] = []
    end = 0
    for part in split(text):
        if (variable := read_variable(part, line, "param")) is not None:
            out.append(replace(variable, offset=-(-end // variable.align) * variable.align))
            end = out[-1].offset + variable.size
    return tuple(out)
