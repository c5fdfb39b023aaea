"""Compare ptxview's reports of races with those of compute-sanitizer's racecheck on a GPU.

    python -m tests.gpu.race_cases .gpu/racecheck/cases.tar.xz
    python -m tests.gpu.racecheck FOLDER_OUT [--cases ARCHIVE] [--earlier RESULTS] [--limit SECONDS]

The first command, without a GPU, makes the cases. The second, on an H200 with compute-sanitizer,
launches them by the CUDA driver, some of a kernel in one process. A case that hangs or faults is
noted, and the others of its process are launched again: a report counts only if the tool came to
its end. Kernels are in an order of chance that is always the same, so that a run that ends at its
limit is a sample. Writes results.jsonl, a line a case, reports.txt and summary.txt.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Case = dict[str, Any]
BATCH = 10
"""Cases that one process launches."""
START_SECONDS = 90.0
HANG_SECONDS = 30.0
"""What a launch may take under the tool, which shares the GPU with those beside it."""
MAX_FAILURES = 30
"""Cases that fail before any succeeds, after which nothing more is launched."""
MAX_DETAILED = 120
"""Cases of which racecheck's hazards are listed by thread."""
MAX_HAZARDS = 4000
TOOL = "compute-sanitizer --show-backtrace no --launch-timeout 120"
PROBLEM = re.compile(r"Race reported|hazard detected|Barrier error|[Dd]eadlock")
THREAD = re.compile(r"Thread \((\d+),\s*(\d+),\s*(\d+)\)")
"""``Write Thread (96,0,0) at case_0012+0x2b0``"""
CASE_NAME = re.compile(r"\bcase_\d+\b")
TROUBLE = re.compile(r"Unable to|Failed to|Internal Sanitizer|Maximum number|not printed")
ASYNCHRONOUS = re.compile(r"cp\.async|wgmma|bulk")


# -- launches, in a process under the tool --------------------------------------------------------


def launch_all(folder: Path, progress: Path, entries: Sequence[str]) -> int:
    """Launch cases one after the other; progress has a line before and after each."""
    driver = None if os.environ.get("FAKE_GPU") else Driver()
    cases = read_cases(folder)
    with progress.open("a", encoding="utf-8") as stream:
        for entry in entries:
            print("launch", entry, file=stream, flush=True)
            try:
                if driver is not None:
                    driver.run(cases[entry], folder)
                else:
                    pretend(cases[entry])
            except RuntimeError as error:
                print("fault", entry, error, file=stream, flush=True)
                break
            print("done", entry, file=stream, flush=True)
    if driver is None:
        print("========= RACECHECK SUMMARY: fake", flush=True)
    return 0


def pretend(case: Case) -> None:
    """What a launch prints if racecheck agrees with ptxview; deadlocks are faults."""
    if case["verdict"] == "stuck":
        raise RuntimeError("fake fault")
    if case["verdict"] == "race":
        print(f"========= Error: Race reported between Write access at {case['entry']}+0x10")
        print(f"=========     and Read access at {case['entry']}+0x20 [4 hazards]\n=========")


class Driver:
    """The CUDA driver with the first GPU's context."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        device = ctypes.c_int()
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self.library, name)(*arguments):
            raise RuntimeError(f"{name} returned {status}")

    def run(self, case: Case, folder: Path) -> None:
        """Load, launch, wait, unload. Raises RuntimeError."""
        module = ctypes.c_void_p()
        function = ctypes.c_void_p()
        image = (folder / f"{case['entry']}.cubin").read_bytes()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, case["entry"].encode())
        if case["shared"]:  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.call("cuFuncSetAttribute", function, 8, case["shared"])
        addresses: list[ctypes.c_uint64] = []
        for name in case["arrays"]:
            content = (folder / name).read_bytes()
            addresses.append(ctypes.c_uint64())
            size = ctypes.c_size_t(len(content) + 512)
            self.call("cuMemAlloc_v2", ctypes.byref(addresses[-1]), size)
            self.call("cuMemcpyHtoD_v2", addresses[-1], content, ctypes.c_size_t(len(content)))
        raw = bytearray.fromhex(case["parameters"])
        for offset, index, inside in case["pointers"]:
            raw[offset : offset + 8] = (addresses[index].value + inside).to_bytes(8, "little")
        packed = ctypes.create_string_buffer(bytes(raw), len(raw))
        size = ctypes.c_size_t(len(raw))
        # CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(packed), 2, ctypes.addressof(size), 0)
        sizes = [*case["grid"], *case["threads"], case["shared"]]
        self.call("cuLaunchKernel", function, *sizes, None, None, extra)
        self.call("cuCtxSynchronize")
        for address in addresses:
            self.call("cuMemFree_v2", address)
        self.call("cuModuleUnload", module)


# -- the tool's processes -------------------------------------------------------------------------


def read_cases(folder: Path) -> dict[str, Case]:
    """The cases of an unpacked archive by entry."""
    rows = map(json.loads, (folder / "cases.jsonl").read_text("utf-8").splitlines())
    return {row["entry"]: row for row in rows}


@dataclass
class Batch:
    """A process of the tool with the cases that it launches."""

    entries: list[str]
    progress: Path
    process: subprocess.Popen[bytes]
    changed: float = field(default_factory=time.monotonic)
    size: int = 0

    def kill(self) -> None:
        """End the tool and its program, which have a process group of their own."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def is_stuck(self) -> bool:
        size = self.progress.stat().st_size if self.progress.exists() else 0
        if size != self.size:
            self.size = size
            self.changed = time.monotonic()
        return time.monotonic() - self.changed > (HANG_SECONDS if size else START_SECONDS)

    def outcomes(self, failure: str) -> Iterator[tuple[str, str, list[str]]]:
        """The cases' results after the end; the others are to be launched again."""
        text = self.progress.read_text("utf-8") if self.progress.exists() else ""
        steps = [line.split(None, 2) for line in text.splitlines()]
        log = self.progress.with_suffix(".log").read_text("utf-8", "replace")
        reports = by_case(log)
        kind, entry, *message = steps[-1] if steps else ("", "")
        if kind in ("fault", "launch"):
            name = "fault" if kind == "fault" else failure
            yield entry, name, [*message, *reports.get(entry, [])]
        elif "SUMMARY" in log and text.count("done ") == len(self.entries):
            full = "" in reports or "Maximum number of hazards" in log
            if len(self.entries) == 1:
                reports.setdefault(entry, []).extend(reports.pop("", []))
                full = False
            for entry in self.entries:
                report = reports.get(entry, [])
                if report or not full:
                    yield entry, "hazard" if report else "clean", report
        elif len(self.entries) == 1:
            yield self.entries[0], "lost", log.splitlines()[-20:]


@dataclass
class Runner:
    """Cases run by a tool of compute-sanitizer, several processes at once."""

    folder: Path
    scratch: Path
    options: argparse.Namespace
    deadline: float
    count: int = 0

    def start(self, tool: str, entries: list[str]) -> Batch:
        self.count += 1
        progress = self.scratch / f"{self.count:04}.progress"
        worker = [sys.executable, "-m", "tests.gpu.racecheck", str(self.folder), *entries]
        worker += ["--worker", str(progress)]
        port = f"--port {20000 + 16 * self.count}"
        prefix = [] if self.options.fake else f"{TOOL} {port} {tool}".split()
        environment = dict(os.environ)
        if self.options.fake:
            environment["FAKE_GPU"] = "1"
        with progress.with_suffix(".log").open("wb") as log:
            process = subprocess.Popen(
                prefix + worker, stdout=log, stderr=log, env=environment, start_new_session=True
            )
        return Batch(entries, progress, process)

    def run(self, tool: str, batches: list[list[str]]) -> Iterator[tuple[str, str, list[str]]]:
        """Each case with ``clean``, ``hazard``, ``hang``, ``fault`` or ``lost``, and its report."""
        running: list[Batch] = []
        counts: Counter[str] = Counter()
        while (batches or running) and time.monotonic() < self.deadline:
            failed = counts["fault"] + counts["lost"] + counts["hang"]
            if failed == counts.total() > MAX_FAILURES:
                break
            while batches and len(running) < self.options.processes:
                running.append(self.start(tool, batches.pop(0)))
            time.sleep(0.1)
            for batch in list(running):
                ended = batch.process.poll() is not None
                if not ended and not batch.is_stuck():
                    continue
                if not ended:
                    batch.kill()
                running.remove(batch)
                rows = list(batch.outcomes("fault" if ended else "hang"))
                counts.update(row[1] for row in rows)
                yield from rows
                known = {row[0] for row in rows}
                remaining = [entry for entry in batch.entries if entry not in known]
                half = 0 if rows else len(remaining) // 2
                batches += [part for part in (remaining[:half], remaining[half:]) if part]
        for batch in running:
            batch.kill()


def by_case(log: str) -> dict[str, list[str]]:
    """The lines of a tool's reports of each case; of "" those that name none."""
    out: dict[str, list[str]] = {}
    record: list[str] = []
    for line in [*log.splitlines(), "========="]:
        if re.match(r"=========(?! {4})", line):
            if record and PROBLEM.search(record[0]):
                names = CASE_NAME.findall(" ".join(record))
                out.setdefault(names[0] if names else "", []).extend(record)
            record = []
        record.append(line)
    return out


def batched(cases: dict[str, Case]) -> list[list[str]]:
    """Cases of each kernel in parts; those that ptxview says never end are last and alone."""
    kernels: dict[bytes, list[str]] = {}
    for entry, case in cases.items():
        kernels.setdefault(hashlib.sha256(case["kernel"].encode()).digest(), []).append(entry)
    out: list[list[str]] = []
    for _, entries in sorted(kernels.items()):
        usual = [e for e in entries if cases[e]["verdict"] != "stuck"]
        out += [usual[n : n + BATCH] for n in range(0, len(usual), BATCH)]
    return out + [[e] for e, case in cases.items() if case["verdict"] == "stuck"]


# -- comparison -----------------------------------------------------------------------------------


def group(case: Case) -> str:
    """What was removed, by the first words of its opcode."""
    text = re.sub(r"^@!?\S+\s+", "", case["removed"])
    words = re.split(r"[\s;]", text)[0].split(".")
    return ".".join(words[:4] if words[0] == "cp" else words[:2])


def compare(options: argparse.Namespace) -> int:
    """Run all cases under racecheck, the originals under synccheck, and write the results."""
    began = time.monotonic()
    out: Path = options.folder
    out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as name,
        (out / "results.jsonl").open("w", encoding="utf-8") as rows,
        (out / "reports.txt").open("w", encoding="utf-8") as texts,
    ):
        folder = Path(name) / "cases"
        scratch = Path(name) / "runs"
        scratch.mkdir()
        with tarfile.open(options.cases) as archive:
            archive.extractall(folder, filter="data")
        cases = read_cases(folder)
        runner = Runner(folder, scratch, options, began + options.limit - 5)

        def outcomes(tool: str, batches: list[list[str]]) -> dict[str, tuple[str, list[str]]]:
            found: dict[str, tuple[str, list[str]]] = {}
            for entry, outcome, report in runner.run(f"--tool {tool}", batches):
                found[entry] = outcome, report
                row = {"tool": tool, "entry": entry, "outcome": outcome, **row_of(cases[entry])}
                row["severity"] = severities(report)
                row["at_s"] = round(time.monotonic() - began, 1)
                print(json.dumps(row), file=rows, flush=True)
                head = f"## {tool} {title_of(cases[entry])}: {outcome}"
                print(head, *report[:12], sep="\n", file=texts, flush=True)
            return found

        limit = "--print-limit 0"
        earlier = earlier_rows(options.earlier, cases) if options.earlier else {}
        batches = [[e for e in batch if e not in earlier] for batch in batched(cases)]
        batches = [batch for batch in batches if batch]
        found = outcomes(f"racecheck --racecheck-report analysis {limit}", batches)
        result = {entry: row["outcome"] for entry, row in earlier.items()}
        result |= {entry: outcome for entry, (outcome, _) in found.items()}
        warned = {e for e, row in earlier.items() if list(row["severity"]) == ["Warning:"]}
        warned |= {e for e, (_, r) in found.items() if list(severities(r)) == ["Warning:"]}
        alone = [e for e, o in result.items() if o == "hazard" and cases[e]["verdict"] != "race"]
        tool = f"racecheck --racecheck-report hazard --print-limit {MAX_HAZARDS}"
        detailed = outcomes(tool, [[entry] for entry in sorted(alone)[:MAX_DETAILED]])
        within = {
            entry
            for entry, (_, report) in detailed.items()
            if is_within_warps(report, cases[entry]["threads"])
        }
        originals = [e for e in result if not cases[e]["line"]]
        parts = [originals[n : n + BATCH] for n in range(0, len(originals), BATCH)]
        checked = outcomes(f"synccheck {limit}", parts)
        text = summary(cases, result, within)
        verdicts = Counter("in a warp" if e in within else cases[e]["verdict"] for e in warned)
        text += f"\nhazards that are warnings alone, by what ptxview says: {dict(verdicts)}"
        text += f"\nsynccheck of originals: {dict(Counter(o for o, _ in checked.values()))}"
        text += f"\n{runner.count} processes, {time.monotonic() - began:.0f} s"
        logs = {f.name: f.read_text("utf-8", "replace") for f in sorted(scratch.glob("*.log"))}
        trouble: Counter[str] = Counter()
        for file, log in logs.items():
            unnamed = by_case(log).get("", [])
            trouble.update(line for line in log.splitlines() if TROUBLE.search(line))
            if unnamed or file == "0001.log":
                print(f"## {file}", *(unnamed or log.splitlines())[:40], sep="\n", file=texts)
        text += "".join(f"\n{n:4} × {line}" for line, n in trouble.most_common(20))
    (out / "summary.txt").write_text(text + "\n", "utf-8")
    print(text)
    return 0


def earlier_rows(path: Path, cases: dict[str, Case]) -> dict[str, Case]:
    """The removals of an earlier run's results.jsonl that racecheck did not call clean."""
    rows = map(json.loads, path.read_text("utf-8").splitlines())
    wanted = [r for r in rows if r["line"] and r["outcome"] != "clean" and "analysis" in r["tool"]]
    for row in wanted:
        case = cases[row["entry"]]
        if (row["kernel"], row["line"]) != (case["kernel"], case["line"]):
            raise SystemExit(f"{path} is of other cases: {title_of(case)}")
    return {row["entry"]: row for row in wanted}


def severities(report: Sequence[str]) -> dict[str, int]:
    """How many problems of a report are errors, and warnings, which are within a warp."""
    return dict(Counter(line.split()[1] for line in report if PROBLEM.search(line)))


def row_of(case: Case) -> Case:
    names = ("kernel", "line", "removed", "verdict", "units", "reasons", "why")
    return {name: case[name] for name in names}


def title_of(case: Case) -> str:
    return f"{case['entry']} {case['kernel']}, line {case['line']}: {case['removed']}"


def is_within_warps(report: Sequence[str], threads: Sequence[int]) -> bool:
    """Whether all listed hazards are between threads of one warp."""
    found = THREAD.findall("\n".join(report))
    warps = [(int(x) + threads[0] * (int(y) + threads[1] * int(z))) // 32 for x, y, z in found]
    return bool(warps) and all(a == b for a, b in zip(warps[::2], warps[1::2], strict=False))


def kinds_of(case: Case) -> str:
    """What accesses ptxview's races are made by; ``plain`` if one is of plain accesses alone."""
    if not all(ASYNCHRONOUS.search(unit) for unit in case["units"]):
        return "plain"
    return "+".join(sorted(set(ASYNCHRONOUS.findall(" ".join(case["units"])))))


def summary(cases: dict[str, Case], result: dict[str, str], within: set[str]) -> str:
    """The tables of a run, as text."""
    originals = {cases[e]["kernel"]: o for e, o in result.items() if not cases[e]["line"]}
    table: Counter[tuple[str, str, str]] = Counter()
    alone: Counter[tuple[str, str]] = Counter()
    confirmed: Counter[str] = Counter()
    lists: dict[str, list[str]] = {}
    for entry, outcome in sorted(result.items()):
        case = cases[entry]
        verdict = case["verdict"]
        table[group(case), verdict, outcome] += 1
        reason = (case["reasons"] or [case["why"]])[0]
        title = ""
        if not case["line"]:
            title = "originals with an alarm" if (outcome, verdict) != ("clean", "silent") else ""
        elif outcome == "hazard" and originals.get(case["kernel"]) == "clean":
            verdict = "in a warp" if verdict != "race" and entry in within else verdict
            confirmed[verdict] += 1
            title = "" if verdict == "race" else "reported by racecheck alone"
        elif outcome == "clean" and verdict == "race":
            alone[group(case), kinds_of(case)] += 1
            title = "reported by ptxview alone, of plain accesses"
            title = title if kinds_of(case) == "plain" else ""
        elif outcome not in ("clean", "hazard"):
            title = outcome
        if title:
            row = f"  {title_of(case)}: {outcome}; ptxview: {verdict}: {reason}"
            lists.setdefault(title, []).append(row[:260])
    total = confirmed.total() - confirmed["in a warp"]
    lines = [
        f"{len(result)} of {len(cases)} cases, {len({cases[e]['kernel'] for e in result})} kernels",
        f"{'removed':28} {'ptxview':8} {'racecheck':10} cases",
        *(f"{a:28} {b:8} {c:10} {n:5}" for (a, b, c), n in sorted(table.items())),
        f"removals with a hazard, of kernels that racecheck finds clean: {confirmed.total()}, "
        f"{confirmed['in a warp']} of them unreported and within warps alone",
        f"of the others ptxview reports {confirmed['race']} of {total} "
        f"({confirmed['race'] / max(total, 1):.1%}); {dict(confirmed)}",
        "reported by ptxview alone, by what was removed and what its races are made by:",
        *(f"  {a:28} {b:24} {n:5}" for (a, b), n in sorted(alone.items())),
    ]
    for title, rows in lists.items():
        lines += [f"{title}: {len(rows)}", *rows[:60]]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder for the results")
    parser.add_argument("entries", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--cases", type=Path, default=Path(".gpu/racecheck/cases.tar.xz"))
    parser.add_argument("--earlier", type=Path, help="results.jsonl; run what is clean there")
    parser.add_argument("--limit", type=float, default=400.0, help="seconds for everything")
    parser.add_argument("--processes", type=int, default=12, help="processes at a time")
    parser.add_argument("--fake", action="store_true", help="launch nothing, as a dry run")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        return launch_all(options.folder, options.worker, options.entries)
    return compare(options)


if __name__ == "__main__":
    sys.exit(main())
