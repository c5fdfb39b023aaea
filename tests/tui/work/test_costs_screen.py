"""The screen of costs: rows keep their place in the reader's eye, orders, and units."""

from __future__ import annotations

import pytest
from rich.text import Text

from inspector.base.units import time_span
from inspector.measure.launch_time import RUN, LaunchTime
from inspector.render.compiles import CompileLine
from inspector.render.costs import Cost, Order, ordered
from inspector.tui.widgets.lines_screen import same_row


def lines(*kernels: str | None) -> list[CompileLine]:
    return [CompileLine(Text(str(kernel)), kernel=kernel) for kernel in kernels]


def test_the_chosen_row_is_chosen_after_figures_have_moved_it() -> None:
    before = lines(None, "a", "b", "c", None, "b")
    after = lines(None, "c", "a", None, None, "b", None, "b")
    assert [same_row(before, index, after) for index in range(6)] == [0, 2, 5, 1, 4, 7]
    assert same_row(before, 5, lines(None, "b")) == 1


def test_costs_sort_by_each_column_and_unknown_ones_come_last() -> None:
    times = {"a": 3.0, "b": None, "c": 9.0}
    launches = {"a": 7, "b": 2, "c": None}
    rows = [
        Cost(
            name,
            launches=launches[name],
            time=None if us is None else LaunchTime(us, RUN, us, 1),
        )
        for name, us in times.items()
    ]
    names = {order: "".join(row.name for row in ordered(rows, order)) for order in Order}
    assert names == {
        Order.TOTAL: "abc",
        Order.TIME: "cab",
        Order.LAUNCHES: "abc",
        Order.NAME: "abc",
    }


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (22.2, "22.2 µs"),
        (9_999.0, "9,999 µs"),
        (13_919.0, "13.9 ms"),
        (1_477_451.0, "1,477 ms"),
        (12_300_000.0, "12.3 s"),
    ],
)
def test_totals_have_units_that_can_be_read(us: float, text: str) -> None:
    assert time_span(us) == text
