"""A kernel that Triton could not compile is listed with its reason, not passed over."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from inspector.base.model import Recording, Resources, Stage
from inspector.reader.reader import Reader
from inspector.recording.assemble import Assembly
from inspector.recording.layout import BytesContent, DerivedCache
from inspector.render import jsons, tables
from inspector.render.json_rows import kernel_row
from inspector.tui.variants.variants_screen import recorded, recording_scope


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
    said = jsons.pick_fields(kernel_row(kernel, lambda v: Resources()))
    listed = json.loads(json.dumps(said["variants"]))
    assert [one["failed"] for one in listed] == [REFUSED["error"]]
    assert tables.failure_sentences(rec) == [f"matmul {variant.id} never ran: {REFUSED['error']}"]
    cache = DerivedCache(Path("/dev/null/none"))
    (row,) = recorded(Reader(rec, cache), recording_scope(rec))
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


def test_a_kernel_whose_launch_was_refused_has_that_as_its_failure_where_none_was_made() -> None:
    """Two builds have the kernel, so that nobody counts which of them was launched."""
    codes: list[dict[str, object]] = [
        {"event": "device_code", "source": "/x/k.cu", "object": f"/x/{n}.o", "ptx": n} for n in "pq"
    ]
    texts = {"p": PTX, "q": PTX.replace(b"ret", b"trap;\nret")}
    refused = {
        "event": "not_launched",
        "name": "matmul",
        "symbol": "matmul",
        "ran": False,
        "hash": hashlib.sha256(PTX).hexdigest(),
        "kind": "cudaErrorLaunchOutOfResources",
        "error": "too many resources requested for launch: of 1024 threads",
        "required": 131072,
        "limit": 65536,
        "resource": "registers",
        "grid": [1, 1, 1],
        "block": [1024, 1, 1],
    }
    called = {"event": "call", "kind": "cuda", "name": "matmul", "grid": [1], "count": 3}
    launched = {"event": "launched", "symbol": "matmul", "hash": refused["hash"]}

    def failures(*events: dict[str, object]) -> tuple[list[str | None], tuple[str, ...]]:
        rec = Assembly(
            lambda d: BytesContent(texts[d]) if isinstance(d, str) and d in texts else None
        ).recording("r", [*codes, called, *events])
        errors = [v.error for _, v in rec.variants()]
        return [None if e is None else e.kind for e in errors], rec.problems

    said = "cudaErrorLaunchOutOfResources: too many resources requested for launch: of 1024 threads"
    assert failures(refused) == ([refused["kind"], None], ())
    problem = (f"a launch of matmul was refused: {said}",)
    assert failures(refused, launched) == ([None, None], problem)
    assert failures({**refused, "ran": True}) == ([None, None], problem)


def test_a_build_that_failed_before_its_compilers_is_the_failure_of_its_kernels() -> None:
    """Ninja was not there, or the host's compiler; what was compiled when the linker failed was."""
    text = b"__global__ void twice(float* x) { *x *= 2; }\n"
    said = "Ninja is required to load C++ extensions"
    build: dict[str, object] = {
        "event": "extension",
        "directory": "/b/mine",
        "name": "mine",
        "files": {},
        "pid": 1,
        "sources": {"/b/mine/k.cu": "t"},
        "error": f"{said}\n(pip install ninja)",
    }
    source: dict[str, object] = {
        "event": "device_code",
        "source": "/b/mine/k.cu",
        "source_blob": "t",
        "directory": "/b/mine",
    }
    texts = {"t": text, "p": PTX}

    def built(*events: dict[str, object]) -> Recording:
        return Assembly(
            lambda d: BytesContent(texts[d]) if isinstance(d, str) and d in texts else None
        ).recording("r", list(events))

    for events in ((build,), (build, source), (build, build, source)):
        rec = built(*events)
        ((_, variant),) = rec.variants()
        assert variant.error is not None and variant.error.message.startswith(said)
        assert (variant.symbol, list(variant.stages)) == ("twice", [Stage.SOURCE])
        assert rec.problems == ()
        (told,) = rec.kernel_compiles
        assert told.failed is not None and told.failed.startswith(said) and told.seconds is None
    rec = built(build, {**source, "ptx": "p"})
    ((_, variant),) = rec.variants()
    assert variant.error is None
    assert rec.problems == (f"the extension mine did not build: {said}",)
    rec = built(build, {**build, "error": None, "seconds": 2.0, "fresh": True}, source)
    assert all(variant.error is None for _, variant in rec.variants())
    assert [one.failed is None for one in rec.kernel_compiles] == [False, True]
