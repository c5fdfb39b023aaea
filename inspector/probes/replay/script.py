"""Reads the variants that a script declares, checks their results, and repeats their calls.

A script declares them in plain names, without any import of ptxview:

    VARIANTS = {"eager": torch.square, "a * a": lambda x: x * x}   # called with inputs()
    def inputs(N=781, M=1823, device="cuda"): return torch.randn(M, N, device=device)
    def reference(x): return x * x             # default: the first variant
    def bytes_of(x): return 2 * x.nbytes       # bytes that one call has to move
    def flops_of(x): return x.numel()          # operations that one call has to compute
    TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}   # as of torch.testing.assert_close

Only the first two are required.
"""

import inspect
import json
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from .inputs import NotRebuilt, first_line, imported

Function = Callable[..., Any]
WHY = 'ptxview time compares what the file declares: VARIANTS = {"name": function} and inputs()'
# torch.compile may use CUDA graphs only after some calls.
WARM_CALLS = 3
# Free blocks of the result's size that are filled with NaN, by bytes an element: a call may
# allocate several blocks, of another dtype than the reference's.
POISONED_BLOCKS = 3
ITEM_SIZES = (4, 2, 8, 1)
MAX_POISON_BYTES = 8 << 30


class Refused(NotRebuilt):
    """The script cannot be compared; the message says why."""


@contextmanager
def refused(path: str) -> Iterator[None]:
    """Raise errors of a script as ``Refused``, in one line with the script's line."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, SyntaxError):
            raise Refused(f"SyntaxError: {error.msg} (line {error.lineno})") from error
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f.lineno for f in frames if f.filename == str(Path(path).resolve())]
        raise Refused(first_line(error) + (f" (line {lines[-1]})" if lines else "")) from error


@cache
def load(path: str) -> Any:
    """Import a script, not as ``__main__``, and check what it declares. Raises ``Refused``.

    A file of a package is imported as a part of it, so that its own imports work.
    """
    file = Path(path).resolve()
    folder = file.parent
    names = [file.stem]
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    sys.path.insert(0, str(folder))
    sys.argv = [path]
    with refused(path):
        packaged = len(names) > 1
        module = import_module(".".join(names)) if packaged else imported(file.stem, str(file))
        variants = getattr(module, "VARIANTS", None)
        if not isinstance(variants, dict) or not variants:
            raise Refused(f"it has no VARIANTS; {WHY}")
        if not callable(getattr(module, "inputs", None)):
            raise Refused(f"it has no inputs(); {WHY}")
        for name, function in variants.items():
            if not callable(function):
                raise Refused(f"VARIANTS[{name!r}] is not a function")
    return module


def declared(module: Any) -> dict[str, Any]:
    """A script's variants and parameters; ``sizes``: integers of ``inputs`` with defaults."""
    parameters = inspect.signature(module.inputs).parameters
    sizes = {
        name: parameter.default
        for name, parameter in parameters.items()
        if isinstance(parameter.default, int | None) and not isinstance(parameter.default, bool)
    }
    return {"variants": [*map(str, module.VARIANTS)], "sizes": sizes, "parameters": [*parameters]}


def main(job_path: str, results_path: str) -> int:
    """Write what the job's script declares, or why it cannot be compared; 0."""
    job = json.loads(Path(job_path).read_text("utf-8"))
    try:
        result = declared(load(job["script"]))
    except Refused as error:
        result = {"refused": str(error)}
    Path(results_path).write_text(json.dumps(result) + "\n", "utf-8")
    return 0


def _kind(tensor: Any) -> str:
    """A tensor's device and shape, as a disagreement names them."""
    return f"{tensor.device} {tuple(tensor.shape)}"


def _count_nans(tensors: Iterable[Any]) -> int:
    return sum(int((tensor != tensor).sum()) for tensor in tensors)


class Comparison:
    """The input of one size with the reference's results, on which all variants are called."""

    def __init__(
        self, torch: Any, script: str, sizes: dict[str, int], device: str = "cuda"
    ) -> None:
        self._torch = torch
        self._script = script
        self.sizes = sizes
        with refused(script):
            self._module = module = load(script)
            if "torch._dynamo" in sys.modules:  # else a second size is compiled with dynamic shapes
                torch.compiler.reset()
            torch.manual_seed(0)  # every process has the same input
            accepted = inspect.signature(module.inputs).parameters
            inputs = module.inputs(**sizes, **({"device": device} if "device" in accepted else {}))
            self._inputs = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
            self._input_tensors = self._tensors(self._inputs)
            self._originals = [t.detach().clone() for t in self._input_tensors]
            reference = getattr(module, "reference", next(iter(module.VARIANTS.values())))
            # A result in a buffer of the function's own is overwritten by the next call.
            self._expected = [t.detach().clone() for t in self._tensors(reference(*self._inputs))]
            if self._restored():
                raise Refused("the reference changes its input")
            if not self._expected:
                raise Refused("the reference gives no tensor to compare with")

    def call(
        self, variant: dict[str, Any], say: Callable[..., None], compiled: Callable[[], Any]
    ) -> Callable[[], Any]:
        """Check a variant, write the verdict, and return its call. Raises ``Refused``.

        ``compiled`` is called after the first call.
        """
        with refused(self._script):
            self._restored()
            variants = {
                str(name): variant_function
                for name, variant_function in self._module.VARIANTS.items()
            }
            function = variants[variant["variant"]]
            described = [
                (str(t.dtype).removeprefix("torch."), [*t.shape]) for t in self._input_tensors
            ]
            counters = {
                name: getattr(self._module, f"{name}_of", None) for name in ("bytes", "flops")
            }
            amounts = {name: f and int(f(*self._inputs)) for name, f in counters.items()}
            say(n=variant["n"], about={"inputs": described, **amounts})
            say(n=variant["n"], checked=self._check(function, compiled))
        return lambda: function(*self._inputs)

    def _tensors(self, value: Any) -> list[Any]:
        """List the tensors in a call's arguments or result, through tuples, lists and dicts."""
        leaves = import_module("torch.utils._pytree").tree_leaves(value)
        return [leaf for leaf in leaves if isinstance(leaf, self._torch.Tensor)]

    def _restored(self) -> bool:
        """Whether the input had changed; it is restored."""
        with self._torch.no_grad():
            changed = [
                now.copy_(original)
                for now, original in zip(self._input_tensors, self._originals, strict=True)
                if not bool(((now == original) | ((now != now) & (original != original))).all())
            ]
        return bool(changed)

    def _check(self, function: Function, compiled: Callable[[], Any]) -> dict[str, Any]:
        """Call a variant until it is warm; whether each result agrees with the reference."""
        why = None
        difference = None
        for turn in range(WARM_CALLS):
            self._poison()
            result = self._tensors(function(*self._inputs))
            if not turn:
                compiled()
            why, difference = self._disagreement(result)
            if self._restored():
                why = "it changes its input, which the next variant reads"
            if why is not None:
                break
        return {"agrees": why is None, "difference": difference, "why": why}

    def _disagreement(self, result: list[Any]) -> tuple[str | None, float | None]:
        """Why a result disagrees, None if it does not, and the greatest absolute difference."""
        expected = self._expected
        why = None
        if len(result) != len(expected):
            return f"it gives {len(result)} tensors, the reference {len(expected)}", None
        for kind, expected_kind in zip(map(_kind, result), map(_kind, expected), strict=True):
            if kind != expected_kind:
                return f"it gives {kind}, the reference {expected_kind}", None
        tolerance = getattr(self._module, "TOLERANCE", {})
        try:
            limits = {name: tolerance.get(name) for name in ("rtol", "atol")}
            self._torch.testing.assert_close(
                result, expected, equal_nan=True, check_dtype=False, check_stride=False, **limits
            )
        except AssertionError as error:
            why = str(error).partition("\nGreatest")[0].rpartition("\n")[2]
            unexpected_nans = _count_nans(result) - _count_nans(expected)
            if unexpected_nans > 0:
                why += f"; {unexpected_nans:,} NaN: were they written?"
        apart = [(t.detach() - e).abs().double() for t, e in zip(result, expected, strict=True)]
        return why, max(float(t.nan_to_num(0.0, 0.0).max()) for t in apart)

    def _poison(self) -> None:
        """Fill free memory with NaN, so that what a variant does not write shows.

        Otherwise it may hold the right result of the variant before.
        """
        device = self._expected[0].device
        room = MAX_POISON_BYTES
        if device.type == "cuda":
            self._torch.cuda.empty_cache()  # little is free then, and that is filled first
        blocks: list[Any] = []
        with suppress(RuntimeError):  # no room for more: what was free is filled
            for size in [t.numel() * item for item in ITEM_SIZES for t in self._expected]:
                room -= POISONED_BLOCKS * size
                for _ in range(POISONED_BLOCKS if room >= 0 else 0):
                    block = self._torch.empty(size, dtype=self._torch.uint8, device=device)
                    blocks.append(block.fill_(0xFF))
