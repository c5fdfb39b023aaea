"""torch's own structured trace, the records that ``TORCH_TRACE`` would write, from memory.

Why torch.compile compiled: breaks, recompiles, guards, caches, symbolic sizes and phases, without
the stacks of torch's own code; ``output_code`` and the graphs that it was made from.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Callable
from typing import Any

from .. import private_names
from ..hooks import at_new_recording, guarded, per_recording, recording
from ..writer import blob, emit, file_blob

MAX_MARKS = 4000
"""Beginnings and ends of phases that are kept of one compile."""
MAX_OPEN_COMPILES = 256
"""Compiles whose phases are under way at once."""
MAX_VALUE_CHARACTERS = 600
"""Characters of one value of torch's figures; its configurations, as text, are far longer."""
MAX_MARK_CHARACTERS = 4 << 20
MAX_FRAMES = 64

SYMBOLS = (
    "create_symbol",
    "create_unbacked_symbol",
    "symbolic_shape_specialization",
    "guard_added_fast",
)
METRICS = ("compilation_metrics", "bwd_compilation_metrics", "aot_autograd_backward_metrics")
CACHES = ("fx_graph_cache_", "fx_graph_bundled_cache_", "aotautograd_cache_")


class Listener:
    """Takes records about compilations as torch makes them."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._marks: dict[Any, list[Any]] = {}

    def take(self, said: dict[str, Any], payload: Any) -> None:
        """Keep what one record says."""
        if "chromium_event" in said:
            self._mark(said, payload)
            return
        if "str" in said:
            text, number = said["str"]
            self._names[number] = text
            return
        ids = identity(said)
        artifact = said.get("artifact")
        name = artifact.get("name") if isinstance(artifact, dict) else None
        if isinstance(name, str):
            self._artifact(name, payload, ids)
        elif "dynamo_start" in said:
            frames = self._frames((said["dynamo_start"] or {}).get("stack"))
            emit({"event": "compile_start", **ids, "stack": frames})
            self._keep(frames)
        elif "dynamo_cpp_guards_str" in said and payload:
            emit({"event": "guards", **ids, "blob": blob(str(payload))})
        elif (kind := next((k for k in METRICS if k in said), None)) is not None:
            emit({"event": "compile_end", **ids, "kind": kind, "figures": short(said[kind] or {})})
        elif (kind := next((k for k in SYMBOLS if k in said), None)) is not None:
            about = dict(said[kind] or {})
            about.pop("stack", None)
            frames = self._frames(about.pop("user_stack", None))
            emit({"event": "symbol", **ids, "kind": kind, "stack": frames, "said": short(about)})

    def forget(self) -> None:
        """Drop the phases of compilations that another recording has seen begin."""
        self._marks.clear()

    def _artifact(self, name: str, payload: Any, ids: dict[str, Any]) -> None:
        if payload is None:
            return
        if name == "dynamo_graph_break_reason":
            emit({"event": "graph_break", **ids, "blob": blob(str(payload))})
        elif name == "recompile_reasons":
            emit({"event": "recompile", **ids, "blob": blob(str(payload))})
        elif name.startswith(CACHES):
            try:
                about = json.loads(payload) if isinstance(payload, str) else payload
            except ValueError:
                about = {}
            about = short(about if isinstance(about, dict) else {})
            emit({"event": "compile_cache", **ids, "name": name, "said": about})

    def _mark(self, said: dict[str, Any], payload: Any) -> None:
        """Keep when a phase began or ended; write all when the outermost phase ends."""
        if not isinstance(payload, str) or len(payload) > MAX_MARK_CHARACTERS:
            return
        mark = json.loads(payload)
        phase, about = mark.get("ph"), mark.get("args") or {}
        if phase == "i" and mark.get("name") == "automatic_dynamic":
            emit(
                {
                    "event": "symbol",
                    **identity(said),
                    "kind": "automatic_dynamic",
                    "stack": [],
                    "said": short(about),
                }
            )
        if phase not in ("B", "E"):
            return
        key = (threading.get_ident(), about.get("compile_id"))
        marks = self._marks.get(key)
        if marks is None:
            if phase == "E":
                return
            if len(self._marks) >= MAX_OPEN_COMPILES:
                self._marks.pop(next(iter(self._marks)))
            marks = self._marks[key] = [0]
        if len(marks) <= MAX_MARKS:
            marks.append([phase, str(mark.get("name"))[:200], mark.get("ts")])
        marks[0] += 1 if phase == "B" else -1
        if marks[0] <= 0:
            del self._marks[key]
            emit(
                {
                    "event": "compile_phases",
                    **identity(said),
                    "compile": about.get("compile_id"),
                    "marks": marks[1:],
                }
            )

    def _frames(self, stack: Any) -> list[dict[str, Any]]:
        """A stack with its files' names, which torch gives as numbers, the innermost frame last."""
        out = []
        for frame in (stack or [])[-MAX_FRAMES:]:
            number = frame.get("filename")
            file = self._file_of(number) if isinstance(number, int) else number
            out.append(
                {
                    "file": file,
                    "line": frame.get("line"),
                    "name": frame.get("name"),
                    "code": str(frame.get("loc") or "")[:MAX_VALUE_CHARACTERS],
                }
            )
        return out

    def _file_of(self, number: int) -> str | None:
        if number not in self._names:
            # What torch numbered before anybody listened.
            table = private_names.get("torch._logging.structured:INTERN_TABLE") or {}
            for text, other in list(table.items()):
                self._names.setdefault(other, text)
        return self._names.get(number)

    def _keep(self, frames: list[dict[str, Any]]) -> None:
        """The user's own files that a compile began in, as they are by now."""
        for path in dict.fromkeys(frame["file"] for frame in frames):
            if isinstance(path, str) and "/torch/" not in path:
                keep_file(path)


def identity(said: dict[str, Any]) -> dict[str, Any]:
    """Which compile a record is of."""
    names = ("frame_id", "frame_compile_id", "compiled_autograd_id", "attempt", "rank")
    return {name: said[name] for name in names if said.get(name) is not None}


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


def attach(module: Any) -> None:
    """Keep why torch compiled, and how long each phase took."""
    listener = Listener()
    at_new_recording(listener.forget)
    listen(listener.take)


# -- graphs ----------------------------------------------------------------------------------------

# Texts that tie a graph's kernels to the user's lines; the rest of the trace is left alone.
GRAPHS = {
    "dynamo_output_graph",
    "aot_forward_graph",
    "aot_backward_graph",
    "aot_inference_graph",
    "aot_joint_graph",
    "inductor_post_grad_graph",
}
ARTIFACTS = {
    "before_pre_grad_graph",
    "after_pre_grad_graph",
    "before_joint_graph",
    "after_joint_graph",
    "before_post_grad_graph",
    "inductor_post_grad_graph",
    "triton_kernel_info",
    "inductor_provenance_tracking_node_mappings",
    "inductor_provenance_tracking_kernel_stack_traces",
}

# Above the nodes that came of a line, each graph names it; such a file is small.
FILE = re.compile(
    r"^[ \t]*+# (?:Backward of forward node: )?File: ([^\n]{1,4096}?):\d{1,9} in ", re.MULTILINE
)
# Above the copy of a kernel that the user wrote, the code names the kernel's own file.
ORIGINAL = re.compile(r"^# Original path: ([^\n]{1,4096}):\d{1,9}$", re.MULTILINE)
MAX_FILE_BYTES = 8 << 20
_seen: set[str] = per_recording(set())


class Handler(logging.Handler):
    """Hands on what ``TORCH_TRACE`` would write, from memory; prints nothing."""

    def __init__(self, take: Callable[[dict[str, Any], Any], None]) -> None:
        super().__init__(logging.DEBUG)
        self.take = take
        # An attribute, so that the guard is all that logging calls.
        self.emit = guarded(self._hand_on, f"torch's trace ({take.__module__})")  # type: ignore[method-assign]

    def _hand_on(self, record: logging.LogRecord) -> None:
        if recording():
            self.take(getattr(record, "metadata", None) or {}, getattr(record, "payload", None))


def listen(take: Callable[[dict[str, Any], Any], None]) -> None:
    """Call ``take(metadata, payload)`` for each record of ``torch.__trace``.

    The user's own TORCH_LOGS and TORCH_TRACE are not touched.
    """
    logging.getLogger("torch.__trace").addHandler(Handler(take))


def _take(metadata: dict[str, Any], payload: Any) -> None:
    compile_ids = {
        "frame_id": metadata.get("frame_id"),
        "frame_compile_id": metadata.get("frame_compile_id"),
        "attempt": metadata.get("attempt"),
        "rank": metadata.get("rank"),
    }
    if "inductor_output_code" in metadata and payload is not None:
        output_code = metadata["inductor_output_code"] or {}
        path = output_code.get("file_path") or output_code.get("filename")
        emit({"event": "graph", "path": path, "blob": blob(payload), **compile_ids})
        _keep_sources(str(payload), ORIGINAL)
        return
    kind = next((g for g in GRAPHS if g in metadata), None)
    artifact = metadata.get("artifact")
    if kind is None and isinstance(artifact, dict) and artifact.get("name") in ARTIFACTS:
        kind = artifact["name"]
    if kind is not None and payload:
        text = payload if isinstance(payload, str) else str(payload)
        emit({"event": "graph_text", "kind": kind, "blob": blob(text), **compile_ids})
        _keep_sources(text, FILE)


def _keep_sources(text: str, named: re.Pattern[str]) -> None:
    """The user's own files that a graph names."""
    for path in dict.fromkeys(named.findall(text)):
        keep_file(path)


def keep_file(path: str) -> None:
    """Keep one of the user's files as it is while it is compiled, once."""
    if path in _seen:
        return
    _seen.add(path)
    try:
        fits = os.path.isfile(path) and os.path.getsize(path) <= MAX_FILE_BYTES
    except (OSError, ValueError):
        fits = False
    digest = file_blob(path) if fits else None
    if digest is not None:
        emit({"event": "user_file", "path": path, "blob": digest})


def attach_graphs(module: Any) -> None:
    """Keep the graphs and the code of each compilation."""
    listen(_take)
