"""A compiled graph at the command line: its calls, its stages, and what it lacks."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.helpers.ptxview import call, write_events
from tests.helpers.schemas import validator

CODE = """# AOT ID: ['0_inference']
from torch._inductor.async_compile import AsyncCompile
async_compile = AsyncCompile()
triton_poi_fused_gelu_0 = async_compile.triton('triton_poi_fused_gelu_0', '''
def triton_poi_fused_gelu_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    tl.store(out_ptr0 + (x0), tmp3, xmask)
''', device_str='cuda')
def call(args):
        # Topologically Sorted Source Nodes: [linear], Original ATen: [aten.mm]
        extern_kernels.mm(arg0_1, arg1_1, out=buf0)
        # Topologically Sorted Source Nodes: [gelu], Original ATen: [aten.gelu]
        triton_poi_fused_gelu_0.run(buf0, buf1, 64, stream=raw_stream0)
"""
DYNAMO = """class GraphModule(torch.nn.Module):
    def forward(self, L_x_):
        # File: /home/ada/model.py:12 in forward, code: return F.gelu(self.up(x))
        linear: "f32[8, 8]" = torch._C._nn.linear(L_x_, weight)
        gelu: "f32[8, 8]" = torch._C._nn.gelu(linear)
"""


def dynamo(name: str, path: str) -> dict[str, object]:
    """One recorded node."""
    line = ["/home/ada/model.py", 12, "return F.gelu(self.up(x))"]
    return {
        "name": name,
        "op": "call_function",
        "target": name,
        "aten": None,
        "line": line,
        "module": ["L['self'].layers.3.mlp.up", "L['self'].layers.3.mlp"].index(path),
        "from": None,
        "backward": False,
    }


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """A recording of a graph from Inductor's cache, without its nodes."""
    nodes = {
        "stacks": [
            {"paths": ["L['self'].layers.3.mlp.up"], "type": "Linear"},
            {"paths": ["L['self'].layers.3.mlp"], "type": "MLP"},
        ],
        "nodes": [
            dynamo("linear", "L['self'].layers.3.mlp.up"),
            dynamo("gelu", "L['self'].layers.3.mlp"),
        ],
    }
    frame = {"frame_id": 0, "frame_compile_id": 0, "pid": 1}
    folder = tmp_path / "r"
    (folder / "blobs").mkdir(parents=True)

    def kept(text: str) -> str:
        digest = hashlib.sha256(text.encode()).hexdigest()
        (folder / "blobs" / digest).write_text(text)
        return digest

    return write_events(
        folder,
        {"event": "recording", "schema": 1},
        {"event": "graph_text", "kind": "dynamo_output_graph", "blob": kept(DYNAMO), **frame},
        {"event": "dynamo_nodes", "blob": kept(json.dumps(nodes)), **frame},
        {"event": "graph", "path": "/tmp/c.py", "blob": kept(CODE), **frame},
    )


def test_a_graph_is_listed_call_by_call(graph: Path) -> None:
    rows = call("show", graph, "0/0").text.split("\n")
    assert rows[3].split() == ["1", "mm", "mm", "layers.3.mlp.up", "model.py:12", "–", "10"]
    assert rows[4].split()[-5:-2] == ["gelu", "layers.3.mlp", "model.py:12"]
    assert any(row.split()[:4] == ["model.py:12", "1,", "2", "return"] for row in rows)
    listed = call("list", graph, "--ops").text.split("\n")
    assert listed[2].split() == rows[3].split()
    told = json.loads(call("list", graph, "--ops", "--json").out)["graphs"][0]["operations"]
    assert [one["modules"] for one in told] == [["layers.3.mlp.up"], ["layers.3.mlp"]]
    assert told[0]["bytes"] is None and told[0]["bytes_from"] is None
    assert "operations" not in json.loads(call("list", graph, "--json").out)["graphs"][0]


def test_its_stages_are_the_recorded_texts_linked_by_line(graph: Path) -> None:
    assert call("show", graph, "0/0", "--stage", "dynamo").text == DYNAMO
    assert call("show", graph, "0/0", "--stage", "output_code").text == CODE
    shown = json.loads(call("show", graph, "0/0", "--stage", "dynamo", "--json").out)
    lines = {line["n"]: line for line in shown["lines"]}
    assert lines[4]["defs"] == ["linear"] and lines[5]["uses"] == ["linear"]
    assert lines[5]["source"]["line"] == 12
    assert 10 in lines[4]["links"]["output_code"]
    beside = call("show", graph, "0/0", "--stage", "dynamo", "--beside", "operations").text
    assert "layers.3.mlp.up" in beside
    assert call("show", graph, "0/0", "--lines", "8:9").text.startswith("def call(args):")


BEFORE = """class GraphModule(torch.nn.Module):
    def forward(self, arg0_1: "f32[8, 8]"):
        # File: /home/ada/model.py:12 in forward, code: return F.gelu(self.up(x))
        addmm: "f32[8, 8][8, 1]cuda:0" = torch.ops.aten.addmm.default(arg0_1, arg0_1, arg0_1)
        return (addmm,)


 # graph id: 140123
"""
AFTER = """class GraphModule(torch.nn.Module):
    def forward(self, arg0_1: "f32[8, 8]"):
        # File: /home/ada/model.py:12 in forward, code: return F.gelu(self.up(x))
        mm: "f32[8, 8][8, 1]cuda:0" = torch.ops.aten.mm.default(arg0_1, arg0_1)
        add: "f32[8, 8][8, 1]cuda:0" = torch.ops.aten.add.Tensor(arg0_1, mm);  mm = None
        return (add,)
"""


def with_passes(folder: Path) -> None:
    """Add what torch's trace has of Inductor's passes on the graph."""
    row = {"event": "graph_text", "frame_id": 0, "frame_compile_id": 0, "pid": 1}
    texts = {
        "before_pre_grad_graph": BEFORE,
        "after_pre_grad_graph": BEFORE.replace("0123", "0999"),
        "before_post_grad_graph": BEFORE,
        "inductor_post_grad_graph": AFTER,
    }
    events = folder / "events.jsonl"
    rows = []
    for kind, text in texts.items():
        digest = hashlib.sha256(text.encode()).hexdigest()
        (folder / "blobs" / digest).write_text(text)
        rows.append(json.dumps({**row, "kind": kind, "blob": digest}))
    head, *rest = events.read_text().splitlines()
    events.write_text("\n".join([head, *rows, *rest]) + "\n")


def test_passes_of_a_graph_are_inductors_by_torchs_trace(graph: Path) -> None:
    with_passes(graph)
    told = json.loads(call("passes", graph, "0/0", "--json").out)
    known = validator("passes")
    assert known is not None and not list(known.iter_errors(told))
    assert (told["graph"], told["kernel"], told["triton"]) == ("0/0", None, None)
    # A number that torch writes beneath a graph is no change.
    assert [(p["name"], p["changed"]) for p in told["passes"]] == [
        ("pre_grad_passes", False),
        ("post_grad_passes", True),
    ]
    last = told["passes"][1]
    assert last["introduced"] == ["aten.add.Tensor", "aten.mm.default"]
    assert last["removed"] == ["aten.addmm.default"] and last["ms"] is None
    asked = call("passes", graph, "0/0", "--introduces", "aten.mm.default").text
    assert "post_grad_passes" in asked and "pre_grad_passes" not in asked
    shown = call("passes", graph, "0/0", "post_grad_passes").text
    assert "-         addmm" in shown and "+         mm" in shown
    assert call("passes", graph, "0/0", "--stage", "ttir").status == 2
