"""Plans which launches are run again, and the job of the child process for each."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from inspector.base.model import Argument, Call, Kernel, Stage, Variant
from inspector.base.text import plural
from inspector.listing.cubin import kernel_parameters
from inspector.measure.time.results import Timing

Found = tuple[Kernel, Variant]
POINTER = 8


@dataclass(frozen=True, slots=True)
class PlannedLaunch:
    """One recorded launch with its kernel and variant."""

    kernel: Kernel
    variant: Variant
    number: int
    call: Call

    def timing(self, **fields: object) -> Timing:
        """The launch's timing before its time is taken."""
        return Timing(
            kernel=self.kernel.name,
            variant=self.variant.id,
            call=self.number,
            stopwatch=None,
            cache=None,
            grid=self.call.grid,
            block=self.call.block,
            count=self.call.count,
            inputs=inputs(self.call.arguments),
            **fields,  # type: ignore[arg-type]
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The launches to run, and a sentence on each one that is left out."""

    launches: tuple[PlannedLaunch, ...]
    left_out: tuple[str, ...]


def most_frequent(name: str, calls: Sequence[Call], most: int) -> tuple[list[Call], list[str]]:
    """The ``most`` frequent of recorded calls, and a sentence on the others."""
    often = sorted(calls, key=lambda call: -call.count)[:most]
    rest = len(calls) - most
    said = f"{name}: {rest} of {len(calls)} distinct calls, the less frequent ones (--calls)"
    return often, [said] if rest > 0 else []


def plan(variants: Iterable[Found], most: int, covered: Container[tuple[str, str]] = ()) -> Plan:
    """The ``most`` frequent calls of each variant, in the order of the list.

    Variants that are ``covered`` (kernel's id, variant's id) are launched by a repeated call, so
    they need no recorded launch of their own.
    """
    launches: list[PlannedLaunch] = []
    left_out: list[str] = []
    unknown: list[str] = []
    for kernel, variant in variants:
        if (kernel.id, variant.id) in covered and not variant.calls:
            continue
        if variant.error is not None:
            how = "did not compile" if variant.uncompiled else "could not be loaded"
            left_out.append(f"{kernel.name} {variant.id} {how}: {variant.failed}")
            continue
        if Stage.SASS not in variant.stages:
            left_out.append(f"{kernel.name} {variant.id}: its cubin was not recorded")
            continue
        recorded = [
            PlannedLaunch(kernel, variant, n, call)
            for n, call in enumerate(variant.calls)
            if call.kind == "triton" and call.grid is not None and call.block is not None
        ]
        if not recorded:
            unknown.append(kernel.name)
            continue
        calls = [launch.call for launch in recorded]
        often, dropped = most_frequent(f"{kernel.name} {variant.id}", calls, most)
        launches += [launch for launch in recorded if launch.call in often]
        left_out += dropped
    if unknown:
        names = tuple(dict.fromkeys(unknown))
        shown = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
        left_out.append(
            f"{plural(len(unknown), 'variant')} of which no launch with its "
            f"arguments was recorded: {shown}"
        )
    return Plan(tuple(launches), tuple(left_out))


def scratch(events: Iterable[Mapping[str, object]]) -> dict[str, tuple[int, int]]:
    """Bytes of global and of profiling scratch that each program of a variant needs, by hash."""
    out: dict[str, tuple[int, int]] = {}
    for event in events:
        metadata = event.get("metadata")
        if event.get("event") == "triton" and isinstance(metadata, Mapping):
            digest = event.get("hash") or metadata.get("hash")
            out[str(digest)] = (
                _size(metadata.get("global_scratch_size")),
                _size(metadata.get("profile_scratch_size")),
            )
    return out


def cooperative(events: Iterable[Mapping[str, object]]) -> frozenset[str]:
    """Hashes of the variants that need a cooperative launch."""
    out = set()
    for event in events:
        metadata = event.get("metadata")
        if isinstance(metadata, Mapping) and metadata.get("launch_cooperative_grid") is True:
            out.add(str(event.get("hash") or metadata.get("hash")))
    return frozenset(out)


def _size(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def job_of(
    launch: PlannedLaunch, cubin: bytes, path: str, need: tuple[int, int], together: bool
) -> dict[str, object] | str:
    """The child process's job for a launch, or why it cannot be run."""
    call, variant = launch.call, launch.variant
    signature = kernel_parameters(cubin, variant.symbol)
    if signature is None:
        return "its cubin does not say what parameters it has"
    if call.grid is None or call.block is None:
        return "its grid was not recorded"
    programs = call.grid[0] * call.grid[1] * call.grid[2]
    ctas = variant.config.get("num_ctas")
    wide = ctas if isinstance(ctas, int) and ctas > 0 else 1
    return {
        "symbol": variant.symbol,
        "cubin": path,
        "grid": list(call.grid),
        "block": list(call.block),
        "shared": call.shared_bytes,
        "cluster": wide,
        "cooperative": together,
        "sizes": [p.size for p in signature.parameters],
        "scratch": [bytes_each * programs * wide for bytes_each in need],
        "arguments": [argument(a) for a in call.arguments],
    }


def argument(recorded: Argument) -> dict[str, object]:
    """An argument as the child process's job has it."""
    return {
        "name": recorded.name,
        "type": recorded.type,
        "value": recorded.value,
        "dtype": recorded.dtype,
        "shape": None if recorded.shape is None else list(recorded.shape),
        "strides": None if recorded.strides is None else list(recorded.strides),
        "alignment": recorded.alignment,
        "low": recorded.low,
        "high": recorded.high,
        "device": recorded.device,
    }


def inputs(arguments: Sequence[Argument]) -> str:
    """Tensors in words: ``float32 1823×781, 1823×781``."""
    out: list[str] = []
    last_dtype = None
    for recorded in arguments:
        if recorded.shape is None:
            continue
        size = "×".join(map(str, recorded.shape)) or "scalar"
        out.append(size if recorded.dtype == last_dtype else f"{recorded.dtype} {size}")
        last_dtype = recorded.dtype
    return ", ".join(out)
