"""torch.profiler around the program: its schedule steps where the program's own steps end.

Until the first step everything is profiled, from the first use of CUDA (without a GPU, from the
import of torch): for a program without steps that is the window. At the first step it is put
aside, and the schedule begins. Traces are stored as Kineto writes them, and read elsewhere.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import hooks, private_names
from ..writer import folder, problem
from . import watch
from .watch import keep

MARK = "_ptxview_step"


class Steps:
    """Where the program's steps end, by the session's options: outermost calls in its thread.

    ``auto`` and ``optimizer``: each step of the optimizer that steps first; others (a GAN has two)
    step beside it. Else each call of a function or method of an imported module.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.name = str(session.options["step"])
        self.depth = 0
        self.first: int | None = None
        self.classes: list[Any] = []
        self.optimizers = self.name in ("auto", "optimizer")
        if self.optimizers:
            hooks.when_imported("torch.optim.optimizer", self.attach_optimizers)
            hooks.when_imported("torch._dynamo.eval_frame", self.attach_optimizers)
        elif self.name != "none":
            hooks.when_imported(self.name.partition(":")[0], self.attach_function)

    def attach_optimizers(self, module: Any) -> None:
        """Observe each class's ``step`` when one is made, or when Dynamo has unwrapped it."""
        if module.__name__ == "torch._dynamo.eval_frame":
            name = "torch._dynamo.eval_frame:TorchPatcher.patch"
            private_names.wrap(name, on_return=lambda *_: self._observe(list(self.classes)))
            return
        private_names.wrap(
            "torch.optim.optimizer:Optimizer._patch_step_function",
            lambda args, kwargs: type(args[0]),
            lambda kind, result, error: self._observe([kind]),
        )

    def attach_function(self, module: Any) -> None:
        """Observe the function, before the module's importer can take it from there."""
        value = module
        for part in self.name.partition(":")[2].split("."):
            value = getattr(value, part, None)
        if not callable(value) or isinstance(value, type):
            problem("profile", f"--step {self.name}: the module has no such function or method")
            return
        private_names.wrap(self.name, self._on_call, self._on_return, inherited=True)

    def _observe(self, classes: list[Any]) -> None:
        for kind in classes:
            step = kind.step
            if hasattr(step, MARK):
                continue
            wrapper = hooks.observed(step, self._on_call, self._on_return)
            setattr(wrapper, MARK, True)
            # What unwraps it arrives at the function itself, as it would without this wrapper.
            wrapper.__wrapped__ = getattr(step, "__wrapped__", step)
            kind.step = wrapper
            if kind not in self.classes:
                self.classes.append(kind)

    def _on_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The optimizer, or True for a function; None for a call that does not count."""
        torch = self.session.torch
        elsewhere = threading.get_ident() != self.session.thread
        if elsewhere or (torch is not None and torch.compiler.is_compiling()):
            return None
        if self.depth == 0 and not self.optimizers:
            self.session.boundary("function", self.name)
        self.depth += 1
        return args[0] if self.optimizers else True

    def _on_return(self, token: Any, result: Any, error: BaseException | None) -> None:
        if token is None:
            return
        self.depth -= 1
        if self.first is None:
            self.first = id(token)
        if self.depth == 0 and not self.optimizers:
            self.session.returned()
        elif self.depth == 0 and id(token) == self.first:
            self.session.boundary("optimizer", f"{type(token).__name__}.step")


MEMORY_CHECK_SECONDS = 0.2
"""Seconds between two readings of the memory in use."""
MAX_MEMORY_SHARE = 0.08
"""Share of the memory free at the beginning of a window that it may take: torch's records of
operators take seven times as much once a trace is made of them (measured)."""
VARIABLE = "PTXVIEW_PROFILE"
OWNER = "PTXVIEW_PROFILE_BY"
# Python processes that work for the program and are not the program.
HELPERS = ("torch._inductor.compile_worker", "from multiprocessing", "torch/_inductor")


class Limits:
    """The time and memory of an open window, which the session's hooks compare with their use.

    torch's profiler is stopped in the thread that began it, so the hooks that run there look.
    ``seconds`` is the time after which the window ends; None for no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        now = time.monotonic()
        self._until = None if seconds is None else now + seconds
        self._next_check = now + MEMORY_CHECK_SECONDS
        self._free = available()
        self._in_use = resident()

    def used_up(self) -> str:
        """Return what is used up: ``seconds``, ``memory`` or, if nothing is, an empty string."""
        now = time.monotonic()
        if self._until is not None and now >= self._until:
            return "seconds"
        if now < self._next_check or not self._free or not self._in_use:
            return ""
        self._next_check = now + MEMORY_CHECK_SECONDS
        in_use = resident() or 0
        return "memory" if in_use - self._in_use > MAX_MEMORY_SHARE * self._free else ""


def resident() -> int | None:
    """Return the resident memory of this process in bytes; None if it cannot be read."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except (OSError, ValueError, IndexError):
        return None


def available() -> int | None:
    """Return the memory available to programs in bytes, the machine's or the container's."""
    limits = []
    try:
        with open("/proc/meminfo") as file:
            limits += [int(r.split()[1]) * 1024 for r in file if r.startswith("MemAvailable:")]
        group = "/sys/fs/cgroup/memory"
        with open(f"{group}.max") as limit_file, open(f"{group}.current") as usage:
            limits.append(int(limit_file.read()) - int(usage.read()))
    except (OSError, ValueError, IndexError):
        pass
    return min(limits, default=None)


class Session:
    """The profiler of this process; every method is called in the thread that imported torch.

    Attributes:
        running: The running profiler; None where none is.
        initial_window: The window from before the first step.
        step: What ends the program's steps.
        off: Whether profiling is over.
        ours: Whether torch's profiler is being called by this session.
        ahead: Whether torch's profiler was already told of the step that begins next.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.schedule = {n: options[n] for n in ("wait", "warmup", "active", "repeat")}
        self.torch: Any = None
        self.thread = threading.get_ident()
        self.pid = os.getpid()
        self.running: Any = None
        self.initial_window: dict[str, Any] | None = None
        self.step: dict[str, str] | None = None
        self.limits: Limits | None = None
        self.off = self.scheduled = self.ahead = self.ours = False
        self.began = 0.0
        self.seen = self.stored = 0
        self.ended_by = "exit"

    # -- what hooks call: they end profiling where they fail ------------------------------------

    def attach(self, torch: Any) -> None:
        """Begin, once torch has been imported."""
        self.torch = torch
        self.thread = threading.get_ident()
        emulated = bool(os.environ.get("PTXVIEW_TARGET"))
        if emulated:
            # Kineto's own lines on standard error; on a GPU they may say why CUPTI fails.
            os.environ.setdefault("KINETO_LOG_LEVEL", "6")
        watch.attach(self)
        atexit.register(hooks.guarded(self.finish))
        if threading.current_thread() is not threading.main_thread():
            problem("profile", "torch was imported by a thread that is not the main one")
            self.off = True
        elif self.options["step"] in ("auto", "optimizer", "none"):
            self.change(self.begin, False)
            call_later = None if emulated else private_names.get("torch.cuda:_lazy_call")
            if call_later is not None:
                call_later(hooks.guarded(self.cuda))

    def cuda(self) -> None:
        """Begin again with kernels: the program is about to use CUDA for the first time."""
        if not self.idle() and not self.scheduled:
            self.change(self.discard)
            self.change(self.begin, True)

    def boundary(self, kind: str, name: str) -> None:
        """Note that a step of the program has ended or, with an explicit function, begins."""
        if not self.idle():
            self.change(self.stepped, kind, name)
            self.passing()

    def returned(self) -> None:
        """End the last active step when the call that makes it returns, not at the next call."""
        active = not self.idle() and self.running is not None and self.scheduled
        if active and self.action() == "RECORD_AND_SAVE":
            self.change(self.next)
            self.ahead = True

    def passing(self) -> None:
        """End the window if its time or memory is used up."""
        if self.running is None or self.limits is None or self.ours or self.idle():
            return
        why = self.limits.used_up()
        if why:
            self.ended_by = why
            self.change(self.close)

    def aside(self) -> None:
        """Give up: the program starts torch's profiler itself, and two cannot run."""
        if self.ours or self.idle():
            return
        self.off = True
        self.initial_window = None
        self.discard()

    def change(self, act: Callable[..., None], *args: Any) -> None:
        """Call ``act(*args)``, and stop profiling where it fails."""
        try:
            act(*args)
        except BaseException:
            self.off = True
            hooks.guarded(self.discard)()  # the program may begin its own profiler
            raise

    # -- beginning ----------------------------------------------------------------------------

    def idle(self) -> bool:
        """Whether there is nothing to do: profiling is over, or in another process or thread."""
        return self.off or os.getpid() != self.pid or threading.get_ident() != self.thread

    def make(self, gpu: bool, **options: Any) -> Any:
        """A new ``torch.profiler.profile``, not started."""
        profiler = self.torch.profiler
        of_gpu = [profiler.ProfilerActivity.CUDA] if gpu else []
        return profiler.profile(
            activities=[profiler.ProfilerActivity.CPU, *of_gpu],
            with_stack=bool(self.options["stack"]),
            **options,
        )

    def on_gpu(self) -> bool:
        """Whether the program uses a real GPU."""
        if os.environ.get("PTXVIEW_TARGET"):
            return False
        begins = hasattr(private_names.get("torch.cuda:_tls"), "is_initializing")
        return bool(self.torch.cuda.is_initialized() or begins)

    @contextmanager
    def own_calls(self) -> Iterator[None]:
        """A context for our own calls of torch's profiler, whose warnings are suppressed."""
        was_ours = self.ours
        self.ours = True
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            self.ours = was_ours

    def begin(self, gpu: bool) -> None:
        """Profile everything from now on."""
        with self.own_calls():
            self.running = self.make(gpu)
            self.running.start()
        self.began = time.time()
        self.limits = Limits(float(self.options["seconds"]))

    # -- steps --------------------------------------------------------------------------------

    def stepped(self, kind: str, name: str) -> None:
        """Go on to the next step of the schedule, which begins at the first."""
        self.seen += 1
        if not self.scheduled:
            self.step = {"kind": kind, "name": name}
            self.put_aside()
            self.begin_schedule(0 if kind == "function" else 1)
        elif self.running is not None and not self.ahead:
            self.next()
        self.ahead = False

    def next(self) -> None:
        """Tell torch's profiler that a step has ended, and let it go after the last."""
        action_before = self.action()
        self.check(self.running)
        hooks.guarded(self.spare)(self.running)
        with self.own_calls():
            self.running.step()
        if "RECORD" in self.action() and "RECORD" not in action_before:
            self.began = time.time()
        if self.stored >= self.options["repeat"]:
            with self.own_calls():
                self.running.stop()
            self.running = None
            self.initial_window = None

    def begin_schedule(self, first: int) -> None:
        """Begin the schedule with step number ``first``."""
        # A step may be the first to use CUDA, and the schedule is made before it.
        gpu = not os.environ.get("PTXVIEW_TARGET") and self.torch.cuda.is_available()

        def ready(running: Any) -> None:  # torch has finished the trace of the active steps
            self.store(running, "steps", self.ended_by if self.off else "steps")

        with self.own_calls():
            plan = self.torch.profiler.schedule(**self.schedule)
            self.running = self.make(gpu, schedule=plan, on_trace_ready=ready)
            self.running.step_num = first
            self.running.current_action = plan(first)
            self.running.start()
        self.scheduled = True
        self.began = time.time()
        self.limits = Limits(None)

    def action(self) -> str:
        """The schedule's action at the current step: NONE, WARMUP, RECORD …"""
        return str(getattr(self.running.current_action, "name", ""))

    # -- ending -------------------------------------------------------------------------------

    def close(self) -> None:
        """End the open window: the schedule's, or the one before the first step."""
        if self.scheduled:
            self.off = True
            self.discard()
        else:
            self.put_aside()

    def check(self, running: Any) -> None:
        """Raise if the program has stopped our profiler: torch crashes if it is stopped again."""
        enabled = private_names.get("torch.autograd:_profiler_enabled")
        if "RECORD" in running.current_action.name and enabled is not None and not enabled():
            raise RuntimeError("the program has stopped torch's profiler")

    def spare(self, running: Any) -> None:
        """Keep a profiler that is stopped from creating a CUDA context in a program without one."""
        inner = getattr(running, "profiler", None)
        if inner is not None and not self.on_gpu():
            inner.use_device = None

    def discard(self) -> Any:
        """Stop the running profiler, if any, and return it."""
        running = self.running
        self.running = None
        if running is not None:
            self.check(running)
            hooks.guarded(self.spare)(running)  # if it fails, the profiler is stopped all the same
            with self.own_calls():
                running.stop()
        return running

    def put_aside(self) -> None:
        """End the window that began before the first step, and keep what it has."""
        ended = time.time()
        if (running := self.discard()) is not None:
            self.initial_window = {"running": running, "began": self.began, "ended": ended}

    def finish(self) -> None:
        """Store what was profiled when the program ends."""
        if os.getpid() != self.pid:
            return
        hooks.guarded(self.finish_windows)()
        self.off = True
        watch.finish_others(self)
        watch.finish(self.seen, self.step, self.options)

    def finish_windows(self) -> None:
        """Store the window that is open, or the one before the first step."""
        if not self.idle() and self.running is not None:
            self.close()
        if self.initial_window is not None and not self.stored:
            mode = "fallback" if self.scheduled else "whole"
            self.began = self.initial_window["began"]
            self.store(
                self.initial_window["running"], mode, self.ended_by, self.initial_window["ended"]
            )

    def store(self, running: Any, mode: str, ended_by: str, ended: float | None = None) -> None:
        """Keep a window's trace, with the facts about it."""
        self.stored += 1
        facts = {
            "by": "ptxview",
            "mode": mode,
            "step": self.step,
            "seen": self.seen,
            "schedule": self.schedule,
            "ended_by": ended_by,
            "seconds": self.options["seconds"],
            "began": self.began,
            "ended": time.time() if ended is None else ended,
            "stacks": bool(self.options["stack"]),
        }
        keep(self, facts, running.export_chrome_trace)
        self.began = time.time()


def install() -> None:
    """Profile this process if it is the program's own, not a helper of torch's."""
    wish = os.environ.get(VARIABLE)
    words = " ".join(getattr(sys, "orig_argv", ()))
    if not wish or folder() is None or any(helper in words for helper in HELPERS):
        return
    # Each rank is profiled, and no child that it starts.
    rank = os.environ.get("RANK", "")
    owner, _, its_rank = os.environ.get(OWNER, "").partition(":")
    if owner and owner != str(os.getpid()) and its_rank == rank:
        return
    os.environ[OWNER] = f"{os.getpid()}:{rank}"
    session = Session(json.loads(wish))
    hooks.when_imported("torch", hooks.guarded(session.attach))
    Steps(session)
    watch.install(session)
