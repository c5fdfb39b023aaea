"""Calls of functions of the same module, replaced by the bodies of those functions."""

from __future__ import annotations

from dataclasses import replace

from inspector.listing.ptx_code import PtxFunction, PtxModule, PtxVariable
from inspector.listing.ptx_statement import (
    AddressOperand,
    Operand,
    PairOperand,
    PtxInstruction,
    RegisterOperand,
    SymbolOperand,
    VectorOperand,
)

MAX_CALL_DEPTH = 64
"""Calls within calls; what calls itself is left as a call."""
MAX_INSTRUCTIONS = 200_000
"""Instructions of a kernel with its calls replaced, beyond which calls are left."""


def callee_of(call: PtxInstruction) -> str | None:
    """The function that a call names; None where it is called by its address."""
    for operand in call.operands:
        if isinstance(operand, SymbolOperand):
            return operand.name
        if isinstance(operand, RegisterOperand):
            return None
    return None


def call_arguments(call: PtxInstruction) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """The results and the arguments of a call."""
    results: tuple[Operand, ...] = ()
    arguments: tuple[Operand, ...] = ()
    named = False
    for operand in call.operands:
        if isinstance(operand, SymbolOperand | RegisterOperand):
            if named:
                break
            named = True
        elif isinstance(operand, VectorOperand):
            if named:
                arguments = operand.elements
            else:
                results = operand.elements
    return results, arguments


def inline_calls(module: PtxModule, name: str) -> PtxFunction:
    """The kernel ``name`` without calls of functions whose bodies are in the module.

    It ends with ``ret``. A function that calls itself, or that has no body, is still called.
    """
    return _Inlining(module).whole(module.functions[name])


class _Inlining:
    """One kernel and its copies of functions."""

    def __init__(self, module: PtxModule) -> None:
        self.module = module
        self.made = 0
        self.count = 0

    def whole(self, kernel: PtxFunction) -> PtxFunction:
        out = PtxFunction(
            kernel.name,
            kernel.entry,
            kernel.line,
            kernel.parameters,
            reqntid=kernel.reqntid,
            unread=list(kernel.unread),
        )
        out.names, out.registers = list(kernel.names), list(kernel.registers)
        out.variables = dict(kernel.variables)
        self._copy(out, kernel, (), _Names(0, "", {}, {}))
        rows = out.instructions
        if (
            not rows
            or rows[-1].base not in ("ret", "exit", "trap", "bra")
            or (rows[-1].guard is not None or len(rows) in out.labels.values())
        ):
            line = rows[-1].line if rows else kernel.line
            rows.append(PtxInstruction(line, "ret", ("ret",), ()))
        return out

    def _copy(
        self, out: PtxFunction, function: PtxFunction, around: tuple[str, ...], names: _Names
    ) -> None:
        """Appends the instructions of ``function`` to ``out``."""
        at: dict[int, list[str]] = {}
        for label, where in function.labels.items():
            at.setdefault(where, []).append(names.prefix + label)
        for label, targets in function.tables.items():
            out.tables[names.prefix + label] = tuple(names.prefix + t for t in targets)
        for n, row in enumerate(function.instructions):
            for label in at.get(n, ()):
                out.labels[label] = len(out.instructions)
            made = names.instruction(row)
            if around and made.base == "ret":
                end = SymbolOperand(names.prefix + "@end")
                made = replace(made, opcode="bra", parts=("bra",), operands=(end,))
            if made.base == "call" and self._replaced(out, made, around):
                continue
            out.instructions.append(made)
        for label in at.get(len(function.instructions), ()):
            out.labels[label] = len(out.instructions)
        if around:
            out.labels[names.prefix + "@end"] = len(out.instructions)

    def _replaced(self, out: PtxFunction, call: PtxInstruction, around: tuple[str, ...]) -> bool:
        """Whether the call was replaced by its function's body."""
        name = callee_of(call)
        function = None if name is None else self.module.functions.get(name)
        if function is None or function.name in around or len(around) >= MAX_CALL_DEPTH:
            return False
        self.count += len(function.instructions)
        if self.count > MAX_INSTRUCTIONS:
            return False
        self.made += 1
        prefix = f"call{self.made}@"
        results, arguments = call_arguments(call)
        formal = [*function.results, *function.parameters]
        actual = [*results, *arguments]
        if len(formal) != len(actual):
            return False
        first = len(out.registers)
        out.registers += function.registers
        out.names += [f"{function.name}:{r}" for r in function.names]
        symbols: dict[str, Operand] = {}
        registers: dict[int, Operand] = {}
        for variable, value in zip(formal, actual, strict=True):
            if variable.space == "reg":
                registers[function.names.index(variable.name)] = value
            else:
                symbols[variable.name] = value
        for variable in function.variables.values():
            if variable.name not in symbols:
                made = prefix + variable.name
                symbols[variable.name] = SymbolOperand(made)
                out.variables[made] = _renamed(variable, made)
        for label in (*function.labels, *function.tables):
            symbols.setdefault(label, SymbolOperand(prefix + label))
        if call.guard is not None:
            out.instructions.append(
                PtxInstruction(
                    call.line,
                    "bra",
                    ("bra",),
                    (SymbolOperand(prefix + "@end"),),
                    replace(call.guard, negated=not call.guard.negated),
                )
            )
        self._copy(
            out, function, (*around, function.name), _Names(first, prefix, symbols, registers)
        )
        return True


def _renamed(variable: PtxVariable, name: str) -> PtxVariable:
    return replace(variable, name=name)


class _Names:
    """What registers, variables and labels of a function are in the kernel that it is put into."""

    def __init__(
        self, first: int, prefix: str, symbols: dict[str, Operand], registers: dict[int, Operand]
    ) -> None:
        self.first, self.prefix = first, prefix
        self.symbols, self.registers = symbols, registers

    def instruction(self, row: PtxInstruction) -> PtxInstruction:
        if not self.prefix:
            return row
        guard = row.guard
        if guard is not None:
            given = self.operand(guard)
            moved = replace(guard, number=guard.number + self.first)
            guard = given if isinstance(given, RegisterOperand) else moved
        operands = tuple(self.operand(o) for o in row.operands)
        return replace(row, operands=operands, guard=guard)

    def operand(self, operand: Operand) -> Operand:
        if isinstance(operand, RegisterOperand):
            given = self.registers.get(operand.number)
            if given is None:
                return RegisterOperand(operand.number + self.first, operand.negated)
            if isinstance(given, RegisterOperand) and operand.negated:
                return RegisterOperand(given.number, not given.negated)
            return given
        if isinstance(operand, SymbolOperand):
            given = self.symbols.get(operand.name)
            if isinstance(given, SymbolOperand):
                return SymbolOperand(given.name, given.offset + operand.offset)
            return operand if given is None else given
        if isinstance(operand, AddressOperand):
            base = self.operand(operand.base)
            more = tuple(self.operand(o) for o in operand.more)
            return AddressOperand(base, operand.offset, more)
        if isinstance(operand, VectorOperand):
            return VectorOperand(tuple(self.operand(o) for o in operand.elements))
        if isinstance(operand, PairOperand):
            return PairOperand(self.operand(operand.first), self.operand(operand.second))
        return operand
