"""What the panes look at: a variant, or a graph, with its stages, resources and measured times.

A figure that is not known is a dash, never 0.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from inspector.base.escapes import shown
from inspector.base.model import (
    EDIT,
    GRAPH_STAGES,
    KERNEL_STAGES,
    Graph,
    Kernel,
    Origin,
    Recording,
    Resources,
    Stage,
    StageFile,
    Variant,
)
from inspector.base.units import plural
from inspector.diff.variants import winner
from inspector.measure.launch_time import LaunchTime, measured_time
from inspector.measure.time import results
from inspector.measure.time.results import StoredTime
from inspector.render import tables, timings
from inspector.render.tables import UNKNOWN as UNKNOWN
from inspector.render.tables import calling_operators
from inspector.render.tables import figure as figure

if TYPE_CHECKING:
    from inspector.verify.kept import KeptVerdict, KeptVerdicts

LEFT = (Stage.SOURCE, Stage.OUTPUT_CODE, Stage.IR, Stage.TTIR, Stage.PTX, Stage.LLIR, Stage.SASS)
"""What the first pane shows, the best first: where the code was written."""

RIGHT = (Stage.PTX, Stage.SASS, Stage.LLIR, Stage.TTGIR, Stage.TTIR, Stage.OUTPUT_CODE)
"""What the second pane shows, the best first: what became of it."""


OF_GRAPH = (
    Stage.OPERATIONS,
    Stage.SOURCE,
    Stage.OUTPUT_CODE,
    Stage.POST_GRAD,
    Stage.FORWARD,
    Stage.BACKWARD,
    Stage.DYNAMO,
)
"""What the panes show of a graph as a whole, the best first."""


def digit(stage: Stage) -> str:
    if stage is Stage.IR or stage in GRAPH_STAGES:
        return "9" if stage is Stage.IR else "8"
    return str(KERNEL_STAGES.index(stage) + 1 - (stage.rank > Stage.IR.rank))


_UNFINISHED = "The recording is unfinished"


class TreeSubject(Struct, frozen=True):
    """A choice in the tree; a graph alone has no kernel and no variant.

    Two are the same when the ids are: configurations are mappings and cannot be hashed.
    """

    kernel: Kernel | None = None
    variant: Variant | None = None
    graph: Graph | None = None

    @property
    def pair(self) -> tuple[Kernel, Variant]:
        """Its kernel and its variant, if it has both."""
        assert self.kernel is not None and self.variant is not None
        return self.kernel, self.variant

    @property
    def key(self) -> tuple[str, str, str]:
        return (
            "" if self.kernel is None else self.kernel.id,
            "" if self.variant is None else self.variant.id,
            "" if self.graph is None else self.graph.id,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeSubject) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def marked_in(self, marked: tuple[TreeSubject, ...]) -> tuple[TreeSubject, ...]:
        if self in marked:
            return tuple(subject for subject in marked if subject != self)
        return (*marked[:1], self)

    @property
    def name(self) -> str:
        if self.kernel is not None:
            if self.kernel.origin is Origin.EXTERN:
                return self.kernel.display_name  # a library's templates fill a screen
            return self.kernel.demangled or self.kernel.name
        return "" if self.graph is None else f"graph {self.graph.id}"

    @property
    def description(self) -> str:
        """Which of its kernel's variants it is: ``78b5d5e4, 3 launches, 1 of 15 variants``."""
        kernel = self.kernel
        variant = self.variant
        if kernel is None or variant is None or len(kernel.variants) < 2:
            return self.key[1]
        ordinal = f"1 of {len(kernel.variants)} variants"
        tried = f"benchmarked {plural(variant.benchmarks, 'time')}" if variant.benchmarks else ""
        launches = "never launched"
        if variant.launches is None:
            launches = "chosen by tuning" if winner(variant) else ""
        elif variant.launches:
            launches = plural(variant.launches, "launch")
            tried = ""
        return ", ".join(filter(None, (variant.id, launches, tried, ordinal)))

    @property
    def library_place(self) -> str:
        """Where a library's kernel is called, for its lines have no source: ``cuBLAS has no source
        lines · called in matmul → mm``; "" of any other kernel."""
        variant = self.variant
        if variant is None or variant.maker is None or Stage.SOURCE in variant.stages:
            return ""
        operators = calling_operators(variant)
        called = f" · called in {operators}" if operators else ""
        return shown(f"{variant.maker} has no source lines{called}")

    def _has_own(self, stage: Stage) -> bool:
        return self.variant is not None and stage in self.variant.stages

    def of_graph(self, stage: Stage) -> bool:
        stages = () if self.graph is None else self.graph.stages
        generated = stage is Stage.OPERATIONS and Stage.OUTPUT_CODE in stages
        if stage is Stage.SOURCE and self.kernel is not None:
            return False  # the model's file, not the kernel's
        return (stage in stages or generated) and not self._has_own(stage)

    def has(self, stage: Stage) -> bool:
        return self._has_own(stage) or self.of_graph(stage)

    def stages(self) -> tuple[Stage, ...]:
        return tuple(stage for stage in Stage if self.has(stage))

    def file(self, stage: Stage) -> StageFile | None:
        if self.variant is not None and stage in self.variant.stages:
            return self.variant.stages[stage]
        return None if self.graph is None else self.graph.stages.get(stage)

    def why_missing(self, stage: Stage, complete: bool = True) -> str:
        """The recorded reason, or what can be said without; if not ``complete`` more may come."""
        in_graph = stage in GRAPH_STAGES
        if in_graph and self.graph is None:
            return "Only the graphs of torch.compile have it, and this is in none."
        of_graph = in_graph or (stage is Stage.OUTPUT_CODE and self.kernel is None)
        if of_graph and self.graph is not None and self.graph.error is not None:
            return f"It did not compile: {self.graph.error.summary}"
        if in_graph:
            return "It was not recorded of this graph."
        if self.variant is None:
            return self._why_no_variant(stage, complete)
        if stage in self.variant.missing:
            return self.variant.missing[stage]
        if not complete:
            return f"{_UNFINISHED}, and nothing of {stage} of this variant was compiled by now."
        of_inductor = self.kernel is not None and self.kernel.origin is Origin.INDUCTOR
        if stage is Stage.OUTPUT_CODE and not of_inductor:
            return "Only torch.compile writes it, and this kernel is not of its making."
        return f"No {stage} was recorded for this variant."

    def _why_no_variant(self, stage: Stage, complete: bool) -> str:
        if self.kernel is None:
            return f"A graph as a whole has no {stage}; its kernels may have."
        if not complete:
            return f"{_UNFINISHED}, and nothing of this kernel was compiled by now."
        return "No compilation of this kernel was recorded."

    def default(self, pane: int, used: tuple[Stage, ...]) -> Stage:
        order: tuple[Stage, ...] = LEFT if pane == 0 else RIGHT
        if self.kernel is None and self.graph is not None:
            order = OF_GRAPH
        free: list[Stage] = [stage for stage in (*order, *Stage) if stage not in used]
        excluded = () if self.kernel is None else GRAPH_STAGES
        return next(
            (candidate for candidate in free if self.has(candidate) and candidate not in excluded),
            free[0],
        )


def same_but_launches(current: Variant | None, other: Variant | None) -> bool:
    def without_launches(variant: Variant) -> Variant:
        calls = (replace(call, count=1, first=None) for call in variant.calls)
        return replace(variant, calls=tuple(calls), launches=None, launches_exact=None)

    return current is other or (
        current is not None
        and other is not None
        and without_launches(current) == without_launches(other)
    )


def successor(kernel: Kernel, variant: Variant) -> Variant:
    config = dict(variant.config)
    # What was compiled before the edit may still be there, beside what took its place.
    candidates = [v for v in kernel.variants if EDIT in config or EDIT not in v.config]
    matches = [v for v in candidates if v.hash == variant.hash]
    matches += [v for v in candidates if dict(v.config) == config and v.symbol == variant.symbol]
    return (matches or candidates or [variant])[0]


def resolve(recording: Recording, subject: TreeSubject) -> TreeSubject:
    """The subject with these ids in a recording, else as it was; without a variant, the first."""
    kernel = subject.kernel
    variant = subject.variant
    graph = subject.graph
    if kernel is not None:
        kernel = _same_kernel(recording, kernel)
    if variant is not None and kernel is not None:
        # The id is the shortest unique prefix of the hash: it may have grown.
        variant = successor(kernel, variant)
    if graph is not None:
        graph = next((g for g in recording.graphs if g.id == subject.key[2]), graph)
        if kernel is None:
            kernel = _first_kernel(recording, graph)
    if variant is None and kernel is not None and kernel.variants:
        variant = kernel.variants[0]
    return TreeSubject(kernel, variant, graph)


def _same_kernel(recording: Recording, kernel: Kernel) -> Kernel:
    """The kernel of the same id, else the first that has variants."""
    for candidate in recording.kernels:
        if candidate.id == kernel.id:
            return candidate
    return next((candidate for candidate in recording.kernels if candidate.variants), kernel)


def _first_kernel(recording: Recording, graph: Graph) -> Kernel | None:
    """The first kernel of a graph that has variants."""
    kernels_by_id = {kernel.id: kernel for kernel in recording.kernels if kernel.variants}
    ids = (kernel_id for kernel_id in graph.kernels if kernel_id in kernels_by_id)
    first = next(ids, None)
    return None if first is None else kernels_by_id[first]


UNREAD = "…"
"""Nobody has looked yet, which is not the dash of what is not known."""


def spilled(resources: Resources) -> bool:
    return bool(resources.spill_store_bytes or resources.spill_load_bytes)


def spills(resources: Resources) -> str:
    text = tables.spills(resources)
    return f"{text} B ⚠" if spilled(resources) else text


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def age(when: str) -> str:
    return timings.age(when, now())


class RecordingTimes:
    """Times of one recording, and verdicts on its kernels; only screens change them, a thread
    reads them."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.trusted = False
        """Whether the user lets the recording's code run, until the interface is left."""
        self.stored = results.StoredTimes()
        self.launches: Mapping[tuple[str, str], LaunchTime] = {}
        """Times of launches that were read, by the ids of kernel and variant."""
        self.verdicts: Mapping[str, KeptVerdict] = {}
        """Verdicts of ``verify`` that were read, by the hash of the variant."""
        self.verdicts_of_graphs: KeptVerdicts = {}
        self.are_read = False
        """Whether ``launches`` were read: what lacks a time until then may have one."""

    def latest(self, kernel: Kernel | None, variant: Variant | None) -> StoredTime | None:
        return self.stored.representative(kernel, variant) if kernel and variant else None

    def launch(self, kernel: Kernel | None, variant: Variant | None) -> LaunchTime | None:
        """The most trusted time of a launch; None where nothing is known of it."""
        if kernel is None or variant is None:
            return None
        return measured_time(variant, self.latest(kernel, variant)) or self.launches.get(
            (kernel.id, variant.id)
        )

    def verdict(self, variant: Variant | None) -> KeptVerdict | None:
        """The kept verdict on a variant."""
        return None if variant is None else self.verdicts.get(variant.hash)

    def text(self, kernel: Kernel | None, variant: Variant | None) -> str:
        """The time of a launch, "…" if it may still be read, or a dash."""
        time = self.launch(kernel, variant)
        if time is not None:
            return time.text
        return UNKNOWN if self.are_read else UNREAD

    def us(self, kernel: Kernel | None, variant: Variant | None) -> float | None:
        time = self.launch(kernel, variant)
        return None if time is None else time.us

    def lines(self, kernel: Kernel, variant: Variant, recorded_on: str | None) -> list[str]:
        newest = {
            (stored.timing.call, stored.timing.stopwatch, stored.timing.cache): stored
            for stored in self.stored.all_of(kernel, variant)
        }
        time = self.launch(kernel, variant)
        first = [] if time is None else [f"{time.text} a launch ({time.meaning})"]
        return first + [measurement_text(stored, recorded_on) for stored in newest.values()]


def measurement_text(stored: StoredTime, recorded_on: str | None) -> str:
    timing = stored.timing
    parts = [
        f"{timings.duration(stored.median_us)} µs (95 %: {timings.interval(timing)}) "
        f"by {timing.stopwatch}",
        f"{timing.cache} L2",
        age(stored.taken),
    ]
    if stored.device and stored.device != recorded_on:
        parts.append(f"on {stored.device}")
    return ", ".join(parts) + (f"; {timing.inputs}" if timing.inputs else "")
