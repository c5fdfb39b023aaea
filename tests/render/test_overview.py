"""What the overview says to act on: its order, what is one finding of many kernels."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from inspector.analysis.hints.subject import Finding
from inspector.base.model import Kernel, Origin, Stage, Variant
from inspector.measure.gpu_window import GpuWindow
from inspector.measure.launch_time import RUN, LaunchTime
from inspector.measure.time.results import ESTIMATE
from inspector.render.costs import Cost, Costs, title
from inspector.render.overview import MAX_FINDINGS, VariantKey, action_lines, actions, variant_key


def row(name: str, share: float) -> Cost:
    variant = Variant(id=name, hash=f"hash of {name}", symbol=name)
    kernel = Kernel(id=name, name=name, demangled=name, origin=Origin.TRITON, variants=(variant,))
    time = LaunchTime(share, RUN, share, 1)
    return Cost(name, kernel, variant, launches=1, time=time, share=share)


def key(of: Cost) -> VariantKey:
    assert of.variant is not None
    return variant_key(of.variant)


def window(busy_percent: float) -> Any:
    class Window(GpuWindow, frozen=True):
        @property
        def busy_percent(self) -> float:
            return busy_percent

    fields: dict[str, Any] = dict.fromkeys(GpuWindow.__struct_fields__)
    return Window(**fields)


def test_a_hint_on_a_costlier_kernel_comes_first_and_the_milder_of_two_later() -> None:
    rows = (row("big", 60.0), row("small", 40.0))
    found = {
        key(rows[0]): [Finding("mild", "hint", "One. Two."), Finding("note", "info", "No.")],
        key(rows[1]): [Finding("severe", "warn", "Many loads. Why.", {Stage.PTX: (7, 9)})],
    }
    first, second = actions(Costs(rows), found)
    assert first.text == "Many loads (severe)" and first.share == 40.0
    assert (first.kernel, first.stage, first.line) == ("hash of small", Stage.PTX, 7)
    assert second.text == "One (mild)" and second.share == 60.0 and second.line is None


def test_what_most_kernels_have_is_one_finding() -> None:
    rows = tuple(row(f"k{n}", 10.0) for n in range(6))
    found = {
        key(r): [Finding("small-grid", "warn", "Few blocks.")] * (n < 5) for n, r in enumerate(rows)
    }
    (only,) = actions(Costs(rows), found)
    assert only.text.startswith("5 of the 6 costliest kernels") and only.share == 50.0
    assert only.command == "cost" and only.kernel is None
    few = dict(list(found.items())[:3])
    assert len(actions(Costs(rows), few)) == 3


def test_at_most_five_are_given() -> None:
    rows = tuple(row(f"k{n}", 10.0) for n in range(9))
    found = {key(r): [Finding(f"rule{n}", "warn", "Text.")] for n, r in enumerate(rows)}
    assert len(actions(Costs(rows), found)) == MAX_FINDINGS == 5


@pytest.mark.parametrize(("busy", "count"), [(13.0, 1), (90.0, 0)])
def test_a_gpu_that_waits_is_something_to_act_on(busy: float, count: int) -> None:
    found = actions(Costs((), window=window(busy)), {})
    assert len(found) == count
    assert not found or (found[0].share == 100 - busy and "CUDA graph" in found[0].text)


@pytest.mark.parametrize(
    ("busy", "idle", "busy_text"),
    [(0.05, ">99 %", "<1 %"), (3.0, "97 %", "3 %"), (0.0, "100 %", "0 %")],
)
def test_a_share_is_not_rounded_to_none_or_all(busy: float, idle: str, busy_text: str) -> None:
    run_costs = Costs((row("k", 10.0),), window=replace(window(busy), seconds=0.3))
    (first, *_) = actions(run_costs, {})
    assert f"The GPU is idle {idle} of the time" in first.text
    assert f"GPU busy {busy_text} of 300.0 ms" in title(run_costs)


def test_a_bound_is_never_0_of_something() -> None:
    rows = (row("small", 0.3),)
    found = {key(rows[0]): [Finding("rule", "warn", "Text.")]}
    (line,) = action_lines(actions(Costs(rows), found), 80)
    assert "≤ 1 %" in line.text.plain


def test_a_bound_from_an_estimated_time_is_marked() -> None:
    estimated = replace(row("guessed", 70.0), time=LaunchTime(3.0, ESTIMATE, 3.0, None))
    rows = (estimated, row("timed", 30.0))
    found = {key(r): [Finding("rule", "warn", "Text.")] for r in rows}
    first, second = action_lines(actions(Costs(rows), found), 80)
    assert "≤ ≈ 70 %" in first.text.plain
    assert "≤ 30 %" in second.text.plain
