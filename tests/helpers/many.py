"""A recording of four hundred kernels: the lecture's, again and again under names of their own.

Three hundred have names that begin alike and differ late, as those of torch.compile's graphs do;
a hundred more are all called ``triton_mm_tem``, as those that a max-autotuned model leaves, each
generated into separate files. Every cubin is another content, so that nothing is disassembled
once for several: names are replaced by others of the same length, and a few bytes follow the file.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from tests.helpers.ptxview import REPOSITORY, write_events

SAMPLE = REPOSITORY / "examples" / "recordings" / "lecture-h200.ptxview"
NAMED, ALIKE = 300, 100
TEMPLATE = "triton_mm_tem"
WINNER = 37
"""Which of those that are called alike the tuner chose."""

BLOCKS = tuple(product((16, 32, 64, 128), (16, 32, 64, 128, 256), (16, 32, 64), (4, 8)))


def _events() -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """The sample's events, and its blobs by their names."""
    events: list[dict[str, Any]] = []
    with zipfile.ZipFile(SAMPLE) as archive:
        names = archive.namelist()
        for name in (n for n in names if n.endswith(".jsonl")):
            events += [json.loads(line) for line in archive.read(name).decode().splitlines()]
        blobs = {Path(n).name: archive.read(n) for n in names if n.startswith("blobs/")}
    return events, blobs


def _name(symbol: str, n: int) -> str:
    """As long as ``symbol``, and no other kernel's."""
    number = f"_{n}"
    if symbol.startswith("triton_per"):
        # Between the beginning and the number such names differ in what was fused.
        part = ("add_amax_", "mul_mean_", "sub_view_", "exp_rsqrt_")[n % 4]
        symbol = f"{symbol[:32]}{part}{symbol[32 + len(part) :]}"
    return symbol[: len(symbol) - len(number)] + number


class _Maker:
    """Keeps blobs and tells how they are called."""

    def __init__(self, folder: Path, blobs: dict[str, bytes]) -> None:
        self.folder = folder
        self.blobs = blobs
        (folder / "blobs").mkdir(parents=True)

    def keep(self, data: bytes) -> str:
        """Write a blob with these bytes; its name."""
        name = hashlib.sha256(data).hexdigest()
        (self.folder / "blobs" / name).write_bytes(data)
        return name

    def compiled(self, event: dict[str, Any], name: str, n: int) -> Iterator[dict[str, Any]]:
        """A compile of the sample's once more, as that of a kernel of this name."""
        old = event["name"]
        digest = hashlib.sha256(f"{name} {n}".encode()).hexdigest()
        files = {}
        for stage, blob in event["files"].items():
            data = self.blobs[blob].replace(old.encode(), name.encode())
            files[stage] = self.keep(data + b"\0" * (n + 1) if stage == "cubin" else data)
        source = dict(event["source"])
        if "blob" in source and source["blob"] in self.blobs:
            source["blob"] = self.keep(self.blobs[source["blob"]])
        metadata = {**event["metadata"], "name": name, "hash": digest}
        yield {
            **event,
            "name": name,
            "hash": digest,
            "files": files,
            "source": source,
            "metadata": metadata,
            "pid": 424,
        }
        yield {
            "event": "ptxas",
            "hash": digest,
            "symbol": name,
            "spill_store_bytes": 0,
            "spill_load_bytes": 0,
            "barriers": 0,
        }

    def alike(self, events: list[dict[str, Any]], n: int) -> Iterator[dict[str, Any]]:
        """One of those that are called alike, with what its tuner measured."""
        block_m, block_n, block_k, warps = BLOCKS[n]
        made, spilled = self.compiled(events[n % len(events)], TEMPLATE, n)
        made["metadata"] |= {"num_warps": warps, "num_stages": 2 + n % 3}
        made["constexprs"] = {
            "BLOCK_M": block_m,
            "BLOCK_N": block_n,
            "BLOCK_K": block_k,
            "GROUP_M": 8,
        }
        file = f"/tmp/torchinductor_ada/{n % 7}a/c{n:03}.py"
        made["source"] = {"file": file}
        config = {**made["constexprs"], "num_warps": warps, "num_stages": 2 + n % 3}
        time = 0.0081 + (n - WINNER) ** 2 / 1e5
        tried = {
            "config": config,
            "hash": made["hash"],
            "times_ms": [time, time, time],
            "reason": None,
        }
        yield made
        yield spilled
        yield {
            "event": "autotune",
            "tuning": n,
            "by": "triton",
            "name": TEMPLATE,
            "file": file,
            "key": {"M": 256},
            "stopwatch": "do_bench",
            "from_cache": False,
            "seconds": 0.1,
            "pid": 424,
            "configurations": [tried],
            "winner": 0 if n == WINNER else None,
        }


def many(folder: Path, named: int = NAMED, alike: int = ALIKE) -> Path:
    """Makes the recording in a new folder: so many kernels with names of their own, so many of one
    name."""
    events, blobs = _events()
    maker = _Maker(folder, blobs)
    out = [event for event in events if event["event"] in ("recording", "device")][:2]
    compiled = [event for event in events if event["event"] == "triton"]
    # The generated one is half of them: their names are those that are hard to tell apart.
    generated = [event for event in compiled if event["name"].startswith("triton_")]
    own = [event for event in compiled if event not in generated]
    for n in range(named):
        event = generated[n % len(generated)] if n % 2 else own[n // 2 % len(own)]
        out += maker.compiled(event, _name(event["name"], n), n)
    products = [event for event in compiled if event["name"] == "matmul_kernel"]
    for n in range(alike):
        out += maker.alike(products, n)
    return write_events(folder, *out, {"event": "end", "time": 1.0, "exit_status": 0})
