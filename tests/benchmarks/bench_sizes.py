"""``python -m tests.benchmarks.bench_sizes [--full] [--only WORD] [--others PYTHON]``: sizes.

A table of seconds, CPU and peak memory: each subject in two or three sizes, each call in a child of
its own, the larger sizes beside the first. Where the ratio of the CPU is that of the sizes it is
linear; where the ratio of the peaks is 1, flat. The sizes are small, so that the whole takes a
minute or two; with ``--full`` they go up to 50,000 kernels, a gigabyte of trace, a million lines.

``--others`` names the interpreter of an environment that has tlparse and tritonparse, which are
called on the same traces, and on Triton's own of the same kernels. Everything that is made is
deleted. Asserts nothing; what must hold is in test_sizes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.analyse.flow.test_definitions import branchy
from tests.benchmarks.ratio import Ratio
from tests.helpers.ptxview import SQUARE, command
from tests.test_sizes import TRACE, Cost, cost, kernels, one_function

TEXTS = 200
"""Kernels that differ in more than their metadata: a tool is asked of each once."""

Call = Callable[[Path], Sequence[str | Path]]


def _text(n: int) -> bytes:
    return f"k{n % TEXTS:05d}_kernel".encode()


def cache(folder: Path, count: int) -> Path:
    """A Triton cache of so many folders, each with a hash of its own; texts are hard links."""
    for n in range(count):
        digest = hashlib.sha256(b"%d" % n).hexdigest()
        here = folder / digest[:52].upper()
        here.mkdir(parents=True)
        for file in SQUARE.iterdir():
            name = file.name.replace("square_kernel", _text(n).decode())
            first = folder.parent / "texts" / name
            if not first.exists():
                first.parent.mkdir(exist_ok=True)
                first.write_bytes(file.read_bytes().replace(b"square_kernel", _text(n)))
            if file.suffix == ".json" and not file.name.startswith("__grp__"):
                (here / name).write_text(
                    json.dumps({**json.loads(first.read_bytes()), "hash": digest})
                )
            else:
                os.link(first, here / name)
    return folder


def triton_trace(folder: Path, count: int) -> Path:
    """What TRITON_TRACE writes when the same kernels are compiled: a line each, with all texts."""
    folder.mkdir(parents=True)
    texts = {
        f.name: f.read_text("utf-8", "replace") for f in SQUARE.iterdir() if f.suffix != ".cubin"
    }
    metadata = json.loads(texts["square_kernel.json"])
    source = {"file_path": "a.py", "start_line": 1, "end_line": 2, "code": "def k():\n    pass"}
    with (folder / "dedicated_log_triton_trace_sizes_.ndjson").open("w") as file:
        for n in range(count):
            digest, name = hashlib.sha256(b"%d" % n).hexdigest(), _text(n).decode()
            own = {**metadata, "hash": digest, "name": name}
            held = {
                at.replace("square_kernel", name): text.replace("square_kernel", name)
                for at, text in texts.items()
                if not at.startswith("__grp__")
            } | {f"{name}.json": json.dumps(own)}
            payload = {"metadata": own, "file_path": {at: at for at in held}, "file_content": held,
                       "python_source": source}  # fmt: skip
            line = {"event_type": "compilation", "pid": 1, "stack": [], "payload": payload,
                    "timestamp": "2026-01-01T00:00:00.000000Z"}  # fmt: skip
            file.write(json.dumps(line) + "\n")
    return folder


def trace(folder: Path, megabytes: int) -> Path:
    """A TORCH_TRACE folder of about that size: one run's again and again, each frame its own."""
    text = TRACE.read_bytes()
    folder.mkdir(parents=True)
    with (folder / TRACE.name).open("wb") as file:
        n = 0
        while file.tell() < megabytes << 20:
            n += 1
            file.write(text.replace(b'"frame_id": ', b'"frame_id": %d' % n))
    return folder


def listing(text: Callable[[int], str]) -> Callable[[Path, int], Path]:
    """Makes a file of PTX."""

    def make(folder: Path, size: int) -> Path:
        folder.mkdir(parents=True)
        (folder / "a.ptx").write_text(text(size))
        return folder / "a.ptx"

    return make


@dataclass(frozen=True)
class Subject:
    """What is measured: something of a size, made in a folder, and what is called on it."""

    name: str
    unit: str
    small: Sequence[int]
    full: Sequence[int]
    make: Callable[[Path, int], Path]
    calls: Sequence[tuple[str, Call]]


def ours(*words: str) -> tuple[str, Call]:
    """``ptxview WORD … PATH …``: a word ``@`` stands for the path."""
    name = " ".join(w for w in words if w != "@")
    return name, lambda path: command([path if w == "@" else w for w in words])


def others(python: Path | None) -> Iterator[tuple[str, Call]]:
    """What reads Torch's traces, and what reads Triton's, in another environment."""
    if python is None:
        return
    tlparse = python.with_name("tlparse")
    if tlparse.is_file():
        yield "tlparse", lambda path: [
            tlparse, path / TRACE.name, "-o", path / "out", "--overwrite", "--no-browser",
        ]  # fmt: skip
    code = "from tritonparse.cli import main; main()"
    if not subprocess.run([python, "-c", "import tritonparse.cli"], capture_output=True).returncode:
        yield "tritonparse", lambda path: [
            python, "-c", code, "parse", path, "-o", path / "out", "--overwrite",
        ]  # fmt: skip


def subjects(python: Path | None) -> Iterator[Subject]:
    """All of them, the others' beside ours."""
    foreign = dict(others(python))
    tlparse = tuple(c for c in foreign.items() if c[0] == "tlparse")
    many, lines = (10, 200), (2_000, 10_000)
    kernel_counts, line_counts = (10, 1_000, 50_000), (10_000, 100_000, 1_000_000)
    again = ("list, again", ours("list", "@")[1])
    shown = ours("show", "@", "k0", "--json")
    yield Subject(
        "a Triton cache", "kernels", many, kernel_counts, cache,
        (ours("list", "@"), again, ours("list", "@", "--json")),
    )  # fmt: skip
    if "tritonparse" in foreign:
        yield Subject(
            "Triton's own trace of them", "kernels", many, (10, 1_000), triton_trace,
            (("tritonparse", foreign["tritonparse"]),),
        )  # fmt: skip
    yield Subject(
        "a TORCH_TRACE", "MB", (2, 10), (10, 100), trace, (ours("list", "@"), *tlparse),
    )  # fmt: skip
    yield Subject("a large TORCH_TRACE", "MB", (), (100, 1024), trace, (ours("list", "@"),))
    yield Subject(
        "PTX of one function", "lines", lines, line_counts, listing(one_function),
        (shown, ours("show", "@", "k0", "-a")),
    )  # fmt: skip
    yield Subject(
        "PTX of functions of 100 lines", "lines", lines, line_counts,
        listing(lambda n: kernels(n // 100)), (shown,),
    )  # fmt: skip
    yield Subject(
        "PTX with branches", "blocks", (200, 1_000), (600, 6_000), listing(branchy),
        (ours("show", "@", "--json"),),
    )  # fmt: skip


HEADS = (
    f"{'':<44}{'size':>10}{'seconds':>9}{'CPU s':>9}{'peak MB':>9}"
    f"{'× size':>8}{'× CPU':>8}{'× peak':>8}"
)


def measure(one: Subject, sizes: Sequence[int], where: Path) -> None:
    """A line for each call on each size; what was made is deleted."""
    first: dict[str, Cost] = {}
    for size in sizes:
        path = one.make(where / "subject", size)
        for name, call in one.calls:
            begin = time.monotonic()
            spent = cost(call(path), where / "kept")
            seconds = time.monotonic() - begin
            base = first.setdefault(name, spent)
            beside = ""
            if size != sizes[0]:
                ratios = size / sizes[0], spent.cpu / base.cpu, spent.peak / base.peak
                beside = f"{ratios[0]:>8.0f}{ratios[1]:>8.1f}{ratios[2]:>8.2f}"
            print(
                f"  {name:<42}{size:>10,}{seconds:>9.1f}{spent.cpu:>9.1f}{spent.peak / 1e6:>9.0f}"
                + beside
                + (f"  status {spent.status}" if spent.status else ""),
                flush=True,
            )
        shutil.rmtree(where / "subject")
        shutil.rmtree(where / "texts", ignore_errors=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.bench_sizes", description=__doc__
    )
    parser.add_argument("--full", action="store_true", help="the sizes of docs/measured.md")
    parser.add_argument("--only", metavar="WORD", help="subjects with that word in their names")
    parser.add_argument("--others", type=Path, metavar="PYTHON")
    args = parser.parse_args()
    print(HEADS)
    for one in subjects(args.others):
        sizes = one.full if args.full else one.small
        if sizes and (args.only is None or args.only in one.name):
            print(f"{one.name}, {one.unit}", flush=True)
            with tempfile.TemporaryDirectory(prefix="sizes-") as folder:
                measure(one, sizes, Path(folder))
    if args.others is None:
        print(
            "--others PYTHON: tlparse and tritonparse, where that interpreter has them",
            file=sys.stderr,
        )


def ratios() -> Iterator[Ratio]:
    """Ten times as much of something, in processor time and in peak memory."""
    with tempfile.TemporaryDirectory() as temporary:
        for number, (what, sizes, make, call, times) in enumerate((
            ("list a cache of 100 kernels, warm", (10, 100), cache, ours("list", "@"), 2),
            ("list a trace of 40 MB", (4, 40), trace, ours("list", "@"), 1),
            ("show -a in a listing of 200 kernels", (20, 200), listing(kernels),
             ours("show", "@", "k0", "-a"), 1),
        )):  # fmt: skip
            costs = []
            for size in sizes:
                folder = Path(temporary) / f"{number}-{size}"
                argv = call[1](make(folder / "subject", size))
                costs += [[cost(argv, folder / "kept") for _ in range(times)][-1]]
            small, large = costs
            yield Ratio(f"peak memory of: {what}", large.peak / small.peak, "1/10 of it")
            yield Ratio(f"processor time of: {what}", large.cpu / small.cpu, "1/10 of it")


if __name__ == "__main__":
    main()
