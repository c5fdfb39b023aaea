"""What another Triton, ptxas or nvcc makes of a recording, without a GPU.

Every kernel is compiled again from its recorded source, for its recorded target, by the compilers
that are named; OTHER is a recording of the same program that was made elsewhere. The report has the
edits that explain the changes, and what they may cost. With limits it is a gate: it exits with 1
where a kernel got worse than they allow, or no longer compiles.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from inspector.base.errors import Exit, UsageError
from inspector.base.model import Kernel, Stage, Tuning, Variant
from inspector.base.units import plural
from inspector.commands import common
from inspector.commands.check import HELP, judged, reading
from inspector.commands.common import JSON, OUT, flag, open_reader, option, takes, takes_compiler
from inspector.commands.time import ask
from inspector.diff.check import Allowance, Limits, Rules, allowance
from inspector.diff.upgrade import (
    Change,
    EstimatedCandidate,
    EstimatedTuning,
    LeftOutVariant,
    PartExchange,
    UpgradeReport,
    edits_between,
    figure_changes,
    upgrade,
)
from inspector.estimate.candidates import called_candidates
from inspector.estimate.launches import ESTIMATE_SECONDS, LaunchEstimates
from inspector.measure.time.take import is_own
from inspector.reader.query import select_one
from inspector.reader.reader import Reader
from inspector.recording.layout import (
    UPGRADES,
    is_recording,
    record_file,
    store_record,
)
from inspector.render import check as gate
from inspector.render import upgrade as report_text
from inspector.render import upgrade_report
from inspector.render.upgrade import UpgradeDocument
from inspector.render.upgrade_report import MAX_CHANGES, MAX_EDITS
from inspector.sources.compilers import Say
from inspector.sources.recompiling import Compilers, RecompileRequest, recompile
from inspector.sources.trying import TryRequest, recorded_stage_through
from inspector.system import printing
from inspector.system.process import run_tool
from inspector.system.toolchain import Tool, version_of

PARTS: dict[Stage | None, str] = {
    Stage.PTX: "ptxas",
    Stage.LLIR: "LLVM's code generator",
    Stage.TTGIR: "Triton's lowering to LLVM IR, and LLVM's optimizer",
    Stage.TTIR: "Triton's passes from TTIR to TTGIR",
    None: "Triton's front end, and its passes on TTIR",
}
"""What follows a stage and not the next one, the last part of the compiler first; None is the
Python source."""
EXECUTES = "compiling executes the Python of its kernels"
TITLES = {"ptxas": "Ptx optimizing assembler", "nvcc": "Cuda compiler driver"}
"""What NVIDIA's programs call themselves; Triton has a ptxas of another name."""
GROWTHS = ("registers", "stack", "shared", "instructions")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``upgrade``."""
    takes(
        parser,
        {
            "path": option("RECORDING", "what was compiled before"),
            "other": option("OTHER", "what was compiled since, by a run of its own", nargs="?"),
            "--ptxas": option(
                "PATH", "assembler; without --python, of the recorded PTX", type=Path
            ),
            "--nvcc": option("PATH", "compiler of the recorded CUDA C++", type=Path),
            "-o --out": OUT,
            "--explain": option("KERNEL", "which part of the compiler brings a kernel's change"),
            "--estimate": option(
                "S",
                "seconds for estimates of launches, 0 for none (60)",
                type=float,
                default=ESTIMATE_SECONDS,
            ),
            "--trust": flag("compile the Python of a recording outside your own folder"),
            "--all": flag("every edit and every variant"),
            "--markdown": flag("print a comment in Markdown"),
            "--json": JSON,
        },
    )
    takes_compiler(parser)
    limits = parser.add_argument_group("a gate: how much worse a variant in use may be")
    for name in GROWTHS:
        takes(limits, {f"--max-{name}-growth": option("N[%]", HELP[name][1])})
    takes(
        limits,
        {
            "--max-occupancy-loss": option("N[%]", HELP["occupancy"][1]),
            "--no-new-spills": flag("no more bytes spilled"),
            "--all-variants": flag("judge what a tuner tried and left, too"),
        },
    )


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Compile again, compare, and print what changed."""
    args = parser.parse_args(argv)
    if args.json and args.markdown:
        parser.error("one of --json and --markdown")
    limits = _limits(args)
    baseline = open_reader(args.path)
    compilers = Compilers(args.python, _tool("ptxas", args.ptxas), _tool("nvcc", args.nvcc))
    if (compilers != Compilers()) == (args.other is not None):
        raise UsageError(
            "give either other compilers or another recording",
            "--python OTHER/bin/python, --ptxas PATH, --nvcc PATH, or the OTHER recording.",
        )
    if compilers.python is not None and not args.trust and not is_own(baseline.recording):
        ask(Path(args.path), compilers.python, EXECUTES)
    if args.explain is not None:
        return _explain(args, baseline)
    current, left_out = _upgraded(args, baseline, compilers)
    report = replace(_compared(baseline, current), left_out=left_out)
    report = _estimated(report, (baseline, current), args.estimate)
    checked = verdicts = None
    if limits.allowed:
        readings = reading(current), reading(baseline)
        checked = judged(Rules(limits), *readings, all_variants=args.all_variants)
        verdicts = gate.document(checked, not checked.failed)
    paths = [Path(r.recording.resolved_path or r.recording.path) for r in (baseline, current)]
    document = report_text.document((str(paths[0]), str(paths[1])), report, verdicts)
    _keep(paths[1], report, document)
    _print(args, report, document, checked)
    refused = any(variant.compiled_before for variant in report.refused)
    return Exit.DIFFERENT if refused or (checked is not None and checked.failed) else Exit.OK


def _limits(args: argparse.Namespace) -> Limits:
    """The gate's limits, in the words of ``check``; empty without any."""
    allowed = {"spills": Allowance(0)} if args.no_new_spills else {}
    for name in (*GROWTHS, "occupancy"):
        change = "loss" if name == "occupancy" else "growth"
        text = getattr(args, f"max_{name}_{change}")
        if text is not None:
            allowed[name] = allowance(text, f"--max-{name}-{change}")
    return Limits(allowed=allowed)


def _tool(name: str, path: Path | None) -> Tool | None:
    """A compiler that was named. Raises ``UsageError`` where it is another program."""
    if path is None:
        return None
    if TITLES[name] not in run_tool([path, "--version"], seconds=30).text:
        raise UsageError(f"{path} is not {name}")
    return Tool(name, path.absolute(), version_of(path), f"--{name}")


def _upgraded(
    args: argparse.Namespace, baseline: Reader, compilers: Compilers
) -> tuple[Reader, tuple[LeftOutVariant, ...]]:
    """The newer recording, made here without OTHER, and what was not compiled again for it."""
    if args.other is not None:
        return open_reader(args.other), ()
    out = Path(args.out) if args.out else None
    request = RecompileRequest(baseline.recording, compilers, out, args.limit)
    began = time.monotonic()
    with common.ended_like_ctrl_c(), printing.progress("") as say:
        recompiled = recompile(request, say)
    common.say(
        f"{recompiled.path}: {plural(recompiled.compiled, 'variant')} compiled, "
        f"{recompiled.failed} failed, {time.monotonic() - began:.0f} s"
    )
    left_out = [
        LeftOutVariant(kernel.name, variant.id, recompiled.left_out[variant.hash])
        for kernel, variant in baseline.recording.variants()
        if variant.hash in recompiled.left_out
    ]
    return open_reader(str(recompiled.path)), tuple(left_out)


def _compared(baseline: Reader, current: Reader) -> UpgradeReport:
    with printing.progress("comparing") as say:
        for step in upgrade(baseline, current):
            if isinstance(step, UpgradeReport):
                return step
            say(f"comparing {step}")
    raise AssertionError("the report is the last step")


def _estimated(
    report: UpgradeReport, readers: tuple[Reader, Reader], seconds: float
) -> UpgradeReport:
    """The report with estimates of launches and of tuners' candidates while there is time."""
    until = time.monotonic() + seconds
    with printing.progress("") as say:
        changes = _estimated_changes(report.changes, readers, until, say)
        tunings, unfinished = _estimated_tunings(report, readers, until, say)
    if unfinished and seconds:
        rounds = plural(unfinished, "round")
        common.say(f"{rounds} of tuners not estimated in {seconds:g} s; --estimate S gives more")
    return replace(report, changes=changes, tunings=tunings)


def _estimated_changes(
    changes: Sequence[Change], readers: tuple[Reader, Reader], until: float, say: Say
) -> tuple[Change, ...]:
    """The changes with estimates of both sides, the costliest first.

    Those without an estimate are between what gets slower by it and what gets faster.
    """
    old_estimates, new_estimates = map(LaunchEstimates, readers)
    estimated = []
    for change in changes:
        if change.in_use and change.a.calls and time.monotonic() < until:
            say(f"estimating {change.kernel.display_name}")
            old = old_estimates.launch_interval_us(change.kernel, change.a)
            new = new_estimates.launch_interval_us(change.kernel, change.b)
            if old is not None and new is not None:
                change = replace(change, estimates_us=(old, new))
        estimated.append(change)
    return tuple(sorted(estimated, key=lambda change: -change.estimated_growth_us))


def _estimated_tunings(
    report: UpgradeReport, readers: tuple[Reader, Reader], until: float, say: Say
) -> tuple[tuple[EstimatedTuning, ...], int]:
    """The rounds of which a candidate changed, and how many more there was no time for."""
    changed = {change.a.id for change in report.changes}
    recording = readers[0].recording
    estimated: list[EstimatedTuning] = []
    unfinished = 0
    for kernel in recording.kernels:
        for tuning in kernel.autotune:
            candidates = called_candidates(recording, kernel, tuning)
            if changed.isdisjoint(variant.id for variant in candidates):
                continue
            say(f"estimating candidates of {kernel.display_name}")
            pairs = [
                (variant, replace(report.partners[variant.id], calls=variant.calls))
                for variant in candidates
                if variant.id in report.partners
            ]
            estimates = _estimated_candidates(kernel, tuning, pairs, readers, until)
            unfinished += estimates is None
            if estimates:
                estimated.append(_fastest(kernel, len(pairs), estimates))
    return tuple(estimated), unfinished


def _fastest(
    kernel: Kernel, candidates: int, estimates: Sequence[EstimatedCandidate]
) -> EstimatedTuning:
    """The fastest candidates by both compilers; of equals the former best stays."""
    former = min(estimates, key=lambda candidate: candidate.us[0])
    best = min(estimates, key=lambda candidate: (candidate.us[1], candidate is not former))
    return EstimatedTuning(kernel.name, candidates, len(estimates), former, best)


def _estimated_candidates(
    kernel: Kernel,
    tuning: Tuning,
    pairs: Sequence[tuple[Variant, Variant]],
    readers: tuple[Reader, Reader],
    until: float,
) -> list[EstimatedCandidate] | None:
    """Those of a round's candidates that have an estimate on both sides; None without the time."""
    old_variants, new_variants = zip(*pairs, strict=True)
    old_estimates = _estimates_of(readers[0], kernel, old_variants)
    new_estimates = _estimates_of(readers[1], kernel, new_variants)
    settings = {c.variant: c.config for c in tuning.configurations}
    estimated = []
    for old, new in pairs:
        if time.monotonic() > until:
            return None
        old_us = old_estimates.launch_us(kernel, old)
        new_us = new_estimates.launch_us(kernel, new)
        if old_us is not None and new_us is not None:
            candidate = EstimatedCandidate(old.id, settings[old.id], (old_us, new_us))
            estimated.append(candidate)
    return estimated


def _estimates_of(reader: Reader, kernel: Kernel, variants: tuple[Variant, ...]) -> LaunchEstimates:
    """Estimates of variants with other calls than the recorded ones."""
    kernels = (replace(kernel, variants=variants),)
    return LaunchEstimates(common.reader_of(replace(reader.recording, kernels=kernels)))


def _keep(path: Path, report: UpgradeReport, document: UpgradeDocument) -> None:
    """Keep the report with the newer recording; why not is said."""
    if not is_recording(path):
        return
    try:
        store_record(path, upgrade_report.record(report, document, datetime.now(UTC)), UPGRADES)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        common.say(f"the report is not kept: {record_file(path, UPGRADES)}: {why}")


def _print(
    args: argparse.Namespace,
    report: UpgradeReport,
    document: UpgradeDocument,
    checked: gate.CheckResult | None,
) -> None:
    rows = upgrade_report.changed(document, report)
    if args.json:
        common.print_json(document)
    elif args.markdown:
        checks = [] if checked is None else gate.markdown(checked, not checked.failed)
        printing.lines(upgrade_report.markdown(document, rows, list(checks)))
    else:
        limit = len(rows) if args.all else MAX_CHANGES
        lines = upgrade_report.lines(document, rows[:limit], printing.out().width, args.all)
        printing.rows(line.text for line in lines)
        if len(rows) > limit:
            printing.lines([f"… {plural(len(rows) - limit, 'more variant')}"])
        if not args.all and (len(rows) > limit or len(document.edits) > MAX_EDITS):
            common.say("--all shows every edit and every variant")
        if checked is not None:
            printing.rows(gate.rows(checked, everything=False))
            printing.lines([gate.heading(checked)])


def _explain(args: argparse.Namespace, baseline: Reader) -> int:
    """Exchange one part of the compiler after the other, and print what each brings.

    Raises ``UsageError`` without an interpreter, or where KERNEL is no kernel of Triton's.
    """
    if args.python is None or args.ptxas is not None:
        raise UsageError(
            "--explain exchanges the parts of a Triton", "Name it with --python PATH alone."
        )
    kernel, variant = select_one(baseline.recording, args.explain)
    parts: list[PartExchange] = []
    last = variant
    with (
        printing.progress("exchanging parts") as say,
        tempfile.TemporaryDirectory(prefix="ptxview-") as folder,
    ):
        for stage, part in PARTS.items():
            say(f"exchanging {part}")
            if stage is None:
                exchanged, failed = _from_source(args, baseline, (kernel, variant), Path(folder))
            else:
                exchanged, failed = _since(args, baseline, (kernel, variant), stage)
            if exchanged is None:
                parts.append(PartExchange(part, stage, failed=failed or "it is not known why"))
                continue
            pair = replace(last, hash="before"), replace(exchanged, hash="after")
            both = replace(kernel, variants=pair, autotune=())
            reader = common.reader_of(replace(baseline.recording, kernels=(both,), graphs=()))
            edits = edits_between((reader, reader), pair)
            figures = figure_changes((reader, reader), pair)
            parts.append(PartExchange(part, stage, edits, figures))
            last = exchanged
    if args.json:
        common.print_json(report_text.parts_document(kernel, variant, parts))
    else:
        printing.rows(report_text.parts_text(kernel, variant, parts))
    return Exit.OK


def _since(
    args: argparse.Namespace, reader: Reader, launched: tuple[Kernel, Variant], stage: Stage
) -> tuple[Variant | None, str | None]:
    """What the other compiler makes of a recorded stage, or why it makes nothing."""
    kernel, variant = launched
    if stage not in variant.stages:
        return None, variant.missing.get(stage, "it was not recorded")
    name = f"the recorded {stage.value}"
    request = TryRequest(
        reader.recording, kernel, variant, stage, None, name, (), args.python, args.limit
    )
    column = recorded_stage_through(request)
    return column.variant, column.compilation.failed


def _from_source(
    args: argparse.Namespace, reader: Reader, launched: tuple[Kernel, Variant], folder: Path
) -> tuple[Variant | None, str | None]:
    """What the other compiler makes of the recorded Python, or why it makes nothing.

    ``folder`` gets the recording of it.
    """
    kernel, variant = launched
    kernels = (replace(kernel, variants=(variant,)),)
    recording = replace(reader.recording, kernels=kernels)
    out = folder / "upgraded.ptxview"
    request = RecompileRequest(recording, Compilers(args.python), out, args.limit)
    try:
        recompile(request, lambda text: None)
    except UsageError as error:
        return None, error.message
    upgraded = open_reader(str(out)).recording.variants()
    recompiled = next(other for _, other in upgraded if other.hash == variant.hash)
    return None if recompiled.uncompiled else recompiled, recompiled.failed
