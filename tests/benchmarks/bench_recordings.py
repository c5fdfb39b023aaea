"""``python -m tests.benchmarks.bench_recordings``: two recordings of 400 kernels each, compared.

Kernels are those of the repository's data under names of their own. ``alike``: nothing changed;
``tenth``: one in ten has another instruction; ``renumbered``: so do they, and every register of
every kernel has another number, so that no two texts are equal. Figures of changed kernels are
cuobjdump's, asked once for each machine code and then kept; ``first`` is without what was kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.ratio import Ratio, seconds
from tests.helpers.ptxview import LECTURE, call, write_events

KERNELS = 400
NUMBERED = re.compile(r"%(r|rd|p)(\d+)\b")


def blob(folder: Path, data: bytes) -> str:
    """Keeps a blob; its name."""
    name = hashlib.sha256(data).hexdigest()
    (folder / "blobs").mkdir(parents=True, exist_ok=True)
    (folder / "blobs" / name).write_bytes(data)
    return name


def make(folder: Path, changed: bool, renumbered: bool) -> Path:
    """A recording of ``KERNELS`` kernels."""
    events: list[dict[str, object]] = [
        {"event": "recording", "schema": 1, "command": ["x"], "pid": 1, "mode": "gpu"}
    ]
    sources = sorted(p.parent for p in LECTURE.glob("triton/*/*.ptx"))
    for n in range(KERNELS):
        held = sources[n % len(sources)]
        meta = next(p for p in held.glob("*.json") if not p.name.startswith("__grp__"))
        told = json.loads(meta.read_bytes())
        name = f"{told['name']}_{n}"
        files = {}
        for ending in ("ttir", "ttgir", "ptx", "cubin"):
            for path in held.glob(f"*.{ending}"):
                data = path.read_bytes()
                if ending != "cubin":
                    data = data.replace(told["name"].encode(), name.encode())
                if ending == "ptx" and renumbered:
                    data = NUMBERED.sub(
                        lambda m: f"%{m[1]}{int(m[2]) + 100}", data.decode()
                    ).encode()
                if ending == "ptx" and changed and n % 10 == 0:
                    data = data.replace(b"\tret;", b"\ttrap;\n\tret;", 1)
                files[ending] = blob(folder, data)
        digest = hashlib.sha256(f"{name}{changed}{renumbered}".encode()).hexdigest()
        events.append({"event": "triton", "pid": 1, "name": name, "hash": digest,
                       "metadata": told | {"name": name}, "files": files, "paths": {}})  # fmt: skip
        events.append({"event": "ptxas", "hash": digest, "symbol": name, "spill_store_bytes": 0,
                       "spill_load_bytes": 0, "barriers": 0})  # fmt: skip
    return write_events(folder, *events)


def main() -> None:
    """Makes the recordings, compares them, prints seconds of one core."""
    with tempfile.TemporaryDirectory() as root:
        os.environ["XDG_CACHE_HOME"] = f"{root}/cache"
        before = make(Path(root) / "before", False, False)
        for name, changed, renumbered in (
            ("alike", False, False), ("tenth", True, False), ("renumbered", True, True),
        ):  # fmt: skip
            after = make(Path(root) / name, changed, renumbered)
            for run in ("first", "again"):
                start, used = time.perf_counter(), time.process_time()
                found = call("diff", before, after, "--json").json
                wall, cpu = time.perf_counter() - start, time.process_time() - used
                states = Counter(pair["state"] for pair in found["pairs"])
                sys.stdout.write(f"{name:<11} {run:<6} {wall:6.2f} s, {cpu:.2f} s of this process "
                                 f"  {dict(states)}\n")  # fmt: skip


def ratios() -> Iterator[Ratio]:
    """400 kernels whose registers have other numbers beside 400 that are the same."""
    with tempfile.TemporaryDirectory() as root:
        os.environ["XDG_CACHE_HOME"] = f"{root}/cache"
        before = make(Path(root) / "before", False, False)
        took = {}
        for name, changed, renumbered in (("alike", False, False), ("renumbered", True, True)):
            after = make(Path(root) / name, changed, renumbered)
            took[name] = seconds(lambda path=after: call("diff", before, path, "--json"), 2)  # type: ignore[misc]
    yield Ratio("comparing recordings of kernels that are renumbered",
                took["renumbered"] / took["alike"], "of kernels that are the same")  # fmt: skip


if __name__ == "__main__":
    main()
