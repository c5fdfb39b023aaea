"""Print functions × faults × programs: which fired, which changed the program."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.faults.injector import KINDS, NAMES, Fault, Injector, sample
from tests.faults.instrument import Function

Result = tuple[Fault, bool, str | None]


def table(functions: Sequence[Function], results: Iterable[Result]) -> str:
    """One line a function and program: of each kind ``ok``, ``CHANGED``, or ``-`` (none fired)."""
    rows: dict[tuple[int, str], dict[str, str]] = {}
    for fault, fired, change in results:
        cell = "-" if not fired else "ok" if change is None else "CHANGED"
        rows.setdefault((fault.function, fault.program), {})[fault.kind] = cell
    width = max((len(functions[number].name) for number, _ in rows), default=8)
    lines = [f"{'function':{width}}  {'program':10}" + "".join(f"  {k:7}" for k in KINDS)]
    for (number, program), cells in sorted(rows.items()):
        line = f"{functions[number].name:{width}}  {program:10}"
        lines.append(line + "".join(f"  {cells.get(kind, ''):7}" for kind in KINDS))
    return "\n".join(line.rstrip() for line in lines)


def changes(functions: Sequence[Function], results: Iterable[Result]) -> list[str]:
    """Each fault that changed a program, with the first lines that differ."""
    return [
        f"{functions[fault.function].name} {fault.kind} in {fault.program}: {change}"
        for fault, fired, change in results
        if fired and change is not None
    ]


def main() -> int:
    """Run the chosen faults; 1 if any fault changed a program."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--sample", type=int, metavar="N", help="N combinations instead of all")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the sample")
    parser.add_argument("--program", choices=NAMES, action="append", help="this one only")
    parser.add_argument("--function", default="", metavar="TEXT", help="names that contain TEXT")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        injector = Injector(Path(folder) / "faults", Path(folder) / "caches")
        try:
            called = injector.called()
            functions = injector.functions
            faults = [
                fault
                for fault in injector.faults(called)
                if fault.program in (options.program or NAMES)
                and options.function in functions[fault.function].name
            ]
            if options.sample is not None:
                faults = sample(faults, options.sample, options.seed)
            results = list(injector.inject(faults))
        finally:
            injector.close()
    reached = {number for numbers in called.values() for number in numbers}
    print(table(functions, results), "\n")
    print(*changes(functions, results), "", sep="\n")
    missed = [each.name for n, each in enumerate(functions) if n not in reached]
    print(f"not reached ({len(missed)} of {len(functions)} functions):", *missed, sep="\n  ")
    fired = sum(fired for _, fired, _ in results)
    print(f"\n{len(results)} faults, {fired} fired, {len(changes(functions, results))} changed")
    return int(bool(changes(functions, results)))


if __name__ == "__main__":
    raise SystemExit(main())
