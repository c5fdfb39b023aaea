"""A kernel that Triton could not compile is told with its reason, not passed over."""

from __future__ import annotations

import json
from pathlib import Path

from inspector.model import Recording, Resources
from inspector.reader.reader import Reader
from inspector.recording.assemble import Assembly
from inspector.recording.layout import BytesContent, DerivedCache
from inspector.report import jsons, tables
from inspector.tui.variants.screen import recorded, whole_scope


def test_the_reason_is_a_problem_of_the_recording() -> None:
    failed = {"event": "triton_failed", "name": "matmul", "error": "ValueError: odd tile\nmore"}
    rec = Assembly(lambda digest: None).recording("r", [failed])
    assert rec.problems == ("Triton could not compile matmul: ValueError: odd tile",)
    assert rec.kernels == ()


PTX = b".version 8.3\n.target sm_90a\n.visible .entry matmul() { ret; }\n"
COMPILED: dict[str, object] = {
    "event": "triton",
    "name": "matmul",
    "hash": "1a" * 32,
    "files": {"ptx": "p"},
    "metadata": {"num_warps": 4},
}
REFUSED: dict[str, object] = {
    "event": "not_loaded",
    "hash": "1a" * 32,
    "error": "OutOfResources: out of resource: "
    "shared memory, Required: 524288, Hardware limit: 232448.",
}


def read(*events: dict[str, object]) -> Recording:
    return Assembly(lambda digest: BytesContent(PTX) if digest == "p" else None).recording(
        "r", list(events)
    )


def test_a_kernel_that_the_device_refuses_says_why_it_never_ran() -> None:
    rec = read(COMPILED, REFUSED)
    ((kernel, variant),) = rec.variants()
    assert variant.failed == REFUSED["error"]
    said = jsons.kernel(kernel, lambda v: Resources(), lambda v: None)
    listed = json.loads(json.dumps(said["variants"]))
    assert [one["failed"] for one in listed] == [REFUSED["error"]]
    assert tables.never_ran(rec) == [f"matmul {variant.id} never ran: {REFUSED['error']}"]
    cache = DerivedCache(Path("/dev/null/none"))
    (row,) = recorded(Reader(rec, cache), whole_scope(rec))
    assert row.reason == f"failed: {REFUSED['error']}"


def test_a_kernel_that_was_loaded_by_another_process_ran() -> None:
    loaded: dict[str, object] = {
        "event": "loaded",
        "hash": "1a" * 32,
        "registers": 32,
        "local_words": 0,
    }
    ((_, variant),) = read(COMPILED, REFUSED, loaded).variants()
    assert variant.failed is None
