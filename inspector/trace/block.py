"""One block of a launch is run with every step kept."""

from __future__ import annotations

from dataclasses import dataclass

from inspector.errors import Stopped, UsageError
from inspector.execute import (
    Facts,
    Fault,
    LaunchError,
    Observer,
    OutOfBudget,
    Program,
    Trace,
    TraceTooLong,
    execute,
)
from inspector.trace.inputs import LaunchInputs
from inspector.trace.tracing import TraceLaunch, Triple
from inspector.trace.watched import Stop, Watched


@dataclass(frozen=True, slots=True)
class TracedBlock:
    """A block's steps. ``ended`` says why it did not come to its end, None where it did.

    ``facts`` count what it did, if that was asked for. ``fault`` is what a GPU would end it for:
    the last step is the one that faulted.
    """

    block: Triple
    trace: Trace
    inputs: LaunchInputs
    facts: Facts | None = None
    fault: Fault | None = None
    ended: str | None = None


def trace_block(
    program: Program,
    launch: TraceLaunch,
    inputs: LaunchInputs,
    block: Triple,
    *,
    budget: int,
    trace: Trace | None = None,
    facts: Facts | None = None,
    stop: Stop | None = None,
) -> TracedBlock:
    """Runs one block and keeps its steps, in ``trace`` with its bounds if one is given.

    A fault, a budget that is spent, a bound that is met and a stop are results: what came before
    is there. Raises CannotRun before anything is run, and UsageError for a launch that no device
    would take or a block that it has not.
    """
    program.check()
    trace = trace or Trace(program)
    observers: list[Observer] = [trace] if facts is None else [trace, facts]
    observer: Observer = trace
    if facts is not None or stop is not None:
        observer = Watched(observers, stop or _never)
    fault: Fault | None = None
    ended: str | None = None
    try:
        execute(
            program,
            launch.grid,
            launch.block,
            inputs.arguments,
            memory=inputs.memory,
            shared=launch.shared,
            blocks=[block],
            budget=budget,
            observer=observer,
        )
    except LaunchError as error:
        raise UsageError(error.message, error.hint) from None
    except Fault as error:
        fault, ended = error, error.message
    except (OutOfBudget, TraceTooLong, Stopped) as error:
        ended = f"{error.message}; the steps before that are here"
    return TracedBlock(block, trace, inputs, facts, fault, ended)


def _never() -> bool:
    return False
