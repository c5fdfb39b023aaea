"""Of the instructions of one source line the one that computes, or that costs most, comes first."""

from __future__ import annotations

from functools import partial

from inspector.analysis.landing import landing_line
from inspector.base.model import Stage
from inspector.parsers import parse
from inspector.reader.tables import isa

PTX = """\
.version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 k_param_0)
{
 ld.param.b64 %rd1, [k_param_0];
 mov.u32 %r1, %tid.x;
 mad.lo.s32 %r2, %r1, 4, 1;
 ld.global.b32 %r3, [%rd1];
 fma.rn.f32 %f1, %f2, %f3, %f4;
 mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f1};
 ret;
}
"""
PARAMETER, COPY, INTEGER, LOAD, FLOAT, TENSOR = range(6, 12)


def landed(*lines: int, **figures: float) -> int:
    listing = parse(Stage.PTX, PTX)
    by_line = {int(name[1:]): figure for name, figure in figures.items()}
    return landing_line(listing, lines, by_line, partial(isa().cost, "ptx"))


def test_arithmetic_comes_before_loads_copies_and_addresses() -> None:
    assert landed(PARAMETER, COPY, INTEGER, LOAD, FLOAT, TENSOR) == TENSOR
    assert landed(PARAMETER, COPY, INTEGER, LOAD, FLOAT) == FLOAT
    assert landed(PARAMETER, COPY, INTEGER, LOAD) == LOAD
    assert landed(PARAMETER, COPY, INTEGER) == INTEGER
    assert landed(PARAMETER, COPY) == PARAMETER


def test_the_costliest_comes_first_where_costs_are_known() -> None:
    assert landed(PARAMETER, LOAD, FLOAT, n9=70.0, n10=3.0) == LOAD
    assert landed(PARAMETER, FLOAT, n9=70.0) == FLOAT  # of another line
