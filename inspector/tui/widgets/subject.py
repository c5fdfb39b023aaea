"""What the panes look at: a variant, or a graph, and the stages that it has."""

from __future__ import annotations

from dataclasses import dataclass

from inspector.model import Graph, Kernel, Origin, Stage, Variant

LEFT = (Stage.SOURCE, Stage.OUTPUT_CODE, Stage.TTIR, Stage.PTX, Stage.LLIR, Stage.SASS)
"""What the first pane shows, the best first: where the code was written."""

RIGHT = (Stage.PTX, Stage.SASS, Stage.LLIR, Stage.TTGIR, Stage.TTIR, Stage.OUTPUT_CODE)
"""What the second pane shows, the best first: what became of it."""


@dataclass(frozen=True, slots=True, eq=False)
class TreeSubject:
    """A choice in the tree; a graph alone has no kernel and no variant.

    Two are the same when the ids are: configurations are mappings and cannot be hashed.
    """

    kernel: Kernel | None = None
    variant: Variant | None = None
    graph: Graph | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """The ids of kernel, variant and graph, "" if there is none."""
        return (
            "" if self.kernel is None else self.kernel.id,
            "" if self.variant is None else self.variant.id,
            "" if self.graph is None else self.graph.id,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeSubject) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def name(self) -> str:
        """The kernel's name as written, else the graph's."""
        if self.kernel is not None:
            return self.kernel.demangled or self.kernel.name
        return "" if self.graph is None else f"graph {self.graph.id}"

    def of_graph(self, stage: Stage) -> bool:
        """Whether that stage's text is the graph's and not the variant's own."""
        if self.graph is None or stage not in self.graph.stages:
            return False
        return self.variant is None or stage not in self.variant.stages

    def has(self, stage: Stage) -> bool:
        """Whether there is something to show, or to be made when it is looked at."""
        if self.of_graph(stage):
            return True
        return self.variant is not None and stage in self.variant.stages

    def stages(self) -> tuple[Stage, ...]:
        """What there is, in the order of lowering."""
        return tuple(stage for stage in Stage if self.has(stage))

    def why_missing(self, stage: Stage) -> str:
        """The recorded reason, or what can be said without one."""
        if self.variant is None and self.kernel is None:
            return f"A graph as a whole has no {stage}; its kernels may have."
        if self.variant is None:
            return "No compilation of this kernel was recorded."
        why = self.variant.missing.get(stage)
        if why is None and stage is Stage.OUTPUT_CODE and not self._of_inductor:
            return "Only torch.compile writes it, and this kernel is not of its making."
        return why or f"No {stage} was recorded for this variant."

    @property
    def _of_inductor(self) -> bool:
        """Whether torch.compile generated the kernel."""
        return self.kernel is not None and self.kernel.origin is Origin.INDUCTOR

    def default(self, pane: int, taken: tuple[Stage, ...]) -> Stage:
        """The stage for a pane (0 the first), other than those that stand in other panes."""
        order: tuple[Stage, ...] = LEFT if pane == 0 else RIGHT
        free: list[Stage] = [stage for stage in (*order, *Stage) if stage not in taken]
        there = [stage for stage in free if self.has(stage)]
        return (there or free)[0]
