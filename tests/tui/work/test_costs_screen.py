"""The screen of costs: rows keep their place in the reader's eye, orders, and units."""

from __future__ import annotations

import pytest
from rich.text import Text
from textual.widgets import OptionList

from inspector.base.units import time_span
from inspector.measure.launch_time import RUN, LaunchTime
from inspector.render.compiles import CompileLine
from inspector.render.costs import Cost, Order, ordered
from inspector.tui.widgets.lines_screen import same_row
from inspector.tui.work.compiles_screen import CostScreen
from tests.helpers.sample import settle, text_of
from tests.helpers.shared_app import lecture_app, started


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


def costly(screen: object) -> tuple[list[str], str]:
    """The kernels of the cost screen's rows, and the one at the cursor."""
    assert isinstance(screen, CostScreen)
    names = [row.name for row in screen.shown.rows]
    index = screen.query_one(OptionList).highlighted
    return names, "" if index is None else screen.rows[index].text.plain


async def test_the_cost_screen_filters_and_keeps_its_row_order_and_query() -> None:
    async with started("$", size=(140, 40), app=lecture_app) as (ui, _):
        everything, _ = costly(ui.app.screen)
        await settle(ui, "slash", *"softmax", "enter", "s")
        names, _ = costly(ui.app.screen)
        assert names and len(names) < len(everything)
        assert all("softmax" in name for name in names)
        await settle(ui, "escape")
        await settle(ui, "$")
        assert costly(ui.app.screen)[0] == names
        await settle(ui, "slash", *["backspace"] * 10, "enter", "g", "j", "j", "j", "j")
        _, row = costly(ui.app.screen)
        await settle(ui, "escape")
        await settle(ui, "$")
        assert costly(ui.app.screen)[1] == row


@pytest.mark.parametrize(
    ("width", "keys"),
    [
        (80, "Enter: its kernel · r tuning · t timeline · / filter · s sort · Esc closes"),
        (60, "Enter: its kernel · r tuning · t timeline · Esc closes"),
        (
            120,
            "Enter: its kernel · r tuning · t timeline · / filter · s sort · n part · Esc closes",
        ),
    ],
)
async def test_a_narrow_frame_names_the_keys_that_lead_on_in_whole_words(
    width: int, keys: str
) -> None:
    async with started("$", size=(width, 30), app=lecture_app) as (ui, _):
        subtitle = ui.app.screen.query_one(OptionList).border_subtitle
        assert str(subtitle) == keys
        assert keys in text_of(ui)


def test_a_row_that_only_a_profile_names_keeps_its_place() -> None:
    before = [CompileLine(Text(text)) for text in ("head", "memcpy", "memset")]
    assert same_row(before, 2, [before[0], before[2], before[1]]) == 1
