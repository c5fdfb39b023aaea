"""Limits as a file says them, and which of them a kernel has."""

from __future__ import annotations

import tomllib

import pytest

from inspector.analysis.hints.rules import RULES
from inspector.base.errors import UsageError
from inspector.diff.check import Allowance, Rules, read


def of(text: str) -> Rules:
    return read(tomllib.loads(text), "pyproject.toml", RULES)


def test_a_file_says_limits_of_all_and_of_some() -> None:
    rules = of("""
max-registers = 128
no-spills = true
min-occupancy = 50
forbid = ["bank-conflicts"]
baseline = "base.ptxview"
allow = {registers = 2, time = "5%"}
[[kernels]]
select = "matmul*"
max-registers = 255
forbid = "spills"
[[kernels]]
select = "matmul_small"
max-registers = 64
""")
    assert rules.baseline == "base.ptxview"
    assert [selector for selector, _ in rules.kernels] == ["matmul*", "matmul_small"]
    everywhere = rules.limits_for([False, False])
    assert everywhere.bounds == {"registers": 128, "spills": 0, "occupancy": 50}
    assert everywhere.allowed == {"registers": Allowance(2), "time": Allowance(5, True)}
    large = rules.limits_for([True, False])
    assert large.bounds == {"registers": 255, "spills": 0, "occupancy": 50}
    assert large.forbidden == {"bank-conflicts", "spills"}
    assert rules.limits_for([True, True]).bounds["registers"] == 64


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("max-register = 1", "nothing is called max-register", "max-registers"),
        ("max-registers = '1'", "max-registers is not a number", ""),
        ("max-registers = -1", "is not an amount", ""),
        ("no-spills = 1", "neither true nor false", ""),
        ("forbid = ['bank-conflict']", "bank-conflict is not the rule of a hint", "bank-conflicts"),
        ("allow = {regsters = 1}", "regsters is not compared", "registers"),
        ("allow = {registers = '5 percent'}", "neither a number nor a percentage", "5%"),
        ("[[kernels]]\nmax-registers = 1", "select says no kernel", ""),
        ("[[kernels]]\nselect = 'x'\nbaseline = 'y'", "nothing is called baseline", ""),
        ("[[kernels]]\nselect = 'x'\nmax-kernels = 2", "a limit of graphs", ""),
    ],
)
def test_invalid_settings_are_refused_with_a_hint(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        of(text)
    assert message in raised.value.message and hint in raised.value.hint
