"""TORCH_TRACE folders and TORCH_LOGS files of AOTInductor and torch.export."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from inspector.base.errors import Unreadable
from inspector.base.model import Origin, Recording, Stage
from inspector.sources import traces
from inspector.sources.opening import open_path
from tests.helpers.torch_trace import HEAD, NAME, trace

DATA = Path(__file__).parents[1] / "data" / "traces"
CALLS = ("trace_structured", "dtrace_structured", "trace_structured_artifact")
# Names that are variables where a record is written, and what they hold there: `file: names`.
VARIABLES = {
    "_dynamo/utils.py": ("compilation_metrics", "bwd_compilation_metrics_runtime"),
    "_dynamo/pgo.py": ("put_remote_code_state", "put_extra_remote_code_state"),
    "_dynamo/convert_frame.py": ("f_ORIGINAL_BYTECODE", "f_MODIFIED_BYTECODE"),
    "_functorch/_aot_autograd/subclass_codegen.py": ("subclass_wrapper", "backward_epilogue"),
    "_functorch/_aot_autograd/codegen.py": ("runtime_wrapper_orchestration",),
    "_functorch/_aot_autograd/graph_compile.py": ("aot_saved_tensors_hooks_pack relu",),
    "_functorch/partitioners.py": ("artifact",),
    "_inductor/fx_passes/node_runtime_estimation.py": ("fx_collectives_analytical_estimation",),
    "_inductor/fx_passes/group_batch_fusion.py": ("optimus_BatchLinearFusion", "cff_MTIAFusion"),
    "_inductor/memory.py": ("model__0_forward_fused",),
    "_inductor/comms_debug.py": ("sink_waits_ITERATIVE_RECOMPUTE_ERROR",),
    "_logging/_internal.py": (),  # hands a caller's name on
    "_native/instrumentation.py": ("native_dsl_compile",),
}


def code(recording: Recording, graph: int = 0) -> str:
    return recording.graphs[graph].stages[Stage.OUTPUT_CODE].content.read().decode()


def log_of(folder: Path) -> str:
    """A TORCH_LOGS=output_code file with what a trace has of AOTInductor's C++."""
    recording = open_path(folder)
    wrapper, kernels = code(recording).split("// Triton kernels are embedded")
    prefix = "V1128 14:36:30.325000 18048 torch/_inductor/compile_fx.py:1568] [__output_code] "
    kernels = "// Triton kernels are embedded" + kernels
    texts = ("Output wrapper code: ", wrapper, "Output kernel code: ", kernels)
    rows = [prefix + line for text in texts for line in text.split("\n")]
    written = "I1128 14:36:30.33 18048 torch/_inductor/codecache.py:2614] [__output_code] "
    rows.append(f"{written}Wrapper code written to: /tmp/a/model.wrapper.cpp")
    rows.append(f"{written}Kernel code written to: /tmp/a/model.kernel.cpp")
    return "\n".join(rows)


def test_a_trace_of_aotinductor_has_its_graph_cpp_and_triton_kernels() -> None:
    recording = open_path(DATA / "aoti_cuda")
    (kernel,) = recording.kernels
    (graph,) = recording.graphs
    assert kernel.origin is Origin.INDUCTOR
    assert graph.kernels == (kernel.id,)
    assert {Stage.FORWARD, Stage.POST_GRAD, Stage.OUTPUT_CODE} <= set(graph.stages)
    assert "call_triton_per_fused_gelu_sum_0(arg0_1, buf0" in code(recording)
    assert "// Triton kernels are embedded as comments in" in code(recording)


def test_kernels_of_aotinductor_have_the_lines_that_torch_tracked() -> None:
    for name in ("aoti_cuda", "aoti_cpu"):
        (kernel,) = open_path(DATA / name).kernels
        assert kernel.fusion is not None
        (line,) = kernel.fusion.made_from
        assert (Path(line.file).name, line.line) == ("aoti_touch.py", 8)
        assert line.code == "return torch.nn.functional.gelu(x).sum(-1)"


def test_cpp_kernels_of_aotinductor_are_listed_at_their_definition_and_calls() -> None:
    recording = open_path(DATA / "aoti_cpu")
    (kernel,) = recording.kernels
    assert (kernel.name, kernel.origin) == ("cpp_fused_gelu_sum_0", Origin.CPP)
    lines = code(recording).split("\n")
    called = [lines[n - 1].strip() for n in recording.graphs[0].calls[kernel.id]]
    assert called[0].startswith('extern "C"  void  cpp_fused_gelu_sum_0(')
    assert called[1].startswith("cpp_fused_gelu_sum_0((const float*)(arg0_1")


@pytest.mark.parametrize("name", ["aoti_cuda", "aoti_cpu"])
def test_a_log_of_aotinductor_has_the_same_kernels_as_its_trace(name: str, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(log_of(DATA / name))
    recording = open_path(log)
    assert [k.name for k in recording.kernels] == [k.name for k in open_path(DATA / name).kernels]
    assert recording.graphs[0].stages[Stage.OUTPUT_CODE].origin_path == "/tmp/a/model.wrapper.cpp"
    assert "Output kernel code" not in code(recording)


def test_a_compile_without_a_frame_has_its_figures_and_phases() -> None:
    (compiled,) = open_path(DATA / "aoti_cuda").frame_compiles
    assert compiled.function == "exported program"
    assert compiled.seconds == pytest.approx(25.805104)
    assert compiled.figures["cuda_version"] == "13.0"
    assert "fx_codegen_and_compile" in {phase.name for phase in compiled.phases}


def test_an_export_alone_has_its_graph_and_its_dynamic_sizes() -> None:
    recording = open_path(DATA / "exported")
    (graph,) = recording.graphs
    assert set(graph.stages) == {Stage.FORWARD}
    (compiled,) = recording.frame_compiles
    assert [(s.kind, s.source) for s in compiled.shapes] == [("symbol", "L['x'].size()[0]")]


def test_records_that_are_not_read_are_counted_by_kind(tmp_path: Path) -> None:
    artifact = {"artifact": {"name": "fx_graph_runnable", "encoding": "string"}}
    folder = trace(
        tmp_path / "trace",
        ({"aot_inference_graph": {}}, "def forward(self): pass"),
        (artifact, "import torch"),
        (artifact, "import torch"),
        ({"describe_tensor": {"id": 0}}, ""),
        ({"new_in_torch_9": {}}, "text"),
    )
    path = folder / NAME
    path.write_text(path.read_text() + HEAD + '{"dynamo_start": {"stack\n' + "no record\n")
    (problem,) = open_path(folder).problems
    assert problem.partition(": ")[2] == (
        "4 records of 3 kinds are not read: new_in_torch_9 1 (unknown to ptxview), "
        "fx_graph_runnable 2, describe_tensor 1; 2 lines could not be read as records"
    )


def test_a_trace_with_nothing_that_is_read_says_what_it_has(tmp_path: Path) -> None:
    folder = trace(tmp_path / "trace", ({"dump_file": {"name": "f"}}, "x"))
    with pytest.raises(Unreadable, match="1 record of 1 kind is not read: dump_file 1"):
        open_path(folder)


def test_the_text_of_torch_2_6_is_a_graph_too(tmp_path: Path) -> None:
    dumped = {"name": "inductor_aot_code", "type": "cpp", "filename": "/tmp/m.cpp"}
    text = code(open_path(DATA / "aoti_cuda"))
    recording = open_path(trace(tmp_path / "trace", ({"graph_dump": dumped}, text)))
    assert [kernel.name for kernel in recording.kernels] == ["triton_per_fused_gelu_sum_0"]
    assert recording.graphs[0].stages[Stage.OUTPUT_CODE].origin_path == "/tmp/m.cpp"


def test_triton_kernels_in_the_text_of_kernels_are_found(tmp_path: Path) -> None:
    wrapper, kernels = (
        {"graph_dump": {"name": f"inductor_aot_{part}_code", "type": "cpp", "filename": part}}
        for part in ("wrapper", "kernel")
    )
    text = code(open_path(DATA / "aoti_cuda"))
    folder = trace(tmp_path / "t", (wrapper, "#include <aoti_runtime/model.h>"), (kernels, text))
    (graph,) = open_path(folder).graphs
    assert len(graph.kernels) == 1


# -- the table of kinds ---------------------------------------------------------------------------


def _name(node: ast.expr | None) -> Iterator[str | None]:
    """The names that an expression may be, a placeholder's as ``x``; None of a variable."""
    match node:
        case ast.Constant(str(text)):
            yield text
        case ast.JoinedStr(values) if any(isinstance(part, ast.Constant) for part in values):
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "x" for p in values)
        case ast.IfExp():
            yield from _name(node.body)
            yield from _name(node.orelse)
        case _:
            yield None


def _kinds(tree: ast.AST) -> Iterator[str | None]:
    """The kinds of records that a module of torch writes."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = getattr(node.func, "attr", getattr(node.func, "id", None))
        given = {word.arg: word.value for word in node.keywords}
        if called not in CALLS:
            continue
        for name in _name(node.args[0] if node.args else given.get("name")):
            if called == CALLS[2] or name not in ("artifact", "graph_dump"):
                yield name
                continue
            metadata = node.args[1] if len(node.args) > 1 else given.get("metadata_fn")
            body = metadata.body if isinstance(metadata, ast.Lambda) else metadata
            pairs = zip(body.keys, body.values, strict=True) if isinstance(body, ast.Dict) else ()
            names = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
            yield from _name(names.get("name"))


def test_every_kind_of_record_that_torch_writes_is_in_the_table() -> None:
    spec = find_spec("torch")
    assert spec is not None and spec.origin is not None
    root = Path(spec.origin).parent
    missing = []
    seen = 0
    for file in root.rglob("*.py"):
        text = file.read_text("utf-8", "replace")
        if "trace_structured" not in text:
            continue
        place = file.relative_to(root).as_posix()
        for kind in _kinds(ast.parse(text)):
            names = VARIABLES.get(place) if kind is None else (kind,)
            seen += 1
            missing += [
                (place, name)
                for name in names or ((None,) if names is None else ())
                if name is None or not (traces.is_read(name) or traces.is_passed_over(name))
            ]
    assert not missing
    assert seen > 40


def test_a_kind_is_read_or_passed_over_and_not_both() -> None:
    table = traces.record_kinds()
    assert not [kind for kind in table["passed_over"] if traces.is_read(kind.replace("*", "x"))]
    assert set(traces.GRAPHS) <= set(table["read"])
