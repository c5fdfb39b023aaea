"""A profile's content: operators, kernels, which launched which, and where the time went.

Times are in µs as torch.profiler recorded them; None if there is no GPU to have taken them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Three = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Operator:
    """All calls of one operator, annotation or CUDA runtime function.

    ``kind`` is ``op``, ``annotation`` or ``runtime``. ``cpu_us`` is with what was called within,
    ``self_cpu_us`` without; ``gpu_us`` is of the kernels that it or those within launched,
    ``self_gpu_us`` of the operator alone. They equal torch's ``key_averages()``.
    """

    name: str
    kind: str
    calls: int
    cpu_us: float
    self_cpu_us: float
    gpu_us: float | None = None
    self_gpu_us: float | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """One way in which a kernel was launched, with the number and total time of these launches."""

    grid: Three | None
    block: Three | None
    registers: int | None
    shared_bytes: int | None
    calls: int
    gpu_us: float


@dataclass(frozen=True, slots=True)
class GpuWork:
    """All launches of a kernel, or all copies (``memcpy``) or fills (``memset``) of one sort.

    ``name`` is the trace's, demangled; ``short`` fits into a table. ``low_us`` and ``high_us`` are
    the shortest and the longest duration. ``kernel`` is the id of the recording's kernel
    and ``variants`` the ids of its variants that fit the launches (more than one: they cannot be
    told apart); ``fused`` the ATen operators that torch.compile fused into it.
    """

    name: str
    short: str
    kind: str
    calls: int
    gpu_us: float
    low_us: float
    high_us: float
    shapes: tuple[Shape, ...] = ()
    kernel: str | None = None
    variants: tuple[str, ...] = ()
    fused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chain:
    """The calls that launched a kernel: ``path`` from the outermost to the innermost."""

    path: tuple[str, ...]
    kernel: str
    calls: int
    gpu_us: float


@dataclass(frozen=True, slots=True)
class Overhead:
    """Where the time of the window went; None if no GPU took part.

    ``busy_us`` is the time in which any kernel, copy or fill ran on the device that had most;
    ``launches`` are calls that launch kernels, ``launch_us`` their CPU time; ``sync_us`` the CPU's
    time in calls that wait for the device. A gap is between two pieces of the device's work.
    """

    window_us: float
    devices: int = 0
    busy_us: float | None = None
    kernels: int = 0
    kernel_us: float | None = None
    median_kernel_us: float | None = None
    launches: int = 0
    launch_us: float | None = None
    median_launch_us: float | None = None
    syncs: int = 0
    sync_us: float | None = None
    gaps: int = 0
    gap_us: float | None = None
    median_gap_us: float | None = None


@dataclass(frozen=True, slots=True)
class Compiling:
    """Something that was compiled within the window: ``us`` of it, in the steps named."""

    what: str
    us: float
    count: int = 1
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """One stretch of the program that was recorded.

    ``number`` counts from 1 in a recording. ``by`` is ``ptxview``, or ``program`` where the
    program ran torch.profiler itself. ``about`` says in words what the window is and how its steps
    were found; ``steps`` are the numbers of those within it, ``seen`` how many the program
    made. ``began`` and ``ended`` are seconds since 1970.
    """

    number: int
    by: str
    about: str
    rank: int | None = None
    pid: int | None = None
    steps: tuple[int, ...] = ()
    seen: int | None = None
    began: float | None = None
    ended: float | None = None
    trace: str | None = None
    torch: str | None = None
    stacks: bool = False
    gpu: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """One window, summed up; ``events`` counts the trace's, ``notes`` are remarks on the trace."""

    window: Window
    operators: tuple[Operator, ...]
    kernels: tuple[GpuWork, ...]
    chains: tuple[Chain, ...]
    overhead: Overhead
    compiling: tuple[Compiling, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    events: int = 0
    device: Mapping[str, object] = field(default_factory=dict)
