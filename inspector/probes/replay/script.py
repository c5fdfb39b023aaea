"""Takes the times of the variants that a script declares, on the same input; a program of its own.

    main(JOB, RESULTS)

JOB is a JSON file: the script, the sizes of its input, how to take the time, and which rows are
done already. RESULTS grows by one JSON object a line, flushed: ``{"device": …}``, ``{"declared":
{"variants", "sizes", "n_sizes"}}`` or ``{"refused": …}``, ``{"copy": …}``, and for each variant at
each size, numbered through as ``n``, ``{"begin": n}``, ``{"n", "checked": {"agrees", "difference",
"why"}}``, a ``{"n", "stopwatch", "cache", "samples", "span", "kernels", "cpu", "clocks"}`` for each
stopwatch or ``{"n", "stopwatch", "error"}``, and ``{"end": n}``. What breaks the device's context
or takes too long ends the process before that; whoever started it goes on with the next row.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import importlib.util
import inspect
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .calls import on_cpu
from .session import BROKEN, NO_DEVICE, NO_TORCH, Session, copy
from .stopwatches import STOPWATCHES, caches, calls
from .trace import Unavailable

# -- whether a result agrees ----------------------------------------------------------------------
# Whether a variant's result agrees with the reference, and whether it really wrote it.
#
# Memory that is handed out again still holds what was there before: the result of the variant
# before it, which is right. So the free memory is filled with NaN before each call that is
# checked; what a variant does not write shows.

# Blocks of a result's size that are filled: a call may allocate more than one of that size, and of
# another dtype than the reference's.
BLOCKS = 3
ITEM_SIZES = (4, 2, 8, 1)
# At most so much of the device's memory, which other blocks may need.
MOST_POISON = 8 << 30


def tensors(value: Any) -> list[Any]:
    """The tensors in a call's arguments or result, in order, through tuples, lists and dicts."""
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [t for element in value for t in tensors(element)]
    return []


def poison(torch: Any, like: list[Any]) -> None:
    """Fill free memory, of the sizes that ``like`` has, with bytes that are NaN in every format."""
    if like[0].is_cuda:
        torch.cuda.empty_cache()  # little is free then, and that is filled first
    blocks: list[Any] = []
    filled = 0
    for size in (tensor.numel() * item for item in ITEM_SIZES for tensor in like):
        for _ in range(BLOCKS):
            filled += size
            if filled > MOST_POISON:
                return
            try:
                block = torch.empty(size, dtype=torch.uint8, device=like[0].device)
            except RuntimeError:  # no room for more: what was free is filled
                return
            blocks.append(block.fill_(0xFF))


class Kept:
    """The inputs as they were, to see whether a variant changed them, and to give them back."""

    def __init__(self, torch: Any, arguments: tuple[Any, ...]) -> None:
        self._torch = torch
        self._own = tensors(arguments)
        self._copies = [t.detach().clone() for t in self._own]

    def changed(self) -> bool:
        """Whether a variant changed an input; if so, the input is restored."""
        any_changed = False
        for current, original in zip(self._own, self._copies, strict=True):
            if not self._same(current, original):
                any_changed = True
                with self._torch.no_grad():
                    current.copy_(original)
        return any_changed

    def _same(self, current: Any, original: Any) -> bool:
        if current.shape != original.shape:
            return False
        a, b = (t.detach().reshape(-1).view(self._torch.uint8) for t in (current, original))
        return bool(self._torch.equal(a, b))  # byte for byte: NaN is not itself


def compared(
    torch: Any, result: Any, reference: Any, tolerance: dict[str, float]
) -> tuple[bool, float | None, str | None]:
    """Whether a result agrees, the greatest absolute difference, and in words why it does not.

    Tolerances are those of ``torch.testing.assert_close`` for the result's dtype where none are
    given; a reference of higher precision is welcome.
    """
    ours, theirs = tensors(result), tensors(reference)
    if len(ours) != len(theirs):
        return False, None, f"it gives {len(ours)} tensors, the reference {len(theirs)}"
    largest: float | None = None
    why: str | None = None
    for actual, expected in zip(ours, theirs, strict=True):
        if actual.shape != expected.shape:
            return False, None, f"its shape is {shape(actual)}, the reference's {shape(expected)}"
        if actual.device != expected.device:
            return False, None, f"it is on {actual.device}, the reference on {expected.device}"
        tolerances = {**standard(torch, actual.dtype), **tolerance}
        a, b = (_wide(torch, t, actual, expected) for t in (actual, expected))
        difference = (a - b).abs()
        close = (
            (difference <= tolerances["atol"] + tolerances["rtol"] * b.abs())
            | (a == b)
            | (a.isnan() & b.isnan())
        )
        differences = difference[~(a.isnan() | b.isnan() | (a == b))]
        largest_here = float(differences.max()) if differences.numel() else 0.0
        largest = largest_here if largest is None else max(largest, largest_here)
        bad = int((~close).sum())
        if bad and why is None:
            nan = int((a.isnan() & ~b.isnan()).sum())
            mismatch = f"{bad:,} of {a.numel():,} values differ"
            why = f"{mismatch}, {nan:,} of them NaN: were they written?" if nan else mismatch
    return why is None, largest, why


def _wide(torch: Any, tensor: Any, *pair: Any) -> Any:
    """A tensor in a type that holds both sides' values; of complex numbers, their parts."""
    if any(t.is_complex() for t in pair):
        return torch.view_as_real(tensor.detach().to(torch.complex128))
    narrow = all(t.dtype.is_floating_point and t.element_size() <= 4 for t in pair)
    return tensor.detach().to(torch.float32 if narrow else torch.float64)


def shape(tensor: Any) -> str:
    """``1823×781``."""
    return "×".join(map(str, tensor.shape)) or "scalar"


def standard(torch: Any, dtype: Any) -> dict[str, float]:
    """``torch.testing.assert_close``'s own tolerances for a dtype."""
    tolerances = {
        torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5), torch.float32: (1.3e-6, 1e-5),
        torch.float64: (1e-7, 1e-7), torch.complex64: (1.3e-6, 1e-5),
        torch.complex128: (1e-7, 1e-7),
    }  # fmt: skip
    if dtype in tolerances:
        rtol, atol = tolerances[dtype]
        return {"rtol": rtol, "atol": atol}
    if dtype.is_floating_point:  # fp8: one part in 8 or in 4
        return {"rtol": 0.125, "atol": 1e-3}
    return {"rtol": 0.0, "atol": 0.0}


def described(arguments: tuple[Any, ...]) -> tuple[str, list[str]]:
    """The tensors among a call's arguments in words, and their dtypes: ``float32 1823×781``."""
    words: list[str] = []
    dtypes: list[str] = []
    for tensor in tensors(arguments):
        name = str(tensor.dtype).removeprefix("torch.")
        words.append(shape(tensor) if dtypes and dtypes[-1] == name else f"{name} {shape(tensor)}")
        dtypes.append(name)
    return ", ".join(words), list(dict.fromkeys(dtypes))


# -- what a script declares -----------------------------------------------------------------------
# Reads what a script declares to be compared: variants of one computation, and their input.
#
# A script declares it in plain names, without any import of ours:
#
#     VARIANTS = {"eager": torch.square, "a * a": lambda x: x * x}   # called with inputs()
#     def inputs(N=781, M=1823, device="cuda"): return torch.randn(M, N, device=device)
#     def reference(x): return x * x         # all must agree with it; else with the first variant
#     def bytes_of(x): return 2 * x.nbytes   # bytes that one call has to move
#     def flops_of(x): return x.numel()      # operations that one call has to compute
#     TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}   # as torch.testing.assert_close has it
#
# Only the first two are required.

Function = Callable[..., Any]
WHY = 'ptxview time compares what the file declares: VARIANTS = {"name": function} and inputs()'


class NotDeclared(Exception):
    """The script cannot be read as a comparison; the message says why."""


class Declared:
    """What a script declares; ``sizes``: the integer parameters of ``inputs`` with defaults."""

    def __init__(self, module: Any) -> None:
        variants, inputs = getattr(module, "VARIANTS", None), getattr(module, "inputs", None)
        if not isinstance(variants, dict) or not variants or not callable(inputs):
            lacks = "no inputs()" if isinstance(variants, dict) and variants else "no VARIANTS"
            raise NotDeclared(f"it has {lacks}; {WHY}")
        for name, function in variants.items():
            if not callable(function):
                raise NotDeclared(f"VARIANTS[{str(name)!r}] is no function")
        self.variants: dict[str, Function] = {str(n): f for n, f in variants.items()}
        self._inputs: Function = inputs
        self.reference = self._optional(module, "reference")
        self.bytes_of = self._optional(module, "bytes_of")
        self.flops_of = self._optional(module, "flops_of")
        tolerance = getattr(module, "TOLERANCE", None) or {}
        self.tolerance = {k: float(tolerance[k]) for k in ("rtol", "atol") if k in tolerance}
        try:
            self._parameters = dict(inspect.signature(inputs).parameters)
        except (TypeError, ValueError):
            self._parameters = {}
        self.sizes = {
            name: parameter.default
            for name, parameter in self._parameters.items()
            if isinstance(parameter.default, int | None) and not isinstance(parameter.default, bool)
        }

    @staticmethod
    def _optional(module: Any, name: str) -> Function | None:
        function = getattr(module, name, None)
        return function if callable(function) else None

    def lacks(self, sizes: dict[str, int]) -> str | None:
        """A sentence about a size that ``inputs`` has no parameter for; None if it has all."""
        unknown = [name for name in sizes if name not in self._parameters]
        sizes_text = ", ".join(self.sizes) or "none"
        return (
            f"inputs() has no parameter {unknown[0]} (its sizes: {sizes_text})" if unknown else None
        )

    def inputs(self, sizes: dict[str, int], device: str) -> tuple[Any, ...]:
        """The arguments of a call of those sizes."""
        keywords: dict[str, Any] = dict(sizes)
        if "device" in self._parameters:
            keywords["device"] = device
        arguments = self._inputs(**keywords)
        return tuple(arguments) if isinstance(arguments, tuple | list) else (arguments,)

    def amount(self, name: str, arguments: tuple[Any, ...]) -> int | None:
        """``bytes_of`` or ``flops_of`` these arguments; None if it is not declared."""
        function = getattr(self, name)
        return None if function is None else int(function(*arguments))


def load(path: str) -> Declared:
    """Import a script and read what it declares. Raises ``NotDeclared``, ``Broken``.

    A file of a package is imported as that package's, so that its own imports work; another by
    itself, from its folder, as ``python path`` would have it. Its ``__main__`` part does not run.
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
        spec = importlib.util.spec_from_file_location(file.stem, file)
        if spec is None or spec.loader is None:
            raise NotDeclared("it is no Python file")
        module = importlib.util.module_from_spec(spec)
        # Classes and compiled functions are looked up by the module's name.
        sys.modules[file.stem] = module
        spec.loader.exec_module(module)
        return Declared(module)
    except NotDeclared:
        raise
    except (Exception, SystemExit) as error:
        raise Broken(said(error, str(file))) from error


class Broken(Exception):
    """The script raised while it was imported; the message has its own words and the line."""


def said(error: BaseException, file: str | None = None) -> str:
    """An error in one line: its kind, its words, and which line of ``file`` it came from."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Triton's errors begin with where they are, and end with what is wrong.
    words = (lines[-1] if lines[0].startswith("at ") else lines[0]) if lines else ""
    if "out of memory" in words:
        words = ". ".join(words.split(". ")[:2])  # then comes advice on torch's allocator
    name = type(error).__name__
    text = f"{name}: {words}" if words and name not in ("RuntimeError", "DriverError") else words
    frames = traceback.extract_tb(error.__traceback__)
    own = [f.lineno for f in frames if file is not None and f.filename == file]
    if isinstance(error, SyntaxError):
        own = [error.lineno]
        text = f"{name}: {error.msg}"
    return (text or name) + (f" (line {own[-1]})" if own and own[-1] else "")


REFUSED, WRONG_SIZE = 46, 47
# The first call may compile: nvcc and Inductor take a minute, autotuning more.
BUILDING = 300
# Compiled code may settle after its first calls only (CUDA graphs); none of these is timed.
WARM_CALLS = 3
# Seconds of compiling after which the idle device's clocks have fallen.
IDLE = 0.2


class Comparison:
    """The variants of one script at one size of its input."""

    def __init__(self, session: Session, declared: Declared, sizes: dict[str, int]) -> None:
        self._session, self._torch = session, session.torch
        self._declared = declared
        self.device = session.job.get("device", "cuda")
        self._torch.manual_seed(0)  # every process has the same input
        self.given = declared.inputs(sizes, self.device)
        self.kept = Kept(self._torch, self.given)
        self.words, self.dtypes = described(self.given)
        self.reference = self._reference()
        self.amounts = {
            "bytes": declared.amount("bytes_of", self.given),
            "flops": declared.amount("flops_of", self.given),
        }

    def _reference(self) -> Any:
        # Without a reference all variants are compared with the first, which is also compared with
        # itself: its later results are written into poisoned memory.
        function = self._declared.reference or next(iter(self._declared.variants.values()))
        result = function(*self.given)
        # A result that is a buffer of the function's own is overwritten by the next call.
        copies = [t.detach().clone() for t in tensors(result)]
        if self.kept.changed():
            raise NotDeclared("the reference changes its input")
        if not copies:
            raise NotDeclared("the reference gives no tensor to compare with")
        return copies

    def about(self) -> dict[str, Any]:
        """The inputs, dtypes, bytes and operations of a call, known before it is made."""
        return {"inputs": self.words, "dtypes": self.dtypes, **self.amounts}

    def check(self, function: Any) -> dict[str, Any]:
        """Call a variant until it is warm; compare its first and last result with the reference."""
        verdicts = []
        for turn in range(WARM_CALLS):
            poison(self._torch, self.reference)
            result = function(*self.given)
            if turn == 0:
                # All is compiled now: from here on only the device can hang.
                faulthandler.dump_traceback_later(self._session.job["limit"], exit=True)
                self._session.say(phase="running")
            self._synchronize()
            if turn in (0, WARM_CALLS - 1):
                verdicts.append(
                    compared(self._torch, result, self.reference, self._declared.tolerance)
                )
            dtypes = list(dict.fromkeys(str(t.dtype).removeprefix("torch.")
                                        for t in tensors(result)))  # fmt: skip
            del result
            if self.kept.changed():
                return {"agrees": False, "difference": None, "dtypes": dtypes,
                        "why": "it changes its input, which the next variant reads"}  # fmt: skip
        agrees, difference, why = next((v for v in verdicts if not v[0]), verdicts[-1])
        return {"agrees": agrees, "difference": difference, "why": why, "dtypes": dtypes}

    def _synchronize(self) -> None:
        if self.device == "cuda":
            self._torch.cuda.synchronize()

    def measure(self, n: int, function: Any) -> None:
        """Time a variant by every stopwatch, and write each result as soon as it is there."""
        session, torch, arguments = self._session, self._torch, self.given

        def launch() -> None:
            function(*arguments)

        for stopwatch, state in caches(session.job["stopwatches"], session.job["cache"]):

            def take(before: Any, between: Any, stopwatch: str = stopwatch, state: str = state
                     ) -> dict[str, Any]:  # fmt: skip
                seconds = session.job["seconds"]
                if stopwatch != "cupti":
                    samples = STOPWATCHES[stopwatch](torch, launch, before, seconds, between)
                    return {"samples": samples}
                call = calls(session.trace(), launch, before, seconds, between, state != "hot")
                kernels = [{"name": k, "samples": e}
                           for k, e in zip(call.kernels, call.each, strict=True)]  # fmt: skip
                return {"samples": call.total, "span": call.span, "kernels": kernels,
                        "cpu": on_cpu(torch, launch, before)}  # fmt: skip

            try:
                result = session.watched(stopwatch, state, launch, lambda: None, take)
            except Unavailable as error:
                session.say(n=n, stopwatch=stopwatch, cache=state, error=str(error))
                continue
            except RuntimeError as error:  # as of what cannot be captured in a graph
                self._synchronize()  # raises if nothing can be launched any more
                session.say(n=n, stopwatch=stopwatch, cache=state, error=said(error))
                continue
            session.say(**result, n=n)


def row(session: Session, comparison: Comparison, n: int, function: Any) -> None:
    """One variant at one size: checked, then timed."""
    session.say(n=n, about=comparison.about())
    began = time.monotonic()
    session.say(n=n, checked=comparison.check(function))
    if time.monotonic() - began > IDLE:
        session.warm()
    comparison.measure(n, function)


def main(job_path: str, results_path: str) -> int:
    """Do a job and return the exit status: 0, or one that says why not."""
    job = json.loads(Path(job_path).read_text("utf-8"))
    # Graphs are compiled here, and not by workers that outlive a process that is killed.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    with Path(results_path).open("a", encoding="utf-8") as out:
        try:
            import torch
        except ImportError as error:
            out.write(json.dumps({"no_torch": said(error)}) + "\n")
            return NO_TORCH
        # Where the device is emulated there is nothing to measure.
        if os.environ.get("PTXVIEW_TARGET") or not torch.cuda.is_available():
            out.write(json.dumps({"no_device": f"torch {torch.__version__} sees none"}) + "\n")
            return NO_DEVICE
        # Above all, this works where the interpreter itself is stuck in a call of the driver.
        faulthandler.dump_traceback_later(BUILDING, exit=True)
        out.write(json.dumps({"phase": "import"}) + "\n")
        out.flush()
        try:
            declared = load(job["script"])
        except (NotDeclared, Broken) as error:
            out.write(json.dumps({"refused": str(error)}) + "\n")
            return REFUSED
        lacking = next(filter(None, map(declared.lacks, job["sizes"])), None)
        if lacking is not None:
            out.write(json.dumps({"refused": lacking}) + "\n")
            return WRONG_SIZE
        torch.zeros(1, device=job.get("device", "cuda"))
        session = Session(torch, job, out)
        session.say(device=session.about())
        session.say(declared={"variants": list(declared.variants), "sizes": declared.sizes})
        session.warm()
        if job["copy"]:
            copy(session)
            torch.cuda.empty_cache()
        status = rows(session, declared, str(Path(job["script"]).resolve()))
        faulthandler.cancel_dump_traceback_later()
    return status


def rows(session: Session, declared: Declared, file: str) -> int:
    """Time every variant at every size that is not done; 0, or ``BROKEN`` if the context broke."""
    done = set(session.job["done"])
    names = list(declared.variants)
    for size_index, sizes in enumerate(session.job["sizes"]):
        pending = [
            n
            for n in range(size_index * len(names), (size_index + 1) * len(names))
            if n not in done
        ]
        if not pending:
            continue
        faulthandler.dump_traceback_later(BUILDING, exit=True)
        session.say(begin=pending[0], phase="input")
        if not fresh(session):
            return BROKEN
        try:
            comparison = Comparison(session, declared, sizes)
        except (Exception, SystemExit) as error:
            for n in pending:
                session.say(n=n, stopwatch=None, error=f"its input: {said(error, file)}")
            if not fresh(session):
                return BROKEN
            for n in pending:
                session.say(end=n)
            continue
        for n in pending:
            faulthandler.dump_traceback_later(BUILDING, exit=True)
            session.say(begin=n, phase="first call")
            failed = False
            try:
                row(session, comparison, n, declared.variants[names[n % len(names)]])
            except (Exception, SystemExit) as error:
                session.say(n=n, stopwatch=None, error=said(error, file))
                failed = True
            if not fresh(session, compiled=False, collect=failed):
                return BROKEN
            comparison.kept.changed()  # one that writes into its input did so while it was timed
            session.say(end=n)
        del comparison
    return 0


def fresh(session: Session, compiled: bool = True, collect: bool = True) -> bool:
    """Free unused memory; False if the device's context is broken.

    ``collect``: also what an error's frames hold on to. ``compiled``: also the code that
    torch.compile made: for a second size it would make code for dynamic sizes, and after eight
    sizes it would compile nothing any more.
    """
    torch = session.torch
    if collect:  # it takes a tenth of a second
        gc.collect()
    if compiled and "torch._dynamo" in sys.modules:
        torch.compiler.reset()
    if session.job.get("device", "cuda") != "cuda":
        return True
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    except RuntimeError:
        return False
    return True
