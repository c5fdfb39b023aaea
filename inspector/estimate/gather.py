"""What the estimate of a launch needs: its steps, traffic and occupancy, or why there is none."""

from inspector.analyse.occupancy import occupancy
from inspector.base.errors import ToolMissing
from inspector.base.model import Stage
from inspector.base.text import words
from inspector.estimate.model import Work
from inspector.estimate.path import Path, decode
from inspector.estimate.traffic import Traffic
from inspector.execute import Facts, Fault, OutOfBudget, execute
from inspector.measure.recorded_launch import LaunchWish, choose_launch
from inspector.measure.time.planning import PlannedLaunch
from inspector.reader.reader import Reader

LANES = 2048
"""Lanes of the blocks that are executed: as many blocks as fit, at least one."""
MAX_BLOCKS, MAX_BLOCKS_OF_LOOPS = 8, 2
BUDGET = 400_000_000
"""Lane-instructions that the executed blocks may take: about ten seconds."""
UNMODELLED = words("UTMALDG UTMASTG UTMAREDG UBLKCP UBLKRED UCGABAR_ARV UCGABAR_WAIT ACQBULK")


def gather(reader: Reader, planned: PlannedLaunch) -> Work:
    """The work of a recorded launch, whose PTX is executed for some blocks.

    Raises ``PtxviewError`` with the reason where it is not known or not modelled.
    """
    variant = planned.variant
    if (own := reader.own(variant, Stage.SASS)) is None:
        raise ToolMissing("its machine code is not known")
    whole = reader.listing(variant, Stage.SASS)
    lines = whole.between(own.function.first, own.function.last)
    clusters = variant.config.get("num_ctas") not in (None, 1)
    if clusters or any(line.base in UNMODELLED for line in lines):
        raise ToolMissing("clusters and copies by TMA are not modelled")
    chosen = choose_launch(reader, planned.kernel, variant, LaunchWish(call=planned.number))
    launch, program, inputs = chosen.launch, chosen.program, chosen.make()
    facts, traffic = Facts(program, values=False), Traffic(program, inputs.memory)
    count = min(LANES // launch.threads, MAX_BLOCKS_OF_LOOPS if own.flow.loops else MAX_BLOCKS)
    count = max(1, min(count, launch.blocks))
    first = min(launch.blocks // 2, launch.blocks - count)  # in the middle, beside each other
    try:
        execute(
            program,
            launch.grid,
            launch.block,
            inputs.arguments,
            memory=inputs.memory,
            shared=launch.shared,
            blocks=list(range(first, first + count)),
            budget=BUDGET,
            observer=(facts, traffic),
        )
    except (Fault, OutOfBudget) as error:
        raise ToolMissing(f"its PTX does not come to its end here: {error.message}") from None
    if traffic.contended:
        raise ToolMissing("atomics of several threads on one address are not modelled")
    loaded, stored = traffic.finish(launch.blocks / count)
    executed = {row.n: row for row in facts.lines()}
    links = reader.links(variant, Stage.SASS, Stage.PTX)
    warps = -(-launch.threads // 32)
    ops = {
        op.n: op
        for line in lines
        if (op := decode(line, links.get(line.n, ()), executed, traffic.lines, count * warps))
    }
    if not any(op.ptx for op in ops.values()):
        raise ToolMissing("its machine code does not say which PTX it is from (-lineinfo)")
    resources, device = reader.resources(variant), reader.device(variant)
    if device is None or resources.static_shared_bytes is None:
        raise ToolMissing("its shared memory is not known")
    shared = launch.shared + device.own_shared(resources.static_shared_bytes)
    full = occupancy(device, launch.threads, resources.registers, shared)
    if full is None or not full.blocks:
        raise ToolMissing("its occupancy is not known")
    path = Path(own.flow, ops, executed, count * warps, warps)
    return Work(path.steps(), launch.blocks, warps, full.blocks, loaded, stored)
