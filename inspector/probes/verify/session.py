"""Compares what kernels wrote with their operators, computed again on the same inputs.

    main(JOB, RESULTS)

JOB is a JSON file: ``rounding``, the table of operators' errors, and ``tasks``. A task has the
``nodes`` that its kernel computes, ``inputs`` (tensors by the names of nodes), ``sizes`` (integers
by the names of nodes), ``outputs`` (pairs of a node and what the kernel wrote for it) and
``coarse`` (relative errors of coarser instructions, by operator) and ``roundings`` (nodes that the
kernel may round to their narrow dtype); ``combined`` are, of nodes of
which parts were written, the nodes that compute them from these. A tensor is a file of its
elements in the order of their indices, with dtype, shape and strides.

RESULTS grows by one JSON object a line, flushed: for each task ``{"begin": n}``, and then
``{"n", "outputs": [figures…]}``, or ``{"n", "why"}`` where its operators cannot be computed.
"""

import json
import math
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from .operators import Evaluator, NotComputable
from .rounding import Moved, moves

MAX_INPUTS = 12
"""Inputs of which a value is given beside an element that differs."""


def main(job_file: str, results_file: str) -> None:
    """Do the tasks of a job, one after the other."""
    with open(job_file, encoding="utf-8") as file:
        job = json.load(file)
    with open(results_file, "a", encoding="utf-8") as results:
        for number, task in enumerate(job["tasks"]):
            print(json.dumps({"begin": number}), file=results, flush=True)
            try:
                with torch.no_grad():
                    record: dict[str, Any] = {"outputs": compared(task, job["rounding"])}
            except NotComputable as error:
                record = {"why": str(error)[:400]}
            except Exception as error:
                record = {"why": f"{type(error).__name__}: {error}"[:400]}
            print(json.dumps({"n": number, **record}), file=results, flush=True)


def read_tensor(described: Mapping[str, Any]) -> Any:
    """A tensor of a job, with the strides that it had where they can be had again.

    Raises NotComputable for a file of another size.
    """
    dtype = getattr(torch, described["dtype"])
    shape = described["shape"]
    with open(described["file"], "rb") as file:
        raw = bytearray(file.read())
    if len(raw) != math.prod(shape) * torch.empty((), dtype=dtype).element_size():
        raise NotComputable(f"its kept {described['label']} is damaged")
    if not raw:
        return torch.empty(shape, dtype=dtype)
    plain = torch.frombuffer(raw, dtype=torch.uint8).view(dtype).reshape(shape)
    strides = described.get("strides")
    if strides is None or list(plain.stride()) == strides or 0 in strides:
        return plain
    try:
        return torch.empty_strided(shape, strides, dtype=dtype).copy_(plain)
    except RuntimeError:  # elements that share memory
        return plain


def compared(task: Mapping[str, Any], table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Figures of each output of a kernel. Raises NotComputable."""
    nodes = task["nodes"]
    inputs = {name: read_tensor(tensor) for name, tensor in task["inputs"].items()}
    values = {**inputs, **task["sizes"]}
    if task["unread"]:
        values |= _unread(task, values)
    written = {node: read_tensor(tensor) for node, tensor in task["outputs"]}
    for name, combining in task["combined"].items():
        parts = {combining[0]["args"][0]["node"]: written[name]}
        written[name] = Evaluator(combining, parts, False).values[name]
    eager = Evaluator(nodes, values, False).values
    for name, tensor in written.items():
        if not isinstance(eager.get(name), torch.Tensor):
            raise NotComputable(f"{name} is not computed by the recorded operators")
        if eager[name].numel() != tensor.numel():
            shapes = f"{list(eager[name].shape)}, and the kernel's {list(tensor.shape)}"
            raise NotComputable(f"{name} has the shape {shapes}")
    written = {name: tensor.reshape(eager[name].shape) for name, tensor in written.items()}
    choices = {name: tensor for name, tensor in written.items() if _is_discrete(tensor)}
    figures = _figures(task, table, values, eager, choices)
    made = {name: tensor for name, tensor in choices.items() if not figures[name]["outside"]}
    if made:  # the rest follows from what the kernel chose
        values = {**values, **made}
        eager = Evaluator(nodes, values, False).values
    others = {name: tensor for name, tensor in written.items() if name not in choices}
    figures |= _figures(task, table, values, eager, others)
    for name in written:
        first = figures[name]["first"]
        if first is not None:
            first["inputs"] = _values_at(inputs, first["index"], eager[name].shape)
    return [figures[name] for name in written]


def _is_discrete(tensor: Any) -> bool:
    """Whether a small error may change a value by a large step, as a cast to eight bits does."""
    return tensor.element_size() == 1 or not (tensor.is_floating_point() or tensor.is_complex())


def _figures(
    task: Mapping[str, Any],
    table: Mapping[str, Any],
    values: Mapping[str, Any],
    eager: Mapping[str, Any],
    written: Mapping[str, Any],
) -> dict[str, dict[str, Any]]:
    """Figures of outputs by their nodes."""
    differing = [name for name, tensor in written.items() if not same_bits(tensor, eager[name])]
    figures = {name: _equal(name, eager[name]) for name in written if name not in differing}
    if differing:
        wide = Evaluator(task["nodes"], values, True).values
        exact = {name: wide[name] for name in differing}
        figures |= _figures_of_differing(task, table, values, exact, eager, written)
    return figures


def _unread(task: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of inputs that the kernel does not read. Raises NotComputable if they matter."""
    fills = []
    results = []
    for fill in (0, 1):
        filled = {
            name: torch.full(shape, fill, dtype=getattr(torch, dtype))
            for name, (dtype, shape) in task["unread"].items()
        }
        computed = Evaluator(task["nodes"], {**values, **filled}, False).values
        fills.append(filled)
        results.append([computed[node] for node, _ in task["outputs"]])
    for one, other in zip(*results, strict=True):
        if not (isinstance(one, torch.Tensor) and same_bits(one, other)):
            raise NotComputable(f"its operators use {', '.join(fills[0])}, which it does not read")
    return fills[0]


def _figures_of_differing(
    task: Mapping[str, Any],
    table: Mapping[str, Any],
    values: Mapping[str, Any],
    exact: Mapping[str, Any],
    eager: Mapping[str, Any],
    written: Mapping[str, Any],
) -> dict[str, dict[str, Any]]:
    """By rounding alone first, then with functions and products as exact as they are made, and then
    with roundings to narrow dtypes between operators."""
    out: dict[str, dict[str, Any]] = {}
    remaining = dict(exact)
    passes = [(False, ()), (True, ()), (True, task["roundings"])]
    for approximate, roundings in passes if task["roundings"] else passes[:2]:
        change = partial(
            Moved,
            table=table,
            approximate=approximate,
            coarse=task["coarse"],
            roundings=roundings,
        )
        found = moves(task["nodes"], values, remaining, change)
        for name in list(remaining):
            result = Difference(written[name], eager[name], exact[name], found[name])
            figures = result.figures(name)
            out[name] = {**figures, "by_rounding": not approximate, "narrowed": bool(roundings)}
            if figures["outside"] == 0:
                del remaining[name]
        if not remaining:
            break
    return out


def same_bits(one: Any, other: Any) -> bool:
    """Whether two tensors hold the same bits, any NaN being like another."""
    if one.dtype != other.dtype:
        return False
    if one.dtype.is_floating_point or one.dtype.is_complex:
        both_nan = one.isnan() & other.isnan() if hasattr(one, "isnan") else None
        equal = _bits(one.contiguous()) == _bits(other.contiguous())
        if both_nan is not None and equal.shape == both_nan.shape:
            equal = equal | both_nan
        return bool(equal.all())
    return bool(torch.equal(one, other))


def _bits(tensor: Any) -> Any:
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.view(width[tensor.element_size()]) if tensor.element_size() in width else tensor


def _equal(name: str, value: Any) -> dict[str, Any]:
    return {"node": name, "elements": value.numel(), "equal": True, "outside": 0, "first": None,
            "max_error": None, "eager_max_error": None}  # fmt: skip


class Difference:
    """A kernel's output beside its operators' values: in the graph's dtypes, and in fp64.

    Args:
        written: what the kernel wrote.
        eager: the operators' value in the graph's dtypes.
        exact: their value in fp64.
        moves: by how much errors may move it, its lowest and its highest value.
    """

    def __init__(self, written: Any, eager: Any, exact: Any, moves: tuple[Any, Any, Any]) -> None:
        self.written = written
        self.eager = eager
        self.exact = exact
        self.move, self.low, self.high = moves

    def figures(self, name: str) -> dict[str, Any]:
        """How many elements differ and by how much, and the first that nothing explains."""
        written = self.written
        floating = written.dtype.is_floating_point
        same = (written == self.eager) | (_nan(written) & _nan(self.eager))
        if not floating:
            same |= written == self.exact
        outside = ~same & ~(self._within() if floating else self._between())
        scale = None
        if floating:
            finite = self.exact[self.exact.isfinite()]
            scale = float(finite.abs().max()) if finite.numel() else 0.0
        count = int(outside.sum())
        return {
            "node": name,
            "elements": written.numel(),
            "equal": False,
            "outside": count,
            "max_error": _error(written, self.exact, scale),
            "eager_max_error": _error(self.eager, self.exact, scale),
            "largest_move": None if scale is None else _largest(self.move, scale),
            "first": self._first(outside) if count else None,
        }

    def _within(self) -> Any:
        """Elements within the moves, and one rounding to the output's dtype, of either value."""
        value = self.written.to(torch.float64)
        dtype = self.written.dtype
        info = torch.finfo(dtype)
        near = torch.zeros_like(value, dtype=torch.bool)
        smallest = max(info.tiny * info.eps / 2, 2.0**-126 if dtype is not torch.float64 else 0.0)
        for reference in (self.exact, self.eager.to(torch.float64)):
            _, exponent = torch.frexp(reference)
            half_unit = torch.ldexp(torch.full_like(reference, info.eps / 2), exponent - 1)
            half_unit = torch.where(reference.isfinite(), half_unit, torch.zeros_like(half_unit))
            allowed = self.move + half_unit * (1 + 1e-6) + smallest
            near |= (value - reference).abs() <= allowed
            # What overflows in the output's dtype is infinite there.
            near |= value.isinf() & (reference.abs() + self.move >= info.max)
        return near | self.move.isinf()

    def _between(self) -> Any:
        """Integers and truth values that a move of what they are made of changes, too."""
        if self.written.dtype is torch.bool:
            return self.low != self.high
        value = self.written
        return (self.low != self.high) & (value >= self.low) & (value <= self.high)

    def _first(self, outside: Any) -> dict[str, Any]:
        index = [int(n) for n in torch.nonzero(outside)[0]] if outside.dim() else []
        place = tuple(index)
        return {
            "index": index,
            "value": _number(self.written[place]),
            "reference": _number(self.exact[place]),
            "eager": _number(self.eager[place]),
            "allowed": None
            if not self.written.dtype.is_floating_point
            else _number(self.move[place]),
        }


def _nan(tensor: Any) -> Any:
    if tensor.dtype.is_floating_point:
        return tensor.to(torch.float32 if tensor.element_size() < 4 else tensor.dtype).isnan()
    return torch.zeros_like(tensor, dtype=torch.bool)


def _error(value: Any, exact: Any, scale: float | None) -> float | None:
    """The largest error of a finite value, as a share of the largest magnitude of the reference."""
    if scale is None:
        return None
    errors = (value.to(torch.float64) - exact).abs()
    errors = errors[errors.isfinite()]
    largest = float(errors.max()) if errors.numel() else 0.0
    return largest / scale if scale else largest


def _largest(move: Any, scale: float) -> float | None:
    finite = move[move.isfinite()]
    largest = float(finite.max()) if finite.numel() else 0.0
    return largest / scale if scale else largest


def _number(value: Any) -> Any:
    """A tensor of one element as JSON holds it: NaN and infinities as words."""
    number = value.item()
    if isinstance(number, complex):
        return str(number)
    if isinstance(number, float) and not math.isfinite(number):
        return str(number)
    return number


def _values_at(inputs: Mapping[str, Any], index: list[int], shape: Any) -> dict[str, Any]:
    """The values of inputs at an element of the output, of those that expand to its shape."""
    out: dict[str, Any] = {}
    for name, tensor in inputs.items():
        if len(out) < MAX_INPUTS:
            try:
                out[name] = _number(tensor.expand(shape)[tuple(index)])
            except (RuntimeError, ValueError):
                continue
    return out


if __name__ == "__main__":
    main(*sys.argv[1:])
