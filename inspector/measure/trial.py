"""What was tried of a kernel, with its figures beside the recorded ones, its times and its results.

Nothing of it is kept: a time of a kernel that was edited is no time of the recorded one.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from inspector.capture import machine
from inspector.capture.trying import TriedColumn, TryOutcome, block_of, shared_of
from inspector.errors import PtxviewError, UsageError
from inspector.listing.cubin import read_cubin
from inspector.measure import agreement
from inspector.measure.agreement import Agreement, Launchable
from inspector.measure.time import child, take
from inspector.measure.time.child import TimeWish
from inspector.measure.time.planning import PlannedLaunch, job_of
from inspector.measure.time.results import Timing
from inspector.model import Call, Compilation, Kernel, Resources, Stage, Variant
from inspector.reader.reader import Reader
from inspector.recording.layout import DerivedCache

RECORDED = "recorded"


@dataclass(frozen=True, slots=True)
class TrialColumn:
    """One column of a trial; the first is the recorded variant's.

    ``instructions`` are SASS's, ``occupancy`` is in percent, ``code`` a digest of the machine code,
    ``launch`` what it is launched with (None where no launch with its arguments was recorded);
    None is "not known". ``agreement`` is against the recorded kernel, None of that itself.
    """

    label: str
    compilation: Compilation
    variant: Variant | None
    resources: Resources = field(default_factory=Resources)
    instructions: int | None = None
    occupancy: float | None = None
    code: str | None = None
    launch: Launchable | None = None
    timing: Timing | None = None
    agreement: Agreement | None = None
    cooperative: bool = False


@dataclass(frozen=True, slots=True)
class Trial:
    """What was tried: ``reader`` reads the recorded variant and those that were tried.

    ``call`` is the number of the recorded call that is launched, None where there is none;
    ``unlaunched`` says then, or where nothing was launched, why. ``device`` is what times are of.
    """

    outcome: TryOutcome
    reader: Reader
    kernel: Kernel
    columns: tuple[TrialColumn, ...]
    call: int | None = None
    unlaunched: str = ""
    device: Mapping[str, object] = field(default_factory=dict)

    @property
    def recorded(self) -> TrialColumn:
        """The recorded variant's."""
        return self.columns[0]

    @property
    def base(self) -> TrialColumn:
        """What differences are of: the recorded variant, where the compiler here is another what
        that makes of the recorded text."""
        again = self.outcome.again.label
        return next((one for one in self.columns[1:] if one.label == again), self.recorded)

    @property
    def tried(self) -> tuple[TrialColumn, ...]:
        """The others, without the recorded text by the compiler that is here."""
        return tuple(one for one in self.columns[1:] if one.label != self.outcome.again.label)

    @property
    def faulted(self) -> bool:
        """Whether a launch of what was tried ended in a fault."""
        return any(one.agreement is not None and one.agreement.fault for one in self.columns)

    @property
    def differs(self) -> bool:
        """Whether any result is known not to be the recorded kernel's, bit for bit."""
        return any(
            one.agreement is not None and one.agreement.identical is False for one in self.columns
        )


def trial_of(outcome: TryOutcome, cache: DerivedCache, call: int | None = None) -> Trial:
    """The figures of everything that was compiled, and what each is launched with.

    Raises ``UsageError`` for a call that there is not.
    """
    request = outcome.request
    number, recorded, why = _call(request.variant, call)
    first = TriedColumn(
        RECORDED, request.settings[0],
        Compilation(request.name, request.stage.value, request.variant.target or "", RECORDED),
        request.variant, outcome.recorded_metadata,
    )  # fmt: skip
    beside = [] if outcome.same_compiler or outcome.again.variant is None else [outcome.again]
    made = [first, *(_launched(one, recorded) for one in (*beside, *outcome.columns))]
    variants = tuple(one.variant for one in made if one.variant is not None)
    kernel = replace(outcome.kernel, variants=variants)
    reader = Reader(replace(outcome.recording, kernels=(kernel,)), cache)
    list(reader.figures(variants))
    columns = tuple(_column(reader, kernel, one, recorded) for one in made)
    return Trial(outcome, reader, kernel, columns, number, why)


def _launched(one: TriedColumn, call: Call | None) -> TriedColumn:
    """A column whose variant is launched as the recorded call was, with its own block and shared
    memory: hints on the launch are then of both or of neither."""
    variant = one.variant
    if variant is None or call is None or call.block is None:
        return one
    own = replace(
        call,
        hash=variant.hash,
        block=block_of(one, call.block),
        shared_bytes=shared_of(one, call.shared_bytes),
    )
    return replace(one, variant=replace(variant, calls=(own,)))


def _call(variant: Variant, asked: int | None) -> tuple[int | None, Call | None, str]:
    """The number of the call to launch, the most frequent where none was asked for; or why not."""
    calls = variant.calls
    if asked is not None and not 0 <= asked < len(calls):
        there = f"they are 0 to {len(calls) - 1}" if calls else "none of it was recorded"
        raise UsageError(
            f"there is no call {asked} of {variant.symbol}: {there}",
            "ptxview list --calls tells the recorded calls.",
        )
    usable = [
        n for n, c in enumerate(calls)
        if c.kind == "triton" and c.grid is not None and c.block is not None
    ]  # fmt: skip
    if asked is not None and asked not in usable:
        return None, None, "the arguments of this call were not recorded"
    if not usable:
        return None, None, "no launch of it with its arguments was recorded"
    number = asked if asked is not None else max(usable, key=lambda n: (calls[n].count, -n))
    return number, calls[number], ""


def _launch(
    kernel: Kernel, variant: Variant, metadata: Mapping[str, object], call: Call
) -> Launchable:
    need = tuple(
        value if isinstance(value := metadata.get(name), int) and value > 0 else 0
        for name in ("global_scratch_size", "profile_scratch_size")
    )
    return Launchable(kernel, variant, call, (need[0], need[1]))


def _column(reader: Reader, kernel: Kernel, one: TriedColumn, recorded: Call | None) -> TrialColumn:
    variant = one.variant
    if variant is None:
        return TrialColumn(one.label, one.compilation, None)
    card = reader.card(variant)
    made = card.of(Stage.SASS)
    full = card.occupancy
    # The recorded variant may have several calls: what was tried has the chosen one's like.
    call = recorded if one.label == RECORDED else next(iter(variant.calls), None)
    return TrialColumn(
        one.label,
        one.compilation,
        variant,
        reader.resources(variant),
        made.mix.total if made is not None and made.mix is not None else None,
        None if full is None else full.percent,
        _code(variant),
        None if call is None else _launch(kernel, variant, one.metadata, call),
        cooperative=one.metadata.get("launch_cooperative_grid") is True,
    )


def _code(variant: Variant) -> str | None:
    file = variant.stages.get(Stage.SASS)
    cubin = None if file is None else read_cubin(file.content.read())
    own = None if cubin is None else cubin.code.get(variant.symbol)
    return None if own is None else hashlib.sha256(own).hexdigest()


# -- what they do ---------------------------------------------------------------------------------


def on_cpu(
    trial: Trial, budget: int = agreement.CHEAP, stop: Callable[[], bool] | None = None
) -> Trial:
    """The trial with its results held against the recorded kernel's, by the PTX of both.

    Raises ``Stopped`` where ``stop`` says so.
    """
    launches = [one.launch for one in trial.columns if one.launch is not None]
    if trial.recorded.launch is None or len(launches) < 2:
        return trial
    return _with(trial, agreement.on_cpu(trial.reader, launches, budget, stop))


def _with(trial: Trial, agreements: Sequence[Agreement]) -> Trial:
    waiting = iter(agreements)
    columns = tuple(
        one if n == 0 or one.launch is None else replace(one, agreement=next(waiting))
        for n, one in enumerate(trial.columns)
    )
    return replace(trial, columns=columns)


def interpreter(trial: Trial, wish: TimeWish) -> str:
    """The interpreter that kernels are launched under. Raises ``ToolMissing``."""
    own = (sys.executable, machine.interpreter(None))
    recorded = trial.outcome.request.recording.command
    return child.interpreter(wish.python, own, machine.versions, recorded)


def on_gpu(
    trial: Trial,
    python: str,
    wish: TimeWish,
    say: Callable[[str], None],
    stop: threading.Event | None = None,
) -> Trial:
    """The trial with its times and its results on this machine's device.

    This runs the recording's code: the caller must have the user's permission. Raises
    ``ToolMissing`` without a device or torch, ``Stopped`` once ``stop`` is set.
    """
    launches = [one for one in trial.columns if one.launch is not None]
    if trial.recorded.launch is None or len(launches) < 2:
        return trial
    jobs = [_job(one) for one in launches]
    emulated = trial.reader.recording.mode == "target"
    alignment = take.ALIGNED_EMULATED if emulated else child.ALIGNED

    def quiet(done: int) -> None:
        say(f"{done} of {len(jobs)} times taken")

    run = child.start if stop is None else child.watched(stop, quiet)
    say(f"launching {len(jobs)} kernels on the same inputs, under {python}")
    agreements = agreement.on_gpu(python, jobs, alignment, wish.limit, run)
    held = _with(trial, agreements)
    ready = [
        (one, job) for one, job in zip(launches, jobs, strict=True) if not isinstance(job, str)
    ]
    say(f"taking {len(ready)} times, {wish.seconds:g} s each at most")
    gathered = child.measure(python, [job for _, job in ready], wish, run, alignment)
    timings: dict[str, Timing] = {}
    for n, (one, _) in enumerate(ready):
        bare = take.estimated(trial.reader, _planned(trial, one))
        rows = gathered.rows.get(n, [])
        timings[one.label] = (
            take.row(bare, rows[0], ()) if rows else replace(bare, error="no time was taken")
        )
    columns = tuple(replace(one, timing=timings.get(one.label)) for one in held.columns)
    return replace(held, columns=columns, device=gathered.device)


def _planned(trial: Trial, one: TrialColumn) -> PlannedLaunch:
    assert one.launch is not None
    return PlannedLaunch(trial.kernel, one.launch.variant, trial.call or 0, one.launch.call)


def _job(one: TrialColumn) -> tuple[child.Said, bytes] | str:
    assert one.launch is not None
    launch = one.launch
    try:
        cubin = launch.variant.stages[Stage.SASS].content.read()
    except KeyError:
        return "it has no machine code"
    except PtxviewError as error:
        return error.message
    planned = PlannedLaunch(launch.kernel, launch.variant, 0, launch.call)
    job = job_of(planned, cubin, "", launch.need, one.cooperative)
    return job if isinstance(job, str) else (job, cubin)
