"""What ncu counts of launches whose PTX is run here too: memory, by kind of instruction.

    python -m tests.gpu.executor_counters --keep FOLDER

Run by hand on a machine with a GPU and Nsight Compute, from the repository's root; about a minute.
The launches are those of :mod:`tests.execute.judged`; what ncu says of each instruction of their
SASS is written to ``counters.csv``; ``tests/execute/test_counters.py`` holds what is counted of
the PTX against it.
"""

from __future__ import annotations

import argparse
import csv
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.execute import judged
from tests.execute.counters import COLUMNS, kind_of

SECTIONS = ("SourceCounters", "MemoryWorkloadAnalysis_Tables", "InstructionStats")


def program() -> None:
    """Launch each once."""
    import torch

    from inspector.execute import Program
    from tests.gpu.driver import Driver, assembled

    driver = Driver()
    modules: dict[Path, Any] = {}
    for one in judged.LAUNCHES:
        if one.file not in modules:
            modules[one.file] = driver.load(assembled(one.ptx))
        sizes = [parameter.size for parameter in Program(one.ptx, one.entry).parameters]
        tensors, values = [], []
        for value in one.arguments():
            if isinstance(value, np.ndarray):
                tensors.append(torch.from_numpy(value).cuda())
                values.append(tensors[-1].data_ptr().to_bytes(8, "little"))
            elif isinstance(value, np.float32):
                values.append(value.tobytes())
            else:
                values.append(int(value).to_bytes(sizes[len(values)], "little"))
        values += [bytes(size) for size in sizes[len(values) :]]
        torch.cuda.synchronize()
        driver.launch(modules[one.file], one.entry, one.grid, one.threads, one.shared, values)


def measured(folder: Path) -> str:
    """The source page of ncu's report, as CSV."""
    from inspector.measure.ncu.files import need

    ncu, report = str(need()), folder / "judged.ncu-rep"
    names = "|".join(sorted({one.entry for one in judged.LAUNCHES}))
    command = [ncu, "-f", "-o", str(report), "--clock-control", "none",
               "--kernel-name", f"regex:^({names})$"]  # fmt: skip
    for section in SECTIONS:
        command += ["--section", section]
    subprocess.run([*command, sys.executable, "-m", "tests.gpu.executor_counters", "--program"],
                   check=True, timeout=500)  # fmt: skip
    page = [ncu, "--import", str(report), "--csv", "--page", "source"]
    return subprocess.run(page, check=True, capture_output=True, text=True, timeout=300).stdout


def shortened(page: str) -> str:
    """Of the page, the instructions that are compared, with the number of their launch.

    A launch whose PTX names its source stands there twice in a row.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, ["launch", "Source", *COLUMNS], lineterminator="\n")
    writer.writeheader()
    tables: list[tuple[str, list[dict[str, str]]]] = []
    head: list[str] = []
    for row in csv.reader(io.StringIO(page)):
        if row and row[0] == "Kernel Name":
            tables.append((row[1], []))
        elif row and row[0] == "Address":
            head = row
        elif row:
            named = dict(zip(head, row, strict=False))
            tables[-1][1].append({name: named.get(name, "").strip()
                                  for name in ("Source", *COLUMNS)})  # fmt: skip
    launches = [one for k, one in enumerate(tables) if not k or one != tables[k - 1]]
    names = [name for name, _ in launches]
    if names != [one.entry for one in judged.LAUNCHES]:
        raise SystemExit(f"ncu told of other launches: {', '.join(names)}")
    for launch, (_, instructions) in enumerate(launches):
        for one in instructions:
            if kind_of(one["Source"]):
                writer.writerow({"launch": launch, **one})
    return out.getvalue()


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", action="store_true")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args(words)
    if options.program:
        program()
        return 0
    options.keep.mkdir(parents=True, exist_ok=True)
    page = measured(options.keep)
    (options.keep / "source.csv").write_text(page, "utf-8")
    (options.keep / "counters.csv").write_text(shortened(page), "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
