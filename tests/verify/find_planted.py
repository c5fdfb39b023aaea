"""Which planted faults ``ptxview verify`` names, and which kernels it accuses without one.

    python -m tests.verify.find_planted [NAME…]

Runs the programs of ``planted.py`` unedited and with each fault (NAME: of these alone), and prints
a table of the faults and one of their kinds, in Markdown. Ends with 1 if a fault is missed or a
kernel without one is not explained.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FAULTS: Mapping[str, Mapping[str, str]] = tomllib.loads(
    (ROOT / "tests" / "data" / "verify" / "planted.toml").read_text("utf-8")
)
LINE = re.compile(r"^planted (\w+): frame (\d+)(?:, kernel (\w+), changed (\S+))?$", re.MULTILINE)
"""``planted softmax_scale: frame 31, kernel triton_per_fused__softmax_0, changed 0.5``"""
ROUNDING = 1e-7
"""A fault that changes every result by less has no effect, as a share of the largest magnitude."""


@dataclass(frozen=True)
class Outcome:
    """What ``verify`` says of a program's kernels; ``kernel`` is that with the fault, None of a
    program without one."""

    name: str
    kernel: str | None
    changed: float
    rows: Sequence[Mapping[str, Any]]

    @property
    def unexplained(self) -> list[str]:
        return [_name(row) for row in self.rows if row["verdict"] == "unexplained"]

    @property
    def not_compared(self) -> list[str]:
        return [_name(row) for row in self.rows if row["verdict"] == "not-compared"]

    @property
    def planted(self) -> list[str]:
        """The kernels with a fault: one, or none."""
        return [] if self.kernel is None else [self.kernel]

    @property
    def passed(self) -> bool:
        """Whether the kernel with the fault, and no other, is not explained."""
        return self.unexplained == self.planted

    @property
    def row(self) -> Mapping[str, Any]:
        """The row of the kernel with the fault."""
        return next(row for row in self.rows if _name(row) == self.kernel)


def _name(row: Mapping[str, Any]) -> str:
    """A kernel's name without the number that tells it from others of this name."""
    return str(row["kernel"]).partition("@")[0]


def verified(names: Iterable[str]) -> list[Outcome]:
    """Verify programs and faults in one process. Raises RuntimeError if one did not run."""
    words = list(names)
    with tempfile.TemporaryDirectory() as folder:
        script = ROOT / "tests" / "verify" / "planted.py"
        argv = [
            sys.executable,
            "-m",
            "inspector",
            "verify",
            "--json",
            "-o",
            f"{folder}/r",
            str(script),
        ]
        done = subprocess.run([*argv, *words], capture_output=True, text=True, cwd=ROOT)
    planted = LINE.findall(done.stderr)
    if [line[0] for line in planted] != words:
        raise RuntimeError(done.stderr[-4000:])
    rows: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for graph in json.loads(done.stdout)["graphs"]:
        rows[graph["graph"].partition("/")[0]] += graph["kernels"]
    return [
        Outcome(name, kernel or None, float(changed or 0), rows[frame])
        for name, frame, kernel, changed in planted
    ]


def fault_table(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """A row for each fault."""
    yield "| fault | kind | kernel | verdict | max error | eager's |"
    yield "|---|---|---|---|---:|---:|"
    for outcome in outcomes:
        row = outcome.row
        error = row["max_error"]
        errors = "– | –" if error is None else f"{error:.1e} | {row['eager_max_error']:.1e}"
        kernel = _name(row)[:48]
        kind = FAULTS[outcome.name]["kind"]
        yield f"| {outcome.name} | {kind} | `{kernel}` | {row['verdict']} | {errors} |"


def kind_table(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """A row for each kind of fault, with the fault whose error is the smallest that was named."""
    kinds = defaultdict(list)
    for outcome in outcomes:
        kinds[FAULTS[outcome.name]["kind"]].append(outcome)
    yield "| kind | faults | named | smallest of these | max error | eager's |"
    yield "|---|---:|---:|---|---:|---:|"
    for kind, members in sorted(kinds.items()):
        named = [member for member in members if member.passed]
        text = f"| {kind} | {len(members)} | {len(named)} |"
        measured = [member for member in named if member.row["max_error"] is not None]
        if measured:
            least = min(measured, key=lambda member: member.row["max_error"])
            row = least.row
            text += f" {least.name} | {row['max_error']:.1e} | {row['eager_max_error']:.1e} |"
        else:
            text += " – | – | – |"
        yield text


def main(names: Sequence[str]) -> int:
    """Print what is named, missed and accused; 1 if any is missed or accused."""
    chosen = [name for name in FAULTS if not names or name in names]
    programs = list(dict.fromkeys(FAULTS[name]["program"] for name in chosen))
    outcomes = verified([*programs, *chosen])
    faults = [outcome for outcome in outcomes if outcome.kernel is not None]
    unedited = [outcome for outcome in outcomes if outcome.kernel is None]
    print("\n".join(fault_table(faults)), end="\n\n")
    print("\n".join(kind_table(faults)), end="\n\n")
    named = [fault for fault in faults if fault.passed]
    kernels = [row for outcome in unedited for row in outcome.rows]
    print(f"{len(named)} of {len(faults)} faults named")
    print(f"{len(programs)} programs without a fault have {len(kernels)} kernels")
    for outcome in outcomes:
        if not outcome.passed:
            print(f"{outcome.name}: not explained are {outcome.unexplained or 'none'}")
        if outcome.not_compared:
            print(f"{outcome.name}: not compared are {outcome.not_compared}")
    idle = [fault.name for fault in faults if fault.changed < ROUNDING]
    if idle:
        print(f"without effect: {', '.join(idle)}")
    return 0 if all(outcome.passed for outcome in outcomes) and not idle and unedited else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
