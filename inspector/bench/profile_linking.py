"""Which kernel of the recording, and which variants of it, a kernel of the profile is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from inspector.bench.profile import GpuWork, Profile, Shape
from inspector.model import Kernel, Recording, Variant
from inspector.naming import base_name


def linked(profile: Profile, rec: Recording) -> Profile:
    """The profile with its kernels tied to the recording's."""
    by_name: dict[str, list[Kernel]] = defaultdict(list)
    for kernel in rec.kernels:
        names = {kernel.name, kernel.demangled, base_name(kernel.name), _bare(kernel.demangled)}
        for name in names | {v.symbol for v in kernel.variants}:
            by_name[name].append(kernel)
    kernels = tuple(_linked(work, by_name) for work in profile.kernels)
    return replace(profile, kernels=kernels)


def _bare(name: str) -> str:
    """A function's name without its arguments and what stands before it."""
    return name.partition("(")[0].partition("<")[0].removeprefix("void ").strip()


def _linked(work: GpuWork, by_name: dict[str, list[Kernel]]) -> GpuWork:
    if work.kind != "kernel":
        return work
    found = by_name.get(work.name) or by_name.get(_bare(work.name)) or []
    if not found:
        return work
    fitting: dict[tuple[str, str], None] = {}
    for kernel in found:
        for variant in _fitting(kernel.variants, work.shapes):
            fitting[kernel.id, variant.id] = None
    owners = list(dict.fromkeys(owner for owner, _ in fitting)) or [found[0].id]
    fusion = next((k.fusion for k in found if k.id == owners[0]), None)
    return replace(
        work,
        kernel=owners[0],
        variants=tuple(dict.fromkeys(variant for _, variant in fitting)),
        fused=fusion.ops if fusion is not None else (),
    )


def _fitting(variants: Sequence[Variant], shapes: Sequence[Shape]) -> list[Variant]:
    """The variants that some launch of the profile may have been of."""
    out: dict[str, Variant] = {}
    for shape in shapes:
        left = [v for v in variants if _may_be(v, shape)]
        sure = [v for v in left if any(c.grid == shape.grid for c in v.calls)]
        out.update({v.id: v for v in sure or left})
    return list(out.values())


def _may_be(variant: Variant, shape: Shape) -> bool:
    threads = None
    if shape.block is not None:
        threads = shape.block[0] * shape.block[1] * shape.block[2]
    warps = variant.config.get("num_warps")
    # Warp specialisation launches more warps than were asked for; its calls say so.
    seen = any(c.block == shape.block for c in variant.calls)
    if isinstance(warps, int) and threads is not None and warps * 32 != threads and not seen:
        return False
    known = variant.known.registers
    if known is not None and shape.registers is not None and known != shape.registers:
        return False
    blocks = {c.block for c in variant.calls if c.block is not None}
    return not blocks or shape.block is None or shape.block in blocks
