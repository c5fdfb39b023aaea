"""The table of costs: totals, shares, what bounds a kernel, and the sentences around the rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from inspector.base.model import Call, Kernel, Origin, Recording, Variant
from inspector.measure.launch_time import BOUND, NCU, PROFILED, RUN, LaunchTime
from inspector.measure.time.results import ESTIMATE
from inspector.render.costs import (
    BAR_CELLS,
    HOW_TO_TIME,
    LATENCY_US,
    Cost,
    Costs,
    Order,
    cells,
    costs,
    footnotes,
    lines,
    ordered,
    title,
)

VARIANT = Variant(id="v", hash="hash of v", symbol="k", launches=4)


def kernel_of(variant: Variant) -> Kernel:
    return Kernel(id="k", name="k", demangled="k", origin=Origin.TRITON, variants=(variant,))


class StubEvidence:
    """What ``costs`` asks of a reader's evidence."""

    def __init__(self, times: dict[str, LaunchTime], **figures: Any) -> None:
        self.profile = figures.get("profile")
        self.window = None
        self.works = figures.get("works", {})
        self._times = times
        self._busiest = figures.get("busiest")
        self._copy_percent = figures.get("copy_percent")
        self._sms = figures.get("sms")
        self.times = SimpleNamespace(representative=self._representative)

    def launch_time(self, _kernel: Kernel, variant: Variant) -> LaunchTime | None:
        return self._times.get(variant.id)

    def _representative(self, _kernel: Kernel, _variant: Variant) -> Any:
        if self._copy_percent is None:
            return None
        return SimpleNamespace(timing=SimpleNamespace(percent_of_peak=self._copy_percent))

    def measured(self, _variant: Variant) -> Any:
        return None if self._busiest is None else SimpleNamespace(busiest=self._busiest)

    def device(self, _variant: Variant) -> Any:
        return None if self._sms is None else SimpleNamespace(sms=self._sms)

    def rules(self, _variant: Variant) -> tuple[str, ...]:
        return ("spills", "note")


def costs_of(evidence: StubEvidence, *variants: Variant, mode: str = "run") -> Costs:
    kernels = tuple(
        replace(kernel_of(variant), id=variant.id, name=variant.id) for variant in variants
    )
    recording: Any = Recording(path="r", kernels=kernels, mode=mode)
    stub: Any = evidence
    return costs(recording, stub)


@pytest.mark.parametrize(
    ("row", "total_us"),
    [
        (Cost("k", launches=4, time=LaunchTime(2.0, NCU, 3.0)), 12.0),
        (Cost("k", launches=4, time=LaunchTime(2.0, RUN, 3.0, 2)), 6.0),
        (Cost("k", launches=4, at_most=True, time=LaunchTime(2.0, NCU, 3.0)), None),
        (Cost("k", launches=4, at_most=True, time=LaunchTime(2.0, RUN, 3.0, 2)), 6.0),
        (Cost("k", time=LaunchTime(2.0, NCU, 3.0)), None),
        (Cost("k", launches=4), None),
    ],
)
def test_a_total_is_the_mean_of_the_launches_that_count(row: Cost, total_us: float | None) -> None:
    assert row.total_us == total_us


def test_shares_are_of_the_known_totals_and_the_costliest_row_comes_first() -> None:
    times = {"a": LaunchTime(1.0, NCU, 1.0), "b": LaunchTime(3.0, NCU, 3.0)}
    variants = [replace(VARIANT, id=name, hash=f"hash of {name}") for name in "abc"]
    run_costs = costs_of(StubEvidence(times), *variants)
    assert [(row.variant and row.variant.id, row.share) for row in run_costs.rows] == [
        ("b", 75.0),
        ("a", 25.0),
        ("c", None),
    ]
    assert run_costs.untimed == 1
    assert {row.hint for row in run_costs.rows} == {"spills"}


def test_launches_and_shares_of_a_step_are_those_of_the_profile() -> None:
    profile = SimpleNamespace(
        kernels=[SimpleNamespace(kernel=None, short="gemm", gpu_us=30.0, calls=6)],
        window=SimpleNamespace(steps=[1, 2]),
        overhead=SimpleNamespace(window_us=200.0, gpu_us=0.0, busy_us=0.0, busy_percent=50.0),
    )
    works = {("v", "v"): SimpleNamespace(calls=8)}
    times = {"v": LaunchTime(10.0, PROFILED, 10.0, 8)}
    own, library = costs_of(StubEvidence(times, profile=profile, works=works), VARIANT).rows
    assert (own.per_step, own.step_share) == (4.0, 40.0)
    assert (library.name, library.per_step, library.us, library.step_share) == (
        "gemm", 3.0, 5.0, 15.0,
    )  # fmt: skip
    assert cells(own)["launches"] == "4 a step" and cells(own)["of step"] == "40.0 %"


def test_a_variant_that_was_not_launched_is_idle_if_any_was() -> None:
    variants = [replace(VARIANT, id=name, launches=n) for name, n in (("a", 2), ("b", 0))]
    run_costs = costs_of(StubEvidence({}), *variants)
    assert [row.variant for row in run_costs.idle] == [variants[1]]
    unknown = [replace(variant, launches=None) for variant in variants]
    assert costs_of(StubEvidence({}), *unknown).idle == ()


@pytest.mark.parametrize(
    ("us", "source", "bound"),
    [
        (LATENCY_US - 0.1, RUN, "≈ latency"),
        (LATENCY_US, RUN, None),
        (LATENCY_US + 0.1, RUN, None),
        (LATENCY_US - 0.1, BOUND, None),
    ],
)
def test_a_kernel_shorter_than_a_launch_is_bound_by_latency(
    us: float, source: str, bound: str | None
) -> None:
    (row,) = costs_of(StubEvidence({"v": LaunchTime(us, source, us)}), VARIANT).rows
    assert row.bound == bound


def test_a_grid_that_leaves_a_tenth_of_the_sms_idle_bounds_a_kernel() -> None:
    def bound(*grids: tuple[int, int, int]) -> str | None:
        calls = tuple(Call("triton", "k", grid=grid) for grid in grids)
        (row,) = costs_of(StubEvidence({}, sms=100), replace(VARIANT, calls=calls)).rows
        return row.bound

    assert bound((89, 1, 1)) == "89 of 100 SMs"
    assert bound((3, 4, 5)) == "60 of 100 SMs"
    assert bound((90, 1, 1)) is None
    assert bound((8, 1, 1), (2, 9, 5)) is None
    assert bound() is None


def test_the_busiest_unit_bounds_a_kernel_before_memory_and_its_grid() -> None:
    calls = (Call("triton", "k", grid=(1, 1, 1)),)
    variant = replace(VARIANT, calls=calls)

    def bound(**figures: Any) -> str | None:
        return costs_of(StubEvidence({}, sms=100, **figures), variant).rows[0].bound

    assert bound(busiest=(60.0, "L2"), copy_percent=90.0) == "L2 60 %"
    assert bound(busiest=(59.9, "L2"), copy_percent=60.0) == "≈ memory 60 %"
    assert bound(busiest=(59.9, "L2"), copy_percent=59.9) == "1 of 100 SMs"


def test_a_bar_is_in_proportion_to_the_largest_share() -> None:
    def bar(share: float | None) -> str:
        return cells(Cost("k", share=share), 40.0)[""]

    assert bar(40.0) == "█" * BAR_CELLS
    assert bar(20.0) == "█" * (BAR_CELLS // 2)
    assert bar(20.0 + 40 / BAR_CELLS / 8) == "█" * (BAR_CELLS // 2) + "▏"
    assert bar(0.01) == "▏"
    assert (bar(0.0), bar(None), cells(Cost("k", share=40.0))[""]) == ("", "", "")


def test_the_largest_share_of_the_rows_fills_the_bar() -> None:
    rows = tuple(Cost(name, share=share) for name, share in (("a", 0.5), ("b", 0.25), ("c", None)))
    _, first, second, third = [line.text.plain for line in lines(Costs(rows), 200)]
    assert first.count("█") == BAR_CELLS and second.count("█") == BAR_CELLS // 2
    assert "█" not in third


def test_bounds_of_launch_counts_are_marked() -> None:
    assert cells(Cost("k", launches=1234))["launches"] == "1,234"
    assert cells(Cost("k", launches=4, exact=False))["launches"] == "≥ 4"
    assert cells(Cost("k", launches=4, exact=False, at_most=True))["launches"] == "≤ 4"


def test_unknown_rows_sort_last_in_each_order() -> None:
    rows = [
        Cost("b", launches=1, time=LaunchTime(2.0, NCU, 2.0)),
        Cost("A"),
        Cost("c", launches=5, time=LaunchTime(1.0, NCU, 1.0)),
    ]
    names = {order: "".join(row.name for row in ordered(rows, order)) for order in Order}
    assert names == {
        Order.TOTAL: "bAc",
        Order.TIME: "bcA",
        Order.LAUNCHES: "cbA",
        Order.NAME: "Abc",
    }


def test_a_rule_of_most_kernels_is_a_footnote_and_a_row_shows_its_next_one() -> None:
    rows = [Cost(f"k{n}", variant=VARIANT, rules=("small-grid", "spills")) for n in range(4)]
    rows.append(Cost("other", variant=VARIANT, rules=("early-wait",)))
    assert Costs(tuple(rows[:3])).common_rules == {}
    few = Costs((rows[0], *(replace(row, rules=("small-grid",)) for row in rows[1:4]), rows[4]))
    assert few.common_rules == {"small-grid": 4}
    assert [row.hint_beside(few.common_rules) for row in few.rows] == [
        "spills", "", "", "", "early-wait",
    ]  # fmt: skip
    assert "small-grid: on 4 of 5 kernels" in footnotes(few)


def test_the_title_says_how_many_kernels_have_a_time() -> None:
    timed = Cost("a", launches=1, time=LaunchTime(1.0, NCU, 1.0))
    estimated = Cost("b", launches=1, time=LaunchTime(1.0, ESTIMATE, 1.0))
    assert title(Costs(())) == "no launch was recorded"
    assert title(Costs((timed, estimated))) == "GPU time of 1 of 2 launched kernels"
    assert title(Costs((timed, timed), emulated=True)) == "GPU time of 2 of 2 launched kernels"
    assert title(Costs((replace(timed, launches=None),))) == "GPU time of 1 of 1 kernel"
    assert title(Costs((estimated,), emulated=True)).startswith("1 launched kernel, not run on a")
    unlaunched = replace(estimated, launches=None)
    assert title(Costs((unlaunched,))).startswith("no GPU time of 1 variant was recorded")
    assert title(Costs((estimated,))) == f"no GPU time of 1 kernel was recorded: {HOW_TO_TIME}"


def test_footnotes_say_what_the_table_leaves_out() -> None:
    def notes(*rows: Cost, **fields: Any) -> str:
        return "\n".join(footnotes(Costs(rows, **fields)))

    shared = Cost("a", variant=VARIANT, share=50.0, rules=(), time=LaunchTime(1.0, RUN, 1.0, 1))
    untimed = Cost("b", variant=VARIANT, share=50.0)
    assert notes() == ""
    assert "1 candidate not launched" in notes(idle=(untimed,))
    assert "total: of the launches that were timed" in notes(shared)
    assert "share: of the totals of the rows; 1 kernel without a time" in notes(shared, untimed)
    assert "without a time" not in notes(shared)
    assert "hints of 1 kernel not counted yet" in notes(shared, untimed)
    assert "not counted yet" not in notes(untimed) + notes(shared)
    assert "3 kernels not estimated yet" in notes(unestimated=3)
    assert "≤: launches by which max-autotune chose" in notes(replace(shared, at_most=True))
    step_row = replace(shared, step_share=1.0)
    assert "the GPU worked for 12.5 % of it" in notes(step_row, steps=2, busy_percent=12.5)
    assert "profiled step" not in notes(step_row) + notes(shared, steps=2)
