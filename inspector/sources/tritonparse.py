"""Reads traces of tritonparse: one JSON event a line, plain or through gzip.

``compilation`` events carry the texts of all stages but SASS (there is no machine code in a trace),
Triton's metadata and the kernel's Python; ``launch`` events the grid and every argument. What
tritonparse itself adds when it parses a trace (``launch_diff``, mappings) follows from those, and
is passed over. Read off tritonparse 0.6 (structured_logging.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from inspector.base.errors import Unreadable
from inspector.base.model import Stage
from inspector.recording.facts import as_int, as_map, as_text
from inspector.recording.layout import BytesContent
from inspector.system import files
from inspector.system.files import unpacking

ENDINGS = (".ndjson", ".ndjson.gz")
HEAD = 1 << 12
"""Bytes at the beginning of a trace, in which its first event says what it is."""

DISTINCT = 64
"""Calls of one variant that are listed, as in a recording; the rest are counted."""

MAX_LISTED_CALLS = 20
PADDING = 1 << 20
"""Lines before a kernel in its file, at most: where it begins is what the trace says."""

ALIGNED = 512
STAGES = {
    f".{stage.value}": stage.value for stage in (Stage.TTIR, Stage.TTGIR, Stage.LLIR, Stage.PTX)
}
_FIRST = re.compile(rb'\s*\{\s*"event_type"\s*:\s*"\w+"')
_INDEX = re.compile(r"\((\d+),\)")
Event = dict[str, object]


def is_trace(head: bytes) -> bool:
    """Whether a text begins as a trace does."""
    return _FIRST.match(head) is not None


@dataclass
class _Launches:
    """Calls of one variant: where their numbers begin, and how often each was made."""

    numbers: dict[str, int] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    others: int = 0
    names: tuple[str, ...] = ()
    pid: int = 0


def from_trace_file(path: Path, inside: Path | None = None) -> Iterator[Event]:
    """Events of a trace. A malformed line becomes a problem, and the others are read.

    Raises ``Unreadable`` where there is nothing that can be read.
    """
    compiled: list[Event] = []
    calls: list[Event] = []
    launches: dict[str, _Launches] = {}
    problems: list[str] = []
    damaged = first = 0
    try:
        for number, line in enumerate(unpacking.packed_lines(path, inside=inside), 1):
            try:
                entry = as_map(files.parsed(line, what=f"{path}: line {number}"))
            except files.TooLarge as error:
                problems.append(error.message)
                continue
            except ValueError:
                damaged += 1
                if damaged <= MAX_LISTED_CALLS and line.strip():
                    problems.append(f"line {number} is no JSON, or was cut short")
                continue
            if entry.get("event_type") == "compilation":
                event = _compiled(entry, problems)
                compiled += [event] if event is not None else []
            elif entry.get("event_type") == "launch":
                call = _launched(entry, launches, first)
                first += 1
                calls += [call] if call is not None else []
    except Unreadable as error:
        if not compiled:
            raise
        problems.append(f"{error.message}; all before that is kept")
    _name_constants(compiled, calls, launches)
    yield from compiled
    yield from calls
    yield from _counted(launches)
    for text in problems:
        yield {"event": "problem", "where": str(path), "text": text.removeprefix(f"{path} ")}


def _compiled(entry: Mapping[str, object], problems: list[str]) -> Event | None:
    payload = as_map(entry.get("payload"))
    metadata, paths = as_map(payload.get("metadata")), as_map(payload.get("file_path"))
    name, digest = as_text(metadata.get("name")), as_text(metadata.get("hash"))
    if name is None or digest is None:
        problems.append("a compilation has no name or no hash: it was left out")
        return None
    contents: dict[str, object] = {}
    places: dict[str, str] = {}
    for file, text in as_map(payload.get("file_content")).items():
        stage = STAGES.get(Path(file).suffix)
        if stage is None or not isinstance(text, str):
            continue
        if text.startswith("<") and text.endswith(">") and "\n" not in text:
            problems.append(f"{file[:200]}: tritonparse says {text[:200]}")
            continue
        contents[stage] = BytesContent(text.encode("utf-8", "surrogatepass"))
        places[stage] = str(paths.get(file) or file)
    return {
        "event": "triton",
        "name": name,
        "hash": digest,
        "cache_hit": metadata.get("cache_hit"),
        "metadata": metadata,
        "files": contents,
        "paths": places,
        "source": _source(as_map(payload.get("python_source"))),
        "lacks": "a trace of tritonparse holds no machine code",
        "pid": as_int(entry.get("pid")) or 0,
    }


def _source(source: Mapping[str, object]) -> Event:
    """The kernel's Python, each line at its place in the file: lines before it are blank,
    as a trace has the function alone."""
    code, file = source.get("code"), as_text(source.get("file_path"))
    first = as_int(source.get("start_line")) or 1
    if not isinstance(code, str) or file is None or not 1 <= first <= PADDING:
        return {}
    begin = as_int(source.get("function_start_line")) or first
    end = as_int(source.get("function_end_line")) or first + code.rstrip("\n").count("\n")
    padded = "\n" * (first - 1) + code
    data = BytesContent(padded.encode("utf-8", "surrogatepass"))
    return {"file": file, "blob": data, "first": begin, "last": end}


def _launched(
    entry: Mapping[str, object], launches: dict[str, _Launches], first: int
) -> Event | None:
    """The call of a launch unlike all before it; the others are counted."""
    metadata = as_map(entry.get("compilation_metadata"))
    digest = as_text(metadata.get("hash"))
    if digest is None:
        return None
    known = launches.setdefault(digest, _Launches(pid=as_int(entry.get("pid")) or 0))
    arguments = as_map(entry.get("extracted_args"))
    known.names = known.names or tuple(arguments)
    described = [_argument(name, as_map(value)) for name, value in arguments.items()]
    grid = entry.get("grid")
    blocks = [n for n in grid if as_int(n) is not None] if isinstance(grid, list) else []
    times = as_int(as_map(entry.get("ptxview")).get("count")) or 1
    identity = json.dumps((blocks, described))
    if identity in known.numbers:
        known.counts[known.numbers[identity]] += times
        return None
    if len(known.numbers) >= DISTINCT:
        known.others += times
        return None
    number = known.numbers[identity] = sum(len(each.numbers) for each in launches.values())
    known.counts[number] = times
    warps, warp = as_int(metadata.get("num_warps")), as_int(metadata.get("warp_size")) or 32
    return {
        "event": "call",
        "id": number,
        "pid": known.pid,
        "kind": "triton",
        "subject": digest,
        "name": as_text(entry.get("name")) or "",
        "hash": digest,
        "first": first,
        "grid": [*blocks, 1, 1, 1][:3] if blocks else None,
        "block": [warps * warp, 1, 1] if warps else None,
        "shared_bytes": as_int(metadata.get("shared")),
        "arguments": described,
    }


def _argument(name: str, value: Mapping[str, object]) -> Event:
    if value.get("type") != "tensor":
        return {"name": name, "value": value.get("value")}
    device = as_text(value.get("device"))
    return {
        "name": name,
        "dtype": str(value.get("dtype")).removeprefix("torch."),
        "shape": value.get("shape"),
        "strides": value.get("stride"),
        "alignment": _alignment(value.get("data_ptr")),
        "device": None if device is None else device.partition(":")[0],
    }


def _alignment(address: object) -> int | None:
    """The largest power of two, 512 at most, that an address is a multiple of."""
    try:
        number = int(str(address), 16)
    except ValueError:
        return None
    return min(number & -number, ALIGNED) or None


def _counted(launches: Mapping[str, _Launches]) -> Iterator[Event]:
    for digest, known in launches.items():
        subject = {"kind": "triton", "subject": digest, "others": known.others, "benchmarks": 0}
        counts = {str(number): count for number, count in known.counts.items()}
        yield {"event": "calls", "pid": known.pid, "counts": counts, "subjects": [subject]}


def _name_constants(
    compiled: list[Event], calls: list[Event], launches: Mapping[str, _Launches]
) -> None:
    """Constants by name: a compilation has their places among the arguments, a launch the names."""
    constant: dict[object, Event] = {}
    # Of what was compiled and never launched, as a tuner does: as another variant's launch says.
    of_name = {str(call["name"]): launches[str(call["hash"])].names for call in calls}
    for event in compiled:
        known = launches.get(str(event["hash"]))
        names = known.names if known is not None else of_name.get(str(event["name"]), ())
        constants = as_map(as_map(event["metadata"]).get("src_constants"))
        named: Event = {}
        for place, value in constants.items():
            index = _INDEX.fullmatch(place)
            if index is not None and int(index[1]) < len(names):
                named[names[int(index[1])]] = value
        if named:
            event["constexprs"] = constant[event["hash"]] = named
    for call in calls:
        arguments = call["arguments"]
        for argument in arguments if isinstance(arguments, list) else []:
            if argument["name"] in constant.get(call["hash"], ()):
                argument["type"] = "constexpr"
