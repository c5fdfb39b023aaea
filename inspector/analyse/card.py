"""The card of a variant: what it takes of the device, what limits it, what it is made of.

Gathered from figures and listings that are at hand; nothing is run or read here. What is not
known is None or empty. What nobody measured is an ``Estimate``; occupancy is the theoretical one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from inspector.analyse.accesses import (
    Access,
    Mix,
    Product,
    accesses,
    mix,
    products,
)
from inspector.analyse.estimates import (
    Estimate,
    accessed_bytes,
    blocks_of,
    operations,
    tensor_bytes,
    threads_of,
)
from inspector.analyse.flow.graph import Flow, declared
from inspector.analyse.function_facts import FunctionFacts
from inspector.analyse.occupancy import Device, Occupancy, occupancy
from inspector.analyse.opcodes import OpcodeLines, base_of
from inspector.base.model import Call, Resources, Stage
from inspector.listing.line import Function, Listing

__all__ = ["Card", "StageContent", "card"]

Cost = Callable[[str, str], str | None]
"""The cost class of an opcode: of a language (``ptx``, ``sass``) and an opcode."""

MACHINE = (Stage.PTX, Stage.SASS)
_EXITS = frozenset(("ret", "exit", "RET", "EXIT"))


@dataclass(frozen=True, slots=True)
class StageContent:
    """What one stage's listing of the kernel is made of; static counts throughout.

    ``branches`` are places at which the threads of a warp may part: conditional branches, and
    exits under a predicate. ``loops`` are run again and again, ``deepest`` is how many of them are
    in one another. All three are None of TTGIR, where they are regions; ``mix`` is of PTX and
    SASS alone, ``declared`` of PTX: its virtual registers by class.
    """

    stage: Stage
    mix: Mix | None = None
    accesses: tuple[Access, ...] = ()
    products: tuple[Product, ...] = ()
    branches: int | None = None
    loops: int | None = None
    deepest: int | None = None
    declared: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Card:
    """A variant at a glance.

    ``threads`` are a block's, of the launch, else of the compilation. ``static_shared_bytes`` are
    the block's own: without what the cubin counts of the driver's (``Device.own_shared``), where
    the device is known. ``dynamic_shared_bytes`` are the launch's, else the compilation's.
    ``blocks`` are those of the launch and ``waves`` how often they fill the device, both None
    without a launch. ``made`` is by stage, TTGIR first. ``tensor_bytes`` and ``accessed_bytes``
    are two estimates of global memory, ``operations`` of floating-point operations, of one launch.
    ``made_by`` are the programs that made it with their versions. ``measured`` is what a profiler
    measured of launches, a sentence each.
    """

    resources: Resources
    device: Device | None
    threads: int | None
    static_shared_bytes: int | None
    dynamic_shared_bytes: int | None
    occupancy: Occupancy | None
    launch: Call | None
    blocks: int | None
    waves: float | None
    made: tuple[StageContent, ...]
    tensor_bytes: Estimate | None
    accessed_bytes: Estimate | None
    operations: Estimate | None
    made_by: Mapping[str, str] = field(default_factory=dict)
    measured: tuple[str, ...] = ()

    def of(self, stage: Stage) -> StageContent | None:
        """What a stage is made of, None if it is not at hand."""
        return next((made for made in self.made if made.stage is stage), None)


def card(
    resources: Resources,
    device: Device | None,
    listings: Mapping[Stage, tuple[Listing, Function]],
    cost: Cost,
    launch: Call | None = None,
    threads: int | None = None,
    flows: Mapping[Stage, Flow] | None = None,
    built_for: Device | None = None,
    codes: Mapping[Stage, OpcodeLines] | None = None,
) -> Card:
    """The card of a variant.

    ``listings`` are those of its stages at hand, each with the kernel's place in it;
    ``launch`` the launch it describes; ``threads`` what the kernel was compiled for (32 times
    ``num_warps``), used without one; ``flows`` the control flow of PTX and SASS, where it is known.
    ``built_for`` is of the architecture that the cubin is of, where ``device`` is another.
    ``codes`` are the instructions of PTX and SASS by opcode, where they are at hand.
    """
    block_threads = threads_of(launch) if launch is not None else None
    block_threads = threads if block_threads is None else block_threads
    static, dynamic = resources.static_shared_bytes, resources.dynamic_shared_bytes
    if launch is not None and launch.shared_bytes is not None:
        dynamic = launch.shared_bytes
    if static is not None and (built := built_for or device) is not None:
        static = built.own_shared(static)
    full = None
    if device is not None and static is not None and dynamic is not None:
        full = occupancy(
            device,
            block_threads,
            resources.registers,
            static + dynamic,
            barriers=resources.barriers,
        )
    blocks = blocks_of(launch) if launch is not None else None
    waves = None
    if full is not None and full.blocks and blocks is not None and full.device.sms:
        waves = blocks / (full.blocks * full.device.sms)
    flow_of = dict(flows or {})
    for stage in MACHINE:
        if stage in listings and stage not in flow_of:
            flow_of[stage] = FunctionFacts(*listings[stage]).flow
    made = tuple(
        _made(stage, *listings[stage], cost, flow_of.get(stage), (codes or {}).get(stage))
        for stage in (Stage.TTGIR, Stage.PTX, Stage.SASS)
        if stage in listings
    )
    counted = None
    if launch is not None and Stage.TTIR in listings:
        counted = operations(*listings[Stage.TTIR], launch)
    return Card(
        resources,
        device,
        block_threads,
        static,
        dynamic,
        full,
        launch,
        blocks,
        waves,
        made,
        tensor_bytes(launch) if launch is not None else None,
        _accessed(launch, made, flow_of),
        counted,
    )


def _made(
    stage: Stage,
    listing: Listing,
    function: Function,
    cost: Cost,
    flow: Flow | None,
    code: OpcodeLines | None,
) -> StageContent:
    if stage not in MACHINE or flow is None:
        return StageContent(stage, products=products(listing, function))
    code = code or OpcodeLines(listing, function)
    return StageContent(
        stage,
        mix(listing, function, lambda opcode: cost(listing.language, opcode), code),
        accesses(listing, function, code),
        products(listing, function, code),
        sum(len(block.successors) > 1 for block in flow.blocks)
        + sum(count for opcode, count in code.guarded.items() if base_of(opcode) in _EXITS),
        len(flow.loops),
        max((loop.depth for loop in flow.loops), default=0),
        declared(listing, function),
    )


def _accessed(
    launch: Call | None, made: tuple[StageContent, ...], flows: Mapping[Stage, Flow]
) -> Estimate | None:
    """By SASS, which is what runs, else by PTX."""
    for part in reversed(made):
        if launch is not None and part.mix is not None:
            return accessed_bytes(
                launch, part.accesses, flows[part.stage], branches=bool(part.branches)
            )
    return None
