"""Which launches are run again, and what a child process must know of each."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from inspector.listing.cubin import kernel_parameters
from inspector.measure.time.results import Timing
from inspector.model import Argument, Call, Kernel, Stage, Variant
from inspector.text import plural

Found = tuple[Kernel, Variant]
POINTER = 8


@dataclass(frozen=True, slots=True)
class PlannedLaunch:
    """One recorded launch with the machine code that it is of."""

    kernel: Kernel
    variant: Variant
    number: int
    call: Call

    def timing(self, **known: object) -> Timing:
        """What is known of its timing before it is taken."""
        return Timing(
            kernel=self.kernel.name, variant=self.variant.id, call=self.number, stopwatch=None,
            cache=None, grid=self.call.grid, block=self.call.block, count=self.call.count,
            inputs=inputs(self.call.arguments), **known,  # type: ignore[arg-type]
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run, and what was left out and why, a sentence each."""

    launches: tuple[PlannedLaunch, ...]
    left_out: tuple[str, ...]


class _Counted(Protocol):
    @property
    def call(self) -> Call:
        """The recorded call, with how often it was made."""
        ...


OfCall = TypeVar("OfCall", bound=_Counted)


def most_frequent(
    name: str, recorded: Sequence[OfCall], most: int
) -> tuple[list[OfCall], list[str]]:
    """The ``most`` frequent of what was recorded, in its order, and a sentence on the others."""
    often = sorted(recorded, key=lambda one: -one.call.count)[:most]
    rest = len(recorded) - most
    left_out = [
        f"{name}: {rest} of {len(recorded)} distinct calls, the less frequent ones (--calls)"
    ]
    return [one for one in recorded if one in often], left_out if rest > 0 else []


def plan(found: Iterable[Found], most: int, covered: Container[tuple[str, str]] = ()) -> Plan:
    """The ``most`` frequent calls of each variant, in the order of the list.

    Of variants that are ``covered`` (kernel's id, variant's id), a call that launches them is made
    again: it is no lack that no launch of their own was recorded.
    """
    launches: list[PlannedLaunch] = []
    left_out: list[str] = []
    unknown: list[str] = []
    for kernel, variant in found:
        if (kernel.id, variant.id) in covered and not variant.calls:
            continue
        if Stage.SASS not in variant.stages:
            left_out.append(f"{kernel.name} {variant.id}: its cubin was not recorded")
            continue
        known = [
            PlannedLaunch(kernel, variant, n, call)
            for n, call in enumerate(variant.calls)
            if call.kind == "triton" and call.grid is not None and call.block is not None
        ]
        if not known:
            unknown.append(kernel.name)
            continue
        often, left = most_frequent(f"{kernel.name} {variant.id}", known, most)
        launches += often
        left_out += left
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
        said = event.get("metadata")
        if event.get("event") == "triton" and isinstance(said, Mapping):
            digest = event.get("hash") or said.get("hash")
            out[str(digest)] = (
                _size(said.get("global_scratch_size")), _size(said.get("profile_scratch_size")),
            )  # fmt: skip
    return out


def cooperative(events: Iterable[Mapping[str, object]]) -> frozenset[str]:
    """Hashes of the variants that must be launched with all their programs at once."""
    out = set()
    for event in events:
        said = event.get("metadata")
        if isinstance(said, Mapping) and said.get("launch_cooperative_grid") is True:
            out.add(str(event.get("hash") or said.get("hash")))
    return frozenset(out)


def _size(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def job_of(
    launch: PlannedLaunch, cubin: bytes, path: str, need: tuple[int, int], together: bool
) -> dict[str, object] | str:
    """What the child process is told of a launch, or why it cannot be run."""
    call, variant = launch.call, launch.variant
    known = kernel_parameters(cubin, variant.symbol)
    if known is None:
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
        "sizes": [p.size for p in known.parameters],
        "scratch": [each * programs * wide for each in need],
        "arguments": [argument(a) for a in call.arguments],
    }


def argument(one: Argument) -> dict[str, object]:
    """What the child process is told of an argument."""
    return {
        "name": one.name, "type": one.type, "value": one.value, "dtype": one.dtype,
        "shape": None if one.shape is None else list(one.shape),
        "strides": None if one.strides is None else list(one.strides),
        "alignment": one.alignment, "low": one.low, "high": one.high, "device": one.device,
    }  # fmt: skip


def inputs(arguments: Sequence[Argument]) -> str:
    """Tensors in words: ``float32 1823×781, 1823×781``."""
    out: list[str] = []
    before = None
    for one in arguments:
        if one.shape is None:
            continue
        size = "×".join(map(str, one.shape)) or "scalar"
        out.append(size if one.dtype == before else f"{one.dtype} {size}")
        before = one.dtype
    return ", ".join(out)
