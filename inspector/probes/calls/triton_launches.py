"""Launches of Triton's kernels, hand-written and generated, counted where the driver is called.

The object that a compiled kernel launches with, made when it is loaded, is replaced by a proxy. It
gets the grid as it was evaluated and the arguments as they were bound, from any caller:
``kernel[grid](…)``, an autotuner, or Inductor's generated code.
"""

import functools
import operator
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from .. import hooks, private_names
from ..hooks import CallCounter, guarded
from . import call_counts, lost_context
from .call_counts import Argument, CallTarget

ABSENT = object()
Token = tuple[CallTarget, CallCounter, tuple[Any, ...]]
"""What a launch counts for, and its arguments."""
Parameters = list[tuple[str, Any, Any]]
"""Name, type, and the value of one that was compiled in, else ABSENT."""


def items(parameters: Parameters, values: tuple[Any, ...]) -> Iterator[Argument]:
    """Parameters with their values; those that were compiled in and not passed have their own."""
    if len(values) == len(parameters):
        for (name, kind, _), value in zip(parameters, values, strict=True):
            yield name, kind, value
        return
    if len(values) != len([p for p in parameters if p[1] != "constexpr"]):
        for n, value in enumerate(values):
            yield f"arg{n}", None, value
        return
    remaining = iter(values)
    for name, kind, value in parameters:
        constant = None if value is ABSENT else value
        yield name, kind, constant if kind == "constexpr" else next(remaining)


class LaunchCounter:
    """Counts the launches of one launcher.

    Args:
        record: Records the kernel where this recording lacks it, and returns its call target.
        leading: Number of arguments before the kernel's own; the first three are the grid.
    """

    def __init__(
        self, record: Callable[[], CallTarget], leading: int, parameters: Parameters
    ) -> None:
        self.record = record
        self.leading = leading
        self.parameters = parameters
        self._epoch = -1
        # What picks the grid and the scalars out of a launch's arguments, which are so many.
        self._key: Callable[[Any], Any] = itemgetter(0, 1, 2)
        self._arity = 0
        self.lookup = hooks.EMPTY_LOOKUP
        self.note_pending = lost_context.pending.append

    def on_launch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Token:
        """The counter of a launch with these arguments, which counts it once it has succeeded."""
        if self._epoch != call_counts.epoch:
            self.target = self.record()
            self._epoch = call_counts.epoch
        target = self.target
        if call_counts.is_tuning():
            return target, target.benchmark(args[:3]), args
        if len(args) != self._arity:
            self._select_scalars(len(args))
        self.lookup = self._arity, self._key, target.quick
        key = self._key(args)
        counter = target.lookup(key) or target.add_call(key, *self._described(args))
        return target, counter, args

    def on_return(self, token: Token, result: Any, error: BaseException | None) -> None:
        """Count a launch that did not raise, and record one that did."""
        target, counter, args = token
        if error is None:
            self.note_pending(counter)
            call_counts.add(target, counter)
        elif counter is not target.benchmarks:
            self.failed(args, error)

    def failed(self, args: tuple[Any, ...], error: BaseException) -> None:
        """Record a launch that raised, by its own arguments."""
        if not isinstance(error, Exception) or lost_context.note_launch_error(error):
            return
        counter = self.target.add_failed_call(*self._described(args))
        if counter is not None:
            self.target.failed(counter, error)

    def flush_count(self, counter: CallCounter) -> None:
        """Write a count that is due."""
        call_counts.flush_count(self.target, counter)

    def _described(self, args: tuple[Any, ...]) -> tuple[Iterator[Argument], tuple[int, ...]]:
        """A launch's own arguments, and its grid."""
        return items(self.parameters, args[self.leading :]), tuple(map(int, args[:3]))

    def _select_scalars(self, arity: int) -> None:
        """Find the scalars in launches with that many arguments: in all, or in those passed on."""
        kinds = [kind for _, kind, _ in self.parameters]
        passed = [kind for kind in kinds if kind != "constexpr"]
        kinds = kinds if len(kinds) == arity - self.leading else passed
        places = [
            self.leading + n
            for n, kind in enumerate(kinds)
            if kind != "constexpr" and isinstance(kind, str) and kind[:1] in "iufb"
        ]
        if len(kinds) != arity - self.leading:
            places = []
        self._key = itemgetter(0, 1, 2, *places)
        self._arity = arity


class LaunchProxy(functools.partial[Any]):
    """A counted launcher as an object: in all but being called it is the launcher.

    A ``partial`` calls what it is of without a frame of Python's, as ``__call__`` would need.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(self.func.__wrapped__, name)  # type: ignore[attr-defined]

    @property
    def _ptxview(self) -> LaunchCounter:
        counter: LaunchCounter = self.func._ptxview  # type: ignore[attr-defined]
        return counter

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Inductor keeps kernels in its cache: what it keeps is what it would keep without us.
        return operator.getitem, ((self.func.__wrapped__,), 0)  # type: ignore[attr-defined]


def counter_of(launcher: Any) -> LaunchCounter | None:
    """The ``LaunchCounter`` of a launcher's launches; None if the launcher is not wrapped."""
    counter = getattr(launcher, "_ptxview", None)
    return counter if isinstance(counter, LaunchCounter) else None


def counted_function(launcher: Any, counter: LaunchCounter) -> Any:
    """A function that counts the launches of ``launcher``, with its ``__self__`` alone."""
    wrapper = hooks.observed_often(
        launcher, counter, call_counts.tuning_depths, "counting launches"
    )
    wrapper._ptxview = counter
    if hasattr(launcher, "__self__"):
        wrapper.__self__ = launcher.__self__  # Inductor takes its kernel from there
    return wrapper


def counted(launcher: Any, counter: LaunchCounter) -> Any:
    """An object that counts the launches of ``launcher`` and has all attributes of the launcher."""
    return LaunchProxy(counted_function(launcher, counter))


# grid x, y, z, stream, function, metadata, launch metadata, enter hook, exit hook
LEADING = 9
# Inductor's own launcher: grid x, y, z, stream
STATIC_LEADING = 4


def parameters(
    names: list[str], signature: dict[Any, Any], constants: dict[Any, Any], declared: Any
) -> Parameters:
    """A kernel's parameters in order: name, type, and the value of those that were compiled in.

    ``declared`` are the positions of parameters that the kernel declares ``tl.constexpr``; keys of
    the other two are names, positions, or paths that begin with a position, by Triton's version.
    """
    kinds = by_name(names, signature)
    values = by_name(names, constants)
    fixed = {names[n] for n in declared if n < len(names)}
    return [
        (name, "constexpr" if name in fixed else kinds.get(name), values.get(name, ABSENT))
        for name in names
    ]


def parameters_of(source: Any) -> Parameters:
    """The parameters of what Triton compiled."""
    written = getattr(source, "fn", None)
    signature = dict(getattr(source, "signature", None) or {})
    constants = getattr(source, "constants", None) or getattr(source, "constexprs", None) or {}
    names = [str(n) for n in getattr(written, "arg_names", ())]
    names = names or [f"arg{n}" for n in range(len(signature))]
    return parameters(names, signature, dict(constants), getattr(written, "constexprs", ()))


def by_name(names: list[str], values: dict[Any, Any]) -> dict[str, Any]:
    """Values of arguments by name; ``values`` has them by name, position or path of positions."""
    out = {}
    for key, value in values.items():
        first, *path = key if isinstance(key, tuple) else (key,)
        if isinstance(first, int) and first < len(names):
            out[names[first] + "".join(f"[{i}]" for i in path)] = value
        else:
            out[str(key)] = value
    return out


def watch(kernel: Any, record: Callable[[], object]) -> None:
    """Count the launches of a kernel that has just been loaded.

    ``record`` is called before its first launch in a recording, and keeps no kernel alive.
    """
    space = kernel.__dict__
    slot = "_run" if space.get("_run") is not None else "run"
    inner = space.get(slot)
    if inner is None:
        private_names.missing("triton.compiler.compiler:CompiledKernel._run")
    if inner is None or counter_of(inner) is not None:
        return
    metadata = kernel.metadata
    warp = getattr(metadata, "warp_size", None) or getattr(metadata.target, "warp_size", 32)
    threads = int(metadata.num_warps) * int(warp or 32)
    digest = kernel.hash
    name = metadata.name
    shared = metadata.shared
    record_target = _target_recorder(record, digest, name, threads, shared)
    space[slot] = counted(inner, LaunchCounter(record_target, LEADING, parameters_of(kernel.src)))


def watch_static(
    launcher: Any, kernel: Any, signature: Any, constants: Any, record: Callable[[], object]
) -> None:
    """Count the launches of one of Inductor's launchers that leave Triton's aside."""
    space = launcher.__globals__
    inner = space["runner"]
    if counter_of(inner) is not None:
        return
    names = [str(n) for n in kernel.arg_names]
    bound = parameters(names, dict(signature or {}), dict(constants or {}), kernel.full_constexprs)
    threads = int(kernel.num_warps) * 32
    record_target = _target_recorder(record, kernel.hash, kernel.name, threads, kernel.shared)
    space["runner"] = counted_function(inner, LaunchCounter(record_target, STATIC_LEADING, bound))


def watch_faster(slow: Any, fast: Any) -> None:
    """Count the launches of the launcher that Inductor makes of another after its first launch.

    It makes none (None) where the launcher is not static, or where fast launchers are off.
    """
    if fast is None:
        return
    counter = counter_of(slow.__globals__.get("runner"))
    inner = fast.__globals__.get("runner")
    if counter is not None and inner is not None and counter_of(inner) is None:
        fast_counter = LaunchCounter(counter.record, counter.leading, counter.parameters)
        fast.__globals__["runner"] = counted_function(inner, fast_counter)


def _target_recorder(
    record: Callable[[], object], digest: Any, name: Any, threads: int, shared: Any
) -> Callable[[], call_counts.CallTarget]:
    bytes_known = shared if isinstance(shared, int) else None
    facts = {"hash": str(digest), "block": [threads, 1, 1], "shared_bytes": bytes_known}
    recorded = guarded(record, "a kernel that was compiled before")

    def record_target() -> call_counts.CallTarget:
        recorded()
        return call_counts.call_target("triton", str(name), str(digest), facts)

    return record_target
