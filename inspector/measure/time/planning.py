"""Plans which launches are run again, and the job of the child process for each."""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path, PurePath
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from inspector.analysis.argument_memory import memory_blocks
from inspector.analysis.tensor_maps import descriptor_layouts
from inspector.base.errors import PtxviewError, Unreadable
from inspector.base.model import (
    Argument,
    Call,
    Content,
    DescriptorLayout,
    Kernel,
    Origin,
    Recording,
    Stage,
    Variant,
)
from inspector.base.names import base_name
from inspector.base.units import plural
from inspector.measure.ncu.report import function_of
from inspector.measure.time.results import KernelTime, from_json, median
from inspector.parsers.cubin import kernel_parameters
from inspector.recording.contents import Blob
from inspector.system import files

KernelVariant = tuple[Kernel, Variant]


class PlannedLaunch(Struct, frozen=True):
    kernel: Kernel
    variant: Variant
    number: int
    call: Call


class Plan(Struct, frozen=True):
    """The launches to run, and a sentence on each one that is left out."""

    launches: tuple[PlannedLaunch, ...]
    left_out: tuple[str, ...]


def most_frequent(name: str, calls: Sequence[Call], max_calls: int) -> tuple[list[Call], list[str]]:
    """The ``max_calls`` most frequent of recorded calls, and a sentence on the others."""
    often = sorted(calls, key=lambda call: -call.count)[:max_calls]
    omitted_count = len(calls) - max_calls
    sentence = (
        f"{name}: {omitted_count} of {len(calls)} distinct calls, the less frequent ones (--calls)"
    )
    return often, [sentence] if omitted_count > 0 else []


def plan(
    variants: Iterable[KernelVariant],
    max_calls: int,
    covered: Container[tuple[str, str]] = (),
    kinds: Container[str] = ("triton",),
) -> Plan:
    """The ``max_calls`` most frequent calls of each variant, of some ``kinds``, in list order.

    Variants that are ``covered`` (kernel's id, variant's id) are launched by a repeated call, so
    they need no recorded launch of their own.
    """
    launches: list[PlannedLaunch] = []
    left_out: list[str] = []
    unknown: list[str] = []
    for kernel, variant in variants:
        title = f"{kernel.name} {variant.id}"
        calls = [c for c in variant.calls if c.kind in kinds and c.grid and c.block]
        if (kernel.id, variant.id) in covered and not variant.calls:
            continue
        obstacle = _obstacle(variant)
        if obstacle is not None:
            left_out.append(f"{title}{obstacle}")
        elif not calls:
            unknown.append(kernel.name)
        else:
            often, dropped = most_frequent(title, calls, max_calls)
            numbered = [(n, call) for n, call in enumerate(variant.calls) if call in often]
            launches += [PlannedLaunch(kernel, variant, n, call) for n, call in numbered]
            left_out += dropped
    if unknown:
        names = tuple(dict.fromkeys(unknown))
        shown = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
        count_text = plural(len(unknown), "variant")
        left_out.append(f"{count_text} of which no launch with its arguments was recorded: {shown}")
    return Plan(tuple(launches), tuple(left_out))


def _obstacle(variant: Variant) -> str | None:
    """What a sentence says after a variant's name where it cannot be launched at all."""
    if variant.error is not None:
        how = "did not compile" if variant.uncompiled else "could not be loaded"
        return f" {how}: {variant.failed}"
    if Stage.SASS not in variant.stages:
        return ": its cubin was not recorded"
    return None


class LaunchNeeds(Struct, frozen=True):
    """Bytes of global and of profiling scratch a program; whether the launch is cooperative."""

    scratch: tuple[int, int] = (0, 0)
    cooperative: bool = False


def launch_needs(events: Iterable[Mapping[str, object]]) -> dict[str, LaunchNeeds]:
    """What the launches of Triton's variants need besides arguments, by hash."""
    out: dict[str, LaunchNeeds] = {}
    for event in events:
        metadata = event.get("metadata")
        if event.get("event") == "triton" and isinstance(metadata, Mapping):
            sizes = [metadata.get(f"{name}_scratch_size") for name in ("global", "profile")]
            global_bytes, profile_bytes = (n if isinstance(n, int) and n > 0 else 0 for n in sizes)
            digest = str(event.get("hash") or metadata.get("hash"))
            together = metadata.get("launch_cooperative_grid") is True
            out[digest] = LaunchNeeds((global_bytes, profile_bytes), together)
    return out


def job_of(launch: PlannedLaunch, cubin: bytes, needs: LaunchNeeds) -> dict[str, object]:
    """The child process's job for a launch. Raises ``PtxviewError`` if it cannot be run."""
    call = launch.call
    variant = launch.variant
    if (signature := kernel_parameters(cubin, variant.symbol)) is None:
        raise PtxviewError("its cubin does not say what parameters it has")
    if call.grid is None or call.block is None:
        raise PtxviewError("its grid was not recorded")
    ctas = variant.config.get("num_ctas")
    wide = ctas if isinstance(ctas, int) and ctas > 0 else 1
    return {
        "symbol": variant.symbol,
        "grid": call.grid,
        "block": call.block,
        "shared": call.shared_bytes,
        "cluster": wide,
        "cooperative": needs.cooperative,
        "sizes": [p.size for p in signature.parameters],
        "scratch": [bytes_each * prod(call.grid) * wide for bytes_each in needs.scratch],
        **_arguments(call, descriptor_layouts(call.arguments, variant.descriptor_layouts)),
    }


def _arguments(
    call: Call, layouts: Mapping[str, DescriptorLayout] | None = None
) -> dict[str, object]:
    """A call's arguments as a job has them, and the memory that some of them share.

    ``layouts`` are those of tensor descriptors, by their names.
    """
    return {
        "arguments": [
            {**to_builtins(a), "layout": to_builtins((layouts or {}).get(a.name))}
            for a in call.arguments
        ],
        "memory": [to_builtins(b) for b in memory_blocks(call.arguments, call.shares)],
    }


def kept_files(job: Mapping[str, Any], folder: Path, blob: Blob) -> dict[str, object]:
    """Write a job's kept tensors to files, compressed as the recording has them.

    Returns its arguments with these files' paths. One that cannot be read has a path and no file.
    """
    arguments = []
    for argument in job.get("arguments", ()):
        file = None
        if (content := blob(argument.get("content"))) is not None:
            file = folder / argument["content"]
            with suppress(PtxviewError):
                file.write_bytes(content.read())
        arguments.append({**argument, "content": file and str(file)})
    return {"arguments": arguments}


def inputs(arguments: Sequence[Argument]) -> str:
    """Tensors in words: ``float32 1823×781, 1823×781``."""
    tensors = [(a.dtype, a.shape) for a in arguments if a.shape is not None]
    sizes = ("×".join(map(str, shape)) or "scalar" for _, shape in tensors)
    dtypes = [dtype for dtype, _ in tensors]
    three = zip([None, *dtypes], dtypes, sizes, strict=False)
    return ", ".join(size if dtype == last else f"{dtype} {size}" for last, dtype, size in three)


_TOKEN = re.compile(r"\w+|[^\w\s]")


class Library(Struct, frozen=True):
    """The library of an extension's function; None for what was not recorded."""

    path: str
    size: int | None = None
    sha256: str | None = None

    def changed(self) -> str | None:
        """A sentence if the file has changed since, else None. Raises ``Unreadable``."""
        with files.opened(Path(self.path)) as file:
            same = self.size in (None, file.size)
            if self.sha256 is not None:
                same = files.digest(file) == self.sha256
        if same:
            return None
        return f"{self.path} was rebuilt since it was recorded: the time is of the new build"


class ReplayableCall(Struct, frozen=True):
    """A call to be repeated; ``number`` is its place among the recording's calls.

    ``code`` is a graph's text, ``code_path`` its path in Inductor's cache. ``among`` are the
    variants that it may launch; ``requested`` those whose time is wanted, empty for all.
    """

    call: Call
    number: int
    among: tuple[KernelVariant, ...]
    code: Content | None = None
    library: Library | None = None
    requested: frozenset[tuple[str, str]] = frozenset()
    code_path: str | None = None


def libraries(events: Iterable[Mapping[str, object]]) -> dict[str, Library]:
    """The library of each extension's module by the module's name; the last one recorded."""
    out: dict[str, Library] = {}
    for event in events:
        kind = event.get("event")
        name = event.get("name")
        path = event.get("path")
        description = event.get("library")
        if kind == "library" and isinstance(name, str) and isinstance(path, str):
            if out.get(name, Library("")).path != path:
                out[name] = Library(path)
        elif kind == "call" and isinstance(name, str) and isinstance(description, Mapping):
            out[name.rpartition(".")[0]] = from_json(Library, {"path": "", **description})
    return out


def replayable_calls(
    recording: Recording,
    events: Iterable[Mapping[str, object]],
    variants: Sequence[KernelVariant],
    requested_calls: Sequence[Call],
) -> list[ReplayableCall]:
    """The ``requested_calls``, and calls that launch ``variants`` without a recorded launch."""
    by_module = libraries(events)
    out: list[ReplayableCall] = []
    for number, call in enumerate(recording.calls):
        if call.kind == "graph":
            repeated = _graph_call(recording, call, number)
            launchable = [f for f in repeated.among if not _has_triton_call(f)]
        elif call.kind == "extension":
            library = by_module.get(call.name.rpartition(".")[0])
            launchable = list(_kernels_near(recording, library))
            repeated = ReplayableCall(call, number, tuple(launchable), library=library)
        else:
            continue
        requested = frozenset((k.id, v.id) for k, v in variants if (k, v) in launchable)
        if call in requested_calls:
            out.append(repeated)
        elif requested:
            out.append(replace(repeated, requested=requested))
    return out


def _graph_call(recording: Recording, call: Call, number: int) -> ReplayableCall:
    """A call of a graph with those of the graph's kernels and code that were recorded."""
    graph = next((g for g in recording.graphs if g.id == call.name), None)
    if graph is None:
        return ReplayableCall(call, number, ())
    among = tuple((k, v) for k, v in recording.variants() if k.id in graph.kernels)
    repeated = ReplayableCall(call, number, among)
    code = graph.stages.get(Stage.OUTPUT_CODE)
    if code is not None:
        repeated = replace(repeated, code=code.content, code_path=code.origin_path)
    return repeated


def _has_triton_call(kernel_variant: KernelVariant) -> bool:
    """Whether a launch of the variant by Triton was recorded, which can be repeated by itself."""
    return any(call.kind == "triton" for call in kernel_variant[1].calls)


def frequent(
    calls: Sequence[ReplayableCall], max_calls: int
) -> tuple[list[ReplayableCall], list[str]]:
    """The ``max_calls`` most frequent calls of each graph and function; sentences on the others."""
    out: list[ReplayableCall] = []
    left_out: list[str] = []
    for name in dict.fromkeys((a.call.kind, a.call.name) for a in calls):
        same_name = [a for a in calls if (a.call.kind, a.call.name) == name]
        often, omitted = most_frequent(name[1], [a.call for a in same_name], max_calls)
        out += [a for a in same_name if a.call in often]
        left_out += omitted
    return out, left_out


def _kernels_near(recording: Recording, library: Library | None) -> tuple[KernelVariant, ...]:
    """Kernels of CUDA C++ whose object lay in the library's folder; all if none did."""
    all_kernels = tuple((k, v) for k, v in recording.variants() if k.origin is Origin.NVCC)
    if library is None:
        return all_kernels
    folder = PurePath(library.path).parent
    in_folder: list[KernelVariant] = []
    for kernel, variant in all_kernels:
        sass = variant.stages.get(Stage.SASS)
        if sass is not None and PurePath(sass.origin_path or "").parent == folder:
            in_folder.append((kernel, variant))
    return tuple(in_folder) or all_kernels


def job_of_call(
    repeated: ReplayableCall, mode: str
) -> tuple[dict[str, object], bytes, tuple[str, ...]]:
    """The child process's job, the code that it needs, and warnings.

    Raises ``PtxviewError`` if the call cannot be run.
    """
    call = repeated.call
    job: dict[str, object] = {"kind": call.kind, "name": call.name, **_arguments(call)}
    if call.kind == "graph":
        if repeated.code is None:
            raise PtxviewError("the code of this graph was not recorded")
        code_path = Path(repeated.code_path or "/nowhere")
        # A graph is two folders deep in Inductor's cache.
        if code_path.is_file():
            job["cache"] = str(code_path.parent.parent)
        return job, repeated.code.read(), ()
    if mode == "target":
        raise PtxviewError("an extension for the emulated device runs on the CPU")
    if repeated.library is None:
        raise PtxviewError("the path of this function's library was not recorded")
    module, _, function = call.name.rpartition(".")
    job.update(module=module, function=function, library=repeated.library.path)
    try:
        warning = repeated.library.changed()
    except Unreadable as error:
        raise PtxviewError(f"its code is gone: {error.message}") from None
    return job, b"", (warning,) if warning else ()


def kernel_times(
    answer: Mapping[str, Any],
    among: Sequence[KernelVariant],
    everyone: Sequence[KernelVariant],
    arch: str | None,
) -> tuple[KernelTime, ...]:
    """The times of a call's kernels from the child's ``answer`` about it."""
    out = []
    for report in answer.get("kernels", ()):
        if middle := median(report["samples"]):
            name = report["name"]
            owned = owner(name, among, arch) or owner(name, everyone, arch)
            kernel, variant = owned or (name, None)
            interval = middle.low, middle.high, middle.samples
            out.append(KernelTime(kernel, variant, middle.value, report["per_call"], *interval))
    return tuple(out)


def owner(
    reported_name: str, among: Sequence[KernelVariant], arch: str | None
) -> tuple[str, str | None] | None:
    """The kernel with CUPTI's name, and the id of its variant, None if that is not clear.

    CUPTI has the function's name, of C++ demangled: whole names are compared first, then those
    without arguments. None if no kernel fits, or more than one.
    """
    fits = _named_like(reported_name, among)
    kernels = {k.id: k for k, _ in fits}
    if len(kernels) != 1:
        return None
    # Of several compilations, the one that the program launched, and that is for this device.
    fits = [f for f in fits if f[1].launches] or fits
    if arch is not None:
        fits = [f for f in fits if (f[1].target or "").rstrip("af") == arch] or fits
    (kernel,) = kernels.values()
    return kernel.name, fits[0][1].id if len(fits) == 1 else None


def _named_like(reported_name: str, among: Sequence[KernelVariant]) -> list[KernelVariant]:
    """The variants with CUPTI's name: with the same symbol, else demangled, else the base name."""
    by_symbol = [(k, v) for k, v in among if v.symbol == reported_name]
    if by_symbol:
        return by_symbol
    pieces = _pieces(reported_name)
    by_demangled = [(k, v) for k, v in among if _pieces(k.demangled) == pieces]
    if by_demangled:
        return by_demangled
    base = function_of(reported_name)
    return [(k, v) for k, v in among if base_name(v.symbol) == base]


def _pieces(name: str) -> list[list[str]]:
    """The words of a demangled name, sorted: ``float const*`` and ``const float *`` are alike."""
    return [sorted(_TOKEN.findall(piece)) for piece in name.removeprefix("void ").split(",")]
