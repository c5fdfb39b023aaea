"""The card of a variant: resources, occupancy, contents, and estimates of one launch.

Gathered from figures and listings that are at hand; nothing is run or read here. What is not
known is None or empty. What nobody measured is an ``Estimate``; occupancy is the theoretical one.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import prod

from msgspec import Struct, field
from msgspec.structs import replace

from inspector.analysis.accesses import (
    ATOMIC,
    COPY,
    LOAD,
    REDUCTION,
    STORE,
    Access,
    Mix,
    OpcodeLines,
    Product,
    accesses,
    base_of,
    dot_shape,
    mix,
    products,
    total,
)
from inspector.analysis.flow.graph import Flow, declared
from inspector.analysis.function_facts import FunctionFacts
from inspector.analysis.occupancy import Device, Occupancy, occupancy
from inspector.analysis.shared_memory import Allocation
from inspector.analysis.tensor_maps import TensorMap
from inspector.analysis.tensors import Tensors, operand_shape, uses
from inspector.base.model import Argument, Call, Resources, Stage
from inspector.base.names import words
from inspector.parsers.line import Function, Kind, Line, Listing

# Estimates, from shapes, static counts and TTIR.
#
# Nothing here is measured. Caches, partial cache lines, masks and values that decide how often a
# loop runs are not seen; what cannot be known is None.

_BITS = re.compile(r"\D+(\d{1,9}+)(?!\d)")
_ODD_BITS = {
    "bool": 8, "half": 16, "float": 32, "double": 64, "long": 64, "int": 32, "short": 16, "i1": 8,
    "byte": 8, "char": 8, "complex64": 64, "complex128": 128, "bfloat16": 16, "tf32": 32,
}  # fmt: skip


class Estimate(Struct, frozen=True):
    """A figure of one launch that nobody measured, with what it was made of. ``at_most``:
    predicates or branches may leave some of it out."""

    value: int
    how: str
    at_most: bool = False


def blocks_of(call: Call) -> int | None:
    return None if call.grid is None else prod(call.grid)


def threads_of(call: Call) -> int | None:
    return None if call.block is None else prod(call.block)


Placed = tuple[Listing, Function]
"""A stage's listing, and the kernel's place in it."""


def tensor_bytes(call: Call, ttir: Placed | None = None) -> Estimate | None:
    """Global memory by the tensors among the arguments: every element once.

    A dimension of stride 0 is stored once. Of tensors that ``ttir`` shows to be read or written
    only at loaded indices (the rows of an embedding), no more than is asked for. What a tensor
    that is read and written, or read by many programs, adds to this depends on the caches. None
    without tensors, or if a tensor has no known size.
    """
    tensors = [argument for argument in call.arguments if argument.shape is not None]
    sizes = [size for size in map(_bytes, tensors) if size is not None]
    if not sizes or len(sizes) < len(tensors):
        return None
    accessed = {} if ttir is None else _bytes_by_index(call, *ttir)
    fewer = [min(n, accessed.get(a.name, n)) for a, n in zip(tensors, sizes, strict=True)]
    how = f"each tensor read or written once{', at indices what is asked for' * (fewer != sizes)}"
    return Estimate(sum(fewer), how, fewer != sizes)


_ACCESSES = words("tt.load tt.store tt.atomic_rmw tt.atomic_cas")


def _bytes_by_index(call: Call, listing: Listing, function: Function) -> dict[str, int]:
    """Bytes that a launch asks of each tensor that it accesses only at indices that it loads."""
    lines = listing.between(function.first, function.last)
    out = {}
    for name, numbers in _accesses(call, lines).items():
        if all(numbers.values()):  # and nowhere else
            byte_count = _accessed_bytes(call, name, lines, numbers)
            if byte_count is not None:
                out[name] = byte_count
    return out


def _accesses(call: Call, lines: Sequence[Line]) -> dict[str, dict[int, bool]]:
    """The lines of TTIR that access each tensor, and whether at an index that was loaded."""
    tensors_of_value: dict[str, set[str]] = {
        f"%{a.name}": {a.name} for a in call.arguments if a.shape
    }
    loaded: set[str] = set()
    accesses: dict[str, dict[int, bool]] = {}
    for line in lines:
        names = uses(line)
        if line.base in _ACCESSES and names:
            for tensor in tensors_of_value.get(names[0], ()):
                accesses.setdefault(tensor, {})[line.n] = names[0] in loaded
            loaded.update(line.defs)
            continue
        for name in line.defs:
            tensors_of_value.setdefault(name, set()).update(
                *(tensors_of_value.get(used, ()) for used in names)
            )
            loaded.update([name] if not loaded.isdisjoint(names) else ())
    return accesses


def _accessed_bytes(
    call: Call, name: str, lines: Sequence[Line], accesses: Collection[int]
) -> int | None:
    """Bytes that a launch asks of a tensor on some lines; None where that is not known."""
    argument = next(a for a in call.arguments if a.name == name)
    size = element_bytes(argument.dtype or (argument.type or "").lstrip("*"))
    elements = _elements(call, lines, accesses)
    return None if size is None or elements is None else elements * size


def needed_bytes(call: Call, ttir: Placed) -> int:
    """Bytes that a launch must move: of each tensor no more than it holds, nor than is asked for.

    A tensor counts once, and not at all where it is not known how often it is accessed.
    """
    listing, function = ttir
    lines = listing.between(function.first, function.last)
    total = 0
    for name, numbers in _accesses(call, lines).items():
        tensor_size = _bytes(next(a for a in call.arguments if a.name == name))
        byte_count = _accessed_bytes(call, name, lines, numbers)
        if tensor_size is not None and byte_count is not None:
            total += min(tensor_size, byte_count)
    return total


def _elements(call: Call, lines: Sequence[Line], accesses: Collection[int]) -> int | None:
    """Elements of the accesses on some lines, in all programs of a launch."""
    return _of_launch(
        call, lines, lambda line, _: prod(operand_shape(line) or ()) * (line.n in accesses)
    )


def _bytes(argument: Argument) -> int | None:
    element = element_bytes(argument.dtype or (argument.type or "").lstrip("*"))
    if element is None or argument.shape is None:
        return None
    sizes = zip(argument.shape, argument.strides or (1,) * len(argument.shape), strict=False)
    return element * prod(size if stride else min(size, 1) for size, stride in sizes)


def element_bytes(dtype: str) -> int | None:
    """Bytes of an element of torch's or Triton's type: 4 of ``float32`` and of ``fp32``."""
    dtype = dtype.removeprefix("torch.")
    match = _BITS.match(dtype)
    bits = _ODD_BITS.get(dtype, int(match[1]) if match else 0)
    return bits // 8 if bits and bits % 8 == 0 else None


def accessed_bytes(
    call: Call, accesses: Iterable[Access], flow: Flow, branches: bool
) -> Estimate | None:
    """Bytes that the instructions of a kernel ask of global memory, by static counts.

    Every access once for every thread: known where there is no loop; predicates and ``branches``
    (exits too) make it an upper bound. None with loops, or where a width is not known.
    """
    blocks = blocks_of(call)
    threads = threads_of(call)
    if blocks is None or threads is None or flow.loops:
        return None
    all_accesses = tuple(accesses)
    bytes_a_thread = total(all_accesses, (LOAD, STORE, COPY, ATOMIC, REDUCTION), "global")
    if bytes_a_thread is None or any(a.space == "generic" for a in all_accesses):
        return None
    at_most = branches or any(a.guarded for a in all_accesses if a.space == "global")
    how = f"each access {'at most ' * at_most}once by every thread"
    return Estimate(bytes_a_thread * threads * blocks, how, at_most)


_WEIGHTS: Mapping[str, int] = {
    **dict.fromkeys(
        words(
            "arith.addf arith.subf arith.mulf arith.divf arith.remf arith.negf arith.maximumf "
            "arith.minimumf arith.maxnumf arith.minnumf tt.precise_divf tt.precise_sqrt "
            "tt.extern_elementwise"
        ),
        1,
    ),
    "math.fma": 2,
    "tt.clampf": 2,
}
_UNCOUNTED = frozenset(("math.absi", "math.ctpop", "math.ctlz", "math.cttz", "math.ipowi"))
_SHAPED = re.compile(r"tensor<((?:\d{1,9}+x)*+)(?:f|bf)\d")
_SCALAR = re.compile(r":\s*(?:\([^)]*\)\s*->\s*)?(?:f|bf)\d+\b")
_FOR = re.compile(
    r"scf\.for\s+(?:unsigned\s+)?(%[\w.$-]+)\s*=\s*(%[\w.$#-]+)\s+to\s+(%[\w.$#-]+)"
    r"\s+step\s+(%[\w.$#-]+)"
)
_AXIS = re.compile(r"axis = (\d{1,9}+)(?!\d)")
_TENSOR = re.compile(r"tensor<((?:\d{1,9}+x)++)")


MAX_NESTED_REGIONS = 100


def operations(listing: Listing, function: Function, call: Call) -> Estimate | None:
    """Floating-point operations of one launch of a TTIR function, all programs together.

    None if the grid is not known, or where what is counted is in a branch, in a called
    function or in a loop whose bounds do not follow from constants and the call's arguments.
    """
    if listing.language != "ttir":
        return None
    total = _of_launch(call, listing.between(function.first, function.last), _alone)
    return None if total is None else Estimate(total, "counted in TTIR, masked lanes included")


Weight = Callable[[Line, str], int | None]
"""What one operation of TTIR counts, by its line and its text without the location."""


def _of_launch(call: Call, lines: Sequence[Line], weigh: Weight) -> int | None:
    """The sum of what operations count, in all programs of a launch."""
    scalar_values = {a.name: a.value for a in call.arguments if type(a.value) is int}
    programs = blocks_of(call)
    total, _ = _region(iter(lines), Tensors(lines, scalar_values, None, turns=False), weigh)
    return None if total is None or programs is None else total * programs


def _region(
    lines: Iterator[Line], scalars: Tensors, weigh: Weight, depth: int = 0
) -> tuple[int | None, str]:
    """Operations of a region run once, None if they cannot be counted; and the line that ends it.
    Of a reduction they are those for one pair of elements."""
    total: int | None = 0 if depth < MAX_NESTED_REGIONS else None
    for line in lines:
        body = line.text.strip().rpartition(" loc(")[0] or line.text.strip()
        if body.startswith("}") and not body.endswith("{") and depth:
            return total, body
        if body.startswith("}") or line.kind is not Kind.INSTRUCTION or line.base is None:
            continue
        count = weigh(line, body)
        if body.endswith("{") and total is not None:
            inner, end = _region(lines, scalars, weigh, depth + 1)
            count = _plus(count, _times(line.base, body, inner, end, scalars))
        total = _plus(total, count)
    return total, ""


def _plus(a: int | None, b: int | None) -> int | None:
    """The sum of two counts, None if one is not known."""
    return None if a is None or b is None else a + b


def _alone(line: Line, body: str) -> int | None:
    base = line.base or ""
    if base == "tt.call":
        return None
    if base.startswith("tt.dot"):
        shape = dot_shape(body)
        return 2 * prod(shape) if shape else None
    other = base.startswith("math.") and base not in _UNCOUNTED
    # Elements of the floating-point type that the operation ends in.
    shapes = _SHAPED.findall(body)
    elements = prod(_dimensions(shapes[-1])) if shapes else int(bool(_SCALAR.search(body)))
    return _WEIGHTS.get(base, int(other)) * elements


def _times(base: str, body: str, inner: int | None, end: str, scalars: Tensors) -> int | None:
    """Operations of a line's region, as often as it is run; ``end`` is the line after it."""
    if not inner or base in ("tt.func", "builtin.module", "module"):
        return inner
    if base == "scf.for":
        trips = _trips(scalars, body)
        return None if trips is None else trips * inner
    axis = _AXIS.search(body)
    shape = _TENSOR.search(end)
    dimensions = _dimensions(shape[1]) if shape else []
    if base not in ("tt.reduce", "tt.scan") or not axis or int(axis[1]) >= len(dimensions):
        return None  # a branch, or what this does not know
    along = dimensions[int(axis[1])]
    return prod(dimensions) // along * (along - 1) * inner if along else 0


def _dimensions(shape: str) -> list[int]:
    return [int(size) for size in shape.split("x") if size]


def _trips(scalars: Tensors, body: str) -> int | None:
    match = _FOR.search(body)
    if match is None:
        return None
    first = scalars.elements(match[2])[0]
    last = scalars.elements(match[3])[0]
    step = scalars.elements(match[4])[0]
    if first is None or last is None or step is None or step <= 0:
        return None
    return max(0, -(-(last - first) // step))


Cost = Callable[[str, str], str | None]
"""The cost class of an opcode: of a language (``ptx``, ``sass``) and an opcode."""

MACHINE = (Stage.PTX, Stage.SASS)
_EXITS = frozenset(("ret", "exit", "RET", "EXIT"))


class StageContent(Struct, frozen=True):
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


class Card(Struct, frozen=True):
    """A variant at a glance.

    ``threads`` are a block's, of the launch, else of the compilation. ``static_shared_bytes`` are
    the block's own: without what the cubin counts of the driver's (``Device.own_shared``), where
    the device is known. ``dynamic_shared_bytes`` are the launch's, else the compilation's.
    ``blocks`` are those of the launch and ``waves`` how often they fill the device, both None
    without a launch. ``stages`` is by stage, TTGIR first. ``tensor_bytes`` and ``accessed_bytes``
    are two estimates of global memory, ``operations`` of floating-point operations, of one launch.
    ``made_by`` are the programs that made it with their versions. ``measured`` is what a profiler
    measured of launches, a sentence each. ``tensor_maps`` are those among its arguments,
    ``allocations`` are of shared and tensor memory, the largest first.
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
    stages: tuple[StageContent, ...]
    tensor_bytes: Estimate | None
    accessed_bytes: Estimate | None
    operations: Estimate | None
    made_by: Mapping[str, str] = field(default_factory=dict)
    measured: tuple[str, ...] = ()
    tensor_maps: tuple[TensorMap, ...] = ()
    allocations: tuple[Allocation, ...] = ()

    def stage_content(self, stage: Stage) -> StageContent | None:
        return next((content for content in self.stages if content.stage is stage), None)


def card(
    resources: Resources,
    device: Device | None,
    listings: Mapping[Stage, Placed],
    cost: Cost,
    launch: Call | None = None,
    threads: int | None = None,
    facts: Mapping[Stage, FunctionFacts] | None = None,
    built_for: Device | None = None,
) -> Card:
    """The card of a variant.

    ``listings`` are those of its stages at hand, each with the kernel's place in it;
    ``launch`` the launch it describes; ``threads`` what the kernel was compiled for (32 times
    ``num_warps``), used without one; ``facts`` are analyses of PTX and SASS, if at hand.
    ``built_for`` is of the architecture that the cubin is of, where ``device`` is another.
    """
    static = resources.static_shared_bytes
    dynamic = resources.dynamic_shared_bytes
    blocks = None
    if launch is not None:
        threads = threads_of(launch) or threads
        blocks = blocks_of(launch)
        dynamic = dynamic if launch.shared_bytes is None else launch.shared_bytes
    built = built_for or device
    if static is not None and built is not None:
        static = built.own_shared(static)
    full = None
    if device is not None and static is not None and dynamic is not None:
        shared = static + dynamic
        barriers = resources.barriers
        full = occupancy(device, threads, resources.registers, shared, barriers=barriers)
    machine_facts = _machine_facts(listings, facts or {})
    contents = tuple(
        _content_of_stage(stage, *listings[stage], cost, machine_facts.get(stage))
        for stage in (Stage.TTGIR, Stage.PTX, Stage.SASS)
        if stage in listings
    )
    moved = accessed = computed = None
    if launch is not None:
        ttir = listings.get(Stage.TTIR)
        moved = tensor_bytes(launch, ttir)
        accessed = _accessed(launch, contents, machine_facts)
        computed = None if ttir is None else operations(*ttir, launch)
    base_card = Card(
        resources,
        device,
        threads,
        static,
        dynamic,
        full,
        launch,
        None,
        None,
        contents,
        moved,
        accessed,
        computed,
    )
    return with_grid(base_card, blocks)


def _machine_facts(
    listings: Mapping[Stage, Placed], facts: Mapping[Stage, FunctionFacts]
) -> dict[Stage, FunctionFacts]:
    """The analyses of PTX and SASS, those at hand and the rest."""
    machine_facts = {}
    for stage in MACHINE:
        if stage in listings:
            machine_facts[stage] = facts.get(stage) or FunctionFacts(*listings[stage])
    return machine_facts


def _accessed(
    launch: Call, contents: Sequence[StageContent], facts: Mapping[Stage, FunctionFacts]
) -> Estimate | None:
    """What a launch accesses by SASS, which is what runs, else by PTX."""
    content = next((content for content in reversed(contents) if content.mix is not None), None)
    if content is None:
        return None
    flow = facts[content.stage].flow
    return accessed_bytes(launch, content.accesses, flow, bool(content.branches))


GRID = "the grid, which does not fill one wave"
"""What limits occupancy where a launch has fewer blocks than the device holds at once."""


def with_grid(card: Card, blocks: int | None) -> Card:
    """A card with the number of blocks that are launched, and what follows from it."""
    full = card.occupancy
    waves = None
    if full is not None and full.blocks and blocks is not None and full.device.sms:
        waves = blocks / (full.blocks * full.device.sms)
        if waves < 1:
            full = replace(full, limiters=(GRID,))
    return replace(card, blocks=blocks, waves=waves, occupancy=full)


def _content_of_stage(
    stage: Stage,
    listing: Listing,
    function: Function,
    cost: Cost,
    facts: FunctionFacts | None,
) -> StageContent:
    if facts is None:
        return StageContent(stage, products=products(OpcodeLines(listing, function)))
    code = facts.code
    flow = facts.flow
    branches = sum(len(block.successors) > 1 for block in flow.blocks)
    branches += sum(count for opcode, count in code.guarded.items() if base_of(opcode) in _EXITS)
    return StageContent(
        stage,
        mix(code, lambda opcode: cost(listing.language, opcode)),
        accesses(code),
        products(code),
        branches,
        len(flow.loops),
        max((loop.depth for loop in flow.loops), default=0),
        declared(listing, function),
    )
