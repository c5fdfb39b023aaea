"""What the tiles of a Triton matrix product come to: grid, k-steps, and work an output element."""

import re
from collections.abc import Callable, Iterable, Mapping
from math import prod

from msgspec import Struct

from inspector.analysis.accesses import Product, instructions, products
from inspector.analysis.card import element_bytes
from inspector.analysis.function_facts import FunctionFacts
from inspector.base.model import Kernel, Stage, Variant
from inspector.parsers.line import Listing

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
    m = variant.config.get(NAMES[0])
    n = variant.config.get(NAMES[1])
    k = variant.config.get(NAMES[2])
    if not isinstance(m, int) or not isinstance(n, int) or not isinstance(k, int):
        return None
    if min(m, n, k) <= 0:
        return None
    product = None
    if variant.config.get("choice") in TEMPLATES:
        product = _tuned_product(kernels, kernel, variant)
    if product is None:
        return Tiles(m * n)
    blocks = product.batch * -(-product.m // m) * -(-product.n // n)
    steps = -(-product.k // k)
    loaded = None
    if product.a_bytes and product.b_bytes:
        loaded = steps * k * (m * product.a_bytes + n * product.b_bytes) / (m * n)
    ptx_a_step = sass_an_element = None
    if steps and threads:
        warps = threads / WARP
        ptx_a_step, _ = _count(read(Stage.PTX), warps, m * n * k, steps)
        _, sass = _count(read(Stage.SASS), warps, m * n * k, steps)
        if sass is not None:
            sass_an_element = sass * threads / (m * n)
    return Tiles(m * n, blocks, steps, loaded, ptx_a_step, sass_an_element)


class TunedProduct(Struct, frozen=True):
    """Sizes of a matrix product, and bytes of an element of its operands, None if unknown."""

    batch: int
    m: int
    n: int
    k: int
    a_bytes: int | None
    b_bytes: int | None


def _tuned_product(
    kernels: Iterable[Kernel], kernel: Kernel, variant: Variant
) -> TunedProduct | None:
    """The product that a variant was tuned for, None if there are several or it is not known."""
    tuned = set(_tuned_for(kernels, kernel, variant))
    if len(tuned) != 1:
        return None
    operands, dtypes = tuned.pop()
    match = _OPERANDS.search(operands)
    if match is None:
        return None
    a_shape = [int(size) for size in match[1].split("x")]
    b_shape = [int(size) for size in match[2].split("x")]
    if len(a_shape) < 2 or len(b_shape) < 2 or a_shape[-1] != b_shape[-2]:
        return None
    element_sizes = [element_bytes(dtype) for dtype in dtypes.split(", ")[-2:]]
    a_bytes, b_bytes = element_sizes if len(element_sizes) == 2 else (None, None)
    batch = prod(a_shape[:-2])
    return TunedProduct(batch, a_shape[-2], b_shape[-1], a_shape[-1], a_bytes, b_bytes)


def _tuned_for(
    kernels: Iterable[Kernel], kernel: Kernel, variant: Variant
) -> Iterable[tuple[str, str]]:
    """Sizes and types of the operands in each round that a variant was in, or came of."""
    for candidate in kernels:
        for tuning in candidate.autotune:
            tried = any(tried.variant == variant.id for tried in tuning.configurations)
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
    tensor_products = products(facts.code)
    loops = {flow.loop_at(line) for product in tensor_products for line in product.lines}
    work = sum(_multiplications(product, warps) for product in tensor_products)
    turn, remainder = divmod(work, step)
    if len(loops) != 1 or remainder or not turn or (None in loops and turn != steps):
        return None, None
    (loop,) = loops
    line_numbers = [line.n for line in instructions(listing, facts.function)]
    inside = 0 if loop is None else sum(loop.first <= n <= loop.last for n in line_numbers)
    return inside / turn or None, len(line_numbers) + inside * (steps / turn - 1)


def _multiplications(product: Product, warps: float) -> float:
    """Multiplications of a block's instructions; a warp group of four executes one together."""
    together = 4 if product.opcode in _WARP_GROUP else 1
    return prod(product.shape or (0,)) * product.count * warps / together
