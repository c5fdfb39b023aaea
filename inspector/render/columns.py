"""Columns of variants: the title and cell of each figure, for every table that has it."""

from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec import Struct

from inspector.base.model import Resources
from inspector.render.tables import figure, shared, spills


class VariantMetrics(Protocol):
    """A row about a variant; None is unknown.

    ``occupancy`` is theoretical, in percent, ``instructions`` a static count.
    """

    @property
    def resources(self) -> Resources: ...
    @property
    def occupancy(self) -> float | None: ...
    @property
    def instructions(self) -> int | None: ...


class Metrics(Struct, frozen=True):
    """The metrics of a table without separate rows."""

    resources: Resources
    occupancy: float | None = None
    instructions: int | None = None


class Column(Struct, frozen=True):
    """A figure of a variant; ``head`` is its title in a narrow table, numbers are aligned right.

    ``value`` is what rows are sorted by; ``least``: the least is the best.
    """

    key: str
    head: str
    value: Callable[[VariantMetrics], float | None]
    cell: Callable[[VariantMetrics], str]
    unit: str = ""
    least: bool = True

    @property
    def title(self) -> str:
        return f"{self.key}, {self.unit}" if self.unit else self.key


COLUMNS = {
    column.key: column
    for column in (
        Column(
            "registers",
            "regs",
            lambda row: row.resources.registers,
            lambda row: figure(row.resources.registers),
        ),
        Column(
            "spills",
            "spill",
            lambda row: row.resources.spill_bytes,
            lambda row: spills(row.resources),
            unit="bytes",
        ),
        Column(
            "stack",
            "stack",
            lambda row: row.resources.stack_bytes,
            lambda row: figure(row.resources.stack_bytes),
            unit="bytes",
        ),
        Column(
            "shared",
            "shared",
            lambda row: row.resources.shared_bytes,
            lambda row: shared(row.resources),
        ),
        Column(
            "occupancy",
            "occup.",
            lambda row: row.occupancy,
            lambda row: figure(row.occupancy, "{:.4g} %"),
            least=False,
        ),
        Column(
            "instructions",
            "instr.",
            lambda row: row.instructions,
            lambda row: figure(row.instructions),
        ),
    )
}


def cells(keys: Iterable[str], row: VariantMetrics) -> list[str]:
    return [COLUMNS[key].cell(row) for key in keys]
