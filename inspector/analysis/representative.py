"""A kernel's representative: one of its variants, and the sizes that it writes."""

from collections.abc import Iterable, Sequence
from math import prod

from inspector.base.model import Argument, Variant


def representative(variants: Sequence[Variant]) -> Variant:
    """Return the variant that was launched most, else the tuner's choice, else the first."""
    launched = [v for v in variants if v.launches]
    best = [v for v in variants if is_chosen(v)]
    return max(launched, key=lambda v: v.launches or 0, default=(best or variants)[0])


def is_chosen(variant: Variant) -> bool:
    """Whether a tuner chose the variant."""
    return (variant.autotune or {}).get("winner") is True


def result(variant: Variant) -> tuple[tuple[int, ...], str] | None:
    """Sizes and dtype of the largest tensor that is written, else of the largest tensor.

    Of a product M, N and K, where both factors are arguments. None without a recorded call.
    """
    arguments = [a for call in variant.calls[:1] for a in call.arguments if a.shape is not None]
    written = [a for a in arguments if "out_ptr" in a.name]
    largest = max(written or arguments, key=lambda a: prod(a.shape or ()), default=None)
    if largest is None:
        return None
    return (*(largest.shape or ()), *_inner_size(largest, arguments)), largest.dtype or ""


def _inner_size(product: Argument, arguments: Iterable[Argument]) -> tuple[int, ...]:
    """K of the product of a template's ``arg_A`` and ``arg_B``; () where it is not known."""
    elements = {a.name: prod(a.shape or ()) for a in arguments}
    *batch, rows, columns = (1, 1, *(product.shape or ()))
    a_elements = elements.get("arg_A", 0)
    b_elements = elements.get("arg_B", 0)
    inner = a_elements // max(1, prod(batch) * rows)
    expected = prod(batch) * rows * inner, prod(batch) * columns * inner
    return (inner,) if inner and expected == (a_elements, b_elements) else ()
