"""Launches of Triton's kernels, hand-written and generated, counted where the driver is called.

The object that a compiled kernel launches with, made when it is loaded, is replaced by a proxy. It
gets the grid as it was evaluated and the arguments as they were bound, from any caller:
``kernel[grid](…)``, an autotuner, or Inductor's generated code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import private_names
from ..hooks import guarded
from . import subjects
from .launch import Counter, Parameters, counted, counted_function, counter_of

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
    kinds = {_name(names, k): v for k, v in signature.items()}
    values = {_name(names, k): v for k, v in constants.items()}
    fixed = {names[n] for n in declared if n < len(names)}
    return [
        (name, "constexpr" if name in fixed else kinds.get(name), values.get(name))
        for name in names
    ]


def _name(names: list[str], key: Any) -> str:
    if isinstance(key, tuple):
        if len(key) > 1:
            return str(key)
        key = key[0] if key else ""
    return names[key] if isinstance(key, int) and key < len(names) else str(key)


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
    source, metadata = kernel.src, kernel.metadata
    written = getattr(source, "fn", None)
    signature = dict(getattr(source, "signature", None) or {})
    names = [str(n) for n in getattr(written, "arg_names", ())]
    names = names or [f"arg{n}" for n in range(len(signature))]
    constants = getattr(source, "constants", None) or getattr(source, "constexprs", None) or {}
    bound = parameters(names, signature, dict(constants), getattr(written, "constexprs", ()))
    warp = getattr(metadata, "warp_size", None) or getattr(metadata.target, "warp_size", 32)
    threads = int(metadata.num_warps) * int(warp or 32)
    digest, name, shared = kernel.hash, metadata.name, metadata.shared
    subject = _recording(record, digest, name, threads, shared)
    space[slot] = counted(inner, Counter(subject, LEADING, bound))


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
    subject = _recording(record, kernel.hash, kernel.name, threads, kernel.shared)
    space["runner"] = counted_function(inner, Counter(subject, STATIC_LEADING, bound))


def watch_faster(slow: Any, fast: Any) -> None:
    """Count the launches of the launcher that Inductor makes of another after its first launch."""
    counter, inner = counter_of(slow.__globals__.get("runner")), fast.__globals__.get("runner")
    if counter is not None and inner is not None and counter_of(inner) is None:
        again = Counter(counter.record, counter.leading, counter.parameters)
        fast.__globals__["runner"] = counted_function(inner, again)


def _recording(
    record: Callable[[], object], digest: Any, name: Any, threads: int, shared: Any
) -> Callable[[], subjects.Subject]:
    facts = {
        "hash": str(digest),
        "block": [threads, 1, 1],
        "shared_bytes": shared if isinstance(shared, int) else None,
    }

    recorded = guarded(record, "a kernel that was compiled before")

    def subject() -> subjects.Subject:
        recorded()
        return subjects.subject("triton", str(name), str(digest), dict(facts))

    return subject


def attach_autotuner(module: Any) -> None:
    """``triton.runtime.autotuner``: what it launches to compare is not the program's."""
    subjects.as_benchmark("triton.runtime.autotuner:Autotuner._bench")
