"""Decodes the fields of events: values, spans, targets, resources, compiler messages, failures.

One module because every reader of events needs them, and failures consist of messages.
"""

import hashlib
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from pathlib import PurePath
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from inspector.base.model import (
    LAUNCH,
    LOAD,
    Compilation,
    CompilerMessage,
    Content,
    Failure,
    Resources,
    Stage,
    Variant,
)
from inspector.base.text import PtxviewError, base_name, counted
from inspector.base.text import first_error as error_line
from inspector.listing.ptx_statement import entries, thread_bounds
from inspector.recording.layout import BytesContent

Event = Mapping[str, object]
Blob = Callable[[object], Content | None]
Process = tuple[int, int]
_TARGET = re.compile(rb"^[^\S\n]*+\.target\s++([\w.]++)", re.MULTILINE)
PROLOGUE = 2000
_NAME = re.compile(r"(?<!\w)(\w++)\s*+$")
INTEGER_BOUND = 1 << 63
CONFIG = ("num_warps", "num_stages", "num_ctas", "maxnreg")
# Fields of CUDAOptions in triton/backends/nvidia/compiler.py, 3.2 to 3.9, that stages after the
# frontend read; paths and what a configuration already tells are left out.
OPTIONS = frozenset((
    "triton_version", "enable_fp_fusion", "ptx_version", "ptx_options", "launch_cooperative_grid",
    "launch_pdl", "max_num_imprecise_acc_default", "debug", "sanitize_overflow", "cluster_dims",
    "instrumentation_mode", "min_shared_mem", "clc", "sched4reg", "enable_reflect_ftz",
    "num_consumer_groups", "num_buffers_warp_spec", "reg_dec_producer", "reg_inc_consumer",
    "minRegAutoWS", "maxRegAutoWS", "fpsan_homomorphic_casts",
))  # fmt: skip
T = TypeVar("T")


def decoded(value: Mapping[str, object], kind: type[T], say: Callable[[str], None]) -> T | None:
    """Convert an event, or a part of one, to a value of the model.

    Null fields take their defaults, unknown fields are ignored. A malformed event gives None, and
    ``say`` is called with a sentence on it.
    """
    try:
        if not _fits(value):
            raise msgspec.ValidationError("a number has more than 63 bits")
        return msgspec.convert({k: v for k, v in value.items() if v is not None}, kind)
    except msgspec.ValidationError as error:
        say(f"a record of kind {value.get('event')} is malformed and was left out: {error}")
        return None


def _fits(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(_fits, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_fits, value))
    return not isinstance(value, int) or -INTEGER_BOUND <= value < INTEGER_BOUND


def known_values(arguments: object) -> object:
    """Arguments of a call without values and ranges that are beyond 64 signed bits, which are
    unknown then: a uint64 has more."""
    if not isinstance(arguments, list):
        return arguments
    return [
        _known_value(argument) if isinstance(argument, Mapping) else argument
        for argument in arguments
    ]


def _known_value(argument: Mapping[str, object]) -> Mapping[str, object]:
    out = dict(argument)
    for names in (("value",), ("low", "high")):
        if not all(_fits(out.get(name)) for name in names):
            out |= dict.fromkeys(names)
    return out


class Processes:
    """Processes by their ids, and how many of an id have begun: an event of ``kind`` says so."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._begun: Counter[int] = Counter()

    def process_of(self, event: Event) -> Process | None:
        if (pid := as_int(event.get("pid"))) is None:
            return None
        self._begun[pid] += event.get("event") == self._kind
        return pid, self._begun[pid]


def as_map(value: object) -> dict[str, object]:
    return {str(k): v for k, v in value.items()} if isinstance(value, Mapping) else {}


def as_text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def as_int(value: object) -> int | None:
    """A count or a size as an int; None for any other value, or one beyond 63 bits."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) < INTEGER_BOUND else None


def as_three(value: object) -> tuple[int, int, int] | None:
    """A grid or a block, in x, y and z, none negative; None for any other value."""
    numbers = [as_int(n) for n in value] if isinstance(value, list | tuple) else []
    if len(numbers) != 3 or None in numbers:
        return None
    x, y, z = (n or 0 for n in numbers)
    return None if min(x, y, z) < 0 else (x, y, z)


def as_seconds(value: object, limit: float = 1e9) -> float | None:
    """A time that may have passed, below ``limit``; None for any other value. JSON's integers may
    be of any size."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value < limit else None


def digest_of(content: Content | None) -> str:
    """The SHA-256 of a content; "" of none, or of one that cannot be read."""
    data = _read(content)
    return "" if data is None else hashlib.sha256(data).hexdigest()


def _read(content: Content | None) -> bytes | None:
    try:
        return None if content is None else content.read()
    except PtxviewError:
        return None


def text_of(content: Content | None) -> str:
    """The text of a content; "" of none, or of one that cannot be read."""
    return (_read(content) or b"").decode("utf-8", "surrogateescape")


def python_span(source: Mapping[str, object]) -> tuple[int, int] | None:
    first, last = source.get("first"), source.get("last")
    return (first, last) if isinstance(first, int) and isinstance(last, int) else None


def lines_of(event: Event) -> tuple[int, int] | None:
    """The first and the last line that an event of a language's kernel has."""
    match event.get("lines"):
        case [int(first), int(last)] if 0 < first <= last:
            return first, last
    return None


def cuda_kernels(text: str) -> tuple[str, ...]:
    """Names of the ``__global__`` functions of CUDA C++, as they are written there."""
    names: dict[str, None] = {}
    for match in re.finditer("__global__", text):
        head = re.sub(
            r"__launch_bounds__\s*\([^()]*\)", " ", text[match.end() : match.start() + PROLOGUE]
        )
        name = _NAME.search(head.partition("(")[0]) if "(" in head else None
        if name:
            names[name[1]] = None
    return tuple(names)


def cuda_span(text: str, name: str) -> tuple[int, int] | None:
    """Lines of a kernel in CUDA C++: from ``__global__`` to the brace that closes its body."""
    for match in re.finditer(rf"\b{re.escape(name)}\s*\(", text):
        # Launch bounds, templates and a return type stand between, never a page of them.
        start = text.rfind("__global__", max(0, match.start() - PROLOGUE), match.start())
        between = text[start : match.start()] if start >= 0 else ";"
        if ";" not in between and "}" not in between:
            depth, brace = 0, text.find("{", match.end())
            end = brace
            for end in range(max(brace, 0), len(text)):
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                if depth == 0:
                    break
            return text.count("\n", 0, start) + 1, text.count("\n", 0, end) + 1
    return None


def target_of(ptx: Content | None, metadata: Mapping[str, object]) -> str | None:
    if match := _TARGET.search((_read(ptx) or b"")[:65536]):
        return match[1].decode()
    arch = as_map(metadata.get("target")).get("arch")
    return f"sm_{arch}" if isinstance(arch, int) else as_text(arch)


def config_of(
    metadata: Mapping[str, object], event: Event
) -> tuple[dict[str, object], dict[str, object]]:
    """A kernel's configuration, and what its arguments were specialised for."""
    config = {k: metadata[k] for k in CONFIG if k in metadata}
    special = as_map(event.get("specialization"))
    declared = event.get("declared")
    for name, value in as_map(event.get("constexprs")).items():
        if not isinstance(declared, list) or name.partition("[")[0] in declared:
            config[name] = value
        else:  # an integer argument that was 1 is compiled in as well
            special[name] = [["constant", value]]
    return config, {k: v for k, v in special.items() if v}


def figures_of(event: Event) -> tuple[str, Resources]:
    """A hash, with a symbol if ptxas said it, and the figures of ptxas or the loaded binary."""
    digest = str(event.get("hash"))
    if event.get("event") == "ptxas":
        return f"{digest}\0{event.get('symbol')}", Resources(
            spill_store_bytes=as_int(event.get("spill_store_bytes")),
            spill_load_bytes=as_int(event.get("spill_load_bytes")),
            barriers=as_int(event.get("barriers")),
        )
    # The loaded binary counts words of local memory; none of it means that nothing was spilled,
    # some of it may be arrays as well as spills.
    spilled = 0 if event.get("local_words") == 0 else None
    return digest, Resources(spill_store_bytes=spilled, spill_load_bytes=spilled)


def options_of(event: Event, metadata: Mapping[str, object]) -> dict[str, object]:
    """Triton's options among a kernel's metadata, or beside them in an exported recording."""
    options = {**as_map(event.get("options")), **metadata}
    return {k: v for k, v in options.items() if k in OPTIONS and v is not None}


# -- resources -------------------------------------------------------------------------------------

_FUNCTION = re.compile(r"^\s*Function (.+):\s*$")
_FIGURE = re.compile(r"\b([A-Z]+)(?:\[\d+\])?:(\d{1,9}+)(?!\d)")
_COMPILING = re.compile(r"Compiling entry function '([^']+)'|Function properties for (\S+)")
_SPILLS = re.compile(
    r"(?<!\d)(\d{1,9}+) bytes stack frame, (\d{1,9}+) bytes spill stores, "
    r"(\d{1,9}+) bytes spill loads"
)
_BARRIERS = re.compile(r"used (\d{1,9}+)(?!\d) barriers")


def from_res_usage(text: str) -> dict[str, Resources]:
    """``cuobjdump -res-usage``: registers, stack and static shared bytes, by function."""
    return {
        name: Resources(
            registers=figures.get("REG"),
            stack_bytes=figures.get("STACK"),
            static_shared_bytes=figures.get("SHARED"),
        )
        for name, figures in _res_usage(text)
    }


def without_local_memory(text: str) -> frozenset[str]:
    """Functions of ``cuobjdump -res-usage`` with neither a stack nor other local memory. Functions
    without registers are left out: they are not linked yet, and their figures unknown."""
    return frozenset(
        name
        for name, figures in _res_usage(text)
        if figures.get("REG") and figures.get("STACK") == 0 and figures.get("LOCAL") == 0
    )


def _res_usage(text: str) -> Iterator[tuple[str, dict[str, int]]]:
    """Each function with its figures, as ``cuobjdump -res-usage`` calls them."""
    name: str | None = None
    for line in text.splitlines():
        if match := _FUNCTION.match(line):
            name = match[1]
        elif name is not None and "REG:" in line:
            yield name, {key: int(figure) for key, figure in _FIGURE.findall(line)}
            name = None


def from_ptxas(text: str) -> dict[str, Resources]:
    """``ptxas -v``: spilled bytes and barriers, by function."""
    out: dict[str, Resources] = {}
    name = ""
    for line in text.splitlines():
        if match := _COMPILING.search(line):
            name = match[1] or match[2]
        if match := _SPILLS.search(line):
            out[name] = replace(
                out.get(name, Resources()),
                spill_store_bytes=int(match[2]),
                spill_load_bytes=int(match[3]),
            )
        if "Used " in line and " registers" in line:
            # Where the kernel has no barrier, ptxas 12 leaves the word out and ptxas 13 says 0.
            barriers = _BARRIERS.search(line)
            out[name] = replace(
                out.get(name, Resources()), barriers=int(barriers[1]) if barriers else 0
            )
    return out


def max_threads(ptx: str) -> dict[str, int]:
    """The threads a block that ``.reqntid`` or ``.maxntid`` allows, by kernel. For all kernels of a
    file at once, since there may be thousands."""
    out: dict[str, int] = {}
    for name, header in entries(ptx):
        limits = thread_bounds(header)
        threads = limits.get("reqntid") or limits.get("maxntid")
        if threads is not None:
            out.setdefault(name, prod(threads))
    return out


def merge(*parts: Resources) -> Resources:
    figures: dict[str, int | None] = {}
    for name in Resources.__struct_fields__:
        values = (value for part in parts if (value := getattr(part, name)) is not None)
        figures[name] = next(values, None)
    return Resources(**figures)


SEVERITIES = ("error", "warning", "note")
MAX_MESSAGES = 200
"""Messages of one run or compilation that are kept."""


def message_event(message: CompilerMessage) -> dict[str, object]:
    return {name: value for name, value in asdict(message).items() if value is not None}


def messages_from(listed: object) -> tuple[CompilerMessage, ...]:
    items = listed[:MAX_MESSAGES] if isinstance(listed, list | tuple) else ()
    read = (decoded({"tool": "", **as_map(i)}, CompilerMessage, lambda _: None) for i in items)
    return tuple(
        message if message.severity in SEVERITIES else replace(message, severity="note")
        for message in read
        if message is not None
    )


def columns(compilations: Sequence[Compilation]) -> dict[tuple[str, str], dict[str, object]]:
    """What tells compiled variants from each other, by hash and symbol: targets and options as they
    were asked for, where those differ. One of several compilations has all of them."""
    by_result: dict[tuple[str, str], list[Compilation]] = {}
    for compilation in compilations:
        for symbol in (
            (compilation.symbols or filter(None, (compilation.kernel,))) if compilation.hash else ()
        ):
            by_result.setdefault((compilation.hash or "", symbol), []).append(compilation)
    targets, options = (
        {getattr(compilation, n) for compilation in compilations} for n in ("target", "options")
    )
    out: dict[tuple[str, str], dict[str, object]] = {key: {} for key in by_result}
    for key, attempts in by_result.items():
        if len(targets) > 1:
            out[key]["target"] = ", ".join(
                dict.fromkeys(compilation.target for compilation in attempts)
            )
        if len(options) > 1:
            out[key]["options"] = " | ".join(
                dict.fromkeys(compilation.options or "(none)" for compilation in attempts)
            )
    return out


# -- messages --------------------------------------------------------------------------------------

MAX_MESSAGE_CHARS = 2000
"""Characters of one message."""

_SEVERITY = (
    r"(?P<severity>catastrophic error|fatal error|internal error|error|warning|remark|note|fatal)"
)
_EDG = re.compile(
    rf"\A(?P<file>[^\s(][^(\n]*+)\((?P<line>\d{{1,9}}+)\): {_SEVERITY}(?: #[\w-]++)?: "
    r"(?P<message>.+)",
    re.IGNORECASE,
)
_CLANG = re.compile(
    rf"\A(?P<file>[^\s:][^:\n]*+):(?P<line>\d{{1,9}}+):(?:(?P<column>\d{{1,9}}+):)? "
    rf"{_SEVERITY}: (?P<message>.+)"
)
_MLIR = re.compile(
    rf'\Aloc\("(?P<file>[^"\n]++)":(?P<line>\d{{1,9}}+):(?P<column>\d{{1,9}}+)\): '
    rf"{_SEVERITY}: (?P<message>.+)"
)
_PTXAS = re.compile(
    r"\A(?P<tool>ptxas)[\w-]*+(?: (?P<file>[^;\n]+), line (?P<line>\d{1,9}+);)?\s++"
    r"(?P<severity>error|warning|fatal|info)\s*+: (?P<message>.+)"
)
_TOOL = re.compile(
    r"\A(?P<tool>nvcc|nvlink|cicc|cudafe\+\+)\s++(?P<severity>error|warning|fatal)\s*+: "
    r"(?P<message>.+)"
)
_BARE = re.compile(
    r"\A(?:[\w+-]++: )?(?P<severity>fatal error|error|warning): (?P<message>.+)", re.IGNORECASE
)
_FORMS = (_PTXAS, _TOOL, _MLIR, _EDG, _CLANG, _BARE)
# What ptxas says of itself is of figures, which are read elsewhere, but for this.
_LOSS = "Potential Performance Loss"
_ABORTED = "Ptx assembly aborted due to errors"
_SEVERITIES = {"remark": "note", "note": "note", "info": "warning", "warning": "warning"}

Line = Callable[[str, int], str | None]
"""The text of a line of a file that a compiler named; None where it is not known."""


def messages_of(output: str, tool: str, line_of: Line) -> tuple[CompilerMessage, ...]:
    """The messages in what a compiler printed, in its order, each once. ``tool`` printed it, where
    a line does not say which tool did. ``line_of`` reads the lines that are named."""
    return tuple(dict.fromkeys(_messages(output.splitlines(), tool, line_of)))[:MAX_MESSAGES]


def _messages(rows: Sequence[str], tool: str, line_of: Line) -> Iterator[CompilerMessage]:
    for index, row in enumerate(rows):
        match = next((m for form in _FORMS if (m := form.match(row.strip())) is not None), None)
        if match is None:
            continue
        fields = match.groupdict()
        severity = str(fields["severity"]).lower()
        text = str(fields["message"]).strip()[:MAX_MESSAGE_CHARS]
        if (severity == "info" and _LOSS not in text) or text == _ABORTED:
            continue
        file = fields.get("file")
        number = int(fields["line"]) if fields.get("line") else None
        source = line_of(file, number) if file and number else None
        column = int(fields["column"]) if fields.get("column") else _column(rows, index, source)
        yield CompilerMessage(
            severity=_SEVERITIES.get(severity, "error"),
            message=text,
            tool=str(fields.get("tool") or tool),
            file=file,
            line=number,
            column=column,
            text=None if source is None else source.rstrip()[:MAX_MESSAGE_CHARS],
        )


def _column(rows: Sequence[str], index: int, source: str | None) -> int | None:
    """The column of the caret beneath a message in the line of the file. The front end prints the
    line with a margin, so that the caret is measured from the first character that is no blank."""
    if index + 2 >= len(rows) or not re.fullmatch(r"\s*+\^[~\s]*+$", rows[index + 2]):
        return None
    printed, caret = rows[index + 1], rows[index + 2].index("^")
    margin = len(printed) - len(printed.lstrip())
    line = printed if source is None else source
    offset = caret - margin
    return len(line) - len(line.lstrip()) + offset + 1 if offset >= 0 else None


def first_error(messages: Sequence[CompilerMessage]) -> str | None:
    return next((m.sentence for m in messages if m.severity == "error"), None)


def renamed(
    messages: Sequence[CompilerMessage], names: dict[str, str]
) -> tuple[CompilerMessage, ...]:
    """The messages with files of a compiler's own by other names; ``names`` are by file name."""
    return tuple(
        replace(m, file=names.get(PurePath(m.file).name, m.file)) if m.file else m for m in messages
    )


_STAGES = frozenset((*(stage.value for stage in Stage), LOAD, LAUNCH))


def of_compile(event: Event, blob: Blob) -> Failure | None:
    """Decode the failure of a compilation; None if the event has none."""
    message = as_text(event.get("message")) or as_text(event.get("failed"))
    if message is None:
        return None
    stage = as_text(event.get("stage"))
    return _limited(
        event,
        Failure(
            message,
            stage=stage if stage in _STAGES else None,
            tool=as_text(event.get("tool")),
            kind=as_text(event.get("kind")),
            messages=messages_from(event.get("messages")),
            log=blob(event.get("log")),
            command=as_text(event.get("command")),
        ),
    )


def _limited(event: Event, failure: Failure) -> Failure:
    """A failure with the limit that was exceeded, if it was one."""
    required, limit = as_int(event.get("required")), as_int(event.get("limit"))
    return replace(failure, required=required, limit=limit, resource=as_text(event.get("resource")))


def of_loading(event: Event) -> Failure | None:
    """Why the device would not load a binary."""
    if (error := as_text(event.get("error"))) is None:
        return None
    kind, colon, _ = error.partition(": ")
    named = kind if colon and kind.isidentifier() else None
    tool = "driver" if event.get("required") is None else "triton"
    return _limited(event, Failure(error, stage=LOAD, tool=tool, kind=named))


def of_launch(event: Event) -> Failure | None:
    """Why the driver would not launch a kernel of CUDA C++."""
    kind, error = as_text(event.get("kind")), as_text(event.get("error"))
    if kind is None or error is None:
        return None
    shared_bytes = as_int(event.get("shared_bytes"))
    if shared_bytes is not None:  # the driver's own text names none
        grid = _size_text(as_three(event.get("grid")))
        block = _size_text(as_three(event.get("block")))
        shared = f"{counted(shared_bytes, 'byte')} of dynamic shared memory"
        error += f" (grid {grid}, blocks of {block}, {shared})"
    return _limited(event, Failure(f"{kind}: {error}", stage=LAUNCH, tool="driver", kind=kind))


def _size_text(size: tuple[int, int, int] | None) -> str:
    """A grid or a block for a message: ``32×1×1``."""
    return "?" if size is None else "×".join(map(str, size))


def of_graph(event: Event, blob: Blob) -> Failure | None:
    """Why a graph did not compile, by the probe or by torch's own figures of the compile; None
    where it did."""
    if event.get("event") == "graph_failed":
        return of_compile(event, blob)
    figures = as_map(event.get("figures")) if event.get("event") == "compile_end" else {}
    if not (text := (as_text(figures.get("fail_reason")) or "").strip()):
        return None
    message = error_line(text)
    file = as_text(figures.get("fail_user_frame_filename"))
    line = as_int(figures.get("fail_user_frame_lineno"))
    return Failure(
        message,
        tool="torch",
        kind=as_text(figures.get("fail_type")),
        messages=(CompilerMessage("error", message, "torch", file, line),),
        log=BytesContent(text.encode("utf-8", "backslashreplace")),
    )


# What ninja prints of a build that failed: ``FAILED: cuda.cuda.o``, the command, what it said.

_ENDS = re.compile(r"^(?:FAILED: |\[\d+/\d+\] |ninja: build stopped)", re.MULTILINE)
SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c")


class FailedSource(Struct, frozen=True):
    """A file of a build that did not compile: its path, and the blob of its content if known.
    ``argv`` is the command, ``target`` the first that it names."""

    path: str
    blob: object
    argv: tuple[str, ...]
    target: str | None
    failure: Failure


def of_build(event: Event, blob: Blob) -> Iterator[FailedSource]:
    """The files that an event of a build says did not compile; none where it was built."""
    log = as_text(event.get("error")) or ""
    directory = str(event.get("directory") or "")
    digests = {f"{directory}/{name}": d for name, d in as_map(event.get("files")).items()}
    digests |= as_map(event.get("sources"))
    for block in re.finditer(r"^FAILED: .*\n(?P<command>.*)\n", log, flags=re.MULTILINE):
        end = _ENDS.search(log, block.end())
        output = log[block.end() : len(log) if end is None else end.start()]
        try:
            argv = tuple(shlex.split(block["command"]))
        except ValueError:
            continue
        named = next((word for word in argv if word.endswith(SOURCES)), None)
        if named is None:
            continue  # the libraries were linked
        path = named if named.startswith("/") else f"{directory}/{named}"
        digest = digests.get(path)
        tool = "nvcc" if path.endswith(".cu") else PurePath(argv[0]).name
        failure = of_log(output, tool, path, blob(digest), block["command"])
        if failure is not None:
            target = re.search(r"\b(?:sm|compute)_(\d+[af]?)\b", block["command"])
            yield FailedSource(path, digest, argv, target and f"sm_{target[1]}", failure)


def complaint(event: Event) -> str:
    """The line of what was printed of a build that failed in which a compiler complains."""
    lines = (as_text(event.get("error")) or "").strip().splitlines() or [""]
    return next((line for line in lines if "error" in line[1:].lower()), lines[0]).strip()


def of_whole_build(event: Event) -> Failure:
    """Why a build failed without a compiler's message: ninja is missing."""
    log = (as_text(event.get("error")) or "").strip()
    return Failure(
        complaint(event)[:2000],
        stage=Stage.PTX.value,
        log=BytesContent(log.encode("utf-8", "backslashreplace")),
    )


def of_log(
    log: str, tool: str, path: str, content: Content | None, command: str | None
) -> Failure | None:
    """What a compiler of C++ printed of a file that it refused; None if it printed nothing."""
    rows = text_of(content).splitlines()

    def line_of(file: str, n: int) -> str | None:
        is_source = PurePath(file).name == PurePath(path).name
        return rows[n - 1] if is_source and 0 < n <= len(rows) else None

    messages = messages_of(log, tool, line_of)
    first = next((m for m in messages if m.severity == "error"), None)
    lines = log.strip().splitlines()
    if first is None and not lines:
        return None
    return Failure(
        lines[0] if first is None else first.message,
        stage=Stage.SASS.value if first is not None and first.tool == "ptxas" else Stage.PTX.value,
        tool=tool if first is None else first.tool,
        messages=messages,
        log=BytesContent(log.strip().encode("utf-8", "backslashreplace")),
        command=command,
    )


class Failures:
    """The failures of all variants, by hash."""

    def __init__(self) -> None:
        self._refused: dict[str, Failure] = {}
        self._loaded: set[str] = set()
        self._attempts: dict[str, Compilation] = {}
        self._words: dict[str, Failure] = {}
        self._launches: dict[tuple[str | None, str], dict[Failure, None]] = {}
        self._launched: set[tuple[str | None, str]] = set()
        self._borne: set[tuple[str | None, str]] = set()

    def take(self, event: Event, blob: Blob) -> None:
        """Take in an event of any kind; those that are not about this are ignored."""
        digest, symbol = str(event.get("hash")), as_text(event.get("symbol"))
        of_symbol = as_text(event.get("hash")), symbol or ""
        match event.get("event"):
            case "loaded":  # by this process or another
                self._loaded.add(digest)
            case "launched":  # besides launches that were refused
                self._launched.add(of_symbol)
            case "not_loaded" if (failure := of_loading(event)) is not None:
                self._refused.setdefault(digest, failure)
            case "triton_said" if (failure := of_compile(event, blob)) is not None:
                self._words[digest] = failure  # when it was asked once more
            case "not_launched" if symbol and (failure := of_launch(event)) is not None:
                self._launches.setdefault(of_symbol, {})[failure] = None
                if event.get("ran") is True:
                    self._launched.add(of_symbol)

    def attempts(self, compilations: Iterable[Compilation]) -> None:
        """Take in the failed compilations of ``ptxview compile``."""
        for compilation in compilations:
            if compilation.failed is not None and compilation.hash is not None:
                self._attempts.setdefault(compilation.hash, compilation)

    def failure_of(self, variant: Variant) -> Failure | None:
        """Why a variant failed, None where it did not. What was refused with one launch and ran
        with another came to something."""
        error, attempt = variant.error, self._attempts.get(variant.hash)
        if error is None and (attempt is None or Stage.SASS in variant.stages):
            if variant.hash in self._loaded:
                return None
            return self._refused.get(variant.hash) or self._unlaunched(variant)
        words = self._words.get(variant.hash)
        if error is not None and words is not None:
            return replace(error, message=words.message, messages=words.messages, log=words.log)
        if attempt is None or (error is not None and error.messages):
            return error
        return Failure(
            attempt.failed or "",
            None if error is None else error.stage,
            (attempt.tool or "").partition(" ")[0] or None,
            messages=attempt.messages,
        )

    def _unlaunched(self, variant: Variant) -> Failure | None:
        if variant.launches:
            return None
        for key in ((variant.hash, variant.symbol), (None, variant.symbol)):
            for failure in self._launches.get(key, ()) if key not in self._launched else ():
                self._borne.add(key)
                return failure
        return None

    def problems(self) -> Iterator[str]:
        """A sentence for each launch that was refused and that no variant bears."""
        for key, refused in self._launches.items():
            for failure in refused if key not in self._borne else ():
                yield f"a launch of {base_name(key[1])} was refused: {failure.message}"
