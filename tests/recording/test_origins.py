"""Inductor's provenance record, as its settings write it, gives a kernel its lines."""

from __future__ import annotations

import json

from inspector.base.model import Content
from inspector.recording.layout import BytesContent
from inspector.recording.output_code import Origins, parse, stack_places

KERNEL = "triton_poi_fused_mul_sin_0"
STACKS = {
    f"{KERNEL}:1": [
        '  File "/m/model.py", line 20, in <module>\n    run(x)\n'
        '  File "/m/model.py", line 5, in run\n    return a * b\n           ^^^^^\n',
        '  File "/m/model.py", line 3, in run\n    a = torch.sin(x)\n',
    ],
    "another_kernel:2": ['  File "/m/model.py", line 9, in run\n    other()\n'],
}
CODE = f"""# AOT ID: ['0_inference']
{KERNEL} = async_compile.triton('{KERNEL}', '''
def {KERNEL}(): pass
''', device_str='cuda')
def call(args):
        {KERNEL}.run(1)
"""


def blob(value: object) -> Content | None:
    return BytesContent(str(value).encode()) if value else None


def made_from(*events: dict[str, object]) -> list[tuple[str, int, str]]:
    origins = Origins(blob)
    frame: dict[str, object] = {"pid": 1, "frame_id": 0, "frame_compile_id": 0}
    for at, event in enumerate(events):
        origins.take({**frame, **event}, at)
    parsed = parse(CODE)
    fusion = origins.fusion({**frame, "event": "graph"}, 1, parsed.kernels[0], parsed.aot_id)
    return [(m.file, m.line, m.code) for m in fusion.made_from]


def stacks_event() -> dict[str, object]:
    kind = "inductor_provenance_tracking_kernel_stack_traces"
    return {"event": "graph_text", "kind": kind, "blob": json.dumps(STACKS)}


def test_innermost_line_of_each_stack() -> None:
    assert stack_places(json.dumps(STACKS), KERNEL) == [
        ("/m/model.py", 5, "return a * b"),
        ("/m/model.py", 3, "a = torch.sin(x)"),
    ]


def test_a_damaged_record_says_nothing() -> None:
    for text in ("", "{", "[1]", '{"a:1": 3}', '{"a:1": [null]}'):
        assert stack_places(text, "a") == []


def test_the_record_places_a_kernel_that_comments_do_not() -> None:
    assert made_from() == []
    assert made_from(stacks_event()) == [
        ("/m/model.py", 5, "return a * b"),
        ("/m/model.py", 3, "a = torch.sin(x)"),
    ]


def test_lines_of_another_run_are_left_out() -> None:
    graph = (
        '    # File: /m/model.py:3 in run, code: a = torch.sin(x)\n    a: "f32[4]" = torch.sin(x)\n'
    )
    dynamo: dict[str, object] = {
        "event": "graph_text",
        "kind": "dynamo_output_graph",
        "blob": graph,
    }
    assert made_from(dynamo, stacks_event()) == [("/m/model.py", 3, "a = torch.sin(x)")]
