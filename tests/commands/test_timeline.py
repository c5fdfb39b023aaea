"""``list --timeline``: what the GPU did in a run, as a picture and as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from inspector.recording.gpu_times import COPY, MARK, OPTIMIZER, SET
from inspector.recording.layout import Writer
from tests.helpers.gpu_timeline import US, SpanFields, recorded, timeline_file
from tests.helpers.gpu_timeline import steps as spans
from tests.helpers.ptxview import SAMPLE, call
from tests.helpers.schemas import hold
from tests.recording.test_driver_records import symbol as symbol


@pytest.fixture
def folder(tmp_path: Path, symbol: bytes) -> Path:
    return recorded(tmp_path / "recording", symbol, timeline_file(spans(5)))


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
    assert re.search(r"10\.00 µs +8\.00 µs +20\.0 µs +triton", shown)


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


CODE = "/tmp/torchinductor/c4/c4.py"
STEPS: list[SpanFields] = [(at, at, MARK, 0, 0, OPTIMIZER, 0) for at in (10, 50_010, 100_010)]


@pytest.mark.parametrize(
    ("marks", "steps"),
    [([], "100.0 µs a call of graph 2/0"), (STEPS, "50.0 µs a step of Adam[W]")],
    ids=["calls of a graph", "steps of an optimizer"],
)
def test_the_time_of_a_step_says_what_a_step_is(
    marks: list[SpanFields],
    steps: str,
    tmp_path: Path,
    symbol: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    events: list[dict[str, object]] = [
        {"event": "mark", "pid": 7, "number": 3, "name": CODE},
        {"event": "mark", "pid": 7, "number": OPTIMIZER, "name": "Adam[W]"},
        {"event": "driver_times", "pid": 7, "time": 4e9, "times": {"0": [5, 10**5, *[20_000] * 4]}},
    ]
    folder = recorded(tmp_path / "recording", symbol, timeline_file([*spans(5), *marks]), events)
    writer = Writer(folder)
    code = writer.blob(b"# code")
    writer.event(event="graph", path=CODE, blob=code, frame_id=2, frame_compile_id=0)
    writer.close()
    costs = call("list", folder, "--by", "cost").text.splitlines()
    assert steps in costs and all(len(line) <= 80 for line in costs)  # in a separate line
    kind = steps.partition(" a ")[2]
    assert f"({kind})" in call("list", folder, "--timeline").text
    document = call("list", folder, "--timeline", "--json").json
    hold("list", document)
    window = document["window"]
    assert kind.endswith(window["step_name"]) and window["step_kind"] in {"graph", "optimizer"}
    marked = [span for span in document["spans"] if span["kind"] == "mark"]
    assert {span["graph"] for span in marked} == {3, *([None] if marks else [])}
    assert {span["optimizer"] for span in marked} == {None, *([0] if marks else [])}


PEER_COPY, DEVICES = 10, (0, 1)


def step_of_two_devices(device: int) -> list[SpanFields]:
    """A copy to a device, a set, a kernel, another's on a second stream, a copy between devices."""
    begin = 5_000 * device
    pieces = ((0, 8, COPY, 7, 1), (10, 12, SET, 7, 0), (14, 34, 0, 7, 0), (30, 75, 1, 20, 0))
    spans = [*pieces, (90, 96, COPY, 7, PEER_COPY)]
    return [
        (begin + start * US, begin + end * US, launch, stream + device, device, 4096, kind)
        for start, end, launch, stream, kind in spans
    ]


def test_copies_sets_and_collectives_of_two_devices_read_as_such(
    tmp_path: Path, symbol: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    libraries = ["/venv/nvidia/nccl/lib/libnccl.so.2"]
    launch = {"event": "driver_launch", "pid": 7, "id": 1, "name": nccl, "time": 4e9}
    events = [{**launch, "grid": [24, 1, 1], "block": [640, 1, 1], "libraries": libraries}]
    spans = [span for device in DEVICES for span in step_of_two_devices(device)]
    folder = recorded(tmp_path / "recording", symbol, timeline_file(spans), events)
    text = call("list", folder, "--timeline").text
    assert all(len(line) <= 80 for line in text.splitlines())
    for device in DEVICES:
        for name, stream in (
            *(("copy host to device", 7), ("set memory", 7), ("triton_poi", 7)),
            *(("ncclDevKernel_AllReduce", 20), ("copy between devices", 7)),
        ):
            assert re.search(
                rf"{name}.*  GPU {device} stream {stream + device}$", text, re.MULTILINE
            ), name
        assert re.search(rf"^GPU {device} stream {20 + device}  ·+.?ncclDev", text, re.MULTILINE)
    starts = re.findall(
        r"^ *([\d.]+) µs +15\.0 µs +nccl\S+ +copy bet\S+ .*  GPU (\d)$", text, re.MULTILINE
    )
    assert starts == [("75.00", "0"), ("80.00", "1")]


def test_without_a_timeline_it_says_what_makes_one() -> None:
    done = call("list", SAMPLE, "--timeline")
    assert done.status == 0 and "CUPTI recorded no work of a GPU" in done.said
    document = call("list", SAMPLE, "--timeline", "--json").json
    assert document["window"] is None and document["spans"] == []


def test_a_damaged_timeline_is_said(tmp_path: Path, symbol: bytes) -> None:
    damaged = recorded(tmp_path / "recording", symbol, timeline_file(spans(2), version=9))
    done = call("list", damaged, "--timeline")
    assert done.status == 0 and "is of another version" in done.said
    (problem,) = json.loads(call("list", damaged, "--timeline", "--json").text)["problems"]
    assert "process 7" in problem
