"""``list --timeline``: what the GPU did in a run, as a picture and as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.helpers.gpu_timeline import recorded, steps, timeline_file
from tests.helpers.ptxview import SAMPLE, call
from tests.helpers.schemas import hold
from tests.recording.test_driver_records import symbol as symbol


@pytest.fixture
def folder(tmp_path: Path, symbol: bytes) -> Path:
    return recorded(tmp_path / "recording", symbol, timeline_file(steps(5)))


def test_a_step_is_drawn_stream_by_stream_with_gaps_and_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shown = call("list", folder, "--timeline").text
    assert "GPU busy 26 %" in shown and "4 steps of 100.0 µs" in shown and "2 streams" in shown
    assert re.search(r"70\.0 µs +triton\w+ +copy host to device", shown)  # the longest gap
    axis, first, second = shown[shown.index("step 3 of 4") :].split("\n")[1:4]
    assert "╷0 µs" in axis and "╷40 µs" in axis
    assert first.startswith("stream 7") and "triton" in first and "·" * 40 in first
    assert second.startswith("stream 9") and "a kern" in second and "triton" not in second
    assert first.index("triton") > axis.index("╷0 µs") + 8  # 10 of 100 µs
    assert re.search(r"10\.0 µs +8\.00 µs +20\.0 µs +triton", shown)


def test_json_has_each_span_with_its_ids_and_the_graphs_calls(folder: Path) -> None:
    done = call("list", folder, "--timeline", "--json")
    document = done.json
    hold("list", document)
    (kernel,) = call("list", folder, "--json").json["kernels"]
    assert [span["kind"] for span in document["spans"][:4]] == ["copy", "mark", "kernel", "kernel"]
    copy, mark, gelu, other = document["spans"][:4]
    assert (gelu["kernel"], gelu["variant"]) == (kernel["id"], kernel["variants"][0]["id"])
    assert (gelu["start_us"], gelu["us"], gelu["device"], gelu["stream"]) == (10, 20, 0, 7)
    assert (other["kernel"], other["variant"], other["stream"]) == (None, None, 9)
    assert (copy["bytes"], copy["graph"], gelu["bytes"]) == (4096, None, None)
    assert (mark["graph"], mark["stream"], mark["bytes"]) == (3, None, None)
    assert document["window"]["step_us"] == 100 and document["window"]["launches"] == 10


def test_without_a_timeline_it_says_what_makes_one() -> None:
    done = call("list", SAMPLE, "--timeline")
    assert done.status == 0 and "CUPTI recorded no work of a GPU" in done.said
    document = call("list", SAMPLE, "--timeline", "--json").json
    assert document["window"] is None and document["spans"] == []


def test_a_damaged_timeline_is_said(tmp_path: Path, symbol: bytes) -> None:
    damaged = recorded(tmp_path / "recording", symbol, timeline_file(steps(2), version=9))
    done = call("list", damaged, "--timeline")
    assert done.status == 0 and "is of another version" in done.said
    (problem,) = json.loads(call("list", damaged, "--timeline", "--json").text)["problems"]
    assert "process 7" in problem
