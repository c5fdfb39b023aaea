"""Records of torch's structured trace about compiles, as the events that the probes make of them.

``inspector/probes/compiles/dynamo_trace.py`` does the same within the program, where nothing of
ours can be imported; what the events mean is found in ``inspector/recording/torch_compiles.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from inspector import files
from inspector.model import Content
from inspector.recording.layout import BytesContent

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
LONGEST_PAYLOAD = 4 << 20
LONGEST_VALUE = 600
MOST_MARKS = 4000
MOST_OPEN = 256
DEEPEST = 64


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
            if len(self._marks) >= MOST_OPEN:
                first = next(iter(self._marks))
                del self._marks[first], self._depth[first]
            self._marks[key], self._depth[key] = [], 0
        marks = self._marks[key]
        if len(marks) < MOST_MARKS:
            marks.append([phase, str(mark.get("name"))[:200], mark.get("ts")])
        self._depth[key] += 1 if phase == "B" else -1
        if self._depth[key] <= 0:
            del self._marks[key], self._depth[key]
            packed = json.dumps(marks, default=str).encode("utf-8", "surrogatepass")
            yield {"event": "compile_phases", **ids, "marks": BytesContent(packed)}

    def _frames(self, stack: object) -> list[dict[str, object]]:
        out: list[dict[str, object]] = []
        for item in stack[-DEEPEST:] if isinstance(stack, list) else []:
            frame = _map(item)
            number = frame.get("filename")
            file = self._names.get(number) if type(number) is int else number
            out.append(
                {
                    "file": file,
                    "line": frame.get("line"),
                    "name": frame.get("name"),
                    "code": str(frame.get("loc") or "")[:LONGEST_VALUE],
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
            if len(text) <= LONGEST_VALUE:
                out[name] = value
            elif name in ("fail_reason", "expr", "cache_bypass_reason"):
                out[name] = text[:LONGEST_VALUE]
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
