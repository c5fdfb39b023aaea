"""A gate for CI: what kernels may take, and how much worse than a baseline they may be.

Limits are options, or in [tool.ptxview.check] of pyproject.toml. Exits with 1 where one is
broken, or cannot be judged: what is not known passes nothing. Of an autotuned kernel the
configurations that the tuner left are not checked.
"""

import argparse
import os
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace
from rich.text import Text

from inspector.analysis.hints.rules import RULES
from inspector.base.errors import Exit, Unreadable, UsageError
from inspector.base.escapes import shown
from inspector.base.model import Recording, Variant
from inspector.base.units import plural
from inspector.commands import common
from inspector.commands.common import DEVICE, JSON, PATH, flag, open_reader, option, several, takes
from inspector.diff import check
from inspector.diff.check import (
    FIGURES,
    NOT_WORSE,
    OPTIONS,
    SWITCHES,
    Limits,
    Outcome,
    Rules,
    Verdict,
)
from inspector.measure.time.results import times
from inspector.reader.query import select
from inspector.reader.reader import Reader
from inspector.render import check as report
from inspector.system import files, printing

HELP = {
    "registers": ("N", "registers of a thread"),
    "spills": ("BYTES", "bytes that a thread spills, stores and loads together"),
    "stack": ("BYTES", "stack of a thread"),
    "shared": ("BYTES", "shared memory of a block, static and dynamic"),
    "instructions": ("N", "instructions of SASS"),
    "fp64": ("N", "instructions of PTX that compute in double precision"),
    "time": ("US", "measured microseconds (ptxview time)"),
    "kernels": ("N", "kernels of a graph of torch.compile"),
    "occupancy": ("PERCENT", "theoretical occupancy"),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``check``."""
    allow = "how much worse than the baseline: registers, spills, stack, shared, instructions, "
    allow += "occupancy, time; only what is named is compared, beside registers, spills, occupancy"
    takes(parser, {"path": PATH, "other": option("BASELINE", "as --baseline", nargs="?")})
    for name, figure in FIGURES.items():
        value, text = HELP[name]
        side = "at least" if figure.least else "at most"
        takes(parser, {f"--{figure.option}": option(value, f"{text}, {side}", type=float)})
    takes(
        parser,
        {
            "--no-spills": flag("as --max-spills 0"),
            "--no-fp64": flag("as --max-fp64 0"),
            "--forbid": several("RULE", "hint that may not be there (bank-conflicts); repeatable"),
            "--baseline": option("OTHER", "fail if any kernel regresses from this recording"),
            "--allow": several("FIGURE=N[%]", allow),
            "--kernel": several("KERNEL", "check these alone"),
            "--all-variants": flag("check what a tuner tried and left, too"),
            "--allow-unknown": flag("treat unknown figures as passing"),
            "--device": DEVICE,
            "--config": option("FILE", "pyproject.toml with [tool.ptxview.check] (nearest)"),
            "--all": flag("list limits that were kept, too"),
            "--github": flag("print GitHub's annotations, an error at each line"),
            "--junit": option("FILE", "write JUnit's XML"),
            "--markdown": flag("print a comment in Markdown"),
            "--json": JSON,
        },
    )


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Check, print, and say by the status whether everything was kept."""
    args = parser.parse_args(argv)
    if sum((args.json, args.github, args.markdown)) > 1:
        parser.error("one of --json, --github and --markdown")
    if args.other is not None and args.baseline is not None:
        parser.error("give the baseline once")
    rules = _rules(args)
    current = reading(open_reader(args.path, args.device))
    baseline = None
    if rules.baseline is not None:
        baseline = reading(open_reader(rules.baseline, args.device))
    parts = (rules.limits, *(part for _, part in rules.kernels))
    if baseline is None and (args.allow or any(part.allowed for part in parts)):
        raise UsageError("--allow needs a baseline", "Give --baseline OTHER.")
    if not any(parts):
        raise UsageError(
            "there is nothing to check: no limit was given",
            "Such as --max-registers 128 --no-spills, or [tool.ptxview.check] in pyproject.toml.",
        )
    checked = judged(rules, current, baseline, kernels=args.kernel, all_variants=args.all_variants)
    failures = [v for v in checked.failed if v.outcome is Outcome.BROKEN or not args.allow_unknown]
    _print(args, checked, passed=not failures)
    return Exit.DIFFERENT if failures else Exit.OK


def reading(reader: Reader) -> check.Reading:
    """A recording with the times that are kept of it."""
    return check.Reading(reader, times(reader.recording.path))


def _rules(args: argparse.Namespace) -> Rules:
    """Limits of the options over those of the file."""
    settings: dict[str, object] = {}
    for name in (*OPTIONS, *SWITCHES, "forbid"):
        value = getattr(args, name.replace("-", "_"))
        if value is not None and value is not False:
            settings[name] = value
    words = [word.partition("=") for word in args.allow]
    settings["allow"] = {name.strip(): worse for name, _, worse in words}
    option_limits = check.limits_of(settings, "--", RULES)
    config = _config(args.config)
    # An option is of all kernels, and wins over the file's tables too.
    parts = tuple((selector, option_limits.over(part)) for selector, part in config.kernels)
    baseline = args.other or args.baseline or config.baseline
    all_limits = option_limits.over(config.limits)
    if baseline is not None:
        all_limits = all_limits.over(Limits(allowed=NOT_WORSE))
    return Rules(all_limits, parts, baseline)


def _config(config_option: str | None) -> Rules:
    path = Path(config_option) if config_option is not None else _nearest_pyproject()
    if path is None:
        return Rules()
    try:
        value = tomllib.loads(files.text(path))
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(f"{path} is not TOML: {error}") from None
    table: object = value
    for name in ("tool", "ptxview", "check"):
        table = table.get(name) if isinstance(table, dict) else None
    if table is None:
        if config_option is not None:
            raise UsageError(f"{path} has no [tool.ptxview.check]")
        return Rules()
    rules = check.read(table, str(path), RULES)
    if rules.baseline is None:
        return rules
    return replace(rules, baseline=str(path.parent / rules.baseline))


def _nearest_pyproject() -> Path | None:
    """The nearest pyproject.toml, here or above, but not beyond the repository."""
    for folder in (Path.cwd(), *Path.cwd().parents):
        readable = files.may_be_read(folder)
        if readable and (folder / "pyproject.toml").is_file():
            return folder / "pyproject.toml"
        if not readable or (folder / ".git").exists():
            break
    return None


def judged(
    rules: Rules,
    current: check.Reading,
    baseline: check.Reading | None,
    *,
    kernels: Sequence[str] = (),
    all_variants: bool = False,
) -> report.CheckResult:
    """Every limit of a recording's kernels, or of those that are named.

    Raises ``UsageError`` where there is nothing to judge.
    """
    recording = current.reader.recording
    selected = common.select_all(recording, kernels)
    used = [pair for pair in selected if all_variants or check.in_use(*pair)]
    if not used and not recording.graphs:
        raise UsageError(f"{recording.path} has no variant to check")
    list(current.reader.facts.read_resources([variant for _, variant in used]))
    limits_of = _limits_by_variant(rules, recording)
    partners = {} if baseline is None else _partners(baseline, current)
    verdicts: list[Verdict] = []
    for kernel, variant in used:
        limits = limits_of(variant)
        other = partners.get(_key(variant))
        base = _figures(baseline, other, limits) if baseline is not None and other else None
        figures = current.figures(kernel, variant, limits)
        verdicts += check.judge(check.Subject(kernel, variant), figures, limits, base)
    if not kernels:
        for graph in recording.graphs:
            verdicts += check.judge_graph(graph.id, len(graph.kernels), rules.limits)
    if not verdicts:
        raise UsageError(
            f"nothing was checked: no limit is of what {recording.path} holds",
            "A baseline says nothing of what is new; --max-registers and the like do.",
        )
    if not recording.complete:
        printing.narrate("! the recording was not finished: kernels may be missing in it")
    baseline_path = None
    new_count = 0
    if baseline is not None:
        baseline_path = str(baseline.reader.recording.path)
        new_count = sum(_key(variant) not in partners for _, variant in used)
    return report.CheckResult(
        str(recording.path),
        baseline_path,
        tuple(verdicts),
        len({kernel.id for kernel, _ in used}),
        len(used),
        len(selected) - len(used),
        new_count,
    )


def _figures(reading: check.Reading, variant: Variant, limits: Limits) -> check.Figures:
    return reading.figures(reading.reader.facts.kernel(variant), variant, limits)


def _limits_by_variant(rules: Rules, recording: Recording) -> Callable[[Variant], Limits]:
    """Return what gives the limits of a variant: those of all, and of the parts that it is in."""
    parts = []
    for selector, _ in rules.kernels:
        keys = {_key(variant) for _, variant in select(recording, selector)}
        if not keys:
            printing.narrate(f"! nothing here fits the limits of {shown(selector)}")
        parts.append(keys)
    return lambda variant: rules.limits_for([_key(variant) in keys for keys in parts])


def _partners(baseline: check.Reading, current: check.Reading) -> dict[tuple[str, str], Variant]:
    """The variants of the baseline by the keys of those that they are compared with."""
    pairs = check.partners(baseline.reader, current.reader)
    return {_key(variant): other for variant, other in pairs if other is not None}


def _key(variant: Variant) -> tuple[str, str]:
    """What tells a variant from others: kernels of one cubin share its hash."""
    return variant.hash, variant.symbol


def _print(args: argparse.Namespace, checked: report.CheckResult, passed: bool) -> None:
    if args.junit is not None:
        common.write(args.junit, report.junit(checked))
    heading = report.heading(checked)
    if args.json:
        common.print_json(report.document(checked, passed))
    elif args.markdown:
        printing.lines(report.markdown(checked, passed))
    elif args.github:
        root = os.environ.get("GITHUB_WORKSPACE") or str(Path.cwd())
        printing.lines(report.workflow_commands(checked, root))
        printing.narrate(heading)
    else:
        printing.rows([*report.rows(checked, args.all), Text(shown(heading))])
        unknown = sum(v.outcome is Outcome.UNKNOWN for v in checked.failed)
        if unknown and not args.allow_unknown:
            how = "could not be judged, which fails; --allow-unknown lets that pass"
            printing.narrate(f"{plural(unknown, 'limit')} {how}")
