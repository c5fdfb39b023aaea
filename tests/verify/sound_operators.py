"""A program that compiles torch's own samples of operators, for ``count_sound``.

    ptxview verify tests/verify/sound_operators.py START STOP float32|bfloat16|float16

START and STOP select operators of ``op_db``; of each the first two samples whose input is a tensor
are compiled and called, by an operator of its own graph. What torch cannot compile is left out and
named on stderr.
"""

import sys
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

SAMPLES = 2
"""Samples of an operator that are compiled."""


def samples(operator: Any, dtype: torch.dtype) -> Iterator[Any]:
    """Samples of an operator whose input is a tensor of more than one element."""
    for sample in operator.sample_inputs("cpu", dtype, requires_grad=False):
        if isinstance(sample.input, torch.Tensor) and sample.input.numel() > 1:
            yield sample


def on_device(value: Any) -> Any:
    return value.cuda() if isinstance(value, torch.Tensor) else value


def compile_and_call(operator: Any, sample: Any) -> None:
    """Compile an operator with the arguments of a sample, and call it."""
    torch._dynamo.reset()

    def call(first: Any, args: Any, kwargs: Any) -> Any:
        return operator.op(first, *args, **kwargs)

    torch.compile(call)(
        *(tree_map(on_device, v) for v in (sample.input, sample.args, sample.kwargs))
    )


def main(start: int, stop: int, dtype: torch.dtype) -> None:
    """Compile the samples of a slice of the operators."""
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    for operator in op_db[start:stop]:
        if dtype not in operator.dtypes:
            continue
        try:
            for sample in islice(samples(operator, dtype), SAMPLES):
                compile_and_call(operator, sample)
        except Exception as error:  # of any operator: the others are compiled all the same
            text = next(iter(str(error).splitlines()), "")
            print(f"{operator.name}: {type(error).__name__}: {text[:120]}", file=sys.stderr)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), getattr(torch, sys.argv[3]))
