"""Reads ``output_code`` from torch's own logs: TORCH_LOGS text and TORCH_TRACE folders."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from inspector.base.errors import Unreadable
from inspector.base.model import Content
from inspector.recording.layout import BytesContent
from inspector.system import files

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
    # Before and after Inductor's own passes.
    "before_pre_grad_graph",
    "after_pre_grad_graph",
    "before_joint_graph",
    "after_joint_graph",
    "before_post_grad_graph",
)


def is_log(text: str) -> bool:
    """Whether a text looks like saved ``TORCH_LOGS=output_code``."""
    return _MARK in text


def is_trace(text: str) -> bool:
    """Whether a text looks like a file that TORCH_TRACE wrote."""
    head = text[:65536]
    return bool(_PREFIX.match(head)) and '{"' in head.split("\n", 1)[0]


def from_log(text: str) -> Iterator[dict[str, object]]:
    """Graph events of a saved log; lines of other loggers and of the program are ignored."""
    open_listings: dict[str, tuple[str | None, list[str]]] = {}

    def flush(thread: str) -> Iterator[dict[str, object]]:
        if thread in open_listings:
            compiled, lines = open_listings.pop(thread)
            yield _graph(_joined(lines), compiled, None)

    for line in text.split("\n"):
        prefix = _PREFIX.match(line)
        rest = line[prefix.end() :] if prefix else ""
        if not prefix or not rest.startswith(_MARK):
            continue
        message = rest[len(_MARK) :]
        message = message.removeprefix(" ")
        thread = prefix[1]
        if message.rstrip() == "Output code:":
            yield from flush(thread)
            open_listings[thread] = (prefix[2], [])
        elif message.startswith("Output code written to: "):
            if thread in open_listings:
                compiled, lines = open_listings.pop(thread)
                yield _graph(_joined(lines), compiled, message.partition(": ")[2].strip())
        elif thread in open_listings:
            open_listings[thread][1].append(message)
    for thread in list(open_listings):
        yield from flush(thread)


def _joined(lines: list[str]) -> Content:
    return BytesContent("\n".join(lines).encode("utf-8", "surrogateescape"))


@dataclass(frozen=True, slots=True)
class Payload:
    """The lines beneath a record of a TORCH_TRACE file, each indented by a tab.

    They are read only on request, since traces of a gigabyte are not unusual.
    """

    path: Path
    inside: Path | None
    start: int
    size: int

    def read(self) -> bytes:
        data = files.part(self.path, self.start, self.size, inside=self.inside)
        if len(data) != self.size or data[:1] != b"\t":
            raise Unreadable(f"{self.path} has changed since it was opened", "Open it again.")
        return b"\n".join(line[1:] for line in data.removesuffix(b"\n").split(b"\n"))


def from_trace_file(path: Path, inside: Path | None = None) -> Iterator[dict[str, object]]:
    """Graph events of a TORCH_TRACE file: JSON records, each with a payload indented by a tab.

    ``inside``: the opened folder out of which the file must not lead. Raises ``Unreadable``.
    """
    # A whole graph's code may be one line, so a line may be as long as a file read at once.
    rows = files.lines(files.opened(path, inside=inside), longest=files.limits().one)
    compiles = CompileRecords()
    record_line: bytes | None = None
    position = start = 0
    kept: list[bytes] | None = None  # the payload, of a record that is read with it
    for row in chain(rows, (b"",)):
        if row[:1] == b"\t":
            position += len(row)
            if kept is not None:
                kept.append(row[1:])
                if position - start > MAX_PAYLOAD_BYTES:
                    kept = None
            continue
        has_payload = position > start
        if (
            record_line is not None
            and (has_payload or wanted(record_line))
            and (record := _record(record_line)) is not None
        ):
            payload = Payload(path, inside, start, position - start) if has_payload else None
            if payload is not None:
                yield from _of_trace(record, payload)
            prefix = _PREFIX.match(record_line.decode("utf-8", "surrogateescape"))
            process = prefix[1] if prefix else ""
            yield from compiles.take(record, payload, b"".join(kept or ()), process)
        position += len(row)
        start, record_line = position, row
        kept = [] if read_at_once(row) else None


def _record(row: bytes) -> dict[str, Any] | None:
    """The JSON of a record's line, None if it is not one."""
    line = row.decode("utf-8", "surrogateescape").removesuffix("\n")
    start = line.find("{") if _PREFIX.match(line) else -1
    if start < 0:
        return None
    try:
        loaded = files.parsed(line[start:].encode("utf-8", "surrogatepass"), what="a record")
    except ValueError:
        return None
    return loaded if isinstance(loaded, dict) else None


def _of_trace(record: dict[str, Any], payload: Content) -> Iterator[dict[str, object]]:
    graph = record.get("inductor_output_code")
    if graph is None:
        artifact = record.get("artifact")
        named = artifact.get("name") if isinstance(artifact, dict) else None
        kind = next((k for k in GRAPHS if k in record or k == named), None)
        if kind is not None:
            yield {
                "event": "graph_text",
                "kind": kind,
                "blob": payload,
                "frame_id": record.get("frame_id"),
                "frame_compile_id": record.get("frame_compile_id"),
            }
        return
    path = graph.get("file_path") or graph.get("filename") if isinstance(graph, dict) else None
    frame, compiled = record.get("frame_id"), record.get("frame_compile_id")
    # An integer in JSON may have more digits than Python turns into a text.
    ids = [str(n) if type(n) is not int or abs(n) < 1 << 63 else "" for n in (frame, compiled)]
    path = path if isinstance(path, str) else None
    yield _graph(payload, "/".join(ids) if frame is not None else None, path)


def _number(text: str) -> int | None:
    """A frame's number; None for other texts, such as a superscript 2 or thousands of digits."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


def _graph(content: Content, compiled: str | None, path: str | None) -> dict[str, object]:
    frame, _, number = (compiled or "").partition("/")
    return {
        "event": "graph",
        "path": path,
        "blob": content,
        "frame_id": _number(frame),
        "frame_compile_id": _number(number),
    }


# -- records about compilations -------------------------------------------------------------------

SYMBOLS = (
    "create_symbol",
    "create_unbacked_symbol",
    "symbolic_shape_specialization",
    "guard_added_fast",
)
METRICS = ("compilation_metrics", "bwd_compilation_metrics", "aot_autograd_backward_metrics")
CACHES = ("fx_graph_cache_", "fx_graph_bundled_cache_", "aotautograd_cache_")
BARE = tuple(f'{{"{name}"'.encode() for name in ("str", "dynamo_start", *METRICS, *SYMBOLS))
"""How records begin that are wanted although there is nothing beneath them."""
READ = (b'{"chromium_event"', b'{"artifact"')
"""How records begin whose payload is read at once."""
IDS = ("frame_id", "frame_compile_id", "compiled_autograd_id", "attempt")
MAX_PAYLOAD_BYTES = 4 << 20
MAX_VALUE_CHARS = 600
MAX_MARKS = 4000
MAX_OPEN = 256
MAX_DEPTH = 64


def wanted(line: bytes) -> bool:
    """Whether a record's line is about a compile although it may have no payload."""
    return any(start in line[:200] for start in BARE)


def read_at_once(line: bytes) -> bool:
    """Whether a record's payload is small and is read with it."""
    return any(start in line[:200] for start in READ)


class CompileRecords:
    """Turns the records of one file, in order, into events."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._marks: dict[object, list[Any]] = {}
        self._depth: dict[object, int] = {}

    def take(
        self, record: dict[str, Any], payload: Content | None, text: bytes, process: str
    ) -> Iterator[dict[str, object]]:
        """The events of a record. ``text`` is its payload where that is read at once."""
        ids: dict[str, object] = {name: record[name] for name in IDS if name in record}
        ids["pid"] = int(process) if process.isascii() and process.isdecimal() else None
        artifact = record.get("artifact")
        if "chromium_event" in record:
            yield from self._mark(ids, text, process)
        elif isinstance(record.get("str"), list):
            self._name(record["str"])
        elif isinstance(artifact, dict):
            yield from _artifact(artifact.get("name"), payload, text, ids)
        elif "dynamo_start" in record:
            frames = self._frames(_map(record["dynamo_start"]).get("stack"))
            yield {"event": "compile_start", **ids, "stack": frames}
        elif "dynamo_cpp_guards_str" in record and payload is not None:
            yield {"event": "guards", **ids, "blob": payload}
        elif (kind := next((k for k in METRICS if k in record), None)) is not None:
            figures = short(_map(record[kind]))
            yield {"event": "compile_end", **ids, "kind": kind, "figures": figures}
        elif (kind := next((k for k in SYMBOLS if k in record), None)) is not None:
            about = dict(_map(record[kind]))
            about.pop("stack", None)
            frames = self._frames(about.pop("user_stack", None))
            yield {"event": "symbol", **ids, "kind": kind, "stack": frames, "said": short(about)}

    def _name(self, pair: list[Any]) -> None:
        if len(pair) == 2 and isinstance(pair[0], str) and type(pair[1]) is int:
            self._names[pair[1]] = pair[0]

    def _mark(
        self, ids: dict[str, object], text: bytes, process: str
    ) -> Iterator[dict[str, object]]:
        mark = _parsed(text)
        phase, about = mark.get("ph"), _map(mark.get("args"))
        if phase == "i" and mark.get("name") == "automatic_dynamic":
            yield {
                "event": "symbol",
                **ids,
                "kind": "automatic_dynamic",
                "stack": [],
                "said": short(about),
            }
        if phase not in ("B", "E"):
            return
        key = (process, str(about.get("compile_id")), str(mark.get("tid")))
        if key not in self._marks:
            if phase == "E":
                return
            if len(self._marks) >= MAX_OPEN:
                first = next(iter(self._marks))
                del self._marks[first], self._depth[first]
            self._marks[key], self._depth[key] = [], 0
        marks = self._marks[key]
        if len(marks) < MAX_MARKS:
            marks.append([phase, str(mark.get("name"))[:200], mark.get("ts")])
        self._depth[key] += 1 if phase == "B" else -1
        if self._depth[key] <= 0:
            del self._marks[key], self._depth[key]
            packed = json.dumps(marks, default=str).encode("utf-8", "surrogatepass")
            yield {"event": "compile_phases", **ids, "marks": BytesContent(packed)}

    def _frames(self, stack: object) -> list[dict[str, object]]:
        out: list[dict[str, object]] = []
        for item in stack[-MAX_DEPTH:] if isinstance(stack, list) else []:
            frame = _map(item)
            number = frame.get("filename")
            file = self._names.get(number) if type(number) is int else number
            out.append(
                {
                    "file": file,
                    "line": frame.get("line"),
                    "name": frame.get("name"),
                    "code": str(frame.get("loc") or "")[:MAX_VALUE_CHARS],
                }
            )
        return out


def short(about: dict[str, Any]) -> dict[str, object]:
    """What torch said, without what is null or longer than anybody reads in a table."""
    out: dict[str, object] = {}
    for name, value in about.items():
        if isinstance(value, bool | int | float):
            out[name] = value
        elif value is not None:
            text = value if isinstance(value, str) else json.dumps(value, default=str)
            if len(text) <= MAX_VALUE_CHARS:
                out[name] = value
            elif name in ("fail_reason", "expr", "cache_bypass_reason"):
                out[name] = text[:MAX_VALUE_CHARS]
    return out


def _artifact(
    name: object, payload: Content | None, text: bytes, ids: dict[str, object]
) -> Iterator[dict[str, object]]:
    if payload is None or not isinstance(name, str):
        return
    if name == "dynamo_graph_break_reason":
        yield {"event": "graph_break", **ids, "blob": payload}
    elif name == "recompile_reasons":
        yield {"event": "recompile", **ids, "blob": payload}
    elif name.startswith(CACHES):
        yield {"event": "compile_cache", **ids, "name": name, "said": short(_parsed(text))}


def _parsed(text: bytes) -> dict[str, Any]:
    """The JSON of a payload; empty if it is malformed."""
    try:
        return _map(files.parsed(text, what="a payload"))
    except (ValueError, files.TooLarge):
        return {}


def _map(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
