"""The values that every part of the tool speaks in: frozen, plain, without I/O of their own.

One module because it is one vocabulary: a recording names kernels, graphs, compiles and calls, each
of which names others of them; read it from top to bottom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import PurePath
from typing import Annotated, Protocol

from msgspec import Meta, Struct, field

from inspector.base.names import base_name, short_name, words
from inspector.base.stage import FX_STAGES as FX_STAGES
from inspector.base.stage import GRAPH_STAGES as GRAPH_STAGES
from inspector.base.stage import KERNEL_STAGES as KERNEL_STAGES
from inspector.base.stage import Location as Location
from inspector.base.stage import Stage as Stage

EDIT, BEFORE = "edit", "before"
"""What the configuration of a variant says that was compiled before its source was edited."""


class GpuTime(Struct, frozen=True):
    """How long the GPU took for launches of a variant in the program's run, by CUPTI's records.

    ``timed`` is how many launches were timed. ``mean_us`` weighs launches of different grids by how
    often the program made each; times the number of launches it is the time of all.
    ``quartiles_us`` are the 25th, 50th and 75th percentile, of a sample of 255 launches of each
    grid.
    """

    timed: int
    mean_us: float
    shortest_us: float
    quartiles_us: tuple[float, float, float]

    @property
    def median_us(self) -> float:
        return self.quartiles_us[1]


# -- autotuning -----------------------------------------------------------------------------------
# What autotuning looked at and chose: frozen, plain values beside those of ``model``.


class Configuration(Struct, frozen=True):
    """One configuration that an autotuner looked at, and the result.

    ``variant`` is the id of what was compiled for it. ``time_us`` is the tuner's own figure, in
    microseconds: Triton's median, Inductor's shortest or median by its benchmarker.
    ``quantiles_us`` are the 20th, 50th and 80th percentile. None is "not measured", and
    ``reason`` says why where it was pruned, failed, or was not needed. ``gpu_time`` is of the
    launches by which the tuner compared it, None where those of rounds for other sizes are not
    told apart from them.
    """

    config: Mapping[str, object]
    variant: str | None = None
    time_us: float | None = None
    quantiles_us: tuple[float, ...] | None = None
    reason: str | None = None
    maker: str | None = None  # whose code it is where an operation was tuned: Triton, ATen, CUTLASS
    gpu_time: GpuTime | None = None


class ChoiceUse(Struct, frozen=True):
    """An operation of a graph that max-autotune chose for: its node, and what became of it.

    ``configuration`` is the place of the candidate that ``kernel``, by its id, was generated from;
    both are None where that was not recorded, or where a library's function was taken.
    """

    graph: str
    node: str | None
    configuration: int | None = None
    kernel: str | None = None


class Tuning(Struct, frozen=True):
    """One time that a kernel was tuned, for one ``key``: configurations in the tuner's order.

    ``tuner`` is triton or inductor. ``key`` holds what Triton tuned for by the arguments' names
    (bare values where only a cache tells them), or Inductor's size hints. ``best`` is the place of
    the winner, None if unknown. ``stopwatch`` is what measured, ``method`` how Inductor searched
    where it was not all against all, ``seconds`` how long measuring took.
    """

    tuner: str
    key: Mapping[str, object] | tuple[object, ...] | None
    configurations: tuple[Configuration, ...]
    best: int | None = None
    stopwatch: str | None = None
    method: str | None = None
    from_cache: bool = False
    seconds: float | None = None
    operation: str | None = None
    """What max-autotune chose a kernel for (``mm``); None where a kernel was tuned."""
    uses: tuple[ChoiceUse, ...] = ()

    @property
    def winner(self) -> Configuration | None:
        return None if self.best is None else self.configurations[self.best]


class Origin(StrEnum):
    """Who wrote the kernel."""

    TRITON = "triton"
    INDUCTOR = "inductor"
    NVCC = "nvcc"
    CPP = "cpp"
    EXTERN = "extern"
    FILE = "file"


class Content(Protocol):
    """Bytes that are read when they are asked for."""

    def read(self) -> bytes:
        """The whole content. Raises ``Unreadable`` where it is gone or damaged."""
        ...


class Note(Struct, frozen=True):
    """One remark of the analysis; ``severity`` is info, hint or warn."""

    rule: str
    severity: str
    text: str
    estimated: bool = False  # whether it is a guess, of the code alone
    blocks: tuple[int, int] | None = None
    """Of what was counted when blocks were run: how many of how many."""
    gain: float | None = None
    """The largest share of a launch's time that a cure could save; None where nothing bounds it."""


class Resources(Struct, frozen=True):
    """What one variant takes of the device; None is "not known", never "none".

    Registers are a thread's; bytes of stack and spills a thread's; of shared memory a block's.
    ``registers``, ``stack_bytes`` and ``static_shared_bytes`` are ``cuobjdump -res-usage``'s,
    spills and ``barriers`` are ``ptxas -v``'s, ``dynamic_shared_bytes`` Triton's metadata's,
    ``max_threads`` the kernel's own ``.reqntid`` or ``.maxntid``.
    """

    registers: int | None = None
    stack_bytes: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    static_shared_bytes: int | None = None
    dynamic_shared_bytes: int | None = None
    barriers: int | None = None
    max_threads: int | None = None

    @property
    def spill_bytes(self) -> int | None:
        """Bytes stored and loaded; a part that is unknown does not count."""
        return _sum(self.spill_store_bytes, self.spill_load_bytes)

    @property
    def shared_bytes(self) -> int | None:
        """Static and dynamic bytes; a part that is unknown does not count."""
        return _sum(self.static_shared_bytes, self.dynamic_shared_bytes)


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is b is None else (a or 0) + (b or 0)


class StageFile(Struct, frozen=True):
    """What a variant has of one stage.

    ``origin_path`` is where the text lay on the machine that recorded it; it is shown and
    compared, never opened. ``costly`` content runs a compiler when it is read for the first time.
    """

    content: Content
    origin_path: str | None = None
    text_from: str = ""
    costly: bool = False


class MadeFrom(Struct, frozen=True):
    """A line of the user's Python that a generated kernel was made from.

    ``code`` is the line as Dynamo saw it; ``targets`` are its operators that were
    fused into the kernel (``aten.mul.Tensor``), in the order of the graph. ``file`` is shown and
    compared, never opened.
    """

    file: str
    line: int
    code: str = ""
    targets: tuple[str, ...] = ()


PRODUCTS = frozenset(
    words(
        "mm bmm addmm baddbmm _int_mm _scaled_mm _grouped_mm _scaled_grouped_mm convolution "
        "flex_attention flex_attention_backward"
    )
)
"""What templates compute; the other operators are fused around them."""


def principal_lines(lines: Sequence[MadeFrom]) -> Sequence[MadeFrom]:
    """The lines that a kernel is of: those with a template's product, else all.

    A target is like ``aten.mm.default``.
    """
    products = [m for m in lines if any(map(is_product, m.targets))]
    return products or lines


def is_product(target: str) -> bool:
    """Whether ``aten.mm.default`` is what templates compute."""
    return ".".join(target.split(".")[1:2]) in PRODUCTS


class Fusion(Struct, frozen=True):
    """What a generated kernel was made from, as Inductor's comments and the graphs tell.

    ``ops`` are the ATen operators of the program (``aten.mul``), ``made_from`` the user's lines,
    ``unplaced`` the operators (``aten.ge.Scalar``) that Inductor added and that no line is known
    of. ``calls`` are the lines of ``output_code`` that define and launch the kernel.
    """

    ops: tuple[str, ...] = ()
    made_from: tuple[MadeFrom, ...] = ()
    unplaced: tuple[str, ...] = ()
    calls: tuple[int, ...] = ()


class Argument(Struct, frozen=True):
    """One argument of a call: a tensor by its layout, or a scalar by its value.

    ``type`` is as the kernel was given it (``*fp32``, ``i32``, ``constexpr``). ``shape`` and
    ``strides`` are in elements. ``alignment`` is the largest power of two in bytes that the
    tensor's address is a multiple of, 512 at most: torch's allocator begins every block at such
    an address, and what is beyond it is chance (in the emulated device's memory, 64). ``low`` and
    ``high`` are the range of an integer tensor's values before its first such call, None if it
    was not taken. ``device`` is ``cuda`` or ``cpu``. ``python_type`` is the type of a value that
    is identified by name or text (``dtype``, ``JITFunction``, ``str``), None if not recorded.
    ``content`` names the tensor's elements before the call, in the order of their indices, where
    they were kept; of these a floating-point tensor has its range and its number of NaN, ``nans``.
    ``data`` are the bytes, in hexadecimal, of a value whose C++ type is none of a known number or
    address, such as a structure or a tensor map: those of the first such launch.
    """

    name: str
    type: str | None = None
    value: int | float | bool | str | None = None
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    alignment: int | None = None
    low: int | float | None = None
    high: int | float | None = None
    device: str | None = None
    python_type: str | None = None
    nans: int | None = None
    content: str | None = None
    data: str | None = None


class Share(Struct, frozen=True, array_like=True):
    """Two arguments of a call whose elements have bytes of memory in common.

    ``offset_bytes`` is the second's address less the first's.
    """

    first: str
    second: str
    offset_bytes: int = 0


Extent = Annotated[int, Meta(ge=0)]
"""Blocks of a grid, or threads of a block, along one dimension."""


class Call(Struct, frozen=True):
    """Something that can be run again, as often as it was run alike: ``count`` times.

    ``kind`` is ``triton`` (a launch of a Triton kernel, generated ones too), ``graph`` (a compiled
    graph), ``extension`` (a function of an extension) or ``cuda`` (any other launch, seen by the
    emulated device or at the CUDA driver's boundary). ``name`` is the kernel's,
    the graph's or the function's; ``hash`` the variant's, of a launch of Triton's. ``grid`` counts
    blocks (programs, not clusters) and ``block`` threads, both x, y, z; ``shared_bytes`` a block's
    dynamic ones. ``cluster`` counts the blocks of a cluster, where a CUDA launch asked for some; of
    Triton's the variant's ``num_ctas`` says it.
    ``first`` orders the calls of a process by when they were first seen. None is "not known".
    ``operators`` are ATen's that were being called when it was first launched so, the outermost
    first, as ``at::_ops`` names them (``square``, ``pow_Tensor_Scalar``).

    ``shares`` are pairs of tensors that overlap in memory. ``failed`` is the error that such a call
    raised, None if none did: what raised is not counted, so that ``count`` may be 0. Where a GPU's
    error came later, it is that of the launch, or of each that may have caused it, and says so.

    Counts are reported while they grow: where the program was killed, up to an eighth of the true
    count is missing. A launch of Triton's into a CUDA graph counts once, and the graph's replays
    not at all; of kind ``cuda`` on a GPU, each replay counts, and what was only captured does not.
    """

    kind: str
    name: str
    hash: str | None = None
    grid: tuple[Extent, Extent, Extent] | None = None
    block: tuple[Extent, Extent, Extent] | None = None
    shared_bytes: int | None = None
    arguments: tuple[Argument, ...] = ()
    count: int = 1
    first: int | None = None
    operators: tuple[str, ...] = ()
    gpu_time: GpuTime | None = None
    """Of all launches of the variant with this grid, block and shared memory."""
    shares: tuple[Share, ...] = ()
    failed: str | None = None
    cluster: tuple[Extent, Extent, Extent] | None = None


class Timeline(Struct, frozen=True):
    """What the GPU did in the newest window of a process that was watched.

    ``content`` is for ``inspector.recording.gpu_times.read_timeline``. ``variants`` are kernel and
    variant ids by the number of a launch in it, ``tuning`` the numbers of an autotuner's launches.
    ``first_launches`` are the times, since 1970, at which a launch was first seen, in order.
    ``marks`` are ids of graphs and classes of optimizers by the number of their marks.
    """

    process: int
    content: Content
    variants: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    tuning: frozenset[int] = frozenset()
    first_launches: tuple[float, ...] = ()
    marks: Mapping[int, str] = field(default_factory=dict)


class Copied(Struct, frozen=True):
    """A kernel of the user's that was compiled from a copy of it, as torch.compile does.

    ``file`` is what the compiler names in its locations; ``first`` the line of ``source`` that
    would be that file's line 1 (below 1 where the copy has more lines before the kernel than the
    source has); ``span`` the kernel's lines in ``source``.
    """

    file: str
    first: int
    span: tuple[int, int]


class Uncaptured(Struct, frozen=True):
    """A kernel that was seen to be made and that is not in the recording: its name, and by whom."""

    name: str
    compiler: str


class Unwatched(Struct, frozen=True):
    """A process that nothing could be recorded of, and why.

    ``command`` is its interpreter, its options and what it runs, or the run's program. ``why`` is
    the option (``-I``, ``-E``, ``-S``) with which Python does not load the probes, ``environment``
    where it was given one that does not name them, ``sitecustomize`` where another would be found
    before ours, ``none`` where no interpreter of the whole run loaded them.
    """

    command: str
    why: str


class DescriptorLayout(Struct, frozen=True):
    """How Triton encodes one tensor descriptor as a tensor map, by the names of its metadata.

    ``block_size`` is the box in elements, the innermost dimension last; ``elem_type`` PTX's number
    of the type, ``swizzle`` of the mode (0 to 3: none, 32, 64 and 128 bytes).
    """

    block_size: tuple[Annotated[int, Meta(ge=1, le=1 << 31)], ...]
    elem_type: Annotated[int, Meta(ge=0, le=255)]
    elem_size: Annotated[int, Meta(ge=1, le=16)]
    swizzle: Annotated[int, Meta(ge=0, le=3)] = 0
    fp4_padded: bool = False
    is_im2col: bool = False


class Variant(Struct, frozen=True):
    """One compilation of a kernel.

    ``symbol`` is the function's name in PTX and in the cubin, ``span`` the (first, last) lines
    of the kernel in its ``source``, ``embedded`` where the kernel's own file begins in
    ``output_code`` (path of that file, line of the graph's text that holds its line 1). Where
    ``fusion`` is known the kernel was generated: its ``source`` is the user's model, in which
    ``span`` says nothing and ``fusion.made_from`` which lines. ``copied`` is known where the user
    wrote the kernel and the compiler was given a copy of it: it says where ``source`` has it.

    ``error`` says why it failed: it did not compile, and has the stages that it came to,
    or the device would not load it. ``maker`` is whose it is, in people's words (``ATen``,
    ``cuBLAS``, ``CuPy``), of a kernel that was seen when it was launched; ``library`` is the file
    that asked for the launch.

    ``launches`` are the program's own, ``benchmarks`` those of autotuning; None if none was
    seen. ``benchmark_grids`` are the latter's, in the order in which each was first seen.
    ``launches`` exceeds the sum of the calls' counts where there were more distinct calls than are
    kept. ``launches_exact`` is False where it is a lower bound: a process was
    killed, a launch could not be counted, or the driver's launches were seen for a part of the
    time.

    ``descriptor_layouts`` are those of the arguments that are tensor descriptors, in their order.

    ``options`` are Triton's others than those of ``config``, with the ``triton_version`` that
    compiled it, if recorded; ``initial_ir`` is Triton's IR as it was before the
    first pass.

    ``producers`` are the programs that made it with their versions, as they were recorded with it;
    what its stages say of them besides is the reader's to find. ``tile`` is that of a matrix
    product by its TTGIR, ``64·32·128``, where nothing recorded its configuration. ``traits`` are
    short texts on its TTGIR, by which it differs from variants of its settings.

    ``autotune`` is what tuning came to for this variant: of several, the tuning that it won, else
    the last; ``Kernel.autotune`` has them all.

    ``gpu_time`` is of the program's own launches, ``tuning_gpu_time`` of those by which an
    autotuner compared it; None where none was timed.
    """

    id: str
    hash: str
    symbol: str
    cache_key: str | None = None
    target: str | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    stages: Mapping[Stage, StageFile] = field(default_factory=dict)
    locations_cubin: Content | None = None
    recorded_resources: Resources = Resources()
    ptxas: str | None = None
    autotune: Mapping[str, object] | None = None
    ranks: tuple[int, ...] = ()
    launches: int | None = None
    launches_exact: bool | None = None
    benchmarks: int | None = None
    benchmark_grids: tuple[tuple[Extent, Extent, Extent], ...] = ()
    signature: Mapping[str, str] = field(default_factory=dict)
    specialization: Mapping[str, object] = field(default_factory=dict)
    span: tuple[int, int] | None = None
    embedded: tuple[str, int] | None = None
    missing: Mapping[Stage, str] = field(default_factory=dict)
    cache_hit: bool | None = None
    fusion: Fusion | None = None
    calls: tuple[Call, ...] = ()
    copied: Copied | None = None
    error: Failure | None = None
    maker: str | None = None
    library: str | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    initial_ir: Content | None = None
    producers: Mapping[str, str] = field(default_factory=dict)
    tile: str | None = None
    traits: Mapping[str, str] = field(default_factory=dict)
    gpu_time: GpuTime | None = None
    tuning_gpu_time: GpuTime | None = None
    descriptor_layouts: tuple[DescriptorLayout, ...] = ()

    @property
    def failed(self) -> str | None:
        """Why it failed, in one line; None where it was compiled and could be loaded."""
        return None if self.error is None else self.error.summary

    @property
    def uncompiled(self) -> bool:
        """Whether a compiler refused it, so that there is nothing to launch."""
        return self.error is not None and not self.error.at_load

    def lines_in(self, stage: Stage) -> tuple[int, int] | None:
        """The first and last line of the kernel in ``source`` or ``output_code``."""
        if stage is Stage.OUTPUT_CODE and self.maker is not None:
            return None  # of another language's: its lines are those of the source
        if stage is Stage.SOURCE and self.copied is not None:
            return self.copied.span
        if stage is Stage.SOURCE and self.fusion is not None:
            source_file = self.stages.get(stage)
            path = source_file.origin_path if source_file is not None else None
            lines = [m.line for m in self.fusion.made_from if m.file == path]
            return (min(lines), max(lines)) if lines else None
        return self.span if stage in (Stage.SOURCE, Stage.OUTPUT_CODE) else None


class Kernel(Struct, frozen=True):
    """A GPU function by name, with who wrote it and every compilation of it.

    ``fusion`` is known of what torch.compile generates or calls. ``autotune`` is every tuning of
    it that was seen, in order. ``tried_for`` is the graph for which Inductor compared it with
    others; it is no call of that graph. ``number`` is of Inductor's, unique in the recording.
    """

    id: str
    name: str
    demangled: str
    origin: Origin
    variants: tuple[Variant, ...]
    fusion: Fusion | None = None
    autotune: tuple[Tuning, ...] = ()
    tried_for: str | None = None
    number: int | None = None

    @property
    def display_name(self) -> str:
        """Its name without its parameters; of a library's template, with what it computes."""
        extern = self.origin is Origin.EXTERN
        return short_name(self.demangled or self.name) if extern else base_name(self.name)


class TriedFusion(Struct, frozen=True):
    """Operations that Inductor compiled as one kernel to measure whether that is faster.

    ``nodes`` are those whose results it computes, one where it was measured alone. ``time_us`` is
    the shortest that Inductor measured, None where it measured none.
    """

    nodes: tuple[str, ...]
    kernel: str
    time_us: float | None = None


class Graph(Struct, frozen=True):
    """One graph that Inductor compiled: its ``output_code`` and the kernels in it, by id.

    ``calls`` are the lines of its ``output_code`` that define and launch each kernel. ``nodes`` is
    what was recorded of its last graph's nodes and of what the scheduler made of them, ``dynamo``
    of the nodes of Dynamo's graph: JSON, None where it was not recorded. ``passes`` are those of
    Inductor on the graph itself, in their order: their name, the text before, the text after.
    ``tried`` are the fusions that it measured before it decided, ``error`` says why it did not
    compile: it has the stages that it came to.
    """

    id: str
    origin: Origin
    kernels: tuple[str, ...]
    stages: Mapping[Stage, StageFile]
    calls: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    nodes: Content | None = None
    dynamo: Content | None = None
    passes: tuple[tuple[str, Content, Content], ...] = ()
    tried: tuple[TriedFusion, ...] = ()
    error: Failure | None = None


class CompilerMessage(Struct, frozen=True):
    """What a compiler said, and of which line.

    ``severity`` is error, warning or note; ``tool`` is nvcc, ptxas or triton. ``file`` is as it was
    given to the compiler, or ``ptx`` where the compiler read PTX that it had made itself.
    ``line`` and ``column`` count from 1, ``text`` is that line; None where it was not said.
    """

    severity: str
    message: str
    tool: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    text: str | None = None

    @property
    def sentence(self) -> str:
        """It on one line: ``x.cu:12:7: identifier "y" is undefined``."""
        place = "" if self.file is None else PurePath(self.file).name
        for number in (self.line, self.column):
            if place and number is not None:
                place += f":{number}"
        return f"{place}: {self.message}" if place else self.message


LOAD, LAUNCH = "load", "launch"
"""Where a kernel fails that was compiled, and that the device refuses to load, or to launch."""


class Failure(Struct, frozen=True):
    """Why a variant, a graph or a build failed.

    ``message`` is the compiler's own first error, ``messages`` all that it said with their places,
    ``log`` its whole text. ``stage`` is what was being made (``sass`` where ptxas refused PTX), or
    ``load`` or ``launch``; ``tool`` whose words they are, ``kind`` the exception's class or CUDA's
    name of the error. ``command`` is the command that failed. ``required`` and ``limit`` are of the
    ``resource`` that the device has too little of (bytes of ``shared memory``, ``threads``,
    ``registers``). None is "not known".
    """

    message: str
    stage: str | None = None
    tool: str | None = None
    kind: str | None = None
    messages: tuple[CompilerMessage, ...] = ()
    log: Content | None = None
    command: str | None = None
    required: int | None = None
    limit: int | None = None
    resource: str | None = None

    @property
    def at_load(self) -> bool:
        """Whether it was compiled, and refused by the device."""
        return self.stage in (LOAD, LAUNCH)

    @property
    def outcome(self) -> str:
        """What did not come about, in words: ``did not compile``."""
        refused = {LOAD: "could not be loaded", LAUNCH: "was not launched"}
        return refused.get(self.stage or "", "did not compile")

    @property
    def first(self) -> CompilerMessage | None:
        """The first error that names its line, else the first error."""
        errors = [m for m in self.messages if m.severity == "error"]
        return next((m for m in errors if m.line is not None), next(iter(errors), None))

    @property
    def summary(self) -> str:
        """It on one line, with its place: ``x.py:5:28: NameError('y is not defined')``."""
        first = self.first
        return self.message if first is None or first.file is None else first.sentence


class Compilation(Struct, frozen=True):
    """One attempt to compile a file, or a kernel of it, for one target with one set of options.

    ``kernel`` is a kernel of Triton's, with its ``config`` and ``signature`` (``x: *fp32:16``);
    None where the compiler took the file as a whole. ``hash`` and ``symbols`` name the result of
    it: the variants with this hash and these functions. ``seconds`` is how long the compiler ran,
    ``tool`` which it was, with its version. ``failed`` says why there is no machine code, None
    where there is.
    """

    file: str
    language: str
    target: str
    options: str = ""
    kernel: str | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    signature: str = ""
    hash: str | None = None
    symbols: tuple[str, ...] = ()
    seconds: float | None = None
    tool: str | None = None
    failed: str | None = None
    messages: tuple[CompilerMessage, ...] = ()

    @property
    def column(self) -> tuple[str, str]:
        """The target and the options: what the columns of a table are."""
        return self.target, self.options


# -- torch.compile --------------------------------------------------------------------------------
# What torch itself said of each compile: frozen, plain values beside those above.


class UserFrame(Struct, frozen=True):
    """A frame of the program's stack, by torch; ``file`` is shown and compared, never opened."""

    file: str
    line: int
    function: str = ""
    code: str = ""


class CompilePhase(Struct, frozen=True):
    """A part of a compile under torch's own name for it (``bytecode_tracing``).

    ``began`` and ``seconds`` are by the program's clock, ``began`` since 1970; ``depth`` counts the
    parts around it.
    """

    name: str
    began: float
    seconds: float
    depth: int = 0


class CacheLookup(Struct, frozen=True):
    """A compile that was looked up in one of torch's caches.

    ``cache`` is ``fx_graph``, ``fx_graph_bundled`` or ``aotautograd``; ``outcome`` is torch's word:
    ``hit``, ``miss``, ``bypass`` and the like. ``saved_seconds`` is what torch says a hit saved.
    """

    cache: str
    outcome: str
    key: str | None = None
    reason: str | None = None
    saved_seconds: float | None = None


class ShapeFact(Struct, frozen=True):
    """What torch said of one symbolic size.

    ``kind``: ``dynamic`` (a size that changed and became a symbol for that), ``constant`` (a value
    that changed and is taken as a constant all the same), ``symbol`` (a symbol
    was made), ``unbacked`` (one whose value is known only when it runs), ``static`` (a symbol was
    made a constant), ``guard`` (something was taken for granted of symbols). ``source`` is whose
    size it is (``L['x'].size()[0]``), ``value`` the size that was seen or taken, ``bounds`` torch's
    range, ``expression`` the guard's, ``reason`` torch's word for why. None is "not said".
    """

    kind: str
    symbol: str | None = None
    source: str | None = None
    value: str | None = None
    bounds: str | None = None
    expression: str | None = None
    reason: str | None = None
    stack: tuple[UserFrame, ...] = ()


class GraphBreak(Struct, frozen=True):
    """A place where Dynamo ended a graph, and why, in its words.

    ``stack`` is the program's, the innermost frame last. ``attempt`` is the one that it ended;
    ``lost_seconds`` is how long that had taken, where Dynamo then began again. ``text`` is all that
    torch said.
    """

    reason: str
    explanation: str = ""
    hints: tuple[str, ...] = ()
    stack: tuple[UserFrame, ...] = ()
    attempt: int | None = None
    lost_seconds: float | None = None
    text: str = ""

    @property
    def place(self) -> UserFrame | None:
        """The user's own line."""
        return self.stack[-1] if self.stack else None


class GuardFailure(Struct, frozen=True):
    """A guard that a call did not meet: ``guard`` in torch's words, of the compile ``compile``
    (``0/0``); ``code`` and ``place`` are of the line that made the guard, if known. ``hints`` are
    torch's advice."""

    guard: str
    compile: str | None = None
    code: str = ""
    place: str = ""
    stack: tuple[UserFrame, ...] = ()
    hints: tuple[str, ...] = ()


EXPORTED = "export"
"""The id of a compile of an exported program, which has none of torch's."""


class FrameCompile(Struct, frozen=True):
    """One time that torch.compile compiled a function, or the rest of one after a graph break.

    ``id`` is torch's own: the frame's number and how often that was compiled before (``0/1``).
    ``direction`` is ``forward``, ``backward``, or ``runtime`` for what is done when it first runs.
    ``process`` is the program's process. ``began`` is since 1970. ``failures`` are the guards that
    failed if it is a recompile. ``guards`` is torch's list of them, ``guard_count`` how many it
    counts. ``figures`` are torch's ``CompilationMetrics`` that are not null, without its settings.
    ``failed`` is why it had no result. None is "not said".
    """

    id: str
    direction: str = "forward"
    process: int | None = None
    function: str = ""
    file: str = ""
    line: int | None = None
    began: float | None = None
    seconds: float | None = None
    stack: tuple[UserFrame, ...] = ()
    phases: tuple[CompilePhase, ...] = ()
    breaks: tuple[GraphBreak, ...] = ()
    failures: tuple[GuardFailure, ...] = ()
    caches: tuple[CacheLookup, ...] = ()
    shapes: tuple[ShapeFact, ...] = ()
    guard_count: int | None = None
    guards: Content | None = None
    failed: str | None = None
    figures: Mapping[str, object] = field(default_factory=dict)


class KernelCompile(Struct, frozen=True):
    """One time that a compiler was asked for a kernel, and how long each step took.

    ``compiler`` is ``triton``, ``nvcc`` or ``numba.cuda``, or ``inductor`` for a graph that was no
    part of a ``FrameCompile`` and did not compile. ``steps`` are Triton's stages (``cubin`` is
    ptxas), or the files that a build made. ``hit`` is whether it was in the compiler's cache, None
    where it did not compile. ``failed`` says why not, with its place; ``place`` is the line of the
    program that is to blame, or at which the kernel begins.
    """

    name: str
    compiler: str
    process: int | None = None
    began: float | None = None
    seconds: float | None = None
    steps: tuple[tuple[str, float], ...] = ()
    hit: bool | None = None
    hash: str | None = None
    failed: str | None = None
    place: UserFrame | None = None


class RecordedProcess(Struct, frozen=True):
    """A process that wrote events: its number, the ``RANK`` that torchrun gave it, and the name of
    the recording that it is of, where several are read as one. None is "it has none"."""

    number: int
    rank: int | None = None
    machine: str | None = None


class Recording(Struct, frozen=True):
    """What one run left behind, or what lay in a cache or a file, ready to be walked."""

    path: str
    kernels: tuple[Kernel, ...]
    graphs: tuple[Graph, ...] = ()
    command: tuple[str, ...] | None = None
    started: str | None = None
    exit_status: int | None = None
    complete: bool = True
    tools: Mapping[str, str] = field(default_factory=dict)
    device: Mapping[str, object] | None = None
    mode: str = "files"
    target: str | None = None
    problems: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    uncaptured: tuple[Uncaptured, ...] = ()
    unwatched: tuple[Unwatched, ...] = ()
    compilations: tuple[Compilation, ...] = ()  # what ``ptxview compile`` tried, in order
    removed: tuple[str, ...] = ()
    """What was taken out before it was handed on: ``source``, ``paths``, ``args``."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of the program's environment what shapes compiling and caching, by an allow-list."""
    resolved_path: str = ""
    """Where it lay when it was opened, without links: what they lead to may change since."""
    seconds: float | None = None  # how long the program ran, None if that is not known
    frame_compiles: tuple[FrameCompile, ...] = ()  # what torch.compile compiled, in order
    kernel_compiles: tuple[KernelCompile, ...] = ()  # what Triton and nvcc were asked for, in order
    processes: tuple[RecordedProcess, ...] = ()  # those that wrote events, in order
    machines: tuple[str, ...] = ()
    """The names of the recordings that are read as one; none where it is one."""
    user_files: Mapping[str, Content] = field(default_factory=dict)
    """The user's own files by their paths, as they were when something of them was compiled."""
    timelines: tuple[Timeline, ...] = ()  # what the GPU did, of each process that was watched

    def variants(self) -> tuple[tuple[Kernel, Variant], ...]:
        """Every variant with its kernel, in the order of the list."""
        return tuple((k, v) for k in self.kernels for v in k.variants)
