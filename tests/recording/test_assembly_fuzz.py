"""Events of any shape: reading them gives values or one error."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from inspector.base.errors import PtxviewError
from inspector.base.model import Recording, Stage
from inspector.reader.reader import Reader
from inspector.reader.tables import table
from inspector.recording.assemble import Assembly
from inspector.recording.layout import BytesContent, DerivedCache
from inspector.render import compiles, jsons, kernel_list, tables
from inspector.render.compile_rows import compiles_row
from inspector.render.recording_rows import recording_document
from inspector.system import printing
from tests.helpers import hostile
from tests.helpers.ptxview import LECTURE, SQUARE, refuse

BLOBS = {
    "cubin": (SQUARE / "square_kernel.cubin").read_bytes(),
    "half": (SQUARE / "square_kernel.cubin").read_bytes()[:3000],
    "ptx": (SQUARE / "square_kernel.ptx").read_bytes(),
    "ttir": (SQUARE / "square_kernel.ttir").read_bytes(),
    "graph": next((LECTURE / "inductor" / "e5").glob("*.py")).read_bytes(),
    "nodes": b'{"nodes": [{"name": "mul", "op": "call_function", "line": ["/m.py", 1, "x"]}],'
    b'"scheduled": [{"operations": [{"name": "op0", "origins": ["mul"]}], "outputs": ["buf0"]}]}',
    "fx": b"    # File: /m.py:1 in f, code: x\n    mul = torch.ops.aten.mul.Tensor(a, b)",
    "junk": b"\xff\x00\x1b[31m\n",
    "broke": b"Graph break in user code at /a/\x1b[2J.py:3\nReason: \x1b[31mno\n  Hint: x\n\n"
    b'User code traceback:\n  File "/a/b.py", line 3, in f\n    y = \x1b[2Jx\n',
    "again": b'["0/0: n == 3  # y = x * n  # m.py:5 in f", 3, null, {"a": []}]',
    "": b"",
}
SPECIMENS = hostile.events()
KINDS = sorted({str(event["event"]) for event in SPECIMENS} | {"file", "graph_nodes"})
FIELDS = sorted({name for event in SPECIMENS for name in event} - {"event"} | {"marks", "said"})
words = st.one_of(
    st.sampled_from(
        [*BLOBS, "triton", "nvcc", "file", "ptx", "sm_90", "_Z1kv", "_Z\0", "\x1b[2J", "/a/b.py"]
    ),
    st.sampled_from(["[bold]", "c" + "a" * 51 + ".py", "\ud800"]),
    st.text(max_size=8),
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), words)
values = st.recursive(
    scalars,
    lambda v: st.one_of(
        st.lists(v, max_size=3),
        st.dictionaries(
            st.one_of(
                st.sampled_from([*FIELDS, "ttir", "ptx", "cubin", "first", "last", "file"]), words
            ),
            v,
            max_size=4,
        ),
    ),
    max_leaves=8,
)
events = st.builds(
    lambda kind, fields: {"event": kind, **fields},
    st.one_of(st.sampled_from(KINDS), values),
    st.dictionaries(st.sampled_from(FIELDS), values, max_size=8),
)


def content(digest: object) -> BytesContent | None:
    """The blob of a name."""
    return BytesContent(BLOBS[digest]) if isinstance(digest, str) and digest in BLOBS else None


def look_at(recording: Recording) -> None:
    """What every view does with a recording: JSON of it, tables of it."""

    def figures(variant: Any) -> Any:
        return variant.recorded_resources

    text = jsons.dumps(recording_document(recording, figures))
    json.loads(text, parse_constant=refuse)
    reader = Reader(recording, DerivedCache(Path("/dev/null/none")))
    for graph in recording.graphs:
        for stage in reader.graphs.stages(graph):
            with suppress(PtxviewError):
                reader.graphs.listing(graph, stage)
                reader.graphs.links(graph, stage, Stage.OPERATIONS)
    out, written = printing.page(80, colours=False)
    out.print(kernel_list.kernels(recording, figures, 80))
    tables.graphs(recording, out)
    tables.problems(recording, out)
    phases = table("compile_phases")
    for line in compiles.lines(recording, phases, table("compile_metrics"), 80):
        out.print(line.text, soft_wrap=True)
    json.loads(jsons.dumps(compiles_row(recording, phases)), parse_constant=refuse)
    printed = written()
    assert "\x1b" not in printed and "\0" not in printed
    printed.encode("utf-8")


@pytest.mark.nightly
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(events, max_size=5))
@example([{"event": "device_code", "cubin": "cubin", "origin": "nobody"}])
@example([{"event": "process", "pid": 1, "rank": 1e400}, {"event": "triton", "pid": {}}])
@example([{"event": "triton", "name": "_Zk\ud800", "hash": "\x1b[31mred", "files": {}}])
@example([{"event": "file", "stage": "ptx", "blob": "ptx", "symbols": ["\x1b]0;x\x07"]}])
@example([{"event": "recording", "mode": ["x"], "command": "x", "tools": 3, "device": [1]}])
@example([{"event": "recording", "command": ["x"], "exit_status": True, "complete": 1}])
def test_events_of_any_shape_become_values(found: list[dict[str, object]]) -> None:
    look_at(Assembly(content).recording("x", found))
