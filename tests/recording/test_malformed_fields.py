"""Malformed fields of events are problems of a recording, and good recordings have none."""

import json
from pathlib import Path
from typing import Any

import pytest

from inspector.recording.events import KINDS, event_of
from inspector.recording.malformed_fields import MalformedFields
from inspector.sources.opening import open_path
from tests.helpers.ptxview import call

ROOT = Path(__file__).parents[2]
RECORDINGS = sorted(
    path
    for folder in ("tests/data", "examples/recordings")
    for path in (ROOT / folder).rglob("*.ptxview")
)


def problems(*events: dict[str, Any]) -> list[str]:
    malformed_fields = MalformedFields()
    for event in events:
        event_of(event, malformed_fields.count)
    return list(malformed_fields.problems())


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        ({"event": "driver_launch", "grid": [1, 2]}, "grid {} is not a list of 3 integers"),
        ({"event": "driver_launch", "grid": [1, 2, -1]}, "grid {} is not a list of 3 integers"),
        ({"event": "driver_launch", "in_graph": 1}, "in_graph {} is not true or false"),
        ({"event": "loaded", "barriers": 2**70}, "barriers {} is not an integer of 64 bits"),
        ({"event": "loaded", "symbol": 3}, "symbol {} is not text"),
        ({"event": "triton", "seconds": -1}, "seconds {} is not a time in range"),
        ({"event": "triton", "files": ["ptx"]}, "files {} is not an object"),
        ({"event": "triton", "source": {"first": "3"}}, "source.first {} is not an integer of"),
        ({"event": "triton", "source": "k.py"}, "source {} is not an object"),
        ({"event": "triton", "stage_seconds": [["ttir"]]}, "stage_seconds {} is not a list of"),
        ({"event": "calls", "counts": {"1": "x"}}, "counts {} is not an object of integers"),
        ({"event": "driver_counts", "counts": {"1": 3}}, "counts {} is not an object of lists"),
        ({"event": "autotune", "configurations": [3]}, "configurations {} is not a list of obj"),
        ({"event": "autotune", "configurations": [{"reason": 3}]}, "configurations.reason {} is"),
        ({"event": "autotune", "configuration": {"times_ms": [{}]}}, "configuration.times_ms {}"),
    ],
)
def test_a_malformed_field_is_named_with_the_type_that_it_should_have(
    event: dict[str, Any], sentence: str
) -> None:
    (problem,) = problems(event)
    assert problem.startswith("the field " + sentence.format(f"of the event {event['event']}"))


def test_a_field_that_is_malformed_in_several_events_is_one_problem_with_a_count() -> None:
    grids: tuple[object, ...] = ("abc", [1], [1, 1, 1], {})
    launches = [{"event": "driver_launch", "grid": grid} for grid in grids]
    assert problems(*launches) == [
        "the field grid of the event driver_launch is not a list of 3 integers (3 times)"
    ]


def test_a_field_with_several_malformed_items_counts_once_an_event() -> None:
    rows = {"event": "autotune", "configurations": [{"reason": 1}, {"reason": 2}, {"reason": "x"}]}
    counts = {"event": "driver_counts", "counts": {"1": [1, "x"], "2": ["y"]}}
    assert problems(rows, counts, counts) == [
        "the field configurations.reason of the event autotune is not text",
        "the field counts of the event driver_counts is not an object of lists (2 times)",
    ]


def test_a_field_of_an_event_of_unknown_kind_is_named_without_the_kind() -> None:
    assert problems({"event": "new", "pid": "x"}, {"event": ["x"], "more": 1}) == [
        "the field pid of an event of unknown kind is not an integer of 64 bits",
        "the field event of an event of unknown kind is not text",
    ]


@pytest.mark.parametrize(
    "event",
    [
        {"event": "triton", "name": "", "hash": None, "unheard_of": [1]},
        {"event": "triton", "signature": {"x": "*fp32", "n": 3}},
        {"event": "compile_start", "stack": [{"file": "model.py", "line": 3, "code": ""}]},
        {"event": "autotune", "configurations": [{"times_ms": [0.5, float("inf")]}]},
        {"event": "driver_counts", "counts": {"1": [3, None, 5]}},
        {"event": "new", "kind": 3},
        {"\ud800": 1, "event": "triton"},
    ],
)
def test_values_that_may_be_unknown_are_not_malformed(event: dict[str, Any]) -> None:
    assert problems(event) == []


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_recording_of_the_probes_has_no_malformed_field(path: Path) -> None:
    recording = open_path(path)
    assert list(recording.variants())
    assert [problem for problem in recording.problems if problem.startswith("the field ")] == []


def test_list_prints_malformed_fields_among_the_problems(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = [
        {"event": "recording", "schema": 1},
        {"event": "unheard_of", "more": 1},
        {"event": "driver_launch", "id": 1, "grid": "x"},
        {"event": "driver_launch", "id": 2, "grid": [2, 2]},
        {"event": "process", "pid": "one"},
    ]
    folder = tmp_path / "recording"
    folder.mkdir()
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    listed = call("list", folder, "--json").json
    assert listed["recording"]["problems"] == [
        "the field grid of the event driver_launch is not a list of 3 integers (2 times)",
        "the field pid of the event process is not an integer of 64 bits",
    ]
    said = call("list", folder).said
    assert said.count("! the field ") == 2


def test_every_kind_of_event_can_describe_its_fields() -> None:
    assert len(KINDS) > 20
    for kind in KINDS:
        values = {name: object() for name in ("pid", "name", "path", "frame_id")}
        assert len(problems({"event": kind, **values})) == len(values)
