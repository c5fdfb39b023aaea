"""Stages of a kernel and places in source files: what listings need of the model.

Apart from the model because the PTX executor, which the emulated device loads into the user's
process, stands on the listings and needs numpy alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Stage(StrEnum):
    """The stages a kernel passes through, in order of lowering.

    Those from ``dynamo`` to ``operations`` are a whole graph's, as ``output_code`` is; a kernel
    alone has none of them. ``operations`` is no compiler's text: it tells, call by call, which
    operators of which modules each kernel computes. ``ir`` is the own text of a language other than
    Triton (StableHLO, TIR, Tile IR, MLIR); ``output_code`` what it or Inductor generates.
    """

    SOURCE = "source"
    DYNAMO = "dynamo"
    JOINT = "joint"
    FORWARD = "forward"
    BACKWARD = "backward"
    POST_GRAD = "post_grad"
    IR_PRE_FUSION = "ir_pre_fusion"
    IR_POST_FUSION = "ir_post_fusion"
    OPERATIONS = "operations"
    IR = "ir"
    OUTPUT_CODE = "output_code"
    TTIR = "ttir"
    TTGIR = "ttgir"
    LLIR = "llir"
    PTX = "ptx"
    SASS = "sass"

    @property
    def rank(self) -> int:
        """0 for ``source``; the higher, the nearer to the machine."""
        return _RANKS[self]


_RANKS = {stage: rank for rank, stage in enumerate(Stage)}

FX_STAGES = (Stage.DYNAMO, Stage.JOINT, Stage.FORWARD, Stage.BACKWARD, Stage.POST_GRAD)
"""Graphs of torch.fx, printed as Python."""

GRAPH_STAGES = (*FX_STAGES, Stage.IR_PRE_FUSION, Stage.IR_POST_FUSION, Stage.OPERATIONS)
"""What a graph alone has, above its ``output_code``."""

KERNEL_STAGES = tuple(stage for stage in Stage if stage not in GRAPH_STAGES)
"""What a kernel may have."""


MAX_FRAMES = 256
"""Frames of a location's chain; further ones, the outermost, are left out."""


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a source file and, where code was inlined there, the chain of call sites.

    ``line`` counts from 1; ``column`` is as the compiler wrote it, None if it wrote none.
    ``inlined_at`` is the call site of the function that this location is in.
    """

    file: str
    line: int
    column: int | None = None
    inlined_at: Location | None = None

    def frames(self) -> tuple[Location, ...]:
        """Innermost first, each with its own ``inlined_at``."""
        out: list[Location] = []
        frame: Location | None = self
        while frame is not None:
            out.append(frame)
            frame = frame.inlined_at
        return tuple(out)
