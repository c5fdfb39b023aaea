"""One launch of a compiled kernel: its PTX is run. Where it cannot be, its outputs are absent."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import current, native, ptx, say, tuning, writes
from .faults import AbsentValue
from .tuning import BENCHMARKS, BENCHMARKS_SECONDS
from .waiting import WAITING


def compute(name: str, blocks: str, run: Callable[[float], Iterable[str]]) -> str:
    """Run a launch for its values, and print what it prints.

    ``blocks`` is how many it has, as a message says it; ``run`` gets the seconds that they may
    take, and raises as ``ptx.run`` does. Returns why values are absent, or an empty text.
    """
    allowed = BENCHMARKS.most(current().seconds)
    if BENCHMARKS.depth and allowed <= 0:
        return (
            f"the kernel {name} was compiled and not run: the launches of this program's "
            f"benchmarks, which measure nothing here, took their {BENCHMARKS_SECONDS:g} s of "
            "work; --values all computes every one"
        )
    try:
        with WAITING.on("launches computed", name):
            printed = "".join(run(allowed))
        if printed:
            sys.stdout.write(printed)
        return ""
    except AbsentValue as absent:
        return str(absent)
    except ptx.OverBudget as over:
        key, why = "over-budget", (
            f"the kernel {name} was not run to its end: its {blocks} take about "
            f"{over.seconds:.2g} s of work or more, more than the {allowed:g} s allowed; "
            "--values all, or more --value-seconds, computes it"
        )  # fmt: skip
        if BENCHMARKS.depth:
            return why
    except ptx.NotExecutable as error:
        key, why = "not-run", f"the PTX of {name} cannot be run here ({error})"
    except ptx.Failed as error:
        key, why = "failed", f"the kernel {name} was not run to its end ({error})"
    say.once(f"{key}:{name}", f"{why}; reading its outputs will raise")
    return why


class Launcher:
    """What Triton calls with grid, stream, handles, hooks and arguments of a loaded kernel."""

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
        fn = getattr(self.src, "fn", None)
        named = _named(fn, self.src, args)
        _refuse_host_pointers(args)
        if enter_hook is not None:
            enter_hook(launch_metadata)
        if not tuning.compiling_only() and grid_x * grid_y * grid_z > 0:
            self._run((int(grid_x), int(grid_y), int(grid_z)), fn, named)
        if exit_hook is not None:
            exit_hook(launch_metadata)

    def _run(self, grid: tuple[int, int, int], fn: Any, named: dict[str, Any]) -> None:
        name = str(getattr(self.metadata, "name", getattr(fn, "__name__", "a kernel")))
        why = next((r for r in map(native.absence, _tensors(named.values())) if r), "") or compute(
            name,
            f"{math.prod(grid)} programs",
            lambda seconds: self._execute(grid, fn, named, seconds),
        )
        if why:
            self._make_absent(named, why)

    def _execute(
        self, grid: tuple[int, int, int], fn: Any, named: dict[str, Any], seconds: float
    ) -> tuple[str, ...]:
        """Run the grid's PTX; raises what ``ptx.run`` raises."""
        fixed = _constants(self.src, list(named))
        passed = {
            name: (position, value)
            for position, (name, value) in enumerate(named.items())
            if name not in fixed
        }
        tensors: dict[str, Any] = {}
        for name, (_, value) in passed.items():
            tensors.update(_tensors_of(name, value))
        return ptx.run(
            getattr(self.src, "_ptxview_asm", {}), self.metadata,
            dict(getattr(self.src, "signature", None) or {}), grid, passed, tensors,
            _file_of(fn), seconds,
        )  # fmt: skip

    def _make_absent(self, named: dict[str, Any], why: str) -> None:
        """Mark what the kernel may write, or all that it can reach where that is not known."""
        ttir = getattr(self.src, "_ptxview_ttir", "")
        written = writes.written(ttir)
        fixed = _constants(self.src, list(named))
        passed = [value for name, value in named.items() if name not in fixed]
        matches = written is not None and len(passed) == len(writes.parameters(ttir))
        if written is None or not matches:
            everything = range(len(passed))
            written = writes.Written(
                frozenset(everything), dict.fromkeys(everything, writes.MOST_STEPS)
            )
        _mark_behind(passed, written, why, tables_only=not matches)
        for position in written.arguments:
            for tensor in _tensors([passed[position]]):
                native.mark_absent(tensor, why)
            # A bare address: an integer within some tensor's memory.
            for address in _integers([passed[position]]):
                if native.memory_around(address, address + 1):
                    native.mark_absent_at(address, why)


def _mark_behind(passed: list[Any], written: writes.Written, why: str, tables_only: bool) -> None:
    """Make absent what the addresses in the arguments' memory point at.

    ``tables_only``: where it is not known which of them hold addresses, those of 64-bit integers.
    """
    import torch

    if not native.loaded():
        return
    for position, steps in written.behind.items():
        starts = list(_integers([passed[position]]))
        for tensor in _tensors([passed[position]]):
            table = tensor.dtype in (torch.int64, torch.uint64)
            unknown = native.absence(tensor)
            if table and unknown:
                raise RuntimeError(
                    f"ptxview: {why}; where it would have written is not known, for it writes "
                    f"through addresses kept in a tensor whose value is absent: {unknown}"
                )
            if tensor.numel() and not unknown and (table or not tables_only):
                starts.append(tensor.data_ptr())
        for start in writes.behind(starts, steps):
            native.mark_absent_at(start, why)


def _file_of(fn: Any) -> str:
    """The file that defines a kernel."""
    code = getattr(getattr(fn, "fn", None), "__code__", None)
    return str(getattr(code, "co_filename", ""))


def _constants(src: Any, names: list[str]) -> dict[str, Any]:
    """Arguments that were compiled in, with their values where they are known."""
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
    """Arguments by name; callers that pass only what is no constant get the constants filled in."""
    names = list(getattr(fn, "arg_names", ())) or [f"arg{i}" for i in range(len(args))]
    if len(args) == len(names):
        return dict(zip(names, args, strict=True))
    constants = _constants(src, names)
    given = iter(args)
    return {name: constants[name] if name in constants else next(given, None) for name in names}


def _tensors(values: Any) -> Iterator[Any]:
    """The tensors among arguments: inside tuples, descriptors and wrappers too."""
    import torch

    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _tensors(value)
        elif (hasattr(value, "base") and hasattr(value, "data_ptr")) or hasattr(
            value, "block_shape"
        ):
            yield from _tensors([value.base])


def _tensors_of(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The tensors in one argument, as an error names them: ``pair[1]`` in a tuple."""
    if isinstance(value, (tuple, list)):
        for index, part in enumerate(value):
            yield from _tensors_of(f"{name}[{index}]", part)
    else:
        yield from ((name, tensor) for tensor in _tensors([value]))


def _integers(values: Any) -> Iterator[int]:
    for value in values:
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _integers(value)


def _refuse_host_pointers(args: tuple[Any, ...]) -> None:
    if not native.loaded():
        return  # without the shim CPU tensors are all there is
    for position, value in enumerate(args):
        for tensor in _tensors([value]):
            # A null pointer, of an empty tensor, is valid.
            if tensor.device.type == "cpu" and not tensor.is_pinned() and tensor.data_ptr():
                raise ValueError(
                    f"Pointer argument (at {position}) cannot be accessed from Triton (cpu tensor?)"
                )


def attach(compiler: Any) -> None:
    """Let a compiled kernel's source carry what it became: what it writes, and what is run."""
    kernel = compiler.CompiledKernel
    original = kernel.__init__

    def init(self: Any, src: Any, metadata_group: Any, *args: Any, **given: Any) -> None:
        original(self, src, metadata_group, *args, **given)
        # What is written in Gluon has no TTIR.
        ttir = self.asm.get("ttir", self.asm.get("ttgir"))
        try:
            src._ptxview_asm = self.asm
            if isinstance(ttir, str):
                src._ptxview_ttir = ttir
        except AttributeError:
            pass

    kernel.__init__ = init
    compiler.compile = WAITING.counted("kernels compiled", _compiled_name, compiler.compile)


def _compiled_name(src: Any, *args: Any, **given: Any) -> str:
    return str(getattr(src, "name", None) or "a kernel")
