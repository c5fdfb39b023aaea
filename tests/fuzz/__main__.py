"""``python -m tests.fuzz [READER…] [--inputs N] [--seconds S]``: fuzzes readers of foreign input.

Without names it is all of them. Inputs are shared out, heavy readers get fewer. Status 1 where
something was found; each finding is written into the folder of ``--findings``, if one is given.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.guided import Fuzzing, prepare

ROUNDS = 20
"""How often each reader has its turn."""


def main(argv: list[str] | None = None) -> int:
    """Fuzz, and print inputs and findings by reader."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("readers", nargs="*", metavar="READER")
    parser.add_argument("--inputs", type=int, default=10_000, metavar="N", help="of all readers")
    parser.add_argument("--seconds", type=float, metavar="S", help="stop after that time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", type=Path, metavar="FOLDER")
    parser.add_argument("--kept", type=Path, metavar="FOLDER", help="write the kept inputs there")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", action="store_true", help="name the readers")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="ptxview-fuzz-") as name:
        folder = Path(name).resolve()
        prepare(folder)
        from tests.fuzz.readers import READERS  # what it imports is counted

        by_name = {reader.name: reader for reader in READERS}
        if args.list:
            print(*by_name, sep="\n")
            return 0
        wrong = [each for each in args.readers if each not in by_name]
        if wrong:
            parser.error(f"there is no reader {wrong[0]}; there are {', '.join(by_name)}")
        chosen = [by_name[each] for each in args.readers or by_name]
        all_shares = sum(reader.share for reader in chosen)
        each = [Fuzzing(reader, folder, args.seed) for reader in chosen]
        end = time.monotonic() + args.seconds if args.seconds else None
        spent = dict.fromkeys(by_name, 0.0)
        with contextlib.suppress(KeyboardInterrupt):  # print the results until then
            for turn in range(1, ROUNDS + 1):
                for one in each:
                    due = args.inputs * one.reader.share * turn // (all_shares * ROUNDS)
                    while one.inputs < due and (end is None or time.monotonic() < end):
                        begin = time.process_time()
                        one.run(min(200, due - one.inputs))
                        spent[one.reader.name] += time.process_time() - begin
                        if args.findings:
                            _write(one, args.findings)
        _tell(each, spent, args.json)
        findings = [f for one in each for f in one.findings.values()]
        for finding in findings:
            print(f"{finding.reader}: {finding.what}\n  {finding.data[:200]!r}", file=sys.stderr)
        for one in each if args.kept else ():
            place = args.kept / one.reader.name
            place.mkdir(parents=True, exist_ok=True)
            for data in one.kept:
                (place / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    return 1 if findings else 0


def _write(one: Fuzzing, folder: Path) -> None:
    """Write each finding into files at once: the input, and its effect."""
    for finding in one.findings.values():
        digest = hashlib.sha256(finding.where.encode()).hexdigest()[:8]
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{finding.reader}-{digest}"
        if not file.exists():
            file.write_bytes(finding.data)
            file.with_suffix(".txt").write_text(f"{finding.what}\n{finding.trace}", "utf-8")


def _tell(each: list[Fuzzing], spent: dict[str, float], as_json: bool) -> None:
    total = sum(one.inputs for one in each)
    if as_json:
        said = {
            one.reader.name: {
                "inputs": one.inputs,
                "reached": one.reached(),
                "kept": len(one.kept),
                "findings": len(one.findings),
            }
            for one in each
        }
        print(json.dumps({"inputs": total, "readers": said}))
        return
    for one in each:
        name = one.reader.name
        rate = one.inputs / spent[name] if spent[name] else 0.0
        print(
            f"{name:16} {one.inputs:>9,} inputs {one.reached():>6,} reached "
            f"{len(one.kept):>4} kept {rate:>7,.0f}/s {one.most_work:>8,.0f} work/byte "
            f"{len(one.findings)} found"
        )
    print(f"{'all':16} {total:>9,} inputs, {sum(len(one.findings) for one in each)} found")


if __name__ == "__main__":
    sys.exit(main())
