"""Contents of a compiled graph: nodes with their modules, fusions, reasons against them; failures.

The texts of torch's trace name no module; the nodes of the graphs do, while they are compiled.
"""

import json
import logging
import os
import re
import threading
import time
import weakref
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple

from .. import private_names
from ..hooks import CallHook, ReturnHook, guarded, per_recording, recording
from ..writer import blob, emit, file_blob
from . import node_arguments

MAX_REASONS = 4096
"""Reasons against a fusion that are kept of one graph; how many more there were is counted."""
LEFT_OUT = ("",)
"""The key of further reasons."""
MAX_NODES = 20_000
MAX_IR_CHARACTERS = 1 << 18
"""Characters of Inductor's IR after which no further operation is written: torch takes about two
microseconds for each."""
_FRAME = re.compile(r'\s*File "([^"\n]{1,4096})", line (\d{1,9})')
_PACKAGES = ("/site-packages/", "/dist-packages/")
"""Parts of the paths of installed packages."""
_now = threading.local()
PARTS = (("run", "ir_pre_fusion"), ("codegen", "output_code"), ("compile_to_module", None))
"""What Inductor does with a graph, and what it makes by it; last come the graph's kernels."""
MAX_LOG_CHARACTERS = 20_000
_QUOTED = re.compile(r"at \d+:\d+:$")
_reported_graphs: set[tuple[Any, ...]] = per_recording(set())
_began: weakref.WeakKeyDictionary[Any, float] = per_recording(weakref.WeakKeyDictionary())
"""When Inductor began with a graph, since 1970."""


def attach_inductor(module: Any) -> None:
    """One of Inductor's modules: its inputs, its results and its failures."""
    if module.__name__ == "torch._inductor.compile_fx":
        private_names.wrap("torch._inductor.compile_fx:compile_fx", _compiling, _compiled)
    elif module.__name__ == "torch._inductor.scheduler":
        private_names.wrap("torch._inductor.scheduler:WhyNoFuse.__call__", _refusing)
    elif module.__name__ == "torch._inductor.debug":
        # The IR before and after fusion, which it writes only if asked.
        for name in ("ir_pre_fusion", "ir_post_fusion"):
            private_names.wrap(f"torch._inductor.debug:log_{name}", _ir(name))
    else:
        lowering = "torch._inductor.graph:GraphLowering"
        for name, stage in PARTS:
            private_names.wrap(f"{lowering}.{name}", *_part(stage))
        for name in ("codegen", "codegen_subgraph"):
            private_names.wrap(f"{lowering}.{name}", _lowering, _lowered)


def _compiling(args: Any, kwargs: Any) -> bool:
    """Record Dynamo's graph; True for the outermost call, which calls itself with graphs of its
    own making."""
    if getattr(_now, "compiling", False):
        return False
    model = args[0] if args else kwargs.get("model_")
    nodes = getattr(getattr(model, "graph", None), "nodes", None)
    if nodes is not None:
        emit({"event": "dynamo_nodes", "blob": blob(json.dumps(described(nodes))), **ids()})
    _now.compiling = True
    return True


def _compiled(outermost: bool, _: object, error: BaseException | None) -> None:
    if outermost:
        _now.compiling = False


def _refusing(args: Any, kwargs: Any) -> None:
    """Count a reason; of a fused node the first operations of its name identify it."""
    refused = getattr(_now, "refused", None)
    if refused is not None:
        why, reason, *format_arguments = args
        text = (reason % tuple(format_arguments) if format_arguments else reason)[:400]
        if hasattr(why, "name1"):
            names = why.name1, why.name2
        else:  # until torch 2.6
            names = why.node1.get_name(), why.node2.get_name()
        key = (*(str(name)[:200] for name in names), str(reason)[:100], text)
        refused[key if key in refused or len(refused) < MAX_REASONS else LEFT_OUT] += 1


def _lowering(args: Any, kwargs: Any) -> tuple[Any, bool]:
    """The graph whose code is written, and whether it is within no other."""
    outermost = getattr(_now, "graphs", None) is None
    if outermost:
        _now.graphs = []
        _now.refused = Counter()
    return args[0], outermost


def _lowered(token: tuple[Any, bool], _: object, error: BaseException | None) -> None:
    lowering, outermost = token
    graphs = _now.graphs
    refused = _now.refused
    if outermost:
        _now.graphs = _now.refused = None
    if error is not None:
        return
    nodes = getattr(getattr(lowering, "scheduler", None), "nodes", ())
    scheduled = [_scheduled(node) for node in nodes]
    graphs.append({**described(lowering.graph.nodes, with_arguments=True), "scheduled": scheduled})
    if outermost:
        _emit_graph(graphs, refused)


def ids() -> dict[str, Any]:
    """How torch's trace names what is being compiled."""
    context = private_names.get("torch._guards:CompileContext")
    current = context.current_trace_id() if context is not None and context.try_get() else None
    inner = getattr(current, "compile_id", None)
    return {
        "frame_id": getattr(inner, "frame_id", None),
        "frame_compile_id": getattr(inner, "frame_compile_id", None),
        "attempt": getattr(current, "attempt", None),
    }


def graph_ids() -> dict[str, Any]:
    """The same, with the graph's AOT ID in ``output_code``."""
    tracing = private_names.get("torch._guards:TracingContext")
    name = getattr(tracing and tracing.try_get(), "aot_graph_name", None)
    name = name[0] if isinstance(name, list) and name else name
    return {"graph": name if isinstance(name, str) else None, **ids()}


def _emit_graph(graphs: list[dict[str, Any]], refused: Counter[tuple[str, ...]]) -> None:
    outer_graph = graphs[-1]
    for inner in graphs[:-1]:
        further = len(outer_graph["stacks"])
        for node in inner["nodes"]:
            node["module"] = None if node["module"] is None else node["module"] + further
        for name in ("stacks", "nodes", "scheduled"):
            outer_graph[name] += inner[name]
    outer_graph["not_fused_left_out"] = refused.pop(LEFT_OUT, 0)
    outer_graph["not_fused"] = [[a, b, text, n] for (a, b, _, text), n in refused.items()]
    emit({"event": "graph_nodes", **graph_ids(), "blob": blob(json.dumps(outer_graph))})


def described(nodes: Any, with_arguments: bool = False) -> dict[str, Any]:
    """Nodes with the place of the stack of modules that each was called in.

    ``with_arguments``: and with what each is called with, so that it can be computed again.
    """
    out: list[dict[str, Any]] = []
    stacks: dict[tuple[Any, ...], int] = {}
    listed_nodes = (node for node in nodes if node.op not in ("output", "root"))
    for node in islice(listed_nodes, MAX_NODES):
        meta = node.meta
        forward = meta.get("nn_module_stack") or None
        of_forward = None if forward else meta.get("fwd_nn_module_stack")
        stack = _modules(forward or of_forward)
        aten = meta.get("original_aten")
        out.append(
            {
                **(node_arguments.described(node) if with_arguments else {}),
                "name": str(node.name),
                "op": str(node.op),
                "target": _target(node.target),
                "aten": None if aten is None else str(aten),
                "module": None if stack is None else stacks.setdefault(stack, len(stacks)),
                "line": _line(meta.get("stack_trace")),
                "caller": _caller(meta.get("stack_trace")),
                "from": _origin(meta),
                "backward": _is_backward(meta) or of_forward is not None,
            }
        )
    return {"stacks": [{"paths": p, "type": kind} for p, kind in stacks], "nodes": out}


def _origin(meta: Mapping[str, Any]) -> str | None:
    """The name of the node of an earlier graph that a node was made from."""
    first = next(iter(meta.get("from_node") or ()), None)
    name: str | None = getattr(first, "name", None)
    if not name and isinstance(first, tuple) and first:
        return str(first[0])
    return name or None


def _is_backward(meta: Mapping[str, Any]) -> bool:
    """Whether torch itself marks a node as one of the backward pass."""
    return bool(meta.get("partitioner_tag") == "is_backward" or meta.get("autograd_backward"))


def _target(target: Any) -> str:
    text = str(target)
    if isinstance(target, str) or not text.startswith("<"):
        return text
    module = getattr(target, "__module__", None)
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", text)
    return f"{module}.{name}" if module else str(name)


def _modules(stack: Any) -> tuple[tuple[str, ...], str | None] | None:
    """The modules of a stack ``{id: (path, class)}`` as Dynamo names them, the outermost first,
    and the innermost's class."""
    values = stack.values() if isinstance(stack, dict) else ()
    entries = [entry for entry in values if isinstance(entry, tuple) and entry]
    if not entries:
        return None
    kind = entries[-1][1] if len(entries[-1]) > 1 else None
    name = None if kind is None else str(getattr(kind, "__name__", kind))
    return tuple(str(entry[0]) for entry in entries), name


def _line(stack: Any) -> list[Any] | None:
    """The innermost line of a node's stack: file, line and code."""
    rows = stack.split("\n") if isinstance(stack, str) else []
    for n in range(len(rows) - 1, -1, -1):
        if match := _FRAME.match(rows[n]):
            return [match[1], int(match[2]), "".join(rows[n + 1 : n + 2]).strip()]
    return None


def _caller(stack: Any) -> list[Any] | None:
    """The innermost line outside of installed packages that led to a line of one; None of a line
    that is in none itself, or where the stack has no such line."""
    rows = stack.split("\n") if isinstance(stack, str) else []
    innermost = True
    for n in range(len(rows) - 1, -1, -1):
        match = _FRAME.match(rows[n])
        if match is None:
            continue
        if not any(name in match[1] for name in _PACKAGES):
            code = "".join(rows[n + 1 : n + 2]).strip()
            return None if innermost else [match[1], int(match[2]), code]
        innermost = False
    return None


def _scheduled(node: Any) -> dict[str, Any]:
    """What became of one node of the scheduler: as a rule one launch."""
    inner = list(node.get_nodes())
    outputs = [output for operation in inner for output in operation.get_outputs()]
    inside = inner[0].node if len(inner) == 1 else None
    return {
        "name": str(node.get_name())[:200],
        "kind": type(node).__name__,
        "buffer": None if inside is None else type(inside).__name__,
        "operations": [
            {
                "name": str(operation.get_name()),
                **origins_of(getattr(operation, "node", None)),
                "outputs": [_output(output) for output in operation.get_outputs()],
            }
            for operation in inner
        ],
        "outputs": [str(output.get_name()) for output in outputs],
        "mutates": [str(name) for output in outputs for name in output.get_mutations()],
        "bytes": _figure(node, "get_read_write_buffers_sizes"),
        "bytes_read": _figure(node, "get_read_buffer_sizes"),
        "bytes_written": _figure(node, "get_write_buffer_sizes"),
    }


def _output(output: Any) -> dict[str, Any]:
    """A buffer that an operation writes, and those whose memory that changes."""
    return {"name": str(output.get_name()), "mutates": [str(n) for n in output.get_mutations()]}


def origins_of(node: Any) -> dict[str, Any]:
    """The graph's nodes that an operation is from, and the one whose result it is."""
    get = getattr(node, "get_origins", lambda: getattr(node, "origins", None))
    origins = get()
    result = getattr(getattr(node, "origin_node", None), "name", None)
    return {
        "origins": sorted(str(origin.name) for origin in origins or ()),
        "result": None if result is None else str(result),
    }


def _figure(node: Any, name: str) -> int | None:
    """What Inductor itself says that a node moves, None where it cannot say."""
    try:
        value = getattr(node, name)()
    except Exception:
        return None  # sizes that are known only when it runs, or a version without this figure
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _ir(name: str) -> CallHook:
    def write_ir(args: Any, kwargs: Any) -> None:
        write = private_names.get("torch._inductor.debug:DebugFormatter._write_ir")
        nodes = args[0] if args else kwargs["nodes"]
        if write is None:
            return
        text = ""
        for n, node in enumerate(nodes):
            if len(text) > MAX_IR_CHARACTERS:
                text += f"# {len(nodes) - n} further operations are not recorded\n"
                break
            text += write([node])
        emit({"event": "graph_text", "kind": name, **graph_ids(), "blob": blob(text)})

    return write_ir


def _part(stage: str | None) -> tuple[CallHook, ReturnHook]:
    """Hooks around a part of Inductor's work with a graph, which began maybe with an earlier."""

    def ended(began: float, _: Any, error: BaseException | None) -> None:
        if isinstance(error, Exception):
            _record(error, stage, began)

    return lambda args, kwargs: _began.setdefault(args[0], time.time()), ended


def _record(error: BaseException, stage: str | None, began: float) -> None:
    about = graph_ids()
    key = tuple(about.values())
    if key in _reported_graphs:
        return  # an inner part was recorded before: it raises first
    _reported_graphs.add(key)
    text = str(error).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    message = lines[0] if lines else ""
    if _QUOTED.match(message):  # Triton quotes the source up to a caret before it says what it is
        message = lines[-1]
    kind = type(error).__name__
    if kind != "LoweringException":  # which begins with the name of what it is about
        message = f"{kind}: {message}" if message else kind
    # The user's line of the node that could not be lowered.
    _, marker, stack = text.rpartition("Found from :")
    file, line, _ = (_line(stack) if marker else None) or (None, None, None)
    summary = {"message": message[:2000], "tool": "torch"}
    emit(
        {
            "event": "graph_failed",
            **about,
            "began": began,
            "seconds": time.time() - began,
            "stage": stage,
            "kind": kind,
            **summary,
            "messages": [{"severity": "error", **summary, "file": file, "line": line}],
            "log": blob(text[:MAX_LOG_CHARACTERS]),
        }
    )


MAX_MARKS = 4000
"""Beginnings and ends of phases that are kept of one compile."""
MAX_OPEN_COMPILES = 256
"""Compiles whose phases are under way at once."""
MAX_VALUE_CHARACTERS = 600
"""Characters of one value of what torch said."""
MAX_FIGURE_CHARACTERS = 16_384
"""Characters of one value of torch's figures."""
MAX_MARK_CHARACTERS = 4 << 20
MAX_FRAMES = 64

SYMBOLS = (
    "create_symbol",
    "create_unbacked_symbol",
    "symbolic_shape_specialization",
    "guard_added_fast",
)
METRICS = (
    "compilation_metrics",
    "compilation_metrics_runtime",
    "bwd_compilation_metrics",
    "bwd_compilation_metrics_runtime",
    "aot_autograd_backward_metrics",
)
CACHES = ("fx_graph_cache_", "fx_graph_bundled_cache_", "aotautograd_cache_")


class TraceRecord(NamedTuple):
    """A record of torch's trace: ``name`` is that of its artifact, ``ids`` say of which compile."""

    metadata: dict[str, Any]
    payload: Any
    name: Any
    ids: dict[str, Any]


class Listener(logging.Handler):
    """Keeps what ``TORCH_TRACE`` would write of compilations, from memory; prints nothing.

    The user's own TORCH_LOGS and TORCH_TRACE are not touched.
    """

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._names: dict[int, str] = {}
        self._marks: dict[Any, list[Any]] = per_recording({})
        # AOTInductor's C++ before its kernels, and its file, by thread.
        self._wrappers: dict[int, tuple[str, Any]] = {}
        # An attribute, so that the guard is all that logging calls.
        self.emit = guarded(self._take, "torch's trace")  # type: ignore[method-assign]

    def _take(self, record: logging.LogRecord) -> None:
        """Keep what one record says, by the first method that knows such a record."""
        metadata: dict[str, Any] = getattr(record, "metadata", None) or {}
        payload: Any = getattr(record, "payload", None)
        if not recording():
            return
        if "chromium_event" in metadata:
            self._mark(metadata, payload)
            return
        if "str" in metadata:
            self._names[metadata["str"][1]] = metadata["str"][0]
            return
        artifact = metadata.get("artifact")
        name = artifact.get("name") if isinstance(artifact, dict) else None
        trace_record = TraceRecord(metadata, payload, name, identity(metadata))
        for keep in (
            self._keep_graph_text,
            self._keep_output_code,
            self._keep_aot_code,
            self._keep_text,
            self._keep_cache_lookup,
            self._keep_start,
            self._keep_guards,
            self._keep_end,
            self._keep_symbol,
        ):
            if keep(trace_record):
                return

    # Each returns whether a record was its own.

    def _keep_graph_text(self, record: TraceRecord) -> bool:
        """A graph as torch prints it, and the files that it names."""
        kind = record.name
        if kind not in ARTIFACTS:
            kind = next((kind for kind in GRAPHS if kind in record.metadata), None)
        if kind is None or not record.payload:
            return False
        text = str(record.payload)
        emit({"event": "graph_text", "kind": kind, "blob": blob(text), **record.ids})
        _keep_files(FILE.findall(text))
        return True

    def _keep_output_code(self, record: TraceRecord) -> bool:
        """Inductor's Python, and the files of the kernels that it copied from the user."""
        if "inductor_output_code" not in record.metadata or record.payload is None:
            return False
        code = record.metadata["inductor_output_code"] or {}
        path = code.get("file_path") or code.get("filename")
        emit({"event": "graph", "path": path, "blob": blob(record.payload), **record.ids})
        _keep_files(ORIGINAL.findall(str(record.payload)))
        return True

    def _keep_text(self, record: TraceRecord) -> bool:
        """An artifact that is kept as it is."""
        if record.name not in TEXTS or record.payload is None:
            return False
        text = str(record.payload)
        emit({"event": TEXTS[record.name], **record.ids, "blob": blob(text)})
        return True

    def _keep_cache_lookup(self, record: TraceRecord) -> bool:
        """What one of torch's caches answered, and why."""
        name = record.name
        payload = record.payload
        if not isinstance(name, str) or not name.startswith(CACHES) or payload is None:
            return False
        try:
            about = json.loads(payload) if isinstance(payload, str) else payload
        except ValueError:
            about = {}
        about = short(about if isinstance(about, dict) else {})
        emit({"event": "compile_cache", **record.ids, "name": name, "said": about})
        return True

    def _keep_start(self, record: TraceRecord) -> bool:
        """Where a compile began, and the user's own files there as they are by now."""
        if "dynamo_start" not in record.metadata:
            return False
        frames = self._frames((record.metadata["dynamo_start"] or {}).get("stack"))
        emit({"event": "compile_start", **record.ids, "stack": frames})
        _keep_files([f["file"] for f in frames if f["file"] and "/torch/" not in f["file"]])
        return True

    def _keep_guards(self, record: TraceRecord) -> bool:
        """The guards that a compile ended with."""
        if "dynamo_cpp_guards_str" not in record.metadata or not record.payload:
            return False
        emit({"event": "guards", **record.ids, "blob": blob(str(record.payload))})
        return True

    def _keep_end(self, record: TraceRecord) -> bool:
        """The figures that torch gives of a compile at its end."""
        kind = next((kind for kind in METRICS if kind in record.metadata), None)
        if kind is None:
            return False
        measured = figures(record.metadata[kind] or {})
        emit({"event": "compile_end", **record.ids, "kind": kind, "figures": measured})
        return True

    def _keep_symbol(self, record: TraceRecord) -> bool:
        """A symbolic shape that torch introduced, specialised or guarded."""
        kind = next((kind for kind in SYMBOLS if kind in record.metadata), None)
        if kind is None:
            return False
        about = {**(record.metadata[kind] or {}), "stack": None}
        frames = self._frames(about.pop("user_stack", None))
        event = {"event": "symbol", **record.ids, "kind": kind, "stack": frames}
        emit({**event, "said": short(about)})
        return True

    def _keep_aot_code(self, record: TraceRecord) -> bool:
        """AOTInductor's C++: the wrapper comes first, then the kernels, as one text."""
        if "graph_dump" not in record.metadata or record.payload is None:
            return False
        dumped = record.metadata["graph_dump"]
        text = str(record.payload)
        ids = record.ids
        name = dumped.get("name")
        path = dumped.get("filename")
        thread = threading.get_ident()
        if name == WRAPPER:
            self._wrappers[thread] = text, path
        elif name in (KERNELS, WRAPPER_AND_KERNELS):
            if thread in self._wrappers:
                wrapper, path = self._wrappers.pop(thread)
                text = f"{wrapper}\n{text}"
            emit({"event": "graph", "path": path, "blob": blob(text), **ids})
        return True

    def _mark(self, metadata: dict[str, Any], payload: Any) -> None:
        """Keep when a phase began or ended; write all when the outermost phase ends."""
        if not isinstance(payload, str) or len(payload) > MAX_MARK_CHARACTERS:
            return
        mark = json.loads(payload)
        ids = identity(metadata)
        phase = mark.get("ph")
        about = mark.get("args") or {}
        if phase == "i" and (kind := mark.get("name")) == "automatic_dynamic":
            emit({"event": "symbol", **ids, "kind": kind, "stack": [], "said": short(about)})
        compile = about.get("compile_id")
        key = (threading.get_ident(), compile)
        if phase == "B" and key not in self._marks:
            if len(self._marks) >= MAX_OPEN_COMPILES:
                self._marks.pop(next(iter(self._marks)))
            self._marks[key] = [0]
        marks = self._marks.get(key)
        if phase not in ("B", "E") or marks is None:
            return
        if len(marks) <= MAX_MARKS:
            marks.append([phase, str(mark.get("name"))[:200], mark.get("ts")])
        marks[0] += 1 if phase == "B" else -1
        if marks[0] <= 0:
            del self._marks[key]
            emit({"event": "compile_phases", **ids, "compile": compile, "marks": marks[1:]})

    def _frames(self, stack: Any) -> list[dict[str, Any]]:
        """A stack with its files' names, which torch gives as numbers, the innermost frame last."""
        out = []
        for frame in (stack or [])[-MAX_FRAMES:]:
            file = frame.get("filename")
            if isinstance(file, int) and file not in self._names:
                # What torch numbered before anybody listened.
                table = private_names.get("torch._logging.structured:INTERN_TABLE") or {}
                for text, number in list(table.items()):
                    self._names.setdefault(number, text)
            out.append(
                {
                    "file": self._names.get(file) if isinstance(file, int) else file,
                    "line": frame.get("line"),
                    "name": frame.get("name"),
                    "code": str(frame.get("loc") or "")[:MAX_VALUE_CHARACTERS],
                }
            )
        return out


def identity(metadata: dict[str, Any]) -> dict[str, Any]:
    """Which compile a record is of."""
    names = ("frame_id", "frame_compile_id", "compiled_autograd_id", "attempt", "rank")
    return {name: metadata[name] for name in names if metadata.get(name) is not None}


def short(about: dict[str, Any]) -> dict[str, Any]:
    """What torch said, without what is null or longer than anybody reads in a table."""
    out: dict[str, Any] = {}
    for name, value in about.items():
        if isinstance(value, bool | int | float):
            out[str(name)] = value
        elif value is not None:
            text = value if isinstance(value, str) else json.dumps(value, default=str)
            if len(text) <= MAX_VALUE_CHARACTERS:
                out[str(name)] = value
            elif str(name) in ("fail_reason", "expr", "cache_bypass_reason"):
                out[str(name)] = text[:MAX_VALUE_CHARACTERS]
    return out


def figures(about: dict[str, Any]) -> dict[str, Any]:
    """Torch's figures that are not null, without its settings, which take 30 KB each time."""
    out: dict[str, Any] = {}
    for name, value in about.items():
        if value is None or str(name).endswith("_config"):
            continue
        if isinstance(value, bool | int | float):
            out[str(name)] = value
        elif isinstance(value, str):
            out[str(name)] = value[:MAX_FIGURE_CHARACTERS]
        else:
            text = json.dumps(value, default=str)
            fits = len(text) <= MAX_FIGURE_CHARACTERS
            out[str(name)] = json.loads(text) if fits else text[:MAX_FIGURE_CHARACTERS]
    return out


def attach(module: Any) -> None:
    """Dynamo's or Inductor's first module: keep why torch compiled, its graphs and its code."""
    logger = logging.getLogger("torch.__trace")
    if not any(isinstance(handler, Listener) for handler in logger.handlers):
        logger.addHandler(Listener())


# Texts that tie a graph's kernels to the user's lines; the rest of the trace is left alone.
GRAPHS = (
    "dynamo_output_graph",
    "aot_forward_graph",
    "aot_backward_graph",
    "aot_inference_graph",
    "aot_joint_graph",
    "inductor_post_grad_graph",
)
# AOTInductor's C++; torch 2.6 has one text.
WRAPPER = "inductor_aot_wrapper_code"
KERNELS = "inductor_aot_kernel_code"
WRAPPER_AND_KERNELS = "inductor_aot_code"
ARTIFACTS = (
    "before_pre_grad_graph",
    "after_pre_grad_graph",
    "before_joint_graph",
    "after_joint_graph",
    "before_post_grad_graph",
    "inductor_post_grad_graph",
    "triton_kernel_info",
    "inductor_provenance_tracking_node_mappings",
    "inductor_provenance_tracking_kernel_stack_traces",
)
# Artifacts that are events of their own.
TEXTS = {"dynamo_graph_break_reason": "graph_break", "recompile_reasons": "recompile"}

# Above the nodes that came of a line, each graph names it; such a file is small.
FILE = re.compile(
    r"^[ \t]*+# (?:Backward of forward node: )?File: ([^\n]{1,4096}?):\d{1,9} in ", re.MULTILINE
)
# Above the copy of a kernel that the user wrote, the code names the kernel's own file.
ORIGINAL = re.compile(r"^# Original path: ([^\n]{1,4096}):\d{1,9}$", re.MULTILINE)
MAX_FILE_BYTES = 8 << 20
_kept_paths: set[str] = per_recording(set())


def _keep_files(paths: list[str]) -> None:
    """Keep the user's files as they are while they are compiled, each once."""
    for path in paths:
        if path in _kept_paths:
            continue
        _kept_paths.add(path)
        try:
            fits = os.path.isfile(path) and os.path.getsize(path) <= MAX_FILE_BYTES
        except (OSError, ValueError):
            continue
        if fits and (digest := file_blob(path)) is not None:
            emit({"event": "user_file", "path": path, "blob": digest})
