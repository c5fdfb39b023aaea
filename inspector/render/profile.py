"""What torch.profiler and ncu measured, as tables and as JSON. A dash is not known."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import Group
from rich.text import Text

from inspector.base.escapes import shown
from inspector.base.grouping import by_key
from inspector.base.names import short_name
from inspector.base.units import plural, some
from inspector.measure.ncu.attach import UNRECORDED, Key, MatchedLaunch
from inspector.measure.ncu.report import Dim3, NcuLaunch, Report
from inspector.measure.profile.trace import GpuWork, Overhead, Profile, Window
from inspector.render.jsons import SCHEMA, pick_fields
from inspector.render.tables import UNKNOWN, figure, grid

NO_GPU = (
    "GPU times need a GPU: the program's use of one was not seen, and CPU times are all there is"
)
EMULATED = (
    "GPU times need a GPU, and there was none: CPU times are this machine's, and what the emulated "
    "device's operators take of them says nothing of a GPU"
)
MIN_NAME = 24
"""Cells of a name that are never cut."""


def document(
    path: str, windows: Sequence[Window], profile: Profile | None, problems: Sequence[str]
) -> dict[str, object]:
    out: dict[str, object] = {
        "schema": SCHEMA,
        "recording": path,
        "windows": [_window(w) for w in windows],
        "window": None if profile is None else _window(profile.window),
        "problems": list(problems),
    }
    lists = "operators kernels chains compiling timeline warnings notes"
    if profile is None:
        return {**out, **{name: [] for name in lists.split()}, "overhead": None, "device": None}
    return {
        **out,
        **pick_fields(profile, lists),
        "device": dict(profile.device) or None,
        "chains": [pick_fields(c) | {"short": short_name(c.kernel)} for c in profile.chains],
        "overhead": pick_fields(profile.overhead) | {"busy_percent": busy(profile.overhead)},
    }


def _window(window: Window) -> dict[str, object]:
    return {k: v for k, v in pick_fields(window).items() if k != "pid"}


def time(us: float | None) -> str:
    """A time in the unit that is worth reading, or a dash."""
    if us is None:
        return UNKNOWN
    for unit, unit_us in (("s", 1e6), ("ms", 1e3)):
        if us >= unit_us:
            return f"{us / unit_us:.3f} {unit}"
    return f"{us:.1f} µs" if us >= 10 else f"{us:.2f} µs"


def profile_lines(
    profile: Profile, windows: int, mode: str, width: int, top: int
) -> Iterator[Text]:
    yield from map(Text, heading(profile, windows))
    yield from (Text(), *operators(profile, width, top))
    if profile.kernels:
        yield from (Text(), *kernels(profile, width, top))
        yield from (Text(), *map(Text, chains(profile, top)))
    yield Text()
    if overhead := sentence(profile.overhead):
        yield Text(overhead)
    yield from map(Text, footnotes(profile, mode))
    yield from (Text(f"! {shown(line)}", style="yellow") for line in profile.warnings)


def heading(profile: Profile, windows: int) -> Iterator[str]:
    """What was profiled, where, and how its steps were found."""
    window = profile.window
    parts = [str(profile.device.get("name") or ""), f"torch {window.torch}" if window.torch else ""]
    if window.steps:
        first, last = window.steps[0], window.steps[-1]
        parts.append(f"step #{first}" if first == last else f"steps #{first} to #{last}")
    parts.append(time(profile.overhead.window_us))
    parts.append(f"rank {window.rank}" if window.rank is not None else "")
    yield shown(" · ".join(filter(None, parts)))
    yield shown(f"profiled: {window.about}")
    if windows > 1:
        yield f"window {window.number} of {windows}; --stored --window N shows another"


def operators(profile: Profile, width: int, top: int) -> Iterator[Text]:
    """Operators, annotations and CUDA's own functions by the time of their kernels."""
    gpu = profile.window.gpu
    heads = ("name", "calls", "self CPU", "CPU", "self GPU", "GPU")
    rows = []
    for o in profile.operators[:top]:
        cpu = (time(o.self_cpu_us), time(o.cpu_us))
        # Without launches, a GPU's time is known to be nothing.
        on_gpu = [(time(us) if us else "") if gpu else UNKNOWN for us in (o.self_gpu_us, o.gpu_us)]
        rows.append((shown(o.name), f"{o.calls:,}", *cpu, *on_gpu))
    return grid(heads, rows, width, heads[1:], (("name", MIN_NAME),))


def kernels(profile: Profile, width: int, top: int) -> Iterator[Text]:
    """What the GPU did, by its time, with the variant of the recording that it was."""
    total = sum(k.gpu_us for k in profile.kernels)
    heads = ("on the GPU", "calls", "GPU", "%", "mean", "low…high", "variant")
    rows = [
        (
            shown(work.short),
            f"{work.calls:,}",
            time(work.gpu_us),
            f"{100 * work.gpu_us / total:.1f}" if total else UNKNOWN,
            time(work.gpu_us / work.calls),
            f"{time(work.low_us)}…{time(work.high_us)}",
            variants(work),
        )
        for work in profile.kernels[:top]
    ]
    gives = (("on the GPU", 40), ("low…high", 0), ("on the GPU", MIN_NAME))
    return grid(heads, rows, width, heads[1:-1], gives)


def variants(work: GpuWork) -> str:
    """The variant, or those of which it may be one; "" for what the program did not make."""
    if work.kernel is None:
        return ""
    if len(work.variants) > 2:
        return shown(f"one of {len(work.variants)} of {work.kernel}")
    return shown(" or ".join(work.variants) or work.kernel)


def chains(profile: Profile, top: int) -> Iterator[str]:
    """Who launched what: ``aten::square → aten::pow → kernel``, the longest on the GPU first."""
    by_name = {k.name: k for k in profile.kernels}
    for chain in profile.chains[:top]:
        short, work = short_name(chain.kernel), by_name.get(chain.kernel)
        path = list(chain.path or ("launched beside every operator",))
        # torch.compile's launchers have their kernel's name in the trace.
        words = [*(path[:-1] if path[-1] in (short, chain.kernel) else path), short]
        text = f"{' → '.join(words)}  {chain.calls:,} × {time(chain.gpu_us / chain.calls)}"
        if work is not None and work.kernel is not None:
            text += f"  [{variants(work)}]"
            text += f"  fuses {', '.join(work.fused)}" if work.fused else ""
        yield shown(text)
    remaining = len(profile.chains) - top
    if remaining > 0:
        yield f"… and {remaining} more (--top)"


def busy(overhead: Overhead) -> float | None:
    """Percent of the window in which the GPU did anything."""
    if overhead.busy_us is None or overhead.window_us <= 0:
        return None
    return 100 * overhead.busy_us / overhead.window_us


def sentence(overhead: Overhead) -> str:
    """Launches against kernels, in one sentence; "" without a GPU."""
    part = busy(overhead)
    if part is None:
        return ""
    if not overhead.kernels:
        return f"the GPU ran no kernel in the {time(overhead.window_us)} of the window"
    text = f"the GPU was busy {_percent(part)} of {time(overhead.window_us)}: "
    kernels, kernel = plural(overhead.kernels, "kernel"), time(overhead.median_kernel_us)
    take = "takes" if (overhead.launches or overhead.kernels) == 1 else "take"
    if overhead.launches:
        text += f"{plural(overhead.launches, 'launch')} {take} {time(overhead.median_launch_us)} "
        text += f"of the CPU each, {kernels} {kernel} of the GPU (medians)"
    else:
        text += f"{kernels} {take} {kernel} each (median)"
    if overhead.gaps and overhead.median_gap_us is not None:
        text += f"; it idled {time(overhead.gap_us)} in {plural(overhead.gaps, 'gap')} between "
        text += f"its work (median {time(overhead.median_gap_us)})"
    if overhead.syncs and overhead.sync_us is not None:
        share = _percent(100 * overhead.sync_us / overhead.window_us)
        text += f"; the CPU waited for it {share} of the time ({plural(overhead.syncs, 'call')})"
    return text


def _percent(value: float) -> str:
    if 0 < value < 0.1:
        return "less than 0.1 %"
    return f"{value:.2g} %" if value < 10 else f"{value:.0f} %"


def footnotes(profile: Profile, mode: str) -> Iterator[str]:
    """What the figures need to be understood."""
    if not profile.window.gpu:
        yield EMULATED if mode == "target" else NO_GPU
    if profile.operators:
        yield "CPU times hold the profiler's own work, some of it in each operator and launch"
    if profile.overhead.devices > 1:
        yield f"{profile.overhead.devices} devices took part; busy is the busiest one's"
    yield from map(shown, profile.notes)


Name = Callable[[Key], tuple[str, str]]
"""A kernel's and a variant's id of a key."""


def _dim(value: Dim3 | None) -> str:
    return UNKNOWN if value is None else "×".join(map(str, value))


SUMMARY: Mapping[str, Callable[[NcuLaunch], str]] = {
    "est. speed-up %": lambda launch: figure(launch.speedup, "{:.2f}"),
    "function": lambda launch: launch.function,
    "demangled": lambda launch: launch.demangled,
    "µs": lambda launch: figure(launch.duration_us, "{:.2f}"),
    "improvement µs": lambda launch: figure(launch.improvement_us, "{:.2f}"),
    "compute %": lambda launch: figure(launch.compute_percent, "{:.2f}"),
    "memory %": lambda launch: figure(launch.memory_percent, "{:.2f}"),
    "regs": lambda launch: figure(launch.registers),
    "grid": lambda launch: _dim(launch.grid),
    "block": lambda launch: _dim(launch.block),
}
"""Columns of Nsight's summary, in its order."""
TEXTS = ("function", "demangled", "grid", "block", "variant")


def launch_table(attached: Sequence[MatchedLaunch], name: Name | None, width: int) -> Group:
    """Return a row for each launch; ``name`` gives ids of variants, None for a lone report."""
    columns = dict(SUMMARY)
    if all(row.launch.demangled == row.launch.function for row in attached):
        del columns["demangled"]
    rows = []
    for row in attached:
        cells = [str(row.launch.number), *(shown(cell(row.launch)) for cell in columns.values())]
        if name is not None:
            cells.append(UNKNOWN if row.key is None else shown(name(row.key)[1]))
        rows.append(cells)
    heads = ["#", *columns, *(["variant"] if name is not None else [])]
    numbers = [head for head in heads if head not in TEXTS]
    gives = (("demangled", 40), ("function", 40), ("demangled", 16), ("function", 16))
    return Group(*grid(heads, rows, width, numbers, gives))


MAX_NAMES = 8
"""Launches or names in one footnote."""


def launch_footnotes(attached: Sequence[MatchedLaunch], report: Report) -> list[str]:
    """What is odd: launches of no variant here, samples that are not shown, what ncu left out."""
    sentences = [shown(p) for p in report.problems]
    strangers = [
        matched.launch.function for matched in attached if matched.why.startswith(UNRECORDED)
    ]
    lone = by_key(
        (reason, str(matched.launch.number))
        for matched in attached
        if not matched.why.startswith(UNRECORDED)
        if (reason := matched.why or (matched.unplaced and f"no samples: {matched.unplaced}"))
    )
    if strangers:
        noun = "launch is" if len(strangers) == 1 else "launches are"
        names = some(list(dict.fromkeys(strangers)), MAX_NAMES)
        sentences.append(shown(f"{len(strangers)} {noun} of kernels that are not here: {names}"))
    sentences += [shown(f"launch {some(ns, MAX_NAMES)}: {reason}") for reason, ns in lone.items()]
    if not any(matched.launch.rules for matched in attached):
        sentences.append("estimated speed-ups are on the details page, which the report lacks")
    return sentences
