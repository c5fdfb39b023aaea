"""All variants of a kernel as rows that can be sorted, with a tuner's other configurations."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from inspector.base.model import Configuration, Kernel, Resources, Variant


class VariantRow(Struct, frozen=True):
    """One variant, or a configuration that a tuner tried and of which no variant was recorded.

    ``occupancy`` is theoretical, in percent, ``instructions`` the static count of the table's
    stage, ``time_us`` the tuner's figure, else what was measured on the same inputs, ``time_by``
    ``tuner`` or the stopwatch. ``reason`` says why a configuration was not compiled or not
    measured; ``compiled`` is False where it was not, None where that is unknown. ``live`` is the
    most general registers live at once in its SASS; ``unread``: figures are still to be read.
    ``maker`` is whose code a candidate is: Triton, ATen, CUTLASS. None is "not known". ``round`` is
    the round of tuning that a time is of; ``head`` a row that only names it. ``overhead_us`` is
    what the tuner's stopwatch reads of launching alone. ``gpu_us`` is what the GPU took for the
    tuner's launches, ``gpu_best`` whether none in its round took less, or as much less as launches
    of one code differ; ``verdict`` says in a sentence what the round's choice costs.
    """

    kernel: Kernel
    variant: Variant | None
    config: Mapping[str, object]
    resources: Resources = field(default_factory=Resources)
    occupancy: float | None = None
    instructions: int | None = None
    time_us: float | None = None
    winner: bool | None = None
    reason: str | None = None
    time_by: str | None = None
    compiled: bool | None = True
    live: int | None = None
    hints: int | None = None
    unread: bool = False
    maker: str | None = None
    round: str = ""
    head: bool = False
    overhead_us: float | None = None
    gpu_us: float | None = None
    gpu_best: bool = False
    verdict: str = ""


Measure = Callable[[VariantRow], float | None]

SORTS: Mapping[str, Measure] = {
    "time": lambda row: row.time_us,
    "registers": lambda row: row.resources.registers,
    "spills": lambda row: row.resources.spill_bytes,
    "shared": lambda row: row.resources.shared_bytes,
    "occupancy": lambda row: None if row.occupancy is None else -row.occupancy,
    "instructions": lambda row: row.instructions,
    "winner": lambda row: None if row.winner is None else -float(row.winner),
}
"""Sort keys besides the numbers in configurations: least first, but greatest occupancy, winner."""


def keys(rows: Iterable[VariantRow]) -> tuple[str, ...]:
    numbers = (n for row in rows for n, v in row.config.items() if _number(v) is not None)
    return tuple(dict.fromkeys((*SORTS, *numbers)))


def ordered(rows: Iterable[VariantRow], key: str, descending: bool = False) -> list[VariantRow]:
    """Rows by one of ``keys``; equal ones stay in their order.

    Unknown values come last in both directions.
    """
    measure = SORTS.get(key) or (lambda row: _number(row.config.get(key)))
    valued = [(measure(row), row) for row in rows]
    with_value = [(value, row) for value, row in valued if value is not None]
    with_value.sort(key=lambda item: -item[0] if descending else item[0])
    return [row for _, row in with_value] + [row for value, row in valued if value is None]


def without_variant(kernel: Kernel) -> Iterator[VariantRow]:
    """The configurations that a kernel's tuners tried and that have no recorded variant, each once.

    Of several tunings the one with a time counts.
    """
    compiled: set[str] = set()
    rows_by_key: dict[str, list[VariantRow]] = {}
    for tuning in kernel.autotune:
        for index, configuration in enumerate(tuning.configurations):
            key = repr(sorted(configuration.config.items(), key=repr))
            if configuration.variant:
                compiled.add(key)
            row = candidate(kernel, configuration, index == tuning.best)
            rows_by_key.setdefault(key, []).append(row)
    for key, rows in rows_by_key.items():
        if key in compiled:
            continue
        timed = next((row for row in rows if row.time_us is not None), rows[0])
        sure = all(row.compiled is False for row in rows)
        won = any(row.winner for row in rows)
        yield replace(timed, winner=won or None, compiled=False if sure else None)


def candidate(kernel: Kernel, configuration: Configuration, best: bool) -> VariantRow:
    """The row of a configuration without a variant."""
    return VariantRow(
        kernel,
        None,
        configuration.config,
        time_us=configuration.time_us,
        reason=configuration.reason,
        winner=best or None,
        compiled=None if best else _compiled(configuration),
        maker=configuration.maker,
    )


def _compiled(configuration: Configuration) -> bool | None:
    """False if a configuration was certainly not compiled, None if that is not known."""
    if configuration.time_us is not None or not configuration.reason:
        return None
    return None if _RAN.match(configuration.reason) else False


# What a tuner says of a configuration that it did compile, and then did not keep.
_RAN = re.compile(
    r"failed when it was measured|failed: (?:OutOfResources\b|the device |the tuner )"
    r"|pruned: \d+ registers spill"
)


def winner(variant: Variant) -> bool | None:
    """Whether a tuner chose this variant; None if no tuner tried it."""
    record = variant.autotune
    return None if record is None or record.get("winner") is None else bool(record["winner"])


def time_us(variant: Variant) -> float | None:
    """The time a tuner measured for this variant, in microseconds; None if none did."""
    return _number(None if variant.autotune is None else variant.autotune.get("time_us"))


def stopwatch(row: VariantRow) -> str:
    """The tuner's stopwatch that took a row's time, "" if it is not known."""
    if row.variant is None:
        return next((t.stopwatch for t in row.kernel.autotune if t.stopwatch), "")
    return str((row.variant.autotune or {}).get("stopwatch") or "")


def reason(variant: Variant) -> str | None:
    """Why a variant was not measured or never ran; None if it was, or if the reason is unknown."""
    record = variant.autotune or {}
    text = record.get("reason")
    if isinstance(text, str) and text:
        return text
    return None if variant.failed is None else f"failed: {variant.failed}"


def _number(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return None
