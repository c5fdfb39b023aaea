"""A recording as what it is made of: events, the contents that they name, times; and less of it.

What may not leave a company, sources and paths, is removed here, for every form of export. Paths
are replaced part by part by words of the same length, the same part by the same word everywhere:
what is tied by a file and a line stays tied, and machine code stays where it is. The result is
searched before it is given away.
"""

import getpass
import hashlib
import json
import re
import socket
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from inspector.base.errors import PtxviewError
from inspector.base.model import Content, Kernel, Recording, Variant
from inspector.base.names import words
from inspector.parsers.cubin import debug_spans, is_elf
from inspector.recording.assemble import REMOVED, Assembly
from inspector.recording.contents import Blob, content_names, strings
from inspector.recording.layout import (
    SCHEMA,
    TIMINGS,
    UPGRADES,
    VERDICTS,
    BytesContent,
    Writer,
    pack,
    stored_records,
)
from inspector.sources.opening import raw_events
from inspector.verify.verdicts import Verdict

Event = Mapping[str, object]
KernelVariant = tuple[Kernel, Variant]

KERNEL_EVENTS = words(
    "triton triton_failed triton_said loaded not_loaded not_launched launched ptxas configured"
)
GRAPH_EVENTS = words(
    "graph graph_failed graph_text graph_nodes graph_uncoded dynamo_nodes user_file"
)
BUILD_EVENTS = ("extension", "library")
VALUES = "launch_values"
"""The event of a launch whose tensors were kept."""


class Collected(Struct):
    """Events in the order of time, contents by their SHA-256, records of times, of verdicts and
    of upgrades; these are of the whole recording."""

    events: list[dict[str, object]] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)
    timings: list[dict[str, object]] = field(default_factory=list)
    blob: Blob = field(default=lambda digest: None)
    verdicts: list[dict[str, object]] = field(default_factory=list)
    upgrades: list[dict[str, object]] = field(default_factory=list)

    def content(self, digest: object) -> bytes | None:
        """Return the content of that name; None if missing or unreadable."""
        if not isinstance(digest, str):
            return None
        if digest in self.contents:
            return self.contents[digest]
        stored_content = self.blob(digest)
        if stored_content is None:
            return None
        try:
            return stored_content.read()
        except PtxviewError:
            return None

    def recording(self, path: str) -> Recording:
        def content_of(digest: object) -> Content | None:
            data = self.content(digest)
            return None if data is None else BytesContent(data, str(digest))

        return Assembly(content_of).recording(path, [dict(e) for e in self.events])

    def as_json(self) -> bytes:
        records = (*self.events, *self.timings, *self.verdicts, *self.upgrades)
        lines = (json.dumps(record, ensure_ascii=True) for record in records)
        return "\n".join(lines).encode("ascii")

    def write(self, target: Path) -> None:
        """One file of it. Raises ``OSError`` where it cannot be written."""
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as name:
            with closing(Writer(Path(name))) as writer:
                for number, event in enumerate(self.events):
                    for digest in content_names(event):
                        if (data := self.content(digest)) is not None:
                            writer.blob(data)
                    writer.event(**(event if number else event | {"schema": SCHEMA}))
            stored = {TIMINGS: self.timings, VERDICTS: self.verdicts, UPGRADES: self.upgrades}
            for file_name, records in stored.items():
                if records:
                    lines = (json.dumps(record, ensure_ascii=True) + "\n" for record in records)
                    (Path(name) / file_name).write_text("".join(lines), "ascii")
            pack(Path(name), target)


def collect(path: Path, with_inputs: bool = False) -> Collected:
    """All that a path holds; contents of tensors only if they are asked for."""
    events, blob = raw_events(path)
    contents: dict[str, bytes] = {}
    verdicts = stored_records(path, VERDICTS)
    if not with_inputs:
        verdicts = _changed_rows(
            verdicts, "kernels", lambda kernel: {**kernel, "reason": _plain_reason(kernel)}
        )
        events = [_without_inputs(event) for event in events if event.get("event") != VALUES]
    return Collected(
        [_with_named_contents(event, contents) for event in events],
        contents,
        stored_records(path),
        blob,
        verdicts,
        stored_records(path, UPGRADES),
    )


def _changed_rows(
    records: Iterable[Event], name: str, change: Callable[[Event], Event | None]
) -> list[dict[str, object]]:
    """Records of verdicts or times with each row changed, or left out where that gives None."""
    changed = []
    for record in records:
        found = record.get(name)
        rows = found if isinstance(found, list) else []
        kept = [change(row) for row in rows if isinstance(row, dict)]
        changed.append({**record, name: [row for row in kept if row is not None]})
    return changed


def _plain_reason(kernel: Event) -> object:
    """A verdict's reason; "" of what was not compared, for which an error may quote a value."""
    return "" if kernel.get("verdict") == Verdict.NOT_COMPARED else kernel.get("reason")


def _without_inputs(event: Event) -> Event:
    """A call without what its tensors held."""
    arguments = event.get("arguments")
    if event.get("event") != "call" or not isinstance(arguments, list):
        return event
    plain = [
        {name: value for name, value in argument.items() if name != "content"}
        for argument in arguments
        if isinstance(argument, Mapping)
    ]
    return {**event, "arguments": plain}


def subset(collected: Collected, kernel_variants: Sequence[KernelVariant]) -> Collected:
    """The events that some variants need, and no others."""
    selection = _Selection.from_variants(kernel_variants)
    left_out = {
        content
        for event in collected.events
        if event.get("event") in KERNEL_EVENTS and not selection.needs(event)
        for content in content_names(event)
    }
    events = [
        event
        for event in collected.events
        if selection.needs(event) and event.get("module") not in left_out
    ]
    calls = _numbers(events, "call")
    launches = _numbers(events, "driver_launch")
    for event in events:
        for kind, name in (("driver_counts", "counts"), ("driver_times", "times")):
            rows = event.get(name)
            if event.get("event") == kind and isinstance(rows, Mapping):
                event[name] = _of_numbers(rows, event, launches)
        subjects = event.get("subjects")
        if event.get("event") == "calls" and isinstance(subjects, list):
            event["subjects"] = [
                s for s in subjects if isinstance(s, dict) and selection.needs_call(s)
            ]
        errors = event.get("failed")
        if isinstance(errors, Mapping):
            event["failed"] = _of_numbers(errors, event, calls)
    names = {kernel.id for kernel, _ in kernel_variants}
    verdicts = _changed_rows(
        collected.verdicts, "kernels", lambda row: row if row.get("kernel") in names else None
    )
    timings = _changed_rows(
        collected.timings, "rows", lambda row: row if selection.needs_time(row) else None
    )
    return Collected(events, collected.contents, timings, collected.blob, verdicts)


def _numbers(events: Sequence[Event], kind: str) -> set[tuple[object, str]]:
    """The processes and numbers of calls or launches."""
    return {(e.get("pid"), str(e.get("id"))) for e in events if e.get("event") == kind}


def _of_numbers(
    rows: Mapping[str, object], event: Event, kept: Collection[tuple[object, str]]
) -> dict[str, object]:
    """What an event says of the calls or launches that are kept, by their numbers."""
    return {n: row for n, row in rows.items() if (event.get("pid"), n) in kept}


class _Selection(Struct, frozen=True):
    """The ids, hashes and names of some variants, and whether graphs and builds belong to them."""

    ids: frozenset[str]
    hashes: frozenset[str]
    names: frozenset[str]
    has_graphs: bool
    has_builds: bool

    @classmethod
    def from_variants(cls, kernel_variants: Sequence[KernelVariant]) -> "_Selection":
        kernels = [kernel for kernel, _ in kernel_variants]
        variants = [variant for _, variant in kernel_variants]
        return cls(
            frozenset(variant.id for variant in variants),
            frozenset(variant.hash for variant in variants),
            frozenset([*(k.name for k in kernels), *(v.symbol for v in variants)]),
            any(v.embedded is not None or v.fusion is not None for v in variants),
            any("flags" in variant.config for variant in variants),
        )

    def needs(self, event: Event) -> bool:
        match event.get("event"):
            case "device_code" | "file":
                # What did not compile has the name of its source.
                digests = [event.get(n) for n in ("cubin", "ptx", "blob", "source_blob")]
                return next((d for d in digests if isinstance(d, str)), None) in self.hashes
            case "call":
                return self.needs_call(event)
            case "autotune" | "driver_kernel" | "driver_launch":
                return event.get("name") in self.names
            case kind if kind in KERNEL_EVENTS:
                return event.get("hash") in self.hashes
            case kind if kind in GRAPH_EVENTS:
                return self.has_graphs
            case kind:
                return self.has_builds or kind not in BUILD_EVENTS

    def needs_call(self, call: Event) -> bool:
        digest = call.get("hash", call.get("subject"))
        is_own = digest in self.hashes or call.get("name") in self.names
        return self._needs(call, is_own)

    def needs_time(self, row: Event) -> bool:
        return self._needs(row, row.get("variant") in self.ids)

    def _needs(self, called: Event, is_own: bool) -> bool:
        """Whether a graph, an extension's function or, if it is one's own, a kernel is needed."""
        match called.get("kind"):
            case "extension":
                return self.has_builds
            case "graph":
                return self.has_graphs
        return is_own


def map_values(value: object, change: Callable[[object], object]) -> Any:
    """Return a JSON value with ``change`` applied to its texts and numbers, names too."""
    if isinstance(value, Mapping):
        return {
            str(change(str(name))): map_values(member, change) for name, member in value.items()
        }
    if isinstance(value, list | tuple):
        return [map_values(member, change) for member in value]
    return change(value)


def _with_named_contents(event: Event, contents: dict[str, bytes]) -> dict[str, object]:
    """An event of a cache that names its contents, without those that a compiler would make."""

    def named(part: object) -> object:
        if not hasattr(part, "read"):
            return part
        with suppress(PtxviewError):
            return _keep(contents, part.read())
        return None

    if event.get("costly"):
        reason = "the build kept none, and it was not compiled for the copy"
        event = {n: v for n, v in event.items() if n not in ("ptx", "costly")} | {"why": reason}
    return {**map_values(event, named)}


def _keep(contents: dict[str, bytes], data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    contents[digest] = data
    return digest


REMOVABLE = ("source", "paths", "args")
REMOVABLE_TEXTS = {
    "source": "the source (Python, CUDA C++, output_code and the graphs' texts), comments that "
    "quote it and names of its variables in locations",
    "paths": "paths and names of files, the program's command line, names of users and machines",
    "args": "the program's command line, its working folder and its environment",
}
"""What each word takes out, as it is said to whom it is given."""

_SOURCE_EVENTS = words("graph graph_text graph_nodes graph_uncoded dynamo_nodes user_file")
_UNDERSTOOD_EVENTS = _SOURCE_EVENTS | words(
    "process torch device recording end finished tools device_code ptxas triton loaded call "
    "extension library calls autotune configured file problem triton_failed triton_said "
    "graph_failed autotune_failed not_loaded uncaptured generated made_failed unwatched "
    "driver driver_kernel driver_launch driver_counts driver_times timeline removed"
)
"""Events that are understood here. Of others, such as a profile, which has stacks, paths and the
machine in it, nothing is handed on."""
_COMMAND_LINE_FIELDS = {
    "process": ("argv", "executable"),
    "unwatched": ("command",),
    "recording": ("command", "cwd", "environment"),
    "device_code": ("ptx_command", "command"),
    "triton_failed": ("command",),
}
"""Fields with the program's command line, taken out with paths or args."""
_MESSAGES: Mapping[str, object] = {"message": REMOVED, "messages": [], "log": None}
_ERROR: Mapping[str, object] = {"error": "removed"}
_QUOTING_FIELDS: Mapping[str, Mapping[str, object]] = {
    "extension": {**_ERROR, "files": {}, "sources": {}},
    "triton_failed": {**_ERROR, **_MESSAGES},
    "triton_said": _MESSAGES,
    "graph_failed": _MESSAGES,
    "autotune_failed": _ERROR,
    "device_code": {"source_blob": None, "log": None},
    "uncaptured": {"source": None, "output_code": None, "ir": None},
    "generated": {"source": None, "output_code": None},
    "made_failed": {"source": None, **_MESSAGES},
}
"""Fields that hold or quote the source, with their replacements."""
_SOURCE_FIELDS = {
    **dict.fromkeys(_SOURCE_EVENTS, ("blob",)),
    **dict.fromkeys(("made_failed", "triton", "triton_failed"), ("source",)),
    **dict.fromkeys(("uncaptured", "generated"), ("source", "output_code", "ir")),
    "device_code": ("source_blob",),
    "extension": ("files", "sources"),
}
"""Fields that name contents with sources."""
_LOCATION_FIELDS = ("file", "first", "last")
"""What of a kernel's source says where it stands, and not what it says."""

_PART = r"[\w.+@~%=,-]+"
_PATH = re.compile(rf"(?<![\w./*<)\]])(?:/{_PART})+/{_PART}")
_QUOTED = re.compile(r"(?<=[\"'])/[^\"'\n\\]*/[^\"'\n\\]*(?=[\"'])")
_NAME = re.compile(r"(?<![\w.+@~%-])[\w.+@~%-]++")
"""What may be the name of a file that stands alone; ``_FILE_ENDINGS`` decide."""
_FILE_ENDINGS = (
    ".py",
    ".cu",
    ".cuh",
    ".cpp",
    ".cc",
    ".cxx",
    ".c",
    ".hpp",
    ".hh",
    ".h",
    ".so",
    ".o",
)
_PRESERVED_ENDINGS = words(
    "cudafe1 cuda cpp ptx cubin fatbin ttir ttgir llir json so o py pyi cu cuh cc cxx c hpp hh h "
    "bc ninja"
)
"""What stays of a file's name."""
_NAMED = re.compile(r'loc\("(?:[^"\\\n]|\\.)*"\(((?:#loc\d*)|(?:"[^"\n]*":\d+:\d+)|unknown)\)\)')
_COMMENT = re.compile(r"(?://|;).*$", re.MULTILINE)
_PRINTABLE = re.compile(rb"[\x20-\x7e]{4,}")
_OPAQUE = re.compile(r"c[a-z2-7]{51}|[A-Z2-7]{52}|[0-9a-f]{32,64}")
"""Names that are digests; Inductor's kernels are identified by them."""
_COMMON_NAMES = words(
    "root user users home test tests work main python ubuntu localhost admin float half docker"
)
"""Names of users and machines that name nobody, and words of programs."""
LETTERS = "abcdefghijklmnopqrstuvwyz"
MIN_MANGLED_CHARS = (
    5  # letters of a file's name from which it is looked for within the names of functions
)
_ODD = re.compile(r"[^A-Za-z0-9_]")
MIN_QUOTE_CHARS = 6  # characters of a comment from which it is looked for in the source


class Remover:
    """Removes ``parts``, words of ``REMOVABLE``; replacements of one length are made in order."""

    def __init__(self, parts: Iterable[str]) -> None:
        self.parts = frozenset(parts)
        self._words: dict[str, str] = {}
        self._used_words: set[str] = set()
        self._unused_words: dict[int, Iterator[tuple[str, ...]]] = {}  # words of so many letters
        self._paths: set[str] = set()
        self._mangled: dict[str, str] = {}
        self._sources: list[str] = []
        self._names_pattern = re.compile(r"(?!)")

    def collected(self, original: Collected) -> Collected:
        """The same recording without it. Raises ``PtxviewError`` where something is still there."""
        events = [e for e in original.events if e.get("event") in _UNDERSTOOD_EVENTS]
        if "source" in self.parts:
            self._sources = list(_source_texts(original, events))
            events = [e for e in events if e.get("event") not in _SOURCE_EVENTS]
        if "paths" in self.parts:
            self._names_pattern = _whole_words(_user_and_machine_names(original, events))
        result = Collected()
        digests: dict[str, str] = {}
        timeline_digests = {e.get("blob") for e in events if e.get("event") == "timeline"}
        # Events first: contents name files by less than their paths.
        changed_events: list[dict[str, object]] = [
            map_values(self._event(e), self._changed_text) for e in events
        ]
        changed_events.append(
            {"event": "removed", "what": [w for w in REMOVABLE if w in self.parts]}
        )
        for event in changed_events:
            for digest in content_names(event):
                content = None if digest in digests else original.content(digest)
                if content is None:
                    continue
                if digest not in timeline_digests:
                    content = self._content(content)
                digests[digest] = _keep(result.contents, content)
        # A record of times names kernels and shapes, and the stopwatch; a report of ncu has it all.
        result.timings = [map_values(t, self._changed_text) for t in original.timings]
        verdicts = original.verdicts
        if "source" in self.parts:  # a reason names operators, after which variables may be called
            verdicts = _changed_rows(verdicts, "kernels", lambda row: {**row, "reason": ""})
        result.verdicts = [map_values(record, self._changed_text) for record in verdicts]

        def with_new_digest(part: object) -> object:
            return digests.get(part, part) if isinstance(part, str) else part

        result.events = [map_values(event, with_new_digest) for event in changed_events]
        self._check_removed(result)
        return result

    def _check_removed(self, result: Collected) -> None:
        """Raise ``PtxviewError`` where a path or a name that was to be removed is still there."""
        needles = sorted(p for p in self._paths if p != self._path(p) and len(p) > 5)
        patterns = [
            *(re.escape(_encoded(p)) for p in needles),
            _encoded(self._names_pattern.pattern),
        ]
        search = re.compile(b"|".join(patterns)).search
        for data in (*result.contents.values(), result.as_json()):
            match = search(data)
            if match is not None:
                raise PtxviewError(
                    f"{match[0][:80].decode('utf-8', 'replace')} could not be removed",
                    "Nothing was written. Leave its kernel out, and please report it.",
                )

    def _event(self, event: Event) -> dict[str, object]:
        """An event without the fields that are taken out whole."""
        kind = str(event.get("event"))
        out = dict(event)
        if self.parts & {"paths", "args"}:
            out |= {name: None for name in _COMMAND_LINE_FIELDS.get(kind, ()) if name in out}
        if "source" in self.parts:
            return out | _without_source(kind, out)
        files = event.get("files")
        if kind == "extension" and isinstance(files, Mapping):
            # Its build file has the machine's paths, and is not read.
            out["files"] = {k: v for k, v in files.items() if k.endswith((".cu", ".cpp"))}
        return out

    def _changed_text(self, text: object) -> object:
        if not isinstance(text, str) or "paths" not in self.parts or _OPAQUE.fullmatch(text):
            return text
        if text.startswith("/") and "\n" not in text and not text.startswith("//"):
            return self._path(text)
        return self._without_paths(text)

    def _content(self, data: bytes) -> bytes:
        if is_elf(data):
            return self._elf(data) if "paths" in self.parts else data
        text = data.decode("utf-8", "surrogateescape")
        if "source" in self.parts:
            text = _NAMED.sub(r"loc(\1)", text)
            text = _COMMENT.sub(self._without_quote, text)
        if "paths" in self.parts:
            text = self._without_paths(text)
        return text.encode("utf-8", "surrogateescape")

    def _without_quote(self, comment: re.Match[str]) -> str:
        """Return a comment, or a placeholder if it quotes the source."""
        inner = comment[0].lstrip("/; \t*").rstrip()
        quoted = len(inner) >= MIN_QUOTE_CHARS and any(inner in source for source in self._sources)
        return comment[0][:2].rstrip() + " removed" if quoted else comment[0]

    def _elf(self, data: bytes) -> bytes:
        """Return a cubin with debug sections and notes replaced in place."""
        out = bytearray(data)
        for first, last in debug_spans(data):
            for text in _PRINTABLE.finditer(data, first, last):
                changed = self._without_paths(text[0].decode("ascii")).encode()
                if len(changed) == len(text[0]):
                    out[text.start() : text.end()] = changed
        for path in self._paths:
            old, new = _encoded(path), self._path(path).encode()
            if len(old) == len(new) and old in out:
                out = out.replace(old, new)
        for mangled, word in self._mangled.items():
            out = out.replace(mangled.encode(), word.encode())
        return bytes(out)

    def _without_paths(self, text: str) -> str:
        """A text whose paths, names of files and of users are other words of the same length."""
        text = _QUOTED.sub(lambda m: self._path(m[0]), text)
        text = _PATH.sub(lambda m: self._path(m[0]), text)
        text = _NAME.sub(lambda m: self._word(m[0]) if m[0].endswith(_FILE_ENDINGS) else m[0], text)
        for old, new in self._mangled.items():
            text = text.replace(old, new)
        return self._names_pattern.sub(lambda m: self._word(m[0]), text)

    def _path(self, path: str) -> str:
        if path not in self._paths and path.count("/") > 1:
            self._paths.add(path)
        return "/".join(self._word(part) if part else "" for part in path.split("/"))

    def _word(self, part: str) -> str:
        """Another word for a part of a path, of the same length; digests stay."""
        stem, ending = part, ""
        while (cut := stem.rpartition("."))[1] and cut[2] in _PRESERVED_ENDINGS:
            stem, ending = cut[0], f".{cut[2]}{ending}"
        if not stem.strip(".") or _OPAQUE.fullmatch(stem) or part in self._used_words:
            return part
        word = self._words.get(part)
        if word is None:
            size = len(_encoded(stem))
            fresh = self._unused_words.setdefault(size, product(LETTERS, repeat=min(size, 4)))
            other = "".join(next(fresh, "x" * size)).rjust(size, "x")
            word = self._words[part] = other + ending
            self._used_words |= {other, word}
            if ending.endswith((".cu", ".cuh")) and len(part) > MIN_MANGLED_CHARS:
                # nvcc names what is local to a file by it: _GLOBAL__N__8f2f_7_cuda_cu_1234.
                self._mangled[_ODD.sub("_", part)] = _ODD.sub("_", word)
        return word


def _without_source(kind: str, event: Event) -> dict[str, object]:
    """The replaced fields of an event that hold or quote the source."""
    quoting = _QUOTING_FIELDS.get(kind, {})
    out = {name: value for name, value in quoting.items() if event.get(name) is not None}
    errors = event.get("failed")
    if kind == "calls" and isinstance(errors, Mapping):
        out["failed"] = dict.fromkeys(errors, REMOVED)
    if kind in ("triton", "triton_failed"):
        source = event.get("source")
        if isinstance(source, Mapping):
            out["source"] = {k: v for k, v in source.items() if k in _LOCATION_FIELDS}
        files = event.get("files")
        if isinstance(files, Mapping):
            out["files"] = {k: v for k, v in files.items() if k != "source"}
    return out


def _whole_words(names: Iterable[str]) -> re.Pattern[str]:
    """A pattern of any of the names as whole words, longest first; nothing without names."""
    alternatives = "|".join(map(re.escape, sorted(names, key=lambda n: (-len(n), n))))
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)" if alternatives else r"(?!)")


def _encoded(text: str) -> bytes:
    """Encode a text; lone surrogates, which JSON may hold, too."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _source_texts(collected: Collected, events: Iterable[Event]) -> Iterator[str]:
    for event in events:
        fields = _SOURCE_FIELDS.get(str(event.get("event")), ())
        for digest in content_names([event.get(name) for name in fields]):
            if (content := collected.content(digest)) is not None and not is_elf(content):
                yield content.decode("utf-8", "surrogateescape")


def _user_and_machine_names(collected: Collected, events: Iterable[Event]) -> set[str]:
    """Names of users and machines: of folders of users, and of this machine."""
    names = {socket.gethostname(), socket.gethostname().partition(".")[0]}
    with suppress(KeyError, OSError):
        names.add(getpass.getuser())
    for text in strings([list(events), collected.timings]):
        names.update(re.findall(r"(?:/home/|/Users/|torchinductor_)([\w.-]++)", text))
    return {n for n in names if len(n) > 3 and n.lower() not in _COMMON_NAMES}
