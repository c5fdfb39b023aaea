"""Matrix products of PTX whose shape and types only an instruction descriptor tells."""

from collections.abc import Mapping, Sequence
from typing import Any

from inspector.analysis.accesses import Product
from inspector.analysis.sentences import descriptors
from inspector.analysis.sentences.context import of_header
from inspector.analysis.sentences.descriptors import DescribedProduct
from inspector.analysis.sentences.values import Statements, Values
from inspector.parsers.line import Function, Listing

DESCRIBED = "tcgen05.mma"


def described_products(
    products: Sequence[Product], listing: Listing, function: Function, tables: Mapping[str, Any]
) -> tuple[Product, ...]:
    """Products with the shapes of their descriptors, those of one shape together.

    ``tables`` are those of ptx_descriptors.toml. What is not constant stays as it is.
    """
    if not any(product.opcode == DESCRIBED for product in products):
        return tuple(products)
    values = Values(Statements(listing, function), of_header(listing, function))
    refined: list[Product] = []
    for product in products:
        if product.opcode != DESCRIBED:
            refined.append(product)
            continue
        lines_by_product: dict[DescribedProduct | None, list[int]] = {}
        for n in product.lines:
            lines_by_product.setdefault(_of_line(n, values, tables), []).append(n)
        for described, lines in lines_by_product.items():
            refined.append(_refined(product, described, tuple(lines)))
    return tuple(refined)


def _of_line(n: int, values: Values, tables: Mapping[str, Any]) -> DescribedProduct | None:
    for instruction in values.statements.instructions_on(n):
        place = descriptors.descriptor_place(instruction.parts)
        kind = descriptors.instruction_kind(instruction.parts)
        if kind and place < len(instruction.operands):
            form = values.operand(instruction.operands[place], n)
            if form is not None:
                return descriptors.described_product(form, kind, tables)
    return None


def _refined(
    product: Product, described: DescribedProduct | None, lines: tuple[int, ...]
) -> Product:
    if described is None:
        return Product(product.opcode, product.shape, product.types, len(lines), lines)
    shape = (described.m, described.n, described.k)
    types = (described.sums, described.a, described.b)
    return Product(product.opcode, shape, types, len(lines), lines)
