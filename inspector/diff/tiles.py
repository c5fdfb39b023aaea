"""What the tiles of a Triton matrix product come to: grid, k-steps, and work an output element."""

import re
from collections.abc import Callable, Iterable, Mapping
from math import prod

from msgspec import Struct

from inspector.analyse.accesses import instructions, products
from inspector.analyse.card import element_bytes
from inspector.analyse.function_facts import FunctionFacts
from inspector.base.model import Kernel, Stage, Variant
from inspector.listing.line import Listing

WARP = 32
NAMES = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
OPERATIONS = ("mm", "addmm", "bmm", "baddbmm")
TEMPLATES = ("triton_mm", "triton_bmm")
"""Inductor's templates that launch a block for each tile of the output."""
_OPERANDS = re.compile(r"(?:\A|, )(\d[\dx]*), (\d[\dx]*)\Z")
_WARP_GROUP = ("wgmma.mma_async", "HGMMA", "IGMMA", "QGMMA", "BGMMA")


class Tiles(Struct, frozen=True):
    """``outputs`` are the elements of a block's tile; grid, k-steps and loaded bytes of operands
    follow from the sizes that were tuned for. Instructions of a step are those of the loop over k,
    those of an element are all that threads run, both sides of branches included."""

    outputs: int
    blocks: int | None = None
    k_steps: int | None = None
    loaded_bytes_an_element: float | None = None
    ptx_instructions_a_step: float | None = None
    sass_instructions_an_element: float | None = None


Read = Callable[[Stage], tuple[Listing, FunctionFacts] | None]
PER_TILE = Tiles.__struct_fields__[2:]


def tiles_of(
    kernels: Iterable[Kernel], kernel: Kernel, variant: Variant, threads: int | None, read: Read
) -> Tiles | None:
    """The tiles of a variant by its configuration, None if it has none."""
    m, n, k = (variant.config.get(name) for name in NAMES)
    if not (isinstance(m, int) and isinstance(n, int) and isinstance(k, int) and min(m, n, k) > 0):
        return None
    blocks = steps = loaded = None
    sizes = set(_tuned_for(kernels, kernel, variant))
    if len(sizes) == 1 and variant.config.get("choice") in TEMPLATES:
        operands, dtypes = sizes.pop()
        match = _OPERANDS.search(operands)
        a, b = ([int(d) for d in text.split("x")] for text in match.groups()) if match else ((), ())
        bytes_ = [element_bytes(dtype) for dtype in dtypes.split(", ")[-2:]]
        if len(a) > 1 and len(b) > 1 and a[-1] == b[-2]:
            blocks, steps = prod(a[:-2]) * -(-a[-2] // m) * -(-b[-1] // n), -(-a[-1] // k)
            if len(bytes_) == 2 and bytes_[0] and bytes_[1]:
                loaded = steps * k * (m * bytes_[0] + n * bytes_[1]) / (m * n)
    (a_step, _), (_, run) = (
        _count(read(stage), threads / WARP, m * n * k, steps) if steps and threads else (None, None)
        for stage in (Stage.PTX, Stage.SASS)
    )
    an_element = None if run is None else run * (threads or 0) / (m * n)
    return Tiles(m * n, blocks, steps, loaded, a_step, an_element)


def _tuned_for(
    kernels: Iterable[Kernel], kernel: Kernel, variant: Variant
) -> Iterable[tuple[str, str]]:
    """Sizes and types of the operands in each round that a variant was in, or came of."""
    for tuning in (tuning for candidate in kernels for tuning in candidate.autotune):
        tried = any(configuration.variant == variant.id for configuration in tuning.configurations)
        if tried or any(use.kernel == kernel.id for use in tuning.uses):
            key = tuning.key if isinstance(tuning.key, Mapping) else {}
            is_known = tuning.operation in OPERATIONS
            yield str(key.get("sizes")) if is_known else "", str(key.get("dtypes"))


def _count(
    read: tuple[Listing, FunctionFacts] | None, warps: float, step: int, steps: int
) -> tuple[float | None, float | None]:
    """Instructions of a k-step and of all, where the products are whole k-steps in one loop or
    in none."""
    if read is None:
        return None, None
    listing, facts = read
    flow = facts.flow
    found_products = products(facts.code)
    loops = {flow.loop_at(line) for product in found_products for line in product.lines}
    work = sum(
        prod(product.shape or (0,))
        * product.count
        * warps
        / (4 if product.opcode in _WARP_GROUP else 1)
        for product in found_products
    )
    turn, remainder = divmod(work, step)
    if len(loops) != 1 or remainder or not turn or (None in loops and turn != steps):
        return None, None
    (loop,) = loops
    line_numbers = [line.n for line in instructions(listing, facts.function)]
    inside = 0 if loop is None else sum(loop.first <= n <= loop.last for n in line_numbers)
    return inside / turn or None, len(line_numbers) + inside * (steps / turn - 1)
