"""``output_code`` and the graphs that it was made from, through torch's own structured trace."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from typing import Any

from ..hooks import guarded, per_recording, recording
from ..writer import blob, emit, file_blob

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


def attach(module: Any) -> None:
    """Keep the graphs and the code of each compilation."""
    listen(_take)
