"""``output_code`` out of what torch itself writes: TORCH_LOGS text and TORCH_TRACE folders."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from inspector.recording import BytesContent

_PREFIX = re.compile(
    r"^(?:\[rank\d+\]:)?[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ (\d+) (?:[^\]\s]*\] )"
    r"(?:\[(\d+/\d+)(?:_\d+)?\] )?"
)
_MARK = "[__output_code]"
# Graphs as text, which name the user's lines.
GRAPHS = (
    "dynamo_output_graph",
    "aot_forward_graph",
    "aot_backward_graph",
    "aot_inference_graph",
    "aot_joint_graph",
    "inductor_post_grad_graph",
)


def is_log(text: str) -> bool:
    """Whether a text looks like saved ``TORCH_LOGS=output_code``."""
    return _MARK in text


def is_trace(text: str) -> bool:
    """Whether a text looks like a file that TORCH_TRACE wrote."""
    head = text[:65536]
    return bool(_PREFIX.match(head)) and '{"' in head.split("\n", 1)[0]


def from_log(text: str) -> Iterator[dict[str, object]]:
    """Graph events of a saved log; lines of other loggers and of the program are passed over."""
    held: dict[str, tuple[str | None, list[str]]] = {}

    def flush(thread: str) -> Iterator[dict[str, object]]:
        if thread in held:
            compiled, lines = held.pop(thread)
            yield _graph("\n".join(lines), compiled, None)

    for line in text.split("\n"):
        found = _PREFIX.match(line)
        rest = line[found.end() :] if found else ""
        if not found or not rest.startswith(_MARK):
            continue
        said = rest[len(_MARK) :]
        said = said.removeprefix(" ")
        thread = found[1]
        if said.rstrip() == "Output code:":
            yield from flush(thread)
            held[thread] = (found[2], [])
        elif said.startswith("Output code written to: "):
            if thread in held:
                compiled, lines = held.pop(thread)
                yield _graph("\n".join(lines), compiled, said.partition(": ")[2].strip())
        elif thread in held:
            held[thread][1].append(said)
    for thread in list(held):
        yield from flush(thread)


def from_trace(text: str) -> Iterator[dict[str, object]]:
    """Graph events of a TORCH_TRACE file: a JSON record, its payload indented by a tab."""
    record: dict[str, Any] | None = None
    payload: list[str] = []
    for line in [*text.split("\n"), "V"]:
        if line.startswith("\t"):
            payload.append(line[1:])
            continue
        if record is not None and payload:
            yield from _of_trace(record, "\n".join(payload))
        record, payload = None, []
        found = _PREFIX.match(line)
        at = line.find("{") if found else -1
        if at >= 0:
            try:
                loaded = json.loads(line[at:])
            except (ValueError, RecursionError):
                continue
            record = loaded if isinstance(loaded, dict) else None


def _of_trace(record: dict[str, Any], payload: str) -> Iterator[dict[str, object]]:
    said = record.get("inductor_output_code")
    if said is None:
        if kind := next((k for k in GRAPHS if k in record), None):
            yield {
                "event": "graph_text",
                "kind": kind,
                "blob": BytesContent(payload.encode("utf-8", "surrogateescape")),
                "frame_id": record.get("frame_id"),
                "frame_compile_id": record.get("frame_compile_id"),
            }
        return
    path = said.get("file_path") or said.get("filename") if isinstance(said, dict) else None
    frame, compiled = record.get("frame_id"), record.get("frame_compile_id")
    # An integer in JSON may have more digits than Python turns into a text.
    told = [str(n) if type(n) is not int or abs(n) < 1 << 63 else "" for n in (frame, compiled)]
    path = path if isinstance(path, str) else None
    yield _graph(payload, "/".join(told) if frame is not None else None, path)


def _number(text: str) -> int | None:
    """A frame's number; None of what is none, such as a superscript 2 or thousands of digits."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


def _graph(text: str, compiled: str | None, path: str | None) -> dict[str, object]:
    frame, _, number = (compiled or "").partition("/")
    return {
        "event": "graph",
        "path": path,
        "blob": BytesContent(text.encode("utf-8", "surrogateescape")),
        "frame_id": _number(frame),
        "frame_compile_id": _number(number),
    }
