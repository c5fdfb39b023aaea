"""A compiled graph's calls, modules, fusions and texts, compared with torch's own trace."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from inspector.analysis.graph_view import GraphView
from inspector.base.model import Graph, Recording, Stage
from inspector.probes.compiles import inductor_graphs
from inspector.reader.reader import Reader
from inspector.recording.assemble import Assembly
from inspector.recording.layout import BytesContent, user_derived_cache
from tests.probes.conftest import Outcome, Run, ok

PROGRAM = """
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.gate_proj = nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + F.gelu(self.gate_proj(y.transpose(1, 2).reshape(b, t, d)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(50, 32)
        self.layers = nn.ModuleList([Block(32, 2) for _ in range(3)])
        self.head = nn.Linear(32, 50, bias=False)

    def forward(self, ids):
        x = self.wte(ids)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(x).view(-1, 50), ids.view(-1))


if __name__ == "__main__":
    # What torch and Inductor read of the environment when they are imported, which they have been.
    torch._logging._internal.LOG_TRACE_HANDLER = None
    torch._logging._internal._init_logs()
    torch._inductor.config.force_disable_caches = True
    torch.manual_seed(0)
    model = Model().cuda()
    ids = torch.randint(0, 50, (2, 16), device="cuda")
    torch.compile(model)(ids).backward()
    print("modules:", *(name for name, _ in model.named_modules()))
"""
LOGS = "fusion,ir_pre_fusion,ir_post_fusion"
REASON = re.compile(r"\[__fusion\] cannot fuse (op\w+) with (op\w+): (.*)")
COMMENT = re.compile(r"\s+# Topologically Sorted Source Nodes: \[.*\], Original ATen: \[(.*)\]")


@pytest.fixture
def step(forked: Run, tmp_path: Path) -> tuple[Outcome, Recording, Path]:
    """A training step of a small model with repeated layers, compiled again, and torch's trace."""
    trace = tmp_path / "trace"
    done = ok(
        forked(
            PROGRAM,
            inductor=True,
            env={
                "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
                "TORCH_TRACE": str(trace),
                "TORCH_LOGS": LOGS,
            },
        )
    )
    (blobs,) = tmp_path.glob("recording*/blobs")
    rec = Assembly(
        lambda d: BytesContent((blobs / d).read_bytes()) if isinstance(d, str) else None
    ).recording("r", done.events)
    return done, rec, trace


def texts_of(trace: Path) -> dict[str, list[str]]:
    """The payloads of torch's own trace, by what they are."""
    out: dict[str, list[str]] = {}
    kind = ""
    for row in "".join(f.read_text() for f in trace.glob("*")).split("\n"):
        if row.startswith("\t"):
            out[kind][-1] += row[1:] + "\n"
        elif (start := row.find("{")) >= 0 and row.startswith(("V", "[")):
            record = json.loads(row[start:])
            named = record.get("artifact", {}).get("name")
            kind = named or next((k for k in record if "graph" in k or "output_code" in k), "")
            out.setdefault(kind, []).append("")
    return out


@pytest.mark.nightly
def test_a_training_step_is_recorded_as_torch_traces_it(
    step: tuple[Outcome, Recording, Path],
) -> None:
    done, rec, trace = step
    assert not [event for event in done.of("problem") if "graph" in event["where"].lower()]
    reader = Reader(rec, user_derived_cache())
    forward, backward = rec.graphs
    assert (forward.id, backward.id) == ("0/0_forward", "0/0_backward")
    views = {graph.id: reader.graphs.view(graph) for graph in rec.graphs}
    modules_are_the_models(done, views)
    for graph in rec.graphs:
        operators_are_inductors(reader, graph)
    calls_are_in_order(views[forward.id])
    texts_are_torchs(reader, forward, backward, texts_of(trace))
    ir_is_inductors(done, reader, rec)
    reasons_are_inductors(done, views)


def modules_are_the_models(done: Outcome, views: dict[str, GraphView]) -> None:
    named = set(next(iter(done.out.splitlines()[-1:])).split()[1:]) | {""}
    for view in views.values():
        paths = [path for call in view.calls for path in call.modules]
        assert set(paths) <= named
        # Each layer is separate, in both passes.
        for layer in range(3):
            for part in ("norm", "qkv", "gate_proj"):
                assert f"layers.{layer}.{part}" in paths
    products = [c for c in views["0/0_forward"].calls if c.name in ("mm", "addmm")]
    assert [c.modules for c in products] == [
        *((f"layers.{n}.{part}",) for n in range(3) for part in ("qkv", "gate_proj")),
        ("head",),
    ]


def operators_are_inductors(reader: Reader, graph: Graph) -> None:
    """Each call has the operators of the comment above its line, and only calls have one."""
    lines = reader.graphs.text(graph, Stage.OUTPUT_CODE).split("\n")
    begin = next(n for n, line in enumerate(lines) if "def call(" in line)
    said = [m[1].split(", ") for line in lines[begin:] if (m := COMMENT.match(line))]
    assert [list(call.operators) for call in reader.graphs.view(graph).calls] == said
    for call in reader.graphs.view(graph).calls:
        assert call.name in lines[call.n - 1]


def calls_are_in_order(view: GraphView) -> None:
    names = [call.name for call in view.calls if call.extern]
    attention = "_scaled_dot_product_efficient_attention"
    per_layer = [["addmm", "mm"], [attention], ["addmm", "mm"]]
    assert len(names) == 10
    for name, allowed in zip(names, [*per_layer * 3, ["mm"]], strict=True):
        assert name in allowed
    places = {call.places[0][2] for call in view.calls if call.name == attention}
    assert places == {"y = F.scaled_dot_product_attention(q, k, v, is_causal=True)"}
    # What is moved is Inductor's own figure: more than nothing of each call that reads and writes.
    for call in view.calls:
        assert call.bytes_from == "inductor" and call.bytes
        if call.bytes_read is not None and call.bytes_written is not None:
            assert call.bytes == call.bytes_read + call.bytes_written


def texts_are_torchs(
    reader: Reader, forward: Graph, backward: Graph, texts: dict[str, list[str]]
) -> None:
    def same(graph: Graph, stage: Stage, kind: str, at: int = 0) -> None:
        assert reader.graphs.text(graph, stage).strip() == texts[kind][at].strip()

    for graph in (forward, backward):
        same(graph, Stage.DYNAMO, "dynamo_output_graph")
        same(graph, Stage.JOINT, "aot_joint_graph")
    same(forward, Stage.FORWARD, "aot_forward_graph")
    same(backward, Stage.BACKWARD, "aot_backward_graph")
    same(forward, Stage.POST_GRAD, "inductor_post_grad_graph", 0)
    same(backward, Stage.POST_GRAD, "inductor_post_grad_graph", 1)
    passes = {g.id: {name: (a, b) for name, a, b in g.passes} for g in (forward, backward)}
    assert [*passes[forward.id]] == ["pre_grad_passes", "post_grad_passes"]
    assert [*passes[backward.id]] == ["post_grad_passes"]
    for graph, at in ((forward, 0), (backward, 1)):
        before, after = passes[graph.id]["post_grad_passes"]
        for content, kind in (
            (before, "before_post_grad_graph"),
            (after, "inductor_post_grad_graph"),
        ):
            assert content.read().decode().strip() == texts[kind][at].strip()


def ir_is_inductors(done: Outcome, reader: Reader, rec: Recording) -> None:
    """What the logs of the same compile have, without their prefixes."""
    logged: dict[str, list[str]] = {"ir_pre_fusion": [], "ir_post_fusion": []}
    for line in done.err.split("\n"):
        for name, own in logged.items():
            mark = f"[__{name}]"
            if mark in line:
                own.append(line.partition(mark)[2].removeprefix(" ").rstrip())
    for stage in (Stage.IR_PRE_FUSION, Stage.IR_POST_FUSION):
        ours = [
            line.rstrip()
            for graph in rec.graphs
            for line in reader.graphs.text(graph, stage).split("\n")
            if line.strip()
        ]
        heads = ("BEFORE FUSION", "AFTER FUSION")
        theirs = [text for text in logged[stage.value] if text and text not in heads]
        assert ours == theirs
        assert len(ours) > 200


def reasons_are_inductors(done: Outcome, views: dict[str, GraphView]) -> None:
    """What was not fused is what TORCH_LOGS=fusion says, less what was fused in the end."""
    said = {m.groups() for line in done.err.split("\n") if (m := REASON.search(line))}
    assert said
    told = [(view, one) for view in views.values() for one in view.refused]
    assert told
    for _, one in told:
        assert (*one.names, one.reason) in said
        assert one.a != one.b or one.a is None
    reasons = {reason for _, _, reason in said}
    assert {one.reason for _, one in told} <= reasons
    assert sum(one.count for _, one in told) <= len(done.said("cannot fuse"))


STACK = """\
  File "/home/ada/train.py", line 12, in step
    loss = model(x)
  File "/venv/site-packages/transformers/models/gpt2/modeling_gpt2.py", line 185, in forward
    x = self.c_attn(hidden_states)
  File "/venv/site-packages/transformers/pytorch_utils.py", line 119, in forward
    x = torch.addmm(self.bias, x, self.weight)
"""


def test_the_caller_of_a_librarys_line_is_the_innermost_line_outside_of_packages() -> None:
    assert inductor_graphs._caller(STACK) == ["/home/ada/train.py", 12, "loss = model(x)"]
    head = STACK.split('  File "/venv')
    assert inductor_graphs._caller(head[0]) is None
    assert inductor_graphs._caller('  File "/venv' + head[1]) is None
    assert inductor_graphs._caller(None) is None
