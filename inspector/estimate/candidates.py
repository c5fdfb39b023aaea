"""A tuner's candidates, each with the call that the program would make of it.

The program calls one candidate alone, or the kernel that was generated from it. The others get the
arguments of that call. The grid of each is the one with which the tuner launched it; where it
launched none (on the emulated device Inductor's does not), the grid is computed by Inductor's rule
for the kernel, if that gives the recorded grid of what was launched.
"""

import re
from collections.abc import Callable, Mapping
from math import ceil, prod

from msgspec import Struct
from msgspec.structs import replace

from inspector.base.model import Call, Kernel, Recording, Tuning, Variant

Grid = tuple[int, int, int]
SETTINGS = frozenset(("num_warps", "num_stages", "num_ctas", "maxnreg"))
"""What a configuration says to the compiler alone: no grid depends on it."""
WARP_THREADS = 32
_SHAPES = re.compile(r"\b(\d{1,9})x\d{1,9}, (?:\d{1,9}x)?\d{1,9}x(\d{1,9})\Z")
"""Rows and columns of a product of matrices, or of many: ``256x64, 64x512``"""


class Launch(Struct, frozen=True):
    """A recorded call of a variant, with its grid."""

    variant: Variant
    call: Call
    grid: Grid


def called_candidates(recording: Recording, kernel: Kernel, tuning: Tuning) -> list[Variant]:
    """The compiled candidates of a round, each with one call; empty where none was called.

    Candidates whose grid is not known are left out, and so are those that the device refuses.
    """
    launch = _launch_of(recording, kernel, tuning)
    if launch is None:
        return []
    variants = {variant.id: variant for variant in kernel.variants}
    ids = dict.fromkeys(configuration.variant or "" for configuration in tuning.configurations)
    called = []
    for variant in (variants[variant_id] for variant_id in ids if variant_id in variants):
        grid = _grid(launch, tuning, variant)
        warps = variant.config.get("num_warps")
        alike = variant.error is None and variant.signature == launch.variant.signature
        if alike and grid is not None and isinstance(warps, int):
            block = (warps * WARP_THREADS, 1, 1)
            call = replace(launch.call, grid=grid, block=block, shared_bytes=None)
            called.append(replace(variant, calls=(call,)))
    return called


def _launch_of(recording: Recording, kernel: Kernel, tuning: Tuning) -> Launch | None:
    """The program's most frequent call because of a round; None without one."""
    generated = {use.kernel for use in tuning.uses}
    variants = list(kernel.variants)
    for other in recording.kernels:
        if other.id in generated:
            variants += other.variants
    launches = [
        Launch(variant, call, call.grid)
        for variant in variants
        for call in variant.calls
        if call.kind == "triton" and call.grid is not None and _is_tuned_for(call, tuning.key)
    ]
    return max(launches, key=lambda launch: launch.call.count, default=None)


def _is_tuned_for(call: Call, key: object) -> bool:
    """Whether a call has the sizes and dtypes of a round's key, as far as it names arguments."""
    if not isinstance(key, Mapping):
        return True
    for argument in call.arguments:
        value = argument.value if argument.dtype is None else f"torch.{argument.dtype}"
        if argument.name in key and key[argument.name] != value:
            return False
    return True


def _grid(launch: Launch, tuning: Tuning, variant: Variant) -> Grid | None:
    """The grid of the launched call with another candidate; None where it is not known."""
    launched = launch.variant
    if _constants(launched) == _constants(variant):
        return launch.grid
    grids = launched.benchmark_grids
    # One grid for each key that was tuned for, in one order for all candidates.
    if launch.grid in grids and len(grids) == len(variant.benchmark_grids):
        return variant.benchmark_grids[grids.index(launch.grid)]
    rules: tuple[Callable[[Launch, Tuning, Variant], Grid | None], ...] = (_by_blocks, _by_tiles)
    for rule in rules:
        if rule(launch, tuning, launched) == launch.grid:
            return rule(launch, tuning, variant)
    return None


def _constants(variant: Variant) -> dict[str, object]:
    return {name: value for name, value in variant.config.items() if name not in SETTINGS}


def _by_blocks(launch: Launch, tuning: Tuning, variant: Variant) -> Grid | None:
    """The grid of a generated kernel: ``xnumel`` elements in blocks of XBLOCK along x, and so on.

    As ``Grid1D``, ``Grid2D`` and ``Grid3D`` of torch/_inductor/runtime/triton_heuristics.py do.
    """
    sizes = {argument.name: argument.value for argument in launch.call.arguments}
    blocks = []
    for axis in "xyz":
        size = sizes.get(f"{axis}numel", 1)
        block = variant.config.get(f"{axis.upper()}BLOCK", 1)
        if not isinstance(size, int) or not isinstance(block, int) or block < 1:
            return None
        blocks.append(ceil(size / block))
    x, y, z = blocks
    return x, y, z


def _by_tiles(launch: Launch, tuning: Tuning, variant: Variant) -> Grid | None:
    """The grid of a template of a matrix product: its tiles along x.

    As ``mm_grid`` of torch/_inductor/kernel/mm_common.py does.
    """
    sizes = tuning.key.get("sizes") if isinstance(tuning.key, Mapping) else None
    shapes = _SHAPES.search(str(sizes))
    tile = (variant.config.get("BLOCK_M"), variant.config.get("BLOCK_N"))
    if shapes is None or not all(isinstance(size, int) and size > 0 for size in tile):
        return None
    tiles = [ceil(int(n) / int(str(size))) for n, size in zip(shapes.groups(), tile, strict=True)]
    return prod(tiles), launch.grid[1], launch.grid[2]
