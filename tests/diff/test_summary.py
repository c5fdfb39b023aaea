"""The summary of two variants: figures on both sides, what is unknown, what only one side has."""

from __future__ import annotations

from inspector.analysis.hints.subject import Finding
from inspector.base.model import Resources, Variant
from inspector.diff import summary as summaries
from inspector.diff.summary import FigureChange
from tests.helpers.sides import said, side


def test_every_metric_has_both_sides() -> None:
    held = {c.name: c for c in said(side(resources=Resources(registers=20)), side()).resources}
    assert set(Resources.__struct_fields__) < set(held)
    assert held["registers"] == FigureChange("registers", 20, 20)
    assert held["spill_store_bytes"] == FigureChange("spill_store_bytes", None, 0)
    assert held["occupancy_percent"].a is None  # shared memory is not known
    assert held["occupancy_percent"].b == 100
    assert held["sass_instructions"] == FigureChange("sass_instructions", None, None)
    assert held["time_us"] == FigureChange("time_us", None, None)


def test_hints_are_gained_and_lost_by_their_rules_where_both_are_known() -> None:
    one, other, both = (Finding(rule, "hint", rule) for rule in ("spills", "early-wait", "tail"))
    again = Finding("tail", "hint", "in other words")
    found = said(side(findings=(one, both)), side(findings=(other, again)))
    assert (found.gained, found.lost) == ((other,), (one,))
    # Of a variant that was not launched, a launch's hint is unknown.
    small = Finding("small-grid", "hint", "88 blocks")
    found = said(side(findings=(small,), grid=88), side())
    assert (found.lost, found.unknown_b, found.unknown_a) == ((), (small,), ())
    assert said(side(findings=(small,), grid=88), side(grid=132)).lost == (small,)


def test_configuration_by_name_and_flags_by_those_that_one_side_has_alone() -> None:
    a = Variant("a", "a", "f", target="sm_80", config={"num_warps": 4, "flags": ["-O3", "-G"]})
    b = Variant("b", "b", "f", target="sm_90", config={"num_warps": 4, "flags": ["-O3"], "X": 2})
    assert summaries.config(a, b) == (
        FigureChange("target", "sm_80", "sm_90"),
        FigureChange("flags", ["-G"], []),
        FigureChange("X", None, 2),
    )
    same = Variant("c", "c", "f", target="sm_80", config={"flags": ["-G", "-O3"], "num_warps": 4})
    assert not summaries.config(a, same)


def test_source_lines_that_one_side_has_alone() -> None:
    a = ("    def f(x):", "", "        y = 1", "        return y")
    moved = ("def f(x):", "    y = 1  ", "    return y")
    assert said(side(source=a), side(source=moved)).source == (0, 0)
    edited = ("def f(x):", "    z = 2", "    y = 1", "    return z")
    assert said(side(source=a), side(source=edited)).source == (1, 2)
    assert said(side(source=a), side()).source is None
