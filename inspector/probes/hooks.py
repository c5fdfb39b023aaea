"""The boundary between the probes and the user's program.

``observed`` is the only code of the probes that calls what a probe has replaced; ``guarded`` makes
a callback that the interpreter or a library calls (an import hook, a log handler, ``atexit``, a
timer, a thread) unable to raise. Both report a failure once to the recording's problems and switch
the hook off after ``FAILURES_ALLOWED`` failures. Callbacks after imports go through them as well.
"""

from __future__ import annotations

import os
import sys
import time

from .writer import is_programs, problem

TYPE_CHECKING = False  # typing takes two milliseconds, and a program may never need it
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    Args = tuple[Any, ...]
    Kwargs = dict[str, Any]
    AfterImport = Callable[[ModuleType], object]
    CallHook = Callable[[Args, Kwargs], Any]
    ReturnHook = Callable[[Any, Any, "BaseException | None"], object]
    CountLookup = tuple[int, Callable[[Args], Any], dict[Any, "CallCounter"]]
    """Of how many arguments a key is made, how, and the counters of calls by these keys."""
else:
    Args = Kwargs = AfterImport = CallHook = ReturnHook = CountLookup = object

PACKAGE = __name__.rpartition(".")[0]
FAILURES_ALLOWED = 3
"""Failures of one hook after which it is switched off."""

DEVICE_HOOKS = frozenset(
    {"target", "finding torch", "before importing torch", "importing torch", "watching torch"}
)
"""Hooks without which there is no emulated device."""

_failures: dict[str, int] = {}
_state: dict[str, Any] = {"recording": True, "cleared": []}
_import_callbacks: dict[str, list[AfterImport]] = {}
_pre_import_callbacks: dict[str, list[Callable[[], object]]] = {}
_SKIPPED = object()  # the token of a call whose ``on_call`` was not run, or failed


class CallCounter:
    """The calls of one kind so far: ``number`` identifies them in the recording, and the count is
    written again when it reaches ``flush_at``."""

    __slots__ = ("count", "flush_at", "number")

    def __init__(self, number: int) -> None:
        self.count = 0
        self.flush_at = 1
        self.number = number


class ReplaceArguments:
    """What ``on_call`` returns to call the original with other arguments, beside its token."""

    __slots__ = ("args", "kwargs", "token")

    def __init__(self, args: Args, kwargs: Kwargs, token: Any = None) -> None:
        self.args = args
        self.kwargs = kwargs
        self.token = token


def observed(
    original: Callable[..., Any],
    on_call: CallHook | None = None,
    on_return: ReturnHook | None = None,
    name: str | None = None,
) -> Any:
    """Return a function that calls ``original`` once, with our hooks around it.

    Args:
        on_call: Called with ``(args, kwargs)``; returns a token for ``on_return``, or
            ``ReplaceArguments``. Not called while nothing is recorded.
        on_return: Called with ``(token, result, None)`` or ``(token, None, error)``, only if
            ``on_call`` was called and did not fail.
        name: What failures are counted and reported under; by default the name of ``on_return``,
            else of ``on_call``.

    The result or the exception of ``original`` is passed on unchanged, without our frames in the
    traceback. A failure of a hook changes nothing: the call goes on as it would without it.
    """
    name = name or name_of(on_return or on_call or original)

    def call(*args: Any, **kwargs: Any) -> Any:
        token = _SKIPPED
        if _state["recording"] and _failures.get(name, 0) < FAILURES_ALLOWED:
            # Not by ``_call``: its two frames are a third of what a launch pays for being counted.
            try:
                token = None if on_call is None else on_call(args, kwargs)
            except BaseException as error:
                if _failed(name, error):
                    raise
            if type(token) is ReplaceArguments:
                args = token.args
                kwargs = token.kwargs
                token = token.token
        try:
            result = original(*args, **kwargs) if kwargs else original(*args)
        except BaseException as error:
            if on_return is not None and token is not _SKIPPED:
                _call(name, on_return, token, None, error)
            if error.__traceback__ is not None:
                error.__traceback__ = error.__traceback__.tb_next
            raise
        if on_return is not None and token is not _SKIPPED:
            try:
                on_return(token, result, None)
            except BaseException as error:
                if _failed(name, error):
                    raise
        return result

    return wraps(original)(call)


_count_lock = None
"""Held while a count grows, where Python has no global lock: on a free-threaded build."""
if not getattr(sys, "_is_gil_enabled", lambda: True)():
    import threading

    _count_lock = threading.Lock()


def add_calls(counter: CallCounter, calls: int) -> None:
    """Add calls to a count, of which other threads lose none."""
    if _count_lock is None:
        counter.count += calls
        return
    with _count_lock:
        counter.count += calls


EMPTY_LOOKUP: CountLookup = (-1, repr, {})


def observed_often(
    original: Callable[..., Any], launch_counter: Any, unless: Any, name: str
) -> Any:
    """Return ``observed`` for what is called hundreds of times in a step of a training loop.

    Where the calls are far apart little of a hook is in the processor's caches, and its cost is
    that of the frames and objects that it touches: with two frames more, hooks took 6.1 % of a
    GPT-2 step's CPU time on an H200, and 3.9 % since.

    Args:
        launch_counter: Its ``on_launch`` and ``on_return`` are the hooks. A call whose key is in
            its ``lookup`` is counted here, and they are not called: the ``count`` of the call's
            counter grows by one, and from ``flush_at`` on ``launch_counter.flush_count(counter)``
            is called. A call that raises goes to ``launch_counter.failed(args, error)``.
            ``launch_counter.note_pending(counter)`` of each call that does not is one of C's
            functions, which neither fails nor has a frame.
        unless: While this container holds anything, the hooks are called for every call.
    """
    with_hooks = observed(original, launch_counter.on_launch, launch_counter.on_return, name)
    note_pending = launch_counter.note_pending

    def call(*args: Any, **kwargs: Any) -> Any:
        counter = None
        target = original
        if _state["recording"]:
            if not unless and not _failures:
                try:
                    arity, key, counters = launch_counter.lookup
                    counter = counters.get(key(args)) if len(args) == arity else None
                except BaseException as error:
                    if _failed(name, error):
                        raise
            if counter is None:
                target = with_hooks
        try:
            result = target(*args, **kwargs) if kwargs else target(*args)
        except BaseException as error:
            if counter is not None:
                _call(name, launch_counter.failed, args, error)
            if error.__traceback__ is not None:
                error.__traceback__ = error.__traceback__.tb_next
            raise
        if counter is not None:
            if _count_lock is None:
                counter.count += 1
            else:
                add_calls(counter, 1)
            note_pending(counter)
            if counter.count >= counter.flush_at:
                _call(name, launch_counter.flush_count, counter)
        return result

    return wraps(original)(call)


def _call(name: str, hook: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a hook; where it fails that is reported, and the result is ``_SKIPPED``."""
    try:
        return hook(*args, **kwargs)
    except BaseException as error:
        if _failed(name, error):
            raise
        return _SKIPPED


def argument(place: int, name: str = "") -> CallHook:
    """Return a hook whose token is one argument of the call, by its place or its name."""
    return lambda args, kwargs: args[place] if len(args) > place else kwargs[name]


def arguments(*names: str) -> CallHook:
    """Return a hook whose token are the arguments with these names, the call's first ones; None of
    those that the call leaves out."""

    def on_call(args: Args, kwargs: Kwargs) -> tuple[Any, ...]:
        bound = {**dict(zip(names, args, strict=False)), **kwargs}
        return tuple(bound.get(name) for name in names)

    return on_call


def timed(*names: str) -> CallHook:
    """Return a hook whose token are the arguments with these names, and when the call began."""
    of_call = arguments(*names)
    return lambda args, kwargs: (*of_call(args, kwargs), time.time())


def succeeded(on_success: Callable[[Any, Any], object]) -> ReturnHook:
    """Return a hook that is called with the token and the result of calls that do not raise."""

    def ended(token: Any, result: Any, error: BaseException | None) -> None:
        if error is None:
            on_success(token, result)

    return wraps(on_success)(ended)


def during(local: Any, name: str, value: CallHook) -> tuple[CallHook, ReturnHook]:
    """Return hooks that set an attribute of a thread's locals while a call runs."""

    def on_call(args: Args, kwargs: Kwargs) -> Any:
        outer = getattr(local, name, None)
        setattr(local, name, value(args, kwargs))
        return outer

    def on_return(outer: Any, result: Any, error: BaseException | None) -> None:
        setattr(local, name, outer)

    return on_call, on_return


def guarded(function: Callable[..., Any], name: str | None = None) -> Any:
    """Return a function that cannot raise; it returns None where ``function`` fails."""
    name = name or name_of(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        if _failures.get(name, 0) >= FAILURES_ALLOWED:
            return None
        result = _call(name, function, *args, **kwargs)
        return None if result is _SKIPPED else result

    return wraps(function)(call)


def at_end_of_child(function: Callable[[], object], name: str) -> None:
    """Call ``function`` when this forked child ends, if multiprocessing's: without ``atexit``."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        ends = guarded(function)
        register = guarded(lambda _: util.Finalize(None, ends, exitpriority=0), name)
        util.register_after_fork(util, register)


def _failed(name: str, error: BaseException) -> bool:
    """Count and report the failure of a hook; True if the exception is the program's own."""
    try:
        if is_programs(error):
            return True
        count = _failures[name] = _failures.get(name, 0) + 1
        if count == 1:
            text = f"{type(error).__name__}: {error}"
            problem(name, f"{text} (the hook is switched off after {FAILURES_ALLOWED} failures)")
            if name in DEVICE_HOOKS:
                no_device(text)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        pass
    return False


def no_device(reason: str) -> None:
    """Say once, on stderr and in the recording, that the program has no emulated device."""
    if os.environ.get("PTXVIEW_TARGET") and not _state.get("device"):
        _state["device"] = "failed"
        text = f"the emulated CUDA device could not be set up ({reason}): torch finds no GPU"
        problem("target", text)
        print(f"ptxview: {text}", file=sys.stderr, flush=True)


def device_attached() -> None:
    """Note that the emulated device is there: a later failure of a hook does not take it away."""
    _state["device"] = "attached"


def name_of(function: Any) -> str:
    """The name of a hook, under which its failures are counted."""
    function = getattr(function, "func", function)  # of a partial
    module = str(getattr(function, "__module__", "")).removeprefix(f"{PACKAGE}.")
    return f"{module}.{getattr(function, '__qualname__', type(function).__name__)}"


def wraps(original: Any) -> Callable[[Any], Any]:
    """``functools.wraps``, without the two milliseconds that its module takes to import."""

    def wrap(wrapper: Any) -> Any:
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            try:
                setattr(wrapper, name, getattr(original, name))
            except (AttributeError, TypeError):
                pass
        wrapper.__dict__.update(getattr(original, "__dict__", {}))
        wrapper.__wrapped__ = original
        return wrapper

    return wrap


# -- recordings -----------------------------------------------------------------------------------


def recording() -> bool:
    """Whether anything is recorded now."""
    return bool(_state["recording"])


def per_recording(container: Any) -> Any:
    """Return a dict, list or set that is cleared whenever another recording begins."""
    _state["cleared"].append(container.clear)
    return container


def at_new_recording(function: Any) -> Any:
    """Call ``function()`` whenever another recording begins in this process; a decorator."""
    _state["cleared"].append(function)
    return function


def begin_recording() -> None:
    """Forget what the recording before has seen, and call hooks from now on."""
    _failures.clear()
    for clear in list(_state["cleared"]):
        guarded(clear)()
    _state["recording"] = True
    for name in list(_import_callbacks):  # imported while nothing was recorded
        if name in sys.modules:
            for callback in _import_callbacks.pop(name):
                when_imported(name, callback)


def end_recording() -> None:
    """Call no hook of ``observed`` until another recording begins: what is replaced passes on."""
    _state["recording"] = False


# -- imports --------------------------------------------------------------------------------------


def when_imported(name: str, callback: AfterImport, first: bool = False) -> None:
    """Call ``callback(module)`` right after the module has run; at once if it already has.

    ``first``: before the callbacks already registered, so that their wrappers go around its own.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(
        getattr(module, "__spec__", None), "_initializing", False
    ):
        guarded(callback, f"probing {name}")(module)
        return
    waiting = _import_callbacks.setdefault(name, [])
    waiting.insert(0 if first else len(waiting), callback)


def before_import(name: str, callback: Callable[[], object]) -> None:
    """Call ``callback()`` right before the module is first found; never if it is loaded."""
    if name not in sys.modules:
        _pre_import_callbacks.setdefault(name, []).append(callback)


class Finder:
    """First on ``sys.meta_path``; finds nothing itself, watches the loaders of awaited modules."""

    def __init__(self) -> None:
        # None, which is also what a failure gives, has the finders after this one asked.
        self._find = guarded(self._find_spec, "imports")
        self._find_torch = guarded(self._find_spec, "finding torch")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> Any:
        """The spec of an awaited module, whose loader calls back."""
        return (self._find_torch if fullname == "torch" else self._find)(fullname, path, target)

    def _find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders give, with its loader made to call back once."""
        for callback in _pre_import_callbacks.pop(fullname, ()):
            guarded(callback, f"before importing {fullname}")()
        if fullname not in _import_callbacks:
            return None
        for finder in list(sys.meta_path):
            if isinstance(finder, Finder) or not hasattr(finder, "find_spec"):
                continue
            try:
                spec: ModuleSpec | None = finder.find_spec(fullname, path, target)
            except ImportError:
                return None  # it raises again when the interpreter asks it
            if spec is not None:
                _watch_loader(spec, fullname)
                return spec
        return None


def _watch_loader(spec: ModuleSpec, name: str) -> None:
    loader: Any = spec.loader
    original = getattr(loader, "exec_module", None)
    if original is None:
        return

    def on_call(args: Args, kwargs: Kwargs) -> ModuleType:
        vars(loader).pop("exec_module", None)
        return args[0]

    def on_return(module: ModuleType, result: Any, error: BaseException | None) -> None:
        if error is not None:
            return
        for callback in _import_callbacks.pop(name, ()):
            guarded(callback, f"probing {name}")(module)

    try:
        # An attribute of this one loader: its class, and what others see of it, stay as they are.
        loader.exec_module = observed(original, on_call, on_return, f"importing {name}")
    except AttributeError as error:
        problem(f"watching {name}", error)


def install() -> None:
    """Put the finder in place, once."""
    if not any(isinstance(f, Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, Finder())
