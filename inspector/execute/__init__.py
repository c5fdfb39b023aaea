"""PTX run on the CPU: a kernel's text, a launch and memory in; values, facts and faults out.

    memory = Memory()
    x, y = memory.add("x", array), memory.add("y", np.empty_like(array))
    program = Program(ptx, "square_kernel")
    program.cannot()                                     # () where every line can be run
    facts = Facts(program)
    execute(program, (1823,), (128,), [y, x, 781], memory=memory, observer=facts)

Every register is an array over the lanes of many blocks, divergence is masks, and each basic block
of the kernel is one function of numpy. Nothing here opens a file, and nothing runs but numpy.
"""

from inspector.execute.facts import (
    AccessFacts,
    ExecutedLine,
    Facts,
    Totals,
    ValueFacts,
)
from inspector.execute.faults import (
    CannotRun,
    Fault,
    LaunchError,
    Malformed,
    Obstacle,
    OutOfBudget,
    Place,
)
from inspector.execute.launch import Execution, choose, execute
from inspector.execute.memory import Buffer, Memory, Observer
from inspector.execute.program import Approximation, Program, approximations
from inspector.execute.steps import StepAccess, Trace, TraceStep, TraceTooLong
from inspector.parsers.tensor_map import TensorMap

__all__ = [
    "AccessFacts",
    "Approximation",
    "Buffer",
    "CannotRun",
    "ExecutedLine",
    "Execution",
    "Facts",
    "Fault",
    "LaunchError",
    "Malformed",
    "Memory",
    "Observer",
    "Obstacle",
    "OutOfBudget",
    "Place",
    "Program",
    "StepAccess",
    "TensorMap",
    "Totals",
    "Trace",
    "TraceStep",
    "TraceTooLong",
    "ValueFacts",
    "approximations",
    "choose",
    "execute",
]
