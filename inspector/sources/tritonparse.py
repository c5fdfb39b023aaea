"""Reads traces of tritonparse.

It writes one JSON event a line, plain or through gzip (structured_logging.py of 0.6):
``compilation`` events carry the texts of all stages but SASS, Triton's metadata and the kernel's
Python; ``launch`` events the grid and every argument. Events that it adds when it parses a trace
(``launch_diff``, mappings) follow from those, and are ignored.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from inspector.base.errors import Unreadable
from inspector.base.model import Stage
from inspector.recording.decoding import Integer, Text, tolerant
from inspector.recording.layout import BytesContent
from inspector.system import files
from inspector.system.files import unpacking

Event = dict[str, object]
JsonObject = dict[str, object]

ENDINGS = (".ndjson", ".ndjson.gz")
HEAD = 1 << 12
"""Bytes at the beginning of a trace, in which its first event says what it is."""

DISTINCT = 64
"""Calls of one variant that are listed, as in a recording; the rest are counted."""

MAX_PROBLEMS = 20
MAX_FIRST_LINE = 1 << 20
"""Lines before a kernel in its file, at most: where it begins is what the trace says."""

MAX_ALIGNMENT = 512
STAGES = {
    f".{stage.value}": stage.value for stage in (Stage.TTIR, Stage.TTGIR, Stage.LLIR, Stage.PTX)
}
# {"event_type": "compilation", "pid": 17, …
_FIRST_EVENT = re.compile(rb'\s*\{\s*"event_type"\s*:\s*"\w+"')
# (3,)
_ARGUMENT_INDEX = re.compile(r"\((\d+),\)")


def is_tritonparse(head: bytes) -> bool:
    """Whether a file that begins so is a trace of tritonparse."""
    return _FIRST_EVENT.match(head) is not None


# -- entries of a trace ---------------------------------------------------------------------------


class _PythonSource(Struct, frozen=True):
    """The text of a kernel's function, and where it is in its file."""

    code: str | None = None
    file_path: Text | None = None
    start_line: Integer | None = None
    function_start_line: Integer | None = None
    function_end_line: Integer | None = None


class _Payload(Struct, frozen=True):
    metadata: JsonObject = field(default_factory=dict)
    file_path: JsonObject = field(default_factory=dict)
    file_content: JsonObject = field(default_factory=dict)
    python_source: _PythonSource = _PythonSource()


class _Compilation(Struct, frozen=True):
    """A ``compilation`` entry."""

    pid: Integer | None = None
    payload: _Payload = _Payload()


class _LaunchMetadata(Struct, frozen=True):
    hash: Text | None = None
    num_warps: Integer | None = None
    warp_size: Integer | None = None
    shared: Integer | None = None


class _LaunchArgument(Struct, frozen=True):
    type: object = None
    value: object = None
    dtype: object = None
    shape: object = None
    stride: object = None
    data_ptr: object = None
    device: Text | None = None


class _Repeated(Struct, frozen=True):
    """How many launches an entry counts, where ptxview wrote the trace."""

    count: Integer | None = None


class _Launch(Struct, frozen=True):
    """A ``launch`` entry."""

    pid: Integer | None = None
    name: Text | None = None
    grid: tuple[Integer, ...] = ()
    compilation_metadata: _LaunchMetadata = _LaunchMetadata()
    extracted_args: dict[str, _LaunchArgument] = field(default_factory=dict)
    ptxview: _Repeated = _Repeated()


class _KernelLaunches(Struct):
    """Calls of one variant that differ, how often each was made, and its arguments' names."""

    pid: int
    calls: dict[str, Event] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    names: tuple[str, ...] = ()


# -- events ---------------------------------------------------------------------------------------


def from_tritonparse(path: Path, inside: Path | None = None) -> Iterator[Event]:
    """Events of a trace. A malformed line becomes a problem, and the others are read. Raises
    ``Unreadable`` where there is nothing that can be read."""
    compiled: list[Event] = []
    launches: dict[str, _KernelLaunches] = {}
    problems: list[str] = []
    launch_count = 0
    try:
        for entry in _entries(path, inside, problems):
            if entry.get("event_type") == "compilation":
                event = _compiled(tolerant(entry, _Compilation), problems)
                if event is not None:
                    compiled.append(event)
            elif entry.get("event_type") == "launch":
                _count_launch(tolerant(entry, _Launch), launches, launch_count)
                launch_count += 1
    except Unreadable as error:
        if not compiled:
            raise
        problems.append(f"{error.message}; all before that is kept")
    _name_constants(compiled, launches)
    yield from compiled
    yield from _launch_events(launches)
    for text in problems:
        yield {"event": "problem", "where": str(path), "text": text.removeprefix(f"{path} ")}


def _entries(path: Path, inside: Path | None, problems: list[str]) -> Iterator[JsonObject]:
    """The entries of a trace; ``problems`` get a sentence for each unreadable line."""
    for number, line in enumerate(unpacking.packed_lines(path, inside=inside), 1):
        try:
            entry = files.parsed(line, label=f"{path}: line {number}")
        except files.TooLarge as error:
            problems.append(error.message)
            continue
        except ValueError:
            if len(problems) < MAX_PROBLEMS and line.strip():
                problems.append(f"line {number} is no JSON, or was cut short")
            continue
        if isinstance(entry, dict):
            yield entry


def _compiled(entry: _Compilation, problems: list[str]) -> Event | None:
    payload = entry.payload
    metadata = payload.metadata
    name, digest = metadata.get("name"), metadata.get("hash")
    if not (isinstance(name, str) and name and isinstance(digest, str) and digest):
        problems.append("a compilation has no name or no hash: it was left out")
        return None
    contents: dict[str, object] = {}
    paths: dict[str, str] = {}
    for file, text in payload.file_content.items():
        stage = STAGES.get(Path(file).suffix)
        if stage is None or not isinstance(text, str):
            continue
        if text.startswith("<") and text.endswith(">") and "\n" not in text:
            problems.append(f"{file[:200]}: tritonparse says {text[:200]}")
            continue
        contents[stage] = BytesContent(text.encode("utf-8", "surrogatepass"))
        paths[stage] = str(payload.file_path.get(file) or file)
    return {
        "event": "triton",
        "name": name,
        "hash": digest,
        "cache_hit": metadata.get("cache_hit"),
        "metadata": metadata,
        "files": contents,
        "paths": paths,
        "source": _source(payload.python_source),
        "lacks": "a trace of tritonparse holds no machine code",
        "pid": entry.pid or 0,
    }


def _source(source: _PythonSource) -> Event:
    """The kernel's Python, each line at its place in the file: lines before it are blank,
    as a trace has the function alone."""
    code, file = source.code, source.file_path
    first = source.start_line or 1
    if code is None or file is None or not 1 <= first <= MAX_FIRST_LINE:
        return {}
    begin = source.function_start_line or first
    end = source.function_end_line or first + code.rstrip("\n").count("\n")
    data = BytesContent(("\n" * (first - 1) + code).encode("utf-8", "surrogatepass"))
    return {"file": file, "blob": data, "first": begin, "last": end}


def _count_launch(entry: _Launch, launches: dict[str, _KernelLaunches], first: int) -> None:
    """Count a launch, and keep its call where it is unlike all before it."""
    metadata = entry.compilation_metadata
    if metadata.hash is None:
        return
    kernel_launches = launches.setdefault(metadata.hash, _KernelLaunches(entry.pid or 0))
    kernel_launches.names = kernel_launches.names or tuple(entry.extracted_args)
    arguments = [_argument(name, value) for name, value in entry.extracted_args.items()]
    identity = json.dumps((entry.grid, arguments))
    kernel_launches.counts[identity] += entry.ptxview.count or 1
    if identity in kernel_launches.calls or len(kernel_launches.calls) >= DISTINCT:
        return
    block = None
    if metadata.num_warps:
        block = [metadata.num_warps * (metadata.warp_size or 32), 1, 1]
    kernel_launches.calls[identity] = {
        "event": "call",
        "pid": kernel_launches.pid,
        "kind": "triton",
        "subject": metadata.hash,
        "name": entry.name or "",
        "hash": metadata.hash,
        "first": first,
        "grid": [*entry.grid, 1, 1, 1][:3] if entry.grid else None,
        "block": block,
        "shared_bytes": metadata.shared,
        "arguments": arguments,
    }


def _argument(name: str, argument: _LaunchArgument) -> Event:
    if argument.type != "tensor":
        return {"name": name, "value": argument.value}
    device = argument.device
    return {
        "name": name,
        "dtype": str(argument.dtype).removeprefix("torch."),
        "shape": argument.shape,
        "strides": argument.stride,
        "alignment": _alignment(argument.data_ptr),
        "device": None if device is None else device.partition(":")[0],
    }


def _alignment(address: object) -> int | None:
    """The largest power of two, 512 at most, that an address is a multiple of."""
    try:
        number = int(str(address), 16)
    except ValueError:
        return None
    return min(number & -number, MAX_ALIGNMENT) or None


def _launch_events(launches: Mapping[str, _KernelLaunches]) -> Iterator[Event]:
    """An event for each distinct call, and one for each variant with the counts of its calls."""
    number = 0
    for digest, kernel_launches in launches.items():
        counts: dict[str, int] = {}
        for identity, call in kernel_launches.calls.items():
            counts[str(number)] = kernel_launches.counts[identity]
            yield call | {"id": number}
            number += 1
        uncounted = kernel_launches.counts.total() - sum(counts.values())
        subject = {"kind": "triton", "subject": digest, "others": uncounted, "benchmarks": 0}
        yield {
            "event": "calls",
            "pid": kernel_launches.pid,
            "counts": counts,
            "subjects": [subject],
        }


def _name_constants(compiled: list[Event], launches: Mapping[str, _KernelLaunches]) -> None:
    """Constants by name: a compilation has their places among the arguments, a launch the names.

    What was compiled and never launched, as a tuner does, has another variant's names.
    """
    names_of: dict[str, tuple[str, ...]] = {}
    for kernel_launches in launches.values():
        for call in kernel_launches.calls.values():
            names_of[str(call["name"])] = kernel_launches.names
    for event in compiled:
        launched = launches.get(str(event["hash"]))
        names = names_of.get(str(event["name"]), ()) if launched is None else launched.names
        constants = _constants(event, names)
        if constants:
            event["constexprs"] = constants
        for call in () if launched is None else launched.calls.values():
            arguments = call["arguments"]
            for argument in arguments if isinstance(arguments, list) else ():
                if argument["name"] in constants:
                    argument["type"] = "constexpr"


def _constants(event: Event, names: tuple[str, ...]) -> JsonObject:
    """The constants of a compilation, whose metadata has them by ``(3,)``."""
    metadata = event["metadata"]
    by_place = metadata.get("src_constants") if isinstance(metadata, dict) else None
    constants: JsonObject = {}
    for place, value in by_place.items() if isinstance(by_place, dict) else ():
        index = _ARGUMENT_INDEX.fullmatch(place)
        if index is not None and int(index[1]) < len(names):
            constants[names[int(index[1])]] = value
    return constants
