"""A block executed again with its warps one after another: does their order show?

Any order is legal in which each warp goes on once what it waits for has happened. Values that
differ are those of a race, or of atomics that round; a fault, such as a deadlock, is one that a GPU
may run into too.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from inspector.base.units import plural
from inspector.execute import Fault, OutOfBudget
from inspector.execute.calls.inputs import LaunchInputs, contents
from inspector.execute.kinds import Array

FIRST_TO_LAST, LAST_TO_FIRST = "first to last", "last to first"


class OrderOutcome(Struct, frozen=True):
    """What a block did in an order of its warps, beside what it did with all of them together.

    ``differing`` are sentences on buffers that held other values, ``fault`` is what ended it. None
    of both: it did the same. ``finished`` is false where the time was over before.
    """

    order: str
    differing: Sequence[str] = ()
    fault: str | None = None
    finished: bool = True


def warp_orders(
    run: Callable[[Sequence[int]], LaunchInputs], warps: int
) -> tuple[OrderOutcome, ...]:
    """The outcomes of two orders of a block's warps; none for a single warp.

    ``run`` runs the block in an order, or with all warps together for none. Where it does not come
    to its end with all of them together, there is no outcome either.
    """
    if warps == 1:
        return ()
    try:
        together = contents(run(()).memory)
    except (Fault, OutOfBudget):
        return ()
    outcomes = []
    for name, order in ((FIRST_TO_LAST, range(warps)), (LAST_TO_FIRST, range(warps)[::-1])):
        try:
            outcomes.append(OrderOutcome(name, _differing(together, contents(run(order).memory))))
        except Fault as fault:
            outcomes.append(OrderOutcome(name, fault=fault.message))
        except OutOfBudget:
            outcomes.append(OrderOutcome(name, finished=False))
    return tuple(outcomes)


def _differing(together: Mapping[str, Array], apart: Mapping[str, Array]) -> list[str]:
    """Sentences on the buffers whose elements differ in a bit."""
    sentences = []
    for name, elements in together.items():
        count = int((elements != apart[name]).any(1).sum())
        if count:
            sentences.append(f"{name} differs in {count:,} of {plural(len(elements), 'element')}")
    return sentences
