"""How far rounding may move each element of a result: nodes computed again with their errors.

The nodes are computed in fp64, and the value of each is moved by an error of the size that a
kernel's arithmetic may make there: half a unit in the last place of fp32 (of fp64 where the graph
is), for sums the error that their length and the size of their terms allow in any order, and for
approximate functions the bound of their implementation. In each of eight runs the errors have other
signs, by the rows of a Hadamard matrix: since two rows agree in half of the runs, no two errors
cancel in all of them, and the largest move of a result is at least the root of the sum of the
squares of what each error alone would move it. Four times the largest move is what rounding is
taken to explain.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from .operators import Evaluator, Node, NotComputable, function_of

RUNS = 8
SIGNS = torch.tensor(
    [[(-1.0) ** (row & run).bit_count() for run in range(RUNS)] for row in range(RUNS)],
    dtype=torch.float64,
)
"""A Hadamard matrix: the signs of an error in each run."""
SAFETY = 4.0
"""Sixteen errors of one size move a result by at most four times the root of their squares."""
UNITS = {"float64": 2.0**-53, "complex128": 2.0**-53}
NARROW_UNITS = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float8_e4m3fn": 2.0**-4,
                "float8_e5m2": 2.0**-3}  # fmt: skip
UNIT = 2.0**-24
"""Half a unit in the last place, relative: kernels compute fp16 and bf16 in fp32."""


PRODUCTS = frozenset(("mm", "bmm", "addmm", "baddbmm", "convolution"))
"""Products of matrices, which tensor cores compute."""


def base_of(node: Node) -> str:
    """``aten.sum.dim_IntList`` as ``sum``, ``aten._foreach_div_.List`` as ``div``."""
    parts = str(node["target"]).split(".")
    name = parts[1] if len(parts) > 1 else parts[0]
    return name.removeprefix("_foreach_").removesuffix("_")


class Moved:
    """Changes the value of each node by its error, as an ``Evaluator`` asks.

    Args:
        table: ``operator_rounding`` of the reference tables.
        approximate: whether functions have the error of their implementation, and not that of a
            correctly rounded one.
        coarse: the relative error of functions and products of matrices that a kernel computes by
            coarser instructions, by operator.
        roundings: names of nodes that a kernel may round to their narrow dtype.
    """

    def __init__(
        self,
        run: int,
        table: Mapping[str, Any],
        approximate: bool,
        coarse: Mapping[str, float],
        roundings: Collection[str] = (),
    ) -> None:
        self.run = run
        self.errors = 0
        self.exact = frozenset(table["exact"]["operators"])
        self.functions: Mapping[str, float] = table["functions"]
        self.absolute: Mapping[str, float] = table["absolute"]
        self.approximate = approximate
        self.coarse = coarse
        self.roundings = frozenset(roundings)

    def __call__(
        self, node: Node, value: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        base = base_of(node)
        dtype = node.get("dtype") or ""
        is_rounded = node["name"] in self.roundings
        if base in self.exact and not is_rounded:
            return value
        unit = NARROW_UNITS[dtype] if is_rounded else UNITS.get(dtype, UNIT)
        if isinstance(value, tuple | list):
            sizes = _sum_errors(base, node, args, kwargs, value)
            return type(value)(
                self._moved(part, unit, size, base) for part, size in zip(value, sizes, strict=True)
            )
        if not _is_floating(value):
            return value
        return self._moved(value, unit, _sum_errors(base, node, args, kwargs, (value,))[0], base)

    def _moved(self, value: Any, unit: float, terms: Any, base: str) -> Any:
        if not _is_floating(value):
            return value
        relative = unit
        coarse = self.coarse.get(base, 0.0) if self.approximate else 0.0
        if self.approximate and base in self.functions:
            relative = max(unit * 2 * self.functions[base], coarse)
        error = value.abs() * relative
        if self.approximate:
            error = error + self.absolute.get(base, 0.0)
        if terms is not None:
            size, roundings = terms
            error = error + size * (unit * roundings + coarse)
        return value + error * self._signs(value.shape)

    def _signs(self, shape: Any) -> Any:
        """The sign of each element's error in this run: nodes after one another have other rows at
        the same place, and neighbours in a tensor other rows than each other."""
        self.errors += 1
        size = math.prod(shape)
        generator = torch.Generator().manual_seed(size)
        rows = torch.randint(RUNS, (size,), generator=generator) + self.errors
        return SIGNS[rows % RUNS, self.run].reshape(shape)


def _length(base: str, args: Sequence[Any], value: Any) -> int:
    """How many terms an element is the sum of."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    if base in ("mm", "bmm"):
        return int(args[0].shape[-1])
    if base in ("addmm", "baddbmm"):
        return int(args[1].shape[-1])
    if base == "convolution":
        return math.prod(args[1].shape[1:])
    if base in ("cumsum", "logcumsumexp", "cumprod"):
        return int(args[0].shape[args[1]]) if args[0].dim() else 1
    return max(1, tensors[0].numel() // max(1, value.numel())) if tensors else 1


def growth(base: str, length: int) -> float:
    """Roundings that a sum of so many terms may pile up, in the order of a kernel: a tree over
    threads, of a row of terms in each, whose errors have no common sign. A tensor core adds some
    terms at once and cuts the sum off, always towards zero: one error for sixteen terms or more."""
    roundings = math.log2(max(2, length)) + 2 * math.sqrt(length)
    return roundings + length / 16 if base in PRODUCTS else roundings


def _magnitudes(values: Sequence[Any]) -> list[Any]:
    return [value.abs() if _is_floating(value) else value for value in values]


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _sum_errors(
    base: str, node: Node, args: Sequence[Any], kwargs: Mapping[str, Any], values: Sequence[Any]
) -> list[Any]:
    """For each value of a node the size of its terms and ``growth``; None of what is no sum."""
    rule = SUMS.get(base)
    if rule is None:
        return [None] * len(values)
    return [
        None if size is None else (size, growth(base, _length(base, args, value)))
        for size, value in zip(rule(node, args, kwargs, values), values, strict=True)
    ]


SumRule = Callable[[Node, Sequence[Any], Mapping[str, Any], Sequence[Any]], Sequence[Any]]


def _of_magnitudes(
    node: Node, args: Sequence[Any], kwargs: Mapping[str, Any], values: Sequence[Any]
) -> Sequence[Any]:
    """The same operator of the terms' magnitudes; None where terms replace others."""
    replaces = "index_put" in str(node["target"]) and (len(args) < 4 or not args[3])
    if replaces:
        return (None,)
    return (function_of(str(node["target"]))(*_magnitudes(args), **kwargs),)


def _of_variance(
    node: Node, args: Sequence[Any], kwargs: Mapping[str, Any], values: Sequence[Any]
) -> Sequence[Any]:
    """Of a variance: that of a sum of squares of differences, each of rounded terms."""
    x = args[0]
    rest = list(args[1:])
    largest = x.abs().amax() if x.numel() else x.new_zeros(())
    variance = function_of(str(node["target"]))(x, *rest, **kwargs)
    spread = variance[0] if isinstance(variance, tuple | list) else variance
    size = spread + spread.abs().sqrt() * largest
    if len(values) == 1:
        return (size,)
    return (size, values[1].abs() + largest / 4)


def _relative(
    node: Node, args: Sequence[Any], kwargs: Mapping[str, Any], values: Sequence[Any]
) -> Sequence[Any]:
    return [value.abs() if _is_floating(value) else None for value in values]


SUMS: Mapping[str, SumRule] = {
    **dict.fromkeys(
        ("sum", "mean", "mm", "bmm", "addmm", "baddbmm", "convolution", "cumsum", "scatter_add",
         "index_put", "_unsafe_index_put", "index_add", "scatter_reduce", "avg_pool2d",
         "embedding_dense_backward", "upsample_bilinear2d", "dot", "mv"),
        _of_magnitudes,
    ),
    **dict.fromkeys(("var", "var_mean", "std"), _of_variance),
    **dict.fromkeys(
        ("prod", "cumprod", "logcumsumexp", "prepare_softmax_online", "_softmax", "_log_softmax"),
        _relative,
    ),
}  # fmt: skip
"""Operators that add terms up, and the size of what they add."""


def moves(
    nodes: Sequence[Node],
    values: Mapping[str, Any],
    wanted: Mapping[str, Any],
    change: Callable[[int], Moved],
) -> dict[str, tuple[Any, Any, Any]]:
    """For each wanted node the largest move over the runs, and the lowest and highest value.

    ``wanted`` are the values in fp64 without errors. Raises NotComputable.
    """
    largest = {name: torch.zeros_like(v, dtype=torch.float64) for name, v in wanted.items()}
    low = {name: v.clone() for name, v in wanted.items()}
    high = {name: v.clone() for name, v in wanted.items()}
    for run in range(RUNS):
        computed = Evaluator(nodes, values, True, change(run)).values
        for name, exact in wanted.items():
            value = computed[name]
            if value.shape != exact.shape:
                raise NotComputable(f"{name} has a shape that depends on values")
            if exact.is_floating_point():
                move = (value - exact).abs()
                same = (value == exact) | (value.isnan() & exact.isnan())
                move = torch.where(same, torch.zeros_like(move), move)
                largest[name] = torch.maximum(largest[name], move.nan_to_num(math.inf, math.inf))
            low[name] = torch.minimum(low[name], value)
            high[name] = torch.maximum(high[name], value)
    return {name: (largest[name] * SAFETY, low[name], high[name]) for name in wanted}
