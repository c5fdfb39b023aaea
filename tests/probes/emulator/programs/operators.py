# mypy: ignore-errors
"""Every operator of torch's OpInfo on the emulated device against the CPU, bit for bit.

``operators.py DTYPE``: prints a line for each operator that differs or fails, then a JSON object of
how many samples came to what.
"""

import collections
import json
import signal
import sys
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db

MAX_SAMPLES = 40
SECONDS = 20
# Their values are uninitialized memory.
UNDEFINED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
}
# Copies on the device are no views of a larger storage, and indices belong on the CPU.
LEFT_OUT = {("as_strided", "partial_views"), ("tensor_split", "")}


class Slow(Exception):
    """A sample took longer than SECONDS."""


def too_slow(*_):
    raise Slow


def flat(value):
    if isinstance(value, list | tuple):
        for one in value:
            yield from flat(one)
    elif isinstance(value, dict):
        yield from flat(list(value.values()))
    else:
        yield value


def on_device(value):
    if isinstance(value, torch.Tensor):
        return value.detach().clone().cuda()
    return torch.device("cuda") if isinstance(value, torch.device) else value


def bits(tensor):
    tensor = tensor.detach().cpu()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    return tensor.reshape(-1).view(torch.uint8)


def difference(want, got):
    """The first difference of two results, or an empty text."""
    if not isinstance(want, torch.Tensor):
        return "" if type(want) is type(got) else f"{type(got).__name__}"
    for name in ("shape", "dtype", "layout"):
        if getattr(want, name) != getattr(got, name):
            return f"{name} {getattr(got, name)}, not {getattr(want, name)}"
    if torch.equal(bits(want), bits(got)):
        return ""
    a, b = (x.detach().cpu().resolve_conj().resolve_neg().to(torch.complex128) for x in (want, got))
    both_nan = torch.view_as_real(a).isnan() & torch.view_as_real(b).isnan()
    apart = torch.view_as_real(a - b)[~both_nan].abs()
    return "" if not apart.numel() or not apart.any() else f"values by {apart.max().item():.1e}"


def outcome(op, here, there):
    """What became of one sample."""
    seed = lambda: (torch.manual_seed(0), torch.cuda.manual_seed_all(0))  # noqa: E731
    try:
        seed()
        want = list(flat(op(here.input, *here.args, **here.kwargs)))
    except Slow:
        raise
    except Exception:
        return "fails on the CPU"
    try:
        seed()
        got = list(flat(op(there.input, *there.args, **there.kwargs)))
    except Slow:
        raise
    except Exception as error:
        said = str(error).split("\n")[0][:160]
        return f"{'refused' if 'ptxview' in said else 'ERROR'}: {said}"
    if op.name in UNDEFINED:
        return "undefined"
    said = [d for d in map(difference, want, got) if d] if len(want) == len(got) else ["count"]
    return f"DIFFERENT: {said[0]}" if said else "same"


def main(dtype):
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, too_slow)
    totals = collections.Counter()
    for op in op_db:
        if dtype not in op.dtypes or (op.name, op.variant_test_name) in LEFT_OUT:
            continue
        more = {"include_conjugated_inputs": True} if dtype.is_complex else {}
        try:
            torch.manual_seed(0)
            samples = list(op.sample_inputs("cpu", dtype, **more))[:MAX_SAMPLES]
        except Exception:
            totals["no samples"] += 1
            continue
        found = collections.Counter()
        for here in samples:
            signal.alarm(SECONDS)
            try:
                found[outcome(op, here, here.transform(on_device))] += 1
            except Slow:
                found["slow"] += 1
            finally:
                signal.alarm(0)
        for what, count in found.items():
            totals[what.partition(":")[0]] += count
            if what.startswith(("DIFFERENT", "ERROR")):
                print(op.name, op.variant_test_name, f"{count} of {len(samples)}", what, flush=True)
    print(json.dumps(totals))


if __name__ == "__main__":
    main(getattr(torch, sys.argv[1]))
