"""A recording of several kernels: the lecture's again, under other names of the same length.

Every cubin has another content, a few bytes after its end, so that nothing is disassembled once for
several.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

from tests.helpers.ptxview import SAMPLE, write_events


def many(folder: Path, count: int) -> Path:
    (folder / "blobs").mkdir(parents=True)
    events: list[dict[str, Any]] = []
    with zipfile.ZipFile(SAMPLE) as archive:
        names = archive.namelist()
        for name in (n for n in names if n.endswith(".jsonl")):
            events += [json.loads(line) for line in archive.read(name).decode().splitlines()]
        blobs = {Path(n).name: archive.read(n) for n in names if n.startswith("blobs/")}

    def keep(data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        (folder / "blobs" / name).write_bytes(data)
        return name

    out = [event for event in events if event["event"] in ("recording", "device")][:2]
    compiled = [event for event in events if event["event"] == "triton"]
    for n in range(count):
        event = compiled[n % len(compiled)]
        old, number = event["name"], f"_{n}"
        name = old[: len(old) - len(number)] + number
        digest = hashlib.sha256(name.encode()).hexdigest()
        files = {}
        for stage, blob in event["files"].items():
            data = blobs[blob].replace(old.encode(), name.encode())
            files[stage] = keep(data + bytes(n + 1) if stage == "cubin" else data)
        source = dict(event["source"])
        if source.get("blob") in blobs:
            source["blob"] = keep(blobs[source["blob"]])
        metadata = {**event["metadata"], "name": name, "hash": digest}
        made = {"name": name, "hash": digest, "files": files, "source": source, "pid": 424}
        out.append({**event, **made, "metadata": metadata})
        spills = {"spill_store_bytes": 0, "spill_load_bytes": 0, "barriers": 0}
        out.append({"event": "ptxas", "hash": digest, "symbol": name, **spills})
    return write_events(folder, *out, {"event": "end", "time": 1.0, "exit_status": 0})
