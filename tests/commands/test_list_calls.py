"""Distinct calls and measured times as ``list`` and ``show`` print them."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from inspector.base.model import Argument, Call, Kernel, Origin, Recording, Share, Variant
from inspector.commands.cli import main
from inspector.measure.time.results import Session, Timing, stored_session
from inspector.recording.layout import store_record
from inspector.render import calls

X = Argument("x", "*fp32", None, "float32", (64, 1024), (1024, 1), 512)
N = Argument("n", "i32", 1024)
BLOCK = Argument("BLOCK", "constexpr", 1024)
FIRST = Call("triton", "k", "aa", (64, 1, 1), (128, 1, 1), 0, (X, N, BLOCK), 200, 0)


@pytest.fixture(autouse=True)
def user(new_user: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def recorded(*held: Call) -> list[str]:
    variant = Variant("aa", "aa", "k", launches=sum(c.count for c in held), calls=held)
    kernel = Kernel("k", "k", "k", Origin.TRITON, (variant,))
    return [text.plain for text in calls.lines(Recording("x", (kernel,)))]


def test_the_first_call_is_shown_whole_and_a_later_one_by_what_it_has_different() -> None:
    wide = replace(X, shape=(64, 2048), strides=(2048, 1))
    odd = replace(X, strides=(2048, 1), alignment=4)
    name, first, second, third = recorded(
        FIRST,
        replace(FIRST, arguments=(wide, replace(N, value=2048), BLOCK), count=50, first=9),
        replace(FIRST, arguments=(odd, N, BLOCK), grid=(32, 2, 1), count=1, first=12),
    )
    assert name == "k  251 calls, 3 distinct"
    assert first == "  200× aa 64 blocks of 128 threads, x float32 64×1024, n 1024"
    assert second == "   50× as the first but x 64×2048 (64×1024), n 2048 (1024)"
    assert third == (
        "    1× as the first but grid 32×2 (64), x strides 2048×1 (1024×1), x alignment 4 (512)"
    )


def test_a_call_that_failed_has_its_error_and_no_count() -> None:
    error = "KernelFault: CUDA error: an illegal memory access was encountered\nptxview: program 1"
    name, _, second, *lines = recorded(
        FIRST, replace(FIRST, grid=(65, 1, 1), count=0, first=9, failed=error)
    )
    assert name == "k  200 calls, 2 distinct"
    assert second == "    0× as the first but grid 65 (64)"
    assert lines == [
        "       failed: KernelFault: CUDA error: an illegal memory access was encountered",
        "       failed: ptxview: program 1",
    ]


def test_arguments_that_share_memory_are_named() -> None:
    y = replace(X, name="y")
    both = replace(FIRST, arguments=(X, y, N))
    shares = (Share("x", "y"), Share("y", "z", -256))
    _, first, second, third = recorded(
        both, replace(both, first=1, shares=shares), replace(both, first=2, shares=shares[:1])
    )
    assert "share" not in first
    assert second.endswith(
        "× as the first but x and y share memory, y and z share memory, 256 B apart"
    )
    assert third.endswith("× as the first but x and y share memory")
    _, whole, apart = recorded(replace(both, shares=shares[:1]), replace(both, first=1))
    assert whole.endswith("n 1024, x and y share memory")
    assert apart.endswith("as the first but x and y share no memory")


def test_list_prints_the_calls_of_kernels_graphs_and_functions(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", "--calls", str(recording)]) == 0
    text = capsys.readouterr().out
    assert "square_kernel  6 calls, 6 distinct" in text
    assert "graph 0/0  1 call" in text
    assert "extension gelu_double_extension.gelu  1 call" in text
    assert "as the first but variant 9c81a042, grid 64 (1823), block 256 (128)" in text


def timed(recording: Path, days: float, us: float) -> None:
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)
    row = Timing(
        "square_kernel", "780c582c", 0, "cupti", "cold", us, us, us, 60, inputs="float32 64×1024"
    )
    store_record(
        recording, stored_session(Session(then.isoformat(), {"name": "NVIDIA H200"}, (row,)))
    )


def test_lower_bounds_are_in_the_list_beside_other_times_and_not_alone(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def listed() -> str:
        assert main(["list", str(recording)]) == 0
        return capsys.readouterr().out

    assert "≥ " not in listed() and "µs" not in listed()
    for days, us in ((3.1, 1.38), (0, 1.36)):
        timed(recording, days, us)
        (row,) = (line for line in listed().split("\n") if "780c582c" in line)
        assert re.search(rf"  {us}(?= )", row), row
        assert "≥ " in listed().replace(row, "")


def test_list_and_show_have_the_time_as_json_and_null_elsewhere(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    timed(recording, 2, 1.38)
    assert main(["list", str(recording), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    times = {v["id"]: v["timing"] for k in said["kernels"] for v in k["variants"]}
    known = times.pop("780c582c")
    assert set(times.values()) == {None}
    assert (known["median_us"], known["stopwatch"], known["cache"], known["device"]) == (
        1.38,
        "cupti",
        "cold",
        "NVIDIA H200",
    )
    assert main(["show", str(recording), "780c582c", "--json"]) == 0
    (function,) = json.loads(capsys.readouterr().out)["functions"]
    assert function["timing"] == known
    assert main(["show", str(recording), "780c582c", "-a"]) == 0
    assert "1.38 µs measured (95 %: 1.38…1.38) by cupti" in capsys.readouterr().out
