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
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from .compare_check import Kept, compared, described, poison, tensors
from .compare_script import Broken, Declared, NotDeclared, load, said
from .compare_stopwatch import calls
from .replay import BROKEN, NO_DEVICE, NO_TORCH, Session, copy
from .replay_calls import on_cpu
from .replay_stopwatches import STOPWATCHES, caches
from .replay_trace import Unavailable

REFUSED, WRONG_SIZE = 46, 47
# The first call may compile: nvcc and Inductor take a minute, autotuning more.
BUILDING = 300
# Compiled code may settle after its first calls only (CUDA graphs); none of these is timed.
WARM_CALLS = 3
# While something is compiled for so many seconds, the device idles, and its clocks fall.
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
        # Without one, the first variant is what the others are held against; and itself, written
        # into memory that held something else.
        function = self._declared.reference or next(iter(self._declared.variants.values()))
        found = function(*self.given)
        # A result that is a buffer of the function's own is overwritten by the next call.
        copies = [t.detach().clone() for t in tensors(found)]
        if self.kept.changed():
            raise NotDeclared("the reference changes its input")
        if not copies:
            raise NotDeclared("the reference gives no tensor to compare with")
        return copies

    def about(self) -> dict[str, Any]:
        """What is known of a call before it is made."""
        return {"inputs": self.words, "dtypes": self.dtypes, **self.amounts}

    def check(self, function: Any) -> dict[str, Any]:
        """Call a variant until it is warm, and hold its first and last results to the reference."""
        verdicts = []
        for turn in range(WARM_CALLS):
            poison(self._torch, self.reference)
            result = function(*self.given)
            if turn == 0:
                # What was compiled is compiled now: from here on it is the device that may hang.
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
        agrees, far, why = next((v for v in verdicts if not v[0]), verdicts[-1])
        return {"agrees": agrees, "difference": far, "why": why, "dtypes": dtypes}

    def _synchronize(self) -> None:
        if self.device == "cuda":
            self._torch.cuda.synchronize()

    def measure(self, n: int, function: Any) -> None:
        """The time of a variant by every stopwatch, said as it is taken."""
        session, torch, given = self._session, self._torch, self.given

        def launch() -> None:
            function(*given)

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
                self._synchronize()  # raises where nothing can be launched any more
                session.say(n=n, stopwatch=stopwatch, cache=state, error=said(error))
                continue
            session.say(**result, n=n)


def row(session: Session, at: Comparison, n: int, function: Any) -> None:
    """One variant at one size: checked, then timed."""
    session.say(n=n, about=at.about())
    began = time.monotonic()
    session.say(n=n, checked=at.check(function))
    if time.monotonic() - began > IDLE:
        session.warm()
    at.measure(n, function)


def main(job_path: str, results_path: str) -> int:
    """Do a job; 0, or why not."""
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
    """Every variant at every size that is not done; 0, or that the device's context is broken."""
    done = set(session.job["done"])
    names = list(declared.variants)
    for which, sizes in enumerate(session.job["sizes"]):
        wanted = [n for n in range(which * len(names), (which + 1) * len(names)) if n not in done]
        if not wanted:
            continue
        faulthandler.dump_traceback_later(BUILDING, exit=True)
        session.say(begin=wanted[0], phase="input")
        if not fresh(session):
            return BROKEN
        try:
            at = Comparison(session, declared, sizes)
        except (Exception, SystemExit) as error:
            for n in wanted:
                session.say(n=n, stopwatch=None, error=f"its input: {said(error, file)}")
            if not fresh(session):
                return BROKEN
            for n in wanted:
                session.say(end=n)
            continue
        for n in wanted:
            faulthandler.dump_traceback_later(BUILDING, exit=True)
            session.say(begin=n, phase="first call")
            failed = False
            try:
                row(session, at, n, declared.variants[names[n % len(names)]])
            except (Exception, SystemExit) as error:
                session.say(n=n, stopwatch=None, error=said(error, file))
                failed = True
            if not fresh(session, compiled=False, collect=failed):
                return BROKEN
            at.kept.changed()  # one that writes into its input did so while it was timed
            session.say(end=n)
        del at
    return 0


def fresh(session: Session, compiled: bool = True, collect: bool = True) -> bool:
    """Free what is not in use; False where the device's context is broken.

    ``collect``: also what an error's frames hold on to. With ``compiled`` also what torch.compile
    made: of a second size it would else make code for sizes that are not known, and after eight it
    would compile nothing any more.
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
