"""Input of the hints, counts of executed blocks among it, and their findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from inspector.analysis.occupancy import Device, Occupancy, occupancy
from inspector.base.model import Call, Kernel, Note, Origin, Resources, Stage, Variant
from inspector.parsers.line import Function, Line, Listing

if TYPE_CHECKING:
    from inspector.analysis.accesses import OpcodeLines
    from inspector.analysis.flow.graph import Flow
    from inspector.analysis.function_facts import FunctionFacts
    from inspector.parsers.ptx_code import PtxFunction


class ExecutedAccess(Struct, frozen=True):
    """What one line of PTX asked of ``global`` or ``shared`` memory, in all blocks that were run.

    ``kind`` is ``load``, ``store`` or ``atomic``; ``requests`` are a warp's, ``lanes`` those that
    were part of one. Of global memory: ``sectors`` of 32 bytes, ``least_sectors`` that would do;
    ``together`` and ``filled`` the same of all accesses of its stretch of code that move together,
    where each sector counts once a warp, of the warps that were followed. ``repeated`` of the
    ``followed`` lanes load what they have loaded before, and nobody has stored to since. Of shared
    memory: wavefronts.
    """

    line: int
    space: str
    kind: str
    requests: int
    lanes: int
    sectors: int = 0
    least_sectors: int = 0
    together: int = 0
    filled: int = 0
    followed: int = 0
    repeated: int = 0
    wavefronts: int = 0
    least_wavefronts: int = 0


class ExecutedBranch(Struct, frozen=True):
    """Of ``warps`` that came to a branch, in how many some lanes took it and some did not."""

    line: int
    warps: int
    divergent: int


class ExecutedFacts(Struct, frozen=True):
    """Counts of ``ran`` of a launch's ``launched`` blocks. ``instructions`` are warps', ``threads``
    the lanes that came to them, ``active`` those that ran them."""

    ran: int
    launched: int = field(name="of")
    instructions: int
    threads: int
    active: int
    accesses: tuple[ExecutedAccess, ...] = ()
    branches: tuple[ExecutedBranch, ...] = ()

    @property
    def blocks(self) -> tuple[int, int]:
        return self.ran, self.launched

    @property
    def lost_lanes(self) -> float | None:
        """The share of the lanes of all accesses that had no part in them; None without any."""
        lanes = sum(access.lanes for access in self.accesses)
        requests = sum(access.requests for access in self.accesses)
        return 1 - lanes / (WARP * requests) if requests else None


WARP = 32

Thresholds = Mapping[str, Mapping[str, Any]]
"""``reference/hints.toml``: by rule, its numbers by name with their reasons, and advice."""


LANGUAGES = {
    Origin.INDUCTOR: ("inductor", "triton", "other"),
    Origin.TRITON: ("triton", "other"),
}
"""The entries of a table of advice by a kernel's origin, the best first; of others "other"."""


SEVERITY_GAINS = {"warn": 1.0, "hint": 0.5}
"""What a finding may gain where nothing bounds it: an order, and no measurement."""

LANE_RULES = frozenset(("masked-lanes", "idle-lanes"))
LANES_WEIGHT = 0.1
"""Kernels seldom wait for lanes to be issued: such pairs gained 3 of 48 % and 0 of 75 % on an H200
(tests/gpu/hint_gains.py), where multiprocessors and sectors gained most of their bounds."""


class Finding(Struct, frozen=True):
    """What one rule has to say: ``severity`` is info, hint or warn.

    ``text`` says what was seen, why it matters and what to try. ``lines`` are the lines that it
    was seen on, by stage; none where it is of the whole kernel. ``estimated``: worked out from the
    code under assumptions, and not seen. ``blocks``: where it was counted when blocks were run,
    how many of how many. ``gain``: the largest share of a launch's time that a cure could save, 0
    to 1; None where nothing bounds it.
    """

    rule: str
    severity: str
    text: str
    lines: Mapping[Stage, tuple[int, ...]] = field(default_factory=dict)
    estimated: bool = False
    blocks: tuple[int, int] | None = None
    gain: float | None = None

    @property
    def bound(self) -> float:
        """``gain``, or all of a launch's time where nothing bounds it."""
        return 1.0 if self.gain is None else self.gain

    @property
    def weight(self) -> float:
        """The order of findings on one kernel: what it may gain, else by severity."""
        if self.severity == "info":
            return 0.0
        if self.gain is None:
            return SEVERITY_GAINS.get(self.severity, 0.0)
        return self.gain * (LANES_WEIGHT if self.rule in LANE_RULES else 1.0)

    @property
    def note(self) -> Note:
        return Note(self.rule, self.severity, self.text, self.estimated, self.blocks, self.gain)


class HintSubject(Struct, frozen=True, dict=True):
    """One variant as hints see it. ``listings``, ``functions`` and ``facts`` may be lazy mappings.

    ``facts`` are analyses of the kernel in PTX and SASS, where at hand.

    ``calls`` are the launches of this variant, ``device`` is the one to judge by; a hint that
    needs one of them says nothing without it. ``executed`` is what was counted when blocks of the
    launch were run. ``memo`` holds what several hints need.
    """

    kernel: Kernel
    variant: Variant
    resources: Resources = field(default_factory=Resources)
    listings: Mapping[Stage, Listing] = field(default_factory=dict)
    functions: Mapping[Stage, Function | None] = field(default_factory=dict)
    calls: tuple[Call, ...] = ()
    device: Device | None = None
    built_for: Device | None = None
    facts: Mapping[Stage, FunctionFacts | None] = field(default_factory=dict)
    executed: ExecutedFacts | None = None

    @cached_property
    def memo(self) -> dict[object, object]:
        return {}

    def lines(self, stage: Stage) -> Sequence[Line]:
        """Every line of the kernel in a stage; none where the stage is not to be had."""
        listing = self.listings.get(stage)
        function = self.functions.get(stage)
        if listing is None or function is None:
            return ()
        return listing.between(function.first, function.last)

    def code(self, stage: Stage) -> OpcodeLines | None:
        facts = self.facts.get(stage)
        return None if facts is None else facts.code

    def instructions(self, stage: Stage, *bases: str) -> Sequence[Line]:
        """The kernel's instructions in PTX or SASS whose opcodes begin with one of these words."""
        code = self.code(stage)
        return () if code is None else code.with_bases(*bases)

    def flow(self, stage: Stage) -> Flow | None:
        facts = self.facts.get(stage)
        return None if facts is None else facts.flow

    @cached_property
    def ptx_code(self) -> PtxFunction | None:
        from inspector.parsers.ptx_code import read_function

        listing = self.listings.get(Stage.PTX)
        function = self.functions.get(Stage.PTX)
        return read_function(listing, function) if listing and function else None

    @cached_property
    def ptx(self) -> Sequence[Line]:
        code = self.code(Stage.PTX)
        return () if code is None else code.lines()

    @cached_property
    def sass(self) -> Sequence[Line]:
        code = self.code(Stage.SASS)
        return () if code is None else code.lines()

    @cached_property
    def ttgir(self) -> Sequence[Line]:
        return [line for line in self.lines(Stage.TTGIR) if line.opcode is not None]

    @property
    def by_triton(self) -> bool:
        """Whether Triton compiled it: advice differs from that for CUDA C++."""
        return self.kernel.origin in (Origin.TRITON, Origin.INDUCTOR)

    @cached_property
    def launch(self) -> Call | None:
        """The launch that hints are about: the most frequent one, of those the largest."""
        gridded = [call for call in self.calls if call.grid is not None and call.kind != "graph"]
        return max(gridded, key=lambda c: (c.count, prod(c.grid or ())), default=None)

    @property
    def block(self) -> tuple[int, int, int] | None:
        """Threads of a block, x, y, z: the launch's, else what the kernel was compiled for."""
        if self.launch is not None and self.launch.block is not None:
            return self.launch.block
        return (self.warps * WARP, 1, 1) if self.warps is not None else None

    @property
    def warps(self) -> int | None:
        """``num_warps`` of a Triton kernel."""
        warps = self.variant.config.get("num_warps")
        if isinstance(warps, int) and not isinstance(warps, bool) and warps > 0:
            return warps
        return None

    @cached_property
    def occupancy(self) -> Occupancy | None:
        """What an SM of the device holds; None if the device, block or figures are not known.
        Dynamic shared memory is the launch's, else Triton's; not known of CUDA without a launch."""
        dynamic = self.resources.dynamic_shared_bytes
        if self.launch is not None and self.launch.shared_bytes is not None:
            dynamic = self.launch.shared_bytes
        static = self.resources.static_shared_bytes
        if self.device is None or self.block is None or static is None or dynamic is None:
            return None
        own_bytes = (self.built_for or self.device).own_shared(static)
        registers = self.resources.registers
        barriers = self.resources.barriers
        return occupancy(
            self.device, prod(self.block), registers, own_bytes + dynamic, barriers=barriers
        )


def number(thresholds: Thresholds, rule: str, name: str) -> float:
    """A threshold. Raises ``KeyError`` where the table lacks it, for it is part of the program."""
    value: float = thresholds[rule][name]
    return value


def advice(subject: HintSubject, thresholds: Thresholds, rule: str, name: str = "advice") -> str:
    """What to try, in the words of what wrote the kernel."""
    table: Mapping[str, str] = thresholds[rule][name]
    words = next(word for word in LANGUAGES.get(subject.kernel.origin, ("other",)) if word in table)
    return table[words]


def numbers(lines: Iterable[Line]) -> tuple[int, ...]:
    return tuple(sorted({line.n for line in lines}))
