"""What the lines of each stage show of a block that was run, without an interface."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from inspector.base.model import Stage
from inspector.commands.common import open_reader
from inspector.execute import Facts
from inspector.execute.calls.stepper import Stepper
from inspector.execute.calls.tracing import trace_block, trace_launch
from inspector.measure.recorded_launch import ChosenLaunch, LaunchOverrides, choose_launch
from inspector.reader.query import select_one
from inspector.reader.reader import Reader
from inspector.render.trace import short
from inspector.tui.code.code_rows import (
    COLUMNS,
    CONFLICTS,
    DIVERGES,
    LANES,
    SECTORS,
    VALUE,
    WARPS,
)
from inspector.tui.step.step_figures import SteppedKernel, register_rows
from tests.helpers.ptxview import SAMPLE

WIDTH = 15


@cache
def lecture() -> Reader:
    return open_reader(str(SAMPLE))


def stepped(
    kernel: str, block: tuple[int, int, int] = (7, 0, 0), wish: LaunchOverrides | None = None
) -> tuple[ChosenLaunch, SteppedKernel]:
    """A block of a kernel of the lecture, with what its source and its SASS are tied to."""
    reader = lecture()
    chosen = choose_launch(reader, *select_one(reader.recording, kernel), wish or LaunchOverrides())
    facts = Facts(chosen.program, values=False)
    traced = trace_block(
        chosen.program, chosen.launch, chosen.make(), block, budget=10**9, facts=facts
    )
    names, _ = chosen.register_names()
    stepper = Stepper(traced, names, chosen.source)
    out = SteppedKernel(stepper, facts, chosen.launch.blocks)
    for stage in (Stage.SOURCE, Stage.TTGIR):
        lines = reader.stages.listing(chosen.variant, stage).lines
        texts = tuple(line.text for line in lines)
        out.link(stage, reader.stages.links(chosen.variant, stage, Stage.PTX), texts)
    return chosen, out


def line_of(chosen: ChosenLaunch, stage: Stage, word: str) -> int:
    lines = lecture().stages.listing(chosen.variant, stage).lines
    return next(line.n for line in lines if word in line.text)


def stores(chosen: ChosenLaunch) -> list[int]:
    lines = lecture().stages.listing(chosen.variant, Stage.PTX).lines
    return [line.n for line in lines if "st.global" in line.text]


def shown(kernel: SteppedKernel, stage: Stage, n: int) -> str:
    figures = kernel.figures(stage)
    assert figures is not None
    return figures.value(n, WIDTH)[0]


def test_lines_of_the_source_have_the_values_of_their_names() -> None:
    """Judged by numpy: what the row's softmax must come to in the columns of the lane."""
    x = np.linspace(-3, 3, 1823 * 781, dtype=np.float32).reshape(1823, 781)
    given = {"input_ptr": x, "output_ptr": np.zeros_like(x)}
    chosen, kernel = stepped("softmax_kernel", wish=LaunchOverrides(arrays=given))
    kernel.stepper.run("lane 3")
    row, load = (line_of(chosen, Stage.SOURCE, w) for w in ("row = tl.program", "x = tl.load"))
    assert shown(kernel, Stage.SOURCE, load) == ""
    kernel.stepper.run(f"until :{load}")
    assert shown(kernel, Stage.SOURCE, row) == "row 7"
    seen = []
    while kernel.stepper.run("mine").shows_place:
        seen.append(shown(kernel, Stage.SOURCE, load))
    # Each of the lane's loads in turn; a register without its value yet is minus infinity.
    values = [float(text.removeprefix("x ")) for text in dict.fromkeys(seen) if text[:2] == "x "]
    assert [v for v in values if np.isfinite(v)] == [
        pytest.approx(v, rel=1e-6) for v in x[7, 3::128]
    ]
    soft = np.exp(x[7] - x[7].max()) / np.exp(x[7] - x[7].max()).sum()
    stored = [shown(kernel, Stage.PTX, n) for n in stores(chosen)]
    # Of eight stores the last would be of columns from 896 on, and there are 781.
    assert [float(s.removeprefix("→ ")) for s in stored if s[0] == "→"] == [
        pytest.approx(v, rel=1e-5) for v in soft[3::128]
    ]
    assert stored[-1].startswith("[")


def test_counts_are_those_of_trace_and_say_of_how_many_blocks() -> None:
    chosen, kernel = stepped("softmax_kernel")
    load = line_of(chosen, Stage.PTX, "ld.global")
    alone = kernel.figures(Stage.PTX)
    assert alone is not None and kernel.sample == "this block"
    assert alone.columns == (WARPS, LANES, SECTORS, CONFLICTS, VALUE)  # nothing branches in it
    assert [alone.cell(c, load) for c in (WARPS, LANES, DIVERGES)] == ["4", "32", ""]
    # 128 floats are 16 sectors; a row of 781 begins somewhere within one.
    assert alone.cell(SECTORS, load) in ("16", "17", "20")
    kernel.count(trace_launch(chosen.program, chosen.launch, chosen.make))
    every = kernel.figures(Stage.PTX)
    assert every is not None and kernel.sample == "all 1,823 blocks"
    assert every.cell(WARPS, load) == f"{4 * 1823:,}"
    kernel.other()
    assert kernel.sample == "this block"
    again = kernel.figures(Stage.PTX)
    assert again is not None and again.cell(WARPS, load) == "4"


def test_the_registers_are_what_the_step_gave_and_what_is_live() -> None:
    chosen, kernel = stepped("softmax_kernel")
    load = line_of(chosen, Stage.PTX, "ld.global")
    kernel.stepper.run(f"until {load}")
    rows = "".join(text for text, _ in register_rows(kernel.stepper, 34)).splitlines()
    assert rows[0] == "Written by this step" and rows[1].split()[:2] == ["x", "%r1"]
    assert any(row.split()[:3] == ["row", "%r26", "7"] for row in rows)
    assert all(len(row) <= 34 for row in rows)
    named = [not row.startswith(" ") for row in rows[4:]]
    assert named == sorted(named, reverse=True)


def test_columns_of_counts_are_wide_enough_for_each_count() -> None:
    for column in (WARPS, DIVERGES, SECTORS, CONFLICTS):
        longest = max(len(short(count)) for count in (99_999, 999_400, 99_950_000))
        assert COLUMNS[column].width > longest, column
