"""Events as typed values: what fits is kept, what does not is unknown, and nothing raises."""

from typing import Any, get_args, get_origin

import pytest
from msgspec import Struct
from msgspec.structs import fields

from inspector.recording.decoding import INTEGER_BOUND, checked, tolerant
from inspector.recording.events import (
    KINDS,
    BinaryFigures,
    CallCounts,
    CallRecorded,
    CompilerProduct,
    DeviceFound,
    DriverCounts,
    DriverLaunch,
    Event,
    LostContext,
    TritonCompile,
    TuningRecorded,
    event_of,
)

VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, float("nan"), float("inf"), 10**400, INTEGER_BOUND, -INTEGER_BOUND,
    "", "x", "\ud800", [], [1], [None], [[]], [{}], {}, {"a": 1}, {"\ud800": 1}, {"a": {"b": []}},
)  # fmt: skip


def test_a_malformed_field_is_unknown_and_the_others_are_kept() -> None:
    raw = {"event": "loaded", "hash": 3, "symbol": "k", "local_words": "none", "barriers": 2}
    assert tolerant(raw, BinaryFigures) == BinaryFigures(event="loaded", symbol="k", barriers=2)


def test_empty_text_is_unknown() -> None:
    event = event_of({"event": "triton", "name": "", "hash": "ab"})
    assert isinstance(event, TritonCompile)
    assert event.name is None
    assert event.hash == "ab"


@pytest.mark.parametrize("number", [True, 1.0, "1", INTEGER_BOUND, -INTEGER_BOUND, 10**400])
def test_what_is_no_integer_of_64_bits_is_unknown(number: object) -> None:
    assert tolerant({"barriers": number}, BinaryFigures).barriers is None


def test_a_malformed_entry_of_a_map_is_left_out() -> None:
    event = event_of({"event": "calls", "counts": {"1": 2, "2": None, "3": "x", "4": 5}})
    assert isinstance(event, CallCounts)
    assert event.counts == {"1": 2, "4": 5}


def test_a_malformed_item_keeps_its_place_in_a_list() -> None:
    event = event_of({"event": "driver_counts", "counts": {"1": [3, "x", 5], "2": [1, 2, 3]}})
    assert isinstance(event, DriverCounts)
    assert event.counts == {"1": (3, None, 5), "2": (1, 2, 3)}
    rows: list[object] = [{"config": {"BLOCK": 16}}, "no row", {"times_ms": [0.5, float("inf")]}]
    tuned = event_of({"event": "autotune", "configurations": rows, "winner": 2})
    assert isinstance(tuned, TuningRecorded)
    assert [row.config for row in tuned.configurations] == [{"BLOCK": 16}, {}, {}]
    assert tuned.configurations[2].times_ms == (0.5, None)


def test_values_in_a_map_of_text_become_text() -> None:
    event = event_of({"event": "triton", "signature": {"x": "*fp32", "n": 3}})
    assert isinstance(event, TritonCompile)
    assert event.signature == {"x": "*fp32", "n": "3"}


def test_sizes_of_a_grid_are_known_together_or_not_at_all() -> None:
    grids = ([1, 2, 3], [1, 2], [1, -2, 3], [1, 2, "x"], "xyz")
    events = [tolerant({"grid": grid}, DriverLaunch) for grid in grids]
    assert [event.grid for event in events] == [(1, 2, 3), None, None, None, None]


def test_a_malformed_call_says_why() -> None:
    event = event_of({"event": "call", "id": 4, "kind": 3, "pid": 7})
    assert isinstance(event, CallRecorded)
    assert (event.id, event.pid, event.call) == (4, 7, None)
    assert event.malformed is not None
    assert event.malformed.startswith("a record of kind call is malformed and was left out: ")


def test_no_field_of_a_file_sets_a_value_that_is_made_of_others() -> None:
    forged = {"malformed": "x", "lost_context": {"error": "x", "launches": 1}, "call": {"kind": 1}}
    for kind in ("calls", "call", "compiled"):
        event = event_of({"event": kind, **forged})
        assert getattr(event, "lost_context", None) is None
        assert getattr(event, "call", None) is None
        assert getattr(event, "malformed", None) != "x"


def test_a_lost_context_that_is_malformed_leaves_the_counts() -> None:
    event = event_of({"event": "calls", "counts": {"1": 2}, "lost": {"error": 3}})
    assert isinstance(event, CallCounts)
    assert (event.counts, event.lost_context) == ({"1": 2}, None)
    assert event.malformed is not None
    context, reason = checked({"error": "gone", "launches": 2, "more": 1}, LostContext)
    assert (context, reason) == (LostContext("gone", 2), None)


def test_an_event_of_unknown_kind_has_only_what_all_events_have() -> None:
    assert event_of({"event": "new", "pid": 3, "x": 1}) == Event(event="new", pid=3)
    assert event_of({"event": ["x"], "pid": 3}) == Event(pid=3)


def test_a_device_has_all_of_its_properties() -> None:
    event = event_of({"event": "device", "name": "H200", "pid": 3, "time": 1.0, "major": 9})
    assert isinstance(event, DeviceFound)
    assert event.properties == {"name": "H200", "major": 9}


def test_fields_are_named_as_they_are_written() -> None:
    event = event_of({"event": "uncaptured", "by": "CuPy", "said": {"ptx": "NVRTC"}})
    assert isinstance(event, CompilerProduct)
    assert (event.compiler, event.authors) == ("CuPy", {"ptx": "NVRTC"})


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_value_of_any_field_raises(kind: str) -> None:
    own_fields = [field for field in fields(KINDS[kind]) if field.name != "event"]
    assert own_fields
    for field in own_fields:
        for value in VALUES:
            event = event_of({"event": kind, field.encode_name: value, "pid": 5, "\ud800": 1})
            assert type(event) is KINDS[kind]
            assert event.pid == 5 or field.name == "pid"


def test_every_field_of_every_kind_has_a_default() -> None:
    assert len(KINDS) > 20
    for struct in KINDS.values():
        _assert_defaults(struct)


def _assert_defaults(struct: type[Struct]) -> None:
    struct()
    for field in fields(struct):
        for item in get_args(field.type) if get_origin(field.type) is tuple else (field.type,):
            if isinstance(item, type) and issubclass(item, Struct):
                _assert_defaults(item)
