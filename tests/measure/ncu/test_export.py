"""CSV exports of ncu: compared with a plain CSV reader, damaged, and foreign."""

from __future__ import annotations

import random
import re

import pytest

from inspector.analysis.line_annotations import Samples
from inspector.base.errors import Unreadable
from inspector.measure.ncu.report import read
from tests.helpers.ncu_data import PAGES, blocks, column, rows, text


def floats(name: str) -> list[float]:
    return [float(v.replace(",", "")) for v in column(name)]


def test_figures_are_those_of_the_file() -> None:
    launches = read("\n".join(map(text, PAGES)), "x.csv").launches
    assert [one.registers for one in launches] == [18, 22, 16, 20, 30]
    assert [one.duration_us for one in launches] == floats("gpu__time_duration.sum")
    assert [round(one.duration_us or 0, 2) for one in launches] == [2.37, 4.83, 5.15, 31.07, 260.06]
    for field, metric in (
        ("compute_percent", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
        ("memory_percent", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"),
        ("achieved_occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active"),
        ("theoretical_occupancy", "sm__maximum_warps_per_active_cycle_pct"),
        ("sm_ghz", "gpc__cycles_elapsed.avg.per_second"),
        ("cycles", "gpc__cycles_elapsed.max"),
    ):
        assert [getattr(one, field) for one in launches] == floats(metric), field
    grids = [(64, 1, 1), (1823, 1, 1), (1823, 1, 1), (4096, 1, 1), (16384, 1, 1)]
    assert [one.grid for one in launches] == grids
    assert [one.block for one in launches] == [(n, 1, 1) for n in (128, 128, 256, 512, 512)]
    assert {one.device for one in launches} == {"NVIDIA H200"}


def test_rules_with_their_speedups() -> None:
    launches = read(text("details"), "x.csv").launches
    head, *rest = rows("details")
    for one in launches:
        own = [
            dict(zip(head, r, strict=True))
            for r in rest
            if r[0] == str(one.number) and len(r) == len(head) and r[15]
        ]
        assert [(r.name, r.kind, r.scope or "") for r in one.rules] == [
            (o["Rule Name"], o["Rule Type"], o["Estimated Speedup Type"]) for o in own
        ]
        whole = [
            float(o["Estimated Speedup"]) for o in own if o["Estimated Speedup Type"] == "global"
        ]
        assert one.speedup == max(whole)
        assert one.duration_us is not None
        assert one.improvement_us == pytest.approx(one.duration_us * max(whole) / 100)
    assert [one.speedup for one in launches] == [94.12, 55.89, 59.03, 30.26, 29.03]


def test_samples_are_the_sums_of_the_columns() -> None:
    launches = read(text("source"), "x.csv").launches
    for one, table in zip(launches, blocks(), strict=True):
        held = one.samples
        assert held is not None
        for reason in {k for k in table[0] if k.startswith("stall_") and "(" not in k}:
            count = sum(int(row[reason]) for row in table)
            assert held.stalls.get(reason.removeprefix("stall_"), 0) == count
        assert held.all == sum(int(r["Warp Stall Sampling (All Samples)"]) for r in table)
        quiet = sum(int(r["Warp Stall Sampling (Not-issued Samples)"]) for r in table)
        assert held.not_issued == quiet
        # Every sample has one reason.
        assert sum(held.stalls.values()) == held.all
    # What the hardware counted in all is on the raw page.
    counted = [int(n) for n in floats("smsp__pcsamp_warps_issue_stalled_long_scoreboard")]
    assert [(one.samples or Samples()).stalls["long_sb"] for one in launches] == counted


def german(page: str) -> str:
    """The page as ncu prints it in German: points between thousands, a decimal comma."""
    swap = str.maketrans(".,", ",.")

    def cell(found: re.Match[str]) -> str:
        return '"' + found[1].translate(swap) + '"'

    return re.sub(r'"(-?[\d,]+(?:\.\d+)?)"(?=[,\n])', cell, text(page))


@pytest.mark.parametrize("page", ["raw", "details"])  # source has no separators
def test_another_locale_is_refused_with_the_command_to_export_again(page: str) -> None:
    with pytest.raises(Unreadable, match="not written in English") as caught:
        read(german(page), "x.csv")
    assert "LC_ALL=C ncu --import" in caught.value.hint


def test_a_unit_in_the_header_as_the_interface_writes_it() -> None:
    said = (
        '"ID","Function Name","Demangled Name","Grid Size","Block Size",'
        '"gpu__time_duration.sum [ms]","launch__registers_per_thread [register/thread]"\n'
        '"3","copy","void copy<float>(float *)","64, 1, 1","128, 1, 1","0.260","30"\n'
    )
    (one,) = read(said, "x.csv").launches
    assert (one.number, one.function, one.demangled) == (3, "copy", "void copy<float>(float *)")
    assert (one.grid, one.block, one.registers) == ((64, 1, 1), (128, 1, 1), 30)
    assert one.duration_us == pytest.approx(260)


def test_output_of_the_program_is_ignored() -> None:
    noise = (
        "==PROF== Connected to process 3300 (/usr/bin/python3.12)\nTrain Epoch: 1 loss 2.29\n"
        '==PROF== Profiling "square_kernel" - 0: 0%....50%....100% - 43 passes\n'
        "==PROF== Disconnected from process 3300\n"
    )
    lines = text("details").split("\n")
    mixed = noise + "\n".join([*lines[:40], "epoch 2, done", "==PROF== x", *lines[40:]])
    assert read(mixed, "x") == read(text("details"), "x")
    assert read(text("raw").replace("\n", "\r\n"), "x") == read(text("raw"), "x")
    assert read("\ufeff" + text("raw"), "x") == read(text("raw"), "x")


@pytest.mark.parametrize("page", PAGES)
def test_truncated_reports_are_refused(page: str) -> None:
    whole = text(page)
    draw = random.Random(8)
    refused = 0
    for at in (draw.randrange(len(whole) // 2, len(whole) - 40) for _ in range(25)):
        part = whole[:at]
        if part.endswith('"\n') or whole[at] == "\n":
            continue  # between two rows nothing tells
        try:
            read(part, "x.csv")
        except Unreadable as error:
            assert re.match(r"x\.csv (is cut short|is a report|has no instr)", error.message)
            refused += 1
        else:
            # The columns of rules are left out of rows of metrics by ncu itself.
            assert page == "details"
            assert part.rpartition("\n")[2].count('","') >= 14
    assert refused > 10


@pytest.mark.parametrize(
    "foreign",
    ["", "a,b,c\n1,2,3\n", '"ID","Name"\n"1","x"\n', "\0\1\2", "PK\3\4", '"' * 5000 + "\n" * 5000],
)
def test_foreign_files_are_refused(foreign: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read(foreign, "x.csv")
    assert "\n" not in caught.value.message


def test_missing_permission_for_counters_is_named() -> None:
    log = "==PROF== Connected to process 1\n==ERROR== ERR_NVGPUCTRPERM - The user does not have …\n"
    with pytest.raises(Unreadable, match="was not permitted"):
        read(log, "x.csv")


def test_pages_of_different_runs_are_not_put_together() -> None:
    other = text("details").replace("square_kernel", "other_kernel")
    with pytest.raises(Unreadable, match="different runs"):
        read(text("raw") + other, "x.csv")


def test_a_source_page_of_fewer_launches_is_not_guessed_at() -> None:
    first = text("source").split('"Kernel Name"')
    report = read(text("details") + '"Kernel Name"'.join(first[:3]), "x.csv")
    assert not any(one.code for one in report.launches)
    assert len(report.problems) == 1 and "2 of 5" in report.problems[0]
