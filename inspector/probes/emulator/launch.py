"""Launches of compiled kernels: their PTX is run, or what they would write is made absent."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Iterator
from typing import Any

from ..hooks import observed
from . import current, executor, native, ptx, say, tuning, writes
from .faults import AbsentValue, memory_of
from .kernel_launch import Launch, Size
from .say import WAITING
from .tuning import BENCHMARKS, BENCHMARKS_SECONDS

ABSENT_VARIABLES: dict[str, dict[str, str]] = {}
"""By PTX, the variables that a kernel may have written that was not run to its end, and why."""


def launch(call: Launch) -> None:
    """Run a launch, or make absent what it would have written; raises what ends it on a GPU."""
    pointers = list(call.pointers())
    absent = ABSENT_VARIABLES.get(call.text, {})
    reasons = [native.absence_at(word) for _, word in pointers]
    reasons += (
        [absent[name] for name in writes.used(call.text, call.entry, absent)] if absent else []
    )
    why = next(filter(None, reasons), "") or _compute(call)
    if why:
        _make_absent(call, pointers, why)


def _compute(call: Launch) -> str:
    """Run a launch and print what it prints; return why its values are absent, or an empty text."""
    name = call.name
    allowed = BENCHMARKS.most(current().seconds)
    if BENCHMARKS.depth and allowed <= 0:
        return (
            f"the kernel {name} was compiled and not run: the launches of this program's "
            f"benchmarks, which measure nothing here, took their {BENCHMARKS_SECONDS:g} s of "
            "work; --values all computes every one"
        )
    try:
        with WAITING.on("launches computed", name):
            printed = "".join(ptx.run(call, allowed))
        if printed:
            sys.stdout.write(printed)
        return ""
    except AbsentValue as absent:
        return str(absent)
    except ptx.OverBudget as over:
        key = "over-budget"
        why = (
            f"the kernel {name} was not run to its end: its {math.prod(call.grid)} {call.unit}s "
            f"take about {over.seconds:.2g} s of work or more, more than the {allowed:g} s "
            "allowed; --values all, or more --value-seconds, computes it"
        )
        if BENCHMARKS.depth:
            return why
    except ptx.NotExecutable as error:
        key, why = "not-run", f"the PTX of {name} cannot be run here ({error})"
    except ptx.Failed as error:
        key, why = "failed", f"the kernel {name} was not run to its end ({error})"
    say.once(f"{key}:{name}", f"{why}; reading its outputs will raise")
    return why


def _make_absent(call: Launch, pointers: list[tuple[int, int]], why: str) -> None:
    """Make absent what the kernel may write, also behind addresses in the arguments' memory."""
    if not native.loaded():
        # Nothing could make a later read of a plain CPU tensor raise: this launch does.
        raise RuntimeError(f"ptxview: {why}")
    written = writes.written(call.text, call.entry)
    names = [] if call.obstacle else writes.parameters(call.text, call.entry)
    starts: set[int] = set()
    for position, word in pointers:
        name = names[position] if position < len(names) else ""
        if not name or name in written.direct:
            starts.add(word)
        if loads := written.behind.get(name):
            if unknown := native.absence_at(word):
                raise RuntimeError(
                    f"ptxview: {why}; where it would have written is not known, for it writes "
                    f"through addresses kept in a tensor whose value is absent: {unknown}"
                )
            starts |= writes.behind([word], loads)
    for start in starts:
        native.mark_absent_at(start, why)
    variables = [name for name in writes.variables(call.text) if name in written.direct]
    ABSENT_VARIABLES.setdefault(call.text, {}).update(dict.fromkeys(variables, why))


# -- Triton's launches ----------------------------------------------------------------------------


class Launcher:
    """Triton's launcher: called with grid, stream, handles, hooks and arguments of a kernel."""

    def __init__(self, src: Any, metadata: Any) -> None:
        self.src = src
        self.metadata = metadata

    def __call__(
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: Any,
        function: Any,
        packed_metadata: Any,
        launch_metadata: Any,
        enter_hook: Any,
        exit_hook: Any,
        *args: Any,
    ) -> None:
        """Run the grid; raises what a GPU would raise for a pointer that it cannot reach."""
        _refuse_host_pointers(args)
        if enter_hook is not None:
            enter_hook(launch_metadata)
        if not tuning.compiling_only() and grid_x * grid_y * grid_z > 0:
            launch(self._launch((int(grid_x), int(grid_y), int(grid_z)), args))
        if exit_hook is not None:
            exit_hook(launch_metadata)

    def _launch(self, grid: Size, args: tuple[Any, ...]) -> Launch:
        fn, metadata = getattr(self.src, "fn", None), self.metadata
        signature = dict(getattr(self.src, "signature", None) or {})
        named = _named(fn, self.src, args)
        fixed = _constants(self.src, list(named))
        passed = {
            name: (signature.get(name, signature.get(position)), value)
            for position, (name, value) in enumerate(named.items())
            if name not in fixed
        }
        tensors = dict(
            pair for name, (_, value) in passed.items() for pair in _tensors_of(name, value)
        )
        storages = [tensor.untyped_storage() for tensor in tensors.values()]
        described = iter(getattr(metadata, "tensordesc_meta", None) or ())
        text, obstacle = getattr(self.src, "_ptxview_ptx", ""), ""
        arguments: list[Any] = []
        try:
            for kind, value in passed.values():
                arguments += _flat(kind, value, described)
        except NotImplementedError as error:
            # The addresses among them are those of what the kernel may write.
            arguments = [int(tensor.data_ptr()) for tensor in tensors.values()]
            obstacle = str(error)
        return Launch(
            text=text,
            entry=str(metadata.name),
            name=str(metadata.name),
            grid=grid,
            block=None if ".reqntid" in text else (32 * int(metadata.num_warps), 1, 1),
            shared=int(getattr(metadata, "shared", 0) or 0),
            arguments=arguments,
            memory=lambda: {name: memory_of(tensor) for name, tensor in tensors.items()},
            host=frozenset(
                (first, first + int(storage.nbytes()))
                for storage in storages
                if storage.nbytes()
                and native.memory_around(first := int(storage.data_ptr()), first + 1) is None
            ),
            scratch=tuple(
                (
                    int(getattr(metadata, f"{name}_scratch_size", 0) or 0) * math.prod(grid),
                    int(getattr(metadata, f"{name}_scratch_align", 1) or 1),
                )
                for name in ("global", "profile")
            ),
            clusters=_clusters(metadata),
            unit="program",
            file=str(
                getattr(getattr(getattr(fn, "fn", None), "__code__", None), "co_filename", "")
            ),
            obstacle=obstacle,
        )


def _clusters(metadata: Any) -> int:
    dims = getattr(metadata, "cluster_dims", None) or (1,)
    return max(int(getattr(metadata, "num_ctas", 1) or 1), math.prod(int(n) for n in dims))


def _constants(src: Any, names: list[str]) -> dict[str, Any]:
    """Arguments that were compiled in, with their values where these are known."""
    constants: dict[str, Any] = {}
    signature = getattr(src, "signature", None) or {}
    for key, kind in dict(signature).items():
        if kind == "constexpr":
            constants[names[key] if isinstance(key, int) else str(key)] = None
    for key, value in dict(getattr(src, "constants", None) or {}).items():
        path = key[0] if isinstance(key, tuple) else key
        if not isinstance(key, tuple) or len(key) == 1:
            constants[names[path] if isinstance(path, int) else str(path)] = value
    return constants


def _named(fn: Any, src: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    """Arguments by name; callers that leave constants out get them filled in."""
    names = list(getattr(fn, "arg_names", ())) or [f"arg{i}" for i in range(len(args))]
    if len(args) == len(names):
        return dict(zip(names, args, strict=True))
    constants = _constants(src, names)
    given = iter(args)
    return {name: constants[name] if name in constants else next(given, None) for name in names}


def _tensors_of(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The tensors in one argument, as errors name them: ``pair[1]`` in a tuple.

    Descriptors and wrappers of a tensor have it as ``base``.
    """
    import torch

    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (tuple, list)):
        for index, part in enumerate(value):
            yield from _tensors_of(f"{name}[{index}]", part)
    elif hasattr(value, "base") and (hasattr(value, "data_ptr") or hasattr(value, "block_shape")):
        yield from _tensors_of(name, value.base)


def _refuse_host_pointers(args: tuple[Any, ...]) -> None:
    if not native.loaded():
        return  # without the shim CPU tensors are all there is
    for position, value in enumerate(args):
        for _, tensor in _tensors_of("", value):
            # A null pointer, of an empty tensor, is valid.
            if tensor.device.type == "cpu" and not tensor.is_pinned() and tensor.data_ptr():
                raise ValueError(
                    f"Pointer argument (at {position}) cannot be accessed from Triton (cpu tensor?)"
                )


# -- arguments as the compiler lowers them ------------


def _flat(kind: Any, value: Any, described: Iterator[Any]) -> list[Any]:
    """An argument as the values of its parameters; raises NotImplementedError."""
    if kind == "constexpr":
        return []
    if isinstance(value, (tuple, list)):
        kinds = kind if isinstance(kind, (tuple, list)) else [None] * len(value)
        pairs = zip(kinds, value, strict=True)
        return [part for each, one in pairs for part in _flat(each, one, described)]
    if hasattr(value, "block_shape"):
        return [_packed(None, part) for part in _descriptor(value, next(described, None))]
    return [_packed(kind, value)]


def _descriptor(value: Any, lowered: Any) -> list[Any]:
    """A tensor descriptor: a tensor map if the target has them, else its parts."""
    shape, strides = [int(n) for n in value.shape], [int(n) for n in value.strides]
    if not lowered:
        from triton.backends import driver, nvidia

        split = getattr(driver, "decompose_descriptor", None)
        split = split or getattr(nvidia.driver, "decompose_descriptor", None)
        if split is None:
            raise NotImplementedError("how a tensor descriptor is lowered is not known")
        parts = list(split(value))
        # Later versions pass shape and strides twice, for the code after the descriptor's.
        return parts if parts[-len(strides) :] == strides else [*parts, *shape, *strides]
    if lowered.get("fp4_padded") or lowered.get("is_im2col"):
        raise NotImplementedError("it uses a tensor map of padded 4-bit numbers or of im2col")
    size = int(lowered["elem_size"])
    element = 11 if getattr(value, "round_f32_to_tf32", False) else int(lowered["elem_type"])
    made = executor.load("execute").TensorMap(
        int(value.base.data_ptr()),
        tuple(reversed(shape)),
        tuple(step * size for step in reversed(strides[:-1])),
        tuple(int(n) for n in reversed(lowered["block_size"])),
        element,
        int(lowered["swizzle"]),
        int(getattr(value, "padding", "zero") == "nan"),
    )
    return [made.encode(), *shape, *strides]


def _packed(kind: Any, value: Any) -> Any:
    """A value as its parameter's; floats as the bytes that Triton's launcher gives."""
    if hasattr(value, "data_ptr"):
        return int(value.data_ptr())
    if value is None:
        return 0
    if isinstance(value, bytes):
        return value
    if kind == "bf16":
        return struct.pack("<f", float(value))[2:]
    if kind in ("fp16", "fp32", "f32", "fp64"):
        return struct.pack({"fp16": "<e", "fp64": "<d"}.get(kind, "<f"), float(value))
    return value if isinstance(value, float) else int(value)


def attach(compiler: Any) -> None:
    """Let a compiled kernel's source keep the PTX that is run."""
    kernel = compiler.CompiledKernel
    original = kernel.__init__

    def init(self: Any, src: Any, metadata_group: Any, *args: Any, **given: Any) -> None:
        original(self, src, metadata_group, *args, **given)
        try:
            src._ptxview_ptx = str(self.asm.get("ptx", ""))
        except AttributeError:
            pass

    kernel.__init__ = init
    compiler.compile = observed(compiler.compile, _compilation_begins, _compilation_ends)


def _compilation_begins(args: tuple[Any, ...], given: dict[str, Any]) -> bool:
    source = args[0] if args else given.get("src")
    return WAITING.begin("kernels compiled", str(getattr(source, "name", None) or "a kernel"))


def _compilation_ends(begun: bool, result: Any, error: BaseException | None) -> None:
    WAITING.end(begun)
