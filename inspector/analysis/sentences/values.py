"""Values of a PTX function's registers, derived from its instructions and its launch.

Only registers with exactly one definition are followed; any other goes by its own name together
with the line that reads it, since what it holds changes. Values are computed on request. Written
from the PTX ISA, chapters "Integer Arithmetic Instructions", "Logic and Shift Instructions",
"Data Movement and Conversion Instructions" and "Special Registers"; the ranges of blocks and grids
are those of the CUDA C++ Programming Guide, "Compute Capabilities".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from math import prod

from msgspec import Struct

from inspector.analysis.sentences import forms
from inspector.analysis.sentences.context import Context, Parameter
from inspector.analysis.sentences.forms import LinearForm
from inspector.parsers.line import Function, Kind, Line, Listing
from inspector.parsers.ptx_statement import (
    AHEAD,
    LABEL,
    MAX_STATEMENT_CHARS,
    AddressOperand,
    ImmediateOperand,
    Operand,
    OperandReader,
    PtxInstruction,
    RegisterOperand,
    SpecialOperand,
    SymbolOperand,
    VectorOperand,
    read_variable,
    register_declarations,
    registers_of,
    strip,
)

# -- statements -----------------------------------------------------------------------------------

MAX_FOLLOWED_LINES = 131072
"""Lines of a function that are gone through for where things are defined and used: as many as a
listing keeps parsed. In a longer function every register goes by its own name."""

MAX_USES = 16

MAX_HEAD_LINES = 1024
"""Lines before a function in which the variables of its file are looked for."""

_LINKING = re.compile(r"^(?:\.(?:visible|extern|weak|common)\s+)*")
"""What comes before a variable's state space: ``.extern .shared``."""

ALLOCATION = "tcgen05.alloc."
"""What the opcodes begin with that allocate tensor memory, and write its address."""

MAX_KEPT_LINES = 1024
"""Lines whose statements are kept taken apart."""


class Statements:
    """What is on each line of a function, and what leads from line to line. Lines count from 1.

    ``labels`` are lines by label, ``jumps`` the lines that may jump to one, ``tables`` the labels
    that a ``.branchtargets`` lists, by its own label, ``uses`` the first lines that use a register.
    """

    def __init__(self, listing: Listing, function: Function) -> None:
        self.listing = listing
        self.labels: dict[str, int] = {}
        self.jumps: dict[str, list[int]] = {}
        self.tables: dict[str, tuple[str, ...]] = {}
        self.uses: dict[str, list[int]] = {}
        self.instructions_on = lru_cache(MAX_KEPT_LINES)(self._instructions_on)
        """The instructions that begin on a line."""
        self.allocations: list[int] = []
        """The lines that allocate tensor memory."""
        self.alignments: dict[str, int] = {}
        """What the addresses of variables are multiples of, in bytes."""
        self._defined: dict[str, int] = {}
        self._bits: dict[str, int] = {}
        if function.last - function.first < MAX_FOLLOWED_LINES and function.first > 0:
            head_lines = min(function.first - 1, MAX_HEAD_LINES)
            for line in listing.between(1, head_lines):
                self._note_alignment(line)
            label = ""
            for line in listing.between(function.first, function.last):
                label = line.label or label
                if line.targets and line.kind is not Kind.INSTRUCTION:
                    self.tables[label] = line.targets
                self._index(line)
            for name, targets in self.tables.items():
                jumps = self.jumps.pop(name, [])
                for target in dict.fromkeys(targets):
                    self.jumps[target] = sorted({*self.jumps.get(target, ()), *jumps})

    def line(self, n: int) -> Line | None:
        lines = self.listing.lines
        return lines[n - 1] if 1 <= n <= len(lines) else None

    def _instructions_on(self, n: int) -> tuple[PtxInstruction, ...]:
        return tuple(self._read(n))

    def _read(self, n: int) -> Iterator[PtxInstruction]:
        line = self.line(n)
        if line is None or line.opcode is None:
            return
        reader = OperandReader(frozenset([r for r in (*line.defs, *line.uses) if r[0] != "%"]))
        for piece in self._code(n)[:MAX_STATEMENT_CHARS].split(";"):
            code = piece.strip()
            while code:
                if code[0] in "{}" and not code.startswith("{%"):
                    code = code[1:].lstrip()
                elif match := LABEL.match(code):
                    code = code[match.end() :].lstrip()
                else:
                    break
            if (instruction := reader.instruction(code, n)) is not None:
                yield instruction

    def _code(self, n: int) -> str:
        """The code of line ``n`` without comments and, where a statement goes on, what follows."""
        lines = self.listing.lines
        text = lines[n - 1].text
        closing = text.find("*/")
        code, comment = strip(text, closing >= 0 and text.find("/*", 0, closing) < 0)
        for line in lines[n : n + AHEAD]:
            if ";" in code or line.opcode is not None or line.kind is Kind.LABEL:
                break
            continuation, comment = strip(line.text, comment)
            if continuation.lstrip()[:1] != ".":
                code += " " + continuation
        return code

    def definition(self, register: str) -> int | None:
        """The line of a register's only definition, None if it has none, or several."""
        return self._defined.get(register) or None

    def bits(self, register: str) -> int:
        """The width that a register is declared with; 64 where it is not known."""
        family = register.rstrip("0123456789") + "<"
        return max(self._bits.get(register, 0), self._bits.get(family, 0)) or 64

    def undeclared(self, register: str) -> bool:
        """Whether a name without a number is no register of a function that declares some."""
        return bool(self._bits) and not register[-1].isdecimal() and register not in self._bits

    def _note_alignment(self, line: Line) -> None:
        """Note a variable: ``.shared .align 1024 .b8 tile[16384];``."""
        if line.kind is Kind.DIRECTIVE and ".align" in line.text:
            declared = line.text[line.text.find(".") :].strip().rstrip(";")
            variable = read_variable(_LINKING.sub("", declared), line.n)
            if variable is not None:
                self.alignments[variable.name] = variable.align

    def _index(self, line: Line) -> None:
        n = line.n
        self._note_alignment(line)
        if line.kind is Kind.DIRECTIVE and ".reg" in line.text:
            for declaration in register_declarations(strip(line.text, False)[0]):
                # ``%r<28>``: where a name is declared again, the widest counts
                for name, count in declaration.names:
                    key = name if count is None else f"{name}<"
                    self._bits[key] = max(declaration.bits or 0, self._bits.get(key, 0))
        for register in line.defs:
            # 0: defined more than once
            self._defined[register] = 0 if register in self._defined else n
        for register in line.uses:
            uses = self.uses.setdefault(register, [])
            if len(uses) < MAX_USES:
                uses.append(n)
        if line.label is not None:
            self.labels[line.label] = n
        if (line.opcode or "").startswith(ALLOCATION):
            self.allocations.append(n)
        if line.kind is Kind.INSTRUCTION:
            for target in line.targets:
                self.jumps.setdefault(target, []).append(n)


# -- special registers ----------------------------------------------------------------------------

BLOCK = (1024, 1024, 64)
GRID = ((1 << 31) - 1, 65535, 65535)
THREADS = 1024

FIXED = {"%laneid": 31, "%nwarpid": (1 << 32) - 1, "%cluster_ctarank": (1 << 32) - 1}
"""Others that stay the same, and the most that they can be."""


def special(name: str, context: Context) -> LinearForm | None:
    """A special register's value; None if it may change or is no number."""
    base, _, component = name.strip().partition(".")
    if base in FIXED:
        return forms.leaf("special", base, 0, FIXED[base])
    axis = "xyz".find(component) if component else -1
    if axis < 0 or base not in ("%tid", "%ntid", "%ctaid", "%nctaid"):
        return None
    launched = context.grid
    upper = GRID[axis]
    if base.endswith("ntid") or base == "%tid":
        launched = context.block
        upper = min(prod(context.max_block or (THREADS,)), BLOCK[axis], THREADS)
    low, high = (1, upper) if launched is None else (launched[axis], launched[axis])
    if base in ("%tid", "%ctaid"):
        low, high = 0, high - 1
    return forms.leaf("special", f"{base}.{component}", low, max(low, high))


# -- integer instructions -------------------------------------------------------------------------

Get = Callable[[Operand], LinearForm]

_TYPE = re.compile(r"[busf]([1-9]\d{0,3})\Z")


def kind_of(part: str) -> tuple[int, bool] | None:
    """Bits of an integer type and whether it is signed; None if ``part`` is no such type."""
    match = _TYPE.match(part)
    return (int(match[1]), part[0] == "s") if match and part[0] != "f" else None


def types_of(instruction: PtxInstruction) -> tuple[tuple[int, bool], ...]:
    return tuple(filter(None, map(kind_of, instruction.parts[1:])))


def is_shared(parts: tuple[str, ...]) -> bool:
    """Whether an opcode accesses shared memory: ``shared``, ``shared::cta``."""
    return any(part.partition("::")[0] == "shared" for part in parts)


def _defines(instruction: PtxInstruction, name: str) -> bool:
    if not instruction.operands:
        return False
    return any(register.name == name for register in registers_of(instruction.operands[0]))


def integer(operand: Operand) -> int | None:
    """The whole number that an operand is; None if it is anything else."""
    value = operand.value if isinstance(operand, ImmediateOperand) else None
    return value if isinstance(value, int) else None


def _followed(operand: Operand) -> bool:
    if isinstance(operand, RegisterOperand):
        return not operand.part and not operand.negated
    return isinstance(operand, SpecialOperand | SymbolOperand) or integer(operand) is not None


def result(instruction: PtxInstruction, register: str, width: int, get: Get) -> LinearForm | None:
    """What ``register`` of ``width`` bits holds after a statement that defines it. None if that is
    not known. ``get`` gives the form of an operand, modulo its own width."""
    kinds = types_of(instruction)
    if not kinds or not instruction.operands or kinds[-1][0] not in (8, 16, 32, 64):
        return None
    bits, signed = kinds[-1]
    first, *args = instruction.operands
    base = instruction.base
    if isinstance(first, VectorOperand):
        return _unpacked(instruction, register, bits, get)
    if not isinstance(first, RegisterOperand) or first.part or first.name != register:
        return None
    if base == "mov" and len(args) == 1 and isinstance(args[0], VectorOperand):
        return _packed(args[0], bits, get)
    if not all(map(_followed, args)):
        return None
    if base == "mov" and len(args) == 1:
        return get(args[0])
    if base == "cvt":
        return _converted(instruction.parts, kinds, width, args, get)
    if base == "cvta":
        return get(args[0]) if "global" in instruction.parts and len(args) == 1 else None
    return _arithmetic(instruction, bits, signed, [get(argument) for argument in args])


def _arithmetic(
    instruction: PtxInstruction, bits: int, signed: bool, args: list[LinearForm]
) -> LinearForm | None:
    """A computed result, modulo its width; None with a carry or of an operation that saturates."""
    if "sat" in instruction.parts or "cc" in instruction.parts:
        return None
    if instruction.base in ("addc", "subc", "madc"):
        return None
    form = _computed(instruction, bits, signed, args)
    result_bits = bits * 2 if "wide" in instruction.parts else bits
    return None if form is None else forms.reduced(form, result_bits)


def _unpacked(instruction: PtxInstruction, register: str, bits: int, get: Get) -> LinearForm | None:
    """``mov.b64 {%r1, %r2}, %rd1``: the lowest bits first."""
    if instruction.base != "mov" or len(instruction.operands) != 2:
        return None
    first, source = instruction.operands
    if not isinstance(first, VectorOperand) or not isinstance(source, RegisterOperand):
        return None
    names = [[r.name for r in registers_of(element)] for element in first.elements]
    places = [place for place, element_names in enumerate(names) if register in element_names]
    if len(places) != 1:
        return None
    form = get(source)
    if places == [0]:
        return form
    bit = bits // len(first.elements) * places[0]
    return forms.divided(forms.wrapped(form, bits, False), 1 << bit)


def _packed(vector: VectorOperand, bits: int, get: Get) -> LinearForm | None:
    element_bits = bits // max(1, len(vector.elements))
    if element_bits not in (8, 16, 32) and vector.elements:
        return None
    packed = forms.constant(0)
    for place, element in enumerate(vector.elements):
        readable = isinstance(element, RegisterOperand | ImmediateOperand) and _followed(element)
        if not readable:
            return None
        low_bits = forms.wrapped(get(element), element_bits, False)
        packed = forms.add(packed, forms.scale(low_bits, 1 << element_bits * place))
    return packed


def _converted(
    parts: tuple[str, ...],
    kinds: tuple[tuple[int, bool], ...],
    width: int,
    args: list[Operand],
    get: Get,
) -> LinearForm | None:
    """``cvt.u64.u32``: the source is read as its type, and kept modulo the destination's."""
    if len(parts) != 3 or len(kinds) != 2 or len(args) != 1 or isinstance(args[0], SymbolOperand):
        return None
    to, source = kinds
    read = forms.wrapped(get(args[0]), *source)
    # A destination narrower than its register is extended to all of it.
    return forms.wrapped(read, *to) if to[0] != width else forms.reduced(read, to[0])


def _computed(
    instruction: PtxInstruction, bits: int, signed: bool, args: list[LinearForm]
) -> LinearForm | None:
    base = instruction.parts[0]
    parts = instruction.parts
    if all(a.number is not None for a in args) and base != "setp":
        return _of_numbers(instruction, args)
    read = [forms.wrapped(a, bits, signed) for a in args]
    match base, len(args):
        case "add", 2:
            return forms.add(*args)
        case "sub", 2:
            return forms.add(args[0], forms.scale(args[1], -1))
        case "neg", 1:
            return forms.scale(args[0], -1)
        case "not", 1:
            return forms.add(forms.scale(args[0], -1), forms.constant(-1))
        case (("mul" | "mad"), _) if len(args) == 2 + (base == "mad") and "hi" not in parts:
            product = forms.product(*(read if "wide" in parts else args)[:2])
            return forms.add(product, args[2]) if base == "mad" else product
        case (("and" | "or" | "xor"), 2):
            return forms.bitwise(base, args[0], args[1], bits)
        case (("shl" | "shr"), 2) if (count := args[1].number) is not None:
            count %= 1 << 32
            if base == "shr":
                return forms.divided(read[0], 1 << min(count, bits))
            return forms.scale(args[0], 1 << count) if count < bits else forms.constant(0)
        case (("div" | "rem"), 2) if (read[1].number or 0) > 0 and read[0].low >= 0:
            # Rounds towards zero, which is down where nothing is negative.
            divisor = read[1].constant
            return (
                forms.divided(read[0], divisor) if base == "div" else forms.modulo(read[0], divisor)
            )
        case (("min" | "max"), 2):
            return forms.extreme(base, *read)
        case "bfe", 3:
            return _field(bits, signed, args)
    return None


def _of_numbers(instruction: PtxInstruction, args: list[LinearForm]) -> LinearForm | None:
    """The result of operands that are all numbers."""
    # It brings numpy, which few listings need.
    from inspector.semantics.instructions import evaluate

    values = evaluate(instruction.opcode, [[a.constant] for a in args])
    return None if values is None else forms.constant(values[0])


def _field(bits: int, signed: bool, args: list[LinearForm]) -> LinearForm | None:
    position = args[1].number
    length = args[2].number
    if position is None or length is None or signed:
        return None
    position, length = position & 255, length & 255
    field = forms.divided(forms.wrapped(args[0], bits, False), 1 << min(position, bits))
    return forms.modulo(field, 1 << length) if length < bits else field


# -- values ---------------------------------------------------------------------------------------

MAX_CONDITIONS = 4

MAX_ADDRESS_STEPS = 8
"""Conversions of a parameter's address that are followed; a compiler writes three."""


class Condition(Struct, frozen=True):
    """What a predicate says: ``lt`` … of two forms, ``and``, ``or``, ``not`` of conditions, or
    ``number`` where it is a constant. ``always`` is True or False if the ranges decide it."""

    op: str
    forms: tuple[LinearForm, ...] = ()
    parts: tuple[Condition, ...] = ()
    always: bool | None = None
    size: int = 1


class Values:
    """The values of one function's registers."""

    def __init__(self, statements: Statements, context: Context) -> None:
        self.statements = statements
        self.context = context
        self._known: dict[str, LinearForm] = {}
        self._conditions: dict[str, Condition | None] = {}

    # -- integers ---------------------------------------------------------------------------

    def register(self, name: str, line: int) -> LinearForm:
        if name in self._known:
            return self._known[name]
        defined = self.statements.definition
        if defined(name) is None:
            return self._own_name(name, line)
        # Depth first without recursion: a chain may be as long as the function.
        stack = [(name, self._needs(name))]
        open_ = {name}
        while stack:
            current, needs = stack[-1]
            for need in needs:
                if need not in self._known and need not in open_ and defined(need):
                    stack.append((need, self._needs(need)))
                    open_.add(need)
                    break
            else:
                stack.pop()
                open_.discard(current)
                self._known[current] = self._compute(current)
        return self._known[name]

    def operand(self, operand: Operand, line: int) -> LinearForm | None:
        """What an operand of line ``line`` represents; None if that is no integer."""
        match operand:
            case ImmediateOperand():
                value = integer(operand)
                return None if value is None else forms.constant(value)
            case RegisterOperand():
                return self.register(operand.name, line) if _followed(operand) else None
            case SpecialOperand(name):
                return special(name, self.context)
            case SymbolOperand(name, offset):
                alignment = self.statements.alignments.get(name, 1)
                symbol = forms.leaf("symbol", name, 0, (1 << 64) - 1, alignment)
                return forms.add(symbol, forms.constant(offset))
            case AddressOperand(base, offset):
                form = self.operand(base, line)
                return None if form is None else forms.add(form, forms.constant(offset))
        return None

    def parameter(self, address: Operand) -> Parameter | None:
        """The parameter of the kernel that an address is the beginning of."""
        match address:
            case AddressOperand(SymbolOperand(name), 0):
                return self.context.parameter(name)
        return None

    def parameter_behind(self, operand: Operand) -> Parameter | None:
        """The parameter whose address an operand is, in any address space."""
        for _ in range(MAX_ADDRESS_STEPS):
            match operand:
                case AddressOperand(base, 0):
                    operand = base
                case SymbolOperand(name, 0):
                    return self.context.parameter(name)
                case RegisterOperand():
                    instruction = self._defining(operand.name)
                    if instruction is None or instruction.base not in ("mov", "cvt", "cvta"):
                        return None
                    if len(instruction.operands) != 2:
                        return None
                    operand = instruction.operands[1]
                case _:
                    return None
        return None

    def _defining(self, name: str) -> PtxInstruction | None:
        """The instruction that alone defines a register, without a guard."""
        line = self.statements.definition(name)
        if line is None:
            return None
        instructions = [
            instruction
            for instruction in self.statements.instructions_on(line)
            if _defines(instruction, name)
        ]
        if len(instructions) != 1 or instructions[0].guard is not None:
            return None
        return instructions[0]

    def _needs(self, name: str) -> Iterator[str]:
        instruction = self._defining(name)
        if instruction is not None:
            for operand in instruction.operands[1:]:
                yield from (register.name for register in registers_of(operand))

    def _own_name(self, name: str, line: int | None) -> LinearForm:
        return forms.leaf("register", name, 0, (1 << self.statements.bits(name)) - 1, line=line)

    def _compute(self, name: str) -> LinearForm:
        instruction = self._defining(name)
        form: LinearForm | None = None
        if instruction is not None:
            form = (
                self._loaded(instruction)
                if instruction.base == "ld"
                else self._result(instruction, name)
            )
        unknown = self._own_name(name, None)
        if form is None or (len(form.terms) <= forms.MAX_TERMS and form.size <= forms.MAX_ATOMS):
            return form or unknown
        fits = form.low >= 0 and form.high <= unknown.high
        return forms.leaf("register", name, form.low, form.high, form.multiple) if fits else unknown

    def _result(self, instruction: PtxInstruction, name: str) -> LinearForm | None:
        missing = False

        def get(operand: Operand) -> LinearForm:
            nonlocal missing
            if isinstance(operand, RegisterOperand):
                form = self._known.get(operand.name)
                return form if form is not None else self._own_name(operand.name, instruction.line)
            value = self.operand(operand, instruction.line)
            missing = missing or value is None
            return value if value is not None else forms.constant(0)

        outcome = result(instruction, name, self.statements.bits(name), get)
        return None if missing else outcome

    def _loaded(self, instruction: PtxInstruction) -> LinearForm | None:
        """A scalar that is a parameter of the kernel."""
        kinds = types_of(instruction)
        if "param" not in instruction.parts or len(instruction.operands) != 2 or len(kinds) != 1:
            return None
        target, address = instruction.operands
        parameter = self.parameter(address)
        bits, signed = kinds[0]
        if parameter is None or parameter.symbol is None or (parameter.size or 0) * 8 != bits:
            return None
        if not isinstance(target, RegisterOperand):
            return None
        # PTX has no sign for a parameter; a narrow one is extended as it is loaded.
        if self.statements.bits(target.name) == bits:
            signed = (parameter.type or "").startswith(("i", "s"))
        low = -(1 << bits - 1) if signed else 0
        high = low + (1 << bits) - 1
        value = parameter.value
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            low = high = value
        return forms.leaf("parameter", parameter.symbol, low, high, parameter.multiple or 1)

    @cached_property
    def _allocated(self) -> frozenset[LinearForm]:
        """Where in shared memory the addresses of tensor memory are that were allocated."""
        places: set[LinearForm] = set()
        for n in self.statements.allocations:
            for instruction in self.statements.instructions_on(n):
                if instruction.opcode.startswith(ALLOCATION) and instruction.operands:
                    place = self.operand(instruction.operands[0], n)
                    if place is not None:
                        places.add(place)
        return frozenset(places)

    def is_allocation(self, name: str) -> bool:
        """Whether a register holds the address of tensor memory that was allocated."""
        instruction = self._defining(name) if self._allocated else None
        if instruction is None or instruction.base != "ld" or not is_shared(instruction.parts):
            return False
        place = self.operand(instruction.operands[-1], instruction.line)
        return place in self._allocated

    # -- predicates -------------------------------------------------------------------------

    def condition(self, name: str, depth: int = 0) -> Condition | None:
        """What a predicate with one definition says, None if that is not known."""
        if name in self._conditions:
            return self._conditions[name]
        instruction = self._defining(name)
        condition: Condition | None = None
        if instruction is not None and depth < MAX_CONDITIONS:
            if instruction.base == "setp":
                condition = self._comparison(instruction)
            elif instruction.base in ("and", "or", "not") and instruction.kind == "pred":
                condition = self._combined(instruction, depth)
            elif (
                instruction.opcode == "mov.pred"
                and (value := integer(instruction.operands[-1])) is not None
            ):
                condition = Condition("number", always=bool(value))
        if condition is not None and condition.size > MAX_CONDITIONS:
            condition = None
        if depth == 0:
            self._conditions[name] = condition
        return condition

    def _comparison(self, instruction: PtxInstruction) -> Condition | None:
        kind = kind_of(instruction.kind)
        simple = len(instruction.parts) == 3 and len(instruction.operands) == 3
        if kind is None or not simple or not isinstance(instruction.operands[0], RegisterOperand):
            return None
        _, a_operand, b_operand = instruction.operands
        a = self.operand(a_operand, instruction.line)
        b = self.operand(b_operand, instruction.line)
        if a is None or b is None:
            return None
        op = instruction.parts[1]
        signed = kind[1] and op not in ("lo", "ls", "hi", "hs")
        op = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(op, op)
        a, b = forms.wrapped(a, kind[0], signed), forms.wrapped(b, kind[0], signed)
        return Condition(op, (a, b), always=_decided(op, a, b))

    def _combined(self, instruction: PtxInstruction, depth: int) -> Condition | None:
        parts: list[Condition] = []
        for operand in instruction.operands[1:]:
            part = None
            if isinstance(operand, RegisterOperand):
                part = self.condition(operand.name, depth + 1)
            if not isinstance(operand, RegisterOperand) or part is None:
                return None
            parts.append(denied(part) if operand.negated else part)
        if len(parts) != (1 if instruction.base == "not" else 2):
            return None
        if instruction.base == "not":
            return denied(parts[0])
        truths = [p.always for p in parts]
        decisive = instruction.base == "or"
        always: bool | None = not decisive
        if decisive in truths:
            always = decisive
        elif None in truths:
            always = None
        size = sum(p.size for p in parts)
        return Condition(instruction.base, parts=tuple(parts), always=always, size=size)


_DENIED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def denied(condition: Condition) -> Condition:
    always = None if condition.always is None else not condition.always
    if condition.op in _DENIED:
        return Condition(_DENIED[condition.op], condition.forms, always=always)
    if condition.op == "not":
        return condition.parts[0]
    return Condition("not", parts=(condition,), always=always, size=condition.size)


def _decided(op: str, a: LinearForm, b: LinearForm) -> bool | None:
    if op in ("gt", "le"):
        op, a, b = {"gt": "lt", "le": "ge"}[op], b, a
    if op in ("lt", "ge"):
        if a.high < b.low:
            return op == "lt"
        return op == "ge" if a.low >= b.high else None
    same = a == b or (a.low == a.high == b.low == b.high)
    if op in ("eq", "ne") and (same or a.high < b.low or a.low > b.high):
        return same == (op == "eq")
    return None
