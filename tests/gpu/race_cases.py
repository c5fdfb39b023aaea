"""Cases for tests.gpu.racecheck: kernels without one of their barriers, waits or fences.

    python -m tests.gpu.race_cases ARCHIVE.tar.xz [WORD…]

Needs no GPU. Each kernel of tests.execute.synchronized, and each without one barrier, wait or
fence, is assembled for sm_90a and executed with a race observer. The archive holds machine code,
what ptxview says of it, and arguments: all that a launch by the CUDA driver needs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from math import prod
from pathlib import Path

import numpy as np

from inspector.base.errors import PtxviewError
from inspector.execute import Memory, Program
from inspector.execute.synchronization import Race
from tests.execute import removed_barriers as removed
from tests.execute.synchronized import Specimen, of_cuda, of_judged, of_recordings, of_triton
from tests.gpu.racecheck import Case, group

PTX_VERSION = "9.0"
"""The latest that CUDA 13.0 knows; later versions are lowered to it."""
MAX_ARGUMENT_BYTES = 4 << 20
LINE_TABLE = re.compile(r"^\s*\.loc\s.*$|\.section\s+\.debug_\w+\s*\{[^}]*\}", re.MULTILINE)
"""``.loc 1 8 3``, ``.section .debug_info { … }``: with these, racecheck reports inlined functions,
such as ``summed+0x7c0``, instead of the entry"""


def prepare(path: Path, words: Sequence[str]) -> int:
    """Write the cases of all kernels that have a word in their name."""
    seen: set[str] = set()
    cases: list[tuple[Case, Future[str]]] = []
    left_out: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as pool:
        folder = Path(name)
        for source in (of_judged, of_cuda, of_triton, of_recordings):
            for specimen in source():
                target = re.search(r"\.target\s+sm_(\d+)", specimen.ptx)
                body = removed.body_of(specimen)
                if body in seen or (words and not any(w in specimen.name for w in words)):
                    continue
                seen.add(body)
                if target is None or int(target[1]) > 90 or ".shared" not in body:
                    left_out["of another target" if ".shared" in body else "no shared"] += 1
                    continue
                made, why = cases_of(specimen, folder)
                left_out[why] += bool(why)
                print(f"{specimen.name}: {why or f'{len(made)} cases'}", flush=True)
                for case, ptx in made:
                    case["entry"] = f"case_{len(cases):04}"
                    cases.append((case, pool.submit(assemble, case, ptx, folder)))
        rows = [case | {"refused": future.result()} for case, future in cases]
        lines = [json.dumps(row) for row in rows if not row["refused"]]
        (folder / "cases.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        for row in rows:
            if row["refused"]:
                print(f"{row['kernel']}: line {row['line']}: ptxas: {row['refused'][:200]}")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, "w:xz") as archive:
            for file in sorted(folder.iterdir()):
                archive.add(file, file.name)
    print(f"left out: {dict(left_out)}; refused by ptxas: {len(rows) - len(lines)}")
    print(f"{len(lines)} cases of {len({r['kernel'] for r in rows})} kernels in {path}")
    print(dict(Counter(f"{group(r)}: {r['verdict']}" for r in rows if not r["refused"])))
    return 0


def cases_of(specimen: Specimen, folder: Path) -> tuple[list[tuple[Case, str]], str]:
    """The cases of a kernel with their PTX, or why it has no cases."""
    blocks = prod(specimen.grid)
    numbers = sorted({0, blocks // 2, blocks - 1})
    try:
        launch = packed_launch(specimen, folder)
        if launch is None:
            return [], "too large arguments"
        launch["entry_name"] = Program(specimen.ptx, specimen.entry).name
        found, lines, why = removed.races(specimen, specimen.ptx, numbers)
    except PtxviewError as error:
        return [], f"not run: {error.message[:80]}"
    texts = specimen.ptx.split("\n")
    out = [(launch | verdict(found, why, 0, "original"), specimen.ptx)]
    for pattern in (removed.BARRIER, removed.WAIT):
        for line, ptx in removed.removals(specimen, lines, pattern):
            found, _, why = removed.races(specimen, ptx, numbers)
            out.append((launch | verdict(found, why, line, texts[line - 1].strip()), ptx))
    return (out, "") if len(out) > 1 else ([], "nothing to remove")


def verdict(found: Sequence[Race], why: str, line: int, text: str) -> Case:
    """What ptxview says of a case; ``units`` is by what the accesses of its races are made."""
    units = {"/".join(sorted((r.accesses[0].access, r.accesses[1].access))) for r in found}
    name = "race" if found else "silent" if not why else "stuck"
    reasons = [r.reason for r in found[:3]]
    return {"line": line, "removed": text, "verdict": name, "why": why, "reasons": reasons,
            "units": sorted(units)}  # fmt: skip


def packed_launch(specimen: Specimen, folder: Path) -> Case | None:
    """A launch as JSON: its parameters' bytes, and which of them point into which array."""
    program = Program(specimen.ptx, specimen.entry)
    arguments = specimen.arguments()
    memory = arguments.pop(0) if isinstance(arguments[0], Memory) else Memory()
    values = [
        memory.add(f"argument {n}", a) if isinstance(a, np.ndarray) else a
        for n, a in enumerate(arguments)
    ]
    values += [0] * (len(program.parameters) - len(values))
    size = max(p.offset + p.size for p in program.parameters)
    parameters = program.pack(values).tobytes()[:size]
    pointers: list[tuple[int, int, int]] = []
    for parameter in program.parameters:
        word = int.from_bytes(parameters[parameter.offset :][:8], "little")
        for n, region in enumerate(memory.regions):
            if parameter.size == 8 and region.base <= word < region.end:
                pointers.append((parameter.offset, n, word - region.base))
    contents = [region.data.tobytes() for region in memory.regions]
    if sum(map(len, contents)) > MAX_ARGUMENT_BYTES:
        return None
    names = [f"{hashlib.sha256(content).hexdigest()[:16]}.bin" for content in contents]
    for name, content in zip(names, contents, strict=True):
        (folder / name).write_bytes(content)
    grid, threads = ([*sizes, 1, 1][:3] for sizes in (specimen.grid, specimen.threads))
    return {"kernel": specimen.name, "grid": grid, "threads": threads, "shared": specimen.shared,
            "parameters": parameters.hex(), "pointers": pointers, "arrays": names}  # fmt: skip


def assemble(case: Case, ptx: str, folder: Path) -> str:
    """Write a case's machine code; ptxas's message, or "" if it took it."""
    entry = case["entry"]
    text = re.sub(rf"(?<![\w$]){re.escape(case['entry_name'])}(?![\w$])", entry, ptx)
    text = re.sub(r"\.version\s+9\.\d+", f".version {PTX_VERSION}", text)
    text = LINE_TABLE.sub("", text)
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / f"{entry}.ptx"
        source.write_text(text, "utf-8")
        output = folder / f"{entry}.cubin"
        command = ["ptxas", "-arch=sm_90a", "--entry", entry, str(source), "-o", str(output)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stderr or "failed") if done.returncode or not output.exists() else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("archive", type=Path, help="the archive that is written")
    parser.add_argument("words", nargs="*", help="names of kernels that are taken (all)")
    arguments = parser.parse_args()
    return prepare(arguments.archive, arguments.words)


if __name__ == "__main__":
    sys.exit(main())
