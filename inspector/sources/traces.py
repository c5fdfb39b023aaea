"""Reads what torch logs of its compiles: TORCH_LOGS text and TORCH_TRACE folders."""

import fnmatch
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from inspector.base.errors import Unreadable
from inspector.base.model import Content
from inspector.base.units import plural
from inspector.recording.decoding import as_int, as_map, as_text
from inspector.recording.layout import BytesContent
from inspector.system import files

Event = dict[str, object]
_PREFIX = re.compile(
    r"^(?:\[rank\d+\]:)?[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ (\d{1,18}) (?:[^\]\s]*\] )"
    r"(?:\[(\d{1,18})/(\d{1,18})(?:_\d+)?\] )?"
)
MARK = "[__output_code]"
# Graphs as text, which name the user's lines, and what ties a graph's kernels to its nodes.
GRAPHS = frozenset((
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
    "inductor_provenance_tracking_node_mappings",
    "inductor_provenance_tracking_kernel_stack_traces",
))  # fmt: skip
WRAPPERS = ("inductor_aot_wrapper_code", "inductor_aot_code")
"""AOTInductor's C++ of a graph, also as torch 2.6 names it."""
KERNELS = "inductor_aot_kernel_code"
RECORDS = Path(__file__).parent.parent / "reference" / "trace_records.toml"


def is_torch_trace(text: str) -> bool:
    head = text[:65536]
    return bool(_PREFIX.match(head)) and '{"' in head.split("\n", 1)[0]


class _Listing(Struct):
    """A graph's code while its lines come in."""

    prefix: re.Match[str]
    lines: list[str] = field(default_factory=list)


_BEGINS = ("Output code:", "Output wrapper code:")
# Output code written to: /tmp/torchinductor_user/ab/cab.py
_WRITTEN = re.compile(r"(Output|Wrapper|Kernel|Header|Auto-tuning) code written to:? (.+)")


def from_log(text: str) -> Iterator[dict[str, object]]:
    """Graph events of a saved log; lines of other loggers and of the program are ignored.

    AOTInductor's C++ comes in two parts, the wrapper and the kernels, which are one text here.
    """
    open_listings: dict[str, _Listing] = {}

    def flush(thread: str, path: str | None = None) -> Iterator[dict[str, object]]:
        if thread in open_listings:
            listing = open_listings.pop(thread)
            content = BytesContent("\n".join(listing.lines).encode("utf-8", "surrogateescape"))
            frame, number = (int(n) if n else None for n in listing.prefix.groups()[1:])
            ids = {"frame_id": frame, "frame_compile_id": number}
            yield {"event": "graph", "path": path, "blob": content, **ids}

    for line in text.split("\n"):
        prefix = _PREFIX.match(line)
        if not prefix or not line.startswith(MARK, prefix.end()):
            continue
        message = line[prefix.end() + len(MARK) :].removeprefix(" ")
        thread = prefix[1]
        if message.rstrip() in _BEGINS:
            yield from flush(thread)
            open_listings[thread] = _Listing(prefix)
        elif (written := _WRITTEN.match(message)) is not None:
            named = written[1] in ("Output", "Wrapper")
            yield from flush(thread, written[2].strip() if named else None)
        elif thread in open_listings and message.rstrip() != "Output kernel code:":
            open_listings[thread].lines.append(message)
    for thread in list(open_listings):
        yield from flush(thread)


class Payload(Struct, frozen=True):
    """The lines beneath a record of a TORCH_TRACE file, each indented by a tab. They are read only
    on request, since traces of a gigabyte are not unusual."""

    path: Path
    inside: Path | None
    start: int
    size: int

    def read(self) -> bytes:
        data = files.part(self.path, self.start, self.size, inside=self.inside)
        if len(data) != self.size or data[:1] != b"\t":
            raise Unreadable(f"{self.path} has changed since it was opened", "Open it again.")
        return b"\n".join(line[1:] for line in data.removesuffix(b"\n").split(b"\n"))


class Parts(Struct, frozen=True):
    """Texts that are read as one: AOTInductor's wrapper and kernels."""

    parts: tuple[Content, ...]

    def read(self) -> bytes:
        return b"\n".join(part.read() for part in self.parts)


def from_torch_trace(path: Path, inside: Path | None = None) -> Iterator[dict[str, object]]:
    """Graph events of a TORCH_TRACE file: JSON records, each with a payload indented by a tab.
    ``inside``: the opened folder out of which the file must not lead. Raises ``Unreadable``.

    What is passed over is counted in a problem at the end.
    """
    # A whole graph's code may be one line, so a line may be as long as a file read at once.
    rows = files.lines(files.opened(path, inside=inside), longest=files.limits().one)
    compiles = CompileRecords()
    graphs = GraphRecords()
    skipped: Counter[str] = Counter()
    record_line = kind = None
    position = start = 0
    payload_rows: list[bytes] | None = None  # the payload, of a record that is read with it
    for row in chain(rows, (b"",)):
        if row[:1] == b"\t":
            position += len(row)
            if payload_rows is not None:
                payload_rows.append(row[1:])
                if position - start > MAX_PAYLOAD_BYTES:
                    payload_rows = None
            continue
        if record_line is not None and kind is not None and is_read(kind):
            parsed_record = _record(record_line)
            if parsed_record is None:
                skipped[DAMAGED] += 1
            else:
                process, record = parsed_record
                has_payload = position > start
                payload = Payload(path, inside, start, position - start) if has_payload else None
                if payload is not None:
                    yield from graphs.take(record, payload, kind)
                yield from compiles.take(record, payload, b"".join(payload_rows or ()), process)
        elif kind is not None:
            skipped[kind if kind in skipped or len(skipped) < MAX_KINDS else OTHERS] += 1
        elif record_line is not None and record_line.strip():
            skipped[DAMAGED] += 1
        position += len(row)
        start, record_line, kind = position, row, _kind_of(row)
        payload_rows = [] if kind is not None and kind.startswith(READ) else None
    yield from graphs.finish()
    if skipped:
        yield {"event": "problem", "where": str(path), "text": _skipped(skipped)}


DAMAGED = "damaged"
"""The kind of a line that is no record."""
MAX_KINDS, MAX_KINDS_NAMED = 1000, 12
OTHERS = "others"
"""The kind of what comes after ``MAX_KINDS``."""
# {"artifact": {"name": "fx_graph_runnable", "encoding": "string"}, "frame_id": 0, …
_KIND = re.compile(rb'\{"(?:(?:artifact|graph_dump)": \{"name": "([^"\n]{1,200})"|(\w{1,100})")')


def _kind_of(row: bytes) -> str | None:
    """The kind of a record: its artifact's name or its first key; None for any other line."""
    head = row[:1000]
    begin = head.find(b"{")
    match = (
        None
        if begin < 0 or not _PREFIX.match(head[:begin].decode("utf-8", "replace"))
        else (_KIND.match(head, begin))
    )
    return None if match is None else (match[1] or match[2]).decode("utf-8", "replace")


@cache
def record_kinds() -> Mapping[str, Mapping[str, str]]:
    """``reference/trace_records.toml``: by ``read`` and ``passed_over``, kinds with a reason."""
    return tomllib.loads(files.read(RECORDS).decode("utf-8"))


@cache
def _pattern(section: str) -> re.Pattern[str]:
    return re.compile("|".join(map(fnmatch.translate, record_kinds()[section])))


def is_read(kind: str) -> bool:
    return _pattern("read").match(kind) is not None


def is_passed_over(kind: str) -> bool:
    """Whether records of a kind are left out on purpose."""
    return not is_read(kind) and _pattern("passed_over").match(kind) is not None


def _skipped(counts: Counter[str]) -> str:
    """How many records of which kinds were not read from a trace, unknown kinds first."""
    damaged, kinds = counts[DAMAGED], Counter(counts)
    del kinds[DAMAGED]
    sentences = []
    if kinds:
        ordered = sorted(kinds, key=lambda kind: (is_passed_over(kind), -kinds[kind], kind))
        named = [
            f"{kind} {kinds[kind]}" + ("" if is_passed_over(kind) else " (unknown to ptxview)")
            for kind in ordered[:MAX_KINDS_NAMED]
        ]
        if len(ordered) > MAX_KINDS_NAMED:
            named.append(f"and {plural(len(ordered) - MAX_KINDS_NAMED, 'more kind')}")
        verb = "is" if kinds.total() == 1 else "are"
        head = f"{plural(kinds.total(), 'record')} of {plural(len(kinds), 'kind')} {verb} not read"
        sentences.append(f"{head}: {', '.join(named)}")
    if damaged:
        sentences.append(f"{plural(damaged, 'line')} could not be read as records")
    return "; ".join(sentences)


def _record(row: bytes) -> tuple[int, dict[str, Any]] | None:
    """The process of a record, and what it says; None of a line that is no record."""
    prefix, start = _PREFIX.match(row[:1000].decode("utf-8", "replace")), row.find(b"{")
    if prefix is None or start < 0:
        return None
    try:
        loaded = files.parsed(row[start:], label="a record")
    except ValueError:
        return None
    return (int(prefix[1]), loaded) if isinstance(loaded, dict) else None


class GraphRecords:
    """Turns the records of one file that are graphs into events."""

    def __init__(self) -> None:
        self._wrapper: tuple[Event, Content] | None = None  # of AOTInductor, before its kernels
        self._texts: dict[tuple[object, ...], Event] = {}  # frames' ids
        self._coded: set[tuple[object, ...]] = set()

    def take(self, record: dict[str, Any], payload: Content, kind: str) -> Iterator[Event]:
        ids: Event = {name: as_int(record.get(name)) for name in ("frame_id", "frame_compile_id")}
        dumped = as_map(record.get("graph_dump") or record.get("inductor_output_code"))
        path = as_text(dumped.get("file_path")) or as_text(dumped.get("filename"))
        event: Event = {"event": "graph", "path": path, **ids}
        if kind == "inductor_output_code":
            yield self._code(event | {"blob": payload})
        elif kind in WRAPPERS:
            yield from self._flush()
            self._wrapper = event, payload
        elif kind == KERNELS:
            if self._wrapper is not None:
                event, wrapper = self._wrapper
                payload, self._wrapper = Parts((wrapper, payload)), None
            yield self._code(event | {"blob": payload})
        elif kind in GRAPHS:
            yield {"event": "graph_text", "kind": kind, "blob": payload, **ids}
            self._texts[tuple(ids.values())] = ids

    def finish(self) -> Iterator[Event]:
        """The graphs that only have texts: exported ones, and those of other backends."""
        yield from self._flush()
        for frame, ids in self._texts.items():
            if frame not in self._coded:
                yield {"event": "graph_uncoded", **ids}

    def _flush(self) -> Iterator[Event]:
        if self._wrapper is not None:
            event, wrapper = self._wrapper
            self._wrapper = None
            yield self._code(event | {"blob": wrapper})

    def _code(self, event: Event) -> Event:
        self._coded.add((event["frame_id"], event["frame_compile_id"]))
        return event


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
ARTIFACTS = {"dynamo_graph_break_reason": "graph_break", "recompile_reasons": "recompile"}
CACHES = ("fx_graph_cache_", "fx_graph_bundled_cache_", "aotautograd_cache_")
READ = ("chromium_event", *CACHES)
"""Kinds of records whose payload is read at once."""
IDS = ("frame_id", "frame_compile_id", "compiled_autograd_id", "attempt")
MAX_PAYLOAD_BYTES = 4 << 20
MAX_VALUE_CHARS = 600
MAX_FIGURE_CHARS = 16_384
MAXMARKS = 4000
MAX_OPEN = 256
MAX_DEPTH = 64


class _OpenMarks(Struct):
    """Beginnings and ends of phases whose outermost has not ended, and how many are open."""

    marks: list[object] = field(default_factory=list)
    depth: int = 0


class CompileRecords:
    """Turns the records of one file, in order, into events."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._marks: dict[object, _OpenMarks] = {}

    def take(
        self, record: dict[str, Any], payload: Content | None, text: bytes, process: int
    ) -> Iterator[dict[str, object]]:
        ids: dict[str, object] = {name: record[name] for name in IDS if name in record}
        ids["pid"] = process
        if "chromium_event" in record:
            yield from self._mark(ids, text, process)
        elif isinstance(record.get("str"), list):
            self._intern(record["str"])
        elif (event := self._event(record, payload, text)) is not None:
            kind, fields = event
            yield {"event": kind, **ids, **fields}

    def _intern(self, pair: list[Any]) -> None:
        """Keep a file's name by its number: ``["/m.py", 3]``."""
        if len(pair) == 2 and isinstance(pair[0], str) and type(pair[1]) is int:
            self._names[pair[1]] = pair[0]

    def _event(
        self, record: dict[str, Any], payload: Content | None, text: bytes
    ) -> tuple[str, dict[str, object]] | None:
        """The kind and the fields of a record's event; None if it has none."""
        name = as_text(as_map(record.get("artifact")).get("name")) or ""
        if payload is not None:
            if name in ARTIFACTS:
                return ARTIFACTS[name], {"blob": payload}
            if name.startswith(CACHES):
                return "compile_cache", {"name": name, "said": short(_parsed(text))}
        if "dynamo_start" in record:
            frames = self._frames(as_map(record["dynamo_start"]).get("stack"))
            return "compile_start", {"stack": frames}
        if "dynamo_cpp_guards_str" in record and payload is not None:
            return "guards", {"blob": payload}
        for kind in METRICS:
            if kind in record:
                return "compile_end", {"kind": kind, "figures": figures(as_map(record[kind]))}
        for kind in SYMBOLS:
            if kind in record:
                properties = dict(as_map(record[kind]))
                properties.pop("stack", None)
                frames = self._frames(properties.pop("user_stack", None))
                return "symbol", {"kind": kind, "stack": frames, "said": short(properties)}
        return None

    def _mark(
        self, ids: dict[str, object], text: bytes, process: int
    ) -> Iterator[dict[str, object]]:
        mark = _parsed(text)
        phase, about = mark.get("ph"), as_map(mark.get("args"))
        if phase == "i" and mark.get("name") == "automatic_dynamic":
            fields = {"kind": "automatic_dynamic", "stack": [], "said": short(about)}
            yield {"event": "symbol", **ids, **fields}
        key = (process, str(about.get("compile_id")), str(mark.get("tid")))
        if phase not in ("B", "E") or (phase == "E" and key not in self._marks):
            return
        if key not in self._marks and len(self._marks) >= MAX_OPEN:
            del self._marks[next(iter(self._marks))]
        open_marks = self._marks.setdefault(key, _OpenMarks())
        if len(open_marks.marks) < MAXMARKS:
            open_marks.marks.append([phase, str(mark.get("name"))[:200], mark.get("ts")])
        open_marks.depth += 1 if phase == "B" else -1
        if open_marks.depth == 0:
            del self._marks[key]
            packed = json.dumps(open_marks.marks, default=str).encode("utf-8", "surrogatepass")
            yield {"event": "compile_phases", **ids, "marks": BytesContent(packed)}

    def _frames(self, stack: object) -> list[dict[str, object]]:
        out: list[dict[str, object]] = []
        for item in stack[-MAX_DEPTH:] if isinstance(stack, list) else []:
            frame = as_map(item)
            file, code = frame.get("filename"), str(frame.get("loc") or "")[:MAX_VALUE_CHARS]
            file = self._names.get(file) if type(file) is int else file
            location = {name: frame.get(name) for name in ("line", "name")}
            out.append({"file": file, **location, "code": code})
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


def figures(about: dict[str, Any]) -> dict[str, object]:
    """Torch's figures that are not null, without its settings, which take 30 KB each time."""
    out: dict[str, object] = {}
    for name, value in about.items():
        if value is None or name.endswith("_config"):
            continue
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        out[name] = value if len(text) <= MAX_FIGURE_CHARS else text[:MAX_FIGURE_CHARS]
    return out


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        return as_map(files.parsed(text, label="a payload"))
    except (ValueError, files.TooLarge):
        return {}
