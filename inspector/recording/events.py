"""The events of a recording as typed values: one Struct for each kind, decoded in one place.

Probes write them as JSON lines of schema 1, and the readers of caches make the same. Every field
has a default, since any of them may be missing or malformed. Fields that end in ``blob``, and
others of type ``object``, name content: by the SHA-256 of a blob, or, in an event of a cache, the
content itself.

One module because it is the format of a recording's events, for all readers and writers.
"""

from collections.abc import Callable, Mapping

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from inspector.base.model import Call, Compilation
from inspector.recording.decoding import (
    Dimensions,
    Integer,
    Moment,
    Report,
    Seconds,
    Size,
    Text,
    checked,
    known_values,
    tolerant,
)

RawEvent = Mapping[str, object]
JsonObject = dict[str, object]
Frame = tuple[int | None, int | None, int | None]
"""A compile of a frame by torch.compile: process, frame, and how often it was compiled before."""


class Event(Struct, frozen=True, kw_only=True):
    """An event of any kind; those of unknown kinds have no more than this.

    ``frame_id`` and ``frame_compile_id`` are torch.compile's: frame 0, compiled again, is ``0/1``.
    ``unkept`` says why content of the event could not be stored.
    """

    event: str = ""
    pid: Integer | None = None
    name: Text | None = None
    path: Text | None = None
    frame_id: Integer | None = None
    frame_compile_id: Integer | None = None
    unkept: Text | None = None

    @property
    def frame(self) -> Frame:
        return self.pid, self.frame_id, self.frame_compile_id


# -- the run and its processes --------------------------------------------------------------------


class RunStarted(Event, frozen=True, kw_only=True):
    """``recording``: what was run and how; ``has_command`` is whether a program was run at all, of
    which the command may have been removed since."""

    command: tuple[str, ...] | None = None
    started: Text | None = None
    mode: Text | None = None
    target: Text | None = None
    environment: dict[str, str] = field(default_factory=dict)
    has_command: bool = False


class RunEnded(Event, frozen=True, kw_only=True):
    """``end``: the program's end; ``finishing`` while more is added to the recording."""

    exit_status: Integer | None = None
    seconds: Seconds | None = None
    finishing: bool = False


class RunFinished(Event, frozen=True, kw_only=True):
    """``finished``: nothing more is added."""


class ProcessStarted(Event, frozen=True, kw_only=True):
    """``process``: a process that loaded the probes."""

    rank: Integer | None = None
    python: object = None
    machine: Text | None = None


class ToolVersions(Event, frozen=True, kw_only=True):
    """``torch`` and ``tools``: versions of torch and of other tools."""

    version: object = None
    tools: JsonObject = field(default_factory=dict)


class DeviceFound(Event, frozen=True, kw_only=True):
    """``device``: the GPU, by the names of CUDA's properties."""

    properties: JsonObject = field(default_factory=dict)


class Problem(Event, frozen=True, kw_only=True):
    """``problem``: something that could not be captured, and where."""

    location: object = field(default=None, name="where")
    text: object = None


class UnwatchedProcess(Event, frozen=True, kw_only=True):
    """``unwatched``: a process that nothing could be recorded of."""

    command: Text | None = None
    why: object = None


class Removed(Event, frozen=True, kw_only=True):
    """``removed``: what was taken out before the recording was handed on."""

    kinds: tuple[str, ...] | None = field(default=None, name="what")


class UserFile(Event, frozen=True, kw_only=True):
    """``user_file``: a file of the program's own, as it was when something was compiled of it."""

    blob: object = None


# -- failures -------------------------------------------------------------------------------------


class Exceeded(Event, frozen=True, kw_only=True):
    """An event that may name a limit of the device which was exceeded."""

    required: Integer | None = None
    limit: Integer | None = None
    resource: Text | None = None


class CompileFailure(Exceeded, frozen=True, kw_only=True):
    """An event that may say why a compiler failed, in its own words."""

    message: Text | None = None
    failed: Text | None = None
    stage: Text | None = None
    tool: Text | None = None
    kind: Text | None = None
    messages: tuple[object, ...] = ()
    log: object = None
    command: Text | None = None


class NotLoaded(Exceeded, frozen=True, kw_only=True):
    """``not_loaded``: a binary that the device would not load."""

    hash: Text | None = None
    error: Text | None = None


class NotLaunched(Exceeded, frozen=True, kw_only=True):
    """``not_launched``: a launch that the driver refused; ``ran``: another launch ran."""

    hash: Text | None = None
    symbol: Text | None = None
    kind: Text | None = None
    error: Text | None = None
    grid: Dimensions | None = None
    block: Dimensions | None = None
    shared_bytes: Integer | None = None
    ran: bool = False


class Launched(Event, frozen=True, kw_only=True):
    """``launched``: a kernel of which other launches were refused."""

    hash: Text | None = None
    symbol: Text | None = None


# -- compiled kernels -----------------------------------------------------------------------------


class SourceLines(Struct, frozen=True):
    """Where a kernel is in the user's Python; ``blob`` is null if the file could not be stored."""

    file: Text | None = None
    first: Integer | None = None
    last: Integer | None = None
    blob: object = UNSET


class TritonCompile(CompileFailure, frozen=True, kw_only=True):
    """``triton``, ``triton_failed`` and ``triton_said``: a compilation by Triton.

    ``files`` and ``paths`` are by stage (``ttir``, ``cubin``), ``options`` are set in an exported
    recording, ``error`` is the exception of a failed one. ``triton_said`` has the compiler's words
    of a second attempt at a failed one.
    """

    hash: Text | None = None
    cache_key: Text | None = None
    cache_hit: bool | None = None
    metadata: JsonObject = field(default_factory=dict)
    options: JsonObject = field(default_factory=dict)
    files: JsonObject = field(default_factory=dict)
    paths: JsonObject = field(default_factory=dict)
    source: SourceLines = SourceLines()
    signature: dict[str, str] = field(default_factory=dict)
    constexprs: JsonObject = field(default_factory=dict)
    specialization: JsonObject = field(default_factory=dict)
    declared: tuple[object, ...] | None = None
    made_by: dict[str, str] = field(default_factory=dict)
    tile: Text | None = None
    lacks: Text | None = None
    error: object = None
    began: Moment | None = None
    seconds: Seconds | None = None
    stage_seconds: tuple[tuple[str, Seconds], ...] = ()


class Generated(Event, frozen=True, kw_only=True):
    """``generated``: a kernel of Triton that another language made, with that language's texts.

    ``file`` has the generated Python; ``lines`` are the first and the last in the user's ``path``.
    """

    language: Text | None = field(default=None, name="by")
    file: Text | None = None
    source: object = None
    output_code: object = None
    lines: tuple[Integer | None, ...] = ()
    config: JsonObject = field(default_factory=dict)


class CompilerProduct(CompileFailure, frozen=True, kw_only=True):
    """``uncaptured`` and ``made_failed``: a kernel of any other compiler, or one that it refused.

    Texts and the binary are by stage; ``paths`` say where each was, ``authors`` whose text it is,
    and ``lacks`` why it is missing.
    """

    compiler: object = field(default=None, name="by")
    symbol: Text | None = None
    source: object = None
    ir: Text | None = None
    output_code: object = None
    ttir: object = None
    llir: object = None
    ptx: object = None
    cubin: Text | None = None
    paths: JsonObject = field(default_factory=dict)
    authors: JsonObject = field(default_factory=dict, name="said")
    lacks: JsonObject = field(default_factory=dict)
    lines: tuple[Integer | None, ...] = ()
    options: tuple[str, ...] | None = None
    config: JsonObject = field(default_factory=dict)
    signature: dict[str, str] = field(default_factory=dict)
    began: Moment | None = None
    seconds: Seconds | None = None


class BinaryFigures(Event, frozen=True, kw_only=True):
    """``loaded`` and ``ptxas``: figures of a loaded binary, or of ptxas on a kernel of it."""

    hash: Text | None = None
    symbol: Text | None = None
    spill_store_bytes: Integer | None = None
    spill_load_bytes: Integer | None = None
    barriers: Integer | None = None
    local_words: Integer | None = None


class ExtensionBuild(Event, frozen=True, kw_only=True):
    """``extension``: a build by torch's cpp_extension; ``error`` is what was printed of a failure.

    ``files`` are by their names in ``directory``, ``sources`` by their paths. ``fresh`` says
    whether it was built now.
    """

    directory: Text | None = None
    files: JsonObject = field(default_factory=dict)
    sources: JsonObject = field(default_factory=dict)
    error: Text | None = None
    fresh: bool | None = None
    began: Moment | None = None
    seconds: Seconds | None = None


class DeviceCode(Event, frozen=True, kw_only=True):
    """``device_code``: what was built of one CUDA source; ``why`` says what is missing.

    ``costly`` PTX is compiled when it is read.
    """

    origin: object = None
    object_path: Text | None = field(default=None, name="object")
    source: Text | None = None
    source_blob: object = None
    directory: Text | None = None
    arch: Text | None = None
    flags: tuple[object, ...] | None = None
    cubin: object = None
    ptx: object = None
    ptx_from: Text | None = None
    costly: bool = False
    lineinfo_cubin: object = None
    why: Text | None = None
    log: object = None
    command: Text | None = None


class StageFileFound(Event, frozen=True, kw_only=True):
    """``file``: a single file of one stage."""

    stage: object = None
    blob: object = None
    arch: Text | None = None
    symbols: tuple[str, ...] = ()


# -- calls and launches ---------------------------------------------------------------------------


class CallRecorded(Event, frozen=True, kw_only=True):
    """``call``: a call that is unlike those before; ``id`` is its number in the process.

    ``malformed`` says why ``call`` is unknown. ``final`` is whether the process counts no more.
    ``parameters`` are those of the first such launch of CUDA C++, the bytes of each in hex.
    """

    id: Integer | None = None
    subject: Text | None = None
    final: bool | None = None
    parameters: tuple[Text, ...] = ()
    call: Call | None = None
    malformed: str | None = None


class KeptArgument(Struct, frozen=True):
    """An argument of a launch whose contents were kept: a scalar's ``value``, or a tensor with its
    elements before and after the launch, in the order of their indices; null where not kept."""

    name: Text | None = None
    value: bool | int | float | None = None
    dtype: Text | None = None
    shape: tuple[Size, ...] | None = None
    strides: tuple[Size, ...] | None = None
    before: object = None
    after: object = None


class LaunchValues(Event, frozen=True, kw_only=True):
    """``launch_values``: a launch by a line of ``output_code``, or by the program itself of a
    kernel that has a reference, with contents of its tensors.

    ``name`` is the kernel's and ``path`` the file that launches it, whose content is ``code_blob``;
    the program's own launches have neither file nor line. ``call`` counts the launches by this
    line from 0, or of one kernel and signature; ``sizes`` are the integers that the code had by
    name. ``cache_key`` is the name of the variant's folder in Triton's cache, ``hash`` Triton's of
    it. ``reference`` has the operators of the kernel's reference, whose own tensors are further
    arguments. ``why`` says why contents are missing.
    """

    line: Integer | None = None
    call: Integer = 0
    cache_key: Text | None = None
    hash: Text | None = None
    code_blob: object = None
    reference: object = None
    sizes: dict[str, Integer] = field(default_factory=dict)
    arguments: tuple[KeptArgument, ...] = ()
    why: Text | None = None


class SubjectCounts(Struct, frozen=True):
    """Calls of one kernel, graph or function that have no event: distinct ones beyond a bound, and
    those of an autotuner with their grids."""

    kind: object = None
    subject: object = None
    undescribed: Integer | None = field(default=None, name="others")
    benchmarks: Integer | None = None
    benchmark_grids: tuple[Dimensions, ...] = ()


class LostContext(Struct):
    """A CUDA context that was lost after ``launches`` launches that are not known to have ended.

    ``complete``: no earlier launch is unknown to have ended. ``calls`` are numbers, the latest
    first, of the last distinct ones.
    """

    error: str
    launches: int
    complete: bool = True
    calls: tuple[int, ...] = ()


class CallCounts(Event, frozen=True, kw_only=True):
    """``calls``: how often each call was made so far, and the error of those that failed, by
    number. ``malformed`` says why ``lost_context`` is unknown."""

    final: bool | None = None
    counts: dict[str, Integer] = field(default_factory=dict)
    failed: dict[str, Text] = field(default_factory=dict)
    subjects: tuple[SubjectCounts, ...] = ()
    lost_context: LostContext | None = None
    malformed: str | None = None


class DriverStarted(Event, frozen=True, kw_only=True):
    """``driver``: whether launches at the CUDA driver are seen, and what keeps them from it."""

    began: bool = False
    other_tool: Text | None = field(default=None, name="beside")
    error: Integer | None = None
    why: Text | None = None


class DriverLeft(Event, frozen=True, kw_only=True):
    """``driver_left``: launches are no longer seen, since ``why`` began."""

    why: object = None


class DriverKernel(Event, frozen=True, kw_only=True):
    """``driver_kernel``: the machine code of one kernel, taken out of its module."""

    module: Text | None = None
    blob: Text | None = None


class DriverLaunch(Event, frozen=True, kw_only=True):
    """``driver_launch``: a launch that is unlike those before; ``id`` is its number in the process.

    ``libraries`` and ``operators`` are those on its stack, innermost first, ``parameters`` the
    bytes of each argument in hex. ``is_remainder`` counts all launches beyond a bound.
    ``tuning`` is an autotuner's launch, of the ``candidate`` of that number.
    """

    id: Integer | None = None
    time: float | None = None
    module: Text | None = None
    grid: Dimensions | None = None
    block: Dimensions | None = None
    shared_bytes: Integer | None = None
    cluster: Dimensions | None = None
    parameters: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    is_remainder: bool = field(default=False, name="others")
    in_graph: bool = False
    by_operator: bool = False
    tuning: bool = False
    candidate: Integer | None = None

    @property
    def geometry(self) -> tuple[object, object, object]:
        """Grid, block and dynamic shared memory."""
        return self.grid, self.block, self.shared_bytes


class DriverCounts(Event, frozen=True, kw_only=True):
    """``driver_counts``: how often each launch was made so far, by number; ``exact`` is whether
    nothing was sampled. The other fields count what could not be recorded."""

    counts: dict[str, tuple[Integer | None, ...]] = field(default_factory=dict)
    exact: bool = True
    lost_launches: Integer | None = None
    lost_modules: Integer | None = None
    lost_graphs: Integer | None = None
    changed_graphs: Integer | None = None
    failed_writes: Integer | None = None
    lost_refusals: Integer | None = None


class TimelineRecorded(Event, frozen=True, kw_only=True):
    """``timeline``: what the GPU did in the newest window of a process."""

    blob: Text | None = None


class TimelineMark(Event, frozen=True, kw_only=True):
    """``mark``: the graph or optimizer that the marks of one number are of."""

    number: Integer | None = None


class DriverTimes(Event, frozen=True, kw_only=True):
    """``driver_times``: GPU times of each launch by number: how many were timed, their sum, the
    shortest and three quartiles, in ns. ``lost`` records had no room."""

    times: dict[str, tuple[Integer | None, ...]] = field(default_factory=dict)
    lost: Integer | None = None


# -- autotuning -----------------------------------------------------------------------------------


class ConfigurationRow(Struct, frozen=True):
    """A configuration that an autotuner looked at, and what was compiled for it."""

    config: JsonObject = field(default_factory=dict)
    times_ms: tuple[Seconds | None, ...] | None = None
    reason: Text | None = None
    maker: Text | None = None
    hash: Text | None = None
    cache_key: Text | None = None
    file: Text | None = None
    candidate: Integer | None = None


class TuningRecorded(Event, frozen=True, kw_only=True):
    """``autotune`` and ``autotune_failed``: one tuning, of one ``configuration`` if it failed.

    ``tuning`` is its number in the process. ``has_subset`` is whether only a part of its
    configurations is known, from a compiler's cache on disk.
    """

    tuning: Integer | None = None
    tuner: object = field(default=None, name="by")
    key: object = None
    file: Text | None = None
    configurations: tuple[ConfigurationRow, ...] = ()
    configuration: ConfigurationRow | None = None
    winner: Integer | None = None
    stopwatch: Text | None = None
    method: Text | None = None
    from_cache: bool = False
    has_subset: bool = field(default=False, name="kept")
    seconds: Seconds | None = None
    operation: Text | None = None
    node: Text | None = None
    graph: Text | None = None
    aot: Text | None = None


class ConfigurationCompiled(Event, frozen=True, kw_only=True):
    """``configured``: the configuration that a variant was compiled for."""

    hash: Text | None = None
    config: JsonObject = field(default_factory=dict)


class ChoiceWritten(Event, frozen=True, kw_only=True):
    """``written``: the kernel that was generated from a candidate of a tuning."""

    tuning: Integer | None = None
    configuration: Integer | None = None
    kernel: Text | None = None


class FusionTried(Event, frozen=True, kw_only=True):
    """``fusion_tried``: operations that Inductor compiled in one file to measure them."""

    tuning: Integer | None = None
    configuration: Integer | None = None
    file: Text | None = None
    nodes: tuple[str, ...] = ()
    graph: Text | None = None
    aot: Text | None = None


class FusionTime(Event, frozen=True, kw_only=True):
    """``fusion_time``: how long such a file took."""

    file: Text | None = None
    ms: Seconds | None = None


# -- torch.compile --------------------------------------------------------------------------------


class StackFrame(Struct, frozen=True):
    """A frame of the program's stack, as torch tells it."""

    file: Text | None = None
    line: Integer | None = None
    name: Text | None = None
    code: Text | None = None


class TorchEvent(Event, frozen=True, kw_only=True):
    """An event of one compile by torch; the base of those below.

    ``attempt`` is that of Dynamo, which begins again after some graph breaks.
    """

    compiled_autograd_id: Integer | None = None
    attempt: Integer | None = None


class CompileStarted(TorchEvent, frozen=True, kw_only=True):
    """``compile_start``: the program's stack, the innermost frame last."""

    stack: tuple[StackFrame, ...] = ()


class CompileFigures(Struct, frozen=True):
    """Those of torch's ``CompilationMetrics`` that are read; times since 1970."""

    co_name: Text | None = None
    co_filename: Text | None = None
    co_firstlineno: Integer | None = None
    start_time: Moment | None = None
    start_time_us: float | None = None
    end_time_us: float | None = None
    duration_us: float | None = None
    entire_frame_compile_time_s: Seconds | None = None
    guard_count: Integer | None = None
    is_forward: bool | None = None
    is_runtime: bool | None = None
    fail_reason: Text | None = None
    fail_type: Text | None = None
    fail_user_frame_filename: Text | None = None
    fail_user_frame_lineno: Integer | None = None

    @property
    def microseconds(self) -> float | None:
        """How long a compile took; of an exported program torch gives its end."""
        if self.duration_us is not None:
            return self.duration_us
        if self.start_time_us is None or self.end_time_us is None:
            return None
        return self.end_time_us - self.start_time_us


class CompileEnded(TorchEvent, frozen=True, kw_only=True):
    """``compile_end``: torch's figures of a compile."""

    kind: Text | None = None
    figures: JsonObject = field(default_factory=dict)


class CompileMarks(TorchEvent, frozen=True, kw_only=True):
    """``compile_phases``: beginnings and ends of phases: a list of marks, or a blob of it."""

    marks: object = None


class CompileText(TorchEvent, frozen=True, kw_only=True):
    """``graph_break``, ``recompile`` and ``guards``: torch's text on a compile."""

    blob: object = None


class CacheEntry(Struct, frozen=True):
    """What torch says of a lookup in one of its caches."""

    key: Text | None = None
    cache_bypass_reason: Text | None = None
    failure_reason: Text | None = None
    time_saved_ns: Seconds | None = None


class CacheLookedUp(TorchEvent, frozen=True, kw_only=True):
    """``compile_cache``: a lookup; its name has the cache and the outcome."""

    entry: CacheEntry = field(default=CacheEntry(), name="said")


class SymbolFacts(Struct, frozen=True):
    """What torch says of a symbolic size, by its own names."""

    symbol: Text | None = None
    source: Text | None = None
    name: Text | None = None
    sources: tuple[str, ...] | None = None
    value: object = None
    val: object = None
    new: object = None
    cached: object = None
    vr: Text | None = None
    expr: Text | None = None
    reason: Text | None = None


class SymbolRecorded(TorchEvent, frozen=True, kw_only=True):
    """``symbol``: a symbolic size that was made, guarded or made a constant."""

    kind: Text | None = None
    facts: SymbolFacts = field(default=SymbolFacts(), name="said")
    stack: tuple[StackFrame, ...] = ()


class GraphCode(TorchEvent, frozen=True, kw_only=True):
    """``graph`` and ``graph_uncoded``: a graph with its ``output_code``, or one that has none."""

    id: Text | None = None
    blob: object = None
    aot: Text | None = None


class GraphFailed(CompileFailure, frozen=True, kw_only=True):
    """``graph_failed``: a graph that did not compile."""

    compiled_autograd_id: Integer | None = None
    attempt: Integer | None = None
    graph: Text | None = None
    """AOTAutograd's name of it: ``0_forward``."""
    began: Moment | None = None
    seconds: Seconds | None = None


class GraphText(Event, frozen=True, kw_only=True):
    """``graph_text``, ``graph_nodes`` and ``dynamo_nodes``: a text of a graph by torch's name."""

    kind: Text | None = None
    graph: Text | None = None
    blob: object = None


class CompilationRecorded(Event, frozen=True, kw_only=True):
    """``compiled``: an attempt of ``ptxview compile``; ``malformed`` says why it is unknown."""

    compilation: Compilation | None = None
    malformed: str | None = None


# -- decoding -------------------------------------------------------------------------------------

KINDS: Mapping[str, type[Event]] = {
    "autotune": TuningRecorded,
    "autotune_failed": TuningRecorded,
    "call": CallRecorded,
    "calls": CallCounts,
    "compile_cache": CacheLookedUp,
    "compile_end": CompileEnded,
    "compile_phases": CompileMarks,
    "compile_start": CompileStarted,
    "compiled": CompilationRecorded,
    "configured": ConfigurationCompiled,
    "device": DeviceFound,
    "device_code": DeviceCode,
    "driver": DriverStarted,
    "driver_counts": DriverCounts,
    "driver_kernel": DriverKernel,
    "driver_launch": DriverLaunch,
    "driver_left": DriverLeft,
    "driver_times": DriverTimes,
    "dynamo_nodes": GraphText,
    "end": RunEnded,
    "extension": ExtensionBuild,
    "file": StageFileFound,
    "finished": RunFinished,
    "fusion_time": FusionTime,
    "fusion_tried": FusionTried,
    "generated": Generated,
    "graph": GraphCode,
    "graph_break": CompileText,
    "graph_failed": GraphFailed,
    "graph_nodes": GraphText,
    "graph_text": GraphText,
    "graph_uncoded": GraphCode,
    "guards": CompileText,
    "launched": Launched,
    "launch_values": LaunchValues,
    "loaded": BinaryFigures,
    "made_failed": CompilerProduct,
    "mark": TimelineMark,
    "not_launched": NotLaunched,
    "not_loaded": NotLoaded,
    "problem": Problem,
    "process": ProcessStarted,
    "ptxas": BinaryFigures,
    "recompile": CompileText,
    "recording": RunStarted,
    "removed": Removed,
    "symbol": SymbolRecorded,
    "timeline": TimelineRecorded,
    "tools": ToolVersions,
    "torch": ToolVersions,
    "triton": TritonCompile,
    "triton_failed": TritonCompile,
    "triton_said": TritonCompile,
    "uncaptured": CompilerProduct,
    "unwatched": UnwatchedProcess,
    "user_file": UserFile,
    "written": ChoiceWritten,
}


def event_of(raw: RawEvent, report: Report | None = None) -> Event:
    """Decode an event; one of unknown kind has only the fields that all events have.

    Args:
        raw: its fields as they were written.
        report: called for an event that has malformed fields; they are unknown in the value.
    """
    kind = raw.get("event")
    struct = KINDS.get(kind, Event) if isinstance(kind, str) else Event
    event = tolerant(raw, struct, report)
    complete = _COMPLETED.get(event.event)
    return event if complete is None else complete(event, raw)


def _with_properties(event: Event, raw: RawEvent) -> Event:
    """A device with all other fields of its event."""
    hidden = ("event", "time", "pid")
    return replace(event, properties={k: v for k, v in raw.items() if k not in hidden})


def _with_call(event: Event, raw: RawEvent) -> Event:
    """A call with the value of the model that its other fields are."""
    values = {"name": "", **raw, "arguments": known_values(raw.get("arguments"))}
    call, malformed = checked(values, Call)
    return replace(event, call=call, malformed=malformed)


def _with_compilation(event: Event, raw: RawEvent) -> Event:
    compilation, malformed = checked(raw, Compilation)
    return replace(event, compilation=compilation, malformed=malformed)


def _with_lost_context(event: Event, raw: RawEvent) -> Event:
    lost = raw.get("lost")
    if lost is None:
        return replace(event, lost_context=None, malformed=None)
    values = lost if isinstance(lost, Mapping) else {}
    context, malformed = checked(values, LostContext)
    return replace(event, lost_context=context, malformed=malformed)


def _with_command(event: Event, raw: RawEvent) -> Event:
    return replace(event, has_command="command" in raw)


_COMPLETED: Mapping[str, Callable[[Event, RawEvent], Event]] = {
    "recording": _with_command,
    "device": _with_properties,
    "call": _with_call,
    "calls": _with_lost_context,
    "compiled": _with_compilation,
}
"""Events with values that are made of other fields; fields of their names are overwritten."""
