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

import importlib
import inspect
import json
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any

from .inputs import Memory, NotRebuilt, first_line, imported

Function = Callable[..., Any]
WHY = 'ptxview time compares what the file declares: VARIANTS = {"name": function} and inputs()'
# torch.compile may use CUDA graphs only after some calls.
WARM_CALLS = 3
# Free blocks of the result's size that are filled with NaN, by bytes an element: a call may
# allocate several blocks, of another dtype than the reference's.
POISONED_BLOCKS, ITEM_SIZES, MAX_POISON_BYTES = 3, (4, 2, 8, 1), 8 << 30


class Refused(NotRebuilt):
    """The script cannot be compared; the message says why."""


class Declared:
    """What a script declares; ``sizes``: the integer parameters of ``inputs`` with defaults."""

    def __init__(self, module: Any) -> None:
        variants = getattr(module, "VARIANTS", None)
        self._inputs: Any = getattr(module, "inputs", None)
        if not isinstance(variants, dict) or not variants:
            raise Refused(f"it has no VARIANTS; {WHY}")
        if not callable(self._inputs):
            raise Refused(f"it has no inputs(); {WHY}")
        for name, function in variants.items():
            if not callable(function):
                raise Refused(f"VARIANTS[{name!r}] is not a function")
        self.variants: dict[str, Function] = {str(n): f for n, f in variants.items()}
        self.reference: Function = getattr(module, "reference", next(iter(self.variants.values())))
        self.tolerance: dict[str, float] = getattr(module, "TOLERANCE", {})
        self._module = module
        self.parameters = dict(inspect.signature(self._inputs).parameters)
        self.sizes = {
            name: one.default
            for name, one in self.parameters.items()
            if isinstance(one.default, int | None) and not isinstance(one.default, bool)
        }

    def inputs(self, sizes: dict[str, int], device: str) -> tuple[Any, ...]:
        """Make the arguments of a call of these sizes."""
        where = {"device": device} if "device" in self.parameters else {}
        arguments = self._inputs(**sizes, **where)
        return tuple(arguments) if isinstance(arguments, tuple | list) else (arguments,)

    def amount(self, name: str, arguments: tuple[Any, ...]) -> int | None:
        """Return ``bytes_of`` or ``flops_of`` these arguments; None if it is not declared."""
        function = getattr(self._module, name, None)
        return None if function is None else int(function(*arguments))


def load(path: str) -> Declared:
    """Import a script, not as ``__main__``, and read what it declares. Raises ``Refused``.

    A file of a package is imported as a part of it, so that its own imports work.
    """
    file = Path(path).resolve()
    folder, names = file.parent, [file.stem]
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    sys.path.insert(0, str(folder))
    sys.argv = [path]
    try:
        if len(names) > 1:
            return Declared(importlib.import_module(".".join(names)))
        return Declared(imported(file.stem, str(file)))
    except Refused:
        raise
    except (Exception, SystemExit) as error:
        raise Refused(said(error, str(file))) from error


def said(error: BaseException, file: str) -> str:
    """An error in one line, with the line of ``file`` that it came from."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} (line {error.lineno})"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return first_line(error) + (f" (line {lines[-1]})" if lines else "")


def main(job_path: str, results_path: str) -> int:
    """Write what the job's script declares, or why it cannot be compared; 0."""
    job = json.loads(Path(job_path).read_text("utf-8"))
    result: dict[str, Any]
    try:
        declared = load(job["script"])
        result = {
            "variants": list(declared.variants),
            "sizes": declared.sizes,
            "parameters": list(declared.parameters),
        }
    except Refused as error:
        result = {"refused": str(error)}
    Path(results_path).write_text(json.dumps(result) + "\n", "utf-8")
    return 0


def tensors(value: Any) -> list[Any]:
    """List the tensors in a call's arguments or result, through tuples, lists and dicts."""
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for one in value for t in tensors(one)] if isinstance(value, tuple | list) else []


class Comparison:
    """The input of one size with the reference's result, on which all variants are called."""

    def __init__(self, torch: Any, declared: Declared, sizes: dict[str, int], device: str) -> None:
        self._torch, self._declared = torch, declared
        if "torch._dynamo" in sys.modules:  # else a second size is compiled with dynamic shapes
            torch.compiler.reset()
        torch.manual_seed(0)  # every process has the same input
        self.given = declared.inputs(sizes, device)
        self._own = tensors(self.given)
        self._before = [t.detach().clone() for t in self._own]
        # A result in a buffer of the function's own is overwritten by the next call.
        self._reference = [t.detach().clone() for t in tensors(declared.reference(*self.given))]
        if self.restored():
            raise Refused("the reference changes its input")
        if not self._reference:
            raise Refused("the reference gives no tensor to compare with")

    def restored(self) -> bool:
        """Whether the input had changed; it is restored."""
        with self._torch.no_grad():
            changed = [
                now.copy_(before)
                for now, before in zip(self._own, self._before, strict=True)
                if not bool(((now == before) | ((now != now) & (before != before))).all())
            ]
        return bool(changed)

    def about(self) -> dict[str, Any]:
        """The inputs in words, their dtypes, and the bytes and operations of a call."""
        dtypes = [str(t.dtype).removeprefix("torch.") for t in self._own]
        words = [
            f"{'' if n and dtypes[n - 1] == dtype else f'{dtype} '}"
            f"{'×'.join(map(str, t.shape)) or 'scalar'}"
            for n, (t, dtype) in enumerate(zip(self._own, dtypes, strict=True))
        ]
        amounts = {k: self._declared.amount(f"{k}_of", self.given) for k in ("bytes", "flops")}
        return {"inputs": ", ".join(words), "dtypes": list(dict.fromkeys(dtypes)), **amounts}

    def check(self, function: Function, compiled: Callable[[], Any]) -> dict[str, Any]:
        """Call a variant until it is warm; whether each result agrees with the reference.

        ``compiled`` is called after the first call.
        """
        difference: float | None = None
        for turn in range(WARM_CALLS):
            self._poison()
            result = tensors(function(*self.given))
            if not turn:
                compiled()
            why, difference = self._disagreement(result)
            if self.restored():
                why = "it changes its input, which the next variant reads"
            if why is not None:
                return {"agrees": False, "difference": difference, "why": why}
        return {"agrees": True, "difference": difference, "why": None}

    def _disagreement(self, result: list[Any]) -> tuple[str | None, float | None]:
        """Why a result disagrees, None if it does not, and the greatest absolute difference."""
        if len(result) != len(self._reference):
            return f"it gives {len(result)} tensors, the reference {len(self._reference)}", None
        largest, why = 0.0, None
        for actual, expected in zip(result, self._reference, strict=True):
            if actual.shape != expected.shape or actual.device != expected.device:
                one, other = (f"{t.device} {tuple(t.shape)}" for t in (actual, expected))
                return f"it gives {one}, the reference {other}", None
            try:
                self._torch.testing.assert_close(
                    actual,
                    expected,
                    equal_nan=True,
                    check_dtype=False,
                    check_stride=False,
                    rtol=self._declared.tolerance.get("rtol"),
                    atol=self._declared.tolerance.get("atol"),
                )
            except AssertionError as error:
                why = why or str(error).partition("\nGreatest")[0].rpartition("\n")[2]
                lost = int((actual != actual).sum()) - int((expected != expected).sum())
                why += f"; {lost:,} NaN: were they written?" if lost > 0 else ""
            apart = (actual.detach() - expected).abs().double().nan_to_num(0.0, 0.0)
            largest = max([largest, *apart.reshape(-1).max(0).values.reshape(1).tolist()])
        return why, largest

    def _poison(self) -> None:
        """Fill free memory with NaN, so that what a variant does not write shows.

        Otherwise it may hold the right result of the variant before.
        """
        first = self._reference[0]
        if first.is_cuda:
            self._torch.cuda.empty_cache()  # little is free then, and that is filled first
        sizes = [t.numel() * item for item in ITEM_SIZES for t in self._reference]
        totals = accumulate(POISONED_BLOCKS * size for size in sizes)
        blocks: list[Any] = []
        with suppress(RuntimeError):  # no room for more: what was free is filled
            for size, total in zip(sizes, totals, strict=True):
                for _ in range(POISONED_BLOCKS if total <= MAX_POISON_BYTES else 0):
                    block = self._torch.empty(size, dtype=self._torch.uint8, device=first.device)
                    blocks.append(block.fill_(0xFF))


class Comparisons:
    """The comparison of the size at hand: one input and reference for all variants of it."""

    def __init__(self, torch: Any, device: str = "cuda") -> None:
        self._torch, self._device = torch, device
        self._declared: Declared | None = None
        self._last: tuple[dict[str, int], Comparison] | None = None

    def call(
        self, variant: dict[str, Any], say: Callable[..., None], compiled: Callable[[], Any]
    ) -> tuple[Callable[[], Any], Memory]:
        """Check a variant, write the verdict, and return its call. Raises ``Refused``."""
        file = str(Path(variant["script"]).resolve())
        try:
            self._declared = self._declared or load(variant["script"])
            if self._last is None or self._last[0] != variant["sizes"]:
                self._last = None  # frees the memory of the size before
                made = Comparison(self._torch, self._declared, variant["sizes"], self._device)
                self._last = variant["sizes"], made
            comparison = self._last[1]
            comparison.restored()
            say(n=variant["n"], about=comparison.about())
            function = self._declared.variants[variant["variant"]]
            say(n=variant["n"], checked=comparison.check(function, compiled))
        except Refused:
            raise
        except (Exception, SystemExit) as error:
            raise Refused(said(error, file)) from error
        return (lambda: function(*comparison.given)), Memory(self._torch)
